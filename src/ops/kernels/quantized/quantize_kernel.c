/* ops/kernels/quantized/quantize_kernel.c -- inner loops of quantized operators, compiled for every
 * instruction set (rounding is a library call without SSE4.1). */
#include "ops/kernels/quantized/quantize_kernel.h"

/* Convert to bytes; `how` is constant, for one vectorised loop each.  NaN becomes the highest if
 * fused, else the lowest. */
static inline __attribute__((always_inline)) void bytes_of(const quant_rounding how, const float *x,
                                                           char *q, int64_t n, float inv,
                                                           float zero, float lo, float hi)
{
  for (int64_t i = 0; i < n; i++) {
    float v = how == QUANT_FUSED   ? __builtin_nearbyintf(__builtin_fmaf(x[i], inv, zero))
              : how == QUANT_ADDED ? __builtin_nearbyintf(x[i] * inv + zero)
                                   : __builtin_nearbyintf(x[i] * inv) + zero;
    if (how == QUANT_FUSED) {
      v = v < hi ? v : hi;
      v = v > lo ? v : lo;
    } else {
      v = v > lo ? v : lo;
      v = v < hi ? v : hi;
    }
    q[i] = (char)(int32_t)v;
  }
}

static void bytes(quant_rounding how, const float *x, char *q, int64_t n, float inv, int32_t zero,
                  int32_t lo, int32_t hi)
{
  const float z = (float)zero, l = (float)lo, h = (float)hi;
  if (how == QUANT_FUSED)
    bytes_of(QUANT_FUSED, x, q, n, inv, z, l, h);
  else if (how == QUANT_ADDED)
    bytes_of(QUANT_ADDED, x, q, n, inv, z, l, h);
  else
    bytes_of(QUANT_ROUNDED, x, q, n, inv, z, l, h);
}

static void row_bytes(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
                      const float *factor, int32_t lo, int32_t zero, uint8_t *restrict out)
{
  for (int64_t i = 0; i < n; i++) {
    float v = __builtin_nearbyintf(
      ((float)(int32_t)((uint32_t)acc[i] - (uint32_t)less[i]) + bias[i]) * factor[i]);
    v = v < 65536.0f ? v : 65536.0f;
    v = v > -65536.0f ? v : -65536.0f;
    const int32_t z = (int32_t)v + zero;
    out[i] = (uint8_t)(z > 255 ? 255 : z < lo ? lo : z);
  }
}

static void row_reals(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
                      const float *factor, float *restrict out)
{
  for (int64_t i = 0; i < n; i++)
    out[i] = (float)(int32_t)((uint32_t)acc[i] - (uint32_t)less[i]) * factor[i] + bias[i];
}

static void tap(int64_t n, const uint8_t *x, int32_t a_zero, const int8_t *w, int32_t *restrict acc)
{
  for (int64_t i = 0; i < n; i++)
    acc[i] += (x[i] - a_zero) * w[i];
}

const quantize_kernels ISA_NAME(quantize_kernels) = {bytes, row_bytes, row_reals, tap};
