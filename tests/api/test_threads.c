/* Many threads use one library: tests the promises of the header, also under ThreadSanitizer
 * (tools/nightly.sh: "threads"). Every test compares the bits with those of one thread alone. */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "rushlight/rushlight.h"

enum { N_THREADS = 8, ROWS = 40, WIDTH = 96, ROUNDS = 12 };

static char *data_path(char *path, size_t size, const char *name)
{
  snprintf(path, size, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  return path;
}

static rush_module *load(rush_context *c, const char *name)
{
  char path[4096];
  rush_module *m;
  return rush_module_load(c, data_path(path, sizeof path, name), NULL, &m, NULL) == RUSH_OK ? m
                                                                                            : NULL;
}

static rush_context *create(int n_threads)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;
  o.n_threads = n_threads;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  return c;
}

static rush_value input(rush_context *c)
{
  int64_t sizes[2] = {ROWS, WIDTH};
  rush_value v;
  if (rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &v, NULL) != RUSH_OK)
    return rush_value_none();
  float *x = rush_tensor_data_mut(v.as.tensor);
  for (int i = 0; i < ROWS * WIDTH; i++)
    x[i] = (float)((i * 37) % 101) / 50.0f - 1.0f;
  return v;
}

static bool same_bits(rush_value a, rush_value b)
{
  int64_t n = rush_tensor_n_elems(a.as.tensor);
  return n == rush_tensor_n_elems(b.as.tensor) &&
         memcmp(rush_tensor_data(a.as.tensor), rush_tensor_data(b.as.tensor), (size_t)n * 4) == 0;
}

/* -- A crew: the same function on every thread, begun together --------------------------------- */

typedef struct crew crew;
typedef struct hand {
  crew *crew;
  int number;
  bool ok;
} hand;
struct crew {
  bool (*work)(crew *k, int number);
  rush_context *c;
  rush_module *m, *other;
  rush_value x, want;
  atomic_bool done; /* stops the thread that runs beside */
  pthread_barrier_t start;
};

static void *hand_main(void *arg)
{
  hand *h = arg;
  pthread_barrier_wait(&h->crew->start);
  h->ok = h->crew->work(h->crew, h->number);
  return NULL;
}

/* Run `beside` in a thread of its own until the other threads have ended. */
static void run_crew(crew *k, bool (*work)(crew *k, int number),
                     bool (*beside)(crew *k, int number))
{
  pthread_t threads[N_THREADS + 1];
  hand hands[N_THREADS];
  crew aside = {
    .work = beside, .c = k->c, .m = k->m, .other = k->other, .x = k->x, .want = k->want};
  hand last = {&aside, N_THREADS, true};
  k->work = work;
  pthread_barrier_init(&k->start, NULL, N_THREADS);
  pthread_barrier_init(&aside.start, NULL, 1);
  if (beside)
    assert_int_equal(pthread_create(&threads[N_THREADS], NULL, hand_main, &last), 0);
  for (int i = 0; i < N_THREADS; i++) {
    hands[i] = (hand){k, i, false};
    assert_int_equal(pthread_create(&threads[i], NULL, hand_main, &hands[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++)
    pthread_join(threads[i], NULL);
  atomic_store(&aside.done, true);
  if (beside)
    pthread_join(threads[N_THREADS], NULL);
  pthread_barrier_destroy(&k->start);
  pthread_barrier_destroy(&aside.start);
  for (int i = 0; i < N_THREADS; i++)
    assert_true(hands[i].ok);
  assert_true(last.ok);
}

static bool forward_is_right(rush_module *m, rush_value x, rush_value want)
{
  rush_value y;
  if (rush_module_call(m, "forward", &x, 1, &y, NULL) != RUSH_OK)
    return false;
  bool ok = same_bits(y, want);
  rush_value_release(y);
  return ok;
}

static void crew_begin(crew *k, int n_threads)
{
  *k = (crew){.c = create(n_threads)};
  k->m = load(k->c, "worker.pt");
  assert_non_null(k->m);
  k->x = input(k->c);
  assert_int_equal(rush_module_call(k->m, "forward", &k->x, 1, &k->want, NULL), RUSH_OK);
}
static void crew_end(crew *k)
{
  size_t live;
  rush_module_release(k->other);
  rush_module_release(k->m);
  rush_value_release(k->x);
  rush_value_release(k->want);
  rush_memory_stats(k->c, &live, NULL);
  assert_true(live < 4u << 20); /* memory that the context caches */
  rush_context_release(k->c);
}

/* -- The scenario: eight callers, one loader --------------------------------------------------- */

static bool call_both(crew *k, int number)
{
  bool ok = true;
  for (int i = 0; i < ROUNDS; i++) {
    rush_value n;
    ok &= forward_is_right((number + i) % 2 ? k->m : k->other, k->x, k->want);
    if (rush_module_call(k->m, "count", &k->x, 1, &n, NULL) != RUSH_OK)
      return false;
    ok &= n.tag == RUSH_TAG_INT && n.as.i >= 1 && n.as.i <= N_THREADS * ROUNDS;
    if (i % 4 == 0) {
      rush_value y;
      if (rush_module_call(k->other, "tasks", &k->x, 1, &y, NULL) != RUSH_OK)
        return false;
      rush_value_release(y);
    }
  }
  return ok;
}

static bool load_and_free(crew *k, int number)
{
  static const char *const names[] = {"digits.pt", "worker.pt", "digits.pt2", "life.pt"};
  (void)number;
  for (int i = 0; !atomic_load(&k->done); i++) {
    rush_module *m = load(k->c, names[i % 4]);
    if (!m || (i % 4 == 1 && !forward_is_right(m, k->x, k->want)))
      return false;
    rush_module_release(m);
  }
  return true;
}

static void eight_threads_call_one_program_while_another_loads(void **state)
{
  (void)state;
  crew k;
  rush_value n, total;
  crew_begin(&k, 2);
  assert_int_equal(rush_module_copy(k.m, &k.other, NULL), RUSH_OK);
  run_crew(&k, call_both, load_and_free);
  assert_int_equal(rush_module_call(k.m, "count", &k.x, 1, &n, NULL), RUSH_OK);
  assert_int_equal(n.as.i, N_THREADS * ROUNDS + 1); /* no change of state was lost */
  assert_int_equal(rush_module_get_state(k.m, "total", &total, NULL), RUSH_OK);
  assert_true(((const float *)rush_tensor_data(total.as.tensor))[WIDTH - 1] ==
              N_THREADS * ROUNDS + 1);
  rush_value_release(total);
  assert_int_equal(rush_module_get_state(k.other, "total", &total, NULL), RUSH_OK);
  assert_true(((const float *)rush_tensor_data(total.as.tensor))[0] == 0);
  rush_value_release(total);
  crew_end(&k);
}

/* -- Bits -------------------------------------------------------------------------------------- */

typedef struct answers {
  rush_context *c; /* outlives the values */
  rush_value worker, tasks, product, sums;
} answers;

static void answer_all(rush_cpu cpu, int n_threads, answers *out)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_context *c;
  rush_value x, t, args[2] = {rush_value_none(), rush_value_int(0)};
  rush_module *m;
  size_t n;
  o.cpu = cpu;
  o.n_threads = n_threads;
  assert_int_equal(rush_context_create(&o, &c, NULL), RUSH_OK);
  assert_non_null(m = load(c, "worker.pt"));
  x = args[0] = input(c);
  assert_int_equal(rush_module_call(m, "forward", &x, 1, &out->worker, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, "tasks", &x, 1, &out->tasks, NULL), RUSH_OK);
  assert_int_equal(rush_op_call(c, "aten::t", &x, 1, NULL, 0, &t, 1, &n, NULL), RUSH_OK);
  assert_int_equal(
    rush_op_call(c, "aten::mm", (rush_value[]){x, t}, 2, NULL, 0, &out->product, 1, &n, NULL),
    RUSH_OK);
  assert_int_equal(rush_op_call(c, "aten::logsumexp", args, 2, NULL, 0, &out->sums, 1, &n, NULL),
                   RUSH_OK);
  rush_value_release(t);
  rush_value_release(x);
  rush_module_release(m);
  out->c = c;
}

static void answers_release(answers *a)
{
  rush_value_release(a->worker);
  rush_value_release(a->tasks);
  rush_value_release(a->product);
  rush_value_release(a->sums);
  rush_context_release(a->c);
}

static void threads_and_cpus_give_the_same_bits(void **state)
{
  (void)state;
  answers want, got;
  answer_all(RUSH_CPU_NATIVE, 1, &want);
  for (int cpu = RUSH_CPU_PORTABLE; cpu <= RUSH_CPU_AVX512; cpu++)
    for (int n_threads = 1; n_threads <= 8; n_threads = n_threads * 3 - 1) { /* 1, 2, 5 */
      answer_all((rush_cpu)cpu, n_threads, &got);
      assert_true(same_bits(got.worker, want.worker) && same_bits(got.tasks, want.tasks) &&
                  same_bits(got.product, want.product) && same_bits(got.sums, want.sums));
      answers_release(&got);
    }
  answers_release(&want);
}

/* -- What is made at first use ----------------------------------------------------------------- */

static bool call_three_times(crew *k, int number)
{
  (void)number;
  return forward_is_right(k->other, k->x, k->want) && forward_is_right(k->other, k->x, k->want) &&
         forward_is_right(k->other, k->x, k->want);
}

/* The first call compiles methods, the second packs weights. */
static void first_calls_come_at_once(void **state)
{
  (void)state;
  crew k;
  crew_begin(&k, 1);
  for (int i = 0; i < 6; i++) {
    k.other = load(k.c, "worker.pt");
    assert_non_null(k.other);
    run_crew(&k, call_three_times, NULL);
    rush_module_release(k.other);
    k.other = NULL;
  }
  crew_end(&k);
}

static const struct some_operator {
  const char *name;
  char second; /* argument: ' ' none, 'd' a dimension, 'x' the tensor again */
} some_operators[] = {{"aten::relu", ' '},       {"aten::logsumexp", 'd'}, {"aten::gelu", ' '},
                      {"aten::cumsum", 'd'},     {"aten::std", ' '},       {"aten::softmax", 'd'},
                      {"aten::huber_loss", 'x'}, {"aten::mish", ' '},      {"aten::sort", 'd'},
                      {"aten::linalg_norm", ' '}};
enum { N_OPERATORS = sizeof some_operators / sizeof *some_operators };

static rush_status call_one(crew *k, int i)
{
  const struct some_operator *op = &some_operators[i];
  rush_value args[2] = {k->x, op->second == 'x' ? k->x : rush_value_int(1)}, out[2];
  size_t n = 0;
  rush_status st =
    rush_op_call(k->c, op->name, args, op->second == ' ' ? 1 : 2, NULL, 0, out, 2, &n, NULL);
  for (size_t j = 0; st == RUSH_OK && j < n; j++)
    rush_value_release(out[j]);
  return st;
}

static bool call_operators(crew *k, int number)
{
  bool ok = true;
  for (int i = 0; i < N_OPERATORS; i++)
    ok &= call_one(k, (i + (number % 2 ? number : 0)) % N_OPERATORS) == RUSH_OK &&
          rush_op_find(k->c, "aten::mm");
  return ok;
}

static void operators_of_a_fresh_context_are_called_at_once(void **state)
{
  (void)state;
  for (int i = 0; i < 3; i++) {
    crew k = {.c = create(2)};
    k.x = input(k.c);
    run_crew(&k, call_operators, NULL);
    rush_value_release(k.x);
    rush_context_release(k.c);
  }
}

/* -- Contexts, the default one, headers that change threads ------------------------------------ */

static bool live_alone(crew *k, int number)
{
  (void)k;
  bool ok = true;
  for (int i = 0; i < 3; i++) {
    rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
    rush_context *c;
    o.n_threads = 1 + number % 3;
    if (rush_context_create(&o, &c, NULL) != RUSH_OK)
      return false;
    rush_value x = input(c);
    rush_module *m = load(c, "worker.pt");
    ok &= m && forward_is_right(m, x, k->want);
    rush_module_release(m);
    rush_value_release(x);
    rush_context_release(c);
  }
  return ok;
}

static void every_thread_has_contexts_of_its_own(void **state)
{
  (void)state;
  crew k;
  crew_begin(&k, 1);
  run_crew(&k, live_alone, NULL);
  crew_end(&k);
}

static bool use_default(crew *k, int number)
{
  int64_t n = 5 + number;
  rush_value v;
  (void)k;
  if (rush_tensor_create(NULL, RUSH_INT64, 1, &n, &v, NULL) != RUSH_OK)
    return false;
  rush_value_release(v);
  return rush_op_exists(NULL, "aten::add") && rush_context_get_threads(NULL) >= 1;
}

static void the_default_context_is_made_once(void **state)
{
  (void)state;
  crew k = {0};
  run_crew(&k, use_default, NULL);
}

static bool make_tensors(crew *k, int number)
{
  rush_value made[8];
  int64_t n = 1 + number;
  for (int i = 0; i < 8; i++)
    if (rush_tensor_create(k->c, RUSH_FLOAT32, 1, &n, &made[i], NULL) != RUSH_OK)
      return false;
  for (int i = 0; i < 8; i++)
    rush_value_release(made[i]);
  return true;
}

static void a_contexts_first_tensors_are_made_at_once(void **state)
{
  (void)state;
  for (int i = 0; i < 40; i++) {
    crew k = {.c = create(1)};
    run_crew(&k, make_tensors, NULL);
    rush_context_release(k.c);
  }
}

typedef struct mail {
  _Atomic(rush_tensor *) box[64];
} mail;

/* Tensors pass between threads: made here, released there; threads end with lists of free headers.
 * */
static bool pass_on(crew *k, int number)
{
  mail *post = (mail *)(uintptr_t)k->want.as.heap;
  for (int i = 0; i < 400; i++) {
    rush_value v = {.tag = RUSH_TAG_TENSOR};
    int64_t n = i % 3 ? 2 : 3000;
    if (rush_tensor_create(k->c, RUSH_FLOAT32, 1, &n, &v, NULL) != RUSH_OK)
      return false;
    v.as.tensor = atomic_exchange(&post->box[(number * 31 + i * 7) % 64], v.as.tensor);
    if (v.as.tensor)
      rush_value_release(v);
    v = rush_value_retain(k->x);
    rush_value_release(v);
  }
  return true;
}

static void tensors_are_released_by_other_threads(void **state)
{
  (void)state;
  static mail post;
  crew k = {.c = create(1)};
  size_t live;
  k.x = input(k.c);
  k.want.as.heap = &post;
  run_crew(&k, pass_on, NULL);
  for (int i = 0; i < 64; i++) {
    rush_value v = {.tag = RUSH_TAG_TENSOR, .as.tensor = atomic_load(&post.box[i])};
    if (v.as.tensor)
      rush_value_release(v);
  }
  rush_value_release(k.x);
  rush_memory_stats(k.c, &live, NULL);
  assert_true(live < 1u << 20);
  rush_context_release(k.c);
}

/* -- Cancelling -------------------------------------------------------------------------------- */

typedef struct spinner {
  crew *crew;
  rush_cancel *cancel;
  rush_status status;
} spinner;

static void *spin(void *arg)
{
  spinner *s = arg;
  rush_call_options o = RUSH_CALL_OPTIONS_INIT;
  rush_value y;
  o.cancel = s->cancel;
  s->status = rush_module_call_named(s->crew->m, "spin", &s->crew->x, 1, NULL, 0, &o, &y, NULL);
  return NULL;
}

static void one_call_of_many_is_cancelled(void **state)
{
  (void)state;
  crew k;
  pthread_t threads[4];
  spinner spinners[4];
  crew_begin(&k, 2);
  for (int i = 0; i < 4; i++) {
    spinners[i] = (spinner){&k, rush_cancel_create(k.c), RUSH_OK};
    assert_int_equal(pthread_create(&threads[i], NULL, spin, &spinners[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    for (int round = 0; round < 3; round++) /* the others go on */
      assert_true(forward_is_right(k.m, k.x, k.want));
    rush_cancel_request(spinners[i].cancel);
    pthread_join(threads[i], NULL);
    assert_int_equal(spinners[i].status, RUSH_ECANCELLED);
    rush_cancel_release(spinners[i].cancel);
  }
  crew_end(&k);
}

static bool call_forward(crew *k, int number)
{
  bool ok = true;
  (void)number;
  for (int i = 0; i < ROUNDS; i++)
    ok &= forward_is_right(k->m, k->x, k->want);
  return ok;
}

static void run_serially(void *user, void (*fn)(void *arg, int i), void *arg, int n)
{
  (void)user;
  for (int i = 0; i < n; i++)
    fn(arg, i);
}

/* -- A host's pool ----------------------------------------------------------------------------- */

/* A host's pool as simple as possible: threads wait for tasks, and a run waits for the threads. */
typedef struct host {
  pthread_mutex_t lock;
  pthread_cond_t more, done;
  void (*fn)(void *arg, int i);
  void *arg;
  int next, n, n_left, n_runs;
  bool quit, forgetful; /* run does not wait, which is wrong and must do no harm */
  pthread_t threads[3];
} host;

static void *host_thread(void *user)
{
  host *h = user;
  pthread_mutex_lock(&h->lock);
  for (;;) {
    while (h->next >= h->n && !h->quit)
      pthread_cond_wait(&h->more, &h->lock);
    if (h->next >= h->n)
      break;
    int i = h->next++;
    void (*fn)(void *arg, int i) = h->fn;
    void *arg = h->arg;
    pthread_mutex_unlock(&h->lock);
    fn(arg, i);
    pthread_mutex_lock(&h->lock);
    if (--h->n_left == 0)
      pthread_cond_signal(&h->done);
  }
  pthread_mutex_unlock(&h->lock);
  return NULL;
}

static void host_run(void *user, void (*fn)(void *arg, int i), void *arg, int n)
{
  host *h = user;
  pthread_mutex_lock(&h->lock);
  while (h->n_left > 0) /* of a run that did not wait */
    pthread_cond_wait(&h->done, &h->lock);
  h->fn = fn;
  h->arg = arg;
  h->next = 0;
  h->n = h->n_left = n;
  h->n_runs++;
  pthread_cond_broadcast(&h->more);
  while (h->n_left > 0 && !h->forgetful)
    pthread_cond_wait(&h->done, &h->lock);
  pthread_mutex_unlock(&h->lock);
}

static void host_begin(host *h)
{
  *h = (host){.n = 0};
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->more, NULL);
  pthread_cond_init(&h->done, NULL);
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&h->threads[i], NULL, host_thread, h), 0);
}

static void host_end(host *h)
{
  pthread_mutex_lock(&h->lock);
  h->quit = true;
  pthread_cond_broadcast(&h->more);
  pthread_mutex_unlock(&h->lock);
  for (int i = 0; i < 3; i++)
    pthread_join(h->threads[i], NULL);
  pthread_mutex_destroy(&h->lock);
  pthread_cond_destroy(&h->more);
  pthread_cond_destroy(&h->done);
}

static rush_value large_sums(rush_context *c)
{
  int64_t sizes[2] = {300, 1001};
  rush_value x, y, args[2], sum;
  size_t n;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &x, NULL), RUSH_OK);
  float *p = rush_tensor_data_mut(x.as.tensor);
  for (int i = 0; i < 300 * 1001; i++)
    p[i] = (float)((i * 53) % 997) / 300.0f;
  assert_int_equal(rush_op_call(c, "aten::exp", &x, 1, NULL, 0, &y, 1, &n, NULL), RUSH_OK);
  args[0] = y;
  args[1] = rush_value_int(0);
  assert_int_equal(rush_op_call(c, "aten::logsumexp", args, 2, NULL, 0, &sum, 1, &n, NULL),
                   RUSH_OK);
  rush_value_release(x);
  rush_value_release(y);
  return sum;
}

static void a_hosts_pool_gives_the_same_bits(void **state)
{
  (void)state;
  crew k;
  host h;
  crew_begin(&k, 2);
  rush_value want = large_sums(k.c), got;
  host_begin(&h);
  rush_context_set_pool(k.c, 4, host_run, &h);
  assert_int_equal(rush_context_get_threads(k.c), 4);
  for (int way = 0; way < 4; way++) {
    if (way == 1)
      run_crew(&k, call_forward, NULL);
    if (way == 2)
      rush_context_set_pool(k.c, 4, run_serially, NULL);
    if (way == 3) {
      h.forgetful = true;
      rush_context_set_pool(k.c, 4, host_run, &h);
    }
    for (int i = 0; i < 20; i++) {
      got = large_sums(k.c);
      assert_true(same_bits(got, want));
      rush_value_release(got);
    }
  }
  assert_true(h.n_runs >= 60);
  host_end(&h); /* destroyed before the context: late tasks read its pool */
  rush_value_release(want);
  crew_end(&k);
}

/* -- Settings ---------------------------------------------------------------------------------- */

static bool change_settings(crew *k, int number)
{
  (void)number;
  for (int i = 0; !atomic_load(&k->done); i++) {
    size_t live, peak;
    rush_context_set_threads(k->c, 1 + i % 4);
    rush_context_set_pool(k->c, 3, i % 3 == 2 ? run_serially : NULL, NULL);
    rush_memory_stats(k->c, &live, &peak);
    rush_memory_reset_peak(k->c);
    if (rush_context_get_threads(k->c) < 1 || !live)
      return false;
  }
  return true;
}

static void settings_change_while_calls_run(void **state)
{
  (void)state;
  crew k;
  crew_begin(&k, 2);
  run_crew(&k, call_forward, change_settings);
  crew_end(&k);
}

/* -- State that is set from outside ------------------------------------------------------------ */

static bool call_convs(crew *k, int number)
{
  bool ok = true;
  (void)number;
  for (int i = 0; i < 50 * ROUNDS; i++)
    ok &= forward_is_right(k->m, k->x, k->want);
  return ok;
}

/* Set the bias to equal tensors, each of which replaces the only reference to the one before. */
static bool set_bias(crew *k, int number)
{
  rush_value conv = rush_object_attr(rush_module_value(k->m), "a");
  rush_value bias = rush_object_attr(conv, "bias");
  bool ok = true;
  (void)number;
  while (ok && !atomic_load(&k->done)) {
    rush_value copy = rush_value_none();
    size_t n;
    ok = rush_op_call(k->c, "aten::clone", &bias, 1, NULL, 0, &copy, 1, &n, NULL) == RUSH_OK &&
         rush_object_set_attr(k->c, conv, "bias", copy, NULL) == RUSH_OK;
    rush_value_release(copy);
  }
  rush_value_release(bias);
  rush_value_release(conv);
  return ok;
}

static void attributes_are_set_while_a_modules_only_method_runs(void **state)
{
  const int64_t sizes[] = {1, 3, 8, 8};
  crew k = {.c = create(1)};
  (void)state;
  k.m = load(k.c, "convs.pt");
  assert_non_null(k.m);
  assert_int_equal(rush_tensor_create(k.c, RUSH_FLOAT32, 4, sizes, &k.x, NULL), RUSH_OK);
  float *x = rush_tensor_data_mut(k.x.as.tensor);
  for (int i = 0; i < 3 * 8 * 8; i++)
    x[i] = (float)(i % 7);
  assert_int_equal(rush_module_call(k.m, "forward", &k.x, 1, &k.want, NULL), RUSH_OK);
  run_crew(&k, call_convs, set_bias);
  crew_end(&k);
}

/* -- Random numbers ---------------------------------------------------------------------------- */

static bool draw(crew *k, int number)
{
  uint8_t bytes[RUSH_GENERATOR_STATE_BYTES];
  bool ok = true;
  for (int i = 0; i < 40; i++) {
    rush_value y;
    size_t n;
    if (number == 0 && rush_manual_seed(k->c, (uint64_t)i, NULL) != RUSH_OK)
      return false;
    if (rush_op_call(k->c, "aten::rand_like", &k->x, 1, NULL, 0, &y, 1, &n, NULL) != RUSH_OK)
      return false;
    rush_value_release(y);
    ok &= rush_generator_get_state(k->c, bytes, NULL) == RUSH_OK;
  }
  return ok;
}

static void threads_draw_from_one_generator(void **state)
{
  (void)state;
  crew k = {.c = create(2)};
  k.x = input(k.c);
  run_crew(&k, draw, NULL);
  rush_value_release(k.x);
  rush_context_release(k.c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_threads_call_one_program_while_another_loads),
      cmocka_unit_test(threads_and_cpus_give_the_same_bits),
      cmocka_unit_test(first_calls_come_at_once),
      cmocka_unit_test(operators_of_a_fresh_context_are_called_at_once),
      cmocka_unit_test(every_thread_has_contexts_of_its_own),
      cmocka_unit_test(the_default_context_is_made_once),
      cmocka_unit_test(a_contexts_first_tensors_are_made_at_once),
      cmocka_unit_test(tensors_are_released_by_other_threads),
      cmocka_unit_test(one_call_of_many_is_cancelled),
      cmocka_unit_test(settings_change_while_calls_run),
      cmocka_unit_test(a_hosts_pool_gives_the_same_bits),
      cmocka_unit_test(attributes_are_set_while_a_modules_only_method_runs),
      cmocka_unit_test(threads_draw_from_one_generator),
  };
  return RUN_TESTS(tests);
}
