/* ops/math/conv_kernel.c -- inner loops of convolutions, compiled once per instruction set
 * (base/isa.h): packing of patches into panels, and depthwise planes. AVX-512 has packing of its
 * own, which loads runs of neighbouring pixels with masks; other levels copy element by element.
 * Kernel sizes and strides are constants of inlined functions, so that the weights stay in
 * registers. Every sum is one chain in the order of the kernel's rows and columns, for any vector
 * width, so all levels give the same bits. */
#include "ops/math/conv_int.h"

#include <string.h>

#if ISA_LEVEL >= ISA_AVX512
#include <immintrin.h>
#endif

/* -- Packing patches --------------------------------------------------------------------------- */

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

/* Move bit l to bit 2 l. */
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

void ISA_NAME(conv_pack_f32)(const conv_panel *p, int64_t n_k, const int64_t *k_off,
                             const float *in, float *dst)
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

/* -- Depthwise --------------------------------------------------------------------------------- */

/* Constant n_k and step let the compiler keep all weights in registers and vectorise over the row.
 * */
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

void ISA_NAME(conv_depth_f32)(const conv_depth *d) { conv_depth_f32_plain(d); }

#define PLANE_UNROLL _Pragma("GCC unroll 32")

/* Return the mask of the 16 columns from `first` on that are in [0, width). */
static inline __mmask16 inside(int64_t first, int64_t width)
{
  const int64_t lo = first < 0 ? -first : 0, hi = width - first;
  if (lo >= 16 || hi <= lo)
    return 0;
  return (__mmask16)((hi >= 16 ? 0xffffu : (1u << hi) - 1) & (0xffffu << lo));
}

typedef struct strip { /* sixteen columns of the output */
  __mmask16 lo[5], hi[5], out; /* which lanes are inside, for each column of the kernel */
} strip;

/* Load columns first + k and on of an input row, every S-th; HI: they reach beyond sixteen. */
static inline __attribute__((always_inline)) __m512
load_strip(const float *s, const strip *t, __mmask16 any, const int k, const int S, const bool HI)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512 lo = _mm512_maskz_loadu_ps(t->lo[k] & any, s + k);
  if (S == 1)
    return lo;
  if (!HI)
    return _mm512_permutexvar_ps(even, lo);
  return _mm512_permutex2var_ps(lo, even, _mm512_maskz_loadu_ps(t->hi[k] & any, s + k + 16));
}

/* Compute ROWS output rows: an input row is loaded once for all of them.  Each sum is still one
 * chain over the kernel's rows and columns. */
static inline __attribute__((always_inline)) void plane_rows(const conv_plane *p, const __m512 *w,
                                                             const strip *t, int64_t y, int64_t x,
                                                             const int K, const int S,
                                                             const bool HI, const int ROWS)
{
  const __m512 bias = _mm512_set1_ps(p->bias);
  const float *s = p->in + (y * S - p->pad_h) * p->in_w + x * S - p->pad_w;
  float *out = p->out + y * p->out_w + x;
  __m512 acc[4];
  PLANE_UNROLL for (int r = 0; r < ROWS; r++)
    acc[r] = _mm512_setzero_ps();
  PLANE_UNROLL for (int i = 0; i < (ROWS - 1) * S + K; i++) {
    const __mmask16 any = (uint64_t)(y * S - p->pad_h + i) < (uint64_t)p->in_h ? 0xffff : 0;
    __m512 v[5];
    PLANE_UNROLL for (int k = 0; k < K; k++)
      v[k] = load_strip(s, t, any, k, S, HI);
    PLANE_UNROLL for (int r = 0; r < ROWS; r++)
      if (i - r * S >= 0 && i - r * S < K)
        PLANE_UNROLL for (int k = 0; k < K; k++)
          acc[r] = _mm512_fmadd_ps(w[(i - r * S) * K + k], v[k], acc[r]);
    s += p->in_w;
  }
  PLANE_UNROLL for (int r = 0; r < ROWS; r++)
    _mm512_mask_storeu_ps(out + r * p->out_w, t->out, _mm512_add_ps(acc[r], bias));
}

static inline __attribute__((always_inline)) void plane_strip(const conv_plane *p, const __m512 *w,
                                                              const strip *t, int64_t x,
                                                              const int K, const int S,
                                                              const bool HI)
{
  int64_t y = 0;
  for (; K == 3 && y + 4 <= p->out_h; y += 4)
    plane_rows(p, w, t, y, x, K, S, HI, 4);
  for (; y + 2 <= p->out_h; y += 2)
    plane_rows(p, w, t, y, x, K, S, HI, 2);
  for (; y < p->out_h; y++)
    plane_rows(p, w, t, y, x, K, S, HI, 1);
}

static inline __attribute__((always_inline)) void plane_of(const conv_plane *p, const int K,
                                                           const int S)
{
  __m512 w[25];
  for (int k = 0; k < K * K; k++)
    w[k] = _mm512_set1_ps(p->weight[k]);
  for (int64_t x = 0; x < p->out_w; x += 16) {
    strip t = {.out = inside(x, p->out_w)};
    for (int k = 0; k < K; k++) {
      t.lo[k] = inside(x * S - p->pad_w + k, p->in_w);
      t.hi[k] = S == 2 ? inside(x * S - p->pad_w + k + 16, p->in_w) : 0;
    }
    if (S == 2 && p->out_w - x > 8)
      plane_strip(p, w, &t, x, K, S, true);
    else
      plane_strip(p, w, &t, x, K, S, false);
  }
}

bool ISA_NAME(conv_plane_f32)(const conv_plane *p)
{
  if (p->kernel == 3 && p->stride == 1)
    plane_of(p, 3, 1);
  else if (p->kernel == 3 && p->stride == 2)
    plane_of(p, 3, 2);
  else if (p->kernel == 5 && p->stride == 1)
    plane_of(p, 5, 1);
  else if (p->kernel == 5 && p->stride == 2)
    plane_of(p, 5, 2);
  else
    return false;
  return true;
}

#else
void ISA_NAME(conv_depth_f32)(const conv_depth *d) { conv_depth_f32_plain(d); }
bool ISA_NAME(conv_plane_f32)(const conv_plane *p)
{
  (void)p;
  return false;
}
#endif
