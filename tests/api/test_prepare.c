/* Test preparing methods: the first real call then compiles nothing, and preparing has no other
 * effect. */
#include "support/budget.h"
#include "support/test.h"

#include "rushlight/rushlight.h"

static const char text[] =
  "import torch\n"
  "def inner(x: Tensor):\n  return torch.selu(x) * 2 + 1\n"
  "def affine(x: Tensor, w: Tensor, n: int = 1):\n"
  "  for i in range(n):\n    x = inner(x * w + w)\n  return x\n"
  "def adds(x: Tensor, l: List[Tensor]):\n  l.append(x.add_(1))\n  print('called')\n  return l\n"
  "def draws():\n  torch.manual_seed(3)\n  return torch.rand([4]).sum() + torch.randn([2]).sum()\n"
  "def raises(x: Tensor):\n  if x.sum() < 5:\n    raise ValueError('small')\n  return x\n"
  "def learns(x: Tensor):\n  y = (x * x).sum()\n  y.backward()\n  return x.grad\n";

typedef struct fixture {
  rush_context *c;
  rush_module *m;
  int n_printed;
} fixture;

static void count_text(void *user, const char *what, size_t n)
{
  (void)what;
  ((fixture *)user)->n_printed += n > 0;
}

static int begin(void **state)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  fixture *f = calloc(1, sizeof *f);

  *state = f;
  o.print = count_text;
  o.callback_user = f;
  return rush_context_create(&o, &f->c, NULL) != RUSH_OK ||
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

static rush_value filled(fixture *f, int64_t n, float with)
{
  rush_value t;

  assert_int_equal(rush_tensor_create(f->c, RUSH_FLOAT32, 1, &n, &t, NULL), RUSH_OK);
  for (int64_t i = 0; i < n; i++)
    ((float *)rush_tensor_data_mut(t.as.tensor))[i] = with;
  return t;
}

static rush_compile_counters counters(const fixture *f)
{
  rush_compile_counters n = {.struct_bytes = sizeof n};

  rush_compile_stats(f->c, &n);
  return n;
}

static void prepare(fixture *f, rush_module *m, const char *method, const rush_value *args,
                    size_t n)
{
  rush_error err = RUSH_ERROR_INIT;

  if (rush_module_prepare(m, method, args, n, NULL, 0, NULL, &err) != RUSH_OK)
    fail_msg("%s", err.message);
  assert_int_equal(f->n_printed, 0);
}

/* Call and check that nothing is compiled. Return the result, new. */
static rush_value call_prepared(fixture *f, rush_module *m, const char *method,
                                const rush_value *args, size_t n)
{
  const rush_compile_counters before = counters(f);
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;

  if (rush_module_call(m, method, args, n, &y, &err) != RUSH_OK)
    fail_msg("%s", err.message);
  const rush_compile_counters after = counters(f);
  assert_int_equal(after.functions, before.functions);
  assert_int_equal(after.groups, before.groups);
  assert_int_equal(after.plans, before.plans);
  return y;
}

static void a_prepared_call_compiles_nothing(void **state)
{
  fixture *f = *state;
  rush_value args[] = {filled(f, 32, 1), filled(f, 32, 2), rush_value_int(2)};
  rush_named_value n = {"n", args[2]};

  assert_int_equal(counters(f).functions, 0);
  assert_int_equal(rush_module_prepare(f->m, "affine", args, 2, &n, 1, NULL, NULL), RUSH_OK);
  assert_true(counters(f).functions > 0);
  rush_value_release(call_prepared(f, f->m, "affine", args, 3));
  rush_value_release(args[0]);
  rush_value_release(args[1]);
}

static void without_arguments_what_the_code_names_is_compiled(void **state)
{
  fixture *f = *state;
  rush_value args[] = {filled(f, 32, 1), filled(f, 32, 2), rush_value_int(2)};

  prepare(f, f->m, "affine", NULL, 0);
  rush_value_release(call_prepared(f, f->m, "affine", args, 3));
  rush_value_release(args[0]);
  rush_value_release(args[1]);
}

static void arguments_and_output_stay_as_they_are(void **state)
{
  fixture *f = *state;
  rush_value args[] = {filled(f, 4, 1), rush_value_none()};
  const uint32_t version = rush_tensor_version(args[0].as.tensor);

  assert_int_equal(rush_list_create(f->c, args, 1, &args[1], NULL), RUSH_OK);
  prepare(f, f->m, "adds", args, 2);
  assert_int_equal(rush_value_len(args[1]), 1);
  assert_true(*(const float *)rush_tensor_data(args[0].as.tensor) == 1);
  assert_int_equal(rush_tensor_version(args[0].as.tensor), version);
  rush_value_release(call_prepared(f, f->m, "adds", args, 2));
  assert_int_equal(f->n_printed, 1);
  rush_value_release(args[1]);
  rush_value_release(args[0]);
}

static void random_numbers_stay_as_they_are(void **state)
{
  char had[RUSH_GENERATOR_STATE_BYTES], has[RUSH_GENERATOR_STATE_BYTES];
  fixture *f = *state;

  assert_int_equal(rush_generator_get_state(f->c, had, NULL), RUSH_OK);
  prepare(f, f->m, "draws", NULL, 0);
  assert_int_equal(rush_generator_get_state(f->c, has, NULL), RUSH_OK);
  assert_memory_equal(had, has, sizeof had);
  rush_value_release(call_prepared(f, f->m, "draws", NULL, 0));
}

static void gradients_stay_as_they_are(void **state)
{
  fixture *f = *state;
  rush_value x = filled(f, 4, 3), grad;

  rush_tensor_set_requires_grad(x.as.tensor, true);
  prepare(f, f->m, "learns", &x, 1);
  grad = rush_tensor_grad(x.as.tensor);
  assert_int_equal(grad.tag, RUSH_TAG_NONE);
  rush_value_release(call_prepared(f, f->m, "learns", &x, 1));
  rush_value_release(x);
}

static void tensors_without_data_stand_for_zeros(void **state)
{
  fixture *f = *state;
  const int64_t n = 32, one = 1;
  rush_value args[] = {filled(f, 32, 1), rush_value_none()}, real = filled(f, 32, 2);
  rush_error err = RUSH_ERROR_INIT;

  assert_int_equal(rush_tensor_new_meta(f->c, RUSH_FLOAT32, 1, &n, &one, &args[1], NULL), RUSH_OK);
  prepare(f, f->m, "affine", args, 2);
  assert_int_equal(rush_module_prepare(f->m, "raises", &args[1], 1, NULL, 0, NULL, &err),
                   RUSH_ERAISED);
  rush_error_clear(&err);
  rush_value_release(args[1]);
  args[1] = real;
  rush_value_release(call_prepared(f, f->m, "affine", args, 2));
  rush_value_release(args[0]);
  rush_value_release(real);
}

static void refusals_are_the_calls(void **state)
{
  fixture *f = *state;
  rush_value x = filled(f, 4, 1), buffer = filled(f, 4, 1);
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;

  assert_int_equal(rush_module_prepare(f->m, "nothing", NULL, 0, NULL, 0, NULL, NULL),
                   RUSH_EARGUMENT);
  assert_int_equal(rush_module_prepare(f->m, "raises", &x, 1, NULL, 0, NULL, NULL), RUSH_ERAISED);
  assert_int_equal(rush_module_prepare(f->m, "draws", &x, 1, NULL, 0, NULL, NULL), RUSH_EARGUMENT);
  o.outputs = &buffer;
  o.n_outputs = 1;
  assert_int_equal(rush_module_prepare(f->m, "affine", &x, 1, NULL, 0, &o, &err), RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "output buffers"));
  rush_error_clear(&err);
  rush_value_release(buffer);
  rush_value_release(x);
}

static rush_module *load(const fixture *f, const char *name)
{
  char path[4096];
  rush_module *m;

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  assert_int_equal(rush_module_load(f->c, path, NULL, &m, NULL), RUSH_OK);
  return m;
}

static void an_exported_program_is_prepared_with_its_samples(void **state)
{
  fixture *f = *state;
  rush_module *m = load(f, "digits.pt2");
  rush_value samples, v;

  assert_int_equal(rush_module_samples(f->m, &samples, NULL), RUSH_OK);
  assert_int_equal(samples.tag, RUSH_TAG_NONE); /* no exported program */
  assert_int_equal(rush_module_samples(m, &samples, NULL), RUSH_OK);
  assert_int_equal(rush_value_len(samples), 2);
  v = rush_value_item(rush_value_item(samples, 0), 0);
  assert_int_equal(rush_tensor_n_dims(v.as.tensor), 4);
  prepare(f, m, NULL, NULL, 0);
  rush_value_release(call_prepared(f, m, "forward", &v, 1));
  rush_value_release(samples);
  rush_module_release(m);
}

static void the_modules_state_stays_as_it_is(void **state)
{
  fixture *f = *state;
  rush_module *m = load(f, "life.pt");
  rush_value two = rush_value_int(2), first, second;
  rush_module *fresh = load(f, "life.pt");
  char *a, *b;
  prepare(f, m, "forward", &two, 1);
  first = call_prepared(f, m, "forward", &two, 1);
  assert_int_equal(rush_module_call(fresh, "forward", &two, 1, &second, NULL), RUSH_OK);
  assert_int_equal(rush_value_to_text(f->c, first, true, &a, NULL), RUSH_OK);
  assert_int_equal(rush_value_to_text(f->c, second, true, &b, NULL), RUSH_OK);
  assert_string_equal(a, b);
  rush_free_text(f->c, a);
  rush_free_text(f->c, b);
  rush_value_release(first);
  rush_value_release(second);
  rush_module_release(fresh);
  rush_module_release(m);
}

static void failing_allocations_leave_nothing(void **state)
{
  rush_status st = RUSH_ENOMEM;
  (void)state;
  for (long n = 200; st != RUSH_OK; n += 7) {
    budget b = {.left = 1000000};
    rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
    rush_context *c;
    rush_module *m;

    o.alloc = budget_alloc;
    o.free = budget_free;
    o.alloc_user = &b;
    assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
    assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &m, NULL), RUSH_OK);
    b.left = n - 200;
    st = rush_module_prepare(m, "affine", NULL, 0, NULL, 0, NULL, NULL);
    b.left = 1000000;
    rush_module_release(m);
    rush_context_release(c);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
    assert_int_equal(b.live, 0);
  }
}

int main(void)
{
#define CLAIM(f) cmocka_unit_test_setup_teardown(f, begin, end)
  const struct CMUnitTest tests[] = {
      CLAIM(a_prepared_call_compiles_nothing),
      CLAIM(without_arguments_what_the_code_names_is_compiled),
      CLAIM(arguments_and_output_stay_as_they_are),
      CLAIM(random_numbers_stay_as_they_are),
      CLAIM(gradients_stay_as_they_are),
      CLAIM(tensors_without_data_stand_for_zeros),
      CLAIM(refusals_are_the_calls),
      CLAIM(an_exported_program_is_prepared_with_its_samples),
      CLAIM(the_modules_state_stays_as_it_is),
      cmocka_unit_test(failing_allocations_leave_nothing),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
