/* ops/kernels/sparse/sparse_shape.c -- dimensions of sparse tensors: permuted, selected, inserted,
 * joined; and tensors like others. */
#include "ops/kernels/layout/factory.h"
#include "ops/kernels/sparse/sparse.h"

/* -- Order ------------------------------------------------------------------------------------- */

/* Permute t's dimensions in the order of dims: sparse ones remain sparse. */
static rush_status permute(call_ctx *cx, rush_tensor *t, const int *dims, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), *from = p->indices->data;
  int64_t sizes[TENSOR_MAX_DIMS], order[TENSOR_MAX_DIMS + 1] = {0};
  rush_value list;
  bool same = true;
  for (int i = 0; i < t->n_dims; i++) {
    sizes[i] = t->sizes[dims[i]];
    same &= i >= p->sparse_dim || dims[i] == i;
    if (i >= p->sparse_dim)
      order[1 + i - p->sparse_dim] = 1 + dims[i] - p->sparse_dim;
  }
  TRY(list_of_ints(cx, order, (size_t)p->values->n_dims, &list));
  const rush_value args[2] = {nn_arg(p->values), list};
  work w = work_begin_part(cx);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(cx, p->sparse_dim, nnz, &w.made)),
              *values = work_invoke(&w, "aten::permute", "", args, 2);
  value_release(list);
  for (int d = 0; d < p->sparse_dim && w.st == RUSH_OK; d++)
    memcpy((int64_t *)indices->data + d * nnz, from + dims[d] * nnz, (size_t)nnz * sizeof *from);
  WORK_DO(&w, coo_new(cx, (sparse_shape){t->n_dims, p->sparse_dim, sizes}, indices, values,
                      same && p->is_coalesced, out));
  return work_end(&w);
}

static rush_status transpose(rush_call *c, int64_t a, int64_t b)
{
  rush_tensor *t = call_tensor(c, 0);
  int dims[TENSOR_MAX_DIMS], x, y;
  TRY(dim_wrap(c->cx, a, t->n_dims, &x));
  TRY(dim_wrap(c->cx, b, t->n_dims, &y));
  if (tensor_layout(t) == LAYOUT_CSR)
    return call_unsupported(c->cx, "transposing a torch.sparse_csr tensor gives a torch.sparse_csc "
                                   "one, which is not known here: use "
                                   "tensor.to_sparse().t()");
  const int n = tensor_sparse(t)->sparse_dim;
  if (x != y && (x >= n || y >= n))
    return call_fail(
      c->cx,
      "sparse transpose: transposed dimensions must be sparse Got sparse_dim: %d, d0: %d, d1: %d",
      n, x, y);
  for (int i = 0; i < t->n_dims; i++)
    dims[i] = i == x ? y : i == y ? x : i;
  return permute(c->cx, t, dims, call_result(c, 0));
}

rush_kernel kernel_sparse_t, kernel_sparse_transpose, kernel_sparse_permute;
rush_status kernel_sparse_t(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  const int dense = t->n_dims - tensor_sparse(t)->sparse_dim;
  if (tensor_layout(t) == LAYOUT_COO && (tensor_sparse(t)->sparse_dim > 2 || dense))
    return call_fail(c->cx,
                     "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got %d "
                     "sparse and %d dense dimensions",
                     tensor_sparse(t)->sparse_dim, dense);
  return transpose(c, 0, t->n_dims < 2 ? 0 : 1);
}
rush_status kernel_sparse_transpose(rush_call *c)
{
  return transpose(c, call_int(c, 1), call_int(c, 2));
}

rush_status kernel_sparse_permute(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  int64_t asked[TENSOR_MAX_DIMS];
  int dims[TENSOR_MAX_DIMS];
  bool seen[TENSOR_MAX_DIMS] = {false};
  const int n = call_ints(c, 1, asked, TENSOR_MAX_DIMS);
  TRY(need_coo(c->cx, t, "permute"));
  if (n != t->n_dims)
    return call_fail(c->cx,
                     "permute(sparse_coo): number of dimensions in the tensor input does not match "
                     "the length of the desired "
                     "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
                     t->n_dims, n);
  for (int i = 0; i < n; i++) {
    TRY(dim_wrap(c->cx, asked[i], n, &dims[i]));
    if (seen[dims[i]])
      return call_fail(c->cx, "permute(): duplicate dims are not allowed.");
    seen[dims[i]] = true;
    if ((i < tensor_sparse(t)->sparse_dim) != (dims[i] < tensor_sparse(t)->sparse_dim))
      return call_unsupported(c->cx, "permute that exchanges sparse and dense dimensions");
  }
  return permute(c->cx, t, dims, call_result(c, 0));
}

/* -- Parts ------------------------------------------------------------------------------------- */

/* Make a tensor of the elements in `at` (int64), with row `drop` of coordinates removed (-1: none)
 * or replaced. */
static rush_status take_elements(call_ctx *cx, const rush_tensor *t, rush_tensor *at, int drop,
                                 const int64_t *replace, sparse_shape shape, bool is_coalesced,
                                 rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), n = at->n_elems, *from = p->indices->data, *which = at->data;
  work w = work_begin_part(cx);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(cx, shape.sparse_dim, n, &w.made));
  int64_t *to = indices->data;
  for (int d = 0; d < p->sparse_dim && w.st == RUSH_OK; d++) {
    if (d == drop && !replace)
      continue;
    for (int64_t k = 0; k < n && !call_over_at(cx, k); k++)
      to[k] = d == drop ? replace[k] : from[d * nnz + which[k]];
    to += n;
  }
  WORK_DO(&w, call_poll(cx));
  rush_tensor *values = WORK_MAKE(&w, pick_rows(cx, p->values, at, &w.made));
  WORK_DO(&w, coo_new(cx, shape, indices, values, is_coalesced, out));
  return work_end(&w);
}

/* Find the elements that have `index` as coordinate `dim`. */
static rush_status find_equal(call_ctx *cx, const rush_tensor *t, int dim, int64_t index,
                              rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), *row = (const int64_t *)p->indices->data + dim * nnz;
  int64_t n = 0;
  for (int64_t k = 0; k < nnz; k++) {
    TRY(call_poll_at(cx, k));
    n += row[k] == index;
  }
  work w = work_begin_part(cx);
  rush_tensor *found = work_new(&w, RUSH_INT64, 1, &n);
  int64_t *to = found->data;
  for (int64_t k = 0; k < nnz && w.st == RUSH_OK; k++) {
    if (row[k] == index)
      *to++ = k;
    w.st = call_poll_at(cx, k);
  }
  return work_end_with(&w, found, out);
}

static void sizes_without(const rush_tensor *t, int dim, int64_t *sizes)
{
  for (int i = 0, n = 0; i < t->n_dims; i++)
    if (i != dim)
      sizes[n++] = t->sizes[i];
}

/* Select t[..., index, ...] along a sparse dimension: dense if it was the only one. */
static rush_status select_sparse(call_ctx *cx, const rush_tensor *t, int dim, int64_t index,
                                 rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  int64_t sizes[TENSOR_MAX_DIMS], first = 0;
  rush_value list = value_none();
  sizes_without(t, dim, sizes);
  const sparse_shape shape = {t->n_dims - 1, p->sparse_dim - 1, sizes};
  work w = work_begin_part(cx);
  rush_tensor *at = WORK_MAKE(&w, find_equal(cx, t, dim, index, &w.made));
  if (p->sparse_dim > 1) {
    WORK_DO(&w, take_elements(cx, t, at, dim, NULL, shape, p->is_coalesced, out));
    return work_end(&w);
  }
  rush_tensor *rows = WORK_MAKE(&w, pick_rows(cx, p->values, at, &w.made));
  WORK_DO(&w, list_of_ints(cx, &first, 1, &list));
  const rush_value args[4] = {nn_arg(rows), list, value_bool(false), value_int(rows->dtype)};
  rush_tensor *sum = work_invoke(&w, "aten::sum", "dim_IntList", args, 4);
  value_release(list);
  return work_end_with(&w, sum, out);
}

/* Apply an operator that changes a dense dimension to t's values. */
static rush_status with_dense(call_ctx *cx, const rush_tensor *t, const char *name,
                              const char *overload, const rush_value *args, uint32_t n_args,
                              rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  int64_t sizes[TENSOR_MAX_DIMS + 1];
  work w = work_begin_part(cx);
  rush_tensor *values = work_invoke(&w, name, overload, args, n_args);
  TRY(w.st);
  memcpy(sizes, t->sizes, (size_t)p->sparse_dim * sizeof *sizes);
  memcpy(sizes + p->sparse_dim, values->sizes + 1, (size_t)(values->n_dims - 1) * sizeof *sizes);
  const sparse_shape shape = {p->sparse_dim + values->n_dims - 1, p->sparse_dim, sizes};
  WORK_DO(&w, coo_new(cx, shape, p->indices, values, p->is_coalesced, out));
  return work_end(&w);
}

rush_kernel kernel_sparse_select, kernel_sparse_index_select, kernel_sparse_unsqueeze;
/* select.int(self, dim, index) */
rush_status kernel_sparse_select(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  int64_t index = call_int(c, 2);
  int dim;
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError", "select() cannot be applied to a 0-dim tensor.");
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &dim));
  if (index < -t->sizes[dim] || index >= t->sizes[dim])
    return call_fail_type(
      c->cx, "IndexError",
      "select(): index %lld out of range for tensor of size %lld at dimension %d", (long long)index,
      (long long)t->sizes[dim], dim);
  index += index < 0 ? t->sizes[dim] : 0;
  work w = work_begin(c);
  rush_tensor *coo = WORK_MAKE(&w, sparse_to_coo(c->cx, t, &w.made)), **out = call_result(c, 0);
  const sparse_parts *p = tensor_sparse(coo);
  if (w.st == RUSH_OK && dim < p->sparse_dim) {
    w.st = select_sparse(c->cx, coo, dim, index, out);
  } else if (w.st == RUSH_OK) {
    const rush_value args[3] = {nn_arg(p->values), value_int(1 + dim - p->sparse_dim),
                                value_int(index)};
    w.st = with_dense(c->cx, coo, "aten::select", "int", args, 3, out);
  }
  return work_end(&w);
}

/* Sort the elements by their coordinate in `dim`, count those of each wanted index, and list them
 * in the requested order, with the positions of their
 * indices. */
static rush_status list_wanted(work *w, const rush_tensor *t, int dim, const rush_tensor *index,
                               rush_tensor **elements, rush_tensor **places)
{
  call_ctx *cx = w->cx;
  const int64_t nnz = sparse_nnz(tensor_sparse(t)), n_wanted = index->n_elems,
                *wanted = index->data;
  const int64_t *row = (const int64_t *)tensor_sparse(t)->indices->data + dim * nnz;
  int64_t n = 0, at = 0;
  rush_tensor *starts = WORK_MAKE(w, coo_starts(cx, t, dim, &w->made)),
              *order = work_new(w, RUSH_INT64, 1, &nnz);
  int64_t *start = starts->data;
  for (int64_t k = 0; k < nnz && w->st == RUSH_OK; k++) {
    ((int64_t *)order->data)[start[row[k]]++] = k; /* start[i] is where i ends from here on */
    w->st = call_poll_at(cx, k);
  }
  for (int64_t i = 0; i < n_wanted && w->st == RUSH_OK; i++) {
    n += start[wanted[i]] - (wanted[i] ? start[wanted[i] - 1] : 0);
    w->st = call_poll_at(cx, i);
  }
  *elements = work_new(w, RUSH_INT64, 1, &n);
  *places = work_new(w, RUSH_INT64, 1, &n);
  TRY(w->st);
  for (int64_t i = 0; i < n_wanted; i++)
    for (int64_t k = wanted[i] ? start[wanted[i] - 1] : 0; k < start[wanted[i]]; k++, at++) {
      ((int64_t *)(*elements)->data)[at] = ((const int64_t *)order->data)[k];
      ((int64_t *)(*places)->data)[at] = i;
      if (call_over_at(cx, at))
        break;
    }
  return call_poll(cx);
}

static rush_status index_select(call_ctx *cx, rush_tensor *t, int dim, rush_tensor *wanted,
                                rush_tensor **out)
{
  rush_tensor *at, *place;
  int64_t sizes[TENSOR_MAX_DIMS];
  memcpy(sizes, t->sizes, t->n_dims * sizeof *sizes);
  sizes[dim] = wanted->n_elems;
  work w = work_begin_part(cx);
  WORK_DO(&w, list_wanted(&w, t, dim, wanted, &at, &place));
  WORK_DO(&w, take_elements(cx, t, at, dim, place->data,
                            (sparse_shape){t->n_dims, tensor_sparse(t)->sparse_dim, sizes}, false,
                            out));
  return work_end(&w);
}

/* Convert indices to int64, without negative numbers: new. */
static rush_status check_wanted(call_ctx *cx, rush_tensor *index, int64_t size, rush_tensor **out)
{
  if (index->n_dims > 1 || tensor_sparse(index) ||
      (index->dtype != RUSH_INT64 && index->dtype != RUSH_INT32))
    return call_fail_type(cx, "IndexError",
                          "index_select() argument index must be 1-D integer tensor.");
  work w = work_begin_part(cx);
  rush_tensor *own = work_new(&w, RUSH_INT64, index->n_dims, index->sizes);
  WORK_DO(&w, tensor_copy(cx, own, index));
  for (int64_t i = 0; i < own->n_elems && w.st == RUSH_OK; i++) {
    int64_t *v = (int64_t *)own->data + i;
    if (*v < -size || *v >= size)
      w.st = call_fail_type(
        cx, "IndexError",
        "index_select(): index contains %lld that is out of range for tensor of size %lld",
        (long long)*v, (long long)size);
    *v += *v < 0 ? size : 0;
    WORK_DO(&w, call_poll_at(cx, i));
  }
  return work_end_with(&w, own, out);
}

/* index_select(self, dim, index) */
rush_status kernel_sparse_index_select(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *wanted;
  int dim;
  if (tensor_layout(t) != LAYOUT_COO)
    return sparse_refuse_call(c, tensor_sparse(t) ? t : call_tensor(c, 2));
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError",
                          "index_select() cannot be applied to a 0-dim tensor.");
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &dim));
  TRY(check_wanted(c->cx, call_tensor(c, 2), t->sizes[dim], &wanted));
  const sparse_parts *p = tensor_sparse(t);
  const rush_value args[3] = {nn_arg(p->values), value_int(1 + dim - p->sparse_dim),
                              nn_arg(wanted)};
  rush_status st = dim < p->sparse_dim
                     ? index_select(c->cx, t, dim, wanted, call_result(c, 0))
                     : with_dense(c->cx, t, "aten::index_select", "", args, 3, call_result(c, 0));
  tensor_release(wanted);
  return st;
}

/* unsqueeze(self, dim) */
rush_status kernel_sparse_unsqueeze(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  int dim;
  TRY(need_coo(c->cx, t, "unsqueeze"));
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims + 1, &dim));
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), *from = p->indices->data;
  const rush_value args[2] = {nn_arg(p->values), value_int(1 + dim - p->sparse_dim)};
  int64_t sizes[TENSOR_MAX_DIMS + 1];
  if (dim > p->sparse_dim)
    return with_dense(c->cx, t, "aten::unsqueeze", "", args, 2, call_result(c, 0));
  if (t->n_dims == TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS);
  work w = work_begin(c);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(c->cx, p->sparse_dim + 1, nnz, &w.made));
  TRY(w.st);
  int64_t *to = indices->data;
  memcpy(to, from, (size_t)(dim * nnz) * sizeof *to);
  memset(to + dim * nnz, 0, (size_t)nnz * sizeof *to);
  memcpy(to + (dim + 1) * nnz, from + dim * nnz,
         (size_t)((p->sparse_dim - dim) * nnz) * sizeof *to);
  memcpy(sizes, t->sizes, (size_t)dim * sizeof *sizes);
  sizes[dim] = 1;
  memcpy(sizes + dim + 1, t->sizes + dim, (size_t)(t->n_dims - dim) * sizeof *sizes);
  const sparse_shape shape = {t->n_dims + 1, p->sparse_dim + 1, sizes};
  WORK_DO(&w, coo_new(c->cx, shape, indices, p->values, false, call_result(c, 0)));
  return work_end(&w);
}

/* -- Joined ------------------------------------------------------------------------------------ */

static rush_status check_joined(rush_call *c, const rush_list *l, int dim)
{
  const rush_tensor *first = l->items[0].as.tensor;
  for (size_t i = 0; i < l->n; i++) {
    const rush_tensor *t = l->items[i].as.tensor;
    bool fits = tensor_layout(t) == LAYOUT_COO && t->n_dims == first->n_dims &&
                tensor_sparse(t)->sparse_dim == tensor_sparse(first)->sparse_dim;
    if (!fits)
      return call_fail(c->cx,
                       "Concatenating sparse tensors, but a dense or differently sparse tensor was "
                       "found at position %zu.",
                       i);
    for (int d = 0; d < t->n_dims; d++)
      if (d != dim && t->sizes[d] != first->sizes[d])
        return call_fail(c->cx,
                         "All tensors must have the same shape, except in the concatenating "
                         "dimension %d: %lld != %lld at "
                         "dimension %d",
                         dim, (long long)t->sizes[d], (long long)first->sizes[d], d);
  }
  return dim < tensor_sparse(first)->sparse_dim
           ? RUSH_OK
           : call_unsupported(c->cx, "cat of sparse tensors along a dense dimension");
}

static rush_status join_values(call_ctx *cx, const rush_list *l, rush_tensor **out)
{
  rush_list *parts;
  TRY(call_poll(cx));
  TRY(list_new(cx, l->elem, l->n, &parts));
  for (size_t i = 0; i < l->n; i++)
    parts->items[parts->n++] =
      value_tensor_steal(tensor_retain(tensor_sparse(l->items[i].as.tensor)->values));
  const rush_value args[2] = {value_heap_steal(RUSH_TAG_LIST, parts), value_int(0)};
  rush_status st = nn_invoke(cx, "aten::cat", "", args, 2, out);
  value_release(args[0]);
  return st;
}

/* cat(tensors, dim) */
rush_kernel kernel_sparse_cat;
rush_status kernel_sparse_cat(rush_call *c)
{
  const rush_list *l = call_list(c, 0);
  const rush_tensor *first = l->items[0].as.tensor;
  int64_t sizes[TENSOR_MAX_DIMS], nnz = 0, at = 0, behind = 0;
  int dim;
  TRY(dim_wrap(c->cx, call_int(c, 1), first->n_dims, &dim));
  if (!tensor_sparse(first))
    return call_fail(c->cx,
                     "Concatenating sparse tensors, but a dense tensor was found at position 0.");
  TRY(check_joined(c, l, dim));
  memcpy(sizes, first->sizes, first->n_dims * sizeof *sizes);
  sizes[dim] = 0;
  for (size_t i = 0; i < l->n; i++) {
    nnz += sparse_nnz(tensor_sparse(l->items[i].as.tensor));
    if (__builtin_add_overflow(sizes[dim], l->items[i].as.tensor->sizes[dim], &sizes[dim]))
      return call_fail(c->cx, "cat: a dimension of too many elements");
  }
  const int n_rows = tensor_sparse(first)->sparse_dim;
  work w = work_begin(c);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(c->cx, n_rows, nnz, &w.made));
  TRY(w.st);
  int64_t *to = indices->data;
  for (size_t i = 0; i < l->n; i++) {
    const rush_tensor *t = l->items[i].as.tensor;
    const int64_t n = sparse_nnz(tensor_sparse(t)), *from = tensor_sparse(t)->indices->data;
    for (int d = 0; d < n_rows; d++)
      for (int64_t k = 0; k < n && !call_over_at(c->cx, k); k++)
        to[d * nnz + at + k] = from[d * n + k] + (d == dim ? behind : 0);
    at += n;
    behind += t->sizes[dim];
  }
  rush_tensor *values = WORK_MAKE(&w, join_values(c->cx, l, &w.made));
  WORK_DO(&w, coo_new(c->cx, (sparse_shape){first->n_dims, n_rows, sizes}, indices, values, false,
                      call_result(c, 0)));
  return work_end(&w);
}

/* -- Like another ------------------------------------------------------------------------------ */

/* Make a tensor without elements, of t's sizes and layout. */
static rush_status new_empty_like(call_ctx *cx, const rush_tensor *t, int dtype, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  if (p->layout == LAYOUT_COO)
    return coo_new_empty(cx, dtype, shape_of_sparse(t), out);
  if (sparse_batch_dims(p))
    return call_unsupported(cx, "batches of torch.sparse_csr matrices in this operator");
  work w = work_begin_part(cx);
  rush_tensor *coo = WORK_MAKE(&w, coo_new_empty(cx, dtype, shape_of_sparse(t), &w.made));
  WORK_DO(&w, sparse_to_csr(cx, coo, out));
  return work_end(&w);
}

rush_kernel kernel_sparse_zeros_like, kernel_sparse_empty_like, kernel_sparse_zero;
/* zeros_like, empty_like(self, *, dtype, layout, device, ...) */
rush_status kernel_sparse_zeros_like(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *r;
  const int64_t layout = call_int_or(c, 2, tensor_layout(t));
  const int dtype = call_dtype_or(c, 1, t->dtype);
  TRY(check_device(c->cx, c->args[3]));
  if (layout == LAYOUT_STRIDED) {
    TRY(tensor_new(c->cx, dtype, t->n_dims, t->sizes, &r));
    return call_return_made_steal(c, 0, r, tensor_fill(c->cx, r, value_int(0)));
  }
  if (layout != tensor_layout(t))
    return call_unsupported(c->cx, "%s with another sparse layout than the tensor's",
                            c->op->schema->name);
  return new_empty_like(c->cx, t, dtype, call_result(c, 0));
}

/* zero_(self) */
rush_status kernel_sparse_zero(rush_call *c)
{
  rush_tensor *none;
  TRY(new_empty_like(c->cx, call_tensor(c, 0), call_tensor(c, 0)->dtype, &none));
  rush_status st = sparse_assign(c->cx, call_tensor(c, 0), none);
  tensor_release(none);
  if (st == RUSH_OK)
    call_return_arg(c, 0, 0);
  return st;
}
