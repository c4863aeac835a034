/* base/arena.h -- a bump allocator; all memory is freed at once.
 *
 * Blocks grow from 4 KB to 256 KB.  Alignment 16.  arena_alloc returns NULL if memory runs out:
 * check, or allocate through a session, where that cannot happen.  One thread at a time. */
#ifndef RUSH_BASE_ARENA_H
#define RUSH_BASE_ARENA_H

#include "base/context.h"

typedef struct arena_block arena_block;
typedef struct arena {
  context *ctx; /* borrowed */
  arena_block *last;
  size_t used, size; /* of the last block */
  size_t total_bytes;
} arena;

void arena_init(arena *a, context *c);
void *arena_alloc_slow(arena *a, size_t n_bytes) RUSH_CHECKED; /* in a new block; private */
/* Allocate n_bytes, not zeroed. */
RUSH_CHECKED static inline void *arena_alloc(arena *a, size_t n_bytes)
{
  size_t n = n_bytes ? (n_bytes + 15) & ~(size_t)15 : 16;
  if (UNLIKELY(n < n_bytes || n > a->size - a->used))
    return arena_alloc_slow(a, n_bytes);
  void *p = (char *)a->last + a->used;
  a->used += n;
  return p;
}
void arena_free(arena *a); /* free all blocks; the arena is empty again */

#endif
