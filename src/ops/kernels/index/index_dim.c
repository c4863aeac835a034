/* ops/kernels/index/index_dim.c -- operators with an index along one dimension: index_select,
 * index_add, index_copy, index_fill, index_reduce; and take and put_, which treat the tensor as one
 * dimension.
 *
 * The index becomes byte offsets; the rest of the tensor is the block of a walk (index_walk.h). */
#include "ops/kernels/layout/factory.h"
#include "ops/kernels/index/index.h"
#include "ops/call/written.h"


rush_status call_target(rush_call *c, bool contiguous, rush_tensor **out)
{
  rush_tensor *t = call_tensor(c, 0);
  if (c->op->schema->args[0].is_write) {
    if (contiguous) /* index_fill_ takes expanded tensors still */
      TRY(written_check_self(c->cx, t));
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  return contiguous ? tensor_copy_format(c->cx, t, t->dtype, FORMAT_CONTIGUOUS, out)
                    : tensor_clone(c->cx, t, out);
}

static rush_status return_target(rush_call *c, rush_tensor *t, rush_status s)
{
  return call_return_made_steal(c, 0, t, s);
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

static rush_status check_select(rush_call *c, const rush_tensor *t, const rush_tensor *index)
{
  if (index->n_dims > 1)
    return call_fail_type(c->cx, "IndexError", "index_select(): Index is supposed to be a vector");
  if (t->n_dims == 0 && index->n_elems != 1)
    return call_fail(c->cx,
                     "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                     (long long)index->n_elems);
  if (index->dtype != RUSH_INT64 && index->dtype != RUSH_INT32)
    return call_fail(c->cx, "index_select(): Expected dtype int32 or int64 for index");
  return RUSH_OK;
}

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
  rush_tensor *t = call_tensor(c, 0), *index = call_tensor(c, 2), *r = NULL;
  int64_t sizes[TENSOR_MAX_DIMS];
  dim_index x;
  int dim;
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &dim));
  TRY(check_select(c, t, index));
  memcpy(sizes, t->sizes, sizeof *sizes * t->n_dims);
  sizes[dim] = index->n_elems;
  if (t->n_dims && t->sizes[dim] == 0 && index->n_elems)
    return call_fail(c->cx, "index_select(): self indexing axis dim should be positive");
  rush_status s = dim_index_make(c, &x, t, dim, index, false);
  if (s == RUSH_OK && x.has_bad)
    s = t->n_elems
          ? call_fail_type(c->cx, "IndexError", "index out of range in self")
          : call_fail(c->cx, "INDICES element is out of DATA bounds, id=%lld axis_dim=%lld",
                      (long long)x.bad, (long long)x.size);
  if (s == RUSH_OK)
    s = tensor_new(c->cx, t->dtype, t->n_dims, sizes, &r);
  if (s == RUSH_OK)
    s = select_rows(c, t, &x, r);
  if (s == RUSH_OK && tensor_quantizer(t))
    s = tensor_set_quantizer(c->cx, r, tensor_quantizer(t));
  dim_index_free(c, &x);
  return return_target(c, r, s);
}

/* -- index_add, index_copy, index_reduce ------------------------------------------------------- */

/* Check index_add and index_reduce; `name` is their name in PyTorch's messages. */
rush_status index_check_rows(rush_call *c, const char *name, const rush_tensor *self, int dim,
                             const rush_tensor *index, const rush_tensor *source)
{
  sizes_text a, b;
  if (index->n_dims > 1)
    return call_fail_type(c->cx, "IndexError",
                          "%s(): Index is supposed to be a vector, but got dim: %d with type: "
                          "%s and size: %s",
                          name, index->n_dims, dtype_aten_name(index->dtype),
                          sizes_print(&a, index->n_dims, index->sizes));
  if (index->dtype != RUSH_INT64 && index->dtype != RUSH_INT32)
    return call_fail(c->cx, "%s(): Expected dtype int32/int64 for index but got: %s", name,
                     dtype_aten_name(index->dtype));
  if (self->dtype != source->dtype)
    return call_fail(c->cx, "%s(): self (%s) and source (%s) must have the same scalar type", name,
                     dtype_aten_name(self->dtype), dtype_aten_name(source->dtype));
  if (dim != 0 && dim >= source->n_dims)
    return call_fail(c->cx,
                     "%s(): Indexing dim %d is out of bounds of the source tensor with dim %d",
                     name, dim, source->n_dims);
  int64_t n = source->n_dims ? source->sizes[dim] : 1;
  if (index->n_elems != n)
    return call_fail(
      c->cx,
      "%s(): Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: "
      "%d",
      name, (long long)index->n_elems, (long long)n, dim);
  bool same = self->n_dims == source->n_dims || self->n_dims <= 1;
  for (int d = 0; d < self->n_dims && same && self->n_dims == source->n_dims; d++)
    same = d == dim || self->sizes[d] == source->sizes[d];
  if (!same)
    return call_fail(
      c->cx,
      "source tensor shape must match self tensor shape, excluding the specified dimension. "
      "Got self.shape = %s source.shape = %s",
      sizes_print(&a, self->n_dims, self->sizes), sizes_print(&b, source->n_dims, source->sizes));
  return RUSH_OK;
}

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
  rush_tensor *self = call_tensor(c, 0), *source = call_tensor(c, 3), *target, *rows;
  int dim;
  TRY(dim_wrap(c->cx, call_int(c, 1), self->n_dims, &dim));
  TRY(index_check_rows(c, "index_add_", self, dim, call_tensor(c, 2), source));
  combine_fn *fn = combine_find(COMBINE_ADD, self->dtype);
  if (!fn)
    return call_unsupported(c->cx, "index_add of %s", dtype_aten_name(self->dtype));
  TRY(scaled(c, source, c->args[4], &rows));
  rush_status s = call_target(c, true, &target);
  if (s == RUSH_OK)
    s = return_target(
      c, target, combine_rows(c, target, dim, call_tensor(c, 2), rows, fn, "RuntimeError", ""));
  tensor_release(rows);
  return s;
}

/* Print sizes without dimension d, as index_copy's message does. */
static void print_slice(text_buf *out, const rush_tensor *t, int d)
{
  for (int i = 0, k = 0; i < t->n_dims; i++)
    if (i != d)
      text_printf(out, "%s%lld", k++ ? " " : "", (long long)t->sizes[i]);
}

static rush_status refuse_slices(rush_call *c, const rush_tensor *self, const rush_tensor *source,
                                 int dim)
{
  text_buf a, b;
  text_init(&a, c->cx->ctx);
  text_init(&b, c->cx->ctx);
  print_slice(&a, self, dim);
  print_slice(&b, source, dim);
  rush_status s =
    call_fail(c->cx,
              "index_copy_(): Source/destination tensor must have same slice shapes. Destination "
              "slice shape: %s at dimension %d and source slice shape: %s at dimension %d.",
              text_str(&a), dim, text_str(&b), source->n_dims ? dim : 0);
  text_free(&a);
  text_free(&b);
  return s;
}

static rush_status check_index_copy(rush_call *c, const rush_tensor *self, int dim)
{
  const rush_tensor *index = call_tensor(c, 2), *source = call_tensor(c, 3);
  if (index->n_dims > 1)
    return call_fail_type(c->cx, "IndexError",
                          "index_copy_(): Index should have dimension 1 or 0 (got %d)",
                          index->n_dims);
  if (source->n_dims == 0 && index->n_elems != 1)
    return call_fail_type(c->cx, "IndexError",
                          "index_copy_(): When source is scalar, index should have one element "
                          "(got %lld)",
                          (long long)index->n_elems);
  if (self->n_dims != source->n_dims && source->n_dims && self->n_dims)
    return call_fail_type(
      c->cx, "IndexError",
      "index_copy_(): When source and destination are not scalars, their "
      "dimensionality must match. Source dimensionality (%d), destination dimensionality (%d)",
      source->n_dims, self->n_dims);
  if (index->dtype != RUSH_INT64)
    return call_fail(c->cx, "index_copy_(): Expected a long tensor for index, but got %s",
                     dtype_aten_name(index->dtype));
  if (self->dtype != source->dtype)
    return call_fail(
      c->cx,
      "index_copy_(): self and source expected to have the same dtype, but got (self) %s and "
      "(source) %s",
      dtype_aten_name(self->dtype), dtype_aten_name(source->dtype));
  bool same = (self->n_dims > 1 ? self->n_dims : 1) == (source->n_dims > 1 ? source->n_dims : 1);
  for (int d = 0; d < self->n_dims && d < source->n_dims && same; d++)
    same = d == dim || self->sizes[d] == source->sizes[d];
  if (!same)
    return refuse_slices(c, self, source, dim);
  if (source->n_dims && index->n_elems != source->sizes[dim])
    return call_fail_type(c->cx, "IndexError",
                          "index_copy_(): Number of indices (%lld) should be equal to "
                          "source.size(dim) (%lld)",
                          (long long)index->n_elems, (long long)source->sizes[dim]);
  return RUSH_OK;
}

rush_status kernel_index_copy(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0), *target;
  int dim;
  TRY(dim_wrap(c->cx, call_int(c, 1), self->n_dims, &dim));
  TRY(check_index_copy(c, self, dim));
  TRY(call_target(c, true, &target));
  return return_target(c, target,
                       combine_rows(c, target, dim, call_tensor(c, 2), call_tensor(c, 3), NULL,
                                    "IndexError", "index_copy_(): "));
}

/* Return the value of index_fill as a 0-dim tensor of self's dtype. */
static rush_status fill_value(rush_call *c, const rush_tensor *self, rush_tensor **out)
{
  rush_tensor *t = call_tensor(c, 3);
  if (!t) {
    if (c->args[3].tag == RUSH_TAG_COMPLEX && !dtype_is_complex(self->dtype))
      return call_fail(
        c->cx, "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    return tensor_from_scalar(c->cx, c->args[3], self->dtype, out);
  }
  if (t->n_dims)
    return call_fail(
      c->cx,
      "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d "
      "dimension(s).",
      t->n_dims);
  return tensor_to_dtype(c->cx, t, self->dtype, out);
}

rush_status kernel_index_fill(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0), *index = call_tensor(c, 2), *target, *value;
  dim_index x;
  int dim;
  if (index->dtype != RUSH_INT64)
    return call_fail_type(c->cx, "IndexError", "index_fill_(): Expected dtype int64 for index.");
  if (index->n_dims > 1)
    return call_fail(c->cx, "Index has to be a vector/scalar");
  TRY(dim_wrap(c->cx, call_int(c, 1), self->n_dims, &dim));
  TRY(fill_value(c, self, &value));
  rush_status s = call_target(c, false, &target);
  if (s == RUSH_OK) {
    s = dim_index_make(c, &x, target, dim, index, true);
    if (s == RUSH_OK && x.has_bad && self->n_elems)
      s = bad_index(c, &x, "IndexError", "");
    if (s == RUSH_OK && self->n_elems)
      s = write_rows(c, &x, target, value, NULL);
    dim_index_free(c, &x);
    s = return_target(c, target, s);
  }
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
  rush_tensor *t = call_tensor(c, 0), *index = call_tensor(c, 1), *r = NULL;
  dim_index x = {.n = 0};
  if (index->dtype != RUSH_INT64)
    return call_fail(c->cx, "take(): Expected a long tensor for index, but got %s",
                     dtype_aten_name(index->dtype));
  if (t->n_elems == 0 && index->n_elems)
    return call_fail_type(c->cx, "IndexError", "take(): tried to take from an empty tensor");
  rush_status s = linear_index_make(c, &x, t, index);
  if (s == RUSH_OK)
    s = tensor_new(c->cx, t->dtype, index->n_dims, index->sizes, &r);
  if (s == RUSH_OK)
    gather_elems(tensor_item_bytes(t), r->data, (int64_t)tensor_item_bytes(t), t->data, x.at, x.n);
  dim_index_free(c, &x);
  return return_target(c, r, s);
}

static rush_status check_put(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0), *index = call_tensor(c, 1), *source = call_tensor(c, 2);
  if (t->dtype != source->dtype)
    return call_fail(
      c->cx,
      "put_(): self and source expected to have the same dtype, but got self.dtype = %s and "
      "source.dtype = %s",
      dtype_aten_name(t->dtype), dtype_aten_name(source->dtype));
  if (index->dtype != RUSH_INT64)
    return call_fail(c->cx, "put_(): Expected a long tensor for index, but got %s",
                     dtype_aten_name(index->dtype));
  if (index->n_elems != source->n_elems)
    return call_fail_type(c->cx, "IndexError",
                          "put_(): Expected source and index to have the same number of elements, "
                          "but got source.numel() = %lld, index.numel() = %lld",
                          (long long)source->n_elems, (long long)index->n_elems);
  if (t->n_elems == 0 && index->n_elems)
    return call_fail_type(c->cx, "IndexError",
                          "put_(): Tried to put elements into an empty tensor");
  return RUSH_OK;
}

rush_status kernel_put(rush_call *c)
{
  rush_tensor *target, *source;
  dim_index x = {.n = 0};
  TRY(check_put(c));
  combine_fn *add = combine_find(COMBINE_ADD, call_tensor(c, 0)->dtype);
  if (call_bool(c, 3) && !add)
    return call_unsupported(c->cx, "put_ with accumulate of %s",
                            dtype_aten_name(call_tensor(c, 0)->dtype));
  TRY(tensor_copy_format(c->cx, call_tensor(c, 2), call_tensor(c, 2)->dtype, FORMAT_CONTIGUOUS,
                         &source));
  rush_status s = call_target(c, false, &target);
  if (s == RUSH_OK) {
    int64_t item = (int64_t)tensor_item_bytes(target);
    s = written_check_self(c->cx, target); /* a copy never overlaps */
    if (s == RUSH_OK)
      s = linear_index_make(c, &x, target, call_tensor(c, 1));
    if (s == RUSH_OK && call_bool(c, 3))
      add(tensor_data_mut(target), x.at, 0, source->data, item, x.n);
    else if (s == RUSH_OK)
      scatter_elems((size_t)item, tensor_data_mut(target), x.at, source->data, item, x.n);
    dim_index_free(c, &x);
    s = return_target(c, target, s);
  }
  tensor_release(source);
  return s;
}
