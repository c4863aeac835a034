/* ops/scalar.h -- what C expressions of scalar operators may use.
 *
 * Integers wrap; division and remainder round as Python does, and refuse a zero divisor before (the
 * entries that can divide by zero have kernels). */
#ifndef RUSH_OPS_SCALAR_H
#define RUSH_OPS_SCALAR_H

#include <math.h>

#include "ops/call.h"

static inline int64_t i64_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t i64_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t i64_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t i64_neg(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

#endif
