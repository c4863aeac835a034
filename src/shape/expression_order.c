/* shape/expression_order.c -- the orders in which sympy shows and keeps arguments.
 *
 * sympy has two orders, and both are seen in files.
 *
 * Shown: str and srepr sort the factors of a product and the terms of a sum.  Factors are sorted by
 * their sort key: class (number < symbol < product < sum < power < function < anything else), then
 * the number of arguments, then these by their own keys (of a symbol its name), then the exponent,
 * then the coefficient; a power is classed by its base, a product with a coefficient by the rest.
 * Terms are sorted as monomials: the bases of all factors of all terms, sorted by their keys, are
 * the variables; a term is the vector of their exponents; the vectors are compared in lexical
 * order, high exponents first; then the coefficients, low ones first.  One kind of sum is left as
 * it is: a positive number and then a symbol times a negative one, `3 - s0`.
 *
 * Kept: in memory sums and products have their number first; the other arguments are compared by a
 * fixed list of classes (by name if they are not in the list), then by the number of arguments,
 * then argument by argument.  A symbol counts as having one argument for its name and one for each
 * fact that sympy derived from its assumptions, so that symbols of few assumptions come first.
 * torch's Python printer, and with it guards_code, has this order.
 *
 * srepr shows a product's coefficient of -2 as two factors, -1 and 2; here it is one again.
 *
 * Lattices (Max, Min, And, Or, Xor) are sorted when sympy makes them: by the number of nodes, of
 * which a float counts half, then by sort key.
 *
 * Trees that sympy wrote are in order already; those that code built become so.  Cost: O(n log n)
 * comparisons, each as long as what the compared trees have in common. */
#include "shape/expression_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int compare_ints(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int compare_names(str a, str b)
{
  const size_t n = a.len < b.len ? a.len : b.len;
  const int c = n ? memcmp(a.p, b.p, n) : 0;

  return c ? c : compare_ints((int64_t)a.len, (int64_t)b.len);
}

/* -- Sort keys --------------------------------------------------------------------------------- */

static const expression one = {.kind = EXPRESSION_NUMBER, .n_nodes = 1, .depth = 1, .p = 1, .q = 1};

/* The parts of an expression that sympy's sort key consists of. */
typedef struct sort_key {
  const expression *core; /* the base; of a product with a coefficient the whole product */
  const expression *const *args; /* the core's, without the coefficient */
  uint32_t n_args;
  bool plain; /* a number by itself: its key has no more parts */
  const expression *exponent, *coefficient;
} sort_key;

static sort_key key_of(const expression *e)
{
  sort_key k = {.exponent = &one, .coefficient = &one};

  if (expression_is_number(e))
    return (sort_key){.core = e, .plain = true, .exponent = &one, .coefficient = e};
  const bool scaled =
    e->kind == EXPRESSION_MUL && expression_is_number(e->args[0]) && e->n_args > 1;
  if (scaled) {
    k.coefficient = e->args[0];
    if (e->n_args > 2) {
      k.core = e;
      k.args = e->args + 1;
      k.n_args = e->n_args - 1;
      return k;
    }
    e = e->args[1];
  }
  if (e->kind == EXPRESSION_POW) {
    k.exponent = e->args[1];
    e = e->args[0];
  }
  k.core = e;
  k.args = e->args;
  k.n_args = e->n_args;
  return k;
}

/* The first two parts of sympy's class_key, as one number. */
static int class_rank(const expression *e)
{
  if (expression_is_number(e))
    return 10;
  if (e->kind == EXPRESSION_SYMBOL)
    return 20;
  if (e->kind == EXPRESSION_MUL)
    return 30;
  if (e->kind == EXPRESSION_ADD)
    return 31;
  if (e->kind == EXPRESSION_POW)
    return 32;
  if (e->kind >= EXPRESSION_FLOOR_DIV)
    return 41;
  return e->kind >= EXPRESSION_PIECEWISE ? 40 : 50;
}

static const char *class_name(const expression *e)
{
  return e->kind == EXPRESSION_TRUE ? "BooleanTrue" : e->kind == EXPRESSION_FALSE ? "BooleanFalse"
         : e->kind > EXPRESSION_SYMBOL ? expression_kind_name(e->kind) : "";
}

/* Compare fractions that are bases of powers: sympy compares their texts. */
static int compare_bases(const expression *a, const expression *b)
{
  char x[2][48];

  if (a->kind != EXPRESSION_NUMBER || b->kind != EXPRESSION_NUMBER)
    return expression_compare_numbers(a, b);
  for (int i = 0; i < 2; i++) {
    const expression *e = i ? b : a;
    snprintf(x[i], sizeof x[i], e->q == 1 ? "%lld" : "%lld/%lld", (long long)e->p,
             (long long)e->q);
  }
  return strcmp(x[0], x[1]);
}

static int compare_keys(const expression *a, const expression *b)
{
  if (a == b)
    return 0;
  const sort_key x = key_of(a), y = key_of(b);
  int c = compare_ints(class_rank(x.core), class_rank(y.core));
  if (c == 0)
    c = strcmp(class_name(x.core), class_name(y.core));
  if (c == 0) /* a number by itself has no arguments, a base has one: its text */
    c = compare_ints(!x.plain, !y.plain);
  if (c == 0 && x.core->kind == EXPRESSION_SYMBOL)
    c = compare_names(x.core->name, y.core->name);
  else if (c == 0 && !x.plain && expression_is_number(x.core))
    c = compare_bases(x.core, y.core);
  if (c == 0)
    c = compare_ints(x.n_args, y.n_args);
  for (uint32_t i = 0; c == 0 && i < x.n_args; i++)
    c = compare_keys(x.args[i], y.args[i]);
  if (c == 0 && (x.exponent != &one || y.exponent != &one))
    c = compare_keys(x.exponent, y.exponent);
  return c ? c : expression_compare_numbers(x.coefficient, y.coefficient);
}

/* -- The order in memory ----------------------------------------------------------------------- */

static const char *const numbers[] = {
  [EXPRESSION_INT_INFINITY] = "IntInfinity", [EXPRESSION_INT_NEG_INFINITY] = "NegativeIntInfinity",
  [EXPRESSION_INFINITY] = "Infinity",        [EXPRESSION_NEG_INFINITY] = "NegativeInfinity",
  [EXPRESSION_NAN] = "NaN",
};

/* The class's name; sympy has classes for some numbers. */
static const char *kept_name(const expression *e)
{
  switch ((int)e->kind) {
  case EXPRESSION_NUMBER:
    if (e->q != 1)
      return e->p == 1 && e->q == 2 ? "Half" : "Rational";
    return e->p == 0 ? "Zero" : e->p == 1 ? "One" : e->p == -1 ? "NegativeOne" : "Integer";
  case EXPRESSION_FLOAT:
    return "Float";
  case EXPRESSION_SYMBOL:
    return "Symbol";
  case EXPRESSION_TRUE:
  case EXPRESSION_FALSE:
    return class_name(e);
  default:
    return e->kind < EXPRESSION_SYMBOL ? numbers[e->kind] : class_name(e);
  }
}

static int kept_class(const char *name)
{
  static const char *const listed[] = {
    "Zero",     "One",        "Half",             "Infinity",          "NaN",
    "NegativeOne", "NegativeInfinity", "Integer", "Rational",          "Float",
    "Symbol",   "Pow",        "Mul",              "Add",               "Abs",
    "Equality", "Unequality", "StrictGreaterThan", "StrictLessThan",   "GreaterThan",
    "LessThan",
  };

  for (size_t i = 0; i < COUNT_OF(listed); i++)
    if (strcmp(name, listed[i]) == 0)
      return (int)i;
  return COUNT_OF(listed);
}

/* The number of facts that sympy 1.14 derives from a symbol's assumptions. */
static int64_t n_facts(str assumptions)
{
  static const struct { const char *text; int n;
  } known[] = {{"", 1},
               {"real=True", 8},
               {"integer=True", 14},
               {"integer=True, nonzero=True", 17},
               {"nonnegative=True, integer=True", 18},
               {"positive=True", 19},
               {"positive=True, real=True", 19},
               {"positive=False, integer=True", 20},
               {"positive=True, integer=True", 25},
               {"negative=True, integer=True", 27}};
  int64_t n = 1;

  for (size_t i = 0; i < COUNT_OF(known); i++)
    if (str_is(assumptions, known[i].text))
      return known[i].n;
  for (size_t i = 0; i < assumptions.len; i++)
    n += assumptions.p[i] == '=';
  return n;
}

/* Compare floats as mpmath's tuples: sign, odd mantissa, exponent. */
static int compare_floats(double a, double b)
{
  const double v[2] = {a, b};
  int64_t mantissa[2];
  int exponent[2];

  for (int i = 0; i < 2; i++) {
    mantissa[i] = (int64_t)ldexp(fabs(frexp(v[i], &exponent[i])), 53);
    for (exponent[i] -= 53; mantissa[i] && mantissa[i] % 2 == 0; exponent[i]++)
      mantissa[i] /= 2;
  }
  int c = compare_ints(a < 0, b < 0);
  if (c == 0)
    c = compare_ints(mantissa[0], mantissa[1]);
  return c ? c : compare_ints(exponent[0], exponent[1]);
}

static int compare_kept(const expression *a, const expression *b)
{
  if (a == b)
    return 0;
  const char *x = kept_name(a), *y = kept_name(b);
  const int i = kept_class(x), j = kept_class(y);
  int c = i != j ? compare_ints(i, j) : strcmp(x, y);
  if (c)
    return c;
  if (a->kind == EXPRESSION_NUMBER) {
    c = compare_ints(a->p, b->p);
    return c ? c : compare_ints(a->q, b->q);
  }
  if (a->kind == EXPRESSION_FLOAT)
    return compare_floats(a->d, b->d);
  if (a->kind == EXPRESSION_SYMBOL) {
    c = compare_ints(n_facts(a->assumptions), n_facts(b->assumptions));
    c = c ? c : compare_names(a->name, b->name);
    return c ? c : compare_names(a->assumptions, b->assumptions);
  }
  c = compare_ints(a->n_args, b->n_args);
  for (uint32_t k = 0; c == 0 && k < a->n_args; k++)
    c = compare_kept(a->args[k], b->args[k]);
  return c;
}

/* -- Sorting ----------------------------------------------------------------------------------- */

/* An argument that is being sorted; `place` makes sorting stable. */
typedef struct item {
  const expression *e;
  uint32_t place;
  uint32_t weight; /* of lattices' arguments: twice the nodes that sympy counts */
  /* Of terms: */
  double coefficient;
  struct factor *factors; /* by id */
  uint32_t n_factors;
} item;

typedef struct factor {
  const expression *base;
  int64_t exponent;
  uint32_t id;      /* of the base, in order of sort keys */
  uint32_t at;      /* among all factors of the sum */
} factor;

static int by_place(const item *a, const item *b) { return compare_ints(a->place, b->place); }
static int by_key(const void *x, const void *y)
{
  const item *a = x, *b = y;
  const int c = compare_keys(a->e, b->e);

  return c ? c : by_place(a, b);
}
static int by_weight(const void *x, const void *y)
{
  const item *a = x, *b = y;
  const int c = compare_ints(a->weight, b->weight);

  return c ? c : by_key(x, y);
}
static int by_kept(const void *x, const void *y)
{
  const item *a = x, *b = y;
  int c = compare_ints(!expression_is_number(a->e), !expression_is_number(b->e));

  c = c ? c : compare_kept(a->e, b->e);
  return c ? c : by_place(a, b);
}

/* -- Terms as monomials ------------------------------------------------------------------------ */

static int by_base(const void *x, const void *y)
{
  const factor *const *a = x, *const *b = y;
  const int c = compare_keys((*a)->base, (*b)->base);

  return c ? c : compare_ints((*a)->at, (*b)->at);
}
static int by_id(const void *x, const void *y)
{
  const factor *a = x, *b = y;
  const int c = compare_ints(a->id, b->id);

  return c ? c : compare_ints(a->at, b->at);
}

/* Compare monomials: of the first variable in which they differ, the higher exponent is first. */
static int by_monomial(const void *x, const void *y)
{
  const item *a = x, *b = y;
  uint32_t i = 0, j = 0;

  while (i < a->n_factors || j < b->n_factors) {
    const factor *p = i < a->n_factors ? &a->factors[i] : NULL;
    const factor *q = j < b->n_factors ? &b->factors[j] : NULL;
    const bool left = p && (!q || p->id <= q->id), right = q && (!p || q->id <= p->id);
    const int c = compare_ints(right ? q->exponent : 0, left ? p->exponent : 0);
    if (c)
      return c;
    i += left;
    j += right;
  }
  if (a->coefficient != b->coefficient)
    return a->coefficient < b->coefficient ? -1 : 1;
  return by_place(a, b);
}

static const expression *power(session *s, const expression *base, const expression *exponent)
{
  return expression_node(s, s->mem, EXPRESSION_POW, 2, (const expression *[]){base, exponent});
}

/* Split a factor into base and integer exponent: x**(3/2) is the third power of sqrt(x). */
static factor split(session *s, const expression *e)
{
  const expression *x = e->kind == EXPRESSION_POW ? e->args[1] : NULL;

  if (x && x->kind == EXPRESSION_NUMBER) {
    const expression *root = x->q == 1 ? NULL : expression_fraction(s, s->mem, 1, x->q);
    return (factor){root ? power(s, e->args[0], root) : e->args[0], x->p, 0, 0};
  }
  if (x && x->kind == EXPRESSION_MUL && x->n_args == 2 && expression_is_integer(x->args[0]))
    return (factor){power(s, e->args[0], x->args[1]), x->args[0]->p, 0, 0};
  return (factor){e, 1, 0, 0};
}

static void split_term(session *s, item *t, factor *room)
{
  const bool product = t->e->kind == EXPRESSION_MUL;
  const uint32_t n = product ? t->e->n_args : 1;

  t->coefficient = 1;
  t->factors = room;
  for (uint32_t i = 0; i < n; i++) {
    const expression *f = product ? t->e->args[i] : t->e;
    if (f->kind == EXPRESSION_NUMBER)
      t->coefficient *= (double)f->p / (double)f->q;
    else if (f->kind == EXPRESSION_FLOAT)
      t->coefficient *= f->d;
    else
      room[t->n_factors++] = split(s, f);
  }
}

/* Number the bases in the order of their keys, then sort each term's factors by number. */
static void number_bases(session *s, item *terms, uint32_t n, uint32_t n_factors)
{
  factor **all = session_array(s, factor *, n_factors + 1);
  uint32_t k = 0;

  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < terms[i].n_factors; j++) {
      terms[i].factors[j].at = k;
      all[k++] = &terms[i].factors[j];
    }
  qsort(all, k, sizeof(factor *), by_base);
  for (uint32_t i = 1; i < k; i++)
    all[i]->id = all[i - 1]->id + (compare_keys(all[i - 1]->base, all[i]->base) != 0);
  for (uint32_t i = 0; i < n; i++)
    qsort(terms[i].factors, terms[i].n_factors, sizeof(factor), by_id);
}

/* True for a positive number plus a symbol (or such) times a negative one. */
static bool is_left_alone(const item *terms, uint32_t n)
{
  if (n != 2)
    return false;
  const bool first = expression_is_number(terms[0].e);
  const expression *number = terms[!first].e, *rest = terms[first].e;
  return expression_is_number(number) && number->kind != EXPRESSION_NAN &&
         !expression_is_negative(number) && !expression_is_int(number, 0) &&
         rest->kind == EXPRESSION_MUL && rest->n_args == 2 && expression_is_number(rest->args[0]) &&
         expression_is_negative(rest->args[0]);
}

static void sort_terms(session *s, const expression *e, item *terms)
{
  uint32_t n_factors = 0;

  if (is_left_alone(terms, e->n_args)) {
    qsort(terms, 2, sizeof *terms, by_kept);
    return;
  }
  for (uint32_t i = 0; i < e->n_args; i++)
    n_factors += terms[i].e->kind == EXPRESSION_MUL ? terms[i].e->n_args : 1;
  factor *room = session_array(s, factor, n_factors);
  for (uint32_t i = 0; i < e->n_args; i++) {
    split_term(s, &terms[i], room);
    room += terms[i].n_factors;
  }
  number_bases(s, terms, e->n_args, n_factors);
  qsort(terms, e->n_args, sizeof *terms, by_monomial);
}

/* -- Trees ------------------------------------------------------------------------------------- */

static const expression *with_arguments(session *s, const expression *e, const item *items)
{
  const expression **args = session_array(s, const expression *, e->n_args);

  for (uint32_t i = 0; i < e->n_args; i++)
    args[i] = items[i].e;
  return expression_node(s, s->mem, e->kind, e->n_args, args);
}

const expression *expression_negative(session *s, const expression *e)
{
  const expression *args[2] = {expression_integer(s, s->mem, -1), e};

  if (e->kind == EXPRESSION_NUMBER && e->p != INT64_MIN)
    return expression_fraction(s, s->mem, -e->p, e->q);
  if (e->kind == EXPRESSION_FLOAT)
    return expression_float(s, s->mem, -e->d);
  if (e->kind != EXPRESSION_MUL || e->n_args < 2)
    return expression_node(s, s->mem, EXPRESSION_MUL, 2, args);
  if (expression_is_int(e->args[0], -1))
    return e->n_args == 2 ? e->args[1]
                          : expression_node(s, s->mem, EXPRESSION_MUL, e->n_args - 1, e->args + 1);
  const expression **copy = session_array(s, const expression *, e->n_args);
  memcpy(copy, e->args, e->n_args * sizeof *copy);
  copy[0] = expression_negative(s, copy[0]);
  return expression_node(s, s->mem, EXPRESSION_MUL, e->n_args, copy);
}

/* Make one coefficient of a product's numbers -1 and n, as which srepr shows -n. */
static const expression *with_coefficient(session *s, const expression *e)
{
  if (e->n_args < 2 || !expression_is_int(e->args[0], -1) || !expression_is_number(e->args[1]))
    return e;
  const expression **args = session_array(s, const expression *, e->n_args);
  memcpy(args, e->args, e->n_args * sizeof *args);
  args[1] = expression_negative(s, args[1]);
  return expression_node(s, s->mem, EXPRESSION_MUL, e->n_args - 1, args + 1);
}

static bool is_lattice(expression_kind kind)
{
  return kind == EXPRESSION_MIN || kind == EXPRESSION_MAX || kind == EXPRESSION_AND ||
         kind == EXPRESSION_OR || kind == EXPRESSION_XOR;
}

static uint32_t weight_of(const expression *e)
{
  uint32_t n = e->kind == EXPRESSION_FLOAT ? 1 : 2;

  for (uint32_t i = 0; i < e->n_args; i++)
    n += weight_of(e->args[i]);
  return n;
}

/* Sort the arguments, which are arranged already; what is kept was sorted as shown before. */
static void sort_arguments(session *s, const expression *e, item *items, bool kept)
{
  if (e->kind == EXPRESSION_ADD && !kept) {
    sort_terms(s, e, items);
  } else if (e->kind == EXPRESSION_ADD || e->kind == EXPRESSION_MUL) {
    qsort(items, e->n_args, sizeof *items, kept ? by_kept : by_key);
  } else if (is_lattice(e->kind) && !kept) {
    for (uint32_t i = 0; i < e->n_args; i++)
      items[i].weight = weight_of(items[i].e);
    qsort(items, e->n_args, sizeof *items, by_weight);
  }
}

static const expression *arranged(session *s, const expression *e, bool kept)
{
  if (e->n_args == 0)
    return e;
  session_enter(s);
  item *items = session_array(s, item, e->n_args);
  for (uint32_t i = 0; i < e->n_args; i++)
    items[i] = (item){.e = arranged(s, e->args[i], kept), .place = i};
  sort_arguments(s, e, items, kept);
  session_leave(s);
  e = with_arguments(s, e, items);
  return e->kind == EXPRESSION_MUL ? with_coefficient(s, e) : e;
}

const expression *expression_by_key(session *s, const expression *e)
{
  item *items = session_array(s, item, e->n_args);

  for (uint32_t i = 0; i < e->n_args; i++)
    items[i] = (item){.e = e->args[i], .place = i};
  qsort(items, e->n_args, sizeof *items, by_key);
  return with_arguments(s, e, items);
}

const expression *expression_ordered(session *s, const expression *e)
{
  return arranged(s, e, false);
}
const expression *expression_kept(session *s, const expression *e)
{
  return arranged(s, arranged(s, e, false), true);
}
