/* ops/kernels/linalg/linalg_factor.c -- QR, eigenvalues, singular values, the matrix exponential
 * and L D L': batches around ops/math/linalg.h, with the helpers of linalg_ops.c. Each operator
 * copies its argument into a dense batch in double or complex double, runs the algorithm on one
 * matrix after the other, and converts the results back. Cost: O(n^3) per matrix, and one copy in
 * double. */
#include "ops/kernels/linalg/linalg_batch.h"
#include "ops/kernels/views.h"
#include "tensor/iter.h"

/* -- QR ---------------------------------------------------------------------------------------- */

static rush_status qr_op(rush_call *c, bool complete, bool want_q)
{
  rush_tensor *q = NULL, *r = NULL;
  void *tau = NULL;
  batch a = {0};
  TRY(batch_of(c, 0, false, &a));
  int64_t k_min = i64_min(a.rows, a.cols), k = complete ? a.rows : k_min;
  rush_status st = want_q ? batch_new(c, &a, 2, a.rows, k, a.kind->dtype, &q)
                          : tensor_new(c->cx, a.kind->dtype, 1, &(int64_t){0}, &q);

  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, k, a.cols, a.kind->dtype, &r);
  if (st == RUSH_OK && !(tau = scratch(c, &a, k_min)))
    st = call_nomem(c->cx);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    a.kind->qr_factor(c->cx, matrix(&a, i), a.rows, a.cols, tau);
    a.kind->upper_part(matrix(&a, i), a.cols, matrix_at(r, i, k * a.cols), k);
    if (want_q)
      a.kind->qr_expand(c->cx, matrix(&a, i), a.rows, a.cols, tau, k_min,
                        matrix_at(q, i, a.rows * k), k);
    st = call_poll(c->cx);
  }
  scratch_free(c, &a, tau, k_min);
  if (st == RUSH_OK)
    st = give_columns(c, 0, tensor_retain(q), a.dtype);
  if (st == RUSH_OK)
    st = give_columns(c, 1, tensor_retain(r), a.dtype);
  tensor_release(q);
  tensor_release(r);
  tensor_release(a.t);
  return st;
}

rush_status kernel_linalg_qr(rush_call *c)
{
  str mode = call_str(c, 1);

  if (!str_is(mode, "reduced") && !str_is(mode, "complete") && !str_is(mode, "r"))
    return call_fail(c->cx,
                     "qr received unrecognized mode '%.*s' but expected one of 'reduced' "
                     "(default), 'r', or 'complete'",
                     (int)mode.len, mode.p);
  return qr_op(c, str_is(mode, "complete"), !str_is(mode, "r"));
}
rush_status kernel_qr(rush_call *c) { return qr_op(c, !call_bool(c, 1), true); }

rush_status kernel_geqrf(rush_call *c)
{
  rush_tensor *tau = NULL;
  batch a = {0};
  TRY(batch_of(c, 0, false, &a));
  int64_t k = i64_min(a.rows, a.cols);
  rush_status st = batch_new(c, &a, 1, k, 0, a.kind->dtype, &tau);

  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    a.kind->qr_factor(c->cx, matrix(&a, i), a.rows, a.cols, matrix_at(tau, i, k));
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK)
    st = give_columns(c, 0, tensor_retain(a.t), a.dtype);
  if (st == RUSH_OK)
    st = give(c, 1, tensor_retain(tau), a.dtype);
  tensor_release(tau);
  tensor_release(a.t);
  return st;
}

/* -- Eigenvalues ------------------------------------------------------------------------------- */

/* linalg_eigh(A, UPLO) -> (w, v); linalg_eigvalsh(A, UPLO) -> w; _linalg_eigh(A, UPLO, compute_v).
 * Only the triangle that UPLO names is read. */
rush_status kernel_linalg_eigh(rush_call *c)
{
  rush_tensor *w = NULL, *v = NULL;
  str uplo = call_str(c, 1);
  batch a = {0};
  if (uplo.len != 1 || !strchr("UuLl", uplo.p[0]))
    return call_fail(c->cx, "Expected UPLO argument to be 'L' or 'U', but got %.*s", (int)uplo.len,
                     uplo.p);
  rush_status st = batch_of(c, 0, true, &a);

  if (st == RUSH_OK)
    st = batch_new(c, &a, 1, a.rows, 0, RUSH_FLOAT64, &w);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, a.rows, a.rows, a.kind->dtype, &v);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    a.kind->mirror(matrix(&a, i), a.rows, uplo.p[0] == 'U' || uplo.p[0] == 'u');
    a.kind->hermitian_eig(c->cx, matrix(&a, i), a.rows, (double *)w->data + i * a.rows,
                          matrix_at(v, i, a.rows * a.rows));
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK)
    st = give(c, 0, tensor_retain(w), a.real);
  if (st == RUSH_OK && c->n_results > 1)
    st = give_columns(c, 1, tensor_retain(v), a.dtype);
  tensor_release(w);
  tensor_release(v);
  tensor_release(a.t);
  return st;
}

static rush_status check_finite(rush_call *c, const batch *a)
{
  const double *x = a->t->data;
  int64_t n = a->t->n_elems * (a->kind == &linalg_complex ? 2 : 1);
  for (int64_t i = 0; i < n; i++)
    if (!(x[i] - x[i] == 0))
      return call_fail(c->cx, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  return RUSH_OK;
}

static rush_status eig_all(rush_call *c, const batch *a, rush_tensor *w, rush_tensor *v)
{
  const int64_t n = a->rows, len = 2 * (2 * n * n + n);
  const bool complex = a->kind == &linalg_complex;
  double *work = mem_alloc(c->cx->ctx, (size_t)(len + 1) * sizeof *work);
  rush_status st = work ? RUSH_OK : call_nomem(c->cx);

  for (int64_t i = 0; st == RUSH_OK && i < a->count; i++) {
    double *values = (double *)w->data + 2 * i * n,
           *vectors = v ? (double *)v->data + 2 * i * n * n : NULL;
    int32_t failed = (complex ? linalg_eig_complex : linalg_eig_real)(c->cx, matrix(a, i), n,
                                                                      values, vectors, work);
    st = call_poll(c->cx);
    if (st == RUSH_OK)
      st = linalg_check_info(c->cx, "torch.linalg.eig", &failed, 1, false);
  }
  if (work)
    mem_free(c->cx->ctx, work, (size_t)(len + 1) * sizeof *work);
  return st;
}

/* linalg_eig(A) -> (w, v), linalg_eigvals(A) -> w: always complex. */
rush_status kernel_linalg_eig(rush_call *c)
{
  rush_tensor *w = NULL, *v = NULL;
  batch a = {0};
  rush_status st = batch_of(c, 0, true, &a);

  if (st == RUSH_OK)
    st = check_finite(c, &a);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 1, a.rows, 0, RUSH_COMPLEX128, &w);
  if (st == RUSH_OK && c->n_results > 1)
    st = batch_new(c, &a, 2, a.rows, a.rows, RUSH_COMPLEX128, &v);
  if (st == RUSH_OK)
    st = eig_all(c, &a, w, v);
  if (st == RUSH_OK)
    st = give(c, 0, tensor_retain(w), dtype_to_complex(a.real));
  if (st == RUSH_OK && v)
    st = give_columns(c, 1, tensor_retain(v), dtype_to_complex(a.real));
  tensor_release(w);
  tensor_release(v);
  tensor_release(a.t);
  return st;
}

/* -- Singular values --------------------------------------------------------------------------- */

/* Return result 2: Vh, or V for torch.svd. */
static rush_status give_v(rush_call *c, const batch *a, rush_tensor *vh, bool want_v)
{
  rush_value args[1], v;
  if (!want_v)
    return give_columns(c, 2, tensor_retain(vh), a->dtype);
  args[0] = (rush_value){.tag = RUSH_TAG_TENSOR, .as.tensor = vh};
  TRY(op_invoke_name(c->cx, "aten::mH", "", args, 1, &v));
  rush_tensor *dense = NULL;
  rush_status st = tensor_contiguous(c->cx, v.as.tensor, &dense);
  value_release(v);
  return st == RUSH_OK ? give(c, 2, dense, a->dtype) : st;
}

/* Results: U, S, Vh (or V), or only S. */
static rush_status svd_op(rush_call *c, bool full, bool only_values, bool want_v)
{
  rush_tensor *u = NULL, *s = NULL, *vh = NULL;
  batch a = {0};
  TRY(batch_of(c, 0, false, &a));
  int64_t m = a.rows, n = a.cols, k = i64_min(m, n), ku = full ? m : k, kv = full ? n : k,
          work_len = m * n + k * k + n * kv;
  void *work = scratch(c, &a, work_len);
  rush_status st = work ? batch_new(c, &a, 2, m, ku, a.kind->dtype, &u) : call_nomem(c->cx);

  if (st == RUSH_OK)
    st = batch_new(c, &a, 1, k, 0, RUSH_FLOAT64, &s);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, kv, n, a.kind->dtype, &vh);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    a.kind->svd(c->cx, matrix(&a, i), m, n, matrix_at(u, i, m * ku), ku, (double *)s->data + i * k,
                matrix_at(vh, i, kv * n), kv, work);
    st = call_poll(c->cx);
  }
  scratch_free(c, &a, work, work_len);
  if (st == RUSH_OK)
    st = give(c, only_values ? 0 : 1, tensor_retain(s), a.real);
  if (st == RUSH_OK && !only_values)
    st = give_columns(c, 0, tensor_retain(u), a.dtype);
  if (st == RUSH_OK && !only_values)
    st = give_v(c, &a, vh, want_v);
  tensor_release(u);
  tensor_release(s);
  tensor_release(vh);
  tensor_release(a.t);
  return st;
}
rush_status kernel_linalg_svd(rush_call *c) { return svd_op(c, call_bool(c, 1), false, false); }
rush_status kernel_linalg_svdvals(rush_call *c) { return svd_op(c, false, true, false); }
rush_status kernel_svd(rush_call *c) { return svd_op(c, !call_bool(c, 1), false, true); }

/* -- Matrix exponential ------------------------------------------------------------------------ */

rush_status kernel_matrix_exp(rush_call *c)
{
  batch a = {0};
  TRY(batch_of(c, 0, true, &a));
  int64_t work_len = 3 * a.rows * a.rows;
  void *work = scratch(c, &a, work_len);
  rush_status st = work ? RUSH_OK : call_nomem(c->cx);

  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    a.kind->expm(c->cx, matrix(&a, i), a.rows, work);
    st = call_poll(c->cx);
  }
  scratch_free(c, &a, work, work_len);
  if (st == RUSH_OK) {
    st = give(c, 0, a.t, a.dtype);
    a.t = NULL;
  }
  tensor_release(a.t);
  return st;
}

/* -- L D L' ------------------------------------------------------------------------------------ */

/* linalg_ldl_factor(A, hermitian) -> (LD, pivots); _ex(A, hermitian, check_errors) -> (LD, pivots,
 * info). */
rush_status kernel_ldl_factor(rush_call *c)
{
  rush_tensor *pivots = NULL, *info = NULL;
  bool ex = c->n_results > 2;
  batch a = {0};
  rush_status st = batch_of(c, 0, true, &a);

  if (st == RUSH_OK)
    st = batch_new(c, &a, 1, a.rows, 0, RUSH_INT32, &pivots);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 0, 0, 0, RUSH_INT32, &info);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    bool hermitian = call_bool(c, 1) && a.kind == &linalg_complex;
    ((int32_t *)info->data)[i] = a.kind->ldl_factor(c->cx, matrix(&a, i), a.rows, hermitian,
                                                    (int32_t *)pivots->data + i * a.rows);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK && (!ex || call_bool(c, 2)))
    st = linalg_check_info(c->cx, ex ? "torch.linalg.ldl_factor_ex" : "torch.linalg.ldl_factor",
                           info->data, a.count, a.n_batch_dims > 0);
  if (st == RUSH_OK)
    st = give_columns(c, 0, tensor_retain(a.t), a.dtype);
  if (st == RUSH_OK)
    call_return_steal(c, 1, tensor_retain(pivots));
  if (st == RUSH_OK && ex)
    call_return_steal(c, 2, tensor_retain(info));
  tensor_release(pivots);
  tensor_release(info);
  tensor_release(a.t);
  return st;
}

/* linalg_ldl_solve(LD, pivots, B, hermitian) */
rush_status kernel_ldl_solve(rush_call *c)
{
  rush_tensor *ld = call_tensor(c, 0), *pivots = call_tensor(c, 1), *b = call_tensor(c, 2),
              *wide = NULL, *dense = NULL;
  int64_t sizes[TENSOR_MAX_DIMS];
  batch a = {0}, x = {0};
  int n;

  TRY(check_matrix(c, ld, true));
  if (b->n_dims < 2 || b->dtype != ld->dtype ||
      b->sizes[b->n_dims - 2] != ld->sizes[ld->n_dims - 1] ||
      !sizes_broadcast(ld->n_dims - 2, ld->sizes, b->n_dims - 2, b->sizes, &n, sizes))
    return call_fail(c->cx, "torch.linalg.ldl_solve: Incompatible shapes or dtypes of LD and B");
  if (pivots->dtype != RUSH_INT32 || pivots->n_dims != ld->n_dims - 1 ||
      pivots->sizes[pivots->n_dims - 1] != ld->sizes[ld->n_dims - 1])
    return call_fail(c->cx, "torch.linalg.ldl_solve: Expected pivots to be int32, of LD's shape "
                            "without the last dimension");
  rush_status st = batch_copy(c, ld, n, sizes, &a);
  if (st == RUSH_OK)
    st = batch_copy(c, b, n, sizes, &x);
  sizes[n] = a.rows;
  if (st == RUSH_OK)
    st = tensor_expand(c->cx, pivots, n + 1, sizes, &wide);
  if (st == RUSH_OK)
    st = tensor_contiguous(c->cx, wide, &dense);
  for (int64_t i = 0; st == RUSH_OK && i < dense->n_elems; i++) {
    int32_t p = ((int32_t *)dense->data)[i];
    if (p == 0 || p > a.rows || p < -a.rows)
      st = call_fail(c->cx, "torch.linalg.ldl_solve: a pivot is out of range");
  }
  for (int64_t i = 0; st == RUSH_OK && i < x.count; i++) {
    a.kind->ldl_solve(c->cx, matrix(&a, i), (int32_t *)dense->data + i * a.rows, a.rows,
                      call_bool(c, 3) && a.kind == &linalg_complex, matrix(&x, i), x.cols);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK)
    st = give_columns(c, 0, tensor_retain(x.t), x.dtype);
  tensor_release(wide);
  tensor_release(dense);
  tensor_release(a.t);
  tensor_release(x.t);
  return st;
}
