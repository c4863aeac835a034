/* ops/kernels/quantized/quantized_conv_ops.c -- operators of quantized convolutions: packing, the
 * accessors of packed weights, and static and dynamic calls. They read arguments, bring the input
 * to bytes with channels innermost and call quantized_conv.c. A dynamic call quantizes its result
 * with the input's parameters and dequantizes it again, which loses precision but is what PyTorch
 * returns.
 */
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/quantized/quantize.h"
#include "ops/kernels/quantized/quantized_conv.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

/* -- Packing ----------------------------------------------------------------------------------- */

/* Read numbers of a list argument, after a leading `first` for 1-d convolutions. */
static rush_status take_ints(rush_call *c, uint32_t i, int n, int64_t first, int64_t *out)
{
  out[0] = first;
  const int lead = n == 1 ? 1 : 0;
  if (!call_ints_fixed(c, i, out + lead, n))
    return call_fail(c->cx, "%s: argument %u should have %d elements", c->op->schema->name, i + 1,
                     n);
  return RUSH_OK;
}

/* (weight, bias, stride, padding, [output_padding,] dilation, groups) */
static rush_status prepack(rush_call *c, int n, bool transpose)
{
  int64_t stride[3], pad[3], out_pad[3] = {0, 0, 0}, dilation[3];
  rush_tensor *w = call_tensor(c, 0), *wide = NULL;
  const uint32_t at = transpose ? 5 : 4;
  const int spatial = n == 1 ? 2 : n;
  conv_packed *p = NULL;
  TRY(take_ints(c, 2, n, 1, stride));
  TRY(take_ints(c, 3, n, 0, pad));
  if (transpose)
    TRY(take_ints(c, 4, n, 0, out_pad));
  TRY(take_ints(c, at, n, 1, dilation));
  if (w->n_dims != n + 2)
    return call_fail(c->cx, "Weights are expected to have %d dimensions", n + 2);
  if (n == 1) {
    geom g;
    geom_of(&g, w);
    geom_insert_dim(&g, 2, 1, i64_max(w->sizes[2], 1) * w->strides[2]);
    TRY(geom_view(c->cx, w, &g, &wide));
  } else {
    wide = tensor_retain(w);
  }
  rush_status st = conv_packed_new(c->cx, spatial, wide, call_tensor(c, 1), stride, pad, dilation,
                                   out_pad, call_int(c, at + 1), transpose, &p);
  tensor_release(wide);
  TRY(st);
  return custom_value_new_steal(c->cx, spatial == 2 ? &conv2d_packed_class : &conv3d_packed_class,
                                p, &c->results[0]);
}
rush_status kernel_quantized_conv1d_prepack(rush_call *c) { return prepack(c, 1, false); }
rush_status kernel_quantized_conv2d_prepack(rush_call *c) { return prepack(c, 2, false); }
rush_status kernel_quantized_conv3d_prepack(rush_call *c) { return prepack(c, 3, false); }
rush_status kernel_quantized_conv_transpose1d_prepack(rush_call *c) { return prepack(c, 1, true); }
rush_status kernel_quantized_conv_transpose2d_prepack(rush_call *c) { return prepack(c, 2, true); }
rush_status kernel_quantized_conv_transpose3d_prepack(rush_call *c) { return prepack(c, 3, true); }

static rush_status conv_arg(rush_call *c, uint32_t i, const conv_packed **p)
{
  void *self = NULL;
  const bool is_3d = c->args[i].tag == RUSH_TAG_CUSTOM &&
                     ((custom_value *)c->args[i].as.heap)->cls == &conv3d_packed_class;
  TRY(call_custom(c, i, is_3d ? &conv3d_packed_class : &conv2d_packed_class, &self));
  *p = self;
  return RUSH_OK;
}

static rush_status unpack_conv(rush_call *c, bool one_dim)
{
  const conv_packed *p = NULL;
  rush_tensor *w = NULL;
  TRY(conv_arg(c, 0, &p));
  if (one_dim) {
    TRY(tensor_select(c->cx, p->weight, 2, 0, &w));
  } else {
    w = tensor_retain(p->weight);
  }
  call_return_steal(c, 0, w);
  c->results[1] = p->bias ? value_tensor_steal(tensor_retain(p->bias)) : value_none();
  return RUSH_OK;
}
rush_status kernel_quantized_conv_unpack(rush_call *c) { return unpack_conv(c, false); }
rush_status kernel_quantized_conv1d_unpack(rush_call *c) { return unpack_conv(c, true); }

static rush_status return_ints(rush_call *c, const int64_t *v, int spatial)
{
  return list_of_ints(c->cx, v + 3 - spatial, (size_t)spatial, &c->results[0]);
}
#define ASK(name, field)                              \
  rush_kernel kernel_quantized_conv_##name;           \
  rush_status kernel_quantized_conv_##name(rush_call *c) \
  {                                                   \
    const conv_packed *p = NULL;                      \
    TRY(conv_arg(c, 0, &p));                          \
    return return_ints(c, p->field, p->spatial);         \
  }
ASK(stride, stride)
ASK(padding, pad)
ASK(dilation, dilation)
ASK(output_padding, out_pad)

rush_status kernel_quantized_conv_groups(rush_call *c)
{
  const conv_packed *p = NULL;
  TRY(conv_arg(c, 0, &p));
  call_return_value_steal(c, 0, value_int(p->groups));
  return RUSH_OK;
}

rush_status kernel_quantized_conv_transpose(rush_call *c)
{
  const conv_packed *p = NULL;
  TRY(conv_arg(c, 0, &p));
  call_return_value_steal(c, 0, value_int(p->transpose));
  return RUSH_OK;
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* Return the dimensions with channels last: [batch, spatial..., channel]. */
static void channels_last_order(int n_dims, int64_t *order)
{
  order[0] = 0;
  for (int i = 2; i < n_dims; i++)
    order[i - 1] = i;
  order[n_dims - 1] = 1;
}

/* Make `x` dense bytes with channels innermost; new. */
static rush_status channels_inside(call_ctx *cx, rush_tensor *x, rush_tensor **out)
{
  int64_t order[TENSOR_MAX_DIMS];
  rush_tensor *turned = NULL;
  channels_last_order(x->n_dims, order);
  TRY(tensor_permute(cx, x, order, &turned));
  rush_status st = tensor_contiguous(cx, turned, out);
  tensor_release(turned);
  return st;
}

/* Make a result of NCHW sizes whose channels are innermost in memory. */
static rush_status new_result(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                              const quantizer *q, rush_tensor **out)
{
  int64_t strides[5], at = sizes[1];
  strides[1] = 1;
  for (int i = n_dims - 1; i > 1; i--) {
    strides[i] = at;
    at *= i64_max(1, sizes[i]);
  }
  strides[0] = at;
  work w = work_begin_part(cx);
  rush_tensor *t = WORK_MAKE(&w, tensor_new_strided(cx, dtype, n_dims, sizes, strides, &w.made));
  WORK_DO(&w, tensor_set_quantizer(cx, t, q));
  return work_end_with(&w, t, out);
}

static rush_status check_call(call_ctx *cx, const conv_packed *p, const rush_tensor *x, int n)
{
  if (x->n_dims != n + 2)
    return call_fail(cx, "quantized convolution: expected an input of %d dimensions, got %d", n + 2,
                     x->n_dims);
  if (x->sizes[1] != p->in_ch)
    return call_fail(cx,
                     "[QConv%dD] Given groups=%lld, weight of size ..., expected input to have "
                     "%lld channels, but got %lld "
                     "channels instead",
                     n, (long long)p->groups, (long long)p->in_ch, (long long)x->sizes[1]);
  return RUSH_OK;
}

/* Convolve; x: quint8 with a quantizer.  n: dimensions of the operator. */
static rush_status run_conv(rush_call *c, const conv_packed *p, rush_tensor *x, int n,
                            const quantizer *out_q, bool relu, rush_tensor **out)
{
  const quantizer *q = tensor_quantizer(x);
  int64_t sizes[5] = {0};
  TRY(check_call(c->cx, p, x, n));
  TRY(check_byte_params(c->cx, q));
  if (p->spatial != (n == 1 ? 2 : n))
    return call_fail(c->cx, "quantized convolution: the packed weight has %d spatial dimensions",
                     p->spatial);
  conv_call call = {.p = p,
                    .batch = x->sizes[0],
                    .in = {1, 1, 1},
                    .a_scale = (float)q->scale,
                    .a_zero = (int32_t)q->zero_point,
                    .relu = relu};
  for (int i = 0; i < n; i++)
    call.in[3 - n + i] = x->sizes[2 + i];
  TRY(conv_packed_sizes(c->cx, p, call.in, call.out));
  sizes[0] = x->sizes[0];
  sizes[1] = p->out_ch;
  for (int i = 0; i < n; i++)
    sizes[2 + i] = call.out[3 - n + i];
  work w = work_begin(c);
  const rush_tensor *bytes = WORK_MAKE(&w, channels_inside(c->cx, x, &w.made));
  rush_tensor *y =
    WORK_MAKE(&w, new_result(c->cx, RUSH_QUINT8, n + 2, sizes, out_q, &w.made));
  call.x = bytes->data;
  call.y = y->data;
  call.out_scale = (float)out_q->scale;
  call.out_zero = (int32_t)out_q->zero_point;
  WORK_DO(&w, conv_packed_run(c->cx, &call));
  if (n == 1) /* PyTorch's 1-d results are dense */
    y = WORK_MAKE(&w, tensor_contiguous(c->cx, y, &w.made));
  return work_end_with(&w, y, out);
}

static rush_status static_conv(rush_call *c, int n, bool relu, uint32_t packed_at,
                               uint32_t scale_at)
{
  rush_tensor *x = call_tensor(c, 0);
  const conv_packed *p = NULL;
  TRY(conv_arg(c, packed_at, &p));
  if (x->dtype != RUSH_QUINT8 || !tensor_quantizer(x) || tensor_quantizer(x)->per_channel)
    return call_fail(c->cx, "Expected activation data type %s but got %s", "QUInt8",
                     dtype_aten_name(x->dtype));
  const quantizer out = {.scale = call_float(c, scale_at), .zero_point = call_int(c, scale_at + 1)};
  return run_conv(c, p, x, n, &out, relu, call_result(c, 0));
}
rush_status kernel_quantized_conv1d(rush_call *c) { return static_conv(c, 1, false, 1, 2); }
rush_status kernel_quantized_conv1d_relu(rush_call *c) { return static_conv(c, 1, true, 1, 2); }
rush_status kernel_quantized_conv2d(rush_call *c) { return static_conv(c, 2, false, 1, 2); }
rush_status kernel_quantized_conv2d_relu(rush_call *c) { return static_conv(c, 2, true, 1, 2); }
rush_status kernel_quantized_conv3d(rush_call *c) { return static_conv(c, 3, false, 1, 2); }
rush_status kernel_quantized_conv3d_relu(rush_call *c) { return static_conv(c, 3, true, 1, 2); }
/* The old forms repeat stride, padding, dilation and groups. */
rush_status kernel_quantized_conv2d_old(rush_call *c) { return static_conv(c, 2, false, 1, 6); }
rush_status kernel_quantized_conv2d_relu_old(rush_call *c) { return static_conv(c, 2, true, 1, 6); }
rush_status kernel_quantized_conv3d_old(rush_call *c) { return static_conv(c, 3, false, 1, 6); }
rush_status kernel_quantized_conv3d_relu_old(rush_call *c) { return static_conv(c, 3, true, 1, 6); }

/* Run a dynamic convolution; as in PyTorch the result is quantized with the input's parameters, and
 * dequantized. */
static rush_status dynamic_conv(rush_call *c, int n)
{
  rush_tensor *x = call_tensor(c, 0);
  const conv_packed *p = NULL;
  quantizer params = {.scale = 1.0};
  float lo, hi;
  TRY(conv_arg(c, 1, &p));
  if (x->dtype != RUSH_FLOAT32)
    return call_fail(c->cx, "Expected activation data type %s but got %s", "Float",
                     dtype_aten_name(x->dtype));
  work w = work_begin(c);
  rush_tensor *dense = WORK_MAKE(&w, tensor_contiguous(c->cx, x, &w.made));
  if (w.st == RUSH_OK) {
    find_min_max(c->cx->ctx, dense->data, dense->n_elems, &lo, &hi);
    choose_qparams(lo, hi, 0, 255, false, call_bool(c, 2), &params.scale, &params.zero_point);
  }
  rush_tensor *q = WORK_MAKE(&w, tensor_quantize(c->cx, dense, RUSH_QUINT8, &params, &w.made)),
              *yq = WORK_MAKE(&w, run_conv(c, p, q, n, &params, false, &w.made));
  WORK_DO(&w, tensor_dequantize(c->cx, yq, call_result(c, 0)));
  return work_end(&w);
}
rush_status kernel_quantized_conv1d_dynamic(rush_call *c) { return dynamic_conv(c, 1); }
rush_status kernel_quantized_conv2d_dynamic(rush_call *c) { return dynamic_conv(c, 2); }
rush_status kernel_quantized_conv3d_dynamic(rush_call *c) { return dynamic_conv(c, 3); }
