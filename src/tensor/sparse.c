/* tensor/sparse.c -- making sparse tensors, and the checks that make their indices safe to follow.
 * */
#include "tensor/sparse.h"

enum { ZERO_BYTES = 16 }; /* the widest element */

/* -- Checks ------------------------------------------------------------------------------------ */

static const char *dtype_word(int dtype) { return dtype_aten_name(dtype); }

/* Refuse parts whose shapes do not fit sizes: COO. */
static rush_status check_coo_shapes(call_ctx *cx, const sparse_parts *p, int n_dims,
                                    const int64_t *sizes)
{
  sizes_text a, b;
  const rush_tensor *i = p->indices, *v = p->values;
  if (i->n_dims != 2)
    return call_fail(cx, "indices must be sparse_dim x nnz, but got: %s",
                     sizes_print(&a, i->n_dims, i->sizes));
  const int64_t sparse_dim = i->sizes[0], dense_dim = v->n_dims - 1,
                nnz_values = v->n_dims ? v->sizes[0] : 1;
  if (v->n_dims == 0 || i->sizes[1] != nnz_values)
    return call_fail(cx,
                     "indices and values must have same nnz, but got nnz from indices: %lld, nnz "
                     "from values: %lld",
                     (long long)i->sizes[1], (long long)nnz_values);
  if (n_dims != sparse_dim + dense_dim)
    return call_fail(cx,
                     "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %d, "
                     "sparse_dim = %lld, dense_dim = %lld",
                     n_dims, (long long)sparse_dim, (long long)dense_dim);
  int64_t want[TENSOR_MAX_DIMS + 1] = {i->sizes[1]};
  for (int k = 0; k < dense_dim; k++)
    want[1 + k] = sizes[sparse_dim + k];
  if (memcmp(want, v->sizes, (size_t)v->n_dims * sizeof *want) != 0)
    return call_fail(cx, "values has incorrect size, expected %s, got %s",
                     sizes_print(&a, v->n_dims, want), sizes_print(&b, v->n_dims, v->sizes));
  return RUSH_OK;
}

/* Refuse coordinates outside their sizes. */
static rush_status check_coordinates(call_ctx *cx, const rush_tensor *indices, const int64_t *sizes)
{
  const int64_t nnz = indices->sizes[1], *p = indices->data;
  for (int64_t d = 0; d < indices->sizes[0]; d++)
    for (int64_t k = 0; k < nnz; k++, p++) {
      TRY(call_poll_at(cx, k));
      if (*p < 0)
        return call_fail(cx, "found negative index %lld for dim %lld", (long long)*p, (long long)d);
      if (*p >= sizes[d])
        return call_fail(
          cx, "size is inconsistent with indices: for dim %lld, size is %lld but found index %lld",
          (long long)d, (long long)sizes[d], (long long)*p);
    }
  return RUSH_OK;
}

/* True if the coordinates are sorted and distinct. */
static bool are_coalesced(const call_ctx *cx, const rush_tensor *indices)
{
  const int64_t n_rows = indices->sizes[0], nnz = indices->sizes[1], *p = indices->data;
  for (int64_t k = 1; k < nnz; k++) {
    int64_t d = 0;
    while (d < n_rows && p[d * nnz + k] == p[d * nnz + k - 1])
      d++;
    if (d == n_rows || p[d * nnz + k] < p[d * nnz + k - 1])
      return false;
    if (call_over_at(cx, k))
      return false; /* the caller polls */
  }
  return true;
}

/* Refuse parts whose shapes do not fit sizes: CSR. */
static rush_status check_csr_shapes(call_ctx *cx, const sparse_parts *p, int n_dims,
                                    const int64_t *sizes)
{
  const rush_tensor *crow = p->crow, *col = p->indices, *v = p->values;
  if (crow->dtype != col->dtype)
    return call_fail(
      cx, "crow_indices and col_indices must have the same dtype, bot got %s and %s, respectively",
      dtype_word(crow->dtype), dtype_word(col->dtype));
  if (crow->dtype != RUSH_INT32 && crow->dtype != RUSH_INT64)
    return call_fail(cx, "crow_indices and col_indices dtype must be Int or Long, but got %s",
                     dtype_word(crow->dtype));
  if (crow->n_dims < 1 || crow->n_dims != col->n_dims)
    return call_fail(
      cx,
      "crow_indices and col_indices dimensionalities must be equal but got %d and %d, respectively",
      crow->n_dims, col->n_dims);
  const int batch = crow->n_dims - 1, dense = v->n_dims - batch - 1;
  if (dense < 0)
    return call_fail(cx,
                     "values must have dimensionality > sum of batch and block dimensionalities "
                     "(=%d + 0), but got %d",
                     batch, v->n_dims);
  if (n_dims != batch + 2 + dense)
    return call_fail(cx,
                     "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
                     "(=%d + 2 + %d) but got %d",
                     batch, dense, n_dims);
  if (crow->sizes[batch] - 1 != sizes[batch])
    return call_fail(
      cx, "crow_indices.shape[-1] must be equal to the number of rows + 1 (=%llu), but got %lld",
      (unsigned long long)sizes[batch] + 1, (long long)crow->sizes[batch]);
  if (col->sizes[batch] != v->sizes[batch])
    return call_fail(cx,
                     "col_indices.shape[-1] must be equal to nnz (=%lld) as defined by "
                     "values.shape[%d], but got %lld",
                     (long long)v->sizes[batch], batch, (long long)col->sizes[batch]);
  bool fits = true;
  for (int i = 0; i < batch; i++)
    fits &= crow->sizes[i] == sizes[i] && col->sizes[i] == sizes[i] && v->sizes[i] == sizes[i];
  for (int i = 0; i < dense; i++)
    fits &= v->sizes[batch + 1 + i] == sizes[batch + 2 + i];
  sizes_text a, b;
  if (!fits)
    return call_fail(cx,
                     "all batch dimensions of compressed_indices, plain_indices and values must be "
                     "those of the size %s, and dense "
                     "dimensions of values too, but values are %s",
                     sizes_print(&a, n_dims, sizes), sizes_print(&b, v->n_dims, v->sizes));
  return RUSH_OK;
}

static int64_t index_at(const rush_tensor *t, int64_t i)
{
  return t->dtype == RUSH_INT32 ? ((const int32_t *)t->data)[i] : ((const int64_t *)t->data)[i];
}

/* Check one matrix of compressed rows: crow from `at` on, columns from `first` on. */
static rush_status check_rows(call_ctx *cx, const sparse_parts *p, int64_t at, int64_t n_rows,
                              int64_t first, int64_t nnz, int64_t n_columns)
{
  if (index_at(p->crow, at) != 0)
    return call_fail(cx, "`crow_indices[..., 0] == 0` is not satisfied.");
  if (index_at(p->crow, at + n_rows) != nnz)
    return call_fail(cx, "`crow_indices[..., -1] == nnz` is not satisfied.");
  for (int64_t r = 0; r < n_rows; r++) {
    TRY(call_poll_at(cx, r));
    const int64_t n = index_at(p->crow, at + r + 1) - index_at(p->crow, at + r);
    if (n < 0) /* more than columns: duplicates, which are allowed */
      return call_fail(
        cx, "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied.");
  }
  for (int64_t k = 0; k < nnz; k++) {
    TRY(call_poll_at(cx, k));
    const int64_t col = index_at(p->indices, first + k);
    if (col < 0 || col >= n_columns)
      return call_fail(cx, "`0 <= col_indices < ncols` is not satisfied.");
  }
  return RUSH_OK;
}

static rush_status check_compressed(call_ctx *cx, const sparse_parts *p, const int64_t *sizes)
{
  const int batch = sparse_batch_dims(p);
  const int64_t n_rows = sizes[batch], nnz = sparse_nnz(p);
  int64_t n = 1;
  for (int i = 0; i < batch; i++)
    n *= sizes[i];
  for (int64_t b = 0; b < n; b++)
    TRY(check_rows(cx, p, b * (n_rows + 1), n_rows, b * nnz, nnz, sizes[batch + 1]));
  return RUSH_OK;
}

/* -- Making ------------------------------------------------------------------------------------ */

void sparse_parts_free(context *c, sparse_parts *p)
{
  if (!p)
    return;
  tensor_release(p->crow);
  tensor_release(p->indices);
  tensor_release(p->values);
  mem_free(c, p, sizeof *p);
}

/* Copy the header of values, so that it cannot be resized elsewhere and records no gradient: the
 * sparse tensor's gradient is recorded. */
static rush_status own_header(call_ctx *cx, const rush_tensor *values, rush_tensor **out)
{
  TRY(tensor_alias(cx, values, out));
  (*out)->h.flags &= (uint8_t) ~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN | TENSOR_IS_PARAMETER |
                                 TENSOR_WRAPPED_NUMBER);
  return RUSH_OK;
}

/* Set t's extra to one with a copy of p, whose parts are retained. */
static rush_status attach(call_ctx *cx, rush_tensor *t, const sparse_parts *p)
{
  context *c = t->h.ctx;
  TRY(tensor_need_extra(cx, t));
  sparse_parts *own = mem_alloc(c, sizeof *own);
  if (!own)
    return call_nomem(cx);
  call_mark_special(cx);
  *own = *p;
  own->is_coalesced |= p->layout == LAYOUT_COO && sparse_nnz(p) < 2;
  rush_status st = own_header(cx, p->values, &own->values);
  if (st != RUSH_OK) {
    mem_free(c, own, sizeof *own);
    return st;
  }
  tensor_retain(own->crow);
  tensor_retain(own->indices);
  t->extra->sparse = own;
  return RUSH_OK;
}

/* Make the header of a sparse tensor: an expanded zero. */
static rush_status new_header(call_ctx *cx, storage *st, int dtype, int n_dims,
                              const int64_t *sizes, rush_tensor **out)
{
  static const int64_t strides[TENSOR_MAX_DIMS];
  int64_t n;
  sizes_text text;
  if (n_dims <= TENSOR_MAX_DIMS && !sizes_numel(n_dims, sizes, &n)) {
    for (int i = 0; i < n_dims; i++)
      if (sizes[i] < 0)
        return call_fail(cx, "Trying to create tensor with negative dimension %lld: %s",
                         (long long)sizes[i], sizes_print(&text, n_dims, sizes));
    return call_fail(cx, "numel: integer multiplication overflow");
  }
  return tensor_new_view(cx, st, dtype, n_dims, sizes, strides, 0, out);
}

rush_status sparse_new(call_ctx *cx, const sparse_parts *p, int n_dims, const int64_t *sizes,
                       rush_tensor **out)
{
  storage *st;
  if (dtype_class_of(p->values->dtype) == DTYPE_QUANT)
    return call_unsupported(cx, "sparse tensors of %s", dtype_name(p->values->dtype));
  TRY(storage_new(cx, ZERO_BYTES, &st));
  memset(st->data, 0, ZERO_BYTES);
  rush_tensor *t;
  rush_status s = new_header(cx, st, p->values->dtype, n_dims, sizes, &t);
  storage_release(st);
  TRY(s);
  if ((s = attach(cx, t, p)) != RUSH_OK)
    tensor_release(t);
  else
    *out = t;
  return s;
}

/* Make a contiguous, read-only copy of indices. */
static rush_status own_indices(call_ctx *cx, const rush_tensor *t, int dtype, rush_tensor **out)
{
  rush_tensor *own;
  if (tensor_sparse(t))
    return call_fail(cx, "indices must be a dense tensor, but got a sparse one");
  TRY(tensor_new(cx, dtype, t->n_dims, t->sizes, &own));
  rush_status st = tensor_copy(cx, own, t);
  if (st != RUSH_OK) {
    tensor_release(own);
    return st;
  }
  own->st->read_only = true;
  *out = own;
  return RUSH_OK;
}

static rush_status check_parts(call_ctx *cx, const sparse_parts *p, int n_dims,
                               const int64_t *sizes)
{
  if (n_dims > TENSOR_MAX_DIMS)
    return call_unsupported(cx, "tensors of %d dimensions (at most %d)", n_dims, TENSOR_MAX_DIMS);
  if (tensor_sparse(p->values))
    return call_fail(cx, "values must be a dense tensor, but got a sparse one");
  return p->layout == LAYOUT_COO ? check_coo_shapes(cx, p, n_dims, sizes)
                                 : check_csr_shapes(cx, p, n_dims, sizes);
}

rush_status sparse_new_checked(call_ctx *cx, const sparse_parts *p, int n_dims,
                               const int64_t *sizes, rush_tensor **out)
{
  sparse_parts own = *p;
  own.crow = own.indices = NULL;
  TRY(check_parts(cx, p, n_dims, sizes));
  const bool is_coo = p->layout == LAYOUT_COO;
  own.sparse_dim = is_coo ? (int)p->indices->sizes[0] : 2;
  rush_status st =
    own_indices(cx, p->indices, is_coo ? RUSH_INT64 : p->indices->dtype, &own.indices);
  if (st == RUSH_OK && !is_coo)
    st = own_indices(cx, p->crow, p->crow->dtype, &own.crow);
  if (st == RUSH_OK)
    st = is_coo ? check_coordinates(cx, own.indices, sizes) : check_compressed(cx, &own, sizes);
  if (st == RUSH_OK && is_coo && own.is_coalesced && !are_coalesced(cx, own.indices))
    st =
      call_over(cx)
        ? call_poll(cx)
        : call_fail(
            cx, "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor");
  if (st == RUSH_OK)
    st = sparse_new(cx, &own, n_dims, sizes, out);
  tensor_release(own.crow);
  tensor_release(own.indices);
  return st;
}

rush_status sparse_with_values(call_ctx *cx, const rush_tensor *t, rush_tensor *values,
                               rush_tensor **out)
{
  sparse_parts p = *tensor_sparse(t);
  ASSERT(values->sizes[sparse_batch_dims(&p)] == sparse_nnz(&p), "a value per index");
  p.values = values;
  return sparse_new(cx, &p, t->n_dims, t->sizes, out);
}

rush_status sparse_alias(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  rush_tensor *a;
  TRY(sparse_new(cx, tensor_sparse(t), t->n_dims, t->sizes, &a));
  a->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  *out = a;
  return RUSH_OK;
}

/* -- Changing ---------------------------------------------------------------------------------- */

rush_status sparse_assign(call_ctx *cx, rush_tensor *t, const rush_tensor *from)
{
  sparse_parts *to = t->extra->sparse;
  const sparse_parts *p = tensor_sparse(from);
  sizes_text a, b;
  if (t == from)
    return RUSH_OK;
  if (!p || p->layout != to->layout)
    return call_fail(cx, "a sparse tensor can only become one of the same layout in place");
  if (t->n_dims != from->n_dims ||
      memcmp(t->sizes, from->sizes, t->n_dims * sizeof *t->sizes) != 0 ||
      p->sparse_dim != to->sparse_dim)
    return call_fail(cx, "output with shape %s doesn't match the shape %s",
                     sizes_print(&a, t->n_dims, t->sizes),
                     sizes_print(&b, from->n_dims, from->sizes));
  (void)tensor_data_mut(
    t); /* it has another version; aliases of it, a record's among them, keep the parts they have */
  rush_tensor *made, *values;
  TRY(tensor_to_dtype(cx, p->values, t->dtype, &made));
  rush_status st = own_header(cx, made, &values);
  tensor_release(made);
  TRY(st);
  const sparse_parts old = *to;
  *to = *p;
  to->values = values;
  tensor_retain(to->crow);
  tensor_retain(to->indices);
  tensor_release(old.crow);
  tensor_release(old.indices);
  tensor_release(old.values);
  return RUSH_OK;
}

rush_status sparse_set_coalesced(call_ctx *cx, rush_tensor *t, bool on)
{
  sparse_parts *p = t->extra->sparse;
  if (on && !p->is_coalesced && !are_coalesced(cx, p->indices))
    return call_over(cx)
             ? call_poll(cx)
             : call_fail(
                 cx,
                 "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor");
  p->is_coalesced = on;
  return RUSH_OK;
}

rush_status sparse_refuse(call_ctx *cx, const rush_tensor *t, const char *what)
{
  return call_fail_type(
    cx, "NotImplementedError",
    "%s: expected a dense tensor, but got a sparse one (%s); pass tensor.to_dense()", what,
    tensor_layout(t) == LAYOUT_CSR ? "torch.sparse_csr" : "torch.sparse_coo");
}

const char *tensor_layout_word(const rush_tensor *t)
{
  static const char *const words[] = {"Strided", "Sparse", "SparseCsr"};
  return words[tensor_layout(t)];
}
