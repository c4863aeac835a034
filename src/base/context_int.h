/* base/context_int.h -- internals of a context, shared by context.c and memory.c. */
#ifndef RUSH_BASE_CONTEXT_INT_H
#define RUSH_BASE_CONTEXT_INT_H

#include "base/threads.h"

/* Size classes of data blocks up to 256 MB: four per octave below 1 MB, then eight; see
 * memory.c. */
#define N_DATA_CLASSES 121

typedef struct data_block data_block;

/* A block in use that was taken from a larger class than its size needs, and returns there when
 * freed. */
#define N_ODD_BLOCKS 64
typedef struct odd_block {
  void *p;
  int class;
} odd_block;

typedef struct data_class {
  _Atomic(data_block *) hot; /* one cached block, taken and stored by a single exchange */
  data_block *more;          /* the other blocks; protected by the cache's lock */
} data_class;

/* Counters that one thread writes, so that allocations need no locked instructions.  Pending counts
 * are added to the context's counters when they grow large. */
#define N_SHARDS 32
typedef struct mem_shard {
  _Alignas(64) _Atomic uint64_t owner; /* thread, or 0; unchanged when the thread ends */
  _Atomic int64_t pending_bytes;
  _Atomic uint64_t n_allocs, n_data, n_hits;
} mem_shard;

struct rush_context {
  /* The fields that every allocation uses are adjacent. */
  uint64_t id; /* distinguishes contexts that had the same address one after the other */
  bool limited;
  bool host_allocator;         /* the host provided the allocator's functions */
  bool caching;                /* free data blocks are cached */
  size_t limit_bytes;          /* SIZE_MAX / 4: no limit */
  /* For contexts made without a limit: larger blocks are checked before they are allocated.  0: all
   * are checked, against soft_bytes, which mem_set_limit set; else SIZE_MAX / 4. */
  _Atomic size_t unchecked_bytes;
  _Atomic size_t soft_bytes;
  _Atomic int64_t live_bytes;  /* without the shards' pending counts; can be negative temporarily */
  _Atomic int64_t peak_bytes;  /* exact if limited, else without pending counts */
  _Atomic size_t cached_bytes; /* blocks of 64 KB and more, and all but the first of their class */
  _Atomic uint64_t n_allocs;   /* without the shards' counts */
  _Atomic uint64_t n_data, n_hits;
  _Atomic int64_t heap_bytes,
    heap_mark; /* with a limit: bytes from malloc, and the most since malloc_trim */
  _Atomic int64_t packed_bytes;
  _Atomic uint32_t n_refused;
  _Atomic(const char *) refused_why; /* set by mem_refuse */
  _Atomic uint32_t refused_why_at;   /* the value of n_refused at that time */
  /* size of the last allocation that the limit refused and that was not reported; 0: none */
  _Atomic size_t refused_bytes;
  size_t (*_Atomic cached_above)(context *c); /* set by mem_set_cached, or NULL */
  mem_shard shards[N_SHARDS];

  _Atomic uint32_t refs;
  _Atomic uint32_t n_numbers; /* for context_number */
  _Atomic uint64_t n_interpreted; /* for context_count_interpreted */
  _Atomic uint64_t n_functions;   /* for context_count_function */
  _Atomic uint64_t state_epoch;   /* for context_state_changed */
  _Atomic uint64_t n_records;     /* for context_next_record */
  _Atomic bool keeps_subgraphs;   /* !context_inlines_subgraphs */
  _Atomic uint32_t plan_limits;   /* packed by context_set_plan_limits */
  _Atomic bool profiles;          /* context_set_profiling */
  _Atomic uint8_t default_dtype;  /* context_set_default_dtype */
  _Atomic bool fails_guards;      /* guard_seed or guard_nth is set */
  _Atomic uint64_t guard_seed, guard_nth;
  _Atomic uint64_t n_guards;      /* checked since they were set */
  bool (*interrupt)(void *user); /* set by context_set_interrupt, or NULL */
  void *interrupt_user;
  _Atomic uint32_t profile; /* number of the active profile, or 0 */
  context_options opt;
  mutex lock;
  mutex setup_lock; /* recursive */
  thread_pool *_Atomic pool;
  _Atomic(void *) slots[N_CONTEXT_SLOTS];
  void (*slot_destroy[N_CONTEXT_SLOTS])(context *c, void *object);

  mutex cache_lock;
  data_class classes[N_DATA_CLASSES];
  _Atomic int n_odd; /* entries of odd[]; both are protected by the cache's lock */
  odd_block odd[N_ODD_BLOCKS];
};

/* Allocate directly from the allocator, not counted: for the context itself. */
void *mem_raw_alloc(const mem_allocator *a, size_t n_bytes);
void mem_raw_free(const mem_allocator *a, void *p, size_t n_bytes);
/* Like mem_raw_alloc, aligned to 64 bytes. */
void *mem_raw_alloc_aligned(const mem_allocator *a, size_t n_bytes);
void mem_raw_free_aligned(const mem_allocator *a, void *p, size_t n_bytes);
/* Set up the counters of a zeroed context. */
void mem_init(context *c);

#endif
