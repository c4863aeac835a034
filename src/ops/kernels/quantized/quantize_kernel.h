/* ops/kernels/quantized/quantize_kernel.h -- inner loops of quantized operators; each instruction
 * set has its own. */
#ifndef RUSH_OPS_QUANTIZE_KERNEL_H
#define RUSH_OPS_QUANTIZE_KERNEL_H

#include "base/isa.h"
#include "ops/kernels/quantized/quantize.h"

typedef struct quantize_kernels {
  /* Convert n numbers to bytes in [lo, hi]. */
  void (*bytes)(quant_rounding how, const float *x, char *q, int64_t n, float inv, int32_t zero,
                int32_t lo, int32_t hi);
  /* Compute out = round((acc - less + bias) * factor) + zero, in [lo, 255]; zero is a byte. */
  void (*row_bytes)(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
                    const float *factor, int32_t lo, int32_t zero, uint8_t *restrict out);
  /* Compute out = (acc - less) * factor + bias. */
  void (*row_reals)(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
                    const float *factor, float *restrict out);
  /* Compute y = scale * (q - zero) of n bytes, signed ones or not. */
  void (*reals)(bool is_signed, const char *q, float *y, int64_t n, float scale, int32_t zero);
  /* Find the least and the greatest of n >= 1 numbers; NaNs behind the first one do not count. */
  void (*range)(const float *x, int64_t n, float *lo, float *hi);
  /* Compute acc[i] = sum over t of x[t][i] * w[t * n + i], for n channels. */
  void (*taps)(int64_t n, int64_t n_taps, const uint8_t *const *x, const int8_t *w,
               int32_t *restrict acc);
  /* Compute acc[i] += x[i], for n channels. */
  void (*add_bytes)(int64_t n, bool is_signed, const uint8_t *x, int32_t *restrict acc);
} quantize_kernels;

extern const quantize_kernels quantize_kernels_portable;
#ifdef RUSH_ISA_X86
extern const quantize_kernels quantize_kernels_avx2, quantize_kernels_avx512;
#endif

static inline const quantize_kernels *quantize_kernels_of(context *c)
{
  const cpu_level level = cpu_choose(context_get_options(c)->cpu);
#ifdef RUSH_ISA_X86
  if (level >= CPU_AVX512)
    return &quantize_kernels_avx512;
  if (level == CPU_AVX2)
    return &quantize_kernels_avx2;
#endif
  (void)level;
  return &quantize_kernels_portable;
}

#endif
