/* Many threads share one state: some read and write the state of modules and generators while
 * others call, with deadlines and cancellation while waiting for locks. Meant for ThreadSanitizer
 * (tools/nightly.sh: "threads" and "storm"). RUSH_STORM_SECONDS: duration of the storm (1);
 * RUSH_STORM_THREADS: its threads (16). */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ops/call/call.h"
#include "ops/table/table.h"
#include "rushlight/rushlight.h"
#include "tensor/generator.h"
#include "value/value.h"

enum { WIDTH = 96, MOST_THREADS = 256 };

static rush_module *load(rush_context *c, const char *name)
{
  char path[4096];
  rush_module *m;

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  return rush_module_load(c, path, NULL, &m, NULL) == RUSH_OK ? m : NULL;
}

static rush_value floats(rush_context *c, int64_t rows)
{
  int64_t sizes[2] = {rows, WIDTH};
  rush_value v;

  if (rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &v, NULL) != RUSH_OK)
    return rush_value_none();
  float *x = rush_tensor_data_mut(v.as.tensor);
  for (int64_t i = 0; i < rows * WIDTH; i++)
    x[i] = i % 4 ? 0.5f : 0.0f; /* rrelu draws for elements that are not positive */
  return v;
}

/* -- A crew ------------------------------------------------------------------------------------ */

typedef struct crew {
  rush_context *c;
  rush_module *m;
  rush_value x;
  rush_cancel *cancel;
  atomic_bool stop;
  _Atomic int n_bad;
  _Atomic int64_t n_done;
  _Atomic uint64_t latest_ns; /* after a deadline */
} crew;
typedef void work_fn(crew *k, unsigned number);
typedef struct hand {
  crew *crew;
  work_fn *work;
  unsigned number;
} hand;

static void *hand_main(void *arg)
{
  hand *h = arg;

  while (!atomic_load(&h->crew->stop)) {
    h->work(h->crew, h->number);
    h->number += 7;
    atomic_fetch_add(&h->crew->n_done, 1);
  }
  return NULL;
}

/* Let every thread repeat one of the jobs. */
static void run_crew(crew *k, work_fn *const *works, int n_works, int n_threads, double seconds)
{
  static pthread_t threads[MOST_THREADS];
  static hand hands[MOST_THREADS];

  for (int i = 0; i < n_threads; i++) {
    hands[i] = (hand){k, works[i % n_works], (unsigned)i};
    assert_int_equal(pthread_create(&threads[i], NULL, hand_main, &hands[i]), 0);
  }
  nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)},
            NULL);
  atomic_store(&k->stop, true);
  for (int i = 0; i < n_threads; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(k->n_bad, 0);
}

static void ignore(void *user, const char *text)
{
  (void)user, (void)text;
}

static void crew_begin(crew *k, const char *file)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;

  memset(k, 0, sizeof *k);
  o.n_threads = 2;
  o.warn = ignore;
  assert_int_equal(rush_context_create(&o, &k->c, NULL), RUSH_OK);
  assert_non_null(k->m = load(k->c, file));
  k->x = floats(k->c, 4);
}
static void crew_end(crew *k)
{
  rush_value_release(k->x);
  rush_module_release(k->m);
  rush_context_release(k->c);
}
static void expect(crew *k, bool ok)
{
  if (!ok)
    atomic_fetch_add(&k->n_bad, 1);
}

/* -- Works ------------------------------------------------------------------------------------- */

static void call_count(crew *k, unsigned number)
{
  rush_value y;

  (void)number;
  if (rush_module_call(k->m, "count", &k->x, 1, &y, NULL) != RUSH_OK) {
    expect(k, false);
    return;
  }
  expect(k, y.tag == RUSH_TAG_INT);
}
static void call_forward(crew *k, unsigned number)
{
  rush_value y;

  if (rush_module_call(k->m, number % 3 ? "forward" : "tasks", &k->x, 1, &y, NULL) == RUSH_OK)
    rush_value_release(y);
  else
    expect(k, false);
}
/* A list that calls append to: readers never see an incomplete state. */
static void read_list(crew *k, unsigned number)
{
  rush_value l = rush_object_attr(rush_module_value(k->m), "seen");
  size_t n = rush_value_len(l);
  int64_t last = -1;

  (void)number;
  expect(k, l.tag == RUSH_TAG_LIST && n >= 1);
  for (size_t i = 0; i < n; i++) {
    rush_value v = rush_value_item(l, i);
    expect(k, v.tag == RUSH_TAG_INT && (i < 2 || v.as.i == last + 1));
    last = v.as.i;
  }
  rush_value_release(l);
}
/* Replace the list, which would otherwise grow forever. */
static void write_list(crew *k, unsigned number)
{
  rush_value item = rush_value_int(0), l;

  (void)number;
  if (rush_list_create(k->c, &item, 1, &l, NULL) != RUSH_OK)
    return;
  expect(k, rush_object_set_attr(k->c, rush_module_value(k->m), "seen", l, NULL) == RUSH_OK);
  rush_value_release(l);
}
static void read_state(crew *k, unsigned number)
{
  size_t n = rush_module_n_state(k->m); /* the module has some */
  bool is_parameter;
  rush_value v;
  char *name;

  expect(k, rush_module_state_at(k->m, number % (unsigned)n, &name, &is_parameter, &v, NULL) ==
              RUSH_OK);
  rush_value_release(v);
  expect(k, rush_module_get_state(k->m, name, &v, NULL) == RUSH_OK);
  rush_value_release(v);
  rush_free_text(k->c, name);
}
static void write_state(crew *k, unsigned number)
{
  int64_t n = WIDTH;
  rush_value v;

  (void)number;
  if (rush_tensor_create(k->c, RUSH_FLOAT32, 1, &n, &v, NULL) != RUSH_OK)
    return;
  memset(rush_tensor_data_mut(v.as.tensor), 0, WIDTH * sizeof(float));
  expect(k, rush_module_set_state(k->m, "total", v, NULL) == RUSH_OK);
  rush_value_release(v);
}
/* Submodules share the lock of their root, with and without a module around them. */
static void touch_submodule(crew *k, unsigned number)
{
  rush_value inner = rush_object_attr(rush_module_value(k->m), "inner"), y, w;
  rush_module *m;

  expect(k, rush_object_is_module(inner));
  w = rush_object_attr(inner, "training");
  expect(k, w.tag == RUSH_TAG_BOOL);
  expect(k, rush_object_set_attr(k->c, inner, "training", rush_value_bool(number % 2), NULL) ==
              RUSH_OK);
  if (rush_object_call(k->c, inner, "forward", &k->x, 1, NULL, 0, NULL, &y, NULL) == RUSH_OK)
    rush_value_release(y);
  if (rush_module_around(k->c, inner, number % 3 ? k->m : NULL, &m, NULL) == RUSH_OK) {
    expect(k, rush_module_get_state(m, "weight", &w, NULL) == RUSH_OK);
    rush_value_release(w);
    rush_module_release(m);
  }
  rush_value_release(inner);
}
static bool discard(void *user, const void *data, size_t n)
{
  (void)user, (void)data, (void)n;
  return true;
}
static void save_and_copy(crew *k, unsigned number)
{
  rush_save_options o = RUSH_SAVE_OPTIONS_INIT;
  rush_module *copy;
  char *text;

  o.write = discard;
  if (number % 3 == 0) {
    expect(k, rush_module_save(k->m, NULL, &o, NULL) == RUSH_OK);
  } else if (number % 3 == 1) {
    if (rush_module_copy(k->m, &copy, NULL) == RUSH_OK)
      rush_module_release(copy);
    else
      expect(k, false);
  } else {
    expect(k, rush_module_dump(k->m, RUSH_DUMP_DIGEST, NULL, &text, NULL) == RUSH_OK);
    rush_free_text(k->c, text);
  }
}
static void note_late(crew *k, uint64_t deadline)
{
  const uint64_t now = clock_ns(), late = now > deadline ? now - deadline : 0;

  for (uint64_t was = atomic_load(&k->latest_ns); late > was;)
    if (atomic_compare_exchange_weak(&k->latest_ns, &was, late))
      break;
}
/* An endless call holds the module's lock until its deadline; changes wait for it until their own.
 * */
static void spin_until_deadline(crew *k, unsigned number)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  const bool changes = number % 2;
  rush_value y = rush_value_none();

  o.limit_seconds = changes ? 0.02 : 0.05;
  const uint64_t deadline = clock_ns() + (uint64_t)(o.limit_seconds * 1e9);
  rush_status st =
    rush_module_call_named(k->m, changes ? "count" : "spin", &k->x, 1, NULL, 0, &o, &y, NULL);
  expect(k, st == RUSH_ELIMIT || (changes && st == RUSH_OK));
  if (st == RUSH_OK)
    rush_value_release(y);
  note_late(k, deadline);
}
static void cancel_one(crew *k, unsigned number)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_value y;

  (void)number;
  o.cancel = rush_cancel_create(k->c);
  rush_cancel_request(o.cancel);
  expect(k,
         rush_module_call_named(k->m, "spin", &k->x, 1, NULL, 0, &o, &y, NULL) == RUSH_ECANCELLED);
  rush_cancel_release(o.cancel);
}
static void load_and_release(crew *k, unsigned number)
{
  static const char *const names[] = {"digits.pt", "worker.pt", "digits.pt2", "life.pt"};
  rush_module *m = load(k->c, names[number % 4]);

  expect(k, m != NULL);
  rush_module_release(m);
}

/* -- Random kernels ---------------------------------------------------------------------------- */

/* Return an argument of the type, new: enough for most operators that draw. */
static bool make_arg(rush_context *c, const schema_arg *a, rush_value *out)
{
  const type *t = a->type->kind == TYPE_OPTIONAL ? a->type->elems[0] : a->type;
  rush_value two[2] = {rush_value_int(3), rush_value_int(7)};

  *out = rush_value_none();
  if (t->kind == TYPE_GENERATOR && a->type->kind != TYPE_OPTIONAL)
    *out = value_retain(value_heap_steal(RUSH_TAG_GENERATOR, generator_default(c)));
  else if (a->type->kind == TYPE_OPTIONAL)
    return true;
  else if (t->kind == TYPE_TENSOR)
    *out = floats(c, 3);
  else if (t->kind == TYPE_FLOAT || t->kind == TYPE_NUMBER)
    *out = rush_value_float(0.5);
  else if (t->kind == TYPE_INT)
    *out = rush_value_int(a->has_default ? a->default_value.as.i : 5);
  else if (t->kind == TYPE_BOOL)
    *out = rush_value_bool(true);
  else if (t->kind == TYPE_LIST && t->elems[0]->kind == TYPE_INT)
    return rush_list_create(c, two, 2, out, NULL) == RUSH_OK;
  return true;
}

/* True if the operator accepted the arguments and ended before `deadline_ns`. */
static bool call_random_until(rush_context *c, const op *o, uint64_t deadline_ns)
{
  rush_value args[16], results[8];
  const schema *sc = o->schema;
  call_ctx cx;
  uint32_t n = 0;

  if (sc->n_args > 16 || sc->n_returns > 8 || sc->is_vararg)
    return false;
  for (bool ok = true; n < sc->n_args && ok; n++)
    ok = make_arg(c, &sc->args[n], &args[n]);
  call_ctx_init(&cx, c, NULL);
  cx.deadline_ns = deadline_ns;
  rush_status st = op_invoke(&cx, o, args, n, results, sc->n_returns);
  for (uint32_t i = 0; st == RUSH_OK && i < sc->n_returns; i++)
    rush_value_release(results[i]);
  for (uint32_t i = 0; i < n; i++)
    rush_value_release(args[i]);
  return st == RUSH_OK;
}
static bool call_random(rush_context *c, const op *o)
{
  return call_random_until(c, o, UINT64_MAX);
}

/* True if a call of the operator changes the default generator's state. */
static bool draws(rush_context *c, const op *o)
{
  uint8_t before[RUSH_GENERATOR_STATE_BYTES], after[RUSH_GENERATOR_STATE_BYTES];

  return rush_generator_get_state(c, before, NULL) == RUSH_OK && call_random(c, o) &&
         rush_generator_get_state(c, after, NULL) == RUSH_OK &&
         memcmp(before, after, sizeof before) != 0;
}

/* Find the table's operators that draw, with their variants, by name: rows expand to several
 * schemas. */
static const op *random_op(rush_context *c, uint32_t i)
{
  const char *text = op_pool + op_rows[i].schema;
  const size_t n = strcspn(text, ".("), m = text[n] == '.' ? strcspn(text + n + 1, "(") : 0;
  const op *o = op_find(c, (str){text, n}, (str){text + n + 1, m});

  return o && o->effects & OP_RANDOM ? o : NULL;
}

static const op *random_ops[512];
static unsigned n_random_ops;

static void draw_any(crew *k, unsigned number)
{
  uint8_t state[RUSH_GENERATOR_STATE_BYTES];

  for (unsigned i = 0; i < 8; i++)
    (void)call_random(k->c, random_ops[(number * 13 + i) % n_random_ops]);
  if (number % 5 == 0)
    expect(k, rush_generator_get_state(k->c, state, NULL) == RUSH_OK &&
                  rush_generator_set_state(k->c, state, sizeof state, NULL) == RUSH_OK);
}

static void find_random_ops(rush_context *c)
{
  n_random_ops = 0;
  for (uint32_t i = 0; i < op_n_rows && n_random_ops < COUNT_OF(random_ops); i++) {
    const op *o = random_op(c, i);
    if (o && call_random(c, o))
      random_ops[n_random_ops++] = o;
  }
}

/* Run every operator of the table that draws, in several threads on one generator. */
static void all_random_kernels_take_turns(void **state)
{
  static work_fn *const works[] = {draw_any};
  crew k;

  (void)state;
  crew_begin(&k, "worker.pt");
  find_random_ops(k.c);
  printf("%u operators draw\n", n_random_ops);
  assert_true(n_random_ops > 40);
  run_crew(&k, works, 1, 6, 1.0);
  crew_end(&k);
}

static void *draw_with_each(void *arg)
{
  enum { PATIENCE_NS = 2000000 };
  crew *k = arg;

  for (unsigned i = 0; i < n_random_ops; i++)
    if (call_random_until(k->c, random_ops[i], clock_ns() + PATIENCE_NS)) {
      printf("%s.%s draws without the generator's lock\n", random_ops[i]->schema->name,
             random_ops[i]->schema->overload);
      atomic_fetch_add(&k->n_bad, 1);
    }
  return NULL;
}

/* While another thread draws, no operator that draws completes: a kernel that does not take the
 * lock would. */
static void no_kernel_draws_without_the_lock(void **state)
{
  rush_error err = RUSH_ERROR_INIT;
  pthread_t other;
  call_ctx cx;
  turn mine;
  crew k;

  (void)state;
  crew_begin(&k, "worker.pt");
  find_random_ops(k.c);
  unsigned n = 0;
  for (unsigned i = 0; i < n_random_ops; i++)
    if (draws(k.c, random_ops[i]))
      random_ops[n++] = random_ops[i];
  n_random_ops = n;
  printf("%u operators move the generator\n", n);
  assert_true(n > 40);
  call_ctx_init(&cx, k.c, &err);
  assert_int_equal(turn_begin(&cx, generator_default(k.c), &mine), RUSH_OK);
  pthread_create(&other, NULL, draw_with_each, &k);
  pthread_join(other, NULL);
  assert_int_equal(turn_end(&mine), RUSH_OK);
  assert_int_equal(k.n_bad, 0);
  crew_end(&k);
}

/* Turns of a long fill lose nothing: the numbers are those of one thread alone. */
static void one_threads_numbers_are_exact(void **state)
{
  rush_value y[2];
  size_t n;
  crew k;

  (void)state;
  crew_begin(&k, "worker.pt");
  rush_value big = floats(k.c, 3000);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(rush_manual_seed(k.c, 5, NULL), RUSH_OK);
    assert_int_equal(rush_op_call(k.c, "aten::rand_like", &big, 1, NULL, 0, &y[i], 1, &n, NULL),
                     RUSH_OK);
  }
  assert_memory_equal(rush_tensor_data(y[0].as.tensor), rush_tensor_data(y[1].as.tensor),
                      3000 * WIDTH * sizeof(float));
  rush_value_release(y[0]);
  rush_value_release(y[1]);
  rush_value_release(big);
  crew_end(&k);
}

/* -- State ------------------------------------------------------------------------------------- */

static void state_is_read_and_written_between_calls(void **state)
{
  static work_fn *const works[] = {call_count,  read_list,       write_list,    read_state,
                                   write_state, touch_submodule, save_and_copy, call_forward};
  crew k;

  (void)state;
  crew_begin(&k, "worker.pt");
  run_crew(&k, works, COUNT_OF(works), COUNT_OF(works), 1.0);
  crew_end(&k);
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static void *hold_module(void *arg)
{
  crew *k = arg;
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_value y;

  o.cancel = k->cancel;
  atomic_store(&k->n_done, 1);
  expect(k,
         rush_module_call_named(k->m, "spin", &k->x, 1, NULL, 0, &o, &y, NULL) == RUSH_ECANCELLED);
  return NULL;
}
static void *cancel_later(void *arg)
{
  usleep(30000);
  rush_cancel_request(arg);
  return NULL;
}

static void a_wait_for_a_module_ends(void **state)
{
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  pthread_t holder, canceller;
  rush_value y;
  crew k;

  (void)state;
  crew_begin(&k, "worker.pt");
  k.cancel = rush_cancel_create(k.c);
  pthread_create(&holder, NULL, hold_module, &k);
  usleep(100000);
  o.limit_seconds = 0.05;
  const uint64_t deadline = clock_ns() + 50000000;
  assert_int_equal(rush_module_call_named(k.m, "count", &k.x, 1, NULL, 0, &o, &y, NULL),
                   RUSH_ELIMIT);
  note_late(&k, deadline);
  o.limit_seconds = 0;
  o.cancel = rush_cancel_create(k.c);
  pthread_create(&canceller, NULL, cancel_later, o.cancel);
  assert_int_equal(rush_module_call_named(k.m, "count", &k.x, 1, NULL, 0, &o, &y, NULL),
                   RUSH_ECANCELLED);
  pthread_join(canceller, NULL);
  rush_cancel_request(k.cancel);
  pthread_join(holder, NULL);
  printf("behind a module's lock: %.1f ms late\n", (double)k.latest_ns * 1e-6);
  assert_int_equal(k.n_bad, 0);
  rush_cancel_release(o.cancel);
  rush_cancel_release(k.cancel);
  crew_end(&k);
}

static void *hold_generator(void *arg)
{
  crew *k = arg;
  rush_value args[2], y;
  size_t n;

  args[0] = floats(k->c, 200000);
  if (rush_op_call(k->c, "aten::rand_like", args, 1, NULL, 0, &y, 1, &n, NULL) == RUSH_OK)
    rush_value_release(y);
  rush_value_release(args[0]);
  atomic_store(&k->stop, true);
  return NULL;
}

/* Small draws get turns during a long fill. */
static void short_draws_do_not_wait_for_long_ones(void **state)
{
  pthread_t holder;
  int64_t n_drawn = 0;
  crew k;

  (void)state;
  crew_begin(&k, "worker.pt");
  pthread_create(&holder, NULL, hold_generator, &k);
  while (!atomic_load(&k.stop)) {
    rush_value y;
    size_t n;
    assert_int_equal(rush_op_call(k.c, "aten::rand_like", &k.x, 1, NULL, 0, &y, 1, &n, NULL),
                     RUSH_OK);
    rush_value_release(y);
    n_drawn++;
  }
  pthread_join(holder, NULL);
  printf("%lld short draws beside a long one\n", (long long)n_drawn);
  crew_end(&k);
}

/* -- Re-entry ---------------------------------------------------------------------------------- */

static void print_again(void *user, const char *text, size_t len)
{
  static const char more[] = "def later(x: int) -> int:\n  return x\n";
  crew *k = user;
  rush_value x = rush_value_int(3), y = rush_value_none();

  (void)text, (void)len;
  expect(k, rush_module_call(k->m, "twice", &x, 1, &y, NULL) == RUSH_OK && y.as.i == 6);
  if (!atomic_exchange(&k->n_done, 1))
    expect(k, rush_module_define(k->m, more, sizeof more - 1, NULL, NULL) == RUSH_OK);
}

static void a_callback_may_use_the_module_that_it_was_called_from(void **state)
{
  static const char text[] =
    "def twice(x: int) -> int:\n  return 2 * x\ndef show(x: int) -> int:\n  print(x)\n  return x\n";
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_value x = rush_value_int(3), y;
  crew k = {.n_bad = 0};

  (void)state;
  o.print = print_again;
  o.callback_user = &k;
  assert_int_equal(rush_context_create(&o, &k.c, NULL), RUSH_OK);
  assert_int_equal(rush_module_compile(k.c, text, sizeof text - 1, NULL, &k.m, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(k.m, "show", &x, 1, &y, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(k.m, "later", &x, 1, &y, NULL), RUSH_OK);
  assert_int_equal(k.n_bad, 0);
  rush_module_release(k.m);
  rush_context_release(k.c);
}

/* -- Everything at once ------------------------------------------------------------------------ */

static double number_of(const char *name, double otherwise)
{
  const char *text = getenv(name);

  return text ? atof(text) : otherwise;
}

static void storm(void **state)
{
  static work_fn *const works[] = {
    call_count, read_list,  write_list,       read_state,    write_state,         touch_submodule,
    draw_any,   cancel_one, load_and_release, save_and_copy, spin_until_deadline, call_forward};
  const int n_threads = (int)number_of("RUSH_STORM_THREADS", 16);
  const double seconds = number_of("RUSH_STORM_SECONDS", 1);
  crew k;

  (void)state;
  assert_true(n_threads > 0 && n_threads <= MOST_THREADS);
  crew_begin(&k, "worker.pt");
  find_random_ops(k.c);
  run_crew(&k, works, COUNT_OF(works), n_threads, seconds);
  printf("%d threads, %.0f s: %lld pieces of work, deadlines at most %.1f ms late\n", n_threads,
         seconds, (long long)k.n_done, (double)k.latest_ns * 1e-6);
  crew_end(&k);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(state_is_read_and_written_between_calls),
      cmocka_unit_test(all_random_kernels_take_turns),
      cmocka_unit_test(no_kernel_draws_without_the_lock),
      cmocka_unit_test(one_threads_numbers_are_exact),
      cmocka_unit_test(a_wait_for_a_module_ends),
      cmocka_unit_test(short_draws_do_not_wait_for_long_ones),
      cmocka_unit_test(a_callback_may_use_the_module_that_it_was_called_from),
      cmocka_unit_test(storm),
  };
  return RUN_TESTS(tests);
}
