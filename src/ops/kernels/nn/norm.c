/* ops/kernels/nn/norm.c -- operators that normalise: softmax, layer, group, batch, instance and RMS
 * norms.  16-bit floats compute in float32; statistics of a row are sums of rows.h. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "ops/call/call.h"
#include "ops/kernels/nn.h"
#include "ops/math/rows.h"
#include "ops/kernels/views.h"

#define GRAIN 16384 /* elements of a task */

/* -- Helpers ----------------------------------------------------------------------------------- */

static const rows *rows_for(call_ctx *cx, int dtype)
{
  return rows_of(cpu_choose(context_get_options(cx->ctx)->cpu), dtype == RUSH_FLOAT64);
}

static rush_status check_float(call_ctx *cx, const rush_tensor *t, const char *kernel)
{
  if (t->dtype == RUSH_FLOAT32 || t->dtype == RUSH_FLOAT64 || nn_is_half(t->dtype))
    return RUSH_OK;
  return call_no_dtype(cx, kernel, t->dtype);
}

/* Round y to `dtype`, in channels-last order if `like` is; steals y. */
static rush_status narrow_steal(call_ctx *cx, rush_tensor *y, int dtype, const rush_tensor *like,
                                rush_tensor **out)
{
  rush_tensor *t = y;
  rush_status st = RUSH_OK;
  if (y->dtype != dtype) {
    t = NULL;
    st = tensor_to_dtype(cx, y, dtype, &t);
    tensor_release(y);
    if (st != RUSH_OK)
      return st;
  }
  if (like && tensor_prefers_channels_last(like)) {
    rush_tensor *last = NULL;
    st = tensor_copy_format(cx, t, dtype,
                            t->n_dims == 4 ? FORMAT_CHANNELS_LAST : FORMAT_CHANNELS_LAST_3D, &last);
    tensor_release(t);
    if (st != RUSH_OK)
      return st;
    t = last;
  }
  *out = t;
  return RUSH_OK;
}

static const char *elem_at(const rush_tensor *t, int64_t i)
{
  return t ? (const char *)t->data + i * (int64_t)tensor_item_bytes(t) : NULL;
}

/* -- Softmax ----------------------------------------------------------------------------------- */

enum { COLUMNS = ROWS_COLUMNS }; /* at a time when the dimension is not the last */

typedef struct softmax_job {
  call_ctx *cx;
  const rows *k;
  const char *x;
  char *y;
  int64_t n, inner;
  size_t item;
  bool log, safe;
  _Atomic int failed;
} softmax_job;

static void softmax_row(const softmax_job *j, const void *x, void *y)
{
  if (j->safe && j->k->max(j->n, x) == -(double)INFINITY) {
    memset(y, 0, (size_t)j->n * j->item); /* everything masked */
    return;
  }
  (j->log ? j->k->log_softmax : j->k->softmax)(j->n, x, y);
}

static void softmax_rows(void *arg, int64_t begin, int64_t end)
{
  const softmax_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    softmax_row(j, j->x + (size_t)(i * j->n) * j->item, j->y + (size_t)(i * j->n) * j->item);
}

static void move_item(char *to, const char *from, size_t item)
{
  if (item == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, 8);
}

/* Tasks are (outer, block of COLUMNS inner positions). */
static void softmax_columns(void *arg, int64_t begin, int64_t end)
{
  softmax_job *j = arg;
  const size_t item = j->item, n_bytes = (size_t)(COLUMNS * j->n) * item;
  const int64_t blocks = (j->inner + COLUMNS - 1) / COLUMNS;
  for (int64_t t = begin; t < end && !j->safe; t++) {
    const size_t first = (size_t)(t / blocks * j->n * j->inner + t % blocks * COLUMNS) * item;
    const int width = (int)i64_min(COLUMNS, j->inner - t % blocks * COLUMNS);
    j->k->softmax_columns(j->n, j->inner, width, j->log, j->x + first, j->y + first);
  }
  if (!j->safe)
    return;
  char *buf = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!buf) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t t = begin; t < end; t++) {
    const int64_t first = t / blocks * j->n * j->inner + t % blocks * COLUMNS;
    const int64_t width = i64_min(COLUMNS, j->inner - t % blocks * COLUMNS);
    for (int64_t i = 0; i < j->n; i++)
      for (int64_t c = 0; c < width; c++)
        move_item(buf + (size_t)(c * j->n + i) * item,
                  j->x + (size_t)(first + i * j->inner + c) * item, item);
    for (int64_t c = 0; c < width; c++)
      softmax_row(j, buf + (size_t)(c * j->n) * item, buf + (size_t)(c * j->n) * item);
    for (int64_t i = 0; i < j->n; i++)
      for (int64_t c = 0; c < width; c++)
        move_item(j->y + (size_t)(first + i * j->inner + c) * item,
                  buf + (size_t)(c * j->n + i) * item, item);
  }
  mem_free_data(j->cx->ctx, buf, n_bytes);
}

static rush_status softmax_of(rush_call *c, rush_tensor *self, int dtype, softmax_job j)
{
  rush_tensor *x = NULL, *y = NULL;
  int dim = 0;
  TRY(dim_wrap(c->cx, call_int(c, 1), self->n_dims, &dim));
  TRY(nn_widen(c->cx, self, nn_dtype(dtype), &x));
  rush_status st = tensor_new(c->cx, x->dtype, x->n_dims, x->sizes, &y);
  if (st == RUSH_OK && x->n_elems > 0) {
    j.cx = c->cx;
    j.k = rows_for(c->cx, x->dtype);
    j.x = x->data;
    j.y = y->data;
    j.item = tensor_item_bytes(x);
    j.n = x->n_dims ? x->sizes[dim] : 1;
    j.inner = 1;
    for (int i = dim + 1; i < x->n_dims; i++)
      j.inner *= x->sizes[i];
    const int64_t outer = x->n_elems / j.n / j.inner, blocks = (j.inner + COLUMNS - 1) / COLUMNS;
    st = j.inner == 1 ? parallel_for(c->cx, outer, i64_max(1, GRAIN / j.n), softmax_rows, &j)
                      : parallel_for(c->cx, outer * blocks, i64_max(1, GRAIN / j.n / COLUMNS),
                                     softmax_columns, &j);
    if (st == RUSH_OK && j.failed)
      st = call_nomem(c->cx);
  }
  tensor_release(x);
  if (st != RUSH_OK) {
    tensor_release(y);
    return st;
  }
  TRY(narrow_steal(c->cx, y, dtype, self, &y));
  call_return_steal(c, 0, y);
  return RUSH_OK;
}

/* (self, dim, dtype or half_to_float) */
static rush_status softmax_call(rush_call *c, bool log, bool safe, bool half_to_float)
{
  rush_tensor *self = call_tensor(c, 0), *as = NULL;
  const int dtype = half_to_float ? (call_bool(c, 2) ? RUSH_FLOAT32 : self->dtype)
                                  : call_dtype_or(c, 2, self->dtype);
  TRY(tensor_to_dtype(c->cx, self, dtype, &as));
  rush_status st =
    check_float(c->cx, as, log ? "log_softmax_lastdim_kernel_impl" : "softmax_lastdim_kernel_impl");
  if (st == RUSH_OK)
    st = softmax_of(c, as, dtype, (softmax_job){.log = log, .safe = safe});
  tensor_release(as);
  return st;
}

rush_status kernel_softmax(rush_call *c) { return softmax_call(c, false, false, false); }
rush_status kernel_log_softmax(rush_call *c) { return softmax_call(c, true, false, false); }
rush_status kernel__softmax(rush_call *c) { return softmax_call(c, false, false, true); }
rush_status kernel__log_softmax(rush_call *c) { return softmax_call(c, true, false, true); }
rush_status kernel__safe_softmax(rush_call *c) { return softmax_call(c, false, true, false); }

/* -- Rows with a mean and a deviation ---------------------------------------------------------- */

/* Rows of n elements.  Weight and bias are either one per element of a row (per_row false) or one
 * per plane (group norm). */
typedef struct row_job {
  const rows *k;
  const rush_tensor *x, *w, *b; /* contiguous, one dtype; w and b may be NULL */
  rush_tensor *y, *mean, *rstd; /* mean and rstd: one per row, may be NULL */
  int64_t n;
  int64_t plane, n_planes;      /* group norm: n = planes * plane; 0: parameters per element */
  double eps;
  bool rms;                     /* no mean is taken away */
  const call_ctx *cx;
} row_job;

static void normalize_row(const row_job *j, const char *x, double mean, double rstd, char *y)
{
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t i = 0; i < j->n && !(i && call_over(j->cx)); i += ROWS_AT_ONCE)
    j->k->normalize(i64_min(ROWS_AT_ONCE, j->n - i), x + i * item, mean, rstd,
                    j->w ? (const char *)j->w->data + i * item : NULL,
                    j->b ? (const char *)j->b->data + i * item : NULL, y + i * item);
}

static void normalize_rows(void *arg, int64_t begin, int64_t end)
{
  const row_job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const char *x = elem_at(j->x, i * j->n);
    char *y = (char *)(uintptr_t)elem_at(j->y, i * j->n);
    const double mean = j->rms ? 0.0 : j->k->sum(j->n, x) / (double)j->n;
    const double rstd = 1.0 / sqrt(j->k->sum_sq(j->n, x, mean) / (double)j->n + j->eps);
    if (j->mean)
      nn_set_number(j->mean, i, mean);
    if (j->rstd)
      nn_set_number(j->rstd, i, rstd);
    if (j->plane == 0) {
      normalize_row(j, x, mean, rstd, y);
      continue;
    }
    const int64_t per_row = j->n / j->plane;
    for (int64_t p = 0; p < per_row; p++) {
      const int64_t channel = (i * per_row + p) % j->n_planes,
                    at = p * j->plane * (int64_t)tensor_item_bytes(j->x);
      const double scale = rstd * (j->w ? nn_number_at(j->w, channel) : 1.0);
      const double shift = (j->b ? nn_number_at(j->b, channel) : 0.0) - mean * scale;
      const int64_t item = (int64_t)tensor_item_bytes(j->x);
      for (int64_t k = 0; k < j->plane && !(k && call_over(j->cx)); k += ROWS_AT_ONCE)
        j->k->affine(i64_min(ROWS_AT_ONCE, j->plane - k), x + at + k * item, scale, shift,
                     y + at + k * item);
    }
  }
}

/* The tensors of a row-wise operator. */
typedef struct row_call {
  rush_tensor *x, *w, *b, *y, *mean, *rstd;
} row_call;

static void row_call_release(row_call *r)
{
  tensor_release(r->x);
  tensor_release(r->w);
  tensor_release(r->b);
  tensor_release(r->y);
  tensor_release(r->mean);
  tensor_release(r->rstd);
}

/* Run over n_rows rows of n; statistics of the given sizes, or none (stat_dims < 0). */
static rush_status run_rows(rush_call *c, rush_tensor *input, rush_tensor *w, rush_tensor *b,
                            int64_t n_rows, row_job j, int stat_dims, const int64_t *stat_sizes,
                            row_call *r)
{
  const int dtype = nn_dtype(input->dtype);
  TRY(nn_widen(c->cx, input, dtype, &r->x));
  TRY(nn_widen(c->cx, w, dtype, &r->w));
  TRY(nn_widen(c->cx, b, dtype, &r->b));
  TRY(tensor_new(c->cx, dtype, r->x->n_dims, r->x->sizes, &r->y));
  if (stat_dims >= 0) {
    TRY(tensor_new(c->cx, dtype, stat_dims, stat_sizes, &r->mean));
    TRY(tensor_new(c->cx, dtype, stat_dims, stat_sizes, &r->rstd));
  }
  j.k = rows_for(c->cx, dtype);
  j.cx = c->cx;
  j.x = r->x;
  j.w = r->w;
  j.b = r->b;
  j.y = r->y;
  j.mean = r->mean;
  j.rstd = r->rstd;
  return parallel_for(c->cx, n_rows, i64_max(1, GRAIN / i64_max(1, j.n)), normalize_rows, &j);
}

/* Return results: y in the input's dtype, then the statistics as `stat_dtype`. */
static rush_status give_rows(rush_call *c, row_call *r, const rush_tensor *input, int stat_dtype)
{
  rush_tensor *t = r->y;
  r->y = NULL;
  TRY(narrow_steal(c->cx, t, input->dtype, input, &t));
  call_return_steal(c, 0, t);
  if (c->n_results < 3)
    return RUSH_OK;
  t = r->mean;
  r->mean = NULL;
  TRY(narrow_steal(c->cx, t, stat_dtype, NULL, &t));
  call_return_steal(c, 1, t);
  t = r->rstd;
  r->rstd = NULL;
  TRY(narrow_steal(c->cx, t, stat_dtype, NULL, &t));
  call_return_steal(c, 2, t);
  return RUSH_OK;
}

/* -- Layer norm, RMS norm ---------------------------------------------------------------------- */

static rush_status check_normalized(rush_call *c, const rush_tensor *x, const rush_tensor *w,
                                    const rush_tensor *b, int n_norm, const int64_t *norm,
                                    int64_t *n)
{
  sizes_text tx, tn, tw;
  const char *names = sizes_print(&tn, n_norm, norm);
  if (n_norm == 0)
    return call_fail(c->cx, "Expected normalized_shape to be at least 1-dimensional, i.e., "
                            "containing at least one element, "
                            "but got normalized_shape = []");
  const rush_tensor *params[2] = {w, b};
  for (int i = 0; i < 2; i++) {
    const rush_tensor *p = params[i];
    if (p && (p->n_dims != n_norm || memcmp(p->sizes, norm, sizeof *norm * (size_t)n_norm) != 0))
      return call_fail(
        c->cx,
        "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
        "normalized_shape = %s",
        i ? "bias" : "weight", i ? "bias" : "weight", sizes_print(&tw, p->n_dims, p->sizes), names);
  }
  if (x->n_dims < n_norm ||
      memcmp(x->sizes + x->n_dims - n_norm, norm, sizeof *norm * (size_t)n_norm) != 0)
    return call_fail(
      c->cx, "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s",
      names, names + 1, sizes_print(&tx, x->n_dims, x->sizes));
  *n = 1;
  for (int i = 0; i < n_norm; i++)
    *n *= norm[i];
  return RUSH_OK;
}

/* Compute rows of args[0] under normalized_shape, args[1]: n_rows of n elements; a row's statistics
 * have the sizes `stat`. */
static rush_status normalized_rows(rush_call *c, const rush_tensor *w, const rush_tensor *b,
                                   int64_t *n, int64_t *n_rows, int64_t *stat)
{
  const rush_tensor *x = call_tensor(c, 0);
  int64_t norm[TENSOR_MAX_DIMS];
  int n_norm;

  TRY(call_sizes(c, 1, norm, &n_norm));
  TRY(check_normalized(c, x, w, b, n_norm, norm, n));
  *n_rows = 1;
  for (int i = 0; i < x->n_dims; i++) {
    stat[i] = i < x->n_dims - n_norm ? x->sizes[i] : 1;
    *n_rows *= stat[i];
  }
  return RUSH_OK;
}

/* (input, normalized_shape, weight, bias, eps, ...) */
rush_status kernel_layer_norm(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *w = call_tensor(c, 2), *b = call_tensor(c, 3);
  int64_t n, n_rows, stat[TENSOR_MAX_DIMS];
  TRY(check_float(c->cx, x, "LayerNormKernelImpl"));
  TRY(normalized_rows(c, w, b, &n, &n_rows, stat));
  row_call r = {0};
  row_job j = {.n = n, .eps = call_float(c, 4)};
  rush_status st = run_rows(c, x, w, b, n_rows, j, c->n_results > 1 ? x->n_dims : -1, stat, &r);
  if (st == RUSH_OK)
    st = give_rows(c, &r, x, w && w->dtype == RUSH_FLOAT32 ? RUSH_FLOAT32 : x->dtype);
  row_call_release(&r);
  return st;
}

/* (input, normalized_shape, weight, eps); the fused form returns the deviations too. */
rush_status kernel_rms_norm(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *w = call_tensor(c, 2);
  int64_t n, n_rows, stat[TENSOR_MAX_DIMS];
  TRY(check_float(c->cx, x, "rms_norm"));
  TRY(normalized_rows(c, w, NULL, &n, &n_rows, stat));
  const double eps = x->dtype == RUSH_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
  row_call r = {0};
  row_job j = {.n = n, .eps = call_float_or(c, 3, eps), .rms = true};
  rush_status st = run_rows(c, x, w, NULL, n_rows, j, c->n_results > 1 ? x->n_dims : -1, stat, &r);
  if (st == RUSH_OK)
    st = give_rows(c, &r, x, r.y->dtype);
  if (st == RUSH_OK && c->n_results == 2) {
    call_return_steal(c, 1, r.rstd);
    r.rstd = NULL;
  }
  row_call_release(&r);
  return st;
}

/* -- Group norm -------------------------------------------------------------------------------- */

static rush_status group_norm_of(rush_call *c, rush_tensor *x, rush_tensor *w, rush_tensor *b,
                                 int64_t n_batch, int64_t n_ch, int64_t plane, int64_t groups,
                                 double eps)
{
  sizes_text t;
  TRY(check_float(c->cx, x, "GroupNormKernelImpl"));
  if (groups <= 0)
    return call_fail(c->cx, "Expected num groups to be greater than 0, got %lld",
                     (long long)groups);
  if (n_ch % groups != 0)
    return call_fail(c->cx,
                     "Expected number of channels in input to be divisible by num_groups, but got "
                     "input of shape %s "
                     "and num_groups=%lld",
                     sizes_print(&t, x->n_dims, x->sizes), (long long)groups);
  for (int i = 0; i < 2; i++) {
    const rush_tensor *p = i ? b : w;
    if (p && (p->n_dims != 1 || p->n_elems != n_ch))
      return call_fail(c->cx,
                       "Expected %s to be a vector of size equal to the number of channels in "
                       "input, but got %s of "
                       "shape %s and input of shape [%lld, %lld]",
                       i ? "bias" : "weight", i ? "bias" : "weight",
                       sizes_print(&t, p->n_dims, p->sizes), (long long)n_batch, (long long)n_ch);
  }
  const int64_t stat[2] = {n_batch, groups};
  row_call r = {0};
  row_job j = {.n = n_ch / groups * plane, .plane = plane, .n_planes = n_ch, .eps = eps};
  int64_t n_rows; /* more groups than channels are left only where there are no channels */
  if (__builtin_mul_overflow(n_batch, groups, &n_rows))
    return call_fail(c->cx, "%lld groups of %lld inputs are too many", (long long)groups,
                     (long long)n_batch);
  rush_status st = run_rows(c, x, w, b, plane ? n_rows : 0, j, c->n_results > 1 ? 2 : -1, stat, &r);
  if (st == RUSH_OK)
    st = give_rows(c, &r, x, w && w->dtype == RUSH_FLOAT32 ? RUSH_FLOAT32 : x->dtype);
  row_call_release(&r);
  return st;
}

/* (input, num_groups, weight, bias, eps, ...) */
rush_status kernel_group_norm(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0);
  if (x->n_dims < 2)
    return call_fail(c->cx, "Expected at least 2 dimensions for input tensor but received %d",
                     x->n_dims);
  int64_t plane = 1;
  for (int i = 2; i < x->n_dims; i++)
    plane *= x->sizes[i];
  return group_norm_of(c, x, call_tensor(c, 2), call_tensor(c, 3), x->sizes[0], x->sizes[1], plane,
                       call_int(c, 1), call_float(c, 4));
}

/* True if a * b * c is n: checks the sizes passed to an operator against a tensor's elements. */
static bool product_is(int64_t n, int64_t a, int64_t b, int64_t c)
{
  int64_t all;
  return a >= 0 && b >= 0 && c >= 0 && !__builtin_mul_overflow(b, c, &all) &&
         !__builtin_mul_overflow(a, all, &all) && all == n;
}

/* (input, weight, bias, N, C, HxW, group, eps) */
rush_status kernel_native_group_norm(rush_call *c)
{
  if (!product_is(call_tensor(c, 0)->n_elems, call_int(c, 3), call_int(c, 4), call_int(c, 5)))
    return call_fail(c->cx, "Expected X.numel() == N * C * HxW to be true, but got false.");
  return group_norm_of(c, call_tensor(c, 0), call_tensor(c, 1), call_tensor(c, 2), call_int(c, 3),
                       call_int(c, 4), call_int(c, 5), call_int(c, 6), call_float(c, 7));
}
