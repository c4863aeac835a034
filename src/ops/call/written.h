/* ops/call/written.h -- checks of the tensors that an operator writes to: PyTorch's rules for
 * in-place and out= arguments.
 *
 * Memory is compared by address: two storages may be the same bytes, if a host wrapped both. */
#ifndef RUSH_OPS_WRITTEN_H
#define RUSH_OPS_WRITTEN_H

#include "tensor/tensor.h"

/* Check that no two elements of `out` are the same memory. */
rush_status written_check_self(call_ctx *cx, const rush_tensor *out) RUSH_CHECKED;
/* Check `in`, which is read while `out` is written: they must be the same elements, or share none.
 * Tensors with gaps pass, as PyTorch does not check them. */
rush_status written_check_input(call_ctx *cx, const rush_tensor *out,
                                const rush_tensor *in) RUSH_CHECKED;
/* Check `in`, which is read again after `out` was written: they must share nothing. */
rush_status written_check_apart(call_ctx *cx, const rush_tensor *out,
                                const rush_tensor *in) RUSH_CHECKED;
/* Check that a result of dtype `from` may be written to `out`.  `exactly`: only to the same
 * dtype. */
rush_status written_check_dtype(call_ctx *cx, const rush_tensor *out, int from,
                                bool exactly) RUSH_CHECKED;
/* Resize `out` to the result's shape: an in-place one must have it; an empty out= is resized
 * silently, another with PyTorch's warning, and then gets the result's strides (dense ones, or
 * NULL: row-major). */
rush_status written_fit(call_ctx *cx, rush_tensor *out, bool is_inplace, int n_dims,
                        const int64_t *sizes, const int64_t *strides) RUSH_CHECKED;

#endif
