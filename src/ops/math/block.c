/* ops/math/block.c -- steps over images in blocks of channels (block.h).  A convolution is cut into
 * tasks of a run of pixels by one panel of output channels: the panel's weights stay in L1 or L2
 * over the run, and the run's pixels over the panels.  Other steps are cut into blocks and rows.
 * What follows a step (the border, `after`) is done by the task that wrote the pixels.
 * Rejected: a border by masks in the inner loops, which every tap would pay for. */
#include "ops/math/block.h"

#include <string.h>

#include "base/threads.h"
#include "ops/math/block_int.h"
#include "ops/math/gemm_int.h"

/* Tiles of pixels that share a panel of weights while it is in the cache. */
#define TASK_TILES 16
/* Pixels of a block that other steps write before `after` reads them: 16 KB. */
#define TASK_PIXELS 256

/* -- The border -------------------------------------------------------------------------------- */

static void zero_pixels(const block_place *p, float *base, int64_t at, int64_t n)
{
  if (n > 0)
    memset(base + at, 0, (size_t)(n * p->lanes) * sizeof *base);
}

void block_border(const block_place *p, float *base, int64_t image, int64_t block, int64_t y,
                  int64_t x, int64_t n)
{
  if (block_is_flat(p))
    return;
  const int64_t right = p->cols - p->left - p->w, bottom = p->rows - p->top - p->h;
  if (x == 0) {
    zero_pixels(p, base, block_at(p, image, block, y, -p->left), p->left);
    if (y == 0)
      zero_pixels(p, base, block_at(p, image, block, -p->top, -p->left), p->top * p->cols);
  }
  if (x + n == p->w) {
    zero_pixels(p, base, block_at(p, image, block, y, p->w), right);
    if (y == p->h - 1)
      zero_pixels(p, base, block_at(p, image, block, p->h, -p->left), bottom * p->cols);
  }
}

/* Finish the pixels [first, end) of a block, counted in rows of the image. */
static void after_pixels(const block_step *s, int64_t image, int64_t block, int64_t first,
                         int64_t end)
{
  const int64_t w = s->out.w;
  if (s->flat) {
    if (s->after)
      s->after(s->user, image, block, first / w, first % w, end - first);
    return;
  }
  for (int64_t n; first < end; first += n) {
    n = i64_min(w - first % w, end - first);
    if (s->kind != BLOCK_NOTHING)
      block_border(&s->out, s->to, image, block, first / w, first % w, n);
    if (s->after)
      s->after(s->user, image, block, first / w, first % w, n);
  }
}

/* -- Convolutions ------------------------------------------------------------------------------ */

typedef struct job {
  const block_step *s;
  const gemm_kernels *kr;
  cpu_level level;
  call_ctx *cx;
  int64_t n_k, piece;
  int64_t h, w; /* of the output; flat runs are one row */
  int64_t n_tiles, per_row, n_runs, n_panels;
  int64_t unit, n_units; /* panels of a task: whole blocks */
  int64_t n_chunks, chunk; /* other steps: of rows */
  bool pairs; /* a tile is two rows of 7 pixels, at a network's end */
  _Atomic int failed;
} job;

void block_offsets(const block_step *s, int64_t *k_off)
{
  const block_place *p = &s->in;
  for (int64_t ch = 0; ch < p->n_ch; ch++)
    for (int64_t y = 0; y < s->kernel[0]; y++)
      for (int64_t x = 0; x < s->kernel[1]; x++)
        *k_off++ = ch / p->lanes * block_floats(p) + ch % p->lanes +
                   (y * s->dilation[0] * p->cols + x * s->dilation[1]) * p->lanes;
}

/* Return the first pixel of tile i; tiles of a row are alike. */
static int64_t first_pixel(const job *j, int64_t i)
{
  if (j->pairs)
    return i64_min(2 * i, j->h) * j->w;
  return i / j->per_row * j->w + j->w * (i % j->per_row) / j->per_row;
}

/* Set the tile's pixels: input, rows and where they go. */
static void place_tile(const job *j, int64_t image, int64_t i, gemm_tile *t, int64_t *to)
{
  const block_step *s = j->s;
  const int64_t first = first_pixel(j, i), y = first / j->w, x = first % j->w;
  const int64_t at = block_at(&s->in, image, 0, y * s->stride[0] - s->pad[0],
                              x * s->stride[1] - s->pad[1]);
  t->a = s->from + at;
  t->a_rs = s->stride[1] * s->in.lanes;
  t->rows = (int)(first_pixel(j, i + 1) - first);
  t->a_mid = 7 * t->a_rs;
  t->c_mid = 7 * BLOCK_LANES;
  if (j->pairs) {
    t->a_mid = s->stride[0] * s->in.cols * s->in.lanes;
    t->c_mid = s->out.cols * BLOCK_LANES;
  }
  *to = block_at(&s->out, image, 0, y, x);
}

/* Compute pixel tiles [i0, i1) of one image, one panel of output channels. */
static void run_tiles(const job *j, int64_t image, int64_t panel, int64_t i0, int64_t i1,
                      float *sums)
{
  const block_step *s = j->s;
  const int64_t nr = j->kr->nr, vl = j->kr->vl, ch = panel * nr, block = block_floats(&s->out);
  const int64_t place0 = ch / BLOCK_LANES * block + ch % BLOCK_LANES,
                place1 = (ch + vl) / BLOCK_LANES * block + (ch + vl) % BLOCK_LANES;
  const int64_t lanes = block_count(&s->out) * BLOCK_LANES;
  gemm_tile t = {.b_ks = nr, .cols = (int)i64_min(nr, lanes - ch), .alpha = 1.0, .beta = 1.0,
                 .d_cs = 1, .c_cs = 1};
  for (int64_t k0 = 0; k0 < j->n_k; k0 += j->piece) {
    t.k = i64_min(j->piece, j->n_k - k0);
    t.a_off = s->k_off + k0;
    t.b = (const float *)s->weight->data + (panel * j->n_k + k0) * nr;
    const bool last = k0 + t.k == j->n_k;
    t.scale = last && s->scale ? s->scale + ch : NULL;
    t.shift = last && s->scale ? s->shift + ch : NULL;
    for (int64_t i = i0; i < i1; i++) { /* sums of pieces wait as they are made */
      float *mine = sums + (i - i0) * j->kr->mr * nr;
      int64_t to;
      place_tile(j, image, i, &t, &to);
      t.d = k0 ? mine : s->bias ? s->bias + ch : NULL;
      t.d_rs = k0 ? nr : 0;
      t.c = last ? s->to + to + place0 : mine;
      t.c1 = last ? s->to + to + place1 : mine + vl;
      t.c_rs = last ? BLOCK_LANES : nr;
      t.c_mid = last ? t.c_mid : 7 * nr;
      j->kr->tile_block(&t);
    }
  }
}

/* Tasks are (image, run of pixel tiles, unit of panels), units fastest. */
static void conv_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const block_step *s = j->s;
  const int64_t nr = j->kr->nr;
  const size_t n_bytes = (size_t)(TASK_TILES * j->kr->mr * nr) * sizeof(float);
  float *sums = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!sums) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    const int64_t unit = i % j->n_units, run = i / j->n_units % j->n_runs,
                  image = i / j->n_units / j->n_runs;
    const int64_t i0 = j->n_tiles * run / j->n_runs, i1 = j->n_tiles * (run + 1) / j->n_runs;
    const int64_t p0 = unit * j->unit, p1 = i64_min(p0 + j->unit, j->n_panels);
    for (int64_t panel = p0; panel < p1; panel++)
      run_tiles(j, image, panel, i0, i1, sums);
    const int64_t b0 = p0 * nr / BLOCK_LANES,
                  b1 = i64_min((p1 * nr + BLOCK_LANES - 1) / BLOCK_LANES, block_count(&s->out));
    for (int64_t b = b0; b < b1; b++)
      after_pixels(s, image, b, first_pixel(j, i0), first_pixel(j, i1));
  }
  mem_free_data(j->cx->ctx, sums, n_bytes);
}

static rush_status run_conv(job *j)
{
  const block_step *s = j->s;
  j->n_k = s->in.n_ch * s->kernel[0] * s->kernel[1];
  j->piece = gemm_k_piece(j->n_k);
  const bool one_run = s->flat && block_is_flat(&s->in) && s->kernel[0] == 1 &&
                       s->kernel[1] == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
                       s->pad[0] == 0 && s->pad[1] == 0;
  j->h = one_run ? 1 : s->out.h;
  j->w = one_run ? s->out.h * s->out.w : s->out.w;
  j->pairs = j->kr->mr == 14 && j->w == 7;
  j->per_row = (j->w + j->kr->mr - 1) / j->kr->mr;
  j->n_tiles = j->pairs ? (j->h + 1) / 2 : j->h * j->per_row;
  j->n_runs = (j->n_tiles + TASK_TILES - 1) / TASK_TILES;
  j->n_panels = (s->out.n_ch + j->kr->nr - 1) / j->kr->nr;
  j->unit = i64_max(1, BLOCK_LANES / j->kr->nr);
  j->n_units = (j->n_panels + j->unit - 1) / j->unit;
  const int64_t macs = i64_max(1, j->h * j->w / j->n_runs * j->n_k * j->kr->nr * j->unit);
  return parallel_for(j->cx, s->batch * j->n_runs * j->n_units, i64_max(1, 250000 / macs),
                      conv_tasks, j);
}

/* -- Block by block ---------------------------------------------------------------------------- */

void block_taps(int64_t n_ch, int64_t n_taps, const float *from, float *to)
{
  for (int64_t b = 0; b * BLOCK_LANES < n_ch; b++, to += n_taps * BLOCK_LANES)
    for (int64_t l = 0; l < BLOCK_LANES; l++) {
      const int64_t ch = b * BLOCK_LANES + l;
      for (int64_t t = 0; t < n_taps; t++)
        to[t * BLOCK_LANES + l] = ch < n_ch ? from[ch * n_taps + t] : 0.0f;
    }
}

static void copy_rows(const job *j, int64_t image, int64_t block, int64_t y0, int64_t y1)
{
  const block_step *s = j->s;
  const bool enters = s->kind == BLOCK_ENTER;
  const block_place *p = enters ? &s->out : &s->in;
  const int64_t ch = block * p->lanes, planes = (image * p->n_ch + ch) * p->h * p->w;
  const int64_t at = block_at(p, image, block, 0, 0);
  const block_copy c = {.place = p,
                        .n_ch = i64_min(p->lanes, p->n_ch - ch),
                        .y0 = y0,
                        .y1 = y1,
                        .planes = enters ? (float *)(uintptr_t)(s->from + planes) : s->to + planes,
                        .block = enters ? s->to + at : (float *)(uintptr_t)(s->from + at)};
  if (enters)
    ISA_PICK(block_enter, j->level)(&c);
  else
    ISA_PICK(block_leave, j->level)(&c);
}

static void compute_rows(const job *j, int64_t image, int64_t block, int64_t y0, int64_t y1)
{
  const block_step *s = j->s;
  const int64_t ch = block * BLOCK_LANES;
  const block_rows r = {.s = s,
                        .in = s->from + block_at(&s->in, image, block, 0, 0),
                        .out = s->to + block_at(&s->out, image, block, 0, 0),
                        .y0 = y0,
                        .y1 = y1,
                        .taps = s->taps ? s->taps + ch * s->kernel[0] * s->kernel[1] : NULL,
                        .bias = s->bias ? s->bias + ch : NULL,
                        .scale = s->scale ? s->scale + ch : NULL,
                        .shift = s->scale ? s->shift + ch : NULL};
  if (s->kind == BLOCK_DEPTHWISE)
    ISA_PICK(block_depthwise, j->level)(&r);
  else if (s->kind == BLOCK_MAX)
    ISA_PICK(block_max, j->level)(&r);
  else if (s->kind == BLOCK_SCALE)
    ISA_PICK(block_scale, j->level)(&r);
}

/* Tasks are (image, block, chunk of rows), chunks fastest. */
static void block_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const block_step *s = j->s;
  const bool copies = s->kind == BLOCK_ENTER || s->kind == BLOCK_LEAVE;
  const block_place *p = s->kind == BLOCK_LEAVE ? &s->in : &s->out;
  const int64_t n_blocks = block_count(p);
  for (int64_t i = begin; i < end; i++) {
    const int64_t y0 = i % j->n_chunks * j->chunk, y1 = i64_min(y0 + j->chunk, p->h);
    const int64_t block = i / j->n_chunks % n_blocks, image = i / j->n_chunks / n_blocks;
    if (copies)
      copy_rows(j, image, block, y0, y1);
    else if (s->kind != BLOCK_NOTHING)
      compute_rows(j, image, block, y0, y1);
    if (s->kind != BLOCK_LEAVE)
      after_pixels(s, image, block, y0 * p->w, y1 * p->w);
  }
}

static rush_status run_blocks(job *j)
{
  const block_step *s = j->s;
  const block_place *p = s->kind == BLOCK_LEAVE ? &s->in : &s->out;
  const int64_t taps = s->kind == BLOCK_DEPTHWISE || s->kind == BLOCK_MAX
                         ? s->kernel[0] * s->kernel[1]
                         : 1;
  j->chunk = i64_max(1, i64_min(p->h, TASK_PIXELS / p->w));
  j->n_chunks = (p->h + j->chunk - 1) / j->chunk;
  const int64_t work = i64_max(1, j->chunk * p->w * (taps + 4)); /* vectors */
  return parallel_for(j->cx, s->batch * block_count(p) * j->n_chunks, i64_max(1, 16384 / work),
                      block_tasks, j);
}

rush_status block_run(call_ctx *cx, const block_step *s)
{
  job j = {.s = s,
           .cx = cx,
           .level = cpu_choose(context_get_options(cx->ctx)->cpu),
           .kr = gemm_kernels_of(cx->ctx, RUSH_FLOAT32, CHAIN_NONE)};
  TRY(s->kind == BLOCK_CONV ? run_conv(&j) : run_blocks(&j));
  return j.failed ? call_nomem(cx) : RUSH_OK;
}
