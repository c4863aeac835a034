#include "support/test.h"

#include <math.h>

#include "ops/call/call.h"
#include "ops/math/qgemm.h"
#include "ops/kernels/quantized/quantize.h"

static uint32_t seed = 12345;
static uint32_t next_bits(void)
{
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

enum { MAX_M = 70, MAX_N = 100, MAX_K = 130 };
static uint8_t A[MAX_M * MAX_K];
static int8_t B[MAX_K * MAX_N];
static int32_t C[MAX_M * MAX_N];

static void check_product(context *c, int64_t m, int64_t n, int64_t k, bool transposed)
{
  call_ctx cx;
  qgemm_packed *p = NULL;
  call_ctx_init(&cx, c, NULL);
  const int64_t rs = transposed ? 1 : n, cs = transposed ? k : 1;
  assert_int_equal(qgemm_pack(&cx, k, n, B, rs, cs, &p), RUSH_OK);
  memset(C, 0x55, sizeof C);
  assert_int_equal(qgemm(&cx, m, A, k, p, C, n), RUSH_OK);
  for (int64_t j = 0; j < n; j++) {
    int32_t column = 0;
    for (int64_t t = 0; t < k; t++)
      column += B[t * rs + j * cs];
    assert_int_equal(qgemm_column_sums(p)[j], column);
    for (int64_t i = 0; i < m; i++) {
      int32_t sum = 0;
      for (int64_t t = 0; t < k; t++)
        sum += A[i * k + t] * B[t * rs + j * cs];
      assert_int_equal(C[i * n + j], sum);
    }
  }
  qgemm_packed_free(c, p);
}

static void bytes_multiply_exactly_on_every_instruction_set(void **state)
{
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 1},     {1, 33, 7},    {5, 16, 4}, {8, 32, 64},
                                      {33, 31, 130}, {70, 100, 65}, {3, 5, 0}};
  for (size_t i = 0; i < sizeof A; i++)
    A[i] = (uint8_t)(next_bits() % 5 ? next_bits() : 255);
  for (size_t i = 0; i < sizeof B; i++)
    B[i] = (int8_t)(next_bits() % 5 ? next_bits() : (uint32_t)-128);
  for (uint32_t level = CPU_NATIVE; level <= CPU_AVX512; level++) {
    context *c = test_context(&(context_options){.cpu = level, .n_threads = 2});
    for (size_t s = 0; s < COUNT_OF(shapes); s++)
      for (int t = 0; t < 2; t++)
        check_product(c, shapes[s][0], shapes[s][1], shapes[s][2], t);
    test_context_done(c);
  }
}

/* Midpoints round to the even neighbour, before or after an odd zero point is added; values outside
 * of the range are clamped. */
static void quantizing_rounds_to_even_and_saturates(void **state)
{
  (void)state;
  static const float x[] = {0.0f, 0.5f, 1.5f, 2.5f, -0.5f, 1e30f, -1e30f, (float)NAN};
  static const int32_t rounded[] = {11, 11, 13, 13, 11, 255, 0, 0},
                       fused[] = {11, 12, 12, 14, 10, 255, 0, 255};
  for (size_t i = 0; i < COUNT_OF(x); i++) {
    assert_int_equal(quantize_value(QUANT_ROUNDED, x[i], 1.0f, 11, 0, 255), rounded[i]);
    assert_int_equal(quantize_value(QUANT_ADDED, x[i], 1.0f, 11, 0, 255),
                     x[i] != x[i] ? 0 : fused[i]);
    assert_int_equal(quantize_value(QUANT_FUSED, x[i], 1.0f, 11, 0, 255), fused[i]);
  }
}

/* Expected numbers are PyTorch 2.13's. */
static void parameters_cover_the_range_and_zero(void **state)
{
  (void)state;
  double scale;
  int64_t zero;
  choose_qparams(-1.0f, 3.0f, 0, 255, false, false, &scale, &zero);
  assert_float_equal(scale, 4.0 / 255, 1e-12);
  assert_int_equal(zero, 64);
  choose_qparams(-1.0f, 3.0f, 0, 255, false, true, &scale, &zero);
  assert_float_equal(scale, 4.0 / 127, 1e-12);
  assert_int_equal(zero, 32);
  choose_qparams(1.0f, 2.0f, -128, 127, false, false, &scale, &zero); /* zero is always inside */
  assert_float_equal(scale, 2.0 / 255, 1e-12);
  assert_int_equal(zero, -128);
  choose_qparams(0.0f, 0.0f, 0, 255, false, false, &scale, &zero);
  assert_float_equal(scale, 0.1, 1e-12);
  assert_int_equal(zero, 0);
}

static rush_tensor *floats(call_ctx *cx, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = NULL;
  assert_int_equal(tensor_new(cx, RUSH_FLOAT32, n_dims, sizes, &t), RUSH_OK);
  for (int64_t i = 0; i < t->n_elems; i++)
    ((float *)t->data)[i] = (float)i * 0.25f - 1.0f;
  return t;
}

/* relu has no quantized form: it is computed on real numbers, and its result has the argument's
 * parameters. */
static void operators_that_know_nothing_of_it_keep_the_parameters(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  const quantizer q = {.scale = 0.25, .zero_point = 8};
  rush_tensor *x = floats(&cx, 1, (int64_t[]){12}), *xq = NULL;
  rush_value y;
  assert_int_equal(tensor_quantize(&cx, x, RUSH_QUINT8, &q, &xq), RUSH_OK);
  assert_int_equal(op_invoke_name(&cx, "aten::relu", "",
                                  &(rush_value){.tag = RUSH_TAG_TENSOR, .as.tensor = xq}, 1, &y),
                   RUSH_OK);
  assert_int_equal(y.as.tensor->dtype, RUSH_QUINT8);
  assert_int_equal(tensor_quantizer(y.as.tensor)->zero_point, 8);
  for (int i = 0; i < 12; i++)
    assert_int_equal(((uint8_t *)y.as.tensor->data)[i], i < 4 ? 8 : 4 + i);
  value_release(y);
  tensor_release(x);
  tensor_release(xq);
  context_release(c);
}

/* An archive may contain any number. */
static void channel_parameters_that_do_not_fit_are_refused(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  rush_tensor *t = NULL, *scales = floats(&cx, 1, (int64_t[]){3}), *zeros = NULL;
  assert_int_equal(tensor_new(&cx, RUSH_QINT8, 2, (int64_t[]){2, 3}, &t), RUSH_OK);
  assert_int_equal(tensor_to_dtype(&cx, scales, RUSH_INT64, &zeros), RUSH_OK);
  quantizer q = {.per_channel = true, .axis = 1, .scales = scales, .zero_points = zeros};
  assert_int_equal(tensor_set_quantizer(&cx, t, &q), RUSH_OK);
  for (q.axis = -1; q.axis < 5; q.axis++)
    assert_int_equal(tensor_set_quantizer(&cx, t, &q), q.axis == 1 ? RUSH_OK : RUSH_ERAISED);
  q = (quantizer){.per_channel = true, .axis = 1, .scales = scales};
  assert_int_equal(tensor_set_quantizer(&cx, t, &q), RUSH_ERAISED);
  tensor_release(t);
  tensor_release(scales);
  tensor_release(zeros);
  test_context_done(c);
}

/* Pass parts of 3, 0 and 1 rows through the layer's norm, and back into a padded tensor. */
static void parts_of_a_nested_tensor_survive(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  rush_tensor *x = floats(&cx, 3, (int64_t[]){3, 4, 2}), *mask = NULL;
  rush_value args[3], nested, twice, padded;
  assert_int_equal(tensor_new(&cx, RUSH_BOOL, 2, (int64_t[]){3, 4}, &mask), RUSH_OK);
  memcpy(mask->data, "\1\1\1\0\0\0\0\0\1\0\0\0", 12);
  args[0] = value_tensor_steal(x);
  args[1] = value_tensor_steal(mask);
  assert_int_equal(op_invoke_name(&cx, "aten::_nested_tensor_from_mask", "", args, 2, &nested),
                   RUSH_OK);
  args[0] = args[1] = nested;
  assert_int_equal(op_invoke_name(&cx, "aten::add", "Tensor", args, 2, &twice), RUSH_OK);
  assert_int_equal(op_invoke_name(&cx, "aten::cumsum", "", args, 1, &padded), RUSH_EUNSUPPORTED);
  args[0] = twice;
  args[1] = value_float(-7.0);
  assert_int_equal(op_invoke_name(&cx, "aten::to_padded_tensor", "", args, 2, &padded), RUSH_OK);
  const rush_tensor *p = padded.as.tensor;
  assert_int_equal(p->n_dims, 3);
  assert_int_equal(p->sizes[1], 3); /* the longest part */
  for (int b = 0; b < 3; b++)
    for (int r = 0; r < 3; r++)
      for (int d = 0; d < 2; d++) {
        const bool there = b == 0 || (b == 2 && r == 0);
        const float want = there ? 2.0f * ((float *)x->data)[(b * 4 + r) * 2 + d] : -7.0f;
        assert_true(((float *)p->data)[(b * 3 + r) * 2 + d] == want);
      }
  value_release(nested);
  value_release(twice);
  value_release(padded);
  tensor_release(x);
  tensor_release(mask);
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_multiply_exactly_on_every_instruction_set),
    cmocka_unit_test(quantizing_rounds_to_even_and_saturates),
    cmocka_unit_test(parameters_cover_the_range_and_zero),
    cmocka_unit_test(operators_that_know_nothing_of_it_keep_the_parameters),
    cmocka_unit_test(channel_parameters_that_do_not_fit_are_refused),
    cmocka_unit_test(parts_of_a_nested_tensor_survive),
  };
  return RUN_TESTS(tests);
}
