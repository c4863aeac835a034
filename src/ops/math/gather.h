/* ops/math/gather.h -- sums of elements chosen by index: samples of images, bags of rows. */
#ifndef RUSH_OPS_GATHER_H
#define RUSH_OPS_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/isa.h"

enum { GATHER_POINTS = 64 }; /* at a time */

/* Elements are float32 or float64 (chosen by gather_of's argument), as are weights and results. */
typedef struct gather {
  /* Compute y[i] = sum over taps k of x[at[k * GATHER_POINTS + i]] * weight[the same], for i < n <=
   * GATHER_POINTS. An index of -1 is left out. */
  void (*points)(int n, int n_taps, const void *x, const int64_t *at, const void *weight, void *y);
  /* Compute the taps of bilinear samples of a plane of w by h, zero outside, for n <= GATHER_POINTS
   * points x, y in [-1, 1]: at[k * GATHER_POINTS + i] and weights as above; bf16: each step is
   * rounded to it. base[i]: the sum of taps outside, 0 or NaN; returns true if there is a NaN.
   * float32 only. */
  bool (*bilinear)(int n, const float *xy, int w, int h, bool align, bool bf16, int64_t *at,
                   float *weight, double *base);
  /* Compute to[0..n_cols) = sum over i < n of factors[i] * row at[i] of `table`; factors NULL:
   * 1. */
  void (*rows)(int64_t n_cols, const void *table, const int64_t *at, int64_t n, const void *factors,
               void *to);
} gather;
ISA_DECLARE(gather, gather_of, (bool is_f64));

#endif
