/* ops/kernels/quantized/quantized_absent.c -- replaces quantized kernels in builds without them
 * (-Dquantized=false).
 *
 * Operators of the namespace quantized are known by schema only; the functions that other operators
 * and archives need are here. */
#include "ops/kernels/quantized/quantize.h"
#include "ops/kernels/quantized/quantized.h"

#define WITHOUT "this library was built without quantized kernels (-Dquantized=false)"

const custom_class *custom_class_known(str name)
{
  (void)name;
  return NULL;
}

const char *custom_class_hint(void) { return ": " WITHOUT; }

rush_status quantized_copy(call_ctx *cx, rush_tensor *dst, rush_tensor *src)
{
  (void)dst, (void)src;
  return call_unsupported(cx, "copying a quantized tensor: " WITHOUT);
}

rush_status quantized_call(rush_call *c, rush_status (*dispatch)(rush_call *c))
{
  const rush_tensor *t;

  if ((c->op->effects & OP_QUANTIZED) || (!c->op->kernel && c->op->family == FAMILY_COMPOSITE))
    return dispatch(c);
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_is_quantized(t))
      return call_unsupported(c->cx, "%s of a quantized tensor: " WITHOUT, c->op->schema->name);
  return dispatch(c);
}
