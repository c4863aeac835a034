/* Test the recorder's graphs: frames become methods, unused nodes are removed, names follow
 * PyTorch's. */
#include "support/test.h"

#include "ir/graph.h"
#include "support/oom.h"
#include "trace/recorder.h"
#include "value/value.h"

typedef struct fixture {
  context *c;
  program *p;
  recorder *r;
  const type *outer, *inner;
} fixture;

static const type *add_module(session *s, program *p, const char *name)
{
  type *t = program_add_class(s, p, TYPE_CLASS, name);

  t->cls->is_module = true;
  return t;
}

/* Make a module with `inner`, which has `w`; both in a new program. */
static void set_up(session *s, fixture *f)
{
  f->p = program_new(s, f->c);
  f->inner = add_module(s, f->p, "__torch__.Inner");
  class_add_attr(s, f->inner, "w", type_simple(TYPE_TENSOR));
  f->outer = add_module(s, f->p, "__torch__.Outer");
  class_add_attr(s, f->outer, "inner", f->inner);
}

static traced add_node(session *s, fixture *f, const char *kind, traced a, traced b)
{
  const traced in[] = {a, b};
  traced out;

  recorder_add(s, f->r,
               &(recorder_call){.kind = kind, .inputs = in, .n_inputs = 1 + (b != 0),
                                .n_outputs = 1, .where = "f.py(7): f\nmain.py(9): <module>\n"},
               &out);
  return out;
}

static void expect_graph(session *s, const ir_graph *g, const char *expected)
{
  text_buf *t = session_text(s);

  ir_print(t, g, true);
  assert_string_equal(text_str(t), expected);
}

static void frames_become_methods_body(session *s, void *arg)
{
  fixture *f = arg;

  set_up(s, f);
  f->r = recorder_new(s, f->p, f->outer);
  traced x = recorder_input(s, f->r, type_simple(TYPE_TENSOR), "x");
  traced outside = add_node(s, f, "aten::relu", x, 0);
  recorder_open(s, f->r, "inner");
  traced y = add_node(s, f, "aten::mm", outside, recorder_attribute(s, f->r, "inner.w"));
  add_node(s, f, "aten::neg", y, 0); /* unused */
  assert_int_equal(recorder_close(s, f->r, 0), 0);
  recorder_open(s, f->r, "inner"); /* a call without nodes is dropped */
  recorder_close(s, f->r, 0);
  traced z = add_node(s, f, "aten::mm", y, x);
  recorder_set_name(s, f->r, z, "x");
  assert_int_equal(recorder_finish(s, f->r, z), 2);
  function *made = recorder_define(s, f->r, "forward");
  expect_graph(s, made->graph,
               "graph(%self.1 : __torch__.Outer,\n"
               "      %x.1 : Tensor):\n"
               "  %inner : __torch__.Inner = prim::GetAttr[name=\"inner\"](%self.1)\n"
               "  %2 : Tensor = aten::relu(%x.1) # f.py:7:0\n"
               "  %10 : Tensor = prim::CallMethod[name=\"forward\"](%inner, %2)\n"
               "  %x : Tensor = aten::mm(%10, %x.1) # f.py:7:0\n"
               "  return (%x)\n");
  expect_graph(s, class_find_method(f->inner, "forward")->graph,
               "graph(%self : __torch__.Inner,\n"
               "      %3 : Tensor):\n"
               "  %w : Tensor = prim::GetAttr[name=\"w\"](%self)\n"
               "  %2 : Tensor = aten::mm(%3, %w), scope: __module.inner # f.py:7:0\n"
               "  return (%2)\n");
  recorder_free(f->r);
  program_release(f->p);
}

static void writes_to_what_is_seen_stay_body(session *s, void *arg)
{
  fixture *f = arg;

  set_up(s, f);
  f->r = recorder_new(s, f->p, NULL);
  traced x = recorder_input(s, f->r, type_simple(TYPE_TENSOR), "no name");
  traced copy = add_node(s, f, "aten::neg", x, 0);
  add_node(s, f, "aten::relu_", copy, 0); /* of nobody */
  add_node(s, f, "aten::relu_", x, 0);    /* the caller's */
  traced pair_in[] = {x, x}, pair, parts[2];
  recorder_add(s, f->r,
               &(recorder_call){.kind = "prim::TupleConstruct", .inputs = pair_in, .n_inputs = 2,
                                .n_outputs = 1},
               &pair);
  recorder_add(
    s, f->r,
    &(recorder_call){.kind = "prim::TupleUnpack", .inputs = &pair, .n_inputs = 1, .n_outputs = 2},
    parts);
  assert_int_equal(recorder_finish(s, f->r, parts[1]), 1);
  ir_graph *g = recorder_graph(s, f->r, 0);
  expect_graph(s, g,
               "graph(%0 : Tensor):\n"
               "  %1 : Tensor = aten::relu_(%0) # f.py:7:0\n"
               "  %2 : (Tensor, Tensor) = prim::TupleConstruct(%0, %0)\n"
               "  %3 : Tensor, %4 : Tensor = prim::TupleUnpack(%2)\n"
               "  return (%4)\n");
  ir_graph_free(g);
  recorder_free(f->r);
  program_release(f->p);
}

static void no_value_of_the_trace_body(session *s, void *arg)
{
  fixture *f = arg;

  set_up(s, f);
  f->r = recorder_new(s, f->p, NULL);
  add_node(s, f, "aten::neg", 7, 0);
}

static void run_body(void (*body)(session *s, void *arg), fixture *f, rush_status expected)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;

  assert_int_equal(rush_context_create(NULL, (rush_context **)&f->c, &err), RUSH_OK);
  call_ctx_init(&cx, f->c, &err);
  rush_status st = session_run(&cx, body, f);
  if (st != expected)
    fail_msg("%s: %s", rush_status_name(st), err.message);
  if (st != RUSH_OK) {
    recorder_free(f->r);
    program_release(f->p);
  }
  rush_error_clear(&err);
  rush_context_release((rush_context *)f->c);
}

static void frames_become_methods(void **state)
{
  fixture f = {0};
  (void)state;
  run_body(frames_become_methods_body, &f, RUSH_OK);
}

static void writes_to_what_is_seen_stay(void **state)
{
  fixture f = {0};
  (void)state;
  run_body(writes_to_what_is_seen_stay_body, &f, RUSH_OK);
}

static void numbers_of_other_traces_are_refused(void **state)
{
  fixture f = {0};
  (void)state;
  run_body(no_value_of_the_trace_body, &f, RUSH_EARGUMENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(frames_become_methods),
    cmocka_unit_test(writes_to_what_is_seen_stay),
    cmocka_unit_test(numbers_of_other_traces_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
