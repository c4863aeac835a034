/* The linalg operators: batches around ops/linalg.h. */
#include "ops/call.h"
#include "ops/linalg.h"
#include "ops/views.h"
#include "tensor/iter.h"

#include <math.h>
#include <stdio.h>

/* -- Batches of matrices in double --------------------------------------------------------------------- */

typedef struct batch {
  rush_tensor *t; /* contiguous float64 copy, owned */
  int n_batch_dims;
  int64_t count, rows, cols; /* cols 1 and rows n for vectors */
  int dtype;                 /* of the operator's argument */
} batch;

static double *matrix(const batch *b, int64_t i) { return (double *)b->t->data + i * b->rows * b->cols; }

static rush_status check_matrix(rush_call *c, const rush_tensor *t, bool square)
{
  const char *name = strchr(c->op->schema->name, ':') + 2;
  int n = t->n_dims;

  if (dtype_is_complex(t->dtype))
    return call_unsupported(c->cx, "%s of complex matrices", name);
  if (t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_FLOAT64)
    return call_fail(c->cx, "%s: Expected a floating point or complex tensor as input. Got %s", name,
                     dtype_aten_name(t->dtype));
  if (n < 2)
    return call_fail(c->cx, "%s: The input tensor A must have at least 2 dimensions.", name);
  if (square && t->sizes[n - 1] != t->sizes[n - 2])
    return call_fail(c->cx, "%s: A must be batches of square matrices, but they are %lld by %lld matrices", name,
                     (long long)t->sizes[n - 2], (long long)t->sizes[n - 1]);
  return RUSH_OK;
}

/* A copy of t, its batch dimensions expanded to sizes[0..n_batch). */
static rush_status batch_copy(rush_call *c, const rush_tensor *t, int n_batch, const int64_t *sizes, batch *out)
{
  int64_t full[TENSOR_MAX_DIMS];
  int n = n_batch + 2;

  for (int i = 0; i < n_batch; i++)
    full[i] = sizes[i];
  full[n - 2] = t->sizes[t->n_dims - 2];
  full[n - 1] = t->sizes[t->n_dims - 1];
  *out = (batch){.n_batch_dims = n_batch, .rows = full[n - 2], .cols = full[n - 1], .dtype = t->dtype, .count = 1};
  for (int i = 0; i < n_batch; i++)
    out->count *= full[i];
  TRY(tensor_new(c->cx, RUSH_FLOAT64, n, full, &out->t));
  rush_status st = tensor_copy(c->cx, out->t, t);
  if (st != RUSH_OK) {
    tensor_release(out->t);
    out->t = NULL;
  }
  return st;
}

static rush_status batch_of(rush_call *c, uint32_t arg, bool square, batch *out)
{
  const rush_tensor *t = call_tensor(c, arg);

  TRY(check_matrix(c, t, square));
  return batch_copy(c, t, t->n_dims - 2, t->sizes, out);
}

/* A float64 tensor of `like`'s batch dimensions and the given trailing sizes. */
static rush_status batch_new(rush_call *c, const batch *like, int n_tail, int64_t a, int64_t b, int dtype,
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

/* Result i: t as `dtype`; steals t. */
static rush_status give(rush_call *c, uint32_t i, rush_tensor *t, int dtype)
{
  rush_tensor *converted;
  rush_status st = tensor_to_dtype(c->cx, t, dtype, &converted);

  tensor_release(t);
  if (st == RUSH_OK)
    call_return_steal(c, i, converted);
  return st;
}

/* The same with matrices column by column, as LAPACK leaves them: programs see the strides. */
static rush_status give_columns(rush_call *c, uint32_t i, rush_tensor *t, int dtype)
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

/* Scratch doubles. */
static double *scratch(rush_call *c, int64_t n) { return mem_alloc(c->cx->ctx, (size_t)(n + 1) * sizeof(double)); }
static void scratch_free(rush_call *c, double *p, int64_t n)
{
  if (p)
    mem_free(c->cx->ctx, p, (size_t)(n + 1) * sizeof(double));
}

/* What the operator is called in messages. */
static const char *api_name(const rush_call *c)
{
  static const struct { const char *op, *api; } rows[] = {
      {"aten::linalg_inv_ex", "linalg.inv_ex"},       {"aten::linalg_inv", "linalg.inv"},
      {"aten::inverse", "linalg.inv"},                {"aten::linalg_solve_ex", "linalg.solve_ex"},
      {"aten::linalg_solve", "torch.linalg.solve"},   {"aten::_linalg_solve_ex", "linalg.solve"},
      {"aten::linalg_cholesky", "linalg.cholesky"},   {"aten::linalg_cholesky_ex", "linalg.cholesky_ex"},
      {"aten::linalg_lu_factor", "torch.linalg.lu_factor"},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (strcmp(c->op->schema->name, rows[i].op) == 0)
      return rows[i].api;
  return strchr(c->op->schema->name, ':') + 2;
}

/* -- LU: inv, solve, det ------------------------------------------------------------------------------------ */

typedef struct lu_batch {
  batch a;              /* factored in place */
  rush_tensor *pivots;  /* int32 */
  rush_tensor *info;    /* int32 */
  rush_tensor *sign;    /* float64: of the permutation */
} lu_batch;

static void lu_batch_free(lu_batch *l)
{
  tensor_release(l->a.t);
  tensor_release(l->pivots);
  tensor_release(l->info);
  tensor_release(l->sign);
}

static rush_status lu_batch_factor(rush_call *c, lu_batch *l)
{
  int64_t k = i64_min(l->a.rows, l->a.cols);

  TRY(batch_new(c, &l->a, 1, k, 0, RUSH_INT32, &l->pivots));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_INT32, &l->info));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_FLOAT64, &l->sign));
  for (int64_t i = 0; i < l->a.count; i++) {
    int sign;
    ((int32_t *)l->info->data)[i] =
        lu_factor(c->cx, matrix(&l->a, i), l->a.rows, l->a.cols, (int32_t *)l->pivots->data + i * k, &sign);
    ((double *)l->sign->data)[i] = sign;
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
    st = batch_new(c, &l.a, 2, l.a.rows, l.a.rows, RUSH_FLOAT64, &inv);
  for (int64_t i = 0; st == RUSH_OK && i < l.a.count; i++) {
    int64_t n = l.a.rows;
    double *b = (double *)inv->data + i * n * n;
    memset(b, 0, (size_t)(n * n) * sizeof *b);
    for (int64_t k = 0; k < n; k++)
      b[k * n + k] = 1;
    lu_solve(c->cx, matrix(&l.a, i), (int32_t *)l.pivots->data + i * n, n, b, n);
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

/* B of shape (batch, n) beside A of shape (batch, n, n). */
static bool is_vector_batch(const rush_tensor *a, const rush_tensor *b)
{
  if (b->n_dims != a->n_dims - 1)
    return false;
  return memcmp(a->sizes, b->sizes, sizeof(int64_t) * (size_t)b->n_dims) == 0;
}

/* The batch sizes of A and B broadcast; *vector: B is a (batch of) vector. */
static rush_status solve_sizes(rush_call *c, const rush_tensor *a, const rush_tensor *b, bool *vector, int *n,
                               int64_t *sizes)
{
  *vector = b->n_dims == 1 || is_vector_batch(a, b);
  int nb = *vector ? b->n_dims - 1 : b->n_dims - 2;

  if (b->dtype != a->dtype)
    return call_fail(c->cx, "linalg.solve: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead",
                     dtype_aten_name(a->dtype), dtype_aten_name(b->dtype));
  if (nb < 0 || !sizes_broadcast(a->n_dims - 2, a->sizes, nb, b->sizes, n, sizes))
    return call_fail(c->cx, "linalg.solve: the batch dimensions of A and B do not broadcast");
  int64_t rows = *vector ? b->sizes[b->n_dims - 1] : b->sizes[b->n_dims - 2];
  if (rows != a->sizes[a->n_dims - 1])
    return call_fail(c->cx, "linalg.solve: Incompatible shapes of A and B for the equation AX = B (%lldx%lld and %lldx%lld)",
                     (long long)a->sizes[a->n_dims - 2], (long long)a->sizes[a->n_dims - 1], (long long)rows,
                     (long long)(*vector ? 1 : b->sizes[b->n_dims - 1]));
  return RUSH_OK;
}

/* B as a batch of n x k matrices; XA = B is solved as A'X' = B'. */
static rush_status solve_rhs(rush_call *c, rush_tensor *b, bool vector, int n, const int64_t *sizes, batch *out)
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

static void transpose_square(double *a, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++) {
      double t = a[i * n + j];
      a[i * n + j] = a[j * n + i];
      a[j * n + i] = t;
    }
}

static rush_status drop_last_dim(rush_call *c, rush_tensor **t)
{
  rush_tensor *flat;
  rush_status st = tensor_as_strided(c->cx, *t, (*t)->n_dims - 1, (*t)->sizes, (*t)->strides, (*t)->offset, &flat);

  if (st != RUSH_OK)
    return st;
  tensor_release(*t);
  *t = flat;
  return RUSH_OK;
}

/* X A = B: rows of B against the transposed factors, a column at a time. */
static rush_status solve_right(rush_call *c, lu_batch *l, batch *x)
{
  int64_t n = l->a.rows, k = x->rows;
  double *column = scratch(c, n);

  if (!column)
    return call_nomem(c->cx);
  for (int64_t i = 0; i < x->count; i++)
    for (int64_t r = 0; r < k; r++) {
      double *row = matrix(x, i) + r * n;
      memcpy(column, row, (size_t)n * sizeof *row);
      lu_solve(c->cx, matrix(&l->a, i), (int32_t *)l->pivots->data + i * n, n, column, 1);
      memcpy(row, column, (size_t)n * sizeof *row);
    }
  scratch_free(c, column, n);
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
    if (b->n_dims < 2 || b->dtype != a->dtype || b->sizes[b->n_dims - 1] != a->sizes[a->n_dims - 1] ||
        !sizes_broadcast(a->n_dims - 2, a->sizes, b->n_dims - 2, b->sizes, &n, sizes))
      return call_fail(c->cx, "linalg.solve: Incompatible shapes of A and B for the equation XA = B");
  }
  rush_status st = batch_copy(c, a, n, sizes, &l.a);
  for (int64_t i = 0; st == RUSH_OK && !left && i < l.a.count; i++)
    transpose_square(matrix(&l.a, i), l.a.rows);
  if (st == RUSH_OK)
    st = lu_batch_factor(c, &l);
  if (st == RUSH_OK && check)
    st = check_info(c, &l);
  if (st == RUSH_OK)
    st = solve_rhs(c, b, vector, n, sizes, &x);
  if (st == RUSH_OK && !left)
    st = solve_right(c, &l, &x);
  for (int64_t i = 0; st == RUSH_OK && left && i < x.count; i++) {
    lu_solve(c->cx, matrix(&l.a, i), (int32_t *)l.pivots->data + i * l.a.rows, l.a.rows, matrix(&x, i), x.cols);
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
    st = left && !vector ? give_columns(c, 0, x.t, l.a.dtype) : give(c, 0, x.t, l.a.dtype);
    x.t = NULL;
  }
  tensor_release(x.t);
  lu_batch_free(&l);
  return st;
}

/* det and slogdet share: sign of the permutation times the diagonal of U. */
static rush_status determinants(rush_call *c, lu_batch *l, rush_tensor **sign, rush_tensor **logabs, rush_tensor **det)
{
  TRY(batch_of(c, 0, true, &l->a));
  TRY(lu_batch_factor(c, l));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_FLOAT64, sign));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_FLOAT64, logabs));
  TRY(batch_new(c, &l->a, 0, 0, 0, RUSH_FLOAT64, det));
  for (int64_t i = 0; i < l->a.count; i++) {
    double s = ((double *)l->sign->data)[i], d = s, lg = 0;
    for (int64_t k = 0; k < l->a.rows; k++) {
      double u = matrix(&l->a, i)[k * l->a.rows + k];
      d *= u;
      s *= u > 0 ? 1 : u < 0 ? -1 : u == 0 ? 0 : u;
      lg += log(fabs(u));
    }
    ((double *)(*sign)->data)[i] = s;
    ((double *)(*logabs)->data)[i] = lg;
    ((double *)(*det)->data)[i] = d;
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
    for (int64_t i = 0; i < l.a.count; i++) {
      double s = ((double *)sign->data)[i];
      ((double *)det->data)[i] = s < 0 ? (double)NAN : s == 0 ? -INFINITY : ((double *)logabs->data)[i];
    }
  if (st == RUSH_OK)
    st = give(c, 0, tensor_retain(kind == SLOGDET ? sign : det), l.a.dtype);
  if (st == RUSH_OK && kind == SLOGDET)
    st = give(c, 1, tensor_retain(logabs), l.a.dtype);
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
    return call_unsupported(c->cx, "%s without pivoting", c->op->schema->name);
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

/* -- Cholesky ----------------------------------------------------------------------------------------------------- */

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
      transpose_square(matrix(&a, i), a.rows);
    ((int32_t *)info->data)[i] = cholesky_factor(c->cx, matrix(&a, i), a.rows);
    if (upper)
      transpose_square(matrix(&a, i), a.rows);
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
  if (b->sizes[b->n_dims - 2] != t->sizes[t->n_dims - 1] ||
      !sizes_broadcast(t->n_dims - 2, t->sizes, b->n_dims - 2, b->sizes, &n, sizes))
    return call_fail(c->cx, "cholesky_solve: Incompatible matrix sizes");
  rush_status st = batch_copy(c, t, n, sizes, &l);
  if (st == RUSH_OK)
    st = batch_copy(c, b, n, sizes, &x);
  for (int64_t i = 0; st == RUSH_OK && i < x.count; i++) {
    tri_solve(c->cx, matrix(&l, i), l.rows, upper, upper, false, matrix(&x, i), x.cols);
    tri_solve(c->cx, matrix(&l, i), l.rows, upper, !upper, false, matrix(&x, i), x.cols);
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
  if (b->sizes[b->n_dims - (left ? 2 : 1)] != a->sizes[a->n_dims - 1] ||
      !sizes_broadcast(a->n_dims - 2, a->sizes, b->n_dims - 2, b->sizes, &n, sizes))
    return call_fail(c->cx, "linalg.solve_triangular: Incompatible shapes of A and B");
  rush_status st = batch_copy(c, a, n, sizes, &t);
  if (st == RUSH_OK)
    st = batch_copy(c, b, n, sizes, &x);
  for (int64_t i = 0; st == RUSH_OK && i < x.count; i++) {
    if (left)
      tri_solve(c->cx, matrix(&t, i), t.rows, upper, false, unit, matrix(&x, i), x.cols);
    for (int64_t r = 0; !left && r < x.rows; r++) /* X A = B: A' x' = b', a row at a time */
      tri_solve(c->cx, matrix(&t, i), t.rows, upper, true, unit, matrix(&x, i) + r * x.cols, 1);
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

/* -- QR --------------------------------------------------------------------------------------------------------------- */

static rush_status qr_op(rush_call *c, bool complete, bool want_q)
{
  rush_tensor *q = NULL, *r = NULL;
  double *tau = NULL;
  batch a = {0};
  rush_status st = batch_of(c, 0, false, &a);
  int64_t k_min = i64_min(a.rows, a.cols), k = complete ? a.rows : k_min;

  if (st == RUSH_OK)
    st = want_q ? batch_new(c, &a, 2, a.rows, k, RUSH_FLOAT64, &q) : tensor_new(c->cx, RUSH_FLOAT64, 1, &(int64_t){0}, &q);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, k, a.cols, RUSH_FLOAT64, &r);
  if (st == RUSH_OK && !(tau = scratch(c, k_min)))
    st = call_nomem(c->cx);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    qr_factor(c->cx, matrix(&a, i), a.rows, a.cols, tau, want_q ? (double *)q->data + i * a.rows * k : NULL, k,
              (double *)r->data + i * k * a.cols);
    st = call_poll(c->cx);
  }
  scratch_free(c, tau, k_min);
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
                     "qr received unrecognized mode '%.*s' but expected one of 'reduced' (default), 'r', or 'complete'",
                     (int)mode.len, mode.p);
  return qr_op(c, str_is(mode, "complete"), !str_is(mode, "r"));
}
rush_status kernel_qr(rush_call *c) { return qr_op(c, !call_bool(c, 1), true); }

/* -- Eigenvalues, singular values ------------------------------------------------------------------------------------- */

/* Only the triangle that UPLO names is read. */
static void mirror(double *a, int64_t n, bool upper)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < i; j++)
      if (upper)
        a[i * n + j] = a[j * n + i];
      else
        a[j * n + i] = a[i * n + j];
}

/* linalg_eigh(A, UPLO) -> (w, v); linalg_eigvalsh(A, UPLO) -> w; _linalg_eigh(A, UPLO, compute_v). */
rush_status kernel_linalg_eigh(rush_call *c)
{
  rush_tensor *w = NULL, *v = NULL;
  str uplo = call_str(c, 1);
  batch a = {0};
  rush_status st = batch_of(c, 0, true, &a);

  if (st == RUSH_OK)
    st = batch_new(c, &a, 1, a.rows, 0, RUSH_FLOAT64, &w);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, a.rows, a.rows, RUSH_FLOAT64, &v);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    mirror(matrix(&a, i), a.rows, uplo.len && (uplo.p[0] == 'U' || uplo.p[0] == 'u'));
    sym_eig(c->cx, matrix(&a, i), a.rows, (double *)w->data + i * a.rows, (double *)v->data + i * a.rows * a.rows);
    st = call_poll(c->cx);
  }
  if (st == RUSH_OK)
    st = give(c, 0, tensor_retain(w), a.dtype);
  if (st == RUSH_OK && c->n_results > 1)
    st = give_columns(c, 1, tensor_retain(v), a.dtype);
  tensor_release(w);
  tensor_release(v);
  tensor_release(a.t);
  return st;
}

static void transpose_into(const double *from, int64_t rows, int64_t cols, double *to)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      to[j * rows + i] = from[i * cols + j];
}

/* Extend the k orthonormal columns in u (rows x full, the first k filled) to `full` columns. */
static void complete_basis(const call_ctx *cx, double *u, int64_t rows, int64_t full, int64_t k)
{
  for (int64_t c = k, e = 0; c < full && e < rows && !call_over(cx); e++) {
    double norm = 0;
    for (int64_t i = 0; i < rows; i++)
      u[i * full + c] = i == e;
    for (int pass = 0; pass < 2; pass++)
      for (int64_t p = 0; p < c; p++) {
        double dot = 0;
        for (int64_t i = 0; i < rows; i++)
          dot += u[i * full + p] * u[i * full + c];
        for (int64_t i = 0; i < rows; i++)
          u[i * full + c] -= dot * u[i * full + p];
      }
    for (int64_t i = 0; i < rows; i++)
      norm += u[i * full + c] * u[i * full + c];
    if (norm < 1e-8)
      continue;
    for (int64_t i = 0; i < rows; i++)
      u[i * full + c] /= sqrt(norm);
    c++;
  }
}

/* One matrix: u (m x ku), s (k), vh (kv x n); work has m*n + n*n + m*m doubles. */
static void svd_one(const call_ctx *cx, const double *a, int64_t m, int64_t n, double *u, int64_t ku, double *s, double *vh,
                    int64_t kv, double *work)
{
  int64_t k = i64_min(m, n), tall = i64_max(m, n);
  double *left = work, *right = work + m * n; /* tall x k, k x k */

  if (m >= n)
    memcpy(left, a, (size_t)(m * n) * sizeof *a);
  else
    transpose_into(a, m, n, left);
  svd_tall(cx, left, tall, k, s, right);
  const double *us = m >= n ? left : right, *vs = m >= n ? right : left;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < k; j++)
      u[i * ku + j] = us[i * k + j];
  complete_basis(cx, u, m, ku, k);
  double *v = right + k * k; /* n x kv */
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++)
      v[i * kv + j] = vs[i * k + j];
  complete_basis(cx, v, n, kv, k);
  transpose_into(v, n, kv, vh);
}

/* Results: U, S, Vh (or V), or only S. */
static rush_status svd_op(rush_call *c, bool full, bool only_values, bool want_v)
{
  rush_tensor *u = NULL, *s = NULL, *vh = NULL, *v = NULL;
  batch a = {0};
  rush_status st = batch_of(c, 0, false, &a);
  int64_t m = a.rows, n = a.cols, k = i64_min(m, n), ku = full ? m : k, kv = full ? n : k;
  int64_t work_len = m * n + k * k + n * kv + 1;
  double *work = st == RUSH_OK ? scratch(c, work_len) : NULL;

  if (st == RUSH_OK && !work)
    st = call_nomem(c->cx);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, m, ku, RUSH_FLOAT64, &u);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 1, k, 0, RUSH_FLOAT64, &s);
  if (st == RUSH_OK)
    st = batch_new(c, &a, 2, kv, n, RUSH_FLOAT64, &vh);
  if (st == RUSH_OK && want_v)
    st = batch_new(c, &a, 2, n, kv, RUSH_FLOAT64, &v);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    svd_one(c->cx, matrix(&a, i), m, n, (double *)u->data + i * m * ku, ku, (double *)s->data + i * k,
            (double *)vh->data + i * kv * n, kv, work);
    if (want_v)
      transpose_into((double *)vh->data + i * kv * n, kv, n, (double *)v->data + i * n * kv);
    st = call_poll(c->cx);
  }
  scratch_free(c, work, work_len);
  if (st == RUSH_OK)
    st = give(c, only_values ? 0 : 1, tensor_retain(s), a.dtype);
  if (st == RUSH_OK && !only_values)
    st = give_columns(c, 0, tensor_retain(u), a.dtype);
  if (st == RUSH_OK && !only_values)
    st = want_v ? give(c, 2, tensor_retain(v), a.dtype) : give_columns(c, 2, tensor_retain(vh), a.dtype);
  tensor_release(u);
  tensor_release(s);
  tensor_release(vh);
  tensor_release(v);
  tensor_release(a.t);
  return st;
}
rush_status kernel_linalg_svd(rush_call *c) { return svd_op(c, call_bool(c, 1), false, false); }
rush_status kernel_linalg_svdvals(rush_call *c) { return svd_op(c, false, true, false); }
rush_status kernel_svd(rush_call *c) { return svd_op(c, !call_bool(c, 1), false, true); }

/* -- Matrix exponential: scaling and squaring with a Taylor polynomial of degree 18 ------------------------------------ */

static void expm_one(const call_ctx *cx, double *a, int64_t n, double *work)
{
  double norm = 0, *term = work, *next = work + n * n;
  int squarings = 0;

  for (int64_t i = 0; i < n; i++) {
    double row = 0;
    for (int64_t j = 0; j < n; j++)
      row += fabs(a[i * n + j]);
    norm = fmax(norm, row);
  }
  for (; norm > 0.5 && squarings < 1000; squarings++)
    norm /= 2;
  for (int64_t i = 0; i < n * n; i++) {
    a[i] = ldexp(a[i], -squarings);
    term[i] = 0;
  }
  double *sum = work + 2 * n * n;
  for (int64_t i = 0; i < n; i++)
    term[i * n + i] = 1;
  memcpy(sum, term, (size_t)(n * n) * sizeof *sum);
  for (int k = 1; k <= 18 && !call_over(cx); k++) {
    mat_mul(cx, term, a, next, n, n, n);
    for (int64_t i = 0; i < n * n; i++)
      sum[i] += term[i] = next[i] / k;
  }
  for (int k = 0; k < squarings && !call_over(cx); k++) {
    mat_mul(cx, sum, sum, next, n, n, n);
    memcpy(sum, next, (size_t)(n * n) * sizeof *sum);
  }
  memcpy(a, sum, (size_t)(n * n) * sizeof *a);
}

rush_status kernel_matrix_exp(rush_call *c)
{
  batch a = {0};
  rush_status st = batch_of(c, 0, true, &a);
  int64_t work_len = 3 * a.rows * a.rows;
  double *work = st == RUSH_OK ? scratch(c, work_len) : NULL;

  if (st == RUSH_OK && !work)
    st = call_nomem(c->cx);
  for (int64_t i = 0; st == RUSH_OK && i < a.count; i++) {
    expm_one(c->cx, matrix(&a, i), a.rows, work);
    st = call_poll(c->cx);
  }
  scratch_free(c, work, work_len);
  if (st == RUSH_OK) {
    st = give(c, 0, a.t, a.dtype);
    a.t = NULL;
  }
  tensor_release(a.t);
  return st;
}
