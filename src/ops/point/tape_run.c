/* ops/point/tape_run.c -- the loops of the tape runner, compiled once for each instruction set.
 *
 * Every loop is written so that the compiler vectorises it where the machine can; d may be a or b
 * (element i is read before it is written), never a shifted view of them.
 *
 * Integers wrap: arithmetic is on unsigned.  Results have the same bits for all instruction
 * sets. */
#include "base/cmplx.h"
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wunused-function" /* of primitives that the table does not use */

#include "base/half.h"
#include "ops/table/tape.h"
#include "ops/table/tape_used.h"
#include "ops/point/vmath.h"
#if ISA_LEVEL >= ISA_AVX512
#include "ops/point/vmath512.h"
#endif

#if defined(__clang__)
#define IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

typedef uint8_t t_b;
typedef int32_t t_i32;
typedef int64_t t_i64;
typedef float t_f32;
typedef double t_f64;
typedef struct t_c64 { float re, im; } t_c64;
typedef struct t_c128 { double re, im; } t_c128;

#define ARGS int64_t n, void *dv, const void *av, const void *bv, const void *cv, int aux
#define UNUSED (void)av, (void)bv, (void)cv, (void)aux

/* d[i] = f(a[i]) and so on; R is the result's type */
#define DEF1(name, ty, R, T, ...)                     \
  static unsigned name##_##ty(ARGS)                   \
  {                                                   \
    R *d = dv;                                        \
    const T *pa = av;                                 \
    UNUSED;                                           \
    IVDEP for (int64_t i = 0; i < n; i++)             \
    {                                                 \
      T a = pa[i];                                    \
      d[i] = __VA_ARGS__;                             \
    }                                                 \
    return 0;                                         \
  }
#define DEF2(name, ty, R, T, ...)                     \
  static unsigned name##_##ty(ARGS)                   \
  {                                                   \
    R *d = dv;                                        \
    const T *pa = av, *pb = bv;                       \
    UNUSED;                                           \
    IVDEP for (int64_t i = 0; i < n; i++)             \
    {                                                 \
      T a = pa[i], b = pb[i];                         \
      d[i] = __VA_ARGS__;                             \
    }                                                 \
    return 0;                                         \
  }
#define DEF3(name, ty, R, A, T, ...)                  \
  static unsigned name##_##ty(ARGS)                   \
  {                                                   \
    R *d = dv;                                        \
    const A *pa = av;                                 \
    const T *pb = bv, *pc = cv;                       \
    UNUSED;                                           \
    IVDEP for (int64_t i = 0; i < n; i++)             \
    {                                                 \
      A a = pa[i];                                    \
      T b = pb[i], c = pc[i];                         \
      d[i] = __VA_ARGS__;                             \
    }                                                 \
    return 0;                                         \
  }
/* integer division: a zero divisor is counted, and 1 divides instead */
#define DEFDIV(name, ty, T, ...)                      \
  static unsigned name##_##ty(ARGS)                   \
  {                                                   \
    T *d = dv;                                        \
    const T *pa = av, *pb = bv;                       \
    unsigned fault = 0;                               \
    UNUSED;                                           \
    for (int64_t i = 0; i < n; i++) {                 \
      T a = pa[i], b = pb[i];                         \
      fault |= b == 0;                                \
      b = b == 0 ? 1 : b;                             \
      d[i] = __VA_ARGS__;                             \
    }                                                 \
    return fault;                                     \
  }

/* -- Bool -------------------------------------------------------------------------------------- */

DEF2(AND, b, t_b, t_b, (t_b)(a & b))
DEF2(OR, b, t_b, t_b, (t_b)(a | b))
DEF2(XOR, b, t_b, t_b, (t_b)(a ^ b))
DEF1(NOT, b, t_b, t_b, (t_b)(a == 0))
DEF2(EQ, b, t_b, t_b, (t_b)(a == b))
DEF2(NE, b, t_b, t_b, (t_b)(a != b))
DEF2(LT, b, t_b, t_b, (t_b)(a < b))
DEF2(LE, b, t_b, t_b, (t_b)(a <= b))
DEF3(WHERE, b, t_b, t_b, t_b, a ? b : c)

/* -- Integers ---------------------------------------------------------------------------------- */

#define INT_HELPERS(ty, T, U)                                             \
  static inline T ipow_##ty(T a, T b)                                     \
  {                                                                       \
    if (b < 0)                                                            \
      return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                 \
    U r = 1, x = (U)a;                                                    \
    for (; b; b >>= 1, x *= x)                                            \
      if (b & 1)                                                          \
        r *= x;                                                           \
    return (T)r;                                                          \
  }                                                                       \
  static inline T igcd_##ty(T a, T b)                                     \
  {                                                                       \
    U x = a < 0 ? 0 - (U)a : (U)a, y = b < 0 ? 0 - (U)b : (U)b;           \
    while (y) {                                                           \
      U t = x % y;                                                        \
      x = y;                                                              \
      y = t;                                                              \
    }                                                                     \
    return (T)x;                                                          \
  }                                                                       \
  static inline T iquot_##ty(T a, T b) { return b == -1 ? (T)(0 - (U)a) : a / b; } \
  static inline T imod_##ty(T a, T b) { return b == -1 ? 0 : a % b; }     \
  static inline T ifloor_##ty(T a, T b)                                   \
  {                                                                       \
    T q = iquot_##ty(a, b), r = imod_##ty(a, b);                          \
    return r != 0 && ((r < 0) != (b < 0)) ? q - 1 : q;                    \
  }                                                                       \
  static inline T irem_##ty(T a, T b)                                     \
  {                                                                       \
    T r = imod_##ty(a, b);                                                \
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;                    \
  }

#define INT_OPS(ty, T, U)                                                          \
  INT_HELPERS(ty, T, U)                                                            \
  DEF2(ADD, ty, T, T, (T)((U)a + (U)b))                                            \
  DEF2(SUB, ty, T, T, (T)((U)a - (U)b))                                            \
  DEF2(MUL, ty, T, T, (T)((U)a * (U)b))                                            \
  DEF3(FMA, ty, T, T, T, (T)((U)a * (U)b + (U)c))                                  \
  DEFDIV(TDIV, ty, T, iquot_##ty(a, b))                                            \
  DEFDIV(FDIV, ty, T, ifloor_##ty(a, b))                                           \
  DEFDIV(FMOD, ty, T, imod_##ty(a, b))                                             \
  DEFDIV(REM, ty, T, irem_##ty(a, b))                                              \
  DEF1(NEG, ty, T, T, (T)(0 - (U)a))                                               \
  DEF1(ABS, ty, T, T, (T)(a < 0 ? 0 - (U)a : (U)a))                                \
  DEF2(POW, ty, T, T, ipow_##ty(a, b))                                             \
  static unsigned IPOW_##ty(ARGS)                                                  \
  {                                                                                \
    T *d = dv;                                                                     \
    const T *pa = av, *pb = bv;                                                    \
    unsigned fault = 0;                                                            \
    UNUSED;                                                                        \
    for (int64_t i = 0; i < n; i++) {                                              \
      fault |= pb[i] < 0 ? 2 : 0;                                                  \
      d[i] = ipow_##ty(pa[i], pb[i]);                                              \
    }                                                                              \
    return fault;                                                                  \
  }                                                                                \
  DEF2(MAX, ty, T, T, a > b ? a : b)                                               \
  DEF2(MIN, ty, T, T, a < b ? a : b)                                               \
  DEF2(GCD, ty, T, T, igcd_##ty(a, b))                                             \
  DEF2(AND, ty, T, T, a & b)                                                       \
  DEF2(OR, ty, T, T, a | b)                                                        \
  DEF2(XOR, ty, T, T, a ^ b)                                                       \
  DEF1(NOT, ty, T, T, ~a)                                                          \
  DEF2(SHL, ty, T, T, (U)b < sizeof(T) * 8 ? (T)((U)a << (b & (T)(sizeof(T) * 8 - 1))) : 0) \
  DEF2(SHR, ty, T, T, a >> ((U)b < sizeof(T) * 8 ? b : (T)(sizeof(T) * 8 - 1)))    \
  DEF2(EQ, ty, t_b, T, (t_b)(a == b))                                              \
  DEF2(NE, ty, t_b, T, (t_b)(a != b))                                              \
  DEF2(LT, ty, t_b, T, (t_b)(a < b))                                               \
  DEF2(LE, ty, t_b, T, (t_b)(a <= b))                                              \
  DEF3(WHERE, ty, T, t_b, T, a ? b : c)

INT_OPS(i32, t_i32, uint32_t)
INT_OPS(i64, t_i64, uint64_t)

/* -- Floats ------------------------------------------------------------------------------------ */

/* Compute fmod of k elements.  In double the quotient of floats is exact up to 2^28; the rest of
 * the row is computed one by one. */
static void fmods_f32(int k, const float *a, const float *b, float *m)
{
  int odd = 0;
  for (int i = 0; i < k; i++) {
    const double x = (double)a[i], y = (double)b[i], q = x / y;
    const float r = (float)(x - trunc(q) * y);
    m[i] = vm_sign32(r, a[i]);
    odd |= !(__builtin_fabs(q) < 0x1p28 && __builtin_fabs(y) < 0x1p200);
  }
  for (int i = 0; odd && i < k; i++)
    m[i] = fmodf(a[i], b[i]);
}
static void fmods_f64(int k, const double *a, const double *b, double *m)
{
  for (int i = 0; i < k; i++)
    m[i] = fmod(a[i], b[i]);
}
#define DEFMOD(name, ty, T, ...)                           \
  static unsigned name##_##ty(ARGS)                        \
  {                                                        \
    T *d = dv, line[64];                                   \
    const T *pa = av, *pb = bv;                            \
    UNUSED;                                                \
    for (int64_t at = 0; at < n; at += 64) {               \
      const int k = n - at < 64 ? (int)(n - at) : 64;      \
      fmods_##ty(k, pa + at, pb + at, line);               \
      IVDEP for (int i = 0; i < k; i++)                    \
      {                                                    \
        const T a = pa[at + i], b = pb[at + i], m = line[i]; \
        (void)a, (void)b;                                  \
        d[at + i] = __VA_ARGS__;                           \
      }                                                    \
    }                                                      \
    return 0;                                              \
  }

#define FLOAT_HELPERS(ty, T, F, BITS)                                                      \
  /* of m = fmod(a, b); no branches: they become vectors */                          \
  static inline T frem_##ty(T b, T m) { return m != 0 && ((b < 0) != (m < 0)) ? m + b : m; } \
  static inline T ffloor_##ty(T a, T b, T m)                                         \
  {                                                                                  \
    T whole = a / b, q = (a - m) / b;                                                \
    q -= m != 0 && ((b < 0) != (m < 0)) ? (T)1 : (T)0;                               \
    T r = floor##F(q);                                                               \
    r = q - r > (T)0.5 ? r + 1 : r;                                                  \
    r = q == 0 ? vm_sign##BITS(0, whole) : r;                                        \
    return b == 0 ? whole : r;                                                       \
  }                                                                                  \
  DEFMOD(FDIV, ty, T, ffloor_##ty(a, b, m))                                          \
  DEFMOD(FMOD, ty, T, (m))                                                           \
  DEFMOD(REM, ty, T, frem_##ty(b, m))                                                \
  static inline T frexpm_##ty(T a)                                                   \
  {                                                                                  \
    int e;                                                                           \
    return frexp##F(a, &e);                                                          \
  }                                                                                  \
  static inline T frexpe_##ty(T a)                                                   \
  {                                                                                  \
    int e = 0;                                                                       \
    (void)frexp##F(a, &e);                                                           \
    return a - a == 0 ? (T)e : 0;                                                    \
  }                                                                                  \
  static inline T fscale_##ty(T a, T b)                                              \
  {                                                                                  \
    return ldexp##F(a, b > 10000 ? 10000 : b < -10000 ? -10000 : (int)b);            \
  }

#define FLOAT_OPS(ty, T, F, S, BITS)                                                 \
  FLOAT_HELPERS(ty, T, F, BITS)                                                            \
  DEF2(ADD, ty, T, T, a + b)                                                         \
  DEF2(SUB, ty, T, T, a - b)                                                         \
  DEF2(MUL, ty, T, T, a * b)                                                         \
  DEF2(DIV, ty, T, T, a / b)                                                         \
  DEF3(FMA, ty, T, T, T, vm_fma##BITS(a, b, c))                                      \
  DEF1(NEG, ty, T, T, -a)                                                            \
  DEF1(ABS, ty, T, T, vm_abs##BITS(a))                                               \
  DEF2(POW, ty, T, T, vm_pow_##S(a, b))                                              \
  DEF2(MAX, ty, T, T, a != a ? a : a > b ? a : b)                                    \
  DEF2(MIN, ty, T, T, a != a ? a : a < b ? a : b)                                    \
  DEF2(FMAX, ty, T, T, a != a ? b : a < b ? b : a)                                   \
  DEF2(FMIN, ty, T, T, a != a ? b : a > b ? b : a)                                   \
  DEF2(EQ, ty, t_b, T, (t_b)(a == b))                                                \
  DEF2(NE, ty, t_b, T, (t_b)(a != b))                                                \
  DEF2(LT, ty, t_b, T, (t_b)(a < b))                                                 \
  DEF2(LE, ty, t_b, T, (t_b)(a <= b))                                                \
  DEF3(WHERE, ty, T, t_b, T, a ? b : c)                                              \
  DEF1(FLOOR, ty, T, T, floor##F(a))                                                 \
  DEF1(CEIL, ty, T, T, ceil##F(a))                                                   \
  DEF1(TRUNC, ty, T, T, trunc##F(a))                                                 \
  DEF1(RINT, ty, T, T, vm_rint_##S(a))                                               \
  DEF1(SIGNBIT, ty, t_b, T, (t_b)(vm_bits##BITS(a) >> (BITS - 1)))                   \
  DEF2(COPYSIGN, ty, T, T, vm_sign##BITS(a, b))                                      \
  DEF2(NEXTAFTER, ty, T, T, nextafter##F(a, b))                                      \
  DEF2(LDEXP, ty, T, T, fscale_##ty(a, b))                                           \
  DEF1(FREXPM, ty, T, T, frexpm_##ty(a))                                             \
  DEF1(FREXPE, ty, T, T, frexpe_##ty(a))                                             \
  DEF1(SQRT, ty, T, T, vm_sqrt_##S(a))                                               \
  DEF1(RSQRT, ty, T, T, vm_rsqrt_##S(a))                                             \
  DEF1(EXP2, ty, T, T, vm_exp2_##S(a))                                               \
  DEF1(EXPM1, ty, T, T, vm_expm1_##S(a))                                             \
  DEF1(LOG, ty, T, T, vm_log_##S(a))                                                 \
  DEF1(LOG2, ty, T, T, vm_log2_##S(a))                                               \
  DEF1(LOG10, ty, T, T, vm_log10_##S(a))                                             \
  DEF1(LOG1P, ty, T, T, vm_log1p_##S(a))                                             \
  DEF1(SINH, ty, T, T, vm_sinh_##S(a))                                               \
  DEF1(COSH, ty, T, T, vm_cosh_##S(a))                                               \
  DEF1(ASIN, ty, T, T, vm_asin_##S(a))                                               \
  DEF1(ACOS, ty, T, T, vm_acos_##S(a))                                               \
  DEF1(ATAN, ty, T, T, vm_atan_##S(a))                                               \
  DEF2(ATAN2, ty, T, T, vm_atan2_##S(a, b))                                          \
  DEF2(HYPOT, ty, T, T, (T)hypot##F(a, b))

FLOAT_OPS(f32, t_f32, f, f32, 32)
FLOAT_OPS(f64, t_f64, , f64, 64)

/* The most used functions, with AVX-512 intrinsics. */
#if ISA_LEVEL >= ISA_AVX512
#define DEFBUSY(name, fn)                                                            \
  static unsigned name##_f32(ARGS)                                                   \
  {                                                                                  \
    float *d = dv;                                                                   \
    const float *a = av;                                                             \
    int64_t i = 0;                                                                   \
    UNUSED;                                                                          \
    for (; i + 16 <= n; i += 16)                                                     \
      _mm512_storeu_ps(d + i, v512_##fn(_mm512_loadu_ps(a + i)));                    \
    if (i < n) {                                                                     \
      __mmask16 m = (__mmask16)((1u << (n - i)) - 1);                                \
      _mm512_mask_storeu_ps(d + i, m, v512_##fn(_mm512_maskz_loadu_ps(m, a + i)));   \
    }                                                                                \
    return 0;                                                                        \
  }                                                                                  \
  DEF1(name, f64, t_f64, t_f64, vm_##fn##_f64(a))
#else
#define DEFBUSY(name, fn)                          \
  DEF1(name, f32, t_f32, t_f32, vm_##fn##_f32(a))  \
  DEF1(name, f64, t_f64, t_f64, vm_##fn##_f64(a))
#endif
DEFBUSY(EXP, exp)
DEFBUSY(SIGMOID, sigmoid)
DEFBUSY(TANH, tanh)
DEFBUSY(ERF, erf)
DEFBUSY(PHI, phi)

/* Trigonometric functions: huge arguments leave the vector loop (vmath.h). */
#define DEFTRIG(name, fn)                                                           \
  static unsigned name##_f32(ARGS)                                                  \
  {                                                                                 \
    float *d = dv;                                                                  \
    const float *pa = av;                                                           \
    unsigned big = 0;                                                               \
    UNUSED;                                                                         \
    for (int64_t i = 0; i < n; i++)                                                 \
      big |= VM_TRIG_BIG_F32(pa[i]);                                                \
    if (UNLIKELY(big)) {                                                            \
      for (int64_t i = 0; i < n; i++)                                               \
        d[i] = VM_TRIG_BIG_F32(pa[i]) ? vm_##fn##_big_f32(pa[i]) : vm_##fn##_f32(pa[i]); \
      return 0;                                                                     \
    }                                                                               \
    IVDEP for (int64_t i = 0; i < n; i++) d[i] = vm_##fn##_f32(pa[i]);              \
    return 0;                                                                       \
  }                                                                                 \
  DEF1(name, f64, t_f64, t_f64, vm_##fn##_f64(a))
DEFTRIG(SIN, sin)
DEFTRIG(COS, cos)
DEFTRIG(TAN, tan)

/* -- Complex ----------------------------------------------------------------------------------- */

/* GCC 12 makes vfmaddsub of neighbouring differences and sums of products, whatever -ffp-contract
 * is, and so other bits than without FMA.  If the sign of a factor is flipped invisibly to the
 * compiler, both are sums. */
static inline float turned_f(float x)
{
  uint32_t u;

  memcpy(&u, &x, sizeof u);
  u ^= UINT32_C(1) << 31;
  memcpy(&x, &u, sizeof x);
  return x;
}
static inline double turned_(double x)
{
  uint64_t u;

  memcpy(&u, &x, sizeof u);
  u ^= UINT64_C(1) << 63;
  memcpy(&x, &u, sizeof x);
  return x;
}

#define COMPLEX_HELPERS(ty, T, E, F)                                                \
  static inline T cmul_##ty(T a, T b)                                               \
  {                                                                                 \
    return (T){a.re * b.re + turned_##F(a.im) * b.im, a.re * b.im + a.im * b.re};   \
  }                                                                                 \
  /* scaled by the larger part, so that squares cannot overflow */                  \
  static inline T cdiv_##ty(T a, T b)                                               \
  {                                                                                 \
    E br = fabs##F(b.re), bi = fabs##F(b.im);                                       \
    if (br >= bi) {                                                                 \
      if (br == 0 && bi == 0)                                                       \
        return (T){a.re / br, a.im / bi};                                           \
      E rat = b.im / b.re, scl = 1 / (b.re + b.im * rat);                           \
      return (T){(a.re + a.im * rat) * scl, (a.im + turned_##F(a.re) * rat) * scl}; \
    }                                                                               \
    E rat = b.re / b.im, scl = 1 / (b.re * rat + b.im);                             \
    return (T){(a.re * rat + a.im) * scl, (a.im * rat + turned_##F(a.re)) * scl};   \
  }                                                                                 \
  static inline T cpow_##ty(T a, T b)                                               \
  {                                                                                 \
    double complex z = cpow(CMPLX(a.re, a.im), CMPLX(b.re, b.im));                  \
    if (b.re == 0 && b.im == 0)                                                     \
      z = 1;                                                                        \
    return (T){(E)creal(z), (E)cimag(z)};                                           \
  }

#define COMPLEX_OPS(ty, T, E, F, R)                                                 \
  COMPLEX_HELPERS(ty, T, E, F)                                                      \
  DEF2(ADD, ty, T, T, (T){a.re + b.re, a.im + b.im})                                \
  DEF2(SUB, ty, T, T, (T){a.re - b.re, a.im - b.im})                                \
  DEF2(MUL, ty, T, T, cmul_##ty(a, b))                                              \
  DEF2(DIV, ty, T, T, cdiv_##ty(a, b))                                              \
  DEF2(POW, ty, T, T, cpow_##ty(a, b))                                              \
  DEF1(NEG, ty, T, T, (T){-a.re, -a.im})                                            \
  DEF2(EQ, ty, t_b, T, (t_b)(a.re == b.re && a.im == b.im))                         \
  DEF2(NE, ty, t_b, T, (t_b)(a.re != b.re || a.im != b.im))                         \
  DEF3(WHERE, ty, T, t_b, T, a ? b : c)                                             \
  DEF1(REAL, ty, E, T, a.re)                                                        \
  DEF1(IMAG, ty, E, T, a.im)                                                        \
  static unsigned FMA_##ty(ARGS)                                                    \
  {                                                                                 \
    T *d = dv;                                                                      \
    const T *pa = av, *pb = bv, *pc = cv;                                           \
    UNUSED;                                                                         \
    for (int64_t i = 0; i < n; i++) {                                               \
      T m = cmul_##ty(pa[i], pb[i]);                                                \
      d[i] = (T){m.re + pc[i].re, m.im + pc[i].im};                                 \
    }                                                                               \
    return 0;                                                                       \
  }                                                                                 \
  DEF2(COMPLEX, R, T, E, (T){a, b})

COMPLEX_OPS(c64, t_c64, float, f, f32)
COMPLEX_OPS(c128, t_c128, double, , f64)

/* -- Rare functions ---------------------------------------------------------------------------- */

typedef double fn_call1(double);
typedef double fn_call2(double, double);
typedef double complex fn_callz(double complex);
#define CALL1(name, fn) fn,
#define CALL2(name, fn)
#define CALLZ(name, fn)
#include "ops/point/special.h"
static fn_call1 *const call1[] = {
#include "ops/table/special.def"
    NULL};
#undef CALL1
#undef CALL2
#define CALL1(name, fn)
#define CALL2(name, fn) fn,
static fn_call2 *const call2[] = {
#include "ops/table/special.def"
    NULL};
#undef CALL2
#undef CALLZ
#define CALL2(name, fn)
#define CALLZ(name, fn) fn,
static fn_callz *const callz[] = {
#include "ops/table/special.def"
    NULL};

DEF1(CALL1, f32, t_f32, t_f32, (float)call1[aux](a))
DEF1(CALL1, f64, t_f64, t_f64, call1[aux](a))
DEF2(CALL2, f32, t_f32, t_f32, (float)call2[aux](a, b))
DEF2(CALL2, f64, t_f64, t_f64, call2[aux](a, b))
static unsigned CALLZ_c64(ARGS)
{
  t_c64 *d = dv;
  const t_c64 *a = av;
  UNUSED;
  for (int64_t i = 0; i < n; i++) {
    double complex z = callz[aux](CMPLX(a[i].re, a[i].im));
    d[i] = (t_c64){(float)creal(z), (float)cimag(z)};
  }
  return 0;
}
static unsigned CALLZ_c128(ARGS)
{
  t_c128 *d = dv;
  const t_c128 *a = av;
  UNUSED;
  for (int64_t i = 0; i < n; i++) {
    double complex z = callz[aux](CMPLX(a[i].re, a[i].im));
    d[i] = (t_c128){creal(z), cimag(z)};
  }
  return 0;
}

/* -- Conversions between block types ----------------------------------------------------------- */

#define CVT_CASE(enumerator, T, ...)                   \
  case enumerator: {                                   \
    const T *pa = av;                                  \
    IVDEP for (int64_t i = 0; i < n; i++)              \
    {                                                  \
      T a = pa[i];                                     \
      d[i] = __VA_ARGS__;                              \
    }                                                  \
    break;                                             \
  }
#define DEFCVT(ty, R, real, complex_)                  \
  static unsigned CVT_##ty(ARGS)                       \
  {                                                    \
    R *d = dv;                                         \
    UNUSED;                                            \
    switch ((tape_type)aux) {                          \
      CVT_CASE(TY_BOOL, t_b, real)                     \
      CVT_CASE(TY_I32, t_i32, real)                    \
      CVT_CASE(TY_I64, t_i64, real)                    \
      CVT_CASE(TY_F32, t_f32, real)                    \
      CVT_CASE(TY_F64, t_f64, real)                    \
      CVT_CASE(TY_C64, t_c64, complex_)                \
      CVT_CASE(TY_C128, t_c128, complex_)              \
    case N_TAPE_TYPES:                                 \
      break;                                           \
    }                                                  \
    return 0;                                          \
  }
DEFCVT(b, t_b, (t_b)(a != 0), (t_b)(a.re != 0 || a.im != 0))
/* through int64, as x86 converts: what is outside wraps instead of being undefined */
DEFCVT(i32, t_i32, (t_i32)(int64_t)a, (t_i32)(int64_t)a.re)
DEFCVT(i64, t_i64, (t_i64)a, (t_i64)a.re)
DEFCVT(f32, t_f32, (float)a, (float)a.re)
DEFCVT(f64, t_f64, (double)a, (double)a.re)
DEFCVT(c64, t_c64, ((t_c64){(float)a, 0}), ((t_c64){(float)a.re, (float)a.im}))
DEFCVT(c128, t_c128, ((t_c128){(double)a, 0}), ((t_c128){(double)a.re, (double)a.im}))

/* -- Memory to blocks and back ----------------------------------------------------------------- */

#define DEFMEM(name, M, T)                                                       \
  static void load_##name(int64_t n, void *dv, const void *av)                   \
  {                                                                              \
    T *d = dv;                                                                   \
    const M *a = av;                                                             \
    for (int64_t i = 0; i < n; i++)                                              \
      d[i] = (T)a[i];                                                            \
  }                                                                              \
  static void store_##name(int64_t n, void *dv, const void *av)                  \
  {                                                                              \
    M *d = dv;                                                                   \
    const T *a = av;                                                             \
    for (int64_t i = 0; i < n; i++)                                              \
      d[i] = (M)a[i];                                                            \
  }
DEFMEM(u8, uint8_t, int32_t)
DEFMEM(i8, int8_t, int32_t)
DEFMEM(i16, int16_t, int32_t)
DEFMEM(u16, uint16_t, int32_t)
DEFMEM(u32, uint32_t, int64_t)

static void load_half(int64_t n, void *d, const void *a) { f32_from_half(false, a, d, n); }
static void store_half(int64_t n, void *d, const void *a) { half_from_f32(false, a, d, n); }
static void load_bf16(int64_t n, void *d, const void *a) { f32_from_half(true, a, d, n); }
static void store_bf16(int64_t n, void *d, const void *a) { half_from_f32(true, a, d, n); }
static unsigned RND_f32(ARGS)
{
  UNUSED;
  if (aux != RUSH_FLOAT16 && aux != RUSH_BFLOAT16) {
    memmove(dv, av, (size_t)n * sizeof(float));
    return 0;
  }
  const float *a = av;
  float *d = dv;
  for (int64_t i = 0; i < n; i += 64) { /* d may be a */
    uint16_t h[64];
    int64_t k = n - i < 64 ? n - i : 64;
    (aux == RUSH_FLOAT16 ? store_half : store_bf16)(k, h, a + i);
    (aux == RUSH_FLOAT16 ? load_half : load_bf16)(k, d + i, h);
  }
  return 0;
}
static unsigned RND_f64(ARGS)
{
  UNUSED;
  memmove(dv, av, (size_t)n * sizeof(double));
  return 0;
}

static void load_c32(int64_t n, void *dv, const void *av) { load_half(2 * n, dv, av); }
static void store_c32(int64_t n, void *dv, const void *av) { store_half(2 * n, dv, av); }

#define DEFF8(dtype, name)                                                       \
  static void load_##name(int64_t n, void *dv, const void *av)                   \
  {                                                                              \
    float *d = dv;                                                               \
    const uint8_t *a = av;                                                       \
    for (int64_t i = 0; i < n; i++)                                              \
      d[i] = float8_to_float(dtype, a[i]);                                       \
  }                                                                              \
  static void store_##name(int64_t n, void *dv, const void *av)                  \
  {                                                                              \
    uint8_t *d = dv;                                                             \
    const float *a = av;                                                         \
    for (int64_t i = 0; i < n; i++)                                              \
      d[i] = float8_from_float(dtype, a[i]);                                     \
  }
DEFF8(RUSH_FLOAT8_E5M2, e5m2)
DEFF8(RUSH_FLOAT8_E4M3FN, e4m3fn)
DEFF8(RUSH_FLOAT8_E5M2FNUZ, e5m2fnuz)
DEFF8(RUSH_FLOAT8_E4M3FNUZ, e4m3fnuz)

static void fill_block(int64_t n, void *dv, const void *one, int64_t item)
{
  switch (item) {
#define CASE(T)                     \
  case sizeof(T): {                 \
    T v, *d = dv;                   \
    memcpy(&v, one, sizeof v);      \
    for (int64_t i = 0; i < n; i++) \
      d[i] = v;                     \
    return;                         \
  }
    CASE(uint8_t)
    CASE(uint16_t)
    CASE(uint32_t)
    CASE(uint64_t)
#undef CASE
  }
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)dv + i * item, one, (size_t)item);
}

/* -- The table --------------------------------------------------------------------------------- */

#define ROW_b(op) [TY_BOOL] = op##_b
#define ROW_i(op) [TY_I32] = op##_i32, [TY_I64] = op##_i64
#define ROW_f(op) [TY_F32] = op##_f32, [TY_F64] = op##_f64
#define ROW_c(op) [TY_C64] = op##_c64, [TY_C128] = op##_c128
#define ROW_bi(op) ROW_b(op), ROW_i(op)
#define ROW_if(op) ROW_i(op), ROW_f(op)
#define ROW_fc(op) ROW_f(op), ROW_c(op)
#define ROW_bif(op) ROW_b(op), ROW_i(op), ROW_f(op)
#define ROW_ifc(op) ROW_i(op), ROW_f(op), ROW_c(op)
#define ROW_bifc(op) ROW_b(op), ROW_i(op), ROW_f(op), ROW_c(op)
#define ROW_0(op, classes)
#define ROW_1(op, classes) [TAPE_##op] = {ROW_##classes(op)},
#define ROW_USED_(uses, op, classes) ROW_##uses(op, classes)
#define ROW_USED(uses, op, classes) ROW_USED_(uses, op, classes)
/* Empty if no operator of the table uses it (-Dops): the compiler drops its loops. */
#define R(op, classes) ROW_USED(TAPE_USES_##op, op, classes)

static const tape_isa loops = {
  .fns = {R(CVT, bifc) R(RND, f) R(ADD, ifc) R(SUB, ifc) R(MUL, ifc) R(FMA, ifc) R(DIV, fc)
            R(TDIV, i) R(FDIV, if) R(FMOD, if) R(REM, if) R(NEG, ifc) R(ABS, if) R(POW, ifc)
              R(IPOW, i) R(MAX, if) R(MIN, if) R(FMAX, f) R(FMIN, f) R(GCD, i) R(AND, bi) R(OR, bi)
                R(XOR, bi) R(NOT, bi) R(SHL, i) R(SHR, i) R(EQ, bifc) R(NE, bifc) R(LT, bif)
                  R(LE, bif) R(WHERE, bifc) R(FLOOR, f) R(CEIL, f) R(TRUNC, f) R(RINT, f)
                    R(SIGNBIT, f) R(COPYSIGN, f) R(NEXTAFTER, f) R(LDEXP, f) R(FREXPM, f)
                      R(FREXPE, f) R(SQRT, f) R(RSQRT, f) R(EXP, f) R(EXP2, f) R(EXPM1, f) R(LOG, f)
                        R(LOG2, f) R(LOG10, f) R(LOG1P, f) R(SIGMOID, f) R(TANH, f) R(SINH, f)
                          R(COSH, f) R(SIN, f) R(COS, f) R(TAN, f) R(ASIN, f) R(ACOS, f) R(ATAN, f)
                            R(ATAN2, f) R(HYPOT, f) R(ERF, f) R(PHI, f) R(REAL, c) R(IMAG, c)
                              R(COMPLEX, f) R(CALL1, f) R(CALL2, f) R(CALLZ, c)},
  .fill = fill_block,
  .load = {[RUSH_UINT8] = load_u8,
           [RUSH_INT8] = load_i8,
           [RUSH_INT16] = load_i16,
           [RUSH_UINT16] = load_u16,
           [RUSH_UINT32] = load_u32,
           [RUSH_FLOAT16] = load_half,
           [RUSH_BFLOAT16] = load_bf16,
           [RUSH_COMPLEX32] = load_c32,
           [RUSH_FLOAT8_E5M2] = load_e5m2,
           [RUSH_FLOAT8_E4M3FN] = load_e4m3fn,
           [RUSH_FLOAT8_E5M2FNUZ] = load_e5m2fnuz,
           [RUSH_FLOAT8_E4M3FNUZ] = load_e4m3fnuz},
  .store = {[RUSH_UINT8] = store_u8,
            [RUSH_INT8] = store_i8,
            [RUSH_INT16] = store_i16,
            [RUSH_UINT16] = store_u16,
            [RUSH_UINT32] = store_u32,
            [RUSH_FLOAT16] = store_half,
            [RUSH_BFLOAT16] = store_bf16,
            [RUSH_COMPLEX32] = store_c32,
            [RUSH_FLOAT8_E5M2] = store_e5m2,
            [RUSH_FLOAT8_E4M3FN] = store_e4m3fn,
            [RUSH_FLOAT8_E5M2FNUZ] = store_e5m2fnuz,
            [RUSH_FLOAT8_E4M3FNUZ] = store_e4m3fnuz},
};

const tape_isa *ISA_NAME(tape_isa)(void) { return &loops; }
