/* ops/kernels/nn/resize_kernel.c -- weighted sums along one dimension, compiled once per
 * instruction set (base/isa.h). */
#include "ops/kernels/nn/resize.h"

#define PASS(NAME, T)                                                                 \
  void ISA_NAME(NAME)(const resize_axis *a, int64_t inner, const void *in, void *out, \
                      int64_t begin, int64_t end)                                     \
  {                                                                                   \
    const T *w = a->w;                                                                \
    for (int64_t r = begin; r < end; r++) {                                           \
      const T *x = (const T *)in + r * a->n_in * inner;                               \
      T *y = (T *)out + r * a->n_out * inner;                                         \
      for (int64_t o = 0; o < a->n_out; o++, y += inner) {                            \
        const int64_t *idx = a->idx + o * a->taps;                                    \
        const T *wo = w + o * a->taps;                                                \
        const int32_t n = a->count[o];                                                \
        if (n == 0) { /* not 0 * x: x may be infinite, or not there */                \
          for (int64_t i = 0; i < inner; i++)                                         \
            y[i] = 0;                                                                 \
          continue;                                                                   \
        }                                                                             \
        if (inner == 1) {                                                             \
          T sum = wo[0] * x[idx[0]];                                                  \
          for (int32_t t = 1; t < n; t++)                                             \
            sum += wo[t] * x[idx[t]];                                                 \
          y[0] = sum;                                                                 \
          continue;                                                                   \
        }                                                                             \
        for (int64_t i = 0; i < inner; i++)                                           \
          y[i] = wo[0] * x[idx[0] * inner + i];                                       \
        for (int32_t t = 1; t < n; t++)                                               \
          for (int64_t i = 0; i < inner; i++)                                         \
            y[i] += wo[t] * x[idx[t] * inner + i];                                    \
      }                                                                               \
    }                                                                                 \
  }

PASS(resize_pass_f32, float)
PASS(resize_pass_f64, double)

/* Compute in fixed point, rounded after each pass, as PyTorch does. */
void ISA_NAME(resize_pass_u8)(const resize_axis *a, int64_t inner, const void *in, void *out,
                              int64_t begin, int64_t end)
{
  const int32_t *w = a->w;
  const int32_t half = a->shift ? 1 << (a->shift - 1) : 0;
  for (int64_t r = begin; r < end; r++) {
    const uint8_t *x = (const uint8_t *)in + r * a->n_in * inner;
    uint8_t *y = (uint8_t *)out + r * a->n_out * inner;
    for (int64_t o = 0; o < a->n_out; o++, y += inner)
      for (int64_t i = 0; i < inner; i++) {
        uint32_t total = (uint32_t)half; /* wraps where an odd scale leaves weights far from 1 */
        for (int32_t t = 0; t < a->count[o]; t++)
          total += (uint32_t)(w[o * a->taps + t] * x[a->idx[o * a->taps + t] * inner + i]);
        const int32_t sum = (int32_t)total >> a->shift;
        y[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
      }
  }
}
