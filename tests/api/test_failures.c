/* Let every allocation of the public functions fail once: each returns RUSH_ENOMEM, leaks nothing,
 * and never reports another error or returns an incomplete result. */
#include "support/bytes.h"
#include "support/oom.h"

#include "rushlight/backend.h"

static void fails_only_for_memory(const oom_state *o, rush_status st, const rush_error *err,
                                  const char *what)
{
  if (st != RUSH_OK && (st != RUSH_ENOMEM || !o->fired))
    fail_msg("%s, allocation %ld: %s: %s", what, o->at, rush_status_name(st),
             err && err->message ? err->message : "");
}

/* -- Operators by name ------------------------------------------------------------------------- */

static rush_status call_by_names(call_ctx *cx)
{
  static const char *const names[] = {"aten::add", "aten::mul.Tensor", "aten::dot", "aten::upper"};
  static const int64_t sizes[1] = {3};
  rush_value x, y, args[2];
  size_t n = 0;

  TRY(rush_tensor_create(cx->ctx, RUSH_FLOAT32, 1, sizes, &x, cx->err));
  memset(rush_tensor_data_mut(x.as.tensor), 0, 12);
  rush_status st = RUSH_OK;
  args[0] = args[1] = x;
  for (size_t i = 0; i < 3 && st == RUSH_OK; i++) {
    st = rush_op_call(cx->ctx, names[i], args, 2, NULL, 0, &y, 1, &n, cx->err);
    if (st == RUSH_OK)
      rush_value_release(y);
  }
  if (st == RUSH_OK)
    st = rush_string_create(cx->ctx, "a text", 6, &args[0], cx->err);
  if (st == RUSH_OK) {
    st = rush_op_call(cx->ctx, names[3], args, 1, NULL, 0, &y, 1, &n, cx->err);
    if (st == RUSH_OK)
      rush_value_release(y);
    rush_value_release(args[0]);
  }
  rush_value_release(x);
  return st;
}

static void operators_by_name_say_memory(void **state)
{
  (void)state;
  OOM_LOOP(cx)
    fails_only_for_memory(&oom_, call_by_names(&cx), cx.err, "rush_op_call");
}

/* -- Texts ------------------------------------------------------------------------------------- */

static const char text[] =
    "import torch, enum\n"
    "from typing import Dict, List, NamedTuple, Optional\n"
    "class Mode(enum.Enum):\n"
    "  A = 1\n"
    "  B = 2\n"
    "class Pair(NamedTuple):\n"
    "  x: int\n"
    "  y: float = 2.5\n"
    "class Acc(object):\n"
    "  def __init__(self, start: int):\n"
    "    self.total = start\n"
    "    self.names: Dict[str, int] = {}\n"
    "  def add(self, k: int) -> int:\n"
    "    self.total += k\n"
    "    return self.total\n"
    "def helper(x: torch.Tensor, n: int = 2) -> torch.Tensor:\n"
    "  return torch.relu(x) * n\n"
    "def f(x: torch.Tensor, k: Optional[int] = None) -> Dict[str, List[int]]:\n"
    "  a = Acc(3)\n"
    "  out = {'a': [i + 1 for i in range(3)]}\n"
    "  for i, v in enumerate(out['a']):\n"
    "    if v > 2:\n"
    "      break\n"
    "    out[f'k{i}'] = [a.add(v)]\n"
    "  fut = torch.jit.fork(helper, x)\n"
    "  if bool(torch.jit.wait(fut).sum() > 3):\n"
    "    raise ValueError('too much')\n"
    "  with torch.no_grad():\n"
    "    p = Pair(1)\n"
    "  assert k is None or k > 0, 'k'\n"
    "  return out if Mode.A != Mode.B else {'b': [p.x]}\n"
    "def never(x: int) -> str:\n"
    "  raise KeyError('never')\n";
static const char more[] = "def g(x: torch.Tensor) -> int:\n  return len(f(x)) + f(x)['a'][0]\n";

static rush_status compile_and_save(call_ctx *cx, bytes *b)
{
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  rush_module *m;
  char *shown;

  b->n = 0;
  o.write = gather;
  o.write_user = b;
  TRY(rush_module_compile(cx->ctx, text, sizeof text - 1, NULL, &m, cx->err));
  rush_status st = rush_module_define(m, more, sizeof more - 1, NULL, cx->err);
  if (st == RUSH_OK)
    st = rush_module_dump(m, RUSH_DUMP_CODE, NULL, &shown, cx->err);
  if (st == RUSH_OK) {
    rush_free_text(cx->ctx, shown);
    st = rush_module_save(m, NULL, &o, cx->err);
  }
  rush_module_release(m);
  return st;
}

static void texts_compile_or_say_memory(void **state)
{
  bytes b = {0};

  (void)state;
  OOM_LOOP(cx)
    fails_only_for_memory(&oom_, compile_and_save(&cx, &b), cx.err, "compile and save");
  free(b.p);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static const char graph_text[] = "graph(%x : Tensor, %n : int):\n"
                                 "  %one : int = prim::Constant[value=1]()\n"
                                 "  %yes : bool = prim::Constant[value=1]()\n"
                                 "  %l : int[] = prim::Constant[value=[1, 2]]()\n"
                                 "  %y : Tensor = aten::add(%x, %n, %one)\n"
                                 "  %c : bool = aten::gt(%n, %one)\n"
                                 "  %z : Tensor = prim::If(%c)\n"
                                 "    block0():\n"
                                 "      %q : Tensor = aten::relu(%y)\n"
                                 "      -> (%q)\n"
                                 "    block1():\n"
                                 "      -> (%y)\n"
                                 "  %w : Tensor = prim::Loop(%n, %yes, %z)\n"
                                 "    block0(%i : int, %k : Tensor):\n"
                                 "      %m : Tensor = aten::mul(%k, %i)\n"
                                 "      -> (%yes, %m)\n"
                                 "  return (%w)\n";
static const char pattern_text[] =
  "graph(%x, %n, %one):\n  %y = aten::add(%x, %n, %one)\n  return (%y)\n";
static const char by_text[] =
  "graph(%x, %n, %one):\n  %y = aten::sub(%x, %n, %one)\n  return (%y)\n";
static const char passes[] =
  "inline,peephole,cse,constant_propagation,constant_pooling,loop_unrolling,canonicalize,dce";

static rush_status build(const rush_backend_api *api, call_ctx *cx)
{
  rush_value in = rush_value_int(14), out;
  rush_graph *g;

  TRY(api->graph_create(cx->ctx, &g, cx->err));
  rush_builder *b = api->build_begin(g);
  rush_status st = b ? RUSH_OK : RUSH_ENOMEM;
  if (b) {
    const rush_graph_value *x = api->build_input(b, "x", "int"),
                           *three = api->build_constant(b, rush_value_int(3));
    api->build_output(b,
                      api->build_call(b, "aten::mul", (const rush_graph_value *[]){x, three}, 2));
    st = api->build_end(b, cx->err);
  }
  if (st == RUSH_OK)
    st = api->graph_lint(g, cx->err);
  if (st == RUSH_OK)
    st = api->graph_call(g, &in, 1, &out, cx->err);
  if (st == RUSH_OK)
    assert_int_equal(out.as.i, 42);
  api->graph_release(g);
  return st;
}

static rush_status edit(const rush_backend_api *api, call_ctx *cx, rush_graph *g)
{
  const rush_node *add = api->block_find(api->graph_block(g), "aten::add", true, NULL), *made;
  const rush_graph_value *c, *v, *out;
  const rush_type *t;
  char *shown;

  TRY(api->graph_insert_constant(g, rush_value_float(2.5), NULL, &c, cx->err));
  TRY(api->type_parse(cx->ctx, "Dict(str, (int, Tensor?))[]", NULL, &t, cx->err));
  rush_status st = api->type_text(cx->ctx, t, true, &shown, cx->err);
  if (st == RUSH_OK)
    rush_free_text(cx->ctx, shown);
  api->type_release(t);
  if (st != RUSH_OK)
    return st;
  TRY(api->graph_insert(
    g, "aten::mul",
    (const rush_graph_value *[]){api->node_output(api->block_param(api->graph_block(g)), 0), c},
    NULL, 2, NULL, 0, &v, cx->err));
  TRY(api->node_create(g, "prim::TupleConstruct", (const rush_graph_value *[]){v, c}, 2, 1, &made,
                       cx->err));
  TRY(api->node_set_attr(made, "note", "i", rush_value_int(7), cx->err));
  TRY(api->node_destroy(made, cx->err));
  TRY(api->value_set_name(v, "n", cx->err));
  TRY(api->node_text(add, &shown, cx->err));
  rush_free_text(cx->ctx, shown);
  TRY(api->node_named_input(add, "other", &out, cx->err));
  return api->value_replace_uses(api->node_output(add, 0), v, add, cx->err);
}

static rush_status rewrite(const rush_backend_api *api, call_ctx *cx, rush_graph *g)
{
  rush_graph *pattern, *by;
  size_t n = 0;

  TRY(api->graph_parse(cx->ctx, pattern_text, false, NULL, &pattern, cx->err));
  rush_status st = api->graph_parse(cx->ctx, by_text, false, NULL, &by, cx->err);
  if (st == RUSH_OK) {
    st = api->graph_rewrite(g, pattern, by, NULL, NULL, &n, cx->err);
    api->graph_release(by);
  }
  api->graph_release(pattern);
  if (st == RUSH_OK)
    assert_int_equal(n, 1);
  return st;
}

static rush_status use_graph(const rush_backend_api *api, call_ctx *cx, rush_graph *g)
{
  rush_aliases *a;
  char *shown;

  TRY(rewrite(api, cx, g));
  TRY(api->graph_text(g, true, &shown, cx->err));
  rush_free_text(cx->ctx, shown);
  TRY(api->graph_dot(g, "g", &shown, cx->err));
  rush_free_text(cx->ctx, shown);
  TRY(api->alias_analyse(g, &a, cx->err));
  api->alias_release(a);
  TRY(api->graph_run_pass(g, passes, cx->err));
  return api->graph_lint(g, cx->err);
}

static rush_status graphs(call_ctx *cx)
{
  const rush_backend_api *api = rush_backend(RUSH_BACKEND_ABI);
  rush_graph *g, *copy;

  TRY(build(api, cx));
  TRY(api->graph_parse(cx->ctx, graph_text, false, NULL, &g, cx->err));
  rush_status st = api->graph_copy(g, &copy, cx->err);
  if (st == RUSH_OK) {
    st = edit(api, cx, copy);
    api->graph_release(copy);
  }
  if (st == RUSH_OK)
    st = use_graph(api, cx, g);
  api->graph_release(g);
  return st;
}

static void graphs_say_memory(void **state)
{
  (void)state;
  OOM_LOOP(cx)
    fails_only_for_memory(&oom_, graphs(&cx), cx.err, "graphs");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(operators_by_name_say_memory),
      cmocka_unit_test(texts_compile_or_say_memory),
      cmocka_unit_test(graphs_say_memory),
  };
  return RUN_TESTS(tests);
}
