/* tensor/iter.h -- walking several strided tensors together.
 *
 * An iterator broadcasts up to ITER_MAX operands to common sizes, drops and merges dimensions where
 * all operands allow, sorts them so that the first operand's inner stride is smallest, and calls a
 * loop with byte strides.  Kernels see: n elements, one pointer and one byte stride per operand. */
#ifndef RUSH_TENSOR_ITER_H
#define RUSH_TENSOR_ITER_H

#include "tensor/tensor.h"

#define ITER_MAX 20
/* Strides that an iterator holds itself: three operands of any rank, or more of a lower one.
 * Iterators lie on the stack; room for ITER_MAX operands of TENSOR_MAX_DIMS dimensions would be 10
 * KB there. */
#define ITER_ROOM (3 * TENSOR_MAX_DIMS)

typedef struct tensor_iter {
  int n_ops, n_dims, pitch; /* pitch: from one operand's strides to the next's */
  int64_t n_elems;
  int64_t *far;             /* strides that do not fit into `near` (the caller's memory), or NULL */
  int64_t sizes[TENSOR_MAX_DIMS]; /* dim 0 is the innermost */
  int64_t near[ITER_ROOM];        /* strides in bytes: iter_strides */
  char *data[ITER_MAX];
} tensor_iter;

/* Strides of operand `op`, one per dimension, in bytes. */
static inline int64_t *iter_strides_mut(tensor_iter *it, int op)
{
  return (it->far ? it->far : it->near) + op * it->pitch;
}
static inline const int64_t *iter_strides(const tensor_iter *it, int op)
{
  return (it->far ? it->far : it->near) + op * it->pitch;
}
/* How many strides n_ops operands have: beyond ITER_ROOM iter_init_far has to be given memory for
 * them. */
static inline int iter_n_strides(int n_ops, int n_dims) { return n_ops * (n_dims ? n_dims : 1); }

/* Operand 0 and others; `sizes` are the common sizes (already broadcast).  Every operand must be
 * expandable to them.  No allocation, cannot fail. */
void iter_init(tensor_iter *it, int n_dims, const int64_t *sizes);
/* The same with memory of the caller's for iter_n_strides strides, which must outlive the iterator.
 * */
void iter_init_far(tensor_iter *it, int n_dims, const int64_t *sizes, int64_t *far);
void iter_add(tensor_iter *it, const rush_tensor *t);
void iter_finish(tensor_iter *it); /* reorder, coalesce */

/* After iter_finish: a short innermost dimension changes places with a long one, so that the loop
 * is called less often; for loops that do not care about the order of elements. */
void iter_widen(tensor_iter *it);
/* Strides (in elements) of a dense tensor of the iterator's sizes whose dimensions are ordered as
 * the operands' are: what TensorIterator gives a result it makes.  Between iter_add and
 * iter_finish. */
void iter_layout(const tensor_iter *it, int64_t *strides);

/* fn(arg, n, ptrs, strides): n elements along the innermost dimension. */
typedef void iter_loop(void *arg, int64_t n, char *const *ptrs, const int64_t *strides);
/* Runs fn over everything, in parallel when n_elems is large (`grain` elements a chunk). */
rush_status iter_run(call_ctx *cx, const tensor_iter *it, int64_t grain, iter_loop *fn,
                     void *arg) RUSH_CHECKED;

/* Broadcast two shapes; false when they do not fit.  out may be a. */
bool sizes_broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n_out, int64_t *out);

#endif
