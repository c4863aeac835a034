/* ops/kernels/nn/resize.c -- resizing of images: nearest, linear, cubic, and the antialiased
 * filters.
 *
 * Everything but nearest is a pass along each dimension, the innermost first: a table lists the
 * inputs and weights of each output.  The weights are computed as in PyTorch, in float32 for
 * float32 and below: R() rounds an operation on doubles to the same bits. */
#include "ops/kernels/nn/resize.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nn.h"
#include "ops/math/resize.h"

typedef enum resize_mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LANCZOS } resize_mode;

typedef struct resize_job {
  resize_mode mode;
  int n;               /* spatial dimensions */
  bool align, antialias, is_f32;
  int weights_dtype;   /* a 16-bit float: PyTorch keeps the weights in it; or 0 */
  int64_t in[3], out[3]; /* the first n are used */
  double scales[3];    /* as given, or 0 */
} resize_job;

static inline double R(const resize_job *j, double x) { return j->is_f32 ? (double)(float)x : x; }

/* -- Arguments --------------------------------------------------------------------------------- */

/* Read sizes and options of resizing `from` to `to`. */
static resize_job job_of(rush_call *c, const rush_tensor *from, const rush_tensor *to,
                         resize_mode mode, bool antialias)
{
  static const char *const names[] = {"scales", "scales_d", "scales_h", "scales_w"};
  const rush_value factors = call_named(c, "scale_factors");
  resize_job j = {.mode = mode,
                  .n = from->n_dims - 2,
                  .align = value_is_true(call_named(c, "align_corners")),
                  .antialias = antialias,
                  .is_f32 = from->dtype != RUSH_FLOAT64};
  for (int d = 0; d < j.n; d++) {
    const char *name = names[j.n == 1 ? 0 : 4 - j.n + d];
    const rush_value scale = factors.tag == RUSH_TAG_LIST
                               ? factors.as.list->items[d]
                               : call_value_at(c, call_arg_of_key(c, name_key(name, strlen(name))));
    j.in[d] = from->sizes[d + 2];
    j.out[d] = to->sizes[d + 2];
    j.scales[d] = scale.tag == RUSH_TAG_NONE ? 0 : number_as_double(scale);
  }
  return j;
}

/* Return the input step per output. */
static double scale_of(const resize_job *j, int d)
{
  if (j->align)
    return j->out[d] > 1 ? R(j, (double)(j->in[d] - 1) / (double)(j->out[d] - 1)) : 0.0;
  return R(j, resize_step(j->scales[d], j->in[d], j->out[d]));
}

/* -- Tables ------------------------------------------------------------------------------------ */

static double filter_linear(double x) { return fabs(x) < 1.0 ? 1.0 - fabs(x) : 0.0; }
static double cubic_near(double x, double a) { return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0; }
static double cubic_far(double x, double a)
{
  return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
}
static double filter_cubic(double x)
{
  x = fabs(x); /* a = -0.5, as PIL */
  return x < 1.0 ? cubic_near(x, -0.5) : x < 2.0 ? cubic_far(x, -0.5) : 0.0;
}
static double sinc(double x) { return x == 0.0 ? 1.0 : sin(M_PI * x) / (M_PI * x); }
static double filter_lanczos(double x) { return fabs(x) < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

/* Compute the source position of an output, and its index and fraction with PyTorch's guards. */
static int64_t resized_from(const resize_job *j, int d, double scale, int64_t o, double *frac)
{
  double x = j->align ? R(j, scale * (double)o) : R(j, R(j, scale * R(j, (double)o + 0.5)) - 0.5);
  if (j->mode == LINEAR && x < 0.0)
    x = 0.0;
  int64_t i = resize_index((double)(float)x, -1, j->in[d]);
  *frac = fmin(fmax(R(j, x - (double)i), 0.0), 1.0);
  return i;
}

static double weight_of(const resize_job *j, double x)
{
  const float w = (float)x;
  return j->weights_dtype == RUSH_FLOAT16 ? f32_of_f16(f16_of_f32(w))
         : j->weights_dtype               ? f32_of_bf16(bf16_of_f32(w))
                                          : x;
}

static void fill_linear(const resize_job *j, int d, resize_axis *a, double *w)
{
  const double scale = scale_of(j, d);
  for (int64_t o = 0; o < a->n_out; o++) {
    double f;
    int64_t i = resized_from(j, d, scale, o, &f);
    a->count[o] = 2;
    a->idx[2 * o] = i;
    a->idx[2 * o + 1] = i + (i < a->n_in - 1);
    f = weight_of(j, f);
    w[2 * o] = R(j, 1.0 - f);
    w[2 * o + 1] = f;
    if (a->n_in == a->n_out && f == 0.0)
      a->count[o] = 1; /* itself: no 0 * inf */
  }
}

static void fill_cubic(const resize_job *j, int d, resize_axis *a, double *w)
{
  const double scale = scale_of(j, d);
  for (int64_t o = 0; o < a->n_out; o++) {
    double f;
    int64_t i = resized_from(j, d, scale, o, &f);
    a->count[o] = 4;
    for (int t = 0; t < 4; t++)
      a->idx[4 * o + t] = i64_max(0, i64_min(i - 1 + t, a->n_in - 1));
    w[4 * o] = cubic_far(f + 1.0, -0.75);
    w[4 * o + 1] = cubic_near(f, -0.75);
    w[4 * o + 2] = cubic_near(1.0 - f, -0.75);
    w[4 * o + 3] = cubic_far(2.0 - f, -0.75);
  }
}

static double antialias_support(const resize_job *j, int d)
{
  const double half = j->mode == LINEAR  ? 1.0
                      : j->mode == CUBIC ? 2.0
                                         : 3.0,
               scale = scale_of(j, d);
  return scale >= 1.0 ? fmin(R(j, half * scale), half * (double)j->in[d])
                      : half; /* a filter of all inputs at most */
}

/* Truncate x to an end of a range of n. */
static int64_t end_of(double x, int64_t n) { return x >= (double)n ? n : x > 0.0 ? (int64_t)x : 0; }

static void fill_antialias(const resize_job *j, int d, resize_axis *a, double *w)
{
  double (*filter)(double) = j->mode == LINEAR  ? filter_linear
                             : j->mode == CUBIC ? filter_cubic
                                                : filter_lanczos;
  const double scale = scale_of(j, d), support = antialias_support(j, d);
  const double inverse = scale >= 1.0 ? R(j, 1.0 / scale) : 1.0;
  for (int64_t o = 0; o < a->n_out; o++) {
    const double center = R(j, scale * R(j, (double)o + 0.5));
    const int64_t lo = end_of(R(j, R(j, center - support) + 0.5), a->n_in);
    const int64_t hi = end_of(R(j, R(j, center + support) + 0.5), a->n_in);
    const int64_t n = i64_max(1, i64_min(hi - lo, a->taps));
    double total = 0.0;
    a->count[o] = (int32_t)n;
    for (int64_t t = 0; t < n; t++) {
      a->idx[o * a->taps + t] = i64_min(lo + t, a->n_in - 1);
      w[o * a->taps + t] = filter(((double)(lo + t) - center + 0.5) * inverse);
      total += w[o * a->taps + t];
    }
    for (int64_t t = 0; t < n && total != 0.0; t++)
      w[o * a->taps + t] /= total;
  }
}

static void fill_nearest(const resize_job *j, int d, int64_t *idx);

/* Find which inputs make the outputs of dimension d. */
static void make_axis(work *w, const resize_job *j, int d, resize_axis *a)
{
  const bool is_nearest = j->mode <= NEAREST_EXACT;
  const int64_t taps = is_nearest          ? 1
                       : j->antialias      ? 2 * (int64_t)ceil(antialias_support(j, d)) + 1
                       : j->mode == LINEAR ? 2
                                           : 4;
  axis_new(w, j->in[d], j->out[d], taps, a);
  if (is_nearest && a->idx)
    fill_nearest(j, d, a->idx);
  for (int64_t o = 0; o < a->n_out && is_nearest; o++) {
    a->count[o] = 1;
    a->exact[o] = 1;
  }
  if (!is_nearest)
    (j->antialias ? fill_antialias : j->mode == LINEAR ? fill_linear : fill_cubic)(j, d, a,
                                                                                   a->exact);
  for (int64_t i = 0; j->weights_dtype && i < a->n_out * taps; i++)
    a->exact[i] = weight_of(j, a->exact[i]);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* Return t resized along spatial dimension d, or (back) what arrived from there. */
static rush_tensor *pass_along(work *w, const resize_job *j, int d, bool back, rush_tensor *t,
                               rush_tensor *to)
{
  resize_axis axis;
  make_axis(w, j, d, &axis);
  if (back)
    axis_turn(w, &axis);
  return axis_run(w, &axis, d + 2, t, to);
}

static rush_status resize_weighted(rush_call *c, resize_job *j)
{
  const int from = call_tensor(c, 0)->dtype, dtype = nn_dtype(from);
  if (dtype != RUSH_FLOAT32 && dtype != RUSH_FLOAT64 && !(dtype == RUSH_UINT8 && j->n == 2))
    return call_no_dtype(c->cx, c->op->schema->name + 6, from);
  j->is_f32 = dtype == RUSH_FLOAT32;
  if (nn_is_half(from) && !j->antialias && !(j->mode == LINEAR && j->n == 2))
    j->weights_dtype = from;
  work w = work_begin(c);
  rush_tensor *t = work_input(&w, call_tensor(c, 0)), *out = work_output(&w, 0, dtype);
  for (int d = j->n - 1; d >= 0; d--)
    t = pass_along(&w, j, d, false, t, d ? NULL : out);
  return work_end(&w);
}

/* -- Nearest ----------------------------------------------------------------------------------- */

typedef struct nearest_job {
  const int64_t *idx[3]; /* input index of every output */
  int64_t in[3], out[3];
  size_t item;
  const char *from;
  char *to;
} nearest_job;

static void nearest_planes(void *arg, int64_t begin, int64_t end)
{
  const nearest_job *j = arg;
  const int64_t n_rows = j->out[0] * j->out[1];
  for (int64_t r = begin; r < end; r++) {
    const int64_t plane = r / n_rows, z = j->idx[0][r % n_rows / j->out[1]],
                  y = j->idx[1][r % j->out[1]];
    const int64_t at = ((plane * j->in[0] + z) * j->in[1] + y) * j->in[2], to = r * j->out[2];
    const int64_t *idx = j->idx[2], n = j->out[2];
#define COPY(T)                                                     \
  for (int64_t i = 0; i < n; i++)                                   \
    ((T *)(void *)j->to)[to + i] = ((const T *)(const void *)j->from)[at + idx[i]]
    switch (j->item) {
    case 1: COPY(uint8_t); break;
    case 2: COPY(uint16_t); break;
    case 4: COPY(uint32_t); break;
    default: COPY(uint64_t); break;
    }
#undef COPY
  }
}

static void fill_nearest(const resize_job *j, int d, int64_t *idx)
{
  const double scale = scale_of(j, d);
  for (int64_t o = 0; o < j->out[d]; o++) {
    double x;
    if (j->mode == NEAREST) {
      x = R(j, scale * (double)o);
    } else {
      x = R(j, R(j, scale * R(j, (double)o + 0.5)) - 0.5);
      x = R(j, (x < 0.0 ? 0.0 : x) + 0.5);
    }
    idx[o] = resize_index((double)(float)x, 0, j->in[d]);
  }
}

static rush_status resize_nearest(rush_call *c, const resize_job *j)
{
  rush_tensor *self = call_tensor(c, 0);
  static const int64_t zero = 0;
  nearest_job n = {.in = {1, 1, 1},
                   .out = {1, 1, 1},
                   .item = tensor_item_bytes(self),
                   .idx = {&zero, &zero, &zero}};
  if (dtype_class_of(self->dtype) != DTYPE_FLOAT && self->dtype != RUSH_UINT8)
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  if (call_out(c, 0)->n_elems == 0) /* its sizes may be beyond all memory */
    return RUSH_OK;
  work w = work_begin(c);
  n.from = work_rows(&w, self, self->dtype)->data;
  n.to = work_output(&w, 0, self->dtype)->data;
  for (int d = 0, to = 3 - j->n; d < j->n; d++, to++) {
    int64_t *idx = work_memory(&w, j->out[d], sizeof *idx);
    if (idx)
      fill_nearest(j, d, idx);
    n.idx[to] = idx;
    n.in[to] = j->in[d];
    n.out[to] = j->out[d];
  }
  work_run(&w, call_out(c, 0)->n_elems / j->out[j->n - 1], i64_max(1, 16384 / j->out[j->n - 1]),
           nearest_planes, &n);
  return work_end(&w);
}

/* -- Operators --------------------------------------------------------------------------------- */

static rush_status resize(rush_call *c, resize_mode mode, bool antialias)
{
  resize_job j = job_of(c, call_tensor(c, 0), call_out(c, 0), mode, antialias);
  return mode <= NEAREST_EXACT ? resize_nearest(c, &j) : resize_weighted(c, &j);
}

/* grad_output, output_size, input_size, [align_corners], scales... */
static rush_status resize_back(rush_call *c, resize_mode mode, bool antialias)
{
  rush_tensor *g = call_tensor(c, 0);
  const resize_job j = job_of(c, call_out(c, 0), g, mode, antialias);
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, g->dtype));
  if (g->n_elems == 0) /* no images or channels: sizes may be too large for tables */
    return RUSH_OK;
  work w = work_begin(c);
  rush_tensor *t = work_input(&w, g), *out = work_output(&w, 0, nn_dtype(g->dtype));
  for (int d = 0; d < j.n; d++)
    t = pass_along(&w, &j, d, true, t, d == j.n - 1 ? out : NULL);
  return work_end(&w);
}

#define RESIZE(name, mode, antialias)                                                           \
  rush_status kernel_upsample_##name(rush_call *c) { return resize(c, mode, antialias); }       \
  rush_status kernel_upsample_##name##_backward(rush_call *c)                                   \
  {                                                                                             \
    return resize_back(c, mode, antialias);                                                     \
  }
RESIZE(nearest, NEAREST, false)
RESIZE(nearest_exact, NEAREST_EXACT, false)
RESIZE(linear, LINEAR, false)
RESIZE(cubic, CUBIC, false)
RESIZE(linear_aa, LINEAR, true)
RESIZE(cubic_aa, CUBIC, true)
RESIZE(lanczos_aa, LANCZOS, true)
