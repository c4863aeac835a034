/* base/heap.h -- the first member of every refcounted value.
 *
 * Counts can be changed by any thread.  `kind` is the rush_tag of values with this heap part;
 * objects that are not values (owners of types, programs) have their own counts. */
#ifndef RUSH_BASE_HEAP_H
#define RUSH_BASE_HEAP_H

#include "base/context.h"
#include "base/count.h"

typedef struct heap {
  _Atomic uint32_t refs;
  uint8_t kind; /* rush_tag */
  uint8_t flags; /* meaning depends on kind */
  uint16_t small; /* meaning depends on kind */
  context *ctx; /* borrowed: a context outlives its values */
} heap;

static inline void heap_init(heap *h, context *c, uint8_t kind)
{
  atomic_init(&h->refs, 1);
  h->kind = kind;
  h->flags = 0;
  h->small = 0;
  h->ctx = c;
}
static inline void heap_retain(heap *h) { count_add(&h->refs); }
/* Drop a reference; true if it was the last: the caller must destroy the object. */
static inline bool heap_drop(heap *h) { return count_sub(&h->refs, 1) == 1; }
/* Drop n references; more than n must exist. */
static inline void heap_drop_some(heap *h, uint32_t n) { count_sub(&h->refs, n); }
static inline bool heap_is_unique(const heap *h)
{
  return atomic_load_explicit(&h->refs, memory_order_acquire) == 1;
}

#endif
