/* ops/kernels/nn/grid.c -- sampling of images and volumes at the points of a grid.
 *
 * A point becomes taps: offsets into a channel with weights, the same for all channels. Coordinates
 * are computed in the input's precision (R rounds an operation on doubles to it), since the nearest
 * neighbour of a point between two depends on it. */
#include <math.h>
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"
#include "ops/math/gather.h"

enum { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { MAX_TAPS = 16, GRAIN_POINTS = 256 };

typedef struct grid_job {
  int n; /* spatial dimensions */
  int64_t mode, padding;
  bool align, is_f64;
  int dtype;
  int64_t batch, channels, in[3], in_elems,
    points; /* in: width first; points: of one batch entry */
  gather sum;
  const void *x, *grid;
  void *y;
  context *ctx;
  atomic_bool no_memory; /* a task had none */
} grid_job;

typedef struct taps {
  int n;
  int64_t at[MAX_TAPS]; /* -1: outside */
  double weight[MAX_TAPS];
} taps;

/* Round x to the input's precision. */
static inline double R(const grid_job *j, double x)
{
  uint16_t bits;
  if (j->is_f64)
    return x;
  if (nn_is_half(j->dtype)) {
    convert_elems(j->dtype, &bits, RUSH_FLOAT64, &x, 1);
    convert_elems(RUSH_FLOAT64, &x, j->dtype, &bits, 1);
    return x;
  }
  return (double)(float)x;
}

/* -- Coordinates ------------------------------------------------------------------------------- */

static double unnormalise(const grid_job *j, int d, double x)
{
  const double size = (double)j->in[d];
  if (j->n == 2) {
    const double half = R(j, (j->align ? size - 1 : size) / 2), y = R(j, R(j, x + 1) * half);
    return j->align ? y : R(j, y - 0.5);
  }
  return j->align ? R(j, R(j, R(j, x + 1) / 2) * (size - 1))
                  : R(j, R(j, R(j, R(j, x + 1) * size) - 1) / 2);
}

/* Clip to [0, size - 1]; NaN becomes 0. */
static double clip(double x, int64_t size)
{
  x = x > 0 ? x : 0;
  return x < (double)(size - 1) ? x : (double)(size - 1);
}

static double reflect(const grid_job *j, int d, double x)
{
  const double low = j->align ? 0 : -0.5, span = (double)(j->align ? j->in[d] - 1 : j->in[d]);
  if (span <= 0)
    return 0;
  x = fabs(R(j, x - low));
  const double extra = R(j, fmod(x, span)), flips = floor(R(j, x / span));
  return fmod(flips, 2) == 0 ? R(j, extra + low) : R(j, R(j, span - extra) + low);
}

static double pad(const grid_job *j, int d, double x)
{
  if (j->padding == PAD_ZEROS)
    return x;
  return clip(j->padding == PAD_REFLECTION ? reflect(j, d, x) : x, j->in[d]);
}

/* Return an index, or -1 if outside. */
static int64_t index_of(double x, int64_t size)
{
  return x >= 0 && x < (double)size ? (int64_t)x : -1;
}

static int64_t flat_index(int64_t outer, int64_t size, int64_t inner)
{
  return outer < 0 || inner < 0 ? -1 : outer * size + inner;
}

/* -- Taps -------------------------------------------------------------------------------------- */

static void taps_nearest(const grid_job *j, const double *at, taps *t)
{
  int64_t i = 0;
  for (int d = j->n - 1; d >= 0; d--)
    i = flat_index(i, j->in[d], index_of(nearbyint(pad(j, d, unnormalise(j, d, at[d]))), j->in[d]));
  *t = (taps){.n = 1, .at = {i}, .weight = {1}};
}

static void taps_linear(const grid_job *j, const double *at, taps *t)
{
  double low[3], frac[3];
  for (int d = 0; d < j->n; d++) {
    const double x = pad(j, d, unnormalise(j, d, at[d]));
    low[d] = floor(x);
    frac[d] = R(j, x - low[d]);
  }
  t->n = 1 << j->n;
  for (int k = 0; k < t->n; k++) {
    double weight = 1;
    int64_t i = 0;
    for (int d = j->n - 1; d >= 0; d--) {
      const bool high = k >> d & 1;
      weight = R(j, weight * (high ? frac[d] : R(j, 1 - frac[d])));
      i = flat_index(i, j->in[d], index_of(low[d] + (high ? 1 : 0), j->in[d]));
    }
    t->at[k] = i;
    t->weight[k] = weight;
  }
}

static void cubic_weights(double t, double w[4])
{
  const double a = -0.75, far = t + 1, near = 1 - t, end = 2 - t;
  w[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
  w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  w[2] = ((a + 2) * near - (a + 3)) * near * near + 1;
  w[3] = ((a * end - 5 * a) * end + 8 * a) * end - 4 * a;
}

static void taps_cubic(const grid_job *j, const double *at, taps *t)
{
  double low[2], w[2][4];
  for (int d = 0; d < 2; d++) {
    const double x = unnormalise(j, d, at[d]);
    low[d] = floor(x);
    cubic_weights(x - low[d], w[d]);
  }
  t->n = 16;
  for (int k = 0; k < 16; k++) {
    const int64_t x = index_of(pad(j, 0, low[0] - 1 + k % 4), j->in[0]),
                  y = index_of(pad(j, 1, low[1] - 1 + k / 4), j->in[1]);
    t->at[k] = flat_index(y, j->in[0], x);
    t->weight[k] = w[1][k / 4] * w[0][k % 4];
  }
}

/* -- Samples ----------------------------------------------------------------------------------- */

typedef struct block { /* taps of adjacent points */
  int64_t at[MAX_TAPS * GATHER_POINTS];
  union {
    float f32[MAX_TAPS * GATHER_POINTS];
    double f64[MAX_TAPS * GATHER_POINTS];
  } weight;
  double base[GATHER_POINTS]; /* what taps outside add: 0, or NaN */
} block;

static void find_taps(const grid_job *j, int64_t point, taps *t)
{
  double at[3];
  for (int d = 0; d < j->n; d++)
    at[d] = j->is_f64 ? ((const double *)j->grid)[point * j->n + d]
                      : (double)((const float *)j->grid)[point * j->n + d];
  if (j->mode == MODE_NEAREST)
    taps_nearest(j, at, t);
  else if (j->mode == MODE_LINEAR)
    taps_linear(j, at, t);
  else
    taps_cubic(j, at, t);
}

/* Compute taps of n points from `first` on.  In two dimensions a tap outside counts as 0 times its
 * weight, which keeps NaN; in three it is left out.  Returns true if any point has such a NaN. */
static bool fill_block(const grid_job *j, int64_t first, int n, block *b, int *n_taps)
{
  const bool adds_zero = j->n == 2 && j->mode != MODE_NEAREST;
  bool any = false;
  if (j->n == 2 && j->mode == MODE_LINEAR && j->padding == PAD_ZEROS && !j->is_f64 &&
      j->dtype != RUSH_FLOAT16 && j->in[0] < 1 << 24 && j->in[1] < 1 << 24) {
    *n_taps = 4;
    return j->sum.bilinear(n, (const float *)j->grid + 2 * first, (int)j->in[0], (int)j->in[1],
                           j->align, j->dtype == RUSH_BFLOAT16, b->at, b->weight.f32, b->base);
  }
  taps t;
  for (int i = 0; i < n; i++) {
    find_taps(j, first + i, &t);
    b->base[i] = 0;
    for (int k = 0; k < t.n; k++) {
      b->at[k * GATHER_POINTS + i] = t.at[k];
      if (j->is_f64)
        b->weight.f64[k * GATHER_POINTS + i] = t.weight[k];
      else
        b->weight.f32[k * GATHER_POINTS + i] = (float)t.weight[k];
      if (t.at[k] < 0 && adds_zero)
        b->base[i] += t.weight[k] * 0;
    }
    any |= b->base[i] != 0;
  }
  *n_taps = t.n;
  return any;
}

/* Sample channel by channel, so that results are written in rows. */
static void sample_block(const grid_job *j, int64_t first, int n, block *b)
{
  const int64_t batch = first / j->points, item = j->is_f64 ? 8 : 4;
  const char *x = (const char *)j->x + batch * j->channels * j->in_elems * item;
  char *y = (char *)j->y + (batch * j->channels * j->points + first % j->points) * item;
  int n_taps;
  const bool any = fill_block(j, first, n, b, &n_taps);
  for (int64_t c = 0; c < j->channels; c++, x += j->in_elems * item, y += j->points * item) {
    j->sum.points(n, n_taps, x, b->at, &b->weight, y);
    for (int i = 0; any && i < n; i++)
      if (j->is_f64)
        ((double *)(void *)y)[i] += b->base[i];
      else
        ((float *)(void *)y)[i] += (float)b->base[i];
  }
}

static void sample_points(void *arg, int64_t begin, int64_t end)
{
  grid_job *j = arg;
  block *b = mem_alloc_data(j->ctx, sizeof *b);
  if (!b) {
    atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
    return;
  }
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(i64_min(GATHER_POINTS, end - i), j->points - i % j->points);
    sample_block(j, i, (int)n, b);
  }
  mem_free_data(j->ctx, b, sizeof *b);
}

/* Read arguments from `at` on: input, grid, interpolation_mode, padding_mode, align_corners; hold
 * input and grid in `w`. */
static rush_status read_args(work *w, uint32_t at, grid_job *j)
{
  const rush_call *c = w->call;
  rush_tensor *x = call_tensor(c, at), *grid = call_tensor(c, at + 1);
  *j = (grid_job){.ctx = c->cx->ctx,
                  .n = x->n_dims - 2,
                  .mode = call_int(c, at + 2),
                  .padding = call_int(c, at + 3),
                  .align = call_bool(c, at + 4),
                  .dtype = x->dtype,
                  .is_f64 = x->dtype == RUSH_FLOAT64,
                  .batch = x->sizes[0],
                  .channels = x->sizes[1],
                  .in_elems = 1,
                  .points = 1};
  j->sum = ISA_PICK(gather_of, call_cpu(c->cx))(j->is_f64);
  for (int d = 0; d < j->n; d++) {
    j->in[d] = x->sizes[x->n_dims - 1 - d];
    j->in_elems *= j->in[d];
    j->points *= grid->sizes[d + 1];
  }
  WORK_DO(w, nn_check_float(c->cx,
                            j->n == 2 ? "grid_sampler_2d_cpu_kernel_impl" : "grid_sampler3d_cpu",
                            x->dtype));
  j->x = work_input(w, x)->data;
  j->grid = work_input(w, grid)->data;
  return w->st;
}

/* input, grid, interpolation_mode, padding_mode, align_corners */
rush_status kernel_grid_sampler(rush_call *c)
{
  grid_job j;
  work w = work_begin(c);
  WORK_DO(&w, read_args(&w, 0, &j));
  j.y = work_output(&w, 0, nn_dtype(j.dtype))->data;
  work_run(&w, j.batch * j.points, GRAIN_POINTS, sample_points, &j);
  if (atomic_load_explicit(&j.no_memory, memory_order_relaxed))
    WORK_DO(&w, call_nomem(c->cx));
  return work_end(&w);
}

/* -- Back -------------------------------------------------------------------------------------- */

typedef struct back_job {
  const call_ctx *cx;
  const grid_job *j;
  const void *grad;  /* of the result: [batch, channels, points] */
  void *dx, *dgrid;  /* NULL: not wanted */
} back_job;

static double number_of(const grid_job *j, const void *p, int64_t i)
{
  return j->is_f64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void add_number(const grid_job *j, void *p, int64_t i, double x)
{
  if (j->is_f64)
    ((double *)p)[i] += x;
  else
    ((float *)p)[i] += (float)x;
}

/* Return the derivative of a padded coordinate by the original one. */
static double pad_slope(const grid_job *j, int d, double x)
{
  double slope = 1;
  if (j->padding == PAD_ZEROS)
    return 1;
  if (j->padding == PAD_REFLECTION) {
    const double low = j->align ? 0 : -0.5, span = (double)(j->align ? j->in[d] - 1 : j->in[d]);
    if (span <= 0)
      return 0;
    slope = (x - low < 0) != (fmod(floor(R(j, fabs(R(j, x - low)) / span)), 2) != 0) ? -1 : 1;
    x = reflect(j, d, x);
  }
  return x > 0 && x < (double)(j->in[d] - 1) ? slope : 0;
}

static void cubic_slopes(double t, double w[4])
{
  const double a = -0.75, far = t + 1, near = 1 - t, end = 2 - t;
  w[0] = (3 * a * far - 10 * a) * far + 8 * a;
  w[1] = (3 * (a + 2) * t - 2 * (a + 3)) * t;
  w[2] = -(3 * (a + 2) * near - 2 * (a + 3)) * near;
  w[3] = -((3 * a * end - 10 * a) * end + 8 * a);
}

/* Compute the derivatives of the weights of a point's taps by its coordinates. */
static void tap_slopes(const grid_job *j, const double *at, int n, double slopes[3][MAX_TAPS])
{
  double w[3][4], dw[3][4];
  for (int d = 0; d < j->n; d++) {
    const double x = unnormalise(j, d, at[d]),
                 by = (double)(j->align ? j->in[d] - 1 : j->in[d]) / 2;
    const double inside = j->mode == MODE_CUBIC ? x : pad(j, d, x), frac = inside - floor(inside);
    if (j->mode == MODE_CUBIC) {
      cubic_weights(frac, w[d]);
      cubic_slopes(frac, dw[d]);
    } else {
      w[d][0] = 1 - frac;
      w[d][1] = frac;
      dw[d][1] = pad_slope(j, d, x);
      dw[d][0] = -dw[d][1];
    }
    for (int k = 0; k < 4; k++)
      dw[d][k] = j->mode == MODE_CUBIC || k < 2 ? dw[d][k] * by : 0;
  }
  for (int e = 0; e < j->n; e++)
    for (int k = 0; k < n; k++) {
      slopes[e][k] = 1;
      for (int d = 0; d < j->n; d++) {
        const int i = j->mode == MODE_CUBIC ? (d ? k / 4 : k % 4) : k >> d & 1;
        slopes[e][k] *= d == e ? dw[d][i] : w[d][i];
      }
    }
}

/* Distribute the gradients of batch entries [begin, end) over the taps. */
static void spread_batches(void *arg, int64_t begin, int64_t end)
{
  const back_job *b = arg;
  const grid_job *j = b->j;
  taps t;
  for (int64_t p = begin * j->points; p < end * j->points; p++) {
    const int64_t n = p / j->points;
    if (call_over_at(b->cx, p))
      return;
    find_taps(j, p, &t);
    for (int64_t c = n * j->channels; c < (n + 1) * j->channels; c++) {
      const double g = number_of(j, b->grad, c * j->points + p % j->points);
      for (int k = 0; k < t.n; k++)
        if (t.at[k] >= 0)
          add_number(j, b->dx, c * j->in_elems + t.at[k], t.weight[k] * g);
    }
  }
}

static void slope_points(void *arg, int64_t begin, int64_t end)
{
  const back_job *b = arg;
  const grid_job *j = b->j;
  double at[3], slopes[3][MAX_TAPS];
  taps t;
  for (int64_t p = begin; p < end; p++) {
    const int64_t n = p / j->points;
    double sums[3] = {0};
    for (int d = 0; d < j->n; d++)
      at[d] = number_of(j, j->grid, p * j->n + d);
    find_taps(j, p, &t);
    tap_slopes(j, at, t.n, slopes);
    for (int64_t c = n * j->channels; c < (n + 1) * j->channels; c++) {
      const double g = number_of(j, b->grad, c * j->points + p % j->points);
      for (int k = 0; k < t.n; k++)
        for (int d = 0; t.at[k] >= 0 && d < j->n; d++)
          sums[d] += number_of(j, j->x, c * j->in_elems + t.at[k]) * slopes[d][k] * g;
    }
    for (int d = 0; d < j->n; d++)
      add_number(j, b->dgrid, p * j->n + d, sums[d]);
  }
}

/* Return the memory of result i, zeros; NULL: it is not wanted. */
static void *zeroed_output(work *w, uint32_t i, int dtype)
{
  if (!call_out(w->call, i))
    return NULL;
  rush_tensor *out = work_output(w, i, nn_dtype(dtype));
  WORK_DO(w, tensor_fill(w->cx, out, value_float(0)));
  return out->data;
}

/* grad_output, input, grid, interpolation_mode, padding_mode, align_corners, [output_mask] */
rush_status kernel_grid_sampler_backward(rush_call *c)
{
  grid_job j;
  work w = work_begin(c);
  WORK_DO(&w, read_args(&w, 1, &j));
  const back_job b = {.cx = c->cx,
                      .j = &j,
                      .grad = work_input(&w, call_tensor(c, 0))->data,
                      .dx = zeroed_output(&w, 0, j.dtype),
                      .dgrid = zeroed_output(&w, 1, j.dtype)};
  if (b.dx)
    work_run(&w, j.batch, 1, spread_batches, (void *)&b);
  if (b.dgrid && j.mode != MODE_NEAREST)
    work_run(&w, j.batch * j.points, GRAIN_POINTS, slope_points, (void *)&b);
  return work_end(&w);
}
