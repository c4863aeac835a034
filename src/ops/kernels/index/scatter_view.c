/* ops/kernels/index/scatter_view.c -- copies of a tensor in which a view of it is replaced:
 * slice_scatter and others. */
#include "ops/kernels/views.h"

static rush_status replace_view(rush_call *c, const geom *view_of_self, rush_tensor *copy)
{
  const rush_tensor *src = call_tensor(c, 1);
  rush_tensor *v;
  sizes_text a, b;
  TRY(geom_view(c->cx, copy, view_of_self, &v));
  rush_status s;
  if (v->n_dims == src->n_dims && memcmp(v->sizes, src->sizes, sizeof *v->sizes * v->n_dims) == 0)
    s = tensor_copy(c->cx, v, src);
  else
    s = call_fail(
      c->cx,
      "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
      sizes_print(&a, src->n_dims, src->sizes), sizes_print(&b, v->n_dims, v->sizes));
  tensor_release(v);
  return s;
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

typedef rush_status make_view(rush_call *c, geom *g);

static rush_status scatter_view(rush_call *c, make_view *make)
{
  rush_tensor *copy;
  geom g;
  TRY(copy_of_self(c, &copy));
  geom_of(&g, copy);
  rush_status s = make(c, &g);
  if (s == RUSH_OK)
    s = replace_view(c, &g, copy);
  return call_return_made_steal(c, 0, copy, s);
}

static rush_status slice_of(rush_call *c, geom *g)
{
  return geom_slice(c->cx, g, call_int(c, 2), call_int_or(c, 3, 0), call_int_or(c, 4, INT64_MAX),
                    call_int(c, 5));
}
static rush_status select_of(rush_call *c, geom *g)
{
  return geom_select(c->cx, g, call_int(c, 2), call_int(c, 3));
}
static rush_status diagonal_of(rush_call *c, geom *g)
{
  return geom_diagonal(c->cx, g, call_int(c, 2), call_int(c, 3), call_int(c, 4));
}
static rush_status strided_of(rush_call *c, geom *g)
{
  int n;
  TRY(call_sizes(c, 2, g->sizes, &g->n_dims));
  TRY(call_sizes(c, 3, g->strides, &n));
  g->offset = call_int_or(c, 4, g->offset);
  if (n != g->n_dims)
    return call_fail(c->cx, "mismatch in length of strides and shape");
  return RUSH_OK;
}

rush_kernel kernel_slice_scatter, kernel_select_scatter, kernel_diagonal_scatter,
  kernel_as_strided_scatter;
rush_status kernel_slice_scatter(rush_call *c) { return scatter_view(c, slice_of); }
rush_status kernel_select_scatter(rush_call *c) { return scatter_view(c, select_of); }
rush_status kernel_diagonal_scatter(rush_call *c) { return scatter_view(c, diagonal_of); }
rush_status kernel_as_strided_scatter(rush_call *c) { return scatter_view(c, strided_of); }

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
