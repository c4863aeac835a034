/* Test results in the caller's tensors: without a copy if the last operator supports it, refused if
 * they do not fit, correct if they share memory with something else. */
#include "support/budget.h"
#include "support/test.h"

#include "rushlight/rushlight.h"

#include <limits.h>

static rush_module *compile(rush_context *c, const char *text)
{
  rush_module *m;

  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &m, NULL), RUSH_OK);
  return m;
}

static rush_value wrap(rush_context *c, float *data, int64_t rows, int64_t columns)
{
  const int64_t sizes[] = {rows, columns};
  rush_value v;

  assert_int_equal(rush_tensor_wrap(c, RUSH_FLOAT32, 2, sizes, NULL, data, NULL, NULL, &v, NULL),
                   RUSH_OK);
  return v;
}

static float in[6] = {1, 2, 3, 4, 5, 6};

/* Call with buffers for the first outputs; *copied tells for which of them a copy was made. Return
 * the result, new. */
static rush_value call(rush_module *m, const char *method, const rush_value *x,
                       const rush_value *buffers, size_t n, bool *copied)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;

  o.outputs = buffers;
  o.n_outputs = n;
  o.outputs_copied = copied;
  rush_status st = rush_module_call_named(m, method, x, 1, NULL, 0, &o, &y, &err);
  if (st != RUSH_OK)
    fail_msg("%s", err.message);
  return y;
}

static const char *const program = "def mm(x):\n"
                                   "    return x.mm(x.t())\n"
                                   "def chain(x):\n"
                                   "    return (x * 2 + 1).relu()\n"
                                   "def one(x):\n"
                                   "    return x * 2\n"
                                   "def through(x):\n"
                                   "    return one(x + 1)\n"
                                   "def branch(x):\n"
                                   "    if x.sum() > 0:\n"
                                   "        y = x * 3\n"
                                   "    else:\n"
                                   "        y = x * 4\n"
                                   "    return y\n"
                                   "def two(x):\n"
                                   "    return x * 2, (x * 3, 5)\n"
                                   "def view(x):\n"
                                   "    return x.t()\n"
                                   "def same(x):\n"
                                   "    return x\n"
                                   "def twice(x):\n"
                                   "    y = x * 2\n"
                                   "    return y, y\n"
                                   "def swap(x):\n"
                                   "    return x * 2, x\n"
                                   "def number(x):\n"
                                   "    return x.size(0)\n"
                                   "def later(x):\n"
                                   "    y = x * 2\n"
                                   "    raise ValueError('no')\n"
                                   "    return y\n";

static void the_last_operator_writes_to_the_buffer(void **state)
{
  static const char *const methods[] = {"chain", "one", "through", "branch"};
  rush_module *m = compile(NULL, program);
  rush_value x = wrap(NULL, in, 2, 3);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(methods); i++) {
    float data[6] = {0}, want;
    bool copied = true;
    rush_value buffer = wrap(NULL, data, 2, 3), y = call(m, methods[i], &x, &buffer, 1, &copied);
    assert_ptr_equal(y.as.tensor, buffer.as.tensor);
    want = i == 0 ? 13 : i == 1 ? 12 : i == 2 ? 14 : 18;
    assert_true(data[5] == want);
    if (copied)
      fail_msg("%s copied", methods[i]);
    rush_value_release(y);
    rush_value_release(buffer);
  }
  float square[4];
  bool copied = true;
  rush_value buffer = wrap(NULL, square, 2, 2), y = call(m, "mm", &x, &buffer, 1, &copied);
  assert_true(square[0] == 14 && square[1] == 32 && square[3] == 77 && !copied);
  rush_value_release(y);
  rush_value_release(buffer);
  rush_value_release(x);
  rush_module_release(m);
}

static void what_is_made_elsewhere_is_copied(void **state)
{
  rush_module *m = compile(NULL, program);
  rush_value x = wrap(NULL, in, 2, 3), y;
  float a[6], b[6];
  bool copied[2] = {false, false};
  rush_value tall = wrap(NULL, a, 3, 2), flat = wrap(NULL, b, 2, 3);
  (void)state;
  y = call(m, "view", &x, &tall, 1, copied);
  assert_true(copied[0] && a[0] == 1 && a[1] == 4 && a[5] == 6);
  rush_value_release(y);
  y = call(m, "same", &x, &flat, 1, copied);
  assert_true(copied[0] && b[0] == 1 && b[5] == 6);
  rush_value_release(y);
  y = call(m, "same", &x, &x, 1, copied);
  assert_true(!copied[0] && in[5] == 6);
  rush_value_release(y);
  rush_value_release(flat);
  flat = wrap(NULL, b, 2, 3);
  float c[6];
  rush_value both[] = {flat, wrap(NULL, c, 2, 3)};
  y = call(m, "twice", &x, both, 2, copied);
  assert_true(copied[0] && copied[1] && b[5] == 12 && c[5] == 12);
  rush_value_release(y);
  rush_value_release(both[1]);
  rush_value_release(flat);
  rush_value_release(tall);
  rush_value_release(x);
  rush_module_release(m);
}

static void some_outputs_of_several_have_buffers(void **state)
{
  rush_module *m = compile(NULL, program);
  rush_value x = wrap(NULL, in, 2, 3);
  float data[6];
  bool copied[2] = {true, true};
  rush_value buffers[] = {rush_value_none(), wrap(NULL, data, 2, 3)},
             y = call(m, "two", &x, buffers, 2, copied);
  (void)state;
  assert_true(!copied[0] && !copied[1] && data[5] == 18);
  assert_true(((const float *)rush_tensor_data(rush_value_item(y, 0).as.tensor))[5] == 12);
  assert_ptr_equal(rush_value_item(rush_value_item(y, 1), 0).as.tensor, buffers[1].as.tensor);
  assert_int_equal(rush_value_item(rush_value_item(y, 1), 1).as.i, 5);
  rush_value_release(y);
  rush_value_release(buffers[1]);
  rush_value_release(x);
  rush_module_release(m);
}

static void buffers_that_are_arguments_are_right(void **state)
{
  rush_module *m = compile(NULL, program);
  float data[6] = {1, 2, 3, 4, 5, 6};
  rush_value x = wrap(NULL, data, 2, 3), same_memory = wrap(NULL, data, 2, 3);
  bool copied = false;
  rush_value y = call(m, "chain", &x, &same_memory, 1, &copied);
  (void)state;
  assert_true(copied && data[0] == 3 && data[5] == 13);
  rush_value_release(y);
  y = call(m, "swap", &x, &same_memory, 1, &copied); /* the second output, x, is unchanged */
  assert_true(copied && data[0] == 6 && data[5] == 26);
  assert_true(((const float *)rush_tensor_data(rush_value_item(y, 1).as.tensor))[5] == 13);
  rush_value_release(y);
  rush_value_release(same_memory);
  rush_value_release(x);
  rush_module_release(m);
}

static void refused(rush_module *m, const char *method, rush_value x, const rush_value *buffers,
                    size_t n, rush_status want, const char *text)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;

  o.outputs = buffers;
  o.n_outputs = n;
  assert_int_equal(rush_module_call_named(m, method, &x, 1, NULL, 0, &o, &y, &err), want);
  if (!strstr(err.message, text))
    fail_msg("'%s' is not in '%s'", text, err.message);
  rush_error_clear(&err);
}

static void what_does_not_fit_is_refused(void **state)
{
  rush_module *m = compile(NULL, program);
  float data[12];
  const int64_t two[] = {2, 3}, by_column[] = {1, 2}, gaps[] = {6, 1};
  rush_value x = wrap(NULL, in, 2, 3), v, pair[2];
  (void)state;
  v = wrap(NULL, data, 3, 2);
  refused(m, "one", x, &v, 1, RUSH_EARGUMENT,
          "output 0: expected a buffer of float32[2, 3] with strides [3, 1], but got float32[3, 2] "
          "with strides [2, 1]");
  refused(m, "number", x, &v, 1, RUSH_EARGUMENT, "output 0 has a buffer, but is no tensor");
  pair[0] = pair[1] = v;
  refused(m, "two", x, pair, 2, RUSH_EARGUMENT, "the buffers of outputs 0 and 1 share memory");
  refused(m, "later", x, &v, 1, RUSH_ERAISED, "no");
  rush_tensor_set_read_only(v.as.tensor);
  refused(m, "one", x, &v, 1, RUSH_EARGUMENT, "may not be written to");
  rush_value_release(v);
  v = wrap(NULL, data, 2, 3);
  pair[0] = v;
  pair[1] = rush_value_none();
  refused(m, "one", x, pair, 2, RUSH_EARGUMENT, "2 output buffers for 1 outputs");
  rush_value_release(v);
  assert_int_equal(
    rush_tensor_wrap(NULL, RUSH_FLOAT32, 2, two, by_column, data, NULL, NULL, &v, NULL), RUSH_OK);
  refused(m, "one", x, &v, 1, RUSH_EARGUMENT,
          "with strides [3, 1], but got float32[2, 3] with strides [1, 2]");
  rush_value_release(v);
  assert_int_equal(rush_tensor_wrap(NULL, RUSH_FLOAT32, 2, two, gaps, data, NULL, NULL, &v, NULL),
                   RUSH_OK);
  refused(m, "one", x, &v, 1, RUSH_EARGUMENT, "has gaps");
  rush_value_release(v);
  assert_int_equal(rush_tensor_wrap(NULL, RUSH_INT32, 2, two, NULL, data, NULL, NULL, &v, NULL),
                   RUSH_OK);
  refused(m, "one", x, &v, 1, RUSH_EARGUMENT, "expected a buffer of float32[2, 3]");
  rush_value_release(v);
  rush_value_release(x);
  rush_module_release(m);
}

static void an_exported_programs_buffers_and_weights(void **state)
{
  char path[4096];
  const int64_t picture[] = {1, 1, 8, 8};
  float pixels[64] = {0}, scores[10] = {-1};
  rush_value x, weight, plain;
  rush_module *m;
  bool copied = true;
  (void)state;
  snprintf(path, sizeof path, "%s/digits.pt2", getenv("RUSH_TEST_DATA"));
  assert_int_equal(rush_module_load(NULL, path, NULL, &m, NULL), RUSH_OK);
  assert_int_equal(
    rush_tensor_wrap(NULL, RUSH_FLOAT32, 4, picture, NULL, pixels, NULL, NULL, &x, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, NULL, &x, 1, &plain, NULL), RUSH_OK);
  rush_value buffer = wrap(NULL, scores, 1, 10), y = call(m, NULL, &x, &buffer, 1, &copied);
  assert_ptr_equal(y.as.tensor, buffer.as.tensor);
  assert_false(copied);
  assert_memory_equal(scores, rush_tensor_data(plain.as.tensor), sizeof scores);
  assert_int_equal(rush_module_state_at(m, 0, NULL, NULL, &weight, NULL), RUSH_OK);
  refused(m, NULL, x, &weight, 1, RUSH_EARGUMENT,
          rush_tensor_requires_grad(weight.as.tensor) ? "requires grad" : "share");
  rush_tensor_set_requires_grad(weight.as.tensor, false);
  refused(m, NULL, x, &weight, 1, RUSH_EARGUMENT, "shares memory with the module's state");
  rush_value_release(weight);
  rush_value_release(y);
  rush_value_release(buffer);
  rush_value_release(plain);
  rush_value_release(x);
  rush_module_release(m);
}

static void every_failed_allocation_is_survived(void **state)
{
  budget b = {LONG_MAX, 0};
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_status st = RUSH_ENOMEM;
  rush_context *c;
  (void)state;
  o.alloc = budget_alloc;
  o.alloc_user = &b;
  o.free = budget_free;
  o.no_cache = true;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  rush_module *m = compile(c, program);
  float first[6], second[6];
  rush_value x = wrap(c, in, 2, 3), buffers[] = {wrap(c, first, 2, 3), wrap(c, second, 2, 3)};
  for (long n = 0; st != RUSH_OK; n++) {
    rush_call_options options = RUSH_CALL_OPTIONS_INIT;
    rush_error err = RUSH_ERROR_INIT;
    rush_value y;
    options.outputs = buffers;
    options.n_outputs = 2;
    b.left = n;
    st = rush_module_call_named(m, "twice", &x, 1, NULL, 0, &options, &y, &err);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
    if (st == RUSH_OK)
      rush_value_release(y);
    rush_error_clear(&err);
  }
  b.left = LONG_MAX;
  rush_value_release(buffers[0]);
  rush_value_release(buffers[1]);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(c);
  assert_int_equal(b.live, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_operator_writes_to_the_buffer),
      cmocka_unit_test(what_is_made_elsewhere_is_copied),
      cmocka_unit_test(some_outputs_of_several_have_buffers),
      cmocka_unit_test(buffers_that_are_arguments_are_right),
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(an_exported_programs_buffers_and_weights),
      cmocka_unit_test(every_failed_allocation_is_survived),
  };
  return RUN_TESTS(tests);
}
