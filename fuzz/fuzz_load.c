/* Whole archives through the public door: opened, compiled, shown, called. */
#include <stdlib.h>

#include "rushlight/rushlight.h"

static void swallow(void *user, const char *text, size_t n)
{
  (void)user;
  (void)text;
  (void)n;
}

static void use(rush_context *c, rush_module *m)
{
  static float image[64];
  int64_t sizes[4] = {1, 1, 8, 8};
  rush_error err = RUSH_ERROR_INIT;
  rush_value args[2] = {rush_value_int(1), rush_value_none()}, result;
  char *text;

  if (rush_module_dump(m, RUSH_DUMP_OPS, NULL, &text, &err) == RUSH_OK)
    rush_free_text(c, text);
  rush_error_clear(&err);
  if (rush_tensor_wrap(c, RUSH_FLOAT32, 4, sizes, NULL, image, NULL, NULL, &args[1], NULL) != RUSH_OK)
    return;
  for (size_t i = 0; i < rush_module_n_methods(m); i++)
    for (int k = 0; k < 2; k++) {
      if (rush_module_call(m, rush_module_method_name(m, i), &args[k], 1, &result, &err) == RUSH_OK)
        rush_value_release(result);
      rush_error_clear(&err);
    }
  rush_value_release(args[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_context *c = NULL;
  rush_context_options opt = RUSH_CONTEXT_OPTIONS_INIT;
  opt.limit_bytes = (size_t)256 << 20;
  opt.limit_seconds = 1;
  opt.n_threads = 1;
  opt.print = swallow;
  if (rush_context_create(&opt, &c, NULL) != RUSH_OK)
    return 0;
  rush_module *m = NULL;
  rush_status st = rush_module_load_bytes(c, data, size, NULL, NULL, NULL, &m, &err);
  if (st != RUSH_OK && (!err.message || st == RUSH_EINTERNAL))
    abort();
  rush_error_clear(&err);
  if (st == RUSH_OK)
    use(c, m);
  rush_module_release(m);
  rush_context_release(c);
  return 0;
}
