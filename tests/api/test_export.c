/* Test exported programs as data through the public header: what is read, walking, text, state,
 * saving, refusals, failing allocations. */
#include "support/budget.h"
#include "support/bytes.h"
#include "support/test.h"

#include "rushlight/export.h"

static const char *data_path(const char *name)
{
  static _Thread_local char path[4096];

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  return path;
}

static rush_exported_program *load(rush_context *c)
{
  rush_exported_program *p;

  assert_int_equal(rush_exported_program_load(c, data_path("exported.pt2"), NULL, &p, NULL),
                   RUSH_OK);
  return p;
}

static const rush_export_node *find(const rush_export_graph *g, const char *name)
{
  rush_export_node_info info = RUSH_EXPORT_NODE_INFO_INIT;
  const rush_export_node *n = rush_export_graph_first(g);

  for (; n; n = rush_export_node_next(n)) {
    rush_export_node_get(n, &info);
    if (strcmp(info.name, name) == 0)
      return n;
  }
  fail_msg("there is no node '%s'", name);
  return NULL;
}

static void facts_of_a_program(void **state)
{
  rush_export_info info = RUSH_EXPORT_INFO_INIT;
  rush_exported_program *p = load(NULL);

  (void)state;
  rush_exported_program_get(p, &info);
  assert_string_equal(info.name, "model");
  assert_int_equal(info.major, 8);
  assert_string_equal(info.opset, "{\"aten\": 10}");
  assert_int_equal(info.n_inputs, 7);
  assert_int_equal(info.n_outputs, 4);
  assert_string_equal(rush_exported_program_dialect(p, 0), "TRAINING");
  assert_null(rush_exported_program_dialect(p, 1));
  assert_null(rush_exported_program_guard(p, info.n_guards));
  rush_exported_program_release(p);
  rush_exported_program_release(NULL);
}

static void nodes_have_arguments(void **state)
{
  rush_export_node_info node = RUSH_EXPORT_NODE_INFO_INIT;
  rush_export_arg_info arg = RUSH_EXPORT_ARG_INFO_INIT;
  rush_exported_program *p = load(NULL);
  const rush_export_graph *g = rush_exported_program_graph(p);
  const rush_export_node *cond = find(g, "cond");
  const char *name;

  (void)state;
  rush_export_node_get(cond, &node);
  assert_string_equal(node.target, "torch.ops.higher_order.cond");
  assert_int_equal(node.op, RUSH_EXPORT_CALL_FUNCTION);
  assert_int_equal(node.n_args, 4);
  assert_int_equal(node.n_users, 1);
  rush_export_arg_get(rush_export_node_arg(cond, 0), &arg);
  assert_int_equal(arg.kind, RUSH_EXPORT_NODE);
  assert_ptr_equal(arg.node, find(g, "gt"));
  const rush_export_arg *operands = rush_export_node_arg(cond, 3);
  rush_export_arg_get(operands, &arg);
  assert_int_equal(arg.kind, RUSH_EXPORT_LIST);
  assert_int_equal(arg.n, 2);
  rush_export_arg_get(rush_export_arg_item(operands, 1, NULL), &arg);
  assert_ptr_equal(arg.node, find(g, "shift"));
  assert_null(rush_export_arg_item(operands, 2, NULL));
  assert_null(rush_export_node_arg(cond, 4));
  const rush_export_node *check = find(g, "_assert_tensor_metadata_default");
  rush_export_arg_get(rush_export_node_kwarg(check, 1, &name), &arg);
  assert_string_equal(name, "device");
  assert_string_equal(arg.text, "cpu");
  assert_null(rush_export_node_kwarg(check, 3, &name));
  rush_exported_program_release(p);
}

static void graphs_inside_have_names(void **state)
{
  rush_exported_program *p = load(NULL);
  const rush_export_graph *g = rush_exported_program_graph(p), *inner;
  const char *name;
  char *text;

  (void)state;
  inner = rush_export_graph_subgraph(g, 1, &name);
  assert_string_equal(name, "false_graph_0");
  assert_int_equal(rush_exported_program_print(p, inner, RUSH_EXPORT_GRAPH, &text, NULL), RUSH_OK);
  assert_non_null(strstr(text, "torch.ops.aten.mul.Tensor](args = (%div, -1.5)"));
  rush_free_text(NULL, text);
  assert_null(rush_export_graph_subgraph(g, 2, NULL));
  rush_exported_program_release(p);
}

static void values_have_symbolic_sizes(void **state)
{
  rush_export_node_info node = RUSH_EXPORT_NODE_INFO_INIT;
  rush_export_val_info val = RUSH_EXPORT_VAL_INFO_INIT;
  rush_exported_program *p = load(NULL);
  const rush_export_graph *g = rush_exported_program_graph(p);
  rush_export_number n;
  char *text;

  (void)state;
  rush_export_node_get(find(g, "cat"), &node);
  rush_export_val_get(node.val, &val);
  assert_int_equal(val.kind, RUSH_EXPORT_VAL_TENSOR);
  assert_int_equal(val.dtype, RUSH_FLOAT32);
  assert_string_equal(val.device, "cpu");
  assert_int_equal(val.n_sizes, 2);
  assert_true(rush_export_val_size(node.val, 0, &n));
  assert_true(n.has_value && n.i == 6);
  assert_int_equal(rush_exported_program_expression(p, n.expression, &text, NULL), RUSH_OK);
  assert_string_equal(text, "2*s77");
  rush_free_text(NULL, text);
  assert_true(rush_export_val_stride(node.val, 0, &n) && n.i == 3 && !n.expression);
  assert_false(rush_export_val_size(node.val, 2, &n));
  rush_export_node_get(find(g, "topk"), &node);
  rush_export_val_get(node.val, &val);
  assert_true(val.kind == RUSH_EXPORT_VAL_LIST && val.n == 2);
  rush_export_val_get(rush_export_val_item(node.val, 1), &val);
  assert_int_equal(val.dtype, RUSH_INT64);
  assert_null(rush_export_val_item(node.val, 2));
  rush_exported_program_release(p);
}

static void metadata_is_text(void **state)
{
  rush_exported_program *p = load(NULL);
  const rush_export_graph *g = rush_exported_program_graph(p);
  char *text;

  (void)state;
  assert_int_equal(
    rush_exported_program_metadata(p, find(g, "linear"), "nn_module_stack", &text, NULL), RUSH_OK);
  assert_non_null(strstr(text, "linear"));
  rush_free_text(NULL, text);
  assert_int_equal(rush_exported_program_metadata(p, find(g, "linear"), "none", &text, NULL),
                   RUSH_OK);
  assert_string_equal(text, "");
  rush_free_text(NULL, text);
  assert_int_equal(rush_exported_program_metadata(p, find(g, "x"), NULL, &text, NULL), RUSH_OK);
  assert_string_equal(text, "");
  rush_free_text(NULL, text);
  rush_exported_program_release(p);
}

static void signature_ranges_and_calls(void **state)
{
  rush_export_spec spec = RUSH_EXPORT_SPEC_INIT;
  rush_export_range range = RUSH_EXPORT_RANGE_INIT;
  rush_export_call call = RUSH_EXPORT_CALL_INIT;
  rush_export_arg_info arg = RUSH_EXPORT_ARG_INFO_INIT;
  rush_exported_program *p = load(NULL);

  (void)state;
  assert_true(rush_exported_program_input(p, 2, &spec));
  assert_true(spec.kind == RUSH_EXPORT_BUFFER && spec.is_persistent);
  assert_string_equal(spec.target, "calls");
  assert_true(rush_exported_program_input(p, 6, &spec));
  assert_int_equal(spec.arg, RUSH_EXPORT_SPEC_CONSTANT);
  rush_export_arg_get(spec.constant, &arg);
  assert_string_equal(arg.text, "it's");
  assert_false(rush_exported_program_input(p, 7, &spec));
  assert_true(rush_exported_program_output(p, 2, &spec));
  assert_int_equal(spec.arg, RUSH_EXPORT_SPEC_SYM_INT);
  assert_false(rush_exported_program_output(p, SIZE_MAX, &spec));
  assert_true(rush_exported_program_range(p, 0, &range));
  assert_true(range.is_used && range.has_max && range.max == 64);
  assert_false(rush_exported_program_range(p, 1, &range));
  assert_true(rush_exported_program_call(p, 0, &call));
  assert_string_equal(call.fqn, "");
  assert_int_equal(call.n_arg_names, 3);
  assert_string_equal(rush_exported_program_call_arg_name(p, 0, 2), "name");
  assert_null(rush_exported_program_call_arg_name(p, 0, 3));
  assert_true(rush_exported_program_call(p, 1, &call) && !call.has_signature);
  assert_false(rush_exported_program_call_input(p, 1, 0, &spec));
  assert_false(rush_exported_program_call_output(p, 9, 0, &spec));
  rush_exported_program_release(p);
}

static void modules_share_the_state(void **state)
{
  rush_exported_program *p = load(NULL);
  rush_module *one, *two;
  bool is_constant;
  const char *name;
  rush_value v, w;
  size_t n;

  (void)state;
  assert_false(rush_exported_program_state(p, 0, &name, &is_constant, &v));
  assert_int_equal(rush_exported_program_n_state(p, &n, NULL), RUSH_OK);
  assert_int_equal(n, 4);
  assert_true(rush_exported_program_state(p, 3, &name, &is_constant, &v) && is_constant);
  assert_string_equal(name, "scale");
  assert_int_equal(rush_exported_program_module(p, true, &one, NULL), RUSH_OK);
  assert_int_equal(rush_exported_program_module(p, false, &two, NULL), RUSH_OK);
  w = rush_object_attr(rush_module_value(two), "scale");
  assert_ptr_equal(v.as.tensor, w.as.tensor);
  rush_value_release(v);
  rush_value_release(w);
  rush_module_release(one);
  rush_module_release(two);
  rush_exported_program_release(p);
}

static void programs_are_written(void **state)
{
  const rush_extra_file extra = {"notes.txt", "here", 4};
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  rush_exported_program *p = load(NULL), *again;
  const void *data;
  bytes b = {0};
  size_t n;

  (void)state;
  o.extra_files = &extra;
  o.n_extra_files = 1;
  o.write = gather;
  o.write_user = &b;
  assert_int_equal(rush_exported_program_save(p, NULL, &o, NULL), RUSH_OK);
  assert_int_equal(rush_exported_program_load_bytes(NULL, b.p, b.n, NULL, NULL, NULL, &again, NULL),
                   RUSH_OK);
  assert_string_equal(rush_exported_program_extra_file(again, 0, &data, &n), "notes.txt");
  assert_int_equal(n, 4);
  char *before, *after;
  assert_int_equal(rush_exported_program_print(p, NULL, RUSH_EXPORT_TEXT, &before, NULL), RUSH_OK);
  assert_int_equal(rush_exported_program_print(again, NULL, RUSH_EXPORT_TEXT, &after, NULL),
                   RUSH_OK);
  assert_string_equal(before, after);
  rush_free_text(NULL, before);
  rush_free_text(NULL, after);
  rush_exported_program_release(p);
  rush_exported_program_release(again);
  free(b.p);
}

static void others_are_refused(void **state)
{
  rush_load_options meta = RUSH_LOAD_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_exported_program *p = NULL;
  char *text;

  (void)state;
  assert_int_equal(rush_exported_program_load(NULL, data_path("life.pt"), NULL, &p, &err),
                   RUSH_EFORMAT);
  rush_error_clear(&err);
  assert_int_equal(rush_exported_program_load_bytes(NULL, "no", 2, NULL, NULL, NULL, &p, &err),
                   RUSH_EFORMAT);
  assert_non_null(strstr(err.message, "expected a .pt2 archive"));
  rush_error_clear(&err);
  meta.meta = true;
  assert_int_equal(rush_exported_program_load(NULL, data_path("exported.pt2"), &meta, &p, &err),
                   RUSH_EARGUMENT);
  rush_error_clear(&err);
  assert_null(p);
  p = load(NULL);
  assert_int_equal(rush_exported_program_print(p, NULL, (rush_export_text)9, &text, &err),
                   RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_exported_program_release(p);
}

/* A TorchScript module becomes a program, which runs, and is written, and needs neither. */
static void captured_modules_are_programs(void **state)
{
  static const char text[] = "import torch\n"
                             "def forward(x: torch.Tensor) -> torch.Tensor:\n"
                             "  return x * 2 + 1\n";
  const int64_t sizes[] = {3};
  rush_exported_program *p;
  rush_module *m, *made;
  rush_value x, y;
  bytes b = {0};
  char *printed;

  (void)state;
  assert_int_equal(rush_module_compile(NULL, text, sizeof text - 1, NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_tensor_create(NULL, RUSH_FLOAT32, 1, sizes, &x, NULL), RUSH_OK);
  assert_int_equal(rush_module_export(m, NULL, &x, 1, NULL, 0, NULL, &made, NULL), RUSH_OK);
  assert_int_equal(rush_exported_program_of_module(made, &p, NULL), RUSH_OK);
  rush_module_release(made);
  rush_module_release(m);
  assert_int_equal(rush_exported_program_print(p, NULL, RUSH_EXPORT_CODE, &printed, NULL), RUSH_OK);
  assert_non_null(strstr(printed, "torch.ops.aten.mul.Scalar(x, 2)"));
  rush_free_text(NULL, printed);
  assert_int_equal(rush_exported_program_verify(p, NULL, &printed, NULL), RUSH_OK);
  assert_string_equal(printed, "");
  rush_free_text(NULL, printed);
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  o.write = gather;
  o.write_user = &b;
  assert_int_equal(rush_exported_program_save(p, NULL, &o, NULL), RUSH_OK);
  for (int guards = 0; guards < 2; guards++) {
    assert_int_equal(rush_exported_program_module(p, guards, &made, NULL), RUSH_OK);
    assert_int_equal(rush_module_call(made, NULL, &x, 1, &y, NULL), RUSH_OK);
    rush_value_release(y);
    rush_module_release(made);
  }
  rush_exported_program_release(p);
  rush_value_release(x);
  free(b.p);
}

/* Load, print, read state, make a module. */
static rush_status use(rush_context *c)
{
  rush_exported_program *p;
  rush_module *m = NULL;
  char *text = NULL;
  size_t n;

  rush_status st = rush_exported_program_load(c, data_path("exported.pt2"), NULL, &p, NULL);
  if (st != RUSH_OK)
    return st;
  if ((st = rush_exported_program_print(p, NULL, RUSH_EXPORT_TEXT, &text, NULL)) == RUSH_OK &&
      (st = rush_exported_program_n_state(p, &n, NULL)) == RUSH_OK)
    st = rush_exported_program_module(p, true, &m, NULL);
  rush_free_text(c, text);
  rush_module_release(m);
  rush_exported_program_release(p);
  return st;
}

static void any_allocation_may_fail(void **state)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  budget b = {.left = 1000000000};
  rush_context *c;
  long n = 1;

  (void)state;
  o.alloc = budget_alloc;
  o.free = budget_free;
  o.alloc_user = &b;
  o.no_cache = true;
  o.n_threads = 1;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  for (; n < 100000; n++) {
    b.left = n;
    const rush_status st = use(c);
    b.left = 1000000000;
    if (st == RUSH_OK)
      break;
    assert_int_equal(st, RUSH_ENOMEM);
  }
  assert_true(n > 10);
  rush_context_release(c);
  assert_int_equal(b.live, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(facts_of_a_program),       cmocka_unit_test(nodes_have_arguments),
    cmocka_unit_test(graphs_inside_have_names), cmocka_unit_test(values_have_symbolic_sizes),
    cmocka_unit_test(metadata_is_text),         cmocka_unit_test(signature_ranges_and_calls),
    cmocka_unit_test(modules_share_the_state),  cmocka_unit_test(programs_are_written),
    cmocka_unit_test(others_are_refused),       cmocka_unit_test(captured_modules_are_programs),
    cmocka_unit_test(any_allocation_may_fail)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
