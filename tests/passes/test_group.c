/* Test grouping on graph texts. Of these graphs aten::mul and aten::add of tensors are supported,
 * with at most 4 inputs. */
#include "support/test.h"

#include "passes/passes.h"
#include "ops/table/op_keys.h"

static rush_status never_called(rush_call *call) { return call_fail(call->cx, "not meant to run"); }

static const char *refuse(const rush_node *node, void *user)
{
  const ir_node *n = (const ir_node *)(const void *)node;

  (void)user;
  return ir_node_is_op(n, OPN_MUL) || ir_node_is_op(n, OPN_ADD) ? NULL : "another operator";
}

static rush_status run(rush_pass *pass, void *user)
{
  pass_group(pass, user); /* ours: the jump crosses no foreign frame */
  return RUSH_OK;
}

typedef struct job {
  const char *text;
  text_buf out;
} job;

static void free_graph(void *g) { ir_graph_free(g); }
static void release_program_of(void *p) { program_release(p); }

static void transform(session *s, void *arg)
{
  job *j = arg;
  program *p = program_new(s, s->cx->ctx);

  session_defer(s, release_program_of, p);
  function *f = program_add_function(s, p, "__torch__.f");
  function_set_graph_steal(f, ir_parse(s, &p->types, j->text));
  ir_graph *made = passes_run(s, f, NULL, false, NULL);
  session_defer(s, free_graph, made);
  ir_verify(s, made, "grouping");
  ir_print(&j->out, made, false);
}

static rush_group_def def = {.struct_bytes = sizeof def,
                             .op = "test::group",
                             .refuse = refuse,
                             .min_nodes = 2,
                             .max_inputs = 4};

static void check(const char *text, const char *want)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_op_def op = {
    .struct_bytes = sizeof op, .schema = "test::group(...) -> ...", .kernel = never_called};
  rush_pass_def pass = {.struct_bytes = sizeof pass, .name = "group", .run = run, .user = &def};
  context *c;
  call_ctx cx;
  job j = {.text = text};

  assert_int_equal(context_new(NULL, &c, NULL), RUSH_OK);
  assert_int_equal(op_register(c, &op, &err), RUSH_OK);
  assert_int_equal(pass_register(c, &pass, &err), RUSH_OK);
  call_ctx_init(&cx, c, &err);
  text_init(&j.out, c);
  if (session_run(&cx, transform, &j) != RUSH_OK)
    fail_msg("%s", err.message);
  assert_string_equal(text_str(&j.out), want);
  text_free(&j.out);
  context_release(c);
}

static void test_chain(void **state)
{
  (void)state;
  check("graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %d : Tensor = aten::mul(%c, %c)\n"
        "  %e : Tensor = aten::mul(%c, %d)\n"
        "  return (%e)\n",
        "graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %7 : Tensor = test::group_0(%a, %b)\n"
        "  return (%7)\n"
        "with test::group_0 = graph(%5 : Tensor,\n      %6 : Tensor):\n"
        "  %c : Tensor = aten::mul(%5, %6)\n"
        "  %d : Tensor = aten::mul(%c, %c)\n"
        "  %e : Tensor = aten::mul(%c, %d)\n"
        "  return (%e)\n");
}

/* Nothing is moved across a write. */
static void test_write_between(void **state)
{
  (void)state;
  check("graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %d : Tensor = aten::relu_(%a)\n"
        "  %e : Tensor = aten::mul(%c, %a)\n"
        "  return (%e)\n",
        "graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %d : Tensor = aten::relu_(%a)\n"
        "  %e : Tensor = aten::mul(%c, %a)\n"
        "  return (%e)\n");
}

/* %d is unused: a group of it and its own inputs would have no result. Exported programs keep such
 * nodes. */
static void test_unused(void **state)
{
  (void)state;
  check("graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %d : Tensor = aten::mul(%c, %a)\n"
        "  return (%a)\n",
        "graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %d : Tensor = aten::mul(%c, %a)\n"
        "  return (%a)\n");
}

/* %c is also used outside, between its own position and the group's: the group is placed before
 * that use, and has two results; constants are copied into it. */
static void test_second_result(void **state)
{
  (void)state;
  check("graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %1 : int = prim::Constant[value=1]()\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %r : Tensor = aten::relu(%c)\n"
        "  %d : Tensor = aten::add(%c, %b, %1)\n"
        "  %2 : (Tensor, Tensor) = prim::TupleConstruct(%r, %d)\n"
        "  return (%2)\n",
        "graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %2 : int = prim::Constant[value=1]()\n"
        "  %10 : Tensor, %11 : Tensor = test::group_0(%a, %b)\n"
        "  %r : Tensor = aten::relu(%10)\n"
        "  %6 : (Tensor, Tensor) = prim::TupleConstruct(%r, %11)\n"
        "  return (%6)\n"
        "with test::group_0 = graph(%7 : Tensor,\n      %8 : Tensor):\n"
        "  %c : Tensor = aten::mul(%7, %8)\n"
        "  %9 : int = prim::Constant[value=1]()\n"
        "  %d : Tensor = aten::add(%c, %8, %9)\n"
        "  return (%c, %d)\n");
}

/* relu needs %c and makes an operand of %d: they cannot be one node. */
static void test_way_round(void **state)
{
  (void)state;
  check("graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %r : Tensor = aten::relu(%c)\n"
        "  %d : Tensor = aten::mul(%c, %r)\n"
        "  return (%d)\n",
        "graph(%a : Tensor,\n      %b : Tensor):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %r : Tensor = aten::relu(%c)\n"
        "  %d : Tensor = aten::mul(%c, %r)\n"
        "  return (%d)\n");
}

/* Blocks have groups of their own; nodes around a block that writes are not moved across it. */
static void test_blocks(void **state)
{
  (void)state;
  check("graph(%a : Tensor,\n      %b : Tensor,\n      %p : bool):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %x : Tensor = prim::If(%p)\n"
        "    block0():\n"
        "      %d : Tensor = aten::mul(%c, %b)\n"
        "      %e : Tensor = aten::mul(%d, %b)\n"
        "      -> (%e)\n"
        "    block1():\n"
        "      %f : Tensor = aten::relu_(%a)\n"
        "      -> (%f)\n"
        "  %g : Tensor = aten::mul(%c, %x)\n"
        "  return (%g)\n",
        "graph(%a : Tensor,\n      %b : Tensor,\n      %p : bool):\n"
        "  %c : Tensor = aten::mul(%a, %b)\n"
        "  %x : Tensor = prim::If(%p)\n"
        "    block0():\n"
        "      %11 : Tensor = test::group_0(%c, %b)\n"
        "      -> (%11)\n"
        "    block1():\n"
        "      %f : Tensor = aten::relu_(%a)\n"
        "      -> (%f)\n"
        "  %g : Tensor = aten::mul(%c, %x)\n"
        "  return (%g)\n"
        "with test::group_0 = graph(%9 : Tensor,\n      %10 : Tensor):\n"
        "  %d : Tensor = aten::mul(%9, %10)\n"
        "  %e : Tensor = aten::mul(%d, %10)\n"
        "  return (%e)\n");
}

static bool takes_three(const rush_node *const *nodes, size_t n, void *user)
{
  (void)user;
  for (size_t i = 0; i < n; i++)
    assert_non_null(nodes[i]);
  return n >= 3;
}

/* The backend decides on a group when it is whole; nodes of one that it refuses may be in another.
 */
static void test_takes(void **state)
{
  const char *two = "graph(%a : Tensor,\n      %b : Tensor):\n"
                    "  %c : Tensor = aten::mul(%a, %b)\n"
                    "  %d : Tensor = aten::mul(%c, %c)\n"
                    "  return (%d)\n";
  (void)state;
  def.takes = takes_three;
  check(two, two);
  test_chain(state);
  def.takes = NULL;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_chain),         cmocka_unit_test(test_write_between),
    cmocka_unit_test(test_second_result), cmocka_unit_test(test_way_round),
    cmocka_unit_test(test_blocks),        cmocka_unit_test(test_unused),
    cmocka_unit_test(test_takes),
  };
  return RUN_TESTS(tests);
}
