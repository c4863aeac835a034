/* ops/kernels/nn/pad.c -- padding.  constant fills and copies; the others copy through one table of
 * source positions per dimension. */
#include "base/threads.h"
#include "ops/kernels/layout/factory.h"
#include "tensor/items.h"

typedef enum pad_mode { PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } pad_mode;

/* Return how many elements a negative padding removes from a dimension of `size`; -pad would wrap
 * for the smallest number. */
static int64_t cut_by(int64_t pad, int64_t size)
{
  return pad >= 0 ? 0 : pad < -size ? size : -pad;
}

/* (self, pad, value) */
rush_kernel kernel_constant_pad_nd;
rush_status kernel_constant_pad_nd(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t pad[2 * TENSOR_MAX_DIMS];
  const int n = call_ints(c, 1, pad, 2 * TENSOR_MAX_DIMS);
  geom from, to;
  TRY(check_overflow(c->cx, c->args[2], t->dtype));
  TRY(tensor_fill(c->cx, call_out(c, 0), c->args[2]));
  geom_of(&from, t);
  geom_of(&to, call_out(c, 0));
  for (int k = 0; 2 * k < n; k++) {
    int d = t->n_dims - 1 - k;
    int64_t skip = cut_by(pad[2 * k], t->sizes[d]), cut = cut_by(pad[2 * k + 1], t->sizes[d]);
    int64_t size = i64_max(t->sizes[d] - skip - cut, 0);
    from.offset += size ? skip * from.strides[d] : 0;
    to.offset += size ? i64_max(pad[2 * k], 0) * to.strides[d] : 0;
    from.sizes[d] = to.sizes[d] = size;
  }
  return geom_copy(c->cx, call_out(c, 0), &to, t, &from);
}

/* Return the source of position i + before of a padded dimension of n elements.  Circular padding
 * wraps around what negative padding leaves. */
static int64_t padded_from(pad_mode mode, int64_t i, int64_t n, int64_t before, int64_t after)
{
  if (mode == PAD_REPLICATE)
    return i64_min(i64_max(i, 0), n - 1);
  if (mode == PAD_CIRCULAR) {
    int64_t first = i64_max(-before, 0), left = n - first - i64_max(-after, 0);
    return left > 0 ? first + ((i - first) % left + left) % left : 0;
  }
  if (i < 0)
    i = -i;
  return i >= n ? 2 * (n - 1) - i : i;
}

typedef struct table_pad {
  const rush_tensor *from;
  rush_tensor *to;
  const int64_t *source[TENSOR_MAX_DIMS]; /* byte offsets into `from`, by position of `to` */
  int64_t first, last; /* positions of the last dimension that are contiguous in `from` */
  const call_ctx *cx;
} table_pad;

#define PAD_ROW(type)                                                      \
  for (int64_t i = 0; i < a->first && !call_over_at(a->cx, i); i++)        \
    *(type *)(d + i * ds) = *(const type *)(s + where[i]);                 \
  for (int64_t i = a->last; i < n && !call_over_at(a->cx, i); i++)         \
    *(type *)(d + i * ds) = *(const type *)(s + where[i]);

static void pad_rows(void *p, int64_t begin, int64_t end)
{
  const table_pad *a = p;
  int last = a->to->n_dims - 1;
  size_t item = tensor_item_bytes(a->to);
  int64_t n = a->to->sizes[last], ds = a->to->strides[last] * (int64_t)item;
  const int64_t *where = a->source[last];
  for (int64_t r = begin; r < end; r++) {
    char *d = a->to->data;
    const char *s = a->from->data;
    int64_t rest = r;
    for (int k = last - 1; k >= 0; k--) {
      int64_t i = rest % a->to->sizes[k];
      rest /= a->to->sizes[k];
      d += i * a->to->strides[k] * (int64_t)item;
      s += a->source[k][i];
    }
    if (a->first < a->last)
      (void)bytes_copy(a->cx, d + a->first * ds, s + where[a->first],
                       (size_t)(a->last - a->first) * item);
    BY_ITEM(item, PAD_ROW)
  }
}

static rush_status pad_by_table(rush_call *c, pad_mode mode)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *r = call_out(c, 0);
  const int64_t *sizes = r->sizes;
  int64_t pad[2 * TENSOR_MAX_DIMS], total = 0;
  const int n = call_ints(c, 1, pad, 2 * TENSOR_MAX_DIMS);
  if (mode != PAD_CIRCULAR && t->dtype == RUSH_BOOL)
    return call_fail_type(c->cx, "NotImplementedError", "\"%s_pad%dd\" not implemented for 'Bool'",
                          mode == PAD_REFLECT ? "reflection" : "replication", n / 2);
  if (r->n_elems == 0) /* its other sizes may be too large for tables */
    return RUSH_OK;
  for (int d = 0; d < t->n_dims; d++)
    total += sizes[d];
  int64_t *table = mem_alloc(c->cx->ctx, (size_t)total * sizeof *table), *at = table;
  rush_status s = table ? RUSH_OK : call_nomem(c->cx);
  table_pad a = {.from = t, .to = r, .cx = c->cx};
  for (int d = 0; d < t->n_dims && s == RUSH_OK; d++) {
    int k = t->n_dims - 1 - d;
    int64_t before = 2 * k < n ? pad[2 * k] : 0, after = 2 * k < n ? pad[2 * k + 1] : 0;
    int64_t stride = t->strides[d] * (int64_t)tensor_item_bytes(t);
    a.source[d] = at;
    for (int64_t i = 0; i < sizes[d] && (s = call_poll_at(c->cx, i)) == RUSH_OK; i++)
      *at++ = padded_from(mode, i - before, t->sizes[d], before, after) * stride;
  }
  if (s == RUSH_OK) {
    int64_t row = sizes[t->n_dims - 1], in_row = t->sizes[t->n_dims - 1];
    if (t->strides[t->n_dims - 1] == 1 && r->strides[t->n_dims - 1] == 1 && n) {
      a.first = i64_min(i64_max(pad[0], 0), row); /* the row may end before the input begins */
      a.last = i64_max(i64_min(row, in_row + pad[0]), a.first);
    }
    s = parallel_for(c->cx, r->n_elems / row, i64_max(16384 / row, 1), pad_rows, &a);
  }
  mem_free(c->cx->ctx, table, (size_t)total * sizeof *table);
  return s;
}

rush_kernel kernel_reflection_pad, kernel_replication_pad, kernel_pad_circular;
rush_status kernel_reflection_pad(rush_call *c) { return pad_by_table(c, PAD_REFLECT); }
rush_status kernel_replication_pad(rush_call *c) { return pad_by_table(c, PAD_REPLICATE); }
rush_status kernel_pad_circular(rush_call *c) { return pad_by_table(c, PAD_CIRCULAR); }
