/* Graph text: print, parse, print is a fixed point; edits keep uses and order; the verifier finds faults. */
#include "support/oom.h"

#include "ir/graph.h"

static const char *const texts[] = {
    "graph(%x : Tensor,\n      %n.1 : int):\n"
    "  %2 : int = prim::Constant[value=1]()\n"
    "  %3 : float = prim::Constant[value=0.10000000000000001]()\n"
    "  %4 : float = prim::Constant[value=-3.]()\n"
    "  %5 : str = prim::Constant[value=\"a\\n\\\"\\303\\251\"]()\n"
    "  %6 : NoneType = prim::Constant()\n"
    "  %7 : int[] = prim::Constant[value=[1, 2, 3]]()\n"
    "  %8 : (int, str) = prim::Constant[value=(1, \"x\")]()\n"
    "  %9 : Device = prim::Constant[value=\"cpu\"]()\n"
    "  %10 : complex = prim::Constant[value=1.5-2.j]()\n"
    "  %11 : Dict(str, int) = prim::Constant[value={\"a\": 1}]()\n"
    "  %12 : int? = prim::Constant()\n"
    "  %13 : bool = aten::gt(%n.1, %2)\n"
    "  %y : int, %z : int = prim::If(%13)\n"
    "    block0():\n"
    "      %16 : int = aten::add(%n.1, %2)\n"
    "      -> (%16, %2)\n"
    "    block1():\n"
    "      -> (%n.1, %n.1)\n"
    "   = prim::Print(%y, %z)\n"
    "  %17 : Tensor = foo::bar[a=1, b=[1, 2], c=\"x\", d=1.5](%x)\n"
    "  %18 : bool = prim::isinstance[types=[int, str]](%y)\n"
    "  return (%17)\n",
    "graph(%x : Tensor):\n"
    "  %f : Future[Tensor] = prim::fork_0(%x)\n"
    "  return (%f)\n"
    "with prim::fork_0 = graph(%x : Tensor):\n"
    "  return (%x)\n",
};

typedef struct job {
  const char *text;
  text_buf out;
} job;

static void free_graph(void *g) { ir_graph_free(g); }
static void release_store(void *ts) { type_store_release(ts); }

static ir_graph *parse(session *s, const char *text)
{
  type_store *ts = type_store_new(s->cx->ctx);

  if (!ts)
    session_check(s, call_nomem(s->cx));
  session_defer(s, release_store, ts);
  ir_graph *g = ir_parse(s, ts, text);
  session_defer(s, free_graph, g);
  return g;
}

static void round_trip(session *s, void *arg)
{
  job *j = arg;
  ir_graph *g = parse(s, j->text);

  ir_verify(s, g, NULL);
  ir_graph *copy = ir_graph_copy(s, g);
  session_defer(s, free_graph, copy);
  ir_verify(s, copy, NULL);
  ir_print(&j->out, g, false);
}

static void text_round_trips(void **state)
{
  (void)state;
  context *c = test_context(NULL);

  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    call_ctx_init(&cx, c, &err);
    job j = {.text = texts[i]};
    text_init(&j.out, c);
    if (session_run(&cx, round_trip, &j) != RUSH_OK)
      fail_msg("%s", err.message);
    assert_string_equal(text_str(&j.out), texts[i]);
    text_free(&j.out);
  }
  context_release(c);
}

static void parsing_survives_any_failed_allocation(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    job j = {.text = texts[0]};
    text_init(&j.out, cx.ctx);
    rush_status st = session_run(&cx, round_trip, &j);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
    text_free(&j.out);
  }
}

static void bad_text_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "", "graph(", "graph(%x : Tensor):\n  return (%y)\n", "graph(%x : Tensor, %x : int):\n  return ()\n",
      "graph():\n  %1 : int = prim::Constant[value=]()\n  return ()\n",
      "graph():\n  %1 : str = prim::Constant[value=\"abc]()\n  return ()\n",
      "graph(%x : Bogus):\n  return ()\n", "graph(%x : int[):\n  return ()\n",
      "graph():\n  return ()\nmore",
      "graph(%f : Future[Function]):\n  return ()\n", /* a kind of type that has a name */
  };
  context *c = test_context(NULL);

  for (size_t i = 0; i < COUNT_OF(bad); i++) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    call_ctx_init(&cx, c, &err);
    job j = {.text = bad[i]};
    text_init(&j.out, c);
    assert_int_equal(session_run(&cx, round_trip, &j), RUSH_ERAISED);
    assert_non_null(strstr(err.message, "graph text, line"));
    rush_error_clear(&err);
    text_free(&j.out);
  }
  context_release(c);
}

static void edit(session *s, void *arg)
{
  (void)arg;
  ir_graph *g = parse(s, "graph(%a : int, %b : int):\n"
                         "  %x : int = aten::add(%a, %b)\n"
                         "  %y : int = aten::mul(%x, %a)\n"
                         "  return (%y)\n");
  ir_node *x = ir_block_first(g->block), *y = x->next;
  ir_value *a = ir_block_input(g->block, 0), *b = ir_block_input(g->block, 1);

  for (int i = 0; i < 200; i++) { /* more than 32: forces a renumbering */
    ir_node *n = ir_node_new(s, g, IR_CONSTANT, NULL, 0);
    ir_node_insert_after(n, x);
    assert_true(ir_node_is_before(x, n) && ir_node_is_before(n, y));
  }
  while (x->next != y)
    ir_node_destroy(x->next);
  ir_value_replace_all_uses(a, b);
  assert_false(ir_value_has_uses(a));
  assert_ptr_equal(ir_node_input(y, 1), b);
  ir_value_set_name(s, x->outputs[0], "v");
  ir_value_set_name(s, y->outputs[0], "v");
  assert_string_equal(x->outputs[0]->name, "v.1");
  assert_string_equal(y->outputs[0]->name, "v");
  ir_verify(s, g, NULL);
  ir_node_move_before(y, x); /* y uses x: the verifier must see it */
  ir_verify(s, g, "planted");
}

static void edits_keep_the_law(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;

  call_ctx_init(&cx, c, &err);
  assert_int_equal(session_run(&cx, edit, NULL), RUSH_EINTERNAL);
  if (!strstr(err.message, "planted: the graph is broken: an input is defined after its user"))
    fail_msg("%s", err.message);
  rush_error_clear(&err);
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_round_trips),
      cmocka_unit_test(parsing_survives_any_failed_allocation),
      cmocka_unit_test(bad_text_is_refused),
      cmocka_unit_test(edits_keep_the_law),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
