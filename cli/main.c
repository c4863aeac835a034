/* cli/main.c -- the command's entry: options common to all verbs, standard input, errors and exit
 * codes, and the dispatch to verbs. Options are removed from argv as they are read, in any order; a
 * remaining unknown one is a usage error. Output is flushed and checked at the end, because a full
 * disk must not look like success. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
  const char *name;
  int (*run)(cli *c);
} verbs[] = {{"run", cli_run},         {"verify", cli_verify}, {"bench", cli_bench},
             {"profile", cli_profile}, {"show", cli_show},     {"script", cli_script},
             {"record", cli_record},   {"gradcheck", cli_gradcheck},
             {"bind", cli_bind},       {"export", cli_export},
             {"decompose", cli_decompose}};

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

int cli_report(const cli *c, rush_error *err)
{
  int code = cli_exit(err->status);

  if (!err->message && err->status == RUSH_EARGUMENT) /* it was reported where it happened */
    return code;
  const char *message = err->message ? err->message : rush_status_name(err->status);

  if (c->json) {
    printf("{\"error\": {\"status\": ");
    cli_json_text(stdout, rush_status_name(err->status));
    printf(", \"type\": ");
    cli_json_text(stdout, err->type ? err->type : "");
    printf(", \"message\": ");
    cli_json_text(stdout, message);
    printf("}}\n");
  }
  fflush(stdout);
  if (err->traceback)
    fprintf(stderr, "%s", err->traceback);
  fprintf(stderr, "rushlight: %s%s%s\n", err->type ? err->type : "", err->type ? ": " : "",
          message);
  rush_error_clear(err);
  return code;
}

int cli_usage(const char *verb, const char *fmt, ...)
{
  va_list ap;

  va_start(ap, fmt);
  fprintf(stderr, "rushlight%s%s: ", verb ? " " : "", verb ? verb : "");
  vfprintf(stderr, fmt, ap);
  fprintf(stderr, "\nTry: rushlight %s%s--help\n", verb ? verb : "", verb ? " " : "");
  va_end(ap);
  return EXIT_USAGE;
}

/* -- Options ----------------------------------------------------------------------------------- */

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
    if (c->argv[i][0] == '-' && c->argv[i][1] &&
        (c->argv[i][1] == '-' || !strchr("0123456789.in", c->argv[i][1])))
      return c->argv[i];
  return NULL;
}

int cli_bad_option(const char *verb, const char *option)
{
  char name[64];
  const char *near;

  snprintf(name, sizeof name, "%.*s", (int)strcspn(option, "="), option);
  if (cli_has_option(verb, name))
    return cli_usage(verb, "the option '%s' was given twice, or its value is missing", name);
  if (cli_has_option(NULL, name)) {
    char takers[80];
    cli_takers(name, takers, sizeof takers);
    return cli_usage(verb, "'%s' is an option of %s, not of %s", name, takers, verb);
  }
  near = cli_near_option(verb, name);
  return cli_usage(verb,
                   near ? "there is no option '%s': did you mean '%s'?" : "there is no option '%s'",
                   option, near);
}

/* Refuse options of other verbs, instead of ignoring them.  Returns 0, or an exit code. */
static int refuse_foreign_options(const cli *c, const char *verb)
{
  char name[64];

  for (int i = 0; i < c->argc; i++) {
    if (strncmp(c->argv[i], "--", 2) != 0)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(c->argv[i], "="), c->argv[i]);
    if (cli_has_option(NULL, name) && !cli_has_option(verb, name))
      return cli_bad_option(verb, name);
  }
  return 0;
}

int cli_bad_choice(const char *option, const char *value, const char *const *choices,
                   const char *expected)
{
  suggestion s = {0};

  for (size_t i = 0; choices[i]; i++)
    cli_suggest_try(&s, value, choices[i]);
  return cli_usage(NULL, "%s takes %s, not '%s'%s%s%s", option, expected, value,
                   s.word ? ": did you mean '" : "", s.word ? s.word : "", s.word ? "'?" : "");
}

/* -- Standard input ---------------------------------------------------------------------------- */

static char *fail_stdin(rush_error *err, const char *why)
{
  fprintf(stderr, "rushlight: standard input %s\n", why);
  err->status = RUSH_EARGUMENT;
  return NULL;
}

char *cli_read_stdin(cli *c, size_t *n_bytes, rush_error *err)
{
  size_t n = 0, cap = (size_t)1 << 16, got;
  char *p = malloc(cap), *grown;

  if (c->read_stdin) {
    free(p);
    return fail_stdin(err, "can be used once: it is given as '-' and '@-', or several times");
  }
  c->read_stdin = true;
  while (p && (got = fread(p + n, 1, cap - n, stdin)) > 0) {
    n += got;
    if (n < cap)
      continue;
    grown = realloc(p, cap *= 2);
    if (!grown)
      free(p);
    p = grown;
  }
  if (!p || ferror(stdin)) {
    free(p);
    return fail_stdin(err, p ? "could not be read" : "is too large for the memory");
  }
  *n_bytes = n;
  return p;
}

bool cli_load(cli *c, const char *path, rush_module **out, rush_error *err)
{
  rush_load_options load = c->load;
  size_t n;

  if (strcmp(path, "-") != 0)
    return rush_module_load(c->context, path, &c->load, out, err) == RUSH_OK;
  char *bytes = cli_read_stdin(c, &n, err);
  if (!bytes)
    return false;
  load.name = "<standard input>";
  const rush_status st =
    rush_module_load_bytes(c->context, bytes, n, NULL, NULL, &load, out, err); /* copied */
  free(bytes);
  return st == RUSH_OK;
}

/* Write what programs print to stdout, or keep it for `verify`. */
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

/* True if --check has no value; `show` has a flag of that name. */
static bool has_bare_check(const cli *c)
{
  for (int i = 0; i < c->argc; i++)
    if (strcmp(c->argv[i], "--check") == 0)
      return i + 1 == c->argc ||
             (strcmp(c->argv[i + 1], "full") != 0 && strcmp(c->argv[i + 1], "structure") != 0);
  return false;
}

/* Read --dtype's value into c->dtype.  Returns 0, or an exit code. */
static int dtype_option(cli *c, const char *value)
{
  const char *names[RUSH_N_DTYPES + 1] = {NULL};
  int n_names = 0;

  for (int d = 0; d < RUSH_N_DTYPES; d++) {
    if (!rush_dtype_name((rush_dtype)d))
      continue;
    names[n_names++] = rush_dtype_name((rush_dtype)d);
    if (strcmp(names[n_names - 1], value) == 0)
      c->dtype = d;
  }
  return c->dtype < 0
           ? cli_bad_choice("--dtype", value, names, "a name such as float16, bfloat16 or float64")
           : 0;
}

/* Read --check; returns 0, or an exit code. */
static int check_option(cli *c, bool is_show)
{
  static const char *const checks[] = {"structure", "full", NULL};
  const char *value;

  if ((is_show && has_bare_check(c)) || !(value = cli_option(c, "--check")))
    return 0;
  if (strcmp(value, "full") != 0 && strcmp(value, "structure") != 0)
    return cli_bad_choice("--check", value, checks, "structure or full");
  c->load.check_full = *value == 'f';
  return 0;
}

/* Read common options into c and the context's options.  Returns 0, or an exit code. */
static int common_options(cli *c, rush_context_options *o, bool is_show)
{
  static const char *const levels[] = {"native", "portable", "avx2", "avx512", NULL};
  static const char *const executors[] = {"simple", "specialising", "profiling", NULL};
  const char *value;
  int code;
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
  if ((code = check_option(c, is_show)) != 0)
    return code;
  if ((value = cli_option(c, "--cpu"))) {
    int found = -1;
    for (int i = 0; i < 4; i++)
      if (strcmp(value, levels[i]) == 0)
        found = i;
    if (found < 0)
      return cli_bad_choice("--cpu", value, levels, "native, portable, avx2 or avx512");
    o->cpu = (rush_cpu)found;
  }
  if ((value = cli_option(c, "--dtype")) && (code = dtype_option(c, value)) != 0)
    return code;
  if ((value = cli_option(c, "--executor"))) {
    int found = 0;
    while (executors[found] && strcmp(value, executors[found]) != 0)
      found++;
    if (!executors[found])
      return cli_bad_choice("--executor", value, executors, "simple, specialising or profiling");
    o->executor = (rush_executor)(RUSH_EXECUTOR_SIMPLE + found);
  }
  if (!is_show)
    c->load.program = cli_option(c, "--program"); /* show.c reads its own */
  c->load.copy = cli_flag(c, "--copy");
  o->no_reuse = cli_flag(c, "--no-reuse");
  o->plan_first = cli_flag(c, "--plan-first");
  o->perf_map = cli_flag(c, "--perf-map");
  c->json = cli_flag(c, "--json");
  return 0;
}

static int no_verb(const char *word)
{
  const char *near = cli_near_verb(word);

  if (*word == '-')
    return cli_usage(NULL, "the verb comes before the options: rushlight VERB MODEL %s", word);
  if (near)
    return cli_usage(NULL, "there is no verb '%s': did you mean '%s'?", word, near);
  return cli_usage(NULL,
                   "there is no verb '%s': run, record, verify, bench, profile, gradcheck, bind, "
                   "export, decompose, show, script",
                   word);
}

/* True for a word that can only be a model's name: with a dot or slash, and not an option. */
static bool is_path(const char *word) { return *word != '-' && strpbrk(word, "./") != NULL; }

/* Run rushlight help [VERB]. */
static int help_verb(const cli *c)
{
  const char *verb = c->argc > 1 && strcmp(c->argv[1], "help") != 0 ? c->argv[1] : NULL;

  if (verb && !cli_is_verb(verb))
    return no_verb(verb);
  cli_help(verb);
  return EXIT_OK;
}

/* Run the command, except for the end: see main. */
static int run_command(int argc, char **argv)
{
  rush_context_options options = RUSH_CONTEXT_OPTIONS_INIT;
  rush_error err = RUSH_ERROR_INIT;
  cli c = {.load = RUSH_LOAD_OPTIONS_INIT,
           .call = RUSH_CALL_OPTIONS_INIT,
           .argc = argc - 1,
           .argv = argv + 1,
           .dtype = -1};

  options.stack_bytes = (size_t)64 << 20; /* all that the thread has */
  if (cli_flag(&c, "--version")) {
    printf("rushlight %s\n", rush_version());
    return EXIT_OK;
  }
  if (cli_flag(&c, "--help") || cli_flag(&c, "-h")) {
    cli_help(c.argc ? c.argv[0] : NULL);
    return EXIT_OK;
  }
  if (c.argc == 0) {
    cli_help(NULL);
    return EXIT_USAGE;
  }
  if (strcmp(c.argv[0], "help") == 0)
    return help_verb(&c);
  const char *verb = c.argv[0];
  if (is_path(verb)) {
    verb = "show"; /* rushlight model.pt */
  } else {
    c.argv++;
    c.argc--;
  }
  int code = cli_is_verb(verb) ? refuse_foreign_options(&c, verb) : no_verb(verb);
  if (code == 0)
    code = common_options(&c, &options, strcmp(verb, "show") == 0);
  if (code)
    return code;
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
    if (strcmp(verbs[i].name, verb) != 0)
      continue;
    options.print = on_print;
    options.warn = on_warn;
    options.callback_user = &c;
    c.options = &options;
    const char *passes = cli_option(&c, "--passes");
    if (rush_context_create(&options, &c.context, &err) != RUSH_OK ||
        (passes && rush_context_add_passes(c.context, passes, &err) != RUSH_OK) ||
        rush_manual_seed(c.context, c.seed, &err) != RUSH_OK)
      return cli_report(&c, &err);
    code = cli_plugins(&c);
    if (code == EXIT_OK)
      code = verbs[i].run(&c);
    rush_context_release(c.context);
    free(c.output);
    return code;
  }
  return no_verb(verb);
}

/* Output is buffered, so a full disk shows when the last of it is written: an answer that was not
 * delivered is a failure. */
int main(int argc, char **argv)
{
  int code = run_command(argc, argv);

  errno = 0;
  bool failed = fflush(stdout) != 0;
  if (!failed && !ferror(stdout))
    return code;
  fprintf(stderr, "rushlight: standard output could not be written%s%s\n",
          failed && errno ? ": " : "", failed && errno ? strerror(errno) : "");
  return code == EXIT_OK || code == EXIT_NEGATIVE ? EXIT_REFUSED : code;
}
