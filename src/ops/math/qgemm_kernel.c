/* ops/math/qgemm_kernel.c -- tiles of integer products, compiled for every instruction set: pairs
 * of 16-bit values (madd, smull), or four bytes (VNNI, on machines that have it). */
#include <stdint.h>
#include <string.h>

#include "ops/math/qgemm.h"

#if ISA_LEVEL >= ISA_AVX2
#include <immintrin.h>
#elif defined(RUSH_ISA_NEON)
#include <arm_neon.h>
#endif

#if ISA_LEVEL >= ISA_AVX512
#define VL 16
typedef __m512i vec;
#define VZERO _mm512_setzero_si512()
#define VLOAD(p) _mm512_loadu_si512(p)
#define VSTORE(p, v) _mm512_storeu_si512(p, v)
#define VSET1(x) _mm512_set1_epi32(x)
#if ISA_LEVEL >= ISA_AVX512BF16
#define PER_WORD 4
#define VDOT(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
#else
#define VDOT(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#endif
#define MR 8
#elif ISA_LEVEL == ISA_AVX2
#define VL 8
typedef __m256i vec;
#define VZERO _mm256_setzero_si256()
#define VLOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define VSTORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define VSET1(x) _mm256_set1_epi32(x)
#define VDOT(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
#define MR 4
#elif defined(RUSH_ISA_NEON)
#define VL 4
typedef int32x4_t vec;
#define VZERO vdupq_n_s32(0)
#define VLOAD(p) vld1q_s32(p)
#define VSTORE(p, v) vst1q_s32(p, v)
#define VSET1(x) vdupq_n_s32(x)
static inline vec dot_pairs(vec acc, vec a, vec b)
{
  const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
  return vaddq_s32(acc, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)),
                                   vmull_high_s16(x, y)));
}
#define VDOT(acc, a, b) dot_pairs(acc, a, b)
#define MR 8
#else
#define VL 8
typedef struct vec {
  int32_t v[VL];
} vec;
#define MR 4
#endif
#ifndef PER_WORD
#define PER_WORD 2
#endif
#define NR (2 * VL)

#ifndef ISA_VECTORS
static void tile(const qgemm_tile *t)
{
  for (int r = 0; r < t->rows; r++) {
    int32_t acc[NR] = {0};
    const int32_t *from = t->b;
    for (int64_t s = 0; s < t->a->n_segs; s++)
      for (int64_t k = 0; k < t->a->seg_words; k++, from += NR) {
        int16_t a[2];
        memcpy(a, t->rows_at[r] + t->a->segs[s] + k, sizeof a);
        for (int j = 0; j < NR; j++) {
          int16_t b[2];
          memcpy(b, &from[j], sizeof b);
          acc[j] += a[0] * b[0] + a[1] * b[1];
        }
      }
    memcpy(t->c + r * t->c_rs, acc, sizeof *acc * (size_t)t->cols);
  }
}
#else
static inline void tile_rows(const qgemm_tile *t, const int rows)
{
  vec acc[MR][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
    acc[r][0] = acc[r][1] = VZERO;
  const int32_t *b = t->b, *at[MR];
  for (int64_t s = 0; s < t->a->n_segs; s++) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
      at[r] = t->rows_at[r] + t->a->segs[s];
    for (int64_t k = 0; k < t->a->seg_words; k++, b += NR) {
      const vec b0 = VLOAD(b), b1 = VLOAD(b + VL);
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        const vec a = VSET1(at[r][k]);
        acc[r][0] = VDOT(acc[r][0], a, b0);
        acc[r][1] = VDOT(acc[r][1], a, b1);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    int32_t row[NR], *c = t->c + r * t->c_rs;
    if (t->cols == NR) {
      VSTORE(c, acc[r][0]);
      VSTORE(c + VL, acc[r][1]);
      continue;
    }
    VSTORE(row, acc[r][0]);
    VSTORE(row + VL, acc[r][1]);
    memcpy(c, row, sizeof *row * (size_t)t->cols);
  }
}

static void tile(const qgemm_tile *t)
{
  switch (t->rows) {
  case 1: tile_rows(t, 1); break;
  case 2: tile_rows(t, 2); break;
  case 3: tile_rows(t, 3); break;
  case 4: tile_rows(t, 4); break;
#if MR == 8
  case 5: tile_rows(t, 5); break;
  case 6: tile_rows(t, 6); break;
  case 7: tile_rows(t, 7); break;
  case 8: tile_rows(t, 8); break;
#endif
  }
}
#endif

const qgemm_kernels ISA_NAME(qgemm_kernels) = {
  .mr = MR, .nr = NR, .per_word = PER_WORD, .tile = tile};
