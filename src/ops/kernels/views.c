/* ops/kernels/views.c -- the geometry of views (select, narrow, permute, expand, reshape, diagonal)
 * for kernels, whose arguments a shape rule has checked, and the tensors made from it.  A geometry
 * is changed on the stack and becomes a tensor once, so that operators of several steps make no
 * intermediate tensors.  Reshaping asks if the strides allow a view and copies only if they do not.
 * Views that a program asks for are made by shape rules (ops/call/results.h). */
#include "ops/kernels/views.h"

#include "ops/call/results.h"

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

void geom_insert_dim(geom *g, int dim, int64_t size, int64_t stride)
{
  for (int i = g->n_dims++; i > dim; i--) {
    g->sizes[i] = g->sizes[i - 1];
    g->strides[i] = g->strides[i - 1];
  }
  g->sizes[dim] = size;
  g->strides[dim] = stride;
}

void geom_select(geom *g, int dim, int64_t index)
{
  g->offset += index * g->strides[dim];
  geom_remove_dim(g, dim);
}

void geom_narrow(geom *g, int dim, int64_t start, int64_t length)
{
  g->offset += start * g->strides[dim];
  g->sizes[dim] = length;
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

static rush_status geom_expand(call_ctx *cx, geom *g, int dtype, int n, const int64_t *sizes)
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
    const int d = i - (n - g->n_dims);
    const int64_t have = d >= 0 ? g->sizes[d] : 1;
    if (have != sizes[i] && have != 1)
      return expand_mismatch(cx, g, n, sizes, i, have);
    r.sizes[i] = sizes[i];
    r.strides[i] = have != sizes[i] ? 0
                   : d >= 0         ? g->strides[d]
                   : i + 1 < n      ? r.sizes[i + 1] * r.strides[i + 1]
                                    : 1;
  }
  *g = r;
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

void geom_diagonal(geom *g, int64_t offset, int a, int b)
{
  int64_t n = offset >= 0 ? i64_min(g->sizes[a], g->sizes[b] - i64_min(offset, g->sizes[b]))
                          : i64_min(g->sizes[a] + i64_max(offset, -g->sizes[a]), g->sizes[b]);
  n = i64_max(n, 0);
  if (n > 0)
    g->offset += offset >= 0 ? offset * g->strides[b] : -offset * g->strides[a];
  const int64_t stride = g->strides[a] + g->strides[b];
  geom_remove_dim(g, a > b ? a : b);
  geom_remove_dim(g, a > b ? b : a);
  geom_insert_dim(g, g->n_dims, n, stride);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

rush_status tensor_select(call_ctx *cx, const rush_tensor *t, int dim, int64_t index,
                          rush_tensor **out)
{
  geom g;
  geom_of(&g, t);
  geom_select(&g, dim, index);
  return geom_view(cx, t, &g, out);
}

rush_status tensor_narrow(call_ctx *cx, const rush_tensor *t, int dim, int64_t start,
                          int64_t length, rush_tensor **out)
{
  geom g;
  geom_of(&g, t);
  geom_narrow(&g, dim, start, length);
  return geom_view(cx, t, &g, out);
}

rush_status tensor_permute(call_ctx *cx, const rush_tensor *t, const int64_t *dims,
                           rush_tensor **out)
{
  geom g = {.n_dims = t->n_dims, .offset = t->offset};
  for (int i = 0; i < t->n_dims; i++) {
    g.sizes[i] = t->sizes[dims[i]];
    g.strides[i] = t->strides[dims[i]];
  }
  return geom_view(cx, t, &g, out);
}

rush_status tensor_transpose(call_ctx *cx, const rush_tensor *t, int a, int b, rush_tensor **out)
{
  int64_t dims[TENSOR_MAX_DIMS];
  for (int i = 0; i < t->n_dims; i++)
    dims[i] = i == a ? b : i == b ? a : i;
  return tensor_permute(cx, t, dims, out);
}

rush_status tensor_dims_last(call_ctx *cx, const rush_tensor *t, uint64_t dims, rush_tensor **out)
{
  int64_t order[TENSOR_MAX_DIMS];
  int n = 0;
  for (uint64_t last = 0; last < 2; last++)
    for (int d = 0; d < t->n_dims; d++)
      if ((dims >> d & 1) == last)
        order[n++] = d;
  return tensor_permute(cx, t, order, out);
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
  int64_t n_elems;
  geom g;
  ASSERT(sizes_numel(n, sizes, &n_elems) && n_elems == t->n_elems, "the elements stay the same");
  geom_of(&g, t);
  if (geom_reshape(&g, n, sizes))
    return geom_view(cx, t, &g, out);
  rush_tensor *c, *v;
  TRY(tensor_copy_rows(cx, t, &c));
  geom_of(&g, c);
  (void)geom_reshape(&g, n, sizes);
  rush_status s = geom_view(cx, c, &g, &v);
  tensor_release(c);
  if (s != RUSH_OK)
    return s;
  v->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  *out = v;
  return RUSH_OK;
}
