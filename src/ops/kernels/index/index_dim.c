/* ops/kernels/index/index_dim.c -- operators with an index along one dimension: index_select,
 * index_add, index_copy, index_fill, index_reduce; and take and put_, which treat the tensor as one
 * dimension.
 *
 * The index becomes byte offsets; the rest of the tensor is the block of a walk (index_walk.h). */
#include "ops/kernels/layout/factory.h"
#include "ops/kernels/index/index.h"
#include "ops/call/written.h"


rush_status call_target(rush_call *c, bool apart)
{
  rush_tensor *t = call_tensor(c, 0);
  if (call_out(c, 0) != t)
    return tensor_copy(c->cx, call_out(c, 0), t);
  return apart ? written_check_self(c->cx, t) : RUSH_OK; /* index_fill_ takes expanded tensors */
}

/* -- Offsets along one dimension --------------------------------------------------------------- */

typedef struct dim_index {
  int dim;
  int64_t n;
  int64_t size, stride; /* of the indexed dimension; bytes */
  int64_t *at;          /* owned */
  int64_t bad;          /* the first index out of range, when has_bad */
  bool has_bad;
} dim_index;

static void dim_index_free(rush_call *c, dim_index *x)
{
  mem_free(c->cx->ctx, x->at, (size_t)x->n * sizeof *x->at);
}

/* Check and convert an index; `wraps`: negative indices count from the end. */
static rush_status dim_index_make(rush_call *c, dim_index *x, const rush_tensor *t, int dim,
                                  rush_tensor *index, bool wraps)
{
  rush_tensor *row;
  *x = (dim_index){.dim = dim, .n = index->n_elems, .size = 1, .stride = 0};
  if (t->n_dims) {
    x->size = t->sizes[dim];
    x->stride = t->strides[dim] * (int64_t)tensor_item_bytes(t);
  }
  TRY(tensor_to_dtype(c->cx, index, RUSH_INT64, &row));
  x->at = mem_alloc(c->cx->ctx, (size_t)x->n * sizeof *x->at);
  rush_status s = x->at ? RUSH_OK : call_nomem(c->cx);
  const int64_t *v = row->data;
  for (int64_t i = 0; i < x->n && s == RUSH_OK; i++) {
    int64_t k = v[i] < 0 && wraps ? v[i] + x->size : v[i];
    s = call_poll_at(c->cx, i);
    if (UNLIKELY(k < 0 || k >= x->size)) {
      if (!x->has_bad)
        x->bad = v[i];
      x->has_bad = true;
      k = 0;
    }
    x->at[i] = k * x->stride;
  }
  tensor_release(row);
  return s;
}

static int64_t byte_stride(const rush_tensor *t, int d)
{
  return t->sizes[d] == 1 ? 0 : t->strides[d] * (int64_t)tensor_item_bytes(t);
}

/* Add all dimensions of `to` except one; `from` has the same there, or is 0-dim: one number for
 * all. */
static void add_block(walk *w, int dim, const rush_tensor *to, const rush_tensor *from)
{
  for (int d = to->n_dims - 1; d >= 0; d--)
    if (d != dim)
      walk_dim(w, to->sizes[d], to->strides[d] * (int64_t)w->item,
               from->n_dims ? byte_stride(from, d) : 0);
}

/* Compute self[index] (combine)= source along the dimension. */
static rush_status write_rows(rush_call *c, const dim_index *x, rush_tensor *self,
                              const rush_tensor *source, combine_fn *combine)
{
  walk w;
  walk_init(&w, tensor_item_bytes(self), tensor_data_mut(self), source->data);
  w.n = x->n;
  w.to = x->at;
  w.from_step = source->n_dims ? source->strides[x->dim] * (int64_t)w.item : 0;
  w.combine = combine;
  add_block(&w, x->dim, self, source);
  return walk_run(c->cx, &w);
}

static rush_status bad_index(rush_call *c, const dim_index *x, const char *type, const char *before)
{
  return call_fail_type(c->cx, type,
                        "%sindex %lld is out of bounds for dimension %d with size %lld", before,
                        (long long)x->bad, x->dim, (long long)x->size);
}

/* -- index_select ------------------------------------------------------------------------------ */

static rush_status select_rows(rush_call *c, const rush_tensor *t, const dim_index *x,
                               rush_tensor *r)
{
  walk w;
  walk_init(&w, tensor_item_bytes(t), r->data, t->data);
  w.n = x->n;
  w.from = x->at;
  w.to_step = r->n_dims ? r->strides[x->dim] * (int64_t)w.item : 0;
  add_block(&w, x->dim, r, t);
  return walk_run(c->cx, &w);
}

rush_kernel kernel_index_select;
rush_status kernel_index_select(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *r = call_out(c, 0);
  dim_index x;
  rush_status s = dim_index_make(c, &x, t, index_dim(c), call_tensor(c, 2), false);
  if (s == RUSH_OK && x.has_bad)
    s = t->n_elems
          ? call_fail_type(c->cx, "IndexError", "index out of range in self")
          : call_fail(c->cx, "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld",
                      (long long)x.bad, (long long)x.size);
  if (s == RUSH_OK)
    s = select_rows(c, t, &x, r);
  if (s == RUSH_OK && tensor_quantizer(t))
    s = tensor_set_quantizer(c->cx, r, tensor_quantizer(t));
  dim_index_free(c, &x);
  return s;
}

/* -- index_add, index_copy, index_reduce ------------------------------------------------------- */

/* Compute source * alpha in source's dtype. */
static rush_status scaled(rush_call *c, rush_tensor *source, rush_value alpha, rush_tensor **out)
{
  rush_value args[2], made;
  if (number_as_double(alpha) == 1 && alpha.tag != RUSH_TAG_COMPLEX) {
    *out = tensor_retain(source);
    return RUSH_OK;
  }
  TRY(tensor_from_scalar(c->cx, alpha, source->dtype, out));
  args[0] = value_tensor_steal(source), args[1] = value_tensor_steal(*out);
  rush_status s = op_invoke_name(c->cx, "aten::mul", "Tensor", args, 2, &made);
  tensor_release(*out);
  if (s == RUSH_OK)
    *out = made.as.tensor;
  return s;
}

/* Combine source's rows into the target's, with checks. */
static rush_status combine_rows(rush_call *c, rush_tensor *self, int dim, rush_tensor *index,
                                rush_tensor *source, combine_fn *fn, const char *type,
                                const char *prefix)
{
  dim_index x;
  rush_tensor *rows = NULL;
  rush_status s = dim_index_make(c, &x, self, dim, index, false);
  if (s == RUSH_OK && x.has_bad)
    s = prefix ? bad_index(c, &x, type, prefix)
               : call_fail_type(c->cx, type, "index out of range in self");
  if (s == RUSH_OK && source->st == self->st)
    s = tensor_clone(c->cx, source, &rows);
  if (s == RUSH_OK)
    s = write_rows(c, &x, self, rows ? rows : source, fn);
  tensor_release(rows);
  dim_index_free(c, &x);
  return s;
}

rush_status index_spread_rows(rush_call *c, rush_tensor *target, int dim, rush_tensor *index,
                              rush_tensor *source, combine_fn *combine)
{
  return combine_rows(c, target, dim, index, source, combine, "IndexError", NULL);
}

rush_kernel kernel_index_add, kernel_index_copy, kernel_index_fill;
rush_status kernel_index_add(rush_call *c)
{
  rush_tensor *target = call_out(c, 0), *rows;
  combine_fn *fn = combine_find(COMBINE_ADD, target->dtype);
  if (!fn)
    return call_unsupported(c->cx, "index_add of %s", dtype_aten_name(target->dtype));
  TRY(call_target(c, true));
  TRY(scaled(c, call_tensor(c, 3), c->args[4], &rows));
  rush_status s =
    combine_rows(c, target, index_dim(c), call_tensor(c, 2), rows, fn, "RuntimeError", "");
  tensor_release(rows);
  return s;
}

rush_status kernel_index_copy(rush_call *c)
{
  TRY(call_target(c, true));
  return combine_rows(c, call_out(c, 0), index_dim(c), call_tensor(c, 2), call_tensor(c, 3), NULL,
                      "IndexError", "index_copy_(): ");
}

/* Implement index_fill; the value is argument 3: a 0-dim tensor, or a number. */
rush_status kernel_index_fill(rush_call *c)
{
  rush_tensor *target = call_out(c, 0), *t = call_tensor(c, 3), *value;
  dim_index x;
  TRY(call_target(c, false));
  TRY(t ? tensor_to_dtype(c->cx, t, target->dtype, &value)
        : tensor_from_scalar(c->cx, c->args[3], target->dtype, &value));
  rush_status s = dim_index_make(c, &x, target, index_dim(c), call_tensor(c, 2), true);
  if (s == RUSH_OK && x.has_bad && target->n_elems)
    s = bad_index(c, &x, "IndexError", "");
  if (s == RUSH_OK && target->n_elems)
    s = write_rows(c, &x, target, value, NULL);
  dim_index_free(c, &x);
  tensor_release(value);
  return s;
}

/* -- take, put_ -------------------------------------------------------------------------------- */

/* Compute byte offsets of elements by their row-major number. */
static rush_status linear_index_make(rush_call *c, dim_index *x, const rush_tensor *t,
                                     rush_tensor *index)
{
  rush_tensor flat = {.n_dims = 1, .dtype = t->dtype};
  int64_t n = t->n_elems, one = 1, item = (int64_t)tensor_item_bytes(t);
  flat.sizes = &n;
  flat.strides = &one;
  TRY(dim_index_make(c, x, &flat, 0, index, true));
  if (x->has_bad)
    return call_fail_type(c->cx, "IndexError",
                          "out of range: tried to access index %lld on a tensor of %lld "
                          "elements.",
                          (long long)x->bad, (long long)n);
  for (int64_t i = 0; i < x->n && !tensor_is_contiguous(t); i++) {
    int64_t rest = x->at[i] / item;
    TRY(call_poll_at(c->cx, i));
    x->at[i] = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
      x->at[i] += rest % t->sizes[d] * t->strides[d] * item;
      rest /= t->sizes[d];
    }
  }
  return RUSH_OK;
}

rush_kernel kernel_take, kernel_put;
rush_status kernel_take(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *r = call_out(c, 0);
  dim_index x = {.n = 0};
  rush_status s = linear_index_make(c, &x, t, call_tensor(c, 1));
  if (s == RUSH_OK)
    gather_elems(tensor_item_bytes(t), r->data, (int64_t)tensor_item_bytes(t), t->data, x.at, x.n);
  dim_index_free(c, &x);
  return s;
}

rush_status kernel_put(rush_call *c)
{
  rush_tensor *target = call_out(c, 0), *given = call_tensor(c, 2), *source;
  const int64_t item = (int64_t)tensor_item_bytes(target);
  dim_index x = {.n = 0};
  combine_fn *add = combine_find(COMBINE_ADD, target->dtype);
  if (call_bool(c, 3) && !add)
    return call_unsupported(c->cx, "put_ with accumulate of %s", dtype_aten_name(target->dtype));
  TRY(call_target(c, true));
  TRY(tensor_copy_rows(c->cx, given, &source));
  rush_status s = linear_index_make(c, &x, target, call_tensor(c, 1));
  if (s == RUSH_OK && call_bool(c, 3))
    add(tensor_data_mut(target), x.at, 0, source->data, item, x.n);
  else if (s == RUSH_OK)
    scatter_elems((size_t)item, tensor_data_mut(target), x.at, source->data, item, x.n);
  dim_index_free(c, &x);
  tensor_release(source);
  return s;
}
