/* Record calls of operators and functions (trace/sensor.h), and run them again on other values. */
#include "support/test.h"

#include "module/module.h"
#include "ir/graph.h"
#include "rushlight/rushlight.h"
#include "trace/sensor.h"
#include "support/oom.h"
#include "value/value.h"

typedef struct fixture {
  rush_context *c;
  rush_error err;
  trace *t;
  rush_value kept[64]; /* released at the end */
  int n_kept;
} fixture;

static void begin(fixture *f)
{
  *f = (fixture){.err = RUSH_ERROR_INIT};
  assert_int_equal(rush_context_create(NULL, &f->c, &f->err), RUSH_OK);
}

static void end(fixture *f)
{
  while (f->n_kept)
    rush_value_release(f->kept[--f->n_kept]);
  rush_error_clear(&f->err);
  rush_context_release(f->c);
}

static rush_value keep(fixture *f, rush_value v) { return f->kept[f->n_kept++] = v; }

/* 0, 1, 2 ... */
static rush_value range(fixture *f, int64_t rows, int64_t columns)
{
  int64_t sizes[2] = {rows, columns};
  rush_value v;

  assert_int_equal(rush_tensor_create(f->c, RUSH_FLOAT32, 2, sizes, &v, &f->err), RUSH_OK);
  for (int64_t i = 0; i < rows * columns; i++)
    ((float *)rush_tensor_data_mut(v.as.tensor))[i] = (float)i;
  return keep(f, v);
}

static rush_value call(fixture *f, const char *name, int n, ...)
{
  rush_value args[8] = {rush_value_none()}, result;
  size_t n_results;
  va_list list;

  va_start(list, n);
  for (int i = 0; i < n; i++)
    args[i] = va_arg(list, rush_value);
  va_end(list);
  bool scaled = strstr(name, "add") && n == 3; /* alpha has a name */
  rush_named_value alpha = {"alpha", args[2]};
  rush_status st = rush_op_call(f->c, name, args, (size_t)n - scaled, &alpha, scaled, &result, 1,
                                &n_results, &f->err);
  if (st != RUSH_OK)
    fail_msg("%s: %s", name, f->err.message);
  return keep(f, result);
}

static rush_value list_of(fixture *f, rush_value a, rush_value b)
{
  rush_value items[2] = {a, b}, v;

  assert_int_equal(rush_list_create(f->c, items, 2, &v, &f->err), RUSH_OK);
  return keep(f, v);
}

/* End the trace, call the module that it becomes and return the result; its graph contains `holds`.
 * */
static rush_value run(fixture *f, rush_value *outputs, uint32_t n_outputs, rush_value *args,
                      uint32_t n, const char *holds)
{
  call_ctx cx;
  program *p;
  module *m;
  rush_value object, result;
  char *text;

  call_ctx_init(&cx, f->c, &f->err);
  rush_status st = trace_end_steal(&cx, f->t, outputs, n_outputs, &p, &object);
  if (st != RUSH_OK)
    fail_msg("%s", f->err.message);
  assert_int_equal(module_around(&cx, p, object, NULL, &m), RUSH_OK);
  rush_value_release(object);
  program_release(p);
  assert_int_equal(rush_module_dump(m, RUSH_DUMP_GRAPH, "forward", &text, &f->err), RUSH_OK);
  if (!strstr(text, holds))
    fail_msg("no %s in\n%s", holds, text);
  rush_free_text(f->c, text);
  st = rush_module_call(m, "forward", args, n, &result, &f->err);
  if (st != RUSH_OK)
    fail_msg("%s", f->err.message);
  module_release(m);
  return keep(f, result);
}

static void begin_trace(fixture *f, rush_value *inputs, uint32_t n)
{
  static const char *const names[] = {"x", "y"};
  assert_int_equal(trace_begin(f->c, inputs, names, n, &f->t, &f->err), RUSH_OK);
}

static void check_floats(rush_value v, int n, const float *expected)
{
  assert_int_equal(v.tag, RUSH_TAG_TENSOR);
  assert_int_equal(rush_tensor_n_elems(v.as.tensor), n);
  assert_memory_equal(rush_tensor_data(v.as.tensor), expected, (size_t)n * sizeof(float));
}

static void calls_run_again_on_other_sizes(void **state)
{
  fixture f;
  (void)state;
  begin(&f);
  rush_value x = range(&f, 2, 3), one = rush_value_int(1);
  begin_trace(&f, &x, 1);
  rush_value y = call(&f, "aten::add", 3, x, call(&f, "aten::mul", 2, x, x), one);
  rush_value rows = call(&f, "aten::size", 2, x, rush_value_int(0));
  y = call(&f, "aten::view", 2, y, list_of(&f, rows, rush_value_int(-1)));
  y = call(&f, "aten::sum", 2, y, list_of(&f, rush_value_int(0), rush_value_int(1)));
  rush_value other = range(&f, 1, 4);
  const float expected[] = {0 + 2 + 6 + 12};
  check_floats(run(&f, &y, 1, &other, 1, "aten::size(%x"), 1, expected);
  end(&f);
}

static void writes_give_new_values(void **state)
{
  fixture f;
  (void)state;
  begin(&f);
  rush_value x = range(&f, 1, 3);
  begin_trace(&f, &x, 1);
  rush_value y = call(&f, "aten::clone", 1, x);
  rush_value row = call(&f, "aten::select", 3, y, rush_value_int(1), rush_value_int(1));
  call(&f, "aten::fill_", 2, row, rush_value_int(7)); /* through a view */
  call(&f, "aten::add_", 3, y, x, rush_value_int(1));
  rush_value outputs[2] = {y, call(&f, "aten::mul", 2, y, y)}, other = range(&f, 1, 3);
  rush_value r = run(&f, outputs, 2, &other, 1, "aten::fill_");
  const float sums[] = {0, 8, 4}, squares[] = {0, 64, 16};
  assert_int_equal(r.tag, RUSH_TAG_TUPLE);
  check_floats(r.as.tuple->items[0], 3, sums);
  check_floats(r.as.tuple->items[1], 3, squares);
  end(&f);
}

static void lists_are_known_by_identity(void **state)
{
  fixture f;
  (void)state;
  begin(&f);
  rush_value xs[2] = {range(&f, 1, 4), range(&f, 1, 2)}, in = list_of(&f, xs[0], xs[1]);
  begin_trace(&f, &in, 1);
  rush_value halves = call(&f, "aten::chunk", 3, xs[0], rush_value_int(2), rush_value_int(1));
  rush_value first = halves.as.list->items[0];
  rush_value y = call(&f, "aten::cat", 2, list_of(&f, first, xs[1]), rush_value_int(1));
  rush_value others[2] = {range(&f, 1, 2), range(&f, 1, 3)},
             other = list_of(&f, others[0], others[1]);
  const float expected[] = {0, 0, 1, 2};
  check_floats(run(&f, &y, 1, &other, 1, "prim::ListConstruct"), 4, expected);
  end(&f);
}

static void unknown_tensors_are_constants(void **state)
{
  fixture f;
  (void)state;
  begin(&f);
  rush_value x = range(&f, 1, 3), c = range(&f, 1, 3);
  begin_trace(&f, &x, 1);
  call(&f, "aten::relu", 1, x); /* of no use to anybody */
  rush_value y = call(&f, "aten::add", 3, x, c, rush_value_int(2));
  rush_value other = range(&f, 2, 3);
  const float expected[] = {0, 3, 6, 3, 6, 9};
  check_floats(run(&f, &y, 1, &other, 1, "aten::add"), 6, expected);
  end(&f);
}

static void calls_of_programs_stay_calls(void **state)
{
  static const char text[] = "import torch\ndef f(x: torch.Tensor):\n  if bool(x.sum() > 100):\n   "
                             " return x * 0\n  return x + 1\n";
  rush_load_options options = RUSH_LOAD_OPTIONS_INIT;
  rush_module *m;
  fixture f;
  (void)state;
  begin(&f);
  options.name = "calls.py";
  assert_int_equal(
    rush_module_load_bytes(f.c, text, sizeof text - 1, NULL, NULL, &options, &m, &f.err), RUSH_OK);
  rush_value x = range(&f, 1, 3), y;
  begin_trace(&f, &x, 1);
  assert_int_equal(rush_module_call(m, "f", &x, 1, &y, &f.err), RUSH_OK);
  keep(&f, y);
  y = call(&f, "aten::neg", 1, y);
  rush_module_release(m);
  rush_value other = range(&f, 1, 20);
  float expected[20];
  for (int i = 0; i < 20; i++)
    expected[i] = -0.0f;
  check_floats(run(&f, &y, 1, &other, 1, "prim::Call"), 20, expected);
  end(&f);
}

static void a_graph_text_becomes_a_function_body(session *s, void *arg)
{
  fixture *f = arg;
  program *p = program_new(s, f->c);
  rush_value c = range(f, 1, 2);
  function *made = script_define_graph(s, p, NULL, "__torch__.g",
                                       "graph(%x : Tensor):\n"
                                       "  %c : Tensor = prim::Constant[value=<Tensor>]()\n"
                                       "  %one : int = prim::Constant[value=1]()\n"
                                       "  %y : Tensor = aten::add(%x, %c, %one)\n"
                                       "  return (%y)\n",
                                       &c, 1);
  assert_string_equal(made->name, "g");
  assert_int_equal(made->schema->n_args, 1);
  rush_value r;
  session_check(s, function_call(s->cx, made, &c, 1, &r));
  const float expected[] = {0, 2};
  check_floats(keep(f, r), 2, expected);
  program_release(p);
}

static void a_graph_text_becomes_a_function(void **state)
{
  fixture f;
  call_ctx cx;
  (void)state;
  begin(&f);
  call_ctx_init(&cx, f.c, &f.err);
  rush_status st = session_run(&cx, a_graph_text_becomes_a_function_body, &f);
  if (st != RUSH_OK)
    fail_msg("%s", f.err.message);
  end(&f);
}

/* Trace in a context whose allocations fail, one after the other. */
static rush_status trace_something(call_ctx *cx)
{
  static const int64_t sizes[2] = {2, 2};
  rush_value x, y = rush_value_none(), z = rush_value_none(), object;
  size_t n = 0;
  program *p;
  trace *t;

  TRY(rush_tensor_create(cx->ctx, RUSH_FLOAT32, 2, sizes, &x, cx->err));
  memset(rush_tensor_data_mut(x.as.tensor), 0, 16);
  rush_status st = trace_begin(cx->ctx, &x, NULL, 1, &t, cx->err);
  if (st == RUSH_OK) {
    rush_value args[2] = {x, rush_value_int(2)};
    st = rush_op_call(cx->ctx, "aten::chunk", args, 2, NULL, 0, &y, 1, &n, cx->err);
    if (st == RUSH_OK)
      st = rush_op_call(cx->ctx, "aten::cat", &y, 1, NULL, 0, &z, 1, &n, cx->err);
    if (st != RUSH_OK) {
      trace_drop(t);
    } else if ((st = trace_end_steal(cx, t, &z, 1, &p, &object)) == RUSH_OK) {
      rush_value_release(object);
      program_release(p);
    }
  }
  rush_value_release(z);
  rush_value_release(y);
  rush_value_release(x);
  return st;
}

static void a_trace_survives_any_failed_allocation(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    rush_status st = trace_something(&cx);
    if (st != RUSH_OK && !oom_.fired)
      fail_msg("%s: %s", rush_status_name(st), cx.err && cx.err->message ? cx.err->message : "");
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(calls_run_again_on_other_sizes),
    cmocka_unit_test(writes_give_new_values),
    cmocka_unit_test(lists_are_known_by_identity),
    cmocka_unit_test(unknown_tensors_are_constants),
    cmocka_unit_test(calls_of_programs_stay_calls),
    cmocka_unit_test(a_graph_text_becomes_a_function),
    cmocka_unit_test(a_trace_survives_any_failed_allocation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
