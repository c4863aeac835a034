/* shape/expression_int.h -- what the files of expression trees share. */
#ifndef RUSH_SHAPE_EXPRESSION_INT_H
#define RUSH_SHAPE_EXPRESSION_INT_H

#include "shape/expression.h"

#define EXPRESSION_MANY UINT32_MAX
#define EXPRESSION_BINDS_ATOM 1000

typedef struct kind_facts {
  const char *name;
  uint32_t fewest, most; /* arguments */
  int binds;
} kind_facts;
extern const kind_facts expression_facts[EXPRESSION_N_KINDS];

/* Make a node as it is; args are copied.  RUSH_ELIMIT beyond EXPRESSION_MOST_*. */
const expression *expression_node(session *s, arena *mem, expression_kind kind, uint32_t n,
                                  const expression *const *args);
/* Make p / q in lowest terms; returns NULL if q is 0 or 64 bits do not hold it. */
const expression *expression_fraction(session *s, arena *mem, int64_t p, int64_t q);

/* Numbers in sympy's sense: everything without arguments but symbols and truth values. */
static inline bool expression_is_number(const expression *e)
{
  return e->kind == EXPRESSION_NUMBER || e->kind == EXPRESSION_FLOAT ||
         (e->kind >= EXPRESSION_INT_INFINITY && e->kind <= EXPRESSION_NAN);
}
static inline bool expression_is_negative(const expression *e)
{
  return e->kind == EXPRESSION_NUMBER ? e->p < 0
         : e->kind == EXPRESSION_FLOAT
           ? e->d < 0
           : e->kind == EXPRESSION_INT_NEG_INFINITY || e->kind == EXPRESSION_NEG_INFINITY;
}
static inline bool expression_is_int(const expression *e, int64_t n)
{
  return e->kind == EXPRESSION_NUMBER && e->q == 1 && e->p == n;
}

/* Compare the numbers a and b exactly: -1, 0, 1.  A nan equals everything. */
int expression_compare_numbers(const expression *a, const expression *b);

/* Copy the tree into the session's arena, with the arguments of sums, products and lattices in
 * sympy's order of terms that are printed. */
const expression *expression_ordered(session *s, const expression *e);
/* Make -e in the session's arena; of a product the coefficient is negated. */
const expression *expression_negative(session *s, const expression *e);
/* Copy the node with its arguments sorted by sympy's sort key; the tree is ordered. */
const expression *expression_by_key(session *s, const expression *e);

#endif
