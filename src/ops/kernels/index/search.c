/* ops/kernels/index/search.c -- searching and counting: searchsorted, bucketize, isin, bincount and
 * histograms. Elements become the 64-bit keys of ops/kernels/order.h, so that one binary search
 * serves every dtype and orders NaN as PyTorch does. isin sorts its test elements and searches
 * them, O((n + m) log m). Memory: 8 bytes per element. */
#include <math.h>

#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/order.h"

/* -- Helpers ----------------------------------------------------------------------------------- */

/* Compute keys of all elements in row-major order; a new block of t->n_elems, to be freed by
 * keys_free. */
static rush_status keys_new(call_ctx *cx, rush_tensor *t, uint64_t **out)
{
  rush_tensor *flat;
  TRY(tensor_contiguous(cx, t, &flat));
  uint64_t *keys = mem_alloc_data(cx->ctx, (size_t)t->n_elems * sizeof *keys);
  if (keys)
    order_keys(cx, t->dtype, flat->data, t->n_elems, keys);
  tensor_release(flat);
  if (!keys)
    return call_nomem(cx);
  *out = keys;
  return RUSH_OK;
}
static void keys_free(call_ctx *cx, uint64_t *keys, int64_t n)
{
  if (keys)
    mem_free_data(cx->ctx, keys, (size_t)n * sizeof *keys);
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

/* Return argument `at` as a new tensor.  A number gets the dtype that it has beside argument
 * `beside`. */
static rush_status operand(rush_call *c, uint32_t at, uint32_t beside, rush_tensor **out)
{
  const rush_tensor *like = call_tensor(c, beside);
  promote_state p = PROMOTE_INIT;
  *out = NULL;
  if (call_tensor(c, at)) {
    *out = tensor_retain(call_tensor(c, at));
    return RUSH_OK;
  }
  promote_add(&p, like->dtype, like->n_dims);
  promote_add_scalar(&p, number_class(c->args[at]));
  return tensor_from_scalar(c->cx, c->args[at], promote_result(&p), out);
}
/* Convert *t to a dtype. */
static rush_status convert(call_ctx *cx, rush_tensor **t, int dtype)
{
  rush_tensor *old = *t;
  rush_status st = tensor_to_dtype(cx, old, dtype, t);
  if (st != RUSH_OK)
    *t = NULL;
  tensor_release(old);
  return st;
}

/* Allocate zeros of float64 to compute a result in; the result itself if it is float64. */
static rush_status doubles_new(call_ctx *cx, rush_tensor *result, rush_tensor **out)
{
  if (result->dtype == RUSH_FLOAT64)
    *out = tensor_retain(result);
  else
    TRY(tensor_new(cx, RUSH_FLOAT64, result->n_dims, result->sizes, out));
  memset((*out)->data, 0, (size_t)result->n_elems * sizeof(double));
  return RUSH_OK;
}
static rush_status doubles_put_steal(call_ctx *cx, rush_tensor *doubles, rush_tensor *result)
{
  rush_status st = doubles == result ? RUSH_OK : tensor_copy(cx, result, doubles);
  tensor_release(doubles);
  return st;
}

/* -- searchsorted, bucketize ------------------------------------------------------------------- */

typedef struct search {
  rush_tensor *bounds, *values, *sorter; /* sorter may be NULL */
  bool right;
} search;

/* Reorder each row of `keys` by the sorter. */
static rush_status apply_sorter(call_ctx *cx, const search *s, uint64_t *keys, int64_t n)
{
  rush_tensor *order;
  uint64_t *row = mem_alloc_data(cx->ctx, (size_t)n * sizeof *row);
  if (!row)
    return call_nomem(cx);
  rush_status st = tensor_contiguous(cx, s->sorter, &order);
  const int64_t total = s->bounds->n_elems;
  for (int64_t at = 0; st == RUSH_OK && n > 0 && at < total; at += n) {
    memcpy(row, keys + at, (size_t)n * sizeof *row);
    for (int64_t i = 0; i < n && st == RUSH_OK; i++) {
      if ((st = call_poll_at(cx, at + i)) != RUSH_OK)
        break;
      const int64_t k = ints(order)[at + i];
      if (k < 0 || k >= n)
        st = call_fail(cx, "torch.searchsorted(): sorter index out of range");
      else
        keys[at + i] = row[k];
    }
  }
  mem_free_data(cx->ctx, row, (size_t)n * sizeof *row);
  tensor_release(order);
  return st;
}

static rush_status search_keys(rush_call *c, const search *s, bool is_float, uint64_t *bounds,
                               const uint64_t *values)
{
  const rush_tensor *b = s->bounds, *v = s->values;
  rush_tensor *out = call_out(c, 0);
  const int64_t n = b->sizes[b->n_dims - 1],
                per_row = b->n_dims == 1 ? v->n_elems : v->sizes[v->n_dims - 1];
  if (s->sorter)
    TRY(apply_sorter(c->cx, s, bounds, n));
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
  uint64_t *kb = NULL, *kv = NULL;
  int dtype = DTYPE_NONE;
  rush_status st = operand(c, values_at, bounds_at, &s.values);
  s.bounds = tensor_retain(call_tensor(c, bounds_at));
  if (st == RUSH_OK)
    st = common_dtype(c->cx, s.bounds, s.values, &dtype);
  if (st == RUSH_OK && (!order_has(dtype) || dtype == RUSH_BOOL))
    st = call_no_dtype(c->cx, "searchsorted_out_cpu", dtype);
  if (st == RUSH_OK)
    st = convert(c->cx, &s.bounds, dtype);
  if (st == RUSH_OK)
    st = convert(c->cx, &s.values, dtype);
  if (st == RUSH_OK)
    st = keys_new(c->cx, s.bounds, &kb);
  if (st == RUSH_OK)
    st = keys_new(c->cx, s.values, &kv);
  if (st == RUSH_OK)
    st = search_keys(c, &s, dtype_is_float(dtype), kb, kv);
  keys_free(c->cx, kb, kb ? s.bounds->n_elems : 0);
  keys_free(c->cx, kv, kv ? s.values->n_elems : 0);
  tensor_release(s.bounds);
  tensor_release(s.values);
  return st;
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
static rush_status find_all(rush_call *c, rush_tensor *e, rush_tensor *t)
{
  const bool invert = call_bool(c, 3);
  const int64_t n = t->n_elems;
  const size_t n_bytes = 2 * (size_t)n * sizeof(keyed);
  bool *out = call_out(c, 0)->data;
  uint64_t *ke = NULL;
  rush_tensor *dense;
  TRY(tensor_contiguous(c->cx, t, &dense));
  rush_status st = keys_new(c->cx, e, &ke);
  keyed *kt = st == RUSH_OK ? mem_alloc_data(c->cx->ctx, n_bytes) : NULL;
  if (kt) {
    uint64_t *sorted = (uint64_t *)(void *)(kt + n);
    order_keyed(c->cx, t->dtype, dense->data, n, false, kt);
    order_stable(c->cx, kt, kt + n, n);
    for (int64_t i = 0; i < n; i++)
      sorted[i] = kt[i].key;
    for (int64_t i = 0; i < e->n_elems && !call_over_at(c->cx, i); i++) {
      const int64_t at = order_place(sorted, n, ke[i], false, false);
      const bool found =
        at < n && sorted[at] == ke[i] && !(ke[i] == KEY_NAN && dtype_is_float(t->dtype));
      out[i] = found != invert;
    }
    mem_free_data(c->cx->ctx, kt, n_bytes);
  } else if (st == RUSH_OK) {
    st = call_nomem(c->cx);
  }
  if (ke)
    keys_free(c->cx, ke, e->n_elems);
  tensor_release(dense);
  return st;
}
rush_kernel kernel_isin;
/* Implement isin(elements, test_elements, assume_unique, invert): either may be a number. */
rush_status kernel_isin(rush_call *c)
{
  rush_tensor *e, *t = NULL;
  int dtype;
  TRY(operand(c, 0, 1, &e));
  rush_status st = operand(c, 1, 0, &t);
  if (st == RUSH_OK && (is_unordered(t->dtype) || is_unordered(e->dtype)))
    st = call_fail(c->cx, "Unsupported input type encountered for isin(): %s",
                   dtype_aten_name((is_unordered(t->dtype) ? t : e)->dtype));
  if (st == RUSH_OK)
    st = common_dtype(c->cx, e, t, &dtype);
  if (st == RUSH_OK)
    st = convert(c->cx, &e, dtype);
  if (st == RUSH_OK)
    st = convert(c->cx, &t, dtype);
  if (st == RUSH_OK)
    st = find_all(c, e, t);
  tensor_release(e);
  tensor_release(t);
  return st;
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
  rush_tensor *t = call_tensor(c, 0), *w = call_tensor(c, 1), *x = NULL, *wd = NULL, *sums = NULL,
              *out;
  int64_t n = 0;
  if (t->n_dims != 1 || !(dtype_is_integral(t->dtype)))
    return t->dtype == RUSH_BOOL || dtype_is_float(t->dtype) || dtype_is_complex(t->dtype)
               ? call_no_dtype(c->cx, "bincount_cpu", t->dtype)
               : call_fail(c->cx, "bincount only supports 1-d non-negative integral inputs.");
  if (w && (w->n_dims != 1 || w->n_elems != t->n_elems))
    return call_fail(c->cx, "weights should be 1-d and have the same length as input");
  TRY(tensor_to_dtype(c->cx, t, RUSH_INT64, &x));
  rush_status st = count_bins(c, x, &n);
  const int acc = !w || t->n_elems == 0      ? RUSH_INT64
                  : w->dtype == RUSH_FLOAT32 ? RUSH_FLOAT32
                                             : RUSH_FLOAT64;
  if (st == RUSH_OK && w)
    st = tensor_to_dtype(c->cx, w, acc, &wd);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, acc, 1, &n, &sums);
  if (st == RUSH_OK)
    st = tensor_fill(c->cx, sums, value_int(0));
  for (int64_t i = 0;
       st == RUSH_OK && acc == RUSH_INT64 && i < x->n_elems && !call_over_at(c->cx, i / 4096);)
    for (const int64_t end = i64_min(x->n_elems, i + 4096), *v = x->data; i < end; i++)
      ((int64_t *)sums->data)[v[i]]++;
  for (int64_t i = 0;
       st == RUSH_OK && acc != RUSH_INT64 && i < x->n_elems && !call_over_at(c->cx, i); i++) {
    const int64_t k = ints(x)[i];
    if (acc == RUSH_FLOAT32)
      ((float *)sums->data)[k] += ((const float *)wd->data)[i];
    else
      ((double *)sums->data)[k] += ((const double *)wd->data)[i];
  }
  out = sums;
  tensor_release(x);
  tensor_release(wd);
  if (st != RUSH_OK) {
    tensor_release(sums);
    return st;
  }
  call_return_steal(c, 0, out);
  return RUSH_OK;
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
  rush_tensor *t = call_tensor(c, 0), *out = call_out(c, 0), *x, *counts = NULL;
  double lo = call_float(c, 2), hi = call_float(c, 3);
  if (!dtype_is_float(t->dtype))
    return call_no_dtype(c->cx, "histogram_cpu", t->dtype);
  TRY(tensor_to_dtype(c->cx, t, RUSH_FLOAT64, &x));
  rush_status st = histogram_range(c, x, 1.0, &lo, &hi);
  if (st == RUSH_OK)
    st = doubles_new(c->cx, out, &counts);
  const double *v = x->data;
  for (int64_t i = 0; st == RUSH_OK && i < x->n_elems && !call_over_at(c->cx, i); i++)
    if (v[i] >= lo && v[i] <= hi)
      ((double *)counts->data)[linear_bin(t->dtype, v[i], lo, hi, out->n_elems)]++;
  tensor_release(x);
  return st == RUSH_OK ? doubles_put_steal(c->cx, counts, out) : st;
}

/* Add up weights of the elements between edges[k] and edges[k + 1]; the last edge belongs to the
 * last bin. */
static rush_status fill_histogram(rush_call *c, const rush_tensor *x, const rush_tensor *w,
                                  const rush_tensor *edges)
{
  const bool density = call_bool(c, c->n_args - 1);
  const int64_t bins = edges->n_elems - 1;
  const double *e = edges->data, *v = x->data;
  rush_tensor *sums;
  TRY(doubles_new(c->cx, call_out(c, 0), &sums));
  double *n = sums->data, total = 0;
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
  return doubles_put_steal(c->cx, sums, call_out(c, 0));
}

/* Count between the edges, which are result 1.  weight and density are the last two arguments. */
static rush_status run_histogram(rush_call *c)
{
  rush_tensor *weight = call_tensor(c, c->n_args - 2), *x = NULL, *w = NULL, *e = NULL;
  rush_status st = tensor_to_dtype(c->cx, call_tensor(c, 0), RUSH_FLOAT64, &x);
  if (st == RUSH_OK && weight)
    st = tensor_to_dtype(c->cx, weight, RUSH_FLOAT64, &w);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, call_out(c, 1), RUSH_FLOAT64, &e);
  if (st == RUSH_OK)
    st = fill_histogram(c, x, w, e);
  tensor_release(x);
  tensor_release(w);
  tensor_release(e);
  return st;
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
  rush_tensor *t = call_tensor(c, 0), *x;
  const rush_list *range = call_list(c, 2);
  double lo = range ? number_as_double(range->items[0]) : 0,
         hi = range ? number_as_double(range->items[1]) : 0;
  TRY(check_histogram(c));
  TRY(tensor_to_dtype(c->cx, t, RUSH_FLOAT64, &x));
  rush_status st = histogram_range(c, x, 0.5, &lo, &hi);
  tensor_release(x);
  TRY(st);
  rush_value args[4] = {value_float(lo), value_float(hi), value_int(call_int(c, 1) + 1),
                        value_int(t->dtype)},
             edges;
  TRY(op_invoke_name(c->cx, "aten::linspace", "", args, 4, &edges));
  st = tensor_copy(c->cx, call_out(c, 1), edges.as.tensor);
  value_release(edges);
  return st == RUSH_OK ? run_histogram(c) : st;
}

/* (self, bins, weight, density) */
rush_status kernel_histogram_edges(rush_call *c)
{
  TRY(check_histogram(c));
  TRY(tensor_copy(c->cx, call_out(c, 1), call_tensor(c, 1)));
  return run_histogram(c);
}
