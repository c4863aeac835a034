#include "support/oom.h"

#include "base/session.h"

typedef struct job {
  int released, kept, inner;
  bool fail;
} job;

static void count(void *object) { ++*(int *)object; }

static void body_with_defers(session *s, void *arg)
{
  job *j = arg;
  session_defer(s, count, &j->released);
  session_defer(s, count, &j->kept);
  char *text = session_printf(s, "%s %d", session_strdup(s, "number"), 7);
  assert_string_equal(text, "number 7");
  int *zeros = session_array(s, int, 1000);
  assert_int_equal(zeros[999], 0);
  assert_ptr_equal(session_keep(s, &j->kept), &j->kept);
  if (j->fail)
    session_fail(s, NULL, "stopped at %d", 5);
}

static void releases_run_however_it_ends(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  job ok = {0}, bad = {.fail = true};
  assert_int_equal(session_run(&cx, body_with_defers, &ok), RUSH_OK);
  assert_int_equal(ok.released, 1);
  assert_int_equal(ok.kept, 0);
  assert_int_equal(session_run(&cx, body_with_defers, &bad), RUSH_ERAISED);
  assert_int_equal(bad.released, 1);
  assert_string_equal(err.message, "stopped at 5");
  assert_int_equal(cx.depth, 0);
  rush_error_clear(&err);
  test_context_done(c);
}

static void nested(session *s, void *arg)
{
  job inner = {.fail = true}, *j = arg;
  session_defer(s, count, &j->released);
  assert_int_equal(session_run(s->cx, body_with_defers, &inner), RUSH_ERAISED);
  j->inner = inner.released;
  session_check(s, RUSH_OK);
  session_check(s, call_fail(s->cx, "passed on"));
}

static void sessions_nest(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  job j = {0};
  assert_int_equal(session_run(&cx, nested, &j), RUSH_ERAISED);
  assert_int_equal(j.released, 1);
  assert_int_equal(j.inner, 1);
  assert_string_equal(err.message, "passed on");
  rush_error_clear(&err);
  test_context_done(c);
}

static void dig(session *s, void *arg)
{
  for (;;) { /* like a parser that reads "((((" */
    session_enter(s);
    ++*(int *)arg;
  }
}

static void nesting_is_limited(void **state)
{
  (void)state;
  context *c = test_context(&(context_options){.limit_depth = 100});
  int depth = 0;
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  assert_int_equal(session_run(&cx, dig, &depth), RUSH_ELIMIT);
  assert_int_equal(depth, 100);
  test_context_done(c);
}

static void fail_with_excerpt(session *s, void *arg)
{
  source *src = source_new(s->cx->ctx, "f.py", "a\nbc\nd\n", 7);
  if (!src)
    session_check(s, call_nomem(s->cx));
  session_defer(s, (void (*)(void *))source_release, src);
  for (int i = 0; i < *(int *)arg; i++)
    session_alloc(s, 1000);
  session_fail(s, &(source_range){src, 2, 4}, "undefined value %s", "bc");
}

static void any_allocation_may_fail(void **state)
{
  (void)state;
  rush_status last = RUSH_OK;
  int n = 100;
  OOM_LOOP(cx)
  {
    last = session_run(&cx, fail_with_excerpt, &n);
    assert_true(last == RUSH_ERAISED || last == RUSH_ENOMEM);
    if (last == RUSH_ERAISED)
      assert_string_equal(cx.err->message, "\nundefined value bc:\n  File \"f.py\", line 2\n"
                                           "a\nbc\n~~ <--- HERE\nd\n");
  }
  assert_int_equal(last, RUSH_ERAISED);
}

static void arenas_align_and_free(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  arena a;
  arena_init(&a, c);
  for (size_t n = 0; n < 100000; n = n * 5 / 4 + 1) {
    char *p = arena_alloc(&a, n);
    assert_int_equal((uintptr_t)p % 16, 0);
    memset(p, 'x', n);
  }
  mem_stats s;
  mem_get_stats(c, &s);
  assert_int_equal(s.live_bytes, a.total_bytes);
  assert_null(arena_alloc(&a, SIZE_MAX));
  arena_free(&a);
  mem_get_stats(c, &s);
  assert_int_equal(s.live_bytes, 0);
  test_context_done(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(releases_run_however_it_ends), cmocka_unit_test(sessions_nest),
    cmocka_unit_test(nesting_is_limited),           cmocka_unit_test(any_allocation_may_fail),
    cmocka_unit_test(arenas_align_and_free),
  };
  return RUN_TESTS(tests);
}
