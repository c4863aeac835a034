#include "support/oom.h"

#include "base/text.h"

static void check_repr(double d, const char *expected)
{
  char out[FLOAT_REPR_BYTES];
  assert_int_equal(float_repr(d, out), strlen(expected));
  assert_string_equal(out, expected);
}

/* Expected texts are Python's. */
static void floats_print_as_python(void **state)
{
  (void)state;
  check_repr(0.0, "0.0");
  check_repr(-0.0, "-0.0");
  check_repr(1.0, "1.0");
  check_repr(-100.0, "-100.0");
  check_repr(0.1, "0.1");
  check_repr(0.1 + 0.2, "0.30000000000000004");
  check_repr(1e-5, "1e-05");
  check_repr(0.0001, "0.0001");
  check_repr(0.00012345, "0.00012345");
  check_repr(1e15, "1000000000000000.0");
  check_repr(1e16, "1e+16");
  check_repr(123456789012345680.0, "1.2345678901234568e+17");
  check_repr(1e22, "1e+22");
  check_repr(1.5e300, "1.5e+300");
  check_repr(5e-324, "5e-324");
  check_repr(2.2250738585072014e-308, "2.2250738585072014e-308");
  check_repr(1.7976931348623157e308, "1.7976931348623157e+308");
  check_repr(9007199254740993.0, "9007199254740992.0");
  check_repr(1.0 / 0.0, "inf");
  check_repr(-1.0 / 0.0, "-inf");
  check_repr(0.0 / 0.0, "nan");
}

static context *ctx;

static void check_quote(const char *s, size_t len, const char *expected)
{
  text_buf t;
  text_init(&t, ctx);
  text_quote(&t, s, len);
  assert_string_equal(text_str(&t), expected);
  text_free(&t);
}
#define QUOTE(literal, expected) check_quote((literal), sizeof(literal) - 1, (expected))

static void strings_quote_as_python(void **state)
{
  (void)state;
  QUOTE("", "''");
  QUOTE("abc", "'abc'");
  QUOTE("it's", "\"it's\"");
  QUOTE("say \"hi\"", "'say \"hi\"'");
  QUOTE("'\"", "'\\'\"'");
  QUOTE("a\\b\n\r\t\0\x1f\x7f", "'a\\\\b\\n\\r\\t\\x00\\x1f\\x7f'");
  QUOTE("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'");
  QUOTE("\xc2\x80\xc2\xad\xe2\x80\xa8", "'\\x80\\xad\\u2028'");
  QUOTE("\xee\x80\x80\xf3\xa0\x80\x81", "'\\ue000\\U000e0001'");
  QUOTE("\xff\xc0\x80\xed\xa0\x80", "'\\xff\\xc0\\x80\\xed\\xa0\\x80'");
}

static void utf8_is_strict(void **state)
{
  (void)state;
  assert_int_equal(utf8_check("a", 1), 1);
  assert_int_equal(utf8_check("\xc3\xa9", 2), 2);
  assert_int_equal(utf8_check("\xc3", 1), 0);
  assert_int_equal(utf8_check("\xc1\x81", 2), 0);
  assert_int_equal(utf8_check("\xe0\x80\x80", 3), 0);
  assert_int_equal(utf8_check("\xed\x9f\xbf", 3), 3);
  assert_int_equal(utf8_check("\xed\xa0\x80", 3), 0);
  assert_int_equal(utf8_check("\xf4\x90\x80\x80", 4), 0);
  assert_int_equal(utf8_check("\xf0\x9f\x98\x80", 4), 4);
  assert_int_equal(utf8_check("", 0), 0);
}

static void failure_sticks(void **state)
{
  (void)state;
  bool whole = false;
  OOM_LOOP(cx)
  {
    text_buf t;
    text_init(&t, cx.ctx);
    for (int i = 0; i < 100; i++)
      text_printf(&t, "%d,%300s;", i, "x");
    text_putc(&t, '!');
    whole = !text_failed(&t);
    assert_true(whole == (t.len > 0 && text_str(&t)[t.len - 1] == '!'));
    assert_int_equal(strlen(text_str(&t)), t.len);
    text_free(&t);
  }
  assert_true(whole);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(floats_print_as_python),
    cmocka_unit_test(strings_quote_as_python),
    cmocka_unit_test(utf8_is_strict),
    cmocka_unit_test(failure_sticks),
  };
  ctx = test_context(NULL);
  int failed = RUN_TESTS(tests);
  context_release(ctx);
  return failed;
}
