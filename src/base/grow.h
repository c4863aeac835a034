/* base/grow.h -- arrays in an arena (the session's or a longer-lived one) that double when full.
 * Old copies remain in the arena as garbage, at most as large as the array. */
#ifndef RUSH_BASE_GROW_H
#define RUSH_BASE_GROW_H

#include "base/session.h"

/* Return `items`, or a copy with room for more than n.  mem NULL: use the session's arena. */
static inline void *session_grown(session *s, arena *mem, void *items, uint32_t n, uint32_t *cap,
                                  uint32_t first, size_t item_bytes)
{
  if (n < *cap)
    return items;
  uint32_t wanted = *cap ? 2 * *cap : first;
  void *fresh = mem ? session_alloc_in(s, mem, wanted * item_bytes)
                    : session_alloc_array(s, wanted, item_bytes);

  if (n)
    memcpy(fresh, items, n * item_bytes);
  *cap = wanted;
  return fresh;
}

/* Make room for items[n]: `items` and `cap` are variables; `first` is the first capacity. */
#define GROW(s, items, n, cap, first) \
  ((items) = session_grown((s), NULL, (void *)(items), (n), &(cap), (first), sizeof *(items)))
#define GROW_IN(s, mem, items, n, cap, first) \
  ((items) = session_grown((s), (mem), (void *)(items), (n), &(cap), (first), sizeof *(items)))

#endif
