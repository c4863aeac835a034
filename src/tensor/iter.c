/* tensor/iter.c -- iterating over strided tensors together (iter.h): broadcasting, dropping,
 * sorting and merging dimensions.
 *
 * Dimensions of size 1 are removed, the rest are sorted by the first operand's strides, and
 * neighbours are merged if they are contiguous for all operands.  Most iterations end with one
 * dimension, and the loop is called once. Large iterations are split into ranges for the
 * threads. */
#include "tensor/iter.h"

#include "base/threads.h"

bool sizes_broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *n_out, int64_t *out)
{
  int n = na > nb ? na : nb;
  if (n > TENSOR_MAX_DIMS)
    return false;
  /* Runs from the last dimension on, so that out may be a if a is the longer one; else b is
   * copied. */
  int64_t tmp[TENSOR_MAX_DIMS];
  for (int i = 1; i <= n; i++) {
    int64_t x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
    if (x != y && x != 1 && y != 1)
      return false;
    tmp[n - i] = x == 1 ? y : x;
  }
  memcpy(out, tmp, (size_t)n * sizeof *out);
  *n_out = n;
  return true;
}

void iter_init(tensor_iter *it, int n_dims, const int64_t *sizes)
{
  iter_init_far(it, n_dims, sizes, NULL);
}

void iter_init_far(tensor_iter *it, int n_dims, const int64_t *sizes, int64_t *far)
{
  it->n_ops = 0;
  it->n_dims = n_dims;
  it->pitch = n_dims ? n_dims : 1;
  it->far = far;
  it->n_elems = 1;
  for (int i = 0; i < n_dims; i++) {
    it->sizes[i] = sizes[n_dims - 1 - i];
    it->n_elems *= it->sizes[i];
  }
}

void iter_add(tensor_iter *it, const rush_tensor *t)
{
  int64_t item = (int64_t)tensor_item_bytes(t);
  int64_t *strides = iter_strides_mut(it, it->n_ops);
  ASSERT(it->n_ops < ITER_MAX && (it->far || iter_n_strides(it->n_ops + 1, it->pitch) <= ITER_ROOM),
         "an operand too many");
  it->data[it->n_ops++] = t->data;
  for (int i = 0; i < it->n_dims; i++) {
    int d = t->n_dims - 1 - i;
    bool there = d >= 0 && (t->sizes[d] != 1 || it->sizes[i] == 1);
    strides[i] = there ? t->strides[d] * item : 0;
  }
  if (it->n_dims == 0)
    strides[0] = item;
}

/* Compare: > 0: dimension b should be inside a; < 0: outside; 0: no operand decides. */
static int compare_dims(const tensor_iter *it, int a, int b)
{
  for (int op = 0; op < it->n_ops; op++) {
    int64_t sa = iter_strides(it, op)[a], sb = iter_strides(it, op)[b];
    if (sa == 0 || sb == 0)
      continue;
    sa = sa < 0 ? -sa : sa, sb = sb < 0 ? -sb : sb;
    if (sa != sb)
      return sa < sb ? -1 : 1;
    if (it->sizes[a] > it->sizes[b])
      return 1;
  }
  return 0;
}

void iter_layout(const tensor_iter *it, int64_t *strides)
{
  int order[TENSOR_MAX_DIMS];
  int64_t next = 1;
  for (int i = 0; i < it->n_dims; i++) {
    int at = i;
    order[i] = i;
    for (int k = i - 1; k >= 0; k--) {
      int c = compare_dims(it, order[k], order[at]);
      if (c < 0)
        break;
      if (c > 0) {
        int t = order[k];
        order[k] = order[at], order[at] = t;
        at = k;
      }
    }
  }
  for (int i = 0; i < it->n_dims; i++) {
    strides[it->n_dims - 1 - order[i]] = next;
    next *= i64_max(it->sizes[order[i]], 1);
  }
}

static void swap_dims(tensor_iter *it, int a, int b)
{
  int64_t t = it->sizes[a];
  it->sizes[a] = it->sizes[b], it->sizes[b] = t;
  for (int op = 0; op < it->n_ops; op++) {
    int64_t *strides = iter_strides_mut(it, op);
    t = strides[a];
    strides[a] = strides[b], strides[b] = t;
  }
}

static void drop_ones(tensor_iter *it)
{
  int n = 0;
  for (int i = 0; i < it->n_dims; i++) {
    if (it->sizes[i] == 1)
      continue;
    if (n != i)
      swap_dims(it, n, i);
    n++;
  }
  it->n_dims = n;
}

static bool can_merge(const tensor_iter *it, int inner, int outer)
{
  for (int op = 0; op < it->n_ops; op++)
    if (iter_strides(it, op)[outer] != iter_strides(it, op)[inner] * it->sizes[inner])
      return false;
  return true;
}

static void merge_dims(tensor_iter *it)
{
  int last = 0;
  for (int i = 1; i < it->n_dims; i++) {
    if (can_merge(it, last, i)) {
      it->sizes[last] *= it->sizes[i];
    } else if (++last != i) {
      it->sizes[last] = it->sizes[i];
      for (int op = 0; op < it->n_ops; op++)
        iter_strides_mut(it, op)[last] = iter_strides(it, op)[i];
    }
  }
  it->n_dims = last + 1;
}

void iter_finish(tensor_iter *it)
{
  if (it->n_elems != 0)
    drop_ones(it);
  if (it->n_dims == 0) {
    it->n_dims = 1;
    it->sizes[0] = 1;
    return;
  }
  for (int i = 1; i < it->n_dims; i++) {
    int moving = i;
    for (int j = i - 1; j >= 0; j--) {
      int c = compare_dims(it, j, moving);
      if (c < 0)
        break;
      if (c > 0) {
        swap_dims(it, j, moving);
        moving = j;
      }
    }
  }
  merge_dims(it);
}

void iter_widen(tensor_iter *it)
{
  for (int d = 1; d < it->n_dims && it->sizes[0] < 8; d++)
    if (it->sizes[d] >= 8)
      swap_dims(it, 0, d);
}

#define IN_ORDER 16384 /* elements of a long loop on one thread between looks at the clock */

typedef struct run_arg {
  const tensor_iter *it;
  iter_loop *fn;
  void *arg;
} run_arg;

/* Run elements [begin, end) in iteration order: compute the coordinates once, then count like an
 * odometer. */
static void run_range(void *p, int64_t begin, int64_t end)
{
  const run_arg *r = p;
  const tensor_iter *it = r->it;
  const int64_t *strides = iter_strides(it, 0);
  const int pitch = it->pitch;
  int64_t coord[TENSOR_MAX_DIMS], rest = begin;
  char *ptrs[ITER_MAX];
  for (int op = 0; op < it->n_ops; op++)
    ptrs[op] = it->data[op];
  int64_t inner[ITER_MAX];
  for (int op = 0; op < it->n_ops; op++)
    inner[op] = strides[op * pitch];
  for (int d = 0; d < it->n_dims; d++) {
    coord[d] = rest % it->sizes[d];
    rest /= it->sizes[d];
    for (int op = 0; op < it->n_ops; op++)
      ptrs[op] += coord[d] * strides[op * pitch + d];
  }
  while (begin < end) {
    int64_t n = i64_min(it->sizes[0] - coord[0], end - begin);
    r->fn(r->arg, n, ptrs, inner);
    begin += n;
    if (begin >= end)
      break;
    for (int op = 0; op < it->n_ops; op++)
      ptrs[op] -= coord[0] * inner[op];
    coord[0] = 0;
    for (int d = 1; d < it->n_dims; d++) {
      bool wrap = ++coord[d] == it->sizes[d];
      int64_t by = wrap ? 1 - it->sizes[d] : 1;
      for (int op = 0; op < it->n_ops; op++)
        ptrs[op] += by * strides[op * pitch + d];
      if (!wrap)
        break;
      coord[d] = 0;
    }
  }
}

rush_status iter_run(call_ctx *cx, const tensor_iter *it, int64_t grain, iter_loop *fn, void *arg)
{
  run_arg r = {it, fn, arg};
  if (it->n_elems == 0)
    return RUSH_OK;
  if (it->n_elems <= grain) {
    if (UNLIKELY(it->n_elems > IN_ORDER && call_is_watched(cx))) /* a loop that must run in order */
      return serial_for(cx, it->n_elems, IN_ORDER, run_range, &r);
    run_range(&r, 0, it->n_elems);
    return RUSH_OK;
  }
  return parallel_for(cx, it->n_elems, grain, run_range, &r);
}
