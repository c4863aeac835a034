/* run/code.h -- bytecode of one function, and running it.
 *
 * A typed register machine.  Registers are rush_values in one array; types are static, so opcodes
 * are typed and tags are not checked.  Registers own their values; an operand has a bit if it dies
 * in the instruction. Calls do not recurse in C: frames are on a contiguous stack of the call.
 *
 * `code` is immutable after emission and shared by threads.  It keeps origin -> pc and the register
 * of every IR value, so that interp_enter can start at any pc. */
#ifndef RUSH_RUN_CODE_H
#define RUSH_RUN_CODE_H

#include "ir/program.h"

typedef struct code code;

/* Get the function's code: compiles body and bytecode at first use and publishes it once. */
rush_status code_of(call_ctx *cx, function *f, const code **out) RUSH_CHECKED;
/* Compile f and everything that its code calls: functions, bodies of operators, groups (for their
 * likely arguments).  Nothing runs. */
rush_status code_prepare(call_ctx *cx, function *f) RUSH_CHECKED;
/* True if programs can run the operator, by its kernel or as an instruction. */
bool code_runs_op(const op *o);

/* Call with complete arguments (schema->n_args, borrowed).  *result is None, a value, or a tuple;
 * new. */
rush_status function_call(call_ctx *cx, function *f, const rush_value *args, uint32_t n_args,
                          rush_value *result) RUSH_CHECKED;
/* Bind positional and named arguments to the schema (conversions, defaults), then call. */
rush_status function_call_bound(call_ctx *cx, function *f, const rush_value *self,
                                const rush_value *args, uint32_t n_args, const named_arg *kwargs,
                                uint32_t n_kwargs, rush_value *result) RUSH_CHECKED;

/* Get the value of a future that a call returned (new), or fail with the error of its task: after
 * the call has returned it has one or the other. */
rush_status future_result(call_ctx *cx, rush_value future, rush_value *out) RUSH_CHECKED;
bool future_is_awaitable(rush_value v); /* false if v is not a future */
/* Make a future of type t (Future[T] or Await[T]) whose result is a T: new. */
rush_status future_done(call_ctx *cx, const type *t, rush_value result,
                        rush_value *out) RUSH_CHECKED;

/* Start at `pc` with the given registers (n_registers of the code); steals them. */
rush_status interp_enter(call_ctx *cx, const code *c, uint32_t pc, rush_value *registers_steal,
                         rush_value *result) RUSH_CHECKED;
/* Print a readable listing; as JSON: {"name", "registers", "constants", "arguments",
 * "instructions": [{"pc", "op", ..., "at"}]}. */
void code_print(text_buf *out, const code *c);
void code_json(text_buf *out, const code *c);

/* Return the graph this code was made from, after passes; NULL: the function's own. */
const ir_graph *code_graph(const code *c);
/* Print the descriptions of what backends made for nodes; as JSON: {"name", "groups": [{"operator",
 * "pc", "at", "lines"}]}, which needs an intermediate buffer. */
void code_describe(text_buf *out, const code *c);
void code_describe_json(text_buf *out, const code *c, text_buf *scratch);

/* Make `c` able to run programs: publishes what value/ and ops/ need from this folder (composites'
 * bodies). */
rush_status run_init(context *c, rush_error *err) RUSH_CHECKED;

#endif
