/* api/options.c -- reads a call's options, for functions, methods and operators. */
#include "api/api_int.h"
#include "autograd/record.h"

#include "base/clock.h"

static rush_status read_host(rush_error *err, const rush_gradient_host *host,
                             rush_gradient_host *out)
{
  TRY(API_READ(err, rush_gradient_host, host, out));
  TRY(API_NEED(err, rush_gradient_host, out, get));
  return API_NEED(err, rush_gradient_host, out, add);
}

rush_status api_call_options(call_ctx *cx, const rush_call_options *options,
                             call_recorder *recorder, bool any, const rush_value *args,
                             size_t n_args)
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

rush_status api_outputs_begin(call_ctx *cx, const rush_call_options *options, output_buffers *out)
{
  rush_call_options o;

  if (!options)
    return RUSH_OK;
  TRY(API_READ(cx->err, rush_call_options, options, &o));
  if (o.n_outputs == 0)
    return RUSH_OK;
  if (!out || !o.outputs)
    return error_set(cx->err, RUSH_EARGUMENT,
                     out ? "rush_call_options.outputs is NULL"
                         : "output buffers are for methods of modules");
  TRY(outputs_begin(cx, out, o.outputs, o.n_outputs));
  out->report = o.outputs_copied;
  cx->outputs = out;
  return RUSH_OK;
}

void api_outputs_end(call_ctx *cx, output_buffers *out, rush_status st)
{
  if (!out->wanted)
    return;
  if (st == RUSH_OK && out->report)
    memcpy(out->report, out->copied, out->n * sizeof *out->copied);
  cx->outputs = NULL;
  outputs_end(cx, out);
}
