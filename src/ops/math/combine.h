/* ops/math/combine.h -- d = d op s for elements chosen by an index: index_add, scatter_reduce,
 * index_put.
 *
 * Elements are combined in order, one after the other, so that two with the same target give the
 * bits of PyTorch's sequential loops; half and bfloat16 round after every step, as there. */
#ifndef RUSH_OPS_COMBINE_H
#define RUSH_OPS_COMBINE_H

#include <stddef.h>
#include <stdint.h>

typedef enum combine_op {
  COMBINE_ADD,
  COMBINE_MUL,
  COMBINE_MAX,
  COMBINE_MIN,
  N_COMBINE_OPS
} combine_op;

/* Combine n elements: the i-th into d + i * ds, plus at[i] bytes if `at` is not NULL. */
typedef void combine_fn(char *d, const int64_t *at, int64_t ds, const char *s, int64_t ss,
                        int64_t n);

/* Return the loop; NULL where PyTorch has none either: maximum of complex numbers, quantized
 * dtypes. */
combine_fn *combine_find(combine_op op, int dtype);

#endif
