/* ops/kernels/nn.c -- conversions around kernels of layers (nn.h): 16-bit floats to float32 and
 * back, contiguous copies, the channels last format of results. */
#include "ops/kernels/nn.h"

#include "ops/kernels/views.h"

rush_status nn_input(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  if (nn_is_half(t->dtype))
    return tensor_to_dtype(cx, t, RUSH_FLOAT32, out);
  if (dtype_class_of(t->dtype) == DTYPE_FLOAT &&
      dtype_bytes(t->dtype) == 1) /* no kernel here computes in float8 */
    return call_no_dtype(cx, "this operator", t->dtype);
  return tensor_contiguous(cx, t, out);
}

rush_status nn_return_steal(rush_call *c, uint32_t i, rush_tensor *made, int dtype,
                            const rush_tensor *like)
{
  rush_tensor *out = NULL;
  rush_status st = RUSH_OK;
  if (like && like->n_dims == made->n_dims && tensor_prefers_channels_last(like)) {
    st = tensor_copy_format(
      c->cx, made, dtype, made->n_dims == 4 ? FORMAT_CHANNELS_LAST : FORMAT_CHANNELS_LAST_3D, &out);
    tensor_release(made);
  } else if (made->dtype != dtype) {
    st = tensor_to_dtype(c->cx, made, dtype, &out);
    tensor_release(made);
  } else {
    out = made;
  }
  if (st == RUSH_OK)
    call_return_steal(c, i, out);
  return st;
}

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
