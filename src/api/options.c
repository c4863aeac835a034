/* api/options.c -- a call's options, read once for functions, methods and operators. */
#include "api/api_int.h"
#include "autograd/record.h"

#include "base/clock.h"

rush_status api_call_options(call_ctx *cx, const rush_call_options *o, call_recorder *recorder, bool any, const rush_value *args,
                             size_t n_args)
{
  if (!o)
    return RUSH_OK;
  if (o->struct_bytes != sizeof(*o))
    return error_set(cx->err, RUSH_EARGUMENT, "rush_call_options has %zu bytes here, the caller says %zu", sizeof(*o),
                     o->struct_bytes);
  cx->grad_mode = !o->no_grad;
  if (o->limit_seconds > 0)
    cx->deadline_ns = clock_ns() + (uint64_t)(o->limit_seconds * 1e9);
  cx->cancel = (atomic_bool *)o->cancel;
  if (o->record_gradients)
    autograd_begin(cx, recorder, o->gradient_host, any, args, n_args);
  return RUSH_OK;
}
