#include "support/test.h"

#include "base/error.h"

static void message_and_class_follow_the_status(void **state)
{
  (void)state;
  rush_error e = RUSH_ERROR_INIT;
  assert_int_equal(error_set(&e, RUSH_EARGUMENT, "got %d", 3), RUSH_EARGUMENT);
  assert_string_equal(e.type, "ValueError");
  assert_string_equal(e.message, "got 3");
  error_set_type(&e, RUSH_ERAISED, "IndexError", "was: %s",
                 e.message); /* its own text as argument */
  assert_string_equal(e.type, "IndexError");
  assert_string_equal(e.message, "was: got 3");
  error_prefix(&e, "%s at %d", "file", 7);
  assert_string_equal(e.message, "file at 7: was: got 3");
  error_add_traceback(&e, "a\n");
  error_add_traceback(&e, "b\n");
  assert_string_equal(e.traceback, "a\nb\n");
  rush_error_clear(&e);
  assert_null(e.message);
  assert_int_equal(e.status, RUSH_OK);
}

static void parts_last_as_long_as_the_message(void **state)
{
  (void)state;
  rush_error e = RUSH_ERROR_INIT;
  error_set(&e, RUSH_EARGUMENT, "f() Expected a value");
  assert_false(error_has_part(&e, ERROR_WRONG_TYPE)); /* whatever the text says */
  error_add_part(&e, ERROR_WRONG_TYPE);
  error_add_part(&e, ERROR_SHOWS_SOURCE);
  assert_true(error_has_part(&e, ERROR_WRONG_TYPE) && error_has_part(&e, ERROR_SHOWS_SOURCE));
  error_prefix(&e, "file"); /* the text begins with the position now */
  assert_true(error_has_part(&e, ERROR_WRONG_TYPE));
  assert_false(error_has_part(&e, ERROR_SHOWS_SOURCE));
  error_set(&e, RUSH_EARGUMENT, "another");
  assert_false(error_has_part(&e, ERROR_WRONG_TYPE));
  error_nomem(&e);
  error_add_part(&e, ERROR_WRONG_TYPE); /* a static text has none */
  assert_false(error_has_part(&e, ERROR_WRONG_TYPE));
  assert_false(error_has_part(NULL, ERROR_WRONG_TYPE));
  rush_error_clear(&e);
}

static void no_memory_and_nobody_listening(void **state)
{
  (void)state;
  rush_error e = RUSH_ERROR_INIT, f = RUSH_ERROR_INIT;
  assert_int_equal(error_nomem(&e), RUSH_ENOMEM);
  assert_string_equal(e.type, "MemoryError");
  error_prefix(&e, "reading x");
  error_move(&f, &e);
  assert_string_equal(f.message, "reading x: out of memory");
  assert_null(e.message);
  error_move(&f, &f);
  assert_non_null(f.message);
  rush_error_clear(&f);
  assert_int_equal(error_set(NULL, RUSH_EIO, "x"), RUSH_EIO);
  assert_int_equal(error_nomem(NULL), RUSH_ENOMEM);
  error_prefix(NULL, "x");
  error_add_traceback(NULL, "x");
  error_move(NULL, &e);
  rush_error_clear(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(message_and_class_follow_the_status),
    cmocka_unit_test(parts_last_as_long_as_the_message),
    cmocka_unit_test(no_memory_and_nobody_listening),
  };
  return RUN_TESTS(tests);
}
