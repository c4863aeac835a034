/* run/outputs.h -- results of a call in tensors of the caller's.
 *
 * A result has leaves: the items of its tuples, in order.  For some of them the caller passes
 * buffers. Emission marks the operators whose only use is to be a leaf of their function's result
 * (OPERATOR_OUT, CALL_OUT); while such an operator runs for the outer call's own result, the first
 * new tensor of the buffer's dtype and sizes uses the buffer's memory (call_ctx.place), and mostly
 * that is its result.  At the call's end outputs_finish checks every leaf: one that is not in its
 * buffer is copied there.  So correctness does not depend on where a kernel puts its results.
 *
 * Operators do not write to buffers that share memory with an argument: these are copied at the
 * end, when nothing is read any more.  Buffers that share memory with each other, with the module's
 * state or with constants are refused.
 *
 * Rejected: out= variants of operators (few kernels have them, groups have none), and buffers in
 * the frame's registers (an error would leave a register half written).  Cost: other calls pay one
 * test in tensor_new. */
#ifndef RUSH_RUN_OUTPUTS_H
#define RUSH_RUN_OUTPUTS_H

#include "run/code.h"

typedef struct output_buffers output_buffers;
struct output_buffers {
  rush_tensor **wanted; /* by leaf: n, NULL if there is no buffer; borrowed from the caller */
  rush_tensor **direct; /* the same, without those that operators must not write to */
  bool *copied;         /* n: out */
  bool *report;         /* the caller's array for `copied`, or NULL */
  uint32_t n;
  bool shares_argument; /* some buffer shares memory with an argument */
};

/* Fill *o from buffers[n], tensors or None.  RUSH_EARGUMENT: one is read-only, or shares memory
 * with another. */
rush_status outputs_begin(call_ctx *cx, output_buffers *o, const rush_value *buffers,
                          size_t n) RUSH_CHECKED;
void outputs_end(call_ctx *cx, output_buffers *o);
/* Find buffers that share memory with arguments: operators do not write to these. */
void outputs_see_arguments(output_buffers *o, const rush_value *args, uint32_t n_args,
                           const named_arg *kwargs, uint32_t n_kwargs);
/* Fail with RUSH_EARGUMENT if buffers share memory with an object's attributes or a program's
 * constants. */
rush_status outputs_check_state(call_ctx *cx, const output_buffers *o, const program *p,
                                rush_value object) RUSH_CHECKED;
/* Put the leaves into their buffers: *leaves[i] becomes its buffer.  RUSH_EARGUMENT: one has
 * another dtype or geometry. */
rush_status outputs_finish(call_ctx *cx, output_buffers *o, rush_value *const *leaves,
                           uint32_t n_leaves) RUSH_CHECKED;
/* Like outputs_finish, for a whole result, whose tuples are copied. */
rush_status outputs_finish_result(call_ctx *cx, output_buffers *o, rush_value *result) RUSH_CHECKED;

#endif
