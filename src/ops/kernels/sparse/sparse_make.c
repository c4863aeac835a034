/* ops/kernels/sparse/sparse_make.c -- makes sparse tensors from indices and values, and returns
 * their parts. */
#include "ops/kernels/layout/factory.h"
#include "ops/call/shape.h"
#include "ops/kernels/sparse/sparse.h"

/* -- Coordinates ------------------------------------------------------------------------------- */

/* Read options at c->args[at..]: dtype, layout (which must be `layout`, or None), device. */
static rush_status sparse_options(rush_call *c, uint32_t at, int layout, int otherwise, int *dtype)
{
  const int64_t asked = call_int_or(c, at + 1, layout);
  if (asked != layout)
    return call_fail(c->cx, "%s: expected layout %s, but got %lld", c->op->schema->name,
                     layout == LAYOUT_COO ? "torch.sparse_coo" : "torch.sparse_csr",
                     (long long)asked);
  *dtype = call_dtype_or(c, at, otherwise);
  TRY(check_dtype(c->cx, *dtype));
  return check_device(c->cx, c->args[at + 2]);
}

/* Make a checked COO tensor of the call's indices and values; values are converted. */
static rush_status make_coo(rush_call *c, uint32_t indices, uint32_t options, int n_dims,
                            const int64_t *sizes, rush_value is_coalesced)
{
  rush_tensor *values;
  int dtype;
  const sparse_parts p = {.layout = LAYOUT_COO,
                          .is_coalesced = is_coalesced.tag == RUSH_TAG_BOOL && is_coalesced.as.b,
                          .indices = call_tensor(c, indices)};
  TRY(sparse_options(c, options, LAYOUT_COO, call_tensor(c, indices + 1)->dtype, &dtype));
  if (dtype_class_of(p.indices->dtype) > DTYPE_FLOAT)
    return call_fail(c->cx, "indices must be integers, but got %s",
                     dtype_aten_name(p.indices->dtype));
  TRY(as_dtype(c->cx, call_tensor(c, indices + 1), dtype, &values));
  sparse_parts with = p;
  with.values = values;
  rush_status st = sparse_new_checked(c->cx, &with, n_dims, sizes, call_result(c, 0));
  tensor_release(values);
  return st;
}

/* Infer sizes that contain the coordinates: the largest of each dimension plus one. */
static rush_status infer_sizes(call_ctx *cx, const rush_tensor *indices, const rush_tensor *values,
                               int *n_dims, int64_t *sizes)
{
  sizes_text text;
  if (indices->n_dims != 2)
    return call_fail(cx, "indices must be sparse_dim x nnz, but got: %s",
                     sizes_print(&text, indices->n_dims, indices->sizes));
  *n_dims =
    (int)i64_min(indices->sizes[0], TENSOR_MAX_DIMS + 1) + (int)i64_max(values->n_dims - 1, 0);
  if (*n_dims > TENSOR_MAX_DIMS)
    return call_unsupported(cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS);
  for (int d = 0; d < indices->sizes[0]; d++) {
    int64_t most = -1, at;
    for (int64_t k = 0; k < indices->sizes[1]; k++) {
      TRY(call_poll_at(cx, k));
      convert_elems(RUSH_INT64, &at, indices->dtype,
                    (char *)indices->data + (d * indices->strides[0] + k * indices->strides[1]) *
                                              (int64_t)tensor_item_bytes(indices),
                    1);
      if (at < 0)
        return call_fail(cx, "found negative index %lld for dim %d", (long long)at, d);
      most = i64_max(most, at);
    }
    sizes[d] = most == INT64_MAX ? most : most + 1;
  }
  for (int d = 1; d < values->n_dims; d++)
    sizes[indices->sizes[0] + d - 1] = values->sizes[d];
  return RUSH_OK;
}

rush_kernel kernel_sparse_coo_tensor, kernel_sparse_coo_tensor_sizes,
  kernel_sparse_coo_tensor_empty, kernel_sparse_coo_with_dims,
  kernel_sparse_coo_with_dims_and_tensors;

/* sparse_coo_tensor.indices(indices, values, *, dtype, layout, device, pin_memory, is_coalesced) */
rush_status kernel_sparse_coo_tensor(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  TRY(infer_sizes(c->cx, call_tensor(c, 0), call_tensor(c, 1), &n, sizes));
  return make_coo(c, 0, 2, n, sizes, c->args[6]);
}

/* sparse_coo_tensor.indices_size, _sparse_coo_tensor_unsafe(indices, values, size, *, ...): no
 * indices are unsafe here. */
rush_status kernel_sparse_coo_tensor_sizes(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  const int n = call_ints(c, 2, sizes, TENSOR_MAX_DIMS);
  return n < 0 ? call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS)
               : make_coo(c, 0, 3, n, sizes, c->args[7]);
}

/* Refuse numbers of dimensions whose sum is not n. */
static rush_status check_dims(call_ctx *cx, int64_t sparse_dim, int64_t dense_dim, int n)
{
  if (sparse_dim >= 0 && dense_dim >= 0 && sparse_dim <= n && dense_dim == n - sparse_dim)
    return RUSH_OK;
  return call_fail(cx,
                   "number of dimensions must be sparse_dim (%lld) + dense_dim (%lld), but got %d",
                   (long long)sparse_dim, (long long)dense_dim, n);
}

/* _sparse_coo_tensor_with_dims_and_tensors(sparse_dim, dense_dim, size, indices, values, *, ...) */
rush_status kernel_sparse_coo_with_dims_and_tensors(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  const int n = call_ints(c, 2, sizes, TENSOR_MAX_DIMS);
  sizes_text text;
  if (n < 0)
    return call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS);
  TRY(check_dims(c->cx, call_int(c, 0), call_int(c, 1), n));
  if (call_tensor(c, 3)->n_dims != 2 || call_tensor(c, 3)->sizes[0] != call_int(c, 0))
    return call_fail(c->cx, "indices must be sparse_dim (%lld) x nnz, but got: %s",
                     (long long)call_int(c, 0),
                     sizes_print(&text, call_tensor(c, 3)->n_dims, call_tensor(c, 3)->sizes));
  return make_coo(c, 3, 5, n, sizes, c->args[9]);
}

static rush_status make_empty(rush_call *c, uint32_t size_arg, uint32_t options, int64_t sparse_dim,
                              int64_t dense_dim)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n = call_ints(c, size_arg, sizes, TENSOR_MAX_DIMS), dtype;
  if (n < 0)
    return call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS);
  sparse_dim = sparse_dim < 0 ? n : sparse_dim;
  TRY(check_dims(c->cx, sparse_dim, dense_dim, n));
  TRY(sparse_options(c, options, LAYOUT_COO, c->cx->default_dtype, &dtype));
  return coo_new_empty(c->cx, dtype, (sparse_shape){n, (int)sparse_dim, sizes}, call_result(c, 0));
}

/* sparse_coo_tensor.size(size, *, dtype, layout, device, pin_memory) */
rush_status kernel_sparse_coo_tensor_empty(rush_call *c) { return make_empty(c, 0, 1, -1, 0); }

/* _sparse_coo_tensor_with_dims(sparse_dim, dense_dim, size, *, dtype, layout, device, pin_memory)
 * */
rush_status kernel_sparse_coo_with_dims(rush_call *c)
{
  if (call_int(c, 0) < 0)
    return call_fail(c->cx, "sparse_dim must be non-negative, but got %lld",
                     (long long)call_int(c, 0));
  return make_empty(c, 2, 3, call_int(c, 0), call_int(c, 1));
}

/* -- Compressed rows --------------------------------------------------------------------------- */

/* Refuse compressed layouts other than the supported one. */
static rush_status check_compressed_layout(rush_call *c, uint32_t at)
{
  static const char *const names[] = {"Strided",   "Sparse",    "SparseCsr", "Mkldnn",
                                      "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"};
  if (call_is_none(c, at))
    return call_fail(
      c->cx, "sparse_compressed_tensor expected sparse compressed tensor layout but got none");
  const int64_t layout = call_int(c, at);
  if (layout >= 4 && layout <= 6)
    return call_unsupported(
      c->cx, "%s of layout %s: only torch.sparse_coo and torch.sparse_csr are known here",
      c->op->schema->name, names[layout]);
  if (layout != LAYOUT_CSR)
    return call_fail(c->cx,
                     "sparse_compressed_tensor expected sparse compressed tensor layout but got %s",
                     layout >= 0 && layout < (int64_t)COUNT_OF(names) ? names[layout] : "unknown");
  return RUSH_OK;
}

static rush_status make_csr(rush_call *c, uint32_t options, int n_dims, const int64_t *sizes)
{
  rush_tensor *values;
  int dtype;
  sparse_parts p = {.layout = LAYOUT_CSR, .crow = call_tensor(c, 0), .indices = call_tensor(c, 1)};
  TRY(sparse_options(c, options, LAYOUT_CSR, call_tensor(c, 2)->dtype, &dtype));
  TRY(as_dtype(c->cx, call_tensor(c, 2), dtype, &values));
  p.values = values;
  rush_status st = sparse_new_checked(c->cx, &p, n_dims, sizes, call_result(c, 0));
  tensor_release(values);
  return st;
}

/* Infer sizes: batches, rows, as many columns as the largest index requires, dense dimensions. */
static rush_status infer_csr(rush_call *c, int *n_dims, int64_t *sizes)
{
  const rush_tensor *crow = call_tensor(c, 0), *values = call_tensor(c, 2);
  rush_tensor *columns;
  const int batch = crow->n_dims - 1;
  if (batch < 0 || values->n_dims <= batch || values->n_dims + 1 > TENSOR_MAX_DIMS ||
      call_tensor(c, 1)->n_dims != crow->n_dims)
    return call_fail(c->cx,
                     "crow_indices, col_indices and values must have as many batch dimensions, but "
                     "have %d, %d and %d dimensions",
                     crow->n_dims, call_tensor(c, 1)->n_dims, values->n_dims);
  TRY(tensor_to_dtype(c->cx, call_tensor(c, 1), RUSH_INT64, &columns));
  int64_t most = -1;
  for (int64_t k = 0; k < columns->n_elems && !call_over_at(c->cx, k); k++)
    most = i64_max(most, ((const int64_t *)columns->data)[k]);
  tensor_release(columns);
  memcpy(sizes, crow->sizes, (size_t)batch * sizeof *sizes);
  sizes[batch] = i64_max(crow->sizes[batch] - 1, 0);
  sizes[batch + 1] = most == INT64_MAX ? most : most + 1;
  for (int i = batch + 1; i < values->n_dims; i++)
    sizes[i + 1] = values->sizes[i];
  *n_dims = values->n_dims + 1;
  return RUSH_OK;
}

static rush_status make_sized_csr(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  const int n = call_ints(c, 3, sizes, TENSOR_MAX_DIMS);
  return n < 0 ? call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS)
               : make_csr(c, 4, n, sizes);
}

static rush_status make_inferred_csr(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  TRY(infer_csr(c, &n, sizes));
  return make_csr(c, 3, n, sizes);
}

rush_kernel kernel_sparse_csr_tensor, kernel_sparse_csr_tensor_sizes, kernel_sparse_compressed,
  kernel_sparse_compressed_sizes;
rush_status kernel_sparse_csr_tensor(rush_call *c) { return make_inferred_csr(c); }
rush_status kernel_sparse_csr_tensor_sizes(rush_call *c) { return make_sized_csr(c); }
rush_status kernel_sparse_compressed(rush_call *c)
{
  TRY(check_compressed_layout(c, 4));
  return make_inferred_csr(c);
}
rush_status kernel_sparse_compressed_sizes(rush_call *c)
{
  TRY(check_compressed_layout(c, 5));
  return make_sized_csr(c);
}

/* -- Only the checks --------------------------------------------------------------------------- */

static rush_status validate(rush_call *c, sparse_parts p, uint32_t size_arg)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  rush_tensor *t;
  const int n = call_ints(c, size_arg, sizes, TENSOR_MAX_DIMS);
  if (n < 0)
    return call_unsupported(c->cx, "tensors of more than %d dimensions", TENSOR_MAX_DIMS);
  TRY(sparse_new_checked(c->cx, &p, n, sizes, &t));
  tensor_release(t);
  return RUSH_OK;
}

rush_kernel kernel_validate_sparse_coo, kernel_validate_sparse_csr,
  kernel_validate_sparse_compressed;
rush_status kernel_validate_sparse_coo(rush_call *c)
{
  const bool on = c->args[3].tag == RUSH_TAG_BOOL && c->args[3].as.b;
  return validate(c,
                  (sparse_parts){.layout = LAYOUT_COO,
                                 .is_coalesced = on,
                                 .indices = call_tensor(c, 0),
                                 .values = call_tensor(c, 1)},
                  2);
}
rush_status kernel_validate_sparse_csr(rush_call *c)
{
  return validate(c,
                  (sparse_parts){.layout = LAYOUT_CSR,
                                 .crow = call_tensor(c, 0),
                                 .indices = call_tensor(c, 1),
                                 .values = call_tensor(c, 2)},
                  3);
}
rush_status kernel_validate_sparse_compressed(rush_call *c)
{
  TRY(check_compressed_layout(c, 4));
  return kernel_validate_sparse_csr(c);
}

/* -- The parts --------------------------------------------------------------------------------- */

static rush_status return_alias(rush_call *c, const rush_tensor *part)
{
  return tensor_alias(c->cx, part, call_result(c, 0));
}

static rush_status need_coalesced(rush_call *c, const char *what)
{
  const rush_tensor *t = call_tensor(c, 0);
  TRY(need_coo(c->cx, t, what));
  if (!tensor_sparse(t)->is_coalesced)
    return call_fail(c->cx, "Cannot get %s on an uncoalesced tensor, please call .coalesce() first",
                     what);
  return RUSH_OK;
}

/* Makes a separate header, which requires no gradient. */
rush_kernel kernel_sparse_detach;
rush_status kernel_sparse_detach(rush_call *c)
{
  TRY(return_alias(c, call_tensor(c, 0)));
  if (strcmp(c->op->schema->name, "aten::alias") != 0)
    c->results[0].as.tensor->h.flags &= (uint8_t)~TENSOR_REQUIRES_GRAD;
  return RUSH_OK;
}

rush_kernel kernel_coo_indices, kernel_coo_raw_indices, kernel_sparse_values,
  kernel_sparse_raw_values, kernel_crow_indices, kernel_col_indices, kernel_nnz,
  kernel_is_coalesced, kernel_set_coalesced, kernel_sparse_dim, kernel_dense_dim, kernel_is_sparse,
  kernel_is_sparse_csr, kernel_layout;

rush_status kernel_coo_indices(rush_call *c)
{
  TRY(need_coalesced(c, "indices"));
  return return_alias(c, tensor_sparse(call_tensor(c, 0))->indices);
}

rush_status kernel_coo_raw_indices(rush_call *c)
{
  if (tensor_layout(call_tensor(c, 0)) != LAYOUT_COO)
    return sparse_refuse_call(c, call_tensor(c, 0));
  return return_alias(c, tensor_sparse(call_tensor(c, 0))->indices);
}

rush_status kernel_sparse_values(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (!tensor_sparse(t))
    return call_fail(c->cx, "values expected sparse tensor layout but got Strided");
  if (tensor_layout(t) == LAYOUT_COO)
    TRY(need_coalesced(c, "values"));
  return return_alias(c, tensor_sparse(t)->values);
}

rush_status kernel_sparse_raw_values(rush_call *c)
{
  if (tensor_layout(call_tensor(c, 0)) != LAYOUT_COO)
    return sparse_refuse_call(c, call_tensor(c, 0));
  return return_alias(c, tensor_sparse(call_tensor(c, 0))->values);
}

static rush_status need_csr(rush_call *c, const char *what)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (tensor_layout(t) == LAYOUT_CSR)
    return RUSH_OK;
  return call_fail(c->cx, "%s expected sparse row compressed tensor layout but got %s", what,
                   tensor_layout_word(t));
}

rush_status kernel_crow_indices(rush_call *c)
{
  TRY(need_csr(c, "crow_indices"));
  return return_alias(c, tensor_sparse(call_tensor(c, 0))->crow);
}

rush_status kernel_col_indices(rush_call *c)
{
  TRY(need_csr(c, "col_indices"));
  return return_alias(c, tensor_sparse(call_tensor(c, 0))->indices);
}

rush_status kernel_nnz(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (!tensor_sparse(t))
    return sparse_refuse_call(c, t);
  c->results[0] = value_int(sparse_nnz(tensor_sparse(t)));
  return RUSH_OK;
}

rush_status kernel_is_coalesced(rush_call *c)
{
  TRY(need_coo(c->cx, call_tensor(c, 0), "is_coalesced"));
  c->results[0] = value_bool(tensor_sparse(call_tensor(c, 0))->is_coalesced);
  return RUSH_OK;
}

rush_status kernel_set_coalesced(rush_call *c)
{
  TRY(need_coo(c->cx, call_tensor(c, 0), "_coalesced_"));
  TRY(sparse_set_coalesced(c->cx, call_tensor(c, 0), call_bool(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_status kernel_sparse_dim(rush_call *c)
{
  const sparse_parts *p = tensor_sparse(call_tensor(c, 0));
  c->results[0] = value_int(p ? p->sparse_dim : 0);
  return RUSH_OK;
}

rush_status kernel_dense_dim(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  const sparse_parts *p = tensor_sparse(t);
  c->results[0] = value_int(t->n_dims - (p ? p->sparse_dim + sparse_batch_dims(p) : 0));
  return RUSH_OK;
}

static rush_status answer_layout(rush_call *c, int layout)
{
  c->results[0] = value_bool(tensor_layout(call_tensor(c, 0)) == layout);
  return RUSH_OK;
}
rush_status kernel_is_sparse(rush_call *c) { return answer_layout(c, LAYOUT_COO); }
rush_status kernel_is_sparse_csr(rush_call *c) { return answer_layout(c, LAYOUT_CSR); }

rush_status kernel_layout(rush_call *c)
{
  c->results[0] = value_int(tensor_layout(call_tensor(c, 0)));
  return RUSH_OK;
}
