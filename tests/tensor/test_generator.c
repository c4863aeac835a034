#include "support/test.h"

#include "tensor/generator.h"

/* Expected numbers are PyTorch's: torch.randint(0, 2**62, (1,)) takes 64 bits, small ranges 32. */
static void numbers_are_pytorchs(void **state)
{
  (void)state;
  context *c = test_context(NULL);
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  generator *g = NULL;
  assert_int_equal(generator_new(&cx, 42, &g), RUSH_OK);
  assert_int_equal(generator_random64(g) % (UINT64_C(1) << 62), 2297359619001564595);
  assert_int_equal(generator_random64(g) % (UINT64_C(1) << 62), 3702525538111689998);
  assert_int_equal(generator_random32(g) % 1000, 26);
  assert_int_equal(generator_random32(g) % 1000, 335);
  assert_int_equal(generator_random32(g) % 1000, 620);
  assert_int_equal(heap_drop(&g->h), true);
  call_lock_destroy(&g->lock);
  mem_free(c, g, sizeof *g);
  assert_int_equal(generator_default(c)->seed, 67280421310721);
  assert_ptr_equal(generator_default(c), generator_default(c));
  context_release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_pytorchs)};
  return RUN_TESTS(tests);
}
