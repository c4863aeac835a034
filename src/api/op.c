/* api/op.c -- calls of single operators by name, their schemas, shapes and gradients. Arguments are
 * bound and overloads chosen as in TorchScript; for frequent calls a host looks the operator up
 * once (rush_op_find) and skips that. */
#include "api/api_int.h"
#include "autograd/record.h"
#include "ops/call/gradient.h"
#include "ops/call/shape.h"

static void split_name(const char *text, str *name, str *overload)
{
  const char *colon = strstr(text, "::");
  const char *dot = strchr(colon ? colon : text, '.');

  *name = dot ? (str){text, (size_t)(dot - text)} : str_of(text);
  *overload = dot ? str_of(dot + 1) : STR("");
}

static rush_status read_named(const rush_named_value *named, size_t n_named, size_t n_args,
                              named_arg kwargs[OP_MOST_ARGS], rush_error *err)
{
  if (n_named > OP_MOST_ARGS || n_args > 4096)
    return error_set(err, RUSH_EARGUMENT, "%zu arguments are too many", n_args + n_named);
  for (size_t i = 0; i < n_named; i++)
    kwargs[i] = (named_arg){str_of(named[i].name), named[i].value};
  return RUSH_OK;
}

rush_status rush_op_call(rush_context *c, const char *name, const rush_value *args, size_t n_args,
                         const rush_named_value *named, size_t n_named, rush_value *results,
                         size_t max_results, size_t *n_results, rush_error *err)
{
  return rush_op_call_with(c, name, args, n_args, named, n_named, NULL, results, max_results,
                           n_results, err);
}

rush_status rush_op_call_with(rush_context *c, const char *name, const rush_value *args,
                              size_t n_args, const rush_named_value *named, size_t n_named,
                              const rush_call_options *options, rush_value *results,
                              size_t max_results, size_t *n_results, rush_error *err)
{
  named_arg kwargs[OP_MOST_ARGS];
  call_recorder recorder;
  uint32_t n = 0;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(api_outputs_begin(&cx, options, NULL));
  TRY(api_call_options(&cx, options, &recorder, true, args, n_args));
  TRY(read_named(named, n_named, n_args, kwargs, err));
  TRY(op_call_by_name(&cx, str_of(name), args, (uint32_t)n_args, kwargs, (uint32_t)n_named, results,
                      (uint32_t)max_results, &n));
  if (n_results)
    *n_results = n;
  return RUSH_OK;
}

rush_status rush_op_shape(rush_context *c, const char *name, const rush_value *args, size_t n_args,
                          const rush_named_value *named, size_t n_named, bool symbolic,
                          rush_value *result, rush_error *err)
{
  named_arg kwargs[OP_MOST_ARGS];
  rush_value bound[OP_MOST_ARGS];
  const op *o = NULL;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(read_named(named, n_named, n_args, kwargs, err));
  TRY(op_bind_by_name(&cx, str_of(name), args, (uint32_t)n_args, kwargs, (uint32_t)n_named, &o,
                      bound));
  rush_status st = op_shape_value(&cx, o, bound, symbolic, result);
  op_release_bound(o, bound);
  return st;
}

bool rush_op_exists(rush_context *c, const char *name)
{
  str base, overload;
  uint32_t n;

  c = api_context(c, NULL);
  if (!c)
    return false;
  split_name(name, &base, &overload);
  return overload.len ? op_find(c, base, overload) != NULL : op_overloads(c, base, &n) != NULL;
}

rush_status rush_op_schemas(rush_context *c, const char *name, char **text, rush_error *err)
{
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, c, err));
  text_init(&t, cx.ctx);
  op_table_print(&t, name ? str_of(name) : STR(""));
  return api_text(&cx, RUSH_OK, &t, text);
}

const rush_operator *rush_op_find(rush_context *c, const char *name)
{
  str base, overload;

  c = api_context(c, NULL);
  if (!c)
    return NULL;
  split_name(name, &base, &overload);
  return (const rush_operator *)op_find(c, base, overload);
}

rush_status rush_op_run(const rush_operator *operator_, const rush_value *args, size_t n_args,
                        rush_value *results, size_t n_results, rush_error *err)
{
  const op *o = (const op *)operator_;
  call_ctx cx;

  rush_error_clear(err);
  call_ctx_init(&cx, o->ctx, err);
  if (n_args != o->schema->n_args || n_results < o->schema->n_returns)
    return error_set(err, RUSH_EARGUMENT,
                     "%s takes %u arguments and returns %u results; got %zu and room for %zu",
                     o->schema->name, o->schema->n_args, o->schema->n_returns, n_args, n_results);
  return op_invoke(&cx, o, args, (uint32_t)n_args, results, o->schema->n_returns);
}

/* -- Gradients --------------------------------------------------------------------------------- */

static rush_status find_gradients(call_ctx *cx, const char *name, const op **o,
                                  const op_gradients **all)
{
  str base, overload;

  split_name(name, &base, &overload);
  TRY(op_lookup(cx, base, overload, o));
  if (!*o)
    return error_set(cx->err, RUSH_EARGUMENT, "there is no operator %s", name);
  TRY(autograd_need(cx, name));
  return op_gradients_of(cx, *o, all);
}

static rush_status find_gradient(call_ctx *cx, const char *name, size_t i, const op **o,
                                 const op_gradient **g)
{
  const op_gradients *all = NULL;

  TRY(find_gradients(cx, name, o, &all));
  if (!all || i >= all->n)
    return error_set(cx->err, RUSH_EARGUMENT, "%s has %u gradients, not %zu", name,
                     all ? all->n : 0, i + 1);
  *g = &all->items[i];
  return RUSH_OK;
}

rush_status rush_op_n_gradients(rush_context *c, const char *name, size_t *n, rush_error *err)
{
  call_ctx cx;
  const op *o = NULL;
  const op_gradients *all = NULL;

  TRY(api_begin(&cx, c, err));
  TRY(find_gradients(&cx, name, &o, &all));
  *n = all ? all->n : 0;
  return RUSH_OK;
}

rush_status rush_op_gradient(rush_context *c, const char *name, size_t i, const char **inputs,
                             const char **takes, rush_error *err)
{
  call_ctx cx;
  const op *o = NULL;
  const op_gradient *g = NULL;

  TRY(api_begin(&cx, c, err));
  TRY(find_gradient(&cx, name, i, &o, &g));
  if (inputs)
    *inputs = g->inputs;
  if (takes)
    *takes = g->takes;
  return RUSH_OK;
}

rush_status rush_op_gradient_run(rush_context *c, const char *name, size_t i,
                                 const rush_value *values, size_t n_values,
                                 const rush_value *inputs, size_t n_inputs, rush_value *results,
                                 rush_error *err)
{
  call_ctx cx;
  const op *o = NULL;
  const op_gradient *g = NULL;

  TRY(api_begin(&cx, c, err));
  TRY(find_gradient(&cx, name, i, &o, &g));
  if (n_values != g->n_takes || n_inputs != g->n_inputs)
    return error_set(err, RUSH_EARGUMENT,
                     "gradient %zu of %s takes %u values for %u inputs; got %zu and %zu", i, name,
                     g->n_takes, g->n_inputs, n_values, n_inputs);
  return op_gradient_run(&cx, o, g, values, inputs, results);
}
