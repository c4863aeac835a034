/* api/optim.c -- the public functions of optimizers (rushlight/optim.h). */
#include "api/api_int.h"
#include "autograd/record.h"
#include "module/optimizer.h"

/* Read options into *o, which holds the defaults if `from` is NULL. */
static rush_status read_options(call_ctx *cx, const rush_optimizer_options *from,
                                rush_optimizer_options *o)
{
  return from ? API_READ(cx->err, rush_optimizer_options, from, o) : RUSH_OK;
}

static rush_status check_kind(call_ctx *cx, rush_optimizer_kind kind)
{
  return (uint32_t)kind <= RUSH_OPTIMIZER_ADAGRAD
           ? autograd_need(cx, "an optimizer")
           : error_set(cx->err, RUSH_EARGUMENT, "%d is no kind of optimizer", (int)kind);
}

static rush_status check_group(rush_error *err, const rush_optimizer *o, size_t group)
{
  return group < o->n_groups ? RUSH_OK
                             : error_set(err, RUSH_EARGUMENT,
                                         "there is no group %zu: the optimizer has %zu", group,
                                         o->n_groups);
}

rush_status rush_optimizer_defaults(rush_optimizer_kind kind, rush_optimizer_options *out,
                                    rush_error *err)
{
  rush_error_clear(err);
  if ((uint32_t)kind > RUSH_OPTIMIZER_ADAGRAD)
    return error_set(err, RUSH_EARGUMENT, "%d is no kind of optimizer", (int)kind);
  const rush_optimizer_options o = optimizer_defaults(kind);
  api_fill(out, &o, sizeof o);
  return RUSH_OK;
}

rush_status rush_optimizer_create(rush_context *c, rush_optimizer_kind kind,
                                  const rush_optimizer_options *options, const rush_value *params,
                                  size_t n, rush_optimizer **out, rush_error *err)
{
  call_ctx cx;
  rush_optimizer *o;

  TRY(api_begin(&cx, c, err));
  TRY(check_kind(&cx, kind));
  rush_optimizer_options given = optimizer_defaults(kind);
  TRY(read_options(&cx, options, &given));
  TRY(optimizer_new(&cx, kind, &o));
  const rush_status st = optimizer_add_group(&cx, o, &given, params, n);
  if (st == RUSH_OK)
    *out = o;
  else
    optimizer_free(o);
  return st;
}

/* Put the parameters of a module that require grad into `params`; *n of them, new. */
static rush_status trained(rush_module *m, size_t n_state, rush_value *params, size_t *n,
                           rush_error *err)
{
  *n = 0;
  for (size_t i = 0; i < n_state; i++) {
    bool is_parameter = false;
    rush_value v;
    TRY(rush_module_state_at(m, i, NULL, &is_parameter, &v, err));
    if (is_parameter && v.tag == RUSH_TAG_TENSOR && v.as.tensor &&
        tensor_requires_grad(v.as.tensor))
      params[(*n)++] = v;
    else
      value_release(v);
  }
  return RUSH_OK;
}

rush_status rush_optimizer_of_module(rush_module *m, rush_optimizer_kind kind,
                                     const rush_optimizer_options *options, rush_optimizer **out,
                                     rush_error *err)
{
  const size_t n_state = rush_module_n_state(m);
  size_t n;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  rush_value *params = mem_alloc(cx.ctx, n_state * sizeof *params);
  if (!params)
    return call_nomem(&cx);
  rush_status st = trained(m, n_state, params, &n, err);
  if (st == RUSH_OK)
    st = rush_optimizer_create(m->ctx, kind, options, params, n, out, err);
  for (size_t i = 0; i < n; i++)
    value_release(params[i]);
  mem_free(cx.ctx, params, n_state * sizeof *params);
  return st;
}

void rush_optimizer_release(rush_optimizer *o) { optimizer_free(o); }

rush_status rush_optimizer_add_group(rush_optimizer *o, const rush_optimizer_options *options,
                                     const rush_value *params, size_t n, rush_error *err)
{
  rush_optimizer_options given = o->groups[0].options;
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  TRY(read_options(&cx, options, &given));
  return optimizer_add_group(&cx, o, &given, params, n);
}

size_t rush_optimizer_n_groups(const rush_optimizer *o) { return o->n_groups; }

rush_status rush_optimizer_get_group(const rush_optimizer *o, size_t group,
                                     rush_optimizer_options *out, rush_error *err)
{
  rush_error_clear(err);
  TRY(check_group(err, o, group));
  api_fill(out, &o->groups[group].options, sizeof *out);
  return RUSH_OK;
}

rush_status rush_optimizer_set_group(rush_optimizer *o, size_t group,
                                     const rush_optimizer_options *options, rush_error *err)
{
  rush_optimizer_options given = optimizer_defaults(o->kind);
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  TRY(check_group(err, o, group));
  TRY(read_options(&cx, options, &given));
  TRY(optimizer_check(&cx, o->kind, &given));
  o->groups[group].options = given;
  return RUSH_OK;
}

rush_status rush_optimizer_set_lr(rush_optimizer *o, double lr, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  rush_optimizer_options first = o->groups[0].options;
  first.lr = lr;
  TRY(optimizer_check(&cx, o->kind, &first));
  for (size_t g = 0; g < o->n_groups; g++)
    o->groups[g].options.lr = lr;
  return RUSH_OK;
}

rush_status rush_optimizer_step(rush_optimizer *o, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  return optimizer_step(&cx, o);
}

rush_status rush_optimizer_zero_grad(rush_optimizer *o, bool set_to_none, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  return optimizer_zero_grad(&cx, o, set_to_none);
}

rush_status rush_optimizer_state(rush_optimizer *o, rush_value *out, rush_error *err)
{
  rush_value made = value_none();
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  const rush_status st = optimizer_save_state(&cx, o, &made);
  api_return_steal(st, made, out);
  return st;
}

rush_status rush_optimizer_load_state(rush_optimizer *o, rush_value state, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, o->ctx, err));
  return optimizer_load_state(&cx, o, state);
}
