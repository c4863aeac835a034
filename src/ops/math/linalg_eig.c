/* ops/math/linalg_eig.c -- eigenvalues of general matrices: to Hessenberg form by reflections, to
 * Schur form by shifted QR steps (real matrices: two conjugate shifts at once, so that real
 * arithmetic suffices), eigenvectors by back substitution.  Shifts, deflation and so the order of
 * the eigenvalues are those of LAPACK's lahqr. */
#include <math.h>
#include <string.h>

#include "base/cmplx.h"
#include "ops/math/linalg.h"
#undef I

typedef double complex cplx;

#define ULP 0x1p-52
#define SMALLEST 0x1p-1022

static double size1(cplx x) { return fabs(creal(x)) + fabs(cimag(x)); }
static double size2(cplx x) { return creal(x) * creal(x) + cimag(x) * cimag(x); }

/* Make a reflection of up to 3 elements: v[0] becomes beta, the rest of v the reflection's; returns
 * its factor. */
static cplx reflection(cplx *v, int64_t n, int64_t stride)
{
  double below = 0;
  for (int64_t i = 1; i < n; i++)
    below += size2(v[i * stride]);
  if (below == 0 && cimag(v[0]) == 0)
    return 0;
  double beta = -copysign(sqrt(size2(v[0]) + below), creal(v[0]));
  cplx tau = (beta - v[0]) / beta, scale = v[0] - beta;
  for (int64_t i = 1; i < n; i++)
    v[i * stride] /= scale;
  v[0] = beta;
  return tau;
}

/* Compute h := Q' h Q in Hessenberg form, z := Q; for real matrices all imaginary parts remain
 * 0. */
static void to_hessenberg(const call_ctx *cx, cplx *h, cplx *z, int64_t n)
{
  memset(z, 0, (size_t)(n * n) * sizeof *z);
  for (int64_t i = 0; i < n; i++)
    z[i * n + i] = 1;
  for (int64_t k = 0; k + 2 <= n && !call_over(cx); k++) {
    int64_t len = n - k - 1;
    cplx *v = &h[(k + 1) * n + k], tau = reflection(v, len, n), beta = v[0];
    v[0] = 1;
    for (int64_t pass = 0; pass < 2; pass++) { /* h := h H, z := z H */
      cplx *x = pass ? z : h;
      for (int64_t r = 0; r < n && tau != 0; r++) {
        cplx sum = 0;
        for (int64_t i = 0; i < len; i++)
          sum += x[r * n + k + 1 + i] * v[i * n];
        for (int64_t i = 0; i < len; i++)
          x[r * n + k + 1 + i] -= tau * sum * conj(v[i * n]);
      }
    }
    for (int64_t c = k + 1; c < n && tau != 0; c++) { /* h := H' h */
      cplx sum = 0;
      for (int64_t i = 0; i < len; i++)
        sum += conj(v[i * n]) * h[(k + 1 + i) * n + c];
      for (int64_t i = 0; i < len; i++)
        h[(k + 1 + i) * n + c] -= conj(tau) * sum * v[i * n];
    }
    v[0] = beta;
    for (int64_t i = 1; i < len; i++)
      v[i * n] = 0;
  }
}

/* -- Real Schur form --------------------------------------------------------------------------- */

/* Return the first row of the unsplit block that ends in row i; a negligible element there becomes
 * 0. */
static int64_t block_start(cplx *h, int64_t n, int64_t i)
{
  const double small = SMALLEST * ((double)n / ULP);
  int64_t k = i;
  for (; k > 0; k--) {
    double sub = size1(h[k * n + k - 1]), here = size1(h[k * n + k]),
           above = size1(h[(k - 1) * n + k - 1]);
    if (sub <= small)
      break;
    double sum = here + above;
    if (sum == 0) {
      sum += k >= 2 ? fabs(creal(h[(k - 1) * n + k - 2])) : 0;
      sum += k + 1 < n ? fabs(creal(h[(k + 1) * n + k])) : 0;
    }
    if (fabs(creal(h[k * n + k - 1])) > ULP * sum)
      continue;
    double other = size1(h[(k - 1) * n + k]), gap = size1(h[(k - 1) * n + k - 1] - h[k * n + k]);
    double ab = fmax(sub, other), ba = fmin(sub, other), aa = fmax(here, gap), bb = fmin(here, gap),
           s = aa + ab;
    if (ba * (ab / s) <= fmax(small, ULP * (bb * (aa / s))))
      break;
  }
  if (k > 0)
    h[k * n + k - 1] = 0;
  return k;
}

typedef struct shifts {
  double re1, im1, re2, im2;
} shifts;

static shifts real_shifts(const cplx *h, int64_t n, int64_t l, int64_t i, int tries)
{
#define H(r, c) creal(h[(r) * n + (c)])
  double h11 = H(i - 1, i - 1), h21 = H(i, i - 1), h12 = H(i - 1, i), h22 = H(i, i);
  if (tries % 10 == 0) {
    bool low = tries % 20 == 0;
    double s =
      low ? fabs(H(i, i - 1)) + fabs(H(i - 1, i - 2)) : fabs(H(l + 1, l)) + fabs(H(l + 2, l + 1));
    h11 = h22 = 0.75 * s + (low ? H(i, i) : H(l, l));
    h12 = -0.4375 * s;
    h21 = s;
  }
  double s = fabs(h11) + fabs(h12) + fabs(h21) + fabs(h22);
  if (s == 0)
    return (shifts){0, 0, 0, 0};
  h11 /= s, h21 /= s, h12 /= s, h22 /= s;
  double middle = (h11 + h22) / 2, det = (h11 - middle) * (h22 - middle) - h12 * h21,
         root = sqrt(fabs(det));
  if (det >= 0)
    return (shifts){middle * s, root * s, middle * s, -root * s};
  double r1 = middle + root, r2 = middle - root,
         r = (fabs(r1 - h22) <= fabs(r2 - h22) ? r1 : r2) * s;
  return (shifts){r, 0, r, 0};
}

/* Reflect rows/columns k .. k + nr of h and z. */
static void real_reflect(cplx *h, cplx *z, int64_t n, int64_t i, int64_t k, int nr, double tau,
                         const double *v)
{
  for (int64_t c = k; c < n; c++) {
    double sum = 0;
    for (int r = 0; r < nr; r++)
      sum += v[r] * H(k + r, c);
    for (int r = 0; r < nr; r++)
      h[(k + r) * n + c] -= sum * tau * v[r];
  }
  for (int pass = 0; pass < 2; pass++) {
    cplx *x = pass ? z : h;
    int64_t rows = pass ? n : (k + 3 < i ? k + 3 : i) + 1;
    for (int64_t r = 0; r < rows; r++) {
      double sum = 0;
      for (int c = 0; c < nr; c++)
        sum += v[c] * creal(x[r * n + k + c]);
      for (int c = 0; c < nr; c++)
        x[r * n + k + c] -= sum * tau * v[c];
    }
  }
}

/* Return the start of a double step, and its first column in v. */
static int64_t step_start(const cplx *h, int64_t n, int64_t l, int64_t i, const shifts *t,
                          double *v)
{
  int64_t m = i - 2;
  for (;; m--) {
    double s = fabs(H(m, m) - t->re2) + fabs(t->im2) + fabs(H(m + 1, m)), h21 = H(m + 1, m) / s;
    v[0] =
      h21 * H(m, m + 1) + (H(m, m) - t->re1) * ((H(m, m) - t->re2) / s) - t->im1 * (t->im2 / s);
    v[1] = h21 * (H(m, m) + H(m + 1, m + 1) - t->re1 - t->re2);
    v[2] = h21 * H(m + 2, m + 1);
    s = fabs(v[0]) + fabs(v[1]) + fabs(v[2]);
    for (int k = 0; k < 3; k++)
      v[k] /= s;
    if (m == l ||
        fabs(H(m, m - 1)) * (fabs(v[1]) + fabs(v[2])) <=
          ULP * fabs(v[0]) * (fabs(H(m - 1, m - 1)) + fabs(H(m, m)) + fabs(H(m + 1, m + 1))))
      return m;
  }
}

static void real_step(cplx *h, cplx *z, int64_t n, int64_t l, int64_t i, int tries)
{
  double v[3];
  const shifts t = real_shifts(h, n, l, i, tries);
  const int64_t m = step_start(h, n, l, i, &t, v);
  for (int64_t k = m; k < i; k++) {
    int nr = i - k + 1 < 3 ? (int)(i - k + 1) : 3;
    cplx w[3];
    for (int r = 0; r < nr; r++)
      w[r] = k > m ? H(k + r, k - 1) : v[r];
    double tau = creal(reflection(w, nr, 1));
    if (k > m) {
      h[k * n + k - 1] = w[0];
      h[(k + 1) * n + k - 1] = 0;
      if (k < i - 1)
        h[(k + 2) * n + k - 1] = 0;
    } else if (m > l) {
      h[k * n + k - 1] *= 1 - tau;
    }
    double u[3] = {1, creal(w[1]), nr == 3 ? creal(w[2]) : 0};
    real_reflect(h, z, n, i, k, nr, tau, u);
  }
}
#undef H

/* Find the rotation that makes a 2 x 2 block upper triangular (returns true), or its diagonal
 * elements equal. */
static bool standardise(double a, double b, double c, double d, double *cs, double *sn)
{
  *cs = 1, *sn = 0;
  if (c == 0)
    return true;
  if (b == 0) {
    *cs = 0, *sn = 1;
    return true;
  }
  if (a - d == 0 && signbit(b) != signbit(c))
    return false;
  double p = (a - d) / 2, most = fmax(fabs(b), fabs(c)),
         least = copysign(1, b) * copysign(1, c) * fmin(fabs(b), fabs(c));
  double scale = fmax(fabs(p), most), z = (p / scale) * p + (most / scale) * least;
  if (z >= 4 * ULP) {
    z = p + copysign(sqrt(scale) * sqrt(z), p);
    double tau = hypot(c, z);
    *cs = z / tau, *sn = c / tau;
    return true;
  }
  double sigma = b + c, tau = hypot(sigma, a - d);
  *cs = sqrt((1 + fabs(sigma) / tau) / 2);
  *sn = -(p / (tau * *cs)) * copysign(1, sigma);
  return false;
}

/* Rotate columns p and p + 1 of x (n x n), rows [0, rows): (c p + conj(s) q, c q - s p). */
static void rotate_columns(cplx *x, int64_t n, int64_t rows, int64_t p, double c, cplx s)
{
  for (int64_t r = 0; r < rows; r++) {
    cplx a = x[r * n + p], b = x[r * n + p + 1];
    x[r * n + p] = c * a + conj(s) * b;
    x[r * n + p + 1] = c * b - s * a;
  }
}
static void rotate_rows(cplx *x, int64_t n, int64_t from, int64_t p, double c, cplx s)
{
  for (int64_t k = from; k < n; k++) {
    cplx a = x[p * n + k], b = x[(p + 1) * n + k];
    x[p * n + k] = c * a + s * b;
    x[(p + 1) * n + k] = c * b - conj(s) * a;
  }
}

static void rotate(cplx *h, cplx *z, int64_t n, int64_t p, double c, cplx s)
{
  rotate_rows(h, n, p, p, c, s);
  rotate_columns(h, n, p + 2, p, c, s);
  rotate_columns(z, n, n, p, c, s);
}

/* Standardise a 2 x 2 block: with real eigenvalues it becomes triangular; with a complex pair its
 * diagonal elements become equal. */
static void split_pair(cplx *h, cplx *z, int64_t n, int64_t p)
{
  for (int pass = 0; pass < 2; pass++) {
    double a = creal(h[p * n + p]), b = creal(h[p * n + p + 1]), c = creal(h[(p + 1) * n + p]),
           d = creal(h[(p + 1) * n + p + 1]);
    double cs, sn;
    bool done = pass == 1;
    if (pass == 1) { /* equal diagonal elements, both others of one sign: real after all */
      if (c == 0 || b == 0 || signbit(b) != signbit(c))
        break;
      double tau = 1 / sqrt(fabs(b + c));
      cs = sqrt(fabs(b)) * tau, sn = sqrt(fabs(c)) * tau;
    } else {
      done = standardise(a, b, c, d, &cs, &sn);
    }
    rotate(h, z, n, p, cs, sn);
    if (done) {
      h[(p + 1) * n + p] = 0;
      break;
    }
    h[p * n + p] = h[(p + 1) * n + p + 1] =
      (creal(h[p * n + p]) + creal(h[(p + 1) * n + p + 1])) / 2;
  }
}

static int real_schur(const call_ctx *cx, cplx *h, cplx *z, int64_t n)
{
  const int64_t most = 30 * (n > 10 ? n : 10);
  for (int64_t i = n - 1; i >= 0;) {
    int64_t l = 0, its = 0;
    for (int tries = 1; its <= most; its++, tries++) {
      l = block_start(h, n, i);
      if (l >= i - 1 || call_over(cx))
        break;
      real_step(h, z, n, l, i, tries);
    }
    if (its > most)
      return (int)i + 1;
    if (l == i - 1)
      split_pair(h, z, n, l);
    i = l - 1;
  }
  return 0;
}

/* Make remaining 2 x 2 blocks triangular, in complex numbers: the eigenvalue with positive
 * imaginary part first. */
static void complete_schur(cplx *h, cplx *z, int64_t n)
{
  for (int64_t p = 0; p + 1 < n; p++) {
    double b = creal(h[p * n + p + 1]), c = creal(h[(p + 1) * n + p]);
    if (c == 0)
      continue;
    /* the eigenvector for a + i sqrt(|b c|) is (b, i w) with w = sqrt(|b c|): rotate it to (1, 0)
     * */
    double w = sqrt(fabs(b)) * sqrt(fabs(c)), len = hypot(b, w), a = creal(h[p * n + p]);
    double cs = fabs(b) / len;
    cplx sn = CMPLX(0, -copysign(w / len, b)); /* conj(i w / b) c */
    rotate(h, z, n, p, cs, sn);
    h[(p + 1) * n + p] = 0;
    h[p * n + p] = CMPLX(a, w);
    h[(p + 1) * n + p + 1] = CMPLX(a, -w);
  }
}

/* -- Complex Schur form ------------------------------------------------------------------------ */

static cplx complex_shift(const cplx *h, int64_t n, int64_t l, int64_t i, int tries)
{
  cplx t = h[i * n + i];
  if (tries % 20 == 0)
    return t + 0.75 * fabs(creal(h[i * n + i - 1]));
  if (tries % 10 == 0)
    return h[l * n + l] + 0.75 * fabs(creal(h[(l + 1) * n + l]));
  cplx u = csqrt(h[(i - 1) * n + i]) * csqrt(h[i * n + i - 1]);
  double s = size1(u);
  if (s == 0)
    return t;
  cplx x = (h[(i - 1) * n + i - 1] - t) / 2;
  double sx = size1(x);
  s = fmax(s, sx);
  cplx y = s * csqrt((x / s) * (x / s) + (u / s) * (u / s));
  if (sx > 0 && creal(x / sx) * creal(y) + cimag(x / sx) * cimag(y) < 0)
    y = -y;
  return t - u * (u / (x + y));
}

/* Multiply row p by f and column p by conj(f). */
static void scale_one(cplx *h, cplx *z, int64_t n, int64_t p, int64_t rows, cplx f)
{
  for (int64_t c = p; c < n; c++)
    h[p * n + c] *= f;
  for (int64_t r = 0; r < rows; r++)
    h[r * n + p] *= conj(f);
  for (int64_t r = 0; r < n; r++)
    z[r * n + p] *= conj(f);
}

/* Make h[p][p - 1] real. */
static void make_real(cplx *h, cplx *z, int64_t n, int64_t p)
{
  cplx x = h[p * n + p - 1];
  if (cimag(x) == 0)
    return;
  h[p * n + p - 1] = cabs(x);
  scale_one(h, z, n, p, p + 2 < n ? p + 2 : n, conj(x) / cabs(x));
}

static int64_t complex_start(const cplx *h, int64_t n, int64_t l, int64_t i, cplx shift, cplx *v)
{
  for (int64_t m = i - 1;; m--) {
    cplx h11 = h[m * n + m], h22 = h[(m + 1) * n + m + 1], d = h11 - shift;
    double h21 = creal(h[(m + 1) * n + m]), s = size1(d) + fabs(h21);
    v[0] = d / s;
    v[1] = h21 / s;
    if (m == l || fabs(creal(h[m * n + m - 1])) * fabs(h21 / s) <=
                    ULP * (size1(d / s) * (size1(h11) + size1(h22))))
      return m;
  }
}

static void complex_step(cplx *h, cplx *z, int64_t n, int64_t l, int64_t i, int tries)
{
  cplx v[2];
  const int64_t m = complex_start(h, n, l, i, complex_shift(h, n, l, i, tries), v);
  for (int64_t k = m; k < i; k++) {
    if (k > m)
      v[0] = h[k * n + k - 1], v[1] = h[(k + 1) * n + k - 1];
    cplx t1 = reflection(v, 2, 1), v2 = v[1];
    if (k > m)
      h[k * n + k - 1] = v[0], h[(k + 1) * n + k - 1] = 0;
    double t2 = creal(t1 * v2);
    for (int64_t c = k; c < n; c++) {
      cplx sum = conj(t1) * h[k * n + c] + t2 * h[(k + 1) * n + c];
      h[k * n + c] -= sum;
      h[(k + 1) * n + c] -= sum * v2;
    }
    for (int pass = 0; pass < 2; pass++) {
      cplx *x = pass ? z : h;
      int64_t rows = pass ? n : (k + 2 < i ? k + 2 : i) + 1;
      for (int64_t r = 0; r < rows; r++) {
        cplx sum = t1 * x[r * n + k] + t2 * x[r * n + k + 1];
        x[r * n + k] -= sum;
        x[r * n + k + 1] -= sum * conj(v2);
      }
    }
    if (k == m && m > l) { /* the subdiagonal element before the step's first row turns */
      cplx f = 1 - t1;
      h[m * n + m - 1] *= conj(f);
    }
  }
  for (int64_t k = m > 0 ? m : 1; k <= i; k++)
    make_real(h, z, n, k);
}

static int complex_schur(const call_ctx *cx, cplx *h, cplx *z, int64_t n)
{
  const int64_t most = 30 * (n > 10 ? n : 10);
  for (int64_t p = 1; p < n; p++)
    make_real(h, z, n, p);
  for (int64_t i = n - 1; i >= 0;) {
    int64_t l = 0, its = 0;
    for (int tries = 1; its <= most; its++, tries++) {
      l = block_start(h, n, i);
      if (l >= i || call_over(cx))
        break;
      complex_step(h, z, n, l, i, tries);
    }
    if (its > most)
      return (int)i + 1;
    i = l - 1;
  }
  return 0;
}

/* -- Eigenvectors ------------------------------------------------------------------------------ */

/* Compute column j of v: z times the solution of (t - t[j][j]) x = 0 with x[j] = 1, of length 1,
 * its largest element real. */
static void eigenvector(const cplx *t, const cplx *z, int64_t n, int64_t j, cplx *v, cplx *x)
{
  double norm = 0, most = -1,
         floor_size = fmax(ULP * size1(t[j * n + j]), SMALLEST * ((double)n / ULP));
  cplx at = 1;
  for (int64_t r = j; r-- > 0;) {
    cplx sum = -t[r * n + j], d = t[r * n + r] - t[j * n + j];
    for (int64_t c = r + 1; c < j; c++)
      sum -= t[r * n + c] * x[c];
    x[r] = sum / (size1(d) < floor_size ? floor_size : d);
  }
  x[j] = 1;
  for (int64_t r = 0; r < n; r++) {
    cplx sum = 0;
    for (int64_t c = 0; c <= j; c++)
      sum += z[r * n + c] * x[c];
    v[r * n + j] = sum;
    norm += size2(sum);
  }
  norm = sqrt(norm);
  for (int64_t r = 0; r < n; r++) {
    v[r * n + j] /= norm;
    if (size2(v[r * n + j]) > most)
      most = size2(v[r * n + j]), at = v[r * n + j];
  }
  if (cimag(at) == 0)
    return;
  for (int64_t r = 0; r < n; r++)
    v[r * n + j] = v[r * n + j] == at ? cabs(at) : v[r * n + j] * (conj(at) / cabs(at));
}

static void write_vectors(const call_ctx *cx, const cplx *t, const cplx *z, int64_t n, cplx *w,
                          cplx *v, cplx *x)
{
  for (int64_t i = 0; i < n; i++)
    w[i] = t[i * n + i];
  for (int64_t j = 0; j < n && v && !call_over(cx); j++)
    eigenvector(t, z, n, j, v, x);
}

int linalg_eig_real(const call_ctx *cx, double *a, int64_t n, double *w, double *v, double *work)
{
  cplx *h = (cplx *)work, *z = h + n * n, *vectors = (cplx *)v;
  for (int64_t i = 0; i < n * n; i++)
    h[i] = a[i];
  to_hessenberg(cx, h, z, n);
  int failed = real_schur(cx, h, z, n);
  complete_schur(h, z, n);
  write_vectors(cx, h, z, n, (cplx *)w, vectors, z + n * n);
  for (int64_t j = 0; v && j + 1 < n; j++) /* of a pair, the second is the first's conjugate */
    if (cimag(h[j * n + j]) > 0) {
      for (int64_t r = 0; r < n; r++)
        vectors[r * n + j + 1] = conj(vectors[r * n + j]);
      j++;
    }
  return failed;
}

int linalg_eig_complex(const call_ctx *cx, double *a, int64_t n, double *w, double *v, double *work)
{
  cplx *h = (cplx *)work, *z = h + n * n;
  memcpy(h, a, (size_t)(n * n) * sizeof *h);
  to_hessenberg(cx, h, z, n);
  int failed = complex_schur(cx, h, z, n);
  write_vectors(cx, h, z, n, (cplx *)w, (cplx *)v, z + n * n);
  return failed;
}
