/* Test signatures through the public header: TorchScript and exported programs, small structs,
 * lifetimes, failing allocations. */
#include "support/budget.h"
#include "support/test.h"

#include <limits.h>

#include "rushlight/rushlight.h"

static rush_module *load(rush_context *c, const char *name)
{
  char path[4096];
  rush_module *m;

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  assert_int_equal(rush_module_load(c, path, NULL, &m, NULL), RUSH_OK);
  return m;
}

static rush_module *compile(const char *text)
{
  rush_module *m;

  assert_int_equal(rush_module_compile(NULL, text, strlen(text), NULL, &m, NULL), RUSH_OK);
  return m;
}

static const char *const two_results =
  "from typing import List, Optional, Tuple\n"
  "def f(x: Tensor, names: List[str], k: int = 3) -> Tuple[Tensor, Tuple[int, Optional[float]]]:\n"
  "    return x, (k + len(names), None)\n"
  "def g(x):\n"
  "    return x + 1\n";

static void a_methods_parameters_and_results_are_items(void **state)
{
  rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
  rush_module *m = compile(two_results);
  rush_signature *s;
  (void)state;
  assert_int_equal(rush_module_signature(m, "f", &s, NULL), RUSH_OK);
  rush_module_release(m); /* the signature stays */
  assert_int_equal(rush_signature_n_inputs(s), 3);
  assert_int_equal(rush_signature_n_outputs(s), 3);
  assert_true(rush_signature_input(s, 1, &item));
  assert_string_equal(item.name, "names");
  assert_string_equal(item.type, "List[str]");
  assert_false(item.has_default || item.is_described || item.is_constant || item.keyword_only);
  assert_true(rush_signature_input(s, 2, &item));
  assert_true(item.has_default && item.value.tag == RUSH_TAG_INT && item.value.as.i == 3 &&
              item.argument == 2);
  assert_true(rush_signature_output(s, 2, &item));
  assert_string_equal(item.name, "output[1][1]");
  assert_string_equal(item.type, "Optional[float]");
  assert_int_equal(item.argument, 1);
  assert_false(rush_signature_input(s, 3, &item) || rush_signature_output(s, 3, &item));
  rush_signature_release(s);
}

static void a_result_that_is_not_annotated_is_found(void **state)
{
  rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
  rush_module *m = compile(two_results);
  rush_error err = RUSH_ERROR_INIT;
  rush_signature *s;
  (void)state;
  assert_int_equal(rush_module_signature(m, "g", &s, NULL), RUSH_OK);
  assert_true(rush_signature_output(s, 0, &item));
  assert_string_equal(item.name, "output");
  assert_string_equal(item.type, "Tensor");
  rush_signature_release(s);
  assert_int_equal(rush_module_signature(m, "h", &s, &err), RUSH_EARGUMENT);
  assert_non_null(strstr(err.message, "no method 'h'"));
  rush_error_clear(&err);
  rush_signature_release(NULL);
  rush_module_release(m);
}

static void an_exported_program_has_dtypes_and_sizes(void **state)
{
  rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
  rush_module *m = load(NULL, "digits.pt2");
  rush_signature *s;
  (void)state;
  assert_int_equal(rush_module_signature(m, NULL, &s, NULL), RUSH_OK);
  rush_module_release(m);
  assert_true(rush_signature_input(s, 0, &item));
  assert_string_equal(item.name, "x");
  assert_true(item.is_described && item.dtype == RUSH_FLOAT32 && item.n_sizes == 4);
  assert_true(item.sizes[3].value == 8 && item.sizes[3].min == 8 && item.sizes[3].max == 8 &&
              !item.sizes[3].symbol);
  assert_true(rush_signature_output(s, 0, &item));
  assert_true(item.is_described && item.n_sizes == 2 && item.sizes[1].value == 10);
  rush_signature_release(s);
}

static void an_older_callers_struct_is_filled_as_far_as_it_goes(void **state)
{
  rush_signature_item item;
  rush_module *m = compile(two_results);
  rush_signature *s;
  (void)state;
  memset(&item, 0xaa, sizeof item);
  item.struct_bytes = offsetof(rush_signature_item, keyword_only);
  assert_int_equal(rush_module_signature(m, "f", &s, NULL), RUSH_OK);
  assert_true(rush_signature_input(s, 0, &item));
  assert_string_equal(item.name, "x");
  assert_int_equal(item.struct_bytes, offsetof(rush_signature_item, keyword_only));
  assert_int_equal(*(unsigned char *)&item.n_sizes, 0xaa);
  rush_signature_release(s);
  rush_module_release(m);
}

static void every_failed_allocation_is_survived(void **state)
{
  static const char *const files[] = {"digits.pt2", "life.pt"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(files); i++) {
    budget b = {LONG_MAX, 0};
    rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
    rush_status st = RUSH_ENOMEM;
    rush_context *c;
    o.alloc = budget_alloc;
    o.alloc_user = &b;
    o.free = budget_free;
    assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
    rush_module *m = load(c, files[i]);
    for (long n = 0; st != RUSH_OK; n++) {
      rush_error err = RUSH_ERROR_INIT;
      rush_signature *s;
      b.left = n;
      st = rush_module_signature(m, NULL, &s, &err);
      assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
      if (st == RUSH_OK)
        rush_signature_release(s);
      rush_error_clear(&err);
    }
    b.left = LONG_MAX;
    rush_module_release(m);
    rush_context_release(c);
    assert_int_equal(b.live, 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_methods_parameters_and_results_are_items),
      cmocka_unit_test(a_result_that_is_not_annotated_is_found),
      cmocka_unit_test(an_exported_program_has_dtypes_and_sizes),
      cmocka_unit_test(an_older_callers_struct_is_filled_as_far_as_it_goes),
      cmocka_unit_test(every_failed_allocation_is_survived),
  };
  return RUN_TESTS(tests);
}
