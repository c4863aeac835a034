/* ops/kernels/order.c -- the algorithms of order.h: keys, selection, sorting, searching. Stable
 * sorts are insertion sort, one merge step, or a radix sort by bytes, chosen by length. The
 * unstable ones repeat libstdc++'s introsort, nth_element and heap steps exactly, since PyTorch
 * calls those and the order of equal elements shows in the indices; a better algorithm would have
 * other results. Selection of values alone, where order cannot show, counts digits and is O(n).
 * Long loops poll the deadline; a sort that was stopped leaves its data partly sorted, and the
 * caller fails. */
#include "ops/kernels/order.h"

#include <string.h>

#include "ops/kernels/views.h"

/* -- Keys -------------------------------------------------------------------------------------- */

bool order_has(int dtype)
{
  const dtype_class c = dtype_class_of(dtype);
  return c == DTYPE_BOOL || c == DTYPE_INT || c == DTYPE_FLOAT;
}

static inline uint64_t key_of_double(double d)
{
  uint64_t u;
  if (d != d)
    return KEY_NAN;
  d += 0.0; /* -0 becomes 0 */
  memcpy(&u, &d, sizeof u);
  return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}
static inline uint64_t key_of_int(int64_t i) { return (uint64_t)i ^ UINT64_C(1) << 63; }

void order_keys(const call_ctx *cx, int dtype, const void *data, int64_t n, uint64_t *out)
{
  union { double d[256]; int64_t i[256]; } block;
  const size_t item = dtype_bytes(dtype);
  const bool is_float = dtype_is_float(dtype);
  for (int64_t at = 0; at < n && !(at % 32768 == 0 && call_over(cx)); at += 256) {
    const int64_t m = i64_min(256, n - at);
    convert_elems(is_float ? RUSH_FLOAT64 : RUSH_INT64, &block, dtype,
                  (const char *)data + (size_t)at * item, m);
    for (int64_t k = 0; k < m; k++)
      out[at + k] = is_float               ? key_of_double(block.d[k])
                    : dtype == RUSH_UINT64 ? (uint64_t)block.i[k]
                                           : key_of_int(block.i[k]);
  }
}

void order_keyed(const call_ctx *cx, int dtype, const void *data, int64_t n, bool flip, keyed *out)
{
  uint64_t keys[256];
  const size_t item = dtype_bytes(dtype);
  for (int64_t at = 0; at < n && !(at % 32768 == 0 && call_over(cx)); at += 256) {
    const int64_t m = i64_min(256, n - at);
    order_keys(cx, dtype, (const char *)data + (size_t)at * item, m, keys);
    for (int64_t k = 0; k < m; k++)
      out[at + k] = (keyed){flip ? ~keys[k] : keys[k], at + k};
  }
}

int64_t order_place(const uint64_t *keys, int64_t n, uint64_t key, bool right, bool nan_ends)
{
  int64_t lo = 0, hi = n;
  while (lo < hi) {
    const int64_t mid = lo + (hi - lo) / 2;
    if ((right ? keys[mid] <= key : keys[mid] < key) ||
        (nan_ends && (key == KEY_NAN || keys[mid] == KEY_NAN)))
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

void order_unkey(int dtype, uint64_t key, void *to)
{
  if (dtype_is_float(dtype)) {
    double d;
    key = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
    memcpy(&d, &key, sizeof d);
    convert_elems(dtype, to, RUSH_FLOAT64, &d, 1);
    return;
  }
  const int64_t i = (int64_t)(dtype == RUSH_UINT64 ? key : key ^ UINT64_C(1) << 63);
  convert_elems(dtype, to, RUSH_INT64, &i, 1);
}

int64_t order_keys_f32(const float *x, int64_t n, uint32_t *out)
{
  int64_t n_nan = 0;
  for (int64_t i = 0; i < n; i++) {
    const float v = x[i] + 0.0f; /* -0 becomes 0 */
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    u ^= (uint32_t)((int32_t)u >> 31) | UINT32_C(1) << 31;
    out[i] = v != v ? UINT32_MAX : u;
    n_nan += v != v;
  }
  return n_nan;
}

float order_unkey_f32(uint32_t key)
{
  float v;
  key = key >> 31 ? key & ~(UINT32_C(1) << 31) : ~key;
  memcpy(&v, &key, sizeof v);
  return v;
}

uint32_t order_select_f32(const call_ctx *cx, uint32_t *x, int64_t k, int64_t n,
                          order_counts *counts)
{
  for (int shift = 21; n > 1 && !call_over(cx);
       shift = shift > 11 ? shift - 11 : 0) { /* 11 bits, 11, 10 */
    int32_t(*count)[2048] = counts->of_11_bits;
    int64_t below = 0, kept = 0;
    memset(counts->of_11_bits, 0, sizeof counts->of_11_bits);
    for (int64_t i = 0; i < n; i++)
      count[i & 1][x[i] >> shift & 0x7ff]++;
    uint32_t b = 0;
    for (; k >= below + count[0][b] + count[1][b]; b++)
      below += count[0][b] + count[1][b];
    k -= below;
    for (int64_t i = 0; i < n; i++) {
      const uint32_t v = x[i];
      x[kept] = v;
      kept += (v >> shift & 0x7ff) == b;
    }
    n = kept;
    if (shift == 0)
      break;
  }
  return x[0];
}

#define TAKE(T)                                                          \
  for (int64_t i = 0; i < n && !(i % 4096 == 0 && call_over(cx));)       \
    for (const int64_t end = i64_min(n, i + 4096); i < end; i++)         \
      ((T *)to)[i] = ((const T *)row)[at[i]];                            \
  return;
void order_take(const call_ctx *cx, size_t item, void *to, const void *row, const int64_t *at,
                int64_t n)
{
  switch (item) {
  case 1: TAKE(uint8_t)
  case 2: TAKE(uint16_t)
  case 4: TAKE(uint32_t)
  case 8: TAKE(uint64_t)
  }
}

uint64_t order_select(const call_ctx *cx, uint64_t *x, int64_t k, int64_t n, order_counts *counts)
{
  uint64_t least = UINT64_MAX, most = 0;
  for (int64_t i = 0; i < n; i++) {
    least = x[i] < least ? x[i] : least;
    most = x[i] > most ? x[i] : most;
  }
  for (int64_t i = 0; i < n; i++)
    x[i] -= least;
  most -= least;
  const int n_bits = most ? 64 - __builtin_clzll((unsigned long long)most) : 0;
  /* From the highest byte on: count, and keep those with the byte of the wanted key. */
  for (int bits = n_bits; n > 1 && bits > 0 && !call_over(cx); bits -= 8) {
    const int shift = bits > 8 ? bits - 8 : 0;
    int64_t(*count)[256] = counts->of_bytes, below = 0, kept = 0;
    memset(counts->of_bytes, 0, sizeof counts->of_bytes);
    for (int64_t i = 0; i < n; i++)
      count[i & 3][x[i] >> shift & 0xff]++;
    uint64_t b = 0;
    for (;; b++) {
      const int64_t here = count[0][b] + count[1][b] + count[2][b] + count[3][b];
      if (k < below + here)
        break;
      below += here;
    }
    k -= below;
    for (int64_t i = 0; i < n; i++) { /* no branch to guess wrong */
      const uint64_t v = x[i];
      x[kept] = v;
      kept += (v >> shift & 0xff) == b;
    }
    n = kept;
  }
  return x[n > 1 ? 0 : k] + least;
}

/* -- Stable sorting ---------------------------------------------------------------------------- */

static void insertion_stable(const call_ctx *cx, keyed *x, int64_t n)
{
  for (int64_t i = 1; i < n && !call_over_at(cx, i); i++) {
    const keyed v = x[i];
    int64_t k = i;
    for (; k > 0 && v.key < x[k - 1].key; k--)
      x[k] = x[k - 1];
    x[k] = v;
  }
}

/* Sort byte by byte from the lowest; bytes that are equal everywhere cost nothing. */
static void radix_stable(const call_ctx *cx, keyed *x, keyed *spare, int64_t n)
{
  uint64_t all_and = UINT64_MAX, all_or = 0;
  keyed *from = x, *to = spare;
  for (int64_t i = 0; i < n; i++)
    all_and &= x[i].key, all_or |= x[i].key;
  const uint64_t varying = all_and ^ all_or;
  for (int shift = 0; shift < 64; shift += 8) {
    if ((varying >> shift & 0xff) == 0)
      continue;
    int64_t count[257] = {0};
    for (int64_t i = 0; i < n; i++) {
      if (call_over_at(cx, i))
        return;
      count[(from[i].key >> shift & 0xff) + 1]++;
    }
    for (int b = 0; b < 256; b++)
      count[b + 1] += count[b];
    for (int64_t i = 0; i < n; i++) {
      if (call_over_at(cx, i))
        return;
      to[count[from[i].key >> shift & 0xff]++] = from[i];
    }
    keyed *swap = from;
    from = to;
    to = swap;
  }
  if (from != x)
    memcpy(x, from, (size_t)n * sizeof *x);
}

void order_stable(const call_ctx *cx, keyed *x, keyed *spare, int64_t n)
{
  if (n <= 48) {
    insertion_stable(cx, x, n);
  } else if (n <= 600) { /* merging beats 8 passes with 256 counters */
    const int64_t half = n / 2;
    order_stable(cx, x, spare, half);
    order_stable(cx, x + half, spare, n - half);
    memcpy(spare, x, (size_t)half * sizeof *x);
    int64_t i = 0, k = half, at = 0;
    while (i < half)
      x[at++] = k < n && x[k].key < spare[i].key ? x[k++] : spare[i++];
  } else {
    radix_stable(cx, x, spare, n);
  }
}

/* -- libstdc++'s steps ------------------------------------------------------------------------- */

enum { SMALL = 16 }; /* its _S_threshold */

static inline bool less(const keyed *a, const keyed *b) { return a->key < b->key; }
static inline void swap(keyed *a, keyed *b)
{
  const keyed v = *a;
  *a = *b;
  *b = v;
}

static void heap_push(keyed *x, int64_t hole, int64_t top, keyed v)
{
  int64_t parent = (hole - 1) / 2;
  while (hole > top && x[parent].key < v.key) {
    x[hole] = x[parent];
    hole = parent;
    parent = (hole - 1) / 2;
  }
  x[hole] = v;
}

/* Move the hole down to a leaf, then v up from there. */
static void heap_adjust(keyed *x, int64_t hole, int64_t n, keyed v)
{
  const int64_t top = hole;
  int64_t child = hole;
  while (child < (n - 1) / 2) {
    child = 2 * (child + 1);
    if (x[child].key < x[child - 1].key)
      child--;
    x[hole] = x[child];
    hole = child;
  }
  if ((n & 1) == 0 && child == (n - 2) / 2) {
    child = 2 * (child + 1);
    x[hole] = x[child - 1];
    hole = child - 1;
  }
  heap_push(x, hole, top, v);
}

static void heap_pop(keyed *x, int64_t n, keyed *to)
{
  const keyed v = *to;
  *to = x[0];
  heap_adjust(x, 0, n, v);
}

/* Move the `middle` smallest to the front, as a heap. */
static void heap_select(const call_ctx *cx, keyed *x, int64_t middle, int64_t n)
{
  for (int64_t parent = (middle - 2) / 2; middle >= 2 && parent >= 0 && !call_over_at(cx, parent);
       parent--)
    heap_adjust(x, parent, middle, x[parent]);
  for (int64_t i = middle; i < n && !call_over_at(cx, i); i++)
    if (less(&x[i], &x[0]))
      heap_pop(x, middle, &x[i]);
}

void order_first(const call_ctx *cx, keyed *x, int64_t middle, int64_t n)
{
  if (middle == 0)
    return;
  heap_select(cx, x, middle, n);
  while (middle > 1 && !call_over_at(cx, middle)) {
    middle--;
    heap_pop(x, middle, &x[middle]);
  }
}

static void median_to_first(keyed *to, keyed *a, keyed *b, keyed *c)
{
  if (less(a, b))
    swap(to, less(b, c) ? b : less(a, c) ? c : a);
  else
    swap(to, less(a, c) ? a : less(b, c) ? c : b);
}

/* Partition around the median of three; returns the start of the upper part, -1 if the call must
 * end. */
static int64_t partition(const call_ctx *cx, keyed *x, int64_t n)
{
  median_to_first(x, x + 1, x + n / 2, x + n - 1);
  int64_t first = 1, last = n;
  for (int64_t step = 0;; step++) {
    if (call_over_at(cx, step))
      return -1;
    while (less(&x[first], &x[0]))
      first++;
    last--;
    while (less(&x[0], &x[last]))
      last--;
    if (first >= last)
      return first;
    swap(&x[first], &x[last]);
    first++;
  }
}

static int depth_limit(int64_t n) { return 2 * (63 - __builtin_clzll((unsigned long long)n)); }

static void sort_loop(const call_ctx *cx, keyed *x, int64_t n, int depth)
{
  while (n > SMALL) {
    if (depth == 0) {
      order_first(cx, x, n, n);
      return;
    }
    depth--;
    const int64_t cut = partition(cx, x, n);
    if (cut < 0)
      return;
    sort_loop(cx, x + cut, n - cut, depth);
    n = cut;
  }
}

void order_sort(const call_ctx *cx, keyed *x, int64_t n)
{
  if (n < 2)
    return;
  sort_loop(cx, x, n, depth_limit(n));
  if (n > POLL_STEPS && call_over(cx)) /* not sorted: insertion would take for ever */
    return;
  insertion_stable(cx, x, n); /* what is left is at most SMALL places away */
}

void order_nth(const call_ctx *cx, keyed *x, int64_t nth, int64_t n)
{
  if (n == 0 || nth >= n)
    return;
  int64_t first = 0, last = n;
  for (int depth = depth_limit(n); last - first > 3; depth--) {
    if (depth == 0) {
      heap_select(cx, x + first, nth + 1 - first, last - first);
      swap(&x[first], &x[nth]);
      return;
    }
    const int64_t part = partition(cx, x + first, last - first), cut = first + part;
    if (part < 0)
      return;
    if (cut <= nth)
      first = cut;
    else
      last = cut;
  }
  insertion_stable(cx, x + first, last - first);
}

/* -- Rows -------------------------------------------------------------------------------------- */

rush_status along_open(call_ctx *cx, rush_tensor *t, int64_t dim, along *out)
{
  along a = {.n_dims = t->n_dims, .n = 1};
  rush_tensor *turned;
  TRY(dim_wrap(cx, dim, t->n_dims, &a.dim));
  if (t->n_dims > 0)
    a.n = t->sizes[a.dim];
  TRY(tensor_dims_last(cx, t, UINT64_C(1) << a.dim, &turned));
  rush_status st = tensor_contiguous(cx, turned, &a.t);
  tensor_release(turned);
  if (st != RUSH_OK)
    return st;
  a.n_rows = 1;
  for (int i = 0; i < t->n_dims - 1; i++)
    a.n_rows *= a.t->sizes[i];
  *out = a;
  return RUSH_OK;
}

void along_close(along *a)
{
  tensor_release(a->t);
  a->t = NULL;
}

rush_status along_rows(call_ctx *cx, const along *a, rush_tensor *out, rush_tensor **rows)
{
  rush_tensor *turned;
  if (tensor_is_contiguous(out) && (a->dim >= a->n_dims - 1 || out->n_elems == a->n_rows)) {
    *rows = tensor_retain(out);
    return RUSH_OK;
  }
  TRY(tensor_dims_last(cx, out, UINT64_C(1) << a->dim, &turned));
  rush_status st = tensor_new(cx, out->dtype, turned->n_dims, turned->sizes, rows);
  tensor_release(turned);
  return st;
}

rush_status along_put_steal(call_ctx *cx, const along *a, rush_tensor *rows, rush_tensor *out,
                            rush_status st)
{
  rush_tensor *turned;
  if (st == RUSH_OK && rows && rows != out &&
      (st = tensor_dims_last(cx, out, UINT64_C(1) << a->dim, &turned)) == RUSH_OK) {
    st = tensor_copy(cx, turned, rows);
    tensor_release(turned);
  }
  tensor_release(rows);
  return st;
}
