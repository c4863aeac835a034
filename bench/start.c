/* start MODEL [THREADS]: measure the time from process start to the first result of an image
 * network on 1x3x224x224 of 0.5. Prints "sum S import 0 load MS run MS", as the peers' programs
 * do. */
#include <stdio.h>

#include "rushlight/rushlight.h"
#include "timing.h"

static float pixels[3 * 224 * 224];

static int fail(rush_error *err)
{
  fprintf(stderr, "%s\n", err->message);
  rush_error_clear(err);
  return 1;
}

int main(int argc, char **argv)
{
  static const int64_t sizes[] = {1, 3, 224, 224};
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  rush_value x, y;
  double start = bench_seconds(), sum = 0;

  if (argc < 2)
    return 2;
  rush_context_set_threads(NULL, argc > 2 ? atoi(argv[2]) : 1);
  if (rush_module_load(NULL, argv[1], NULL, &m, &err) != RUSH_OK)
    return fail(&err);
  double loaded = bench_seconds();
  for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
    pixels[i] = 0.5f;
  if (rush_tensor_wrap(NULL, RUSH_FLOAT32, 4, sizes, NULL, pixels, NULL, NULL, &x, &err) !=
        RUSH_OK ||
      rush_module_call(m, "forward", &x, 1, &y, &err) != RUSH_OK)
    return fail(&err);
  double end = bench_seconds();
  const float *out = rush_tensor_data(y.as.tensor);
  for (int64_t i = 0; i < rush_tensor_n_elems(y.as.tensor); i++)
    sum += out[i];
  printf("sum %.4f import 0 load %.1f run %.1f\n", sum, (loaded - start) * 1e3,
         (end - loaded) * 1e3);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  return 0;
}
