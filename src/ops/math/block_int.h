/* ops/math/block_int.h -- shared by block.c, block_conv.c and block_kernel.c. */
#ifndef RUSH_OPS_BLOCK_INT_H
#define RUSH_OPS_BLOCK_INT_H

#include "base/isa.h"
#include "ops/math/block.h"

/* Run a step of kind BLOCK_CONV. */
rush_status block_conv(call_ctx *cx, const block_step *s) RUSH_CHECKED;

/* Finish the pixels [first, end) of a block, counted in rows of the image: its border and what
 * follows the step. */
void block_finish(const block_step *s, int64_t image, int64_t block, int64_t first, int64_t end);

/* Rows [y0, y1) of one block of a step's output; in, out: the block's pixel (0, 0). */
typedef struct block_rows {
  const block_step *s;
  const float *in;
  float *out;
  int64_t y0, y1;
  const float *taps, *bias, *scale, *shift; /* of the block; scale NULL: none */
} block_rows;

ISA_DECLARE(void, block_depthwise, (const block_rows *r));
ISA_DECLARE(void, block_grouped, (const block_rows *r)); /* any width, and without bias */
ISA_DECLARE(void, block_max, (const block_rows *r));
ISA_DECLARE(void, block_average, (const block_rows *r));
ISA_DECLARE(void, block_mean, (const block_rows *r));
ISA_DECLARE(void, block_windows, (const block_rows *r));
ISA_DECLARE(void, block_nearest, (const block_rows *r));
ISA_DECLARE(void, block_pad, (const block_rows *r));
/* Copy channels to one block, `block`, of the output; in, out: block 0's pixel (0, 0). */
ISA_DECLARE(void, block_shift, (const block_rows *r, int64_t block));
ISA_DECLARE(void, block_scale, (const block_rows *r));
/* Set `sums` to those of the block's channels, in 64 lanes; means: of the squares of what remains
 * without them. */
ISA_DECLARE(void, block_sums, (const block_rows *r, const float *means, float *sums));

/* Copy rows [y0, y1) of n_ch <= 16 planes, h * w apart, to a block, or back.  Lanes that are no
 * channels become 0. */
typedef struct block_copy {
  const block_place *place;
  int64_t n_ch, y0, y1;
  int64_t pixel; /* 0: planes; else the pixels of all channels are so far apart */
  float *planes, *block; /* block: its pixel (0, 0) */
} block_copy;
ISA_DECLARE(void, block_enter, (const block_copy *c));
ISA_DECLARE(void, block_leave, (const block_copy *c));

/* Normalise n neighbouring pixels; in, out: the first one in block 0. */
typedef struct block_pixels {
  const block_step *s;
  const float *in;
  float *out;
  int64_t n;
} block_pixels;
ISA_DECLARE(void, block_layer, (const block_pixels *p));

#endif
