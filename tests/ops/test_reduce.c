#include "support/test.h"

#include <math.h>

#include "ops/call/call.h"
#include "ops/kernels/reduce/reduce.h"

/* Reductions and pointwise functions have the same bits on every instruction set and with any
 * number of threads, and agree with a plain loop in double. */

static uint32_t seed = 1;
static float number(void)
{
  seed = seed * 1664525u + 1013904223u;
  return (float)((int32_t)seed >> 8) / 1048576.0f;
}

static rush_tensor *new_tensor(context *c, int n_dims, const int64_t *sizes)
{
  call_ctx cx;
  rush_tensor *t = NULL;
  call_ctx_init(&cx, c, NULL);
  assert_int_equal(tensor_new(&cx, RUSH_FLOAT32, n_dims, sizes, &t), RUSH_OK);
  seed = 1;
  for (int64_t i = 0; i < t->n_elems; i++)
    ((float *)t->data)[i] = number();
  return t;
}

static double plain(const rush_tensor *x, uint64_t dims, reduce_kind kind, int64_t out)
{
  double r = kind == REDUCE_MAX ? -INFINITY : 0;
  int64_t at[3];
  for (at[0] = 0; at[0] < x->sizes[0]; at[0]++)
    for (at[1] = 0; at[1] < x->sizes[1]; at[1]++)
      for (at[2] = 0; at[2] < x->sizes[2]; at[2]++) {
        int64_t o = 0, i = 0;
        for (int d = 0; d < 3; d++) {
          i += at[d] * x->strides[d];
          if (!(dims >> d & 1))
            o = o * x->sizes[d] + at[d];
        }
        if (o != out)
          continue;
        double v = ((const float *)x->data)[i];
        if (kind == REDUCE_MAX)
          r = v > r ? v : r;
        else
          r += kind == REDUCE_SUM_SQ ? v * v : v;
      }
  return r;
}

static void sums_have_the_same_bits_everywhere(void **state)
{
  (void)state;
  static const int64_t shapes[][3] = {
    {3, 5, 7}, {2, 3, 600}, {700, 2, 40}, {1, 1, 5}, {40, 70, 33}};
  static const reduce_kind kinds[] = {REDUCE_SUM, REDUCE_SUM_SQ, REDUCE_MAX};
  float first[30000], acc[30000];
  for (size_t s = 0; s < COUNT_OF(shapes); s++)
    for (uint64_t dims = 1; dims < 8; dims++)
      for (int k = 0; k < 6; k++)
        for (int level = CPU_PORTABLE; level <= CPU_AVX512; level++) {
          context *c = test_context(&(context_options){.cpu = (uint32_t)level, .n_threads = level});
          call_ctx cx;
          call_ctx_init(&cx, c, NULL);
          rush_tensor *x = new_tensor(c, 3, shapes[s]), *t = NULL;
          int64_t turned[3] = {x->strides[2], x->strides[0], x->strides[1]};
          int64_t sizes[3] = {x->sizes[2], x->sizes[0], x->sizes[1]};
          if (k >= 3) /* as a view with its dimensions reversed */
            assert_int_equal(tensor_as_strided(&cx, x, 3, sizes, turned, 0, &t), RUSH_OK);
          reduce_job job = {.x = t ? t : x, .dims = dims, .kind = kinds[k % 3], .type = TY_F32};
          const int64_t n = reduce_n_outputs(job.x, dims);
          assert_true(n <= (int64_t)COUNT_OF(acc));
          assert_int_equal(reduce_run(&cx, &job, acc), RUSH_OK);
          if (level == CPU_PORTABLE) {
            memcpy(first, acc, sizeof *acc * (size_t)n);
            for (int64_t o = 0; o < n; o += n / 5 + 1) {
              double want = plain(job.x, dims, job.kind, o), got = acc[o];
              assert_true(fabs(got - want) <=
                          1e-5 * (fabs(want) + (double)reduce_n_elems(job.x, dims)));
            }
          } else {
            assert_memory_equal(acc, first, sizeof *acc * (size_t)n);
          }
          tensor_release(t);
          tensor_release(x);
          test_context_done(c);
        }
}

static void a_nan_wins_and_is_found(void **state)
{
  (void)state;
  for (int level = CPU_PORTABLE; level <= CPU_AVX512; level++) {
    context *c = test_context(&(context_options){.cpu = (uint32_t)level});
    call_ctx cx;
    call_ctx_init(&cx, c, NULL);
    for (int64_t n = 1; n < 200; n += 13) {
      rush_tensor *x = new_tensor(c, 1, &n);
      float *v = x->data, max = 0;
      v[n / 2] = NAN;
      reduce_job job = {.x = x, .dims = 1, .kind = REDUCE_MAX, .type = TY_F32};
      int64_t at = -1;
      assert_int_equal(reduce_run(&cx, &job, &max), RUSH_OK);
      assert_true(max != max);
      assert_int_equal(reduce_find(&cx, &job, &max, &at), RUSH_OK);
      assert_int_equal(at, n / 2);
      v[n / 2] = 1e9f;
      assert_int_equal(reduce_run(&cx, &job, &max), RUSH_OK);
      assert_true(max == 1e9f);
      assert_int_equal(reduce_find(&cx, &job, &max, &at), RUSH_OK);
      assert_int_equal(at, n / 2);
      tensor_release(x);
    }
    test_context_done(c);
  }
}

/* With infinities, denormals and huge numbers; blocks end at every position. */
static void functions_have_the_same_bits_everywhere(void **state)
{
  (void)state;
  static const char *const names[] = {"aten::exp", "aten::sigmoid", "aten::tanh", "aten::erf",
                                      "aten::silu"};
  static const float special[] = {0.0f,    -0.0f,  INFINITY, -INFINITY, 88.8f, -87.5f,
                                  -103.9f, 1e-40f, -1e-30f,  1e38f,     0.93f, 0.625f};
  enum { N = 1237 };
  const int64_t n = N;
  float first[N];
  for (size_t f = 0; f < COUNT_OF(names); f++)
    for (int level = CPU_PORTABLE; level <= CPU_AVX512; level++) {
      context *c = test_context(&(context_options){.cpu = (uint32_t)level});
      call_ctx cx;
      call_ctx_init(&cx, c, NULL);
      rush_tensor *x = new_tensor(c, 1, &n);
      for (size_t i = 0; i < COUNT_OF(special); i++)
        ((float *)x->data)[i * 97] = special[i];
      rush_value arg = {.tag = RUSH_TAG_TENSOR, .as.tensor = x}, y;
      assert_int_equal(op_invoke_name(&cx, names[f], "", &arg, 1, &y), RUSH_OK);
      float *got = y.as.tensor->data;
      for (int i = 0; i < N; i++)
        if (got[i] != got[i])
          got[i] = 12345.0f; /* NaN is NaN */
      if (level == CPU_PORTABLE)
        memcpy(first, got, sizeof first);
      else
        assert_memory_equal(got, first, sizeof first);
      value_release(y);
      tensor_release(x);
      context_release(c); /* the operators stay */
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_have_the_same_bits_everywhere),
    cmocka_unit_test(a_nan_wins_and_is_found),
    cmocka_unit_test(functions_have_the_same_bits_everywhere),
  };
  return RUN_TESTS(tests);
}
