/* ops/rows.h -- normalisations and softmax of contiguous rows.
 *
 * Sums use 16 virtual lanes by 4 accumulators and one tree, so the bits are the same on every
 * instruction set.  Rows are read more than once: they should fit in the cache.  In place is fine. */
#ifndef RUSH_OPS_ROWS_H
#define RUSH_OPS_ROWS_H

#include "base/isa.h"

typedef struct rows_f32 {
  float (*sum)(int64_t n, const float *x);
  float (*max)(int64_t n, const float *x);                    /* a NaN may be lost */
  float (*sum_sq)(int64_t n, const float *x, float mean);     /* of x - mean */
  void (*softmax)(int64_t n, const float *x, float *y);
  void (*log_softmax)(int64_t n, const float *x, float *y);
  void (*affine)(int64_t n, const float *x, float a, float b, float *y); /* a x + b */
  /* (x - mean) * rstd * w + b; w and b may be NULL */
  void (*normalize)(int64_t n, const float *x, float mean, float rstd, const float *w, const float *b, float *y);
} rows_f32;
typedef struct rows_f64 {
  double (*sum)(int64_t n, const double *x);
  double (*max)(int64_t n, const double *x);
  double (*sum_sq)(int64_t n, const double *x, double mean);
  void (*softmax)(int64_t n, const double *x, double *y);
  void (*log_softmax)(int64_t n, const double *x, double *y);
  void (*affine)(int64_t n, const double *x, double a, double b, double *y);
  void (*normalize)(int64_t n, const double *x, double mean, double rstd, const double *w, const double *b,
                    double *y);
} rows_f64;

extern const rows_f32 rows_f32_portable;
extern const rows_f64 rows_f64_portable;
#ifdef RUSH_ISA_X86
extern const rows_f32 rows_f32_avx2, rows_f32_avx512;
extern const rows_f64 rows_f64_avx2, rows_f64_avx512;
#endif

static inline const rows_f32 *rows_f32_of(cpu_level level)
{
#ifdef RUSH_ISA_X86
  return level >= CPU_AVX512 ? &rows_f32_avx512 : level == CPU_AVX2 ? &rows_f32_avx2 : &rows_f32_portable;
#else
  (void)level;
  return &rows_f32_portable;
#endif
}
static inline const rows_f64 *rows_f64_of(cpu_level level)
{
#ifdef RUSH_ISA_X86
  return level >= CPU_AVX512 ? &rows_f64_avx512 : level == CPU_AVX2 ? &rows_f64_avx2 : &rows_f64_portable;
#else
  (void)level;
  return &rows_f64_portable;
#endif
}

#endif
