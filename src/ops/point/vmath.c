/* ops/point/vmath.c -- the scalar functions of vmath.h that do not vectorise: lgamma, digamma
 * (reflection and an asymptotic series), inverse erf (an initial value and Halley steps). */
#include "ops/point/vmath.h"

double vm_lgamma_f64(double x)
{
  int sign;
  return lgamma_r(x, &sign);
}

/* Compute psi(x) for x >= 10 by the asymptotic series, B_2k / (2k x^2k). */
static double digamma_large(double x)
{
  static const double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132,
                             -691.0 / 32760, 1.0 / 12};
  double z = 1.0 / (x * x), p = 0.0;
  for (int i = 6; i >= 0; i--)
    p = (p + c[i]) * z;
  return log(x) - 0.5 / x - p;
}

double vm_digamma_f64(double x)
{
  double y = 0.0;
  if (x == 0.0)
    return copysign(INFINITY, -x);
  if (x != x || x == INFINITY)
    return x;
  if (x < 0.0) {
    double frac = x - trunc(x);
    if (frac == 0.0 || x == -INFINITY)
      return NAN;
    y = -M_PI / tan(M_PI * frac); /* reflection: psi(x) = psi(1 - x) - pi cot(pi x) */
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0)
    y -= 1.0 / x;
  return y + digamma_large(x);
}

double vm_erfinv_f64(double x)
{
  double a = fabs(x), w, y;
  if (!(a < 1.0))
    return a == 1.0 ? copysign(INFINITY, x) : NAN;
  if (a < 1e-8)
    return x * 0.8862269254527580; /* sqrt(pi) / 2 */
  /* Winitzki's initial value (relative error 2e-3), then Halley's steps; erfc keeps digits near
   * 1. */
  w = log1p(-a * a);
  double b = 4.3307467508 + 0.5 * w; /* 2 / (pi 0.147) */
  y = sqrt(sqrt(b * b - w / 0.147) - b);
  for (int i = 0; i < 3; i++) {
    double e = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
    double step = e / (1.1283791670955126 * exp(-y * y)); /* 2 / sqrt(pi) */
    y -= step / (1.0 + y * step);
  }
  return copysign(y, x);
}
