/* ops/kernels/nn/norm.c -- softmax, and layer, group and RMS norms, row by row with the loops of
 * rows.h.  16-bit floats compute in float32.  A softmax of another dimension than the last takes
 * columns in blocks, so that memory is still read in rows. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"
#include "ops/math/norm.h"
#include "ops/math/rows.h"

#define GRAIN 16384 /* elements of a task */

static const rows *rows_for(call_ctx *cx, int dtype)
{
  return rows_of(call_cpu(cx), dtype == RUSH_FLOAT64);
}

static const char *elem_at(const rush_tensor *t, int64_t i)
{
  return t ? (const char *)t->data + i * (int64_t)tensor_item_bytes(t) : NULL;
}

/* -- Softmax ----------------------------------------------------------------------------------- */

enum { COLUMNS = ROWS_COLUMNS }; /* at a time when the dimension is not the last */

typedef struct softmax_job {
  call_ctx *cx;
  const rows *k;
  const char *x;
  char *y;
  int64_t n, inner;
  size_t item;
  bool log, safe;
  _Atomic int failed;
} softmax_job;

static void softmax_row(const softmax_job *j, const void *x, void *y)
{
  if (j->safe && j->k->max(j->n, x) == -(double)INFINITY) {
    memset(y, 0, (size_t)j->n * j->item); /* everything masked */
    return;
  }
  (j->log ? j->k->log_softmax : j->k->softmax)(j->n, x, y);
}

static void softmax_rows(void *arg, int64_t begin, int64_t end)
{
  const softmax_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    softmax_row(j, j->x + (size_t)(i * j->n) * j->item, j->y + (size_t)(i * j->n) * j->item);
}

static void move_item(char *to, const char *from, size_t item)
{
  if (item == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, 8);
}

/* Tasks are (outer, block of COLUMNS inner positions). */
static void softmax_columns(void *arg, int64_t begin, int64_t end)
{
  softmax_job *j = arg;
  const size_t item = j->item, n_bytes = (size_t)(COLUMNS * j->n) * item;
  const int64_t blocks = (j->inner + COLUMNS - 1) / COLUMNS;
  for (int64_t t = begin; t < end && !j->safe; t++) {
    const size_t first = (size_t)(t / blocks * j->n * j->inner + t % blocks * COLUMNS) * item;
    const int width = (int)i64_min(COLUMNS, j->inner - t % blocks * COLUMNS);
    j->k->softmax_columns(j->n, j->inner, width, j->log, j->x + first, j->y + first);
  }
  if (!j->safe)
    return;
  char *buf = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!buf) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t t = begin; t < end; t++) {
    const int64_t first = t / blocks * j->n * j->inner + t % blocks * COLUMNS;
    const int64_t width = i64_min(COLUMNS, j->inner - t % blocks * COLUMNS);
    for (int64_t i = 0; i < j->n; i++)
      for (int64_t c = 0; c < width; c++)
        move_item(buf + (size_t)(c * j->n + i) * item,
                  j->x + (size_t)(first + i * j->inner + c) * item, item);
    for (int64_t c = 0; c < width; c++)
      softmax_row(j, buf + (size_t)(c * j->n) * item, buf + (size_t)(c * j->n) * item);
    for (int64_t i = 0; i < j->n; i++)
      for (int64_t c = 0; c < width; c++)
        move_item(j->y + (size_t)(first + i * j->inner + c) * item,
                  buf + (size_t)(c * j->n + i) * item, item);
  }
  mem_free_data(j->cx->ctx, buf, n_bytes);
}

/* (self, dim, dtype or half_to_float) */
static rush_status softmax(rush_call *c, softmax_job j)
{
  rush_tensor *self = call_tensor(c, 0), *out = call_out(c, 0);
  const int dim = call_dim(c, 1, self->n_dims), dtype = nn_dtype(out->dtype);
  TRY(nn_check_float(c->cx,
                     j.log ? "log_softmax_lastdim_kernel_impl" : "softmax_lastdim_kernel_impl",
                     out->dtype));
  if (out->n_elems == 0)
    return RUSH_OK;
  work w = work_begin(c);
  const rush_tensor *x = work_rows(&w, work_rows(&w, self, out->dtype), dtype);
  j.cx = c->cx;
  j.k = rows_for(c->cx, dtype);
  j.x = x->data;
  j.y = work_output(&w, 0, dtype)->data;
  j.item = dtype_bytes(dtype);
  j.n = self->n_dims ? self->sizes[dim] : 1;
  j.inner = 1;
  for (int i = dim + 1; i < self->n_dims; i++)
    j.inner *= self->sizes[i];
  const int64_t outer = self->n_elems / j.n / j.inner, blocks = (j.inner + COLUMNS - 1) / COLUMNS;
  if (j.inner == 1)
    work_run(&w, outer, i64_max(1, GRAIN / j.n), softmax_rows, &j);
  else
    work_run(&w, outer * blocks, i64_max(1, GRAIN / j.n / COLUMNS), softmax_columns, &j);
  if (j.failed)
    WORK_DO(&w, call_nomem(c->cx));
  return work_end(&w);
}

rush_status kernel_softmax(rush_call *c) { return softmax(c, (softmax_job){0}); }
rush_status kernel_log_softmax(rush_call *c) { return softmax(c, (softmax_job){.log = true}); }
rush_status kernel_safe_softmax(rush_call *c) { return softmax(c, (softmax_job){.safe = true}); }

/* -- Rows with a mean and a deviation ---------------------------------------------------------- */

/* Rows of n elements; weight and bias have one for each element of a row. */
typedef struct row_job {
  const rows *k;
  const rush_tensor *x, *w, *b; /* contiguous, one dtype; w and b may be NULL */
  rush_tensor *y, *mean, *rstd; /* mean and rstd: one per row, may be NULL */
  int64_t n;
  double eps;
  bool rms;                     /* no mean is taken away */
  const call_ctx *cx;
} row_job;

static void normalize_row(const row_job *j, const char *x, double mean, double rstd, char *y)
{
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t i = 0; i < j->n && !(i && call_over(j->cx)); i += ROWS_AT_ONCE)
    j->k->normalize(i64_min(ROWS_AT_ONCE, j->n - i), x + i * item, mean, rstd,
                    j->w ? (const char *)j->w->data + i * item : NULL,
                    j->b ? (const char *)j->b->data + i * item : NULL, y + i * item);
}

static void normalize_rows(void *arg, int64_t begin, int64_t end)
{
  const row_job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    const char *x = elem_at(j->x, i * j->n);
    char *y = (char *)(uintptr_t)elem_at(j->y, i * j->n);
    const double mean = j->rms ? 0.0 : j->k->sum(j->n, x) / (double)j->n;
    const double rstd = 1.0 / sqrt(j->k->sum_sq(j->n, x, mean) / (double)j->n + j->eps);
    if (j->mean)
      nn_set_number(j->mean, i, mean);
    if (j->rstd)
      nn_set_number(j->rstd, i, rstd);
    normalize_row(j, x, mean, rstd, y);
  }
}

/* Normalise n_rows rows of j->n elements of argument 0; the rows' statistics are results too, where
 * the operator has them. */
static rush_status run_rows(rush_call *c, rush_tensor *weight, rush_tensor *bias, int64_t n_rows,
                            row_job j)
{
  rush_tensor *x = call_tensor(c, 0);
  const int dtype = nn_dtype(x->dtype);
  work w = work_begin(c);
  j.k = rows_for(c->cx, dtype);
  j.cx = c->cx;
  j.x = work_rows(&w, x, dtype);
  j.w = work_rows(&w, weight, dtype);
  j.b = work_rows(&w, bias, dtype);
  j.y = work_output(&w, 0, dtype);
  j.mean = c->n_results == 3 ? work_output(&w, 1, dtype) : NULL;
  j.rstd = c->n_results > 1 ? work_output(&w, c->n_results - 1, dtype) : NULL;
  work_run(&w, n_rows, i64_max(1, GRAIN / i64_max(1, j.n)), normalize_rows, &j);
  return work_end(&w);
}

/* Set *n to the number of elements of a row under normalized_shape, argument 1, and *n_rows to the
 * number of rows. */
static void normalized_rows(rush_call *c, int64_t *n, int64_t *n_rows)
{
  const rush_tensor *x = call_tensor(c, 0);
  const int64_t n_norm = (int64_t)call_list(c, 1)->n;
  *n = *n_rows = 1;
  for (int i = 0; i < x->n_dims; i++)
    *(i < x->n_dims - n_norm ? n_rows : n) *= x->sizes[i];
}

/* (input, normalized_shape, weight, bias, eps, ...) */
rush_status kernel_layer_norm(rush_call *c)
{
  row_job j = {.eps = call_float(c, 4)};
  int64_t n_rows;
  TRY(nn_check_float(c->cx, "LayerNormKernelImpl", call_tensor(c, 0)->dtype));
  normalized_rows(c, &j.n, &n_rows);
  return run_rows(c, call_tensor(c, 2), call_tensor(c, 3), n_rows, j);
}

/* (input, normalized_shape, weight, eps); the fused form returns the deviations too. */
rush_status kernel_rms_norm(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0);
  const double eps = x->dtype == RUSH_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
  row_job j = {.eps = call_float_or(c, 3, eps), .rms = true};
  int64_t n_rows;
  TRY(nn_check_float(c->cx, "rms_norm", x->dtype));
  normalized_rows(c, &j.n, &n_rows);
  return run_rows(c, call_tensor(c, 2), NULL, n_rows, j);
}

/* -- Group norm -------------------------------------------------------------------------------- */

/* Channels of fewer elements are added with all of their group. */
#define FEWEST_BY_CHANNEL 16

/* A group's sums are those of its parts, which are channels unless these are small, in double. */
typedef struct group_job {
  const rows *k;
  const rush_tensor *x, *w, *b; /* contiguous, one dtype; w and b may be NULL */
  rush_tensor *y;
  int64_t n_ch, groups, plane;
  int64_t part, per_group;      /* elements of a part, parts of a group */
  double *sums;                 /* by part */
  double *mean, *rstd;          /* by group */
  const call_ctx *cx;
} group_job;

static const char *part_at(const group_job *j, int64_t i)
{
  return elem_at(j->x, i * j->part);
}

static void add_parts(void *arg, int64_t begin, int64_t end)
{
  const group_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    j->sums[i] = j->k->sum(j->part, part_at(j, i));
}

static void add_squares(void *arg, int64_t begin, int64_t end)
{
  const group_job *j = arg;
  for (int64_t i = begin; i < end; i++)
    j->sums[i] = j->k->sum_sq(j->part, part_at(j, i), j->mean[i / j->per_group]);
}

/* Divide the sums of each group's parts by its elements. */
static void average_parts(const group_job *j, int64_t n_groups, double *out)
{
  for (int64_t g = 0; g < n_groups; g++) {
    double sum = 0.0;
    for (int64_t i = 0; i < j->per_group; i++)
      sum += j->sums[g * j->per_group + i];
    out[g] = sum / (double)(j->per_group * j->part);
  }
}

static void scale_planes(void *arg, int64_t begin, int64_t end)
{
  const group_job *j = arg;
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t i = begin; i < end; i++) {
    const int64_t ch = i % j->n_ch, g = i / (j->n_ch / j->groups);
    const double scale = norm_scale(j->rstd[g], j->w ? nn_number_at(j->w, ch) : 1.0);
    const double shift = norm_shift(j->mean[g], scale, j->b ? nn_number_at(j->b, ch) : 0.0);
    const char *x = elem_at(j->x, i * j->plane);
    char *y = (char *)(uintptr_t)elem_at(j->y, i * j->plane);
    for (int64_t k = 0; k < j->plane && !(k && call_over(j->cx)); k += ROWS_AT_ONCE)
      j->k->affine(i64_min(ROWS_AT_ONCE, j->plane - k), x + k * item, scale, shift, y + k * item);
  }
}

static void run_groups(work *w, group_job *j, int64_t n_groups)
{
  const int64_t n_parts = n_groups * j->per_group, grain = i64_max(1, GRAIN / j->part);
  j->sums = work_memory(w, n_parts, sizeof *j->sums);
  work_run(w, n_parts, grain, add_parts, j);
  if (w->st == RUSH_OK)
    average_parts(j, n_groups, j->mean);
  work_run(w, n_parts, grain, add_squares, j);
  if (w->st == RUSH_OK)
    average_parts(j, n_groups, j->rstd);
}

static rush_status group_norm(rush_call *c, int64_t n_batch, int64_t n_ch, int64_t groups,
                              double eps)
{
  rush_tensor *x = call_tensor(c, 0);
  const int dtype = nn_dtype(x->dtype);
  TRY(nn_check_float(c->cx, "GroupNormKernelImpl", x->dtype));
  const int64_t plane = x->n_elems ? x->n_elems / n_batch / n_ch : 0, n_groups = n_batch * groups;
  work w = work_begin(c);
  group_job j = {.k = rows_for(c->cx, dtype), .cx = c->cx, .n_ch = n_ch, .groups = groups,
                 .plane = plane, .x = work_rows(&w, x, dtype),
                 .w = work_rows(&w, value_tensor(call_named(c, "weight")), dtype),
                 .b = work_rows(&w, value_tensor(call_named(c, "bias")), dtype),
                 .y = work_output(&w, 0, dtype)};
  rush_tensor *mean = c->n_results == 3 ? work_output(&w, 1, dtype) : NULL,
              *rstd = c->n_results == 3 ? work_output(&w, 2, dtype) : NULL;
  if (plane) {
    j.per_group = plane < FEWEST_BY_CHANNEL ? 1 : n_ch / groups;
    j.part = n_ch / groups * plane / j.per_group;
    j.mean = work_memory(&w, n_groups, sizeof *j.mean);
    j.rstd = work_memory(&w, n_groups, sizeof *j.rstd);
    run_groups(&w, &j, n_groups);
    for (int64_t g = 0; g < n_groups && w.st == RUSH_OK; g++) {
      j.rstd[g] = norm_rstd(j.rstd[g], eps);
      if (mean)
        nn_set_number(mean, g, j.mean[g]);
      if (rstd)
        nn_set_number(rstd, g, j.rstd[g]);
    }
    work_run(&w, n_batch * n_ch, i64_max(1, GRAIN / plane), scale_planes, &j);
  }
  return work_end(&w);
}

/* (input, num_groups, weight, bias, eps, ...) */
rush_status kernel_group_norm(rush_call *c)
{
  const rush_tensor *x = call_tensor(c, 0);
  return group_norm(c, x->sizes[0], x->sizes[1], call_int(c, 1), call_float(c, 4));
}

/* (input, weight, bias, N, C, HxW, group, eps) */
rush_status kernel_native_group_norm(rush_call *c)
{
  return group_norm(c, call_int(c, 3), call_int(c, 4), call_int(c, 6), call_float(c, 7));
}
