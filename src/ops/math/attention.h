/* ops/math/attention.h -- softmax(scale * Q K' + mask) V on raw memory.
 *
 * Per batch and head: blocks of queries, so that the scores of a block stay in the cache.  float32
 * and float64.  Rows are contiguous in their last dimension or have the given stride. */
#ifndef RUSH_OPS_ATTENTION_H
#define RUSH_OPS_ATTENTION_H

#include "base/context.h"

typedef struct attention_operand {
  const void *data;
  int64_t batch, head, row, col; /* strides, elements; 0 broadcasts */
} attention_operand;

typedef struct attention_args {
  int dtype;
  int64_t n_batch, n_heads, n_queries, n_keys, dim, value_dim;
  attention_operand q, k, v, mask; /* mask.data NULL: none */
  bool mask_is_bool;               /* true keeps, false becomes -inf */
  bool mask_hides;                 /* a bool mask with the opposite meaning: true becomes -inf */
  bool hidden_is_nan;              /* the result for a row without visible keys: NaN, not 0 */
  bool causal;                     /* query i sees keys 0..i */
  double scale;
  void *out;                       /* [batch, head, query, value_dim], the last dense */
  int64_t out_batch, out_head, out_row; /* its strides */
  void *weights; /* NULL, or the weights: [batch, head, query, key], the last dense */
  int64_t weights_batch, weights_head, weights_row;
  void *lse; /* NULL, or the logarithms of the sums, [batch, query, head] dense */
  int64_t kv_group;                /* heads of q per head of k and v, at least 1 */
} attention_args;

/* Compute attention.  A row without visible keys, all hidden by `causal` or a mask, becomes zeros
 * (as in PyTorch's safe softmax). */
rush_status attention(call_ctx *cx, const attention_args *a) RUSH_CHECKED;

#endif
