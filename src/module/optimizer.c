/* module/optimizer.c -- optimizers (optimizer.h): options, groups, and steps.
 *
 * Refusals have the words of torch.optim's classes.  What differs between the kinds is the rule
 * that a group's options become, and which states it uses. */
#include "module/optimizer.h"

#include <math.h>

#include "autograd/record.h"
#include "tensor/sparse.h"

/* -- Options ----------------------------------------------------------------------------------- */

const char *optimizer_class(rush_optimizer_kind kind)
{
  static const char *const names[] = {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"};
  return names[kind];
}

static bool is_adam(rush_optimizer_kind kind)
{
  return kind == RUSH_OPTIMIZER_ADAM || kind == RUSH_OPTIMIZER_ADAMW;
}

rush_optimizer_options optimizer_defaults(rush_optimizer_kind kind)
{
  rush_optimizer_options o = RUSH_OPTIMIZER_OPTIONS_INIT;
  o.lr = kind == RUSH_OPTIMIZER_RMSPROP || kind == RUSH_OPTIMIZER_ADAGRAD ? 1e-2 : 1e-3;
  o.weight_decay = kind == RUSH_OPTIMIZER_ADAMW ? 1e-2 : 0;
  o.beta1 = is_adam(kind) ? 0.9 : 0;
  o.beta2 = is_adam(kind) ? 0.999 : 0;
  o.alpha = kind == RUSH_OPTIMIZER_RMSPROP ? 0.99 : 0;
  o.eps = kind == RUSH_OPTIMIZER_ADAGRAD ? 1e-10 : kind == RUSH_OPTIMIZER_SGD ? 0 : 1e-8;
  return o;
}

/* Refuse a number unless least <= x (and x < below). */
static rush_status check_number(call_ctx *cx, const char *what, double x, double below)
{
  if (x >= 0 && x < below)
    return RUSH_OK;
  return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError", "Invalid %s: %.17g", what, x);
}

rush_status optimizer_check(call_ctx *cx, rush_optimizer_kind kind,
                            const rush_optimizer_options *o)
{
  const bool rms = kind == RUSH_OPTIMIZER_RMSPROP, sgd = kind == RUSH_OPTIMIZER_SGD;
  if ((uint32_t)kind > RUSH_OPTIMIZER_ADAGRAD)
    return error_set(cx->err, RUSH_EARGUMENT, "%d is no kind of optimizer", (int)kind);
  TRY(check_number(cx, "learning rate", o->lr, INFINITY));
  TRY(check_number(cx, "weight_decay value", o->weight_decay, INFINITY));
  if (sgd || rms)
    TRY(check_number(cx, "momentum value", o->momentum, INFINITY));
  if (!sgd)
    TRY(check_number(cx, "epsilon value", o->eps, INFINITY));
  if (is_adam(kind)) {
    TRY(check_number(cx, "beta parameter at index 0", o->beta1, 1));
    TRY(check_number(cx, "beta parameter at index 1", o->beta2, 1));
  }
  if (rms)
    TRY(check_number(cx, "alpha value", o->alpha, INFINITY));
  if (kind == RUSH_OPTIMIZER_ADAGRAD) {
    TRY(check_number(cx, "lr_decay value", o->lr_decay, INFINITY));
    TRY(check_number(cx, "initial_accumulator_value value", o->initial_accumulator, INFINITY));
  }
  if (sgd && o->nesterov && (o->momentum <= 0 || o->dampening != 0))
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "Nesterov momentum requires a momentum and zero dampening");
  return RUSH_OK;
}

/* -- Groups ------------------------------------------------------------------------------------ */

rush_status optimizer_new(call_ctx *cx, rush_optimizer_kind kind, rush_optimizer **out)
{
  rush_optimizer *o = mem_alloc_zero(cx->ctx, sizeof *o);
  if (!o)
    return call_nomem(cx);
  o->ctx = context_retain(cx->ctx);
  o->kind = kind;
  *out = o;
  return RUSH_OK;
}

static void free_params(context *c, optimizer_param *params, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    tensor_release(params[i].tensor);
    for (int k = 0; k < OPTIM_STATES; k++)
      tensor_release(params[i].state[k]);
  }
  mem_free(c, params, n * sizeof *params);
}

void optimizer_free(rush_optimizer *o)
{
  if (!o)
    return;
  context *c = o->ctx;
  free_params(c, o->params, o->n_params);
  mem_free(c, o->groups, o->n_groups * sizeof *o->groups);
  mem_free(c, o, sizeof *o);
  context_release(c);
}

static rush_status check_param(call_ctx *cx, const optimizer_param *params, size_t n, rush_value v)
{
  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    return error_set_type(cx->err, RUSH_EARGUMENT, "TypeError",
                          "optimizer can only optimize Tensors, but parameter %zu is none", n);
  if (v.as.tensor->h.flags & TENSOR_HAS_GRAD_FN)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "can't optimize a non-leaf Tensor");
  for (size_t i = 0; i < n; i++)
    if (params[i].tensor == v.as.tensor)
      return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                            "some parameters appear in more than one parameter group");
  return RUSH_OK;
}

/* Make state k of a parameter, filled with `x`. */
static rush_status make_state(call_ctx *cx, optimizer_param *p, int k, double x)
{
  rush_tensor *t;
  TRY(tensor_new_like(cx, p->tensor, DTYPE_NONE, &t));
  t->h.flags &= (uint8_t) ~(TENSOR_REQUIRES_GRAD | TENSOR_IS_PARAMETER);
  const rush_status st = tensor_fill(cx, t, rush_value_float(x));
  if (st == RUSH_OK)
    p->state[k] = t;
  else
    tensor_release(t);
  return st;
}

/* Fill params[from..n) with the values; states that exist from the start are made. */
static rush_status fill_params(call_ctx *cx, rush_optimizer_kind kind, double accumulator,
                               optimizer_param *params, size_t from, const rush_value *values,
                               size_t n)
{
  for (size_t i = from; i < n; i++) {
    TRY(check_param(cx, params, i, values[i - from]));
    params[i].tensor = tensor_retain(values[i - from].as.tensor);
    if (kind == RUSH_OPTIMIZER_ADAGRAD)
      TRY(make_state(cx, &params[i], 0, accumulator));
  }
  return RUSH_OK;
}

rush_status optimizer_add_group(call_ctx *cx, rush_optimizer *o,
                                const rush_optimizer_options *options, const rush_value *values,
                                size_t n)
{
  context *c = o->ctx;
  const size_t all = o->n_params + n, old = o->n_params;
  if (n == 0)
    return error_set_type(cx->err, RUSH_EARGUMENT, "ValueError",
                          "optimizer got an empty parameter list");
  TRY(optimizer_check(cx, o->kind, options));
  optimizer_param *params = mem_alloc_zero(c, all * sizeof *params);
  optimizer_group *groups = mem_alloc(c, (o->n_groups + 1) * sizeof *groups);
  rush_status st = params && groups ? RUSH_OK : call_nomem(cx);
  if (st == RUSH_OK) {
    if (old)
      memcpy(params, o->params, old * sizeof *params);
    st = fill_params(cx, o->kind, options->initial_accumulator, params, old, values, all);
  }
  if (st != RUSH_OK) {
    if (params)
      memset(params, 0, old * sizeof *params); /* the optimizer's, still */
    free_params(c, params, params ? all : 0);
    mem_free(c, groups, (o->n_groups + 1) * sizeof *groups);
    return st;
  }
  if (o->n_groups)
    memcpy(groups, o->groups, o->n_groups * sizeof *groups);
  groups[o->n_groups] = (optimizer_group){*options, o->kind == RUSH_OPTIMIZER_ADAMW, old};
  mem_free(c, o->params, old * sizeof *params);
  mem_free(c, o->groups, o->n_groups * sizeof *groups);
  o->params = params;
  o->groups = groups;
  o->n_params = all;
  o->n_groups++;
  return RUSH_OK;
}

/* -- Steps ------------------------------------------------------------------------------------- */

/* Return the rule of a group's options, without what depends on the number of the step. */
static optim_rule group_rule(rush_optimizer_kind kind, const optimizer_group *g)
{
  static const optim_kind kinds[] = {OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAM, OPTIM_RMSPROP,
                                     OPTIM_ADAGRAD};
  const rush_optimizer_options *o = &g->options;
  return (optim_rule){
    .kind = kinds[kind],
    .maximize = o->maximize,
    .nesterov = o->nesterov,
    .decoupled = g->decoupled,
    .amsgrad = o->amsgrad,
    .centered = o->centered,
    .lr = o->lr,
    .weight_decay = o->weight_decay,
    .momentum = o->momentum,
    .dampening = o->dampening,
    .beta1 = o->beta1,
    .beta2 = kind == RUSH_OPTIMIZER_RMSPROP ? o->alpha : o->beta2,
    .eps = o->eps,
  };
}

/* True if the rule uses state k. */
static bool uses_state(const optim_rule *r, int k)
{
  switch (r->kind) {
  case OPTIM_SGD:
    return k == 0 && r->momentum != 0;
  case OPTIM_ADAM:
    return k < 2 || r->amsgrad;
  case OPTIM_RMSPROP:
    return k == 0 || (k == 1 ? r->momentum > 0 : r->centered);
  case OPTIM_ADAGRAD:
    return k == 0;
  }
  return false;
}

/* Fill an item for a parameter that has the gradient `grad`; missing states are made. */
static rush_status fill_item(call_ctx *cx, const rush_optimizer *o, const optimizer_group *g,
                             optimizer_param *p, rush_tensor *grad, optim_item *item)
{
  if (tensor_sparse(grad))
    return call_fail(cx, "%s does not support sparse gradients", optimizer_class(o->kind));
  if (p->tensor->st->read_only)
    return call_fail_type(cx, "ValueError",
                          "parameter %zu is read-only: expected one that a step can write to",
                          (size_t)(p - o->params));
  *item = (optim_item){group_rule(o->kind, g), p->tensor, grad, {NULL}};
  optim_rule *r = &item->rule;
  r->is_first = p->step == 0;
  for (int k = 0; k < OPTIM_STATES; k++) {
    if (!uses_state(r, k))
      continue;
    if (!p->state[k])
      TRY(make_state(cx, p, k, 0));
    item->state[k] = p->state[k];
  }
  optim_number_step(r, p->step + 1, g->options.lr_decay);
  return RUSH_OK;
}

static rush_tensor *gradient_of(const optimizer_param *p)
{
  const grad_meta *m = grad_meta_find(p->tensor);
  return m ? m->grad : NULL;
}

/* Fill items of all parameters with a gradient; *n of them. */
static rush_status fill_items(call_ctx *cx, rush_optimizer *o, optim_item *items, size_t *n)
{
  *n = 0;
  for (size_t g = 0; g < o->n_groups; g++)
    for (size_t i = o->groups[g].first; i < optimizer_group_end(o, g); i++)
      if (gradient_of(&o->params[i]))
        TRY(fill_item(cx, o, &o->groups[g], &o->params[i], gradient_of(&o->params[i]),
                      &items[(*n)++]));
  return RUSH_OK;
}

/* True if steps of a group are counted: those of SGD are, for its momentum buffer, if it has one.
 * */
static bool counts_steps(const rush_optimizer *o, size_t g)
{
  return o->kind != RUSH_OPTIMIZER_SGD || o->groups[g].options.momentum != 0;
}

rush_status optimizer_step(call_ctx *cx, rush_optimizer *o)
{
  size_t n = 0;
  const size_t n_bytes = o->n_params * sizeof(optim_item);
  optim_item *items = mem_alloc(o->ctx, n_bytes);
  if (!items)
    return call_nomem_bytes(cx, n_bytes);
  rush_status st = fill_items(cx, o, items, &n);
  if (st == RUSH_OK)
    st = optim_step(cx, items, n);
  for (size_t g = 0; g < o->n_groups && st == RUSH_OK; g++)
    for (size_t i = o->groups[g].first; i < optimizer_group_end(o, g); i++)
      o->params[i].step += gradient_of(&o->params[i]) && counts_steps(o, g);
  mem_free(o->ctx, items, n_bytes);
  return st;
}

rush_status optimizer_zero_grad(call_ctx *cx, rush_optimizer *o, bool set_to_none)
{
  for (size_t i = 0; i < o->n_params; i++) {
    grad_meta *m = grad_meta_find(o->params[i].tensor);
    if (!m || !m->grad)
      continue;
    if (!set_to_none) {
      TRY(tensor_fill(cx, m->grad, rush_value_float(0)));
      continue;
    }
    tensor_release(m->grad);
    m->grad = NULL;
  }
  return RUSH_OK;
}
