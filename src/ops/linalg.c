#include "ops/linalg.h"

#include <math.h>
#include <string.h>

/* Multiplications between two looks at the clock.  A function that breaks off leaves its results unfinished. */
#define WORK (1 << 18)

/* n more were done: is the call over? */
static inline bool over(const call_ctx *cx, int64_t *work, int64_t n)
{
  if ((*work += n) < WORK)
    return false;
  *work = 0;
  return call_over(cx);
}

/* -- LU ------------------------------------------------------------------------------------------------ */

static void swap_rows(double *a, int64_t n, int64_t i, int64_t j)
{
  for (int64_t k = 0; k < n; k++) {
    double t = a[i * n + k];
    a[i * n + k] = a[j * n + k];
    a[j * n + k] = t;
  }
}

int lu_factor(const call_ctx *cx, double *a, int64_t m, int64_t n, int32_t *pivots, int *sign)
{
  int64_t steps = m < n ? m : n, work = 0;
  int info = 0;

  *sign = 1;
  for (int64_t c = 0; c < steps; c++) {
    int64_t best = c;
    for (int64_t i = c + 1; i < m; i++)
      if (fabs(a[i * n + c]) > fabs(a[best * n + c]))
        best = i;
    pivots[c] = (int32_t)best + 1;
    if (best != c) {
      swap_rows(a, n, c, best);
      *sign = -*sign;
    }
    double pivot = a[c * n + c];
    if (pivot == 0) {
      info = info ? info : (int)c + 1;
      continue;
    }
    for (int64_t i = c + 1; i < m; i++) {
      if (over(cx, &work, n - c))
        return info;
      double f = a[i * n + c] /= pivot;
      if (f != 0)
        for (int64_t k = c + 1; k < n; k++)
          a[i * n + k] -= f * a[c * n + k];
    }
  }
  return info;
}

void lu_solve(const call_ctx *cx, const double *lu, const int32_t *pivots, int64_t n, double *b, int64_t k)
{
  for (int64_t i = 0; i < n; i++)
    if (pivots[i] - 1 != i)
      swap_rows(b, k, i, pivots[i] - 1);
  tri_solve(cx, lu, n, false, false, true, b, k);
  tri_solve(cx, lu, n, true, false, false, b, k);
}

void tri_solve(const call_ctx *cx, const double *t, int64_t n, bool upper, bool transpose, bool unit, double *b, int64_t k)
{
  bool forward = upper == transpose;
  int64_t work = 0;

  for (int64_t step = 0; step < n; step++) {
    int64_t i = forward ? step : n - 1 - step;
    for (int64_t before = 0; before < step; before++) {
      int64_t j = forward ? before : n - 1 - before;
      if (over(cx, &work, k))
        return;
      double f = transpose ? t[j * n + i] : t[i * n + j];
      if (f != 0)
        for (int64_t c = 0; c < k; c++)
          b[i * k + c] -= f * b[j * k + c];
    }
    if (!unit)
      for (int64_t c = 0; c < k; c++)
        b[i * k + c] /= t[i * n + i];
  }
}

int cholesky_factor(const call_ctx *cx, double *a, int64_t n)
{
  int64_t work = 0;
  for (int64_t j = 0; j < n; j++) {
    double d = a[j * n + j];
    for (int64_t k = 0; k < j; k++)
      d -= a[j * n + k] * a[j * n + k];
    if (!(d > 0))
      return (int)j + 1;
    double root = a[j * n + j] = sqrt(d);
    for (int64_t i = j + 1; i < n; i++) {
      double v = a[i * n + j];
      if (over(cx, &work, j))
        return 0;
      for (int64_t k = 0; k < j; k++)
        v -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = v / root;
    }
    for (int64_t i = 0; i < j; i++)
      a[i * n + j] = 0;
  }
  return 0;
}

/* -- QR by Householder reflections, signs as LAPACK's geqrf ---------------------------------------------- */

/* Apply I - tau v v' to columns [from, n) of a (m x n); v is 1 at `row`, vs[i * v_stride] below it. */
static void reflect(const call_ctx *cx, double *a, int64_t m, int64_t n, int64_t row, int64_t from, double tau, const double *vs,
                    int64_t v_stride)
{
  int64_t work = 0;
  for (int64_t c = from; c < n && tau != 0 && !over(cx, &work, 2 * m); c++) {
    double dot = a[row * n + c];
    for (int64_t i = row + 1; i < m; i++)
      dot += vs[i * v_stride] * a[i * n + c];
    dot *= tau;
    a[row * n + c] -= dot;
    for (int64_t i = row + 1; i < m; i++)
      a[i * n + c] -= dot * vs[i * v_stride];
  }
}

void qr_factor(const call_ctx *cx, double *a, int64_t m, int64_t n, double *tau, double *q, int64_t k_q, double *r)
{
  int64_t steps = m < n ? m : n, work = 0;

  for (int64_t c = 0; c < steps; c++) {
    double below = 0, alpha = a[c * n + c];
    for (int64_t i = c + 1; i < m; i++)
      below += a[i * n + c] * a[i * n + c];
    tau[c] = 0;
    if (below != 0) {
      double beta = -copysign(sqrt(alpha * alpha + below), alpha);
      tau[c] = (beta - alpha) / beta;
      for (int64_t i = c + 1; i < m; i++)
        a[i * n + c] /= alpha - beta;
      a[c * n + c] = beta;
    }
    reflect(cx, a, m, n, c, c + 1, tau[c], a + c, n);
    if (over(cx, &work, m * n / 2))
      return;
  }
  for (int64_t i = 0; i < k_q; i++)
    for (int64_t j = 0; j < n; j++)
      r[i * n + j] = j >= i ? a[i * n + j] : 0;
  if (!q)
    return;
  memset(q, 0, (size_t)(m * k_q) * sizeof *q);
  for (int64_t i = 0; i < k_q && i < m; i++)
    q[i * k_q + i] = 1;
  for (int64_t c = steps; c-- > 0 && !over(cx, &work, m * k_q);)
    reflect(cx, q, m, k_q, c, 0, tau[c], a + c, n);
}

/* -- Eigenvalues of symmetric matrices: cyclic Jacobi ------------------------------------------------------ */

#define MAX_SWEEPS 60

static void rotate_symmetric(double *a, double *v, int64_t n, int64_t p, int64_t q)
{
  double apq = a[p * n + q];
  double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
  double t = copysign(1.0, theta) / (fabs(theta) + sqrt(theta * theta + 1));
  double c = 1 / sqrt(t * t + 1), s = t * c;

  for (int64_t k = 0; k < n; k++) {
    double x = a[k * n + p], y = a[k * n + q];
    a[k * n + p] = c * x - s * y;
    a[k * n + q] = s * x + c * y;
  }
  for (int64_t k = 0; k < n; k++) {
    double x = a[p * n + k], y = a[q * n + k];
    a[p * n + k] = c * x - s * y;
    a[q * n + k] = s * x + c * y;
  }
  for (int64_t k = 0; k < n; k++) {
    double x = v[k * n + p], y = v[k * n + q];
    v[k * n + p] = c * x - s * y;
    v[k * n + q] = s * x + c * y;
  }
}

static void sort_columns(double *w, double *u, int64_t u_rows, double *v, int64_t v_rows, int64_t n, bool ascending)
{
  for (int64_t i = 0; i < n; i++) {
    int64_t best = i;
    for (int64_t j = i + 1; j < n; j++)
      if (ascending ? w[j] < w[best] : w[j] > w[best])
        best = j;
    if (best == i)
      continue;
    double t = w[i];
    w[i] = w[best];
    w[best] = t;
    for (int64_t k = 0; u && k < u_rows; k++) {
      t = u[k * n + i];
      u[k * n + i] = u[k * n + best];
      u[k * n + best] = t;
    }
    for (int64_t k = 0; v && k < v_rows; k++) {
      t = v[k * n + i];
      v[k * n + i] = v[k * n + best];
      v[k * n + best] = t;
    }
  }
}

void sym_eig(const call_ctx *cx, double *a, int64_t n, double *w, double *v)
{
  int64_t work = 0;
  memset(v, 0, (size_t)(n * n) * sizeof *v);
  for (int64_t i = 0; i < n; i++)
    v[i * n + i] = 1;
  for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    double off = 0, diag = 0;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++)
        *(i == j ? &diag : &off) += a[i * n + j] * a[i * n + j];
    if (!(off > 1e-32 * diag))
      break;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        if (over(cx, &work, 6 * n))
          return;
        if (a[p * n + q] != 0)
          rotate_symmetric(a, v, n, p, q);
      }
  }
  for (int64_t i = 0; i < n; i++)
    w[i] = a[i * n + i];
  sort_columns(w, NULL, 0, v, n, n, true);
}

/* -- Singular values: one-sided Jacobi ------------------------------------------------------------------------ */

/* Make columns p and q of a orthogonal; false when they are already. */
static bool orthogonalise(double *a, int64_t m, double *v, int64_t n, int64_t p, int64_t q)
{
  double alpha = 0, beta = 0, gamma = 0;

  for (int64_t k = 0; k < m; k++) {
    double x = a[k * n + p], y = a[k * n + q];
    alpha += x * x;
    beta += y * y;
    gamma += x * y;
  }
  if (!(fabs(gamma) > 1e-15 * sqrt(alpha * beta)))
    return false;
  double zeta = (beta - alpha) / (2 * gamma);
  double t = copysign(1.0, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
  double c = 1 / sqrt(1 + t * t), s = c * t;
  for (int64_t k = 0; k < m; k++) {
    double x = a[k * n + p], y = a[k * n + q];
    a[k * n + p] = c * x - s * y;
    a[k * n + q] = s * x + c * y;
  }
  for (int64_t k = 0; k < n; k++) {
    double x = v[k * n + p], y = v[k * n + q];
    v[k * n + p] = c * x - s * y;
    v[k * n + q] = s * x + c * y;
  }
  return true;
}

void svd_tall(const call_ctx *cx, double *a, int64_t m, int64_t n, double *s, double *v)
{
  int64_t work = 0;
  memset(v, 0, (size_t)(n * n) * sizeof *v);
  for (int64_t i = 0; i < n; i++)
    v[i * n + i] = 1;
  for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    bool moved = false;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        if (over(cx, &work, 4 * m))
          return;
        moved |= orthogonalise(a, m, v, n, p, q);
      }
    if (!moved)
      break;
  }
  for (int64_t j = 0; j < n; j++) {
    double norm = 0;
    for (int64_t k = 0; k < m; k++)
      norm += a[k * n + j] * a[k * n + j];
    s[j] = sqrt(norm);
    for (int64_t k = 0; k < m && s[j] > 0; k++)
      a[k * n + j] /= s[j];
  }
  sort_columns(s, a, m, v, n, n, false);
}

void mat_mul(const call_ctx *cx, const double *a, const double *b, double *c, int64_t m, int64_t k, int64_t n)
{
  int64_t work = 0;
  memset(c, 0, (size_t)(m * n) * sizeof *c);
  for (int64_t i = 0; i < m; i++)
    for (int64_t p = 0; p < k; p++) {
      if (over(cx, &work, n))
        return;
      double f = a[i * k + p];
      for (int64_t j = 0; j < n; j++)
        c[i * n + j] += f * b[p * n + j];
    }
}
