/* A plain call is fast: without recording, it runs as if nothing required gradients. */
#include "support/test.h"

#include "rushlight/rushlight.h"

static const char text[] =
  "import torch\n"
  "def affine(x: Tensor, w: Tensor, b: Tensor):\n"
  "  x = x * w + b\n  x = x * w + b\n  return x\n"
  "def turn(x: Tensor):\n  return x.t()\n"
  "def parts(x: Tensor):\n  a, b = x.chunk(2)\n  return [a, b.view(-1), x]\n"
  "def write(x: Tensor):\n  return x.add_(1)\n"
  "def out(x: Tensor, y: Tensor):\n  return torch.mul(x, x, out=y)\n"
  "def asks(x: Tensor):\n  y = x * 2\n  return torch.is_grad_enabled(), x.requires_grad, "
  "y.requires_grad\n"
  "def enables(x: Tensor):\n  with torch.enable_grad():\n    return x * 2\n"
  "def learns(x: Tensor):\n  return torch.tensor([1.0, 2.0], requires_grad=True)\n";

typedef struct fixture {
  rush_context *c;
  rush_module *m;
} fixture;

static int begin(void **state)
{
  fixture *f = calloc(1, sizeof *f);

  *state = f;
  return rush_context_create(NULL, &f->c, NULL) != RUSH_OK ||
         rush_module_compile(f->c, text, strlen(text), NULL, &f->m, NULL) != RUSH_OK;
}

static int end(void **state)
{
  fixture *f = *state;

  rush_module_release(f->m);
  rush_context_release(f->c);
  free(f);
  return 0;
}

static rush_value filled(fixture *f, rush_dtype dtype, bool requires_grad)
{
  const int64_t sizes[] = {8, 32};
  rush_value t;

  assert_int_equal(rush_tensor_create(f->c, dtype, 2, sizes, &t, NULL), RUSH_OK);
  memset(rush_tensor_data_mut(t.as.tensor), 0, 8 * 32 * rush_dtype_bytes(dtype));
  rush_tensor_set_requires_grad(t.as.tensor, requires_grad);
  return t;
}

static rush_compile_counters counters(fixture *f)
{
  rush_compile_counters n = {sizeof n, 0, 0, 0, 0, 0};

  rush_compile_stats(f->c, &n);
  return n;
}

static rush_status call(fixture *f, const char *name, const rush_value *args, size_t n, bool record,
                        bool no_grad, rush_value *result, rush_error *err)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;

  o.record_gradients = record;
  o.no_grad = no_grad;
  return rush_module_call_named(f->m, name, args, n, NULL, 0, &o, result, err);
}

/* Call the affine chain with parameters; count how often groups were compiled and interpreted, and
 * return whether the result requires grad. */
static void chain(fixture *f, rush_dtype dtype, bool record, bool no_grad, uint64_t compiled,
                  uint64_t interpreted)
{
  rush_value args[] = {filled(f, dtype, false), filled(f, dtype, true), filled(f, dtype, true)}, y;
  const rush_compile_counters before = counters(f);

#ifndef RUSH_ISA_X86 /* where no code is emitted, no groups are made */
  compiled = interpreted = 0;
#endif
  assert_int_equal(call(f, "affine", args, 3, record, no_grad, &y, NULL), RUSH_OK);
  const rush_compile_counters after = counters(f);
  assert_int_equal(after.group_calls - before.group_calls, compiled);
  assert_int_equal(after.interpreted - before.interpreted, interpreted);
  assert_int_equal(rush_tensor_requires_grad(y.as.tensor), record && !no_grad);
  assert_int_equal(rush_tensor_is_recorded(y.as.tensor), record && !no_grad);
  rush_value_release(y);
  for (int i = 0; i < 3; i++)
    rush_value_release(args[i]);
}

static void groups_that_parameters_enter_are_compiled(void **state)
{
  chain(*state, RUSH_FLOAT32, false, false, 1, 0);
  chain(*state, RUSH_FLOAT32, false, true, 1, 0);
}
static void recorded_calls_have_no_groups(void **state)
{
  chain(*state, RUSH_FLOAT32, true, false, 0, 0);
  chain(*state, RUSH_FLOAT32, true, true, 1, 0);
  chain(*state, RUSH_FLOAT64, false, false, 0, 1); /* no code for float64: interpreted */
}

static void views_do_not_require_grad(void **state)
{
  fixture *f = *state;
  rush_value w = filled(f, RUSH_FLOAT32, true), y;

  assert_int_equal(call(f, "turn", &w, 1, false, false, &y, NULL), RUSH_OK);
  assert_false(rush_tensor_requires_grad(y.as.tensor));
  rush_value_release(y);
  assert_int_equal(call(f, "parts", &w, 1, false, false, &y, NULL), RUSH_OK);
  assert_false(rush_tensor_requires_grad(rush_value_item(y, 0).as.tensor));
  assert_false(rush_tensor_requires_grad(rush_value_item(y, 1).as.tensor));
  assert_true(rush_value_item(y, 2).as.tensor == w.as.tensor);
  assert_true(rush_tensor_requires_grad(w.as.tensor)); /* an argument is unchanged */
  rush_value_release(y);
  rush_value_release(w);
}

static void what_a_program_makes_a_leaf_is_one(void **state)
{
  fixture *f = *state;
  rush_value w = filled(f, RUSH_FLOAT32, true), y;

  assert_int_equal(call(f, "learns", &w, 1, false, false, &y, NULL), RUSH_OK);
  assert_true(rush_tensor_requires_grad(y.as.tensor));
  rush_value_release(y);
  rush_value_release(w);
}

static void parameters_are_written_in_place(void **state)
{
  fixture *f = *state;
  rush_value args[] = {filled(f, RUSH_FLOAT32, true), filled(f, RUSH_FLOAT32, true)}, y;
  rush_error err = RUSH_ERROR_INIT;

  assert_int_equal(call(f, "write", args, 1, true, false, &y, &err), RUSH_ERAISED);
  assert_string_equal(err.message,
                      "a leaf Variable that requires grad is being used in an in-place operation.");
  rush_error_clear(&err);
  assert_int_equal(call(f, "write", args, 1, false, false, &y, NULL), RUSH_OK);
  assert_true(y.as.tensor == args[0].as.tensor &&
              *(const float *)rush_tensor_data(y.as.tensor) == 1.0f);
  rush_value_release(y);
  assert_int_equal(call(f, "out", args, 2, true, false, &y, &err), RUSH_ERAISED);
  rush_error_clear(&err);
  assert_int_equal(call(f, "out", args, 2, false, false, &y, NULL), RUSH_OK);
  assert_true(*(const float *)rush_tensor_data(args[1].as.tensor) == 1.0f);
  rush_value_release(y);
  rush_value_release(args[0]);
  rush_value_release(args[1]);
}

static void only_the_option_records(void **state)
{
  fixture *f = *state;
  rush_value w = filled(f, RUSH_FLOAT32, true), y;

  assert_int_equal(call(f, "enables", &w, 1, false, true, &y, NULL), RUSH_OK);
  assert_false(rush_tensor_requires_grad(y.as.tensor));
  rush_value_release(y);
  assert_int_equal(call(f, "enables", &w, 1, true, true, &y, NULL), RUSH_OK);
  assert_true(rush_tensor_is_recorded(y.as.tensor));
  rush_value_release(y);
  assert_int_equal(call(f, "asks", &w, 1, false, false, &y, NULL), RUSH_OK);
  assert_true(rush_value_item(y, 0).as.b && rush_value_item(y, 1).as.b &&
              !rush_value_item(y, 2).as.b);
  rush_value_release(y);
  rush_value_release(w);
}

int main(void)
{
#define CLAIM(f) cmocka_unit_test_setup_teardown(f, begin, end)
  const struct CMUnitTest tests[] = {
    CLAIM(groups_that_parameters_enter_are_compiled),
    CLAIM(recorded_calls_have_no_groups),
    CLAIM(views_do_not_require_grad),
    CLAIM(what_a_program_makes_a_leaf_is_one),
    CLAIM(parameters_are_written_in_place),
    CLAIM(only_the_option_records),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
