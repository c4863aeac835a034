/* ops/kernels/linalg/linalg_ops.c -- operators that solve and factor: LU (inv, solve, det),
 * Cholesky, triangular systems, and the batch helpers that linalg_factor.c shares. Matrices are
 * copied to dense double (or complex double) and the algorithms of ops/math/linalg.h run on them
 * one by one; there is one precision, so each algorithm exists once per field. Results keep
 * PyTorch's column-major strides (give_columns). Cost: O(n^3) per matrix, and one copy in
 * double. */
#include "ops/kernels/linalg/linalg_batch.h"

#include "ops/kernels/views.h"
#include "tensor/iter.h"

#include <math.h>
#include <stdio.h>

/* -- Batches of matrices in double ------------------------------------------------------------- */

/* True for half precision, which is accepted only if there is nothing to compute. */
static bool is_half(int dtype) { return dtype == RUSH_FLOAT16 || dtype == RUSH_BFLOAT16; }

rush_status check_matrix(rush_call *c, const rush_tensor *t, bool square)
{
  const char *name = strchr(c->op->schema->name, ':') + 2;
  int n = t->n_dims;

  if (t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_FLOAT64 && t->dtype != RUSH_COMPLEX64 &&
      t->dtype != RUSH_COMPLEX128 && !(is_half(t->dtype) && strstr(name, "matrix_exp")) &&
      t->n_elems > 0)
    return call_fail(c->cx, is_half(t->dtype) ? "%s: Low precision dtypes not supported. Got %s"
                            : "%s: Expected a floating point or complex tensor as input. Got %s",
                     name, dtype_aten_name(t->dtype));
  if (n < 2)
    return call_fail(c->cx, "%s: The input tensor A must have at least 2 dimensions.", name);
  if (square && t->sizes[n - 1] != t->sizes[n - 2])
    return call_fail(c->cx,
                     "%s: A must be batches of square matrices, but they are %lld by %lld matrices",
                     name, (long long)t->sizes[n - 2], (long long)t->sizes[n - 1]);
  return RUSH_OK;
}

rush_status batch_copy(rush_call *c, const rush_tensor *t, int n_batch, const int64_t *sizes,
                       batch *out)
{
  int64_t full[TENSOR_MAX_DIMS];
  int n = n_batch + 2;

  for (int i = 0; i < n_batch; i++)
    full[i] = sizes[i];
  full[n - 2] = t->sizes[t->n_dims - 2];
  full[n - 1] = t->sizes[t->n_dims - 1];
  const bool complex = dtype_is_complex(t->dtype);
  *out = (batch){.n_batch_dims = n_batch,
                 .rows = full[n - 2],
                 .cols = full[n - 1],
                 .dtype = t->dtype,
                 .count = 1,
                 .kind = complex ? &linalg_complex : &linalg_real,
                 .real = complex ? dtype_to_real(t->dtype) : t->dtype};
  for (int i = 0; i < n_batch; i++)
    out->count *= full[i];
  TRY(tensor_new(c->cx, out->kind->dtype, n, full, &out->t));
  rush_status st = tensor_copy(c->cx, out->t, t);
  if (st != RUSH_OK) {
    tensor_release(out->t);
    out->t = NULL;
  }
  return st;
}

rush_status batch_of(rush_call *c, uint32_t arg, bool square, batch *out)
{
  const rush_tensor *t = call_tensor(c, arg);

  TRY(check_matrix(c, t, square));
  return batch_copy(c, t, t->n_dims - 2, t->sizes, out);
}

rush_status batch_new(rush_call *c, const batch *like, int n_tail, int64_t a, int64_t b, int dtype,
                             rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n = like->n_batch_dims;

  for (int i = 0; i < n; i++)
    sizes[i] = like->t->sizes[i];
  if (n_tail > 0)
    sizes[n++] = a;
  if (n_tail > 1)
    sizes[n++] = b;
  return tensor_new(c->cx, dtype, n, sizes, out);
}

rush_status give(rush_call *c, uint32_t i, rush_tensor *t, int dtype)
{
  rush_tensor *converted;
  rush_status st = tensor_to_dtype(c->cx, t, dtype, &converted);

  tensor_release(t);
  if (st == RUSH_OK)
    call_return_steal(c, i, converted);
  return st;
}

rush_status give_columns(rush_call *c, uint32_t i, rush_tensor *t, int dtype)
{
  rush_tensor *turned = NULL, *dense = NULL, *made = NULL;
  rush_status st = tensor_transpose(c->cx, t, -2, -1, &turned);

  tensor_release(t);
  if (st == RUSH_OK)
    st = tensor_contiguous(c->cx, turned, &dense);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, dense, dtype, &made);
  if (st == RUSH_OK)
    st = tensor_transpose(c->cx, made, -2, -1, &c->results[i].as.tensor);
  if (st == RUSH_OK)
    c->results[i].tag = RUSH_TAG_TENSOR;
  tensor_release(turned);
  tensor_release(dense);
  tensor_release(made);
  return st;
}

void *scratch(rush_call *c, const batch *b, int64_t n)
{
  return mem_alloc(c->cx->ctx, (size_t)(n + 1) * b->kind->item);
}
void scratch_free(rush_call *c, const batch *b, void *p, int64_t n)
{
  if (p)
    mem_free(c->cx->ctx, p, (size_t)(n + 1) * b->kind->item);
}

/* Return the operator's name in messages. */
static const char *api_name(const rush_call *c)
{
  static const struct { const char *op, *api;
  } rows[] = {
    {"aten::linalg_inv_ex", "linalg.inv_ex"},
    {"aten::linalg_inv", "linalg.inv"},
    {"aten::inverse", "linalg.inv"},
    {"aten::linalg_solve_ex", "linalg.solve_ex"},
    {"aten::linalg_solve", "torch.linalg.solve"},
    {"aten::_linalg_solve_ex", "linalg.solve"},
    {"aten::linalg_cholesky", "linalg.cholesky"},
    {"aten::linalg_cholesky_ex", "linalg.cholesky_ex"},
    {"aten::linalg_lu_factor", "torch.linalg.lu_factor"},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (strcmp(c->op->schema->name, rows[i].op) == 0)
      return rows[i].api;
  return strchr(c->op->schema->name, ':') + 2;
}

/* -- LU: inv, solve, det ----------------------------------------------------------------------- */

typedef struct lu_batch {
  batch a;              /* factored in place */
  rush_tensor *pivots;  /* int32 */
  rush_tensor *info;    /* int32 */
} lu_batch;

static void lu_batch_free(lu_batch *l)
{
  tensor_release(l->a.t);
  tensor_release(l->pivots);
  tensor_release(l->info);
}

static rush_status lu_batch_factor(rush_call *c, lu_batch *l)
{
  int64_t k = i64_min(l->a.rows, l->a.cols);

  TRY(batch_new(c, &l->a, 1, k, 0, RUSH_INT32, &l->pivots));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_INT32, &l->info));
  for (int64_t i = 0; i < l->a.count; i++) {
    ((int32_t *)l->info->data)[i] = l->a.kind->lu_factor(
      c->cx, matrix(&l->a, i), l->a.rows, l->a.cols, (int32_t *)l->pivots->data + i * k);
    TRY(call_poll(c->cx));
  }
  return RUSH_OK;
}

static rush_status check_info(rush_call *c, const lu_batch *l)
{
  return linalg_check_info(c->cx, api_name(c), l->info->data, l->a.count, l->a.n_batch_dims > 0);
}

/* linalg_inv, inverse, linalg_inv_ex: results inverse[, info]. */
rush_status kernel_linalg_inv(rush_call *c)
{
  bool ex = c->n_results > 1, check = !ex || call_bool(c, 1);
  lu_batch l = {0};
  rush_tensor *inv = NULL;
  rush_status st = batch_of(c, 0, true, &l.a);

  if (st == RUSH_OK)
    st = lu_batch_factor(c, &l);
  if (st == RUSH_OK && check)
    st = check_info(c, &l);
  if (st == RUSH_OK)
    st = batch_new(c, &l.a, 2, l.a.rows, l.a.rows, l.a.kind->dtype, &inv);
  for (int64_t i = 0; st == RUSH_OK && i < l.a.count; i++) {
    int64_t n = l.a.rows;
    void *b = matrix_at(inv, i, n * n);
    l.a.kind->identity(b, n);
    l.a.kind->lu_solve(c->cx, matrix(&l.a, i), (int32_t *)l.pivots->data + i * n, n, b, n);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK && ex)
    call_return_steal(c, 1, tensor_retain(l.info));
  if (st == RUSH_OK)
    st = give_columns(c, 0, inv, l.a.dtype);
  else
    tensor_release(inv);
  lu_batch_free(&l);
  return st;
}

/* True for B of shape (batch, n) with A of shape (batch, n, n). */
static bool is_vector_batch(const rush_tensor *a, const rush_tensor *b)
{
  if (b->n_dims != a->n_dims - 1)
    return false;
  return memcmp(a->sizes, b->sizes, sizeof(int64_t) * (size_t)b->n_dims) == 0;
}

/* Broadcast the batch sizes of A and B; *vector: B is a (batch of) vector. */
static rush_status solve_sizes(rush_call *c, const rush_tensor *a, const rush_tensor *b,
                               bool *vector, int *n, int64_t *sizes)
{
  *vector = b->n_dims == 1 || is_vector_batch(a, b);
  int nb = *vector ? b->n_dims - 1 : b->n_dims - 2;

  if (b->dtype != a->dtype)
    return call_fail(c->cx,
                     "linalg.solve: Expected A and B to have the same dtype, but found A of type "
                     "%s and B of type %s instead",
                     dtype_aten_name(a->dtype), dtype_aten_name(b->dtype));
  if (nb < 0 || !sizes_broadcast(a->n_dims - 2, a->sizes, nb, b->sizes, n, sizes))
    return call_fail(c->cx, "linalg.solve: the batch dimensions of A and B do not broadcast");
  int64_t rows = *vector ? b->sizes[b->n_dims - 1] : b->sizes[b->n_dims - 2];
  if (rows != a->sizes[a->n_dims - 1])
    return call_fail(c->cx,
                     "linalg.solve: Incompatible shapes of A and B for the equation AX = B "
                     "(%lldx%lld and %lldx%lld)",
                     (long long)a->sizes[a->n_dims - 2], (long long)a->sizes[a->n_dims - 1],
                     (long long)rows, (long long)(*vector ? 1 : b->sizes[b->n_dims - 1]));
  return RUSH_OK;
}

/* Make a batch of n x k matrices from B; XA = B is solved as A'X' = B'. */
static rush_status solve_rhs(rush_call *c, rush_tensor *b, bool vector, int n, const int64_t *sizes,
                             batch *out)
{
  rush_tensor *as_matrix = NULL;
  int64_t dims[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];

  if (!vector)
    return batch_copy(c, b, n, sizes, out);
  for (int i = 0; i < b->n_dims; i++) {
    dims[i] = b->sizes[i];
    strides[i] = b->strides[i];
  }
  dims[b->n_dims] = 1;
  strides[b->n_dims] = 1;
  TRY(tensor_as_strided(c->cx, b, b->n_dims + 1, dims, strides, b->offset, &as_matrix));
  rush_status st = batch_copy(c, as_matrix, n, sizes, out);
  tensor_release(as_matrix);
  return st;
}

static rush_status drop_last_dim(rush_call *c, rush_tensor **t)
{
  rush_tensor *flat;
  rush_status st =
    tensor_as_strided(c->cx, *t, (*t)->n_dims - 1, (*t)->sizes, (*t)->strides, (*t)->offset, &flat);

  if (st != RUSH_OK)
    return st;
  tensor_release(*t);
  *t = flat;
  return RUSH_OK;
}

/* Solve X A = B: rows of B against the transposed factors, one column at a time. */
static rush_status solve_right(rush_call *c, lu_batch *l, batch *x)
{
  int64_t n = l->a.rows, k = x->rows;
  void *column = scratch(c, x, n);

  if (!column)
    return call_nomem(c->cx);
  for (int64_t i = 0; i < x->count; i++)
    for (int64_t r = 0; r < k; r++) {
      void *row = (char *)matrix(x, i) + (size_t)(r * n) * x->kind->item;
      memcpy(column, row, (size_t)n * x->kind->item);
      x->kind->lu_solve(c->cx, matrix(&l->a, i), (int32_t *)l->pivots->data + i * n, n, column, 1);
      memcpy(row, column, (size_t)n * x->kind->item);
    }
  scratch_free(c, x, column, n);
  return RUSH_OK;
}

/* linalg_solve(A, B, left), linalg_solve_ex(+check_errors), _linalg_solve_ex. */
rush_status kernel_linalg_solve(rush_call *c)
{
  rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  bool left = call_bool(c, 2), check = c->n_args < 4 || call_bool(c, 3), vector;
  int64_t sizes[TENSOR_MAX_DIMS];
  lu_batch l = {0};
  batch x = {0};
  int n;

  TRY(check_matrix(c, a, true));
  if (left) {
    TRY(solve_sizes(c, a, b, &vector, &n, sizes));
  } else {
    vector = false;
    if (b->n_dims < 2 || b->dtype != a->dtype ||
        b->sizes[b->n_dims - 1] != a->sizes[a->n_dims - 1] ||
        !sizes_broadcast(a->n_dims - 2, a->sizes, b->n_dims - 2, b->sizes, &n, sizes))
      return call_fail(c->cx,
                       "linalg.solve: Incompatible shapes of A and B for the equation XA = B");
  }
  rush_status st = batch_copy(c, a, n, sizes, &l.a);
  for (int64_t i = 0; st == RUSH_OK && !left && i < l.a.count; i++)
    l.a.kind->transpose(matrix(&l.a, i), l.a.rows);
  if (st == RUSH_OK)
    st = lu_batch_factor(c, &l);
  if (st == RUSH_OK && check)
    st = check_info(c, &l);
  if (st == RUSH_OK)
    st = solve_rhs(c, b, vector, n, sizes, &x);
  if (st == RUSH_OK && !left)
    st = solve_right(c, &l, &x);
  for (int64_t i = 0; st == RUSH_OK && left && i < x.count; i++) {
    x.kind->lu_solve(c->cx, matrix(&l.a, i), (int32_t *)l.pivots->data + i * l.a.rows, l.a.rows,
                     matrix(&x, i), x.cols);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK && vector)
    st = drop_last_dim(c, &x.t);
  if (st == RUSH_OK && c->n_results == 2)
    call_return_steal(c, 1, tensor_retain(l.info));
  if (st == RUSH_OK && c->n_results == 4) {
    call_return_steal(c, 2, tensor_retain(l.pivots));
    call_return_steal(c, 3, tensor_retain(l.info));
    st = give_columns(c, 1, tensor_retain(l.a.t), l.a.dtype);
  }
  if (st == RUSH_OK) {
    st = left && x.t->n_dims > 1 ? give_columns(c, 0, x.t, l.a.dtype) : give(c, 0, x.t, l.a.dtype);
    x.t = NULL;
  }
  tensor_release(x.t);
  lu_batch_free(&l);
  return st;
}

/* Compute det and slogdet from the diagonal of U. */
static rush_status determinants(rush_call *c, lu_batch *l, rush_tensor **sign, rush_tensor **logabs,
                                rush_tensor **det)
{
  TRY(batch_of(c, 0, true, &l->a));
  TRY(lu_batch_factor(c, l));
  TRY(batch_new(c, &l->a, 0, 0, 0, l->a.kind->dtype, sign));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_FLOAT64, logabs));
  TRY(batch_new(c, &l->a, 0, 0, 0, l->a.kind->dtype, det));
  for (int64_t i = 0; i < l->a.count; i++)
    l->a.kind->determinant(matrix(&l->a, i), (int32_t *)l->pivots->data + i * l->a.rows, l->a.rows,
                           matrix_at(*det, i, 1), matrix_at(*sign, i, 1),
                           (double *)(*logabs)->data + i);
  return RUSH_OK;
}

/* Compute log(det), in place: -infinity for 0, NaN for negative numbers. */
static rush_status logdet(rush_call *c, const batch *a, rush_tensor **det, const rush_tensor *sign,
                          const rush_tensor *logabs)
{
  rush_value arg = {.tag = RUSH_TAG_TENSOR, .as.tensor = *det}, log;
  if (a->kind == &linalg_complex) {
    TRY(op_invoke_name(c->cx, "aten::log", "", &arg, 1, &log));
    tensor_release(*det);
    *det = log.as.tensor;
    return RUSH_OK;
  }
  for (int64_t i = 0; i < a->count; i++) {
    double s = ((const double *)sign->data)[i];
    ((double *)(*det)->data)[i] = s < 0    ? (double)NAN
                                  : s == 0 ? -INFINITY
                                           : ((const double *)logabs->data)[i];
  }
  return RUSH_OK;
}

typedef enum det_kind { DET, SLOGDET, LOGDET } det_kind;

static rush_status det_op(rush_call *c, det_kind kind)
{
  rush_tensor *sign = NULL, *logabs = NULL, *det = NULL;
  uint32_t lu_at = kind == SLOGDET ? 2 : 1;
  lu_batch l = {0};
  rush_status st = determinants(c, &l, &sign, &logabs, &det);

  if (st == RUSH_OK && kind == LOGDET)
    st = logdet(c, &l.a, &det, sign, logabs);
  if (st == RUSH_OK)
    st = give(c, 0, tensor_retain(kind == SLOGDET ? sign : det), l.a.dtype);
  if (st == RUSH_OK && kind == SLOGDET)
    st = give(c, 1, tensor_retain(logabs), l.a.real);
  if (st == RUSH_OK && c->n_results > lu_at) {
    st = give_columns(c, lu_at, tensor_retain(l.a.t), l.a.dtype);
    call_return_steal(c, lu_at + 1, tensor_retain(l.pivots));
  }
  tensor_release(sign);
  tensor_release(logabs);
  tensor_release(det);
  lu_batch_free(&l);
  return st;
}
rush_status kernel_det(rush_call *c) { return det_op(c, DET); }
rush_status kernel_slogdet(rush_call *c) { return det_op(c, SLOGDET); }
rush_status kernel_logdet(rush_call *c) { return det_op(c, LOGDET); }

/* linalg_lu_factor(A, pivot), linalg_lu_factor_ex. */
rush_status kernel_lu_factor(rush_call *c)
{
  lu_batch l = {0};

  if (!call_bool(c, 1))
    return call_fail(c->cx, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  rush_status st = batch_of(c, 0, false, &l.a);
  if (st == RUSH_OK)
    st = lu_batch_factor(c, &l);
  if (st == RUSH_OK && (c->n_results == 2 || call_bool(c, 2)))
    st = check_info(c, &l);
  if (st == RUSH_OK) {
    call_return_steal(c, 1, tensor_retain(l.pivots));
    if (c->n_results > 2)
      call_return_steal(c, 2, tensor_retain(l.info));
    st = give_columns(c, 0, tensor_retain(l.a.t), l.a.dtype);
  }
  lu_batch_free(&l);
  return st;
}

/* -- Cholesky ---------------------------------------------------------------------------------- */

/* linalg_cholesky(A, upper), cholesky, linalg_cholesky_ex(A, upper, check_errors). */
rush_status kernel_linalg_cholesky(rush_call *c)
{
  bool upper = call_bool(c, 1), ex = c->n_results > 1, check = !ex || call_bool(c, 2);
  rush_tensor *info = NULL;
  batch a = {0};
  rush_status st = batch_of(c, 0, true, &a);

  if (st == RUSH_OK)
    st = batch_new(c, &a, 0, 0, 0, RUSH_INT32, &info);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    if (upper)
      a.kind->transpose(matrix(&a, i), a.rows);
    ((int32_t *)info->data)[i] = a.kind->cholesky_factor(c->cx, matrix(&a, i), a.rows);
    if (upper)
      a.kind->transpose(matrix(&a, i), a.rows);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK && check)
    st = linalg_check_info(c->cx, api_name(c), info->data, a.count, a.n_batch_dims > 0);
  if (st == RUSH_OK && ex)
    call_return_steal(c, 1, tensor_retain(info));
  if (st == RUSH_OK) {
    st = give_columns(c, 0, a.t, a.dtype);
    a.t = NULL;
  }
  tensor_release(a.t);
  tensor_release(info);
  return st;
}

static rush_status check_same_dtype(rush_call *c, const char *name, const rush_tensor *b,
                                    const rush_tensor *a)
{
  if (b->dtype == a->dtype)
    return RUSH_OK;
  return call_fail(
    c->cx,
    "%sExpected b and A to have the same dtype, but found b of type %s and A of type %s instead.",
    name, dtype_aten_name(b->dtype), dtype_aten_name(a->dtype));
}

/* cholesky_solve(B, L, upper): L L' X = B. */
rush_status kernel_cholesky_solve(rush_call *c)
{
  rush_tensor *b = call_tensor(c, 0), *t = call_tensor(c, 1);
  bool upper = call_bool(c, 2);
  int64_t sizes[TENSOR_MAX_DIMS];
  batch l = {0}, x = {0};
  int n;

  TRY(check_matrix(c, t, true));
  TRY(check_matrix(c, b, false));
  TRY(check_same_dtype(c, "", b, t));
  if (b->sizes[b->n_dims - 2] != t->sizes[t->n_dims - 1] ||
      !sizes_broadcast(t->n_dims - 2, t->sizes, b->n_dims - 2, b->sizes, &n, sizes))
    return call_fail(c->cx, "cholesky_solve: Incompatible matrix sizes");
  rush_status st = batch_copy(c, t, n, sizes, &l);
  if (st == RUSH_OK)
    st = batch_copy(c, b, n, sizes, &x);
  for (int64_t i = 0; st == RUSH_OK && i < x.count; i++) {
    x.kind->tri_solve(c->cx, matrix(&l, i), l.rows, upper, upper ? LINALG_ADJOINT : LINALG_AS_IS,
                      false, matrix(&x, i), x.cols);
    x.kind->tri_solve(c->cx, matrix(&l, i), l.rows, upper, upper ? LINALG_AS_IS : LINALG_ADJOINT,
                      false, matrix(&x, i), x.cols);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK) {
    st = give_columns(c, 0, x.t, x.dtype);
    x.t = NULL;
  }
  tensor_release(l.t);
  tensor_release(x.t);
  return st;
}

/* linalg_solve_triangular(A, B, upper, left, unitriangular). */
rush_status kernel_solve_triangular(rush_call *c)
{
  rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  bool upper = call_bool(c, 2), left = call_bool(c, 3), unit = call_bool(c, 4);
  int64_t sizes[TENSOR_MAX_DIMS];
  batch t = {0}, x = {0};
  int n;

  TRY(check_matrix(c, a, true));
  TRY(check_matrix(c, b, false));
  TRY(check_same_dtype(c, "linalg.solve_triangular: ", b, a));
  if (b->sizes[b->n_dims - (left ? 2 : 1)] != a->sizes[a->n_dims - 1] ||
      !sizes_broadcast(a->n_dims - 2, a->sizes, b->n_dims - 2, b->sizes, &n, sizes))
    return call_fail(c->cx, "linalg.solve_triangular: Incompatible shapes of A and B");
  rush_status st = batch_copy(c, a, n, sizes, &t);
  if (st == RUSH_OK)
    st = batch_copy(c, b, n, sizes, &x);
  for (int64_t i = 0; st == RUSH_OK && i < x.count; i++) {
    if (left)
      x.kind->tri_solve(c->cx, matrix(&t, i), t.rows, upper, LINALG_AS_IS, unit, matrix(&x, i),
                        x.cols);
    for (int64_t r = 0; !left && r < x.rows; r++) /* X A = B: A' x' = b', a row at a time */
      x.kind->tri_solve(c->cx, matrix(&t, i), t.rows, upper, LINALG_TRANSPOSE, unit,
                        (char *)matrix(&x, i) + (size_t)(r * x.cols) * x.kind->item, 1);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK) {
    st = give_columns(c, 0, x.t, x.dtype);
    x.t = NULL;
  }
  tensor_release(t.t);
  tensor_release(x.t);
  return st;
}

