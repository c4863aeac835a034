/* ops/kernels/sparse/sparse_convert.c -- conversions between layouts: sparse to dense and back,
 * coordinates to compressed rows, and coalescing.
 *
 * Coordinates are sorted by their row-major position in the sparse dimensions, stably, so that
 * duplicates are added in their original order, as in PyTorch: O(nnz log nnz). */
#include "ops/kernels/sparse/sparse.h"
#include "ops/kernels/views.h"

/* -- Coalescing -------------------------------------------------------------------------------- */

/* Compute the order that sorts positions, stably: int64 [nnz]. */
static rush_status sorting_order(call_ctx *cx, rush_tensor *positions, rush_tensor **out)
{
  const rush_value args[4] = {tensor_value(positions), value_bool(true), value_int(0),
                              value_bool(false)};
  return apply(cx, "aten::argsort", "stable", args, 4, out);
}

/* Number the distinct positions: group[k] for the k-th in order; returns the number of groups. */
static int64_t number_groups(const call_ctx *cx, const int64_t *positions, const int64_t *order,
                             int64_t n, int64_t *group)
{
  int64_t n_groups = 0;
  for (int64_t k = 0; k < n; k++) {
    n_groups += k == 0 || positions[order[k]] != positions[order[k - 1]];
    group[k] = n_groups - 1;
    if (call_over_at(cx, k))
      return n_groups;
  }
  return n_groups;
}

/* Copy row `from` of coordinates, of n elements, to row `to`, with one for each group. */
static rush_status take_groups(call_ctx *cx, const int64_t *from, int64_t *to, const int64_t *order,
                               const int64_t *group, int64_t n)
{
  for (int64_t k = 0; k < n; k++) {
    TRY(call_poll_at(cx, k));
    to[group[k]] = from[order[k]];
  }
  return RUSH_OK;
}

typedef struct coalescing {
  rush_tensor *positions, *order, *group, *sorted, *indices, *values;
} coalescing;

static rush_status coalesce_parts(call_ctx *cx, const rush_tensor *t, coalescing *w)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p);
  TRY(coo_all_positions(cx, t, &w->positions));
  TRY(sorting_order(cx, w->positions, &w->order));
  TRY(tensor_new(cx, RUSH_INT64, 1, &nnz, &w->group));
  const int64_t n = number_groups(cx, w->positions->data, w->order->data, nnz, w->group->data);
  TRY(call_poll(cx));
  TRY(coo_new_indices(cx, p->sparse_dim, n, &w->indices));
  for (int64_t d = 0; d < p->sparse_dim; d++)
    TRY(take_groups(cx, (const int64_t *)p->indices->data + d * nnz,
                    (int64_t *)w->indices->data + d * n, w->order->data, w->group->data, nnz));
  TRY(pick_rows(cx, p->values, w->order, &w->sorted));
  return sum_rows(cx, w->sorted, w->group, n, &w->values);
}

rush_status coo_coalesce(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  coalescing w = {0};
  const sparse_parts *p = tensor_sparse(t);
  if (p->is_coalesced) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  rush_status st = coalesce_parts(cx, t, &w);
  tensor_release(w.positions);
  tensor_release(w.order);
  tensor_release(w.group);
  tensor_release(w.sorted);
  return coo_new_steal(cx, st, shape_of_sparse(t), w.indices, w.values, true, out);
}

rush_kernel kernel_sparse_coalesce;
rush_status kernel_sparse_coalesce(rush_call *c)
{
  rush_tensor *r;
  TRY(need_coo(c->cx, call_tensor(c, 0), "coalesce"));
  TRY(coo_coalesce(c->cx, call_tensor(c, 0), &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* -- Compressed rows and coordinates ----------------------------------------------------------- */

static rush_status expand_rows(call_ctx *cx, const int64_t *crow, int64_t n_rows, int64_t *rows)
{
  for (int64_t r = 0; r < n_rows; r++) {
    TRY(call_poll_at(cx, r));
    for (int64_t k = crow[r]; k < crow[r + 1]; k++) {
      TRY(call_poll_at(cx, k));
      rows[k] = r;
    }
  }
  return RUSH_OK;
}

/* True if each row's columns are sorted; false also if the call must end. */
static bool rows_are_sorted(const call_ctx *cx, const int64_t *rows, const int64_t *columns,
                            int64_t n)
{
  for (int64_t k = 1; k < n; k++)
    if ((rows[k] == rows[k - 1] && columns[k] <= columns[k - 1]) || call_over_at(cx, k))
      return false;
  return true;
}

rush_status sparse_to_coo(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  rush_tensor *crow, *columns, *indices = NULL;
  if (p->layout == LAYOUT_COO) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  if (sparse_batch_dims(p))
    return call_unsupported(cx, "batches of torch.sparse_csr matrices in this operator");
  TRY(as_dtype(cx, p->crow, RUSH_INT64, &crow));
  rush_status st = as_dtype(cx, p->indices, RUSH_INT64, &columns);
  if (st != RUSH_OK) {
    tensor_release(crow);
    return st;
  }
  const int64_t nnz = sparse_nnz(p);
  bool is_sorted = false;
  st = coo_new_indices(cx, 2, nnz, &indices);
  if (st == RUSH_OK) {
    int64_t *rows = indices->data;
    st = expand_rows(cx, crow->data, t->sizes[0], rows);
    memcpy(rows + nnz, columns->data, (size_t)nnz * sizeof *rows);
    is_sorted = st == RUSH_OK && rows_are_sorted(cx, rows, rows + nnz, nnz);
  }
  tensor_release(crow);
  tensor_release(columns);
  return coo_new_steal(cx, st, (sparse_shape){t->n_dims, 2, t->sizes}, indices,
                       tensor_retain(p->values), is_sorted, out);
}

/* Count: starts[i + 1] is the number of elements whose coordinate is at most i. */
static rush_status count_up_to(call_ctx *cx, const int64_t *row, int64_t nnz, int64_t *starts,
                               int64_t size)
{
  memset(starts, 0, (size_t)(size + 1) * sizeof *starts);
  for (int64_t k = 0; k < nnz; k++) {
    TRY(call_poll_at(cx, k));
    starts[row[k] + 1]++;
  }
  for (int64_t i = 0; i < size; i++) {
    TRY(call_poll_at(cx, i));
    starts[i + 1] += starts[i];
  }
  return RUSH_OK;
}

rush_status coo_starts(call_ctx *cx, const rush_tensor *t, int dim, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), size = t->sizes[dim], n = size + (size < INT64_MAX);
  rush_tensor *starts;
  TRY(tensor_new(cx, RUSH_INT64, 1, &n, &starts)); /* no memory holds INT64_MAX of them */
  rush_status st =
    count_up_to(cx, (const int64_t *)p->indices->data + dim * nnz, nnz, starts->data, size);
  if (st != RUSH_OK)
    tensor_release(starts);
  else
    *out = starts;
  return st;
}

static rush_status compress(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p);
  rush_tensor *crow, *columns = NULL;
  TRY(coo_starts(cx, t, 0, &crow));
  rush_status st = tensor_new(cx, RUSH_INT64, 1, &nnz, &columns);
  if (st == RUSH_OK) {
    memcpy(columns->data, (const int64_t *)p->indices->data + nnz, (size_t)nnz * sizeof(int64_t));
    crow->st->read_only = columns->st->read_only = true;
    const sparse_parts made = {
      .layout = LAYOUT_CSR, .sparse_dim = 2, .crow = crow, .indices = columns, .values = p->values};
    st = sparse_new(cx, &made, t->n_dims, t->sizes, out);
  }
  tensor_release(crow);
  tensor_release(columns);
  return st;
}

rush_status sparse_to_csr(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  rush_tensor *sorted;
  if (tensor_sparse(t)->sparse_dim != 2)
    return call_fail(cx,
                     "Only tensors with two sparse dimensions can be converted to the SparseCsr "
                     "layout, got self with %d sparse "
                     "dimensions.",
                     tensor_sparse(t)->sparse_dim);
  TRY(coo_coalesce(cx, t, &sorted));
  rush_status st = compress(cx, sorted, out);
  tensor_release(sorted);
  return st;
}

/* -- To dense ---------------------------------------------------------------------------------- */

/* Compute the position of every element of batches of compressed rows among all batches, rows and
 * columns. */
static rush_status csr_positions(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int batch = sparse_batch_dims(p);
  const int64_t n_rows = t->sizes[batch], n_columns = t->sizes[batch + 1], nnz = sparse_nnz(p),
                n = p->indices->n_elems;
  rush_tensor *crow, *columns = NULL;
  TRY(as_dtype(cx, p->crow, RUSH_INT64, &crow));
  rush_status st = as_dtype(cx, p->indices, RUSH_INT64, &columns);
  if (st == RUSH_OK && (st = tensor_new(cx, RUSH_INT64, 1, &n, out)) == RUSH_OK) {
    const int64_t *at = crow->data, *column = columns->data;
    int64_t *to = (*out)->data;
    for (int64_t b = 0; nnz && b < n / nnz && st == RUSH_OK; b++) {
      st = expand_rows(cx, at + b * (n_rows + 1), n_rows, to + b * nnz);
      for (int64_t k = b * nnz; k < (b + 1) * nnz && st == RUSH_OK; k++) {
        to[k] = (b * n_rows + to[k]) * n_columns + column[k];
        st = call_poll_at(cx, k);
      }
    }
  }
  tensor_release(crow);
  tensor_release(columns);
  return st;
}

rush_status sparse_to_dense(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int n_first = p->layout == LAYOUT_COO ? p->sparse_dim : sparse_batch_dims(p) + 2,
            n_dense = t->n_dims - n_first;
  int64_t n = 1, sizes[TENSOR_MAX_DIMS] = {p->indices->n_elems};
  rush_tensor *positions = NULL, *rows = NULL, *sum = NULL;
  for (int i = 0; i < n_first; i++)
    n *= t->sizes[i];
  if (p->layout == LAYOUT_COO)
    sizes[0] = sparse_nnz(p);
  memcpy(sizes + 1, t->sizes + n_first, (size_t)n_dense * sizeof *sizes);
  rush_status st = p->layout == LAYOUT_COO ? coo_all_positions(cx, t, &positions)
                                           : csr_positions(cx, t, &positions);
  if (st == RUSH_OK)
    st = reshaped(cx, p->values, 1 + n_dense, sizes, &rows);
  if (st == RUSH_OK)
    st = sum_rows(cx, rows, positions, n, &sum);
  if (st == RUSH_OK)
    st = reshaped(cx, sum, t->n_dims, t->sizes, out);
  tensor_release(positions);
  tensor_release(rows);
  tensor_release(sum);
  return st;
}

/* to_dense, _to_dense: (self, dtype, masked_grad). */
rush_kernel kernel_sparse_to_dense, kernel_dense_to_dense;
rush_status kernel_sparse_to_dense(rush_call *c)
{
  rush_tensor *r;
  if (!call_is_none(c, 1) && call_int(c, 1) != call_tensor(c, 0)->dtype)
    return call_fail(c->cx, "dtype argument is not supported by sparse_to_dense");
  TRY(sparse_to_dense(c->cx, call_tensor(c, 0), &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}
rush_status kernel_dense_to_dense(rush_call *c)
{
  rush_tensor *r;
  TRY(as_dtype(c->cx, call_tensor(c, 0), call_dtype_or(c, 1, call_tensor(c, 0)->dtype), &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* -- From dense -------------------------------------------------------------------------------- */

/* Find which rows of [n, elements] have a nonzero element: bool [n]. */
static rush_status rows_in_use(call_ctx *cx, rush_tensor *rows, rush_tensor **out)
{
  rush_tensor *used;
  const rush_value zero[2] = {tensor_value(rows), value_int(0)};
  TRY(apply(cx, "aten::ne", "Scalar", zero, 2, &used));
  const rush_value any[3] = {tensor_value(used), value_int(1), value_bool(false)};
  rush_status st = apply(cx, "aten::any", "dim", any, 3, out);
  tensor_release(used);
  return st;
}

/* Convert positions[n] to row-major coordinates in indices [n_dims, n]. */
static rush_status unravel(call_ctx *cx, const int64_t *positions, int64_t n, int n_dims,
                           const int64_t *sizes, int64_t *indices)
{
  for (int64_t k = 0; k < n; k++) {
    int64_t at = positions[k];
    TRY(call_poll_at(cx, k));
    for (int d = n_dims - 1; d >= 0; d--) {
      indices[d * n + k] = at % sizes[d];
      at /= sizes[d];
    }
  }
  return RUSH_OK;
}

typedef struct finding {
  rush_tensor *rows, *used, *found, *at, *indices, *picked, *values;
} finding;

static rush_status find_elements(call_ctx *cx, rush_tensor *t, int sparse_dim, finding *w)
{
  int64_t sizes[TENSOR_MAX_DIMS + 1], flat[2] = {1, 1};
  for (int i = 0; i < t->n_dims; i++)
    flat[i >= sparse_dim] *= t->sizes[i];
  TRY(reshaped(cx, t, 2, flat, &w->rows));
  TRY(rows_in_use(cx, w->rows, &w->used));
  const rush_value nonzero = tensor_value(w->used);
  TRY(apply(cx, "aten::nonzero", "", &nonzero, 1, &w->found));
  sizes[0] = w->found->n_elems;
  TRY(reshaped(cx, w->found, 1, sizes, &w->at));
  TRY(coo_new_indices(cx, sparse_dim, sizes[0], &w->indices));
  TRY(unravel(cx, w->at->data, sizes[0], sparse_dim, t->sizes, w->indices->data));
  TRY(pick_rows(cx, w->rows, w->at, &w->picked));
  for (int i = sparse_dim; i < t->n_dims; i++)
    sizes[1 + i - sparse_dim] = t->sizes[i];
  return reshaped(cx, w->picked, 1 + t->n_dims - sparse_dim, sizes, &w->values);
}

rush_status dense_to_coo(call_ctx *cx, rush_tensor *t, int sparse_dim, rush_tensor **out)
{
  finding w = {0};
  rush_status st = find_elements(cx, t, sparse_dim, &w);
  tensor_release(w.rows);
  tensor_release(w.used);
  tensor_release(w.found);
  tensor_release(w.at);
  tensor_release(w.picked);
  return coo_new_steal(cx, st, (sparse_shape){t->n_dims, sparse_dim, t->sizes}, w.indices, w.values,
                       true, out);
}

static rush_status return_dense_as_csr(rush_call *c, int sparse_dim)
{
  rush_tensor *coo, *csr;
  TRY(dense_to_coo(c->cx, call_tensor(c, 0), sparse_dim, &coo));
  rush_status st = sparse_to_csr(c->cx, coo, &csr);
  tensor_release(coo);
  if (st == RUSH_OK)
    call_return_steal(c, 0, csr);
  return st;
}

/* to_sparse_csr(self, dense_dim) */
rush_kernel kernel_to_sparse_csr;
static rush_status to_csr(rush_call *c, uint32_t dense_arg)
{
  rush_tensor *t = call_tensor(c, 0), *r;
  const int64_t dense_dim = call_int_or(c, dense_arg, 0);
  if (tensor_layout(t) != LAYOUT_STRIDED && !call_is_none(c, dense_arg))
    return call_fail(c->cx, "dense_dim argument is not allowed for a sparse tensor");
  if (tensor_layout(t) == LAYOUT_CSR) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (tensor_layout(t) == LAYOUT_COO) {
    TRY(sparse_to_csr(c->cx, t, &r));
    call_return_steal(c, 0, r);
    return RUSH_OK;
  }
  if (dense_dim < 0 || t->n_dims - dense_dim < 2)
    return call_fail(c->cx,
                     "to_sparse_csr: expected a dense tensor of at least 2 dimensions besides %lld "
                     "dense ones, but got %d-D",
                     (long long)dense_dim, t->n_dims);
  if (t->n_dims - dense_dim > 2)
    return call_unsupported(c->cx, "to_sparse_csr of batches of matrices");
  return return_dense_as_csr(c, 2);
}
rush_status kernel_to_sparse_csr(rush_call *c) { return to_csr(c, 1); }

/* to_sparse.sparse_dim(self, sparse_dim) */
rush_kernel kernel_to_sparse_dim, kernel_to_sparse;
static rush_status to_coo(rush_call *c, int64_t sparse_dim)
{
  rush_tensor *t = call_tensor(c, 0), *r;
  const int most = t->n_dims;
  if (sparse_dim < (most > 0) || sparse_dim > most)
    return call_fail(c->cx, "sparse_dim argument must be in [%d,%d] range, but %lld is given",
                     most > 0, most, (long long)sparse_dim);
  TRY(dense_to_coo(c->cx, t, (int)sparse_dim, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* Convert a sparse tensor to coordinates of sparse_dim, or of as many as it has. */
static rush_status sparse_as_coo(rush_call *c, int64_t sparse_dim)
{
  rush_tensor *t = call_tensor(c, 0), *r;
  if (tensor_layout(t) == LAYOUT_COO && sparse_dim < 0) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (sparse_dim >= 0 && sparse_dim != tensor_sparse(t)->sparse_dim)
    return call_fail(c->cx,
                     "to_sparse: conversion from %s to Sparse with sparse_dim argument "
                     "!=self.sparse_dim() is not supported",
                     tensor_layout_word(t));
  TRY(sparse_to_coo(c->cx, t, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}
rush_status kernel_to_sparse_dim(rush_call *c)
{
  return tensor_sparse(call_tensor(c, 0)) ? sparse_as_coo(c, call_int(c, 1))
                                          : to_coo(c, call_int(c, 1));
}

/* to_sparse(self, *, layout, blocksize, dense_dim) */
rush_status kernel_to_sparse(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  const int64_t layout = call_int_or(c, 1, LAYOUT_COO), dense_dim = call_int_or(c, 3, 0);
  if (!call_is_none(c, 2))
    return call_fail(
      c->cx, "to_sparse: blocksize is for the layouts of blocks, which are not supported here");
  if (layout == LAYOUT_CSR)
    return to_csr(c, 3);
  if (layout != LAYOUT_COO)
    return call_unsupported(
      c->cx, "to_sparse to layouts other than torch.sparse_coo and torch.sparse_csr");
  if (tensor_sparse(t))
    return sparse_as_coo(c, -1);
  return to_coo(c, dense_dim < 0 || dense_dim > t->n_dims ? -1 : t->n_dims - dense_dim);
}
