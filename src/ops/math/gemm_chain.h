/* ops/math/gemm_chain.h -- the order of sums in products of bfloat16.
 *
 * A machine with AVX512_BF16 takes two terms at a time: a word holds two neighbouring channels, and
 * the instruction adds the product of the odd one, then that of the even one, each rounded as a
 * fused multiply-add, denormals being zero.  On others we do the same with float32: the odd channel
 * first, and denormals flushed (flush_begin).  So the bits are the same.
 *
 * A chain has pairs of channels (k of a product, input channels of a convolution), in each pair
 * taps (1, or positions of the convolution's kernel), in each the pair's two channels.  WORDS: a
 * word for each two; WIDE: two float32, the odd one first.  A last unpaired channel is a word with
 * a zero upper half, or one float32.  Pieces (gemm.h) are cut in words. */
#ifndef RUSH_OPS_GEMM_CHAIN_H
#define RUSH_OPS_GEMM_CHAIN_H

#include "ops/math/gemm_int.h"

chain_kind chain_kind_of(const context *c);
int64_t chain_length(chain_kind kind, int64_t channels, int64_t taps);
int64_t chain_piece(chain_kind kind, int64_t length);

typedef struct
  chain_source { /* bfloat16: channel c, tap t of other i at i * os + (c * taps + t) * ks */
  const uint16_t *from;
  int64_t ks, os, channels, taps, n;
} chain_source;
/* View the source as chains without copying, if its layout allows: rows are the others, columns the
 * chain. */
bool chain_view(chain_kind kind, const chain_source *s, gemm_matrix *out);
/* Convert into `to`, chain_length * n words; *out as above. */
rush_status chain_make(call_ctx *cx, chain_kind kind, const chain_source *s, void *to,
                       gemm_matrix *out) RUSH_CHECKED;

/* Treat denormals as zero until flush_end, on this thread. */
static inline unsigned flush_begin(bool on)
{
#ifdef RUSH_ISA_X86
  const unsigned before = __builtin_ia32_stmxcsr();
  if (on)
    __builtin_ia32_ldmxcsr(before | 0x8040u);
  return before;
#else
  return on;
#endif
}
static inline void flush_end(unsigned before)
{
#ifdef RUSH_ISA_X86
  __builtin_ia32_ldmxcsr(before);
#else
  (void)before;
#endif
}

#endif
