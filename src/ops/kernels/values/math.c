/* ops/kernels/values/math.c -- functions of numbers (not tensors) that are not one expression of
 * the operator table: special functions, complex ones, floor and ceil that return ints, pow,
 * factorial, frexp. Macros make the boxed kernels. Overloads typed `float` in PyTorch round real
 * results to single precision; that is repeated here because it shows in printed numbers. */
#include "base/cmplx.h"

#include "base/macros.h"
#include "ops/point/scalar.h"
#include "ops/point/vmath.h"

#define RETURN_INT(e) return call->results[0] = value_int(e), RUSH_OK
#define RETURN_FLOAT(e) return call->results[0] = value_float(e), RUSH_OK
#define RETURN_BOOL(e) return call->results[0] = value_bool(e), RUSH_OK
#define RETURN_COMPLEX(z) \
  return complex_new(call->cx, creal(z), cimag(z), &call->results[0])

static double complex complex_at(const rush_call *call, uint32_t i)
{
  num a = num_of(call->args[i]);
  return CMPLX(a.re, a.im);
}

/* The overloads for all numbers round real results to single precision: PyTorch declares their
 * result type `float`. */
#define REAL_ONLY(name, formula)                                     \
  rush_kernel kernel_##name##_number;                                \
  rush_status kernel_##name##_number(rush_call *call)                \
  {                                                                  \
    num a = num_of(call->args[0]);                                   \
    double x = a.re;                                                 \
    if (a.kind == NUM_COMPLEX)                                       \
      return no_complex(call);                                       \
    RETURN_FLOAT((double)(float)(formula));                          \
  }
#define WITH_COMPLEX(name, formula, cformula)                        \
  rush_kernel kernel_##name##_complex;                               \
  rush_status kernel_##name##_complex(rush_call *call)               \
  {                                                                  \
    double complex z = complex_at(call, 0);                          \
    double complex r = (cformula);                                   \
    RETURN_COMPLEX(r);                                               \
  }                                                                  \
  rush_kernel kernel_##name##_number;                                \
  rush_status kernel_##name##_number(rush_call *call)                \
  {                                                                  \
    num a = num_of(call->args[0]);                                   \
    double x = a.re;                                                 \
    if (a.kind == NUM_COMPLEX)                                       \
      return kernel_##name##_complex(call);                          \
    RETURN_FLOAT((double)(float)(formula));                          \
  }

REAL_ONLY(gamma, tgamma(x))
REAL_ONLY(fabs, fabs(x))
REAL_ONLY(degrees, x * (180.0 / M_PI))
REAL_ONLY(radians, x * (M_PI / 180.0))
REAL_ONLY(lgamma, vm_lgamma_f64(x))
REAL_ONLY(log1p, log1p(x))
REAL_ONLY(expm1, expm1(x))
REAL_ONLY(erf, erf(x))
REAL_ONLY(erfc, erfc(x))
REAL_ONLY(round, nearbyint(x))
WITH_COMPLEX(exp, exp(x), cexp(z))
WITH_COMPLEX(log, log(x), clog(z))
WITH_COMPLEX(log10, log10(x), clog(z) / M_LN10)
WITH_COMPLEX(sqrt, sqrt(x), csqrt(z))
WITH_COMPLEX(sin, sin(x), csin(z))
WITH_COMPLEX(cos, cos(x), ccos(z))
WITH_COMPLEX(tan, tan(x), ctan(z))
WITH_COMPLEX(asin, asin(x), casin(z))
WITH_COMPLEX(acos, acos(x), cacos(z))
WITH_COMPLEX(atan, atan(x), catan(z))
WITH_COMPLEX(sinh, sinh(x), csinh(z))
WITH_COMPLEX(cosh, cosh(x), ccosh(z))
WITH_COMPLEX(tanh, tanh(x), ctanh(z))
WITH_COMPLEX(asinh, asinh(x), casinh(z))
WITH_COMPLEX(acosh, acosh(x), cacosh(z))
WITH_COMPLEX(atanh, atanh(x), catanh(z))

rush_kernel kernel_angle_number, kernel_floor_number, kernel_ceil_number;
rush_status kernel_angle_number(rush_call *call)
{
  num a = num_of(call->args[0]);
  if (a.kind == NUM_COMPLEX)
    RETURN_FLOAT(atan2(a.im, a.re));
  RETURN_FLOAT(a.re < 0 || (a.re == 0 && signbit(a.re)) ? M_PI : 0.0);
}

/* Compute floor and ceil of a float, which are ints if they fit. */
static rush_status whole(rush_call *call, double (*fn)(double))
{
  num a = num_of(call->args[0]);
  char text[FLOAT_REPR_BYTES];
  if (a.kind == NUM_COMPLEX)
    return no_complex(call);
  if (a.kind == NUM_INT)
    RETURN_INT(a.i);
  double d = fn(a.re);
  if (d >= -0x1p63 && d < 0x1p63)
    RETURN_INT((int64_t)d);
  if (isfinite(a.re))
    return call_fail(call->cx, "Cannot convert float %f to integer", a.re);
  text[float_repr(a.re, text)] = '\0';
  return call_fail(call->cx, "Cannot convert float %s to integer", text);
}

rush_status kernel_floor_number(rush_call *call) { return whole(call, floor); }
rush_status kernel_ceil_number(rush_call *call) { return whole(call, ceil); }

#define REAL_PAIR(name, formula)                                            \
  rush_kernel name;                                                         \
  rush_status name(rush_call *call)                                         \
  {                                                                         \
    num a = num_of(call->args[0]), b = num_of(call->args[1]);               \
    if (num_meet(a, b) == NUM_COMPLEX)                                      \
      return no_complex(call);                                              \
    RETURN_FLOAT(formula);                                                  \
  }
REAL_PAIR(kernel_atan2_numbers, atan2(a.re, b.re))
REAL_PAIR(kernel_copysign_numbers, copysign(a.re, b.re))
REAL_PAIR(kernel_fmod_numbers, fmod(a.re, b.re))
REAL_PAIR(kernel_mathremainder_numbers, remainder(a.re, b.re))

rush_kernel kernel_pow_numbers, kernel_pow_int, kernel_log_numbers, kernel_polar_numbers;
rush_status kernel_pow_numbers(rush_call *call)
{
  num a = num_of(call->args[0]), b = num_of(call->args[1]);
  if (num_meet(a, b) == NUM_COMPLEX) {
    if (returns_float(call))
      return no_complex(call);
    double complex r = cpow(complex_at(call, 0), complex_at(call, 1));
    RETURN_COMPLEX(r);
  }
  if (a.re == 0.0 && b.re < 0.0)
    return call_fail(call->cx, "0.0 cannot be raised to a negative power");
  RETURN_FLOAT(pow(a.re, b.re));
}

/* Return an int: PyTorch declares int but returns the double of pow. */
rush_status kernel_pow_int(rush_call *call)
{
  int64_t a = call_int(call, 0), b = call_int(call, 1);
  if (a == 0 && b < 0)
    return call_fail(call->cx, "0.0 cannot be raised to a negative power");
  RETURN_INT(i64_from_f64(pow((double)a, (double)b)));
}

rush_status kernel_log_numbers(rush_call *call)
{
  num a = num_of(call->args[0]), b = num_of(call->args[1]);
  if (num_meet(a, b) != NUM_COMPLEX)
    RETURN_FLOAT(log(a.re) / log(b.re));
  if (returns_float(call))
    return no_complex(call);
  double complex r = clog(complex_at(call, 0)) / clog(complex_at(call, 1));
  RETURN_COMPLEX(r);
}

rush_status kernel_polar_numbers(rush_call *call)
{
  num a = num_of(call->args[0]), b = num_of(call->args[1]);
  if (num_meet(a, b) == NUM_COMPLEX)
    return no_complex(call);
  return complex_new(call->cx, a.re * cos(b.re), a.re * sin(b.re), &call->results[0]);
}

rush_kernel kernel_isnan_complex, kernel_isinf_complex, kernel_isfinite_complex;
rush_status kernel_isnan_complex(rush_call *call)
{
  num a = num_of(call->args[0]);
  RETURN_BOOL(isnan(a.re) || isnan(a.im));
}

rush_status kernel_isinf_complex(rush_call *call)
{
  num a = num_of(call->args[0]);
  RETURN_BOOL(isinf(a.re) || isinf(a.im));
}

rush_status kernel_isfinite_complex(rush_call *call)
{
  num a = num_of(call->args[0]);
  RETURN_BOOL(isfinite(a.re) && isfinite(a.im));
}

rush_kernel kernel_factorial, kernel_modf, kernel_frexp;
rush_status kernel_factorial(rush_call *call)
{
  int64_t n = call_int(call, 0);
  uint64_t r = 1;
  if (n < 0)
    return call_fail(call->cx, "factorial() not defined for negative values");
  for (int64_t i = 2; i <= n && r != 0; i++) /* from 66! on it is 0 modulo 2^64 */
    r *= (uint64_t)i;
  RETURN_INT((int64_t)r);
}

rush_status kernel_modf(rush_call *call)
{
  double part, frac = modf(call_float(call, 0), &part);
  call->results[0] = value_float(frac);
  call->results[1] = value_float(part);
  return RUSH_OK;
}

rush_status kernel_frexp(rush_call *call)
{
  int exponent = 0;
  double m = frexp(call_float(call, 0), &exponent);
  call->results[0] = value_float(m);
  call->results[1] = value_int(exponent);
  return RUSH_OK;
}
