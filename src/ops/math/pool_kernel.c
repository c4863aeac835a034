/* ops/math/pool_kernel.c -- pooling kernels, compiled once per instruction set (base/isa.h);
 * pool_kernel.inc per element type. */
#include "ops/math/pool.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "rushlight/rushlight.h"

#define FEW_TAPS 64 /* of a dimension: larger windows are computed one by one, with polls */

#define T float
#define WITH_LAST /* kernels for channels-last images: float32 and bytes */
#define WHERE int32_t
#define MOST_LANES 16
#define NAME(x) ISA_NAME(x##_f32)
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#define ADD(a, b) ((a) + (b))
#define DIVIDE(a, b) ((a) / (b))
#include "ops/math/pool_kernel.inc"

#define T double
#define WHERE int64_t
#define MOST_LANES 8
#define NAME(x) ISA_NAME(x##_f64)
#define LOWEST (-(double)INFINITY)
#define IS_NAN(v) ((v) != (v))
#define ADD(a, b) ((a) + (b))
#define DIVIDE(a, b) ((a) / (b))
#include "ops/math/pool_kernel.inc"

/* For integers: sums wrap, and so does the smallest one divided by -1; division by 0 (a product
 * that wrapped) divides by 1. */
#define WRAPPING_ADD(a, b) ((T)((uint64_t)(a) + (uint64_t)(b)))
#define WRAPPING_DIVIDE(a, b) \
  ((T)((b) == 0 ? (a) : (T)-1 < (T)1 && (b) == (T)-1 ? (T)(0 - (uint64_t)(a)) : (a) / (b)))

#if ISA_LEVEL == 0 /* integers are seldom pooled: one form of them is enough */
#define T int64_t
#define NAME(x) ISA_NAME(x##_i64)
#define LOWEST INT64_MIN
#define IS_NAN(v) 0
#define ADD(a, b) WRAPPING_ADD(a, b)
#define DIVIDE(a, b) WRAPPING_DIVIDE(a, b)
#include "ops/math/pool_kernel.inc"

#define T int32_t
#define NAME(x) ISA_NAME(x##_i32)
#define LOWEST INT32_MIN
#define IS_NAN(v) 0
#define ADD(a, b) WRAPPING_ADD(a, b)
#define DIVIDE(a, b) WRAPPING_DIVIDE(a, b)
#include "ops/math/pool_kernel.inc"

#define T int16_t
#define NAME(x) ISA_NAME(x##_i16)
#define LOWEST INT16_MIN
#define IS_NAN(v) 0
#define ADD(a, b) WRAPPING_ADD(a, b)
#define DIVIDE(a, b) WRAPPING_DIVIDE(a, b)
#include "ops/math/pool_kernel.inc"

#define T int8_t
#define WITH_LAST
#define NAME(x) ISA_NAME(x##_i8)
#define LOWEST INT8_MIN
#define IS_NAN(v) 0
#define ADD(a, b) WRAPPING_ADD(a, b)
#define DIVIDE(a, b) WRAPPING_DIVIDE(a, b)
#include "ops/math/pool_kernel.inc"

#define T uint8_t
#define WITH_LAST
#define NAME(x) ISA_NAME(x##_u8)
#define LOWEST 0
#define IS_NAN(v) 0
#define ADD(a, b) WRAPPING_ADD(a, b)
#define DIVIDE(a, b) WRAPPING_DIVIDE(a, b)
#include "ops/math/pool_kernel.inc"
#endif

bool ISA_NAME(pool_kernels_of)(int dtype, pool_kernels *out)
{
  switch (dtype) {
  case RUSH_FLOAT32: *out = ISA_NAME(table_f32); return true;
  case RUSH_FLOAT64: *out = ISA_NAME(table_f64); return true;
#if ISA_LEVEL == 0
  case RUSH_INT64: *out = ISA_NAME(table_i64); return true;
  case RUSH_INT32: *out = ISA_NAME(table_i32); return true;
  case RUSH_INT16: *out = ISA_NAME(table_i16); return true;
  case RUSH_INT8: *out = ISA_NAME(table_i8); return true;
  case RUSH_UINT8: *out = ISA_NAME(table_u8); return true;
#endif
  }
  return false;
}
