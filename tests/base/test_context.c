#include "support/oom.h"

#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"

static void accounts_every_byte(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  mem_stats s;
  char *p = mem_alloc(c, 100);
  char *d = mem_alloc_data(c, 1000);
  assert_int_equal((uintptr_t)d % 64, 0);
  p = mem_realloc(c, p, 100, 200);
  memset(p, 1, 200);
  mem_get_stats(c, &s);
  assert_int_equal(s.live_bytes, 1200);
  assert_true(s.peak_bytes >= 1200);
  mem_free_data(c, d, 1000);
  mem_free(c, p, 200);
  void *none = mem_alloc(c, 0);
  assert_non_null(none);
  mem_free(c, none, 0);
  mem_reset_peak(c);
  mem_get_stats(c, &s);
  assert_int_equal(s.peak_bytes, 0);
  test_context_done(c);
}

/* A limit that is set later counts to the byte what this thread did before it: the bytes that it
 * has not added to the shared count, above zero and below. */
static void a_later_limit_is_exact(void **state)
{
  (void)state;
  context *c = test_context(NULL);

  assert_true(mem_count(c, 60000)); /* not in the shared count */
  assert_true(mem_set_limit(c, 60100));
  assert_false(mem_count(c, 101));
  assert_true(mem_count(c, 100));
  assert_true(mem_set_limit(c, 0));
  assert_true(mem_count(c, 100000)); /* in the shared count */
  mem_uncount(c, 60000);             /* not in the shared count */
  assert_true(mem_set_limit(c, 160100));
  assert_false(mem_count(c, 60001));
  assert_true(mem_count(c, 60000));
  mem_uncount(c, 160100);
  assert_true(mem_set_limit(c, 0));
  test_context_done(c);
}

static void data_of_all_sizes(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  for (size_t n = 0; n < (size_t)40 << 20; n = n * 9 / 8 + 1) {
    char *p = mem_alloc_data(c, n), *q = mem_alloc_data(c, n);
    assert_true(p && q && p != q);
    assert_int_equal((uintptr_t)p % 64 + (uintptr_t)q % 64, 0);
    if (n) {
      p[0] = q[0] = 1;
      p[n - 1] = 2;
      q[n - 1] = 3;
      assert_int_equal(p[n - 1], 2);
    }
    mem_free_data(c, p, n);
    mem_free_data(c, q, n);
  }
  test_context_done(c);
}

static void the_limit_holds(void **state)
{
  (void)state;
  context *c = test_context(&(context_options){.limit_bytes = 1 << 20});
  char *a = mem_alloc_data(c, 600000);
  assert_non_null(a);
  assert_null(mem_alloc_data(c, 600000));
  assert_null(mem_alloc(c, 600000));
  assert_null(mem_alloc_zero(c, SIZE_MAX));
  assert_null(mem_alloc_data(c, SIZE_MAX));
  assert_null(mem_realloc(c, NULL, 0, SIZE_MAX - 3));
  mem_free_data(c, a, 600000);
  for (size_t n = 1000; n < 900000; n += 50000) { /* cached blocks make room */
    void *p = mem_alloc_data(c, n);
    assert_non_null(p);
    mem_free_data(c, p, n);
    mem_stats s;
    mem_get_stats(c, &s);
    assert_true(s.cached_bytes <= 1 << 20);
  }
  test_context_done(c);
}

static void host_allocator_gets_all_back(void **state)
{
  (void)state;
  rush_status last = RUSH_ENOMEM;
  OOM_LOOP(cx)
  {
    char *a = mem_alloc(cx.ctx, 10), *b = mem_alloc_data(cx.ctx, 1000),
         *d = mem_alloc_zero(cx.ctx, 5);
    if (b) {
      assert_int_equal((uintptr_t)b % 64, 0);
      memset(b, 0xff, 1000);
    }
    last = a && b && d ? RUSH_OK : RUSH_ENOMEM;
    mem_free(cx.ctx, a, 10);
    mem_free_data(cx.ctx, b, 1000);
    mem_free(cx.ctx, d, 5);
  }
  assert_int_equal(last, RUSH_OK);
}

static void destroy_int(context *c, void *object)
{
  (void)c;
  ++*(int *)object;
}

static void a_slot_is_filled_once(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  int first = 0, second = 0;
  assert_null(context_slot_get(c, SLOT_TYPES));
  assert_ptr_equal(context_slot_publish_steal(c, SLOT_TYPES, &first, destroy_int), &first);
  assert_ptr_equal(context_slot_publish_steal(c, SLOT_TYPES, &second, destroy_int), &first);
  assert_int_equal(second, 1);
  assert_ptr_equal(context_slot_get(c, SLOT_TYPES), &first);
  test_context_done(c);
  assert_int_equal(first, 1);
  assert_ptr_equal(context_or_default(NULL), context_or_default(NULL));
}

static void deadline_cancel_and_depth(void **state)
{
  (void)state;
  rush_error err = RUSH_ERROR_INIT;
  context *c = test_context(&(context_options){.limit_seconds = 100, .limit_depth = 2});
  call_ctx cx;
  call_ctx_init(&cx, c, &err);
  assert_int_equal(call_poll(&cx), RUSH_OK);
  cx.deadline_ns = clock_ns();
  assert_int_equal(call_poll(&cx), RUSH_ELIMIT);
  atomic_bool cancel = true;
  cx.cancel = &cancel;
  assert_int_equal(call_poll(&cx), RUSH_ECANCELLED);
  assert_int_equal(call_enter(&cx), RUSH_OK);
  assert_int_equal(call_enter(&cx), RUSH_OK);
  assert_int_equal(call_enter(&cx), RUSH_ELIMIT);
  assert_string_equal(err.type, "RecursionError");
  call_leave(&cx);
  call_leave(&cx);
  assert_int_equal(call_fail(&cx, "no %s", "way"), RUSH_ERAISED);
  assert_string_equal(err.message, "no way");
  assert_int_equal(call_unsupported(&cx, "x"), RUSH_EUNSUPPORTED);
  assert_string_equal(err.type, "NotImplementedError");
  rush_error_clear(&err);
  test_context_done(c);
}

/* Recurse with frames of some size; return the depth that was reached. */
static rush_status dig(call_ctx *cx, int *depth, int most)
{
  volatile char frame[256];

  frame[0] = 0;
  TRY(call_enter(cx));
  rush_status st = ++*depth < most ? dig(cx, depth, most) : RUSH_OK;
  call_leave(cx);
  frame[255] = frame[0];
  return st;
}

typedef struct digger {
  size_t stack_bytes; /* of the context; 0: the default */
  rush_status st;
  int depth, most;
  bool again; /* continue the same call context in this thread */
  context *c;
  call_ctx cx;
  rush_error err;
} digger;

static void *dig_in_thread(void *arg)
{
  digger *d = arg;

  if (!d->again)
    call_ctx_init(&d->cx, d->c, &d->err);
  d->st = dig(&d->cx, &d->depth, d->most);
  return NULL;
}

static void dig_on(digger *d, size_t thread_bytes, void *stack)
{
  pthread_attr_t attr;
  pthread_t thread;

  pthread_attr_init(&attr);
  if (stack)
    assert_int_equal(pthread_attr_setstack(&attr, stack, thread_bytes), 0);
  else
    assert_int_equal(pthread_attr_setstacksize(&attr, thread_bytes), 0);
  assert_int_equal(pthread_create(&thread, &attr, dig_in_thread, d), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
}

/* A thread's own stack limits recursion, however much the host allows; the error contains the
 * number. */
static void recursion_ends_before_the_stack_does(void **state)
{
  static const size_t threads[] = {(size_t)64 << 10, (size_t)128 << 10, (size_t)256 << 10,
                                   (size_t)1 << 20};
  const size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN); /* 128 KB on AArch64 */
  (void)state;
  for (size_t i = 0; i < COUNT_OF(threads); i++)
    for (int k = 0; k < 2 && threads[i] * STACK_SCALE >= least; k++) {
      digger d = {.most = 1 << 20, .err = RUSH_ERROR_INIT};
      d.c = test_context(
        &(context_options){.limit_depth = UINT32_MAX, .stack_bytes = k ? SIZE_MAX / 2 : 0});
      dig_on(&d, threads[i] * STACK_SCALE, NULL);
      assert_int_equal(d.st, RUSH_ELIMIT);
      assert_string_equal(d.err.type, "RecursionError");
      assert_non_null(strstr(d.err.message, "bytes"));
      assert_in_range(d.depth, 50, threads[i] * STACK_SCALE / 256);
      rush_error_clear(&d.err);
      test_context_done(d.c);
    }
}

/* Without an option of the host, 256 KB are the limit on any thread. */
static void the_stack_an_outer_call_uses_is_bounded(void **state)
{
  (void)state;
  int depth[2];
  for (int k = 0; k < 2; k++) {
    digger d = {.most = 1 << 20, .err = RUSH_ERROR_INIT};
    d.c = test_context(
      &(context_options){.limit_depth = UINT32_MAX, .stack_bytes = k ? STACK_DEFAULT / 2 : 0});
    dig_on(&d, (size_t)8 << 20, NULL);
    assert_int_equal(d.st, RUSH_ELIMIT);
    depth[k] = d.depth;
    rush_error_clear(&d.err);
    test_context_done(d.c);
  }
  assert_in_range(depth[0], 2 * depth[1], STACK_DEFAULT / 256);
}

/* A call that continues in another thread counts its stack from there. */
static void a_call_that_moves_is_measured_anew(void **state)
{
  (void)state;
  digger d = {.most = 1 << 20, .err = RUSH_ERROR_INIT};
  d.c = test_context(&(context_options){.limit_depth = UINT32_MAX});
  for (int i = 0; i < 4; i++) {
    d.depth = 0;
    dig_on(&d, ((size_t)128 << 10) * STACK_SCALE, NULL);
    assert_int_equal(d.st, RUSH_ELIMIT);
    assert_true(d.depth >= 50);
    d.again = true;
  }
  rush_error_clear(&d.err);
  test_context_done(d.c);
}

static void run_on_fiber(unsigned low, unsigned high) /* makecontext passes ints */
{
  (void)dig_in_thread((void *)((uintptr_t)high << 32 | low));
}

/* A stack that is not the thread's own: only the option specifies its size. */
static void a_fibers_stack_is_what_the_host_says(void **state)
{
  const size_t n_bytes = ((size_t)96 << 10) * STACK_SCALE;
  (void)state;
  digger d = {.most = 1 << 20, .err = RUSH_ERROR_INIT};
  d.c = test_context(&(context_options){.limit_depth = UINT32_MAX, .stack_bytes = n_bytes - 8192});
  char *stack = malloc(n_bytes);
  ucontext_t here, there;
  uintptr_t arg = (uintptr_t)&d;
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = n_bytes;
  there.uc_link = &here;
  makecontext(&there, (void (*)(void))run_on_fiber, 2, (unsigned)arg, (unsigned)(arg >> 32));
  assert_int_equal(swapcontext(&here, &there), 0);
  assert_int_equal(d.st, RUSH_ELIMIT);
  assert_in_range(d.depth, 50, n_bytes / 256);
  free(stack);
  rush_error_clear(&d.err);
  test_context_done(d.c);
}

static void wrong_options_are_refused(void **state)
{
  (void)state;
  rush_error err = RUSH_ERROR_INIT;
  context *c = NULL;
  assert_int_equal(context_new(&(context_options){.n_threads = -1}, &c, &err), RUSH_EARGUMENT);
  assert_int_equal(context_new(&(context_options){.limit_seconds = -1}, &c, &err), RUSH_EARGUMENT);
  assert_int_equal(context_new(&(context_options){.cpu = 9}, &c, &err), RUSH_EARGUMENT);
  assert_int_equal(context_new(&(context_options){.stack_bytes = 1000}, &c, &err), RUSH_EARGUMENT);
  assert_null(c);
  rush_error_clear(&err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(accounts_every_byte),
    cmocka_unit_test(data_of_all_sizes),
    cmocka_unit_test(the_limit_holds),
    cmocka_unit_test(a_later_limit_is_exact),
    cmocka_unit_test(host_allocator_gets_all_back),
    cmocka_unit_test(a_slot_is_filled_once),
    cmocka_unit_test(deadline_cancel_and_depth),
    cmocka_unit_test(recursion_ends_before_the_stack_does),
    cmocka_unit_test(the_stack_an_outer_call_uses_is_bounded),
    cmocka_unit_test(a_call_that_moves_is_measured_anew),
    cmocka_unit_test(a_fibers_stack_is_what_the_host_says),
    cmocka_unit_test(wrong_options_are_refused),
  };
  return RUN_TESTS(tests);
}
