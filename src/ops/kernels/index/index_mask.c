/* ops/kernels/index/index_mask.c -- elements chosen by a mask: nonzero, masked_select,
 * masked_scatter. Each makes two passes, one to count and one to write, so that the result has its
 * exact size at once and nothing grows. The packing loops have no branches (every element is
 * stored, the position advances by 0 or 1), because masks are mispredicted. nonzero stores its
 * result column by column, with PyTorch's strides. */
#include "ops/kernels/index/index.h"
#include "ops/call/written.h"
#include "tensor/items.h"

/* Convert t to contiguous bools (t itself if it already is). */
static rush_status as_mask(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  return t->dtype == RUSH_BOOL ? tensor_contiguous(cx, t, out)
                               : tensor_to_dtype(cx, t, RUSH_BOOL, out);
}

#define COUNT_AT_ONCE (1 << 20)

static int64_t count_true(const call_ctx *cx, const uint8_t *m, int64_t n)
{
  int64_t total = 0;
  for (int64_t at = 0; at < n && !(at && call_over(cx)); at += COUNT_AT_ONCE)
    for (int64_t i = at; i < at + i64_min(COUNT_AT_ONCE, n - at); i++)
      total += m[i] != 0;
  return total;
}

/* -- nonzero ----------------------------------------------------------------------------------- */

/* Write positions in row-major order, one column per dimension; at most `rows`.  Returns how many
 * there are. */
static int64_t write_positions(const call_ctx *cx, const uint8_t *m, const rush_tensor *t,
                               int64_t *out, int64_t rows, const int64_t *strides)
{
  int64_t coord[TENSOR_MAX_DIMS] = {0}, k = 0;
  int last = t->n_dims - 1;
  if (last < 0)
    return 0;
  int64_t *place = out + last * strides[1];
  for (int64_t at = 0; at < t->n_elems && k < rows; at += t->sizes[last]) {
    int64_t first = k;
    if (call_over_at(cx, at / t->sizes[last]))
      break;
    for (int64_t i = 0; i < t->sizes[last] && k < rows && !call_over_at(cx, i);
         i++) { /* no branch on what chance decides */
      place[k * strides[0]] = i;
      k += m[at + i] != 0;
    }
    for (int d = 0; d < last; d++)
      for (int64_t i = first; i < k; i++)
        out[d * strides[1] + i * strides[0]] = coord[d];
    for (int d = last - 1; d >= 0 && ++coord[d] == t->sizes[d]; d--)
      coord[d] = 0;
  }
  return k;
}

/* Return the positions of all nonzero elements in column-major order. */
rush_status tensor_nonzero(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  rush_tensor *mask;
  TRY(as_mask(cx, t, &mask));
  const int64_t n = count_true(cx, mask->data, mask->n_elems), sizes[] = {n, t->n_dims},
                strides[] = {1, i64_max(n, 1)};
  rush_status s = tensor_new_strided(cx, RUSH_INT64, 2, sizes, strides, out);
  if (s == RUSH_OK)
    write_positions(cx, mask->data, t, (*out)->data, n, strides);
  tensor_release(mask);
  return s;
}

rush_kernel kernel_nonzero, kernel_nonzero_static, kernel_nonzero_numpy;
rush_status kernel_nonzero(rush_call *c)
{
  return tensor_nonzero(c->cx, call_tensor(c, 0), call_result(c, 0));
}

/* Implement nonzero_static(self, size, fill_value): missing positions are the fill value. */
rush_status kernel_nonzero_static(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *out = call_out(c, 0), *mask;
  int64_t *x = out->data;
  TRY(as_mask(c->cx, call_tensor(c, 0), &mask));
  int64_t k = write_positions(c->cx, mask->data, t, x, out->sizes[0], out->strides);
  for (int64_t i = k * t->n_dims; i < out->n_elems && !call_over_at(c->cx, i); i++)
    x[i] = call_int(c, 2);
  tensor_release(mask);
  return RUSH_OK;
}

/* Return the columns of nonzero; a single number counts as one element. */
rush_status kernel_nonzero_numpy(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *row = NULL, *where, *cols[TENSOR_MAX_DIMS];
  int64_t one = 1;
  if (t->n_dims == 0) {
    TRY(tensor_reshape(c->cx, t, 1, &one, &row));
    t = row;
  }
  rush_status s = tensor_nonzero(c->cx, t, &where);
  int n = 0, dims = t->n_dims;
  tensor_release(row);
  if (s != RUSH_OK)
    return s;
  for (; n < dims && s == RUSH_OK; n++)
    s = tensor_select(c->cx, where, 1, n, &cols[n]);
  tensor_release(where);
  if (s == RUSH_OK)
    return call_return_tensors_steal(c, 0, cols, (size_t)n);
  for (int i = 0; i < n - 1; i++)
    tensor_release(cols[i]);
  return s;
}

/* -- masked_select, masked_scatter ------------------------------------------------------------- */

static rush_status expand_contiguous(call_ctx *cx, rush_tensor *t, int n, const int64_t *sizes,
                                     rush_tensor **out)
{
  rush_tensor *wide;
  TRY(tensor_expand(cx, t, n, sizes, &wide));
  rush_status s = tensor_contiguous(cx, wide, out);
  tensor_release(wide);
  return s;
}

/* Broadcast both to common sizes, contiguous. */
static rush_status expand_both(call_ctx *cx, rush_tensor *t, rush_tensor *mask, rush_tensor **x,
                               rush_tensor **m)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n = 0;
  if (!sizes_broadcast(t->n_dims, t->sizes, mask->n_dims, mask->sizes, &n, sizes)) {
    int k = 1;
    while (t->sizes[t->n_dims - k] == mask->sizes[mask->n_dims - k] ||
           t->sizes[t->n_dims - k] == 1 || mask->sizes[mask->n_dims - k] == 1)
      k++;
    return call_fail(
      cx,
      "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton "
      "dimension %d",
      (long long)mask->sizes[mask->n_dims - k], (long long)t->sizes[t->n_dims - k],
      (mask->n_dims > t->n_dims ? mask->n_dims : t->n_dims) - k);
  }
  TRY(expand_contiguous(cx, t, n, sizes, x));
  rush_status s = expand_contiguous(cx, mask, n, sizes, m);
  if (s != RUSH_OK)
    tensor_release(*x);
  return s;
}

/* Branch-free: every element is written, and the position advances after one that counts. */
#define PACK(type)                                              \
  for (int64_t i = 0; k < count && !call_over_at(cx, i); i++) { \
    ((type *)d)[k] = ((const type *)s)[i];                      \
    k += m[i] != 0;                                             \
  }

static void pack(const call_ctx *cx, size_t item, char *d, const char *s, const uint8_t *m,
                 int64_t count)
{
  int64_t k = 0;
  BY_ITEM(item, PACK)
}

rush_kernel kernel_masked_select, kernel_masked_scatter;
rush_status kernel_masked_select(rush_call *c)
{
  rush_tensor *x, *m, *r;
  if (call_tensor(c, 1)->dtype != RUSH_BOOL)
    return call_fail(c->cx, "masked_select: expected BoolTensor for mask");
  TRY(expand_both(c->cx, call_tensor(c, 0), call_tensor(c, 1), &x, &m));
  int64_t n = count_true(c->cx, m->data, m->n_elems);
  rush_status s = tensor_new(c->cx, x->dtype, 1, &n, &r);
  if (s == RUSH_OK) {
    pack(c->cx, tensor_item_bytes(x), r->data, x->data, m->data, n);
    call_return_steal(c, 0, r);
  }
  tensor_release(x);
  tensor_release(m);
  return s;
}

/* Replace elements under the mask by source's `count` elements in order; branch-free, as PACK.  The
 * mask may share memory with d: it is read before d is written, and may turn out to have fewer. */
#define UNPACK(type)                                                     \
  for (int64_t i = 0; k < count && i < n && !call_over_at(cx, i); i++) { \
    const bool taken = m[i] != 0;                                        \
    ((type *)d)[i] = taken ? ((const type *)s)[k] : ((type *)d)[i];      \
    k += taken;                                                          \
  }

static void unpack_masked(const call_ctx *cx, size_t item, char *d, const char *s, const uint8_t *m,
                          int64_t n, int64_t count)
{
  int64_t k = 0;
  BY_ITEM(item, UNPACK)
}

static rush_status scatter_masked(rush_call *c, rush_tensor *x, const rush_tensor *m)
{
  rush_tensor *source;
  TRY(tensor_contiguous(c->cx, call_tensor(c, 2), &source));
  rush_status s = RUSH_OK;
  int64_t count = count_true(c->cx, m->data, m->n_elems);
  if (source->n_elems < count)
    s = call_fail(c->cx, "Number of elements of source < number of ones in mask");
  else
    unpack_masked(c->cx, tensor_item_bytes(x), tensor_data_mut(x), source->data, m->data,
                  m->n_elems, count);
  tensor_release(source);
  return s;
}

/* Implement masked_scatter; the result is self, or new and dense, of the common sizes. */
rush_status kernel_masked_scatter(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0), *out = call_out(c, 0), *x, *m;
  if (out == self)
    TRY(written_check_self(c->cx, self));
  else
    TRY(tensor_copy(c->cx, out, self));
  TRY(expand_contiguous(c->cx, call_tensor(c, 1), out->n_dims, out->sizes, &m));
  rush_status s = tensor_contiguous(c->cx, out, &x); /* itself, if that is contiguous */
  if (s == RUSH_OK) {
    s = scatter_masked(c, x, m);
    if (s == RUSH_OK && x != out)
      s = tensor_copy(c->cx, out, x);
    tensor_release(x);
  }
  tensor_release(m);
  return s;
}
