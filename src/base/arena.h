/* base/arena.h -- bump allocation, freed at once.
 *
 * Blocks grow from 4 KB to 256 KB.  Alignment 16.  arena_alloc returns NULL without memory: use it
 * through a session where that cannot happen, or check.  One thread at a time. */
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
void *arena_alloc(arena *a, size_t n_bytes) RUSH_CHECKED; /* not zeroed */
void arena_free(arena *a);                                /* all blocks; the arena is empty again */
/* All blocks of `from` move to `to`. */
void arena_adopt(arena *to, arena *from);

#endif
