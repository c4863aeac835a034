/* ops/kernels/linalg/linalg_factor.c -- QR, eigenvalues, singular values, the matrix exponential
 * and L D L': batches (linalg_batch.h) around ops/math/linalg.h. Each operator copies its argument
 * into a dense batch in double or complex double, runs the algorithm on one matrix after the other,
 * and rounds the results. Cost: O(n^3) per matrix, and one copy in double. */
#include "ops/kernels/linalg/linalg_batch.h"

/* True if result i has matrices: a result that was not requested is an empty vector. */
static bool has_matrices(const rush_call *c, uint32_t i)
{
  return i < c->n_results && call_out(c, i)->n_dims > 1;
}

/* -- QR ---------------------------------------------------------------------------------------- */

static rush_status qr_op(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  const rush_tensor *out = call_out(c, 1);
  const int64_t m = l.rows, n = l.cols, k = out->sizes[out->n_dims - 2];
  void *q = has_matrices(c, 0) ? linalg_result(&l, 0) : NULL, *r = linalg_result(&l, 1),
       *tau = linalg_work(&l, l.k);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    void *a = linalg_matrix(&l, i);
    l.kind->qr_factor(c->cx, a, m, n, tau);
    l.kind->upper_part(a, n, linalg_at(&l, r, i * k * n), k);
    if (q)
      l.kind->qr_expand(c->cx, a, m, n, tau, l.k, linalg_at(&l, q, i * m * k), k);
  }
  return linalg_close(&l, false);
}
rush_status kernel_linalg_qr(rush_call *c) { return qr_op(c); }
rush_status kernel_qr(rush_call *c) { return qr_op(c); }

rush_status kernel_geqrf(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  void *tau = linalg_result(&l, 1);
  linalg_result_a(&l, 0);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++)
    l.kind->qr_factor(c->cx, linalg_matrix(&l, i), l.rows, l.cols, linalg_at(&l, tau, i * l.k));
  return linalg_close(&l, false);
}

/* -- Eigenvalues ------------------------------------------------------------------------------- */

/* linalg_eigh(A, UPLO) -> (w, v); linalg_eigvalsh(A, UPLO) -> w; _linalg_eigh(A, UPLO, compute_v).
 * Only the triangle that UPLO names is read. */
rush_status kernel_linalg_eigh(rush_call *c)
{
  const bool upper = (call_str(c, 1).p[0] | 32) == 'u';
  linalg l = linalg_open(c, 0);
  const int64_t n = l.rows;
  double *w = linalg_result(&l, 0);
  void *v = has_matrices(c, 1) ? linalg_result(&l, 1) : NULL, *spare = linalg_work(&l, n * n);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    l.kind->mirror(linalg_matrix(&l, i), n, upper);
    l.kind->hermitian_eig(c->cx, linalg_matrix(&l, i), n, w + i * n,
                          v ? linalg_at(&l, v, i * n * n) : spare);
  }
  return linalg_close(&l, false);
}

static rush_status check_finite(rush_call *c, const rush_tensor *a)
{
  const double *x = a->data;
  const int64_t n = a->n_elems * (dtype_is_complex(a->dtype) ? 2 : 1);
  for (int64_t i = 0; i < n; i++)
    if (!(x[i] - x[i] == 0))
      return call_fail(c->cx, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  return RUSH_OK;
}

/* linalg_eig(A) -> (w, v), linalg_eigvals(A) -> w: always complex. */
rush_status kernel_linalg_eig(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  const int64_t n = l.rows;
  double *w = linalg_result(&l, 0), *v = c->n_results > 1 ? linalg_result(&l, 1) : NULL,
         *work = linalg_work(&l, 2 * (2 * n * n + n));
  if (l.st == RUSH_OK)
    l.st = check_finite(c, l.a);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    const int32_t failed =
      (l.kind == &linalg_complex ? linalg_eig_complex : linalg_eig_real)(
        c->cx, linalg_matrix(&l, i), n, w + 2 * i * n, v ? v + 2 * i * n * n : NULL, work);
    l.st = call_poll(c->cx);
    if (l.st == RUSH_OK)
      l.st = linalg_check_info(c->cx, "torch.linalg.eig", &failed, 1, false);
  }
  return linalg_close(&l, false);
}

/* -- Singular values --------------------------------------------------------------------------- */

/* Set to (n x k) to the conjugate transpose of from (k x n). */
static void adjoint(const linalg *l, const double *from, int64_t k, int64_t n, double *to)
{
  const int64_t parts = l->kind == &linalg_complex ? 2 : 1;
  for (int64_t r = 0; r < k; r++)
    for (int64_t j = 0; j < n; j++) {
      double *x = to + (j * k + r) * parts;
      x[0] = from[(r * n + j) * parts];
      if (parts == 2)
        x[1] = -from[(r * n + j) * parts + 1];
    }
}

/* Results: U, S, Vh (or V), or only S. */
static rush_status svd_op(rush_call *c, bool full, bool want_v, bool vectors)
{
  linalg l = linalg_open(c, 0);
  const int64_t m = l.rows, n = l.cols, k = l.k, ku = full ? m : k, kv = full ? n : k,
                work_len = m * n + k * k + n * kv;
  double *s = linalg_result(&l, c->n_results > 1);
  void *u = vectors ? linalg_result(&l, 0) : NULL, *v = vectors ? linalg_result(&l, 2) : NULL,
       *work = linalg_work(&l, work_len + m * ku + kv * n);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++) {
    void *spare = linalg_at(&l, work, work_len), *spare_v = linalg_at(&l, spare, m * ku),
         *to = vectors ? linalg_at(&l, v, i * kv * n) : spare_v, *vh = want_v ? spare_v : to;
    l.kind->svd(c->cx, linalg_matrix(&l, i), m, n,
                vectors ? linalg_at(&l, u, i * m * ku) : spare, ku, s + i * k, vh, kv, work);
    if (want_v)
      adjoint(&l, vh, kv, n, to);
  }
  return linalg_close(&l, false);
}
rush_status kernel_linalg_svd(rush_call *c)
{
  return svd_op(c, call_bool(c, 1), false, has_matrices(c, 0));
}
rush_status kernel_linalg_svdvals(rush_call *c) { return svd_op(c, false, false, false); }
/* Implement svd(self, some, compute_uv): results that are not computed are 0. */
rush_status kernel_svd(rush_call *c)
{
  if (call_bool(c, 2))
    return svd_op(c, !call_bool(c, 1), true, true);
  TRY(tensor_fill(c->cx, call_out(c, 0), value_int(0)));
  TRY(tensor_fill(c->cx, call_out(c, 2), value_int(0)));
  return svd_op(c, false, false, false);
}

/* -- Matrix exponential ------------------------------------------------------------------------ */

rush_status kernel_matrix_exp(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  void *work = linalg_work(&l, 3 * l.rows * l.rows);
  linalg_result_a(&l, 0);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++)
    l.kind->expm(c->cx, linalg_matrix(&l, i), l.rows, work);
  return linalg_close(&l, false);
}

/* -- L D L' ------------------------------------------------------------------------------------ */

/* linalg_ldl_factor(A, hermitian) -> (LD, pivots); _ex(A, hermitian, check_errors) -> (LD, pivots,
 * info). */
rush_status kernel_ldl_factor(rush_call *c)
{
  linalg l = linalg_open(c, 0);
  const bool hermitian = call_bool(c, 1) && l.kind == &linalg_complex;
  linalg_result_a(&l, 0);
  linalg_pivots_at(&l, 1);
  linalg_info_at(&l, 2);
  for (int64_t i = 0; linalg_next(&l, i, l.count); i++)
    l.info[i] = l.kind->ldl_factor(c->cx, linalg_matrix(&l, i), l.rows, hermitian,
                                   l.pivots + i * l.rows);
  return linalg_close(&l, c->n_results == 2 || call_bool(c, 2));
}

/* Read the pivots from argument `arg`. */
static void read_pivots(linalg *l, uint32_t arg)
{
  const rush_tensor *given = call_tensor(l->c, arg);
  tensor_release(l->ints);
  l->ints = NULL;
  if (l->st == RUSH_OK)
    l->st = tensor_new(l->c->cx, RUSH_INT32, given->n_dims, given->sizes, &l->ints);
  if (l->st == RUSH_OK)
    l->st = tensor_copy(l->c->cx, l->ints, given);
  if (l->st == RUSH_OK)
    l->pivots = l->ints->data;
}

/* linalg_ldl_solve(LD, pivots, B, hermitian) */
rush_status kernel_ldl_solve(rush_call *c)
{
  const rush_tensor *b = call_tensor(c, 2);
  linalg l = linalg_open(c, 0);
  const bool hermitian = call_bool(c, 3) && l.kind == &linalg_complex;
  const int64_t n = l.rows, k = b->sizes[b->n_dims - 1];
  void *x = linalg_result_of(&l, 0, 2);
  read_pivots(&l, 1);
  for (int64_t i = 0; linalg_next(&l, i, l.count * n); i++)
    if (l.pivots[i] == 0 || l.pivots[i] > n || l.pivots[i] < -n)
      l.st = call_fail(c->cx, "torch.linalg.ldl_solve: a pivot is out of range");
  for (int64_t i = 0; linalg_next(&l, i, linalg_n_solutions(&l, k)); i++) {
    const int64_t at = linalg_beside(&l, 0, 2, 2, i);
    l.kind->ldl_solve(c->cx, linalg_matrix(&l, at), l.pivots + at * n, n, hermitian,
                      linalg_at(&l, x, i * n * k), k);
  }
  return linalg_close(&l, false);
}
