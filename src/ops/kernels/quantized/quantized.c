/* ops/kernels/quantized/quantized.c -- the list of custom classes of quantized layers, and reading
 * an argument as one of them. */
#include "ops/kernels/quantized/quantized.h"

const custom_class *custom_class_known(str name)
{
  static const custom_class *const all[] = {&linear_packed_class, &cell_params_class,
                                            &conv2d_packed_class, &conv3d_packed_class,
                                            &embedding_packed_class};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (str_is(name, all[i]->name))
      return all[i];
  return NULL;
}

const char *custom_class_hint(void) { return ""; }

rush_status call_custom(rush_call *c, uint32_t i, const custom_class *cls, void **self)
{
  const rush_value v = c->args[i];
  if (v.tag != RUSH_TAG_CUSTOM || ((custom_value *)v.as.heap)->cls != cls)
    return call_fail(c->cx, "%s: expected an instance of %s as argument %u", c->op->schema->name,
                     cls->name, i + 1);
  *self = ((custom_value *)v.as.heap)->self;
  return RUSH_OK;
}
