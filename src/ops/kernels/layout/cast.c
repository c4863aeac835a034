/* ops/kernels/layout/cast.c -- copies and conversions: to, clone, contiguous, copy_, set_,
 * resize_. */
#include "ops/kernels/layout/factory.h"
#include "ops/table/table.h"
#include "tensor/tensor.h"
#include "ops/call/written.h"
#include "tensor/sparse.h"
#include "tensor/iter.h"

rush_kernel kernel_convert, kernel_convert_sparse, kernel_autocast_dtype, kernel_cuda, kernel_copy,
  kernel_copy_inplace, kernel_copy_number;

/* Fill the result of to(), clone() and the like, which has its dtype and memory format. */
rush_status kernel_convert(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 0);
  rush_tensor *r = call_out(c, 0);
  if (r->dtype != t->dtype && dtype_class_of(t->dtype) == DTYPE_QUANT)
    return call_unsupported(c->cx, "conversion of quantized tensors: dequantize() first");
  TRY(tensor_copy(c->cx, r, t));
  if (tensor_quantizer(t))
    TRY(tensor_set_quantizer(c->cx, r, tensor_quantizer(t)));
  if (dtype_class_of(r->dtype) >= DTYPE_FLOAT)
    r->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  return RUSH_OK;
}

/* Return the argument with this name, or None. */
static rush_value named_arg_of(const rush_call *c, const char *name)
{
  for (uint32_t i = 0; i < c->n_args; i++)
    if (strcmp(c->op->schema->args[i].name, name) == 0)
      return c->args[i];
  return value_none();
}

/* Refuse a memory format, and a layout that is not the tensor's. */
static rush_status check_sparse_options(const rush_call *c, const rush_tensor *t)
{
  const rush_value format = named_arg_of(c, "memory_format"), layout = named_arg_of(c, "layout");
  if (format.tag == RUSH_TAG_INT && format.as.i != FORMAT_PRESERVE)
    return call_fail(c->cx, "unsupported memory format option Contiguous");
  if (layout.tag == RUSH_TAG_INT && layout.as.i != tensor_layout(t))
    return call_fail(c->cx,
                     "to(options) doesn't support converting to a different layout, but got "
                     "self.layout being %s and "
                     "options.layout set as %s",
                     tensor_layout_word(t), layout.as.i ? "another" : "Strided");
  return check_device(c->cx, named_arg_of(c, "device"));
}

/* Convert a sparse tensor's values.  An operator with neither `other` nor `copy` makes a copy
 * unless it may return its argument. */
rush_status kernel_convert_sparse(rush_call *c)
{
  rush_tensor *t = call_tensor(c, 0), *values, *r;
  const rush_value wanted = named_arg_of(c, "dtype"), copy = named_arg_of(c, "copy");
  const int dtype = c->n_args > 1 && call_tensor(c, 1) ? call_tensor(c, 1)->dtype
                    : wanted.tag == RUSH_TAG_INT       ? (int)wanted.as.i
                                                       : t->dtype;
  TRY(check_sparse_options(c, t));
  TRY(check_dtype(c->cx, dtype));
  if (dtype == t->dtype && c->op->effects & OP_RETURNS_ARG &&
      !(copy.tag == RUSH_TAG_BOOL && copy.as.b)) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (dtype == t->dtype)
    TRY(tensor_clone(c->cx, tensor_sparse(t)->values, &values));
  else
    TRY(tensor_to_dtype(c->cx, tensor_sparse(t)->values, dtype, &values));
  rush_status st = sparse_with_values(c->cx, t, values, &r);
  tensor_release(values);
  TRY(st);
  if (dtype_class_of(dtype) >= DTYPE_FLOAT)
    r->h.flags |= t->h.flags & TENSOR_REQUIRES_GRAD;
  call_return_steal(c, 0, r);
  return RUSH_OK;
}

/* Return PyTorch's default: half precision is for accelerators. */
rush_status kernel_autocast_dtype(rush_call *c)
{
  c->results[0] =
    value_int(strcmp(c->args[0].as.string->text, "cpu") == 0 ? RUSH_BFLOAT16 : RUSH_FLOAT16);
  return RUSH_OK;
}

rush_status kernel_cuda(rush_call *c) { return check_device(c->cx, value_device(1, 0)); }

/* Implement copy(), the functional form of copy_(). */
rush_status kernel_copy(rush_call *c)
{
  return tensor_copy(c->cx, call_out(c, 0), call_tensor(c, 1));
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
