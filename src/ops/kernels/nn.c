/* ops/kernels/nn.c -- what kernels of layers share (nn.h): the check of dtypes, and calls of other
 * operators. */
#include "ops/kernels/nn.h"

rush_status nn_check_float(call_ctx *cx, const char *kernel, int dtype)
{
  int d = nn_dtype(dtype);
  return d == RUSH_FLOAT32 || d == RUSH_FLOAT64 ? RUSH_OK : call_no_dtype(cx, kernel, dtype);
}

rush_status nn_invoke(call_ctx *cx, const char *name, const char *overload, const rush_value *args,
                      uint32_t n_args, rush_tensor **out)
{
  rush_value v;
  TRY(op_invoke_name(cx, name, overload, args, n_args, &v));
  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor) {
    value_release(v);
    return call_fail(cx, "%s returned no tensor", name);
  }
  *out = v.as.tensor;
  return RUSH_OK;
}
