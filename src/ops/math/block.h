/* ops/math/block.h -- float32 images in blocks of channels, and what computes on them.
 *
 * A block is 16 channels of an image, [row][column][16]; blocks follow one another, then images.
 * The kernel of convolutions reads pixels of one block in order and writes whole vectors, so that
 * nothing is packed or transposed; depthwise convolutions and pooling are vectors of channels.  The
 * last block's lanes that are no channels are computed like others and never read for a result.
 *
 * An image may have a border of zeros (the padding of the convolutions that read it), which its
 * producer writes.  Images of few channels that only convolutions read are planes: `lanes` is 1.
 *
 * Sums are those of conv.h, bit for bit: one chain over (channel, kh, kw) cut as in gemm.h, then
 * + bias.  What follows a convolution, scale and shift of each channel and `after`, is applied to
 * pixels that are still in the cache.
 *
 * Threads: pure functions; they use the context's pool. */
#ifndef RUSH_OPS_BLOCK_H
#define RUSH_OPS_BLOCK_H

#include "base/cpu.h"
#include "ops/math/gemm.h"

#define BLOCK_LANES 16

typedef struct block_place { /* how an image lies in memory */
  int64_t n_ch, h, w;
  int64_t top, left;  /* rows and columns of the border before the image */
  int64_t rows, cols; /* with the border */
  int lanes;          /* BLOCK_LANES or 1 */
} block_place;

/* True if kernels of blocks are faster than those of planes: with vectors by hand. */
static inline bool block_is_fast(cpu_level level)
{
#ifdef RUSH_ISA_NEON
  (void)level;
  return true;
#else
  return level > CPU_PORTABLE;
#endif
}

static inline int64_t block_count(const block_place *p)
{
  return (p->n_ch + p->lanes - 1) / p->lanes;
}
/* Return the floats of one block. */
static inline int64_t block_floats(const block_place *p) { return p->rows * p->cols * p->lanes; }
/* Return the position of a pixel, which may be in the border. */
static inline int64_t block_at(const block_place *p, int64_t image, int64_t block, int64_t y,
                               int64_t x)
{
  return (image * block_count(p) + block) * block_floats(p) +
         ((y + p->top) * p->cols + x + p->left) * p->lanes;
}
/* True if the image has no border: its pixels are one run. */
static inline bool block_is_flat(const block_place *p)
{
  return p->rows == p->h && p->cols == p->w;
}

/* Write the border next to n pixels of a row from x on, if they reach it. */
void block_border(const block_place *p, float *base, int64_t image, int64_t block, int64_t y,
                  int64_t x, int64_t n);

/* Process n pixels of a block from (y, x) on, which have just been written: of one row, or, if
 * block_step is flat, of several. */
typedef void block_after(void *user, int64_t image, int64_t block, int64_t y, int64_t x, int64_t n);

typedef enum block_kind {
  BLOCK_CONV,      /* all channels of the input for each of the output; input lanes 16 or 1 */
  BLOCK_DEPTHWISE, /* channel by channel, or groups of few: those that a vector can gather */
  BLOCK_MAX,       /* pooling; a NaN wins */
  BLOCK_AVERAGE,   /* of boxes that cover each channel, as adaptive_avg_pool2d adds them */
  BLOCK_MEAN,      /* of each channel, as mean adds its pixels */
  BLOCK_WINDOWS,   /* average pooling */
  BLOCK_NEAREST,   /* nearest resizing */
  BLOCK_PAD,       /* pad[0] rows and pad[1] columns of `fill` before the image, the rest behind */
  BLOCK_SCALE,     /* * scale + shift only */
  BLOCK_LAYER,     /* a layer norm over the channels of each pixel */
  BLOCK_GROUP,     /* a norm over the pixels of `groups` groups of channels */
  BLOCK_COPY,      /* n_copied channels from from_ch on to to_ch and on */
  BLOCK_NOTHING,   /* only `after` */
  BLOCK_ENTER,     /* from contiguous [image][channel][row][column], or as block_step says */
  BLOCK_LEAVE      /* to that */
} block_kind;

/* A step; sizes are small enough for their products (the caller checks). */
typedef struct block_step {
  block_kind kind;
  int64_t batch;
  int64_t kernel[2], stride[2], pad[2], dilation[2]; /* h, w */
  int64_t groups; /* CONV: of whole blocks, in and out; GROUP: of channels */
  int64_t width;  /* DEPTHWISE: channels of a group, 1, 2, 4 or 8, in and out */
  block_place in, out;
  const float *from;
  float *to;
  int64_t from_ch, to_ch, n_copied; /* COPY; behind the output's last channel are zeros */
  bool interleaved; /* ENTER, LEAVE: from or to [image][row][column][channel] */
  bool repeats;     /* ENTER: from one image for all */
  double eps;       /* LAYER and GROUP, whose weight is `scale` and bias `shift`, each or NULL */
  int64_t divisor; /* WINDOWS: what sums are divided by, or 0: the elements of the window, */
  bool count_pad;  /* with its padding */
  float fill;      /* PAD */
  double step[2];  /* NEAREST: input rows and columns per output (resize.h) */
  /* CONV: B of the product (k = in channels x taps, n = out channels, of each group), packed; the
   * positions of its terms (block_offsets).  DEPTHWISE: [block][channel of a group, tap][16]. */
  const gemm_packed *weight;
  const int64_t *k_off;
  const float *taps;
  /* by channel, with whole panels of the kernels (block_panels); NULL: none */
  const float *bias, *scale, *shift;
  /* CONV: of 0, as usual; else pixel (y, x) of a kernel of one element goes to y * spread[0] +
   * to_at[0] and so on, and neither border nor `after` follows */
  int64_t spread[2], to_at[2];
  bool clears_border; /* NOTHING: writes the border, as other kinds do */
  /* CONV, DEPTHWISE: results become min(max(x, lo), hi), hi no zero and lo no -0: a NaN stays, and
   * of zeros it is lo's */
  bool clamps;
  float lo, hi;
  bool flat; /* `out` and all that `after` reads and writes is flat */
  block_after *after; /* or NULL */
  void *user;
} block_step;

/* Return the number of channels in whole blocks and panels of any kernel. */
static inline int64_t block_panels(int64_t n_ch) { return (n_ch + 31) / 32 * 32; }
/* Fill k_off, in_ch * taps positions. */
void block_offsets(const block_step *s, int64_t *k_off);
/* Convert weights [channel][tap] into [block][tap][16]. */
void block_taps(int64_t n_ch, int64_t n_taps, const float *from, float *to);

rush_status block_run(call_ctx *cx, const block_step *s) RUSH_CHECKED;

#endif
