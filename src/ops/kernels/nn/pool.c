/* ops/kernels/nn/pool.c -- pooling operators: maximum and average over windows, adaptive,
 * fractional, unpooling, and the averages' gradients. Arguments and sizes are read and checked for
 * all dimensions at once (1 and 2 are 3 with leading ones), then the kernels of pool_kernel.c run
 * over planes in parallel. A gradient of an average is spread one dimension after the other, which
 * is possible because windows are boxes and costs less than visiting each window. */
#include "ops/math/pool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/integer.h"
#include "base/threads.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/nn/resize.h"
#include "ops/kernels/views.h"

typedef struct pool_job {
  pool_geo geo;
  pool_kernels kernels;
  const void *in;
  void *out;
  int64_t *idx;
  bool keeps_format; /* of 3-d inputs in channels last: the maximum alone does, in PyTorch */
} pool_job;

static const char *const words[] = {"", "a single int, or a tuple of one int",
                                    "a single int, or a tuple of two ints",
                                    "a single int, or a tuple of three ints"};

/* Find the dtype's kernels on this machine. */
static bool find_kernels(call_ctx *cx, int dtype, pool_kernels *out)
{
  return ISA_PICK(pool_kernels_of, cpu_choose(context_get_options(cx->ctx)->cpu))(dtype, out) ||
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

/* -- Arguments --------------------------------------------------------------------------------- */

/* Read argument `i` as n numbers for the last dimensions of `out[3]`; an empty list means
 * `other`. */
static rush_status window_arg(rush_call *c, uint32_t i, int n, const int64_t *other,
                              const char *what, int64_t *out)
{
  const rush_list *l = call_list(c, i);
  for (int d = 0; d < 3; d++)
    out[d] = other[d];
  if (i >= c->n_args || call_is_none(c, i) || (l && l->n == 0))
    return RUSH_OK;
  if (!call_ints_fixed(c, i, out + 3 - n, n))
    return call_fail(c->cx, "%s: %s must either be %s", c->op->schema->name + 6, what, words[n]);
  return RUSH_OK;
}

/* Return the elements of a box; INT64_MAX if too many for any tensor, 0 if a size is negative:
 * tensor_new refuses both. */
static int64_t volume(const int64_t *sizes)
{
  int64_t n = 1;
  bool empty = false;
  for (int d = 0; d < 3; d++) {
    empty |= sizes[d] <= 0;
    if (__builtin_mul_overflow(n, i64_max(sizes[d], 1), &n))
      n = INT64_MAX;
  }
  return empty ? 0 : n;
}

/* Read planes and input sizes; `op` names the operator in the refusal. */
static rush_status read_input(rush_call *c, const rush_tensor *t, int n, pool_geo *g)
{
  sizes_text text;
  if (t->n_dims != n + 1 && t->n_dims != n + 2)
    return call_fail(c->cx,
                     "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size "
                     "for input, but got: %s",
                     c->op->schema->name + 6, n + 1, n + 2,
                     sizes_print(&text, t->n_dims, t->sizes));
  for (int d = t->n_dims - n - 1; d < t->n_dims; d++)
    if (t->sizes[d] == 0)
      return call_fail(c->cx,
                       "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size "
                       "for input, but got: %s",
                       c->op->schema->name + 6, n + 1, n + 2,
                       sizes_print(&text, t->n_dims, t->sizes));
  g->n_planes = 1;
  for (int d = 0; d < t->n_dims - n; d++)
    g->n_planes *= t->sizes[d];
  for (int d = 0; d < 3; d++)
    g->in[d] = d < 3 - n ? 1 : t->sizes[t->n_dims - 3 + d];
  g->n_in = g->in[0] * g->in[1] * g->in[2];
  return RUSH_OK;
}

/* Check sizes: PyTorch's windows are ints; the input is limited too, so that no sum below can
 * overflow. */
static rush_status check_ints(rush_call *c, const pool_geo *g)
{
  for (int d = 0; d < 3; d++) {
    const int64_t all[] = {g->kernel[d], g->stride[d], g->pad[d], g->dilation[d]};
    bool fits = g->in[d] < INT64_MAX / 4;
    for (int i = 0; i < 4; i++)
      fits = fits && all[i] >= INT32_MIN && all[i] <= INT32_MAX;
    if (!fits)
      return call_fail(c->cx, "value cannot be converted to type int without overflow");
  }
  return RUSH_OK;
}

/* Compute results along each dimension, checked as PyTorch does. */
static rush_status size_result(rush_call *c, int n, pool_geo *g, bool ceil_mode)
{
  TRY(check_ints(c, g));
  for (int d = 0; d < 3; d++) {
    if (g->kernel[d] <= 0)
      return call_fail(c->cx, "kernel size should be greater than zero, but got kernel_size: %lld",
                       (long long)g->kernel[d]);
    if (g->stride[d] <= 0)
      return call_fail(c->cx, "stride should not be zero");
    if (g->dilation[d] <= 0)
      return call_fail(c->cx, "dilation should be greater than zero, but got dilation: %lld",
                       (long long)g->dilation[d]);
    const int64_t span = g->dilation[d] * (g->kernel[d] - 1) + 1;
    if (g->pad[d] < 0)
      return call_fail(c->cx, "pad must be non-negative, but got pad: %lld", (long long)g->pad[d]);
    if (g->pad[d] > span / 2)
      return call_fail(c->cx,
                       "pad should be at most half of effective kernel size, but got pad=%lld, "
                       "kernel_size=%lld and dilation=%lld",
                       (long long)g->pad[d], (long long)g->kernel[d], (long long)g->dilation[d]);
    g->out[d] = i64_floordiv(g->in[d] + 2 * g->pad[d] - span + (ceil_mode ? g->stride[d] - 1 : 0),
                          g->stride[d]) +
                1;
    if (ceil_mode && (g->out[d] - 1) * g->stride[d] >= g->in[d] + g->pad[d])
      g->out[d]--; /* the last window must start inside */
  }
  g->n_out = volume(g->out);
  if (g->out[0] >= 1 && g->out[1] >= 1 && g->out[2] >= 1)
    return RUSH_OK;
  char from[96] = "", to[96] = "";
  for (int d = n == 3 ? 0 : 1, a = 0, b = 0; d < 3; d++) { /* 1-d pools are 2-d ones to PyTorch */
    a += snprintf(from + a, sizeof from - (size_t)a, "x%lld", (long long)g->in[d]);
    b += snprintf(to + b, sizeof to - (size_t)b, "x%lld", (long long)g->out[d]);
  }
  const rush_tensor *self = call_tensor(c, 0);
  const long long ch = self->sizes[self->n_dims - n - 1];
  return call_fail(
    c->cx, "Given input size: (%lld%s). Calculated output size: (%lld%s). Output size is too small",
    ch, from, ch, to);
}

static void result_sizes(const rush_tensor *t, int n, const int64_t *out, int64_t *sizes)
{
  memcpy(sizes, t->sizes, sizeof *sizes * t->n_dims);
  for (int d = 0; d < n; d++)
    sizes[t->n_dims - n + d] = out[3 - n + d];
}

/* Allocate results, run over all planes, and return.  `with_indices`: result 1 too. */
static rush_status run_pool(rush_call *c, pool_job *j, int n, bool with_indices,
                            void (*run)(void *, int64_t, int64_t))
{
  rush_tensor *self = call_tensor(c, 0), *in = NULL, *out = NULL, *idx = NULL;
  const rush_tensor *like = self->n_dims == n + 2 && (n == 2 || j->keeps_format) ? self : NULL;
  int64_t sizes[5] = {0};
  result_sizes(self, n, j->geo.out, sizes);
  TRY(nn_input(c->cx, self, &in));
  rush_status st = tensor_new(c->cx, in->dtype, self->n_dims, sizes, &out);
  if (st == RUSH_OK && with_indices)
    st = tensor_new(c->cx, RUSH_INT64, self->n_dims, sizes, &idx);
  if (st == RUSH_OK) {
    j->in = in->data;
    j->out = out->data;
    j->idx = idx ? idx->data : NULL;
    j->geo.watch = call_is_watched(c->cx) ? c->cx : NULL;
    st = parallel_for(c->cx, j->geo.n_planes, grain(&j->geo), run, j);
  }
  if (st == RUSH_OK) {
    st = nn_return_steal(c, 0, out, self->dtype, like);
    out = NULL;
  }
  if (st == RUSH_OK && idx) {
    st = nn_return_steal(c, 1, idx, RUSH_INT64, like);
    idx = NULL;
  }
  tensor_release(idx);
  tensor_release(out);
  tensor_release(in);
  return st;
}

/* -- Maximum ----------------------------------------------------------------------------------- */

/* self, kernel_size, stride, padding, dilation, ceil_mode */
static rush_status max_pool(rush_call *c, int n, bool with_indices)
{
  static const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};
  pool_job j = {.keeps_format = true};
  pool_geo *g = &j.geo;
  const rush_tensor *self = call_tensor(c, 0);
  TRY(window_arg(c, 1, n, ones, "kernel_size", g->kernel));
  TRY(window_arg(c, 2, n, g->kernel, "stride", g->stride));
  TRY(window_arg(c, 3, n, zeros, "padding", g->pad));
  TRY(window_arg(c, 4, n, ones, "dilation", g->dilation));
  TRY(read_input(c, self, n, g));
  TRY(size_result(c, n, g, call_bool(c, 5)));
  if (n == 1 && !with_indices)
    TRY(nn_check_float(c->cx, "max_pool1d_impl", self->dtype));
  if (!find_kernels(c->cx, nn_dtype(self->dtype), &j.kernels))
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  return run_pool(c, &j, n, with_indices, run_max);
}

rush_status kernel_max_pool1d(rush_call *c) { return max_pool(c, 1, false); }
rush_status kernel_max_pool2d(rush_call *c) { return max_pool(c, 2, false); }
rush_status kernel_max_pool3d(rush_call *c) { return max_pool(c, 3, false); }
rush_status kernel_max_pool1d_with_indices(rush_call *c) { return max_pool(c, 1, true); }
rush_status kernel_max_pool2d_with_indices(rush_call *c) { return max_pool(c, 2, true); }
rush_status kernel_max_pool3d_with_indices(rush_call *c) { return max_pool(c, 3, true); }

/* -- Average ----------------------------------------------------------------------------------- */

/* self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override */
static rush_status avg_pool(rush_call *c, int n)
{
  static const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};
  pool_job j = {0};
  pool_geo *g = &j.geo;
  const rush_tensor *self = call_tensor(c, 0);
  TRY(window_arg(c, 1, n, ones, "kernel_size", g->kernel));
  TRY(window_arg(c, 2, n, g->kernel, "stride", g->stride));
  TRY(window_arg(c, 3, n, zeros, "padding", g->pad));
  memcpy(g->dilation, ones, sizeof ones);
  g->count_pad = call_bool(c, 5);
  if (c->n_args > 6 && !call_is_none(c, 6)) {
    g->divisor = call_int(c, 6);
    if (g->divisor == 0)
      return call_fail(c->cx, "divisor must be not zero");
  }
  TRY(read_input(c, self, n, g));
  TRY(size_result(c, n, g, call_bool(c, 4)));
  const int d = nn_dtype(self->dtype);
  if ((d != RUSH_FLOAT32 && d != RUSH_FLOAT64 && d != RUSH_INT64) ||
      !find_kernels(c->cx, d, &j.kernels))
    return call_no_dtype(c->cx, n == 3 ? "avg_pool3d_out_frame" : "avg_pool2d", self->dtype);
  return run_pool(c, &j, n, false, run_avg);
}

rush_status kernel_avg_pool1d(rush_call *c) { return avg_pool(c, 1); }
rush_status kernel_avg_pool2d(rush_call *c) { return avg_pool(c, 2); }
rush_status kernel_avg_pool3d(rush_call *c) { return avg_pool(c, 3); }

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

static rush_status average_back(call_ctx *cx, const pool_geo *g, int d, bool adaptive, int at,
                                rush_tensor **t)
{
  resize_axis a;
  int64_t begin, end, taps = 1;
  double by;
  for (int64_t o = 0; o < g->out[d]; o++) {
    window_of(g, d, adaptive, o, &begin, &end, &by);
    taps = i64_max(taps, end - begin);
  }
  TRY(axis_new(cx, g->in[d], g->out[d], taps, &a));
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
  rush_status st = axis_turn(cx, &a);
  if (st == RUSH_OK)
    st = axis_run(cx, &a, at, t);
  axis_free(cx->ctx, &a);
  return st;
}

/* Spread one average of each plane: *t (owned) becomes planes of n elements, an equal part in
 * each. */
static rush_status spread_planes(call_ctx *cx, const rush_tensor *like, int64_t n, rush_tensor **t)
{
  rush_tensor *out;
  TRY(tensor_new(cx, (*t)->dtype, like->n_dims, like->sizes, &out));
  for (int64_t p = 0; p < (*t)->n_elems && !call_over_at(cx, p); p++)
    if (out->dtype == RUSH_FLOAT64) {
      const double part = ((const double *)(*t)->data)[p] / (double)n;
      for (int64_t i = p * n; i < (p + 1) * n; i++)
        ((double *)out->data)[i] = part;
    } else {
      const float part = ((const float *)(*t)->data)[p] / (float)n;
      for (int64_t i = p * n; i < (p + 1) * n; i++)
        ((float *)out->data)[i] = part;
    }
  tensor_release(*t);
  *t = out;
  return RUSH_OK;
}

/* grad_output, self, and the pool's own arguments */
static rush_status pool_back(rush_call *c, int n, bool adaptive, pool_geo *g)
{
  rush_tensor *grad = call_tensor(c, 0), *self = call_tensor(c, 1), *t;
  int64_t want[5] = {0};
  sizes_text a, b;
  result_sizes(self, n, g->out, want);
  if (grad->n_dims != self->n_dims || memcmp(want, grad->sizes, sizeof *want * grad->n_dims) != 0)
    return call_fail(c->cx, "%s: expected grad_output of sizes %s, but got %s",
                     c->op->schema->name + 6, sizes_print(&a, self->n_dims, want),
                     sizes_print(&b, grad->n_dims, grad->sizes));
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, grad->dtype));
  if (self->n_elems == 0) { /* the windows' tables could be longer than any tensor */
    TRY(tensor_new(c->cx, grad->dtype, self->n_dims, self->sizes, &t));
    return nn_return_steal(c, 0, t, grad->dtype, self);
  }
  TRY(nn_input(c->cx, grad, &t));
  rush_status st = RUSH_OK;
  if (adaptive && g->out[0] == 1 && g->out[1] == 1 && g->out[2] == 1)
    st = spread_planes(c->cx, self, g->n_in, &t);
  else
    for (int d = 3 - n; d < 3 && st == RUSH_OK; d++)
      st = average_back(c->cx, g, d, adaptive, grad->n_dims - 3 + d, &t);
  if (st != RUSH_OK) {
    tensor_release(t);
    return st;
  }
  return nn_return_steal(c, 0, t, grad->dtype, self);
}

static rush_status avg_pool_back(rush_call *c, int n)
{
  static const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};
  pool_geo g = {.dilation = {1, 1, 1}, .count_pad = call_bool(c, 6)};
  TRY(window_arg(c, 2, n, ones, "kernel_size", g.kernel));
  TRY(window_arg(c, 3, n, g.kernel, "stride", g.stride));
  TRY(window_arg(c, 4, n, zeros, "padding", g.pad));
  if (!call_is_none(c, 7) && call_int(c, 7) == 0)
    return call_fail(c->cx, "divisor must be not zero");
  g.divisor = call_int_or(c, 7, 0);
  TRY(read_input(c, call_tensor(c, 1), n, &g));
  TRY(size_result(c, n, &g, call_bool(c, 5)));
  return pool_back(c, n, false, &g);
}

static rush_status adaptive_pool_back(rush_call *c, int n)
{
  pool_geo g = {0};
  const rush_tensor *grad = call_tensor(c, 0);
  sizes_text text;
  TRY(read_input(c, call_tensor(c, 1), n, &g));
  for (int d = 0; d < 3; d++) {
    g.out[d] = d < 3 - n || grad->n_dims < n ? 1 : grad->sizes[grad->n_dims - 3 + d];
    if (g.out[d] == 0)
      return call_fail(c->cx,
                       "%s(): Expected grad_output to have non-zero size for non-batch dimensions, "
                       "but grad_output has "
                       "sizes %s with dimension %d being empty",
                       c->op->schema->name + 6, sizes_print(&text, grad->n_dims, grad->sizes),
                       grad->n_dims - 3 + d);
  }
  return pool_back(c, n, true, &g);
}

rush_status kernel_avg_pool2d_backward(rush_call *c) { return avg_pool_back(c, 2); }
rush_status kernel_avg_pool3d_backward(rush_call *c) { return avg_pool_back(c, 3); }
rush_status kernel_adaptive_avg_pool2d_backward(rush_call *c) { return adaptive_pool_back(c, 2); }
rush_status kernel_adaptive_avg_pool3d_backward(rush_call *c) { return adaptive_pool_back(c, 3); }

/* -- Adaptive ---------------------------------------------------------------------------------- */

static rush_status adaptive_pool(rush_call *c, int n, bool is_max)
{
  static const int64_t ones[3] = {1, 1, 1};
  pool_job j = {0};
  pool_geo *g = &j.geo;
  const rush_tensor *self = call_tensor(c, 0);
  if (c->args[1].tag == RUSH_TAG_LIST && c->args[1].as.list->n != (size_t)n)
    return call_fail(c->cx, "%s: output_size must be %d", c->op->schema->name, n);
  TRY(window_arg(c, 1, n, ones, "output_size", g->out));
  TRY(read_input(c, self, n, g));
  for (int d = 0; d < 3; d++)
    if (g->out[d] < 0)
      return call_fail(
        c->cx, "%s: elements of output_size must be greater than or equal to 0 but received {%lld}",
        c->op->schema->name + 6, (long long)g->out[d]);
  g->n_out = volume(g->out);
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, self->dtype));
  if (!find_kernels(c->cx, nn_dtype(self->dtype), &j.kernels))
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  return run_pool(c, &j, n, is_max, is_max ? run_adaptive_max : run_adaptive_avg);
}

rush_status kernel_adaptive_avg_pool1d(rush_call *c) { return adaptive_pool(c, 1, false); }
rush_status kernel_adaptive_avg_pool2d(rush_call *c) { return adaptive_pool(c, 2, false); }
rush_status kernel_adaptive_avg_pool3d(rush_call *c) { return adaptive_pool(c, 3, false); }
rush_status kernel_adaptive_max_pool1d(rush_call *c) { return adaptive_pool(c, 1, true); }
rush_status kernel_adaptive_max_pool2d(rush_call *c) { return adaptive_pool(c, 2, true); }
rush_status kernel_adaptive_max_pool3d(rush_call *c) { return adaptive_pool(c, 3, true); }

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
  call_ctx *cx;
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

/* Check samples: (batches, channels, n); more batches than the input's are allowed, as PyTorch's
 * functional draws them. */
static rush_status check_samples(rush_call *c, const rush_tensor *self, int n)
{
  const rush_tensor *s = call_tensor(c, 3);
  int first = self->n_dims - n - 1;
  if (s->dtype != self->dtype)
    return call_fail(c->cx, "Expect _random_samples to have the same dtype as input");
  if (s->n_dims != 3)
    return call_fail(c->cx, "Expect _random_samples to have 3 dimensions, got %d", (int)s->n_dims);
  if (s->sizes[0] < (first == 1 ? self->sizes[0] : 1))
    return call_fail(c->cx, "Expect _random_samples.size(0) no less then input batch size.");
  if (s->sizes[1] != self->sizes[first])
    return call_fail(c->cx, "Expect _random_samples.size(1) equals to input channel size.");
  if (s->sizes[2] != n)
    return call_fail(c->cx, "Expect _random_samples.size(2) equals to %d; got %lld.", n,
                     (long long)s->sizes[2]);
  return RUSH_OK;
}

/* self, kernel_size, output_size, random_samples */
static rush_status fractional_pool(rush_call *c, int n)
{
  static const int64_t ones[3] = {1, 1, 1};
  pool_geo g = {.stride = {1, 1, 1}, .dilation = {1, 1, 1}};
  rush_tensor *self = call_tensor(c, 0), *in = NULL, *samples = NULL, *out = NULL, *idx = NULL;
  int64_t sizes[5] = {0};
  TRY(window_arg(c, 1, n, ones, "kernel_size", g.kernel));
  TRY(window_arg(c, 2, n, ones, "output_size", g.out));
  TRY(read_input(c, self, n, &g));
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, self->dtype));
  for (int d = 0; d < 3; d++)
    if (g.out[d] < 1 || g.kernel[d] < 1 || g.kernel[d] > g.in[d] ||
        g.out[d] > g.in[d] - g.kernel[d] + 1)
      return call_fail(c->cx, "%s: pool size (%lld) too large relative to input size (%lld)",
                       c->op->schema->name + 6, (long long)g.kernel[d], (long long)g.in[d]);
  g.n_out = volume(g.out);
  TRY(check_samples(c, self, n));
  result_sizes(self, n, g.out, sizes);
  rush_status st = nn_input(c->cx, self, &in);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, call_tensor(c, 3), in->dtype, &samples);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, in->dtype, self->n_dims, sizes, &out);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, RUSH_INT64, self->n_dims, sizes, &idx);
  if (st == RUSH_OK) {
    fractional_job j = {.cx = c->cx,
                        .g = &g,
                        .n = n,
                        .dtype = in->dtype,
                        .in = in->data,
                        .out = out->data,
                        .samples = samples->data,
                        .idx = idx->data};
    st = find_kernels(c->cx, in->dtype, &j.kernels)
           ? parallel_for(c->cx, g.n_planes, grain(&g), fractional_planes, &j)
           : call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  }
  if (st == RUSH_OK) {
    st = nn_return_steal(c, 0, out, self->dtype, NULL);
    out = NULL;
  }
  if (st == RUSH_OK) {
    call_return_steal(c, 1, idx);
    idx = NULL;
  }
  tensor_release(idx);
  tensor_release(out);
  tensor_release(samples);
  tensor_release(in);
  return st;
}

rush_status kernel_fractional_max_pool2d(rush_call *c) { return fractional_pool(c, 2); }
rush_status kernel_fractional_max_pool3d(rush_call *c) { return fractional_pool(c, 3); }

/* -- Unpooling --------------------------------------------------------------------------------- */

/* Make zeros, with every element of self at its index. */
static rush_status max_unpool(rush_call *c, int n)
{
  static const int64_t ones[3] = {1, 1, 1};
  pool_geo g = {0};
  rush_tensor *self = call_tensor(c, 0), *idx = NULL, *in = NULL, *out = NULL;
  int64_t sizes[5] = {0};
  sizes_text a, b;
  if (call_tensor(c, 1)->dtype != RUSH_INT64)
    return call_fail(c->cx, "elements in indices should be type int64 but got: %s",
                     dtype_aten_name(call_tensor(c, 1)->dtype));
  TRY(window_arg(c, 2, n, ones, "output_size", g.out));
  TRY(read_input(c, self, n, &g));
  const rush_tensor *given = call_tensor(c, 1);
  for (int d = 0; d < 3; d++)
    if (g.out[d] < 0)
      return call_fail(c->cx,
                       "max_unpooling%dd(): output_size must contain non-negative spatial "
                       "dimensions, but got output_size=(%lld"
                       ", %lld)",
                       n, (long long)g.out[1], (long long)g.out[2]);
  if (given->n_dims != self->n_dims ||
      memcmp(given->sizes, self->sizes, sizeof *sizes * self->n_dims) != 0)
    return call_fail(c->cx,
                     "Expected shape of indices to be same as that of the input tensor (%s) but "
                     "got indices tensor with "
                     "shape: %s",
                     sizes_print(&a, self->n_dims, self->sizes),
                     sizes_print(&b, given->n_dims, given->sizes));
  g.n_out = volume(g.out);
  result_sizes(self, n, g.out, sizes);
  rush_status st = tensor_contiguous(c->cx, self, &in);
  if (st == RUSH_OK)
    st = tensor_contiguous(c->cx, call_tensor(c, 1), &idx);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, self->dtype, self->n_dims, sizes, &out);
  if (st == RUSH_OK) {
    const size_t item = tensor_item_bytes(self);
    memset(out->data, 0, (size_t)out->n_elems * item);
    for (int64_t i = 0; i < self->n_elems && st == RUSH_OK; i++) {
      const int64_t to = ((const int64_t *)idx->data)[i], plane = i / g.n_in;
      if (to < 0 || to >= g.n_out)
        st =
          call_fail(c->cx, "Found an invalid max index: %lld (output volumes are of size %lldx%lld",
                    (long long)to, (long long)g.out[1], (long long)g.out[2]);
      else
        memcpy((char *)out->data + (size_t)(plane * g.n_out + to) * item,
               (const char *)in->data + (size_t)i * item, item);
    }
  }
  if (st == RUSH_OK) {
    st = nn_return_steal(c, 0, out, self->dtype, n == 2 ? self : NULL);
    out = NULL;
  }
  tensor_release(out);
  tensor_release(idx);
  tensor_release(in);
  return st;
}

rush_status kernel_max_unpool2d(rush_call *c) { return max_unpool(c, 2); }
rush_status kernel_max_unpool3d(rush_call *c) { return max_unpool(c, 3); }
