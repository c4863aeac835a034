/* Test saving through the public header: files, callbacks, extra files, functions, refusals,
 * failing allocations. */
#include "support/budget.h"
#include "support/bytes.h"
#include "support/test.h"

#include <sys/stat.h>

#include "rushlight/rushlight.h"

static const char text[] = "import torch\n"
                           "from typing import Dict, List\n"
                           "def twice(x: torch.Tensor, n: int = 2) -> torch.Tensor:\n"
                           "  return x * n\n"
                           "def f(x: torch.Tensor) -> Dict[str, List[int]]:\n"
                           "  if bool(twice(x).sum() > 3):\n"
                           "    raise ValueError('too much')\n"
                           "  return {'a': [1, 2]}\n";

static const char *data_path(const char *name)
{
  static _Thread_local char path[4096];

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  return path;
}

static rush_status save_to(rush_module *m, bytes *b, rush_save_options o, rush_error *err)
{
  o.write = gather;
  o.write_user = b;
  b->n = 0;
  return rush_module_save(m, NULL, &o, err);
}

static rush_module *open_bytes(const bytes *b)
{
  rush_module *m;

  assert_int_equal(rush_module_load_bytes(NULL, b->p, b->n, NULL, NULL, NULL, &m, NULL), RUSH_OK);
  return m;
}

static rush_module *compile(rush_context *c)
{
  rush_module *m;

  assert_int_equal(rush_module_compile(c, text, sizeof text - 1, NULL, &m, NULL), RUSH_OK);
  return m;
}

static void the_same_module_gives_the_same_bytes(void **state)
{
  const rush_extra_file extra = {"notes.txt", "a\0b", 3};
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  bytes one = {0}, two = {0};
  const void *data;
  rush_module *m;
  size_t n;

  (void)state;
  o.extra_files = &extra;
  o.n_extra_files = 1;
  assert_int_equal(rush_module_load(NULL, data_path("digits.pt"), NULL, &m, NULL), RUSH_OK);
  assert_int_equal(save_to(m, &one, o, NULL), RUSH_OK);
  rush_module *again = open_bytes(&one);
  assert_string_equal(rush_module_extra_file(again, 0, &data, &n), "notes.txt");
  assert_int_equal(n, 3);
  assert_memory_equal(data, "a\0b", 3);
  assert_null(rush_module_extra_file(again, 1, &data, &n));
  assert_int_equal(rush_module_n_state(again), rush_module_n_state(m));
  assert_int_equal(save_to(m, &two, o, NULL), RUSH_OK);
  assert_int_equal(one.n, two.n);
  assert_memory_equal(one.p, two.p, one.n);
  rush_module_release(again);
  rush_module_release(m);
  free(one.p);
  free(two.p);
}

static void functions_become_methods(void **state)
{
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  bytes b = {0};
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m = compile(NULL);
  int64_t none[1] = {2};
  float values[2] = {1, 2};
  rush_value x, y;

  (void)state;
  assert_int_equal(save_to(m, &b, o, &err), RUSH_OK);
  rush_module *all = open_bytes(&b);
  assert_int_equal(rush_module_n_methods(all), 2);
  o.function = "twice";
  assert_int_equal(save_to(m, &b, o, &err), RUSH_OK);
  rush_module *only = open_bytes(&b);
  assert_int_equal(rush_module_n_methods(only), 1);
  assert_string_equal(rush_module_method_name(only, 0), "forward");
  assert_int_equal(
    rush_tensor_wrap(NULL, RUSH_FLOAT32, 1, none, NULL, values, NULL, NULL, &x, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(only, NULL, &x, 1, &y, &err),
                   RUSH_OK); /* a method keeps its default */
  assert_true(((const float *)rush_tensor_data(y.as.tensor))[1] == 4);
  rush_value_release(y);
  assert_int_equal(rush_module_call(all, "f", &x, 1, &y, &err),
                   RUSH_ERAISED); /* the author's text is still available */
  assert_non_null(strstr(err.traceback, "raise ValueError('too much')"));
  o.function = "nothing";
  assert_int_equal(save_to(m, &b, o, &err), RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_value_release(x);
  rush_module_release(only);
  rush_module_release(all);
  rush_module_release(m);
  free(b.p);
}

static void a_file_is_complete_or_as_it_was(void **state)
{
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  char path[] = "/tmp/rush_save_XXXXXX", file[64];
  rush_error err = RUSH_ERROR_INIT;
  bytes b = {.most = 300};
  struct stat info;
  rush_module *m = compile(NULL), *exported, *opened;

  (void)state;
  assert_non_null(mkdtemp(path));
  snprintf(file, sizeof file, "%s/model.pt", path);
  assert_int_equal(rush_module_save(m, file, NULL, &err), RUSH_OK);
  assert_int_equal(rush_module_load(NULL, file, NULL, &opened, &err), RUSH_OK);
  assert_int_equal(stat(file, &info), 0);
  assert_int_equal(rush_module_save(opened, file, NULL, &err),
                   RUSH_OK); /* overwrites the file that it is mapped from */
  rush_module_release(opened);
  assert_int_equal(rush_module_load(NULL, file, NULL, &opened, &err), RUSH_OK);
  rush_module_release(opened);
  assert_int_equal(save_to(m, &b, o, &err), RUSH_EIO);
  const rush_extra_file twice[2] = {{"a", "", 0}, {"a", "", 0}};
  o.extra_files = twice;
  o.n_extra_files = 2;
  assert_int_equal(rush_module_save(m, file, &o, &err), RUSH_EARGUMENT);
  assert_int_equal(rush_module_load(NULL, file, NULL, &opened, &err), RUSH_OK);
  rush_module_release(opened);
  assert_int_equal(rush_module_save(m, NULL, NULL, &err), RUSH_EARGUMENT);
  assert_int_equal(rush_module_save(m, "/no/such/folder/m.pt", NULL, &err), RUSH_EIO);
  assert_int_equal(rush_module_load(NULL, data_path("digits.pt2"), NULL, &exported, &err), RUSH_OK);
  assert_int_equal(rush_module_save(exported, file, NULL, &err), RUSH_OK);
  rush_save_options only = RUSH_SAVE_OPTIONS_INIT;
  only.function = "forward";
  assert_int_equal(rush_module_save(exported, file, &only, &err), RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_module_release(exported);
  assert_int_equal(rush_module_load(NULL, file, NULL, &exported, &err), RUSH_OK);
  rush_module_release(exported);
  rush_module_release(m);
  remove(file);
  assert_int_equal(remove(path), 0); /* no other file was left in the folder */
  free(b.p);
}

/* -- Failing allocations ----------------------------------------------------------------------- */

static void any_allocation_may_fail(void **state)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  budget b = {.left = 1000000000};
  bytes out = {0};
  rush_context *c;
  rush_module *m;
  long n = 0;

  (void)state;
  o.alloc = budget_alloc;
  o.no_cache = true;
  o.free = budget_free;
  o.alloc_user = &b;
  o.n_threads = 1;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  for (int i = 0; i < 2; i++) {
    if (i)
      assert_int_equal(rush_module_load(c, data_path("digits.pt"), NULL, &m, NULL), RUSH_OK);
    else
      m = compile(c);
    for (n = 0;; n++) {
      b.left = n;
      rush_status st = save_to(m, &out, (rush_save_options)RUSH_SAVE_OPTIONS_INIT, NULL);
      b.left = 1000000000;
      if (st == RUSH_OK)
        break;
      assert_int_equal(st, RUSH_ENOMEM);
    }
    assert_true(n > 10);
    rush_module_release(m);
  }
  rush_context_release(c);
  assert_int_equal(b.live, 0);
  free(out.p);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_module_gives_the_same_bytes),
      cmocka_unit_test(functions_become_methods),
      cmocka_unit_test(a_file_is_complete_or_as_it_was),
      cmocka_unit_test(any_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
