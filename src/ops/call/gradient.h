/* ops/call/gradient.h -- gradients in the table.
 *
 * An entry's key `grad` (README.md) has a formula for one or several arguments.  gen.py makes each
 * an ordinary function in TorchScript, whose parameters are the names in the formula; it is
 * compiled at first use like the bodies of composites:
 *
 *   grad={"self": "grad * other.conj()"}  ->  inputs {self}, takes {grad, other}, def
 *   gradient_of_mul_Tensor(grad, other): ...
 *
 * A record must save the values in `takes`.  The result of a formula is fitted to the argument:
 * summed where the argument was broadcast, its real part if the argument is real, in its dtype.
 * In-place and out= variants have their base's formulas (`self` is then the value before the call).
 * Operators without formulas are differentiated through their body, or not at all (OP_NO_GRAD, or
 * no formula exists).
 *
 * Threads: built once, then immutable; formulas are compiled under a lock, at most once. */
#ifndef RUSH_OPS_GRADIENT_H
#define RUSH_OPS_GRADIENT_H

#include "ops/call/call.h"

typedef enum gradient_from {                     /* the source of a function's argument */
                             /* the gradient of result `index`; zeros if there is none */
                             GRADIENT_OF_RESULT,
                             GRADIENT_ARG,    /* argument `index` of the base operator */
                             GRADIENT_RESULT, /* result `index` */
                             /* the sizes of argument `index`: List[int], List[List[int]] of
                              * Tensor[] */
                             GRADIENT_SIZES,
                             GRADIENT_NEEDS, /* List[bool]: which inputs are needed */
                             /* the sum so far of the gradients of argument `index`: of a graph's
                              * formula (autodiff/) */
                             GRADIENT_SO_FAR
} gradient_from;

typedef struct gradient_take {
  uint16_t from, index;
} gradient_take;

typedef struct op_gradient {
  const char *inputs, *takes; /* the names, separated by spaces */
  const char *text;
  uint32_t n_inputs, n_takes;
  uint16_t *input;            /* argument numbers of the base operator */
  gradient_take *take;
  uint32_t at;                /* its index among the operator's */
  bool is_total;              /* results are not added to the sums so far: they are the new sums */
  _Atomic(void *) function;   /* once compiled */
} op_gradient;

typedef struct op_gradients {
  uint32_t n;
  op_gradient *items;
} op_gradients;

/* Get the formulas of o or of its base; *out NULL: it has none. */
rush_status op_gradients_of(call_ctx *cx, const op *o, const op_gradients **out) RUSH_CHECKED;
/* Return the type of a formula's name; NULL: it is not one of the operator's names. */
const type *op_gradient_type(const op *o, str name);
/* Compile a formula: *function is its function (ir/program.h), of the built-in program. */
rush_status op_gradient_prepare(call_ctx *cx, const op *o, const op_gradient *g,
                                void **function) RUSH_CHECKED;
/* Run a formula on values[n_takes], in the order of `take`.  results[n_inputs] are new, and fitted
 * to inputs[i]: a tensor, a list of tensors, or None, for which the result is not fitted. */
rush_status op_gradient_call(call_ctx *cx, const op *o, const op_gradient *g,
                             const rush_value *values, const rush_value *inputs,
                             rush_value *results) RUSH_CHECKED;
/* Fit one result (a tensor) to the sizes and dtype of an argument, as op_gradient_call does for
 * inputs that are not NULL. */
rush_status op_gradient_fit(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                            rush_value *v) RUSH_CHECKED;
/* Like op_gradient_call, for values of any kind that can be bound (schema_bind in
 * ops/call/call.h). */
rush_status op_gradient_run(call_ctx *cx, const op *o, const op_gradient *g,
                            const rush_value *values, const rush_value *inputs,
                            rush_value *results) RUSH_CHECKED;
/* Get the text of a helper, or NULL. */
rush_status gradient_helper(call_ctx *cx, const char *name, const char **text) RUSH_CHECKED;

#endif
