/* ops/call/shape.h -- shapes of an operator's results: applies the rule that its entry names, with
 * the entry's other keys.
 *
 * op_shape works over numbers, op_symshape over symbols; shape/shape.h documents facts.  The caller
 * sets `call->args`; the rest is filled.  Both leave the session if the operator has no rule or the
 * rule refuses. */
#ifndef RUSH_OPS_SHAPE_H
#define RUSH_OPS_SHAPE_H

#include "ops/call/call.h"
#include "shape/shape.h"

/* True if it has a rule, or a registered shape function. */
bool op_has_shape(const op *o);
void op_shape(session *s, const op *o, shape_call *call);
void op_symshape(session *s, sym_env *env, const op *o, symshape_call *call);

/* Return everything as a plain value, for tests and tools: a tuple
 *   (operator, rule, results, guards, symbols)
 * of two strings and lists of tuples.  A result is (number in the schema, sizes, strides, offset,
 * dtype, argument whose memory it shares or -1, whether it is that argument itself), then, if
 * `symbolic`, the texts of sizes, strides and offset, whose numbers are those of the hints; -1
 * marks what depends on data.  Guards are strings.  A symbol is (name, hint or None, least value,
 * largest value or None). *out new. */
rush_status op_shape_value(call_ctx *cx, const op *o, const rush_value *args, bool symbolic,
                           rush_value *out) RUSH_CHECKED;

/* shape_custom.c: like op_shape, for operators with a shape_fn (backend.h). */
void op_shape_custom(session *s, const op *o, shape_call *call);
void op_symshape_custom(session *s, sym_env *env, const op *o, symshape_call *call);
/* The functions of backend.h's table for shape functions; documented there. */
size_t shape_fn_n_tensors(rush_shape *q, size_t arg);
int shape_fn_n_dims(rush_shape *q, size_t arg, size_t item);
rush_dtype shape_fn_dtype(rush_shape *q, size_t arg, size_t item);
const rush_size *shape_fn_size(rush_shape *q, size_t arg, size_t item, int dim);
const rush_size *shape_fn_int(rush_shape *q, size_t arg, size_t item);
rush_value shape_fn_arg(rush_shape *q, size_t arg);
const rush_size *shape_fn_number(rush_shape *q, int64_t n);
const rush_size *shape_fn_unknown(rush_shape *q);
const rush_size *shape_fn_calc(rush_shape *q, rush_size_op op, const rush_size *a,
                               const rush_size *b);
bool shape_fn_holds(rush_shape *q, rush_size_relation rel, const rush_size *a, const rush_size *b);
rush_status shape_fn_add_result(rush_shape *q, size_t result, rush_dtype dtype, int n_dims,
                                const rush_size *const *sizes);
rush_status shape_fn_fail(rush_shape *q, const char *type, const char *fmt, va_list ap);

#endif
