/* ops/math/block_conv.c -- convolutions of images in blocks of channels (block.h), as products of
 * pixels and panels of output channels.  The pixels are cut into tiles, as many as a micro-kernel
 * has rows, and a task computes a run of tiles for some panels: a panel's weights stay in L1 or L2
 * over the run, and the run's pixels over the panels.
 *
 * Where registers are many, a kernel reads pixels where they are, 64 bytes apart, one broadcast for
 * each pixel and term.  Where they are few, that is one load for two multiply-adds, and loads from
 * the same place in several cache lines wait for each other if an L1 has banks.  So there are two
 * other ways: for kernels of three columns, three neighbouring pixels by two panels, so that a
 * pixel is loaded once for all columns (tile_row); else a copy of the run's terms in order
 * ([term][pixel]), which is made once for all panels of a task.  ResNets are 1.3 times as fast on
 * Zen 3 as with pixels in place.
 *
 * What follows (the border, `after`) is done by the task that wrote the pixels.  Rejected: a border
 * by masks in the inner loops, which every tap would pay for. */
#include <string.h>

#include "base/threads.h"
#include "ops/math/block_int.h"
#include "ops/math/gemm_int.h"

/* Tiles of pixels that share a panel of weights while it is in the cache. */
#define TASK_TILES 16
#define ROW_TILES 32 /* small ones, of tile_row */
#define MOST_TILES 32
#define MOST_ROWS 14 /* pixels of a tile */
/* Tiles that are written before `after` reads them: a few KB, which stay in L1. */
#define AFTER_TILES 4
/* Bytes of a task's copied terms, four tiles of whole pieces, and of its unfinished sums; for large
 * weights, of which each run reads all, nine tiles, and twice the sums. */
#define TERM_BYTES (48 << 10)
#define SUM_BYTES (32 << 10)
#define LARGE_TERM_BYTES (112 << 10)
#define LARGE_WEIGHT (1 << 20)
/* Multiply-adds of a task, about: what a call that is cancelled still does. */
#define TASK_MACS (INT64_C(1) << 26)

typedef struct job {
  const block_step *s;
  const gemm_kernels *kr;
  call_ctx *cx;
  bool copies; /* tasks copy the terms of their pixels */
  bool rows;   /* tiles are of neighbours, for tile_row */
  bool pairs;  /* a tile is two rows of 7 pixels, at a network's end */
  int64_t mr, at_once; /* pixels and panels of a tile */
  int64_t n_k, piece;
  int64_t h, w; /* of the output; flat runs are one row */
  int64_t n_tiles, per_row, n_runs, run_tiles; /* run_tiles: of a run, at most */
  int64_t out_ch, per_group, n_panels; /* output channels and panels of a group */
  int64_t unit;                        /* panels that make whole blocks */
  int64_t n_parts, per_part;           /* of the panels: whole units */
  int64_t sums_at[MOST_ROWS];          /* rows of unfinished sums */
  _Atomic int failed;
} job;

typedef struct run { /* what a task computes */
  int64_t image, n_tiles;
  int64_t p0, p1; /* panels */
  int64_t first[MOST_TILES + 1]; /* pixels, counted in rows */
  int64_t from[MOST_TILES * MOST_ROWS], to[MOST_TILES * MOST_ROWS]; /* positions for block 0 */
  float *sums;  /* [panel][tile][row][nr, or 2 nr], of the pieces before */
  float *terms; /* copies: [tile][term of a piece][TERM_ROWS] */
} run;

void block_offsets(const block_step *s, int64_t *k_off)
{
  const block_place *p = &s->in;
  for (int64_t ch = 0; ch < p->n_ch / s->groups; ch++)
    for (int64_t y = 0; y < s->kernel[0]; y++)
      for (int64_t x = 0; x < s->kernel[1]; x++)
        *k_off++ = ch / p->lanes * block_floats(p) + ch % p->lanes +
                   (y * s->dilation[0] * p->cols + x * s->dilation[1]) * p->lanes;
}

/* -- Tiles ------------------------------------------------------------------------------------- */

/* Return the first pixel of tile i.  Where a kernel wants pixels of one row, tiles are alike. */
static int64_t first_pixel(const job *j, int64_t i)
{
  if (!j->per_row)
    return j->h * j->w * i / j->n_tiles;
  if (j->pairs)
    return i64_min(2 * i, j->h) * j->w;
  return i / j->per_row * j->w + j->w * (i % j->per_row) / j->per_row;
}

/* Find n pixels of a row of the output, or, if the step spreads, of the input. */
static void find_pixels(const block_step *s, int64_t image, int64_t y, int64_t x, int64_t n,
                        int64_t *from, int64_t *to)
{
  const bool spreads = s->spread[0] > 0;
  const int64_t in = block_at(&s->in, image, 0, y * s->stride[0] - s->pad[0],
                              x * s->stride[1] - s->pad[1]),
                out = spreads ? block_at(&s->out, image, 0, y * s->spread[0] + s->to_at[0],
                                         x * s->spread[1] + s->to_at[1])
                              : block_at(&s->out, image, 0, y, x),
                in_step = s->stride[1] * s->in.lanes,
                out_step = (spreads ? s->spread[1] : 1) * s->out.lanes;
  for (int64_t i = 0; i < n; i++) {
    from[i] = in + i * in_step;
    to[i] = out + i * out_step;
  }
}

/* Find the tiles of an image from i0 on. */
static void find_tiles(const job *j, int64_t i0, run *r)
{
  const block_step *s = j->s;
  for (int64_t i = 0; i <= r->n_tiles; i++)
    r->first[i] = first_pixel(j, i0 + i);
  for (int64_t i = 0; i < r->n_tiles; i++) {
    int64_t *from = r->from + i * MOST_ROWS, *to = r->to + i * MOST_ROWS;
    for (int64_t first = r->first[i], n; first < r->first[i + 1]; first += n, from += n, to += n) {
      const int64_t y = first / j->w, x = first % j->w;
      n = i64_min(r->first[i + 1] - first, j->w - x);
      find_pixels(s, r->image, y, x, n, from, to);
    }
  }
}

/* Return a panel's first output channel. */
static int64_t channel_of(const job *j, int64_t panel)
{
  return panel / j->per_group * j->out_ch + panel % j->per_group * j->kr->nr;
}

/* Return a group's first channel in the input. */
static const float *input_of(const job *j, int64_t group)
{
  const block_place *p = &j->s->in;
  return j->s->from + group * (p->n_ch / j->s->groups / p->lanes) * block_floats(p);
}

/* Return the end of a group's output channels: of one group, whole blocks. */
static int64_t block_channels(const block_step *s, int64_t group)
{
  return s->groups == 1 ? block_count(&s->out) * BLOCK_LANES
                        : (group + 1) * (s->out.n_ch / s->groups);
}

/* Finish tiles [i0, i1) of the blocks that a unit of panels, of which this is the last, makes. */
static void after_tiles(const job *j, const run *r, int64_t panel, int64_t i0, int64_t i1)
{
  const int64_t first = channel_of(j, panel - (panel - r->p0) % j->unit),
                last = channel_of(j, panel), rest = (last / j->out_ch + 1) * j->out_ch - last,
                end = (last + i64_min(j->kr->nr, rest) + BLOCK_LANES - 1) / BLOCK_LANES;
  for (int64_t b = first / BLOCK_LANES; b < end; b++)
    block_finish(j->s, r->image, b, r->first[i0], r->first[i1]);
}

/* Let a panel's tiles be stored as what the step makes. */
static void store_results(const job *j, int64_t ch, gemm_tile *t)
{
  const block_step *s = j->s;
  const int64_t block = block_floats(&s->out), vl = j->kr->vl;
  t->c = s->to + ch / BLOCK_LANES * block + ch % BLOCK_LANES;
  t->c1 = s->to + (ch + vl) / BLOCK_LANES * block + (ch + vl) % BLOCK_LANES;
  t->c_next = j->kr->nr / BLOCK_LANES * block;
  t->scale = s->scale ? s->scale + ch : NULL;
  t->shift = s->scale ? s->shift + ch : NULL;
  t->clamps = s->clamps;
  t->lo = s->lo;
  t->hi = s->hi;
}

/* Add the piece of terms from k0 on to all tiles of a panel, or of it and the next one. */
static void run_panel(const job *j, const run *r, int64_t panel, int64_t n, int64_t k0)
{
  const block_step *s = j->s;
  const int64_t nr = j->kr->nr, ch = channel_of(j, panel), group = panel / j->per_group,
                tile = j->mr * nr * j->at_once, end = panel + n;
  const gemm_packed weight = gemm_packed_item(s->weight, group);
  gemm_tile t = {.k = i64_min(j->piece, j->n_k - k0),
                 .a = input_of(j, group),
                 .a_off = s->k_off + k0,
                 .b = (const float *)weight.data + (panel % j->per_group * j->n_k + k0) * nr,
                 .b_ks = nr,
                 .cols = (int)i64_min(n * nr, block_channels(s, group) - ch),
                 .c_at = j->sums_at,
                 .c_next = nr,
                 .column = (int)(k0 % s->kernel[1]),
                 .d = s->bias ? s->bias + ch : NULL};
  const bool last = k0 + t.k == j->n_k,
             finishes = last && !s->spread[0] && (end == r->p1 || (end - r->p0) % j->unit == 0);
  t.b1 = n > 1 ? (const float *)t.b + j->n_k * nr : t.b;
  if (last)
    store_results(j, ch, &t);
  for (int64_t i = 0, at = 0; i < r->n_tiles; i++) {
    float *sum = r->sums + ((panel - r->p0) * j->run_tiles + i) * tile;
    t.rows = (int)(r->first[i + 1] - r->first[i]);
    t.a_at = r->from + i * MOST_ROWS;
    t.terms = j->copies ? r->terms + i * j->piece * TERM_ROWS : NULL;
    if (k0) {
      t.d = sum;
      t.d_rs = j->sums_at[1];
    }
    if (last) {
      t.c_at = r->to + i * MOST_ROWS;
    } else {
      t.c = sum;
      t.c1 = sum + j->kr->vl;
    }
    if (j->rows)
      j->kr->tile_row(&t);
    else
      j->kr->tile_block(&t);
    if (finishes && (i + 1 == r->n_tiles || i + 1 - at == AFTER_TILES)) {
      after_tiles(j, r, end - 1, at, i + 1);
      at = i + 1;
    }
  }
}

/* Copy the run's terms from k0 on, a piece of them, of a group. */
static void copy_terms(const job *j, const run *r, int64_t group, int64_t k0)
{
  const block_step *s = j->s;
  gemm_terms t = {.a = input_of(j, group),
                  .a_off = s->k_off,
                  .n_taps = s->kernel[0] * s->kernel[1],
                  .k0 = k0,
                  .k1 = i64_min(k0 + j->piece, j->n_k)};
  for (int64_t i = 0; i < r->n_tiles; i++) {
    t.at = r->from + i * MOST_ROWS;
    t.n = (int)(r->first[i + 1] - r->first[i]);
    t.to = r->terms + i * j->piece * TERM_ROWS;
    j->kr->copy_terms(&t);
  }
}

static void run_tiles(const job *j, const run *r)
{
  for (int64_t k0 = 0; k0 < j->n_k; k0 += j->piece)
    for (int64_t panel = r->p0, n, copied = -1; panel < r->p1; panel += n) {
      if (j->copies && panel / j->per_group != copied) {
        copied = panel / j->per_group;
        copy_terms(j, r, copied, k0);
      }
      n = i64_min(i64_min(j->at_once, r->p1 - panel), j->per_group - panel % j->per_group);
      run_panel(j, r, panel, n, k0);
    }
}

/* -- Tasks ------------------------------------------------------------------------------------- */

/* Tasks are (image, run of pixel tiles, part of the panels), parts fastest. */
static void run_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const bool waits = j->piece < j->n_k;
  const int64_t tile = j->mr * j->kr->nr * j->at_once,
                n_sums = waits ? j->per_part * j->run_tiles * tile : 0,
                n_terms = j->copies ? j->run_tiles * j->piece * TERM_ROWS : 0;
  const size_t n_bytes = (size_t)(n_sums + n_terms + 1) * sizeof(float);
  run r;
  r.sums = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!r.sums) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  r.terms = r.sums + n_sums;
  int64_t found = -1; /* the image and run whose tiles are known */
  for (int64_t i = begin; i < end; i++) {
    const int64_t part = i % j->n_parts, at = i / j->n_parts, n = at % j->n_runs;
    if (at != found) {
      const int64_t i0 = j->n_tiles * n / j->n_runs, i1 = j->n_tiles * (n + 1) / j->n_runs;
      r.image = at / j->n_runs;
      r.n_tiles = i1 - i0;
      find_tiles(j, i0, &r);
      found = at;
    }
    r.p0 = part * j->per_part;
    r.p1 = i64_min(r.p0 + j->per_part, j->n_panels);
    run_tiles(j, &r);
  }
  mem_free_data(j->cx->ctx, r.sums, n_bytes);
}

static bool is_large(const block_step *s, int64_t n_k)
{
  return n_k * s->out.n_ch * (int64_t)sizeof(float) > LARGE_WEIGHT;
}

/* Cut the pixels into tiles and runs. */
static void cut_pixels(job *j)
{
  const block_step *s = j->s;
  const bool one_run = s->flat && !s->spread[0] && block_is_flat(&s->in) && s->kernel[0] == 1 &&
                       s->kernel[1] == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
                       s->pad[0] == 0 && s->pad[1] == 0;
  const block_place *p = s->spread[0] ? &s->in : &s->out;
  const int64_t mr = j->mr, term_bytes = j->piece * TERM_ROWS * (int64_t)sizeof(float),
                most_bytes = is_large(s, j->n_k) ? LARGE_TERM_BYTES : TERM_BYTES;
  j->h = one_run ? 1 : p->h;
  j->w = one_run ? p->h * p->w : p->w;
  j->pairs = mr == 14 && j->w == 7;
  j->per_row = j->rows || j->kr->even_rows ? (j->w + mr - 1) / mr : 0;
  j->n_tiles = j->pairs     ? (j->h + 1) / 2
               : j->per_row ? j->h * j->per_row
                            : (j->h * j->w + mr - 1) / mr;
  j->run_tiles =
    j->copies ? i64_max(1, i64_min(TASK_TILES, most_bytes / term_bytes))
    : j->rows ? ROW_TILES
              : TASK_TILES;
  j->n_runs = (j->n_tiles + j->run_tiles - 1) / j->run_tiles;
  j->run_tiles = (j->n_tiles + j->n_runs - 1) / j->n_runs;
  for (int64_t i = 0; i < mr; i++)
    j->sums_at[i] = i * j->kr->nr * j->at_once;
}

/* Cut the panels into parts: a unit each, or, if every part copies the terms, as few as keep all
 * threads busy and their sums in the cache. */
static void cut_panels(job *j)
{
  const block_step *s = j->s;
  const int64_t n_runs = s->batch * j->n_runs,
                n_threads = pool_n_threads(context_pool(j->cx->ctx)),
                sum_bytes = j->run_tiles * j->mr * j->kr->nr * (int64_t)sizeof(float);
  j->out_ch = s->out.n_ch / s->groups;
  j->per_group = (j->out_ch + j->kr->nr - 1) / j->kr->nr;
  j->n_panels = s->groups * j->per_group;
  j->unit = i64_max(j->at_once, BLOCK_LANES / j->kr->nr);
  const int64_t n_units = (j->n_panels + j->unit - 1) / j->unit;
  int64_t n_parts = n_units;
  if (j->copies) {
    const int64_t macs = j->run_tiles * j->mr * j->n_panels * j->kr->nr * j->n_k;
    n_parts = i64_max(1, macs / TASK_MACS);
    if (n_threads > 1)
      n_parts = i64_max(n_parts, (2 * n_threads + n_runs - 1) / n_runs);
    const int64_t most_bytes = is_large(s, j->n_k) ? 2 * SUM_BYTES : SUM_BYTES;
    if (j->piece < j->n_k)
      n_parts = i64_max(n_parts, (j->n_panels * sum_bytes + most_bytes - 1) / most_bytes);
    n_parts = i64_min(n_parts, n_units);
  }
  j->per_part = (n_units + n_parts - 1) / n_parts * j->unit;
  j->n_parts = (j->n_panels + j->per_part - 1) / j->per_part;
}

rush_status block_conv(call_ctx *cx, const block_step *s)
{
  job j = {.s = s, .cx = cx, .kr = gemm_kernels_of(cx->ctx, RUSH_FLOAT32, CHAIN_NONE)};
  j.n_k = s->in.n_ch / s->groups * s->kernel[0] * s->kernel[1];
  j.piece = gemm_k_piece(j.n_k);
  const bool shares = s->in.lanes == BLOCK_LANES && s->out.n_ch / s->groups > j.kr->nr;
  j.rows = j.kr->tile_row && shares && s->kernel[1] == 3 && s->stride[1] == 1 &&
           s->dilation[1] == 1;
  j.copies = j.kr->copy_terms && shares && !j.rows;
  j.mr = j.rows ? ROW_PIXELS : j.kr->mr;
  j.at_once = j.rows ? 2 : 1;
  cut_pixels(&j);
  cut_panels(&j);
  const int64_t macs =
    i64_max(1, j.h * j.w / j.n_runs * j.n_k * j.kr->nr * j.per_part);
  TRY(parallel_for(cx, s->batch * j.n_runs * j.n_parts, i64_max(1, 250000 / macs), run_tasks, &j));
  return j.failed ? call_nomem(cx) : RUSH_OK;
}
