/* ops/kernels/quantized/quantize_kernel.c -- inner loops of quantized operators, compiled for every
 * instruction set (rounding is a library call without SSE4.1). */
#include "ops/kernels/quantized/quantize_kernel.h"

#include <string.h>

/* Where vectors hold 32-bit integers made of bytes, and bytes made of those: gcc makes neither from
 * loops. */
#if ISA_LEVEL >= ISA_AVX512
#include <immintrin.h>
#define LANES 16
typedef __m512i ints;
typedef __m512 reals_of;
#define ZERO _mm512_setzero_si512()
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define ALL(x) _mm512_set1_epi32(x)
#define ADD(a, b) _mm512_add_epi32(a, b)
#define SUB(a, b) _mm512_sub_epi32(a, b)
#define PRODUCT(a, b) _mm512_madd_epi16(a, b)
#define UNSIGNED_BYTES(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define SIGNED_BYTES(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define LEAST(a, b) _mm512_min_epi32(a, b)
#define MOST(a, b) _mm512_max_epi32(a, b)
#define TO_BYTES(p, v) _mm_storeu_si128((__m128i *)(void *)(p), _mm512_cvtepi32_epi8(v))
#define LOAD_REALS(p) _mm512_loadu_ps(p)
#define ALL_REALS(x) _mm512_set1_ps(x)
#define REALS(v) _mm512_cvtepi32_ps(v)
#define WHOLE(v) _mm512_cvttps_epi32(v)
#define ROUND(v) _mm512_roundscale_ps(v, _MM_FROUND_CUR_DIRECTION)
#define ADD_REALS(a, b) _mm512_add_ps(a, b)
#define MUL_REALS(a, b) _mm512_mul_ps(a, b)
#define LEAST_REALS(a, b) _mm512_min_ps(a, b)
#define MOST_REALS(a, b) _mm512_max_ps(a, b)
#elif ISA_LEVEL == ISA_AVX2
#include <immintrin.h>
#define LANES 8
typedef __m256i ints;
typedef __m256 reals_of;
#define ZERO _mm256_setzero_si256()
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define ALL(x) _mm256_set1_epi32(x)
#define ADD(a, b) _mm256_add_epi32(a, b)
#define SUB(a, b) _mm256_sub_epi32(a, b)
#define PRODUCT(a, b) _mm256_madd_epi16(a, b)
#define UNSIGNED_BYTES(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define SIGNED_BYTES(p) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define LEAST(a, b) _mm256_min_epi32(a, b)
#define MOST(a, b) _mm256_max_epi32(a, b)
#define LOAD_REALS(p) _mm256_loadu_ps(p)
#define ALL_REALS(x) _mm256_set1_ps(x)
#define REALS(v) _mm256_cvtepi32_ps(v)
#define WHOLE(v) _mm256_cvttps_epi32(v)
#define ROUND(v) _mm256_round_ps(v, _MM_FROUND_CUR_DIRECTION)
#define ADD_REALS(a, b) _mm256_add_ps(a, b)
#define MUL_REALS(a, b) _mm256_mul_ps(a, b)
#define LEAST_REALS(a, b) _mm256_min_ps(a, b)
#define MOST_REALS(a, b) _mm256_max_ps(a, b)

static inline void to_bytes(void *p, __m256i v) /* of 0 to 255 */
{
  const __m128i half =
    _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(p, _mm_packus_epi16(half, half));
}
#define TO_BYTES(p, v) to_bytes(p, v)
#endif

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

static void row_bytes_of(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
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

static void row_bytes(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
                      const float *factor, int32_t lo, int32_t zero, uint8_t *restrict out)
{
  int64_t i = 0;
#ifdef LANES
  for (; i + LANES <= n; i += LANES) {
    const reals_of sum = REALS(SUB(LOAD(acc + i), LOAD(less + i)));
    reals_of v = ROUND(MUL_REALS(ADD_REALS(sum, LOAD_REALS(bias + i)), LOAD_REALS(factor + i)));
    v = MOST_REALS(LEAST_REALS(v, ALL_REALS(65536.0f)), ALL_REALS(-65536.0f));
    const ints q = ADD(WHOLE(v), ALL(zero));
    TO_BYTES(out + i, MOST(LEAST(q, ALL(255)), ALL(lo)));
  }
#endif
  row_bytes_of(n - i, acc + i, less + i, bias + i, factor + i, lo, zero, out + i);
}

static void row_reals(int64_t n, const int32_t *acc, const int32_t *less, const float *bias,
                      const float *factor, float *restrict out)
{
  for (int64_t i = 0; i < n; i++)
    out[i] = (float)(int32_t)((uint32_t)acc[i] - (uint32_t)less[i]) * factor[i] + bias[i];
}

static void reals(bool is_signed, const char *q, float *y, int64_t n, float scale, int32_t zero)
{
  if (is_signed)
    for (int64_t i = 0; i < n; i++)
      y[i] = scale * (float)(int32_t)((uint32_t)((const int8_t *)q)[i] - (uint32_t)zero);
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = scale * (float)(int32_t)((uint32_t)((const uint8_t *)q)[i] - (uint32_t)zero);
}

static void range(const float *x, int64_t n, float *lo, float *hi)
{
  float a = x[0], b = x[0];
  int64_t i = 0;
#ifdef LANES
  if (n >= LANES) {
    float lanes[2][LANES];
    reals_of least = ALL_REALS(a), most = least;
    for (; i + LANES <= n; i += LANES) { /* a NaN leaves what is there */
      least = LEAST_REALS(LOAD_REALS(x + i), least);
      most = MOST_REALS(LOAD_REALS(x + i), most);
    }
    memcpy(lanes[0], &least, sizeof least);
    memcpy(lanes[1], &most, sizeof most);
    for (int l = 0; l < LANES; l++) {
      a = lanes[0][l] < a ? lanes[0][l] : a;
      b = lanes[1][l] > b ? lanes[1][l] : b;
    }
  }
#endif
  for (; i < n; i++) {
    a = x[i] < a ? x[i] : a;
    b = x[i] > b ? x[i] : b;
  }
  *lo = a;
  *hi = b;
}

/* Sums stay in registers over all taps.  A byte is the low half of a 32-bit lane whose high half is
 * 0: the sum of two products is one. */
static void taps(int64_t n, int64_t n_taps, const uint8_t *const *x, const int8_t *w,
                 int32_t *restrict acc)
{
  int64_t i = 0;
#ifdef LANES
  for (; i + LANES <= n; i += LANES) {
    ints sum = ZERO;
    for (int64_t t = 0; t < n_taps; t++)
      sum = ADD(sum, PRODUCT(UNSIGNED_BYTES(x[t] + i), SIGNED_BYTES(w + t * n + i)));
    STORE(acc + i, sum);
  }
#endif
  for (; i < n; i++) {
    uint32_t sum = 0;
    for (int64_t t = 0; t < n_taps; t++)
      sum += (uint32_t)(x[t][i] * w[t * n + i]);
    acc[i] = (int32_t)sum;
  }
}

static void add_bytes(int64_t n, bool is_signed, const uint8_t *x, int32_t *restrict acc)
{
  if (is_signed)
    for (int64_t i = 0; i < n; i++)
      acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)((const int8_t *)x)[i]);
  else
    for (int64_t i = 0; i < n; i++)
      acc[i] = (int32_t)((uint32_t)acc[i] + x[i]);
}

const quantize_kernels ISA_NAME(quantize_kernels) = {bytes, row_bytes, row_reals, reals,
                                                     range, taps, add_bytes};
