/* trace/sensor.h -- traces calls of this library; makes functions from graph texts.
 *
 * A trace is a call hook (ops/call/profile.h): each call of an operator, or of a program's
 * function, that its thread makes from outside is reported to a recorder (recorder.h).  Values are
 * identified by identity: tensors, lists, tuples and dicts by their address (the trace holds them,
 * so that an address is not used again), numbers that operators returned by rush_value.aux.  Values
 * that no call returned are constants.  An operator that writes gives its tensor a new value from
 * there on, as in PyTorch's traces.
 *
 * Calls run in the run-time regime: the first failure to record one is kept and returned by
 * trace_end_steal.  Threads: one. */
#ifndef RUSH_TRACE_SENSOR_H
#define RUSH_TRACE_SENSOR_H

#include "ir/program.h"

typedef struct trace trace;

/* Begin a trace.  inputs: tensors, and lists, tuples and dicts of them; names may be NULL.  *out is
 * new. */
rush_status trace_begin(context *c, const rush_value *inputs, const char *const *names, uint32_t n,
                        trace **out, rush_error *err) RUSH_CHECKED;
context *trace_context(const trace *t);
/* End the recording and free *t, also on failure.  Several outputs are a tuple.  *object (new) has
 * the function as its method "forward". */
rush_status trace_end_steal(call_ctx *cx, trace *t, const rush_value *outputs, uint32_t n,
                            program **out, rush_value *object) RUSH_CHECKED;
void trace_drop(trace *t); /* NULL: nothing */

/* Define a function whose graph is this text: of the class `self` (then its first input is the
 * object), or free.  constants[n]: the tensors of `prim::Constant[value=<Tensor>]()`, in order.
 * Verified. */
function *script_define_graph(session *s, program *p, const type *self, const char *name,
                              const char *text, const rush_value *constants, uint32_t n);

#endif
