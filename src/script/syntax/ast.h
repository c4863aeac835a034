/* script/syntax/ast.h -- the syntax tree of TorchScript source.
 *
 * Shaped by what users write: everything that Python's grammar allows in a function is kept, also
 * what the emitter refuses, so that the refusal can name it.  Types are expressions; the emitter's
 * type resolver reads them.  Nodes live in the parsing session's arena and are never changed.
 *
 * A chained comparison is one node: operands[0] ops[0] operands[1] ops[1] ...
 *
 * Ranges are PyTorch's, for messages: from the first part of an expression to the last, so that
 * `f(a, b)` ends with b. */
#ifndef RUSH_SCRIPT_AST_H
#define RUSH_SCRIPT_AST_H

#include "base/source.h"

typedef struct ast_expr ast_expr;
typedef struct ast_stmt ast_stmt;
typedef struct ast_def ast_def;

typedef struct ast_exprs {
  ast_expr **items;
  uint32_t n;
} ast_exprs;
typedef struct ast_stmts {
  ast_stmt **items;
  uint32_t n;
} ast_stmts;

typedef enum ast_op { /* binary, comparison, boolean and unary operators */
  OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW, OP_MATMUL,
  OP_BITAND, OP_BITOR, OP_XOR, OP_LSHIFT, OP_RSHIFT,
  OP_LT, OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE, OP_IS, OP_IS_NOT, OP_IN, OP_NOT_IN,
  OP_AND, OP_OR,
  OP_NOT, OP_NEG, OP_POS, OP_INVERT,
  OP_NONE
} ast_op;

typedef enum expr_kind {
  EXPR_NAME,
  EXPR_INT,       /* "-" is folded in; op OP_NEG marks a bare 2**63, which does not fit */
  EXPR_FLOAT,
  EXPR_IMAG,      /* the number before j */
  EXPR_STRING,
  EXPR_BYTES,
  EXPR_TRUE,
  EXPR_FALSE,
  EXPR_NONE,
  EXPR_ELLIPSIS,
  EXPR_FSTRING,   /* pieces: EXPR_STRING and EXPR_FORMAT */
  EXPR_FORMAT,    /* {value!c:spec} of an f-string */
  EXPR_ATTR,
  EXPR_SUBSCRIPT,
  EXPR_SLICE,     /* only inside a subscript */
  EXPR_CALL,
  EXPR_UNARY,
  EXPR_BINARY,
  EXPR_COMPARE,
  EXPR_BOOL,      /* a and b and c: n operands, one operator */
  EXPR_TERNARY,
  EXPR_LAMBDA,
  EXPR_LIST,
  EXPR_TUPLE,
  EXPR_SET,
  EXPR_DICT,
  EXPR_LIST_COMP,
  EXPR_SET_COMP,
  EXPR_DICT_COMP,
  EXPR_GENERATOR,
  EXPR_STARRED,   /* *x in calls, targets and displays */
  EXPR_WALRUS,
  EXPR_AWAIT,
  EXPR_YIELD, EXPR_YIELD_FROM
} expr_kind;

typedef struct ast_keyword { /* f(name=value); name NULL: **value */
  const char *name;
  ast_expr *value;
  source_range at;
} ast_keyword;

typedef struct ast_comp { /* for target in iter if conds[0] if conds[1] ... */
  ast_expr *target, *iter;
  ast_exprs conds;
} ast_comp;

typedef struct ast_param {
  const char *name;
  ast_expr *type;          /* or NULL */
  ast_expr *default_value; /* or NULL */
  source_range at;
  enum { PARAM_PLAIN, PARAM_STAR, PARAM_STAR_STAR } form;
  bool keyword_only;
  bool positional_only; /* before a '/' */
} ast_param;

struct ast_expr {
  expr_kind kind;
  ast_op op; /* OP_NONE if there is none */
  source_range at;
  union {
    const char *name; /* NAME */
    int64_t integer;  /* INT */
    double number;    /* FLOAT, IMAG */
    struct { const char *data; size_t len; } string; /* STRING, BYTES; NUL-terminated as well */
    struct { ast_expr *value; const char *spec; char conversion; } format; /* spec or NULL */
    struct { ast_expr *base; const char *name; source_range name_at; } attr;
    struct { ast_expr *base; ast_exprs index; bool is_tuple; } subscript; /* x[a, b]; x[a,] */
    struct { ast_expr *start, *stop, *step; } slice; /* each may be NULL */
    struct { ast_expr *fn; ast_exprs args; ast_keyword *keywords; uint32_t n_keywords; } call;
    struct {
      ast_expr *left, *right;
    } pair; /* BINARY, WALRUS; UNARY, STARRED, AWAIT, YIELD: left */
    struct { ast_exprs operands; ast_op *ops; } compare;
    ast_exprs items; /* BOOL, LIST, TUPLE, SET, FSTRING */
    struct { ast_expr *cond, *yes, *no; } ternary;
    struct { ast_exprs keys, values; } dict; /* keys.items[i] NULL: **value */
    struct {
      ast_expr *key, *element;
      ast_comp *fors;
      uint32_t n_fors;
    } comp; /* key: DICT_COMP only */
    struct { ast_param *params; uint32_t n_params; ast_expr *body; } lambda;
  } as;
};

typedef enum stmt_kind {
  STMT_EXPR,
  STMT_ASSIGN,   /* targets[0] = targets[1] = value; or target : type [= value] */
  STMT_AUG_ASSIGN,
  STMT_IF,       /* elif is an if alone in orelse */
  STMT_WHILE,
  STMT_FOR,
  STMT_WITH,
  STMT_RETURN,
  STMT_RAISE,
  STMT_ASSERT,
  STMT_PASS,
  STMT_BREAK,
  STMT_CONTINUE,
  STMT_DEL,
  STMT_GLOBAL,
  STMT_TRY,
  STMT_DEF,
  STMT_CLASS,
  STMT_IMPORT    /* import a.b as c; from a import b as c, d */
} stmt_kind;

typedef struct ast_with_item {
  ast_expr *value, *target; /* target or NULL */
} ast_with_item;
typedef struct ast_alias {
  const char *name, *as_name; /* as_name NULL: none; name "*" for import * */
} ast_alias;
typedef struct ast_handler {
  ast_expr *type; /* or NULL */
  const char *name;
  ast_stmts body;
} ast_handler;

struct ast_def {
  const char *name;
  source_range at, name_at; /* at starts at "def": parse_def_at reads it again */
  ast_param *params;
  uint32_t n_params;
  ast_expr *returns;        /* or NULL */
  ast_exprs decorators;
  ast_stmts body;           /* empty when body_skipped */
  const char *doc;          /* or NULL */
  bool body_skipped, is_async;
  /* of parse_def_skipped: where the body's text ends, perhaps after comments and blank lines */
  uint32_t text_end;
};

typedef struct ast_signature { /* (A, B) -> C of a type comment */
  ast_exprs params;
  ast_expr *returns; /* or NULL */
  bool dots;         /* a parameter is "..." */
} ast_signature;

typedef struct ast_class {
  const char *name;
  source_range at, name_at;
  ast_exprs bases;
  ast_keyword *keywords;
  uint32_t n_keywords;
  ast_exprs decorators;
  ast_stmts body;
} ast_class;

struct ast_stmt {
  stmt_kind kind;
  ast_op op; /* AUG_ASSIGN */
  source_range at;
  union {
    ast_expr *expr; /* EXPR, RETURN (or NULL) */
    struct {
      ast_exprs targets;
      ast_expr *value, *type;
      uint32_t end;
    } assign; /* value or type may be NULL; end: end of the text */
    struct { ast_expr *target, *value; } aug;
    struct { ast_expr *cond; ast_stmts body, orelse; } branch; /* IF, WHILE */
    struct { ast_expr *target, *iter; ast_stmts body, orelse; } loop;
    struct { ast_with_item *items; uint32_t n_items; ast_stmts body; } with;
    struct { ast_expr *value, *cause; } raise; /* each or NULL */
    struct { ast_expr *cond, *message; } assertion;
    ast_exprs del;
    struct { const char **names; uint32_t n; } global;
    struct { ast_stmts body, orelse, finally; ast_handler *handlers; uint32_t n_handlers; } try_;
    ast_def *def;
    ast_class *cls;
    struct { const char *module; uint32_t level; ast_alias *names; uint32_t n; bool from; } import;
  } as;
};

#endif
