/* ops/kernels/random/random_ops.c -- operators that draw random numbers: rand and similar ones,
 * random_, randperm, distributions with parameters in numbers or tensors, multinomial, and
 * generators. An operator is a `fill_fn` over its result, which the shape rule has made: a new
 * tensor, or self for the in-place forms. Checks and their messages are PyTorch's. Draws are made
 * in memory order, on one thread, because the sequence after a seed is part of the result. */
#include "ops/kernels/random/random.h"

#include <math.h>
#include <sys/random.h>

#include "ops/kernels/layout/factory.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"
#include "tensor/iter.h"

/* -- Helpers ----------------------------------------------------------------------------------- */

/* View a complex tensor as floats with one more dimension of 2; others: retained. */
static rush_status real_view(call_ctx *cx, rush_tensor *t, rush_tensor **out)
{
  if (!dtype_is_complex(t->dtype)) {
    *out = tensor_retain(t);
    return RUSH_OK;
  }
  int64_t sizes[TENSOR_MAX_DIMS], strides[TENSOR_MAX_DIMS];
  if (t->n_dims == TENSOR_MAX_DIMS)
    return call_unsupported(cx, "%d dimensions of complex numbers", t->n_dims);
  for (int i = 0; i < t->n_dims; i++)
    sizes[i] = t->sizes[i], strides[i] = 2 * t->strides[i];
  sizes[t->n_dims] = 2, strides[t->n_dims] = 1;
  return tensor_new_view(cx, t->st, dtype_to_real(t->dtype), t->n_dims + 1, sizes, strides,
                         2 * t->offset, out);
}

static rush_status uniform_to(call_ctx *cx, rush_tensor *t, generator *g, double from, double to)
{
  rush_tensor *real;
  if (!dtype_is_float(t->dtype) && !dtype_is_complex(t->dtype))
    return call_no_dtype(cx, "check_uniform_bounds", t->dtype);
  if (!(from <= to))
    return call_fail(cx, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
                     from, to);
  TRY(real_view(cx, t, &real));
  sampler s = {.draw = draw_uniform, .kind = RUSH_FLOAT64, .g = g, .a = from, .b = to};
  rush_status st = random_fill(cx, real, &s);
  tensor_release(real);
  return st;
}

static rush_status check_std(call_ctx *cx, double std)
{
  return std >= 0 ? RUSH_OK : call_fail(cx, "normal expects std >= 0.0, but found std %g", std);
}

static rush_status normal_to(call_ctx *cx, rush_tensor *t, generator *g, double mean, double std)
{
  rush_tensor *real;
  TRY(check_std(cx, std));
  if (!dtype_is_float(t->dtype) && !dtype_is_complex(t->dtype))
    return call_no_dtype(cx, "normal_kernel_cpu", t->dtype);
  if (!dtype_is_complex(t->dtype))
    return random_fill_normal(cx, t, g, mean, std);
  TRY(real_view(cx, t, &real)); /* the mean is both parts' */
  rush_status st = random_fill_normal(cx, real, g, mean, std / sqrt(2.0));
  tensor_release(real);
  return st;
}

/* Fills tensor `t` from the arguments of a call. */
typedef rush_status fill_fn(rush_call *c, rush_tensor *t, generator *g);

/* Fill the result, with the generator among the arguments or the context's. */
static rush_status draw(rush_call *c, fill_fn *fill)
{
  rush_value v = value_none();
  generator *g;
  for (uint32_t i = 0; i < c->n_args; i++)
    if (c->args[i].tag == RUSH_TAG_GENERATOR)
      v = c->args[i];
  TRY(random_generator(c, v, &g));
  return fill(c, call_out(c, 0), g);
}
#define DRAW(name)            \
  rush_kernel kernel_##name;  \
  rush_status kernel_##name(rush_call *c) { return draw(c, fill_##name); }

/* -- rand, randn, randint, randperm ------------------------------------------------------------ */

static rush_status fill_rand(rush_call *c, rush_tensor *t, generator *g)
{
  return uniform_to(c->cx, t, g, 0, 1);
}
static rush_status fill_randn(rush_call *c, rush_tensor *t, generator *g)
{
  return normal_to(c->cx, t, g, 0, 1);
}

DRAW(rand)
DRAW(randn)

/* Limits of random_ for a dtype: of integers (and of float16), and the significand's bits. */
typedef struct int_limits {
  const char *name; /* for error messages; NULL: no limits */
  int64_t lo, hi;
  int digits; /* of floats: up to 2^digits every whole number is there; 0: not a float */
} int_limits;
static int_limits limits_of(int dtype)
{
  switch (dtype) {
  case RUSH_BOOL: return (int_limits){"bool", 0, 1, 0};
  case RUSH_UINT8: return (int_limits){"unsigned char", 0, 255, 0};
  case RUSH_INT8: return (int_limits){"signed char", -128, 127, 0};
  case RUSH_INT16: return (int_limits){"short int", -32768, 32767, 0};
  case RUSH_INT32: return (int_limits){"int", INT32_MIN, INT32_MAX, 0};
  case RUSH_UINT16: return (int_limits){"short unsigned int", 0, 65535, 0};
  case RUSH_UINT32: return (int_limits){"unsigned int", 0, UINT32_MAX, 0};
  case RUSH_FLOAT16: return (int_limits){"c10::Half", -65504, 65504, 11};
  case RUSH_BFLOAT16: return (int_limits){NULL, INT64_MIN, INT64_MAX, 8};
  case RUSH_FLOAT32: return (int_limits){NULL, INT64_MIN, INT64_MAX, 24};
  case RUSH_FLOAT64: return (int_limits){NULL, INT64_MIN, INT64_MAX, 53};
  default: return (int_limits){NULL, INT64_MIN, INT64_MAX, 0};
  }
}

/* Round `v` to a float of the dtype, and back to an integer. */
static int64_t through(int dtype, int64_t v)
{
  int64_t out;
  double narrow, wide; /* room for any float */
  convert_elems(dtype, &narrow, RUSH_INT64, &v, 1);
  convert_elems(RUSH_FLOAT64, &wide, dtype, &narrow, 1);
  convert_elems(RUSH_INT64, &out, RUSH_FLOAT64, &wide, 1);
  return out;
}

/* Return the distance of floats near v. */
static int64_t float_step(int64_t v, int digits)
{
  int n = 0;
  for (uint64_t u = (uint64_t)(v < 0 ? -v : v); u >>= 1;)
    n++;
  return n - digits + 1 >= 0 ? INT64_C(1) << (n - digits + 1) : 0;
}

static rush_status fill_from_to(call_ctx *cx, rush_tensor *t, generator *g, int64_t from,
                                int64_t to)
{
  if (from >= to)
    return call_fail(cx,
                     "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                     (long long)from, (long long)to);
  if (dtype_is_complex(t->dtype))
    return call_fail(cx,
                     "check_random_bounds handles only integral, floating-point and boolean types");
  const int_limits l = limits_of(t->dtype);
  if (l.digits) { /* ends that no float hits move inwards */
    const int64_t first = through(t->dtype, from + 1), last = through(t->dtype, to - 1);
    from = first < from ? first + float_step(from + 1, l.digits) : from;
    to = last >= to ? last - float_step(to - 1, l.digits) : to;
    if (from >= to)
      return call_fail(
        cx,
        "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
        "from=%lld >= to=%lld",
        (long long)from, (long long)to);
  }
  if (l.name && (from < l.lo || from > l.hi))
    return call_fail(cx, "from is out of bounds for %s", l.name);
  if (l.name && (to - 1 < l.lo || to - 1 > l.hi))
    return call_fail(cx, "to - 1 is out of bounds for %s", l.name);
  sampler s = {.draw = draw_from_to,
               .kind = RUSH_INT64,
               .g = g,
               .base = from,
               .range = (uint64_t)to - (uint64_t)from};
  return random_fill(cx, t, &s);
}

static rush_status fill_randint(rush_call *c, rush_tensor *t, generator *g)
{
  return fill_from_to(c->cx, t, g, 0, call_int(c, 0));
}
static rush_status fill_randint_low(rush_call *c, rush_tensor *t, generator *g)
{
  return fill_from_to(c->cx, t, g, call_int(c, 0), call_int(c, 1));
}
DRAW(randint)
DRAW(randint_low)

static rush_status fill_randint_like(rush_call *c, rush_tensor *t, generator *g)
{
  rush_value high;
  if (!call_tensor(c, 1))
    return fill_from_to(c->cx, t, g, 0, call_int(c, 1));
  TRY(tensor_item(c->cx, call_tensor(c, 1), &high));
  const bool is_complex = high.tag == RUSH_TAG_COMPLEX;
  const int64_t to = high.tag == RUSH_TAG_FLOAT ? (int64_t)high.as.d : high.as.i;
  value_release(high);
  if (is_complex)
    return call_fail(c->cx, "value cannot be converted to type int64_t without overflow");
  return fill_from_to(c->cx, t, g, 0, to);
}
static rush_status fill_randint_like_low(rush_call *c, rush_tensor *t, generator *g)
{
  return fill_from_to(c->cx, t, g, call_int(c, 1), call_int(c, 2));
}
DRAW(randint_like)
DRAW(randint_like_low)

/* Shuffle by Fisher and Yates, one word per step. */
static rush_status shuffle(call_ctx *cx, generator *g, int64_t *x, int64_t n)
{
  turn mine;
  for (int64_t i = 0; i < n && !call_over_at(cx, i); i++)
    x[i] = i;
  TRY(turn_begin(cx, g, &mine));
  for (int64_t i = 0;
       i < n - 1 && ((i & 255) || turn_next(&mine)) && !(i % POLL_STEPS == 0 && call_over(cx));
       i++) {
    const int64_t z = i + (int64_t)(generator_random32(g) % (uint64_t)(n - i)), kept = x[i];
    x[i] = x[z];
    x[z] = kept;
  }
  return turn_end(&mine);
}

static rush_status fill_randperm(rush_call *c, rush_tensor *t, generator *g)
{
  rush_tensor *x = NULL;
  if (t->dtype == RUSH_INT64)
    return shuffle(c->cx, g, t->data, t->n_elems);
  TRY(tensor_new(c->cx, RUSH_INT64, 1, t->sizes, &x));
  rush_status st = shuffle(c->cx, g, x->data, t->n_elems);
  if (st == RUSH_OK)
    st = tensor_copy(c->cx, t, x);
  tensor_release(x);
  return st;
}
DRAW(randperm)

/* -- Distributions with number parameters ------------------------------------------------------ */

static rush_status fill_uniform(rush_call *c, rush_tensor *t, generator *g)
{
  return uniform_to(c->cx, t, g, call_float(c, 1), call_float(c, 2));
}
static rush_status fill_normal(rush_call *c, rush_tensor *t, generator *g)
{
  return normal_to(c->cx, t, g, call_float(c, 1), call_float(c, 2));
}
DRAW(uniform)
DRAW(normal)

static rush_status fill_floats(call_ctx *cx, rush_tensor *t, generator *g, const char *what,
                               sampler s)
{
  if (!dtype_is_float(t->dtype))
    return call_no_dtype(cx, what, t->dtype);
  s.kind = RUSH_FLOAT64;
  s.g = g;
  return random_fill(cx, t, &s);
}

/* Draw from a distribution of floats.  Refuse unless its parameter's value is positive. */
static rush_status fill_positive(rush_call *c, rush_tensor *t, sampler s, const char *name,
                                 const char *parameter, double value)
{
  if (!(value > 0))
    return call_fail(c->cx, "%s_ expects %s > 0.0, but found %s=%g", name, parameter, parameter,
                     value);
  if (!dtype_is_float(t->dtype) && s.draw != draw_log_normal)
    return call_fail(c->cx,
                     "%s distribution is a continuous probability distribution. dtype must be a "
                     "floating point but you specified %s",
                     s.draw == draw_cauchy ? "Cauchy" : "Exponential", dtype_aten_name(t->dtype));
  return fill_floats(c->cx, t, s.g, "log_normal_cpu", s);
}
static rush_status fill_log_normal(rush_call *c, rush_tensor *t, generator *g)
{
  const sampler s = {.draw = draw_log_normal, .g = g, .a = call_float(c, 1), .b = call_float(c, 2)};
  return fill_positive(c, t, s, "log_normal", "std", s.b);
}
static rush_status fill_cauchy(rush_call *c, rush_tensor *t, generator *g)
{
  const sampler s = {.draw = draw_cauchy, .g = g, .a = call_float(c, 1), .b = call_float(c, 2)};
  return fill_positive(c, t, s, "cauchy", "sigma", s.b);
}
static rush_status fill_exponential(rush_call *c, rush_tensor *t, generator *g)
{
  const sampler s = {.draw = draw_exponential, .g = g, .a = call_float(c, 1)};
  return fill_positive(c, t, s, "exponential", "lambda", s.a);
}
DRAW(log_normal)
DRAW(cauchy)
DRAW(exponential)

static rush_status fill_geometric(rush_call *c, rush_tensor *t, generator *g)
{
  const double p = call_float(c, 1);
  if (!(0 < p && p < 1))
    return call_fail(c->cx, "geometric_ expects p to be in (0, 1), but got p=%g", p);
  if (dtype_is_complex(t->dtype) || t->dtype == RUSH_BOOL)
    return call_no_dtype(c->cx, "geometric_cpu", t->dtype);
  sampler s = {.draw = draw_geometric, .kind = RUSH_FLOAT64, .g = g, .a = p};
  return random_fill(c->cx, t, &s);
}
DRAW(geometric)

/* -- random_ ----------------------------------------------------------------------------------- */

static rush_status fill_random_from(rush_call *c, rush_tensor *t, generator *g)
{
  const int64_t from = call_int(c, 1);
  if (!call_is_none(c, 2))
    return fill_from_to(c->cx, t, g, from, call_int(c, 2));
  const int_limits l = limits_of(t->dtype);
  sampler s = {.draw = draw_any_word, .kind = RUSH_INT64, .g = g, .base = from};
  if (from == INT64_MIN && t->dtype != RUSH_INT64 && (!l.digits || t->dtype == RUSH_FLOAT16))
    return call_no_dtype(c->cx, "random_full_64_bits_range_kernel_cpu", t->dtype);
  if (l.name && (from < l.lo || from > l.hi))
    return call_fail(c->cx, "from is out of bounds for %s", l.name);
  if (from != INT64_MIN) {
    const int64_t hi = l.digits ? INT64_C(1) << l.digits : l.hi;
    if (from > hi)
      return call_fail(c->cx,
                       "random_ expects 'from' casted to dtype to be less than or equal to "
                       "'to_inc' casted to dtype, "
                       "but got from=%lld > to_inc=%lld",
                       (long long)from, (long long)hi);
    s.range = (uint64_t)hi - (uint64_t)from + 1;
    s.draw = draw_from_to;
  }
  return random_fill(c->cx, t, &s);
}
static rush_status fill_random_to(rush_call *c, rush_tensor *t, generator *g)
{
  return fill_from_to(c->cx, t, g, 0, call_int(c, 1));
}
static rush_status fill_random(rush_call *c, rush_tensor *t, generator *g)
{
  if (dtype_is_complex(t->dtype))
    return call_no_dtype(c->cx, "random_kernel_cpu", t->dtype);
  sampler s = {.draw = draw_any_int, .kind = RUSH_INT64, .g = g};
  return random_fill(c->cx, t, &s);
}
DRAW(random_from)
DRAW(random_to)
DRAW(random)

/* -- Normals with parameters in tensors -------------------------------------------------------- */

static rush_status update(call_ctx *cx, const char *name, rush_tensor *t, rush_value by)
{
  rush_value args[2] = {nn_arg(t), by}, out;
  TRY(op_invoke_name(cx, name, by.tag == RUSH_TAG_TENSOR ? "Tensor" : "Scalar", args, 2, &out));
  value_release(out);
  return RUSH_OK;
}

/* Compute *out: every element is in [lo, hi]; a NaN is not. */
static rush_status all_between(call_ctx *cx, rush_tensor *t, double lo, double hi, bool *out)
{
  rush_tensor *d;
  TRY(tensor_to_dtype(cx, t, RUSH_FLOAT64, &d));
  *out = true;
  for (int64_t i = 0; i < d->n_elems && !call_over_at(cx, i); i++)
    *out &= ((const double *)d->data)[i] >= lo && ((const double *)d->data)[i] <= hi;
  tensor_release(d);
  return RUSH_OK;
}

/* Check that std has no negative element. */
static rush_status check_std_tensor(call_ctx *cx, rush_tensor *std)
{
  bool fine;
  if (dtype_is_complex(std->dtype))
    return call_fail(cx, "normal expects standard deviation to be non-complex");
  TRY(all_between(cx, std, 0, (double)INFINITY, &fine));
  return fine ? RUSH_OK : call_fail(cx, "normal expects all elements of std >= 0.0");
}

/* Draw unit normals, times std, plus mean.  Each may be a tensor or a number. */
static rush_status fill_normal_tensors(rush_call *c, rush_tensor *t, generator *g)
{
  rush_tensor *std = call_tensor(c, 1);
  if (std)
    TRY(check_std_tensor(c->cx, std));
  TRY(normal_to(c->cx, t, g, 0, std ? 1 : call_float(c, 1)));
  if (std)
    TRY(update(c->cx, "aten::mul_", t, c->args[1]));
  return update(c->cx, "aten::add_", t, c->args[0]);
}
DRAW(normal_tensors)

/* (mean, std, size, generator, options) */
static rush_status fill_normal_numbers(rush_call *c, rush_tensor *t, generator *g)
{
  return normal_to(c->cx, t, g, call_float(c, 0), call_float(c, 1));
}
DRAW(normal_numbers)

/* -- Distributions with parameters in tensors -------------------------------------------------- */

typedef double map_fn(generator *g, double a, double b, int dtype);
typedef struct map_job {
  turn *turn;
  map_fn *fn;
  int dtype, from; /* of the result and of the first parameter */
} map_job;

/* Operands: the result (any dtype), then one or two of doubles. */
static void map_run(void *arg, int64_t n, char *const *ptrs, const int64_t *strides)
{
  const map_job *j = arg;
  for (int64_t i = 0; i < n && ((i & 63) || turn_next(j->turn)); i++) {
    double a, b;
    memcpy(&a, ptrs[1] + i * strides[1], sizeof a);
    memcpy(&b, ptrs[2] + i * strides[2], sizeof b);
    const double drawn = j->fn(j->turn->g, a, b, j->from);
    convert_elems(j->dtype, ptrs[0] + i * strides[0], RUSH_FLOAT64, &drawn, 1);
  }
}

/* Fill t with fn of the elements of a and b (broadcast to t; b may be NULL). */
static rush_status fill_mapped(call_ctx *cx, rush_tensor *t, rush_tensor *a, rush_tensor *b,
                               generator *g, map_fn *fn)
{
  tensor_iter it;
  turn mine;
  map_job j = {&mine, fn, t->dtype, a->dtype};
  work w = work_begin_part(cx);
  const rush_tensor *da = work_rows(&w, a, RUSH_FLOAT64),
                    *db = b ? work_rows(&w, b, RUSH_FLOAT64) : da;
  WORK_DO(&w, turn_begin(cx, g, &mine));
  if (w.st == RUSH_OK) {
    (void)tensor_data_mut(t);
    iter_init(&it, t->n_dims, t->sizes);
    iter_add(&it, t);
    iter_add(&it, da);
    iter_add(&it, db);
    iter_finish(&it);
    w.st = iter_run(cx, &it, INT64_MAX, map_run, &j);
    const rush_status ended = turn_end(&mine);
    WORK_DO(&w, ended);
  }
  return work_end(&w);
}

static double map_poisson(generator *g, double rate, double unused, int dtype)
{
  (void)unused, (void)dtype;
  return random_poisson(g, rate);
}
static double map_gamma(generator *g, double alpha, double unused, int dtype)
{
  (void)unused;
  return random_gamma(g, alpha, dtype);
}
static double map_binomial(generator *g, double count, double p, int dtype)
{
  (void)dtype;
  return random_binomial(g, count, p);
}

static rush_status fill_poisson(rush_call *c, rush_tensor *t, generator *g)
{
  bool fine;
  if (!dtype_is_float(t->dtype))
    return call_no_dtype(c->cx, "poisson_cpu", t->dtype);
  TRY(all_between(c->cx, call_tensor(c, 0), 0, INFINITY, &fine));
  if (!fine)
    return call_fail(c->cx, "invalid Poisson rate, expected rate to be non-negative");
  return fill_mapped(c->cx, t, call_tensor(c, 0), NULL, g, map_poisson);
}
DRAW(poisson)

static rush_status fill_binomial(rush_call *c, rush_tensor *t, generator *g)
{
  if (!dtype_is_float(t->dtype))
    return call_fail_type(c->cx, "ValueError",
                          "binomial only supports floating-point dtypes for count, got: %s",
                          dtype_aten_name(t->dtype));
  if (nn_is_half(t->dtype))
    return call_no_dtype(c->cx, "binomial_cpu", t->dtype);
  return fill_mapped(c->cx, t, call_tensor(c, 0), call_tensor(c, 1), g, map_binomial);
}
DRAW(binomial)

/* Return the smallest positive normal number. */
static double tiny_of(int dtype)
{
  return dtype == RUSH_FLOAT64   ? 2.2250738585072014e-308
         : dtype == RUSH_FLOAT16 ? 6.103515625e-05
                                 : 1.1754943508222875e-38;
}

static rush_status fill__standard_gamma(rush_call *c, rush_tensor *t, generator *g)
{
  if (t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_FLOAT64)
    return call_no_dtype(c->cx, "gamma_cpu", t->dtype);
  TRY(fill_mapped(c->cx, t, call_tensor(c, 0), NULL, g, map_gamma));
  for (int64_t i = 0; i < t->n_elems; i++) {
    rush_value v;
    TRY(call_poll_at(c->cx, i));
    TRY(tensor_get(c->cx, t, i, &v));
    if (v.as.d < tiny_of(t->dtype))
      tensor_set(t, i, value_float(tiny_of(t->dtype)));
  }
  return RUSH_OK;
}
DRAW(_standard_gamma)

/* Draw gammas in double, and divide by the sums of their rows. */
static rush_status fill__sample_dirichlet(rush_call *c, rush_tensor *t, generator *g)
{
  rush_value dims = value_none();
  if (t->dtype != RUSH_FLOAT32 && t->dtype != RUSH_FLOAT64)
    return call_no_dtype(c->cx, "dirichlet", t->dtype);
  work w = work_begin(c);
  rush_tensor *gammas = work_new(&w, RUSH_FLOAT64, t->n_dims, t->sizes),
              *alphas = work_rows(&w, call_tensor(c, 0), RUSH_FLOAT64); /* not rounded on the way */
  WORK_DO(&w, fill_mapped(c->cx, gammas, alphas, NULL, g, map_gamma));
  WORK_DO(&w, list_of_ints(c->cx, (const int64_t[]){-1}, 1, &dims));
  const rush_value args[3] = {nn_arg(gammas), dims, value_bool(true)};
  const rush_tensor *sums = work_invoke(&w, "aten::sum", "dim_IntList", args, 3);
  value_release(dims);
  const int64_t n = t->n_dims ? t->sizes[t->n_dims - 1] : 1;
  const double *x = gammas->data, most = nextafter(1.0, 0.0);
  for (int64_t i = 0; w.st == RUSH_OK && i < t->n_elems && !call_over_at(c->cx, i); i++)
    tensor_set(t, i, value_float(fmin(most, fmax(tiny_of(t->dtype),
                                                 x[i] / ((const double *)sums->data)[i / n]))));
  return work_end(&w);
}
DRAW(_sample_dirichlet)

/* -- multinomial ------------------------------------------------------------------------------- */

/* Refuse rows of probabilities with a negative, infinite or NaN element, and rows of zeros. */
static rush_status check_probabilities(rush_call *c, rush_tensor *p)
{
  const int64_t width = p->sizes[p->n_dims - 1];
  rush_tensor *d;
  TRY(tensor_contiguous(c->cx, p, &d));
  rush_status st = RUSH_OK;
  double x[512];
  const size_t item = tensor_item_bytes(p);
  for (int64_t at = 0; st == RUSH_OK && at < d->n_elems; at += width) {
    int bad = 0, any = 0;
    for (int64_t i = 0, n; i < width && !call_over_at(c->cx, (at + i) / 512); i += n) {
      n = i64_min(512, width - i);
      convert_elems(RUSH_FLOAT64, x, p->dtype, (const char *)d->data + (size_t)(at + i) * item, n);
      double low = 0, high = 0, odd = 0;
      for (int64_t k = 0; k < n; k++) {
        low = x[k] < low ? x[k] : low;
        high = x[k] > high ? x[k] : high;
        odd += x[k] - x[k]; /* NaN, of infinities too */
      }
      bad |= low < 0 || odd != 0;
      any |= high > 0;
    }
    if (bad)
      st = call_fail(c->cx, "probability tensor contains either `inf`, `nan` or element < 0");
    else if (!any)
      st = call_fail(c->cx, "invalid multinomial distribution (sum of probabilities <= 0)");
  }
  tensor_release(d);
  return st;
}

/* Choose the largest of p over exponentials. */
static rush_status multinomial_distinct(rush_call *c, rush_tensor *out, generator *g)
{
  rush_tensor *p = call_tensor(c, 0);
  const int64_t n = call_int(c, 1);
  rush_value made[2] = {value_none(), value_none()};
  work w = work_begin(c);
  rush_tensor *q = WORK_MAKE(&w, tensor_new_like(c->cx, p, DTYPE_NONE, &w.made));
  WORK_DO(&w, fill_floats(c->cx, q, g, "exponential_cpu",
                          (sampler){.draw = draw_exponential, .a = 1}));
  rush_value args[2] = {nn_arg(p), nn_arg(q)};
  rush_value pick[5] = {nn_arg(work_invoke(&w, "aten::div", "Tensor", args, 2))};
  if (n == 1) {
    pick[1] = value_int(-1), pick[2] = value_bool(true);
    WORK_DO(&w, op_invoke_name(c->cx, "aten::argmax", "", pick, 3, &made[1]));
  } else {
    const op *topk = op_find(c->cx->ctx, STR("aten::topk"), STR(""));
    pick[1] = value_int(n), pick[2] = value_int(-1), pick[3] = pick[4] = value_bool(true);
    WORK_DO(&w, topk ? op_invoke(c->cx, topk, pick, 5, made, 2)
                     : call_unsupported(c->cx, "no operator aten::topk"));
  }
  WORK_DO(&w, tensor_copy(c->cx, out, made[1].as.tensor));
  value_release(made[0]);
  value_release(made[1]);
  return work_end(&w);
}

/* Replace values by their running sums over the total, in place. */
#define CUMULATE(T)                                                                \
  static void cumulate_##T(const call_ctx *cx, int64_t n, T *x)                    \
  {                                                                                \
    T sum = 0;                                                                     \
    for (int64_t i = 0; i < n && !(i % 4096 == 0 && call_over(cx));)               \
      for (const int64_t end = i64_min(n, i + 4096); i < end; i++)                 \
        x[i] = sum += x[i];                                                        \
    int64_t i = 0;                                                                 \
    for (; i + 256 <= n; i += 256)                                                 \
      for (int k = 0; k < 256; k++) /* of a number that is known: vectors */       \
        x[i + k] /= sum;                                                           \
    for (; i < n; i++)                                                             \
      x[i] /= sum;                                                                 \
  }
CUMULATE(float)
CUMULATE(double)

/* Compute sums of the row, normalised, in the dtype; then search a uniform number in them. */
static rush_status multinomial_replaced(rush_call *c, rush_tensor *out, generator *g)
{
  rush_tensor *p = call_tensor(c, 0);
  const int64_t width = p->sizes[p->n_dims - 1], n = call_int(c, 1),
                rows = p->n_dims == 2 ? p->sizes[0] : 1;
  const bool f64 = p->dtype == RUSH_FLOAT64; /* else in float32 */
  work w = work_begin(c);
  const rush_tensor *d = WORK_MAKE(&w, tensor_contiguous(c->cx, p, &w.made));
  double *cum = work_new(&w, RUSH_FLOAT64, 1, &width)->data;
  float *cum_f = (float *)(void *)cum;
  turn mine;
  WORK_DO(&w, turn_begin(c->cx, g, &mine));
  if (w.st != RUSH_OK)
    return work_end(&w);
  for (int64_t r = 0; r < rows && turn_next(&mine); r++) {
    convert_elems(f64 ? RUSH_FLOAT64 : RUSH_FLOAT32, cum, p->dtype,
                  (const char *)d->data + (size_t)(r * width) * tensor_item_bytes(p), width);
    if (f64)
      cumulate_double(c->cx, width, cum);
    else
      cumulate_float(c->cx, width, cum_f);
    for (int64_t k = 0; k < n && ((k & 63) || turn_next(&mine)) && !call_over_at(c->cx, r * n + k);
         k++) {
      const double u = random_uniform(g, RUSH_FLOAT64);
      int64_t left = 0, right = width;
      while (right > left) {
        const int64_t mid = left + (right - left) / 2;
        if ((mid == width - 1 ? 1.0 : f64 ? cum[mid] : (double)cum_f[mid]) < u)
          left = mid + 1;
        else
          right = mid;
      }
      ((int64_t *)out->data)[r * n + k] = left;
    }
  }
  w.st = turn_end(&mine);
  return work_end(&w);
}

static rush_status fill_multinomial(rush_call *c, rush_tensor *t, generator *g)
{
  TRY(check_probabilities(c, call_tensor(c, 0)));
  return !call_bool(c, 2) || call_int(c, 1) == 1 ? multinomial_distinct(c, t, g)
                                                 : multinomial_replaced(c, t, g);
}
DRAW(multinomial)

/* -- Generators -------------------------------------------------------------------------------- */

rush_kernel kernel_manual_seed, kernel_manual_seed_generator, kernel_initial_seed, kernel_seed,
  kernel_Generator;
rush_status kernel_manual_seed(rush_call *c)
{
  generator *g;
  TRY(random_generator(c, value_none(), &g));
  return generator_seed_safely(c->cx, g, (uint64_t)call_int(c, 0));
}

rush_status kernel_manual_seed_generator(rush_call *c)
{
  TRY(generator_seed_safely(c->cx, c->args[0].as.heap, (uint64_t)call_int(c, 1)));
  call_return_arg(c, 0, 0);
  return RUSH_OK;
}

rush_status kernel_initial_seed(rush_call *c)
{
  generator *g = c->args[0].as.heap;
  lock_hold hold;
  TRY(lock_take(c->cx, &g->lock, LOCK_EXCLUSIVE, &hold));
  call_return_value_steal(c, 0, value_int((int64_t)g->seed));
  lock_drop(&hold);
  return RUSH_OK;
}

/* Draws an unpredictable seed. */
rush_status kernel_seed(rush_call *c)
{
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
    return call_fail(c->cx, "seed: the system returns no random bytes");
  seed &= (UINT64_C(1) << 53) - 1;
  TRY(generator_seed_safely(c->cx, c->args[0].as.heap, seed));
  call_return_value_steal(c, 0, value_int((int64_t)seed));
  return RUSH_OK;
}

/* (device, seed) */
rush_status kernel_Generator(rush_call *c)
{
  generator *g;
  TRY(check_device(c->cx, c->args[0]));
  TRY(generator_new(c->cx, (uint64_t)call_int_or(c, 1, INT64_C(67280421310721)), &g));
  call_return_value_steal(c, 0, value_heap_steal(RUSH_TAG_GENERATOR, g));
  return RUSH_OK;
}
