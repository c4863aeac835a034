/* base/cpu.h -- the instruction sets that kernels may use.  Detected once; immutable afterwards. */
#ifndef RUSH_BASE_CPU_H
#define RUSH_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cpu_level {
  CPU_NATIVE = 0, /* whatever the machine has */
  CPU_PORTABLE,   /* the compiler's baseline */
  CPU_AVX2,       /* AVX2, FMA, F16C */
  CPU_AVX512      /* F, BW, VL, DQ */
} cpu_level;

/* Return the machine's level: CPU_PORTABLE, CPU_AVX2 or CPU_AVX512. */
cpu_level cpu_machine(void);
/* Return `wanted` (for CPU_NATIVE: the machine's level), but at most the machine's level. */
cpu_level cpu_choose(uint32_t wanted);
/* True if the machine's level is CPU_AVX512 and it also has AVX512_BF16 and VNNI. */
bool cpu_has_bf16(void);
/* True if bfloat16 products may use AMX tiles: `wanted` is CPU_NATIVE, cpu_has_bf16(), the machine
 * has AMX_TILE and AMX_BF16, and the system lets this process use the tile registers.  The first
 * call requests them from the system, once for the whole process. */
bool cpu_has_tiles(uint32_t wanted);

#endif
