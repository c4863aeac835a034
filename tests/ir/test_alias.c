/* Test which graphs write to their first argument: views, containers, branches, loops, training. */
#include "support/graphs.h"
#include "support/oom.h"

#include "ir/alias.h"

typedef struct row {
  const char *claim,
    *body; /* body of graph(%self : Tensor[], %x : Tensor) with constants %0 and %t, %f */
  bool eval, train;
} row;

static const char head[] =
    "graph(%self : Tensor[], %x : Tensor, %b : bool):\n"
    "  %0 : int = prim::Constant[value=0]()\n"
    "  %1 : int = prim::Constant[value=1]()\n"
    "  %n : NoneType = prim::Constant()\n"
    "  %t : bool = prim::Constant[value=1]()\n"
    "  %f : bool = prim::Constant[value=0]()\n"
    "  %e : float = prim::Constant[value=0.1]()\n"
    "  %s : Tensor = aten::__getitem__(%self, %0)\n";

static const row rows[] = {
  {"an argument of its own may be written",
   "  %y : Tensor = aten::add_(%x, %x, %1)\n  return (%y)\n", false, false},
  {"a fresh result may be written",
   "  %y : Tensor = aten::add(%s, %x, %1)\n  %z : Tensor = aten::add_(%y, %x, %1)\n  return (%z)\n",
   false, false},
  {"an item is written", "  %y : Tensor = aten::add_(%s, %x, %1)\n  return (%y)\n", true, true},
  {"a view of an item is written",
   "  %v : Tensor = aten::select(%s, %0, %0)\n  %y : Tensor = aten::add_(%v, %x, %1)\n  return "
   "(%y)\n",
   true, true},
  {"something is appended", "  %l : Tensor[] = aten::append(%self, %x)\n  return (%x)\n", true,
   true},
  {"an item goes through a new list",
   "  %l : Tensor[] = prim::ListConstruct(%x, %s)\n  %v : Tensor = aten::__getitem__(%l, %1)\n"
   "  %y : Tensor = aten::add_(%v, %x, %1)\n  return (%y)\n",
   true, true},
  {"concatenation copies",
   "  %l : Tensor[] = prim::ListConstruct(%x, %s)\n  %v : Tensor = aten::cat(%l, %0)\n"
   "  %y : Tensor = aten::add_(%v, %x, %1)\n  return (%y)\n",
   false, false},
  {"a branch may choose the item",
   "  %v : Tensor = prim::If(%b)\n    block0():\n      -> (%s)\n    block1():\n      -> (%x)\n"
   "  %y : Tensor = aten::add_(%v, %x, %1)\n  return (%y)\n",
   true, true},
  {"a known branch does not",
   "  %v : Tensor = prim::If(%f)\n    block0():\n      -> (%s)\n    block1():\n      -> (%x)\n"
   "  %y : Tensor = aten::add_(%v, %x, %1)\n  return (%y)\n",
   false, false},
  {"a loop carries the item",
   "  %v : Tensor = prim::Loop(%1, %t, %x)\n    block0(%i : int, %c : Tensor):\n"
   "      %y : Tensor = aten::add_(%c, %x, %1)\n      -> (%t, %s)\n  return (%v)\n",
   true, true},
  {"batch norm writes when it trains",
   "  %y : Tensor = aten::batch_norm(%x, %n, %n, %s, %s, %t, %e, %e, %f)\n  return (%y)\n", true,
   true},
  {"batch norm does not write otherwise",
   "  %y : Tensor = aten::batch_norm(%x, %n, %n, %s, %s, %f, %e, %e, %f)\n  return (%y)\n", false,
   false},
};

static void writes_are_found(void **state)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  (void)state;

  call_ctx_init(&cx, c, &err);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    char text[2000];
    graph_text j = {.name = "f", .text = text};
    snprintf(text, sizeof text, "%s%s", head, rows[i].body);
    if (session_run(&cx, define_graph, &j) != RUSH_OK)
      fail_msg("%s: %s", rows[i].claim, err.message);
    j.f->state = FUNCTION_COMPILED;
    if (function_changes_state(&cx, j.f, false) != rows[i].eval)
      fail_msg("%s: eval", rows[i].claim);
    if (function_changes_state(&cx, j.f, true) != rows[i].train)
      fail_msg("%s: training", rows[i].claim);
    program_release(j.p);
  }
  rush_error_clear(&err);
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(writes_are_found)};
  return RUN_TESTS(tests);
}
