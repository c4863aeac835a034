/* Test contexts through the public header: allocator, limits, callbacks, threads, a host's pool. */
#include "support/test.h"

#include <pthread.h>

#include "rushlight/rushlight.h"

static const char *data_path(const char *name)
{
  static _Thread_local char path[4096];

  snprintf(path, sizeof path, "%s/%s", getenv("RUSH_TEST_DATA"), name);
  return path;
}

static rush_context *create(const rush_context_options *o)
{
  rush_context *c;
  assert_int_equal(rush_context_create(o, &c, NULL), RUSH_OK);
  return c;
}

typedef struct account {
  size_t live, peak, n_allocs;
} account;

static void *count_alloc(void *user, size_t n)
{
  account *a = user;
  a->live += n;
  a->n_allocs++;
  a->peak = a->live > a->peak ? a->live : a->peak;
  return aligned_alloc(64, (n + 63) / 64 * 64);
}
static void count_free(void *user, void *p, size_t n)
{
  ((account *)user)->live -= n;
  free(p);
}

static void the_hosts_allocator_is_used_for_everything(void **state)
{
  (void)state;
  account a = {0};
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_module *m;
  rush_value board, stepped;
  o.alloc = count_alloc;
  o.free = count_free;
  o.alloc_user = &a;
  o.n_threads = 1;
  rush_context *c = create(&o);
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, NULL), RUSH_OK);
  assert_true(a.n_allocs > 10);
  assert_int_equal(rush_module_get_state(m, "board", &board, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, "step", &board, 1, &stepped, NULL), RUSH_OK);
  rush_value_release(stepped);
  rush_value_release(board);
  rush_module_release(m);
  rush_context_release(c);
  assert_int_equal(a.live, 0);
}

static void a_limit_of_bytes_refuses_and_says_so(void **state)
{
  (void)state;
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_value t;
  o.limit_bytes = 10000000;
  rush_context *c = create(&o);
  int64_t n = 100000000;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, &n, &t, &err), RUSH_ELIMIT);
  assert_non_null(strstr(err.message, "10000000"));
  n = 1000;
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 1, &n, &t, &err), RUSH_OK);
  assert_null(err.message);
  rush_value_release(t);
  rush_context_release(c);
}

static void a_limit_of_time_ends_a_loop(void **state)
{
  (void)state;
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value n = rush_value_int(1000000000), result;
  o.limit_seconds = 0.05;
  rush_context *c = create(&o);
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, &err), RUSH_OK);
  assert_int_equal(rush_module_call(m, "forward", &n, 1, &result, &err), RUSH_ELIMIT);
  rush_error_clear(&err);
  rush_call_options call = RUSH_CALL_OPTIONS_INIT;
  call.limit_seconds = 0.01;
  assert_int_equal(rush_module_call_named(m, "forward", &n, 1, NULL, 0, &call, &result, &err),
                   RUSH_ELIMIT);
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

static void *cancel_soon(void *arg)
{
  struct timespec t = {0, 20000000};

  nanosleep(&t, NULL);
  rush_cancel_request(arg);
  return NULL;
}

static void another_thread_cancels_a_call(void **state)
{
  (void)state;
  rush_context *c = create(NULL);
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value n = rush_value_int(1000000000), result;
  pthread_t thread;
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, &err), RUSH_OK);
  rush_cancel *k = rush_cancel_create(c);
  assert_non_null(k);
  rush_call_options call = RUSH_CALL_OPTIONS_INIT;
  call.cancel = k;
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, k), 0);
  assert_int_equal(rush_module_call_named(m, "forward", &n, 1, NULL, 0, &call, &result, &err),
                   RUSH_ECANCELLED);
  pthread_join(thread, NULL);
  rush_error_clear(&err);
  rush_cancel_release(k);
  n = rush_value_int(1); /* the module can be called again */
  assert_int_equal(rush_module_call(m, "step", NULL, 0, &result, &err), RUSH_EARGUMENT);
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
}

static void collect(void *user, const char *text, size_t n)
{
  strncat(user, text, n);
}

static void what_programs_print_goes_to_the_callback(void **state)
{
  (void)state;
  char text[4096] = "";
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_module *m;
  rush_value n = rush_value_int(0), result;
  o.print = collect;
  o.callback_user = text;
  rush_context *c = create(&o);
  assert_int_equal(rush_module_load(c, data_path("life.pt"), NULL, &m, NULL), RUSH_OK);
  assert_int_equal(rush_module_call(m, "forward", &n, 1, &result, NULL), RUSH_OK);
  assert_true(result.tag == RUSH_TAG_INT && result.as.i == 5);
  assert_true(strncmp(text, ".#..........\n..#.........\n", 26) == 0);
  rush_module_release(m);
  rush_context_release(c);
}

typedef struct host {
  int n_runs, n_parts;
} host;

static void run_on_host(void *user, void (*fn)(void *arg, int i), void *arg, int n)
{
  host *h = user;
  h->n_runs++;
  for (int i = n; i-- > 0;) { /* any order will do */
    h->n_parts++;
    fn(arg, i);
  }
}

static void the_hosts_threads_do_the_work(void **state)
{
  (void)state;
  rush_context *c = create(NULL);
  host h = {0};
  rush_value x, y, args[2];
  int64_t sizes[2] = {512, 512};
  size_t n;
  rush_context_set_pool(c, 4, run_on_host, &h);
  assert_int_equal(rush_context_get_threads(c), 4);
  assert_int_equal(rush_tensor_create(c, RUSH_FLOAT32, 2, sizes, &x, NULL), RUSH_OK);
  float *p = rush_tensor_data_mut(x.as.tensor);
  for (int i = 0; i < 512 * 512; i++)
    p[i] = (float)(i % 7);
  args[0] = args[1] = x;
  assert_int_equal(rush_op_call(c, "aten::mm", args, 2, NULL, 0, &y, 1, &n, NULL), RUSH_OK);
  assert_true(h.n_runs > 0 && h.n_parts > 1);
  float sum = 0;
  for (int k = 0; k < 512; k++)
    sum += p[k] * p[512 * k];
  assert_true(((const float *)rush_tensor_data(y.as.tensor))[0] == sum);
  rush_context_set_pool(c, 0, NULL, NULL);
  rush_context_set_threads(c, 2);
  assert_int_equal(rush_context_get_threads(c), 2);
  rush_value_release(y);
  rush_value_release(x);
  rush_context_release(c);
}

static void statistics_follow_what_is_held(void **state)
{
  (void)state;
  rush_context *c = create(NULL);
  size_t before, live, peak;
  int64_t n = 1 << 20;
  rush_value t;
  rush_memory_stats(c, &before, NULL);
  assert_int_equal(rush_tensor_create(c, RUSH_UINT8, 1, &n, &t, NULL), RUSH_OK);
  rush_memory_stats(c, &live, &peak);
  assert_true(live >= before + (1 << 20) && peak >= live);
  rush_value_release(t);
  rush_memory_stats(c, &live, NULL);
  assert_true(live <= before + 4096);
  rush_memory_reset_peak(c);
  rush_memory_stats(c, &live, &peak);
  assert_true(peak < before + (1 << 20));
  rush_context_release(c);
}

static rush_value bytes(rush_context *c, int64_t n)
{
  rush_value t;
  assert_int_equal(rush_tensor_create(c, RUSH_UINT8, 1, &n, &t, NULL), RUSH_OK);
  return t;
}

/* Memory of a large tensor is reused for the next one of its size or smaller; trimming returns it
 * to the system. */
static void freed_memory_is_kept_and_given_back(void **state)
{
  (void)state;
  rush_context *c = create(NULL);
  rush_memory m = RUSH_MEMORY_INIT, before;
  rush_value_release(bytes(c, 3 << 20));
  rush_memory_get(c, &m);
  before = m;
  if (m.cached_bytes == 0) { /* sanitizers see every block */
    rush_context_release(c);
    return;
  }
  assert_true(m.cached_bytes >= 3 << 20 && m.limit_bytes == 0);
  rush_value a = bytes(c, (3 << 20) - 5), b = bytes(c, 1000);
  rush_memory_get(c, &m);
  assert_true(m.n_cache_hits == before.n_cache_hits + 1 && m.n_data == before.n_data + 2);
  rush_value_release(a);
  rush_value d = bytes(c, 1200000); /* borrows the large block */
  rush_memory_get(c, &m);
  assert_int_equal(m.n_cache_hits, before.n_cache_hits + 2);
  rush_value_release(d);
  rush_value_release(b);
  rush_memory_get(c, &m);
  assert_true(m.cached_bytes >= before.cached_bytes);
  rush_memory_trim(c);
  rush_memory_get(c, &m);
  assert_true(m.cached_bytes < 65536);
  m.struct_bytes = offsetof(rush_memory, cached_bytes); /* the fields that an older caller has */
  m.cached_bytes = 77;
  rush_memory_get(c, &m);
  assert_int_equal(m.cached_bytes, 77);
  rush_context_release(c);
}

static void a_seed_repeats_and_its_state_is_pytorchs(void **state)
{
  (void)state;
  rush_context *c = create(NULL);
  char first[RUSH_GENERATOR_STATE_BYTES], second[RUSH_GENERATOR_STATE_BYTES];
  assert_int_equal(rush_manual_seed(c, 7, NULL), RUSH_OK);
  assert_int_equal(rush_generator_get_state(c, first, NULL), RUSH_OK);
  assert_int_equal(rush_manual_seed(c, 8, NULL), RUSH_OK);
  assert_int_equal(rush_generator_get_state(c, second, NULL), RUSH_OK);
  assert_memory_not_equal(first, second, sizeof first);
  assert_int_equal(rush_generator_set_state(c, first, sizeof first, NULL), RUSH_OK);
  assert_int_equal(rush_generator_get_state(c, second, NULL), RUSH_OK);
  assert_memory_equal(first, second, sizeof first);
  assert_int_equal(rush_generator_set_state(c, first, 100, NULL), RUSH_EARGUMENT);
  rush_context_release(c);
}

/* -- Small stacks ------------------------------------------------------------------------------ */

/* Make one function whose body nests `depth` times. */
static char *deep_text(const char *before, const char *open, const char *middle, const char *close,
                       int depth, bool indent)
{
  const size_t step = strlen(open) + strlen(close) + (indent ? (size_t)depth + 8 : 0);
  char *text = malloc(1000 + step * (size_t)depth);

  if (!text)
    return NULL;
  char *at = text + sprintf(text, "%s", before);

  for (int i = 0; i < depth; i++)
    at += sprintf(at, "%*s%s", indent ? i + 1 : 0, "", open);
  at += sprintf(at, "%*s%s", indent ? depth + 1 : 0, "", middle);
  for (int i = 0; i < depth; i++)
    at += sprintf(at, "%s", close);
  sprintf(at, "\n%s", indent ? " return y\n" : "");
  return text;
}

typedef struct small_stack {
  const char *text;
  size_t stack_bytes;
  rush_status st;
} small_stack;

static void *compile_on_small_stack(void *arg)
{
  small_stack *x = arg;
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value b = rush_value_bool(true), y;
  o.stack_bytes = x->stack_bytes;
  o.n_threads = 1;
  rush_context *c = create(&o);
  x->st = rush_module_compile(c, x->text, strlen(x->text), NULL, &m, &err);
  if (x->st == RUSH_OK) {
    x->st = rush_module_call(m, "f", &b, 1, &y, &err);
    if (x->st == RUSH_OK)
      rush_value_release(y);
    rush_module_release(m);
  }
  if (x->st != RUSH_OK && (!err.message || x->st == RUSH_EINTERNAL))
    x->st = RUSH_EINTERNAL;
  rush_error_clear(&err);
  rush_context_release(c);
  return NULL;
}

static rush_status on_small_stack(const char *text, size_t n_bytes, size_t stack_bytes)
{
  small_stack x = {text, stack_bytes, RUSH_OK};
  pthread_attr_t attr;
  pthread_t t;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, n_bytes);
  assert_int_equal(pthread_create(&t, &attr, compile_on_small_stack, &x), 0);
  pthread_join(t, NULL);
  pthread_attr_destroy(&attr);
  return x.st;
}

/* Run deep programs on threads of 64, 128 and 256 KB (more with sanitizers): each returns a result,
 * or an error if it is very deep. */
static void deep_programs_do_not_overflow_small_stacks(void **state)
{
  static const struct {
    const char *before, *open, *middle, *close;
    bool indent;
  } rows[] = {
      {"def f(b: bool):\n return ", "(", "1", ")", false},
      {"def f(b: bool):\n return ", "-", "1", "", false},
      {"def f(b: bool):\n return ", "not ", "b", "", false},
      {"def f(b: bool):\n return ", "[", "1", "]", false},
      {"def f(b: bool):\n return ", "(1 if b else ", "2", ")", false},
      {"def f(b: bool):\n return ", "(b and (b or ", "b", "))", false},
      {"def f(b: bool):\n return ", "abs(", "1", ")", false},
      {"def f(b: bool):\n return 1", "", "", " + 1", false},
      {"def f(b: bool):\n y = 0\n", "if b:\n", "y = 1", "", true},
      {"def f(b: bool):\n y = 0\n", "for i in range(1):\n", "y = y + 1", "", true},
      {"def f(b: bool):\n y = 0\n", "while not b:\n", "return 3", "", true},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int depth = 10; depth <= 100000; depth *= 10) {
      char *text = deep_text(rows[i].before, rows[i].open, rows[i].middle, rows[i].close,
                             rows[i].indent && depth > 200 ? 200 : depth, rows[i].indent);
      for (size_t kb = 64; kb <= 256; kb *= 2)
        for (size_t host = 0; host <= 64 << 20; host += 64 << 20) {
          const rush_status st = on_small_stack(text, (kb << 10) * STACK_SCALE, host);
          assert_int_not_equal(st, RUSH_EINTERNAL);
          assert_true(depth > 10 || st == RUSH_OK);
          assert_true(depth < 10000 || rows[i].indent || st == RUSH_ELIMIT);
        }
      free(text);
    }
}

/* Operators allocate their scratch outside of the stack. */
static void operators_run_on_small_stacks(void **state)
{
  static const char *const texts[] = {
    "def f(b: bool):\n return torch.ones([300, 4]) + torch.ones([4]).to(torch.float16)\n",
    "def f(b: bool):\n x = torch.ones([70, 80], dtype=torch.int32)\n return x @ x.t()\n",
    "def f(b: bool):\n return torch.median(torch.rand([50000]))\n",
    "def f(b: bool):\n return torch.softmax(torch.rand([100, 100]), 0)\n",
    ("def f(b: bool):\n return torch.conv2d(torch.rand([1, 3, 32, 32]),"
     " torch.rand([8, 3, 3, 3]))\n")};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_int_equal(on_small_stack(texts[i], (size_t)STACK_SCALE << 16, 0), RUSH_OK);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_hosts_allocator_is_used_for_everything),
      cmocka_unit_test(a_limit_of_bytes_refuses_and_says_so),
      cmocka_unit_test(a_limit_of_time_ends_a_loop),
      cmocka_unit_test(another_thread_cancels_a_call),
      cmocka_unit_test(what_programs_print_goes_to_the_callback),
      cmocka_unit_test(the_hosts_threads_do_the_work),
      cmocka_unit_test(statistics_follow_what_is_held),
      cmocka_unit_test(freed_memory_is_kept_and_given_back),
      cmocka_unit_test(a_seed_repeats_and_its_state_is_pytorchs),
      cmocka_unit_test(deep_programs_do_not_overflow_small_stacks),
      cmocka_unit_test(operators_run_on_small_stacks),
  };
  return RUN_TESTS(tests);
}
