/* export/signature.h -- what a method takes and returns, as data (rush_signature).
 *
 * A TorchScript method's signature comes from its schema; an exported program's from its tree specs
 * and from what the file says of the graph's inputs and outputs (exported_meta).  Both have the
 * same items, so that hosts need not ask what they have.  Texts and sizes are copied: a signature
 * outlives its program.
 *
 * Ownership: one owner.  Threads: immutable after creation. */
#ifndef RUSH_EXPORT_SIGNATURE_H
#define RUSH_EXPORT_SIGNATURE_H

#include "export/exported.h"

typedef struct rush_signature signature;
struct rush_signature {
  context *ctx; /* retained */
  arena mem;
  uint32_t n_inputs, n_outputs;
  rush_signature_item *inputs, *outputs; /* values are retained */
};

/* Of a function whose result type is known; `e` is the exported program that it is forward of, or
 * NULL.  *out is new. */
rush_status signature_new(call_ctx *cx, const function *f, const exported *e,
                          signature **out) RUSH_CHECKED;
void signature_free(signature *s);
/* Append two lists, of inputs and of outputs: an item a line, each line behind `indent`. */
rush_status signature_print(call_ctx *cx, text_buf *out, const signature *s,
                            const char *indent) RUSH_CHECKED;

#endif
