/* ops/kernels/quantized/quantized_conv.c -- convolutions of bytes: packed weights as a custom class
 * with its pickled state (three versions of it), and their execution. Ordinary ones multiply pieces
 * of the image with its padding (quantized_image.c) where they lie; groups and weights with zero
 * points copy patches of a chunk of pixels, about 128 KB per task. Depthwise ones sum over all
 * positions at once, channels side by side, transposed ones gather for each result pixel.  Each
 * result is requantized as soon as its sum is complete. */
#include "ops/kernels/quantized/quantized_conv.h"

#include <string.h>

#include "base/threads.h"
#include "ops/kernels/quantized/quantize_kernel.h"
#include "ops/kernels/views.h"

#define CHUNK_BYTES 131072 /* of patches that a task makes at a time */
#define CHUNK_PIXELS 64    /* of an image in words: their sums stay in L1 or L2 */

/* -- Packing ----------------------------------------------------------------------------------- */

static bool is_depthwise(const conv_packed *p)
{
  return p->groups == p->in_ch && p->out_ch == p->in_ch && p->groups > 1;
}

static int64_t n_taps(const conv_packed *p) { return p->kernel[0] * p->kernel[1] * p->kernel[2]; }

static void conv_packed_free(conv_packed *p)
{
  context *c = p->ctx;
  tensor_release(p->weight);
  tensor_release(p->bias);
  weight_params_free(c, &p->params);
  for (int64_t g = 0; p->packed && g < p->groups; g++)
    qgemm_packed_free(c, p->packed[g]);
  if (p->packed)
    mem_free(c, p->packed, (size_t)p->groups * sizeof(void *));
  if (p->taps)
    mem_free(c, p->taps, p->taps_bytes);
  mem_free(c, p, sizeof *p);
}

/* Read the weight's integers as [kernel position][channel of the result][channel of a group],
 * dense. */
static rush_status read_taps(call_ctx *cx, conv_packed *p)
{
  rush_tensor *dense = NULL;
  TRY(tensor_contiguous(cx, p->weight, &dense));
  const int64_t taps = n_taps(p), rows = dense->sizes[0], per = dense->sizes[1];
  p->taps_bytes = (size_t)(taps * rows * per);
  p->taps = mem_alloc(cx->ctx, p->taps_bytes);
  if (!p->taps) {
    tensor_release(dense);
    return call_nomem(cx);
  }
  const int8_t *w = dense->data;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < per; i++)
      for (int64_t t = 0; t < taps; t++)
        p->taps[(t * rows + r) * per + i] = w[(r * per + i) * taps + t];
  tensor_release(dense);
  return RUSH_OK;
}

static rush_status pack_groups(call_ctx *cx, conv_packed *p)
{
  const int64_t per_in = p->in_ch / p->groups, per_out = p->out_ch / p->groups,
                per_word = qgemm_per_word(cx->ctx);
  p->wide = p->groups == 1 ? (per_in + per_word - 1) / per_word * per_word : per_in;
  const int64_t k = n_taps(p) * p->wide;
  p->packed = mem_alloc_zero(cx->ctx, (size_t)p->groups * sizeof(void *));
  int8_t *b = mem_alloc_zero(cx->ctx, (size_t)(k * per_out));
  rush_status st = p->packed && b ? RUSH_OK : call_nomem(cx);
  for (int64_t g = 0; g < p->groups && st == RUSH_OK; g++) {
    for (int64_t t = 0; t < n_taps(p); t++)
      for (int64_t o = 0; o < per_out; o++)
        memcpy(b + o * k + t * p->wide, p->taps + ((t * p->out_ch) + g * per_out + o) * per_in,
               (size_t)per_in);
    st = qgemm_pack(cx, k, per_out, b, 1, k, &p->packed[g]);
  }
  if (b)
    mem_free(cx->ctx, b, (size_t)(k * per_out));
  return st;
}

static rush_status check_weight(call_ctx *cx, const conv_packed *p)
{
  const rush_tensor *w = p->weight;
  const quantizer *q = tensor_quantizer(w);
  if (w->n_dims != p->spatial + 2)
    return call_fail(cx, "Weights are expected to have %d dimensions", p->spatial + 2);
  if (w->dtype != RUSH_QINT8 || !q)
    return call_fail(cx, "quantized convolution: expected a qint8 weight, got %s",
                     dtype_aten_name(w->dtype));
  if (q->per_channel && q->axis != (p->transpose ? 1 : 0))
    return call_unsupported(cx, "quantized convolution with weights quantized along axis %d",
                            (int)q->axis);
  if (q->per_channel && p->transpose && p->groups != 1)
    return call_unsupported(
      cx, "transposed quantized convolution in groups with weights quantized per channel");
  if (p->groups < 1 || w->sizes[0] % p->groups)
    return call_fail(cx, "quantized convolution: %lld groups do not divide %lld channels",
                     (long long)p->groups, (long long)w->sizes[0]);
  if (p->bias && (p->bias->n_dims != 1 || p->bias->sizes[0] != p->out_ch))
    return call_fail(cx, "bias should have K elements: %lld", (long long)p->out_ch);
  for (int d = 0; d < 3; d++)
    if (p->stride[d] < 1 || p->dilation[d] < 1 || p->pad[d] < 0 || p->kernel[d] < 1 ||
        p->out_pad[d] < 0)
      return call_fail(cx, "quantized convolution: stride, dilation and kernel must be positive, "
                           "padding not negative");
  for (int d = 0; d < 3; d++)
    if (p->stride[d] > INT32_MAX || p->dilation[d] > INT32_MAX || p->pad[d] > INT32_MAX ||
        p->out_pad[d] > INT32_MAX)
      return call_fail(cx, "quantized convolution: stride, dilation or padding is too large");
  return RUSH_OK;
}

static rush_status fill_packed(call_ctx *cx, conv_packed *p, rush_tensor *bias)
{
  const rush_tensor *w = p->weight;
  for (int i = 0; i < p->spatial && w->n_dims == p->spatial + 2; i++)
    p->kernel[3 - p->spatial + i] = w->sizes[2 + i];
  if (w->n_dims > 1 && (p->groups < 1 || p->groups > w->sizes[0])) /* before any product with it */
    return call_fail(cx, "quantized convolution: %lld groups do not divide %lld channels",
                     (long long)p->groups, (long long)w->sizes[0]);
  if (w->n_dims > 1) {
    p->out_ch = p->transpose ? w->sizes[1] * p->groups : w->sizes[0];
    p->in_ch = p->transpose ? w->sizes[0] : w->sizes[1] * p->groups;
  }
  if (bias)
    TRY(tensor_to_dtype(cx, bias, RUSH_FLOAT32, &p->bias));
  TRY(check_weight(cx, p));
  TRY(weight_params_read(cx, w, &p->params));
  TRY(read_taps(cx, p));
  return p->transpose || is_depthwise(p) ? RUSH_OK : pack_groups(cx, p);
}

rush_status conv_packed_new(call_ctx *cx, int spatial, rush_tensor *weight, rush_tensor *bias,
                            const int64_t *stride, const int64_t *pad, const int64_t *dilation,
                            const int64_t *out_pad, int64_t groups, bool transpose,
                            conv_packed **out)
{
  conv_packed *p = mem_alloc_zero(cx->ctx, sizeof *p);
  if (!p)
    return call_nomem(cx);
  p->ctx = cx->ctx;
  p->spatial = spatial;
  p->weight = tensor_retain(weight);
  p->groups = groups;
  p->transpose = transpose;
  for (int d = 0; d < 3; d++) {
    const int i = d - (3 - spatial);
    p->stride[d] = i < 0 ? 1 : stride[i];
    p->pad[d] = i < 0 ? 0 : pad[i];
    p->dilation[d] = i < 0 ? 1 : dilation[i];
    p->out_pad[d] = i < 0 ? 0 : out_pad[i];
    p->kernel[d] = 1;
  }
  rush_status st = fill_packed(cx, p, bias);
  if (st != RUSH_OK) {
    conv_packed_free(p);
    return st;
  }
  *out = p;
  return RUSH_OK;
}

/* -- State: ("2", [config, weight], [bias or None]) -------------------------------------------- */

static void destroy_conv(void *self) { conv_packed_free(self); }

typedef struct conv_state {
  int64_t config[32];
  int n;
  rush_tensor *weight, *bias; /* borrowed */
} conv_state;

static rush_tensor *item_tensor(rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL;
}

/* Read version 2: a tensor of the numbers; version 3: a list of them, and tensors [bias,
 * weight]. */
static bool read_state(const rush_tuple *t, conv_state *s)
{
  const rush_list *a = t->items[1].tag == RUSH_TAG_LIST ? t->items[1].as.list : NULL;
  const rush_list *b = t->items[2].tag == RUSH_TAG_LIST ? t->items[2].as.list : NULL;
  if (!a || !b)
    return false;
  if (t->items[0].tag == RUSH_TAG_INT) {
    if (b->n != 2 || a->n > 32)
      return false;
    for (size_t i = 0; i < a->n; i++)
      s->config[s->n++] = a->items[i].as.i;
    s->bias = item_tensor(b->items[0]);
    s->weight = item_tensor(b->items[1]);
    return s->weight != NULL;
  }
  const rush_tensor *config = a->n >= 2 ? item_tensor(a->items[0]) : NULL;
  s->weight = a->n >= 2 ? item_tensor(a->items[1]) : NULL;
  s->bias = b->n ? item_tensor(b->items[0]) : NULL;
  if (!config || !s->weight || config->n_elems > 32 || !tensor_is_contiguous(config) ||
      !dtype_is_integral(config->dtype))
    return false;
  s->n = (int)config->n_elems;
  convert_elems(RUSH_INT64, s->config, config->dtype, config->data, s->n);
  return true;
}

/* Read the oldest version: (weight, bias, stride, padding, dilation, groups) as tensors. */
static bool read_first_state(const rush_tuple *t, int spatial, conv_state *s)
{
  s->weight = item_tensor(t->items[0]);
  s->bias = item_tensor(t->items[1]);
  s->config[s->n++] = spatial;
  for (int l = 2; l < 5; l++) {
    const rush_list *v = t->items[l].tag == RUSH_TAG_LIST ? t->items[l].as.list : NULL;
    for (int i = 0; i < spatial; i++) {
      const rush_tensor *x = v && v->n == (size_t)spatial ? item_tensor(v->items[i]) : NULL;
      if (!x || x->n_elems != 1)
        return false;
      convert_elems(RUSH_INT64, &s->config[s->n++], x->dtype, x->data, 1);
    }
  }
  for (int i = 0; i < spatial; i++)
    s->config[s->n++] = 0;
  const rush_tensor *groups = item_tensor(t->items[5]);
  if (!s->weight || !groups || groups->n_elems != 1)
    return false;
  convert_elems(RUSH_INT64, &s->config[s->n++], groups->dtype, groups->data, 1);
  s->config[s->n++] = 0;
  return true;
}

static rush_status set_conv_state(call_ctx *cx, int spatial, rush_value state, void **self)
{
  conv_state s = {.n = 0};
  conv_packed *p = NULL;
  const rush_tuple *t = state.tag == RUSH_TAG_TUPLE ? state.as.tuple : NULL;
  const bool first = t && t->n == 6;
  if (!t || (t->n != 3 && !first) ||
      !(first ? read_first_state(t, spatial, &s) : read_state(t, &s)) || s.n != 4 * spatial + 3 ||
      s.config[0] != spatial)
    return call_fail(cx, "Conv%ddPackedParamsBase: the state has no known form", spatial);
  const int64_t *v = s.config + 1;
  TRY(conv_packed_new(cx, spatial, s.weight, s.bias, v, v + spatial, v + 2 * spatial,
                      v + 3 * spatial, v[4 * spatial], v[4 * spatial + 1] != 0, &p));
  *self = p;
  return RUSH_OK;
}
static rush_status set_state_2d(call_ctx *cx, rush_value state, void **self)
{
  return set_conv_state(cx, 2, state, self);
}
static rush_status set_state_3d(call_ctx *cx, rush_value state, void **self)
{
  return set_conv_state(cx, 3, state, self);
}

static rush_status config_tensor(call_ctx *cx, const conv_packed *p, rush_tensor **out)
{
  const int64_t n = 4 * p->spatial + 3;
  const int64_t *parts[4] = {p->stride, p->pad, p->dilation, p->out_pad};
  TRY(tensor_new(cx, RUSH_INT16, 1, &n, out));
  int16_t *v = (*out)->data;
  *v++ = (int16_t)p->spatial;
  for (int k = 0; k < 4; k++)
    for (int i = 3 - p->spatial; i < 3; i++)
      *v++ = (int16_t)parts[k][i];
  *v++ = (int16_t)p->groups;
  *v = p->transpose;
  return RUSH_OK;
}

static rush_status get_state(call_ctx *cx, void *self, rush_value *state)
{
  const conv_packed *p = self;
  rush_tuple *t = NULL;
  rush_list *l = NULL;
  rush_tensor *config = NULL;
  TRY(tuple_new(cx, NULL, 3, &t));
  rush_status st = string_new(cx, "2", 1, &t->items[0]);
  for (int i = 1; i < 3 && st == RUSH_OK; i++) {
    st = list_new(cx, type_simple(i == 1 ? TYPE_TENSOR : TYPE_ANY), 2, &l);
    if (st == RUSH_OK)
      t->items[i] = value_heap_steal(RUSH_TAG_LIST, l);
  }
  if (st == RUSH_OK)
    st = config_tensor(cx, p, &config);
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[1].as.list, value_tensor_steal(config));
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[1].as.list, value_tensor_steal(tensor_retain(p->weight)));
  if (st == RUSH_OK)
    st = list_append_steal(cx, t->items[2].as.list,
                           p->bias ? value_tensor_steal(tensor_retain(p->bias)) : value_none());
  if (st != RUSH_OK) {
    value_release(value_heap_steal(RUSH_TAG_TUPLE, t));
    return st;
  }
  *state = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

const custom_class conv2d_packed_class = {
  "__torch__.torch.classes.quantized.Conv2dPackedParamsBase", destroy_conv, set_state_2d,
  get_state};
const custom_class conv3d_packed_class = {
  "__torch__.torch.classes.quantized.Conv3dPackedParamsBase", destroy_conv, set_state_3d,
  get_state};

/* -- Running ----------------------------------------------------------------------------------- */

rush_status conv_packed_sizes(call_ctx *cx, const conv_packed *p, const int64_t *in, int64_t *out)
{
  for (int d = 0; d < 3; d++) {
    const int64_t reach = p->dilation[d] * (p->kernel[d] - 1);
    out[d] = p->transpose ? (in[d] - 1) * p->stride[d] - 2 * p->pad[d] + reach + p->out_pad[d] + 1
                          : (in[d] + 2 * p->pad[d] - reach - 1) / p->stride[d] + 1;
    if (out[d] <= 0 || (!p->transpose && in[d] + 2 * p->pad[d] < reach + 1))
      return call_fail(cx, "Output size must be positive: the input is smaller than the kernel");
  }
  return RUSH_OK;
}

typedef struct conv_job {
  const conv_call *c;
  call_ctx *cx;
  int64_t chunk, n_chunks,
    n_pixels; /* result pixels of a task, tasks of an image, pixels of an image */
  conv_image image;                  /* words NULL: patches are made */
  const quantize_kernels *kernels;
  requant_table table;               /* factor NULL: weights have zero points */
  _Atomic int failed;
} conv_job;

/* The position of a result pixel. */
typedef struct place {
  int64_t image, o[3];
} place;

static place place_of_pixel(const conv_call *c, int64_t image, int64_t pixel)
{
  return (place){
    image, {pixel / (c->out[1] * c->out[2]), pixel / c->out[2] % c->out[1], pixel % c->out[2]}};
}

/* Return the input of kernel position (kd, kh, kw) for a result pixel, or NULL in the padding. */
static const uint8_t *pixel_at(const conv_call *c, const place *at, const int64_t *k)
{
  const conv_packed *p = c->p;
  int64_t from = at->image;
  for (int d = 0; d < 3; d++) {
    const int64_t i = at->o[d] * p->stride[d] - p->pad[d] + k[d] * p->dilation[d];
    if (i < 0 || i >= c->in[d])
      return NULL;
    from = from * c->in[d] + i;
  }
  return c->x + from * p->in_ch;
}

static void next_tap(const conv_packed *p, int64_t *k)
{
  if (++k[2] == p->kernel[2]) {
    k[2] = 0;
    if (++k[1] == p->kernel[1]) {
      k[1] = 0;
      k[0]++;
    }
  }
}

/* Make patches of one group for pixels [first, first + n_px) of image n. */
static void fill_patches(const conv_call *c, int64_t n, int64_t first, int64_t n_px, int64_t group,
                         uint8_t *to)
{
  const conv_packed *p = c->p;
  const int64_t per_in = p->in_ch / p->groups, taps = n_taps(p);
  for (int64_t i = 0; i < n_px; i++) {
    const place at = place_of_pixel(c, n, first + i);
    int64_t k[3] = {0, 0, 0};
    for (int64_t t = 0; t < taps; t++, next_tap(p, k), to += p->wide) {
      const uint8_t *from = pixel_at(c, &at, k);
      if (from)
        memcpy(to, from + group * per_in, (size_t)per_in);
      else
        memset(to, c->a_zero, (size_t)per_in);
      memset(to + per_in, 0, (size_t)(p->wide - per_in));
    }
  }
}

static requant requant_of(const conv_call *c, int64_t first, int64_t n, int64_t k,
                          const int32_t *sums)
{
  const conv_packed *p = c->p;
  return (requant){.n = n,
                   .k = k,
                   .w = &p->params,
                   .first = first,
                   .column_sums = sums,
                   .bias = p->bias ? p->bias->data : NULL,
                   .a_scale = c->a_scale,
                   .a_zero = c->a_zero,
                   .relu = c->relu,
                   .out_scale = c->out_scale,
                   .out_zero = c->out_zero};
}

static void finish_pixel(const conv_job *j, const requant *r, const int32_t *acc, int32_t row_sum,
                         int64_t pixel)
{
  const conv_call *c = j->c;
  const requant_table *t = &j->table;
  if (t->factor) {
    j->kernels->row_bytes(r->n, acc, t->less + r->first, t->bias + r->first, t->factor + r->first,
                          c->relu ? c->out_zero : 0, c->out_zero,
                          c->y + pixel * c->p->out_ch + r->first);
    return;
  }
  requant_bytes(r, acc, row_sum, c->y + pixel * c->p->out_ch + r->first);
}

/* Multiply the pieces of the image that n_px pixels see. */
static void multiply_pieces(const conv_job *j, int64_t n, int64_t first, int64_t n_px, int32_t *acc)
{
  const conv_packed *p = j->c->p;
  const conv_image *img = &j->image;
  const int32_t *rows[CHUNK_PIXELS];
  place at = place_of_pixel(j->c, n, first);
  for (int64_t i = 0; i < n_px; i++) {
    rows[i] = img->words + at.image * img->image + at.o[0] * p->stride[0] * img->plane +
              at.o[1] * p->stride[1] * img->row + at.o[2] * p->stride[2] * img->pixel;
    if (++at.o[2] == j->c->out[2])
      at = place_of_pixel(j->c, n, first + i + 1);
  }
  const qgemm_rows a = {rows, img->segs, img->n_segs, img->seg_words};
  qgemm_segments(n_px, &a, p->packed[0], acc, p->out_ch);
}

static void run_group(const conv_job *j, int64_t n, int64_t first, int64_t n_px, int64_t group,
                      uint8_t *patches, int32_t *acc, void *scratch)
{
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  const int64_t per_out = p->out_ch / p->groups, k = n_taps(p) * p->wide;
  if (j->image.words) {
    multiply_pieces(j, n, first, n_px, acc);
  } else {
    fill_patches(c, n, first, n_px, group, patches);
    qgemm_serial(n_px, patches, k, p->packed[group], acc, per_out, scratch);
  }
  const requant r = requant_of(c, group * per_out, per_out, n_taps(p) * (p->in_ch / p->groups),
                               qgemm_column_sums(p->packed[group]));
  for (int64_t i = 0; i < n_px; i++) {
    int32_t sum = 0;
    for (int64_t t = 0; t < k && p->params.any_zero; t++)
      sum += patches[i * k + t];
    finish_pixel(j, &r, acc + i * per_out, sum, n * j->n_pixels + first + i);
  }
}

static void run_chunks(void *arg, int64_t begin, int64_t end)
{
  conv_job *j = arg;
  const conv_packed *p = j->c->p;
  const bool makes_patches = !j->image.words;
  const size_t patch_bytes = makes_patches ? (size_t)(j->chunk * n_taps(p) * p->wide) : 0,
               acc_bytes = (size_t)(j->chunk * p->out_ch) * 4;
  const size_t scratch = makes_patches ? qgemm_scratch_bytes(p->packed[0]) : 0,
               n_bytes = acc_bytes + scratch + patch_bytes;
  char *buf = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!buf) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    const int64_t n = i / j->n_chunks, first = i % j->n_chunks * j->chunk;
    for (int64_t g = 0; g < p->groups; g++)
      run_group(j, n, first, i64_min(j->chunk, j->n_pixels - first), g,
                (uint8_t *)buf + acc_bytes + scratch, (int32_t *)(void *)buf, buf + acc_bytes);
  }
  mem_free_data(j->cx->ctx, buf, n_bytes);
}

/* -- Depthwise --------------------------------------------------------------------------------- */

typedef struct depth_work { /* of a task */
  const uint8_t **from;  /* each tap's input, of a result pixel */
  uint8_t *border;       /* a pixel of zero points */
  int32_t *acc;
} depth_work;

/* Find the taps' input for a result pixel; what is outside reads as the zero point. */
static void find_taps(const conv_call *c, const place *at, depth_work *w)
{
  const conv_packed *p = c->p;
  int64_t k[3] = {0, 0, 0};
  for (int64_t t = 0; t < n_taps(p); t++, next_tap(p, k)) {
    const uint8_t *x = pixel_at(c, at, k);
    w->from[t] = x ? x : w->border;
  }
}

/* True if the windows of result pixels at and at + 1 are inside in all dimensions. */
static bool moves_on(const conv_call *c, const place *at)
{
  const conv_packed *p = c->p;
  bool inside = true;
  for (int d = 0; d < 3 && inside; d++) {
    const int64_t first = at->o[d] * p->stride[d] - p->pad[d],
                  last = first + (p->kernel[d] - 1) * p->dilation[d] + (d == 2 ? p->stride[2] : 0);
    inside = first >= 0 && last < c->in[d];
  }
  return inside;
}

/* Sums of one pixel where weights have zero points. */
static void sum_with_zeros(const conv_call *c, const depth_work *w)
{
  const conv_packed *p = c->p;
  const weight_params *params = &p->params;
  memset(w->acc, 0, (size_t)p->out_ch * sizeof *w->acc);
  for (int64_t t = 0; t < n_taps(p); t++)
    for (int64_t ch = 0; ch < p->out_ch; ch++)
      w->acc[ch] += (w->from[t][ch] - c->a_zero) *
                    (p->taps[t * p->out_ch + ch] - params->zeros[params->n == 1 ? 0 : ch]);
}

static void run_depth_pixels(const conv_job *j, const requant *r, depth_work *w, int64_t begin,
                             int64_t end)
{
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  const int64_t taps = n_taps(p), step = p->stride[2] * p->in_ch;
  place at = place_of_pixel(c, begin / j->n_pixels, begin % j->n_pixels);
  bool goes_on = false;
  for (int64_t i = begin; i < end; i++) {
    if (!goes_on)
      find_taps(c, &at, w);
    if (j->table.factor)
      j->kernels->taps(p->out_ch, taps, w->from, p->taps, w->acc);
    else
      sum_with_zeros(c, w);
    finish_pixel(j, r, w->acc, 0, i);
    goes_on = at.o[2] + 1 < c->out[2] && moves_on(c, &at);
    for (int64_t t = 0; goes_on && t < taps; t++)
      w->from[t] += step;
    if (++at.o[2] == c->out[2])
      at = place_of_pixel(c, (i + 1) / j->n_pixels, (i + 1) % j->n_pixels);
  }
}

/* Convolve one filter per channel: sums run over channels, all taps at once. */
static void run_depthwise(void *arg, int64_t begin, int64_t end)
{
  conv_job *j = arg;
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  const size_t n_ch = (size_t)p->out_ch, from_bytes = (size_t)n_taps(p) * sizeof(uint8_t *),
               n_bytes = from_bytes + n_ch * (2 * sizeof(int32_t) + 1);
  char *room = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!room) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  depth_work w = {.from = (const uint8_t **)(void *)room,
                  .acc = (int32_t *)(void *)(room + from_bytes)};
  int32_t *none = w.acc + n_ch;
  w.border = (uint8_t *)(none + n_ch);
  memset(none, 0, n_ch * sizeof *none);
  memset(w.border, c->a_zero, n_ch);
  weight_params params = p->params;
  params.any_zero = false;
  requant r = requant_of(c, 0, p->out_ch, n_taps(p), none);
  r.w = &params;
  run_depth_pixels(j, &r, &w, begin, end);
  mem_free_data(j->cx->ctx, room, n_bytes);
}

/* -- Transposed -------------------------------------------------------------------------------- */

/* Find input positions that reach result pixel `o` through kernel position k: one, or none. */
static bool tap_position(const conv_call *c, const int64_t *o, const int64_t *k, int64_t n,
                      int64_t *at)
{
  const conv_packed *p = c->p;
  *at = n;
  for (int d = 0; d < 3; d++) {
    const int64_t i = o[d] + p->pad[d] - k[d] * p->dilation[d];
    if (i < 0 || i % p->stride[d] || i / p->stride[d] >= c->in[d])
      return false;
    *at = *at * c->in[d] + i / p->stride[d];
  }
  return true;
}

/* Compute transposed convolutions: each result pixel gathers. */
static void run_transposed(void *arg, int64_t begin, int64_t end)
{
  conv_job *j = arg;
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  const int64_t n_out = p->out_ch, per_in = p->in_ch / p->groups, per_out = n_out / p->groups,
                taps = n_taps(p);
  const size_t n_bytes = (size_t)n_out * 2 * sizeof(int32_t);
  int32_t *acc = mem_alloc_data(j->cx->ctx, n_bytes), *none = acc + n_out;
  if (!acc) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  memset(none, 0, (size_t)n_out * sizeof *none);
  weight_params w = p->params;
  w.any_zero = false;
  requant r = requant_of(c, 0, n_out, taps, none);
  r.w = &w;
  for (int64_t i = begin; i < end; i++) {
    const int64_t px = i % j->n_pixels;
    const int64_t o[3] = {px / (c->out[1] * c->out[2]), px / c->out[2] % c->out[1], px % c->out[2]};
    int64_t k[3] = {0, 0, 0}, at;
    memset(acc, 0, (size_t)n_out * sizeof *acc);
    for (int64_t t = 0; t < taps; t++, next_tap(p, k)) {
      if (!tap_position(c, o, k, i / j->n_pixels, &at))
        continue;
      for (int64_t ci = 0; ci < p->in_ch; ci++) {
        const int32_t x = c->x[at * p->in_ch + ci] - c->a_zero;
        const int8_t *tap = p->taps + (t * p->in_ch + ci) * per_out;
        int32_t *to = acc + ci / per_in * per_out;
        for (int64_t co = 0; co < per_out; co++)
          to[co] += x * (tap[co] - w.zeros[w.n == 1 ? 0 : co]);
      }
    }
    finish_pixel(j, &r, acc, 0, i);
  }
  mem_free_data(j->cx->ctx, acc, n_bytes);
}

/* Make the table of all channels, whose sums are those of each group. */
static rush_status make_table(call_ctx *cx, conv_job *j)
{
  const conv_packed *p = j->c->p;
  const requant all = requant_of(j->c, 0, p->out_ch, 0, NULL);
  j->kernels = quantize_kernels_of(cx->ctx);
  if (p->params.any_zero || j->c->out_zero < 0 || j->c->out_zero > 255)
    return RUSH_OK;
  TRY(requant_table_new(cx, &all, false, &j->table));
  const int64_t per = p->out_ch / p->groups;
  for (int64_t i = 0; p->packed && i < p->out_ch; i++)
    j->table.less[i] =
      (int32_t)((uint32_t)j->c->a_zero * (uint32_t)qgemm_column_sums(p->packed[i / per])[i % per]);
  for (int64_t i = 0; is_depthwise(p) && !p->transpose && i < p->out_ch * n_taps(p); i++)
    j->table.less[i % p->out_ch] = (int32_t)((uint32_t)j->table.less[i % p->out_ch] +
                                             (uint32_t)(j->c->a_zero * p->taps[i]));
  return RUSH_OK;
}

static rush_status run_job(call_ctx *cx, conv_job *j)
{
  const conv_call *c = j->c;
  const conv_packed *p = c->p;
  const int64_t total = c->batch * j->n_pixels, k = n_taps(p) * (p->in_ch / p->groups);
  if (p->transpose)
    return parallel_for(cx, total, i64_max(1, 100000 / i64_max(1, k * p->out_ch)), run_transposed,
                        j);
  if (is_depthwise(p))
    return parallel_for(cx, total, i64_max(1, 100000 / i64_max(1, n_taps(p) * p->out_ch)),
                        run_depthwise, j);
  if (conv_image_fits(c)) {
    TRY(conv_image_make(cx, c, &j->image));
    j->chunk = i64_min(j->n_pixels, CHUNK_PIXELS);
  } else {
    j->chunk = i64_min(j->n_pixels, i64_max(32, CHUNK_BYTES / i64_max(1, k) / 32 * 32));
  }
  j->n_chunks = (j->n_pixels + j->chunk - 1) / j->chunk;
  return parallel_for(cx, c->batch * j->n_chunks,
                      i64_max(1, 1000000 / i64_max(1, j->chunk * k * p->out_ch)), run_chunks, j);
}

rush_status conv_packed_run(call_ctx *cx, const conv_call *c)
{
  conv_job j = {.c = c, .cx = cx, .n_pixels = c->out[0] * c->out[1] * c->out[2]};
  if (c->batch * j.n_pixels == 0)
    return RUSH_OK;
  rush_status st = make_table(cx, &j);
  if (st == RUSH_OK)
    st = run_job(cx, &j);
  requant_table_free(cx->ctx, &j.table);
  conv_image_free(cx->ctx, &j.image);
  return st == RUSH_OK && j.failed ? call_nomem(cx) : st;
}
