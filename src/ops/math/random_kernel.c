/* ops/math/random_kernel.c -- normals in blocks of 16, compiled once per instruction set
 * (base/isa.h).
 *
 * PyTorch fills large float tensors by Box and Muller's formula on blocks of eight pairs, with the
 * single precision polynomials of the Cephes library for the logarithm, sine and cosine.  These are
 * the same polynomials in the same order, so that the numbers are the same: a * b + c below is one
 * rounding (fmaf) exactly where it is in PyTorch's build. */
#include "base/isa.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float from_bits(uint32_t u)
{
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
static inline uint32_t to_bits(float f)
{
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* Return the natural logarithm of x in (0, 1]. */
static inline float log_of(float x)
{
  static const float p[9] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                             -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                             2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  const uint32_t bits = to_bits(x < 1.17549435e-38f ? 1.17549435e-38f : x);
  float m = from_bits((bits & 0x807fffffu) | 0x3f000000u),
        e = (float)((int32_t)(bits >> 23) - 0x7f) + 1.0f;
  const float small = m < 0.707106781186547524f ? m : 0.0f;
  e -= m < 0.707106781186547524f ? 1.0f : 0.0f;
  m = m - 1.0f + small;
  const float z = m * m;
  float y = p[0];
  _Pragma("GCC unroll 8") for (int i = 1; i < 9; i++)
    y = fmaf(y, m, p[i]);
  y = y * m;
  y = fmaf(y, z, e * -2.12194440e-4f);
  y = fmaf(z, -0.5f, y);
  return fmaf(e, 0.693359375f, m + y);
}

/* Compute sine and cosine of x in [0, 2 pi]. */
static inline void sin_cos_of(float x, float *sine, float *cosine)
{
  const int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
  const float y = (float)octant;
  float r = fmaf(y, -0.78515625f, x);
  r = fmaf(y, -2.4187564849853515625e-4f, r);
  r = fmaf(y, -3.77489497744594108e-8f, r);
  const float z = r * r;
  float c = fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = fmaf(c, z, 4.166664568298827e-2f);
  c = fmaf(c * z, z, -0.5f * z) + 1.0f;
  float s = fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = fmaf(s, z, -1.6666654611e-1f);
  s = fmaf(s * z, r, r);
  const float sin_part = octant & 2 ? c : s, cos_part = octant & 2 ? s : c;
  *sine = octant & 4 ? -sin_part : sin_part;
  *cosine = ((uint32_t)octant - 2) & 4 ? cos_part : -cos_part;
}

/* Convert blocks of 16 uniforms in [0, 1) to 16 normals each. */
void ISA_NAME(normal_16)(int64_t n_blocks, float *data, float mean, float std);
void ISA_NAME(normal_16)(int64_t n_blocks, float *data, float mean, float std)
{
  enum { AT_ONCE = 8, PAIRS = 8 * AT_ONCE }; /* enough for vectors */
  float u[PAIRS] = {0}, v[PAIRS] = {0};
  for (int64_t b = 0; b < n_blocks; b += AT_ONCE, data += 16 * AT_ONCE) {
    const int n = n_blocks - b < AT_ONCE ? (int)(n_blocks - b) : AT_ONCE;
    for (int k = 0; k < n; k++) {
      memcpy(u + 8 * k, data + 16 * k, 8 * sizeof *u);
      memcpy(v + 8 * k, data + 16 * k + 8, 8 * sizeof *v);
    }
    for (int i = 0; i < PAIRS; i++) {
      float s, c;
      const float radius = sqrtf(-2.0f * log_of(1.0f - u[i]));
      sin_cos_of(6.283185307179586f * v[i], &s, &c);
      u[i] = fmaf(radius * c, std, mean);
      v[i] = fmaf(radius * s, std, mean);
    }
    for (int k = 0; k < n; k++) {
      memcpy(data + 16 * k, u + 8 * k, 8 * sizeof *u);
      memcpy(data + 16 * k + 8, v + 8 * k, 8 * sizeof *v);
    }
  }
}
