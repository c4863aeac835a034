/* ops/math/attention.c -- the product of attention for one call: batches, heads and blocks of
 * queries are the tasks. A task multiplies its queries by all keys (ops/math/gemm.h), scales, masks
 * and normalises each row of scores in place, and multiplies the scores by the values. A row of
 * scores is stored completely, so the softmax is that of ops/math/rows.h and has the bits of the
 * plain operators; the online softmax of flash attention would save memory and give other bits.
 * With a causal mask, keys that no query of the block sees are not computed. Memory: the scores of
 * one block per task, about half of L2, but at least 14 rows. */
#include "ops/math/attention.h"

#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "ops/math/gemm.h"
#include "ops/math/rows.h"
#include "tensor/dtype.h"

#define FEW_QUERIES 8 /* which read keys and values where they are */
/* Scores of one block of queries: about half of L2. */
#define BLOCK_ELEMS 65536

typedef struct job {
  const attention_args *a;
  call_ctx *cx;
  int64_t block, n_blocks; /* queries of a block; blocks of one head */
  cpu_level level;
  size_t item;
  _Atomic int failed;
  mutex lock; /* of `idle` */
  struct block_work *idle;
} job;

static const char *operand_at(const job *j, const attention_operand *o, int64_t batch, int64_t head,
                              int64_t row)
{
  return (const char *)o->data +
         (batch * o->batch + head * o->head + row * o->row) * (int64_t)j->item;
}

/* Return the mask's row of query i. */
static const char *mask_at(const attention_args *a, int64_t batch, int64_t head, int64_t i,
                           size_t item)
{
  const attention_operand *m = &a->mask;
  return (const char *)m->data + (batch * m->batch + head * m->head + i * m->row) *
                                   (int64_t)(a->mask_is_bool ? sizeof(bool) : item);
}

/* Mask and softmax the first n scores of query i in place. */
#define ROW(name, T, NEG_INF)                                                                    \
  static void name(const job *j, int64_t batch, int64_t head, int64_t i, int64_t n, T *s)        \
  {                                                                                              \
    const attention_args *a = j->a;                                                              \
    const attention_operand *m = &a->mask;                                                       \
    bool any = !m->data && !a->causal;                                                           \
    const rows *r = rows_of(j->level, sizeof(T) == 8);                                           \
    const char *at = m->data ? mask_at(a, batch, head, i, sizeof(T)) : NULL;                     \
    if (m->data && m->col == 1 && a->mask_is_bool) {                                             \
      r->hide(n, (const bool *)at, !a->mask_hides, s);                                           \
    } else if (m->data && m->col == 1) {                                                         \
      r->add(n, at, s);                                                                          \
    } else if (m->data && a->mask_is_bool) {                                                     \
      const bool *keep = (const bool *)at;                                                       \
      for (int64_t k = 0; k < n; k++)                                                            \
        s[k] = keep[k * m->col] != a->mask_hides ? s[k] : -NEG_INF;                              \
    } else if (m->data) {                                                                        \
      const T *add = (const T *)(const void *)at;                                                \
      for (int64_t k = 0; k < n; k++)                                                            \
        s[k] += add[k * m->col];                                                                 \
    }                                                                                            \
    if (a->causal)                                                                               \
      for (int64_t k = i + 1; k < n; k++)                                                        \
        s[k] = -NEG_INF;                                                                         \
    for (int64_t k = 0; k < n && !any; k++)                                                      \
      any = s[k] != -NEG_INF;                                                                    \
    T *lse = a->lse ? (T *)a->lse + (batch * a->n_queries + i) * a->n_heads + head : NULL;       \
    if (!any && a->hidden_is_nan) {                                                              \
      for (int64_t k = 0; k < n; k++)                                                            \
        s[k] = (T)NAN;                                                                           \
      return;                                                                                    \
    }                                                                                            \
    if (n == 0 || !any) {                                                                        \
      memset(s, 0, (size_t)n * sizeof(T));                                                       \
      if (lse)                                                                                   \
        *lse = 0;                                                                                \
      return;                                                                                    \
    }                                                                                            \
    const double top = lse ? r->max(n, s) : 0.0;                                                 \
    r->softmax(n, s, s);                                                                         \
    if (lse) /* the largest weight is 1 over the sum */                                          \
      *lse = (T)(top - log(r->max(n, s)));                                                       \
  }
ROW(finish_f32, float, INFINITY)
ROW(finish_f64, double, (double)INFINITY)

/* What a thread keeps between blocks of queries. */
typedef struct block_work {
  char *scores;
  int64_t head; /* of all batches: what is packed */
  gemm_packed *k, *v; /* NULL: not packed */
  struct block_work *next; /* in the job's `idle` */
} block_work;

static void drop_packed(context *c, block_work *w)
{
  if (w->k)
    gemm_packed_free(c, w->k);
  if (w->v)
    gemm_packed_free(c, w->v);
  w->k = w->v = NULL;
}

/* Pack a head's keys, and its values where every block has all of them: several blocks read
 * them. */
static rush_status pack_head(const job *j, call_ctx *cx, int64_t batch, int64_t kv, block_work *w)
{
  const attention_args *a = j->a;
  const int64_t head = batch * a->n_heads + kv;
  const bool once = (j->n_blocks == 1 && a->kv_group == 1) || a->n_queries < FEW_QUERIES;
  if (once || head == w->head || a->dim == 0 || a->n_keys == 0)
    return RUSH_OK;
  drop_packed(cx->ctx, w);
  w->head = head;
  gemm_packing keys = {.dtype = a->dtype, .count = 1, .k = a->dim, .n = a->n_keys,
                       .from = {operand_at(j, &a->k, batch, kv, 0), a->k.col, a->k.row}};
  gemm_packing values = {.dtype = a->dtype, .count = 1, .k = a->n_keys, .n = a->value_dim,
                         .from = {operand_at(j, &a->v, batch, kv, 0), a->v.row, a->v.col}};
  TRY(gemm_pack(cx, &keys, &w->k));
  return a->causal ? RUSH_OK : gemm_pack(cx, &values, &w->v);
}

static rush_status run_block(job *j, call_ctx *cx, int64_t task, block_work *w)
{
  const attention_args *a = j->a;
  char *scores = w->scores;
  const int64_t block = task % j->n_blocks, head = task / j->n_blocks % a->n_heads;
  const int64_t batch = task / j->n_blocks / a->n_heads, kv = head / a->kv_group;
  const int64_t q0 = block * j->block, n_q = i64_min(j->block, a->n_queries - q0);
  /* Keys that no query of the block sees are not computed. */
  const int64_t n_keys = a->causal && !a->weights ? i64_min(a->n_keys, q0 + n_q) : a->n_keys;
  gemm_args g = {.dtype = a->dtype, .m = n_q, .n = n_keys, .k = a->dim, .alpha = a->scale,
                 .a = {operand_at(j, &a->q, batch, head, q0), a->q.row, a->q.col},
                 .b = {operand_at(j, &a->k, batch, kv, 0), a->k.col, a->k.row},
                 .c = scores, .c_rs = n_keys, .c_cs = 1};
  TRY(pack_head(j, cx, batch, kv, w));
  g.packed = w->k;
  TRY(gemm_serial(cx, &g));
  for (int64_t i = 0; i < n_q; i++)
    if (a->dtype == RUSH_FLOAT32)
      finish_f32(j, batch, head, q0 + i, n_keys, (float *)(void *)scores + i * n_keys);
    else
      finish_f64(j, batch, head, q0 + i, n_keys, (double *)(void *)scores + i * n_keys);
  for (int64_t i = 0; a->weights && i < n_q; i++)
    memcpy((char *)a->weights +
             (batch * a->weights_batch + head * a->weights_head + (q0 + i) * a->weights_row) *
               (int64_t)j->item,
           scores + (size_t)(i * n_keys) * j->item, (size_t)n_keys * j->item);
  gemm_args o = {.dtype = a->dtype,
                 .m = n_q,
                 .n = a->value_dim,
                 .k = n_keys,
                 .alpha = 1.0,
                 .a = {scores, n_keys, 1},
                 .b = {operand_at(j, &a->v, batch, kv, 0), a->v.row, a->v.col},
                 .c =
                   (char *)a->out +
                   (batch * a->out_batch + head * a->out_head + q0 * a->out_row) * (int64_t)j->item,
                 .c_rs = a->out_row,
                 .c_cs = 1,
                 .packed = w->v};
  return gemm_serial(cx, &o);
}

static size_t scores_bytes(const job *j)
{
  return (size_t)(j->block * j->a->n_keys) * j->item;
}

static void free_work(const job *j, block_work *w)
{
  context *c = j->cx->ctx;

  if (!w)
    return;
  drop_packed(c, w);
  if (w->scores)
    mem_free_data(c, w->scores, scores_bytes(j));
  mem_free(c, w, sizeof *w);
}

/* Take an idle block_work, of that head if there is one, or make one; NULL: no memory.  A thread
 * gets its tasks in pieces of about a millisecond: packing a head's keys for each would take as
 * long as the products. */
static block_work *take_work(job *j, int64_t head)
{
  context *c = j->cx->ctx;
  block_work **at, *w;

  mutex_lock(&j->lock);
  for (at = &j->idle; *at && (*at)->head != head && (*at)->next;)
    at = &(*at)->next;
  if ((w = *at))
    *at = w->next;
  mutex_unlock(&j->lock);
  if (w || !(w = mem_alloc(c, sizeof *w)))
    return w;
  *w = (block_work){.scores = mem_alloc_data(c, scores_bytes(j)), .head = -1};
  if (w->scores)
    return w;
  free_work(j, w);
  return NULL;
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  call_ctx cx = *j->cx; /* a task's error is dropped; the caller reports "no memory" */
  cx.err = NULL;
  const int64_t batch = begin / j->n_blocks / j->a->n_heads;
  const int64_t kv = begin / j->n_blocks % j->a->n_heads / j->a->kv_group;
  block_work *w = take_work(j, batch * j->a->n_heads + kv);
  rush_status st = w ? RUSH_OK : RUSH_ENOMEM;
  for (int64_t i = begin; i < end && st == RUSH_OK; i++)
    st = run_block(j, &cx, i, w);
  if (st != RUSH_OK)
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
  if (!w)
    return;
  mutex_lock(&j->lock);
  w->next = j->idle;
  j->idle = w;
  mutex_unlock(&j->lock);
}

rush_status attention(call_ctx *cx, const attention_args *a)
{
  job j = {.a = a, .cx = cx, .item = dtype_bytes(a->dtype)};
  if (a->n_batch * a->n_heads * a->n_queries * a->value_dim == 0)
    return RUSH_OK;
  j.level = cpu_choose(context_get_options(cx->ctx)->cpu);
  j.block = BLOCK_ELEMS / i64_max(1, a->n_keys) / 14 * 14; /* whole tiles */
  j.block = i64_min(i64_max(j.block, 14), a->n_queries);
  j.n_blocks = (a->n_queries + j.block - 1) / j.block;
  const int64_t macs = i64_max(1, j.block * a->n_keys * (a->dim + a->value_dim));
  mutex_init(&j.lock);
  const rush_status st = parallel_for(cx, a->n_batch * a->n_heads * j.n_blocks,
                                      i64_max(1, 250000 / macs), run_blocks, &j);
  while (j.idle) {
    block_work *w = j.idle;
    j.idle = w->next;
    free_work(&j, w);
  }
  mutex_destroy(&j.lock);
  return st == RUSH_OK && j.failed ? call_nomem(cx) : st;
}
