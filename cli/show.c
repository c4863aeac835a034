/* rushlight show -- what is in an archive.  Runs nothing of it, but for --profile. */
#include "page.h"

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

/* --check: what is wrong with the graphs of all that methods reach. */
static int check(cli *c, rush_module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  char *faults;

  if (rush_module_dump(m, RUSH_DUMP_FAULTS, NULL, &faults, &err) != RUSH_OK)
    return cli_report(c, &err);
  bool ok = *faults == 0;
  if (c->json) {
    printf("{\"ok\": %s, \"faults\": ", ok ? "true" : "false");
    cli_json_text(stdout, faults);
    printf("}\n");
  } else {
    fputs(ok ? "every graph is well-formed, and its operators can run\n" : faults, stdout);
  }
  rush_free_text(c->context, faults);
  return ok ? EXIT_OK : EXIT_NEGATIVE;
}

/* `--program NAME` chooses a program, `--program` alone is a view: a word behind it is a name if another word is the MODEL. */
static const char *program_name(cli *c)
{
  int n_words = 0;

  for (int i = 0; i < c->argc; i++) {
    if (strncmp(c->argv[i], "--program=", 10) == 0)
      return cli_option(c, "--program");
    n_words += c->argv[i][0] != '-';
  }
  for (int i = 0; n_words > 1 && i + 1 < c->argc; i++)
    if (strcmp(c->argv[i], "--program") == 0 && c->argv[i + 1][0] != '-')
      return cli_option(c, "--program");
  return NULL;
}

/* --html [--profile]: what follows the model are a call's arguments then. */
static int show_page(cli *c, const char *path, bool is_profiled)
{
  rush_error err = RUSH_ERROR_INIT;
  const char *method = cli_option(c, "--method");
  rush_module *m;
  call_args a = {0};
  int code;

  c->load.program = cli_option(c, "--program"); /* the view of that name does not go with --html */
  if (c->argc < 1 || (c->argc > 1 && !is_profiled))
    return cli_usage("show", "--html takes one model file; with --profile also the arguments of a call");
  if (!call_parse(c, "show", &a, &code))
    return code;
  a.method = method ? method : "forward";
  if (rush_module_load(c->context, c->argv[0], &c->load, &m, &err) != RUSH_OK) {
    call_free(&a);
    return cli_report(c, &err);
  }
  code = cli_page(c, m, path, is_profiled ? &a : NULL, method);
  rush_module_release(m);
  call_free(&a);
  return code;
}

int cli_show(cli *c)
{
  static const struct { const char *flag; rush_dump what; } views[] = {
      {"--code", RUSH_DUMP_CODE}, {"--graph", RUSH_DUMP_GRAPH}, {"--bytecode", RUSH_DUMP_BYTECODE},
      {"--ops", RUSH_DUMP_OPS},   {"--schema", RUSH_DUMP_SCHEMA}, {"--dot", RUSH_DUMP_DOT}, {"--digest", RUSH_DUMP_DIGEST},
      {"--optimized", RUSH_DUMP_OPTIMIZED}, {"--groups", RUSH_DUMP_GROUPS}, {"--asm", RUSH_DUMP_ASM},
      {"--program", RUSH_DUMP_JSON}};
  const char *path = cli_option(c, "--output");
  bool is_profiled = cli_flag(c, "--profile");
  rush_dump what = RUSH_DUMP_SUMMARY;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;

  path = path ? path : cli_option(c, "-o");
  if (cli_flag(c, "--html"))
    return show_page(c, path, is_profiled);
  if (path || is_profiled)
    return cli_usage("show", "--output and --profile go with --html");
  const char *method = cli_option(c, "--method");
  c->load.program = program_name(c);
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (cli_flag(c, views[i].flag))
      what = views[i].what;
  bool is_check = cli_flag(c, "--check");
  const char *unknown = cli_unknown_option(c);
  if (unknown)
    return cli_usage("show", "there is no option '%s': --code, --graph, --bytecode, --ops, --schema, --dot, --digest, "
                             "--optimized, --groups, --asm, --program, --check, --html, --method NAME", unknown);
  if (c->argc != 1)
    return cli_usage("show", "takes one model file");
  if (rush_module_load(c->context, c->argv[0], &c->load, &m, &err) != RUSH_OK)
    return cli_report(c, &err);
  int code = is_check ? check(c, m) : dump(c, m, what, method);
  rush_module_release(m);
  return code;
}
