/* ops/kernels/sparse/sparse.h -- the border between sparse tensors (tensor/sparse.h) and operators,
 * and what the kernels beyond it share.
 *
 * An operator takes sparse arguments where its entry has the key `sparse`: a kernel for calls with
 * at least one of them, or True where its own kernel knows them.  op_call asks here before any
 * kernel runs; composites, in-place and out= forms are asked for the operators that they run.
 * Everything else is refused with PyTorch's class and words.  Contexts that never made one pay one
 * test a call.
 *
 * Kernels compute with the parts as dense tensors, by operators of the table; loops of their own
 * look at the deadline. */
#ifndef RUSH_OPS_SPARSE_H
#define RUSH_OPS_SPARSE_H

#include "ops/call/call.h"
#include "tensor/sparse.h"

/* Run a call with the sparse argument `first`: by its entry's kernel, by `taken`, or refuse it. */
rush_status sparse_call(rush_call *c, const rush_tensor *first,
                        rush_status (*taken)(rush_call *c)) RUSH_CHECKED;
/* Refuse a call as PyTorch does for a backend that lacks the operator. */
rush_status sparse_refuse_call(const rush_call *c, const rush_tensor *t);

/* -- For kernels: *out is new ------------------------------------------------------------------ */

typedef struct sparse_shape {
  int n_dims, sparse_dim;
  const int64_t *sizes;
} sparse_shape;

/* A COO tensor of indices and values that a kernel made; both are stolen, and may be NULL after a
 * failure `st`, which is returned. */
rush_status coo_new_steal(call_ctx *cx, rush_status st, sparse_shape shape, rush_tensor *indices,
                          rush_tensor *values, bool is_coalesced, rush_tensor **out) RUSH_CHECKED;
/* Without elements. */
rush_status coo_new_empty(call_ctx *cx, int dtype, sparse_shape shape,
                          rush_tensor **out) RUSH_CHECKED;
static inline sparse_shape shape_of_sparse(const rush_tensor *t)
{
  return (sparse_shape){t->n_dims, tensor_sparse(t)->sparse_dim, t->sizes};
}
/* Indices [n_rows, nnz] to be filled in; nobody writes to them afterwards. */
rush_status coo_new_indices(call_ctx *cx, int64_t n_rows, int64_t nnz,
                            rush_tensor **out) RUSH_CHECKED;
/* t, or the COO tensor of a CSR one without batches. */
rush_status sparse_to_coo(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* The CSR tensor of a COO one of two sparse dimensions, with int64 indices. */
rush_status sparse_to_csr(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Of a COO tensor: sorted, without duplicates; t itself where it is. */
rush_status coo_coalesce(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
rush_status sparse_to_dense(call_ctx *cx, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Of a dense tensor: the elements of its first sparse_dim dimensions that are not zero. */
rush_status dense_to_coo(call_ctx *cx, rush_tensor *t, int sparse_dim,
                         rush_tensor **out) RUSH_CHECKED;
/* int64 [nnz]: where the element of each coordinate stands, row-major, among the sparse dimensions
 * `dims[n]`. */
rush_status coo_positions(call_ctx *cx, const rush_tensor *t, const int *dims, int n,
                          rush_tensor **out) RUSH_CHECKED;
/* The same of all sparse dimensions. */
rush_status coo_all_positions(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* int64 [size + 1] of sparse dimension dim: how many elements have a coordinate below i; where row
 * i of sorted ones begins. */
rush_status coo_starts(call_ctx *cx, const rush_tensor *t, int dim, rush_tensor **out) RUSH_CHECKED;
/* zeros[n, rows of values...] with row k of values added to row at[k]. */
rush_status sum_rows(call_ctx *cx, rush_tensor *values, rush_tensor *at, int64_t n,
                     rush_tensor **out) RUSH_CHECKED;
/* Rows `at` of values. */
rush_status pick_rows(call_ctx *cx, rush_tensor *values, rush_tensor *at,
                      rush_tensor **out) RUSH_CHECKED;
/* t's rows for what follows: [sizes...] as another shape, without a copy where that can be. */
rush_status reshaped(call_ctx *cx, rush_tensor *t, int n_dims, const int64_t *sizes,
                     rush_tensor **out) RUSH_CHECKED;
/* One result of an operator of the table. */
rush_status apply(call_ctx *cx, const char *name, const char *overload, const rush_value *args,
                  uint32_t n_args, rush_tensor **out) RUSH_CHECKED;
/* As `dtype`; t itself where it is. */
rush_status as_dtype(call_ctx *cx, rush_tensor *t, int dtype, rush_tensor **out) RUSH_CHECKED;
static inline rush_value tensor_value(rush_tensor *t)
{
  return (rush_value){.tag = RUSH_TAG_TENSOR, .as.tensor = t};
}
/* Refuse a tensor of another layout: "coalesce expected sparse coordinate tensor layout but got
 * Strided". */
rush_status need_coo(call_ctx *cx, const rush_tensor *t, const char *what) RUSH_CHECKED;

#endif
