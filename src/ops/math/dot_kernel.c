/* ops/math/dot_kernel.c -- sums of products, compiled once per instruction set (base/isa.h). */
#include "ops/math/dot.h"

#include <string.h>

/* The width of the machine's vectors: the compiler splits wider ones badly. */
#if ISA_LEVEL >= ISA_AVX512
#define WIDTH 64
#elif ISA_LEVEL >= ISA_AVX2
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef float floats __attribute__((vector_size(WIDTH)));
typedef double doubles __attribute__((vector_size(WIDTH)));
typedef uint64_t ints __attribute__((vector_size(WIDTH)));

#define LOAD(V, p)                \
  __extension__({                 \
    V v_;                         \
    memcpy(&v_, (p), sizeof v_);  \
    v_;                           \
  })

#define DOT(name, T, V)                                                       \
  static T name(int64_t n, const T *x, const T *y)                            \
  {                                                                           \
    enum { LANES = sizeof(V) / sizeof(T), N = 64 / LANES };                   \
    V acc[N] = {{0}};                                                         \
    T s[64];                                                                  \
    int64_t i = 0;                                                            \
    for (; i + 64 <= n; i += 64)                                              \
      for (int v = 0; v < N; v++)                     \
        acc[v] += LOAD(V, x + i + v * LANES) * LOAD(V, y + i + v * LANES);    \
    memcpy(s, acc, sizeof s);                                                 \
    for (int l = 0; i < n; i++, l++)                                          \
      s[l] += x[i] * y[i];                                                    \
    for (int w = 32; w > 0; w /= 2)                                           \
      for (int l = 0; l < w; l++)                                             \
        s[l] += s[l + w];                                                     \
    return s[0];                                                              \
  }
DOT(dot_f32, float, floats)
DOT(dot_f64, double, doubles)
DOT(dot_i64, uint64_t, ints)

static float distance(int64_t n, const float *x, const float *y)
{
  enum { N = 64 / WIDTH, LANES = WIDTH / 4 };
  floats acc[N] = {{0}};
  float s[16], r = 0;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int v = 0; v < N; v++) {
      const floats d = LOAD(floats, x + i + v * LANES) - LOAD(floats, y + i + v * LANES);
      acc[v] += d * d;
    }
  memcpy(s, acc, sizeof s);
  for (; i < n; i++)
    s[i % 16] += (x[i] - y[i]) * (x[i] - y[i]);
  for (int l = 0; l < 16; l++)
    r += s[l];
  return r;
}

static inline __attribute__((always_inline)) void tile_rows(int64_t k, const int rows,
                                                            const uint64_t *a, int64_t rs,
                                                            int64_t cs, const uint64_t *b,
                                                            uint64_t *c)
{
  enum { LANES = WIDTH / 8, N = INT_COLS / LANES };
  ints acc[INT_ROWS][N] = {{{0}}};
  for (; k > 0; k--, a += cs, b += INT_COLS)
    _Pragma("GCC unroll 8") for (int v = 0; v < N; v++) {
      const ints bv = LOAD(ints, b + v * LANES);
      _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++)
        acc[r][v] += a[r * rs] * bv;
    }
  memcpy(c, acc, sizeof *acc * (size_t)rows);
}

static void tile(int64_t k, int rows, const uint64_t *a, int64_t rs, int64_t cs, const uint64_t *b,
                 uint64_t *c)
{
  if (rows == INT_ROWS) {
    tile_rows(k, INT_ROWS, a, rs, cs, b, c);
    return;
  }
  for (int r = 0; r < rows; r++)
    tile_rows(k, 1, a + r * rs, rs, cs, b, c + r * INT_COLS);
}

const dot_loops *ISA_NAME(dot_loops_of)(void)
{
  static const dot_loops loops = {
    .f32 = dot_f32, .f64 = dot_f64, .i64 = dot_i64, .distance = distance, .tile = tile};
  return &loops;
}
