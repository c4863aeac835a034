/* demo.c -- recognise the digits of ten images: a complete program that embeds Rushlight.
 *
 *   demo MODEL IMAGES.npy [INDEX]
 *
 * MODEL is digits.pt or digits.pt2.  Draws image INDEX (default: one by the clock), its answer with
 * the probabilities, and the times of load, first and steady call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rushlight/rushlight.h"

#define SIDE 8
#define STEADY_CALLS 200

static double seconds(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(rush_error *err)
{
  fprintf(stderr, "demo: %s\n", err->message ? err->message : rush_status_name(err->status));
  rush_error_clear(err);
  return 1;
}

/* Two characters a pixel, so that it looks square. */
static void draw(const float *pixels)
{
  static const char shades[] = " .:-=+*#%@";

  for (int y = 0; y < SIDE; y++) {
    printf("    ");
    for (int x = 0; x < SIDE; x++) {
      int shade = (int)(pixels[y * SIDE + x] * 9.0f + 0.5f);
      char c = shades[shade < 0 ? 0 : shade > 9 ? 9 : shade];
      printf("%c%c", c, c);
    }
    printf("\n");
  }
}

static void print_answer(const float *p)
{
  int best = 0;

  for (int i = 1; i < 10; i++)
    if (p[i] > p[best])
      best = i;
  printf("\n  This is a %d.\n\n", best);
  for (int i = 0; i < 10; i++) {
    printf("    %d %5.1f%% ", i, 100.0 * (double)p[i]);
    for (int k = 0; k < (int)(p[i] * 40.0f + 0.5f); k++)
      putchar('#');
    printf("\n");
  }
}

/* One call: the probabilities of one image.  *out is new. */
static rush_status classify(rush_module *m, rush_value image, rush_value *out, rush_error *err)
{
  rush_value logits;
  size_t n;
  rush_status st = rush_module_call(m, "forward", &image, 1, &logits, err);

  if (st != RUSH_OK)
    return st;
  rush_value softmax_args[3] = {logits, rush_value_int(1), rush_value_none()};
  st = rush_op_call(NULL, "aten::softmax.int", softmax_args, 3, NULL, 0, out, 1, &n, err);
  rush_value_release(logits);
  return st;
}

int main(int argc, char **argv)
{
  rush_error err = RUSH_ERROR_INIT;
  int64_t sizes[4] = {1, 1, SIDE, SIDE};
  rush_value images, image, answer;
  rush_module *m;

  if (argc < 3) {
    fprintf(stderr, "usage: demo MODEL IMAGES.npy [INDEX]\n");
    return 2;
  }
  double start = seconds();
  if (rush_module_load(NULL, argv[1], NULL, &m, &err) != RUSH_OK)
    return fail(&err);
  double load = seconds() - start;
  if (rush_value_load(NULL, argv[2], &images, &err) != RUSH_OK)
    return fail(&err);
  int64_t n_images = rush_tensor_sizes(images.as.tensor)[0];
  int64_t index = argc > 3 ? atoi(argv[3]) : (int64_t)time(NULL);
  float *pixels = (float *)rush_tensor_data(images.as.tensor) +
                  (index % n_images + n_images) % n_images * SIDE * SIDE;
  if (rush_tensor_wrap(NULL, RUSH_FLOAT32, 4, sizes, NULL, pixels, NULL, NULL, &image, &err) !=
      RUSH_OK)
    return fail(&err);

  start = seconds();
  if (classify(m, image, &answer, &err) != RUSH_OK)
    return fail(&err);
  double first = seconds() - start;
  draw(pixels);
  print_answer(rush_tensor_data(answer.as.tensor));
  rush_value_release(answer);

  start = seconds();
  for (int i = 0; i < STEADY_CALLS; i++) {
    if (classify(m, image, &answer, &err) != RUSH_OK)
      return fail(&err);
    rush_value_release(answer);
  }
  double steady = (seconds() - start) / STEADY_CALLS;
  printf("\n  load %.2f ms, first call %.2f ms, steady %.1f us; no PyTorch in this process\n\n",
         1e3 * load, 1e3 * first, 1e6 * steady);
  rush_value_release(image);
  rush_value_release(images);
  rush_module_release(m);
  return 0;
}
