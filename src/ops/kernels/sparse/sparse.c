/* ops/kernels/sparse/sparse.c -- the interface between sparse tensors and operators, and steps that
 * several sparse kernels share. */
#include "ops/kernels/sparse/sparse.h"

#include "ops/call/registry.h"
#include "ops/table/table.h"

/* -- The border -------------------------------------------------------------------------------- */

rush_status sparse_refuse_call(const rush_call *c, const rush_tensor *t)
{
  static const char *const backends[] = {"CPU", "SparseCPU", "SparseCsrCPU"};
  const schema *sc = c->op->schema;
  const int layout = tensor_layout(t);
  return call_fail_type(
    c->cx, "NotImplementedError",
    "Could not run '%s%s%s' with arguments from the '%s' backend. This operator does "
    "not take %s tensors here%s",
    sc->name, sc->overload[0] ? "." : "", sc->overload, backends[layout],
    layout ? "sparse" : "dense", layout ? ": pass tensor.to_dense()" : "");
}

rush_status sparse_call(rush_call *c, const rush_tensor *first, rush_status (*taken)(rush_call *c))
{
  const op *o = c->op;
  const uint32_t kernel = o->row ? o->row->sparse : 0;
  if (kernel == SPARSE_TAKEN)
    return taken(c);
  if (kernel)
    return op_kernels[kernel](c);
  if (o->outside ? c->state && c->state->body
                 : o->base || (o->family == FAMILY_COMPOSITE && !o->kernel))
    return o->base ? call_through_base(c) : taken(c); /* the operators that it runs decide */
  return sparse_refuse_call(c, first);
}

rush_status need_coo(call_ctx *cx, const rush_tensor *t, const char *what)
{
  if (tensor_layout(t) == LAYOUT_COO)
    return RUSH_OK;
  return call_fail(cx, "%s expected sparse coordinate tensor layout but got %s", what,
                   tensor_layout_word(t));
}

/* -- Dense steps ------------------------------------------------------------------------------- */

rush_status as_dtype(call_ctx *cx, rush_tensor *t, int dtype, rush_tensor **out)
{
  const rush_value args[2] = {nn_arg(t), value_int(dtype)};
  if (t->dtype != dtype)
    return nn_invoke(cx, "aten::to", "dtype", args, 2, out);
  *out = tensor_retain(t);
  return RUSH_OK;
}

rush_status reshaped(call_ctx *cx, rush_tensor *t, int n_dims, const int64_t *sizes,
                     rush_tensor **out)
{
  int64_t strides[TENSOR_MAX_DIMS];
  work w = work_begin_part(cx);
  const rush_tensor *rows = WORK_MAKE(&w, tensor_contiguous(cx, t, &w.made));
  strides_contiguous(n_dims, sizes, strides);
  WORK_DO(&w, tensor_as_strided(cx, rows, n_dims, sizes, strides, rows->offset, out));
  return work_end(&w);
}

rush_status pick_rows(call_ctx *cx, rush_tensor *values, rush_tensor *at, rush_tensor **out)
{
  const rush_value args[3] = {nn_arg(values), value_int(0), nn_arg(at)};
  return nn_invoke(cx, "aten::index_select", "", args, 3, out);
}

rush_status sum_rows(call_ctx *cx, rush_tensor *values, rush_tensor *at, int64_t n,
                     rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  memcpy(sizes, values->sizes, values->n_dims * sizeof *sizes);
  sizes[0] = n;
  work w = work_begin_part(cx);
  rush_tensor *sum = work_new(&w, values->dtype, values->n_dims, sizes);
  WORK_DO(&w, tensor_fill(cx, sum, value_int(0)));
  const rush_value args[4] = {nn_arg(sum), value_int(0), nn_arg(at), nn_arg(values)};
  if (values->n_elems)
    (void)work_invoke(&w, "aten::index_add_", "", args, 4);
  return work_end_with(&w, sum, out);
}

/* -- Coordinates ------------------------------------------------------------------------------- */

rush_status coo_new_indices(call_ctx *cx, int64_t n_rows, int64_t nnz, rush_tensor **out)
{
  TRY(tensor_new(cx, RUSH_INT64, 2, (int64_t[]){n_rows, nnz}, out));
  (*out)->st->read_only = true;
  return RUSH_OK;
}

rush_status coo_new(call_ctx *cx, sparse_shape shape, rush_tensor *indices, rush_tensor *values,
                    bool is_coalesced, rush_tensor **out)
{
  const sparse_parts p = {.layout = LAYOUT_COO,
                          .is_coalesced = is_coalesced,
                          .sparse_dim = shape.sparse_dim,
                          .indices = indices,
                          .values = values};
  return sparse_new(cx, &p, shape.n_dims, shape.sizes, out);
}

rush_status coo_new_empty(call_ctx *cx, int dtype, sparse_shape shape, rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS + 1] = {0};
  const int dense_dim = shape.n_dims - shape.sparse_dim;
  memcpy(sizes + 1, shape.sizes + shape.sparse_dim, (size_t)dense_dim * sizeof *sizes);
  work w = work_begin_part(cx);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(cx, shape.sparse_dim, 0, &w.made)),
              *values = work_new(&w, dtype, dense_dim + 1, sizes);
  WORK_DO(&w, coo_new(cx, shape, indices, values, true, out));
  return work_end(&w);
}

rush_status coo_positions(call_ctx *cx, const rush_tensor *t, const int *dims, int n,
                          rush_tensor **out)
{
  const rush_tensor *indices = tensor_sparse(t)->indices;
  const int64_t nnz = indices->sizes[1], *from = indices->data;
  TRY(tensor_new(cx, RUSH_INT64, 1, &nnz, out));
  int64_t *to = (*out)->data;
  for (int64_t k = 0; k < nnz; k++)
    to[k] = 0;
  for (int i = 0; i < n; i++) {
    const int64_t size = t->sizes[dims[i]], *row = from + dims[i] * nnz;
    for (int64_t k = 0; k < nnz && !call_over_at(cx, k); k++)
      to[k] = to[k] * size + row[k];
  }
  if (call_over(cx)) {
    tensor_release(*out);
    *out = NULL;
    return call_poll(cx);
  }
  return RUSH_OK;
}

rush_status coo_all_positions(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  int dims[TENSOR_MAX_DIMS];
  for (int i = 0; i < t->n_dims; i++)
    dims[i] = i;
  return coo_positions(cx, t, dims, tensor_sparse(t)->sparse_dim, out);
}
