/* Test the verifier of exported programs on structures that no file gives: a right program is read,
 * its nodes are changed, and the rule that this breaks is named.  Damages of files are in
 * tests/python/exported_damages.py. */
#include "support/oom.h"

#include "archive/exported_read.h"
#include "archive/open.h"
#include "export/verify.h"

typedef void damage(session *s, exported_program *p);

/* -- Damages ----------------------------------------------------------------------------------- */

static fx_node *find(exported_program *p, const char *name)
{
  for (fx_node *n = p->graph->first; n; n = n->next)
    if (strcmp(n->name, name) == 0)
      return n;
  fail_msg("there is no node '%s'", name);
  return NULL;
}

/* Move the node in front of another. */
static void move(fx_node *n, fx_node *before)
{
  *(n->prev ? &n->prev->next : &n->graph->first) = n->next;
  *(n->next ? &n->next->prev : &n->graph->last) = n->prev;
  n->prev = before->prev;
  n->next = before;
  *(n->prev ? &n->prev->next : &n->graph->first) = n;
  before->prev = n;
}

static void use_later_value(session *s, exported_program *p)
{
  (void)s;
  move(find(p, "linear"), find(p, "add_"));
  move(find(p, "mul"), find(p, "linear"));
}
static void name_twice(session *s, exported_program *p)
{
  (void)s;
  find(p, "mul")->name = "linear";
}
static void add_input_late(session *s, exported_program *p)
{
  (void)s;
  move(find(p, "b_calls"), find(p, "mul"));
}
static void return_early(session *s, exported_program *p)
{
  (void)s;
  move(p->graph->last, find(p, "mul"));
}
static void return_nothing(session *s, exported_program *p)
{
  (void)s;
  p->graph->last->n_args = 0;
}
static void lose_a_node(session *s, exported_program *p)
{
  (void)s;
  find(p, "mul")->prev = find(p, "linear")->prev;
}
static void close_a_ring(session *s, exported_program *p)
{
  (void)s;
  p->graph->last->next = p->graph->first;
}
static void use_another_graph(session *s, exported_program *p)
{
  fx_node *n = find(p, "mul");
  fx_arg *args = session_array(s, fx_arg, n->n_args);

  memcpy(args, n->args, n->n_args * sizeof *args);
  args[0] = fx_arg_node(p->graph->subgraphs[0].graph->first);
  n->args = args;
}
static void read_no_graph(session *s, exported_program *p)
{
  (void)s;
  for (fx_node *n = p->graph->first; n; n = n->next)
    if (n->op == FX_GET_ATTR)
      n->target = "b_calls";
}
static void give_twice(session *s, exported_program *p)
{
  fx_node *n = find(p, "mul");
  fx_named *twice = session_new(s, fx_named);

  *twice = (fx_named){STR("self"), n->args[0]};
  n->kwargs = twice;
  n->n_kwargs = 1;
}
static void give_too_many(session *s, exported_program *p)
{
  fx_node *n = find(p, "mul");
  fx_arg *args = session_array(s, fx_arg, 3);

  memcpy(args, n->args, 2 * sizeof *args);
  args[2] = args[1];
  n->args = args;
  n->n_args = 3;
}
static void take_item_nine(session *s, exported_program *p)
{
  fx_node *n = find(p, "getitem");
  fx_arg *args = session_array(s, fx_arg, 2);

  args[0] = n->args[0];
  args[1] = fx_arg_int(9);
  n->args = args;
}

static const struct row {
  const char *rule;
  damage *make;
} rows[] = {{"graph.use-before-definition", use_later_value},
            {"graph.unique-names", name_twice},
            {"graph.placeholders-first", add_input_late},
            {"graph.one-output", return_early},
            {"graph.one-output", return_nothing},
            {"graph.node-list", lose_a_node},
            {"graph.node-list", close_a_ring},
            {"graph.foreign-node", use_another_graph},
            {"graph.get-attr", read_no_graph},
            {"args.name", give_twice},
            {"args.name", give_too_many},
            {"val.item", take_item_nine}};

/* -- Running ----------------------------------------------------------------------------------- */

typedef struct job {
  damage *make;
  const char *path;
  uint32_t n_faults;
  char text[4000];
} job;

static void verify(session *s, void *arg)
{
  job *j = arg;
  text_buf *out = session_text(s);
  const archive_source from = {.path = j->path};
  zip_archive *z = zip_open(s, archive_map(s, &from), false);
  exported_program *p = exported_read(s, z, STR("model"), EXPORTED_AS_DATA);

  if (j->make)
    j->make(s, p);
  j->n_faults = export_verify(s, p, &(export_verify_options){0}, out);
  snprintf(j->text, sizeof j->text, "%s", text_str(out));
}

static const char *path_of(char *path, size_t size)
{
  snprintf(path, size, "%s/exported.pt2", getenv("RUSH_TEST_DATA"));
  return path;
}

static void run(job *j)
{
  context *c = test_context(NULL);
  rush_error err = RUSH_ERROR_INIT;
  char path[4096];
  call_ctx cx;

  j->path = path_of(path, sizeof path);
  call_ctx_init(&cx, c, &err);
  if (session_run(&cx, verify, j) != RUSH_OK)
    fail_msg("%s", err.message);
  context_release(c); /* which has built operators */
}

static void right_programs_break_no_rule(void **state)
{
  job j = {0};
  (void)state;

  run(&j);
  assert_string_equal(j.text, "");
  assert_int_equal(j.n_faults, 0);
}

static void each_damage_is_named(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    job j = {.make = rows[i].make};
    run(&j);
    if (!strstr(j.text, rows[i].rule))
      fail_msg("%s is not found: %s", rows[i].rule, j.text);
    assert_true(j.n_faults > 0);
  }
}

/* Rules are in the table once, and have a text each. */
static void rules_have_names(void **state)
{
  const char *name, *demand, *other, *ignored;
  (void)state;

  for (uint32_t i = 0; export_rule_at(i, &name, &demand); i++) {
    assert_true(strchr(name, '.') && *demand);
    for (uint32_t k = i + 1; export_rule_at(k, &other, &ignored); k++)
      assert_string_not_equal(name, other);
  }
}

static void many_faults_are_counted(session *s, exported_program *p)
{
  for (int i = 0; i < 200; i++) {
    char *name = session_printf(s, "later_%d", i);
    fx_node *n = fx_node_new(s, p->graph, FX_PLACEHOLDER, name, name);
    n->returns_none = true;
  }
}

static void the_first_faults_are_printed(void **state)
{
  job j = {.make = many_faults_are_counted};
  (void)state;

  run(&j);
  assert_true(j.n_faults >= 200);
}

static void allocations_may_fail(void **state)
{
  char path[4096];
  job j = {.path = path_of(path, sizeof path), .make = name_twice};
  (void)state;

  OOM_LOOP(cx) {
    rush_status st = session_run(&cx, verify, &j);
    assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(right_programs_break_no_rule), cmocka_unit_test(each_damage_is_named),
    cmocka_unit_test(rules_have_names),             cmocka_unit_test(the_first_faults_are_printed),
    cmocka_unit_test(allocations_may_fail),
  };
  return RUN_TESTS(tests);
}
