/* ops/point/vmath.h -- scalar math that compilers turn into vector code.
 *
 * vm_<fn>_f32(float) and vm_<fn>_f64(double) are branch-free where the list below has "vector": a
 * loop over them vectorises at -O3 with any instruction set, and gives the same bits with each
 * (explicit fma, no contraction, rounding by adding a magic number instead of an instruction that
 * may be missing).  Compile with -ffp-contract=off -fno-math-errno -fno-trapping-math.
 *
 *   f32, vector:  exp exp2 expm1 log log2 log10 log1p sigmoid tanh sinh cosh erf sin cos tan
 *                 asin acos atan atan2 pow sqrt rsqrt rint
 *   f64, vector:  exp log tanh sigmoid sqrt rsqrt rint; the others call libm
 *   scalar calls: erfc asinh acosh atanh lgamma digamma erfinv
 *
 * Accuracy: f32 at most about 2 ulp (exp, log, erf 1.1; limits in tests/python/vector_math.py),
 * with libm's infinities, NaN, signed zeros and denormals.  The polynomials are minimax fits by
 * weighted least squares; argument reduction is by two or three fused steps.
 *
 * sin, cos, tan reduce in double and are right for |x| < 2^45 (f32).  Beyond, they would lose
 * digits, so the f32 functions need VM_TRIG_FIX: a loop is two loops, the vector one and
 *   for (i...) if (VM_TRIG_BIG_F32(src[i])) dst[i] = vm_sin_big_f32(src[i]);
 * which costs a compare per element.  Infinities and NaN need no fixing. */
#ifndef RUSH_OPS_VMATH_H
#define RUSH_OPS_VMATH_H

#include <math.h>
#include <stdint.h>

#define VM_INLINE static inline __attribute__((always_inline, unused))

typedef union vm_pun32 {
  float f;
  uint32_t u;
  int32_t i;
} vm_pun32;
typedef union vm_pun64 {
  double f;
  uint64_t u;
  int64_t i;
} vm_pun64;

VM_INLINE uint32_t vm_bits32(float x) { return ((vm_pun32){.f = x}).u; }
VM_INLINE float vm_from32(uint32_t u) { return ((vm_pun32){.u = u}).f; }
VM_INLINE uint64_t vm_bits64(double x) { return ((vm_pun64){.f = x}).u; }
VM_INLINE double vm_from64(uint64_t u) { return ((vm_pun64){.u = u}).f; }
VM_INLINE float vm_fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
VM_INLINE double vm_fma64(double a, double b, double c) { return __builtin_fma(a, b, c); }
VM_INLINE float vm_abs32(float x) { return __builtin_fabsf(x); }
VM_INLINE double vm_abs64(double x) { return __builtin_fabs(x); }
/* Return |a| with b's sign, by bits: __builtin_copysignf is not vectorised everywhere. */
VM_INLINE float vm_sign32(float a, float b)
{
  return vm_from32((vm_bits32(a) & 0x7fffffffu) | (vm_bits32(b) & 0x80000000u));
}
VM_INLINE double vm_sign64(double a, double b)
{
  const uint64_t s = UINT64_C(1) << 63;
  return vm_from64((vm_bits64(a) & ~s) | (vm_bits64(b) & s));
}

#define VM_NAN32 vm_from32(0x7fc00000u)
#define VM_INF32 vm_from32(0x7f800000u)
#define VM_NAN64 vm_from64(UINT64_C(0x7ff8000000000000))
#define VM_INF64 vm_from64(UINT64_C(0x7ff0000000000000))

/* -- Rounding, roots --------------------------------------------------------------------------- */

/* Round to nearest, ties to even: adding 2^23 leaves no fraction bits. */
VM_INLINE float vm_rint_f32(float x)
{
  float a = vm_abs32(x);
  float r = (a + 0x1p23f) - 0x1p23f;
  r = a < 0x1p23f ? r : a;
  return vm_sign32(r, x);
}
VM_INLINE double vm_rint_f64(double x)
{
  double a = vm_abs64(x);
  double r = (a + 0x1p52) - 0x1p52;
  r = a < 0x1p52 ? r : a;
  return vm_sign64(r, x);
}
VM_INLINE float vm_sqrt_f32(float x) { return __builtin_sqrtf(x); }
VM_INLINE double vm_sqrt_f64(double x) { return __builtin_sqrt(x); }
VM_INLINE float vm_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
VM_INLINE double vm_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

/* -- Exponentials, float ----------------------------------------------------------------------- */

/* Multiply by 2^n in two factors, so that results among the denormals round once and 2^128 is
 * reached. */
VM_INLINE float vm_scale32(float y, int32_t n)
{
  int32_t a = n >> 1, b = n - a;
  return y * vm_from32((uint32_t)(a + 127) << 23) * vm_from32((uint32_t)(b + 127) << 23);
}
/* Reduce x = n ln 2 + r with |r| <= ln 2 / 2. */
VM_INLINE float vm_exp_reduce32(float x, int32_t *n)
{
  float t = vm_fma32(x, 0x1.715476p+0f, 0x1.8p23f);
  float k = t - 0x1.8p23f;
  *n = (int32_t)(vm_bits32(t) - 0x4b400000u);
  float r = vm_fma32(k, -0x1.62e4p-1f, x);
  return vm_fma32(k, -0x1.7f7d1cp-20f, r);
}
/* Return exp(r) for the reduced r. */
VM_INLINE float vm_exp_poly32(float r)
{
  float p = 0x1.6a26f6p-10f;
  p = vm_fma32(p, r, 0x1.123b04p-7f);
  p = vm_fma32(p, r, 0x1.5558f2p-5f);
  p = vm_fma32(p, r, 0x1.555490p-3f);
  p = vm_fma32(p, r, 0x1.fffffcp-2f);
  return vm_fma32(r * r, p, r) + 1.0f;
}
VM_INLINE float vm_exp_f32(float x)
{
  int32_t n;
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  float r = vm_exp_reduce32(x, &n);
  return vm_scale32(vm_exp_poly32(r), n);
}
VM_INLINE float vm_exp2_f32(float x)
{
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  float t = x + 0x1.8p23f;
  float f = x - (t - 0x1.8p23f);
  int32_t n = (int32_t)(vm_bits32(t) - 0x4b400000u);
  float r = f * 0x1.62e430p-1f;
  r = vm_fma32(f, -0x1.05c610p-29f, r);
  return vm_scale32(vm_exp_poly32(r), n);
}
/* Return exp(r) - 1 for the reduced r. */
VM_INLINE float vm_expm1_poly32(float r)
{
  float p = 0x1.6d99f6p-10f;
  p = vm_fma32(p, r, 0x1.12290ep-7f);
  p = vm_fma32(p, r, 0x1.555486p-5f);
  p = vm_fma32(p, r, 0x1.5554aep-3f);
  p = vm_fma32(p, r, 0x1.000000p-1f);
  return vm_fma32(r * r, p, r);
}
VM_INLINE float vm_expm1_f32(float x)
{
  int32_t n;
  float c = x > 89.0f ? 89.0f : x;
  c = c < -20.0f ? -20.0f : c;
  float r = vm_exp_reduce32(c, &n);
  float p = vm_expm1_poly32(r);
  float s = vm_from32((uint32_t)(n + 126) << 23); /* 2^(n-1) */
  float y = vm_fma32(p, s, s - 0.5f);
  y = y + y;
  y = n == 0 ? p : y;
  return x == 0.0f ? x : y;
}
VM_INLINE float vm_sigmoid_f32(float x) { return 1.0f / (1.0f + vm_exp_f32(-x)); }

VM_INLINE float vm_tanh_f32(float x)
{
  float a = vm_abs32(x), s = a * a;
  float p = -0x1.6f3eccp-8f;
  p = vm_fma32(p, s, 0x1.50b73ep-6f);
  p = vm_fma32(p, s, -0x1.b80678p-5f);
  p = vm_fma32(p, s, 0x1.1105a0p-3f);
  p = vm_fma32(p, s, -0x1.55552cp-2f);
  float small = vm_fma32(a * s, p, a);
  float b = a > 10.0f ? 10.0f : a;
  float big = 1.0f - 2.0f / (vm_exp_f32(b + b) + 1.0f);
  float y = vm_sign32(a < 0.625f ? small : big, x);
  return x != x ? x : y;
}
VM_INLINE float vm_sinh_f32(float x)
{
  float a = vm_abs32(x), s = a * a;
  float p = 0x1.ab5838p-13f;
  p = vm_fma32(p, s, 0x1.10f6e2p-7f);
  p = vm_fma32(p, s, 0x1.55559ap-3f);
  float small = vm_fma32(a * s, p, a);
  int32_t n;
  float b = a > 90.0f ? 90.0f : a;
  float e = vm_exp_poly32(vm_exp_reduce32(b, &n));
  float h = vm_scale32(e, n - 1);                           /* e^a / 2 */
  float big = h - 0.25f / h;
  return vm_sign32(a < 1.0f ? small : big, x);
}
VM_INLINE float vm_cosh_f32(float x)
{
  int32_t n;
  float a = vm_abs32(x);
  a = a > 90.0f ? 90.0f : a;
  float e = vm_exp_poly32(vm_exp_reduce32(a, &n));
  float h = vm_scale32(e, n - 1);
  return h + 0.25f / h;
}

/* -- Logarithms, float ------------------------------------------------------------------------- */

/* Split x = 2^e (1 + f), 1 + f in [2/3, 4/3).  x must be positive and normal. */
VM_INLINE float vm_log_split32(float x, float *e)
{
  uint32_t u = vm_bits32(x);
  uint32_t k = (u - 0x3f2aaaabu) & 0xff800000u;
  *e = (float)((int32_t)k >> 23);
  return vm_from32(u - k) - 1.0f;
}
/* Return log(1 + f) - f. */
VM_INLINE float vm_log_tail32(float f)
{
  float p = -0x1.0def9cp-3f;
  p = vm_fma32(p, f, 0x1.1e01d2p-3f);
  p = vm_fma32(p, f, -0x1.f056f8p-4f);
  p = vm_fma32(p, f, 0x1.1eee5cp-3f);
  p = vm_fma32(p, f, -0x1.55b6f4p-3f);
  p = vm_fma32(p, f, 0x1.99ce7ap-3f);
  p = vm_fma32(p, f, -0x1.fffe64p-3f);
  p = vm_fma32(p, f, 0x1.55550cp-2f);
  p = vm_fma32(p, f, -0.5f);
  return f * f * p;
}
/* Return any logarithm's value for zero, negatives, infinity and NaN. */
VM_INLINE float vm_log_special32(float x, float y)
{
  y = x < VM_INF32 ? y : x;          /* +inf, NaN */
  y = x < 0.0f ? VM_NAN32 : y;
  return x == 0.0f ? -VM_INF32 : y;
}
VM_INLINE float vm_log_f32(float x)
{
  float e, den = x < 0x1p-126f ? 23.0f : 0.0f;
  float f = vm_log_split32(x < 0x1p-126f ? x * 0x1p23f : x, &e);
  e -= den;
  float t = vm_fma32(e, 0x1.7f7d1cp-20f, vm_log_tail32(f));
  return vm_log_special32(x, vm_fma32(e, 0x1.62e4p-1f, f + t));
}
VM_INLINE float vm_log2_f32(float x)
{
  float e, den = x < 0x1p-126f ? 23.0f : 0.0f;
  float f = vm_log_split32(x < 0x1p-126f ? x * 0x1p23f : x, &e);
  float t = vm_log_tail32(f), h = f + t, l = (f - h) + t;
  l = vm_fma32(h, 0x1.4ae0cp-26f, l * 0x1.715476p+0f);
  return vm_log_special32(x, vm_fma32(h, 0x1.715476p+0f, l) + (e - den));
}
VM_INLINE float vm_log10_f32(float x)
{
  float e, den = x < 0x1p-126f ? 23.0f : 0.0f;
  float f = vm_log_split32(x < 0x1p-126f ? x * 0x1p23f : x, &e);
  e -= den;
  float t = vm_log_tail32(f), h = f + t, l = (f - h) + t;
  l = vm_fma32(h, -0x1.5b235ep-27f, l * 0x1.bcb7b2p-2f);
  l = vm_fma32(e, -0x1.ec10c0p-27f, l);
  float y = vm_fma32(h, 0x1.bcb7b2p-2f, l);
  return vm_log_special32(x, vm_fma32(e, 0x1.344136p-2f, y));
}
VM_INLINE float vm_log1p_f32(float x)
{
  float e, u = 1.0f + x;
  float c = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x); /* the rounding error of 1 + x */
  float f = vm_log_split32(u, &e);
  float scale = vm_from32((uint32_t)(127 - (int32_t)e) << 23);
  c = u < 0x1p26f ? c * scale : 0.0f;
  f = f + c;
  float t = vm_fma32(e, 0x1.7f7d1cp-20f, vm_log_tail32(f));
  float y = vm_fma32(e, 0x1.62e4p-1f, f + t);
  y = vm_log_special32(u, y);
  return vm_abs32(x) < 0x1p-25f ? x : y;
}

/* -- Error function, float --------------------------------------------------------------------- */

VM_INLINE float vm_erf_f32(float x)
{
  float a = vm_abs32(x), s = a * a;
  float p = -0x1.395826p-11f;
  p = vm_fma32(p, s, 0x1.471592p-8f);
  p = vm_fma32(p, s, -0x1.b686b4p-6f);
  p = vm_fma32(p, s, 0x1.ce1a42p-4f);
  p = vm_fma32(p, s, -0x1.8126e6p-2f);
  p = vm_fma32(p, s, 0x1.06eba6p-3f);
  float small = vm_fma32(p, a, a);
  float b = a > 4.0f ? 4.0f : a; /* 1 - 1.5e-8 already rounds to 1 */
  float q = -0x1.860f1ap-17f;    /* log(erfc(b)) + b, over 0.93..4 */
  q = vm_fma32(q, b, 0x1.569d48p-12f);
  q = vm_fma32(q, b, -0x1.df8638p-9f);
  q = vm_fma32(q, b, 0x1.85df80p-6f);
  q = vm_fma32(q, b, -0x1.b34ebcp-4f);
  q = vm_fma32(q, b, -0x1.452f6ep-1f);
  q = vm_fma32(q, b, -0x1.077bf0p-3f);
  float big = 1.0f - vm_exp_f32(vm_fma32(q, b, -b));
  float y = vm_sign32(a < 0.93f ? small : big, x);
  return x != x ? x : y;
}
/* The distribution function of the normal distribution. */
VM_INLINE float vm_phi_f32(float x) { return vm_fma32(0.5f, vm_erf_f32(x * 0x1.6a09e6p-1f), 0.5f); }
VM_INLINE float vm_erfc_f32(float x) { return erfcf(x); }

/* -- Circular functions, float ----------------------------------------------------------------- */

#define VM_TRIG_BIG_F32(x) (vm_abs32(x) >= 0x1p45f && vm_abs32(x) < VM_INF32)

/* Reduce x = n pi/2 + r with |r| <= pi/4; n modulo 2^32.  In double: exact to float for |x| <
 * 2^45. */
VM_INLINE float vm_trig_reduce32(float x, uint32_t *n)
{
  double d = x;
  double t = vm_fma64(d, 0x1.45f306dc9c883p-1, 0x1.8p52);
  double k = t - 0x1.8p52;
  *n = (uint32_t)vm_bits64(t);
  double r = vm_fma64(k, -0x1.921fb54442d18p+0, d);
  return (float)vm_fma64(k, -0x1.1a62633145c07p-54, r);
}
VM_INLINE float vm_sin_poly32(float r)
{
  float s = r * r, p = -0x1.992c14p-13f;
  p = vm_fma32(p, s, 0x1.1106fcp-7f);
  p = vm_fma32(p, s, -0x1.555544p-3f);
  return vm_fma32(r * s, p, r);
}
VM_INLINE float vm_cos_poly32(float r)
{
  float s = r * r, p = 0x1.99e31ap-16f;
  p = vm_fma32(p, s, -0x1.6c0c22p-10f);
  p = vm_fma32(p, s, 0x1.55554ap-5f);
  p = vm_fma32(p, s, -0.5f);
  return vm_fma32(p, s, 1.0f);
}
VM_INLINE float vm_sin_f32(float x)
{
  uint32_t n;
  float r = vm_trig_reduce32(x, &n), s = vm_sin_poly32(r), c = vm_cos_poly32(r);
  float y = (n & 1) ? c : s;
  y = vm_from32(vm_bits32(y) ^ (n & 2) << 30);
  return x == 0.0f ? x : y;
}
VM_INLINE float vm_cos_f32(float x)
{
  uint32_t n;
  float r = vm_trig_reduce32(x, &n), s = vm_sin_poly32(r), c = vm_cos_poly32(r);
  float y = (n & 1) ? s : c;
  return vm_from32(vm_bits32(y) ^ ((n + 1) & 2) << 30);
}
VM_INLINE float vm_tan_f32(float x)
{
  uint32_t n;
  float r = vm_trig_reduce32(x, &n), s = r * r, p = 0x1.288b3ap-8f;
  p = vm_fma32(p, s, -0x1.bfc1dcp-13f);
  p = vm_fma32(p, s, 0x1.6af5e2p-7f);
  p = vm_fma32(p, s, 0x1.5b2650p-6f);
  p = vm_fma32(p, s, 0x1.bb027ep-5f);
  p = vm_fma32(p, s, 0x1.110cb0p-3f);
  p = vm_fma32(p, s, 0x1.555564p-2f);
  float t = vm_fma32(r * s, p, r);
  float y = (n & 1) ? -1.0f / t : t;
  return x == 0.0f ? x : y;
}
VM_INLINE float vm_sin_big_f32(float x) { return (float)sin((double)x); }
VM_INLINE float vm_cos_big_f32(float x) { return (float)cos((double)x); }
VM_INLINE float vm_tan_big_f32(float x) { return (float)tan((double)x); }

/* -- Inverse circular functions, float --------------------------------------------------------- */

/* Return asin(s) - s for s <= 0.5, given z = s * s. */
VM_INLINE float vm_asin_tail32(float s, float z)
{
  float p = 0x1.59daf2p-5f;
  p = vm_fma32(p, z, 0x1.8ba240p-6f);
  p = vm_fma32(p, z, 0x1.748c62p-5f);
  p = vm_fma32(p, z, 0x1.33014ep-4f);
  p = vm_fma32(p, z, 0x1.5555cap-3f);
  return s * z * p;
}
VM_INLINE float vm_asin_f32(float x)
{
  float a = vm_abs32(x), zb = vm_fma32(a, -0.5f, 0.5f);
  float z = a <= 0.5f ? a * a : zb;
  float s = a <= 0.5f ? a : __builtin_sqrtf(zb);
  float t = vm_asin_tail32(s, z);
  float big = 0x1.921fb6p+0f - 2.0f * (s + (t + 0x1.777a5cp-26f));
  float y = vm_sign32(a <= 0.5f ? s + t : big, x);
  return a <= 1.0f ? y : VM_NAN32;
}
VM_INLINE float vm_acos_f32(float x)
{
  float a = vm_abs32(x), zb = vm_fma32(a, -0.5f, 0.5f);
  float z = a <= 0.5f ? x * x : zb;
  float s = a <= 0.5f ? x : __builtin_sqrtf(zb);
  float t = vm_asin_tail32(s, z);
  float mid = 0x1.921fb6p+0f - (s + (t + 0x1.777a5cp-25f));
  float end = 2.0f * (s + t);
  end = x < 0.0f ? 0x1.921fb6p+1f - (end + 0x1.777a5cp-24f) : end;
  float y = a <= 0.5f ? mid : end;
  return a <= 1.0f ? y : VM_NAN32;
}
/* Return atan(a) for 0 <= a <= 1. */
VM_INLINE float vm_atan_poly32(float a)
{
  float s = a * a, p = 0x1.85c846p-9f;
  p = vm_fma32(p, s, -0x1.0f9d74p-6f);
  p = vm_fma32(p, s, 0x1.64bfe8p-5f);
  p = vm_fma32(p, s, -0x1.367bc2p-4f);
  p = vm_fma32(p, s, 0x1.b566ccp-4f);
  p = vm_fma32(p, s, -0x1.231b26p-3f);
  p = vm_fma32(p, s, 0x1.997ad6p-3f);
  p = vm_fma32(p, s, -0x1.5554e6p-2f);
  return vm_fma32(a * s, p, a);
}
VM_INLINE float vm_atan_f32(float x)
{
  float a = vm_abs32(x);
  float r = vm_atan_poly32(a > 1.0f ? 1.0f / a : a);
  r = a > 1.0f ? 0x1.921fb6p+0f - (r + 0x1.777a5cp-25f) : r;
  return vm_sign32(r, x);
}
VM_INLINE float vm_atan2_f32(float y, float x)
{
  float ax = vm_abs32(x), ay = vm_abs32(y);
  float lo = ax < ay ? ax : ay, hi = ax < ay ? ay : ax;
  float q = lo / hi;
  q = lo == hi ? 1.0f : q; /* inf / inf */
  q = hi == 0.0f ? 0.0f : q;
  float r = vm_atan_poly32(q);
  r = ay > ax ? 0x1.921fb6p+0f - (r + 0x1.777a5cp-25f) : r;
  r = (vm_bits32(x) >> 31) ? 0x1.921fb6p+1f - (r + 0x1.777a5cp-24f) : r;
  r = vm_sign32(r, y);
  return x != x || y != y ? VM_NAN32 : r;
}

/* -- Power, float: through double, where 2^-40 is cheap ---------------------------------------- */

/* Return log2 of a positive normal double, with relative error of about 1e-12. */
VM_INLINE double vm_log2_coarse64(double x)
{
  uint64_t u = vm_bits64(x);
  uint64_t k = (u - UINT64_C(0x3fe5555555555555)) & UINT64_C(0xfff0000000000000);
  double m = vm_from64(u - k);
  /* k is a signed exponent shifted up by 52; bias it to be positive, then read it as a fraction */
  uint64_t b = (k + (UINT64_C(1024) << 52)) >> 52;
  double e = vm_from64(b | UINT64_C(0x4330000000000000)) - (0x1p52 + 1024.0);
  double s = (m - 1.0) / (m + 1.0), z = s * s, p = 0x1.9c190db7ed43ep-3;
  p = vm_fma64(p, z, 0x1.c553f8215cdb9p-3);
  p = vm_fma64(p, z, 0x1.2496e2d308847p-2);
  p = vm_fma64(p, z, 0x1.99998f480e0aap-2);
  p = vm_fma64(p, z, 0x1.5555555915f26p-1);
  double l = vm_fma64(s * z, p, s + s);
  return vm_fma64(l, 0x1.71547652b82fep+0, e);
}
/* Return 2^z for |z| <= 1000, with relative error of about 1e-10. */
VM_INLINE double vm_exp2_coarse64(double z)
{
  double t = z + 0x1.8p52, r = z - (t - 0x1.8p52), p = 0x1.00f12f8c0f8d9p-16;
  p = vm_fma64(p, r, 0x1.445e6b21d53e9p-13);
  p = vm_fma64(p, r, 0x1.5d87239a04bfap-10);
  p = vm_fma64(p, r, 0x1.3b29f0fd00246p-7);
  p = vm_fma64(p, r, 0x1.c6b08df4862a8p-5);
  p = vm_fma64(p, r, 0x1.ebfbe07ab81a0p-3);
  p = vm_fma64(p, r, 0x1.62e42fef7b513p-1);
  p = vm_fma64(p, r, 1.0);
  return vm_from64(vm_bits64(p) + (vm_bits64(t) << 52));
}
VM_INLINE float vm_pow_f32(float x, float y)
{
  double ax = vm_abs32(x), ay = vm_abs32(y), dy = y;
  double l = vm_log2_coarse64(ax);
  l = ax == 0.0 ? -VM_INF64 : l;
  l = ax < VM_INF64 ? l : ax; /* inf, NaN */
  double z = l * dy;
  z = ax == 1.0 || y == 0.0f ? 0.0 : z;
  z = z > 200.0 ? 200.0 : z;
  z = z < -200.0 ? -200.0 : z;
  float r = (float)vm_exp2_coarse64(z);
  double t = ay + 0x1p52; /* its last bit is the parity of an integer below 2^24 */
  int whole = ay >= 0x1p24 || (t - 0x1p52) == ay;
  uint32_t odd = ay < 0x1p24 ? (uint32_t)vm_bits64(t) & 1u : 0u;
  uint32_t sign = whole ? (odd << 31) & vm_bits32(x) : 0u;
  r = vm_from32(vm_bits32(r) | sign);
  r = x < 0.0f && !whole && ax < VM_INF64 ? VM_NAN32 : r;
  r = x != x || y != y ? VM_NAN32 : r;
  return x == 1.0f || y == 0.0f ? 1.0f : r;
}

/* -- Double ------------------------------------------------------------------------------------ */

VM_INLINE double vm_exp_f64(double x)
{
  double c = x > 710.0 ? 710.0 : x;
  c = c < -746.0 ? -746.0 : c;
  double t = vm_fma64(c, 0x1.71547652b82fep+0, 0x1.8p52), k = t - 0x1.8p52;
  double r = vm_fma64(k, -0x1.62e42fefa39efp-1, c);
  r = vm_fma64(k, -0x1.abc9e3b39803fp-56, r);
  double p = 0x1.1e3fa37ac8e19p-29;
  p = vm_fma64(p, r, 0x1.af6c4037b3615p-26);
  p = vm_fma64(p, r, 0x1.27e5b25855bd2p-22);
  p = vm_fma64(p, r, 0x1.71ddefee674eep-19);
  p = vm_fma64(p, r, 0x1.a01a0137aade3p-16);
  p = vm_fma64(p, r, 0x1.a01a01b392844p-13);
  p = vm_fma64(p, r, 0x1.6c16c16c3002ep-10);
  p = vm_fma64(p, r, 0x1.111111110ec27p-7);
  p = vm_fma64(p, r, 0x1.5555555555504p-5);
  p = vm_fma64(p, r, 0x1.555555555555bp-3);
  p = vm_fma64(p, r, 0.5);
  double y = vm_fma64(r * r, p, r) + 1.0;
  /* 2^k in two factors; halves of k by another magic sum */
  double h = vm_fma64(k, 0.5, 0x1.8p52);
  uint64_t n1 = vm_bits64(h) - vm_bits64(0x1.8p52), n2 = vm_bits64(t) - vm_bits64(0x1.8p52) - n1;
  return y * vm_from64((n1 + 1023) << 52) * vm_from64((n2 + 1023) << 52);
}
VM_INLINE double vm_log_f64(double x)
{
  double den = x < 0x1p-1022 ? 54.0 : 0.0;
  uint64_t u = vm_bits64(x < 0x1p-1022 ? x * 0x1p54 : x);
  uint64_t k = (u - UINT64_C(0x3fe5555555555555)) & UINT64_C(0xfff0000000000000);
  double f = vm_from64(u - k) - 1.0;
  uint64_t b = (k + (UINT64_C(2048) << 52 >> 1)) >> 52;
  double e = vm_from64(b | UINT64_C(0x4330000000000000)) - (0x1p52 + 1024.0) - den;
  double s = f / (2.0 + f), z = s * s, p = 0x1.1b6a72f2f3a04p-3;
  p = vm_fma64(p, z, 0x1.0dcefc40ca97cp-3);
  p = vm_fma64(p, z, 0x1.3b358d60fb17bp-3);
  p = vm_fma64(p, z, 0x1.745c4c6a2a528p-3);
  p = vm_fma64(p, z, 0x1.c71c748937675p-3);
  p = vm_fma64(p, z, 0x1.24924921eb76fp-2);
  p = vm_fma64(p, z, 0x1.999999999c106p-2);
  p = vm_fma64(p, z, 0x1.555555555554fp-1);
  /* log(1+f) = f - (f^2/2 - s (f^2/2 + z p)): the large part f stays exact */
  double h = 0.5 * f * f;
  double tail = vm_fma64(s, vm_fma64(z, p, h), vm_fma64(e, 0x1.abc9e3b39803fp-56, -h));
  double y = vm_fma64(e, 0x1.62e42fefa39efp-1, f + tail);
  y = x < VM_INF64 ? y : x;
  y = x < 0.0 ? VM_NAN64 : y;
  return x == 0.0 ? -VM_INF64 : y;
}
VM_INLINE double vm_sigmoid_f64(double x) { return 1.0 / (1.0 + vm_exp_f64(-x)); }

VM_INLINE double vm_exp2_f64(double x) { return exp2(x); }
VM_INLINE double vm_expm1_f64(double x) { return expm1(x); }
VM_INLINE double vm_log2_f64(double x) { return log2(x); }
VM_INLINE double vm_log10_f64(double x) { return log10(x); }
VM_INLINE double vm_log1p_f64(double x) { return log1p(x); }
VM_INLINE double vm_tanh_f64(double x) { return tanh(x); }
VM_INLINE double vm_sinh_f64(double x) { return sinh(x); }
VM_INLINE double vm_cosh_f64(double x) { return cosh(x); }
VM_INLINE double vm_erf_f64(double x) { return erf(x); }
VM_INLINE double vm_phi_f64(double x) { return 0.5 * erfc(-x * 0x1.6a09e667f3bcdp-1); }
VM_INLINE double vm_erfc_f64(double x) { return erfc(x); }
VM_INLINE double vm_sin_f64(double x) { return sin(x); }
VM_INLINE double vm_cos_f64(double x) { return cos(x); }
VM_INLINE double vm_tan_f64(double x) { return tan(x); }
VM_INLINE double vm_asin_f64(double x) { return asin(x); }
VM_INLINE double vm_acos_f64(double x) { return acos(x); }
VM_INLINE double vm_atan_f64(double x) { return atan(x); }
VM_INLINE double vm_atan2_f64(double y, double x) { return atan2(y, x); }
VM_INLINE double vm_pow_f64(double x, double y) { return pow(x, y); }

/* -- Scalar calls ------------------------------------------------------------------------------ */

VM_INLINE double vm_asinh_f64(double x) { return asinh(x); }
VM_INLINE double vm_acosh_f64(double x) { return acosh(x); }
VM_INLINE double vm_atanh_f64(double x) { return atanh(x); }
VM_INLINE float vm_asinh_f32(float x) { return (float)asinh((double)x); }
VM_INLINE float vm_acosh_f32(float x) { return (float)acosh((double)x); }
VM_INLINE float vm_atanh_f32(float x) { return (float)atanh((double)x); }

/* Return log|gamma(x)|; lgamma() itself writes a global. */
double vm_lgamma_f64(double x);
/* Return psi(x); -inf or +inf at +0 and -0, NaN at negative integers, as PyTorch. */
double vm_digamma_f64(double x);
/* Compute the inverse of erf; NaN beyond 1, infinities at 1. */
double vm_erfinv_f64(double x);
VM_INLINE float vm_lgamma_f32(float x) { return (float)vm_lgamma_f64((double)x); }
VM_INLINE float vm_digamma_f32(float x) { return (float)vm_digamma_f64((double)x); }
VM_INLINE float vm_erfinv_f32(float x) { return (float)vm_erfinv_f64((double)x); }

#endif
