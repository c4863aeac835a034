/* ops/math/rnn_kernel.c -- cells of recurrent networks, compiled once per instruction set
 * (base/isa.h). */
#include "ops/math/rnn.h"

#include "ops/point/vmath.h"

#define ROWS(T, F)                                                                   \
  static void lstm_##F(int64_t n, const void *gates, void *c_, void *h_)             \
  {                                                                                  \
    const T *i = gates, *f = i + n, *g = f + n, *o = g + n;                          \
    T *c = c_, *h = h_;                                                              \
    for (int64_t k = 0; k < n; k++)                                                  \
      c[k] = vm_sigmoid_##F(f[k]) * c[k] + vm_sigmoid_##F(i[k]) * vm_tanh_##F(g[k]); \
    for (int64_t k = 0; k < n; k++)                                                  \
      h[k] = vm_sigmoid_##F(o[k]) * vm_tanh_##F(c[k]);                               \
  }                                                                                  \
  static void gru_##F(int64_t n, const void *in, const void *hidden, void *h_)       \
  {                                                                                  \
    const T *a = in, *b = hidden;                                                    \
    T *h = h_;                                                                       \
    for (int64_t k = 0; k < n; k++) {                                                \
      T r = vm_sigmoid_##F(b[k] + a[k]), z = vm_sigmoid_##F(b[n + k] + a[n + k]);    \
      T m = vm_tanh_##F(a[2 * n + k] + b[2 * n + k] * r);                            \
      h[k] = (h[k] - m) * z + m;                                                     \
    }                                                                                \
  }                                                                                  \
  static void plain_##F(int64_t n, const void *gates, bool relu, void *h_)           \
  {                                                                                  \
    const T *g = gates;                                                              \
    T *h = h_;                                                                       \
    for (int64_t k = 0; k < n; k++)                                                  \
      h[k] = relu ? (g[k] < 0 ? 0 : g[k]) : vm_tanh_##F(g[k]);                       \
  }

ROWS(float, f32)
ROWS(double, f64)

rnn_rows ISA_NAME(rnn_rows_of)(bool is_f64)
{
  return is_f64 ? (rnn_rows){lstm_f64, gru_f64, plain_f64}
                : (rnn_rows){lstm_f32, gru_f32, plain_f32};
}
