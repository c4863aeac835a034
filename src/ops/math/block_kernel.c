/* ops/math/block_kernel.c -- inner loops over blocks of channels (block.h), compiled once per
 * instruction set (base/isa.h).  A vector is neighbouring channels of one pixel; a block of 16 is
 * one, two or four vectors, which are computed one after the other.  Several pixels of a row are
 * computed together, so that a row's weights are loaded once and sums do not wait for each other.
 * Each sum is one chain over the kernel's rows and columns, as in conv_kernel.c. */
#include "ops/math/block_int.h"
#include "ops/math/pool.h"
#include "ops/math/resize.h"

#include <math.h>
#include <string.h>

#if ISA_LEVEL >= ISA_AVX512
#include "ops/math/turn512.h"
#elif ISA_LEVEL >= ISA_AVX2
#include <immintrin.h>
#elif defined(RUSH_ISA_NEON)
#include <arm_neon.h>
#endif

#define UNROLL _Pragma("GCC unroll 32")
#define INLINE static inline __attribute__((always_inline))

#if ISA_LEVEL >= ISA_AVX512
#define VL 16
#elif ISA_LEVEL >= ISA_AVX2
#define VL 8
#else
#define VL 4
#endif
typedef float vec __attribute__((vector_size(VL * sizeof(float))));

INLINE vec load(const float *p)
{
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}

INLINE void store(float *p, vec v) { memcpy(p, &v, sizeof v); }

INLINE vec fma_of(vec a, vec b, vec c)
{
#if ISA_LEVEL >= ISA_AVX512
  return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif ISA_LEVEL >= ISA_AVX2
  return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(RUSH_ISA_NEON)
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  for (int i = 0; i < VL; i++)
    c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#endif
}

/* Clamp as block.h says. */
INLINE vec clamped(vec x, float lo, float hi)
{
#if ISA_LEVEL >= ISA_AVX512 /* of equal ones and with a NaN, both give the second operand */
  x = (vec)_mm512_min_ps(_mm512_set1_ps(hi), _mm512_max_ps(_mm512_set1_ps(lo), (__m512)x));
#elif ISA_LEVEL >= ISA_AVX2
  x = (vec)_mm256_min_ps(_mm256_set1_ps(hi), _mm256_max_ps(_mm256_set1_ps(lo), (__m256)x));
#elif defined(RUSH_ISA_NEON)
  const float32x4_t least = vdupq_n_f32(lo), most = vdupq_n_f32(hi);
  x = (vec)vbslq_f32(vcgtq_f32(least, (float32x4_t)x), least, (float32x4_t)x);
  x = (vec)vbslq_f32(vcltq_f32(most, (float32x4_t)x), most, (float32x4_t)x);
#else
  for (int i = 0; i < VL; i++) {
    x[i] = lo > x[i] ? lo : x[i];
    x[i] = hi < x[i] ? hi : x[i];
  }
#endif
  return lo == 0.0f ? x + 0.0f : x; /* -0 + 0 is 0 */
}

/* Return x where it is more than best or NaN, else best. */
INLINE vec larger(vec x, vec best)
{
#if ISA_LEVEL >= ISA_AVX512
  const __m512 v = (__m512)x; /* of equal ones and with a NaN, max gives the second operand */
  return (vec)_mm512_mask_mov_ps(_mm512_max_ps(v, (__m512)best),
                                 _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v);
#elif ISA_LEVEL >= ISA_AVX2
  const __m256 v = (__m256)x;
  return (vec)_mm256_blendv_ps(_mm256_max_ps(v, (__m256)best), v,
                               _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
#elif defined(RUSH_ISA_NEON)
  const float32x4_t v = (float32x4_t)x, most = (float32x4_t)best;
  const uint32x4_t is_nan = vmvnq_u32(vceqq_f32(v, v));
  return (vec)vbslq_f32(vorrq_u32(vcgtq_f32(v, most), is_nan), v, most);
#else
  for (int i = 0; i < VL; i++)
    best[i] = x[i] > best[i] || x[i] != x[i] ? x[i] : best[i];
  return best;
#endif
}

/* -- Depthwise --------------------------------------------------------------------------------- */

/* Add the bias, apply what follows, and store N pixels. */
INLINE void finish_pixels(const block_rows *r, vec *acc, float *out, int lane, const int N)
{
  if (r->bias) {
    const vec bias = load(r->bias + lane);
    UNROLL for (int i = 0; i < N; i++)
      acc[i] += bias;
  }
  if (r->scale) {
    const vec scale = load(r->scale + lane), shift = load(r->shift + lane);
    UNROLL for (int i = 0; i < N; i++)
      acc[i] = acc[i] * scale + shift;
  }
  if (r->s->clamps)
    UNROLL for (int i = 0; i < N; i++)
      acc[i] = clamped(acc[i], r->s->lo, r->s->hi);
  UNROLL for (int i = 0; i < N; i++)
    store(out + i * BLOCK_LANES, acc[i]);
}

/* Compute N pixels of a row.  K > 0: the kernel's columns, without dilation; S: the stride. */
INLINE void depth_pixels(const block_rows *r, const float *in, float *out, int lane, const int N,
                         const int K, const int S)
{
  const block_step *s = r->s;
  const int64_t n_rows = s->kernel[0], n_cols = K ? K : s->kernel[1],
                row = s->dilation[0] * s->in.cols * BLOCK_LANES,
                col = s->dilation[1] * BLOCK_LANES, step = (S ? S : s->stride[1]) * BLOCK_LANES;
  const float *w = r->taps + lane;
  vec acc[8] = {{0}};
  for (int64_t y = 0; y < n_rows; y++, in += row) {
    if (K > 0 && S == 1) { /* a column is loaded once for all pixels that read it */
      vec x[8 + 6], wk[7];
      UNROLL for (int k = 0; k < K; k++, w += BLOCK_LANES)
        wk[k] = load(w);
      UNROLL for (int i = 0; i < N + K - 1; i++)
        x[i] = load(in + i * BLOCK_LANES);
      UNROLL for (int k = 0; k < K; k++)
        UNROLL for (int i = 0; i < N; i++)
          acc[i] = fma_of(wk[k], x[i + k], acc[i]);
      continue;
    }
    for (int64_t k = 0; k < n_cols; k++, w += BLOCK_LANES) {
      const vec wk = load(w);
      UNROLL for (int i = 0; i < N; i++)
        acc[i] = fma_of(wk, load(in + k * col + i * step), acc[i]);
    }
  }
  finish_pixels(r, acc, out, lane, N);
}

INLINE void depth_rows(const block_rows *r, const int K, const int S)
{
  const block_step *s = r->s;
  const int64_t w = s->out.w, step = s->stride[1] * BLOCK_LANES;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const float *row = r->in + ((y * s->stride[0] - s->pad[0]) * s->in.cols - s->pad[1]) *
                                 BLOCK_LANES;
    float *to = r->out + y * s->out.cols * BLOCK_LANES;
    for (int lane = 0; lane < BLOCK_LANES; lane += VL) {
      int64_t x = 0;
#ifdef ISA_VECTORS
      for (; x + 7 <= w; x += 7)
        depth_pixels(r, row + x * step + lane, to + x * BLOCK_LANES + lane, lane, 7, K, S);
      for (; x + 4 <= w; x += 4)
        depth_pixels(r, row + x * step + lane, to + x * BLOCK_LANES + lane, lane, 4, K, S);
#endif
      for (; x < w; x++)
        depth_pixels(r, row + x * step + lane, to + x * BLOCK_LANES + lane, lane, 1, K, S);
    }
  }
}

/* Kernels that are common have code of their own, except in portable code, which is kept small. */
void ISA_NAME(block_depthwise)(const block_rows *r)
{
#ifdef ISA_VECTORS
  const block_step *s = r->s;
  const int64_t k = s->kernel[1], step = s->stride[1];
  const bool plain = s->dilation[1] == 1;
  if (plain && k == 3 && step == 1)
    depth_rows(r, 3, 1);
  else if (plain && k == 5 && step == 1)
    depth_rows(r, 5, 1);
  else if (plain && k == 7 && step == 1)
    depth_rows(r, 7, 1);
  else if (plain && k == 3 && step == 2)
    depth_rows(r, 3, 2);
  else if (plain && k == 5 && step == 2)
    depth_rows(r, 5, 2);
  else
#endif
    depth_rows(r, 0, 0);
}

/* -- Groups of few channels -------------------------------------------------------------------- */

/* Load, for each lane from `lane` on, channel `at` of the lane's group; width: 1, 2, 4 or 8. */
INLINE vec load_grouped(const float *in, int lane, int width, const int *from)
{
#if ISA_LEVEL >= ISA_AVX512
  (void)lane;
  (void)width;
  return (vec)_mm512_permutexvar_ps(_mm512_loadu_si512(from), _mm512_loadu_ps(in));
#elif ISA_LEVEL >= ISA_AVX2
  (void)width; /* a group does not cross a vector */
  return (vec)_mm256_permutevar8x32_ps(_mm256_loadu_ps(in + lane),
                                       _mm256_loadu_si256((const __m256i *)(const void *)from));
#else
  vec v;
  (void)width;
  (void)lane;
  for (int i = 0; i < VL; i++)
    v[i] = in[from[i]];
  return v;
#endif
}

/* Compute N pixels: one chain over (channel of the group, row, column) for each lane. */
INLINE void grouped_pixels(const block_rows *r, const float *in, float *out, int lane, const int N)
{
  const block_step *s = r->s;
  const int64_t row = s->dilation[0] * s->in.cols * BLOCK_LANES,
                col = s->dilation[1] * BLOCK_LANES, step = s->stride[1] * BLOCK_LANES;
  const int width = (int)s->width;
  const float *w = r->taps + lane;
  vec acc[8] = {{0}};
  for (int at = 0; at < width; at++) {
    int from[VL];
    for (int i = 0; i < VL; i++) /* AVX2 counts from the vector's first lane */
      from[i] = (lane + i) / width * width + at - (ISA_LEVEL == ISA_AVX2 ? lane : 0);
    for (int64_t y = 0; y < s->kernel[0]; y++)
      for (int64_t k = 0; k < s->kernel[1]; k++, w += BLOCK_LANES) {
        const vec wk = load(w);
        UNROLL for (int i = 0; i < N; i++)
          acc[i] = fma_of(wk, load_grouped(in + y * row + k * col + i * step, lane, width, from),
                          acc[i]);
      }
  }
  finish_pixels(r, acc, out, lane, N);
}

void ISA_NAME(block_grouped)(const block_rows *r)
{
  const block_step *s = r->s;
  const int64_t w = s->out.w, step = s->stride[1] * BLOCK_LANES;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const float *row = r->in + ((y * s->stride[0] - s->pad[0]) * s->in.cols - s->pad[1]) *
                                 BLOCK_LANES;
    float *to = r->out + y * s->out.cols * BLOCK_LANES;
    for (int lane = 0; lane < BLOCK_LANES; lane += VL) {
      int64_t x = 0;
#ifdef ISA_VECTORS
      for (; x + 7 <= w; x += 7)
        grouped_pixels(r, row + x * step, to + x * BLOCK_LANES + lane, lane, 7);
#endif
      for (; x < w; x++)
        grouped_pixels(r, row + x * step, to + x * BLOCK_LANES + lane, lane, 1);
    }
  }
}

/* -- Pooling and scaling ----------------------------------------------------------------------- */

/* Return the first element of a window at or after the start of the image, and the end of those
 * inside. */
static int64_t clip(int64_t at, int64_t kernel, int64_t dilation, int64_t size, int64_t *end)
{
  const int64_t first = at >= 0 ? 0 : (-at + dilation - 1) / dilation,
                last = at >= size ? 0 : (size - at + dilation - 1) / dilation;
  *end = last < kernel ? last : kernel;
  return first;
}

void ISA_NAME(block_max)(const block_rows *r)
{
  const block_step *s = r->s;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const int64_t top = y * s->stride[0] - s->pad[0];
    int64_t i_end, k_end;
    const int64_t i0 = clip(top, s->kernel[0], s->dilation[0], s->in.h, &i_end);
    for (int64_t x = 0; x < s->out.w; x++) {
      const int64_t left = x * s->stride[1] - s->pad[1],
                    k0 = clip(left, s->kernel[1], s->dilation[1], s->in.w, &k_end);
      float *to = r->out + (y * s->out.cols + x) * BLOCK_LANES;
      for (int lane = 0; lane < BLOCK_LANES; lane += VL) {
        const float *in = r->in + (top * s->in.cols + left) * BLOCK_LANES + lane;
        vec best = (vec){0} - INFINITY;
        for (int64_t i = i0; i < i_end; i++)
          for (int64_t k = k0; k < k_end; k++)
            best = larger(load(in + (i * s->dilation[0] * s->in.cols + k * s->dilation[1]) *
                                      BLOCK_LANES),
                          best);
        store(to + lane, best);
      }
    }
  }
}

INLINE vec fold_lanes(vec *sums, const int n_sums)
{
  for (int n = n_sums / 2; n > 0; n /= 2)
    for (int l = 0; l < n; l++)
      sums[l] += sums[l + n];
  return sums[0];
}

/* Add pixel i of the image to sum i % n_sums; return the sums, added in a tree. */
INLINE vec sum_in_lanes(const block_rows *r, int lane, const int n_sums)
{
  const block_place *p = &r->s->in;
  vec sums[64] = {{0}};
  int64_t i = 0;
  for (int64_t y = 0; y < p->h; y++)
    for (int64_t x = 0; x < p->w; x++, i++)
      sums[i % n_sums] += load(r->in + (y * p->cols + x) * BLOCK_LANES + lane);
  return fold_lanes(sums, n_sums);
}

INLINE vec squares_in_lanes(const block_rows *r, int lane, vec mean)
{
  const block_place *p = &r->s->in;
  vec sums[64] = {{0}};
  int64_t i = 0;
  for (int64_t y = 0; y < p->h; y++)
    for (int64_t x = 0; x < p->w; x++, i++) {
      const vec d = load(r->in + (y * p->cols + x) * BLOCK_LANES + lane) - mean;
      sums[i % 64] += d * d;
    }
  return fold_lanes(sums, 64);
}

/* The order is that of rows_kernel.inc. */
void ISA_NAME(block_sums)(const block_rows *r, const float *means, float *sums)
{
  for (int lane = 0; lane < BLOCK_LANES; lane += VL)
    store(sums + lane, means ? squares_in_lanes(r, lane, load(means + lane))
                             : sum_in_lanes(r, lane, 64));
}

/* Add rows [y0, y1) of columns [x0, x1) in order. */
INLINE vec sum_box(const block_rows *r, int lane, int64_t y0, int64_t y1, int64_t x0, int64_t x1)
{
  vec sum = {0};
  for (int64_t y = y0; y < y1; y++)
    for (int64_t x = x0; x < x1; x++)
      sum += load(r->in + (y * r->s->in.cols + x) * BLOCK_LANES + lane);
  return sum;
}

/* Whole images are added in 16 lanes, other boxes in order (pool_kernel.inc). */
void ISA_NAME(block_average)(const block_rows *r)
{
  const block_place *p = &r->s->in, *q = &r->s->out;
  for (int64_t y = r->y0; y < r->y1; y++)
    for (int64_t x = 0; x < q->w; x++) {
      const int64_t y0 = pool_start(y, q->h, p->h), y1 = pool_end(y, q->h, p->h),
                    x0 = pool_start(x, q->w, p->w), x1 = pool_end(x, q->w, p->w);
      for (int lane = 0; lane < BLOCK_LANES; lane += VL) {
        const vec sum = y1 - y0 == p->h && x1 - x0 == p->w ? sum_in_lanes(r, lane, 16)
                                                           : sum_box(r, lane, y0, y1, x0, x1);
        store(r->out + (y * q->cols + x) * BLOCK_LANES + lane,
              sum / (float)((y1 - y0) * (x1 - x0)));
      }
    }
}

/* Few pixels are added in order, more in 64 lanes (reduce_kernel.inc). */
void ISA_NAME(block_mean)(const block_rows *r)
{
  const block_place *p = &r->s->in;
  const int64_t n = p->h * p->w;
  for (int lane = 0; lane < BLOCK_LANES; lane += VL)
    store(r->out + lane, (n < 16 ? sum_box(r, lane, 0, p->h, 0, p->w)
                                 : sum_in_lanes(r, lane, 64)) / (float)n);
}

typedef struct window_part { /* of a window along one dimension */
  int64_t begin, end; /* inside the image */
  int64_t n_padded;   /* elements, with padding */
} window_part;

static window_part part_of(const block_step *s, int d, int64_t o, int64_t size)
{
  const int64_t start = o * s->stride[d] - s->pad[d], reach = start + s->kernel[d],
                end = reach < size + s->pad[d] ? reach : size + s->pad[d];
  return (window_part){start > 0 ? start : 0, end < size ? end : size, end - start};
}

void ISA_NAME(block_windows)(const block_rows *r)
{
  const block_step *s = r->s;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const window_part rows = part_of(s, 0, y, s->in.h);
    for (int64_t x = 0; x < s->out.w; x++) {
      const window_part cols = part_of(s, 1, x, s->in.w);
      const bool is_empty = rows.begin >= rows.end || cols.begin >= cols.end;
      const int64_t n = s->divisor     ? s->divisor
                        : s->count_pad ? rows.n_padded * cols.n_padded
                                       : (rows.end - rows.begin) * (cols.end - cols.begin);
      for (int lane = 0; lane < BLOCK_LANES; lane += VL)
        store(r->out + (y * s->out.cols + x) * BLOCK_LANES + lane,
              is_empty ? (vec){0}
                       : sum_box(r, lane, rows.begin, rows.end, cols.begin, cols.end) / (float)n);
    }
  }
}

void ISA_NAME(block_nearest)(const block_rows *r)
{
  const block_step *s = r->s;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const int64_t row = resize_nearest_f32(s->step[0], y, s->in.h);
    const float *in = r->in + row * s->in.cols * BLOCK_LANES;
    float *out = r->out + y * s->out.cols * BLOCK_LANES;
    for (int64_t x = 0; x < s->out.w; x++, out += BLOCK_LANES)
      memcpy(out, in + resize_nearest_f32(s->step[1], x, s->in.w) * BLOCK_LANES,
             BLOCK_LANES * sizeof *out);
  }
}

static float *fill_pixels(float *out, int64_t n, float fill)
{
  for (int64_t i = 0; i < n * BLOCK_LANES; i++)
    out[i] = fill;
  return out + n * BLOCK_LANES;
}

void ISA_NAME(block_pad)(const block_rows *r)
{
  const block_step *s = r->s;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const int64_t from = y - s->pad[0];
    float *out = r->out + y * s->out.cols * BLOCK_LANES;
    if (from < 0 || from >= s->in.h) {
      fill_pixels(out, s->out.w, s->fill);
      continue;
    }
    out = fill_pixels(out, s->pad[1], s->fill);
    memcpy(out, r->in + from * s->in.cols * BLOCK_LANES,
           (size_t)(s->in.w * BLOCK_LANES) * sizeof *out);
    fill_pixels(out + s->in.w * BLOCK_LANES, s->out.w - s->in.w - s->pad[1], s->fill);
  }
}

void ISA_NAME(block_scale)(const block_rows *r)
{
  const block_step *s = r->s;
  for (int64_t y = r->y0; y < r->y1; y++) {
    const float *in = r->in + y * s->in.cols * BLOCK_LANES;
    float *out = r->out + y * s->out.cols * BLOCK_LANES;
    for (int64_t x = 0; x < s->out.w; x++)
      for (int lane = 0; lane < BLOCK_LANES; lane += VL)
        store(out + x * BLOCK_LANES + lane,
              load(in + x * BLOCK_LANES + lane) * load(r->scale + lane) + load(r->shift + lane));
  }
}

/* -- Layer norm -------------------------------------------------------------------------------- */

#define N_SUMS (64 / VL)

/* Add the channels of a pixel, or the squares of x - mean, as rows_kernel.inc does: channel i to
 * lane i % 64, then by halves. */
INLINE float sum_channels(const block_pixels *p, const float *in, const bool squares, float mean)
{
  const block_step *s = p->s;
  const int64_t n_blocks = block_count(&s->in), step = block_floats(&s->in);
  vec acc[N_SUMS] = {{0}};
  float last[BLOCK_LANES], lanes[VL];
  for (int64_t b = 0; b < n_blocks; b++, in += step) {
    const int64_t rest = s->in.n_ch - b * BLOCK_LANES;
    if (rest < BLOCK_LANES) {
      for (int l = 0; l < BLOCK_LANES; l++)
        last[l] = l < rest ? in[l] : squares ? mean : 0.0f;
      in = last;
    }
    UNROLL for (int lane = 0; lane < BLOCK_LANES; lane += VL) {
      vec x = load(in + lane);
      if (squares) {
        x = x - mean;
        x = x * x;
      }
      acc[(b % 4 * BLOCK_LANES + lane) / VL] += x;
    }
  }
  UNROLL for (int n = N_SUMS / 2; n > 0; n /= 2)
    UNROLL for (int i = 0; i < n; i++)
      acc[i] += acc[i + n];
  store(lanes, acc[0]);
  for (int n = VL / 2; n > 0; n /= 2)
    for (int l = 0; l < n; l++)
      lanes[l] += lanes[l + n];
  return lanes[0];
}

void ISA_NAME(block_layer)(const block_pixels *p)
{
  const block_step *s = p->s;
  const int64_t n_blocks = block_count(&s->in), in_step = block_floats(&s->in),
                out_step = block_floats(&s->out);
  const double n = (double)s->in.n_ch;
  for (int64_t i = 0; i < p->n; i++) {
    const float *in = p->in + i * BLOCK_LANES;
    float *out = p->out + i * BLOCK_LANES;
    const double mean = (double)sum_channels(p, in, false, 0.0f) / n;
    const double var = (double)sum_channels(p, in, true, (float)mean) / n;
    const float by = (float)(1.0 / sqrt(var + s->eps));
    for (int64_t b = 0; b < n_blocks; b++, in += in_step, out += out_step)
      UNROLL for (int lane = 0; lane < BLOCK_LANES; lane += VL) {
        vec x = (load(in + lane) - (float)mean) * by;
        if (s->scale)
          x = x * load(s->scale + b * BLOCK_LANES + lane);
        if (s->shift)
          x = x + load(s->shift + b * BLOCK_LANES + lane);
        store(out + lane, x);
      }
  }
}

/* -- Channels elsewhere in blocks -------------------------------------------------------------- */

/* Copy lanes [begin, end) of n pixels: from[lane] on; the other lanes stay. */
INLINE void copy_lanes(const float *from, float *to, int begin, int end, int64_t n)
{
#if ISA_LEVEL >= ISA_AVX512
  const __mmask16 m = (__mmask16)((1u << end) - (1u << begin));
  for (int64_t i = 0; i < n * BLOCK_LANES; i += BLOCK_LANES)
    _mm512_mask_storeu_ps(to + i, m, _mm512_maskz_loadu_ps(m, from + i));
#else
  for (int64_t i = 0; i < n * BLOCK_LANES; i += BLOCK_LANES)
    for (int l = begin; l < end; l++)
      to[i + l] = from[i + l];
#endif
}

void ISA_NAME(block_shift)(const block_rows *r, int64_t block)
{
  const block_step *s = r->s;
  const int64_t ch0 = block * BLOCK_LANES, end_ch = s->to_ch + s->n_copied;
  const int end = (int)(end_ch - ch0 < BLOCK_LANES ? end_ch - ch0 : BLOCK_LANES);
  for (int l = (int)(s->to_ch > ch0 ? s->to_ch - ch0 : 0), next; l < end; l = next) {
    const int64_t ch = s->from_ch + ch0 + l - s->to_ch, at = ch % BLOCK_LANES;
    const float *in = r->in + ch / BLOCK_LANES * block_floats(&s->in) + at - l;
    next = l + BLOCK_LANES - (int)at < end ? l + BLOCK_LANES - (int)at : end;
    for (int64_t y = r->y0; y < r->y1; y++)
      copy_lanes(in + y * s->in.cols * BLOCK_LANES,
                 r->out + block * block_floats(&s->out) + y * s->out.cols * BLOCK_LANES, l, next,
                 s->out.w);
  }
  if (end_ch != s->out.n_ch || end == BLOCK_LANES)
    return;
  for (int64_t y = r->y0; y < r->y1; y++)
    for (int64_t x = 0; x < s->out.w; x++)
      for (int l = end; l < BLOCK_LANES; l++)
        r->out[block * block_floats(&s->out) + (y * s->out.cols + x) * BLOCK_LANES + l] = 0.0f;
}

/* -- Other layouts ----------------------------------------------------------------------------- */

#if ISA_LEVEL >= ISA_AVX512
/* Copy n <= 16 pixels of n_ch planes to a block, or back. */
INLINE void turn_pixels(const block_copy *c, float *planes, int64_t plane, float *block, int64_t n,
                        bool enters)
{
  const __mmask16 m = (__mmask16)((1u << n) - 1);
  __m512 r[16];
  UNROLL for (int i = 0; i < 16; i++)
    r[i] = enters ? _mm512_maskz_loadu_ps(i < c->n_ch ? m : (__mmask16)0,
                                          planes + (i < c->n_ch ? i * plane : 0))
                  : _mm512_maskz_loadu_ps(i < n ? (__mmask16)0xffff : (__mmask16)0,
                                          block + (i < n ? i * BLOCK_LANES : 0));
  turn16(r);
  UNROLL for (int i = 0; i < 16; i++)
    if (i < (enters ? n : c->n_ch)) {
      if (enters)
        _mm512_storeu_ps(block + i * BLOCK_LANES, r[i]);
      else
        _mm512_mask_storeu_ps(planes + i * plane, m, r[i]);
    }
}
#else
INLINE void turn_pixels(const block_copy *c, float *planes, int64_t plane, float *block, int64_t n,
                        bool enters)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t l = 0; l < (enters ? BLOCK_LANES : c->n_ch); l++)
      if (enters)
        block[i * BLOCK_LANES + l] = l < c->n_ch ? planes[l * plane + i] : 0.0f;
      else
        planes[l * plane + i] = block[i * BLOCK_LANES + l];
}
#endif

/* Copy n pixels whose channels are neighbours. */
INLINE void copy_pixels(const block_copy *c, float *pixels, float *block, int64_t n,
                        const bool enters)
{
  const int lanes = c->place->lanes;
  for (int64_t i = 0; i < n; i++, pixels += c->pixel, block += lanes) {
    if (c->n_ch == BLOCK_LANES) {
      memcpy(enters ? block : pixels, enters ? pixels : block, BLOCK_LANES * sizeof(float));
      continue;
    }
    for (int64_t l = 0; l < (enters ? lanes : c->n_ch); l++)
      if (enters)
        block[l] = l < c->n_ch ? pixels[l] : 0.0f;
      else
        pixels[l] = block[l];
  }
}

INLINE void copy_rows(const block_copy *c, const bool enters)
{
  const block_place *p = c->place;
  const bool whole = p->cols == p->w; /* rows are one run */
  const int64_t w = whole ? (c->y1 - c->y0) * p->w : p->w;
  for (int64_t y = c->y0; y < (whole ? c->y0 + 1 : c->y1); y++) {
    if (c->pixel) {
      copy_pixels(c, c->planes + y * p->w * c->pixel, c->block + y * p->cols * p->lanes, w, enters);
      continue;
    }
    float *planes = c->planes + y * p->w, *block = c->block + y * p->cols * p->lanes;
    if (p->lanes == 1) {
      memcpy(enters ? block : planes, enters ? planes : block, (size_t)w * sizeof(float));
      continue;
    }
    for (int64_t x = 0; x < w; x += 16)
      turn_pixels(c, planes + x, p->h * p->w, block + x * BLOCK_LANES, w - x < 16 ? w - x : 16,
                  enters);
  }
}

void ISA_NAME(block_enter)(const block_copy *c) { copy_rows(c, true); }
void ISA_NAME(block_leave)(const block_copy *c) { copy_rows(c, false); }
