/* ops/math/gather_kernel.c -- sums of chosen elements, compiled once per instruction set
 * (base/isa.h): sampled points (grid_sample), bilinear taps, and rows of embedding bags. Rows
 * are summed in two vector registers at a time, written with vector types because the compiler
 * did not vectorise the loops over arrays. Sums are computed in order, so every level gives the
 * same bits. */
#include "ops/math/gather.h"

#include <string.h>

#include "base/half.h"

#if ISA_LEVEL >= ISA_AVX512
#include <immintrin.h>
#endif

/* Two of these hold a row's sums: loops over arrays did not vectorise. */
typedef float floats __attribute__((vector_size(64)));
typedef double doubles __attribute__((vector_size(64)));

#define POINTS(T, F)                                                                               \
  static bool inside_##F(int n, const int64_t *at)                                                 \
  {                                                                                                \
    int64_t any = 0;                                                                               \
    for (int i = 0; i < n; i++)                                                                    \
      any |= at[i];                                                                                \
    return any >= 0;                                                                               \
  }                                                                                                \
  static void points_##F(int n, int n_taps, const void *x_, const int64_t *at, const void *weight, \
                         void *y_)                                                                 \
  {                                                                                                \
    const T *x = x_, *w = weight;                                                                  \
    T *y = y_;                                                                                     \
    for (int i = 0; i < n; i++)                                                                    \
      y[i] = 0;                                                                                    \
    for (int k = 0; k < n_taps; k++, at += GATHER_POINTS, w += GATHER_POINTS) {                    \
      if (inside_##F(n, at))                                                                       \
        for (int i = 0; i < n; i++)                                                                \
          y[i] += x[at[i]] * w[i];                                                                 \
      else                                                                                         \
        for (int i = 0; i < n; i++)                                                                \
          y[i] += at[i] >= 0 ? x[at[i]] * w[i] : 0;                                                \
    }                                                                                              \
  }

#define ROWS(T, F, V)                                                                              \
  static void rows_##F(int64_t n_cols, const void *table, const int64_t *at, int64_t n,            \
                       const void *factors, void *to_)                                             \
  {                                                                                                \
    const T *f = factors;                                                                          \
    T *to = to_;                                                                                   \
    int64_t c = 0;                                                                                 \
    for (; c + 2 * (int64_t)(sizeof(V) / sizeof(T)) <= n_cols;                                     \
         c += 2 * (int64_t)(sizeof(V) / sizeof(T))) {                                              \
      V low = {0}, high = {0}, x, y;                                                               \
      for (int64_t i = 0; i < n; i++) {                                                            \
        const T *from = (const T *)table + at[i] * n_cols + c;                                     \
        memcpy(&x, from, sizeof x);                                                                \
        memcpy(&y, from + sizeof x / sizeof(T), sizeof y);                                         \
        low += f ? x * f[i] : x;                                                                   \
        high += f ? y * f[i] : y;                                                                  \
      }                                                                                            \
      memcpy(to + c, &low, sizeof low);                                                            \
      memcpy(to + c + sizeof low / sizeof(T), &high, sizeof high);                                 \
    }                                                                                              \
    for (int64_t k = c; k < n_cols; k++)                                                           \
      to[k] = 0;                                                                                   \
    for (int64_t i = 0; i < n && c < n_cols; i++) {                                                \
      const T *from = (const T *)table + at[i] * n_cols, by = f ? f[i] : 1;                        \
      for (int64_t k = c; k < n_cols; k++)                                                         \
        to[k] += from[k] * by;                                                                     \
    }                                                                                              \
  }

#if ISA_LEVEL >= ISA_AVX512
/* Do the same with gathers, 16 points in a register while the taps are added; at and weight have
 * GATHER_POINTS places, for any n. */
static inline __m256 picked(const float *x, const int64_t *at, __mmask8 live, __mmask8 *in)
{
  const __m512i i = _mm512_loadu_si512(at);
  *in = _mm512_mask_cmpge_epi64_mask(live, i, _mm512_setzero_si512());
  return _mm512_mask_i64gather_ps(_mm256_setzero_ps(), *in, i, x, 4);
}

static void points_f32(int n, int n_taps, const void *x, const int64_t *at, const void *weight,
                       void *y)
{
  const float *w = weight;
  for (int i = 0; i < n; i += 16) {
    const __mmask16 live = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
    __m512 sum = _mm512_setzero_ps();
    for (int k = 0; k < n_taps; k++) {
      const int64_t *a = at + k * GATHER_POINTS + i;
      __mmask8 low_in, high_in;
      const __m256 low = picked(x, a, (__mmask8)live, &low_in),
                   high = picked(x, a + 8, (__mmask8)(live >> 8), &high_in);
      const __m512 v = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
      sum = _mm512_mask_add_ps(sum, (__mmask16)(low_in | high_in << 8), sum,
                               _mm512_mul_ps(v, _mm512_loadu_ps(w + k * GATHER_POINTS + i)));
    }
    _mm512_mask_storeu_ps((float *)y + i, live, sum);
  }
}
#else
POINTS(float, f32)
#endif
POINTS(double, f64)
ROWS(float, f32, floats)
ROWS(double, f64, doubles)

static inline float rounded(float x, bool bf16) { return bf16 ? f32_of_bf16(bf16_of_f32(x)) : x; }

/* Convert a coordinate to an index, -1 if outside. */
static inline int32_t inside(float x, int size)
{
  const float in = x >= 0 && x < (float)size ? x : -1.0f;
  return (int32_t)in;
}

static inline __attribute__((always_inline)) bool taps(int n, const float *xy, int w, int h,
                                                       bool align, const bool bf16, int64_t *at,
                                                       float *weight, double *base)
{
  const float half_w = rounded((float)(align ? w - 1 : w) / 2, bf16),
              half_h = rounded((float)(align ? h - 1 : h) / 2, bf16);
  float x[GATHER_POINTS] = {0}, y[GATHER_POINTS] = {0}, bad[GATHER_POINTS];
  int any = 0;
  for (int i = 0; i < n; i++) {
    x[i] = xy[2 * i];
    y[i] = xy[2 * i + 1];
  }
  for (int i = 0; i < GATHER_POINTS; i++) {
    const float sx = rounded(rounded(x[i] + 1, bf16) * half_w, bf16),
                sy = rounded(rounded(y[i] + 1, bf16) * half_h, bf16);
    const float px = align ? sx : rounded(sx - 0.5f, bf16),
                py = align ? sy : rounded(sy - 0.5f, bf16);
    const float lx = __builtin_floorf(px), ly = __builtin_floorf(py);
    const float fx = rounded(px - lx, bf16), fy = rounded(py - ly, bf16),
                ex = rounded(1 - fx, bf16), ey = rounded(1 - fy, bf16);
    const int32_t x0 = inside(lx, w), x1 = inside(lx + 1, w), y0 = inside(ly, h),
                  y1 = inside(ly + 1, h);
    const float w0 = rounded(ey * ex, bf16), w1 = rounded(ey * fx, bf16),
                w2 = rounded(fy * ex, bf16), w3 = rounded(fy * fx, bf16);
    const int64_t a0 = (int64_t)y0 * w + x0, a1 = (int64_t)y0 * w + x1, a2 = (int64_t)y1 * w + x0,
                  a3 = (int64_t)y1 * w + x1;
    const int out0 = (x0 | y0) < 0, out1 = (x1 | y0) < 0, out2 = (x0 | y1) < 0,
              out3 = (x1 | y1) < 0;
    at[i] = out0 ? -1 : a0;
    at[i + GATHER_POINTS] = out1 ? -1 : a1;
    at[i + 2 * GATHER_POINTS] = out2 ? -1 : a2;
    at[i + 3 * GATHER_POINTS] = out3 ? -1 : a3;
    weight[i] = w0;
    weight[i + GATHER_POINTS] = w1;
    weight[i + 2 * GATHER_POINTS] = w2;
    weight[i + 3 * GATHER_POINTS] = w3;
    bad[i] = (out0 ? w0 * 0 : 0) + (out1 ? w1 * 0 : 0) + (out2 ? w2 * 0 : 0) + (out3 ? w3 * 0 : 0);
  }
  for (int i = 0; i < n; i++) {
    base[i] = (double)bad[i];
    any |= bad[i] != 0;
  }
  return any;
}

static bool bilinear(int n, const float *xy, int w, int h, bool align, bool bf16, int64_t *at,
                     float *weight, double *base)
{
  return bf16 ? taps(n, xy, w, h, align, true, at, weight, base)
              : taps(n, xy, w, h, align, false, at, weight, base);
}

gather ISA_NAME(gather_of)(bool is_f64)
{
  return is_f64 ? (gather){points_f64, NULL, rows_f64} : (gather){points_f32, bilinear, rows_f32};
}
