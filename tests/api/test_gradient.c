/* Test gradients of operators through the public header: arguments, results, refusals, failing
 * allocations. */
#include "support/oom.h"

#include "rushlight/rushlight.h"

static rush_value ones(rush_context *c, int n_dims, const int64_t *sizes)
{
  rush_value t;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, n_dims, sizes, &t, NULL), RUSH_OK);
  float *p = rush_tensor_data_mut(t.as.tensor);
  for (int64_t i = 0; i < rush_tensor_n_elems(t.as.tensor); i++)
    p[i] = 1.0f;
  return t;
}

static void a_gradient_has_the_arguments_shape(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  const char *inputs, *takes;
  size_t n = 0;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(rush_op_n_gradients(c, "aten::mul.Tensor", &n, &err), RUSH_OK);
  assert_int_equal(n, 2);
  assert_int_equal(rush_op_gradient(c, "aten::mul_.Tensor", 1, &inputs, &takes, &err),
                   RUSH_OK); /* the base's */
  assert_string_equal(inputs, "other");
  assert_string_equal(takes, "grad self");
  rush_value grad = ones(c, 2, (int64_t[]){3, 2}), self = ones(c, 2, (int64_t[]){3, 2}),
             other = ones(c, 1, (int64_t[]){2});
  rush_value out;
  assert_int_equal(rush_op_gradient_run(c, "aten::mul.Tensor", 1, (rush_value[]){grad, self}, 2,
                                        &other, 1, &out, &err),
                   RUSH_OK);
  assert_int_equal(rush_tensor_n_dims(out.as.tensor), 1);
  assert_true(((const float *)rush_tensor_data(out.as.tensor))[1] ==
              3.0f); /* summed over the rows */
  rush_value_release(out);
  rush_value_release(grad);
  rush_value_release(self);
  rush_value_release(other);
  rush_context_release(c);
}

static void what_is_not_there_is_refused(void **state)
{
  (void)state;
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  const char *inputs, *takes;
  size_t n = 7;
  rush_value none[2] = {{0}, {0}}, out;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(rush_op_n_gradients(c, "aten::eq.Tensor", &n, &err), RUSH_OK);
  assert_int_equal(n, 0);
  assert_int_equal(rush_op_n_gradients(c, "aten::nothing", &n, &err), RUSH_EARGUMENT);
  assert_string_equal(err.message, "there is no operator aten::nothing");
  assert_int_equal(rush_op_gradient(c, "aten::exp", 1, &inputs, &takes, &err), RUSH_EARGUMENT);
  assert_string_equal(err.message, "aten::exp has 1 gradients, not 2");
  assert_int_equal(rush_op_gradient_run(c, "aten::exp", 0, none, 1, none, 1, &out, &err),
                   RUSH_EARGUMENT);
  assert_int_equal(rush_op_gradient_run(c, "aten::exp", 0, none, 2, none, 1, &out, &err),
                   RUSH_ERAISED);
  assert_string_equal(err.message, "value 0 of a gradient of aten::exp is of another type");
  rush_error_clear(&err);
  rush_context_release(c);
}

static void failing_allocations_are_survived(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    rush_value x, grad, out = {0};
    rush_status st = rush_tensor_create(cx.ctx, RUSH_FLOAT32, 1, (int64_t[]){4}, &x, cx.err);
    if (st == RUSH_OK) {
      st = rush_tensor_create(cx.ctx, RUSH_FLOAT32, 2, (int64_t[]){2, 4}, &grad, cx.err);
      if (st == RUSH_OK) { /* its formula uses a helper */
        rush_value values[] = {grad, x, rush_value_float(2)};
        st = rush_op_gradient_run(cx.ctx, "aten::addcmul", 1, values, 3, &x, 1, &out, cx.err);
        if (st == RUSH_OK)
          rush_value_release(out);
        rush_value_release(grad);
      }
      rush_value_release(x);
    }
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
  }
}

static void one_three(rush_value t, double a, double b)
{
  assert_int_equal(t.tag, RUSH_TAG_TENSOR);
  assert_false(rush_tensor_requires_grad(t.as.tensor)); /* the caller did not ask to record */
  assert_true(((const double *)rush_tensor_data(t.as.tensor))[0] == a);
  assert_true(((const double *)rush_tensor_data(t.as.tensor))[1] == b);
}

/* A program requests gradients itself; rush_module_call records nothing for other programs. */
static void plain_calls_of_programs_that_ask(void **state)
{
  (void)state;
  static const char code[] =
    "import torch\nfrom typing import List, Optional, Tuple\n"
    "def slope(x: Tensor) -> Tensor:\n"
    "  y = torch.autograd.grad([(x * x * x).sum()], [x], create_graph=True)[0]\n  assert y is not "
    "None\n  return y\n"
    "def grad(x: Tensor) -> Tensor:\n  x = x.detach().requires_grad_()\n  return slope(x)\n"
    "def second(x: Tensor) -> Tuple[Tensor, List[Tensor]]:\n  x = x.detach().requires_grad_()\n  y "
    "= slope(x)\n"
    "  z = torch.autograd.grad([y.sum()], [x])[0]\n  assert z is not None\n  return z, [y, x * 2]\n"
    "def kept(x: Tensor) -> Tensor:\n  x = x.detach().requires_grad_()\n  (x * "
    "x).sum().backward()\n  g = x.grad\n"
    "  assert g is not None\n  return g\n"
    "def off(x: Tensor) -> Tensor:\n  with torch.no_grad():\n    y = (x * x).sum()\n  return "
    "slope(x) if x.sum() < 0 else y\n"
    "def plain(x: Tensor) -> Tensor:\n  return x * 2\n";
  rush_context *c;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value x, y;
  const int64_t size = 2;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(rush_module_compile(c, code, strlen(code), NULL, &m, &err), RUSH_OK);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT64, 1, &size, &x, NULL), RUSH_OK);
  ((double *)rush_tensor_data_mut(x.as.tensor))[0] = 1;
  ((double *)rush_tensor_data_mut(x.as.tensor))[1] = 3;
  for (int again = 0; again < 2; again++) {
    assert_int_equal(rush_module_call(m, "grad", &x, 1, &y, &err), RUSH_OK);
    one_three(y, 3, 27);
    rush_value_release(y);
    assert_int_equal(rush_module_call(m, "second", &x, 1, &y, &err), RUSH_OK);
    one_three(rush_value_item(y, 0), 6, 18);
    one_three(rush_value_item(rush_value_item(y, 1), 0), 3, 27);
    one_three(rush_value_item(rush_value_item(y, 1), 1), 2, 6);
    rush_value_release(y);
    assert_int_equal(rush_module_call(m, "kept", &x, 1, &y, &err), RUSH_OK);
    one_three(y, 2, 6);
    rush_value_release(y);
    assert_int_equal(rush_module_call(m, "off", &x, 1, &y, &err), RUSH_OK);
    assert_true(((const double *)rush_tensor_data(y.as.tensor))[0] == 10);
    rush_value_release(y);
    assert_int_equal(rush_module_call(m, "plain", &x, 1, &y, &err), RUSH_OK);
    one_three(y, 2, 6);
    rush_value_release(y);
  }
  rush_call_options none =
    RUSH_CALL_OPTIONS_INIT; /* torch.no_grad() around the call: nothing requires grad */
  none.no_grad = true;
  assert_int_equal(rush_module_call_named(m, "grad", &x, 1, NULL, 0, &none, &y, &err),
                   RUSH_ERAISED);
  assert_non_null(strstr(err.message, "does not require grad and does not have a grad_fn"));
  rush_error_clear(&err);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_gradient_has_the_arguments_shape),
      cmocka_unit_test(what_is_not_there_is_refused),
      cmocka_unit_test(failing_allocations_are_survived),
      cmocka_unit_test(plain_calls_of_programs_that_ask),
  };
  return RUN_TESTS(tests);
}
