/* ops/kernels/optim.h -- one step of an optimizer on tensors.
 *
 * All parameters of a step are one loop over blocks of elements (math/optim.h), which threads
 * share: many small parameters and few large ones cost the same.  The operators
 * _fused_sgd_, _fused_adam_ ... and the optimizers of module/optimizer.h call it. */
#ifndef RUSH_OPS_KERNELS_OPTIM_H
#define RUSH_OPS_KERNELS_OPTIM_H

#include "ops/call/call.h"
#include "ops/math/optim.h"

/* One parameter.  The tensors have the same sizes and dtype (float16, bfloat16, float32, float64),
 * and any strides; states that the rule does not use are NULL. */
typedef struct optim_item {
  optim_rule rule;
  rush_tensor *param, *grad, *state[OPTIM_STATES]; /* borrowed */
} optim_item;

/* Compute what depends on the number of the step, from 1. */
void optim_number_step(optim_rule *r, double step, double lr_decay);
/* Update parameters and states; gradients too if the rule scales them.  Checks the tensors first:
 * after a failure nothing was written, unless it is RUSH_ELIMIT or RUSH_ECANCELLED. */
rush_status optim_step(call_ctx *cx, const optim_item *items, size_t n) RUSH_CHECKED;

#endif
