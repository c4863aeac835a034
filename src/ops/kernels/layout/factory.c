/* ops/kernels/layout/factory.c -- operators that make tensors: empty, zeros, full, *_like, new_*,
 * fill_, arange, linspace, eye, triangles, and tensors from numbers and lists. Shape rules read the
 * options dtype, layout and device and make the results; the kernels fill them. Ranges are computed
 * in double a block at a time and rounded once, as in PyTorch; arange of ints has integer
 * arithmetic of its own, since a double loses bits above 2^53. */
#include "ops/kernels/layout/factory.h"

#include <math.h>
#include <stdio.h>

/* -- Options ----------------------------------------------------------------------------------- */

rush_status check_device(call_ctx *cx, rush_value device)
{
  if (device.tag != RUSH_TAG_DEVICE)
    return RUSH_OK;
  int64_t kind = device.as.i >> 32;
  if (kind == 0)
    return RUSH_OK;
  if (kind == 1)
    return call_fail_type(cx, "AssertionError",
                          "Torch not compiled with CUDA enabled: device 'cuda' is not "
                          "available, only 'cpu' is");
  return call_unsupported(cx, "device of kind %lld: only 'cpu' is available", (long long)kind);
}

rush_status check_dtype(call_ctx *cx, int64_t dtype)
{
  if (!dtype_is_valid(dtype))
    return call_fail(cx, "there is no dtype %lld", (long long)dtype);
  return RUSH_OK;
}

rush_status check_overflow(call_ctx *cx, rush_value v, int dtype)
{
  static const struct { int16_t dtype; const char *name; double lo, hi; } limits[] = {
    {RUSH_UINT8, "uint8_t", -255, 255}, /* in PyTorch negative numbers wrap */
    {RUSH_INT8, "int8_t", -128, 127},
    {RUSH_INT16, "int16_t", -32768, 32767},
    {RUSH_INT32, "int", -2147483648.0, 2147483647.0},
    {RUSH_INT64, "int64_t", -9223372036854775808.0, 9223372036854775808.0},
    {RUSH_UINT16, "uint16_t", -65535, 65535},
    {RUSH_UINT32, "uint32_t", -4294967295.0, 4294967295.0},
  };
  if (v.tag == RUSH_TAG_COMPLEX && !dtype_is_complex(dtype) && value_complex(v)->im != 0)
    return call_fail(cx, "value cannot be converted to type %s without overflow",
                     dtype == RUSH_FLOAT32 ? "float" : dtype_name(dtype));
  double d = number_as_double(v);
  for (size_t i = 0; i < COUNT_OF(limits); i++)
    if (limits[i].dtype == dtype && !(d >= limits[i].lo && d <= limits[i].hi))
      return call_fail(cx, "value cannot be converted to type %s without overflow", limits[i].name);
  return RUSH_OK;
}

/* -- Filling: the results of zeros, full, *_like, new_* ... are there, by shape rule ----------- */

static rush_status fill(rush_call *c, rush_tensor *t, rush_value v)
{
  TRY(check_overflow(c->cx, v, t->dtype));
  return tensor_fill(c->cx, t, v);
}

rush_kernel kernel_zeros, kernel_ones, kernel_full, kernel_scalar_tensor, kernel_fill_tensor;
rush_status kernel_zeros(rush_call *c) { return fill(c, call_out(c, 0), value_int(0)); }
rush_status kernel_ones(rush_call *c) { return fill(c, call_out(c, 0), value_int(1)); }
/* The number is argument 1, or 2 if sizes come before it (new_full). */
rush_status kernel_full(rush_call *c)
{
  return fill(c, call_out(c, 0), c->args[call_list(c, 1) ? 2 : 1]);
}
rush_status kernel_scalar_tensor(rush_call *c) { return fill(c, call_out(c, 0), c->args[0]); }

static rush_status fill_from_tensor(rush_call *c, rush_tensor *t)
{
  const rush_tensor *value = call_tensor(c, 1);
  rush_value v;
  if (value->n_dims != 0)
    return call_fail(c->cx, "fill_ only supports 0-dimension value tensor but got tensor with %d "
                            "dimensions.", value->n_dims);
  TRY(tensor_get(c->cx, value, 0, &v));
  rush_status s = fill(c, t, v);
  value_release(v);
  return s;
}
rush_status kernel_fill_tensor(rush_call *c) { return fill_from_tensor(c, call_out(c, 0)); }

rush_kernel kernel_fill_inplace, kernel_fill_tensor_inplace, kernel_zero_inplace;
rush_status kernel_fill_inplace(rush_call *c)
{
  TRY(fill(c, call_tensor(c, 0), c->args[1]));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}
rush_status kernel_fill_tensor_inplace(rush_call *c)
{
  TRY(fill_from_tensor(c, call_tensor(c, 0)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}
rush_status kernel_zero_inplace(rush_call *c)
{
  TRY(fill(c, call_tensor(c, 0), value_int(0)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

/* -- Ranges ------------------------------------------------------------------------------------ */

/* True for dtypes that few of PyTorch's factories support. */
static bool is_rare(int dtype)
{
  return (dtype >= RUSH_FLOAT8_E5M2 && dtype <= RUSH_UINT64) || dtype == RUSH_COMPLEX32;
}

/* Compute the 1-d result in double, rounded once; without a function: p[0] + p[1] * i. */
typedef double range_fn(const double *p, int64_t i);

static rush_status fill_range(rush_call *c, range_fn *fn, const double *p)
{
  const rush_tensor *t = call_out(c, 0);
  const int64_t n = t->n_elems;
  double block[256];
  const char *name = strrchr(c->op->schema->name, ':') + 1;
  if (n > 0 && (t->dtype == RUSH_BOOL || (is_rare(t->dtype) && strcmp(name, "linspace") != 0) ||
                (!fn && dtype_is_complex(t->dtype)))) {
    char kernel[64];
    snprintf(kernel, sizeof kernel, "%s_cpu", name);
    return call_no_dtype(c->cx, kernel, t->dtype);
  }
  size_t item = tensor_item_bytes(t);
  for (int64_t at = 0; at < n && !call_over_at(c->cx, at / 256); at += 256) {
    int64_t m = i64_min(256, n - at);
    if (!fn)
      for (int i = 0; i < 256; i++) /* exact below 2^53 */
        block[i] = p[0] + p[1] * ((double)at + i);
    else
      for (int64_t i = 0; i < m; i++)
        block[i] = fn(p, at + i);
    convert_elems(t->dtype, (char *)t->data + (size_t)at * item, RUSH_FLOAT64, block, m);
  }
  return RUSH_OK;
}

static bool is_int_scalar(rush_value v) { return v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_BOOL; }

static rush_status arange_ints(rush_call *c, int64_t start, int64_t step)
{
  const rush_tensor *t = call_out(c, 0);
  uint64_t block[256]; /* of a size the compiler knows: it vectorises */
  for (int i = 0; i < 256; i++)
    block[i] = (uint64_t)start + (uint64_t)step * (uint64_t)i;
  for (int64_t at = 0; at < t->n_elems && !call_over_at(c->cx, at / 256); at += 256) {
    memcpy((int64_t *)t->data + at, block, sizeof *block * (size_t)i64_min(256, t->n_elems - at));
    for (int i = 0; i < 256; i++)
      block[i] += (uint64_t)step * 256;
  }
  return RUSH_OK;
}

static rush_status arange(rush_call *c, rush_value start, rush_value step)
{
  const int dtype = call_out(c, 0)->dtype;
  double p[2] = {number_as_double(start), number_as_double(step)};
  if (dtype == RUSH_INT64 && is_int_scalar(start) && is_int_scalar(step))
    return arange_ints(c, start.as.i, step.as.i);
  if (dtype_is_integral(dtype))
    p[0] = trunc(p[0]), p[1] = trunc(p[1]);
  return fill_range(c, NULL, p);
}

rush_kernel kernel_arange, kernel_arange_start, kernel_arange_step, kernel_range, kernel_range_step;
rush_status kernel_arange(rush_call *c) { return arange(c, value_int(0), value_int(1)); }
rush_status kernel_arange_start(rush_call *c) { return arange(c, c->args[0], value_int(1)); }
rush_status kernel_arange_step(rush_call *c) { return arange(c, c->args[0], c->args[2]); }
rush_status kernel_range(rush_call *c)
{
  return fill_range(c, NULL, (double[]){call_float(c, 0), 1});
}
rush_status kernel_range_step(rush_call *c)
{
  return fill_range(c, NULL, (double[]){call_float(c, 0), call_float(c, 2)});
}

/* p: start, end, step, number of steps, base. */
static double linspace_at(const double *p, int64_t i)
{
  int64_t n = (int64_t)p[3];
  if (n == 1)
    return p[0];
  return i < n / 2 ? p[0] + p[2] * (double)i : p[1] - p[2] * (double)(n - i - 1);
}
static double logspace_at(const double *p, int64_t i) { return pow(p[4], linspace_at(p, i)); }

/* Read a bound: a number or a 0-dim tensor. */
static rush_status bound(rush_call *c, uint32_t i, double *re, double *im)
{
  rush_value v = c->args[i];
  if (v.tag == RUSH_TAG_TENSOR)
    TRY(tensor_get(c->cx, call_tensor(c, i), 0, &v));
  else
    value_retain(v);
  *re = number_as_double(v);
  *im = v.tag == RUSH_TAG_COMPLEX ? value_complex(v)->im : 0;
  value_release(v);
  return RUSH_OK;
}

/* Fill a complex result; p and q as linspace_at has them, of real and imaginary parts.  logspace is
 * base to that power. */
static rush_status spaced_complex(rush_call *c, double *p, double *q, range_fn *fn)
{
  const int64_t n = call_out(c, 0)->n_elems;
  rush_tensor *wide;
  p[2] = (p[1] - p[0]) / (p[3] - 1);
  q[2] = (q[1] - q[0]) / (q[3] - 1);
  TRY(tensor_new(c->cx, RUSH_COMPLEX128, 1, &n, &wide));
  double *d = wide->data;
  for (int64_t i = 0; i < n && !call_over_at(c->cx, i); i++) {
    double re = linspace_at(p, i), im = linspace_at(q, i);
    if (fn != linspace_at) {
      double size = pow(p[4], re), angle = im * log(p[4]);
      re = size * cos(angle);
      im = size * sin(angle);
    }
    d[2 * i] = re;
    d[2 * i + 1] = im;
  }
  rush_status s = tensor_copy(c->cx, call_out(c, 0), wide);
  tensor_release(wide);
  return s;
}

static rush_status spaced(rush_call *c, double base, range_fn *fn)
{
  const int dtype = call_out(c, 0)->dtype;
  double p[5] = {0, 0, 0, (double)call_int(c, 2), base}, q[5] = {0, 0, 0, p[3], base};
  TRY(bound(c, 0, &p[0], &q[0]));
  TRY(bound(c, 1, &p[1], &q[1]));
  if (dtype_is_complex(dtype))
    return spaced_complex(c, p, q, fn);
  if (dtype_is_integral(dtype))
    p[0] = trunc(p[0]), p[1] = trunc(p[1]);
  if (dtype == RUSH_FLOAT32 && fn == linspace_at) /* PyTorch computes the step in the dtype */
    p[2] = ((float)p[1] - (float)p[0]) / (float)(p[3] - 1);
  else
    p[2] = (p[1] - p[0]) / (p[3] - 1);
  return fill_range(c, fn, p);
}
rush_kernel kernel_linspace, kernel_logspace;
rush_status kernel_linspace(rush_call *c) { return spaced(c, 0, linspace_at); }
rush_status kernel_logspace(rush_call *c) { return spaced(c, call_float(c, 3), logspace_at); }

/* -- Matrices ---------------------------------------------------------------------------------- */

rush_kernel kernel_eye, kernel_tril_indices, kernel_triu_indices;
rush_status kernel_eye(rush_call *c)
{
  rush_tensor *t = call_out(c, 0);
  if ((t->dtype >= RUSH_UINT16 && t->dtype <= RUSH_UINT64) || t->dtype == RUSH_COMPLEX32)
    return call_no_dtype(c->cx, "eye", t->dtype);
  TRY(tensor_fill(c->cx, t, value_int(0)));
  const int64_t m = t->sizes[1];
  for (int64_t i = 0; i < i64_min(t->sizes[0], m) && !call_over_at(c->cx, i); i++)
    tensor_set(t, i * m + i, value_int(1));
  return RUSH_OK;
}

static rush_status triangle_indices(rush_call *c, bool lower)
{
  rush_tensor *t = call_out(c, 0);
  const int64_t rows = call_int(c, 0), columns = call_int(c, 1), n = t->sizes[1],
                offset = i64_min(i64_max(call_int(c, 2), -rows), columns);
  if (t->dtype != RUSH_INT64 && t->dtype != RUSH_INT32)
    return call_no_dtype(c->cx, lower ? "tril_indices" : "triu_indices", t->dtype);
  for (int64_t r = 0, at = 0; r < rows && at < n && !call_over_at(c->cx, r); r++) {
    int64_t low = i64_min(i64_max(r + offset + (lower ? 1 : 0), 0), columns);
    for (int64_t k = lower ? 0 : low; k < (lower ? low : columns); k++, at++) {
      if (call_over_at(c->cx, at))
        break;
      tensor_set(t, at, value_int(r));
      tensor_set(t, n + at, value_int(k));
    }
  }
  return RUSH_OK;
}
rush_status kernel_tril_indices(rush_call *c) { return triangle_indices(c, true); }
rush_status kernel_triu_indices(rush_call *c) { return triangle_indices(c, false); }

/* Set the other side of the diagonal to zero. */
static rush_status triangle(rush_call *c, bool lower)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *r = call_out(c, 0);
  int64_t offset = call_int(c, 1);
  if (r != t)
    TRY(tensor_copy(c->cx, r, t));
  int64_t rows = t->sizes[t->n_dims - 2], columns = t->sizes[t->n_dims - 1];
  size_t item = tensor_item_bytes(r);
  offset = i64_min(i64_max(offset, -rows - 1), columns);
  int64_t all = r->n_elems ? r->n_elems / columns : 0;
  for (int64_t i = 0; i < all; i++) {
    if ((columns > POLL_STEPS || i % 64 == 63) && call_over(c->cx))
      break;
    int64_t row = i % rows;
    int64_t cut = i64_min(i64_max(row + offset + (lower ? 1 : 0), 0), columns);
    char *p = (char *)r->data + (size_t)(i * columns) * item;
    if (lower)
      memset(p + (size_t)cut * item, 0, (size_t)(columns - cut) * item);
    else
      memset(p, 0, (size_t)cut * item);
  }
  return RUSH_OK;
}
rush_kernel kernel_tril, kernel_triu;
rush_status kernel_tril(rush_call *c) { return triangle(c, true); }
rush_status kernel_triu(rush_call *c) { return triangle(c, false); }

/* -- From numbers ------------------------------------------------------------------------------ */

rush_kernel kernel_num_to_tensor, kernel_tensor_number, kernel_tensor_list;
rush_status kernel_num_to_tensor(rush_call *c)
{
  tensor_set(call_out(c, 0), 0, c->args[0]);
  return RUSH_OK;
}

/* Set requires_grad on result 0 as argument 3 says, if there is one. */
static rush_status set_requires_grad(rush_call *c)
{
  rush_tensor *t = call_out(c, 0);
  if (c->n_args <= 3 || !call_bool(c, 3))
    return RUSH_OK;
  if (dtype_class_of(t->dtype) < DTYPE_FLOAT)
    return call_fail(c->cx,
                     "Only Tensors of floating point and complex dtype can require gradients");
  t->h.flags |= TENSOR_REQUIRES_GRAD;
  return RUSH_OK;
}

rush_status kernel_tensor_number(rush_call *c)
{
  tensor_set(call_out(c, 0), 0, c->args[0]);
  return set_requires_grad(c);
}

static rush_status store_list(rush_call *c, rush_tensor *t, const rush_list *l, int dim,
                              int64_t *at)
{
  if ((int64_t)l->n != t->sizes[dim])
    return call_fail_type(c->cx, "ValueError",
                          "Expected sequence of length %lld at dim %d (got %zu)",
                          (long long)t->sizes[dim], dim, l->n);
  for (size_t i = 0; i < l->n; i++) {
    rush_value v = l->items[i];
    if (dim + 1 < t->n_dims) {
      if (v.tag != RUSH_TAG_LIST)
        return call_fail(c->cx, "Expected a nested list at dim %d", dim);
      TRY(store_list(c, t, v.as.list, dim + 1, at));
    } else if (v.tag >= RUSH_TAG_BOOL && v.tag <= RUSH_TAG_COMPLEX) {
      TRY(call_poll_at(c->cx, *at));
      tensor_set(t, (*at)++, v);
    } else {
      return call_fail(c->cx, "Input must be of ints, floats, or bools, got %s",
                       v.tag == RUSH_TAG_STRING   ? "str"
                       : v.tag == RUSH_TAG_TENSOR ? "Tensor"
                                                  : "another type");
    }
  }
  return RUSH_OK;
}

rush_status kernel_tensor_list(rush_call *c)
{
  int64_t at = 0;
  TRY(set_requires_grad(c));
  return store_list(c, call_out(c, 0), call_list(c, 0), 0, &at);
}
