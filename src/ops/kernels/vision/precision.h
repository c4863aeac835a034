/* ops/kernels/vision/precision.h -- single operations in a narrower precision.
 *
 * Kernels whose samples must be exactly where PyTorch's are compute coordinates in float64 and
 * round the result of each operation: for + - * / that equals computing in the narrower type. */
#ifndef RUSH_OPS_KERNELS_PRECISION_H
#define RUSH_OPS_KERNELS_PRECISION_H

#include "tensor/tensor.h"

/* Round x to a floating dtype. */
static inline double round_to(int dtype, double x)
{
  uint16_t bits;
  if (dtype == RUSH_FLOAT64)
    return x;
  if (dtype == RUSH_FLOAT32)
    return (double)(float)x;
  convert_elems(dtype, &bits, RUSH_FLOAT64, &x, 1);
  convert_elems(RUSH_FLOAT64, &x, dtype, &bits, 1);
  return x;
}

#endif
