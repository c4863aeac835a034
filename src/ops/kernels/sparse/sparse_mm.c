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
  rush_tensor *values = NULL, *rows = NULL, *sum = NULL;
  const product work = {p->indices->data, (const int64_t *)p->indices->data + sparse_nnz(p),
                        sparse_nnz(p), dense->sizes[1]};
  rush_status st = tensor_to_dtype(cx, p->values, wide, &values);
  if (st == RUSH_OK)
    st = tensor_to_dtype(cx, dense, wide, &rows);
  if (st == RUSH_OK)
    st = tensor_new(cx, wide, 2, sizes, &sum);
  if (st == RUSH_OK)
    st = tensor_fill(cx, sum, value_int(0));
  if (st == RUSH_OK) {
    multiply_elements(cx, &work, wide, values->data, rows->data, sum->data);
    st = tensor_to_dtype(cx, sum, dtype, out);
  }
  tensor_release(values);
  tensor_release(rows);
  tensor_release(sum);
  return st;
}

/* Transpose a matrix of coordinates. */
static rush_status turned(call_ctx *cx, const rush_tensor *coo, rush_tensor **out)
{
  const sparse_parts *p = tensor_sparse(coo);
  const int64_t sizes[2] = {coo->sizes[1], coo->sizes[0]}, nnz = sparse_nnz(p),
                *from = p->indices->data;
  rush_tensor *indices;
  TRY(coo_new_indices(cx, 2, nnz, &indices));
  memcpy(indices->data, from + nnz, (size_t)nnz * sizeof *from);
  memcpy((int64_t *)indices->data + nnz, from, (size_t)nnz * sizeof *from);
  return coo_new_steal(cx, RUSH_OK, (sparse_shape){2, 2, sizes}, indices, tensor_retain(p->values),
                       false, out);
}

/* Multiply dense [m, k] by coo [k, n]. */
static rush_status dense_times(call_ctx *cx, rush_tensor *dense, const rush_tensor *coo,
                               rush_tensor **out)
{
  rush_tensor *a, *b = NULL, *product = NULL, *back = NULL;
  TRY(turned(cx, coo, &a));
  rush_status st = tensor_transpose(cx, dense, 0, 1, &b);
  if (st == RUSH_OK)
    st = times_dense(cx, a, b, &product);
  if (st == RUSH_OK)
    st = tensor_transpose(cx, product, 0, 1, &back);
  if (st == RUSH_OK)
    st = tensor_contiguous(cx, back, out);
  tensor_release(a);
  tensor_release(b);
  tensor_release(product);
  tensor_release(back);
  return st;
}

/* -- Sparse times sparse ----------------------------------------------------------------------- */

/* All pairs of an element of a and one of b in the row of its column: positions in a and b, and
 * coordinates. */
typedef struct pairs {
  rush_tensor *starts, *of_a, *of_b, *indices, *x, *y, *values;
} pairs;

static rush_status list_pairs(call_ctx *cx, const rush_tensor *a, const rush_tensor *b, pairs *w)
{
  const int64_t n_a = sparse_nnz(tensor_sparse(a)), n_b = sparse_nnz(tensor_sparse(b));
  const int64_t *p = tensor_sparse(a)->indices->data, *q = tensor_sparse(b)->indices->data;
  TRY(coo_starts(cx, b, 0, &w->starts));
  const int64_t *start = w->starts->data;
  int64_t n = 0, at = 0;
  for (int64_t i = 0; i < n_a; i++)
    if (__builtin_add_overflow(n, start[p[n_a + i] + 1] - start[p[n_a + i]], &n))
      return call_fail(cx, "a product of sparse matrices with too many elements");
  TRY(tensor_new(cx, RUSH_INT64, 1, &n, &w->of_a));
  TRY(tensor_new(cx, RUSH_INT64, 1, &n, &w->of_b));
  TRY(coo_new_indices(cx, 2, n, &w->indices));
  int64_t *of_a = w->of_a->data, *of_b = w->of_b->data, *to = w->indices->data;
  for (int64_t i = 0; i < n_a; i++)
    for (int64_t k = start[p[n_a + i]]; k < start[p[n_a + i] + 1]; k++, at++) {
      of_a[at] = i;
      of_b[at] = k;
      to[at] = p[i];
      to[n + at] = q[n_b + k];
      TRY(call_poll_at(cx, at));
    }
  return RUSH_OK;
}

static rush_status multiply_pairs(call_ctx *cx, const rush_tensor *a, const rush_tensor *b,
                                  pairs *w)
{
  TRY(pick_rows(cx, tensor_sparse(a)->values, w->of_a, &w->x));
  TRY(pick_rows(cx, tensor_sparse(b)->values, w->of_b, &w->y));
  const rush_value args[2] = {tensor_value(w->x), tensor_value(w->y)};
  return apply(cx, "aten::mul", "Tensor", args, 2, &w->values);
}

static rush_status times_sorted(call_ctx *cx, const rush_tensor *a, const rush_tensor *b,
                                rush_tensor **out)
{
  const int64_t sizes[2] = {a->sizes[0], b->sizes[1]};
  pairs w = {0};
  rush_tensor *made;
  rush_status st = list_pairs(cx, a, b, &w);
  if (st == RUSH_OK)
    st = multiply_pairs(cx, a, b, &w);
  st = coo_new_steal(cx, st, (sparse_shape){2, 2, sizes}, w.indices, w.values, false, &made);
  tensor_release(w.starts);
  tensor_release(w.of_a);
  tensor_release(w.of_b);
  tensor_release(w.x);
  tensor_release(w.y);
  TRY(st);
  st = coo_coalesce(cx, made, out);
  tensor_release(made);
  return st;
}

static rush_status times_sparse(call_ctx *cx, rush_tensor *a, rush_tensor *b, bool as_csr,
                                rush_tensor **out)
{
  rush_tensor *x, *y = NULL, *made = NULL;
  if (a->dtype != b->dtype)
    return call_fail(cx, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                     dtype_aten_name(a->dtype), dtype_aten_name(b->dtype));
  TRY(coo_coalesce(cx, a, &x));
  rush_status st = coo_coalesce(cx, b, &y);
  if (st == RUSH_OK)
    st = times_sorted(cx, x, y, as_csr ? &made : out);
  if (st == RUSH_OK && as_csr)
    st = sparse_to_csr(cx, made, out);
  tensor_release(x);
  tensor_release(y);
  tensor_release(made);
  return st;
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
  rush_tensor *x = NULL, *y = NULL;
  const rush_value dense[2] = {tensor_value(a), tensor_value(b)};
  if (!tensor_sparse(a) && !tensor_sparse(b))
    return apply(cx, "aten::mm", "", dense, 2, out);
  TRY(check_product(cx, a, b));
  rush_status st = tensor_sparse(a) ? sparse_to_coo(cx, a, &x) : RUSH_OK;
  if (st == RUSH_OK && tensor_sparse(b))
    st = sparse_to_coo(cx, b, &y);
  if (st == RUSH_OK)
    st = x && y ? times_sparse(cx, x, y, tensor_layout(a) == LAYOUT_CSR, out)
         : x    ? times_dense(cx, x, b, out)
                : dense_times(cx, a, y, out);
  tensor_release(x);
  tensor_release(y);
  return st;
}

rush_kernel kernel_sparse_mm, kernel_sparse_addmm, kernel_sparse_mv, kernel_sparse_matmul,
  kernel_sparse_linear;
rush_status kernel_sparse_mm(rush_call *c)
{
  rush_tensor *r;
  TRY(mm(c->cx, call_tensor(c, 0), call_tensor(c, 1), &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
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
  rush_tensor *product, *scaled = NULL, *r = NULL, *with = NULL;
  const rush_value beta = c->args[3], alpha = c->args[4];
  const int a = tensor_layout(call_tensor(c, 1)), b = tensor_layout(call_tensor(c, 2));
  if (a == LAYOUT_COO && b == LAYOUT_COO)
    return call_fail(c->cx, "addmm_sparse_dense: expected either 'mat1' to have sparse layout and "
                            "'mat2' to have strided layout, got "
                            "'mat1' with layout Sparse and 'mat2' with layout Sparse");
  TRY(mm(c->cx, call_tensor(c, 1), call_tensor(c, 2), &product));
  const rush_value by[2] = {tensor_value(call_tensor(c, 0)), beta},
                   times[2] = {tensor_value(product), alpha};
  rush_status st = is_zero(beta) ? apply(c->cx, "aten::zeros_like", "", by, 1, &scaled)
                                 : apply(c->cx, "aten::mul", "Scalar", by, 2, &scaled);
  if (st == RUSH_OK)
    st = apply(c->cx, "aten::mul", "Scalar", times, 2, &with);
  const rush_value sum[2] = {tensor_value(scaled), tensor_value(with)};
  if (st == RUSH_OK)
    st = apply(c->cx, "aten::add", "Tensor", sum, 2, &r);
  tensor_release(product);
  tensor_release(scaled);
  tensor_release(with);
  if (st == RUSH_OK)
    call_return_steal(c, 0, r);
  return st;
}

/* Multiply matrix @ vector. */
static rush_status mv(call_ctx *cx, rush_tensor *a, rush_tensor *v, rush_tensor **out)
{
  rush_tensor *column, *product = NULL;
  if (a->n_dims != 2 || v->n_dims != 1 || tensor_sparse(v))
    return call_fail(
      cx, "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: %d, DenseTensor Dim: %d",
      a->n_dims, v->n_dims);
  if (a->sizes[1] != v->sizes[0])
    return call_fail(cx, "mv: expected self.size(-1) == vec.size(-1)");
  TRY(reshaped(cx, v, 2, (int64_t[]){v->sizes[0], 1}, &column));
  rush_status st = mm(cx, a, column, &product);
  if (st == RUSH_OK)
    st = reshaped(cx, product, 1, a->sizes, out);
  tensor_release(column);
  tensor_release(product);
  return st;
}

rush_status kernel_sparse_mv(rush_call *c)
{
  rush_tensor *r;
  TRY(mv(c->cx, call_tensor(c, 0), call_tensor(c, 1), &r));
  call_return_steal(c, 0, r);
  return RUSH_OK;
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

/* Compute linear(input, weight, bias): (weight @ input^T)^T for a sparse weight. */
static rush_status linear_product(call_ctx *cx, rush_tensor *x, rush_tensor *weight,
                                  rush_tensor **out)
{
  rush_tensor *coo, *turned_weight = NULL;
  if (!tensor_sparse(weight)) { /* the input is sparse */
    TRY(tensor_transpose(cx, weight, 0, 1, &coo));
    rush_status st = mm(cx, x, coo, out);
    tensor_release(coo);
    return st;
  }
  TRY(need_matrix(cx, weight, "weight"));
  TRY(sparse_to_coo(cx, weight, &coo));
  rush_status st = turned(cx, coo, &turned_weight);
  if (st == RUSH_OK)
    st = mm(cx, x, turned_weight, out);
  tensor_release(coo);
  tensor_release(turned_weight);
  return st;
}

rush_status kernel_sparse_linear(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *weight = call_tensor(c, 1), *bias = call_tensor(c, 2), *rows,
              *product = NULL, *r = NULL, *sum;
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
  if (tensor_sparse(x))
    rows = tensor_retain(x);
  else
    TRY(reshaped(c->cx, x, 2, flat, &rows));
  rush_status st = linear_product(c->cx, rows, weight, &product);
  if (st == RUSH_OK)
    st = reshaped(c->cx, product, x->n_dims, sizes, &r);
  const rush_value args[2] = {tensor_value(r), tensor_value(bias)};
  if (st == RUSH_OK && bias &&
      (st = apply(c->cx, "aten::add", "Tensor", args, 2, &sum)) == RUSH_OK) {
    tensor_release(r);
    r = sum;
  }
  tensor_release(rows);
  tensor_release(product);
  return call_return_made_steal(c, 0, r, st);
}
