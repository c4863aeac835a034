#include "api/api_int.h"

static rush_status read_options(const rush_freeze_options *o, freeze_options *out, rush_error *err)
{
  if (!o)
    return RUSH_OK;
  if (o->struct_bytes != sizeof *o)
    return error_set(err, RUSH_EARGUMENT, "rush_freeze_options has %zu bytes here, the caller says %zu", sizeof *o,
                     o->struct_bytes);
  if (o->n_preserved > 1000000)
    return error_set(err, RUSH_EARGUMENT, "%zu preserved names are too many", o->n_preserved);
  *out = (freeze_options){o->preserved, o->n_preserved, !o->fold_only, !o->keep_numerics};
  return RUSH_OK;
}

rush_status rush_module_freeze(rush_module *m, const rush_freeze_options *o, rush_module **out, rush_error *err)
{
  freeze_options options = {.optimize = true, .numerics = true};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(read_options(o, &options, err));
  return module_freeze(&cx, m, &options, out);
}

rush_status rush_module_optimize_frozen(rush_module *m, const rush_freeze_options *o, rush_error *err)
{
  freeze_options options = {.optimize = true, .numerics = true};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(read_options(o, &options, err));
  return module_optimize_frozen(&cx, m, &options);
}
