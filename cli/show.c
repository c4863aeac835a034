/* rushlight show -- what is in an archive.  Runs nothing of it. */
#include "cli.h"

#include <string.h>

static int dump(cli *c, rush_module *m, rush_dump what, const char *method)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_module_dump(m, what, method, &text, &err) != RUSH_OK)
    return cli_report(c, &err);
  if (c->json) {
    printf("{\"text\": ");
    cli_json_text(stdout, text);
    printf("}\n");
  } else {
    fputs(text, stdout);
  }
  rush_free_text(c->context, text);
  return EXIT_OK;
}

int cli_show(cli *c)
{
  static const struct { const char *flag; rush_dump what; } views[] = {
      {"--code", RUSH_DUMP_CODE}, {"--graph", RUSH_DUMP_GRAPH}, {"--bytecode", RUSH_DUMP_BYTECODE},
      {"--ops", RUSH_DUMP_OPS},   {"--schema", RUSH_DUMP_SCHEMA}, {"--dot", RUSH_DUMP_DOT}, {"--digest", RUSH_DUMP_DIGEST},
      {"--optimized", RUSH_DUMP_OPTIMIZED}, {"--groups", RUSH_DUMP_GROUPS}, {"--asm", RUSH_DUMP_ASM}};
  const char *method = cli_option(c, "--method");
  rush_dump what = RUSH_DUMP_SUMMARY;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;

  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (cli_flag(c, views[i].flag))
      what = views[i].what;
  const char *unknown = cli_unknown_option(c);
  if (unknown)
    return cli_usage("show", "there is no option '%s': --code, --graph, --bytecode, --ops, --schema, --dot, --digest, --optimized, --groups, --asm, --method NAME", unknown);
  if (c->argc != 1)
    return cli_usage("show", "takes one model file");
  if (rush_module_load(c->context, c->argv[0], &c->load, &m, &err) != RUSH_OK)
    return cli_report(c, &err);
  int code = dump(c, m, what, method);
  rush_module_release(m);
  return code;
}
