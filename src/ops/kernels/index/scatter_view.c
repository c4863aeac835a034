/* ops/kernels/index/scatter_view.c -- copies of a tensor in which a view of it is replaced:
 * slice_scatter and others. */
#include "ops/kernels/nn.h"
#include "ops/table/op_keys.h"

static rush_status replace_view(rush_call *c, rush_tensor *v)
{
  const rush_tensor *src = call_tensor(c, 1);
  sizes_text a, b;
  if (v->n_dims == src->n_dims && memcmp(v->sizes, src->sizes, sizeof *v->sizes * v->n_dims) == 0)
    return tensor_copy(c->cx, v, src);
  return call_fail(
    c->cx,
    "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
    sizes_print(&a, src->n_dims, src->sizes), sizes_print(&b, v->n_dims, v->sizes));
}

/* Copy self with its strides, gaps and the whole storage, so that as_strided means the same on the
 * copy. */
static rush_status copy_of_self(rush_call *c, rush_tensor **out)
{
  rush_tensor *t = call_tensor(c, 0), *whole = NULL, *copy = NULL;
  const int64_t n = (int64_t)(t->st->n_bytes / tensor_item_bytes(t)), one = 1;
  if (tensor_overlaps_itself(t) || (tensor_is_dense(t) && n == t->n_elems))
    return tensor_clone(c->cx, t, out);
  rush_status st = tensor_as_strided(c->cx, t, 1, &n, &one, 0, &whole);
  if (st == RUSH_OK)
    st = tensor_clone(c->cx, whole, &copy);
  if (st == RUSH_OK)
    st = tensor_as_strided(c->cx, copy, t->n_dims, t->sizes, t->strides, t->offset, out);
  tensor_release(copy);
  tensor_release(whole);
  return st;
}

/* Return the view of `copy` that is replaced: slice(copy, ...) for slice_scatter(self, src, ...).
 * */
static rush_status view_of(const rush_call *c, rush_tensor *copy, rush_tensor **out)
{
  rush_value args[6] = {nn_arg(copy)};
  for (uint32_t i = 2; i < c->n_args; i++)
    args[i - 1] = c->args[i];
  switch (c->op->name_key) {
  case OPN_SLICE_SCATTER: return nn_invoke(c->cx, "aten::slice", "Tensor", args, 5, out);
  case OPN_SELECT_SCATTER: return nn_invoke(c->cx, "aten::select", "int", args, 3, out);
  case OPN_DIAGONAL_SCATTER: return nn_invoke(c->cx, "aten::diagonal", "", args, 4, out);
  default: return nn_invoke(c->cx, "aten::as_strided", "", args, 4, out);
  }
}

rush_kernel kernel_view_scatter;
rush_status kernel_view_scatter(rush_call *c)
{
  rush_tensor *copy, *view;
  TRY(copy_of_self(c, &copy));
  rush_status st = view_of(c, copy, &view);
  if (st == RUSH_OK) {
    st = replace_view(c, view);
    tensor_release(view);
  }
  return call_return_made_steal(c, 0, copy, st);
}

/* -- combinations ------------------------------------------------------------------------------ */

/* Advance to the next choice of r out of n positions, in order; returns false after the last. */
static bool next_choice(int64_t *at, int64_t r, int64_t n, bool repeat)
{
  for (int64_t i = r - 1; i >= 0; i--) {
    int64_t most = repeat ? n - 1 : n - r + i;
    if (at[i] >= most)
      continue;
    at[i]++;
    for (int64_t k = i + 1; k < r; k++)
      at[k] = at[k - 1] + !repeat;
    return true;
  }
  return false;
}

static rush_status fill_choices(rush_call *c, const rush_tensor *t, int64_t r, bool repeat,
                                rush_tensor *out)
{
  size_t item = tensor_item_bytes(t), bytes = (size_t)r * sizeof(int64_t);
  int64_t *at = mem_alloc(c->cx->ctx, bytes);
  char *d = out->data;
  int64_t n = 0;
  if (!at)
    return call_nomem(c->cx);
  for (int64_t i = 0; i < r; i++)
    at[i] = repeat ? 0 : i;
  do {
    for (int64_t i = 0; i < r; i++, d += item)
      memcpy(d, (const char *)t->data + at[i] * t->strides[0] * (int64_t)item, item);
  } while (next_choice(at, r, t->n_elems, repeat) && !call_over_at(c->cx, n++));
  mem_free(c->cx->ctx, at, bytes);
  return RUSH_OK;
}

rush_kernel kernel_combinations;
rush_status kernel_combinations(rush_call *c)
{
  rush_tensor *out = call_out(c, 0);
  return out->n_elems ? fill_choices(c, call_tensor(c, 0), call_int(c, 1), call_bool(c, 2), out)
                      : RUSH_OK;
}
