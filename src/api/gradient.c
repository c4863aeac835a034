/* api/gradient.c -- rush_gradients, rush_backward and queries about recorded tensors. Handles are
 * collected in one array of tensor pointers, which autograd/backward.h takes; everything else is a
 * call inward. */
#include "api/api_int.h"
#include "autograd/backward.h"

static rush_status tensors_of(const char *what, const rush_value *values, size_t n, bool may_miss,
                              rush_tensor **out, rush_error *err)
{
  for (size_t i = 0; i < n; i++) {
    out[i] = values[i].tag == RUSH_TAG_TENSOR ? values[i].as.tensor : NULL;
    if (!out[i] &&
        !(may_miss && (values[i].tag == RUSH_TAG_NONE || values[i].tag == RUSH_TAG_TENSOR)))
      return error_set(err, RUSH_EARGUMENT, "%s %zu is no tensor", what, i);
  }
  return RUSH_OK;
}

/* Compute gradients; `row` has room for 2 * n_outputs + n_inputs tensors. */
static rush_status run_gradient(call_ctx *cx, rush_tensor **row, const rush_value *outputs,
                       const rush_value *grads, size_t n_outputs, const rush_value *inputs,
                       size_t n_inputs, const rush_gradient_options *options, rush_value *results)
{
  rush_gradient_options o = RUSH_GRADIENT_OPTIONS_INIT;
  grad_request q = {.outputs = row, .grads = grads ? row + n_outputs : NULL, .n_outputs = n_outputs,
                    .inputs = row + 2 * n_outputs, .n_inputs = n_inputs};
  if (options)
    TRY(API_READ(cx->err, rush_gradient_options, options, &o));
  q.create_graph = o.create_graph;
  q.retain_graph = o.retain_graph;
  q.allow_unused = o.allow_unused;
  TRY(tensors_of("output", outputs, n_outputs, false, row, cx->err));
  if (grads)
    TRY(tensors_of("gradient", grads, n_outputs, true, row + n_outputs, cx->err));
  TRY(tensors_of("input", inputs, n_inputs, false, row + 2 * n_outputs, cx->err));
  return grad_run(cx, &q, results);
}

static rush_status run_in(rush_context *c, const rush_value *outputs, const rush_value *grads,
                          size_t n_outputs, const rush_value *inputs, size_t n_inputs,
                          const rush_gradient_options *o, rush_value *results, rush_error *err)
{
  size_t n = 2 * n_outputs + n_inputs;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  rush_tensor **row = mem_alloc(cx.ctx, n * sizeof(*row));
  if (!row)
    return call_nomem(&cx);
  rush_status st = run_gradient(&cx, row, outputs, grads, n_outputs, inputs, n_inputs, o, results);
  mem_free(cx.ctx, row, n * sizeof(*row));
  return st;
}

rush_status rush_gradients(rush_context *c, const rush_value *outputs, const rush_value *grads,
                           size_t n_outputs, const rush_value *inputs, size_t n_inputs,
                           const rush_gradient_options *o, rush_value *results, rush_error *err)
{
  if (!n_inputs) {
    rush_error_clear(err);
    return RUSH_OK;
  }
  return run_in(c, outputs, grads, n_outputs, inputs, n_inputs, o, results, err);
}

rush_status rush_backward(rush_context *c, const rush_value *outputs, const rush_value *grads,
                          size_t n_outputs, const rush_gradient_options *o, rush_error *err)
{
  return run_in(c, outputs, grads, n_outputs, NULL, 0, o, NULL, err);
}

rush_value rush_tensor_grad(const rush_tensor *t)
{
  const grad_meta *m = grad_meta_find(t);

  return m && m->grad ? value_tensor_steal(tensor_retain(m->grad)) : value_none();
}

rush_status rush_tensor_set_grad(rush_tensor *t, rush_value grad, rush_error *err)
{
  rush_tensor *g = grad.tag == RUSH_TAG_TENSOR ? grad.as.tensor : NULL;
  sizes_text want, got;
  grad_meta *m;
  call_ctx cx;

  TRY(api_begin(&cx, t->h.ctx, err));
  if (grad.tag != RUSH_TAG_NONE && !g)
    return error_set_type(err, RUSH_EARGUMENT, "TypeError", "a gradient is a tensor, or None");
  if (g && (g->dtype != t->dtype || g->n_dims != t->n_dims ||
            memcmp(g->sizes, t->sizes, sizeof(int64_t) * t->n_dims) != 0))
    return error_set(err, RUSH_EARGUMENT, "expected a gradient of %s%s as its tensor, not of %s%s",
                     dtype_name(t->dtype), sizes_print(&want, t->n_dims, t->sizes),
                     dtype_name(g->dtype), sizes_print(&got, g->n_dims, g->sizes));
  TRY(grad_meta_of(&cx, t, &m));
  rush_tensor *old = m->grad;
  m->grad = tensor_retain(g);
  tensor_release(old);
  return RUSH_OK;
}

const rush_tensor *rush_tensor_base(const rush_tensor *t)
{
  const grad_meta *m = grad_meta_find(t);

  return m ? m->base : NULL;
}

bool rush_tensor_is_recorded(const rush_tensor *t) { return grad_is_recorded(t); }

void rush_tensor_set_leaf(rush_tensor *t, bool on)
{
  t->h.flags = (uint8_t)(on ? t->h.flags & ~TENSOR_HAS_GRAD_FN : t->h.flags | TENSOR_HAS_GRAD_FN);
}

rush_status rush_gradient_leaves(rush_context *c, const rush_value *tensors, size_t n,
                                 rush_value *out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  rush_tensor **row = mem_alloc(cx.ctx, n * sizeof(*row));
  if (!row)
    return call_nomem(&cx);
  rush_status st = tensors_of("value", tensors, n, false, row, err);
  if (st == RUSH_OK)
    st = grad_leaves(&cx, row, n, out);
  mem_free(cx.ctx, row, n * sizeof(*row));
  return st;
}

void *rush_tensor_user(const rush_tensor *t, void (*deleter)(void *, void *))
{
  return t->h.small == TENSOR_WRAPS && t->st->deleter == deleter ? t->st->user : NULL;
}
