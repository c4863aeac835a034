/* ops/kernels/linalg/matmul.c -- operators that multiply matrices: mm, addmm, bmm, mv, dot, matmul,
 * linear and related ones. They check with PyTorch's messages, compute sizes and strides, and pass
 * gemm.h the operands without copies: transposes and expanded biases are strides. matmul coalesces
 * batch dimensions and turns a stack times one matrix into one tall product. Results equal those of
 * the plain product, because gemm's order of sums depends on k alone. */
#include <string.h>

#include "ops/call/call.h"
#include "ops/math/dot.h"
#include "ops/math/gemm.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/packed.h"
#include "tensor/iter.h"

/* -- Helpers ----------------------------------------------------------------------------------- */

static gemm_matrix matrix_of(const rush_tensor *t)
{
  return (gemm_matrix){t->data, t->strides[t->n_dims - 2], t->strides[t->n_dims - 1]};
}

static gemm_matrix transposed(gemm_matrix m) { return (gemm_matrix){m.data, m.cs, m.rs}; }

/* Broadcast `t` to n_dims sizes: computes strides of every dimension.  Returns false if it does not
 * fit. */
static bool expand_strides(const rush_tensor *t, int n_dims, const int64_t *sizes, int64_t *strides)
{
  const int lead = n_dims - t->n_dims;
  for (int i = 0; i < n_dims; i++) {
    strides[i] = 0;
    if (i < lead)
      continue;
    if (t->sizes[i - lead] == sizes[i])
      strides[i] = t->strides[i - lead];
    else if (t->sizes[i - lead] != 1)
      return false;
  }
  return lead >= 0;
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

static rush_status check_same(call_ctx *cx, const rush_tensor *a, const rush_tensor *b)
{
  if (a->dtype == b->dtype)
    return RUSH_OK;
  return call_fail(cx, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                   dtype_c_name(a->dtype), dtype_c_name(b->dtype));
}

/* Return the C++ type, which messages of products use for a dtype. */
const char *dtype_c_name(int dtype)
{
  switch (dtype) {
  case RUSH_UINT8: return "unsigned char";
  case RUSH_INT8: return "signed char";
  case RUSH_INT16: return "short";
  case RUSH_INT32: return "int";
  case RUSH_INT64: return "long long";
  case RUSH_FLOAT16: return "c10::Half";
  case RUSH_FLOAT32: return "float";
  case RUSH_FLOAT64: return "double";
  case RUSH_COMPLEX64: return "c10::complex<float>";
  case RUSH_COMPLEX128: return "c10::complex<double>";
  case RUSH_BOOL: return "bool";
  case RUSH_BFLOAT16: return "c10::BFloat16";
  }
  return dtype_name(dtype);
}

/* -- mm, addmm --------------------------------------------------------------------------------- */

static rush_status check_mm(call_ctx *cx, const rush_tensor *a, const rush_tensor *b)
{
  if (a->n_dims != 2)
    return call_fail(cx, "mat1 must be a matrix, got %d-D tensor", a->n_dims);
  if (b->n_dims != 2)
    return call_fail(cx, "mat2 must be a matrix, got %d-D tensor", b->n_dims);
  if (a->sizes[1] != b->sizes[0])
    return call_fail(cx, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                     (long long)a->sizes[0], (long long)a->sizes[1], (long long)b->sizes[0],
                     (long long)b->sizes[1]);
  TRY(check_same(cx, a, b));
  return check_dtype(cx, a->dtype, "addmm_impl_cpu_");
}

/* Compute a b (+ d) into a new tensor; g has the scalars. */
static rush_status make_mm(call_ctx *cx, gemm_args *g, const rush_tensor *a, const rush_tensor *b,
                           const rush_tensor *d, rush_tensor **out)
{
  const int64_t sizes[2] = {a->sizes[0], b->sizes[1]};
  int64_t strides[2];
  TRY(check_mm(cx, a, b));
  if (d && d->dtype != a->dtype)
    return call_fail(cx, "self and mat2 must have the same dtype, but got %s and %s",
                     dtype_aten_name(d->dtype), dtype_aten_name(b->dtype));
  if (d && !expand_strides(d, 2, sizes, strides))
    return call_fail(
      cx,
      "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
      "non-singleton dimension %d.",
      (long long)sizes[1], (long long)(d->n_dims ? d->sizes[d->n_dims - 1] : 1), 1);
  g->dtype = a->dtype;
  g->m = sizes[0];
  g->n = sizes[1];
  g->k = a->sizes[1];
  g->a = matrix_of(a);
  g->b = matrix_of(b);
  if (d)
    g->d = (gemm_matrix){d->data, strides[0], strides[1]};
  rush_tensor *c = NULL;
  TRY(tensor_new(cx, a->dtype, 2, sizes, &c));
  g->c = c->data;
  g->c_rs = g->n;
  g->c_cs = 1;
  rush_status st = gemm_with_weight(cx, g, b);
  if (st != RUSH_OK) {
    tensor_release(c);
    return st;
  }
  *out = c;
  return RUSH_OK;
}

rush_status kernel_mm(rush_call *c)
{
  gemm_args g = {.alpha = 1.0};
  rush_tensor *out = NULL;
  if (call_tensor(c, 0)->n_dims != 2)
    return call_fail(c->cx, "self must be a matrix");
  if (call_tensor(c, 1)->n_dims != 2)
    return call_fail(c->cx, "mat2 must be a matrix");
  TRY(make_mm(c->cx, &g, call_tensor(c, 0), call_tensor(c, 1), NULL, &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}

rush_status kernel_addmm(rush_call *c)
{
  gemm_args g = {0};
  rush_tensor *out = NULL;
  set_scalars(&g, c->args[3], c->args[4]);
  TRY(make_mm(c->cx, &g, call_tensor(c, 1), call_tensor(c, 2), call_tensor(c, 0), &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}

/* Run addmm with relu or gelu (the tanh form). */
rush_status kernel__addmm_activation(rush_call *c)
{
  rush_value made;
  TRY(kernel_addmm(c));
  rush_status st;
  if (call_bool(c, 5)) {
    rush_value args[2] = {c->results[0], value_none()};
    TRY(string_new(c->cx, "tanh", 4, &args[1]));
    st = op_invoke_name(c->cx, "aten::gelu", "", args, 2, &made);
    value_release(args[1]);
  } else {
    st = op_invoke_name(c->cx, "aten::relu", "", c->results, 1, &made);
  }
  TRY(st);
  value_release(c->results[0]);
  c->results[0] = made;
  return RUSH_OK;
}

/* int8 x int8 -> int32 */
rush_status kernel__int_mm(rush_call *c)
{
  rush_tensor *a = NULL, *b = NULL, *out = NULL;
  gemm_args g = {.alpha = 1.0};
  TRY(tensor_to_dtype(c->cx, call_tensor(c, 0), RUSH_INT32, &a));
  rush_status st = tensor_to_dtype(c->cx, call_tensor(c, 1), RUSH_INT32, &b);
  if (st == RUSH_OK)
    st = make_mm(c->cx, &g, a, b, NULL, &out);
  if (st == RUSH_OK)
    call_return_steal(c, 0, out);
  tensor_release(a);
  tensor_release(b);
  return st;
}

/* -- bmm, baddbmm, addbmm ---------------------------------------------------------------------- */

static rush_status check_bmm(call_ctx *cx, const rush_tensor *a, const rush_tensor *b)
{
  if (a->n_dims != 3)
    return call_fail(cx, "batch1 must be a 3D tensor");
  if (b->n_dims != 3)
    return call_fail(cx, "batch2 must be a 3D tensor");
  if (a->sizes[0] != b->sizes[0] || a->sizes[2] != b->sizes[1])
    return call_fail(cx,
                     "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] "
                     "but got: [%lld, %lld].",
                     (long long)a->sizes[0], (long long)a->sizes[2], (long long)b->sizes[0],
                     (long long)b->sizes[1]);
  if (a->dtype != b->dtype)
    return call_fail(cx, "expected scalar type %s but found %s", dtype_aten_name(a->dtype),
                     dtype_aten_name(b->dtype));
  return check_dtype(cx, a->dtype, "bmm");
}

static rush_status make_bmm(call_ctx *cx, gemm_args *g, const rush_tensor *a, const rush_tensor *b,
                            const rush_tensor *d, rush_tensor **out)
{
  const int64_t sizes[3] = {a->sizes[0], a->sizes[1], b->sizes[2]};
  int64_t strides[3] = {0, 0, 0};
  if (d && !expand_strides(d, 3, sizes, strides))
    return call_fail(cx, "The size of self does not fit the product [%lld, %lld, %lld]",
                     (long long)sizes[0], (long long)sizes[1], (long long)sizes[2]);
  if (d && d->dtype != a->dtype)
    return call_fail(cx, "Input dtypes must be the same, got: input: %s, batch1: %s, batch2: %s",
                     dtype_c_name(d->dtype), dtype_c_name(a->dtype), dtype_c_name(b->dtype));
  rush_tensor *c = NULL;
  TRY(tensor_new(cx, a->dtype, 3, sizes, &c));
  g->dtype = a->dtype;
  g->m = sizes[1];
  g->n = sizes[2];
  g->k = a->sizes[2];
  g->a = matrix_of(a);
  g->b = matrix_of(b);
  g->c = c->data;
  g->c_rs = g->n;
  g->c_cs = 1;
  if (d)
    g->d = (gemm_matrix){d->data, strides[1], strides[2]};
  rush_status st =
    gemm_batch(cx, g, sizes[0], a->strides[0], b->strides[0], strides[0], g->m * g->n);
  if (st != RUSH_OK) {
    tensor_release(c);
    return st;
  }
  *out = c;
  return RUSH_OK;
}

rush_status kernel_bmm(rush_call *c)
{
  gemm_args g = {.alpha = 1.0};
  rush_tensor *out = NULL;
  TRY(check_bmm(c->cx, call_tensor(c, 0), call_tensor(c, 1)));
  TRY(make_bmm(c->cx, &g, call_tensor(c, 0), call_tensor(c, 1), NULL, &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}

rush_status kernel_baddbmm(rush_call *c)
{
  gemm_args g = {0};
  rush_tensor *out = NULL;
  TRY(check_bmm(c->cx, call_tensor(c, 1), call_tensor(c, 2)));
  set_scalars(&g, c->args[3], c->args[4]);
  TRY(make_bmm(c->cx, &g, call_tensor(c, 1), call_tensor(c, 2), call_tensor(c, 0), &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}

/* beta * self + alpha * the sum of the products */
rush_status kernel_addbmm(rush_call *c)
{
  const rush_tensor *self = call_tensor(c, 0), *a = call_tensor(c, 1), *b = call_tensor(c, 2);
  gemm_args g = {0};
  int64_t strides[2];
  TRY(check_bmm(c->cx, a, b));
  const int64_t sizes[2] = {a->sizes[1], b->sizes[2]};
  if (!expand_strides(self, 2, sizes, strides))
    return call_fail(c->cx, "The size of self does not fit the product [%lld, %lld]",
                     (long long)sizes[0], (long long)sizes[1]);
  if (self->dtype != a->dtype)
    return call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(self->dtype),
                     dtype_aten_name(a->dtype));
  rush_tensor *out = NULL;
  TRY(tensor_new(c->cx, a->dtype, 2, sizes, &out));
  set_scalars(&g, c->args[3], c->args[4]);
  g.dtype = a->dtype;
  g.m = sizes[0];
  g.n = sizes[1];
  g.a = matrix_of(a);
  g.b = matrix_of(b);
  g.d = (gemm_matrix){self->data, strides[0], strides[1]};
  g.c = out->data;
  g.c_rs = g.n;
  g.c_cs = 1;
  rush_status st = a->sizes[0] == 0 ? gemm(c->cx, &g) : RUSH_OK; /* k is 0: beta * self */
  const int64_t item = (int64_t)tensor_item_bytes(a);
  g.k = a->sizes[2];
  for (int64_t i = 0; i < a->sizes[0] && st == RUSH_OK; i++) {
    st = gemm(c->cx, &g);
    g.a.data = (const char *)g.a.data + a->strides[0] * item;
    g.b.data = (const char *)g.b.data + b->strides[0] * item;
    g.d = (gemm_matrix){out->data, g.n, 1};
    g.beta = 1.0;
    g.beta_im = 0.0;
  }
  call_return_steal(c, 0, out); /* released by the path on failure */
  return st;
}

/* -- Vectors ----------------------------------------------------------------------------------- */

static rush_status make_mv(rush_call *c, const rush_tensor *d, const rush_tensor *a,
                           const rush_tensor *x, gemm_args *g)
{
  if (a->n_dims != 2 || x->n_dims != 1)
    return call_fail(c->cx, "vector + matrix @ vector expected, got %d, %d, %d", d ? d->n_dims : 1,
                     a->n_dims, x->n_dims);
  if (a->sizes[1] != x->sizes[0] || (d && d->n_elems != 1 && d->sizes[0] != a->sizes[0]))
    return call_fail(c->cx, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                     (long long)(d && d->n_dims ? d->sizes[0] : a->sizes[0]),
                     (long long)a->sizes[0], (long long)a->sizes[1], (long long)x->sizes[0]);
  if (a->dtype != x->dtype || (d && d->dtype != a->dtype))
    return call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(a->dtype),
                     dtype_aten_name(x->dtype));
  TRY(check_dtype(c->cx, a->dtype, "addmv_impl_cpu"));
  rush_tensor *out = NULL;
  TRY(tensor_new(c->cx, a->dtype, 1, a->sizes, &out));
  g->dtype = a->dtype;
  g->m = a->sizes[0];
  g->n = 1;
  g->k = a->sizes[1];
  g->a = matrix_of(a);
  g->b = (gemm_matrix){x->data, x->strides[0], 1};
  if (d)
    g->d = (gemm_matrix){d->data, d->n_elems == 1 ? 0 : d->strides[0], 0};
  g->c = out->data;
  g->c_rs = g->c_cs = 1;
  call_return_steal(c, 0, out);
  return gemm(c->cx, g);
}

rush_status kernel_mv(rush_call *c)
{
  gemm_args g = {.alpha = 1.0};
  return make_mv(c, NULL, call_tensor(c, 0), call_tensor(c, 1), &g);
}

rush_status kernel_addmv(rush_call *c)
{
  gemm_args g = {0};
  set_scalars(&g, c->args[3], c->args[4]);
  return make_mv(c, call_tensor(c, 0), call_tensor(c, 1), call_tensor(c, 2), &g);
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

static rush_status make_dot(rush_call *c, bool conjugate)
{
  const rush_tensor *x = call_tensor(c, 0), *y = call_tensor(c, 1);
  if (x->n_dims != 1 || y->n_dims != 1)
    return call_fail(c->cx, "1D tensors expected, but got %dD and %dD tensors", x->n_dims,
                     y->n_dims);
  if (x->dtype != y->dtype)
    return call_fail(c->cx, "dot : expected both vectors to have same dtype, but found %s and %s",
                     dtype_aten_name(x->dtype), dtype_aten_name(y->dtype));
  if (x->n_elems != y->n_elems)
    return call_fail(
      c->cx,
      "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of "
      "elements, but got %lld and %lld elements respectively",
      (long long)x->n_elems, (long long)y->n_elems, (long long)x->n_elems, (long long)y->n_elems);
  TRY(check_dtype(c->cx, x->dtype, "dot"));
  rush_tensor *out = NULL;
  TRY(tensor_new(c->cx, x->dtype, 0, NULL, &out));
  call_return_steal(c, 0, out);
  if (dtype_is_float(x->dtype))
    return dot_floats(c, x, y, out->data);
  gemm_args g = {.dtype = x->dtype,
                 .m = 1,
                 .n = 1,
                 .k = x->n_elems,
                 .alpha = 1.0,
                 .a = {x->data, 0, x->strides[0]},
                 .b = {y->data, y->strides[0], 0},
                 .c = out->data,
                 .c_rs = 1,
                 .c_cs = 1,
                 .conj_a = conjugate};
  return gemm(c->cx, &g);
}

rush_status kernel_dot(rush_call *c) { return make_dot(c, false); }
rush_status kernel_vdot(rush_call *c) { return make_dot(c, true); }

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

/* Compute the shape of a matmul: batch sizes broadcast, then m and n if the operand has them. */
static rush_status matmul_shape(call_ctx *cx, const rush_tensor *a, const rush_tensor *b, stacks *s,
                                int *n_dims, int64_t *sizes)
{
  const int na = a->n_dims > 2 ? a->n_dims - 2 : 0, nb = b->n_dims > 2 ? b->n_dims - 2 : 0;
  if (!sizes_broadcast(na, a->sizes, nb, b->sizes, &s->n, s->sizes)) {
    const int at = na < nb ? na : nb;
    for (int i = 1; i <= at; i++)
      if (a->sizes[na - i] != b->sizes[nb - i] && a->sizes[na - i] != 1 && b->sizes[nb - i] != 1)
        return call_fail(cx,
                         "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                         "non-singleton dimension %d",
                         (long long)a->sizes[na - i], (long long)b->sizes[nb - i],
                         (na > nb ? na : nb) - i);
    return call_fail(cx, "The sizes of the batches do not fit");
  }
  for (int i = 0; i < s->n; i++) {
    const int ia = i - (s->n - na), ib = i - (s->n - nb);
    s->a[i] = ia >= 0 && a->sizes[ia] != 1 ? a->strides[ia] : 0;
    s->b[i] = ib >= 0 && b->sizes[ib] != 1 ? b->strides[ib] : 0;
    sizes[i] = s->sizes[i];
  }
  *n_dims = s->n;
  if (a->n_dims > 1)
    sizes[(*n_dims)++] = a->sizes[a->n_dims - 2];
  if (b->n_dims > 1)
    sizes[(*n_dims)++] = b->sizes[b->n_dims - 1];
  return RUSH_OK;
}

static rush_status make_matmul(call_ctx *cx, const rush_tensor *a, const rush_tensor *b,
                               rush_tensor **out)
{
  gemm_args g = {.dtype = a->dtype, .alpha = 1.0};
  stacks s = {0};
  int n_dims = 0;
  int64_t sizes[TENSOR_MAX_DIMS + 2];
  g.m = a->n_dims > 1 ? a->sizes[a->n_dims - 2] : 1;
  g.k = a->sizes[a->n_dims - 1];
  g.n = b->n_dims > 1 ? b->sizes[b->n_dims - 1] : 1;
  const int64_t k = b->n_dims > 1 ? b->sizes[b->n_dims - 2] : b->sizes[0];
  if (g.k != k) {
    if (a->n_dims > 2 && b->n_dims > 2)
      return call_fail(cx,
                       "Expected size for first two dimensions of batch2 tensor to be: [%lld, "
                       "%lld] but got: [%lld, %lld].",
                       (long long)(a->n_elems / i64_max(1, g.m * g.k)), (long long)g.k,
                       (long long)(b->n_elems / i64_max(1, k * g.n)), (long long)k);
    if (a->n_dims == 1 || b->n_dims == 1)
      return call_fail(cx, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                       (long long)g.m, (long long)g.m, (long long)g.k, (long long)k);
    const int64_t rows = b->n_dims == 2 ? a->n_elems / i64_max(1, g.k) : g.m;
    return call_fail(cx, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                     (long long)rows, (long long)g.k, (long long)k, (long long)g.n);
  }
  TRY(matmul_shape(cx, a, b, &s, &n_dims, sizes));
  g.a = a->n_dims > 1 ? matrix_of(a) : (gemm_matrix){a->data, 0, a->strides[0]};
  g.b = b->n_dims > 1 ? matrix_of(b) : (gemm_matrix){b->data, b->strides[0], 1};
  rush_tensor *c = NULL;
  TRY(tensor_new(cx, a->dtype, n_dims, sizes, &c));
  g.c = c->data;
  g.c_rs = g.n;
  g.c_cs = 1;
  rush_status st = c->n_elems ? run_stacks(cx, &g, &s) : RUSH_OK;
  if (st != RUSH_OK) {
    tensor_release(c);
    return st;
  }
  *out = c;
  return RUSH_OK;
}

rush_status kernel_matmul(rush_call *c)
{
  const rush_tensor *a = call_tensor(c, 0), *b = call_tensor(c, 1);
  if (a->n_dims == 0 || b->n_dims == 0)
    return call_fail(c->cx,
                     "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                     a->n_dims, b->n_dims);
  if (a->n_dims == 1 && b->n_dims == 1)
    return make_dot(c, false);
  if (a->dtype != b->dtype && a->n_dims < 3 && b->n_dims < 3)
    TRY(check_same(c->cx, a, b));
  if (a->dtype != b->dtype)
    return call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(a->dtype),
                     dtype_aten_name(b->dtype));
  TRY(check_dtype(c->cx, a->dtype, a->n_dims > 2 && b->n_dims > 2 ? "bmm" : "addmm_impl_cpu_"));
  rush_tensor *out = NULL;
  TRY(make_matmul(c->cx, a, b, &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
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

static rush_status check_linear(call_ctx *cx, const rush_tensor *x, const rush_tensor *w,
                                const rush_tensor *bias)
{
  if (x->n_dims == 0 || w->n_dims == 0 || w->n_dims > 2)
    return call_fail(cx,
                     "both arguments to linear need to be at least 1D, but they are %dD and %dD",
                     x->n_dims, w->n_dims);
  const int64_t k = x->sizes[x->n_dims - 1], rows = k ? x->n_elems / k : 0;
  if (w->sizes[w->n_dims - 1] != k)
    return call_fail(cx, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                     (long long)rows, (long long)k, (long long)w->sizes[w->n_dims - 1],
                     (long long)(w->n_dims > 1 ? w->sizes[0] : 1));
  if (x->dtype != w->dtype)
    return call_fail(cx, "mat1 and mat2 must have the same dtype, but got %s and %s",
                     dtype_aten_name(x->dtype), dtype_aten_name(w->dtype));
  if (bias && bias->dtype != x->dtype)
    return call_fail(cx, "self and mat2 must have the same dtype, but got %s and %s",
                     dtype_aten_name(bias->dtype), dtype_aten_name(w->dtype));
  if (bias && (bias->n_dims > 1 ||
               (bias->n_elems != 1 && bias->n_elems != (w->n_dims > 1 ? w->sizes[0] : 1))))
    return call_fail(
      cx,
      "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
      "dimension 1.",
      (long long)(w->n_dims > 1 ? w->sizes[0] : 1), (long long)bias->n_elems);
  return check_dtype(cx, x->dtype, "addmm_impl_cpu_");
}

rush_status make_linear(call_ctx *cx, rush_tensor *input, const rush_tensor *w,
                        const rush_tensor *bias, rush_tensor **out)
{
  rush_tensor *x = tensor_retain(input), *y = NULL;
  gemm_args g = {.alpha = 1.0, .beta = 1.0};
  int64_t stride, sizes[TENSOR_MAX_DIMS];
  rush_status st = check_linear(cx, x, w, bias);
  if (st == RUSH_OK && !rows_of(x, &g.m, &stride)) {
    tensor_release(x);
    st = tensor_contiguous(cx, input, &x);
    if (st != RUSH_OK)
      return st;
    rows_of(x, &g.m, &stride);
  }
  if (st == RUSH_OK) {
    memcpy(sizes, x->sizes, sizeof *sizes * x->n_dims);
    g.n = w->n_dims > 1 ? w->sizes[0] : 1;
    sizes[x->n_dims - 1] = g.n;
    st = tensor_new(cx, x->dtype, w->n_dims > 1 ? x->n_dims : x->n_dims - 1, sizes, &y);
  }
  if (st == RUSH_OK) {
    g.dtype = x->dtype;
    g.k = x->sizes[x->n_dims - 1];
    g.a = (gemm_matrix){x->data, stride, x->strides[x->n_dims - 1]};
    g.b = w->n_dims > 1 ? transposed(matrix_of(w)) : (gemm_matrix){w->data, w->strides[0], 0};
    if (bias)
      g.d = (gemm_matrix){bias->data, 0, bias->n_elems == 1 ? 0 : bias->strides[0]};
    g.c = y->data;
    g.c_rs = g.n;
    g.c_cs = 1;
    st = y->n_elems ? gemm_with_weight(cx, &g, w) : RUSH_OK;
  }
  tensor_release(x);
  if (st != RUSH_OK) {
    tensor_release(y);
    return st;
  }
  *out = y;
  return RUSH_OK;
}

rush_status kernel_linear(rush_call *c)
{
  rush_tensor *out = NULL;
  TRY(make_linear(c->cx, call_tensor(c, 0), call_tensor(c, 1), call_tensor(c, 2), &out));
  call_return_steal(c, 0, out);
  return RUSH_OK;
}
