/* ops/kernels/index_walk.h -- moves elements between a tensor and the positions that an index
 * chooses in another.
 *
 * One side ("far") is addressed by an array of byte offsets, one for each index; the other ("near")
 * by a stride.  Each index has a block: the remaining dimensions of the tensor, which both sides
 * iterate with strides.  The longest part of a block that is dense on both sides moves at once. */
#ifndef RUSH_OPS_WALK_H
#define RUSH_OPS_WALK_H

#include "ops/math/combine.h"
#include "tensor/iter.h"

typedef struct walk {
  tensor_iter block;   /* operand 0: written, 1: read; built with walk_init and walk_dim */
  size_t item;         /* bytes of an element */
  int64_t n;           /* number of indices */
  const int64_t *to,
    *from; /* byte offset of each index on the written and read side; NULL: use the stride */
  int64_t to_step, from_step;
  combine_fn *combine; /* or NULL: copy */
} walk;

/* Begin a walk without block dimensions from `from` to `to`. */
void walk_init(walk *w, size_t item, void *to, const void *from);
/* Add a block dimension, innermost first; strides in bytes. */
void walk_dim(walk *w, int64_t size, int64_t to_stride, int64_t from_stride);
/* Run the walk; elements with the same target are written in the order of the indices. */
rush_status walk_run(call_ctx *cx, walk *w) RUSH_CHECKED;

/* Copy the elements s[at[i]] to contiguous memory, and the reverse; item: 1, 2, 4, 8 or 16
 * bytes. */
void gather_elems(size_t item, char *d, int64_t ds, const char *s, const int64_t *at, int64_t n);
void scatter_elems(size_t item, char *d, const int64_t *at, const char *s, int64_t ss, int64_t n);

#endif
