/* Runs digits.pt2 and an operator that the program does not need: tests/house/small.py links this with few operators. */
#include <stdio.h>
#include <string.h>

#include <rushlight/rushlight.h>

int main(int argc, char **argv)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value x, y, text[1];
  rush_module *m;
  char *shown;
  size_t n;

  if (argc != 2 || rush_module_load(NULL, argv[1], NULL, &m, &err) != RUSH_OK ||
      rush_tensor_create(NULL, RUSH_FLOAT32, 4, (int64_t[]){1, 1, 8, 8}, &x, &err) != RUSH_OK) {
    fprintf(stderr, "%s\n", err.message ? err.message : "usage: small digits.pt2");
    return 1;
  }
  memset(rush_tensor_data_mut(x.as.tensor), 0, 64 * sizeof(float));
  if (rush_module_call(m, "forward", &x, 1, &y, &err) != RUSH_OK || rush_value_to_text(NULL, y, true, &shown, &err) != RUSH_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  puts(shown);
  rush_free_text(NULL, shown);
  text[0] = y;
  rush_value z;
  if (rush_op_call(NULL, "aten::fft_fft", text, 1, NULL, 0, &z, 1, &n, &err) == RUSH_OK) {
    fprintf(stderr, "aten::fft_fft runs\n");
    return 1;
  }
  puts(err.message);
  rush_error_clear(&err);
  rush_value_release(y);
  rush_value_release(x);
  rush_module_release(m);
  return 0;
}
