/* autograd/write.c -- writes to tensors that share their memory: a view's base, and its other
 * views. */
#include "autograd/record.h"

rush_status grad_set_base(call_ctx *cx, rush_tensor *t, rush_tensor *from)
{
  const grad_meta *of = grad_meta_find(from);
  rush_tensor *base = of && of->base ? of->base : from;
  grad_meta *m, *b;
  TRY(grad_meta_of(cx, t, &m));
  TRY(grad_meta_of(cx, base, &b));
  if (m->base || base == t)
    return RUSH_OK;
  m->base = tensor_retain(base);
  m->seen = b->generation;
  return RUSH_OK;
}

/* Make a record of an operator that did not run, with `made` as its result.  It keeps its
 * arguments' geometry. */
static rush_status record_of(call_ctx *cx, const char *name, const rush_value *args,
                             rush_tensor *made, grad_record **out)
{
  const op *o = op_find(cx->ctx, str_of(name), str_of(""));
  const op_gradients *g = NULL;
  grad_record *r;
  if (!o)
    return call_nomem(cx);
  TRY(op_gradients_of(cx, o, &g));
  TRY(grad_record_begin(cx, o, g, args, 0, &r));
  r->unchecked = true;
  rush_value result = {.tag = RUSH_TAG_TENSOR, .as.tensor = made};
  rush_status st = grad_record_end(cx, r, &result, false);
  if (st != RUSH_OK)
    grad_record_release(r);
  else
    *out = r;
  return st;
}

/* Compute size, stride and offset of t. */
static rush_status geometry(call_ctx *cx, const rush_tensor *t, int64_t offset, rush_value out[3])
{
  TRY(list_of_ints(cx, t->sizes, t->n_dims, &out[0]));
  rush_status st = list_of_ints(cx, t->strides, t->n_dims, &out[1]);
  if (st != RUSH_OK)
    value_release(out[0]);
  out[2] = value_int(offset);
  return st;
}

/* Record the base, whose elements are row-major in memory, with the view's new elements. */
static rush_status scattered(call_ctx *cx, rush_tensor *base, rush_tensor *view, grad_record **out)
{
  rush_value args[5] = {{.tag = RUSH_TAG_TENSOR, .as.tensor = base},
                        {.tag = RUSH_TAG_TENSOR, .as.tensor = view}};
  TRY(geometry(cx, view, view->offset - base->offset, &args[2]));
  rush_status st = record_of(cx, "aten::as_strided_scatter", args, base, out);
  value_release(args[2]);
  value_release(args[3]);
  return st;
}

/* Sort dimensions by their order in memory. */
static void sort_dims(const rush_tensor *t, int64_t *order)
{
  for (int i = 0; i < t->n_dims; i++) {
    int at = i;
    for (; at > 0 && t->strides[order[at - 1]] < t->strides[i]; at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
}

/* Record from.permute(dims), whose result has the geometry of `like`. */
static rush_status permuted(call_ctx *cx, rush_tensor *from, const int64_t *dims, rush_tensor *like)
{
  rush_value args[2] = {{.tag = RUSH_TAG_TENSOR, .as.tensor = from}};
  grad_record *r;
  TRY(list_of_ints(cx, dims, from->n_dims, &args[1]));
  rush_status st = record_of(cx, "aten::permute", args, like, &r);
  value_release(args[1]);
  TRY(st);
  return grad_attach_steal(cx, like, (grad_edge){r, 0});
}

/* Like scattered, for a base in any order of dimensions: permuted, scattered into, permuted
 * back. */
static rush_status scattered_in_order(call_ctx *cx, rush_tensor *base, rush_tensor *view)
{
  int64_t order[TENSOR_MAX_DIMS], back[TENSOR_MAX_DIMS], sizes[TENSOR_MAX_DIMS],
    strides[TENSOR_MAX_DIMS];
  rush_tensor *before, *after = NULL;
  grad_record *r;
  if (!tensor_is_dense(base))
    return call_unsupported(
      cx, "a recorded write to a view of a tensor with gaps between its elements");
  sort_dims(base, order);
  for (int i = 0; i < base->n_dims; i++) {
    back[order[i]] = i;
    sizes[i] = base->sizes[order[i]];
    strides[i] = base->strides[order[i]];
  }
  TRY(tensor_as_strided(cx, base, base->n_dims, sizes, strides, base->offset, &before));
  rush_status st = tensor_requires_grad(base) ? permuted(cx, base, order, before) : RUSH_OK;
  if (st == RUSH_OK)
    st = tensor_alias(cx, before, &after);
  if (st == RUSH_OK)
    st = scattered(cx, before, view, &r);
  if (st == RUSH_OK)
    st = grad_attach_steal(cx, after, (grad_edge){r, 0});
  if (st == RUSH_OK)
    st = permuted(cx, after, back, base);
  tensor_release(before);
  tensor_release(after);
  return st;
}

static rush_status scatter_back(call_ctx *cx, rush_tensor *base, rush_tensor *view)
{
  grad_record *r;
  if (!tensor_is_contiguous(base))
    return scattered_in_order(cx, base, view);
  TRY(scattered(cx, base, view, &r));
  return grad_attach_steal(cx, base, (grad_edge){r, 0});
}

rush_status grad_written_steal(call_ctx *cx, rush_tensor *t, grad_edge e)
{
  rush_status st = grad_move_leaf(cx, t);
  if (st != RUSH_OK) {
    grad_record_release(e.to);
    return st;
  }
  TRY(grad_attach_steal(cx, t, e));
  grad_meta *m = grad_meta_find(t), *b = m;
  if (m->base) {
    TRY(scatter_back(cx, m->base, t));
    b = grad_meta_find(m->base);
  }
  b->generation++;
  m->seen = b->generation;
  return RUSH_OK;
}

rush_status grad_refresh(call_ctx *cx, rush_tensor *t)
{
  grad_meta *m = grad_meta_find(t);
  if (!m || !m->base)
    return RUSH_OK;
  const grad_meta *b = grad_meta_find(m->base);
  if (m->seen == b->generation)
    return RUSH_OK;
  m->seen = b->generation;
  if (!tensor_requires_grad(m->base) || dtype_class_of(t->dtype) < DTYPE_FLOAT)
    return RUSH_OK;
  rush_value args[4] = {{.tag = RUSH_TAG_TENSOR, .as.tensor = m->base}};
  TRY(geometry(cx, t, t->offset, &args[1]));
  grad_record *r;
  rush_status st = record_of(cx, "aten::as_strided", args, t, &r);
  value_release(args[1]);
  value_release(args[2]);
  TRY(st);
  return grad_attach_steal(cx, t, (grad_edge){r, 0});
}
