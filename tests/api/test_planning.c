/* Test plans where something is short: each allocation of making a plan, of recording facts, of a
 * guard that fails and of differentiating a graph fails in turn; byte limits, deadlines and
 * interrupts at each poll; 64 threads that call one module while its plans and instances are made
 * and its guards fail.  A call gives the same bits, or ends for a reason of its own. */
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

#define IMPORTS "import torch\nfrom typing import List, Tuple\n"
static const char run_text[] =
  IMPORTS
  "def scaled(x: Tensor, k: int):\n"
  "  for i in range(3):\n    x = x * 0.5 + k\n  return x\n"
  "def run(x: Tensor, w: Tensor, k: int) -> Tuple[Tensor, Tensor, int]:\n"
  "  y = scaled(x, k)\n"
  "  if x.dim() == 2:\n    y = y @ w\n  else:\n    y = y * 2\n"
  "  parts = [torch.relu(y), y.sigmoid()]\n"
  "  out = parts[0] + parts[1]\n"
  "  return out, torch.cat([out, out]), x.size(0)\n";
static const char listed_text[] =
  IMPORTS
  "def run(l: List[Tensor], w: Tensor, k: int) -> Tuple[Tensor, List[Tensor], int]:\n"
  "  n = 0\n  out = [w]\n  y = l[0]\n"
  "  for i in range(2):\n"
  "    y = l[i] * k\n    pair = (y, w + i)\n    parts = [pair[0], y + 1]\n"
  "    if y.size(0) == 2:\n      y = torch.cat(parts)\n"
  "    z = torch.relu(y) @ w\n    out.append(z + parts[1].sum())\n    n += pair[0].dim()\n"
  "  return y * w.sum(), out, n\n";
/* More values than a bailout has room for without an allocation: all live where l[1] is read. */
#define EACH(f) \
  f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) \
  f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31) f(32) f(33) \
  f(34) f(35)
#define MAKE(n) "  v" #n " = y * " #n "\n"
#define SUM(n) "  y = y + v" #n "\n"
static const char many_text[] =
  IMPORTS
  "def run(l: List[Tensor], w: Tensor, k: int) -> Tuple[Tensor, int]:\n"
  "  y = l[0]\n" EACH(MAKE) "  y = l[1]\n" EACH(SUM) "  return y @ w, k\n";

static rush_value filled(rush_context *c, int64_t rows, int64_t columns)
{
  const int64_t sizes[] = {rows, columns};
  rush_value t;

  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &t, NULL), RUSH_OK);
  for (int64_t i = 0; i < rows * columns; i++)
    ((float *)rush_tensor_data_mut(t.as.tensor))[i] = (float)(i % 7) / 4 - 1;
  return t;
}

enum { MOST_KINDS = 24, LISTED = 2 };

/* A module, and the arguments of each kind of calls: they have other sizes. */
typedef struct setting {
  rush_context *c;
  rush_module *m;
  int n_kinds;
  rush_value first[MOST_KINDS], w;
} setting;

static rush_value list_of(rush_context *c, int64_t rows)
{
  rush_value items[LISTED], l;

  for (int i = 0; i < LISTED; i++)
    items[i] = filled(c, rows, 4);
  assert_int_equal(rush_list_create(c, items, LISTED, &l, NULL), RUSH_OK);
  for (int i = 0; i < LISTED; i++)
    rush_value_release(items[i]);
  return l;
}

static void set_up_for(setting *s, rush_context *c, const char *text, int n_kinds)
{
  *s = (setting){.c = c, .n_kinds = n_kinds, .w = filled(c, 4, 4)};
  for (int i = 0; i < n_kinds; i++) {
    const int64_t rows = i < 2 ? 2 + i : 3 + i;
    s->first[i] = text == run_text ? filled(c, rows, 4) : list_of(c, rows);
  }
  assert_int_equal(rush_module_compile(c, text, strlen(text), NULL, &s->m, NULL), RUSH_OK);
}

static void set_up(setting *s, rush_context *c) { set_up_for(s, c, run_text, 3); }

static void tear_down(setting *s)
{
  for (int i = 0; i < s->n_kinds; i++)
    rush_value_release(s->first[i]);
  rush_value_release(s->w);
  rush_module_release(s->m);
}

static rush_status call(const setting *s, int kind, const rush_call_options *o, rush_value *y,
                        rush_error *err)
{
  const rush_value args[] = {s->first[kind], s->w, rush_value_int(1)};

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

/* Return the sum of the numbers in front of `word` in what is said of the plans. */
static unsigned told(const setting *s, const char *word)
{
  char *said;
  unsigned sum = 0;

  assert_int_equal(rush_module_dump(s->m, RUSH_DUMP_PLANS, "run", &said, NULL), RUSH_OK);
  for (const char *at = said; (at = strstr(at, word)) != NULL; at++) {
    const char *from = at;
    while (from > said && strchr("0123456789", from[-1]))
      from--;
    sum += (unsigned)strtoul(from, NULL, 10);
  }
  rush_free_text(s->c, said);
  return sum;
}

static unsigned plans_made(const setting *s) { return told(s, " made,"); }

/* -- Allocations ------------------------------------------------------------------------------- */

/* Make a call, one allocation of which may fail; returns true if it does. */
static bool call_or_fail(const setting *s, oom_state *oom, int kind, const rush_call_options *o)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value y;

  oom->on = true;
  const rush_status st = call(s, kind, o, &y, &err);
  oom->on = false;
  if (st != RUSH_OK && st != RUSH_ENOMEM)
    fail_msg("allocation %ld: %s: %s", oom->at, rush_status_name(st), err.message);
  if (st == RUSH_OK && !is_right(s, kind, y))
    fail_msg("allocation %ld: a call of kind %d gives other bits", oom->at, kind);
  rush_error_clear(&err);
  return st != RUSH_OK;
}

/* Make calls 0, 0, 1, 2: general, exact plan, widened plan, its hit.  One of them has an allocation
 * that fails. */
static void plan_without_memory(bool records)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  static const int kinds[] = {0, 0, 1, 2};

  o.record_gradients = records;
  OOM_LOOP(cx) {
    setting s;
    rush_value y;
    unsigned failed = 0;
    oom_.on = false;
    set_up(&s, cx.ctx);
    if (records)
      rush_tensor_set_requires_grad(s.w.as.tensor, true);
    assert_int_equal(call(&s, kinds[0], &o, &y, NULL), RUSH_OK); /* compiles: other tests */
    rush_value_release(y);
    for (int i = 1; i < 4; i++)
      failed += call_or_fail(&s, &oom_, kinds[i], &o);
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

/* The first call records facts of list items; a plan is made, its guards fail, another is made. */
static void profiling_survives_each_failed_allocation(void **state)
{
  (void)state;
  static const rush_call_options none = RUSH_CALL_OPTIONS_INIT;
  static const int kinds[] = {0, 0, 1, 1, 1, 2, 0};

  OOM_LOOP(cx) {
    setting s;
    oom_.on = false;
    set_up_for(&s, cx.ctx, listed_text, 3);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
      (void)call_or_fail(&s, &oom_, kinds[i], &none);
    if (!oom_.fired) {
      assert_int_equal(plans_made(&s), 2);
      assert_true(told(&s, " did not hold") > 0 || told(&s, " bailouts") > 0);
    }
    tear_down(&s);
  }
}

/* Make a plan with guards everywhere; then calls whose 1st, 2nd ... guard fails, without memory
 * from some allocation of each of these calls on.  The next such call bails out. */
static void bail_out_without_memory(const char *text, bool records)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;

  o.record_gradients = records;
  OOM_LOOP(cx) {
    setting s;
    bool fired = false;
    oom_.on = false;
    set_up_for(&s, cx.ctx, text, 1);
    rush_tensor_set_requires_grad(s.w.as.tensor, records);
    rush_context_set_guard_failures(cx.ctx, 0, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
      rush_value y;
      assert_int_equal(call(&s, 0, &o, &y, NULL), RUSH_OK);
      assert_true(is_right(&s, 0, y));
    }
    const unsigned n_guards = told(&s, " checked"), had = told(&s, " bailouts");
    assert_true(n_guards > 1 && told(&s, " values in its snapshot") > 32);
    for (unsigned nth = 1; nth <= n_guards; nth++) {
      rush_context_set_guard_failures(cx.ctx, 0, nth);
      oom_.countdown = oom_.at;
      oom_.fired = false;
      (void)call_or_fail(&s, &oom_, 0, &o);
      fired |= oom_.fired;
    }
    oom_.fired = fired;
    if (!fired)
      assert_true(told(&s, " bailouts") >= had + n_guards);
    tear_down(&s);
  }
}

static void bailouts_survive_each_failed_allocation(void **state)
{
  (void)state;
  bail_out_without_memory(listed_text, false);
  bail_out_without_memory(listed_text, true);
  bail_out_without_memory(many_text, false);
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
  bool records;
  char *want[MOST_KINDS];
  pthread_barrier_t start;
  _Atomic int n_started;
  _Atomic unsigned wrong;
} crowd;

/* Get the gradient of w, for the first result as its gradient. */
static rush_status differentiate_first(const setting *s, rush_value y, rush_value *grad)
{
  return rush_gradients(s->c, y.as.tuple->items, y.as.tuple->items, 1, &s->w, 1, NULL, grad, NULL);
}

/* Make a call; *out is what it gives, and the gradient of w if it records. */
static rush_status look(const crowd *k, const setting *s, int kind, char **out)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_value both[2], tuple;

  o.record_gradients = k->records;
  both[1] = rush_value_none();
  rush_status st = call(s, kind, &o, &both[0], NULL);
  if (st != RUSH_OK)
    return st;
  if (k->records)
    st = differentiate_first(s, both[0], &both[1]);
  if (st == RUSH_OK)
    st = rush_tuple_create(s->c, both, 2, &tuple, NULL);
  if (st == RUSH_OK) {
    st = rush_value_to_text(s->c, tuple, true, out, NULL);
    rush_value_release(tuple);
  }
  rush_value_release(both[0]);
  rush_value_release(both[1]);
  return st;
}

static void *call_often(void *arg)
{
  crowd *k = arg;

  pthread_barrier_wait(&k->start);
  const int number = atomic_fetch_add(&k->n_started, 1);
  for (int i = 0; i < N_CALLS; i++) {
    const int kind = (i + number) % k->s.n_kinds;
    char *got;
    if (look(k, &k->s, kind, &got) != RUSH_OK) {
      k->wrong++;
      return NULL;
    }
    k->wrong += strcmp(got, k->want[kind]) != 0;
    rush_free_text(k->s.c, got);
  }
  return NULL;
}

static void crowd_begin(crowd *k, rush_context *c, const char *text, int n_kinds)
{
  set_up_for(&k->s, c, text, n_kinds);
  rush_tensor_set_requires_grad(k->s.w.as.tensor, k->records);
  for (int i = 0; i < n_kinds; i++) { /* of first calls, one operator after the other */
    setting fresh;
    set_up_for(&fresh, c, text, n_kinds);
    rush_tensor_set_requires_grad(fresh.w.as.tensor, k->records);
    assert_int_equal(look(k, &fresh, i, &k->want[i]), RUSH_OK);
    tear_down(&fresh);
  }
}

static void crowd_end(crowd *k)
{
  for (int i = 0; i < k->s.n_kinds; i++)
    rush_free_text(k->s.c, k->want[i]);
  tear_down(&k->s);
}

static void crowd_run(crowd *k)
{
  pthread_t threads[N_THREADS];

  pthread_barrier_init(&k->start, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, k), 0);
  for (int i = 0; i < N_THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&k->start);
  assert_int_equal(k->wrong, 0);
}

static void threads_make_each_plan_once(void **state)
{
  (void)state;
  for (int records = 0; records < 2; records++) {
    rush_context *c;
    crowd k = {.records = records};
    assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
    crowd_begin(&k, c, run_text, 3);
    crowd_run(&k);
    assert_true(plans_made(&k.s) >= 1 && plans_made(&k.s) <= 2);
    crowd_end(&k);
    rush_context_release(c);
  }
}

/* Each thread has another size at each time: more than a place in code has instances. */
static void threads_share_instances(void **state)
{
  (void)state;
  for (int plans = 0; plans < 2; plans++) {
    rush_context *c;
    crowd k = {.records = false};
    assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
    rush_context_set_plan_limits(c, !plans, 1, 1);
    crowd_begin(&k, c, run_text, MOST_KINDS);
    crowd_run(&k);
    crowd_end(&k);
    rush_context_release(c);
  }
}

/* Guards that do not hold, because lists have items of other sizes, and that fail though they do.
 * */
static void threads_bail_out(void **state)
{
  (void)state;
  static const char *const texts[] = {listed_text, many_text};
  for (int i = 0; i < 8; i++) {
    rush_context *c;
    crowd k = {.records = i / 2 % 2};
    assert_int_equal(rush_context_create(NULL, &c, NULL), RUSH_OK);
    crowd_begin(&k, c, texts[i / 4], i % 2 ? 3 : MOST_KINDS);
    rush_context_set_guard_failures(c, i % 2 ? 1 : 0, 0);
    crowd_run(&k);
    if (i % 2)
      assert_true(told(&k.s, " bailouts") > 0);
    rush_context_set_guard_failures(c, 0, 0);
    crowd_end(&k);
    rush_context_release(c);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(plans_survive_each_failed_allocation),
    cmocka_unit_test(profiling_survives_each_failed_allocation),
    cmocka_unit_test(bailouts_survive_each_failed_allocation),
    cmocka_unit_test(differentiating_survives_each_failed_allocation),
    cmocka_unit_test(plans_survive_byte_limits),
    cmocka_unit_test(plans_survive_interrupts),
    cmocka_unit_test(a_deadline_or_a_cancelled_call_makes_no_harm),
    cmocka_unit_test(a_program_with_too_many_types_makes_no_plan),
    cmocka_unit_test(threads_make_each_plan_once),
    cmocka_unit_test(threads_share_instances),
    cmocka_unit_test(threads_bail_out),
  };
  return RUN_TESTS(tests);
}
