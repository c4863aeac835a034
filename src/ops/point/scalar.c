/* ops/point/scalar.c -- operators on numbers that are not tensors and that the table cannot write
 * as one C expression: arithmetic on mixed kinds, division, comparison, conversion, tensors as
 * numbers, range lengths and slice bounds. `num` reads a value of any kind once, and each kernel
 * decides by the common kind. Integers wrap through i64_add and similar functions because signed
 * overflow is undefined in C. */
#include "ops/point/scalar.h"

#include <stdlib.h>

#include "base/macros.h"

/* -- Numbers ----------------------------------------------------------------------------------- */

num num_of(rush_value v)
{
  if (v.tag == RUSH_TAG_FLOAT)
    return (num){.kind = NUM_FLOAT, .re = v.as.d};
  if (v.tag == RUSH_TAG_COMPLEX)
    return (num){.kind = NUM_COMPLEX, .re = value_complex(v)->re, .im = value_complex(v)->im};
  int64_t i = v.tag == RUSH_TAG_BOOL ? v.as.b : v.as.i;
  return (num){.kind = NUM_INT, .i = i, .re = (double)i};
}

rush_status no_complex(rush_call *call)
{
  return call_fail(call->cx, "%s is not defined for complex numbers", call->op->schema->name);
}

bool returns_float(const rush_call *call)
{
  return call->op->schema->returns[0].type->kind == TYPE_FLOAT;
}

#define RETURN_INT(e) return call->results[0] = value_int(e), RUSH_OK
#define RETURN_FLOAT(e) return call->results[0] = value_float(e), RUSH_OK
#define RETURN_BOOL(e) return call->results[0] = value_bool(e), RUSH_OK
#define RETURN_COMPLEX(re, im) return complex_new(call->cx, re, im, &call->results[0])

#define NUMBERS                                                       \
  num a = num_of(call->args[0]), b = num_of(call->args[1]);           \
  num_kind kind = num_meet(a, b)

rush_kernel kernel_add_numbers, kernel_sub_numbers, kernel_mul_numbers, kernel_div_numbers;
rush_status kernel_add_numbers(rush_call *call)
{
  NUMBERS;
  if (kind == NUM_INT)
    RETURN_INT(i64_add(a.i, b.i));
  if (kind == NUM_FLOAT)
    RETURN_FLOAT(a.re + b.re);
  RETURN_COMPLEX(a.re + b.re, a.im + b.im);
}

rush_status kernel_sub_numbers(rush_call *call)
{
  NUMBERS;
  if (kind == NUM_INT)
    RETURN_INT(i64_sub(a.i, b.i));
  if (kind == NUM_FLOAT)
    RETURN_FLOAT(a.re - b.re);
  RETURN_COMPLEX(a.re - b.re, a.im - b.im);
}

rush_status kernel_mul_numbers(rush_call *call)
{
  NUMBERS;
  if (kind == NUM_INT)
    RETURN_INT(i64_mul(a.i, b.i));
  if (kind == NUM_FLOAT)
    RETURN_FLOAT(a.re * b.re);
  RETURN_COMPLEX(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

/* Divide complex numbers by Smith's method: no overflow if the quotient is finite. */
rush_status kernel_div_numbers(rush_call *call)
{
  NUMBERS;
  if (kind != NUM_COMPLEX)
    RETURN_FLOAT(a.re / b.re);
  double c = fabs(b.re), d = fabs(b.im);
  if (returns_float(call))
    return no_complex(call);
  if (c == 0 && d == 0)
    RETURN_COMPLEX(a.re / c, a.im / d);
  if (c >= d) {
    double r = b.im / b.re, s = 1.0 / (b.re + b.im * r);
    RETURN_COMPLEX((a.re + a.im * r) * s, (a.im - a.re * r) * s);
  }
  double r = b.re / b.im, s = 1.0 / (b.re * r + b.im);
  RETURN_COMPLEX((a.re * r + a.im) * s, (a.im * r - a.re) * s);
}

rush_kernel kernel_floordiv_numbers, kernel_remainder_numbers, kernel_truncdiv_int;
rush_status kernel_floordiv_numbers(rush_call *call)
{
  NUMBERS;
  if (kind == NUM_COMPLEX)
    return no_complex(call);
  if (kind == NUM_FLOAT)
    RETURN_FLOAT(floor(a.re / b.re));
  if (b.i == 0)
    return call_fail(call->cx, "division by 0");
  RETURN_INT(i64_floordiv(a.i, b.i));
}

/* Refuse int % 0, at which PyTorch crashes with a signal. */
rush_status kernel_remainder_numbers(rush_call *call)
{
  NUMBERS;
  if (kind == NUM_COMPLEX)
    return no_complex(call);
  if (kind == NUM_FLOAT)
    RETURN_FLOAT(f64_mod(a.re, b.re));
  if (b.i == 0)
    return call_fail(call->cx, "integer division or modulo by zero");
  RETURN_INT(i64_mod(a.i, b.i));
}

rush_status kernel_truncdiv_int(rush_call *call)
{
  int64_t a = call_int(call, 0), b = call_int(call, 1);
  if (b == 0)
    return call_fail(call->cx, "integer division or modulo by zero");
  RETURN_INT(b == -1 ? i64_neg(a) : a / b);
}

rush_kernel kernel_divmod_int, kernel_divmod_float, kernel_divmod_mixed;
rush_status kernel_divmod_int(rush_call *call)
{
  int64_t a = call_int(call, 0), b = call_int(call, 1);
  if (b == 0)
    return call_fail(call->cx, "ZeroDivisionError: integer division or modulo by zero");
  call->results[0] = value_int(i64_floordiv(a, b));
  call->results[1] = value_int(i64_mod(a, b));
  return RUSH_OK;
}

rush_status kernel_divmod_float(rush_call *call)
{
  double a = call_float(call, 0), b = call_float(call, 1);
  if (b == 0)
    return call_fail(call->cx, "ZeroDivisionError: float divmod()");
  double rem = fmod(a, b);
  if (rem != 0 && (a < 0) != (b < 0))
    rem += b;
  call->results[0] = value_float((a - rem) / b);
  call->results[1] = value_float(rem);
  return RUSH_OK;
}

rush_status kernel_divmod_mixed(rush_call *call)
{
  double a = call_float(call, 0), b = call_float(call, 1);
  if (b == 0)
    return call_fail(call->cx, "ZeroDivisionError: float divmod()");
  double quot = floor(a / b);
  if (!(quot >= -0x1p63 && quot < 0x1p63))
    return call_fail(call->cx, "Cannot convert float %g to integer", a / b);
  quot = (double)(int64_t)quot; /* no -0 */
  call->results[0] = value_float(quot);
  call->results[1] = value_float(a - quot * b);
  return RUSH_OK;
}

rush_kernel kernel_neg_number, kernel_abs_number;
rush_status kernel_neg_number(rush_call *call)
{
  num a = num_of(call->args[0]);
  if (a.kind == NUM_INT)
    RETURN_INT(i64_neg(a.i));
  if (a.kind == NUM_FLOAT)
    RETURN_FLOAT(-a.re);
  RETURN_COMPLEX(-a.re, -a.im);
}

rush_status kernel_abs_number(rush_call *call)
{
  num a = num_of(call->args[0]);
  if (a.kind == NUM_INT)
    RETURN_INT(i64_abs(a.i));
  if (a.kind == NUM_FLOAT)
    RETURN_FLOAT(fabs(a.re));
  RETURN_FLOAT(hypot(a.re, a.im));
}

/* -- Comparing --------------------------------------------------------------------------------- */

static bool same_number(rush_call *call)
{
  NUMBERS;
  return kind == NUM_INT ? a.i == b.i : a.re == b.re && a.im == b.im;
}

rush_kernel kernel_eq_numbers, kernel_ne_numbers, kernel_eq_numbers_complex,
  kernel_ne_numbers_complex;
rush_status kernel_eq_numbers(rush_call *call) { RETURN_BOOL(same_number(call)); }
rush_status kernel_ne_numbers(rush_call *call) { RETURN_BOOL(!same_number(call)); }
rush_status kernel_eq_numbers_complex(rush_call *call) { RETURN_BOOL(same_number(call)); }
rush_status kernel_ne_numbers_complex(rush_call *call) { RETURN_BOOL(!same_number(call)); }

#define ORDER(name, sign)                           \
  rush_kernel name;                                 \
  rush_status name(rush_call *call)                 \
  {                                                 \
    NUMBERS;                                        \
    if (kind == NUM_COMPLEX)                        \
      return no_complex(call);                      \
    if (kind == NUM_INT)                            \
      RETURN_BOOL(a.i sign b.i);                    \
    RETURN_BOOL(a.re sign b.re);                    \
  }
ORDER(kernel_lt_numbers, <)
ORDER(kernel_le_numbers, <=)
ORDER(kernel_gt_numbers, >)
ORDER(kernel_ge_numbers, >=)

#define CHOOSE(name, sign)                          \
  rush_kernel name;                                 \
  rush_status name(rush_call *call)                 \
  {                                                 \
    NUMBERS;                                        \
    if (kind == NUM_COMPLEX)                        \
      return no_complex(call);                      \
    if (kind == NUM_INT)                            \
      RETURN_INT(a.i sign b.i ? a.i : b.i);         \
    RETURN_FLOAT(a.re sign b.re ? a.re : b.re);     \
  }
CHOOSE(kernel_min_numbers, <)
CHOOSE(kernel_max_numbers, >)

rush_kernel kernel_eq_values, kernel_ne_values;
rush_status kernel_eq_values(rush_call *call)
{
  bool same;
  TRY(value_equal(call->cx, call->args[0], call->args[1], &same));
  RETURN_BOOL(same);
}

rush_status kernel_ne_values(rush_call *call)
{
  bool same;
  TRY(value_equal(call->cx, call->args[0], call->args[1], &same));
  RETURN_BOOL(!same);
}

/* -- Converting -------------------------------------------------------------------------------- */

static rush_status int_of(rush_call *call, num a)
{
  if (a.kind == NUM_INT)
    RETURN_INT(a.i);
  if (a.im != 0 || !(a.re >= -0x1p63 && a.re < 0x1p63))
    return call_fail(call->cx, "value cannot be converted to type int without overflow");
  RETURN_INT((int64_t)a.re);
}

rush_kernel kernel_int_of_number, kernel_float_of_number, kernel_complex_of_number,
  kernel_complex_of_pair;
rush_status kernel_int_of_number(rush_call *call) { return int_of(call, num_of(call->args[0])); }
rush_status kernel_float_of_number(rush_call *call) { RETURN_FLOAT(num_of(call->args[0]).re); }
rush_status kernel_complex_of_number(rush_call *call)
{
  num a = num_of(call->args[0]);
  RETURN_COMPLEX(a.re, a.im);
}

static rush_status number_of_argument(rush_call *call, uint32_t i, num *out)
{
  rush_value v = call->args[i];
  if (v.tag == RUSH_TAG_TENSOR)
    TRY(tensor_item(call->cx, v.as.tensor, &v));
  *out = num_of(v);
  if (v.tag == RUSH_TAG_COMPLEX && call->args[i].tag == RUSH_TAG_TENSOR)
    value_release(v);
  return RUSH_OK;
}

/* Compute re + im * 1j, where either may be complex itself (from a tensor). */
rush_status kernel_complex_of_pair(rush_call *call)
{
  num a, b;
  TRY(number_of_argument(call, 0, &a));
  TRY(number_of_argument(call, 1, &b));
  RETURN_COMPLEX(a.re - b.im, a.im + b.re);
}

/* The C++ functions that PyTorch calls refuse texts without a number with their own names. */
rush_kernel kernel_int_of_str, kernel_float_of_str;
rush_status kernel_int_of_str(rush_call *call)
{
  str s = call_str(call, 0);
  size_t i = 0;
  while (i < s.len && strchr(" \t\n\v\f\r", s.p[i]) && s.p[i])
    i++;
  bool negative = i < s.len && s.p[i] == '-';
  if (i < s.len && (s.p[i] == '-' || s.p[i] == '+'))
    i++;
  if (i == s.len || s.p[i] < '0' || s.p[i] > '9')
    return call_fail_type(call->cx, "ValueError", "stoll");
  uint64_t v = 0, limit = (uint64_t)INT64_MAX + negative;
  for (; i < s.len && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
    uint64_t digit = (uint64_t)(s.p[i] - '0');
    if (v > (limit - digit) / 10)
      return call_fail_type(call->cx, "IndexError", "stoll");
    v = v * 10 + digit;
  }
  if (i != s.len)
    return call_fail(call->cx, "invalid literal for int() with base 10: '%s'", s.p);
  RETURN_INT((int64_t)(negative ? 0 - v : v));
}

rush_status kernel_float_of_str(rush_call *call)
{
  str s = call_str(call, 0); /* NUL-terminated: a heap string */
  char *end;
  double d = strtod(s.p, &end);
  if (end == s.p)
    return call_fail_type(call->cx, "ValueError", "stod");
  if (end != s.p + s.len)
    return call_fail(call->cx, "could not convert string to float: '%s'", s.p);
  bool spelled_inf = false;
  for (size_t i = 0; i < s.len; i++)
    spelled_inf |= s.p[i] == 'n' || s.p[i] == 'N';
  if (isinf(d) && !spelled_inf)
    return call_fail_type(call->cx, "IndexError", "stod");
  RETURN_FLOAT(d);
}

/* -- Tensors and numbers ----------------------------------------------------------------------- */

rush_kernel kernel_int_of_tensor, kernel_float_of_tensor, kernel_bool_of_tensor;
rush_status kernel_int_of_tensor(rush_call *call)
{
  num a;
  TRY(number_of_argument(call, 0, &a));
  return int_of(call, a);
}

rush_status kernel_float_of_tensor(rush_call *call)
{
  num a;
  TRY(number_of_argument(call, 0, &a));
  if (a.im != 0)
    return call_fail(call->cx, "value cannot be converted to type double without overflow");
  RETURN_FLOAT(a.re);
}

rush_status kernel_bool_of_tensor(rush_call *call)
{
  rush_tensor *t = call_tensor(call, 0);
  num a;
  if (t->n_elems != 1)
    return call_fail(call->cx, t->n_elems
                                 ? "Boolean value of Tensor with more than one value is ambiguous"
                                 : "Boolean value of Tensor with no values is ambiguous");
  TRY(number_of_argument(call, 0, &a));
  RETURN_BOOL(a.kind == NUM_INT ? a.i != 0 : a.re != 0 || a.im != 0);
}

/* Check a tensor that is converted to a number implicitly. */
static rush_status check_implicit(rush_call *call, bool to_int)
{
  const rush_tensor *t = call_tensor(call, 0);
  if (tensor_requires_grad(t))
    return call_fail(call->cx, "Cannot input a tensor that requires grad as a scalar argument");
  if (t->n_dims != 0)
    return call_fail(call->cx,
                     "Cannot input a tensor of dimension other than 0 as a scalar argument");
  dtype_class cls = dtype_class_of(t->dtype);
  if (to_int && cls != DTYPE_INT)
    return call_fail(call->cx, "Cannot input a tensor of type %s as an integral argument",
                     dtype_aten_name(t->dtype));
  return RUSH_OK;
}

rush_kernel kernel_scalar_implicit, kernel_float_implicit, kernel_int_implicit,
  kernel_complex_implicit;
rush_status kernel_scalar_implicit(rush_call *call)
{
  TRY(check_implicit(call, false));
  return tensor_item(call->cx, call_tensor(call, 0), &call->results[0]);
}

rush_status kernel_float_implicit(rush_call *call)
{
  TRY(check_implicit(call, false));
  return kernel_float_of_tensor(call);
}

rush_status kernel_int_implicit(rush_call *call)
{
  TRY(check_implicit(call, true));
  return kernel_int_of_tensor(call);
}

rush_status kernel_complex_implicit(rush_call *call)
{
  num a;
  TRY(check_implicit(call, false));
  TRY(number_of_argument(call, 0, &a));
  RETURN_COMPLEX(a.re, a.im);
}

/* -- Loops ------------------------------------------------------------------------------------- */

rush_kernel kernel_range_length;
rush_status kernel_range_length(rush_call *call)
{
  int64_t lo = call_int(call, 0), hi = call_int(call, 1), step = call_int(call, 2);
  if (step == 0)
    return call_fail(call->cx, "range() arg 3 must not be zero");
  if (step > 0 ? lo >= hi : lo <= hi)
    RETURN_INT(0);
  uint64_t span = step > 0 ? (uint64_t)hi - (uint64_t)lo : (uint64_t)lo - (uint64_t)hi;
  uint64_t width = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  RETURN_INT((int64_t)((span - 1) / width + 1));
}

/* -- Slices ------------------------------------------------------------------------------------ */

/* Adjust like Python's PySlice_AdjustIndices. */
int64_t slice_adjust(int64_t n, rush_value start, rush_value end, int64_t step, int64_t *first)
{
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  int64_t s = step < 0 ? high : 0, e = step < 0 ? -1 : n;
  if (start.tag != RUSH_TAG_NONE) {
    s = start.as.i < 0 ? i64_add(start.as.i, n) : start.as.i;
    s = s < low ? low : s > high ? high : s;
  }
  if (end.tag != RUSH_TAG_NONE) {
    e = end.as.i < 0 ? i64_add(end.as.i, n) : end.as.i;
    e = e < low ? low : e > high ? high : e;
  }
  *first = s;
  if (step > 0)
    return s < e ? (e - s - 1) / step + 1 : 0;
  return e < s ? (int64_t)((uint64_t)(s - e - 1) / (0 - (uint64_t)step)) + 1 : 0;
}
