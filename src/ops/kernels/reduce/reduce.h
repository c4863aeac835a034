/* ops/kernels/reduce/reduce.h -- the reduction machine: folds dimensions of a tensor.
 *
 * A job names a tensor, the dimensions to reduce, and a kind: how each element is mapped and how
 * two are combined.  The result is one accumulator for each output, in row-major order of the kept
 * dimensions; the caller finishes them (a division, a root) and rounds them to a dtype.
 *
 *   rows      the reduced dimensions are innermost: 16 lanes by 4 accumulators and one tree
 *   columns   a kept dimension is innermost: a row of accumulators folds row after row
 *   neither   blocks are gathered (and converted to the accumulator's type) and folded as rows
 *
 * Elements are folded in pieces whose size depends only on the problem, and pieces are combined in
 * pairs: the same bits with one thread and with many, and on every instruction set.
 *
 * A complex tensor counts as one of pairs of reals: it has two accumulators per output. */
#ifndef RUSH_OPS_REDUCE_H
#define RUSH_OPS_REDUCE_H

#include "ops/table/tape.h"

typedef enum reduce_kind {
  REDUCE_SUM,
  REDUCE_NANSUM,  /* NaN counts as 0 */
  REDUCE_SUM_ABS,
  REDUCE_SUM_SQ,
  REDUCE_SQ_DEV,  /* sum of (x - param)^2 */
  REDUCE_EXP_SUM, /* sum of exp(x - param) */
  REDUCE_NONZERO, /* number of nonzero elements */
  REDUCE_PROD,
  REDUCE_MAX,     /* NaN wins; of bools: any */
  REDUCE_MIN,     /* NaN wins; of bools: all */
  REDUCE_MAX_ABS,
  REDUCE_MIN_ABS,
  N_REDUCE_KINDS
} reduce_kind;

/* Loops for one kind and type; params are NULL or one per accumulator. */
typedef struct reduce_loops {
  /* Compute acc[r] = fold of the n contiguous elements at x + r * stride (elements). */
  void (*rows)(int64_t n_rows, int64_t n, int64_t stride, const void *x, const void *param,
               void *acc);
  /* Fold n_rows elements, `stride` elements apart, from x + c into acc[c]. */
  void (*cols)(int64_t n_cols, int64_t n_rows, int64_t stride, const void *x, const void *param,
               void *acc);
  void (*init)(int64_t n, void *acc);
} reduce_loops;

typedef struct reduce_isa {
  reduce_loops loops[N_REDUCE_KINDS][N_TAPE_TYPES];
  /* Return the first of n elements that is *wanted or NaN; n: none. */
  int64_t (*find[N_TAPE_TYPES])(int64_t n, const void *x, const void *wanted);
  /* Set found[c] = lowest row with that, + first_row; unchanged if there is none. */
  void (*find_cols[N_TAPE_TYPES])(int64_t n_cols, int64_t n_rows, int64_t stride, const void *x,
                                  const void *wanted, int64_t first_row, int64_t *found);
} reduce_isa;

typedef struct reduce_job {
  const rush_tensor *x;
  uint64_t dims;     /* bit d: dimension d is reduced */
  reduce_kind kind;
  tape_type type;    /* of accumulators: TY_BOOL, TY_I64, TY_F32 or TY_F64 */
  bool as_bool;      /* elements are compared with 0 first */
  const void *param; /* NULL, or one an accumulator */
} reduce_job;

/* Return the number of outputs (without the factor 2 of complex tensors). */
int64_t reduce_n_outputs(const rush_tensor *x, uint64_t dims);
int64_t reduce_n_elems(const rush_tensor *x, uint64_t dims); /* elements of each */
/* Run a job; acc: one per output, of job->type; two for complex tensors. */
rush_status reduce_run(call_ctx *cx, const reduce_job *job, void *acc) RUSH_CHECKED;
/* For the extreme of each output, computed by reduce_run, find the linear index among the reduced
 * elements (in row-major order of the reduced dimensions) of its first occurrence, or of the first
 * NaN. */
rush_status reduce_find(call_ctx *cx, const reduce_job *job, const void *extremes,
                        int64_t *found) RUSH_CHECKED;

#endif
