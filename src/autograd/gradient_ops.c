/* autograd/gradient_ops.c -- operators by which a program requests gradients: torch.autograd.grad,
 * backward(), .grad, retain_grad(). They are found by name in a table and work only in a recorded
 * call; each turns its arguments into a request and runs autograd/backward.c. Gradients of leaves
 * that belong to a host (torch's parameters) are passed to the host. */
#include "autograd/backward.h"
#include "ops/table/op_keys.h"

static bool is_undefined(rush_value v) { return v.tag != RUSH_TAG_TENSOR || !v.as.tensor; }

static rush_status check_outputs(call_ctx *cx, const rush_value *outputs, size_t n,
                                 const rush_value *grads, size_t n_grads)
{
  sizes_text a, b;
  if (n_grads && n_grads != n)
    return call_fail(cx, "got %zu tensors and %zu gradients", n, n_grads);
  for (size_t i = 0; i < n; i++) {
    const rush_tensor *t = outputs[i].as.tensor,
                      *g = n_grads && !is_undefined(grads[i]) ? grads[i].as.tensor : NULL;
    if (g &&
        (g->n_dims != t->n_dims || memcmp(g->sizes, t->sizes, t->n_dims * sizeof *t->sizes) != 0))
      return call_fail(
        cx, "invalid gradient at index %zu - got %s but expected shape compatible with %s", i,
        sizes_print(&a, g->n_dims, g->sizes), sizes_print(&b, t->n_dims, t->sizes));
    if (!tensor_requires_grad(t))
      return call_fail(
        cx, "element %zu of tensors does not require grad and does not have a grad_fn", i);
  }
  return RUSH_OK;
}

/* Convert values (Tensor[] or one Tensor) to tensors. */
static void tensors_of(const rush_value *values, size_t n, rush_tensor **row)
{
  for (size_t i = 0; i < n; i++)
    row[i] = is_undefined(values[i]) ? NULL : values[i].as.tensor;
}

typedef struct gradient_request {
  const rush_value *outputs, *grads,
    *inputs; /* n_grads 0: none are given; n_inputs 0: all leaves */
  size_t n_outputs, n_grads, n_inputs;
  bool create_graph, retain_graph;
} gradient_request;

/* Compute results[n_inputs], new; None for unused inputs. */
static rush_status run_request(call_ctx *cx, const gradient_request *a, rush_value *results)
{
  const size_t n = 2 * a->n_outputs + a->n_inputs;
  rush_tensor **row = mem_alloc(cx->ctx, n * sizeof *row);

  if (!row)
    return call_nomem(cx);
  grad_request q = {.outputs = row,
                    .grads = a->n_grads ? row + a->n_outputs : NULL,
                    .n_outputs = a->n_outputs,
                    .inputs = row + 2 * a->n_outputs,
                    .n_inputs = a->n_inputs,
                    .create_graph = a->create_graph,
                    .retain_graph = a->retain_graph,
                    .allow_unused = true};
  rush_status st = check_outputs(cx, a->outputs, a->n_outputs, a->grads, a->n_grads);
  if (st == RUSH_OK) {
    tensors_of(a->outputs, a->n_outputs, row);
    tensors_of(a->grads, a->n_grads, row + a->n_outputs);
    tensors_of(a->inputs, a->n_inputs, row + 2 * a->n_outputs);
    for (size_t i = 0; i < a->n_inputs && st == RUSH_OK; i++)
      if (!tensor_requires_grad(q.inputs[i]))
        st = call_fail(cx, "element %zu of the input tensors does not require grad", i);
  }
  if (st == RUSH_OK)
    st = grad_run(cx, &q, results);
  mem_free(cx->ctx, row, n * sizeof *row);
  return st;
}

static void set_list(const rush_call *c, uint32_t arg, const rush_value **values, size_t *n)
{
  const rush_list *l = call_list(c, arg);
  *values = l ? l->items : NULL;
  *n = l ? l->n : 0;
}

/* Read retain_graph and create_graph from argument `first` on. */
static void set_flags(const rush_call *c, uint32_t first, gradient_request *a)
{
  a->create_graph = call_bool(c, first + 1);
  a->retain_graph = call_is_none(c, first) ? a->create_graph : call_bool(c, first);
}

static rush_status call_grad(rush_call *c)
{
  gradient_request a = {0};
  rush_list *made;
  set_list(c, 0, &a.outputs, &a.n_outputs);
  set_list(c, 1, &a.inputs, &a.n_inputs);
  set_list(c, 2, &a.grads, &a.n_grads);
  set_flags(c, 3, &a);
  if (!a.n_inputs)
    return call_fail(c->cx, "grad requires non-empty inputs.");
  TRY(list_new(c->cx, type_elem(c->op->schema->returns[0].type), a.n_inputs, &made));
  rush_status st = run_request(c->cx, &a, made->items);
  made->n = st == RUSH_OK ? a.n_inputs : 0;
  for (size_t i = 0; i < made->n && st == RUSH_OK; i++)
    if (is_undefined(made->items[i]) && !call_bool(c, 5))
      st = call_fail(c->cx,
                     "element %zuof the differentiated Tensors appears to not have been used in "
                     "the graph. Set allow_unused=True "
                     "if this is the desired behavior.",
                     i);
  rush_value list = value_heap_steal(RUSH_TAG_LIST, made);
  if (st != RUSH_OK)
    value_release(list);
  else
    call_return_value_steal(c, 0, list);
  return st;
}

/* Run backward; arguments: self, gradient, retain_graph, create_graph; both may be lists. */
static rush_status call_backward(rush_call *c)
{
  gradient_request a = {
    .outputs = c->args, .n_outputs = 1, .grads = &c->args[1], .n_grads = !is_undefined(c->args[1])};
  if (call_list(c, 0)) {
    set_list(c, 0, &a.outputs, &a.n_outputs);
    set_list(c, 1, &a.grads, &a.n_grads);
  }
  set_flags(c, 2, &a);
  return run_request(c->cx, &a, NULL);
}

static rush_status read_grad(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  const rush_gradient_host *host = c->cx->recorder->host;
  const grad_meta *m = grad_meta_find(t);
  rush_value grad = value_none();
  bool known = false;
  if (host && tensor_requires_grad(t) && !grad_is_recorded(t))
    TRY(host->get(host->user, c->args[0], &known, &grad, c->cx->err));
  if (!known && m && m->grad)
    grad = value_tensor_steal(tensor_retain(m->grad));
  call_return_value_steal(c, 0, grad);
  return RUSH_OK;
}

static rush_status retain_grad(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  grad_meta *m;
  if (!tensor_requires_grad(t))
    return call_fail(c->cx, "can't retain_grad on Tensor that has requires_grad=False");
  if (!grad_is_recorded(t))
    return RUSH_OK; /* a leaf does */
  TRY(grad_meta_of(c->cx, t, &m));
  grad_retain(m);
  return RUSH_OK;
}

static rush_status read_retains_grad(rush_call *c)
{
  const grad_meta *m = grad_meta_find(call_tensor(c, 0));
  call_return_value_steal(c, 0, value_bool(m && m->retains));
  return RUSH_OK;
}

rush_status autograd_call_op(rush_call *c)
{
  switch (c->op->name_key) {
  case OPN_GRAD:
    return call_grad(c);
  case OPN_BACKWARD:
    return call_backward(c);
  case OPN_PRIM__GRAD:
    return read_grad(c);
  case OPN_RETAIN_GRAD:
    return retain_grad(c);
  case OPN_RETAINS_GRAD:
    return read_retains_grad(c);
  }
  return call_unsupported(c->cx, "%s", c->op->schema->name);
}
