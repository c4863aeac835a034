/* module/optimizer.h -- optimizers: groups of parameters, their options and their state.
 *
 * Model: parameters are counted through all groups; each has up to OPTIM_STATES tensors, made at
 * its first step (Adagrad: when it is added), and the number of its steps.  A step collects what
 * has a gradient and is one call of optim_step (ops/kernels/optim.h).
 *
 * Invariants: (1) groups[g].first grows with g, and group g ends where the next begins.  (2) A
 * parameter's states have its sizes and dtype.
 * Ownership: an optimizer owns references to parameters and states, and to its context.
 * Threads: one thread at a time. */
#ifndef RUSH_MODULE_OPTIMIZER_H
#define RUSH_MODULE_OPTIMIZER_H

#include "ops/kernels/optim.h"
#include "rushlight/optim.h"

typedef struct optimizer_param {
  rush_tensor *tensor;              /* owned */
  rush_tensor *state[OPTIM_STATES]; /* owned, or NULL: not made yet */
  double step; /* steps so far; of SGD: those that its momentum buffer is made of */
} optimizer_param;

typedef struct optimizer_group {
  rush_optimizer_options options;
  bool decoupled; /* Adam: weight decay as AdamW's */
  size_t first;   /* its first parameter */
} optimizer_group;

struct rush_optimizer {
  context *ctx; /* retained */
  rush_optimizer_kind kind;
  optimizer_group *groups;
  optimizer_param *params;
  size_t n_groups, n_params;
};

/* Return the defaults of a kind. */
rush_optimizer_options optimizer_defaults(rush_optimizer_kind kind);
/* Refuse options that have no sense, as torch.optim's class does. */
rush_status optimizer_check(call_ctx *cx, rush_optimizer_kind kind,
                            const rush_optimizer_options *o) RUSH_CHECKED;
/* Make an optimizer without parameters.  *out is new. */
rush_status optimizer_new(call_ctx *cx, rush_optimizer_kind kind,
                          rush_optimizer **out) RUSH_CHECKED;
void optimizer_free(rush_optimizer *o);
rush_status optimizer_add_group(call_ctx *cx, rush_optimizer *o,
                                const rush_optimizer_options *options, const rush_value *params,
                                size_t n) RUSH_CHECKED;
rush_status optimizer_step(call_ctx *cx, rush_optimizer *o) RUSH_CHECKED;
rush_status optimizer_zero_grad(call_ctx *cx, rush_optimizer *o, bool set_to_none) RUSH_CHECKED;

/* Return the end of group g's parameters. */
static inline size_t optimizer_group_end(const rush_optimizer *o, size_t g)
{
  return g + 1 < o->n_groups ? o->groups[g + 1].first : o->n_params;
}
/* Return the name of the class in torch.optim. */
const char *optimizer_class(rush_optimizer_kind kind);

/* Make the state_dict, or read one (optimizer_state.c). */
rush_status optimizer_save_state(call_ctx *cx, const rush_optimizer *o,
                                 rush_value *out) RUSH_CHECKED;
rush_status optimizer_load_state(call_ctx *cx, rush_optimizer *o, rush_value state) RUSH_CHECKED;

#endif
