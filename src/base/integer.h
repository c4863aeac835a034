/* base/integer.h -- Python's integers in 64 bits: arithmetic that wraps, division that rounds down,
 * indices from the end.  Each is written once, for kernels, the interpreter, guards and sizes. */
#ifndef RUSH_BASE_INTEGER_H
#define RUSH_BASE_INTEGER_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t i64_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t i64_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t i64_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static inline int64_t i64_neg(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
static inline int64_t i64_abs(int64_t a) { return a < 0 ? i64_neg(a) : a; }
/* Shift counts are modulo 64, as on the machine that PyTorch runs on. */
static inline int64_t i64_shl(int64_t a, int64_t b) { return (int64_t)((uint64_t)a << (b & 63)); }
static inline int64_t i64_shr(int64_t a, int64_t b) { return a >> (b & 63); }
/* b != 0.  INT64_MIN / -1 wraps. */
static inline int64_t i64_floordiv(int64_t a, int64_t b)
{
  if (b == -1)
    return i64_neg(a);
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t i64_mod(int64_t a, int64_t b)
{
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* Add n to a negative index; not range-checked. */
static inline int64_t index_wrap(int64_t i, size_t n) { return i < 0 ? i + (int64_t)n : i; }

#endif
