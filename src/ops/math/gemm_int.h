/* ops/math/gemm_int.h -- shared by gemm.c and the micro-kernels of each instruction set. */
#ifndef RUSH_OPS_GEMM_INT_H
#define RUSH_OPS_GEMM_INT_H

#include "base/isa.h"
#include "ops/math/gemm.h"

/* One tile: `rows` (<= mr) by `cols` (<= nr) of C over k terms.  Strides in elements.  The tile of
 * B is rows of at least nr readable elements, rounded up to a vector.
 *   c = alpha * (a b) + (d ? beta * d : 0)
 * One of c_rs and c_cs is 1. */
typedef struct gemm_tile {
  int64_t k;
  const void *a;
  int64_t a_rs, a_ks;
  const int64_t *a_off; /* tile_off only: term k of a row is at a_off[k]; a_ks is not read */
  int64_t a_mid;        /* tile_off only: position of row 7; rows 0..6 and 7.. are a_rs apart */
  const void *b;
  int64_t b_ks;
  void *c;
  int64_t c_rs, c_cs;
  const void *d;
  int64_t d_rs, d_cs;
  int rows, cols;
  bool shares_b; /* with many other tiles: B need not be fetched ahead */
  double alpha, beta;
  /* tile_block only, with alpha and beta 1 and c_cs 1.  Row r of A is at a + a_at[r], its terms as
   * for tile_off; with `terms`, they are copies, [term][TERM_ROWS].  Row r of C is at c + c_at[r],
   * its second vector at c1 + c_at[r]; D has whole vectors.  The sums become sums * scale + shift
   * (whole vectors, or NULL), then, if `clamps`, min(max(sums, lo), hi) as block.h says, before
   * they are stored. */
  const int64_t *a_at, *c_at;
  const void *terms;
  void *c1;
  /* tile_row only: the first term's column in the kernel.  With cols more than nr there is a second
   * panel: its B, and its place behind c and c1. */
  int column;
  const void *b1;
  int64_t c_next;
  const void *scale, *shift;
  bool clamps;
  float lo, hi;
} gemm_tile;

/* Terms [k0, k1) of a tile for blocks of channels, to be copied to to[k - k0][row].  The tile is of
 * n (<= TERM_ROWS) pixels, at a + at[row].  Term k, of n_taps for each channel, is at a_off[k] from
 * its pixel, and so are those of the channels behind it in a block.  What lies behind the last row
 * is overwritten. */
#define TERM_ROWS 8
#define ROW_PIXELS 3
typedef struct gemm_terms {
  const float *a;
  const int64_t *at, *a_off;
  int n;
  int64_t n_taps, k0, k1;
  float *to;
} gemm_terms;

typedef struct gemm_kernels {
  int mr, nr, vl; /* rows and columns of a tile; lanes of a vector */
  bool words;     /* a term is a word of two bfloat16 (gemm_chain.h) */
  bool a_in_rows; /* tile wants a_ks 1, and pack_a makes dst[rows][k] */
  void (*tile)(const gemm_tile *t);
  void (*tile_off)(const gemm_tile *t); /* NULL where there is none */
  void (*tile_block)(const gemm_tile *t); /* the same, for blocks of channels (block.h) */
  void (*copy_terms)(const gemm_terms *t); /* NULL: tile_block is as fast where pixels are */
  /* Do as tile_block for up to ROW_PIXELS pixels of a block that are neighbours, a kernel of three
   * columns that are neighbours, too, and up to two panels; NULL: there is no such kernel. */
  void (*tile_row)(const gemm_tile *t);
  bool even_rows; /* tile_block wants rows 0..6 and rows 7.. as far apart as rows 0 and 1 */
  /* Called around uses of tile on one thread; NULL: nothing to do. */
  void (*begin)(void), (*end)(void);
  /* Pack `rows` (<= mr) of A over k terms into dst[k][rows]. */
  void (*pack_a)(int64_t k, int rows, const void *a, int64_t rs, int64_t cs, void *dst);
  /* Pack k x cols of B (strides rs, cs) into dst[k][nr], zero beyond cols. */
  void (*pack_b)(int64_t k, int cols, const void *b, int64_t rs, int64_t cs, void *dst);
  /* Compute acc[0..n) = chain over k of a[k] * b[k][0..n): one row, B in place.  NULL: use tile. */
  void (*row)(int64_t k, const void *a, int64_t a_ks, const void *b, int64_t b_ks, int64_t n,
              void *acc);
  /* Do the same if the elements of a column of B are contiguous, columns b_cs apart; NULL: there is
   * no such kernel. */
  void (*row_turned)(int64_t k, const void *a, int64_t a_ks, const void *b, int64_t b_cs,
                     int64_t n, void *acc);
} gemm_kernels;

extern const gemm_kernels gemm_f32_portable, gemm_f64_portable;
#ifdef RUSH_ISA_X86
extern const gemm_kernels gemm_f32_avx2, gemm_f64_avx2;
extern const gemm_kernels gemm_f32_avx512, gemm_f64_avx512, gemm_bf16_avx512bf16;
/* Return the kernels with AMX tiles; NULL if the compiler does not support them. */
const gemm_kernels *gemm_tiles_avx512bf16(void);
#endif

/* Products of integers; gemm_ints.c. */
rush_status gemm_ints(call_ctx *cx, const gemm_args *g) RUSH_CHECKED;

/* Return the kernels for RUSH_FLOAT64, RUSH_FLOAT32 or chains of bfloat16, which replace it. */
const gemm_kernels *gemm_kernels_of(const context *c, int dtype, chain_kind chain);
/* Do the same for operands of a dtype that are not chains yet. */
const gemm_kernels *gemm_kernels_for(const context *c, int dtype);

#endif
