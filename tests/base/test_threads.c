#include "support/test.h"

#include "base/clock.h"
#include "base/threads.h"

enum { N = 100000 };

typedef struct job {
  _Atomic int hits[N];
  _Atomic int n_misaligned;
  int64_t grain;
  call_ctx *cx;
} job;

static void touch(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  if (begin % j->grain != 0)
    j->n_misaligned++;
  for (int64_t i = begin; i < end; i++)
    j->hits[i]++;
}

static void check_once(job *j, int64_t n)
{
  for (int64_t i = 0; i < N; i++)
    assert_int_equal(j->hits[i], i < n ? 1 : 0);
  assert_int_equal(j->n_misaligned, 0);
}

static void every_index_runs_once(void **state)
{
  (void)state;
  static job j;
  for (int n_threads = 1; n_threads <= 8; n_threads++) {
    context *c = test_context(&(context_options){.n_threads = n_threads});
    call_ctx cx;
    call_ctx_init(&cx, c, NULL);
    for (int64_t n = 0; n <= N; n = n * 3 + 1)
      for (int64_t grain = 1; grain <= 1000; grain *= 10) {
        memset(&j, 0, sizeof j);
        j.grain = grain;
        assert_int_equal(parallel_for(&cx, n, grain, touch, &j), RUSH_OK);
        check_once(&j, n);
      }
    test_context_done(c);
  }
}

typedef struct sums {
  double part[64]; /* pieces depend on the problem, not on the threads */
  const float *x;
} sums;

static void sum_pieces(void *arg, int64_t begin, int64_t end)
{
  sums *s = arg;
  for (int64_t p = begin; p < end; p++) {
    s->part[p] = 0;
    for (int64_t i = 0; i < 100; i++)
      s->part[p] += s->x[p * 100 + i];
  }
}

static void same_result_with_any_number_of_threads(void **state)
{
  (void)state;
  static float x[6400];
  for (int i = 0; i < 6400; i++)
    x[i] = 1.0f / (float)(i + 1);
  sums reference = {.x = x}, s = {.x = x};
  context *c = test_context(&(context_options){.n_threads = 1});
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  assert_int_equal(parallel_for(&cx, 64, 1, sum_pieces, &reference), RUSH_OK);
  for (int n_threads = 2; n_threads <= 6; n_threads++) {
    pool_set_threads(context_pool(c), n_threads);
    for (int round = 0; round < 500; round++) {
      memset(s.part, 0, sizeof s.part);
      assert_int_equal(parallel_for(&cx, 64, 1, sum_pieces, &s), RUSH_OK);
      assert_memory_equal(s.part, reference.part, sizeof s.part);
    }
  }
  test_context_done(c);
}

static void touch_one(void *arg, int64_t begin, int64_t end)
{
  _Atomic int *hits = arg;
  hits[N - 1] += (int)(end - begin);
}

static void nested_body(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  for (int64_t i = begin; i < end; i++) {
    call_ctx cx = *j->cx;
    /* Run inline, in the current thread. */
    if (parallel_for(&cx, 10, 1, touch_one, j->hits) == RUSH_OK)
      j->hits[i]++;
  }
}

static void nested_and_hosted(void **state)
{
  (void)state;
  static job j;
  context *c = test_context(&(context_options){.n_threads = 3});
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  j.cx = &cx;
  assert_int_equal(parallel_for(&cx, 1000, 10, nested_body, &j), RUSH_OK);
  assert_int_equal(j.hits[N - 1], 10000);
  j.hits[N - 1] = 0;
  check_once(&j, 1000);
  test_context_done(c);
}

static void run_backwards(void *user, void (*fn)(void *arg, int i), void *arg, int n)
{
  ++*(int *)user;
  for (int i = n; i-- > 0;)
    fn(arg, i);
}

static void a_host_may_bring_its_pool(void **state)
{
  (void)state;
  static job j;
  int calls = 0;
  context *c = test_context(&(context_options){.n_threads = 2});
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  pool_set_host(context_pool(c), &(pool_host){4, run_backwards, &calls});
  assert_int_equal(pool_n_threads(context_pool(c)), 4);
  j.grain = 1;
  assert_int_equal(parallel_for(&cx, 1000, 1, touch, &j), RUSH_OK);
  check_once(&j, 1000);
  assert_int_equal(calls, 1);
  pool_set_host(context_pool(c), NULL);
  assert_int_equal(pool_n_threads(context_pool(c)), 2);
  test_context_done(c);
}

static void slow(void *arg, int64_t begin, int64_t end)
{
  (void)begin;
  (void)end;
  uint64_t until = clock_ns() + 1000000;
  while (clock_ns() < until) {
  }
  atomic_fetch_add((_Atomic int *)arg, 1);
}

static void deadlines_stop_the_loop(void **state)
{
  (void)state;
  for (int n_threads = 1; n_threads <= 2; n_threads++) {
    context *c = test_context(&(context_options){.n_threads = n_threads});
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    _Atomic int ran = 0;
    call_ctx_init(&cx, c, &err);
    cx.deadline_ns = clock_ns() + 2000000;
    assert_int_equal(parallel_for(&cx, 1000, 1, slow, &ran), RUSH_ELIMIT);
    assert_true(ran < 500);
    atomic_bool cancel = true;
    call_ctx_init(&cx, c, &err);
    cx.cancel = &cancel;
    assert_int_equal(parallel_for(&cx, 1000, 1, slow, &ran), RUSH_ECANCELLED);
    rush_error_clear(&err);
    test_context_done(c);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_index_runs_once),
    cmocka_unit_test(same_result_with_any_number_of_threads),
    cmocka_unit_test(nested_and_hosted),
    cmocka_unit_test(a_host_may_bring_its_pool),
    cmocka_unit_test(deadlines_stop_the_loop),
  };
  return RUN_TESTS(tests);
}
