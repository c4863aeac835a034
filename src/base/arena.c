/* base/arena.c -- the bump allocator of arena.h: blocks that double from 4 KB to 256 KB in a list;
 * a large request gets a block of its own, so that the current one is not abandoned. */
#include "base/arena.h"

#include <string.h>

#define FIRST_BLOCK 4096u
#define LARGEST_BLOCK (256u * 1024)

struct arena_block {
  arena_block *prev;
  size_t size; /* bytes with this header */
};
#define HEADER ((sizeof(arena_block) + 15) & ~(size_t)15)

void arena_init(arena *a, context *c) { *a = (arena){.ctx = c}; }

/* True for block sizes that come from the context's cache: a compilation takes megabytes, and fresh
 * pages from the system would cost a third of its time. */
static bool is_cached(size_t size)
{
  return size >= 16384 && size <= LARGEST_BLOCK && (size & (size - 1)) == 0;
}

static arena_block *block_new(arena *a, size_t size)
{
  arena_block *b = is_cached(size) ? mem_alloc_data(a->ctx, size) : mem_alloc(a->ctx, size);
  if (b) {
    b->size = size;
    a->total_bytes += size;
  }
  return b;
}

static void block_free(context *c, arena_block *b, size_t size)
{
  if (is_cached(size))
    mem_free_data(c, b, size);
  else
    mem_free(c, b, size);
}

/* Allocate what does not fit into the current block: a large request gets its own block, else a new
 * block begins. */
void *arena_alloc_slow(arena *a, size_t n_bytes)
{
  if (n_bytes > SIZE_MAX - 16)
    return NULL;
  size_t n = n_bytes ? (n_bytes + 15) & ~(size_t)15 : 16;
  size_t next = a->last ? a->size * 2 : FIRST_BLOCK;
  next = next > LARGEST_BLOCK ? LARGEST_BLOCK : next < FIRST_BLOCK ? FIRST_BLOCK : next;
  if (n > next / 4) {
    size_t size;
    if (!size_add(n, HEADER, &size))
      return NULL;
    arena_block *b = block_new(a, size);
    if (!b)
      return NULL;
    if (a->last) { /* behind the current block, which keeps its free rest */
      b->prev = a->last->prev;
      a->last->prev = b;
    } else {
      b->prev = NULL;
      a->last = b;
      a->used = a->size = size;
    }
    return (char *)b + HEADER;
  }
  arena_block *b = block_new(a, next);
  if (!b)
    return NULL;
  b->prev = a->last;
  a->last = b;
  a->size = next;
  a->used = HEADER + n;
  return (char *)b + HEADER;
}

void arena_free(arena *a)
{
  for (arena_block *b = a->last, *prev; b; b = prev) {
    prev = b->prev;
    size_t size = b->size;
#ifdef RUSH_SLOW_CHECKS
    memset(b, 0xdd, size);
#endif
    block_free(a->ctx, b, size);
  }
  arena_init(a, a->ctx);
}
