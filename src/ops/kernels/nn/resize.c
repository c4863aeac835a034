/* ops/kernels/nn/resize.c -- resizing of images: nearest, linear, cubic, and the antialiased
 * filters.
 *
 * Everything but nearest is a pass along each dimension, the innermost first: a table lists the
 * inputs and weights of each output.  The weights are computed as in PyTorch, in float32 for
 * float32 and below: R() rounds an operation on doubles to the same bits. */
#include "ops/kernels/nn/resize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"

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

static rush_status sizes_from_factors(rush_call *c, const rush_tensor *t, uint32_t at,
                                      resize_job *j)
{
  const rush_list *sizes = call_list(c, 1), *factors = call_list(c, at);
  if ((sizes == NULL) == (factors == NULL))
    return call_fail(c->cx, "Must specify exactly one of output_size and scale_factors");
  if ((sizes ? sizes->n : factors->n) != (size_t)j->n)
    return call_fail(c->cx, "It is expected output_size equals to %d, but got size %zu", j->n,
                     sizes ? sizes->n : factors->n);
  for (int d = 0; d < j->n; d++) {
    if (factors) {
      j->scales[d] = factors->items[d].as.d;
      double size = (double)t->sizes[d + 2] * j->scales[d];
      if (!(size >= 0 && size < 0x1p62))
        return call_fail(c->cx, "upsample: scale factor %g gives no size", j->scales[d]);
      j->out[d] = (int64_t)size;
    } else {
      j->out[d] = sizes->items[d].as.i;
    }
  }
  return RUSH_OK;
}

static rush_status bad_sizes(rush_call *c, const resize_job *j, const rush_tensor *t)
{
  char from[96] = "", to[96] = "";
  for (int d = 0, a = 0, b = 0; d < j->n; d++) {
    const char *form = d ? ", %c: %lld" : "%c: %lld";
    a += snprintf(from + a, sizeof from - (size_t)a, form, "DHW"[3 - j->n + d],
                  (long long)t -> sizes[d + 2]);
    b += snprintf(to + b, sizeof to - (size_t)b, form, "DHW"[3 - j->n + d], (long long)j->out[d]);
  }
  return call_fail(
    c->cx, "Input and output sizes should be greater than 0, but got input (%s) output (%s)", from,
    to);
}

/* self, output_size, [align_corners], scales... or the same with lists (.vec) */
static rush_status read_args(rush_call *c, resize_job *j)
{
  const rush_tensor *t = call_tensor(c, 0);
  const bool is_vec = c->op->schema->overload[0] == 'v';
  const uint32_t scales_at = j->mode <= NEAREST_EXACT ? 2 : 3;
  sizes_text text;
  if (t->n_dims != j->n + 2)
    return call_fail(c->cx, "It is expected input_size equals to %d, but got size %d", j->n + 2,
                     t->n_dims);
  j->align = scales_at == 3 && call_bool(c, 2);
  if (is_vec) {
    TRY(sizes_from_factors(c, t, scales_at, j));
  } else {
    if (!call_ints_fixed(c, 1, j->out, j->n))
      return call_fail(c->cx, "It is expected output_size equals to %d", j->n);
    for (int d = 0; d < j->n; d++)
      j->scales[d] = call_float_or(c, scales_at + (uint32_t)d, 0.0);
  }
  for (int d = 0; d < j->n; d++) {
    j->in[d] = t->sizes[d + 2];
    if (j->in[d] <= 0 || j->out[d] <= 0)
      return bad_sizes(c, j, t);
  }
  if (t->sizes[1] == 0)
    return call_fail(c->cx, "Non-empty %dD data tensor expected but got a tensor with sizes %s",
                     j->n + 2, sizes_print(&text, t->n_dims, t->sizes));
  return RUSH_OK;
}

/* Return the input step per output. */
static double scale_of(const resize_job *j, int d)
{
  if (j->align)
    return j->out[d] > 1 ? R(j, (double)(j->in[d] - 1) / (double)(j->out[d] - 1)) : 0.0;
  return j->scales[d] > 0.0 ? R(j, 1.0 / j->scales[d]) : R(j, (double)j->in[d] / (double)j->out[d]);
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

/* Convert a position, which scales of any size may make arbitrary, to an input index: integers from
 * `lo` to n - 1. */
static int64_t index_of(double x, int64_t lo, int64_t n)
{
  return x >= (double)n   ? n - 1
         : x > (double)lo ? i64_min((int64_t)floor(x), n - 1)
                          : lo; /* NaN: lo */
}

/* Compute the source position of an output, and its index and fraction with PyTorch's guards. */
static int64_t resized_from(const resize_job *j, int d, double scale, int64_t o, double *frac)
{
  double x = j->align ? R(j, scale * (double)o) : R(j, R(j, scale * R(j, (double)o + 0.5)) - 0.5);
  if (j->mode == LINEAR && x < 0.0)
    x = 0.0;
  int64_t i = index_of((double)(float)x, -1, j->in[d]);
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

/* Compute which inputs contribute to the outputs of dimension d: `a` must be zeroed; the caller
 * frees it. */
static rush_status make_axis(call_ctx *cx, const resize_job *j, int d, resize_axis *a)
{
  const bool is_nearest = j->mode <= NEAREST_EXACT;
  const int64_t taps = is_nearest          ? 1
                       : j->antialias      ? 2 * (int64_t)ceil(antialias_support(j, d)) + 1
                       : j->mode == LINEAR ? 2
                                           : 4;
  TRY(axis_new(cx, j->in[d], j->out[d], taps, a));
  if (is_nearest) {
    fill_nearest(j, d, a->idx);
    for (int64_t o = 0; o < a->n_out; o++) {
      a->count[o] = 1;
      a->exact[o] = 1;
    }
  } else if (j->antialias) {
    fill_antialias(j, d, a, a->exact);
  } else if (j->mode == LINEAR) {
    fill_linear(j, d, a, a->exact);
  } else {
    fill_cubic(j, d, a, a->exact);
  }
  for (int64_t i = 0; j->weights_dtype && i < a->n_out * taps; i++)
    a->exact[i] = weight_of(j, a->exact[i]);
  return RUSH_OK;
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* Resize *t (owned) along spatial dimension d, or (back) its gradient. */
static rush_status pass_along(call_ctx *cx, const resize_job *j, int d, bool back, rush_tensor **t)
{
  resize_axis axis = {0};
  rush_status st = make_axis(cx, j, d, &axis);
  if (st == RUSH_OK && back)
    st = axis_turn(cx, &axis);
  if (st == RUSH_OK)
    st = axis_run(cx, &axis, d + 2, t);
  axis_free(cx->ctx, &axis);
  return st;
}

static rush_status resize_weighted(rush_call *c, resize_job *j)
{
  rush_tensor *self = call_tensor(c, 0), *t;
  const int dtype = nn_dtype(self->dtype);
  if (dtype != RUSH_FLOAT32 && dtype != RUSH_FLOAT64 && !(dtype == RUSH_UINT8 && j->n == 2))
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  j->is_f32 = dtype == RUSH_FLOAT32;
  if (nn_is_half(self->dtype) && !j->antialias && !(j->mode == LINEAR && j->n == 2))
    j->weights_dtype = self->dtype;
  TRY(nn_input(c->cx, self, &t));
  rush_status st = RUSH_OK;
  for (int d = j->n - 1; d >= 0 && st == RUSH_OK; d--)
    st = pass_along(c->cx, j, d, false, &t);
  if (st != RUSH_OK) {
    tensor_release(t);
    return st;
  }
  return nn_return_steal(c, 0, t, self->dtype, self);
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
    idx[o] = index_of((double)(float)x, 0, j->in[d]);
  }
}

static rush_status resize_nearest(rush_call *c, resize_job *j)
{
  rush_tensor *self = call_tensor(c, 0), *in = NULL, *out = NULL;
  static const int64_t zero = 0;
  nearest_job n = {.in = {1, 1, 1},
                   .out = {1, 1, 1},
                   .item = tensor_item_bytes(self),
                   .idx = {&zero, &zero, &zero}};
  int64_t sizes[5] = {self->sizes[0], self->sizes[1]}, n_idx = 0, *idx = NULL;
  if (dtype_class_of(self->dtype) != DTYPE_FLOAT && self->dtype != RUSH_UINT8)
    return call_no_dtype(c->cx, c->op->schema->name + 6, self->dtype);
  j->is_f32 = self->dtype != RUSH_FLOAT64;
  for (int d = 0; d < j->n; d++) {
    n.in[3 - j->n + d] = j->in[d];
    n.out[3 - j->n + d] = sizes[2 + d] = j->out[d];
  }
  TRY(tensor_new(c->cx, self->dtype, self->n_dims, sizes,
                 &out)); /* first: it refuses sizes beyond all memory */
  if (out->n_elems == 0)
    return call_return_made_steal(c, 0, out, RUSH_OK);
  for (int d = 0; d < j->n; d++)
    n_idx += j->out[d];
  rush_status st = tensor_contiguous(c->cx, self, &in);
  if (st == RUSH_OK && !(idx = mem_alloc(c->cx->ctx, (size_t)n_idx * sizeof *idx)))
    st = call_nomem(c->cx);
  if (st == RUSH_OK) {
    int64_t *at = idx;
    for (int d = 0; d < j->n; at += j->out[d++]) {
      fill_nearest(j, d, at);
      n.idx[3 - j->n + d] = at;
    }
    n.from = in->data;
    n.to = out->data;
    st = parallel_for(c->cx, out->n_elems / j->out[j->n - 1], i64_max(1, 16384 / j->out[j->n - 1]),
                      nearest_planes, &n);
  }
  if (idx)
    mem_free(c->cx->ctx, idx, (size_t)n_idx * sizeof *idx);
  tensor_release(in);
  if (st != RUSH_OK) {
    tensor_release(out);
    return st;
  }
  return nn_return_steal(c, 0, out, self->dtype, self);
}

/* -- Back -------------------------------------------------------------------------------------- */

/* grad_output, output_size, input_size, [align_corners], scales... */
static rush_status read_back_args(rush_call *c, resize_job *j, int64_t *in)
{
  const rush_tensor *g = call_tensor(c, 0);
  const uint32_t scales_at = j->mode <= NEAREST_EXACT ? 3 : 4;
  int64_t want[5] = {0};
  sizes_text a, b;
  if (!call_ints_fixed(c, 1, j->out, j->n))
    return call_fail(c->cx, "It is expected output_size equals to %d", j->n);
  if (call_ints(c, 2, in, 5) != j->n + 2)
    return call_fail(c->cx, "It is expected input_size equals to %d", j->n + 2);
  j->align = scales_at == 4 && call_bool(c, 3);
  memcpy(want, in, 2 * sizeof *in);
  for (int d = 0; d < j->n; d++) {
    j->scales[d] = call_float_or(c, scales_at + (uint32_t)d, 0.0);
    j->in[d] = in[d + 2];
    want[d + 2] = j->out[d];
    if (j->in[d] <= 0 || j->out[d] <= 0)
      return call_fail(c->cx, "Input and output sizes should be greater than 0");
  }
  if (g->n_dims != j->n + 2 || memcmp(g->sizes, want, sizeof *want * g->n_dims) != 0)
    return call_fail(c->cx,
                     "Expected grad_output to have the same shape as output; output has %s but got "
                     "grad_output with %s",
                     sizes_print(&a, j->n + 2, want), sizes_print(&b, g->n_dims, g->sizes));
  return RUSH_OK;
}

static rush_status resize_back(rush_call *c, int n, resize_mode mode, bool antialias)
{
  resize_job j = {.mode = mode, .n = n, .antialias = antialias};
  rush_tensor *g = call_tensor(c, 0), *t;
  int64_t in[5] = {0};
  TRY(read_back_args(c, &j, in));
  TRY(nn_check_float(c->cx, c->op->schema->name + 6, g->dtype));
  if (g->n_elems == 0) { /* no images or channels: sizes may be too large for tables */
    TRY(tensor_new(c->cx, g->dtype, n + 2, in, &t));
    return nn_return_steal(c, 0, t, g->dtype, NULL);
  }
  j.is_f32 = g->dtype != RUSH_FLOAT64;
  TRY(nn_input(c->cx, g, &t));
  rush_status st = RUSH_OK;
  for (int d = 0; d < n && st == RUSH_OK; d++)
    st = pass_along(c->cx, &j, d, true, &t);
  if (st != RUSH_OK) {
    tensor_release(t);
    return st;
  }
  return nn_return_steal(c, 0, t, g->dtype, g);
}

/* -- Operators --------------------------------------------------------------------------------- */

static rush_status resize(rush_call *c, int n, resize_mode mode, bool antialias)
{
  resize_job j = {.mode = mode, .n = n, .antialias = antialias};
  TRY(read_args(c, &j));
  return mode <= NEAREST_EXACT ? resize_nearest(c, &j) : resize_weighted(c, &j);
}

rush_status kernel_upsample_nearest1d(rush_call *c) { return resize(c, 1, NEAREST, false); }
rush_status kernel_upsample_nearest2d(rush_call *c) { return resize(c, 2, NEAREST, false); }
rush_status kernel_upsample_nearest3d(rush_call *c) { return resize(c, 3, NEAREST, false); }
rush_status kernel__upsample_nearest_exact1d(rush_call *c)
{
  return resize(c, 1, NEAREST_EXACT, false);
}
rush_status kernel__upsample_nearest_exact2d(rush_call *c)
{
  return resize(c, 2, NEAREST_EXACT, false);
}
rush_status kernel__upsample_nearest_exact3d(rush_call *c)
{
  return resize(c, 3, NEAREST_EXACT, false);
}
rush_status kernel_upsample_linear1d(rush_call *c) { return resize(c, 1, LINEAR, false); }
rush_status kernel_upsample_bilinear2d(rush_call *c) { return resize(c, 2, LINEAR, false); }
rush_status kernel_upsample_trilinear3d(rush_call *c) { return resize(c, 3, LINEAR, false); }
rush_status kernel_upsample_bicubic2d(rush_call *c) { return resize(c, 2, CUBIC, false); }
rush_status kernel__upsample_bilinear2d_aa(rush_call *c) { return resize(c, 2, LINEAR, true); }
rush_status kernel__upsample_bicubic2d_aa(rush_call *c) { return resize(c, 2, CUBIC, true); }
rush_status kernel__upsample_lanczos2d_aa(rush_call *c) { return resize(c, 2, LANCZOS, true); }
rush_status kernel_upsample_nearest1d_backward(rush_call *c)
{
  return resize_back(c, 1, NEAREST, false);
}
rush_status kernel_upsample_nearest2d_backward(rush_call *c)
{
  return resize_back(c, 2, NEAREST, false);
}
rush_status kernel_upsample_nearest3d_backward(rush_call *c)
{
  return resize_back(c, 3, NEAREST, false);
}
rush_status kernel__upsample_nearest_exact1d_backward(rush_call *c)
{
  return resize_back(c, 1, NEAREST_EXACT, false);
}
rush_status kernel__upsample_nearest_exact2d_backward(rush_call *c)
{
  return resize_back(c, 2, NEAREST_EXACT, false);
}
rush_status kernel__upsample_nearest_exact3d_backward(rush_call *c)
{
  return resize_back(c, 3, NEAREST_EXACT, false);
}
rush_status kernel_upsample_linear1d_backward(rush_call *c)
{
  return resize_back(c, 1, LINEAR, false);
}
rush_status kernel_upsample_bilinear2d_backward(rush_call *c)
{
  return resize_back(c, 2, LINEAR, false);
}
rush_status kernel_upsample_trilinear3d_backward(rush_call *c)
{
  return resize_back(c, 3, LINEAR, false);
}
rush_status kernel_upsample_bicubic2d_backward(rush_call *c)
{
  return resize_back(c, 2, CUBIC, false);
}
rush_status kernel__upsample_bilinear2d_aa_backward(rush_call *c)
{
  return resize_back(c, 2, LINEAR, true);
}
rush_status kernel__upsample_bicubic2d_aa_backward(rush_call *c)
{
  return resize_back(c, 2, CUBIC, true);
}
rush_status kernel__upsample_lanczos2d_aa_backward(rush_call *c)
{
  return resize_back(c, 2, LANCZOS, true);
}
