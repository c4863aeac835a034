/* ops/kernels/index/index.h -- shared by operators with index tensors. */
#ifndef RUSH_OPS_INDEX_H
#define RUSH_OPS_INDEX_H

#include "ops/kernels/views.h"
#include "ops/kernels/index_walk.h"

/* Find the positions of nonzero elements: (n, n_dims) of int64, one column per dimension (strides
 * 1, n). */
rush_status tensor_nonzero(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Get the tensor to write to: args[0] itself for the in-place form (retained), else a copy of
 * it. */
rush_status call_target(rush_call *c, bool contiguous, rush_tensor **out) RUSH_CHECKED;

/* Check arguments of index_add_ and index_reduce_, named by `name`. */
rush_status index_check_rows(rush_call *c, const char *name, const rush_tensor *self, int dim,
                             const rush_tensor *index, const rush_tensor *source) RUSH_CHECKED;
/* Compute target[index[i]] (combine)= source[i] along the dimension; a 0-dim source is one number
 * for all. */
rush_status index_spread_rows(rush_call *c, rush_tensor *target, int dim, rush_tensor *index,
                              rush_tensor *source, combine_fn *combine) RUSH_CHECKED;

#endif
