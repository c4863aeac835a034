#include "api/api_int.h"

static void split_name(const char *text, str *name, str *overload)
{
  const char *colon = strstr(text, "::");
  const char *dot = strchr(colon ? colon : text, '.');

  *name = dot ? (str){text, (size_t)(dot - text)} : str_of(text);
  *overload = dot ? str_of(dot + 1) : STR("");
}

rush_status rush_op_call(rush_context *c, const char *name, const rush_value *args, size_t n_args,
                         const rush_named_value *named, size_t n_named, rush_value *results, size_t max_results,
                         size_t *n_results, rush_error *err)
{
  named_arg kwargs[64];
  uint32_t n = 0;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (n_named > COUNT_OF(kwargs) || n_args > 4096)
    return error_set(err, RUSH_EARGUMENT, "%zu arguments are too many", n_args + n_named);
  for (size_t i = 0; i < n_named; i++)
    kwargs[i] = (named_arg){str_of(named[i].name), named[i].value};
  TRY(op_call_by_name(&cx, str_of(name), args, (uint32_t)n_args, kwargs, (uint32_t)n_named, results,
                      (uint32_t)max_results, &n));
  *n_results = n;
  return RUSH_OK;
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

const rush_operator *rush_op_find(rush_context *c, const char *name)
{
  str base, overload;

  c = api_context(c, NULL);
  if (!c)
    return NULL;
  split_name(name, &base, &overload);
  return (const rush_operator *)op_find(c, base, overload);
}

rush_status rush_op_run(const rush_operator *operator_, const rush_value *args, size_t n_args, rush_value *results,
                        size_t n_results, rush_error *err)
{
  const op *o = (const op *)operator_;
  call_ctx cx;

  rush_error_clear(err);
  call_ctx_init(&cx, o->ctx, err);
  if (n_args != o->schema->n_args || n_results < o->schema->n_returns)
    return error_set(err, RUSH_EARGUMENT, "%s takes %u arguments and gives %u results; got %zu and room for %zu",
                     o->schema->name, o->schema->n_args, o->schema->n_returns, n_args, n_results);
  return op_invoke(&cx, o, args, (uint32_t)n_args, results, o->schema->n_returns);
}
