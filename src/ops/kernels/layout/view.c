/* ops/kernels/layout/view.c -- views that are more than geometry: those that depend on data, conj()
 * and adjoint(), which copy here, and detaching.  All others are made by their shape rules
 * (ops/call/results.c). */
#include "ops/kernels/views.h"

rush_kernel kernel_tensor_split_tensor;
/* Split at the positions, or into the number of parts, in a tensor. */
rush_status kernel_tensor_split_tensor(rush_call *c)
{
  const rush_tensor *t = call_tensor(c, 1);
  rush_value args[3] = {c->args[0], value_none(), c->args[2]};
  if (t->dtype != RUSH_INT64)
    return call_fail(c->cx,
                     "tensor_split expected tensor_indices_or_sections to have dtype of long, but "
                     "got %s",
                     dtype_aten_name(t->dtype));
  if (t->n_dims > 1)
    return call_fail(c->cx,
                     "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                     "one-dimensional tensor, but got a tensor with %d dims",
                     t->n_dims);
  if (t->n_dims == 0) {
    TRY(tensor_item(c->cx, t, &args[1]));
    return op_invoke_name(c->cx, "aten::tensor_split", "sections", args, 3, c->results);
  }
  rush_tensor *dense;
  TRY(tensor_contiguous(c->cx, call_tensor(c, 1), &dense));
  rush_status st = list_of_ints(c->cx, dense->data, (size_t)dense->n_elems, &args[1]);
  tensor_release(dense);
  if (st != RUSH_OK)
    return st;
  st = op_invoke_name(c->cx, "aten::tensor_split", "indices", args, 3, c->results);
  value_release(args[1]);
  return st;
}

/* -- Detaching --------------------------------------------------------------------------------- */

rush_kernel kernel_detach, kernel_detach_inplace, kernel_self;
rush_status kernel_detach(rush_call *c)
{
  rush_tensor *view;
  TRY(tensor_alias(c->cx, call_tensor(c, 0), &view));
  view->h.flags &= (uint8_t)~TENSOR_REQUIRES_GRAD;
  call_return_steal(c, 0, view);
  return RUSH_OK;
}

rush_status kernel_detach_inplace(rush_call *c)
{
  call_tensor(c, 0)->h.flags &= (uint8_t)~(TENSOR_REQUIRES_GRAD | TENSOR_HAS_GRAD_FN);
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

/* Return the argument: resolve_conj, lift, positive... */
rush_status kernel_self(rush_call *c)
{
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

/* -- Complex numbers --------------------------------------------------------------------------- */

/* Negate the imaginary parts of a new tensor. */
static void conjugate(rush_tensor *t)
{
  for (int64_t i = 0; i < t->n_elems; i++) {
    if (t->dtype == RUSH_COMPLEX64)
      ((float *)t->data)[2 * i + 1] *= -1;
    else if (t->dtype == RUSH_COMPLEX128)
      ((double *)t->data)[2 * i + 1] *= -1;
    else
      ((uint16_t *)t->data)[2 * i + 1] ^= 0x8000;
  }
}

/* PyTorch's conj() is a lazy view; here it is a copy, which only an in-place write could
 * distinguish. */
rush_kernel kernel_conj, kernel_adjoint;
rush_status kernel_conj(rush_call *c)
{
  TRY(tensor_copy(c->cx, call_out(c, 0), call_tensor(c, 0)));
  conjugate(call_out(c, 0));
  return RUSH_OK;
}

rush_status kernel_adjoint(rush_call *c)
{
  rush_tensor *t;
  const int n = call_tensor(c, 0)->n_dims;
  if (n == 0)
    return kernel_conj(c);
  TRY(tensor_transpose(c->cx, call_tensor(c, 0), n - 2, n - 1, &t));
  rush_status st = tensor_copy(c->cx, call_out(c, 0), t);
  tensor_release(t);
  if (st == RUSH_OK)
    conjugate(call_out(c, 0));
  return st;
}
