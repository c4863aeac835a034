/* ops/math/dot.h -- sums of products along contiguous rows, and products of 64-bit integers.
 *
 * Floats: 64 partial sums and one tree, so that all instruction sets give the same bits.  Integers
 * wrap, so their order does not matter. */
#ifndef RUSH_OPS_DOT_H
#define RUSH_OPS_DOT_H

#include <stdint.h>

#include "base/isa.h"

enum { INT_ROWS = 4, INT_COLS = 16 }; /* of a tile */

typedef struct dot_loops {
  float (*f32)(int64_t n, const float *x, const float *y);
  double (*f64)(int64_t n, const double *x, const double *y);
  uint64_t (*i64)(int64_t n, const uint64_t *x, const uint64_t *y);
  float (*distance)(int64_t n, const float *x,
                    const float *y); /* sum of squared differences, in 16 lanes */
  /* Compute c[INT_ROWS][INT_COLS] = A (rows <= INT_ROWS, strides rs, cs) times b[k][INT_COLS]. */
  void (*tile)(int64_t k, int rows, const uint64_t *a, int64_t rs, int64_t cs, const uint64_t *b,
               uint64_t *c);
} dot_loops;
ISA_DECLARE(const dot_loops *, dot_loops_of, (void));

#endif
