/* ops/kernels/random/random.c -- samples of distributions, number by number, from PyTorch's
 * Mersenne Twister stream. The algorithms and the number of words that each uses are those of
 * PyTorch's CPU kernels, since torch.manual_seed makes them visible; faster methods (ziggurat,
 * parallel streams) would draw other numbers. Contiguous normals of 16 and more elements are made
 * 16 at a time by Box and Muller, as PyTorch's AVX2 code does. Drawing is sequential and holds the
 * generator's turn. */
#include "ops/kernels/random/random.h"

#include <math.h>

#include "base/isa.h"
#include "ops/call/written.h"
#include "tensor/iter.h"

ISA_DECLARE(void, normal_16, (int64_t n_blocks, float *data, float mean, float std));

enum { BLOCK = 256 };
#define PI 3.14159265358979323846

/* -- One number -------------------------------------------------------------------------------- */

static double as_dtype(double v, int dtype)
{
  switch (dtype) {
  case RUSH_FLOAT32:
    return (double)(float)v;
  case RUSH_FLOAT16:
    return (double)half_to_float(half_from_float((float)v));
  case RUSH_BFLOAT16:
    return (double)bf16_to_float(bf16_from_float((float)v));
  default:
    return v;
  }
}

/* Draw a uniform number of 53 bits for a double, 24 for any other float. */
double random_uniform(generator *g, int dtype)
{
  if (dtype == RUSH_FLOAT64)
    return (double)(generator_random64(g) & ((UINT64_C(1) << 53) - 1)) * (1.0 / 9007199254740992.0);
  return (double)(generator_random32(g) & 0xffffff) * (1.0 / 16777216);
}
static double uniform(generator *g) { return random_uniform(g, RUSH_FLOAT64); }

double random_normal(generator *g)
{
  if (g->has_next_double_normal) {
    g->has_next_double_normal = false;
    return g->next_double_normal;
  }
  const double u1 = uniform(g), u2 = uniform(g);
  const double r = sqrt(-2.0 * log1p(-u2)), theta = 2.0 * PI * u1;
  g->next_double_normal = r * sin(theta);
  g->has_next_double_normal = true;
  return r * cos(theta);
}

/* Draw by transformed rejection (Hoermann 1993) for rates of 10 and more. */
static double poisson_large(generator *g, double lambda)
{
  const double slam = sqrt(lambda), loglam = log(lambda), b = 0.931 + 2.53 * slam,
               a = -0.059 + 0.02483 * b;
  const double invalpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = uniform(g) - 0.5, v = uniform(g), us = 0.5 - fabs(u);
    const double k = floor((2 * a / us + b) * u + lambda + 0.43);
    if (us >= 0.07 && v <= vr)
      return k;
    if (k < 0 || (us < 0.013 && v > us))
      continue;
    if (log(v) + log(invalpha) - log(a / (us * us) + b) <= -lambda + k * loglam - lgamma(k + 1))
      return k;
  }
}

double random_poisson(generator *g, double lambda)
{
  if (lambda >= 10)
    return poisson_large(g, lambda);
  if (lambda == 0)
    return 0;
  const double end = exp(-lambda);
  double x = 0, prod = uniform(g);
  for (; prod > end; prod *= uniform(g))
    x++;
  return x;
}

/* Draw by sums of geometric numbers; for count * p below 10. */
static double binomial_inversion(generator *g, double count, double p)
{
  const double logprob = log1p(-p);
  double sum = 0, n = 0;
  for (;;) {
    sum += ceil(log(uniform(g)) / logprob);
    if (sum > count)
      return n;
    n++;
  }
}

static double stirling_tail(double k)
{
  static const double tails[10] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                   0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                   0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                   0.00833056343336287};
  if (k <= 9)
    return tails[(size_t)k];
  const double sq = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / sq) / sq) / (k + 1);
}

/* Draw by transformed rejection, Hoermann's BTRS. */
static double binomial_large(generator *g, double count, double p)
{
  const double stddev = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * stddev,
               a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = count * p + 0.5, v_r = 0.92 - 4.2 / b, r = p / (1 - p),
               alpha = (2.83 + 5.1 / b) * stddev;
  const double m = floor((count + 1) * p);
  for (;;) {
    const double u = uniform(g) - 0.5;
    double v = uniform(g);
    const double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + c);
    if (k < 0 || k > count)
      continue;
    if (us >= 0.07 && v <= v_r)
      return k;
    v = log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound)
      return k;
  }
}

double random_binomial(generator *g, double count, double p)
{
  if (count <= 0 || p <= 0)
    return 0;
  if (p >= 1)
    return count;
  if (isnan(count) || isnan(p))
    return (double)NAN;
  const double q = p <= 0.5 ? p : 1.0 - p;
  const double n = count * q >= 10 ? binomial_large(g, count, q) : binomial_inversion(g, count, q);
  return p <= 0.5 ? n : count - n;
}

/* Draw by the method of Marsaglia and Tsang (2000). PyTorch keeps alpha in the tensor's dtype, and
 * the constants are floats. */
double random_gamma(generator *g, double alpha, int dtype)
{
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0)
      return 0;
    scale *= pow(1 - uniform(g), as_dtype(1.0 / alpha, dtype));
    alpha = as_dtype(alpha + 1, dtype);
  }
  const double d = as_dtype(alpha - (double)(1.0f / 3.0f), dtype), c = 1.0 / sqrt(9.0 * d);
  for (;;) {
    double x, y;
    do {
      x = random_normal(g);
      y = 1.0 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - uniform(g), xx = x * x;
    if (u < 1.0 - (double)0.0331f * xx * xx)
      return scale * d * v;
    if (log(u) < 0.5 * xx + d * (1.0 - v + log(v)))
      return scale * d * v;
  }
}

/* -- Blocks ------------------------------------------------------------------------------------ */

/* Draw from [a, b): 16-bit floats are computed in float, and what rounds up to b becomes a. */
void draw_uniform(sampler *s, int64_t n, void *out)
{
  double *x = out;
  if (s->dtype == RUSH_FLOAT64) {
    for (int64_t i = 0; i < n; i++)
      x[i] = fma(uniform(s->g), s->b - s->a, s->a);
    return;
  }
  const float from = (float)s->a, span = (float)s->b - from;
  const double end = as_dtype((double)(float)s->b, s->dtype);
  for (int64_t i = 0; i < n; i++) {
    x[i] = (double)fmaf((float)random_uniform(s->g, s->dtype), span, from);
    if (s->dtype != RUSH_FLOAT32 && as_dtype(x[i], s->dtype) >= end)
      x[i] = (double)from;
  }
}

void draw_normal(sampler *s, int64_t n, void *out)
{
  double *x = out;
  for (int64_t i = 0; i < n; i++)
    x[i] = fma(random_normal(s->g), s->b, s->a);
}

void draw_log_normal(sampler *s, int64_t n, void *out)
{
  double *x = out;
  for (int64_t i = 0; i < n; i++)
    x[i] = exp(fma(random_normal(s->g), s->b, s->a));
}

void draw_exponential(sampler *s, int64_t n, void *out)
{
  double *x = out;
  for (int64_t i = 0; i < n; i++)
    x[i] = -1.0 / s->a * log1p(-uniform(s->g));
}

void draw_geometric(sampler *s, int64_t n, void *out)
{
  double *x = out;
  const double rate = log1p(-s->a);
  for (int64_t i = 0; i < n; i++)
    x[i] = ceil(log(uniform(s->g)) / rate);
}

void draw_cauchy(sampler *s, int64_t n, void *out)
{
  double *x = out;
  const double eps = 2.220446049250313e-16;
  for (int64_t i = 0; i < n; i++) {
    double u = uniform(s->g);
    u = u > 1 - eps ? 1 - eps : u < eps ? eps : u;
    x[i] = fma(s->b, tan(PI * (u - 0.5)), s->a);
  }
}

/* Draw an integer; wide ranges use two words. */
void draw_from_to(sampler *s, int64_t n, void *out)
{
  int64_t *x = out;
  const bool wide = s->range >= UINT64_C(1) << 28;
  for (int64_t i = 0; i < n; i++)
    x[i] = (int64_t)((wide ? generator_random64(s->g) : generator_random32(s->g)) % s->range +
                     (uint64_t)s->base);
}

void draw_any_word(sampler *s, int64_t n, void *out)
{
  int64_t *x = out;
  for (int64_t i = 0; i < n; i++)
    x[i] = (int64_t)generator_random64(s->g);
}

/* Draw integers that the dtype can hold exactly. */
void draw_any_int(sampler *s, int64_t n, void *out)
{
  int64_t *x = out;
  uint64_t mod;
  switch (s->dtype) {
  case RUSH_BOOL: mod = 2; break;
  case RUSH_UINT8: mod = 256; break;
  case RUSH_INT8: mod = 128; break;
  case RUSH_INT16: mod = 32768; break;
  case RUSH_INT32: mod = UINT64_C(1) << 31; break;
  case RUSH_FLOAT16: mod = 2049; break;
  case RUSH_BFLOAT16: mod = 257; break;
  case RUSH_FLOAT32: mod = (1 << 24) + 1; break;
  case RUSH_FLOAT64: mod = (UINT64_C(1) << 53) + 1; break;
  default: mod = UINT64_C(1) << 63; break;
  }
  const bool wide = s->dtype == RUSH_INT64 || s->dtype == RUSH_FLOAT64;
  for (int64_t i = 0; i < n; i++)
    x[i] = (int64_t)((wide ? generator_random64(s->g) : generator_random32(s->g)) % mod);
}

/* -- Tensors ----------------------------------------------------------------------------------- */

rush_status random_generator(rush_call *c, rush_value v, generator **out)
{
  generator *g = v.tag == RUSH_TAG_GENERATOR ? v.as.heap : generator_of_call(c->cx);
  if (!g)
    return call_nomem(c->cx);
  *out = g;
  return RUSH_OK;
}

static void scatter(char *to, int64_t stride, const char *from, size_t item, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    memcpy(to + i * stride, from + (size_t)i * item, item);
}

static void fill_run(void *arg, int64_t n, char *const *ptrs, const int64_t *strides)
{
  sampler *s = arg;
  const size_t item = dtype_bytes(s->dtype);
  union { double d[BLOCK]; int64_t i[BLOCK]; } drawn;
  double made[2 * BLOCK]; /* of any dtype */
  for (int64_t at = 0; at < n && turn_next(s->turn); at += BLOCK) {
    const int64_t m = i64_min(BLOCK, n - at);
    char *to = ptrs[0] + at * strides[0];
    s->draw(s, m, &drawn);
    if (strides[0] == (int64_t)item) {
      convert_elems(s->dtype, to, s->kind, &drawn, m);
    } else {
      convert_elems(s->dtype, made, s->kind, &drawn, m);
      scatter(to, strides[0], (const char *)made, item, m);
    }
  }
}

rush_status random_fill(call_ctx *cx, rush_tensor *t, sampler *s)
{
  if (dtype_is_float8(t->dtype))
    return call_no_dtype(cx, "random_kernel_cpu", t->dtype);
  tensor_iter it;
  s->dtype = t->dtype;
  TRY(written_check_self(cx, t));
  (void)tensor_data_mut(t);
  iter_init(&it, t->n_dims, t->sizes);
  iter_add(&it, t);
  iter_finish(&it);
  turn mine;
  TRY(turn_begin(cx, s->g, &mine));
  s->turn = &mine;
  rush_status st = iter_run(cx, &it, INT64_MAX, fill_run, s); /* in order: one after the other */
  rush_status ended = turn_end(&mine);
  return st == RUSH_OK ? ended : st;
}

typedef void normal_16_fn(int64_t n_blocks, float *data, float mean, float std);

/* Draw n times, as random_uniform of float32. */
static void fill_uniform(turn *t, float *x, int64_t n)
{
  uint32_t bits[1024];
  for (int64_t i = 0; i < n && turn_next(t) && !call_over_at(t->cx, i / 1024); i += 1024) {
    const int64_t m = i64_min(1024, n - i);
    generator_fill32(t->g, bits, m);
    for (int64_t k = 0; k < m; k++)
      x[i + k] = (float)(int32_t)(bits[k] & 0xffffff) * (1.0f / 16777216);
  }
}

static void fill_normal_float(const call_ctx *cx, rush_tensor *t, turn *mine,
                              normal_16_fn *normal_16, float mean, float std)
{
  float *x = t->data;
  const int64_t n = t->n_elems;
  fill_uniform(mine, x, n);
  for (int64_t i = 0; i < n / 16 && !(i % POLL_STEPS == 0 && call_over(cx)); i += 64)
    normal_16(i64_min(64, n / 16 - i), x + 16 * i, mean, std);
  if (n % 16 != 0) { /* the last 16 once more */
    fill_uniform(mine, x + n - 16, 16);
    normal_16(1, x + n - 16, mean, std);
  }
}

/* Draw 16-bit floats in the same way, but block by block. */
static void fill_normal_half(const call_ctx *cx, rush_tensor *t, turn *mine,
                             normal_16_fn *normal_16, float mean, float std)
{
  float x[16];
  const int64_t n = t->n_elems;
  for (int64_t i = 0; i < n && !call_over_at(cx, i / 16); i += 16) {
    fill_uniform(mine, x, 16);
    normal_16(1, x, mean, std);
    convert_elems(t->dtype, (char *)t->data + 2 * i64_min(i, n - 16), RUSH_FLOAT32, x, 16);
  }
}

static void normal_16_double(double *x, double mean, double std)
{
  for (int i = 0; i < 8; i++) {
    const double radius = sqrt(-2.0 * log(1.0 - x[i])), theta = 2.0 * PI * x[i + 8];
    x[i] = fma(radius * cos(theta), std, mean);
    x[i + 8] = fma(radius * sin(theta), std, mean);
  }
}

static void fill_normal_double(const call_ctx *cx, rush_tensor *t, turn *mine, double mean,
                               double std)
{
  double *x = t->data;
  const int64_t n = t->n_elems;
  for (int64_t i = 0; i < n && ((i & 255) || turn_next(mine)) && !call_over_at(cx, i); i++)
    x[i] = uniform(mine->g);
  for (int64_t i = 0; i < n - 15 && !call_over_at(cx, i / 16); i += 16)
    normal_16_double(x + i, mean, std);
  if (n % 16 != 0 && turn_next(mine)) {
    for (int64_t i = n - 16; i < n; i++)
      x[i] = uniform(mine->g);
    normal_16_double(x + n - 16, mean, std);
  }
}

rush_status random_fill_normal(call_ctx *cx, rush_tensor *t, generator *g, double mean, double std)
{
  if (dtype_is_float8(t->dtype))
    return call_no_dtype(cx, "normal_kernel_cpu", t->dtype);
  if (t->n_elems < 16 || !tensor_is_contiguous(t)) {
    sampler s = {.draw = draw_normal, .kind = RUSH_FLOAT64, .g = g, .a = mean, .b = std};
    return random_fill(cx, t, &s);
  }
  (void)tensor_data_mut(t);
  turn mine;
  TRY(turn_begin(cx, g, &mine));
  normal_16_fn *normal_16 = ISA_PICK(normal_16, cpu_choose(context_get_options(cx->ctx)->cpu));
  if (t->dtype == RUSH_FLOAT64)
    fill_normal_double(cx, t, &mine, mean, std);
  else if (t->dtype == RUSH_FLOAT32)
    fill_normal_float(cx, t, &mine, normal_16, (float)mean, (float)std);
  else
    fill_normal_half(cx, t, &mine, normal_16, (float)mean, (float)std);
  return turn_end(&mine);
}
