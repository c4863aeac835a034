/* shape/rules_sym.c -- the shape rules over symbolic integers: the same rules.inc as in rules.c,
 * with symint arithmetic in which every decision becomes a guard, and arguments whose sizes get
 * symbols. Equal sizes share a symbol (duck sizing) and 0 and 1 are constants, as PyTorch
 * specialises them. Sizes that depend on data are fresh symbols with a range. */
#include <math.h>

#include "base/grow.h"
#include "shape/shape.h"

typedef symint DIM;
#define T(name) symshape_##name
typedef sym_cond cond;

typedef struct rule_cx {
  session *s;
  sym_env *env;
  symshape_call *call;
} rule_cx;

#define K(n) sym_const(cx->env, n)
#define ADD(a, b) sym_add(cx->env, a, b)
#define SUB(a, b) sym_sub(cx->env, a, b)
#define MUL(a, b) sym_mul(cx->env, a, b)
#define DIV(a, b) sym_floordiv(cx->env, a, b)
#define MOD(a, b) sym_mod(cx->env, a, b)
#define LEAST(a, b) sym_min(cx->env, a, b)
#define MOST(a, b) sym_max(cx->env, a, b)
#define EQ(a, b) sym_eq(cx->env, a, b)
#define LE(a, b) sym_le(cx->env, a, b)
#define LT(a, b) sym_lt(cx->env, a, b)
#define shape_decide(cx, c) sym_decide((cx)->env, c)
#define shape_require(cx, c) sym_require((cx)->env, c)
#define fresh_size(cx, lo, hi) fresh(cx, lo, hi)

/* What is not known of data-dependent sizes is taken as false: they are not 1, and layouts that
 * hang on them are not special. */
static bool shape_likely(rule_cx *cx, sym_cond c)
{
  int64_t ignored;
  c.e = sym_simplify(cx->env, c.e);
  const int known = sym_known(cx->env, c);
  return known >= 0 ? known : sym_hint(c.e, &ignored) ? sym_decide(cx->env, c) : false;
}

static int64_t fixed(rule_cx *cx, symint a)
{
  int64_t k;
  if (!sym_fix(cx->env, a, &k))
    session_fail(cx->s, NULL,
                 "%s: a number that depends on data stands where a rule needs to know it",
                 cx->call->schema->name);
  return k;
}

static symint fresh(rule_cx *cx, symint lo, symint hi)
{
  int64_t from, to, ignored;
  sym_range(cx->env, lo, &from, &ignored);
  sym_range(cx->env, hi, &ignored, &to);
  return sym_fresh(cx->env, from, to);
}

#include "shape/rules.inc"

void symshape_apply(session *s, sym_env *env, uint32_t rule, symshape_call *call)
{
  rule_cx cx = {s, env, call};
  apply(&cx, rule);
  symshape_finish(env, call);
}

void symshape_give(session *s, sym_env *env, symshape_call *call, uint32_t result, int dtype,
                   int n_dims, const symint *sizes)
{
  rule_cx cx = {s, env, call};
  give(&cx, result, rows(&cx, dtype, n_dims, sizes));
}

void symshape_finish(sym_env *env, symshape_call *call)
{
  for (uint32_t i = 0; i < call->n_results; i++) {
    facts *r = call->results[i];
    r->offset = sym_simplify(env, r->offset);
    for (int d = 0; d < r->n_dims; d++) {
      r->sizes[d] = sym_simplify(env, r->sizes[d]);
      r->strides[d] = sym_simplify(env, r->strides[d]);
    }
  }
}

/* -- Arguments --------------------------------------------------------------------------------- */

typedef struct naming { /* of sizes */
  sym_env *env;
  uint32_t n, cap;
  int64_t *hints;
  symint *symbols;
} naming;

static symint symbol_for(session *s, naming *m, int64_t size)
{
  if (size <= 1)
    return sym_const(m->env, size);
  for (uint32_t i = 0; i < m->n; i++)
    if (m->hints[i] == size)
      return m->symbols[i];
  if (m->n == m->cap) {
    naming old = *m;
    m->cap = old.cap ? 2 * old.cap : 16;
    m->hints = session_array(s, int64_t, m->cap);
    m->symbols = session_array(s, symint, m->cap);
    if (m->n) {
      memcpy(m->hints, old.hints, m->n * sizeof *m->hints);
      memcpy(m->symbols, old.symbols, m->n * sizeof *m->symbols);
    }
  }
  m->hints[m->n] = size;
  return m->symbols[m->n++] = sym_new(m->env, size, 2);
}

/* A stride is 0, 1, or what a dimension inside of it makes it; else a symbol of its own. */
static symint stride_for(session *s, naming *m, const shape_facts *t, symshape_facts *to,
                         const bool *done, int d)
{
  if (t->strides[d] <= 1)
    return sym_const(m->env, t->strides[d]);
  for (int i = t->n_dims - 1; i >= 0; i--) {
    int64_t reach;
    if (done[i] && !__builtin_mul_overflow(t->sizes[i], t->strides[i], &reach) &&
        reach == t->strides[d])
      return sym_mul(m->env, to->sizes[i], to->strides[i]);
  }
  return symbol_for(s, m, t->strides[d]);
}

static void name_facts(session *s, naming *m, const shape_facts *t, symshape_facts *to)
{
  bool done[TENSOR_MAX_DIMS] = {false};
  *to = (symshape_facts){.dtype = t->dtype, .flags = t->flags, .n_dims = t->n_dims, .alias = -1};
  to->offset = t->offset ? sym_new(m->env, t->offset, 0) : sym_const(m->env, 0);
  to->sizes = session_array(s, symint, 2 * (size_t)t->n_dims + 1);
  to->strides = to->sizes + t->n_dims;
  for (int i = 0; i < t->n_dims; i++)
    to->sizes[i] = symbol_for(s, m, t->sizes[i]);
  for (int n = 0; n < t->n_dims;
       n++) { /* smallest stride first, of equal ones the last dimension */
    int d = -1;
    for (int i = t->n_dims - 1; i >= 0; i--)
      if (!done[i] && (d < 0 || t->strides[i] < t->strides[d] ||
                       (t->strides[i] == t->strides[d] && t->sizes[i] < t->sizes[d])))
        d = i;
    to->strides[d] = stride_for(s, m, t, to, done, d);
    done[d] = true;
  }
}

symshape_arg *symshape_args_of(session *s, sym_env *env, const schema *sc, const shape_arg *args)
{
  symshape_arg *out = session_array(s, symshape_arg, (size_t)sc->n_args + 1);
  naming m = {.env = env};
  for (uint32_t i = 0; i < sc->n_args; i++) {
    const shape_arg *a = &args[i];
    out[i] = (symshape_arg){.value = a->value, .n = a->n};
    if (a->tensors) {
      out[i].tensors = session_array(s, symshape_facts, (size_t)a->n + 1);
      for (uint32_t k = 0; k < a->n; k++)
        name_facts(s, &m, &a->tensors[k], &out[i].tensors[k]);
    }
    if (a->ints) {
      out[i].ints = session_array(s, symint, (size_t)a->n + 1);
      for (uint32_t k = 0; k < a->n; k++)
        out[i].ints[k] = sym_const(env, a->ints[k]);
    }
  }
  return out;
}
