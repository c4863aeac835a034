/* ops/kernels/layout/cast.c -- copies and conversions: to, clone, contiguous, copy_, set_,
 * resize_. */
#include "ops/kernels/layout/factory.h"
#include "ops/table/table.h"
#include "tensor/tensor.h"
#include "ops/call/written.h"
#include "tensor/sparse.h"
#include "tensor/iter.h"

/* Convert the values of a sparse tensor. */
static rush_status convert_sparse(rush_call *c, int64_t dtype, bool copy)
{
  rush_tensor *t = call_tensor(c, 0), *values, *r;
  TRY(check_dtype(c->cx, dtype));
  if (dtype == t->dtype && !copy) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (dtype == t->dtype)
    TRY(tensor_clone(c->cx, tensor_sparse(t)->values, &values));
  else
    TRY(tensor_to_dtype(c->cx, tensor_sparse(t)->values, (int)dtype, &values));
  rush_status st = sparse_with_values(c->cx, t, values, &r);
  tensor_release(values);
  TRY(st);
  if (dtype_class_of((int)dtype) >= DTYPE_FLOAT)
    r->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* Convert t to a dtype and memory format: t itself if nothing would change, else a copy. */
static rush_status convert_tensor(rush_call *c, int64_t dtype, int64_t format, bool copy)
{
  rush_tensor *t = call_tensor(c, 0), *r;
  if (tensor_sparse(t))
    return format == FORMAT_PRESERVE
             ? convert_sparse(c, dtype, copy)
             : call_fail(c->cx, "unsupported memory format option Contiguous");
  TRY(check_dtype(c->cx, dtype));
  bool same_layout =
    format == FORMAT_PRESERVE ||
    (format == FORMAT_CONTIGUOUS ? tensor_is_contiguous(t) : tensor_is_channels_last(t));
  if (dtype == t->dtype && !copy && same_layout) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (dtype != t->dtype && dtype_class_of(t->dtype) == DTYPE_QUANT)
    return call_unsupported(c->cx, "conversion of quantized tensors: dequantize() first");
  TRY(tensor_copy_format(c->cx, t, (int)dtype, format, &r));
  if (dtype_class_of((int)dtype) >= DTYPE_FLOAT)
    r->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

rush_kernel kernel_to_dtype, kernel_to_device, kernel_to_options, kernel_to_other,
  kernel_to_prim_device, kernel_to_prim_dtype, kernel_to_prim_other, kernel_to_copy, kernel_type_as,
  kernel_as_tensor, kernel_cuda, kernel_autocast_lower, kernel_autocast_float,
  kernel_autocast_dtype;

/* Cast for autocast, which changes only floating tensors, except doubles. */
static rush_status autocast_to(rush_call *c, bool on, int64_t dtype)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (on && dtype_class_of(t->dtype) == DTYPE_FLOAT && t->dtype != RUSH_FLOAT64)
    return convert_tensor(c, dtype, FORMAT_PRESERVE, false);
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}
rush_status kernel_autocast_lower(rush_call *c)
{
  return autocast_to(c, call_bool(c, 2), call_int(c, 4));
}
rush_status kernel_autocast_float(rush_call *c)
{
  return autocast_to(c, call_bool(c, 2), RUSH_FLOAT32);
}

/* Return PyTorch's default: half precision is for accelerators. */
rush_status kernel_autocast_dtype(rush_call *c)
{
  c->results[0] =
    value_int(strcmp(c->args[0].as.string->text, "cpu") == 0 ? RUSH_BFLOAT16 : RUSH_FLOAT16);
  return RUSH_OK;
}

rush_status kernel_to_dtype(rush_call *c)
{
  return convert_tensor(c, call_int(c, 1), call_int_or(c, 4, FORMAT_PRESERVE), call_bool(c, 3));
}

rush_status kernel_to_device(rush_call *c)
{
  TRY(check_device(c->cx, c->args[1]));
  return convert_tensor(c, call_int(c, 2), call_int_or(c, 5, FORMAT_PRESERVE), call_bool(c, 4));
}

/* Read options; a layout that the tensor already has is not a request. */
static rush_status options_like(rush_call *c, int *dtype)
{
  const rush_tensor *t = call_tensor(c, 0);
  if (!tensor_sparse(t))
    return call_options(c, 1, t->dtype, dtype);
  if (call_int_or(c, 2, tensor_layout(t)) != tensor_layout(t))
    return call_fail(c->cx,
                     "to(options) doesn't support converting to a different layout, but got "
                     "self.layout being %s and "
                     "options.layout set as %s",
                     tensor_layout_word(t), call_int(c, 2) ? "another" : "Strided");
  *dtype = call_dtype_or(c, 1, t->dtype);
  return check_device(c->cx, c->args[3]);
}

rush_status kernel_to_options(rush_call *c)
{
  int dtype;
  TRY(options_like(c, &dtype));
  return convert_tensor(c, dtype, call_int_or(c, 7, FORMAT_PRESERVE), call_bool(c, 6));
}

rush_status kernel_to_other(rush_call *c)
{
  return convert_tensor(c, call_tensor(c, 1)->dtype, call_int_or(c, 4, FORMAT_PRESERVE),
                        call_bool(c, 3));
}

rush_status kernel_to_prim_device(rush_call *c)
{
  TRY(check_device(c->cx, c->args[1]));
  return convert_tensor(c, call_int_or(c, 2, call_tensor(c, 0)->dtype), FORMAT_PRESERVE,
                        call_bool(c, 4));
}

rush_status kernel_to_prim_dtype(rush_call *c)
{
  return convert_tensor(c, call_int_or(c, 1, call_tensor(c, 0)->dtype), FORMAT_PRESERVE,
                        call_bool(c, 3));
}

rush_status kernel_to_prim_other(rush_call *c)
{
  return convert_tensor(c, call_tensor(c, 0)->dtype, FORMAT_PRESERVE, call_bool(c, 2));
}

rush_status kernel_to_copy(rush_call *c)
{
  int dtype;
  TRY(options_like(c, &dtype));
  return convert_tensor(c, dtype, call_int_or(c, 6, FORMAT_PRESERVE), true);
}

rush_status kernel_type_as(rush_call *c)
{
  return convert_tensor(c, call_tensor(c, 1)->dtype, FORMAT_PRESERVE, false);
}

rush_status kernel_as_tensor(rush_call *c)
{
  TRY(check_device(c->cx, c->args[2]));
  return convert_tensor(c, call_int_or(c, 1, call_tensor(c, 0)->dtype), FORMAT_PRESERVE, false);
}

rush_status kernel_cuda(rush_call *c) { return check_device(c->cx, value_device(1, 0)); }

rush_kernel kernel_clone, kernel_contiguous, kernel_copy, kernel_copy_inplace, kernel_copy_number,
    kernel_copy_fresh;
rush_status kernel_clone(rush_call *c)
{
  return convert_tensor(c, call_tensor(c, 0)->dtype, call_int_or(c, 1, FORMAT_PRESERVE), true);
}

rush_status kernel_copy_fresh(rush_call *c)
{
  return convert_tensor(c, call_tensor(c, 0)->dtype, FORMAT_PRESERVE, true);
}

rush_status kernel_contiguous(rush_call *c)
{
  if (call_int(c, 1) == FORMAT_PRESERVE)
    return call_fail(c->cx, "preserve memory format is unsupported by the contiguous operator");
  return convert_tensor(c, call_tensor(c, 0)->dtype, call_int(c, 1), false);
}

rush_status kernel_copy_inplace(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  if (!tensor_sparse(t))
    TRY(written_check_self(c->cx, t));
  if (tensor_is_quantized(t) || tensor_is_quantized(call_tensor(c, 1)))
    TRY(op_border.quantized_copy(c->cx, t, call_tensor(c, 1)));
  else
    TRY(tensor_copy(c->cx, t, call_tensor(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_status kernel_copy_number(rush_call *c)
{
  TRY(written_check_self(c->cx, call_tensor(c, 0)));
  TRY(tensor_fill(c->cx, call_tensor(c, 0), c->args[1]));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

/* Return src with self's sizes, dtype and layout: the functional form. */
rush_status kernel_copy(rush_call *c)
{
  rush_tensor *r;
  TRY(tensor_new_like(c->cx, call_tensor(c, 0), DTYPE_NONE, &r));
  rush_status s = tensor_copy(c->cx, r, call_tensor(c, 1));
  return call_return_made_steal(c, 0, r, s);
}

/* -- Changing the tensor itself ---------------------------------------------------------------- */

rush_kernel kernel_resize, kernel_resize_as, kernel_set, kernel_set_tensor, kernel_set_view,
    kernel_set_storage, kernel_set_storage_view, kernel_requires_grad;
rush_status kernel_resize(rush_call *c)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  int n;
  TRY(call_sizes(c, 1, sizes, &n));
  TRY(tensor_resize(c->cx, call_tensor(c, 0), n, sizes));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_status kernel_resize_as(rush_call *c)
{
  const rush_tensor *like = call_tensor(c, 1);
  TRY(tensor_resize(c->cx, call_tensor(c, 0), like->n_dims, like->sizes));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

static rush_status set_to(rush_call *c, storage *st, int n, const int64_t *sizes,
                          const int64_t *strides, int64_t offset)
{
  rush_tensor *t = call_tensor(c, 0), *v;
  TRY(tensor_new_view(c->cx, st, t->dtype, n, sizes, strides, offset, &v));
  rush_status s = tensor_set_like(c->cx, t, v);
  tensor_release(v);
  if (s == RUSH_OK)
    call_return_arg(c, 0, 0);
  return s;
}

rush_status kernel_set(rush_call *c)
{
  storage *st;
  int64_t n = 0, one = 1;
  TRY(storage_new(c->cx, 0, &st));
  rush_status s = set_to(c, st, 1, &n, &one, 0);
  storage_release(st);
  return s;
}

rush_status kernel_set_tensor(rush_call *c)
{
  if (call_tensor(c, 0)->dtype != call_tensor(c, 1)->dtype)
    return call_fail(c->cx, "Could not set tensor of type %s to a tensor of type %s",
                     dtype_aten_name(call_tensor(c, 1)->dtype),
                     dtype_aten_name(call_tensor(c, 0)->dtype));
  TRY(tensor_set_like(c->cx, call_tensor(c, 0), call_tensor(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_kernel kernel_set_data;
rush_status kernel_set_data(rush_call *c)
{
  return tensor_set_like(c->cx, call_tensor(c, 0), call_tensor(c, 1));
}

static rush_status set_view(rush_call *c, storage *st)
{
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];
  int n, m;
  TRY(call_sizes(c, 3, sizes, &n));
  TRY(call_sizes(c, 4, strides, &m));
  if (m == 0)
    strides_contiguous(n, sizes, strides);
  else if (n != m)
    return call_fail(c->cx, "unequal size length (%d) and stride length (%d)", n, m);
  return set_to(c, st, n, sizes, strides, call_int(c, 2));
}
rush_status kernel_set_view(rush_call *c) { return set_view(c, call_tensor(c, 1)->st); }
rush_status kernel_set_storage_view(rush_call *c) { return set_view(c, c->args[1].as.heap); }

rush_status kernel_set_storage(rush_call *c)
{
  storage *st = c->args[1].as.heap;
  int64_t n = (int64_t)(st->n_bytes / tensor_item_bytes(call_tensor(c, 0))), one = 1;
  return set_to(c, st, 1, &n, &one, 0);
}

rush_status kernel_requires_grad(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0);
  if (call_bool(c, 1) && dtype_class_of(t->dtype) < DTYPE_FLOAT)
    return call_fail(c->cx,
                     "Only Tensors of floating point and complex dtype can require gradients");
  if (!call_bool(c, 1) && t->h.flags & TENSOR_HAS_GRAD_FN)
    return call_fail(
      c->cx,
      "you can only change requires_grad flags of leaf variables. If you want to use a computed "
      "variable in a subgraph that doesn't require differentiation use var_no_grad = "
      "var.detach().");
  t->h.flags |= call_bool(c, 1) ? TENSOR_REQUIRES_GRAD : 0;
  if (!call_bool(c, 1))
    t->h.flags &= (uint8_t)~TENSOR_REQUIRES_GRAD;
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}
