/* ops/point/special.c -- rare special functions in double, by power series, asymptotic expansions,
 * continued fractions and quadrature, each where it converges (each function cites its reference).
 * Tables of fitted coefficients, as in Cephes, would be faster; these functions are rare, and a
 * series can be checked by reading. Loops are bounded, because arguments come from programs. */
#include "ops/point/special.h"

#include <math.h>

#include "ops/point/vmath.h"

/* -- Modified Bessel functions ----------------------------------------------------------------- */

/* Return exp(-x) I_n(x) for x >= 0.  All terms of the power series are positive: there is no
 * cancellation. */
static double bessel_ie(int n, double x)
{
  if (isnan(x) || isinf(x))
    return isnan(x) ? x : 0;
  if (x <= 30) {
    double term = n ? x / 2 : 1, sum = term;
    for (int k = 1; term > sum * 1e-17 && k < 200; k++) {
      term *= x * x / 4 / (k * (double)(k + n));
      sum += term;
    }
    return exp(-x) * sum;
  }
  double term = 1, sum = 1; /* Hankel's expansion */
  for (int k = 1; k < 40; k++) {
    const double next = -term * (4.0 * n * n - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * x);
    if (fabs(next) >= fabs(term) || fabs(next) < 1e-17)
      break;
    term = next;
    sum += term;
  }
  return sum / sqrt(2 * M_PI * x);
}

double special_i0e(double x) { return bessel_ie(0, fabs(x)); }
double special_i1e(double x) { return copysign(bessel_ie(1, fabs(x)), x); }
double special_i0(double x) { return exp(fabs(x)) * special_i0e(x); }
double special_i1(double x) { return exp(fabs(x)) * special_i1e(x); }

/* Return exp(x) K_n(x): the integral of exp(-x (cosh t - 1)) cosh(n t) over t > 0.  The trapezoid
 * rule converges faster than any power of the step, because all derivatives vanish at both ends. */
static double bessel_ke(int n, double x)
{
  if (isnan(x) || x < 0)
    return NAN;
  if (x == 0)
    return INFINITY;
  if (isinf(x))
    return 0;
  const double h = 1.0 / 32;
  double sum = 0.5;
  for (int i = 1; i < 4000; i++) {
    const double t = i * h, s = sinh(t / 2), w = exp(-2 * x * s * s) * (n ? cosh(t) : 1);
    sum += w;
    if (w < sum * 1e-18)
      break;
  }
  return sum * h;
}
double special_k0e(double x) { return bessel_ke(0, x); }
double special_k1e(double x) { return bessel_ke(1, x); }
double special_k0(double x) { return x == INFINITY ? 0 : exp(-x) * bessel_ke(0, x); }
double special_k1(double x) { return x == INFINITY ? 0 : exp(-x) * bessel_ke(1, x); }
double special_spherical_j0(double x) { return isinf(x) ? 0 : fabs(x) < 1e-8 ? 1 : sin(x) / x; }

/* -- Around the normal distribution ------------------------------------------------------------ */

double special_erfcx(double x)
{
  if (x < -26.7)
    return INFINITY;
  if (x < 10) { /* x * x as a sum of two numbers, so that exp() gets all of it */
    const double sq = x * x, rest = fma(x, x, -sq);
    return exp(sq) * (1 + rest) * erfc(x);
  }
  double term = 1, sum = 1; /* asymptotic */
  for (int k = 1; k < 30; k++) {
    const double next = -term * (2.0 * k - 1) / (2 * x * x);
    if (fabs(next) >= fabs(term) || fabs(next) < 1e-17)
      break;
    term = next;
    sum += term;
  }
  return sum / (x * sqrt(M_PI));
}

double special_log_ndtr(double x)
{
  const double t = x * M_SQRT1_2;
  return x < -1 ? log(special_erfcx(-t) / 2) - t * t : log1p(-erfc(t) / 2);
}

/* Compute the lower tail: the leading terms, then Newton's steps on the logarithm. */
static double ndtri_tail(double p)
{
  const double want = log(p), r = sqrt(-2 * want);
  double x = -(r - (log(r) + 0.9189385332046727) / r);
  for (int i = 0; i < 20; i++) {
    const double log_p = special_log_ndtr(x), log_pdf = -0.5 * x * x - 0.9189385332046727;
    const double step = (log_p - want) * exp(log_p - log_pdf);
    x -= step;
    if (fabs(step) <= 1e-16 * fabs(x))
      break;
  }
  return x;
}

double special_ndtri(double p)
{
  if (!(p >= 0 && p <= 1))
    return NAN;
  if (p == 0 || p == 1)
    return p ? INFINITY : -INFINITY;
  if (p < 0.05)
    return ndtri_tail(p);
  return p > 0.95 ? -ndtri_tail(1 - p) : M_SQRT2 * vm_erfinv_f64(2 * p - 1);
}

/* -- zeta, polygamma --------------------------------------------------------------------------- */

/* Compute zeta far below zero for whole x: the terms up to zero are those of two sums from above,
 * with the sign of (-1)^x.  Adding them one by one would take -q steps. */
#define FAR_BELOW (-1000.0)
static double zeta_far_below(double x, double q)
{
  const double above = q - floor(q), below = 1 - above;
  const double mirrored = special_zeta(x, below) - special_zeta(x, 1 - q);
  return special_zeta(x, above) + (fmod(x, 2) == 0 ? mirrored : -mirrored);
}

/* Compute by Euler-Maclaurin summation: the first terms, the integral of the rest, corrections with
 * B_2k / (2k)!. */
double special_zeta(double x, double q)
{
  static const double inverse[] = {12.0,
                                   -720.0,
                                   30240.0,
                                   -1209600.0,
                                   47900160.0,
                                   -1.8924375803183791606e9,
                                   7.47242496e10,
                                   -2.950130727918164224e12,
                                   1.1646782814350067249e14,
                                   -4.5979787224074726105e15,
                                   1.8152105401943546773e17,
                                   -7.1661652561756670113e18};
  if (x == 1)
    return INFINITY;
  if (x < 1 || isnan(x) || isnan(q))
    return NAN;
  if (q <= 0) {
    if (q == floor(q))
      return INFINITY;
    if (x != floor(x))
      return NAN; /* a power of a negative number */
    if (q < FAR_BELOW)
      return zeta_far_below(x, q);
  }
  double sum = pow(q, -x), a = q, b = 0;
  for (int i = 0; i < 9 || a <= 9; i++) {
    a += 1;
    b = pow(a, -x);
    sum += b;
    if (fabs(b) < fabs(sum) * 1e-17)
      return sum;
  }
  sum += b * a / (x - 1) - 0.5 * b;
  double factor = 1, k = 0;
  for (int i = 0; i < 12; i++) {
    factor *= x + k;
    b /= a;
    const double t = factor * b / inverse[i];
    sum += t;
    if (fabs(t / sum) < 1e-17)
      break;
    factor *= x + k + 1;
    b /= a;
    k += 2;
  }
  return sum;
}

double special_polygamma(double n, double x)
{
  if (n == 0)
    return vm_digamma_f64(x);
  return (fmod(n, 2) == 1 ? 1 : -1) * exp(vm_lgamma_f64(n + 1)) * special_zeta(n + 1, x);
}

/* -- Incomplete gamma -------------------------------------------------------------------------- */

/* Return x^a exp(-x) / gamma(a + 1). */
static double gamma_weight(double a, double x)
{
  return exp(a * log(x) - x - vm_lgamma_f64(a + 1));
}

#define MAX_TERMS 2000 /* PyTorch's bound; below LARGE_A some hundred are enough */
static double lower_series(double a, double x)
{
  double term = 1, sum = 1;
  for (int k = 1; k < MAX_TERMS && term > sum * 1e-17; k++) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * gamma_weight(a, x);
}

/* Evaluate Legendre's continued fraction by Lentz's method. */
static double upper_fraction(double a, double x)
{
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int k = 1; k < MAX_TERMS; k++) {
    const double an = -k * (k - a);
    b += 2;
    d = an * d + b;
    d = 1 / (fabs(d) < 1e-300 ? 1e-300 : d);
    c = b + an / c;
    c = fabs(c) < 1e-300 ? 1e-300 : c;
    h *= d * c;
    if (fabs(d * c - 1) <= 2.3e-16) /* one step of a double: a smaller difference may never occur */
      break;
  }
  return h * gamma_weight(a, x) * a;
}

/* Return Q(a, x) for large a by Temme's uniform expansion (DLMF 8.12), first term: its error is
 * below 1e-10.  The series above would need some sqrt(a) terms per element. */
#define LARGE_A 1e4
static double upper_large(double a, double x)
{
  const double mu = (x - a) / a, eta2 = 2 * (mu - log1p(mu));
  const double eta = mu < 0 ? -sqrt(fmax(eta2, 0)) : sqrt(fmax(eta2, 0));
  const double c0 = fabs(eta) < 1e-3 ? -1.0 / 3 + eta / 12 : 1 / mu - 1 / eta;
  return 0.5 * erfc(eta * sqrt(a / 2)) +
         exp(-0.5 * a * eta * eta) / sqrt(6.283185307179586 * a) * c0;
}

/* Return nonzero if the answer needs no computation; *out is then the lower function. */
static int igamma_edge(double a, double x, double *out)
{
  if (isnan(a) || isnan(x) || x < 0 || a < 0)
    *out = NAN;
  else if (a == 0)
    *out = x > 0 ? 1 : NAN;
  else if (x == 0)
    *out = 0;
  else if (isinf(a))
    *out = isinf(x) ? NAN : 0;
  else if (isinf(x))
    *out = 1;
  else
    return 0;
  return 1;
}

double special_igamma(double a, double x)
{
  double edge;
  if (igamma_edge(a, x, &edge))
    return edge;
  if (a > LARGE_A)
    return 1 - upper_large(a, x);
  return x > 1 && x > a ? 1 - upper_fraction(a, x) : lower_series(a, x);
}
double special_igammac(double a, double x)
{
  double edge;
  if (igamma_edge(a, x, &edge))
    return 1 - edge;
  if (a > LARGE_A)
    return upper_large(a, x);
  return x > 1 && x > a ? upper_fraction(a, x) : 1 - lower_series(a, x);
}

/* -- Orthogonal polynomials: three-term recurrences -------------------------------------------- */

#define MAX_DEGREE 65536 /* a step of the recurrence each */

static double degree(double n) { return n > MAX_DEGREE ? NAN : trunc(n); }

/* Evaluate p(k + 1) = (alpha x + beta) p(k) - gamma p(k - 1), from p(0) = 1 and p(1). */
static double chebyshev(double n, double first, double x)
{
  double p = 1, q = first;
  n = degree(n);
  if (!(n >= 0))
    return n < 0 ? 0 : NAN;
  for (double k = 0; k < n; k++) {
    const double next = 2 * x * q - p;
    p = q;
    q = next;
  }
  return p;
}
double special_chebyshev_t(double x, double n)
{
  return n >= 7 && fabs(x) < 1 ? cos(trunc(n) * acos(x)) : chebyshev(n, x, x);
}
double special_chebyshev_u(double x, double n) { return chebyshev(n, 2 * x, x); }
double special_chebyshev_v(double x, double n) { return chebyshev(n, 2 * x - 1, x); }
double special_chebyshev_w(double x, double n) { return chebyshev(n, 2 * x + 1, x); }

double special_hermite_h(double x, double n)
{
  double p = 1, q = 2 * x;
  n = degree(n);
  if (!(n >= 0))
    return n < 0 ? 0 : NAN;
  for (double k = 1; k <= n; k++) {
    const double next = 2 * x * q - 2 * k * p;
    p = q;
    q = next;
  }
  return p;
}
double special_hermite_he(double x, double n)
{
  double p = 1, q = x;
  n = degree(n);
  if (!(n >= 0))
    return n < 0 ? 0 : NAN;
  for (double k = 1; k <= n; k++) {
    const double next = x * q - k * p;
    p = q;
    q = next;
  }
  return p;
}
double special_laguerre(double x, double n)
{
  double p = 1, q = 1 - x;
  n = degree(n);
  if (!(n >= 0))
    return n < 0 ? 0 : NAN;
  for (double k = 1; k <= n; k++) {
    const double next = ((2 * k + 1 - x) * q - k * p) / (k + 1);
    p = q;
    q = next;
  }
  return p;
}
double special_legendre(double x, double n)
{
  double p = 1, q = x;
  n = degree(n);
  if (!(n >= 0))
    return n < 0 ? 0 : NAN;
  for (double k = 1; k <= n; k++) {
    const double next = ((2 * k + 1) * x * q - k * p) / (k + 1);
    p = q;
    q = next;
  }
  return p;
}

/* -- Airy's function --------------------------------------------------------------------------- */

/* Evaluate the power series of the two solutions, DLMF 9.4.1. */
static double airy_series(double x)
{
  const double cube = x * x * x;
  double f = 1, g = x, a = 1, b = x;
  for (double k = 3; k < 200 && (fabs(a) > 1e-17 * fabs(f) || fabs(b) > 1e-17 * fabs(g)); k += 3) {
    a *= cube / (k * (k - 1));
    b *= cube / (k * (k + 1));
    f += a;
    g += b;
  }
  return 0.355028053887817239 * f - 0.258819403792806798 * g;
}

/* Evaluate Poincare's expansions, DLMF 9.7.5 and 9.7.9, cut at the smallest term. */
static double airy_far(double x)
{
  const double z = fabs(x), zeta = 2.0 / 3.0 * z * sqrt(z), root = sqrt(sqrt(z));
  double even = 1, odd = 0, term = 1;
  for (int k = 1; k < 60; k++) {
    const double next =
      term * (6.0 * k - 5) * (6.0 * k - 3) * (6.0 * k - 1) / (216.0 * k * (2.0 * k - 1) * zeta);
    if (!(next < term) || next < 1e-17)
      break;
    term = next;
    const double sign = x > 0 ? (k % 2 ? -1 : 1) : (k % 4 < 2 ? 1 : -1);
    if (k % 2)
      odd += sign * term;
    else
      even += sign * term;
  }
  if (x > 0)
    return exp(-zeta) * (even + odd) / (2 * 1.77245385090551603 * root);
  const double turn = zeta - 0.785398163397448310;
  return (cos(turn) * even + sin(turn) * odd) / (1.77245385090551603 * root);
}

double special_airy_ai(double x)
{
  if (isinf(x) || isnan(x))
    return NAN;
  return x > 5.5 || x < -8 ? airy_far(x) : airy_series(x);
}
