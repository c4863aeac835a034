/* ops/math/conv_transpose.c -- transposed convolutions on raw memory (conv.h): for each image and
 * group a product gives a column of results for every input pixel and kernel position, and the
 * columns are added into the output, position by position. Where positions never meet (no kernel
 * larger than its stride), this is done for strips of input rows, whose columns stay in L2.
 * Rejected: strips for all kernels, since results would get their terms in another order; a gather
 * for each result, which is a product with a kernel that is mostly zeros. */
#include "ops/math/conv.h"

#include <string.h>

#include "base/threads.h"
#include "ops/math/gemm.h"
#include "tensor/dtype.h"

/* Bytes of columns that are made at once, where strips of the input keep the order of adding: they
 * stay in L2. */
#define COLUMN_BYTES ((size_t)256 << 10)

/* The columns x of the input that kernel position kx adds into the output: [*begin, *end). */
static void columns_inside(const conv_args *c, int64_t kx, int64_t *begin, int64_t *end)
{
  const int64_t shift = kx * c->dilation[2] - c->pad[2], step = c->stride[2];

  *begin = shift < 0 ? (-shift + step - 1) / step : 0;
  *end = c->out[2] <= shift ? 0 : i64_min(c->in[2], (c->out[2] - shift + step - 1) / step);
}

/* For a type T:
 *   name_row    add row[x] to to[x * step]
 *   name_pair   the same for two positions that never meet, at once: stores are whole vectors
 *   name_plane  add the columns of position k (a pair: and k + 1) of input rows [begin, end)
 *   name        add those of all positions into one output channel; rows count over planes
 *   name_bias   add the bias to all of an output channel */
#define ADD_COLUMNS(name, T)                                                                      \
  static void name##_row(int64_t n, int64_t step, const T *restrict row, T *restrict to)          \
  {                                                                                               \
    if (step == 1)                                                                                \
      for (int64_t x = 0; x < n; x++)                                                             \
        to[x] = (T)(to[x] + row[x]);                                                              \
    else                                                                                          \
      for (int64_t x = 0; x < n; x++)                                                             \
        to[x * step] = (T)(to[x * step] + row[x]);                                                \
  }                                                                                               \
  static void name##_pair(int64_t n, const T *restrict even, const T *restrict odd,               \
                          T *restrict to)                                                         \
  {                                                                                               \
    for (int64_t x = 0; x < n; x++) {                                                             \
      to[2 * x] = (T)(to[2 * x] + even[x]);                                                       \
      to[2 * x + 1] = (T)(to[2 * x + 1] + odd[x]);                                                \
    }                                                                                             \
  }                                                                                               \
  static void name##_plane(const conv_args *c, int64_t k, int64_t begin, int64_t end,             \
                           const T *col, bool pairs, T *o)                                        \
  {                                                                                               \
    const int64_t kx = k % c->kernel[2], ky = k / c->kernel[2] % c->kernel[1];                    \
    const int64_t kz = k / c->kernel[2] / c->kernel[1];                                           \
    const int64_t shift = kx * c->dilation[2] - c->pad[2], n_tap = (end - begin) * c->in[2];      \
    int64_t x0, x1;                                                                               \
    columns_inside(c, kx, &x0, &x1);                                                              \
    for (int64_t r = begin; r < end && x0 < x1; r++, col += c->in[2]) {                           \
      const int64_t oz = r / c->in[1] * c->stride[0] - c->pad[0] + kz * c->dilation[0];           \
      const int64_t oy = r % c->in[1] * c->stride[1] - c->pad[1] + ky * c->dilation[1];           \
      if (oz < 0 || oz >= c->out[0] || oy < 0 || oy >= c->out[1])                                 \
        continue;                                                                                 \
      T *to = o + (oz * c->out[1] + oy) * c->out[2];                                              \
      if (pairs)                                                                                  \
        name##_pair(c->in[2], col, col + n_tap, to);                                              \
      else                                                                                        \
        name##_row(x1 - x0, c->stride[2], col + x0, to + x0 * c->stride[2] + shift);              \
    }                                                                                             \
  }                                                                                               \
  static void name(const conv_args *c, int64_t n_taps, int64_t begin, int64_t end,                \
                   const void *col, void *out)                                                    \
  {                                                                                               \
    const int64_t n_tap = (end - begin) * c->in[2];                                               \
    const bool pairs = c->kernel[2] == 2 && c->stride[2] == 2 && c->dilation[2] == 1 &&           \
                       c->pad[2] == 0 && c->out[2] >= 2 * c->in[2];                               \
    for (int64_t k = 0; k < n_taps; k += pairs ? 2 : 1)                                           \
      name##_plane(c, k, begin, end, (const T *)col + k * n_tap, pairs, out);                     \
  }                                                                                               \
  static void name##_bias(int64_t n, const void *bias, void *out)                                 \
  {                                                                                               \
    T *o = out;                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                               \
      o[i] = (T)(o[i] + *(const T *)bias);                                                        \
  }
ADD_COLUMNS(add_f32, float)
ADD_COLUMNS(add_f64, double)
ADD_COLUMNS(add_u8, uint8_t)
ADD_COLUMNS(add_u16, uint16_t)
ADD_COLUMNS(add_u32, uint32_t)
ADD_COLUMNS(add_u64, uint64_t)
ADD_COLUMNS(add_c64, float _Complex)
ADD_COLUMNS(add_c128, double _Complex)

typedef struct geometry { /* of one group */
  int64_t in_ch, out_ch, n_taps;
  int64_t n_in, n_out; /* pixels */
  size_t item;
} geometry;

typedef struct adder {
  void (*add)(const conv_args *, int64_t, int64_t, int64_t, const void *, void *);
  void (*add_bias)(int64_t, const void *, void *);
} adder;

typedef struct scatter {
  const conv_args *c;
  int64_t n_taps, n_out;
  int64_t begin, end; /* rows of the input, over planes */
  bool is_first, is_last;
  size_t item;
  const char *col, *bias;
  char *out;
  adder how;
} scatter;

/* Add into output channels [begin, end) of one image and group. */
static void add_channels(void *arg, int64_t begin, int64_t end)
{
  const scatter *s = arg;
  const int64_t n_cols = (s->end - s->begin) * s->c->in[2];

  for (int64_t ch = begin; ch < end; ch++) {
    char *out = s->out + (size_t)(ch * s->n_out) * s->item;
    if (s->is_first)
      memset(out, 0, (size_t)s->n_out * s->item);
    s->how.add(s->c, s->n_taps, s->begin, s->end,
               s->col + (size_t)(ch * s->n_taps * n_cols) * s->item, out);
    if (s->is_last && s->bias)
      s->how.add_bias(s->n_out, s->bias + (size_t)ch * s->item, out);
  }
}

static geometry sizes_of(const conv_args *c)
{
  return (geometry){.in_ch = c->in_ch / c->groups,
                    .out_ch = c->out_ch / c->groups,
                    .n_taps = c->kernel[0] * c->kernel[1] * c->kernel[2],
                    .n_in = c->in[0] * c->in[1] * c->in[2],
                    .n_out = c->out[0] * c->out[1] * c->out[2],
                    .item = dtype_bytes(c->dtype)};
}

#define ADDER(name) ((adder){name, name##_bias})
static adder adder_of(int dtype)
{
  switch (dtype) {
  case RUSH_FLOAT32: return ADDER(add_f32);
  case RUSH_FLOAT64: return ADDER(add_f64);
  case RUSH_COMPLEX64: return ADDER(add_c64);
  case RUSH_COMPLEX128: return ADDER(add_c128);
  }
  switch (dtype_bytes(dtype)) {
  case 1: return ADDER(add_u8);
  case 2: return ADDER(add_u16);
  case 4: return ADDER(add_u32);
  }
  return ADDER(add_u64);
}

/* Return how many rows of the input are multiplied at once.  Where results get more than one term,
 * strips would change the order in which the terms are added. */
static int64_t strip_rows(const conv_args *c, const geometry *g, int64_t n_rows)
{
  const size_t row_bytes = (size_t)(g->out_ch * g->n_taps * c->in[2]) * g->item;
  bool overlaps = false;

  for (int d = 0; d < 3; d++)
    overlaps |= (c->kernel[d] - 1) * c->dilation[d] >= c->stride[d] && c->kernel[d] > 1;
  return overlaps || row_bytes == 0 ? n_rows
                                    : i64_max(1, i64_min(n_rows, COLUMN_BYTES / row_bytes));
}

/* Compute image and group i, strip by strip, with the room of `col`. */
static rush_status transpose_one(call_ctx *cx, const conv_args *c, const geometry *g, int64_t i,
                                 int64_t strip, char *col)
{
  const int64_t group = i % c->groups, rows = g->out_ch * g->n_taps, n_rows = c->in[0] * c->in[1];
  const char *input = (const char *)c->input + (size_t)(i * g->in_ch * g->n_in) * g->item;
  gemm_args m = {.dtype = c->dtype, .m = rows, .k = g->in_ch, .alpha = 1.0, .c = col, .c_cs = 1,
                 .a = {(const char *)c->weight + (size_t)(group * g->in_ch * rows) * g->item, 1,
                       rows}};
  scatter s = {.c = c, .n_taps = g->n_taps, .n_out = g->n_out, .item = g->item, .col = col,
               .bias = c->bias ? (const char *)c->bias + (size_t)(group * g->out_ch) * g->item
                               : NULL,
               .out = (char *)c->output + (size_t)(i * g->out_ch * g->n_out) * g->item,
               .how = adder_of(c->dtype)};

  for (int64_t begin = 0, end = 0; begin == 0 || begin < n_rows; begin = i64_max(1, end)) {
    end = i64_min(n_rows, begin + strip);
    const int64_t n = (end - begin) * c->in[2];
    m.n = m.c_rs = n;
    m.b = (gemm_matrix){input + (size_t)(begin * c->in[2]) * g->item, g->n_in, 1};
    TRY(gemm(cx, &m));
    s.begin = begin;
    s.end = end;
    s.is_first = begin == 0;
    s.is_last = end == n_rows;
    TRY(parallel_for(cx, g->out_ch, i64_max(1, 32768 / i64_max(1, g->n_taps * n)), add_channels,
                     &s));
  }
  return RUSH_OK;
}

rush_status conv_transpose(call_ctx *cx, const conv_args *c)
{
  ASSERT(c->dtype != RUSH_FLOAT16 && c->dtype != RUSH_BFLOAT16,
         "16-bit floats are widened by the caller");
  const geometry g = sizes_of(c);
  const int64_t rows = g.out_ch * g.n_taps;
  size_t n_bytes;
  if (c->batch == 0 || c->out_ch == 0 || g.n_out == 0)
    return RUSH_OK;
  if (!size_mul((size_t)rows * g.item, (size_t)g.n_in, &n_bytes))
    return call_nomem(cx);
  const int64_t strip = strip_rows(c, &g, c->in[0] * c->in[1]);
  n_bytes = (size_t)(rows * strip * c->in[2]) * g.item;
  char *col = mem_alloc_data(cx->ctx, n_bytes);
  rush_status st = RUSH_OK;
  if (!col)
    return call_nomem(cx);
  for (int64_t i = 0; i < c->batch * c->groups && st == RUSH_OK; i++)
    st = transpose_one(cx, c, &g, i, strip, col);
  mem_free_data(cx->ctx, col, n_bytes);
  return st;
}
