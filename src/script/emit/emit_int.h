/* script/emit/emit_int.h -- shared by the emitter's files. */
#ifndef RUSH_SCRIPT_EMIT_INT_H
#define RUSH_SCRIPT_EMIT_INT_H

#include "passes/name_set.h"
#include "script/emit/emit.h"

typedef struct variable { /* of one frame */
  const char *name;
  /* its name in loads and stores: `name`, except for comprehensions' own variables */
  const char *slot;
  const type *type; /* of the stored value, or NULL for compile-time values */
  const sugared *sugar; /* if type is NULL and there is no error */
  ir_value *value;   /* its value, while no inner block may have changed it, or NULL */
  const char *error; /* the reason why it cannot be read here (a branch did not set it), or NULL */
} variable;

typedef struct frame { /* the variables of one block */
  struct frame *parent;
  ir_block *block;
  name_set names;
  variable *vars; /* in the order of `names` */
  bool exits;       /* return, break, continue or raise ends the block */
  bool is_function; /* outermost frame of a function or closure */
  bool is_branch;   /* of an if: runs once, in order */
} frame;

typedef struct return_info {
  const type *declared; /* or NULL */
  const type *merged;   /* of the returns so far, or NULL */
  const ir_value *only; /* the value of the only return so far, or NULL */
} return_info;

/* Per-function lookup cache (direct-mapped), keyed by the address of a name or the name itself. */
typedef struct emit_memo {
  struct {
    const char *name;
    const op *const *ops;
    uint32_t n;
  } overloads[32]; /* names that live as long as the session */
  struct { const char *base, *name; sugared found; } torch[16];
} emit_memo;

typedef struct emitter {
  session *s;
  function *f;
  program *p;
  ir_graph *g;
  const resolver *names;
  frame *frame;
  ir_node *before; /* the insertion point: new nodes are inserted before this one */
  source_range at; /* source of the code being emitted */
  source_range compiling; /* the whole call being compiled: for errors in the function it calls */
  return_info *ret;
  uint32_t loop_depth;
  bool is_unrolling;     /* inside the body of a loop that is unrolled */
  uint32_t statement_end; /* end of the if statement about to be compiled with its branches, or 0 */
  /* numbers in the source: tag and bits -> the node, at the graph's front; or NULL */
  table *literals;
  uint32_t n_scopes;     /* number of comprehensions so far: their variables' slots are numbered */
  bool fresh_names;      /* assigning a comprehension's target: always a new variable */
  emit_memo *memo;
} emitter;

typedef struct named_value { /* a keyword argument */
  const char *name;
  ir_value *value;
  source_range at;
} named_value;

typedef struct call_args {
  ir_value **args;
  source_range *ranges; /* of args, or NULL */
  uint32_t n;
  named_value *kwargs;
  uint32_t n_kwargs;
} call_args;

#define FAIL(e, ...) session_fail((e)->s, &(e)->at, __VA_ARGS__)
/* Errors that PyTorch's front end reports before it considers types, with its classes. */
#define REFUSE(e, range, kind, ...) \
  session_fail_status((e)->s, RUSH_ERAISED, kind, (range), __VA_ARGS__)
#define NOT_SUPPORTED "NotSupportedError"
#define UNSUPPORTED_NODE "UnsupportedNodeError"

/* -- Types (types.c) --------------------------------------------------------------------------- */
static inline bool is_tensor(const type *t) { return t->kind == TYPE_TENSOR; }
const type *em_list_of(emitter *e, const type *elem);
const type *em_optional_of(emitter *e, const type *elem);
const type *em_tuple_of(emitter *e, const type *const *elems, uint32_t n);
/* The types that an annotation requires of a list or dict display, or comprehension: those of that
 * kind inside Optional and Union. */
typedef struct display_hint {
  const type *whole, *one; /* one: NULL if a Union has several (archives: the last) */
  uint32_t n;
} display_hint;
display_hint em_display_hint(emitter *e, const ast_expr *x, const type *hint, type_kind k);
ir_value *
em_as_annotated(emitter *e, ir_value *v,
                /* the type of a display, taken from inside an Optional or Union */
                const type *hint);
/* Refuse an annotation of another kind, before the display is compiled. */
void em_check_annotation(emitter *e, const ast_expr *x, const type *t);
const type *em_choose_display(emitter *e, const display_hint *h, const type *a,
                              const type *b); /* for several: a list or tuple of them */
const type *em_unify(emitter *e, const type *a, const type *b, bool to_union); /* NULL: none */
/* Like type_is_subtype; compiles methods that an interface needs if only their bodies show their
 * result types. */
static inline bool em_is_subtype(emitter *e, const type *a, const type *b)
{
  return a == b || program_is_subtype(e->s, e->p, a, b);
}
const type *em_unwrap_optional(const type *t);

/* -- unknown_ops.c: operators of archives that are not registered ------------------------------ */

/* True in archives, whose methods can be inspected without their operators. */
bool em_allows_unknown(const emitter *e);
/* Call the unknown operator `name`; its result is a Tensor for now. */
ir_value *em_unknown_op(emitter *e, const char *name, const call_args *a);
/* Declare the type of such a result, if v is one without uses; or a tuple of n Tensors. */
void em_declare_unknown(ir_value *v, const type *t);
void em_unpack_unknown(emitter *e, ir_value *v, uint32_t n);

bool em_is_optional_like(const type *t); /* Optional, or a Union with None */
const type *em_without_none(emitter *e, const type *t);
#define TYPE_TEXT(e, t) type_text((e)->s, (t))
const char *em_type_of(emitter *e,
                       const ir_value *v); /* of a value: "Tensor (inferred)" */

/* -- Constants (function.c) -------------------------------------------------------------------- */
/* Evaluate a constant expression; borrowed from the session (or the program). */
rush_value em_evaluate_constant(session *s, const resolver *r, const ast_expr *x, const type *t);
rush_value em_constant_of_type(session *s, const resolver *r, const ast_expr *x, const type *t);
bool em_constant_path(session *s, const resolver *r, const ast_expr *x, sugared *out);

/* -- Nodes (build.c) --------------------------------------------------------------------------- */
ir_node *em_put(emitter *e, ir_node *n); /* inserts at the insertion point, with the range */
ir_value *em_put_node(emitter *e, ir_kind k, ir_value *const *in, uint32_t n, const type *out);
ir_value *em_put_nowhere(emitter *e, ir_kind k, ir_value *const *in, uint32_t n,
                         const type *out); /* without the range */
ir_value *em_constant_int(emitter *e, int64_t v);
/* Emit a number written in the source: PyTorch puts it at the graph's front, once. */
ir_value *em_literal_number(emitter *e, rush_value v, const type *t);
ir_value *em_constant_bool(emitter *e, bool v);
ir_value *em_constant_none(emitter *e);
ir_value *em_constant_str(emitter *e, const char *text, size_t len);
ir_value *em_constant_complex(emitter *e, double im);
ir_value *em_constant_value(emitter *e, rush_value v, const type *t); /* borrows v */
ir_value *em_make_list(emitter *e, const type *elem, ir_value *const *v, uint32_t n);
ir_value *em_make_tuple(emitter *e, ir_value *const *v, uint32_t n,
                        const type *t); /* t NULL: plain */
ir_value *em_unchecked_cast(emitter *e, ir_value *v, const type *t);
/* as many as its type has elements */
void em_unpack_tuple(emitter *e, ir_value *v, ir_value **out);
ir_node *em_begin_at(emitter *e,
                     /* moves the insertion point to the end of b; returns the old one */
                     ir_block *b);
bool em_is_empty_list_literal(const ir_value *v);

/* -- Variables (env.c) ------------------------------------------------------------------------- */
frame *em_push_frame(emitter *e, ir_block *b);
void em_pop_frame(emitter *e);
variable *em_find_var(frame *f, const char *name);        /* in any frame */
variable *em_find_var_here(frame *f, const char *name);
void em_set_var(emitter *e, const char *name, sugared v, const type *annotated);
void em_set_self(
  emitter *e, const char *name,
  /* a module of a live program: not stored, so that it remains %self, as in PyTorch */
  ir_value *self);
void em_set_var_type(emitter *e, const char *name, const type *t); /* without a store */
void em_set_var_error(emitter *e, const char *name, const char *why);
bool em_get_var(emitter *e, const char *name, sugared *out); /* variables only */
void em_del_var(emitter *e, const ast_expr *x); /* del x */
/* or the resolver's; leaves the session if unknown */
sugared em_get_name(emitter *e, const char *name);

/* -- Matching (match.c) ------------------------------------------------------------------------ */
/* Insert the best overload of an operator.  Several results are one tuple; no result is None. */
ir_value *em_call_builtin(emitter *e, const char *name, ir_value *self, const call_args *a);
ir_value *em_call_op(emitter *e, const char *name, ir_value *const *args, uint32_t n);
/* Convert arguments for a function or method and insert its call. */
/* Return the function for the operator's meaning in the archive's version; NULL: unchanged
 * (upgrade.c). */
function *em_upgrader(emitter *e, const op *o);
ir_value *em_call_function(emitter *e, function *f, ir_value *self, const call_args *a);
/* Call the first function that accepts the arguments, preferably without conversions. */
ir_value *em_call_overloads(emitter *e, function *const *f, uint32_t n, ir_value *self,
                            const call_args *a);
/* Match and convert arguments to a schema's; leaves the session if they do not fit. */
ir_value **em_match_schema(emitter *e, const schema *sc, ir_value *self, const call_args *a);
ir_value *em_convert(emitter *e, const type *to, ir_value *v,
                     bool implicit); /* may not reach `to` */
/* Return "\nWhy a class is not one of an interface's", or "" if that does not apply. */
const char *em_interface_reason(emitter *e, const type *cls, const type *want);
/* True if the operator has an overload whose self is of this type. */
bool em_has_method(emitter *e, const char *name, const type *self);

/* -- Sugared values (sugar.c) ------------------------------------------------------------------ */
bool em_one_of(const char *name, const char *const *names, size_t n);
/* Return the dtype that a tensor's method of this name converts to ("long"), or -1. */
int em_cast_dtype(const char *name);
static inline sugared sugar_value(ir_value *v)
{
  return (sugared){.kind = SUGAR_VALUE, .as.value = v};
}
const char *em_sugar_name(emitter *e, const sugared *v); /* for messages */
ir_value *em_as_value(emitter *e, const sugared *v); /* leaves the session if it is not a value */
sugared em_get_attr(emitter *e, const sugared *base, const char *name);
bool em_try_get_attr(emitter *e, const sugared *base, const char *name, sugared *out);
void em_set_attr(emitter *e, ir_value *object, const char *name, ir_value *v);
/* Return items for unpacking into n targets (n 0: all). */
uint32_t em_as_items(emitter *e, const sugared *v, uint32_t n, sugared **out);
bool em_find_method(const type *t, const char *name, function **out);

/* -- Modules (modules.c) ----------------------------------------------------------------------- */
bool em_module_attr(emitter *e, ir_value *v, const char *name, sugared *out, const char **why);
sugared em_module_view(emitter *e, const sugared *view, const call_args *a);
/* the values that a for statement iterates over */
sugared em_module_items(emitter *e, ir_value *v);
sugared em_index_module(emitter *e, ir_value *v, const ast_expr *x, const type *hint);
ir_value *em_module_tuple(emitter *e, ir_value *v); /* for slices */

/* -- Calls (call.c, special.c) ----------------------------------------------------------------- */
sugared em_call_sugared(emitter *e, const sugared *fn, const call_args *a, const type *hint);
sugared em_call(emitter *e, const ast_expr *x, const type *hint);
/* Call self.tolist(), whose result type the annotation around it determines. */
ir_value *em_tolist(emitter *e, ir_value *self, const ast_expr *x, const type *hint);
sugared em_special(emitter *e, special_form form, const ast_expr *x, const type *hint);
/* Call the method `magic` if a is an object that has it, else the operator `op`. */
ir_value *em_call_magic(emitter *e, const char *magic, const char *op, ir_value *const *v,
                        uint32_t n);

/* -- Refusals (refuse.c): what a function may not contain, for programs that Python wrote ------ */
/* ignored.c */
bool em_is_ignored_block(const ast_stmt *st); /* of a `with` */
void em_ignored_block(emitter *e, const ast_stmt *st);

/* Refuse parameters.  Not is_file: a string that a live unit defines, whose defaults may be lists,
 * as PyTorch's C++ parser allows. */
void em_refuse_params(session *s, const ast_def *d, bool is_file);
void em_refuse_body(session *s, const ast_def *d);

/* -- Signatures in comments (comments.c) ------------------------------------------------------- */
bool script_has_type_lines(const source *src);
/* Apply the type comments of d (from parse_def_skipped) to its parameters and result; leaves the
 * session for those that PyTorch refuses. */
void script_apply_type_lines(session *s, program *p, ast_def *d, bool is_method);

/* -- Expressions (expr.c, literal.c, index.c) -------------------------------------------------- */
sugared em_sugared(emitter *e, const ast_expr *x, const type *hint);
ir_value *em_expr(emitter *e, const ast_expr *x, const type *hint);
ir_value *em_literal(emitter *e, const ast_expr *x, const type *hint);
ir_value *em_fstring(emitter *e, const ast_expr *x);
sugared em_subscript(emitter *e, const ast_expr *x, const type *hint);
void em_assign_subscript(emitter *e, const ast_expr *target, ir_value *v);
void em_del_subscript(emitter *e, const ast_expr *target);
const char *em_binary_op_name(ast_op op, const char **magic);
/* Return PyTorch's operator for `a OP= b` of tensors and lists. */
const char *em_augmented_op_name(ast_op op);
bool em_literal_int(const ast_expr *x, int64_t *out);

/* -- Conditions (cond.c) ----------------------------------------------------------------------- */
typedef struct refinement {
  const char *name;
  const type *type;
  struct refinement *next;
} refinement;
typedef struct condition {
  ir_value *value;               /* NULL if `known` is not -1 and nothing was emitted */
  int known;                     /* 1 true, 0 false, -1 unknown */
  refinement *if_true, *if_false;
} condition;
condition em_cond(emitter *e, const ast_expr *x);
void em_check_has_attrs(
  emitter *e, const sugared *v,
  /* checks the argument of hasattr, and of getattr with a default; else leaves the session */
  source_range at);
ir_value *em_cond_value(emitter *e, const condition *c);
void em_refine(emitter *e, const refinement *r);
ir_value *em_ternary(emitter *e, const ast_expr *x, const type *hint);

/* -- Iteration (iter.c) ------------------------------------------------------------------------ */
/* the values that a for statement iterates over */
sugared em_iterate(emitter *e, const sugared *v);
int64_t em_static_len(emitter *e, const sugared *it);  /* -1: only known at run time */
bool em_is_unrolled(emitter *e, const sugared *it);
ir_value *em_list_comp(emitter *e, const ast_expr *x, const type *hint);
ir_value *em_dict_comp(emitter *e, const ast_expr *x, const type *hint);
void em_loop(emitter *e, const sugared *it, const ast_expr *target,
               void (*body)(emitter *e, void *arg), void *arg);

/* -- Statements (stmt.c) ----------------------------------------------------------------------- */
void em_block(emitter *e, const ast_stmts *stmts);
void em_assign_to(emitter *e, const ast_expr *target, const sugared *v, const type *annotated);
/* End a body: without a return it returns None, unless another type was declared; its type is then
 * e->ret->merged. */
void em_finish_return(emitter *e, const ast_def *def);
sugared em_raised(emitter *e, const sugared *cls, ir_value *const *args,
                  uint32_t n); /* Class(args): constructed, not raised */
void em_raise_message(emitter *e, ir_value *message, ir_value *class_name);

/* -- Lowering, in this order ------------------------------------------------------------------- */
void em_order_results(session *s, ir_block *b); /* result_order.c */
void em_clean_emitted(session *s, ir_graph *g); /* cleanup.c: dead code, constants first */

#endif
