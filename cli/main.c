/* rushlight -- the command. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "rushlight " /* version follows */;

static const char help_rest[] =
    " - open PyTorch programs and run them, without PyTorch\n"
    "\n"
    "usage: rushlight VERB MODEL [ARG...] [options]\n"
    "\n"
    "  run MODEL [ARG...]       call a method and print the result\n"
    "  verify DIR | MODEL CALLS replay recorded calls and compare with their results\n"
    "  bench MODEL [ARG...]     latency and memory of a call\n"
    "  show MODEL               what is in an archive: methods, weights, operators, code, graph\n"
    "\n"
    "An ARG is a literal ([1, 2.5], 'text', True), a factory (randn(1,3,224,224), full([2,2], 0.5)),\n"
    "or a file (@x.npy, @x.safetensors, @x.pt); NAME=ARG passes it by name.\n"
    "\n"
    "Options of every verb:\n"
    "  --threads N      threads to use (default: all)\n"
    "  --seed N         seed of the random generator (default 0)\n"
    "  --max-seconds S  stop a call after S seconds\n"
    "  --max-bytes B    refuse to use more memory than B bytes\n"
    "  --check=full     check every record's CRC, not only the small ones\n"
    "  --cpu=LEVEL      native, portable, avx2 or avx512\n"
    "  --no-reuse       never write into an argument's buffer that dies\n"
    "  --plugin FILE    load operators from a shared object (rushlight/backend.h)\n"
    "  --json           machine-readable output\n"
    "  --help, --version\n"
    "\n"
    "Examples:\n"
    "  rushlight show model.pt\n"
    "  rushlight run model.pt 'randn(1,3,224,224)'\n"
    "  rushlight bench model.pt2 '@input.npy' --threads 1\n"
    "\n"
    "Exit codes: 0 ok, 1 negative answer, 2 usage, 3 file refused, 4 program raised, 5 limit reached,\n"
    "70 our fault.\n";

static const struct verb {
  const char *name;
  int (*run)(cli *c);
} verbs[] = {{"run", cli_run}, {"verify", cli_verify}, {"bench", cli_bench}, {"show", cli_show}};

int cli_exit(rush_status st)
{
  switch (st) {
  case RUSH_OK:
    return EXIT_OK;
  case RUSH_ERAISED:
  case RUSH_EUNSUPPORTED:
    return EXIT_RAISED;
  case RUSH_EARGUMENT:
    return EXIT_USAGE;
  case RUSH_EFORMAT:
  case RUSH_EIO:
    return EXIT_REFUSED;
  case RUSH_ELIMIT:
  case RUSH_ECANCELLED:
  case RUSH_ENOMEM:
    return EXIT_LIMIT;
  case RUSH_EINTERNAL:
    break;
  }
  return EXIT_FAULT;
}

int cli_report(rush_error *err)
{
  int code = cli_exit(err->status);

  fflush(stdout);
  if (err->traceback)
    fprintf(stderr, "%s", err->traceback);
  fprintf(stderr, "rushlight: %s%s%s\n", err->type ? err->type : "", err->type ? ": " : "",
          err->message ? err->message : rush_status_name(err->status));
  rush_error_clear(err);
  return code;
}

int cli_usage(const char *verb, const char *fmt, ...)
{
  va_list ap;

  va_start(ap, fmt);
  fprintf(stderr, "rushlight%s%s: ", verb ? " " : "", verb ? verb : "");
  vfprintf(stderr, fmt, ap);
  fprintf(stderr, "\nTry: rushlight --help\n");
  va_end(ap);
  return EXIT_USAGE;
}

/* -- Options --------------------------------------------------------------------------------------- */

static void remove_args(cli *c, int at, int n)
{
  memmove(c->argv + at, c->argv + at + n, sizeof(char *) * (size_t)(c->argc - at - n));
  c->argc -= n;
}

bool cli_flag(cli *c, const char *name)
{
  for (int i = 0; i < c->argc; i++)
    if (strcmp(c->argv[i], name) == 0) {
      remove_args(c, i, 1);
      return true;
    }
  return false;
}

const char *cli_option(cli *c, const char *name)
{
  size_t n = strlen(name);

  for (int i = 0; i < c->argc; i++) {
    if (strncmp(c->argv[i], name, n) != 0)
      continue;
    if (c->argv[i][n] == '=') {
      const char *value = c->argv[i] + n + 1;
      remove_args(c, i, 1);
      return value;
    }
    if (c->argv[i][n] == 0 && i + 1 < c->argc) {
      const char *value = c->argv[i + 1];
      remove_args(c, i, 2);
      return value;
    }
  }
  return NULL;
}

const char *cli_unknown_option(cli *c)
{
  for (int i = 0; i < c->argc; i++)
    if (c->argv[i][0] == '-' && c->argv[i][1] == '-')
      return c->argv[i];
  return NULL;
}

/* What programs print: to stdout, or kept for `verify`. */
static void on_print(void *user, const char *text, size_t n)
{
  cli *c = user;

  if (!c->capture) {
    fwrite(text, 1, n, stdout);
    return;
  }
  if (c->output_bytes + n + 1 > c->output_cap) {
    size_t cap = 2 * (c->output_bytes + n + 1);
    char *grown = realloc(c->output, cap);
    if (!grown)
      return;
    c->output = grown;
    c->output_cap = cap;
  }
  memcpy(c->output + c->output_bytes, text, n);
  c->output_bytes += n;
  c->output[c->output_bytes] = 0;
}
static void on_warn(void *user, const char *text)
{
  cli *c = user;

  if (!c->capture)
    fprintf(stderr, "rushlight: warning: %s\n", text);
}

static bool parse_number(const char *text, double *out)
{
  char *end;

  *out = strtod(text, &end);
  return *text && !*end && *out >= 0;
}

/* Common options into c and the context's options.  0, or an exit code. */
static int common_options(cli *c, rush_context_options *o)
{
  static const char *const levels[] = {"native", "portable", "avx2", "avx512"};
  const char *value;
  double n;

  if ((value = cli_option(c, "--threads"))) {
    if (!parse_number(value, &n) || n < 1 || n > 4096)
      return cli_usage(NULL, "--threads takes a number from 1 to 4096, not '%s'", value);
    o->n_threads = (int)n;
  }
  if ((value = cli_option(c, "--seed"))) {
    char *end;
    c->seed = strtoull(value, &end, 0);
    if (*end || !*value)
      return cli_usage(NULL, "--seed takes a number, not '%s'", value);
  }
  if ((value = cli_option(c, "--max-seconds"))) {
    if (!parse_number(value, &n))
      return cli_usage(NULL, "--max-seconds takes a number of seconds, not '%s'", value);
    o->limit_seconds = n;
  }
  if ((value = cli_option(c, "--max-bytes"))) {
    if (!parse_number(value, &n))
      return cli_usage(NULL, "--max-bytes takes a number of bytes, not '%s'", value);
    o->limit_bytes = (size_t)n;
  }
  if ((value = cli_option(c, "--check"))) {
    if (strcmp(value, "full") != 0 && strcmp(value, "structure") != 0)
      return cli_usage(NULL, "--check takes structure or full, not '%s'", value);
    c->load.check_full = *value == 'f';
  }
  if ((value = cli_option(c, "--cpu"))) {
    int found = -1;
    for (int i = 0; i < 4; i++)
      if (strcmp(value, levels[i]) == 0)
        found = i;
    if (found < 0)
      return cli_usage(NULL, "--cpu takes native, portable, avx2 or avx512, not '%s'", value);
    o->cpu = (rush_cpu)found;
  }
  o->no_reuse = cli_flag(c, "--no-reuse");
  c->json = cli_flag(c, "--json");
  return 0;
}

static void print_help(void)
{
  printf("%s%s%s", help_text, rush_version(), help_rest);
}

int main(int argc, char **argv)
{
  rush_context_options options = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  cli c = {.load = RUSH_LOAD_OPTIONS_INIT, .call = RUSH_CALL_OPTIONS_INIT, .argc = argc - 1, .argv = argv + 1};

  if (cli_flag(&c, "--version")) {
    printf("rushlight %s\n", rush_version());
    return EXIT_OK;
  }
  if (cli_flag(&c, "--help") || cli_flag(&c, "-h")) {
    print_help();
    return EXIT_OK;
  }
  if (c.argc == 0) {
    print_help();
    return EXIT_USAGE;
  }
  const char *verb = c.argv[0];
  c.argv++;
  c.argc--;
  int code = common_options(&c, &options);
  if (code)
    return code;
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    if (strcmp(verbs[i].name, verb) != 0)
      continue;
    options.print = on_print;
    options.warn = on_warn;
    options.callback_user = &c;
    if (rush_context_create(&options, &c.context, &err) != RUSH_OK ||
        rush_manual_seed(c.context, c.seed, &err) != RUSH_OK)
      return cli_report(&err);
    code = cli_plugins(&c);
    if (code == EXIT_OK)
      code = verbs[i].run(&c);
    rush_context_release(c.context);
    free(c.output);
    return code;
  }
  return cli_usage(NULL, "there is no verb '%s': run, verify, bench, show", verb);
}
