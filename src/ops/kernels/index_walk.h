/* ops/kernels/index_walk.h -- moving elements between a tensor and the places that an index chooses
 * in another.
 *
 * One side ("the far side") is addressed by an array of byte offsets, one for each index; the other
 * ("the near side") by a stride.  Under each index lies a block: what is left of the tensor, which
 * both sides walk with strides.  The longest piece of a block that is dense on both sides moves at
 * once. */
#ifndef RUSH_OPS_WALK_H
#define RUSH_OPS_WALK_H

#include "ops/math/combine.h"
#include "tensor/iter.h"

typedef struct walk {
  tensor_iter block;   /* operand 0: written, 1: read; built with walk_init and walk_dim */
  size_t item;         /* bytes of an element */
  int64_t n;           /* indices */
  const int64_t *to,
    *from; /* byte offsets of each index on the written and read side; NULL: by stride */
  int64_t to_step, from_step;
  combine_fn *combine; /* or NULL: copy */
} walk;

/* A walk without block dimensions from `from` to `to`. */
void walk_init(walk *w, size_t item, void *to, const void *from);
/* One more block dimension, innermost first; strides in bytes. */
void walk_dim(walk *w, int64_t size, int64_t to_stride, int64_t from_stride);
/* Elements that meet in one place are written in the order of the indices. */
rush_status walk_run(call_ctx *cx, walk *w) RUSH_CHECKED;

/* The elements s[at[i]] one after the other, and the reverse; item: 1, 2, 4, 8 or 16 bytes. */
void gather_elems(size_t item, char *d, int64_t ds, const char *s, const int64_t *at, int64_t n);
void scatter_elems(size_t item, char *d, const int64_t *at, const char *s, int64_t ss, int64_t n);

#endif
