/* ops/math/combine.c -- the loops of combine.h, one per operation and dtype, made by macros, and
 * the table that finds them. A loop processes elements strictly in order and rounds 16-bit floats
 * after every step, as PyTorch's loops do, so it must not use partial sums. Rows that are
 * contiguous on both sides have a loop of their own that vectorises. Integers are added and
 * multiplied as uint64_t, where overflow is defined. */
#include "ops/math/combine.h"

#include "ops/point/halves.h"
#include "tensor/tensor.h"

typedef struct c32 {
  uint16_t re, im;
} c32;
typedef struct c64 {
  float re, im;
} c64;
typedef struct c128 {
  double re, im;
} c128;

/* Rows on both sides are the common case, in a loop that vectorises. */
#define COMBINE(name, type, wide, load, store, expr)                                             \
  static void name(char *d, const int64_t *at, int64_t ds, const char *s, int64_t ss, int64_t n) \
  {                                                                                              \
    if (!at && ds == (int64_t)sizeof(type) && ss == ds) {                                        \
      type *restrict p = (type *)d;                                                              \
      const type *restrict q = (const type *)s;                                                  \
      for (; n >= 64; n -= 64, p += 64, q += 64) /* of a number that is known: vectors */        \
        for (int i = 0; i < 64; i++) {                                                           \
          wide a = load(p[i]), b = load(q[i]);                                                   \
          p[i] = store(expr);                                                                    \
        }                                                                                        \
      for (int64_t i = 0; i < n; i++) {                                                          \
        wide a = load(p[i]), b = load(q[i]);                                                     \
        p[i] = store(expr);                                                                      \
      }                                                                                          \
      return;                                                                                    \
    }                                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                            \
      type *p = (type *)(d + i * ds + (at ? at[i] : 0));                                         \
      wide a = load(*p), b = load(*(const type *)(s + i * ss));                                  \
      *p = store(expr);                                                                          \
    }                                                                                            \
  }
#define SAME(...) (__VA_ARGS__)

/* Integers wrap: the arithmetic is unsigned and 64 bits wide. */
#define COMBINE_INT(type)                                                  \
  COMBINE(add_##type, type, type, SAME, (type), (uint64_t)a + (uint64_t)b) \
  COMBINE(mul_##type, type, type, SAME, (type), (uint64_t)a *(uint64_t)b)  \
  COMBINE(max_##type, type, type, SAME, (type), a > b ? a : b)             \
  COMBINE(min_##type, type, type, SAME, (type), a < b ? a : b)
COMBINE_INT(uint8_t)
COMBINE_INT(int8_t)
COMBINE_INT(int16_t)
COMBINE_INT(int32_t)
COMBINE_INT(int64_t)

/* A NaN remains a NaN. */
#define COMBINE_FLOAT(name, type, wide, load, store)                      \
  COMBINE(add_##name, type, wide, load, store, a + b)                     \
  COMBINE(mul_##name, type, wide, load, store, a *b)                      \
  COMBINE(max_##name, type, wide, load, store, (a > b || a != a) ? a : b) \
  COMBINE(min_##name, type, wide, load, store, (a < b || a != a) ? a : b)
COMBINE_FLOAT(f32, float, float, SAME, SAME)
COMBINE_FLOAT(f64, double, double, SAME, SAME)
COMBINE_FLOAT(f16, uint16_t, float, f32_of_f16, f16_of_f32)
COMBINE_FLOAT(bf16, uint16_t, float, f32_of_bf16, bf16_of_f32)

/* Add rows of 16-bit floats, with the machine's conversions. */
static void add_halves(int dtype, char *d, const char *s, int64_t n)
{
  enum { BLOCK = 256 };
  float a[BLOCK], b[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    const int64_t m = n - at < BLOCK ? n - at : BLOCK;
    uint16_t *p = (uint16_t *)(void *)d + at;
    convert_elems(RUSH_FLOAT32, a, dtype, p, m);
    convert_elems(RUSH_FLOAT32, b, dtype, (const uint16_t *)(const void *)s + at, m);
    if (m == BLOCK)
      for (int i = 0; i < BLOCK; i++) /* of a number that is known: vectors */
        a[i] += b[i];
    else
      for (int64_t i = 0; i < m; i++)
        a[i] += b[i];
    convert_elems(dtype, p, RUSH_FLOAT32, a, m);
  }
}
#define ADD_HALVES(name, dtype)                                                              \
  static void rows_##name(char *d, const int64_t *at, int64_t ds, const char *s, int64_t ss, \
                          int64_t n)                                                         \
  {                                                                                          \
    if (!at && ds == 2 && ss == 2)                                                           \
      add_halves(dtype, d, s, n);                                                            \
    else                                                                                     \
      add_##name(d, at, ds, s, ss, n);                                                       \
  }
ADD_HALVES(f16, RUSH_FLOAT16)
ADD_HALVES(bf16, RUSH_BFLOAT16)

COMBINE(or_bool, uint8_t, uint8_t, SAME, SAME, (uint8_t)(a | b))
COMBINE(and_bool, uint8_t, uint8_t, SAME, SAME, (uint8_t)(a & b))

#define ADD(type) (type){a.re + b.re, a.im + b.im}
#define MUL(type) (type){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}
static inline c64 wide_c32(c32 h) { return (c64){f32_of_f16(h.re), f32_of_f16(h.im)}; }
static inline c32 narrow_c32(c64 f) { return (c32){f16_of_f32(f.re), f16_of_f32(f.im)}; }
COMBINE(add_c32, c32, c64, wide_c32, narrow_c32, ADD(c64))
COMBINE(add_c64, c64, c64, SAME, SAME, ADD(c64))
COMBINE(mul_c64, c64, c64, SAME, SAME, MUL(c64))
COMBINE(add_c128, c128, c128, SAME, SAME, ADD(c128))
COMBINE(mul_c128, c128, c128, SAME, SAME, MUL(c128))

#define FOUR(name) {add_##name, mul_##name, max_##name, min_##name}

combine_fn *combine_find(combine_op op, int dtype)
{
  static combine_fn *const fns[][N_COMBINE_OPS] = {
    [RUSH_UINT8] = FOUR(uint8_t),
    [RUSH_INT8] = FOUR(int8_t),
    [RUSH_INT16] = FOUR(int16_t),
    [RUSH_INT32] = FOUR(int32_t),
    [RUSH_INT64] = FOUR(int64_t),
    [RUSH_FLOAT16] = {rows_f16, mul_f16, max_f16, min_f16},
    [RUSH_FLOAT32] = FOUR(f32),
    [RUSH_FLOAT64] = FOUR(f64),
    [RUSH_BFLOAT16] = {rows_bf16, mul_bf16, max_bf16, min_bf16},
    [RUSH_COMPLEX32] = {add_c32},
    [RUSH_COMPLEX64] = {add_c64, mul_c64},
    [RUSH_COMPLEX128] = {add_c128, mul_c128},
    [RUSH_BOOL] = {or_bool, and_bool, or_bool, and_bool},
  };
  return dtype < 0 || (size_t)dtype >= sizeof fns / sizeof *fns ? NULL : fns[dtype][op];
}
