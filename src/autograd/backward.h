/* autograd/backward.h -- gradients of outputs: visits records from the outputs to the inputs.
 *
 * Three steps: find the records between outputs and inputs (a depth-first walk with its own stack),
 * count for each how many records contribute to its gradient, and run its formulas when all
 * contributions have arrived; of several, those of the record that was made last.  A gradient
 * without contributions is undefined, and so is what depends only on undefined ones: None.
 *
 * Inside a program's call (aten::backward) the gradients of leaves that the recorder's host owns
 * are passed to the host. With create_graph the formulas are recorded, on the saved values with
 * their history: gradients can be taken again. Cost: O(records + edges) besides the formulas.
 * Threads: one run at a time over the same records. */
#ifndef RUSH_AUTOGRAD_BACKWARD_H
#define RUSH_AUTOGRAD_BACKWARD_H

#include "autograd/record.h"

typedef struct grad_request {
  /* grads[i] NULL: ones, for an output with one element */
  rush_tensor *const *outputs, *const *grads;
  size_t n_outputs;
  rush_tensor *const
    *inputs; /* n_inputs 0: all leaves, whose gradients accumulate (grad_meta.grad) */
  size_t n_inputs;
  bool create_graph, retain_graph, allow_unused;
} grad_request;

/* Compute results[n_inputs], new: the gradients; None (allow_unused) if the outputs do not depend
 * on an input. */
rush_status grad_run(call_ctx *cx, const grad_request *q, rush_value *results) RUSH_CHECKED;
/* List the leaves that still exist and that the tensors' gradients would reach: a list of tensors,
 * new. */
rush_status grad_leaves(call_ctx *cx, rush_tensor *const *tensors, size_t n,
                        rush_value *out) RUSH_CHECKED;

#endif
