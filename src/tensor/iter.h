/* tensor/iter.h -- iterating over several strided tensors together.
 *
 * An iterator broadcasts up to ITER_MAX operands to common sizes, drops and merges dimensions where
 * all operands allow, sorts them so that the first operand's inner stride is smallest, and calls a
 * loop with byte strides.  A loop sees n elements, with one pointer and one byte stride per
 * operand. */
#ifndef RUSH_TENSOR_ITER_H
#define RUSH_TENSOR_ITER_H

#include "tensor/tensor.h"

#define ITER_MAX 20
/* Strides stored in the iterator: three operands of any rank, or more of a lower rank. Iterators
 * are on the stack; room for ITER_MAX operands of TENSOR_MAX_DIMS dimensions would take 10 KB. */
#define ITER_ROOM (3 * TENSOR_MAX_DIMS)

typedef struct tensor_iter {
  int n_ops, n_dims, pitch; /* pitch: distance between the strides of two operands */
  int64_t n_elems;
  int64_t *far; /* strides that do not fit into `near` (in the caller's memory), or NULL */
  int64_t sizes[TENSOR_MAX_DIMS]; /* dim 0 is the innermost */
  int64_t near[ITER_ROOM];        /* strides in bytes; see iter_strides */
  char *data[ITER_MAX];
} tensor_iter;

/* Return the strides of operand `op`, one per dimension, in bytes. */
static inline int64_t *iter_strides_mut(tensor_iter *it, int op)
{
  return (it->far ? it->far : it->near) + op * it->pitch;
}
static inline const int64_t *iter_strides(const tensor_iter *it, int op)
{
  return (it->far ? it->far : it->near) + op * it->pitch;
}
/* Return the number of strides of n_ops operands; beyond ITER_ROOM use iter_init_far with memory
 * for them. */
static inline int iter_n_strides(int n_ops, int n_dims) { return n_ops * (n_dims ? n_dims : 1); }

/* Begin; `sizes` are the common sizes (already broadcast), and every operand must be expandable to
 * them.  No allocation, cannot fail. */
void iter_init(tensor_iter *it, int n_dims, const int64_t *sizes);
/* Like iter_init, with the caller's memory for iter_n_strides strides, which must outlive the
 * iterator. */
void iter_init_far(tensor_iter *it, int n_dims, const int64_t *sizes, int64_t *far);
void iter_add(tensor_iter *it, const rush_tensor *t);
void iter_finish(tensor_iter *it); /* reorders and merges dimensions */

/* After iter_finish: swap a short innermost dimension with a long one, so that the loop is called
 * less often; for loops that do not depend on the order of elements. */
void iter_widen(tensor_iter *it);
/* Compute the strides (in elements) of a dense tensor of the iterator's sizes whose dimensions are
 * ordered like the operands': the layout that TensorIterator chooses for a new result.  Call it
 * between iter_add and iter_finish. */
void iter_layout(const tensor_iter *it, int64_t *strides);

/* Process n elements along the innermost dimension. */
typedef void iter_loop(void *arg, int64_t n, char *const *ptrs, const int64_t *strides);
/* Run fn over everything, in parallel if there are many elements (`grain` elements per chunk). */
rush_status iter_run(call_ctx *cx, const tensor_iter *it, int64_t grain, iter_loop *fn,
                     void *arg) RUSH_CHECKED;

/* Broadcast two shapes; returns false if they do not match.  out may be a. */
bool sizes_broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n_out, int64_t *out);

#endif
