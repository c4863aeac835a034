/* ops/kernels/nn/convolution.c -- operators that convolve. The schemas have the same arguments in a
 * dozen orders, so each kernel fills one `request`, and one path checks it with PyTorch's messages
 * in PyTorch's order, computes the sizes and calls conv.c. Sizes and paddings are checked for
 * overflow here, because conv.c computes with them unchecked. Half is computed in float32, bfloat16
 * in the chains of ops/math/gemm_chain.h, complex32 in complex64. The result has the memory format
 * that PyTorch would choose. */
#include <stdio.h>
#include <string.h>

#include "ops/call/call.h"
#include "ops/math/conv.h"
#include "ops/math/gemm_chain.h"
#include "ops/point/halves.h"
#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/packed.h"
#include "ops/kernels/views.h"

/* The arguments of a call; n: spatial dimensions. */
typedef struct request {
  const char *name; /* in messages */
  int n;
  rush_tensor *input, *weight, *bias; /* borrowed */
  int64_t stride[3], pad[3], dilation[3], extra[3]; /* extra: output_padding */
  int64_t groups;
  bool transposed, same; /* same: padding="same" */
} request;

/* -- Checks ------------------------------------------------------------------------------------ */

static rush_status check_numbers(call_ctx *cx, const request *r)
{
  for (int d = 0; d < r->n; d++) {
    if (r->pad[d] < 0)
      return call_fail(cx, "negative padding is not supported");
    if (r->extra[d] < 0)
      return call_fail(cx, "negative output_padding is not supported");
    if (r->stride[d] <= 0)
      return call_fail(cx, "non-positive stride is not supported");
    if (r->dilation[d] <= 0)
      return call_fail(cx, "dilation should be greater than zero");
    if (r->transposed && r->extra[d] >= r->stride[d] && r->extra[d] >= r->dilation[d])
      return call_fail(cx,
                       "output padding must be smaller than either stride or dilation, but got "
                       "output_padding: %lld "
                       "stride: %lld dilation: %lld",
                       (long long)r->extra[d], (long long)r->stride[d], (long long)r->dilation[d]);
  }
  if (r->groups <= 0)
    return call_fail(cx, "non-positive groups is not supported");
  return RUSH_OK;
}

/* Check ranges, so that neither the sums below nor those of conv.c overflow: paddings are ints, and
 * the number of bytes of the padded input, at 16 bytes per element, is an int64 with room. */
static rush_status check_range(call_ctx *cx, const request *r, const int64_t *in, int64_t n_planes)
{
  int64_t bytes;
  bool fits = !__builtin_mul_overflow(64, i64_max(n_planes, 1), &bytes);
  for (int d = 0; d < r->n; d++) {
    const int64_t most = r->transposed ? INT32_MAX : INT64_MAX;
    int64_t reach, side;
    if (r->pad[d] > INT32_MAX || r->extra[d] > INT32_MAX || r->stride[d] > most ||
        in[d] > INT64_MAX / 8)
      return call_fail(cx, "value cannot be converted to type int without overflow");
    if (__builtin_mul_overflow(r->dilation[d], i64_max(r->weight->sizes[2 + d], 1), &reach) ||
        reach > INT64_MAX / 8)
      return call_fail(cx, "Kernel size can't be greater than actual input size");
    fits = fits &&
           !__builtin_mul_overflow(i64_max(in[d], 1), r->transposed ? r->stride[d] : 1, &side) &&
           side < INT64_MAX / 8;
    side = fits ? side + (r->same ? reach : 2 * r->pad[d]) : 0;
    fits = fits && (r->transposed || !__builtin_mul_overflow(bytes, side, &bytes));
  }
  return fits ? RUSH_OK : call_fail(cx, "Storage size calculation overflowed");
}

static rush_status check_dtypes(call_ctx *cx, const request *r)
{
  if (r->input->dtype != r->weight->dtype)
    return call_fail(cx, "Input type (%s) and weight type (%s) should be the same",
                     dtype_c_name(r->input->dtype), dtype_c_name(r->weight->dtype));
  if (r->bias && r->input->dtype != r->bias->dtype)
    return call_fail(cx, "Input type (%s) and bias type (%s) should be the same",
                     dtype_c_name(r->input->dtype), dtype_c_name(r->bias->dtype));
  if (!gemm_supports(r->input->dtype))
    return call_fail_type(cx, "NotImplementedError", "\"slow_conv2d_cpu\" not implemented for '%s'",
                          dtype_aten_name(r->input->dtype));
  return RUSH_OK;
}

/* Check channels; `in`: the batched sizes: batch, channels, spatial. */
static rush_status check_channels(call_ctx *cx, const request *r, int64_t channels)
{
  const rush_tensor *w = r->weight;
  sizes_text wb, xb, bb;
  const char *ws = sizes_print(&wb, w->n_dims, w->sizes),
             *xs = sizes_print(&xb, r->input->n_dims, r->input->sizes);
  if (w->sizes[0] < r->groups)
    return call_fail(cx,
                     "Given groups=%lld, expected weight to be at least %lld at dimension 0, but "
                     "got weight of size "
                     "%s instead",
                     (long long)r->groups, (long long)r->groups, ws);
  if (w->sizes[0] % r->groups != 0)
    return call_fail(cx,
                     "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, "
                     "but got weight of "
                     "size %s instead",
                     (long long)r->groups, (long long)r->groups, ws);
  const int64_t want = r->transposed ? w->sizes[0] : w->sizes[1] * r->groups;
  if (channels != want)
    return call_fail(cx,
                     "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, "
                     "but got %lld channels "
                     "instead",
                     r->transposed ? "transposed" : "groups",
                     r->transposed ? 1LL : (long long)r->groups, ws, xs, (long long)want,
                     (long long)channels);
  const int64_t out = r->transposed ? w->sizes[1] * r->groups : w->sizes[0];
  if (r->bias && (r->bias->n_dims != 1 || r->bias->sizes[0] != out))
    return call_fail(cx,
                     "Given %sweight of size %s, expected bias to be 1-dimensional with %lld "
                     "elements, but got bias "
                     "of size %s instead",
                     r->transposed ? "transposed=1, " : "", ws, (long long)out,
                     sizes_print(&bb, r->bias->n_dims, r->bias->sizes));
  return RUSH_OK;
}

/* -- Sizes ------------------------------------------------------------------------------------- */

static rush_status set_sizes(call_ctx *cx, const request *r, const int64_t *in, conv_args *a)
{
  const int lead = 3 - r->n;
  for (int d = 0; d < 3; d++) {
    a->in[d] = a->kernel[d] = a->out[d] = a->stride[d] = a->dilation[d] = 1;
    a->pad[d] = 0;
  }
  bool fits = true;
  for (int d = 0; d < r->n; d++) {
    const int64_t k = r->weight->sizes[2 + d], reach = r->dilation[d] * (k - 1) + 1;
    const int to = lead + d;
    a->in[to] = in[d];
    a->kernel[to] = k;
    a->stride[to] = r->stride[d];
    a->dilation[to] = r->dilation[d];
    a->pad[to] = r->same ? (reach - 1) / 2 : r->pad[d];
    if (r->transposed) {
      a->out[to] = (in[d] - 1) * r->stride[d] - 2 * r->pad[d] + reach + r->extra[d];
      if (a->out[to] < 0 || in[d] == 0)
        return call_fail(
          cx,
          "Given input size per channel: (%lld), the calculated output size per channel is %lld: "
          "Output size is too small",
          (long long)in[d], (long long)a->out[to]);
      continue;
    }
    a->out[to] = r->same ? in[d] : (in[d] + 2 * r->pad[d] - reach) / r->stride[d] + 1;
    fits &= r->same || in[d] + 2 * r->pad[d] >= reach;
    if (a->stride[to] >
        INT32_MAX) /* longer than any input: there is one window, and conv.c has steps of int */
      a->stride[to] = 1;
  }
  if (fits)
    return RUSH_OK;
  char got[96] = "", kernel[96] = "";
  for (int d = 0; d < r->n; d++) {
    snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", d ? " x " : "",
             (long long)(in[d] + 2 * r->pad[d]));
    snprintf(kernel + strlen(kernel), sizeof kernel - strlen(kernel), "%s%lld", d ? " x " : "",
             (long long)(r->dilation[d] * (r->weight->sizes[2 + d] - 1) + 1));
  }
  return call_fail(cx,
                   "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size "
                   "can't be greater "
                   "than actual input size",
                   got, kernel);
}

/* Convert the result to PyTorch's memory format: channels last if an operand is. */
static rush_status in_format(call_ctx *cx, const request *r, rush_tensor *y, rush_tensor **out)
{
  if ((r->n != 2 && r->n != 3) || r->input->n_dims != r->n + 2 || (r->transposed && r->n == 3) ||
      (!tensor_prefers_channels_last(r->input) && !tensor_prefers_channels_last(r->weight))) {
    *out = y;
    return RUSH_OK;
  }
  rush_status st = tensor_copy_format(
    cx, y, y->dtype, r->n == 2 ? FORMAT_CHANNELS_LAST : FORMAT_CHANNELS_LAST_3D, out);
  tensor_release(y);
  return st;
}

/* -- Running ----------------------------------------------------------------------------------- */

/* Make an operand contiguous; 16-bit floats as float32 if `wide`. */
static rush_status prepare_operand(call_ctx *cx, rush_tensor *t, bool wide, rush_tensor **out)
{
  rush_tensor *x = NULL, *y = NULL;
  *out = NULL;
  if (!t)
    return RUSH_OK;
  TRY(tensor_contiguous(cx, t, &x));
  if (!wide || (x->dtype != RUSH_FLOAT16 && x->dtype != RUSH_BFLOAT16)) {
    *out = x;
    return RUSH_OK;
  }
  rush_status st = tensor_new(cx, RUSH_FLOAT32, x->n_dims, x->sizes, &y);
  if (st == RUSH_OK)
    st = halves_widen(cx, x->dtype, x->n_elems, x->data, y->data);
  tensor_release(x);
  *out = y;
  return st;
}

typedef struct operands {
  rush_tensor *x, *w, *b, *y;
} operands;

static bool is_pointwise(const request *r, const conv_args *a)
{
  for (int d = 0; d < 3; d++)
    if (a->kernel[d] != 1 || a->stride[d] != 1 || a->pad[d] != 0 || a->in[d] != a->out[d])
      return false;
  return !r->transposed;
}

/* True if a convolution of bfloat16 runs in chains (ops/math/gemm_chain.h).  Excluded: those whose
 * words would be half empty, and those where an odd channel would lie between pieces. */
static bool has_chains(const request *r, const conv_args *a)
{
  const int64_t ch = a->in_ch / a->groups, taps = a->kernel[0] * a->kernel[1] * a->kernel[2];
  return r->input->dtype == RUSH_BFLOAT16 && !r->transposed && ch > 1 &&
         (ch % 2 == 0 || (ch + 1) / 2 * taps <= 384);
}

/* Convert the input's channels to words, two by two. */
static rush_status input_words(call_ctx *cx, const conv_args *a, const rush_tensor *x,
                               rush_tensor **out)
{
  const int64_t ch = a->in_ch / a->groups, n_in = a->in[0] * a->in[1] * a->in[2],
                n = a->batch * a->groups;
  const int64_t n_words = n * ((ch + 1) / 2) * n_in;
  rush_tensor *t;
  gemm_matrix m;
  TRY(tensor_new(cx, RUSH_INT32, 1, &n_words, &t));
  chain_source s = {x->data, n_in, 1, ch % 2 ? ch : n * ch,
                    1,       n_in}; /* pairs do not cross groups when even */
  rush_status st = RUSH_OK;
  for (int64_t i = 0; st == RUSH_OK && i < (ch % 2 ? n : 1); i++) {
    st = chain_make(cx, CHAIN_WORDS, &s, (uint32_t *)t->data + i * ((ch + 1) / 2) * n_in, &m);
    s.from += ch * n_in;
  }
  if (st == RUSH_OK)
    *out = t;
  else
    tensor_release(t);
  return st;
}

/* Convolve bfloat16: as words, or in float32 in their order. */
static rush_status convolve_chains(call_ctx *cx, const request *r, conv_args *a, operands *o)
{
  const int64_t ch = a->in_ch / a->groups, taps = a->kernel[0] * a->kernel[1] * a->kernel[2];
  gemm_packing packing;
  rush_tensor *x = NULL;
  a->chain = (int)chain_kind_of(cx->ctx);
  TRY(prepare_operand(cx, r->bias, true, &o->b));
  TRY(prepare_operand(cx, r->weight, false, &o->w));
  TRY(prepare_operand(cx, r->input, a->chain == CHAIN_WIDE, &o->x));
  a->dtype = RUSH_FLOAT32;
  a->weight = o->w->data;
  a->bias = o->b ? o->b->data : NULL;
  a->output = o->y->data;
  if (conv_packing(cx, a, &packing)) {
    packing.dtype = RUSH_BFLOAT16;
    packing.taps = taps;
    TRY(packed_weight(cx, o->w, &packing, &a->packed));
  }
  if (!a->packed) {
    const int64_t length = chain_length((chain_kind)a->chain, ch, taps),
                  n_words = a->out_ch * length;
    const chain_source s = {o->w->data, 1, ch * taps, ch, taps, a->out_ch};
    gemm_matrix m;
    TRY(tensor_new(cx, RUSH_INT32, 1, &n_words, &x));
    rush_status st = chain_make(cx, (chain_kind)a->chain, &s, x->data, &m);
    tensor_release(o->w);
    o->w = x;
    TRY(st);
    a->weight = x->data;
  }
  if (chain_is_words((chain_kind)a->chain)) {
    TRY(input_words(cx, a, o->x, &x));
    tensor_release(o->x);
    o->x = x;
    a->in_ch = a->groups * ((ch + 1) / 2);
  }
  a->input = o->x->data;
  return conv(cx, a);
}

static rush_status convolve(call_ctx *cx, const request *r, conv_args *a, operands *o)
{
  gemm_packing packing;
  if (has_chains(r, a) && !is_pointwise(r, a))
    return convolve_chains(cx, r, a, o);
  const bool as_is = o->y->dtype == RUSH_BFLOAT16; /* a product, which takes bfloat16 */
  TRY(prepare_operand(cx, r->input, !as_is, &o->x));
  TRY(prepare_operand(cx, r->bias, !as_is, &o->b));
  TRY(prepare_operand(cx, r->weight, false, &o->w));
  a->input = o->x->data;
  a->weight = o->w->data;
  a->bias = o->b ? o->b->data : NULL;
  a->output = o->y->data;
  a->dtype = o->x->dtype;
  const bool of_chains = o->w->dtype == RUSH_BFLOAT16 && !as_is; /* packed weights would be */
  if (!r->transposed && !of_chains && conv_packing(cx, a, &packing)) {
    packing.dtype = o->w->dtype;
    TRY(packed_weight(cx, o->w, &packing, &a->packed));
  }
  if (!a->packed && !as_is) {
    rush_tensor *narrow = o->w;
    rush_status st = prepare_operand(cx, narrow, true, &o->w);
    tensor_release(narrow);
    TRY(st);
    a->weight = o->w->data;
  }
  return r->transposed ? conv_transpose(cx, a) : conv(cx, a);
}

static rush_status compute(call_ctx *cx, const request *r, conv_args *a, const int64_t *sizes,
                           int n_dims, rush_tensor **out)
{
  const int dtype = r->input->dtype;
  const bool as_is = has_chains(r, a) && is_pointwise(r, a);
  const bool narrow = dtype == RUSH_FLOAT16 || (dtype == RUSH_BFLOAT16 && !as_is);
  operands o = {0};
  rush_status st = tensor_new(cx, narrow ? RUSH_FLOAT32 : dtype, n_dims, sizes, &o.y);
  if (st == RUSH_OK)
    st = convolve(cx, r, a, &o);
  if (st == RUSH_OK && narrow) {
    rush_tensor *wide = o.y;
    o.y = NULL;
    st = tensor_new(cx, dtype, n_dims, sizes, &o.y);
    if (st == RUSH_OK)
      st = halves_narrow(cx, dtype, wide->n_elems, wide->data, o.y->data);
    tensor_release(wide);
  }
  tensor_release(o.x);
  tensor_release(o.w);
  tensor_release(o.b);
  if (st != RUSH_OK) {
    tensor_release(o.y);
    return st;
  }
  *out = o.y;
  return RUSH_OK;
}

static rush_status run_convolution(rush_call *c, const request *r);

/* Compute complex32 in complex64. */
static rush_status run_complex_half(rush_call *c, const request *r)
{
  request wide = *r;
  rush_tensor *of[3] = {0}, *y = NULL;
  const rush_tensor *from[3] = {r->input, r->weight, r->bias};
  rush_status st = RUSH_OK;
  for (int i = 0; i < 3 && st == RUSH_OK; i++)
    if (from[i])
      st = tensor_to_dtype(c->cx, (rush_tensor *)(uintptr_t)from[i], RUSH_COMPLEX64, &of[i]);
  wide.input = of[0];
  wide.weight = of[1];
  wide.bias = of[2];
  if (st == RUSH_OK)
    st = run_convolution(c, &wide);
  for (int i = 0; i < 3; i++)
    tensor_release(of[i]);
  if (st == RUSH_OK &&
      (st = tensor_to_dtype(c->cx, c->results[0].as.tensor, RUSH_COMPLEX32, &y)) == RUSH_OK) {
    value_release(c->results[0]);
    call_return_steal(c, 0, y);
  }
  return st;
}

static rush_status run_convolution(rush_call *c, const request *r)
{
  if (r->input->dtype == RUSH_COMPLEX32 && r->weight->dtype == RUSH_COMPLEX32 &&
      (!r->bias || r->bias->dtype == RUSH_COMPLEX32))
    return run_complex_half(c, r);
  const rush_tensor *x = r->input, *w = r->weight;
  conv_args a = {0};
  rush_tensor *y = NULL;
  if (w->n_dims != r->n + 2)
    return call_fail(c->cx, "Expected %dD weight for %s, but got %dD", r->n + 2, r->name,
                     w->n_dims);
  const bool batched = x->n_dims == r->n + 2;
  sizes_text xb;
  if (!batched && x->n_dims != r->n + 1)
    return call_fail(
      c->cx, "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s",
      r->n + 1, r->n + 2, r->name, sizes_print(&xb, x->n_dims, x->sizes));
  TRY(check_numbers(c->cx, r));
  TRY(check_dtypes(c->cx, r));
  TRY(check_channels(c->cx, r, x->sizes[batched]));
  TRY(check_range(c->cx, r, x->sizes + batched + 1,
                  batched ? x->sizes[0] * x->sizes[1] : x->sizes[0]));
  TRY(set_sizes(c->cx, r, x->sizes + batched + 1, &a));
  a.batch = batched ? x->sizes[0] : 1;
  a.groups = r->groups;
  a.in_ch = x->sizes[batched];
  a.out_ch = r->transposed ? w->sizes[1] * r->groups : w->sizes[0];
  int64_t sizes[5] = {a.batch, a.out_ch};
  memcpy(sizes + 2, a.out + 3 - r->n, sizeof *sizes * (size_t)r->n);
  TRY(compute(c->cx, r, &a, sizes + !batched, r->n + 1 + batched, &y));
  TRY(in_format(c->cx, r, y, &y));
  call_return_steal(c, 0, y);
  return RUSH_OK;
}

/* -- Readings of the arguments ----------------------------------------------------------------- */

static rush_status read_list(rush_call *c, uint32_t i, int n, int64_t *out, const char *what)
{
  if (call_ints_fixed(c, i, out, n))
    return RUSH_OK;
  return call_fail(c->cx,
                   "expected %s to be a single integer value or a list of %d values to match the "
                   "convolution dimensions",
                   what, n);
}

static request request_of(rush_call *c, const char *name, int n)
{
  return (request){.name = name,
                   .n = n,
                   .input = call_tensor(c, 0),
                   .weight = call_tensor(c, 1),
                   .bias = call_tensor(c, 2),
                   .stride = {1, 1, 1},
                   .dilation = {1, 1, 1},
                   .groups = 1};
}

static rush_status read_padding_word(rush_call *c, uint32_t i, request *r)
{
  str word = call_str(c, i);
  if (word.len == 5 && memcmp(word.p, "valid", 5) == 0)
    return RUSH_OK;
  if (word.len != 4 || memcmp(word.p, "same", 4) != 0)
    return call_fail(c->cx, "Invalid padding string: '%.*s'", (int)word.len, word.p);
  for (int d = 0; d < r->n; d++)
    if (r->stride[d] != 1)
      return call_fail(c->cx, "padding='same' is not supported for strided convolutions");
  r->same = true;
  return RUSH_OK;
}

/* (input, weight, bias, stride, padding, dilation, groups) */
static rush_status conv_n(rush_call *c, const char *name, int n, bool by_word)
{
  request r = request_of(c, name, n);
  TRY(read_list(c, 3, n, r.stride, "stride"));
  if (by_word)
    TRY(read_padding_word(c, 4, &r));
  else
    TRY(read_list(c, 4, n, r.pad, "padding"));
  TRY(read_list(c, 5, n, r.dilation, "dilation"));
  r.groups = call_int(c, 6);
  return run_convolution(c, &r);
}

rush_status kernel_conv1d(rush_call *c) { return conv_n(c, "conv1d", 1, false); }
rush_status kernel_conv2d(rush_call *c) { return conv_n(c, "conv2d", 2, false); }
rush_status kernel_conv3d(rush_call *c) { return conv_n(c, "conv3d", 3, false); }
rush_status kernel_conv1d_padding(rush_call *c) { return conv_n(c, "conv1d", 1, true); }
rush_status kernel_conv2d_padding(rush_call *c) { return conv_n(c, "conv2d", 2, true); }
rush_status kernel_conv3d_padding(rush_call *c) { return conv_n(c, "conv3d", 3, true); }

static rush_status spatial_of(rush_call *c, int *n)
{
  *n = call_tensor(c, 1)->n_dims - 2;
  if (*n < 1 || *n > 3)
    return call_fail(
      c->cx, "weight should have at least three dimensions, and at most five, but has %d", *n + 2);
  return RUSH_OK;
}

rush_status kernel__convolution_mode(rush_call *c)
{
  int n;
  TRY(spatial_of(c, &n));
  return conv_n(c, "convolution", n, true);
}

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
static rush_status conv_transpose_n(rush_call *c, const char *name, int n)
{
  request r = request_of(c, name, n);
  r.transposed = true;
  TRY(read_list(c, 3, n, r.stride, "stride"));
  TRY(read_list(c, 4, n, r.pad, "padding"));
  TRY(read_list(c, 5, n, r.extra, "output_padding"));
  r.groups = call_int(c, 6);
  TRY(read_list(c, 7, n, r.dilation, "dilation"));
  return run_convolution(c, &r);
}

rush_status kernel_conv_transpose1d(rush_call *c)
{
  return conv_transpose_n(c, "conv_transpose1d", 1);
}
rush_status kernel_conv_transpose2d(rush_call *c)
{
  return conv_transpose_n(c, "conv_transpose2d", 2);
}
rush_status kernel_conv_transpose3d(rush_call *c)
{
  return conv_transpose_n(c, "conv_transpose3d", 3);
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...) */
rush_status kernel_convolution(rush_call *c)
{
  int n;
  TRY(spatial_of(c, &n));
  request r = request_of(c, "convolution", n);
  TRY(read_list(c, 3, n, r.stride, "stride"));
  TRY(read_list(c, 4, n, r.pad, "padding"));
  TRY(read_list(c, 5, n, r.dilation, "dilation"));
  r.transposed = call_bool(c, 6);
  TRY(read_list(c, 7, n, r.extra, "output_padding"));
  if (!r.transposed)
    memset(r.extra, 0, sizeof r.extra);
  r.groups = call_int(c, 8);
  return run_convolution(c, &r);
}

/* (self, weight, bias, padding, stride, dilation, groups) */
rush_status kernel_mkldnn_convolution(rush_call *c)
{
  int n;
  TRY(spatial_of(c, &n));
  request r = request_of(c, "convolution", n);
  TRY(read_list(c, 3, n, r.pad, "padding"));
  TRY(read_list(c, 4, n, r.stride, "stride"));
  TRY(read_list(c, 5, n, r.dilation, "dilation"));
  r.groups = call_int(c, 6);
  return run_convolution(c, &r);
}

/* (self, weight, kernel_size, bias, stride, padding[, dilation]): the named backends. */
static rush_status conv_slow(rush_call *c, int64_t groups)
{
  int n;
  TRY(spatial_of(c, &n));
  request r = request_of(c, "slow_conv", n);
  r.bias = call_tensor(c, 3);
  r.groups = groups;
  TRY(read_list(c, 4, n, r.stride, "stride"));
  TRY(read_list(c, 5, n, r.pad, "padding"));
  if (c->n_args > 6)
    TRY(read_list(c, 6, n, r.dilation, "dilation"));
  return run_convolution(c, &r);
}

rush_status kernel_slow_conv(rush_call *c) { return conv_slow(c, 1); }
rush_status kernel_conv_depthwise(rush_call *c)
{
  return conv_slow(c, call_tensor(c, 1)->sizes[0]);
}

/* (self, weight, kernel_size, bias, stride, padding, output_padding, dilation) */
rush_status kernel_slow_conv_transpose(rush_call *c)
{
  int n;
  TRY(spatial_of(c, &n));
  request r = request_of(c, "slow_conv_transpose", n);
  r.transposed = true;
  r.bias = call_tensor(c, 3);
  TRY(read_list(c, 4, n, r.stride, "stride"));
  TRY(read_list(c, 5, n, r.pad, "padding"));
  TRY(read_list(c, 6, n, r.extra, "output_padding"));
  TRY(read_list(c, 7, n, r.dilation, "dilation"));
  return run_convolution(c, &r);
}

static rush_status permuted(call_ctx *cx, const rush_tensor *t, int64_t a, int64_t b, int64_t d,
                            rush_tensor **out)
{
  const int64_t order[3] = {a, b, d};
  geom g;
  geom_of(&g, t);
  TRY(geom_permute(cx, &g, 3, order));
  return geom_view(cx, t, &g, out);
}

/* time x batch x channels; weight [taps, in, out] */
rush_status kernel_conv_tbc(rush_call *c)
{
  rush_tensor *x = NULL, *w = NULL, *y = NULL;
  if (call_tensor(c, 0)->n_dims != 3 || call_tensor(c, 1)->n_dims != 3)
    return call_fail(
      c->cx, "Input must have 3 dims: time, batch, in_channel, and weight must have 3 dims");
  rush_status st = permuted(c->cx, call_tensor(c, 0), 1, 2, 0, &x);
  if (st == RUSH_OK)
    st = permuted(c->cx, call_tensor(c, 1), 2, 1, 0, &w);
  if (st == RUSH_OK) {
    request r = request_of(c, "conv_tbc", 1);
    r.input = x;
    r.weight = w;
    r.pad[0] = call_int(c, 3);
    st = run_convolution(c, &r);
  }
  if (st == RUSH_OK)
    st = permuted(c->cx, call_out(c, 0), 2, 0, 1, &y);
  if (st == RUSH_OK) {
    tensor_release(call_out(c, 0));
    c->results[0] = value_none();
    st = tensor_contiguous(c->cx, y, &c->results[0].as.tensor);
    if (st == RUSH_OK)
      c->results[0].tag = RUSH_TAG_TENSOR;
  }
  tensor_release(x);
  tensor_release(w);
  tensor_release(y);
  return st;
}
