/* ops/kernels/reduce/sort.c -- operators that sort or choose by order along a dimension: sort,
 * topk, kthvalue, median, mode. Each is a `pick_fn` that fills positions for one row; run_pick
 * calls it for all rows in parallel and gathers the values. The choice of algorithm (stable or not,
 * partial sort or selection) follows PyTorch, because it decides the indices of equal elements.
 * Memory: 32 bytes per element of a row and task. */
#include <stdatomic.h>

#include "base/threads.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/order.h"
#include "ops/kernels/views.h"

#define GRAIN 4096 /* elements of a task */

/* Chooses up to n_out elements of a row by their positions. */
typedef struct pick_job pick_job;
typedef void pick_fn(const pick_job *j, const void *row, keyed *x, keyed *spare, int64_t *indices);
struct pick_job {
  call_ctx *cx;
  const along *a;
  pick_fn *pick;
  rush_tensor *values, *indices; /* rows; values may be NULL */
  int64_t n_out, k;              /* n_out < 0: all of a row */
  bool flag, sorted; /* what they mean is the pick function's business */
  _Atomic int failed;
};

static void take_values(const pick_job *j, const char *row, char *to, const int64_t *indices)
{
  order_take(j->cx, tensor_item_bytes(j->a->t), to, row, indices, j->n_out);
}

static void pick_rows(void *arg, int64_t begin, int64_t end)
{
  pick_job *j = arg;
  const along *a = j->a;
  const size_t n_bytes = 2 * (size_t)a->n * sizeof(keyed), item = tensor_item_bytes(a->t);
  keyed *x = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!x) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    int64_t *indices = (int64_t *)j->indices->data + r * j->n_out;
    const char *row = along_row(a, r);
    j->pick(j, row, x, x + a->n, indices);
    if (call_is_watched(j->cx) && call_over(j->cx)) /* then indices may be anything */
      break;
    if (j->values)
      take_values(j, row, (char *)j->values->data + (size_t)(r * j->n_out) * item, indices);
  }
  mem_free_data(j->cx->ctx, x, n_bytes);
}

/* Compute the positions that `pick` chooses along a dimension, and the values unless `values` is
 * NULL. */
static rush_status run_pick(rush_call *c, pick_job j, int64_t dim, rush_tensor *values,
                            rush_tensor *indices)
{
  along a;
  TRY(along_open(c->cx, call_tensor(c, 0), dim, &a));
  j.cx = c->cx;
  j.a = &a;
  j.n_out = j.n_out < 0 ? a.n : j.n_out;
  rush_status st = along_rows(c->cx, &a, indices, &j.indices);
  if (st == RUSH_OK && values)
    st = along_rows(c->cx, &a, values, &j.values);
  if (st == RUSH_OK && a.n > 0 && j.n_out > 0)
    st = parallel_for(c->cx, a.n_rows, i64_max(1, GRAIN / a.n), pick_rows, &j);
  if (st == RUSH_OK && j.failed)
    st = call_nomem(c->cx);
  st = along_put_steal(c->cx, &a, j.indices, indices, st);
  st = along_put_steal(c->cx, &a, j.values, values, st);
  along_close(&a);
  return st;
}

/* -- sort -------------------------------------------------------------------------------------- */

/* Sort; flag: descending; sorted: stable. */
static void pick_sorted(const pick_job *j, const void *row, keyed *x, keyed *spare,
                        int64_t *indices)
{
  order_keyed(j->cx, j->a->t->dtype, row, j->a->n, j->flag, x);
  /* PyTorch sorts long rows of integers by their bytes, stable or not. */
  const rush_tensor *t = j->a->t;
  const bool by_bytes = t->n_dims == 1 && t->n_elems >= 32768 && !j->flag &&
                        t->dtype != RUSH_BOOL && dtype_is_integral(t->dtype);
  if (j->sorted || by_bytes)
    order_stable(j->cx, x, spare, j->a->n);
  else
    order_sort(j->cx, x, j->a->n);
  for (int64_t i = 0; i < j->a->n && !call_over_at(j->cx, i); i++)
    indices[i] = x[i].index;
}

static rush_status sort_to(rush_call *c, bool stable, int64_t dim, bool descending,
                           rush_tensor *values, rush_tensor *indices)
{
  if (!order_has(call_tensor(c, 0)->dtype))
    return call_fail(c->cx, "Sort does not support complex dtypes on CPU");
  return run_pick(
    c, (pick_job){.pick = pick_sorted, .n_out = -1, .flag = descending, .sorted = stable}, dim,
    values, indices);
}

static bool is_stable(const rush_call *c) { return !call_is_none(c, 1) && call_bool(c, 1); }

rush_kernel kernel_sort, kernel_sort_stable, kernel_argsort, kernel_argsort_stable, kernel_msort;
rush_status kernel_sort(rush_call *c)
{
  return sort_to(c, false, call_int(c, 1), call_bool(c, 2), call_out(c, 0), call_out(c, 1));
}
rush_status kernel_sort_stable(rush_call *c)
{
  return sort_to(c, is_stable(c), call_int(c, 2), call_bool(c, 3), call_out(c, 0), call_out(c, 1));
}
rush_status kernel_argsort(rush_call *c)
{
  return sort_to(c, false, call_int(c, 1), call_bool(c, 2), NULL, call_out(c, 0));
}
rush_status kernel_argsort_stable(rush_call *c)
{
  return sort_to(c, is_stable(c), call_int(c, 2), call_bool(c, 3), NULL, call_out(c, 0));
}
/* Sort values along the first dimension. */
rush_status kernel_msort(rush_call *c)
{
  rush_tensor *values = call_out(c, 0), *indices;
  TRY(tensor_new_like(c->cx, values, RUSH_INT64, &indices));
  rush_status st = sort_to(c, false, 0, false, values, indices);
  tensor_release(indices);
  return st;
}

/* -- topk -------------------------------------------------------------------------------------- */

/* Choose between the two algorithms as PyTorch does, because equal elements end up in different
 * positions. */
static void pick_top(const pick_job *j, const void *row, keyed *x, keyed *spare, int64_t *indices)
{
  const int64_t n = j->a->n, k = j->n_out;
  (void)spare;
  order_keyed(j->cx, j->a->t->dtype, row, n, j->flag, x);
  if (k * 64 <= n) {
    order_first(j->cx, x, k, n);
  } else {
    order_nth(j->cx, x, k - 1, n);
    if (j->sorted)
      order_sort(j->cx, x, k - 1);
  }
  for (int64_t i = 0; i < k && !call_over_at(j->cx, i); i++)
    indices[i] = x[i].index;
}

rush_kernel kernel_topk;
/* (self, k, dim, largest, sorted) */
rush_status kernel_topk(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (dtype_is_complex(t->dtype) || t->dtype == RUSH_BOOL)
    return call_fail(c->cx, "topk does not support %s dtypes on CPU",
                     t->dtype == RUSH_BOOL ? "bool" : "complex");
  if (!order_has(t->dtype))
    return call_no_dtype(c->cx, "topk_cpu", t->dtype);
  return run_pick(c,
                  (pick_job){.pick = pick_top,
                             .n_out = t->n_dims ? call_int(c, 1) : 1,
                             .flag = call_bool(c, 3),
                             .sorted = call_bool(c, 4)},
                  call_int(c, 2), call_out(c, 0), call_out(c, 1));
}

/* -- One of a row: kthvalue, median, mode ------------------------------------------------------ */

/* Select as PyTorch does: quick select around the median of three. */
static void quick_select(const call_ctx *cx, keyed *x, int64_t k, int64_t n)
{
  for (int64_t lo = 0, hi = n - 1; lo < hi;) {
    if (hi == lo + 1) {
      if (x[lo].key > x[hi].key) {
        const keyed v = x[lo];
        x[lo] = x[hi], x[hi] = v;
      }
      return;
    }
#define SWAP(a, b) do { const keyed v_ = x[a]; x[a] = x[b]; x[b] = v_; } while (0)
    const int64_t mid = lo + (hi - lo) / 2;
    SWAP(mid, lo + 1);
    if (x[lo + 1].key > x[hi].key)
      SWAP(lo + 1, hi);
    if (x[lo].key > x[hi].key)
      SWAP(lo, hi);
    if (x[lo + 1].key > x[lo].key)
      SWAP(lo + 1, lo);
    int64_t i = lo + 1, j = hi;
    const uint64_t pivot = x[lo].key;
    for (int64_t step = 0;; step++) {
      if (call_over_at(cx, step))
        return;
      do
        i++;
      while (pivot > x[i].key);
      do
        j--;
      while (x[j].key > pivot);
      if (j < i)
        break;
      SWAP(i, j);
    }
    SWAP(lo, j);
#undef SWAP
    if (j <= k)
      lo = i;
    if (j >= k)
      hi = j - 1;
  }
}

static void pick_kth(const pick_job *j, const void *row, keyed *x, keyed *spare, int64_t *indices)
{
  (void)spare;
  order_keyed(j->cx, j->a->t->dtype, row, j->a->n, false, x);
  quick_select(j->cx, x, j->k - 1, j->a->n);
  indices[0] = x[j->k - 1].index;
}

/* Choose the median; flag: NaNs are ignored; otherwise the first of them is the median. */
static void pick_median(const pick_job *j, const void *row, keyed *x, keyed *spare,
                        int64_t *indices)
{
  const int64_t n = j->a->n;
  int64_t n_nan = 0;
  order_keyed(j->cx, j->a->t->dtype, row, n, false, x);
  const bool is_float = dtype_is_float(j->a->t->dtype);
  for (int64_t i = 0; is_float && i < n && !call_over_at(j->cx, i); i++)
    if (x[i].key == KEY_NAN && n_nan++ == 0 && !j->flag) {
      indices[0] = i;
      return;
    }
  order_stable(j->cx, x, spare, n); /* of equals the one that stable sorting puts there */
  indices[0] = x[n_nan == n ? 0 : (n - n_nan - 1) / 2].index;
}

static void pick_mode(const pick_job *j, const void *row, keyed *x, keyed *spare, int64_t *indices)
{
  const int64_t n = j->a->n;
  int64_t most = 0, run = 0;
  (void)spare;
  order_keyed(j->cx, j->a->t->dtype, row, n, false, x);
  order_sort(j->cx, x, n);
  for (int64_t i = 0; i < n && !call_over_at(j->cx, i); i++) {
    run++;
    if (i + 1 < n && x[i].key == x[i + 1].key && x[i].key != KEY_NAN)
      continue;
    if (run > most)
      most = run, indices[0] = x[i].index;
    run = 0;
  }
}

/* Choose one element per row; dim is argument `at`. */
static rush_status pick_one(rush_call *c, uint32_t at, pick_job j, const char *name)
{
  const int dtype = call_tensor(c, 0)->dtype;
  if (!order_has(dtype) || (j.pick == pick_kth && dtype == RUSH_BOOL))
    return call_no_dtype(c->cx, name, dtype);
  j.n_out = 1;
  return run_pick(c, j, call_int(c, at), call_out(c, 0), call_out(c, 1));
}

rush_kernel kernel_kthvalue, kernel_median_dim, kernel_nanmedian_dim, kernel_mode, kernel_median,
  kernel_nanmedian;
rush_status kernel_kthvalue(rush_call *c)
{
  return pick_one(c, 2, (pick_job){.pick = pick_kth, .k = call_int(c, 1)}, "kthvalue_cpu");
}
rush_status kernel_median_dim(rush_call *c)
{
  return pick_one(c, 1, (pick_job){.pick = pick_median}, "median");
}
rush_status kernel_nanmedian_dim(rush_call *c)
{
  return pick_one(c, 1, (pick_job){.pick = pick_median, .flag = true}, "median");
}
rush_status kernel_mode(rush_call *c)
{
  return pick_one(c, 1, (pick_job){.pick = pick_mode}, "mode");
}

#define MEDIAN_BLOCK (1 << 20) /* elements between two looks at the deadline */

static void median_f32(const call_ctx *cx, const float *x, int64_t n, bool ignore_nan,
                       uint32_t *keys, order_counts *counts, float *out)
{
  int64_t n_nan = 0;
  for (int64_t i = 0; i < n && !call_over(cx); i += MEDIAN_BLOCK)
    n_nan += order_keys_f32(x + i, i64_min(MEDIAN_BLOCK, n - i), keys + i);
  if (call_over(cx))
    return; /* the caller polls */
  const int64_t place =
    n_nan == n || (n_nan && !ignore_nan) ? n - 1 : (n - n_nan - 1) / 2; /* NaN is last */
  const uint32_t key = order_select_f32(cx, keys, place, n, counts);
  *out = key == UINT32_MAX ? __builtin_nanf("") : order_unkey_f32(key);
}

static void median_any(const call_ctx *cx, const rush_tensor *x, bool ignore_nan, uint64_t *keys,
                       order_counts *counts, void *out)
{
  const size_t item = tensor_item_bytes(x);
  int64_t n = x->n_elems, at = 0;
  order_keys(cx, x->dtype, x->data, n, keys);
  for (int64_t i = 0; dtype_is_float(x->dtype) && i < x->n_elems; i++)
    n -= keys[i] == KEY_NAN;
  if (n == x->n_elems || (n > 0 && ignore_nan)) {
    order_unkey(x->dtype, order_select(cx, keys, (n - 1) / 2, x->n_elems, counts), out);
    return;
  }
  while (keys[at] != KEY_NAN) /* the first NaN as it is */
    at++;
  memcpy(out, (const char *)x->data + (size_t)at * item, item);
}

/* Return the median of all elements, a number.  Without elements: NaN, or the smallest integer, to
 * which PyTorch converts it. */
static rush_status median_all(rush_call *c, bool ignore_nan)
{
  rush_tensor *t = call_tensor(c, 0), *values = call_out(c, 0), *flat;
  if (!order_has(t->dtype))
    return call_no_dtype(c->cx, "median_impl", t->dtype);
  if (t->n_elems == 0) {
    tensor_set(values, 0,
               dtype_is_float(t->dtype)
                 ? value_float((double)__builtin_nanf(""))
                 : value_int(t->dtype == RUSH_INT32 ? INT32_MIN : INT64_MIN));
    return RUSH_OK;
  }
  const size_t n_bytes = (size_t)t->n_elems * sizeof(uint64_t) + sizeof(order_counts);
  uint64_t *keys = mem_alloc_data(c->cx->ctx, n_bytes);
  rush_status st = keys ? tensor_contiguous(c->cx, t, &flat) : call_nomem(c->cx);
  if (st == RUSH_OK) {
    order_counts *counts = (order_counts *)(keys + t->n_elems);
    if (t->dtype == RUSH_FLOAT32 && t->n_elems < INT32_MAX)
      median_f32(c->cx, flat->data, t->n_elems, ignore_nan, (uint32_t *)keys, counts, values->data);
    else
      median_any(c->cx, flat, ignore_nan, keys, counts, values->data);
    tensor_release(flat);
    st = call_poll(c->cx);
  }
  mem_free_data(c->cx->ctx, keys, n_bytes);
  return st;
}
rush_status kernel_median(rush_call *c) { return median_all(c, false); }
rush_status kernel_nanmedian(rush_call *c) { return median_all(c, true); }
