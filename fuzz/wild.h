/* fuzz/wild.h -- unusual values of a given type, made from the bytes of an input.
 *
 * Each choice takes a byte of the input; after the last byte choices are made by a generator that
 * those bytes seed, so that a short input makes a whole call.  The values of one call are related
 * (a usual shape and dtype, tensors that are the same or share memory), since most operators refuse
 * unrelated arguments before they compute.
 *
 * Cost: linear in the elements of the tensors, of which each has at most WILD_MOST_ELEMS. */
#ifndef RUSH_FUZZ_WILD_H
#define RUSH_FUZZ_WILD_H

#include "ops/call/call.h"

enum { WILD_MOST_ELEMS = 4096, WILD_MAX_DIMS = 6, WILD_MAX_SEEN = 8, WILD_MAX_VARS = 4 };

typedef struct wild {
  call_ctx *cx;
  type_store *types;
  const uint8_t *p, *end;
  uint64_t random;                     /* splitmix64 */
  int dtype;                           /* the call's usual one */
  int n_dims;                          /* and its usual shape */
  int64_t sizes[WILD_MAX_DIMS];
  uint32_t n_seen, n_vars;
  rush_tensor *seen[WILD_MAX_SEEN];    /* tensors of this call, retained */
  const type *var_types[WILD_MAX_VARS]; /* what type variables of the schema are */
  const char *var_names[WILD_MAX_VARS];
} wild;

/* Start a call whose choices are the `n` bytes at `data`. */
void wild_init(wild *w, call_ctx *cx, type_store *types, const uint8_t *data, size_t n);
/* End a call. */
void wild_done(wild *w);
/* Choose one of 0..n-1. */
uint32_t wild_pick(wild *w, uint32_t n);
/* Replace type variables by the types chosen for this call.  Borrowed; NULL without memory. */
const type *wild_type(wild *w, const type *t);
/* Set *out to a new value of type t.  RUSH_EUNSUPPORTED: values of that type cannot be made. */
rush_status wild_value(wild *w, const type *t, int32_t fixed_len, rush_value *out) RUSH_CHECKED;
/* Set *out to a new tensor to be written to: often an empty one of the usual dtype. */
rush_status wild_out(wild *w, rush_value *out) RUSH_CHECKED;

#endif
