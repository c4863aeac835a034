/* ops/kernels/nested/nested.h -- nested tensors: a batch of parts that differ in their first size.
 *
 * A nested tensor is the tensor of all parts' rows, one after the other ([total, ...]), marked with
 * the parts' sizes: extra->nested, an int64 tensor [n_parts, n_dims of a part].  Its dim() is one
 * more than that of the rows.  Parts that differ in another size are not supported.
 *
 * Operators know what they get: a context that never made one pays one test a call.  Those marked
 * "nested" in the table take care themselves; pointwise ones and those marked "nested_rows" work on
 * the rows, and their result is marked again; every other one refuses (op_call). */
#ifndef RUSH_OPS_NESTED_H
#define RUSH_OPS_NESTED_H

#include "ops/call/call.h"

/* Sizes of the parts, borrowed, or NULL. */
static inline rush_tensor *tensor_nested(const rush_tensor *t)
{
  return t->extra ? t->extra->nested : NULL;
}
/* Mark `t`, the rows, which must be contiguous. */
rush_status nested_mark(call_ctx *cx, rush_tensor *t, rush_tensor *sizes) RUSH_CHECKED;
/* Run `dispatch` for a call that has a nested argument. */
rush_status nested_call(rush_call *c, rush_status (*dispatch)(rush_call *c)) RUSH_CHECKED;

#endif
