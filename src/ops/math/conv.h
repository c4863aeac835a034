/* ops/math/conv.h -- convolutions on raw memory.
 *
 * 1, 2 and 3 spatial dimensions; fewer are 3 with leading ones.  Input, weight and output are
 * contiguous: [batch, channels, d, h, w]; weight [out_ch, in_ch / groups, kd, kh, kw], for the
 * transposed convolution [in_ch, out_ch / groups, kd, kh, kw].  All dtypes of gemm.h.
 *
 * float32 and float64 pack patches of the (zero-padded) input directly into the panels of the
 * matrix micro-kernel: no column matrix is made.  1x1 of stride 1 is a matrix product; depthwise
 * has a direct kernel.  If the image is small the product is transposed: pixels are its rows, so
 * that no lane is idle.  Every result is one chain over (channel, kd, kh, kw) cut as in gemm.h,
 * then + bias: the same bits on any instruction set and with any number of threads.  bfloat16:
 * ops/math/gemm_chain.h. */
#ifndef RUSH_OPS_CONV_H
#define RUSH_OPS_CONV_H

#include "ops/math/gemm.h"

typedef struct conv_args {
  int dtype;
  int64_t batch, groups, in_ch, out_ch;
  int64_t in[3], kernel[3], out[3]; /* sizes */
  int64_t stride[3], pad[3], dilation[3]; /* pad: before; the padding after follows from `out` */
  const void *input, *weight, *bias; /* bias may be NULL */
  void *output;
  /* chain_kind: float32 that represents bfloat16. Words: in_ch counts words; weights are chains
   * over (channel, tap) */
  int chain;
  const gemm_packed *packed; /* the weight in the form of conv_packing, or NULL */
} conv_args;

/* Describe the packed form of a weight; returns false if this convolution has no use for one. */
bool conv_packing(call_ctx *cx, const conv_args *c, gemm_packing *out);
rush_status conv(call_ctx *cx, const conv_args *c) RUSH_CHECKED;
rush_status conv_transpose(call_ctx *cx, const conv_args *c) RUSH_CHECKED;

#endif
