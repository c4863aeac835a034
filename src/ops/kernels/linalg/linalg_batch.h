/* ops/kernels/linalg/linalg_batch.h -- batches of matrices in double or complex double, around
 * ops/math/linalg.h. */
#ifndef RUSH_OPS_LINALG_BATCH_H
#define RUSH_OPS_LINALG_BATCH_H

#include "ops/call/call.h"
#include "ops/math/linalg.h"

typedef struct batch {
  rush_tensor *t; /* contiguous copy in kind's dtype, owned */
  const linalg_kind *kind;
  int n_batch_dims;
  int64_t count, rows, cols; /* cols 1 and rows n for vectors */
  int dtype, real;           /* of the operator's argument; of norms and eigenvalues */
} batch;

static inline char *matrix_at(const rush_tensor *t, int64_t i, int64_t n_elems)
{
  return (char *)t->data + (size_t)(i * n_elems) * tensor_item_bytes(t);
}
static inline void *matrix(const batch *b, int64_t i)
{
  return matrix_at(b->t, i, b->rows * b->cols);
}

/* Refuse a tensor that is not a (square) matrix of floats or complex numbers. */
rush_status check_matrix(rush_call *c, const rush_tensor *t, bool square) RUSH_CHECKED;
/* Copy t, with its batch dimensions expanded to sizes[0..n_batch). */
rush_status batch_copy(rush_call *c, const rush_tensor *t, int n_batch, const int64_t *sizes,
                       batch *out) RUSH_CHECKED;
/* Copy and check an argument. */
rush_status batch_of(rush_call *c, uint32_t arg, bool square, batch *out) RUSH_CHECKED;
/* Make a tensor of `like`'s batch dimensions and the given trailing sizes. */
rush_status batch_new(rush_call *c, const batch *like, int n_tail, int64_t a, int64_t b, int dtype,
                      rush_tensor **out) RUSH_CHECKED;
/* Return t as result i, converted to `dtype`; steals t.  give_columns: column-major matrices, as
 * LAPACK leaves them, since programs see the strides. */
rush_status give(rush_call *c, uint32_t i, rush_tensor *t, int dtype) RUSH_CHECKED;
rush_status give_columns(rush_call *c, uint32_t i, rush_tensor *t, int dtype) RUSH_CHECKED;

/* Allocate scratch for n elements of the batch's kind. */
void *scratch(rush_call *c, const batch *b, int64_t n);
void scratch_free(rush_call *c, const batch *b, void *p, int64_t n);

#endif
