/* Test graph text: print, parse, print is a fixed point; edits keep uses and order; the verifier
 * finds faults. */
#include "support/oom.h"

#include "ir/graph.h"
#include "ir/program.h"

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
    "graph(%x : Tensor):\n"
    "  %1 : Tensor = prim::DifferentiableGraph_0(%x)\n"
    "  %2 : Tensor = my::op_1[k=1](%x)\n"
    "  %3 : Tensor = prim::profile[profiled_type=Float(2, device=cpu), seen_none=0](%x)\n"
    "  %4 : Tensor, %5 : bool = prim::TypeCheck[types=[Float(2, device=cpu)]](%1)\n"
    "  return (%4)\n"
    "with prim::DifferentiableGraph_0 = graph(%x : Tensor):\n"
    "  %y : Tensor = my::op_0(%x)\n"
    "  return (%y)\n"
    "with my::op_0 = graph(%x : Tensor):\n"
    "  %1 : Tensor = aten::relu(%x)\n"
    "  return (%1)\n"
    "with my::op_1 = graph(%x : Tensor):\n"
    "  %1 : Tensor = prim::FallbackGraph_0(%x)\n"
    "  return (%1)\n"
    "with prim::FallbackGraph_0 = graph(%x : Tensor):\n"
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
    rush_status st = RUSH_OK;
    for (size_t i = 0; i < COUNT_OF(texts) && st == RUSH_OK; i += 2) {
      job j = {.text = texts[i]};
      text_init(&j.out, cx.ctx);
      st = session_run(&cx, round_trip, &j);
      assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
      text_free(&j.out);
    }
  }
}

static void bad_text_is_refused(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "",
    "graph(",
    "graph(%x : Tensor):\n  return (%y)\n",
    "graph(%x : Tensor, %x : int):\n  return ()\n",
    "graph():\n  %1 : int = prim::Constant[value=]()\n  return ()\n",
    "graph():\n  %1 : str = prim::Constant[value=\"abc]()\n  return ()\n",
    "graph(%x : Bogus):\n  return ()\n",
    "graph(%x : int[):\n  return ()\n",
    "graph():\n  return ()\nmore",
    "graph(%x : Tensor):\n  %1 : Tensor = ^\nf(%x)\n  return (%1)\n",
    "graph(%x : Tensor):\n  %1 : Tensor = prim::Param(%x)\n  return (%1)\n",
    "graph():\n  %1 : Tensor = a::b[c=<Tensor>]()\n  return (%1)\n", /* only constants get theirs */
    "graph(%f : Future[Function]):\n  return ()\n", /* a kind of type that has a name */
    /* Read sizes whose product is 0 in 32 bits, and as many numbers. */
    ("graph():\n  %1 : Tensor = prim::Constant[value=[ CPUDoubleType{64,64,64,64,64,4} ]]()\n"
     "  return ()\n"),
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
  ir_node_move_before(y, x); /* y uses x: the verifier must notice */
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

/* -- Damage: each class that the verifier names ------------------------------------------------ */

static const char whole[] = "graph(%a : int, %t : Tensor):\n"
                            "  %one : int = prim::Constant[value=1]()\n"
                            "  %x : int = aten::add(%a, %one)\n"
                            "  %c : bool = aten::gt(%x, %one)\n"
                            "  %y : int = prim::If(%c)\n"
                            "    block0():\n"
                            "      %p : int = aten::mul(%x, %x)\n"
                            "      -> (%p)\n"
                            "    block1():\n"
                            "      -> (%a)\n"
                            "  %z : int = prim::Loop(%y, %c, %a)\n"
                            "    block0(%i : int, %k : int):\n"
                            "      %q : int = aten::add(%k, %i)\n"
                            "      -> (%c, %q)\n"
                            "  %l : int[] = prim::ListConstruct(%z, %x)\n"
                            "  %u : (int, int[]) = prim::TupleConstruct(%x, %l)\n"
                            "  %v : int, %w : int[] = prim::TupleUnpack(%u)\n"
                            "  %r : Tensor = aten::relu(%t)\n"
                            "  return (%v, %w, %r)\n";

typedef struct victim { /* the whole graph, by name */
  session *s;
  ir_graph *g, *other;
} victim;

static ir_value *named(const victim *v, const char *name)
{
  return ir_graph_named(v->g, str_of(name));
}
static ir_node *node(const victim *v, const char *name) { return named(v, name)->node; }
static const type *text_type(void) { return type_simple(TYPE_STRING); }

static void late(victim *v) { ir_node_move_after(node(v, "x"), node(v, "c")); }
static void scope(victim *v) { ir_node_set_input(node(v, "r"), 0, named(v, "p")); }
static void unset(victim *v) { ir_node_set_input(node(v, "r"), 0, NULL); }
static void foreign(victim *v)
{
  ir_node_set_input(node(v, "r"), 0, ir_block_input(v->other->block, 1));
}
static void loose(victim *v)
{
  ir_node_set_input(node(v, "r"), 0,
                    ir_node_new_op(v->s, v->g, node(v, "r")->op, NULL, 0)->outputs[0]);
}
static void gone(victim *v) { node(v, "r")->destroyed = true; }
static void lost_use(victim *v) { named(v, "t")->uses = NULL; }
static void strange_use(victim *v) { named(v, "t")->uses->user = node(v, "x"); }
static void stolen_use(victim *v) { named(v, "a")->uses = named(v, "t")->uses; }
static void ring(victim *v) { node(v, "x")->next->prev = node(v, "r"); }
static void order(victim *v) { node(v, "x")->order = 1; }
static void owner(victim *v) { node(v, "y")->blocks[0]->owner = node(v, "z"); }
static void home(victim *v) { node(v, "x")->block = node(v, "y")->blocks[0]; }
static void numbers(victim *v) { named(v, "x")->id = named(v, "y")->id; }
static void number(victim *v) { named(v, "x")->id = v->g->next_id + 5; }
static void name(victim *v) { named(v, "x")->name = "y"; }
static void output(victim *v) { named(v, "x")->index = 1; }
static void untyped(victim *v) { named(v, "x")->type = NULL; }
static void schema_in(victim *v) { ir_node_set_input(node(v, "r"), 0, named(v, "l")); }
static void schema_out(victim *v) { named(v, "r")->type = text_type(); }
static void more_results(victim *v)
{
  ir_node_add_output(v->s, node(v, "r"), type_simple(TYPE_TENSOR));
}
static void no_blocks(victim *v) { ir_node_destroy_block(node(v, "y"), 1); }
static void if_output(victim *v) { ir_block_remove_output(node(v, "y")->blocks[0], 0); }
static void if_type(victim *v) { ir_block_set_output(node(v, "y")->blocks[1], 0, named(v, "t")); }
static void condition(victim *v) { ir_node_set_input(node(v, "y"), 0, named(v, "t")); }
static void loop_output(victim *v) { ir_block_remove_output(node(v, "z")->blocks[0], 1); }
static void loop_input(victim *v)
{
  ir_block_add_input(v->s, node(v, "z")->blocks[0], type_simple(TYPE_INT), NULL);
}
static void loop_type(victim *v) { named(v, "k")->type = text_type(); }
static void trips(victim *v) { ir_node_set_input(node(v, "z"), 0, named(v, "t")); }
static void list(victim *v) { ir_node_set_input(node(v, "l"), 0, named(v, "t")); }
static void tuple(victim *v) { ir_node_remove_input(node(v, "u"), 0); }
static void unpacked(victim *v) { named(v, "w")->type = text_type(); }
static void constant(victim *v) { node(v, "one")->constant = 77; }
static void constant_input(victim *v) { ir_node_add_input(v->s, node(v, "one"), named(v, "a")); }
static void constant_block(victim *v) { ir_node_add_block(v->s, node(v, "one")); }
static void attribute(victim *v)
{
  ir_value *t = named(v, "t");
  ir_node *n = ir_node_new(v->s, v->g, IR_GET_ATTR, &t, 1);

  ir_node_add_output(v->s, n, text_type());
  ir_node_append(n, v->g->block);
}
static void calls_nobody(victim *v)
{
  ir_node_append(ir_node_new(v->s, v->g, IR_CALL_FUNCTION, NULL, 0), v->g->block);
}

static const struct damage {
  void (*fn)(victim *v);
  const char *message;
} damages[] = {
    {late, "an input is defined after its user"},
    {scope, "a block that is not around its user"},
    {unset, "an input is not set"},
    {foreign, "an input belongs to another graph"},
    {loose, "an input's node is in no block"},
    {gone, "was destroyed"},
    {lost_use, "an input is not among the uses of its value"},
    {strange_use, "a use is no input of its user"},
    {stolen_use, "a use is in another value's list"},
    {ring, "the ring of a block is cut"},
    {order, "orders do not grow along a block"},
    {owner, "a block does not know its owner"},
    {home, "the ring of a block is cut"},
    {numbers, "two values have one number"},
    {number, "a number that was never given"},
    {name, "a value's name belongs to another value"},
    {output, "an output does not know its node"},
    {untyped, "an output has no type"},
    {schema_in, "the inputs do not fit the operator's schema"},
    {schema_out, "another type than the operator returns"},
    {more_results, "another number of results"},
    {no_blocks, "prim::If has one input and two blocks"},
    {if_output, "as many outputs as the node"},
    {if_type, "a block returns another type"},
    {condition, "the condition of prim::If is a bool"},
    {loop_output, "prim::Loop's block takes"},
    {loop_input, "prim::Loop's block takes"},
    {loop_type, "what prim::Loop carries changes its type"},
    {trips, "prim::Loop's trip count is an int"},
    {list, "the types of a container"},
    {tuple, "the types of a container"},
    {unpacked, "the types of a container"},
    {constant, "a constant has no value"},
    {constant_input, "another number of inputs"},
    {constant_block, "another number of blocks"},
    {attribute, "no attribute `name`"},
    {calls_nobody, "a call without a function"},
};

typedef struct damage_job {
  const struct damage *d;
  bool was_whole;
} damage_job;

static void damage_one(session *s, void *arg)
{
  damage_job *j = arg;
  victim v = {s, parse(s, whole), parse(s, whole)};

  ir_verify(s, v.g, NULL);
  j->was_whole = true;
  j->d->fn(&v);
  ir_verify(s, v.g, "damage");
}

static void each_damage_is_found(void **state)
{
  (void)state;
  context *c = test_context(NULL);

  for (size_t i = 0; i < COUNT_OF(damages); i++) {
    rush_error err = RUSH_ERROR_INIT;
    damage_job j = {.d = &damages[i]};
    call_ctx cx;

    call_ctx_init(&cx, c, &err);
    rush_status st = session_run(&cx, damage_one, &j);
    if (st != RUSH_EINTERNAL || !j.was_whole || !strstr(err.message, damages[i].message))
      fail_msg("damage %zu, '%s': status %d, '%s'", i, damages[i].message, (int)st,
               err.message ? err.message : "");
    rush_error_clear(&err);
  }
  context_release(c);
}

static void release_program(void *p) { program_release(p); }

static void check_read(session *s, void *arg)
{
  program *p = program_new(s, s->cx->ctx);

  session_defer(s, release_program, p);
  program_add_class(s, p, TYPE_CLASS, "__torch__.M");
  ir_graph *g = ir_parse(s, &p->types, arg);
  session_defer(s, free_graph, g);
  ir_check(s, g, NULL);
}

/* A graph that can be parsed may still be broken: the error blames the text, not the library. */
static void broken_text_is_a_mistake_of_the_text(void **state)
{
  static const char *const texts[][2] = {
    {"graph(%x : __torch__.M):\n  %a : int = prim::GetAttr[name=\"gone\"](%x)\n  return (%a)\n",
     "the object has no such attribute"},
    {"graph(%x : int):\n  %a : int = prim::GetAttr[name=\"gone\"](%x)\n  return (%a)\n",
     "first input is no object"},
    {"graph(%x : int):\n  %a : int[] = prim::TupleConstruct(%x)\n  return (%a)\n",
     "the types of a container"},
    {"graph(%x : int):\n  %a : int = prim::If(%x)\n  return (%a)\n", "two blocks"},
    {"graph(%x : int):\n  %a : int = prim::Loop(%x)\n  return (%a)\n", "prim::Loop has one block"},
    {"graph(%x : Tensor):\n  %a : int = aten::relu(%x)\n  return (%a)\n",
     "a result has another type"},
  };
  (void)state;
  context *c = test_context(NULL);

  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;

    call_ctx_init(&cx, c, &err);
    rush_status st = session_run(&cx, check_read, (void *)(uintptr_t)texts[i][0]);
    if (st != RUSH_EARGUMENT || !strstr(err.message, texts[i][1]))
      fail_msg("%s: status %d, '%s'", texts[i][0], (int)st, err.message ? err.message : "");
    rush_error_clear(&err);
  }
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_round_trips),
      cmocka_unit_test(parsing_survives_any_failed_allocation),
      cmocka_unit_test(bad_text_is_refused),
      cmocka_unit_test(edits_keep_the_law),
      cmocka_unit_test(each_damage_is_found),
      cmocka_unit_test(broken_text_is_a_mistake_of_the_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
