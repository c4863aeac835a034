/* ops/math/conv.c -- convolutions on raw memory (conv.h). `conv` chooses one of five ways:
 * depthwise loops, a plain product for 1x1, patches packed directly into the panels of the matrix
 * kernel, the transposed product (pixels as rows) for small images, and a column matrix for dtypes
 * without packed kernel. Rejected: a column matrix for float32, which multiplies the memory traffic
 * by the kernel's size. A padded input gets a border of zeros first, so that inner loops need no
 * tests. Memory: the padded copy of the input and one panel per task; by_columns needs n_k * n_out
 * elements. */
#include "ops/math/conv.h"

#include <string.h>

#include "base/threads.h"
#include "ops/math/conv_int.h"
#include "ops/math/gemm_chain.h"
#include "tensor/dtype.h"

/* Panels that one task processes for each piece of k: the piece of the weights stays in L2
 * meanwhile. */
#define RUN_PANELS 16

typedef struct geometry { /* what follows from the arguments */
  int64_t in_ch, out_ch;   /* of one group */
  int64_t n_taps, n_k;     /* kernel positions; in_ch * n_taps */
  int64_t n_in, n_out;     /* pixels */
  int64_t padded[3];       /* sizes of the input with its border */
  int64_t n_padded;
  bool has_border;
  size_t item;
} geometry;

typedef struct job {
  const conv_args *c;
  geometry geo;
  const gemm_kernels *kr;
  cpu_level level;
  const char *input; /* with its border */
  char *border;      /* the same when made here */
  int64_t *k_off, *row_off;
  int64_t piece, n_panels, n_splits; /* splits: of the output channels, alike but for one tile */
  const char *weight; /* packed tiles, or NULL: rows in place */
  size_t border_bytes, offset_bytes;
  call_ctx *cx;
  _Atomic int failed;
} job;

/* Return the geometry without padded sizes. */
static geometry sizes_of(const conv_args *c)
{
  geometry g = {.in_ch = c->in_ch / c->groups,
                .out_ch = c->out_ch / c->groups,
                .n_taps = 1,
                .n_in = 1,
                .n_out = 1,
                .n_padded = 1,
                .item = dtype_bytes(c->dtype)};
  for (int d = 0; d < 3; d++) {
    g.n_taps *= c->kernel[d];
    g.n_in *= c->in[d];
    g.n_out *= c->out[d];
  }
  g.n_k = g.in_ch * g.n_taps;
  return g;
}

static geometry geometry_of(const conv_args *c)
{
  geometry g = sizes_of(c);
  for (int d = 0; d < 3; d++) {
    g.padded[d] = (c->out[d] - 1) * c->stride[d] + c->dilation[d] * (c->kernel[d] - 1) + 1;
    if (g.padded[d] < c->in[d])
      g.padded[d] = c->in[d]; /* what the last window does not reach */
    g.has_border |= c->pad[d] != 0 || g.padded[d] != c->in[d];
    g.n_padded *= g.padded[d];
  }
  if (
    /* channels an odd number of lines apart do not meet in the same sets of the cache */
    g.has_border)
    g.n_padded = ((g.n_padded * (int64_t)g.item + 63) / 64 | 1) * 64 / (int64_t)g.item;
  return g;
}

static bool is_pointwise(const conv_args *c)
{
  for (int d = 0; d < 3; d++)
    if (c->kernel[d] != 1 || c->stride[d] != 1 || c->pad[d] != 0 || c->in[d] != c->out[d])
      return false;
  return true;
}

/* -- The border -------------------------------------------------------------------------------- */

/* Copy the inside of a channel; the border around it is zero already. */
static void copy_inside(const job *j, int64_t ch, char *to)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const size_t item = g->item;
  const int64_t copied = i64_min(c->in[2], g->padded[2] - c->pad[2]);
  if (copied <= 0) /* no window reaches past the border */
    return;
  const char *from = (const char *)c->input + (size_t)(ch * g->n_in) * item;
  for (int64_t z = 0; z < c->in[0] && z + c->pad[0] < g->padded[0]; z++)
    for (int64_t y = 0; y < c->in[1] && y + c->pad[1] < g->padded[1]; y++)
      memcpy(
        to + (size_t)(((z + c->pad[0]) * g->padded[1] + y + c->pad[1]) * g->padded[2] + c->pad[2]) *
               item,
        from + (size_t)((z * c->in[1] + y) * c->in[2]) * item, (size_t)copied * item);
}

/* Copy channels [begin, end) of the whole batch with a border of zeros. */
static void copy_with_border(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const size_t n_bytes = (size_t)j->geo.n_padded * j->geo.item;
  for (int64_t ch = begin; ch < end; ch++) {
    char *to = j->border + (size_t)ch * n_bytes;
    memset(to, 0, n_bytes);
    copy_inside(j, ch, to);
  }
}

static rush_status add_border(job *j)
{
  const int64_t n_ch = j->c->batch * j->c->in_ch;
  j->input = j->c->input;
  if (!j->geo.has_border)
    return RUSH_OK;
  j->border_bytes = (size_t)(n_ch * j->geo.n_padded) * j->geo.item;
  j->border = mem_alloc_data(j->cx->ctx, j->border_bytes);
  if (!j->border)
    return call_nomem(j->cx);
  j->input = j->border;
  return parallel_for(j->cx, n_ch, i64_max(1, 32768 / i64_max(1, j->geo.n_padded)),
                      copy_with_border, j);
}

/* Compute offsets of kernel positions and of output rows, in elements of the padded input. */
static rush_status make_offsets(job *j)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const int64_t n_rows = c->out[0] * c->out[1];
  j->offset_bytes = (size_t)(g->n_k + n_rows) * sizeof(int64_t);
  j->k_off = mem_alloc(j->cx->ctx, j->offset_bytes);
  if (!j->k_off)
    return call_nomem(j->cx);
  j->row_off = j->k_off + g->n_k;
  int64_t *p = j->k_off;
  const int64_t step =
    c->chain == CHAIN_WIDE ? 2 : 1; /* channels that take turns, the odd one first */
  for (int64_t ch = 0; ch < g->in_ch; ch += step)
    for (int64_t z = 0; z < c->kernel[0]; z++)
      for (int64_t y = 0; y < c->kernel[1]; y++)
        for (int64_t x = 0; x < c->kernel[2]; x++)
          for (int64_t last = i64_min(step, g->in_ch - ch), i = last; i-- > 0;)
            *p++ = (ch + i) * g->n_padded +
                   (z * c->dilation[0] * g->padded[1] + y * c->dilation[1]) * g->padded[2] +
                   x * c->dilation[2];
  for (int64_t z = 0; z < c->out[0]; z++)
    for (int64_t y = 0; y < c->out[1]; y++)
      *p++ = (z * c->stride[0] * g->padded[1] + y * c->stride[1]) * g->padded[2];
  return RUSH_OK;
}

/* -- Depthwise --------------------------------------------------------------------------------- */

/* Process one channel without a copy, if there is a kernel for that. */
static bool plain_plane(const job *j, int64_t ch, int64_t oc, int64_t out)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  if (c->dtype != RUSH_FLOAT32 || c->kernel[0] != 1 || c->in[0] != 1 || c->out[0] != 1 ||
      c->pad[0] != 0 || c->kernel[1] != c->kernel[2] || c->stride[1] != c->stride[2] ||
      c->dilation[1] != 1 || c->dilation[2] != 1)
    return false;
  const conv_plane p = {.kernel = (int)i64_min(c->kernel[2], 99),
                        .stride = (int)i64_min(c->stride[2], 99),
                        .in_h = c->in[1],
                        .in_w = c->in[2],
                        .out_h = c->out[1],
                        .out_w = c->out[2],
                        .pad_h = c->pad[1],
                        .pad_w = c->pad[2],
                        .in = (const float *)c->input + ch * g->n_in,
                        .weight = (const float *)c->weight + oc * g->n_taps,
                        .out = (float *)c->output + out * g->n_out,
                        .bias = c->bias ? ((const float *)c->bias)[oc] : 0.0f};
  return ISA_PICK(conv_plane_f32, j->level)(&p);
}

/* Compute output channels [begin, end) of the whole batch.  A channel gets its border in the
 * cache. */
static void depthwise(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const size_t n_bytes = (size_t)g->n_padded * g->item;
  char *plane = NULL;
  int64_t held = -1;
  for (int64_t i = begin; i < end; i++) {
    const int64_t image = i / c->out_ch, oc = i % c->out_ch, ic = oc / g->out_ch,
                  ch = image * c->in_ch + ic;
    if (plain_plane(j, ch, oc, i))
      continue;
    if (g->has_border && !plane) {
      if (!(plane = mem_alloc_data(j->cx->ctx, n_bytes))) {
        atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
        return;
      }
      memset(plane, 0, n_bytes);
    }
    if (plane && ch != held)
      copy_inside(j, ch, plane);
    held = ch;
    conv_depth d = {.n_k = g->n_taps, .n_rows = c->out[0] * c->out[1], .n_w = c->out[2],
                    .step = c->stride[2], .k_off = j->k_off, .row_off = j->row_off};
    d.in = plane ? plane : (const char *)c->input + (size_t)(ch * g->n_padded) * g->item;
    d.weight = (const char *)c->weight + (size_t)(oc * g->n_taps) * g->item;
    d.out = (char *)c->output + (size_t)(i * g->n_out) * g->item;
    if (c->dtype == RUSH_FLOAT32) {
      d.bias = c->bias ? (double)((const float *)c->bias)[oc] : 0.0;
      ISA_PICK(conv_depth_f32, j->level)(&d);
    } else {
      d.bias = c->bias ? ((const double *)c->bias)[oc] : 0.0;
      ISA_PICK(conv_depth_f64, j->level)(&d);
    }
  }
  if (plane)
    mem_free_data(j->cx->ctx, plane, n_bytes);
}

/* -- Patches times weights --------------------------------------------------------------------- */

/* Pack pixels [pixel, pixel + cols) over the terms k0..k1 of one image's group into dst[k][nr]. */
static void pack_pixels(const job *j, int64_t pixel, int cols, int nr, int64_t k0, int64_t k1,
                        const char *in, char *dst)
{
  const conv_args *c = j->c;
  conv_panel panel = {.nr = nr, .cols = cols, .step = (int)c->stride[2]};
  int64_t row = pixel / c->out[2], x = pixel % c->out[2];
  for (int l = 0; l < cols; l++) {
    panel.off[l] = j->row_off[row] + x * c->stride[2];
    if (++x == c->out[2]) {
      x = 0;
      row++;
    }
  }
  if (c->dtype == RUSH_FLOAT32)
    ISA_PICK(conv_pack_f32, j->level)
    (&panel, k1 - k0, j->k_off + k0, (const float *)(const void *)in, (float *)(void *)dst);
  else
    ISA_PICK(conv_pack_f64, j->level)
    (&panel, k1 - k0, j->k_off + k0, (const double *)(const void *)in, (double *)(void *)dst);
}

static const char *group_input(const job *j, int64_t image, int64_t group)
{
  return j->input +
         (image * j->c->in_ch + group * j->geo.in_ch) * j->geo.n_padded * (int64_t)j->geo.item;
}

/* Compute panels [p0, p1) of one image and group, output channels [m0, m1) of the group. */
static void run_panels(const job *j, int64_t image, int64_t group, int64_t m0, int64_t m1,
                       int64_t p0, int64_t p1, char *scratch)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const int64_t ch0 = group * g->out_ch, mr = j->kr->mr, item = (int64_t)g->item;
  const char *in = group_input(j, image, group);
  for (int64_t k0 = 0; k0 < g->n_k; k0 += j->piece) {
    const int64_t k1 = i64_min(k0 + j->piece, g->n_k);
    gemm_tile t = {.k = k1 - k0, .a_rs = g->n_k, .a_ks = 1, .b = scratch, .b_ks = j->kr->nr,
                   .c_rs = g->n_out, .c_cs = 1, .alpha = 1.0, .beta = 1.0};
    for (int64_t p = p0; p < p1; p++) {
      t.cols = (int)i64_min(j->kr->nr, g->n_out - p * j->kr->nr);
      pack_pixels(j, p * j->kr->nr, t.cols, j->kr->nr, k0, k1, in, scratch);
      for (int64_t m = m0; m < m1; m += mr) {
        t.rows = (int)i64_min(mr, m1 - m);
        t.a = (const char *)c->weight + ((ch0 + m) * g->n_k + k0) * item;
        if (j->weight) {
          t.a = j->weight + (ch0 * g->n_k + k0 * g->out_ch + m * t.k) * item;
          t.a_rs = j->kr->a_in_rows ? t.k : 1;
          t.a_ks = j->kr->a_in_rows ? 1 : t.rows;
        }
        t.c = (char *)c->output + ((image * c->out_ch + ch0 + m) * g->n_out + p * j->kr->nr) * item;
        t.d = t.c;
        t.d_rs = g->n_out;
        t.d_cs = 1;
        if (k0 == 0) { /* later pieces add to the output */
          t.d = c->bias ? (const char *)c->bias + (ch0 + m) * item : NULL;
          t.d_rs = 1;
          t.d_cs = 0;
        }
        j->kr->tile(&t);
      }
    }
  }
}

/* Tasks are (image, group, split of output channels, panel), panel fastest. */
static void run_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const conv_args *c = j->c;
  const size_t n_bytes = (size_t)(j->piece * j->kr->nr) * j->geo.item;
  char *scratch = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!scratch) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  const unsigned mode = chain_begin(j->kr, c->chain);
  while (begin < end) {
    const int64_t p0 = begin % j->n_panels, rest = begin / j->n_panels;
    const int64_t split = rest % j->n_splits, group = rest / j->n_splits % c->groups;
    const int64_t image = rest / j->n_splits / c->groups;
    const int64_t p1 = i64_min(i64_min(p0 + RUN_PANELS, j->n_panels), p0 + end - begin);
    const int64_t mr = j->kr->mr, n_tiles = (j->geo.out_ch + mr - 1) / mr;
    run_panels(j, image, group, n_tiles * split / j->n_splits * mr,
               i64_min(n_tiles * (split + 1) / j->n_splits * mr, j->geo.out_ch), p0, p1, scratch);
    begin += p1 - p0;
  }
  chain_end(j->kr, mode);
  mem_free_data(j->cx->ctx, scratch, n_bytes);
}

/* Pack weights as tiles for one call, if many pixels share them. */
static rush_status pack_once(job *j, gemm_packed **out)
{
  gemm_packing p;
  *out = NULL;
  if (j->c->packed || j->c->chain == CHAIN_WIDE || j->geo.n_out < 512 ||
      !conv_packing(j->cx, j->c, &p) || !p.is_a)
    return RUSH_OK;
  return gemm_pack(j->cx, &p, out);
}

static rush_status run_patches(job *j)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const int n_threads = pool_n_threads(context_pool(j->cx->ctx));
  gemm_packed *once = NULL;
  j->n_panels = (g->n_out + j->kr->nr - 1) / j->kr->nr;
  const int64_t n_tasks = j->n_panels * c->batch * c->groups,
                n_tiles = (g->out_ch + j->kr->mr - 1) / j->kr->mr;
  j->n_splits = 1;
  if (n_threads > 1 &&
      n_tasks < 8 * n_threads) /* a panel is packed for each: six tiles are worth it */
    j->n_splits = i64_max(1, i64_min(8 * n_threads / n_tasks, n_tiles / 6));
  TRY(pack_once(j, &once));
  j->weight = once ? once->data : c->packed ? c->packed->data : NULL;
  const int64_t macs = i64_max(1, g->out_ch / j->n_splits * g->n_k * j->kr->nr); /* of one task */
  rush_status st =
    parallel_for(j->cx, n_tasks * j->n_splits, i64_max(1, 250000 / macs), run_tasks, j);
  gemm_packed_free(j->cx->ctx, once);
  TRY(st);
  return j->failed ? call_nomem(j->cx) : RUSH_OK;
}

/* -- Turned: pixels are rows, output channels columns ------------------------------------------ */

/* Pixels are broadcast directly from the input, the lanes are output channels: only weights are
 * packed. */

#define TASK_TILES 16 /* tiles of pixels that share a panel of weights while it is in the cache */

/* Tiles of pixels: an output row cut evenly; two rows of 7 pixels at a time, for the images at a
 * network's end. */
static int64_t tiles_of_row(const job *j) { return (j->c->out[2] + j->kr->mr - 1) / j->kr->mr; }

static bool has_pairs(const job *j) { return j->kr->mr == 14 && j->c->out[2] == 7; }

static int64_t n_pixel_tiles(const job *j)
{
  const int64_t n_rows = j->c->out[0] * j->c->out[1];
  return has_pairs(j) ? (n_rows + 1) / 2 : n_rows * tiles_of_row(j);
}

/* Find tile i's pixels in the input; returns the first one's position in the output. */
static int64_t pixels_of(const job *j, int64_t i, const char *in, gemm_tile *t)
{
  const int64_t w = j->c->out[2], step = j->c->stride[2], per_row = tiles_of_row(j),
                n_rows = j->c->out[0] * j->c->out[1];
  int64_t row = 2 * i, x = 0;
  t->a_rs = step;
  t->a_mid = 7 * step;
  t->rows = 14;
  if (has_pairs(j) && row + 1 < n_rows) {
    t->a_mid = j->row_off[row + 1] - j->row_off[row];
  } else if (has_pairs(j)) {
    t->rows = 7;
  } else {
    row = i / per_row;
    x = w * (i % per_row) / per_row;
    t->rows = (int)(w * (i % per_row + 1) / per_row - x);
  }
  t->a = in + (j->row_off[row] + x * step) * (int64_t)j->geo.item;
  return row * w + x;
}

/* Compute pixel tiles [i0, i1) of one image and group, one panel of output channels. */
static void run_turned(const job *j, int64_t image, int64_t group, int64_t panel, int64_t i0,
                       int64_t i1, char *sums)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const int64_t nr = j->kr->nr, item = (int64_t)g->item, ch = group * g->out_ch + panel * nr;
  const gemm_packed weight = gemm_packed_item(c->packed, group);
  const char *in = group_input(j, image, group);
  char *out = (char *)c->output + (image * c->out_ch + ch) * g->n_out * item;
  gemm_tile t = {.b_ks = nr,
                 .cols = (int)i64_min(nr, g->out_ch - panel * nr),
                 .alpha = 1.0,
                 .beta = 1.0,
                 .d_cs = 1};
  for (int64_t k0 = 0; k0 < g->n_k; k0 += j->piece) {
    t.k = i64_min(j->piece, g->n_k - k0);
    t.a_off = j->k_off + k0;
    t.b = (const char *)weight.data + (panel * g->n_k + k0) * nr * item;
    for (int64_t i = i0; i < i1;
         i++) { /* sums of pieces wait as they are made; the last one turns them */
      char *mine = sums + (i - i0) * j->kr->mr * nr * item;
      const int64_t pixel = pixels_of(j, i, in, &t);
      const bool last = k0 + t.k == g->n_k;
      t.d = k0 ? mine : c->bias ? (const char *)c->bias + ch * item : NULL;
      t.d_rs = k0 ? nr : 0;
      t.c = last ? out + pixel * item : mine;
      t.c_rs = last ? 1 : nr;
      t.c_cs = last ? g->n_out : 1;
      j->kr->tile_off(&t);
    }
  }
}

/* Tasks are (image, group, run of pixel tiles, panel of channels), panels fastest. */
static void turned_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const int64_t n_tiles = n_pixel_tiles(j), n_runs = (n_tiles + TASK_TILES - 1) / TASK_TILES;
  const size_t n_bytes = (size_t)(TASK_TILES * j->kr->mr * j->kr->nr) * j->geo.item;
  char *sums = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!sums) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  const unsigned mode = chain_begin(j->kr, j->c->chain);
  for (int64_t i = begin; i < end; i++) {
    const int64_t run = i / j->n_panels % n_runs, rest = i / j->n_panels / n_runs;
    run_turned(j, rest / j->c->groups, rest % j->c->groups, i % j->n_panels, n_tiles * run / n_runs,
               n_tiles * (run + 1) / n_runs, sums);
  }
  chain_end(j->kr, mode);
  mem_free_data(j->cx->ctx, sums, n_bytes);
}

static rush_status turned(job *j)
{
  const conv_args *c = j->c;
  const geometry *g = &j->geo;
  const int64_t n_tiles = n_pixel_tiles(j), n_runs = (n_tiles + TASK_TILES - 1) / TASK_TILES;
  j->n_panels = (g->out_ch + j->kr->nr - 1) / j->kr->nr;
  const int64_t macs = i64_max(1, g->n_out / n_runs * g->n_k * j->kr->nr);
  TRY(parallel_for(j->cx, c->batch * c->groups * n_runs * j->n_panels, i64_max(1, 250000 / macs),
                   turned_tasks, j));
  return j->failed ? call_nomem(j->cx) : RUSH_OK;
}

/* Return n divided by its size in whole units: the share of useful work. */
static double use_of(int64_t n, int64_t unit)
{
  return (double)n / (double)((n + unit - 1) / unit * unit);
}

/* True if the product should be transposed.  A 1x1 is a plain product: transposed only if its
 * pixels would leave lanes idle.  Others save the packing of patches. */
static bool is_turned(const gemm_kernels *kr, const conv_args *c, const geometry *g)
{
  if (is_pointwise(c))
    return g->n_out >= 4 && g->n_k >= 16 &&
           use_of(g->out_ch, kr->vl) > 1.1 * use_of(g->n_out, kr->vl);
  return kr->tile_off && c->out[2] >= 4 && g->n_k >= 16 && use_of(g->out_ch, kr->nr) > 0.8;
}

/* -- 1x1 --------------------------------------------------------------------------------------- */

static rush_status pointwise(call_ctx *cx, const conv_args *c, const geometry *g)
{
  const size_t item = g->item;
  const bool turned = c->packed && !c->packed->is_a;
  for (int64_t group = 0; group < c->groups; group++) {
    const char *weight = (const char *)c->weight + (size_t)(group * g->out_ch * g->in_ch) * item;
    const char *input = (const char *)c->input + (size_t)(group * g->in_ch * g->n_in) * item;
    gemm_packed packed;
    gemm_args a = {.dtype = c->dtype,
                   .m = g->out_ch,
                   .n = g->n_out,
                   .k = g->in_ch,
                   .alpha = 1.0,
                   .beta = 1.0,
                   .a = {weight, g->in_ch, 1},
                   .b = {input, g->n_in, 1},
                   .c_rs = g->n_out,
                   .c_cs = 1};
    if (c->bias)
      a.d = (gemm_matrix){(const char *)c->bias + (size_t)(group * g->out_ch) * item, 1, 0};
    a.c = (char *)c->output + (size_t)(group * g->out_ch * g->n_out) * item;
    if (c->packed) {
      packed = gemm_packed_item(c->packed, group);
      *(turned ? &a.packed : &a.packed_a) = &packed;
    }
    if (turned) {
      a.m = g->n_out;
      a.n = g->out_ch;
      a.a = (gemm_matrix){input, 1, g->n_in};
      a.b = (gemm_matrix){weight, 1, g->in_ch};
      a.d = (gemm_matrix){a.d.data, 0, 1};
      a.c_rs = 1;
      a.c_cs = g->n_out;
    }
    const int64_t in_bs = c->in_ch * g->n_in, out_bs = c->out_ch * g->n_out;
    TRY(gemm_batch(cx, &a, c->batch, turned ? in_bs : 0, turned ? 0 : in_bs, 0, out_bs));
  }
  return RUSH_OK;
}

/* -- Other dtypes: a column matrix ------------------------------------------------------------- */

typedef struct columns {
  const conv_args *c;
  geometry geo;
  const char *in; /* one image's group */
  char *col;
} columns;

static void copy_item(char *to, const char *from, size_t item)
{
  switch (item) {
  case 1: *to = *from; break;
  case 2: memcpy(to, from, 2); break;
  case 4: memcpy(to, from, 4); break;
  case 8: memcpy(to, from, 8); break;
  default: memcpy(to, from, item); break;
  }
}

/* Fill rows [begin, end) of [channel, kd, kh, kw][pixel]. */
static void fill_columns(void *arg, int64_t begin, int64_t end)
{
  const columns *a = arg;
  const conv_args *c = a->c;
  const size_t item = a->geo.item;
  for (int64_t k = begin; k < end; k++) {
    const int64_t kx = k % c->kernel[2], ky = k / c->kernel[2] % c->kernel[1];
    const int64_t kz = k / c->kernel[2] / c->kernel[1] % c->kernel[0], ch = k / a->geo.n_taps;
    char *to = a->col + (size_t)(k * a->geo.n_out) * item;
    for (int64_t z = 0; z < c->out[0]; z++)
      for (int64_t y = 0; y < c->out[1]; y++)
        for (int64_t x = 0; x < c->out[2]; x++, to += item) {
          const int64_t iz = z * c->stride[0] - c->pad[0] + kz * c->dilation[0];
          const int64_t iy = y * c->stride[1] - c->pad[1] + ky * c->dilation[1];
          const int64_t ix = x * c->stride[2] - c->pad[2] + kx * c->dilation[2];
          if (iz < 0 || iz >= c->in[0] || iy < 0 || iy >= c->in[1] || ix < 0 || ix >= c->in[2])
            memset(to, 0, item);
          else
            copy_item(
              to, a->in + (size_t)(((ch * c->in[0] + iz) * c->in[1] + iy) * c->in[2] + ix) * item,
              item);
        }
  }
}

static rush_status by_columns(call_ctx *cx, const conv_args *c, const geometry *g)
{
  const size_t item = g->item;
  size_t n_bytes;
  if (!size_mul((size_t)g->n_k * item, (size_t)g->n_out, &n_bytes))
    return call_nomem(cx);
  columns a = {c, *g, NULL, mem_alloc_data(cx->ctx, n_bytes)};
  rush_status st = RUSH_OK;
  if (!a.col)
    return call_nomem(cx);
  for (int64_t i = 0; i < c->batch * c->groups && st == RUSH_OK; i++) {
    const int64_t group = i % c->groups;
    a.in = (const char *)c->input + (size_t)(i * g->in_ch * g->n_in) * item;
    st = parallel_for(cx, g->n_k, i64_max(1, 32768 / i64_max(1, g->n_out)), fill_columns, &a);
    gemm_args m = {
      .dtype = c->dtype,
      .m = g->out_ch,
      .n = g->n_out,
      .k = g->n_k,
      .alpha = 1.0,
      .beta = 1.0,
      .a = {(const char *)c->weight + (size_t)(group * g->out_ch * g->n_k) * item, g->n_k, 1},
      .b = {a.col, g->n_out, 1},
      .c_rs = g->n_out,
      .c_cs = 1};
    m.c = (char *)c->output + (size_t)(i * g->out_ch * g->n_out) * item;
    if (c->bias)
      m.d = (gemm_matrix){(const char *)c->bias + (size_t)(group * g->out_ch) * item, 1, 0};
    if (st == RUSH_OK)
      st = gemm(cx, &m);
  }
  mem_free_data(cx->ctx, a.col, n_bytes);
  return st;
}

/* -- Public ------------------------------------------------------------------------------------ */

/* True for groups of one input and few output channels each, which are hardly a matrix product. */
static bool is_depthwise(const geometry *g)
{
  return g->in_ch == 1 && g->n_k <= 384 && g->out_ch <= 4;
}

bool conv_packing(call_ctx *cx, const conv_args *c, gemm_packing *out)
{
  const geometry g = geometry_of(c);
  const bool has = c->dtype == RUSH_FLOAT32 || c->dtype == RUSH_FLOAT64 ||
                   (c->dtype == RUSH_BFLOAT16 && is_pointwise(c));
  if (!has || g.n_k == 0 || c->batch == 0 || g.out_ch == 0 ||
      g.n_out == 0 || (is_depthwise(&g) && !is_pointwise(c)))
    return false;
  const gemm_kernels *kr = c->chain ? gemm_kernels_of(cx->ctx, c->dtype, (chain_kind)c->chain)
                                    : gemm_kernels_for(cx->ctx, c->dtype);
  *out = (gemm_packing){.dtype = c->dtype,
                        .is_a = !is_turned(kr, c, &g),
                        .count = c->groups,
                        .k = g.n_k,
                        .n = g.out_ch,
                        .bs = g.out_ch * g.n_k,
                        .chain = c->chain,
                        .from = {c->weight, g.n_k, 1}};
  if (!out->is_a)
    out->from = (gemm_matrix){c->weight, 1, g.n_k};
  return true;
}

rush_status conv(call_ctx *cx, const conv_args *c)
{
  job j = {.c = c, .geo = geometry_of(c), .cx = cx};
  rush_status st;
  if (c->batch == 0 || c->out_ch == 0 || j.geo.n_out == 0)
    return RUSH_OK;
  if (is_pointwise(c))
    return pointwise(cx, c, &j.geo);
  if (c->dtype != RUSH_FLOAT32 && c->dtype != RUSH_FLOAT64)
    return by_columns(cx, c, &j.geo);
  if (j.geo.n_k == 0)
    return by_columns(cx, c, &j.geo);
  j.level = cpu_choose(context_get_options(cx->ctx)->cpu);
  j.kr = gemm_kernels_of(cx->ctx, c->dtype, (chain_kind)c->chain);
  j.piece = chain_piece(c->chain, j.geo.n_k);
  const bool deep = c->chain == CHAIN_NONE && is_depthwise(&j.geo); /* a word is two channels */
  st = deep ? RUSH_OK : add_border(&j);
  if (st == RUSH_OK)
    st = make_offsets(&j);
  if (st == RUSH_OK && deep)
    st = parallel_for(cx, c->batch * c->out_ch,
                      i64_max(1, 65536 / i64_max(1, j.geo.n_out * j.geo.n_taps)), depthwise, &j);
  else if (st == RUSH_OK)
    st = c->packed && !c->packed->is_a ? turned(&j) : run_patches(&j);
  if (st == RUSH_OK && j.failed)
    st = call_nomem(cx);
  if (j.k_off)
    mem_free(cx->ctx, j.k_off, j.offset_bytes);
  if (j.border)
    mem_free_data(cx->ctx, j.border, j.border_bytes);
  return st;
}
