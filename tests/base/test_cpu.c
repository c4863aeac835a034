#include "support/test.h"

#include "base/cpu.h"

static void never_above_the_machine(void **state)
{
  (void)state;
  assert_true(cpu_machine() >= CPU_PORTABLE && cpu_machine() <= CPU_AVX512);
  assert_int_equal(cpu_choose(CPU_NATIVE), cpu_machine());
  assert_int_equal(cpu_choose(CPU_PORTABLE), CPU_PORTABLE);
  assert_true(cpu_choose(CPU_AVX512) <= cpu_machine());
  assert_true(!cpu_has_bf16() || cpu_machine() == CPU_AVX512);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(never_above_the_machine)};
  return RUN_TESTS(tests);
}
