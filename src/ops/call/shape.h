/* ops/call/shape.h -- shapes of an operator's results: the rule that its entry names, given what
 * the entry says besides.
 *
 * op_shape over numbers, op_symshape over symbols; shape/shape.h says what facts are.  `call` has
 * args; the rest is filled.  Both leave the session when the operator has no rule or the rule
 * refuses. */
#ifndef RUSH_OPS_SHAPE_H
#define RUSH_OPS_SHAPE_H

#include "ops/call/call.h"
#include "shape/shape.h"

/* Does it have a rule, or a function from outside? */
bool op_has_shape(const op *o);
void op_shape(session *s, const op *o, shape_call *call);
void op_symshape(session *s, sym_env *env, const op *o, symshape_call *call);

/* All of it as a plain value, for tests and tools: a tuple
 *     (operator, rule, results, guards, symbols)
 * of a text, a text, and lists of tuples.  A result is (which of the schema's, sizes, strides,
 * offset, dtype, argument whose memory it is or -1, is it that argument itself), then, when
 * `symbolic`, the texts of sizes, strides and offset, whose numbers are those of the hints; -1 is
 * what only data tells.  Guards are texts.  A symbol is (name, hint or None, least value, largest
 * value or None).
 * *out new. */
rush_status op_shape_value(call_ctx *cx, const op *o, const rush_value *args, bool symbolic,
                           rush_value *out) RUSH_CHECKED;

/* shape_outside.c: the same of operators with a shape_fn (backend.h). */
void op_shape_outside(session *s, const op *o, shape_call *call);
void op_symshape_outside(session *s, sym_env *env, const op *o, symshape_call *call);
/* What backend.h's table offers to such functions; told there. */
size_t shape_ask_n_tensors(rush_shape *q, size_t arg);
int shape_ask_n_dims(rush_shape *q, size_t arg, size_t item);
rush_dtype shape_ask_dtype(rush_shape *q, size_t arg, size_t item);
const rush_size *shape_ask_size(rush_shape *q, size_t arg, size_t item, int dim);
const rush_size *shape_ask_int(rush_shape *q, size_t arg, size_t item);
rush_value shape_ask_arg(rush_shape *q, size_t arg);
const rush_size *shape_ask_number(rush_shape *q, int64_t n);
const rush_size *shape_ask_unknown(rush_shape *q);
const rush_size *shape_ask_calc(rush_shape *q, rush_size_op op, const rush_size *a,
                                const rush_size *b);
bool shape_ask_holds(rush_shape *q, rush_size_relation rel, const rush_size *a, const rush_size *b);
rush_status shape_ask_give(rush_shape *q, size_t result, rush_dtype dtype, int n_dims,
                           const rush_size *const *sizes);
rush_status shape_ask_fail(rush_shape *q, const char *type, const char *fmt, va_list ap);

#endif
