/* shape/rules_sym.c -- the shape rules over symbolic integers: the same rules.inc as in rules.c,
 * with symint arithmetic in which every decision becomes a guard, and arguments whose sizes get
 * symbols. Equal sizes share a symbol (duck sizing) and 0 and 1 are constants, as PyTorch
 * specialises them. Sizes that depend on data are fresh symbols with a range. */
#include <math.h>
#include <stdio.h>

#include "base/grow.h"
#include "shape/equation.h"
#include "shape/shape.h"

typedef symint DIM;
#define T(name) symshape_##name
typedef sym_cond cond;

typedef struct rule_cx {
  shape_env *env;
  symshape_call *call;
  uint32_t next; /* the argument that is probably requested next */
} rule_cx;

#define K(n) sym_const(cx->env->sym, n)
#define ADD(a, b) sym_add(cx->env->sym, a, b)
#define SUB(a, b) sym_sub(cx->env->sym, a, b)
#define MUL(a, b) sym_mul(cx->env->sym, a, b)
#define DIV(a, b) sym_floordiv(cx->env->sym, a, b)
#define MOD(a, b) sym_mod(cx->env->sym, a, b)
#define CEIL_DIV(a, b) DIV(ADD(a, SUB(b, K(1))), b)
#define MUL_OR_1(a, b) MUL(a, b)
#define AT_LEAST_1(a) MOST(a, K(1)) /* PyTorch has strides of max(u0, 1) */
#define IS_CONSTANT(a, n) (sym_is_const(a) && (a)->k == (n))
#define PRODUCT_OVERFLOWS(a, b) false
#define LEAST(a, b) sym_min(cx->env->sym, a, b)
#define MOST(a, b) sym_max(cx->env->sym, a, b)
#define EQ(a, b) sym_eq(cx->env->sym, a, b)
#define LE(a, b) sym_le(cx->env->sym, a, b)
#define LT(a, b) sym_lt(cx->env->sym, a, b)
#define shape_require(cx, c) sym_require((cx)->env->sym, c)
#define fresh_size(cx, lo, hi) fresh(cx, lo, hi)

/* Decide a condition of a rule: the only place that does. */
static bool shape_decide(rule_cx *cx, sym_cond c) { return sym_decide(cx->env->sym, c); }

/* Decide a condition that is false if unknown: data-dependent sizes are not 1, and layouts that
 * depend on them are not special. */
static bool shape_likely(rule_cx *cx, sym_cond c)
{
  int64_t ignored;
  c.e = sym_simplify(cx->env->sym, c.e);
  const int known = sym_known(cx->env->sym, c);
  const bool decides = cx->env->sym->arms || sym_hint(c.e, &ignored);
  return known >= 0 ? known : decides ? shape_decide(cx, c) : false;
}

/* True for a condition that depends on data: a rule that can do without it does not ask. */
static bool shape_is_open(rule_cx *cx, sym_cond c)
{
  int64_t ignored;
  c.e = sym_simplify(cx->env->sym, c.e);
  return !cx->env->sym->arms && !sym_hint(c.e, &ignored) && sym_known(cx->env->sym, c) < 0;
}

static int64_t fixed(rule_cx *cx, symint a)
{
  int64_t k;
  if (!sym_fix(cx->env->sym, a, &k))
    shape_refuse(cx->env, RUSH_ERAISED, NULL,
                 "%s: a rule needs the value of a number that depends on data",
                 cx->call->schema->name);
  return k;
}

static symint fresh(rule_cx *cx, symint lo, symint hi)
{
  int64_t from, to, ignored;
  sym_range(cx->env->sym, lo, &from, &ignored);
  sym_range(cx->env->sym, hi, &ignored, &to);
  return sym_fresh(cx->env->sym, from, to);
}

/* The tensor after a refusal over numbers; here refusals never return. */
static const symshape_facts no_tensor;
static const symshape_arg no_arg;

static const char *text_of(rule_cx *cx, symint a)
{
  text_buf *t = session_text(cx->env->s);
  sym_print(t, a);
  return session_take_text(cx->env->s, t);
}
static const char *texts_of(rule_cx *cx, int n, const symint *sizes)
{
  text_buf *t = session_text(cx->env->s);
  text_putc(t, '[');
  for (int i = 0; i < n; i++) {
    text_puts(t, i ? ", " : "");
    sym_print(t, sizes[i]);
  }
  text_putc(t, ']');
  return session_take_text(cx->env->s, t);
}
static const symshape_arg *arg_at(rule_cx *cx, uint32_t i) { return &cx->call->args[i]; }
static rush_value value_at(const rule_cx *cx, uint32_t i) { return cx->call->args[i].value; }
static bool one_int(rule_cx *cx, uint32_t i, symint *out)
{
  const symshape_arg *a = arg_at(cx, i);
  if (a->ints && a->n == 1)
    *out = a->ints[0];
  return a->ints && a->n == 1;
}

#include "shape/rules.inc"

void symshape_apply(shape_env *env, uint32_t rule, symshape_call *call)
{
  rule_cx cx = {env, call, 1}; /* rules have argument 0 by its place */
  apply(&cx, rule);
  symshape_finish(env->sym, call);
}

void symshape_add_dense(session *s, sym_env *env, symshape_call *call, uint32_t result, int dtype,
                   int n_dims, const symint *sizes)
{
  shape_env all = shape_env_of(s, env);
  rule_cx cx = {&all, call, 0};
  add_result(&cx, result, rows(&cx, dtype, n_dims, sizes));
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

/* Return a stride: 0, 1, a product with an inner dimension, or else a new symbol. */
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
  *to = (symshape_facts){
    .dtype = t->dtype, .flags = t->flags & SHAPE_WRAPPED, .n_dims = t->n_dims, .alias = -1};
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
