/* ops/call/written.h -- the tensors that an operator writes to: what PyTorch demands of in-place
 * and out= arguments.
 *
 * Memory is compared by address: two storages may stand for the same bytes, where a host handed
 * over both. */
#ifndef RUSH_OPS_WRITTEN_H
#define RUSH_OPS_WRITTEN_H

#include "tensor/tensor.h"

/* One element of `out` must not be two. */
rush_status written_check_self(call_ctx *cx, const rush_tensor *out) RUSH_CHECKED;
/* `in` is read while `out` is written: they are the same elements, or share none.  Tensors with
 * gaps pass, as PyTorch does not look at them. */
rush_status written_check_input(call_ctx *cx, const rush_tensor *out,
                                const rush_tensor *in) RUSH_CHECKED;
/* `in` is read again after `out` was written: they share nothing. */
rush_status written_check_apart(call_ctx *cx, const rush_tensor *out,
                                const rush_tensor *in) RUSH_CHECKED;
/* May a result of dtype `from` be written to `out`?  `exactly`: only to the same dtype. */
rush_status written_check_dtype(call_ctx *cx, const rush_tensor *out, int from,
                                bool exactly) RUSH_CHECKED;
/* `out` gets the result's shape: an in-place one must have it; an empty out= is resized silently,
 * another with PyTorch's warning, and has the result's strides then (dense ones, or NULL:
 * row-major). */
rush_status written_fit(call_ctx *cx, rush_tensor *out, bool is_inplace, int n_dims,
                        const int64_t *sizes, const int64_t *strides) RUSH_CHECKED;

#endif
