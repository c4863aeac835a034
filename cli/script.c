/* script.c -- rushlight script: compiles a Python file's TorchScript into an archive. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

char *cli_read_text(const char *path, size_t *n_bytes)
{
  FILE *f = fopen(path, "rb");
  char *text = NULL;

  if (f && fseek(f, 0, SEEK_END) == 0) {
    long n = ftell(f);
    text = n >= 0 && fseek(f, 0, SEEK_SET) == 0 ? malloc((size_t)n + 1) : NULL;
    *n_bytes = text ? fread(text, 1, (size_t)n, f) : 0;
  }
  if (f)
    fclose(f);
  return text;
}

/* Print {"functions": [name...]}. */
static void put_json(rush_module *m)
{
  printf("{\"functions\": [");
  for (size_t i = 0; i < rush_module_n_methods(m); i++) {
    printf("%s", i ? ", " : "");
    cli_json_text(stdout, rush_module_method_name(m, i));
  }
  printf("]}\n");
}

int cli_script(cli *c)
{
  rush_text_options options = RUSH_TEXT_OPTIONS_INIT;
  rush_save_options save = RUSH_SAVE_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  const char *path = cli_option(c, "--output");
  rush_module *m;
  size_t n;

  path = path ? path : cli_option(c, "-o");
  save.function = cli_option(c, "--method");
  const char *unknown = cli_unknown_option(c);
  if (unknown)
    return cli_bad_option("script", unknown);
  if (c->argc != 1)
    return cli_usage("script", "takes one Python file");
  char *text = cli_read_text(c->argv[0], &n);
  if (!text) {
    fprintf(stderr, "rushlight: %s: cannot be read\n", c->argv[0]);
    return EXIT_REFUSED;
  }
  options.name = c->argv[0];
  rush_status st = rush_module_compile(c->context, text, n, &options, &m, &err);
  free(text);
  if (st != RUSH_OK)
    return cli_report(c, &err);
  if (path)
    st = rush_module_save(m, path, &save, &err);
  if (st == RUSH_OK && c->json)
    put_json(m);
  else if (st == RUSH_OK && !path)
    for (size_t i = 0; i < rush_module_n_methods(m); i++)
      printf("%s\n", rush_module_method_name(m, i));
  rush_module_release(m);
  return st == RUSH_OK ? EXIT_OK : cli_report(c, &err);
}
