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

static void tiles_are_for_native_only(void **state)
{
  (void)state;
  const bool has = cpu_has_tiles(CPU_NATIVE);
  assert_true(!has || cpu_has_bf16());
  assert_int_equal(cpu_has_tiles(CPU_NATIVE), has);
  for (uint32_t level = CPU_PORTABLE; level <= CPU_AVX512; level++)
    assert_false(cpu_has_tiles(level));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(never_above_the_machine),
                                     cmocka_unit_test(tiles_are_for_native_only)};
  return RUN_TESTS(tests);
}
