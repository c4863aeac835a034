/* ops/math/resize.h -- which input an output of a resized image is made of: for kernels of images
 * in planes (ops/kernels/nn/resize.c) and in blocks of channels (block.h). */
#ifndef RUSH_OPS_MATH_RESIZE_H
#define RUSH_OPS_MATH_RESIZE_H

#include <math.h>
#include <stdint.h>

/* Convert a position, which scales of any size may make arbitrary, to an input index: integers from
 * `lo` to n - 1. */
static inline int64_t resize_index(double x, int64_t lo, int64_t n)
{
  if (x >= (double)n)
    return n - 1;
  const int64_t i = x > (double)lo ? (int64_t)floor(x) : lo; /* NaN: lo */
  return i < n - 1 ? i : n - 1;
}

/* Return the input step per output, before it is rounded: of a factor that is given, or 0. */
static inline double resize_step(double factor, int64_t n_in, int64_t n_out)
{
  return factor > 0.0 ? 1.0 / factor : (double)n_in / (double)n_out;
}

/* Return the index of `nearest` in float32; `step` is rounded to it. */
static inline int64_t resize_nearest_f32(double step, int64_t o, int64_t n)
{
  return resize_index((double)(float)(step * (double)o), 0, n);
}

#endif
