/* ops/kernels/views.c -- the geometry of views (select, slice, transpose, expand, reshape,
 * diagonal), with PyTorch's checks and messages, and the tensors made from it. A geometry is
 * changed on the stack and becomes a tensor once, so that operators of several steps make no
 * intermediate tensors. Reshaping asks if the strides allow a view and copies only if they do not.
 * */
#include "ops/kernels/views.h"

/* -- Small things ------------------------------------------------------------------------------ */

rush_status call_return_tensors_steal(rush_call *c, uint32_t i, rush_tensor **t, size_t n)
{
  rush_list *l;
  rush_status s = list_new(c->cx, type_simple(TYPE_TENSOR), n, &l);
  for (size_t k = 0; k < n; k++) {
    if (s == RUSH_OK)
      s = list_append_steal(c->cx, l, value_tensor_steal(t[k]));
    else
      tensor_release(t[k]);
  }
  if (s == RUSH_OK)
    c->results[i] = value_heap_steal(RUSH_TAG_LIST, l);
  return s;
}

rush_status call_sizes(rush_call *c, uint32_t i, int64_t *out, int *n)
{
  int k = call_ints(c, i, out, TENSOR_MAX_DIMS);
  if (k < 0)
    return call_unsupported(c->cx, "%s: more than %d dimensions", c->op->schema->name,
                            TENSOR_MAX_DIMS);
  *n = k;
  return RUSH_OK;
}

/* -- Geometry ---------------------------------------------------------------------------------- */

void geom_of(geom *g, const rush_tensor *t)
{
  g->n_dims = t->n_dims;
  g->offset = t->offset;
  for (int i = 0; i < t->n_dims; i++) {
    g->sizes[i] = t->sizes[i];
    g->strides[i] = t->strides[i];
  }
}

rush_status geom_view(call_ctx *cx, const rush_tensor *t, const geom *g, rush_tensor **out)
{
  return tensor_as_strided(cx, t, g->n_dims, g->sizes, g->strides, g->offset, out);
}

rush_status geom_copy(call_ctx *cx, rush_tensor *to, const geom *g_to, const rush_tensor *from,
                      const geom *g_from)
{
  rush_tensor *a, *b = NULL;
  TRY(geom_view(cx, to, g_to, &a));
  rush_status s = geom_view(cx, from, g_from, &b);
  if (s == RUSH_OK)
    s = tensor_copy(cx, a, b);
  tensor_release(a);
  tensor_release(b);
  return s;
}

void geom_remove_dim(geom *g, int dim)
{
  g->n_dims--;
  for (int i = dim; i < g->n_dims; i++) {
    g->sizes[i] = g->sizes[i + 1];
    g->strides[i] = g->strides[i + 1];
  }
}

rush_status geom_select(call_ctx *cx, geom *g, int64_t dim, int64_t index)
{
  int d;
  if (g->n_dims == 0)
    return call_fail_type(cx, "IndexError", "select() cannot be applied to a 0-dim tensor.");
  TRY(dim_wrap(cx, dim, g->n_dims, &d));
  int64_t n = g->sizes[d];
  if (index < -n || index >= n) {
    sizes_text buf;
    return call_fail_type(cx, "IndexError",
                          "select(): index %lld out of range for tensor of size %s at dimension %d",
                          (long long)index, sizes_print(&buf, g->n_dims, g->sizes), d);
  }
  g->offset += (index < 0 ? index + n : index) * g->strides[d];
  geom_remove_dim(g, d);
  return RUSH_OK;
}

rush_status geom_slice(call_ctx *cx, geom *g, int64_t dim, int64_t start, int64_t end, int64_t step)
{
  int d;
  if (g->n_dims == 0)
    return call_fail(cx, "slice() cannot be applied to a 0-dim tensor.");
  TRY(dim_wrap(cx, dim, g->n_dims, &d));
  if (step <= 0)
    return call_fail(cx, "slice step must be positive");
  int64_t n = g->sizes[d];
  start = start < 0 ? start + n : start;
  end = end < 0 ? end + n : end;
  start = i64_min(i64_max(start, 0), n);
  end = i64_min(i64_max(end, start), n);
  int64_t len = end - start;
  g->offset += start * g->strides[d];
  g->sizes[d] = len / step + (len % step != 0);
  if (__builtin_mul_overflow(g->strides[d], step, &g->strides[d]))
    g->strides[d] = 1; /* then at most one element is left */
  return RUSH_OK;
}

rush_status geom_narrow(call_ctx *cx, geom *g, int64_t dim, int64_t start, int64_t length)
{
  int d;
  if (g->n_dims == 0)
    return call_fail(cx, "narrow() cannot be applied to a 0-dim tensor.");
  if (length < 0)
    return call_fail(cx, "narrow(): length must be non-negative.");
  TRY(dim_wrap(cx, dim, g->n_dims, &d));
  int64_t n = g->sizes[d];
  if (start < -n || start > n)
    return call_fail_type(cx, "IndexError", "start out of range (expected to be in range of [%lld, "
                          "%lld], but got %lld)", (long long)-n, (long long)n, (long long)start);
  start = start < 0 ? start + n : start;
  if (start > n - length)
    return call_fail(cx, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                     (long long)start, (long long)length, (long long)n);
  g->offset += start * g->strides[d];
  g->sizes[d] = length;
  return RUSH_OK;
}

rush_status geom_transpose(call_ctx *cx, geom *g, int64_t a, int64_t b)
{
  int x, y;
  TRY(dim_wrap(cx, a, g->n_dims, &x));
  TRY(dim_wrap(cx, b, g->n_dims, &y));
  if (x == y)
    return RUSH_OK;
  int64_t t = g->sizes[x];
  g->sizes[x] = g->sizes[y], g->sizes[y] = t;
  t = g->strides[x];
  g->strides[x] = g->strides[y], g->strides[y] = t;
  return RUSH_OK;
}

rush_status geom_permute(call_ctx *cx, geom *g, int n, const int64_t *dims)
{
  if (n != g->n_dims)
    return call_fail(cx,
                     "permute(sparse_coo): number of dimensions in the tensor input does not match "
                     "the length of the desired ordering of dimensions i.e. input.dim() = %d is "
                     "not equal to len(dims) = %d",
                     g->n_dims, n);
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];
  uint64_t seen = 0;
  for (int i = 0; i < n; i++) {
    int d;
    TRY(dim_wrap(cx, dims[i], n, &d));
    if (seen >> d & 1)
      return call_fail(cx, "permute(): duplicate dims are not allowed.");
    seen |= UINT64_C(1) << d;
    sizes[i] = g->sizes[d];
    strides[i] = g->strides[d];
  }
  memcpy(g->sizes, sizes, (size_t)n * sizeof *sizes);
  memcpy(g->strides, strides, (size_t)n * sizeof *strides);
  return RUSH_OK;
}

static rush_status expand_mismatch(call_ctx *cx, const geom *g, int n, const int64_t *sizes, int i,
                                   int64_t have)
{
  sizes_text a, b;
  return call_fail(cx,
                   "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
                   "non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                   (long long)sizes[i], (long long)have, i, sizes_print(&a, n, sizes),
                   sizes_print(&b, g->n_dims, g->sizes));
}

rush_status geom_expand(call_ctx *cx, geom *g, int dtype, int n, const int64_t *sizes)
{
  if (n < g->n_dims) {
    sizes_text a, b;
    return call_fail(cx,
                     "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must "
                     "be greater or equal to the number of dimensions in the tensor (%d)",
                     dtype_aten_name(dtype), sizes_print(&a, g->n_dims, g->sizes),
                     sizes_print(&b, n, sizes), n, g->n_dims);
  }
  geom r = {.n_dims = n, .offset = g->offset};
  for (int i = n - 1; i >= 0; i--) {
    int d = i - (n - g->n_dims);
    int64_t have = d >= 0 ? g->sizes[d] : 1, want = sizes[i];
    int64_t stride = d >= 0 ? g->strides[d] : i + 1 < n ? r.sizes[i + 1] * r.strides[i + 1] : 1;
    if (want == -1) {
      if (d < 0)
        return call_fail(cx, "The expanded size of the tensor (-1) isn't allowed in a leading, "
                             "non-existing dimension %d", i);
      want = have;
    }
    if (want < 0 || (have != want && have != 1))
      return expand_mismatch(cx, g, n, sizes, i, have);
    r.sizes[i] = want;
    r.strides[i] = have != want ? 0 : stride;
  }
  *g = r;
  return RUSH_OK;
}

rush_status geom_unsqueeze(call_ctx *cx, geom *g, int64_t dim)
{
  int d;
  if (g->n_dims + 1 > TENSOR_MAX_DIMS)
    return call_unsupported(cx, "more than %d dimensions", TENSOR_MAX_DIMS);
  TRY(dim_wrap(cx, dim, g->n_dims + 1, &d));
  int64_t stride = d < g->n_dims ? i64_max(g->sizes[d], 1) * g->strides[d] : 1;
  for (int i = g->n_dims; i > d; i--) {
    g->sizes[i] = g->sizes[i - 1];
    g->strides[i] = g->strides[i - 1];
  }
  g->sizes[d] = 1;
  g->strides[d] = stride;
  g->n_dims++;
  return RUSH_OK;
}

/* Runs of dimensions that are one contiguous range are split again, from the back. */
bool geom_reshape(geom *g, int n, const int64_t *sizes)
{
  int64_t n_elems = 1, strides[TENSOR_MAX_DIMS];
  for (int i = 0; i < g->n_dims; i++)
    n_elems *= g->sizes[i];
  if (n_elems == 0) {
    strides_contiguous(n, sizes, strides);
  } else {
    int view = n - 1;
    int64_t base = g->n_dims ? g->strides[g->n_dims - 1] : 1, piece = 1, cut = 1;
    for (int d = g->n_dims - 1; d >= 0; d--) {
      piece *= g->sizes[d];
      if (d > 0 && (g->sizes[d - 1] == 1 || g->strides[d - 1] == piece * base))
        continue;
      for (; view >= 0 && (cut < piece || sizes[view] == 1); view--) {
        strides[view] = cut * base;
        cut *= sizes[view];
      }
      if (cut != piece)
        return false;
      if (d > 0) {
        base = g->strides[d - 1];
        piece = cut = 1;
      }
    }
    for (; view >= 0 && sizes[view] == 1; view--) /* of a 0-dim tensor */
      strides[view] = 1;
    if (view != -1)
      return false;
  }
  g->n_dims = n;
  memcpy(g->sizes, sizes, (size_t)n * sizeof *sizes);
  memcpy(g->strides, strides, (size_t)n * sizeof *strides);
  return true;
}

rush_status geom_diagonal(call_ctx *cx, geom *g, int64_t offset, int64_t dim1, int64_t dim2)
{
  int a, b;
  TRY(dim_wrap(cx, dim1, g->n_dims, &a));
  TRY(dim_wrap(cx, dim2, g->n_dims, &b));
  if (a == b)
    return call_fail(cx, "diagonal dimensions cannot be identical %lld, %lld", (long long)dim1,
                     (long long)dim2);
  int64_t n = offset >= 0 ? i64_min(g->sizes[a], g->sizes[b] - i64_min(offset, g->sizes[b]))
                          : i64_min(g->sizes[a] + i64_max(offset, -g->sizes[a]), g->sizes[b]);
  n = i64_max(n, 0);
  if (n > 0)
    g->offset += offset >= 0 ? offset * g->strides[b] : -offset * g->strides[a];
  int64_t stride = g->strides[a] + g->strides[b];
  geom_remove_dim(g, a > b ? a : b);
  geom_remove_dim(g, a > b ? b : a);
  g->sizes[g->n_dims] = n;
  g->strides[g->n_dims++] = stride;
  return RUSH_OK;
}

rush_status infer_size(call_ctx *cx, int n, int64_t *sizes, int64_t n_elems)
{
  int64_t product = 1;
  int unknown = -1;
  bool overflow = false;
  sizes_text buf;
  for (int i = 0; i < n; i++) {
    if (sizes[i] == -1) {
      if (unknown >= 0)
        return call_fail(cx, "only one dimension can be inferred");
      unknown = i;
    } else if (sizes[i] < 0) {
      return call_fail(cx, "invalid shape dimension %lld", (long long)sizes[i]);
    } else {
      overflow |= __builtin_mul_overflow(product, sizes[i], &product);
    }
  }
  bool fits =
    !overflow && (unknown < 0 ? product == n_elems : product > 0 && n_elems % product == 0);
  if (!overflow && unknown >= 0 && product == 0 && n_elems == 0)
    return call_fail(cx,
                     "cannot reshape tensor of 0 elements into shape %s because the unspecified "
                     "dimension size -1 can be any value and is ambiguous",
                     sizes_print(&buf, n, sizes));
  if (!fits)
    return call_fail(cx, "shape '%s' is invalid for input of size %lld",
                     sizes_print(&buf, n, sizes), (long long)n_elems);
  if (unknown >= 0)
    sizes[unknown] = n_elems / product;
  return RUSH_OK;
}

/* -- Tensors ----------------------------------------------------------------------------------- */

rush_status tensor_select(call_ctx *cx, const rush_tensor *t, int64_t dim, int64_t index,
                          rush_tensor **out)
{
  geom g;
  geom_of(&g, t);
  TRY(geom_select(cx, &g, dim, index));
  return geom_view(cx, t, &g, out);
}

rush_status tensor_narrow(call_ctx *cx, const rush_tensor *t, int64_t dim, int64_t start,
                          int64_t length, rush_tensor **out)
{
  geom g;
  geom_of(&g, t);
  TRY(geom_narrow(cx, &g, dim, start, length));
  return geom_view(cx, t, &g, out);
}

rush_status tensor_transpose(call_ctx *cx, const rush_tensor *t, int64_t a, int64_t b,
                             rush_tensor **out)
{
  geom g;
  geom_of(&g, t);
  TRY(geom_transpose(cx, &g, a, b));
  return geom_view(cx, t, &g, out);
}

rush_status tensor_dims_last(call_ctx *cx, const rush_tensor *t, uint64_t dims, rush_tensor **out)
{
  int64_t order[TENSOR_MAX_DIMS];
  int n = 0;
  geom g;
  for (uint64_t last = 0; last < 2; last++)
    for (int d = 0; d < t->n_dims; d++)
      if ((dims >> d & 1) == last)
        order[n++] = d;
  geom_of(&g, t);
  TRY(geom_permute(cx, &g, n, order));
  return geom_view(cx, t, &g, out);
}

rush_status tensor_expand(call_ctx *cx, const rush_tensor *t, int n, const int64_t *sizes,
                          rush_tensor **out)
{
  geom g;
  geom_of(&g, t);
  TRY(geom_expand(cx, &g, t->dtype, n, sizes));
  return geom_view(cx, t, &g, out);
}

rush_status tensor_reshape(call_ctx *cx, const rush_tensor *t, int n, const int64_t *sizes,
                           rush_tensor **out)
{
  int64_t full[TENSOR_MAX_DIMS];
  geom g;
  for (int i = 0; i < n; i++)
    full[i] = sizes[i];
  TRY(infer_size(cx, n, full, t->n_elems));
  geom_of(&g, t);
  if (geom_reshape(&g, n, full))
    return geom_view(cx, t, &g, out);
  rush_tensor *c, *v;
  TRY(tensor_copy_format(cx, t, t->dtype, FORMAT_CONTIGUOUS, &c));
  geom_of(&g, c);
  (void)geom_reshape(&g, n, full);
  rush_status s = geom_view(cx, c, &g, &v);
  tensor_release(c);
  if (s != RUSH_OK)
    return s;
  v->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  *out = v;
  return RUSH_OK;
}

/* -- Memory formats ---------------------------------------------------------------------------- */

rush_status tensor_new_format(call_ctx *cx, const rush_tensor *t, int dtype, int64_t format,
                              rush_tensor **out)
{
  static const int8_t order[2][5] = {{1, 3, 2, 0}, {1, 4, 3, 2, 0}};
  if (format == FORMAT_PRESERVE)
    return tensor_new_like(cx, t, dtype, out);
  if (format == FORMAT_CONTIGUOUS)
    return tensor_new(cx, dtype, t->n_dims, t->sizes, out);
  int rank = format == FORMAT_CHANNELS_LAST ? 4 : 5;
  if (t->n_dims != rank)
    return call_fail(cx, rank == 4 ? "required rank 4 tensor to use channels_last format"
                                   : "required rank 5 tensor to use channels_last_3d format");
  int64_t strides[5], s = 1;
  for (int i = 0; i < rank; i++) {
    int d = order[rank - 4][i];
    strides[d] = s;
    if (__builtin_mul_overflow(s, i64_max(t->sizes[d], 1), &s))
      return call_fail(cx, "Storage size calculation overflowed");
  }
  return tensor_new_strided(cx, dtype, rank, t->sizes, strides, out);
}

rush_status tensor_copy_format(call_ctx *cx, const rush_tensor *t, int dtype, int64_t format,
                               rush_tensor **out)
{
  rush_tensor *c;
  TRY(tensor_new_format(cx, t, dtype, format, &c));
  rush_status s = tensor_copy(cx, c, t);
  if (s == RUSH_OK && tensor_quantizer(t) && dtype == t->dtype)
    s = tensor_set_quantizer(cx, c, tensor_quantizer(t));
  if (s != RUSH_OK) {
    tensor_release(c);
    return s;
  }
  *out = c;
  return RUSH_OK;
}
