/* ops/kernels/sparse/sparse.h -- the interface between sparse tensors (tensor/sparse.h) and
 * operators, and functions that sparse kernels share.
 *
 * An operator accepts sparse arguments if its entry has the key `sparse`: a kernel for calls with
 * at least one of them, or True if its own kernel handles them.  op_call calls sparse_call before
 * any kernel runs; composites, in-place and out= forms are checked for the operators that they run.
 * Everything else is refused with PyTorch's class and message.  Contexts without sparse tensors pay
 * one test per call.
 *
 * Kernels compute with the parts as dense tensors, by operators of the table; their own loops poll
 * the deadline. */
#ifndef RUSH_OPS_SPARSE_H
#define RUSH_OPS_SPARSE_H

#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"
#include "tensor/sparse.h"

/* Run a call with the sparse argument `first`: by its entry's kernel, by `taken`, or refuse it. */
rush_status sparse_call(rush_call *c, const rush_tensor *first,
                        rush_status (*taken)(rush_call *c)) RUSH_CHECKED;
/* Refuse a call as PyTorch does for a backend without the operator. */
rush_status sparse_refuse_call(const rush_call *c, const rush_tensor *t);

/* -- For kernels: *out is new ------------------------------------------------------------------ */

typedef struct sparse_shape {
  int n_dims, sparse_dim;
  const int64_t *sizes;
} sparse_shape;

/* Make a COO tensor of indices and values, both retained. */
rush_status coo_new(call_ctx *cx, sparse_shape shape, rush_tensor *indices, rush_tensor *values,
                    bool is_coalesced, rush_tensor **out) RUSH_CHECKED;
/* Make a COO tensor without elements. */
rush_status coo_new_empty(call_ctx *cx, int dtype, sparse_shape shape,
                          rush_tensor **out) RUSH_CHECKED;
static inline sparse_shape shape_of_sparse(const rush_tensor *t)
{
  return (sparse_shape){t->n_dims, tensor_sparse(t)->sparse_dim, t->sizes};
}
/* Make indices [n_rows, nnz] to be filled in; they are read-only afterwards. */
rush_status coo_new_indices(call_ctx *cx, int64_t n_rows, int64_t nnz,
                            rush_tensor **out) RUSH_CHECKED;
/* Return t, or the COO tensor of a CSR one without batches. */
rush_status sparse_to_coo(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Convert a COO tensor of two sparse dimensions to CSR, with int64 indices. */
rush_status sparse_to_csr(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Coalesce a COO tensor: sorted, without duplicates; t itself if it is coalesced. */
rush_status coo_coalesce(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
rush_status sparse_to_dense(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Convert a dense tensor: the nonzero elements of its first sparse_dim dimensions. */
rush_status dense_to_coo(call_ctx *cx, rush_tensor *t, int sparse_dim,
                         rush_tensor **out) RUSH_CHECKED;
/* Compute int64 [nnz]: the row-major position of each coordinate among the sparse dimensions
 * `dims[n]`. */
rush_status coo_positions(call_ctx *cx, const rush_tensor *t, const int *dims, int n,
                          rush_tensor **out) RUSH_CHECKED;
/* Compute positions among all sparse dimensions. */
rush_status coo_all_positions(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Compute int64 [size + 1] for sparse dimension dim: how many elements have a coordinate below i;
 * if sorted, the start of row i. */
rush_status coo_starts(call_ctx *cx, const rush_tensor *t, int dim, rush_tensor **out) RUSH_CHECKED;
/* Compute zeros[n, rows of values...] with row k of values added to row at[k]. */
rush_status sum_rows(call_ctx *cx, rush_tensor *values, rush_tensor *at, int64_t n,
                     rush_tensor **out) RUSH_CHECKED;
/* Get rows `at` of values. */
rush_status pick_rows(call_ctx *cx, rush_tensor *values, rush_tensor *at,
                      rush_tensor **out) RUSH_CHECKED;
/* Reshape t, without a copy if possible. */
rush_status reshaped(call_ctx *cx, rush_tensor *t, int n_dims, const int64_t *sizes,
                     rush_tensor **out) RUSH_CHECKED;
/* Convert to `dtype`; t itself if it has it. */
rush_status as_dtype(call_ctx *cx, rush_tensor *t, int dtype, rush_tensor **out) RUSH_CHECKED;
/* Refuse a tensor of another layout: "coalesce expected sparse coordinate tensor layout but got
 * Strided". */
rush_status need_coo(call_ctx *cx, const rush_tensor *t, const char *what) RUSH_CHECKED;

#endif
