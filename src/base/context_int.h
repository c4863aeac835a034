/* base/context_int.h -- the inside of a context, for context.c and memory.c. */
#ifndef RUSH_BASE_CONTEXT_INT_H
#define RUSH_BASE_CONTEXT_INT_H

#include "base/threads.h"

/* Size classes of data blocks up to 256 MB: four (below 1 MB) or eight an octave, see memory.c. */
#define N_DATA_CLASSES 121

typedef struct data_block data_block;

typedef struct data_class {
  _Atomic(data_block *) hot; /* one cached block, taken and put by a single exchange */
  data_block *more;          /* the others; under the cache's lock */
} data_class;

struct rush_context {
  /* What every allocation touches stands together. */
  _Atomic size_t live_bytes;
  _Atomic size_t peak_bytes;
  _Atomic size_t cached_bytes;
  _Atomic uint64_t n_allocs; /* statistics only: counted loosely when threads race */
  size_t limit_bytes;        /* SIZE_MAX: none */
  bool host_allocator;       /* the host gave functions: no caching */

  _Atomic uint32_t refs;
  context_options opt;
  mutex lock;
  thread_pool *_Atomic pool;
  _Atomic(void *) slots[N_CONTEXT_SLOTS];
  void (*slot_destroy[N_CONTEXT_SLOTS])(context *c, void *object);

  mutex cache_lock;
  data_class classes[N_DATA_CLASSES];
};

/* Straight from the allocator, not counted: what the context itself is made of. */
void *mem_raw_alloc(const mem_allocator *a, size_t n_bytes);
void mem_raw_free(const mem_allocator *a, void *p, size_t n_bytes);
/* Give all cached blocks back. */
void mem_trim(context *c);

#endif
