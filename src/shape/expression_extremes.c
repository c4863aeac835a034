/* shape/expression_extremes.c -- Min and Max without the arguments that another one always beats.
 *
 * torch.export builds torch's own Min and Max, which keep Min(16, 16*s0); torch.export.load reads
 * with sympy's, which know that it is 16 for every s0 >= 1.  What is read here must be what it
 * reads.  Two arguments are compared by the sign of their difference's normal form, where all that
 * is known of a symbol is its assumptions, as in sympy; ranges of the program are not used.
 * Differences with other functions than sums and products are left alone: sympy may know less of
 * them. */
#include "shape/expression_int.h"

typedef struct extremes {
  arena *mem; /* of the result */
  sym_env *env;
  table symbols; /* name -> symint */
  const expression *e, *result;
} extremes;

static symint symbol_of(void *arg, const expression *symbol)
{
  extremes *x = arg;
  symint known = table_get(&x->symbols, symbol->name);
  const str text = symbol->assumptions;
  const char *all = session_strndup(x->env->s, text.len ? text.p : "", text.len);

  if (known)
    return known;
  known = sym_fresh(x->env,
                    strstr(all, "positive=True")      ? 1
                    : strstr(all, "nonnegative=True") ? 0
                                                      : SYM_NEG_INF,
                    SYM_INF);
  session_table_put(x->env->s, &x->symbols, symbol->name, (void *)(uintptr_t)known);
  return known;
}

/* True if a >= b for all values of the symbols. */
static bool is_at_least(extremes *x, const expression *a, const expression *b)
{
  const symint left = expression_to_symint(x->env, a, symbol_of, x);
  const symint right = left ? expression_to_symint(x->env, b, symbol_of, x) : NULL;
  int64_t lo, hi;

  if (!right)
    return false;
  const symint difference = sym_sub(x->env, left, right);
  for (uint32_t i = 0; i < difference->n_terms; i++)
    for (uint32_t k = 0; k < difference->terms[i].degree; k++)
      if (difference->terms[i].atoms[k]->kind != SYM_SYMBOL)
        return false;
  sym_range(x->env, difference, &lo, &hi);
  return lo >= 0;
}

/* Keep the arguments that no other one beats; of equal ones the last. */
static uint32_t keep_winners(extremes *x, expression_kind kind, const expression **args,
                             uint32_t n)
{
  uint32_t kept = 0;

  for (uint32_t i = 0; i < n; i++) {
    bool loses = false;
    for (uint32_t k = 0; k < kept && !loses; k++)
      loses = kind == EXPRESSION_MAX ? is_at_least(x, args[k], args[i])
                                     : is_at_least(x, args[i], args[k]);
    for (uint32_t k = i + 1; k < n && !loses; k++)
      loses = kind == EXPRESSION_MAX ? is_at_least(x, args[k], args[i])
                                     : is_at_least(x, args[i], args[k]);
    if (!loses)
      args[kept++] = args[i];
  }
  return kept;
}

static const expression *rebuilt(extremes *x, const expression *e)
{
  session *s = x->env->s;
  const expression **args = session_array(s, const expression *, (size_t)e->n_args + 1);
  uint32_t n = e->n_args;
  bool same = true;

  session_poll(s);
  for (uint32_t i = 0; i < n; i++) {
    args[i] = rebuilt(x, e->args[i]);
    same = same && args[i] == e->args[i];
  }
  if (e->kind == EXPRESSION_MIN || e->kind == EXPRESSION_MAX)
    n = keep_winners(x, e->kind, args, n);
  if (n == 1 && e->n_args > 1)
    return args[0];
  return same && n == e->n_args ? e : expression_call(s, x->mem, e->kind, n, args);
}

static void simplify(session *s, void *arg)
{
  extremes *x = arg;

  x->env = sym_env_new(s);
  session_table_init(s, &x->symbols);
  x->result = rebuilt(x, x->e);
}

const expression *expression_fold_extremes(session *s, arena *mem, const expression *e)
{
  extremes x = {.mem = mem, .e = e};
  rush_error err = RUSH_ERROR_INIT;
  call_ctx inner = *s->cx;

  inner.err = &err;
  const rush_status st = session_run(&inner, simplify, &x);
  rush_error_clear(&err);
  if (st == RUSH_ENOMEM)
    session_check(s, call_nomem(s->cx));
  session_poll(s);
  return st == RUSH_OK ? x.result : e;
}
