/* ops/kernels/linalg/matmul.c -- operators that multiply matrices: mm, addmm, bmm, mv, dot, matmul,
 * linear and similar ones. The shape rules check and make the results; kernels compute strides and
 * pass the operands to gemm.h as they are: transposes and expanded biases are strides, never
 * copies. matmul coalesces batch dimensions and turns a stack times one matrix into one tall
 * product. Results equal those of the plain product, because gemm's order of sums depends only on
 * k. */
#include <string.h>

#include "ops/call/call.h"
#include "ops/math/dot.h"
#include "ops/math/gemm.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/packed.h"
#include "ops/kernels/views.h"
#include "tensor/iter.h"

/* -- Helpers ----------------------------------------------------------------------------------- */

static gemm_matrix matrix_of(const rush_tensor *t)
{
  return (gemm_matrix){t->data, t->strides[t->n_dims - 2], t->strides[t->n_dims - 1]};
}

static gemm_matrix transposed(gemm_matrix m) { return (gemm_matrix){m.data, m.cs, m.rs}; }

/* Compute the strides of `t` expanded to out's sizes. */
static void expand_strides(const rush_tensor *t, const rush_tensor *out, int64_t *strides)
{
  const int lead = out->n_dims - t->n_dims;
  for (int i = 0; i < out->n_dims; i++)
    strides[i] = i < lead || t->sizes[i - lead] != out->sizes[i] ? 0 : t->strides[i - lead];
}

static void set_scalar(double *re, double *im, rush_value v)
{
  *re = v.tag == RUSH_TAG_FLOAT     ? v.as.d
        : v.tag == RUSH_TAG_BOOL    ? v.as.b
        : v.tag == RUSH_TAG_COMPLEX ? value_complex(v)->re
                                    : (double)v.as.i;
  *im = v.tag == RUSH_TAG_COMPLEX ? value_complex(v)->im : 0.0;
}

static void set_scalars(gemm_args *g, rush_value beta, rush_value alpha)
{
  set_scalar(&g->beta, &g->beta_im, beta);
  set_scalar(&g->alpha, &g->alpha_im, alpha);
}

static rush_status check_dtype(call_ctx *cx, int dtype, const char *kernel)
{
  if (gemm_supports(dtype))
    return RUSH_OK;
  return call_no_dtype(cx, kernel, dtype);
}

/* -- mm, addmm --------------------------------------------------------------------------------- */

/* Describe an m x k by k x n product into out's rows. */
static void set_product(gemm_args *g, const rush_tensor *out, int64_t m, int64_t k, int64_t n,
                        gemm_matrix a, gemm_matrix b)
{
  g->dtype = out->dtype;
  g->m = m;
  g->k = k;
  g->n = n;
  g->a = a;
  g->b = b;
  g->c = out->data;
  g->c_rs = n;
  g->c_cs = 1;
}
/* Describe the product of a's and b's last two dimensions. */
static void set_matrices(gemm_args *g, const rush_tensor *out, const rush_tensor *a,
                         const rush_tensor *b)
{
  set_product(g, out, a->sizes[a->n_dims - 2], a->sizes[a->n_dims - 1], b->sizes[b->n_dims - 1],
              matrix_of(a), matrix_of(b));
}

/* Compute a b (+ d) into out; g has the scalars. */
static rush_status run_mm(call_ctx *cx, gemm_args *g, const rush_tensor *a, const rush_tensor *b,
                          const rush_tensor *d, rush_tensor *out)
{
  int64_t strides[2];
  TRY(check_dtype(cx, a->dtype, "addmm_impl_cpu_"));
  set_matrices(g, out, a, b);
  if (d) {
    expand_strides(d, out, strides);
    g->d = (gemm_matrix){d->data, strides[0], strides[1]};
  }
  return gemm_with_weight(cx, g, b);
}

rush_status kernel_mm(rush_call *c)
{
  gemm_args g = {.alpha = 1.0};
  return run_mm(c->cx, &g, call_tensor(c, 0), call_tensor(c, 1), NULL, call_out(c, 0));
}

rush_status kernel_addmm(rush_call *c)
{
  gemm_args g = {0};
  set_scalars(&g, c->args[3], c->args[4]);
  return run_mm(c->cx, &g, call_tensor(c, 1), call_tensor(c, 2), call_tensor(c, 0),
                call_out(c, 0));
}

/* Run addmm with relu or gelu (the tanh form). */
rush_status kernel__addmm_activation(rush_call *c)
{
  const bool gelu = call_bool(c, 5);
  rush_value args[2] = {c->results[0], value_none()}, made;
  TRY(kernel_addmm(c));
  if (gelu)
    TRY(string_new(c->cx, "tanh", 4, &args[1]));
  rush_status st =
    op_invoke_name(c->cx, gelu ? "aten::gelu_" : "aten::relu_", "", args, gelu ? 2 : 1, &made);
  value_release(args[1]);
  if (st == RUSH_OK)
    value_release(made);
  return st;
}

/* Multiply int8 by int8 into int32. */
rush_status kernel__int_mm(rush_call *c)
{
  rush_tensor *a = NULL, *b = NULL;
  gemm_args g = {.alpha = 1.0};
  TRY(tensor_to_dtype(c->cx, call_tensor(c, 0), RUSH_INT32, &a));
  rush_status st = tensor_to_dtype(c->cx, call_tensor(c, 1), RUSH_INT32, &b);
  if (st == RUSH_OK)
    st = run_mm(c->cx, &g, a, b, NULL, call_out(c, 0));
  tensor_release(a);
  tensor_release(b);
  return st;
}

/* -- bmm, baddbmm, addbmm ---------------------------------------------------------------------- */

static rush_status run_bmm(rush_call *c, gemm_args *g, const rush_tensor *a, const rush_tensor *b,
                           const rush_tensor *d)
{
  int64_t strides[3] = {0, 0, 0};
  TRY(check_dtype(c->cx, a->dtype, "bmm"));
  set_matrices(g, call_out(c, 0), a, b);
  if (d) {
    expand_strides(d, call_out(c, 0), strides);
    g->d = (gemm_matrix){d->data, strides[1], strides[2]};
  }
  return gemm_batch(c->cx, g, a->sizes[0], a->strides[0], b->strides[0], strides[0], g->m * g->n);
}

rush_status kernel_bmm(rush_call *c)
{
  gemm_args g = {.alpha = 1.0};
  return run_bmm(c, &g, call_tensor(c, 0), call_tensor(c, 1), NULL);
}

rush_status kernel_baddbmm(rush_call *c)
{
  gemm_args g = {0};
  set_scalars(&g, c->args[3], c->args[4]);
  return run_bmm(c, &g, call_tensor(c, 1), call_tensor(c, 2), call_tensor(c, 0));
}

/* Compute beta * self + alpha * the sum of the products. */
rush_status kernel_addbmm(rush_call *c)
{
  const rush_tensor *self = call_tensor(c, 0), *a = call_tensor(c, 1), *b = call_tensor(c, 2);
  rush_tensor *out = call_out(c, 0);
  gemm_args g = {0};
  int64_t strides[2];
  TRY(check_dtype(c->cx, a->dtype, "bmm"));
  set_scalars(&g, c->args[3], c->args[4]);
  set_matrices(&g, out, a, b);
  expand_strides(self, out, strides);
  g.d = (gemm_matrix){self->data, strides[0], strides[1]};
  if (a->sizes[0] == 0) { /* beta * self */
    g.k = 0;
    return gemm(c->cx, &g);
  }
  const int64_t item = (int64_t)tensor_item_bytes(a);
  for (int64_t i = 0; i < a->sizes[0]; i++) {
    TRY(gemm(c->cx, &g));
    g.a.data = (const char *)g.a.data + a->strides[0] * item;
    g.b.data = (const char *)g.b.data + b->strides[0] * item;
    g.d = (gemm_matrix){out->data, g.n, 1};
    g.beta = 1.0;
    g.beta_im = 0.0;
  }
  return RUSH_OK;
}

/* -- Vectors ----------------------------------------------------------------------------------- */

static rush_status run_mv(rush_call *c, gemm_args *g, const rush_tensor *d, const rush_tensor *a,
                          const rush_tensor *x)
{
  TRY(check_dtype(c->cx, a->dtype, "addmv_impl_cpu"));
  set_product(g, call_out(c, 0), a->sizes[0], a->sizes[1], 1, matrix_of(a),
              (gemm_matrix){x->data, x->strides[0], 1});
  if (d)
    g->d = (gemm_matrix){d->data, d->n_elems == 1 ? 0 : d->strides[0], 0};
  return gemm(c->cx, g);
}

rush_status kernel_mv(rush_call *c)
{
  gemm_args g = {.alpha = 1.0};
  return run_mv(c, &g, NULL, call_tensor(c, 0), call_tensor(c, 1));
}

rush_status kernel_addmv(rush_call *c)
{
  gemm_args g = {0};
  set_scalars(&g, c->args[3], c->args[4]);
  return run_mv(c, &g, call_tensor(c, 0), call_tensor(c, 1), call_tensor(c, 2));
}

/* Elements between two polls; of data that is not contiguous or not float, as much as is converted
 * at a time. */
#define DOT_AT_ONCE (INT64_C(1) << 22)
#define DOT_BLOCK 1024

static rush_status dot_floats(rush_call *c, const rush_tensor *x, const rush_tensor *y, void *out)
{
  const dot_loops *loops =
    ISA_PICK(dot_loops_of, cpu_choose(context_get_options(c->cx->ctx)->cpu))();
  const int64_t n = x->n_elems, item = (int64_t)dtype_bytes(x->dtype), sx = x->strides[0] * item,
                sy = y->strides[0] * item;
  const bool wide = item >= 4, in_place = wide && sx == item && sy == item;
  const int64_t step = in_place ? DOT_AT_ONCE : DOT_BLOCK;
  /* Rows of x, of y, and 16-bit floats as float32; not a multiple of 4 KB apart, which would alias
   * in the processor. */
  const size_t row_bytes = DOT_BLOCK * (wide ? (size_t)item : sizeof(float)) + 64;
  const size_t n_bytes = in_place ? 0 : (wide ? 2 : 4) * row_bytes;
  char *rows = NULL;
  double sum = 0;
  float sum_f = 0;
  if (!in_place && !(rows = mem_alloc_data(c->cx->ctx, n_bytes)))
    return call_nomem(c->cx);
  for (int64_t i = 0; i < n && !(i % DOT_AT_ONCE == 0 && i && call_over(c->cx)); i += step) {
    const int64_t m = i64_min(step, n - i);
    const void *p = (const char *)x->data + i * sx, *q = (const char *)y->data + i * sy;
    if (!in_place) {
      copy_elems((size_t)item, rows, item, p, sx, m);
      copy_elems((size_t)item, rows + row_bytes, item, q, sy, m);
      p = rows, q = rows + row_bytes;
    }
    if (!wide) {
      convert_elems(RUSH_FLOAT32, rows + 2 * row_bytes, x->dtype, p, m);
      convert_elems(RUSH_FLOAT32, rows + 3 * row_bytes, x->dtype, q, m);
      p = rows + 2 * row_bytes, q = rows + 3 * row_bytes;
    }
    if (item == 8)
      sum += loops->f64(m, p, q);
    else
      sum_f += loops->f32(m, p, q);
  }
  if (wide)
    memcpy(out, item == 8 ? (void *)&sum : (void *)&sum_f, (size_t)item);
  else
    convert_elems(x->dtype, out, RUSH_FLOAT32, &sum_f, 1);
  mem_free_data(c->cx->ctx, rows, n_bytes);
  return RUSH_OK;
}

static rush_status run_dot(rush_call *c, bool conjugate)
{
  const rush_tensor *x = call_tensor(c, 0), *y = call_tensor(c, 1);
  rush_tensor *out = call_out(c, 0);
  TRY(check_dtype(c->cx, x->dtype, "dot"));
  if (dtype_is_float(x->dtype))
    return dot_floats(c, x, y, out->data);
  gemm_args g = {.alpha = 1.0, .conj_a = conjugate};
  set_product(&g, out, 1, x->n_elems, 1, (gemm_matrix){x->data, 0, x->strides[0]},
              (gemm_matrix){y->data, y->strides[0], 0});
  return gemm(c->cx, &g);
}

rush_status kernel_dot(rush_call *c) { return run_dot(c, false); }
rush_status kernel_vdot(rush_call *c) { return run_dot(c, true); }

/* -- matmul ------------------------------------------------------------------------------------ */

/* A product of stacks of matrices: batch sizes and both operands' batch strides, coalesced. */
typedef struct stacks {
  int n;
  int64_t sizes[TENSOR_MAX_DIMS], a[TENSOR_MAX_DIMS], b[TENSOR_MAX_DIMS];
} stacks;

static void coalesce(stacks *s)
{
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    if (s->sizes[i] == 1)
      continue;
    if (n > 0 && s->a[n - 1] == s->a[i] * s->sizes[i] && s->b[n - 1] == s->b[i] * s->sizes[i]) {
      s->sizes[n - 1] *= s->sizes[i];
      s->a[n - 1] = s->a[i];
      s->b[n - 1] = s->b[i];
      continue;
    }
    s->sizes[n] = s->sizes[i];
    s->a[n] = s->a[i];
    s->b[n] = s->b[i];
    n++;
  }
  s->n = n;
}

/* Compute every product of the stacks; C is dense.  gemm_batch processes the innermost batch
 * dimension. */
static rush_status run_stacks(call_ctx *cx, gemm_args *g, stacks *s)
{
  coalesce(s);
  if (s->n == 1 && s->b[0] == 0 && s->a[0] == g->m * g->a.rs && !g->d.data) {
    g->m *= s->sizes[0]; /* one matrix for a tall stack: one product */
    s->n = 0;
  }
  if (s->n == 0)
    return gemm(cx, g);
  const int64_t item = (int64_t)dtype_bytes(g->dtype), one = g->m * g->n;
  const int last = s->n - 1;
  int64_t n_outer = 1;
  for (int i = 0; i < last; i++)
    n_outer *= s->sizes[i];
  for (int64_t i = 0; i < n_outer; i++) {
    int64_t rest = i, at_a = 0, at_b = 0;
    for (int d = last - 1; d >= 0; d--) {
      at_a += rest % s->sizes[d] * s->a[d];
      at_b += rest % s->sizes[d] * s->b[d];
      rest /= s->sizes[d];
    }
    gemm_args part = *g;
    part.a.data = (const char *)g->a.data + at_a * item;
    part.b.data = (const char *)g->b.data + at_b * item;
    part.c = (char *)g->c + i * s->sizes[last] * one * item;
    TRY(gemm_batch(cx, &part, s->sizes[last], s->a[last], s->b[last], 0, one));
  }
  return RUSH_OK;
}

/* Set both operands' strides for the result's batch dimensions. */
static void set_stacks(stacks *s, const rush_tensor *a, const rush_tensor *b,
                       const rush_tensor *out)
{
  const int na = a->n_dims > 2 ? a->n_dims - 2 : 0, nb = b->n_dims > 2 ? b->n_dims - 2 : 0;
  s->n = na > nb ? na : nb;
  for (int i = 0; i < s->n; i++) {
    const int ia = i - (s->n - na), ib = i - (s->n - nb);
    s->a[i] = ia >= 0 && a->sizes[ia] != 1 ? a->strides[ia] : 0;
    s->b[i] = ib >= 0 && b->sizes[ib] != 1 ? b->strides[ib] : 0;
    s->sizes[i] = out->sizes[i];
  }
}

rush_status kernel_matmul(rush_call *c)
{
  const rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  rush_tensor *out = call_out(c, 0);
  gemm_args g = {.alpha = 1.0};
  stacks s;
  if (a->n_dims == 1 && b->n_dims == 1)
    return run_dot(c, false);
  TRY(check_dtype(c->cx, a->dtype, a->n_dims > 2 && b->n_dims > 2 ? "bmm" : "addmm_impl_cpu_"));
  set_product(&g, out, a->n_dims > 1 ? a->sizes[a->n_dims - 2] : 1, a->sizes[a->n_dims - 1],
              b->n_dims > 1 ? b->sizes[b->n_dims - 1] : 1,
              a->n_dims > 1 ? matrix_of(a) : (gemm_matrix){a->data, 0, a->strides[0]},
              b->n_dims > 1 ? matrix_of(b) : (gemm_matrix){b->data, b->strides[0], 1});
  set_stacks(&s, a, b, out);
  return out->n_elems ? run_stacks(c->cx, &g, &s) : RUSH_OK;
}

/* -- linear ------------------------------------------------------------------------------------ */

/* View input [..., k] as a matrix of rows: its row stride; returns false if there is no single
 * one. */
static bool rows_of(const rush_tensor *t, int64_t *n_rows, int64_t *stride)
{
  const int last = t->n_dims - 1;
  *n_rows = 1;
  *stride = 0;
  for (int i = last - 1; i >= 0; i--) {
    if (t->sizes[i] == 1)
      continue;
    if (*n_rows == 1)
      *stride = t->strides[i];
    else if (t->strides[i] != *stride * *n_rows)
      return false;
    *n_rows *= t->sizes[i];
  }
  return true;
}

rush_status make_linear(call_ctx *cx, rush_tensor *input, const rush_tensor *w,
                        const rush_tensor *bias, rush_tensor **out)
{
  const rush_value args[3] = {nn_arg(input), nn_arg((rush_tensor *)(uintptr_t)w),
                              nn_arg((rush_tensor *)(uintptr_t)bias)};
  return nn_invoke(cx, "aten::linear", "", args, 3, out);
}

/* Describe the bias as a matrix with as many rows as the result: a vector repeats its row, a bias
 * of more dimensions is expanded.  `*made` is new if the matrix reads it, otherwise unchanged. */
static rush_status spread_bias(call_ctx *cx, const rush_tensor *bias, const rush_tensor *y,
                               gemm_matrix *d, rush_tensor **made)
{
  rush_tensor *wide = NULL, *dense = NULL;
  int64_t n_rows = 0, stride = 0;
  if (bias->n_dims <= 1) {
    *d = (gemm_matrix){bias->data, 0, bias->n_elems == 1 ? 0 : bias->strides[0]};
    return RUSH_OK;
  }
  TRY(tensor_expand(cx, bias, y->n_dims, y->sizes, &wide));
  if (!rows_of(wide, &n_rows, &stride)) {
    const rush_status st = tensor_contiguous(cx, wide, &dense);
    tensor_release(wide);
    if (st != RUSH_OK)
      return st;
    wide = dense;
    rows_of(wide, &n_rows, &stride);
  }
  *d = (gemm_matrix){wide->data, stride, wide->strides[wide->n_dims - 1]};
  *made = wide;
  return RUSH_OK;
}

rush_status kernel_linear(rush_call *c)
{
  const rush_tensor *w = call_tensor(c, 1), *bias = call_tensor(c, 2);
  rush_tensor *x = tensor_retain(call_tensor(c, 0)), *y = call_out(c, 0), *spread = NULL;
  gemm_args g = {.alpha = 1.0, .beta = 1.0};
  int64_t stride = 0, n_rows = 0;
  rush_status st = check_dtype(c->cx, x->dtype, "addmm_impl_cpu_");
  if (st == RUSH_OK && !rows_of(x, &n_rows, &stride)) {
    tensor_release(x);
    TRY(tensor_contiguous(c->cx, call_tensor(c, 0), &x));
    rows_of(x, &n_rows, &stride);
  }
  set_product(&g, y, n_rows, x->sizes[x->n_dims - 1], w->n_dims > 1 ? w->sizes[0] : 1,
              (gemm_matrix){x->data, stride, x->strides[x->n_dims - 1]},
              w->n_dims > 1 ? transposed(matrix_of(w))
                            : (gemm_matrix){w->data, w->strides[0], 0});
  if (st == RUSH_OK && bias)
    st = spread_bias(c->cx, bias, y, &g.d, &spread);
  if (st == RUSH_OK && y->n_elems)
    st = gemm_with_weight(c->cx, &g, w);
  tensor_release(spread);
  tensor_release(x);
  return st;
}
