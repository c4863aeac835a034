/* ops/math/gemm_kernel.c -- micro-kernels of matrix products, compiled once per instruction set
 * (base/isa.h); gemm_kernel.inc is the body, once per element type. */
#include "ops/math/gemm_int.h"

#include <math.h>
#include <string.h>

#if ISA_LEVEL >= ISA_AVX512
#include "ops/math/turn512.h"
#elif ISA_LEVEL >= ISA_AVX2
#include <immintrin.h>
#elif defined(RUSH_ISA_NEON)
#include <arm_neon.h>
#endif

/* ALWAYS unrolled: accumulators must be registers, so every index into them a constant. */
/* Rows of B fetched ahead: what a tile needs is farther than the hardware prefetches. */
#define FETCH_ROWS 40
#define UNROLL _Pragma("GCC unroll 32")

#if ISA_LEVEL >= ISA_AVX512
#define N_ROWS 14
#define EVEN_ROWS /* fourteen pointers are no registers */
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)
#define SOME_ROWS(M) M(1) M(2) M(4) M(7) M(14)
#elif ISA_LEVEL >= ISA_AVX2
#define N_ROWS 6
#define FEW_REGISTERS
#define BLOCK_STEP 16 /* from a pixel of a block to its neighbour */
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6)
#define SOME_ROWS(M) M(1) M(2) M(4) M(6)
#elif defined(RUSH_ISA_NEON) /* 24 of the 32 registers are sums */
#define N_ROWS 12
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12)
#define SOME_ROWS(M) M(1) M(2) M(4) M(6) M(12)
#else
#define N_ROWS 4
#define EACH_ROWS(M) M(1) M(2) M(3) M(4)
#define SOME_ROWS(M) M(1) M(2) M(4)
#endif

/* -- float32 ----------------------------------------------------------------------------------- */

#define T float
#define NAME(x) ISA_NAME(x##_f32)
#define WIDE_ROWS EACH_ROWS
#define OFF_ROWS EACH_ROWS
#define T_F32
#if ISA_LEVEL >= ISA_AVX512
#define VL 16
typedef __m512 v_f32;
#define V v_f32
#define V_ZERO() _mm512_setzero_ps()
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_BCAST(x) _mm512_set1_ps(x)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_MIN(a, b) _mm512_min_ps(a, b)
#define V_STORE(p, x) _mm512_storeu_ps(p, x)
#define V_LOADN(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define V_STOREN(p, x, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), x)
#elif ISA_LEVEL >= ISA_AVX2
#define VL 8
typedef __m256 v_f32;
#define V v_f32
static inline __m256i lanes_f32(int n)
{
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#define V_ZERO() _mm256_setzero_ps()
#define V_LOAD(p) _mm256_loadu_ps(p)
#define V_BCAST(x) _mm256_set1_ps(x)
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_MIN(a, b) _mm256_min_ps(a, b)
#define V_STORE(p, x) _mm256_storeu_ps(p, x)
#define V_LOADN(p, n) _mm256_maskload_ps(p, lanes_f32(n))
#define V_STOREN(p, x, n) _mm256_maskstore_ps(p, lanes_f32(n), x)
#elif defined(RUSH_ISA_NEON)
#define VL 4
typedef float32x4_t v_f32;
#define V v_f32
static inline v_f32 load_lanes_f32(const float *p, int n)
{
  float x[4] = {0};
  for (int i = 0; i < n; i++)
    x[i] = p[i];
  return vld1q_f32(x);
}
static inline void store_lanes_f32(float *p, v_f32 v, int n)
{
  float x[4];
  vst1q_f32(x, v);
  for (int i = 0; i < n; i++)
    p[i] = x[i];
}
#define V_ZERO() vdupq_n_f32(0)
#define V_LOAD(p) vld1q_f32(p)
#define V_BCAST(x) vdupq_n_f32(x)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_MUL(a, b) vmulq_f32(a, b)
#define V_ADD(a, b) vaddq_f32(a, b)
#define V_MAX(a, b) vbslq_f32(vcgtq_f32(a, b), a, b)
#define V_MIN(a, b) vbslq_f32(vcltq_f32(a, b), a, b)
#define V_STORE(p, x) vst1q_f32(p, x)
#define V_LOADN(p, n) load_lanes_f32(p, n)
#define V_STOREN(p, x, n) store_lanes_f32(p, x, n)
#else
#define VL 4
#define FMA1(a, b, c) __builtin_fmaf(a, b, c)
#endif
#include "ops/math/gemm_kernel.inc"

/* -- float64 ----------------------------------------------------------------------------------- */

#define T double
#define NAME(x) ISA_NAME(x##_f64)
#define WIDE_ROWS SOME_ROWS
#if ISA_LEVEL >= ISA_AVX512
#define VL 8
typedef __m512d v_f64;
#define V v_f64
#define V_ZERO() _mm512_setzero_pd()
#define V_LOAD(p) _mm512_loadu_pd(p)
#define V_BCAST(x) _mm512_set1_pd(x)
#define V_FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define V_MUL(a, b) _mm512_mul_pd(a, b)
#define V_ADD(a, b) _mm512_add_pd(a, b)
#define V_STORE(p, x) _mm512_storeu_pd(p, x)
#define V_LOADN(p, n) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1), p)
#define V_STOREN(p, x, n) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (n)) - 1), x)
#elif ISA_LEVEL >= ISA_AVX2
#define VL 4
typedef __m256d v_f64;
#define V v_f64
static inline __m256i lanes_f64(int n)
{
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#define V_ZERO() _mm256_setzero_pd()
#define V_LOAD(p) _mm256_loadu_pd(p)
#define V_BCAST(x) _mm256_set1_pd(x)
#define V_FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define V_MUL(a, b) _mm256_mul_pd(a, b)
#define V_ADD(a, b) _mm256_add_pd(a, b)
#define V_STORE(p, x) _mm256_storeu_pd(p, x)
#define V_LOADN(p, n) _mm256_maskload_pd(p, lanes_f64(n))
#define V_STOREN(p, x, n) _mm256_maskstore_pd(p, lanes_f64(n), x)
#elif defined(RUSH_ISA_NEON)
#define VL 2
typedef float64x2_t v_f64;
#define V v_f64
#define V_ZERO() vdupq_n_f64(0)
#define V_LOAD(p) vld1q_f64(p)
#define V_BCAST(x) vdupq_n_f64(x)
#define V_FMA(a, b, c) vfmaq_f64(c, a, b)
#define V_MUL(a, b) vmulq_f64(a, b)
#define V_ADD(a, b) vaddq_f64(a, b)
#define V_STORE(p, x) vst1q_f64(p, x)
#define V_LOADN(p, n) ((n) > 1 ? vld1q_f64(p) : vsetq_lane_f64(*(p), vdupq_n_f64(0), 0))
#define V_STOREN(p, x, n) ((n) > 1 ? vst1q_f64(p, x) : vst1q_lane_f64(p, x, 0))
#else
#define VL 4
#define FMA1(a, b, c) __builtin_fma(a, b, c)
#endif
#include "ops/math/gemm_kernel.inc"
