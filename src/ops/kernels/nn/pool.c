/* ops/kernels/nn/pool.c -- pooling operators: maximum and average over windows, adaptive,
 * fractional, unpooling, and the averages' gradients. Arguments and sizes are read and checked for
 * all dimensions at once (1 and 2 are 3 with leading ones), then the kernels of pool_kernel.c run
 * over planes in parallel. A gradient of an average is spread one dimension after the other, which
 * is possible because windows are boxes and costs less than visiting each window. */
#include "ops/math/pool.h"

#include <math.h>
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/nn/resize.h"
#include "ops/kernels/work.h"

typedef struct pool_job {
  pool_geo geo;
  pool_kernels kernels;
  const void *in;
  void *out;
  int64_t *idx;
} pool_job;

static const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};

/* Find the dtype's kernels on this machine. */
static bool find_kernels(call_ctx *cx, int dtype, pool_kernels *out)
{
  return ISA_PICK(pool_kernels_of, call_cpu(cx))(dtype, out) ||
         pool_kernels_of_portable(dtype, out);
}

static int64_t grain(const pool_geo *g)
{
  return i64_max(1, 32768 / i64_max(1, i64_max(g->n_in, g->n_out)));
}

static void run_max(void *arg, int64_t begin, int64_t end)
{
  pool_job *j = arg;
  j->kernels.max(&j->geo, j->in, j->out, j->idx, begin, end);
}
static void run_avg(void *arg, int64_t begin, int64_t end)
{
  pool_job *j = arg;
  j->kernels.avg(&j->geo, j->in, j->out, begin, end);
}
static void run_adaptive_max(void *arg, int64_t begin, int64_t end)
{
  pool_job *j = arg;
  j->kernels.adaptive_max(&j->geo, j->in, j->out, j->idx, begin, end);
}
static void run_adaptive_avg(void *arg, int64_t begin, int64_t end)
{
  pool_job *j = arg;
  j->kernels.adaptive_avg(&j->geo, j->in, j->out, begin, end);
}

/* Describe planes of the n last dimensions, from the sizes of `from` to those of `to`. */
static pool_geo planes_of(const rush_tensor *from, const rush_tensor *to, int n)
{
  pool_geo g = {.n_planes = 1, .n_in = 1, .n_out = 1};
  for (int d = 0; d < from->n_dims - n; d++)
    g.n_planes *= from->sizes[d];
  for (int d = 0; d < 3; d++) {
    g.n_in *= g.in[d] = d < 3 - n ? 1 : from->sizes[from->n_dims - 3 + d];
    g.n_out *= g.out[d] = d < 3 - n ? 1 : to->sizes[to->n_dims - 3 + d];
  }
  return g;
}
/* Return the number of spatial dimensions: the length of the list that `key` names. */
static int spatial_dims(const rush_call *c, uint64_t key)
{
  return c->op->schema->args[call_arg_of_key(c, key)].fixed_len;
}
#define SPATIAL_DIMS(c, name) spatial_dims(c, name_key(name, sizeof(name) - 1))

/* Describe the windows of `kernel_size` and their planes. */
static pool_geo windows_of(const rush_call *c, const rush_tensor *from, const rush_tensor *to)
{
  const int n = SPATIAL_DIMS(c, "kernel_size");
  pool_geo g = planes_of(from, to, n);
  call_window(c, "kernel_size", n, ones, g.kernel);
  call_window(c, "stride", n, g.kernel, g.stride);
  call_window(c, "padding", n, zeros, g.pad);
  call_window(c, "dilation", n, ones, g.dilation);
  g.count_pad = value_is_true(call_named(c, "count_include_pad"));
  g.divisor = value_int_or(call_named(c, "divisor_override"), 0);
  return g;
}

/* Run over all planes.  Result 1, if there is one, is indices. */
static rush_status run_pool(rush_call *c, pool_job *j, void (*run)(void *, int64_t, int64_t))
{
  work w = work_begin(c);
  const rush_tensor *in = work_input(&w, call_tensor(c, 0));
  j->in = in->data;
  j->out = work_output(&w, 0, in->dtype)->data;
  j->idx = c->n_results > 1 ? work_output(&w, 1, RUSH_INT64)->data : NULL;
  j->geo.watch = call_is_watched(c->cx) ? c->cx : NULL;
  work_run(&w, j->geo.n_planes, grain(&j->geo), run, j);
  return work_end(&w);
}

typedef struct last_job {
  const pool_geo *geo;
  pool_last_fn *run;
  int64_t n_ch;
  const void *in;
  void *out;
} last_job;

static void run_last(void *arg, int64_t begin, int64_t end)
{
  const last_job *j = arg;
  j->run(j->geo, j->n_ch, j->in, j->out, begin, end);
}

/* True if argument and result have their channels innermost, and the kernels compute there. */
static bool is_last(const rush_call *c, pool_last_fn *run)
{
  const rush_tensor *in = call_tensor(c, 0), *out = call_out(c, 0);
  return run && c->n_results == 1 && out->dtype == in->dtype && !tensor_is_contiguous(in) &&
         tensor_is_channels_last(in) && tensor_is_channels_last(out) &&
         nn_dtype(in->dtype) == in->dtype;
}

static rush_status run_pool_last(rush_call *c, pool_geo *g, pool_last_fn *run)
{
  rush_tensor *in = call_tensor(c, 0), *out = call_out(c, 0);
  last_job j = {g, run, in->sizes[1], in->data, tensor_data_mut(out)};
  const int64_t n_px = in->sizes[0] * g->n_out,
                per_px = i64_max(1, j.n_ch * i64_max(1, g->n_in / i64_max(1, g->n_out)));
  g->watch = call_is_watched(c->cx) ? c->cx : NULL;
  return parallel_for(c->cx, n_px, i64_max(1, 32768 / per_px), run_last, &j);
}

/* -- Windows ----------------------------------------------------------------------------------- */

/* self, kernel_size, stride, padding, dilation, ceil_mode */
rush_status kernel_max_pool(rush_call *c)
{
  const rush_tensor *self = call_tensor(c, 0);
  pool_job j = {.geo = windows_of(c, self, call_out(c, 0))};
  if (c->n_results == 1 && SPATIAL_DIMS(c, "kernel_size") == 1)
    TRY(nn_check_float(c->cx, "max_pool1d_impl", self->dtype));
  if (!find_kernels(c->cx, nn_dtype(self->dtype), &j.kernels))
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  if (is_last(c, j.kernels.max_last))
    return run_pool_last(c, &j.geo, j.kernels.max_last);
  return run_pool(c, &j, run_max);
}

/* self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override */
rush_status kernel_avg_pool(rush_call *c)
{
  const rush_tensor *self = call_tensor(c, 0);
  pool_job j = {.geo = windows_of(c, self, call_out(c, 0))};
  const int d = nn_dtype(self->dtype);
  if ((d != RUSH_FLOAT32 && d != RUSH_FLOAT64 && d != RUSH_INT64) ||
      !find_kernels(c->cx, d, &j.kernels))
    return call_no_dtype(c->cx, SPATIAL_DIMS(c, "kernel_size") == 3 ? "avg_pool3d_out_frame"
                                                                   : "avg_pool2d", self->dtype);
  return run_pool(c, &j, run_avg);
}

/* self, output_size */
static rush_status adaptive_pool(rush_call *c, void (*run)(void *, int64_t, int64_t))
{
  const rush_tensor *self = call_tensor(c, 0);
  pool_job j = {.geo = planes_of(self, call_out(c, 0), SPATIAL_DIMS(c, "output_size"))};
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, self->dtype));
  if (!find_kernels(c->cx, nn_dtype(self->dtype), &j.kernels))
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  if (run == run_adaptive_avg && is_last(c, j.kernels.adaptive_avg_last))
    return run_pool_last(c, &j.geo, j.kernels.adaptive_avg_last);
  return run_pool(c, &j, run);
}
rush_status kernel_adaptive_avg_pool(rush_call *c) { return adaptive_pool(c, run_adaptive_avg); }
rush_status kernel_adaptive_max_pool(rush_call *c) { return adaptive_pool(c, run_adaptive_max); }

/* -- Averages back ----------------------------------------------------------------------------- */

/* Compute window `o` along d, and its divisor.  Windows are boxes, so gradients are spread one
 * dimension at a time. */
static void window_of(const pool_geo *g, int d, bool adaptive, int64_t o, int64_t *begin,
                      int64_t *end, double *by)
{
  if (adaptive) {
    *begin = pool_start(o, g->out[d], g->in[d]);
    *end = pool_end(o, g->out[d], g->in[d]);
    *by = (double)(*end - *begin);
    return;
  }
  const int64_t start = o * g->stride[d] - g->pad[d], stop = start + g->kernel[d];
  *begin = i64_max(start, 0);
  *end = i64_max(*begin, i64_min(stop, g->in[d]));
  *by = (double)(g->count_pad ? i64_min(stop, g->in[d] + g->pad[d]) - start : *end - *begin);
}

static rush_tensor *average_back(work *w, const pool_geo *g, int d, bool adaptive, int at,
                                 rush_tensor *t, rush_tensor *to)
{
  resize_axis a;
  int64_t begin, end, taps = 1;
  double by;
  for (int64_t o = 0; o < g->out[d]; o++) {
    window_of(g, d, adaptive, o, &begin, &end, &by);
    taps = i64_max(taps, end - begin);
  }
  axis_new(w, g->in[d], g->out[d], taps, &a);
  for (int64_t o = 0; o < a.n_out; o++) {
    window_of(g, d, adaptive, o, &begin, &end, &by);
    if (g->divisor)
      by = d == 2 ? (double)g->divisor : 1;
    for (int64_t i = begin; i < end; i++) {
      const int64_t k = o * taps + a.count[o]++;
      a.idx[k] = i;
      a.exact[k] = 1 / by;
    }
  }
  axis_turn(w, &a);
  return axis_run(w, &a, at, t, to);
}

/* Distribute one average of each plane: an equal part to each of its n elements. */
static void spread_planes(const call_ctx *cx, const rush_tensor *t, int64_t n, rush_tensor *out)
{
  for (int64_t p = 0; p < t->n_elems && !call_over_at(cx, p); p++)
    for (int64_t i = p * n; i < (p + 1) * n; i++)
      nn_set_number(out, i, nn_number_at(t, p) / (double)n);
}

/* grad_output, self, and the pool's own arguments */
static rush_status pool_back(rush_call *c, int n, bool adaptive, const pool_geo *g)
{
  rush_tensor *grad = call_tensor(c, 0);
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, grad->dtype));
  if (call_out(c, 0)->n_elems == 0) /* the windows' tables could be longer than any tensor */
    return RUSH_OK;
  work w = work_begin(c);
  rush_tensor *t = work_input(&w, grad), *out = work_output(&w, 0, nn_dtype(grad->dtype));
  if (w.st == RUSH_OK && adaptive && g->n_out == 1)
    spread_planes(c->cx, t, g->n_in, out);
  else
    for (int d = 3 - n; d < 3 && w.st == RUSH_OK; d++)
      t = average_back(&w, g, d, adaptive, grad->n_dims - 3 + d, t, d == 2 ? out : NULL);
  return work_end(&w);
}

rush_status kernel_avg_pool_backward(rush_call *c)
{
  const pool_geo g = windows_of(c, call_tensor(c, 1), call_tensor(c, 0));
  return pool_back(c, SPATIAL_DIMS(c, "kernel_size"), false, &g);
}
static rush_status adaptive_pool_back(rush_call *c, int n)
{
  const pool_geo g = planes_of(call_tensor(c, 1), call_tensor(c, 0), n);
  return pool_back(c, n, true, &g);
}
rush_status kernel_adaptive_avg_pool2d_backward(rush_call *c) { return adaptive_pool_back(c, 2); }
rush_status kernel_adaptive_avg_pool3d_backward(rush_call *c) { return adaptive_pool_back(c, 3); }

/* -- Fractional -------------------------------------------------------------------------------- */

/* Convert a difference of two positions to a start from 0 to most, whatever the sample was. */
static int64_t start_between(double to, double from, int64_t most)
{
  const double start = trunc(to) - trunc(from);
  return start >= (double)most ? most : start > 0 ? (int64_t)start : 0; /* NaN: 0 */
}

/* Return the start of window `o` along a dimension, for the sample u. */
static int64_t fractional_start(double u, int64_t o, int64_t in, int64_t out, int64_t kernel)
{
  if (o == out - 1)
    return in - kernel;
  const double alpha = (double)(in - kernel) / (double)(out - 1);
  return start_between(((double)o + u) * alpha, u * alpha, in - kernel);
}
static int64_t fractional_start32(float u, int64_t o, int64_t in, int64_t out, int64_t kernel)
{
  if (o == out - 1)
    return in - kernel;
  const float alpha = (float)(in - kernel) / (float)(out - 1);
  const float to = ((float)o + u) * alpha, from = u * alpha;
  return start_between((double)to, (double)from, in - kernel);
}

typedef struct fractional_job {
  const pool_geo *g;
  int n, dtype;
  const char *in;
  char *out;
  const void *samples; /* n per plane, of dtype */
  int64_t *idx;
  pool_kernels kernels;
} fractional_job;

/* Pool planes: one result is a maximum over a box, an ordinary pool of one window. */
static void fractional_planes(void *arg, int64_t begin, int64_t end)
{
  const fractional_job *j = arg;
  const pool_geo *g = j->g;
  const int64_t item = (int64_t)dtype_bytes(j->dtype);
  for (int64_t p = begin; p < end; p++)
    for (int64_t o = 0; o < g->n_out; o++) {
      const int64_t at[3] = {o / (g->out[1] * g->out[2]), o / g->out[2] % g->out[1], o % g->out[2]};
      pool_geo one = *g;
      for (int d = 0; d < 3; d++) {
        /* samples of 2d are (w, h), of 3d (d, h, w) */
        const int64_t s = p * j->n + (j->n == 2 ? 2 - d : d);
        int64_t start = 0;
        if (d >= 3 - j->n && j->dtype == RUSH_FLOAT64)
          start = fractional_start(((const double *)j->samples)[s], at[d], g->in[d], g->out[d],
                                   g->kernel[d]);
        else if (d >= 3 - j->n)
          start = fractional_start32(((const float *)j->samples)[s], at[d], g->in[d], g->out[d],
                                     g->kernel[d]);
        one.pad[d] = -start; /* the window starts inside */
        one.out[d] = 1;
      }
      one.n_out = 1;
      int64_t r = p * g->n_out + o;
      j->kernels.max(&one, j->in + p * g->n_in * item, j->out + r * item, j->idx + r, 0, 1);
    }
}

/* self, kernel_size, output_size, random_samples */
rush_status kernel_fractional_max_pool(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0);
  const int n = SPATIAL_DIMS(c, "kernel_size");
  pool_geo g = planes_of(self, call_out(c, 0), n);
  memcpy(g.stride, ones, sizeof ones);
  memcpy(g.dilation, ones, sizeof ones);
  call_window(c, "kernel_size", n, ones, g.kernel);
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, self->dtype));
  work w = work_begin(c);
  const rush_tensor *in = work_input(&w, self);
  fractional_job j = {.g = &g,
                      .n = n,
                      .dtype = in->dtype,
                      .in = in->data,
                      .out = work_output(&w, 0, in->dtype)->data,
                      .samples = work_rows(&w, call_tensor(c, 3), in->dtype)->data,
                      .idx = work_output(&w, 1, RUSH_INT64)->data};
  if (!find_kernels(c->cx, in->dtype, &j.kernels))
    WORK_DO(&w, call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype));
  work_run(&w, g.n_planes, grain(&g), fractional_planes, &j);
  return work_end(&w);
}

/* -- Unpooling --------------------------------------------------------------------------------- */

/* Make zeros with every element of self at its index. */
rush_status kernel_max_unpool(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0);
  const pool_geo g = planes_of(self, call_out(c, 0), SPATIAL_DIMS(c, "output_size"));
  work w = work_begin(c);
  const rush_tensor *in = work_rows(&w, self, self->dtype),
                    *idx = work_rows(&w, call_tensor(c, 1), RUSH_INT64);
  rush_tensor *out = work_output(&w, 0, self->dtype);
  const size_t item = tensor_item_bytes(self);
  if (w.st == RUSH_OK)
    memset(out->data, 0, (size_t)out->n_elems * item);
  for (int64_t i = 0; i < self->n_elems && w.st == RUSH_OK; i++) {
    const int64_t to = ((const int64_t *)idx->data)[i], plane = i / g.n_in;
    if (to < 0 || to >= g.n_out)
      w.st =
        call_fail(c->cx, "Found an invalid max index: %lld (output volumes are of size %lldx%lld",
                  (long long)to, (long long)g.out[1], (long long)g.out[2]);
    else
      memcpy((char *)out->data + (size_t)(plane * g.n_out + to) * item,
             (const char *)in->data + (size_t)i * item, item);
  }
  return work_end(&w);
}
