/* ops/math/fft_kernel.c -- transforms side by side, compiled once per instruction set (base/isa.h);
 * fft_kernel.inc is the body. */
#include "ops/math/fft_lanes.h"

#if ISA_LEVEL == ISA_PORTABLE && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize( \
  "O2") /* a third of the code; CPUs with only these have no useful vectors */
#endif

#if ISA_LEVEL >= ISA_AVX512
#include "ops/math/turn512.h"
#define TURNED 8 /* elements of 16 lines that are transposed in registers */
#endif

#define T float
#define NAME(x) x##_f32
#define LANES FFT_LANES_F32
#include "ops/math/fft_kernel.inc"

#define T double
#define NAME(x) x##_f64
#define LANES FFT_LANES_F64
#include "ops/math/fft_kernel.inc"

const fft_loops *ISA_NAME(fft_loops_of)(bool is_f64) { return is_f64 ? &loops_f64 : &loops_f32; }
