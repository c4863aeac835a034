/* ops/kernels/index/index.h -- shared by operators with index tensors. */
#ifndef RUSH_OPS_INDEX_H
#define RUSH_OPS_INDEX_H

#include "ops/call/results.h"
#include "ops/kernels/views.h"
#include "ops/kernels/index_walk.h"

/* Find the positions of nonzero elements: (n, n_dims) of int64, one column per dimension (strides
 * 1, n). */
rush_status tensor_nonzero(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Copy self into the result; an in-place form's result is self already.  With `apart`, refuse to
 * write to a self whose elements share memory. */
rush_status call_target(rush_call *c, bool apart) RUSH_CHECKED;
/* Wrap argument 1, a dimension of argument 0 that the shape rule has checked. */
static inline int index_dim(const rush_call *c)
{
  const int64_t dim = call_int(c, 1);
  return (int)(dim < 0 ? dim + i64_max(call_tensor(c, 0)->n_dims, 1) : dim);
}

/* Compute target[index[i]] (combine)= source[i] along the dimension; a 0-dim source is one number
 * for all. */
rush_status index_spread_rows(rush_call *c, rush_tensor *target, int dim, rush_tensor *index,
                              rush_tensor *source, combine_fn *combine) RUSH_CHECKED;

#endif
