/* ops/kernels/quantized/quantize.h -- quantized tensors: integers with a scale and a zero point, of
 * the tensor or of each channel (tensor.h's quantizer).
 *
 *   real = (q - zero_point) * scale          q = clamp(round(real * (1 / scale) + zero_point))
 *
 * in float32, rounding to even, as PyTorch's x86 kernels do.  Operators that support quantized
 * tensors are marked "quantized" in the table; for others op_call dequantizes, and quantizes float
 * results with the parameters of the first quantized argument (quantized_call). */
#ifndef RUSH_OPS_QUANTIZE_H
#define RUSH_OPS_QUANTIZE_H

#include "ops/call/call.h"


/* Get the limits of a quantized dtype's integers. */
void quant_limits(int dtype, int64_t *lo, int64_t *hi);

/* PyTorch's kernels round numbers half-way between two steps differently. */
typedef enum quant_rounding {
  QUANT_FUSED, /* x / scale + zero_point in one operation, then rounded: 8 bits, per tensor */
  QUANT_ADDED, /* the same in two operations: per channel, 32 bits */
  QUANT_ROUNDED /* rounded before the zero point is added: arithmetic on quantized tensors */
} quant_rounding;

static inline int32_t quantize_value(quant_rounding how, float x, float inv_scale,
                                     int32_t zero_point, int32_t lo, int32_t hi)
{
  const float z = (float)zero_point;
  const float v = how == QUANT_FUSED   ? __builtin_nearbyintf(__builtin_fmaf(x, inv_scale, z))
                  : how == QUANT_ADDED ? __builtin_nearbyintf(x * inv_scale + z)
                                       : __builtin_nearbyintf(x * inv_scale) + z;
  if (how == QUANT_FUSED) /* NaN becomes the highest here, elsewhere the lowest */
    return !((double)v < (double)hi) ? hi : (double)v > (double)lo ? (int32_t)v : lo;
  return (double)v >= (double)hi ? hi : (double)v > (double)lo ? (int32_t)v : lo;
}

/* Quantize a float tensor to `dtype` with q's parameters; strides are kept. */
rush_status tensor_quantize(call_ctx *cx, rush_tensor *t, int dtype, const quantizer *q,
                            rush_tensor **out) RUSH_CHECKED;
/* The same with the rounding of arithmetic on quantized tensors. */
rush_status tensor_requantize(call_ctx *cx, rush_tensor *t, int dtype, const quantizer *q,
                              rush_tensor **out) RUSH_CHECKED;
/* Convert to float32; strides are kept. */
rush_status tensor_dequantize(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Make an uninitialised tensor with q's parameters (copied). */
rush_status quantized_new(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                          const quantizer *q, rush_tensor **out) RUSH_CHECKED;
/* Compute dst.copy_(src) if one of them is quantized: floats are quantized, parameters are copied
 * too. */
rush_status quantized_copy(call_ctx *cx, rush_tensor *dst, rush_tensor *src) RUSH_CHECKED;

/* Choose parameters that cover [lo, hi] with integers [q_lo, q_hi]. */
void choose_qparams(float lo, float hi, int32_t q_lo, int32_t q_hi, bool preserve_sparsity,
                    bool reduce_range, double *scale, int64_t *zero_point);
/* Find the smallest and largest element of float32 data; 0 and 0 if there is none. */
void find_min_max(context *c, const float *x, int64_t n, float *lo, float *hi);

/* Run `dispatch` for a call that has a quantized argument. */
rush_status quantized_call(rush_call *c, rush_status (*dispatch)(rush_call *c)) RUSH_CHECKED;

#endif
