/* tensor/dtype.c -- properties of dtypes: names, sizes, classes; promotion; and conversions of
 * 8-bit floats.
 *
 * Promotion is PyTorch's lattice written as rules (class first, then width, with its few
 * exceptions) instead of an unreadable table of all pairs.  Cost: a few comparisons. */
#include "tensor/dtype.h"

#include <math.h>

#include "base/half.h"

typedef struct dtype_info {
  const char *name, *aten, *c_name;
  uint8_t bytes;
  uint8_t cls; /* dtype_class */
  bool is_unsigned;
} dtype_info;

/* A power of two, so that a number that is not a dtype (for example DTYPE_NONE) finds an empty row.
 */
#define N_ROWS 32
static const dtype_info info[N_ROWS] = {
#define DTYPE_UINT DTYPE_INT
#define DTYPE(id, number, name, aten, c_name, bytes, class, ...) \
  [RUSH_##id] = {name, aten, c_name, bytes, DTYPE_##class, IS_UNSIGNED_##class(id)},
#define IS_UNSIGNED_INT(id) false
#define IS_UNSIGNED_UINT(id) true
#define IS_UNSIGNED_FLOAT(id) false
#define IS_UNSIGNED_COMPLEX(id) false
#define IS_UNSIGNED_BOOL(id) true
#define IS_UNSIGNED_QUANT(id) (RUSH_##id == RUSH_QUINT8 || RUSH_##id == RUSH_QUINT4X2)
#include "base/dtypes.def"
};

#define DTYPE(id, number, name, ...)                                                \
  _Static_assert((int)RUSH_##id == (number) && (number) < N_DTYPES && N_DTYPES <= N_ROWS, \
                 "the number of " name " in rushlight.h and in dtypes.def");
#include "base/dtypes.def"

/* -- Facts ------------------------------------------------------------------------------------- */

bool dtype_is_valid(int64_t dtype) { return dtype >= 0 && dtype < N_DTYPES && info[dtype].bytes; }

const char *rush_dtype_name(rush_dtype dtype)
{
  return dtype_is_valid((int)dtype) ? info[dtype].name : NULL;
}

size_t rush_dtype_bytes(rush_dtype dtype)
{
  return dtype_is_valid((int)dtype) ? info[dtype].bytes : 0;
}

const char *rush_dtype_scalar_type(rush_dtype dtype)
{
  return dtype_is_valid((int)dtype) ? info[dtype].aten : NULL;
}

dtype_class dtype_class_of(int dtype) { return (dtype_class)info[dtype & (N_ROWS - 1)].cls; }

const char *dtype_aten_name(int dtype)
{
  return dtype_is_valid(dtype) ? info[dtype].aten : "Undefined";
}

const char *dtype_c_name(int dtype)
{
  const char *name = info[dtype & (N_ROWS - 1)].c_name;
  return name ? name : dtype_name(dtype);
}

bool dtype_is_signed(int dtype) { return !info[dtype & (N_ROWS - 1)].is_unsigned; }

int dtype_to_complex(int dtype)
{
  switch (dtype) {
  case RUSH_FLOAT16:
    return RUSH_COMPLEX32;
  case RUSH_FLOAT64:
    return RUSH_COMPLEX128;
  }
  return dtype_is_complex(dtype) ? dtype : RUSH_COMPLEX64;
}

int dtype_to_real(int dtype)
{
  switch (dtype) {
  case RUSH_COMPLEX32:
    return RUSH_FLOAT16;
  case RUSH_COMPLEX64:
    return RUSH_FLOAT32;
  case RUSH_COMPLEX128:
    return RUSH_FLOAT64;
  }
  return dtype;
}

/* -- Promotion --------------------------------------------------------------------------------- */

static bool is_barebones_unsigned(int d) { return d >= RUSH_UINT16 && d <= RUSH_UINT64; }
/* Promote two dtypes that are both bool or one of the five old integers. */
static int promote_ints(int a, int b)
{
  if (a == RUSH_BOOL)
    return b;
  if (b == RUSH_BOOL)
    return a;
  if (a == RUSH_UINT8 || b == RUSH_UINT8) { /* with a signed one: the next wider signed */
    int other = a == RUSH_UINT8 ? b : a;
    return other == RUSH_INT8 ? RUSH_INT16 : other;
  }
  return a > b ? a : b;
}

static int promote_floats(int a, int b)
{
  if (a == RUSH_FLOAT64 || b == RUSH_FLOAT64)
    return RUSH_FLOAT64;
  return RUSH_FLOAT32; /* different ones of half, bfloat16, float32 */
}

int dtype_promote(int a, int b)
{
  if (a == b)
    return a;
  dtype_class ca = dtype_class_of(a), cb = dtype_class_of(b);
  if (ca == DTYPE_QUANT || cb == DTYPE_QUANT || dtype_is_float8(a) || dtype_is_float8(b))
    return DTYPE_NONE;
  if (is_barebones_unsigned(a) || is_barebones_unsigned(b)) {
    if (ca == DTYPE_FLOAT)
      return a;
    return cb == DTYPE_FLOAT ? b : DTYPE_NONE;
  }
  if (ca == DTYPE_COMPLEX || cb == DTYPE_COMPLEX) {
    int ra = dtype_to_real(a), rb = dtype_to_real(b);
    if (ca < DTYPE_FLOAT)
      return b;
    if (cb < DTYPE_FLOAT)
      return a;
    return dtype_to_complex(ra == rb ? ra : promote_floats(ra, rb));
  }
  if (ca == DTYPE_FLOAT && cb == DTYPE_FLOAT)
    return promote_floats(a, b);
  if (ca == DTYPE_FLOAT)
    return a;
  if (cb == DTYPE_FLOAT)
    return b;
  return promote_ints(a, b);
}

bool dtype_can_cast(int from, int to)
{
  dtype_class cf = dtype_class_of(from), ct = dtype_class_of(to);
  if (cf == DTYPE_COMPLEX && ct != DTYPE_COMPLEX)
    return false;
  if (cf == DTYPE_FLOAT && ct == DTYPE_INT)
    return false;
  return cf == DTYPE_BOOL || ct != DTYPE_BOOL;
}

void promote_add(promote_state *p, int dtype, int ndim)
{
  int *slot = ndim > 0 ? &p->dim : &p->zero;
  const int sum = *slot == DTYPE_NONE ? dtype : dtype_promote(*slot, dtype);
  p->failed |= sum == DTYPE_NONE;
  *slot = sum;
}

void promote_add_scalar(promote_state *p, dtype_class cls)
{
  const int d = cls == DTYPE_BOOL      ? RUSH_BOOL
                : cls == DTYPE_FLOAT   ? p->default_dtype
                : cls == DTYPE_COMPLEX ? dtype_to_complex(p->default_dtype)
                                       : RUSH_INT64;
  p->scalar = p->scalar == DTYPE_NONE ? d : dtype_promote(p->scalar, d);
}

/* Combine two categories: the lower one counts only if its class is higher (bool < int < float <
 * complex). */
static int combine_categories(int higher, int lower)
{
  if (higher == DTYPE_NONE)
    return lower;
  if (lower == DTYPE_NONE)
    return higher;
  if (dtype_is_complex(higher))
    return higher;
  if (dtype_is_float(higher))
    return dtype_is_complex(lower) ? dtype_to_complex(higher) : higher;
  if (higher == RUSH_BOOL || dtype_is_float(lower) || dtype_is_complex(lower))
    return dtype_promote(higher, lower);
  return higher;
}

int promote_result(const promote_state *p)
{
  return p->failed ? DTYPE_NONE
                   : combine_categories(p->dim, combine_categories(p->zero, p->scalar));
}

/* -- 16-bit floats ----------------------------------------------------------------------------- */

float half_to_float(uint16_t h) { return f32_of_f16(h); }
uint16_t half_from_float(float f) { return f16_of_f32(f); }
uint16_t bf16_from_float(float f) { return bf16_of_f32(f); }

/* -- 8-bit floats ------------------------------------------------------------------------------ */

typedef struct float8_format {
  int8_t mantissa, bias;
  bool fnuz;       /* no infinity, no -0; 0x80 is NaN */
  uint8_t inf, nan; /* what overflow and NaN become, without sign */
} float8_format;

static float8_format float8_format_of(int dtype)
{
  switch (dtype) {
  case RUSH_FLOAT8_E5M2:
    return (float8_format){2, 15, false, 0x7c, 0x7f};
  case RUSH_FLOAT8_E4M3FN:
    return (float8_format){3, 7, false, 0x7e, 0x7f}; /* overflow and infinity saturate */
  case RUSH_FLOAT8_E5M2FNUZ:
    return (float8_format){2, 16, true, 0x80, 0x80};
  }
  return (float8_format){3, 8, true, 0x80, 0x80};
}

float float8_to_float(int dtype, uint8_t v)
{
  float8_format f = float8_format_of(dtype);
  uint32_t x = v & 0x7f, man = x & ((1u << f.mantissa) - 1), exp = x >> f.mantissa;
  float sign = v & 0x80 ? -1.0f : 1.0f;
  if (f.fnuz && v == 0x80)
    return NAN;
  if (dtype == RUSH_FLOAT8_E4M3FN && x == 0x7f)
    return copysignf(NAN, sign);
  if (dtype == RUSH_FLOAT8_E5M2 && exp == 31)
    return copysignf(man ? NAN : INFINITY, sign);
  if (exp == 0)
    return sign * ldexpf((float)man, 1 - f.bias - f.mantissa);
  return sign * ldexpf((float)(man | 1u << f.mantissa), (int)exp - f.bias - f.mantissa);
}

uint8_t float8_from_float(int dtype, float value)
{
  float8_format f = float8_format_of(dtype);
  const half_pun in = {.f = value};
  uint32_t sign = in.u >> 24 & 0x80, x = in.u & 0x7fffffff, r;
  if (x > 0x7f800000u)
    return (uint8_t)(f.fnuz ? 0x80 : sign | f.nan);
  if (fabsf(value) < ldexpf(1.0f, 1 - f.bias)) {
    r = (uint32_t)nearbyintf(ldexpf(fabsf(value), f.bias - 1 + f.mantissa));
  } else if (x == 0x7f800000u) {
    r = f.inf;
  } else {
    int drop = 23 - f.mantissa;
    uint32_t moved = x - ((uint32_t)(127 - f.bias) << 23);
    r = (moved + (1u << (drop - 1)) - 1 + (moved >> drop & 1)) >> drop;
    if (r > f.inf)
      r = f.inf;
  }
  if (f.fnuz && (r == 0 || r >= 0x80))
    return (uint8_t)r;
  return (uint8_t)(sign | r);
}
