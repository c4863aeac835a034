/* Test how many bytes of results live at once, against sums by hand. */
#include "support/graphs.h"

#include "ir/live.h"

typedef struct row {
  const char *claim, *text;
  uint64_t bytes; /* the tensors a, b ... below have 400 bytes: 448 */
  uint32_t n_results, n_unknown;
} row;

#define T "Float(10, 10, strides=[10, 1], device=cpu)"
#define HEAD                                                                                      \
  "graph(%x : " T ", %w : " T ", %c : bool, %n : int):\n"                                          \
  "  %1 : int = prim::Constant[value=1]()\n  %t : bool = prim::Constant[value=1]()\n"

static const row rows[] = {
  {"a result lives to its last reader",
   HEAD "  %a : " T " = aten::mm(%x, %w)\n  %b : " T " = aten::mm(%a, %w)\n"
        "  %d : " T " = aten::mm(%b, %w)\n  return (%d)\n",
   896, 3, 0},
  {"a dying argument's buffer is taken over",
   HEAD "  %a : " T " = aten::mm(%x, %w)\n  %b : " T " = aten::relu(%a)\n"
        "  %d : " T " = aten::neg(%b)\n  return (%d)\n",
   448, 3, 0},
  {"a product takes none",
   HEAD "  %a : " T " = aten::relu(%x)\n  %b : " T " = aten::mm(%a, %w)\n  return (%b)\n", 896, 2,
   0},
  {"a view keeps its base and takes nothing",
   HEAD "  %a : " T " = aten::mm(%x, %w)\n  %v : Float(10, 10, strides=[1, 10], device=cpu) = "
        "aten::t(%a)\n  %b : " T " = aten::mm(%x, %w)\n  %d : " T " = aten::mm(%v, %b)\n"
        "  return (%d)\n",
   1344, 3, 0},
  {"a list keeps its items",
   HEAD "  %a : " T " = aten::mm(%x, %w)\n  %b : " T " = aten::mm(%x, %w)\n"
        "  %l : Tensor[] = prim::ListConstruct(%a, %b)\n"
        "  %d : Float(20, 10, strides=[10, 1], device=cpu) = aten::cat(%l, %1)\n  return (%d)\n",
   2 * 448 + 832, 3, 0},
  {"what a loop reads from outside lives to its end",
   HEAD "  %a : " T " = aten::mm(%x, %w)\n  %b : " T " = prim::Loop(%n, %t, %x)\n"
        "    block0(%i : int, %y : " T "):\n      %d : " T " = aten::mm(%y, %a)\n"
        "      %e : " T " = aten::mm(%d, %w)\n      -> (%t, %e)\n  return (%b)\n",
   3 * 448, 3, 0},
  {"the sides of a branch are one group: their sum, on the safe side",
   HEAD "  %a : " T " = prim::If(%c)\n    block0():\n      %b : " T " = aten::mm(%x, %w)\n"
        "      -> (%b)\n    block1():\n      %d : " T " = aten::mm(%x, %w)\n"
        "      %e : " T " = aten::relu(%d)\n      -> (%e)\n  return (%a)\n",
   896, 3, 0},
  {"arguments take nothing; unknown sizes are counted",
   HEAD "  %a : Tensor = aten::mm(%x, %w)\n  %b : " T " = aten::mm(%x, %w)\n  return (%b)\n", 448,
   1, 1},
  {"an empty tensor takes nothing",
   HEAD "  %a : Float(0, 10, strides=[10, 1], device=cpu) = aten::mm(%x, %w)\n  return (%a)\n", 0,
   1, 0},
};

static void measure(session *s, void *arg)
{
  void **io = arg;
  const function *f = io[0];
  ir_live_set *out = io[1];

  *out = ir_live_set_of(s, f->graph);
}

static void live_sets_are_those_by_hand(void **state)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;

  (void)state;
  call_ctx_init(&cx, c, &err);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    graph_text g = {.name = "f", .text = rows[i].text};
    ir_live_set got;
    if (session_run(&cx, define_graph, &g) != RUSH_OK)
      fail_msg("%s: %s", rows[i].claim, err.message);
    assert_int_equal(session_run(&cx, measure, (void *[]){g.f, &got}), RUSH_OK);
    if (got.bytes != rows[i].bytes || got.n_results != rows[i].n_results ||
        got.n_unknown != rows[i].n_unknown)
      fail_msg("%s: %llu bytes, %u results, %u unknown", rows[i].claim,
               (unsigned long long)got.bytes, got.n_results, got.n_unknown);
    program_release(g.p);
  }
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(live_sets_are_those_by_hand)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
