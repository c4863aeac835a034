/* ops/point/halves.h -- conversion of many 16-bit floats, in threads. */
#ifndef RUSH_OPS_HALF_H
#define RUSH_OPS_HALF_H

#include "base/context.h"
#include "base/half.h"

/* Convert n elements of dtype RUSH_FLOAT16 or RUSH_BFLOAT16 to and from float32, with the machine's
 * vectors and threads. */
rush_status halves_widen(call_ctx *cx, int dtype, int64_t n, const void *from,
                         float *to) RUSH_CHECKED;
rush_status halves_narrow(call_ctx *cx, int dtype, int64_t n, const float *from,
                          void *to) RUSH_CHECKED;

#endif
