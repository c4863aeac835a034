/* ops/kernels/layout/meta.c -- operators on properties of tensors: sizes, strides, flags, dtypes,
 * promotion, single elements, assertions, equality. Most are one line of a macro. allclose and
 * equal stop at the first difference; they compare in the precision that PyTorch uses for the
 * dtype, since that decides borderline cases. */
#include <math.h>

#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nested/nested.h"
#include "tensor/iter.h"

#define ANSWER_INT(name, expr)            \
  rush_kernel kernel_##name;              \
  rush_status kernel_##name(rush_call *c) \
  {                                       \
    const rush_tensor *t = call_tensor(c, 0); \
    (void)t;                              \
    c->results[0] = value_int(expr);      \
    return RUSH_OK;                       \
  }
#define ANSWER_BOOL(name, expr)           \
  rush_kernel kernel_##name;              \
  rush_status kernel_##name(rush_call *c) \
  {                                       \
    const rush_tensor *t = call_tensor(c, 0); \
    (void)t;                              \
    c->results[0] = value_bool(expr);     \
    return RUSH_OK;                       \
  }

ANSWER_INT(dim, t->n_dims + (tensor_nested(t) != NULL))
ANSWER_INT(numel, t->n_elems)
ANSWER_INT(element_size, (int64_t)tensor_item_bytes(t))
ANSWER_INT(nbytes, (int64_t)tensor_item_bytes(t) * t->n_elems)
ANSWER_INT(storage_offset, t->offset)
ANSWER_INT(dtype_of, t->dtype)
ANSWER_INT(zero_int, 0)
ANSWER_INT(minus_one, -1)
ANSWER_INT(version, (int64_t)atomic_load_explicit(&t->st->version, memory_order_relaxed))
ANSWER_BOOL(is_floating_point, dtype_is_float(t->dtype))
ANSWER_BOOL(is_complex, dtype_is_complex(t->dtype))
ANSWER_BOOL(is_signed, dtype_is_signed(t->dtype))
ANSWER_BOOL(is_contiguous, tensor_is_contiguous(t))
ANSWER_BOOL(is_dense, tensor_is_dense(t))
ANSWER_BOOL(is_quantized, dtype_class_of(t->dtype) == DTYPE_QUANT)
ANSWER_BOOL(is_nested, tensor_nested(t) != NULL)
ANSWER_BOOL(requires_grad_of, tensor_requires_grad(t))
ANSWER_BOOL(is_leaf, !(t->h.flags & TENSOR_HAS_GRAD_FN))
ANSWER_BOOL(false, false)
ANSWER_BOOL(true, true)
ANSWER_BOOL(is_set_to, t->st == call_tensor(c, 1)->st && t->data == call_tensor(c, 1)->data &&
                         tensor_same_geometry(t, call_tensor(c, 1)))
ANSWER_BOOL(can_cast, dtype_can_cast((int)call_int(c, 0), (int)call_int(c, 1)))

static bool same_sizes(const rush_tensor *a, const rush_tensor *b)
{
  return a->n_dims == b->n_dims && !memcmp(a->sizes, b->sizes, a->n_dims * sizeof *a->sizes);
}
ANSWER_BOOL(is_same_size, same_sizes(t, call_tensor(c, 1)))

/* Only a recording call can run these. */
rush_kernel kernel_gradient_op;
rush_status kernel_gradient_op(rush_call *c)
{
  if (c->cx->recorder)
    return c->cx->recorder->call_gradient_op(c);
  if (strcmp(c->op->schema->name, "prim::grad") == 0 && !call_tensor(c, 0)->extra)
    return RUSH_OK;
  return call_unsupported(c->cx, "%s in a call that records no gradients (record_gradients)",
                          c->op->schema->name);
}

rush_kernel kernel_size, kernel_size_int, kernel_stride, kernel_stride_int, kernel_len,
    kernel_is_contiguous_format, kernel_device, kernel_none, kernel_nothing;
rush_status kernel_size(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  return list_of_ints(c->cx, t->sizes, t->n_dims, &c->results[0]);
}

rush_status kernel_stride(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  return list_of_ints(c->cx, t->strides, t->n_dims, &c->results[0]);
}

static rush_status answer_dim(rush_call *c, const int64_t *v)
{
  const rush_tensor *t = call_tensor(c, 0);
  int d;
  if (t->n_dims == 0)
    return call_fail_type(c->cx, "IndexError",
                          "Dimension specified as %lld but tensor has no dimensions",
                          (long long)call_int(c, 1));
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims, &d));
  c->results[0] = value_int(v[d]);
  return RUSH_OK;
}
/* A nested tensor has the number of parts, then a size that differs, then those of its rows. */
rush_status kernel_size_int(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int d;
  if (!tensor_nested(t))
    return answer_dim(c, t->sizes);
  TRY(dim_wrap(c->cx, call_int(c, 1), t->n_dims + 1, &d));
  if (d == 1)
    return call_fail(c->cx, "Given dimension 1 is irregular and does not have a size.");
  c->results[0] = value_int(d == 0 ? tensor_nested(t)->sizes[0] : t->sizes[d - 1]);
  return RUSH_OK;
}
rush_status kernel_stride_int(rush_call *c) { return answer_dim(c, call_tensor(c, 0)->strides); }

rush_status kernel_len(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (t->n_dims == 0)
    return call_fail(c->cx, "len() of a 0-d tensor");
  c->results[0] = value_int(t->sizes[0]);
  return RUSH_OK;
}

rush_status kernel_is_contiguous_format(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t f = call_int(c, 1);
  bool last = tensor_is_channels_last(t) && t->n_dims == (f == FORMAT_CHANNELS_LAST ? 4 : 5);
  c->results[0] = value_bool(f <= FORMAT_PRESERVE ? tensor_is_contiguous(t) : last);
  return RUSH_OK;
}

rush_status kernel_device(rush_call *c)
{
  c->results[0] = value_device(0, -1);
  return RUSH_OK;
}

/* Return nothing: prim::grad, prim::name. */
rush_status kernel_none(rush_call *c)
{
  c->results[0] = value_none();
  return RUSH_OK;
}

rush_status kernel_nothing(rush_call *c)
{
  (void)c;
  return RUSH_OK;
}

/* -- Elements ---------------------------------------------------------------------------------- */

rush_kernel kernel_item, kernel_is_nonzero;
rush_status kernel_item(rush_call *c)
{
  return tensor_item(c->cx, call_tensor(c, 0), &c->results[0]);
}

rush_status kernel_is_nonzero(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  uint8_t b;
  if (t->n_elems != 1)
    return call_fail(c->cx, "Boolean value of Tensor with %s is ambiguous",
                     t->n_elems ? "more than one value" : "no values");
  convert_elems(RUSH_BOOL, &b, t->dtype, t->data, 1);
  c->results[0] = value_bool(b);
  return RUSH_OK;
}

rush_kernel kernel_assert_async, kernel_assert_async_msg, kernel_assert_scalar,
  kernel_assert_metadata;
static rush_status assert_tensor(rush_call *c, const char *message)
{
  TRY(kernel_is_nonzero(c));
  bool ok = c->results[0].as.b;
  c->results[0] = value_none();
  return ok ? RUSH_OK : call_fail(c->cx, "%s", message);
}
static rush_status with_results(rush_call *c, rush_status (*fn)(rush_call *, const char *),
                                const char *msg)
{
  rush_value slot = value_none(), *had = c->results;
  c->results = &slot; /* these operators have no result to hold the answer */
  rush_status s = fn(c, msg);
  c->results = had;
  return s;
}
rush_status kernel_assert_async(rush_call *c)
{
  return with_results(c, assert_tensor, "Expected Tensor with single nonzero value, but got zero");
}
rush_status kernel_assert_async_msg(rush_call *c)
{
  return with_results(c, assert_tensor, c->args[1].as.string->text);
}

rush_status kernel_assert_scalar(rush_call *c)
{
  rush_value v = c->args[0];
  bool ok = v.tag == RUSH_TAG_COMPLEX ? value_complex(v)->re != 0 || value_complex(v)->im != 0
                                      : number_as_double(v) != 0;
  return ok ? RUSH_OK : call_fail(c->cx, "%s", c->args[1].as.string->text);
}

rush_status kernel_assert_metadata(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  int64_t v[TENSOR_MAX_DIMS];
  sizes_text a, b;
  for (uint32_t k = 1; k <= 2; k++) {
    const int64_t *have = k == 1 ? t->sizes : t->strides;
    int n;
    if (call_is_none(c, k))
      continue;
    TRY(call_sizes(c, k, v, &n));
    if (n != t->n_dims || memcmp(v, have, (size_t)n * sizeof *v))
      return call_fail(c->cx, "Tensor %s mismatch! Expected: %s, Got: %s",
                       k == 1 ? "sizes" : "strides", sizes_print(&a, n, v),
                       sizes_print(&b, t->n_dims, have));
  }
  if (!call_is_none(c, 3) && call_int(c, 3) != t->dtype)
    return call_fail(c->cx, "Tensor dtype mismatch! Expected: %s, Got: %s",
                     dtype_aten_name((int)call_int(c, 3)), dtype_aten_name(t->dtype));
  return RUSH_OK;
}

/* -- Promotion --------------------------------------------------------------------------------- */

rush_kernel kernel_promote_types, kernel_result_type;
rush_status kernel_promote_types(rush_call *c)
{
  int d = dtype_promote((int)call_int(c, 0), (int)call_int(c, 1));
  if (d == DTYPE_NONE)
    return call_fail(c->cx, "Promotion of %s and %s is not supported",
                     dtype_aten_name((int)call_int(c, 0)), dtype_aten_name((int)call_int(c, 1)));
  c->results[0] = value_int(d);
  return RUSH_OK;
}

rush_status kernel_result_type(rush_call *c)
{
  promote_state p = PROMOTE_INIT_WITH(c->cx->default_dtype);
  for (uint32_t i = 0; i < 2; i++) {
    const rush_tensor *t = call_tensor(c, i);
    if (t)
      promote_add_tensor(&p, t->dtype, t->n_dims, t->h.flags & TENSOR_WRAPPED_NUMBER);
    else
      promote_add_scalar(&p, number_class(c->args[i]));
  }
  const int dtype = promote_result(&p);
  if (dtype == DTYPE_NONE)
    return call_fail(c->cx, "result_type: the arguments' dtypes have no common one");
  c->results[0] = value_int(dtype);
  return RUSH_OK;
}

/* -- Equality ---------------------------------------------------------------------------------- */

typedef struct close_arg {
  int dtype;
  bool is_complex, equal_nan;
  double rtol, atol;
  atomic_bool all;
} close_arg;

static bool is_close(const close_arg *a, double x, double y)
{
  if (x == y || (a->equal_nan && isnan(x) && isnan(y)))
    return true;
  if (a->dtype == RUSH_FLOAT32) { /* as PyTorch computes it */
    float diff = fabsf((float)x - (float)y),
          allowed = (float)a->atol + fabsf((float)a->rtol * (float)y);
    return isfinite(diff) && diff <= allowed && isfinite(y);
  }
  double diff = fabs(x - y);
  return isfinite(diff) && isfinite(y) && diff <= a->atol + fabs(a->rtol * y);
}

static bool is_close_complex(const close_arg *a, const double *x, const double *y)
{
  if (x[0] == y[0] && x[1] == y[1])
    return true;
  bool xn = isnan(x[0]) || isnan(x[1]), yn = isnan(y[0]) || isnan(y[1]);
  if (xn || yn)
    return a->equal_nan && xn && yn;
  double diff = hypot(x[0] - y[0], x[1] - y[1]);
  return isfinite(diff) && diff <= a->atol + a->rtol * hypot(y[0], y[1]);
}

static void loop_close(void *p, int64_t n, char *const *ptrs, const int64_t *strides)
{
  close_arg *a = p;
  int wide = a->is_complex ? RUSH_COMPLEX128 : RUSH_FLOAT64;
  for (int64_t i = 0; i < n; i++) {
    double x[2], y[2];
    convert_elems(wide, x, a->dtype, ptrs[1] + i * strides[1], 1);
    convert_elems(wide, y, a->dtype, ptrs[2] + i * strides[2], 1);
    bool close = a->is_complex ? is_close_complex(a, x, y) : is_close(a, x[0], y[0]);
    *(uint8_t *)(ptrs[0] + i * strides[0]) = close;
  }
}

rush_kernel kernel_isclose, kernel_equal;
rush_status kernel_isclose(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *y = call_tensor(c, 1), *r = call_out(c, 0);
  if (x->dtype != y->dtype)
    return call_fail(c->cx, "%s did not match %s", dtype_aten_name(x->dtype),
                     dtype_aten_name(y->dtype));
  close_arg a = {.dtype = x->dtype,
                 .is_complex = dtype_is_complex(x->dtype),
                 .equal_nan = call_bool(c, 4),
                 .rtol = call_float(c, 2),
                 .atol = call_float(c, 3)};
  if (a.rtol < 0 || a.atol < 0)
    return call_fail(c->cx, "%s must be greater than or equal to zero, but got %g",
                     a.rtol < 0 ? "rtol" : "atol", a.rtol < 0 ? a.rtol : a.atol);
  tensor_iter it;
  iter_init(&it, r->n_dims, r->sizes);
  iter_add(&it, r);
  iter_add(&it, x);
  iter_add(&it, y);
  iter_finish(&it);
  return iter_run(c->cx, &it, 8192, loop_close, &a);
}

static void loop_equal(void *p, int64_t n, char *const *ptrs, const int64_t *strides)
{
  close_arg *a = p;
  int64_t item = (int64_t)dtype_bytes(a->dtype);
  bool floats = dtype_class_of(a->dtype) >= DTYPE_FLOAT;
  for (int64_t i = 0; i < n && atomic_load_explicit(&a->all, memory_order_relaxed); i++) {
    const char *x = ptrs[0] + i * strides[0], *y = ptrs[1] + i * strides[1];
    double u[2] = {0, 0}, v[2] = {0, 0};
    bool same = false;
    if (floats) {
      convert_elems(a->is_complex ? RUSH_COMPLEX128 : RUSH_FLOAT64, u, a->dtype, x, 1);
      convert_elems(a->is_complex ? RUSH_COMPLEX128 : RUSH_FLOAT64, v, a->dtype, y, 1);
      same = u[0] == v[0] && u[1] == v[1];
    } else {
      same = memcmp(x, y, (size_t)item) == 0;
    }
    if (!same)
      atomic_store_explicit(&a->all, false, memory_order_relaxed);
  }
}

rush_status kernel_equal(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0), *y = call_tensor(c, 1);
  if (x->dtype != y->dtype)
    return call_fail(c->cx, "Expected all tensors to have the same dtype, but got %s and %s",
                     dtype_aten_name(x->dtype), dtype_aten_name(y->dtype));
  close_arg a = {.dtype = x->dtype, .is_complex = dtype_is_complex(x->dtype)};
  atomic_init(&a.all, same_sizes(x, y));
  if (atomic_load(&a.all)) {
    tensor_iter it;
    iter_init(&it, x->n_dims, x->sizes);
    iter_add(&it, x);
    iter_add(&it, y);
    iter_finish(&it);
    TRY(iter_run(c->cx, &it, 32768, loop_equal, &a));
  }
  c->results[0] = value_bool(atomic_load(&a.all));
  return RUSH_OK;
}
