/* ops/kernels/nn/batch_norm.c -- batch and instance norms, in all their forms. Every operator fills
 * one `request`; `norm` measures the statistics of each channel (or uses the running ones), then
 * scales channel after channel in parallel. Instance norm is the same code with each (image,
 * channel) pair as a channel. Sums are added in double, and 16-bit inputs are widened to float32
 * first. Statistics are rounded to the dtype of their results before they are applied, because
 * PyTorch does that and the rounding is visible. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/threads.h"
#include "ops/call/call.h"
#include "ops/kernels/nn.h"
#include "ops/math/rows.h"
#include "ops/kernels/views.h"

#define GRAIN 16384

/* One normalisation.  Instance norm is the same with every (image, channel) as a channel. */
typedef struct job {
  const rows *k;
  rush_tensor *x, *y;        /* contiguous [batch, channels, plane] */
  int64_t n_batch, n_ch, plane;
  rush_tensor *w, *b;        /* doubles or floats of the parameters' channels, or NULL */
  rush_tensor *mean, *rstd;  /* of n_ch, compute dtype */
  rush_tensor *var;          /* of n_ch: biased; only while statistics are computed */
  int64_t n_params;          /* channels of w and b: n_ch or a divisor (instance norm) */
  double eps;
  const call_ctx *cx;
} job;


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
    nn_set_number(j->mean, ch, mean);
    nn_set_number(j->var, ch, sq / count);
    nn_set_number(j->rstd, ch, 1.0 / sqrt(sq / count + j->eps));
  }
}

/* Scale planes [begin, end) of the whole batch. */
static void scale_channels(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const int64_t item = (int64_t)tensor_item_bytes(j->x);
  for (int64_t i = begin; i < end; i++) {
    const int64_t ch = i % j->n_ch, p = ch % j->n_params;
    const double scale = nn_number_at(j->rstd, ch) * (j->w ? nn_number_at(j->w, p) : 1.0);
    const double shift = (j->b ? nn_number_at(j->b, p) : 0.0) - nn_number_at(j->mean, ch) * scale;
    for (int64_t at = 0; at < j->plane && !(at && call_over(j->cx)); at += ROWS_AT_ONCE)
      j->k->affine(i64_min(ROWS_AT_ONCE, j->plane - at),
                   (const char *)j->x->data + (i * j->plane + at) * item, scale, shift,
                   (char *)j->y->data + (i * j->plane + at) * item);
  }
}

/* The arguments of a norm, for all operators. */
typedef struct request {
  rush_tensor *input, *weight, *bias, *running_mean,
    *running_var; /* borrowed; all but input may be NULL */
  bool use_batch; /* statistics of the batch, not the running ones */
  bool instance, update;
  double momentum, eps;
} request;

static rush_status check_norm(call_ctx *cx, const request *r)
{
  const rush_tensor *x = r->input;
  const struct { const rush_tensor *t; const char *name;
  } params[] = {{r->running_mean, "running_mean"},
                {r->running_var, "running_var"},
                {r->weight, "weight"},
                {r->bias, "bias"}};
  if (x->dtype != RUSH_FLOAT32 && x->dtype != RUSH_FLOAT64 && !nn_is_half(x->dtype))
    return call_no_dtype(cx, "batch_norm", x->dtype);
  if (x->n_dims < 2)
    return call_fail(cx, "batch_norm: expected at least 2 dimensions, but got %d", x->n_dims);
  for (size_t i = 0; i < COUNT_OF(params); i++)
    if (params[i].t && params[i].t->n_elems != x->sizes[1])
      return call_fail(cx, "%s should contain %lld elements not %lld", params[i].name,
                       (long long)x->sizes[1], (long long)params[i].t->n_elems);
  for (int i = 0; i < 2; i++)
    if (params[i].t && params[i].t->n_dims != 1)
      return call_fail(cx, "TensorAccessor expected 1 dims but tensor has %d", params[i].t->n_dims);
  if (!r->use_batch && !r->running_mean)
    return call_fail(cx, "running_mean must be defined in evaluation mode");
  if (!r->use_batch && !r->running_var)
    return call_fail(cx, "running_var must be defined in evaluation mode");
  return RUSH_OK;
}

/* Update running = (1 - momentum) * running + momentum * new; instance norms average over the
 * batch. */
static rush_status update_running(call_ctx *cx, const request *r, const job *j)
{
  const int64_t n = r->input->sizes[1], copies = n ? j->n_ch / n : 0;
  const double count = (double)(j->n_batch * j->plane);
  for (int k = 0; k < 2; k++) {
    rush_tensor *run = k ? r->running_var : r->running_mean, *wide = NULL;
    if (!run)
      continue;
    TRY(nn_widen(cx, run, RUSH_FLOAT64,
                 &wide)); /* contiguous, whatever its dimensions: n elements in a row */
    rush_tensor *made = NULL;
    rush_status st = tensor_new(cx, RUSH_FLOAT64, wide->n_dims, wide->sizes, &made);
    if (st == RUSH_OK && (st = tensor_copy(cx, made, wide)) != RUSH_OK)
      tensor_release(made);
    tensor_release(wide);
    if (st != RUSH_OK)
      return st;
    for (int64_t ch = 0; ch < n; ch++) {
      double now = 0.0;
      for (int64_t i = 0; i < copies; i++)
        now += k ? nn_number_at(j->var, i * n + ch) * (count / (count - 1.0))
                 : nn_number_at(j->mean, i * n + ch);
      double *at = (double *)made->data + ch; /* dense in a row, whatever its dimensions */
      *at = (1.0 - r->momentum) * *at + r->momentum * (now / (double)copies);
    }
    st = tensor_copy(cx, run, made);
    tensor_release(made);
    TRY(st);
    atomic_fetch_sub(&run->st->version, 1); /* as in PyTorch no write that gradients know of */
  }
  return RUSH_OK;
}

static int statistics_dtype(const request *r)
{
  return r->weight && nn_is_half(r->input->dtype) ? r->weight->dtype : r->input->dtype;
}

/* Round a batch's statistics to their results' dtype, as PyTorch does before it applies them. */
static void round_statistics(const request *r, job *j)
{
  const int dtype = statistics_dtype(r);
  for (int64_t i = 0; i < j->n_ch && nn_is_half(dtype); i++) {
    const float mean = (float)nn_number_at(j->mean, i), rstd = (float)nn_number_at(j->rstd, i);
    nn_set_number(j->mean, i,
               dtype == RUSH_FLOAT16 ? f32_of_f16(f16_of_f32(mean))
                                     : f32_of_bf16(bf16_of_f32(mean)));
    nn_set_number(j->rstd, i,
               dtype == RUSH_FLOAT16 ? f32_of_f16(f16_of_f32(rstd))
                                     : f32_of_bf16(bf16_of_f32(rstd)));
  }
}

static rush_status set_statistics(call_ctx *cx, const request *r, job *j, int dtype)
{
  TRY(tensor_new(cx, dtype, 1, &j->n_ch, &j->mean));
  TRY(tensor_new(cx, dtype, 1, &j->n_ch, &j->rstd));
  if (r->use_batch) {
    TRY(tensor_new(cx, dtype, 1, &j->n_ch, &j->var));
    TRY(parallel_for(cx, j->n_ch, i64_max(1, GRAIN / i64_max(1, j->n_batch * j->plane)),
                     measure_channels, j));
    TRY(r->update ? update_running(cx, r, j) : RUSH_OK);
    round_statistics(r, j);
    return RUSH_OK;
  }
  rush_tensor *mean = NULL, *var = NULL;
  rush_status st = nn_widen(cx, r->running_mean, RUSH_FLOAT64, &mean);
  if (st == RUSH_OK)
    st = nn_widen(cx, r->running_var, RUSH_FLOAT64, &var);
  for (int64_t i = 0; i < j->n_ch && st == RUSH_OK; i++) {
    nn_set_number(j->mean, i, nn_number_at(mean, i % r->input->sizes[1]));
    nn_set_number(j->rstd, i, 1.0 / sqrt(nn_number_at(var, i % r->input->sizes[1]) + r->eps));
  }
  tensor_release(mean);
  tensor_release(var);
  return st;
}

static void job_release(job *j)
{
  tensor_release(j->x);
  tensor_release(j->y);
  tensor_release(j->w);
  tensor_release(j->b);
  tensor_release(j->mean);
  tensor_release(j->rstd);
  tensor_release(j->var);
}

/* Run a norm; fills j, which the caller releases, also on failure. */
static rush_status run_norm(call_ctx *cx, const request *r, job *j)
{
  TRY(check_norm(cx, r));
  const rush_tensor *in = r->input;
  const int dtype = nn_dtype(in->dtype);
  TRY(nn_widen(cx, r->input, dtype, &j->x));
  TRY(tensor_new(cx, dtype, in->n_dims, in->sizes, &j->y));
  TRY(nn_widen(cx, r->weight, dtype, &j->w));
  TRY(nn_widen(cx, r->bias, dtype, &j->b));
  j->k = rows_of(cpu_choose(context_get_options(cx->ctx)->cpu), dtype == RUSH_FLOAT64);
  j->n_params = in->sizes[1];
  j->n_batch = r->instance ? 1 : in->sizes[0];
  j->n_ch = r->instance ? in->sizes[0] * in->sizes[1] : in->sizes[1];
  j->plane = 1;
  for (int i = 2; i < in->n_dims; i++)
    j->plane *= in->sizes[i];
  j->eps = r->eps;
  j->cx = cx;
  TRY(set_statistics(cx, r, j, dtype));
  return parallel_for(cx, j->n_batch * j->n_ch, i64_max(1, GRAIN / i64_max(1, j->plane)),
                      scale_channels, j);
}

/* Return a result; steals t. */
static rush_status give_steal(rush_call *c, uint32_t i, rush_tensor *t, int dtype,
                              const rush_tensor *like)
{
  rush_tensor *as = NULL;
  rush_status st = tensor_to_dtype(c->cx, t, dtype, &as);
  tensor_release(t);
  TRY(st);
  if (like && tensor_prefers_channels_last(like)) {
    rush_tensor *last = NULL;
    st = tensor_copy_format(
      c->cx, as, dtype, as->n_dims == 4 ? FORMAT_CHANNELS_LAST : FORMAT_CHANNELS_LAST_3D, &last);
    tensor_release(as);
    TRY(st);
    as = last;
  }
  call_return_steal(c, i, as);
  return RUSH_OK;
}

static rush_status give_empty(rush_call *c, uint32_t i, int dtype)
{
  const int64_t none = 0;
  rush_tensor *t = NULL;
  TRY(tensor_new(c->cx, dtype, 1, &none, &t));
  call_return_steal(c, i, t);
  return RUSH_OK;
}

/* Return result 0, and if there are more: the statistics for a backward (empty unless a
 * batch's). */
static rush_status norm(rush_call *c, const request *r)
{
  job j = {0};
  if (r->update && r->use_batch && r->running_mean)
    TRY(call_check_writable(c, r->running_mean, "running_mean"));
  if (r->update && r->use_batch && r->running_var)
    TRY(call_check_writable(c, r->running_var, "running_var"));
  rush_status st = run_norm(c->cx, r, &j);
  const int stat = statistics_dtype(r);
  if (st == RUSH_OK) {
    rush_tensor *y = j.y;
    j.y = NULL;
    st = give_steal(c, 0, y, r->input->dtype, r->input);
  }
  for (uint32_t i = 1; i < 3 && i < c->n_results && st == RUSH_OK; i++) {
    rush_tensor **t = i == 1 ? &j.mean : &j.rstd, *given = *t;
    if (!r->use_batch) {
      st = give_empty(c, i, stat);
      continue;
    }
    *t = NULL;
    st = give_steal(c, i, given, stat, NULL);
  }
  job_release(&j);
  return st;
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps, ...) */
static request request_of(rush_call *c)
{
  return (request){.input = call_tensor(c, 0),
                   .weight = call_tensor(c, 1),
                   .bias = call_tensor(c, 2),
                   .running_mean = call_tensor(c, 3),
                   .running_var = call_tensor(c, 4),
                   .use_batch = call_bool(c, 5),
                   .update = true,
                   .momentum = call_float(c, 6),
                   .eps = call_float(c, 7)};
}

rush_status kernel_batch_norm(rush_call *c)
{
  request r = request_of(c);
  if (r.input->n_elems == 0) { /* of whatever shape */
    rush_tensor *y = NULL;
    TRY(tensor_clone(c->cx, r.input, &y));
    call_return_steal(c, 0, y);
    return RUSH_OK;
  }
  return norm(c, &r);
}

/* The same results and a reserve: empty; index 0 of _batch_norm_impl_index means our own
 * implementation. */
rush_status kernel__batch_norm_impl_index(rush_call *c)
{
  request r = request_of(c);
  TRY(norm(c, &r));
  TRY(give_empty(c, 3, RUSH_UINT8));
  call_return_value_steal(c, 4, value_int(0));
  return RUSH_OK;
}

/* (input, weight, bias, running_mean, running_var, momentum, eps) */
rush_status kernel_batch_norm_no_training(rush_call *c)
{
  request r = {.input = call_tensor(c, 0),
               .weight = call_tensor(c, 1),
               .bias = call_tensor(c, 2),
               .running_mean = call_tensor(c, 3),
               .running_var = call_tensor(c, 4),
               .momentum = call_float(c, 5),
               .eps = call_float(c, 6)};
  return norm(c, &r);
}

rush_status kernel__batch_norm_with_update(rush_call *c)
{
  request r = {.input = call_tensor(c, 0),
               .weight = call_tensor(c, 1),
               .bias = call_tensor(c, 2),
               .running_mean = call_tensor(c, 3),
               .running_var = call_tensor(c, 4),
               .use_batch = true,
               .update = true,
               .momentum = call_float(c, 5),
               .eps = call_float(c, 6)};
  TRY(norm(c, &r));
  return give_empty(c, 3, RUSH_UINT8);
}

/* (input, weight, bias, training, momentum, eps) */
rush_status kernel_batch_norm_no_stats(rush_call *c)
{
  request r = {.input = call_tensor(c, 0), .weight = call_tensor(c, 1), .bias = call_tensor(c, 2),
               .use_batch = call_bool(c, 3), .momentum = call_float(c, 4), .eps = call_float(c, 5)};
  return norm(c, &r);
}

/* The running statistics are results 3 and 4, not written. */
rush_status kernel_batch_norm_functional(rush_call *c)
{
  request r = request_of(c);
  rush_tensor *mean = NULL, *var = NULL;
  rush_status st = tensor_clone(c->cx, r.running_mean, &mean);
  if (st == RUSH_OK)
    st = tensor_clone(c->cx, r.running_var, &var);
  r.running_mean = mean;
  r.running_var = var;
  if (st == RUSH_OK)
    st = norm(c, &r);
  if (st != RUSH_OK) {
    tensor_release(mean);
    tensor_release(var);
    return st;
  }
  call_return_steal(c, 3, mean);
  call_return_steal(c, 4, var);
  return RUSH_OK;
}

rush_status kernel_instance_norm(rush_call *c)
{
  request r = request_of(c);
  r.instance = true;
  return norm(c, &r);
}
