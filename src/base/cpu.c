/* base/cpu.c -- detects the machine's instruction sets with cpuid, once, including whether the
 * system saves the registers. */
#include "base/cpu.h"

#include <stdatomic.h>

#ifdef RUSH_ISA_X86
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#define READ_DONE 0x80000000u
#define HAS_BF16 0x100u
#define TILES_READ 0x200u
#define HAS_TILES 0x400u

/* The machine's instruction sets, detected once (one of the library's three globals): the level and
 * the bits above.  TILES_READ is set later than READ_DONE: only bfloat16 products need tiles. */
static _Atomic uint32_t features;

static uint32_t read_features(void)
{
  uint32_t f = CPU_PORTABLE;
#ifdef RUSH_ISA_X86
  unsigned a, b, c, d;
  __builtin_cpu_init(); /* also tests whether the system saves the registers */
  bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  if (f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    f = CPU_AVX2;
  if (f == CPU_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    f = CPU_AVX512;
    bool bf16 = __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
    if (bf16 && __builtin_cpu_supports("avx512vnni"))
      f |= HAS_BF16;
  }
#endif
  return f;
}

static uint32_t machine_features(void)
{
  uint32_t f = atomic_load_explicit(&features, memory_order_relaxed);
  if (!f) { /* racing threads read the same */
    f = read_features() | READ_DONE;
    atomic_store_explicit(&features, f, memory_order_relaxed);
  }
  return f;
}

cpu_level cpu_machine(void) { return (cpu_level)(machine_features() & 0xff); }

cpu_level cpu_choose(uint32_t wanted)
{
  cpu_level machine = cpu_machine();
  return wanted == CPU_NATIVE || wanted > (uint32_t)machine ? machine : (cpu_level)wanted;
}

bool cpu_has_bf16(void) { return machine_features() & HAS_BF16; }

/* Request the tile registers from the system (8 KB a thread, saved only while they hold something).
 * Needed by Linux since 5.16; older kernels never enable the state. */
static bool tiles_granted(void)
{
#if defined(RUSH_ISA_X86) && defined(SYS_arch_prctl)
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, STATES = 3 << 17, TILE = 1 << 24,
         TILE_BF16 = 1 << 22, OSXSAVE = 1 << 27 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & TILE) || !(d & TILE_BF16) ||
      !__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE))
    return false;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (a & STATES) == STATES && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}

bool cpu_has_tiles(uint32_t wanted)
{
  uint32_t f = machine_features();
  if (wanted != CPU_NATIVE || !(f & HAS_BF16))
    return false;
  if (!(f & TILES_READ)) { /* racing threads get the same answer */
    f |= TILES_READ | (tiles_granted() ? HAS_TILES : 0);
    atomic_fetch_or_explicit(&features, f, memory_order_relaxed);
  }
  return f & HAS_TILES;
}
