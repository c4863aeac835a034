/* autograd/absent.c -- replaces gradients in builds without them (-Dautograd=false).
 *
 * Calls that would record, and requests for gradients, fail with a message that names the option;
 * programs that do neither run as in other builds. */
#include "autograd/backward.h"

#define WITHOUT "this library was built without gradients (-Dautograd=false)"

rush_status autograd_need(call_ctx *cx, const char *what)
{
  return call_unsupported(cx, "gradients of %s: " WITHOUT, what);
}

bool grad_is_recorded(const rush_tensor *t)
{
  (void)t;
  return false;
}

rush_status grad_meta_of(call_ctx *cx, rush_tensor *t, grad_meta **out)
{
  (void)t, (void)out;
  return call_unsupported(cx, "a gradient of a tensor: " WITHOUT);
}

rush_status grad_run(call_ctx *cx, const grad_request *q, rush_value *results)
{
  (void)q, (void)results;
  return call_unsupported(cx, "asking for gradients: " WITHOUT);
}

rush_status grad_leaves(call_ctx *cx, rush_tensor *const *tensors, size_t n, rush_value *out)
{
  (void)tensors, (void)n, (void)out;
  return call_unsupported(cx, "asking for gradients: " WITHOUT);
}

bool autograd_may_hold(rush_value v)
{
  (void)v;
  return false;
}

rush_status autograd_begin(call_ctx *cx, call_recorder *own, const rush_gradient_host *host,
                           bool any, const rush_value *args, size_t n_args)
{
  (void)own, (void)host, (void)any, (void)args, (void)n_args;
  return call_unsupported(
    cx, "recording a call (torch.autograd.grad, backward(), record_gradients): " WITHOUT);
}
