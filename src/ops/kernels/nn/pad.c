/* ops/kernels/nn/pad.c -- padding.  constant fills and copies; the others copy through one table of
 * source positions per dimension. */
#include "base/threads.h"
#include "ops/kernels/layout/factory.h"
#include "tensor/items.h"

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } pad_mode;

/* Compute sizes after padding: pad has (before, after) pairs from the last dimension on. */
static rush_status padded_sizes(rush_call *c, const rush_tensor *t, int n, const int64_t *pad,
                                int64_t *sizes)
{
  if (n % 2)
    return call_fail(c->cx, "Length of pad must be even but instead it equals %d", n);
  if (n > 2 * t->n_dims)
    return call_fail(
      c->cx,
      "Length of pad should be no more than twice the number of dimensions of the input. "
      "Pad length is %dwhile the input has %ddimensions.",
      n, t->n_dims);
  for (int i = 0; i < t->n_dims; i++) {
    int k = t->n_dims - 1 - i;
    sizes[i] = t->sizes[i];
    if (2 * k >= n)
      continue;
    if (__builtin_add_overflow(sizes[i], pad[2 * k], &sizes[i]) ||
        __builtin_add_overflow(sizes[i], pad[2 * k + 1], &sizes[i]) || sizes[i] < 0)
      return call_fail(
        c->cx,
        "The input size %lld, plus negative padding %lld and %lld resulted in a negative "
        "output size, which is invalid. Check dimension %d of your input.",
        (long long)t->sizes[i], (long long)pad[2 * k], (long long)pad[2 * k + 1], i);
  }
  return RUSH_OK;
}

/* Make an uninitialised tensor, contiguous or channels last as t is. */
static rush_status new_padded(rush_call *c, const rush_tensor *t, int64_t *sizes, rush_tensor **out)
{
  rush_tensor shape = {.n_dims = t->n_dims, .dtype = t->dtype, .sizes = sizes};
  bool last = tensor_prefers_channels_last(t);
  return tensor_new_format(c->cx, &shape, t->dtype,
                           !last            ? FORMAT_CONTIGUOUS
                           : t->n_dims == 4 ? FORMAT_CHANNELS_LAST
                                            : FORMAT_CHANNELS_LAST_3D,
                           out);
}

/* Return how many elements a negative padding removes from a dimension of `size`; -pad would wrap
 * for the smallest number. */
static int64_t cut_by(int64_t pad, int64_t size)
{
  return pad >= 0 ? 0 : pad < -size ? size : -pad;
}

static rush_status pad_constant(rush_call *c, int n, const int64_t *pad, rush_value value)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t sizes[TENSOR_MAX_DIMS];
  geom from, to;
  TRY(padded_sizes(c, t, n, pad, sizes));
  rush_tensor *r;
  TRY(check_overflow(c->cx, value, t->dtype));
  TRY(new_padded(c, t, sizes, &r));
  rush_status s = tensor_fill(c->cx, r, value);
  geom_of(&from, t);
  geom_of(&to, r);
  for (int k = 0; 2 * k < n; k++) {
    int d = t->n_dims - 1 - k;
    int64_t skip = cut_by(pad[2 * k], t->sizes[d]), cut = cut_by(pad[2 * k + 1], t->sizes[d]);
    int64_t size = i64_max(t->sizes[d] - skip - cut, 0);
    from.offset += size ? skip * from.strides[d] : 0;
    to.offset += size ? i64_max(pad[2 * k], 0) * to.strides[d] : 0;
    from.sizes[d] = to.sizes[d] = size;
  }
  if (s == RUSH_OK)
    s = geom_copy(c->cx, r, &to, t, &from);
  return call_return_made_steal(c, 0, r, s);
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

static rush_status check_input(rush_call *c, const rush_tensor *t, int n)
{
  sizes_text buf;
  bool bad = t->n_dims != n / 2 + 1 && t->n_dims != n / 2 + 2;
  for (int d = t->n_dims == n / 2 + 2; d < t->n_dims && !bad; d++)
    bad = t->sizes[d] == 0;
  if (bad)
    return call_fail(c->cx,
                     "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other "
                     "non-zero dimensions for input, but got: %s",
                     n / 2 + 1, n / 2 + 2, sizes_print(&buf, t->n_dims, t->sizes));
  return RUSH_OK;
}

static rush_status check_mode(rush_call *c, pad_mode mode, const rush_tensor *t, int n,
                              const int64_t *pad)
{
  sizes_text buf;
  if (t->dtype == RUSH_BOOL)
    return call_fail_type(c->cx, "NotImplementedError", "\"%s_pad%dd\" not implemented for 'Bool'",
                          mode == PAD_REFLECT ? "reflection" : "replication", n / 2);
  for (int k = 0; 2 * k < n; k++) {
    int d = t->n_dims - 1 - k;
    int64_t size = t->sizes[d], a = pad[2 * k], b = pad[2 * k + 1];
    if (mode == PAD_REFLECT && (a >= size || b >= size))
      return call_fail(
        c->cx,
        "Argument #4: Padding size should be less than the corresponding input dimension, "
        "but got: padding (%lld, %lld) at dimension %d of input %s",
        (long long)a, (long long)b, d, sizes_print(&buf, t->n_dims, t->sizes));
    if (size + a + b < 1)
      return call_fail(c->cx, "input (W: %lld) is too small. Calculated output W: %lld",
                       (long long)size, (long long)(size + a + b));
  }
  return RUSH_OK;
}

static rush_status check_circular(rush_call *c, const rush_tensor *t, int n, const int64_t *pad)
{
  const int dims = t->n_dims;
  if (n != 2 * (dims - 1) && n != 2 * (dims - 2))
    return call_fail(c->cx,
                     "Invalid padding size, expected 1 or 2 non-padded dimensions, which would be "
                     "equivalent to padding of "
                     "length %d or %d respectively but got %d",
                     2 * (dims - 1), 2 * (dims - 2), n);
  for (int k = 0; 2 * k < n; k++) {
    const int64_t size = t->sizes[dims - 1 - k], a = pad[2 * k], b = pad[2 * k + 1];
    if (a > size || b > size)
      return call_fail(c->cx, "Padding value causes wrapping around more than once.");
    if (a < -size || b < -size - i64_min(a, 0))
      return call_fail(c->cx, "Negative padding value is resulting in an empty dimension");
  }
  return RUSH_OK;
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

static rush_status pad_by_table(rush_call *c, pad_mode mode, int n, const int64_t *pad)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t sizes[TENSOR_MAX_DIMS], total = 0;
  TRY(mode == PAD_CIRCULAR ? check_circular(c, t, n, pad) : check_input(c, t, n));
  TRY(padded_sizes(c, t, n, pad, sizes));
  if (mode != PAD_CIRCULAR)
    TRY(check_mode(c, mode, t, n, pad));
  rush_tensor *r;
  TRY(mode == PAD_CIRCULAR ? tensor_new(c->cx, t->dtype, t->n_dims, sizes, &r)
                           : new_padded(c, t, sizes, &r));
  if (r->n_elems == 0) /* its other sizes may be too large for tables */
    return call_return_made_steal(c, 0, r, RUSH_OK);
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
  return call_return_made_steal(c, 0, r, s);
}

static rush_status pad(rush_call *c, pad_mode mode, rush_value value)
{
  int64_t pad[2 * TENSOR_MAX_DIMS];
  int n = call_ints(c, 1, pad, 2 * TENSOR_MAX_DIMS);
  if (n < 0)
    return call_unsupported(c->cx, "pad: more than %d dimensions", TENSOR_MAX_DIMS);
  if (mode == PAD_CONSTANT)
    return pad_constant(c, n, pad, value);
  return pad_by_table(c, mode, n, pad);
}

rush_kernel kernel_pad, kernel_pad_enum, kernel_constant_pad_nd, kernel_reflection_pad,
  kernel_replication_pad, kernel_pad_circular;

/* Run pad and _pad_enum: args[3] is the value. */
static rush_status pad_checked(rush_call *c, pad_mode mode)
{
  static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
  int64_t pads[2 * TENSOR_MAX_DIMS];
  int n = call_ints(c, 1, pads, 2 * TENSOR_MAX_DIMS), dims = call_tensor(c, 0)->n_dims;
  if (n % 2)
    return call_fail(c->cx, "Padding length must be divisible by 2");
  if (n < 0 || n > 2 * dims)
    return call_fail(
      c->cx,
      "Padding length should be less than or equal to two times the input dimension but "
      "got padding length %zu and input of dimension %d",
      call_list(c, 1)->n, dims);
  if (mode != PAD_CONSTANT && !call_is_none(c, 3) && call_float(c, 3) != 0)
    return call_fail(c->cx, "Padding mode \"%s\" doesn't take in value argument", names[mode]);
  if (mode != PAD_CONSTANT && (n < 2 || n > 6 || (dims != n / 2 + 1 && dims != n / 2 + 2)))
    return call_fail_type(c->cx, "NotImplementedError",
                          "Padding size %d is not supported for %dD input tensor.", n, dims);
  return pad(c, mode, call_is_none(c, 3) ? value_int(0) : c->args[3]);
}

rush_status kernel_pad(rush_call *c)
{
  static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
  for (int m = 0; m < 4; m++)
    if (str_is(call_str(c, 2), names[m]))
      return pad_checked(c, (pad_mode)m);
  return call_fail_type(c->cx, "NotImplementedError", "Unrecognised padding mode %.*s",
                        (int)call_str(c, 2).len, call_str(c, 2).p);
}

rush_status kernel_pad_enum(rush_call *c)
{
  static const pad_mode modes[] = {PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR,
                                   PAD_CONSTANT}; /* PyTorch's numbers */
  int64_t m = call_int(c, 2);
  if (m < 0 || m > 3)
    return call_fail_type(
      c->cx, "NotImplementedError", "Padding size %zu is not supported for %dD input tensor.",
      call_list(c, 1)->n, call_tensor(c, 0)->n_dims); /* PyTorch's words for an unknown mode */
  return pad_checked(c, modes[m]);
}

/* Run reflection_pad1d and others, whose names have their number of dimensions. */
static rush_status pad_named(rush_call *c, pad_mode mode)
{
  const char *name = strrchr(c->op->schema->name, ':');
  int want = 2 * (name[strlen(name) - 2] - '0'), n = (int)call_list(c, 1)->n;
  if (n != want)
    return call_fail(c->cx, "padding size is expected to be %d, but got: %d", want, n);
  return pad(c, mode, value_none());
}

rush_status kernel_constant_pad_nd(rush_call *c) { return pad(c, PAD_CONSTANT, c->args[2]); }
rush_status kernel_reflection_pad(rush_call *c) { return pad_named(c, PAD_REFLECT); }
rush_status kernel_replication_pad(rush_call *c) { return pad_named(c, PAD_REPLICATE); }
rush_status kernel_pad_circular(rush_call *c) { return pad(c, PAD_CIRCULAR, value_none()); }
