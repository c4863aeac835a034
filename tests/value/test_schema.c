#include "support/oom.h"

#include "value/schema.h"

typedef struct job {
  const char *text;
  text_buf printed;
  schema *sc;
} job;

static void release_store(void *ts) { type_store_release(ts); }

static void parse_and_print(session *s, void *arg)
{
  job *j = arg;
  type_store *ts = type_store_new(s->cx->ctx);
  if (!ts)
    session_check(s, call_nomem(s->cx));
  session_defer(s, release_store, ts);
  j->sc = schema_parse(s, s->mem, ts, j->text);
  schema_print(&j->printed, j->sc);
}

/* Every schema that PyTorch registers is printed byte for byte as it was parsed. */
static void all_schemas_round_trip(void **state)
{
  (void)state;
  char path[4096];
  const char *data = getenv("RUSH_TEST_DATA");
  if (!data || strlen(data) < 11)
    skip(); /* .../tests/data; the folder itself may be missing */
  snprintf(path, sizeof path, "%.*s/src/ops/schemas.txt", (int)strlen(data) - 11, data);
  FILE *f = fopen(path, "r");
  if (!f)
    skip();
  context *c = test_context(NULL);
  static char line[65536];
  int n = 0;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = '\0';
    if (!line[0] || line[0] == '#')
      continue;
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    call_ctx_init(&cx, c, &err);
    job j = {.text = line};
    text_init(&j.printed, c);
    if (session_run(&cx, parse_and_print, &j) != RUSH_OK)
      fail_msg("%s: %s", line, err.message);
    assert_string_equal(text_str(&j.printed), line);
    text_free(&j.printed);
    n++;
  }
  fclose(f);
  test_context_done(c);
  assert_true(n > 4000);
}

static void bad_schemas_say_where(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "", "aten::add", "aten::add(", "aten::add(Tensor self", "aten::add(Tensor self) -> ",
      "aten::add(Tensor) -> Tensor", "aten::add(Foo x) -> Tensor", "aten::add(int x=) -> ()",
      "aten::add(str x=\"a) -> ()", "aten::f(Dict(int) x) -> ()", "aten::f(Tensor(a x) -> ()",
      "aten::f(int x=1-2) -> ()", "aten::f(Tensor x) -> Tensor y z"};
  context *c = test_context(NULL);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    call_ctx_init(&cx, c, &err);
    job j = {.text = bad[i]};
    text_init(&j.printed, c);
    assert_int_not_equal(session_run(&cx, parse_and_print, &j), RUSH_OK);
    assert_non_null(strstr(err.message, "at column"));
    rush_error_clear(&err);
    text_free(&j.printed);
  }
  test_context_done(c);
}

static void parsing_survives_allocation_failure(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    job j = {.text = "a::b.c(Tensor(a!) self, (int, tVal)[] x, int[2] st=1, str? m=\"a\\n\", *, "
                     "Dict(str, Tensor?[])(b)? d) -> (Tensor(a!), int)"};
    text_init(&j.printed, cx.ctx);
    rush_status st = session_run(&cx, parse_and_print, &j);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
    text_free(&j.printed);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_schemas_round_trip),
      cmocka_unit_test(bad_schemas_say_where),
      cmocka_unit_test(parsing_survives_allocation_failure),
  };
  return RUN_TESTS(tests);
}
