/* Test forked tasks that wait for each other: no C stack, limits of bytes and time, errors. */
#include "support/graphs.h"
#include "support/oom.h"

#include <pthread.h>

#include "base/clock.h"
#include "run/stack.h"

/* chain(n): n tasks, each waiting for the one before; backwards(n): the same, but no task is waited
 * for; broken(n): the first divides by 0. */
static const char *const texts[][2] = {
    {"first", "graph(%n : int):\n"
              "  %one : int = prim::Constant[value=1]()\n"
              "  %a : int = aten::floordiv(%one, %n)\n"
              "  return (%a)\n"},
    {"step", "graph(%f : Future[int]):\n"
             "  %one : int = prim::Constant[value=1]()\n"
             "  %a : int = aten::wait(%f)\n"
             "  %b : int = aten::add(%a, %one)\n"
             "  return (%b)\n"},
    {"chain", "graph(%n : int, %k : int):\n"
              "  %true : bool = prim::Constant[value=1]()\n"
              "  %f0 : Future[int] = prim::fork[name=\"first\"](%k)\n"
              "  %f : Future[int] = prim::Loop(%n, %true, %f0)\n"
              "    block0(%i : int, %g : Future[int]):\n"
              "      %h : Future[int] = prim::fork[name=\"step\"](%g)\n"
              "      -> (%true, %h)\n"
              "  %r : int = aten::wait(%f)\n"
              "  return (%r)\n"},
    {"unwaited", "graph(%n : int, %k : int):\n"
                 "  %true : bool = prim::Constant[value=1]()\n"
                 "  %f0 : Future[int] = prim::fork[name=\"first\"](%k)\n"
                 "  %f : Future[int] = prim::Loop(%n, %true, %f0)\n"
                 "    block0(%i : int, %g : Future[int]):\n"
                 "      %h : Future[int] = prim::fork[name=\"step\"](%g)\n"
                 "      -> (%true, %h)\n"
                 "  return (%n)\n"},
    {"listed", "graph(%n : int, %k : int):\n"
               "  %true : bool = prim::Constant[value=1]()\n"
               "  %f0 : Future[int] = prim::fork[name=\"first\"](%k)\n"
               "  %l : Future[int][] = prim::ListConstruct(%f0)\n"
               "  %f : Future[int] = prim::Loop(%n, %true, %f0)\n"
               "    block0(%i : int, %g : Future[int]):\n"
               "      %h : Future[int] = prim::fork[name=\"step\"](%g)\n"
               "      %m : Future[int][] = aten::append(%l, %h)\n"
               "      -> (%true, %h)\n"
               "  %r : int = aten::wait(%f)\n"
               "  return (%r)\n"},
};

typedef struct fixture {
  context *c;
  call_ctx cx;
  rush_error err;
  program *p;
  function *functions[COUNT_OF(texts)];
} fixture;

static function *named(fixture *f, const char *name)
{
  for (size_t i = 0; i < COUNT_OF(texts); i++)
    if (strcmp(texts[i][0], name) == 0)
      return f->functions[i];
  return NULL;
}

static void begin(fixture *f, const context_options *opt)
{
  *f = (fixture){.c = test_context(opt)};
  call_ctx_init(&f->cx, f->c, &f->err);
  assert_int_equal(run_init(f->c, &f->err), RUSH_OK);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    graph_text j = {.name = texts[i][0], .text = texts[i][1], .p = f->p};
    if (session_run(&f->cx, define_graph, &j) != RUSH_OK)
      fail_msg("%s: %s", texts[i][0], f->err.message);
    f->p = j.p;
    f->functions[i] = j.f;
  }
}

static void end(fixture *f)
{
  program_release(f->p);
  rush_error_clear(&f->err);
  context_release(f->c);
}

typedef struct call {
  fixture *f;
  const char *name;
  int64_t n, k;
  rush_value result;
  rush_status status;
} call;

static void *make_call(void *arg)
{
  call *c = arg;
  rush_value args[2] = {value_int(c->n), value_int(c->k)};

  c->result = value_none();
  c->status = function_call(&c->f->cx, named(c->f, c->name), args, 2, &c->result);
  return NULL;
}

/* Run on a thread with a small stack. */
static call call_of(fixture *f, const char *name, int64_t n, int64_t k)
{
  call c = {.f = f, .name = name, .n = n, .k = k};
  pthread_attr_t attr;
  pthread_t thread;

  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 256 * 1024);
  assert_int_equal(pthread_create(&thread, &attr, make_call, &c), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
  return c;
}

enum { MANY = 300000 };

static void long_chains_use_no_c_stack(void **state)
{
  (void)state;
  fixture f;
  begin(&f, &(context_options){.n_threads = 1});
  const char *const names[] = {"chain", "listed", "unwaited"};
  for (int i = 0; i < 3; i++) {
    call c = call_of(&f, names[i], MANY, 1);
    if (c.status != RUSH_OK)
      fail_msg("%s: %s", names[i], f.err.message);
    assert_int_equal(c.result.as.i, i < 2 ? MANY + 1 : MANY);
    assert_int_equal(f.cx.depth, 0);
  }
  end(&f);
}

static void an_error_goes_up_the_chain(void **state)
{
  (void)state;
  fixture f;
  mem_stats before, after;
  begin(&f, &(context_options){.n_threads = 1});
  const char *const names[] = {"chain", "listed", "unwaited"};
  for (int i = 0; i < 3; i++) { /* which makes their code */
    call_of(&f, names[i], 3, 0);
    rush_error_clear(&f.err);
  }
  mem_get_stats(f.c, &before);
  for (int i = 0; i < 2; i++)
    for (int64_t n = 3; n <= MANY; n = n * 200) {
      call c = call_of(&f, names[i], n, 0);
      assert_int_equal(c.status, RUSH_ERAISED);
      assert_string_equal(f.err.type, "RuntimeError");
      assert_non_null(strstr(f.err.message, "division by 0"));
      assert_true(strlen(f.err.message) < 200000);
      assert_int_equal(f.cx.depth, 0);
      rush_error_clear(&f.err);
    }
  assert_int_equal(call_of(&f, "unwaited", 1000, 0).status, RUSH_OK); /* nobody hears of it */
  mem_get_stats(f.c, &after);
  assert_true(after.live_bytes <= before.live_bytes + 4096);
  end(&f);
}

static void limits_end_a_chain(void **state)
{
  (void)state;
  fixture f;
  begin(&f, &(context_options){.n_threads = 1, .limit_bytes = 16 << 20});
  assert_int_equal(call_of(&f, "chain", MANY * 10, 1).status, RUSH_ELIMIT);
  rush_error_clear(&f.err);
  assert_int_equal(call_of(&f, "chain", 1000, 1).status, RUSH_OK);
  end(&f);

  begin(&f, &(context_options){.n_threads = 1, .limit_depth = 20});
  call c = call_of(&f, "chain", 20 * 2048 + 10, 1);
  assert_int_equal(c.status, RUSH_ELIMIT);
  assert_string_equal(f.err.type, "RecursionError");
  assert_int_equal(f.cx.depth, 0);
  rush_error_clear(&f.err);
  assert_int_equal(call_of(&f, "chain", 20 * 2048 - 10, 1).status, RUSH_OK);
  end(&f);
}

static void a_deadline_ends_a_chain(void **state)
{
  (void)state;
  static const char *const names[] = {"chain", "unwaited"};
  fixture f;
  begin(&f, &(context_options){.n_threads = 1});
  for (int i = 0; i < 2; i++)
    for (int ms = 1; ms < 30; ms += 7) {
      uint64_t start = clock_ns();
      f.cx.deadline_ns = start + (uint64_t)ms * 1000000;
      call c = call_of(&f, names[i], MANY * 10, 1);
      assert_int_equal(c.status, RUSH_ELIMIT);
      if (getenv("RUSH_SHOW_TIMES"))
        printf("%s: %d ms became %.1f\n", names[i], ms, (double)(clock_ns() - start) / 1e6);
      rush_error_clear(&f.err);
    }
  end(&f);
}

static void failed_allocations_leave_nothing(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    program *p = NULL;
    function *fn = NULL;
    rush_value args[2] = {value_int(3), value_int(0)}, v;
    rush_status st = run_init(cx.ctx, cx.err);

    for (size_t i = 0; st == RUSH_OK && i < COUNT_OF(texts); i++) {
      graph_text j = {.name = texts[i][0], .text = texts[i][1], .p = p};
      st = session_run(&cx, define_graph, &j);
      if (st == RUSH_OK)
        p = j.p;
      if (st == RUSH_OK && strcmp(texts[i][0], "listed") == 0)
        fn = j.f;
    }
    if (st == RUSH_OK && function_call(&cx, fn, args, 2, &v) == RUSH_OK)
      fail_msg("a division by 0 succeeded");
    program_release(p);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(long_chains_use_no_c_stack), cmocka_unit_test(an_error_goes_up_the_chain),
      cmocka_unit_test(limits_end_a_chain),         cmocka_unit_test(a_deadline_ends_a_chain),
      cmocka_unit_test(failed_allocations_leave_nothing),
  };
  return RUN_TESTS(tests);
}
