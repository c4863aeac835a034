/* ops/kernels/linalg/linalg_batch.h -- batches of matrices in double or complex double, around
 * ops/math/linalg.h.
 *
 * The shape rule has checked the arguments and made the results.  A kernel opens a batch of the
 * matrices that it factors, takes room for results in the precision of the algorithms, works while
 * linalg_next says so, and closes: results are rounded into call_out, everything is released.  The
 * first failure stays in `st` and ends the loop; rooms are NULL then, and only linalg_next tells.
 */
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
  int64_t rows, cols, k;  /* k: the lesser */
  rush_tensor *out[4];    /* results in kind's precision, dense, where they were taken */
  rush_tensor *ints;      /* behind info and pivots */
  int32_t *info;          /* of each matrix; 0 */
  int32_t *pivots;        /* k of each matrix */
  void *work;
  size_t work_bytes;
} linalg;

/* The matrices of argument `arg`. */
linalg linalg_open(rush_call *c, uint32_t arg);
/* Room for result i, in order of memory, or NULL. */
void *linalg_result(linalg *l, uint32_t i);
/* Result i is what becomes of the copy `a`. */
void linalg_result_a(linalg *l, uint32_t i);
/* Result i, filled with argument `arg` expanded to its sizes. */
void *linalg_result_of(linalg *l, uint32_t i, uint32_t arg);
/* The call's results i, of int32: info and pivots are kept there. */
void linalg_info_at(linalg *l, uint32_t i);
void linalg_pivots_at(linalg *l, uint32_t i);
/* n elements of kind's, or NULL. */
void *linalg_work(linalg *l, int64_t n);
/* True while matrix i is to be worked on: of `n`. */
bool linalg_next(linalg *l, int64_t i, int64_t n);
/* Which matrix of argument `arg` (with `tail` dimensions each) stands beside number i of result 0
 * (of x_tail dimensions): batches are broadcast. */
int64_t linalg_beside(const linalg *l, uint32_t arg, int tail, int x_tail, int64_t i);
/* How many matrices of k columns (or rows, from the right) result 0 has. */
static inline int64_t linalg_n_solutions(const linalg *l, int64_t k)
{
  return l->rows && k ? call_out(l->c, 0)->n_elems / (l->rows * k) : 0;
}
/* Refuses, if `check`, what info says; else gives the results. */
rush_status linalg_close(linalg *l, bool check) RUSH_CHECKED;

/* Element n of memory of kind's. */
static inline void *linalg_at(const linalg *l, void *p, int64_t n)
{
  return (char *)p + (size_t)n * l->kind->item;
}
static inline void *linalg_matrix(const linalg *l, int64_t i)
{
  return linalg_at(l, l->a->data, i * l->rows * l->cols);
}

#endif
