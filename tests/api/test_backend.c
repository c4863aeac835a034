/* Test operators that are registered at run time: found, bound, checked, refused. */
#include "support/oom.h"
#include "support/test.h"

#include "rushlight/backend.h"

static const rush_backend_api *api;

/* Compute x * k as a contiguous float32 tensor. */
static rush_status scale(rush_call *call)
{
  rush_tensor *x = api->call_arg(call, 0).as.tensor;
  double k = api->call_arg(call, 1).as.d;
  rush_value dense, y;

  if (k != k)
    return api->call_fail(call, "ValueError", "scale: k is %s", "nan");
  rush_status st = api->call_contiguous(call, x, &dense);
  if (st != RUSH_OK)
    return st;
  st = api->call_create(call, RUSH_FLOAT32, api->tensor_n_dims(x), api->tensor_sizes(x), &y);
  if (st == RUSH_OK) {
    const float *from = api->tensor_data(dense.as.tensor);
    float *to = api->tensor_data_mut(y.as.tensor);
    for (int64_t i = 0; i < api->tensor_n_elems(x); i++)
      to[i] = (float)(from[i] * k);
    api->call_return_steal(call, 0, y);
  }
  api->value_release(dense);
  return st;
}

/* A kernel with the mistakes of a careless author. */
static rush_status wrong_type(rush_call *call)
{
  rush_value text;
  rush_status st = rush_string_create(api->call_context(call), "no tensor", 9, &text, NULL);

  if (st == RUSH_OK)
    api->call_return_steal(call, 0, text);
  return st;
}
static rush_status gives_nothing(rush_call *call)
{
  (void)call;
  return RUSH_OK;
}
static rush_status fails_silently(rush_call *call)
{
  (void)call;
  return RUSH_ERAISED;
}
static rush_status uses_others(rush_call *call)
{
  rush_value x = api->call_arg(call, 0), y;
  rush_status st = api->call_op(call, "aten::neg", &x, 1, &y);

  if (st == RUSH_OK)
    api->call_return_steal(call, 0, y);
  return st;
}

static rush_status add(rush_context *c, const char *schema, rush_kernel *kernel, rush_error *err)
{
  rush_op_def def = {sizeof def, schema, kernel, NULL};
  return api->op_register(c, &def, err);
}

static rush_value floats(rush_context *c, const float *data, int64_t n)
{
  rush_value x;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, &n, &x, NULL), RUSH_OK);
  memcpy(rush_tensor_data_mut(x.as.tensor), data, (size_t)n * sizeof *data);
  return x;
}

static void test_call(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "example::scale(Tensor x, float k=2.0) -> Tensor", scale, &err), RUSH_OK);
  assert_true(rush_op_exists(c, "example::scale"));
  rush_value x = floats(c, (float[]){1, -2, 3}, 3), y;
  size_t n = 0;
  assert_int_equal(rush_op_call(c, "example::scale", &x, 1, NULL, 0, &y, 1, &n, &err), RUSH_OK);
  const float *got = rush_tensor_data(y.as.tensor);
  assert_true(n == 1 && got[0] == 2 && got[1] == -4 && got[2] == 6);
  rush_value_release(y);
  rush_named_value k = {"k", rush_value_int(3)}; /* returns an int where the schema has a float */
  assert_int_equal(rush_op_call(c, "example::scale", &x, 1, &k, 1, &y, 1, &n, &err), RUSH_OK);
  assert_true(((const float *)rush_tensor_data(y.as.tensor))[2] == 9);
  rush_value_release(y);
  k.value = rush_value_float(0.0 / 0.0);
  assert_int_equal(rush_op_call(c, "example::scale", &x, 1, &k, 1, &y, 1, &n, &err), RUSH_ERAISED);
  assert_string_equal(err.type, "ValueError");
  assert_string_equal(err.message, "scale: k is nan");
  rush_error_clear(&err);
  rush_value_release(x);
  rush_context_release(c);
}

static void test_refusals(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "example::f(Tensor x) -> Tensor", scale, &err), RUSH_OK);
  assert_int_equal(add(c, "example::f(Tensor x) -> Tensor", scale, &err), RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "registered already"));
  assert_int_equal(add(c, "example::f.two(Tensor x, Tensor y) -> Tensor", scale, &err), RUSH_OK);
  assert_int_equal(add(c, "aten::add.Tensor(Tensor x) -> Tensor", scale, &err), RUSH_EARGUMENT);
  assert_int_not_equal(add(c, "example::g(Tensor x -> Tensor", scale, &err), RUSH_OK);
  rush_error_clear(&err);
  assert_null(rush_backend(RUSH_BACKEND_ABI + 1));
  rush_context_release(c);
}

static void test_careless_kernels(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(add(c, "example::wrong(Tensor x) -> Tensor", wrong_type, &err), RUSH_OK);
  assert_int_equal(add(c, "example::nothing(Tensor x) -> Tensor", gives_nothing, &err), RUSH_OK);
  assert_int_equal(add(c, "example::silent(Tensor x) -> Tensor", fails_silently, &err), RUSH_OK);
  assert_int_equal(add(c, "example::neg(Tensor x) -> Tensor", uses_others, &err), RUSH_OK);
  rush_value x = floats(c, (float[]){1}, 1), y;
  size_t n;
  assert_int_equal(rush_op_call(c, "example::wrong", &x, 1, NULL, 0, &y, 1, &n, &err),
                   RUSH_ERAISED);
  assert_string_equal(err.message, "the kernel of example::wrong must give a Tensor as result 0");
  assert_int_equal(rush_op_call(c, "example::nothing", &x, 1, NULL, 0, &y, 1, &n, &err),
                   RUSH_ERAISED);
  assert_string_equal(
    err.message,
    "the kernel of example::nothing must give a Tensor as result 0, but returned none");
  assert_int_equal(rush_op_call(c, "example::silent", &x, 1, NULL, 0, &y, 1, &n, &err),
                   RUSH_ERAISED);
  assert_string_equal(err.message,
                      "the kernel of example::silent failed without a reason (raised)");
  rush_error_clear(&err);
  assert_int_equal(rush_op_call(c, "example::neg", &x, 1, NULL, 0, &y, 1, &n, &err), RUSH_OK);
  assert_true(*(const float *)rush_tensor_data(y.as.tensor) == -1);
  rush_value_release(y);
  rush_value_release(x);
  rush_context_release(c);
}

/* Compute the shape (n * n + 1, k) for a row of n. */
static rush_status squares(rush_shape *q, void *user)
{
  const rush_size *n = api->shape_size(q, 0, 0, -1), *one = api->size_number(q, 1);

  (void)user;
  if (!api->size_holds(q, RUSH_SIZE_LT, one, n))
    return api->shape_fail(q, "ValueError", "%s", "too short");
  const rush_size *sizes[] = {
    api->size_calc(q, RUSH_SIZE_ADD, api->size_calc(q, RUSH_SIZE_MUL, n, n), one),
    api->shape_int(q, 1, 0)};
  return api->shape_result(q, 0, api->shape_dtype(q, 0, 0), 2, sizes);
}

static void shape_functions_survive_failing_allocations(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    rush_op_def def = {.struct_bytes = sizeof def,
                       .schema = "example::squares(Tensor x, int k) -> Tensor",
                       .kernel = gives_nothing,
                       .shape_fn = squares};
    rush_value args[2] = {{0}, rush_value_int(4)}, out;
    rush_status st = api->op_register(cx.ctx, &def, cx.err);
    if (st == RUSH_OK)
      st = rush_tensor_create(cx.ctx, RUSH_INT16, 1, (int64_t[]){3}, &args[0], cx.err);
    for (int symbolic = 0; symbolic < 2 && st == RUSH_OK; symbolic++) {
      st = rush_op_shape(cx.ctx, "example::squares", args, 2, NULL, 0, symbolic, &out, cx.err);
      if (st == RUSH_OK) { /* the results, the first one, its sizes, the first size */
        rush_value sizes = rush_value_item(rush_value_item(rush_value_item(out, 2), 0), 1);
        assert_int_equal(rush_value_item(sizes, 0).as.i, 10);
        assert_int_equal(rush_value_item(sizes, 1).as.i, 4);
        rush_value_release(out);
      }
    }
    rush_value_release(args[0]);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_call),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_careless_kernels),
      cmocka_unit_test(shape_functions_survive_failing_allocations),
  };
  api = rush_backend(RUSH_BACKEND_ABI);
  return RUN_TESTS(tests);
}
