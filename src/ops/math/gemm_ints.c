/* ops/math/gemm_ints.c -- products of integer matrices: computed modulo 2^64, then cut to the
 * dtype, which is equal to narrower arithmetic. */
#include "base/threads.h"
#include "ops/math/dot.h"
#include "ops/math/gemm_int.h"
#include "tensor/dtype.h"

enum { MOST_DEPTH = 512, GRAIN_MACS = 65536 }; /* k of a panel that is packed at a time */

enum { BLOCK_ROWS = 64 };

/* Buffers of a task for packing and sums: too large for small stacks. */
typedef struct scratch {
  uint64_t panel[MOST_DEPTH][INT_COLS], rows_of_a[INT_ROWS][MOST_DEPTH],
    sums[BLOCK_ROWS * INT_COLS];
} scratch;

typedef struct job {
  call_ctx *cx;
  const gemm_args *g;
  const dot_loops *loops;
  atomic_bool nomem;
} job;

/* Read n elements `stride` apart as 64-bit integers `step` apart. */
static void read_ints(int dtype, const void *base, int64_t at, int64_t stride, int64_t n,
                      uint64_t *to, int64_t step)
{
#define READ(T)                                                  \
  for (int64_t i = 0; i < n; i++)                                \
    to[i * step] = (uint64_t)((const T *)base)[at + i * stride]; \
  break;
  switch (dtype_bytes(dtype)) {
  case 1: READ(uint8_t)
  case 2: READ(uint16_t)
  case 4: READ(uint32_t)
  case 8: READ(uint64_t)
  }
#undef READ
}

static void write_int(const gemm_args *g, int64_t i, int64_t c, uint64_t v)
{
  const int64_t at = i * g->c_rs + c * g->c_cs;
  uint64_t d = 0;
  if (g->d.data) {
    read_ints(g->dtype, g->d.data, i * g->d.rs + c * g->d.cs, 0, 1, &d, 1);
    d *= (uint64_t)(int64_t)g->beta;
  }
  v = (uint64_t)(int64_t)g->alpha * v + d;
  switch (dtype_bytes(g->dtype)) {
  case 1: ((uint8_t *)g->c)[at] = (uint8_t)v; break;
  case 2: ((uint16_t *)g->c)[at] = (uint16_t)v; break;
  case 4: ((uint32_t *)g->c)[at] = (uint32_t)v; break;
  case 8: ((uint64_t *)g->c)[at] = v; break;
  }
}

/* Multiply with few columns: each element is a sum along a row of A. */
static void run_dots(void *arg, int64_t begin, int64_t end)
{
  const job *j = arg;
  const gemm_args *g = j->g;
  for (int64_t i = begin; i < end; i++)
    for (int64_t c = 0; c < g->n; c++)
      write_int(g, i, c,
                j->loops->i64(g->k, (const uint64_t *)g->a.data + i * g->a.rs,
                              (const uint64_t *)g->b.data + c * g->b.cs));
}

/* Multiply rows [begin, end) by one panel of columns, piece by piece of k. */
static void run_panel(const job *j, int64_t begin, int64_t end, int64_t c0, scratch *x)
{
  const gemm_args *g = j->g;
  const int64_t cols = i64_min(INT_COLS, g->n - c0), item = (int64_t)dtype_bytes(g->dtype);
  uint64_t (*panel)[INT_COLS] = x->panel, (*rows_of_a)[MOST_DEPTH] = x->rows_of_a, *sums = x->sums;
  if (cols < INT_COLS)
    memset(panel, 0, (size_t)i64_min(MOST_DEPTH, g->k) * sizeof *panel);
  for (int64_t k0 = 0; k0 < g->k && !call_over(j->cx); k0 += MOST_DEPTH) {
    const int64_t k = i64_min(MOST_DEPTH, g->k - k0);
    for (int64_t i = 0; i < k && g->b.cs == 1; i++)
      read_ints(g->dtype, g->b.data, (k0 + i) * g->b.rs + c0, 1, cols, panel[i], 1);
    for (int64_t c = 0; c < cols && g->b.cs != 1; c++)
      read_ints(g->dtype, g->b.data, k0 * g->b.rs + (c0 + c) * g->b.cs, g->b.rs, k, panel[0] + c,
                INT_COLS);
    for (int64_t i = begin; i < end; i += INT_ROWS) {
      const int rows = (int)i64_min(INT_ROWS, end - i);
      uint64_t tile[INT_ROWS * INT_COLS], *to = sums + (i - begin) * INT_COLS;
      const uint64_t *a = (const uint64_t *)g->a.data + i * g->a.rs + k0 * g->a.cs;
      int64_t rs = g->a.rs, cs = g->a.cs;
      if (item != 8) {
        for (int r = 0; r < rows; r++)
          read_ints(g->dtype, g->a.data, (i + r) * rs + k0 * cs, cs, k, rows_of_a[r], 1);
        a = rows_of_a[0];
        rs = MOST_DEPTH;
        cs = 1;
      }
      j->loops->tile(k, rows, a, rs, cs, panel[0], tile);
      for (int e = 0; e < rows * INT_COLS; e++)
        to[e] = (k0 ? to[e] : 0) + tile[e];
    }
  }
  const uint64_t alpha = (uint64_t)(int64_t)g->alpha, beta = (uint64_t)(int64_t)g->beta,
                 *d = g->d.data;
  for (int64_t i = begin; i < end; i++)
    for (int64_t c = 0; c < cols; c++) {
      const uint64_t v = sums[(i - begin) * INT_COLS + c];
      if (item == 8)
        ((uint64_t *)g->c)[i * g->c_rs + (c0 + c) * g->c_cs] =
            alpha * v + (d ? beta * d[i * g->d.rs + (c0 + c) * g->d.cs] : 0);
      else
        write_int(g, i, c0 + c, v);
    }
}

/* Tasks: blocks of rows times a panel, blocks fastest. */
static void run_panels(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const int64_t n_blocks = (j->g->m + BLOCK_ROWS - 1) / BLOCK_ROWS;
  scratch *x = mem_alloc_data(j->cx->ctx, sizeof *x);
  if (!x) {
    atomic_store_explicit(&j->nomem, true, memory_order_relaxed);
    return;
  }
  for (int64_t t = begin; t < end; t++) {
    const int64_t row = t % n_blocks * BLOCK_ROWS;
    run_panel(j, row, i64_min(row + BLOCK_ROWS, j->g->m), t / n_blocks * INT_COLS, x);
  }
  mem_free_data(j->cx->ctx, x, sizeof *x);
}

rush_status gemm_ints(call_ctx *cx, const gemm_args *g)
{
  job j = {.cx = cx,
           .g = g,
           .loops = ISA_PICK(dot_loops_of, cpu_choose(context_get_options(cx->ctx)->cpu))()};
  atomic_init(&j.nomem, false);
  if (g->k == 0) {
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t c = 0; c < g->n; c++)
        write_int(g, i, c, 0);
    return RUSH_OK;
  }
  if (g->n <= 2 && g->a.cs == 1 && g->b.rs == 1 && dtype_bytes(g->dtype) == 8)
    return parallel_for(cx, g->m, i64_max(1, GRAIN_MACS / i64_max(1, g->n * g->k)), run_dots, &j);
  const int64_t n_blocks = (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS,
                n_panels = (g->n + INT_COLS - 1) / INT_COLS;
  const int64_t macs = i64_max(1, i64_min(g->m, BLOCK_ROWS) * g->k * INT_COLS);
  TRY(parallel_for(cx, n_blocks * n_panels, i64_max(1, GRAIN_MACS / macs), run_panels, &j));
  return atomic_load_explicit(&j.nomem, memory_order_relaxed) ? call_nomem(cx) : RUSH_OK;
}
