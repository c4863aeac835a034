/* cli/decompose.c -- `rushlight decompose`: an exported program over fewer operators, as
 * torch.export's run_decompositions makes it. */
#include "cli.h"

#include "rushlight/export.h"

static int decompose(cli *c, const char *path)
{
  rush_save_options options = RUSH_SAVE_OPTIONS_INIT;
  rush_exported_program *p = NULL, *made = NULL;
  rush_error err = RUSH_ERROR_INIT;

  rush_status st = rush_exported_program_load(c->context, c->argv[0], &c->load, &p, &err);
  if (st == RUSH_OK)
    st = rush_exported_program_decompose(p, &made, &err);
  if (st == RUSH_OK)
    st = rush_exported_program_save(made, path, &options, &err);
  rush_exported_program_release(made);
  rush_exported_program_release(p);
  return st == RUSH_OK ? EXIT_OK : cli_report(c, &err);
}

int cli_decompose(cli *c)
{
  const char *output = cli_option(c, "--output"), *path = output ? output : cli_option(c, "-o");

  if (c->argc != 1)
    return cli_usage("decompose", "decompose takes one exported program, a .pt2");
  if (!path)
    return cli_usage("decompose", "decompose needs -o FILE.pt2");
  return decompose(c, path);
}
