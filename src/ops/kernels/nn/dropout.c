/* ops/kernels/nn/dropout.c -- dropout, bernoulli, rrelu and glu.  Dropout draws a mask and
 * multiplies by it with the pointwise operators, in its body, as PyTorch's formula does, so dtypes,
 * rounding and broadcasting follow theirs; a fused loop would have to repeat those rules.  Samples
 * are drawn one after the other in the order of memory, on one thread: that is the sequence that
 * torch.manual_seed determines. */
#include "ops/call/written.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/views.h"
#include "ops/kernels/work.h"
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

static rush_status fill_bernoulli_each(rush_call *c, generator *g, rush_tensor *to, rush_tensor *ps)
{
  if (dtype_is_complex(to->dtype))
    return call_no_dtype(c->cx, "bernoulli_tensor_cpu_self_", to->dtype);
  if (to->n_elems == 0)
    return RUSH_OK;
  TRY(nn_check_float(c->cx, "bernoulli_tensor_cpu_p_", ps->dtype));
  work w = work_begin(c);
  const rush_tensor *wide = work_input(&w, ps);
  coin k = {.p_dtype = wide->dtype};
  WORK_DO(&w, check_probabilities(c->cx, wide));
  const rush_tensor *all =
    WORK_MAKE(&w, tensor_expand(c->cx, wide, to->n_dims, to->sizes, &w.made));
  WORK_DO(&w, draw(c->cx, g, to, all, &k));
  return work_end(&w);
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
  TRY(fill_bernoulli_each(c, generator_of(c, 2), call_tensor(c, 0), call_tensor(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_status kernel_bernoulli(rush_call *c)
{
  return fill_bernoulli_each(c, generator_of(c, 1), call_out(c, 0), call_tensor(c, 0));
}
rush_status kernel_bernoulli_p(rush_call *c)
{
  return fill_bernoulli(c->cx, generator_of(c, 2), call_out(c, 0), call_float(c, 1));
}
rush_status kernel_bernoulli_Tensor(rush_call *c)
{
  return fill_bernoulli_each(c, generator_of(c, 2), call_out(c, 0), call_tensor(c, 1));
}

/* -- Dropout: input, p, train ------------------------------------------------------------------ */

/* Return the input itself, or run the body, which draws and multiplies. */
rush_status kernel_dropout(rush_call *c)
{
  const double p = call_float(c, 1);
  if (!(p >= 0.0 && p <= 1.0))
    return call_fail(c->cx, "dropout probability has to be between 0 and 1, but got %g", p);
  if (p != 0.0 && call_bool(c, 2) && call_tensor(c, 0)->n_elems != 0)
    return call_through_body(c);
  call_return_arg(c, 0, 0);
  return RUSH_OK;
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

static void rrelu_train(work *w, rush_tensor *x, rush_tensor *noise, double lower, double upper,
                        generator *g)
{
  if (x->dtype == RUSH_FLOAT16)
    WORK_DO(w, call_no_dtype(w->cx, "rrelu_with_noise_out_cpu", x->dtype));
  WORK_DO(w, nn_check_float(w->cx, "rrelu_with_noise_out_cpu", x->dtype));
  const rush_tensor *in = work_input(w, x);
  rush_tensor *made_noise = work_new(w, in->dtype, x->n_dims, x->sizes),
              *y = work_output(w, 0, in->dtype);
  WORK_DO(w, random_slopes(w->cx, g, lower, upper, in, made_noise, y));
  WORK_DO(w, tensor_copy(w->cx, noise, made_noise));
}

/* self, noise, lower, upper, training, generator; the functional form returns the noise as result
 * 1. */
rush_status kernel_rrelu_with_noise(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *noise = call_tensor(c, 1), *out = call_out(c, 0);
  const double lower = call_float(c, 2), upper = call_float(c, 3);
  if (out == x)
    TRY(written_check_self(c->cx, x));
  work w = work_begin(c);
  if (c->n_results > 1) {
    WORK_DO(&w, tensor_copy(c->cx, call_out(c, 1), noise));
    noise = call_out(c, 1);
  }
  if (call_bool(c, 4)) {
    rrelu_train(&w, x, noise, lower, upper, generator_of(c, 5));
    return work_end(&w);
  }
  const rush_value args[2] = {nn_arg(x), value_float((lower + upper) / 2)};
  const rush_tensor *y = work_invoke(&w, "aten::leaky_relu", "", args, 2);
  WORK_DO(&w, tensor_copy(c->cx, out, y));
  return work_end(&w);
}

/* -- Gated linear units ------------------------------------------------------------------------ */

/* self, dim: the first half times the sigmoid of the second */
rush_status kernel_glu(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *out = call_out(c, 0);
  const int dim = call_dim(c, 1, x->n_dims);
  const int64_t half = x->sizes[dim] / 2;
  TRY(nn_check_float(c->cx, "glu_cpu", x->dtype));
  work w = work_begin(c);
  rush_tensor *wide = nn_is_half(x->dtype) ? work_input(&w, x) : x;
  rush_tensor *a = WORK_MAKE(&w, tensor_narrow(c->cx, wide, dim, 0, half, &w.made)),
              *b = WORK_MAKE(&w, tensor_narrow(c->cx, wide, dim, half, half, &w.made));
  rush_value args[3] = {nn_arg(b)};
  args[1] = nn_arg(work_invoke(&w, "aten::sigmoid", "", args, 1));
  args[0] = nn_arg(a);
  args[2] = nn_arg(out);
  (void)work_invoke(&w, "aten::mul", "out", args, 3);
  return work_end(&w);
}
