/* ops/kernels/quantized/quantized_linear.c -- linear layers with quantized weights: static (bytes
 * in and out), dynamic (floats in and out), and weights of half precision. */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/quantized/quantize_kernel.h"
#include "ops/kernels/quantized/quantized.h"
#include "ops/kernels/work.h"

/* -- Weights ----------------------------------------------------------------------------------- */

rush_status check_byte_params(call_ctx *cx, const quantizer *q)
{
  return q->zero_point >= 0 && q->zero_point <= 255
           ? RUSH_OK
           : call_fail(cx, "a quint8 tensor's zero point is %lld", (long long)q->zero_point);
}

void weight_params_free(context *c, weight_params *p)
{
  if (p->scales)
    mem_free(c, p->scales, (size_t)p->n * sizeof *p->scales);
  if (p->zeros)
    mem_free(c, p->zeros, (size_t)p->n * sizeof *p->zeros);
}

rush_status weight_params_read(call_ctx *cx, const rush_tensor *w, weight_params *out)
{
  const quantizer *q = tensor_quantizer(w);
  weight_params p = {.n = q->per_channel ? q->scales->n_elems : 1};
  if (q->per_channel &&
      (q->axis >= w->n_dims || w->sizes[q->axis] != p.n || q->zero_points->n_elems != p.n))
    return call_fail(cx, "the scales and zero points of a quantized weight do not fit its sizes");
  p.scales = mem_alloc(cx->ctx, (size_t)p.n * sizeof *p.scales);
  p.zeros = mem_alloc(cx->ctx, (size_t)p.n * sizeof *p.zeros);
  if (!p.scales || !p.zeros) {
    weight_params_free(cx->ctx, &p);
    return call_nomem(cx);
  }
  if (q->per_channel) {
    convert_elems(RUSH_FLOAT32, p.scales, q->scales->dtype, q->scales->data, p.n);
    convert_elems(RUSH_INT32, p.zeros, q->zero_points->dtype, q->zero_points->data, p.n);
  } else {
    p.scales[0] = (float)q->scale;
    p.zeros[0] = (int32_t)q->zero_point;
  }
  for (int64_t i = 0; i < p.n; i++) {
    p.any_zero |= p.zeros[i] != 0;
    if (p.zeros[i] < -128 || p.zeros[i] > 127) { /* sums of products would overflow */
      weight_params_free(cx->ctx, &p);
      return call_fail(cx, "a zero point of a quantized weight is not one of its integers");
    }
  }
  *out = p;
  return RUSH_OK;
}

static void linear_packed_free(linear_packed *p)
{
  context *c = p->ctx;
  tensor_release(p->weight);
  tensor_release(p->bias);
  qgemm_packed_free(c, p->packed);
  weight_params_free(c, &p->params);
  mem_free(c, p, sizeof *p);
}

/* Round a weight to float32 values that float16 has. */
static rush_status half_weight(call_ctx *cx, rush_tensor *w, rush_tensor **out)
{
  rush_tensor *copy = NULL;
  if (w->dtype != RUSH_FLOAT32)
    return call_fail(cx, "linear_prepack_fp16: expected a float weight, got %s",
                     dtype_aten_name(w->dtype));
  TRY(tensor_new(cx, RUSH_FLOAT32, w->n_dims, w->sizes, &copy));
  rush_status st = tensor_copy(cx, copy, w);
  if (st != RUSH_OK) {
    tensor_release(copy);
    return st;
  }
  float *x = copy->data;
  for (int64_t i = 0; i < copy->n_elems; i++)
    x[i] = half_to_float(half_from_float(fmaxf(-65504.0f, fminf(65504.0f, x[i]))));
  /* it is never written to: products may keep a packed form */
  copy->h.flags |= TENSOR_IS_PARAMETER;
  *out = copy;
  return RUSH_OK;
}

static rush_status pack_weight(call_ctx *cx, linear_packed *p)
{
  const rush_tensor *w = p->weight;
  const quantizer *q = tensor_quantizer(w);
  if (w->dtype != RUSH_QINT8 || !q)
    return call_fail(cx, "linear_prepack: expected a qint8 weight, got %s",
                     dtype_aten_name(w->dtype));
  if (q->per_channel && q->axis != 0)
    return call_unsupported(cx, "linear_prepack with a channel axis that is not 0");
  TRY(weight_params_read(cx, w, &p->params));
  return qgemm_pack(cx, w->sizes[1], w->sizes[0], w->data, w->strides[1], w->strides[0],
                    &p->packed);
}

/* Make packed parameters; new; keeps weight and bias. */
static rush_status packed_new(call_ctx *cx, rush_tensor *weight, rush_tensor *bias, bool half,
                              linear_packed **out)
{
  if (weight->n_dims != 2)
    return call_fail(
      cx, "The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.");
  if (bias && (bias->n_dims != 1 || bias->sizes[0] != weight->sizes[0]))
    return call_fail(cx, "bias should have N elements: %lld", (long long)weight->sizes[0]);
  linear_packed *p = mem_alloc_zero(cx->ctx, sizeof *p);
  if (!p)
    return call_nomem(cx);
  p->ctx = cx->ctx;
  p->half = half;
  rush_status st = bias ? tensor_to_dtype(cx, bias, RUSH_FLOAT32, &p->bias) : RUSH_OK;
  if (st == RUSH_OK && half) {
    st = half_weight(cx, weight, &p->weight);
  } else if (st == RUSH_OK) {
    p->weight = tensor_retain(weight);
    st = pack_weight(cx, p);
  }
  if (st != RUSH_OK) {
    linear_packed_free(p);
    return st;
  }
  *out = p;
  return RUSH_OK;
}

/* -- State: (weight, bias or None) ------------------------------------------------------------- */

static void destroy_linear(void *self) { linear_packed_free(self); }

static rush_status set_linear_state(call_ctx *cx, rush_value state, void **self)
{
  linear_packed *p = NULL;
  if (state.tag != RUSH_TAG_TUPLE || state.as.tuple->n != 2 ||
      state.as.tuple->items[0].tag != RUSH_TAG_TENSOR || !state.as.tuple->items[0].as.tensor)
    return call_fail(cx, "LinearPackedParamsBase: expected a state (weight, bias)");
  rush_tensor *w = state.as.tuple->items[0].as.tensor;
  const rush_value b = state.as.tuple->items[1];
  TRY(
    packed_new(cx, w, b.tag == RUSH_TAG_TENSOR ? b.as.tensor : NULL, w->dtype == RUSH_FLOAT32, &p));
  *self = p;
  return RUSH_OK;
}

static rush_status get_state(call_ctx *cx, void *self, rush_value *state)
{
  linear_packed *p = self;
  rush_tuple *t = NULL;
  TRY(tuple_new(cx, NULL, 2, &t));
  t->items[0] = value_tensor_steal(tensor_retain(p->weight));
  if (p->bias)
    t->items[1] = value_tensor_steal(tensor_retain(p->bias));
  *state = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

const custom_class linear_packed_class = {
  "__torch__.torch.classes.quantized.LinearPackedParamsBase", destroy_linear, set_linear_state,
  get_state};

/* -- Results ----------------------------------------------------------------------------------- */

static inline float exact_sum(const requant *r, const int32_t *acc, int32_t row_sum, int64_t j,
                              int64_t ch)
{
  uint32_t raw = (uint32_t)acc[j] - (uint32_t)r->a_zero * (uint32_t)r->column_sums[j];
  if (r->w->any_zero) {
    const uint32_t zero = (uint32_t)r->w->zeros[r->w->n == 1 ? 0 : ch];
    raw -= zero * ((uint32_t)row_sum - (uint32_t)r->k * (uint32_t)r->a_zero);
  }
  return (float)(int32_t)raw;
}

void requant_float(const requant *r, const int32_t *acc, int32_t row_sum, float *out)
{
  for (int64_t j = 0; j < r->n; j++) {
    const int64_t ch = r->first + j;
    float v =
      exact_sum(r, acc, row_sum, j, ch) * (r->a_scale * r->w->scales[r->w->n == 1 ? 0 : ch]);
    if (r->bias)
      v += r->bias[ch];
    out[j] = r->relu && v < 0.0f ? 0.0f : v;
  }
}

/* 1 / the scale of the products, if all channels have one scale; there may be none. */
static float reciprocal_of(const requant *r)
{
  return r->w->n == 1 ? (float)(1.0 / (double)(r->a_scale * r->w->scales[0])) : 0;
}

void requant_bytes(const requant *r, const int32_t *acc, int32_t row_sum, uint8_t *out)
{
  const float reciprocal = reciprocal_of(r);
  const int32_t lo = r->relu && r->out_zero > 0 ? r->out_zero : 0;
  for (int64_t j = 0; j < r->n; j++) {
    const int64_t ch = r->first + j;
    const float act_times_w = r->a_scale * r->w->scales[r->w->n == 1 ? 0 : ch];
    float v = exact_sum(r, acc, row_sum, j, ch);
    if (r->bias) /* one scale: PyTorch multiplies by its reciprocal */
      v += r->w->n == 1 ? r->bias[ch] * reciprocal : r->bias[ch] / act_times_w;
    v *= act_times_w / r->out_scale;
    const float scaled = nearbyintf(v);
    const int32_t q = scaled >= 65536.0f ? 65536 : scaled > -65536.0f ? (int32_t)scaled : -65536;
    const int64_t z = (int64_t)q + r->out_zero;
    out[j] = (uint8_t)(z > 255 ? 255 : z < lo ? lo : z);
  }
}

rush_status requant_table_new(call_ctx *cx, const requant *r, bool real, requant_table *out)
{
  requant_table t = {.n = r->n};
  t.factor = mem_alloc(cx->ctx, (size_t)r->n * 3 * sizeof *t.factor);
  if (!t.factor)
    return call_nomem(cx);
  t.bias = t.factor + r->n;
  t.less = (int32_t *)(void *)(t.bias + r->n);
  const float reciprocal = reciprocal_of(r);
  for (int64_t i = 0; i < r->n; i++) {
    const float act_times_w = r->a_scale * r->w->scales[r->w->n == 1 ? 0 : i],
                b = r->bias ? r->bias[i] : 0.0f;
    t.factor[i] = real ? act_times_w : act_times_w / r->out_scale;
    t.bias[i] = real || !r->bias ? b : r->w->n == 1 ? b * reciprocal : b / act_times_w;
    t.less[i] = r->column_sums ? (int32_t)((uint32_t)r->a_zero * (uint32_t)r->column_sums[i]) : 0;
  }
  *out = t;
  return RUSH_OK;
}

void requant_table_free(context *c, requant_table *t)
{
  if (t->factor)
    mem_free(c, t->factor, (size_t)t->n * 3 * sizeof *t->factor);
}

/* -- Products ---------------------------------------------------------------------------------- */

typedef struct rows_job {
  const requant *r;
  const quantize_kernels *kernels;
  requant_table table; /* factor NULL: weights have zero points */
  const uint8_t *a;
  const int32_t *acc;
  float *y;
  uint8_t *yq;
} rows_job;

static void finish_rows(void *arg, int64_t begin, int64_t end)
{
  const rows_job *j = arg;
  const requant_table *t = &j->table;
  const int64_t n = j->r->n, k = j->r->k;
  const int32_t lo = j->r->relu ? j->r->out_zero : 0;
  for (int64_t i = begin; i < end; i++) {
    int32_t sum = 0;
    if (t->factor && j->y)
      j->kernels->row_reals(n, j->acc + i * n, t->less, t->bias, t->factor, j->y + i * n);
    else if (t->factor)
      j->kernels->row_bytes(n, j->acc + i * n, t->less, t->bias, t->factor, lo, j->r->out_zero,
                            j->yq + i * n);
    for (int64_t x = 0; j->y && t->factor && j->r->relu && x < n; x++)
      j->y[i * n + x] = j->y[i * n + x] < 0.0f ? 0.0f : j->y[i * n + x];
    if (t->factor)
      continue;
    for (int64_t x = 0; x < k && j->r->w->any_zero; x++)
      sum += j->a[i * k + x];
    if (j->y)
      requant_float(j->r, j->acc + i * n, sum, j->y + i * n);
    else
      requant_bytes(j->r, j->acc + i * n, sum, j->yq + i * n);
  }
}

/* Multiply m rows of bytes by the packed weight; either y or yq is not NULL. */
static rush_status run_linear(call_ctx *cx, const linear_packed *p, requant r, int64_t m,
                              const uint8_t *a, float *y, uint8_t *yq)
{
  r.n = p->weight->sizes[0];
  r.k = p->weight->sizes[1];
  r.w = &p->params;
  r.column_sums = qgemm_column_sums(p->packed);
  r.bias = p->bias ? p->bias->data : NULL;
  const size_t n_bytes = (size_t)(m * r.n) * sizeof(int32_t);
  int32_t *acc = mem_alloc_data(cx->ctx, n_bytes);
  if (!acc)
    return call_nomem(cx);
  rush_status st = qgemm(cx, m, a, r.k, p->packed, acc, r.n);
  rows_job j = {
    .r = &r, .kernels = quantize_kernels_of(cx->ctx), .a = a, .acc = acc, .y = y, .yq = yq};
  if (st == RUSH_OK && !p->params.any_zero && (y || (r.out_zero >= 0 && r.out_zero <= 255)))
    st = requant_table_new(cx, &r, y != NULL, &j.table);
  if (st == RUSH_OK)
    st = parallel_for(cx, m, i64_max(1, 32768 / i64_max(1, r.n)), finish_rows, &j);
  requant_table_free(cx->ctx, &j.table);
  mem_free_data(cx->ctx, acc, n_bytes);
  return st;
}

static rush_status check_input(call_ctx *cx, const linear_packed *p, const rush_tensor *x)
{
  if (x->n_dims == 0)
    return call_fail(cx, "The dimension (rank) of input tensor should not be zero.");
  if (x->sizes[x->n_dims - 1] != p->weight->sizes[1])
    return call_fail(cx, "The number of columns in the packB should be equal to K: %lld",
                     (long long)x->sizes[x->n_dims - 1]);
  return RUSH_OK;
}

rush_status linear_packed_dynamic(call_ctx *cx, const linear_packed *p, rush_tensor *input,
                                  bool reduce_range, bool relu, rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS], zero_point = 0;
  double scale = 1;
  float lo, hi;
  if (input->dtype != RUSH_FLOAT32)
    return call_fail(cx, "expected scalar type Float but found %s", dtype_aten_name(input->dtype));
  TRY(check_input(cx, p, input));
  work w = work_begin_part(cx);
  rush_tensor *x = WORK_MAKE(&w, tensor_contiguous(cx, input, &w.made));
  if (w.st == RUSH_OK) {
    find_min_max(cx->ctx, x->data, x->n_elems, &lo, &hi);
    choose_qparams(lo, hi, 0, 255, false, reduce_range, &scale, &zero_point);
  }
  const quantizer params = {.scale = (double)(float)scale, .zero_point = zero_point};
  const requant r = {.a_scale = (float)scale, .a_zero = (int32_t)zero_point, .relu = relu};
  const int64_t k = p->weight->sizes[1], n_rows = k ? input->n_elems / k : 0;
  memcpy(sizes, input->sizes, sizeof *sizes * input->n_dims);
  sizes[input->n_dims - 1] = p->weight->sizes[0];
  rush_tensor *q = WORK_MAKE(&w, tensor_quantize(cx, x, RUSH_QUINT8, &params, &w.made)),
              *y = work_new(&w, RUSH_FLOAT32, input->n_dims, sizes);
  WORK_DO(&w, run_linear(cx, p, r, n_rows, q->data, y->data, NULL));
  return work_end_with(&w, y, out);
}

/* -- Operators --------------------------------------------------------------------------------- */

static rush_status return_packed(rush_call *c, bool half)
{
  linear_packed *p = NULL;
  TRY(packed_new(c->cx, call_tensor(c, 0), call_tensor(c, 1), half, &p));
  rush_status st = custom_value_new_steal(c->cx, &linear_packed_class, p, &c->results[0]);
  return st;
}
rush_status kernel_quantized_linear_prepack(rush_call *c) { return return_packed(c, false); }
rush_status kernel_quantized_linear_prepack_fp16(rush_call *c) { return return_packed(c, true); }

/* -> (weight, bias or None) */
rush_status kernel_quantized_linear_unpack(rush_call *c)
{
  void *self = NULL;
  TRY(call_custom(c, 0, &linear_packed_class, &self));
  const linear_packed *p = self;
  call_return_steal(c, 0, tensor_retain(p->weight));
  c->results[1] = p->bias ? value_tensor_steal(tensor_retain(p->bias)) : value_none();
  return RUSH_OK;
}

static rush_status linear_static(rush_call *c, bool relu)
{
  rush_tensor *x = call_tensor(c, 0);
  void *self = NULL;
  int64_t sizes[TENSOR_MAX_DIMS];
  TRY(call_custom(c, 1, &linear_packed_class, &self));
  const linear_packed *p = self;
  const quantizer *q = tensor_quantizer(x);
  if (x->dtype != RUSH_QUINT8 || !q || q->per_channel)
    return call_fail(c->cx, "Expected input data type %s but got %s", "QUInt8",
                     dtype_aten_name(x->dtype));
  TRY(check_byte_params(c->cx, q));
  if (p->half)
    return call_fail(c->cx, "quantized::linear: the weight was packed for float16");
  TRY(check_input(c->cx, p, x));
  memcpy(sizes, x->sizes, sizeof *sizes * x->n_dims);
  sizes[x->n_dims - 1] = p->weight->sizes[0];
  const quantizer out = {.scale = call_float(c, 2), .zero_point = call_int(c, 3)};
  const requant r = {.a_scale = (float)q->scale, .a_zero = (int32_t)q->zero_point, .relu = relu,
                     .out_scale = (float)out.scale, .out_zero = (int32_t)out.zero_point};
  const int64_t k = p->weight->sizes[1], n_rows = k ? x->n_elems / k : 0;
  work w = work_begin(c);
  rush_tensor *dense = WORK_MAKE(&w, tensor_contiguous(c->cx, x, &w.made)),
              *y = WORK_MAKE(&w, quantized_new(c->cx, RUSH_QUINT8, x->n_dims, sizes, &out,
                                               &w.made));
  WORK_DO(&w, run_linear(c->cx, p, r, n_rows, dense->data, NULL, y->data));
  return work_end_with(&w, y, call_result(c, 0));
}
rush_status kernel_quantized_linear(rush_call *c) { return linear_static(c, false); }
rush_status kernel_quantized_linear_relu(rush_call *c) { return linear_static(c, true); }

static rush_status linear_dynamic(rush_call *c, bool relu)
{
  void *self = NULL;
  TRY(call_custom(c, 1, &linear_packed_class, &self));
  if (((linear_packed *)self)->half)
    return call_fail(c->cx, "quantized::linear_dynamic: the weight was packed for float16");
  return linear_packed_dynamic(c->cx, self, call_tensor(c, 0), call_bool(c, 2), relu,
                               call_result(c, 0));
}
rush_status kernel_quantized_linear_dynamic(rush_call *c) { return linear_dynamic(c, false); }
rush_status kernel_quantized_linear_relu_dynamic(rush_call *c) { return linear_dynamic(c, true); }

static rush_status linear_fp16(rush_call *c, bool relu)
{
  void *self = NULL;
  rush_tensor *y = NULL;
  TRY(call_custom(c, 1, &linear_packed_class, &self));
  const linear_packed *p = self;
  if (!p->half)
    return call_fail(c->cx, "quantized::linear_dynamic_fp16: the weight was packed for int8");
  TRY(check_input(c->cx, p, call_tensor(c, 0)));
  TRY(make_linear(c->cx, call_tensor(c, 0), p->weight, p->bias, &y));
  float *v = y->data;
  for (int64_t i = 0; relu && i < y->n_elems; i++)
    v[i] = v[i] < 0.0f ? 0.0f : v[i];
  call_return_steal(c, 0, y);
  return RUSH_OK;
}
rush_status kernel_quantized_linear_dynamic_fp16(rush_call *c) { return linear_fp16(c, false); }
rush_status kernel_quantized_linear_relu_dynamic_fp16(rush_call *c) { return linear_fp16(c, true); }

rush_status kernel_quantized_linear_fp16_unpacked(rush_call *c)
{
  rush_tensor *w = NULL;
  TRY(half_weight(c->cx, call_tensor(c, 1), &w));
  rush_status st = make_linear(c->cx, call_tensor(c, 0), w, call_tensor(c, 2), call_result(c, 0));
  tensor_release(w);
  TRY(st);
  return RUSH_OK;
}
