/* ops/kernels/index_walk.c -- moves elements to or from the positions that an index chooses. Tasks
 * run over (block position, index), so neighbouring indices share cache lines; blocks that are
 * dense on both sides move with memcpy. If elements are combined (index_add), all indices of one
 * block position stay on one thread in order, because two may have the same target and the sum must
 * not depend on threads. */
#include "ops/kernels/index_walk.h"

#include "base/threads.h"
#include "tensor/items.h"

#define GRAIN_BYTES 131072

void gather_elems(size_t item, char *d, int64_t ds, const char *s, const int64_t *at, int64_t n)
{
#define GATHER(type)              \
  for (int64_t i = 0; i < n; i++) \
    *(type *)(d + i * ds) = *(const type *)(s + at[i]);
  BY_ITEM(item, GATHER)
}

void scatter_elems(size_t item, char *d, const int64_t *at, const char *s, int64_t ss, int64_t n)
{
#define SCATTER(type)             \
  for (int64_t i = 0; i < n; i++) \
    *(type *)(d + at[i]) = *(const type *)(s + i * ss);
  BY_ITEM(item, SCATTER)
}

void walk_init(walk *w, size_t item, void *to, const void *from)
{
  w->item = item;
  w->n = 1;
  w->to = w->from = NULL;
  w->to_step = w->from_step = 0;
  w->combine = NULL;
  w->block.n_ops = 2;
  w->block.n_dims = 0;
  w->block.pitch = TENSOR_MAX_DIMS; /* dimensions are added one by one */
  w->block.far = NULL;
  w->block.n_elems = 1;
  w->block.data[0] = to;
  w->block.data[1] = (char *)(uintptr_t)from;
  *iter_strides_mut(&w->block, 0) = *iter_strides_mut(&w->block, 1) = (int64_t)item;
}

void walk_dim(walk *w, int64_t size, int64_t to_stride, int64_t from_stride)
{
  int d = w->block.n_dims++;
  w->block.sizes[d] = size;
  iter_strides_mut(&w->block, 0)[d] = to_stride;
  iter_strides_mut(&w->block, 1)[d] = from_stride;
  w->block.n_elems *= size;
}

/* True if the block's dimension 0 is dense on both sides, so that it moves at once. */
static bool has_piece(const walk *w)
{
  int64_t item = (int64_t)w->item;
  return w->block.sizes[0] > 1 && *iter_strides(&w->block, 0) == item &&
         *iter_strides(&w->block, 1) == item;
}

static void move_pieces(const walk *w, char *d, const char *s, int64_t begin, int64_t end)
{
  size_t bytes = (size_t)w->block.sizes[0] * w->item;
  for (int64_t i = begin; i < end; i++) {
    char *to = d + (w->to ? w->to[i] : i * w->to_step);
    const char *from = s + (w->from ? w->from[i] : i * w->from_step);
    if (w->combine)
      w->combine(to, NULL, (int64_t)w->item, from, (int64_t)w->item, w->block.sizes[0]);
    else
      memcpy(to, from, bytes);
  }
}

static void move_between(const walk *w, char *d, const char *s, int64_t begin, int64_t end)
{
  for (int64_t i = begin; i < end; i++)
    if (w->combine)
      w->combine(d + w->to[i], NULL, 0, s + w->from[i], 0, 1);
    else
      memcpy(d + w->to[i], s + w->from[i], w->item);
}

static void move_elems(const walk *w, char *d, const char *s, int64_t begin, int64_t end)
{
  int64_t n = end - begin;
  if (w->to && w->from) {
    move_between(w, d, s, begin, end);
    return;
  }
  d += begin * w->to_step;
  s += begin * w->from_step;
  if (w->combine)
    w->combine(d, w->to ? w->to + begin : NULL, w->to_step, s, w->from_step, n);
  else if (w->from)
    gather_elems(w->item, d, w->to_step, s, w->from + begin, n);
  else if (w->to)
    scatter_elems(w->item, d, w->to + begin, s, w->from_step, n);
  else
    copy_elems(w->item, d, w->to_step, s, w->from_step, n);
}

/* Positions count indices first, then the rest of the block: neighbours share cache lines. */
static void walk_range(void *p, int64_t begin, int64_t end)
{
  const walk *w = p;
  const tensor_iter *it = &w->block;
  const int64_t *to_strides = iter_strides(it, 0), *from_strides = iter_strides(it, 1);
  int first = has_piece(w) ? 1 : 0;
  while (begin < end) {
    int64_t i = begin % w->n, rest = begin / w->n, n = i64_min(w->n - i, end - begin);
    char *d = it->data[0];
    const char *s = it->data[1];
    for (int k = first; k < it->n_dims; k++) {
      int64_t at = rest % it->sizes[k];
      rest /= it->sizes[k];
      d += at * to_strides[k];
      s += at * from_strides[k];
    }
    (first ? move_pieces : move_elems)(w, d, s, i, i + n);
    begin += n;
  }
}

typedef struct whole {
  const walk *w;
} whole;

/* Process all indices of one block position: elements with the same target stay on one thread. */
static void walk_whole(void *p, int64_t begin, int64_t end)
{
  const walk *w = ((const whole *)p)->w;
  walk_range((void *)(uintptr_t)w, begin * w->n, end * w->n);
}

rush_status walk_run(call_ctx *cx, walk *w)
{
  if (w->n == 0 || w->block.n_elems == 0)
    return RUSH_OK;
  iter_finish(&w->block);
  int64_t n_blocks = w->block.n_elems / (has_piece(w) ? w->block.sizes[0] : 1);
  int64_t bytes = w->block.n_elems / n_blocks * (int64_t)w->item, total = n_blocks * w->n;
  if (w->to) {
    whole a = {w};
    return parallel_for(cx, n_blocks, i64_max(GRAIN_BYTES / (bytes * w->n), 1), walk_whole, &a);
  }
  if (total * bytes <= GRAIN_BYTES) {
    walk_range(w, 0, total);
    return RUSH_OK;
  }
  return parallel_for(cx, total, i64_max(GRAIN_BYTES / bytes, 1), walk_range, w);
}
