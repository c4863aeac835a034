/* Packed weights, kept on the storage they were made from.
 *
 * The first product with a weight leaves a mark, the second packs: what is used once is never packed.
 * Entries are only added, so readers need no lock.  A mark or a packing of another version means that the
 * weight is being written to; then nothing is packed any more.  Only storages whose writers move the
 * version are trusted: mapped files and parameters of our own. */
#include <stdatomic.h>

#include "ops/gemm_int.h"
#include "ops/matmul.h"

#define KIND_GEMM 0x6d6d67u
/* Below, packing is as cheap as finding it; above, memory matters more. */
#define MIN_ELEMS 8192
#define MAX_ELEMS (INT64_C(1) << 27)

typedef struct entry {
  storage_cache h;
  gemm_packed *packed; /* NULL: the mark of a first use */
  int64_t at, rs, cs;  /* of B inside the storage: bytes, elements */
} entry;

static void entry_destroy(storage_cache *self, context *c)
{
  entry *e = (entry *)self;
  gemm_packed_free(c, e->packed);
  mem_free(c, e, sizeof *e);
}

static bool entry_fits(const entry *e, const gemm_args *g, int64_t at, int64_t nr)
{
  if (e->at != at || e->rs != g->b.rs || e->cs != g->b.cs)
    return false;
  const gemm_packed *p = e->packed;
  return !p || (p->dtype == g->dtype && p->k == g->k && p->n == g->n && p->nr == nr);
}

static void entry_push(storage *st, const entry *from)
{
  context *c = st->h.ctx;
  entry *e = mem_alloc(c, sizeof *e);
  if (!e) { /* only a saving is lost */
    gemm_packed_free(c, from->packed);
    return;
  }
  *e = *from;
  storage_cache *head = atomic_load_explicit(&st->cache, memory_order_relaxed);
  do
    e->h.next = head;
  while (!atomic_compare_exchange_weak_explicit(&st->cache, &head, &e->h, memory_order_release,
                                                memory_order_relaxed));
}

static bool is_trusted(const rush_tensor *w)
{
  return w->st->origin == STORAGE_MAPPED || (w->st->origin == STORAGE_OURS && (w->h.flags & TENSOR_IS_PARAMETER));
}

rush_status gemm_with_weight(call_ctx *cx, const gemm_args *args, const rush_tensor *w)
{
  const int64_t n_elems = args->k * args->n;
  if ((args->dtype != RUSH_FLOAT32 && args->dtype != RUSH_FLOAT64) || n_elems < MIN_ELEMS ||
      n_elems > MAX_ELEMS || !is_trusted(w))
    return gemm(cx, args);

  storage *st = w->st;
  gemm_args g = *args;
  const uint32_t version = atomic_load_explicit(&st->version, memory_order_relaxed);
  const int64_t nr = gemm_kernels_of(cpu_choose(context_get_options(cx->ctx)->cpu), g.dtype)->nr;
  entry e = {.h = {.kind = KIND_GEMM, .version = version, .destroy = entry_destroy},
             .at = (const char *)g.b.data - (const char *)st->data, .rs = g.b.rs, .cs = g.b.cs};
  bool seen = false, changes = false;
  for (storage_cache *i = atomic_load_explicit(&st->cache, memory_order_acquire); i; i = i->next) {
    if (i->kind != KIND_GEMM)
      continue;
    const entry *have = (const entry *)i;
    changes |= i->version != version;
    if (i->version != version || !entry_fits(have, &g, e.at, nr))
      continue;
    seen = true;
    if (have->packed) {
      g.packed = have->packed;
      return gemm(cx, &g);
    }
  }
  if (changes)
    return gemm(cx, &g);
  if (seen) {
    TRY(gemm_pack(cx, g.dtype, g.k, g.n, g.b, &e.packed));
    g.packed = e.packed;
    rush_status status = gemm(cx, &g);
    entry_push(st, &e);
    return status;
  }
  entry_push(st, &e);
  return gemm(cx, &g);
}
