#include "support/test.h"

#include <math.h>

#include "base/cpu.h"
#include "ops/math/gemm.h"
#include "ops/math/gemm_chain.h"
#include "ops/point/halves.h"
#include "tensor/dtype.h"

static uint64_t seed = 88172645463325252u;
static double number(void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (double)(int64_t)(seed >> 11) * 0x1p-52 - 1.0;
}

static void put(int dtype, void *p, int64_t i, double v)
{
  switch (dtype) {
  case RUSH_FLOAT32: ((float *)p)[i] = (float)v; break;
  case RUSH_FLOAT64: ((double *)p)[i] = v; break;
  case RUSH_BFLOAT16: ((uint16_t *)p)[i] = bf16_of_f32((float)v); break;
  case RUSH_FLOAT16: ((uint16_t *)p)[i] = f16_of_f32((float)v); break;
  case RUSH_INT8: ((int8_t *)p)[i] = (int8_t)(v * 100); break;
  case RUSH_INT64: ((int64_t *)p)[i] = (int64_t)(v * 1000); break;
  }
}
static double get(int dtype, const void *p, int64_t i)
{
  switch (dtype) {
  case RUSH_FLOAT32: return (double)((const float *)p)[i];
  case RUSH_FLOAT64: return ((const double *)p)[i];
  case RUSH_BFLOAT16: return (double)f32_of_bf16(((const uint16_t *)p)[i]);
  case RUSH_FLOAT16: return (double)f32_of_f16(((const uint16_t *)p)[i]);
  case RUSH_INT8: return ((const int8_t *)p)[i];
  default: return (double)((const int64_t *)p)[i];
  }
}

enum { ROOM = 1 << 20 };
static char A[ROOM * 8], B[ROOM * 8], C[ROOM * 8], D[ROOM * 8], first[ROOM * 8];

static double tolerance(int dtype, int64_t k)
{
  switch (dtype) {
  case RUSH_FLOAT32: return 1e-6 * (double)(k + 1);
  case RUSH_FLOAT64: return 1e-14 * (double)(k + 1);
  case RUSH_BFLOAT16: return 0.02 + 0.004 * (double)k;
  case RUSH_FLOAT16: return 0.002 + 0.0005 * (double)k;
  default: return 0.0;
  }
}

/* Compare the product with three plain loops, then with the bits of the first level. */
static void check(context *c, int level, gemm_args *g)
{
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  memset(C, 0x55, sizeof C);
  assert_int_equal(gemm(&cx, g), RUSH_OK);
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double sum = 0.0;
      for (int64_t k = 0; k < g->k; k++)
        sum +=
          get(g->dtype, A, i * g->a.rs + k * g->a.cs) * get(g->dtype, B, k * g->b.rs + j * g->b.cs);
      sum *= g->alpha;
      if (g->d.data)
        sum += g->beta * get(g->dtype, D, i * g->d.rs + j * g->d.cs);
      if (g->dtype == RUSH_INT8)
        sum = (int8_t)(int64_t)sum;
      double got = get(g->dtype, C, i * g->c_rs + j * g->c_cs);
      if (!(got - sum <= tolerance(g->dtype, g->k) && sum - got <= tolerance(g->dtype, g->k)))
        fail_msg("dtype %d %dx%dx%d level %d: [%d,%d] is %g, not %g", g->dtype, (int)g->m,
                 (int)g->n, (int)g->k, level, (int)i, (int)j, got, sum);
    }
  if (level == CPU_PORTABLE)
    memcpy(first, C, sizeof C);
  else
    assert_memory_equal(first, C, sizeof C);
}

static void products_agree_on_every_instruction_set(void **state)
{
  (void)state;
  static const int dtypes[] = {RUSH_FLOAT32, RUSH_FLOAT64, RUSH_BFLOAT16,
                               RUSH_FLOAT16, RUSH_INT8,    RUSH_INT64};
  static const int64_t shapes[][3] = {{1, 1, 1},     {1, 37, 9},    {1, 100, 800}, {37, 1, 40},
                                      {3, 5, 0},     {14, 32, 8},   {17, 16, 33},  {15, 65, 400},
                                      {33, 17, 65},  {200, 70, 20}, {6, 300, 5},   {29, 13, 64},
                                      {190, 40, 390}};
  context *ctx[4] = {0};
  for (int level = CPU_PORTABLE; level <= CPU_AVX512; level++)
    ctx[level] = test_context(&(context_options){.cpu = (uint32_t)level, .n_threads = level});
  for (size_t d = 0; d < COUNT_OF(dtypes); d++)
    for (size_t s = 0; s < COUNT_OF(shapes); s++)
      for (int variant = 0; variant < 8; variant++) {
        const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        gemm_args g = {
          .dtype = dtypes[d], .m = m, .n = n, .k = k, .c = C, .alpha = 1.0, .c_rs = n, .c_cs = 1};
        for (int64_t i = 0; i < 80000; i++) {
          put(g.dtype, A, i, number());
          put(g.dtype, B, i, number());
          put(g.dtype, D, i, number());
        }
        g.a = variant & 1 ? (gemm_matrix){A, 1, m} : (gemm_matrix){A, k, 1};
        g.b = variant & 2 ? (gemm_matrix){B, 1, k} : (gemm_matrix){B, n, 1};
        if (variant & 4) {
          g.alpha = 2.0;
          g.beta = 3.0;
          g.d = variant & 1   ? (gemm_matrix){D, 0, 1}
                : variant & 2 ? (gemm_matrix){D, 1, 0}
                              : (gemm_matrix){D, n, 1};
        }
        if (variant == 6) {
          g.c_rs = 1;
          g.c_cs = m;
        }
        for (int level = CPU_PORTABLE; level <= CPU_AVX512; level++)
          check(ctx[level], level, &g);
      }
  for (int level = CPU_PORTABLE; level <= CPU_AVX512; level++)
    test_context_done(ctx[level]);
}

static void packing_ahead_changes_no_bit(void **state)
{
  (void)state;
  context *c = test_context(&(context_options){.n_threads = 2});
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  static const int64_t shapes[][3] = {{1, 100, 500}, {20, 48, 770}, {300, 200, 450}};
  for (size_t s = 0; s < COUNT_OF(shapes); s++) {
    const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
    gemm_args g = {.dtype = RUSH_FLOAT32,
                   .m = m,
                   .n = n,
                   .k = k,
                   .c = C,
                   .alpha = 1.0,
                   .c_rs = n,
                   .c_cs = 1,
                   .a = {A, k, 1},
                   .b = {B, 1, k}};
    for (int64_t i = 0; i < ROOM; i++) {
      put(RUSH_FLOAT32, A, i, number());
      put(RUSH_FLOAT32, B, i, number());
    }
    assert_int_equal(gemm(&cx, &g), RUSH_OK);
    memcpy(first, C, (size_t)(m * n) * 4);
    gemm_packed *p = NULL;
    assert_int_equal(
      gemm_pack(
        &cx, &(gemm_packing){.dtype = RUSH_FLOAT32, .count = 1, .k = k, .n = n, .from = g.b}, &p),
      RUSH_OK);
    memset(C, 0, sizeof C);
    g.packed = p;
    assert_int_equal(gemm(&cx, &g), RUSH_OK);
    assert_memory_equal(first, C, (size_t)(m * n) * 4);
    gemm_packed *pa = NULL;
    const gemm_packing of_a = {
      .dtype = RUSH_FLOAT32, .is_a = true, .count = 1, .k = k, .n = m, .from = g.a};
    assert_int_equal(gemm_pack(&cx, &of_a, &pa), RUSH_OK);
    memset(C, 0, sizeof C);
    g.packed_a = pa;
    assert_int_equal(gemm(&cx, &g), RUSH_OK);
    assert_memory_equal(first, C, (size_t)(m * n) * 4);
    g.c_rs = 1; /* C by columns */
    g.c_cs = m;
    assert_int_equal(gemm(&cx, &g), RUSH_OK);
    for (int64_t i = 0; i < m * n; i++)
      assert_true(((float *)C)[i % n * m + i / n] == ((float *)first)[i]);
    gemm_packed_free(c, pa);
    gemm_packed_free(c, p);
  }
  test_context_done(c);
}

static void packed_halves_change_no_bit(void **state)
{
  (void)state;
  static const int dtypes[] = {RUSH_BFLOAT16, RUSH_FLOAT16};
  const int64_t m = 20, n = 75, k = 770;
  for (int i = 0; i < 2 * CPU_AVX512 + 2; i++) { /* CPU_NATIVE too: it may have tiles */
    const int level = i / 2, dtype = dtypes[i % 2];
    context *c = test_context(&(context_options){.cpu = (uint32_t)level, .n_threads = 2});
    call_ctx cx;
    call_ctx_init(&cx, c, NULL);
    gemm_args g = {.dtype = dtype,
                   .m = m,
                   .n = n,
                   .k = k,
                   .c = C,
                   .alpha = 1.0,
                   .beta = 1.0,
                   .c_rs = n,
                   .c_cs = 1,
                   .a = {A, k, 1},
                   .b = {B, 1, k},
                   .d = {D, 0, 1}};
    for (int64_t e = 0; e < n * k; e++) {
      put(dtype, A, e, number());
      put(dtype, B, e, number());
      put(dtype, D, e, number());
    }
    assert_int_equal(gemm(&cx, &g), RUSH_OK);
    memcpy(first, C, (size_t)(m * n) * 2);
    gemm_packed *p = NULL;
    assert_int_equal(
      gemm_pack(&cx, &(gemm_packing){.dtype = dtype, .count = 1, .k = k, .n = n, .from = g.b}, &p),
      RUSH_OK);
    g.packed = p;
    memset(C, 0, sizeof C);
    assert_int_equal(gemm(&cx, &g), RUSH_OK);
    assert_memory_equal(first, C, (size_t)(m * n) * 2);
    gemm_packed_free(c, p);
    test_context_done(c);
  }
}

/* Compute one sum in the order of AMX tiles (ops/math/gemm_chain.h). */
static float sum_of_tiles(const uint32_t *a, int64_t a_ks, const uint32_t *b, int64_t b_ks,
                          int64_t k)
{
  float sum = 0.0f;
  for (int64_t k0 = 0; k0 < k; k0 += 16) {
    float even = 0.0f, odd = 0.0f;
    for (int64_t i = k0; i < k && i < k0 + 16; i++) {
      const uint32_t x = a[i * a_ks], y = b[i * b_ks];
      even = fmaf(f32_of_bf16((uint16_t)x), f32_of_bf16((uint16_t)y), even);
      odd = fmaf(f32_of_bf16((uint16_t)(x >> 16)), f32_of_bf16((uint16_t)(y >> 16)), odd);
    }
    sum += even + odd;
  }
  return sum;
}

static void put_words(void *p, int64_t n)
{
  for (int64_t i = 0; i < 2 * n; i++)
    put(RUSH_BFLOAT16, p, i, number());
}

static void tiles_keep_one_order(void **state)
{
  (void)state;
  static const int64_t shapes[][3] = {{1, 1, 1},    {1, 37, 9},   {40, 1, 300}, {3, 40, 16},
                                      {16, 16, 33}, {33, 65, 48}, {47, 31, 600}, {350, 70, 270}};
  context *c = test_context(&(context_options){.n_threads = 2});
  call_ctx cx;
  if (chain_kind_of(c) != CHAIN_TILES) { /* the processor has none, or the compiler knows none */
    test_context_done(c);
    skip();
  }
  call_ctx_init(&cx, c, NULL);
  for (size_t s = 0; s < COUNT_OF(shapes); s++)
    for (int variant = 0; variant < 8; variant++) {
      const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
      gemm_args g = {.dtype = RUSH_FLOAT32, .chain = CHAIN_TILES, .m = m, .n = n, .k = k, .c = C,
                     .alpha = 1.0, .c_rs = n, .c_cs = 1};
      put_words(A, m * k);
      put_words(B, n * k);
      g.a = variant & 1 ? (gemm_matrix){A, 1, m} : (gemm_matrix){A, k, 1};
      g.b = variant & 2 ? (gemm_matrix){B, 1, k} : (gemm_matrix){B, n, 1};
      gemm_packed *p = NULL;
      gemm_packing from = {.dtype = RUSH_FLOAT32, .chain = CHAIN_TILES, .count = 1, .k = k};
      from.is_a = variant & 1;
      from.n = from.is_a ? m : n;
      from.from = from.is_a ? g.a : g.b;
      if (variant & 4) {
        assert_int_equal(gemm_pack(&cx, &from, &p), RUSH_OK);
        *(from.is_a ? &g.packed_a : &g.packed) = p;
      }
      memset(C, 0x55, sizeof C);
      assert_int_equal(gemm(&cx, &g), RUSH_OK);
      gemm_packed_free(c, p);
      for (int64_t i = 0; i < m * n; i++) {
        const float want =
          sum_of_tiles((const uint32_t *)(void *)A + i / n * g.a.rs, g.a.cs,
                       (const uint32_t *)(void *)B + i % n * g.b.cs, g.b.rs, k);
        if (((float *)(void *)C)[i] != want)
          fail_msg("%dx%dx%d variant %d: [%d] is %a, not %a", (int)m, (int)n, (int)k, variant,
                   (int)i, (double)((float *)(void *)C)[i], (double)want);
      }
    }
  test_context_done(c);
}

static void a_batch_is_its_products(void **state)
{
  (void)state;
  context *c = test_context(&(context_options){.n_threads = 2});
  call_ctx cx;
  call_ctx_init(&cx, c, NULL);
  enum { N_BATCH = 7, M = 9, N = 40, K = 50 };
  for (int64_t i = 0; i < 100000; i++) {
    put(RUSH_FLOAT32, A, i, number());
    put(RUSH_FLOAT32, B, i, number());
  }
  gemm_args g = {.dtype = RUSH_FLOAT32,
                 .m = M,
                 .n = N,
                 .k = K,
                 .c = C,
                 .alpha = 1.0,
                 .c_rs = N,
                 .c_cs = 1,
                 .a = {A, K, 1},
                 .b = {B, N, 1}};
  assert_int_equal(gemm_batch(&cx, &g, N_BATCH, M * K, 0, 0, M * N), RUSH_OK);
  for (int i = 0; i < N_BATCH; i++) {
    gemm_args one = g;
    one.a.data = A + i * M * K * 4;
    one.c = first;
    assert_int_equal(gemm(&cx, &one), RUSH_OK);
    assert_memory_equal(first, C + i * M * N * 4, M * N * 4);
  }
  test_context_done(c);
}

static void halves_round_as_they_should(void **state)
{
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    float f = f32_of_f16((uint16_t)h), b = f32_of_bf16((uint16_t)h);
    if (f == f)
      assert_int_equal(f16_of_f32(f), h);
    if (b == b)
      assert_int_equal(bf16_of_f32(b), h);
  }
  assert_int_equal(f16_of_f32(65519.0f), 0x7bff);
  assert_int_equal(f16_of_f32(65520.0f), 0x7c00);
  assert_int_equal(f16_of_f32(0x1p-25f), 0);
  assert_int_equal(f16_of_f32(0x1.8p-25f), 1);
  assert_int_equal(f16_of_f32(2049.0f), f16_of_f32(2048.0f));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(products_agree_on_every_instruction_set),
    cmocka_unit_test(packing_ahead_changes_no_bit),
    cmocka_unit_test(packed_halves_change_no_bit),
    cmocka_unit_test(tiles_keep_one_order),
    cmocka_unit_test(a_batch_is_its_products),
    cmocka_unit_test(halves_round_as_they_should),
  };
  return RUN_TESTS(tests);
}
