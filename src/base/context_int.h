/* base/context_int.h -- the inside of a context, for context.c and memory.c. */
#ifndef RUSH_BASE_CONTEXT_INT_H
#define RUSH_BASE_CONTEXT_INT_H

#include "base/threads.h"

/* Size classes of data blocks up to 256 MB: four (below 1 MB) or eight an octave, see memory.c. */
#define N_DATA_CLASSES 121

typedef struct data_block data_block;

/* A block in use that is larger than its size asks for: it came from a larger class, and goes back
 * there. */
#define N_ODD_BLOCKS 64
typedef struct odd_block {
  void *p;
  int class;
} odd_block;

typedef struct data_class {
  _Atomic(data_block *) hot; /* one cached block, taken and put by a single exchange */
  data_block *more;          /* the others; under the cache's lock */
} data_class;

/* Accounts of one thread, written by it alone: an allocation need not lock a cache line.  What is
 * pending goes to the context's account when it is much. */
#define N_SHARDS 32
typedef struct mem_shard {
  _Alignas(64) _Atomic uint64_t owner; /* thread, or 0; kept after the thread's end */
  _Atomic int64_t pending_bytes;
  _Atomic uint64_t n_allocs, n_data, n_hits;
} mem_shard;

struct rush_context {
  /* What every allocation touches stands together. */
  uint64_t id; /* tells contexts apart that had the same address one after the other */
  bool limited;
  bool host_allocator;         /* the host gave functions */
  bool caching;                /* of free data blocks */
  size_t limit_bytes;          /* SIZE_MAX / 4: none */
  /* Of a context that was made without a limit: larger blocks are looked at before they are
   * allocated.  0: all are, against soft_bytes, which mem_set_limit set; else SIZE_MAX / 4. */
  _Atomic size_t unchecked_bytes;
  _Atomic size_t soft_bytes;
  _Atomic int64_t live_bytes;  /* without what shards have pending; below 0 in between */
  _Atomic int64_t peak_bytes;  /* to within what shards have pending, unless limited */
  _Atomic size_t cached_bytes; /* blocks of 64 KB and more, or behind another of their class */
  _Atomic uint64_t n_allocs;   /* without the shards' */
  _Atomic uint64_t n_data, n_hits;
  _Atomic int64_t heap_bytes,
    heap_mark; /* with a limit: what malloc gave, and the most since malloc_trim */
  _Atomic int64_t packed_bytes;
  _Atomic uint32_t n_refused;
  _Atomic(const char *) refused_why; /* mem_refuse */
  _Atomic uint32_t refused_why_at;   /* what n_refused was then */
  _Atomic size_t refused_bytes; /* what the limit refused last, until somebody tells; 0: nothing */
  size_t (*_Atomic cached_above)(context *c); /* mem_set_cached, or NULL */
  mem_shard shards[N_SHARDS];

  _Atomic uint32_t refs;
  _Atomic uint32_t n_numbers; /* context_number */
  _Atomic uint64_t n_interpreted; /* context_count_interpreted */
  _Atomic uint64_t n_functions;   /* context_count_function */
  bool (*interrupt)(void *user); /* context_set_interrupt, or NULL */
  void *interrupt_user;
  _Atomic uint32_t profile; /* the number of the one that is on, or 0 */
  context_options opt;
  mutex lock;
  mutex setup_lock; /* recursive */
  thread_pool *_Atomic pool;
  _Atomic(void *) slots[N_CONTEXT_SLOTS];
  void (*slot_destroy[N_CONTEXT_SLOTS])(context *c, void *object);

  mutex cache_lock;
  data_class classes[N_DATA_CLASSES];
  _Atomic int n_odd; /* entries of odd[]; both under the cache's lock */
  odd_block odd[N_ODD_BLOCKS];
};

/* Straight from the allocator, not counted: what the context itself is made of. */
void *mem_raw_alloc(const mem_allocator *a, size_t n_bytes);
void mem_raw_free(const mem_allocator *a, void *p, size_t n_bytes);
/* The same, aligned to 64 bytes. */
void *mem_raw_alloc_aligned(const mem_allocator *a, size_t n_bytes);
void mem_raw_free_aligned(const mem_allocator *a, void *p, size_t n_bytes);
/* Set up the accounts of a context that is all zeros. */
void mem_init(context *c);

#endif
