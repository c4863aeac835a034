#include <math.h>

#include "support/test.h"

#include "tensor/tensor.h"

/* Expected texts are PyTorch 2.13's for the same elements: print(x) in a script, and repr(x). */
typedef struct print_case {
  int dtype, n_dims;
  int64_t sizes[4];
  double elems[50];
  const char *script, *python;
} print_case;

static const print_case cases[] = {
  {RUSH_FLOAT32,
   1,
   {2},
   {1, 2.5},
   " 1.0000\n"
   " 2.5000\n"
   "[ CPUFloatType{2} ]",
   "tensor([1.0000, 2.5000])"},
  {RUSH_INT64,
   2,
   {2, 2},
   {1, -2, 30, 4},
   "  1  -2\n"
   " 30   4\n"
   "[ CPULongType{2,2} ]",
   "tensor([[ 1, -2],\n"
   "        [30,  4]])"},
  {RUSH_FLOAT32,
   0,
   {0},
   {3.5},
   "3.5\n"
   "[ CPUFloatType{} ]",
   "tensor(3.5000)"},
  {RUSH_FLOAT64,
   0,
   {0},
   {10000000000.0},
   "10000000000\n"
   "[ CPUDoubleType{} ]",
   "tensor(1.0000e+10, dtype=torch.float64)"},
  {RUSH_BOOL,
   1,
   {2},
   {1, 0},
   " 1\n"
   " 0\n"
   "[ CPUBoolType{2} ]",
   "tensor([ True, False])"},
  {RUSH_FLOAT32, 3, {2, 0, 3}, {0}, "[ CPUFloatType{2,0,3} ]", "tensor([], size=(2, 0, 3))"},
  {RUSH_FLOAT32, 1, {0}, {0}, "[ CPUFloatType{0} ]", "tensor([])"},
  {RUSH_INT32, 1, {0}, {0}, "[ CPUIntType{0} ]", "tensor([], dtype=torch.int32)"},
  {RUSH_FLOAT32,
   1,
   {3},
   {NAN, 1, INFINITY},
   "nan\n"
   " 1\n"
   "inf\n"
   "[ CPUFloatType{3} ]",
   "tensor([nan, 1., inf])"},
  {RUSH_FLOAT32,
   1,
   {1},
   {1e-05},
   "1e-06 *\n"
   "10.0000\n"
   "[ CPUFloatType{1} ]",
   "tensor([1.0000e-05])"},
  {RUSH_FLOAT32,
   1,
   {2},
   {1e-05, 1.5},
   " 1.0000e-05\n"
   " 1.5000e+00\n"
   "[ CPUFloatType{2} ]",
   "tensor([1.0000e-05, 1.5000e+00])"},
  {RUSH_FLOAT16,
   3,
   {2, 1, 2},
   {0.5, -1.25, 3, 4},
   "(1,.,.) = \n"
   " 0.5000 -1.2500\n"
   "\n"
   "(2,.,.) = \n"
   " 3  4\n"
   "[ CPUHalfType{2,1,2} ]",
   "tensor([[[ 0.5000, -1.2500]],\n"
   "\n"
   "        [[ 3.0000,  4.0000]]], dtype=torch.float16)"},
  {RUSH_COMPLEX64,
   1,
   {2},
   {1, -3.5},
   " 1.0000\n"
   "-3.5000\n"
   "[ CPUComplexFloatType{2} ]",
   "tensor([ 1.0000+0.j, -3.5000+0.j])"},
  {RUSH_FLOAT32,
   3,
   {2, 2, 2},
   {1.3700000000000002e-09, 2.7400000000000005e-09, 4.110000000000001e-09, 5.480000000000001e-09,
    6.850000000000001e-09, 8.220000000000002e-09, 9.590000000000002e-09, 1.0960000000000002e-08},
   "(1,.,.) = \n"
   "1e-09 *\n"
   "  1.3700  2.7400\n"
   "   4.1100  5.4800\n"
   "\n"
   "(2,.,.) = \n"
   "1e-08 *\n"
   "  0.6850  0.8220\n"
   "   0.9590  1.0960\n"
   "[ CPUFloatType{2,2,2} ]",
   "tensor([[[1.3700e-09, 2.7400e-09],\n"
   "         [4.1100e-09, 5.4800e-09]],\n"
   "\n"
   "        [[6.8500e-09, 8.2200e-09],\n"
   "         [9.5900e-09, 1.0960e-08]]])"},
  {RUSH_FLOAT64,
   1,
   {2},
   {12345.678, 0.001},
   " 1.2346e+04\n"
   " 1.0000e-03\n"
   "[ CPUDoubleType{2} ]",
   "tensor([1.2346e+04, 1.0000e-03], dtype=torch.float64)"},
  {RUSH_INT64,
   1,
   {2},
   {1099511627776, -5},
   " 1.0995e+12\n"
   "-5.0000e+00\n"
   "[ CPULongType{2} ]",
   "tensor([1099511627776,            -5])"},
  {RUSH_FLOAT32,
   2,
   {2, 25},
   {0.0,  0.5,  1.0,  1.5,  2.0,  2.5,  3.0,  3.5,  4.0,  4.5,  5.0,  5.5,  6.0,
    6.5,  7.0,  7.5,  8.0,  8.5,  9.0,  9.5,  10.0, 10.5, 11.0, 11.5, 12.0, 12.5,
    13.0, 13.5, 14.0, 14.5, 15.0, 15.5, 16.0, 16.5, 17.0, 17.5, 18.0, 18.5, 19.0,
    19.5, 20.0, 20.5, 21.0, 21.5, 22.0, 22.5, 23.0, 23.5, 24.0, 24.5},
   "Columns 1 to 8  0.0000   0.5000   1.0000   1.5000   2.0000   2.5000   3.0000   3"
   ".5000\n"
   " 12.5000  13.0000  13.5000  14.0000  14.5000  15.0000  15.5000  16.0000\n"
   "\n"
   "Columns 9 to 16  4.0000   4.5000   5.0000   5.5000   6.0000   6.5000   7.0000   "
   "7.5000\n"
   " 16.5000  17.0000  17.5000  18.0000  18.5000  19.0000  19.5000  20.0000\n"
   "\n"
   "Columns 17 to 24  8.0000   8.5000   9.0000   9.5000  10.0000  10.5000  11.0000  "
   "11.5000\n"
   " 20.5000  21.0000  21.5000  22.0000  22.5000  23.0000  23.5000  24.0000\n"
   "\n"
   "Columns 25 to 25 12.0000\n"
   " 24.5000\n"
   "[ CPUFloatType{2,25} ]",
   "tensor([[ 0.0000,  0.5000,  1.0000,  1.5000,  2.0000,  2.5000,  3.0000,  3.5000,"
   "\n"
   "          4.0000,  4.5000,  5.0000,  5.5000,  6.0000,  6.5000,  7.0000,  7.5000,"
   "\n"
   "          8.0000,  8.5000,  9.0000,  9.5000, 10.0000, 10.5000, 11.0000, 11.5000,"
   "\n"
   "         12.0000],\n"
   "        [12.5000, 13.0000, 13.5000, 14.0000, 14.5000, 15.0000, 15.5000, 16.0000,"
   "\n"
   "         16.5000, 17.0000, 17.5000, 18.0000, 18.5000, 19.0000, 19.5000, 20.0000,"
   "\n"
   "         20.5000, 21.0000, 21.5000, 22.0000, 22.5000, 23.0000, 23.5000, 24.0000,"
   "\n"
   "         24.5000]])"},
  {RUSH_FLOAT32,
   1,
   {2},
   {100000, 200000},
   " 100000\n"
   " 200000\n"
   "[ CPUFloatType{2} ]",
   "tensor([100000., 200000.])"},
  {RUSH_FLOAT32,
   2,
   {2, 2},
   {1, 200000, 3, 4},
   "      1  200000\n"
   "      3       4\n"
   "[ CPUFloatType{2,2} ]",
   "tensor([[1.0000e+00, 2.0000e+05],\n"
   "        [3.0000e+00, 4.0000e+00]])"},
  {RUSH_UINT8,
   1,
   {3},
   {1, 2, 255},
   "   1\n"
   "   2\n"
   " 255\n"
   "[ CPUByteType{3} ]",
   "tensor([  1,   2, 255], dtype=torch.uint8)"},
  {RUSH_FLOAT32,
   1,
   {3},
   {0, 0, 0},
   " 0\n"
   " 0\n"
   " 0\n"
   "[ CPUFloatType{3} ]",
   "tensor([0., 0., 0.])"},
  {RUSH_BFLOAT16,
   4,
   {1, 1, 1, 2},
   {-1, 2},
   "(1,1,.,.) = \n"
   "-1  2\n"
   "[ CPUBFloat16Type{1,1,1,2} ]",
   "tensor([[[[-1.,  2.]]]], dtype=torch.bfloat16)"},
};

static void check(call_ctx *cx, const rush_tensor *t, const char *script, const char *python)
{
  text_buf out;
  text_init(&out, cx->ctx);
  if (script) {
    assert_int_equal(tensor_print_aten(cx, &out, t), RUSH_OK);
    assert_string_equal(text_str(&out), script);
  }
  text_clear(&out);
  assert_int_equal(tensor_print_python(cx, &out, t), RUSH_OK);
  assert_string_equal(text_str(&out), python);
  text_free(&out);
}

static void tensors_print_as_in_pytorch(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  for (size_t k = 0; k < COUNT_OF(cases); k++) {
    rush_tensor *t = NULL;
    assert_int_equal(tensor_new(&cx, cases[k].dtype, cases[k].n_dims, cases[k].sizes, &t), RUSH_OK);
    for (int64_t i = 0; i < t->n_elems; i++)
      tensor_set(t, i, value_float(cases[k].elems[i]));
    check(&cx, t, cases[k].script, cases[k].python);
    tensor_release(t);
  }
  test_context_done(c);
}

static void long_tensors_are_summarised(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  rush_tensor *t = NULL;
  int64_t sizes[] = {4, 500};
  assert_int_equal(tensor_new(&cx, RUSH_FLOAT32, 2, sizes, &t), RUSH_OK);
  for (int64_t i = 0; i < 2000; i++)
    tensor_set(t, i, value_int(i));
  t->h.flags |= TENSOR_REQUIRES_GRAD;
  check(&cx, t, NULL,
         "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 4.9700e+02, 4.9800e+02,\n"
        "         4.9900e+02],\n"
        "        [5.0000e+02, 5.0100e+02, 5.0200e+02,  ..., 9.9700e+02, 9.9800e+02,\n"
        "         9.9900e+02],\n"
        "        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.4970e+03, 1.4980e+03,\n"
        "         1.4990e+03],\n"
        "        [1.5000e+03, 1.5010e+03, 1.5020e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
        "         1.9990e+03]], requires_grad=True)");
  tensor_release(t);
  int64_t n = 1100;
  assert_int_equal(tensor_new(&cx, RUSH_INT64, 1, &n, &t), RUSH_OK);
  for (int64_t i = 0; i < n; i++)
    tensor_set(t, i, value_int(i));
  check(&cx, t, NULL, "tensor([   0,    1,    2,  ..., 1097, 1098, 1099])");
  tensor_release(t);
  test_context_done(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(tensors_print_as_in_pytorch),
    cmocka_unit_test(long_tensors_are_summarised),
  };
  return RUN_TESTS(tests);
}
