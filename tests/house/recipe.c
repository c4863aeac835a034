/* recipe.c -- tests the operator that recipe.py added to the table, through the public header:
 * rushtest::softsquare. */
#include <math.h>
#include <stdio.h>

#include "rushlight/rushlight.h"

#define CHECK(...)                                               \
  do {                                                           \
    if (!(__VA_ARGS__)) {                                        \
      fprintf(stderr, "recipe.c:%d: %s\n", __LINE__, #__VA_ARGS__); \
      return 1;                                                  \
    }                                                            \
  } while (0)

enum { N = 1003 };

static double softsquare(double x) { return x * x / (1 + fabs(x)); }

static rush_status call(rush_value x, rush_value *y, rush_error *err)
{
  size_t n = 0;

  return rush_op_call(NULL, "rushtest::softsquare", &x, 1, NULL, 0, y, 1, &n, err);
}

/* Make every second element of a row, as float64. */
static int strided(void)
{
  static double data[2 * N];
  const int64_t sizes[] = {N}, strides[] = {2};
  rush_error err = RUSH_ERROR_INIT;
  rush_value x, y;

  for (int i = 0; i < 2 * N; i++)
    data[i] = (i - N) / 7.0;
  CHECK(rush_tensor_wrap(NULL, RUSH_FLOAT64, 1, sizes, strides, data, NULL, NULL, &x, &err) ==
        RUSH_OK);
  CHECK(call(x, &y, &err) == RUSH_OK);
  const double *got = rush_tensor_data(y.as.tensor);
  for (int i = 0; i < N; i++)
    CHECK(fabs(got[i] - softsquare(data[2 * i])) <= 1e-15 * fabs(got[i]));
  rush_value_release(x);
  rush_value_release(y);
  return 0;
}

/* Integers are promoted to float32. */
static int integers(void)
{
  static int64_t data[N];
  const int64_t sizes[] = {17, 59};
  rush_error err = RUSH_ERROR_INIT;
  rush_value x, y;

  for (int i = 0; i < N; i++)
    data[i] = i - N / 2;
  CHECK(rush_tensor_wrap(NULL, RUSH_INT64, 2, sizes, NULL, data, NULL, NULL, &x, &err) == RUSH_OK);
  CHECK(call(x, &y, &err) == RUSH_OK);
  CHECK(rush_tensor_dtype(y.as.tensor) == RUSH_FLOAT32 && rush_tensor_n_dims(y.as.tensor) == 2);
  const float *got = rush_tensor_data(y.as.tensor);
  for (int i = 0; i < N; i++)
    CHECK(fabs(got[i] - softsquare((double)data[i])) <= 1e-6 * fabs(got[i]));
  rush_value_release(x);
  rush_value_release(y);
  return 0;
}

/* The formula has no branch for complex numbers, and a string is no tensor. */
static int refusals(void)
{
  const int64_t sizes[] = {3};
  rush_error err = RUSH_ERROR_INIT;
  rush_value x, y;

  CHECK(rush_tensor_create(NULL, RUSH_COMPLEX64, 1, sizes, &x, &err) == RUSH_OK);
  CHECK(call(x, &y, &err) != RUSH_OK);
  rush_error_clear(&err);
  rush_value_release(x);
  CHECK(call(rush_value_int(1), &y, &err) != RUSH_OK);
  rush_error_clear(&err);
  return 0;
}

int main(void)
{
  if (!rush_op_exists(NULL, "rushtest::softsquare") || strided() || integers() || refusals())
    return 1;
  puts("rushtest::softsquare runs");
  return 0;
}
