/* ops/kernels/sparse/sparse_mm.c -- matrix products with sparse matrices.
 *
 * Sparse times dense loops over the elements of the sparse matrix and adds multiples of the dense
 * one's rows, in the order of the elements: O(nnz * columns).  Dense times sparse is the transpose
 * of that.  Sparse times sparse lists all products of elements (Gustavson's rows, as pairs) and
 * coalesces them: O(products log products).  PyTorch's accumulator of a whole row avoids the sort,
 * but needs a row of memory per column, which sizes alone would make large. */
#include "ops/kernels/sparse/sparse.h"
#include "ops/kernels/views.h"

/* -- Sparse times dense ------------------------------------------------------------------------ */

typedef struct product {
  const int64_t *rows, *columns;
  int64_t nnz, n; /* n: columns of the dense matrix */
} product;

#define MULTIPLY(type)                                       \
  {                                                          \
    const type *v = values, *b = dense;                      \
    type *y = out;                                           \
    for (int64_t k = 0; k < p->nnz; k++) {                   \
      const type a = v[k], *from = b + p->columns[k] * p->n; \
      type *to = y + p->rows[k] * p->n;                      \
      for (int64_t i = 0; i < p->n; i++)                     \
        to[i] = (type)(to[i] + a * from[i]);                 \
      work += p->n;                                          \
      if (UNLIKELY(work > WORK_BETWEEN_LOOKS)) {             \
        work = 0;                                            \
        if (call_over(cx))                                   \
          return; /* op_call polls */                        \
      }                                                      \
    }                                                        \
    return;                                                  \
  }
#define WORK_BETWEEN_LOOKS 1000000

static void multiply_complex(const call_ctx *cx, const product *p, const double *v, const double *b,
                             double *y)
{
  int64_t work = 0;
  for (int64_t k = 0; k < p->nnz; k++) {
    const double re = v[2 * k], im = v[2 * k + 1], *from = b + 2 * p->columns[k] * p->n;
    double *to = y + 2 * p->rows[k] * p->n;
    for (int64_t i = 0; i < p->n; i++) {
      to[2 * i] += re * from[2 * i] - im * from[2 * i + 1];
      to[2 * i + 1] += re * from[2 * i + 1] + im * from[2 * i];
    }
    if ((work += p->n) > WORK_BETWEEN_LOOKS) {
      work = 0;
      if (call_over(cx))
        return;
    }
  }
}

/* Multiply elements; integers are computed without signs, so that they wrap. */
static void multiply_elements(const call_ctx *cx, const product *p, int dtype, const void *values,
                              const void *dense, void *out)
{
  int64_t work = 0;
  switch (dtype) {
  case RUSH_FLOAT32: MULTIPLY(float)
  case RUSH_FLOAT64: MULTIPLY(double)
  case RUSH_INT64: MULTIPLY(uint64_t)
  case RUSH_COMPLEX128: multiply_complex(cx, p, values, dense, out); return;
  }
  ASSERT(false, "wide_of gives the others one of these");
}

/* Return the dtype for products, which are rounded once: PyTorch's opmath for halves; integers wrap
 * the same. */
static int wide_of(int dtype)
{
  switch (dtype_class_of(dtype)) {
  case DTYPE_INT:
  case DTYPE_BOOL: return RUSH_INT64;
  case DTYPE_COMPLEX: return RUSH_COMPLEX128;
  default: return dtype == RUSH_FLOAT64 ? dtype : RUSH_FLOAT32;
  }
}

static rush_status need_matrix(call_ctx *cx, const rush_tensor *t, const char *name)
{
  const sparse_parts *p = tensor_sparse(t);
  if (p && p->values->n_dims > 1)
    return call_fail(cx, "addmm: matrices expected, got %dD tensor", p->values->n_dims - 1);
  return t->n_dims == 2
           ? RUSH_OK
           : call_fail(cx, "addmm: Expected 2-D matrices, but %s is %d-D", name, t->n_dims);
}

/* Multiply coo [m, k] by dense [k, n], both of one dtype. */
static rush_status times_dense(call_ctx *cx, const rush_tensor *coo, rush_tensor *dense,
                               rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(coo);
  const int64_t sizes[2] = {coo->sizes[0], dense->sizes[1]};
  const int dtype = dense->dtype, wide = wide_of(dtype);
  const product todo = {p->indices->data, (const int64_t *)p->indices->data + sparse_nnz(p),
                      sparse_nnz(p), dense->sizes[1]};
  work w = work_begin_part(cx);
  rush_tensor *values = work_rows(&w, p->values, wide), *rows = work_rows(&w, dense, wide),
              *sum = work_new(&w, wide, 2, sizes);
  WORK_DO(&w, tensor_fill(cx, sum, value_int(0)));
  if (w.st == RUSH_OK)
    multiply_elements(cx, &todo, wide, values->data, rows->data, sum->data);
  WORK_DO(&w, tensor_to_dtype(cx, sum, dtype, out));
  return work_end(&w);
}

/* Transpose a matrix of coordinates. */
static rush_status turned(call_ctx *cx, const rush_tensor *coo, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(coo);
  const int64_t sizes[2] = {coo->sizes[1], coo->sizes[0]}, nnz = sparse_nnz(p),
                *from = p->indices->data;
  work w = work_begin_part(cx);
  rush_tensor *indices = WORK_MAKE(&w, coo_new_indices(cx, 2, nnz, &w.made));
  if (w.st == RUSH_OK) {
    memcpy(indices->data, from + nnz, (size_t)nnz * sizeof *from);
    memcpy((int64_t *)indices->data + nnz, from, (size_t)nnz * sizeof *from);
  }
  WORK_DO(&w, coo_new(cx, (sparse_shape){2, 2, sizes}, indices, p->values, false, out));
  return work_end(&w);
}

/* Multiply dense [m, k] by coo [k, n]. */
static rush_status dense_times(call_ctx *cx, rush_tensor *dense, const rush_tensor *coo,
                               rush_tensor **out)
{
  work w = work_begin_part(cx);
  rush_tensor *a = WORK_MAKE(&w, turned(cx, coo, &w.made)),
              *b = WORK_MAKE(&w, tensor_transpose(cx, dense, 0, 1, &w.made)),
              *product = WORK_MAKE(&w, times_dense(cx, a, b, &w.made)),
              *back = WORK_MAKE(&w, tensor_transpose(cx, product, 0, 1, &w.made));
  WORK_DO(&w, tensor_contiguous(cx, back, out));
  return work_end(&w);
}

/* -- Sparse times sparse ----------------------------------------------------------------------- */

/* All pairs of an element of a and one of b in the row of its column: positions in a and b, and
 * coordinates. */
typedef struct pairs {
  rush_tensor *of_a, *of_b, *indices;
} pairs;

static rush_status list_pairs(work *w, const rush_tensor *a, const rush_tensor *b, pairs *found)
{
  const int64_t n_a = sparse_nnz(tensor_sparse(a)), n_b = sparse_nnz(tensor_sparse(b));
  const int64_t *p = tensor_sparse(a)->indices->data, *q = tensor_sparse(b)->indices->data;
  const rush_tensor *starts = WORK_MAKE(w, coo_starts(w->cx, b, 0, &w->made));
  TRY(w->st);
  const int64_t *start = starts->data;
  int64_t n = 0, at = 0;
  for (int64_t i = 0; i < n_a; i++)
    if (__builtin_add_overflow(n, start[p[n_a + i] + 1] - start[p[n_a + i]], &n))
      return call_fail(w->cx, "a product of sparse matrices with too many elements");
  found->of_a = work_new(w, RUSH_INT64, 1, &n);
  found->of_b = work_new(w, RUSH_INT64, 1, &n);
  found->indices = WORK_MAKE(w, coo_new_indices(w->cx, 2, n, &w->made));
  TRY(w->st);
  int64_t *of_a = found->of_a->data, *of_b = found->of_b->data, *to = found->indices->data;
  for (int64_t i = 0; i < n_a; i++)
    for (int64_t k = start[p[n_a + i]]; k < start[p[n_a + i] + 1]; k++, at++) {
      of_a[at] = i;
      of_b[at] = k;
      to[at] = p[i];
      to[n + at] = q[n_b + k];
      TRY(call_poll_at(w->cx, at));
    }
  return RUSH_OK;
}

static rush_status times_sorted(call_ctx *cx, const rush_tensor *a, const rush_tensor *b,
                                rush_tensor **out)
{
  const sparse_shape shape = {2, 2, (int64_t[]){a->sizes[0], b->sizes[1]}};
  pairs found = {0};
  work w = work_begin_part(cx);
  WORK_DO(&w, list_pairs(&w, a, b, &found));
  const rush_value args[2] = {
    nn_arg(WORK_MAKE(&w, pick_rows(cx, tensor_sparse(a)->values, found.of_a, &w.made))),
    nn_arg(WORK_MAKE(&w, pick_rows(cx, tensor_sparse(b)->values, found.of_b, &w.made)))};
  rush_tensor *values = work_invoke(&w, "aten::mul", "Tensor", args, 2),
              *made = WORK_MAKE(&w, coo_new(cx, shape, found.indices, values, false, &w.made));
  WORK_DO(&w, coo_coalesce(cx, made, out));
  return work_end(&w);
}

static rush_status times_sparse(call_ctx *cx, rush_tensor *a, rush_tensor *b, bool as_csr,
                                rush_tensor **out)
{
  if (a->dtype != b->dtype)
    return call_fail(cx, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                     dtype_aten_name(a->dtype), dtype_aten_name(b->dtype));
  work w = work_begin_part(cx);
  rush_tensor *x = WORK_MAKE(&w, coo_coalesce(cx, a, &w.made)),
              *y = WORK_MAKE(&w, coo_coalesce(cx, b, &w.made)),
              *made = WORK_MAKE(&w, times_sorted(cx, x, y, &w.made));
  if (as_csr)
    made = WORK_MAKE(&w, sparse_to_csr(cx, made, &w.made));
  return work_end_with(&w, made, out);
}

/* -- Operators --------------------------------------------------------------------------------- */

static rush_status check_product(call_ctx *cx, const rush_tensor *a, const rush_tensor *b)
{
  TRY(need_matrix(cx, a, "mat1"));
  TRY(need_matrix(cx, b, "mat2"));
  if (a->sizes[1] != b->sizes[0])
    return call_fail(cx, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                     (long long)a->sizes[0], (long long)a->sizes[1], (long long)b->sizes[0],
                     (long long)b->sizes[1]);
  if (a->dtype != b->dtype)
    return call_fail(cx, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                     dtype_aten_name(a->dtype), dtype_aten_name(b->dtype));
  if (a->dtype == RUSH_BOOL)
    return call_no_dtype(cx, "addmm_sparse_dense", a->dtype);
  if (tensor_sparse(a) && tensor_sparse(b) && tensor_layout(a) != tensor_layout(b))
    return call_unsupported(cx, "products of layouts %s and %s: convert one of them",
                            tensor_layout_word(a), tensor_layout_word(b));
  return RUSH_OK;
}

/* Compute a @ b, with one sparse argument, or none (torch.sparse.mm). */
static rush_status mm(call_ctx *cx, rush_tensor *a, rush_tensor *b, rush_tensor **out)
{
  const rush_value dense[2] = {nn_arg(a), nn_arg(b)};
  if (!tensor_sparse(a) && !tensor_sparse(b))
    return nn_invoke(cx, "aten::mm", "", dense, 2, out);
  TRY(check_product(cx, a, b));
  work w = work_begin_part(cx);
  rush_tensor *x = tensor_sparse(a) ? WORK_MAKE(&w, sparse_to_coo(cx, a, &w.made)) : NULL,
              *y = tensor_sparse(b) ? WORK_MAKE(&w, sparse_to_coo(cx, b, &w.made)) : NULL;
  WORK_DO(&w, x && y ? times_sparse(cx, x, y, tensor_layout(a) == LAYOUT_CSR, out)
              : x    ? times_dense(cx, x, b, out)
                     : dense_times(cx, a, y, out));
  return work_end(&w);
}

rush_kernel kernel_sparse_mm, kernel_sparse_addmm, kernel_sparse_mv, kernel_sparse_matmul,
  kernel_sparse_linear;
rush_status kernel_sparse_mm(rush_call *c)
{
  return mm(c->cx, call_tensor(c, 0), call_tensor(c, 1), call_result(c, 0));
}

static bool is_zero(rush_value v)
{
  return v.tag == RUSH_TAG_INT     ? v.as.i == 0
         : v.tag == RUSH_TAG_FLOAT ? v.as.d == 0
                                   : v.tag == RUSH_TAG_BOOL && !v.as.b;
}

/* Compute beta * self + alpha * (mat1 @ mat2); with a beta of 0 self is ignored, even NaN. */
rush_status kernel_sparse_addmm(rush_call *c)
{
  const rush_value beta = c->args[3], alpha = c->args[4];
  const int a = tensor_layout(call_tensor(c, 1)), b = tensor_layout(call_tensor(c, 2));
  if (a == LAYOUT_COO && b == LAYOUT_COO)
    return call_fail(c->cx, "addmm_sparse_dense: expected either 'mat1' to have sparse layout and "
                            "'mat2' to have strided layout, got "
                            "'mat1' with layout Sparse and 'mat2' with layout Sparse");
  work w = work_begin(c);
  rush_tensor *product =
    WORK_MAKE(&w, mm(c->cx, call_tensor(c, 1), call_tensor(c, 2), &w.made));
  const rush_value by[2] = {nn_arg(call_tensor(c, 0)), beta}, times[2] = {nn_arg(product), alpha};
  rush_tensor *scaled = is_zero(beta) ? work_invoke(&w, "aten::zeros_like", "", by, 1)
                                      : work_invoke(&w, "aten::mul", "Scalar", by, 2);
  const rush_value sum[2] = {nn_arg(scaled),
                             nn_arg(work_invoke(&w, "aten::mul", "Scalar", times, 2))};
  return work_end_with(&w, work_invoke(&w, "aten::add", "Tensor", sum, 2), call_result(c, 0));
}

/* Multiply matrix @ vector. */
static rush_status mv(call_ctx *cx, rush_tensor *a, rush_tensor *v, rush_tensor **out)
{
  if (a->n_dims != 2 || v->n_dims != 1 || tensor_sparse(v))
    return call_fail(
      cx, "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: %d, DenseTensor Dim: %d",
      a->n_dims, v->n_dims);
  if (a->sizes[1] != v->sizes[0])
    return call_fail(cx, "mv: expected self.size(-1) == vec.size(-1)");
  work w = work_begin_part(cx);
  rush_tensor *column =
                WORK_MAKE(&w, reshaped(cx, v, 2, (int64_t[]){v->sizes[0], 1}, &w.made)),
              *product = WORK_MAKE(&w, mm(cx, a, column, &w.made));
  WORK_DO(&w, reshaped(cx, product, 1, a->sizes, out));
  return work_end(&w);
}

rush_status kernel_sparse_mv(rush_call *c)
{
  return mv(c->cx, call_tensor(c, 0), call_tensor(c, 1), call_result(c, 0));
}

rush_status kernel_sparse_matmul(rush_call *c)
{
  const rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  if (a->n_dims == 2 && b->n_dims == 2)
    return kernel_sparse_mm(c);
  if (a->n_dims == 2 && b->n_dims == 1)
    return kernel_sparse_mv(c);
  return call_unsupported(c->cx, "matmul of tensors of %d and %d dimensions where one is sparse",
                          a->n_dims, b->n_dims);
}

/* Compute rows times a weight's transpose; one of them is sparse. */
static rush_tensor *linear_product(work *w, rush_tensor *x, rush_tensor *weight)
{
  rush_tensor *right;
  if (tensor_sparse(weight)) {
    WORK_DO(w, need_matrix(w->cx, weight, "weight"));
    right = WORK_MAKE(w, sparse_to_coo(w->cx, weight, &w->made));
    right = WORK_MAKE(w, turned(w->cx, right, &w->made));
  } else { /* the input is sparse */
    right = WORK_MAKE(w, tensor_transpose(w->cx, weight, 0, 1, &w->made));
  }
  return WORK_MAKE(w, mm(w->cx, x, right, &w->made));
}

rush_status kernel_sparse_linear(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *weight = call_tensor(c, 1), *bias = call_tensor(c, 2);
  int64_t sizes[TENSOR_MAX_DIMS], flat[2] = {1, 1};
  if (x->n_dims < 1 || (tensor_sparse(x) && (x->n_dims != 2 || tensor_sparse(weight))) ||
      weight->n_dims != 2)
    return call_unsupported(c->cx, "linear of tensors of %d and %d dimensions where one is sparse",
                            x->n_dims, weight->n_dims);
  memcpy(sizes, x->sizes, x->n_dims * sizeof *sizes);
  for (int i = 0; i + 1 < x->n_dims; i++)
    flat[0] *= sizes[i];
  flat[1] = sizes[x->n_dims - 1];
  sizes[x->n_dims - 1] = weight->sizes[0];
  work w = work_begin(c);
  rush_tensor *rows =
    tensor_sparse(x) ? x : WORK_MAKE(&w, reshaped(c->cx, x, 2, flat, &w.made));
  rush_tensor *product = linear_product(&w, rows, weight),
              *r = WORK_MAKE(&w, reshaped(c->cx, product, x->n_dims, sizes, &w.made));
  const rush_value args[2] = {nn_arg(r), nn_arg(bias)};
  if (bias)
    r = work_invoke(&w, "aten::add", "Tensor", args, 2);
  return work_end_with(&w, r, call_result(c, 0));
}
