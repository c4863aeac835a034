/* ir/program.h -- programs, functions, classes, modules' types.
 *
 * A program is the result of reading an archive or a source text: types, functions with graphs,
 * constants. It is refcounted through its type store: retaining a type of a program keeps the
 * program. Bodies are compiled when first needed (function_ensure), under the program's lock;
 * otherwise it is immutable.
 *
 * The front end sets `compile` of a function; `run/` stores its code in `code` (freed by
 * code_destroy). */
#ifndef RUSH_IR_PROGRAM_H
#define RUSH_IR_PROGRAM_H

#include "ir/graph.h"

typedef struct program program;
typedef struct function function;
struct script_row; /* script/print/print.h */

typedef enum function_state {
  FUNCTION_DECLARED,
  FUNCTION_COMPILING,
  FUNCTION_COMPILED
} function_state;

/* Whether a method writes module state; computed at the first request. */
enum state_change { STATE_NOT_ASKED, STATE_KEPT, STATE_CHANGES };
enum gradient_use { GRADIENTS_NOT_ASKED, GRADIENTS_UNUSED, GRADIENTS_USED };

struct function {
  program *program;      /* borrowed: the program owns the function */
  const char *name;      /* "forward" */
  const char *qualified; /* "__torch__.M.forward" */
  const type *self;      /* methods: the class type; else NULL */
  schema *schema;        /* with self as first argument for methods; defaults evaluated */
  ir_graph *graph;       /* NULL until compiled; owned by the program */
  /* Makes the graph; leaves the session on an error.  NULL once compiled. */
  void (*compile)(session *s, function *f);
  void *compile_arg;     /* for the front end, in the program's arena */
  _Atomic uint8_t state; /* function_state: 0 declared, 1 being compiled (recursion!), 2 compiled */
  bool owns_defaults;    /* the schema's default values are released with the program */
  bool is_builtin;       /* of the built-in program: hidden in tracebacks */
  bool is_eager; /* of an exported program: errors keep the classes that eager PyTorch raises */
  bool is_static;        /* a method of a class without self */
  bool is_class_method; /* its first parameter, the class, is passed like an object's self */
  _Atomic uint8_t changes_state[2]; /* in eval and in training mode: state_change; see ir/alias.h */
  _Atomic uint8_t uses_gradients; /* gradient_use; see autograd/record.h */
  _Atomic(void *) code;  /* run/code.h, made at first call */
  function *next;        /* all functions of the program */
};

/* Modules that hold others in order; the front end iterates over and indexes them at compile
 * time. */
typedef enum module_container {
  CONTAINER_NONE,
  CONTAINER_LIST, /* ModuleList, Sequential */
  CONTAINER_DICT,
  CONTAINER_PARAMETER_LIST,
  CONTAINER_PARAMETER_DICT
} module_container;

typedef struct class_attr {
  const char *name;
  const type *type;
  bool is_parameter, is_buffer;
  rush_value constant; /* class constants (is_constant): value owned by the program */
  bool is_constant;
} class_attr;

struct class_info { /* TYPE_CLASS, TYPE_INTERFACE, TYPE_ENUM */
  const type *type;
  program *program;  /* borrowed */
  bool is_module;
  bool is_module_interface;
  bool is_partial;   /* being read: its present methods do not decide which interfaces it fits */
  class_attr *attrs;    /* slots of objects, in order; constants are stored separately below */
  uint32_t n_attrs, cap_attrs;
  class_attr *constants;
  uint32_t n_constants, cap_constants;
  function **methods;   /* interfaces: schemas only */
  uint32_t n_methods, cap_methods;
  function **forward_hooks, **forward_pre_hooks;
  uint32_t n_hooks, n_pre_hooks;
  struct class_property { const char *name; function *getter, *setter; } *properties;
  uint32_t n_properties;
  const char **enum_names; /* TYPE_ENUM */
  rush_value *enum_members; /* enum_value each, owned */
  uint32_t n_members;
  bool is_open;      /* __init__ adds attributes: classes of users' files */
  uint8_t container; /* module_container */
  void *object;      /* the host's object that the type was made for, or NULL */
  /* Set by the front end: completes attributes and methods at first use; NULL when complete. */
  void (*complete)(session *s, const type *t);
  void *complete_arg;
  class_info *next; /* all classes of the program */
};

struct program {
  type_store types; /* its refs are the program's */
  type_store *borrowed_types; /* of graphs that do not retain them: its owner does; or NULL */
  context *ctx;     /* retained, unless ctx_borrowed */
  bool ctx_borrowed;
  arena mem;        /* functions, schemas, names */
  table classes;    /* qualified name -> type */
  table functions;  /* qualified name -> function */
  rush_value *constants; /* CONSTANTS.cN */
  uint32_t n_constants;
  mutex lock;       /* recursive; bodies are compiled under it */
  bool has_ended;   /* the code is released; values may still refer to types */
  /* a method whose result a comparison of types needed, or NULL; under the lock */
  function *uninferred;
  function *all_functions;
  class_info *all_classes;
  struct kept_value { rush_value value; struct kept_value *next; } *kept; /* program_keep_steal */
  void *front;      /* the front end's importer, in mem; may need front_free */
  void (*front_free)(program *p);
  /* the archive's name, in mem, for messages; NULL: a text, whose ranges contain its name */
  const char *file;
  void *files;      /* the archive's sources of code, in mem */
  void (*files_free)(program *p);
  /* Get the author's text behind a range of archived code, for messages: *src is new.  NULL:
   * unknown. */
  bool (*original)(call_ctx *cx, program *p, const source_range *at, source_range *out,
                   source **src);
  /* Like `original`, for a whole file of archived code (script/print/print.h). */
  uint32_t (*origins)(session *s, program *p, const char *file, struct script_row **rows);
  void (*code_destroy)(context *c, void *code); /* set by run/ with the first code */
  source **sources; /* owned: ranges borrow them */
  uint32_t n_sources, cap_sources;
};

program *program_new(session *s, context *c); /* new */
/* Stop retaining the context, because the program now belongs to it. */
void program_borrow_context(program *p);
static inline program *program_retain(program *p)
{
  type_store_retain(&p->types);
  return p;
}
static inline void program_release(program *p)
{
  if (p)
    type_store_release(&p->types);
}
/* Set VALUE_OF_PROGRAM on v, a constant of p, and everything inside it.  Call this before anything
 * else refers to v. */
void program_own(session *s, program *p, rush_value v);
/* Return the program that owns these types, or NULL. */
program *program_of_types(type_store *ts);
/* Begin to read a class: if that fails, the program forgets it, so that an incomplete class is
 * never found. Call session_keep on the result when it is complete.  `qualified` must live as long
 * as the session. */
void *program_begin_class(session *s, program *p, const char *qualified);
/* Set the function's schema, to be filled from here on; if that fails it has none, and can be
 * declared again. Call session_keep on the function when the schema is complete. */
void function_begin_schema(session *s, function *f, schema *sc);
const type *program_find_class(const program *p, str qualified);
function *program_find_function(const program *p, str qualified);
/* Add a new, empty type.  Names are copied.  An existing name is an error. */
type *program_add_class(session *s, program *p, type_kind kind, const char *qualified);
function *program_add_function(session *s, program *p, const char *qualified);
/* Add a function that no name resolves to: the body of a fork, a module's hook. */
function *program_add_closure(session *s, program *p, const char *qualified);
function *class_add_method(session *s, const type *cls, const char *name);
/* Make a function also a method of cls, one that takes no self. */
void class_share_function(session *s, const type *cls, function *f);
uint32_t class_add_attr(session *s, const type *cls, const char *name, const type *t);
source *program_add_source(session *s, program *p, const char *name, const char *text, size_t len);

/* Make the program own `v`, which lives as long as it. */
void program_keep_steal(session *s, program *p, rush_value v);
/* Complete attributes and methods. */
void class_complete(session *s, const type *cls);
uint32_t class_add_constant(session *s, const type *cls, const char *name, const type *t,
                            rush_value v); /* retained */
void class_add_enum_member(session *s, const type *cls, const char *name, rush_value member_steal);
/* Set the function's graph; the program owns it from now on. */
void function_set_graph_steal(function *f, ir_graph *g);

int class_attr_index(const type *cls, str name);         /* slot, or -1 */
const class_attr *class_constant(const type *cls, str name);
function *class_find_method(const type *cls, const char *name);  /* NULL: none */
/* True for methods whose callers pass an object of the class first; static methods and functions
 * take none. */
static inline bool function_takes_self(const function *f) { return f->self && !f->is_static; }
/* Return the function, or the method of a class, that the node calls; NULL: none, or an
 * interface's. */
function *ir_node_callee(const ir_node *n);
/* Like type_is_subtype, for classes with methods whose result types need their bodies: compiles the
 * bodies that the comparison needs.  type_is_subtype returns false for such a class and an
 * interface.  Leaves the session if a result is needed to infer itself. */
bool program_is_subtype(session *s, program *p, const type *a, const type *b);
/* Compile the method whose result a comparison lacked; repeat the comparison while this returns
 * true.  Set p->uninferred to NULL before. */
bool program_infer_more(session *s, program *p);
/* Make a value of the type (new), if one can be made without arguments. */
bool type_has_some_value(const type *t);
rush_status value_some(call_ctx *cx, const type *t, rush_value *out) RUSH_CHECKED;
/* Compile the function if necessary (any thread; takes the program's lock). */
void function_ensure(session *s, function *f);
/* The same, run-time regime. */
rush_status function_compile(call_ctx *cx, function *f) RUSH_CHECKED;
RUSH_CHECKED static inline rush_status function_prepare(call_ctx *cx, function *f)
{
  return LIKELY(f->state == FUNCTION_COMPILED) ? RUSH_OK : function_compile(cx, f);
}

#endif
