/* shape/rules.c -- the shape rules over int64_t sizes: defines the arithmetic used in rules.inc,
 * with overflow checks, and turns arguments into facts. rules.inc is compiled twice, here and in
 * rules_sym.c, so that each rule exists once; rejected: generic code over a tagged size, which
 * would slow the concrete case. */
#include <math.h>
#include <stdio.h>

#include "base/grow.h"
#include "shape/equation.h"
#include "shape/shape.h"

typedef int64_t DIM;
#define T(name) shape_##name
typedef bool cond;

typedef struct rule_cx {
  shape_env *env;
  shape_call *call;
  uint32_t next; /* the argument that is probably requested next */
} rule_cx;

/* Refuse an overflow; returns 0. */
static int64_t overflow(rule_cx *cx)
{
  shape_refuse(cx->env, RUSH_ERAISED, NULL, "Storage size calculation overflowed");
  return 0;
}
static inline int64_t add(rule_cx *cx, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    return overflow(cx);
  return r;
}
static inline int64_t sub(rule_cx *cx, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r))
    return overflow(cx);
  return r;
}
static inline int64_t mul(rule_cx *cx, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    return overflow(cx);
  return r;
}
static int64_t quotient(rule_cx *cx, int64_t a, int64_t b)
{
  if (b == 0) {
    shape_refuse(cx->env, RUSH_ERAISED, "ZeroDivisionError", "integer division or modulo by zero");
    return 0;
  }
  if (b == -1)
    return sub(cx, 0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Multiply strides; returns 1 on overflow, for the stride of a dimension with at most one
 * element. */
static int64_t mul_or_1(int64_t a, int64_t b)
{
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? 1 : r;
}
static bool product_overflows(int64_t a, int64_t b)
{
  int64_t r;
  return __builtin_mul_overflow(a, b, &r);
}

#define K(n) ((int64_t)(n))
#define ADD(a, b) add(cx, a, b)
#define SUB(a, b) sub(cx, a, b)
#define MUL(a, b) mul(cx, a, b)
#define DIV(a, b) quotient(cx, a, b)
#define MOD(a, b) sub(cx, a, mul(cx, quotient(cx, a, b), b))
#define CEIL_DIV(a, b) (-quotient(cx, -(a), b)) /* of a >= 0 */
#define MUL_OR_1(a, b) mul_or_1(a, b)
#define PRODUCT_OVERFLOWS(a, b) product_overflows(a, b)
#define LEAST(a, b) i64_min(a, b)
#define MOST(a, b) i64_max(a, b)
#define EQ(a, b) ((a) == (b))
#define LE(a, b) ((a) <= (b))
#define LT(a, b) ((a) < (b))
#define shape_decide(cx, c) ((void)(cx), (c))
#define shape_require(cx, c) ((void)(cx), (c))
#define shape_likely(cx, c) ((void)(cx), (c))
#define shape_is_open(cx, c) ((void)(cx), (void)(c), false)
#define AT_LEAST_1(a) (a)
#define IS_CONSTANT(a, n) ((a) == (n))
#define fixed(cx, a) ((void)(cx), (a))
#define fresh_size(cx, lo, hi) ((void)(cx), (void)(lo), (void)(hi), (int64_t)SHAPE_UNKNOWN)

/* The sizes and strides of a tensor after a refusal, which has 0 dimensions: reading beyond them is
 * safe. */
static const int64_t noughts[2 * TENSOR_MAX_DIMS + 2];
static const shape_facts no_tensor = {.dtype = RUSH_FLOAT32,
                                      .sizes = (int64_t *)(uintptr_t)(noughts + TENSOR_MAX_DIMS),
                                      .strides = (int64_t *)(uintptr_t)(noughts + TENSOR_MAX_DIMS),
                                      .alias = -1};
static const shape_arg no_arg;

/* Print a size for texts of refusals. */
static const char *text_of(rule_cx *cx, int64_t a)
{
  if (cx->env->st != RUSH_OK)
    return "";
  char *text = shape_alloc(cx->env, 24);
  snprintf(text, 24, "%lld", (long long)a);
  return text;
}
static const char *texts_of(rule_cx *cx, int n, const int64_t *sizes)
{
  if (cx->env->st != RUSH_OK)
    return "";
  return sizes_print(shape_alloc(cx->env, sizeof(sizes_text)), n, sizes);
}
static shape_arg *read_arg_slowly(rule_cx *cx, uint32_t i);
static inline const shape_arg *arg_at(rule_cx *cx, uint32_t i)
{
  return LIKELY(!(cx->call->unread >> i & 1)) ? &cx->call->args[i] : read_arg_slowly(cx, i);
}
static inline rush_value value_at(const rule_cx *cx, uint32_t i)
{
  return cx->call->unread >> i & 1 ? cx->call->values[i] : cx->call->args[i].value;
}
/* Get an int, or a list of one; without converting the whole argument if possible. */
static inline bool one_int(rule_cx *cx, uint32_t i, int64_t *out)
{
  const rush_value v = value_at(cx, i);
  if (LIKELY(v.tag == RUSH_TAG_INT)) {
    *out = v.as.i;
    return true;
  }
  if (v.tag != RUSH_TAG_LIST)
    return false;
  const shape_arg *a = arg_at(cx, i);
  if (a->ints && a->n == 1)
    *out = a->ints[0];
  return a->ints && a->n == 1;
}

#include "shape/rules.inc"

void shape_apply(shape_env *env, uint32_t rule, shape_call *call)
{
  rule_cx cx = {env, call, 1}; /* rules have argument 0 by its place */
  apply(&cx, rule);
}

int shape_result_type(int default_dtype, int n, const shape_facts *const *t)
{
  return result_type(default_dtype, n, t);
}
const shape_facts *shape_iterated(shape_env *env, int n, const shape_facts *const *t)
{
  rule_cx cx = {env, NULL,
                0}; /* no more dimensions than an operand has: new_facts has no refusal */
  return iterated(&cx, t[0]->dtype, n, t);
}

const shape_facts *shape_indexed(shape_env *env, const schema *sc, shape_indexing *x)
{
  rule_cx cx = {env, &(shape_call){.schema = sc}, 0};
  place_indices(&cx, x);
  const facts *r = indexed(&cx, x);
  return failed(&cx) ? NULL : r;
}

void shape_add_dense(session *s, shape_call *call, uint32_t result, int dtype, int n_dims,
                     const int64_t *sizes)
{
  shape_env env = shape_env_of(s, NULL);
  rule_cx cx = {&env, call, 0};
  add_result(&cx, result, rows(&cx, dtype, n_dims, sizes));
}

/* -- Environments ------------------------------------------------------------------------------ */

void *shape_alloc_slow(shape_env *e, size_t n_bytes)
{
  if (e->s)
    return session_alloc(e->s, n_bytes);
  if (e->st == RUSH_OK) {
    if (!e->more.ctx)
      arena_init(&e->more, e->cx->ctx);
    void *p = arena_alloc(&e->more, n_bytes);
    if (p)
      return p;
    e->st = call_nomem(e->cx);
  }
  return n_bytes <= SHAPE_SPARE_BYTES ? e->spare : NULL;
}

void shape_refuse(shape_env *e, rush_status st, const char *type, const char *fmt, ...)
{
  if (e->st != RUSH_OK)
    return;
  va_list ap;
  va_start(ap, fmt);
  e->st = error_set_va(e->cx->err, st, type, fmt, ap);
  va_end(ap);
  if (e->s)
    session_check(e->s, e->st);
}

/* -- Rules by number --------------------------------------------------------------------------- */

static const char *const names[] = {
#define RULE(name, fn, kind) #name,
#include "shape/rules.def"
#undef RULE
};
uint32_t shape_rule_find(str name)
{
  for (uint32_t i = 0; i < COUNT_OF(names); i++)
    if (str_is(name, names[i]))
      return i + 1;
  return 0;
}
const char *shape_rule_name(uint32_t rule)
{
  return rule > 0 && rule <= COUNT_OF(names) ? names[rule - 1] : "";
}

/* -- Arguments --------------------------------------------------------------------------------- */

static void facts_of(rush_value v, shape_facts *out)
{
  *out = (shape_facts){.dtype = DTYPE_NONE, .alias = -1};
  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    return;
  shape_facts_of(v.as.tensor, out);
}

static bool holds_tensors(const type *t)
{
  return type_is(t, TYPE_TENSOR) ||
         ((type_is(t, TYPE_LIST) || type_is(t, TYPE_OPTIONAL)) && holds_tensors(type_elem(t)));
}
static bool is_int_list(const rush_list *l)
{
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].tag != RUSH_TAG_INT)
      return false;
  return true;
}

/* Read a whole list: rules read its items many times. */
static void read_list(shape_env *env, const type *t, const rush_list *l, shape_arg *out)
{
  const bool tensors = holds_tensors(t);
  if (!tensors && !is_int_list(l))
    return;
  if (l->n > UINT32_MAX / 64) {
    shape_refuse(env, RUSH_ERAISED, NULL, "a list of %zu items", l->n);
    return;
  }
  const uint32_t n = (uint32_t)l->n;
  void *items =
    shape_alloc(env, (n + (size_t)1) * (tensors ? sizeof(shape_facts) : sizeof(int64_t)));
  if (!items)
    return;
  out->n = n;
  if (tensors)
    out->tensors = items;
  else
    out->ints = items;
  for (uint32_t i = 0; i < n; i++)
    if (tensors)
      facts_of(l->items[i], &out->tensors[i]);
    else
      out->ints[i] = l->items[i].as.i;
}
static void read_arg(shape_env *env, const type *t, rush_value v, shape_arg *out)
{
  *out = (shape_arg){.value = v};
  if (v.tag == RUSH_TAG_LIST) {
    read_list(env, t, v.as.list, out);
  } else if (v.tag == RUSH_TAG_INT) {
    out->n = 1;
    out->ints = shape_alloc(env, sizeof *out->ints);
    *out->ints = v.as.i;
  } else if (v.tag == RUSH_TAG_TENSOR) {
    out->n = 1;
    out->tensors = shape_alloc(env, sizeof *out->tensors);
    facts_of(v, out->tensors);
  }
}
static __attribute__((noinline)) shape_arg *read_arg_slowly(rule_cx *cx, uint32_t i)
{
  shape_call *c = cx->call;
  c->unread &= ~(UINT64_C(1) << i);
  read_arg(cx->env, c->schema->args[i].type, c->values[i], &c->args[i]);
  return &c->args[i];
}

shape_arg *shape_args_of(session *s, const schema *sc, const rush_value *args)
{
  shape_arg *out = session_array(s, shape_arg, (size_t)sc->n_args + 1);
  shape_env env = shape_env_of(s, NULL);
  for (uint32_t i = 0; i < sc->n_args; i++)
    read_arg(&env, sc->args[i].type, args[i], &out[i]);
  return out;
}
