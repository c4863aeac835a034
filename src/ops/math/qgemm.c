/* ops/math/qgemm.c -- products of bytes (qgemm.h): packing of B into panels of words, packing of
 * A's rows into words, 32 at a time, and the tasks that call the kernels. The number of values in a
 * word depends on the instruction set; integer sums are exact, so the result does not. Column sums
 * are stored with the packed matrix because zero points are subtracted from the sums afterwards.
 * Memory: 32 rows of A per task. */
#include "ops/math/qgemm.h"

#include <string.h>

#include "base/threads.h"

struct qgemm_packed {
  const qgemm_kernels *kernels;
  int64_t k, n, n_words, n_panels;
  int32_t *words;       /* n_panels panels of n_words rows of nr words */
  int32_t *column_sums; /* n */
};

enum { ROWS = 32 }; /* of A that a task turns into words at a time */

static const qgemm_kernels *kernels_of(context *c)
{
#ifdef RUSH_ISA_X86
  const cpu_level level = cpu_choose(context_get_options(c)->cpu);
  if (level >= CPU_AVX512)
    return cpu_has_bf16() ? &qgemm_kernels_avx512bf16 : &qgemm_kernels_avx512;
  if (level == CPU_AVX2)
    return &qgemm_kernels_avx2;
#endif
  (void)c;
  return &qgemm_kernels_portable;
}

static size_t words_bytes(const qgemm_packed *p)
{
  return (size_t)(p->n_panels * p->n_words * p->kernels->nr) * sizeof *p->words;
}

void qgemm_packed_free(context *c, qgemm_packed *p)
{
  if (!p)
    return;
  if (p->words)
    mem_free_data(c, p->words, words_bytes(p));
  if (p->column_sums)
    mem_free(c, p->column_sums, (size_t)p->n * sizeof *p->column_sums);
  mem_free(c, p, sizeof *p);
}

const int32_t *qgemm_column_sums(const qgemm_packed *p) { return p->column_sums; }

/* Pack `count` values, as 16-bit or as bytes, into one word. */
static int32_t word_of(int per_word, const int32_t *values)
{
  int32_t word;
  int16_t half[2] = {(int16_t)values[0], (int16_t)values[1]};
  int8_t byte[4] = {(int8_t)values[0], (int8_t)values[1], (int8_t)values[2], (int8_t)values[3]};
  memcpy(&word, per_word == 2 ? (const void *)half : (const void *)byte, sizeof word);
  return word;
}

static void pack(qgemm_packed *p, const int8_t *b, int64_t rs, int64_t cs)
{
  const int per = p->kernels->per_word, nr = p->kernels->nr;
  for (int64_t col = 0; col < p->n_panels * nr; col++) {
    int32_t *to = p->words + col / nr * p->n_words * nr + col % nr, sum = 0;
    for (int64_t w = 0; w < p->n_words; w++) {
      int32_t v[4] = {0};
      for (int i = 0; i < per && col < p->n && w * per + i < p->k; i++) {
        v[i] = b[(w * per + i) * rs + col * cs];
        sum += v[i];
      }
      to[w * nr] = word_of(per, v);
    }
    if (col < p->n)
      p->column_sums[col] = sum;
  }
}

rush_status qgemm_pack(call_ctx *cx, int64_t k, int64_t n, const int8_t *b, int64_t rs, int64_t cs,
                       qgemm_packed **out)
{
  qgemm_packed *p = mem_alloc_zero(cx->ctx, sizeof *p);
  if (!p)
    return call_nomem(cx);
  p->kernels = kernels_of(cx->ctx);
  p->k = k;
  p->n = n;
  p->n_words = (k + p->kernels->per_word - 1) / p->kernels->per_word;
  p->n_panels = (n + p->kernels->nr - 1) / p->kernels->nr;
  p->words = mem_alloc_data(cx->ctx, words_bytes(p));
  p->column_sums = mem_alloc(cx->ctx, (size_t)n * sizeof *p->column_sums);
  if (!p->words || !p->column_sums) {
    qgemm_packed_free(cx->ctx, p);
    return call_nomem(cx);
  }
  pack(p, b, rs, cs);
  *out = p;
  return RUSH_OK;
}

typedef struct job {
  call_ctx *cx;
  const qgemm_packed *b;
  const uint8_t *a;
  int64_t m, a_rs, c_rs;
  int32_t *c;
  int64_t n_row_blocks; /* tasks are (block of panels, block of rows) */
  int64_t panels_per_task;
  _Atomic int failed;
} job;

static void fill_words(const job *j, int64_t row, int64_t n_rows, int32_t *words)
{
  const int64_t k = j->b->k, n_words = j->b->n_words;
  const int per = j->b->kernels->per_word;
  for (int64_t r = 0; r < n_rows; r++) {
    const uint8_t *a = j->a + (row + r) * j->a_rs;
    int32_t *w = words + r * n_words;
    if (n_words)
      w[n_words - 1] = 0;
    if (per == 4) {
      memcpy(w, a, (size_t)k);
      continue;
    }
    int16_t *h = (int16_t *)(void *)w;
    for (int64_t i = 0; i < k; i++)
      h[i] = a[i];
  }
}

/* True if A's rows are words already, as the kernels read them. */
static bool is_words(const job *j)
{
  return j->b->kernels->per_word == 4 && j->b->k % 4 == 0 && j->a_rs % 4 == 0 &&
         (uintptr_t)j->a % 4 == 0;
}

/* Multiply rows of A by panels [first, end) of B. */
static void run_panels(int64_t m, const qgemm_rows *a, const qgemm_packed *b, int64_t first,
                       int64_t end, int32_t *c, int64_t c_rs)
{
  const qgemm_kernels *kern = b->kernels;
  for (int64_t p = first; p < end; p++)
    for (int64_t r = 0; r < m; r += kern->mr) {
      const qgemm_tile t = {.a = a,
                            .rows_at = a->rows + r,
                            .b = b->words + p * b->n_words * kern->nr,
                            .c = c + r * c_rs + p * kern->nr,
                            .c_rs = c_rs,
                            .rows = (int)i64_min(kern->mr, m - r),
                            .cols = (int)i64_min(kern->nr, b->n - p * kern->nr)};
      kern->tile(&t);
    }
}

void qgemm_segments(int64_t m, const qgemm_rows *a, const qgemm_packed *b, int32_t *c, int64_t c_rs)
{
  run_panels(m, a, b, 0, b->n_panels, c, c_rs);
}

int qgemm_per_word(context *c) { return kernels_of(c)->per_word; }
int qgemm_packed_per_word(const qgemm_packed *p) { return p->kernels->per_word; }

static void run_task(const job *j, int64_t task, int32_t *words)
{
  const int64_t row = task % j->n_row_blocks * ROWS,
                first = task / j->n_row_blocks * j->panels_per_task;
  const int64_t n_rows = i64_min(ROWS, j->m - row), start = 0;
  const int32_t *rows[ROWS], *a = words;
  int64_t a_rs = j->b->n_words;
  if (is_words(j)) {
    a_rs = j->a_rs / 4;
    a = (const int32_t *)(const void *)j->a + row * a_rs;
  } else {
    fill_words(j, row, n_rows, words);
  }
  for (int64_t r = 0; r < n_rows; r++)
    rows[r] = a + r * a_rs;
  const qgemm_rows lines = {rows, &start, 1, j->b->n_words};
  run_panels(n_rows, &lines, j->b, first, i64_min(first + j->panels_per_task, j->b->n_panels),
             j->c + row * j->c_rs, j->c_rs);
}

size_t qgemm_scratch_bytes(const qgemm_packed *b)
{
  return (size_t)(ROWS * i64_max(1, b->n_words)) * sizeof(int32_t);
}

void qgemm_serial(int64_t m, const uint8_t *a, int64_t a_rs, const qgemm_packed *b, int32_t *c,
                  int64_t c_rs, void *scratch)
{
  const job j = {.b = b,
                 .a = a,
                 .m = m,
                 .a_rs = a_rs,
                 .c = c,
                 .c_rs = c_rs,
                 .n_row_blocks = (m + ROWS - 1) / ROWS,
                 .panels_per_task = b->n_panels};
  for (int64_t i = 0; i < j.n_row_blocks; i++)
    run_task(&j, i, scratch);
}

static void run_tasks(void *arg, int64_t begin, int64_t end)
{
  job *j = arg;
  const size_t n_bytes = qgemm_scratch_bytes(j->b);
  int32_t *words = mem_alloc_data(j->cx->ctx, n_bytes);
  if (!words) {
    atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
    return;
  }
  for (int64_t i = begin; i < end; i++)
    run_task(j, i, words);
  mem_free_data(j->cx->ctx, words, n_bytes);
}

rush_status qgemm(call_ctx *cx, int64_t m, const uint8_t *a, int64_t a_rs, const qgemm_packed *b,
                  int32_t *c, int64_t c_rs)
{
  job j = {.cx = cx, .b = b, .a = a, .m = m, .a_rs = a_rs, .c = c, .c_rs = c_rs};
  j.n_row_blocks = (m + ROWS - 1) / ROWS;
  j.panels_per_task = j.n_row_blocks >= 4 ? b->n_panels : i64_max(1, (b->n_panels + 3) / 4);
  if (m == 0 || b->n == 0)
    return RUSH_OK;
  const int64_t n_tasks =
    j.n_row_blocks * ((b->n_panels + j.panels_per_task - 1) / j.panels_per_task);
  const int64_t macs = i64_min(m, ROWS) * b->k * j.panels_per_task * b->kernels->nr;
  TRY(parallel_for(cx, n_tasks, i64_max(1, 1000000 / i64_max(1, macs)), run_tasks, &j));
  return j.failed ? call_nomem(cx) : RUSH_OK;
}
