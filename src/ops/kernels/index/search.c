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

static rush_status ints_new(call_ctx *cx, int n_dims, const int64_t *sizes, rush_tensor **out)
{
  return tensor_new(cx, RUSH_INT64, n_dims, sizes, out);
}
static int64_t *ints(rush_tensor *t) { return t->data; }

/* -- searchsorted, bucketize ------------------------------------------------------------------- */

typedef struct search {
  rush_tensor *bounds, *values, *sorter; /* borrowed; sorter may be NULL */
  bool right, int32;
} search;

static rush_status check_search(call_ctx *cx, const search *s)
{
  const rush_tensor *b = s->bounds, *v = s->values;
  sizes_text tb, tv;
  if (v->n_dims == 0 && b->n_dims != 1)
    return call_fail(cx,
                     "torch.searchsorted(): input value can be a scalar only when boundaries "
                     "tensor dimension is 1, but we "
                     "got boundaries tensor dim(%d) and input value's dim(%d) numel(1)",
                     b->n_dims, v->n_dims);
  if (b->n_dims == 0)
    return call_fail(cx,
                     "torch.searchsorted(): input value can be a scalar only when boundaries "
                     "tensor dimension is 1, but we "
                     "got boundaries tensor dim(0) and input value's dim(%d) numel(%lld)",
                     v->n_dims, (long long)v->n_elems);
  bool same = b->n_dims == 1 || b->n_dims == v->n_dims;
  for (int i = 0; same && b->n_dims > 1 && i < b->n_dims - 1; i++)
    same = b->sizes[i] == v->sizes[i];
  if (!same)
    return call_fail(cx,
                     "torch.searchsorted(): boundaries tensor should be 1 dimension or the first "
                     "N-1 dimensions of "
                     "boundaries tensor and input value tensor must match, but we got boundaries "
                     "tensor %s and input value "
                     "tensor %s",
                     sizes_print(&tb, b->n_dims, b->sizes), sizes_print(&tv, v->n_dims, v->sizes));
  if (s->sorter && (s->sorter->n_dims != b->n_dims ||
                    memcmp(s->sorter->sizes, b->sizes, sizeof *b->sizes * b->n_dims) != 0))
    return call_fail(cx,
                     "torch.searchsorted(): boundary and sorter must have the same size, but got "
                     "boundary tensor %s and got "
                     "sorter tensor %s",
                     sizes_print(&tb, b->n_dims, b->sizes),
                     sizes_print(&tv, s->sorter->n_dims, s->sorter->sizes));
  if (s->sorter && s->sorter->dtype != RUSH_INT64)
    return call_fail(cx,
                     "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                     dtype_aten_name(s->sorter->dtype));
  return RUSH_OK;
}

/* Arrange the rows of `keys` in the sorter's order. */
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

static rush_status search_keys(call_ctx *cx, const search *s, bool is_float, uint64_t *bounds,
                               const uint64_t *values, rush_tensor **out)
{
  const rush_tensor *b = s->bounds, *v = s->values;
  const int64_t n = b->sizes[b->n_dims - 1],
                per_row = b->n_dims == 1 ? v->n_elems : v->sizes[v->n_dims - 1];
  rush_tensor *t, *narrow;
  if (s->sorter)
    TRY(apply_sorter(cx, s, bounds, n));
  TRY(ints_new(cx, v->n_dims, v->sizes, &t));
  for (int64_t i = 0; i < v->n_elems && !call_over_at(cx, i); i++)
    ints(t)[i] = order_place(bounds + i / per_row * n, n, values[i], s->right, is_float);
  rush_status st = tensor_to_dtype(cx, t, s->int32 ? RUSH_INT32 : RUSH_INT64, &narrow);
  tensor_release(t);
  if (st == RUSH_OK)
    *out = narrow;
  return st;
}

static rush_status run_search(rush_call *c, const search *s)
{
  rush_tensor *b = NULL, *v = NULL, *out;
  uint64_t *kb = NULL, *kv = NULL;
  int dtype;
  TRY(check_search(c->cx, s));
  TRY(common_dtype(c->cx, s->bounds, s->values, &dtype));
  if (!order_has(dtype) || dtype == RUSH_BOOL)
    return call_no_dtype(c->cx, "searchsorted_out_cpu", dtype);
  rush_status st = tensor_to_dtype(c->cx, s->bounds, dtype, &b);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, s->values, dtype, &v);
  if (st == RUSH_OK)
    st = keys_new(c->cx, b, &kb);
  if (st == RUSH_OK)
    st = keys_new(c->cx, v, &kv);
  if (st == RUSH_OK)
    st = search_keys(c->cx, s, dtype_is_float(dtype), kb, kv, &out);
  keys_free(c->cx, kb, s->bounds->n_elems);
  keys_free(c->cx, kv, s->values->n_elems);
  tensor_release(b);
  tensor_release(v);
  if (st == RUSH_OK)
    call_return_steal(c, 0, out);
  return st;
}

/* Make a 0-dim tensor of the boundaries' kind from a number. */
static rush_status number_tensor(rush_call *c, rush_value v, const rush_tensor *like,
                                 rush_tensor **out)
{
  promote_state p = PROMOTE_INIT;
  promote_add(&p, like->dtype, like->n_dims);
  promote_add_scalar(&p, number_class(v));
  return tensor_from_scalar(c->cx, v, promote_result(&p), out);
}

/* (sorted_sequence, self, out_int32, right, side, sorter) */
static rush_status searchsorted(rush_call *c, rush_tensor *values)
{
  search s = {.bounds = call_tensor(c, 0),
              .values = values,
              .sorter = call_tensor(c, 5),
              .int32 = call_bool(c, 2),
              .right = call_bool(c, 3)};
  if (!call_is_none(c, 4)) {
    const str side = call_str(c, 4);
    if (!str_eq(side, STR("left")) && !str_eq(side, STR("right")))
      return call_fail(c->cx,
                       "torch.searchsorted(): side can only be 'left' or 'right' but got %.*s",
                       (int)side.len, side.p);
    if (s.right && str_eq(side, STR("left")))
      return call_fail(c->cx, "torch.searchsorted(): side and right can't be set to opposites, got "
                              "side of left while right was "
                              "True");
    s.right = str_eq(side, STR("right"));
  }
  return run_search(c, &s);
}

rush_kernel kernel_searchsorted, kernel_searchsorted_number, kernel_bucketize,
  kernel_bucketize_number;
rush_status kernel_searchsorted(rush_call *c) { return searchsorted(c, call_tensor(c, 1)); }
rush_status kernel_searchsorted_number(rush_call *c)
{
  rush_tensor *v;
  TRY(number_tensor(c, c->args[1], call_tensor(c, 0), &v));
  rush_status st = searchsorted(c, v);
  tensor_release(v);
  return st;
}

/* (self, boundaries, out_int32, right) */
static rush_status bucketize(rush_call *c, rush_tensor *values)
{
  search s = {.bounds = call_tensor(c, 1),
              .values = values,
              .int32 = call_bool(c, 2),
              .right = call_bool(c, 3)};
  if (s.bounds->n_dims != 1)
    return call_fail(c->cx, "boundaries tensor must be 1 dimension, but got dim(%d)",
                     s.bounds->n_dims);
  return run_search(c, &s);
}
rush_status kernel_bucketize(rush_call *c) { return bucketize(c, call_tensor(c, 0)); }
rush_status kernel_bucketize_number(rush_call *c)
{
  rush_tensor *v;
  TRY(number_tensor(c, c->args[0], call_tensor(c, 1), &v));
  rush_status st = bucketize(c, v);
  tensor_release(v);
  return st;
}

/* -- isin -------------------------------------------------------------------------------------- */

static rush_status isin(rush_call *c, rush_tensor *elements, rush_tensor *tests)
{
  int dtype;
  const bool invert = call_bool(c, 3);
  rush_tensor *e = NULL, *t = NULL, *out;
  uint64_t *ke = NULL;
  keyed *kt = NULL;
  const rush_tensor *odd = !order_has(tests->dtype) || tests->dtype == RUSH_BOOL ? tests : elements;
  if (!order_has(odd->dtype) || odd->dtype == RUSH_BOOL)
    return call_fail(c->cx, "Unsupported input type encountered for isin(): %s",
                     dtype_aten_name(odd->dtype));
  TRY(common_dtype(c->cx, elements, tests, &dtype));
  rush_status st = tensor_to_dtype(c->cx, elements, dtype, &e);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, tests, dtype, &t);
  if (st == RUSH_OK)
    st = keys_new(c->cx, e, &ke);
  const int64_t n = tests->n_elems;
  const size_t n_bytes = 2 * (size_t)n * sizeof *kt;
  if (st == RUSH_OK && !(kt = mem_alloc_data(c->cx->ctx, n_bytes)))
    st = call_nomem(c->cx);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, RUSH_BOOL, e->n_dims, e->sizes, &out);
  if (st == RUSH_OK) {
    uint64_t *sorted = (uint64_t *)(void *)(kt + n);
    order_keyed(c->cx, dtype, t->data, n, false, kt);
    order_stable(c->cx, kt, kt + n, n);
    for (int64_t i = 0; i < n; i++)
      sorted[i] = kt[i].key;
    for (int64_t i = 0; i < e->n_elems && !call_over_at(c->cx, i); i++) {
      const int64_t at = order_place(sorted, n, ke[i], false, false);
      const bool found =
        at < n && sorted[at] == ke[i] && !(ke[i] == KEY_NAN && dtype_is_float(dtype));
      ((bool *)out->data)[i] = found != invert;
    }
    call_return_steal(c, 0, out);
  }
  if (kt)
    mem_free_data(c->cx->ctx, kt, n_bytes);
  keys_free(c->cx, ke, elements->n_elems);
  tensor_release(e);
  tensor_release(t);
  return st;
}
rush_kernel kernel_isin, kernel_isin_tensor_number, kernel_isin_number_tensor;
rush_status kernel_isin(rush_call *c) { return isin(c, call_tensor(c, 0), call_tensor(c, 1)); }
rush_status kernel_isin_tensor_number(rush_call *c)
{
  rush_tensor *v;
  TRY(number_tensor(c, c->args[1], call_tensor(c, 0), &v));
  rush_status st = isin(c, call_tensor(c, 0), v);
  tensor_release(v);
  return st;
}
rush_status kernel_isin_number_tensor(rush_call *c)
{
  rush_tensor *v;
  TRY(number_tensor(c, c->args[0], call_tensor(c, 1), &v));
  rush_status st = isin(c, v, call_tensor(c, 1));
  tensor_release(v);
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
  rush_tensor *t = call_tensor(c, 0), *x, *counts, *out;
  const int64_t bins = call_int(c, 1);
  double lo = call_float(c, 2), hi = call_float(c, 3);
  if (!dtype_is_float(t->dtype))
    return call_no_dtype(c->cx, "histogram_cpu", t->dtype);
  if (bins <= 0)
    return call_fail(c->cx, "bins must be > 0");
  TRY(tensor_to_dtype(c->cx, t, RUSH_FLOAT64, &x));
  rush_status st = histogram_range(c, x, 1.0, &lo, &hi);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, RUSH_FLOAT64, 1, &bins, &counts);
  if (st != RUSH_OK) {
    tensor_release(x);
    return st;
  }
  double *n = counts->data;
  const double *v = x->data;
  memset(n, 0, (size_t)bins * sizeof *n);
  for (int64_t i = 0; i < x->n_elems && !call_over_at(c->cx, i); i++)
    if (v[i] >= lo && v[i] <= hi)
      n[linear_bin(t->dtype, v[i], lo, hi, bins)]++;
  tensor_release(x);
  st = tensor_to_dtype(c->cx, counts, t->dtype, &out);
  tensor_release(counts);
  if (st == RUSH_OK)
    call_return_steal(c, 0, out);
  return st;
}

/* Add up weights of the elements between edges[k] and edges[k + 1]; the last edge belongs to the
 * last bin. */
static rush_status fill_histogram(rush_call *c, const rush_tensor *x, const rush_tensor *w,
                                  const rush_tensor *edges, bool density, int dtype,
                                  rush_tensor **out)
{
  const int64_t bins = edges->n_elems - 1;
  const double *e = edges->data, *v = x->data;
  rush_tensor *sums;
  TRY(tensor_new(c->cx, RUSH_FLOAT64, 1, &bins, &sums));
  double *n = sums->data, total = 0;
  memset(n, 0, (size_t)bins * sizeof *n);
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
  rush_status st = tensor_to_dtype(c->cx, sums, dtype, out);
  tensor_release(sums);
  return st;
}

/* Return a histogram; weight and density are the last two arguments; `edges` of the tensor's dtype
 * is stolen. */
static rush_status give_histogram_steal(rush_call *c, rush_tensor *edges)
{
  rush_tensor *t = call_tensor(c, 0), *weight = call_tensor(c, c->n_args - 2), *x = NULL, *w = NULL,
              *e = NULL, *out;
  rush_status st = RUSH_OK;
  if (weight && (weight->n_dims != t->n_dims ||
                 memcmp(weight->sizes, t->sizes, sizeof *t->sizes * t->n_dims) != 0))
    st = call_fail(c->cx, "torch.histogram: if weight tensor is provided it should have the same "
                          "shape as the input tensor "
                          "excluding its innermost dimension");
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, t, RUSH_FLOAT64, &x);
  if (st == RUSH_OK && weight)
    st = tensor_to_dtype(c->cx, weight, RUSH_FLOAT64, &w);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, edges, RUSH_FLOAT64, &e);
  if (st == RUSH_OK)
    st = fill_histogram(c, x, w, e, call_bool(c, c->n_args - 1), t->dtype, &out);
  tensor_release(x);
  tensor_release(w);
  tensor_release(e);
  if (st != RUSH_OK) {
    tensor_release(edges);
    return st;
  }
  call_return_steal(c, 0, out);
  call_return_steal(c, 1, edges);
  return RUSH_OK;
}

/* (self, bins, range, weight, density) */
rush_status kernel_histogram_count(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *x;
  const rush_list *range = call_list(c, 2);
  double lo = 0, hi = 0;
  if (!dtype_is_float(t->dtype) || nn_is_half(t->dtype))
    return call_no_dtype(c->cx, "histogram_cpu", t->dtype);
  if (call_int(c, 1) <= 0)
    return call_fail(c->cx, "torch.histogramdd(): bins must be > 0");
  if (call_int(c, 1) == INT64_MAX)
    return call_fail(c->cx, "Storage size calculation overflowed");
  if (range && range->n != 2)
    return call_fail(
      c->cx,
      "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got %zu",
      range->n);
  if (range)
    lo = number_as_double(range->items[0]), hi = number_as_double(range->items[1]);
  TRY(tensor_to_dtype(c->cx, t, RUSH_FLOAT64, &x));
  rush_status st = histogram_range(c, x, 0.5, &lo, &hi);
  tensor_release(x);
  if (st != RUSH_OK)
    return st;
  rush_value args[4] = {value_float(lo), value_float(hi), value_int(call_int(c, 1) + 1),
                        value_int(t->dtype)},
             edges;
  TRY(op_invoke_name(c->cx, "aten::linspace", "", args, 4, &edges));
  return give_histogram_steal(c, edges.as.tensor);
}

/* (self, bins, weight, density) */
rush_status kernel_histogram_edges(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *edges, *own;
  if (!dtype_is_float(t->dtype) || nn_is_half(t->dtype))
    return call_no_dtype(c->cx, "histogram_cpu", t->dtype);
  if (call_tensor(c, 1)->n_dims != 1 || call_tensor(c, 1)->n_elems < 2)
    return call_fail(
      c->cx, "torch.histogramdd(): bins tensor should have one dimension and at least two edges");
  TRY(tensor_to_dtype(c->cx, call_tensor(c, 1), t->dtype, &edges));
  rush_status st = tensor_clone(c->cx, edges, &own);
  tensor_release(edges);
  return st == RUSH_OK ? give_histogram_steal(c, own) : st;
}
