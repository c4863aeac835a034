/* shape/symint.c -- symbolic integers (symint.h): polynomials in normal form, made once through a
 * hash table, so that equality is a pointer comparison. Division is polynomial long division with
 * the remainder kept as an atom; order is decided by interval arithmetic, then with atoms shifted
 * to their lower bounds. A computer algebra system such as SymPy decides more, at thousands of
 * times the cost. Limits on terms and degree keep multiplication bounded. */
#include "shape/symint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "base/integer.h"

/* -- Numbers with infinities ------------------------------------------------------------------- */

static bool is_inf(int64_t a) { return a == SYM_INF || a == SYM_NEG_INF; }
static int64_t inf_add(int64_t a, int64_t b)
{
  int64_t r;
  if (is_inf(a) || is_inf(b))
    return is_inf(a) ? a : b;
  return __builtin_add_overflow(a, b, &r) ? (a > 0 ? SYM_INF : SYM_NEG_INF) : r;
}
static int64_t inf_mul(int64_t a, int64_t b)
{
  int64_t r;
  if (a == 0 || b == 0)
    return 0;
  if (is_inf(a) || is_inf(b) || __builtin_mul_overflow(a, b, &r))
    return (a > 0) == (b > 0) ? SYM_INF : SYM_NEG_INF;
  return r;
}
/* Divide with infinities; b > 0. */
static int64_t inf_floordiv(int64_t a, int64_t b)
{
  if (is_inf(a))
    return a;
  if (b == SYM_INF)
    return a < 0 ? -1 : 0;
  return i64_floordiv(a, b);
}

static _Noreturn void too_large(sym_env *env)
{
  session_fail(env->s, NULL, "a symbolic size has a number in it that does not fit into 64 bits");
}
static _Noreturn void too_many(sym_env *env)
{
  session_fail_status(env->s, RUSH_ELIMIT, NULL, NULL, "a symbolic size is too complicated");
}
static int64_t add_or_fail(sym_env *env, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    too_large(env);
  return r;
}
static int64_t mul_or_fail(sym_env *env, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    too_large(env);
  return r;
}

/* -- Terms ------------------------------------------------------------------------------------- */

/* Compare in graded lexicographic order, which polynomial division needs: < 0 if a comes first. */
static int compare_products(const sym_term *a, const sym_term *b)
{
  if (a->degree != b->degree)
    return a->degree > b->degree ? -1 : 1;
  for (uint32_t i = 0; i < a->degree; i++)
    if (a->atoms[i] != b->atoms[i])
      return a->atoms[i]->id < b->atoms[i]->id ? -1 : 1;
  return 0;
}
static int compare_terms(const void *a, const void *b) { return compare_products(a, b); }

static sym_term multiply_terms(sym_env *env, const sym_term *a, const sym_term *b)
{
  uint32_t n = a->degree + b->degree, i = 0, k = 0;
  if (n > SYM_MOST_DEGREE)
    too_many(env);
  sym_atom **atoms = session_array(env->s, sym_atom *, n);
  for (uint32_t at = 0; at < n; at++)
    atoms[at] = k == b->degree || (i < a->degree && a->atoms[i]->id <= b->atoms[k]->id)
                  ? a->atoms[i++]
                  : b->atoms[k++];
  return (sym_term){mul_or_fail(env, a->coef, b->coef), n, atoms};
}

/* Compute *out = a / b; returns false if the division has a remainder. */
static bool divide_terms(sym_env *env, const sym_term *a, const sym_term *b, sym_term *out)
{
  if (b->degree > a->degree || b->coef == 0 || (b->coef == -1 && a->coef == INT64_MIN) ||
      a->coef % b->coef != 0)
    return false;
  sym_atom **atoms = session_array(env->s, sym_atom *, a->degree - b->degree + 1);
  uint32_t n = 0, k = 0;
  for (uint32_t i = 0; i < a->degree; i++) {
    if (k < b->degree && a->atoms[i] == b->atoms[k])
      k++;
    else if (n < a->degree - b->degree)
      atoms[n++] = a->atoms[i];
    else
      return false;
  }
  *out = (sym_term){a->coef / b->coef, n, atoms};
  return k == b->degree;
}

/* -- Expressions, each once -------------------------------------------------------------------- */

static void free_env(void *object)
{
  sym_env *env = object;
  table_free(&env->exprs);
  table_free(&env->atoms_made);
}

sym_env *sym_env_new(session *s)
{
  sym_env *env = session_new(s, sym_env);
  env->s = s;
  table_init(&env->exprs, s->cx->ctx);
  table_init(&env->atoms_made, s->cx->ctx);
  session_defer(s, free_env, env);
  env->key = session_text(s);
  return env;
}

static void remember_term(sym_env *env, table *t, void *made)
{
  char *key = session_strndup(env->s, text_str(env->key), env->key->len);
  session_table_put(env->s, t, (str){key, env->key->len}, made);
}
static str finish_key(sym_env *env)
{
  if (text_failed(env->key))
    session_check(env->s, call_nomem(env->s->cx));
  return (str){text_str(env->key), env->key->len};
}

/* Make a symint from ordered terms, without zeros, with distinct products.  `terms` must remain
 * valid. */
static symint make_symint(sym_env *env, int64_t k, uint32_t n, const sym_term *terms)
{
  text_clear(env->key);
  text_add(env->key, (const char *)&k, sizeof k);
  for (uint32_t i = 0; i < n; i++) {
    text_add(env->key, (const char *)&terms[i].coef, sizeof terms[i].coef);
    text_add(env->key, (const char *)&terms[i].degree, sizeof terms[i].degree);
    for (uint32_t d = 0; d < terms[i].degree; d++)
      text_add(env->key, (const char *)&terms[i].atoms[d]->id, sizeof terms[i].atoms[d]->id);
  }
  symint had = table_get(&env->exprs, finish_key(env));
  if (had)
    return had;
  uint32_t n_written = 1 + n;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t d = 0; d < terms[i].degree; d++)
      n_written += terms[i].atoms[d]->kind == SYM_SYMBOL
                     ? 0
                     : terms[i].atoms[d]->a->n_written + terms[i].atoms[d]->b->n_written;
  if (n > SYM_MOST_TERMS || n_written > SYM_MOST_WRITTEN || (env->n_terms += n + 1) > SYM_MOST_MADE)
    too_many(env);
  sym_expr *e = session_new(env->s, sym_expr);
  *e =
    (sym_expr){.k = k, .n_terms = n, .seq = env->n_exprs++, .n_written = n_written, .terms = terms};
  remember_term(env, &env->exprs, e);
  return e;
}

/* Make a symint from any terms, which are sorted. */
static symint make_sum(sym_env *env, int64_t k, uint32_t n, sym_term *terms)
{
  uint32_t kept = 0;
  qsort(terms, n, sizeof *terms, compare_terms);
  for (uint32_t i = 0; i < n; i++) {
    if (terms[i].degree == 0)
      k = add_or_fail(env, k, terms[i].coef);
    else if (kept > 0 && compare_products(&terms[kept - 1], &terms[i]) == 0)
      terms[kept - 1].coef = add_or_fail(env, terms[kept - 1].coef, terms[i].coef);
    else
      terms[kept++] = terms[i];
    if (kept > 0 && terms[kept - 1].coef == 0)
      kept--;
  }
  return make_symint(env, k, kept, terms);
}

symint sym_const(sym_env *env, int64_t k) { return make_symint(env, k, 0, NULL); }

static symint of_term(sym_env *env, sym_term t)
{
  sym_term *one = session_new(env->s, sym_term);
  *one = t;
  return make_sum(env, 0, t.coef != 0, one);
}
symint sym_of_atom(sym_env *env, sym_atom *a)
{
  sym_atom **atoms = session_new(env->s, sym_atom *);
  *atoms = a;
  return of_term(env, (sym_term){1, 1, atoms});
}

static sym_atom *new_atom(sym_env *env, sym_atom like)
{
  GROW(env->s, env->atoms, env->n_atoms, env->cap_atoms, 16);
  sym_atom *a = session_new(env->s, sym_atom);
  *a = like;
  a->id = env->n_atoms;
  return env->atoms[env->n_atoms++] = a;
}

symint sym_new(sym_env *env, int64_t hint, int64_t lo)
{
  return sym_of_atom(env, new_atom(env, (sym_atom){.kind = SYM_SYMBOL,
                                               .backed = true,
                                               .number = env->n_backed++,
                                               .hint = hint,
                                               .lo = lo,
                                               .hi = SYM_INF}));
}
symint sym_fresh(sym_env *env, int64_t lo, int64_t hi)
{
  return sym_of_atom(
    env,
    new_atom(env, (sym_atom){.kind = SYM_SYMBOL, .number = env->n_unbacked++, .lo = lo, .hi = hi}));
}

/* -- Sums and products ------------------------------------------------------------------------- */

/* Compute a + scale * b. */
static symint add_scaled(sym_env *env, symint a, symint b, int64_t scale)
{
  sym_term *terms = session_array(env->s, sym_term, a->n_terms + b->n_terms + 1);
  if (a->n_terms)
    memcpy(terms, a->terms, a->n_terms * sizeof *terms);
  for (uint32_t i = 0; i < b->n_terms; i++) {
    terms[a->n_terms + i] = b->terms[i];
    terms[a->n_terms + i].coef = mul_or_fail(env, b->terms[i].coef, scale);
  }
  return make_sum(env, add_or_fail(env, a->k, mul_or_fail(env, b->k, scale)),
                  a->n_terms + b->n_terms, terms);
}
symint sym_add(sym_env *env, symint a, symint b) { return add_scaled(env, a, b, 1); }
symint sym_sub(sym_env *env, symint a, symint b) { return add_scaled(env, a, b, -1); }

symint sym_mul(sym_env *env, symint a, symint b)
{
  const uint32_t na = a->n_terms + 1, nb = b->n_terms + 1;
  if (na > 2 * SYM_MOST_TERMS / nb)
    too_many(env);
  sym_term *terms = session_array(env->s, sym_term, na * nb), ka = {a->k, 0, NULL},
           kb = {b->k, 0, NULL};
  uint32_t n = 0;
  for (uint32_t i = 0; i < na; i++)
    for (uint32_t j = 0; j < nb; j++) {
      const sym_term *x = i < a->n_terms ? &a->terms[i] : &ka,
                     *y = j < b->n_terms ? &b->terms[j] : &kb;
      if (x->coef != 0 && y->coef != 0)
        terms[n++] = multiply_terms(env, x, y);
    }
  return make_sum(env, 0, n, terms);
}

/* -- Ranges ------------------------------------------------------------------------------------ */

/* A function that replaces each atom of a polynomial. */
typedef symint atom_map(sym_env *env, sym_atom *a, void *arg);
static symint map_atoms(sym_env *env, symint e, atom_map *map, void *arg)
{
  symint sum = sym_const(env, e->k);
  for (uint32_t i = 0; i < e->n_terms; i++) {
    symint product = sym_const(env, e->terms[i].coef);
    for (uint32_t d = 0; d < e->terms[i].degree; d++)
      product = sym_mul(env, product, map(env, e->terms[i].atoms[d], arg));
    sum = sym_add(env, sum, product);
  }
  return sum;
}

/* Compute the range from each term's range. */
static void range_by_terms(symint e, int64_t *lo, int64_t *hi)
{
  *lo = *hi = e->k;
  for (uint32_t i = 0; i < e->n_terms; i++) {
    const sym_term *t = &e->terms[i];
    int64_t l = t->coef, h = t->coef;
    for (uint32_t d = 0; d < t->degree; d++) {
      const sym_atom *a = t->atoms[d];
      const int64_t p[4] = {inf_mul(l, a->lo), inf_mul(l, a->hi), inf_mul(h, a->lo),
                            inf_mul(h, a->hi)};
      l = h = p[0];
      for (int c = 1; c < 4; c++) {
        l = i64_min(l, p[c]);
        h = i64_max(h, p[c]);
      }
    }
    *lo = inf_add(*lo, l);
    *hi = inf_add(*hi, h);
  }
}

/* Divide by the product of atoms that all terms contain, if they are all positive (there is none if
 * k is not 0). */
static symint without_common(sym_env *env, symint e)
{
  if (e->k != 0 || e->n_terms == 0)
    return e;
  sym_term common = {1, 0, session_array(env->s, sym_atom *, e->terms[e->n_terms - 1].degree + 1)};
  const sym_term *last = &e->terms[e->n_terms - 1]; /* of the lowest degree */
  for (uint32_t d = 0; d < last->degree; d++) {
    ((sym_atom **)common.atoms)[common.degree++] = last->atoms[d];
    sym_term ignored;
    bool all = last->atoms[d]->lo > 0;
    for (uint32_t i = 0; i < e->n_terms && all; i++)
      all = divide_terms(env, &e->terms[i], &common, &ignored);
    if (!all)
      common.degree--;
  }
  if (common.degree == 0)
    return e;
  sym_term *terms = session_array(env->s, sym_term, e->n_terms);
  for (uint32_t i = 0; i < e->n_terms; i++)
    if (!divide_terms(env, &e->terms[i], &common, &terms[i]))
      return e;
  return make_sum(env, 0, e->n_terms, terms);
}

static symint above_least(sym_env *env, sym_atom *a, void *arg)
{
  (void)arg;
  return sym_add(env, sym_of_atom(env, a), sym_const(env, a->lo));
}
/* Compute the range with each atom written as its least value plus something nonnegative: if the
 * coefficients have one sign, the constant is a bound: s0*s1 - s1 with both at least 2 is t0*t1 +
 * 2*t0 + t1 + 2, at least 2.  Returns false if this has no result. */
static bool range_by_shift(sym_env *env, symint e, int64_t *lo, int64_t *hi)
{
  uint32_t work = 0;
  for (uint32_t i = 0; i < e->n_terms; i++) {
    const sym_term *t = &e->terms[i];
    if (t->degree > 5 || (work += 1u << t->degree) > 256)
      return false;
    for (uint32_t d = 0; d < t->degree; d++)
      if (is_inf(t->atoms[d]->lo) || t->atoms[d]->lo > 1 << 16 || t->atoms[d]->lo < -(1 << 16) ||
          llabs(t->coef) > 1 << 30)
        return false;
  }
  symint at = map_atoms(env, e, above_least, NULL);
  bool up = true, down = true;
  for (uint32_t i = 0; i < at->n_terms; i++) {
    up &= at->terms[i].coef > 0;
    down &= at->terms[i].coef < 0;
  }
  *lo = up ? at->k : SYM_NEG_INF;
  *hi = down ? at->k : SYM_INF;
  return true;
}

void sym_range(sym_env *env, symint e, int64_t *lo, int64_t *hi)
{
  int64_t l, h;
  range_by_terms(e, lo, hi);
  if ((e->n_terms > 1 || e->k) && (is_inf(*lo) || is_inf(*hi)) && range_by_shift(env, e, &l, &h)) {
    *lo = i64_max(*lo, l);
    *hi = i64_min(*hi, h);
  }
}

/* -- Atoms of two operands --------------------------------------------------------------------- */

static void find_range(sym_env *env, sym_atom *a)
{
  int64_t al, ah, bl, bh;
  sym_range(env, a->a, &al, &ah);
  sym_range(env, a->b, &bl, &bh);
  a->lo = SYM_NEG_INF;
  a->hi = SYM_INF;
  switch (a->kind) {
  case SYM_SYMBOL:
    break;
  case SYM_FLOOR:
    if (bl > 0) {
      a->lo = inf_floordiv(al, al >= 0 ? bh : bl);
      a->hi = inf_floordiv(ah, ah >= 0 ? bl : bh);
    }
    break;
  case SYM_MOD:
    if (bl > 0) {
      a->lo = 0;
      a->hi = is_inf(bh) ? bh : bh - 1;
      if (al >= 0)
        a->hi = i64_min(a->hi, ah);
    }
    break;
  case SYM_MIN:
    a->lo = i64_min(al, bl);
    a->hi = i64_min(ah, bh);
    break;
  case SYM_MAX:
    a->lo = i64_max(al, bl);
    a->hi = i64_max(ah, bh);
    break;
  }
}

static symint compound(sym_env *env, sym_kind kind, symint a, symint b)
{
  const uint32_t content[3] = {kind, a->seq, b->seq};
  text_clear(env->key);
  text_add(env->key, (const char *)content, sizeof content);
  sym_atom *atom = table_get(&env->atoms_made, finish_key(env));
  if (!atom) {
    atom = new_atom(env, (sym_atom){.kind = kind, .a = a, .b = b});
    remember_term(env, &env->atoms_made, atom);
    find_range(env, atom);
  }
  return sym_of_atom(env, atom);
}

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 && a != INT64_MIN ? -a : a;
}
/* Return the common divisor of the coefficients, and of the constant if with_k. */
static int64_t content_of(symint e, bool with_k)
{
  int64_t g = with_k ? e->k : 0;
  for (uint32_t i = 0; i < e->n_terms; i++)
    g = gcd(g, e->terms[i].coef);
  return g < 0 ? 1 : g;
}
static symint divide_content(sym_env *env, symint e, int64_t g, int64_t k)
{
  sym_term *terms = session_array(env->s, sym_term, e->n_terms + 1);
  for (uint32_t i = 0; i < e->n_terms; i++) {
    terms[i] = e->terms[i];
    terms[i].coef /= g;
  }
  return make_symint(env, k, e->n_terms, terms);
}

/* Divide by leading terms: no term of *rest is a multiple of b's leading term.  b is not
 * constant. */
static symint long_division(sym_env *env, symint a, symint b, symint *rest)
{
  symint q = sym_const(env, 0), left = a, r = q;
  for (uint32_t step = 0; left->n_terms > 0 && step < 64; step++) {
    sym_term t;
    symint lead = of_term(env, left->terms[0]);
    if (!divide_terms(env, &left->terms[0], &b->terms[0], &t)) {
      r = sym_add(env, r, lead);
      left = sym_sub(env, left, lead);
      continue;
    }
    symint f = of_term(env, t);
    q = sym_add(env, q, f);
    left = sym_sub(env, left, sym_mul(env, f, b));
  }
  *rest = sym_add(env, r, left);
  return q;
}

/* Divide a = q * b + *rest, with the smallest rest that terms allow. */
static symint divide(sym_env *env, symint a, symint b, symint *rest)
{
  if (b->n_terms) {
    symint q = long_division(env, a, b, rest);
    if (b->n_terms == 1 && b->k == 0)
      return q;
    if (sym_is_const(*rest) && (*rest)->k == 0)
      return q;
    *rest = a; /* a remainder with terms of both signs is of no use */
    return sym_const(env, 0);
  }
  sym_term *terms = session_array(env->s, sym_term, a->n_terms + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < a->n_terms; i++)
    if (a->terms[i].coef % b->k == 0) {
      terms[n] = a->terms[i];
      terms[n++].coef /= b->k;
    }
  symint q = make_symint(env, inf_floordiv(a->k, b->k), n, terms);
  *rest = add_scaled(env, a, q, -b->k);
  return q;
}

static bool is_known(sym_env *env, sym_cond c) { return sym_known(env, c) == 1; }
static symint zero(sym_env *env) { return sym_const(env, 0); }

/* Normalise signs and remove common factors before a division. */
static void start_division(sym_env *env, symint *a, symint *b)
{
  if (sym_is_const(*b) && (*b)->k == 0)
    session_fail_status(env->s, RUSH_ERAISED, "ZeroDivisionError", NULL,
                        "integer division or modulo by zero");
  if (sym_is_const(*b) && (*b)->k < 0) {
    *a = add_scaled(env, zero(env), *a, -1);
    *b = sym_const(env, mul_or_fail(env, (*b)->k, -1));
  }
}

symint sym_floordiv(sym_env *env, symint a, symint b)
{
  start_division(env, &a, &b);
  int64_t g = gcd(content_of(a, true), content_of(b, true));
  if (g > 1) {
    a = divide_content(env, a, g, a->k / g);
    b = divide_content(env, b, g, b->k / g);
  }
  symint rest, q = divide(env, a, b, &rest);
  if (is_known(env, sym_le(env, zero(env), rest)) && is_known(env, sym_lt(env, rest, b)))
    return q;
  if (rest->n_terms == 1 && rest->terms[0].coef == 1 && rest->terms[0].degree == 1 &&
      rest->terms[0].atoms[0]->kind == SYM_FLOOR) { /* (x//y + k)//b is (x + k*y)//(y*b) */
    const sym_atom *inner = rest->terms[0].atoms[0];
    symint one = sym_const(env, 1);
    if (is_known(env, sym_le(env, one, inner->b)) && is_known(env, sym_le(env, one, b)))
      return sym_add(env, q,
                     sym_floordiv(env, add_scaled(env, inner->a, inner->b, rest->k),
                                  sym_mul(env, inner->b, b)));
  }
  return sym_add(env, q, compound(env, SYM_FLOOR, rest, b));
}

symint sym_mod(sym_env *env, symint a, symint b)
{
  symint rest, divisor = b;
  start_division(env, &a, &divisor);
  if (divisor != b) /* by a negative number */
    return add_scaled(env, zero(env), sym_mod(env, a, divisor), -1);
  (void)divide(env, a, b, &rest);
  if (is_known(env, sym_le(env, zero(env), rest)) && is_known(env, sym_lt(env, rest, b)))
    return rest;
  return compound(env, SYM_MOD, rest, b);
}

static symint extreme(sym_env *env, sym_kind kind, symint a, symint b)
{
  if (is_known(env, sym_le(env, a, b)))
    return kind == SYM_MIN ? a : b;
  if (is_known(env, sym_le(env, b, a)))
    return kind == SYM_MIN ? b : a;
  return a->seq < b->seq ? compound(env, kind, a, b) : compound(env, kind, b, a);
}
symint sym_min(sym_env *env, symint a, symint b) { return extreme(env, SYM_MIN, a, b); }
symint sym_max(sym_env *env, symint a, symint b) { return extreme(env, SYM_MAX, a, b); }

/* -- Conditions -------------------------------------------------------------------------------- */

/* Normalise a condition: no common factor of the coefficients, and a positive first one in
 * equations, so that equal ones are recognised. */
static sym_cond normal(sym_env *env, sym_cond c)
{
  int64_t g = content_of(c.e, false);
  if (c.e->n_terms == 0)
    return c;
  if (c.rel == SYM_GE)
    return g > 1 ? (sym_cond){c.rel, divide_content(env, c.e, g, inf_floordiv(c.e->k, g))} : c;
  if (c.e->k % g != 0) /* never equal */
    return (sym_cond){c.rel, sym_const(env, 1)};
  if (g > 1)
    c.e = divide_content(env, c.e, g, c.e->k / g);
  if (c.e->terms[0].coef < 0)
    c.e = add_scaled(env, zero(env), c.e, -1);
  return c;
}
/* Return a condition of two numbers, whose difference may not fit into 64 bits. */
static sym_cond of_numbers(sym_env *env, bool is_true)
{
  return (sym_cond){SYM_GE, sym_const(env, is_true ? 0 : -1)};
}
static bool are_numbers(symint a, symint b) { return sym_is_const(a) && sym_is_const(b); }

sym_cond sym_eq(sym_env *env, symint a, symint b)
{
  if (are_numbers(a, b))
    return of_numbers(env, a->k == b->k);
  return normal(env, (sym_cond){SYM_EQ, sym_sub(env, a, b)});
}
sym_cond sym_le(sym_env *env, symint a, symint b)
{
  if (are_numbers(a, b))
    return of_numbers(env, a->k <= b->k);
  return normal(env, (sym_cond){SYM_GE, sym_sub(env, b, a)});
}
sym_cond sym_lt(sym_env *env, symint a, symint b)
{
  if (are_numbers(a, b))
    return of_numbers(env, a->k < b->k);
  return sym_le(env, sym_add(env, a, sym_const(env, 1)), b);
}
sym_cond sym_not(sym_env *env, sym_cond c)
{
  if (c.rel != SYM_GE)
    return (sym_cond){c.rel == SYM_EQ ? SYM_NE : SYM_EQ, c.e};
  return normal(env, (sym_cond){SYM_GE, add_scaled(env, sym_const(env, -1), c.e, -1)});
}

static int known_by_range(sym_env *env, sym_cond c)
{
  int64_t lo, hi;
  sym_range(env, without_common(env, c.e), &lo, &hi); /* positive factors change no sign */
  if (c.rel == SYM_GE)
    return lo >= 0 ? 1 : hi < 0 ? 0 : -1;
  if (lo > 0 || hi < 0)
    return c.rel == SYM_NE;
  return lo == 0 && hi == 0 ? c.rel == SYM_EQ : -1;
}

/* True if a - scale*b is a number, *out; scale is 1 or -1. */
static bool differ_by_number(symint a, symint b, int64_t scale, int64_t *out)
{
  if (a->n_terms != b->n_terms)
    return false;
  for (uint32_t i = 0; i < a->n_terms; i++) {
    const sym_term *x = &a->terms[i], *y = &b->terms[i];
    if (x->degree != y->degree || x->coef != scale * y->coef ||
        memcmp(x->atoms, y->atoms, x->degree * sizeof *x->atoms) != 0)
      return false;
  }
  return scale > 0 ? !__builtin_sub_overflow(a->k, b->k, out)
                   : !__builtin_add_overflow(a->k, b->k, out);
}

/* Return what a >= 0 says of b >= 0: 1, it holds; 0, it does not; -1, nothing. */
static int known_by_least(symint a, symint b)
{
  int64_t n;

  if (differ_by_number(b, a, 1, &n) && n >= 0)
    return 1;
  return differ_by_number(b, a, -1, &n) && n < 0 ? 0 : -1;
}

int sym_known(sym_env *env, sym_cond c)
{
  if (sym_is_const(c.e))
    return c.rel == SYM_EQ ? c.e->k == 0 : c.rel == SYM_NE ? c.e->k != 0 : c.e->k >= 0;
  int by_range = known_by_range(env, c);
  if (by_range >= 0 || env->n_guards == 0)
    return by_range;
  const sym_cond other = sym_not(env, c);
  for (uint32_t i = 0; i < env->n_guards; i++) {
    if (env->guards[i].rel == c.rel && env->guards[i].e == c.e)
      return 1;
    if (env->guards[i].rel == other.rel && env->guards[i].e == other.e)
      return 0;
    const int by_least =
      c.rel == SYM_GE && env->guards[i].rel == SYM_GE ? known_by_least(env->guards[i].e, c.e) : -1;
    if (by_least >= 0)
      return by_least;
  }
  return -1;
}

/* -- Guards ------------------------------------------------------------------------------------ */

static bool occurs(const sym_atom *a, symint in)
{
  for (uint32_t i = 0; i < in->n_terms; i++)
    for (uint32_t d = 0; d < in->terms[i].degree; d++) {
      const sym_atom *x = in->terms[i].atoms[d];
      if (x == a || (x->kind != SYM_SYMBOL && (occurs(a, x->a) || occurs(a, x->b))))
        return true;
    }
  return false;
}

static int compare_names(const sym_atom *a, const sym_atom *b)
{
  char x[16], y[16];

  snprintf(x, sizeof x, "%u", a->number);
  snprintf(y, sizeof y, "%u", b->number);
  return strcmp(x, y);
}

/* True if an equation is to eliminate a rather than b. */
static bool is_eliminated_first(const sym_env *env, const sym_atom *a, const sym_atom *b)
{
  if (!env->by_name || a->kind != SYM_SYMBOL || b->kind != SYM_SYMBOL)
    return a->id > b->id;
  if (a->backed != b->backed)
    return b->backed;
  if (a->backed && a->hint != b->hint)
    return a->hint > b->hint;
  return compare_names(a, b) > 0;
}

/* Narrow the range of the one symbol of coef*symbol + k, which has the values of `a`. */
static void learn_range(const sym_atom *a, symint e)
{
  if (e->n_terms != 1 || e->terms[0].degree != 1 || e->k == INT64_MIN || e->terms[0].coef < 1)
    return;
  sym_atom *x = e->terms[0].atoms[0];
  const int64_t coef = e->terms[0].coef;
  if (a->lo != SYM_NEG_INF && a->lo != SYM_INF)
    x->lo = i64_max(x->lo, -inf_floordiv(inf_add(e->k, -a->lo), coef));
  if (a->hi != SYM_NEG_INF && a->hi != SYM_INF)
    x->hi = i64_min(x->hi, inf_floordiv(inf_add(a->hi, -e->k), coef));
}

/* Use an equation to eliminate an atom that occurs alone in it: the youngest, so that results use
 * the inputs' first names; or, by_name, the largest, and of equal ones that whose name is last. */
static void learn_equal(sym_env *env, symint e)
{
  const sym_term *found = NULL;

  for (uint32_t i = 0; i < e->n_terms; i++) {
    const sym_term *t = &e->terms[i];
    if (t->degree != 1 || (t->coef != 1 && t->coef != -1) ||
        (found && !is_eliminated_first(env, t->atoms[0], found->atoms[0])))
      continue;
    if (!occurs(t->atoms[0], sym_sub(env, e, of_term(env, *t))))
      found = t;
  }
  if (!found)
    return;
  sym_atom *a = found->atoms[0];
  a->is = add_scaled(env, zero(env), sym_sub(env, e, of_term(env, *found)), -found->coef);
  learn_range(a, a->is);
}
static void learn_least(symint e)
{
  if (e->n_terms != 1 || e->terms[0].degree != 1)
    return;
  sym_atom *a = e->terms[0].atoms[0];
  const int64_t c = e->terms[0].coef;
  if (c > 0 && e->k != INT64_MIN) /* a >= -k/c, rounded up */
    a->lo = i64_max(a->lo, -inf_floordiv(e->k, c));
  else if (c < 0 && c != INT64_MIN)
    a->hi = i64_min(a->hi, inf_floordiv(e->k, -c));
}

static void add_guard(sym_env *env, sym_cond c)
{
  GROW(env->s, env->guards, env->n_guards, env->cap_guards, 8);
  env->guards[env->n_guards++] = c;
  if (c.rel == SYM_EQ)
    learn_equal(env, c.e);
  else if (c.rel == SYM_GE)
    learn_least(c.e);
}

static bool holds(sym_rel rel, int64_t v)
{
  return rel == SYM_EQ ? v == 0 : rel == SYM_NE ? v != 0 : v >= 0;
}

static symint simplify(sym_env *env, symint e, bool all);

static sym_cond simplified(sym_env *env, sym_cond c)
{
  return normal(env, (sym_cond){c.rel, simplify(env, c.e, true)});
}

bool sym_arms_next(sym_arms *a)
{
  uint32_t i = a->n_asked;

  while (i > 0 && a->answers >> (i - 1) & 1)
    i--;
  if (i == 0)
    return false;
  a->answers = (a->answers & ((UINT32_C(1) << (i - 1)) - 1)) | UINT32_C(1) << (i - 1);
  a->n_asked = 0;
  return true;
}

/* Take this run's answer to a question, and assume it. */
static bool explore(sym_env *env, sym_cond c)
{
  sym_arms *a = env->arms;

  if (a->n_asked == SYM_MOST_ASKED) {
    a->unsure = true;
    session_fail(env->s, NULL, "more than %d conditions are undecided", SYM_MOST_ASKED);
  }
  const bool answer = a->answers >> a->n_asked++ & 1;
  if (!sym_require(env, answer ? c : sym_not(env, c)))
    session_fail(env->s, NULL, "the answers of this run exclude each other");
  return answer;
}

bool sym_decide(sym_env *env, sym_cond c)
{
  int64_t v;
  c = simplified(env, c);
  int known = sym_known(env, c);
  if (known >= 0)
    return known;
  if (env->arms)
    return explore(env, c);
  if (!sym_hint(c.e, &v)) {
    text_buf *t = session_text(env->s);
    sym_cond_print(t, c);
    session_fail(env->s, NULL,
                 "Could not guard on data-dependent expression %s: it cannot be decided before the "
                 "program runs, since it depends on data",
                 text_str(t));
  }
  const bool now = holds(c.rel, v);
  add_guard(env, now ? c : sym_not(env, c));
  return now;
}

bool sym_fix(sym_env *env, symint e, int64_t *out)
{
  e = simplify(env, e, true);
  if (!sym_hint(e, out)) {
    if (env->arms)
      env->arms->unsure = true;
    return false;
  }
  if (!sym_is_const(e))
    (void)sym_decide(env, sym_eq(env, e, sym_const(env, *out)));
  return true;
}

bool sym_require(sym_env *env, sym_cond c)
{
  int64_t v;
  c = simplified(env, c);
  int known = sym_known(env, c);
  if (known >= 0)
    return known;
  if (sym_hint(c.e, &v) && !holds(c.rel, v))
    return false;
  add_guard(env, c);
  return true;
}

/* -- Values ------------------------------------------------------------------------------------ */

static symint rebuilt(sym_env *env, const sym_atom *a, symint x, symint y)
{
  switch (a->kind) {
  case SYM_FLOOR:
    return sym_floordiv(env, x, y);
  case SYM_MOD:
    return sym_mod(env, x, y);
  case SYM_MIN:
    return sym_min(env, x, y);
  case SYM_MAX:
  case SYM_SYMBOL:
    break;
  }
  return sym_max(env, x, y);
}

/* True if a symbol that depends on data is in e. */
static bool has_data(symint e)
{
  for (uint32_t i = 0; i < e->n_terms; i++)
    for (uint32_t d = 0; d < e->terms[i].degree; d++) {
      const sym_atom *a = e->terms[i].atoms[d];
      if (a->kind == SYM_SYMBOL ? !a->backed : has_data(a->a) || has_data(a->b))
        return true;
    }
  return false;
}

/* True if an atom stays as it is in what is shown: sym_env.by_name. */
static bool is_kept(const sym_atom *a)
{
  return a->kind == SYM_SYMBOL ? !a->backed && has_data(a->is) : has_data(a->a) || has_data(a->b);
}

static symint simpler_atom(sym_env *env, sym_atom *a, void *arg)
{
  const bool *all = arg;

  if (a->is && (*all || !env->by_name || !is_kept(a)))
    return simplify(env, a->is, *all);
  if (a->kind == SYM_SYMBOL)
    return sym_of_atom(env, a);
  const symint x = simplify(env, a->a, *all), y = simplify(env, a->b, *all);
  return x == a->a && y == a->b ? sym_of_atom(env, a)
                                : simplify(env, rebuilt(env, a, x, y), *all);
}

static symint simplify(sym_env *env, symint e, bool all)
{
  if (env->n_guards == 0 || e->n_terms == 0)
    return e;
  session_enter(env->s);
  e = map_atoms(env, e, simpler_atom, &all);
  session_leave(env->s);
  return e;
}

symint sym_simplify(sym_env *env, symint e) { return simplify(env, e, false); }
symint sym_simplify_all(sym_env *env, symint e) { return simplify(env, e, true); }

struct substitution {
  const symint *with;
  uint32_t n;
};
static symint substituted(sym_env *env, sym_atom *a, void *arg)
{
  const struct substitution *s = arg;
  if (a->kind == SYM_SYMBOL)
    return a->id < s->n && s->with[a->id] ? s->with[a->id] : sym_of_atom(env, a);
  return rebuilt(env, a, sym_substitute(env, a->a, s->with, s->n),
                 sym_substitute(env, a->b, s->with, s->n));
}
symint sym_substitute(sym_env *env, symint e, const symint *with, uint32_t n)
{
  struct substitution s = {with, n};
  session_enter(env->s);
  e = map_atoms(env, e, substituted, &s);
  session_leave(env->s);
  return e;
}

static bool eval_atom(const sym_atom *a, sym_lookup *lookup, void *arg, int64_t *out)
{
  int64_t x, y;
  if (a->kind == SYM_SYMBOL)
    return lookup(arg, a, out);
  if (!sym_eval(a->a, lookup, arg, &x) || !sym_eval(a->b, lookup, arg, &y))
    return false;
  switch (a->kind) {
  case SYM_FLOOR:
  case SYM_MOD:
    if (y == 0 || (y == -1 && x == INT64_MIN))
      return false;
    *out = a->kind == SYM_FLOOR ? x / y - (x % y != 0 && (x < 0) != (y < 0))
                                : x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    return true;
  case SYM_MIN:
    *out = i64_min(x, y);
    return true;
  case SYM_MAX:
  case SYM_SYMBOL:
    break;
  }
  *out = i64_max(x, y);
  return true;
}

bool sym_eval(symint e, sym_lookup *lookup, void *arg, int64_t *out)
{
  int64_t sum = e->k;
  for (uint32_t i = 0; i < e->n_terms; i++) {
    int64_t product = e->terms[i].coef, v;
    for (uint32_t d = 0; d < e->terms[i].degree; d++)
      if (!eval_atom(e->terms[i].atoms[d], lookup, arg, &v) ||
          __builtin_mul_overflow(product, v, &product))
        return false;
    if (__builtin_add_overflow(sum, product, &sum))
      return false;
  }
  *out = sum;
  return true;
}

static bool look_up_hint(void *arg, const sym_atom *symbol, int64_t *value)
{
  (void)arg;
  *value = symbol->hint;
  return symbol->backed;
}
bool sym_hint(symint e, int64_t *out) { return sym_eval(e, look_up_hint, NULL, out); }
