/* ops/math/rows.h -- normalisations and softmax of contiguous rows of float32 or float64.
 *
 * Sums use 16 virtual lanes by 4 accumulators and one tree, so the bits are the same on every
 * instruction set.  Rows are read more than once: they should fit into the cache.  In place is
 * allowed. Scalars are double in the interface and rounded to the element type inside. */
#ifndef RUSH_OPS_ROWS_H
#define RUSH_OPS_ROWS_H

#include "base/isa.h"

/* Most elements that callers pass to a loop over one row between two polls. */
#define ROWS_AT_ONCE ((int64_t)1 << 20)

enum { ROWS_COLUMNS = 64 };

typedef struct rows {
  double (*sum)(int64_t n, const void *x);
  double (*max)(int64_t n, const void *x);                 /* a NaN may be lost; n > 0 */
  double (*sum_sq)(int64_t n, const void *x, double mean); /* of x - mean */
  void (*softmax)(int64_t n, const void *x, void *y);
  void (*add)(int64_t n, const void *x, void *y); /* y += x */
  /* y = -inf where `shows` is not `shown` */
  void (*hide)(int64_t n, const bool *shows, bool shown, void *y);
  void (*log_softmax)(int64_t n, const void *x, void *y);
  /* Compute softmax (`log`: its logarithm) of `width` <= ROWS_COLUMNS adjacent columns, `stride`
   * elements from row to row. */
  void (*softmax_columns)(int64_t n, int64_t stride, int width, bool log, const void *x, void *y);
  void (*affine)(int64_t n, const void *x, double a, double b, void *y); /* a x + b */
  /* a[i] x[i] + b[i]: of the element type */
  void (*affine_each)(int64_t n, const void *x, const void *a, const void *b, void *y);
  /* Add the columns of n rows to the sums, as `sum` of single elements would: `width` <=
   * ROWS_COLUMNS adjacent columns, `stride` elements from row to row. */
  void (*sum_columns)(int64_t n, int64_t stride, int width, const void *x, double *sums);
  void (*sum_sq_columns)(int64_t n, int64_t stride, int width, const void *x, const double *means,
                         double *sums);
  /* (x - mean) * rstd * w + b; w and b may be NULL */
  void (*normalize)(int64_t n, const void *x, double mean, double rstd, const void *w,
                    const void *b, void *y);
} rows;

extern const rows rows_f32_portable, rows_f64_portable;
#ifdef RUSH_ISA_X86
extern const rows rows_f32_avx2, rows_f32_avx512, rows_f64_avx2, rows_f64_avx512;
#endif

/* Return the functions for float64, or float32. */
static inline const rows *rows_of(cpu_level level, bool f64)
{
#ifdef RUSH_ISA_X86
  if (level >= CPU_AVX512)
    return f64 ? &rows_f64_avx512 : &rows_f32_avx512;
  if (level == CPU_AVX2)
    return f64 ? &rows_f64_avx2 : &rows_f32_avx2;
#endif
  (void)level;
  return f64 ? &rows_f64_portable : &rows_f32_portable;
}

#endif
