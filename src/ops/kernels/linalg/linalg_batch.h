/* ops/kernels/linalg/linalg_batch.h -- batches of matrices in double or complex double, around
 * ops/math/linalg.h.
 *
 * The shape rule has checked the arguments and made the results.  A kernel opens a batch of the
 * matrices that it factors, takes room for results in the precision of the algorithms, works while
 * linalg_next returns true, and closes: results are rounded into call_out, everything is released.
 * The first failure stays in `st` and ends the loop; rooms are NULL then, and linalg_next returns
 * false. */
#ifndef RUSH_OPS_LINALG_BATCH_H
#define RUSH_OPS_LINALG_BATCH_H

#include "ops/call/call.h"
#include "ops/math/linalg.h"

typedef struct linalg {
  rush_call *c;
  rush_status st;
  const linalg_kind *kind;
  rush_tensor *a;         /* dense copy of an argument, in kind's dtype */
  int64_t count;          /* of matrices */
  int64_t rows, cols, k;  /* k: the smaller one */
  rush_tensor *out[4];    /* results in kind's precision, dense, if they were requested */
  rush_tensor *ints;      /* memory of info and pivots */
  int32_t *info;          /* of each matrix; initially 0 */
  int32_t *pivots;        /* k of each matrix */
  void *work;
  size_t work_bytes;
} linalg;

/* Copy the matrices of argument `arg`. */
linalg linalg_open(rush_call *c, uint32_t arg);
/* Allocate result i in the precision of the algorithms; NULL after a failure. */
void *linalg_result(linalg *l, uint32_t i);
/* Return the copy `a`, when it has been worked on, as result i. */
void linalg_result_a(linalg *l, uint32_t i);
/* Allocate result i and fill it with argument `arg`, expanded to the result's sizes. */
void *linalg_result_of(linalg *l, uint32_t i, uint32_t arg);
/* Keep info or pivots in the call's result i, which is int32, if there is such a result. */
void linalg_info_at(linalg *l, uint32_t i);
void linalg_pivots_at(linalg *l, uint32_t i);
/* Allocate n elements of kind's; NULL after a failure. */
void *linalg_work(linalg *l, int64_t n);
/* True if matrix i of n should be computed: nothing failed, and the call is not over. */
bool linalg_next(linalg *l, int64_t i, int64_t n);
/* Return the index of the matrix of argument `arg` that belongs to matrix i of result 0.  Batches
 * are broadcast; the matrices have `tail` and x_tail dimensions. */
int64_t linalg_beside(const linalg *l, uint32_t arg, int tail, int x_tail, int64_t i);
/* Count the matrices of result 0, which have k columns (or rows, in X A = B). */
static inline int64_t linalg_n_solutions(const linalg *l, int64_t k)
{
  return l->rows && k ? call_out(l->c, 0)->n_elems / (l->rows * k) : 0;
}
/* Round the results into call_out and release everything.  With `check`, fail if info reports a
 * failed factorization. */
rush_status linalg_close(linalg *l, bool check) RUSH_CHECKED;

/* Return the address of element n. */
static inline void *linalg_at(const linalg *l, void *p, int64_t n)
{
  return (char *)p + (size_t)n * l->kind->item;
}
static inline void *linalg_matrix(const linalg *l, int64_t i)
{
  return linalg_at(l, l->a->data, i * l->rows * l->cols);
}

#endif
