#include "support/test.h"

#include "base/number.h"

static double parse(const char *s)
{
  double d = -1;
  assert_true(float_parse(s, strlen(s), &d));
  return d;
}

static void decimals_round_as_strtod_does(void **state)
{
  static const char *const rows[] = {
      "0", "-0", "1", "1.5e-5", "0.1", "1e22", "1e23", "9007199254740993", "9007199254740992.5",
      "1.7976931348623158e308", "1.7976931348623159e308", "1e400", "-1e400", "1e-400", "5e-324",
      "2.4703282292062327208e-324", "2.4703282292062328e-324", "2.2250738585072011e-308",
      "2.2250738585072014e-308", "123456789012345678901234567890e-10", "0e99999999999999999999",
      "1.", ".5", "00001.250", "6.9294956446009195e15", "8.5e-1", "3.141592653589793"};
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    double got = parse(rows[i]), want = strtod(rows[i], NULL);
    assert_memory_equal(&got, &want, sizeof got);
  }
}

/* Midpoints between neighbours have up to 770 digits: the even one is chosen, and any digit after
 * it breaks the tie. */
static void ties_go_to_even_unless_something_follows(void **state)
{
  char text[1200];
  (void)state;
  for (uint64_t i = 1; i < 400; i++) {
    uint64_t bits = i * UINT64_C(0x9e3779b97f4a7c15) >> 1;
    if (i % 3 == 0)
      bits &= UINT64_C(0x000fffffffffffff); /* subnormal */
    double low, high;
    memcpy(&low, &bits, sizeof low);
    bits++;
    memcpy(&high, &bits, sizeof high);
    if (!(high < 1e308))
      continue;
    snprintf(text, sizeof text, "%.1000Le", ((long double)low + high) / 2);
    double got = parse(text), want = strtod(text, NULL);
    assert_memory_equal(&got, &want, sizeof got);
    char *e = strchr(text, 'e');
    assert_non_null(e);
    memmove(e + 1, e, strlen(e) + 1);
    *e = '1';
    assert_true(parse(text) == high);
  }
}

static void malformed_numbers_are_refused(void **state)
{
  static const char *const rows[] = {"",     ".", "e5",   "1e", "1e+",   "1x",  "--1",
                                     "1..2", "+", "0x10", " 1", "infin", "nanx"};
  double d;
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    assert_false(float_parse(rows[i], strlen(rows[i]), &d));
  assert_true(parse("-Infinity") < -1e308);
  assert_true(parse("NaN") != parse("nan"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decimals_round_as_strtod_does),
      cmocka_unit_test(ties_go_to_even_unless_something_follows),
      cmocka_unit_test(malformed_numbers_are_refused),
  };
  return RUN_TESTS(tests);
}
