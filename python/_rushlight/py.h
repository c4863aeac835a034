/* _rushlight: the C extension.  Only the public header of the library is used.
 *
 * Values cross the border in convert.c; everything that runs programs releases the GIL.  All
 * mutable state is in the module's state struct, found through the type of any of our objects. */
#ifndef RUSH_PY_H
#define RUSH_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "rushlight/backend.h"
#include "rushlight/rushlight.h"

typedef struct py_limits py_limits; /* limits.h */

/* Parts of the package that finish types of the extension. */
typedef enum py_part { PY_PART_TENSOR, PY_PART_IR, PY_PART_MODULE, PY_N_PARTS } py_part;

typedef struct py_state {
  rush_context *context;
  PyTypeObject *tensor_type, *module_type, *method_type, *object_type, *enum_type, *dtype_type;
  PyTypeObject *unit_type, *type_type, *function_type; /* script.h */
  /* qualified name -> Python class of a scripted class, NamedTuple or Enum; or NULL */
  PyObject *classes;
  PyObject *class_types;   /* and that class -> its Type */
  PyObject *errors;        /* name -> class of exceptions that are not Python's own; or NULL */
  PyObject *find_in_package; /* f(name): a function of the package; or NULL before it is imported */
  PyObject *package;       /* name -> what find_in_package found, or NULL */
  PyObject *wrap_object;   /* makes what Python sees of a module or future in a result, or NULL */
  PyObject *modules;       /* address of a module's object -> of the Module that stands for it */
  PyObject *tensors; /* address of a tensor of ours -> of the object that a module shows for it */
  PyObject *size_class;    /* of shapes, a subclass of tuple; or NULL: tuple */
  /* of submodules, and the hook that finishes an instance; or NULL: Module itself */
  PyObject *module_class;
  /* while Python traces: told of calls of functions and methods first; or NULL */
  PyObject *call_hook;
  PyTypeObject *ir_types[5]; /* Graph, Block, Node, Value, Type: ir.h */
  PyObject *type_classes;  /* kind of type -> class, or NULL */
  const rush_backend_api *api;
  PyObject *error;         /* rushlight.Error: what a program raised */
  PyObject *dtypes[RUSH_N_DTYPES];    /* dtype objects by number, or NULL */
  PyObject *torch_names; /* dtype, layout, memory format -> number; filled at first use of torch */
  PyObject *torch_tensor;  /* torch.Tensor once torch was seen, or NULL */
  PyObject *torch_from_dlpack, *torch_increment_version, *torch_grad_enabled;
  PyObject *grad_mode;     /* the context variable of grad_mode.py */
  PyObject *name_is_neg, *name_is_conj, *name_requires_grad;
  const struct py_exchange *exchange; /* torch's (exchange.h), or NULL */
  const struct py_layout *layout;     /* its tensors' (layout.h), or NULL */
  unsigned long main_thread; /* where Python's signal handlers run */
  PyTypeObject *cancel_type;
  PyObject *cancelled;       /* rushlight.Cancelled */
  double max_seconds, max_bytes,
    applied_bytes;           /* of set_limits; what the context has now; 0: none */
  py_limits *budgets;        /* of calls that run and brought bytes along */
  size_t n_blocks;           /* threads that are inside of `with limits()` */
  bool has_part[PY_N_PARTS]; /* py_import_part has imported it */
} py_state;

/* Import a part, once.  Everything that makes the first object of a type calls this through
 * py_need_part, so that `import rushlight` loads no part.  0, or -1 with an exception set. */
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

/* Has the hook made the call (method NULL: of a Function)?  1, with the result or NULL and an
 * exception; else 0. */
int py_hooked_call(py_state *st, PyObject *callee, const char *method, PyObject *const *args,
                   size_t n_args, PyObject *kwnames, PyObject **out);

py_state *py_state_of(PyObject *self); /* of any object whose type is ours */

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
  rush_module *module; /* NULL: an instance of a Python subclass that is no program yet (_adopt) */
  py_state *state;
  /* attribute -> (object, what it stands for): parameters and submodules keep their identity; or
   * NULL */
  PyObject *cache;
  double max_seconds, max_bytes; /* of each call; 0: none */
  /* pytree.Trees of an exported program whose arguments or results have classes; or NULL */
  PyObject *trees;
  PyObject *recorder;  /* is told of calls (recording.py), or NULL */
  char is_hooked;      /* calls go through Python's _call_impl */
} py_module;

/* -- common.c ---------------------------------------------------------------------------------- */

/* Raise what err says; clears it.  Returns NULL. */
PyObject *py_raise(py_state *state, rush_error *err);
/* A str of a text of the library, which it frees. */
PyObject *py_text_steal(py_state *st, char *text);
/* The same, or what err says. */
PyObject *py_text_or_raise(py_state *st, rush_status status, char *text, rush_error *err);
/* None, or what err says. */
PyObject *py_done(py_state *st, rush_status status, rush_error *err);
/* Append an item, which may be NULL: 0, or -1 with an exception set. */
int py_append_steal(PyObject *list, PyObject *item);
/* A type of the module; NULL with an exception set. */
PyTypeObject *py_add_type(PyObject *m, PyType_Spec *spec);
PyObject *py_ints(const int64_t *v, int n); /* a tuple */
/* The buffer protocol's and numpy's format of a dtype, or NULL: they have none. */
const char *py_buffer_format(rush_dtype d);
/* The pending exception as a program's error. */
rush_status py_fail_in_call(rush_error *err);
/* A copy with memory of its own; new. */
rush_status py_clone(py_state *state, rush_value v, rush_value *out, rush_error *err);
PyObject *py_tensor_wrap(py_state *state, rush_value v); /* retains v */
/* An object of that type, a ScriptObject's or an EnumValue's; retains v. */
PyObject *py_value_wrap(py_state *state, PyTypeObject *type, rush_value v);

/* -- torch_state.c ----------------------------------------------------------------------------- */

/* True when torch was imported by someone; no exception. */
int py_find_torch(py_state *state);
/* o.method(the state as torch has it): the bytes of a generator's state; -1 with an exception set.
 */
int py_set_random_state(PyObject *o, const char *method, const char *bytes);
/* Around a call: torch's random state, so that torch.manual_seed counts. */
int py_sync_generator(py_state *state, bool into_torch);
/* Grad mode: torch's once torch is imported, else the one of grad_mode.py. */
typedef enum py_grad_mode { PY_GRAD_OFF, PY_GRAD_ENABLED, PY_GRAD_EXPLICIT } py_grad_mode;
py_grad_mode py_get_grad_mode(py_state *state);

/* -- dtype.c ----------------------------------------------------------------------------------- */

/* The number of a dtype: rushlight's, torch's, numpy's or Python's object for it, or its name.  -1
 * with an exception set. */
int py_dtype_of(py_state *state, PyObject *o);

/* -- module_wrap.c, module_slots.c ------------------------------------------------------------- */

/* A module of st->module_class around a module's object; NULL with an exception set. */
PyObject *py_module_wrap(py_state *state, rush_value object, rush_module *root);
/* A module of that class around a program (steals). */
PyObject *py_module_make(py_state *state, PyTypeObject *type, rush_module *module);
PyObject *py_module_wrap_steal(py_state *state, rush_module *module);
/* Tensors of torch's may have got other memory: the program follows.  0, or -1 with an exception
 * set. */
int py_module_refresh(py_module *m);
/* NULL, with the AttributeError of an instance that is no program yet. */
PyObject *py_no_program(void);
/* A text about a module or one of its methods. */
PyObject *py_module_dump(py_module *m, rush_dump what, const char *method);
/* An attribute of a program's object from a Python object; 0, or -1 with an exception set. */
int py_set_attr(py_state *st, rush_value object, PyObject *name, PyObject *o);

/* -- convert.c --------------------------------------------------------------------------------- */

typedef struct py_seen { /* an input tensor, for identity and versions */
  rush_value tensor; /* owned */
  PyObject *object;  /* owned */
  uint32_t version;
  bool is_torch;
  const void *data;
  const char *base; /* of torch's storage and its extent, where known; else NULL */
  size_t n_bytes;
  uint64_t geometry; /* a hash of sizes and strides */
} py_seen;

/* One call's conversions.  Zero-initialise; py_call_end releases. */
typedef struct py_call {
  py_state *state;
  py_seen *seen; /* few, or grown */
  size_t n_seen, cap_seen;
  py_seen few[4];
  bool saw_torch, saw_numpy, saw_ours;
  PyObject *generator; /* torch's, which gets the state back that `drawn` is left in; or NULL */
  rush_value drawn;
  /* tensors of torch's device meta; else they are refused: programs do not run on them */
  bool takes_meta;
  /* of the part of a result that is being converted: so many containers are around it */
  int height;
  PyObject *parts;  /* while one is: address of a container in it -> its object; or NULL */
  bool strict_text; /* a result that is no UTF-8 is an error, as in PyTorch */
} py_call;

/* Our value for a Python object, new.  -1 with an exception set. */
int py_to_value(py_call *call, PyObject *o, rush_value *out);
/* A Python object for a value (borrowed).  Tensors become torch's, numpy's or ours as the call's
 * inputs were; an input returned is the same object. */
PyObject *py_from_value(py_call *call, rush_value v);
/* Tell torch about in-place writes to its tensors; -1 with an exception set. */
int py_call_writes(py_call *call);
/* A tensor on the memory of any object with __dlpack__; new. */
int py_from_dlpack(py_call *call, PyObject *o, rush_value *out);
void py_call_end(py_call *call);
/* The object stands for the tensor in the call's results. */
int py_remember(py_call *call, rush_value v, PyObject *o);
/* A tensor as torch's, without a history; new. */
PyObject *py_tensor_to_torch(py_state *state, rush_value v);
/* The object whose memory a tensor uses (borrowed), or NULL. */
PyObject *py_tensor_object(const rush_tensor *t);

/* -- tensor_in.c ------------------------------------------------------------------------------- */

/* A tensor on the memory of torch's tensor, or of an object with the buffer protocol; remembered
 * for the call.  0, or -1 with an exception. */
int py_torch_to_value(py_call *call, PyObject *o, rush_value *out);
int py_buffer_to_value(py_call *call, PyObject *o, rush_value *out);
uint64_t py_hash_geometry(const rush_tensor *t);
bool py_is_quantized(int dtype);

/* -- call.c ------------------------------------------------------------------------------------ */

/* Units lock; whoever holds the lock may ask Python.  So it is never waited for with the GIL. */
#define WITHOUT_GIL(call)   \
  do {                      \
    Py_BEGIN_ALLOW_THREADS  \
    call;                   \
    Py_END_ALLOW_THREADS    \
  } while (0)

/* Positional and keyword arguments (vectorcall layout) as values.  0, or -1 with an exception set.
 * */
typedef struct py_args {
  rush_value *args;
  rush_named_value *named;
  size_t n_args, n_named;
} py_args;
int py_args_convert(py_call *call, PyObject *const *args, size_t n_args, PyObject *kwnames,
                    py_args *out);
void py_args_free(py_args *a);

/* True if a tensor among the converted arguments requires grad. */
bool py_args_require_grad(const py_call *call);

typedef struct py_callee { /* a function, or a method of a module or of an object */
  rush_function *function;
  rush_module *module;
  rush_context *context; /* of the object */
  rush_value object;     /* borrowed */
  const char *method;
  PyObject *owner;       /* the module or object in Python, or NULL; borrowed */
  bool is_random; /* may draw numbers: with torch's generator */
  PyObject *buffers; /* a tuple: for outputs, None where there is none; or NULL */
  bool *copied;      /* of which a copy was made */
  /* the module's method is prepared for such a call (rush_module_prepare); the result is None */
  bool prepares;
} py_callee;
/* Run it without the GIL; its result for Python, or NULL with an exception.  Ends the call and
 * frees the arguments. */
PyObject *py_run_steal(py_call *call, py_args *a, const py_callee *callee);

/* -- A module's state -------------------------------------------------------------------------- */

/* These wait for the module's lock, whose holder may need the GIL: without it meanwhile. */
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
/* A bound method of a module or of a script object. */
PyObject *py_method_new(py_state *st, PyObject *owner, const char *name);
PyObject *py_freeze(PyObject *m, PyObject *args);
PyObject *py_set_error(PyObject *m,
                       PyObject *args); /* what errors of a class' name are raised as */
/* gradient.c: what of a recorded call's results has a history gets one in torch: before they are
 * converted.  `owner` (or NULL) is the module whose method it was. */
int py_connect(py_call *call, PyObject *owner, const rush_value *values, size_t n);
/* While the call runs, torch keeps the gradients of its tensors that the program asks for.
 * Zero-initialise, then py_host_begin. */
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
/* Call an operator by name with Python objects; torch, numpy or our tensors. */
PyObject *py_operator(py_state *state, const char *name, PyObject *const *args, size_t n_args,
                      PyObject *kwnames);

#endif
