/* tensor/convert.c -- conversion of contiguous elements.
 *
 * Direct loops for the eight common dtypes, which the compiler vectorises; other dtypes are
 * converted through one of these in blocks, exactly as PyTorch does (narrow floats from and to
 * float32, unsigned integers as the signed integers of the same bits). */
#include "tensor/tensor_int.h"

#define BLOCK 256

#define INTO_BOOL(x) ((uint8_t)((x) != 0))
#define INTO_U8(x) ((uint8_t)(int64_t)(x))
#define INTO_I8(x) ((int8_t)(x))
#define INTO_I16(x) ((int16_t)(x))
#define INTO_I32(x) ((int32_t)(x))
#define INTO_I64(x) ((int64_t)(x))
#define INTO_F32(x) ((float)(x))
#define INTO_F64(x) ((double)(x))
/* x86 converts out-of-range floats to narrow integers through int32; these macros make that
 * explicit. */
#define INTO_I8_F(x) ((int8_t)(int32_t)(x))
#define INTO_I16_F(x) ((int16_t)(int32_t)(x))

#define LOOP(ctype, into)                     \
  {                                           \
    ctype *restrict d = dst;                  \
    for (int64_t i = 0; i < n; i++)           \
      d[i] = into(s[i]);                      \
    return;                                   \
  }

#define DEFINE_FROM(name, stype, into8, into16)                                     \
  static void from_##name(int to, void *dst, const void *src, int64_t n)            \
  {                                                                                 \
    const stype *restrict s = src;                                                  \
    switch (to) {                                                                   \
    case RUSH_BOOL: LOOP(uint8_t, INTO_BOOL)                                        \
    case RUSH_UINT8: LOOP(uint8_t, INTO_U8)                                         \
    case RUSH_INT8: LOOP(int8_t, into8)                                             \
    case RUSH_INT16: LOOP(int16_t, into16)                                          \
    case RUSH_INT32: LOOP(int32_t, INTO_I32)                                        \
    case RUSH_INT64: LOOP(int64_t, INTO_I64)                                        \
    case RUSH_FLOAT32: LOOP(float, INTO_F32)                                        \
    case RUSH_FLOAT64: LOOP(double, INTO_F64)                                       \
    }                                                                               \
  }

DEFINE_FROM(u8, uint8_t, INTO_I8, INTO_I16)
DEFINE_FROM(i8, int8_t, INTO_I8, INTO_I16)
DEFINE_FROM(i16, int16_t, INTO_I8, INTO_I16)
DEFINE_FROM(i32, int32_t, INTO_I8, INTO_I16)
DEFINE_FROM(i64, int64_t, INTO_I8, INTO_I16)
DEFINE_FROM(f32, float, INTO_I8_F, INTO_I16_F)
DEFINE_FROM(f64, double, INTO_I8_F, INTO_I16_F)

/* -- Rare dtypes: which common one they pass through, and the step to it ----------------------- */

static int common_of(int dtype)
{
  switch (dtype) {
  case RUSH_UINT16:
  case RUSH_UINT32:
  case RUSH_UINT64:
    return RUSH_INT64;
  case RUSH_QINT8:
    return RUSH_INT8;
  case RUSH_QUINT8:
  case RUSH_QUINT4X2:
    return RUSH_UINT8;
  case RUSH_QINT32:
    return RUSH_INT32;
  case RUSH_COMPLEX128:
    return RUSH_FLOAT64;
  case RUSH_BOOL:
  case RUSH_UINT8:
  case RUSH_INT8:
  case RUSH_INT16:
  case RUSH_INT32:
  case RUSH_INT64:
  case RUSH_FLOAT32:
  case RUSH_FLOAT64:
    return dtype;
  }
  return RUSH_FLOAT32; /* half, bfloat16, float8, complex32 and 64 */
}

#define EACH(expr)                    \
  {                                   \
    for (int64_t i = 0; i < n; i++)   \
      expr;                           \
    return;                           \
  }

/* Convert n elements of a rare dtype to the corresponding common one (real parts of complex
 * numbers). */
static void widen(void *dst, int from, const void *src, int64_t n)
{
  float *f = dst;
  double *d = dst;
  int64_t *l = dst;
  const uint8_t *u8 = src;
  const uint16_t *u16 = src;
  const uint32_t *u32 = src;
  switch (from) {
  case RUSH_FLOAT16:
  case RUSH_BFLOAT16:
    ISA_PICK(halves_to_f32, cpu_machine())
    (from == RUSH_BFLOAT16, u16, f, n); /* no level differs in a bit */
    return;
  case RUSH_COMPLEX32: EACH(f[i] = half_to_float(u16[2 * i]))
  case RUSH_COMPLEX64: EACH(f[i] = ((const float *)src)[2 * i])
  case RUSH_COMPLEX128: EACH(d[i] = ((const double *)src)[2 * i])
  case RUSH_UINT16: EACH(l[i] = u16[i])
  case RUSH_UINT32: EACH(l[i] = u32[i])
  case RUSH_FLOAT8_E5M2:
  case RUSH_FLOAT8_E4M3FN:
  case RUSH_FLOAT8_E5M2FNUZ:
  case RUSH_FLOAT8_E4M3FNUZ: EACH(f[i] = float8_to_float(from, u8[i]))
  }
  memcpy(dst, src, (size_t)n * dtype_bytes(from)); /* uint64 and quantized: the same bits */
}

static void narrow(int to, void *dst, const void *src, int64_t n)
{
  const float *f = src;
  const double *d = src;
  const int64_t *l = src;
  uint8_t *u8 = dst;
  uint16_t *u16 = dst;
  switch (to) {
  case RUSH_FLOAT16:
  case RUSH_BFLOAT16:
    ISA_PICK(halves_from_f32, cpu_machine())(to == RUSH_BFLOAT16, f, u16, n);
    return;
  case RUSH_COMPLEX32: EACH((u16[2 * i] = half_from_float(f[i]), u16[2 * i + 1] = 0))
  case RUSH_COMPLEX64: EACH((((float *)dst)[2 * i] = f[i], ((float *)dst)[2 * i + 1] = 0))
  case RUSH_COMPLEX128: EACH((((double *)dst)[2 * i] = d[i], ((double *)dst)[2 * i + 1] = 0))
  case RUSH_UINT16: EACH(u16[i] = (uint16_t)l[i])
  case RUSH_UINT32: EACH(((uint32_t *)dst)[i] = (uint32_t)l[i])
  case RUSH_FLOAT8_E5M2:
  case RUSH_FLOAT8_E4M3FN:
  case RUSH_FLOAT8_E5M2FNUZ:
  case RUSH_FLOAT8_E4M3FNUZ: EACH(u8[i] = float8_from_float(to, f[i]))
  }
  memcpy(dst, src, (size_t)n * dtype_bytes(to));
}

/* Convert complex to complex or to bool: a pair of reals per element. */
static void convert_complex(int to, void *dst, int from, const void *src, int64_t n)
{
  if (to != RUSH_BOOL) {
    convert_elems(dtype_to_real(to), dst, dtype_to_real(from), src, 2 * n);
    return;
  }
  uint8_t parts[2 * BLOCK], *d = dst;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = i64_min(BLOCK, n - at);
    convert_elems(RUSH_BOOL, parts, dtype_to_real(from),
                  (const char *)src + at * (int64_t)dtype_bytes(from), 2 * m);
    for (int64_t i = 0; i < m; i++)
      d[at + i] = parts[2 * i] | parts[2 * i + 1];
  }
}

/* Convert uint64, which differs from int64 if the other dtype is a float. */
static bool convert_u64(int to, void *dst, int from, const void *src, int64_t n)
{
  const uint64_t *s = src;
  if (from == RUSH_UINT64 && to == RUSH_FLOAT64)
    for (int64_t i = 0; i < n; i++)
      ((double *)dst)[i] = (double)s[i];
  else if (from == RUSH_UINT64 && to == RUSH_FLOAT32)
    for (int64_t i = 0; i < n; i++)
      ((float *)dst)[i] = (float)s[i];
  else if (to == RUSH_UINT64 && (from == RUSH_FLOAT32 || from == RUSH_FLOAT64))
    for (int64_t i = 0; i < n; i++) {
      double v = from == RUSH_FLOAT32 ? (double)((const float *)src)[i] : ((const double *)src)[i];
      ((uint64_t *)dst)[i] = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
    }
  else
    return false;
  return true;
}

static void convert_common(int to, void *dst, int from, const void *src, int64_t n)
{
  switch (from) {
  case RUSH_BOOL:
  case RUSH_UINT8:
    from_u8(to, dst, src, n);
    return;
  case RUSH_INT8:
    from_i8(to, dst, src, n);
    return;
  case RUSH_INT16:
    from_i16(to, dst, src, n);
    return;
  case RUSH_INT32:
    from_i32(to, dst, src, n);
    return;
  case RUSH_INT64:
    from_i64(to, dst, src, n);
    return;
  case RUSH_FLOAT32:
    from_f32(to, dst, src, n);
    return;
  case RUSH_FLOAT64:
    from_f64(to, dst, src, n);
    return;
  }
}

void convert_elems(int to, void *dst, int from, const void *src, int64_t n)
{
  if (to == from) {
    if (n)
      memcpy(dst, src, (size_t)n * dtype_bytes(to));
    return;
  }
  if (dtype_is_complex(from) && (dtype_is_complex(to) || to == RUSH_BOOL)) {
    convert_complex(to, dst, from, src, n);
    return;
  }
  if (convert_u64(to, dst, from, src, n))
    return;
  int from_c = common_of(from), to_c = common_of(to);
  if (from_c == from && to_c == to) {
    convert_common(to, dst, from, src, n);
    return;
  }
  uint64_t a[BLOCK], b[BLOCK];
  size_t from_bytes = dtype_bytes(from), to_bytes = dtype_bytes(to);
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = i64_min(BLOCK, n - at);
    const void *s = (const char *)src + (size_t)at * from_bytes;
    void *d = (char *)dst + (size_t)at * to_bytes;
    if (from_c != from) {
      widen(to_c == to && from_c == to_c ? d : a, from, s, m);
      s = to_c == to && from_c == to_c ? d : (void *)a;
    }
    if (from_c != to_c) {
      convert_common(to_c, to_c == to ? d : b, from_c, s, m);
      s = b;
    }
    if (to_c != to)
      narrow(to, d, s, m);
  }
}
