/* ops/kernels/quantized/quantize_ops.c -- operators that make, query and dequantize quantized
 * tensors, and those of fake quantization. */
#include <math.h>
#include <string.h>

#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/quantized/quantize.h"
#include "ops/kernels/work.h"
#include "ops/table/op_keys.h"
#include "tensor/iter.h"

/* -- Making ------------------------------------------------------------------------------------ */

static rush_status check_quantized_dtype(call_ctx *cx, int64_t dtype)
{
  if (dtype == RUSH_QINT8 || dtype == RUSH_QUINT8 || dtype == RUSH_QINT32)
    return RUSH_OK;
  return call_fail(cx, "ScalarType %s is not supported in new_qtensor.",
                   dtype_is_valid(dtype) ? dtype_aten_name((int)dtype) : "Undefined");
}

static rush_status check_zero_point(call_ctx *cx, int64_t dtype, int64_t zero_point,
                                    const char *who)
{
  int64_t lo, hi;
  quant_limits((int)dtype, &lo, &hi);
  if (zero_point > hi)
    return call_fail(cx, "%s zero_point %lld is above upper bound.", who, (long long)zero_point);
  return zero_point < lo
           ? call_fail(cx, "%s zero_point %lld is below lower bound.", who, (long long)zero_point)
           : RUSH_OK;
}

static rush_status quantize_tensor(call_ctx *cx, rush_tensor *t, double scale, int64_t zero_point,
                                   int64_t dtype, rush_tensor **out)
{
  const quantizer q = {.scale = scale, .zero_point = zero_point};
  TRY(check_quantized_dtype(cx, dtype));
  if (t->dtype != RUSH_FLOAT32)
    return call_fail(cx, "Quantize only works on Float Tensor, got %s", dtype_aten_name(t->dtype));
  TRY(check_zero_point(cx, dtype, zero_point, "quantize_tensor_per_tensor_affine"));
  return tensor_quantize(cx, t, (int)dtype, &q, out);
}

/* (self, scale, zero_point, dtype); the ends of bodies: zero points may lie outside, as PyTorch's
 * arithmetic lets them */
rush_status kernel__quantize_steps(rush_call *c)
{
  const quantizer q = {.scale = call_float(c, 1), .zero_point = call_int(c, 2)};
  const int64_t dtype = call_int(c, 3);
  rush_tensor *x = call_tensor(c, 0);
  TRY(check_quantized_dtype(c->cx, dtype));
  if (x->dtype != RUSH_FLOAT32)
    return call_fail(c->cx, "Quantize only works on Float Tensor, got %s",
                     dtype_aten_name(x->dtype));
  return tensor_requantize(c->cx, x, (int)dtype, &q, call_result(c, 0));
}

rush_status kernel_quantize_per_tensor(rush_call *c)
{
  return quantize_tensor(c->cx, call_tensor(c, 0), call_float(c, 1), call_int(c, 2), call_int(c, 3),
                      call_result(c, 0));
}

static rush_status tensor_double(call_ctx *cx, const rush_tensor *t, int64_t i, double *out)
{
  rush_value v;
  if (i >= t->n_elems)
    return call_fail(cx, "quantize: there are only %lld parameters", (long long)t->n_elems);
  TRY(tensor_get(cx, t, i, &v));
  *out = number_as_double(v);
  value_release(v);
  return RUSH_OK;
}

/* Make a quantizer of channels' scales and zero points; its tensors are new. */
static rush_status channel_params(call_ctx *cx, const rush_tensor *t, rush_tensor *scales,
                                  rush_tensor *zero_points, int64_t axis, quantizer *q)
{
  const bool real = dtype_is_float(zero_points->dtype);
  if (scales->n_dims != 1 || zero_points->n_dims != 1)
    return call_fail(cx, "%s tensor must have dimension 1",
                     scales->n_dims != 1 ? "scale" : "zero_points");
  if (scales->n_elems != zero_points->n_elems)
    return call_fail(cx, "number of elements in scales and zero_points must match");
  if (axis < 0 || axis >= t->n_dims)
    return call_fail(
      cx,
      "Channel axis out of range in per channel affine quantization. Got: %lldExpected: [0, %d)",
      (long long)axis, t->n_dims);
  if (t->sizes[axis] != scales->n_elems)
    return call_fail(cx, "length of scales must equal to channel, expected %lld got, %lld",
                     (long long)t->sizes[axis], (long long)scales->n_elems);
  *q = (quantizer){.per_channel = true, .axis = (int32_t)axis};
  TRY(tensor_to_dtype(cx, scales, real ? RUSH_FLOAT32 : RUSH_FLOAT64, &q->scales));
  rush_status st =
    tensor_to_dtype(cx, zero_points, real ? RUSH_FLOAT32 : RUSH_INT64, &q->zero_points);
  if (st != RUSH_OK)
    tensor_release(q->scales);
  return st;
}

/* (self, scales, zero_points, axis, dtype) */
rush_status kernel_quantize_per_channel(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  quantizer q;
  TRY(check_quantized_dtype(c->cx, call_int(c, 4)));
  if (t->dtype != RUSH_FLOAT32)
    return call_fail(c->cx, "Quantize only works on Float Tensor, got %s",
                     dtype_aten_name(t->dtype));
  TRY(channel_params(c->cx, t, call_tensor(c, 1), call_tensor(c, 2), call_int(c, 3), &q));
  rush_status st = tensor_quantize(c->cx, t, call_dtype_or(c, 4, 0), &q, call_result(c, 0));
  tensor_release(q.scales);
  tensor_release(q.zero_points);
  TRY(st);
  return RUSH_OK;
}

static rush_status min_max_of(call_ctx *cx, rush_tensor *t, float *lo, float *hi)
{
  rush_tensor *x = NULL;
  TRY(tensor_to_dtype(cx, t, RUSH_FLOAT32, &x));
  find_min_max(cx->ctx, x->data, x->n_elems, lo, hi);
  tensor_release(x);
  return RUSH_OK;
}

/* (self, dtype, reduce_range) */
rush_status kernel_quantize_per_tensor_dynamic(rush_call *c)
{
  rush_tensor *out = NULL;
  const int64_t dtype = call_int(c, 1);
  double scale;
  int64_t zero_point, lo, hi;
  float min, max;
  if (dtype == RUSH_FLOAT16) {
    TRY(tensor_to_dtype(c->cx, call_tensor(c, 0), RUSH_FLOAT16, &out));
    call_return_steal(c, 0, out);
    return RUSH_OK;
  }
  if (dtype != RUSH_QINT8 && dtype != RUSH_QUINT8)
    return call_fail(c->cx, "dtype %s not supported", dtype_aten_name((int)dtype));
  TRY(min_max_of(c->cx, call_tensor(c, 0), &min, &max));
  quant_limits((int)dtype, &lo, &hi);
  choose_qparams(min, max, (int32_t)lo, (int32_t)hi, false, call_bool(c, 2), &scale, &zero_point);
  TRY(quantize_tensor(c->cx, call_tensor(c, 0), scale, zero_point, dtype, &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}

/* (self, reduce_range) -> (scale, zero_point) */
rush_status kernel__choose_qparams_per_tensor(rush_call *c)
{
  float min, max;
  double scale;
  int64_t zero_point;
  TRY(min_max_of(c->cx, call_tensor(c, 0), &min, &max));
  choose_qparams(min, max, 0, 255, false, call_bool(c, 1), &scale, &zero_point);
  call_return_value_steal(c, 0, value_float(scale));
  call_return_value_steal(c, 1, value_int(zero_point));
  return RUSH_OK;
}

/* Make a quantized tensor from the integers of `t`; steals nothing. */
static rush_status from_integers(rush_call *c, rush_tensor *t, const quantizer *q)
{
  const int dtype = t->dtype == RUSH_UINT8  ? RUSH_QUINT8
                    : t->dtype == RUSH_INT8 ? RUSH_QINT8
                                            : RUSH_QINT32;
  rush_tensor *copy = NULL;
  if (t->dtype != RUSH_UINT8 && t->dtype != RUSH_INT8 && t->dtype != RUSH_INT32)
    return call_fail_type(c->cx, "NotImplementedError",
                          "\"make_per_tensor_quantized_tensor_cpu\" not implemented for '%s'",
                          dtype_aten_name(t->dtype));
  TRY(tensor_clone(c->cx, t, &copy));
  copy->dtype = (int16_t)dtype;
  call_return_steal(c, 0, copy);
  return tensor_set_quantizer(c->cx, copy, q);
}

rush_status kernel__make_per_tensor_quantized_tensor(rush_call *c)
{
  const quantizer q = {.scale = call_float(c, 1), .zero_point = call_int(c, 2)};
  return from_integers(c, call_tensor(c, 0), &q);
}

rush_status kernel__make_per_channel_quantized_tensor(rush_call *c)
{
  quantizer q;
  TRY(channel_params(c->cx, call_tensor(c, 0), call_tensor(c, 1), call_tensor(c, 2), call_int(c, 3),
                     &q));
  rush_status st = from_integers(c, call_tensor(c, 0), &q);
  tensor_release(q.scales);
  tensor_release(q.zero_points);
  return st;
}

/* (size, *, dtype, layout, device, pin_memory, scale, zero_point, memory_format) */
rush_status kernel__empty_affine_quantized(rush_call *c)
{
  const quantizer q = {.scale = call_float(c, 5), .zero_point = call_int(c, 6)};
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  rush_tensor *t = NULL;
  TRY(call_sizes(c, 0, sizes, &n));
  TRY(check_quantized_dtype(c->cx, call_int_or(c, 1, DTYPE_NONE)));
  TRY(quantized_new(c->cx, call_dtype_or(c, 1, 0), n, sizes, &q, &t));
  memset(t->data, 0, (size_t)t->n_elems * tensor_item_bytes(t));
  call_return_steal(c, 0, t);
  return RUSH_OK;
}

/* (size, *, scales, zero_points, axis, dtype, ...) */
rush_status kernel__empty_per_channel_affine_quantized(rush_call *c)
{
  quantizer q;
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  rush_tensor *t = NULL;
  TRY(call_sizes(c, 0, sizes, &n));
  TRY(check_quantized_dtype(c->cx, call_int_or(c, 4, DTYPE_NONE)));
  TRY(tensor_new(c->cx, call_dtype_or(c, 4, 0), n, sizes, &t));
  memset(t->data, 0, (size_t)t->n_elems * tensor_item_bytes(t));
  call_return_steal(c, 0, t);
  TRY(channel_params(c->cx, t, call_tensor(c, 1), call_tensor(c, 2), call_int(c, 3), &q));
  rush_status st = tensor_set_quantizer(c->cx, t, &q);
  tensor_release(q.scales);
  tensor_release(q.zero_points);
  return st;
}

/* -- Leaving ----------------------------------------------------------------------------------- */

static rush_status dequantize_any(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  if (tensor_is_quantized(t))
    return tensor_dequantize(cx, t, out);
  return tensor_to_dtype(cx, t, RUSH_FLOAT32, out);
}

rush_status kernel_dequantize(rush_call *c)
{
  return dequantize_any(c->cx, call_tensor(c, 0), call_result(c, 0));
}

rush_status kernel_dequantize_list(rush_call *c)
{
  const rush_list *l = call_list(c, 0);
  rush_list *made = NULL;
  rush_tensor *t = NULL;
  rush_status st = RUSH_OK;
  if (call_tensor(c, 0))
    return kernel_dequantize(c);
  bool all = l != NULL; /* the argument is Any: not checked before */
  for (size_t i = 0; all && i < l->n; i++)
    all = l->items[i].tag == RUSH_TAG_TENSOR && l->items[i].as.tensor;
  if (!all)
    return call_fail(c->cx, "dequantize(): expected a tensor or a list of tensors");
  TRY(list_new(c->cx, l->elem, l->n, &made));
  for (size_t i = 0; i < l->n && st == RUSH_OK; i++) {
    st = dequantize_any(c->cx, l->items[i].as.tensor, &t);
    if (st == RUSH_OK)
      st = list_append_steal(c->cx, made, value_tensor_steal(t));
  }
  call_return_value_steal(c, 0, value_heap_steal(RUSH_TAG_LIST, made));
  return st;
}

rush_status kernel_int_repr(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *copy = NULL;
  if (!tensor_is_quantized(t))
    return call_fail_type(c->cx, "NotImplementedError",
                          "Could not run 'aten::int_repr' with arguments from the 'CPU' backend.");
  TRY(tensor_clone(c->cx, t, &copy));
  copy->dtype = t->dtype == RUSH_QUINT8  ? RUSH_UINT8
                : t->dtype == RUSH_QINT8 ? RUSH_INT8
                                         : RUSH_INT32;
  tensor_drop_quantizer(copy);
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}

/* -- Questions --------------------------------------------------------------------------------- */

static rush_status the_quantizer(rush_call *c, bool per_channel, const quantizer **q)
{
  const rush_tensor *t = call_tensor(c, 0);
  *q = tensor_is_quantized(t) ? tensor_quantizer(t) : NULL;
  if (!*q)
    return call_fail_type(c->cx, "NotImplementedError",
                          "Could not run '%s' with arguments from the 'CPU' backend.",
                          c->op->schema->name);
  if ((*q)->per_channel != per_channel)
    return call_fail(c->cx,
                     "Expected quantizer->qscheme() == kPer%sAffine to be true, but got false.",
                     per_channel ? "Channel" : "Tensor");
  return RUSH_OK;
}

/* q_scale and others: one fact of the argument's quantizer. */
rush_status kernel_quantizer_fact(rush_call *c)
{
  const int what = c->op->name_key;
  const quantizer *q = NULL;
  TRY(the_quantizer(c, what != OPN_Q_SCALE && what != OPN_Q_ZERO_POINT, &q));
  if (what == OPN_Q_SCALE)
    call_return_value_steal(c, 0, value_float(q->scale));
  else if (what == OPN_Q_ZERO_POINT || what == OPN_Q_PER_CHANNEL_AXIS)
    call_return_value_steal(c, 0, value_int(what == OPN_Q_ZERO_POINT ? q->zero_point : q->axis));
  else
    call_return_steal(c, 0,
                      tensor_retain(what == OPN_Q_PER_CHANNEL_SCALES ? q->scales : q->zero_points));
  return RUSH_OK;
}

/* Return PyTorch's QScheme. */
rush_status kernel_qscheme(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  const quantizer *q = tensor_is_quantized(t) ? tensor_quantizer(t) : NULL;
  if (!q)
    return call_fail(c->cx, "Could not run 'aten::qscheme' with arguments from the 'CPU' backend.");
  call_return_value_steal(c, 0,
                          value_int(!q->per_channel                         ? 0
                                    : dtype_is_float(q->zero_points->dtype) ? 4
                                                                            : 1));
  return RUSH_OK;
}

/* -- Pretending: quantized and back in one step ------------------------------------------------ */

typedef struct fake {
  int64_t lo, hi;
  bool real_zero; /* zero points are floats: rounded after they were added */
  bool single;    /* float32 arithmetic for float64 too */
} fake;

static double fake_value(const fake *f, double x, float inv, double scale, double zero,
                         bool *inside)
{
  const float scaled = (float)x * inv;
  const double q =
    f->real_zero ? (double)rintf(scaled + (float)zero) : zero + (double)nearbyintf(scaled);
  *inside = q >= (double)f->lo && q <= (double)f->hi;
  const double cut = q <= (double)f->hi ? (q >= (double)f->lo ? q : (double)f->lo) : (double)f->hi;
  const double steps = isnan(q) ? (double)f->lo - zero : cut - zero;
  return f->single ? (double)((float)steps * (float)scale) : steps * scale;
}

/* Compute y and mask (may be NULL) from x, float32 or float64, contiguous; params one per channel
 * of `inner` elements. */
static void fake_all(const call_ctx *cx, const fake *f, const rush_tensor *x, rush_tensor *y,
                     rush_tensor *mask, const rush_tensor *scales, const rush_tensor *zeros,
                     int64_t inner)
{
  for (int64_t i = 0; i < x->n_elems && !call_over_at(cx, i); i++) {
    const int64_t ch = scales->n_elems == 1 ? 0 : i / inner % scales->n_elems;
    const double zero = ((const double *)zeros->data)[ch];
    const float scale = (float)((const double *)scales->data)[ch], inv = 1.0f / scale;
    bool inside;
    if (x->dtype == RUSH_FLOAT64)
      ((double *)y->data)[i] =
        fake_value(f, ((const double *)x->data)[i], inv, (double)scale, zero, &inside);
    else
      ((float *)y->data)[i] = (float)fake_value(f, (double)((const float *)x->data)[i], inv,
                                                (double)scale, zero, &inside);
    if (mask)
      ((bool *)mask->data)[i] = inside;
  }
}

static rush_status check_fake(call_ctx *cx, const fake *f, const rush_tensor *x,
                              const rush_tensor *zeros)
{
  TRY(nn_check_float(cx, "fake_quantize_tensor_cachemask_kernel_type_handling", x->dtype));
  for (int64_t i = 0; i < zeros->n_elems && !f->real_zero; i++) {
    const double z = ((const double *)zeros->data)[i];
    if (z < (double)f->lo || z > (double)f->hi)
      return call_fail(cx, "`zero_point` must be between `quant_min` and `quant_max`.");
  }
  return RUSH_OK;
}

/* Return a scale or zero point, a number or tensor, as a tensor of doubles. */
static rush_tensor *doubles(work *w, rush_value v)
{
  if (v.tag == RUSH_TAG_TENSOR)
    return work_rows(w, v.as.tensor, RUSH_FLOAT64);
  return WORK_MAKE(w, tensor_from_scalar(w->cx, v, RUSH_FLOAT64, &w->made));
}

/* Fill results 0 (and 1, the mask).  `axis`: the channels' dimension; -1: one scale for all. */
static rush_status fake_quantize(rush_call *c, fake f, rush_value scale, rush_value zero, int axis)
{
  work w = work_begin(c);
  rush_tensor *t = call_tensor(c, 0), *scales = doubles(&w, scale), *zeros = doubles(&w, zero);
  for (int i = 0; i < 2 && axis < 0; i++)
    if ((i ? zeros : scales)->n_elems != 1)
      WORK_DO(&w, call_fail(c->cx, "a Tensor with %lld elements cannot be converted to Scalar",
                            (long long)(i ? zeros : scales)->n_elems));
  WORK_DO(&w, check_fake(c->cx, &f, t, zeros));
  int64_t inner = 1;
  for (int i = axis + 1; i < t->n_dims && axis >= 0; i++)
    inner *= t->sizes[i];
  const rush_tensor *x = work_input(&w, t);
  rush_tensor *y = work_output(&w, 0, x->dtype),
              *mask = c->n_results > 1 ? work_output(&w, 1, RUSH_BOOL) : NULL;
  if (w.st == RUSH_OK)
    fake_all(c->cx, &f, x, y, mask, scales, zeros, inner);
  return work_end(&w);
}

/* Return self itself as the result, and a mask of true. */
static rush_status fake_nothing(rush_call *c)
{
  TRY(tensor_copy(c->cx, call_out(c, 0), call_tensor(c, 0)));
  return c->n_results > 1 ? tensor_fill(c->cx, call_out(c, 1), value_bool(true)) : RUSH_OK;
}

/* (self, scale, zero_point, quant_min, quant_max), numbers or tensors */
rush_status kernel_fake_quantize_per_tensor(rush_call *c)
{
  const fake f = {.lo = call_int(c, 3), .hi = call_int(c, 4), .single = true};
  return fake_quantize(c, f, c->args[1], c->args[2], -1);
}

/* (self, scale, zero_point, fake_quant_enabled, quant_min, quant_max) -> (output, mask) */
rush_status kernel_fake_quantize_switched(rush_call *c)
{
  const fake f = {.lo = call_int(c, 4), .hi = call_int(c, 5), .single = true};
  double on;
  TRY(tensor_double(c->cx, call_tensor(c, 3), 0, &on));
  return on != 0.0 ? fake_quantize(c, f, c->args[1], c->args[2], -1) : fake_nothing(c);
}

/* (self, scale, zero_point, axis, quant_min, quant_max) */
rush_status kernel_fake_quantize_per_channel(rush_call *c)
{
  const fake f = {.lo = call_int(c, 4), .hi = call_int(c, 5),
                  .real_zero = dtype_is_float(call_tensor(c, 2)->dtype)};
  return fake_quantize(c, f, c->args[1], c->args[2], call_dim(c, 3, call_tensor(c, 0)->n_dims));
}

/* -- Observing and pretending in one step (training aware of quantization) --------------------- */

/* Update moving averages of the smallest and largest element, per channel or of all. */
static rush_status observe(rush_call *c, int64_t axis, int64_t n_channels)
{
  rush_tensor *x = NULL, *lo = call_tensor(c, 3), *hi = call_tensor(c, 4);
  const double step = call_float(c, 7);
  int64_t inner = 1;
  for (int i = (int)axis + 1; i < call_tensor(c, 0)->n_dims && axis >= 0; i++)
    inner *= call_tensor(c, 0)->sizes[i];
  for (int i = 0; i < 2; i++) {
    rush_tensor *t = i ? hi : lo;
    if (t->n_elems == n_channels)
      continue;
    TRY(tensor_resize(c->cx, t, 1, &n_channels));
    TRY(tensor_fill(c->cx, t, value_float(i ? -INFINITY : INFINITY)));
  }
  TRY(tensor_to_dtype(c->cx, call_tensor(c, 0), RUSH_FLOAT32, &x));
  const float *v = x->data;
  (void)tensor_data_mut(lo);
  (void)tensor_data_mut(hi);
  rush_status st = RUSH_OK;
  if (axis < 0)
    inner = i64_max(x->n_elems, 1);
  for (int64_t ch = 0; ch < n_channels && st == RUSH_OK; ch++) {
    double min = INFINITY, max = -INFINITY, old_min, old_max;
    for (int64_t i = ch * inner; i < x->n_elems; i += inner * n_channels)
      for (int64_t k = i; k < i + inner && k < x->n_elems && !call_over_at(c->cx, k); k++) {
        min = fmin(min, (double)v[k]);
        max = fmax(max, (double)v[k]);
      }
    st = tensor_double(c->cx, lo, ch, &old_min);
    if (st == RUSH_OK)
      st = tensor_double(c->cx, hi, ch, &old_max);
    if (st != RUSH_OK)
      break;
    tensor_set(lo, ch, value_float(isinf(old_min) ? min : old_min + step * (min - old_min)));
    tensor_set(hi, ch, value_float(isinf(old_max) ? max : old_max + step * (max - old_max)));
  }
  tensor_release(x);
  return st;
}

static rush_status params_of_range(rush_call *c, int64_t n_channels)
{
  rush_tensor *scale = call_tensor(c, 5), *zero = call_tensor(c, 6);
  for (int i = 0; i < 2; i++)
    if ((i ? zero : scale)->n_elems != n_channels)
      TRY(tensor_resize(c->cx, i ? zero : scale, 1, &n_channels));
  (void)tensor_data_mut(scale);
  (void)tensor_data_mut(zero);
  for (int64_t i = 0; i < n_channels; i++) {
    double lo, hi, s;
    int64_t z;
    TRY(tensor_double(c->cx, call_tensor(c, 3), i, &lo));
    TRY(tensor_double(c->cx, call_tensor(c, 4), i, &hi));
    choose_qparams((float)lo, (float)hi, (int32_t)call_int(c, 8), (int32_t)call_int(c, 9),
                   call_bool(c, 12), false, &s, &z);
    tensor_set(scale, i, value_float(s));
    tensor_set(zero, i, value_int(z));
  }
  return RUSH_OK;
}

/* (self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const,
 * quant_min, quant_max,
 *  ch_axis, per_row_fake_quant, symmetric_quant); the helper returns the mask too. */
rush_status kernel_fused_moving_avg_obs_fake_quant(rush_call *c)
{
  const bool per_row = call_bool(c, 11);
  const int axis = per_row ? 0 : -1; /* the rule has checked it */
  const int64_t n_channels = per_row ? call_tensor(c, 0)->sizes[0] : 1;
  double watching, pretending;
  TRY(tensor_double(c->cx, call_tensor(c, 1), 0, &watching));
  TRY(tensor_double(c->cx, call_tensor(c, 2), 0, &pretending));
  if (watching != 0.0)
    TRY(observe(c, axis, n_channels));
  if (pretending != 0.0) {
    const fake f = {.lo = call_int(c, 8), .hi = call_int(c, 9), .single = !per_row};
    TRY(params_of_range(
      c, n_channels)); /* with or without a look: PyTorch's scale and zero_point are results only */
    return fake_quantize(c, f, c->args[5], c->args[6], axis);
  }
  return fake_nothing(c);
}
