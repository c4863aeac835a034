/* ops/point/special.h -- rare functions that tapes call one element at a time (special.def), in
 * double. */
#ifndef RUSH_OPS_SPECIAL_H
#define RUSH_OPS_SPECIAL_H

/* Modified Bessel functions; the e forms are times exp(-|x|), those of the k functions times
 * exp(x). */
double special_i0(double x);
double special_i0e(double x);
double special_i1(double x);
double special_i1e(double x);
double special_k0(double x);
double special_k0e(double x);
double special_k1(double x);
double special_k1e(double x);
double special_spherical_j0(double x);
/* exp(x x) erfc(x); the quantile of the normal distribution; log of its distribution function. */
double special_erfcx(double x);
double special_ndtri(double p);
double special_log_ndtr(double x);
/* Hurwitz's zeta; derivatives of digamma (n a whole number). */
double special_zeta(double x, double q);
double special_polygamma(double n, double x);
/* Regularised incomplete gamma functions, lower and upper. */
double special_igamma(double a, double x);
double special_igammac(double a, double x);
double special_airy_ai(double x);
/* Orthogonal polynomials of degree n (cut to a whole number; below 0: 0; NaN over 65,536). */
double special_chebyshev_t(double x, double n);
double special_chebyshev_u(double x, double n);
double special_chebyshev_v(double x, double n);
double special_chebyshev_w(double x, double n);
double special_hermite_h(double x, double n);
double special_hermite_he(double x, double n);
double special_laguerre(double x, double n);
double special_legendre(double x, double n);

#endif
