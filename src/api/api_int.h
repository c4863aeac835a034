/* api/api_int.h -- shared inside src/api: entering a call from outside.
 *
 * Nothing here has logic: each public function checks its arguments, opens a call context, and
 * calls inward. */
#ifndef RUSH_API_API_INT_H
#define RUSH_API_API_INT_H

#include "module/module.h"
#include "ops/call/call.h"
#include "run/outputs.h"

/* A tensor's h.small: it is the one that rush_tensor_wrap made, not a view of it. */
#define TENSOR_WRAPS 1

/* The context to use, made ready for running programs; NULL with the error set. */
context *api_context(context *c, rush_error *err);
/* api_context and call_ctx_init in one. */
rush_status api_begin(call_ctx *cx, context *c, rush_error *err);

/* -- Structs with struct_bytes (struct.c) ------------------------------------------------------ */

/* Copy a struct of the caller's into ours.  Fields that an older caller lacks become zero; what a
 * newer one has beyond ours must be zero, else RUSH_EARGUMENT.  `least`: bytes that every version
 * has, or 0. */
rush_status api_read(rush_error *err, const char *name, size_t least, const void *from, void *to,
                     size_t n_bytes);
#define API_READ(err, type, from, to) api_read((err), #type, 0, (from), (to), sizeof(type))
/* RUSH_EARGUMENT unless the entry of a table of callbacks is there. */
rush_status api_need(rush_error *err, const char *name, const char *entry, bool is_there);
#define API_NEED(err, type, table, entry) api_need((err), #type, #entry, (table)->entry != NULL)
/* Copy as much of a result as the caller's struct has room for; its struct_bytes says afterwards
 * how much that was. */
void api_fill(void *to, const void *from, size_t n_bytes);

/* What a call's options (or NULL) ask for: grad mode, deadline, cancelling, recording with
 * *recorder, which lives as long as the call. `any`: the call may see tensors that are not among
 * args. */
rush_status api_call_options(call_ctx *cx, const rush_call_options *o, call_recorder *recorder,
                             bool any, const rush_value *args, size_t n_args);

/* Buffers of `o` (or NULL) for a call's outputs: *out, zeroed before, which api_outputs_end frees,
 * and cx->outputs.  NULL out: such a call has none. */
rush_status api_outputs_begin(call_ctx *cx, const rush_call_options *o,
                              output_buffers *out) RUSH_CHECKED;
/* Say which were copied, if the call succeeded. */
void api_outputs_end(call_ctx *cx, output_buffers *out, rush_status st);

/* Hand v over as a result: to *out, or to nobody (out NULL, or a failure). */
static inline void api_give(rush_status st, rush_value v, rush_value *out)
{
  if (st == RUSH_OK && out)
    *out = v;
  else
    value_release(v);
}

/* End a function that gives text: on st == RUSH_OK *out is a new copy of t (NULL: not wanted); t is
 * freed. */
rush_status api_text(call_ctx *cx, rush_status st, text_buf *t, char **out);

#endif
