/* ops/math/norm.h -- the numbers of a batch norm in evaluation: x * scale + shift. */
#ifndef RUSH_OPS_NORM_H
#define RUSH_OPS_NORM_H

#include <math.h>

/* Return the inverse standard deviation; the caller rounds it to the dtype it computes in. */
static inline double norm_rstd(double var, double eps) { return 1.0 / sqrt(var + eps); }
/* mean and rstd are rounded already; weight is 1 and bias 0 where there is none. */
static inline double norm_scale(double rstd, double weight) { return rstd * weight; }
static inline double norm_shift(double mean, double scale, double bias)
{
  return bias - mean * scale;
}

#endif
