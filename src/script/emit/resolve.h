/* script/emit/resolve.h -- the only door to names, and what a name can mean.
 *
 * While an expression is compiled its value is a `sugared` value: a value of the graph, or
 * something that exists at compile time only (a module's method, torch, range(3)).  Names that are
 * no variables are looked up through a resolver; archives, user files and operator bodies each have
 * their own.
 *
 * A resolver's functions leave the session on errors and return false (NULL) for what they don't
 * know. */
#ifndef RUSH_SCRIPT_RESOLVE_H
#define RUSH_SCRIPT_RESOLVE_H

#include "ir/program.h"
#include "script/syntax/ast.h"

typedef enum special_form { /* calls that no schema describes */
  SPECIAL_ANNOTATE,
  SPECIAL_UNCHECKED_CAST,
  SPECIAL_UNINITIALIZED,
  SPECIAL_ISINSTANCE,
  SPECIAL_GETATTR,
  SPECIAL_HASATTR,
  SPECIAL_FORK,
  SPECIAL_AWAITABLE,
  SPECIAL_TUPLE,
  SPECIAL_LIST,
  SPECIAL_DICT,
  SPECIAL_RANGE,
  SPECIAL_SLICE,
  SPECIAL_ZIP,
  SPECIAL_ENUMERATE,
  SPECIAL_PRINT,
  SPECIAL_SUPER,
  SPECIAL_IS_SCRIPTING, /* torch.jit.is_scripting(): true */
  SPECIAL_IS_TRACING,   /* torch.jit.is_tracing(): false */
  SPECIAL_CREATE_OBJECT /* C.__new__ */
} special_form;

typedef enum sugar_kind {
  SUGAR_VALUE,       /* as.value */
  SUGAR_BUILTIN,     /* as.builtin: an operator name, with self when it is a method */
  SUGAR_CAST,        /* as.builtin.name, result as.builtin.type: int(), str() ... */
  SUGAR_TENSOR_CAST, /* as.builtin: x.float(): name the dtype's method, self the tensor */
  SUGAR_SPECIAL,     /* as.special */
  SUGAR_TENSOR_TYPE, /* as.dtype: torch.FloatTensor and its like */
  SUGAR_FUNCTION,    /* as.function */
  SUGAR_METHOD,      /* as.method: a bound method */
  SUGAR_CLASS,       /* as.type: calling it constructs */
  SUGAR_NAMED_TUPLE, /* as.type */
  SUGAR_ENUM,        /* as.type: its attributes are members */
  SUGAR_EXCEPTION,   /* as.name: "builtins.ValueError", or "" for AssertionError */
  SUGAR_RAISED,      /* as.raised: an exception that was made but not raised yet */
  SUGAR_NAMESPACE,   /* as.name: operators "aten::", "prim::" ... of torch and ops */
  SUGAR_OPS,         /* torch.ops: its attributes are namespaces */
  SUGAR_TORCH,       /* as.name: a dotted Python path, "torch", "torch.nn.functional" */
  SUGAR_SPACE,       /* as.name: a qualified name's beginning, "__torch__.a" */
  SUGAR_CONSTANTS,   /* CONSTANTS */
  SUGAR_CONSTANT,    /* as.constant: a value that becomes a node where it is used */
  SUGAR_TYPE,        /* as.type: an annotation used as a value */
  SUGAR_PYTHON_VALUE, /* as.name: its class; nothing can be done with it */
  SUGAR_TUPLE,       /* as.items: unpacked at compile time */
  SUGAR_RANGE,       /* as.range */
  SUGAR_SLICE,       /* as.slice: an index of its own */
  SUGAR_ITERATION,   /* as.items: zip and enumerate */
  SUGAR_CLOSURE,     /* as.node: a nested def */
  SUGAR_MODULE_VIEW, /* as.builtin: items(), named_modules() ... of self, a module */
  SUGAR_HOST_OBJECT, /* as.thing: of a host language; its attributes come through resolver->attr */
  SUGAR_HOST_CALL,   /* as.host: an operator that calls the host */
  SUGAR_OVERLOADS,   /* as.overloads: the first function that takes the arguments */
  SUGAR_DISPATCH     /* as.dispatch: items[1] where a constant argument is true, else items[0] */
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
    struct { ir_value *bounds[3]; } slice; /* start, stop, step; NULL: not given */
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
    } thing; /* self: the first argument of a method's calls, or NULL */
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
  /* A free name.  Returns false when unknown. */
  bool (*value)(session *s, const resolver *r, const char *name, source_range at, sugared *out);
  /* `name` of a SUGAR_SPACE or SUGAR_TORCH. */
  bool (*attr)(session *s, const resolver *r, const sugared *base, const char *name,
               source_range at, sugared *out);
  /* The type of a dotted name in an annotation, or NULL. */
  const type *(*type)(session *s, const resolver *r, const char *name, source_range at);
  /* What a name of an annotation is called where it comes from ("L": "List"); may be NULL. */
  const char *(*type_name)(session *s, const resolver *r, const char *name);
  /* What an object (SUGAR_VALUE) or class has beyond what its type knows; or NULL. */
  bool (*class_attr)(session *s, const resolver *r, const sugared *base, const char *name,
                     source_range at, sugared *out);
  /* A parameter's default (new) in place of the text's; false: the text counts.  Or NULL. */
  bool (*default_value)(session *s, const resolver *r, const char *name, const type *t,
                        source_range at, rush_value *out);
  unsigned parse_flags;
  int64_t version; /* of an archive's operators (upgrade.c); 0: today's */
  /* What the host's object behind a module type has beyond the type's own; may be NULL.  False:
   * nothing of this name; then *why may be set to what the error should add. */
  bool (*member)(session *s, const resolver *r, ir_value *self, const char *name, source_range at,
                 sugared *out, const char **why);
  /* a string that a live unit defines: PyTorch's parser in C++ reads it, not its front end for
   * Python */
  bool is_string;
  bool is_live;    /* Python's own source: what torch.jit.script's front end refuses is refused */
  /* what a function calls is compiled with it, as PyTorch does; archives and operators' bodies
   * wait */
  bool is_eager;
};

/* Names of Python and TorchScript itself: len, range, int, print ... */
bool resolve_builtin_name(const char *name, sugared *out);
/* torch and what lies below it (`path` without the name: "torch", "torch.nn.functional"). */
bool resolve_torch_attr(session *s, const char *path, const char *name, sugared *out);
/* An annotation. */
const type *resolve_type(session *s, const resolver *r, const ast_expr *e);
/* Leaves unless dicts may have keys of the type. */
void resolve_check_key(session *s, const type *key, source_range at);
/* The type's own text, in errors: "List[int]". */
const char *type_text(session *s, const type *t);

#endif
