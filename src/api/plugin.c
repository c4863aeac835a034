/* api/plugin.c -- shared objects that register operators and passes. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "api/api_int.h"
#include "base/error.h"
#include "rushlight/backend.h"

static rush_status refuse_plugin(void *lib, rush_error *err, const char *path, const char *why)
{
  rush_status st = error_set(
    err, RUSH_EARGUMENT, "%s is no plug-in for this library: %s (rushlight/backend.h)", path, why);
  dlclose(lib);
  return st;
}

rush_status rush_plugin_load(rush_context *c, const char *path, rush_error *err)
{
  call_ctx cx;
  rush_plugin_fn *entry;
  char why[160];

  if (!path || !*path)
    return error_set(err, RUSH_EARGUMENT, "a plug-in needs a path");
  TRY(api_begin(&cx, c, err));
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib)
    return error_set(err, RUSH_EIO, "%s", dlerror());
  void *symbol = dlsym(lib, RUSH_PLUGIN_SYMBOL);
  const uint32_t *abi = dlsym(lib, RUSH_PLUGIN_ABI_SYMBOL);
  if (!symbol)
    return refuse_plugin(lib, err, path, "it exports no function " RUSH_PLUGIN_SYMBOL);
  if (!abi)
    return refuse_plugin(lib, err, path,
                  "it does not say which version it was built for, RUSH_PLUGIN_DECLARE");
  if (!rush_backend(*abi)) {
    snprintf(why, sizeof why, "it was built for version %u of the table, and this is %u", *abi,
             RUSH_BACKEND_ABI);
    return refuse_plugin(lib, err, path, why);
  }
  const uint32_t *n_bytes =
    dlsym(lib, RUSH_PLUGIN_BYTES_SYMBOL); /* plug-ins of older headers lack it, and need less */
  const size_t have = rush_backend(*abi)->struct_bytes;
  if (n_bytes && *n_bytes > have) {
    snprintf(
      why, sizeof why,
      "it was built with a newer header: its table has %u bytes, that of rushlight %s has %zu",
      *n_bytes, rush_version(), have);
    return refuse_plugin(lib, err, path, why);
  }
  memcpy(&entry, &symbol,
         sizeof entry); /* C has no cast from an object's pointer to a function's */
  rush_status st = entry(rush_backend(*abi), cx.ctx,
                         err); /* stays loaded: the context may hold pointers into it */

  return error_of_callback(err, st, "%s", path);
}
