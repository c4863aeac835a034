/* Test smaller promises of rushlight.h: the default context ends, results may be unwanted, limits
 * have names. */
#include "support/test.h"

#include "base/macros.h"
#include "rushlight/rushlight.h"

static rush_module *compiled(rush_context *c, const char *text)
{
  rush_module *m = NULL;

  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &m, NULL), RUSH_OK);
  return m;
}

static void the_default_context_ends_and_begins_again(void **state)
{
  rush_value one = rush_value_int(1), y;
  size_t live = 0;
  (void)state;
  for (int i = 0; i < 3; i++) {
    rush_module *m = compiled(NULL, "def f(x: int):\n    return [str(x)] * 1000\n");
    assert_int_equal(rush_module_call(m, "f", &one, 1, &y, NULL), RUSH_OK);
    rush_value_release(y);
    rush_memory_stats(NULL, &live, NULL);
    assert_true(live > 0);
    if (i == 1)
      rush_context_release_default(); /* the module retains it */
    assert_int_equal(rush_module_call(m, "f", &one, 1, NULL, NULL), RUSH_OK);
    rush_module_release(m);
    rush_context_release_default();
  }
  rush_context_release_default(); /* there is none */
}

static void results_may_be_unwanted(void **state)
{
  const int64_t sizes[] = {2, 3};
  rush_value x, key = rush_value_int(1), d, complex;
  (void)state;
  assert_int_equal(rush_tensor_create(NULL, RUSH_FLOAT32, 2, sizes, &x, NULL), RUSH_OK);
  rush_value y;
  assert_int_equal(rush_op_call(NULL, "aten::relu", &x, 1, NULL, 0, &y, 1, NULL, NULL), RUSH_OK);
  rush_value_release(y);
  assert_int_equal(rush_dict_create(NULL, &key, &x, 1, &d, NULL), RUSH_OK);
  rush_value_entry(d, 0, NULL, NULL);
  rush_value_entry(d, 0, &key, NULL);
  assert_int_equal(key.as.i, 1);
  rush_value_release(d);
  assert_int_equal(rush_complex_create(NULL, 1, 2, &complex, NULL), RUSH_OK);
  rush_value_complex(complex, NULL, NULL);
  rush_value_release(complex);
  char path[4096];
  rush_module *m;
  snprintf(path, sizeof path, "%s/worker.pt", getenv("RUSH_TEST_DATA"));
  assert_int_equal(rush_module_load(NULL, path, NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_module_state_at(m, 0, NULL, NULL, NULL, NULL), RUSH_OK);
  assert_int_equal(rush_module_code(m, NULL, NULL, NULL, NULL), RUSH_OK);
  (void)rush_module_extra_file(m, 0, NULL, NULL);
  rush_memory_stats(NULL, NULL, NULL);
  (void)rush_profile_n_events(NULL, NULL);
  rush_module_release(m);
  rush_value_release(x);
}

static void memory_that_is_not_there_is_refused(void **state)
{
  const int64_t some[] = {2, 3}, none[] = {2, 0};
  rush_error err = RUSH_ERROR_INIT;
  rush_value x;
  (void)state;
  assert_int_equal(rush_tensor_wrap(NULL, RUSH_FLOAT32, 2, some, NULL, NULL, NULL, NULL, &x, &err),
                   RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "24 bytes"));
  rush_error_clear(&err);
  assert_int_equal(rush_tensor_wrap(NULL, RUSH_FLOAT32, 2, none, NULL, NULL, NULL, NULL, &x, &err),
                   RUSH_OK);
  rush_value_release(x);
}

static void limits_have_names(void **state)
{
  static const char text[] = "import torch\n"
                             "def forever(x: int):\n    while True:\n        x += 1\n    return x\n"
                             "def large(x: int):\n    return torch.zeros([100000000])\n";
  static const struct {
    const char *method;
    rush_limit limit;
  } rows[] = {{"forever", RUSH_LIMIT_SECONDS}, {"large", RUSH_LIMIT_BYTES}};
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_context *c;
  rush_value one = rush_value_int(1);
  (void)state;
  o.limit_seconds = 0.05;
  o.limit_bytes = 64 << 20;
  assert_int_equal(rush_context_create(&o, &c, &err), RUSH_OK);
  rush_module *m = compiled(c, text);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    assert_int_equal(rush_module_call(m, rows[i].method, &one, 1, NULL, &err), RUSH_ELIMIT);
    assert_int_equal(err.limit, rows[i].limit);
  }
  assert_int_equal(rush_module_call(m, "nothing", &one, 1, NULL, &err), RUSH_EARGUMENT);
  assert_int_equal(err.limit, RUSH_LIMIT_NONE);
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

/* -- The host's allocator ---------------------------------------------------------------------- */

typedef struct counted {
  size_t n_large, live_bytes;
} counted;

static void *take(void *user, size_t n_bytes)
{
  counted *k = user;

  k->n_large += n_bytes >= 100000;
  k->live_bytes += n_bytes;
  return malloc(n_bytes);
}

static void give(void *user, void *p, size_t n_bytes)
{
  counted *k = user;

  k->live_bytes -= n_bytes;
  free(p);
}

static void a_hosts_allocator_keeps_the_cache(void **state)
{
  (void)state;
#ifdef RUSH_SANITIZED
  const int first = 1; /* nothing is cached */
#else
  const int first = 0;
#endif
  for (int no_cache = first; no_cache < 2; no_cache++) {
    const int64_t sizes[] = {200, 200};
    counted k = {0, 0};
    rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
    rush_context *c;
    rush_value x, y;
    o.alloc = take;
    o.free = give;
    o.alloc_user = &k;
    o.no_cache = no_cache;
    o.n_threads = 1;
    assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
    assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &x, NULL), RUSH_OK);
    memset(rush_tensor_data_mut(x.as.tensor), 0, 160000);
    for (int i = 0; i < 30; i++) {
      if (i == 10)
        k.n_large = 0;
      assert_int_equal(rush_op_call(c, "aten::relu", &x, 1, NULL, 0, &y, 1, NULL, NULL), RUSH_OK);
      rush_value_release(y);
    }
    assert_int_equal(k.n_large, no_cache ? 20 : 0);
    rush_value_release(x);
    rush_context_release(c);
    assert_int_equal(k.live_bytes, 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_default_context_ends_and_begins_again),
      cmocka_unit_test(results_may_be_unwanted),
      cmocka_unit_test(memory_that_is_not_there_is_refused),
      cmocka_unit_test(limits_have_names),
      cmocka_unit_test(a_hosts_allocator_keeps_the_cache),
  };
  return RUN_TESTS(tests);
}
