/* ops/kernels/reduce/reduce.h -- the reduction machine: folding dimensions of a tensor.
 *
 * A job names a tensor, the dimensions that go, and a kind: what each element is mapped to and how
 * two are combined.  The result is one accumulator for each output, in row-major order of the
 * dimensions that stay; finishing (a division, a root) and rounding to a dtype are the caller's.
 *
 *   rows      the reduced dimensions lie innermost: 16 lanes by 4 accumulators and one tree
 *   columns   a kept dimension lies innermost: a row of accumulators takes row after row
 *   neither   blocks are gathered (and converted to the accumulator's type) and folded as rows
 *
 * Elements are folded in pieces whose size depends on the problem only, and pieces are combined in
 * pairs: the same bits with one thread and with many, and on every instruction set.
 *
 * A complex tensor counts as one of pairs of reals: it has two accumulators an output. */
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
  REDUCE_NONZERO, /* how many are not 0 */
  REDUCE_PROD,
  REDUCE_MAX,     /* NaN wins; of bools: any */
  REDUCE_MIN,     /* NaN wins; of bools: all */
  REDUCE_MAX_ABS,
  REDUCE_MIN_ABS,
  N_REDUCE_KINDS
} reduce_kind;

/* Loops for one kind and type; params are NULL or one an accumulator. */
typedef struct reduce_loops {
  /* acc[r] = fold of the n elements in a row at x + r * stride (elements) */
  void (*rows)(int64_t n_rows, int64_t n, int64_t stride, const void *x, const void *param,
               void *acc);
  /* acc[c] takes n_rows elements, `stride` elements apart, from x + c */
  void (*cols)(int64_t n_cols, int64_t n_rows, int64_t stride, const void *x, const void *param,
               void *acc);
  void (*init)(int64_t n, void *acc);
} reduce_loops;

typedef struct reduce_isa {
  reduce_loops loops[N_REDUCE_KINDS][N_TAPE_TYPES];
  /* The first of n elements that is *wanted or NaN; n: none. */
  int64_t (*find[N_TAPE_TYPES])(int64_t n, const void *x, const void *wanted);
  /* found[c] = lowest row with that, + first_row; left alone where there is none. */
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

/* How many outputs (without the factor 2 of complex tensors). */
int64_t reduce_n_outputs(const rush_tensor *x, uint64_t dims);
int64_t reduce_n_elems(const rush_tensor *x, uint64_t dims); /* elements of each */
/* acc: one an output, of job->type; two for complex tensors. */
rush_status reduce_run(call_ctx *cx, const reduce_job *job, void *acc) RUSH_CHECKED;
/* For the extreme of each output, that reduce_run found: the linear index among the reduced
 * elements (in row-major order of the reduced dimensions) of its first occurrence, or of the first
 * NaN. */
rush_status reduce_find(call_ctx *cx, const reduce_job *job, const void *extremes,
                        int64_t *found) RUSH_CHECKED;

#endif
