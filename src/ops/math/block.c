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
#include "ops/math/norm.h"

/* Tiles of pixels that share a panel of weights while it is in the cache. */
#define TASK_TILES 16
/* Tiles that are written before `after` reads them: a few KB, which stay in L1. */
#define AFTER_TILES 4
/* Pixels of a block that other steps write before `after` reads them: 16 KB. */
#define TASK_PIXELS 256
/* Pixels of all channels that are normalised together: they stay in L1 for three passes. */
#define LAYER_PIXELS 16

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
    if (s->kind != BLOCK_NOTHING || s->clears_border)
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
  int64_t out_ch, per_group; /* output channels and panels of a group */
  int64_t unit, n_units; /* panels of a task: whole blocks */
  int64_t n_chunks, chunk; /* other steps: of rows */
  int64_t c_rs, a_mid, c_mid; /* mid: of a tile's row 7 */
  float *sums, *means, *scale, *shift; /* GROUP: by image and channel */
  bool pairs; /* a tile is two rows of 7 pixels, at a network's end */
  _Atomic int failed;
} job;

void block_offsets(const block_step *s, int64_t *k_off)
{
  const block_place *p = &s->in;
  for (int64_t ch = 0; ch < p->n_ch / s->groups; ch++)
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

typedef struct tile_place { /* a tile of pixels: positions for block 0 */
  int64_t from, to, first; /* first: pixel, counted in rows */
  int rows;
} tile_place;

/* Find tiles [i0, i1) of an image. */
static void find_tiles(const job *j, int64_t image, int64_t i0, int64_t i1, tile_place *tiles)
{
  const block_step *s = j->s;
  int64_t next = first_pixel(j, i0);
  for (int64_t i = i0; i < i1; i++) {
    const int64_t first = next, y = first / j->w, x = first % j->w;
    next = first_pixel(j, i + 1);
    tiles[i - i0] = (tile_place){
      .from = block_at(&s->in, image, 0, y * s->stride[0] - s->pad[0],
                       x * s->stride[1] - s->pad[1]),
      .to = s->spread[0] ? block_at(&s->out, image, 0, y * s->spread[0] + s->to_at[0],
                                    x * s->spread[1] + s->to_at[1])
                         : block_at(&s->out, image, 0, y, x),
      .first = first,
      .rows = (int)(next - first)};
  }
  tiles[i1 - i0].first = next;
}

typedef struct tile_run { /* what a task computes */
  int64_t image, n_tiles;
  int64_t p0, p1; /* panels of output channels */
  tile_place tiles[TASK_TILES + 1];
  float *sums; /* of pieces, as they are made */
} tile_run;

/* Return a panel's first output channel. */
static int64_t channel_of(const job *j, int64_t panel)
{
  return panel / j->per_group * j->out_ch + panel % j->per_group * j->kr->nr;
}

/* Return the end of a group's output channels: of one group, whole blocks. */
static int64_t block_channels(const block_step *s, int64_t group)
{
  return s->groups == 1 ? block_count(&s->out) * BLOCK_LANES
                        : (group + 1) * (s->out.n_ch / s->groups);
}

/* Add the terms from k0 on, a piece of them, to tile i of a panel. */
static void run_tile(const job *j, const tile_run *run, int64_t panel, int64_t i, int64_t k0)
{
  const block_step *s = j->s;
  const int64_t nr = j->kr->nr, vl = j->kr->vl, ch = channel_of(j, panel),
                block = block_floats(&s->out), group = panel / j->per_group,
                in_blocks = s->in.n_ch / s->groups / s->in.lanes;
  const gemm_packed weight = gemm_packed_item(s->weight, group);
  const tile_place *at = &run->tiles[i];
  float *mine = run->sums + i * j->kr->mr * nr;
  gemm_tile t = {.k = i64_min(j->piece, j->n_k - k0),
                 .a = s->from + at->from + group * in_blocks * block_floats(&s->in),
                 .a_rs = s->stride[1] * s->in.lanes,
                 .a_mid = j->a_mid,
                 .a_off = s->k_off + k0,
                 .b = (const float *)weight.data +
                      (panel % j->per_group * j->n_k + k0) * nr,
                 .b_ks = nr,
                 .rows = at->rows,
                 .cols = (int)i64_min(nr, block_channels(s, group) - ch),
                 .c = mine,
                 .c1 = mine + vl,
                 .c_rs = nr,
                 .c_mid = 7 * nr,
                 .d = k0        ? mine
                      : s->bias ? s->bias + ch
                                : NULL,
                 .d_rs = k0 ? nr : 0};
  if (k0 + t.k == j->n_k) {
    t.c = s->to + at->to + ch / BLOCK_LANES * block + ch % BLOCK_LANES;
    t.c1 = s->to + at->to + (ch + vl) / BLOCK_LANES * block + (ch + vl) % BLOCK_LANES;
    t.c_rs = j->c_rs;
    t.c_mid = j->c_mid;
    t.scale = s->scale ? s->scale + ch : NULL;
    t.shift = s->scale ? s->shift + ch : NULL;
    t.clamps = s->clamps;
    t.lo = s->lo;
    t.hi = s->hi;
  }
  j->kr->tile_block(&t);
}

/* Finish tiles [i0, i1) of the run's blocks. */
static void after_tiles(const job *j, const tile_run *run, int64_t i0, int64_t i1)
{
  const int64_t last = channel_of(j, run->p1 - 1),
                rest = (last / j->out_ch + 1) * j->out_ch - last,
                end = (last + i64_min(j->kr->nr, rest) + BLOCK_LANES - 1) / BLOCK_LANES;
  for (int64_t b = channel_of(j, run->p0) / BLOCK_LANES; b < end; b++)
    after_pixels(j->s, run->image, b, run->tiles[i0].first, run->tiles[i1].first);
}

static void run_tiles(const job *j, const tile_run *run)
{
  for (int64_t panel = run->p0; panel < run->p1; panel++)
    for (int64_t k0 = 0, at = 0; k0 < j->n_k; k0 += j->piece) {
      const bool last =
        k0 + j->piece >= j->n_k && panel + 1 == run->p1 && !j->s->spread[0];
      for (int64_t i = 0; i < run->n_tiles; i++) {
        run_tile(j, run, panel, i, k0);
        if (last && (i + 1 == run->n_tiles || i + 1 - at == AFTER_TILES)) {
          after_tiles(j, run, at, i + 1);
          at = i + 1;
        }
      }
    }
}

/* Tasks are (image, run of pixel tiles, unit of panels), units fastest. */
static void conv_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const size_t n_bytes = (size_t)(TASK_TILES * j->kr->mr * j->kr->nr) * sizeof(float);
  tile_run run = {.sums = mem_alloc_data(j->cx->ctx, n_bytes)};
  if (!run.sums) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  int64_t found = -1; /* the image and run whose tiles are known */
  for (int64_t i = begin; i < end; i++) {
    const int64_t unit = i % j->n_units, at = i / j->n_units, n = at % j->n_runs;
    if (at != found) {
      const int64_t i0 = j->n_tiles * n / j->n_runs, i1 = j->n_tiles * (n + 1) / j->n_runs;
      run.image = at / j->n_runs;
      run.n_tiles = i1 - i0;
      find_tiles(j, run.image, i0, i1, run.tiles);
      found = at;
    }
    run.p0 = unit * j->unit;
    run.p1 = i64_min(run.p0 + j->unit, j->n_panels);
    run_tiles(j, &run);
  }
  mem_free_data(j->cx->ctx, run.sums, n_bytes);
}

static rush_status run_conv(job *j)
{
  const block_step *s = j->s;
  j->n_k = s->in.n_ch / s->groups * s->kernel[0] * s->kernel[1];
  j->piece = gemm_k_piece(j->n_k);
  const bool one_run = s->flat && !s->spread[0] && block_is_flat(&s->in) && s->kernel[0] == 1 &&
                       s->kernel[1] == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
                       s->pad[0] == 0 && s->pad[1] == 0;
  const block_place *p = s->spread[0] ? &s->in : &s->out;
  j->h = one_run ? 1 : p->h;
  j->w = one_run ? p->h * p->w : p->w;
  j->pairs = j->kr->mr == 14 && j->w == 7;
  j->a_mid = j->pairs ? s->stride[0] * s->in.cols * s->in.lanes : 7 * s->stride[1] * s->in.lanes;
  j->c_rs = (s->spread[0] ? s->spread[1] : 1) * BLOCK_LANES;
  j->c_mid = j->pairs ? (s->spread[0] ? s->spread[0] : 1) * s->out.cols * BLOCK_LANES : 7 * j->c_rs;
  j->per_row = (j->w + j->kr->mr - 1) / j->kr->mr;
  j->n_tiles = j->pairs ? (j->h + 1) / 2 : j->h * j->per_row;
  j->n_runs = (j->n_tiles + TASK_TILES - 1) / TASK_TILES;
  j->out_ch = s->out.n_ch / s->groups;
  j->per_group = (j->out_ch + j->kr->nr - 1) / j->kr->nr;
  j->n_panels = s->groups * j->per_group;
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
  const int64_t ch = block * p->lanes, n_pixels = p->h * p->w,
                first = s->repeats ? 0 : image * p->n_ch * n_pixels,
                planes = first + ch * (s->interleaved ? 1 : n_pixels);
  const int64_t at = block_at(p, image, block, 0, 0);
  const block_copy c = {.place = p,
                        .n_ch = i64_min(p->lanes, p->n_ch - ch),
                        .y0 = y0,
                        .y1 = y1,
                        .pixel = s->interleaved ? p->n_ch : 0,
                        .planes = enters ? (float *)(uintptr_t)(s->from + planes) : s->to + planes,
                        .block = enters ? s->to + at : (float *)(uintptr_t)(s->from + at)};
  if (enters)
    ISA_PICK(block_enter, j->level)(&c);
  else
    ISA_PICK(block_leave, j->level)(&c);
}

static void copy_blocks(const job *j, int64_t image, int64_t block, int64_t y0, int64_t y1)
{
  const block_step *s = j->s;
  const int64_t from = (s->from_ch - s->to_ch) / BLOCK_LANES + block;
  if (s->from_ch % BLOCK_LANES != 0 || s->to_ch % BLOCK_LANES != 0) {
    const block_rows r = {.s = s,
                          .in = s->from + block_at(&s->in, image, 0, 0, 0),
                          .out = s->to + block_at(&s->out, image, 0, 0, 0),
                          .y0 = y0,
                          .y1 = y1};
    ISA_PICK(block_shift, j->level)(&r, block);
    return;
  }
  for (int64_t y = y0; y < y1; y++)
    memcpy(s->to + block_at(&s->out, image, block, y, 0),
           s->from + block_at(&s->in, image, from, y, 0),
           (size_t)(s->in.w * BLOCK_LANES) * sizeof *s->to);
}

/* Return the position of a block's channels among all images'. */
static int64_t channels_at(const block_step *s, int64_t image, int64_t block)
{
  return (image * block_count(&s->in) + block) * BLOCK_LANES;
}

static void scale_group(const job *j, int64_t image, int64_t block, block_rows *r)
{
  r->scale = j->scale + channels_at(j->s, image, block);
  r->shift = j->shift + channels_at(j->s, image, block);
  ISA_PICK(block_scale, j->level)(r);
}

static void compute_rows(const job *j, int64_t image, int64_t block, int64_t y0, int64_t y1)
{
  const block_step *s = j->s;
  const int64_t ch = block * BLOCK_LANES, n_taps = s->width * s->kernel[0] * s->kernel[1];
  block_rows r = {.s = s,
                        .in = s->from + block_at(&s->in, image, block, 0, 0),
                        .out = s->to + block_at(&s->out, image, block, 0, 0),
                        .y0 = y0,
                        .y1 = y1,
                        .taps = s->taps ? s->taps + ch * n_taps : NULL,
                        .bias = s->bias ? s->bias + ch : NULL,
                        .scale = s->scale ? s->scale + ch : NULL,
                        .shift = s->scale ? s->shift + ch : NULL};
  switch (s->kind) {
  case BLOCK_DEPTHWISE:
    if (s->width == 1 && s->bias)
      ISA_PICK(block_depthwise, j->level)(&r);
    else
      ISA_PICK(block_grouped, j->level)(&r);
    break;
  case BLOCK_MAX: ISA_PICK(block_max, j->level)(&r); break;
  case BLOCK_AVERAGE: ISA_PICK(block_average, j->level)(&r); break;
  case BLOCK_MEAN: ISA_PICK(block_mean, j->level)(&r); break;
  case BLOCK_WINDOWS: ISA_PICK(block_windows, j->level)(&r); break;
  case BLOCK_NEAREST: ISA_PICK(block_nearest, j->level)(&r); break;
  case BLOCK_PAD: ISA_PICK(block_pad, j->level)(&r); break;
  case BLOCK_SCALE: ISA_PICK(block_scale, j->level)(&r); break;
  case BLOCK_GROUP: scale_group(j, image, block, &r); break;
  case BLOCK_CONV: case BLOCK_LAYER: case BLOCK_COPY: case BLOCK_NOTHING: case BLOCK_ENTER:
  case BLOCK_LEAVE:
    break;
  }
}

/* Return the image whose blocks and rows are tasks. */
static const block_place *places_by(const block_step *s)
{
  return s->kind == BLOCK_LEAVE ? &s->in : &s->out;
}

/* Return the number of blocks that are written, or read to leave; *first: the first one. */
static int64_t blocks_of(const block_step *s, int64_t *first)
{
  *first = s->kind == BLOCK_COPY ? s->to_ch / BLOCK_LANES : 0;
  return s->kind == BLOCK_COPY
           ? (s->to_ch + s->n_copied + BLOCK_LANES - 1) / BLOCK_LANES - *first
           : block_count(places_by(s));
}

/* Tasks are (image, block, chunk of rows), chunks fastest. */
static void block_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const block_step *s = j->s;
  const bool copies = s->kind == BLOCK_ENTER || s->kind == BLOCK_LEAVE;
  const block_place *p = places_by(s);
  int64_t first;
  const int64_t n_blocks = blocks_of(s, &first);
  for (int64_t i = begin; i < end; i++) {
    const int64_t y0 = i % j->n_chunks * j->chunk, y1 = i64_min(y0 + j->chunk, p->h);
    const int64_t block = first + i / j->n_chunks % n_blocks,
                  image = i / j->n_chunks / n_blocks;
    if (copies)
      copy_rows(j, image, block, y0, y1);
    else if (s->kind == BLOCK_COPY)
      copy_blocks(j, image, block, y0, y1);
    else if (s->kind != BLOCK_NOTHING)
      compute_rows(j, image, block, y0, y1);
    if (s->kind != BLOCK_LEAVE)
      after_pixels(s, image, block, y0 * p->w, y1 * p->w);
  }
}

/* Return the pixels that one pixel of the output is made of. */
static int64_t terms_of(const block_step *s)
{
  switch (s->kind) {
  case BLOCK_DEPTHWISE:
    return s->kernel[0] * s->kernel[1] * s->width;
  case BLOCK_MAX: case BLOCK_WINDOWS:
    return s->kernel[0] * s->kernel[1];
  case BLOCK_AVERAGE: case BLOCK_MEAN:
    return s->in.h * s->in.w / (s->out.h * s->out.w) + 1;
  default:
    return 1;
  }
}

static rush_status run_blocks(job *j)
{
  const block_step *s = j->s;
  const block_place *p = places_by(s);
  int64_t first;
  j->chunk = i64_max(1, i64_min(p->h, TASK_PIXELS / p->w));
  j->n_chunks = (p->h + j->chunk - 1) / j->chunk;
  const int64_t work = i64_max(1, j->chunk * p->w * (terms_of(s) + 4)); /* vectors */
  return parallel_for(j->cx, s->batch * blocks_of(s, &first) * j->n_chunks,
                      i64_max(1, 16384 / work), block_tasks, j);
}

/* -- Pixels over all blocks -------------------------------------------------------------------- */

/* Tasks are (image, run of pixels of a row). */
static void layer_tasks(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const block_step *s = j->s;
  for (int64_t i = begin; i < end; i++) {
    const int64_t image = i / (j->h * j->per_row), row = i / j->per_row % j->h,
                  x = j->w * (i % j->per_row) / j->per_row,
                  n = j->w * (i % j->per_row + 1) / j->per_row - x;
    const block_pixels p = {.s = s,
                            .in = s->from + block_at(&s->in, image, 0, row, x),
                            .out = s->to + block_at(&s->out, image, 0, row, x),
                            .n = n};
    ISA_PICK(block_layer, j->level)(&p);
    for (int64_t b = 0; b < block_count(&s->out); b++)
      after_pixels(s, image, b, row * s->out.w + x, row * s->out.w + x + n);
  }
}

static rush_status run_layer(job *j)
{
  const block_place *p = &j->s->out;
  const bool one_run = j->s->flat && block_is_flat(&j->s->in);
  j->h = one_run ? 1 : p->h;
  j->w = one_run ? p->h * p->w : p->w;
  j->per_row = (j->w + LAYER_PIXELS - 1) / LAYER_PIXELS;
  return parallel_for(j->cx, j->s->batch * j->h * j->per_row,
                      i64_max(1, 65536 / (LAYER_PIXELS * p->n_ch)), layer_tasks, j);
}

/* -- Norms of groups of channels --------------------------------------------------------------- */

/* Tasks are (image, block). */
static void sum_tasks(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const int64_t n_blocks = block_count(&j->s->in);
    const block_rows r = {.s = j->s,
                          .in = j->s->from + block_at(&j->s->in, i / n_blocks, i % n_blocks, 0, 0)};
    const float *means = j->means ? j->means + i * BLOCK_LANES : NULL;
    ISA_PICK(block_sums, j->level)(&r, means, j->sums + i * BLOCK_LANES);
  }
}

/* Return the average over a group of one image, of which each channel's sum is known: as
 * ops/kernels/nn/norm.c adds them. */
static double average_group(const job *j, int64_t image, int64_t group)
{
  const block_step *s = j->s;
  const int64_t n = s->in.n_ch / s->groups;
  const float *sums = j->sums + channels_at(s, image, 0) + group * n;
  double sum = 0.0;
  for (int64_t c = 0; c < n; c++)
    sum += (double)sums[c];
  return sum / (double)(n * s->in.h * s->in.w);
}

static rush_status measure_groups(job *j, double *mean, float *means)
{
  const block_step *s = j->s;
  const int64_t n_groups = s->batch * s->groups, n = s->in.n_ch / s->groups,
                n_tasks = s->batch * block_count(&s->in),
                grain = i64_max(1, 16384 / (s->in.h * s->in.w));
  TRY(parallel_for(j->cx, n_tasks, grain, sum_tasks, j));
  for (int64_t i = 0; i < n_groups; i++) {
    mean[i] = average_group(j, i / s->groups, i % s->groups);
    for (int64_t c = 0; c < n; c++)
      means[channels_at(s, i / s->groups, 0) + i % s->groups * n + c] = (float)mean[i];
  }
  j->means = means;
  TRY(parallel_for(j->cx, n_tasks, grain, sum_tasks, j));
  for (int64_t i = 0; i < n_groups; i++) {
    const double rstd = norm_rstd(average_group(j, i / s->groups, i % s->groups), s->eps);
    const int64_t first = i % s->groups * n, at = channels_at(s, i / s->groups, 0) + first;
    for (int64_t c = 0; c < n; c++) {
      const double scale = norm_scale(rstd, s->scale ? (double)s->scale[first + c] : 1.0);
      j->scale[at + c] = (float)scale;
      j->shift[at + c] =
        (float)norm_shift(mean[i], scale, s->shift ? (double)s->shift[first + c] : 0.0);
    }
  }
  return RUSH_OK;
}

static rush_status run_group(job *j)
{
  const block_step *s = j->s;
  const int64_t n = channels_at(s, s->batch, 0), n_groups = s->batch * s->groups;
  const size_t n_bytes = (size_t)(4 * n) * sizeof(float) + (size_t)n_groups * sizeof(double);
  double *mean = mem_alloc_zero(j->cx->ctx, n_bytes);
  if (!mean)
    return call_nomem(j->cx);
  float *means = (float *)(mean + n_groups);
  j->sums = means + n;
  j->scale = j->sums + n;
  j->shift = j->scale + n;
  rush_status st = measure_groups(j, mean, means);
  if (st == RUSH_OK)
    st = run_blocks(j);
  mem_free(j->cx->ctx, mean, n_bytes);
  return st;
}

rush_status block_run(call_ctx *cx, const block_step *s)
{
  job j = {.s = s,
           .cx = cx,
           .level = cpu_choose(context_get_options(cx->ctx)->cpu),
           .kr = gemm_kernels_of(cx->ctx, RUSH_FLOAT32, CHAIN_NONE)};
  TRY(s->kind == BLOCK_CONV    ? run_conv(&j)
      : s->kind == BLOCK_LAYER ? run_layer(&j)
      : s->kind == BLOCK_GROUP ? run_group(&j)
                               : run_blocks(&j));
  return j.failed ? call_nomem(cx) : RUSH_OK;
}
