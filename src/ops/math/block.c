/* ops/math/block.c -- steps over images in blocks of channels (block.h) but for convolutions that
 * are products (block_conv.c).  They are cut into blocks and rows.  What follows a step (the
 * border, `after`) is done by the task that wrote the pixels.
 * Rejected: a border by masks in the inner loops, which every tap would pay for. */
#include "ops/math/block.h"

#include <string.h>

#include "base/threads.h"
#include "ops/math/block_int.h"
#include "ops/math/norm.h"

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

void block_finish(const block_step *s, int64_t image, int64_t block, int64_t first, int64_t end)
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

typedef struct job {
  const block_step *s;
  cpu_level level;
  call_ctx *cx;
  int64_t h, w; /* of the output; flat runs are one row */
  int64_t per_row; /* runs of pixels */
  int64_t n_chunks, chunk; /* other steps: of rows */
  float *sums, *means, *scale, *shift; /* GROUP: by image and channel */
} job;

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
      block_finish(s, image, block, y0 * p->w, y1 * p->w);
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
      block_finish(s, image, b, row * s->out.w + x, row * s->out.w + x + n);
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
  job j = {.s = s, .cx = cx, .level = cpu_choose(context_get_options(cx->ctx)->cpu)};
  return s->kind == BLOCK_CONV    ? block_conv(cx, s)
         : s->kind == BLOCK_LAYER ? run_layer(&j)
         : s->kind == BLOCK_GROUP ? run_group(&j)
                                  : run_blocks(&j);
}
