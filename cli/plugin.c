/* --plugin FILE: a shared object that registers operators (backend.h).  It is code that the user names, and
 * runs as such; archives can name none. */
#include <dlfcn.h>
#include <rushlight/backend.h>
#include <string.h>

#include "cli.h"

static int load_plugin(cli *c, const char *file)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_plugin_fn *entry;
  void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);

  if (!lib) {
    fprintf(stderr, "rushlight: --plugin: %s\n", dlerror());
    return EXIT_REFUSED;
  }
  void *symbol = dlsym(lib, RUSH_PLUGIN_SYMBOL);
  if (!symbol) {
    fprintf(stderr, "rushlight: --plugin: %s exports no function " RUSH_PLUGIN_SYMBOL " (rushlight/backend.h)\n", file);
    return EXIT_REFUSED;
  }
  memcpy(&entry, &symbol, sizeof entry); /* C has no cast from an object's pointer to a function's */
  if (entry(rush_backend(RUSH_BACKEND_ABI), c->context, &err) != RUSH_OK)
    return cli_report(c, &err);
  return EXIT_OK; /* stays loaded: the context holds pointers into it */
}

int cli_plugins(cli *c)
{
  const char *file;
  int code = EXIT_OK;

  while (code == EXIT_OK && (file = cli_option(c, "--plugin")))
    code = load_plugin(c, file);
  return code;
}
