/* ops/kernels/nn/axis.c -- weighted sums along one dimension: their tables, the transposed tables,
 * and the pass.  A table is one block of memory of the kernel's work. */
#include <math.h>
#include <string.h>

#include "ops/kernels/nn/resize.h"

void axis_new(work *w, int64_t n_in, int64_t n_out, int64_t taps, resize_axis *out)
{
  resize_axis a = {.n_in = n_in, .n_out = n_out, .taps = taps};
  int64_t n = 0;
  *out = (resize_axis){0};
  if (__builtin_mul_overflow(n_out, taps, &n) || n > INT64_MAX / 32)
    WORK_DO(w, call_fail(w->cx, "Storage size calculation overflowed with sizes=[%lld, %lld]",
                         (long long)n_out, (long long)taps));
  a.idx = work_memory(w, n, 2 * sizeof *a.idx + sizeof *a.exact + sizeof *a.count);
  if (w->st != RUSH_OK)
    return;
  a.exact = (double *)a.idx + n;
  a.w = a.exact + n;
  a.count = (int32_t *)(a.exact + 2 * n);
  *out = a;
}

void axis_turn(work *w, resize_axis *a)
{
  resize_axis t;
  int64_t most = 1, *n = work_memory(w, a->n_in, sizeof *n);
  for (int64_t o = 0; o < a->n_out && n; o++)
    for (int32_t k = 0; k < a->count[o]; k++)
      most = i64_max(most, ++n[a->idx[o * a->taps + k]]);
  axis_new(w, a->n_out, a->n_in, most, &t);
  for (int64_t o = 0; o < a->n_out && t.idx; o++)
    for (int32_t k = 0; k < a->count[o]; k++) {
      const int64_t i = a->idx[o * a->taps + k], at = i * most + t.count[i]++;
      t.idx[at] = o;
      t.exact[at] = a->exact[o * a->taps + k];
    }
  *a = t;
}

/* Merge taps at an edge: their weight is summed and rounded once (fixed point only). */
static void merge_edges(resize_axis *a, int64_t o, double *w)
{
  int64_t *idx = a->idx + o * a->taps;
  int32_t n = 0;
  w += o * a->taps;
  for (int32_t t = 0; t < a->count[o]; t++) {
    if (n > 0 && idx[t] == idx[n - 1]) {
      w[n - 1] += w[t];
    } else {
      idx[n] = idx[t];
      w[n++] = w[t];
    }
  }
  a->count[o] = n;
}

/* Convert a weight to fixed point.  Scales of any size lead to weights of any size: out of range
 * becomes the range's end, and NaN becomes 0. */
static int32_t to_fixed(double w, int shift)
{
  const double x = w * (double)(1 << shift) + (w < 0 ? -0.5 : 0.5);
  return isnan(x) ? 0 : (int32_t)fmin(fmax(x, -32768.0), 32768.0);
}

/* Convert weights from double to the type of the pass. */
static void convert_weights(resize_axis *a, int dtype)
{
  const int64_t n = a->n_out * a->taps;
  double *w = a->exact;
  if (dtype == RUSH_FLOAT32) {
    for (int64_t i = 0; i < n; i++)
      ((float *)a->w)[i] = (float)w[i];
  } else if (dtype == RUSH_UINT8) {
    double max = 0.0;
    for (int64_t o = 0; o < a->n_out; o++) {
      merge_edges(a, o, w);
      for (int32_t t = 0; t < a->count[o]; t++)
        max = fmax(max, w[o * a->taps + t]);
    }
    while (a->shift < 22 && 0.5 + max * (double)(1 << (a->shift + 1)) < 32768.0)
      a->shift++;
    for (int64_t i = 0; i < n; i++)
      ((int32_t *)a->w)[i] = to_fixed(w[i], a->shift);
  } else {
    memcpy(a->w, w, (size_t)n * sizeof *w);
  }
}

typedef struct pass_job {
  const resize_axis *axis;
  resize_pass *run;
  int64_t inner;
  const void *in;
  void *out;
} pass_job;

static void run_pass(void *arg, int64_t begin, int64_t end)
{
  const pass_job *p = arg;
  p->run(p->axis, p->inner, p->in, p->out, begin, end);
}

rush_tensor *axis_run(work *w, resize_axis *axis, int d, rush_tensor *in, rush_tensor *to)
{
  const cpu_level level = call_cpu(w->cx);
  pass_job p = {.axis = axis, .inner = 1, .in = in->data};
  int64_t sizes[5] = {0}, outer = 1;
  if (w->st != RUSH_OK)
    return in;
  memcpy(sizes, in->sizes, sizeof *sizes * in->n_dims);
  for (int i = 0; i < d; i++)
    outer *= sizes[i];
  for (int i = d + 1; i < in->n_dims; i++)
    p.inner *= sizes[i];
  sizes[d] = axis->n_out;
  p.run = in->dtype == RUSH_FLOAT32   ? ISA_PICK(resize_pass_f32, level)
          : in->dtype == RUSH_FLOAT64 ? ISA_PICK(resize_pass_f64, level)
                                      : ISA_PICK(resize_pass_u8, level);
  convert_weights(axis, in->dtype);
  if (!to)
    to = work_new(w, in->dtype, in->n_dims, sizes);
  p.out = to->data;
  work_run(w, outer, i64_max(1, 16384 / i64_max(1, p.inner * axis->n_out)), run_pass, &p);
  work_drop(w, in);
  return to;
}
