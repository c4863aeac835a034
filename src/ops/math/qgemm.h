/* ops/math/qgemm.h -- exact products of unsigned by signed bytes, into 32-bit integers.
 *
 *   C[m,n] = A[m,k] B[k,n]        A: uint8, B: int8, packed once
 *
 * B is stored in panels of columns, k in words of 2 (as 16-bit) or 4 bytes, as the machine's
 * instruction multiplies them.  Integers have no rounding, so all paths give the same result.
 * Threads: a packed matrix is immutable; the functions use the context's pool. */
#ifndef RUSH_OPS_QGEMM_H
#define RUSH_OPS_QGEMM_H

#include "base/context.h"
#include "base/isa.h"

typedef struct qgemm_packed qgemm_packed;
/* Pack B with strides rs, cs (bytes).  New. */
rush_status qgemm_pack(call_ctx *cx, int64_t k, int64_t n, const int8_t *b, int64_t rs, int64_t cs,
                       qgemm_packed **out) RUSH_CHECKED;
void qgemm_packed_free(context *c, qgemm_packed *p);
/* Return the sums of B's columns: for the zero point of A. */
const int32_t *qgemm_column_sums(const qgemm_packed *p);

/* Multiply; rows of A are a_rs bytes apart; C has row stride c_rs (elements). */
rush_status qgemm(call_ctx *cx, int64_t m, const uint8_t *a, int64_t a_rs, const qgemm_packed *b,
                  int32_t *c, int64_t c_rs) RUSH_CHECKED;

/* Multiply on the calling thread, with qgemm_scratch_bytes of scratch: for tasks that are parallel
 * themselves. */
void qgemm_serial(int64_t m, const uint8_t *a, int64_t a_rs, const qgemm_packed *b, int32_t *c,
                  int64_t c_rs, void *scratch);
size_t qgemm_scratch_bytes(const qgemm_packed *b);

/* Return the values of k in a word: 4 bytes, or 2 integers of 16 bits; of what is packed now. */
int qgemm_per_word(context *c);
int qgemm_packed_per_word(const qgemm_packed *p);

/* Rows of A that are pieces of an image: row i has the words of n_segs segments, each seg_words
 * words at rows[i] + segs[s].  B has as many words. */
typedef struct qgemm_rows {
  const int32_t *const *rows;
  const int64_t *segs;
  int64_t n_segs, seg_words;
} qgemm_rows;
/* Multiply m such rows on the calling thread. */
void qgemm_segments(int64_t m, const qgemm_rows *a, const qgemm_packed *b, int32_t *c,
                    int64_t c_rs);

/* -- Between qgemm.c and the kernels of each instruction set ----------------------------------- */

typedef struct qgemm_tile { /* `rows` by `cols` of C */
  const qgemm_rows *a;
  const int32_t *const *rows_at; /* of the tile */
  const int32_t *b; /* rows of nr words */
  int32_t *c;
  int64_t c_rs;
  int rows, cols;
} qgemm_tile;

typedef struct qgemm_kernels {
  int mr, nr, per_word; /* rows and columns of a tile; values of k in a word */
  void (*tile)(const qgemm_tile *t);
} qgemm_kernels;

extern const qgemm_kernels qgemm_kernels_portable;
#ifdef RUSH_ISA_X86
extern const qgemm_kernels qgemm_kernels_avx2, qgemm_kernels_avx512, qgemm_kernels_avx512bf16;
#endif

#endif
