#include "support/oom.h"

#include "base/clock.h"

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
    char *a = mem_alloc(cx.ctx, 10), *b = mem_alloc_data(cx.ctx, 1000), *d = mem_alloc_zero(cx.ctx, 5);
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

static void wrong_options_are_refused(void **state)
{
  (void)state;
  rush_error err = RUSH_ERROR_INIT;
  context *c = NULL;
  assert_int_equal(context_new(&(context_options){.n_threads = -1}, &c, &err), RUSH_EARGUMENT);
  assert_int_equal(context_new(&(context_options){.limit_seconds = -1}, &c, &err), RUSH_EARGUMENT);
  assert_int_equal(context_new(&(context_options){.cpu = 9}, &c, &err), RUSH_EARGUMENT);
  assert_null(c);
  rush_error_clear(&err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(accounts_every_byte),
    cmocka_unit_test(data_of_all_sizes),
    cmocka_unit_test(the_limit_holds),
    cmocka_unit_test(host_allocator_gets_all_back),
    cmocka_unit_test(a_slot_is_filled_once),
    cmocka_unit_test(deadline_cancel_and_depth),
    cmocka_unit_test(wrong_options_are_refused),
  };
  return RUN_TESTS(tests);
}
