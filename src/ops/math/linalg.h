/* ops/math/linalg.h -- dense factorizations of one matrix, in double or complex double.
 *
 * Matrices are row-major and dense.  float32 problems are solved in double and rounded once, which
 * is closer to the exact answer than LAPACK's float32.  Rejected: LAPACK itself, since inference
 * uses small matrices, and a BLAS would be the largest part of this library.  Conventions (signs of
 * R, pivots from 1, order of eigenvalues) are LAPACK's.  No allocation, cannot fail; callers must
 * check sizes.
 *
 * The code is written once, for a kind of number (linalg_num.inc), and called through a table:
 * matrices are void here, their elements linalg_kind.item bytes.  Primes are conjugate
 * transposes. */
#ifndef RUSH_OPS_LINALG_H
#define RUSH_OPS_LINALG_H

#include "base/context.h"
#include "rushlight/rushlight.h"

typedef enum linalg_turn { LINALG_AS_IS, LINALG_TRANSPOSE, LINALG_ADJOINT } linalg_turn;

typedef struct linalg_kind {
  size_t item;
  int dtype;
  void (*transpose)(void *a, int64_t n); /* n x n, in place, not conjugated */
  void (*mirror)(void *a, int64_t n,
                 bool upper); /* the other triangle becomes the conjugate of that one */
  void (*identity)(void *a, int64_t n);
  /* Factor P A = L U in place, with partial pivoting.  pivots[i] (from 1): the row swapped with row
   * i.  Returns 0, or the number (from 1) of the first zero pivot. */
  int (*lu_factor)(const call_ctx *cx, void *a, int64_t m, int64_t n, int32_t *pivots);
  /* Solve B (n x k) := inverse(A) B, from lu_factor's result. */
  void (*lu_solve)(const call_ctx *cx, const void *lu, const int32_t *pivots, int64_t n, void *b,
                   int64_t k);
  /* Compute det, and sign * exp(logabs), from lu_factor's result. */
  void (*determinant)(const void *lu, const int32_t *pivots, int64_t n, void *det, void *sign,
                      double *logabs);
  /* Solve a triangular system in place: turn(T) X = B. */
  void (*tri_solve)(const call_ctx *cx, const void *t, int64_t n, bool upper, linalg_turn turn,
                    bool unit, void *b, int64_t k);
  /* Factor A = L L' in place, upper part zeroed; returns 0, or the order (from 1) of the minor that
   * is not positive. */
  int (*cholesky_factor)(const call_ctx *cx, void *a, int64_t n);
  /* Factor A (m x n) = H(0) H(1) ... R in place: R above, the reflections I - tau v v' below; tau
   * has min(m, n). */
  void (*qr_factor)(const call_ctx *cx, void *a, int64_t m, int64_t n, void *tau);
  /* Expand q (m x k_q) := the first columns of H(0) ... H(k - 1). */
  void (*qr_expand)(const call_ctx *cx, const void *a, int64_t m, int64_t n, const void *tau,
                    int64_t k, void *q, int64_t k_q);
  void (*upper_part)(const void *a, int64_t n, void *r, int64_t rows);
  /* Decompose Hermitian A = V diag(w) V', w ascending; v (n x n) holds eigenvectors in columns; `a`
   * is destroyed. */
  void (*hermitian_eig)(const call_ctx *cx, void *a, int64_t n, double *w, void *v);
  /* Decompose A (m x n) = U diag(s) V': u is m x ku, vh is kv x n (ku, kv: min(m, n) or all); work
   * has m n + min(m, n)^2 + n kv. */
  void (*svd)(const call_ctx *cx, const void *a, int64_t m, int64_t n, void *u, int64_t ku,
              double *s, void *vh, int64_t kv, void *work);
  void (*expm)(const call_ctx *cx, void *a, int64_t n, void *work); /* work has 3 n n */
  /* Factor the lower triangle of a symmetric or Hermitian A := L D L', with LAPACK's pivots
   * (negative: of two rows). */
  int (*ldl_factor)(const call_ctx *cx, void *a, int64_t n, bool hermitian, int32_t *pivots);
  void (*ldl_solve)(const call_ctx *cx, const void *ldl, const int32_t *pivots, int64_t n,
                    bool hermitian, void *b, int64_t k);
} linalg_kind;

extern const linalg_kind linalg_real, linalg_complex;

/* Compute eigenvalues w (n complex numbers, as pairs) of A (n x n), which is destroyed, in LAPACK's
 * order; v: NULL, or n x n complex, eigenvectors of length 1 in columns.  work: 2 n n + n complex
 * numbers. Returns 0, or the number of eigenvalues that were not found. */
int linalg_eig_real(const call_ctx *cx, double *a, int64_t n, double *w, double *v, double *work);
int linalg_eig_complex(const call_ctx *cx, double *a, int64_t n, double *w, double *v,
                       double *work);

/* Fail if some info is not 0, with the message of PyTorch's operator `name` for the first one. */
rush_status linalg_check_info(call_ctx *cx, const char *name, const int32_t *info, int64_t n,
                              bool batched) RUSH_CHECKED;

#endif
