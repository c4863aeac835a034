/* ops/point/vmath512.h -- the most used functions of vmath.h for AVX-512, with the same bits.
 *
 * Compilers make five instructions of a clamp that preserves NaN, and eight of a multiplication by
 * a power of two; the machine has one for each.  Only files of isa_sources include this. */
#ifndef RUSH_OPS_VMATH512_H
#define RUSH_OPS_VMATH512_H
#ifdef __AVX512F__

#include <immintrin.h>
#include <stdint.h>

#define V512 static inline __attribute__((always_inline, unused)) __m512
#define F512(x) _mm512_set1_ps(x)

/* Return p * x + c. */
V512 v512_poly(__m512 p, __m512 x, float c) { return _mm512_fmadd_ps(p, x, F512(c)); }
V512 v512_abs(__m512 x)
{
  return _mm512_castsi512_ps(
    _mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)));
}
/* Return |y| with x's sign; y must not be negative. */
V512 v512_sign(__m512 y, __m512 x)
{
  return _mm512_castsi512_ps(
    _mm512_or_epi32(_mm512_castps_si512(y),
                    _mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN))));
}

/* Compute vm_exp_f32.  min and max return their second operand if one is NaN. */
V512 v512_exp(__m512 x)
{
  x = _mm512_max_ps(F512(-104.0f), _mm512_min_ps(F512(89.0f), x));
  __m512 k =
    _mm512_sub_ps(_mm512_fmadd_ps(x, F512(0x1.715476p+0f), F512(0x1.8p23f)), F512(0x1.8p23f));
  __m512 r = _mm512_fmadd_ps(k, F512(-0x1.7f7d1cp-20f), _mm512_fmadd_ps(k, F512(-0x1.62e4p-1f), x));
  __m512 p = F512(0x1.6a26f6p-10f);
  p = v512_poly(p, r, 0x1.123b04p-7f);
  p = v512_poly(p, r, 0x1.5558f2p-5f);
  p = v512_poly(p, r, 0x1.555490p-3f);
  p = v512_poly(p, r, 0x1.fffffcp-2f);
  p = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r), F512(1.0f));
  return _mm512_scalef_ps(p, k);
}

V512 v512_sigmoid(__m512 x)
{
  __m512 minus =
    _mm512_castsi512_ps(_mm512_xor_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
  return _mm512_div_ps(F512(1.0f), _mm512_add_ps(F512(1.0f), v512_exp(minus)));
}

V512 v512_tanh(__m512 x)
{
  __m512 a = v512_abs(x), s = _mm512_mul_ps(a, a), p = F512(-0x1.6f3eccp-8f);
  p = v512_poly(p, s, 0x1.50b73ep-6f);
  p = v512_poly(p, s, -0x1.b80678p-5f);
  p = v512_poly(p, s, 0x1.1105a0p-3f);
  p = v512_poly(p, s, -0x1.55552cp-2f);
  __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(a, s), p, a);
  __m512 b = _mm512_min_ps(F512(10.0f), a);
  __m512 e = _mm512_add_ps(v512_exp(_mm512_add_ps(b, b)), F512(1.0f));
  __m512 big = _mm512_sub_ps(F512(1.0f), _mm512_div_ps(F512(2.0f), e));
  return v512_sign(
    _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, F512(0.625f), _CMP_LT_OQ), big, small), x);
}

V512 v512_erf(__m512 x)
{
  __m512 a = v512_abs(x), s = _mm512_mul_ps(a, a), p = F512(-0x1.395826p-11f);
  p = v512_poly(p, s, 0x1.471592p-8f);
  p = v512_poly(p, s, -0x1.b686b4p-6f);
  p = v512_poly(p, s, 0x1.ce1a42p-4f);
  p = v512_poly(p, s, -0x1.8126e6p-2f);
  p = v512_poly(p, s, 0x1.06eba6p-3f);
  __m512 small = _mm512_fmadd_ps(p, a, a);
  __m512 b = _mm512_min_ps(F512(4.0f), a), q = F512(-0x1.860f1ap-17f);
  q = v512_poly(q, b, 0x1.569d48p-12f);
  q = v512_poly(q, b, -0x1.df8638p-9f);
  q = v512_poly(q, b, 0x1.85df80p-6f);
  q = v512_poly(q, b, -0x1.b34ebcp-4f);
  q = v512_poly(q, b, -0x1.452f6ep-1f);
  q = v512_poly(q, b, -0x1.077bf0p-3f);
  __m512 big = _mm512_sub_ps(F512(1.0f), v512_exp(_mm512_fmsub_ps(q, b, b)));
  return v512_sign(_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, F512(0.93f), _CMP_LT_OQ), big, small),
                   x);
}

V512 v512_phi(__m512 x)
{
  return _mm512_fmadd_ps(F512(0.5f), v512_erf(_mm512_mul_ps(x, F512(0x1.6a09e6p-1f))), F512(0.5f));
}

#endif /* __AVX512F__ */
#endif
