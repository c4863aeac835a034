#include "support/oom.h"

#include "base/table.h"

static void keeps_order_and_finds_all(void **state)
{
  (void)state;
  enum { N = 3000 };
  static char keys[N][8];
  context *c = test_context(NULL);
  table t;
  table_init(&t, c);
  assert_null(table_get(&t, STR("none")));
  assert_null(table_remove(&t, STR("none")));
  for (int i = 0; i < N; i++) {
    snprintf(keys[i], sizeof keys[i], "k%d", i);
    assert_true(table_put(&t, str_of(keys[i]), keys[i]));
  }
  for (int i = 0; i < N; i += 2)
    assert_ptr_equal(table_remove(&t, str_of(keys[i])), keys[i]);
  assert_int_equal(t.n_live, N / 2);
  for (int i = 0; i < N; i++)
    assert_ptr_equal(table_get(&t, str_of(keys[i])), i % 2 ? keys[i] : NULL);
  for (int i = 0; i < N; i += 2)
    assert_true(table_put(&t, str_of(keys[i]), keys[i]));
  assert_true(table_put(&t, STR("k1"), keys)); /* replaces in place */
  assert_ptr_equal(table_get(&t, STR("k1")), keys);
  assert_int_equal(t.n_live, N);
  const char *previous = NULL;
  for (uint32_t i = 0; i < t.n; i++)
    if (t.entries[i].value && t.entries[i].key.p[1] != '1') {
      if (previous && atoi(previous + 1) % 2 == atoi(t.entries[i].key.p + 1) % 2)
        assert_true(atoi(previous + 1) < atoi(t.entries[i].key.p + 1));
      previous = t.entries[i].key.p;
    }
  table_free(&t);
  test_context_done(c);
}

/* Keys of address_key are found by identity; equal bytes at another address are another key. */
static void addresses_are_keys(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  static const char twice[2][4] = {"one", "one"};
  table t;
  table_init(&t, c);
  assert_true(table_put(&t, address_key(twice[0]), &t));
  assert_ptr_equal(table_get(&t, address_key(twice[0])), &t);
  assert_null(table_get(&t, address_key(twice[1])));
  assert_null(table_get(&t, str_of(twice[0])));
  for (size_t i = 0; i < 1000; i++) /* addresses need not be readable */
    assert_true(table_put(&t, address_key((const void *)(uintptr_t)(4096 + i)), (void *)(i + 1)));
  for (size_t i = 0; i < 1000; i++)
    assert_int_equal((size_t)table_get(&t, address_key((const void *)(uintptr_t)(4096 + i))),
                     i + 1);
  assert_ptr_equal(table_remove(&t, address_key(twice[0])), &t);
  table_free(&t);
  test_context_done(c);
}

static void put_may_fail(void **state)
{
  (void)state;
  OOM_LOOP(cx)
  {
    static const char *names[] = {"a", "b", "c", "d", "e", "f", "g",
                                  "h", "i", "j", "k", "l", "m", ""};
    table t;
    table_init(&t, cx.ctx);
    for (size_t i = 0; i < 14; i++) {
      bool put = table_put(&t, str_of(names[i]), &t);
      assert_true((table_get(&t, str_of(names[i])) != NULL) == put);
    }
    table_free(&t);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(keeps_order_and_finds_all),
    cmocka_unit_test(addresses_are_keys),
    cmocka_unit_test(put_may_fail),
  };
  return RUN_TESTS(tests);
}
