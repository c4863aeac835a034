/* tensor/tensor.c -- tensor headers: creation, views, copies, comparison, resizing.
 *
 * A header and its sizes, strides and small data are one block (tensor_int.h).  Flags for the
 * memory layout (contiguous, channels last) are computed when a header is made, since kernels read
 * them in every call. */
#include "tensor/tensor_int.h"

#include <stdio.h>

#include "tensor/sparse.h"

/* -- Geometry ---------------------------------------------------------------------------------- */

void strides_contiguous(int n_dims, const int64_t *sizes, int64_t *strides)
{
  int64_t s = 1;
  for (int i = n_dims - 1; i >= 0; i--) {
    strides[i] = s;
    s = (int64_t)((uint64_t)s *
                  (uint64_t)i64_max(sizes[i], 1)); /* wraps for sizes that sizes_numel refuses */
  }
}

bool sizes_numel(int n_dims, const int64_t *sizes, int64_t *out)
{
  int64_t n = 1;
  bool empty = false, overflow = false;
  for (int i = 0; i < n_dims; i++) {
    if (sizes[i] < 0)
      return false;
    empty |= sizes[i] == 0;
    /* An overflow is allowed if another size is 0, but strides must not overflow either. */
    overflow |= __builtin_mul_overflow(n, i64_max(sizes[i], 1), &n);
  }
  if (overflow)
    return false;
  *out = empty ? 0 : n;
  return true;
}

static bool is_contiguous(const rush_tensor *t)
{
  if (t->n_elems == 0)
    return true;
  int64_t expected = 1;
  for (int i = t->n_dims - 1; i >= 0; i--) {
    if (t->sizes[i] == 1)
      continue;
    if (t->strides[i] != expected)
      return false;
    expected *= t->sizes[i];
  }
  return true;
}

static void note_contiguous(rush_tensor *t)
{
  if (is_contiguous(t))
    t->h.flags |= TENSOR_CONTIGUOUS;
  else
    t->h.flags &= (uint8_t)~TENSOR_CONTIGUOUS;
}

bool strides_are_dense(int n_dims, const int64_t *sizes, const int64_t *strides)
{
  int order[TENSOR_MAX_DIMS], n = 0;
  for (int i = 0; i < n_dims; i++) {
    if (sizes[i] == 0)
      return true;
    if (sizes[i] == 1)
      continue;
    int j = n++;
    for (; j > 0 && strides[order[j - 1]] > strides[i]; j--)
      order[j] = order[j - 1];
    order[j] = i;
  }
  uint64_t expected = 1; /* sizes of what was not made yet may wrap */
  for (int i = 0; i < n; i++) {
    if ((uint64_t)strides[order[i]] != expected)
      return false;
    expected *= (uint64_t)sizes[order[i]];
  }
  return true;
}

bool tensor_is_dense(const rush_tensor *t)
{
  return tensor_is_contiguous(t) || strides_are_dense(t->n_dims, t->sizes, t->strides);
}

bool tensor_is_channels_last(const rush_tensor *t)
{
  static const int8_t order[2][5] = {{1, 3, 2, 0}, {1, 4, 3, 2, 0}};
  if (t->n_dims != 4 && t->n_dims != 5)
    return false;
  int64_t expected = 1;
  for (int i = 0; i < t->n_dims; i++) {
    int d = order[t->n_dims - 4][i];
    if (t->sizes[d] == 1)
      continue;
    if (t->strides[d] != expected)
      return false;
    expected *= t->sizes[d];
  }
  return true;
}

bool tensor_prefers_channels_last(const rush_tensor *t)
{
  static const int8_t order[2][5] = {{1, 3, 2, 0}, {1, 4, 3, 2, 0}};
  if ((t->n_dims != 4 && t->n_dims != 5) || t->strides[1] == 0)
    return false;
  int64_t least = 0;
  for (int i = 0; i < t->n_dims; i++) {
    const int d = order[t->n_dims - 4][i];
    if (t->sizes[d] == 0 || t->strides[d] < least || (d == 0 && least == t->strides[1]))
      return false;
    least = t->strides[d] * t->sizes[d];
  }
  return true;
}

bool tensor_same_geometry(const rush_tensor *a, const rush_tensor *b)
{
  size_t bytes = a->n_dims * sizeof(int64_t);
  return a->n_dims == b->n_dims && memcmp(a->sizes, b->sizes, bytes) == 0 &&
         memcmp(a->strides, b->strides, bytes) == 0;
}

/* Compute the first and one-past-last byte of the elements.  Strides are never negative. */
static void byte_range(const rush_tensor *t, const char **lo, const char **hi)
{
  int64_t last = 0, low = 0;
  for (int i = 0; i < t->n_dims; i++) {
    int64_t reach = (t->sizes[i] - 1) * t->strides[i];
    *(reach < 0 ? &low : &last) += reach;
  }
  int64_t item = (int64_t)tensor_item_bytes(t);
  *lo = (const char *)t->data + low * item;
  *hi = (const char *)t->data + (last + 1) * item;
}

bool tensor_overlaps(const rush_tensor *a, const rush_tensor *b)
{
  if (a->n_elems == 0 || b->n_elems == 0)
    return false;
  const char *alo, *ahi, *blo, *bhi;
  byte_range(a, &alo, &ahi);
  byte_range(b, &blo, &bhi);
  return alo < bhi && blo < ahi;
}

bool tensor_overlaps_itself(const rush_tensor *t)
{
  for (int i = 0; i < t->n_dims; i++)
    if (t->strides[i] == 0 && t->sizes[i] > 1)
      return true;
  return false;
}

rush_status dim_wrap(call_ctx *cx, int64_t dim, int n_dims, int *out)
{
  int64_t n = n_dims ? n_dims : 1;
  if (UNLIKELY(dim < -n || dim >= n))
    return call_fail_type(
      cx, "IndexError",
      "Dimension out of range (expected to be in range of [%lld, %lld], but got "
      "%lld)",
      (long long)-n, (long long)n - 1, (long long)dim);
  *out = (int)(dim < 0 ? dim + n : dim);
  return RUSH_OK;
}

const char *sizes_print(sizes_text *buf, int n, const int64_t *sizes)
{
  size_t at = 0;
  buf->s[at++] = '[';
  for (int i = 0; i < n && at + 32 < sizeof buf->s; i++)
    at += (size_t)snprintf(buf->s + at, 32, "%s%lld", i ? ", " : "", (long long)sizes[i]);
  buf->s[at++] = ']';
  buf->s[at] = 0;
  return buf->s;
}

/* Compute strides for sizes in the order of t's strides: TensorIterator's order, which keeps the
 * position of ambiguous (0) strides. */
static void strides_like(const rush_tensor *t, int64_t *out)
{
  int perm[TENSOR_MAX_DIMS], n = t->n_dims;
  for (int i = 0; i < n; i++)
    perm[i] = n - 1 - i;
  for (int i = 1; i < n; i++) {
    int at = i;
    for (int j = i - 1; j >= 0; j--) {
      int64_t a = t->strides[perm[j]], b = t->strides[perm[at]];
      if (a == 0 || b == 0)
        continue;
      if (a < b)
        break;
      if (a == b && t->sizes[perm[j]] <= t->sizes[perm[at]])
        continue;
      int tmp = perm[j];
      perm[j] = perm[at], perm[at] = tmp;
      at = j;
    }
  }
  int64_t s = 1;
  for (int i = 0; i < n; i++) {
    out[perm[i]] = s;
    s *= i64_max(t->sizes[perm[i]], 1);
  }
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Make a header without storage; the caller sets sizes and strides. */
static rush_tensor *make_header(context *c, int dtype, int n_dims)
{
  rush_tensor *t = block_alloc(c);
  if (!t)
    return NULL;
  heap_init(&t->h, c, RUSH_TAG_TENSOR);
  t->dtype = (int16_t)dtype;
  t->n_dims = (uint16_t)n_dims;
  atomic_init(&t->number, 0);
  t->offset = 0;
  t->st = NULL;
  atomic_init(&t->extra, NULL);
  t->sizes = t->inline_dims;
  t->strides = t->inline_dims + TENSOR_INLINE_DIMS;
  if (UNLIKELY(n_dims > TENSOR_INLINE_DIMS)) {
    t->extra = mem_alloc_zero(c, sizeof *t->extra);
    int64_t *dims = t->extra ? mem_alloc(c, 2 * (size_t)n_dims * sizeof *dims) : NULL;
    if (!dims) {
      if (t->extra)
        mem_free(c, t->extra, sizeof *t->extra);
      block_free(c, t);
      return NULL;
    }
    t->extra->dims = dims;
    t->sizes = dims;
    t->strides = dims + n_dims;
  }
  return t;
}

void tensor_drop_quantizer(rush_tensor *t)
{
  quantizer *q = t->extra ? t->extra->quant : NULL;
  if (!q)
    return;
  tensor_release(q->scales);
  tensor_release(q->zero_points);
  mem_free(t->h.ctx, q, sizeof *q);
  t->extra->quant = NULL;
}

static void free_extra(rush_tensor *t)
{
  context *c = t->h.ctx;
  tensor_extra *x = t->extra;
  if (x->grad_record && x->grad_destroy)
    x->grad_destroy(x->grad_record);
  tensor_drop_quantizer(t);
  tensor_release(x->nested);
  sparse_parts_free(c, x->sparse);
  if (x->dims)
    mem_free(c, x->dims, 2 * (size_t)t->n_dims * sizeof *x->dims);
  mem_free(c, x, sizeof *x);
}

void tensor_destroy(rush_tensor *t)
{
  if (UNLIKELY(t->extra != NULL))
    free_extra(t);
  storage_release(t->st);
  block_free(t->h.ctx, t);
}

/* Check inv. 5 for new tensors: the largest stride in bytes times its size, where sizes of 0 count
 * as 1. */
static inline bool bytes_fit(int n_dims, const int64_t *sizes, int64_t bytes)
{
  for (int i = 0; i < n_dims; i++)
    if (__builtin_mul_overflow(bytes, i64_max(sizes[i], 1), &bytes))
      return false;
  return true;
}

COLD static rush_status refuse_sizes(call_ctx *cx, int n_dims, const int64_t *sizes)
{
  sizes_text text;
  for (int i = 0; i < n_dims; i++)
    if (sizes[i] < 0)
      return call_fail(cx, "Trying to create tensor with negative dimension %lld: %s",
                       (long long)sizes[i], sizes_print(&text, n_dims, sizes));
  return call_fail(cx, "Storage size calculation overflowed with sizes=%s",
                   sizes_print(&text, n_dims, sizes));
}

static rush_status check_new(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes, int64_t *n,
                             size_t *n_bytes)
{
  const size_t item = dtype_bytes(dtype);
  if (UNLIKELY(n_dims > TENSOR_MAX_DIMS || n_dims < 0))
    return call_unsupported(cx, "tensors of %d dimensions (at most %d)", n_dims, TENSOR_MAX_DIMS);
  if (UNLIKELY(item == 0))
    return call_fail(cx, "there is no dtype %d to make a tensor of", dtype);
  if (UNLIKELY(!sizes_numel(n_dims, sizes, n) || !bytes_fit(n_dims, sizes, (int64_t)item)))
    return refuse_sizes(cx, n_dims, sizes);
  if (UNLIKELY(dtype_class_of(dtype) == DTYPE_QUANT))
    call_mark_special(cx); /* also without a quantizer it is for few operators */
  *n_bytes = (size_t)*n * item;
  return RUSH_OK;
}

/* True if t may use the caller's buffer: it has its dtype and sizes, and therefore its number of
 * bytes. */
static bool is_for(const rush_tensor *buffer, const rush_tensor *t)
{
  return buffer->dtype == t->dtype && buffer->n_dims == t->n_dims && t->n_elems > 0 &&
         (t->n_dims == 0 ||
          memcmp(buffer->sizes, t->sizes, (size_t)t->n_dims * sizeof *t->sizes) == 0);
}

rush_status tensor_new(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes, rush_tensor **out)
{
  int64_t n;
  size_t n_bytes;
  TRY(check_new(cx, dtype, n_dims, sizes, &n, &n_bytes));
  rush_tensor *t = make_header(cx->ctx, dtype, n_dims);
  if (!t)
    return call_nomem(cx);
  for (int i = 0; i < n_dims; i++)
    t->sizes[i] = sizes[i];
  strides_contiguous(n_dims, sizes, t->strides);
  t->n_elems = n;
  t->h.flags = TENSOR_CONTIGUOUS;
  if (UNLIKELY(cx->place != NULL) && is_for(cx->place, t)) {
    t->st = storage_retain(cx->place->st);
    t->data = tensor_data_mut(cx->place);
    cx->place = NULL;
    *out = t;
    return RUSH_OK;
  }
  rush_status s = storage_new(cx, n_bytes, &t->st);
  if (s != RUSH_OK) {
    tensor_release(t);
    return s;
  }
  t->data = t->st->data;
  *out = t;
  return RUSH_OK;
}

bool tensor_plan_make(tensor_plan *out, int dtype, int n_dims, const int64_t *sizes,
                      const int64_t *strides, int64_t *dims)
{
  const size_t item = dtype_bytes(dtype);
  int64_t n;
  if (n_dims > TENSOR_MAX_DIMS || n_dims < 0 || item == 0 || dtype_class_of(dtype) == DTYPE_QUANT ||
      !sizes_numel(n_dims, sizes, &n) || !bytes_fit(n_dims, sizes, (int64_t)item))
    return false;
  for (int i = 0; i < n_dims; i++)
    dims[i] = sizes[i];
  strides_contiguous(n_dims, sizes, dims + n_dims);
  *out = (tensor_plan){.dtype = (int16_t)dtype, .n_dims = (uint16_t)n_dims, .n_elems = n,
                       .n_bytes = (size_t)n * item, .sizes = dims};
  if (strides && n_dims && memcmp(strides, dims + n_dims, sizeof *dims * (size_t)n_dims) != 0) {
    memcpy(dims + n_dims, strides, sizeof *dims * (size_t)n_dims);
    out->strides = dims + n_dims;
  }
  return true;
}

rush_status tensor_new_planned(call_ctx *cx, const tensor_plan *p, rush_tensor **out)
{
  if (UNLIKELY(p->strides != NULL))
    return tensor_new_strided(cx, p->dtype, p->n_dims, p->sizes, p->strides, out);
  if (UNLIKELY(cx->place != NULL))
    return tensor_new(cx, p->dtype, p->n_dims, p->sizes, out);
  rush_tensor *t = make_header(cx->ctx, p->dtype, p->n_dims);
  if (!t)
    return call_nomem(cx);
  for (int i = 0; i < p->n_dims; i++) {
    t->sizes[i] = p->sizes[i];
    t->strides[i] = p->sizes[p->n_dims + i];
  }
  t->n_elems = p->n_elems;
  t->h.flags = TENSOR_CONTIGUOUS;
  const rush_status s = storage_new(cx, p->n_bytes, &t->st);
  if (UNLIKELY(s != RUSH_OK)) {
    tensor_release(t);
    return s;
  }
  t->data = t->st->data;
  *out = t;
  return RUSH_OK;
}

/* Compute the elements that a storage needs for sizes and strides; -1: too many. */
static int64_t elements_reached(int n_dims, const int64_t *sizes, const int64_t *strides)
{
  int64_t reach = 1, step;
  for (int i = 0; i < n_dims; i++)
    if (sizes[i] == 0)
      return 0;
    else if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
             __builtin_add_overflow(reach, step, &reach))
      return -1;
  return reach;
}

rush_status tensor_new_strided(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                               const int64_t *strides, rush_tensor **out)
{
  const int64_t reach = elements_reached(n_dims, sizes, strides);
  int64_t n;
  size_t n_bytes;
  if (UNLIKELY(sizes_numel(n_dims, sizes, &n) && n != reach)) {
    storage *st;
    sizes_text a, b;
    if (reach < 0 || !size_mul((size_t)reach, dtype_bytes(dtype), &n_bytes))
      return call_fail(cx, "Storage size calculation overflowed with sizes=%s and strides=%s",
                       sizes_print(&a, n_dims, sizes), sizes_print(&b, n_dims, strides));
    TRY(storage_new(cx, n_bytes, &st));
    rush_status s = tensor_new_view(cx, st, dtype, n_dims, sizes, strides, 0, out);
    storage_release(st);
    return s;
  }
  rush_tensor *t;
  TRY(tensor_new(cx, dtype, n_dims, sizes, &t));
  if (n_dims)
    memcpy(t->strides, strides, (size_t)n_dims * sizeof *strides);
  note_contiguous(t);
  *out = t;
  return RUSH_OK;
}

rush_status tensor_new_like(call_ctx *cx, const rush_tensor *t, int dtype, rush_tensor **out)
{
  if (dtype == DTYPE_NONE)
    dtype = t->dtype;
  if (tensor_is_contiguous(t) && t->n_elems)
    return tensor_new(cx, dtype, t->n_dims, t->sizes, out);
  if (tensor_is_dense(t))
    return tensor_new_strided(cx, dtype, t->n_dims, t->sizes, t->strides, out);
  int64_t strides[TENSOR_MAX_DIMS];
  strides_like(t, strides);
  return tensor_new_strided(cx, dtype, t->n_dims, t->sizes, strides, out);
}

/* Refuse elements of `item` bytes outside the storage.  Also computes n_elems. */
static rush_status check_view(call_ctx *cx, const storage *st, int64_t item, int n_dims,
                              const int64_t *sizes, const int64_t *strides, int64_t offset,
                              int64_t *n_elems)
{
  if (n_dims > TENSOR_MAX_DIMS)
    return call_unsupported(cx, "tensors of %d dimensions (at most %d)", n_dims, TENSOR_MAX_DIMS);
  int64_t n, last = 0;
  if (!sizes_numel(n_dims, sizes, &n))
    return call_fail(cx, "a view has a negative or too large size");
  bool bad = offset < 0;
  for (int i = 0; i < n_dims; i++) {
    int64_t reach, step;
    if (strides[i] < 0)
      return call_fail(cx, "as_strided: Negative strides are not supported at the moment, got "
                           "stride %lld at dimension %d", (long long)strides[i], i);
    bad |= __builtin_mul_overflow(i64_max(sizes[i] - 1, 0), strides[i], &reach) ||
           __builtin_add_overflow(last, reach, &last) ||
           __builtin_mul_overflow(strides[i], item, &step);
  }
  /* Without elements any offset is valid. */
  int64_t end = 0;
  bad |= __builtin_add_overflow(last, offset, &end) || __builtin_add_overflow(end, 1, &end) ||
         __builtin_mul_overflow(end, item, &end);
  sizes_text a, b;
  if (bad || (n > 0 && (uint64_t)end > st->n_bytes))
    return call_fail(cx,
                     "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %lld "
                     "requiring a storage size of %lld are out of bounds for storage of size %zu",
                     sizes_print(&a, n_dims, sizes), sizes_print(&b, n_dims, strides),
                     (long long)offset, (long long)item, (long long)end, st->n_bytes);
  *n_elems = n;
  return RUSH_OK;
}

rush_status tensor_new_view(call_ctx *cx, storage *st, int dtype, int n_dims, const int64_t *sizes,
                            const int64_t *strides, int64_t offset, rush_tensor **out)
{
  int64_t n = 0;
  const int64_t item = (int64_t)dtype_bytes(dtype);
  if (UNLIKELY(item == 0))
    return call_fail(cx, "there is no dtype %d to view a storage as", dtype);
  if (UNLIKELY(dtype_class_of(dtype) == DTYPE_QUANT))
    call_mark_special(cx);
  TRY(check_view(cx, st, item, n_dims, sizes, strides, offset, &n));
  rush_tensor *t = make_header(cx->ctx, dtype, n_dims);
  if (!t)
    return call_nomem(cx);
  for (int i = 0; i < n_dims; i++) {
    t->sizes[i] = sizes[i];
    t->strides[i] = strides[i];
  }
  t->n_elems = n;
  t->st = storage_retain(st);
  t->offset = offset;
  t->data = st->data && n > 0 ? (char *)st->data + offset * item
                              : st->data; /* any offset will do for no elements */
  note_contiguous(t);
  *out = t;
  return RUSH_OK;
}

rush_status tensor_as_strided(call_ctx *cx, const rush_tensor *t, int n_dims, const int64_t *sizes,
                              const int64_t *strides, int64_t offset, rush_tensor **out)
{
  rush_tensor *v;
  if (tensor_sparse(t))
    return sparse_refuse(cx, t, "as_strided");
  TRY(tensor_new_view(cx, t->st, t->dtype, n_dims, sizes, strides, offset, &v));
  v->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  const quantizer *q = tensor_quantizer(t);
  rush_status s = q ? tensor_set_quantizer(cx, v, q) : RUSH_OK;
  if (s != RUSH_OK) {
    tensor_release(v);
    return s;
  }
  *out = v;
  return RUSH_OK;
}

rush_status tensor_alias(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  if (tensor_sparse(t))
    return sparse_alias(cx, t, out);
  return tensor_as_strided(cx, t, t->n_dims, t->sizes, t->strides, t->offset, out);
}

dtype_class number_class(rush_value number)
{
  return number.tag == RUSH_TAG_BOOL      ? DTYPE_BOOL
         : number.tag == RUSH_TAG_INT     ? DTYPE_INT
         : number.tag == RUSH_TAG_COMPLEX ? DTYPE_COMPLEX
                                          : DTYPE_FLOAT;
}
static int number_dtype_with(int default_dtype, rush_value number)
{
  promote_state p = PROMOTE_INIT_WITH(default_dtype);
  promote_add_scalar(&p, number_class(number));
  return promote_result(&p);
}
int number_dtype(rush_value number) { return number_dtype_with(RUSH_FLOAT32, number); }
int number_dtype_in(const call_ctx *cx, rush_value number)
{
  return number_dtype_with(cx->default_dtype, number);
}

rush_status tensor_from_scalar(call_ctx *cx, rush_value number, int dtype, rush_tensor **out)
{
  rush_tensor *t;
  TRY(tensor_new(cx, dtype, 0, NULL, &t));
  tensor_set(t, 0, number);
  *out = t;
  return RUSH_OK;
}

static rush_status copied(call_ctx *cx, rush_tensor *to, const rush_tensor *from, rush_tensor **out)
{
  const quantizer *q = tensor_quantizer(from);
  rush_status s = tensor_copy(cx, to, from);
  if (s == RUSH_OK && q && to->dtype == from->dtype)
    s = tensor_set_quantizer(cx, to, q);
  if (s != RUSH_OK) {
    tensor_release(to);
    return s;
  }
  *out = to;
  return RUSH_OK;
}

rush_status tensor_contiguous(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  return tensor_to_dtype(cx, t, t->dtype, out);
}

rush_status tensor_to_dtype(call_ctx *cx, rush_tensor *t, int dtype, rush_tensor **out)
{
  if (tensor_sparse(t))
    return sparse_refuse(cx, t, "contiguous");
  if (t->dtype == dtype && tensor_is_contiguous(t)) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  rush_tensor *c;
  TRY(tensor_new(cx, dtype, t->n_dims, t->sizes, &c));
  return copied(cx, c, t, out);
}

static rush_status clone_meta(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  storage *st;

  TRY(storage_new_meta(cx, t->st->n_bytes, &st));
  rush_status s =
    tensor_new_view(cx, st, t->dtype, t->n_dims, t->sizes, t->strides, t->offset, out);
  storage_release(st);
  return s;
}

/* Clone a sparse tensor; indices are shared, since they are never written to. */
static rush_status clone_sparse(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  rush_tensor *values;
  TRY(tensor_clone(cx, tensor_sparse(t)->values, &values));
  rush_status s = sparse_with_values(cx, t, values, out);
  tensor_release(values);
  return s;
}

rush_status tensor_clone(call_ctx *cx, const rush_tensor *t, rush_tensor **out)
{
  rush_tensor *c;
  if (tensor_sparse(t))
    return clone_sparse(cx, t, out);
  if (tensor_is_meta(t))
    return clone_meta(cx, t, out);
  TRY(tensor_new_like(cx, t, DTYPE_NONE, &c));
  return copied(cx, c, t, out);
}

/* -- Changing ---------------------------------------------------------------------------------- */

rush_status tensor_need_extra(call_ctx *cx, rush_tensor *t)
{
  if (t->extra)
    return RUSH_OK;
  t->extra = mem_alloc_zero(t->h.ctx, sizeof *t->extra);
  return t->extra ? RUSH_OK : call_nomem(cx);
}

/* Make room in t for n_dims sizes and strides; the old ones are lost. */
static rush_status set_rank(call_ctx *cx, rush_tensor *t, int n_dims)
{
  context *c = t->h.ctx;
  int64_t *dims = NULL;
  if (n_dims == t->n_dims)
    return RUSH_OK;
  if (n_dims > TENSOR_INLINE_DIMS) {
    TRY(tensor_need_extra(cx, t));
    dims = mem_alloc(c, 2 * (size_t)n_dims * sizeof *dims);
    if (!dims)
      return call_nomem(cx);
  }
  if (t->extra && t->extra->dims) {
    mem_free(c, t->extra->dims, 2 * (size_t)t->n_dims * sizeof *dims);
    t->extra->dims = NULL;
  }
  if (dims)
    t->extra->dims = dims;
  t->sizes = dims ? dims : t->inline_dims;
  t->strides = dims ? dims + n_dims : t->inline_dims + TENSOR_INLINE_DIMS;
  t->n_dims = (uint16_t)n_dims;
  return RUSH_OK;
}

/* Make room; a storage shared with other tensors is not moved: t gets a new one with the old
 * content. */
static rush_status make_room(call_ctx *cx, rush_tensor *t, size_t n_bytes)
{
  if (n_bytes <= t->st->n_bytes)
    return RUSH_OK;
  if (heap_is_unique(&t->st->h)) {
    TRY(storage_grow(cx, t->st, n_bytes));
  } else {
    storage *st;
    TRY(storage_new(cx, n_bytes, &st));
    if (t->st->n_bytes)
      memcpy(st->data, t->st->data, t->st->n_bytes);
    storage_release(t->st);
    t->st = st;
  }
  return RUSH_OK;
}

/* Check that t is not quantized per channel, as those parameters depend on the sizes. */
static rush_status check_uniform(call_ctx *cx, const rush_tensor *t)
{
  const quantizer *q = tensor_quantizer(t);
  return q && q->per_channel
           ? call_fail(cx, "Setting strides is possible only on uniformly quantized tensors")
           : RUSH_OK;
}

rush_status tensor_resize(call_ctx *cx, rush_tensor *t, int n_dims, const int64_t *sizes)
{
  if (n_dims == t->n_dims &&
      (n_dims == 0 || !memcmp(sizes, t->sizes, (size_t)n_dims * sizeof *sizes)))
    return RUSH_OK;
  if (tensor_sparse(t))
    return sparse_refuse(cx, t, "resize_");
  TRY(check_uniform(cx, t));
  int64_t n;
  size_t n_bytes, offset_bytes = (size_t)t->offset * tensor_item_bytes(t), copy[TENSOR_MAX_DIMS];
  TRY(check_new(cx, t->dtype, n_dims, sizes, &n, &n_bytes));
  if (n_dims)
    memcpy(copy, sizes, (size_t)n_dims * sizeof *sizes); /* sizes may be t's own */
  if (n > 0 && !size_add(n_bytes, offset_bytes, &n_bytes))
    return call_fail(cx, "Storage size calculation overflowed");
  TRY(make_room(cx, t, n_bytes));
  t->data = (char *)t->st->data + offset_bytes;
  TRY(set_rank(cx, t, n_dims));
  if (n_dims)
    memcpy(t->sizes, copy, (size_t)n_dims * sizeof *sizes);
  strides_contiguous(n_dims, t->sizes, t->strides);
  t->n_elems = n;
  note_contiguous(t);
  (void)tensor_data_mut(t);
  context_state_changed(t->h.ctx);
  return RUSH_OK;
}

void tensor_reorder(rush_tensor *t, const int64_t *strides)
{
  ASSERT(tensor_is_contiguous(t), "its storage has room for its elements");
  memcpy(t->strides, strides, sizeof *strides * t->n_dims);
  note_contiguous(t);
  ASSERT(tensor_is_dense(t), "strides are a permutation layout");
}

rush_status tensor_set_like(call_ctx *cx, rush_tensor *t, const rush_tensor *other)
{
  if (t == other)
    return RUSH_OK;
  if (tensor_sparse(t) || tensor_sparse(other))
    return sparse_refuse(cx, tensor_sparse(t) ? t : other, "set_");
  TRY(check_uniform(cx, t));
  TRY(set_rank(cx, t, other->n_dims));
  size_t bytes = other->n_dims * sizeof(int64_t);
  memcpy(t->sizes, other->sizes, bytes);
  memcpy(t->strides, other->strides, bytes);
  storage *old = t->st;
  if (
    old ==
    other
      /* an in-place view counts as a write; the version of borrowed memory belongs to its other
       * tensors */
      ->st)
    (void)tensor_data_mut(t);
  t->st = storage_retain(other->st);
  storage_release(old);
  t->dtype = other->dtype;
  t->n_elems = other->n_elems;
  t->offset = other->offset;
  t->data = other->data;
  note_contiguous(t);
  context_state_changed(t->h.ctx);
  return RUSH_OK;
}

/* True if the parameters fit t's channels; readers of the parameters rely on it. */
static bool channels_fit(const rush_tensor *t, const quantizer *q)
{
  const rush_tensor *s = q->scales, *z = q->zero_points;
  if (q->axis < 0 || q->axis >= t->n_dims || !s || !z || s->n_dims != 1 || z->n_dims != 1)
    return false;
  if (dtype_is_float(z->dtype) && (z->dtype != RUSH_FLOAT32 || s->dtype != RUSH_FLOAT32))
    return false;
  return dtype_is_float(s->dtype) && (dtype_is_float(z->dtype) || dtype_is_integral(z->dtype)) &&
         tensor_is_contiguous(s) && tensor_is_contiguous(z) && s->n_elems == t->sizes[q->axis] &&
         z->n_elems == t->sizes[q->axis];
}

rush_status tensor_set_quantizer(call_ctx *cx, rush_tensor *t, const quantizer *q)
{
  if (q->per_channel && !channels_fit(t, q))
    return call_fail(cx, "the parameters of a tensor quantized per channel do not fit its sizes "
                         "(strides of such tensors cannot "
                         "be changed)");
  context *c = t->h.ctx;
  TRY(tensor_need_extra(cx, t));
  call_mark_special(cx);
  quantizer *copy = mem_alloc(c, sizeof *copy);
  if (!copy)
    return call_nomem(cx);
  *copy = *q;
  tensor_retain(copy->scales);
  tensor_retain(copy->zero_points);
  tensor_drop_quantizer(t); /* last: q may be its own */
  t->extra->quant = copy;
  return RUSH_OK;
}

/* -- As values --------------------------------------------------------------------------------- */

static void destroy_value(void *p) { tensor_destroy(p); }

static rush_status print_value(call_ctx *cx, text_buf *out, void *p)
{
  return tensor_print_aten(cx, out, p);
}

static rush_status copy_value(call_ctx *cx, void *p, rush_value *out)
{
  const rush_tensor *t = p;
  rush_tensor *c;
  TRY(tensor_clone(cx, t, &c));
  c->h.flags |= t->h.flags & (TENSOR_REQUIRES_GRAD | TENSOR_IS_PARAMETER);
  *out = value_tensor_steal(c);
  return RUSH_OK;
}

static rush_status equal_value(call_ctx *cx, void *a, void *b, bool *out)
{
  const rush_tensor *x = a, *y = b;
  if (tensor_sparse(x) || tensor_sparse(y))
    return sparse_refuse(cx, tensor_sparse(x) ? x : y, "==");
  if (x->n_elems != 1 || y->n_elems != 1)
    return call_fail(cx, "Boolean value of Tensor with more than one value is ambiguous");
  rush_value v, w;
  TRY(tensor_get(cx, x, 0, &v));
  rush_status s = tensor_get(cx, y, 0, &w);
  if (s == RUSH_OK)
    s = value_equal(cx, v, w, out);
  if (s == RUSH_OK)
    value_release(w);
  value_release(v);
  return s;
}

const value_ops tensor_value_ops = {destroy_value, print_value, copy_value, equal_value};
