/* Run graphs from text: control flow, liveness, calls, errors. */
#include "support/graphs.h"
#include "support/oom.h"

#include "run/code_int.h"

static rush_status add(call_ctx *cx, program **p, const char *name, const char *text, function **f)
{
  graph_text j = {.text = text, .name = name, .p = *p};
  rush_status st = session_run(cx, define_graph, &j);

  if (st == RUSH_OK) {
    *f = j.f;
    *p = j.p;
  }
  return st;
}

typedef struct fixture {
  context *c;
  call_ctx cx;
  rush_error err;
  program *p;
  char printed[512];
  long held; /* blocks of memory */
} fixture;

static void *count_alloc(void *user, size_t n_bytes)
{
  ((fixture *)user)->held++;
  return malloc(n_bytes);
}

static void count_free(void *user, void *p, size_t n_bytes)
{
  (void)n_bytes;
  ((fixture *)user)->held--;
  free(p);
}

static void keep_print(void *user, const char *text, size_t len)
{
  fixture *f = user;
  size_t at = strlen(f->printed);

  if (at + len < sizeof f->printed) {
    memcpy(f->printed + at, text, len);
    f->printed[at + len] = '\0';
  }
}

static int setup(void **state)
{
  fixture *f = calloc(1, sizeof *f);
  context_options opt = {.allocator = {count_alloc, count_free, f},
                         .print = keep_print,
                         .callback_user = f,
                         .n_threads = 1,
                         .no_cache = true};

  f->c = test_context(&opt);
  call_ctx_init(&f->cx, f->c, &f->err);
  assert_int_equal(run_init(f->c, &f->err), RUSH_OK);
  *state = f;
  return 0;
}

static int teardown(void **state)
{
  fixture *f = *state;

  program_release(f->p);
  rush_error_clear(&f->err);
  context_release(f->c);
  assert_int_equal(f->held, 0);
  free(f);
  return 0;
}

static function *load(fixture *f, const char *name, const char *text)
{
  function *fn = NULL;

  if (add(&f->cx, &f->p, name, text, &fn) != RUSH_OK)
    fail_msg("%s: %s", name, f->err.message);
  return fn;
}

static rush_value run(fixture *f, function *fn, const rush_value *args, uint32_t n)
{
  rush_value v = value_none();

  if (function_call(&f->cx, fn, args, n, &v) != RUSH_OK)
    fail_msg("%s\n%s", f->err.message, f->err.traceback ? f->err.traceback : "");
  return v;
}

static int64_t run_int(fixture *f, function *fn, int64_t a, int64_t b)
{
  rush_value args[2] = {value_int(a), value_int(b)};
  rush_value v = run(f, fn, args, fn->graph->block->param->n_outputs);

  assert_int_equal(v.tag, RUSH_TAG_INT);
  return v.as.i;
}

static const char sum_text[] = "graph(%n : int):\n"
                               "  %zero : int = prim::Constant[value=0]()\n"
                               "  %true : bool = prim::Constant[value=1]()\n"
                               "  %s : int = prim::Loop(%n, %true, %zero)\n"
                               "    block0(%i : int, %s.1 : int):\n"
                               "      %s.2 : int = aten::add(%s.1, %i)\n"
                               "      -> (%true, %s.2)\n"
                               "  return (%s)\n";

static void counted_loops_take_two_instructions(void **state)
{
  fixture *f = *state;
  function *fn = load(f, "sum", sum_text);
  const code *c;
  text_buf t;

  assert_int_equal(run_int(f, fn, 10, 0), 45);
  assert_int_equal(run_int(f, fn, 0, 0), 0);
  assert_int_equal(run_int(f, fn, -3, 0), 0);
  assert_int_equal(code_of(&f->cx, fn, &c), RUSH_OK);
  text_init(&t, f->c);
  code_print(&t, c);
  uint32_t n_ins = c->n_ins;
  for (const char *p = text_str(&t); (p = strstr(p, "CHECK")) != NULL; p++)
    n_ins--; /* debug builds have a bound-check after every store */
  if (!strstr(text_str(&t), "ADD_INT") || n_ins > 6)
    fail_msg("%s", text_str(&t));
  text_free(&t);
}

static void while_loops_compare_and_jump(void **state)
{
  fixture *f = *state;
  function *fn = load(f, "collatz",
                      "graph(%n.1 : int):\n"
                      "  %max : int = prim::Constant[value=9223372036854775807]()\n"
                      "  %0 : int = prim::Constant[value=0]()\n"
                      "  %1 : int = prim::Constant[value=1]()\n"
                      "  %2 : int = prim::Constant[value=2]()\n"
                      "  %3 : int = prim::Constant[value=3]()\n"
                      "  %c : bool = aten::gt(%n.1, %1)\n"
                      "  %n : int, %steps : int = prim::Loop(%max, %c, %n.1, %0)\n"
                      "    block0(%i : int, %m : int, %k : int):\n"
                      "      %r : int = aten::remainder(%m, %2)\n"
                      "      %even : bool = aten::eq(%r, %0)\n"
                      "      %m.2 : int = prim::If(%even)\n"
                      "        block0():\n"
                      "          %h : int = aten::floordiv(%m, %2)\n"
                      "          -> (%h)\n"
                      "        block1():\n"
                      "          %t : int = aten::mul(%m, %3)\n"
                      "          %u : int = aten::add(%t, %1)\n"
                      "          -> (%u)\n"
                      "      %k.2 : int = aten::add(%k, %1)\n"
                      "      %go : bool = aten::gt(%m.2, %1)\n"
                      "      -> (%go, %m.2, %k.2)\n"
                      "  return (%steps)\n");

  assert_int_equal(run_int(f, fn, 27, 0), 111);
  assert_int_equal(run_int(f, fn, 1, 0), 0);
}

/* Compute Fibonacci numbers by swapping: carried values form a cycle of moves. */
static void carried_values_move_at_once(void **state)
{
  fixture *f = *state;
  function *fn = load(f, "swap",
                      "graph(%n : int, %x : str, %y : str):\n"
                      "  %true : bool = prim::Constant[value=1]()\n"
                      "  %a : str, %b : str = prim::Loop(%n, %true, %x, %y)\n"
                      "    block0(%i : int, %p : str, %q : str):\n"
                      "      -> (%true, %q, %p)\n"
                      "  %t : (str, str) = prim::TupleConstruct(%a, %b)\n"
                      "  return (%t)\n");
  rush_value args[3] = {value_int(3)};

  assert_int_equal(string_new(&f->cx, "x", 1, &args[1]), RUSH_OK);
  assert_int_equal(string_new(&f->cx, "y", 1, &args[2]), RUSH_OK);
  rush_value v = run(f, fn, args, 3);
  assert_string_equal(v.as.tuple->items[0].as.string->text, "y");
  assert_string_equal(v.as.tuple->items[1].as.string->text, "x");
  value_release(v);
  value_release(args[1]);
  value_release(args[2]);
}

/* Every path releases what it does not use: the test's context checks that nothing is held. */
static void branches_release_what_they_do_not_use(void **state)
{
  fixture *f = *state;
  function *fn = load(f, "branch",
                      "graph(%c : bool, %d : bool):\n"
                      "  %1 : int = prim::Constant[value=1]()\n"
                      "  %none : NoneType = prim::Constant()\n"
                      "  %x : int[] = prim::ListConstruct(%1)\n"
                      "  %y : int[] = prim::ListConstruct(%1, %1)\n"
                      "  %z : int[] = prim::ListConstruct(%1, %1, %1)\n"
                      "  %r : int[] = prim::If(%c)\n"
                      "    block0():\n"
                      "      %u : int[] = prim::If(%d)\n"
                      "        block0():\n"
                      "          -> (%x)\n"
                      "        block1():\n"
                      "          = prim::Print(%y)\n"
                      "          -> (%z)\n"
                      "      -> (%u)\n"
                      "    block1():\n"
                      "      -> (%y)\n"
                      "  return (%r)\n");
  static const size_t want[4] = {2, 2, 3, 1};

  for (int k = 0; k < 4; k++) {
    rush_value args[2] = {value_bool(k & 2), value_bool(k & 1)};
    rush_value v = run(f, fn, args, 2);
    assert_int_equal(v.as.list->n, want[k]);
    value_release(v);
  }
  assert_string_equal(f->printed, "[1, 1]\n");
}

static void functions_call_each_other(void **state)
{
  fixture *f = *state;
  load(f, "sum", sum_text);
  function *fn = load(f, "twice",
                      "graph(%n : int, %m : int):\n"
                      "  %a : int = prim::CallFunction[name=\"sum\"](%n)\n"
                      "  %b : int = prim::CallFunction[name=\"sum\"](%m)\n"
                      "  %c : int = aten::mul(%a, %b)\n"
                      "  return (%c)\n");

  assert_int_equal(run_int(f, fn, 4, 5), 60);
}

static const char fork_text[] = "graph(%n : int, %m : int):\n"
                                "  %f : Future[int] = prim::fork[name=\"sum\"](%n)\n"
                                "  %g : Future[int] = prim::fork[name=\"sum\"](%m)\n"
                                "  %h : Future[int] = prim::fork[name=\"sum\"](%m)\n"
                                "  %b : int = aten::wait(%g)\n"
                                "  %a : int = aten::wait(%f)\n"
                                "  %c : int = aten::wait(%f)\n"
                                "  %d : int = aten::add(%a, %b)\n"
                                "  %e : int = aten::add(%c, %d)\n"
                                "  return (%e)\n";

static void forks_run_when_waited_for(void **state)
{
  fixture *f = *state;

  load(f, "sum", sum_text);
  assert_int_equal(run_int(f, load(f, "forks", fork_text), 3, 4), 12);
}

static void raising_fills_the_error(void **state)
{
  fixture *f = *state;
  function *fn = load(f, "raise",
                      "graph(%n : int):\n"
                      "  %m : str = prim::Constant[value=\"bad thing\"]()\n"
                      "  %k : str = prim::Constant[value=\"builtins.ValueError\"]()\n"
                      "  %l : int[] = prim::ListConstruct(%n)\n"
                      "   = prim::RaiseException(%m, %k)\n"
                      "  return (%l)\n");
  rush_value arg = value_int(1), v;

  assert_int_equal(function_call(&f->cx, fn, &arg, 1, &v), RUSH_ERAISED);
  assert_string_equal(f->err.type, "Error");
  assert_string_equal(f->err.message, "builtins.ValueError: bad thing");
  fn = load(f, "index",
            "graph(%n : int):\n"
            "  %l : int[] = prim::ListConstruct(%n)\n"
            "  %x : int = aten::__getitem__(%l, %n)\n"
            "  return (%x)\n");
  assert_int_equal(function_call(&f->cx, fn, &arg, 1, &v), RUSH_ERAISED);
  assert_string_equal(f->err.type, "RuntimeError");
  assert_string_equal(f->err.message, "list index out of range");
}

static void calls_survive_any_failed_allocation(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    program *p = NULL;
    function *fn = NULL;
    rush_value args[2] = {value_int(3), value_int(4)}, v;
    rush_status st = run_init(cx.ctx, cx.err);

    if (st == RUSH_OK)
      st = add(&cx, &p, "sum", sum_text, &fn);
    if (st == RUSH_OK)
      st = add(&cx, &p, "forks", fork_text, &fn);
    if (st == RUSH_OK)
      st = function_call(&cx, fn, args, 2, &v);
    /* An operator that could not be compiled is parsed as unknown, and raises an error when it
     * runs. */
    if (st != RUSH_OK && st != RUSH_ENOMEM && st != RUSH_EUNSUPPORTED)
      fail_msg("%s", cx.err->message);
    program_release(p);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
      TEST(counted_loops_take_two_instructions),
      TEST(while_loops_compare_and_jump),
      TEST(carried_values_move_at_once),
      TEST(branches_release_what_they_do_not_use),
      TEST(functions_call_each_other),
      TEST(forks_run_when_waited_for),
      TEST(raising_fills_the_error),
      cmocka_unit_test(calls_survive_any_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
