/* ops/math/fft.c -- transforms of one line in double precision: mixed radix (Cooley and Tukey,
 * decimation in time) with butterflies for 4, 2, 3 and any prime up to 31, and Bluestein's
 * convolution for lengths with a larger prime. The roots are computed once per plan, each from its
 * own angle, so that errors do not add up as they do in recurrences. Recursion is as deep as there
 * are factors. Memory: n roots; Bluestein also keeps a plan for the next power of two above 2n.
 * fft_lines.c has the float32 lines. */
#include "ops/math/fft.h"

#include <math.h>

enum { MAX_FACTORS = 64, LARGEST = 31 }; /* larger primes: Bluestein */

struct fft_plan {
  int64_t n;
  int n_factors;
  int factors[MAX_FACTORS];
  cplx *roots;      /* exp(-2 pi j k / n), n of them */
  /* Bluestein only: */
  fft_plan *inner;  /* of a power of two, at least 2 n - 1 */
  cplx *chirp;      /* exp(-pi j k k / n), n */
  cplx *kernel;     /* transform of the conjugate chirp, inner->n */
};

static inline cplx mul(cplx a, cplx b)
{
  return (cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline cplx add(cplx a, cplx b) { return (cplx){a.re + b.re, a.im + b.im}; }
static inline cplx sub(cplx a, cplx b) { return (cplx){a.re - b.re, a.im - b.im}; }

cplx fft_root(int64_t k, int64_t n)
{
  const double two_pi = 6.28318530717958647692;
  k %= n;
  if (8 * k < n || 8 * k > 7 * n)
    return (cplx){cos(two_pi * (double)k / (double)n), -sin(two_pi * (double)k / (double)n)};
  const int64_t quarter = (8 * k + n) / (2 * n); /* nearest multiple of a quarter turn */
  const double rest = two_pi * (double)(4 * k - quarter * n) / (4.0 * (double)n), c = cos(rest),
               s = sin(rest);
  switch (quarter & 3) {
  case 0: return (cplx){c, -s};
  case 1: return (cplx){-s, -c};
  case 2: return (cplx){-c, s};
  default: return (cplx){s, c};
  }
}

static cplx *cplx_new(context *c, int64_t n) { return mem_alloc_data(c, (size_t)n * sizeof(cplx)); }
static void cplx_free(context *c, cplx *x, int64_t n)
{
  if (x)
    mem_free_data(c, x, (size_t)n * sizeof *x);
}

/* Factor n, fours first: they are the cheapest. */
static bool factorize(fft_plan *p)
{
  int64_t rest = p->n;
  for (int f = 4; rest > 1 && f <= LARGEST; f = f == 4 ? 2 : f == 2 ? 3 : f + 2)
    for (; rest % f == 0; rest /= f)
      p->factors[p->n_factors++] = f;
  return rest == 1;
}

/* Compute chirp and kernel of Bluestein's method. */
static bool make_chirp(const call_ctx *cx, fft_plan *p)
{
  context *c = cx->ctx;
  int64_t m = 1;
  while (m < 2 * p->n - 1)
    m *= 2;
  p->inner = fft_plan_new(cx, m);
  p->chirp = cplx_new(c, p->n);
  p->kernel = cplx_new(c, m);
  cplx *x = cplx_new(c, m),
       *scratch = p->inner ? cplx_new(c, (int64_t)fft_scratch_len(p->inner)) : NULL;
  const bool made = p->inner && p->chirp && p->kernel && x && scratch;
  if (made) {
    for (int64_t k = 0; k < p->n && !call_over_at(cx, k);
         k++) /* k * k mod 2 n keeps the angle small */
      p->chirp[k] = fft_root((int64_t)((__int128)k * k % (2 * p->n)), 2 * p->n);
    for (int64_t k = 0; k < m && !call_over_at(cx, k); k++)
      x[k] = (cplx){0, 0};
    for (int64_t k = 0; k < p->n && !call_over_at(cx, k); k++) {
      const cplx v = {p->chirp[k].re, -p->chirp[k].im};
      x[k] = v;
      x[(m - k) % m] = v;
    }
    fft_run(cx, p->inner, false, x, p->kernel, scratch);
  }
  cplx_free(c, x, m);
  cplx_free(c, scratch, p->inner ? (int64_t)fft_scratch_len(p->inner) : 0);
  return made;
}

fft_plan *fft_plan_new(const call_ctx *cx, int64_t n)
{
  context *c = cx->ctx;
  fft_plan *p = mem_alloc_zero(c, sizeof *p);
  if (!p)
    return NULL;
  p->n = n;
  bool made = true;
  if (factorize(p)) {
    p->roots = cplx_new(c, n);
    made = p->roots != NULL;
    for (int64_t k = 0; made && k < n && !call_over_at(cx, k); k++)
      p->roots[k] = fft_root(k, n);
  } else {
    made = make_chirp(cx, p);
  }
  if (made)
    return p;
  fft_plan_free(c, p);
  return NULL;
}

void fft_plan_free(context *c, fft_plan *p)
{
  if (!p)
    return;
  cplx_free(c, p->roots, p->n);
  cplx_free(c, p->chirp, p->n);
  if (p->inner)
    cplx_free(c, p->kernel, p->inner->n);
  fft_plan_free(c, p->inner);
  mem_free(c, p, sizeof *p);
}

size_t fft_scratch_len(const fft_plan *p)
{
  return p->inner ? 2 * (size_t)p->inner->n + fft_scratch_len(p->inner) : LARGEST;
}

/* -- Mixed radix, decimation in time ----------------------------------------------------------- */

static inline cplx root_at(const fft_plan *p, bool backward, int64_t k)
{
  const cplx r = p->roots[k % p->n];
  return (cplx){r.re, backward ? -r.im : r.im};
}

/* Combine f adjacent transforms of length m in `out`; `stride` * f * m == n. */
static void butterflies(const call_ctx *cx, const fft_plan *p, bool backward, int f, int64_t m,
                        int64_t stride, cplx *out, cplx *t)
{
  for (int64_t u = 0; u < m && !call_over_at(cx, u); u++) {
    for (int q = 0; q < f; q++)
      t[q] = q ? mul(out[u + q * m], root_at(p, backward, q * u * stride)) : out[u];
    if (f == 2) {
      out[u] = add(t[0], t[1]);
      out[u + m] = sub(t[0], t[1]);
    } else if (f == 4) {
      const cplx a = add(t[0], t[2]), b = sub(t[0], t[2]), c = add(t[1], t[3]), d = sub(t[1], t[3]);
      const cplx turned = backward ? (cplx){-d.im, d.re} : (cplx){d.im, -d.re};
      out[u] = add(a, c);
      out[u + m] = add(b, turned);
      out[u + 2 * m] = sub(a, c);
      out[u + 3 * m] = sub(b, turned);
    } else {
      for (int k = 0; k < f; k++) {
        cplx sum = t[0];
        for (int q = 1; q < f; q++)
          sum = add(sum, mul(t[q], root_at(p, backward, (int64_t)q * k % f * (p->n / f))));
        out[u + k * m] = sum;
      }
    }
  }
}

static void mixed(const call_ctx *cx, const fft_plan *p, bool backward, int level, int64_t n,
                  int64_t stride, const cplx *in, cplx *out, cplx *scratch)
{
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  const int f = p->factors[level];
  const int64_t m = n / f;
  if (n > POLL_STEPS && call_over(cx))
    return;
  for (int q = 0; q < f; q++)
    mixed(cx, p, backward, level + 1, m, stride * f, in + q * stride, out + q * m, scratch);
  butterflies(cx, p, backward, f, m, stride, out, scratch);
}

/* -- Bluestein --------------------------------------------------------------------------------- */

/* Transform with Bluestein's method; the backward transform is the forward one of the conjugates,
 * conjugated. */
static void bluestein(const call_ctx *cx, const fft_plan *p, bool backward, const cplx *in,
                      cplx *out, cplx *scratch)
{
  const int64_t m = p->inner->n;
  cplx *x = scratch, *y = scratch + m, *rest = scratch + 2 * m;
  for (int64_t k = 0; k < m && !call_over_at(cx, k); k++)
    x[k] =
      k < p->n ? mul((cplx){in[k].re, backward ? -in[k].im : in[k].im}, p->chirp[k]) : (cplx){0, 0};
  fft_run(cx, p->inner, false, x, y, rest);
  for (int64_t k = 0; k < m && !call_over_at(cx, k); k++)
    y[k] = mul(y[k], p->kernel[k]);
  fft_run(cx, p->inner, true, y, x, rest);
  for (int64_t k = 0; k < p->n && !call_over_at(cx, k); k++) {
    const cplx v = mul((cplx){x[k].re / (double)m, x[k].im / (double)m}, p->chirp[k]);
    out[k] = (cplx){v.re, backward ? -v.im : v.im};
  }
}

void fft_run(const call_ctx *cx, const fft_plan *p, bool backward, const cplx *in, cplx *out,
             cplx *scratch)
{
  if (p->inner)
    bluestein(cx, p, backward, in, out, scratch);
  else
    mixed(cx, p, backward, 0, p->n, 1, in, out, scratch);
}
