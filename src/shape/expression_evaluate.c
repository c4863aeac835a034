/* shape/expression_evaluate.c -- values of expression trees: numbers as Python computes them, and
 * normal forms.
 *
 * Integers and fractions are exact: s0*(s0 + 1)/2 is an integer for every s0, as sympy has it.  A
 * float makes a float of what it meets.  Division and remainder round down, comparisons of integers
 * with floats are exact, true division of integers is rounded once.  What Python would compute with
 * more than 64 bits fails. */
#include "shape/expression_int.h"
#include "base/integer.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>

/* A value: the fraction p / q, or the float d.  True and False are 1 and 0 that know it. */
typedef struct number {
  bool is_float, is_bool;
  int64_t p, q;
  double d;
} number;

typedef struct evaluation {
  call_ctx *cx;
  expression_lookup *lookup;
  void *arg;
} evaluation;

static rush_status evaluate(evaluation *v, const expression *e, number *out);

static number of_int(int64_t n) { return (number){.p = n, .q = 1}; }
static number of_bool(bool b) { return (number){.is_bool = true, .p = b, .q = 1}; }
static number of_float(double d) { return (number){.is_float = true, .d = d, .q = 1}; }

/* -- Failures ---------------------------------------------------------------------------------- */

static rush_status overflow(evaluation *v, const expression *e)
{
  return call_fail_type(v->cx, "OverflowError",
                        "the value of %s needs more than 64 bits", expression_kind_name(e->kind));
}
static rush_status divided_by_zero(evaluation *v, const expression *e)
{
  return call_fail_type(v->cx, "ZeroDivisionError", "%s by zero",
                        expression_kind_name(e->kind));
}
static rush_status outside_domain(evaluation *v, const expression *e)
{
  return call_fail_type(v->cx, "ValueError", "%s has no value for these arguments",
                        expression_kind_name(e->kind));
}
static rush_status not_integer(evaluation *v, const expression *e)
{
  return call_fail_type(v->cx, "TypeError", "%s expects integers",
                        expression_kind_name(e->kind));
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

static uint64_t size_of(int64_t n) { return n < 0 ? -(uint64_t)n : (uint64_t)n; }

/* Round p / q once: a quotient of at least 64 bits whose last bit stands for the remainder. */
static double quotient(int64_t p, int64_t q)
{
  unsigned __int128 top = size_of(p);
  const uint64_t bottom = size_of(q);
  int shift = 0;

  if (p == 0)
    return q < 0 ? -0.0 : 0.0;
  while (!(top >> 126)) {
    top <<= 1;
    shift++;
  }
  unsigned __int128 r = top / bottom;
  r |= top % bottom != 0;
  const double d = ldexp((double)r, -shift);
  return (p < 0) != (q < 0) ? -d : d;
}

static double as_float(number n) { return n.is_float ? n.d : quotient(n.p, n.q); }

static bool reduce(__int128 p, __int128 q, number *out)
{
  unsigned __int128 a = p < 0 ? -(unsigned __int128)p : (unsigned __int128)p;
  unsigned __int128 b = (unsigned __int128)q;

  while (b) {
    const unsigned __int128 rest = a % b;
    a = b;
    b = rest;
  }
  p /= (__int128)a;
  q /= (__int128)a;
  *out = (number){.p = (int64_t)p, .q = (int64_t)q};
  return p == (int64_t)p && q == (int64_t)q;
}

static bool add_to(number *a, number b)
{
  if (a->is_float || b.is_float) {
    *a = of_float(as_float(*a) + as_float(b));
    return true;
  }
  __int128 x = (__int128)a->p * b.q, y = (__int128)b.p * a->q, sum;
  return !__builtin_add_overflow(x, y, &sum) && reduce(sum, (__int128)a->q * b.q, a);
}

static bool multiply_by(number *a, number b)
{
  if (a->is_float || b.is_float) {
    *a = of_float(as_float(*a) * as_float(b));
    return true;
  }
  return reduce((__int128)a->p * b.p, (__int128)a->q * b.q, a);
}

/* Compare as Python does: -1, 0, 1, or 2 if one is a nan. */
static int compare(number a, number b)
{
  if (!a.is_float && !b.is_float) {
    const __int128 x = (__int128)a.p * b.q, y = (__int128)b.p * a.q;
    return (x > y) - (x < y);
  }
  if (a.is_float && !b.is_float) {
    const int c = compare(b, a);
    return c == 2 ? c : -c;
  }
  if (b.d != b.d)
    return 2;
  if (!a.is_float && a.q == 1 && fabs(b.d) < 0x1p63) { /* exactly, beyond 2**53 too */
    const int64_t whole = (int64_t)b.d;
    const double rest = b.d - (double)whole;
    return a.p != whole ? (a.p > whole) - (a.p < whole) : (rest < 0) - (rest > 0);
  }
  const double x = as_float(a);
  return x != x ? 2 : (x > b.d) - (x < b.d);
}

static bool truth(number n) { return n.is_float ? n.d != 0 : n.p != 0; }

/* -- Powers ------------------------------------------------------------------------------------ */

static rush_status integer_power(evaluation *v, const expression *e, number base, int64_t exponent,
                                 number *out)
{
  number r = of_int(1);

  if (exponent < 0 && base.p == 0)
    return divided_by_zero(v, e);
  if (exponent < 0 && base.p == INT64_MIN)
    return overflow(v, e);
  if (exponent < 0)
    base = base.p < 0 ? (number){.p = -base.q, .q = -base.p} : (number){.p = base.q, .q = base.p};
  for (uint64_t left = size_of(exponent); left; left >>= 1) {
    if ((left & 1) && !multiply_by(&r, base))
      return overflow(v, e);
    if (left > 1 && !multiply_by(&base, base))
      return overflow(v, e);
  }
  *out = r;
  return RUSH_OK;
}

static rush_status power(evaluation *v, const expression *e, number a, number b, number *out)
{
  if (e->kind == EXPRESSION_POW_BY_NATURAL && compare(b, of_int(0)) < 0)
    return outside_domain(v, e);
  if (!a.is_float && !b.is_float && b.q == 1 && e->kind != EXPRESSION_FLOAT_POW)
    return integer_power(v, e, a, b.p, out);
  const double x = as_float(a), y = as_float(b), r = pow(x, y);
  if (x == 0 && y < 0)
    return divided_by_zero(v, e);
  if (r != r && x == x && y == y)
    return outside_domain(v, e);
  if (isinf(r) && !isinf(x) && !isinf(y))
    return overflow(v, e);
  *out = of_float(r);
  return RUSH_OK;
}

/* -- Integers ---------------------------------------------------------------------------------- */

static rush_status divide_down(evaluation *v, const expression *e, int64_t a, int64_t b,
                               int64_t *out)
{
  if (b == 0)
    return divided_by_zero(v, e);
  if (a == INT64_MIN && b == -1)
    return overflow(v, e);
  *out = i64_floordiv(a, b);
  return RUSH_OK;
}

static rush_status shift(evaluation *v, const expression *e, int64_t a, int64_t b, int64_t *out)
{
  if (b < 0)
    return outside_domain(v, e);
  if (e->kind == EXPRESSION_RSHIFT)
    *out = a >> i64_min(b, 63);
  else if (b > 62 ? a != 0 : __builtin_mul_overflow(a, INT64_C(1) << b, &a))
    return overflow(v, e);
  else
    *out = a;
  return RUSH_OK;
}

/* Functions of integers; a[i] are the arguments. */
static rush_status of_integers(evaluation *v, const expression *e, const int64_t *a, int64_t *out)
{
  int64_t t;

  switch ((int)e->kind) {
  case EXPRESSION_CEIL_DIV:
    TRY(divide_down(v, e, a[0], a[1], &t));
    *out = t + (i64_mod(a[0], a[1]) != 0);
    return RUSH_OK;
  case EXPRESSION_MOD:
  case EXPRESSION_PYTHON_MOD:
    if (a[1] == 0)
      return divided_by_zero(v, e);
    *out = i64_mod(a[0], a[1]);
    return RUSH_OK;
  case EXPRESSION_MODULAR_INDEXING:
    TRY(divide_down(v, e, a[0], a[1], &t));
    if (a[2] == 0)
      return divided_by_zero(v, e);
    *out = i64_mod(t, a[2]);
    return RUSH_OK;
  case EXPRESSION_LSHIFT:
  case EXPRESSION_RSHIFT:
    return shift(v, e, a[0], a[1], out);
  case EXPRESSION_BIT_AND:
    *out = a[0] & a[1];
    return RUSH_OK;
  case EXPRESSION_BIT_OR:
    *out = a[0] | a[1];
    return RUSH_OK;
  case EXPRESSION_BIT_XOR:
    *out = a[0] ^ a[1];
    return RUSH_OK;
  default:
    return divide_down(v, e, a[0], a[1], out);
  }
}

/* -- Floats ------------------------------------------------------------------------------------ */

static rush_status unary_function(evaluation *v, const expression *e, double x, double *out)
{
  static double (*const functions[EXPRESSION_N_KINDS])(double) = {
    [EXPRESSION_SQRT] = sqrt, [EXPRESSION_COS] = cos,   [EXPRESSION_COSH] = cosh,
    [EXPRESSION_SIN] = sin,   [EXPRESSION_SINH] = sinh, [EXPRESSION_TAN] = tan,
    [EXPRESSION_TANH] = tanh, [EXPRESSION_ASIN] = asin, [EXPRESSION_ACOS] = acos,
    [EXPRESSION_ATAN] = atan, [EXPRESSION_EXP] = exp,   [EXPRESSION_ASINH] = asinh,
    [EXPRESSION_LOG] = log,   [EXPRESSION_LOG2] = log2,
  };

  *out = functions[e->kind](x);
  if (*out != *out && x == x)
    return outside_domain(v, e);
  if (isinf(*out) && !isinf(x))
    return e->kind == EXPRESSION_LOG || e->kind == EXPRESSION_LOG2 ? outside_domain(v, e)
                                                                   : overflow(v, e);
  return RUSH_OK;
}

/* Round to the integer that `kind` asks for. */
static rush_status to_integer(evaluation *v, const expression *e, number n, number *out)
{
  const expression_kind kind = e->kind;

  if (!n.is_float && n.q == 1) {
    *out = of_int(n.p);
    return RUSH_OK;
  }
  const double d = as_float(n),
               r = kind == EXPRESSION_ROUND_TO_INT                              ? nearbyint(d)
                   : kind == EXPRESSION_TRUNC_TO_INT                            ? trunc(d)
                   : kind == EXPRESSION_CEIL_TO_INT || kind == EXPRESSION_CEILING ? ceil(d)
                                                                          : floor(d);
  if (!(r >= -0x1p63 && r < 0x1p63))
    return overflow(v, e);
  *out = of_int((int64_t)r);
  return RUSH_OK;
}

/* Round to `places` decimals as Python's round does: the exact value, halves to even. */
static rush_status round_decimal(evaluation *v, const expression *e, double x, int64_t places,
                                 double *out)
{
  char fixed[700], digits[720];
  size_t n = 0;

  *out = x;
  if (x - x != 0 || places > 323)
    return RUSH_OK;
  if (places < 0)
    return call_fail_type(v->cx, "NotImplementedError", "%s to tens",
                     expression_kind_name(e->kind));
  snprintf(fixed, sizeof fixed, "%.*f", (int)places, x);
  for (const char *p = fixed; *p; p++) /* without the locale's point */
    if (*p == '-' || (*p >= '0' && *p <= '9'))
      digits[n++] = *p;
  n += (size_t)snprintf(digits + n, sizeof digits - n, "e-%d", (int)places);
  (void)float_parse(digits, n, out);
  return RUSH_OK;
}

/* -- Functions --------------------------------------------------------------------------------- */

static inline rush_status binary_operands(evaluation *v, const expression *e, number *a, number *b)
{
  TRY(evaluate(v, e->args[0], a));
  return evaluate(v, e->args[1], b);
}

static rush_status fold_numbers(evaluation *v, const expression *e, number *out)
{
  number all = of_int(e->kind == EXPRESSION_MUL), n;

  for (uint32_t i = 0; i < e->n_args; i++) {
    TRY(evaluate(v, e->args[i], &n));
    if (!(e->kind == EXPRESSION_ADD ? add_to(&all, n) : multiply_by(&all, n)))
      return overflow(v, e);
  }
  *out = all;
  return RUSH_OK;
}

static rush_status relation(evaluation *v, const expression *e, number *out)
{
  /* By kind, from EXPRESSION_EQ: bit c + 1 is set if the relation holds for compare's c. */
  static const uint8_t holds[] = {1 << 1, 1 << 0 | 1 << 2 | 1 << 3, 1 << 0, 1 << 0 | 1 << 1,
                                  1 << 2, 1 << 1 | 1 << 2};
  number a, b;

  TRY(binary_operands(v, e, &a, &b));
  *out = of_bool(holds[e->kind - EXPRESSION_EQ] >> (compare(a, b) + 1) & 1);
  return RUSH_OK;
}

static rush_status logic(evaluation *v, const expression *e, number *out)
{
  bool all = e->kind == EXPRESSION_AND || e->kind == EXPRESSION_NOT;
  number n;

  for (uint32_t i = 0; i < e->n_args; i++) {
    TRY(evaluate(v, e->args[i], &n));
    if (e->kind == EXPRESSION_XOR || e->kind == EXPRESSION_NOT)
      all ^= truth(n);
    else if (truth(n) != all) { /* the first that decides ends it */
      all = !all;
      break;
    }
  }
  *out = of_bool(all);
  return RUSH_OK;
}

static rush_status extreme(evaluation *v, const expression *e, number *out)
{
  number best, n;

  TRY(evaluate(v, e->args[0], &best));
  for (uint32_t i = 1; i < e->n_args; i++) {
    TRY(evaluate(v, e->args[i], &n));
    if (compare(n, best) == (e->kind == EXPRESSION_MIN ? -1 : 1))
      best = n;
  }
  *out = best;
  return RUSH_OK;
}

/* Where, ITE and Piecewise: only what is chosen is evaluated. */
static rush_status choice(evaluation *v, const expression *e, number *out)
{
  const bool cases = e->kind == EXPRESSION_PIECEWISE;
  number n;

  for (uint32_t i = 0; i < (cases ? e->n_args : 1); i++) {
    TRY(evaluate(v, cases ? e->args[i]->args[1] : e->args[0], &n));
    if (truth(n))
      return evaluate(v, cases ? e->args[i]->args[0] : e->args[1], out);
  }
  return cases ? outside_domain(v, e) : evaluate(v, e->args[2], out);
}

static rush_status true_division(evaluation *v, const expression *e, number *out)
{
  number a, b;

  TRY(binary_operands(v, e, &a, &b));
  if (!truth(b))
    return divided_by_zero(v, e);
  if (!a.is_float && !b.is_float && a.q == 1 && b.q == 1)
    *out = of_float(quotient(a.p, b.p));
  else
    *out = of_float(as_float(a) / as_float(b));
  return RUSH_OK;
}

/* IsNonOverlappingAndDenseIndicator(sizes..., strides...): 1 if the strides are those of a
 * contiguous tensor in some order of its dimensions. */
static rush_status is_dense(evaluation *v, const expression *e, number *out)
{
  enum { MOST = 64 };
  const uint32_t n = e->n_args / 2;
  int64_t sizes[MOST], strides[MOST], expected = 1;
  number size, stride;

  if (n > MOST || e->n_args % 2)
    return outside_domain(v, e);
  for (uint32_t i = 0; i < n; i++) { /* sorted by stride, by insertion */
    TRY(evaluate(v, e->args[i], &size));
    TRY(evaluate(v, e->args[n + i], &stride));
    if (size.is_float || stride.is_float || size.q != 1 || stride.q != 1)
      return not_integer(v, e);
    uint32_t at = i;
    for (; at > 0 && strides[at - 1] > stride.p; at--) {
      strides[at] = strides[at - 1];
      sizes[at] = sizes[at - 1];
    }
    strides[at] = stride.p;
    sizes[at] = size.p;
  }
  *out = of_int(1);
  if (n == 1 && sizes[0] < 2)
    return RUSH_OK;
  for (uint32_t i = 0; i < n; i++) {
    if (sizes[i] == 1)
      continue;
    if (strides[i] != expected || __builtin_mul_overflow(expected, sizes[i], &expected))
      *out = of_int(0);
  }
  return RUSH_OK;
}

static rush_status unary(evaluation *v, const expression *e, number *out)
{
  number n;

  TRY(evaluate(v, e->args[0], &n));
  *out = n;
  switch ((int)e->kind) {
  case EXPRESSION_IDENTITY:
    return RUSH_OK;
  case EXPRESSION_TO_FLOAT:
    *out = of_float(as_float(n));
    return RUSH_OK;
  case EXPRESSION_TRUNC_TO_FLOAT:
    *out = of_float(trunc(as_float(n)));
    return RUSH_OK;
  case EXPRESSION_ABS:
    out->is_bool = false;
    out->d = fabs(n.d);
    out->p = i64_abs(n.p);
    return out->p < 0 ? overflow(v, e) : RUSH_OK;
  case EXPRESSION_TRUNC_TO_INT:
  case EXPRESSION_CEIL_TO_INT:
  case EXPRESSION_FLOOR_TO_INT:
  case EXPRESSION_ROUND_TO_INT:
  case EXPRESSION_FLOOR:
  case EXPRESSION_CEILING:
    return to_integer(v, e, n, out);
  default:
    out->is_float = true;
    return unary_function(v, e, as_float(n), &out->d);
  }
}

/* Evaluate a function whose arguments are integers. */
static rush_status integer_function(evaluation *v, const expression *e, number *out)
{
  int64_t a[3], r;
  bool all_bool = e->kind >= EXPRESSION_BIT_AND && e->kind <= EXPRESSION_BIT_XOR;
  number n;

  for (uint32_t i = 0; i < e->n_args; i++) {
    TRY(evaluate(v, e->args[i], &n));
    if (n.is_float || n.q != 1)
      return not_integer(v, e);
    a[i] = n.p;
    all_bool = all_bool && n.is_bool;
  }
  TRY(of_integers(v, e, a, &r));
  *out = all_bool ? of_bool(r != 0) : of_int(r);
  return RUSH_OK;
}

static rush_status symbol(evaluation *v, const expression *e, number *out)
{
  rush_value value = {0};

  if (!v->lookup(v->arg, e, &value) ||
      (value.tag != RUSH_TAG_INT && value.tag != RUSH_TAG_FLOAT && value.tag != RUSH_TAG_BOOL))
    return call_fail_type(v->cx, "KeyError", "the symbol %.*s has no value",
                          (int)(e->name.len < 80 ? e->name.len : 80), e->name.p);
  *out = value.tag == RUSH_TAG_INT     ? of_int(value.as.i)
         : value.tag == RUSH_TAG_FLOAT ? of_float(value.as.d)
                                       : of_bool(value.as.b);
  return RUSH_OK;
}

static rush_status leaf(evaluation *v, const expression *e, number *out)
{
  switch ((int)e->kind) {
  case EXPRESSION_NUMBER:
    *out = (number){.p = e->p, .q = e->q};
    return RUSH_OK;
  case EXPRESSION_TRUE:
  case EXPRESSION_FALSE:
    *out = of_bool(e->kind == EXPRESSION_TRUE);
    return RUSH_OK;
  case EXPRESSION_INT_INFINITY:
  case EXPRESSION_INT_NEG_INFINITY:
    return call_fail_type(v->cx, "OverflowError", "int_oo is no number");
  default:
    *out = of_float(e->kind == EXPRESSION_FLOAT          ? e->d
                    : e->kind == EXPRESSION_INFINITY     ? HUGE_VAL
                    : e->kind == EXPRESSION_NEG_INFINITY ? -HUGE_VAL
                                                   : (double)NAN);
    return RUSH_OK;
  }
}

static rush_status no_value(evaluation *v, const expression *e, number *out)
{
  (void)out;
  return outside_domain(v, e);
}

static rush_status power_operands(evaluation *v, const expression *e, number *out)
{
  number a, b;

  TRY(binary_operands(v, e, &a, &b));
  return power(v, e, a, b, out);
}

static rush_status round_operands(evaluation *v, const expression *e, number *out)
{
  number a, b;

  TRY(binary_operands(v, e, &a, &b));
  if (b.is_float || b.q != 1)
    return not_integer(v, e);
  *out = of_float(0);
  return round_decimal(v, e, as_float(a), b.p, &out->d);
}

/* How a kind is evaluated; NULL: as a function of one number, or of several integers.  A table, as
 * a switch becomes one function whose frame is paid for at each symbol. */
static rush_status (*const evaluators[EXPRESSION_N_KINDS])(evaluation *v, const expression *e,
                                                           number *out) = {
  [EXPRESSION_NUMBER] = leaf,
  [EXPRESSION_FLOAT] = leaf,
  [EXPRESSION_TRUE] = leaf,
  [EXPRESSION_FALSE] = leaf,
  [EXPRESSION_INT_INFINITY] = leaf,
  [EXPRESSION_INT_NEG_INFINITY] = leaf,
  [EXPRESSION_INFINITY] = leaf,
  [EXPRESSION_NEG_INFINITY] = leaf,
  [EXPRESSION_NAN] = leaf,
  [EXPRESSION_SYMBOL] = symbol,
  [EXPRESSION_EQ] = relation,
  [EXPRESSION_NE] = relation,
  [EXPRESSION_LT] = relation,
  [EXPRESSION_LE] = relation,
  [EXPRESSION_GT] = relation,
  [EXPRESSION_GE] = relation,
  [EXPRESSION_ADD] = fold_numbers,
  [EXPRESSION_MUL] = fold_numbers,
  [EXPRESSION_AND] = logic,
  [EXPRESSION_OR] = logic,
  [EXPRESSION_XOR] = logic,
  [EXPRESSION_NOT] = logic,
  [EXPRESSION_MIN] = extreme,
  [EXPRESSION_MAX] = extreme,
  [EXPRESSION_WHERE] = choice,
  [EXPRESSION_ITE] = choice,
  [EXPRESSION_PIECEWISE] = choice,
  [EXPRESSION_INT_TRUE_DIV] = true_division,
  [EXPRESSION_FLOAT_TRUE_DIV] = true_division,
  [EXPRESSION_POW] = power_operands,
  [EXPRESSION_POW_BY_NATURAL] = power_operands,
  [EXPRESSION_FLOAT_POW] = power_operands,
  [EXPRESSION_ROUND_DECIMAL] = round_operands,
  [EXPRESSION_DENSE] = is_dense,
  [EXPRESSION_PAIR] = no_value,
};

static rush_status evaluate(evaluation *v, const expression *e, number *out)
{
  if (evaluators[e->kind])
    return evaluators[e->kind](v, e, out);
  return e->n_args == 1 ? unary(v, e, out) : integer_function(v, e, out);
}

rush_status expression_evaluate(call_ctx *cx, const expression *e, expression_lookup *lookup,
                                void *arg, rush_value *out)
{
  evaluation v = {.cx = cx, .lookup = lookup, .arg = arg};
  number n;

  TRY(evaluate(&v, e, &n));
  if (n.is_float || n.q != 1)
    *out = (rush_value){.tag = RUSH_TAG_FLOAT, .as.d = as_float(n)};
  else if (n.is_bool)
    *out = (rush_value){.tag = RUSH_TAG_BOOL, .as.b = n.p != 0};
  else
    *out = (rush_value){.tag = RUSH_TAG_INT, .as.i = n.p};
  return RUSH_OK;
}
