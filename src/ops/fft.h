/* ops/fft.h -- discrete Fourier transforms of any length, in double precision.
 *
 * A plan splits the length into its prime factors; a length with a large prime factor goes through
 * Bluestein's convolution of a power of two.  Cost: O(n log n) for every n.
 * Threads: a plan is immutable; each user has scratch of its own. */
#ifndef RUSH_OPS_FFT_H
#define RUSH_OPS_FFT_H

#include "base/context.h"

typedef struct cplx {
  double re, im;
} cplx;
typedef struct fft_plan fft_plan;

/* n >= 1.  NULL: no memory. */
fft_plan *fft_plan_new(const call_ctx *cx, int64_t n);
void fft_plan_free(context *c, fft_plan *p);
size_t fft_scratch_len(const fft_plan *p); /* in cplx */
/* out[k] = sum of in[i] exp(-2 pi j i k / n), not scaled; backward: exp(+...).  in and out do not overlap. */
void fft_run(const call_ctx *cx, const fft_plan *p, bool backward, const cplx *in, cplx *out, cplx *scratch);

#endif
