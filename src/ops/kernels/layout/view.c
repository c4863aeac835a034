/* Operators that only change geometry.  Each is a function on a geom; three kernels follow from it:
 * the view, its _copy form, and the in-place form, which changes the tensor's own geometry. */
#include "ops/kernels/views.h"

typedef rush_status geom_fn(rush_call *c, geom *g);

static rush_status return_view(rush_call *c, geom_fn *fn)
{
  rush_tensor *t = call_tensor(c, 0), *v;
  geom g;
  geom_of(&g, t);
  TRY(fn(c, &g));
  TRY(geom_view(c->cx, t, &g, &v));
  call_return_steal(c, 0, v);
  return RUSH_OK;
}

static rush_status return_copy(rush_call *c, geom_fn *fn)
{
  TRY(return_view(c, fn));
  rush_tensor *v = c->results[0].as.tensor, *copy;
  TRY(tensor_copy_format(c->cx, v, v->dtype, FORMAT_CONTIGUOUS, &copy));
  tensor_release(v);
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}

static rush_status change_self(rush_call *c, geom_fn *fn)
{
  TRY(return_view(c, fn));
  rush_tensor *v = c->results[0].as.tensor;
  TRY(tensor_set_like(c->cx, call_tensor(c, 0), v));
  tensor_release(v);
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

#define VIEW(name) \
  rush_kernel kernel_##name; \
  rush_status kernel_##name(rush_call *c) { return return_view(c, fn_##name); }
#define VIEW_COPY(name) \
  VIEW(name) \
  rush_kernel kernel_##name##_copy; \
  rush_status kernel_##name##_copy(rush_call *c) { return return_copy(c, fn_##name); }
#define IN_PLACE(name) \
  rush_kernel kernel_##name##_inplace; \
  rush_status kernel_##name##_inplace(rush_call *c) { return change_self(c, fn_##name); }

/* -- Reshaping --------------------------------------------------------------------------------- */

static rush_status view_as_sizes(rush_call *c, geom *g, int n, int64_t *sizes)
{
  TRY(infer_size(c->cx, n, sizes, call_tensor(c, 0)->n_elems));
  if (!geom_reshape(g, n, sizes))
    return call_fail(c->cx,
                     "view size is not compatible with input tensor's size and stride (at least "
                     "one dimension spans across two contiguous subspaces). Use .reshape(...) "
                     "instead.");
  return RUSH_OK;
}

static rush_status fn_view(rush_call *c, geom *g)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, sizes, &n));
  return view_as_sizes(c, g, n, sizes);
}
VIEW(view)

static rush_status fn_view_as(rush_call *c, geom *g)
{
  const rush_tensor *other = call_tensor(c, 1);
  int64_t sizes[TENSOR_MAX_DIMS];
  memcpy(sizes, other->sizes, other->n_dims * sizeof *sizes);
  return view_as_sizes(c, g, other->n_dims, sizes);
}
VIEW(view_as)

static rush_status return_reshaped(rush_call *c, int n, const int64_t *sizes)
{
  rush_tensor *out;
  TRY(tensor_reshape(c->cx, call_tensor(c, 0), n, sizes, &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}

rush_kernel kernel_reshape, kernel_reshape_as, kernel_flatten, kernel_ravel;
rush_status kernel_reshape(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, sizes, &n));
  return return_reshaped(c, n, sizes);
}

/* Unlike view, view_copy takes any layout. */
rush_kernel kernel_view_copy;
rush_status kernel_view_copy(rush_call *c)
{
  TRY(kernel_reshape(c));
  rush_tensor *v = c->results[0].as.tensor, *copy;
  if (v->st != call_tensor(c, 0)->st)
    return RUSH_OK;
  TRY(tensor_copy_format(c->cx, v, v->dtype, FORMAT_CONTIGUOUS, &copy));
  tensor_release(v);
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}

rush_status kernel_reshape_as(rush_call *c)
{
  const rush_tensor *other = call_tensor(c, 1);
  return return_reshaped(c, other->n_dims, other->sizes);
}

rush_status kernel_ravel(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *dense = NULL, *flat = NULL;
  TRY(tensor_contiguous(c->cx, t, &dense));
  rush_status st = tensor_reshape(c->cx, dense, 1, &(int64_t){t->n_elems}, &flat);
  tensor_release(dense);
  if (st == RUSH_OK)
    call_return_steal(c, 0, flat);
  return st;
}

rush_status kernel_flatten(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int start, end, n = 0;
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &start));
  TRY(dim_wrap(c->cx, call_int(c, 2), t->n_dims, &end));
  if (start > end)
    return call_fail(c->cx, "flatten() has invalid args: start_dim cannot come after end_dim");
  int64_t sizes[TENSOR_MAX_DIMS], flat = 1;
  if (t->n_dims == 0)
    return return_reshaped(c, 1, &flat);
  if (start == end) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  for (int i = 0; i < t->n_dims; i++) {
    if (i < start || i > end)
      sizes[n++] = t->sizes[i];
    else
      flat *= t->sizes[i];
    if (i == end)
      sizes[n++] = flat;
  }
  return return_reshaped(c, n, sizes);
}

static rush_status fn_unflatten(rush_call *c, geom *g)
{
  int64_t parts[TENSOR_MAX_DIMS], sizes[TENSOR_MAX_DIMS], given[TENSOR_MAX_DIMS];
  int d, n, unknown = -1, n_unknown = 0, k = 0;
  TRY(dim_wrap(c->cx, call_int(c, 1), g->n_dims, &d));
  TRY(call_sizes(c, 2, parts, &n));
  memcpy(given, parts, sizeof given);
  if (n == 0)
    return call_fail(c->cx, "unflatten: sizes must be non-empty");
  if (g->n_dims == 0)
    return call_fail(c->cx, "unflatten: a 0-dim tensor has no dimension to unflatten");
  if (g->n_dims - 1 + n > TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "unflatten to more than %d dimensions", TENSOR_MAX_DIMS);
  int64_t product = 1, whole = g->sizes[d];
  for (int i = 0; i < n; i++) {
    if (parts[i] == -1) {
      n_unknown++;
      unknown = i;
    } else if (__builtin_mul_overflow(product, parts[i], &product)) {
      product = INT64_MIN; /* no dimension's size */
    }
  }
  if (n_unknown == 1 && product > 0 && whole % product == 0) {
    parts[unknown] = whole / product;
    product *= parts[unknown];
  }
  if (n_unknown > 1)
    return call_fail(c->cx, "only one dimension can be inferred");
  sizes_text buf;
  if (product != whole || (n_unknown && parts[unknown] < 0))
    return call_fail(c->cx,
                     "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) "
                     "in the input tensor",
                     sizes_print(&buf, n, given), d, (long long)whole);
  for (int i = 0; i < g->n_dims; i++) {
    for (int j = 0; i == d && j < n; j++)
      sizes[k++] = parts[j];
    if (i != d)
      sizes[k++] = g->sizes[i];
  }
  return view_as_sizes(c, g, k, sizes);
}
VIEW(unflatten)

/* The result of reshape where PyTorch knows that a view exists. */
static rush_status fn_reshape_alias(rush_call *c, geom *g)
{
  int n, m;
  TRY(call_sizes(c, 1, g->sizes, &n));
  TRY(call_sizes(c, 2, g->strides, &m));
  if (n != m)
    return call_fail(c->cx, "mismatch in length of strides and shape");
  g->n_dims = n;
  return RUSH_OK;
}
VIEW_COPY(reshape_alias)

static rush_status fn_as_strided(rush_call *c, geom *g)
{
  int64_t offset = call_int_or(c, 3, g->offset);
  TRY(fn_reshape_alias(c, g));
  g->offset = offset;
  return RUSH_OK;
}
VIEW_COPY(as_strided)
IN_PLACE(as_strided)

/* -- Permuting --------------------------------------------------------------------------------- */

static rush_status fn_permute(rush_call *c, geom *g)
{
  int64_t dims[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, dims, &n));
  return geom_permute(c->cx, g, n, dims);
}
VIEW_COPY(permute)

static rush_status fn_transpose(rush_call *c, geom *g)
{
  return geom_transpose(c->cx, g, call_int(c, 1), call_int(c, 2));
}
VIEW_COPY(transpose)
IN_PLACE(transpose)

static rush_status fn_t(rush_call *c, geom *g)
{
  if (g->n_dims > 2)
    return call_fail(c->cx, "t() expects a tensor with <= 2 dimensions, but self is %dD",
                     g->n_dims);
  return g->n_dims < 2 ? RUSH_OK : geom_transpose(c->cx, g, 0, 1);
}
VIEW_COPY(t)
IN_PLACE(t)

static rush_status fn_numpy_t(rush_call *c, geom *g)
{
  (void)c;
  for (int i = 0, j = g->n_dims - 1; i < j; i++, j--)
    TRY(geom_transpose(c->cx, g, i, j));
  return RUSH_OK;
}
VIEW(numpy_t)

static rush_status fn_mt(rush_call *c, geom *g)
{
  if (g->n_dims == 0)
    return RUSH_OK;
  if (g->n_dims < 2)
    return call_fail(c->cx,
                     "tensor.%s is only supported on matrices or batches of matrices. Got %d-D "
                     "tensor.",
                     strrchr(c->op->schema->name, ':') + 1, g->n_dims);
  return geom_transpose(c->cx, g, -2, -1);
}
VIEW(mt)

/* source and destination lists of the same length; the other dimensions keep their order. */
static rush_status fn_movedim(rush_call *c, geom *g)
{
  int64_t from[TENSOR_MAX_DIMS], to[TENSOR_MAX_DIMS], order[TENSOR_MAX_DIMS];
  int n, m, dims = g->n_dims;
  uint64_t from_seen = 0, to_seen = 0;
  TRY(call_sizes(c, 1, from, &n));
  TRY(call_sizes(c, 2, to, &m));
  if (n != m)
    return call_fail(c->cx, "movedim: Invalid source or destination dims: source (%d dims) should "
                            "contain the same number of dims as destination (%d dims)", n, m);
  for (int i = 0; i < n; i++) {
    int s, d;
    TRY(dim_wrap(c->cx, from[i], dims, &s));
    TRY(dim_wrap(c->cx, to[i], dims, &d));
    if (from_seen >> s & 1)
      return call_fail(c->cx, "movedim: repeated dim in `source`");
    if (to_seen >> d & 1)
      return call_fail(c->cx, "movedim: repeated dim in `destination`");
    from_seen |= UINT64_C(1) << s;
    to_seen |= UINT64_C(1) << d;
    order[d] = s;
  }
  if (dims == 0)
    return RUSH_OK;
  for (int d = 0, s = 0; d < dims; d++) {
    if (to_seen >> d & 1)
      continue;
    while (from_seen >> s & 1)
      s++;
    order[d] = s++;
  }
  return geom_permute(c->cx, g, dims, order);
}
VIEW(movedim)

/* -- Dimensions of size 1 ---------------------------------------------------------------------- */

static rush_status squeeze_mask(geom *g, uint64_t mask)
{
  for (int i = g->n_dims - 1; i >= 0; i--)
    if ((mask >> i & 1) && g->sizes[i] == 1)
      geom_remove_dim(g, i);
  return RUSH_OK;
}

static rush_status fn_squeeze(rush_call *c, geom *g)
{
  (void)c;
  return squeeze_mask(g, UINT64_MAX);
}
VIEW_COPY(squeeze)
IN_PLACE(squeeze)

static rush_status fn_squeeze_dims(rush_call *c, geom *g)
{
  int64_t dims[TENSOR_MAX_DIMS];
  uint64_t mask = 0;
  int n;
  TRY(call_sizes(c, 1, dims, &n));
  for (int i = 0; i < n; i++) {
    int d;
    TRY(dim_wrap(c->cx, dims[i], g->n_dims, &d));
    if (mask >> d & 1)
      return call_fail(c->cx, "dim %d appears multiple times in the list of dims", d);
    mask |= UINT64_C(1) << d;
  }
  return squeeze_mask(g, mask);
}
VIEW_COPY(squeeze_dims)
IN_PLACE(squeeze_dims)

static rush_status fn_unsqueeze(rush_call *c, geom *g)
{
  return geom_unsqueeze(c->cx, g, call_int(c, 1));
}
VIEW_COPY(unsqueeze)
IN_PLACE(unsqueeze)

static rush_status fn_expand(rush_call *c, geom *g)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, sizes, &n));
  return geom_expand(c->cx, g, call_tensor(c, 0)->dtype, n, sizes);
}
VIEW_COPY(expand)

static rush_status fn_expand_as(rush_call *c, geom *g)
{
  const rush_tensor *other = call_tensor(c, 1);
  return geom_expand(c->cx, g, call_tensor(c, 0)->dtype, other->n_dims, other->sizes);
}
VIEW(expand_as)

/* (), (n), (m, n) become at least (1), (1, n), (m, n, 1). */
static rush_status at_least(geom *g, int n)
{
  while (g->n_dims < i64_min(n, 2)) {
    for (int i = g->n_dims; i > 0; i--) {
      g->sizes[i] = g->sizes[i - 1];
      g->strides[i] = g->strides[i - 1];
    }
    g->sizes[0] = g->strides[0] = 1;
    g->n_dims++;
  }
  if (g->n_dims < n) {
    g->sizes[g->n_dims] = g->strides[g->n_dims] = 1;
    g->n_dims++;
  }
  return RUSH_OK;
}

static rush_status fn_atleast_1d(rush_call *c, geom *g) { return (void)c, at_least(g, 1); }
VIEW(atleast_1d)
static rush_status fn_atleast_2d(rush_call *c, geom *g) { return (void)c, at_least(g, 2); }
VIEW(atleast_2d)
static rush_status fn_atleast_3d(rush_call *c, geom *g) { return (void)c, at_least(g, 3); }
VIEW(atleast_3d)

static rush_status at_least_each(rush_call *c, int n)
{
  const rush_list *l = call_list(c, 0);
  rush_list *out;
  TRY(list_new(c->cx, type_simple(TYPE_TENSOR), l->n, &out));
  rush_status s = RUSH_OK;
  for (size_t i = 0; i < l->n && s == RUSH_OK; i++) {
    rush_tensor *v = NULL;
    geom g;
    geom_of(&g, list_tensor(l, i));
    (void)at_least(&g, n);
    s = geom_view(c->cx, list_tensor(l, i), &g, &v);
    if (s == RUSH_OK)
      s = list_append_steal(c->cx, out, value_tensor_steal(v));
  }
  rush_value r = value_heap_steal(RUSH_TAG_LIST, out);
  if (s != RUSH_OK)
    value_release(r);
  else
    c->results[0] = r;
  return s;
}
rush_kernel kernel_atleast_1d_list, kernel_atleast_2d_list, kernel_atleast_3d_list;
rush_status kernel_atleast_1d_list(rush_call *c) { return at_least_each(c, 1); }
rush_status kernel_atleast_2d_list(rush_call *c) { return at_least_each(c, 2); }
rush_status kernel_atleast_3d_list(rush_call *c) { return at_least_each(c, 3); }

/* -- Parts ------------------------------------------------------------------------------------- */

static rush_status fn_select(rush_call *c, geom *g)
{
  return geom_select(c->cx, g, call_int(c, 1), call_int(c, 2));
}
VIEW_COPY(select)

static rush_status fn_slice(rush_call *c, geom *g)
{
  return geom_slice(c->cx, g, call_int(c, 1), call_int_or(c, 2, 0), call_int_or(c, 3, INT64_MAX),
                    call_int(c, 4));
}
VIEW_COPY(slice)

static rush_status fn_narrow(rush_call *c, geom *g)
{
  return geom_narrow(c->cx, g, call_int(c, 1), call_int(c, 2), call_int(c, 3));
}
VIEW_COPY(narrow)

static rush_status fn_narrow_tensor(rush_call *c, geom *g)
{
  const rush_tensor *start = call_tensor(c, 2);
  rush_value v;
  if (start->n_dims != 0 || !(dtype_is_integral(start->dtype)))
    return call_fail(c->cx, "start must be an 0-dim integral Tensor.");
  TRY(tensor_item(c->cx, start, &v));
  return geom_narrow(c->cx, g, call_int(c, 1), v.as.i, call_int(c, 3));
}
VIEW(narrow_tensor)

static rush_status fn_diagonal(rush_call *c, geom *g)
{
  return geom_diagonal(c->cx, g, call_int(c, 1), call_int(c, 2), call_int(c, 3));
}
VIEW_COPY(diagonal)

static rush_status fn_unfold(rush_call *c, geom *g)
{
  int d;
  int64_t size = call_int(c, 2), step = call_int(c, 3);
  TRY(dim_wrap(c->cx, call_int(c, 1), g->n_dims, &d));
  int64_t max = g->n_dims == 0 ? 1 : g->sizes[d];
  if (size < 0)
    return call_fail(c->cx, "size is %lld but must be >= 0", (long long)size);
  if (size > max)
    return call_fail(c->cx, "maximum size for tensor at dimension %d is %lld but size is %lld", d,
                     (long long)max, (long long)size);
  if (step <= 0)
    return call_fail(c->cx, "step is %lld but must be > 0", (long long)step);
  if (g->n_dims + 1 > TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "more than %d dimensions", TENSOR_MAX_DIMS);
  int64_t stride = g->n_dims == 0 ? 1 : g->strides[d];
  g->sizes[g->n_dims] = size;
  g->strides[g->n_dims] = stride;
  if (d < g->n_dims) {
    g->sizes[d] = (max - size) / step + 1;
    if (__builtin_mul_overflow(stride, step, &g->strides[d]))
      g->strides[d] = 1; /* one window */
  }
  g->n_dims++;
  return RUSH_OK;
}
VIEW_COPY(unfold)

/* -- Nothing changes --------------------------------------------------------------------------- */

static rush_status fn_alias(rush_call *c, geom *g) { return (void)c, (void)g, RUSH_OK; }
VIEW_COPY(alias)

rush_kernel kernel_detach, kernel_detach_inplace, kernel_self, kernel_detach_copy;
rush_status kernel_detach(rush_call *c)
{
  TRY(return_view(c, fn_alias));
  c->results[0].as.tensor->h.flags &= (uint8_t)~TENSOR_REQUIRES_GRAD;
  return RUSH_OK;
}

rush_status kernel_detach_copy(rush_call *c)
{
  TRY(return_copy(c, fn_alias));
  return RUSH_OK;
}

rush_status kernel_detach_inplace(rush_call *c)
{
  call_tensor(c, 0)->h.flags &= (uint8_t)~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN);
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

/* Operators that give their argument back: resolve_conj, lift, positive... */
rush_status kernel_self(rush_call *c)
{
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

/* -- Complex numbers and bits ------------------------------------------------------------------ */

/* A view of the same storage as another dtype. */
static rush_status return_bits(rush_call *c, int dtype, const geom *g)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *v;
  TRY(tensor_new_view(c->cx, t->st, dtype, g->n_dims, g->sizes, g->strides, g->offset, &v));
  v->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  call_return_steal(c, 0, v);
  return RUSH_OK;
}

static rush_status part_view(rush_call *c, int part)
{
  const rush_tensor *t = call_tensor(c, 0);
  geom g;
  geom_of(&g, t);
  for (int i = 0; i < g.n_dims; i++)
    g.strides[i] *= 2;
  g.offset = 2 * g.offset + part;
  return return_bits(c, dtype_to_real(t->dtype), &g);
}

rush_kernel kernel_real, kernel_imag, kernel_view_as_real, kernel_view_as_complex,
  kernel_view_dtype;
rush_status kernel_real(rush_call *c)
{
  return dtype_is_complex(call_tensor(c, 0)->dtype) ? part_view(c, 0) : kernel_self(c);
}

rush_status kernel_imag(rush_call *c)
{
  if (!dtype_is_complex(call_tensor(c, 0)->dtype))
    return call_fail(c->cx, "imag is not implemented for tensors with non-complex dtypes.");
  return part_view(c, 1);
}

rush_status kernel_view_as_real(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  geom g;
  if (!dtype_is_complex(t->dtype))
    return call_fail(c->cx, "view_as_real is only supported for complex tensors");
  geom_of(&g, t);
  if (g.n_dims + 1 > TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "more than %d dimensions", TENSOR_MAX_DIMS);
  for (int i = 0; i < g.n_dims; i++)
    g.strides[i] *= 2;
  g.offset *= 2;
  g.sizes[g.n_dims] = 2;
  g.strides[g.n_dims++] = 1;
  return return_bits(c, dtype_to_real(t->dtype), &g);
}

rush_status kernel_view_as_complex(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  geom g;
  if (t->dtype != RUSH_FLOAT16 && t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_FLOAT64)
    return call_fail(c->cx,
                     "view_as_complex is only supported for half, float and double tensors, but "
                     "got a tensor of scalar type: %s",
                     dtype_aten_name(t->dtype));
  geom_of(&g, t);
  int last = g.n_dims - 1;
  if (last < 0)
    return call_fail(c->cx, "Input tensor must have one or more dimensions");
  if (g.sizes[last] != 2)
    return call_fail(c->cx, "Tensor must have a last dimension of size 2");
  if (g.strides[last] != 1)
    return call_fail(c->cx, "Tensor must have a last dimension with stride 1");
  if (g.offset % 2)
    return call_fail(c->cx, "Tensor must have a storage_offset divisible by 2");
  g.n_dims--;
  for (int i = 0; i < g.n_dims; i++) {
    if (g.strides[i] % 2)
      return call_fail(c->cx,
                       "Tensor must have a stride divisible by 2 for all but last dimension");
    g.strides[i] /= 2;
  }
  g.offset /= 2;
  return return_bits(c, dtype_to_complex(t->dtype), &g);
}

/* The last dimension becomes longer or shorter by the ratio of the item sizes. */
static rush_status resize_items(rush_call *c, geom *g, int64_t from, int64_t to)
{
  const char *why = NULL;
  int last = g->n_dims - 1;
  if (last < 0)
    return call_fail(c->cx, "self.dim() cannot be 0 to view %lld-byte elements as %lld-byte ones "
                            "(different element sizes)", (long long)from, (long long)to);
  if (g->strides[last] != 1 && g->sizes[last] > 1)
    why = "self.stride(-1) must be 1";
  int64_t ratio = from > to ? from / to : to / from;
  for (int i = 0; i < last && !why && from < to; i++)
    if (g->strides[i] % ratio)
      why = "the strides must be divisible by the ratio of the element sizes";
  if (!why && from < to && (g->sizes[last] % ratio || g->offset % ratio))
    why =
      "self.size(-1) and self.storage_offset() must be divisible by the ratio of the element sizes";
  if (why)
    return call_fail(c->cx,
                     "%s to view %lld-byte elements as %lld-byte ones (different element sizes)",
                     why, (long long)from, (long long)to);
  for (int i = 0; i < last; i++)
    g->strides[i] = from > to ? g->strides[i] * ratio : g->strides[i] / ratio;
  g->strides[last] = 1;
  g->sizes[last] = from > to ? g->sizes[last] * ratio : g->sizes[last] / ratio;
  g->offset = from > to ? g->offset * ratio : g->offset / ratio;
  return RUSH_OK;
}

rush_status kernel_view_dtype(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int dtype = (int)call_int(c, 1);
  if (!dtype_is_valid(dtype))
    return call_fail(c->cx, "view: no such dtype: %d", dtype);
  if (dtype == t->dtype)
    return return_view(c, fn_alias);
  geom g;
  geom_of(&g, t);
  int64_t from = (int64_t)dtype_bytes(t->dtype), to = (int64_t)dtype_bytes(dtype);
  if (from != to)
    TRY(resize_items(c, &g, from, to));
  return return_bits(c, dtype, &g);
}

/* Forms that copy what one of the above gives. */
static rush_status copied(rush_call *c, rush_kernel *view)
{
  TRY(view(c));
  rush_tensor *v = c->results[0].as.tensor, *copy;
  TRY(tensor_copy_format(c->cx, v, v->dtype, FORMAT_CONTIGUOUS, &copy));
  tensor_release(v);
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}
rush_kernel kernel_view_as_real_copy, kernel_view_as_complex_copy, kernel_view_dtype_copy;
rush_status kernel_view_as_real_copy(rush_call *c) { return copied(c, kernel_view_as_real); }
rush_status kernel_view_as_complex_copy(rush_call *c) { return copied(c, kernel_view_as_complex); }
rush_status kernel_view_dtype_copy(rush_call *c) { return copied(c, kernel_view_dtype); }

/* Negates the imaginary parts of a fresh tensor. */
static void conjugate(rush_tensor *t)
{
  for (int64_t i = 0; i < t->n_elems; i++) {
    if (t->dtype == RUSH_COMPLEX64)
      ((float *)t->data)[2 * i + 1] *= -1;
    else if (t->dtype == RUSH_COMPLEX128)
      ((double *)t->data)[2 * i + 1] *= -1;
    else
      ((uint16_t *)t->data)[2 * i + 1] ^= 0x8000;
  }
}

/* PyTorch's conj() is a lazy view; here it is a copy, which only an in-place write could tell
 * apart. */
rush_kernel kernel_conj, kernel_adjoint;
rush_status kernel_conj(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *copy;
  if (!dtype_is_complex(t->dtype))
    return kernel_self(c);
  TRY(tensor_copy_format(c->cx, t, t->dtype, FORMAT_PRESERVE, &copy));
  conjugate(copy);
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}

rush_status kernel_adjoint(rush_call *c)
{
  TRY(return_view(c, fn_mt));
  rush_tensor *v = c->results[0].as.tensor, *copy;
  if (!dtype_is_complex(v->dtype))
    return RUSH_OK;
  TRY(tensor_copy_format(c->cx, v, v->dtype, FORMAT_PRESERVE, &copy));
  tensor_release(v);
  conjugate(copy);
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}
