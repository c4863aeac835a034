/* Test plans where something is short: each allocation of making a plan and of differentiating a
 * graph fails in turn; byte limits, deadlines and interrupts at each poll; 64 threads that call one
 * module while its plans are made.  A call gives the same bits, or ends for a reason of its own. */
#include "support/oom.h"

#include "autodiff/differentiate.h"
#include "base/session.h"
#include "ir/program.h"
#include "module/module.h"
#include "rushlight/backend.h"
#include "rushlight/rushlight.h"
#include "rushlight/script.h"

#include <pthread.h>
#include <stdatomic.h>

static const char text[] =
  "import torch\n"
  "from typing import Tuple\n"
  "def scaled(x: Tensor, k: int):\n"
  "  for i in range(3):\n    x = x * 0.5 + k\n  return x\n"
  "def run(x: Tensor, w: Tensor, k: int) -> Tuple[Tensor, Tensor, int]:\n"
  "  y = scaled(x, k)\n"
  "  if x.dim() == 2:\n    y = y @ w\n  else:\n    y = y * 2\n"
  "  parts = [torch.relu(y), y.sigmoid()]\n"
  "  out = parts[0] + parts[1]\n"
  "  return out, torch.cat([out, out]), x.size(0)\n";

static rush_value filled(rush_context *c, int64_t rows, int64_t columns)
{
  const int64_t sizes[] = {rows, columns};
  rush_value t;

  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &t, NULL), RUSH_OK);
  for (int64_t i = 0; i < rows * columns; i++)
    ((float *)rush_tensor_data_mut(t.as.tensor))[i] = (float)(i % 7) / 4 - 1;
  return t;
}

/* A module and its arguments for each of three kinds of calls. */
typedef struct setting {
  rush_context *c;
  rush_module *m;
  rush_value x[3], w;
} setting;

static void set_up(setting *s, rush_context *c)
{
  *s = (setting){.c = c, .x = {filled(c, 2, 4), filled(c, 3, 4), filled(c, 5, 4)},
                 .w = filled(c, 4, 4)};
  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &s->m, NULL), RUSH_OK);
}

static void tear_down(setting *s)
{
  for (int i = 0; i < 3; i++)
    rush_value_release(s->x[i]);
  rush_value_release(s->w);
  rush_module_release(s->m);
}

static rush_status call(const setting *s, int kind, const rush_call_options *o, rush_value *y,
                        rush_error *err)
{
  const rush_value args[] = {s->x[kind], s->w, rush_value_int(1)};

  return rush_module_call_named(s->m, "run", args, 3, NULL, 0, o, y, err);
}

/* Release y after comparing it with what a call without plans gives. */
static bool is_right(const setting *s, int kind, rush_value y)
{
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  rush_value want;
  char *a, *b;

  rush_context_set_plan_limits(s->c, true, 1, 1);
  assert_int_equal(call(s, kind, &none, &want, NULL), RUSH_OK);
  rush_context_set_plan_limits(s->c, false, 1, 1);
  assert_int_equal(rush_value_to_text(s->c, want, true, &a, NULL), RUSH_OK);
  assert_int_equal(rush_value_to_text(s->c, y, true, &b, NULL), RUSH_OK);
  const bool same = strcmp(a, b) == 0;
  rush_free_text(s->c, a);
  rush_free_text(s->c, b);
  rush_value_release(want);
  rush_value_release(y);
  return same;
}

static unsigned plans_made(const setting *s)
{
  char *said;
  unsigned calls, hits, plans, made;

  assert_int_equal(rush_module_dump(s->m, RUSH_DUMP_PLANS, "run", &said, NULL), RUSH_OK);
  assert_int_equal(sscanf(said, "run: %u calls, %u of them ran a plan; %u plans, %u made", &calls,
                          &hits, &plans, &made),
                   4);
  rush_free_text(s->c, said);
  return made;
}

/* -- Allocations ------------------------------------------------------------------------------- */

/* Make calls 0, 0, 1, 2: general, exact plan, widened plan, its hit.  One of them has an allocation
 * that fails. */
static void plan_without_memory(bool records)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  static const int kinds[] = {0, 0, 1, 2};

  o.record_gradients = records;
  OOM_LOOP(cx) {
    setting s;
    unsigned failed = 0;
    oom_.on = false;
    set_up(&s, cx.ctx);
    if (records)
      rush_tensor_set_requires_grad(s.w.as.tensor, true);
    for (int i = 0; i < 4; i++) {
      rush_error err = RUSH_ERROR_INIT;
      rush_value y;
      oom_.on = i > 0; /* the first call compiles: other tests */
      const rush_status st = call(&s, kinds[i], &o, &y, &err);
      oom_.on = false;
      if (st != RUSH_OK && st != RUSH_ENOMEM)
        fail_msg("allocation %ld: %s: %s", oom_.at, rush_status_name(st), err.message);
      failed += st != RUSH_OK;
      if (st == RUSH_OK && !is_right(&s, kinds[i], y))
        fail_msg("allocation %ld: call %d gives other bits", oom_.at, i);
      rush_error_clear(&err);
    }
    if (!oom_.lasting && failed > 1)
      fail_msg("allocation %ld: %u calls fail", oom_.at, failed);
    if (!oom_.fired)
      assert_int_equal(plans_made(&s), 2);
    tear_down(&s);
  }
}

static void plans_survive_each_failed_allocation(void **state)
{
  (void)state;
  plan_without_memory(false);
  plan_without_memory(true);
}

static const char differentiated[] =
  "graph(%x : Tensor, %y : Tensor, %w : Tensor):\n"
  "  %one : int = prim::Constant[value=1]()\n"
  "  %a : Tensor = aten::mul(%x, %y)\n"
  "  %b : Tensor = aten::tanh(%a)\n"
  "  %c : Tensor = aten::add(%b, %x, %one)\n"
  "  %d : Tensor = aten::mm(%c, %w)\n"
  "  %e : Tensor = aten::mul(%d, %d)\n"
  "  return (%e, %c)\n";

static void release_program_of(void *p) { program_release(p); }

static void differentiate_text(session *s, void *arg)
{
  program *p = program_new(s, s->cx->ctx);
  graph_gradient made;

  session_defer(s, release_program_of, p);
  ir_graph *g = ir_parse(s, &p->types, arg);
  session_defer(s, ir_graph_free_deferred, g);
  differentiate(s, g, &(diff_options){0}, &made);
  assert_int_equal(made.n_outputs, 2);
}

static void differentiating_survives_each_failed_allocation(void **state)
{
  (void)state;
  OOM_LOOP(cx) {
    setting s; /* what runs formulas comes with a module */
    oom_.on = false;
    set_up(&s, cx.ctx);
    oom_.on = true;
    const rush_status st = session_run(&cx, differentiate_text, (void *)(uintptr_t)differentiated);
    if (st != RUSH_OK && (st != RUSH_ENOMEM || !oom_.fired))
      fail_msg("allocation %ld: %s: %s", oom_.at, rush_status_name(st), oom_.err.message);
    tear_down(&s);
  }
}

/* -- Limits ------------------------------------------------------------------------------------ */

static void plans_survive_byte_limits(void **state)
{
  (void)state;
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  static const int kinds[] = {0, 1, 2};
  unsigned n_ok = 0, n_refused = 0, most_made = 0;

  for (size_t room = 0; room < 200000; room += 1 + room / 16) {
    rush_context *c;
    setting s;
    assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
    set_up(&s, c);
    rush_value y;
    assert_int_equal(call(&s, 0, &none, &y, NULL), RUSH_OK);
    rush_value_release(y);
    for (int i = 0; i < 3; i++) {
      size_t live, peak;
      rush_memory_stats(c, &live, &peak);
      assert_int_equal(rush_context_set_limit_bytes(c, live + room, NULL), RUSH_OK);
      const rush_status st = call(&s, kinds[i], &none, &y, NULL);
      assert_int_equal(rush_context_set_limit_bytes(c, 0, NULL), RUSH_OK);
      assert_true(st == RUSH_OK || st == RUSH_ENOMEM || st == RUSH_ELIMIT);
      n_ok += st == RUSH_OK;
      n_refused += st != RUSH_OK;
      if (st == RUSH_OK)
        assert_true(is_right(&s, kinds[i], y));
    }
    most_made = plans_made(&s) > most_made ? plans_made(&s) : most_made;
    tear_down(&s);
    rush_context_release(c);
  }
  assert_true(n_ok > 20 && n_refused > 0 && most_made == 2);
}

static bool stop_at(void *user) { return (*(long *)user)-- == 0; }

/* An interrupt at the first, second ... poll of the call that makes a plan: it ends the call, or
 * the planning alone; the next calls are right. */
static void plans_survive_interrupts(void **state)
{
  (void)state;
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  bool stopped = true;

  for (long at = 0; stopped; at++) {
    rush_context *c;
    setting s;
    rush_value y;
    long left = at;
    assert_true(at < 100000);
    assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
    set_up(&s, c);
    assert_int_equal(call(&s, 0, &none, &y, NULL), RUSH_OK);
    rush_value_release(y);
    rush_context_set_interrupt(c, stop_at, &left);
    rush_status st = call(&s, 1, &none, &y, NULL);
    rush_context_set_interrupt(c, NULL, NULL);
    stopped = left < 0;
    assert_true(st == RUSH_OK || (stopped && st == RUSH_ECANCELLED));
    if (st == RUSH_OK)
      assert_true(is_right(&s, 1, y));
    for (int i = 0; i < 6; i++) {
      assert_int_equal(call(&s, i % 3, &none, &y, NULL), RUSH_OK);
      assert_true(is_right(&s, i % 3, y));
    }
    assert_true(plans_made(&s) >= 1);
    tear_down(&s);
    rush_context_release(c);
  }
}

static void a_deadline_or_a_cancelled_call_makes_no_harm(void **state)
{
  (void)state;
  rush_context *c;
  setting s;
  rush_value y;

  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  set_up(&s, c);
  rush_cancel *flag = rush_cancel_create(c);
  rush_cancel_request(flag);
  for (int i = 0; i < 8; i++) {
    rush_call_options o = RUSH_CALL_OPTIONS_INIT;
    o.limit_seconds = i % 2 ? 1e-9 : 0;
    o.cancel = i % 2 ? NULL : flag;
    const rush_status st = call(&s, 1, &o, &y, NULL);
    assert_true(st == RUSH_OK || st == RUSH_ELIMIT || st == RUSH_ECANCELLED);
    if (st == RUSH_OK)
      assert_true(is_right(&s, 1, y));
    static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
    assert_int_equal(call(&s, i % 3, &none, &y, NULL), RUSH_OK);
    assert_true(is_right(&s, i % 3, y));
  }
  rush_cancel_release(flag);
  tear_down(&s);
  rush_context_release(c);
}

/* Types of plans live as long as the program: their number is limited. */
static void a_program_with_too_many_types_makes_no_plan(void **state)
{
  (void)state;
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  rush_context *c;
  setting s;
  rush_value y;

  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  set_up(&s, c);
  type_store *ts = s.m->object.as.object->type->store;
  for (int64_t i = 0; i < 16384; i++)
    assert_non_null(type_refined(ts, "Tensor", (str){(const char *)&i, sizeof i}, &i, sizeof i));
  for (int i = 0; i < 6; i++) {
    assert_int_equal(call(&s, i % 3, &none, &y, NULL), RUSH_OK);
    assert_true(is_right(&s, i % 3, y));
  }
  assert_int_equal(plans_made(&s), 0);
  tear_down(&s);
  rush_context_release(c);
}

/* -- Threads ----------------------------------------------------------------------------------- */

enum { N_THREADS = 64, N_CALLS = 24 };

typedef struct crowd {
  setting s;
  char *want[3];
  pthread_barrier_t start;
  _Atomic unsigned wrong;
} crowd;

static void *call_often(void *arg)
{
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  crowd *k = arg;

  pthread_barrier_wait(&k->start);
  for (int i = 0; i < N_CALLS; i++) {
    rush_value y;
    char *got;
    if (call(&k->s, i % 3, &none, &y, NULL) != RUSH_OK ||
        rush_value_to_text(k->s.c, y, true, &got, NULL) != RUSH_OK) {
      k->wrong++;
      return NULL;
    }
    k->wrong += strcmp(got, k->want[i % 3]) != 0;
    rush_free_text(k->s.c, got);
    rush_value_release(y);
  }
  return NULL;
}

static void threads_make_each_plan_once(void **state)
{
  (void)state;
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  pthread_t threads[N_THREADS];
  rush_context *c;
  crowd k = {.wrong = 0};

  assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
  set_up(&k.s, c);
  for (int i = 0; i < 3; i++) {
    setting fresh;
    rush_value y;
    set_up(&fresh, c);
    assert_int_equal(call(&fresh, i, &none, &y, NULL), RUSH_OK);
    assert_int_equal(rush_value_to_text(c, y, true, &k.want[i], NULL), RUSH_OK);
    rush_value_release(y);
    tear_down(&fresh);
  }
  pthread_barrier_init(&k.start, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &k), 0);
  for (int i = 0; i < N_THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&k.start);
  assert_int_equal(k.wrong, 0);
  assert_true(plans_made(&k.s) >= 1 && plans_made(&k.s) <= 2);
  for (int i = 0; i < 3; i++)
    rush_free_text(c, k.want[i]);
  tear_down(&k.s);
  rush_context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(plans_survive_each_failed_allocation),
    cmocka_unit_test(differentiating_survives_each_failed_allocation),
    cmocka_unit_test(plans_survive_byte_limits),
    cmocka_unit_test(plans_survive_interrupts),
    cmocka_unit_test(a_deadline_or_a_cancelled_call_makes_no_harm),
    cmocka_unit_test(a_program_with_too_many_types_makes_no_plan),
    cmocka_unit_test(threads_make_each_plan_once),
  };
  return RUN_TESTS(tests);
}
