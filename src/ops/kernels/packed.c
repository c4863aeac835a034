/* ops/kernels/packed.c -- packed weights, kept on the storage they were made from.
 *
 * The first product with a weight leaves a note, the second packs: a weight used once is never
 * packed. Entries are only added, so readers need no lock.  A note or a packing of another version
 * means that the weight is being written to; then it is not packed any more.  Only storages whose
 * writers update the version are trusted: mapped files and parameters of our own. */
#include <stdatomic.h>

#include "ops/math/gemm_int.h"
#include "ops/kernels/packed.h"

#define KIND_GEMM 0x6d6d67u
/* With fewer elements, packing is as cheap as finding the packed form; with more, memory matters
 * more. */
#define MIN_ELEMS 64
#define MAX_ELEMS (INT64_C(1) << 27)

typedef struct entry {
  storage_cache h;
  gemm_packed *packed;      /* NULL: the mark of a first use */
  bool is_a;
  int64_t k, n, at, rs, cs; /* of the matrix inside the storage: bytes, elements */
  int64_t turned;
} entry;

static void entry_destroy(storage_cache *self, context *c)
{
  entry *e = (entry *)self;
  gemm_packed_free(c, e->packed);
  mem_free(c, e, sizeof *e);
}

static bool entry_fits(call_ctx *cx, const entry *e, const gemm_packing *p, int64_t at)
{
  return e->at == at && e->rs == p->from.rs && e->cs == p->from.cs && e->is_a == p->is_a &&
         e->turned == p->turned && e->k == p->k && e->n == p->n &&
         (!e->packed || gemm_packed_fits(cx, e->packed, p));
}

static bool entry_push(storage *st, const entry *from)
{
  entry *e = mem_alloc(st->h.ctx, sizeof *e);
  if (!e) /* only a saving is lost */
    return false;
  *e = *from;
  storage_cache *head = atomic_load_explicit(&st->cache, memory_order_relaxed);
  do
    e->h.next = head;
  while (!atomic_compare_exchange_weak_explicit(&st->cache, &head, &e->h, memory_order_release,
                                                memory_order_relaxed));
  return true;
}

bool packed_is_trusted(const rush_tensor *w)
{
  return w->st->origin == STORAGE_MAPPED ||
         (w->st->origin == STORAGE_OURS && (w->h.flags & TENSOR_IS_PARAMETER));
}

/* Pack, or return NULL: where memory or the byte limit does not suffice, only a saving is lost. */
static gemm_packed *try_pack(call_ctx *cx, const gemm_packing *p)
{
  call_ctx quiet = *cx;
  rush_error err = RUSH_ERROR_INIT;
  gemm_packed *made = NULL;

  quiet.err = &err;
  const rush_status st = gemm_pack(&quiet, p, &made);
  rush_error_clear(&err);
  return st == RUSH_OK ? made : NULL;
}

rush_status packed_weight(call_ctx *cx, const rush_tensor *w, const gemm_packing *p,
                          const gemm_packed **out)
{
  const int64_t n_elems = p->count * p->k * p->n;
  *out = NULL;
  if (!dtype_is_float(p->dtype) || n_elems < MIN_ELEMS || n_elems > MAX_ELEMS ||
      !packed_is_trusted(w))
    return RUSH_OK;

  storage *st = w->st;
  const uint32_t version = atomic_load_explicit(&st->version, memory_order_relaxed);
  entry e = {.h = {.kind = KIND_GEMM, .version = version, .destroy = entry_destroy},
             .is_a = p->is_a,
             .k = p->k,
             .n = p->n,
             .at = (const char *)p->from.data - (const char *)st->data,
             .rs = p->from.rs,
             .cs = p->from.cs,
             .turned = p->turned};
  bool seen = false, changes = false;
  for (storage_cache *i = atomic_load_explicit(&st->cache, memory_order_acquire); i; i = i->next) {
    if (i->kind != KIND_GEMM)
      continue;
    const entry *have = (const entry *)i;
    changes |= i->version != version;
    if (i->version != version || !entry_fits(cx, have, p, e.at))
      continue;
    seen = true;
    if (have->packed) {
      *out = have->packed;
      return RUSH_OK;
    }
  }
  if (changes)
    return RUSH_OK;
  if (seen && !(e.packed = try_pack(cx, p)))
    return RUSH_OK;
  if (!entry_push(st, &e)) {
    gemm_packed_free(cx->ctx, e.packed);
    e.packed = NULL;
  }
  *out = e.packed;
  return RUSH_OK;
}

rush_status gemm_with_weight(call_ctx *cx, const gemm_args *args, const rush_tensor *w)
{
  const gemm_packing p = {
    .dtype = args->dtype, .count = 1, .k = args->k, .n = args->n, .from = args->b};
  gemm_args g = *args;
  TRY(packed_weight(cx, w, &p, &g.packed));
  return gemm(cx, &g);
}
