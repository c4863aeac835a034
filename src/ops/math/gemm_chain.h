/* ops/math/gemm_chain.h -- the order of sums in products of bfloat16.
 *
 * A machine with AVX512_BF16 takes two terms at a time: a word holds two neighbouring channels, and
 * the instruction adds the product of the odd one, then that of the even one, each rounded as a
 * fused multiply-add, denormals being zero.  On others we do the same with float32: the odd channel
 * first, and denormals flushed (chain_begin).  So the bits are the same.
 *
 * TILES: words too, but with the order of sums that AMX has.  Of 16 words the even channels are one
 * chain of fused multiply-adds from zero and the odd ones another; the two are added, and the
 * result is added to the sum.  Other instruction sets would need twice as many sums for this order,
 * so only CPU_NATIVE uses it, and its bits are those of machines with AMX; CPU_AVX512 and below
 * agree with each other on all machines.  16 words start at a multiple of 16 of the whole chain, so
 * that pieces do not show.
 *
 * A chain has pairs of channels (k of a product, input channels of a convolution), in each pair
 * taps (1, or positions of the convolution's kernel), in each the pair's two channels.  WORDS: a
 * word for each two; WIDE: two float32, the odd one first.  A last unpaired channel is a word with
 * a zero upper half, or one float32.  Pieces (gemm.h) are cut in words. */
#ifndef RUSH_OPS_GEMM_CHAIN_H
#define RUSH_OPS_GEMM_CHAIN_H

#include "ops/math/gemm_int.h"

chain_kind chain_kind_of(const context *c);
static inline bool chain_is_words(chain_kind kind)
{
  return kind == CHAIN_WORDS || kind == CHAIN_TILES;
}
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

/* Start a task that calls kernels: treat denormals of chains as zero on this thread until
 * chain_end, which takes the result of chain_begin. */
static inline unsigned chain_begin(const gemm_kernels *kr, int chain)
{
  unsigned before = (unsigned)chain;
#ifdef RUSH_ISA_X86
  before = __builtin_ia32_stmxcsr();
  if (chain != CHAIN_NONE)
    __builtin_ia32_ldmxcsr(before | 0x8040u);
#endif
  if (kr->begin)
    kr->begin();
  return before;
}
static inline void chain_end(const gemm_kernels *kr, unsigned before)
{
  if (kr->end)
    kr->end();
#ifdef RUSH_ISA_X86
  __builtin_ia32_ldmxcsr(before);
#else
  (void)before;
#endif
}

#endif
