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
  const rush_value args[4] = {nn_arg(positions), value_bool(true), value_int(0),
                              value_bool(false)};
  return nn_invoke(cx, "aten::argsort", "stable", args, 4, out);
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

/* Make the parts of a coalesced t. */
static rush_status coalesce_parts(work *w, const rush_tensor *t, rush_tensor **indices,
                                  rush_tensor **values)
{
  call_ctx *cx = w->cx;
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), *from = p->indices->data;
  rush_tensor *positions = WORK_MAKE(w, coo_all_positions(cx, t, &w->made)),
              *order = WORK_MAKE(w, sorting_order(cx, positions, &w->made)),
              *group = work_new(w, RUSH_INT64, 1, &nnz);
  TRY(w->st);
  const int64_t n = number_groups(cx, positions->data, order->data, nnz, group->data);
  TRY(call_poll(cx));
  *indices = WORK_MAKE(w, coo_new_indices(cx, p->sparse_dim, n, &w->made));
  for (int64_t d = 0; d < p->sparse_dim; d++)
    WORK_DO(w, take_groups(cx, from + d * nnz, (int64_t *)(*indices)->data + d * n, order->data,
                           group->data, nnz));
  rush_tensor *sorted = WORK_MAKE(w, pick_rows(cx, p->values, order, &w->made));
  *values = WORK_MAKE(w, sum_rows(cx, sorted, group, n, &w->made));
  return w->st;
}

rush_status coo_coalesce(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  rush_tensor *indices = NULL, *values = NULL;
  if (tensor_sparse(t)->is_coalesced) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  work w = work_begin_part(cx);
  WORK_DO(&w, coalesce_parts(&w, t, &indices, &values));
  WORK_DO(&w, coo_new(cx, shape_of_sparse(t), indices, values, true, out));
  return work_end(&w);
}

rush_kernel kernel_sparse_coalesce;
rush_status kernel_sparse_coalesce(rush_call *c)
{
  TRY(need_coo(c->cx, call_tensor(c, 0), "coalesce"));
  return coo_coalesce(c->cx, call_tensor(c, 0), call_result(c, 0));
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
  if (p->layout == LAYOUT_COO) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  if (sparse_batch_dims(p))
    return call_unsupported(cx, "batches of torch.sparse_csr matrices in this operator");
  const int64_t nnz = sparse_nnz(p);
  bool is_sorted = false;
  work w = work_begin_part(cx);
  rush_tensor *crow = WORK_MAKE(&w, as_dtype(cx, p->crow, RUSH_INT64, &w.made)),
              *columns = WORK_MAKE(&w, as_dtype(cx, p->indices, RUSH_INT64, &w.made)),
              *indices = WORK_MAKE(&w, coo_new_indices(cx, 2, nnz, &w.made));
  int64_t *rows = indices->data;
  WORK_DO(&w, expand_rows(cx, crow->data, t->sizes[0], rows));
  if (w.st == RUSH_OK) {
    memcpy(rows + nnz, columns->data, (size_t)nnz * sizeof *rows);
    is_sorted = rows_are_sorted(cx, rows, rows + nnz, nnz);
  }
  WORK_DO(&w, coo_new(cx, (sparse_shape){t->n_dims, 2, t->sizes}, indices, p->values, is_sorted,
                      out));
  return work_end(&w);
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
  work w = work_begin_part(cx);
  rush_tensor *starts = work_new(&w, RUSH_INT64, 1, &n); /* no memory holds INT64_MAX of them */
  WORK_DO(&w, count_up_to(cx, (const int64_t *)p->indices->data + dim * nnz, nnz, starts->data,
                          size));
  return work_end_with(&w, starts, out);
}

/* Make compressed rows of coalesced coordinates. */
static rush_status compress(work *w, const rush_tensor *t, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p);
  rush_tensor *crow = WORK_MAKE(w, coo_starts(w->cx, t, 0, &w->made)),
              *columns = work_new(w, RUSH_INT64, 1, &nnz);
  TRY(w->st);
  memcpy(columns->data, (const int64_t *)p->indices->data + nnz, (size_t)nnz * sizeof(int64_t));
  crow->st->read_only = columns->st->read_only = true;
  const sparse_parts made = {
    .layout = LAYOUT_CSR, .sparse_dim = 2, .crow = crow, .indices = columns, .values = p->values};
  return sparse_new(w->cx, &made, t->n_dims, t->sizes, out);
}

rush_status sparse_to_csr(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  if (tensor_sparse(t)->sparse_dim != 2)
    return call_fail(cx,
                     "Only tensors with two sparse dimensions can be converted to the SparseCsr "
                     "layout, got self with %d sparse "
                     "dimensions.",
                     tensor_sparse(t)->sparse_dim);
  work w = work_begin_part(cx);
  const rush_tensor *sorted = WORK_MAKE(&w, coo_coalesce(cx, t, &w.made));
  WORK_DO(&w, compress(&w, sorted, out));
  return work_end(&w);
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
  work w = work_begin_part(cx);
  rush_tensor *crow = WORK_MAKE(&w, as_dtype(cx, p->crow, RUSH_INT64, &w.made)),
              *columns = WORK_MAKE(&w, as_dtype(cx, p->indices, RUSH_INT64, &w.made)),
              *positions = work_new(&w, RUSH_INT64, 1, &n);
  const int64_t *at = crow->data, *column = columns->data;
  int64_t *to = positions->data;
  for (int64_t b = 0; nnz && b < n / nnz && w.st == RUSH_OK; b++) {
    w.st = expand_rows(cx, at + b * (n_rows + 1), n_rows, to + b * nnz);
    for (int64_t k = b * nnz; k < (b + 1) * nnz && w.st == RUSH_OK; k++) {
      to[k] = (b * n_rows + to[k]) * n_columns + column[k];
      w.st = call_poll_at(cx, k);
    }
  }
  return work_end_with(&w, positions, out);
}

rush_status sparse_to_dense(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int n_first = p->layout == LAYOUT_COO ? p->sparse_dim : sparse_batch_dims(p) + 2,
            n_dense = t->n_dims - n_first;
  int64_t n = 1, sizes[TENSOR_MAX_DIMS] = {p->indices->n_elems};
  for (int i = 0; i < n_first; i++)
    n *= t->sizes[i];
  if (p->layout == LAYOUT_COO)
    sizes[0] = sparse_nnz(p);
  memcpy(sizes + 1, t->sizes + n_first, (size_t)n_dense * sizeof *sizes);
  work w = work_begin_part(cx);
  rush_tensor *positions =
                WORK_MAKE(&w, p->layout == LAYOUT_COO ? coo_all_positions(cx, t, &w.made)
                                                      : csr_positions(cx, t, &w.made)),
              *rows = WORK_MAKE(&w, reshaped(cx, p->values, 1 + n_dense, sizes, &w.made)),
              *sum = WORK_MAKE(&w, sum_rows(cx, rows, positions, n, &w.made));
  WORK_DO(&w, reshaped(cx, sum, t->n_dims, t->sizes, out));
  return work_end(&w);
}

/* to_dense, _to_dense: (self, dtype, masked_grad). */
rush_kernel kernel_sparse_to_dense, kernel_dense_to_dense;
rush_status kernel_sparse_to_dense(rush_call *c)
{
  if (!call_is_none(c, 1) && call_int(c, 1) != call_tensor(c, 0)->dtype)
    return call_fail(c->cx, "dtype argument is not supported by sparse_to_dense");
  return sparse_to_dense(c->cx, call_tensor(c, 0), call_result(c, 0));
}
rush_status kernel_dense_to_dense(rush_call *c)
{
  return as_dtype(c->cx, call_tensor(c, 0), call_dtype_or(c, 1, call_tensor(c, 0)->dtype),
                  call_result(c, 0));
}

/* -- From dense -------------------------------------------------------------------------------- */

/* Find which rows of [n, elements] have a nonzero element: bool [n]. */
static rush_tensor *rows_in_use(work *w, rush_tensor *rows)
{
  const rush_value zero[2] = {nn_arg(rows), value_int(0)};
  const rush_value any[3] = {nn_arg(work_invoke(w, "aten::ne", "Scalar", zero, 2)), value_int(1),
                             value_bool(false)};
  return work_invoke(w, "aten::any", "dim", any, 3);
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

rush_status dense_to_coo(call_ctx *cx, rush_tensor *t, int sparse_dim, rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS + 1], flat[2] = {1, 1};
  for (int i = 0; i < t->n_dims; i++)
    flat[i >= sparse_dim] *= t->sizes[i];
  work w = work_begin_part(cx);
  rush_tensor *rows = WORK_MAKE(&w, reshaped(cx, t, 2, flat, &w.made));
  const rush_value used = nn_arg(rows_in_use(&w, rows));
  rush_tensor *found = work_invoke(&w, "aten::nonzero", "", &used, 1);
  sizes[0] = found->n_elems;
  rush_tensor *at = WORK_MAKE(&w, reshaped(cx, found, 1, sizes, &w.made)),
              *indices = WORK_MAKE(&w, coo_new_indices(cx, sparse_dim, sizes[0], &w.made));
  WORK_DO(&w, unravel(cx, at->data, sizes[0], sparse_dim, t->sizes, indices->data));
  rush_tensor *picked = WORK_MAKE(&w, pick_rows(cx, rows, at, &w.made));
  for (int i = sparse_dim; i < t->n_dims; i++)
    sizes[1 + i - sparse_dim] = t->sizes[i];
  rush_tensor *values =
    WORK_MAKE(&w, reshaped(cx, picked, 1 + t->n_dims - sparse_dim, sizes, &w.made));
  WORK_DO(&w, coo_new(cx, (sparse_shape){t->n_dims, sparse_dim, t->sizes}, indices, values, true,
                      out));
  return work_end(&w);
}

static rush_status return_dense_as_csr(rush_call *c, int sparse_dim)
{
  work w = work_begin(c);
  rush_tensor *coo = WORK_MAKE(&w, dense_to_coo(c->cx, call_tensor(c, 0), sparse_dim, &w.made));
  WORK_DO(&w, sparse_to_csr(c->cx, coo, call_result(c, 0)));
  return work_end(&w);
}

/* to_sparse_csr(self, dense_dim) */
rush_kernel kernel_to_sparse_csr;
static rush_status to_csr(rush_call *c, uint32_t dense_arg)
{
  rush_tensor *t = call_tensor(c, 0);
  const int64_t dense_dim = call_int_or(c, dense_arg, 0);
  if (tensor_layout(t) != LAYOUT_STRIDED && !call_is_none(c, dense_arg))
    return call_fail(c->cx, "dense_dim argument is not allowed for a sparse tensor");
  if (tensor_layout(t) == LAYOUT_CSR) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (tensor_layout(t) == LAYOUT_COO)
    return sparse_to_csr(c->cx, t, call_result(c, 0));
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
  rush_tensor *t = call_tensor(c, 0);
  const int most = t->n_dims;
  if (sparse_dim < (most > 0) || sparse_dim > most)
    return call_fail(c->cx, "sparse_dim argument must be in [%d,%d] range, but %lld is given",
                     most > 0, most, (long long)sparse_dim);
  return dense_to_coo(c->cx, t, (int)sparse_dim, call_result(c, 0));
}

/* Convert a sparse tensor to coordinates of sparse_dim, or of as many as it has. */
static rush_status sparse_as_coo(rush_call *c, int64_t sparse_dim)
{
  rush_tensor *t = call_tensor(c, 0);
  if (tensor_layout(t) == LAYOUT_COO && sparse_dim < 0) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (sparse_dim >= 0 && sparse_dim != tensor_sparse(t)->sparse_dim)
    return call_fail(c->cx,
                     "to_sparse: conversion from %s to Sparse with sparse_dim argument "
                     "!=self.sparse_dim() is not supported",
                     tensor_layout_word(t));
  return sparse_to_coo(c->cx, t, call_result(c, 0));
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
