/* ops/point/scalar.h -- functions for the C expressions of scalar operators.
 *
 * Integer arithmetic is in base/integer.h; its callers must refuse a zero divisor before (the
 * entries that can divide by zero have kernels). */
#ifndef RUSH_OPS_SCALAR_H
#define RUSH_OPS_SCALAR_H

#include <math.h>

#include "base/integer.h"
#include "ops/call/call.h"
#include "ops/point/vmath.h"

static inline int64_t i64_gcd(int64_t a, int64_t b)
{
  uint64_t x = (uint64_t)i64_abs(a), y = (uint64_t)i64_abs(b);
  while (y) {
    uint64_t r = x % y;
    x = y;
    y = r;
  }
  return (int64_t)x;
}
/* Convert as the machine's instruction does: numbers that do not fit become the smallest int. */
static inline int64_t i64_from_f64(double d)
{
  return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}
static inline double f64_mod(double a, double b) { return fmod(b + fmod(a, b), b); }
static inline int str_compare(str a, str b)
{
  size_t n = a.len < b.len ? a.len : b.len;
  int c = n ? memcmp(a.p, b.p, n) : 0;
  return c ? c : (a.len > b.len) - (a.len < b.len);
}

/* A number of any class, and the common class of two numbers. */
typedef enum num_kind { NUM_INT, NUM_FLOAT, NUM_COMPLEX } num_kind;
typedef struct num {
  num_kind kind;
  int64_t i;     /* for NUM_INT */
  double re, im; /* always set */
} num;
num num_of(rush_value v);
static inline num_kind num_meet(num a, num b) { return a.kind > b.kind ? a.kind : b.kind; }
/* Compute Python's slice of a sequence of n (start and end ints or None, step != 0): returns the
 * number of items; *first is the first. */
int64_t slice_adjust(int64_t n, rush_value start, rush_value end, int64_t step, int64_t *first);
/* Fail with RUSH_ERAISED: the operator has no complex form. */
rush_status no_complex(rush_call *call);
/* True if the schema returns a float, which a complex number is not. */
bool returns_float(const rush_call *call);

#endif
