/* tensor/halves_kernel.c -- loops over 16-bit floats, compiled once per instruction set
 * (base/isa.h). */
#include "base/half.h"
#include "tensor/tensor_int.h"

void ISA_NAME(halves_to_f32)(bool bf16, const uint16_t *s, float *d, int64_t n)
{
  f32_from_half(bf16, s, d, n);
}
void ISA_NAME(halves_from_f32)(bool bf16, const float *s, uint16_t *d, int64_t n)
{
  half_from_f32(bf16, s, d, n);
}
