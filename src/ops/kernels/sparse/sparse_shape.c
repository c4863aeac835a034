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
  rush_tensor *indices, *values = NULL;
  rush_value list;
  bool same = true;
  for (int i = 0; i < t->n_dims; i++) {
    sizes[i] = t->sizes[dims[i]];
    same &= i >= p->sparse_dim || dims[i] == i;
    if (i >= p->sparse_dim)
      order[1 + i - p->sparse_dim] = 1 + dims[i] - p->sparse_dim;
  }
  TRY(list_of_ints(cx, order, (size_t)p->values->n_dims, &list));
  const rush_value args[2] = {tensor_value(p->values), list};
  rush_status st = coo_new_indices(cx, p->sparse_dim, nnz, &indices);
  if (st == RUSH_OK) {
    for (int d = 0; d < p->sparse_dim; d++)
      memcpy((int64_t *)indices->data + d * nnz, from + dims[d] * nnz, (size_t)nnz * sizeof *from);
    st = apply(cx, "aten::permute", "", args, 2, &values);
    st = coo_new_steal(cx, st, (sparse_shape){t->n_dims, p->sparse_dim, sizes}, indices, values,
                       same && p->is_coalesced, out);
  }
  value_release(list);
  return st;
}

static rush_status transpose(rush_call *c, int64_t a, int64_t b)
{
  rush_tensor *t = call_tensor(c, 0), *r;
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
  TRY(permute(c->cx, t, dims, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
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
  rush_tensor *t = call_tensor(c, 0), *r;
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
  TRY(permute(c->cx, t, dims, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
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
  rush_tensor *indices, *values = NULL;
  TRY(coo_new_indices(cx, shape.sparse_dim, n, &indices));
  int64_t *to = indices->data;
  for (int d = 0; d < p->sparse_dim; d++) {
    if (d == drop && !replace)
      continue;
    for (int64_t k = 0; k < n && !call_over_at(cx, k); k++)
      to[k] = d == drop ? replace[k] : from[d * nnz + which[k]];
    to += n;
  }
  rush_status st = call_over(cx) ? call_poll(cx) : pick_rows(cx, p->values, at, &values);
  return coo_new_steal(cx, st, shape, indices, values, is_coalesced, out);
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
  rush_tensor *found;
  TRY(tensor_new(cx, RUSH_INT64, 1, &n, &found));
  int64_t *to = found->data;
  rush_status st = RUSH_OK;
  for (int64_t k = 0; k < nnz && st == RUSH_OK; k++) {
    if (row[k] == index)
      *to++ = k;
    st = call_poll_at(cx, k);
  }
  if (st != RUSH_OK)
    tensor_release(found);
  else
    *out = found;
  return st;
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
  int64_t sizes[TENSOR_MAX_DIMS];
  rush_tensor *at, *rows;
  sizes_without(t, dim, sizes);
  TRY(find_equal(cx, t, dim, index, &at));
  rush_status st;
  if (p->sparse_dim == 1) {
    if ((st = pick_rows(cx, p->values, at, &rows)) == RUSH_OK) {
      rush_value list;
      const int64_t first = 0;
      if ((st = list_of_ints(cx, &first, 1, &list)) == RUSH_OK) {
        const rush_value args[4] = {tensor_value(rows), list, value_bool(false),
                                    value_int(rows->dtype)};
        st = apply(cx, "aten::sum", "dim_IntList", args, 4, out);
        value_release(list);
      }
      tensor_release(rows);
    }
  } else {
    st =
      take_elements(cx, t, at, dim, NULL, (sparse_shape){t->n_dims - 1, p->sparse_dim - 1, sizes},
                    p->is_coalesced, out);
  }
  tensor_release(at);
  return st;
}

/* Apply an operator that changes a dense dimension to t's values. */
static rush_status with_dense(call_ctx *cx, const rush_tensor *t, const char *name,
                              const char *overload, const rush_value *args, uint32_t n_args,
                              rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  int64_t sizes[TENSOR_MAX_DIMS + 1];
  rush_tensor *values;
  TRY(apply(cx, name, overload, args, n_args, &values));
  memcpy(sizes, t->sizes, (size_t)p->sparse_dim * sizeof *sizes);
  memcpy(sizes + p->sparse_dim, values->sizes + 1, (size_t)(values->n_dims - 1) * sizeof *sizes);
  return coo_new_steal(cx, RUSH_OK,
                       (sparse_shape){p->sparse_dim + values->n_dims - 1, p->sparse_dim, sizes},
                       tensor_retain(p->indices), values, p->is_coalesced, out);
}

rush_kernel kernel_sparse_select, kernel_sparse_index_select, kernel_sparse_unsqueeze;
/* select.int(self, dim, index) */
rush_status kernel_sparse_select(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *coo, *r;
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
  TRY(sparse_to_coo(c->cx, t, &coo));
  const sparse_parts *p = tensor_sparse(coo);
  const rush_value args[3] = {tensor_value(p->values), value_int(1 + dim - p->sparse_dim),
                              value_int(index)};
  rush_status st = dim < p->sparse_dim ? select_sparse(c->cx, coo, dim, index, &r)
                                       : with_dense(c->cx, coo, "aten::select", "int", args, 3, &r);
  tensor_release(coo);
  if (st == RUSH_OK)
    call_return_steal(c, 0, r);
  return st;
}

typedef struct picking {
  rush_tensor *wanted, *order, *at, *place;
} picking;

/* Sort the elements by their coordinate in `dim`, count those of each wanted index, and list them
 * in the requested order. */
static rush_status list_wanted(call_ctx *cx, const rush_tensor *t, int dim, picking *w)
{
  const int64_t nnz = sparse_nnz(tensor_sparse(t)), n_wanted = w->wanted->n_elems,
                *wanted = w->wanted->data;
  const int64_t *row = (const int64_t *)tensor_sparse(t)->indices->data + dim * nnz;
  int64_t n = 0, at = 0;
  rush_tensor *starts;
  TRY(coo_starts(cx, t, dim, &starts));
  int64_t *start = starts->data;
  rush_status st = tensor_new(cx, RUSH_INT64, 1, &nnz, &w->order);
  for (int64_t k = 0; k < nnz && st == RUSH_OK; k++) {
    ((int64_t *)w->order->data)[start[row[k]]++] = k; /* start[i] is where i ends from here on */
    st = call_poll_at(cx, k);
  }
  for (int64_t i = 0; i < n_wanted && st == RUSH_OK; i++) {
    n += start[wanted[i]] - (wanted[i] ? start[wanted[i] - 1] : 0);
    st = call_poll_at(cx, i);
  }
  if (st == RUSH_OK)
    st = tensor_new(cx, RUSH_INT64, 1, &n, &w->at);
  if (st == RUSH_OK && (st = tensor_new(cx, RUSH_INT64, 1, &n, &w->place)) == RUSH_OK)
    for (int64_t i = 0; i < n_wanted; i++)
      for (int64_t k = wanted[i] ? start[wanted[i] - 1] : 0; k < start[wanted[i]]; k++, at++) {
        ((int64_t *)w->at->data)[at] = ((const int64_t *)w->order->data)[k];
        ((int64_t *)w->place->data)[at] = i;
        if (call_over_at(cx, at))
          break;
      }
  tensor_release(starts);
  return st == RUSH_OK ? call_poll(cx) : st;
}

static rush_status index_select(call_ctx *cx, rush_tensor *t, int dim, rush_tensor *wanted,
                                rush_tensor **out)
{
  picking w = {.wanted = wanted};
  int64_t sizes[TENSOR_MAX_DIMS];
  memcpy(sizes, t->sizes, t->n_dims * sizeof *sizes);
  sizes[dim] = wanted->n_elems;
  rush_status st = list_wanted(cx, t, dim, &w);
  if (st == RUSH_OK)
    st = take_elements(cx, t, w.at, dim, w.place->data,
                       (sparse_shape){t->n_dims, tensor_sparse(t)->sparse_dim, sizes}, false, out);
  tensor_release(w.order);
  tensor_release(w.at);
  tensor_release(w.place);
  return st;
}

/* Convert indices to int64, without negative numbers: new. */
static rush_status check_wanted(call_ctx *cx, rush_tensor *index, int64_t size, rush_tensor **out)
{
  if (index->n_dims > 1 || tensor_sparse(index) ||
      (index->dtype != RUSH_INT64 && index->dtype != RUSH_INT32))
    return call_fail_type(cx, "IndexError",
                          "index_select() argument index must be 1-D integer tensor.");
  rush_tensor *own;
  TRY(tensor_new(cx, RUSH_INT64, index->n_dims, index->sizes, &own));
  rush_status st = tensor_copy(cx, own, index);
  for (int64_t i = 0; i < own->n_elems && st == RUSH_OK; i++) {
    int64_t *v = (int64_t *)own->data + i;
    if (*v < -size || *v >= size)
      st = call_fail_type(
        cx, "IndexError",
        "index_select(): index contains %lld that is out of range for tensor of size %lld",
        (long long)*v, (long long)size);
    *v += *v < 0 ? size : 0;
    if (st == RUSH_OK)
      st = call_poll_at(cx, i);
  }
  if (st != RUSH_OK)
    tensor_release(own);
  else
    *out = own;
  return st;
}

/* index_select(self, dim, index) */
rush_status kernel_sparse_index_select(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *wanted, *r;
  int dim;
  if (tensor_layout(t) != LAYOUT_COO)
    return sparse_refuse_call(c, tensor_sparse(t) ? t : call_tensor(c, 2));
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError",
                          "index_select() cannot be applied to a 0-dim tensor.");
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &dim));
  TRY(check_wanted(c->cx, call_tensor(c, 2), t->sizes[dim], &wanted));
  const sparse_parts *p = tensor_sparse(t);
  const rush_value args[3] = {tensor_value(p->values), value_int(1 + dim - p->sparse_dim),
                              tensor_value(wanted)};
  rush_status st = dim < p->sparse_dim
                     ? index_select(c->cx, t, dim, wanted, &r)
                     : with_dense(c->cx, t, "aten::index_select", "", args, 3, &r);
  tensor_release(wanted);
  if (st == RUSH_OK)
    call_return_steal(c, 0, r);
  return st;
}

/* unsqueeze(self, dim) */
rush_status kernel_sparse_unsqueeze(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *indices, *r;
  int dim;
  TRY(need_coo(c->cx, t, "unsqueeze"));
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims + 1, &dim));
  const sparse_parts *p = tensor_sparse(t);
  const int64_t nnz = sparse_nnz(p), *from = p->indices->data;
  const rush_value args[2] = {tensor_value(p->values), value_int(1 + dim - p->sparse_dim)};
  int64_t sizes[TENSOR_MAX_DIMS + 1];
  if (dim > p->sparse_dim) {
    TRY(with_dense(c->cx, t, "aten::unsqueeze", "", args, 2, &r));
    call_return_steal(c, 0, r);
    return RUSH_OK;
  }
  if (t->n_dims == TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS);
  TRY(coo_new_indices(c->cx, p->sparse_dim + 1, nnz, &indices));
  int64_t *to = indices->data;
  memcpy(to, from, (size_t)(dim * nnz) * sizeof *to);
  memset(to + dim * nnz, 0, (size_t)nnz * sizeof *to);
  memcpy(to + (dim + 1) * nnz, from + dim * nnz,
         (size_t)((p->sparse_dim - dim) * nnz) * sizeof *to);
  memcpy(sizes, t->sizes, (size_t)dim * sizeof *sizes);
  sizes[dim] = 1;
  memcpy(sizes + dim + 1, t->sizes + dim, (size_t)(t->n_dims - dim) * sizeof *sizes);
  TRY(coo_new_steal(c->cx, RUSH_OK, (sparse_shape){t->n_dims + 1, p->sparse_dim + 1, sizes},
                    indices, tensor_retain(p->values), false, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
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
  TRY(list_new(cx, l->elem, l->n, &parts));
  for (size_t i = 0; i < l->n; i++)
    parts->items[parts->n++] =
      value_tensor_steal(tensor_retain(tensor_sparse(l->items[i].as.tensor)->values));
  const rush_value args[2] = {value_heap_steal(RUSH_TAG_LIST, parts), value_int(0)};
  rush_status st = apply(cx, "aten::cat", "", args, 2, out);
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
  rush_tensor *indices, *values = NULL, *r;
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
  TRY(coo_new_indices(c->cx, n_rows, nnz, &indices));
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
  rush_status st = call_over(c->cx) ? call_poll(c->cx) : join_values(c->cx, l, &values);
  TRY(coo_new_steal(c->cx, st, (sparse_shape){first->n_dims, n_rows, sizes}, indices, values, false,
                    &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* -- Like another ------------------------------------------------------------------------------ */

/* Make a tensor without elements, of t's sizes and layout. */
static rush_status new_empty_like(call_ctx *cx, const rush_tensor *t, int dtype, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  rush_tensor *coo;
  if (p->layout == LAYOUT_COO)
    return coo_new_empty(cx, dtype, shape_of_sparse(t), out);
  if (sparse_batch_dims(p))
    return call_unsupported(cx, "batches of torch.sparse_csr matrices in this operator");
  TRY(coo_new_empty(cx, dtype, shape_of_sparse(t), &coo));
  rush_status st = sparse_to_csr(cx, coo, out);
  tensor_release(coo);
  return st;
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
  TRY(new_empty_like(c->cx, t, dtype, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
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
