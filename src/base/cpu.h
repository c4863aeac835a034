/* base/cpu.h -- the instruction sets a kernel may use.  Read once; immutable afterwards. */
#ifndef RUSH_BASE_CPU_H
#define RUSH_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cpu_level {
  CPU_NATIVE = 0, /* whatever the machine has */
  CPU_PORTABLE,   /* what the compiler's baseline has */
  CPU_AVX2,       /* AVX2, FMA, F16C */
  CPU_AVX512      /* F, BW, VL, DQ */
} cpu_level;

/* The machine's level: CPU_PORTABLE, CPU_AVX2 or CPU_AVX512. */
cpu_level cpu_machine(void);
/* `wanted` (or the machine's for CPU_NATIVE), never above the machine's. */
cpu_level cpu_choose(uint32_t wanted);
/* The machine is at CPU_AVX512 and has AVX512_BF16 and VNNI too. */
bool cpu_has_bf16(void);

#endif
