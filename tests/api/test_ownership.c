/* Test what a program owns and what keeps it alive: nothing is held after the last release, and
 * results outlive their module. */
#include "support/oom.h"

#include "rushlight/rushlight.h"

static const char text[] = "import enum\n"
                           "from typing import List, NamedTuple, Tuple\n"
                           "class Mode(enum.Enum):\n"
                           "  A = 1\n"
                           "  B = 2\n"
                           "class Pair(NamedTuple):\n"
                           "  x: int\n"
                           "  y: float = 2.5\n"
                           "class Acc(object):\n"
                           "  def __init__(self, n: int):\n"
                           "    self.n = n\n"
                           "def pairs(k: int) -> List[Pair]:\n"
                           "  return [Pair(k)]\n"
                           "def modes(k: int) -> List[Mode]:\n"
                           "  return [Mode.A, Mode.B] if k > 0 else [Mode.B]\n"
                           "def mode(k: int) -> Mode:\n"
                           "  return Mode.A\n"
                           "def objects(k: int) -> List[Acc]:\n"
                           "  return [Acc(k)]\n"
                           "def nested(k: int) -> List[List[Tuple[int, str]]]:\n"
                           "  return [[(1, 'a')]]\n";

static const struct {
  const char *method;
  const char *shown;
} calls[] = {
  {"pairs", "[(1, 2.5)]"},
  {"modes", "[Enum<Mode.A>, Enum<Mode.B>]"},
  {"mode", "Enum<Mode.A>"},
  {"objects", "[<__torch__.Acc object>]"},
  {"nested", "[[(1, a)]]"},
};
#define N_CALLS (sizeof calls / sizeof *calls)

static void check(rush_status st, const rush_error *err)
{
  if (st != RUSH_OK)
    fail_msg("%s: %s", rush_status_name(st), err->message ? err->message : "");
}

static void results_outlive_their_module_and_nothing_is_held(void **state)
{
  (void)state;
  oom_state o = {0};
  context_options opt = {.allocator = {oom_alloc, oom_free, &o}, .n_threads = 1, .no_cache = true};
  rush_context *c = test_context(&opt);
  rush_value results[N_CALLS], one = rush_value_int(1);
  rush_module *m;

  check(rush_module_compile(c, text, sizeof text - 1, NULL, &m, &o.err), &o.err);
  for (size_t i = 0; i < N_CALLS; i++)
    check(rush_module_call(m, calls[i].method, &one, 1, &results[i], &o.err), &o.err);
  rush_module_release(m);
  for (size_t i = 0; i < N_CALLS; i++) {
    char *shown;
    check(rush_value_to_text(c, results[i], false, &shown, &o.err), &o.err);
    assert_string_equal(shown, calls[i].shown);
    rush_free_text(c, shown);
    rush_value_release(results[i]);
  }
  rush_context_release(c);
  assert_int_equal(o.held, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(results_outlive_their_module_and_nothing_is_held),
  };
  return RUN_TESTS(tests);
}
