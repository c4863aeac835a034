#include "support/test.h"

#include "base/cpu.h"
#include "ops/math/conv.h"

static uint64_t seed = 88172645463325252u;
static double number(void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (double)(int64_t)(seed >> 11) * 0x1p-52 - 1.0;
}

enum { ROOM = 300000 };
static char input[ROOM * 8], weight[ROOM * 8], bias[ROOM * 8], output[ROOM * 8], first[ROOM * 8];
static double expected[ROOM];

static double get(int dtype, const void *p, int64_t i)
{
  return dtype == RUSH_FLOAT32   ? (double)((const float *)p)[i]
         : dtype == RUSH_FLOAT64 ? ((const double *)p)[i]
                                 : (double)((const int64_t *)p)[i];
}
static void fill(int dtype, void *p)
{
  for (int i = 0; i < ROOM; i++)
    if (dtype == RUSH_FLOAT32)
      ((float *)p)[i] = (float)number();
    else if (dtype == RUSH_FLOAT64)
      ((double *)p)[i] = number();
    else
      ((int64_t *)p)[i] = (int64_t)(number() * 10);
}

/* Add every product of the definition to its target: forward reads in[o*s - p + k*d], transposed
 * writes there. */
static void plain(const conv_args *c, bool transposed)
{
  const int64_t ig = c->in_ch / c->groups, og = c->out_ch / c->groups;
  const int64_t n_in = c->in[0] * c->in[1] * c->in[2], n_out = c->out[0] * c->out[1] * c->out[2];
  const int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
  const int64_t *near = transposed ? c->in : c->out, *far = transposed ? c->out : c->in;
  for (int64_t i = 0; i < c->batch * c->out_ch * n_out; i++)
    expected[i] = c->bias ? get(c->dtype, bias, i / n_out % c->out_ch) : 0.0;
  for (int64_t b = 0; b < c->batch; b++)
    for (int64_t oc = 0; oc < c->out_ch; oc++)
      for (int64_t ic = 0; ic < ig; ic++)
        for (int64_t tap = 0; tap < taps; tap++)
          for (int64_t q = 0; q < near[0] * near[1] * near[2]; q++) {
            const int64_t kk[3] = {tap / c->kernel[2] / c->kernel[1],
                                   tap / c->kernel[2] % c->kernel[1], tap % c->kernel[2]};
            const int64_t qq[3] = {q / near[2] / near[1], q / near[2] % near[1], q % near[2]};
            int64_t f = 0;
            bool inside = true;
            for (int d = 0; d < 3; d++) {
              int64_t x = qq[d] * c->stride[d] - c->pad[d] + kk[d] * c->dilation[d];
              inside &= x >= 0 && x < far[d];
              f = f * far[d] + x;
            }
            if (!inside)
              continue;
            const int64_t group = oc / og, channel = group * ig + ic;
            const int64_t w =
              transposed ? (channel * og + oc % og) * taps + tap : (oc * ig + ic) * taps + tap;
            expected[(b * c->out_ch + oc) * n_out + (transposed ? f : q)] +=
              get(c->dtype, input, (b * c->in_ch + channel) * n_in + (transposed ? q : f)) *
              get(c->dtype, weight, w);
          }
}

static void check(int dtype, conv_args c, bool transposed, bool with_bias)
{
  c.dtype = dtype;
  c.input = input;
  c.weight = weight;
  c.bias = with_bias ? bias : NULL;
  c.output = output;
  fill(dtype, input);
  fill(dtype, weight);
  fill(dtype, bias);
  for (int d = 0; d < 3; d++)
    c.out[d] =
      transposed
        ? (c.in[d] - 1) * c.stride[d] - 2 * c.pad[d] + c.dilation[d] * (c.kernel[d] - 1) + 1
        : (c.in[d] + 2 * c.pad[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
  const int64_t n = c.batch * c.out_ch * c.out[0] * c.out[1] * c.out[2];
  plain(&c, transposed);
  for (int run = 0; run < 2 * (CPU_AVX512 - CPU_PORTABLE + 1);
       run++) { /* on every level, without and with a packed weight */
    const int level = CPU_PORTABLE + run / 2;
    context *ctx = test_context(&(context_options){.cpu = (uint32_t)level, .n_threads = level});
    call_ctx cx;
    call_ctx_init(&cx, ctx, NULL);
    memset(output, 0x55, sizeof output);
    gemm_packing how;
    gemm_packed *packed = NULL;
    if (run % 2 && !transposed && conv_packing(&cx, &c, &how))
      assert_int_equal(gemm_pack(&cx, &how, &packed), RUSH_OK);
    c.packed = packed;
    assert_int_equal(transposed ? conv_transpose(&cx, &c) : conv(&cx, &c), RUSH_OK);
    for (int64_t i = 0; i < n; i++) {
      double error = get(dtype, output, i) - expected[i],
             limit = dtype == RUSH_FLOAT32 ? 1e-4 : 1e-12;
      if (!(error <= limit && error >= -limit))
        fail_msg("dtype %d level %d groups %d: [%d] is %g, not %g", dtype, level, (int)c.groups,
                 (int)i, get(dtype, output, i), expected[i]);
    }
    gemm_packed_free(ctx, packed);
    if (run == 0)
      memcpy(first, output, sizeof output);
    else
      assert_memory_equal(first, output, sizeof output);
    test_context_done(ctx);
  }
}

#define SHAPE(b, g, ic, oc, i0, i1, i2, k0, k1, k2, s0, s1, s2, p0, p1, p2, d0, d1, d2)         \
  {.batch = b, .groups = g, .in_ch = ic, .out_ch = oc, .in = {i0, i1, i2}, .kernel = {k0, k1, k2}, \
   .stride = {s0, s1, s2}, .pad = {p0, p1, p2}, .dilation = {d0, d1, d2}}

static const conv_args shapes[] = {
  SHAPE(2, 1, 3, 8, 1, 9, 11, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1),
  SHAPE(1, 1, 48, 33, 1, 7, 7, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1),
  SHAPE(1, 1, 3, 20, 1, 30, 30, 1, 7, 7, 1, 2, 2, 0, 3, 3, 1, 1, 1),
  SHAPE(2, 1, 5, 6, 1, 13, 17, 1, 3, 2, 1, 3, 3, 0, 0, 0, 1, 2, 2),
  SHAPE(1, 1, 20, 30, 1, 14, 14, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1),
  SHAPE(1, 1, 20, 30, 1, 14, 14, 1, 1, 1, 1, 2, 2, 0, 0, 0, 1, 1, 1),
  SHAPE(2, 4, 8, 12, 1, 10, 10, 1, 3, 3, 1, 2, 1, 0, 1, 2, 1, 1, 1),
  SHAPE(1, 6, 6, 6, 1, 20, 23, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1),
  SHAPE(1, 6, 6, 12, 1, 20, 23, 1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1),
  SHAPE(1, 5, 5, 5, 1, 14, 7, 1, 5, 5, 1, 1, 1, 0, 2, 2, 1, 1, 1),
  SHAPE(2, 5, 5, 10, 1, 33, 37, 1, 5, 5, 1, 2, 2, 0, 2, 1, 1, 1, 1),
  SHAPE(1, 3, 3, 3, 1, 14, 14, 1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1),
  SHAPE(1, 4, 4, 4, 1, 1, 50, 1, 1, 7, 1, 1, 1, 0, 0, 3, 1, 1, 1),
  SHAPE(1, 1, 4, 7, 1, 1, 90, 1, 1, 5, 1, 1, 2, 0, 0, 2, 1, 1, 2),
  SHAPE(2, 2, 20, 80, 1, 14, 28, 1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1),
  SHAPE(2, 1, 50, 40, 1, 8, 7, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1),
  SHAPE(1, 1, 30, 34, 2, 5, 19, 2, 1, 3, 1, 1, 1, 0, 0, 1, 1, 1, 2),
  SHAPE(2, 2, 800, 70, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1),
  SHAPE(1, 1, 3, 5, 6, 7, 8, 2, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1, 1),
};

static void forward_agrees_with_the_definition(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(shapes); i++) {
    check(RUSH_FLOAT32, shapes[i], false, i & 1);
    check(RUSH_FLOAT64, shapes[i], false, !(i & 1));
    check(RUSH_INT64, shapes[i], false, true);
  }
}

static void transposed_agrees_with_the_definition(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(shapes); i++)
    if (i != 8) /* its channels do not fit */
      check(i & 1 ? RUSH_FLOAT64 : RUSH_FLOAT32, shapes[i], true, i & 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(forward_agrees_with_the_definition),
    cmocka_unit_test(transposed_agrees_with_the_definition),
  };
  return RUN_TESTS(tests);
}
