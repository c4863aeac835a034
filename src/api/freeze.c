/* api/freeze.c -- the public functions that freeze modules: they read options and call
 * module/freeze.c. */
#include "api/api_int.h"

static rush_status read_options(const rush_freeze_options *o, freeze_options *out, rush_error *err)
{
  rush_freeze_options own;

  if (!o)
    return RUSH_OK;
  TRY(API_READ(err, rush_freeze_options, o, &own));
  if (own.n_preserved > 1000000)
    return error_set(err, RUSH_EARGUMENT, "%zu preserved names are too many", own.n_preserved);
  *out = (freeze_options){own.preserved, own.n_preserved, !own.fold_only, !own.keep_numerics};
  return RUSH_OK;
}

rush_status rush_module_freeze(rush_module *m, const rush_freeze_options *o, rush_module **out,
                               rush_error *err)
{
  freeze_options options = {.optimize = true, .numerics = true};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(read_options(o, &options, err));
  return module_freeze(&cx, m, &options, out);
}

rush_status rush_module_optimize_frozen(rush_module *m, const rush_freeze_options *o,
                                        rush_error *err)
{
  freeze_options options = {.optimize = true, .numerics = true};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(read_options(o, &options, err));
  return module_optimize_frozen(&cx, m, &options);
}
