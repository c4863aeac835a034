/* ops/kernels/reduce/reduce_kernel.c -- loops of the reduction machine (reduce.h), compiled once
 * per instruction set; reduce_kernel.inc per type. */
#include "ops/kernels/reduce/reduce.h"

#include <math.h>
#include <string.h>

#include "ops/point/vmath.h"

/* Bytes of a vector: the machine's width, since compilers split comparisons of wider ones badly. */
#if ISA_LEVEL >= ISA_AVX512
#include <immintrin.h>
#define WIDTH 64
#elif ISA_LEVEL >= ISA_AVX2
#define WIDTH 32
#else
#define WIDTH 16
#endif

#define T float
#define I int32_t
#define NAME(x) x##_f32
#define FLOATS 1
#define BOOLS 0
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#define SIGN INT32_MAX
#define PART __m512
#define PART_MASK __mmask16
#define PART_LOAD _mm512_mask_loadu_ps
#define PART_STORE _mm512_mask_storeu_ps
#define EXP vm_exp_f32
#include "ops/kernels/reduce/reduce_kernel.inc"

#define T double
#define I int64_t
#define NAME(x) x##_f64
#define FLOATS 1
#define BOOLS 0
#define LOWEST (-(double)INFINITY)
#define HIGHEST ((double)INFINITY)
#define SIGN INT64_MAX
#define PART __m512d
#define PART_MASK __mmask8
#define PART_LOAD _mm512_mask_loadu_pd
#define PART_STORE _mm512_mask_storeu_pd
#define EXP vm_exp_f64
#include "ops/kernels/reduce/reduce_kernel.inc"

#define T uint64_t /* sums and products wrap; comparisons are signed */
#define I int64_t
#define NAME(x) x##_i64
#define PART __m512i
#define PART_MASK __mmask8
#define PART_LOAD _mm512_mask_loadu_epi64
#define PART_STORE _mm512_mask_storeu_epi64
#define FLOATS 0
#define BOOLS 0
#define LOWEST ((uint64_t)INT64_MIN)
#define HIGHEST ((uint64_t)INT64_MAX)
#include "ops/kernels/reduce/reduce_kernel.inc"

#define T uint8_t
#define I int8_t
#define NAME(x) x##_b
#define PART __m512i
#define PART_MASK __mmask64
#define PART_LOAD _mm512_mask_loadu_epi8
#define PART_STORE _mm512_mask_storeu_epi8
#define FLOATS 0
#define BOOLS 1
#define LOWEST 0
#define HIGHEST 1
#include "ops/kernels/reduce/reduce_kernel.inc"

#define LOOPS(kind, ty) {rows_##kind##_##ty, cols_##kind##_##ty, init_##kind##_##ty}
#define FLOAT_KIND(KIND, kind) \
  [REDUCE_##KIND] = {[TY_F32] = LOOPS(kind, f32), [TY_F64] = LOOPS(kind, f64)}
#define NUMBER_KIND(KIND, kind) \
  [REDUCE_##KIND] = {           \
    [TY_I64] = LOOPS(kind, i64), [TY_F32] = LOOPS(kind, f32), [TY_F64] = LOOPS(kind, f64)}
#define ANY_KIND(KIND, kind)                                                \
  [REDUCE_##KIND] = {[TY_BOOL] = LOOPS(kind, b), [TY_I64] = LOOPS(kind, i64), \
                     [TY_F32] = LOOPS(kind, f32), [TY_F64] = LOOPS(kind, f64)}

static const reduce_isa loops = {
    .loops = {NUMBER_KIND(SUM, sum), FLOAT_KIND(NANSUM, nansum), FLOAT_KIND(SUM_ABS, sum_abs),
              FLOAT_KIND(SUM_SQ, sum_sq), FLOAT_KIND(SQ_DEV, sq_dev), FLOAT_KIND(EXP_SUM, exp_sum),
              FLOAT_KIND(NONZERO, nonzero), NUMBER_KIND(PROD, prod), ANY_KIND(MAX, max),
              ANY_KIND(MIN, min), FLOAT_KIND(MAX_ABS, max_abs), FLOAT_KIND(MIN_ABS, min_abs)},
    .find = {[TY_BOOL] = find_b, [TY_I64] = find_i64, [TY_F32] = find_f32, [TY_F64] = find_f64},
    .find_cols = {[TY_BOOL] = find_cols_b, [TY_I64] = find_cols_i64, [TY_F32] = find_cols_f32,
                  [TY_F64] = find_cols_f64},
};

const reduce_isa *ISA_NAME(reduce_isa)(void) { return &loops; }
