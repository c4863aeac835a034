/* tensor/sparse.h -- sparse tensors: coordinates (COO) and compressed rows (CSR).
 *
 * A sparse tensor is a rush_tensor whose header looks like a zero expanded to the tensor's sizes
 * (one zero in a small storage of its own, all strides 0), and whose elements are other tensors, in
 * extra->sparse.  Sizes, dtype and flags are therefore read as from any tensor, and code without
 * support for sparse tensors can read its memory safely.  It would compute with zeros, though,
 * which is wrong: op_call refuses sparse arguments to every operator whose entry does not allow
 * them, and the functions of tensor/ that copy, view or print tensors handle them.  Rejected: a
 * header with sizes [0], since reading sizes would need a second path.
 *
 * Invariants.  (1) COO: indices are int64 [sparse_dim, nnz], contiguous, each within its size;
 * values are [nnz, dense sizes...]. (2) CSR: crow is [batch..., rows + 1], indices (the columns)
 * are [batch..., nnz], both int32 or int64 and contiguous; crow starts with 0, never decreases, and
 * ends with nnz; columns are within their size; values are [batch..., nnz, dense sizes...]. (3)
 * Indices are never written to: they are copies of the caller's, in storages marked read-only, and
 * shared by tensors. (4) is_coalesced: the coordinates are sorted in row-major order and distinct;
 * fewer than 2 always are.  The columns of a CSR need not be.
 *
 * Ownership: the tensor owns its parts.  Threads: as for tensors; indices are immutable. */
#ifndef RUSH_TENSOR_SPARSE_H
#define RUSH_TENSOR_SPARSE_H

#include "tensor/tensor.h"

typedef enum sparse_layout {
  LAYOUT_STRIDED = 0,
  LAYOUT_COO = 1,
  LAYOUT_CSR = 2
} sparse_layout; /* PyTorch's numbers */

struct sparse_parts {
  uint8_t layout;     /* LAYOUT_COO, LAYOUT_CSR */
  bool is_coalesced;  /* COO */
  int sparse_dim;     /* COO: rows of indices; CSR: 2 */
  rush_tensor *crow;  /* CSR, else NULL */
  rush_tensor *indices;
  rush_tensor *values;
};

static inline const sparse_parts *tensor_sparse(const rush_tensor *t)
{
  return UNLIKELY(t->extra != NULL) ? t->extra->sparse : NULL;
}
static inline int tensor_layout(const rush_tensor *t)
{
  return tensor_sparse(t) ? tensor_sparse(t)->layout : LAYOUT_STRIDED;
}
/* Return the number of dimensions of a CSR tensor before its rows. */
static inline int sparse_batch_dims(const sparse_parts *p)
{
  return p->layout == LAYOUT_CSR ? p->indices->n_dims - 1 : 0;
}
static inline int64_t sparse_nnz(const sparse_parts *p)
{
  return p->indices->sizes[p->indices->n_dims - 1];
}

/* Make a sparse tensor from valid parts (of another sparse tensor, or made by a kernel), which are
 * retained. */
rush_status sparse_new(call_ctx *cx, const sparse_parts *p, int n_dims, const int64_t *sizes,
                       rush_tensor **out) RUSH_CHECKED;
/* Like sparse_new for unchecked parts: checks them, with PyTorch's messages, and copies indices. */
rush_status sparse_new_checked(call_ctx *cx, const sparse_parts *p, int n_dims,
                               const int64_t *sizes, rush_tensor **out) RUSH_CHECKED;
/* Make a tensor with t's sizes and indices and other values: [nnz, ...], retained. */
rush_status sparse_with_values(call_ctx *cx, const rush_tensor *t, rush_tensor *values,
                               rush_tensor **out) RUSH_CHECKED;
/* Make a new header on the same parts; later in-place changes of t do not affect it. */
rush_status sparse_alias(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Copy the content of `from` to t, which has the same sizes and layout; t keeps its dtype. */
rush_status sparse_assign(call_ctx *cx, rush_tensor *t, const rush_tensor *from) RUSH_CHECKED;
/* Set the flag is_coalesced, for _coalesced_ only, if the indices agree. */
rush_status sparse_set_coalesced(call_ctx *cx, rush_tensor *t, bool on) RUSH_CHECKED;
void sparse_parts_free(context *c, sparse_parts *p);
/* Refuse an operation that needs memory for all elements. */
rush_status sparse_refuse(call_ctx *cx, const rush_tensor *t, const char *what);
/* Return "Strided", "Sparse" or "SparseCsr", as in PyTorch's messages. */
const char *tensor_layout_word(const rush_tensor *t);

#endif
