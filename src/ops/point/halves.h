/* ops/point/halves.h -- 16-bit floats in many at a time. */
#ifndef RUSH_OPS_HALF_H
#define RUSH_OPS_HALF_H

#include "base/context.h"
#include "base/half.h"

/* n elements, dtype RUSH_FLOAT16 or RUSH_BFLOAT16, to and from float32 by the machine's vectors and
 * threads. */
rush_status halves_widen(call_ctx *cx, int dtype, int64_t n, const void *from,
                         float *to) RUSH_CHECKED;
rush_status halves_narrow(call_ctx *cx, int dtype, int64_t n, const float *from,
                          void *to) RUSH_CHECKED;

#endif
