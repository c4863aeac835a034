/* shape/symint.h -- integers that may be unknown: sizes of shape rules, of exported programs, of
 * traced code.
 *
 * A `symint` is a polynomial with integer coefficients over atoms.  An atom is a symbol, or an
 * operation that does not expand: a floor division, a remainder, a minimum, a maximum of two
 * symints.
 *
 *     4*s0*s1 - s0 + (s1//2) + 3          k = 3, three terms, the first of degree 2
 *
 * Symints are in normal form and made once: equal ones are the same pointer.  Common parts of two
 * expressions cancel, so equality is decided wherever normal forms decide it, and order wherever
 * ranges do.
 *
 * A symbol is *backed* (s0, s1 ...: an input has this size now; its `hint` is the number) or not
 * (u0, u1 ...: only known when the program runs).  sym_decide answers what holds for all values in
 * range; otherwise it uses the hints' answer and records it as a guard: results hold wherever all
 * guards hold.  Without hints it leaves the session with an error.  Guards add knowledge: `s0 ==
 * s1` eliminates s1, `s0 >= 3` narrows s0's range.
 *
 * Ranges are closed; SYM_NEG_INF and SYM_INF mean unbounded.  Division and remainder round as
 * Python's.
 *
 * Everything lives in the session's arena; every function leaves the session if memory runs out, on
 * overflow of 64 bits, and (with RUSH_ELIMIT) beyond the limits on terms (SYM_MOST_*).  One thread
 * at a time. */
#ifndef RUSH_SHAPE_SYMINT_H
#define RUSH_SHAPE_SYMINT_H

#include "base/session.h"
#include "base/table.h"

#define SYM_NEG_INF INT64_MIN
#define SYM_INF INT64_MAX
#define SYM_MOST_TERMS 512        /* of one expression */
#define SYM_MOST_DEGREE 128       /* of one term: numel of 64 dimensions, squared */
#define SYM_MOST_WRITTEN \
  1024 /* terms and atoms of one expression in full, including the operands of atoms */
#define SYM_MOST_MADE (1u << 20)  /* terms of all expressions of a session */

typedef struct sym_expr sym_expr;
typedef const sym_expr *symint;

typedef enum sym_kind { SYM_SYMBOL, SYM_FLOOR, SYM_MOD, SYM_MIN, SYM_MAX } sym_kind;
typedef struct sym_atom {
  sym_kind kind;
  bool backed;     /* symbols: it has a hint */
  uint32_t id;     /* in order of creation: older ones are first in terms */
  uint32_t number; /* symbols: number within their kind, s<number> or u<number> */
  int64_t hint;
  symint a, b;     /* operands of other atoms */
  int64_t lo, hi;  /* range; narrowed by guards */
  symint is;       /* equal by a guard; or NULL */
} sym_atom;
typedef struct sym_term {
  int64_t coef; /* not 0 */
  uint32_t degree;
  sym_atom *const *atoms; /* `degree` of them, by id; a square has one twice */
} sym_term;
struct sym_expr {
  int64_t k;
  uint32_t n_terms, seq; /* seq: in order of creation */
  uint32_t n_written;    /* see SYM_MOST_WRITTEN: also bounds every recursion over it */
  const sym_term *terms; /* highest degree first */
};

/* `e` compared with 0; the functions below make conditions from two sides. */
typedef enum sym_rel { SYM_EQ, SYM_NE, SYM_GE } sym_rel;
typedef struct sym_cond {
  sym_rel rel;
  symint e;
} sym_cond;

/* Exploring: instead of deciding by hints, a run takes one of both answers to each condition that
 * is not decided, and assumes it from there on; the caller repeats the run until every combination
 * of answers was taken (sym_arms_next).  What all runs agree on holds for all values. */
#define SYM_MOST_ASKED 32 /* of one run */
typedef struct sym_arms {
  uint32_t answers; /* bit i: to question i */
  uint32_t n_asked; /* by the run */
  bool unsure;      /* the run needed a number, or asked too much: nothing is known */
} sym_arms;
/* Prepare the next run; returns false after the last.  Start with zeros. */
bool sym_arms_next(sym_arms *a);

typedef struct sym_env {
  session *s;
  sym_arms *arms; /* NULL: undecided conditions become guards */
  /* As PyTorch: of equal symbols the one whose name is last is eliminated; sym_simplify replaces
   * nothing by what depends on data, though what follows of it is known. */
  bool by_name;
  table exprs, atoms_made; /* by content */
  sym_atom **atoms;
  uint32_t n_atoms, cap_atoms, n_backed, n_unbacked;
  sym_cond *guards; /* conditions that must hold, in the order in which they were decided */
  uint32_t n_guards, cap_guards;
  uint32_t n_exprs, n_terms; /* made so far */
  text_buf *key;
} sym_env;

sym_env *sym_env_new(session *s); /* lives as long as the session */

/* -- Making ------------------------------------------------------------------------------------ */

symint sym_const(sym_env *env, int64_t k);
/* Make a symbol whose present value is `hint`, of at least `lo`. */
symint sym_new(sym_env *env, int64_t hint, int64_t lo);
/* Make a symbol whose value is only known at run time, between lo and hi. */
symint sym_fresh(sym_env *env, int64_t lo, int64_t hi);

/* Return the expression that is one atom. */
symint sym_of_atom(sym_env *env, sym_atom *a);

symint sym_add(sym_env *env, symint a, symint b);
symint sym_sub(sym_env *env, symint a, symint b);
symint sym_mul(sym_env *env, symint a, symint b);
symint sym_floordiv(sym_env *env, symint a, symint b); /* leaves the session if b is 0 */
symint sym_mod(sym_env *env, symint a, symint b);
symint sym_min(sym_env *env, symint a, symint b);
symint sym_max(sym_env *env, symint a, symint b);

/* -- Asking ------------------------------------------------------------------------------------ */

static inline bool sym_is_const(symint e) { return e->n_terms == 0; }
/* Compute bounds of all values that `e` can have. */
void sym_range(sym_env *env, symint e, int64_t *lo, int64_t *hi);

sym_cond sym_eq(sym_env *env, symint a, symint b);
sym_cond sym_le(sym_env *env, symint a, symint b); /* a <= b */
sym_cond sym_lt(sym_env *env, symint a, symint b);
sym_cond sym_not(sym_env *env, sym_cond c);
/* Return 1: true for all values; 0: for none; -1: it depends. */
int sym_known(sym_env *env, sym_cond c);
/* Decide a condition.  Records a guard if it depends; leaves the session if there is no hint (or,
 * exploring, if the answer that this run takes cannot be). */
bool sym_decide(sym_env *env, sym_cond c);
/* Require a condition: returns false if it does not hold (now, or ever); otherwise it becomes a
 * guard, which is checked at run time for values without a hint. */
bool sym_require(sym_env *env, sym_cond c);

/* Fix `e` to its hint, *out; adds a guard if it could differ.  Returns false if it has no hint. */
bool sym_fix(sym_env *env, symint e, int64_t *out);

/* -- Values and text --------------------------------------------------------------------------- */

/* Simplify by what guards have established. */
symint sym_simplify(sym_env *env, symint e);
symint sym_simplify_all(sym_env *env, symint e); /* whatever env->by_name */
/* Evaluate with values[i] for the symbols atoms[i]; returns false on overflow, division by 0, or a
 * symbol without value. */
typedef bool sym_lookup(void *arg, const sym_atom *symbol, int64_t *value);
bool sym_eval(symint e, sym_lookup *lookup, void *arg, int64_t *out);
/* Evaluate with the hints; returns false if a symbol has none. */
bool sym_hint(symint e, int64_t *out);
/* Replace symbol atoms[i]->id by `with[i]`; NULL items are not replaced. */
symint sym_substitute(sym_env *env, symint e, const symint *with, uint32_t n);
/* Print as Python: "4*s0*s1 - s0 + (s1//2) + 3", "min(s0, 8)"; conditions "s0 == s1 + 1". */
void sym_print(text_buf *out, symint e);
void sym_cond_print(text_buf *out, sym_cond c);

#endif
