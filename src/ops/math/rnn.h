/* ops/math/rnn.h -- the arithmetic of recurrent cells, one row (one sequence) at a time. */
#ifndef RUSH_OPS_RNN_H
#define RUSH_OPS_RNN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/isa.h"

/* n hidden units.  Gates are rows of n, in PyTorch's order: lstm i f g o, gru r z n (input and
 * hidden sides separately).  c and h are the state, read and written. */
typedef struct rnn_rows {
  void (*lstm)(int64_t n, const void *gates, void *c, void *h);
  void (*gru)(int64_t n, const void *in, const void *hidden, void *h);
  void (*plain)(int64_t n, const void *gates, bool relu, void *h);
} rnn_rows;
ISA_DECLARE(rnn_rows, rnn_rows_of, (bool is_f64));

#endif
