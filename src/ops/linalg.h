/* ops/linalg.h -- dense factorizations of one matrix, in double.
 *
 * Matrices are row-major and dense.  float32 problems are solved in double and rounded once, which is
 * closer to the true answer than LAPACK's float32.  Own code rather than LAPACK: inference meets small
 * matrices, and a BLAS would be the largest part of this library.  Conventions (signs of R, pivots from 1,
 * order of eigenvalues) are LAPACK's.  No allocation, cannot fail; sizes are the caller's. */
#ifndef RUSH_OPS_LINALG_H
#define RUSH_OPS_LINALG_H

#include "base/context.h"

/* P A = L U in place, partial pivoting.  pivots[i] (from 1): the row swapped with row i.  Returns 0, or the
 * number (from 1) of the first zero pivot.  *sign: of the permutation. */
int lu_factor(const call_ctx *cx, double *a, int64_t m, int64_t n, int32_t *pivots, int *sign);
/* B (n x k) := inverse(A) B, from lu_factor's result. */
void lu_solve(const call_ctx *cx, const double *lu, const int32_t *pivots, int64_t n, double *b, int64_t k);
/* A = L L' in place, upper part zeroed; returns 0, or the order (from 1) of the minor that is not positive. */
int cholesky_factor(const call_ctx *cx, double *a, int64_t n);
/* Triangular solve in place: op(T) X = B. */
void tri_solve(const call_ctx *cx, const double *t, int64_t n, bool upper, bool transpose, bool unit, double *b, int64_t k);
/* A (m x n) = Q R; q is m x k_q (k_q = min(m, n) or m), r is k_q x n; `a` is destroyed; tau has min(m, n). */
void qr_factor(const call_ctx *cx, double *a, int64_t m, int64_t n, double *tau, double *q, int64_t k_q, double *r);
/* Symmetric A = V diag(w) V', w ascending; v (n x n) holds eigenvectors in columns; `a` is destroyed. */
void sym_eig(const call_ctx *cx, double *a, int64_t n, double *w, double *v);
/* A (m x n, m >= n) = U diag(s) V'; u overwrites a (m x n), s descending, v is n x n. */
void svd_tall(const call_ctx *cx, double *a, int64_t m, int64_t n, double *s, double *v);
/* C (m x n) = A (m x k) B (k x n). */
void mat_mul(const call_ctx *cx, const double *a, const double *b, double *c, int64_t m, int64_t k, int64_t n);

/* An error that names the first info that is not 0, as PyTorch's operator `name` says it. */
rush_status linalg_check_info(call_ctx *cx, const char *name, const int32_t *info, int64_t n, bool batched) RUSH_CHECKED;

#endif
