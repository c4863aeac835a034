/* Sums of picked elements, compiled once per instruction set (base/isa.h). */
#include "ops/gather.h"

#include <string.h>

/* A row is summed in registers, two of these at a time.  Loops over arrays did not become vectors. */
typedef float floats __attribute__((vector_size(64)));
typedef double doubles __attribute__((vector_size(64)));

#define GATHER(T, F, V)                                                                                       \
  static bool inside_##F(int n, const int64_t *at)                                                            \
  {                                                                                                           \
    int64_t any = 0;                                                                                          \
    for (int i = 0; i < n; i++)                                                                               \
      any |= at[i];                                                                                           \
    return any >= 0;                                                                                          \
  }                                                                                                           \
  static void points_##F(int n, int n_taps, const void *x_, const int64_t *at, const void *weight, void *y_)  \
  {                                                                                                           \
    const T *x = x_, *w = weight;                                                                             \
    T *y = y_;                                                                                                \
    for (int i = 0; i < n; i++)                                                                               \
      y[i] = 0;                                                                                               \
    for (int k = 0; k < n_taps; k++, at += GATHER_POINTS, w += GATHER_POINTS) {                               \
      if (inside_##F(n, at))                                                                                  \
        for (int i = 0; i < n; i++)                                                                           \
          y[i] += x[at[i]] * w[i];                                                                            \
      else                                                                                                    \
        for (int i = 0; i < n; i++)                                                                           \
          y[i] += at[i] >= 0 ? x[at[i]] * w[i] : 0;                                                           \
    }                                                                                                         \
  }                                                                                                           \
  static void rows_##F(int64_t n_cols, const void *table, const int64_t *at, int64_t n, const void *factors,  \
                       void *to_)                                                                             \
  {                                                                                                           \
    const T *f = factors;                                                                                     \
    T *to = to_;                                                                                              \
    int64_t c = 0;                                                                                            \
    for (; c + 2 * (int64_t)(sizeof(V) / sizeof(T)) <= n_cols; c += 2 * (int64_t)(sizeof(V) / sizeof(T))) {   \
      V low = {0}, high = {0}, x, y;                                                                          \
      for (int64_t i = 0; i < n; i++) {                                                                       \
        const T *from = (const T *)table + at[i] * n_cols + c;                                                \
        memcpy(&x, from, sizeof x);                                                                           \
        memcpy(&y, from + sizeof x / sizeof(T), sizeof y);                                                    \
        low += f ? x * f[i] : x;                                                                              \
        high += f ? y * f[i] : y;                                                                             \
      }                                                                                                       \
      memcpy(to + c, &low, sizeof low);                                                                       \
      memcpy(to + c + sizeof low / sizeof(T), &high, sizeof high);                                            \
    }                                                                                                         \
    for (int64_t k = c; k < n_cols; k++)                                                                      \
      to[k] = 0;                                                                                              \
    for (int64_t i = 0; i < n && c < n_cols; i++) {                                                           \
      const T *from = (const T *)table + at[i] * n_cols, by = f ? f[i] : 1;                                   \
      for (int64_t k = c; k < n_cols; k++)                                                                    \
        to[k] += from[k] * by;                                                                                \
    }                                                                                                         \
  }

GATHER(float, f32, floats)
GATHER(double, f64, doubles)

gather ISA_NAME(gather_of)(bool is_f64)
{
  return is_f64 ? (gather){points_f64, rows_f64} : (gather){points_f32, rows_f32};
}
