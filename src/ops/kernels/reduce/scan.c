/* ops/kernels/reduce/scan.c -- running sums, products, logsumexp and extremes. The input is copied
 * into the accumulating dtype and scanned there in place: plane by plane if inner dimensions
 * follow, so that steps vectorise, or along a row if a plane is one element. Every sum is
 * sequential, as PyTorch's; a parallel prefix sum would round differently. Parallel over the outer
 * dimensions. Cost: O(n), and one copy. */
#include "base/cmplx.h"
#include <math.h>

#include "base/threads.h"
#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/order.h"
#include "ops/call/written.h"

#define GRAIN 16384 /* elements of a task */
#define WORK 65536  /* elements between two looks at the clock */

/* A dense tensor [outer, n, inner] of PyTorch's accumulating dtype; every step adds a plane to the
 * next. */
typedef struct scan_job {
  void *x;
  int64_t n, inner;
  void (*step)(int64_t n, const void *before, void *x);
  void (*row)(int64_t n, void *x); /* the same where a plane is one element */
  size_t item;
  const call_ctx *cx;
} scan_job;

static void scan_planes(void *arg, int64_t begin, int64_t end)
{
  const scan_job *j = arg;
  const size_t plane = (size_t)j->inner * j->item;
  for (int64_t o = begin; o < end; o++) {
    char *x = (char *)j->x + (size_t)(o * j->n) * plane;
    for (int64_t i = 0; j->inner == 1 && i + 1 < j->n;
         i += WORK) { /* from the last element that is done */
      if (i > 0 && call_over(j->cx))
        return;
      j->row(i64_min(WORK + 1, j->n - i), x + (size_t)i * plane);
    }
    for (int64_t i = 1, work = 0; i < j->n && j->inner != 1; i++, work += j->inner) {
      if (work >= WORK) {
        work = 0;
        if (call_over(j->cx))
          return;
      }
      j->step(j->inner, x + (size_t)(i - 1) * plane, x + (size_t)i * plane);
    }
  }
}

/* Combine p, the result so far, with q: plane by plane, and along a row. */
#define STEP(name, type, expr)                                                       \
  static inline type name##_one(type p, type q) { return expr; }                     \
  static void name(int64_t n, const void *before, void *x)                           \
  {                                                                                  \
    const type *a = before;                                                          \
    type *b = x;                                                                     \
    for (int64_t i = 0; i < n; i++)                                                  \
      b[i] = name##_one(a[i], b[i]);                                                 \
  }                                                                                  \
  static void name##_row(int64_t n, void *x)                                         \
  {                                                                                  \
    type *b = x, sum = n > 0 ? b[0] : 0;                                             \
    for (int64_t i = 1; i < n; i++)                                                  \
      b[i] = sum = name##_one(sum, b[i]);                                            \
  }
STEP(sum_f64, double, p + q)
STEP(sum_f32, float, p + q)
STEP(sum_i64, uint64_t, p + q)
STEP(sum_c128, double _Complex, p + q)
STEP(prod_f64, double, p * q)
STEP(prod_f32, float, p * q)
STEP(prod_i64, uint64_t, p * q)
STEP(prod_c128, double _Complex, CMPLX(creal(p) * creal(q) - cimag(p) * cimag(q),
                                       creal(p) * cimag(q) + cimag(p) * creal(q)))

/* Compute log(exp(x) + exp(y)) without overflow. */
static inline double log_add_exp(double x, double y)
{
  const double lo = isnan(y) ? y : fmin(x, y), hi = isnan(y) ? y : fmax(x, y);
  if (isnan(x))
    return x;
  return lo != hi || isfinite(lo) ? log1p(exp(lo - hi)) + hi : x;
}
static inline float log_add_expf(float x, float y)
{
  const float lo = isnan(y) ? y : fminf(x, y), hi = isnan(y) ? y : fmaxf(x, y);
  if (isnan(x))
    return x;
  return lo != hi || isfinite(lo) ? log1pf(expf(lo - hi)) + hi : x;
}
/* Compute it for complex numbers: by the larger real part. */
static double _Complex log_add_expc(double _Complex x, double _Complex y)
{
  const bool x_nan = isnan(creal(x)) || isnan(cimag(x)), y_nan = isnan(creal(y)) || isnan(cimag(y)),
             less = creal(x) < creal(y);
  const double _Complex lo = less ? x : y, hi = less ? y : x;
  if (x_nan || y_nan)
    return CMPLX(NAN, NAN);
  if (isfinite(creal(lo)) || creal(lo) != creal(hi)) {
    const double _Complex e = 1 + cexp(lo - hi);
    return CMPLX(log(hypot(creal(e), cimag(e))) + creal(hi), atan2(cimag(e), creal(e)) + cimag(hi));
  }
  return creal(lo) < 0 ? lo : clog(cexp(lo) + cexp(hi));
}
STEP(log_c128, double _Complex, log_add_expc(q, p))
STEP(log_f64, double, log_add_exp(q, p))
STEP(log_f32, float, log_add_expf(q, p))

enum { SCAN_SUM, SCAN_PROD, SCAN_LOG };

/* Return the accumulating dtype, and set the step for it. */
static int scan_step(int kind, int dtype, scan_job *j)
{
#define BOTH(name) {name, name##_row}
  typedef struct loops {
    void (*step)(int64_t, const void *, void *);
    void (*row)(int64_t, void *);
  } loops;
  static const loops f64[] = {BOTH(sum_f64), BOTH(prod_f64), BOTH(log_f64)},
                     i64[] = {BOTH(sum_i64), BOTH(prod_i64)};
  static const loops f32[] = {BOTH(sum_f32), BOTH(prod_f32), BOTH(log_f32)},
                     c128[] = {BOTH(sum_c128), BOTH(prod_c128), BOTH(log_c128)};
#undef BOTH
  const loops *of = i64;
  int acc = RUSH_INT64;
  if (dtype_is_complex(dtype)) {
    of = c128;
    acc = RUSH_COMPLEX128;
  } else if (nn_is_half(dtype)) {
    of = f32;
    acc = RUSH_FLOAT32;
  } else if (dtype_is_float(dtype)) {
    of = f64;
    acc = RUSH_FLOAT64;
  }
  j->step = of[kind].step;
  j->row = of[kind].row;
  return acc;
}

/* Scan into `out`: dense rows of the result's dtype. */
static rush_status scan(rush_call *c, int kind, rush_tensor *out)
{
  rush_tensor *t = call_tensor(c, 0), *as, *x = NULL;
  int dim;
  scan_job j = {.n = 1, .inner = 1, .cx = c->cx};
  const int acc = scan_step(kind, out->dtype, &j);
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &dim));
  TRY(tensor_to_dtype(c->cx, t, out->dtype, &as)); /* rounded first, as PyTorch does */
  rush_status st = acc == out->dtype ? (x = tensor_retain(out), RUSH_OK)
                                     : tensor_new(c->cx, acc, t->n_dims, t->sizes, &x);
  if (st == RUSH_OK)
    st = tensor_copy(c->cx, x, as);
  for (int i = dim; i < t->n_dims; i++)
    *(i == dim ? &j.n : &j.inner) *= t->sizes[i];
  j.item = dtype_bytes(acc);
  if (st == RUSH_OK && out->n_elems > 0) {
    j.x = x->data;
    st = parallel_for(c->cx, x->n_elems / (j.n * j.inner), i64_max(1, GRAIN / (j.n * j.inner)),
                      scan_planes, &j);
  }
  if (st == RUSH_OK && x != out)
    st = tensor_copy(c->cx, out, x);
  tensor_release(as);
  tensor_release(x);
  return st;
}

/* Scan in place; the tensor's own dtype is the default. */
static rush_status scan_inplace(rush_call *c, int kind)
{
  rush_tensor *t = call_tensor(c, 0), *out;
  const int dtype = call_dtype_or(c, 2, t->dtype);
  if (dtype != t->dtype)
    return call_fail(
      c->cx, "Bad in-place call: input tensor dtype %s and output tensor dtype %s should match",
      dtype_name(t->dtype), dtype_name(dtype));
  if (dtype == RUSH_BOOL && t->n_dims > 0)
    return call_no_dtype(c->cx, kind == SCAN_SUM ? "cumsum_out_cpu" : "cumprod_out_cpu", dtype);
  TRY(written_check_self(c->cx, t));
  TRY(tensor_new(c->cx, dtype, t->n_dims, t->sizes, &out));
  rush_status st = scan(c, kind, out);
  if (st == RUSH_OK)
    st = tensor_copy(c->cx, t, out);
  tensor_release(out);
  if (st == RUSH_OK)
    call_return_arg(c, 0, 0);
  return st;
}

rush_kernel kernel_cumsum, kernel_cumprod, kernel_cumsum_inplace, kernel_cumprod_inplace,
  kernel_logcumsumexp, kernel_cummax, kernel_cummin;
rush_status kernel_cumsum(rush_call *c) { return scan(c, SCAN_SUM, call_out(c, 0)); }
rush_status kernel_cumprod(rush_call *c) { return scan(c, SCAN_PROD, call_out(c, 0)); }
rush_status kernel_cumsum_inplace(rush_call *c) { return scan_inplace(c, SCAN_SUM); }
rush_status kernel_cumprod_inplace(rush_call *c) { return scan_inplace(c, SCAN_PROD); }
rush_status kernel_logcumsumexp(rush_call *c)
{
  const int dtype = call_tensor(c, 0)->dtype;
  if (!dtype_is_float(dtype) && !dtype_is_complex(dtype))
    return call_no_dtype(c->cx, "logcumsumexp_out_cpu", dtype);
  return scan(c, SCAN_LOG, call_out(c, 0));
}

/* -- Running extremes with positions ----------------------------------------------------------- */

/* Compute running extremes: the last of equal ones wins, and NaN wins over all. */
static void extremes(const call_ctx *cx, int dtype, const void *row, int64_t n, bool most,
                     int64_t *indices)
{
  union { double d[256]; int64_t i[256]; } x;
  int64_t at = 0;
  const bool is_float = dtype_is_float(dtype);
  const uint64_t flip = dtype == RUSH_UINT64 ? UINT64_C(1) << 63 : 0; /* compared as signed */
  double best_d = 0;
  int64_t best_i = 0;
#define RUN(T, values, best, wins)               \
  for (int64_t i = 0; i < m; i++) {              \
    const T v = values[i];                       \
    if (__builtin_expect(wins, 0)) {             \
      best = v;                                  \
      at = begin + i;                            \
    }                                            \
    indices[begin + i] = at;                     \
  }
  for (int64_t begin = 0; begin < n; begin += 256) {
    const int64_t m = i64_min(256, n - begin);
    if (call_over_at(cx, begin / 256))
      return;
    convert_elems(is_float ? RUSH_FLOAT64 : RUSH_INT64, &x, dtype,
                  (const char *)row + (size_t)begin * dtype_bytes(dtype), m);
    for (int64_t i = 0; flip && i < m; i++)
      x.i[i] ^= (int64_t)flip;
    if (begin == 0) {
      best_d = x.d[0];
      best_i = x.i[0];
    }
    if (is_float && most)
      RUN(double, x.d, best_d, v != v || v >= best_d)
    else if (is_float)
      RUN(double, x.d, best_d, v != v || v <= best_d)
    else if (most)
      RUN(int64_t, x.i, best_i, v >= best_i)
    else
      RUN(int64_t, x.i, best_i, v <= best_i)
  }
#undef RUN
}

static void run_rows(const call_ctx *cx, const along *a, bool most, char *values, int64_t *at)
{
  const size_t item = tensor_item_bytes(a->t);
  for (int64_t r = 0; a->n > 0 && r < a->n_rows; r++, at += a->n) {
    extremes(cx, a->t->dtype, along_row(a, r), a->n, most, at);
    if (call_is_watched(cx) && call_over(cx)) /* then positions may be anything */
      return;
    order_take(cx, item, values + (size_t)(r * a->n) * item, along_row(a, r), at, a->n);
  }
}

static rush_status running_extreme(rush_call *c, bool most)
{
  rush_tensor *t = call_tensor(c, 0), *values = NULL, *indices = NULL;
  along a;
  if (!order_has(t->dtype))
    return call_no_dtype(c->cx, most ? "cummax_cpu" : "cummin_cpu", t->dtype);
  TRY(along_open(c->cx, t, call_int(c, 1), &a));
  rush_status st = along_rows(c->cx, &a, call_out(c, 0), &values);
  if (st == RUSH_OK)
    st = along_rows(c->cx, &a, call_out(c, 1), &indices);
  if (st == RUSH_OK)
    run_rows(c->cx, &a, most, values->data, indices->data);
  st = along_put_steal(c->cx, &a, values, call_out(c, 0), st);
  st = along_put_steal(c->cx, &a, indices, call_out(c, 1), st);
  along_close(&a);
  return st;
}
rush_status kernel_cummax(rush_call *c) { return running_extreme(c, true); }
rush_status kernel_cummin(rush_call *c) { return running_extreme(c, false); }
