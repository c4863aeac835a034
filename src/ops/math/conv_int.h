/* ops/math/conv_int.h -- shared by conv.c and conv_kernel.c. */
#ifndef RUSH_OPS_CONV_INT_H
#define RUSH_OPS_CONV_INT_H

#include "base/isa.h"
#include "ops/math/conv.h"

#define CONV_MAX_COLS 32

/* A panel: up to 32 output pixels, of which pixel l reads input + k_off[k] + off[l]. */
typedef struct conv_panel {
  int cols, nr, step; /* step: distance of neighbouring pixels of one row (the stride) */
  int64_t off[CONV_MAX_COLS];
} conv_panel;

/* Pack into dst[k][nr], zero beyond cols. */
ISA_DECLARE(void, conv_pack_f32,
            (const conv_panel *p, int64_t n_k, const int64_t *k_off, const float *in, float *dst));
ISA_DECLARE(void, conv_pack_f64,
            (const conv_panel *p, int64_t n_k, const int64_t *k_off, const double *in,
             double *dst));

/* One channel of a depthwise convolution over rows of n_w pixels: out = bias + sum w[k]
 * in[row][k_off[k]]. */
typedef struct conv_depth {
  int64_t n_k, n_rows, n_w, step; /* step: of pixels in a row */
  const int64_t *k_off, *row_off; /* row_off: start of the input of an output row */
  const void *in, *weight;
  void *out;                      /* rows n_w apart */
  double bias;
} conv_depth;
ISA_DECLARE(void, conv_depth_f32, (const conv_depth *d));
ISA_DECLARE(void, conv_depth_f64, (const conv_depth *d));

/* Convolve a plane in its memory, without a real border of zeros: square kernels of 3 or 5, strides
 * of 1 or 2, no dilation.  Returns false, having done nothing, for other kernels or instruction
 * sets. */
typedef struct conv_plane {
  int kernel, stride;
  int64_t in_h, in_w, out_h, out_w, pad_h, pad_w;
  const float *in, *weight;
  float *out, bias;
} conv_plane;
ISA_DECLARE(bool, conv_plane_f32, (const conv_plane *p));

#endif
