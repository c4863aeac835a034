/* ops/kernels/layout/join.c -- operators that join, repeat or turn tensors: cat, stack, repeat,
 * flip, roll, diagonals. Shape rules make the results; kernels copy into them. All joins are one
 * function: contiguous tensors of one dtype are copied row by row in parallel; others are copied
 * into views of the result, so that tensor_copy handles conversion and strides. flip reads its
 * source with negative strides inside an iterator, since a tensor cannot have them. Cost: each
 * element is copied once. */
#include "base/threads.h"
#include "ops/kernels/views.h"
#include "tensor/iter.h"

/* Copy `from` into the view `to` of `out`; their sizes differ by dimensions of size 1 at most. */
static rush_status copy_part(call_ctx *cx, rush_tensor *out, const geom *to,
                             const rush_tensor *from)
{
  geom g;
  geom_of(&g, from);
  if (from->n_dims != to->n_dims)
    (void)geom_reshape(&g, to->n_dims, to->sizes);
  return geom_copy(cx, out, to, from, &g);
}

/* -- Joining ----------------------------------------------------------------------------------- */

typedef struct joining {
  const rush_list *parts;
  char *out;
  int64_t outer;    /* rows: indices of the dimensions before the one that is joined along */
  size_t row_bytes; /* of the result */
  const call_ctx *cx;
} joining;

static void join_rows(void *p, int64_t begin, int64_t end)
{
  const joining *a = p;
  char *d = a->out + (size_t)begin * a->row_bytes;
  for (int64_t r = begin; r < end; r++)
    for (size_t i = 0; i < a->parts->n; i++) {
      const rush_tensor *t = list_tensor(a->parts, i);
      const size_t bytes = (size_t)(t->n_elems / a->outer) * tensor_item_bytes(t);
      if (!bytes_copy(a->cx, d, (const char *)t->data + (size_t)r * bytes, bytes))
        return;
      d += bytes;
    }
}

static bool are_plain(const rush_list *parts, const rush_tensor *out)
{
  for (size_t i = 0; i < parts->n; i++) {
    const rush_tensor *t = list_tensor(parts, i);
    if (t->n_elems && (t->dtype != out->dtype || !tensor_is_contiguous(t)))
      return false;
  }
  return tensor_is_contiguous(out);
}

static rush_status join_parts(call_ctx *cx, const rush_list *parts, rush_tensor *out, int dim)
{
  const int64_t others = out->n_elems / out->sizes[dim];
  geom all, to;
  int64_t at = 0;
  geom_of(&all, out);
  for (size_t i = 0; i < parts->n; i++) {
    const rush_tensor *t = list_tensor(parts, i);
    if (t->n_elems == 0)
      continue;
    to = all;
    geom_narrow(&to, dim, at, t->n_elems / others);
    at += to.sizes[dim];
    TRY(copy_part(cx, out, &to, t));
  }
  return RUSH_OK;
}

/* Fill result 0 with the tensors of args[0], one after another along dimension `dim` of the result.
 * They may lack dimensions of size 1. */
static rush_status join(rush_call *c, int64_t dim)
{
  rush_tensor *out = call_out(c, 0);
  const rush_list *parts = call_list(c, 0);
  int64_t outer = 1, inner = (int64_t)tensor_item_bytes(out);
  if (out->n_elems == 0)
    return RUSH_OK;
  dim += dim < 0 ? out->n_dims : 0;
  for (int k = 0; k < out->n_dims; k++)
    *(k < dim ? &outer : &inner) *= out->sizes[k];
  const bool narrow = inner < 16 * (int64_t)parts->n &&
                      outer >= 64; /* rows of an element or two: a copy with strides each */
  if (narrow || !are_plain(parts, out))
    return join_parts(c->cx, parts, out, (int)dim);
  joining a = {parts, out->data, outer, (size_t)inner, c->cx};
  if (outer * inner >= 65536)
    return parallel_for(c->cx, outer, i64_max(65536 / inner, 1), join_rows, &a);
  join_rows(&a, 0, outer);
  return RUSH_OK;
}

rush_kernel kernel_cat, kernel_hstack, kernel_vstack, kernel_dstack, kernel_column_stack;
rush_status kernel_cat(rush_call *c) { return join(c, call_int(c, 1)); } /* and stack */
rush_status kernel_hstack(rush_call *c) { return join(c, call_out(c, 0)->n_dims > 1); }
rush_status kernel_vstack(rush_call *c) { return join(c, 0); }
rush_status kernel_dstack(rush_call *c) { return join(c, 2); }
rush_status kernel_column_stack(rush_call *c) { return join(c, 1); }

rush_kernel kernel_block_diag;
rush_status kernel_block_diag(rush_call *c)
{
  rush_tensor *out = call_out(c, 0);
  const rush_list *l = call_list(c, 0);
  geom to;
  geom_of(&to, out);
  TRY(tensor_fill(c->cx, out, value_int(0)));
  for (size_t i = 0; i < l->n; i++) {
    const rush_tensor *t = list_tensor(l, i);
    to.sizes[0] = t->n_dims == 2 ? t->sizes[0] : 1;
    to.sizes[1] = t->n_dims ? t->sizes[t->n_dims - 1] : 1;
    if (t->n_elems)
      TRY(copy_part(c->cx, out, &to, t));
    to.offset += to.sizes[0] * to.strides[0] + to.sizes[1] * to.strides[1];
  }
  return RUSH_OK;
}

/* Make the Cartesian product of the tensors: column i is tensor i, repeated along the other
 * dimensions of the result seen as (n0, n1, ..., number of tensors). */
rush_kernel kernel_cartesian_prod;
rush_status kernel_cartesian_prod(rush_call *c)
{
  rush_tensor *out = call_out(c, 0);
  const rush_list *l = call_list(c, 0);
  geom to, from = {.n_dims = (int)l->n};
  if (out->n_elems == 0)
    return RUSH_OK;
  geom_of(&to, out);
  to.n_dims = (int)l->n;
  int64_t next = (int64_t)l->n;
  for (int i = to.n_dims; i-- > 0;) {
    from.sizes[i] = to.sizes[i] = list_tensor(l, (size_t)i)->sizes[0];
    to.strides[i] = next;
    next *= to.sizes[i];
  }
  for (size_t i = 0; i < l->n; i++, to.offset++) {
    const rush_tensor *t = list_tensor(l, i);
    from.offset = t->offset;
    for (size_t k = 0; k < l->n; k++)
      from.strides[k] = k == i ? t->strides[0] : 0;
    TRY(geom_copy(c->cx, out, &to, t, &from));
  }
  return RUSH_OK;
}

/* Fill the result, viewed as (r0, s0, r1, s1, ...), with the source, viewed as (1, s0, 1, s1, ...)
 * and broadcast. */
rush_kernel kernel_repeat;
rush_status kernel_repeat(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *out = call_out(c, 0);
  const int n = out->n_dims, lead = n - t->n_dims;
  if (out->n_elems == 0)
    return RUSH_OK;
  geom to = {.n_dims = 2 * n, .offset = out->offset}, from = {.n_dims = 2 * n, .offset = t->offset};
  for (int i = 0; i < n; i++) {
    const int64_t size = i < lead ? 1 : t->sizes[i - lead];
    to.sizes[2 * i] = from.sizes[2 * i] = out->sizes[i] / size;
    to.sizes[2 * i + 1] = from.sizes[2 * i + 1] = size;
    from.strides[2 * i] = 0;
    from.strides[2 * i + 1] = i < lead ? 0 : t->strides[i - lead];
  }
  strides_contiguous(to.n_dims, to.sizes, to.strides);
  return geom_copy(c->cx, out, &to, t, &from);
}

/* -- flip, rot90, roll ------------------------------------------------------------------------- */

static int wrapped(int64_t dim, int n_dims) { return (int)(dim < 0 ? dim + n_dims : dim); }

static void loop_copy(void *arg, int64_t n, char *const *p, const int64_t *s)
{
  copy_elems(*(size_t *)arg, p[0], s[0], p[1], s[1], n);
}

/* Copy t into r, reversed along the dimensions of `mask`: the source is read with negative strides,
 * which no view could have. */
static rush_status flip(call_ctx *cx, const rush_tensor *t, uint64_t mask, const rush_tensor *r)
{
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
  return iter_run(cx, &it, 32768, loop_copy, &item);
}

rush_kernel kernel_flip, kernel_fliplr, kernel_flipud, kernel_rot90, kernel_roll;
rush_status kernel_flip(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t dims[TENSOR_MAX_DIMS];
  uint64_t mask = 0;
  for (int i = 0, n = call_ints(c, 1, dims, TENSOR_MAX_DIMS); i < n && t->n_dims; i++)
    mask |= UINT64_C(1) << wrapped(dims[i], t->n_dims);
  return flip(c->cx, t, mask, call_out(c, 0));
}
rush_status kernel_fliplr(rush_call *c)
{
  return flip(c->cx, call_tensor(c, 0), 2, call_out(c, 0));
}
rush_status kernel_flipud(rush_call *c)
{
  return flip(c->cx, call_tensor(c, 0), 1, call_out(c, 0));
}

rush_status kernel_rot90(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t dims[2], k = ((call_int(c, 1) % 4) + 4) % 4;
  (void)call_ints(c, 2, dims, 2);
  const int x = wrapped(dims[0], t->n_dims), y = wrapped(dims[1], t->n_dims);
  const uint64_t a = UINT64_C(1) << x, b = UINT64_C(1) << y, masks[] = {0, b, a | b, a};
  if (k % 2 == 0)
    return flip(c->cx, t, masks[k], call_out(c, 0));
  rush_tensor *turned;
  TRY(tensor_transpose(c->cx, call_out(c, 0), x, y, &turned));
  rush_status s = flip(c->cx, t, masks[k], turned);
  tensor_release(turned);
  return s;
}

/* Swap two pieces along each dimension, by copying 2^n blocks: at most one per element,
 * because dimensions whose elements stay in place are left out. */
typedef struct rolls {
  int n, dims[TENSOR_MAX_DIMS];
  int64_t at[TENSOR_MAX_DIMS]; /* the new position of the first element */
} rolls;

static rush_status roll_block(call_ctx *cx, const rush_tensor *t, const rolls *k, uint64_t which,
                              rush_tensor *r)
{
  geom from, to;
  geom_of(&from, t);
  geom_of(&to, r);
  for (int i = 0; i < k->n; i++) {
    int d = k->dims[i];
    int64_t n = t->sizes[d], tail = k->at[i];
    bool is_tail = which >> i & 1; /* it comes first */
    from.offset += is_tail ? (n - tail) * from.strides[d] : 0;
    to.offset += is_tail ? 0 : tail * to.strides[d];
    from.sizes[d] = to.sizes[d] = is_tail ? tail : n - tail;
  }
  return geom_copy(cx, r, &to, t, &from);
}

/* Roll t into r by at[d] along each dimension d; both have elements. */
static rush_status roll(call_ctx *cx, const rush_tensor *t, const int64_t *at, rush_tensor *r)
{
  rolls k = {.n = 0};
  for (int d = 0; d < t->n_dims; d++)
    if (at[d]) {
      k.dims[k.n] = d;
      k.at[k.n++] = at[d];
    }
  for (uint64_t which = 0; which < UINT64_C(1) << k.n; which++)
    TRY(roll_block(cx, t, &k, which, r));
  return RUSH_OK;
}

static int64_t rest(int64_t shift, int64_t n) { return ((shift % n) + n) % n; }

/* Roll the tensor as one row if no dimensions are given. */
static rush_status roll_flat(rush_call *c, int64_t shift)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *from, *to;
  const int64_t at = rest(shift, t->n_elems);
  TRY(tensor_reshape(c->cx, t, 1, &t->n_elems, &from));
  rush_status s = tensor_reshape(c->cx, call_out(c, 0), 1, &t->n_elems, &to);
  if (s == RUSH_OK) {
    s = roll(c->cx, from, &at, to);
    tensor_release(to);
  }
  tensor_release(from);
  return s;
}

rush_status kernel_roll(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t shifts[TENSOR_MAX_DIMS], dims[TENSOR_MAX_DIMS], at[TENSOR_MAX_DIMS] = {0};
  const int n = call_ints(c, 1, shifts, TENSOR_MAX_DIMS);
  if (t->n_elems == 0)
    return RUSH_OK;
  if (call_ints(c, 2, dims, TENSOR_MAX_DIMS) == 0)
    return roll_flat(c, shifts[0]);
  for (int i = 0; i < n; i++) {
    const int d = wrapped(dims[i], t->n_dims);
    at[d] = (at[d] + rest(shifts[i], t->sizes[d])) % t->sizes[d];
  }
  return roll(c->cx, t, at, call_out(c, 0));
}

/* -- Diagonals --------------------------------------------------------------------------------- */

/* Fill result 0 with zeros, and with t on a diagonal. */
static rush_status fill_diagonal(rush_call *c, const rush_tensor *t, int64_t offset, int dim1,
                                 int dim2)
{
  geom to;
  geom_of(&to, call_out(c, 0));
  TRY(tensor_fill(c->cx, call_out(c, 0), value_int(0)));
  geom_diagonal(&to, offset, dim1, dim2);
  return copy_part(c->cx, call_out(c, 0), &to, t);
}

rush_kernel kernel_diag_embed, kernel_diag, kernel_diagflat;
rush_status kernel_diag_embed(rush_call *c)
{
  const int n = call_out(c, 0)->n_dims;
  return fill_diagonal(c, call_tensor(c, 0), call_int(c, 1), wrapped(call_int(c, 2), n),
                       wrapped(call_int(c, 3), n));
}

rush_status kernel_diag(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  geom from, to;
  if (t->n_dims == 1)
    return fill_diagonal(c, t, call_int(c, 1), 0, 1);
  geom_of(&from, t);
  geom_of(&to, call_out(c, 0));
  geom_diagonal(&from, call_int(c, 1), 0, 1);
  return geom_copy(c->cx, call_out(c, 0), &to, t, &from);
}

rush_status kernel_diagflat(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *flat;
  TRY(tensor_reshape(c->cx, t, 1, &t->n_elems, &flat));
  rush_status s = fill_diagonal(c, flat, call_int(c, 1), 0, 1);
  tensor_release(flat);
  return s;
}
