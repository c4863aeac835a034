#include "support/oom.h"

#include "base/clock.h"
#include "tensor/iter.h"

static context *ctx;
static call_ctx cx;
static rush_error err;

static int setup(void **state)
{
  (void)state;
  ctx = test_context(NULL);
  call_ctx_init(&cx, ctx, &err);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  rush_error_clear(&err);
  test_context_done(ctx);
  return 0;
}

static rush_tensor *make(int dtype, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = NULL;
  assert_int_equal(tensor_new(&cx, dtype, n_dims, sizes, &t), RUSH_OK);
  return t;
}

/* Make 0, 1, 2, ... in row-major order. */
static rush_tensor *iota(int dtype, int n_dims, const int64_t *sizes)
{
  rush_tensor *t = make(dtype, n_dims, sizes);
  for (int64_t i = 0; i < t->n_elems; i++)
    tensor_set(t, i, value_int(i));
  return t;
}

static double at(const rush_tensor *t, int64_t i)
{
  rush_value v = value_none();
  assert_int_equal(tensor_get(&cx, t, i, &v), RUSH_OK);
  return v.tag == RUSH_TAG_FLOAT ? v.as.d : (double)v.as.i;
}

static void promotion_is_pytorchs(void **state)
{
  (void)state;
  static const int cases[][3] = {
    {RUSH_UINT8, RUSH_INT8, RUSH_INT16},         {RUSH_FLOAT16, RUSH_BFLOAT16, RUSH_FLOAT32},
    {RUSH_INT64, RUSH_FLOAT16, RUSH_FLOAT16},    {RUSH_COMPLEX32, RUSH_FLOAT64, RUSH_COMPLEX128},
    {RUSH_COMPLEX32, RUSH_BFLOAT16, RUSH_COMPLEX64}, {RUSH_UINT16, RUSH_FLOAT32, RUSH_FLOAT32},
    {RUSH_UINT16, RUSH_UINT32, DTYPE_NONE},      {RUSH_BOOL, RUSH_UINT16, DTYPE_NONE},
    {RUSH_FLOAT8_E5M2, RUSH_FLOAT32, DTYPE_NONE}, {RUSH_BOOL, RUSH_UINT8, RUSH_UINT8},
    {RUSH_INT16, RUSH_INT32, RUSH_INT32},        {RUSH_COMPLEX64, RUSH_INT64, RUSH_COMPLEX64},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    assert_int_equal(dtype_promote(cases[i][0], cases[i][1]), cases[i][2]);
    assert_int_equal(dtype_promote(cases[i][1], cases[i][0]), cases[i][2]);
  }
  promote_state p = PROMOTE_INIT;
  promote_add(&p, RUSH_INT32, 2);
  promote_add(&p, RUSH_FLOAT64, 0);
  assert_int_equal(promote_result(&p), RUSH_FLOAT64);
  promote_state q = PROMOTE_INIT;
  promote_add(&q, RUSH_FLOAT16, 2);
  promote_add(&q, RUSH_FLOAT64, 0);
  promote_add_scalar(&q, DTYPE_COMPLEX);
  assert_int_equal(promote_result(&q), RUSH_COMPLEX32);
}

/* Expected values are PyTorch's conversions of the same floats. */
static void narrow_floats_round_as_pytorch(void **state)
{
  (void)state;
  static const float in[] = {0.1f, 1 / 3.0f, 65504, 65520, 1e-8f, 6e-8f, 3e-5f, -2.5f, 1e6f};
  static const int16_t half[] = {11878, 13653, 31743, 31744, 0, 1, 503, -16128, 31744};
  static const int16_t bf16[] = {15821, 16043, 18304, 18304, 12844, 13185, 14332, -16352, 18804};
  for (size_t i = 0; i < COUNT_OF(in); i++) {
    assert_int_equal((int16_t)half_from_float(in[i]), half[i]);
    assert_int_equal((int16_t)bf16_from_float(in[i]), bf16[i]);
  }
  for (uint32_t h = 0; h < 0x10000; h++)
    if ((h & 0x7fff) <= 0x7c00)
      assert_int_equal(half_from_float(half_to_float((uint16_t)h)), h);
  static const float in8[] = {0.1f,  1 / 3.0f, 448, 463, 464, 1e-3f, 61439, 61440,
                              0.0f / 0.0f, -0.0f, -0.001f, 1e9f, 0.00390625f, 240, 248, 256};
  static const uint8_t e5m2[] = {46,  53,  95,  95,  95, 20,     123, 124,
                                 127, 128, 148, 124, 28, 91 + 1, 92,  92};
  static const uint8_t e4m3[] = {29,  43,  126, 126, 126, 1,   126, 126,
                                 127, 128, 129, 126, 2,   119, 120, 120};
  static const uint8_t e5m2z[] = {50,  57, 99,  99,  99, 24, 127, 128,
                                  128, 0,  152, 128, 32, 96, 96,  96};
  static const uint8_t e4m3z[] = {37,  51, 128, 128, 128, 1,   128, 128,
                                  128, 0,  129, 128, 4,   127, 128, 128};
  for (size_t i = 0; i < COUNT_OF(in8); i++) {
    assert_int_equal(float8_from_float(RUSH_FLOAT8_E5M2, in8[i]) & (i == 8 ? 127 : 255), e5m2[i]);
    assert_int_equal(float8_from_float(RUSH_FLOAT8_E4M3FN, in8[i]) & (i == 8 ? 127 : 255), e4m3[i]);
    assert_int_equal(float8_from_float(RUSH_FLOAT8_E5M2FNUZ, in8[i]), e5m2z[i]);
    assert_int_equal(float8_from_float(RUSH_FLOAT8_E4M3FNUZ, in8[i]), e4m3z[i]);
  }
  for (int v = 0; v < 256; v++) {
    if ((v & 127) != 127)
      assert_int_equal(
        float8_from_float(RUSH_FLOAT8_E4M3FN, float8_to_float(RUSH_FLOAT8_E4M3FN, (uint8_t)v)), v);
    assert_int_equal(
      float8_from_float(RUSH_FLOAT8_E4M3FNUZ, float8_to_float(RUSH_FLOAT8_E4M3FNUZ, (uint8_t)v)),
      v);
  }
}

static void every_dtype_converts_to_every_other(void **state)
{
  (void)state;
  int64_t sizes[] = {3, 2};
  for (int from = 0; from < N_DTYPES; from++) {
    if (!dtype_is_valid(from) || dtype_class_of(from) == DTYPE_QUANT)
      continue;
    rush_tensor *a = iota(from, 2, sizes);
    for (int to = 0; to < N_DTYPES; to++) {
      if (!dtype_is_valid(to) || dtype_class_of(to) == DTYPE_QUANT)
        continue;
      rush_tensor *b = NULL;
      assert_int_equal(tensor_to_dtype(&cx, a, to, &b), RUSH_OK);
      rush_tensor *c = NULL; /* back to float64, whatever the dtype of b */
      assert_int_equal(tensor_to_dtype(&cx, b, RUSH_FLOAT64, &c), RUSH_OK);
      for (int i = 0; i < 6; i++)
        assert_true(at(c, i) == (from == RUSH_BOOL || to == RUSH_BOOL ? i != 0 : i));
      tensor_release(c);
      tensor_release(b);
    }
    tensor_release(a);
  }
}

static void strided_copies_move_every_element(void **state)
{
  (void)state;
  int64_t sizes[] = {3, 37, 53}, turned_sizes[] = {53, 3, 37}, turned_strides[] = {1, 37 * 53, 53};
  static const int dtypes[] = {RUSH_BOOL, RUSH_FLOAT16, RUSH_INT32, RUSH_FLOAT64, RUSH_COMPLEX128};
  for (size_t k = 0; k < COUNT_OF(dtypes); k++) {
    rush_tensor *a = iota(dtypes[k], 3, sizes), *v = NULL, *c = NULL, *d = NULL;
    assert_int_equal(tensor_as_strided(&cx, a, 3, turned_sizes, turned_strides, 0, &v), RUSH_OK);
    assert_int_equal(tensor_contiguous(&cx, v, &c), RUSH_OK);
    size_t item = tensor_item_bytes(a);
    for (int64_t x = 0; x < 53; x++)
      for (int64_t y = 0; y < 3; y++)
        for (int64_t z = 0; z < 37; z++)
          assert_memory_equal((char *)c->data + ((x * 3 + y) * 37 + z) * item,
                              (char *)a->data + ((y * 37 + z) * 53 + x) * item, item);
    assert_int_equal(tensor_clone(&cx, v, &d), RUSH_OK);
    assert_true(tensor_same_geometry(d, v));
    assert_memory_equal(d->data, a->data, a->n_elems * item);
    tensor_release(d);
    tensor_release(c);
    tensor_release(v);
    tensor_release(a);
  }
}

static void overlapping_copies_read_before_they_write(void **state)
{
  (void)state;
  int64_t n = 10, m = 9, one = 1;
  rush_tensor *a = iota(RUSH_INT64, 1, &n), *lo = NULL, *hi = NULL;
  assert_int_equal(tensor_as_strided(&cx, a, 1, &m, &one, 0, &lo), RUSH_OK);
  assert_int_equal(tensor_as_strided(&cx, a, 1, &m, &one, 1, &hi), RUSH_OK);
  assert_int_equal(tensor_copy(&cx, hi, lo), RUSH_OK);
  for (int i = 1; i < 10; i++)
    assert_true(at(a, i) == i - 1);
  assert_true(atomic_load(&a->st->version) > 0);
  tensor_release(hi);
  tensor_release(lo);
  tensor_release(a);
}

static void views_outside_the_storage_are_refused(void **state)
{
  (void)state;
  int64_t sizes[] = {4, 4}, strides[] = {4, 1}, huge[] = {INT64_MAX / 2, 2}, negative[] = {-1, 1};
  rush_tensor *a = make(RUSH_FLOAT32, 2, sizes), *v = NULL;
  assert_int_equal(tensor_as_strided(&cx, a, 2, sizes, strides, 1, &v), RUSH_ERAISED);
  assert_int_equal(tensor_as_strided(&cx, a, 2, sizes, strides, -1, &v), RUSH_ERAISED);
  assert_int_equal(tensor_as_strided(&cx, a, 2, sizes, huge, 0, &v), RUSH_ERAISED);
  assert_int_equal(tensor_as_strided(&cx, a, 2, huge, strides, 0, &v), RUSH_ERAISED);
  assert_int_equal(tensor_as_strided(&cx, a, 2, sizes, negative, 0, &v), RUSH_ERAISED);
  assert_int_equal(tensor_new(&cx, RUSH_FLOAT32, 2, huge, &v), RUSH_ERAISED);
  assert_int_equal(tensor_new(&cx, RUSH_FLOAT32, 2, negative, &v), RUSH_ERAISED);
  tensor_release(a);
}

static void resizing_keeps_the_content(void **state)
{
  (void)state;
  int64_t n = 6, big[] = {2, 3, 1, 2, 1, 1, 4}, small = 2;
  rush_tensor *a = iota(RUSH_FLOAT32, 1, &n), *alias = NULL;
  assert_int_equal(tensor_resize(&cx, a, 7, big), RUSH_OK);
  assert_int_equal(a->n_elems, 48);
  assert_true(tensor_is_contiguous(a));
  for (int i = 0; i < 6; i++)
    assert_true(at(a, i) == i);
  assert_int_equal(tensor_alias(&cx, a, &alias), RUSH_OK);
  assert_int_equal(tensor_resize(&cx, alias, 1, &small), RUSH_OK);
  assert_ptr_equal(alias->data, a->data);
  n = 100;
  assert_int_equal(tensor_resize(&cx, alias, 1, &n), RUSH_OK);
  assert_true(at(a, 5) == 5 && at(alias, 5) == 5);
  tensor_release(alias);
  tensor_release(a);
}

static void layouts_are_preserved_as_pytorch_does(void **state)
{
  (void)state;
  int64_t sizes[] = {2, 3, 4, 5}, last[] = {60, 1, 15, 3};
  rush_tensor *a = NULL, *b = NULL;
  assert_int_equal(tensor_new_strided(&cx, RUSH_INT8, 4, sizes, last, &a), RUSH_OK);
  assert_true(tensor_is_channels_last(a) && tensor_is_dense(a) && !tensor_is_contiguous(a));
  assert_int_equal(tensor_new_like(&cx, a, RUSH_FLOAT32, &b), RUSH_OK);
  assert_true(tensor_same_geometry(a, b));
  tensor_release(b);
  /* An expanded, transposed view with strides (0, 1, 4) and sizes (3, 4, 2): as in torch,
   * empty_like(torch.empty(2, 4).t().expand(3, 4, 2)).stride() is (8, 1, 4), not (1, 3, 12). */
  int64_t s[] = {3, 4, 2}, st[] = {0, 1, 4};
  rush_tensor *v = NULL;
  assert_int_equal(tensor_as_strided(&cx, a, 3, s, st, 0, &v), RUSH_OK);
  assert_true(tensor_overlaps_itself(v));
  assert_int_equal(tensor_new_like(&cx, v, DTYPE_NONE, &b), RUSH_OK);
  assert_int_equal(b->strides[0], 8);
  assert_int_equal(b->strides[1], 1);
  assert_int_equal(b->strides[2], 4);
  tensor_release(b);
  tensor_release(v);
  tensor_release(a);
}

static void add_loop(void *arg, int64_t n, char *const *p, const int64_t *s)
{
  (void)arg;
  for (int64_t i = 0; i < n; i++)
    *(float *)(p[0] + i * s[0]) = *(float *)(p[1] + i * s[1]) + *(float *)(p[2] + i * s[2]);
}

static void iteration_broadcasts(void **state)
{
  (void)state;
  int64_t n = 5, sizes[] = {4, 5}, rows[] = {4, 1}, out_sizes[TENSOR_MAX_DIMS];
  int n_out = 0;
  assert_true(sizes_broadcast(1, &n, 2, rows, &n_out, out_sizes));
  assert_int_equal(n_out, 2);
  assert_memory_equal(out_sizes, sizes, sizeof sizes);
  rush_tensor *a = iota(RUSH_FLOAT32, 1, &n), *b = iota(RUSH_FLOAT32, 2, rows);
  rush_tensor *r = make(RUSH_FLOAT32, 2, sizes);
  tensor_iter it;
  iter_init(&it, 2, sizes);
  iter_add(&it, r);
  iter_add(&it, a);
  iter_add(&it, b);
  iter_finish(&it);
  assert_int_equal(iter_run(&cx, &it, 3, add_loop, NULL), RUSH_OK);
  for (int i = 0; i < 20; i++)
    assert_true(at(r, i) == i % 5 + i / 5);
  tensor_release(r);
  tensor_release(b);
  tensor_release(a);
}

static void every_failed_allocation_is_reported(void **state)
{
  (void)state;
  OOM_LOOP(c) {
    int64_t sizes[] = {2, 2, 2, 2, 2, 8}, strides[] = {1, 2, 4, 8, 16, 32};
    rush_tensor *t = NULL, *v = NULL, *d = NULL;
    rush_status s = tensor_new(&c, RUSH_FLOAT32, 6, sizes, &t);
    if (s == RUSH_OK)
      s = tensor_as_strided(&c, t, 6, sizes, strides, 0, &v);
    if (s == RUSH_OK)
      s = tensor_to_dtype(&c, v, RUSH_INT16, &d);
    assert_true(s == RUSH_OK || s == RUSH_ENOMEM);
    tensor_release(d);
    tensor_release(v);
    tensor_release(t);
  }
}

static void creation_is_cheap(void **state)
{
  (void)state;
  int64_t n = 8;
  uint64_t best = UINT64_MAX;
  for (int round = 0; round < 5; round++) {
    uint64_t start = clock_ns();
    for (int i = 0; i < 10000; i++)
      tensor_release(make(RUSH_FLOAT32, 1, &n));
    uint64_t ns = (clock_ns() - start) / 10000;
    best = ns < best ? ns : best;
  }
  print_message("a tensor of 8 floats: %d ns\n", (int)best);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
    T(promotion_is_pytorchs),
    T(narrow_floats_round_as_pytorch),
    T(every_dtype_converts_to_every_other),
    T(strided_copies_move_every_element),
    T(overlapping_copies_read_before_they_write),
    T(views_outside_the_storage_are_refused),
    T(resizing_keeps_the_content),
    T(layouts_are_preserved_as_pytorch_does),
    T(iteration_broadcasts),
    T(every_failed_allocation_is_reported),
    T(creation_is_cheap),
  };
  return RUN_TESTS(tests);
}
