/* ops/kernels/values/autograd.c -- operators of derivatives as graphs.  A gradient on which nothing
 * depends is an undefined tensor (AutogradZero) rather than zeros, which would cost memory and
 * arithmetic; these operators look for it. */
#include "ops/call/call.h"

rush_kernel kernel_autograd_zero, kernel_autograd_any_non_zero, kernel_autograd_all_non_zero,
  kernel_autograd_all_zero, kernel_autograd_add;

rush_status kernel_autograd_zero(rush_call *call)
{
  call->results[0] = (rush_value){.tag = RUSH_TAG_TENSOR};
  return RUSH_OK;
}

static bool is_defined(rush_value v) { return v.tag == RUSH_TAG_TENSOR && v.as.tensor; }

/* Count the arguments, and the elements of those that are lists, in *n; returns how many are
 * defined tensors. */
static size_t count_defined(const rush_call *call, size_t *n)
{
  size_t defined = 0;

  *n = 0;
  for (uint32_t i = 0; i < call->n_args; i++) {
    const rush_value *v = &call->args[i];
    const bool is_list = v->tag == RUSH_TAG_LIST;
    const size_t k = is_list ? v->as.list->n : 1;

    for (size_t j = 0; j < k; j++)
      defined += is_defined(is_list ? v->as.list->items[j] : *v);
    *n += k;
  }
  return defined;
}

rush_status kernel_autograd_any_non_zero(rush_call *call)
{
  size_t n;
  call->results[0] = value_bool(count_defined(call, &n) > 0);
  return RUSH_OK;
}

rush_status kernel_autograd_all_non_zero(rush_call *call)
{
  size_t n;
  const size_t defined = count_defined(call, &n);
  call->results[0] = value_bool(defined == n);
  return RUSH_OK;
}

rush_status kernel_autograd_all_zero(rush_call *call)
{
  size_t n;
  call->results[0] = value_bool(count_defined(call, &n) == 0);
  return RUSH_OK;
}

rush_status kernel_autograd_add(rush_call *call)
{
  const bool a = is_defined(call->args[0]), b = is_defined(call->args[1]);

  if (!a && !b) {
    call->results[0] = (rush_value){.tag = RUSH_TAG_TENSOR};
  } else if (a != b) {
    call_return_arg(call, 0, a ? 0 : 1);
  } else {
    const rush_value args[3] = {call->args[0], call->args[1], value_int(1)};
    return op_invoke_name(call->cx, "aten::add", "Tensor", args, 3, call->results);
  }
  return RUSH_OK;
}
