/* shape/rules.c -- the shape rules over int64_t sizes: defines the arithmetic that rules.inc is
 * written in, with overflow checks, and turns arguments into facts. rules.inc is compiled twice,
 * here and in rules_sym.c, so that each rule exists once; generic code over a tagged size was
 * rejected because it would slow the concrete case. */
#include <math.h>

#include "base/grow.h"
#include "shape/shape.h"

typedef int64_t DIM;
#define T(name) shape_##name
typedef bool cond;

typedef struct rule_cx {
  session *s;
  shape_call *call;
} rule_cx;

static _Noreturn void overflow(rule_cx *cx)
{
  session_fail_status(cx->s, RUSH_ERAISED, NULL, NULL, "%s: a size that does not fit into 64 bits",
                      cx->call->schema->name);
}
static int64_t add(rule_cx *cx, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    overflow(cx);
  return r;
}
static int64_t sub(rule_cx *cx, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r))
    overflow(cx);
  return r;
}
static int64_t mul(rule_cx *cx, int64_t a, int64_t b)
{
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    overflow(cx);
  return r;
}
static int64_t quotient(rule_cx *cx, int64_t a, int64_t b)
{
  if (b == 0)
    session_fail_status(cx->s, RUSH_ERAISED, "ZeroDivisionError", NULL,
                        "integer division or modulo by zero");
  if (b == -1)
    return sub(cx, 0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#define K(n) ((int64_t)(n))
#define ADD(a, b) add(cx, a, b)
#define SUB(a, b) sub(cx, a, b)
#define MUL(a, b) mul(cx, a, b)
#define DIV(a, b) quotient(cx, a, b)
#define MOD(a, b) sub(cx, a, mul(cx, quotient(cx, a, b), b))
#define LEAST(a, b) i64_min(a, b)
#define MOST(a, b) i64_max(a, b)
#define EQ(a, b) ((a) == (b))
#define LE(a, b) ((a) <= (b))
#define LT(a, b) ((a) < (b))
#define shape_decide(cx, c) ((void)(cx), (c))
#define shape_require(cx, c) ((void)(cx), (c))
#define shape_likely(cx, c) ((void)(cx), (c))
#define fixed(cx, a) ((void)(cx), (a))
#define fresh_size(cx, lo, hi) ((void)(cx), (void)(lo), (void)(hi), (int64_t)SHAPE_UNKNOWN)

#include "shape/rules.inc"

void shape_apply(session *s, uint32_t rule, shape_call *call)
{
  rule_cx cx = {s, call};
  apply(&cx, rule);
}

void shape_give(session *s, shape_call *call, uint32_t result, int dtype, int n_dims,
                const int64_t *sizes)
{
  rule_cx cx = {s, call};
  give(&cx, result, rows(&cx, dtype, n_dims, sizes));
}

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

static void facts_of(session *s, rush_value v, shape_facts *out)
{
  *out = (shape_facts){.dtype = DTYPE_NONE, .alias = -1};
  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    return;
  const rush_tensor *t = v.as.tensor;
  out->dtype = t->dtype;
  out->n_dims = t->n_dims;
  out->flags = t->h.flags & TENSOR_WRAPPED_NUMBER ? SHAPE_WRAPPED : 0;
  out->offset = t->offset;
  out->sizes = session_array(s, int64_t, 2 * (size_t)t->n_dims + 1);
  out->strides = out->sizes + t->n_dims;
  for (int i = 0; i < t->n_dims; i++) {
    out->sizes[i] = t->sizes[i];
    out->strides[i] = t->strides[i];
  }
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

static void read_arg(session *s, const type *t, rush_value v, shape_arg *out)
{
  const bool list = v.tag == RUSH_TAG_LIST;
  *out = (shape_arg){.value = v};
  if (list && v.as.list->n > UINT32_MAX / 2)
    session_fail(s, NULL, "a list of %zu items", v.as.list->n);
  const uint32_t n = list ? (uint32_t)v.as.list->n : 1;
  if (holds_tensors(t) && v.tag != RUSH_TAG_NONE) {
    out->n = n;
    out->tensors = session_array(s, shape_facts, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
      facts_of(s, list ? v.as.list->items[i] : v, &out->tensors[i]);
  } else if (v.tag == RUSH_TAG_INT || (list && is_int_list(v.as.list))) {
    out->n = n;
    out->ints = session_array(s, int64_t, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
      out->ints[i] = list ? v.as.list->items[i].as.i : v.as.i;
  }
}

shape_arg *shape_args_of(session *s, const schema *sc, const rush_value *args)
{
  shape_arg *out = session_array(s, shape_arg, (size_t)sc->n_args + 1);
  for (uint32_t i = 0; i < sc->n_args; i++)
    read_arg(s, sc->args[i].type, args[i], &out[i]);
  return out;
}
