/* support/budget.h -- an allocator that fails after a number of blocks, for contexts made through
 * the public header. */
#ifndef TEST_SUPPORT_BUDGET_H
#define TEST_SUPPORT_BUDGET_H

#include <stdlib.h>

typedef struct budget {
  long left; /* allocations before they fail */
  long live; /* blocks */
} budget;

static inline void *budget_alloc(void *user, size_t n)
{
  budget *b = user;

  if (b->left-- <= 0)
    return NULL;
  b->live++;
  return aligned_alloc(64, (n + 63) / 64 * 64);
}

static inline void budget_free(void *user, void *p, size_t n)
{
  (void)n;
  if (p)
    ((budget *)user)->live--;
  free(p);
}

#endif
