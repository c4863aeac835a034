/* Test gradients of recorded calls: values, second derivatives, writes, deep chains, what is freed,
 * failing allocations. */
#include "support/oom.h"

#include "rushlight/rushlight.h"

static const char text[] =
  "import torch\n"
  "from typing import List\n"
  "def cube(x: Tensor):\n  return x * x * x\n"
  "def chain(x: Tensor, n: int):\n  for i in range(n):\n    x = x + 1\n  return x\n"
  "def fill(x: Tensor):\n"
  "  out = torch.zeros([2, 3], dtype=torch.double)\n"
  "  flat = out.view([6])\n"
  "  for i in range(2):\n    out[i] = x * (i + 1)\n"
  "  flat.mul_(flat.clone())\n"
  "  return out\n"
  "def quiet(x: Tensor):\n  with torch.no_grad():\n    y = x * x\n  return x * y + x.detach() * 3\n"
  "def modified(x: Tensor):\n  y = x * 1\n  z = y * y\n  y.add_(1)\n  return z\n"
  "def written(x: Tensor):\n  return x.add_(1)\n"
  "def parts(x: Tensor):\n  a, b, c = x.unbind(0)\n  return torch.cat([a.view([1]), c.view([1]) * "
  "a])\n";

static rush_context *context_new_(void)
{
  rush_context *c;
  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  return c;
}

static rush_module *program(rush_context *c)
{
  rush_module *m;
  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &m, NULL), RUSH_OK);
  return m;
}

/* 1, 2, 3 */
static rush_value leaf(rush_context *c)
{
  int64_t size = 3;
  rush_value x;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT64, 1, &size, &x, NULL), RUSH_OK);
  double *p = rush_tensor_data_mut(x.as.tensor);
  for (int i = 0; i < 3; i++)
    p[i] = i + 1;
  rush_tensor_set_requires_grad(x.as.tensor, true);
  return x;
}

static rush_status call(rush_module *m, const char *name, rush_value x, int64_t n, rush_value *y,
                        rush_error *err)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_value args[2] = {x, rush_value_int(n)};
  o.record_gradients = true;
  return rush_module_call_named(m, name, args, n ? 2 : 1, NULL, 0, &o, y, err);
}

/* Gradient of x for ones. */
static rush_status gradient(rush_context *c, rush_value y, rush_value x,
                            const rush_gradient_options *o, rush_value *dx, rush_error *err)
{
  rush_value ones;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT64, rush_tensor_n_dims(y.as.tensor),
                                      rush_tensor_sizes(y.as.tensor), &ones, NULL),
                   RUSH_OK);
  double *p = rush_tensor_data_mut(ones.as.tensor);
  for (int64_t i = 0; i < rush_tensor_n_elems(ones.as.tensor); i++)
    p[i] = 1;
  rush_status st = rush_gradients(c, &y, &ones, 1, &x, 1, o, dx, err);
  rush_value_release(ones);
  return st;
}

static void expect(rush_value t, double a, double b, double d)
{
  assert_int_equal(t.tag, RUSH_TAG_TENSOR);
  const double *p = rush_tensor_data(t.as.tensor);
  const double want[3] = {a, b, d};
  for (int i = 0; i < 3; i++)
    assert_true(p[i] == want[i]);
}

static void gradients_and_theirs(void **state)
{
  rush_context *c = context_new_();
  rush_module *m = program(c);
  rush_value x = leaf(c), y, dx, ddx, dddx;
  rush_gradient_options o = RUSH_GRADIENT_OPTIONS_INIT;
  (void)state;
  o.create_graph = true;
  assert_int_equal(call(m, "cube", x, 0, &y, NULL), RUSH_OK);
  assert_true(rush_tensor_requires_grad(y.as.tensor) && rush_tensor_is_recorded(y.as.tensor));
  assert_int_equal(gradient(c, y, x, &o, &dx, NULL), RUSH_OK);
  expect(dx, 3, 12, 27);
  assert_int_equal(gradient(c, dx, x, &o, &ddx, NULL), RUSH_OK);
  expect(ddx, 6, 12, 18);
  assert_int_equal(gradient(c, ddx, x, NULL, &dddx, NULL), RUSH_OK);
  expect(dddx, 6, 6, 6);
  rush_value all[] = {x, y, dx, ddx, dddx};
  for (int i = 0; i < 5; i++)
    rush_value_release(all[i]);
  rush_module_release(m);
  rush_context_release(c);
}

static void one_gradient(const char *name, double a, double b, double d)
{
  rush_context *c = context_new_();
  rush_module *m = program(c);
  rush_value x = leaf(c), y, dx;
  assert_int_equal(call(m, name, x, 0, &y, NULL), RUSH_OK);
  assert_int_equal(gradient(c, y, x, NULL, &dx, NULL), RUSH_OK);
  expect(dx, a, b, d);
  rush_value_release(dx);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

static void writes_reach_the_base_and_its_views(void **state)
{
  (void)state;
  one_gradient("fill", 10, 20, 30); /* x^2 + (2x)^2 */
}
static void no_grad_and_detach_stop(void **state)
{
  (void)state;
  one_gradient("quiet", 1, 4, 9);
}
static void lists_of_tensors(void **state)
{
  (void)state;
  one_gradient("parts", 1 + 3, 0, 1);
}

static void fails(const char *name, bool at_call, const char *words)
{
  rush_context *c = context_new_();
  rush_module *m = program(c);
  rush_value x = leaf(c), y, dx;
  rush_error err = RUSH_ERROR_INIT;
  rush_status st = call(m, name, x, 0, &y, &err);
  assert_int_equal(st, at_call ? RUSH_ERAISED : RUSH_OK);
  if (st == RUSH_OK) {
    assert_int_equal(gradient(c, y, x, NULL, &dx, &err), RUSH_ERAISED);
    rush_value_release(y);
  }
  assert_non_null(strstr(err.message, words));
  rush_error_clear(&err);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

static void what_is_refused(void **state)
{
  (void)state;
  fails("modified", false, "modified by an inplace operation");
  fails("written", true,
        "a leaf Variable that requires grad is being used in an in-place operation");
}

static void records_are_used_up(void **state)
{
  rush_context *c = context_new_();
  rush_module *m = program(c);
  rush_value x = leaf(c), y, dx;
  rush_error err = RUSH_ERROR_INIT;
  (void)state;
  assert_int_equal(call(m, "cube", x, 0, &y, NULL), RUSH_OK);
  assert_int_equal(gradient(c, y, x, NULL, &dx, NULL), RUSH_OK);
  rush_value_release(dx);
  assert_int_equal(gradient(c, y, x, NULL, &dx, &err), RUSH_ERAISED);
  assert_non_null(strstr(err.message, "Trying to backward through the graph a second time"));
  rush_error_clear(&err);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

/* A very deep chain: neither the walk nor the release recurses, and everything is released. */
static void a_deep_chain(void **state)
{
  rush_context *c = context_new_();
  rush_module *m = program(c);
  rush_value x = leaf(c), y, grad;
  size_t live[2], peak;
  (void)state;
  for (int round = 0; round < 2; round++) {
    assert_int_equal(call(m, "chain", x, 300000, &y, NULL), RUSH_OK);
    rush_value ones = leaf(c);
    assert_int_equal(rush_backward(c, &y, &ones, 1, NULL, NULL), RUSH_OK);
    grad = rush_tensor_grad(x.as.tensor);
    expect(grad, round + 1, 2 * (round + 1), 3 * (round + 1));
    rush_value_release(grad);
    rush_value_release(ones);
    rush_value_release(y);
    rush_memory_stats(c, &live[round], &peak);
  }
  assert_true(live[1] < live[0] + 1000);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

/* A recorded call, its leaves, gradients with a graph, and gradients of these. */
static rush_status record_and_ask(rush_module *m, const char *name, rush_context *c,
                                  rush_error *err)
{
  rush_gradient_options o = RUSH_GRADIENT_OPTIONS_INIT;
  rush_call_options co = RUSH_CALL_OPTIONS_INIT;
  rush_value x, y, dx, leaves;
  int64_t size = 3;
  o.create_graph = co.record_gradients = true;
  TRY(rush_tensor_create(c, RUSH_FLOAT64, 1, &size, &x, err));
  double *p = rush_tensor_data_mut(x.as.tensor);
  for (int i = 0; i < 3; i++)
    p[i] = i + 1;
  rush_tensor_set_requires_grad(x.as.tensor, true);
  rush_status st = rush_module_call_named(m, name, &x, 1, NULL, 0, &co, &y, err);
  if (st == RUSH_OK) {
    st = rush_gradient_leaves(c, &y, 1, &leaves, err);
    if (st == RUSH_OK) {
      rush_value_release(leaves);
      st = rush_gradients(c, &y, NULL, 1, &x, 1, &o, &dx, err);
    }
    if (st == RUSH_OK) {
      st = rush_backward(c, &dx, &x, 1, NULL, err);
      rush_value_release(dx);
    }
    rush_value_release(y);
  }
  rush_value_release(x);
  return st;
}

static const char summed[] =
  "import torch\n"
  "def many(x: Tensor):\n"
  "  out = torch.zeros([2, 3], dtype=torch.double)\n"
  "  out[0] = x * x\n"
  "  out.t()[1].mul_(x[0])\n"
  "  a, b, c = out.unbind(1)\n"
  "  return torch.cat([a, b * torch.stack([c, x[:2]])[1]]).exp().sum()\n";

/* A program that requests gradients itself. */
static const char asking[] =
  "import torch\n"
  "def many(x: Tensor):\n"
  "  y = x * x\n"
  "  y.retain_grad()\n"
  "  y.sum().backward(retain_graph=True)\n"
  "  (y * x).sum().backward(retain_graph=True)\n"
  "  g = torch.autograd.grad([(x * x * x).sum()], [x], create_graph=True)[0]\n"
  "  assert g is not None\n"
  "  return (g * x.grad * y.grad).sum()\n";

static void survive(const char *program_text)
{
  OOM_LOOP(cx) {
    rush_module *m;
    oom_.on = false;
    assert_int_equal(
      rush_module_compile(cx.ctx, program_text, strlen(program_text), NULL, &m, NULL), RUSH_OK);
    oom_.on = true;
    rush_status st = record_and_ask(m, "many", cx.ctx, cx.err);
    if (st != RUSH_OK && (st != RUSH_ENOMEM || !oom_.fired))
      fail_msg("allocation %ld: %s: %s", oom_.at, rush_status_name(st), cx.err->message);
    rush_module_release(m);
  }
}

static void failing_allocations_are_survived(void **state)
{
  (void)state;
  survive(summed);
  survive(asking);
}

/* Stored gradients: a leaf's, to which later ones are added in place, and a result's. */
static void a_program_asks_itself(void **state)
{
  (void)state;
  static const char code[] =
    "import torch\n"
    "def kept(x: Tensor):\n  y = x * x\n  y.retain_grad()\n  (y * 2).sum().backward()\n  g = "
    "x.grad\n"
    "  y.t().sin_()\n  (x * 1.0).sum().backward()\n  return [g, y.grad, x.grad]\n"
    "def none(x: Tensor):\n  return x.grad\n";
  rush_context *c = context_new_();
  rush_module *m;
  rush_value x = leaf(c), y;
  rush_error err = RUSH_ERROR_INIT;
  assert_int_equal(rush_module_compile(c, code, strlen(code), NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, "none", &x, 1, &y, &err), RUSH_OK);
  assert_int_equal(y.tag, RUSH_TAG_TENSOR); /* an undefined one */
  assert_null(y.as.tensor);
  assert_int_equal(call(m, "kept", x, 0, &y, NULL), RUSH_OK);
  expect(rush_value_item(y, 0), 5, 9, 13);
  expect(rush_value_item(y, 1), 2, 2, 2);
  expect(rush_value_item(y, 2), 5, 9, 13);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_and_theirs),
                                     cmocka_unit_test(writes_reach_the_base_and_its_views),
                                     cmocka_unit_test(no_grad_and_detach_stop),
                                     cmocka_unit_test(lists_of_tensors),
                                     cmocka_unit_test(what_is_refused),
                                     cmocka_unit_test(records_are_used_up),
                                     cmocka_unit_test(a_deep_chain),
                                     cmocka_unit_test(failing_allocations_are_survived),
                                     cmocka_unit_test(a_program_asks_itself)};
  return RUN_TESTS(tests);
}
