/* ops/kernels/sparse/sparse_math.c -- arithmetic on sparse tensors: elementwise operators, sums.
 *
 * Functions that map zero to zero run on the values.  Sums and products of two COO tensors merge
 * both in order, as in PyTorch: O(nnz of both).  Compressed rows are converted to coordinates. */
#include "ops/call/registry.h"
#include "ops/kernels/sparse/sparse.h"
#include "ops/kernels/views.h"

#define MOST_ARGS 8

/* -- On the values ----------------------------------------------------------------------------- */

/* Run c's operator on t's values, in the place of argument `at`. */
static rush_status on_values(rush_call *c, const rush_tensor *t, uint32_t at, rush_tensor **out)
{
  rush_value args[MOST_ARGS], made;
  if (c->n_args > MOST_ARGS)
    return call_unsupported(c->cx, "%s of a sparse tensor", c->op->schema->name);
  memcpy(args, c->args, c->n_args * sizeof *args);
  args[at] = nn_arg(tensor_sparse(t)->values);
  TRY(op_invoke(c->cx, c->op, args, c->n_args, &made, 1));
  rush_status st = sparse_with_values(c->cx, t, made.as.tensor, out);
  value_release(made);
  return st;
}

rush_kernel kernel_sparse_on_values, kernel_sparse_unary, kernel_sparse_pow, kernel_sparse_div;
rush_status kernel_sparse_on_values(rush_call *c)
{
  return on_values(c, call_tensor(c, 0), 0, call_result(c, 0));
}

/* f(a) + f(b) is not f(a + b): duplicates are added first. */
rush_status kernel_sparse_unary(rush_call *c)
{
  if (tensor_layout(call_tensor(c, 0)) == LAYOUT_CSR)
    return kernel_sparse_on_values(c);
  work w = work_begin(c);
  const rush_tensor *t = WORK_MAKE(&w, coo_coalesce(c->cx, call_tensor(c, 0), &w.made));
  WORK_DO(&w, on_values(c, t, 0, call_result(c, 0)));
  return work_end(&w);
}

rush_status kernel_sparse_pow(rush_call *c)
{
  if (c->args[1].tag != RUSH_TAG_COMPLEX && call_float(c, 1) == 0)
    return call_fail(
      c->cx,
      "pow: cannot raise to zero power on sparse tensor; it would make the result tensor dense");
  return kernel_sparse_unary(c);
}

/* True if argument i is one number. */
static bool is_one_number(const rush_call *c, uint32_t i)
{
  const rush_tensor *t = call_tensor(c, i);
  return !t || (!tensor_sparse(t) && t->n_dims == 0);
}

/* Run c's operator on t and the number in the other argument.  If t has no dimensions either, a
 * tensor's dtype counts as much as t's: the values, which have a dimension, would outweigh it. */
static rush_status with_number(rush_call *c, rush_tensor *t, uint32_t at, rush_tensor **out)
{
  const rush_tensor *number = call_tensor(c, 1 - at);
  if (t->n_dims || !number || number->h.flags & TENSOR_WRAPPED_NUMBER)
    return on_values(c, t, at, out);
  const int dtype = dtype_promote(t->dtype, number->dtype);
  work w = work_begin(c);
  rush_tensor *values = WORK_MAKE(&w, as_dtype(c->cx, tensor_sparse(t)->values, dtype, &w.made)),
              *wide = WORK_MAKE(&w, sparse_with_values(c->cx, t, values, &w.made));
  WORK_DO(&w, on_values(c, wide, at, out));
  return work_end(&w);
}

rush_status kernel_sparse_div(rush_call *c)
{
  sizes_text text;
  const rush_tensor *by = call_tensor(c, 1);
  rush_tensor *r;
  if (is_one_number(c, 1)) {
    TRY(with_number(c, call_tensor(c, 0), 0, &r));
    call_return_steal(c, 0, r);
    return RUSH_OK;
  }
  return call_fail(
    c->cx,
    "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape %s for divisor)",
    sizes_print(&text, by->n_dims, by->sizes));
}

/* -- Two tensors of coordinates ---------------------------------------------------------------- */

/* The positions of the elements of two tensors in their ordered merge: n places. */
typedef struct merge {
  rush_tensor *at[2]; /* int64 [nnz of each]: places (sums), or which elements meet (products) */
  rush_tensor *indices;
  int64_t n;
} merge;

static const int64_t *coordinates(const rush_tensor *t) { return tensor_sparse(t)->indices->data; }
static int64_t nnz_of(const rush_tensor *t) { return sparse_nnz(tensor_sparse(t)); }

/* Compare: negative: element i of a comes first; 0: both have the same position. */
static int compare_coordinates(const int64_t *a, int64_t n_a, int64_t i, const int64_t *b,
                               int64_t n_b, int64_t k, int n_dims)
{
  for (int d = 0; d < n_dims; d++)
    if (a[d * n_a + i] != b[d * n_b + k])
      return a[d * n_a + i] < b[d * n_b + k] ? -1 : 1;
  return 0;
}

/* Compute the union: each element's place in at[], and their number. */
static rush_status merge_places(work *w, const rush_tensor *a, const rush_tensor *b, merge *m)
{
  const int64_t n_a = nnz_of(a), n_b = nnz_of(b), *p = coordinates(a), *q = coordinates(b);
  const int n_dims = tensor_sparse(a)->sparse_dim;
  m->at[0] = work_new(w, RUSH_INT64, 1, &n_a);
  m->at[1] = work_new(w, RUSH_INT64, 1, &n_b);
  TRY(w->st);
  int64_t *to_a = m->at[0]->data, *to_b = m->at[1]->data, i = 0, k = 0;
  for (m->n = 0; i < n_a || k < n_b; m->n++) {
    const int order = i == n_a   ? 1
                      : k == n_b ? -1
                                 : compare_coordinates(p, n_a, i, q, n_b, k, n_dims);
    if (order <= 0)
      to_a[i++] = m->n;
    if (order >= 0)
      to_b[k++] = m->n;
    TRY(call_poll_at(w->cx, m->n));
  }
  return RUSH_OK;
}

/* Make the coordinates of the union. */
static rush_status merge_indices(work *w, const rush_tensor *a, const rush_tensor *b, merge *m)
{
  const rush_tensor *from[2] = {a, b};
  const int n_dims = tensor_sparse(a)->sparse_dim;
  m->indices = WORK_MAKE(w, coo_new_indices(w->cx, n_dims, m->n, &w->made));
  TRY(w->st);
  int64_t *to = m->indices->data;
  for (int which = 0; which < 2; which++) {
    const int64_t n = nnz_of(from[which]), *p = coordinates(from[which]), *at = m->at[which]->data;
    for (int d = 0; d < n_dims; d++)
      for (int64_t i = 0; i < n; i++) {
        TRY(call_poll_at(w->cx, i));
        to[d * m->n + at[i]] = p[d * n + i];
      }
  }
  return RUSH_OK;
}

/* Compute the intersection of two coalesced tensors: pairs of matching elements, in at[0] and
 * at[1]. */
static rush_status meet(work *w, const rush_tensor *a, const rush_tensor *b, merge *m)
{
  const int64_t n_a = nnz_of(a), n_b = nnz_of(b), *p = coordinates(a), *q = coordinates(b);
  const int n_dims = tensor_sparse(a)->sparse_dim;
  const int64_t most = i64_min(n_a, n_b);
  m->at[0] = work_new(w, RUSH_INT64, 1, &most);
  m->at[1] = work_new(w, RUSH_INT64, 1, &most);
  TRY(w->st);
  int64_t *to_a = m->at[0]->data, *to_b = m->at[1]->data, i = 0, k = 0;
  while (i < n_a && k < n_b) {
    const int order = compare_coordinates(p, n_a, i, q, n_b, k, n_dims);
    if (order == 0) {
      to_a[m->n] = i;
      to_b[m->n++] = k;
    }
    i += order <= 0;
    k += order >= 0;
    TRY(call_poll_at(w->cx, i + k));
  }
  m->indices = WORK_MAKE(w, coo_new_indices(w->cx, n_dims, m->n, &w->made));
  TRY(w->st);
  for (int d = 0; d < n_dims; d++)
    for (int64_t j = 0; j < m->n; j++) {
      TRY(call_poll_at(w->cx, j));
      ((int64_t *)m->indices->data)[d * m->n + j] = p[d * n_a + to_a[j]];
    }
  for (int j = 0; j < 2; j++)
    m->at[j] = WORK_MAKE(w, tensor_narrow(w->cx, m->at[j], 0, 0, m->n, &w->made));
  return w->st;
}

/* -- Sums of two ------------------------------------------------------------------------------- */

static rush_status same_density(call_ctx *cx, const rush_tensor *a, const rush_tensor *b)
{
  sizes_text x, y;
  if (a->n_dims != b->n_dims || memcmp(a->sizes, b->sizes, a->n_dims * sizeof *a->sizes) != 0)
    return call_fail(cx, "add: expected sizes of 'self' and 'other' to match, but %s != %s",
                     sizes_print(&x, a->n_dims, a->sizes), sizes_print(&y, b->n_dims, b->sizes));
  if (tensor_sparse(a)->sparse_dim != tensor_sparse(b)->sparse_dim)
    return call_fail(cx,
                     "add: expected 'self' and 'other' to have same density, but 'self' has %d "
                     "sparse dimensions while 'other' has "
                     "%d sparse dimensions",
                     tensor_sparse(a)->sparse_dim, tensor_sparse(b)->sparse_dim);
  return RUSH_OK;
}

/* Make values of the union: a's at their places, plus alpha times b's. */
static rush_tensor *add_values(work *w, rush_tensor *a, rush_tensor *b, rush_value alpha,
                               const merge *m)
{
  const int dtype = dtype_promote(a->dtype, b->dtype);
  if (dtype == RUSH_BOOL && nnz_of(a) && nnz_of(b))
    WORK_DO(w, call_no_dtype(w->cx, "cadd_sparse", dtype));
  rush_tensor *x = WORK_MAKE(w, as_dtype(w->cx, tensor_sparse(a)->values, dtype, &w->made)),
              *y = WORK_MAKE(w, as_dtype(w->cx, tensor_sparse(b)->values, dtype, &w->made)),
              *sum = WORK_MAKE(w, sum_rows(w->cx, x, m->at[0], m->n, &w->made));
  const rush_value args[5] = {nn_arg(sum), value_int(0), nn_arg(m->at[1]), nn_arg(y), alpha};
  if (y->n_elems)
    (void)work_invoke(w, "aten::index_add_", "", args, 5);
  return sum;
}

static rush_status add_coo(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_value alpha,
                           rush_tensor **out)
{
  const bool both = tensor_sparse(a)->is_coalesced && tensor_sparse(b)->is_coalesced;
  merge m = {0};
  work w = work_begin_part(cx);
  WORK_DO(&w, same_density(cx, a, b));
  WORK_DO(&w, merge_places(&w, a, b, &m));
  WORK_DO(&w, merge_indices(&w, a, b, &m));
  rush_tensor *values = w.st == RUSH_OK ? add_values(&w, a, b, alpha, &m) : NULL;
  WORK_DO(&w, coo_new(cx, shape_of_sparse(a), m.indices, values, both, out));
  return work_end(&w);
}

typedef rush_status pair_fn(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_value alpha,
                            rush_tensor **out);

/* Convert two tensors of compressed rows to coalesced coordinates, and the result to compressed
 * rows again. */
static rush_status by_coordinates(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_value alpha,
                                  pair_fn *fn, rush_tensor **out)
{
  rush_tensor *t[2] = {a, b};
  work w = work_begin_part(cx);
  for (int i = 0; i < 2; i++) {
    t[i] = WORK_MAKE(&w, sparse_to_coo(cx, t[i], &w.made));
    t[i] = WORK_MAKE(&w, coo_coalesce(cx, t[i], &w.made));
  }
  rush_tensor *made = WORK_MAKE(&w, fn(cx, t[0], t[1], alpha, &w.made));
  WORK_DO(&w, sparse_to_csr(cx, made, out));
  return work_end(&w);
}

/* Compute a + alpha * b if one is dense. */
static rush_status add_dense(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_value alpha,
                             rush_tensor **out)
{
  work w = work_begin_part(cx);
  rush_tensor *dense = WORK_MAKE(&w, sparse_to_dense(cx, tensor_sparse(a) ? a : b, &w.made));
  const rush_value args[3] = {nn_arg(tensor_sparse(a) ? dense : a),
                              nn_arg(tensor_sparse(b) ? dense : b), alpha};
  return work_end_with(&w, work_invoke(&w, "aten::add", "Tensor", args, 3), out);
}

static rush_status add_tensors(rush_call *c, rush_tensor *a, rush_tensor *b, rush_value alpha)
{
  const int x = tensor_layout(a), y = tensor_layout(b);
  if (x == LAYOUT_COO && y == LAYOUT_STRIDED)
    return call_fail(
      c->cx, "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  if (x && y && x != y)
    return call_unsupported(c->cx, "%s of layouts %s and %s: convert one of them",
                            c->op->schema->name, tensor_layout_word(a), tensor_layout_word(b));
  return !x || !y          ? add_dense(c->cx, a, b, alpha, call_result(c, 0))
      : x == LAYOUT_COO ? add_coo(c->cx, a, b, alpha, call_result(c, 0))
                        : by_coordinates(c->cx, a, b, alpha, add_coo, call_result(c, 0));
}

rush_kernel kernel_sparse_add, kernel_sparse_sub, kernel_sparse_add_number;
rush_status kernel_sparse_add(rush_call *c)
{
  return add_tensors(c, call_tensor(c, 0), call_tensor(c, 1), c->args[2]);
}

rush_status kernel_sparse_sub(rush_call *c)
{
  const rush_value alpha = c->args[2];
  if (call_tensor(c, 0)->dtype == RUSH_BOOL && call_tensor(c, 1)->dtype == RUSH_BOOL)
    return call_fail(c->cx, "Subtraction, the `-` operator, with two bool tensors is not "
                            "supported. Use the `^` or `logical_xor()` "
                            "operator instead.");
  const int64_t whole = alpha.tag == RUSH_TAG_BOOL ? alpha.as.b : alpha.as.i;
  const rush_value minus = alpha.tag == RUSH_TAG_FLOAT ? value_float(-alpha.as.d)
                                                       : value_int((int64_t)(0 - (uint64_t)whole));
  if (alpha.tag == RUSH_TAG_COMPLEX)
    return call_unsupported(c->cx, "sub of sparse tensors with a complex alpha");
  return add_tensors(c, call_tensor(c, 0), call_tensor(c, 1), minus);
}

rush_status kernel_sparse_add_number(rush_call *c)
{
  return call_fail(c->cx,
                   "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
}

/* -- Products of two --------------------------------------------------------------------------- */

static rush_tensor *multiply(work *w, rush_tensor *a, rush_tensor *b)
{
  const rush_value args[2] = {nn_arg(a), nn_arg(b)};
  return work_invoke(w, "aten::mul", "Tensor", args, 2);
}

/* Multiply two coalesced tensors. */
static rush_status mul_sorted(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_value unused,
                              rush_tensor **out)
{
  merge m = {0};
  (void)unused;
  if (a->n_dims != b->n_dims || memcmp(a->sizes, b->sizes, a->n_dims * sizeof *a->sizes) != 0 ||
      tensor_sparse(a)->sparse_dim != tensor_sparse(b)->sparse_dim)
    return call_fail(cx, "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal "
                         "dimensionality, number of sparse "
                         "dimensions, and shape of sparse dimensions");
  work w = work_begin_part(cx);
  WORK_DO(&w, meet(&w, a, b, &m));
  rush_tensor *x = WORK_MAKE(&w, pick_rows(cx, tensor_sparse(a)->values, m.at[0], &w.made)),
              *y = WORK_MAKE(&w, pick_rows(cx, tensor_sparse(b)->values, m.at[1], &w.made)),
              *values = multiply(&w, x, y);
  WORK_DO(&w, coo_new(cx, shape_of_sparse(a), m.indices, values, true, out));
  return work_end(&w);
}

static rush_status mul_coo(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_tensor **out)
{
  work w = work_begin_part(cx);
  rush_tensor *x = WORK_MAKE(&w, coo_coalesce(cx, a, &w.made)),
              *y = WORK_MAKE(&w, coo_coalesce(cx, b, &w.made));
  WORK_DO(&w, mul_sorted(cx, x, y, value_none(), out));
  return work_end(&w);
}

/* Get the elements of a dense tensor, broadcast to t's sizes, at the coordinates of t: [nnz, dense
 * sizes...]. */
static rush_status pick_elements(call_ctx *cx, const rush_tensor *t, rush_tensor *dense,
                                 rush_tensor **out)
{
  const int n_sparse = tensor_sparse(t)->sparse_dim;
  int64_t sizes[TENSOR_MAX_DIMS + 1] = {1};
  for (int i = 0; i < t->n_dims; i++)
    if (i < n_sparse)
      sizes[0] *= t->sizes[i];
    else
      sizes[1 + i - n_sparse] = t->sizes[i];
  work w = work_begin_part(cx);
  rush_tensor *all = WORK_MAKE(&w, tensor_expand(cx, dense, t->n_dims, t->sizes, &w.made)),
              *rows = WORK_MAKE(&w, reshaped(cx, all, 1 + t->n_dims - n_sparse, sizes, &w.made)),
              *at = WORK_MAKE(&w, coo_all_positions(cx, t, &w.made));
  WORK_DO(&w, pick_rows(cx, rows, at, out));
  return work_end(&w);
}

/* Multiply t's values by the dense elements at their places; t may be compressed rows. */
static rush_status mul_dense(call_ctx *cx, rush_tensor *t, rush_tensor *dense, rush_tensor **out)
{
  work w = work_begin_part(cx);
  const rush_tensor *coo = WORK_MAKE(&w, sparse_to_coo(cx, t, &w.made));
  rush_tensor *at = WORK_MAKE(&w, pick_elements(cx, coo, dense, &w.made)),
              *values = w.st == RUSH_OK ? multiply(&w, tensor_sparse(coo)->values, at) : NULL;
  WORK_DO(&w, sparse_with_values(cx, t, values, out));
  return work_end(&w);
}

rush_kernel kernel_sparse_mul;
rush_status kernel_sparse_mul(rush_call *c)
{
  rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  if (is_one_number(c, 1) || is_one_number(c, 0)) {
    TRY(
      with_number(c, is_one_number(c, 1) ? a : b, is_one_number(c, 1) ? 0 : 1, call_result(c, 0)));
  } else if (!tensor_sparse(a) || !tensor_sparse(b)) {
    TRY(tensor_sparse(a) ? mul_dense(c->cx, a, b, call_result(c, 0))
                         : mul_dense(c->cx, b, a, call_result(c, 0)));
  } else if (tensor_layout(a) != tensor_layout(b)) {
    return call_unsupported(c->cx, "%s of layouts %s and %s: convert one of them",
                            c->op->schema->name, tensor_layout_word(a), tensor_layout_word(b));
  } else {
    TRY(tensor_layout(a) == LAYOUT_COO
          ? mul_coo(c->cx, a, b, call_result(c, 0))
          : by_coordinates(c->cx, a, b, value_none(), mul_sorted, call_result(c, 0)));
  }
  return RUSH_OK;
}

/* sparse_mask(self, mask): self's elements where mask has elements, in mask's layout and order. */
rush_kernel kernel_sparse_mask;
rush_status kernel_sparse_mask(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *mask = call_tensor(c, 1);
  sizes_text a, b;
  if (!tensor_sparse(mask))
    return call_fail(c->cx, "sparse_mask: expected a sparse mask, but got layout Strided");
  work w = work_begin(c);
  rush_tensor *dense = tensor_sparse(t) ? WORK_MAKE(&w, sparse_to_dense(c->cx, t, &w.made)) : t;
  if (t->n_dims != mask->n_dims || memcmp(t->sizes, mask->sizes, t->n_dims * sizeof *t->sizes) != 0)
    WORK_DO(&w, call_fail(c->cx,
                          "sparse_mask(): operands have incompatible sizes; self has size %s but "
                          "mask has size %s",
                          sizes_print(&a, t->n_dims, t->sizes),
                          sizes_print(&b, mask->n_dims, mask->sizes)));
  const rush_tensor *coo = WORK_MAKE(&w, sparse_to_coo(c->cx, mask, &w.made));
  rush_tensor *values = WORK_MAKE(&w, pick_elements(c->cx, coo, dense, &w.made));
  WORK_DO(&w, sparse_with_values(c->cx, mask, values, call_result(c, 0)));
  return work_end(&w);
}

/* -- Sums over dimensions ---------------------------------------------------------------------- */

typedef struct summing {
  bool over[TENSOR_MAX_DIMS];
  int n_left; /* sparse dimensions that stay */
  int left[TENSOR_MAX_DIMS];
  rush_value dtype;
} summing;

/* Read the dimensions in argument `at` as bits; all if there is none. */
static rush_status read_dims(rush_call *c, uint32_t at, const rush_tensor *t, summing *s)
{
  int64_t dims[TENSOR_MAX_DIMS];
  const int n = at < c->n_args ? call_ints(c, at, dims, TENSOR_MAX_DIMS) : 0;
  int d;
  for (int i = 0; i < t->n_dims; i++)
    s->over[i] = n == 0;
  for (int i = 0; i < n; i++) {
    TRY(dim_wrap(c->cx, dims[i], t->n_dims, &d));
    if (t->n_dims && s->over[d])
      return call_fail(c->cx, "dim %d appears multiple times in the list of dims", d);
    s->over[d] = true;
  }
  return n < 0 ? call_fail(c->cx, "a sum over more than %d dimensions", TENSOR_MAX_DIMS) : RUSH_OK;
}

/* Sum values over the dense dimensions, and over nnz if no sparse dimension is kept. */
static rush_status sum_values(call_ctx *cx, const rush_tensor *t, const summing *s,
                              rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(t);
  int64_t dims[TENSOR_MAX_DIMS + 1];
  rush_value list;
  int n = 0;
  if (s->n_left == 0)
    dims[n++] = 0;
  for (int i = p->sparse_dim; i < t->n_dims; i++)
    if (s->over[i])
      dims[n++] = 1 + i - p->sparse_dim;
  if (n == 0 && s->dtype.tag == RUSH_TAG_INT)
    return as_dtype(cx, p->values, (int)s->dtype.as.i, out);
  if (n == 0) {
    *out = tensor_retain(p->values);
    return RUSH_OK;
  }
  TRY(list_of_ints(cx, dims, n, &list));
  const rush_value args[4] = {nn_arg(p->values), list, value_bool(false), s->dtype};
  rush_status st = nn_invoke(cx, "aten::sum", "dim_IntList", args, 4, out);
  value_release(list);
  return st;
}

/* Make the sparse result: coordinates of the kept dimensions, coalesced. */
static rush_status sum_sparse(call_ctx *cx, const rush_tensor *t, const summing *s,
                              rush_tensor *values, rush_tensor **out)
{
  const int64_t nnz = nnz_of(t), *from = coordinates(t);
  int64_t sizes[TENSOR_MAX_DIMS];
  int n = 0;
  for (int i = 0; i < t->n_dims; i++)
    if (!s->over[i])
      sizes[n++] = t->sizes[i];
  work w = work_begin_part(cx);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(cx, s->n_left, nnz, &w.made)), *made;
  for (int i = 0; i < s->n_left && w.st == RUSH_OK; i++)
    memcpy((int64_t *)indices->data + i * nnz, from + s->left[i] * nnz, (size_t)nnz * sizeof *from);
  made = WORK_MAKE(&w, coo_new(cx, (sparse_shape){n, s->n_left, sizes}, indices, values, false,
                               &w.made));
  WORK_DO(&w, coo_coalesce(cx, made, out));
  return work_end(&w);
}

static rush_status sum_over(call_ctx *cx, rush_tensor *t, summing *s, rush_tensor **out)
{
  for (int i = 0; i < tensor_sparse(t)->sparse_dim; i++)
    if (!s->over[i])
      s->left[s->n_left++] = i;
  work w = work_begin_part(cx);
  rush_tensor *values = WORK_MAKE(&w, sum_values(cx, t, s, &w.made));
  if (s->n_left)
    values = WORK_MAKE(&w, sum_sparse(cx, t, s, values, &w.made));
  return work_end_with(&w, values, out);
}

/* Add dimensions of size 1 for the summed ones: a dense result is a view, a sparse one gets zeros
 * as coordinates. */
static rush_tensor *keep_dims(work *w, const summing *s, int n_dims, rush_tensor *t)
{
  for (int i = 0; i < n_dims; i++) {
    const rush_value args[2] = {nn_arg(t), value_int(i)};
    rush_tensor *was = t;
    if (!s->over[i])
      continue;
    t = work_invoke(w, "aten::unsqueeze", "", args, 2);
    work_drop(w, was);
  }
  return t;
}

static rush_status sum(rush_call *c, uint32_t dims, uint32_t dtype, bool keep, bool widens)
{
  rush_tensor *t = call_tensor(c, 0);
  if (!tensor_sparse(t)) /* _sparse_sum takes anything */
    return need_coo(c->cx, t, "_indices");
  summing s = {.dtype = dtype < c->n_args ? c->args[dtype] : value_none()};
  TRY(read_dims(c, dims, t, &s));
  if (s.dtype.tag == RUSH_TAG_NONE && widens && dtype_class_of(t->dtype) <= DTYPE_INT)
    s.dtype = value_int(RUSH_INT64);
  work w = work_begin(c);
  rush_tensor *coo = WORK_MAKE(&w, sparse_to_coo(c->cx, t, &w.made)),
              *r = WORK_MAKE(&w, sum_over(c->cx, coo, &s, &w.made));
  return work_end_with(&w, keep ? keep_dims(&w, &s, t->n_dims, r) : r, call_result(c, 0));
}

rush_kernel kernel_sparse_sum, kernel_sparse_sum_dim, kernel_sparse_sum_keep;
/* sum(self, *, dtype): all elements. */
rush_status kernel_sparse_sum(rush_call *c) { return sum(c, UINT32_MAX, 1, false, true); }
/* _sparse_sum.dim(self, dim) */
rush_status kernel_sparse_sum_dim(rush_call *c) { return sum(c, 1, UINT32_MAX, false, false); }
/* sum.dim_IntList(self, dim, keepdim, dtype) */
rush_status kernel_sparse_sum_keep(rush_call *c)
{
  if (tensor_layout(call_tensor(c, 0)) == LAYOUT_CSR && !call_is_none(c, 1) && call_list(c, 1) &&
      call_list(c, 1)->n)
    return call_unsupported(
      c->cx, "sums over dimensions of torch.sparse_csr tensors: use tensor.to_sparse()");
  return sum(c, 1, 3, call_bool(c, 2), true);
}
