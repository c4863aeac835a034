/* ops/kernels/index/scatter.c -- gather, scatter and related operators: an index tensor has the
 * position along one dimension for every element.
 *
 * Self (with step 0 along the dimension), the other tensor and the index are iterated together; the
 * index adds the offset along the dimension.  An index that is constant along the inner loop
 * (expanded from fewer dimensions, as in graph networks) moves whole rows. */
#include "ops/kernels/index/index.h"
#include "ops/kernels/work.h"

#include <math.h>

#define BLOCK 256

typedef struct across {
  int64_t size, stride; /* of the dimension in self; bytes */
  size_t item;
  bool wraps;           /* negative indices count from the end */
  combine_fn *combine;  /* scatter; NULL: copy */
  _Atomic int64_t bad;  /* an index out of range, when has_bad */
  _Atomic bool has_bad;
} across;

/* Return the byte offset of an index along the dimension; one that is out of range is recorded and
 * treated as 0. */
static inline int64_t offset_of(across *a, int64_t k)
{
  int64_t i = k < 0 && a->wraps ? k + a->size : k;
  if (UNLIKELY(i < 0 || i >= a->size)) {
    if (!atomic_exchange(&a->has_bad, true))
      atomic_store(&a->bad, k);
    return 0;
  }
  return i * a->stride;
}

/* Compute offsets of n (at most BLOCK) indices, plus `step` bytes for each position.  Returns false
 * if one is out of range. */
static bool offsets_of(across *a, const char *index, int64_t stride, int64_t step, int64_t n,
                       int64_t *at)
{
  uint64_t size = (uint64_t)a->size;
  bool bad = false;
  for (int64_t i = 0; i < n; i++) {
    int64_t k = *(const int64_t *)(index + i * stride);
    k += k < 0 && a->wraps ? a->size : 0;
    bad |= (uint64_t)k >= size;
    at[i] = (int64_t)((uint64_t)k * (uint64_t)a->stride + (uint64_t)(i * step));
  }
  for (int64_t i = 0; i < n && bad; i++)
    (void)offset_of(a, *(const int64_t *)(index + i * stride));
  return !bad;
}

/* Operands: result, self, index. */
static void loop_gather(void *arg, int64_t n, char *const *p, const int64_t *s)
{
  across *a = arg;
  int64_t at[BLOCK];
  if (s[2] == 0) {
    copy_elems(a->item, p[0], s[0], p[1] + offset_of(a, *(const int64_t *)p[2]), s[1], n);
    return;
  }
  for (int64_t i = 0; i < n && !a->has_bad; i += BLOCK) {
    int64_t m = i64_min(BLOCK, n - i);
    if (offsets_of(a, p[2] + i * s[2], s[2], s[1], m, at))
      gather_elems(a->item, p[0] + i * s[0], s[0], p[1] + i * s[1], at, m);
  }
}

/* Operands: self, source, index. */
static void loop_scatter(void *arg, int64_t n, char *const *p, const int64_t *s)
{
  across *a = arg;
  int64_t at[BLOCK];
  if (s[2] == 0) {
    char *d = p[0] + offset_of(a, *(const int64_t *)p[2]);
    if (a->combine)
      a->combine(d, NULL, s[0], p[1], s[1], n);
    else
      copy_elems(a->item, d, s[0], p[1], s[1], n);
    return;
  }
  for (int64_t i = 0; i < n && !a->has_bad; i += BLOCK) {
    int64_t m = i64_min(BLOCK, n - i);
    if (!offsets_of(a, p[2] + i * s[2], s[2], s[0], m, at))
      return;
    if (a->combine)
      a->combine(p[0] + i * s[0], at, 0, p[1] + i * s[1], s[1], m);
    else
      scatter_elems(a->item, p[0] + i * s[0], at, p[1] + i * s[1], s[1], m);
  }
}

/* Add operand t over the index's sizes: t may be larger, and has step 0 along `still` (-1:
 * nowhere). */
static void add_operand(tensor_iter *it, const rush_tensor *t, int still)
{
  int64_t *strides = iter_strides_mut(it, it->n_ops);
  it->data[it->n_ops++] = t->data;
  strides[0] = 0;
  for (int i = 0; i < it->n_dims; i++) {
    int d = it->n_dims - 1 - i;
    strides[i] = d == still || d >= t->n_dims ? 0 : t->strides[d] * (int64_t)tensor_item_bytes(t);
  }
}

static rush_status out_of_range(rush_call *c, const across *a, int dim)
{
  return call_fail(c->cx, "index %lld is out of bounds for dimension %d with size %lld",
                   (long long)a->bad, dim, (long long)a->size);
}

static int64_t size_at(const rush_tensor *t, int d) { return t->n_dims ? t->sizes[d] : 1; }

static across across_of(const rush_tensor *self, int dim)
{
  return (across){.size = size_at(self, dim),
                  .item = tensor_item_bytes(self),
                  .stride =
                    self->n_dims ? self->strides[dim] * (int64_t)tensor_item_bytes(self) : 0};
}

/* -- gather ------------------------------------------------------------------------------------ */

/* Gather into r, of the index's sizes. */
static rush_status gather(rush_call *c, rush_tensor *self, int dim, rush_tensor *index, bool wraps,
                          rush_tensor *r)
{
  rush_tensor *v;
  TRY(tensor_to_dtype(c->cx, index, RUSH_INT64, &v));
  across a = across_of(self, dim);
  tensor_iter it;
  a.wraps = wraps;
  iter_init(&it, index->n_dims, index->sizes);
  add_operand(&it, r, -1);
  add_operand(&it, self, dim);
  add_operand(&it, v, -1);
  iter_finish(&it);
  rush_status s = iter_run(c->cx, &it, 16384, loop_gather, &a);
  if (s == RUSH_OK && a.has_bad)
    s = out_of_range(c, &a, dim);
  tensor_release(v);
  return s;
}

rush_kernel kernel_gather, kernel_take_along_dim;
rush_status kernel_gather(rush_call *c)
{
  return gather(c, call_tensor(c, 0), index_dim(c), call_tensor(c, 2), false, call_out(c, 0));
}

/* Expand t to the result's sizes except along the dimension; new. */
static rush_status expand_beside(rush_call *c, const rush_tensor *t, int dim, rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  for (int d = 0; d < t->n_dims; d++)
    sizes[d] = d == dim ? t->sizes[d] : call_out(c, 0)->sizes[d];
  return tensor_expand(c->cx, t, t->n_dims, sizes, out);
}

/* Implement take_along_dim(self, indices, dim): without a dimension both are flattened. */
rush_status kernel_take_along_dim(rush_call *c)
{
  rush_tensor *self = call_tensor(c, 0), *index = call_tensor(c, 1), *x, *at = NULL;
  const bool flat = call_is_none(c, 2);
  const int dim = flat ? 0 : call_dim(c, 2, self->n_dims);
  TRY(flat ? tensor_reshape(c->cx, self, 1, &self->n_elems, &x)
           : expand_beside(c, self, dim, &x));
  rush_status s = flat ? tensor_reshape(c->cx, index, 1, &index->n_elems, &at)
                       : expand_beside(c, index, dim, &at);
  if (s == RUSH_OK)
    s = gather(c, x, dim, at, !flat, call_out(c, 0));
  tensor_release(x);
  tensor_release(at);
  return s;
}

/* -- scatter ----------------------------------------------------------------------------------- */

/* Compute target[index] (combine)= src, which has dimensions, or is one number.  On one thread:
 * elements with the same index are combined in order. */
static rush_status scatter_into(rush_call *c, rush_tensor *target, int dim, rush_tensor *index,
                                rush_tensor *src, combine_fn *combine)
{
  rush_tensor *v, *copy = NULL;
  if (index->n_elems == 0)
    return RUSH_OK;
  TRY(tensor_to_dtype(c->cx, index, RUSH_INT64, &v));
  rush_status s = src->st == target->st ? tensor_clone(c->cx, src, &copy) : RUSH_OK;
  if (s == RUSH_OK) {
    across a = across_of(target, dim);
    tensor_iter it;
    a.combine = combine;
    iter_init(&it, index->n_dims, index->sizes);
    (void)tensor_data_mut(target);
    add_operand(&it, target, dim);
    add_operand(&it, copy ? copy : src, -1);
    add_operand(&it, v, -1);
    iter_finish(&it);
    s = iter_run(c->cx, &it, INT64_MAX, loop_scatter, &a);
    if (s == RUSH_OK && a.has_bad)
      s = out_of_range(c, &a, dim);
  }
  tensor_release(copy);
  tensor_release(v);
  return s;
}

static rush_status no_reduction(rush_call *c, const char *how, int dtype)
{
  return call_fail_type(c->cx, "NotImplementedError",
                        "\"scatter_gather_tensor_cpu_reduce_%s\" not implemented for "
                        "'%s'",
                        how, dtype_aten_name(dtype));
}

/* Implement scatter; the source is argument 3, a tensor or a number. */
static rush_status scatter(rush_call *c, combine_fn *combine)
{
  rush_tensor *target = call_out(c, 0), *src = call_tensor(c, 3);
  TRY(call_target(c, true));
  TRY(src ? (tensor_retain(src), RUSH_OK)
          : tensor_from_scalar(c->cx, c->args[3], target->dtype, &src));
  rush_status s = scatter_into(c, target, index_dim(c), call_tensor(c, 2), src, combine);
  tensor_release(src);
  return s;
}

rush_kernel kernel_scatter, kernel_scatter_add, kernel_scatter_old_reduce;
rush_status kernel_scatter(rush_call *c) { return scatter(c, NULL); }

rush_status kernel_scatter_add(rush_call *c)
{
  int dtype = call_tensor(c, 0)->dtype;
  combine_fn *add = combine_find(COMBINE_ADD, dtype);
  return add ? scatter(c, add) : no_reduction(c, "add", dtype);
}

/* Run scatter with reduce='add' or 'multiply'. */
rush_status kernel_scatter_old_reduce(rush_call *c)
{
  int dtype = call_tensor(c, 0)->dtype;
  bool add = str_is(call_str(c, 4), "add");
  combine_fn *fn = combine_find(add ? COMBINE_ADD : COMBINE_MUL, dtype);
  return fn ? scatter(c, fn) : no_reduction(c, add ? "add" : "multiply", dtype);
}

/* -- scatter_reduce, index_reduce -------------------------------------------------------------- */

typedef struct reduction {
  const char *name;
  combine_op op;
  bool mean;
} reduction;

static const reduction reductions[] = {
    {"sum", COMBINE_ADD, false}, {"prod", COMBINE_MUL, false}, {"amax", COMBINE_MAX, false},
    {"amin", COMBINE_MIN, false}, {"mean", COMBINE_ADD, true},
};

static const reduction *find_reduction(str name)
{
  for (size_t i = 0; i < COUNT_OF(reductions); i++)
    if (str_is(name, reductions[i].name))
      return &reductions[i];
  return NULL;
}

/* Return the neutral element of an operation. */
static rush_value neutral(combine_op op, int dtype)
{
  bool max = op == COMBINE_MAX;
  int bits = (int)(8 * dtype_bytes(dtype));
  if (op == COMBINE_ADD || op == COMBINE_MUL)
    return value_int(op == COMBINE_MUL);
  if (dtype_is_float(dtype))
    return value_float(max ? -(double)INFINITY : (double)INFINITY);
  if (dtype == RUSH_BOOL)
    return value_int(!max);
  if (!dtype_is_signed(dtype))
    return value_int(max ? 0 : (INT64_C(1) << bits) - 1);
  return value_int(max ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
}

/* Combines elements of one tensor into another: the only difference between scatter_reduce and
 * index_reduce. */
typedef rush_status spread_fn(rush_call *c, rush_tensor *target, int dim, rush_tensor *index,
                              rush_tensor *src, combine_fn *combine);

/* Count how many elements go into each position: 1 if there are none. */
static rush_status count_into(rush_call *c, rush_tensor *counts, int dim, rush_tensor *index,
                              const rush_tensor *src, bool include_self, spread_fn *spread)
{
  rush_tensor *ones;
  rush_value args[3] = {value_tensor_steal(counts), value_int(0), value_int(1)}, zero, done;
  TRY(tensor_fill(c->cx, counts, value_int(include_self)));
  TRY(tensor_new_like(c->cx, src, DTYPE_NONE, &ones));
  rush_status s = tensor_fill(c->cx, ones, value_int(1));
  if (s == RUSH_OK)
    s = spread(c, counts, dim, index, ones, combine_find(COMBINE_ADD, counts->dtype));
  tensor_release(ones);
  if (s != RUSH_OK || include_self)
    return s;
  TRY(op_invoke_name(c->cx, "aten::eq", "Scalar", args, 2, &zero));
  args[1] = zero;
  s = op_invoke_name(c->cx, "aten::masked_fill_", "Scalar", args, 3, &done);
  value_release(zero);
  if (s == RUSH_OK)
    value_release(done);
  return s;
}

/* Compute target /= counts; integers round down. */
static rush_status divide_by(rush_call *c, rush_tensor *target, rush_tensor *counts)
{
  rush_value args[3] = {value_tensor_steal(target), value_tensor_steal(counts)}, done;
  bool whole = dtype_is_integral(target->dtype);
  if (whole)
    TRY(string_new(c->cx, "floor", 5, &args[2]));
  rush_status s = op_invoke_name(c->cx, "aten::div_", whole ? "Tensor_mode" : "Tensor", args,
                                 whole ? 3 : 2, &done);
  if (whole)
    value_release(args[2]);
  if (s == RUSH_OK)
    value_release(done);
  return s;
}

static rush_status divide_by_counts(rush_call *c, rush_tensor *target, int dim, rush_tensor *index,
                                    const rush_tensor *src, bool include_self, spread_fn *spread)
{
  rush_tensor *counts;
  TRY(tensor_new_like(c->cx, target, DTYPE_NONE, &counts));
  rush_status s = count_into(c, counts, dim, index, src, include_self, spread);
  if (s == RUSH_OK)
    s = divide_by(c, target, counts);
  tensor_release(counts);
  return s;
}

static rush_status reduce_into(rush_call *c, const reduction *r, rush_tensor *target, int dim,
                               rush_tensor *index, rush_tensor *src, bool include_self,
                               spread_fn *spread)
{
  combine_fn *fn = combine_find(r->op, target->dtype);
  rush_tensor *init;
  if (!fn || (r->mean && target->dtype == RUSH_BOOL))
    return no_reduction(c, r->name, target->dtype);
  if (!include_self) {
    TRY(tensor_from_scalar(c->cx, neutral(r->op, target->dtype), target->dtype, &init));
    rush_status s = spread(c, target, dim, index, init, NULL);
    tensor_release(init);
    if (s != RUSH_OK)
      return s;
  }
  TRY(spread(c, target, dim, index, src, fn));
  return r->mean ? divide_by_counts(c, target, dim, index, src, include_self, spread) : RUSH_OK;
}

static rush_status reduce(rush_call *c, spread_fn *spread)
{
  TRY(call_target(c, true));
  return reduce_into(c, find_reduction(call_str(c, 4)), call_out(c, 0), index_dim(c),
                     call_tensor(c, 2), call_tensor(c, 3), call_bool(c, 5), spread);
}

rush_kernel kernel_scatter_reduce, kernel_index_reduce;
rush_status kernel_scatter_reduce(rush_call *c) { return reduce(c, scatter_into); }
rush_status kernel_index_reduce(rush_call *c) { return reduce(c, index_spread_rows); }
