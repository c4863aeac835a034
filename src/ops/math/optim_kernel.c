/* ops/math/optim_kernel.c -- steps of optimizers, compiled once per instruction set (base/isa.h);
 * optim_kernel.inc per element type. */
#include "ops/math/optim.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { LANES = 16 }; /* elements that loops run over at once */

#define T float
#define NAME(x) ISA_NAME(x##_f32)
#define SQRT sqrtf
#include "ops/math/optim_kernel.inc"

#define T double
#define NAME(x) ISA_NAME(x##_f64)
#define SQRT sqrt
#include "ops/math/optim_kernel.inc"

optim_update *ISA_NAME(optim_update_of)(bool is_f64)
{
  return is_f64 ? ISA_NAME(update_f64) : ISA_NAME(update_f32);
}
