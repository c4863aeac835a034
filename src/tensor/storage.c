/* tensor/storage.c -- memory of tensors, and the per-thread lists of blocks that tensor headers
 * come from.
 *
 * A header is allocated and freed with every small operator, so free blocks are kept per thread,
 * without a lock, up to MAX_CACHED_BLOCKS; the lists are linked so that the end of a context frees
 * those of all threads.  Under sanitizers no blocks are kept.  After a fork the lists of threads
 * that the child does not have are dropped. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/threads.h"
#include "tensor/tensor_int.h"

#define MAX_CACHED_BLOCKS 64

#if defined(__SANITIZE_ADDRESS__)
#define CACHING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CACHING 0
#endif
#elif defined(__SANITIZE_THREAD__)
#define CACHING 0
#endif
#ifndef CACHING
#define CACHING 1
#endif

/* -- Blocks ------------------------------------------------------------------------------------ */

typedef struct free_block {
  struct free_block *next;
} free_block;

/* One thread's free blocks, all of one context.  Linked into a list, so that the end of the context
 * finds them; the links and a change of context are protected by caches_lock. */
typedef struct block_cache {
  context *ctx; /* NULL: empty and not in the list */
  free_block *first;
  _Atomic uint32_t n; /* written by the thread, read for statistics */
  uint32_t max;       /* 0: the allocator sees every block */
  struct block_cache *prev, *next;
} block_cache;

static mutex caches_lock = MUTEX_INIT;
static block_cache *caches;
static pthread_key_t thread_end_key;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;
static _Thread_local block_cache mine __attribute__((tls_model("initial-exec")));

/* Remove b from the list, under caches_lock. */
static void detach(block_cache *b)
{
  while (b->first) {
    free_block *p = b->first;
    b->first = p->next;
    mem_free(b->ctx, p, BLOCK_BYTES);
  }
  atomic_store_explicit(&b->n, 0, memory_order_relaxed);
  if (b->ctx) {
    *(b->prev ? &b->prev->next : &caches) = b->next;
    if (b->next)
      b->next->prev = b->prev;
  }
  b->ctx = NULL;
}

static void thread_ends(void *cache)
{
  mutex_lock(&caches_lock);
  detach(cache);
  mutex_unlock(&caches_lock);
}

static size_t cached_bytes(context *c)
{
  size_t n = 0;
  mutex_lock(&caches_lock);
  for (const block_cache *b = caches; b; b = b->next)
    if (b->ctx == c)
      n += atomic_load_explicit(&b->n, memory_order_relaxed) * (size_t)BLOCK_BYTES;
  mutex_unlock(&caches_lock);
  return n;
}

/* Around a fork: the list is consistent in the child, which then keeps only the forking thread's
 * cache. The blocks of other threads are lost with them. */
static void before_fork(void) { mutex_lock(&caches_lock); }
static void in_parent(void) { mutex_unlock(&caches_lock); }
static void in_child(void)
{
  caches = mine.ctx ? &mine : NULL;
  mine.prev = mine.next = NULL;
  mutex_unlock(&caches_lock);
}

static void begin_caches(void)
{
  pthread_key_create(&thread_end_key, thread_ends);
  pthread_atfork(before_fork, in_parent, in_child);
}

/* Free all threads' blocks at the end of the context. */
static void context_ends(context *c, void *ops)
{
  (void)ops;
  mutex_lock(&caches_lock);
  for (block_cache *b = caches, *next; b; b = next) {
    next = b->next;
    if (b->ctx == c)
      detach(b);
  }
  mutex_unlock(&caches_lock);
}

/* Make this thread's cache serve `c`.  Also registers the value operations of tensors, since no
 * tensor is made before this is called. */
static void attach(context *c)
{
  pthread_once(&thread_end_once, begin_caches);
  pthread_setspecific(thread_end_key, &mine);
  mutex_lock(&caches_lock);
  detach(&mine);
  mine.ctx = c;
  mine.max = CACHING && !context_get_options(c)->no_cache ? MAX_CACHED_BLOCKS : 0;
  mine.prev = NULL;
  mine.next = caches;
  if (caches)
    caches->prev = &mine;
  caches = &mine;
  if (
    !context_slot_get(
      c,
      SLOT_KIND_TENSOR)) { /* under the lock: a second publisher would end the context's caches */
    mem_set_cached(c, cached_bytes);
    context_slot_publish_steal(c, SLOT_KIND_STORAGE, (void *)&storage_value_ops, NULL);
    context_slot_publish_steal(c, SLOT_KIND_TENSOR, (void *)&tensor_value_ops, context_ends);
  }
  mutex_unlock(&caches_lock);
}

void *block_alloc(context *c)
{
  if (UNLIKELY(mine.ctx != c))
    attach(c);
  free_block *p = mine.first;
  if (LIKELY(p != NULL)) {
    mine.first = p->next;
    uint32_t n = atomic_load_explicit(&mine.n, memory_order_relaxed);
    atomic_store_explicit(&mine.n, n - 1, memory_order_relaxed);
    return p;
  }
  return mem_alloc(c, BLOCK_BYTES);
}

void block_free(context *c, void *p)
{
  uint32_t n = atomic_load_explicit(&mine.n, memory_order_relaxed);
  if (UNLIKELY(mine.ctx != c || n >= mine.max)) {
    mem_free(c, p, BLOCK_BYTES);
    return;
  }
  free_block *b = p;
  b->next = mine.first;
  mine.first = b;
  atomic_store_explicit(&mine.n, n + 1, memory_order_relaxed);
}

/* -- Storages ---------------------------------------------------------------------------------- */

static storage *make_storage(context *c, size_t n_bytes, storage_origin origin)
{
  storage *st = block_alloc(c);
  if (!st)
    return NULL;
  heap_init(&st->h, c, RUSH_TAG_STORAGE);
  st->data = NULL;
  st->n_bytes = n_bytes;
  st->deleter = NULL;
  st->user = NULL;
  atomic_init(&st->version, 0);
  st->origin = (uint8_t)origin;
  st->read_only = false;
  atomic_init(&st->cache, NULL);
  return st;
}

rush_status storage_new(call_ctx *cx, size_t n_bytes, storage **out)
{
  storage *st = make_storage(cx->ctx, n_bytes, STORAGE_OURS);
  if (!st)
    return call_nomem(cx);
  if (n_bytes <= TENSOR_INLINE_BYTES) {
    st->data = storage_inline_data(st);
  } else {
    st->data = mem_alloc_data(cx->ctx, n_bytes);
    if (!st->data) {
      block_free(cx->ctx, st);
      return call_nomem_bytes(cx, n_bytes);
    }
  }
  *out = st;
  return RUSH_OK;
}

rush_status storage_wrap(call_ctx *cx, void *data, size_t n_bytes, storage_origin origin,
                         void (*deleter)(void *, void *), void *user, storage **out)
{
  storage *st = make_storage(cx->ctx, n_bytes, origin);
  if (!st)
    return call_nomem(cx);
  st->data = data;
  st->deleter = deleter;
  st->user = user;
  *out = st;
  return RUSH_OK;
}

static void unmap_meta(void *storage_of, void *data)
{
  (void)munmap(data, ((const storage *)storage_of)->n_bytes);
}

/* Reserve memory for a meta tensor: its pages are never touched, and reading them is safe. */
rush_status storage_new_meta(call_ctx *cx, size_t n_bytes, storage **out)
{
  storage *st;

  TRY(storage_wrap(cx, NULL, n_bytes, STORAGE_META, NULL, NULL, &st));
  if (n_bytes) {
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      storage_release(st);
      return call_nomem_bytes(cx, n_bytes);
    }
    st->data = p;
    st->deleter = unmap_meta;
    st->user = st;
  }
  *out = st;
  return RUSH_OK;
}

static void drop_data(storage *st)
{
  if (st->deleter)
    st->deleter(st->user, st->data);
  else if (st->origin == STORAGE_OURS && st->data != storage_inline_data(st))
    mem_free_data(st->h.ctx, st->data, st->n_bytes);
}

void storage_destroy(storage *st)
{
  storage_cache *cache = atomic_load_explicit(&st->cache, memory_order_relaxed);
  while (cache) {
    storage_cache *next = cache->next;
    cache->destroy(cache, st->h.ctx);
    cache = next;
  }
  drop_data(st);
  block_free(st->h.ctx, st);
}

rush_status storage_grow(call_ctx *cx, storage *st, size_t n_bytes)
{
  if (n_bytes <= st->n_bytes)
    return RUSH_OK;
  bool stays = st->origin == STORAGE_OURS && st->data == storage_inline_data(st) &&
               n_bytes <= TENSOR_INLINE_BYTES;
  if (!stays) {
    void *data = mem_alloc_data(cx->ctx, n_bytes);
    if (!data)
      return call_nomem_bytes(cx, n_bytes);
    if (st->n_bytes)
      memcpy(data, st->data, st->n_bytes);
    drop_data(st);
    st->data = data;
    st->deleter = NULL;
    st->origin = STORAGE_OURS;
    st->read_only = false;
  }
  st->n_bytes = n_bytes;
  return RUSH_OK;
}

/* -- As values --------------------------------------------------------------------------------- */

static void destroy_value(void *p) { storage_destroy(p); }

static rush_status print_value(call_ctx *cx, text_buf *out, void *p)
{
  (void)cx, (void)p;
  text_puts(out, "<Storage>");
  return RUSH_OK;
}

static rush_status copy_value(call_ctx *cx, void *p, rush_value *out)
{
  storage *st = p, *copy;
  bool meta = st->origin == STORAGE_META;
  TRY(meta ? storage_new_meta(cx, st->n_bytes, &copy) : storage_new(cx, st->n_bytes, &copy));
  if (st->n_bytes && !meta)
    memcpy(copy->data, st->data, st->n_bytes);
  *out = value_heap_steal(RUSH_TAG_STORAGE, copy);
  return RUSH_OK;
}

static rush_status equal_value(call_ctx *cx, void *a, void *b, bool *out)
{
  (void)cx;
  *out = a == b;
  return RUSH_OK;
}

const value_ops storage_value_ops = {destroy_value, print_value, copy_value, equal_value};
