/* api/options.c -- a call's options, read once for functions, methods and operators. */
#include "api/api_int.h"
#include "autograd/record.h"

#include "base/clock.h"

static rush_status read_host(rush_error *err, const rush_gradient_host *host, rush_gradient_host *out)
{
  TRY(API_READ(err, rush_gradient_host, host, out));
  TRY(API_NEED(err, rush_gradient_host, out, get));
  return API_NEED(err, rush_gradient_host, out, add);
}

rush_status api_call_options(call_ctx *cx, const rush_call_options *options, call_recorder *recorder, bool any,
                             const rush_value *args, size_t n_args)
{
  rush_call_options o;
  rush_gradient_host host;

  if (!options)
    return RUSH_OK;
  TRY(API_READ(cx->err, rush_call_options, options, &o));
  cx->grad_mode = !o.no_grad;
  if (o.limit_seconds > 0 && o.limit_seconds < 1e9)
    call_set_deadline(cx, clock_ns() + (uint64_t)(o.limit_seconds * 1e9));
  cx->cancel = (atomic_bool *)o.cancel;
  if (!o.record_gradients)
    return RUSH_OK;
  if (o.gradient_host)
    TRY(read_host(cx->err, o.gradient_host, &host));
  return autograd_begin(cx, recorder, o.gradient_host ? &host : NULL, any, args, n_args);
}
