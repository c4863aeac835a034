/* ops/math/gemm_bf16_kernel.c -- micro-kernels of products of bfloat16, two terms per word
 * (ops/math/gemm_chain.h).  Words are treated as float32 wherever they are only moved. */
#include "ops/math/gemm_int.h"

#include <immintrin.h>
#include <string.h>

#define FETCH_ROWS 40
#define UNROLL _Pragma("GCC unroll 32")
#define N_ROWS 14
#define SOME_ROWS(M) M(1) M(2) M(4) M(7) M(14)
#define EACH_ROWS(M) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14)

#define T float
#define NAME(x) ISA_NAME(x##_bf16)
#define T_F32
#define WORDS
#define WIDE_ROWS EACH_ROWS
#define OFF_ROWS SOME_ROWS
#define VL 16
typedef __m512 v_f32;
#define V v_f32
#define V_ZERO() _mm512_setzero_ps()
#define V_LOAD(p) _mm512_loadu_ps(p)
#define V_BCAST(x) _mm512_set1_ps(x)
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_DOT(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_STORE(p, x) _mm512_storeu_ps(p, x)
#define V_LOADN(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), p)
#define V_STOREN(p, x, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1), x)
#include "ops/math/gemm_kernel.inc"
