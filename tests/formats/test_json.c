#include "support/oom.h"

#include "formats/json.h"

/* Read the whole text and print what was read in one canonical form. */
static void echo(json *j, text_buf *out)
{
  str t;
  bool first = true;
  switch (json_peek(j)) {
  case JSON_NULL: json_null(j); text_puts(out, "null"); break;
  case JSON_BOOL: text_puts(out, json_bool(j) ? "true" : "false"); break;
  case JSON_INT: text_printf(out, "%lld", (long long)json_int(j)); break;
  case JSON_FLOAT: text_printf(out, "%.17g", json_double(j)); break;
  case JSON_STRING: json_quote(out, json_string(j)); break;
  case JSON_ARRAY:
    text_putc(out, '[');
    for (json_begin_array(j); json_next_item(j); first = false) {
      text_puts(out, first ? "" : ",");
      echo(j, out);
    }
    text_putc(out, ']');
    break;
  case JSON_OBJECT:
    text_putc(out, '{');
    for (json_begin_object(j); json_next_key(j, &t); first = false) {
      text_puts(out, first ? "" : ",");
      json_quote(out, t);
      text_putc(out, ':');
      echo(j, out);
    }
    text_putc(out, '}');
    break;
  }
}

typedef struct job {
  str text;
  bool skip;
  text_buf out;
} job;

static void read_body(session *s, void *arg)
{
  job *j = arg;
  json reader;
  input in = {"test.json", j->text};
  json_init(&reader, s, &in);
  if (j->skip)
    json_skip(&reader);
  else
    echo(&reader, &j->out);
  json_end(&reader);
}

/* Return the canonical text, or the error's message. */
static char *read_text(context *c, const char *text, size_t len, bool skip)
{
  static char result[4096];
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  job j = {.text = {text, len}, .skip = skip};
  call_ctx_init(&cx, c, &err);
  text_init(&j.out, c);
  rush_status st = session_run(&cx, read_body, &j);
  snprintf(result, sizeof result, "%s", st ? err.message : text_str(&j.out));
  text_free(&j.out);
  rush_error_clear(&err);
  return result;
}

static void values_come_back_as_written(void **state)
{
  static const char *const rows[][2] = {
    {" [1, -2 ,3.5,1e3, 0,-0]", "[1,-2,3.5,1000,0,0]"},
    {"{\"a\":{\"b\":[]},\"c\":{}}", "{\"a\":{\"b\":[]},\"c\":{}}"},
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"[NaN,Infinity,-Infinity]", "[nan,inf,-inf]"},
    {"\"a\\u0041\\n\\\"\\u00e9\\ud83d\\ude00\xc3\xa9\"",
     "\"aA\\u000a\\\"\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9\""},
    {"[true,false,null]", "[true,false,null]"},
    {"0.1", "0.10000000000000001"},
  };
  context *c = test_context(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    assert_string_equal(read_text(c, rows[i][0], strlen(rows[i][0]), false), rows[i][1]);
    assert_string_equal(read_text(c, rows[i][0], strlen(rows[i][0]), true), "");
  }
  test_context_done(c);
}

static void bad_text_is_refused_with_place_and_offset(void **state)
{
  static const char *const rows[][2] = {
      {"[1,]", "test.json: offset 3: expected a value, found ']'"},
      {"{\"a\":1,}", "test.json: offset 7: expected a key, found '}'"},
      {"{\"a\" 1}", "test.json: offset 5: expected ':', found '1'"},
      {"[1 2]", "test.json: offset 3: expected ',' or ']', found '2'"},
      {"[1", "test.json: offset 2: expected ',' or ']', found the end"},
      {"", "test.json: offset 0: expected a value, found the end"},
      {"01", "test.json: offset 1: expected the end, found '1'"},
      {"1.", "test.json: offset 0: expected a value, found '1'"},
      {"\"a", "test.json: offset 0: a string without end"},
      {"\"a\nb\"", "test.json: offset 2: control character 0x0a in a string"},
      {"nul", "test.json: offset 0: expected a value, found 'n'"},
  };
  context *c = test_context(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    for (int skip = 0; skip < 2; skip++)
      assert_string_equal(read_text(c, rows[i][0], strlen(rows[i][0]), skip), rows[i][1]);
  test_context_done(c);
}

static void strings_and_keys_are_checked_when_read(void **state)
{
  static const char *const rows[][2] = {
      {"9223372036854775808", "test.json: offset 0: the integer does not fit 64 bits"},
      {"\"\\ud800\"", "test.json: offset 1: a surrogate without its partner"},
      {"\"\\udc00\"", "test.json: offset 1: a surrogate without its partner"},
      {"\"\\q\"", "test.json: offset 1: unknown escape in a string"},
      {"\"\xff\"", "test.json: offset 1: a string is not UTF-8"},
      {"{\"a\":1,\"\\u0061\":2}", "test.json: offset 7: the key \"a\" appears twice in one object"},
  };
  context *c = test_context(NULL);
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    assert_string_equal(read_text(c, rows[i][0], strlen(rows[i][0]), false), rows[i][1]);
  test_context_done(c);
}

/* Read objects of n keys one after another: a reused level must forget the keys before, and must
 * not mix them. */
static void many_keys_are_told_apart(void **state)
{
  context *c = test_context(NULL);
  text_buf t;
  (void)state;
  text_init(&t, c);
  text_putc(&t, '[');
  for (int round = 0; round < 40; round++) {
    text_puts(&t, round ? ",{" : "{");
    int n = round * 7 % 100;
    for (int i = 0; i < n; i++)
      text_printf(&t, "%s\"k%d\":{\"k%d\":0}", i ? "," : "", i, i);
    text_putc(&t, '}');
  }
  text_putc(&t, ']');
  char *got = read_text(c, t.data, t.len, false);
  assert_true(strncmp(got, "[{},{\"k0\"", 8) == 0);
  text_clear(&t);
  text_putc(&t, '{');
  for (int i = 0; i < 1000; i++)
    text_printf(&t, "\"k%d\":0,", i);
  text_puts(&t, "\"k500\":0}");
  got = read_text(c, t.data, t.len, false);
  assert_non_null(strstr(got, "the key \"k500\" appears twice"));
  text_free(&t);
  test_context_done(c);
}

static void nesting_is_limited(void **state)
{
  context *c = test_context(NULL);
  char deep[20000];
  (void)state;
  memset(deep, '[', sizeof deep);
  for (int skip = 0; skip < 2; skip++)
    assert_non_null(strstr(read_text(c, deep, sizeof deep, skip), "nested too deep"));
  test_context_done(c);
}

static void raw_body(session *s, void *arg)
{
  static const char text[] = "{\"later\": [1, {\"x\": 2}, tru], \"now\": \"-Infinity\"}";
  input in = {"f", STR(text)};
  json j, again;
  str key;
  (void)arg;
  json_init_at(&again, s, &in, (str){text + 14, 8});
  assert_true(str_is(json_raw(&again), "{\"x\": 2}"));
  json_end(&again);
  json_init_at(&again, s, &in, (str){text + 38, 11});
  assert_true(json_double(&again) < -1e308);
  json_init(&j, s, &in);
  json_begin_object(&j);
  assert_true(json_next_key(&j, &key));
  json_init_at(&again, s, &in, (str){text + 10, 20});
  json_raw(&again); /* meets `tru` */
}

static void raw_parts_keep_their_offsets(void **state)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  (void)state;
  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, raw_body, NULL), RUSH_EFORMAT);
  assert_string_equal(err.message, "f: offset 24: expected a value, found 't'");
  rush_error_clear(&err);
  test_context_done(c);
}

static void unread_body(session *s, void *arg)
{
  static const char *const whole[] = {
    "{\"a]}\": [1, {\"\\\"}\": \"{{{{{{{{{{{{\\\\\"}]}",
    "[tru, \"\\u00zz\"]", "[[1}}", "{}", "12", "\"]\""};
  text_buf *t = arg;
  json j;

  for (size_t i = 0; i < COUNT_OF(whole); i++) {
    text_clear(t);
    text_printf(t, "[%s , 7]", whole[i]);
    const input in = {"f", {t->data, t->len}};
    json_init(&j, s, &in);
    json_begin_array(&j);
    assert_true(json_next_item(&j));
    assert_true(str_is(json_unread(&j), whole[i]));
    assert_true(json_next_item(&j));
    assert_int_equal(json_int(&j), 7);
    assert_false(json_next_item(&j));
    json_end(&j);
  }
  const input cut = {"f", STR("[[1, \"]]")};
  json_init(&j, s, &cut);
  json_unread(&j);
}

/* Run the body with a text of its own; it ends with this status, and message if it fails. */
static void run_with_text(void (*body)(session *s, void *arg), rush_status status,
                          const char *message)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  text_buf t;
  text_init(&t, c);
  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, body, &t), status);
  if (message)
    assert_string_equal(err.message, message);
  rush_error_clear(&err);
  text_free(&t);
  test_context_done(c);
}

static void unread_parts_end_where_their_brackets_close(void **state)
{
  (void)state;
  run_with_text(unread_body, RUSH_EFORMAT, "f: offset 0: a value without end");
}

/* A value of random brackets, strings with escapes and scalars. */
static void random_value(text_buf *t, uint64_t *seed, int depth)
{
  static const char *const scalars[] = {
    "1",           "-2.5e3",       "true",     "null",
    "\"\"",        "\"[{\\\"}]\"", "\"\\\\\"", "\"a longer text without any of it\"",
    "\"\xc3\xa9\""};
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const unsigned pick = (unsigned)(*seed >> 40);
  const int n = (int)(pick % 5);

  if (depth == 0 || pick % 3 == 0) {
    text_puts(t, scalars[pick % COUNT_OF(scalars)]);
    return;
  }
  text_putc(t, pick % 2 ? '[' : '{');
  for (int i = 0; i < n; i++) {
    if (i)
      text_puts(t, pick % 7 ? "," : " , ");
    if (pick % 2 == 0)
      text_printf(t, "\"k]%d\": ", i);
    random_value(t, seed, depth - 1);
  }
  text_putc(t, pick % 2 ? ']' : '}');
}

static void random_body(session *s, void *arg)
{
  text_buf *t = arg;
  uint64_t seed = 1;
  json j;

  for (int i = 0; i < 3000; i++) {
    text_clear(t);
    random_value(t, &seed, i % 9);
    const size_t n = t->len;
    text_puts(t, " ,\"]}");
    const input in = {"f", {t->data, t->len}};
    json_init(&j, s, &in);
    const str checked = json_raw(&j);
    json_init(&j, s, &in);
    const str found = json_unread(&j);
    assert_true(checked.p == found.p && checked.len == found.len && found.len == n);
  }
}

static void unread_values_are_as_long_as_checked_ones(void **state)
{
  (void)state;
  run_with_text(random_body, RUSH_OK, NULL);
}

/* Every beginning of a value ends without its end, in memory of just its size. */
static void cut_body(session *s, void *arg)
{
  text_buf *t = arg;
  json j;
  const input in = {"f", {t->data, t->len}};

  json_init(&j, s, &in);
  json_unread(&j);
}

static void cut_values_are_refused(void **state)
{
  context *c = test_context(NULL);
  uint64_t seed = 5;
  text_buf t;
  (void)state;
  text_init(&t, c);
  text_putc(&t, '[');
  for (int i = 0; i < 40; i++) {
    random_value(&t, &seed, 5);
    text_putc(&t, ',');
  }
  for (size_t n = 1; n <= t.len; n += n < 200 ? 1 : 37) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    char *just = malloc(n);
    assert_non_null(just);
    memcpy(just, t.data, n);
    text_buf part = {.data = just, .len = n};
    call_ctx_init(&cx, c, &err);
    assert_int_equal(session_run(&cx, cut_body, &part), RUSH_EFORMAT);
    assert_string_equal(err.message, "f: offset 0: a value without end");
    rush_error_clear(&err);
    free(just);
  }
  text_free(&t);
  test_context_done(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_come_back_as_written),
      cmocka_unit_test(bad_text_is_refused_with_place_and_offset),
      cmocka_unit_test(strings_and_keys_are_checked_when_read),
      cmocka_unit_test(many_keys_are_told_apart),
      cmocka_unit_test(nesting_is_limited),
      cmocka_unit_test(raw_parts_keep_their_offsets),
      cmocka_unit_test(unread_parts_end_where_their_brackets_close),
      cmocka_unit_test(unread_values_are_as_long_as_checked_ones),
      cmocka_unit_test(cut_values_are_refused),
  };
  return RUN_TESTS(tests);
}
