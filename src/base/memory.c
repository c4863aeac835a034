/* base/memory.c -- the allocator of a context: small blocks from malloc or the host, data blocks
 * from a cache by size class, limits and statistics. Without a limit, counts are kept in per-thread
 * shards, because one shared counter would cost more than a small allocation; with a limit they are
 * exact and shared. Blocks of 2 MB and more are mapped with huge pages. The cache is bounded and
 * emptied when it reaches the bound. Cost: a hit is one atomic exchange; at most a fifth of a block
 * is unused. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/context_int.h"
#include "base/count.h"
#include "base/host.h"

/* Data blocks of this size or more are mapped, aligned for huge pages: touching fresh 4 KB pages
 * costs more than most kernels that run over them. */
#define HUGE_BYTES ((size_t)2 << 20)
/* Bound on the cache.  Reaching it empties the whole cache, so that unused sizes do not stay for
 * ever. */
#define CACHE_BYTES ((size_t)1 << 30)
/* The largest block that is cached. */
#define LARGEST_CACHED ((size_t)256 << 20)
#define LAST_OCTAVE 27
#define DATA_ALIGN 64

#if defined(__SANITIZE_ADDRESS__)
#define CACHING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CACHING 0
#endif
#endif
#ifndef CACHING
#define CACHING 1
#endif

struct data_block { /* a cached block's first bytes */
  data_block *next;
};

/* -- The allocator below ----------------------------------------------------------------------- */

void *mem_raw_alloc(const mem_allocator *a, size_t n_bytes)
{
  return a->alloc ? a->alloc(a->user, n_bytes) : malloc(n_bytes);
}

void mem_raw_free(const mem_allocator *a, void *p, size_t n_bytes)
{
  if (a->alloc)
    a->free(a->user, p, n_bytes);
  else
    free(p);
}

void *mem_raw_alloc_aligned(const mem_allocator *a, size_t n_bytes)
{
  char *p = mem_raw_alloc(a, n_bytes + DATA_ALIGN);
  if (!p)
    return NULL;
  /* The byte before the block holds the shift, 1..64. */
  size_t shift = DATA_ALIGN - ((uintptr_t)p & (DATA_ALIGN - 1));
  p[shift - 1] = (char)shift;
  return p + shift;
}

void mem_raw_free_aligned(const mem_allocator *a, void *p, size_t n_bytes)
{
  char *q = p;
  mem_raw_free(a, q - q[-1], n_bytes + DATA_ALIGN);
}

/* -- Data: size classes ------------------------------------------------------------------------ */

/* Return the class of a size, and its block size; -1 if it is larger than any class.  There are
 * four classes per octave from 64 bytes on, eight from 1 MB on: at most a fifth (a ninth) of a
 * block is unused.
 *
 * Without a limit large sizes have one class per octave, which ends an eighth (a quarter) above the
 * power of two: inputs of changing sizes then share few blocks, and memory use settles soon.
 * Untouched pages of a block cost nothing; with a host's allocator this cannot be assumed. */
#define COARSE_OCTAVE 17
static int size_class(const context *c, size_t n, size_t *block_bytes)
{
  if (n <= DATA_ALIGN) {
    *block_bytes = DATA_ALIGN;
    return 0;
  }
  if (n > LARGEST_CACHED) {
    *block_bytes = (n + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
    return -1;
  }
  int octave = 63 - __builtin_clzll((unsigned long long)n - 1); /* 2^octave <= n - 1 */
  int step_bits = octave >= 20 ? 3 : octave >= 8 ? 2 : octave - 6;
  size_t step = (size_t)1 << (octave - step_bits);
  size_t in_octave = (n - 1 - ((size_t)1 << octave)) >> (octave - step_bits);
  if (!c->limited && !c->host_allocator && in_octave > 0 && octave >= COARSE_OCTAVE &&
      octave < LAST_OCTAVE) {
    octave++;
    in_octave = 0;
    step = (size_t)1 << (octave - (octave >= 20 ? 3 : 2));
  }
  *block_bytes = ((size_t)1 << octave) + (in_octave + 1) * step;
  if (octave < 20)
    return 1 + (octave - 6) * 4 + (int)in_octave;
  return 1 + 14 * 4 + (octave - 20) * 8 + (int)in_octave;
}

/* Return the block size of class k: the inverse of size_class. */
static size_t class_bytes(int k)
{
  if (k == 0)
    return DATA_ALIGN;
  k -= 1;
  int octave = k < 14 * 4 ? 6 + k / 4 : 20 + (k - 14 * 4) / 8;
  int in_octave = k < 14 * 4 ? k % 4 : (k - 14 * 4) % 8;
  int step_bits = octave >= 20 ? 3 : octave >= 8 ? 2 : octave - 6;
  return ((size_t)1 << octave) + ((size_t)in_octave + 1) * ((size_t)1 << (octave - step_bits));
}

/* True if the first cached block of a class is counted: small ones are too few bytes for an atomic
 * addition, unless a limit must be exact. */
static inline bool hot_is_counted(const context *c, size_t n_bytes)
{
  return n_bytes >= 65536 || c->limited;
}

/* -- Accounting -------------------------------------------------------------------------------- */

/* A context with a limit counts exactly, with atomic additions, before it allocates.  One without a
 * limit counts afterwards, in the thread's shard: two plain additions. */
#define PENDING_BYTES 65536

/* The shard that this thread used last: part of the library's per-thread state
 * (docs/architecture.md). */
static _Thread_local struct {
  context *ctx;
  uint64_t id;
  mem_shard *shard; /* NULL: all were taken */
} mine __attribute__((tls_model("initial-exec")));

static mem_shard *claim_shard(context *c)
{
  uint64_t self = (uint64_t)(uintptr_t)pthread_self();
  mem_shard *found = NULL;
  for (int i = 0; i < N_SHARDS && !found; i++) {
    uint64_t owner = atomic_load_explicit(&c->shards[i].owner, memory_order_relaxed);
    if (owner == self ||
        (!owner && atomic_compare_exchange_strong(&c->shards[i].owner, &owner, self)))
      found = &c->shards[i];
  }
  mine.ctx = c;
  mine.id = c->id;
  mine.shard = found;
  return found;
}

static inline mem_shard *my_shard(context *c)
{
  return LIKELY(mine.ctx == c && mine.id == c->id) ? mine.shard : claim_shard(c);
}

static void raise_peak(context *c, int64_t live)
{
  int64_t peak = atomic_load_explicit(&c->peak_bytes, memory_order_relaxed);
  while (live > peak &&
         !atomic_compare_exchange_weak_explicit(&c->peak_bytes, &peak, live, memory_order_relaxed,
                                                memory_order_relaxed)) {}
}

static void count_shared(context *c, int64_t n_bytes, unsigned n_allocs)
{
  int64_t live = atomic_fetch_add_explicit(&c->live_bytes, n_bytes, memory_order_relaxed) + n_bytes;
  if (n_bytes > 0 && live > atomic_load_explicit(&c->peak_bytes, memory_order_relaxed))
    raise_peak(c, live);
  if (n_allocs)
    atomic_fetch_add_explicit(&c->n_allocs, n_allocs, memory_order_relaxed);
}

static inline void count(context *c, int64_t n_bytes, unsigned n_allocs)
{
  mem_shard *s = my_shard(c);
  if (UNLIKELY(!s)) {
    count_shared(c, n_bytes, n_allocs);
    return;
  }
  int64_t pending = atomic_load_explicit(&s->pending_bytes, memory_order_relaxed) + n_bytes;
  if (UNLIKELY(pending > PENDING_BYTES || pending < -PENDING_BYTES)) {
    count_shared(c, pending, 0);
    pending = 0;
  }
  atomic_store_explicit(&s->pending_bytes, pending, memory_order_relaxed);
  uint64_t n = atomic_load_explicit(&s->n_allocs, memory_order_relaxed);
  atomic_store_explicit(&s->n_allocs, n + n_allocs, memory_order_relaxed);
}

uint32_t mem_n_refused(const context *c)
{
  return atomic_load_explicit(&c->n_refused, memory_order_relaxed);
}

static void count_refused(context *c)
{
  atomic_fetch_add_explicit(&c->n_refused, 1, memory_order_relaxed);
}

void mem_refuse(context *c, const char *why)
{
  count_refused(c);
  atomic_store_explicit(&c->refused_why_at, mem_n_refused(c), memory_order_relaxed);
  atomic_store_explicit(&c->refused_why, why, memory_order_relaxed);
}

static bool refuse_bytes(context *c, size_t n)
{
  count_refused(c);
  atomic_store_explicit(&c->refused_bytes, n ? n : 1, memory_order_relaxed);
  return false;
}

/* Count one allocation of data; `hit`: it was found in the cache. */
static inline void count_data(context *c, bool hit)
{
  mem_shard *s = my_shard(c);
  _Atomic uint64_t *data = s ? &s->n_data : &c->n_data, *hits = s ? &s->n_hits : &c->n_hits;
  if (LIKELY(s != NULL)) { /* the thread's own: no locked instruction */
    atomic_store_explicit(data, atomic_load_explicit(data, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(hits, atomic_load_explicit(hits, memory_order_relaxed) + hit,
                          memory_order_relaxed);
  } else {
    atomic_fetch_add_explicit(data, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(hits, hit, memory_order_relaxed);
  }
}

/* Count n bytes if this does not exceed the limit; else return false. */
static bool reserve_limited(context *c, size_t n)
{
  if (n > c->limit_bytes)
    return refuse_bytes(c, n);
  int64_t live =
    atomic_fetch_add_explicit(&c->live_bytes, (int64_t)n, memory_order_relaxed) + (int64_t)n;
  if (live > (int64_t)c->limit_bytes) {
    count_shared(c, -(int64_t)n, 0);
    return refuse_bytes(c, n);
  }
  raise_peak(c, live);
  atomic_fetch_add_explicit(&c->n_allocs, 1, memory_order_relaxed);
  if (atomic_load_explicit(&c->cached_bytes, memory_order_relaxed) > c->limit_bytes - (size_t)live)
    mem_trim(c);
  return true;
}

/* True if n bytes fit under a limit that was set later.  Adding up the shards costs more than an
 * allocation, so this is done only near the limit, where their pending bytes matter. */
static bool fits_softly(context *c, size_t n)
{
  const int64_t most = (int64_t)atomic_load_explicit(&c->soft_bytes, memory_order_relaxed);
  const int64_t live = atomic_load_explicit(&c->live_bytes, memory_order_relaxed);

  if (n > SIZE_MAX / 4)
    return refuse_bytes(c, 0);
  return live + N_SHARDS * PENDING_BYTES <= most - (int64_t)n ||
         mem_live_bytes(c) <= most - (int64_t)n || refuse_bytes(c, n);
}

/* Count before an allocation; returns false to refuse it. */
static inline bool take_bytes(context *c, size_t n)
{
  if (UNLIKELY(c->limited))
    return reserve_limited(c, n);
  return LIKELY(n <= atomic_load_explicit(&c->unchecked_bytes, memory_order_relaxed)) ||
         fits_softly(c, n);
}

/* Count after an allocation; `p` is its result. */
static inline void *taken(context *c, void *p, size_t n)
{
  if (LIKELY(p && !c->limited))
    count(c, (int64_t)n, 1);
  else if (!p && c->limited)
    count_shared(c, -(int64_t)n, 0);
  if (UNLIKELY(!p))
    count_refused(c);
  return p;
}

static inline void uncount(context *c, size_t n)
{
  if (LIKELY(!c->limited))
    count(c, -(int64_t)n, 0);
  else
    count_shared(c, -(int64_t)n, 0);
}

bool mem_count(context *c, size_t n_bytes)
{
  if (!take_bytes(c, n_bytes))
    return false;
  if (!c->limited)
    count(c, (int64_t)n_bytes, 1);
  return true;
}

void mem_uncount(context *c, size_t n_bytes)
{
  uncount(c, n_bytes);
}

/* Return the limit on live bytes, or SIZE_MAX / 4. */
static size_t most_bytes(const context *c)
{
  return c->limited ? c->limit_bytes : atomic_load_explicit(&c->soft_bytes, memory_order_relaxed);
}

static rush_status over_limit(call_ctx *cx, size_t n_bytes)
{
  context *c = cx->ctx;
  const int64_t live = mem_live_bytes(c);

  return error_set_limit(cx->err, RUSH_LIMIT_BYTES, "MemoryError",
                         "%zu bytes more, with %lld in use, would pass the limit of %zu bytes",
                         n_bytes, (long long)live, most_bytes(c));
}

/* If memory is full and the limit is not reached, any earlier refusal by the limit was reported. */
rush_status call_nomem(call_ctx *cx)
{
  const bool any = most_bytes(cx->ctx) != SIZE_MAX / 4;
  size_t n = any ? atomic_exchange_explicit(&cx->ctx->refused_bytes, 0, memory_order_relaxed) : 0;
  const char *why = atomic_exchange_explicit(&cx->ctx->refused_why, NULL, memory_order_relaxed);
  if (n)
    return over_limit(cx, n);
  if (why && atomic_load_explicit(&cx->ctx->refused_why_at, memory_order_relaxed) ==
               mem_n_refused(cx->ctx))
    return error_set_type(cx->err, RUSH_ELIMIT, "MemoryError", "%s", why);
  error_nomem(cx->err);
  return RUSH_ENOMEM; /* written here, so that the compiler treats it as a failure */
}

rush_status call_nomem_bytes(call_ctx *cx, size_t n_bytes)
{
  context *c = cx->ctx;
  const int64_t live = mem_live_bytes(c);
  const size_t most = most_bytes(c);

  if (most == SIZE_MAX / 4 || (n_bytes < most && live + (int64_t)n_bytes <= (int64_t)most))
    return call_nomem(cx);
  atomic_store_explicit(&c->refused_bytes, 0, memory_order_relaxed);
  return over_limit(cx, n_bytes);
}

void mem_init(context *c)
{
  size_t limit = c->opt.limit_bytes;
  c->id = clock_ns();
  c->limited = limit != 0;
  c->limit_bytes = limit && limit < SIZE_MAX / 4 ? limit : SIZE_MAX / 4;
  atomic_init(&c->unchecked_bytes, SIZE_MAX / 4);
  atomic_init(&c->soft_bytes, SIZE_MAX / 4);
  c->host_allocator = c->opt.allocator.alloc != NULL;
  c->caching = CACHING && !c->opt.no_cache;
}

bool mem_set_limit(context *c, size_t n_bytes)
{
  const bool any = n_bytes != 0 && n_bytes < SIZE_MAX / 4;

  if (c->limited)
    return false;
  atomic_store_explicit(&c->soft_bytes, any ? n_bytes : SIZE_MAX / 4, memory_order_relaxed);
  atomic_store_explicit(&c->unchecked_bytes, any ? 0 : SIZE_MAX / 4, memory_order_relaxed);
  return true;
}

int64_t mem_live_bytes(context *c)
{
  int64_t live = atomic_load_explicit(&c->live_bytes, memory_order_relaxed);

  for (int i = 0; i < N_SHARDS; i++)
    live += atomic_load_explicit(&c->shards[i].pending_bytes, memory_order_relaxed);
  return live;
}

void mem_get_stats(context *c, mem_stats *out)
{
  c = context_or_default(c);
  int64_t live = atomic_load(&c->live_bytes);
  size_t cached = atomic_load(&c->cached_bytes);
  uint64_t n_allocs = atomic_load(&c->n_allocs), n_data = atomic_load(&c->n_data),
           n_hits = atomic_load(&c->n_hits);
  int64_t packed = atomic_load(&c->packed_bytes);
  for (int i = 0; i < N_SHARDS; i++) {
    live += atomic_load(&c->shards[i].pending_bytes);
    n_allocs += atomic_load(&c->shards[i].n_allocs);
    n_data += atomic_load(&c->shards[i].n_data);
    n_hits += atomic_load(&c->shards[i].n_hits);
  }
  for (int k = 0; k < N_DATA_CLASSES; k++)
    if (atomic_load(&c->classes[k].hot) && !hot_is_counted(c, class_bytes(k)))
      cached += class_bytes(k);
  raise_peak(c, live);
  size_t (*above)(context *) = atomic_load(&c->cached_above);
  size_t n_above = above ? above(c) : 0;
  live -= (int64_t)n_above;
  cached += n_above;
  *out = (mem_stats){
    .live_bytes = live > 0 ? (size_t)live : 0,
    .peak_bytes = (size_t)atomic_load(&c->peak_bytes),
    .cached_bytes = cached,
    .packed_bytes = packed > 0 ? (size_t)packed : 0,
    .limit_bytes = c->limited ? c->limit_bytes : 0,
    .n_allocs = n_allocs,
    .n_data = n_data,
    .n_hits = n_hits,
  };
}

void mem_count_packed(context *c, int64_t n_bytes)
{
  atomic_fetch_add_explicit(&c->packed_bytes, n_bytes, memory_order_relaxed);
}

void mem_set_cached(context *c, size_t (*cached_bytes)(context *c))
{
  atomic_store(&c->cached_above, cached_bytes);
}

void mem_reset_peak(context *c)
{
  atomic_store(&c->peak_bytes, mem_live_bytes(c));
}

/* -- Small blocks ------------------------------------------------------------------------------ */

/* With slow checks a block starts with its size, so that freeing it with another size is
 * detected. */
#ifdef RUSH_SLOW_CHECKS
#define SIZE_HEADER 16
#else
#define SIZE_HEADER 0
#endif

static inline void *note_size(void *p, size_t n_bytes)
{
  if (SIZE_HEADER && p) {
    memcpy(p, &n_bytes, sizeof n_bytes);
    return (char *)p + SIZE_HEADER;
  }
  return p;
}

static inline void *check_size(void *p, size_t n_bytes)
{
  if (SIZE_HEADER && p) {
    size_t noted;
    p = (char *)p - SIZE_HEADER;
    memcpy(&noted, p, sizeof noted);
    ASSERT(noted == n_bytes, "freed with another size than allocated");
  }
  (void)n_bytes;
  return p;
}

/* Return what a block costs the process, which a limit applies to; without a limit, the bytes
 * requested. */
static inline size_t cost(const context *c, size_t n)
{
  if (LIKELY(!c->limited) || n > SIZE_MAX / 4)
    return n;
  return n <= 24 ? 32 : (n + 8 + 15) & ~(size_t)15; /* malloc's blocks */
}

static inline size_t data_cost(const context *c, size_t n)
{
  size_t block;
  if (LIKELY(!c->limited) || !c->caching || n > SIZE_MAX / 4)
    return n;
  (void)size_class(c, n, &block);
  return block;
}

/* malloc keeps freed memory.  A context with a limit trims it when it is much, so that the process
 * stays within the limit too. */
#define HEAP_SLACK (8 << 20)

static void *count_allocated(context *c, void *p, size_t n)
{
  if (UNLIKELY(c->limited && p)) {
    int64_t now =
      atomic_fetch_add_explicit(&c->heap_bytes, (int64_t)n, memory_order_relaxed) + (int64_t)n;
    if (now > atomic_load_explicit(&c->heap_mark, memory_order_relaxed))
      atomic_store_explicit(&c->heap_mark, now, memory_order_relaxed);
  }
  return p;
}

static void count_freed(context *c, size_t n)
{
  if (LIKELY(!c->limited))
    return;
  int64_t now =
    atomic_fetch_sub_explicit(&c->heap_bytes, (int64_t)n, memory_order_relaxed) - (int64_t)n;
  if (LIKELY(atomic_load_explicit(&c->heap_mark, memory_order_relaxed) - now < HEAP_SLACK))
    return;
  atomic_store_explicit(&c->heap_mark, now, memory_order_relaxed);
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

/* Advise huge pages for large blocks of malloc, which are mapped: this makes them cheap to touch
 * and to return. */
static void *advise(void *p, size_t n)
{
#ifdef MADV_HUGEPAGE
  if (UNLIKELY(n >= 4 * HUGE_BYTES) && p) {
    uintptr_t begin = ((uintptr_t)p + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)p + n) & ~(uintptr_t)(HUGE_BYTES - 1);
    madvise((void *)begin, end - begin, MADV_HUGEPAGE);
  }
#else
  (void)n;
#endif
  return p;
}

void *mem_alloc(context *c, size_t n_bytes)
{
  const size_t counted = cost(c, n_bytes);
  if (!take_bytes(c, counted))
    return NULL;
  size_t n = n_bytes + SIZE_HEADER;
  void *p =
    c->host_allocator ? mem_raw_alloc(&c->opt.allocator, n ? n : 1) : advise(malloc(n ? n : 1), n);
  return note_size(taken(c, count_allocated(c, p, counted), counted), n_bytes);
}

void *mem_alloc_zero(context *c, size_t n_bytes)
{
  if (c->host_allocator || SIZE_HEADER) {
    void *p = mem_alloc(c, n_bytes);
    return p ? memset(p, 0, n_bytes) : NULL;
  }
  const size_t counted = cost(c, n_bytes);
  if (!take_bytes(c, counted))
    return NULL;
  return taken(c, count_allocated(c, calloc(1, n_bytes ? n_bytes : 1), counted), counted);
}

void *mem_realloc(context *c, void *p, size_t old_bytes, size_t new_bytes)
{
  if (!p)
    return mem_alloc(c, new_bytes);
  if (c->host_allocator || SIZE_HEADER) {
    void *q = mem_alloc(c, new_bytes);
    if (q) {
      memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
      mem_free(c, p, old_bytes);
    }
    return q;
  }
  const size_t counted = cost(c, new_bytes);
  if (!take_bytes(c, counted))
    return NULL;
  void *q = taken(c, advise(realloc(p, new_bytes ? new_bytes : 1), new_bytes), counted);
  if (q) {
    uncount(c, cost(c, old_bytes));
    (void)count_allocated(c, q, counted);
    count_freed(c, cost(c, old_bytes));
  }
  return q;
}

void mem_free(context *c, void *p, size_t n_bytes)
{
  if (!p)
    return;
  uncount(c, cost(c, n_bytes));
  p = check_size(p, n_bytes);
  if (c->host_allocator)
    c->opt.allocator.free(c->opt.allocator.user, p, n_bytes + SIZE_HEADER);
  else
    free(p);
  count_freed(c, cost(c, n_bytes));
}

/* -- Data: blocks ------------------------------------------------------------------------------ */

/* Map n bytes, of which `wanted` are going to be used.  Only huge pages that are used nearly whole
 * are requested: the first write to a huge page takes all of it. */
static void *map_huge(size_t n, size_t wanted)
{
  char *p = mmap(NULL, n + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return NULL;
  size_t before = (HUGE_BYTES - ((uintptr_t)p & (HUGE_BYTES - 1))) & (HUGE_BYTES - 1);
  if (before)
    munmap(p, before);
  munmap(p + before + n, HUGE_BYTES - before);
#ifdef MADV_HUGEPAGE
  const size_t huge = (wanted + HUGE_BYTES / 8) & ~(HUGE_BYTES - 1);
  if (huge)
    madvise(p + before, huge < n ? huge : n, MADV_HUGEPAGE);
#endif
  return p + before;
}

static void *block_alloc(context *c, size_t n, size_t wanted)
{
  if (c->host_allocator)
    return mem_raw_alloc_aligned(&c->opt.allocator, n);
  return n >= HUGE_BYTES ? map_huge(n, wanted)
                         : count_allocated(c, aligned_alloc(DATA_ALIGN, n), n);
}

static void block_free(context *c, void *p, size_t n)
{
  if (c->host_allocator) {
    mem_raw_free_aligned(&c->opt.allocator, p, n);
  } else if (n >= HUGE_BYTES) {
    munmap(p, n);
  } else {
    free(p);
    count_freed(c, n);
  }
}

/* -- Data: the cache --------------------------------------------------------------------------- */

static inline data_block *take_hot(data_class *k)
{
  if (!process_is_single())
    return atomic_exchange_explicit(&k->hot, NULL, memory_order_acquire);
  data_block *b = atomic_load_explicit(&k->hot, memory_order_relaxed);
  atomic_store_explicit(&k->hot, NULL, memory_order_relaxed);
  return b;
}

/* Keep b there; false if there is a block. */
static inline bool put_hot(data_class *k, data_block *b)
{
  data_block *none = NULL;

  if (!process_is_single())
    return atomic_compare_exchange_strong_explicit(&k->hot, &none, b, memory_order_release,
                                                   memory_order_relaxed);
  if (atomic_load_explicit(&k->hot, memory_order_relaxed))
    return false;
  atomic_store_explicit(&k->hot, b, memory_order_relaxed);
  return true;
}

static data_block *cache_get(context *c, int class, size_t n)
{
  data_class *k = &c->classes[class];
  data_block *b = NULL;
  if (atomic_load_explicit(&k->hot, memory_order_relaxed))
    b = take_hot(k);
  if (b) {
    if (hot_is_counted(c, n))
      atomic_fetch_sub_explicit(&c->cached_bytes, n, memory_order_relaxed);
    return b;
  }
  if (atomic_load_explicit(&c->cached_bytes, memory_order_relaxed) < n)
    return NULL;
  mutex_lock(&c->cache_lock);
  b = k->more;
  if (b)
    k->more = b->next;
  mutex_unlock(&c->cache_lock);
  if (b)
    atomic_fetch_sub_explicit(&c->cached_bytes, n, memory_order_relaxed);
  return b;
}

static void cache_put(context *c, int class, size_t n, data_block *b)
{
  data_class *k = &c->classes[class];
  if (hot_is_counted(c, n))
    atomic_fetch_add_explicit(&c->cached_bytes, n, memory_order_relaxed);
  if (put_hot(k, b))
    return;
  if (!hot_is_counted(c, n))
    atomic_fetch_add_explicit(&c->cached_bytes, n, memory_order_relaxed);
  mutex_lock(&c->cache_lock);
  b->next = k->more;
  k->more = b;
  mutex_unlock(&c->cache_lock);
}

void mem_trim(context *c)
{
  for (int k = 0; k < N_DATA_CLASSES; k++) {
    size_t n = class_bytes(k);
    for (data_block *b; (b = cache_get(c, k, n)) != NULL;)
      block_free(c, b, n);
  }
}

/* Take a cached block of the next octave if the class has none: blocks of large inputs are reused
 * for smaller ones.  Returns NULL if there is none.  A still larger block is likely to be needed as
 * a whole soon: lending those added 3 MB to the 16 MB of a training step of an MLP. */
static data_block *borrow_larger(context *c, size_t block)
{
  if (atomic_load_explicit(&c->cached_bytes, memory_order_relaxed) < block)
    return NULL;
  int class = size_class(c, block + 1, &block);
  data_block *b = class < 0 ? NULL : cache_get(c, class, block);
  if (!b)
    return NULL;
  mutex_lock(&c->cache_lock);
  int n = atomic_load_explicit(&c->n_odd, memory_order_relaxed);
  if (n < N_ODD_BLOCKS) {
    c->odd[n] = (odd_block){b, class};
    atomic_store_explicit(&c->n_odd, n + 1, memory_order_relaxed);
  }
  mutex_unlock(&c->cache_lock);
  if (n < N_ODD_BLOCKS)
    return b;
  cache_put(c, class, block, b);
  return NULL;
}

/* Find the class that an odd block was taken from. */
static void find_odd(context *c, const void *p, int *class, size_t *block)
{
  mutex_lock(&c->cache_lock);
  int n = atomic_load_explicit(&c->n_odd, memory_order_relaxed);
  for (int i = 0; i < n; i++)
    if (c->odd[i].p == p) {
      *class = c->odd[i].class;
      *block = class_bytes(*class);
      c->odd[i] = c->odd[n - 1];
      atomic_store_explicit(&c->n_odd, n - 1, memory_order_relaxed);
      break;
    }
  mutex_unlock(&c->cache_lock);
}

/* -- Data: the calls --------------------------------------------------------------------------- */

/* Allocate without a cache: exact sizes, so that overruns are detected. */
static void *alloc_exactly(context *c, size_t n_bytes)
{
  void *p;
  if (c->host_allocator)
    return mem_raw_alloc_aligned(&c->opt.allocator, n_bytes);
  return posix_memalign(&p, DATA_ALIGN, n_bytes ? n_bytes : 1) == 0 ? p : NULL;
}

void *mem_alloc_data(context *c, size_t n_bytes)
{
  const size_t counted = data_cost(c, n_bytes);
  if (!take_bytes(c, counted))
    return NULL;
  void *p;
  if (UNLIKELY(!c->caching)) {
    p = alloc_exactly(c, n_bytes);
  } else {
    size_t block;
    int class = size_class(c, n_bytes, &block);
    p = class < 0 ? NULL : cache_get(c, class, block);
    if (!p && class >= 0 && block >= (size_t)1 << COARSE_OCTAVE && !c->limited &&
        !c->host_allocator)
      p = borrow_larger(c, block);
    count_data(c, p != NULL);
    if (!p)
      p = block_alloc(c, block, n_bytes);
    if (!p) {
      mem_trim(c);
      p = block_alloc(c, block, n_bytes);
    }
  }
  return taken(c, p, counted);
}

static bool may_cache(context *c, size_t block)
{
  if (!c->limited && block < 65536)
    return true;
  size_t cached = atomic_load_explicit(&c->cached_bytes, memory_order_relaxed) + block;
  if (c->limited) {
    int64_t live = atomic_load_explicit(&c->live_bytes, memory_order_relaxed);
    return (int64_t)cached + live <= (int64_t)c->limit_bytes;
  }
  if (cached > CACHE_BYTES)
    mem_trim(c);
  return true;
}

void mem_free_data(context *c, void *p, size_t n_bytes)
{
  if (!p)
    return;
  uncount(c, data_cost(c, n_bytes));
  if (UNLIKELY(!c->caching)) {
    if (c->host_allocator)
      mem_raw_free_aligned(&c->opt.allocator, p, n_bytes);
    else
      free(p);
    return;
  }
  size_t block;
  int class = size_class(c, n_bytes, &block);
  if (UNLIKELY(atomic_load_explicit(&c->n_odd, memory_order_relaxed) > 0) &&
      block >= (size_t)1 << COARSE_OCTAVE)
    find_odd(c, p, &class, &block);
  if (class >= 0 && may_cache(c, block))
    cache_put(c, class, block, p);
  else
    block_free(c, p, block);
}
