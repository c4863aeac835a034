/* ops/kernels/layout/join.c -- operators that join, repeat or rearrange tensors: cat, stack,
 * meshgrid, repeat, flip, roll, diagonals. cat of contiguous tensors of one dtype copies rows in
 * parallel; everything else copies into views of the result, so that tensor_copy handles
 * conversion and strides. stack is a cat whose dimension is split again. flip reads its source
 * with negative strides inside an iterator, since a tensor cannot have them. Cost: each element
 * is copied once. */
#include "base/threads.h"
#include "ops/kernels/views.h"
#include "tensor/iter.h"

static const char *short_name(const rush_call *c) { return strrchr(c->op->schema->name, ':') + 1; }

/* -- cat --------------------------------------------------------------------------------------- */

/* True for a 1-d tensor of no elements, which fits anything: PyTorch's old rule. */
static bool is_skipped(const rush_tensor *t) { return t->n_dims == 1 && t->sizes[0] == 0; }

static rush_status cat_shape(call_ctx *cx, rush_tensor *const *t, size_t n, int64_t dim,
                             int *out_dim, rush_tensor *out)
{
  promote_state p = PROMOTE_INIT;
  const rush_tensor *first = NULL;
  int d = 0;
  for (size_t i = 0; i < n; i++) {
    if (t[i]->n_dims == 0)
      return call_fail(cx, "zero-dimensional tensor (at position %zu) cannot be concatenated", i);
    promote_add(&p, t[i]->dtype, t[i]->n_dims);
    if (!first && !is_skipped(t[i]))
      first = t[i];
  }
  if (!first)
    first = t[0];
  TRY(dim_wrap(cx, dim, first->n_dims, &d));
  memcpy(out->sizes, first->sizes, first->n_dims * sizeof *out->sizes);
  out->n_dims = first->n_dims;
  out->sizes[d] = 0;
  for (size_t i = 0; i < n; i++) {
    if (is_skipped(t[i]))
      continue;
    if (t[i]->n_dims != first->n_dims)
      return call_fail(cx, "Tensors must have same number of dimensions: got %d and %d",
                       first->n_dims, t[i]->n_dims);
    for (int k = 0; k < first->n_dims; k++)
      if (k != d && t[i]->sizes[k] != first->sizes[k])
        return call_fail(
          cx,
          "Sizes of tensors must match except in dimension %d. Expected size %lld but got "
          "size %lld for tensor number %zu in the list.",
          d, (long long)first->sizes[k], (long long)t[i]->sizes[k], i);
    if (__builtin_add_overflow(out->sizes[d], t[i]->sizes[d], &out->sizes[d])) /* of empty ones */
      return call_fail(cx, "Storage size calculation overflowed");
  }
  int dtype = promote_result(&p);
  if (dtype == DTYPE_NONE)
    return call_fail(cx, "cat: the tensors' dtypes have no common one");
  out->dtype = (int16_t)dtype;
  *out_dim = d;
  return RUSH_OK;
}

typedef struct cat_arg {
  rush_tensor *const *t;
  size_t n;
  char *out;
  int dim;
  size_t row_bytes; /* of one outer index of the result */
  const call_ctx *cx;
} cat_arg;

static void cat_rows(void *p, int64_t begin, int64_t end)
{
  const cat_arg *a = p;
  char *d = a->out + (size_t)begin * a->row_bytes;
  for (int64_t r = begin; r < end; r++)
    for (size_t i = 0; i < a->n; i++) {
      const rush_tensor *t = a->t[i];
      size_t bytes = tensor_item_bytes(t);
      for (int k = a->dim; k < t->n_dims; k++)
        bytes *= (size_t)t->sizes[k];
      if (!bytes_copy(a->cx, d, (const char *)t->data + (size_t)r * bytes, bytes))
        return;
      d += bytes;
    }
}

static bool cat_is_plain(rush_tensor *const *t, size_t n, const rush_tensor *out)
{
  for (size_t i = 0; i < n; i++)
    if (t[i]->dtype != out->dtype || !tensor_is_contiguous(t[i]) ||
        (is_skipped(t[i]) && out->n_dims != 1))
      return false;
  return tensor_is_contiguous(out);
}

static rush_status cat_into(call_ctx *cx, rush_tensor *const *t, size_t n, int dim,
                            rush_tensor *out)
{
  int64_t outer = 1, inner = (int64_t)tensor_item_bytes(out), at = 0;
  for (int k = 0; k < out->n_dims; k++)
    *(k < dim ? &outer : &inner) *= out->sizes[k];
  if (out->n_elems == 0)
    return RUSH_OK;
  const bool narrow = inner < 16 * (int64_t)n &&
                      outer >= 64; /* rows of an element or two: a copy with strides each */
  if (!narrow && cat_is_plain(t, n, out)) {
    cat_arg a = {t, n, out->data, dim, (size_t)inner, cx};
    if (outer * inner < 65536) {
      cat_rows(&a, 0, outer);
      return RUSH_OK;
    }
    return parallel_for(cx, outer, i64_max(65536 / inner, 1), cat_rows, &a);
  }
  for (size_t i = 0; i < n; i++) {
    if (is_skipped(t[i]))
      continue;
    rush_tensor *v;
    TRY(tensor_narrow(cx, out, dim, at, t[i]->sizes[dim], &v));
    rush_status s = tensor_copy(cx, v, t[i]);
    tensor_release(v);
    if (s != RUSH_OK)
      return s;
    at += t[i]->sizes[dim];
  }
  return RUSH_OK;
}

/* Concatenate n tensors, as torch.cat. */
static rush_status cat_tensors(call_ctx *cx, rush_tensor *const *t, size_t n, int64_t dim,
                               rush_tensor **out)
{
  int64_t dims[TENSOR_MAX_DIMS];
  rush_tensor shape = {.sizes = dims}, *r;
  int d = 0;
  if (n == 0)
    return call_fail_type(cx, "ValueError", "torch.cat(): expected a non-empty list of Tensors");
  TRY(cat_shape(cx, t, n, dim, &d, &shape));
  bool last = shape.n_dims == 4 || shape.n_dims == 5;
  for (size_t i = 0; i < n && last; i++)
    last = is_skipped(t[i]) || tensor_prefers_channels_last(t[i]);
  int format = !last               ? FORMAT_CONTIGUOUS
               : shape.n_dims == 4 ? FORMAT_CHANNELS_LAST
                                   : FORMAT_CHANNELS_LAST_3D;
  TRY(tensor_new_format(cx, &shape, shape.dtype, format, &r));
  rush_status s = cat_into(cx, t, n, d, r);
  if (s != RUSH_OK) {
    tensor_release(r);
    return s;
  }
  *out = r;
  return RUSH_OK;
}

/* -- Lists of tensors -------------------------------------------------------------------------- */

/* The tensors of args[0] as an array of owned references, which the caller changes and releases. */
typedef struct tensor_row {
  size_t n;
  rush_tensor **t;
} tensor_row;

static rush_status row_of_list(rush_call *c, tensor_row *row)
{
  const rush_list *l = call_list(c, 0);
  rush_tensor **t = mem_alloc(c->cx->ctx, l->n * sizeof *t);
  if (!t)
    return call_nomem(c->cx);
  row->n = l->n;
  row->t = t;
  for (size_t i = 0; i < l->n; i++)
    t[i] = tensor_retain(list_tensor(l, i));
  for (size_t i = 0; i < l->n; i++)
    if (!t[i]) {
      for (size_t k = 0; k < l->n; k++)
        tensor_release(t[k]);
      mem_free(c->cx->ctx, t, l->n * sizeof *t);
      return call_fail(c->cx, "%s: element %zu of the list is undefined", short_name(c), i);
    }
  return RUSH_OK;
}

static void row_free(rush_call *c, tensor_row *row)
{
  for (size_t i = 0; i < row->n; i++)
    tensor_release(row->t[i]);
  mem_free(c->cx->ctx, row->t, row->n * sizeof *row->t);
}

/* Replace tensor i by a view with another geometry. */
static rush_status row_view(rush_call *c, tensor_row *row, size_t i, const geom *g)
{
  rush_tensor *v;
  TRY(geom_view(c->cx, row->t[i], g, &v));
  tensor_release(row->t[i]);
  row->t[i] = v;
  return RUSH_OK;
}

static rush_status row_return_cat(rush_call *c, tensor_row *row, int64_t dim, rush_status s)
{
  rush_tensor *r = NULL;
  if (s == RUSH_OK)
    s = cat_tensors(c->cx, row->t, row->n, dim, &r);
  row_free(c, row);
  if (s == RUSH_OK)
    call_return_steal(c, 0, r);
  return s;
}

rush_kernel kernel_cat, kernel_stack, kernel_hstack, kernel_vstack, kernel_dstack,
  kernel_column_stack;
rush_status kernel_cat(rush_call *c)
{
  tensor_row row;
  TRY(row_of_list(c, &row));
  return row_return_cat(c, &row, call_int(c, 1), RUSH_OK);
}

static rush_status check_same_sizes(rush_call *c, const tensor_row *row)
{
  for (size_t i = 1; i < row->n; i++) {
    const rush_tensor *a = row->t[0], *b = row->t[i];
    sizes_text p, q;
    if (a->n_dims != b->n_dims || memcmp(a->sizes, b->sizes, a->n_dims * sizeof *a->sizes))
      return call_fail(
        c->cx,
        "stack expects each tensor to be equal size, but got %s at entry 0 and %s at "
        "entry %zu",
        sizes_print(&p, a->n_dims, a->sizes), sizes_print(&q, b->n_dims, b->sizes), i);
  }
  return RUSH_OK;
}

/* Split dimension d into (n, rest). */
static rush_status split_dim(rush_call *c, rush_tensor *r, int d, int64_t n, rush_tensor **out)
{
  geom g;
  geom_of(&g, r);
  TRY(geom_unsqueeze(c->cx, &g, d));
  g.sizes[d] = n;
  g.sizes[d + 1] /= n;
  g.strides[d] = g.sizes[d + 1] * g.strides[d + 1];
  return geom_view(c->cx, r, &g, out);
}

/* Stack: joining along dimension d and splitting it equals joining along a new dimension before
 * it. */
static rush_status stack_before(rush_call *c, tensor_row *row, int d)
{
  rush_tensor *r = NULL, *v = NULL;
  rush_status s = cat_tensors(c->cx, row->t, row->n, d, &r);
  if (s == RUSH_OK)
    s = split_dim(c, r, d, (int64_t)row->n, &v);
  tensor_release(r);
  row_free(c, row);
  if (s == RUSH_OK)
    call_return_steal(c, 0, v);
  return s;
}

rush_status kernel_stack(rush_call *c)
{
  tensor_row row;
  int d;
  if (call_list(c, 0)->n == 0)
    return call_fail(c->cx, "stack expects a non-empty TensorList");
  TRY(row_of_list(c, &row));
  rush_status s = dim_wrap(c->cx, call_int(c, 1), row.t[0]->n_dims + 1, &d);
  if (s == RUSH_OK)
    s = check_same_sizes(c, &row);
  if (s == RUSH_OK && d < row.t[0]->n_dims)
    return stack_before(c, &row, d);
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++) {
    geom g;
    geom_of(&g, row.t[i]);
    s = geom_unsqueeze(c->cx, &g, d);
    if (s == RUSH_OK)
      s = row_view(c, &row, i, &g);
  }
  if (s != RUSH_OK)
    d = 0;
  return row_return_cat(c, &row, d, s);
}

/* Make views of at least `least` dimensions, as atleast_1d, _2d, _3d do. */
static rush_status row_at_least(rush_call *c, tensor_row *row, int least)
{
  for (size_t i = 0; i < row->n; i++) {
    geom g;
    geom_of(&g, row->t[i]);
    while (g.n_dims < i64_min(least, 2))
      TRY(geom_unsqueeze(c->cx, &g, 0));
    if (g.n_dims < least)
      TRY(geom_unsqueeze(c->cx, &g, -1));
    TRY(row_view(c, row, i, &g));
  }
  return RUSH_OK;
}

static rush_status stack_at_least(rush_call *c, int least, int64_t dim)
{
  tensor_row row;
  if (call_list(c, 0)->n == 0)
    return call_fail(c->cx, "%cstack expects a non-empty TensorList",
                     least == 1   ? 'h'
                     : least == 2 ? 'v'
                                  : 'd');
  TRY(row_of_list(c, &row));
  rush_status s = row_at_least(c, &row, least);
  if (s == RUSH_OK && least == 1 && row.t[0]->n_dims == 1)
    dim = 0;
  return row_return_cat(c, &row, dim, s);
}
rush_status kernel_hstack(rush_call *c) { return stack_at_least(c, 1, 1); }
rush_status kernel_vstack(rush_call *c) { return stack_at_least(c, 2, 0); }
rush_status kernel_dstack(rush_call *c) { return stack_at_least(c, 3, 2); }

rush_status kernel_column_stack(rush_call *c)
{
  tensor_row row;
  if (call_list(c, 0)->n == 0)
    return call_fail(c->cx, "column_stack expects a non-empty TensorList");
  TRY(row_of_list(c, &row));
  rush_status s = RUSH_OK;
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++) {
    geom g;
    geom_of(&g, row.t[i]);
    while (g.n_dims < 2 && s == RUSH_OK)
      s = geom_unsqueeze(c->cx, &g, -1);
    if (s == RUSH_OK)
      s = row_view(c, &row, i, &g);
  }
  return row_return_cat(c, &row, 1, s);
}

rush_kernel kernel_block_diag;
rush_status kernel_block_diag(rush_call *c)
{
  tensor_row row;
  int64_t sizes[] = {0, 0}, at[] = {0, 0};
  promote_state p = PROMOTE_INIT;
  TRY(row_of_list(c, &row));
  rush_status s = RUSH_OK;
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++)
    if (row.t[i]->n_dims > 2)
      s =
        call_fail(c->cx,
                  "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %zu has "
                  "%d dimensions",
                  i, row.t[i]->n_dims);
  if (s == RUSH_OK)
    s = row_at_least(c, &row, 2);
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++) {
    promote_add(&p, row.t[i]->dtype, 2);
    for (int k = 0; k < 2 && s == RUSH_OK; k++)
      if (__builtin_add_overflow(sizes[k], row.t[i]->sizes[k], &sizes[k])) /* of empty ones */
        s = call_fail(c->cx, "Storage size calculation overflowed");
  }
  rush_tensor *r = NULL;
  if (row.n == 0)
    sizes[0] = 1, promote_add(&p, RUSH_FLOAT32, 1);
  if (s == RUSH_OK)
    s = tensor_new(c->cx, promote_result(&p), 2, sizes, &r);
  if (s == RUSH_OK)
    s = tensor_fill(c->cx, r, value_int(0));
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++) {
    rush_tensor *v = NULL;
    geom g;
    geom_of(&g, r);
    for (int d = 0; d < 2; d++) {
      g.offset += at[d] * g.strides[d];
      g.sizes[d] = row.t[i]->sizes[d];
      at[d] += g.sizes[d];
    }
    s = geom_view(c->cx, r, &g, &v);
    if (s == RUSH_OK)
      s = tensor_copy(c->cx, v, row.t[i]);
    tensor_release(v);
  }
  row_free(c, &row);
  return call_return_made_steal(c, 0, r, s);
}

/* -- Broadcasting lists ------------------------------------------------------------------------ */

static rush_status row_return_list(rush_call *c, tensor_row *row, rush_status s)
{
  if (s == RUSH_OK) {
    s = call_return_tensors_steal(c, 0, row->t, row->n);
    mem_free(c->cx->ctx, row->t, row->n * sizeof *row->t);
    return s;
  }
  row_free(c, row);
  return s;
}

rush_kernel kernel_broadcast_tensors, kernel_meshgrid;
rush_status kernel_broadcast_tensors(rush_call *c)
{
  tensor_row row;
  int64_t sizes[TENSOR_MAX_DIMS];
  int n = 0;
  TRY(row_of_list(c, &row));
  rush_status s = RUSH_OK;
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++) {
    const rush_tensor *t = row.t[i];
    if (sizes_broadcast(n, sizes, t->n_dims, t->sizes, &n, sizes))
      continue;
    for (int k = 1; k <= n && k <= t->n_dims && s == RUSH_OK; k++) {
      int64_t a = sizes[n - k], b = t->sizes[t->n_dims - k];
      if (a != b && a != 1 && b != 1)
        s = call_fail(c->cx,
                      "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                      "non-singleton dimension %d",
                      (long long)a, (long long)b, (n > t->n_dims ? n : t->n_dims) - k);
    }
  }
  for (size_t i = 0; i < row.n && s == RUSH_OK; i++) {
    geom g;
    geom_of(&g, row.t[i]);
    s = geom_expand(c->cx, &g, row.t[i]->dtype, n, sizes);
    if (s == RUSH_OK)
      s = row_view(c, &row, i, &g);
  }
  return row_return_list(c, &row, s);
}

static void swap_tensors(rush_tensor **a, rush_tensor **b)
{
  rush_tensor *t = *a;
  *a = *b, *b = t;
}

rush_status kernel_meshgrid(rush_call *c)
{
  tensor_row row;
  int64_t sizes[TENSOR_MAX_DIMS];
  bool xy = c->n_args > 1 && str_is(call_str(c, 1), "xy");
  if (c->n_args > 1 && !xy && !str_is(call_str(c, 1), "ij"))
    return call_fail(c->cx,
                     "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %.*s",
                     (int)call_str(c, 1).len, call_str(c, 1).p);
  if (call_list(c, 0)->n == 0)
    return call_fail(c->cx, "meshgrid expects a non-empty TensorList");
  if (call_list(c, 0)->n > TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "meshgrid of more than %d tensors", TENSOR_MAX_DIMS);
  TRY(row_of_list(c, &row));
  rush_status s = RUSH_OK;
  int n = (int)row.n;
  xy = xy && n >= 2;
  if (xy)
    swap_tensors(&row.t[0], &row.t[1]);
  for (int i = 0; i < n && s == RUSH_OK; i++) {
    if (row.t[i]->n_dims > 1)
      s = call_fail(c->cx,
                    "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: %d dims",
                    row.t[i]->n_dims);
    sizes[i] = row.t[i]->n_elems;
  }
  for (int i = 0; i < n && s == RUSH_OK; i++) {
    geom g = {.n_dims = n, .offset = row.t[i]->offset};
    for (int k = 0; k < n; k++) {
      g.sizes[k] = sizes[k];
      g.strides[k] = k == i && row.t[i]->n_dims ? row.t[i]->strides[0] : 0;
    }
    s = row_view(c, &row, (size_t)i, &g);
  }
  if (s == RUSH_OK && xy)
    swap_tensors(&row.t[0], &row.t[1]);
  return row_return_list(c, &row, s);
}

/* Make rows of every choice of one element per tensor: meshgrid, flattened and stacked. */
rush_kernel kernel_cartesian_prod;
rush_status kernel_cartesian_prod(rush_call *c)
{
  const rush_list *l = call_list(c, 0);
  sizes_text buf;
  for (size_t i = 0; i < l->n; i++)
    if (!list_tensor(l, i))
      return call_fail(c->cx, "cartesian_prod: element %zu of the list is undefined", i);
    else if (list_tensor(l, i)->n_dims != 1)
      return call_fail(c->cx, "Expect a 1D vector, but got shape %s",
                       sizes_print(&buf, list_tensor(l, i)->n_dims, list_tensor(l, i)->sizes));
  if (l->n == 0)
    return call_fail(c->cx, "meshgrid expects a non-empty TensorList");
  if (l->n == 1) {
    c->results[0] = value_retain(l->items[0]);
    return RUSH_OK;
  }
  rush_value grids, flat, args[2];
  TRY(op_invoke_name(c->cx, "aten::meshgrid", "", c->args, 1, &grids));
  args[0] = grids, args[1] = value_int(-1);
  rush_status s = op_invoke_name(c->cx, "aten::stack", "", args, 2, &flat);
  value_release(grids);
  if (s != RUSH_OK)
    return s;
  int64_t sizes[] = {-1, (int64_t)l->n};
  rush_tensor *r;
  s = tensor_reshape(c->cx, flat.as.tensor, 2, sizes, &r);
  value_release(flat);
  if (s == RUSH_OK)
    call_return_steal(c, 0, r);
  return s;
}

/* -- Repeating --------------------------------------------------------------------------------- */

/* Copy the source viewed as (1, s0, 1, s1, ...) to the result viewed as (r0, s0, r1, s1, ...). */
static rush_status repeat(rush_call *c, int n, const int64_t *repeats)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t sizes[TENSOR_MAX_DIMS];
  int lead = n - t->n_dims;
  bool negative = false;
  sizes_text buf;
  if (lead < 0)
    return call_fail(
      c->cx, "Number of dimensions of repeat dims can not be smaller than number of dimensions "
             "of tensor");
  if (2 * n > TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "repeat in %d dimensions", n);
  geom to = {.n_dims = 2 * n}, from = {.n_dims = 2 * n, .offset = t->offset};
  for (int i = 0; i < n; i++) {
    int64_t size = i < lead ? 1 : t->sizes[i - lead];
    if (__builtin_mul_overflow(size, repeats[i], &sizes[i]))
      return call_fail(c->cx, "repeat: the result is too large");
    negative |= sizes[i] < 0;
    to.sizes[2 * i] = from.sizes[2 * i] = repeats[i];
    to.sizes[2 * i + 1] = from.sizes[2 * i + 1] = size;
    from.strides[2 * i] = 0;
    from.strides[2 * i + 1] = i < lead ? 0 : t->strides[i - lead];
  }
  for (int i = 0; i < n && negative; i++)
    if (sizes[i] < 0)
      return call_fail(c->cx, "Trying to create tensor with negative dimension %lld: %s",
                       (long long)sizes[i], sizes_print(&buf, n, sizes));
  rush_tensor *r;
  TRY(tensor_new(c->cx, t->dtype, n, sizes, &r));
  strides_contiguous(to.n_dims, to.sizes, to.strides);
  rush_status s = geom_copy(c->cx, r, &to, t, &from);
  return call_return_made_steal(c, 0, r, s);
}

rush_kernel kernel_repeat, kernel_tile;
rush_status kernel_repeat(rush_call *c)
{
  int64_t repeats[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, repeats, &n));
  return repeat(c, n, repeats);
}

rush_status kernel_tile(rush_call *c)
{
  int64_t given[TENSOR_MAX_DIMS], repeats[TENSOR_MAX_DIMS];
  int n, dims = call_tensor(c, 0)->n_dims;
  TRY(call_sizes(c, 1, given, &n));
  int all = n > dims ? n : dims;
  for (int i = 0; i < all; i++)
    repeats[i] = i < all - n ? 1 : given[i - (all - n)];
  return repeat(c, all, repeats);
}

/* -- flip, roll, rot90 ------------------------------------------------------------------------- */

static void loop_copy(void *arg, int64_t n, char *const *p, const int64_t *s)
{
  copy_elems(*(size_t *)arg, p[0], s[0], p[1], s[1], n);
}

static rush_status dims_mask(call_ctx *cx, int n, const int64_t *dims, int n_dims, uint64_t *mask)
{
  *mask = 0;
  for (int i = 0; i < n; i++) {
    int d;
    TRY(dim_wrap(cx, dims[i], n_dims, &d));
    if (*mask >> d & 1)
      return call_fail(cx, "dim %d appears multiple times in the list of dims", d);
    *mask |= UINT64_C(1) << d;
  }
  return RUSH_OK;
}

/* Flip; the source is read with negative strides, which no view can have. */
static rush_status flip(call_ctx *cx, const rush_tensor *t, uint64_t mask, rush_tensor **out)
{
  rush_tensor *r;
  TRY(tensor_new_like(cx, t, DTYPE_NONE, &r));
  tensor_iter it;
  iter_init(&it, t->n_dims, t->sizes);
  iter_add(&it, r);
  iter_add(&it, t);
  for (int d = 0; d < t->n_dims; d++)
    if (mask >> d & 1) {
      int64_t *s = &iter_strides_mut(&it, 1)[t->n_dims - 1 - d];
      it.data[1] += i64_max(t->sizes[d] - 1, 0) * *s;
      *s = -*s;
    }
  iter_finish(&it);
  iter_widen(&it);
  size_t item = tensor_item_bytes(t);
  rush_status s = iter_run(cx, &it, 32768, loop_copy, &item);
  if (s != RUSH_OK) {
    tensor_release(r);
    return s;
  }
  *out = r;
  return RUSH_OK;
}

static rush_status return_flipped(rush_call *c, int n, const int64_t *dims)
{
  uint64_t mask;
  rush_tensor *r;
  TRY(dims_mask(c->cx, n, dims, call_tensor(c, 0)->n_dims, &mask));
  TRY(flip(c->cx, call_tensor(c, 0), mask, &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

rush_kernel kernel_flip, kernel_fliplr, kernel_flipud, kernel_rot90, kernel_roll;
rush_status kernel_flip(rush_call *c)
{
  int64_t dims[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, dims, &n));
  return return_flipped(c, n, dims);
}

rush_status kernel_fliplr(rush_call *c)
{
  int64_t d = 1;
  if (call_tensor(c, 0)->n_dims < 2)
    return call_fail(c->cx, "Input must be >= 2-d.");
  return return_flipped(c, 1, &d);
}

rush_status kernel_flipud(rush_call *c)
{
  int64_t d = 0;
  if (call_tensor(c, 0)->n_dims < 1)
    return call_fail(c->cx, "Input must be >= 1-d.");
  return return_flipped(c, 1, &d);
}

rush_status kernel_rot90(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t dims[TENSOR_MAX_DIMS], k = ((call_int(c, 1) % 4) + 4) % 4;
  int n, a, b;
  TRY(call_sizes(c, 2, dims, &n));
  if (n != 2)
    return call_fail(c->cx, "expected total rotation dims == 2, but got dims = %d", n);
  if (t->n_dims < 2)
    return call_fail(c->cx, "expected total dims >= 2, but got total dims = %d", t->n_dims);
  TRY(dim_wrap(c->cx, dims[0], t->n_dims, &a));
  TRY(dim_wrap(c->cx, dims[1], t->n_dims, &b));
  if (a == b)
    return call_fail(c->cx,
                     "expected rotation dims to be different, but got dim0 = %lld and dim1 = %lld",
                     (long long)dims[0], (long long)dims[1]);
  uint64_t mask = k == 0 ? 0 : k == 1 ? UINT64_C(1) << b : k == 3 ? UINT64_C(1) << a
                                                      : UINT64_C(1) << a | UINT64_C(1) << b;
  rush_tensor *r, *v;
  TRY(k ? flip(c->cx, t, mask, &r) : tensor_copy_format(c->cx, t, t->dtype, FORMAT_CONTIGUOUS, &r));
  if (k == 1 || k == 3) {
    rush_status s = tensor_transpose(c->cx, r, a, b, &v);
    tensor_release(r);
    if (s != RUSH_OK)
      return s;
    r = v;
  }
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* Up to ROLL_AT_ONCE dimensions: along each the two parts are swapped, so 2^n blocks are copied. */
#define ROLL_AT_ONCE 4
typedef struct rolls {
  int n, dims[ROLL_AT_ONCE];
  int64_t at[ROLL_AT_ONCE]; /* where the first element goes */
} rolls;

static rush_status roll_block(call_ctx *cx, const rush_tensor *t, const rolls *k, int which,
                              rush_tensor *r)
{
  geom from, to;
  rush_tensor *a, *b = NULL;
  geom_of(&from, t);
  geom_of(&to, r);
  for (int i = 0; i < k->n; i++) {
    int d = k->dims[i];
    int64_t n = t->sizes[d], tail = k->at[i];
    bool wrapped = which >> i & 1; /* the tail, which comes first */
    from.offset += wrapped ? (n - tail) * from.strides[d] : 0;
    to.offset += wrapped ? 0 : tail * to.strides[d];
    from.sizes[d] = to.sizes[d] = wrapped ? tail : n - tail;
  }
  TRY(geom_view(cx, r, &to, &a));
  rush_status s = geom_view(cx, t, &from, &b);
  if (s == RUSH_OK)
    s = tensor_copy(cx, a, b);
  tensor_release(a);
  tensor_release(b);
  return s;
}

static rush_status roll_some(call_ctx *cx, const rush_tensor *t, const rolls *k, rush_tensor **out)
{
  rush_tensor *r;
  TRY(tensor_new(cx, t->dtype, t->n_dims, t->sizes, &r));
  rush_status s = RUSH_OK;
  for (int which = 0; which < 1 << k->n && s == RUSH_OK && t->n_elems; which++)
    s = roll_block(cx, t, k, which, r);
  if (s != RUSH_OK) {
    tensor_release(r);
    return s;
  }
  *out = r;
  return RUSH_OK;
}

static rush_status add_roll(call_ctx *cx, const rush_tensor *t, rolls *k, int64_t dim,
                            int64_t shift)
{
  int d;
  if (t->n_dims == 0)
    return call_fail_type(
      cx, "IndexError", "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
  TRY(dim_wrap(cx, dim, t->n_dims, &d));
  int64_t n = t->sizes[d], at = n ? ((shift % n) + n) % n : 0;
  for (int i = 0; i < k->n; i++)
    if (k->dims[i] == d) {
      k->at[i] = n ? (k->at[i] + at) % n : 0;
      return RUSH_OK;
    }
  k->dims[k->n] = d;
  k->at[k->n++] = at;
  return RUSH_OK;
}

/* Roll without dimensions: the tensor counts as one row. */
static rush_status roll_flat(rush_call *c, int64_t shift)
{
  rush_tensor *t = call_tensor(c, 0), *flat, *r = NULL, *back;
  rolls k = {.n = 0};
  TRY(tensor_reshape(c->cx, t, 1, &t->n_elems, &flat));
  rush_status s = add_roll(c->cx, flat, &k, 0, shift);
  if (s == RUSH_OK)
    s = roll_some(c->cx, flat, &k, &r);
  tensor_release(flat);
  if (s == RUSH_OK) {
    s = tensor_reshape(c->cx, r, t->n_dims, t->sizes, &back);
    tensor_release(r);
  }
  if (s == RUSH_OK)
    call_return_steal(c, 0, back);
  return s;
}

rush_status kernel_roll(rush_call *c)
{
  rush_tensor *r, *next;
  int64_t shifts[TENSOR_MAX_DIMS], dims[TENSOR_MAX_DIMS];
  int n, m;
  TRY(call_sizes(c, 1, shifts, &n));
  TRY(call_sizes(c, 2, dims, &m));
  if (n == 0)
    return call_fail(c->cx, "`shifts` required");
  if (m == 0 && n == 1)
    return roll_flat(c, shifts[0]);
  if (n != m)
    return call_fail(c->cx, "shifts and dimensions must align. shifts: %d, dims:%d", n, m);
  r = tensor_retain(call_tensor(c, 0));
  for (int i = 0; i < n;) {
    rolls k = {.n = 0};
    rush_status s = RUSH_OK;
    for (; i < n && k.n < ROLL_AT_ONCE && s == RUSH_OK; i++)
      s = add_roll(c->cx, r, &k, dims[i], shifts[i]);
    if (s == RUSH_OK)
      s = roll_some(c->cx, r, &k, &next);
    tensor_release(r);
    if (s != RUSH_OK)
      return s;
    r = next;
  }
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* -- Diagonals --------------------------------------------------------------------------------- */

static rush_status diag_embed(rush_call *c, const rush_tensor *t, int64_t offset, int64_t dim1,
                              int64_t dim2)
{
  int a, b, k = 0;
  int64_t sizes[TENSOR_MAX_DIMS], magnitude = offset == INT64_MIN ? INT64_MAX
                                              : offset < 0        ? -offset
                                                                  : offset;
  if (t->n_dims + 1 > TENSOR_MAX_DIMS)
    return call_unsupported(c->cx, "more than %d dimensions", TENSOR_MAX_DIMS);
  TRY(dim_wrap(c->cx, dim1, t->n_dims + 1, &a));
  TRY(dim_wrap(c->cx, dim2, t->n_dims + 1, &b));
  if (a == b)
    return call_fail(c->cx, "diagonal dimensions cannot be identical %lld, %lld", (long long)dim1,
                     (long long)dim2);
  int64_t side;
  if (__builtin_add_overflow(t->sizes[t->n_dims - 1], magnitude, &side))
    return call_fail(c->cx, "diag_embed(): offset %lld is beyond any tensor", (long long)offset);
  for (int i = 0; i <= t->n_dims; i++)
    sizes[i] = i == a || i == b ? side : t->sizes[k++];
  rush_tensor *r, *v = NULL;
  TRY(tensor_new(c->cx, t->dtype, t->n_dims + 1, sizes, &r));
  geom g;
  geom_of(&g, r);
  rush_status s = tensor_fill(c->cx, r, value_int(0));
  if (s == RUSH_OK)
    s = geom_diagonal(c->cx, &g, offset, a, b);
  if (s == RUSH_OK)
    s = geom_view(c->cx, r, &g, &v);
  if (s == RUSH_OK)
    s = tensor_copy(c->cx, v, t);
  tensor_release(v);
  return call_return_made_steal(c, 0, r, s);
}

rush_kernel kernel_diag_embed, kernel_diag, kernel_diagflat;
rush_status kernel_diag_embed(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError",
                          "Dimension out of range (expected to be in range of [-1, 0], but got "
                          "-2)");
  return diag_embed(c, t, call_int(c, 1), call_int(c, 2), call_int(c, 3));
}

rush_status kernel_diag(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (t->n_dims == 1)
    return diag_embed(c, t, call_int(c, 1), 0, 1);
  if (t->n_dims != 2)
    return call_fail(c->cx, "diag(): Supports 1D or 2D tensors. Got %dD", t->n_dims);
  geom g;
  rush_tensor *v, *r;
  geom_of(&g, t);
  TRY(geom_diagonal(c->cx, &g, call_int(c, 1), 0, 1));
  TRY(geom_view(c->cx, t, &g, &v));
  rush_status s = tensor_copy_format(c->cx, v, v->dtype, FORMAT_CONTIGUOUS, &r);
  tensor_release(v);
  if (s == RUSH_OK)
    call_return_steal(c, 0, r);
  return s;
}

rush_status kernel_diagflat(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *flat;
  TRY(tensor_reshape(c->cx, t, 1, &t->n_elems, &flat));
  rush_status s = diag_embed(c, flat, call_int(c, 1), 0, 1);
  tensor_release(flat);
  return s;
}
