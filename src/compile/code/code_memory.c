/* compile/code/code_memory.c -- memory for machine code (code_memory.h): chunks of 64 KB with a
 * bitmap of granules of 64 bytes, found by a first-fit scan. Code is written through a second
 * mapping of the same pages that exists only for that time, so no page is writable and executable.
 * If a policy forbids such mappings, each block has pages of its own. Cost: O(granules) and three
 * system calls per kernel. */
#include "compile/code/code_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/threads.h"

#define CHUNK_BYTES ((size_t)64 << 10)
#define GRANULE 64
#define N_GRANULES (CHUNK_BYTES / GRANULE)

typedef struct code_chunk code_chunk;
struct code_chunk {
  code_chunk *next;
  uint8_t *run;
  size_t n_bytes;
  bool is_shared;  /* kernels are added and removed: it can be mapped again for writing */
  pid_t owner;     /* process that may write */
  uint32_t n_used; /* granules */
  uint64_t used[N_GRANULES / 64];
};

typedef struct code_memory { /* in the context's slot */
  mutex lock;
  code_chunk *chunks;
} code_memory;

/* -- Chunks ------------------------------------------------------------------------------------ */

static void chunk_free(context *c, code_chunk *k)
{
  if (k->run)
    munmap(k->run, k->n_bytes);
  mem_uncount(c, k->n_bytes);
  mem_free(c, k, sizeof *k);
}

/* Map executable memory that is not writable through this view; returns false if a policy forbids
 * it. */
static bool map_shared(code_chunk *k)
{
#if defined MFD_CLOEXEC && defined MREMAP_MAYMOVE
  int fd = memfd_create("rushlight-code", MFD_CLOEXEC);
#else
  int fd = -1;
#endif
  if (fd < 0)
    return false;
  void *p = MAP_FAILED;
  if (ftruncate(fd, (off_t)k->n_bytes) == 0)
    p = mmap(NULL, k->n_bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  close(fd);
  k->run = p == MAP_FAILED ? NULL : p;
  k->is_shared = k->run != NULL;
  return k->is_shared;
}

/* Write through a second view of the same pages, which exists only meanwhile.  mremap makes it
 * without the file, which a host that closes all its descriptors could otherwise replace. */
static bool write_shared(code_chunk *k, size_t at, const void *bytes, size_t n_bytes)
{
#ifdef MREMAP_MAYMOVE
  uint8_t *view = mremap(k->run, 0, k->n_bytes, MREMAP_MAYMOVE);

  if (view == MAP_FAILED)
    return false;
  bool ok = mprotect(view, k->n_bytes, PROT_READ | PROT_WRITE) == 0;
  if (ok)
    memcpy(view + at, bytes, n_bytes);
  munmap(view, k->n_bytes);
  return ok;
#else
  (void)k, (void)at, (void)bytes, (void)n_bytes;
  return false;
#endif
}

static code_chunk *chunk_new(context *c, size_t n_bytes)
{
  code_chunk *k = mem_alloc_zero(c, sizeof *k);
  if (!k)
    return NULL;
  if (!mem_count(c, n_bytes)) {
    mem_free(c, k, sizeof *k);
    return NULL;
  }
  k->n_bytes = n_bytes;
  k->owner = getpid();
  return k;
}

/* -- Granules ---------------------------------------------------------------------------------- */

static bool is_used(const code_chunk *k, size_t g) { return k->used[g / 64] >> (g % 64) & 1; }

static void mark(code_chunk *k, size_t first, size_t n, bool used)
{
  ASSERT(first + n <= N_GRANULES, "granules outside the chunk");
  for (size_t g = first; g < first + n; g++) {
    ASSERT(is_used(k, g) != used, "a granule is taken or freed twice");
    if (used)
      k->used[g / 64] |= UINT64_C(1) << (g % 64);
    else
      k->used[g / 64] &= ~(UINT64_C(1) << (g % 64));
  }
  k->n_used += used ? (uint32_t)n : -(uint32_t)n;
}

/* Return the first of n consecutive free granules, or N_GRANULES. */
static size_t find_room(const code_chunk *k, size_t n)
{
  size_t run = 0;
  if (N_GRANULES - k->n_used < n)
    return N_GRANULES;
  for (size_t g = 0; g < N_GRANULES; g++) {
    run = is_used(k, g) ? 0 : run + 1;
    if (run == n)
      return g + 1 - n;
  }
  return N_GRANULES;
}

static size_t granules(size_t n_bytes) { return (n_bytes + GRANULE - 1) / GRANULE; }

/* -- Blocks ------------------------------------------------------------------------------------ */

static void free_if_empty(context *c, code_memory *m, code_chunk *k)
{
  code_chunk **link = &m->chunks;

  if (k->n_used)
    return;
  while (*link != k)
    link = &(*link)->next;
  *link = k->next;
  chunk_free(c, k);
}

/* Put a block into a shared chunk; returns false if that is impossible. */
static bool place_shared(context *c, code_memory *m, const void *bytes, size_t n_bytes,
                         code_block *out, bool *no_memory)
{
  size_t n = granules(n_bytes), at = N_GRANULES;
  pid_t self = getpid();
  code_chunk *k = m->chunks;
  for (; k; k = k->next)
    if (k->is_shared && k->owner == self &&
        (at = find_room(k, n)) < N_GRANULES)
      break;
  if (!k) {
    k = chunk_new(c, CHUNK_BYTES);
    *no_memory = !k;
    if (!k)
      return false;
    if (!map_shared(k)) {
      chunk_free(c, k);
      return false;
    }
    k->next = m->chunks;
    m->chunks = k;
    at = 0;
  }
  if (!write_shared(k, at * GRANULE, bytes, n_bytes)) {
    free_if_empty(c, m, k);
    return false;
  }
  mark(k, at, n, true);
  *out = (code_block){.run = k->run + at * GRANULE, .chunk = k, .n_bytes = n_bytes};
  return true;
}

/* Put a block into pages of its own. */
static rush_status place_alone(call_ctx *cx, code_memory *m, const void *bytes, size_t n_bytes,
                               code_block *out)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (n_bytes + page - 1) / page * page;
  code_chunk *k = chunk_new(cx->ctx, n);
  if (!k)
    return call_nomem_bytes(cx, n);
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) {
    k->run = p;
    memcpy(p, bytes, n_bytes);
  }
  if (!k->run || mprotect(p, n, PROT_READ | PROT_EXEC)) {
    chunk_free(cx->ctx, k);
    return call_unsupported(cx, "machine code: this system allows no new executable memory");
  }
  k->next = m->chunks;
  m->chunks = k;
  *out = (code_block){.run = k->run, .chunk = k, .n_bytes = n_bytes};
  return RUSH_OK;
}

static void destroy_code_memory(context *c, void *object)
{
  code_memory *m = object;
  while (m->chunks) {
    code_chunk *next = m->chunks->next;
    chunk_free(c, m->chunks);
    m->chunks = next;
  }
  mem_free(c, m, sizeof *m);
}

static code_memory *memory_of(context *c)
{
  code_memory *m = context_slot_get(c, SLOT_CODE);
  if (m)
    return m;
  m = mem_alloc_zero(c, sizeof *m);
  if (!m)
    return NULL;
  m->lock = (mutex)MUTEX_INIT;
  return context_slot_publish_steal(c, SLOT_CODE, m, destroy_code_memory);
}

rush_status code_memory_new(call_ctx *cx, const void *bytes, size_t n_bytes, code_block *out)
{
  code_memory *m = memory_of(cx->ctx);
  bool no_memory = false;
  rush_status st = RUSH_OK;
  if (!m)
    return call_nomem(cx);
  mutex_lock(&m->lock);
  if (n_bytes > CHUNK_BYTES || !place_shared(cx->ctx, m, bytes, n_bytes, out, &no_memory))
    st = no_memory ? call_nomem_bytes(cx, CHUNK_BYTES) : place_alone(cx, m, bytes, n_bytes, out);
  mutex_unlock(&m->lock);
  return st;
}

void code_memory_release(context *c, const code_block *block)
{
  code_memory *m = context_slot_get(c, SLOT_CODE);
  code_chunk *k = block->chunk;
  ASSERT(block->run >= k->run && block->run + block->n_bytes <= k->run + k->n_bytes,
         "a block outside its chunk");
  mutex_lock(&m->lock);
  if (k->is_shared)
    mark(k, (size_t)(block->run - k->run) / GRANULE, granules(block->n_bytes), false);
  free_if_empty(c, m, k);
  mutex_unlock(&m->lock);
}
