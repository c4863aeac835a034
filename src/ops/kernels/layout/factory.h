/* ops/kernels/layout/factory.h -- checks of options, shared by operators that make tensors. */
#ifndef RUSH_OPS_FACTORY_H
#define RUSH_OPS_FACTORY_H

#include "ops/kernels/views.h"

/* Refuse devices other than the CPU (None is accepted). */
rush_status check_device(call_ctx *cx, rush_value device) RUSH_CHECKED;
/* Check a dtype argument. */
rush_status check_dtype(call_ctx *cx, int64_t dtype) RUSH_CHECKED;
/* Refuse with PyTorch's "value cannot be converted to type int8_t without overflow". */
rush_status check_overflow(call_ctx *cx, rush_value v, int dtype) RUSH_CHECKED;
static inline double number_as_double(rush_value v)
{
  return v.tag == RUSH_TAG_FLOAT     ? v.as.d
         : v.tag == RUSH_TAG_COMPLEX ? value_complex(v)->re
                                     : (double)v.as.i;
}

#endif
