/* ops/math/fft_lanes.h -- many transforms side by side.
 *
 * A block is FFT_LANES values of each of n elements: element j of lane l at [j * lanes + l], real
 * parts and imaginary parts separately.  Every loop runs over lanes, and the result of a lane does
 * not depend on the others or on the instruction set.  Lengths whose prime factors are at most
 * FFT_LARGEST; float32 and float64. */
#ifndef RUSH_OPS_FFT_LANES_H
#define RUSH_OPS_FFT_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/isa.h"

enum { FFT_LARGEST = 31, FFT_MAX_FACTORS = 64, FFT_LANES_F32 = 16, FFT_LANES_F64 = 8 };

typedef struct fft_lengths { /* immutable */
  int64_t n;
  int n_factors, factors[FFT_MAX_FACTORS];
  int64_t step;       /* root k of n is number k * step of the table */
  const void *re, *im; /* exp(-2 pi j k / (n * step)) */
} fft_lengths;

/* Positions of lanes in memory, in complex elements: element j of lane l at j * js + l * ls. */
typedef struct fft_memory {
  void *data;
  int64_t js, ls;
  int n_lanes; /* existing lanes: others read 0 */
} fft_memory;

typedef struct fft_loops {
  int lanes;
  size_t item;
  void (*load)(const fft_memory *m, int64_t n, void *x);                /* x: [2][n * lanes] */
  void (*store)(const fft_memory *m, int64_t n, const void *x, double scale, bool conj);
  void *(*run)(const fft_lengths *p, bool backward, void *x,
               void *y); /* contains the result: x or y */
  /* Multiply x[j] by root j * (first + l) of the table, for lanes with first + l < end. */
  void (*turn)(int64_t n, int64_t first, int64_t end, bool backward, const void *re, const void *im,
               void *x);
  /* Convert h elements, the transform of pairs of reals, to h + 1 elements of the transform of the
   * reals, in y; and back. `re`, `im`: the roots of 2 h, forward. */
  void (*split)(int64_t h, const void *x, void *y, const void *re, const void *im);
  void (*join)(int64_t h, const void *x, void *y, const void *re, const void *im);
} fft_loops;
ISA_DECLARE(const fft_loops *, fft_loops_of, (bool is_f64));

#endif
