/* dtype.c FILE -- tests the dtype that dtype.py added, through the public header: its names,
 * elements read from FILE (written here), and conversions in both directions. */
#include <stdio.h>
#include <string.h>

#include "rushlight/rushlight.h"

#define CHECK(...)                                                  \
  do {                                                              \
    if (!(__VA_ARGS__)) {                                           \
      fprintf(stderr, "dtype.c:%d: %s\n", __LINE__, #__VA_ARGS__);  \
      return 1;                                                     \
    }                                                               \
  } while (0)

static int write_numbers(const char *path)
{
  static const char header[] =
    "{\"x\":{\"dtype\":\"T16\",\"shape\":[3],\"data_offsets\":[0,6]}}";
  const uint64_t n = sizeof header - 1;
  const uint16_t numbers[3] = {1000, 1007, 995};
  FILE *f = fopen(path, "wb");

  CHECK(f);
  CHECK(fwrite(&n, sizeof n, 1, f) == 1 && fwrite(header, n, 1, f) == 1);
  CHECK(fwrite(numbers, sizeof numbers, 1, f) == 1 && fclose(f) == 0);
  return 0;
}

/* Replace *v by aten::to(*v, dtype). */
static int convert(rush_value *v, rush_dtype dtype)
{
  rush_value args[4] = {*v, rush_value_int(dtype), rush_value_bool(false), rush_value_bool(true)};
  rush_error err = RUSH_ERROR_INIT;
  rush_value made;
  size_t n;

  if (rush_op_call(NULL, "aten::to.dtype", args, 4, NULL, 0, &made, 1, &n, &err) != RUSH_OK) {
    fprintf(stderr, "dtype.c: aten::to: %s\n", err.message);
    return 1;
  }
  rush_value_release(*v);
  *v = made;
  return 0;
}

int main(int argc, char **argv)
{
  static const float want[3] = {0, 7, -5};
  rush_error err = RUSH_ERROR_INIT;
  rush_value loaded, key, x;

  CHECK(argc == 2);
  CHECK(strcmp(rush_dtype_name(RUSH_TEST16), "test16") == 0);
  CHECK(strcmp(rush_dtype_scalar_type(RUSH_TEST16), "Test16") == 0);
  CHECK(rush_dtype_bytes(RUSH_TEST16) == 2);
  CHECK(write_numbers(argv[1]) == 0);
  if (rush_value_load(NULL, argv[1], &loaded, &err) != RUSH_OK) {
    fprintf(stderr, "dtype.c: %s: %s\n", argv[1], err.message);
    return 1;
  }
  rush_value_entry(loaded, 0, &key, &x);
  x = rush_value_retain(x);
  CHECK(rush_tensor_dtype(x.as.tensor) == RUSH_TEST16);
  for (int round = 0; round < 2; round++) { /* as loaded; and there and back again */
    CHECK(convert(&x, RUSH_FLOAT32) == 0);
    CHECK(memcmp(rush_tensor_data(x.as.tensor), want, sizeof want) == 0);
    CHECK(convert(&x, RUSH_TEST16) == 0);
  }
  rush_value_release(x);
  rush_value_release(loaded);
  return 0;
}
