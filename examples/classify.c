/* classify.c -- the main job from C: open a model, pass our own memory, read the result.
 *
 *   cc classify.c $(pkg-config --cflags --libs rushlight) -o classify
 *   ./classify tests/data/digits.pt        # or digits.pt2: the same calls
 */
#include <stdio.h>

#include <rushlight/rushlight.h>

static int fail(rush_error *err)
{
  fprintf(stderr, "%s: %s\n", err->type, err->message);
  rush_error_clear(err);
  return 1;
}

/* Print the index of the largest score. */
static int report(rush_value scores)
{
  if (scores.tag != RUSH_TAG_TENSOR || rush_tensor_dtype(scores.as.tensor) != RUSH_FLOAT32 ||
      !rush_tensor_is_contiguous(scores.as.tensor)) {
    fprintf(stderr, "expected a contiguous tensor of float32\n");
    return 1;
  }
  const float *p = rush_tensor_data(scores.as.tensor);
  int64_t n = rush_tensor_n_elems(scores.as.tensor), best = 0;
  for (int64_t i = 1; i < n; i++)
    if (p[i] > p[best])
      best = i;
  printf("class %lld of %lld, score %.3f\n", (long long)best, (long long)n, (double)p[best]);
  return 0;
}

int main(int argc, char **argv)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_module *model = NULL;
  rush_value image, scores;
  float pixels[8 * 8];
  const int64_t sizes[] = {1, 1, 8, 8};
  int status = 1;

  if (argc != 2) {
    fprintf(stderr, "usage: classify MODEL\n");
    return 2;
  }
  for (int i = 0; i < 8 * 8; i++)
    pixels[i] = i % 8 == 3 || i % 8 == 4 ? 1.0f : 0.0f; /* an upright bar */
  if (rush_module_load(NULL, argv[1], NULL, &model, &err) != RUSH_OK)
    return fail(&err);
  if (rush_tensor_wrap(NULL, RUSH_FLOAT32, 4, sizes, NULL, pixels, NULL, NULL, &image, &err) !=
      RUSH_OK) {
    rush_module_release(model);
    return fail(&err);
  }
  if (rush_module_call(model, "forward", &image, 1, &scores, &err) == RUSH_OK) {
    status = report(scores);
    rush_value_release(scores);
  } else {
    status = fail(&err);
  }
  rush_value_release(image);
  rush_module_release(model);
  return status;
}
