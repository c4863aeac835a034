/* ops/kernels/reduce/unique.c -- distinct elements or slices. Keys (ops/kernels/order.h) are sorted
 * with their positions, and a pass over the sorted order numbers the results, which gives the
 * inverse and the counts in the same pass. A hash table would avoid the sort, but PyTorch returns
 * sorted results. Slices are merge-sorted by their keys in lexicographic order. Cost: O(n log n)
 * comparisons; memory: some 40 bytes per element. */
#include "ops/kernels/nn.h"
#include "ops/kernels/order.h"
#include "ops/kernels/views.h"

/* The results: which element (or slice) each result is, in order, its number of occurrences, and
 * for every element the number of its result. */
typedef struct distinct {
  int64_t n, n_found;
  int64_t *first, *counts, *inverse; /* one block of 3 n */
} distinct;

static rush_status distinct_new(call_ctx *cx, int64_t n, distinct *out)
{
  int64_t *block = mem_alloc_data(cx->ctx, 3 * (size_t)n * sizeof *block);
  if (!block)
    return call_nomem(cx);
  *out = (distinct){n, 0, block, block + n, block + 2 * n};
  return RUSH_OK;
}
static void distinct_free(call_ctx *cx, distinct *d)
{
  if (d->first)
    mem_free_data(cx->ctx, d->first, 3 * (size_t)d->n * sizeof *d->first);
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

static rush_status give_ints(rush_call *c, uint32_t i, const int64_t *v, int n_dims,
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
static rush_status give_positions(rush_call *c, const distinct *d, bool inverse, bool counts,
                                  int n_dims, const int64_t *sizes)
{
  const int64_t none = 0;
  if (inverse)
    TRY(give_ints(c, 1, d->inverse, n_dims, sizes));
  else
    TRY(give_ints(c, 1, d->inverse, 1, &none));
  if (c->n_results < 3)
    return RUSH_OK;
  return give_ints(c, 2, d->counts, 1, counts ? &d->n_found : &none);
}

/* Return result 0: the slices d->first of the rows of `rows` ([n, slice bytes]), with `sizes` but
 * n_found first. */
static rush_status gather_slices(call_ctx *cx, const distinct *d, const rush_tensor *rows,
                                 int n_dims, const int64_t *sizes, rush_tensor **out)
{
  int64_t made[TENSOR_MAX_DIMS];
  memcpy(made, sizes, sizeof *made * (size_t)n_dims);
  made[0] = d->n_found;
  TRY(tensor_new(cx, rows->dtype, n_dims, made, out));
  const size_t slice = d->n ? (size_t)(rows->n_elems / d->n) * tensor_item_bytes(rows) : 0;
  for (int64_t i = 0; i < d->n_found && !call_over_at(cx, i); i++)
    memcpy((char *)(*out)->data + (size_t)i * slice,
           (const char *)rows->data + (size_t)d->first[i] * slice, slice);
  return RUSH_OK;
}

/* -- Elements ---------------------------------------------------------------------------------- */

static rush_status find_elements(call_ctx *cx, const rush_tensor *flat, bool consecutive,
                                 distinct *d)
{
  const int64_t n = flat->n_elems;
  const bool is_float = dtype_is_float(flat->dtype),
             by_bytes = !is_float && !consecutive && n > 600; /* few bytes differ */
  const size_t n_bytes = (by_bytes ? 2 : 1) * (size_t)n * sizeof(keyed);
  keyed *x = mem_alloc_data(cx->ctx, n_bytes);
  if (!x)
    return call_nomem(cx);
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
  mem_free_data(cx->ctx, x, n_bytes);
  return st;
}

static rush_status unique_elements(rush_call *c, bool consecutive, bool inverse, bool counts)
{
  rush_tensor *t = call_tensor(c, 0), *flat, *out;
  distinct d;
  if (!order_has(t->dtype))
    return call_no_dtype(c->cx, "unique", t->dtype);
  TRY(tensor_contiguous(c->cx, t, &flat));
  rush_status st = distinct_new(c->cx, t->n_elems, &d);
  if (st != RUSH_OK) {
    tensor_release(flat);
    return st;
  }
  const int64_t all[1] = {t->n_elems};
  st = find_elements(c->cx, flat, consecutive, &d);
  if (st == RUSH_OK)
    st = gather_slices(c->cx, &d, flat, 1, all, &out);
  if (st == RUSH_OK) {
    call_return_steal(c, 0, out);
    st = give_positions(c, &d, inverse, counts, t->n_dims, t->sizes);
  }
  distinct_free(c->cx, &d);
  tensor_release(flat);
  return st;
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

static rush_status find_slices(call_ctx *cx, const rush_tensor *rows, int64_t n, bool consecutive,
                               distinct *d)
{
  const int64_t width = n ? rows->n_elems / n : 0;
  const size_t n_bytes = (size_t)(rows->n_elems + 2 * n) * sizeof(uint64_t);
  uint64_t *keys = mem_alloc_data(cx->ctx, n_bytes);
  if (!keys)
    return call_nomem(cx);
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
  mem_free_data(cx->ctx, keys, n_bytes);
  return st;
}

/* `rows`: contiguous, the dimension first. */
static rush_status unique_of_rows(rush_call *c, const rush_tensor *rows, int dim, bool consecutive,
                                  bool inverse, bool counts)
{
  rush_tensor *out, *turned;
  distinct d;
  const int64_t n = rows->sizes[0];
  TRY(distinct_new(c->cx, n, &d));
  rush_status st = find_slices(c->cx, rows, n, consecutive, &d);
  if (st == RUSH_OK)
    st = gather_slices(c->cx, &d, rows, rows->n_dims, rows->sizes, &out);
  if (st == RUSH_OK) {
    int64_t order[TENSOR_MAX_DIMS];
    geom g;
    geom_of(&g, out);
    for (int i = 0; i < rows->n_dims; i++)
      order[i] = i < dim ? i + 1 : i == dim ? 0 : i;
    st = geom_permute(c->cx, &g, rows->n_dims, order);
    if (st == RUSH_OK)
      st = geom_view(c->cx, out, &g, &turned);
    tensor_release(out);
  }
  if (st == RUSH_OK) {
    call_return_steal(c, 0, turned);
    st = give_positions(c, &d, inverse, counts, 1, &n);
  }
  distinct_free(c->cx, &d);
  return st;
}

static rush_status unique_slices(rush_call *c, int64_t dim_arg, bool consecutive, bool inverse,
                                 bool counts)
{
  rush_tensor *t = call_tensor(c, 0), *turned, *rows;
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
  geom g;
  geom_of(&g, t);
  TRY(geom_permute(c->cx, &g, t->n_dims, order));
  TRY(geom_view(c->cx, t, &g, &turned));
  rush_status st = tensor_contiguous(c->cx, turned, &rows);
  tensor_release(turned);
  if (st != RUSH_OK)
    return st;
  st = unique_of_rows(c, rows, dim, consecutive, inverse, counts);
  tensor_release(rows);
  return st;
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
