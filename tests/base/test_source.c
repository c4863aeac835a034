#include "support/test.h"

#include "base/source.h"

static context *ctx;

static void check(const char *text, uint32_t start, uint32_t end, const char *expected)
{
  source *s = source_new(ctx, "f.py", text, strlen(text));
  text_buf out;
  text_init(&out, ctx);
  source_excerpt(&out, &(source_range){s, start, end});
  assert_string_equal(text_str(&out), expected);
  text_free(&out);
  source_release(s);
}

/* Expected texts are PyTorch 2.13's for the same text and range. */
static void excerpts_are_pytorchs(void **state)
{
  (void)state;
  const char *a = "line1\n  two three\nfour five\n\nsix\nseven\n";
  check(a, 0, 5, "  File \"f.py\", line 1\nline1\n~~~~~ <--- HERE\n  two three\nfour five\n");
  check(a, 0, 0, "  File \"f.py\", line 1\nline1\n  two three\nfour five\n");
  check(a, 8, 11, "  File \"f.py\", line 2\nline1\n  two three\n  ~~~ <--- HERE\nfour five\n");
  check(a, 28, 31, "  File \"f.py\", line 4\n  two three\nfour five\n\nsix\n~~ <--- HERE\nseven\n");
  check(a, 33, 38, "  File \"f.py\", line 6\n\nsix\nseven\n~~~~~ <--- HERE\n");
  check(a, 30, 38, "  File \"f.py\", line 5\nfour five\n\nsix\n ~~\nseven\n~~~~~ <--- HERE\n");
  const char *b = "a = f(  \n    x,  \n\t  y,\n\n  \n   z)  \nq\n";
  check(b, 4, 10, "  File \"f.py\", line 1\na = f(  \n    ~~~~ <--- HERE\n    x,  \n\t  y,\n");
  check(b, 4, 24, "  File \"f.py\", line 1\na = f(  \n    ~~~~\n    x,  \n    ~~~~\n\t  y,\n"
                  "~~~~~ <--- HERE\n\n  \n   z)  \n");
  check(b, 4, 36,
        "  File \"f.py\", line 1\na = f(  \n    ~~~~\n    x,  \n    ~~~~\n\t  y,\n~~~~~\n\n"
        "  \n   z)  \n   ~~~~\nq\n");
  check(b, 9, 49,
        "  File \"f.py\", line 2\na = f(  \n    x,  \n    ~~~~\n\t  y,\n~~~~~\n\n  \n   z)  \n"
        "   ~~~~\nq\n~\n");
  check(b, 15, 17, "  File \"f.py\", line 2\na = f(  \n    x,  \n\t  y,\n");
  check("one\ntwo", 4, 9, "  File \"f.py\", line 2\none\ntwo\n~~~ <--- HERE\n");
  check("one\ntwo", 7, 7, "  File \"f.py\", line 2\none\ntwo");
  check("one\ntwo", 0, 7, "one\ntwo");
  check("1\n2\n3\n4\n5\n6\n7", 6, 7, "  File \"f.py\", line 4\n2\n3\n4\n~ <--- HERE\n5\n6\n");
  check("one\ntwo", 9, 12, "");
}

static void positions_count_from_one(void **state)
{
  (void)state;
  source *s = source_new(ctx, NULL, "ab\n\ncd", 6);
  uint32_t line, column;
  source_position(s, 5, &line, &column);
  assert_int_equal(line, 3);
  assert_int_equal(column, 2);
  source_position(s, 2, &line, &column);
  assert_int_equal(line, 1);
  assert_int_equal(column, 3);
  source_release(source_retain(s));
  source_release(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(excerpts_are_pytorchs),
    cmocka_unit_test(positions_count_from_one),
  };
  ctx = test_context(NULL);
  int failed = RUN_TESTS(tests);
  context_release(ctx);
  return failed;
}
