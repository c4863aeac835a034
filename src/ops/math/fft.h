/* ops/math/fft.h -- discrete Fourier transforms of any length, in double precision.
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

/* Make a plan for n >= 1; returns NULL if memory runs out. */
fft_plan *fft_plan_new(const call_ctx *cx, int64_t n);
void fft_plan_free(context *c, fft_plan *p);
size_t fft_scratch_len(const fft_plan *p); /* in cplx */
/* Compute out[k] = sum of in[i] exp(-2 pi j i k / n), not scaled; backward: exp(+...).  in and out
 * must not overlap. */
void fft_run(const call_ctx *cx, const fft_plan *p, bool backward, const cplx *in, cplx *out,
             cplx *scratch);

/* -- Side by side (fft_lanes.h) ---------------------------------------------------------------- */

typedef enum fft_form { FFT_COMPLEX, FFT_OF_REALS, FFT_TO_REALS } fft_form;
typedef struct
  fft_lines { /* [outer][n][inner] in memory; `in` and `out` may be the same when complex */
  /* OF_REALS: n reals become n / 2 + 1; TO_REALS: the reverse, of in_n elements a line. inner is 1,
   * n even */
  fft_form form;
  bool is_f64, backward, conj;
  double scale;
  int64_t n, outer, inner, in_n;
  const void *in;
  void *out;
} fft_lines;

/* True if a length has only small prime factors. */
bool fft_lines_has(int64_t n);
/* True if there are enough lines, or they are short enough, for transforms of reals. */
bool fft_lines_suits(int64_t n, int64_t n_lines);
/* Run the transforms; `conj`: return the conjugate. */
rush_status fft_lines_run(call_ctx *cx, const fft_lines *f) RUSH_CHECKED;

/* Return exp(-2 pi j k / n), exact at the octants. */
cplx fft_root(int64_t k, int64_t n);

#endif
