/* optim.h -- optimizers: training a model from C.
 *
 * A step of training: call the model with recording, compute a loss, let rush_backward add to the
 * parameters' gradients, then step (error checks left out; examples/digits/train.c is a complete
 * program):
 *
 *   rush_optimizer_options o = RUSH_OPTIMIZER_OPTIONS_INIT;
 *   rush_optimizer *opt;
 *   rush_optimizer_defaults(RUSH_OPTIMIZER_ADAM, &o, &err);
 *   o.lr = 2e-3;
 *   rush_optimizer_of_module(m, RUSH_OPTIMIZER_ADAM, &o, &opt, &err);
 *   for (each batch) {
 *     rush_optimizer_zero_grad(opt, true, &err);
 *     ... calls with record_gradients, which make `loss` ...
 *     rush_backward(NULL, &loss, NULL, 1, NULL, &err);
 *     rush_optimizer_step(opt, &err);
 *   }
 *   rush_optimizer_release(opt);
 *
 * The formulas, defaults, refusals and the layout of the state are those of torch.optim's classes
 * of the same names.  A step is one pass over the memory of each parameter, its gradient and its
 * state, and all parameters of a group share the context's threads.
 *
 * Ownership, errors and structs are as described in rushlight.h.  An optimizer keeps references to
 * its parameters and to its context.
 *
 * Threads: one thread at a time may use an optimizer.  A step writes to the parameters without the
 * lock of their module: no other thread may call the module meanwhile. */
#ifndef RUSHLIGHT_OPTIM_H
#define RUSHLIGHT_OPTIM_H

#include <rushlight/rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_optimizer rush_optimizer;

typedef enum rush_optimizer_kind {
  RUSH_OPTIMIZER_SGD,
  RUSH_OPTIMIZER_ADAM,
  RUSH_OPTIMIZER_ADAMW,
  RUSH_OPTIMIZER_RMSPROP,
  RUSH_OPTIMIZER_ADAGRAD
} rush_optimizer_kind;

/* The options of a group of parameters.  Start from RUSH_OPTIMIZER_OPTIONS_INIT and
 * rush_optimizer_defaults: zero is a value here, not a default.  A kind ignores the fields that it
 * does not use. */
typedef struct rush_optimizer_options {
  size_t struct_bytes;        /* sizeof(rush_optimizer_options) */
  double lr;
  double weight_decay;
  double momentum;            /* SGD, RMSprop */
  double dampening;           /* SGD */
  double beta1, beta2;        /* Adam, AdamW: torch's `betas` */
  double alpha;               /* RMSprop */
  double eps;                 /* all but SGD */
  double lr_decay;            /* Adagrad */
  double initial_accumulator; /* Adagrad: torch's `initial_accumulator_value` */
  bool nesterov;              /* SGD */
  bool amsgrad;               /* Adam, AdamW */
  bool centered;              /* RMSprop */
  bool maximize;              /* follow the gradient instead of its negative */
} rush_optimizer_options;
#define RUSH_OPTIMIZER_OPTIONS_INIT                                                     \
  {                                                                                     \
    sizeof(rush_optimizer_options), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,   \
      false, false, false, false                                                        \
  }

/* Fill *out, whose struct_bytes is set, with the defaults of torch.optim's class. */
RUSH_API rush_status rush_optimizer_defaults(rush_optimizer_kind kind, rush_optimizer_options *out,
                                             rush_error *err) RUSH_CHECKED;
/* Create an optimizer of n parameters: tensors that are leaves.  `options` NULL: the defaults.
 * *out is new.  RUSH_EARGUMENT, a ValueError or TypeError with PyTorch's message: an option has no
 * sense, or params[i] is no leaf, or is given twice. */
RUSH_API rush_status rush_optimizer_create(rush_context *c, rush_optimizer_kind kind,
                                           const rush_optimizer_options *options,
                                           const rush_value *params, size_t n, rush_optimizer **out,
                                           rush_error *err) RUSH_CHECKED;
/* Create an optimizer of all parameters of a module that require grad, in the order of
 * rush_module_state_at.  *out is new. */
RUSH_API rush_status rush_optimizer_of_module(rush_module *m, rush_optimizer_kind kind,
                                              const rush_optimizer_options *options,
                                              rush_optimizer **out, rush_error *err) RUSH_CHECKED;
RUSH_API void rush_optimizer_release(rush_optimizer *o);

/* Add a group of parameters with options of their own (NULL: those of the first group).  Parameters
 * are counted through all groups. */
RUSH_API rush_status rush_optimizer_add_group(rush_optimizer *o,
                                              const rush_optimizer_options *options,
                                              const rush_value *params, size_t n,
                                              rush_error *err) RUSH_CHECKED;
RUSH_API size_t rush_optimizer_n_groups(const rush_optimizer *o);
/* Get and set the options of a group; the next step uses them.  *out has its struct_bytes set. */
RUSH_API rush_status rush_optimizer_get_group(const rush_optimizer *o, size_t group,
                                              rush_optimizer_options *out,
                                              rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_optimizer_set_group(rush_optimizer *o, size_t group,
                                              const rush_optimizer_options *options,
                                              rush_error *err) RUSH_CHECKED;
/* Set the learning rate of all groups. */
RUSH_API rush_status rush_optimizer_set_lr(rush_optimizer *o, double lr,
                                           rush_error *err) RUSH_CHECKED;

/* Update all parameters that have a gradient (rush_tensor_grad).  After a failure nothing was
 * written, unless the context's limit of time was reached (RUSH_ELIMIT). */
RUSH_API rush_status rush_optimizer_step(rush_optimizer *o, rush_error *err) RUSH_CHECKED;
/* Clear the gradients of all parameters: remove them (set_to_none), or fill them with zeros. */
RUSH_API rush_status rush_optimizer_zero_grad(rush_optimizer *o, bool set_to_none,
                                              rush_error *err) RUSH_CHECKED;

/* Get the state, as torch.optim's state_dict() does: a dict of "state" (number of the parameter ->
 * its tensors) and "param_groups".  rush_value_save writes it to a .pt file that torch.load reads
 * and the class of the same name in torch.optim takes.  *out is new; its tensors are the
 * optimizer's own, which later steps change. */
RUSH_API rush_status rush_optimizer_state(rush_optimizer *o, rush_value *out,
                                          rush_error *err) RUSH_CHECKED;
/* Set options and state from such a dict, which may be torch's (rush_value_load).  Tensors are
 * copied.  RUSH_EARGUMENT: it does not fit the groups or their parameters; nothing was changed. */
RUSH_API rush_status rush_optimizer_load_state(rush_optimizer *o, rush_value state,
                                               rush_error *err) RUSH_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
