/* Test profiles through the public header: what is recorded, the limit, stopping, failing
 * allocations. */
#include "support/oom.h"

#include <pthread.h>

#include "rushlight/rushlight.h"

static rush_module *load(rush_context *c, const char *name)
{
  char path[4096];
  rush_module *m;

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  assert_int_equal(rush_module_load(c, path, NULL, &m, NULL), RUSH_OK);
  return m;
}

static rush_status call(rush_context *c, rush_module *m)
{
  const int64_t sizes[] = {1, 1, 8, 8};
  rush_value x, y;
  rush_status st = rush_tensor_create(c, RUSH_FLOAT32, 4, sizes, &x, NULL);

  if (st != RUSH_OK)
    return st;
  memset(rush_tensor_data_mut(x.as.tensor), 0, 64 * sizeof(float));
  st = rush_module_call(m, NULL, &x, 1, &y, NULL);
  if (st == RUSH_OK)
    rush_value_release(y);
  rush_value_release(x);
  return st;
}

static rush_context *create(void)
{
  rush_context *c;

  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  return c;
}

/* Return the first event of that name. */
static bool find(rush_context *c, const char *name, rush_profile_event *e)
{
  for (size_t i = 0; rush_profile_event_at(c, i, e); i++)
    if (strcmp(e->name, name) == 0)
      return true;
  return false;
}

static void events_tell_what_ran_where(void **state)
{
  rush_context *c = create();
  rush_module *m = load(c, "digits.pt");
  rush_profile_event outer, e;
  uint64_t n_dropped = 1;
  (void)state;

  assert_int_equal(call(c, m), RUSH_OK);
  assert_int_equal(rush_profile_n_events(c, NULL), 0);
  assert_int_equal(rush_profile_start(c, 0, NULL), RUSH_OK);
  assert_int_equal(call(c, m), RUSH_OK);
  rush_profile_stop(c);
  size_t n = rush_profile_n_events(c, &n_dropped);
  assert_int_equal(call(c, m), RUSH_OK); /* not recorded */
  assert_int_equal(rush_profile_n_events(c, NULL), n);
  assert_int_equal(n_dropped, 0);

  assert_true(rush_profile_event_at(c, 0, &outer));
  assert_int_equal(outer.kind, RUSH_PROFILE_FUNCTION);
  assert_int_equal(outer.depth, 0);
  assert_non_null(strstr(outer.name, ".forward"));
  for (size_t i = 1; i < n; i++) {
    assert_true(rush_profile_event_at(c, i, &e));
    assert_true(e.depth > 0 && e.thread == 0);
    assert_true(outer.start_ns <= e.start_ns && e.start_ns <= e.end_ns && e.end_ns <= outer.end_ns);
  }
  rush_module_release(m); /* names and lines outlive the module */
  assert_true(find(c, "aten::conv2d", &e));
  assert_int_equal(e.kind, RUSH_PROFILE_OPERATOR);
  assert_memory_equal(e.inputs, "float32[1, 1, 8, 8], float32[", 29);
  assert_non_null(strstr(e.code, "conv2d("));
  assert_non_null(e.file);
  assert_true(e.line > 0 && e.bytes > 0);
  assert_false(rush_profile_event_at(c, n, &e));
  rush_context_release(c);
}

static void a_limit_bounds_the_record(void **state)
{
  rush_context *c = create();
  rush_module *m = load(c, "digits.pt");
  rush_error err = RUSH_ERROR_INIT;
  uint64_t n_dropped;
  (void)state;

  assert_int_equal(rush_profile_start(c, 3, NULL), RUSH_OK);
  assert_int_equal(call(c, m), RUSH_OK);
  assert_int_equal(rush_profile_n_events(c, &n_dropped), 3);
  assert_true(n_dropped > 0);
  assert_int_equal(rush_profile_start(c, 0, NULL), RUSH_OK); /* anew */
  assert_int_equal(rush_profile_n_events(c, &n_dropped), 0);
  assert_int_equal(n_dropped, 0);
  assert_int_equal(rush_profile_start(c, SIZE_MAX, &err), RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

static void a_failing_call_ends_its_events(void **state)
{
  rush_context *c = create();
  rush_module *m = load(c, "life.pt");
  rush_profile_event e;
  rush_value text, y;
  (void)state;

  assert_int_equal(rush_profile_start(c, 0, NULL), RUSH_OK);
  assert_int_equal(call(c, m), RUSH_EARGUMENT); /* no tensor is wanted */
  rush_profile_stop(c);
  rush_module_release(m);
  m = load(c, "digits.pt");
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, (int64_t[]){3}, &text, NULL), RUSH_OK);
  assert_int_equal(rush_profile_start(c, 0, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, NULL, &text, 1, &y, NULL), RUSH_ERAISED);
  assert_int_equal(call(c, m), RUSH_OK);
  size_t n_outer = 0;
  for (size_t i = 0; rush_profile_event_at(c, i, &e); i++) {
    assert_true(e.end_ns >= e.start_ns);
    n_outer += e.depth == 0;
  }
  assert_int_equal(n_outer, 2);
  rush_value_release(text);
  rush_module_release(m);
  rush_context_release(c);
}

typedef struct caller {
  rush_context *c;
  rush_module *m;
} caller;

static void *call_often(void *arg)
{
  caller *a = arg;

  for (int i = 0; i < 50; i++)
    if (call(a->c, a->m) != RUSH_OK)
      return a;
  return NULL;
}

/* Profiles start and stop while calls run: late events of an older profile are dropped. */
static void threads_are_told_apart(void **state)
{
  rush_context *c = create();
  caller a = {c, load(c, "digits.pt")};
  pthread_t threads[3];
  rush_profile_event e;
  uint32_t seen = 0;
  void *failed;
  (void)state;

  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &a), 0);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(rush_profile_start(c, 100, NULL), RUSH_OK);
    for (size_t k = 0; rush_profile_event_at(c, k, &e); k++)
      assert_true(e.end_ns == 0 || e.end_ns >= e.start_ns);
    rush_profile_stop(c);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  assert_int_equal(rush_profile_start(c, 0, NULL), RUSH_OK);
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &a), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  for (size_t k = 0; rush_profile_event_at(c, k, &e); k++)
    seen |= UINT32_C(1) << e.thread;
  assert_int_equal(seen, 7);
  rush_module_release(a.m);
  rush_context_release(c);
}

static void failing_allocations_drop_events(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    char path[4096];
    rush_module *m = NULL;

    snprintf(path, sizeof path, "%s/digits.pt", getenv("RUSH_TEST_DATA"));
    if (rush_module_load(cx.ctx, path, NULL, &m, NULL) == RUSH_OK && call(cx.ctx, m) == RUSH_OK) {
      rush_status st = rush_profile_start(cx.ctx, 0, NULL);
      if (st == RUSH_OK)
        st = call(cx.ctx, m);
      assert_true(st == RUSH_OK || st == RUSH_ENOMEM);
    }
    rush_module_release(m);
  }
}

typedef struct watched_names {
  char text[512];
  rush_context *c;
} watched_names;

/* Copy a result, too: operators that the watcher calls are not watched. */
static void note_name(void *user, const rush_watched *w)
{
  watched_names *n = user;
  size_t len = strlen(n->text);

  assert_true(w->n_results == 1 && w->results[0].tag == RUSH_TAG_TENSOR);
  rush_value copy;
  size_t n_copies;
  assert_int_equal(
    rush_op_call(n->c, "aten::clone", w->results, 1, NULL, 0, &copy, 1, &n_copies, NULL), RUSH_OK);
  rush_value_release(copy);
  snprintf(n->text + len, sizeof n->text - len, "%s:%u ", w->name, w->line);
}

static void a_watch_tells_every_node_that_ran(void **state)
{
  rush_context_options options = RUSH_CONTEXT_OPTIONS_INIT;
  static const char text[] =
    "def forward(x: Tensor) -> Tensor:\n    y = torch.linear(x, x)\n    return (y + 1).relu()\n";
  rush_text_options where = RUSH_TEXT_OPTIONS_INIT;
  const int64_t sizes[] = {2, 2};
  watched_names names = {0};
  rush_module *m;
  rush_value x, y;
  (void)state;

  options.executor = RUSH_EXECUTOR_SIMPLE;
  assert_int_equal(rush_context_create(&options, &names.c, NULL), RUSH_OK);
  assert_int_equal(rush_module_compile(names.c, text, sizeof text - 1, &where, &m, NULL), RUSH_OK);
  assert_int_equal(rush_tensor_create(names.c, RUSH_FLOAT32, 2, sizes, &x, NULL), RUSH_OK);
  memset(rush_tensor_data_mut(x.as.tensor), 0, 4 * sizeof(float));
  assert_int_equal(rush_watch_start(names.c, note_name, &names, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, "forward", &x, 1, &y, NULL), RUSH_OK);
  rush_watch_stop(names.c, note_name, &names);
  assert_string_equal(names.text, "aten::linear:2 aten::add.Scalar:3 aten::relu:3 ");
  rush_value_release(y);
  assert_int_equal(rush_module_call(m, "forward", &x, 1, &y, NULL), RUSH_OK); /* nobody watches */
  assert_string_equal(names.text, "aten::linear:2 aten::add.Scalar:3 aten::relu:3 ");
  assert_int_equal(rush_watch_start(names.c, NULL, NULL, NULL), RUSH_EARGUMENT);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  rush_context_release(names.c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(events_tell_what_ran_where),
                                     cmocka_unit_test(a_watch_tells_every_node_that_ran),
                                     cmocka_unit_test(a_limit_bounds_the_record),
                                     cmocka_unit_test(a_failing_call_ends_its_events),
                                     cmocka_unit_test(threads_are_told_apart),
                                     cmocka_unit_test(failing_allocations_drop_events)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
