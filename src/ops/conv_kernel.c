/* Inner loops of convolutions, compiled once per instruction set (base/isa.h). */
#include "ops/conv_int.h"

#include <string.h>

#if ISA_LEVEL >= ISA_AVX512
#include <immintrin.h>
#endif

/* -- Packing patches ----------------------------------------------------------------------------- */

#define PACK(name, T, VL)                                                                        \
  void name(const conv_panel *p, int64_t n_k, const int64_t *k_off, const T *in, T *dst)         \
  {                                                                                              \
    for (int l0 = 0; l0 < p->nr; l0 += VL) {                                                     \
      int n = p->cols - l0 < VL ? p->cols - l0 : VL;                                             \
      bool row = n == VL; /* VL neighbours of one row */                                         \
      for (int l = 1; l < n; l++)                                                                \
        row &= p->off[l0 + l] == p->off[l0 + l - 1] + 1;                                         \
      for (int64_t k = 0; k < n_k; k++) {                                                        \
        T *d = dst + k * p->nr + l0;                                                             \
        const T *s = in + k_off[k];                                                              \
        if (row) {                                                                               \
          memcpy(d, s + p->off[l0], VL * sizeof(T));                                             \
          continue;                                                                              \
        }                                                                                        \
        for (int l = 0; l < n; l++)                                                              \
          d[l] = s[p->off[l0 + l]];                                                              \
        for (int l = n < 0 ? 0 : n; l < VL; l++)                                                 \
          d[l] = 0;                                                                              \
      }                                                                                          \
    }                                                                                            \
  }

PACK(ISA_NAME(conv_pack_f64), double, 4)

#if ISA_LEVEL >= ISA_AVX512

/* A vector of pixels as runs along input rows: lanes `mask` are at base + step * lane. */
typedef struct runs {
  int n;
  __mmask16 mask[16];
  int64_t base[16];
} runs;

static void find_runs(const conv_panel *p, int l0, runs *r)
{
  r->n = 0;
  for (int l = l0; l < l0 + 16 && l < p->cols; l++) {
    if (l == l0 || p->off[l] != p->off[l - 1] + p->step) {
      r->mask[r->n] = 0;
      r->base[r->n++] = p->off[l] - (int64_t)p->step * (l - l0);
    }
    r->mask[r->n - 1] |= (__mmask16)(1u << (l - l0));
  }
}

static inline __m512 load_runs1(const runs *r, const float *s)
{
  __m512 x = _mm512_maskz_loadu_ps(r->mask[0], s + r->base[0]);
  for (int i = 1; i < r->n; i++)
    x = _mm512_mask_loadu_ps(x, r->mask[i], s + r->base[i]);
  return x;
}

/* bit l -> bit 2 l */
static inline uint32_t spread(uint32_t m)
{
  m = (m | m << 8) & 0x00ff00ffu;
  m = (m | m << 4) & 0x0f0f0f0fu;
  m = (m | m << 2) & 0x33333333u;
  return (m | m << 1) & 0x55555555u;
}

static inline __m512 load_runs2(const runs *r, const float *s)
{
  const __m512i even =
    _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  __m512 x = _mm512_setzero_ps();
  for (int i = 0; i < r->n; i++) {
    const uint32_t m = spread(r->mask[i]);
    const __m512 lo = _mm512_maskz_loadu_ps((__mmask16)m, s + r->base[i]);
    const __m512 hi = _mm512_maskz_loadu_ps((__mmask16)(m >> 16), s + r->base[i] + 16);
    x = _mm512_mask_mov_ps(x, r->mask[i], _mm512_permutex2var_ps(lo, even, hi));
  }
  return x;
}

void ISA_NAME(conv_pack_f32)(const conv_panel *p, int64_t n_k, const int64_t *k_off, const float *in,
                             float *dst)
{
  for (int l0 = 0; l0 < p->nr; l0 += 16) {
    runs r;
    find_runs(p, l0, &r);
    float *d = dst + l0;
    if (r.n == 0) {
      for (int64_t k = 0; k < n_k; k++, d += p->nr)
        _mm512_storeu_ps(d, _mm512_setzero_ps());
    } else if (p->step == 1 && r.n == 1) {
      for (int64_t k = 0; k < n_k; k++, d += p->nr)
        _mm512_storeu_ps(d, _mm512_maskz_loadu_ps(r.mask[0], in + k_off[k] + r.base[0]));
    } else if (p->step == 1) {
      for (int64_t k = 0; k < n_k; k++, d += p->nr)
        _mm512_storeu_ps(d, load_runs1(&r, in + k_off[k]));
    } else if (p->step == 2) {
      for (int64_t k = 0; k < n_k; k++, d += p->nr)
        _mm512_storeu_ps(d, load_runs2(&r, in + k_off[k]));
    } else {
      const int n = p->cols - l0 < 16 ? p->cols - l0 : 16;
      for (int64_t k = 0; k < n_k; k++, d += p->nr) {
        _mm512_storeu_ps(d, _mm512_setzero_ps());
        for (int l = 0; l < n; l++)
          d[l] = in[k_off[k] + p->off[l0 + l]];
      }
    }
  }
}

#else
PACK(ISA_NAME(conv_pack_f32), float, 8)
#endif

/* -- Depthwise ------------------------------------------------------------------------------------ */

/* Constant n_k and step let the compiler keep all weights in registers and vectorise over the row. */
#define DEPTH(name, T, FMA)                                                                      \
  static inline __attribute__((always_inline)) void name##_of(const conv_depth *d, const int n_k, \
                                                              const int64_t step)                \
  {                                                                                              \
    const T *w = d->weight, bias = (T)d->bias;                                                   \
    for (int64_t r = 0; r < d->n_rows; r++) {                                                    \
      const T *in = (const T *)d->in + d->row_off[r];                                            \
      T *restrict out = (T *)d->out + r * d->n_w;                                                \
      const T *s[25];                                                                            \
      for (int k = 0; k < n_k; k++)                                                              \
        s[k] = in + d->k_off[k];                                                                 \
      for (int64_t x = 0; x < d->n_w; x++) {                                                     \
        T acc = 0;                                                                               \
        _Pragma("GCC unroll 32") for (int k = 0; k < n_k; k++)                                   \
          acc = FMA(w[k], s[k][x * step], acc);                                                  \
        out[x] = acc + bias;                                                                     \
      }                                                                                          \
    }                                                                                            \
  }                                                                                              \
  static void name##_any(const conv_depth *d)                                                    \
  {                                                                                              \
    const T *w = d->weight, bias = (T)d->bias;                                                   \
    for (int64_t r = 0; r < d->n_rows; r++) {                                                    \
      const T *in = (const T *)d->in + d->row_off[r];                                            \
      T *out = (T *)d->out + r * d->n_w;                                                         \
      for (int64_t x0 = 0; x0 < d->n_w; x0 += 64) {                                              \
        const int n = (int)(d->n_w - x0 < 64 ? d->n_w - x0 : 64);                                \
        T acc[64] = {0};                                                                         \
        for (int64_t k = 0; k < d->n_k; k++) {                                                   \
          const T *s = in + d->k_off[k] + x0 * d->step, wk = w[k];                               \
          if (d->step == 1)                                                                      \
            for (int x = 0; x < n; x++)                                                          \
              acc[x] = FMA(wk, s[x], acc[x]);                                                    \
          else                                                                                   \
            for (int x = 0; x < n; x++)                                                          \
              acc[x] = FMA(wk, s[x * d->step], acc[x]);                                          \
        }                                                                                        \
        for (int x = 0; x < n; x++)                                                              \
          out[x0 + x] = acc[x] + bias;                                                           \
      }                                                                                          \
    }                                                                                            \
  }                                                                                              \
  static void name##_plain(const conv_depth *d)                                                  \
  {                                                                                              \
    if (d->n_k == 9 && d->step == 1)                                                             \
      name##_of(d, 9, 1);                                                                        \
    else if (d->n_k == 9 && d->step == 2)                                                        \
      name##_of(d, 9, 2);                                                                        \
    else if (d->n_k == 3 && d->step == 1)                                                        \
      name##_of(d, 3, 1);                                                                        \
    else if (d->n_k == 25 && d->step == 1)                                                       \
      name##_of(d, 25, 1);                                                                       \
    else if (d->n_k == 25 && d->step == 2)                                                       \
      name##_of(d, 25, 2);                                                                       \
    else                                                                                         \
      name##_any(d);                                                                             \
  }
DEPTH(conv_depth_f32, float, __builtin_fmaf)
DEPTH(conv_depth_f64, double, __builtin_fma)

void ISA_NAME(conv_depth_f64)(const conv_depth *d) { conv_depth_f64_plain(d); }

#if ISA_LEVEL >= ISA_AVX512

/* Sixteen pixels of a row, the last ones masked: rows of 7 and 14 are what networks have. */
static inline __attribute__((always_inline)) void depth_rows(const conv_depth *d, const int n_k, const int step)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512 bias = _mm512_set1_ps((float)d->bias);
  const float *w = d->weight;
  for (int64_t r = 0; r < d->n_rows; r++) {
    const float *in = (const float *)d->in + d->row_off[r];
    float *out = (float *)d->out + r * d->n_w;
    for (int64_t x = 0; x < d->n_w; x += 16) {
      const __mmask16 m = d->n_w - x < 16 ? (__mmask16)((1u << (d->n_w - x)) - 1) : (__mmask16)0xffff;
      const uint32_t both = step == 2 ? spread(m) : 0;
      __m512 acc = _mm512_setzero_ps();
#pragma GCC unroll 32
      for (int k = 0; k < n_k; k++) {
        const float *s = in + d->k_off[k] + x * step;
        const __m512 v = step == 1 ? _mm512_maskz_loadu_ps(m, s)
                                   : _mm512_permutex2var_ps(_mm512_maskz_loadu_ps((__mmask16)both, s), even,
                                                            _mm512_maskz_loadu_ps((__mmask16)(both >> 16), s + 16));
        acc = _mm512_fmadd_ps(_mm512_set1_ps(w[k]), v, acc);
      }
      _mm512_mask_storeu_ps(out + x, m, _mm512_add_ps(acc, bias));
    }
  }
}

void ISA_NAME(conv_depth_f32)(const conv_depth *d)
{
  if (d->n_k == 9 && d->step == 1)
    depth_rows(d, 9, 1);
  else if (d->n_k == 9 && d->step == 2)
    depth_rows(d, 9, 2);
  else if (d->n_k == 25 && d->step == 1)
    depth_rows(d, 25, 1);
  else if (d->n_k == 25 && d->step == 2)
    depth_rows(d, 25, 2);
  else
    conv_depth_f32_plain(d);
}

#else
void ISA_NAME(conv_depth_f32)(const conv_depth *d) { conv_depth_f32_plain(d); }
#endif
