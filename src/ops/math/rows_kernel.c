/* ops/math/rows_kernel.c -- row kernels, compiled once per instruction set (base/isa.h);
 * rows_kernel.inc per element type. */
#include "ops/math/rows.h"

#include <string.h>

#include "ops/point/vmath.h"
#include "ops/point/vmath512.h"

#define T float
#define NAME(x) ISA_NAME(x##_f32)
#define EXP vm_exp_f32
#define LOG vm_log_f32
#define TABLE rows_f32
#ifdef __AVX512F__
#define EXP_16(x, m) v512_exp(_mm512_sub_ps(_mm512_loadu_ps(x), _mm512_set1_ps(m)))
#endif
#include "ops/math/rows_kernel.inc"

#define T double
#define NAME(x) ISA_NAME(x##_f64)
#define EXP vm_exp_f64
#define LOG vm_log_f64
#define TABLE rows_f64
#include "ops/math/rows_kernel.inc"
