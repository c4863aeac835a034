/* ops/kernels/nn/dropout.c -- dropout in its variants, bernoulli, rrelu and glu. Dropout draws a
 * mask and multiplies by it with the pointwise operators, as PyTorch's formula does, so dtypes,
 * rounding and broadcasting follow theirs; a fused loop would have to repeat those rules. Samples
 * are drawn one after the other in the order of memory, on one thread: that is the sequence that
 * torch.manual_seed determines. */
#include <math.h>

#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/call/written.h"
#include "tensor/generator.h"
#include "tensor/iter.h"

/* -- Bernoulli --------------------------------------------------------------------------------- */

static double uniform_double(generator *g)
{
  return (double)(generator_random64(g) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}
static float uniform_float(generator *g)
{
  return (float)(generator_random32(g) & ((1U << 24) - 1)) * 0x1p-24F;
}

typedef struct coin {
  turn *turn;
  double p;
  int dtype, p_dtype;
  size_t item;
  union {
    double align;
    char bytes[16];
  } no, yes; /* 0 and 1 of the dtype */
} coin;

static void coin_begin(coin *k, int dtype)
{
  const int64_t no = 0, yes = 1;
  k->dtype = dtype;
  k->item = dtype_bytes(dtype);
  convert_elems(dtype, k->no.bytes, RUSH_INT64, &no, 1);
  convert_elems(dtype, k->yes.bytes, RUSH_INT64, &yes, 1);
}

static void flip(const coin *k, char *to, bool heads)
{
  const char *from = heads ? k->yes.bytes : k->no.bytes;
  for (size_t b = 0; b < k->item; b++)
    to[b] = from[b];
}

static void flip_loop(void *arg, int64_t n, char *const *ptrs, const int64_t *strides)
{
  const coin *k = arg;
  for (int64_t i = 0; i < n && ((i & 255) || turn_next(k->turn)); i++)
    flip(k, ptrs[0] + i * strides[0], uniform_double(k->turn->g) < k->p);
}

/* Draw with a probability for every element; float32 ones are compared with float32 samples. */
static void flip_each_loop(void *arg, int64_t n, char *const *ptrs, const int64_t *strides)
{
  const coin *k = arg;
  for (int64_t i = 0; i < n && ((i & 255) || turn_next(k->turn)); i++) {
    const char *p = ptrs[1] + i * strides[1];
    if (k->p_dtype == RUSH_FLOAT64)
      flip(k, ptrs[0] + i * strides[0], uniform_double(k->turn->g) < *(const double *)p);
    else
      flip(k, ptrs[0] + i * strides[0], uniform_float(k->turn->g) < *(const float *)p);
  }
}

static generator *generator_of(rush_call *c, uint32_t at)
{
  return call_is_none(c, at) ? generator_of_call(c->cx) : (generator *)(void *)c->args[at].as.heap;
}

/* Draw samples in the order of memory, on one thread. */
static rush_status draw(call_ctx *cx, generator *g, rush_tensor *to, const rush_tensor *ps, coin *k)
{
  tensor_iter it;
  if (!g)
    return call_nomem(cx);
  TRY(written_check_self(cx, to));
  coin_begin(k, to->dtype);
  iter_init(&it, to->n_dims, to->sizes);
  (void)tensor_data_mut(to);
  iter_add(&it, to);
  if (ps)
    iter_add(&it, ps);
  iter_finish(&it);
  turn mine;
  TRY(turn_begin(cx, g, &mine));
  k->turn = &mine;
  rush_status st = iter_run(cx, &it, i64_max(1, it.n_elems), ps ? flip_each_loop : flip_loop, k);
  const rush_status ended = turn_end(&mine);
  return st == RUSH_OK ? ended : st;
}

static rush_status fill_bernoulli(call_ctx *cx, generator *g, rush_tensor *to, double p)
{
  coin k = {.p = p};
  if (!(p >= 0.0 && p <= 1.0))
    return call_fail(cx, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
  if (dtype_is_complex(to->dtype))
    return call_no_dtype(cx, "bernoulli_scalar_cpu_", to->dtype);
  return draw(cx, g, to, NULL, &k);
}

static rush_status check_probabilities(call_ctx *cx, const rush_tensor *ps)
{
  for (int64_t i = 0; i < ps->n_elems; i++) {
    TRY(call_poll_at(cx, i));
    const double p = ps->dtype == RUSH_FLOAT64 ? ((const double *)ps->data)[i]
                                               : (double)((const float *)ps->data)[i];
    if (!(p >= 0.0 && p <= 1.0))
      return call_fail(
        cx,
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be "
        "improved?  If so, please report an enhancement request to PyTorch.)");
  }
  return RUSH_OK;
}

static rush_status fill_bernoulli_each(call_ctx *cx, generator *g, rush_tensor *to, rush_tensor *ps)
{
  rush_tensor *wide = NULL, *all = NULL;
  if (dtype_is_complex(to->dtype))
    return call_no_dtype(cx, "bernoulli_tensor_cpu_self_", to->dtype);
  if (to->n_elems == 0)
    return RUSH_OK;
  TRY(nn_check_float(cx, "bernoulli_tensor_cpu_p_", ps->dtype));
  TRY(nn_input(cx, ps, &wide));
  rush_status st = check_probabilities(cx, wide);
  coin k = {.p_dtype = wide->dtype};
  if (st == RUSH_OK)
    st = tensor_expand(cx, wide, to->n_dims, to->sizes, &all);
  if (st == RUSH_OK)
    st = draw(cx, g, to, all, &k);
  tensor_release(wide);
  tensor_release(all);
  return st;
}

/* self, p, generator */
rush_status kernel_bernoulli__float(rush_call *c)
{
  TRY(fill_bernoulli(c->cx, generator_of(c, 2), call_tensor(c, 0), call_float(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_status kernel_bernoulli__Tensor(rush_call *c)
{
  TRY(fill_bernoulli_each(c->cx, generator_of(c, 2), call_tensor(c, 0), call_tensor(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

static rush_status bernoulli_like(rush_call *c, generator *g, rush_tensor *ps, double p)
{
  const rush_tensor *x = call_tensor(c, 0);
  rush_tensor *out;
  TRY(ps && c->n_args > 2 ? tensor_new_like(c->cx, x, DTYPE_NONE, &out)
                          : tensor_new(c->cx, x->dtype, x->n_dims, x->sizes, &out));
  rush_status st = ps ? fill_bernoulli_each(c->cx, g, out, ps) : fill_bernoulli(c->cx, g, out, p);
  return call_return_made_steal(c, 0, out, st);
}

rush_status kernel_bernoulli(rush_call *c)
{
  return bernoulli_like(c, generator_of(c, 1), call_tensor(c, 0), 0.0);
}
rush_status kernel_bernoulli_p(rush_call *c)
{
  return bernoulli_like(c, generator_of(c, 2), NULL, call_float(c, 1));
}
rush_status kernel_bernoulli_Tensor(rush_call *c)
{
  return bernoulli_like(c, generator_of(c, 2), call_tensor(c, 1), 0.0);
}

/* -- Dropout: input, p, train ------------------------------------------------------------------ */

/* Compute a op= b, where b is a number or a tensor. */
static rush_status change(call_ctx *cx, const char *name, const char *overload, rush_tensor *a,
                          rush_value b)
{
  const rush_value args[2] = {nn_arg(a), b};
  rush_tensor *same;
  TRY(nn_invoke(cx, name, overload, args, 2, &same));
  tensor_release(same);
  return RUSH_OK;
}

/* Multiply x by factor, or do so in place. */
static rush_status scaled(call_ctx *cx, rush_tensor *x, rush_tensor *factor, bool in_place,
                          rush_tensor **out)
{
  const rush_value args[2] = {nn_arg(x), nn_arg(factor)};
  return nn_invoke(cx, in_place ? "aten::mul_" : "aten::mul", "Tensor", args, 2, out);
}

static bool writes_input(const rush_call *c) { return c->op->schema->args[0].is_write; }

/* Draw one sample per element, or per batch entry and channel. */
static rush_status noise_new(call_ctx *cx, const rush_tensor *x, bool per_feature,
                             rush_tensor **out)
{
  int64_t sizes[TENSOR_MAX_DIMS];
  if (!per_feature)
    return tensor_new_like(cx, x, DTYPE_NONE, out);
  if (x->n_dims < 2)
    return call_fail(cx, "Feature dropout requires at least 2 dimensions in the input");
  for (int d = 0; d < x->n_dims; d++)
    sizes[d] = d < 2 ? x->sizes[d] : 1;
  return tensor_new(cx, x->dtype, x->n_dims, sizes, out);
}

/* Make the noise of alpha dropout, which keeps mean and variance of SELU's outputs: dropped units
 * get its lower limit. */
static rush_status alpha_noise(call_ctx *cx, rush_tensor *noise, double p, rush_tensor **shift)
{
  const double alpha = 1.7580993408473766, a = 1.0 / sqrt((alpha * alpha * p + 1.0) * (1.0 - p));
  const rush_value args[3] = {nn_arg(noise), value_int(-1), value_int(1)};
  TRY(nn_invoke(cx, "aten::add", "Scalar", args, 3, shift));
  TRY(change(cx, "aten::mul_", "Scalar", *shift, value_float(alpha * a)));
  TRY(change(cx, "aten::add_", "Scalar", *shift, value_float(alpha * a * p)));
  return change(cx, "aten::mul_", "Scalar", noise, value_float(a));
}

static rush_status drop(rush_call *c, rush_tensor *x, double p, bool per_feature, bool alpha)
{
  const bool in_place = writes_input(c);
  rush_tensor *noise = NULL, *shift = NULL, *out = NULL;
  rush_status st = noise_new(c->cx, x, per_feature, &noise);
  if (st == RUSH_OK)
    st = fill_bernoulli(c->cx, generator_of_call(c->cx), noise, 1.0 - p);
  if (st == RUSH_OK)
    st = alpha ? alpha_noise(c->cx, noise, p, &shift)
               : change(c->cx, "aten::div_", "Scalar", noise, value_float(1.0 - p));
  if (st == RUSH_OK)
    st = scaled(c->cx, x, noise, in_place, &out);
  if (st == RUSH_OK && alpha)
    st = change(c->cx, "aten::add_", "Tensor", out, nn_arg(shift));
  tensor_release(noise);
  tensor_release(shift);
  return call_return_made_steal(c, 0, out, st);
}

static rush_status dropout(rush_call *c, bool per_feature, bool alpha)
{
  rush_tensor *x = call_tensor(c, 0), *zero, *out;
  const double p = call_float(c, 1);
  if (!(p >= 0.0 && p <= 1.0))
    return call_fail(c->cx, "dropout probability has to be between 0 and 1, but got %g", p);
  if (p == 0.0 || !call_bool(c, 2) || x->n_elems == 0) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (p != 1.0)
    return drop(c, x, p, per_feature, alpha);
  TRY(tensor_from_scalar(c->cx, value_int(0), x->dtype, &zero));
  rush_status st = scaled(c->cx, x, zero, writes_input(c), &out);
  tensor_release(zero);
  if (st == RUSH_OK)
    call_return_steal(c, 0, out);
  return st;
}

rush_status kernel_dropout(rush_call *c) { return dropout(c, false, false); }
rush_status kernel_feature_dropout(rush_call *c) { return dropout(c, true, false); }
rush_status kernel_alpha_dropout(rush_call *c) { return dropout(c, false, true); }
rush_status kernel_feature_alpha_dropout(rush_call *c) { return dropout(c, true, true); }

/* input, p, train?: the result, and which elements were kept */
rush_status kernel_native_dropout(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *out = NULL, *mask = NULL;
  const double p = call_float(c, 1), kept = 1.0 - p;
  const bool train = call_is_none(c, 2) || call_bool(c, 2);
  TRY(tensor_new_like(c->cx, x, x->n_elems ? RUSH_BOOL : DTYPE_NONE, &mask));
  call_return_steal(c, 1, mask);
  if (x->n_elems == 0) {
    call_return_arg(c, 0, 0);
    return RUSH_OK;
  }
  if (!train) {
    TRY(tensor_fill(c->cx, mask, value_bool(true)));
    TRY(tensor_clone(c->cx, x, &out));
    call_return_steal(c, 0, out);
    return RUSH_OK;
  }
  TRY(fill_bernoulli(c->cx, generator_of_call(c->cx), mask, kept));
  TRY(scaled(c->cx, x, mask, false, &out));
  call_return_steal(c, 0, out);
  return change(c->cx, "aten::mul_", "Scalar", out, value_float(kept == 0.0 ? 0.0 : 1.0 / kept));
}

/* -- Randomised leaky units -------------------------------------------------------------------- */

/* Draw slopes; x, noise and y are contiguous, float32 or float64. */
static rush_status random_slopes(call_ctx *cx, generator *g, double lower, double upper,
                                 const rush_tensor *x, rush_tensor *noise, rush_tensor *y)
{
  const bool is_f64 = x->dtype == RUSH_FLOAT64;
  if (!g)
    return call_nomem(cx);
  if (!(lower <= upper) && x->n_elems > 0)
    return call_fail(cx, "Expected from <= to to be true, but got false.  (Could this error "
                         "message be improved?  If so, "
                         "please report an enhancement request to PyTorch.)");
  if (!is_f64) { /* the bounds are numbers of the dtype that is computed in */
    lower = (float)lower;
    upper = (float)upper;
  }
  turn mine;
  TRY(turn_begin(cx, g, &mine));
  for (int64_t i = 0; i < x->n_elems && ((i & 255) || turn_next(&mine)) && !call_over_at(cx, i);
       i++) {
    const double v = is_f64 ? ((const double *)x->data)[i] : (double)((const float *)x->data)[i];
    double r = 1.0;
    if (v <= 0)
      r = uniform_double(g) * (upper - lower) + lower;
    if (is_f64)
      ((double *)noise->data)[i] = r, ((double *)y->data)[i] = v * r;
    else
      ((float *)noise->data)[i] = (float)r, ((float *)y->data)[i] = (float)v * (float)r;
  }
  return turn_end(&mine);
}

static rush_status slopes_train(rush_call *c, rush_tensor *x, rush_tensor *noise, double lower,
                                double upper, generator *g, rush_tensor **out)
{
  rush_tensor *in = NULL, *made_noise = NULL, *y = NULL;
  if (x->dtype == RUSH_FLOAT16)
    return call_no_dtype(c->cx, "rrelu_with_noise_out_cpu", x->dtype);
  TRY(nn_check_float(c->cx, "rrelu_with_noise_out_cpu", x->dtype));
  rush_status st = nn_input(c->cx, x, &in);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, in->dtype, x->n_dims, x->sizes, &made_noise);
  if (st == RUSH_OK)
    st = tensor_new(c->cx, in->dtype, x->n_dims, x->sizes, &y);
  if (st == RUSH_OK)
    st = random_slopes(c->cx, g, lower, upper, in, made_noise, y);
  if (st == RUSH_OK && noise)
    st = tensor_copy(c->cx, noise, made_noise);
  if (st == RUSH_OK)
    st = tensor_to_dtype(c->cx, y, x->dtype, out);
  tensor_release(in);
  tensor_release(made_noise);
  tensor_release(y);
  return st;
}

/* noise may be NULL */
static rush_status rrelu(rush_call *c, rush_tensor *noise, uint32_t at, rush_tensor **out)
{
  rush_tensor *x = call_tensor(c, 0);
  const double lower = call_float(c, at), upper = call_float(c, at + 1);
  sizes_text a, b;
  if (noise && (noise->n_dims != x->n_dims ||
                memcmp(noise->sizes, x->sizes, sizeof *x->sizes * x->n_dims) != 0))
    return call_fail(
      c->cx,
      "noise tensor shape must match self tensor shape. Got self.shape = %s noise.shape = %s",
      sizes_print(&a, x->n_dims, x->sizes), sizes_print(&b, noise->n_dims, noise->sizes));
  if (call_bool(c, at + 2))
    return slopes_train(c, x, noise, lower, upper, generator_of(c, at + 3), out);
  const rush_value args[2] = {nn_arg(x), value_float((lower + upper) / 2)};
  rush_tensor *made;
  TRY(nn_invoke(c->cx, "aten::leaky_relu", "", args, 2, &made));
  rush_status st = tensor_contiguous(c->cx, made, out);
  tensor_release(made);
  return st;
}

/* Return result 0, in self if the operator writes there. */
static rush_status return_rrelu(rush_call *c, rush_tensor *noise, uint32_t at)
{
  rush_tensor *out;
  if (writes_input(c))
    TRY(written_check_self(c->cx, call_tensor(c, 0)));
  TRY(rrelu(c, noise, at, &out));
  if (!writes_input(c)) {
    call_return_steal(c, 0, out);
    return RUSH_OK;
  }
  rush_status st = tensor_copy(c->cx, call_tensor(c, 0), out);
  tensor_release(out);
  if (st == RUSH_OK)
    call_return_arg(c, 0, 0);
  return st;
}

rush_status kernel_rrelu(rush_call *c)
{
  if (!(call_float(c, 1) <= call_float(c, 2)))
    return call_fail(c->cx, "Lower bound should be less than or equal to the upper bound");
  return return_rrelu(c, NULL, 1);
}
rush_status kernel_rrelu_with_noise(rush_call *c) { return return_rrelu(c, call_tensor(c, 1), 2); }
rush_status kernel_rrelu_with_noise_functional(rush_call *c)
{
  rush_tensor *noise;
  TRY(tensor_clone(c->cx, call_tensor(c, 1), &noise));
  call_return_steal(c, 1, noise);
  rush_tensor *made, *out;
  TRY(rrelu(c, noise, 2, &made));
  rush_status st = tensor_new_like(c->cx, call_tensor(c, 0), made->dtype, &out);
  if (st == RUSH_OK) {
    call_return_steal(c, 0, out);
    st = tensor_copy(c->cx, out, made);
  }
  tensor_release(made);
  return st;
}

/* -- Gated linear units ------------------------------------------------------------------------ */

/* self, dim: the first half times the sigmoid of the second */
rush_status kernel_glu(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *wide = NULL, *a = NULL, *b = NULL, *gate = NULL, *out = NULL;
  int dim;
  if (x->n_dims == 0)
    return call_fail(c->cx, "glu does not support 0-dimensional tensors");
  TRY(dim_wrap(c->cx, call_int(c, 1), x->n_dims, &dim));
  const int64_t n = x->sizes[dim];
  if (n % 2 != 0)
    return call_fail(c->cx, "Halving dimension must be even, but dimension %d is size %lld", dim,
                     (long long)n);
  TRY(nn_check_float(c->cx, "glu_cpu", x->dtype));
  rush_status st = nn_is_half(x->dtype) ? tensor_to_dtype(c->cx, x, RUSH_FLOAT32, &wide)
                                        : (wide = tensor_retain(x), RUSH_OK);
  if (st == RUSH_OK)
    st = tensor_narrow(c->cx, wide, dim, 0, n / 2, &a);
  if (st == RUSH_OK)
    st = tensor_narrow(c->cx, wide, dim, n / 2, n / 2, &b);
  const rush_value arg = nn_arg(b);
  if (st == RUSH_OK)
    st = nn_invoke(c->cx, "aten::sigmoid", "", &arg, 1, &gate);
  if (st == RUSH_OK)
    st = scaled(c->cx, a, gate, false, &out);
  if (st == RUSH_OK)
    st = nn_return_steal(c, 0, out, x->dtype, NULL);
  tensor_release(wide);
  tensor_release(a);
  tensor_release(b);
  tensor_release(gate);
  return st;
}
