/* ops/math/gemm_bf16_kernel.c -- micro-kernels of products of bfloat16, two terms per word
 * (ops/math/gemm_chain.h).  Words are treated as float32 wherever they are only moved. */
#include "ops/math/gemm_int.h"
#include "ops/math/turn512.h"

#include <immintrin.h>
#include <string.h>

#define FETCH_ROWS 40
#define UNROLL _Pragma("GCC unroll 32")
#define N_ROWS 14
#define SOME_ROWS(M) M(1) M(2) M(4) M(7) M(14)
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)

#define T float
#define NAME(x) ISA_NAME(x##_bf16)
#define T_F32
#define WORDS
#define WIDE_ROWS EACH_ROWS
#define OFF_ROWS SOME_ROWS
#define VL 16
typedef __m512 v_f32;
#define V v_f32
#define V_ZERO() _mm512_setzero_ps()
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_BCAST(x) _mm512_set1_ps(x)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_DOT(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_STORE(p, x) _mm512_storeu_ps(p, x)
#define V_LOADN(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define V_STOREN(p, x, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), x)
#include "ops/math/gemm_kernel.inc"

/* -- AMX tiles --------------------------------------------------------------------------------- */

#ifdef __AMX_BF16__

/* A tile register holds 16 rows of 16 words.  Registers 0 to 3 are the sums of 32 x 32 (0 1 above 2
 * 3), 4 and 5 rows of A, 6 and 7 panels of B.  The compiler's intrinsics are not used: gcc's do not
 * declare that they read memory. */
#define LOAD(reg, p, step) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #reg ::"r"(p), "r"(step) : "memory")
#define STORE(reg, p, step) \
  __asm__ volatile("tilestored %%tmm" #reg ", (%0,%1,1)" ::"r"(p), "r"(step) : "memory")
#define CLEAR(reg) __asm__ volatile("tilezero %%tmm" #reg ::)
#define MULTIPLY(sum, a, b) \
  __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

enum { STEP = 16 }; /* words a tile takes at a time, and the rows and columns of one */

/* Set the sizes of the registers: `upper` rows of C in 0, 1 and 4, `lower` in 2, 3 and 5. */
static void set_tiles(int upper, int lower)
{
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } form = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    form.bytes[i] = 64;
    form.rows[i] = (uint8_t)(i >= 6 ? STEP : i < 2 || i == 4 ? upper : lower);
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(form));
}

static void tiles_begin(void) { set_tiles(STEP, STEP); }
static void tiles_end(void) { __asm__ volatile("tilerelease" ::); }

/* Add n_steps * STEP words to the sums; `lower`, `right`: there are rows, columns beyond STEP. */
static void add_steps(const float *a, int64_t a_rs, const float *b, int64_t b_ks, int64_t n_steps,
                      bool lower, bool right)
{
  const int64_t a_step = a_rs * 4, b_step = b_ks * 4;
  for (; n_steps > 0; n_steps--, a += STEP, b += STEP * b_ks) {
    LOAD(6, b, b_step);
    LOAD(4, a, a_step);
    MULTIPLY(0, 4, 6);
    if (lower) {
      LOAD(5, a + STEP * a_rs, a_step);
      MULTIPLY(2, 5, 6);
    }
    if (right) {
      LOAD(7, b + STEP, b_step);
      MULTIPLY(1, 4, 7);
      if (lower)
        MULTIPLY(3, 5, 7);
    }
  }
}

/* Add the last n (< STEP) words, with zeros behind them. */
static __attribute__((noinline)) void add_rest(const gemm_tile *t, const float *a, const float *b,
                                               int64_t n, bool lower, bool right)
{
  _Alignas(64) float rows[2 * STEP * STEP] = {0}, panel[2 * STEP * STEP] = {0};
  for (int r = 0; r < t->rows; r++)
    memcpy(rows + r * STEP, a + r * t->a_rs, (size_t)n * sizeof *a);
  for (int64_t k = 0; k < n; k++)
    memcpy(panel + k * 2 * STEP, b + k * t->b_ks, (right ? 2 : 1) * STEP * sizeof *b);
  add_steps(rows, STEP, panel, 2 * STEP, 1, lower, right);
}

static void load_sums(const float *from, int64_t step, bool lower, bool right)
{
  LOAD(0, from, step);
  if (right)
    LOAD(1, from + STEP, step);
  if (lower)
    LOAD(2, from + STEP * step / 4, step);
  if (lower && right)
    LOAD(3, from + STEP * step / 4 + STEP, step);
}

static void store_sums(float *to, int64_t step, bool lower, bool right)
{
  STORE(0, to, step);
  if (right)
    STORE(1, to + STEP, step);
  if (lower)
    STORE(2, to + STEP * step / 4, step);
  if (lower && right)
    STORE(3, to + STEP * step / 4 + STEP, step);
}

/* Compute C from the sums of a tile that is not whole or not plain. */
static __attribute__((noinline)) void finish_tiles(const gemm_tile *t, float *sums)
{
  if (t->c_cs == 1) {
    finish_bf16_avx512bf16(t, sums);
    return;
  }
  for (int r = 0; r < t->rows; r += N_ROWS) {
    gemm_tile part = *t;
    part.rows = t->rows - r < N_ROWS ? t->rows - r : N_ROWS;
    part.c = (float *)t->c + r * t->c_rs;
    part.d = t->d ? (const float *)t->d + r * t->d_rs : NULL;
    finish_turned_bf16_avx512bf16(&part, sums + r * 2 * STEP);
  }
}

/* Load the initial sums of a tile if C is added to. */
static __attribute__((noinline)) void gather_sums(const gemm_tile *t, float *sums)
{
  const float *c = t->c;
  for (int r = 0; r < t->rows; r++)
    for (int i = 0; i < t->cols; i++)
      sums[r * 2 * STEP + i] = c[r * t->c_rs + i * t->c_cs];
}

static void tile_of_tiles(const gemm_tile *t)
{
  const bool lower = t->rows > STEP, right = t->cols > STEP, edge = t->rows < 2 * STEP;
  const bool more = t->d && t->d == t->c && t->alpha == 1.0 && t->beta == 1.0; /* C += A B */
  const bool whole = t->cols == 2 * STEP && t->c_cs == 1;
  const int64_t n_steps = t->k / STEP, rest = t->k % STEP;
  _Alignas(64) float sums[4 * STEP * STEP];
  const float *a = t->a, *b = t->b;
  if (edge)
    set_tiles(lower ? STEP : t->rows, lower ? t->rows - STEP : 1);
  if (more && whole) {
    load_sums(t->c, t->c_rs * 4, lower, right);
  } else if (more) {
    gather_sums(t, sums);
    load_sums(sums, 2 * STEP * 4, lower, right);
  } else {
    CLEAR(0);
    CLEAR(1);
    CLEAR(2);
    CLEAR(3);
  }
  add_steps(a, t->a_rs, b, t->b_ks, n_steps, lower, right);
  if (rest)
    add_rest(t, a + n_steps * STEP, b + n_steps * STEP * t->b_ks, rest, lower, right);
  if (whole && (more || (!t->d && t->alpha == 1.0))) {
    store_sums(t->c, t->c_rs * 4, lower, right);
  } else {
    gemm_tile left = *t;
    store_sums(sums, 2 * STEP * 4, lower, right);
    if (more)
      left.d = NULL;
    finish_tiles(&left, sums);
  }
  if (edge)
    tiles_begin();
}

/* Pack into dst[rows][k]. */
static void pack_rows(int64_t k, int rows, const void *src, int64_t rs, int64_t cs, void *to)
{
  const float *a = src;
  float *dst = to;
  for (int r = 0; r < rows; r++) {
    if (cs == 1) {
      memcpy(dst + r * k, a + r * rs, (size_t)k * sizeof *a);
      continue;
    }
    int64_t i = 0;
    if (rs == 1 && r + 16 <= rows) {
      for (; i + 16 <= k; i += 16)
        transpose_rows_bf16_avx512bf16(16, a + r + i * cs, cs, dst + r * k + i, k);
      for (int l = 0; l < 16; l++)
        for (int64_t j = i; j < k; j++)
          dst[(r + l) * k + j] = a[r + l + j * cs];
      r += 15;
      continue;
    }
    for (; i < k; i++)
      dst[r * k + i] = a[r * rs + i * cs];
  }
}

static const gemm_kernels tiles = {
  .mr = 2 * STEP,
  .nr = 2 * STEP,
  .vl = STEP,
  .words = true,
  .a_in_rows = true,
  .tile = tile_of_tiles,
  .begin = tiles_begin,
  .end = tiles_end,
  .pack_a = pack_rows,
  .pack_b = pack_b_bf16_avx512bf16,
};

const gemm_kernels *gemm_tiles_avx512bf16(void) { return &tiles; }

#else
const gemm_kernels *gemm_tiles_avx512bf16(void) { return NULL; }
#endif
