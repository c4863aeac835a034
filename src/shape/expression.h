/* shape/expression.h -- symbolic expressions as trees: what exported programs hold, print and
 * write.
 *
 * Archives of torch.export hold sizes, numbers and conditions as sympy's expressions.  A tree keeps
 * such an expression as it was written, with its symbols' assumptions, so that it is printed and
 * written back as PyTorch does.  Nothing is simplified when a tree is read; whether two expressions
 * are equal for all values is decided by their normal form (expression_to_symint), never by trees.
 *
 *     Add(FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2)), Integer(1))    srepr
 *     ((s0//2)) + 1                                                                       str
 *     1 + (L['x'].size()[0] // 2)                                                         Python
 *
 * Nodes live in the arena that the maker names and are immutable: any number of threads may read
 * them.  Subtrees may be shared; equal symbols are equal by name and need not be one node.
 *
 * Invariants: (1) a function has as many arguments as expression.def allows, at least one; (2)
 * depth and n_nodes are at most EXPRESSION_MOST_*, so that every recursion over a tree is bounded;
 * (3) q >= 1 and gcd(p, q) == 1 in a rational.
 *
 * Functions that take a session leave it on failure.  Cost: linear in the text or the tree;
 * printing sorts, O(n log n) comparisons. */
#ifndef RUSH_SHAPE_EXPRESSION_H
#define RUSH_SHAPE_EXPRESSION_H

#include "shape/symint.h"
#include "value/value.h"

#define EXPRESSION_MOST_DEPTH 200
#define EXPRESSION_MOST_NODES 20000 /* of one tree; a shared subtree counts wherever it occurs */

typedef enum expression_kind {
  /* Without arguments. */
  EXPRESSION_NUMBER,          /* p / q */
  EXPRESSION_FLOAT,           /* d, of 53 bits */
  EXPRESSION_TRUE,
  EXPRESSION_FALSE,
  EXPRESSION_INT_INFINITY,    /* int_oo: torch's, of integers */
  EXPRESSION_INT_NEG_INFINITY,
  EXPRESSION_INFINITY,        /* oo: sympy's */
  EXPRESSION_NEG_INFINITY,
  EXPRESSION_NAN,
  EXPRESSION_SYMBOL,          /* name, assumptions */
  /* With arguments. */
#define X(kind, name, fewest, most, binds) EXPRESSION_##kind,
#include "shape/expression.def"
#undef X
  EXPRESSION_N_KINDS
} expression_kind;

typedef struct expression expression;
struct expression {
  expression_kind kind;
  uint32_t n_args;
  uint32_t n_nodes, depth;       /* of the tree; 1 without arguments */
  const expression *const *args; /* n_args of them */
  union {
    struct { int64_t p, q; };    /* EXPRESSION_NUMBER */
    double d;                    /* EXPRESSION_FLOAT */
    struct {
      str name, assumptions;     /* EXPRESSION_SYMBOL; "positive=True, integer=True", or empty */
    };
  };
};

/* -- Reading ----------------------------------------------------------------------------------- */

/* Whose operators: what `/`, `&`, `|`, `^`, `~` and calls in lower case mean. */
typedef enum expression_dialect {
  EXPRESSION_SYMPY, /* srepr and str: a/b is a*b**-1, & is And */
  EXPRESSION_PYTHON /* code of guards: a/b is IntTrueDiv, & is of bits, max(a, b), math.floor(a) */
} expression_dialect;

/* Parse `text`.  sympy's srepr and its str are one grammar, as sympify reads both.  In Python a
 * symbol may be any chain of names, subscripts and `()`: L['x'].size()[0] is a symbol of that name.
 * `place` names the text in errors ("range_constraints"); these are RUSH_EFORMAT and tell what was
 * expected at which character. */
const expression *expression_read(session *s, arena *mem, const char *place, str text,
                                  expression_dialect dialect);

/* -- Making ------------------------------------------------------------------------------------ */

const expression *expression_integer(session *s, arena *mem, int64_t n);
/* Make p / q, q != 0. */
const expression *expression_rational(session *s, arena *mem, int64_t p, int64_t q);
const expression *expression_float(session *s, arena *mem, double d);
const expression *expression_boolean(session *s, arena *mem, bool b);
/* Make a symbol; the texts are copied. */
const expression *expression_symbol(session *s, arena *mem, str name, str assumptions);
/* Make kind(args...); the array is copied.  Of Add and Mul, arguments of the same kind become part
 * of it, integers are summed or multiplied into one that is first, and a single argument is
 * returned as it is: no more is simplified.  RUSH_ELIMIT beyond EXPRESSION_MOST_*. */
const expression *expression_call(session *s, arena *mem, expression_kind kind, uint32_t n,
                                  const expression *const *args);
/* Return e without the arguments of Min and Max that another one beats whatever the symbols are,
 * as far as their assumptions say so: Min(16, 16*s0) is 16.  sympy reads expressions so.  Returns e
 * itself if there are none, or if too much would have to be computed. */
const expression *expression_fold_extremes(session *s, arena *mem, const expression *e);
/* The name of a kind with arguments, and the kind of that name (EXPRESSION_N_KINDS: there is none).
 * */
const char *expression_kind_name(expression_kind kind);
expression_kind expression_kind_named(str name);
/* Python's operator of a relation: "==". */
const char *expression_relation(expression_kind relation);

/* Copy the tree into the session's arena with the arguments of sums, products and lattices in the
 * order in which sympy keeps them in memory (expression_order.c). */
const expression *expression_kept(session *s, const expression *e);

/* -- Asking ------------------------------------------------------------------------------------ */

/* True if the trees are the same: kinds, numbers, names, assumptions, order of arguments. */
bool expression_same(const expression *a, const expression *b);
static inline bool expression_is_integer(const expression *e)
{
  return e->kind == EXPRESSION_NUMBER && e->q == 1;
}
/* Call visit(arg, symbol) for each symbol once (by name), in order of first appearance. */
void expression_symbols(session *s, const expression *e,
                        void (*visit)(void *arg, const expression *symbol), void *arg);

/* Look up a symbol's value: RUSH_TAG_INT, _FLOAT or _BOOL.  Returns false if it has none. */
typedef bool expression_lookup(void *arg, const expression *symbol, rush_value *value);
/* Evaluate as Python does; *out is an int, a float or a bool.  Overflow of 64 bits, division by
 * zero, a symbol without a value and what has no value (ordering a nan is False, int_oo has none)
 * fail with RUSH_ERAISED. */
rush_status expression_evaluate(call_ctx *cx, const expression *e, expression_lookup *lookup,
                                void *arg, rush_value *out) RUSH_CHECKED;

/* Give a symbol's normal form, or NULL. */
typedef symint expression_naming(void *arg, const expression *symbol);
/* Return the normal form of an expression of integers, or NULL if it has none: floats, conditions,
 * functions that sizes do not have, a symbol that `naming` does not know.  Leaves the session as
 * shape/symint.h does: overflow, division by zero, too many terms. */
symint expression_to_symint(sym_env *env, const expression *e, expression_naming *naming,
                            void *arg);
/* Store the normal form of a relation of two integers in *out; returns false if it has none. */
bool expression_to_condition(sym_env *env, const expression *e, expression_naming *naming,
                             void *arg, sym_cond *out);

/* Return the tree of a normal form; `symbol` gives that of each symbol. */
typedef const expression *expression_symbol_of(void *arg, const sym_atom *symbol);
const expression *expression_from_symint(session *s, arena *mem, symint e,
                                         expression_symbol_of *symbol, void *arg);
/* Return the tree of a condition, as a relation of what is added on each side. */
const expression *expression_from_condition(session *s, arena *mem, sym_cond c,
                                            expression_symbol_of *symbol, void *arg);

/* -- Text -------------------------------------------------------------------------------------- */

/* Append sympy's str(e): "s17**2 + s77*(s17 + s77)". */
void expression_print(session *s, text_buf *out, const expression *e);
/* Append sympy's srepr(e).  Arguments of sums and products come in sympy's order, in which they are
 * in what sympy wrote. */
void expression_print_srepr(session *s, text_buf *out, const expression *e);
/* Append Python code as torch's guards_code has it; `name` appends a symbol's name (NULL: its own).
 * RUSH_EUNSUPPORTED for what PyTorch refuses to print (a negative power). */
typedef void expression_namer(void *arg, text_buf *out, const expression *symbol);
void expression_print_python(session *s, text_buf *out, const expression *e,
                             expression_namer *name, void *arg);

#endif
