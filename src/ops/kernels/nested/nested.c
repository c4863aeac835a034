/* ops/kernels/nested/nested.c -- nested tensors (nested.h): making them from masks, padded tensors
 * and lists, and converting them back. nested_call runs an operator on the rows if every argument
 * means the same for rows as for parts, and refuses it by name otherwise; operators that handle
 * parts are marked in the table. Storage is the dense rows and one int64 table of sizes, so no
 * padding is computed. */
#include "ops/kernels/nested/nested.h"

#include <string.h>

#include "ops/kernels/views.h"

/* -- Marks and calls --------------------------------------------------------------------------- */

rush_status nested_mark(call_ctx *cx, rush_tensor *t, rush_tensor *sizes)
{
  call_mark_special(cx);
  if (!t->extra && !(t->extra = mem_alloc_zero(t->h.ctx, sizeof *t->extra)))
    return call_nomem(cx);
  tensor_retain(sizes);
  tensor_release(t->extra->nested);
  t->extra->nested = sizes;
  return RUSH_OK;
}

static bool same_parts(const rush_tensor *a, const rush_tensor *b)
{
  return a == b ||
         (a->n_elems == b->n_elems && a->n_dims == b->n_dims && a->sizes[0] == b->sizes[0] &&
          memcmp(a->data, b->data, (size_t)a->n_elems * sizeof(int64_t)) == 0);
}

/* True if every argument means the same for the rows as for the parts. */
static bool rows_will_do(const rush_call *c, const rush_tensor *first)
{
  for (uint32_t i = 0; i < c->n_args; i++) {
    const rush_tensor *t = call_tensor(c, i);
    if (!t)
      continue;
    if (tensor_nested(t) && !same_parts(tensor_nested(t), tensor_nested(first)))
      return false;
    if (!tensor_nested(t) && c->op->family == FAMILY_POINTWISE && t->n_elems != 1 &&
        t->n_dims >= first->n_dims)
      return false;
  }
  return true;
}

rush_status nested_call(rush_call *c, rush_status (*dispatch)(rush_call *c))
{
  rush_tensor *first = NULL;
  const op *o = c->op;
  for (uint32_t i = 0; i < c->n_args && !first; i++) {
    rush_tensor *t = call_tensor(c, i);
    first = t && tensor_nested(t) ? t : NULL;
  }
  if (!first || (o->effects & OP_NESTED) ||
      (!o->kernel && (o->base || o->family == FAMILY_COMPOSITE)))
    return dispatch(c);
  const bool rows = (o->effects & OP_NESTED_ROWS) || (o->family == FAMILY_POINTWISE && !o->kernel);
  if (!rows || !rows_will_do(c, first))
    return call_unsupported(c->cx, "%s%s%s with nested tensors", o->schema->name,
                            o->schema->overload[0] ? "." : "", o->schema->overload);
  rush_tensor *sizes =
    tensor_retain(tensor_nested(first)); /* in-place: the result may be the argument */
  const int64_t n_rows = first->sizes[0];
  rush_status st = dispatch(c);
  for (uint32_t i = 0; i < c->n_results && st == RUSH_OK; i++) {
    rush_tensor *t = c->results[i].tag == RUSH_TAG_TENSOR ? c->results[i].as.tensor : NULL;
    if (t && t->n_dims > 0 && t->sizes[0] == n_rows)
      st = nested_mark(c->cx, t, sizes);
  }
  tensor_release(sizes);
  return st;
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Make rows and sizes tensors of n_parts parts like those of `like` from dimension `from` on. */
static rush_status make_parts(call_ctx *cx, int dtype, const rush_tensor *like, int from,
                              int64_t n_parts, const int64_t *lens, rush_tensor **rows,
                              rush_tensor **sizes)
{
  const int n_dims = like->n_dims - from;
  const int64_t table[2] = {n_parts, n_dims};
  int64_t dims[TENSOR_MAX_DIMS];
  for (int i = 1; i < n_dims; i++)
    dims[i] = like->sizes[from + i];
  dims[0] = 0;
  for (int64_t i = 0; i < n_parts; i++)
    dims[0] += lens[i];
  TRY(tensor_new(cx, RUSH_INT64, 2, table, sizes));
  for (int64_t i = 0; i < n_parts; i++) {
    int64_t *row = (int64_t *)(*sizes)->data + i * n_dims;
    memcpy(row, dims, sizeof *dims * (size_t)n_dims);
    row[0] = lens[i];
  }
  return tensor_new(cx, dtype, n_dims, dims, rows);
}

static rush_status finish_steal(rush_call *c, rush_tensor *rows, rush_tensor *sizes)
{
  rush_status st = nested_mark(c->cx, rows, sizes);
  tensor_release(sizes);
  return call_return_made_steal(c, 0, rows, st);
}

/* Count the true elements in each row of the mask; *aligned: they are all at the left. */
static void count_mask(const rush_tensor *mask, int64_t *lens, bool *aligned)
{
  const bool *m = mask->data;
  *aligned = true;
  for (int64_t i = 0; i < mask->sizes[0]; i++) {
    lens[i] = 0;
    for (int64_t k = 0; k < mask->sizes[1]; k++) {
      const bool on = m[i * mask->strides[0] + k * mask->strides[1]];
      *aligned &= !on || lens[i] == k;
      lens[i] += on;
    }
  }
}

static rush_status check_mask(call_ctx *cx, const rush_tensor *t, const rush_tensor *mask)
{
  if (mask->dtype != RUSH_BOOL)
    return call_fail(cx, "Expected mask to be of ScalarType Bool, but got %s instead.",
                     dtype_aten_name(mask->dtype));
  if (mask->n_dims != 2)
    return call_fail(cx, "Padding mask should be 2D");
  if (t->n_dims != 3)
    return call_fail(cx, "Input should be a 3D tensor, N * L * D");
  if (mask->sizes[0] != t->sizes[0] || mask->sizes[1] != t->sizes[1])
    return call_fail(cx, "Mask size should match input size");
  return RUSH_OK;
}

/* (t, mask) -> bool */
rush_status kernel__nested_tensor_from_mask_left_aligned(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0), *mask = call_tensor(c, 1);
  bool aligned;
  TRY(check_mask(c->cx, t, mask));
  const size_t n_bytes = (size_t)mask->sizes[0] * sizeof(int64_t);
  int64_t *lens = mem_alloc(c->cx->ctx, n_bytes);
  if (!lens)
    return call_nomem(c->cx);
  count_mask(mask, lens, &aligned);
  mem_free(c->cx->ctx, lens, n_bytes);
  call_return_value_steal(c, 0, value_bool(aligned));
  return RUSH_OK;
}

/* Copy the first lens[i] rows of each t[i]. */
static rush_status from_padded(rush_call *c, rush_tensor *t, const int64_t *lens)
{
  rush_tensor *rows = NULL, *sizes = NULL, *dense = NULL;
  TRY(tensor_contiguous(c->cx, t, &dense));
  rush_status st = make_parts(c->cx, t->dtype, dense, 1, dense->sizes[0], lens, &rows, &sizes);
  if (st == RUSH_OK) {
    const size_t row_bytes =
      (size_t)(dense->n_elems / i64_max(1, dense->sizes[0] * dense->sizes[1])) *
      tensor_item_bytes(dense);
    char *to = rows->data;
    for (int64_t i = 0; i < dense->sizes[0]; i++) {
      memcpy(to, (const char *)dense->data + (size_t)(i * dense->sizes[1]) * row_bytes,
             (size_t)lens[i] * row_bytes);
      to += (size_t)lens[i] * row_bytes;
    }
    st = finish_steal(c, rows, sizes);
  } else {
    tensor_release(sizes);
  }
  tensor_release(dense);
  return st;
}

/* (t, mask, mask_check) */
rush_status kernel__nested_tensor_from_mask(rush_call *c)
{
  const rush_tensor *mask = call_tensor(c, 1);
  bool aligned;
  TRY(check_mask(c->cx, call_tensor(c, 0), mask));
  const size_t n_bytes = (size_t)mask->sizes[0] * sizeof(int64_t);
  int64_t *lens = mem_alloc(c->cx->ctx, n_bytes);
  if (!lens)
    return call_nomem(c->cx);
  count_mask(mask, lens, &aligned);
  rush_status st = !aligned && call_bool(c, 2)
                     ? call_fail(c->cx, "Mask must be left-aligned without gaps")
                     : from_padded(c, call_tensor(c, 0), lens);
  mem_free(c->cx->ctx, lens, n_bytes);
  return st;
}

/* (padded, sizes, fuse_transform_0213) */
rush_status kernel__nested_from_padded(rush_call *c)
{
  rush_tensor *padded = call_tensor(c, 0), *sizes = call_tensor(c, 1);
  if (call_bool(c, 2))
    return call_unsupported(c->cx, "_nested_from_padded with fuse_transform_0213");
  if (sizes->dtype != RUSH_INT64 || sizes->n_dims != 2 || sizes->sizes[0] != padded->sizes[0] ||
      sizes->sizes[1] != padded->n_dims - 1)
    return call_fail(c->cx, "_nested_from_padded: the sizes do not fit the padded tensor");
  const size_t n_bytes = (size_t)sizes->sizes[0] * sizeof(int64_t);
  int64_t *lens = mem_alloc(c->cx->ctx, n_bytes);
  rush_status st = lens ? RUSH_OK : call_nomem(c->cx);
  for (int64_t i = 0; i < sizes->sizes[0] && st == RUSH_OK; i++) {
    const int64_t *row = (const int64_t *)sizes->data + i * sizes->strides[0];
    lens[i] = row[0];
    for (int d = 1; d < padded->n_dims - 1; d++)
      if (row[d * sizes->strides[1]] != padded->sizes[d + 1])
        st = call_unsupported(c->cx,
                              "nested tensors whose parts differ in more than their first size");
    if (st == RUSH_OK && (lens[i] < 0 || lens[i] > padded->sizes[1]))
      st = call_fail(c->cx, "_nested_from_padded: part %lld has %lld rows of %lld", (long long)i,
                     (long long)lens[i], (long long)padded->sizes[1]);
  }
  if (st == RUSH_OK)
    st = from_padded(c, padded, lens);
  if (lens)
    mem_free(c->cx->ctx, lens, n_bytes);
  return st;
}

static rush_status check_parts(call_ctx *cx, const rush_list *l, int64_t *lens)
{
  const rush_tensor *first = list_tensor(l, 0);
  for (size_t i = 0; i < l->n; i++) {
    const rush_tensor *t = list_tensor(l, i);
    if (t->n_dims == 0 || t->n_dims != first->n_dims)
      return call_fail(cx,
                       "All Tensors given to nested_tensor must have the same dimension. Found "
                       "dimension %d for Tensor at "
                       "index %d and dimension %d for Tensor at index 0.",
                       t->n_dims, (int)i, first->n_dims);
    for (int d = 1; d < t->n_dims; d++)
      if (t->sizes[d] != first->sizes[d])
        return call_unsupported(cx,
                                "nested tensors whose parts differ in more than their first size");
    lens[i] = t->sizes[0];
  }
  return RUSH_OK;
}

/* (list, dtype, ...) */
rush_status kernel__nested_tensor_from_tensor_list(rush_call *c)
{
  const rush_list *l = call_list(c, 0);
  rush_tensor *rows = NULL, *sizes = NULL, *part = NULL;
  if (l->n == 0)
    return call_unsupported(c->cx, "nested tensors of no parts");
  const size_t n_bytes = l->n * sizeof(int64_t);
  int64_t *lens = mem_alloc(c->cx->ctx, n_bytes), at = 0;
  if (!lens)
    return call_nomem(c->cx);
  rush_status st = check_parts(c->cx, l, lens);
  if (st == RUSH_OK)
    st = make_parts(c->cx, call_dtype_or(c, 1, list_tensor(l, 0)->dtype), list_tensor(l, 0), 0,
                    (int64_t)l->n, lens, &rows, &sizes);
  for (size_t i = 0; i < l->n && st == RUSH_OK; i++) {
    st = tensor_narrow(c->cx, rows, 0, at, lens[i], &part);
    if (st == RUSH_OK) {
      st = tensor_copy(c->cx, part, list_tensor(l, i));
      tensor_release(part);
    }
    at += lens[i];
  }
  mem_free(c->cx->ctx, lens, n_bytes);
  if (st == RUSH_OK)
    return finish_steal(c, rows, sizes);
  tensor_release(rows);
  tensor_release(sizes);
  return st;
}

/* -- Leaving ----------------------------------------------------------------------------------- */

static rush_status check_nested(call_ctx *cx, const rush_tensor *t, const char *what)
{
  return tensor_nested(t) ? RUSH_OK : call_fail(cx, "%s: expected a nested tensor", what);
}

/* Return sizes of the padded form: the requested ones, or those of the largest part. */
static rush_status padded_sizes(rush_call *c, const rush_tensor *t, int64_t *out)
{
  const rush_tensor *parts = tensor_nested(t);
  const int n = t->n_dims + 1;
  int64_t longest = 0;
  for (int64_t i = 0; i < parts->sizes[0]; i++)
    longest = i64_max(longest, ((const int64_t *)parts->data)[i * parts->sizes[1]]);
  out[0] = parts->sizes[0];
  for (int i = 1; i < n; i++)
    out[i] = i == 1 ? longest : t->sizes[i - 1];
  if (call_is_none(c, 2))
    return RUSH_OK;
  int64_t want[TENSOR_MAX_DIMS];
  int n_want;
  TRY(call_sizes(c, 2, want, &n_want));
  if (n_want != n)
    return call_fail(c->cx, "NestedTensor padding output_size must have the same number of "
                            "dimensions as the nested tensor");
  for (int i = 0; i < n; i++) {
    if (want[i] < out[i])
      return call_fail(
        c->cx,
        "Value in output_size is less than NestedTensor padded size. Truncation is not supported.");
    out[i] = want[i];
  }
  return RUSH_OK;
}

/* (self, padding, output_size) */
rush_status kernel_to_padded_tensor(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *out = NULL, *from = NULL, *to = NULL, *cut = NULL;
  int64_t sizes[TENSOR_MAX_DIMS], at = 0;
  TRY(check_nested(c->cx, t, "to_padded_tensor"));
  const rush_tensor *parts = tensor_nested(t);
  TRY(padded_sizes(c, t, sizes));
  TRY(tensor_new(c->cx, t->dtype, t->n_dims + 1, sizes, &out));
  rush_status st = tensor_fill(c->cx, out, c->args[1]);
  for (int64_t i = 0; i < parts->sizes[0] && st == RUSH_OK; i++) {
    const int64_t len = ((const int64_t *)parts->data)[i * parts->sizes[1]];
    from = to = NULL;
    st = tensor_narrow(c->cx, t, 0, at, len, &from);
    if (st == RUSH_OK)
      st = tensor_select(c->cx, out, 0, i, &to);
    for (int d = 0; d < t->n_dims && st == RUSH_OK; d++) {
      st = tensor_narrow(c->cx, to, d, 0, d == 0 ? len : t->sizes[d], &cut);
      if (st == RUSH_OK) {
        tensor_release(to);
        to = cut;
      }
    }
    if (st == RUSH_OK)
      st = tensor_copy(c->cx, to, from);
    tensor_release(from);
    tensor_release(to);
    at += len;
  }
  call_return_steal(c, 0, out); /* released by the path on failure */
  return st;
}

rush_status kernel__nested_tensor_size(rush_call *c)
{
  rush_tensor *copy = NULL;
  TRY(check_nested(c->cx, call_tensor(c, 0), "_nested_tensor_size"));
  TRY(tensor_clone(c->cx, tensor_nested(call_tensor(c, 0)), &copy));
  call_return_steal(c, 0, copy);
  return RUSH_OK;
}
