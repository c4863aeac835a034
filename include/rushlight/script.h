/* script.h -- for authors of language bindings: compile the live functions and classes of a host
 * language.
 *
 * A unit is a growing program: functions, classes, and types of modules.  The host (Python)
 * resolves the names that functions use: the compiler asks it through rush_host, and reads the
 * source texts that the host added.  Functions that a function calls are compiled when the call is
 * compiled.
 *
 * Threads and locks.  A unit is locked internally.  Functions that add to it hold its lock while
 * they call the host.  A host with a lock of its own (Python's GIL) must therefore release it
 * before it calls a function here that takes a unit, and take it again inside its callbacks.
 * Callbacks may add to the unit (the lock is recursive); they return a status and never jump.
 *
 * Ownership words (new, borrowed, steals), errors and contexts: see rushlight.h.  Functions and
 * types are borrowed from their unit and live as long as it; types are interned: equal types are
 * equal pointers.  Structs with struct_bytes grow only at their end. */
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
  rush_source; /* a text that contains functions; borrowed from its unit */

/* -- Calls that end early ---------------------------------------------------------------------- */

/* Set a callback that is polled while a call runs: interrupt(user) is called about every 30 ms, on
 * threads that work for the call (the one that entered it, and the pool's).  If it returns true,
 * the call ends with RUSH_ECANCELLED within 50 ms.  For hosts that check for signals.  It may call
 * into the library. NULL: no callback.  Do not call this while calls run. */
RUSH_API void rush_context_set_interrupt(rush_context *c, bool (*interrupt)(void *user),
                                         void *user);
/* Set the limit on the bytes in use of a context whose options had none; 0: no limit again.  It may
 * be set while calls run.  The headers of tensors that threads keep for reuse count as in use (at
 * most 10 KB a thread); threads that allocate at the same moment may pass the limit by what each of
 * them asks for.  RUSH_EARGUMENT: the options had a limit, which is kept. */
RUSH_API rush_status rush_context_set_limit_bytes(rush_context *c, size_t n_bytes,
                                                  rush_error *err) RUSH_CHECKED;

/* -- Meanings of names ------------------------------------------------------------------------- */

typedef enum rush_name_kind {
  /* unknown to the host: the language's own names are tried next, then it is an error */
  RUSH_NAME_UNKNOWN,
  /* text: its Python name: "torch.relu", "math.sqrt", "len", "torch.jit.annotate",
   * "torch.float32" */
  RUSH_NAME_PATH,
  RUSH_NAME_OPERATOR,  /* text: "aten::relu" */
  RUSH_NAME_FUNCTION,  /* functions[0] */
  RUSH_NAME_OVERLOADS, /* functions[n]: the first that accepts the arguments is called */
  /* items[1] if the argument `text` (or number `index`; `flag` if it is not passed), a constant, is
   * true, else items[0] */
  RUSH_NAME_DISPATCH,
  /* type: a class to construct, a NamedTuple, an Enum, or an annotation used as a value */
  RUSH_NAME_TYPE,
  RUSH_NAME_VALUE, /* value (new) and type (NULL: the value's own): a constant */
  RUSH_NAME_TUPLE, /* items[n]: several names, unpacked at compile time */
  /* object: an object of the host whose attributes host->attr resolves; text: its kind, for
   * messages */
  RUSH_NAME_OBJECT,
  /* object and functions[0], declared for its signature: a function that stays in the host; calling
   * it runs host->call; flag: the value whose attribute was requested is its first argument */
  RUSH_NAME_HOST_CALL,
  RUSH_NAME_EXCEPTION, /* text: "builtins.ValueError" or a user's class */
  RUSH_NAME_METHOD,    /* functions[0], a method of the object whose attribute was requested */
  RUSH_NAME_UNUSED,    /* like HOST_CALL, but a call raises the text in `message` */
  RUSH_NAME_HIDDEN     /* text: the reason why the attribute cannot be used */
} rush_name_kind;

typedef struct rush_name rush_name;
struct rush_name { /* zeroed before the host is called */
  rush_name_kind kind;
  bool flag;
  int64_t index;
  const char *text, *message;
  rush_function *const *functions;
  const rush_name *items;
  size_t n;            /* number of functions or items */
  const rush_type *type;
  rush_value value;    /* new */
  void *object;        /* ownership passes to the unit, which calls host->release */
  /* released with host->release once the unit has read the other fields, which it may own; or
   * NULL */
  void *owner;
};

/* Callbacks of the host.  Start from a zeroed struct.  Entries may be NULL only where the comment
 * says so. */
typedef struct rush_host {
  size_t struct_bytes; /* sizeof(rush_host) */
  void *user;
  /* Resolve a free name of a function that has this scope. */
  rush_status (*name)(void *user, void *scope, const char *name, rush_name *out, rush_error *err);
  /* Resolve an attribute of a RUSH_NAME_OBJECT. */
  rush_status (*attr)(void *user, void *object, const char *name, rush_name *out, rush_error *err);
  /* Resolve a name in an annotation, "a.b.C"; *out NULL: unknown. */
  rush_status (*type)(void *user, void *scope, const char *dotted, const rush_type **out,
                      rush_error *err);
  /* Resolve a name of a class beyond its attributes, constants and methods; `object` is the
   * class's. NULL: there are none. */
  rush_status (*class_attr)(void *user, void *object, const char *name, rush_name *out,
                            rush_error *err);
  /* Get the default of a parameter, converted to its type.  UNSET: use the default in the text.
   * UNSET with aux 1: it has no default.  NULL: always use the text. */
  rush_status (*default_value)(void *user, void *scope, const char *name, const rush_type *type,
                               rush_value *out, rush_error *err);
  /* Run a RUSH_NAME_HOST_CALL; *result is new and has type `type`. */
  rush_status (*call)(void *user, void *object, const rush_value *args, size_t n,
                      const rush_type *type, rush_value *result, rush_error *err);
  /* Release an object or scope whose ownership passed to the unit. */
  void (*release)(void *user, void *object);
  bool gives_user; /* the unit owns `user`: release(user, user) is its last call */
  /* Resolve a call of a RUSH_NAME_OBJECT with n_args arguments.  NULL: objects cannot be called. */
  rush_status (*called)(void *user, void *object, size_t n_args, rush_name *out, rush_error *err);
  /* Resolve a block that is left to the host, below a RUSH_NAME_OBJECT; `text` is the block as a
   * function.  NULL: blocks cannot be left to it. */
  rush_status (*block)(void *user, void *object, const char *text, rush_name *out,
                       rush_error *err);
} rush_host;

/* Set the error of a failing callback: err (may be NULL) gets a Python exception's class (a static
 * string) and a message, which is copied.  Returns status. */
RUSH_API rush_status rush_host_fail(rush_error *err, rush_status status, const char *type,
                                    const char *message);

/* -- Units ------------------------------------------------------------------------------------- */

/* Create a unit.  The host struct is copied; `user` must live as long as the unit.  On failure, a
 * `user` with gives_user remains the caller's. */
RUSH_API rush_status rush_unit_create(rush_context *c, const rush_host *host, rush_unit **out,
                                      rush_error *err) RUSH_CHECKED;
RUSH_API rush_unit *rush_unit_retain(rush_unit *u);
RUSH_API void rush_unit_release(rush_unit *u);
/* Add a file's text (first_line: the number of the text's first line); it is copied. */
RUSH_API rush_status rush_unit_add_source(rush_unit *u, const char *file, const char *text,
                                          size_t n_bytes, uint32_t first_line, rush_source **out,
                                          rush_error *err) RUSH_CHECKED;

typedef struct rush_function_def {
  size_t struct_bytes;
  /* qualified, "__torch__.pkg.f", made unique if it exists; for a method its own name, "forward" */
  const char *name;
  rush_source *source;
  uint32_t line;         /* of the first decorator or of "def", numbered as in the source */
  void *scope;           /* for host->name, type and default_value; ownership passes to the unit */
  const rush_type *self; /* the class of a method, or NULL */
  bool is_static;        /* a method without self */
  bool is_hook;          /* a function of the class that no name resolves to: rush_class_add_hook */
  bool is_declared_only; /* an interface's method: no body */
  bool is_class_method;  /* a method whose first parameter is the class; called on objects */
  rush_source *signature; /* read the signature from here instead (an overload's), or NULL */
  uint32_t signature_line;
  const char *drop_body; /* calls raise this text instead of running the body; NULL: run the body */
} rush_function_def;
#define RUSH_FUNCTION_DEF_INIT                                                                 \
  {                                                                                            \
    sizeof(rush_function_def), NULL, NULL, 0, NULL, NULL, false, false, false, false, NULL, 0, \
      NULL                                                                                     \
  }

/* Declare a function: only its signature is read.  The body is compiled by the first call or by
 * rush_function_compile, and can use everything that was declared until then; if that fails, it can
 * be tried again. */
RUSH_API rush_status rush_unit_define(rush_unit *u, const rush_function_def *def,
                                      rush_function **out, rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_function_compile(rush_function *f, rush_error *err) RUSH_CHECKED;
/* Define the functions of a text (only "def"s), with the qualified names prefix + name: all are
 * declared, then compiled.  They find each other by name before the host is asked.  Ownership of
 * `scope` passes as in rush_function_def; it is released before this returns.  On failure nothing
 * is added. */
RUSH_API rush_status rush_unit_define_text(rush_unit *u, rush_source *source, const char *prefix,
                                           void *scope, rush_error *err) RUSH_CHECKED;
/* Return function i of all that rush_unit_define_text added, in order; NULL: there are fewer. */
RUSH_API rush_function *rush_unit_text_function(rush_unit *u, size_t i);
/* A field of a @dataclass, or an argument of its __post_init__ (is_argument: an InitVar). */
typedef struct rush_dataclass_field {
  const char *name, *annotation;
  const char *value; /* the default as an expression, or NULL */
  bool is_argument, is_parameter /* of __init__ */, is_compared, is_optional;
} rush_dataclass_field;
/* Make the text of a method that PyTorch synthesizes for a @dataclass: __init__, __eq__, __lt__,
 * __le__, __gt__ or __ge__, to be defined like another method.  `name` is the class's in messages,
 * `type` in annotations.  *out is new (rush_free_text). */
RUSH_API rush_status rush_dataclass_method(rush_context *c, const char *name, const char *type,
                                           const char *method, const rush_dataclass_field *fields,
                                           size_t n_fields, bool has_post_init, char **out,
                                           rush_error *err) RUSH_CHECKED;
/* Return the unit of a function, borrowed. */
RUSH_API rush_unit *rush_function_unit(const rush_function *f);
/* Call a function with positional and named arguments; options may be NULL.  *result is new. */
RUSH_API rush_status rush_function_call(rush_function *f, const rush_value *args, size_t n_args,
                                        const rush_named_value *named, size_t n_named,
                                        const rush_call_options *options, rush_value *result,
                                        rush_error *err) RUSH_CHECKED;
RUSH_API const char *rush_function_name(const rush_function *f); /* qualified */

typedef struct rush_argument {
  const char *name;
  const rush_type *type;
  bool has_default, keyword_only;
  int32_t fixed_len; /* length of a list that one number may be passed for, else 0 */
  bool is_inferred; /* a Tensor because it has no annotation */
} rush_argument;
/* Parameters (including a method's self). */
RUSH_API size_t rush_function_n_args(const rush_function *f);
RUSH_API bool rush_function_arg(const rush_function *f, size_t i, rush_argument *out);
/* The arguments of a call as objects of the host, for rush_function_bind: positional ones are
 * numbered from 0, named ones follow. */
typedef struct rush_given {
  void *user;
  const char *name;    /* of the function, in messages */
  size_t n_bound;      /* the first parameters are bound already: 1 for a method's self */
  size_t n_args, n_named;
  const char *const *names; /* of the named arguments, in UTF-8 */
  /* Convert argument `given` to parameter i, which `to` describes: *out is new. */
  rush_status (*convert)(void *user, size_t given, size_t i, const rush_argument *to,
                         rush_value *out, rush_error *err);
} rush_given;
/* Bind arguments to parameters as calls do, and refuse them with the same messages.  `out` has room
 * for all parameters; the slots after the bound ones are new.  RUSH_TAG_UNSET: the parameter gets
 * its default, leave it out of the call. */
RUSH_API rush_status rush_function_bind(rush_function *f, const rush_given *given, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* True if parameter i may be an undefined tensor, a RUSH_TAG_TENSOR that is NULL.  Operators refuse
 * these, so it may be undefined only if the function does nothing but return it. */
RUSH_API bool rush_function_takes_undefined(rush_function *f, size_t i);
/* True if a call may draw random numbers.  Compiles the body. */
RUSH_API bool rush_function_is_random(rush_function *f);
/* Return the result type; NULL while it is not annotated and the body is not compiled. */
RUSH_API const rush_type *rush_function_result(const rush_function *f);
/* Make a text: RUSH_DUMP_GRAPH, RUSH_DUMP_SCHEMA, RUSH_DUMP_OPTIMIZED or RUSH_DUMP_BYTECODE; new
 * (rush_free_text). */
RUSH_API rush_status rush_function_dump(rush_function *f, rush_dump what, char **out,
                                        rush_error *err) RUSH_CHECKED;
/* Make a module whose method "forward" is the function; *out is new. */
RUSH_API rush_status rush_function_module(rush_function *f, rush_module **out,
                                          rush_error *err) RUSH_CHECKED;

/* Define a function by its graph, a text in PyTorch's notation: a free function (self NULL), or a
 * method whose first input is the object. constants[n_constants] are the tensors of `%c : Tensor =
 * prim::Constant[value=<Tensor>]()`, in order.  The graph is verified. */
RUSH_API rush_status rush_unit_define_graph(rush_unit *u, const char *name, const rush_type *self,
                                            const char *graph, const rush_value *constants,
                                            size_t n_constants, rush_function **out,
                                            rush_error *err) RUSH_CHECKED;

/* -- Tracing ----------------------------------------------------------------------------------- */

/* Tracing.  Every call of an operator (rush_op_call, rush_op_run) and of a program's function that
 * this thread makes in the context between begin and end is recorded, and becomes a function of the
 * inputs. Values are identified by identity: tensors, and lists, tuples and dicts of them. A tensor
 * that is neither an input nor the result of a recorded call is a constant.  Numbers that recorded
 * operators returned (aten::size ...) remain values while the same rush_value is passed on; numbers
 * that C code computes from them are constants.  Calls of programs' functions remain calls. Views,
 * and operators that write, keep their meaning when the trace runs. */
typedef struct rush_trace rush_trace;
/* Begin a trace.  `names` may be NULL, and so may each name.  For one thread; traces of other
 * threads and nested traces are independent. */
RUSH_API rush_status rush_trace_begin(rush_context *c, const rush_value *inputs,
                                      const char *const *names, size_t n, rush_trace **out,
                                      rush_error *err) RUSH_CHECKED;
/* End a trace and release it, also on failure: *out, new, is a module whose forward takes n inputs
 * and returns the output, or a tuple of several.  Call it on the thread that began the trace. */
RUSH_API rush_status rush_trace_end(rush_trace *t, const rush_value *outputs, size_t n_outputs,
                                    rush_module **out, rush_error *err) RUSH_CHECKED;
RUSH_API void rush_trace_cancel(rush_trace *t); /* NULL: nothing */

/* -- Recorders --------------------------------------------------------------------------------- */

/* A trace whose calls the host observes itself, because another library runs them: the host reports
 * each call, and the recorder builds the graph.  Values are numbers from 1 on, assigned by the
 * recorder; 0 is none.  Every function that takes a recorder locks its unit.
 *
 * Types are texts in PyTorch's notation, "Float(2, 3, strides=[3, 1], requires_grad=0,
 * device=cpu)". Places are the host's frames, innermost first, "f.py(7): f\n" each; NULL: unknown.
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

typedef struct rush_recorded { /* one node; leave fields that do not apply zero */
  size_t struct_bytes;
  /* "aten::add", whose overload follows from the inputs, "aten::add.Tensor" or "aten::relu.",
   * which name one, "prim::TupleUnpack", "prim::CallMethod" ... */
  const char *kind;
  rush_function *callee; /* of prim::CallFunction; for "^Name", the function that calls the host */
  const char *method;    /* of prim::CallMethod, whose first input is the submodule */
  const char *host_attrs, *host_scalars; /* how a call of the host is printed: "^Name[a](s)" */
  const uint32_t *inputs;
  size_t n_inputs;
  /* types of the outputs; NULL, also for a single one: as the inputs' types determine */
  const char *const *types;
  size_t n_outputs;
  const char *where;
  uint32_t after; /* put the node after the one that makes this value; 0: at the end */
} rush_recorded;
#define RUSH_RECORDED_INIT                                                                 \
  {                                                                                        \
    sizeof(rush_recorded), NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0         \
  }
/* Add a node; outputs[n_outputs] receives its values. */
RUSH_API rush_status rush_recorder_add(rush_recorder *r, const rush_recorded *node,
                                       uint32_t *outputs, rush_error *err) RUSH_CHECKED;
/* Set a value's debug name; an older value of that name is renamed. */
RUSH_API rush_status rush_recorder_set_name(rush_recorder *r, uint32_t value, const char *name,
                                            rush_error *err) RUSH_CHECKED;
/* Skip n value numbers, for values that PyTorch's tracer has and the host did not record. */
RUSH_API void rush_recorder_skip(rush_recorder *r, uint32_t n);
/* Keep nodes whose results nothing uses when the trace ends, as torch.export does. */
RUSH_API void rush_recorder_keep_unused(rush_recorder *r);
/* Begin a call of the submodule at `path`, which becomes a method, or (NULL) a task. */
RUSH_API rush_status rush_recorder_open(rush_recorder *r, const char *path,
                                        rush_error *err) RUSH_CHECKED;
/* End the call begun by rush_recorder_open.  For a task that returned `result`, *out is the future;
 * else *out is 0. */
RUSH_API rush_status rush_recorder_close(rush_recorder *r, uint32_t result, uint32_t *out,
                                         rush_error *err) RUSH_CHECKED;
/* End the trace, which returns `output`: unused nodes are removed, calls of submodules become
 * methods. *n_functions is their number; callees come first, the traced function last. */
RUSH_API rush_status rush_recorder_finish(rush_recorder *r, uint32_t output, size_t *n_functions,
                                          rush_error *err) RUSH_CHECKED;
/* Copy the graph of function i, to compare it with another trace's: values are numbered in order,
 * types have no shapes.  Call it before rush_recorder_define.  *out is new (backend.h:
 * graph_release). */
RUSH_API rush_status rush_recorder_graph(rush_recorder *r, size_t i, rush_graph **out,
                                         rush_error *err) RUSH_CHECKED;
/* Define the functions in the unit; call it once. *out is the method `name` of the class, or a free
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
  RUSH_TYPE_FUTURE, /* these have elements */
  RUSH_TYPE_CLASS,
  RUSH_TYPE_INTERFACE,
  RUSH_TYPE_ENUM,
  RUSH_TYPE_AWAIT /* has an element */
} rush_type_kind;

RUSH_API rush_type_kind rush_type_kind_of(const rush_type *t);
RUSH_API size_t rush_type_n_elems(const rush_type *t);
RUSH_API const rush_type *rush_type_elem(const rush_type *t, size_t i);
/* Return the qualified name of a class, interface, enum or NamedTuple, or NULL. */
RUSH_API const char *rush_type_name(const rush_type *t);
/* Return the name of field i of a NamedTuple, or NULL. */
RUSH_API const char *rush_type_field(const rush_type *t, size_t i);
RUSH_API bool rush_type_is_subtype(const rush_type *t, const rush_type *of);
/* Print a type: "List[int]" (annotation) or "int[]"; *out is new (rush_free_text). */
RUSH_API rush_status rush_type_to_text(rush_context *c, const rush_type *t, bool annotation,
                                       char **out, rush_error *err) RUSH_CHECKED;
/* Make a type: a kind without elements, or a container of elems[n]. */
RUSH_API rush_status rush_unit_make_type(rush_unit *u, rush_type_kind kind,
                                         const rush_type *const *elems, size_t n,
                                         const rush_type **out, rush_error *err) RUSH_CHECKED;
/* Resolve an annotation's text in a scope (borrowed). */
RUSH_API rush_status rush_unit_parse_type(rush_unit *u, const char *text, void *scope,
                                          const rush_type **out, rush_error *err) RUSH_CHECKED;
/* Get the type of a value. */
RUSH_API rush_status rush_unit_type_of(rush_unit *u, rush_value v, const rush_type **out,
                                       rush_error *err) RUSH_CHECKED;
/* Return the smallest common supertype, or NULL. */
RUSH_API const rush_type *rush_unit_unify(rush_unit *u, const rush_type *a, const rush_type *b);
/* Return the class of that qualified name, or NULL. */
RUSH_API const rush_type *rush_unit_find_type(rush_unit *u, const char *qualified);
/* Convert a value to the type, as a call does; *out is new.  RUSH_EARGUMENT: it does not fit. */
RUSH_API rush_status rush_type_convert(rush_context *c, const rush_type *t, rush_value v,
                                       rush_value *out, rush_error *err) RUSH_CHECKED;

/* -- Classes ----------------------------------------------------------------------------------- */

typedef enum rush_class_kind {
  RUSH_CLASS_SCRIPT,    /* its attributes are those that __init__ sets */
  RUSH_CLASS_INTERFACE,
  RUSH_CLASS_MODULE,
  RUSH_CLASS_MODULE_INTERFACE,
  RUSH_CLASS_ENUM,
  RUSH_CLASS_NAMED_TUPLE
} rush_class_kind;

typedef enum rush_container { /* a module that is iterated over at compile time */
  RUSH_CONTAINER_NONE,
  RUSH_CONTAINER_MODULE_LIST, /* and Sequential */
  RUSH_CONTAINER_MODULE_DICT,
  RUSH_CONTAINER_PARAMETER_LIST,
  RUSH_CONTAINER_PARAMETER_DICT
} rush_container;

typedef struct rush_class_def {
  size_t struct_bytes;
  const char *name; /* qualified; made unique if it exists */
  rush_class_kind kind;
  rush_container container;
  void *object;     /* for host->class_attr, or NULL; ownership passes to the unit */
} rush_class_def;
#define RUSH_CLASS_DEF_INIT                                                    \
  {                                                                            \
    sizeof(rush_class_def), NULL, RUSH_CLASS_SCRIPT, RUSH_CONTAINER_NONE, NULL \
  }

enum { RUSH_ATTR_PARAMETER = 1, RUSH_ATTR_BUFFER = 2 };

/* Add a class; add its methods with rush_unit_define. */
RUSH_API rush_status rush_unit_add_class(rush_unit *u, const rush_class_def *def,
                                         const rush_type **out, rush_error *err) RUSH_CHECKED;
/* Forget a class that could not be completed: its name is unknown from now on. */
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
/* Add a member to an enum; all members are ints, all floats or all strings. */
RUSH_API rush_status rush_class_add_member(rush_unit *u, const rush_type *t, const char *name,
                                           rush_value v, rush_error *err) RUSH_CHECKED;
/* Add a field to a NamedTuple; default_value may be NULL. */
RUSH_API rush_status rush_class_add_field(rush_unit *u, const rush_type *t, const char *name,
                                          const rush_type *type, const rush_value *default_value,
                                          rush_error *err) RUSH_CHECKED;
/* Return attribute i, in order; NULL after the last.  A script class has its attributes once its
 * __init__ is compiled. */
RUSH_API const char *rush_class_attr(const rush_type *t, size_t i, const rush_type **type,
                                     unsigned *flags);
RUSH_API rush_function *rush_class_method(const rush_type *t, const char *name); /* or NULL */
RUSH_API const char *rush_class_method_name(const rush_type *t,
                                            size_t i); /* NULL after the last */
/* Return hook i of a module class's forward, in the order in which they run (`pre`: before
 * forward); NULL after the last.  Calls of methods do not run hooks; the host must call them, as
 * PyTorch's Module.__call__ does. */
RUSH_API rush_function *rush_class_hook(const rush_type *t, size_t i, bool pre);
/* Compile __init__ of a script class, which completes the class. */
RUSH_API rush_status rush_class_complete(const rush_type *t, rush_error *err) RUSH_CHECKED;
/* Return the class's member of that name (borrowed), or UNSET. */
RUSH_API rush_value rush_class_member(const rush_type *t, const char *name);

/* Create an object without attributes; set them with rush_object_set_attr.  *out is new. */
RUSH_API rush_status rush_object_create(rush_context *c, const rush_type *t, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* Create an object of a class implemented in C,
 * "__torch__.torch.classes.quantized.LinearPackedParamsBase", from its state in archives.  *out is
 * new. */
RUSH_API rush_status rush_custom_create(rush_context *c, const char *name, rush_value state,
                                        rush_value *out, rush_error *err) RUSH_CHECKED;
/* Return an object's class; NULL if it is not of a unit. */
RUSH_API const rush_type *rush_object_type(rush_value object);
/* Make a module from an object of the unit; it is saved, printed and called like a loaded one.
 * *out is new. */
RUSH_API rush_status rush_module_of_object(rush_unit *u, rush_value object, rush_module **out,
                                           rush_error *err) RUSH_CHECKED;
/* Get the result of a future that a call returned, or fail with its task's error.  *out is new. */
RUSH_API rush_status rush_future_result(rush_context *c, rush_value future, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* True if the future was made with torch.jit._awaitable by the program. */
RUSH_API bool rush_future_is_awaitable(rush_value future);
/* Create a future that already has its result, to pass to a program.  *out is new. */
RUSH_API rush_status rush_future_create(rush_context *c, rush_value result, rush_value *out,
                                        rush_error *err) RUSH_CHECKED;
/* Create a NamedTuple from its items.  *out is new. */
RUSH_API rush_status rush_named_tuple_create(rush_context *c, const rush_type *t,
                                             const rush_value *items, size_t n, rush_value *out,
                                             rush_error *err) RUSH_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
