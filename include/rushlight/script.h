/* script.h -- for authors of language bindings: compile the live functions and classes of a host
 * language.
 *
 * A unit is a growing program: functions, classes, modules' types.  The host (Python) says what a
 * name means where a function stands; the compiler asks it through rush_host, and reads source
 * texts that the host gave it.  What a function calls is compiled when it is met.
 *
 * Threads and locks.  A unit is locked inside; adding to it takes its lock, which is held while the
 * host is asked, so a host that has a lock of its own (Python's GIL) releases it before every call
 * of a function here that takes a unit and takes it again inside its callbacks.  Callbacks may add
 * to the unit (the lock is recursive); they return a status and never jump.
 *
 * Words of ownership (new, borrowed, steals), errors and contexts: rushlight.h.  Functions and
 * types are borrowed from their unit and live as long; types are interned: the same type is the
 * same pointer.  struct_bytes grows at the end only. */
#ifndef RUSHLIGHT_SCRIPT_H
#define RUSHLIGHT_SCRIPT_H

#include <rushlight/rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_unit rush_unit;
typedef struct rush_function rush_function;
typedef struct rush_type rush_type;
typedef struct rush_source
  rush_source; /* a text, of which functions are parts; borrowed from its unit */

/* -- Calls that end early ---------------------------------------------------------------------- */

/* While a call runs, interrupt(user) is asked about every 30 ms, on threads that work for it (the
 * one that entered it, and the pool's); true ends the call with RUSH_ECANCELLED within 50 ms,
 * wherever it is.  For hosts that look at signals.  It may call into the library. NULL: nobody is
 * asked.  Not while calls run. */
RUSH_API void rush_context_set_interrupt(rush_context *c, bool (*interrupt)(void *user),
                                         void *user);
/* Another limit on the bytes in use of a context whose options named none; 0: none again.  It holds
 * to within 64 KB a thread, and may be set while calls run.  RUSH_EARGUMENT: the options named one,
 * which stays. */
RUSH_API rush_status rush_context_set_limit_bytes(rush_context *c, size_t n_bytes,
                                                  rush_error *err) RUSH_CHECKED;

/* -- What names mean --------------------------------------------------------------------------- */

typedef enum rush_name_kind {
  /* the host does not know it: the language's own names come next, then the error */
  RUSH_NAME_UNKNOWN,
  /* text: what it is in Python: "torch.relu", "math.sqrt", "len", "torch.jit.annotate",
   * "torch.float32" */
  RUSH_NAME_PATH,
  RUSH_NAME_OPERATOR,  /* text: "aten::relu" */
  RUSH_NAME_FUNCTION,  /* functions[0] */
  RUSH_NAME_OVERLOADS, /* functions[n]: the first that takes the arguments */
  RUSH_NAME_DISPATCH, /* items[1] where the argument `text` (or number `index`, or `flag` when it is not given), a constant, is true, else
                        * items[0] */
  /* type: a class to construct, a NamedTuple, an Enum, or an annotation used as a value */
  RUSH_NAME_TYPE,
  RUSH_NAME_VALUE, /* value (new) and type (NULL: the value's own): a constant where it is used */
  RUSH_NAME_TUPLE, /* items[n]: several names, unpacked at compile time */
  /* object: something of the host whose attributes host->attr knows; text: its kind, in messages */
  RUSH_NAME_OBJECT,
  RUSH_NAME_HOST_CALL, /* object and functions[0], declared for its signature: stays in the host, a call runs host->call; flag: the
                        * value whose attribute was asked for is its first argument */
  RUSH_NAME_EXCEPTION, /* text: "builtins.ValueError" or a user's class */
  RUSH_NAME_METHOD,    /* functions[0], of the object whose attribute was asked for */
  RUSH_NAME_UNUSED,    /* as HOST_CALL, but a call raises the text in `message` */
  RUSH_NAME_HIDDEN     /* text: why the attribute cannot be used */
} rush_name_kind;

typedef struct rush_name rush_name;
struct rush_name { /* zeroed when the host is asked */
  rush_name_kind kind;
  bool flag;
  int64_t index;
  const char *text, *message;
  rush_function *const *functions;
  const rush_name *items;
  size_t n;            /* of functions or items */
  const rush_type *type;
  rush_value value;    /* new */
  void *object;        /* given: host->release gets it */
  /* host->release gets it when the unit has read the rest, which it may hold; or NULL */
  void *owner;
};

/* Start from a zeroed struct.  Entries may be NULL where it is said. */
typedef struct rush_host {
  size_t struct_bytes; /* sizeof(rush_host) */
  void *user;
  /* A free name of a function whose scope this is. */
  rush_status (*name)(void *user, void *scope, const char *name, rush_name *out, rush_error *err);
  /* An attribute of a RUSH_NAME_OBJECT. */
  rush_status (*attr)(void *user, void *object, const char *name, rush_name *out, rush_error *err);
  /* A name in an annotation, "a.b.C"; NULL: unknown. */
  rush_status (*type)(void *user, void *scope, const char *dotted, const rush_type **out,
                      rush_error *err);
  /* What objects of a class have beyond attributes, constants and methods; `object` is the class's.
   *  NULL: nothing. */
  rush_status (*class_attr)(void *user, void *object, const char *name, rush_name *out,
                            rush_error *err);
  /* The default of a parameter, of its type; UNSET: what the text says, UNSET whose aux is 1: there
   * is none after all. NULL: always what the text says. */
  rush_status (*default_value)(void *user, void *scope, const char *name, const rush_type *type,
                               rush_value *out, rush_error *err);
  /* A call of RUSH_NAME_HOST_CALL at run time; *result is new and of `type`. */
  rush_status (*call)(void *user, void *object, const rush_value *args, size_t n,
                      const rush_type *type, rush_value *result, rush_error *err);
  /* Objects and scopes that the unit was given. */
  void (*release)(void *user, void *object);
  bool gives_user; /* the unit owns `user`: release(user, user) is its last call */
} rush_host;

/* What a callback returns when it fails: fills err (may be NULL) with a Python exception's class (a
 * static string) and a message, which is copied.  Returns status. */
RUSH_API rush_status rush_host_fail(rush_error *err, rush_status status, const char *type,
                                    const char *message);

/* -- Units ------------------------------------------------------------------------------------- */

/* The host is copied; `user` lives as long as the unit.  When it is refused, a given `user` stays
 * the caller's. */
RUSH_API rush_status rush_unit_create(rush_context *c, const rush_host *host, rush_unit **out,
                                      rush_error *err) RUSH_CHECKED;
RUSH_API rush_unit *rush_unit_retain(rush_unit *u);
RUSH_API void rush_unit_release(rush_unit *u);
/* A file's text, from its line 1 (first_line: the number of the text's first line); copied. */
RUSH_API rush_status rush_unit_add_source(rush_unit *u, const char *file, const char *text,
                                          size_t n_bytes, uint32_t first_line, rush_source **out,
                                          rush_error *err) RUSH_CHECKED;

typedef struct rush_function_def {
  size_t struct_bytes;
  /* qualified, "__torch__.pkg.f", made unique when it is taken; of a method its own, "forward" */
  const char *name;
  rush_source *source;
  uint32_t line;         /* of the first decorator or of "def", as counted in the source */
  void *scope;           /* for host->name, type and default_value; given: host->release gets it */
  const rush_type *self; /* the class of a method, or NULL */
  bool is_static;        /* a method without self */
  bool is_hook;          /* a function of the class that no name finds: rush_class_add_hook */
  bool is_declared_only; /* an interface's method: no body */
  bool is_class_method;  /* a method whose first parameter is the class: called on objects */
  rush_source *signature; /* where the signature is read instead (an overload's), or NULL */
  uint32_t signature_line;
  const char *drop_body; /* calls raise this text; NULL: the body counts */
} rush_function_def;
#define RUSH_FUNCTION_DEF_INIT                                                                 \
  {                                                                                            \
    sizeof(rush_function_def), NULL, NULL, 0, NULL, NULL, false, false, false, false, NULL, 0, \
      NULL                                                                                     \
  }

/* Declares: the signature is read.  Calls compile the body, or rush_function_compile does, with all
 * that was declared meanwhile; one that failed can be tried again. */
RUSH_API rush_status rush_unit_define(rush_unit *u, const rush_function_def *def,
                                      rush_function **out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_function_compile(rush_function *f, rush_error *err) RUSH_CHECKED;
/* The functions of a text, "def" behind "def", with the qualified names prefix + name: all are
 * declared, then compiled.  They know each other by name, before the host is asked.  `scope` is
 * given, as in rush_function_def, and released before this returns.  On failure nothing is added.
 * */
RUSH_API rush_status rush_unit_define_text(rush_unit *u, rush_source *source, const char *prefix,
                                           void *scope, rush_error *err) RUSH_CHECKED;
/* Function i of all that rush_unit_define_text added, in order; NULL: there are fewer. */
RUSH_API rush_function *rush_unit_text_function(rush_unit *u, size_t i);
/* The unit that a function is of: borrowed. */
RUSH_API rush_unit *rush_function_unit(const rush_function *f);
/* Positional and named arguments; options may be NULL.  *result is new. */
RUSH_API rush_status rush_function_call(rush_function *f, const rush_value *args, size_t n_args,
                                        const rush_named_value *named, size_t n_named,
                                        const rush_call_options *options, rush_value *result,
                                        rush_error *err) RUSH_CHECKED;
RUSH_API const char *rush_function_name(const rush_function *f); /* qualified */

typedef struct rush_argument {
  const char *name;
  const rush_type *type;
  bool has_default, keyword_only;
  int32_t fixed_len; /* of a list that one number may stand for, else 0 */
  bool is_inferred; /* a Tensor because nothing says what it is */
} rush_argument;
/* Parameters (a method's self is one). */
RUSH_API size_t rush_function_n_args(const rush_function *f);
RUSH_API bool rush_function_arg(const rush_function *f, size_t i, rush_argument *out);
/* May parameter i be an undefined tensor, a RUSH_TAG_TENSOR that is NULL?  Operators refuse these:
 * it may when it is only given back. */
RUSH_API bool rush_function_takes_undefined(rush_function *f, size_t i);
/* May a call draw random numbers?  Compiles the body. */
RUSH_API bool rush_function_is_random(rush_function *f);
/* NULL while it is not annotated and the body not compiled. */
RUSH_API const rush_type *rush_function_result(const rush_function *f);
/* RUSH_DUMP_GRAPH, RUSH_DUMP_SCHEMA, RUSH_DUMP_OPTIMIZED, RUSH_DUMP_BYTECODE; new text
 * (rush_free_text). */
RUSH_API rush_status rush_function_dump(rush_function *f, rush_dump what, char **out,
                                        rush_error *err) RUSH_CHECKED;
/* A new module whose method "forward" is the function. */
RUSH_API rush_status rush_function_module(rush_function *f, rush_module **out,
                                          rush_error *err) RUSH_CHECKED;

/* A function whose graph is this text, in PyTorch's notation: free (self NULL), or a method whose
 * first input is the object. constants[n_constants] are the tensors of `%c : Tensor =
 * prim::Constant[value=<Tensor>]()`, in order.  The graph is verified. */
RUSH_API rush_status rush_unit_define_graph(rush_unit *u, const char *name, const rush_type *self,
                                            const char *graph, const rush_value *constants,
                                            size_t n_constants, rush_function **out,
                                            rush_error *err) RUSH_CHECKED;

/* -- Tracing ----------------------------------------------------------------------------------- */

/* From begin to end every call of an operator (rush_op_call, rush_op_run) and of a program's
 * function that this thread makes in the context is recorded, and becomes a function of the inputs.
 *  Values are told apart by identity: tensors, and lists, tuples and dicts of them. A tensor that
 *  neither came in nor was given by a recorded call is a constant.  Numbers that recorded operators
 *  gave (aten::size ...) stay
 * values as long as the rush_value is handed on as it is; what C code computes of them is a
 * constant.  Functions of programs stay calls. Views, and operators that write, mean what they mean
 * when they run again. */
typedef struct rush_trace rush_trace;
/* names may be NULL, and so may each of them.  One thread; traces of other threads or nested ones
 * do not disturb it. */
RUSH_API rush_status rush_trace_begin(rush_context *c, const rush_value *inputs,
                                      const char *const *names, size_t n, rush_trace **out,
                                      rush_error *err) RUSH_CHECKED;
/* The end, and of the trace too, also when it fails: *out, new, is a module whose forward takes n
 * inputs and gives the output, or a tuple where there are several.  The thread that began it. */
RUSH_API rush_status rush_trace_end(rush_trace *t, const rush_value *outputs, size_t n_outputs,
                                    rush_module **out, rush_error *err) RUSH_CHECKED;
RUSH_API void rush_trace_cancel(rush_trace *t); /* NULL: nothing */

/* -- Recorders --------------------------------------------------------------------------------- */

/* A trace whose calls the host sees itself, because another library runs them: the host reports
 * each one, and the recorder builds the graph.  Values are numbers from 1 on that the recorder
 * gave; 0 is none.  Every function that takes a recorder locks its unit.
 *
 * Types are texts in PyTorch's notation, "Float(2, 3, strides=[3, 1], requires_grad=0,
 * device=cpu)". Places are the host's frames, innermost first, "f.py(7): f\n" each; NULL: nowhere.
 * Names and numbers of values follow PyTorch's tracer. */
typedef struct rush_recorder rush_recorder;
typedef struct rush_graph rush_graph; /* backend.h */

/* Create a recorder for a method of `self`, or for a function (self NULL). */
RUSH_API rush_status rush_recorder_create(rush_unit *u, const rush_type *self, rush_recorder **out,
                                          rush_error *err) RUSH_CHECKED;
RUSH_API void rush_recorder_release(rush_recorder *r); /* NULL: nothing */
/* Add an input; a name that graph text cannot have, or NULL, leaves it unnamed. */
RUSH_API rush_status rush_recorder_input(rush_recorder *r, const char *name, const char *type,
                                         uint32_t *out, rush_error *err) RUSH_CHECKED;
/* Find a parameter, buffer or submodule of the traced module: "layer1.0.weight". */
RUSH_API rush_status rush_recorder_attribute(rush_recorder *r, const char *path, uint32_t *out,
                                             rush_error *err) RUSH_CHECKED;
/* Add a constant; type NULL: the value's own.  A tensor shares its memory with `value`. */
RUSH_API rush_status rush_recorder_constant(rush_recorder *r, rush_value value, const char *type,
                                            const char *where, uint32_t *out,
                                            rush_error *err) RUSH_CHECKED;

typedef struct rush_recorded { /* one node; zero what does not apply */
  size_t struct_bytes;
  const char *kind;      /* "aten::add", "prim::TupleUnpack", "prim::CallMethod" ... */
  rush_function *callee; /* of prim::CallFunction; for "^Name", the function that calls the host */
  const char *method;    /* of prim::CallMethod, whose first input is the submodule */
  const char *host_attrs, *host_scalars; /* what text shows of a call of the host: "^Name[a](s)" */
  const uint32_t *inputs;
  size_t n_inputs;
  const char *const *types; /* of the outputs; NULL, also one of them: as the inputs' types say */
  size_t n_outputs;
  const char *where;
  uint32_t after; /* place the node behind what gives this value; 0: at the end */
} rush_recorded;
#define RUSH_RECORDED_INIT                                                                 \
  {                                                                                        \
    sizeof(rush_recorded), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0         \
  }
/* Add a node; outputs[n_outputs] receives its values. */
RUSH_API rush_status rush_recorder_add(rush_recorder *r, const rush_recorded *node,
                                       uint32_t *outputs, rush_error *err) RUSH_CHECKED;
/* Give a value a debug name; an older value of that name gets another. */
RUSH_API rush_status rush_recorder_set_name(rush_recorder *r, uint32_t value, const char *name,
                                            rush_error *err) RUSH_CHECKED;
/* Leave out n numbers of values: where PyTorch's tracer has values that the host did not record. */
RUSH_API void rush_recorder_skip(rush_recorder *r, uint32_t n);
/* Begin a call of the submodule at `path`, which becomes a method, or (NULL) a task. */
RUSH_API rush_status rush_recorder_open(rush_recorder *r, const char *path,
                                        rush_error *err) RUSH_CHECKED;
/* End it.  A task that gave `result` is a future from here on: *out; else *out is 0. */
RUSH_API rush_status rush_recorder_close(rush_recorder *r, uint32_t result, uint32_t *out,
                                         rush_error *err) RUSH_CHECKED;
/* End the trace, which returns `output`: unused nodes go, calls of submodules become methods.
 * *n_functions: how many there are, callees first, the traced function last. */
RUSH_API rush_status rush_recorder_finish(rush_recorder *r, uint32_t output, size_t *n_functions,
                                          rush_error *err) RUSH_CHECKED;
/* Copy the graph of function i, to compare it with another trace's: values are numbered in order,
 * types without shapes.  Before rush_recorder_define.  New (backend.h: graph_release). */
RUSH_API rush_status rush_recorder_graph(rush_recorder *r, size_t i, rush_graph **out,
                                         rush_error *err) RUSH_CHECKED;
/* Define the functions in the unit, once: *out is the method `name` of the class, or a free
 * function, whose name is made unique. */
RUSH_API rush_status rush_recorder_define(rush_recorder *r, const char *name, rush_function **out,
                                          rush_error *err) RUSH_CHECKED;

/* -- Types ------------------------------------------------------------------------------------- */

typedef enum rush_type_kind {
  RUSH_TYPE_OTHER,
  RUSH_TYPE_ANY,
  RUSH_TYPE_NONE,
  RUSH_TYPE_TENSOR,
  RUSH_TYPE_BOOL,
  RUSH_TYPE_INT,
  RUSH_TYPE_FLOAT,
  RUSH_TYPE_COMPLEX,
  RUSH_TYPE_NUMBER,
  RUSH_TYPE_STRING,
  RUSH_TYPE_DEVICE,
  RUSH_TYPE_GENERATOR,
  RUSH_TYPE_STORAGE,
  RUSH_TYPE_STREAM,
  RUSH_TYPE_LIST,
  RUSH_TYPE_OPTIONAL,
  RUSH_TYPE_DICT,
  RUSH_TYPE_TUPLE,
  RUSH_TYPE_UNION,
  RUSH_TYPE_FUTURE, /* have elements */
  RUSH_TYPE_CLASS,
  RUSH_TYPE_INTERFACE,
  RUSH_TYPE_ENUM,
  RUSH_TYPE_AWAIT /* has an element */
} rush_type_kind;

RUSH_API rush_type_kind rush_type_kind_of(const rush_type *t);
RUSH_API size_t rush_type_n_elems(const rush_type *t);
RUSH_API const rush_type *rush_type_elem(const rush_type *t, size_t i);
/* Qualified name of a class, interface, enum or NamedTuple, or NULL. */
RUSH_API const char *rush_type_name(const rush_type *t);
/* Field i of a NamedTuple, or NULL. */
RUSH_API const char *rush_type_field(const rush_type *t, size_t i);
RUSH_API bool rush_type_is_subtype(const rush_type *t, const rush_type *of);
/* "List[int]" (annotation) or "int[]"; new text (rush_free_text). */
RUSH_API rush_status rush_type_to_text(rush_context *c, const rush_type *t, bool annotation,
                                       char **out, rush_error *err) RUSH_CHECKED;
/* A kind without elements, or a container of elems[n]. */
RUSH_API rush_status rush_unit_make_type(rush_unit *u, rush_type_kind kind,
                                         const rush_type *const *elems, size_t n,
                                         const rush_type **out, rush_error *err) RUSH_CHECKED;
/* The type that an annotation's text means in a scope (borrowed). */
RUSH_API rush_status rush_unit_parse_type(rush_unit *u, const char *text, void *scope,
                                          const rush_type **out, rush_error *err) RUSH_CHECKED;
/* A value's own type. */
RUSH_API rush_status rush_unit_type_of(rush_unit *u, rush_value v, const rush_type **out,
                                       rush_error *err) RUSH_CHECKED;
/* The smallest type above both, or NULL. */
RUSH_API const rush_type *rush_unit_unify(rush_unit *u, const rush_type *a, const rush_type *b);
/* The class of that qualified name, or NULL. */
RUSH_API const rush_type *rush_unit_find_type(rush_unit *u, const char *qualified);
/* The value as the type, with the conversions of a call; *out is new.  RUSH_EARGUMENT: it does not
 * fit. */
RUSH_API rush_status rush_type_convert(rush_context *c, const rush_type *t, rush_value v,
                                       rush_value *out, rush_error *err) RUSH_CHECKED;

/* -- Classes ----------------------------------------------------------------------------------- */

typedef enum rush_class_kind {
  RUSH_CLASS_SCRIPT,    /* attributes are what __init__ sets */
  RUSH_CLASS_INTERFACE,
  RUSH_CLASS_MODULE,
  RUSH_CLASS_MODULE_INTERFACE,
  RUSH_CLASS_ENUM,
  RUSH_CLASS_NAMED_TUPLE
} rush_class_kind;

typedef enum rush_container { /* a module that is walked over while compiling */
  RUSH_CONTAINER_NONE,
  RUSH_CONTAINER_MODULE_LIST, /* Sequential too */
  RUSH_CONTAINER_MODULE_DICT,
  RUSH_CONTAINER_PARAMETER_LIST,
  RUSH_CONTAINER_PARAMETER_DICT
} rush_container;

typedef struct rush_class_def {
  size_t struct_bytes;
  const char *name; /* qualified; made unique when it is taken */
  rush_class_kind kind;
  rush_container container;
  void *object;     /* for host->class_attr; given: host->release gets it; or NULL */
} rush_class_def;
#define RUSH_CLASS_DEF_INIT                                                    \
  {                                                                            \
    sizeof(rush_class_def), NULL, RUSH_CLASS_SCRIPT, RUSH_CONTAINER_NONE, NULL \
  }

enum { RUSH_ATTR_PARAMETER = 1, RUSH_ATTR_BUFFER = 2 };

/* Methods are added by rush_unit_define. */
RUSH_API rush_status rush_unit_add_class(rush_unit *u, const rush_class_def *def,
                                         const rush_type **out, rush_error *err) RUSH_CHECKED;
/* A class that could not be completed: its name finds nothing from now on. */
RUSH_API void rush_unit_forget_class(rush_unit *u, const rush_type *t);
RUSH_API rush_status rush_class_add_attr(rush_unit *u, const rush_type *t, const char *name,
                                         const rush_type *type, unsigned flags,
                                         rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_class_add_constant(rush_unit *u, const rush_type *t, const char *name,
                                             const rush_type *type, rush_value v,
                                             rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_class_add_property(rush_unit *u, const rush_type *t, const char *name,
                                             rush_function *getter, rush_function *setter,
                                             rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_class_add_hook(rush_unit *u, const rush_type *t, rush_function *f,
                                         bool pre, rush_error *err) RUSH_CHECKED;
/* A member of an enum: all ints, all floats or all strings. */
RUSH_API rush_status rush_class_add_member(rush_unit *u, const rush_type *t, const char *name,
                                           rush_value v, rush_error *err) RUSH_CHECKED;
/* A field of a NamedTuple; default_value may be NULL. */
RUSH_API rush_status rush_class_add_field(rush_unit *u, const rush_type *t, const char *name,
                                          const rush_type *type, const rush_value *default_value,
                                          rush_error *err) RUSH_CHECKED;
/* Attributes in order; NULL behind the last.  A script class's are there once its __init__ is
 * compiled. */
RUSH_API const char *rush_class_attr(const rush_type *t, size_t i, const rush_type **type,
                                     unsigned *flags);
RUSH_API rush_function *rush_class_method(const rush_type *t, const char *name); /* or NULL */
RUSH_API const char *rush_class_method_name(const rush_type *t,
                                            size_t i); /* NULL behind the last */
/* A module class's hooks of forward, in the order in which they run (`pre`: before it); NULL behind
 * the last.  Calls of methods do not run them: who stands for the module does, as PyTorch's
 * Module.__call__. */
RUSH_API rush_function *rush_class_hook(const rush_type *t, size_t i, bool pre);
/* Compile __init__ of a script class, and so complete it. */
RUSH_API rush_status rush_class_complete(const rush_type *t, rush_error *err) RUSH_CHECKED;
/* The class's member of that name (borrowed), or UNSET. */
RUSH_API rush_value rush_class_member(const rush_type *t, const char *name);

/* An object without attributes yet, which rush_object_set_attr sets: new. */
RUSH_API rush_status rush_object_create(rush_context *c, const rush_type *t, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* An object of a class in C, "__torch__.torch.classes.quantized.LinearPackedParamsBase", from the
 * state that archives have of it: new. */
RUSH_API rush_status rush_custom_create(rush_context *c, const char *name, rush_value state,
                                        rush_value *out, rush_error *err) RUSH_CHECKED;
/* An object's class; NULL when it has none of this unit. */
RUSH_API const rush_type *rush_object_type(rush_value object);
/* A module around an object of the unit, which saves, prints and is called like a loaded one: new.
 * */
RUSH_API rush_status rush_module_of_object(rush_unit *u, rush_value object, rush_module **out,
                                           rush_error *err) RUSH_CHECKED;
/* The result of a future that a call returned, or its task's error: new. */
RUSH_API rush_status rush_future_result(rush_context *c, rush_value future, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* Is it a future that the program made with torch.jit._awaitable? */
RUSH_API bool rush_future_is_awaitable(rush_value future);
/* A future that has its result, to be given to a program: new. */
RUSH_API rush_status rush_future_create(rush_context *c, rush_value result, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* A NamedTuple from its items: new. */
RUSH_API rush_status rush_named_tuple_create(rush_context *c, const rush_type *t,
                                             const rush_value *items, size_t n, rush_value *out,
                                             rush_error *err) RUSH_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
