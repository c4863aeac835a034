/* base/count.h: the same counts with one thread and with several. */
#include "base/count.h"

#include <pthread.h>

#include "support/test.h"

#define N_TIMES 200000

static void *up_and_down(void *n)
{
  for (int i = 0; i < N_TIMES; i++) {
    count_add(n);
    count_add(n);
    count_sub(n, 1);
  }
  return NULL;
}

static void counts_return_what_was_there(void **state)
{
  _Atomic uint32_t n = 7;

  (void)state;
  assert_int_equal(count_add(&n), 7);
  assert_int_equal(count_add(&n), 8);
  assert_int_equal(count_sub(&n, 3), 9);
  assert_int_equal(n, 6);
}

/* What one thread counted before the others started stays, and nothing they count is lost. */
static void threads_lose_no_count(void **state)
{
  _Atomic uint32_t n = 0;
  pthread_t threads[3];

  (void)state;
  up_and_down(&n);
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, up_and_down, &n), 0);
  up_and_down(&n);
  assert_false(process_is_single());
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(n, 5 * N_TIMES);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(counts_return_what_was_there),
    cmocka_unit_test(threads_lose_no_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
