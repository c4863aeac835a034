/* ops/kernels/nn/distance.c -- distances between rows: cdist, pdist.  For p = 2 and many rows of
 * float32, cdist uses a matrix product, |x|^2 + |y|^2 - 2 x y, as PyTorch does.  PyTorch loses
 * digits there for rows that are close; here such pairs are computed again from their differences.
 */
#include <math.h>
#include <string.h>

#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "ops/math/dot.h"
#include "ops/math/gemm.h"

#define GRAIN 16384 /* differences of a task */

typedef struct distances {
  const rush_tensor *a, *b; /* contiguous, of one dtype; batches of rows of n elements */
  rush_tensor *out;
  double p;
  int64_t n;
  const dot_loops *loops;
} distances;

static const dot_loops *loops_of(call_ctx *cx)
{
  return ISA_PICK(dot_loops_of, call_cpu(cx))();
}

/* The distance of two rows.  16 partial sums, so that compilers can use lanes. */
#define LANES 16
#define ROW(T, F)                                                                          \
  static T row_##T(int64_t n, const T *x, const T *y, double p)                            \
  {                                                                                        \
    T s[LANES] = {0}, r = 0;                                                               \
    int64_t i = 0;                                                                         \
    if (p == 2) {                                                                          \
      for (; i + LANES <= n; i += LANES)                                                   \
        for (int l = 0; l < LANES; l++)                                                    \
          s[l] += (x[i + l] - y[i + l]) * (x[i + l] - y[i + l]);                           \
      for (; i < n; i++)                                                                   \
        s[i % LANES] += (x[i] - y[i]) * (x[i] - y[i]);                                     \
    } else if (p == 1) {                                                                   \
      for (; i + LANES <= n; i += LANES)                                                   \
        for (int l = 0; l < LANES; l++)                                                    \
          s[l] += fabs##F(x[i + l] - y[i + l]);                                            \
      for (; i < n; i++)                                                                   \
        s[i % LANES] += fabs##F(x[i] - y[i]);                                              \
    } else if (isinf(p)) {                                                                 \
      for (; i < n; i++) {                                                                 \
        T d = fabs##F(x[i] - y[i]);                                                        \
        r = d > r || d != d ? d : r;                                                       \
      }                                                                                    \
      return r;                                                                            \
    } else if (p == 0) {                                                                   \
      for (; i < n; i++)                                                                   \
        r += x[i] != y[i];                                                                 \
      return r;                                                                            \
    } else {                                                                               \
      for (; i < n; i++)                                                                   \
        s[i % LANES] += pow##F(fabs##F(x[i] - y[i]), (T)p);                                \
    }                                                                                      \
    for (int l = 0; l < LANES; l++)                                                        \
      r += s[l];                                                                           \
    return p == 2 ? sqrt##F(r) : p == 1 ? r : pow##F(r, (T)(1 / p));                       \
  }
ROW(float, f)
ROW(double, )

static void put_distance(const distances *d, int64_t at, int64_t row_a, int64_t row_b)
{
  if (d->out->dtype == RUSH_FLOAT64)
    ((double *)d->out->data)[at] = row_double(d->n, (const double *)d->a->data + row_a * d->n,
                                              (const double *)d->b->data + row_b * d->n, d->p);
  else if (d->p == 2)
    ((float *)d->out->data)[at] = sqrtf(d->loops->distance(
      d->n, (const float *)d->a->data + row_a * d->n, (const float *)d->b->data + row_b * d->n));
  else
    ((float *)d->out->data)[at] = row_float(d->n, (const float *)d->a->data + row_a * d->n,
                                            (const float *)d->b->data + row_b * d->n, d->p);
}

/* -- Through a product ------------------------------------------------------------------------- */

/* With fewer rows PyTorch computes differences, too. */
#define MANY_ROWS 26
/* A square below this share of |x|^2 + |y|^2 has lost more than four bits. */
#define CLOSE 0.0625f

typedef struct by_product {
  const distances *d;
  float *norms; /* of the rows of a, then of b */
} by_product;

static void run_norms(void *arg, int64_t begin, int64_t end)
{
  const by_product *p = arg;
  const int64_t n_a = p->d->a->n_elems / p->d->n, n = p->d->n;
  for (int64_t i = begin; i < end; i++) {
    const rush_tensor *t = i < n_a ? p->d->a : p->d->b;
    const float *row = (const float *)t->data + (i < n_a ? i : i - n_a) * n;
    p->norms[i] = p->d->loops->f32(n, row, row);
  }
}

/* Turn |y|^2 - 2 x y into the distance, for rows [begin, end) of a. */
static void run_roots(void *arg, int64_t begin, int64_t end)
{
  const by_product *p = arg;
  const distances *d = p->d;
  const int64_t ra = d->a->sizes[d->a->n_dims - 2], rb = d->b->sizes[d->b->n_dims - 2];
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i / ra * rb;
    const float x = p->norms[i], *y = p->norms + d->a->n_elems / d->n + first;
    float *out = (float *)d->out->data + i * rb;
    for (int64_t k = 0; k < rb; k++) {
      const float square = x + out[k];
      if (square < CLOSE * (x + y[k]))
        put_distance(d, i * rb + k, i, first + k);
      else
        out[k] = sqrtf(square); /* also for NaN */
    }
  }
}

static rush_status run_product(call_ctx *cx, const distances *d)
{
  const int64_t ra = d->a->sizes[d->a->n_dims - 2], rb = d->b->sizes[d->b->n_dims - 2],
                n_a = d->a->n_elems / d->n, n_b = d->b->n_elems / d->n;
  const size_t n_bytes = (size_t)(n_a + n_b) * sizeof(float);
  by_product p = {d, mem_alloc_data(cx->ctx, n_bytes)};
  if (!p.norms)
    return call_nomem(cx);
  const gemm_args g = {.dtype = RUSH_FLOAT32, .m = ra, .n = rb, .k = d->n,
                       .a = {d->a->data, d->n, 1}, .b = {d->b->data, 1, d->n},
                       .d = {p.norms + n_a, 0, 1}, .c = d->out->data, .c_rs = rb, .c_cs = 1,
                       .alpha = -2.0, .beta = 1.0};
  rush_status st =
    parallel_for(cx, n_a + n_b, i64_max(1, GRAIN / i64_max(1, d->n)), run_norms, &p);
  if (st == RUSH_OK)
    st = gemm_batch(cx, &g, n_a / ra, ra * d->n, rb * d->n, rb, ra * rb);
  if (st == RUSH_OK)
    st = parallel_for(cx, n_a, i64_max(1, GRAIN / rb), run_roots, &p);
  mem_free_data(cx->ctx, p.norms, n_bytes);
  return st;
}

static bool has_product(const distances *d)
{
  return d->p == 2 && d->out->dtype == RUSH_FLOAT32 && d->n > 0 &&
         (d->a->sizes[d->a->n_dims - 2] >= MANY_ROWS || d->b->sizes[d->b->n_dims - 2] >= MANY_ROWS);
}

/* -- Pair by pair ------------------------------------------------------------------------------ */

/* Tasks: rows of a, over all batches. */
static void run_pairs(void *arg, int64_t begin, int64_t end)
{
  const distances *d = arg;
  const int64_t ra = d->a->sizes[d->a->n_dims - 2], rb = d->b->sizes[d->b->n_dims - 2];
  for (int64_t i = begin; i < end; i++)
    for (int64_t k = 0; k < rb; k++)
      put_distance(d, i * rb + k, i, i / ra * rb + k);
}

static rush_status check_dtype(call_ctx *cx, const rush_tensor *t, const char *name)
{
  if (t->dtype == RUSH_FLOAT32 || t->dtype == RUSH_FLOAT64)
    return RUSH_OK;
  return call_no_dtype(cx, name, t->dtype);
}

/* Return t's rows, broadcast to the batches of `out`, contiguous. */
static rush_tensor *as_batch(work *w, rush_tensor *t, const rush_tensor *out)
{
  rush_tensor *wide = NULL;
  int64_t sizes[TENSOR_MAX_DIMS];
  const int n = out->n_dims;
  memcpy(sizes, out->sizes, sizeof *sizes * (size_t)n);
  memcpy(sizes + n - 2, t->sizes + t->n_dims - 2, 2 * sizeof *sizes);
  WORK_DO(w, tensor_expand(w->cx, t, n, sizes, &wide));
  return work_rows(w, work_keep_steal(w, wide, w->st), out->dtype);
}

/* Compute distances. `product`: p = 2 may use a matrix product. */
static rush_status cdist(rush_call *c, double p, bool product)
{
  rush_tensor *a = call_tensor(c, 0), *out = call_out(c, 0);
  const int64_t columns = a->sizes[a->n_dims - 1];
  if (p < 0)
    return call_fail(c->cx, "cdist only supports non-negative p values");
  TRY(check_dtype(c->cx, a, "cdist"));
  if (out->n_elems == 0)
    return RUSH_OK;
  work w = work_begin(c);
  distances d = {.a = as_batch(&w, a, out), .b = as_batch(&w, call_tensor(c, 1), out), .out = out,
                 .p = p, .n = columns, .loops = loops_of(c->cx)};
  const int64_t n = out->sizes[out->n_dims - 1], row = i64_max(1, n * columns);
  if (w.st == RUSH_OK && product && has_product(&d))
    w.st = run_product(c->cx, &d);
  else
    work_run(&w, out->n_elems / n, i64_max(1, GRAIN / row), run_pairs, &d);
  return work_end(&w);
}

/* (x1, x2, p, compute_mode) */
rush_status kernel_cdist(rush_call *c)
{
  if (!call_is_none(c, 3) && (call_int(c, 3) < 0 || call_int(c, 3) > 2))
    return call_fail(c->cx, "possible modes: 0, 1, 2, but was: %lld", (long long)call_int(c, 3));
  return cdist(c, call_float(c, 2), call_int_or(c, 3, 0) != 2);
}

rush_status kernel_euclidean_dist(rush_call *c) { return cdist(c, 2, true); }

/* (self, p): compare the upper triangle of self with itself, row by row. */
rush_status kernel_pdist(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0);
  const double p = call_float(c, 1);
  if (p < 0)
    return call_fail(c->cx, "pdist only supports non-negative p values");
  TRY(check_dtype(c->cx, self, "pdist"));
  work w = work_begin(c);
  const rush_tensor *x = work_rows(&w, self, self->dtype);
  distances d = {.a = x, .b = x, .out = call_out(c, 0), .p = p, .n = self->sizes[1],
                 .loops = loops_of(c->cx)};
  for (int64_t i = 0, at = 0; i < self->sizes[0] && w.st == RUSH_OK; i++) {
    w.st = call_poll(c->cx);
    for (int64_t k = i + 1, done = 0; k < self->sizes[0]; k++, done += d.n) {
      if (done > 1 << 18 && (done = 0, call_over(c->cx)))
        break;
      put_distance(&d, at++, i, k);
    }
  }
  return work_end(&w);
}
