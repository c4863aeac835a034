/* ops/resize.h -- weighted sums along one dimension: what resize.c and resize_kernel.c share. */
#ifndef RUSH_OPS_RESIZE_H
#define RUSH_OPS_RESIZE_H

#include <stdint.h>

#include "base/isa.h"

/* Result o is the sum of w[t] * in[idx[t]] for its first count[o] of `taps` entries. */
typedef struct resize_axis {
  int64_t n_in, n_out, taps;
  int64_t *idx;   /* n_out * taps */
  int32_t *count; /* n_out */
  void *w;        /* n_out * taps: float, double, or int32_t with `shift` fractional bits for uint8 */
  int shift;
} resize_axis;

/* in [outer, n_in, inner] -> out [outer, n_out, inner], for outer in [begin, end). */
typedef void resize_pass(const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin, int64_t end);
ISA_DECLARE(void, resize_pass_f32, (const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin,
                                    int64_t end));
ISA_DECLARE(void, resize_pass_f64, (const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin,
                                    int64_t end));
ISA_DECLARE(void, resize_pass_u8, (const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin,
                                   int64_t end));

#endif
