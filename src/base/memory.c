#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/context_int.h"

/* Data blocks of this size or more are mapped, aligned to huge pages and ask for them: touching fresh 4 KB
 * pages costs more than most kernels that run over them. */
#define HUGE_BYTES ((size_t)2 << 20)
/* More than this is never cached.  Reaching it drops the whole cache, so that sizes which went out of
 * use do not stay for ever. */
#define CACHE_BYTES ((size_t)512 << 20)
/* The largest block that is cached. */
#define LARGEST_CACHED ((size_t)256 << 20)
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

/* -- The allocator below ------------------------------------------------------------------------ */

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

/* -- Accounting --------------------------------------------------------------------------------- */

/* Loads and stores instead of an atomic addition: a number for people need not be exact. */
static inline void count_alloc(context *c)
{
  uint64_t n = atomic_load_explicit(&c->n_allocs, memory_order_relaxed);
  atomic_store_explicit(&c->n_allocs, n + 1, memory_order_relaxed);
}

static void raise_peak(context *c, size_t live)
{
  size_t peak = atomic_load_explicit(&c->peak_bytes, memory_order_relaxed);
  while (live > peak && !atomic_compare_exchange_weak_explicit(
                          &c->peak_bytes, &peak, live, memory_order_relaxed, memory_order_relaxed)) {
  }
}

static inline void give(context *c, size_t n)
{
  atomic_fetch_sub_explicit(&c->live_bytes, n, memory_order_relaxed);
}

/* False, and nothing counted, when n bytes more would pass the limit. */
static inline bool take(context *c, size_t n)
{
  size_t old = atomic_fetch_add_explicit(&c->live_bytes, n, memory_order_relaxed);
  size_t cached = atomic_load_explicit(&c->cached_bytes, memory_order_relaxed);
  if (UNLIKELY(n > c->limit_bytes || old > c->limit_bytes - n)) {
    give(c, n);
    return false;
  }
  if (UNLIKELY(cached > c->limit_bytes - n - old))
    mem_trim(c);
  if (old + n > atomic_load_explicit(&c->peak_bytes, memory_order_relaxed))
    raise_peak(c, old + n);
  count_alloc(c);
  return true;
}

void mem_get_stats(context *c, mem_stats *out)
{
  c = context_or_default(c);
  *out = (mem_stats){
    .live_bytes = atomic_load(&c->live_bytes),
    .peak_bytes = atomic_load(&c->peak_bytes),
    .cached_bytes = atomic_load(&c->cached_bytes),
    .n_allocs = atomic_load(&c->n_allocs),
  };
}

void mem_reset_peak(context *c) { atomic_store(&c->peak_bytes, atomic_load(&c->live_bytes)); }

/* -- Small blocks ------------------------------------------------------------------------------- */

/* With slow checks a block starts with its size, so that a freer who says another one is found. */
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

void *mem_alloc(context *c, size_t n_bytes)
{
  if (!take(c, n_bytes))
    return NULL;
  size_t n = n_bytes + SIZE_HEADER;
  void *p = c->host_allocator ? mem_raw_alloc(&c->opt.allocator, n ? n : 1) : malloc(n ? n : 1);
  if (UNLIKELY(!p)) {
    give(c, n_bytes);
    return NULL;
  }
  return note_size(p, n_bytes);
}

void *mem_alloc_zero(context *c, size_t n_bytes)
{
  if (c->host_allocator || SIZE_HEADER) {
    void *p = mem_alloc(c, n_bytes);
    return p ? memset(p, 0, n_bytes) : NULL;
  }
  if (!take(c, n_bytes))
    return NULL;
  void *p = calloc(1, n_bytes ? n_bytes : 1);
  if (!p)
    give(c, n_bytes);
  return p;
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
  if (!take(c, new_bytes))
    return NULL;
  void *q = realloc(p, new_bytes ? new_bytes : 1);
  give(c, q ? old_bytes : new_bytes);
  return q;
}

void mem_free(context *c, void *p, size_t n_bytes)
{
  if (!p)
    return;
  give(c, n_bytes);
  p = check_size(p, n_bytes);
  if (c->host_allocator)
    c->opt.allocator.free(c->opt.allocator.user, p, n_bytes + SIZE_HEADER);
  else
    free(p);
}

/* -- Data: size classes ------------------------------------------------------------------------- */

/* Class of a size, and the size its blocks have.  Four classes an octave from 64 bytes on, eight from
 * 1 MB on: at most a fifth (a ninth) of a block is unused.  -1: larger than any class. */
static int size_class(size_t n, size_t *block_bytes)
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
  *block_bytes = ((size_t)1 << octave) + (in_octave + 1) * step;
  if (octave < 20)
    return 1 + (octave - 6) * 4 + (int)in_octave;
  return 1 + 14 * 4 + (octave - 20) * 8 + (int)in_octave;
}

static void *map_huge(size_t n)
{
  char *p = mmap(NULL, n + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return NULL;
  size_t before = (HUGE_BYTES - ((uintptr_t)p & (HUGE_BYTES - 1))) & (HUGE_BYTES - 1);
  if (before)
    munmap(p, before);
  munmap(p + before + n, HUGE_BYTES - before);
#ifdef MADV_HUGEPAGE
  madvise(p + before, n, MADV_HUGEPAGE);
#endif
  return p + before;
}

static void *block_alloc(size_t n)
{
  return n >= HUGE_BYTES ? map_huge(n) : aligned_alloc(DATA_ALIGN, n);
}

static void block_free(void *p, size_t n)
{
  if (n >= HUGE_BYTES)
    munmap(p, n);
  else
    free(p);
}

/* -- Data: the cache ---------------------------------------------------------------------------- */

static data_block *cache_get(context *c, int class, size_t n)
{
  data_class *k = &c->classes[class];
  data_block *b = NULL;
  if (atomic_load_explicit(&k->hot, memory_order_relaxed))
    b = atomic_exchange_explicit(&k->hot, NULL, memory_order_acquire);
  if (!b && atomic_load_explicit(&c->cached_bytes, memory_order_relaxed) >= n) {
    mutex_lock(&c->cache_lock);
    b = k->more;
    if (b)
      k->more = b->next;
    mutex_unlock(&c->cache_lock);
  }
  if (b)
    atomic_fetch_sub_explicit(&c->cached_bytes, n, memory_order_relaxed);
  return b;
}

static void cache_put(context *c, int class, size_t n, data_block *b)
{
  data_class *k = &c->classes[class];
  data_block *none = NULL;
  atomic_fetch_add_explicit(&c->cached_bytes, n, memory_order_relaxed);
  if (atomic_compare_exchange_strong_explicit(&k->hot, &none, b, memory_order_release,
                                              memory_order_relaxed))
    return;
  mutex_lock(&c->cache_lock);
  b->next = k->more;
  k->more = b;
  mutex_unlock(&c->cache_lock);
}

/* Size of the blocks of class k: size_class backwards. */
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

void mem_trim(context *c)
{
  for (int k = 0; k < N_DATA_CLASSES; k++) {
    size_t n = class_bytes(k);
    for (data_block *b; (b = cache_get(c, k, n)) != NULL;)
      block_free(b, n);
  }
}

/* -- Data: the calls ---------------------------------------------------------------------------- */

/* From a host's allocator, which aligns to 16 only: the byte before the block says how far it moved. */
static void *host_alloc_data(context *c, size_t n_bytes)
{
  char *p = mem_raw_alloc(&c->opt.allocator, n_bytes + DATA_ALIGN);
  if (!p)
    return NULL;
  size_t shift = DATA_ALIGN - ((uintptr_t)p & (DATA_ALIGN - 1)); /* 16..64 */
  p[shift - 1] = (char)shift;
  return p + shift;
}

static void host_free_data(context *c, void *p, size_t n_bytes)
{
  char *q = p;
  c->opt.allocator.free(c->opt.allocator.user, q - q[-1], n_bytes + DATA_ALIGN);
}

void *mem_alloc_data(context *c, size_t n_bytes)
{
  if (UNLIKELY(n_bytes > SIZE_MAX / 4) || !take(c, n_bytes))
    return NULL;
  void *p;
  if (c->host_allocator) {
    p = host_alloc_data(c, n_bytes);
  } else if (!CACHING) { /* exact sizes: overruns are found */
    if (posix_memalign(&p, DATA_ALIGN, n_bytes ? n_bytes : 1) != 0)
      p = NULL;
  } else {
    size_t block;
    int class = size_class(n_bytes, &block);
    p = class < 0 ? NULL : cache_get(c, class, block);
    if (!p)
      p = block_alloc(block);
    if (!p) {
      mem_trim(c);
      p = block_alloc(block);
    }
  }
  if (UNLIKELY(!p))
    give(c, n_bytes);
  return p;
}

void mem_free_data(context *c, void *p, size_t n_bytes)
{
  if (!p)
    return;
  give(c, n_bytes);
  if (c->host_allocator) {
    host_free_data(c, p, n_bytes);
    return;
  }
  if (!CACHING) {
    free(p);
    return;
  }
  size_t block;
  int class = size_class(n_bytes, &block);
  size_t cached = atomic_load_explicit(&c->cached_bytes, memory_order_relaxed) + block;
  size_t live = atomic_load_explicit(&c->live_bytes, memory_order_relaxed);
  if (cached > CACHE_BYTES)
    mem_trim(c);
  if (class < 0 || cached > c->limit_bytes || live > c->limit_bytes - cached)
    block_free(p, block);
  else
    cache_put(c, class, block, p);
}
