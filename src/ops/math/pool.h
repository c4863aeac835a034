/* ops/math/pool.h -- windows over planes: shared by pool.c and the kernels of pool_kernel.c.
 *
 * A plane is one channel of one image, [d, h, w]; fewer spatial dimensions have leading ones.
 * Windows are processed a row of results at a time, element by element of the window, so every
 * result sees its window in PyTorch's order and the inner loop is a vector loop. */
#ifndef RUSH_OPS_POOL_H
#define RUSH_OPS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/context.h"
#include "base/isa.h"

typedef struct pool_geo {
  int64_t n_planes, n_in, n_out; /* n_in, n_out: elements of a plane */
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  bool count_pad;  /* averages divide by the window with its padding */
  int64_t divisor; /* or by this, when not 0 */
  const call_ctx *watch; /* the call, if it may end before the work is done; else NULL */
} pool_geo;

/* Process planes [begin, end).  idx may be NULL: position in the plane of each result. */
typedef void pool_max_fn(const pool_geo *g, const void *in, void *out, int64_t *idx, int64_t begin,
                         int64_t end);
typedef void pool_avg_fn(const pool_geo *g, const void *in, void *out, int64_t begin, int64_t end);
/* Compute result pixels [begin, end) of images whose n_ch channels are innermost in memory; NULL
 * for some types. */
typedef void pool_last_fn(const pool_geo *g, int64_t n_ch, const void *in, void *out, int64_t begin,
                          int64_t end);
typedef struct pool_kernels {
  pool_max_fn *max, *adaptive_max;
  pool_avg_fn *avg, *adaptive_avg;
  pool_last_fn *max_last, *adaptive_avg_last;
} pool_kernels;

/* Get the kernels of an element type, or NULL functions.  half and bfloat16 have none. */
ISA_DECLARE(bool, pool_kernels_of, (int dtype, pool_kernels *out));

/* Poll before a row of some window; true if the kernel must stop. */
static inline bool pool_over(const pool_geo *g) { return g->watch && call_over(g->watch); }

/* Poll now and then, before result `o`. */
static inline bool pool_over_at(const pool_geo *g, int64_t o)
{
  return g->watch && call_over_at(g->watch, o);
}

/* Return the start of the window of an adaptive pool. */
static inline int64_t pool_start(int64_t o, int64_t n_out, int64_t n_in)
{
  return (o / n_out) * n_in + ((o % n_out) * n_in) / n_out;
}
static inline int64_t pool_end(int64_t o, int64_t n_out, int64_t n_in)
{
  return 1 + ((o + 1) * n_in - 1) / n_out;
}

#endif
