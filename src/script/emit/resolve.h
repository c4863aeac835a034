/* script/emit/resolve.h -- resolving names: the only interface to names, and the kinds of things
 * they can be.
 *
 * While an expression is compiled its value is a `sugared` value: a value of the graph, or
 * something that exists only at compile time (a module's method, torch, range(3)).  Names that are
 * not variables are looked up through a resolver; archives, user files and operator bodies each
 * have their own.
 *
 * A resolver's functions leave the session on errors and return false (NULL) for unknown names. */
#ifndef RUSH_SCRIPT_RESOLVE_H
#define RUSH_SCRIPT_RESOLVE_H

#include "ir/program.h"
#include "script/syntax/ast.h"

/* Calls without a schema, with the words of src/ops/table/names.py. is_scripting is true and
 * is_tracing false; create_object is C.__new__. */
#define SPECIAL_FORMS(FORM)                                                                     \
  FORM(ANNOTATE, "annotate") FORM(UNCHECKED_CAST, "unchecked_cast")                             \
  FORM(UNINITIALIZED, "uninitialized") FORM(ISINSTANCE, "isinstance") FORM(GETATTR, "getattr")  \
  FORM(HASATTR, "hasattr") FORM(FORK, "fork") FORM(AWAITABLE, "awaitable") FORM(TUPLE, "tuple") \
  FORM(LIST, "list") FORM(DICT, "dict") FORM(RANGE, "range") FORM(SLICE, "slice")               \
  FORM(ZIP, "zip") FORM(ENUMERATE, "enumerate") FORM(PRINT, "print") FORM(SUPER, "super")       \
  FORM(IS_SCRIPTING, "is_scripting") FORM(IS_TRACING, "is_tracing")                             \
  FORM(CREATE_OBJECT, "create_object")
#define SPECIAL_ID(id, word) SPECIAL_##id,
typedef enum special_form { SPECIAL_FORMS(SPECIAL_ID) } special_form;
#undef SPECIAL_ID

typedef enum sugar_kind {
  SUGAR_VALUE,       /* as.value */
  SUGAR_BUILTIN,     /* as.builtin: an operator name, with self if it is a method */
  SUGAR_CAST,        /* as.builtin.name, result as.builtin.type: int(), str() ... */
  SUGAR_TENSOR_CAST, /* as.builtin: x.float(): name the dtype's method, self the tensor */
  SUGAR_SPECIAL,     /* as.special */
  SUGAR_TENSOR_TYPE, /* as.dtype: torch.FloatTensor and similar types */
  SUGAR_FUNCTION,    /* as.function */
  SUGAR_METHOD,      /* as.method: a bound method */
  SUGAR_CLASS,       /* as.type: calling it constructs */
  SUGAR_NAMED_TUPLE, /* as.type */
  SUGAR_ENUM,        /* as.type: its attributes are members */
  SUGAR_EXCEPTION,   /* as.name: "builtins.ValueError", or "" for AssertionError */
  SUGAR_RAISED,      /* as.raised: an exception that was constructed but not raised yet */
  SUGAR_NAMESPACE,   /* as.name: operators "aten::", "prim::" ... of torch and ops */
  SUGAR_OPS,         /* torch.ops: its attributes are namespaces */
  SUGAR_TORCH,       /* as.name: a dotted Python path, "torch", "torch.nn.functional" */
  SUGAR_SPACE,       /* as.name: the beginning of a qualified name, "__torch__.a" */
  SUGAR_CONSTANTS,   /* CONSTANTS */
  SUGAR_CONSTANT,    /* as.constant: a value that becomes a node at each use */
  SUGAR_TYPE,        /* as.type: an annotation used as a value */
  SUGAR_PYTHON_VALUE, /* as.name: its class; it cannot be used in any way */
  SUGAR_TUPLE,       /* as.items: unpacked at compile time */
  SUGAR_RANGE,       /* as.range */
  SUGAR_SLICE,       /* as.slice: a slice object used as an index */
  SUGAR_ITERATION,   /* as.items: zip and enumerate */
  SUGAR_CLOSURE,     /* as.node: a nested def */
  SUGAR_MODULE_VIEW, /* as.builtin: items(), named_modules() ... of self, a module */
  /* as.thing: an object of the host language; its attributes come through resolver->attr */
  SUGAR_HOST_OBJECT,
  SUGAR_HOST_CALL,   /* as.host: an operator that calls the host */
  SUGAR_OVERLOADS,   /* as.overloads: the first function that accepts the arguments */
  SUGAR_DISPATCH     /* as.dispatch: items[1] if a constant argument is true, else items[0] */
} sugar_kind;

typedef struct sugared {
  sugar_kind kind;
  union {
    ir_value *value;
    struct { const char *name; ir_value *self; const type *type; } builtin;
    special_form special;
    int dtype;
    function *function;
    struct { ir_value *self; function *function; } method;
    const type *type;
    const char *name;
    struct { const char *name; ir_value *message; } raised;
    struct { struct sugared *items; uint32_t n; } items;
    struct {
      ir_value *start, *end, *step;
      int64_t static_len;
    } range;                               /* start NULL: 0; -1: unknown */
    struct { ir_value *bounds[3]; } slice; /* start, stop, step; NULL: missing */
    ir_node *node;
    struct { /* borrowed */
      rush_value value;
      const type *type;
      bool is_global; /* a variable of Python's: defaults may use it, bodies may not */
    } constant;
    struct {
      void *object;
      const char *name;
      ir_value *self;
    } thing; /* self: the first argument of calls of the method, or NULL */
    struct {
      const struct op *op;
      const char *message;
      ir_value *self;
    } host; /* message: a call raises it instead; or NULL; self: its first argument */
    struct { function **functions; ir_value *self; uint32_t n; } overloads;
    struct { const struct sugared *items; const char *name; uint16_t index; bool flag; } dispatch;
  } as;
} sugared;

typedef struct resolver resolver;
struct resolver {
  void *arg;
  program *program;
  /* Resolve a free name.  Returns false if it is unknown. */
  bool (*value)(session *s, const resolver *r, const char *name, source_range at, sugared *out);
  /* Resolve `name` of a SUGAR_SPACE or SUGAR_TORCH. */
  bool (*attr)(session *s, const resolver *r, const sugared *base, const char *name,
               source_range at, sugared *out);
  /* Resolve a dotted name in an annotation; NULL: unknown. */
  const type *(*type)(session *s, const resolver *r, const char *name, source_range at);
  /* Return the original name of an annotation's name ("L": "List"); may be NULL. */
  const char *(*type_name)(session *s, const resolver *r, const char *name);
  /* Resolve an attribute of an object (SUGAR_VALUE) or class that its type does not have; or
   * NULL. */
  bool (*class_attr)(session *s, const resolver *r, const sugared *base, const char *name,
                     source_range at, sugared *out);
  /* Get a parameter's default (new) instead of the text's; returns false to use the text's.  Or
   * NULL. */
  bool (*default_value)(session *s, const resolver *r, const char *name, const type *t,
                        source_range at, rush_value *out);
  unsigned parse_flags;
  int64_t version; /* operator version of an archive (upgrade.c); 0: the current one */
  /* Resolve an attribute of the host's object behind a module type that the type does not have; may
   * be NULL.  Returns false if there is none; *why may then be set to an addition to the error. */
  bool (*member)(session *s, const resolver *r, ir_value *self, const char *name, source_range at,
                 sugared *out, const char **why);
  /* Resolve a call of a SUGAR_HOST_OBJECT with n_args arguments; may be NULL.  Returns false if it
   * cannot be called. */
  bool (*called)(session *s, const resolver *r, const sugared *base, uint32_t n_args,
                 source_range at, sugared *out);
  /* Resolve a block of a SUGAR_HOST_OBJECT that is left to the host, given as the text of a
   * function; may be NULL.  Returns false if the host takes none. */
  bool (*block)(session *s, const resolver *r, const sugared *base, const char *text,
                source_range at, sugared *out);
  /* a string that a live unit defines: PyTorch reads it with its C++ parser, not its Python front
   * end */
  bool is_string;
  bool is_live;    /* Python's own source: refuse what torch.jit.script's front end refuses */
  /* compile called functions at once, as PyTorch does; archives and operators' bodies compile
   * later */
  bool is_eager;
};

/* Resolve names of Python and TorchScript itself: len, range, int, print ... */
bool resolve_builtin_name(const char *name, sugared *out);
/* Resolve Python's names that TorchScript refuses or applies to tensors; leaves the session for
 * those that PyTorch refuses by name. */
bool resolve_python_name(session *s, program *p, const char *name, source_range at, sugared *out);
/* Resolve an attribute of torch or below (`path` without the name: "torch",
 * "torch.nn.functional"); functions and classes with a body in the table become p's. */
bool resolve_torch_attr(session *s, program *p, const char *path, const char *name, sugared *out);
/* Resolve an attribute of a SUGAR_TORCH (resolver.attr). */
bool resolve_attr(session *s, const resolver *r, const sugared *base, const char *name,
                  source_range at, sugared *out);
/* Resolve an annotation. */
const type *resolve_type(session *s, const resolver *r, const ast_expr *e);
/* Leave the session unless dicts may have keys of the type. */
void resolve_check_key(session *s, const type *key, source_range at);
/* Return the type's text for errors: "List[int]". */
const char *type_text(session *s, const type *t);

#endif
