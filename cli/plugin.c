/* plugin.c -- --plugin FILE: loads a shared object that registers operators (backend.h).  It is
 * code that the user names, and is executed; archives cannot name any. */
#include "cli.h"

static int load_plugin(cli *c, const char *file)
{
  rush_error err = RUSH_ERROR_INIT;

  return rush_plugin_load(c->context, file, &err) == RUSH_OK ? EXIT_OK : cli_report(c, &err);
}

int cli_plugins(cli *c)
{
  const char *file;
  int code = EXIT_OK;

  while (code == EXIT_OK && (file = cli_option(c, "--plugin")))
    code = load_plugin(c, file);
  return code;
}
