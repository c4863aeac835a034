/* ops/math/turn512.h -- a 16 x 16 transpose of floats in AVX-512 registers: 64 shuffles, the usual
 * four rounds of pairs.  Included by files that are compiled for AVX-512. */
#ifndef RUSH_OPS_TURN512_H
#define RUSH_OPS_TURN512_H

#include <immintrin.h>

#define TURN_UNROLL _Pragma("GCC unroll 16")

/* Transpose: exchange lane j of r[i] and lane i of r[j]. */
static inline __attribute__((always_inline)) void turn16(__m512 r[16])
{
  __m512 t[16];
  TURN_UNROLL for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  TURN_UNROLL for (int i = 0; i < 16; i += 4)
    TURN_UNROLL for (int j = 0; j < 2; j++) { /* r[i + c]: column c of each quarter, of i..i+3 */
      r[i + 2 * j] = _mm512_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
      r[i + 2 * j + 1] = _mm512_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
    }
  TURN_UNROLL for (int c = 0; c < 4; c++) {
    t[c] = _mm512_shuffle_f32x4(r[c], r[c + 4], 0x88);
    t[c + 4] = _mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd);
    t[c + 8] = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88);
    t[c + 12] = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd);
  }
  TURN_UNROLL for (int c = 0; c < 4; c++) {
    r[c] = _mm512_shuffle_f32x4(t[c], t[c + 8], 0x88);
    r[c + 4] = _mm512_shuffle_f32x4(t[c + 4], t[c + 12], 0x88);
    r[c + 8] = _mm512_shuffle_f32x4(t[c], t[c + 8], 0xdd);
    r[c + 12] = _mm512_shuffle_f32x4(t[c + 4], t[c + 12], 0xdd);
  }
}

#endif
