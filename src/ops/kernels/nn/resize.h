/* ops/kernels/nn/resize.h -- weighted sums along one dimension (axis.c): shared by resizing, pools
 * and resize_kernel.c. */
#ifndef RUSH_OPS_RESIZE_H
#define RUSH_OPS_RESIZE_H

#include "ops/kernels/work.h"

/* Result o is the sum of w[t] * in[idx[t]] for its first count[o] of `taps` entries. */
typedef struct resize_axis {
  int64_t n_in, n_out, taps;
  int64_t *idx;   /* n_out * taps */
  int32_t *count; /* n_out */
  void *w; /* n_out * taps: float, double, or int32_t with `shift` fractional bits for uint8 */
  int shift;
  double *exact;  /* n_out * taps: the weights before conversion */
} resize_axis;

/* Make a table of zeros: idx, exact and count are to be filled in.  Empty after a failure. */
void axis_new(work *w, int64_t n_in, int64_t n_out, int64_t taps, resize_axis *out);
/* Transpose the table: contributions of an output return to their inputs. */
void axis_turn(work *w, resize_axis *a);
/* Return the sums of t (contiguous, at most 5 dimensions) along dimension d, in `to` or a tensor of
 * their own, and drop t from the work.  Once per table. */
rush_tensor *axis_run(work *w, resize_axis *a, int d, rush_tensor *t, rush_tensor *to);

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
