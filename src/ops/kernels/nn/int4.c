/* ops/kernels/nn/int4.c -- weights of 4 bits, two in a byte: packing, and the product with them.
 *
 * A weight [N, K] of numbers in [0, 16) is packed in blocks of rows, 64 on a CPU with AVX-512 and
 * 32 on others, as PyTorch packs it on the same CPU.  Within a block the bytes go along K: each has
 * rows i and i + half a block, the former in its low bits; a last block with fewer rows has rows 2
 * i and 2 i + 1.  The bytes do not show which form they have: a weight that was packed on one kind
 * of CPU only works on that kind, in PyTorch as here.
 *
 * The product unpacks a block for COLUMNS columns at a time into float32 and adds over K in order,
 * a vector of rows at once: (w - 8) * scale + zero, with scales and zeros per group of columns and
 * row. */
#include <string.h>

#include "base/cpu.h"
#include "ops/kernels/nn.h"
#include "ops/kernels/work.h"

enum { MOST_ROWS = 64, COLUMNS = 16, MIDDLE = 8 }; /* COLUMNS divides every size of a group */

static int64_t block_rows(void) { return cpu_machine() >= CPU_AVX512 ? 64 : 32; }

/* -- Packing ----------------------------------------------------------------------------------- */

/* Return the byte of row i in a column of a block of `rows`, and the shift. */
static int64_t byte_of(int64_t i, int64_t rows, bool is_whole, int *shift)
{
  if (is_whole) {
    *shift = i < rows / 2 ? 0 : 4;
    return i % (rows / 2);
  }
  *shift = i % 2 ? 4 : 0;
  return i / 2;
}

static void pack_block(const int32_t *w, int64_t rows, int64_t k, bool is_whole, uint8_t *out)
{
  for (int64_t i = 0; i < rows; i++) {
    int shift;
    const int64_t at = byte_of(i, rows, is_whole, &shift);
    for (int64_t col = 0; col < k; col++)
      out[col * (rows / 2) + at] |= (uint8_t)((w[i * k + col] & 15) << shift);
  }
}

/* self, innerKTiles (for other devices) */
rush_status kernel_convert_weight_to_int4pack_for_cpu(rush_call *c)
{
  static const char *const name = "_convert_weight_to_int4pack_cpu";
  rush_tensor *w = call_tensor(c, 0);
  if (w->dtype != RUSH_INT32)
    return call_fail(c->cx, "%s : expect weight to be kInt.", name);
  const int64_t n = w->sizes[0], n_cols = w->sizes[1], block = block_rows();
  if (n % 16 != 0)
    return call_fail(c->cx, "%s : expect N to be dividable by 16", name);
  if (n_cols % 2 != 0)
    return call_fail(c->cx, "_convert_weight_to_int4pack: expect K to be dividable by 2");
  work k = work_begin(c);
  const rush_tensor *rows = work_rows(&k, w, RUSH_INT32);
  rush_tensor *out = call_out(c, 0);
  if (out->n_elems)
    memset(out->data, 0, (size_t)out->n_elems);
  for (int64_t i = 0; i < n && k.st == RUSH_OK; i += block) {
    const int64_t here = i64_min(block, n - i);
    const int32_t *from = (const int32_t *)rows->data + i * n_cols;
    pack_block(from, here, n_cols, here == block, (uint8_t *)out->data + i * (n_cols / 2));
    k.st = call_poll(c->cx);
  }
  return work_end(&k);
}

/* -- Product ----------------------------------------------------------------------------------- */

typedef struct int4_job {
  const call_ctx *cx;
  int64_t m, n, k, group, block;
  const float *x;      /* [m, k] */
  const uint8_t *w;    /* packed */
  const float *scales; /* [k / group, n, 2]: scale, zero */
  float *out;          /* [m, n] */
} int4_job;

/* Unpack COLUMNS columns of a block from `col` on, as [COLUMNS, rows]. */
static void unpack_nibbles(const int4_job *j, int64_t first, int64_t rows, int64_t col, float *out)
{
  const uint8_t *bytes = j->w + first * (j->k / 2) + col * (rows / 2);
  const float *scales = j->scales + (col / j->group * j->n + first) * 2;
  for (int64_t i = 0; i < rows; i++) {
    int shift;
    const int64_t at = byte_of(i, rows, rows == j->block, &shift);
    const float scale = scales[2 * i], zero = scales[2 * i + 1];
    for (int64_t p = 0; p < COLUMNS; p++)
      out[p * rows + i] =
        (float)((bytes[p * (rows / 2) + at] >> shift & 15) - MIDDLE) * scale + zero;
  }
}

static void add_columns(const float *x, const float *w, int64_t rows, float *sums)
{
  for (int64_t p = 0; p < COLUMNS; p++)
    for (int64_t i = 0; i < rows; i++)
      sums[i] += x[p] * w[p * rows + i];
}

/* Items: blocks of rows of the weight. */
static void multiply_blocks(void *arg, int64_t begin, int64_t end)
{
  const int4_job *j = arg;
  float w[MOST_ROWS * COLUMNS];
  for (int64_t b = begin; b < end; b++) {
    const int64_t first = b * j->block, rows = i64_min(j->block, j->n - first);
    for (int64_t i = 0; i < j->m; i++)
      memset(j->out + i * j->n + first, 0, (size_t)rows * sizeof(float));
    for (int64_t col = 0; col < j->k && !call_over(j->cx); col += COLUMNS) {
      unpack_nibbles(j, first, rows, col, w);
      for (int64_t i = 0; i < j->m; i++)
        add_columns(j->x + i * j->k + col, w, rows, j->out + i * j->n + first);
    }
  }
}

static rush_status check_product(rush_call *c, const rush_tensor *x, const rush_tensor *w,
                                 int64_t group, const rush_tensor *scales)
{
  static const char *const name = "_weight_int4pack_mm_cpu";
  if (x->n_dims != 2 || w->n_dims != 2)
    return call_fail(c->cx, "%s : expect A and B to be 2D tensors.", name);
  if (x->dtype != RUSH_FLOAT32 && !nn_is_half(x->dtype))
    return call_fail(c->cx, "%s : expect A to be either 32-bit or 16-bit float tensor.", name);
  if (w->dtype != RUSH_UINT8)
    return call_fail(c->cx, "%s : expect B to be uint8 tensor.", name);
  if (x->sizes[1] % 2 != 0 || w->sizes[1] != x->sizes[1] / 2)
    return call_fail(c->cx, "%s : expect B.size(1) to be K / 2, got %lld and K %lld", name,
                     (long long)w->sizes[1], (long long)x->sizes[1]);
  if (group != 32 && group != 64 && group != 128 && group != 256)
    return call_fail(c->cx, "%s: expect qGroupSize to be 32, 64, 128 or 256, got %lld", name,
                     (long long)group);
  if (x->sizes[1] % group != 0)
    return call_fail(c->cx,
                     "%s: expect K to be divisible by qGroupSize, got K:%lld, qGroupSize:%lld",
                     name, (long long)x->sizes[1], (long long)group);
  if (w->sizes[0] % 16 != 0)
    return call_fail(c->cx, "%s : expect N to be dividable by 16", name);
  if (scales->n_dims != 3 || scales->sizes[0] != x->sizes[1] / group ||
      scales->sizes[1] != w->sizes[0] || scales->sizes[2] != 2)
    return call_fail(
      c->cx, "%s: expect qScaleAndZeros to be 3d tensor with sizes [K / qGroupSize, N, 2]", name);
  if (scales->dtype != x->dtype)
    return call_fail(c->cx, "expected scalar type %s but found %s", dtype_aten_name(x->dtype),
                     dtype_aten_name(scales->dtype));
  return RUSH_OK;
}

/* self, mat2, qGroupSize, qScaleAndZeros */
rush_status kernel_weight_int4pack_mm_for_cpu(rush_call *c)
{
  rush_tensor *x = call_tensor(c, 0), *w = call_tensor(c, 1), *scales = call_tensor(c, 3);
  const int64_t block = block_rows();
  TRY(check_product(c, x, w, call_int(c, 2), scales));
  work k = work_begin(c);
  int4_job j = {c->cx,
                x->sizes[0],
                w->sizes[0],
                x->sizes[1],
                call_int(c, 2),
                block,
                work_input(&k, x)->data,
                work_rows(&k, w, RUSH_UINT8)->data,
                work_input(&k, scales)->data,
                work_output(&k, 0, RUSH_FLOAT32)->data};
  work_run(&k, (j.n + block - 1) / block, 1, multiply_blocks, &j);
  return work_end(&k);
}
