/* base/isa.h -- names for files that are compiled once per instruction set.
 *
 * The build compiles each file of `isa_sources` (src/ops/meson.build) several times with ISA set to
 * portable, avx2, avx512, and those of `isa_bf16_sources` with avx512bf16.  In the second,
 * ISA_NAME(dot) is dot_avx2; ISA_LEVEL can be compared.  Other files declare all variants of a
 * function with
 *
 *   ISA_DECLARE(void, dot, (float *out, const float *a, const float *b, size_t n));
 *
 * and choose with ISA_PICK(dot, cpu_choose(...)).  If the compiler does not target x86-64, only
 * portable exists, and ISA_PICK always chooses it.
 *
 * Every AArch64 processor has NEON, so there is nothing to choose there: with RUSH_ISA_NEON the
 * files that have vectors by hand use them in portable, too.  -Disa=portable leaves them out, for
 * comparison. */
#ifndef RUSH_BASE_ISA_H
#define RUSH_BASE_ISA_H

#include "base/cpu.h"

#define ISA_PORTABLE 0
#define ISA_AVX2 1
#define ISA_AVX512 2
#define ISA_AVX512BF16 3

#define ISA_PASTE_(a, b) a##_##b
#define ISA_PASTE(a, b) ISA_PASTE_(a, b)

/* Defined where kernels have vectors by hand, not those that the compiler finds. */
#if defined(RUSH_ISA_NEON) || (defined(ISA_LEVEL) && ISA_LEVEL > ISA_PORTABLE)
#define ISA_VECTORS
#endif

#ifdef ISA
#define ISA_NAME(x) ISA_PASTE(x, ISA)
#endif

#ifdef RUSH_ISA_X86
#define ISA_DECLARE(ret, name, args) \
  ret name##_portable args;          \
  ret name##_avx2 args;              \
  ret name##_avx512 args
#define ISA_PICK(name, level)                          \
  ((level) >= CPU_AVX512 ? name##_avx512               \
   : (level) == CPU_AVX2 ? name##_avx2                 \
                         : name##_portable)
#else
#define ISA_DECLARE(ret, name, args) ret name##_portable args
#define ISA_PICK(name, level) ((void)(level), name##_portable)
#endif

#endif
