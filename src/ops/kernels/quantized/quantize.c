/* ops/kernels/quantized/quantize.c -- quantizing, dequantizing, the choice of parameters, and the
 * path of operators without quantized kernels: their arguments are dequantized, the operator runs
 * on floats, and float results are quantized with the first argument's parameters. That path is
 * slower than a kernel on bytes, but makes every operator usable. Rounding differs between
 * PyTorch's own kernels (fused, added, rounded); quant_rounding names the three. */
#include "ops/kernels/quantized/quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/quantized/quantize_kernel.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "tensor/sparse.h"

#define GRAIN 65536

void quant_limits(int dtype, int64_t *lo, int64_t *hi)
{
  *lo = dtype == RUSH_QUINT8 ? 0 : dtype == RUSH_QINT8 ? -128 : INT32_MIN;
  *hi = dtype == RUSH_QUINT8 ? 255 : dtype == RUSH_QINT8 ? 127 : INT32_MAX;
}

rush_status quantized_new(call_ctx *cx, int dtype, int n_dims, const int64_t *sizes,
                          const quantizer *q, rush_tensor **out)
{
  rush_tensor *t = NULL;
  TRY(tensor_new(cx, dtype, n_dims, sizes, &t));
  rush_status st = tensor_set_quantizer(cx, t, q);
  if (st != RUSH_OK) {
    tensor_release(t);
    return st;
  }
  *out = t;
  return RUSH_OK;
}

/* -- Elements ---------------------------------------------------------------------------------- */

typedef struct quant_job {
  const float *x;
  float *y; /* of dequantizing */
  char *q;
  int dtype;
  quant_rounding rounding;
  const quantize_kernels *kernels;
  int64_t inner, n_channels; /* per channel: elements of one channel in a row, channels */
  const quantizer *params;
} quant_job;

static void params_of(const quantizer *q, int64_t channel, float *scale, int32_t *zero_point)
{
  double s = q->scale;
  int64_t z = q->zero_point;
  if (q->per_channel) {
    convert_elems(RUSH_FLOAT64, &s, q->scales->dtype,
                  (const char *)q->scales->data + (size_t)channel * tensor_item_bytes(q->scales),
                  1);
    convert_elems(
      RUSH_INT64, &z, q->zero_points->dtype,
      (const char *)q->zero_points->data + (size_t)channel * tensor_item_bytes(q->zero_points), 1);
  }
  *scale = (float)s;
  *zero_point = (int32_t)z;
}

static void quantize_run(const quant_job *j, int64_t at, int64_t n, float scale, int32_t zero_point)
{
  int64_t lo, hi;
  const float *x = j->x + at, inv = 1.0f / scale;
  quant_limits(j->dtype, &lo, &hi);
  if (j->dtype == RUSH_QINT32)
    for (int64_t i = 0; i < n; i++)
      ((int32_t *)(void *)j->q)[at + i] =
        quantize_value(j->rounding, x[i], inv, zero_point, (int32_t)lo, (int32_t)hi);
  else
    j->kernels->bytes(j->rounding, x, j->q + at, n, inv, zero_point, (int32_t)lo, (int32_t)hi);
}

static void dequantize_run(const quant_job *j, int64_t at, int64_t n, float scale,
                           int32_t zero_point)
{
  float *y = j->y + at;
  if (j->dtype == RUSH_QINT32)
    for (int64_t i = 0; i < n; i++)
      y[i] = scale * (float)(int32_t)((uint32_t)((const int32_t *)(const void *)j->q)[at + i] -
                                      (uint32_t)zero_point);
  else
    j->kernels->reals(j->dtype == RUSH_QINT8, j->q + at, y, n, scale, zero_point);
}

/* Quantize with real zero points, which are added before rounding. */
static void run_real(const quant_job *j, int64_t at, int64_t n, int64_t channel)
{
  int64_t lo, hi;
  const float scale = ((const float *)j->params->scales->data)[channel], inv = 1.0f / scale;
  const float zero = ((const float *)j->params->zero_points->data)[channel];
  const bool is_signed = j->dtype == RUSH_QINT8;
  int32_t *words = j->dtype == RUSH_QINT32 ? (int32_t *)(void *)j->q : NULL;
  quant_limits(j->dtype, &lo, &hi);
  for (int64_t i = at; i < at + n; i++) {
    if (j->y) {
      const float q = words       ? (float)words[i]
                      : is_signed ? (float)((const int8_t *)j->q)[i]
                                  : (float)((const uint8_t *)j->q)[i];
      j->y[i] = (q - zero) * scale;
      continue;
    }
    const int64_t q = i64_min(i64_max((int64_t)lrintf(j->x[i] * inv + zero), lo), hi);
    if (words)
      words[i] = (int32_t)q;
    else
      j->q[i] = (char)q;
  }
}

static void run_elems(void *arg, int64_t begin, int64_t end)
{
  const quant_job *j = arg;
  float scale;
  int32_t zero_point;
  for (int64_t at = begin; at < end;) {
    const int64_t n =
      j->params->per_channel ? i64_min(j->inner - at % j->inner, end - at) : end - at;
    if (j->params->per_channel && dtype_is_float(j->params->zero_points->dtype)) {
      run_real(j, at, n, at / j->inner % j->n_channels);
      at += n;
      continue;
    }
    params_of(j->params, j->params->per_channel ? at / j->inner % j->n_channels : 0, &scale,
              &zero_point);
    if (j->y)
      dequantize_run(j, at, n, scale, zero_point);
    else
      quantize_run(j, at, n, scale, zero_point);
    at += n;
  }
}

static rush_status run_job(call_ctx *cx, quant_job *j, const rush_tensor *like)
{
  j->kernels = quantize_kernels_of(cx->ctx);
  j->inner = j->n_channels = 1;
  if (j->params->per_channel) {
    const int axis = j->params->axis; /* a view keeps the quantizer: its sizes need not fit */
    if (axis >= like->n_dims || like->sizes[axis] != j->params->scales->n_elems)
      return call_fail(cx, "Setting strides is possible only on uniformly quantized tensor");
    j->n_channels = i64_max(1, like->sizes[j->params->axis]);
    for (int i = j->params->axis + 1; i < like->n_dims; i++)
      j->inner *= like->sizes[i];
  }
  return like->n_elems ? parallel_for(cx, like->n_elems, GRAIN, run_elems, j) : RUSH_OK;
}

/* Return `t`, or a copy, whose elements can be read in memory order (per channel: in row-major
 * order). */
static rush_status walkable(call_ctx *cx, rush_tensor *t, int dtype, bool row_major,
                            rush_tensor **out)
{
  if (t->dtype != dtype)
    return tensor_to_dtype(cx, t, dtype, out);
  if (row_major)
    return tensor_contiguous(cx, t, out);
  if (!tensor_is_dense(t))
    return tensor_clone(cx, t, out);
  *out = tensor_retain(t);
  return RUSH_OK;
}

static rush_status quantize_as(call_ctx *cx, rush_tensor *t, int dtype, const quantizer *q,
                               quant_rounding how, rush_tensor **out)
{
  work w = work_begin_part(cx);
  const rush_tensor *x = WORK_MAKE(&w, walkable(cx, t, RUSH_FLOAT32, q->per_channel, &w.made));
  rush_tensor *y = WORK_MAKE(&w, tensor_new_like(cx, x, dtype, &w.made));
  WORK_DO(&w, tensor_set_quantizer(cx, y, q));
  quant_job j = {.x = x->data, .q = y->data, .dtype = dtype, .rounding = how, .params = q};
  WORK_DO(&w, run_job(cx, &j, x));
  return work_end_with(&w, y, out);
}

rush_status tensor_quantize(call_ctx *cx, rush_tensor *t, int dtype, const quantizer *q,
                            rush_tensor **out)
{
  const bool fused = !q->per_channel && dtype != RUSH_QINT32;
  return quantize_as(cx, t, dtype, q, fused ? QUANT_FUSED : QUANT_ADDED, out);
}

rush_status tensor_requantize(call_ctx *cx, rush_tensor *t, int dtype, const quantizer *q,
                              rush_tensor **out)
{
  return quantize_as(cx, t, dtype, q, QUANT_ROUNDED, out);
}

rush_status tensor_dequantize(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  const quantizer *q = tensor_quantizer(t);
  if (!q)
    return call_fail(cx, "dequantize: the tensor has no quantizer");
  work w = work_begin_part(cx);
  const rush_tensor *x = WORK_MAKE(&w, walkable(cx, t, t->dtype, q->per_channel, &w.made));
  rush_tensor *y = WORK_MAKE(&w, tensor_new_like(cx, x, RUSH_FLOAT32, &w.made));
  quant_job j = {.y = y->data, .q = x->data, .dtype = t->dtype, .params = q};
  WORK_DO(&w, run_job(cx, &j, x));
  return work_end_with(&w, y, out);
}

rush_status quantized_copy(call_ctx *cx, rush_tensor *dst, rush_tensor *src)
{
  rush_tensor *made = NULL;
  if (!tensor_is_quantized(dst))
    return call_fail(cx, "Copying from quantized Tensor to non-quantized Tensor is not allowed, "
                         "please use dequantize to get a "
                         "float Tensor from a quantized Tensor");
  if (!tensor_quantizer(dst) || (tensor_is_quantized(src) && !tensor_quantizer(src)))
    return call_fail(cx, "copy_: a quantized tensor without a quantizer");
  if (tensor_is_quantized(src)) {
    TRY(tensor_copy(cx, dst, src));
    return tensor_set_quantizer(cx, dst, tensor_quantizer(src));
  }
  if (src->dtype != RUSH_FLOAT32)
    return call_fail(cx, "Quantized copy only works with kFloat as source Tensor");
  TRY(tensor_quantize(cx, src, dst->dtype, tensor_quantizer(dst), &made));
  rush_status st = tensor_copy(cx, dst, made);
  tensor_release(made);
  return st;
}

/* -- Parameters -------------------------------------------------------------------------------- */

void find_min_max(context *c, const float *x, int64_t n, float *lo, float *hi)
{
  *lo = *hi = 0.0f;
  if (n > 0)
    quantize_kernels_of(c)->range(x, n, lo, hi);
}

/* Smaller scales are cut off: requantization would lose bits. */
#define SMALL_SCALE 6.1e-5f

void choose_qparams(float min, float max, int32_t q_lo, int32_t q_hi, bool preserve_sparsity,
                    bool reduce_range, double *scale_out, int64_t *zero_point)
{
  if (reduce_range) {
    q_lo /= 2;
    q_hi /= 2;
  }
  const double n_steps = (double)q_hi - (double)q_lo;
  const bool sparse = preserve_sparsity && min < 0 && max > 0;
  if (sparse) {
    const int64_t half = ((int64_t)q_hi - q_lo) / 2;
    const double m = fmax(fabs((double)min / (double)(half + 1)), fabs((double)max / (double)half));
    min = (float)(m * -(double)(half + 1));
    max = (float)(m * (double)half);
  }
  min = min < 0.0f ? min : 0.0f;
  max = max > 0.0f ? max : 0.0f;
  double scale = ((double)max - (double)min) / n_steps;
  if ((float)scale == 0.0f || isinf(1.0f / (float)scale))
    scale = 0.1;
  if (scale < (double)SMALL_SCALE) {
    const float was = (float)scale;
    scale = (double)SMALL_SCALE;
    if (min == 0.0f)
      max = SMALL_SCALE * (float)n_steps;
    else if (max == 0.0f)
      min = -SMALL_SCALE * (float)n_steps;
    else {
      min *= SMALL_SCALE / was;
      max *= SMALL_SCALE / was;
    }
  }
  const double from_min = q_lo - (double)min / scale, from_max = q_hi - (double)max / scale;
  const double error_min = fabs((double)q_lo) - fabs((double)min / scale),
               error_max = fabs((double)q_hi) - fabs((double)max / scale);
  double z = error_min < error_max ? from_min : from_max;
  if (sparse)
    z = ((double)q_lo + (double)q_hi) / 2;
  *zero_point = z < q_lo ? q_lo : z > q_hi ? q_hi : (int64_t)nearbyint(z);
  *scale_out = scale;
}

/* -- Calls of operators without support for it ------------------------------------------------ */

enum { MAX_ARGS = 64 };

static const quantizer *first_quantized(const rush_call *c, int *dtype)
{
  const rush_tensor *t;
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_is_quantized(t) && tensor_quantizer(t)) {
      *dtype = t->dtype;
      return tensor_quantizer(t);
    }
  return NULL;
}

/* Return the first argument of a quantized dtype without parameters (torch.empty makes such), or
 * NULL. */
static const rush_tensor *first_unquantized(const rush_call *c)
{
  const rush_tensor *t;
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_is_quantized(t) && !tensor_quantizer(t))
      return t;
  return NULL;
}

/* Dequantize the tensors in v (`unit`: as if their scale were 1); new. */
static rush_status plain_value(call_ctx *cx, rush_value v, bool unit, rush_value *out)
{
  rush_tensor *t = NULL, *steps = NULL;
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && tensor_is_quantized(v.as.tensor)) {
    const quantizer *q = tensor_quantizer(v.as.tensor);
    const quantizer one = {.scale = 1.0, .zero_point = q ? q->zero_point : 0};
    TRY(tensor_alias(cx, v.as.tensor, &steps));
    rush_status st = unit ? tensor_set_quantizer(cx, steps, &one) : RUSH_OK;
    if (st == RUSH_OK)
      st = tensor_dequantize(cx, steps, &t);
    tensor_release(steps);
    TRY(st);
    *out = value_tensor_steal(t);
    return RUSH_OK;
  }
  if (v.tag != RUSH_TAG_LIST || v.as.list->n == 0 ||
      v.as.list->items[0].tag > RUSH_TAG_TENSOR) { /* None: of Tensor?[] */
    *out = value_retain(v);
    return RUSH_OK;
  }
  rush_list *l = NULL;
  rush_value item;
  TRY(list_new(cx, v.as.list->elem, v.as.list->n, &l));
  rush_status st = RUSH_OK;
  for (size_t i = 0; i < v.as.list->n && st == RUSH_OK; i++) {
    st = plain_value(cx, v.as.list->items[i], unit, &item);
    if (st == RUSH_OK)
      st = list_append_steal(cx, l, item);
  }
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  if (st != RUSH_OK)
    value_release(*out);
  return st;
}

/* Convert real results to integers in units of 1: the zero point is added before rounding. */
static rush_status round_steps(call_ctx *cx, rush_tensor *t, int dtype, const quantizer *q,
                               rush_tensor **out)
{
  const quantizer none = {.scale = 1.0};
  rush_tensor *moved = NULL;
  TRY(tensor_clone(cx, t, &moved));
  float *v = moved->data;
  for (int64_t i = 0; i < moved->n_elems; i++)
    v[i] += (float)q->zero_point;
  rush_status st = tensor_quantize(cx, moved, dtype, &none, out);
  tensor_release(moved);
  TRY(st);
  return tensor_set_quantizer(cx, *out, q);
}

static rush_status refuse_quantized(const rush_call *c, const char *with)
{
  const schema *sc = c->op->schema;
  return call_unsupported(c->cx, "%s%s%s with %s", sc->name, sc->overload[0] ? "." : "",
                          sc->overload, with);
}

static bool takes_sparse(const rush_call *c)
{
  const rush_tensor *t;
  for (tensor_walk w = {c->args, c->n_args}; (t = tensor_walk_next(&w)) != NULL;)
    if (tensor_sparse(t))
      return true;
  return false;
}

static rush_status requantize_results(rush_call *c, int dtype, const quantizer *q, bool unit)
{
  for (uint32_t i = 0; i < c->n_results; i++) {
    rush_tensor *t = c->results[i].tag == RUSH_TAG_TENSOR ? c->results[i].as.tensor : NULL,
                *made = NULL;
    if (!t || t->dtype != RUSH_FLOAT32)
      continue;
    if (tensor_sparse(t))
      return refuse_quantized(c, "quantized tensors where the result is sparse");
    TRY((unit ? round_steps : tensor_requantize)(c->cx, t, dtype, q, &made));
    tensor_release(t);
    c->results[i].as.tensor = made;
  }
  return RUSH_OK;
}

/* Run a call whose only tensor is the first argument, and whose result has elements of it: on the
 * bytes, which are in the order of the numbers. */
static rush_status call_on_bytes(const rush_call *c, const quantizer *q,
                                 rush_status (*dispatch)(rush_call *c))
{
  rush_value args[MAX_ARGS];
  rush_tensor *t = c->args[0].as.tensor, *bytes = NULL;
  const int16_t dtype = t->dtype;
  rush_call plain = *c;
  TRY(tensor_alias(c->cx, t, &bytes));
  bytes->dtype = dtype == RUSH_QUINT8 ? RUSH_UINT8 : RUSH_INT8;
  tensor_drop_quantizer(bytes);
  memcpy(args, c->args, c->n_args * sizeof *args);
  args[0] = value_tensor_steal(bytes);
  plain.args = args;
  plain.last_use = 0;
  rush_status st = dispatch(&plain);
  tensor_release(bytes);
  TRY(st);
  rush_tensor *made = c->results[0].as.tensor;
  made->dtype = dtype;
  return tensor_set_quantizer(c->cx, made, q);
}

static bool runs_on_bytes(const rush_call *c)
{
  const rush_tensor *t = c->args[0].tag == RUSH_TAG_TENSOR ? c->args[0].as.tensor : NULL;
  return c->op->effects & OP_Q_ORDER && c->n_results == 1 && t &&
         (t->dtype == RUSH_QUINT8 || t->dtype == RUSH_QINT8);
}

/* Return the parameters: the first argument's, unless the operator has a result range of its
 * own. */
static quantizer result_params(const op *o, int dtype, const quantizer *first)
{
  int64_t lo, hi;
  if (!(o->effects & (OP_Q_UNIT | OP_Q_SYMMETRIC)))
    return *first;
  const double range = o->effects & OP_Q_UNIT ? 1.0 : 2.0;
  quant_limits(dtype, &lo, &hi);
  return (quantizer){.scale = range / ((double)hi - (double)lo + 1.0),
                     .zero_point = o->effects & OP_Q_UNIT ? lo : (lo + hi + 1) / 2};
}

rush_status quantized_call(rush_call *c, rush_status (*dispatch)(rush_call *c))
{
  rush_value args[MAX_ARGS];
  int dtype = 0;
  const quantizer *q = first_quantized(c, &dtype);
  if ((c->op->effects & OP_QUANTIZED) || (!c->op->kernel && c->op->family == FAMILY_COMPOSITE))
    return dispatch(c);
  const rush_tensor *unknown = first_unquantized(c);
  if (unknown)
    return call_fail_type(c->cx, "NotImplementedError",
                          "%s() is not implemented for a tensor of dtype '%s' without a quantizer",
                          c->op->schema->name, dtype_aten_name(unknown->dtype));
  if (!q)
    return dispatch(c);
  if (c->op->base && !c->op->kernel)
    return call_through_base(c);
  if (c->n_args > MAX_ARGS || q->per_channel || (c->op->effects & OP_WRITES))
    return refuse_quantized(c, "quantized tensors");
  if (takes_sparse(c))
    return refuse_quantized(c, "quantized and sparse tensors in one call");
  if (runs_on_bytes(c))
    return call_on_bytes(c, q, dispatch);
  uint32_t n = 0;
  rush_status st = RUSH_OK;
  const bool unit = c->op->effects & OP_Q_SCALES;
  for (; n < c->n_args && st == RUSH_OK; n++)
    st = plain_value(c->cx, c->args[n], unit, &args[n]);
  if (st != RUSH_OK)
    n--;
  if (st == RUSH_OK) {
    rush_call plain = *c;
    plain.args = args;
    plain.last_use = 0;
    st = dispatch(&plain);
  }
  const quantizer fixed = result_params(c->op, dtype, q);
  if (st == RUSH_OK)
    st = requantize_results(c, dtype, &fixed, unit);
  for (uint32_t i = 0; i < n; i++)
    value_release(args[i]);
  return st;
}
