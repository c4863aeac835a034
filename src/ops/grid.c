/* Sampling of images and volumes at the points of a grid.
 *
 * A point becomes taps: offsets into a channel with weights, the same for all channels.  Coordinates are
 * computed in the input's precision (R rounds an operation on doubles to it), as the nearest neighbour of a
 * point between two depends on it. */
#include <math.h>

#include "base/threads.h"
#include "ops/gather.h"
#include "ops/nn.h"

enum { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
enum { MAX_TAPS = 16, GRAIN_POINTS = 256 };

typedef struct grid_job {
  int n; /* spatial dimensions */
  int64_t mode, padding;
  bool align, is_f64;
  int dtype;
  int64_t batch, channels, in[3], in_elems, points; /* in: width first; points: of one batch entry */
  gather sum;
  const void *x, *grid;
  void *y;
} grid_job;

typedef struct taps {
  int n;
  int64_t at[MAX_TAPS]; /* -1: outside */
  double weight[MAX_TAPS];
} taps;

/* x rounded to the input's precision. */
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

/* -- Coordinates ------------------------------------------------------------------------------------------ */

static double unnormalise(const grid_job *j, int d, double x)
{
  const double size = (double)j->in[d];
  if (j->n == 2) {
    const double half = R(j, (j->align ? size - 1 : size) / 2), y = R(j, R(j, x + 1) * half);
    return j->align ? y : R(j, y - 0.5);
  }
  return j->align ? R(j, R(j, R(j, x + 1) / 2) * (size - 1)) : R(j, R(j, R(j, R(j, x + 1) * size) - 1) / 2);
}

/* NaN goes to 0. */
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

/* An index, or -1 outside. */
static int64_t index_of(double x, int64_t size) { return x >= 0 && x < (double)size ? (int64_t)x : -1; }

static int64_t join(int64_t outer, int64_t size, int64_t inner) { return outer < 0 || inner < 0 ? -1 : outer * size + inner; }

/* -- Taps ------------------------------------------------------------------------------------------------------ */

static void taps_nearest(const grid_job *j, const double *at, taps *t)
{
  int64_t i = 0;
  for (int d = j->n - 1; d >= 0; d--)
    i = join(i, j->in[d], index_of(nearbyint(pad(j, d, unnormalise(j, d, at[d]))), j->in[d]));
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
      i = join(i, j->in[d], index_of(low[d] + (high ? 1 : 0), j->in[d]));
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
    const int64_t x = index_of(pad(j, 0, low[0] - 1 + k % 4), j->in[0]), y = index_of(pad(j, 1, low[1] - 1 + k / 4), j->in[1]);
    t->at[k] = join(y, j->in[0], x);
    t->weight[k] = w[1][k / 4] * w[0][k % 4];
  }
}

/* -- Samples ------------------------------------------------------------------------------------------------------ */

typedef struct block { /* taps of points that lie side by side */
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
    at[d] = j->is_f64 ? ((const double *)j->grid)[point * j->n + d] : (double)((const float *)j->grid)[point * j->n + d];
  if (j->mode == MODE_NEAREST)
    taps_nearest(j, at, t);
  else if (j->mode == MODE_LINEAR)
    taps_linear(j, at, t);
  else
    taps_cubic(j, at, t);
}

/* Taps of n points from `first` on.  In two dimensions a tap outside counts as 0 times its weight, which keeps NaN;
 * in three it is left out.  Does any point have such a NaN? */
static bool fill_block(const grid_job *j, int64_t first, int n, block *b, int *n_taps)
{
  const bool adds_zero = j->n == 2 && j->mode != MODE_NEAREST;
  bool any = false;
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

/* Channel by channel, so that results are written in rows. */
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
  const grid_job *j = arg;
  block b;
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(i64_min(GATHER_POINTS, end - i), j->points - i % j->points);
    sample_block(j, i, (int)n, &b);
  }
}

static rush_status check_args(call_ctx *cx, const rush_tensor *x, const rush_tensor *grid, int64_t mode, int64_t padding)
{
  sizes_text a, b;
  const char *xs = sizes_print(&a, x->n_dims, x->sizes), *gs = sizes_print(&b, grid->n_dims, grid->sizes);
  if (x->n_dims == 0 || grid->n_dims == 0 || x->sizes[0] != grid->sizes[0])
    return call_fail(cx, "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and "
                         "grid with sizes %s", xs, gs);
  if (grid->sizes[grid->n_dims - 1] != x->n_dims - 2)
    return call_fail(cx, "grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s",
                     x->n_dims - 2, gs);
  for (int d = 2; d < x->n_dims; d++)
    if (x->sizes[d] <= 0)
      return call_fail(cx, "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s with "
                           "dimension %d being empty", xs, d);
  if ((x->n_dims != 4 && x->n_dims != 5) || grid->n_dims != x->n_dims)
    return call_fail(cx, "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
                         "sizes %s and grid with sizes %s", xs, gs);
  if (x->n_dims == 5 && mode == MODE_CUBIC)
    return call_fail(cx, "grid_sampler(): bicubic interpolation only supports 4D input");
  if (mode < MODE_LINEAR || mode > MODE_CUBIC || padding < PAD_ZEROS || padding > PAD_REFLECTION)
    return call_fail(cx, "grid_sampler(): unknown interpolation mode %lld or padding mode %lld", (long long)mode,
                     (long long)padding);
  if (x->dtype != grid->dtype)
    return call_fail(cx, "expected scalar type %s but found %s", dtype_aten_name(x->dtype), dtype_aten_name(grid->dtype));
  return nn_check_float(cx, x->n_dims == 4 ? "grid_sampler_2d_cpu_kernel_impl" : "grid_sampler3d_cpu", x->dtype);
}

/* input, grid, interpolation_mode, padding_mode, align_corners */
rush_status kernel_grid_sampler(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *grid = call_tensor(c, 1), *in = NULL, *points = NULL, *out = NULL;
  grid_job j = {.n = x->n_dims - 2, .mode = call_int(c, 2), .padding = call_int(c, 3), .align = call_bool(c, 4)};
  int64_t sizes[5];
  TRY(check_args(c->cx, x, grid, j.mode, j.padding));
  j.dtype = x->dtype;
  j.is_f64 = x->dtype == RUSH_FLOAT64;
  j.sum = ISA_PICK(gather_of, cpu_choose(context_get_options(c->cx->ctx)->cpu))(j.is_f64);
  j.batch = sizes[0] = x->sizes[0];
  j.channels = sizes[1] = x->sizes[1];
  j.in_elems = j.points = 1;
  for (int d = 0; d < j.n; d++) {
    j.in[d] = x->sizes[x->n_dims - 1 - d];
    j.in_elems *= j.in[d];
    j.points *= sizes[d + 2] = grid->sizes[d + 1];
  }
  rush_status st = nn_input(c->cx, x, &in);
  if (st == RUSH_OK)
    st = nn_input(c->cx, grid, &points);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, in->dtype, x->n_dims, sizes, &out);
  if (st == RUSH_OK) {
    j.x = in->data;
    j.grid = points->data;
    j.y = out->data;
    st = parallel_for(c->cx, j.batch * j.points, GRAIN_POINTS, sample_points, &j);
    if (st == RUSH_OK)
      st = nn_return_steal(c, 0, out, x->dtype, NULL);
    else
      tensor_release(out);
  }
  tensor_release(in);
  tensor_release(points);
  return st;
}

rush_status kernel_grid_sampler_2d(rush_call *c)
{
  if (call_tensor(c, 0)->n_dims != 4)
    return call_fail(c->cx, "grid_sampler_2d(): expected 4D input and grid with same number of dimensions");
  return kernel_grid_sampler(c);
}

rush_status kernel_grid_sampler_3d(rush_call *c)
{
  if (call_tensor(c, 0)->n_dims != 5)
    return call_fail(c->cx, "grid_sampler_3d(): expected 5D input and grid with same number of dimensions");
  return kernel_grid_sampler(c);
}
