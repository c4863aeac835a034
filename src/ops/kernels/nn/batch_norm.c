/* ops/kernels/nn/batch_norm.c -- batch and instance norms, in all their forms. Every operator fills
 * one `request`; `norm` measures the statistics of each channel (or uses the running ones), then
 * scales channel after channel in parallel, or row after row where an image is one pixel or its
 * channels stand side by side: the same bits, in vectors of channels. Instance norm is the same
 * code with each (image, channel) pair as a channel. Sums are added in double. 16-bit inputs are
 * widened to float32 for their statistics; scaling widens and narrows a block at a time, which
 * stays in the cache. Statistics are rounded to the dtype of their results before they are applied,
 * because PyTorch does that and the rounding is visible. */
#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"
#include "ops/math/norm.h"
#include "ops/math/rows.h"
#include "ops/point/point_run.h"

#define GRAIN 16384

/* One normalisation.  Instance norm is the same with every (image, channel) as a channel. */
typedef struct job {
  const rows *k;
  const tape_isa *convert;   /* 16-bit floats */
  /* contiguous [batch, channels, plane]; y in the input's dtype, x too unless it was measured */
  rush_tensor *x, *y;
  int64_t n_batch, n_ch, plane;
  rush_tensor *w, *b;        /* doubles or floats of the parameters' channels, or NULL */
  rush_tensor *mean, *rstd;  /* of n_ch, compute dtype */
  rush_tensor *var;          /* of n_ch: biased; only while statistics are computed */
  int64_t n_params;          /* channels of w and b: n_ch or a divisor (instance norm) */
  bool by_rows;              /* x and y are rows of n_ch, one for each pixel of each image */
  rush_tensor *scale, *shift; /* by_rows: of n_ch, compute dtype */
  double eps;
  const call_ctx *cx;
} job;

static void set_channel(const job *j, int64_t ch, double mean, double var)
{
  nn_set_number(j->mean, ch, mean);
  nn_set_number(j->var, ch, var);
  nn_set_number(j->rstd, ch, norm_rstd(var, j->eps));
}

/* Measure statistics of channels in blocks [begin, end) of ROWS_COLUMNS, of rows. */
static void measure_columns(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t at = begin * ROWS_COLUMNS; at < i64_min(end * ROWS_COLUMNS, j->n_ch);
       at += ROWS_COLUMNS) {
    double mean[ROWS_COLUMNS] = {0}, sq[ROWS_COLUMNS] = {0};
    const int width = (int)i64_min(ROWS_COLUMNS, j->n_ch - at);
    const char *x = (const char *)j->x->data + at * item;
    j->k->sum_columns(j->n_batch, j->n_ch, width, x, mean);
    for (int c = 0; c < width; c++)
      mean[c] /= (double)j->n_batch;
    j->k->sum_sq_columns(j->n_batch, j->n_ch, width, x, mean, sq);
    for (int c = 0; c < width; c++)
      set_channel(j, at + c, mean[c], sq[c] / (double)j->n_batch);
  }
}

/* Measure statistics of channels [begin, end): sums of planes are added in double. */
static void measure_channels(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  const double count = (double)(j->n_batch * j->plane);
  for (int64_t ch = begin; ch < end; ch++) {
    double sum = 0.0, sq = 0.0;
    for (int64_t i = 0; i < j->n_batch; i++)
      sum += j->k->sum(j->plane, (const char *)j->x->data + (i * j->n_ch + ch) * j->plane * item);
    const double mean = sum / count;
    for (int64_t i = 0; i < j->n_batch; i++)
      sq += j->k->sum_sq(j->plane, (const char *)j->x->data + (i * j->n_ch + ch) * j->plane * item,
                         mean);
    set_channel(j, ch, mean, sq / count);
  }
}

/* Scale elements [at, at + n), whose results are 16-bit floats. */
static void scale_halves(const job *j, int64_t at, int64_t n, double scale, double shift)
{
  enum { STEP = 512 };
  float wide[STEP], scaled[STEP];
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t end = at + n, m; at < end; at += m) {
    const void *from = (const char *)j->x->data + at * item;
    m = i64_min(STEP, end - at);
    if (item == 2)
      j->convert->load[j->x->dtype](m, wide, from);
    j->k->affine(m, item == 2 ? wide : from, scale, shift, scaled);
    j->convert->store[j->y->dtype](m, (uint16_t *)j->y->data + at, scaled);
  }
}

static double scale_of(const job *j, int64_t ch, double *shift)
{
  const int64_t p = ch % j->n_params;
  const double scale = norm_scale(nn_number_at(j->rstd, ch), j->w ? nn_number_at(j->w, p) : 1.0);

  *shift = norm_shift(nn_number_at(j->mean, ch), scale, j->b ? nn_number_at(j->b, p) : 0.0);
  return scale;
}

/* Scale rows [begin, end) of channels. */
static void scale_rows(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t bytes = j->n_ch * (int64_t)tensor_item_bytes(j->x);
  for (int64_t i = begin; i < end; i++)
    j->k->affine_each(j->n_ch, (const char *)j->x->data + i * bytes, j->scale->data,
                      j->shift->data, (char *)j->y->data + i * bytes);
}

/* Scale planes [begin, end) of the whole batch. */
static void scale_channels(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t i = begin; i < end; i++) {
    double shift;
    const double scale = scale_of(j, i % j->n_ch, &shift);
    for (int64_t at = 0; at < j->plane && !(at && call_over(j->cx)); at += ROWS_AT_ONCE) {
      const int64_t n = i64_min(ROWS_AT_ONCE, j->plane - at), first = i * j->plane + at;
      if (nn_is_half(j->y->dtype))
        scale_halves(j, first, n, scale, shift);
      else
        j->k->affine(n, (const char *)j->x->data + first * item, scale, shift,
                     (char *)j->y->data + first * item);
    }
  }
}

/* The arguments of a norm, for all operators. */
typedef struct request {
  rush_tensor *input, *weight, *bias, *running_mean,
    *running_var; /* borrowed; all but input may be NULL */
  bool use_batch; /* statistics of the batch, not the running ones */
  bool instance;
  double momentum, eps;
} request;

/* Update running = (1 - momentum) * running + momentum * new; instance norms average over the
 * batch. */
static void update_running(work *w, const request *r, const job *j)
{
  const int64_t n = r->input->sizes[1], copies = n ? j->n_ch / n : 0;
  const double count = (double)(j->n_batch * j->plane);
  for (int k = 0; k < 2; k++) {
    rush_tensor *run = k ? r->running_var : r->running_mean;
    if (!run)
      continue;
    rush_tensor *made = work_new(w, RUSH_FLOAT64, run->n_dims, run->sizes);
    WORK_DO(w, tensor_copy(w->cx, made, run));
    for (int64_t ch = 0; ch < n && w->st == RUSH_OK; ch++) {
      double now = 0.0;
      for (int64_t i = 0; i < copies; i++)
        now += k ? nn_number_at(j->var, i * n + ch) * (count / (count - 1.0))
                 : nn_number_at(j->mean, i * n + ch);
      double *at = (double *)made->data + ch; /* dense in a row, whatever its dimensions */
      *at = (1.0 - r->momentum) * *at + r->momentum * (now / (double)copies);
    }
    WORK_DO(w, tensor_copy(w->cx, run, made));
    if (w->st == RUSH_OK)
      atomic_fetch_sub(&run->st->version, 1); /* as in PyTorch, a write that gradients do not see */
  }
}

/* Round a batch's statistics to the dtype of their results before they are applied, as PyTorch
 * does. */
static void round_statistics(work *w, const request *r, rush_tensor *t)
{
  if (r->weight && nn_is_half(r->input->dtype) && nn_is_half(r->weight->dtype))
    WORK_DO(w, tensor_copy(w->cx, t, work_rows(w, t, r->weight->dtype)));
  else if (!r->weight && nn_is_half(r->input->dtype))
    WORK_DO(w, tensor_copy(w->cx, t, work_rows(w, t, r->input->dtype)));
}

static void set_statistics(work *w, const request *r, job *j)
{
  if (r->use_batch) {
    j->var = work_new(w, j->mean->dtype, 1, &j->n_ch);
    if (j->by_rows)
      work_run(w, (j->n_ch + ROWS_COLUMNS - 1) / ROWS_COLUMNS,
               i64_max(1, GRAIN / ROWS_COLUMNS / i64_max(1, j->n_batch)), measure_columns, j);
    else
      work_run(w, j->n_ch, i64_max(1, GRAIN / i64_max(1, j->n_batch * j->plane)),
               measure_channels, j);
    update_running(w, r, j);
    round_statistics(w, r, j->mean);
    round_statistics(w, r, j->rstd);
    return;
  }
  const rush_tensor *mean = work_rows(w, r->running_mean, RUSH_FLOAT64),
                    *var = work_rows(w, r->running_var, RUSH_FLOAT64);
  for (int64_t i = 0; i < j->n_ch && w->st == RUSH_OK; i++) {
    nn_set_number(j->mean, i, nn_number_at(mean, i % r->input->sizes[1]));
    nn_set_number(j->rstd, i, norm_rstd(nn_number_at(var, i % r->input->sizes[1]), r->eps));
  }
}

static void scale_all(work *w, job *j)
{
  if (!j->by_rows) {
    work_run(w, j->n_batch * j->n_ch, i64_max(1, GRAIN / i64_max(1, j->plane)), scale_channels, j);
    return;
  }
  j->scale = work_new(w, j->x->dtype, 1, &j->n_ch);
  j->shift = work_new(w, j->x->dtype, 1, &j->n_ch);
  for (int64_t i = 0; i < j->n_ch && w->st == RUSH_OK; i++) {
    double shift;
    nn_set_number(j->scale, i, scale_of(j, i, &shift));
    nn_set_number(j->shift, i, shift);
  }
  work_run(w, j->n_batch * j->plane, i64_max(1, GRAIN / i64_max(1, j->n_ch)), scale_rows, j);
}

/* Set x and y, and whether they are rows of channels.  The planes of images whose channels stand
 * side by side are not measured by rows: sums of a plane have another order. */
static void set_memory(work *w, const request *r, job *j, int dtype)
{
  rush_tensor *in = r->input, *out = call_out(w->call, 0);
  const bool rows = !r->instance && in->dtype == dtype && out->dtype == dtype;

  if (rows && !r->use_batch && tensor_is_channels_last(in) && tensor_is_channels_last(out)) {
    j->x = in;
    j->y = out;
    j->by_rows = true;
    return;
  }
  j->x = work_rows(w, in, r->use_batch ? dtype : in->dtype);
  j->y = work_output(w, 0, in->dtype);
  j->by_rows = rows && j->plane == 1;
}

/* Fill result 0, and where there are more and a batch is measured: its statistics. */
static rush_status norm(rush_call *c, const request *r)
{
  const rush_tensor *in = r->input;
  const int dtype = nn_dtype(in->dtype);
  const bool gives = r->use_batch && c->n_results > 1;
  TRY(nn_check_float(c->cx, "batch_norm", in->dtype));
  if (r->use_batch && r->running_mean)
    TRY(call_check_writable(c, r->running_mean, "running_mean"));
  if (r->use_batch && r->running_var)
    TRY(call_check_writable(c, r->running_var, "running_var"));
  if (in->n_elems == 0 && !r->instance)
    return RUSH_OK;
  work w = work_begin(c);
  job j = {.k = rows_of(call_cpu(c->cx), dtype == RUSH_FLOAT64),
           .convert = tape_isa_of(c->cx->ctx),
           .w = work_rows(&w, r->weight, dtype),
           .b = work_rows(&w, r->bias, dtype),
           .n_params = in->sizes[1],
           .n_batch = r->instance ? 1 : in->sizes[0],
           .n_ch = r->instance ? in->sizes[0] * in->sizes[1] : in->sizes[1],
           .plane = 1,
           .eps = r->eps,
           .cx = c->cx};
  for (int i = 2; i < in->n_dims; i++)
    j.plane *= in->sizes[i];
  set_memory(&w, r, &j, dtype);
  j.mean = gives ? work_output(&w, 1, dtype) : work_new(&w, dtype, 1, &j.n_ch);
  j.rstd = gives ? work_output(&w, 2, dtype) : work_new(&w, dtype, 1, &j.n_ch);
  set_statistics(&w, r, &j);
  scale_all(&w, &j);
  return work_end(&w);
}

static request request_of(rush_call *c)
{
  return (request){.input = call_tensor(c, 0),
                   .weight = call_tensor(c, 1),
                   .bias = call_tensor(c, 2),
                   .running_mean = value_tensor(call_named(c, "running_mean")),
                   .running_var = value_tensor(call_named(c, "running_var")),
                   .use_batch = value_is_true(call_named(c, "training")),
                   .momentum = call_float(c, (uint32_t)call_arg(c, "momentum")),
                   .eps = call_float(c, (uint32_t)call_arg(c, "eps"))};
}

rush_status kernel_batch_norm(rush_call *c)
{
  const request r = request_of(c);
  return norm(c, &r);
}

rush_status kernel_batch_norm_with_update(rush_call *c)
{
  request r = request_of(c);
  r.use_batch = true;
  return norm(c, &r);
}

/* Return new running statistics as results 3 and 4; the arguments are not written. */
rush_status kernel_batch_norm_functional(rush_call *c)
{
  request r = request_of(c);
  TRY(tensor_copy(c->cx, call_out(c, 3), r.running_mean));
  TRY(tensor_copy(c->cx, call_out(c, 4), r.running_var));
  r.running_mean = call_out(c, 3);
  r.running_var = call_out(c, 4);
  return norm(c, &r);
}

rush_status kernel_instance_norm(rush_call *c)
{
  request r = request_of(c);
  r.instance = true;
  r.use_batch = value_is_true(call_named(c, "use_input_stats"));
  return norm(c, &r);
}
