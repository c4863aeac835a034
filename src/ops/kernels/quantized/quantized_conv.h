/* ops/kernels/quantized/quantized_conv.h -- convolutions of bytes.
 *
 * Channels are innermost in memory (channels last), so that a patch is a few ranges of memory and a
 * result pixel a row of the product.  One and two dimensions are three with leading ones. */
#ifndef RUSH_OPS_QUANTIZED_CONV_H
#define RUSH_OPS_QUANTIZED_CONV_H

#include "ops/kernels/quantized/quantized.h"

typedef struct conv_packed {
  context *ctx;
  int spatial;                /* 2 or 3: the class */
  rush_tensor *weight,
    *bias; /* as passed in (a 1-d convolution's with a height of 1); bias may be NULL */
  int64_t stride[3], pad[3], dilation[3], out_pad[3], kernel[3]; /* leading ones and zeros */
  int64_t groups, in_ch, out_ch;
  int64_t wide; /* of a group's channels, as many as packed weights have: whole words */
  bool transpose;
  weight_params params;
  qgemm_packed **packed;      /* one per group; NULL for depthwise and transposed ones */
  int8_t *taps; /* depthwise: [kernel position][channel]; transposed: the weight, dense */
  size_t taps_bytes;
} conv_packed;

/* Make packed parameters; new; keeps weight and bias.  Arrays have `spatial` elements. */
rush_status conv_packed_new(call_ctx *cx, int spatial, rush_tensor *weight, rush_tensor *bias,
                            const int64_t *stride, const int64_t *pad, const int64_t *dilation,
                            const int64_t *out_pad, int64_t groups, bool transpose,
                            conv_packed **out) RUSH_CHECKED;

typedef struct conv_call {
  const conv_packed *p;
  int64_t batch, in[3], out[3];
  const uint8_t *x;  /* [batch, d, h, w, channel] */
  float a_scale;
  int32_t a_zero;
  bool relu;
  float out_scale;
  int32_t out_zero;
  uint8_t *y;
} conv_call;
/* Compute sizes of the result from `in`; fails if one would not be positive. */
rush_status conv_packed_sizes(call_ctx *cx, const conv_packed *p, const int64_t *in,
                              int64_t *out) RUSH_CHECKED;
rush_status conv_packed_run(call_ctx *cx, const conv_call *c) RUSH_CHECKED;

/* -- Images in words (quantized_image.c) ------------------------------------------------------- */

/* The input with its padding, in words as qgemm.h multiplies them: a row of a patch is a range of
 * memory, so that no patches are made. */
typedef struct conv_image {
  const int32_t *words;
  int64_t pixel, row, plane, image; /* words from one to the next */
  int64_t *segs, n_segs, seg_words; /* of a patch */
  void *own; /* the memory of words, unless they are the input's */
  size_t own_bytes;
} conv_image;

/* True if the convolution can run on an image in words: one group, weights without zero points,
 * padding that is not far larger than the input. */
bool conv_image_fits(const conv_call *c);
rush_status conv_image_make(call_ctx *cx, const conv_call *c, conv_image *out) RUSH_CHECKED;
void conv_image_free(context *c, conv_image *i);

#endif
