/* ops/kernels/nn/resize.h -- weighted sums along one dimension (axis.c): shared by resizing, pools
 * and resize_kernel.c. */
#ifndef RUSH_OPS_RESIZE_H
#define RUSH_OPS_RESIZE_H

#include <stdint.h>

#include "base/isa.h"
#include "tensor/tensor.h"

/* Result o is the sum of w[t] * in[idx[t]] for its first count[o] of `taps` entries. */
typedef struct resize_axis {
  int64_t n_in, n_out, taps;
  int64_t *idx;   /* n_out * taps */
  int32_t *count; /* n_out */
  void *w; /* n_out * taps: float, double, or int32_t with `shift` fractional bits for uint8 */
  int shift;
  double *exact;  /* n_out * taps: the weights before conversion */
} resize_axis;

/* Make a table of zeros: the caller fills idx, exact and count. */
rush_status axis_new(call_ctx *cx, int64_t n_in, int64_t n_out, int64_t taps,
                     resize_axis *out) RUSH_CHECKED;
void axis_free(context *c, resize_axis *a); /* a zeroed one may be freed too */
/* Transpose the table: each output contributes to the inputs it was made from. */
rush_status axis_turn(call_ctx *cx, resize_axis *a) RUSH_CHECKED;
/* Replace *t (owned, contiguous, at most 5 dimensions) by its sums along dimension d.  Call it once
 * per table. */
rush_status axis_run(call_ctx *cx, resize_axis *a, int d, rush_tensor **t) RUSH_CHECKED;

/* Compute in [outer, n_in, inner] -> out [outer, n_out, inner], for outer in [begin, end). */
typedef void resize_pass(const resize_axis *a, int64_t inner, const void *in, void *out,
                         int64_t begin, int64_t end);
ISA_DECLARE(void, resize_pass_f32,
            (const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin,
             int64_t end));
ISA_DECLARE(void, resize_pass_f64,
            (const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin,
             int64_t end));
ISA_DECLARE(void, resize_pass_u8,
            (const resize_axis *a, int64_t inner, const void *in, void *out, int64_t begin,
             int64_t end));

#endif
