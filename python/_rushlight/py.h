/* _rushlight: the C extension.  It uses only the public headers of the library.
 *
 * Values are converted in value_in.c and value_out.c; everything that runs programs releases the
 * GIL.  All mutable state is in the module's state struct, which is found through the type of any
 * of our objects. */
#ifndef RUSH_PY_H
#define RUSH_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "rushlight/backend.h"
#include "rushlight/rushlight.h"

typedef struct py_limits py_limits; /* limits.h */

/* Parts of the package that complete types of the extension. */
typedef enum py_part { PY_PART_TENSOR, PY_PART_IR, PY_PART_MODULE, PY_N_PARTS } py_part;

typedef struct py_state {
  rush_context *context;
  PyTypeObject *tensor_type, *module_type, *method_type, *object_type, *enum_type, *dtype_type;
  PyTypeObject *unit_type, *type_type, *function_type; /* script.h */
  PyTypeObject *exported_type; /* export.h */
  /* qualified name -> Python class of a scripted class, NamedTuple or Enum; or NULL */
  PyObject *classes;
  PyObject *class_types;   /* the inverse: that class -> its Type */
  PyObject *errors; /* name -> exception class, for those that are not Python's own; or NULL */
  PyObject *find_in_package; /* f(name): a function of the package; or NULL before it is imported */
  PyObject *package;       /* name -> what find_in_package found, or NULL */
  PyObject *wrap_object;   /* makes Python's object for a module or future in a result, or NULL */
  PyObject *modules;       /* address of a module's object -> the Module that represents it */
  PyObject *tensors; /* address of a tensor of ours -> the object that a module returns for it */
  PyObject *size_class;    /* of shapes, a subclass of tuple; or NULL: tuple */
  /* class of submodules, and the hook that completes an instance; or NULL: Module itself */
  PyObject *module_class;
  /* while Python traces: called first for calls of functions and methods; or NULL */
  PyObject *call_hook;
  PyTypeObject *ir_types[5]; /* Graph, Block, Node, Value, Type: ir.h */
  PyObject *type_classes;  /* kind of type -> class, or NULL */
  const rush_backend_api *api;
  PyObject *error;         /* rushlight.Error: raised for a program's exceptions */
  PyObject *dtypes[RUSH_N_DTYPES];    /* dtype objects by number, or NULL */
  /* dtype, layout, memory format -> number; filled when torch is first used */
  PyObject *torch_names;
  PyObject *torch_tensor;  /* torch.Tensor once torch is imported, else NULL */
  PyObject *torch_from_dlpack, *torch_increment_version, *torch_grad_enabled,
    *torch_default_dtype, *default_dtype; /* torch.get_default_dtype, and what it last returned */
  PyObject *grad_mode;     /* the context variable of grad_mode.py */
  PyObject *name_torch, *name_is_neg, *name_is_conj, *name_requires_grad;
  const struct py_exchange *exchange; /* torch's (exchange.h), or NULL */
  const struct py_layout *layout;     /* its tensors' memory layout (layout.h), or NULL */
  unsigned long main_thread; /* the thread that runs Python's signal handlers */
  PyTypeObject *cancel_type;
  PyObject *cancelled;       /* rushlight.Cancelled */
  double max_seconds, max_bytes,
    applied_bytes;           /* of set_limits; the context's present limit; 0: none */
  py_limits *budgets;        /* of running calls with a byte limit */
  size_t n_blocks;           /* threads inside `with limits()` */
  bool has_part[PY_N_PARTS]; /* py_import_part has imported it */
  /* the function or module that was called last, borrowed, until it is destroyed; and the method,
   * "" for a name that is too long */
  PyObject *last_called;
  char last_method[128];
} py_state;

/* Import a part, once.  Every function that makes the first object of a type calls this through
 * py_need_part, so that `import rushlight` imports no part.  Returns 0, or -1 with an exception
 * set. */
int py_import_part(py_state *st, py_part part);
static inline int py_need_part(py_state *st, py_part part)
{
  return st->has_part[part] ? 0 : py_import_part(st, part);
}

/* Call a function of the package by the name that the extension knows it by (`_FOR_EXTENSION` of
 * rushlight/__init__.py); NULL with an exception set.  The extension imports nothing of its
 * package: the package hands it `find_in_package` (_set_package). */
PyObject *py_package_call(py_state *st, const char *name, const char *format, ...);
PyObject *py_set_package(PyObject *m, PyObject *find);

/* Let the hook make the call (method NULL: of a Function).  Returns 1 if it did, with the result or
 * NULL and an exception; else 0. */
int py_hooked_call(py_state *st, PyObject *callee, const char *method, PyObject *const *args,
                   size_t n_args, PyObject *kwnames, PyObject **out);

py_state *py_state_of(PyObject *self); /* for any object whose type is ours */

typedef struct py_tensor {
  PyObject_HEAD
  rush_value value; /* RUSH_TAG_TENSOR, owned */
  py_state *state;  /* borrowed: the module outlives its objects */
} py_tensor;

typedef struct py_object { /* ScriptObject and EnumValue */
  PyObject_HEAD
  rush_value value;
  py_state *state;
} py_object;

typedef struct py_module {
  PyObject_HEAD
  rush_module *module; /* NULL: an instance of a Python subclass without a program yet (_adopt) */
  py_state *state;
  /* attribute -> (object, the value it represents): parameters and submodules keep their identity;
   * or NULL */
  PyObject *cache;
  double max_seconds, max_bytes; /* of each call; 0: none */
  /* pytree.Trees of an exported program whose arguments or results contain classes; or NULL */
  PyObject *trees;
  PyObject *recorder;  /* called for calls (recording.py), or NULL */
  PyObject *graphs;    /* method's name -> the Graph that shows it (py_shown_graph); or NULL */
  char is_hooked;      /* calls use Python's _call_impl */
} py_module;

/* -- common.c ---------------------------------------------------------------------------------- */

/* Raise the error in err; clears it.  Returns NULL. */
PyObject *py_raise(py_state *state, rush_error *err);
/* Make a str of a text of the library; frees the text. */
PyObject *py_text_steal(py_state *st, char *text);
/* Like py_text_steal, or raise the error in err. */
PyObject *py_text_or_raise(py_state *st, rush_status status, char *text, rush_error *err);
/* Return None, or raise the error in err. */
PyObject *py_done(py_state *st, rush_status status, rush_error *err);
/* Append an item, which may be NULL: returns 0, or -1 with an exception set. */
int py_append_steal(PyObject *list, PyObject *item);
/* Add a type to the module; NULL with an exception set. */
PyTypeObject *py_add_type(PyObject *m, PyType_Spec *spec);
PyObject *py_ints(const int64_t *v, int n); /* a tuple */
/* Return the buffer protocol's and numpy's format of a dtype; NULL: they have none. */
const char *py_buffer_format(rush_dtype d);
/* Convert the pending exception to a program's error. */
rush_status py_fail_in_call(rush_error *err);
/* Make a copy with memory of its own; new. */
rush_status py_clone(py_state *state, rush_value v, rush_value *out, rush_error *err);
PyObject *py_tensor_wrap(py_state *state, rush_value v); /* retains v */
/* Return an object of that type, a ScriptObject's or an EnumValue's; retains v. */
PyObject *py_value_wrap(py_state *state, PyTypeObject *type, rush_value v);

/* -- torch_state.c ----------------------------------------------------------------------------- */

/* True when torch was imported by someone; no exception. */
int py_find_torch(py_state *state);
/* Call o.method(state) with the bytes of a generator's state in torch's form; -1 with an exception
 * set. */
int py_set_random_state(PyObject *o, const char *method, const char *bytes);
/* Exchange random states around a call with torch, so that torch.manual_seed takes effect. */
int py_sync_generator(py_state *state, bool into_torch);
/* Grad mode: torch's if torch is imported, else that of grad_mode.py. */
typedef enum py_grad_mode { PY_GRAD_OFF, PY_GRAD_ENABLED, PY_GRAD_EXPLICIT } py_grad_mode;
py_grad_mode py_get_grad_mode(py_state *state);
/* Take over the default dtype of torch if it is imported; without it, rushlight's remains.  Called
 * before what may make tensors.  -1 with an exception set. */
int py_sync_default_dtype(py_state *state);

/* -- dtype.c ----------------------------------------------------------------------------------- */

/* Return the number of a dtype: rushlight's, torch's, numpy's or Python's object for it, or its
 * name.  -1 with an exception set. */
int py_dtype_of(py_state *state, PyObject *o);

/* -- module_wrap.c, module_slots.c ------------------------------------------------------------- */

/* Make a module of st->module_class from a module's object; NULL with an exception set. */
PyObject *py_module_wrap(py_state *state, rush_value object, rush_module *root);
/* Make a module of that class from a program (steals). */
PyObject *py_module_make(py_state *state, PyTypeObject *type, rush_module *module);
PyObject *py_module_wrap_steal(py_state *state, rush_module *module);
/* Make the program use the present memory of torch's tensors, which may have changed.  Returns 0,
 * or -1 with an exception set. */
int py_module_refresh(py_module *m);
/* Raise the AttributeError of an instance without a program; returns NULL. */
PyObject *py_no_program(void);
/* Return a text about a module or one of its methods. */
PyObject *py_module_dump(py_module *m, rush_dump what, const char *method);
/* Set an attribute of a program's object from a Python object; returns 0, or -1 with an exception
 * set. */
int py_set_attr(py_state *st, rush_value object, PyObject *name, PyObject *o);

/* -- value_in.c, value_out.c ------------------------------------------------------------------- */

typedef struct py_seen { /* an input tensor, for identity and versions */
  rush_value tensor; /* owned */
  PyObject *object;  /* owned */
  uint32_t version;
  bool is_torch;
  const void *data;
  const char *base; /* of torch's storage and its extent, if known; else NULL */
  size_t n_bytes;
  uint64_t geometry; /* a hash of sizes and strides */
} py_seen;

/* The conversions of one call.  Zero-initialise; py_call_end releases. */
typedef struct py_call {
  py_state *state;
  py_seen *seen; /* a small array, or a grown one */
  size_t n_seen, cap_seen;
  py_seen few[4];
  bool saw_torch, saw_numpy, saw_ours;
  /* torch's generator, which receives the state of `drawn` afterwards; or NULL */
  PyObject *generator;
  rush_value drawn;
  /* accept tensors of torch's device meta; otherwise they are refused: programs cannot run on
   * them */
  bool takes_meta;
  /* of the part of a result being converted: number of containers around it */
  int height;
  PyObject *parts;  /* meanwhile: address of a container in it -> its object; or NULL */
  bool strict_text; /* a result that is not UTF-8 is an error, as in PyTorch */
} py_call;

/* Convert a Python object to our value, new.  -1 with an exception set. */
int py_to_value(py_call *call, PyObject *o, rush_value *out);
/* Return the name of a kind of device by PyTorch's number. */
const char *py_device_name(size_t kind);
/* Convert a value (borrowed) to a Python object.  Tensors become torch's, numpy's or ours, like the
 * call's inputs; an input that is returned is the same object. */
PyObject *py_from_value(py_call *call, rush_value v);
/* Report in-place writes on torch's tensors to torch; -1 with an exception set. */
int py_call_writes(py_call *call);
/* Make a tensor on the memory of any object with __dlpack__; new. */
int py_from_dlpack(py_call *call, PyObject *o, rush_value *out);
void py_call_end(py_call *call);
/* Make the object represent the tensor in the call's results. */
int py_remember(py_call *call, rush_value v, PyObject *o);
/* Convert a tensor to torch's, without a history; new. */
PyObject *py_tensor_to_torch(py_state *state, rush_value v);
/* Return the object whose memory a tensor uses (borrowed), or NULL. */
PyObject *py_tensor_object(const rush_tensor *t);

/* -- tensor_in.c ------------------------------------------------------------------------------- */

/* Make a tensor on the memory of torch's tensor, or of an object with the buffer protocol; recorded
 * for the call.  Returns 0, or -1 with an exception. */
int py_torch_to_value(py_call *call, PyObject *o, rush_value *out);
int py_buffer_to_value(py_call *call, PyObject *o, rush_value *out);
uint64_t py_hash_geometry(const rush_tensor *t);
bool py_is_quantized(int dtype);

/* -- arguments.c ------------------------------------------------------------------------------- */

#define PY_FEW_ARGS 8
/* Positional and keyword arguments (vectorcall layout) as values: never copied, since the rows of
 * few arguments are inside.  Functions return 0, or -1 with an exception set; py_args_free frees
 * what they made. */
typedef struct py_args {
  rush_value *args;
  rush_named_value *named;
  size_t n_args, n_named;
  rush_value few[PY_FEW_ARGS];
  rush_named_value few_named[PY_FEW_ARGS];
} py_args;
int py_args_convert(py_call *call, PyObject *const *args, size_t n_args, PyObject *kwnames,
                    py_args *out);
void py_args_free(py_args *a);

/* True if a tensor among the converted arguments requires grad. */
bool py_args_require_grad(const py_call *call);

/* -- call.c ------------------------------------------------------------------------------------ */

/* Call without the GIL: units have a lock, and its holder may call Python.  So it is never waited
 * for with the GIL. */
#define WITHOUT_GIL(call)   \
  do {                      \
    Py_BEGIN_ALLOW_THREADS  \
    call;                   \
    Py_END_ALLOW_THREADS    \
  } while (0)

typedef struct py_callee { /* a function, or a method of a module or of an object */
  rush_function *function;
  rush_module *module;
  rush_context *context; /* of the object */
  rush_value object;     /* borrowed */
  const char *method;
  PyObject *owner;       /* its module or object in Python, or NULL; borrowed */
  PyObject *called;      /* the function's or the module's object, or NULL; borrowed */
  bool is_random; /* may draw numbers, with torch's generator */
  PyObject *buffers; /* a tuple: output buffers, None for outputs without one; or NULL */
  bool *copied;      /* set for buffers that received a copy */
  /* prepare the module's method for such a call (rush_module_prepare); the result is None */
  bool prepares;
} py_callee;
/* Run the callee without the GIL; returns its result for Python, or NULL with an exception.  Ends
 * the call and frees the arguments. */
PyObject *py_run_steal(py_call *call, py_args *a, const py_callee *callee);

/* -- A module's state -------------------------------------------------------------------------- */

/* These wait for the module's lock, whose holder may need the GIL, so they release it. */
#define PY_UNLOCKED(type, name, params, args) \
  static inline type py_unlocked_##name params \
  {                                            \
    type result;                               \
    Py_BEGIN_ALLOW_THREADS                     \
    result = rush_##name args;                 \
    Py_END_ALLOW_THREADS                       \
    return result;                             \
  }
PY_UNLOCKED(rush_value, object_attr, (rush_value object, const char *name), (object, name))
PY_UNLOCKED(rush_status, object_set_attr,
            (rush_context * c, rush_value object, const char *name, rush_value v, rush_error *err),
            (c, object, name, v, err))
PY_UNLOCKED(size_t, module_n_state, (rush_module *m), (m))
PY_UNLOCKED(rush_status, module_state_at,
            (rush_module * m, size_t i, char **name, bool *is_parameter, rush_value *out,
             rush_error *err),
            (m, i, name, is_parameter, out, err))
PY_UNLOCKED(rush_status, module_set_state,
            (rush_module * m, const char *name, rush_value v, rush_error *err), (m, name, v, err))
PY_UNLOCKED(rush_status, module_copy, (rush_module * m, rush_module **out, rush_error *err),
            (m, out, err))
PY_UNLOCKED(rush_status, module_dump,
            (rush_module * m, rush_dump what, const char *method, char **out, rush_error *err),
            (m, what, method, out, err))
PY_UNLOCKED(rush_status, module_freeze,
            (rush_module * m, const rush_freeze_options *o, rush_module **out, rush_error *err),
            (m, o, out, err))
PY_UNLOCKED(rush_status, module_optimize_frozen,
            (rush_module * m, const rush_freeze_options *o, rush_error *err), (m, o, err))

/* -- make.c ------------------------------------------------------------------------------------ */

PyObject *py_as_tensor(PyObject *m, PyObject *args, PyObject *kwargs);
PyObject *py_tensor_new(PyObject *m, PyObject *args, PyObject *kwargs);
PyObject *py_import_dlpack(PyObject *m, PyObject *o);

/* -- tensor.c, module.c, operator.c ------------------------------------------------------------ */

int py_add_tensor_type(PyObject *m, py_state *state);
int py_add_module_types(PyObject *m, py_state *state);
int py_add_method_type(PyObject *m, py_state *state); /* method.c */
int py_add_object_types(PyObject *m, py_state *state);
/* Make a bound method of a module or of a script object. */
PyObject *py_method_new(py_state *st, PyObject *owner, const char *name);
PyObject *py_freeze(PyObject *m, PyObject *args);
PyObject *py_set_error(PyObject *m,
                       PyObject *args); /* sets which exception a class' errors are raised as */
/* Give results of a recorded call that have a history one in torch, before they are converted
 * (gradient.c).  `owner` (or NULL) is the module whose method it was. */
int py_connect(py_call *call, PyObject *owner, const rush_value *values, size_t n);
/* While the call runs, torch keeps the gradients of its tensors that the program computes.
 * Zero-initialise, then call py_host_begin. */
typedef struct py_gradient_host {
  rush_gradient_host host;
  py_call *call;
  PyObject *owner; /* borrowed, or NULL */
} py_gradient_host;
const rush_gradient_host *py_host_begin(py_gradient_host *h, py_call *call, PyObject *owner);
PyObject *py_run_gradients(PyObject *m, PyObject *args);
PyObject *py_gradient_leaves(PyObject *m, PyObject *list);
PyObject *py_to_torch(PyObject *m, PyObject *o);
PyObject *py_from_torch(PyObject *m, PyObject *o);
PyObject *py_touch(PyObject *m, PyObject *o);
PyObject *py_address(PyObject *m, PyObject *o);
PyObject *py_set_size_class(PyObject *m, PyObject *type);
PyObject *py_call_operator(PyObject *m, PyObject *const *args, Py_ssize_t n_args,
                           PyObject *kwnames);
/* Call an operator by name with Python objects: torch's, numpy's or our tensors. */
PyObject *py_operator(py_state *state, const char *name, PyObject *const *args, size_t n_args,
                      PyObject *kwnames);

#endif
