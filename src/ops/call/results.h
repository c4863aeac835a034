/* ops/call/results.h -- results that the call path makes: by the shape rule of an operator's entry
 * (the table's key `results`), in memory of its own or of a dying argument (the key `reuse`). */
#ifndef RUSH_OPS_RESULTS_H
#define RUSH_OPS_RESULTS_H

#include "ops/call/call.h"

/* The kernel of an entry with results="rule": makes results by the rule, then runs op->compute if
 * some of them are uninitialised memory.  Entries without a kernel are views, copies of views
 * (OP_COPIES), and views that become copies if the strides allow no view.  On failure call->results
 * may hold some of the results; op_call drops them. */
rush_kernel call_by_rule;

/* Make memory for result `i`, uninitialised: the buffer of a dying argument where the entry's key
 * `reuse` allows it and one fits, else new.  `strides`: dense ones, or NULL: row-major. */
rush_status call_new_result(rush_call *c, uint32_t i, int dtype, int n_dims, const int64_t *sizes,
                            const int64_t *strides, rush_tensor **out) RUSH_CHECKED;
/* Do the same for a geometry that was checked before. */
rush_status call_planned_result(rush_call *c, uint32_t i, const tensor_plan *p,
                                rush_tensor **out) RUSH_CHECKED;
/* Make a row-major copy of t, quantized as t is. */
rush_status tensor_copy_rows(call_ctx *cx, const rush_tensor *t, rush_tensor **out) RUSH_CHECKED;

#endif
