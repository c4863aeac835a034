/* base/heap.h -- what every refcounted value starts with.
 *
 * Counts are atomic.  `kind` is the rush_tag of the value the object is the heap part of; objects
 * that are no values (types' owners, programs) have counts of their own. */
#ifndef RUSH_BASE_HEAP_H
#define RUSH_BASE_HEAP_H

#include "base/context.h"

typedef struct heap {
  _Atomic uint32_t refs;
  uint8_t kind; /* rush_tag */
  uint8_t flags; /* the kind's own */
  uint16_t small; /* the kind's own */
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
static inline void heap_retain(heap *h)
{
  atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
}
/* True when the last reference went: the caller destroys. */
static inline bool heap_drop(heap *h)
{
  /* Not release and a fence: the thread sanitizer knows no fences, and x86 has the same
   * instruction. */
  return atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1;
}
/* Drop n references of more than n. */
static inline void heap_drop_some(heap *h, uint32_t n)
{
  atomic_fetch_sub_explicit(&h->refs, n, memory_order_release);
}
static inline bool heap_is_unique(const heap *h)
{
  return atomic_load_explicit(&h->refs, memory_order_acquire) == 1;
}

#endif
