/* export/signature.h -- the inputs and outputs of a method, as data (rush_signature).
 *
 * A TorchScript method's signature comes from its schema; an exported program's from its tree specs
 * and from the file's description of the graph's inputs and outputs (exported_meta).  Both have the
 * same items, so that hosts need not distinguish them.  Texts and sizes are copied: a signature
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

/* Make the signature of a function whose result type is known; `e` is the exported program whose
 * forward it is, or NULL.  *out is new. */
rush_status signature_new(call_ctx *cx, const function *f, const exported *e,
                          signature **out) RUSH_CHECKED;
void signature_free(signature *s);
/* Append two lists, inputs and outputs: one line per item, each after `indent`. */
rush_status signature_print(call_ctx *cx, text_buf *out, const signature *s,
                            const char *indent) RUSH_CHECKED;

#endif
