/* tensor/sparse.h -- sparse tensors: coordinates (COO) and compressed rows (CSR).
 *
 * A sparse tensor is a rush_tensor whose header looks like a zero that is expanded to the tensor's
 * sizes (one zero in a small storage of its own, all strides 0), and whose elements are other
 * tensors, in extra->sparse.  So sizes, dtype and flags are asked of it as of any tensor, and code
 * that knows nothing of sparse tensors may read its memory without harm.  It would compute with
 * zeros, though, which is wrong: op_call refuses sparse arguments to every operator whose entry
 * does not take them, and what copies, views or prints tensors in tensor/ knows them.  A header
 * with sizes [0] was rejected: size questions would need a second path.
 *
 * Invariants.  (1) COO: indices are int64 [sparse_dim, nnz], contiguous, each inside its size;
 * values are [nnz, dense sizes...]. (2) CSR: crow is [batch..., rows + 1], indices (the columns)
 * are [batch..., nnz], both int32 or int64 and contiguous; crow starts with 0, never falls, ends
 * with nnz; columns are inside their size; values are [batch..., nnz, dense sizes...]. (3) Nobody
 * writes to indices: they are copies of what the caller gave, on storages marked read-only, and
 * tensors share them. (4) is_coalesced: the coordinates are sorted in row-major order, and
 * distinct; so are fewer than 2.  A CSR's columns need not be.
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
/* How many elements a tensor of CSR has before its rows, and their number of dimensions. */
static inline int sparse_batch_dims(const sparse_parts *p)
{
  return p->layout == LAYOUT_CSR ? p->indices->n_dims - 1 : 0;
}
static inline int64_t sparse_nnz(const sparse_parts *p)
{
  return p->indices->sizes[p->indices->n_dims - 1];
}

/* A sparse tensor of p's parts, which are valid (of another sparse tensor, or made by a kernel):
 * they are retained. */
rush_status sparse_new(call_ctx *cx, const sparse_parts *p, int n_dims, const int64_t *sizes,
                       rush_tensor **out) RUSH_CHECKED;
/* The same of parts that may be anything: checked, with PyTorch's words; indices are copied. */
rush_status sparse_new_checked(call_ctx *cx, const sparse_parts *p, int n_dims,
                               const int64_t *sizes, rush_tensor **out) RUSH_CHECKED;
/* t's sizes and indices with other values: [nnz, ...], retained. */
rush_status sparse_with_values(call_ctx *cx, const rush_tensor *t, rush_tensor *values,
                               rush_tensor **out) RUSH_CHECKED;
/* A new header on the same parts; what is written to t in place later does not reach it. */
rush_status sparse_alias(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;
/* Make t, of the same sizes and layout, what `from` is; t keeps its dtype. */
rush_status sparse_assign(call_ctx *cx, rush_tensor *t, const rush_tensor *from) RUSH_CHECKED;
/* Only _coalesced_: the flag as the caller says, if it is true of the indices. */
rush_status sparse_set_coalesced(call_ctx *cx, rush_tensor *t, bool on) RUSH_CHECKED;
void sparse_parts_free(context *c, sparse_parts *p);
/* Refuse what only a tensor with memory for all its elements can do. */
rush_status sparse_refuse(call_ctx *cx, const rush_tensor *t, const char *what);
/* "Strided", "Sparse" or "SparseCsr", as PyTorch's messages call it. */
const char *tensor_layout_word(const rush_tensor *t);

#endif
