/* ops/math/gemm.c -- matrix products on raw memory (gemm.h), blocked as in Goto and van de Geijn:
 * panels of B and tiles of A are packed so that micro-kernels read memory in order. Products of few
 * rows, of one row and of many small matrices use shorter paths that pack less. k is cut into
 * pieces that depend on k alone and pieces are added in order, so neither threads nor packing
 * change a bit; cutting k by the cache or by the number of threads would. 16-bit and 8-bit floats
 * are converted to float32 or chains; complex numbers have plain loops. Memory: MC and NC bound
 * what is packed at a time. */
#include "ops/math/gemm.h"

#include <sched.h>
#include <string.h>

#include "base/threads.h"
#include "ops/math/gemm_chain.h"
#include "ops/point/halves.h"
#include "tensor/dtype.h"

/* Block sizes: a piece of k by MC rows of A stays in L2, a piece by one panel of B in L1; NC
 * columns of B packed at a time stay in L3. */
#define MC 168
#define NC 3072
/* With fewer multiply-adds a second thread costs more than it gains. */
#define PARALLEL_MACS 500000
#define MAX_SLOTS 64
/* Elements of A that are packed completely, for products of few rows. */
#define MOST_PACKED_A (INT64_C(1) << 21)

const gemm_kernels *gemm_kernels_for(const context *c, int dtype)
{
  return gemm_kernels_of(c, dtype, dtype == RUSH_BFLOAT16 ? chain_kind_of(c) : CHAIN_NONE);
}

const gemm_kernels *gemm_kernels_of(const context *c, int dtype, chain_kind chain)
{
  const cpu_level level = cpu_choose(context_get_options(c)->cpu);
#ifdef RUSH_ISA_X86
  if (chain == CHAIN_TILES)
    return gemm_tiles_avx512bf16();
  if (chain == CHAIN_WORDS)
    return &gemm_bf16_avx512bf16;
#endif
  (void)chain;
  if (dtype == RUSH_FLOAT64) {
#ifdef RUSH_ISA_X86
    if (level >= CPU_AVX512)
      return &gemm_f64_avx512;
    if (level == CPU_AVX2)
      return &gemm_f64_avx2;
#endif
    return &gemm_f64_portable;
  }
#ifdef RUSH_ISA_X86
  if (level >= CPU_AVX512)
    return &gemm_f32_avx512;
  if (level == CPU_AVX2)
    return &gemm_f32_avx2;
#endif
  (void)level;
  return &gemm_f32_portable;
}

/* The data that every task of one product reads. */
typedef struct job {
  call_ctx *cx;
  const gemm_args *g;
  const gemm_kernels *kr;
  size_t item;
  int64_t piece, n_panels, n_tiles; /* tiles: of mr rows */
  bool pack_a, must_pack_a; /* must: the kernels cannot read A in its layout */
  bool row_b; /* B has unit column stride and is read in place when that is enough */
  const char *a_all;  /* all of A packed, piece by piece; NULL: in place, or packed by each task */
  /* B packed for columns [shared_p0 * nr ...) and the current piece, or for all (g->packed). */
  const char *shared;
  int64_t shared_p0;
  int64_t k0, k1;     /* current piece, when tasks run one piece at a time */
  int64_t p0, p1;     /* current panels */
  int64_t n_blocks;   /* of rows, alike but for one tile */
  int64_t n_groups;   /* of panels, the same */
  /* scratch of tasks */
  char *scratch;
  size_t slot_bytes, a_bytes;
  _Atomic uint64_t free_slots;
} job;

static const char *at(const job *j, const void *base, int64_t elems)
{
  return (const char *)base + elems * (int64_t)j->item;
}

/* -- One block --------------------------------------------------------------------------------- */

/* Pack rows [m0, m1) and k0..k1 of A into tiles [tile][k][rows]. */
static void pack_a(const job *j, int64_t m0, int64_t m1, int64_t k0, int64_t k1, char *dst)
{
  const gemm_matrix *a = &j->g->a;
  for (int64_t i = m0; i < m1; i += j->kr->mr) {
    const int64_t rows = i64_min(j->kr->mr, m1 - i);
    j->kr->pack_a(k1 - k0, (int)rows, at(j, a->data, i * a->rs + k0 * a->cs), a->rs, a->cs, dst);
    dst += (size_t)(rows * (k1 - k0)) * j->item;
  }
}

/* Return the rows k0.. of panel p, and their distance: packed before, in place, or packed now. */
static const char *panel_of_b(const job *j, int64_t p, int64_t k0, int64_t k1, char *scratch,
                              int64_t *b_ks)
{
  const gemm_args *g = j->g;
  const int nr = j->kr->nr;
  const int64_t col = p * nr, cols = i64_min(nr, g->n - col);
  *b_ks = nr;
  if (g->packed)
    return at(j, g->packed->data, p * nr * g->k + k0 * nr);
  if (j->shared)
    return at(j, j->shared, (p - j->shared_p0) * nr * (k1 - k0));
  const char *b = at(j, g->b.data, k0 * g->b.rs + col * g->b.cs);
  if (j->row_b && (cols == nr || cols == j->kr->vl)) {
    *b_ks = g->b.rs;
    return b;
  }
  j->kr->pack_b(k1 - k0, (int)cols, b, g->b.rs, g->b.cs, scratch);
  return scratch;
}

/* Add the terms k0..k1 to C[m0..m1, panels p0..p1). */
static void run_block(const job *j, int64_t m0, int64_t m1, int64_t p0, int64_t p1, int64_t k0,
                      int64_t k1, char *scratch)
{
  const gemm_args *g = j->g;
  const int nr = j->kr->nr, mr = j->kr->mr;
  gemm_tile t = {.k = k1 - k0,
                 .c_rs = g->c_rs,
                 .c_cs = g->c_cs,
                 .shares_b = m1 - m0 > 4 * mr,
                 .alpha = g->alpha,
                 .beta = k0 ? 1.0 : g->beta};
  const char *a = j->a_all ? at(j, j->a_all, k0 * g->m + m0 * t.k) : j->pack_a ? scratch : NULL;
  if (j->pack_a && !j->a_all)
    pack_a(j, m0, m1, k0, k1, scratch);
  for (int64_t p = p0; p < p1 && !call_over(j->cx); p++) {
    const int64_t col = p * nr;
    t.cols = (int)i64_min(nr, g->n - col);
    t.b = panel_of_b(j, p, k0, k1, scratch + j->a_bytes, &t.b_ks);
    for (int64_t i = m0; i < m1; i += mr) {
      t.rows = (int)i64_min(mr, m1 - i);
      if (a) {
        t.a = at(j, a, (i - m0) * t.k);
        t.a_rs = j->kr->a_in_rows ? t.k : 1;
        t.a_ks = j->kr->a_in_rows ? 1 : t.rows;
      } else {
        t.a = at(j, g->a.data, i * g->a.rs + k0 * g->a.cs);
        t.a_rs = g->a.rs;
        t.a_ks = g->a.cs;
      }
      t.c = (void *)at(j, g->c, i * g->c_rs + col * g->c_cs);
      t.d = t.c;
      t.d_rs = g->c_rs;
      t.d_cs = g->c_cs;
      if (k0 == 0) { /* later pieces add to C */
        t.d = g->d.data && g->beta != 0.0 ? at(j, g->d.data, i * g->d.rs + col * g->d.cs) : NULL;
        t.d_rs = g->d.rs;
        t.d_cs = g->d.cs;
      }
      j->kr->tile(&t);
    }
  }
}

/* -- Tasks ------------------------------------------------------------------------------------- */

static char *slot_take(job *j, int *slot)
{
  for (;;) {
    uint64_t free_now = atomic_load_explicit(&j->free_slots, memory_order_relaxed);
    if (free_now == 0) {
      sched_yield(); /* a host's pool with more than MAX_SLOTS threads */
      continue;
    }
    int i = __builtin_ctzll(free_now);
    if (atomic_compare_exchange_weak_explicit(&j->free_slots, &free_now,
                                              free_now & ~(UINT64_C(1) << i), memory_order_acquire,
                                              memory_order_relaxed)) {
      *slot = i;
      return j->scratch + (size_t)i * j->slot_bytes;
    }
  }
}

static void slot_release(job *j, int slot)
{
  atomic_fetch_or_explicit(&j->free_slots, UINT64_C(1) << slot, memory_order_release);
}

static int64_t cut(int64_t n, int64_t n_parts, int64_t i) { return n * i / n_parts; }

/* Compute all rows, groups of panels [begin, end), all of k. */
static void task_panels(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  int slot;
  char *scratch = slot_take(j, &slot);
  const unsigned mode = chain_begin(j->kr, j->g->chain);
  for (int64_t i = begin; i < end; i++)
    for (int64_t k0 = 0; k0 < j->g->k && !(k0 && call_over(j->cx)); k0 += j->piece)
      run_block(j, 0, j->g->m, cut(j->n_panels, j->n_groups, i),
                cut(j->n_panels, j->n_groups, i + 1), k0, i64_min(k0 + j->piece, j->g->k), scratch);
  chain_end(j->kr, mode);
  slot_release(j, slot);
}

/* Tasks are (block of rows, group of panels) of one piece and the current panels, groups fastest.
 * */
static void task_blocks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const int64_t mr = j->kr->mr, n_panels = j->p1 - j->p0;
  int slot;
  char *scratch = slot_take(j, &slot);
  const unsigned mode = chain_begin(j->kr, j->g->chain);
  for (int64_t i = begin; i < end; i++) {
    const int64_t row = i / j->n_groups, group = i % j->n_groups;
    run_block(j, cut(j->n_tiles, j->n_blocks, row) * mr,
              i64_min(cut(j->n_tiles, j->n_blocks, row + 1) * mr, j->g->m),
              j->p0 + cut(n_panels, j->n_groups, group),
              j->p0 + cut(n_panels, j->n_groups, group + 1), j->k0, j->k1, scratch);
  }
  chain_end(j->kr, mode);
  slot_release(j, slot);
}

/* Pack tiles [begin, end) of A, all of k. */
static void task_pack_a(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const gemm_args *g = j->g;
  for (int64_t k0 = 0; k0 < g->k; k0 += j->piece) {
    const int64_t k1 = i64_min(k0 + j->piece, g->k), m0 = begin * j->kr->mr;
    pack_a(j, m0, i64_min(end * j->kr->mr, g->m), k0, k1,
           (char *)(uintptr_t)at(j, j->a_all, k0 * g->m + m0 * (k1 - k0)));
  }
}

static void task_pack(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const gemm_args *g = j->g;
  const int nr = j->kr->nr;
  for (int64_t p = j->p0 + begin; p < j->p0 + end; p++)
    j->kr->pack_b(j->k1 - j->k0, (int)i64_min(nr, g->n - p * nr),
                  at(j, g->b.data, j->k0 * g->b.rs + p * nr * g->b.cs), g->b.rs, g->b.cs,
                  (void *)at(j, j->shared, (p - j->shared_p0) * nr * (j->k1 - j->k0)));
}

/* Compute columns of a one-row product, B in place. */
static void task_row(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const gemm_args *g = j->g;
  _Alignas(64) char acc[4096];
  const int64_t most = (int64_t)(sizeof acc / j->item);
  const unsigned mode = chain_begin(j->kr, g->chain);
  for (int64_t c = begin; c < end; c += most) {
    const int64_t n = i64_min(most, end - c);
    for (int64_t k0 = 0; k0 < g->k && !(k0 && call_over(j->cx)); k0 += j->piece) {
      const int64_t k1 = i64_min(k0 + j->piece, g->k);
      const bool plain = g->b.cs == 1;
      (plain ? j->kr->row : j->kr->row_turned)(
        k1 - k0, at(j, g->a.data, k0 * g->a.cs), g->a.cs,
        at(j, g->b.data, k0 * g->b.rs + c * g->b.cs), plain ? g->b.rs : g->b.cs, n, acc);
      const double beta = k0 ? 1.0 : g->beta;
      const int64_t d_cs = k0 ? 1 : g->d.cs;
      const void *d = k0                         ? at(j, g->c, c)
                      : g->d.data && beta != 0.0 ? at(j, g->d.data, c * d_cs)
                                                 : NULL;
      if (j->item == 4) {
        const float *s = (const float *)(void *)acc, *df = d, al = (float)g->alpha,
                    be = (float)beta;
        float *out = (float *)g->c + c;
        for (int64_t i = 0; i < n; i++)
          out[i] = !df          ? al * s[i]
                   : be == 1.0f ? df[i * d_cs] + al * s[i]
                                : __builtin_fmaf(be, df[i * d_cs], al * s[i]);
      } else {
        const double *s = (const double *)(void *)acc, *df = d;
        double *out = (double *)g->c + c;
        for (int64_t i = 0; i < n; i++)
          out[i] = !df           ? g->alpha * s[i]
                   : beta == 1.0 ? df[i * d_cs] + g->alpha * s[i]
                                 : __builtin_fma(beta, df[i * d_cs], g->alpha * s[i]);
      }
    }
  }
  chain_end(j->kr, mode);
}

/* -- One product of float32 or float64 --------------------------------------------------------- */

static size_t round_up64(size_t n) { return (n + 63) & ~(size_t)63; }

/* Multiply with B shared by many row blocks: packed once per piece, for NC columns at a time. */
static rush_status run_big(job *j)
{
  const gemm_args *g = j->g;
  const int64_t width = NC / j->kr->nr;
  size_t n_bytes = (size_t)(i64_min(width, j->n_panels) * j->kr->nr * j->piece) * j->item;
  char *shared = NULL;
  rush_status st = RUSH_OK;
  if (!g->packed && !(shared = mem_alloc_data(j->cx->ctx, n_bytes)))
    return call_nomem(j->cx);
  for (j->p0 = 0; j->p0 < j->n_panels && st == RUSH_OK; j->p0 = j->p1) {
    j->p1 = i64_min(j->p0 + width, j->n_panels);
    for (j->k0 = 0; j->k0 < g->k && st == RUSH_OK; j->k0 = j->k1) {
      j->k1 = i64_min(j->k0 + j->piece, g->k);
      if (shared) {
        j->shared = shared;
        j->shared_p0 = j->p0;
        st = parallel_for(j->cx, j->p1 - j->p0, 4, task_pack, j);
      }
      if (st == RUSH_OK)
        st = parallel_for(j->cx, j->n_blocks * j->n_groups, 1, task_blocks, j);
    }
  }
  if (shared)
    mem_free_data(j->cx->ctx, shared, n_bytes);
  return st;
}

/* Multiply few rows: each panel of B is used once, by all of them. */
static rush_status run_thin(job *j, int n_threads)
{
  const gemm_args *g = j->g;
  size_t n_bytes = 0;
  char *all = NULL;
  rush_status st = RUSH_OK;
  if (j->pack_a) {
    n_bytes = (size_t)(g->m * g->k) * j->item;
    if (!(all = mem_alloc_data(j->cx->ctx, n_bytes)))
      return call_nomem(j->cx);
    j->a_all = all;
    if (n_threads > 1)
      st = parallel_for(j->cx, j->n_tiles, i64_max(1, 32768 / (g->k * j->kr->mr)), task_pack_a, j);
    else
      task_pack_a(j, 0, j->n_tiles);
  }
  const int64_t macs = i64_max(1, g->m * g->k * j->kr->nr * (j->n_panels / j->n_groups));
  if (st == RUSH_OK && n_threads > 1)
    st = parallel_for(j->cx, j->n_groups, i64_max(1, PARALLEL_MACS / 2 / macs), task_panels, j);
  else if (st == RUSH_OK)
    task_panels(j, 0, j->n_groups);
  if (all)
    mem_free_data(j->cx->ctx, all, n_bytes);
  return st;
}

/* Choose the number of tasks.  C is made tile by tile in any case: no bit depends on it. */
static void cut_work(job *j, bool big, int n_threads)
{
  const int64_t most = MC / j->kr->mr, threads = i64_max(1, n_threads);
  j->n_blocks = j->n_groups = 1;
  if (big) {
    j->n_blocks = (j->n_tiles + most - 1) / most;
    if (threads > 1) /* rows alike for every thread, several turns for each */
      j->n_blocks =
        i64_min((j->n_blocks + 2 * threads - 1) / (2 * threads) * 2 * threads, j->n_tiles);
    if (j->n_blocks < 2 * threads)
      j->n_groups = i64_max(1, i64_min(2 * threads / j->n_blocks, j->n_panels / 4));
  } else if (j->n_tiles <= 2) {
    j->n_groups = j->n_panels;
  } else { /* C of a group stays in the cache from piece to piece */
    j->n_groups = i64_min(j->n_panels, i64_max((j->n_panels + 7) / 8, 4 * threads));
  }
}

static rush_status run_with_scratch(job *j, int n_threads)
{
  const gemm_args *g = j->g;
  const bool big = n_threads > 0 && g->m > MC && (g->n > j->kr->nr || j->kr->a_in_rows);
  const bool needs_b = !g->packed && !big && !(j->row_b && (g->n % j->kr->nr == 0));
  _Alignas(64) char small[4096]; /* a larger product is worth an allocation */
  const int n_slots = n_threads > 1 ? (n_threads < MAX_SLOTS ? n_threads : MAX_SLOTS) : 1;
  rush_status st = RUSH_OK;

  cut_work(j, big, n_threads);
  if (!big && g->m * g->k > MOST_PACKED_A)
    j->pack_a = j->must_pack_a;
  j->a_bytes = 0;
  if (big && j->pack_a) {
    const int64_t rows = (j->n_tiles + j->n_blocks - 1) / j->n_blocks * j->kr->mr;
    j->a_bytes = round_up64((size_t)(i64_min(rows, g->m) * j->piece) * j->item);
  }
  j->slot_bytes = j->a_bytes + (needs_b ? round_up64((size_t)(j->piece * j->kr->nr) * j->item) : 0);
  const size_t n_bytes = j->slot_bytes * (size_t)n_slots;
  j->scratch = small;
  if (n_bytes > sizeof small && !(j->scratch = mem_alloc_data(j->cx->ctx, n_bytes)))
    return call_nomem(j->cx);
  atomic_init(&j->free_slots, n_slots == 64 ? UINT64_MAX : (UINT64_C(1) << n_slots) - 1);

  st = big ? run_big(j) : run_thin(j, n_threads);
  if (n_bytes > sizeof small)
    mem_free_data(j->cx->ctx, j->scratch, n_bytes);
  return st;
}

/* For k == 0, compute C = beta * D. */
static void scale_only(const gemm_args *g)
{
  const bool read = g->d.data && g->beta != 0.0;
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t c = 0; c < g->n; c++) {
      const int64_t to = i * g->c_rs + c * g->c_cs, from = i * g->d.rs + c * g->d.cs;
      if (g->dtype == RUSH_FLOAT32)
        ((float *)g->c)[to] = read ? (float)g->beta * ((const float *)g->d.data)[from] : 0.0f;
      else
        ((double *)g->c)[to] = read ? g->beta * ((const double *)g->d.data)[from] : 0.0;
    }
}

/* With fewer multiply-adds, setting up tasks takes as long as the product. */
#define SMALL_MACS 32768

/* True for a small product of one tile of rows and packed B. */
static inline bool is_small(const gemm_args *g, const gemm_kernels *kr)
{
  return g->packed && !g->packed_a && g->c_cs == 1 && g->m > 0 && g->m <= kr->mr && g->k &&
         gemm_k_piece(g->k) == g->k && !g->chain && !kr->a_in_rows &&
         g->n * g->k < SMALL_MACS / g->m;
}

static void run_small(const gemm_args *g, const gemm_kernels *kr, size_t item)
{
  const bool reads_d = g->d.data && g->beta != 0.0;
  gemm_tile t = {.k = g->k, .a = g->a.data, .a_rs = g->a.rs, .a_ks = g->a.cs, .b_ks = kr->nr,
                 .c_rs = g->c_rs, .c_cs = 1, .d_rs = g->d.rs, .d_cs = g->d.cs, .rows = (int)g->m,
                 .alpha = g->alpha, .beta = g->beta};
  for (int64_t col = 0; col < g->n; col += kr->nr) {
    t.cols = (int)i64_min(kr->nr, g->n - col);
    t.b = (const char *)g->packed->data + (size_t)(col * g->k) * item;
    t.c = (char *)g->c + (size_t)col * item;
    t.d = reads_d ? (const char *)g->d.data + (ptrdiff_t)(col * g->d.cs) * (ptrdiff_t)item : NULL;
    kr->tile(&t);
  }
}

/* Multiply floats; n_threads 0: the caller is a task itself. */
static rush_status gemm_float(call_ctx *cx, const gemm_args *args, int n_threads)
{
  const gemm_kernels *kr = gemm_kernels_of(cx->ctx, args->dtype, (chain_kind)args->chain);
  if (is_small(args, kr)) {
    run_small(args, kr, dtype_bytes(args->dtype));
    return RUSH_OK;
  }
  gemm_args g = *args;
  if (g.k == 0) {
    scale_only(&g);
    return RUSH_OK;
  }
  const bool one = g.chain == CHAIN_TILES /* an operand of one row or column is packed, not both */
                     ? g.m == 1 && g.n > 1 && g.b.rs == 1
                     : g.n == 1 && g.m > 1 && g.c_rs == 1;
  if ((g.c_cs != 1 && !(g.packed && g.c_rs == 1)) || (one && !g.packed && !g.packed_a)) {
    gemm_matrix a = g.a; /* C' = B' A' */
    g.a = (gemm_matrix){g.b.data, g.b.cs, g.b.rs};
    g.b = (gemm_matrix){a.data, a.cs, a.rs};
    g.d = (gemm_matrix){g.d.data, g.d.cs, g.d.rs};
    g.m = args->n;
    g.n = args->m;
    g.c_rs = args->c_cs;
    g.c_cs = args->c_rs;
    ASSERT(g.c_cs == 1 || g.n == 1, "C has a unit stride");
    ASSERT(!g.packed && !g.packed_a, "packed operands and C by columns");
  }
  job j = {.cx = cx, .g = &g, .kr = kr, .item = dtype_bytes(g.dtype)};
  ASSERT(!g.packed || g.packed->nr == j.kr->nr, "packed for this instruction set");
  ASSERT(!g.packed_a || g.packed_a->nr == j.kr->mr, "packed for this instruction set");
  j.piece = chain_piece(g.chain, g.k);
  j.n_panels = (g.n + j.kr->nr - 1) / j.kr->nr;
  j.n_tiles = (g.m + j.kr->mr - 1) / j.kr->mr;
  j.row_b = g.b.cs == 1 && g.m <= 2 * j.kr->mr;
  const size_t row_bytes = (size_t)g.a.rs * j.item;
  j.a_all = g.packed_a ? g.packed_a->data : NULL;
  j.must_pack_a = !g.packed_a && j.kr->a_in_rows && g.a.cs != 1;
  j.pack_a =
    j.must_pack_a || (!g.packed_a && g.m > 1 &&
                      (g.n > 8 * j.kr->nr || (g.n > 4 * j.kr->nr && row_bytes % 1024 == 0)));
  if (n_threads > 1 && (double)g.m * (double)g.n * (double)g.k < PARALLEL_MACS)
    n_threads = 1;
  if (g.m == 1 && !g.packed && !g.packed_a &&
      ((g.b.cs == 1 && j.kr->row) || (g.b.rs == 1 && g.n >= j.kr->nr && j.kr->row_turned))) {
    if (n_threads > 1)
      return parallel_for(cx, g.n, i64_max(128, (PARALLEL_MACS / 2 / g.k + 63) & ~INT64_C(63)),
                          task_row, &j);
    task_row(&j, 0, g.n);
    return RUSH_OK;
  }
  return run_with_scratch(&j, n_threads);
}

/* -- 16-bit floats: through float32 ------------------------------------------------------------ */

typedef struct widen {
  int dtype;
  gemm_matrix from;
  int64_t rows, cols;
  float *to; /* contiguous */
} widen;

static void widen_rows(void *arg, int64_t begin, int64_t end)
{
  const widen *w = arg;
  const uint16_t *base = w->from.data;
  const bool bf16 = w->dtype == RUSH_BFLOAT16;
  for (int64_t i = begin; i < end; i++) {
    const uint16_t *s = base + i * w->from.rs;
    float *d = w->to + i * w->cols;
    if (w->from.cs == 1) {
      f32_from_half(bf16, s, d, w->cols);
      continue;
    }
    for (int64_t c = 0; c < w->cols; c++)
      d[c] = bf16 ? f32_of_bf16(s[c * w->from.cs]) : f32_of_f16(s[c * w->from.cs]);
  }
}

static rush_status widen_matrix(call_ctx *cx, int dtype, gemm_matrix *m, int64_t rows, int64_t cols,
                                float *to)
{
  widen w = {dtype, *m, rows, cols, to};
  if ((m->cs == 1 && m->rs == cols) || (m->rs == 1 && m->cs == rows)) {
    *m = m->cs == 1 ? (gemm_matrix){to, cols, 1} : (gemm_matrix){to, 1, rows};
    return halves_widen(cx, dtype, rows * cols, w.from.data, to);
  }
  if (m->rs == 1 && m->cs != 1) { /* keep memory's order: walk along it */
    w.from = (gemm_matrix){m->data, m->cs, 1};
    w.rows = cols;
    w.cols = rows;
    *m = (gemm_matrix){to, 1, rows};
  } else {
    *m = (gemm_matrix){to, cols, 1};
  }
  return parallel_for(cx, w.rows, i64_max(1, 65536 / i64_max(1, w.cols)), widen_rows, &w);
}

/* True if C is computed column by column, in its memory order. */
static bool is_turned(const gemm_args *g)
{
  return g->c_rs == 1 && g->c_cs == g->m && g->m > 1 && g->packed && (!g->d.data || g->d.rs == 0);
}

/* Round C from float32 into its place. */
static rush_status narrow_result(call_ctx *cx, const gemm_args *g, const float *c)
{
  const bool bf16 = g->dtype == RUSH_BFLOAT16;
  if ((g->c_cs == 1 && (g->c_rs == g->n || g->m == 1)) ||
      (g->c_rs == 1 && g->c_cs == g->m && is_turned(g)))
    return halves_narrow(cx, g->dtype, g->m * g->n, c, g->c);
  for (int64_t i = 0; i < g->m; i++) {
    uint16_t *to = (uint16_t *)g->c + i * g->c_rs;
    for (int64_t k = 0; k < g->n; k += g->c_cs == 1 ? g->n : 1)
      half_from_f32(bf16, c + i * g->n + k, to + k * g->c_cs, g->c_cs == 1 ? g->n : 1);
  }
  return RUSH_OK;
}

/* Widen D to float32: into C, or one row that is used for all. */
static void widen_added(gemm_args *g, float *c)
{
  const bool row = g->d.rs == 0;
  if (!g->d.data || g->beta == 0.0)
    return;
  widen w = {g->dtype, g->d, row ? 1 : g->m, g->n, row ? c + g->m * g->n : c};
  widen_rows(&w, 0, w.rows);
  g->d = (gemm_matrix){w.to, row ? 0 : g->n, 1};
}

/* Make chains of a bfloat16 operand: in place, or in `to`.  Rows of A and columns of B are the
 * others. */
static rush_status chain_operand(call_ctx *cx, gemm_args *g, bool is_a, void *to)
{
  gemm_matrix *m = is_a ? &g->a : &g->b, chains;
  const chain_source s = {m->data, is_a ? m->cs : m->rs, is_a ? m->rs : m->cs, g->k,
                          1,       is_a ? g->m : g->n};
  if (!to && !chain_view(g->chain, &s, &chains))
    ASSERT(false, "asked before");
  if (to)
    TRY(chain_make(cx, g->chain, &s, to, &chains));
  *m = is_a ? chains : (gemm_matrix){chains.data, chains.cs, chains.rs};
  return RUSH_OK;
}

static bool chain_in_place(const gemm_args *g, bool is_a)
{
  const gemm_matrix *m = is_a ? &g->a : &g->b;
  const chain_source s = {m->data, is_a ? m->cs : m->rs, is_a ? m->rs : m->cs, g->k,
                          1,       is_a ? g->m : g->n};
  gemm_matrix chains;
  return chain_view(g->chain, &s, &chains);
}

static rush_status gemm_half(call_ctx *cx, const gemm_args *args, int n_threads)
{
  gemm_args g = *args;
  const bool bf16 = g.dtype == RUSH_BFLOAT16;
  g.chain = bf16 ? chain_kind_of(cx->ctx) : CHAIN_NONE;
  const int64_t k = bf16 ? chain_length(g.chain, g.k, 1) : g.k;
  const bool view_a = bf16 && !g.packed_a && chain_in_place(&g, true),
             view_b = bf16 && !g.packed && chain_in_place(&g, false);
  const size_t n_a = g.packed_a || view_a ? 0 : (size_t)(g.m * k),
               n_b = g.packed || view_b ? 0 : (size_t)(k * g.n);
  const size_t n_c = (size_t)(g.m * g.n + g.n);
  size_t n_bytes;
  if (!size_mul(n_a + n_b + n_c, sizeof(float), &n_bytes))
    return call_nomem(cx);
  float *buf = mem_alloc_data(cx->ctx, n_bytes);
  if (!buf)
    return call_nomem(cx);
  float *c = buf + n_a + n_b;
  rush_status st = RUSH_OK;
  if (n_a || view_a)
    st = bf16 ? chain_operand(cx, &g, true, view_a ? NULL : buf)
              : widen_matrix(cx, g.dtype, &g.a, g.m, g.k, buf);
  if (st == RUSH_OK && (n_b || view_b))
    st = bf16 ? chain_operand(cx, &g, false, view_b ? NULL : buf + n_a)
              : widen_matrix(cx, g.dtype, &g.b, g.k, g.n, buf + n_a);
  if (st == RUSH_OK) {
    widen_added(&g, c);
    g.dtype = RUSH_FLOAT32;
    g.k = k;
    g.c = c;
    g.c_rs = is_turned(args) ? 1 : g.n;
    g.c_cs = is_turned(args) ? g.m : 1;
    st = gemm_float(cx, &g, n_threads);
  }
  if (st == RUSH_OK)
    st = narrow_result(cx, args, c);
  mem_free_data(cx->ctx, buf, n_bytes);
  return st;
}

/* -- 8-bit floats: through float32, element by element ----------------------------------------- */

static void widen_float8(int dtype, gemm_matrix *m, int64_t rows, int64_t cols, float *to)
{
  const uint8_t *from = m->data;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < cols; k++)
      to[i * cols + k] = float8_to_float(dtype, from[i * m->rs + k * m->cs]);
  *m = (gemm_matrix){to, cols, 1};
}

static rush_status gemm_float8(call_ctx *cx, const gemm_args *args, int n_threads)
{
  gemm_args g = *args;
  const size_t n_a = (size_t)(g.m * g.k), n_b = (size_t)(g.k * g.n), n_c = (size_t)(g.m * g.n);
  size_t n_bytes;
  if (!size_mul(n_a + n_b + n_c, sizeof(float), &n_bytes))
    return call_nomem(cx);
  float *buf = mem_alloc_data(cx->ctx, n_bytes), *c = buf + n_a + n_b;
  if (!buf)
    return call_nomem(cx);
  widen_float8(g.dtype, &g.a, g.m, g.k, buf);
  widen_float8(g.dtype, &g.b, g.k, g.n, buf + n_a);
  if (g.d.data && g.beta != 0.0)
    widen_float8(g.dtype, &g.d, g.m, g.n, c);
  g.dtype = RUSH_FLOAT32;
  g.c = c;
  g.c_rs = g.n;
  g.c_cs = 1;
  rush_status st = gemm_float(cx, &g, n_threads);
  for (int64_t i = 0; st == RUSH_OK && i < g.m; i++)
    for (int64_t k = 0; k < g.n; k++)
      ((uint8_t *)args->c)[i * args->c_rs + k * args->c_cs] =
        float8_from_float(args->dtype, c[i * g.n + k]);
  mem_free_data(cx->ctx, buf, n_bytes);
  return st;
}

/* -- Complex numbers: plain loops -------------------------------------------------------------- */

typedef struct rows_job {
  const gemm_args *g;
  const call_ctx *cx;
} rows_job;

/* Count n more multiplications and poll now and then. */
static inline bool rows_over(const rows_job *j, int64_t *work, int64_t n)
{
  if ((*work += n) < 1 << 18)
    return false;
  *work = 0;
  return call_over(j->cx);
}

#define COMPLEX_ROWS(name, T)                                                                \
  static void name(void *arg, int64_t begin, int64_t end)                                    \
  {                                                                                          \
    const gemm_args *g = ((const rows_job *)arg)->g;                                         \
    int64_t work = 0;                                                                        \
    const T *a = g->a.data, *b = g->b.data, *d = g->d.data;                                  \
    const double sign = g->conj_a ? -1.0 : 1.0;                                              \
    for (int64_t i = begin; i < end; i++)                                                    \
      for (int64_t c = 0; c < g->n; c++) {                                                   \
        double re = 0.0, im = 0.0;                                                           \
        for (int64_t k = 0; k < g->k && !rows_over(arg, &work, 1); k++) {                    \
          const T *x = a + 2 * (i * g->a.rs + k * g->a.cs),                                  \
                  *y = b + 2 * (k * g->b.rs + c * g->b.cs);                                  \
          const double xi = sign * (double)x[1];                                             \
          re += (double)x[0] * (double)y[0] - xi * (double)y[1];                             \
          im += (double)x[0] * (double)y[1] + xi * (double)y[0];                             \
        }                                                                                    \
        double vr = g->alpha * re - g->alpha_im * im, vi = g->alpha * im + g->alpha_im * re; \
        if (d && (g->beta != 0.0 || g->beta_im != 0.0)) {                                    \
          const T *z = d + 2 * (i * g->d.rs + c * g->d.cs);                                  \
          vr += g->beta * (double)z[0] - g->beta_im * (double)z[1];                          \
          vi += g->beta * (double)z[1] + g->beta_im * (double)z[0];                          \
        }                                                                                    \
        T *to = (T *)g->c + 2 * (i * g->c_rs + c * g->c_cs);                                 \
        to[0] = (T)vr;                                                                       \
        to[1] = (T)vi;                                                                       \
      }                                                                                      \
  }
COMPLEX_ROWS(rows_c64, float)
COMPLEX_ROWS(rows_c128, double)

static rush_status gemm_plain(call_ctx *cx, const gemm_args *g)
{
  rows_job j = {g, cx};
  if (!dtype_is_complex(g->dtype))
    return gemm_ints(cx, g);
  return parallel_for(cx, g->m, i64_max(1, 65536 / i64_max(1, g->n * g->k)),
                      g->dtype == RUSH_COMPLEX64 ? rows_c64 : rows_c128, &j);
}

/* -- Public ------------------------------------------------------------------------------------ */

bool gemm_supports(int dtype)
{
  switch (dtype) {
  case RUSH_UINT8: case RUSH_INT8: case RUSH_INT16: case RUSH_INT32: case RUSH_INT64:
  case RUSH_UINT16: case RUSH_UINT32: case RUSH_UINT64:
  case RUSH_FLOAT16: case RUSH_BFLOAT16: case RUSH_FLOAT32: case RUSH_FLOAT64:
  case RUSH_COMPLEX64: case RUSH_COMPLEX128:
    return true;
  }
  return dtype_is_float8(dtype);
}

static rush_status gemm_one(call_ctx *cx, const gemm_args *g, int n_threads)
{
  if (g->m == 0 || g->n == 0)
    return RUSH_OK;
  if (g->dtype == RUSH_FLOAT32 || g->dtype == RUSH_FLOAT64)
    return gemm_float(cx, g, n_threads);
  if (g->dtype == RUSH_FLOAT16 || g->dtype == RUSH_BFLOAT16)
    return gemm_half(cx, g, n_threads);
  if (dtype_is_float8(g->dtype))
    return gemm_float8(cx, g, n_threads);
  return gemm_plain(cx, g);
}

rush_status gemm(call_ctx *cx, const gemm_args *g)
{
  return gemm_one(cx, g, pool_n_threads(context_pool(cx->ctx)));
}

rush_status gemm_serial(call_ctx *cx, const gemm_args *g) { return gemm_one(cx, g, 0); }

typedef struct batch {
  call_ctx *cx;
  const gemm_args *g;
  int64_t a_bs, b_bs, d_bs, c_bs;
  size_t item;
  _Atomic int failed;
} batch;

static gemm_args batch_item(const batch *b, int64_t i)
{
  const int64_t item = (int64_t)b->item;
  gemm_args g = *b->g;
  g.a.data = (const char *)g.a.data + i * b->a_bs * item;
  g.b.data = (const char *)g.b.data + i * b->b_bs * item;
  g.c = (char *)g.c + i * b->c_bs * item;
  if (g.d.data)
    g.d.data = (const char *)g.d.data + i * b->d_bs * item;
  return g;
}

static void batch_items(void *arg, int64_t begin, int64_t end)
{
  batch *b = arg;
  call_ctx cx = *b->cx; /* errors of tasks are dropped; the caller reports "no memory" */
  cx.err = NULL;
  for (int64_t i = begin; i < end; i++) {
    gemm_args g = batch_item(b, i);
    if (gemm_one(&cx, &g, 0) != RUSH_OK)
      atomic_store_explicit(&b->failed, 1, memory_order_relaxed);
  }
}

rush_status gemm_batch(call_ctx *cx, const gemm_args *g, int64_t n_batch, int64_t a_bs,
                       int64_t b_bs, int64_t d_bs, int64_t c_bs)
{
  const int n_threads = pool_n_threads(context_pool(cx->ctx));
  const double macs = (double)g->m * (double)g->n * (double)g->k;
  batch b = {cx, g, a_bs, b_bs, d_bs, c_bs, dtype_bytes(g->dtype), 0};
  if (n_batch == 1 || (n_batch < 2 * n_threads && macs >= 4 * PARALLEL_MACS)) {
    for (int64_t i = 0; i < n_batch; i++) {
      gemm_args one = batch_item(&b, i);
      TRY(gemm_one(cx, &one, n_threads));
    }
    return RUSH_OK;
  }
  const double per = macs < 1.0 ? 1.0 : macs;
  TRY(parallel_for(cx, n_batch, i64_max(1, (int64_t)(PARALLEL_MACS / 2 / per)), batch_items, &b));
  return b.failed ? call_nomem(cx) : RUSH_OK;
}

/* -- Packing ahead ----------------------------------------------------------------------------- */

typedef struct pack_job {
  const gemm_kernels *kr;
  gemm_packed *p;
  const gemm_packing *from;
  chain_kind chain;
  int64_t n_units; /* panels of B or tiles of A in one matrix */
} pack_job;

static int64_t unit_of(const gemm_kernels *kr, bool is_a) { return is_a ? kr->mr : kr->nr; }

static void pack_units(void *arg, int64_t begin, int64_t end)
{
  const pack_job *j = arg;
  const gemm_packing *f = j->from;
  const int64_t item = (int64_t)dtype_bytes(f->dtype), nr = j->p->nr,
                piece = chain_piece(j->chain, f->k);
  for (int64_t u = begin; u < end; u++) {
    const int64_t i = u / j->n_units, first = u % j->n_units * nr, n = i64_min(nr, f->n - first);
    const char *from = (const char *)f->from.data + i * f->bs * item;
    char *to = (char *)gemm_packed_item(j->p, i).data;
    if (!f->is_a) {
      j->kr->pack_b(f->k, (int)n, from + first * f->from.cs * item, f->from.rs, f->from.cs,
                    to + first * f->k * item);
      continue;
    }
    for (int64_t k0 = 0; k0 < f->k; k0 += piece) {
      const int64_t len = i64_min(piece, f->k - k0);
      j->kr->pack_a(len, (int)n, from + (first * f->from.rs + k0 * f->from.cs) * item, f->from.rs,
                    f->from.cs, to + (k0 * f->n + first * len) * item);
    }
  }
}

gemm_packed gemm_packed_item(const gemm_packed *p, int64_t i)
{
  gemm_packed one = *p;
  one.count = 1;
  one.n_bytes = p->n_bytes / (size_t)p->count;
  one.data = (char *)p->data + (size_t)i * one.n_bytes;
  return one;
}

bool gemm_packed_fits(call_ctx *cx, const gemm_packed *p, const gemm_packing *like)
{
  const gemm_kernels *kr = gemm_kernels_for(cx->ctx, like->dtype);
  return p->dtype == like->dtype && p->is_a == like->is_a && p->count == like->count &&
         p->k == like->k && p->n == like->n && p->nr == unit_of(kr, like->is_a) &&
         p->words == kr->words && p->in_rows == (kr->a_in_rows && like->is_a) &&
         p->taps == i64_max(1, like->taps);
}

/* Pack with 4 or 8 bytes per term. */
static rush_status pack_terms(call_ctx *cx, const gemm_packing *from, chain_kind chain,
                              gemm_packed **out)
{
  const gemm_kernels *kr = gemm_kernels_of(cx->ctx, from->dtype, chain);
  const int64_t unit = unit_of(kr, from->is_a), n_units = (from->n + unit - 1) / unit;
  gemm_packed *p = mem_alloc(cx->ctx, sizeof *p);
  if (!p)
    return call_nomem(cx);
  *p = (gemm_packed){.dtype = from->dtype,
                     .is_a = from->is_a,
                     .words = kr->words,
                     .in_rows = kr->a_in_rows && from->is_a,
                     .count = from->count,
                     .k = from->k,
                     .n = from->n,
                     .nr = unit,
                     .taps = 1};
  p->n_bytes = (size_t)(from->count * (from->is_a ? from->n : n_units * unit) * from->k) *
               dtype_bytes(from->dtype);
  p->data = mem_alloc_data(cx->ctx, p->n_bytes);
  if (!p->data) {
    mem_free(cx->ctx, p, sizeof *p);
    return call_nomem(cx);
  }
  mem_count_packed(cx->ctx, (int64_t)p->n_bytes);
  pack_job j = {kr, p, from, chain, n_units};
  rush_status st = parallel_for(cx, from->count * n_units,
                                i64_max(1, 65536 / i64_max(1, unit * from->k)), pack_units, &j);
  if (st != RUSH_OK) {
    gemm_packed_free(cx->ctx, p);
    return st;
  }
  *out = p;
  return RUSH_OK;
}

/* Pack 16-bit floats: as float32, or as chains. */
static rush_status pack_wide(call_ctx *cx, const gemm_packing *from, gemm_packed **out)
{
  const bool bf16 = from->dtype == RUSH_BFLOAT16;
  const chain_kind chain = bf16 ? chain_kind_of(cx->ctx) : CHAIN_NONE;
  const int64_t taps = i64_max(1, from->taps),
                k = bf16 ? chain_length(chain, from->k / taps, taps) : from->k;
  const int64_t rows = from->is_a ? from->n : from->k, cols = from->is_a ? from->k : from->n,
                each = from->n * k;
  const size_t n_bytes = (size_t)(from->count * each) * sizeof(float);
  float *wide = mem_alloc_data(cx->ctx, n_bytes);
  gemm_packing f = *from;
  rush_status st = RUSH_OK;
  if (!wide)
    return call_nomem(cx);
  for (int64_t i = 0; i < from->count && st == RUSH_OK; i++) {
    f.from =
      (gemm_matrix){(const uint16_t *)from->from.data + i * from->bs, from->from.rs, from->from.cs};
    if (bf16) {
      const int64_t ks = from->is_a ? f.from.cs : f.from.rs,
                    os = from->is_a ? f.from.rs : f.from.cs;
      const chain_source s = {f.from.data, ks, os, from->k / taps, taps, from->n};
      st = chain_make(cx, chain, &s, wide + i * each, &f.from);
      if (!from->is_a)
        f.from = (gemm_matrix){f.from.data, f.from.cs, f.from.rs};
    } else {
      st = widen_matrix(cx, from->dtype, &f.from, rows, cols, wide + i * each);
    }
  }
  f.from.data = wide;
  f.bs = each;
  f.k = k;
  f.dtype = RUSH_FLOAT32;
  if (st == RUSH_OK)
    st = pack_terms(cx, &f, chain, out);
  if (st == RUSH_OK) {
    (*out)->dtype = from->dtype;
    (*out)->k = from->k;
    (*out)->taps = taps;
  }
  mem_free_data(cx->ctx, wide, n_bytes);
  return st;
}

/* Pack a copy whose columns have their terms in the order of k. */
static rush_status pack_turned(call_ctx *cx, const gemm_packing *from, gemm_packed **out)
{
  const int64_t n_columns = from->count * from->n, outer = from->k / from->turned;
  const size_t n_bytes = (size_t)(n_columns * from->k) * sizeof(float);
  float *copy = mem_alloc_data(cx->ctx, n_bytes), *to = copy;
  gemm_packing f = *from;

  ASSERT(!from->is_a && from->dtype == RUSH_FLOAT32 && from->bs == from->n * from->from.cs,
         "columns that follow each other");
  if (!copy)
    return call_nomem(cx);
  for (int64_t i = 0; i < n_columns; i++) {
    const float *x = (const float *)from->from.data + i * from->from.cs;
    for (int64_t o = 0; o < outer; o++)
      for (int64_t t = 0; t < from->turned; t++)
        *to++ = x[t * outer + o];
  }
  f.turned = 0;
  f.from = (gemm_matrix){copy, 1, f.k};
  f.bs = f.n * f.k;
  const rush_status st = gemm_pack(cx, &f, out);
  mem_free_data(cx->ctx, copy, n_bytes);
  return st;
}

rush_status gemm_pack(call_ctx *cx, const gemm_packing *from, gemm_packed **out)
{
  if (from->turned)
    return pack_turned(cx, from, out);
  if (from->dtype == RUSH_BFLOAT16 || from->dtype == RUSH_FLOAT16)
    return pack_wide(cx, from, out);
  return pack_terms(cx, from, (chain_kind)from->chain, out);
}

void gemm_packed_free(context *c, gemm_packed *p)
{
  if (!p)
    return;
  mem_count_packed(c, -(int64_t)p->n_bytes);
  mem_free_data(c, p->data, p->n_bytes);
  mem_free(c, p, sizeof *p);
}
