/* shape/expression_symint.c -- normal forms of expression trees, sizes as shape/symint.h has them,
 * and back.
 *
 * A walk that computes with symints instead of numbers.  What integers of shapes do not have
 * (floats, choices, bits) has no normal form.  The way back makes a sum of products, in which equal
 * factors are powers. */
#include "shape/expression_int.h"

typedef struct naming {
  sym_env *env;
  expression_naming *name;
  void *arg;
} naming;

static symint normal(naming *n, const expression *e);

static symint combined(naming *n, const expression *e)
{
  symint all = normal(n, e->args[0]);

  for (uint32_t i = 1; all && i < e->n_args; i++) {
    const symint x = normal(n, e->args[i]);
    if (!x)
      return NULL;
    all = e->kind == EXPRESSION_ADD   ? sym_add(n->env, all, x)
          : e->kind == EXPRESSION_MUL ? sym_mul(n->env, all, x)
          : e->kind == EXPRESSION_MIN ? sym_min(n->env, all, x)
                                : sym_max(n->env, all, x);
  }
  return all;
}

static symint natural_power(naming *n, const expression *e)
{
  const symint base = normal(n, e->args[0]), exponent = base ? normal(n, e->args[1]) : NULL;
  symint all = sym_const(n->env, 1);

  if (!exponent || !sym_is_const(exponent) || exponent->k < 0 || exponent->k > SYM_MOST_DEGREE)
    return NULL;
  for (int64_t i = 0; i < exponent->k; i++)
    all = sym_mul(n->env, all, base);
  return all;
}

static symint divided(naming *n, const expression *e)
{
  const symint a = normal(n, e->args[0]), b = a ? normal(n, e->args[1]) : NULL;
  const symint c = b && e->n_args == 3 ? normal(n, e->args[2]) : b;

  if (!c)
    return NULL;
  switch ((int)e->kind) {
  case EXPRESSION_MOD:
  case EXPRESSION_PYTHON_MOD:
    return sym_mod(n->env, a, b);
  case EXPRESSION_MODULAR_INDEXING:
    return sym_mod(n->env, sym_floordiv(n->env, a, b), c);
  case EXPRESSION_CEIL_DIV: /* -(-a // b) */
    return sym_sub(n->env, sym_const(n->env, 0),
                   sym_floordiv(n->env, sym_sub(n->env, sym_const(n->env, 0), a), b));
  default:
    return sym_floordiv(n->env, a, b);
  }
}

static symint normal_of(naming *n, const expression *e)
{
  switch ((int)e->kind) {
  case EXPRESSION_NUMBER:
    return e->q == 1 ? sym_const(n->env, e->p) : NULL;
  case EXPRESSION_SYMBOL:
    return n->name(n->arg, e);
  case EXPRESSION_ADD:
  case EXPRESSION_MUL:
  case EXPRESSION_MIN:
  case EXPRESSION_MAX:
    return combined(n, e);
  case EXPRESSION_POW:
  case EXPRESSION_POW_BY_NATURAL:
    return natural_power(n, e);
  case EXPRESSION_FLOOR_DIV:
  case EXPRESSION_CLEAN_DIV:
  case EXPRESSION_CEIL_DIV:
  case EXPRESSION_MOD:
  case EXPRESSION_PYTHON_MOD:
  case EXPRESSION_MODULAR_INDEXING:
    return divided(n, e);
  case EXPRESSION_IDENTITY:
    return normal(n, e->args[0]);
  default:
    return NULL;
  }
}

static symint normal(naming *n, const expression *e)
{
  session_enter(n->env->s);
  const symint r = normal_of(n, e);
  session_leave(n->env->s);
  return r;
}

symint expression_to_symint(sym_env *env, const expression *e, expression_naming *name, void *arg)
{
  return normal(&(naming){env, name, arg}, e);
}

bool expression_to_condition(sym_env *env, const expression *e, expression_naming *name,
                             void *arg, sym_cond *out)
{
  naming n = {env, name, arg};

  if (e->kind < EXPRESSION_EQ || e->kind > EXPRESSION_GE)
    return false;
  const symint a = normal(&n, e->args[0]), b = a ? normal(&n, e->args[1]) : NULL;
  if (!b)
    return false;
  switch ((int)e->kind) {
  case EXPRESSION_EQ:
    *out = sym_eq(env, a, b);
    break;
  case EXPRESSION_NE:
    *out = sym_not(env, sym_eq(env, a, b));
    break;
  case EXPRESSION_LT:
    *out = sym_lt(env, a, b);
    break;
  case EXPRESSION_LE:
    *out = sym_le(env, a, b);
    break;
  case EXPRESSION_GT:
    *out = sym_lt(env, b, a);
    break;
  default:
    *out = sym_le(env, b, a);
  }
  return true;
}

/* -- Back -------------------------------------------------------------------------------------- */

typedef struct writing {
  session *s;
  arena *mem;
  expression_symbol_of *symbol;
  void *arg;
} writing;

static const expression *tree(writing *w, symint e);

static const expression *call2(writing *w, expression_kind kind, const expression *a,
                               const expression *b)
{
  return expression_call(w->s, w->mem, kind, 2, (const expression *const[]){a, b});
}

/* True if Mod, which sympy has for natural numbers, is what a remainder is. */
static bool is_natural(const sym_atom *a) { return a->lo >= 0; }

static const expression *tree_of_atom(writing *w, const sym_atom *a)
{
  static const expression_kind kinds[] = {[SYM_FLOOR] = EXPRESSION_FLOOR_DIV,
                                          [SYM_MOD] = EXPRESSION_PYTHON_MOD,
                                          [SYM_MIN] = EXPRESSION_MIN,
                                          [SYM_MAX] = EXPRESSION_MAX};

  if (a->kind == SYM_SYMBOL)
    return w->symbol(w->arg, a);
  const expression *x = tree(w, a->a), *y = tree(w, a->b);
  return call2(w, a->kind == SYM_MOD && is_natural(a) ? EXPRESSION_MOD : kinds[a->kind], x, y);
}

static const expression *tree_of_term(writing *w, const sym_term *t)
{
  const expression **factors = session_array(w->s, const expression *, (size_t)t->degree + 1);
  uint32_t n = 0;

  if (t->coef != 1)
    factors[n++] = expression_integer(w->s, w->mem, t->coef);
  for (uint32_t i = 0, power; i < t->degree; i += power) {
    for (power = 1; i + power < t->degree && t->atoms[i + power] == t->atoms[i];)
      power++;
    const expression *base = tree_of_atom(w, t->atoms[i]);
    factors[n++] = power == 1 ? base
                              : call2(w, EXPRESSION_POW, base,
                                      expression_integer(w->s, w->mem, power));
  }
  return expression_call(w->s, w->mem, EXPRESSION_MUL, n, factors);
}

/* Return the sum of the terms whose sign is that, with the constant if it has that sign; 0 if there
 * are none.  sign 0: all of them. */
static const expression *tree_of_terms(writing *w, symint e, int sign)
{
  const expression **items = session_array(w->s, const expression *, (size_t)e->n_terms + 1);
  uint32_t n = 0;

  for (uint32_t i = 0; i < e->n_terms; i++) {
    sym_term t = e->terms[i];
    if (sign && (t.coef > 0) != (sign > 0))
      continue;
    t.coef = sign < 0 ? -t.coef : t.coef;
    items[n++] = tree_of_term(w, &t);
  }
  if (e->k && (!sign || (e->k > 0) == (sign > 0)))
    items[n++] = expression_integer(w->s, w->mem, sign < 0 ? -e->k : e->k);
  return n ? expression_call(w->s, w->mem, EXPRESSION_ADD, n, items)
           : expression_integer(w->s, w->mem, 0);
}

static const expression *tree(writing *w, symint e)
{
  session_enter(w->s);
  const expression *r = tree_of_terms(w, e, 0);
  session_leave(w->s);
  return r;
}

const expression *expression_from_symint(session *s, arena *mem, symint e,
                                         expression_symbol_of *symbol, void *arg)
{
  return tree(&(writing){s, mem, symbol, arg}, e);
}

const expression *expression_from_condition(session *s, arena *mem, sym_cond c,
                                            expression_symbol_of *symbol, void *arg)
{
  static const expression_kind kinds[] = {
    [SYM_EQ] = EXPRESSION_EQ, [SYM_NE] = EXPRESSION_NE, [SYM_GE] = EXPRESSION_GE};
  writing w = {s, mem, symbol, arg};

  return call2(&w, kinds[c.rel], tree_of_terms(&w, c.e, 1), tree_of_terms(&w, c.e, -1));
}
