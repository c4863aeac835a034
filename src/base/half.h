/* base/half.h -- 16-bit floats: branch-free, so that compilers can vectorise loops; round to
 * nearest even. */
#ifndef RUSH_BASE_HALF_H
#define RUSH_BASE_HALF_H

#include <stdint.h>
#ifdef __F16C__
#include <immintrin.h>
#elif defined(RUSH_ISA_NEON)
#include <arm_neon.h>
#endif

#define HALF_INLINE static inline __attribute__((always_inline, unused))

typedef union half_pun {
  float f;
  uint32_t u;
} half_pun;

HALF_INLINE uint32_t half_bits(float x) { return ((half_pun){.f = x}).u; }
HALF_INLINE float half_from_bits(uint32_t u) { return ((half_pun){.u = u}).f; }

HALF_INLINE float f32_of_bf16(uint16_t h) { return half_from_bits((uint32_t)h << 16); }
HALF_INLINE uint16_t bf16_of_f32(float f)
{
  uint32_t u = half_bits(f);
  uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)(f != f ? 0x7fc0u : r);
}
HALF_INLINE float f32_of_f16(uint16_t h)
{
  uint32_t u = (uint32_t)(h & 0x7fffu) << 13;
  float f = half_from_bits(u) * 0x1p112f; /* moves the bias, for denormals too */
  uint32_t r = u >= 0x0f800000u ? u | 0x7f800000u : half_bits(f);
  return half_from_bits(r | (uint32_t)(h & 0x8000u) << 16);
}
HALF_INLINE uint16_t f16_of_f32(float f)
{
  uint32_t u = half_bits(f), a = u & 0x7fffffffu;
  uint32_t small = half_bits(half_from_bits(a) + 0.5f) - 0x3f000000u; /* the sum rounds at 2^-24 */
  uint32_t norm = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  uint32_t r = a < 0x38800000u ? small : norm;
  r = a >= 0x47800000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7e00u : r;
  return (uint16_t)(r | ((u >> 16) & 0x8000u));
}

/* Convert n contiguous elements, several at a time if the machine converts float16 itself; the bits
 * are the same except for NaN, which the formulas above convert. */
static inline __attribute__((unused)) void f32_from_half(int is_bf16, const uint16_t *s, float *d,
                                                         int64_t n)
{
  int64_t i = 0;
  if (is_bf16) {
    for (; i < n; i++)
      d[i] = f32_of_bf16(s[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(s + i)));
    _mm256_storeu_ps(d + i, x);
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)))
      for (int64_t j = i; j < i + 8; j++)
        d[j] = f32_of_f16(s[j]);
  }
#elif defined(RUSH_ISA_NEON)
  for (; i + 4 <= n; i += 4) {
    const float32x4_t x = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(s + i)));
    vst1q_f32(d + i, x);
    if (vminvq_u32(vceqq_f32(x, x)) == 0)
      for (int64_t j = i; j < i + 4; j++)
        d[j] = f32_of_f16(s[j]);
  }
#endif
  for (; i < n; i++)
    d[i] = f32_of_f16(s[i]);
}
static inline __attribute__((unused)) void half_from_f32(int is_bf16, const float *s, uint16_t *d,
                                                         int64_t n)
{
  int64_t i = 0;
  if (is_bf16) {
    for (; i < n; i++)
      d[i] = bf16_of_f32(s[i]);
    return;
  }
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(s + i);
    _mm_storeu_si128((__m128i *)(void *)(d + i),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)))
      for (int64_t j = i; j < i + 8; j++)
        d[j] = f16_of_f32(s[j]);
  }
#elif defined(RUSH_ISA_NEON)
  for (; i + 4 <= n; i += 4) {
    const float32x4_t x = vld1q_f32(s + i);
    vst1_u16(d + i, vreinterpret_u16_f16(vcvt_f16_f32(x)));
    if (vminvq_u32(vceqq_f32(x, x)) == 0)
      for (int64_t j = i; j < i + 4; j++)
        d[j] = f16_of_f32(s[j]);
  }
#endif
  for (; i < n; i++)
    d[i] = f16_of_f32(s[i]);
}

#endif
