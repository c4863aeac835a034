/* autograd/backward.h -- gradients of outputs: records walked from the outputs to the inputs.
 *
 * Three steps: find the records between outputs and inputs (a depth-first walk on a stack of its
 * own), count for each how many records give it a gradient, and run their formulas, each when all
 * of its gradients came.  A gradient that never came is undefined, and what only undefined ones
 * lead to stays undefined: None.
 *
 * Inside of a program's call (aten::backward) its recorder's host gets what belongs to its own
 * leaves. With create_graph the formulas are recorded, on what was saved as it was: its gradients
 * can be taken again. Cost: O(records + edges) beside the formulas.  Threads: one run at a time
 * over the same records. */
#ifndef RUSH_AUTOGRAD_BACKWARD_H
#define RUSH_AUTOGRAD_BACKWARD_H

#include "autograd/record.h"

typedef struct grad_request {
  rush_tensor *const *outputs, *const *grads; /* grads[i] NULL: ones, for a single element */
  size_t n_outputs;
  rush_tensor *const
    *inputs; /* n_inputs 0: all leaves, whose gradients accumulate (grad_meta.grad) */
  size_t n_inputs;
  bool create_graph, retain_graph, allow_unused;
} grad_request;

/* results[n_inputs], new: the gradients; None (allow_unused) where the outputs do not depend on an
 * input. */
rush_status grad_run(call_ctx *cx, const grad_request *q, rush_value *results) RUSH_CHECKED;
/* The leaves that the tensors' gradients would reach and that are still there: a list of tensors,
 * new. */
rush_status grad_leaves(call_ctx *cx, rush_tensor *const *tensors, size_t n,
                        rush_value *out) RUSH_CHECKED;

#endif
