/* ops/kernels/index/index.c -- x[indices] and x[indices] = values.
 *
 * Indexed dimensions become one array of byte offsets, one for each element of the indices' common
 * shape; the other dimensions are the block of each index (index_walk.h). */
#include "ops/kernels/index/index.h"
#include "shape/shape.h"

/* The result's dimensions: those before the indexed ones, the indices' own, those after. */
typedef struct plan {
  const rush_tensor *self;
  rush_tensor *index[TENSOR_MAX_DIMS]; /* by dimension of self, int64; NULL: not indexed.  Owned. */
  int before, n_own, n_dims;
  int64_t own[TENSOR_MAX_DIMS];   /* the indices' common shape */
  int64_t sizes[TENSOR_MAX_DIMS], layout[TENSOR_MAX_DIMS]; /* of the result, and its strides */
  /* of self under the result's dimensions, bytes; 0 for the indices' */
  int64_t strides[TENSOR_MAX_DIMS];
  int64_t n;                      /* elements of the common shape */
  int64_t *at;                    /* their byte offsets in self; owned */
} plan;

static void plan_free(rush_call *c, plan *p)
{
  for (int i = 0; i < p->self->n_dims; i++)
    tensor_release(p->index[i]);
  mem_free(c->cx->ctx, p->at, (size_t)p->n * sizeof *p->at);
}

/* -- Reading the list of indices --------------------------------------------------------------- */

static rush_status too_many(call_ctx *cx, const plan *p, size_t n)
{
  return call_fail_type(cx, "IndexError", "too many indices for tensor of dimension %d (got %zu)",
                        p->self->n_dims, n);
}

/* Add a mask: the positions of its true elements, one index for each of its dimensions. */
static rush_status add_mask(call_ctx *cx, plan *p, rush_tensor *mask, int *dim)
{
  sizes_text a, b;
  if (*dim + mask->n_dims > p->self->n_dims)
    return too_many(cx, p, (size_t)(*dim + mask->n_dims));
  for (int i = 0; i < mask->n_dims; i++)
    if (mask->sizes[i] != p->self->sizes[*dim + i])
      return call_fail_type(cx, "IndexError",
                            "The shape of the mask %s at index %d does not match the shape of "
                            "the indexed tensor %s at index %d",
                            sizes_print(&a, mask->n_dims, mask->sizes), i,
                            sizes_print(&b, p->self->n_dims, p->self->sizes), *dim + i);
  rush_tensor *where;
  TRY(tensor_nonzero(cx, mask, &where));
  rush_status s = RUSH_OK;
  for (int i = 0; i < mask->n_dims && s == RUSH_OK; i++) {
    s = tensor_select(cx, where, 1, i, &p->index[*dim]);
    ++*dim;
  }
  tensor_release(where);
  return s;
}

static rush_status read_indices(call_ctx *cx, plan *p, const rush_list *l)
{
  int dim = 0;
  bool any = false;
  if (l->n > (size_t)p->self->n_dims)
    return too_many(cx, p, l->n);
  for (size_t i = 0; i < l->n; i++) {
    rush_tensor *t = list_tensor(l, i);
    if (t && t->dtype != RUSH_INT64 && t->dtype != RUSH_INT32 && t->dtype != RUSH_BOOL &&
        t->dtype != RUSH_UINT8)
      return call_fail_type(cx, "IndexError",
                            "tensors used as indices must be long, int, byte or bool tensors");
  }
  for (size_t i = 0; i < l->n; i++) {
    rush_tensor *t = list_tensor(l, i);
    any = any || t;
    if (t && (t->dtype == RUSH_BOOL || t->dtype == RUSH_UINT8)) {
      TRY(add_mask(cx, p, t, &dim));
      continue;
    }
    if (dim >= p->self->n_dims)
      return too_many(cx, p, (size_t)dim + 1);
    if (t) {
      if (t->dtype == RUSH_INT64)
        p->index[dim] = tensor_retain(t);
      else
        TRY(tensor_to_dtype(cx, t, RUSH_INT64, &p->index[dim]));
    }
    dim++;
  }
  if (!any)
    return call_fail_type(cx, "IndexError", "at least one index must be provided");
  return RUSH_OK;
}

/* -- The shape of the result ------------------------------------------------------------------- */

/* Take the result's sizes and strides from the shape rule of index. */
static void take_geometry(plan *p, const shape_indexing *x, const shape_facts *r)
{
  const int64_t item = (int64_t)tensor_item_bytes(p->self);
  p->before = x->before;
  p->n_own = x->n_own;
  p->n_dims = r->n_dims;
  memcpy(p->own, x->own, (size_t)x->n_own * sizeof *p->own);
  for (int i = 0, d = 0; i < r->n_dims; i++) {
    const bool own = i >= x->before && i < x->before + x->n_own;
    while (!own && x->index[d])
      d++;
    p->sizes[i] = r->sizes[i];
    p->layout[i] = r->strides[i];
    p->strides[i] = own ? 0 : p->self->strides[d++] * item;
  }
}

static rush_status result_shape(rush_call *c, plan *p)
{
  shape_frame frame;
  shape_env *env = shape_frame_open(&frame, c->cx);
  shape_facts self, index[TENSOR_MAX_DIMS];
  shape_indexing x = {.self = &self};
  shape_facts_of(p->self, &self);
  for (int d = 0; d < self.n_dims; d++)
    if (p->index[d]) {
      shape_facts_of(p->index[d], &index[d]);
      x.index[d] = &index[d];
    }
  const shape_facts *r = shape_indexed(env, c->op->schema, &x);
  if (r)
    take_geometry(p, &x, r);
  shape_frame_close(&frame);
  if (r && !sizes_numel(p->n_own, p->own, &p->n))
    return call_nomem(c->cx);
  return env->st;
}

/* -- Offsets ----------------------------------------------------------------------------------- */

/* Add offsets for the `nth` index, of dimension `dim`: PyTorch's message counts indices. */
static rush_status add_offsets(call_ctx *cx, plan *p, int dim, int nth)
{
  int64_t size = p->self->sizes[dim],
          stride = p->self->strides[dim] * (int64_t)tensor_item_bytes(p->self);
  rush_tensor *wide, *row;
  TRY(tensor_expand(cx, p->index[dim], p->n_own, p->own, &wide));
  rush_status s = tensor_contiguous(cx, wide, &row);
  tensor_release(wide);
  if (s != RUSH_OK)
    return s;
  const int64_t *v = row->data;
  for (int64_t i = 0; i < p->n; i++) {
    int64_t k = v[i];
    if ((s = call_poll_at(cx, i)) != RUSH_OK)
      break;
    if (UNLIKELY(k < -size || k >= size)) {
      s = call_fail_type(cx, "IndexError",
                         "index %lld is out of bounds for dimension %d with size %lld",
                         (long long)k, nth, (long long)size);
      break;
    }
    p->at[i] += (k < 0 ? k + size : k) * stride;
  }
  tensor_release(row);
  return s;
}

static rush_status make_offsets(call_ctx *cx, plan *p)
{
  size_t bytes;
  for (int i = 0; i < p->self->n_dims; i++)
    if (p->index[i] && p->self->sizes[i] == 0 && p->n != 0)
      return call_fail_type(cx, "IndexError", "index is out of bounds for dimension with size 0");
  if (!size_mul((size_t)p->n, sizeof *p->at, &bytes))
    return call_nomem(cx);
  p->at = mem_alloc_zero(cx->ctx, bytes);
  if (!p->at)
    return call_nomem(cx);
  if (p->self->n_elems == 0)
    return RUSH_OK; /* PyTorch does not look at the indices then */
  for (int i = 0, nth = 0; i < p->self->n_dims; i++)
    if (p->index[i])
      TRY(add_offsets(cx, p, i, nth++));
  return RUSH_OK;
}

/* Make the plan; call plan_free also after a failure. */
static rush_status plan_make(rush_call *c, plan *p, const rush_tensor *self,
                             const rush_list *indices)
{
  *p = (plan){.self = self};
  TRY(read_indices(c->cx, p, indices));
  TRY(result_shape(c, p));
  return make_offsets(c->cx, p);
}

/* -- The walk ---------------------------------------------------------------------------------- */

/* Compute the positions of the indices' own dimensions in a tensor of the result's shape, with
 * strides in bytes: one step for all, or an array (new, of p->n) if they are not a single row. */
static rush_status own_offsets(call_ctx *cx, const plan *p, const int64_t *strides, int64_t *step,
                               int64_t **out)
{
  int64_t expect = 0, piece = 1;
  bool row = true;
  *step = 0;
  *out = NULL;
  for (int k = p->n_own - 1; k >= 0 && row; k--) {
    int64_t stride = strides[p->before + k];
    if (p->own[k] == 1)
      continue;
    if (piece == 1)
      *step = stride;
    else
      row = stride == expect;
    piece *= p->own[k];
    expect = *step * piece;
  }
  if (row)
    return RUSH_OK;
  int64_t *at = mem_alloc(cx->ctx, (size_t)p->n * sizeof *at);
  if (!at)
    return call_nomem(cx);
  for (int64_t i = 0; i < p->n; i++) {
    int64_t rest = i;
    if (call_over_at(cx, i)) {
      mem_free(cx->ctx, at, (size_t)p->n * sizeof *at);
      return call_poll(cx);
    }
    at[i] = 0;
    for (int k = p->n_own - 1; k >= 0; k--) {
      at[i] += rest % p->own[k] * strides[p->before + k];
      rest /= p->own[k];
    }
  }
  *out = at;
  return RUSH_OK;
}

static void add_block(const plan *p, walk *w, const int64_t *to, const int64_t *from)
{
  for (int i = p->n_dims - 1; i >= 0; i--)
    if (i < p->before || i >= p->before + p->n_own)
      walk_dim(w, p->sizes[i], to[i], from[i]);
}

static rush_status read_all(call_ctx *cx, const plan *p, rush_tensor *r)
{
  size_t item = tensor_item_bytes(r);
  int64_t strides[TENSOR_MAX_DIMS], *own;
  walk w;
  for (int i = 0; i < r->n_dims; i++)
    strides[i] = r->strides[i] * (int64_t)item;
  walk_init(&w, item, r->data, p->self->data);
  TRY(own_offsets(cx, p, strides, &w.to_step, &own));
  add_block(p, &w, strides, p->strides);
  w.n = p->n;
  w.from = p->at;
  w.to = own;
  rush_status s = walk_run(cx, &w);
  mem_free(cx->ctx, own, (size_t)p->n * sizeof *own);
  return s;
}

rush_kernel kernel_index, kernel_index_put;
rush_status kernel_index(rush_call *c)
{
  plan p;
  rush_tensor *r = NULL;
  rush_status s = plan_make(c, &p, call_tensor(c, 0), call_list(c, 1));
  if (s == RUSH_OK)
    s = tensor_new_strided(c->cx, p.self->dtype, p.n_dims, p.sizes, p.layout, &r);
  if (s == RUSH_OK)
    s = read_all(c->cx, &p, r);
  if (s == RUSH_OK && tensor_quantizer(p.self))
    s = tensor_set_quantizer(c->cx, r, tensor_quantizer(p.self));
  plan_free(c, &p);
  return call_return_made_steal(c, 0, r, s);
}

/* -- index_put --------------------------------------------------------------------------------- */

static rush_status check_values(call_ctx *cx, const plan *p, const rush_tensor *values)
{
  sizes_text a, b;
  if (values->dtype != p->self->dtype)
    return call_fail(
      cx,
      "Index put requires the source and destination dtypes match, got %s for the destination "
      "and %s for the source.",
      dtype_aten_name(p->self->dtype), dtype_aten_name(values->dtype));
  bool fits = values->n_dims <= p->n_dims;
  for (int i = 1; i <= values->n_dims && fits; i++) {
    int64_t n = values->sizes[values->n_dims - i];
    fits = n == 1 || n == p->sizes[p->n_dims - i];
  }
  if (!fits)
    return call_fail(
      cx,
      "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of "
      "shape %s",
      sizes_print(&a, values->n_dims, values->sizes), sizes_print(&b, p->n_dims, p->sizes));
  return RUSH_OK;
}

static rush_status write_all(call_ctx *cx, const plan *p, rush_tensor *self,
                             const rush_tensor *values, bool accumulate)
{
  size_t item = tensor_item_bytes(self);
  int64_t strides[TENSOR_MAX_DIMS], *own;
  walk w;
  for (int i = 0; i < p->n_dims; i++) {
    int d = i - (p->n_dims - values->n_dims);
    strides[i] = d < 0 || values->sizes[d] == 1 ? 0 : values->strides[d] * (int64_t)item;
  }
  walk_init(&w, item, tensor_data_mut(self), values->data);
  if (accumulate) {
    w.combine = combine_find(COMBINE_ADD, self->dtype);
    if (!w.combine)
      return call_unsupported(cx, "index_put with accumulate of %s", dtype_aten_name(self->dtype));
  }
  TRY(own_offsets(cx, p, strides, &w.from_step, &own));
  add_block(p, &w, p->strides, strides);
  w.n = p->n;
  w.to = p->at;
  w.from = own;
  rush_status s = walk_run(cx, &w);
  mem_free(cx->ctx, own, (size_t)p->n * sizeof *own);
  return s;
}

/* Store values; those that share memory with self are copied first. */
static rush_status put_values(call_ctx *cx, const plan *p, rush_tensor *self, rush_tensor *values,
                       bool accumulate)
{
  rush_tensor *v = NULL;
  TRY(check_values(cx, p, values));
  if (p->n == 0 || self->n_elems == 0)
    return RUSH_OK;
  if (values->st != self->st)
    return write_all(cx, p, self, values, accumulate);
  TRY(tensor_copy_rows(cx, values, &v));
  rush_status s = write_all(cx, p, self, v, accumulate);
  tensor_release(v);
  return s;
}

rush_status kernel_index_put(rush_call *c)
{
  plan p;
  rush_tensor *self = call_out(c, 0);
  TRY(call_target(c, false));
  rush_status s = plan_make(c, &p, self, call_list(c, 1));
  if (s == RUSH_OK)
    s = put_values(c->cx, &p, self, call_tensor(c, 2), call_bool(c, 3));
  plan_free(c, &p);
  return s;
}
