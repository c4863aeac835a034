/* api/api_int.h -- shared inside src/api: entering a call from outside.
 *
 * Nothing here has logic: each public function checks its arguments, opens a call context, and calls
 * inward. */
#ifndef RUSH_API_API_INT_H
#define RUSH_API_API_INT_H

#include "archive/module.h"
#include "ops/call.h"

/* A tensor's h.small: it is the one that rush_tensor_wrap made, not a view of it. */
#define TENSOR_WRAPS 1

/* The context to use, made ready for running programs; NULL with the error set. */
context *api_context(context *c, rush_error *err);
/* api_context and call_ctx_init in one. */
rush_status api_begin(call_ctx *cx, context *c, rush_error *err);

/* When the options say that a call ends early. */
void api_limits(call_ctx *cx, const rush_call_options *o);

/* End a function that gives text: on st == RUSH_OK *out is a new copy of t; t is freed. */
rush_status api_text(call_ctx *cx, rush_status st, text_buf *t, char **out);

#endif
