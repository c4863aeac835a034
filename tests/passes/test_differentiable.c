/* Test which nodes a graph that is differentiated may contain. */
#include "support/test.h"

#include "passes/passes.h"

typedef struct job {
  const char *text;
  bool node, block; /* answers: of the first node, of the graph */
} job;

static void release_program_of(void *p) { program_release(p); }

static void ask(session *s, void *arg)
{
  job *j = arg;
  program *p = program_new(s, s->cx->ctx);

  session_defer(s, release_program_of, p);
  ir_graph *g = ir_parse(s, &p->types, j->text);
  session_defer(s, ir_graph_free_deferred, g);
  j->node = pass_is_differentiable(s, ir_block_first(g->block));
  j->block = pass_needs_gradient(s, g->block);
}

static job answers(const char *text)
{
  rush_error err = RUSH_ERROR_INIT;
  context *c;
  call_ctx cx;
  job j = {.text = text};

  assert_int_equal(context_new(NULL, &c, NULL), RUSH_OK);
  call_ctx_init(&cx, c, &err);
  if (session_run(&cx, ask, &j) != RUSH_OK)
    fail_msg("%s: %s", text, err.message);
  context_release(c);
  return j;
}

static void check(const char *text, bool node, bool block)
{
  const job j = answers(text);

  if (j.node != node || j.block != block)
    fail_msg("%s: node %d, block %d", text, j.node, j.block);
}

static void formulas_decide(void **state)
{
  (void)state;
  check("graph(%x : Tensor):\n  %y : Tensor = aten::tanh(%x)\n  return (%y)", true, true);
  check("graph(%x : Float(2, requires_grad=0)):\n  %y : Float(2, requires_grad=0) = "
        "aten::tanh(%x)\n  return (%y)",
        true, false);
  check("graph(%x : Tensor):\n  %y : int[] = aten::size(%x)\n  return (%y)", true, false);
  check("graph(%x : Tensor, %y : Tensor):\n  %z : Tensor[] = prim::ListConstruct(%x, %y)\n"
        "  return (%z)",
        true, false);
}

static void writes_random_numbers_and_blocks_are_refused(void **state)
{
  (void)state;
  check("graph(%x : Tensor):\n  %y : Tensor = aten::tanh_(%x)\n  return (%y)", false, true);
  check("graph(%x : Tensor, %p : float, %t : bool):\n  %y : Tensor = aten::dropout(%x, %p, %t)\n"
        "  return (%y)",
        false, false);
  check("graph(%x : Tensor, %c : bool):\n  %y : Tensor = prim::If(%c)\n    block0():\n"
        "      %z : Tensor = aten::tanh(%x)\n      -> (%z)\n    block1():\n      -> (%x)\n"
        "  return (%y)",
        false, true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(formulas_decide),
    cmocka_unit_test(writes_random_numbers_and_blocks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
