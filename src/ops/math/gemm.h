/* ops/math/gemm.h -- matrix products on raw memory.
 *
 *   C[m,n] = alpha * A[m,k] B[k,n] + beta * D[m,n]
 *
 * A, B and D have any row and column strides, in elements (transposes cost nothing but packing, a
 * stride of 0 broadcasts a bias); C has any row stride, and a column stride of 1 (or the reverse).
 * D may be C itself; D NULL: nothing is added.  beta == 0 does not read D.
 *
 * float32 and float64 run blocked micro-kernels of the machine's width.  float16 computes in
 * float32 and rounds once at the end; so does bfloat16, whose sums have an order of their own
 * (gemm_chain.h).  Integers wrap (gemm_ints.c).  complex64 and complex128 are plain loops.
 *
 * Order.  Every element is a chain of fused multiply-adds over k, cut into pieces that depend on k
 * alone (gemm_k_piece); pieces are added in order.  So the bits do not depend on threads, strides,
 * tile sizes, packing, or the instruction set.
 *
 * Threads: pure functions; they use the context's pool. */
#ifndef RUSH_OPS_GEMM_H
#define RUSH_OPS_GEMM_H

#include "base/context.h"

typedef struct gemm_matrix { /* an operand that is only read */
  const void *data;
  int64_t rs, cs; /* strides of rows and columns, elements */
} gemm_matrix;

/* Terms of products of bfloat16 (gemm_chain.h). */
typedef enum chain_kind { CHAIN_NONE, CHAIN_WORDS, CHAIN_WIDE, CHAIN_TILES } chain_kind;

typedef struct gemm_args {
  int dtype;
  int64_t m, n, k;
  gemm_matrix a, b, d;
  void *c;
  int64_t c_rs, c_cs;
  double alpha, beta;       /* integers: exact below 2^53 */
  double alpha_im, beta_im; /* complex only */
  bool conj_a;              /* complex only: A's conjugate */
  int chain; /* float32 only, chain_kind: A and B are chains of bfloat16, C and D float32 */
  const struct gemm_packed *packed,
    *packed_a; /* B or A that is already packed (then their data is not read), or NULL */
} gemm_args;

/* Return false for dtypes without matrix products (bool, quantized). */
bool gemm_supports(int dtype);
rush_status gemm(call_ctx *cx, const gemm_args *g) RUSH_CHECKED;
/* Like gemm, on the calling thread only: for tasks that are parallel themselves. */
rush_status gemm_serial(call_ctx *cx, const gemm_args *g) RUSH_CHECKED;

/* Compute n_batch products whose operands are `*_bs` elements apart (0: the same one for all). */
rush_status gemm_batch(call_ctx *cx, const gemm_args *g, int64_t n_batch, int64_t a_bs,
                       int64_t b_bs, int64_t d_bs, int64_t c_bs) RUSH_CHECKED;

/* An operand of many products, packed once for the machine's micro-kernel; floats.  For B (k x n):
 * panels of nr columns over the whole of k; for A (n x k): pieces of k (gemm_k_piece), each in
 * tiles of nr rows, [k][rows].  The matrices of a stack are adjacent.  Immutable after creation. */
typedef struct gemm_packed gemm_packed;
struct gemm_packed {
  int dtype; /* of the source; float16 is stored as float32, bfloat16 as chains */
  bool is_a, words, in_rows; /* in_rows: tiles of A are [rows][k] */
  int64_t count, k, n, nr, taps; /* nr, words, in_rows belong to the instruction set that packed */
  size_t n_bytes;          /* of data */
  void *data;
};
typedef struct gemm_packing { /* input of packing: `count` matrices `bs` elements apart */
  int dtype;
  bool is_a;
  int64_t count, k, n, bs,
    taps;           /* taps: for bfloat16, adjacent terms of a channel; 0: 1 */
  gemm_matrix from; /* of A: rows n; of B: columns n */
  /* float32 only; 0, or of B: a column's terms are [turned][k / turned] in memory, and k counts
   * them the other way around: a convolution's weight with channels last */
  int64_t turned;
  int chain;        /* float32 only: the dtype it represents, as in gemm_args */
} gemm_packing;
/* True if p is packed as *like describes; false for another kind, size or instruction set. */
bool gemm_packed_fits(call_ctx *cx, const gemm_packed *p, const gemm_packing *like);
rush_status gemm_pack(call_ctx *cx, const gemm_packing *from,
                      gemm_packed **out) RUSH_CHECKED; /* new */
void gemm_packed_free(context *c, gemm_packed *p);
/* Return matrix i of a stack in p's form: for gemm_args. */
gemm_packed gemm_packed_item(const gemm_packed *p, int64_t i);

/* Return the length of the pieces that a chain over k is cut into: about 384, balanced. */
static inline int64_t gemm_k_piece(int64_t k)
{
  int64_t n = (k + 383) / 384;
  return n <= 1 ? k : (k + n - 1) / n;
}

#endif
