/* Test texts through the public functions: compiled at once, added to, all or nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rushlight/rushlight.h"

static rush_error err = RUSH_ERROR_INIT;

static rush_status compile(const char *text, rush_module **m)
{
  return rush_module_compile(NULL, text, strlen(text), NULL, m, &err);
}
static rush_status define(rush_module *m, const char *text)
{
  return rush_module_define(m, text, strlen(text), NULL, &err);
}

static int64_t call(rush_module *m, const char *name, int64_t x)
{
  rush_value v = rush_value_int(x), out;

  assert_int_equal(rush_module_call(m, name, &v, 1, &out, &err), RUSH_OK);
  assert_int_equal(out.tag, RUSH_TAG_INT);
  return out.as.i;
}

static void definitions_are_added(void **state)
{
  rush_module *m;

  (void)state;
  assert_int_equal(compile("def f(x: int):\n    return x + 1\n", &m), RUSH_OK);
  assert_int_equal(define(m, "class C:\n    def __init__(self, n: int):\n        self.n = n\n\ndef "
                             "g(x: int):\n    return C(f(x)).n * 2\n"),
                   RUSH_OK);
  assert_int_equal(rush_module_n_methods(m), 2);
  assert_int_equal(call(m, "f", 3), 4);
  assert_int_equal(call(m, "g", 3), 8);
  rush_module_release(m);
}

static void a_failed_text_leaves_nothing(void **state)
{
  rush_module *m;

  (void)state;
  assert_int_equal(compile("def f(x: int):\n    return x\n", &m), RUSH_OK);
  assert_int_equal(define(m, "class C:\n    def __init__(self):\n        self.n = 1\n\ndef g(x: "
                             "int):\n    return x\n\ndef h(x: int) -> str:\n    return x\n"),
                   RUSH_ERAISED);
  assert_non_null(strstr(err.message, "annotated as having type str but is actually of type int"));
  assert_non_null(strstr(err.message, "File \"<string>\", line 9"));
  assert_int_equal(rush_module_n_methods(m), 1);
  assert_int_equal(define(m, "class C:\n    def __init__(self):\n        self.n = 5\n\ndef g(x: "
                             "int):\n    return C().n\n"),
                   RUSH_OK);
  assert_int_equal(call(m, "g", 0), 5);
  assert_int_equal(define(m, "def f(x: int):\n    return 2\n"), RUSH_ERAISED);
  assert_string_equal(err.message, "method 'f' already defined.");
  assert_int_equal(call(m, "f", 9), 9);
  rush_module_release(m);
  rush_error_clear(&err);
}

/* The front end of live Python reads the same rows (src/ops/table/names.py). */
static void texts_know_the_classes_and_functions_of_the_table(void **state)
{
  static const char text[] = "import torch\n"
                             "from torch.nn.modules.utils import _pair\n"
                             "def f(x: int):\n"
                             "    with torch.no_grad(), torch.jit.strict_fusion():\n"
                             "        with torch.autograd.profiler.record_function('f'):\n"
                             "            torch._assert(x > 0, 'positive')\n"
                             "            return _pair([x, x + 1])[1]\n";
  rush_module *m;
  rush_value v = rush_value_int(-1), out;

  (void)state;
  assert_int_equal(compile(text, &m), RUSH_OK);
  assert_int_equal(call(m, "f", 3), 4);
  assert_int_equal(rush_module_call(m, "f", &v, 1, &out, &err), RUSH_ERAISED);
  assert_non_null(strstr(err.message, "AssertionError: positive"));
  rush_module_release(m);
  rush_error_clear(&err);
}

static void fields_of_dataclasses_that_may_be_none_are_compared(void **state)
{
  static const char text[] = "from dataclasses import dataclass\n"
                             "from typing import Optional\n"
                             "@dataclass(order=True)\n"
                             "class P:\n"
                             "    a: int\n"
                             "    b: Optional[int] = None\n"
                             "def f(x: int):\n"
                             "    less = P(1, 2) < P(1, x)\n"
                             "    same = P(1) == P(1)\n"
                             "    return (2 if less else 0) + (1 if same else 0)\n"
                             "def g(x: int):\n"
                             "    return x if P(1, x) < P(1) else 0\n";
  rush_module *m;
  rush_value v = rush_value_int(1), out;

  (void)state;
  assert_int_equal(compile(text, &m), RUSH_OK);
  assert_int_equal(call(m, "f", 3), 3);
  assert_int_equal(call(m, "f", 2), 1);
  assert_int_equal(rush_module_call(m, "g", &v, 1, &out, &err), RUSH_ERAISED);
  assert_non_null(strstr(err.message, "Cannot compare P with None"));
  rush_module_release(m);
  rush_error_clear(&err);
}

static void errors_name_the_file_and_line(void **state)
{
  rush_text_options where = RUSH_TEXT_OPTIONS_INIT;
  static const char text[] =
    "def f(x: int):\n    return g(x)\n\ndef g(x: int) -> str:\n    return x\n";
  rush_module *m;

  (void)state;
  where.name = "page.py";
  where.first_line = 101;
  assert_int_equal(rush_module_compile(NULL, text, strlen(text), &where, &m, &err), RUSH_ERAISED);
  assert_non_null(strstr(err.message, "File \"page.py\", line 105"));
  assert_non_null(
    strstr(err.message,
           "'g' is being compiled since it was called from 'f'\n  File \"page.py\", line 102"));
  assert_int_equal(compile("class M(nn.Module):\n    pass\n", &m), RUSH_ERAISED);
  assert_non_null(strstr(err.message, "rushlight.script"));
  rush_error_clear(&err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(definitions_are_added),
      cmocka_unit_test(a_failed_text_leaves_nothing),
      cmocka_unit_test(texts_know_the_classes_and_functions_of_the_table),
      cmocka_unit_test(fields_of_dataclasses_that_may_be_none_are_compared),
      cmocka_unit_test(errors_name_the_file_and_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
