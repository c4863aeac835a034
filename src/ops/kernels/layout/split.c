/* Operators that cut a tensor into a list of views.  All come down to cuts: the positions along one
 * dimension where parts start and end. */
#include "ops/kernels/views.h"

typedef struct cuts {
  int dim;
  size_t n;
  bool copy;         /* _copy forms */
  int64_t *start;    /* n of them, then n ends; owned */
  int64_t *end;
} cuts;

static rush_status cuts_alloc(rush_call *c, cuts *k, size_t n)
{
  size_t bytes;
  if (!size_mul(n, 2 * sizeof *k->start, &bytes))
    return call_nomem(c->cx);
  k->n = n;
  k->start = mem_alloc(c->cx->ctx, bytes);
  if (!k->start)
    return call_nomem(c->cx);
  k->end = k->start + n;
  return RUSH_OK;
}

static rush_status part(rush_call *c, const cuts *k, size_t i, rush_tensor **out)
{
  const rush_tensor *t = call_tensor(c, 0);
  geom g;
  geom_of(&g, t);
  g.offset += k->start[i] * g.strides[k->dim];
  g.sizes[k->dim] = k->end[i] - k->start[i];
  rush_tensor *v;
  TRY(geom_view(c->cx, t, &g, &v));
  rush_status s = RUSH_OK;
  if (k->copy) {
    s = tensor_copy_format(c->cx, v, v->dtype, FORMAT_CONTIGUOUS, out);
    tensor_release(v);
  } else {
    *out = v;
  }
  return s;
}

/* Make the parts; frees the cuts. */
static rush_status return_parts(rush_call *c, cuts *k)
{
  rush_list *l = NULL;
  rush_status s = list_new(c->cx, type_simple(TYPE_TENSOR), k->n, &l);
  for (size_t i = 0; i < k->n && s == RUSH_OK; i++) {
    rush_tensor *t = NULL;
    s = part(c, k, i, &t);
    if (s == RUSH_OK)
      s = list_append_steal(c->cx, l, value_tensor_steal(t));
  }
  mem_free(c->cx->ctx, k->start, k->n * 2 * sizeof *k->start);
  if (s == RUSH_OK)
    c->results[0] = value_heap_steal(RUSH_TAG_LIST, l);
  else if (l)
    value_release(value_heap_steal(RUSH_TAG_LIST, l));
  return s;
}

static rush_status cut_dim(rush_call *c, cuts *k, int64_t dim, int64_t *size)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (t->n_dims == 0)
    return call_fail(c->cx, "%s expects at least a 1-dimensional tensor",
                     strstr(c->op->schema->name, "tensor_split") ? "tensor_split"
                     : strstr(c->op->schema->name, "chunk")      ? "chunk"
                                                                 : "split");
  TRY(dim_wrap(c->cx, dim, t->n_dims, &k->dim));
  *size = t->sizes[k->dim];
  return RUSH_OK;
}

/* -- split, chunk ------------------------------------------------------------------------------ */

static rush_status split_every(rush_call *c, int64_t every, int64_t dim, bool copy)
{
  cuts k = {.copy = copy};
  int64_t size = 0;
  TRY(cut_dim(c, &k, dim, &size));
  if (every < 0)
    return call_fail(c->cx, "split expects split_size be non-negative, but got split_size=%lld",
                     (long long)every);
  if (every == 0 && size != 0)
    return call_fail(c->cx,
                     "split_size can only be 0 if dimension size is 0, but got dimension size "
                     "of %lld",
                     (long long)size);
  int64_t n = every == 0 ? 1 : i64_max(size / every + (size % every != 0), 1);
  TRY(cuts_alloc(c, &k, (size_t)n));
  for (int64_t i = 0; i < n; i++) {
    k.start[i] = i * every;
    k.end[i] = i + 1 == n ? size : (i + 1) * every;
  }
  return return_parts(c, &k);
}

static rush_status split_sizes(rush_call *c, bool copy)
{
  cuts k = {.copy = copy};
  int64_t size = 0, at = 0;
  const rush_list *l = call_list(c, 1);
  TRY(cut_dim(c, &k, call_int(c, 2), &size));
  TRY(cuts_alloc(c, &k, l->n));
  bool negative = false, overflow = false;
  for (size_t i = 0; i < l->n; i++) {
    negative |= l->items[i].as.i < 0;
    k.start[i] = at;
    overflow |= __builtin_add_overflow(at, l->items[i].as.i, &at);
    k.end[i] = at;
  }
  if (!negative && !overflow && at == size)
    return return_parts(c, &k);
  mem_free(c->cx->ctx, k.start, k.n * 2 * sizeof *k.start);
  text_buf text;
  text_init(&text, c->cx->ctx);
  for (size_t i = 0; i < l->n; i++)
    text_printf(&text, "%s%lld", i ? ", " : "", (long long)l->items[i].as.i);
  rush_status s = call_fail(
    c->cx,
    negative ? "split_with_sizes expects split_sizes have only non-negative entries, but got "
               "split_sizes=[%s]"
             : "split_with_sizes expects split_sizes to sum exactly to %2$lld (input tensor's "
               "size at dimension %3$d), but got split_sizes=[%1$s]",
    text_str(&text), (long long)size, k.dim);
  text_free(&text);
  return s;
}

rush_kernel kernel_split, kernel_split_copy, kernel_split_sizes, kernel_split_sizes_copy,
  kernel_chunk;
rush_status kernel_split(rush_call *c)
{
  return split_every(c, call_int(c, 1), call_int(c, 2), false);
}
rush_status kernel_split_copy(rush_call *c)
{
  return split_every(c, call_int(c, 1), call_int(c, 2), true);
}
rush_status kernel_split_sizes(rush_call *c) { return split_sizes(c, false); }
rush_status kernel_split_sizes_copy(rush_call *c) { return split_sizes(c, true); }

rush_status kernel_chunk(rush_call *c)
{
  cuts k = {.copy = false};
  int64_t size = 0, chunks = call_int(c, 1);
  TRY(cut_dim(c, &k, call_int(c, 2), &size));
  if (chunks <= 0)
    return call_fail(c->cx, "chunk expects `chunks` to be greater than 0, got: %lld",
                     (long long)chunks);
  int64_t every = size / chunks + (size % chunks != 0);
  if (every > 0)
    return split_every(c, every, k.dim, false);
  TRY(cuts_alloc(c, &k, (size_t)chunks)); /* nothing to split: as many empty parts as asked for */
  for (int64_t i = 0; i < chunks; i++)
    k.start[i] = k.end[i] = 0;
  return return_parts(c, &k);
}

/* -- tensor_split, hsplit, vsplit, dsplit ------------------------------------------------------ */

static rush_status split_sections(rush_call *c, int64_t sections, int64_t dim)
{
  cuts k = {.copy = false};
  int64_t size = 0, at = 0;
  TRY(cut_dim(c, &k, dim, &size));
  if (sections <= 0)
    return call_fail(c->cx, "number of sections must be larger than 0, got %lld",
                     (long long)sections);
  TRY(cuts_alloc(c, &k, (size_t)sections));
  for (int64_t i = 0; i < sections; i++) {
    k.start[i] = at;
    at += size / sections + (i < size % sections);
    k.end[i] = at;
  }
  return return_parts(c, &k);
}

/* Python slices [0:i0], [i0:i1], ..., [in:]. */
static rush_status split_indices(rush_call *c, const int64_t *indices, size_t n, int64_t dim)
{
  cuts k = {.copy = false};
  int64_t size = 0, start = 0;
  TRY(cut_dim(c, &k, dim, &size));
  TRY(cuts_alloc(c, &k, n + 1));
  for (size_t i = 0; i <= n; i++) {
    int64_t end = i < n ? indices[i] : size, s = start;
    start = end;
    s = s < 0 ? s + size : s;
    end = end < 0 ? end + size : end;
    k.start[i] = i64_min(i64_max(s, 0), size);
    k.end[i] = i64_min(i64_max(end, k.start[i]), size);
  }
  return return_parts(c, &k);
}

static rush_status split_list(rush_call *c, const rush_list *l, int64_t dim)
{
  size_t bytes = l->n * sizeof(int64_t);
  int64_t *v = mem_alloc(c->cx->ctx, bytes);
  if (!v)
    return call_nomem(c->cx);
  for (size_t i = 0; i < l->n; i++)
    v[i] = l->items[i].as.i;
  rush_status s = split_indices(c, v, l->n, dim);
  mem_free(c->cx->ctx, v, bytes);
  return s;
}

rush_kernel kernel_tensor_split_sections, kernel_tensor_split_indices, kernel_tensor_split_tensor;
rush_status kernel_tensor_split_sections(rush_call *c)
{
  return split_sections(c, call_int(c, 1), call_int(c, 2));
}

rush_status kernel_tensor_split_indices(rush_call *c)
{
  return split_list(c, call_list(c, 1), call_int(c, 2));
}

rush_status kernel_tensor_split_tensor(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 1), *dense;
  if (t->dtype != RUSH_INT64)
    return call_fail(c->cx,
                     "tensor_split expected tensor_indices_or_sections to have dtype of long, but "
                     "got %s",
                     dtype_aten_name(t->dtype));
  if (t->n_dims > 1)
    return call_fail(c->cx,
                     "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                     "one-dimensional tensor, but got a tensor with %d dims",
                     t->n_dims);
  TRY(tensor_contiguous(c->cx, t, &dense));
  const int64_t *v = dense->data;
  rush_status s = t->n_dims == 0 ? split_sections(c, v[0], call_int(c, 2))
                                 : split_indices(c, v, (size_t)t->n_elems, call_int(c, 2));
  tensor_release(dense);
  return s;
}

/* hsplit, vsplit, dsplit: the dimension, and the dimensions a tensor must have. */
static rush_status named_split(rush_call *c, int dim, int least)
{
  const rush_tensor *t = call_tensor(c, 0);
  const char *name = strrchr(c->op->schema->name, ':') + 1;
  if (t->n_dims < least)
    return call_fail(c->cx,
                     "torch.%s requires a tensor with at least %d dimension%s, but got a tensor "
                     "with %d dimensions!",
                     name, least, least > 1 ? "s" : "", t->n_dims);
  if (least == 1 && t->n_dims == 1)
    dim = 0;
  if (call_list(c, 1))
    return split_list(c, call_list(c, 1), dim);
  int64_t n = call_int(c, 1);
  if (n <= 0 || t->sizes[dim] % n)
    return call_fail(c->cx, "torch.%s attempted to split along dimension %d, but the size of the "
                            "dimension %lld is not divisible by the split_size %lld!",
                     name, dim, (long long)t->sizes[dim], (long long)n);
  return split_sections(c, n, dim);
}
rush_kernel kernel_hsplit, kernel_vsplit, kernel_dsplit;
rush_status kernel_hsplit(rush_call *c) { return named_split(c, 1, 1); }
rush_status kernel_vsplit(rush_call *c) { return named_split(c, 0, 2); }
rush_status kernel_dsplit(rush_call *c) { return named_split(c, 2, 3); }

/* -- unbind ------------------------------------------------------------------------------------ */

static rush_status unbind(rush_call *c, bool copy)
{
  const rush_tensor *t = call_tensor(c, 0);
  int dim;
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &dim));
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError",
                          "Dimension specified as %lld but tensor has no dimensions",
                          (long long)call_int(c, 1));
  rush_list *l;
  TRY(list_new(c->cx, type_simple(TYPE_TENSOR), (size_t)t->sizes[dim], &l));
  rush_status s = RUSH_OK;
  for (int64_t i = 0; i < t->sizes[dim] && s == RUSH_OK; i++) {
    rush_tensor *v = NULL, *kept = NULL;
    s = tensor_select(c->cx, t, dim, i, &v);
    kept = v;
    if (s == RUSH_OK && copy) {
      s = tensor_copy_format(c->cx, v, v->dtype, FORMAT_CONTIGUOUS, &kept);
      tensor_release(v);
    }
    if (s == RUSH_OK)
      s = list_append_steal(c->cx, l, value_tensor_steal(kept));
  }
  rush_value r = value_heap_steal(RUSH_TAG_LIST, l);
  if (s == RUSH_OK)
    c->results[0] = r;
  else
    value_release(r);
  return s;
}
rush_kernel kernel_unbind, kernel_unbind_copy;
rush_status kernel_unbind(rush_call *c) { return unbind(c, false); }
rush_status kernel_unbind_copy(rush_call *c) { return unbind(c, true); }
