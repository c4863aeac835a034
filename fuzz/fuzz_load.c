/* Whole archives through the public door. */
#include <stdlib.h>

#include "rushlight/rushlight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_context *c = NULL;
  rush_context_options opt = RUSH_CONTEXT_OPTIONS_INIT;
  opt.limit_bytes = (size_t)256 << 20;
  opt.limit_seconds = 20;
  opt.n_threads = 1;
  if (rush_context_create(&opt, &c, NULL) != RUSH_OK)
    return 0;
  rush_module *m = NULL;
  rush_status st = rush_module_load_bytes(c, data, size, NULL, NULL, NULL, &m, &err);
  if (st != RUSH_OK && (!err.message || st == RUSH_EINTERNAL))
    abort();
  rush_error_clear(&err);
  rush_module_release(m);
  rush_context_release(c);
  return 0;
}
