/* ops/half.h -- 16-bit floats in loops: branch-free, so compilers vectorise them; round to nearest even. */
#ifndef RUSH_OPS_HALF_H
#define RUSH_OPS_HALF_H

#include <stdint.h>

#include "base/context.h"
#include "ops/vmath.h"

VM_INLINE float f32_of_bf16(uint16_t h) { return vm_from32((uint32_t)h << 16); }
VM_INLINE uint16_t bf16_of_f32(float f)
{
  uint32_t u = vm_bits32(f);
  uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)(f != f ? 0x7fc0u : r);
}
VM_INLINE float f32_of_f16(uint16_t h)
{
  uint32_t u = (uint32_t)(h & 0x7fffu) << 13;
  float f = vm_from32(u) * 0x1p112f; /* the bias moves, denormals included */
  uint32_t r = u >= 0x0f800000u ? u | 0x7f800000u : vm_bits32(f);
  return vm_from32(r | (uint32_t)(h & 0x8000u) << 16);
}
VM_INLINE uint16_t f16_of_f32(float f)
{
  uint32_t u = vm_bits32(f), a = u & 0x7fffffffu;
  uint32_t small = vm_bits32(vm_from32(a) + 0.5f) - 0x3f000000u; /* the sum rounds at 2^-24 */
  uint32_t norm = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  uint32_t r = a < 0x38800000u ? small : norm;
  r = a >= 0x47800000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7e00u : r;
  return (uint16_t)(r | ((u >> 16) & 0x8000u));
}

/* n elements, contiguous. */
static inline __attribute__((unused)) void f32_from_half(int is_bf16, const uint16_t *s, float *d, int64_t n)
{
  if (is_bf16)
    for (int64_t i = 0; i < n; i++)
      d[i] = f32_of_bf16(s[i]);
  else
    for (int64_t i = 0; i < n; i++)
      d[i] = f32_of_f16(s[i]);
}
static inline __attribute__((unused)) void half_from_f32(int is_bf16, const float *s, uint16_t *d, int64_t n)
{
  if (is_bf16)
    for (int64_t i = 0; i < n; i++)
      d[i] = bf16_of_f32(s[i]);
  else
    for (int64_t i = 0; i < n; i++)
      d[i] = f16_of_f32(s[i]);
}

/* The same by the machine's vectors and threads; dtype is RUSH_FLOAT16 or RUSH_BFLOAT16. */
rush_status halves_widen(call_ctx *cx, int dtype, int64_t n, const void *from, float *to) RUSH_CHECKED;
rush_status halves_narrow(call_ctx *cx, int dtype, int64_t n, const float *from, void *to) RUSH_CHECKED;

#endif
