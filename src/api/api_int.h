/* api/api_int.h -- shared inside src/api: entering a call from outside.
 *
 * The files here contain no logic: each public function checks its arguments, opens a call context,
 * and calls inward. */
#ifndef RUSH_API_API_INT_H
#define RUSH_API_API_INT_H

#include "module/module.h"
#include "ops/call/call.h"
#include "run/outputs.h"

struct archive_source;

/* A tensor's h.small: rush_tensor_wrap made this very tensor, not a view of it. */
#define TENSOR_WRAPS 1

/* Return the context to use, ready to run programs; NULL with the error set. */
context *api_context(context *c, rush_error *err);
/* Call api_context and call_ctx_init. */
rush_status api_begin(call_ctx *cx, context *c, rush_error *err);

/* Read the options of a load (NULL: the defaults) into `from`. */
rush_status api_load_options(struct archive_source *from, const rush_load_options *o,
                             rush_error *err) RUSH_CHECKED;
/* Return the name and the bytes of extra file i, or NULL (save.c). */
const char *api_extra_file(const table *files, size_t i, const void **data, size_t *n_bytes);

/* -- Structs with struct_bytes (struct.c) ------------------------------------------------------ */

/* Copy a caller's struct into ours.  Fields that an older caller lacks become zero; fields of a
 * newer one that we lack must be zero, else RUSH_EARGUMENT.  `least`: number of bytes that every
 * version has, or 0. */
rush_status api_read(rush_error *err, const char *name, size_t least, const void *from, void *to,
                     size_t n_bytes);
#define API_READ(err, type, from, to) api_read((err), #type, 0, (from), (to), sizeof(type))
/* Fail with RUSH_EARGUMENT unless the entry of a table of callbacks is set. */
rush_status api_need(rush_error *err, const char *name, const char *entry, bool is_there);
#define API_NEED(err, type, table, entry) api_need((err), #type, #entry, (table)->entry != NULL)
/* Copy as much of a result as the caller's struct has room for; sets its struct_bytes to that
 * number. */
void api_fill(void *to, const void *from, size_t n_bytes);

/* Apply a call's options (or NULL): grad mode, deadline, cancellation, recording with *recorder,
 * which must live as long as the call. `any`: the call may use tensors that are not among args. */
rush_status api_call_options(call_ctx *cx, const rush_call_options *o, call_recorder *recorder,
                             bool any, const rush_value *args, size_t n_args);

/* Set cx->outputs to the output buffers of `o` (or NULL).  *out must be zeroed and is freed by
 * api_outputs_end.  out NULL: such a call has no output buffers. */
rush_status api_outputs_begin(call_ctx *cx, const rush_call_options *o,
                              output_buffers *out) RUSH_CHECKED;
/* Report which outputs were copied, if the call succeeded. */
void api_outputs_end(call_ctx *cx, output_buffers *out, rush_status st);

/* Return v as the result *out if st is RUSH_OK; release it otherwise, or if out is NULL. */
static inline void api_return_steal(rush_status st, rush_value v, rush_value *out)
{
  if (st == RUSH_OK && out)
    *out = v;
  else
    value_release(v);
}

typedef struct api_saved { /* one of them, else the object */
  rush_value object;
  const module *module; /* an exported program */
  struct rush_exported_program *program;
} api_saved;
/* Write an archive as rush_module_save does (save.c). */
rush_status api_save(call_ctx *cx, const api_saved *what, const char *path,
                     const rush_save_options *options) RUSH_CHECKED;

/* End a function that returns text: if st is RUSH_OK, *out is a new copy of t (out NULL: not
 * wanted).  Frees t. */
rush_status api_text(call_ctx *cx, rush_status st, text_buf *t, char **out);

#endif
