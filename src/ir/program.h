/* ir/program.h -- programs, functions, classes, modules' types.
 *
 * A program is what an archive or a source text becomes: types, functions with graphs, constants.
 * It is refcounted through its type store: whoever retains a type of a program keeps the program.
 * Bodies are compiled when first needed (function_ensure), under the program's lock; otherwise it
 * is immutable.
 *
 * The front end fills `compile` of a function; `run/` hangs its code on `code` (freed by
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

/* Does a method write module state?  Answered when first asked. */
enum state_change { STATE_NOT_ASKED, STATE_KEPT, STATE_CHANGES };

struct function {
  program *program;      /* borrowed: the program owns the function */
  const char *name;      /* "forward" */
  const char *qualified; /* "__torch__.M.forward" */
  const type *self;      /* methods: the class type; else NULL */
  schema *schema;        /* with self as first argument for methods; defaults evaluated */
  ir_graph *graph;       /* NULL until compiled; owned by the program */
  /* How the graph comes to be; leaves the session on an error.  NULL once compiled. */
  void (*compile)(session *s, function *f);
  void *compile_arg;     /* the front end's, in the program's arena */
  _Atomic uint8_t state; /* function_state: 0 declared, 1 being compiled (recursion!), 2 compiled */
  bool owns_defaults;    /* the schema's default values are released with the program */
  bool is_builtin;       /* of the built-in program: hidden in tracebacks */
  bool is_eager; /* of an exported program: errors keep the classes that eager PyTorch raises */
  bool is_static;        /* a method of a class without self */
  bool is_class_method; /* its first parameter is called as an object's self, and means the class */
  _Atomic uint8_t changes_state[2]; /* in eval and in training mode: state_change; ask ir/alias.h */
  _Atomic uint8_t asks_gradients; /* 0: not looked at, 1: no, 2: yes; ask autograd/record.h */
  _Atomic(void *) code;  /* run/code.h, made at first call */
  function *next;        /* all functions of the program */
};

/* Modules that hold others in order; the front end walks them and looks into them while it
 * compiles. */
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
  bool is_partial;   /* being read: what of its methods is there says nothing of what it fits */
  class_attr *attrs;    /* slots of objects, in order; constants kept apart below */
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
  bool is_open;      /* __init__ adds attributes: classes of user files */
  uint8_t container; /* module_container */
  void *object;      /* what the host made the type of, or NULL */
  /* Front end's: completes attributes and methods at first look; NULL when complete. */
  void (*complete)(session *s, const type *t);
  void *complete_arg;
  class_info *next; /* all classes of the program */
};

struct program {
  type_store types; /* refs here are the program's */
  context *ctx;     /* retained, unless ctx_borrowed */
  bool ctx_borrowed;
  arena mem;        /* functions, schemas, names */
  table classes;    /* qualified name -> type */
  table functions;  /* qualified name -> function */
  rush_value *constants; /* CONSTANTS.cN */
  uint32_t n_constants;
  mutex lock;       /* recursive; bodies are compiled under it */
  bool has_ended;   /* the code is released; values may still name types */
  /* a method that a comparison of types needed the result of, or NULL; under the lock */
  function *uninferred;
  function *all_functions;
  class_info *all_classes;
  struct kept_value { rush_value value; struct kept_value *next; } *kept; /* program_keep_steal */
  void *front;      /* the front end's importer, in mem; may need front_free */
  void (*front_free)(program *p);
  /* the archive's name, in mem, for messages; NULL: a text, whose ranges name it */
  const char *file;
  void *files;      /* the archive's: where code comes from, in mem */
  void (*files_free)(program *p);
  /* The author's text behind a range of archived code, for messages: *src is new.  NULL: none is
   * known. */
  bool (*original)(call_ctx *cx, program *p, const source_range *at, source_range *out,
                   source **src);
  /* The same for a whole file of archived code (script/print/print.h). */
  uint32_t (*origins)(session *s, program *p, const char *file, struct script_row **rows);
  void (*code_destroy)(context *c, void *code); /* set by run/ with the first code */
  source **sources; /* owned: ranges borrow them */
  uint32_t n_sources, cap_sources;
};

program *program_new(session *s, context *c); /* new */
/* The program belongs to its context, which it therefore stops retaining. */
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
/* Mark v, a constant of p, and everything inside it VALUE_OF_PROGRAM.  Call this before anything
 * else refers to v. */
void program_own(session *s, program *p, rush_value v);
/* The program whose types these are, or NULL. */
program *program_of_types(type_store *ts);
/* Reading a class begins: when it fails, the program forgets it, so that nobody meets half a class.
 *  session_keep what this returns when it is read.  `qualified` lives as long as the session. */
void *program_begin_class(session *s, program *p, const char *qualified);
/* The function's schema, which is filled from here on; when that fails it has none, and can be
 * declared again. session_keep the function when the schema is whole. */
void function_begin_schema(session *s, function *f, schema *sc);
const type *program_find_class(const program *p, str qualified);
function *program_find_function(const program *p, str qualified);
/* Fresh, registered, empty.  Names are copied.  A name that exists is an error. */
type *program_add_class(session *s, program *p, type_kind kind, const char *qualified);
function *program_add_function(session *s, program *p, const char *qualified);
/* A function that no name finds: the body of a fork, a module's hook. */
function *program_add_closure(session *s, program *p, const char *qualified);
function *class_add_method(session *s, const type *cls, const char *name);
/* A function that is found as a method too, and takes no self. */
void class_share_function(session *s, const type *cls, function *f);
uint32_t class_add_attr(session *s, const type *cls, const char *name, const type *t);
source *program_add_source(session *s, program *p, const char *name, const char *text, size_t len);

/* The program owns `v` from now on: it lives as long. */
void program_keep_steal(session *s, program *p, rush_value v);
/* Attributes and methods are there afterwards. */
void class_complete(session *s, const type *cls);
uint32_t class_add_constant(session *s, const type *cls, const char *name, const type *t,
                            rush_value v); /* retained */
void class_add_enum_member(session *s, const type *cls, const char *name, rush_value member_steal);
/* The function's graph: owned by the program from now on. */
void function_set_graph_steal(function *f, ir_graph *g);

int class_attr_index(const type *cls, str name);         /* slot, or -1 */
const class_attr *class_constant(const type *cls, str name);
function *class_find_method(const type *cls, str name);  /* NULL: none */
/* True for methods, which callers pass an object of the class first; static ones and functions of a
 * file take none. */
static inline bool function_takes_self(const function *f) { return f->self && !f->is_static; }
/* The function, or the method of a class, that the node names; NULL: none, or an interface's. */
function *ir_node_callee(const ir_node *n);
/* type_is_subtype, where a class may have methods whose results only their bodies say: those that
 * the comparison needs are compiled.  Without that such a class fits no interface.  Leaves when a
 * result is needed to infer itself. */
bool program_is_subtype(session *s, program *p, const type *a, const type *b);
/* Repeat a comparison while this is true: a method that it lacked the result of is compiled.  Set
 * p->uninferred to NULL before. */
bool program_infer_more(session *s, program *p);
/* Some value of the type (new), where it has one that can be made of nothing. */
bool type_has_some_value(const type *t);
rush_status value_some(call_ctx *cx, const type *t, rush_value *out) RUSH_CHECKED;
/* Compile now if it was not (any thread; takes the program's lock). */
void function_ensure(session *s, function *f);
rush_status function_prepare(call_ctx *cx,
                             function *f) RUSH_CHECKED; /* the same, run-time regime */

#endif
