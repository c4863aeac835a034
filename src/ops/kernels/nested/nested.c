/* ops/kernels/nested/nested.c -- nested tensors (nested.h): making them from masks, padded tensors
 * and lists, and converting them back. nested_call runs an operator on the rows if every argument
 * means the same for rows as for parts, and refuses it by name otherwise; operators that handle
 * parts are marked in the table. Storage is the dense rows and one int64 table of sizes, so no
 * padding is computed. */
#include "ops/kernels/nested/nested.h"

#include <string.h>

#include "ops/kernels/views.h"
#include "ops/kernels/work.h"

/* -- Marks and calls --------------------------------------------------------------------------- */

rush_status nested_mark(call_ctx *cx, rush_tensor *t, rush_tensor *sizes)
{
  call_mark_special(cx);
  TRY(tensor_need_extra(cx, t));
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
  /* A conversion of a dense tensor to a nested one's dtype stays dense. */
  const rush_tensor *self = call_tensor(c, 0);
  const bool parts = o->family == FAMILY_POINTWISE || (self && tensor_nested(self));
  rush_status st = dispatch(c);
  for (uint32_t i = 0; i < c->n_results && st == RUSH_OK && parts; i++) {
    rush_tensor *t = c->results[i].tag == RUSH_TAG_TENSOR ? c->results[i].as.tensor : NULL;
    if (t && t->n_dims > 0 && t->sizes[0] == n_rows)
      st = nested_mark(c->cx, t, sizes);
  }
  tensor_release(sizes);
  return st;
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Make rows of n_parts parts like those of `like` from dimension `from` on, nested. */
static rush_tensor *make_parts(work *w, int dtype, const rush_tensor *like, int from,
                               int64_t n_parts, const int64_t *lens)
{
  const int n_dims = like->n_dims - from;
  const int64_t table[2] = {n_parts, n_dims};
  int64_t dims[TENSOR_MAX_DIMS];
  for (int i = 1; i < n_dims; i++)
    dims[i] = like->sizes[from + i];
  dims[0] = 0;
  for (int64_t i = 0; i < n_parts; i++)
    dims[0] += lens[i];
  rush_tensor *sizes = work_new(w, RUSH_INT64, 2, table),
              *rows = work_new(w, dtype, n_dims, dims);
  for (int64_t i = 0; i < n_parts && w->st == RUSH_OK; i++) {
    int64_t *row = (int64_t *)sizes->data + i * n_dims;
    memcpy(row, dims, sizeof *dims * (size_t)n_dims);
    row[0] = lens[i];
  }
  WORK_DO(w, nested_mark(w->cx, rows, sizes));
  return rows;
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
  work w = work_begin(c);
  int64_t *lens = work_new(&w, RUSH_INT64, 1, mask->sizes)->data;
  if (w.st == RUSH_OK) {
    count_mask(mask, lens, &aligned);
    call_return_value_steal(c, 0, value_bool(aligned));
  }
  return work_end(&w);
}

/* Return the first lens[i] rows of each t[i], nested. */
static rush_tensor *from_padded(work *w, rush_tensor *t, const int64_t *lens)
{
  const rush_tensor *dense = WORK_MAKE(w, tensor_contiguous(w->cx, t, &w->made));
  if (w->st != RUSH_OK)
    return t;
  rush_tensor *rows = make_parts(w, t->dtype, dense, 1, dense->sizes[0], lens);
  const size_t row_bytes =
    (size_t)(dense->n_elems / i64_max(1, dense->sizes[0] * dense->sizes[1])) *
    tensor_item_bytes(dense);
  char *to = rows->data;
  for (int64_t i = 0; i < dense->sizes[0] && w->st == RUSH_OK; i++) {
    memcpy(to, (const char *)dense->data + (size_t)(i * dense->sizes[1]) * row_bytes,
           (size_t)lens[i] * row_bytes);
    to += (size_t)lens[i] * row_bytes;
  }
  return rows;
}

/* (t, mask, mask_check) */
rush_status kernel__nested_tensor_from_mask(rush_call *c)
{
  const rush_tensor *mask = call_tensor(c, 1);
  bool aligned = true;
  TRY(check_mask(c->cx, call_tensor(c, 0), mask));
  work w = work_begin(c);
  int64_t *lens = work_new(&w, RUSH_INT64, 1, mask->sizes)->data;
  if (w.st == RUSH_OK)
    count_mask(mask, lens, &aligned);
  if (!aligned && call_bool(c, 2))
    WORK_DO(&w, call_fail(c->cx, "Mask must be left-aligned without gaps"));
  return work_end_with(&w, from_padded(&w, call_tensor(c, 0), lens), call_result(c, 0));
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
  work w = work_begin(c);
  int64_t *lens = work_new(&w, RUSH_INT64, 1, sizes->sizes)->data;
  for (int64_t i = 0; i < sizes->sizes[0] && w.st == RUSH_OK; i++) {
    const int64_t *row = (const int64_t *)sizes->data + i * sizes->strides[0];
    lens[i] = row[0];
    for (int d = 1; d < padded->n_dims - 1; d++)
      if (row[d * sizes->strides[1]] != padded->sizes[d + 1])
        WORK_DO(&w, call_unsupported(
                      c->cx, "nested tensors whose parts differ in more than their first size"));
    if (lens[i] < 0 || lens[i] > padded->sizes[1])
      WORK_DO(&w, call_fail(c->cx, "_nested_from_padded: part %lld has %lld rows of %lld",
                            (long long)i, (long long)lens[i], (long long)padded->sizes[1]));
  }
  return work_end_with(&w, from_padded(&w, padded, lens), call_result(c, 0));
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
  const int64_t n = (int64_t)l->n;
  int64_t at = 0;
  if (n == 0)
    return call_unsupported(c->cx, "nested tensors of no parts");
  work w = work_begin(c);
  int64_t *lens = work_new(&w, RUSH_INT64, 1, &n)->data;
  WORK_DO(&w, check_parts(c->cx, l, lens));
  if (w.st != RUSH_OK)
    return work_end(&w);
  rush_tensor *first = list_tensor(l, 0),
              *rows = make_parts(&w, call_dtype_or(c, 1, first->dtype), first, 0, n, lens);
  for (int64_t i = 0; i < n && w.st == RUSH_OK; at += lens[i++]) {
    rush_tensor *part = WORK_MAKE(&w, tensor_narrow(c->cx, rows, 0, at, lens[i], &w.made));
    WORK_DO(&w, tensor_copy(c->cx, part, list_tensor(l, (size_t)i)));
    work_drop(&w, part);
  }
  return work_end_with(&w, rows, call_result(c, 0));
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
  rush_tensor *t = call_tensor(c, 0);
  int64_t sizes[TENSOR_MAX_DIMS], at = 0;
  TRY(check_nested(c->cx, t, "to_padded_tensor"));
  const rush_tensor *parts = tensor_nested(t);
  TRY(padded_sizes(c, t, sizes));
  work w = work_begin(c);
  rush_tensor *out = work_new(&w, t->dtype, t->n_dims + 1, sizes);
  WORK_DO(&w, tensor_fill(c->cx, out, c->args[1]));
  for (int64_t i = 0; i < parts->sizes[0] && w.st == RUSH_OK; i++) {
    geom from, to;
    geom_of(&from, t);
    geom_of(&to, out);
    const int64_t len = ((const int64_t *)parts->data)[i * parts->sizes[1]];
    geom_narrow(&from, 0, at, len);
    geom_select(&to, 0, i);
    memcpy(to.sizes, from.sizes, sizeof *to.sizes * (size_t)from.n_dims);
    w.st = geom_copy(c->cx, out, &to, t, &from);
    at += len;
  }
  return work_end_with(&w, out, call_result(c, 0));
}

rush_status kernel__nested_tensor_size(rush_call *c)
{
  TRY(check_nested(c->cx, call_tensor(c, 0), "_nested_tensor_size"));
  return tensor_clone(c->cx, tensor_nested(call_tensor(c, 0)), call_result(c, 0));
}
