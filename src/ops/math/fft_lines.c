/* ops/math/fft_lines.c -- transforms of the lines of an array, in blocks of lanes; a single long
 * line is split into n1 by n2 (the four-step method). */
#include <stdatomic.h>

#include "base/threads.h"
#include "ops/math/fft.h"
#include "ops/math/fft_lanes.h"

enum { LONG = 512, LEAST_PART = 8, GRAIN = 16384 };

static bool factorize(int64_t n, fft_lengths *f)
{
  f->n = n;
  f->n_factors = 0;
  for (int r = 4; n > 1 && r <= FFT_LARGEST; r = r == 4 ? 2 : r == 2 ? 3 : r + 2)
    for (; n % r == 0; n /= r)
      f->factors[f->n_factors++] = r;
  return n == 1;
}

bool fft_lines_has(int64_t n)
{
  fft_lengths f;
  return n > 0 && factorize(n, &f);
}

bool fft_lines_suits(int64_t n, int64_t n_lines)
{
  return n_lines >= FFT_LANES_F32 / 2 || n < LONG;
}

/* -- Roots ------------------------------------------------------------------------------------- */

typedef struct roots { /* of n: n real parts, then n imaginary ones */
  int64_t n;
  size_t n_bytes;
  void *re, *im;
} roots;

/* Make roots; root k is the product of two, so that few need sines. */
static rush_status roots_make(call_ctx *cx, int64_t n, bool is_f64, roots *out)
{
  int64_t step = 1;
  while (step * step < n)
    step *= 2;
  const size_t item = is_f64 ? sizeof(double) : sizeof(float);
  const int64_t n_far = (n + step - 1) / step;
  *out = (roots){.n = n, .n_bytes = 2 * (size_t)n * item};
  cplx *near = mem_alloc_data(cx->ctx, (size_t)(step + n_far) * sizeof *near), *far = near + step;
  out->re = near ? mem_alloc_data(cx->ctx, out->n_bytes) : NULL;
  out->im = (char *)out->re + (size_t)n * item;
  for (int64_t k = 0; out->re && k < step; k++)
    near[k] = fft_root(k, n);
  for (int64_t k = 0; out->re && k < n_far; k++)
    far[k] = fft_root(k * step, n);
  for (int64_t k = 0; out->re && k < n && !call_over_at(cx, k / step); k += step)
    for (int64_t i = 0; i < i64_min(step, n - k); i++) {
      const cplx a = far[k / step], b = near[i];
      const double re = a.re * b.re - a.im * b.im, im = a.re * b.im + a.im * b.re;
      if (is_f64) {
        ((double *)out->re)[k + i] = re;
        ((double *)out->im)[k + i] = im;
      } else {
        ((float *)out->re)[k + i] = (float)re;
        ((float *)out->im)[k + i] = (float)im;
      }
    }
  if (near)
    mem_free_data(cx->ctx, near, (size_t)(step + n_far) * sizeof *near);
  return out->re ? RUSH_OK : call_nomem(cx);
}

/* -- Blocks of lines --------------------------------------------------------------------------- */

typedef struct job {
  call_ctx *cx;
  const fft_lines *f;
  const fft_loops *loops;
  fft_lengths p, p1, p2; /* p1, p2: of a line that is taken apart */
  roots w;
  char *part;            /* such a line between its two halves, [n2][n1] */
  int64_t line, blocks;  /* blocks: of lanes in one outer index, or in all when inner is 1 */
  _Atomic int failed;
} job;

static char *line_element(const job *j, const void *base, int64_t at)
{
  return (char *)(uintptr_t)base + (size_t)at * 2 * j->loops->item;
}

/* Allocate the scratch of a task: two blocks of n + 1 elements. */
static char *scratch_new(job *j, int64_t n, size_t *n_bytes)
{
  *n_bytes = 4 * (size_t)(n + 1) * (size_t)j->loops->lanes * j->loops->item;
  char *x = mem_alloc_data(j->cx->ctx, *n_bytes);
  if (!x)
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
  return x;
}

static void run_block(const job *j, int64_t first, int64_t outer, char *x, char *y)
{
  const fft_lines *f = j->f;
  const fft_loops *o = j->loops;
  const bool rows = f->inner == 1;
  const int64_t h = f->n / 2, in_n = f->form == FFT_TO_REALS   ? f->in_n
                                     : f->form == FFT_OF_REALS ? h
                                                               : f->n;
  const int64_t out_n = f->form == FFT_OF_REALS ? h + 1 : f->form == FFT_TO_REALS ? h : f->n;
  const int n_lanes = (int)i64_min(o->lanes, (rows ? f->outer : f->inner) - first);
  fft_memory in = {NULL, f->inner, rows ? in_n : 1, n_lanes},
             out = {NULL, f->inner, rows ? out_n : 1, n_lanes};
  in.data = line_element(j, f->in, rows ? first * in_n : outer * f->n * f->inner + first);
  out.data = line_element(j, f->out, rows ? first * out_n : outer * f->n * f->inner + first);
  o->load(&in, f->form == FFT_COMPLEX ? f->n : f->form == FFT_OF_REALS ? h : h + 1, x);
  if (f->form == FFT_TO_REALS) {
    o->join(h, x, y, j->w.re, j->w.im);
    o->store(&out, h, o->run(&j->p, true, y, x), f->scale, false);
    return;
  }
  char *got = o->run(&j->p, f->backward, x, y);
  if (f->form == FFT_OF_REALS) {
    o->split(h, got, got == x ? y : x, j->w.re, j->w.im);
    o->store(&out, h + 1, got == x ? y : x, f->scale, f->conj);
  } else {
    o->store(&out, f->n, got, f->scale, f->conj);
  }
}

static void run_blocks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  size_t n_bytes;
  char *x = scratch_new(j, j->f->n, &n_bytes);
  for (int64_t b = begin; x && b < end && !call_over(j->cx); b++)
    run_block(j, b % j->blocks * j->loops->lanes, b / j->blocks, x, x + n_bytes / 2);
  if (x)
    mem_free_data(j->cx->ctx, x, n_bytes);
}

/* -- A long line: element j1 * n2 + j2 becomes k1 + n1 * k2 ------------------------------------ */

static void run_columns(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const fft_loops *o = j->loops;
  const int64_t n1 = j->p1.n, n2 = j->p2.n;
  size_t n_bytes;
  char *x = scratch_new(j, n1, &n_bytes);
  for (int64_t b = begin; x && b < end && !call_over(j->cx); b++) {
    const int64_t first = b * o->lanes;
    const int n_lanes = (int)i64_min(o->lanes, n2 - first);
    const fft_memory in = {line_element(j, j->f->in, j->line * j->f->n + first), n2, 1, n_lanes};
    const fft_memory out = {line_element(j, j->part, first * n1), 1, n1, n_lanes};
    o->load(&in, n1, x);
    char *got = o->run(&j->p1, j->f->backward, x, x + n_bytes / 2);
    o->turn(n1, first, n2, j->f->backward, j->w.re, j->w.im, got);
    o->store(&out, n1, got, 1, false);
  }
  if (x)
    mem_free_data(j->cx->ctx, x, n_bytes);
}

static void run_rows(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const fft_loops *o = j->loops;
  const int64_t n1 = j->p1.n, n2 = j->p2.n;
  size_t n_bytes;
  char *x = scratch_new(j, n2, &n_bytes);
  for (int64_t b = begin; x && b < end && !call_over(j->cx); b++) {
    const int64_t first = b * o->lanes;
    const int n_lanes = (int)i64_min(o->lanes, n1 - first);
    const fft_memory in = {line_element(j, j->part, first), n1, 1, n_lanes};
    const fft_memory out = {line_element(j, j->f->out, j->line * j->f->n + first), n1, 1, n_lanes};
    o->load(&in, n2, x);
    o->store(&out, n2, o->run(&j->p2, j->f->backward, x, x + n_bytes / 2), j->f->scale, j->f->conj);
  }
  if (x)
    mem_free_data(j->cx->ctx, x, n_bytes);
}

/* Split n into n1 * n2, about equal. */
static bool take_apart(job *j)
{
  int64_t n1 = 1;
  for (int i = 0; i < j->p.n_factors; i++)
    if (n1 * n1 * j->p.factors[i] * j->p.factors[i] <= 2 * j->p.n)
      n1 *= j->p.factors[i];
  const int64_t n2 = j->p.n / n1;
  if (n1 < LEAST_PART || n2 < LEAST_PART || !factorize(n1, &j->p1) || !factorize(n2, &j->p2))
    return false;
  j->p1.step = n2;
  j->p2.step = n1;
  j->p1.re = j->p2.re = j->w.re;
  j->p1.im = j->p2.im = j->w.im;
  return true;
}

static rush_status run_long(job *j)
{
  const fft_lines *f = j->f;
  const int64_t lanes = j->loops->lanes, n1 = j->p1.n, n2 = j->p2.n;
  const size_t n_bytes = 2 * (size_t)f->n * j->loops->item;
  rush_status st = RUSH_OK;
  if (!(j->part = mem_alloc_data(j->cx->ctx, n_bytes)))
    return call_nomem(j->cx);
  for (j->line = 0; j->line < f->outer && st == RUSH_OK; j->line++) {
    st = parallel_for(j->cx, (n2 + lanes - 1) / lanes, i64_max(1, GRAIN / (n1 * lanes)),
                      run_columns, j);
    if (st == RUSH_OK)
      st = parallel_for(j->cx, (n1 + lanes - 1) / lanes, i64_max(1, GRAIN / (n2 * lanes)), run_rows,
                        j);
  }
  mem_free_data(j->cx->ctx, j->part, n_bytes);
  return st;
}

rush_status fft_lines_run(call_ctx *cx, const fft_lines *f)
{
  const fft_loops *loops =
    ISA_PICK(fft_loops_of, cpu_choose(context_get_options(cx->ctx)->cpu))(f->is_f64);
  const int64_t n = f->form == FFT_COMPLEX ? f->n : f->n / 2;
  job j = {.cx = cx, .f = f, .loops = loops};
  const bool made = factorize(n, &j.p);
  ASSERT(made, "the caller asked fft_lines_has");
  (void)made;
  TRY(roots_make(cx, f->n, f->is_f64, &j.w));
  j.p.step = f->n / n;
  j.p.re = j.w.re;
  j.p.im = j.w.im;
  rush_status st;
  if (f->form == FFT_COMPLEX && f->inner == 1 && !fft_lines_suits(n, f->outer) && take_apart(&j)) {
    st = run_long(&j);
  } else {
    j.blocks = ((f->inner == 1 ? f->outer : f->inner) + loops->lanes - 1) / loops->lanes;
    const int64_t n_blocks = j.blocks * (f->inner == 1 ? 1 : f->outer);
    st = parallel_for(cx, n_blocks, i64_max(1, GRAIN / (f->n * loops->lanes)), run_blocks, &j);
  }
  mem_free_data(cx->ctx, j.w.re, j.w.n_bytes);
  return st == RUSH_OK && j.failed ? call_nomem(cx) : st;
}
