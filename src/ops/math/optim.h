/* ops/math/optim.h -- one step of an optimizer on elements in a row.
 *
 * The formulas are torch.optim's, in the order of its fused CPU kernels.  A step reads parameter,
 * gradient and state once and writes them once: loops run over OPTIM_BLOCK elements at a time,
 * which stay in the first-level cache between them.  Rejected: one loop per combination of
 * options, which computes as fast and takes five times the code.  Elements are independent and no
 * product is contracted, so every instruction set computes the same bits. */
#ifndef RUSH_OPS_OPTIM_H
#define RUSH_OPS_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/isa.h"

/* Rows of a parameter: its elements, the gradient, and states. */
enum { OPTIM_BLOCK = 256, OPTIM_STATES = 3, OPTIM_ROWS = 2 + OPTIM_STATES };

typedef enum optim_kind {
  OPTIM_SGD,     /* states: momentum buffer */
  OPTIM_ADAM,    /* mean of gradients, of their squares, the largest of those (amsgrad) */
  OPTIM_RMSPROP, /* mean of squares, momentum buffer, mean of gradients (centered) */
  OPTIM_ADAGRAD  /* sum of squares */
} optim_kind;

/* What is the same for all elements of a parameter.  Fields that the kind does not use are 0.
 * optim_number_step (ops/kernels/optim.h) computes step_size and correction. */
typedef struct optim_rule {
  optim_kind kind;
  bool maximize;
  bool nesterov;  /* SGD */
  bool is_first;  /* SGD: the momentum buffer has no value yet */
  bool decoupled; /* Adam: weight decay shrinks the parameter (AdamW) */
  bool amsgrad;   /* Adam */
  bool centered;  /* RMSprop */
  /* the factor of the update: lr, corrected for the number of the step (Adam, Adagrad) */
  double step_size;
  double lr, weight_decay;
  double momentum, dampening; /* SGD; momentum: RMSprop too */
  double beta1, beta2;        /* Adam; RMSprop's alpha is beta2 */
  double correction;          /* Adam: what the root of the mean of squares is divided by */
  double eps;
  double grad_scale; /* gradients are divided by it, and stored so; 0: they are not */
} optim_rule;

/* Update n elements of each row.  Rows do not overlap; those that the rule does not use are NULL.
 * */
typedef void optim_update(const optim_rule *r, int64_t n, void *const rows[OPTIM_ROWS]);
/* Return the function for float64, or float32. */
ISA_DECLARE(optim_update *, optim_update_of, (bool is_f64));

#endif
