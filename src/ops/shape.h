/* ops/shape.h -- shapes of an operator's results: the rule that its entry names, given what the entry says besides.
 *
 * op_shape over numbers, op_symshape over symbols; shape/shape.h says what facts are.  `call` has args; the rest is filled.  Both
 * leave the session when the operator has no rule or the rule refuses. */
#ifndef RUSH_OPS_SHAPE_H
#define RUSH_OPS_SHAPE_H

#include "ops/call.h"
#include "shape/shape.h"

/* The rule's number, or 0. */
uint32_t op_shape_rule(const op *o);
void op_shape(session *s, const op *o, shape_call *call);
void op_symshape(session *s, sym_env *env, const op *o, symshape_call *call);

/* All of it as a plain value, for tests and tools: a tuple
 *     (operator, rule, results, guards, symbols)
 * of a text, a text, and lists of tuples.  A result is (which of the schema's, sizes, strides, offset, dtype, argument whose memory it
 * is or -1, is it that argument itself), then, when `symbolic`, the texts of sizes, strides and offset, whose numbers are those of the
 * hints; -1 is what only data tells.  Guards are texts.  A symbol is (name, hint or None, least value, largest value or None).
 * *out new. */
rush_status op_shape_value(call_ctx *cx, const op *o, const rush_value *args, bool symbolic, rush_value *out) RUSH_CHECKED;

#endif
