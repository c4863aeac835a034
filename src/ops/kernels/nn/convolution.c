/* ops/kernels/nn/convolution.c -- operators that convolve.  The shape rule has checked the
 * arguments and gives sizes and memory format of the result; here they are read by name, since the
 * schemas put them in a dozen orders, and conv.c is called.  Numbers are checked for overflow,
 * because conv.c computes with them unchecked.  Half is computed in float32, bfloat16 in the chains
 * of ops/math/gemm_chain.h, complex32 in complex64. */
#include <string.h>

#include "ops/kernels/linalg/matmul.h"
#include "ops/kernels/packed.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
#include "ops/math/conv.h"
#include "ops/math/gemm_chain.h"
#include "ops/point/halves.h"

/* The arguments of a call; n: spatial dimensions. */
typedef struct request {
  int n;
  rush_tensor *input, *weight, *bias; /* borrowed */
  bool transposed;
} request;

/* -- Arguments --------------------------------------------------------------------------------- */

/* Read what conv.c takes, for results of y's sizes. */
static conv_args args_of(const rush_call *c, const request *r, const rush_tensor *y)
{
  static const int64_t ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};
  const rush_tensor *x = r->input, *w = r->weight;
  const int n = r->n, at = x->n_dims - n;
  const rush_value pad = call_named(c, "padding");
  conv_args a = {.batch = at == 2 ? x->sizes[0] : 1,
                 .in_ch = x->sizes[at - 1],
                 .out_ch = y->sizes[at - 1],
                 .in = {1, 1, 1},
                 .kernel = {1, 1, 1},
                 .out = {1, 1, 1}};
  a.groups = (r->transposed ? a.out_ch : a.in_ch) / i64_max(w->sizes[1], 1);
  a.groups = value_int_or(call_named(c, "groups"), i64_max(a.groups, 1));
  call_window(c, "stride", n, ones, a.stride);
  call_window(c, "dilation", n, ones, a.dilation);
  if (call_arg(c, "pad") >= 0) /* conv_tbc */
    a.pad[2] = call_named(c, "pad").as.i;
  else if (pad.tag != RUSH_TAG_STRING)
    call_window(c, "padding", n, zeros, a.pad);
  for (int d = 0; d < n; d++) {
    const int to = 3 - n + d;
    a.in[to] = x->sizes[at + d];
    a.kernel[to] = w->sizes[2 + d];
    a.out[to] = y->sizes[at + d];
    if (pad.tag == RUSH_TAG_STRING && str_is(value_str(pad), "same"))
      a.pad[to] = a.dilation[to] * (a.kernel[to] - 1) / 2;
    if (!r->transposed && a.stride[to] > INT32_MAX)
      a.stride[to] = 1; /* longer than any input: there is one window, and conv.c has int steps */
  }
  return a;
}

/* So that the sums of conv.c do not overflow: the input with its border, all planes of 16 bytes an
 * element, is an int64 with room. */
static rush_status check_range(call_ctx *cx, const conv_args *a, bool transposed)
{
  int64_t bytes;
  bool fits = !__builtin_mul_overflow(64, i64_max(a->batch * a->in_ch, 1), &bytes);
  for (int d = 0; d < 3 && fits; d++) {
    int64_t side, reach;
    fits = !__builtin_mul_overflow(a->dilation[d], i64_max(a->kernel[d], 1), &reach) &&
           !__builtin_mul_overflow(i64_max(a->in[d], 1), transposed ? a->stride[d] : 1, &side) &&
           reach < INT64_MAX / 8 && side < INT64_MAX / 8;
    side = fits ? side + 2 * a->pad[d] : 0;
    fits = fits && (transposed || !__builtin_mul_overflow(bytes, side, &bytes));
  }
  return fits ? RUSH_OK : call_fail(cx, "Storage size calculation overflowed");
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

/* Fill y, contiguous and of the dtype that result_dtype says. */
static rush_status compute(const rush_call *c, const request *r, rush_tensor *y)
{
  conv_args a = args_of(c, r, y);
  operands o = {.y = y};
  TRY(check_range(c->cx, &a, r->transposed));
  rush_status st = convolve(c->cx, r, &a, &o);
  tensor_release(o.x);
  tensor_release(o.w);
  tensor_release(o.b);
  return st;
}

/* What results are computed in; `out` has their sizes. */
static int result_dtype(const rush_call *c, const request *r, const rush_tensor *out)
{
  const int dtype = r->input->dtype;
  const conv_args a = args_of(c, r, out);
  const bool as_is = has_chains(r, &a) && is_pointwise(r, &a);
  return dtype == RUSH_FLOAT16 || (dtype == RUSH_BFLOAT16 && !as_is) ? RUSH_FLOAT32 : dtype;
}

static rush_status convolution(rush_call *c, bool transposed)
{
  request r = {.n = call_tensor(c, 1)->n_dims - 2,
               .input = call_tensor(c, 0),
               .weight = call_tensor(c, 1),
               .bias = value_tensor(call_named(c, "bias")),
               .transposed = transposed};
  const int dtype = r.input->dtype;
  if (!gemm_supports(dtype) && dtype != RUSH_COMPLEX32)
    return call_fail_type(c->cx, "NotImplementedError",
                          "\"slow_conv2d_cpu\" not implemented for '%s'", dtype_aten_name(dtype));
  work w = work_begin(c);
  if (dtype == RUSH_COMPLEX32) {
    r.input = work_rows(&w, r.input, RUSH_COMPLEX64);
    r.weight = work_rows(&w, r.weight, RUSH_COMPLEX64);
    r.bias = work_rows(&w, r.bias, RUSH_COMPLEX64);
  }
  if (w.st == RUSH_OK) {
    rush_tensor *y = work_output(&w, 0, result_dtype(c, &r, call_out(c, 0)));
    WORK_DO(&w, compute(c, &r, y));
  }
  return work_end(&w);
}

rush_status kernel_convolution(rush_call *c)
{
  return convolution(c, value_is_true(call_named(c, "transposed")));
}
rush_status kernel_convolution_transposed(rush_call *c) { return convolution(c, true); }

static rush_tensor *permuted(work *w, const rush_tensor *t, int64_t a, int64_t b, int64_t d)
{
  const int64_t order[3] = {a, b, d};
  return WORK_MAKE(w, tensor_permute(w->cx, t, order, &w->made));
}

/* time x batch x channels; weight [taps, in, out] */
rush_status kernel_conv_tbc(rush_call *c)
{
  work w = work_begin(c);
  const request r = {.n = 1,
                     .input = permuted(&w, call_tensor(c, 0), 1, 2, 0),
                     .weight = permuted(&w, call_tensor(c, 1), 2, 1, 0),
                     .bias = call_tensor(c, 2)};
  const rush_tensor *out = call_out(c, 0), *view = permuted(&w, out, 1, 2, 0);
  if (w.st == RUSH_OK) {
    rush_tensor *y = work_new(&w, result_dtype(c, &r, view), 3, view->sizes);
    WORK_DO(&w, compute(c, &r, y));
    WORK_DO(&w, tensor_copy(c->cx, call_out(c, 0), permuted(&w, y, 2, 0, 1)));
  }
  return work_end(&w);
}
