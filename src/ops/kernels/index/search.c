/* ops/kernels/index/search.c -- searching and counting: searchsorted, bucketize, isin, bincount and
 * histograms. Elements become the 64-bit keys of ops/kernels/order.h, so that one binary search
 * serves every dtype and orders NaN as PyTorch does. isin sorts its test elements and searches
 * them, O((n + m) log m). Memory: 8 bytes per element. */
#include <math.h>

#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/order.h"
#include "ops/kernels/work.h"

/* -- Helpers ----------------------------------------------------------------------------------- */

/* Return keys of all elements in row-major order. */
static uint64_t *keys_of(work *w, rush_tensor *t)
{
  const rush_tensor *flat = WORK_MAKE(w, tensor_contiguous(w->cx, t, &w->made));
  uint64_t *keys = work_new(w, RUSH_INT64, 1, &t->n_elems)->data;
  if (w->st == RUSH_OK)
    order_keys(w->cx, t->dtype, flat->data, t->n_elems, keys);
  return keys;
}

static rush_status common_dtype(call_ctx *cx, const rush_tensor *a, const rush_tensor *b, int *out)
{
  promote_state p = PROMOTE_INIT;
  promote_add(&p, a->dtype, a->n_dims);
  promote_add(&p, b->dtype, b->n_dims);
  *out = promote_result(&p);
  if (*out != DTYPE_NONE)
    return RUSH_OK;
  const bool unsign = dtype_is_integral(a->dtype) || dtype_is_integral(b->dtype);
  const bool small = dtype_bytes(a->dtype) == 1 || dtype_bytes(b->dtype) == 1;
  return call_fail(cx, "Promotion for %s is not supported, attempted to promote %s and %s",
                   small && !unsign ? "Float8 Types" : "uint16, uint32, uint64 types",
                   dtype_aten_name(a->dtype), dtype_aten_name(b->dtype));
}

static int64_t *ints(rush_tensor *t) { return t->data; }

/* Return argument `at` as a tensor.  A number gets the dtype that it has beside argument
 * `beside`. */
static rush_tensor *operand(work *w, uint32_t at, uint32_t beside)
{
  const rush_value v = w->call->args[at];
  const rush_tensor *like = call_tensor(w->call, beside);
  promote_state p = PROMOTE_INIT_WITH(w->cx->default_dtype);
  if (call_tensor(w->call, at))
    return call_tensor(w->call, at);
  promote_add(&p, like->dtype, like->n_dims);
  promote_add_scalar(&p, number_class(v));
  return WORK_MAKE(w, tensor_from_scalar(w->cx, v, promote_result(&p), &w->made));
}

/* Return zeros of float64 to compute result 0 in. */
static double *doubles_of(work *w)
{
  rush_tensor *t = work_output(w, 0, RUSH_FLOAT64);
  if (t->data)
    memset(t->data, 0, (size_t)t->n_elems * sizeof(double));
  return t->data;
}

/* -- searchsorted, bucketize ------------------------------------------------------------------- */

typedef struct search {
  rush_tensor *bounds, *values, *sorter; /* sorter may be NULL */
  bool right;
} search;

/* Reorder each row of `keys` by the sorter. */
static rush_status apply_sorter(work *w, const search *s, uint64_t *keys, int64_t n)
{
  const rush_tensor *order = WORK_MAKE(w, tensor_contiguous(w->cx, s->sorter, &w->made));
  uint64_t *row = work_new(w, RUSH_INT64, 1, &n)->data;
  const int64_t total = s->bounds->n_elems;
  for (int64_t at = 0; w->st == RUSH_OK && n > 0 && at < total; at += n) {
    memcpy(row, keys + at, (size_t)n * sizeof *row);
    for (int64_t i = 0; i < n; i++) {
      TRY(call_poll_at(w->cx, at + i));
      const int64_t k = ((const int64_t *)order->data)[at + i];
      if (k < 0 || k >= n)
        return call_fail(w->cx, "torch.searchsorted(): sorter index out of range");
      keys[at + i] = row[k];
    }
  }
  return w->st;
}

static rush_status search_keys(work *w, const search *s, bool is_float, uint64_t *bounds,
                               const uint64_t *values)
{
  const rush_call *c = w->call;
  const rush_tensor *b = s->bounds, *v = s->values;
  rush_tensor *out = call_out(c, 0);
  const int64_t n = b->sizes[b->n_dims - 1],
                per_row = b->n_dims == 1 ? v->n_elems : v->sizes[v->n_dims - 1];
  if (s->sorter)
    TRY(apply_sorter(w, s, bounds, n));
  for (int64_t i = 0; i < v->n_elems && !call_over_at(c->cx, i); i++) {
    const int64_t at = order_place(bounds + i / per_row * n, n, values[i], s->right, is_float);
    if (out->dtype == RUSH_INT32)
      ((int32_t *)out->data)[i] = (int32_t)at;
    else
      ints(out)[i] = at;
  }
  return RUSH_OK;
}

/* Search argument bounds_at for the elements of argument values_at. */
static rush_status run_search(rush_call *c, uint32_t bounds_at, uint32_t values_at, search s)
{
  int dtype = DTYPE_NONE;
  work w = work_begin(c);
  s.values = operand(&w, values_at, bounds_at);
  s.bounds = call_tensor(c, bounds_at);
  WORK_DO(&w, common_dtype(c->cx, s.bounds, s.values, &dtype));
  if (!order_has(dtype) || dtype == RUSH_BOOL)
    WORK_DO(&w, call_no_dtype(c->cx, "searchsorted_out_cpu", dtype));
  s.bounds = work_rows(&w, s.bounds, dtype);
  s.values = work_rows(&w, s.values, dtype);
  uint64_t *bounds = keys_of(&w, s.bounds), *values = keys_of(&w, s.values);
  WORK_DO(&w, search_keys(&w, &s, dtype_is_float(dtype), bounds, values));
  return work_end(&w);
}

rush_kernel kernel_searchsorted, kernel_bucketize;
/* (sorted_sequence, self, out_int32, right, side, sorter) */
rush_status kernel_searchsorted(rush_call *c)
{
  const bool right = call_is_none(c, 4) ? call_bool(c, 3) : str_is(call_str(c, 4), "right");
  return run_search(c, 0, 1, (search){.sorter = call_tensor(c, 5), .right = right});
}
/* (self, boundaries, out_int32, right) */
rush_status kernel_bucketize(rush_call *c)
{
  return run_search(c, 1, 0, (search){.right = call_bool(c, 3)});
}

/* -- isin -------------------------------------------------------------------------------------- */

static bool is_unordered(int dtype) { return !order_has(dtype) || dtype == RUSH_BOOL; }

/* Look up e's elements in t; both have one dtype. */
static void find_all(work *w, rush_tensor *e, rush_tensor *t)
{
  const bool invert = call_bool(w->call, 3);
  const int64_t n = t->n_elems, n_words[2] = {4, n};
  bool *out = call_out(w->call, 0)->data;
  const rush_tensor *dense = WORK_MAKE(w, tensor_contiguous(w->cx, t, &w->made));
  const uint64_t *ke = keys_of(w, e);
  keyed *kt = work_new(w, RUSH_INT64, 2, n_words)->data;
  if (w->st != RUSH_OK)
    return;
  uint64_t *sorted = (uint64_t *)(void *)(kt + n);
  order_keyed(w->cx, t->dtype, dense->data, n, false, kt);
  order_stable(w->cx, kt, kt + n, n);
  for (int64_t i = 0; i < n; i++)
    sorted[i] = kt[i].key;
  for (int64_t i = 0; i < e->n_elems && !call_over_at(w->cx, i); i++) {
    const int64_t at = order_place(sorted, n, ke[i], false, false);
    const bool found =
      at < n && sorted[at] == ke[i] && !(ke[i] == KEY_NAN && dtype_is_float(t->dtype));
    out[i] = found != invert;
  }
}
rush_kernel kernel_isin;
/* Implement isin(elements, test_elements, assume_unique, invert): either may be a number. */
rush_status kernel_isin(rush_call *c)
{
  int dtype = DTYPE_NONE;
  work w = work_begin(c);
  rush_tensor *e = operand(&w, 0, 1), *t = operand(&w, 1, 0);
  if (is_unordered(t->dtype) || is_unordered(e->dtype))
    WORK_DO(&w, call_fail(c->cx, "Unsupported input type encountered for isin(): %s",
                          dtype_aten_name((is_unordered(t->dtype) ? t : e)->dtype)));
  WORK_DO(&w, common_dtype(c->cx, e, t, &dtype));
  e = work_rows(&w, e, dtype);
  t = work_rows(&w, t, dtype);
  find_all(&w, e, t);
  return work_end(&w);
}

/* -- bincount, histc --------------------------------------------------------------------------- */

rush_kernel kernel_bincount, kernel_histc, kernel_histogram_count, kernel_histogram_edges;
/* Compute the number of bins: one more than the largest element. */
static rush_status count_bins(rush_call *c, const rush_tensor *x, int64_t *n)
{
  const int64_t least = call_int(c, 2), *v = x->data;
  if (least < 0)
    return call_fail(c->cx, "minlength should be >= 0");
  *n = least;
  int64_t low = 0, high = -1;
  for (int64_t i = 0; i < x->n_elems;) {
    TRY(call_poll_at(c->cx, i / 4096));
    for (const int64_t end = i64_min(x->n_elems, i + 4096); i < end; i++) {
      low = v[i] < low ? v[i] : low;
      high = v[i] > high ? v[i] : high;
    }
  }
  if (low < 0)
    return call_fail(c->cx, "bincount only supports 1-d non-negative integral inputs.");
  *n = high >= *n ? high + 1 : *n;
  return RUSH_OK;
}

/* (self, weights, minlength) */
rush_status kernel_bincount(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *weights = call_tensor(c, 1);
  int64_t n = 0;
  if (t->n_dims != 1 || !(dtype_is_integral(t->dtype)))
    return t->dtype == RUSH_BOOL || dtype_is_float(t->dtype) || dtype_is_complex(t->dtype)
               ? call_no_dtype(c->cx, "bincount_cpu", t->dtype)
               : call_fail(c->cx, "bincount only supports 1-d non-negative integral inputs.");
  if (weights && (weights->n_dims != 1 || weights->n_elems != t->n_elems))
    return call_fail(c->cx, "weights should be 1-d and have the same length as input");
  const int acc = !weights || t->n_elems == 0      ? RUSH_INT64
                  : weights->dtype == RUSH_FLOAT32 ? RUSH_FLOAT32
                                                   : RUSH_FLOAT64;
  work w = work_begin(c);
  const rush_tensor *x = work_rows(&w, t, RUSH_INT64);
  WORK_DO(&w, count_bins(c, x, &n));
  const rush_tensor *wd = work_rows(&w, weights, acc);
  rush_tensor *sums = work_new(&w, acc, 1, &n);
  WORK_DO(&w, tensor_fill(c->cx, sums, value_int(0)));
  const int64_t *v = x->data;
  for (int64_t i = 0; w.st == RUSH_OK && i < x->n_elems && !call_over_at(c->cx, i / 4096);)
    for (const int64_t end = i64_min(x->n_elems, i + 4096); i < end; i++)
      if (acc == RUSH_INT64)
        ((int64_t *)sums->data)[v[i]]++;
      else if (acc == RUSH_FLOAT32)
        ((float *)sums->data)[v[i]] += ((const float *)wd->data)[i];
      else
        ((double *)sums->data)[v[i]] += ((const double *)wd->data)[i];
  return work_end_with(&w, sums, call_result(c, 0));
}

/* Compute the range [lo, hi] of a histogram: as given, or the data's; never empty. */
static rush_status histogram_range(rush_call *c, const rush_tensor *x, double widen, double *lo,
                                   double *hi)
{
  const double *v = x->data;
  if (*lo == *hi && x->n_elems > 0) {
    *lo = *hi = v[0];
    for (int64_t i = 1; i < x->n_elems && !call_over_at(c->cx, i); i++)
      *lo = v[i] < *lo || isnan(v[i]) ? v[i] : *lo, *hi = v[i] > *hi || isnan(v[i]) ? v[i] : *hi;
  }
  if (!isfinite(*lo) || !isfinite(*hi))
    return call_fail(c->cx, "range of [%g, %g] is not finite", *lo, *hi);
  if (*lo > *hi)
    return call_fail(c->cx, "max must be larger than min");
  if (*lo == *hi && x->n_elems == 0 && widen < 1)
    *hi += 1;
  else if (*lo == *hi)
    *lo -= widen, *hi += widen;
  return RUSH_OK;
}

/* Compute (v - lo) * bins / (hi - lo) in the dtype's precision. */
static int64_t linear_bin(int dtype, double v, double lo, double hi, int64_t bins)
{
  const double at = dtype == RUSH_FLOAT64
                      ? (v - lo) * (double)bins / (hi - lo)
                      : (double)(((float)v - (float)lo) * (float)bins / ((float)hi - (float)lo));
  if (!(at > 0)) /* NaN, between infinite edges: the first */
    return 0;
  return at < (double)bins ? i64_min((int64_t)at, bins - 1) : bins - 1;
}

/* (self, bins, min, max) */
rush_status kernel_histc(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  const int64_t bins = call_out(c, 0)->n_elems;
  double lo = call_float(c, 2), hi = call_float(c, 3);
  if (!dtype_is_float(t->dtype))
    return call_no_dtype(c->cx, "histogram_cpu", t->dtype);
  work w = work_begin(c);
  const rush_tensor *x = work_rows(&w, t, RUSH_FLOAT64);
  WORK_DO(&w, histogram_range(c, x, 1.0, &lo, &hi));
  double *counts = doubles_of(&w);
  const double *v = x->data;
  for (int64_t i = 0; w.st == RUSH_OK && i < x->n_elems && !call_over_at(c->cx, i); i++)
    if (v[i] >= lo && v[i] <= hi)
      counts[linear_bin(t->dtype, v[i], lo, hi, bins)]++;
  return work_end(&w);
}

/* Add up weights of the elements between edges[k] and edges[k + 1]; the last edge belongs to the
 * last bin. */
static void fill_histogram(const rush_call *c, double *n, const rush_tensor *x,
                           const rush_tensor *w, const rush_tensor *edges)
{
  const bool density = call_bool(c, c->n_args - 1);
  const int64_t bins = edges->n_elems - 1;
  const double *e = edges->data, *v = x->data;
  double total = 0;
  for (int64_t i = 0; i < x->n_elems && !call_over_at(c->cx, i); i++) {
    if (!(v[i] >= e[0] && v[i] <= e[bins]))
      continue;
    int64_t lo = 0, hi = bins;
    while (lo < hi) { /* the first edge above */
      const int64_t mid = lo + (hi - lo) / 2;
      if (e[mid] <= v[i])
        lo = mid + 1;
      else
        hi = mid;
    }
    n[i64_min(lo - 1, bins - 1)] += w ? ((const double *)w->data)[i] : 1.0;
  }
  for (int64_t k = 0; density && k < bins; k++)
    total += n[k];
  for (int64_t k = 0; density && k < bins; k++)
    n[k] /= total * (e[k + 1] - e[k]);
}

/* Count between the edges, which are result 1.  weight and density are the last two arguments. */
static rush_status run_histogram(rush_call *c)
{
  work w = work_begin(c);
  const rush_tensor *x = work_rows(&w, call_tensor(c, 0), RUSH_FLOAT64),
                    *by = work_rows(&w, call_tensor(c, c->n_args - 2), RUSH_FLOAT64),
                    *edges = work_rows(&w, call_out(c, 1), RUSH_FLOAT64);
  double *n = doubles_of(&w);
  if (w.st == RUSH_OK)
    fill_histogram(c, n, x, by, edges);
  return work_end(&w);
}
static rush_status check_histogram(rush_call *c)
{
  const int dtype = call_tensor(c, 0)->dtype;
  return dtype_is_float(dtype) && !nn_is_half(dtype) ? RUSH_OK
                                                     : call_no_dtype(c->cx, "histogram_cpu", dtype);
}

/* (self, bins, range, weight, density) */
rush_status kernel_histogram_count(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  const rush_list *range = call_list(c, 2);
  double lo = range ? number_as_double(range->items[0]) : 0,
         hi = range ? number_as_double(range->items[1]) : 0;
  TRY(check_histogram(c));
  work w = work_begin(c);
  WORK_DO(&w, histogram_range(c, work_rows(&w, t, RUSH_FLOAT64), 0.5, &lo, &hi));
  const rush_value args[4] = {value_float(lo), value_float(hi), value_int(call_int(c, 1) + 1),
                              value_int(t->dtype)};
  const rush_tensor *edges = work_invoke(&w, "aten::linspace", "", args, 4);
  WORK_DO(&w, tensor_copy(c->cx, call_out(c, 1), edges));
  TRY(work_end(&w));
  return run_histogram(c);
}

/* (self, bins, weight, density) */
rush_status kernel_histogram_edges(rush_call *c)
{
  TRY(check_histogram(c));
  TRY(tensor_copy(c->cx, call_out(c, 1), call_tensor(c, 1)));
  return run_histogram(c);
}
