/* ops/kernels/nested/nested.h -- nested tensors: a batch of parts that differ in their first size.
 *
 * A nested tensor is the tensor of all parts' rows, one after the other ([total, ...]), with the
 * parts' sizes attached: extra->nested, an int64 tensor [n_parts, n_dims of a part].  Its dim() is
 * one more than that of the rows.  Parts that differ in another size are not supported.
 *
 * A context without nested tensors pays one test per call.  Operators marked "nested" in the table
 * handle them; pointwise ones and those marked "nested_rows" work on the rows, and their result
 * becomes nested again; op_call refuses every other operator. */
#ifndef RUSH_OPS_NESTED_H
#define RUSH_OPS_NESTED_H

#include "ops/call/call.h"

/* Return sizes of the parts, borrowed, or NULL. */
static inline rush_tensor *tensor_nested(const rush_tensor *t)
{
  return t->extra ? t->extra->nested : NULL;
}
/* Make `t`, the rows, which must be contiguous, a nested tensor. */
rush_status nested_mark(call_ctx *cx, rush_tensor *t, rush_tensor *sizes) RUSH_CHECKED;
/* Run `dispatch` for a call that has a nested argument. */
rush_status nested_call(rush_call *c, rush_status (*dispatch)(rush_call *c)) RUSH_CHECKED;

#endif
