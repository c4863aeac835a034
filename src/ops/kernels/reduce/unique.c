/* ops/kernels/reduce/unique.c -- distinct elements or slices. Keys (ops/kernels/order.h) are sorted
 * with their positions, and a pass over the sorted order numbers the results, which gives the
 * inverse and the counts in the same pass. A hash table would avoid the sort, but PyTorch returns
 * sorted results. Slices are merge-sorted by their keys in lexicographic order. Cost: O(n log n)
 * comparisons; memory: some 40 bytes per element. */
#include "ops/kernels/nn.h"
#include "ops/kernels/order.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

/* The results: which element (or slice) each result is, in order, its number of occurrences, and
 * for every element the number of its result. */
typedef struct distinct {
  int64_t n, n_found;
  int64_t *first, *counts, *inverse; /* one block of 3 n, of the work */
} distinct;

static distinct distinct_new(work *w, int64_t n)
{
  int64_t *block = work_new(w, RUSH_INT64, 2, (int64_t[2]){3, n})->data;
  return block ? (distinct){n, 0, block, block + n, block + 2 * n} : (distinct){0};
}

/* Add element `index` to the last result, or begin a new one. */
static void distinct_add(distinct *d, int64_t index, bool is_new)
{
  if (is_new) {
    d->first[d->n_found] = index;
    d->counts[d->n_found++] = 0;
  }
  d->counts[d->n_found - 1]++;
  d->inverse[index] = d->n_found - 1;
}

static rush_status return_ints(rush_call *c, uint32_t i, const int64_t *v, int n_dims,
                             const int64_t *sizes)
{
  rush_tensor *t;
  TRY(tensor_new(c->cx, RUSH_INT64, n_dims, sizes, &t));
  memcpy(t->data, v, (size_t)t->n_elems * sizeof *v);
  call_return_steal(c, i, t);
  return RUSH_OK;
}

/* Return results 1 and 2: inverse (of the given sizes) and counts; those not requested are
 * empty. */
static rush_status return_positions(rush_call *c, const distinct *d, bool inverse, bool counts,
                                  int n_dims, const int64_t *sizes)
{
  const int64_t none = 0;
  if (inverse)
    TRY(return_ints(c, 1, d->inverse, n_dims, sizes));
  else
    TRY(return_ints(c, 1, d->inverse, 1, &none));
  if (c->n_results < 3)
    return RUSH_OK;
  return return_ints(c, 2, d->counts, 1, counts ? &d->n_found : &none);
}

/* Return the slices d->first of the rows of `rows` ([n, slice bytes]), with `sizes` but
 * n_found first. */
static rush_tensor *gather_slices(work *w, const distinct *d, const rush_tensor *rows, int n_dims,
                                  const int64_t *sizes)
{
  int64_t made[TENSOR_MAX_DIMS];
  memcpy(made, sizes, sizeof *made * (size_t)n_dims);
  made[0] = d->n_found;
  rush_tensor *out = work_new(w, rows->dtype, n_dims, made);
  const size_t slice = d->n ? (size_t)(rows->n_elems / d->n) * tensor_item_bytes(rows) : 0;
  for (int64_t i = 0; w->st == RUSH_OK && i < d->n_found && !call_over_at(w->cx, i); i++)
    memcpy((char *)out->data + (size_t)i * slice,
           (const char *)rows->data + (size_t)d->first[i] * slice, slice);
  return out;
}

/* -- Elements ---------------------------------------------------------------------------------- */

static rush_status find_elements(work *w, const rush_tensor *flat, bool consecutive, distinct *d)
{
  call_ctx *cx = w->cx;
  const int64_t n = flat->n_elems;
  const bool is_float = dtype_is_float(flat->dtype),
             by_bytes = !is_float && !consecutive && n > 600; /* few bytes differ */
  keyed *x = work_new(w, RUSH_INT64, 2, (int64_t[2]){by_bytes ? 4 : 2, n})->data;
  TRY(w->st);
  order_keyed(cx, flat->dtype, flat->data, n, false, x);
  if (by_bytes)
    order_stable(cx, x, x + n, n);
  else if (!consecutive)
    order_sort(cx, x, n);
  rush_status st = call_poll(cx);
  for (int64_t i = 0; i < n && st == RUSH_OK;
       i++, st = call_poll_at(cx, i)) /* NaN equals nothing */
    distinct_add(d, x[i].index,
                 i == 0 || x[i].key != x[i - 1].key || (is_float && x[i].key == KEY_NAN));
  return st;
}

static rush_status unique_elements(rush_call *c, bool consecutive, bool inverse, bool counts)
{
  rush_tensor *t = call_tensor(c, 0);
  if (!order_has(t->dtype))
    return call_no_dtype(c->cx, "unique", t->dtype);
  work w = work_begin(c);
  const rush_tensor *flat = WORK_MAKE(&w, tensor_contiguous(c->cx, t, &w.made));
  distinct d = distinct_new(&w, t->n_elems);
  WORK_DO(&w, find_elements(&w, flat, consecutive, &d));
  rush_tensor *out = gather_slices(&w, &d, flat, 1, &t->n_elems);
  WORK_DO(&w, return_positions(c, &d, inverse, counts, t->n_dims, t->sizes));
  return work_end_with(&w, out, call_result(c, 0));
}

/* -- Slices ------------------------------------------------------------------------------------ */

static int compare_slices(const uint64_t *a, const uint64_t *b, int64_t width)
{
  for (int64_t i = 0; i < width; i++)
    if (a[i] != b[i])
      return a[i] < b[i] ? -1 : 1;
  return 0;
}

/* Merge sort slice numbers; `spare` has n places. */
static void sort_slices(const call_ctx *cx, const uint64_t *keys, int64_t width, int64_t *x,
                        int64_t *spare, int64_t n)
{
  const int64_t half = n / 2;
  if (n < 2 || (n > 64 && call_over(cx)))
    return;
  sort_slices(cx, keys, width, x, spare, half);
  sort_slices(cx, keys, width, x + half, spare, n - half);
  memcpy(spare, x, (size_t)half * sizeof *x);
  int64_t i = 0, k = half, at = 0;
  while (i < half && !call_over_at(cx, at))
    x[at++] = k < n && compare_slices(keys + x[k] * width, keys + spare[i] * width, width) < 0
                ? x[k++]
                : spare[i++];
}

static rush_status find_slices(work *w, const rush_tensor *rows, int64_t n, bool consecutive,
                               distinct *d)
{
  call_ctx *cx = w->cx;
  const int64_t width = n ? rows->n_elems / n : 0, n_words = rows->n_elems + 2 * n;
  uint64_t *keys = work_new(w, RUSH_INT64, 1, &n_words)->data;
  TRY(w->st);
  int64_t *order = (int64_t *)(void *)(keys + rows->n_elems);
  order_keys(cx, rows->dtype, rows->data, rows->n_elems, keys);
  rush_status st = RUSH_OK;
  for (int64_t i = 0; i < n && st == RUSH_OK; i++) {
    order[i] = i;
    st = call_poll_at(cx, i);
  }
  if (!consecutive && st == RUSH_OK) {
    sort_slices(cx, keys, width, order, order + n, n);
    st = call_poll(cx);
  }
  for (int64_t i = 0; i < n && st == RUSH_OK; i++, st = call_poll_at(cx, i)) {
    bool is_new =
      i == 0 || compare_slices(keys + order[i] * width, keys + order[i - 1] * width, width) != 0;
    for (int64_t k = 0; dtype_is_float(rows->dtype) && k < width; k++)
      is_new |= keys[order[i] * width + k] == KEY_NAN;
    distinct_add(d, order[i], is_new);
  }
  return st;
}

static rush_status unique_slices(rush_call *c, int64_t dim_arg, bool consecutive, bool inverse,
                                 bool counts)
{
  rush_tensor *t = call_tensor(c, 0);
  int dim;
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError",
                          "Dimension specified as %lld but tensor has no dimensions",
                          (long long)dim_arg);
  TRY(dim_wrap(c->cx, dim_arg, t->n_dims, &dim));
  if (!order_has(t->dtype))
    return call_no_dtype(c->cx, "unique_dim", t->dtype);
  for (int i = 0; i < t->n_dims; i++)
    if (t->sizes[i] == 0 && i != dim)
      return call_fail(
        c->cx,
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  int64_t order[TENSOR_MAX_DIMS] = {dim};
  for (int i = 0, at = 1; i < t->n_dims; i++)
    if (i != dim)
      order[at++] = i;
  work w = work_begin(c);
  rush_tensor *turned = WORK_MAKE(&w, tensor_permute(c->cx, t, order, &w.made)),
              *rows = WORK_MAKE(&w, tensor_contiguous(c->cx, turned, &w.made)); /* dim first */
  const int64_t n = t->sizes[dim];
  distinct d = distinct_new(&w, n);
  WORK_DO(&w, find_slices(&w, rows, n, consecutive, &d));
  rush_tensor *out = gather_slices(&w, &d, rows, t->n_dims, rows->sizes);
  for (int i = 0; i < t->n_dims; i++)
    order[i] = i < dim ? i + 1 : i == dim ? 0 : i;
  WORK_DO(&w, return_positions(c, &d, inverse, counts, 1, &n));
  WORK_DO(&w, tensor_permute(c->cx, out, order, call_result(c, 0)));
  return work_end(&w);
}

rush_kernel kernel__unique, kernel__unique2, kernel_unique_dim, kernel_unique_consecutive,
  kernel_unique_dim_consecutive;
/* (self, sorted, return_inverse): sorted either way */
rush_status kernel__unique(rush_call *c)
{
  return unique_elements(c, false, call_bool(c, 2), false);
}
rush_status kernel__unique2(rush_call *c)
{
  return unique_elements(c, false, call_bool(c, 2), call_bool(c, 3));
}
/* (self, dim, sorted, return_inverse, return_counts): always with inverse and counts */
rush_status kernel_unique_dim(rush_call *c)
{
  return unique_slices(c, call_int(c, 1), false, true, true);
}
rush_status kernel_unique_dim_consecutive(rush_call *c)
{
  return unique_slices(c, call_int(c, 1), true, true, true);
}
/* (self, return_inverse, return_counts, dim) */
rush_status kernel_unique_consecutive(rush_call *c)
{
  if (call_is_none(c, 3) || (call_int(c, 3) == 0 && call_tensor(c, 0)->n_dims == 1))
    return unique_elements(c, true, call_bool(c, 1), call_bool(c, 2));
  return unique_slices(c, call_int(c, 3), true, true, true);
}
