/* show.c -- rushlight show: the content of an archive.  Runs nothing of it, except for
 * --profile. */
#include "page.h"
#include "show_data.h"
#include "show_json.h"

#include <string.h>

/* Print, before a text of the program, which operators it cannot run: "# unknown operator:
 * myns::f". */
static void put_missing(cli *c, rush_module *m)
{
  char *ops;

  if (rush_module_dump(m, RUSH_DUMP_OPS, NULL, &ops, NULL) != RUSH_OK)
    return; /* the text itself contains the reason */
  for (const char *line = ops, *end; (end = strchr(line, '\n')); line = end + 1) {
    const bool is_unknown = end - line > 8 && memcmp(end - 8, " unknown", 8) == 0;
    const bool is_schema = end - line > 12 && memcmp(end - 12, " schema only", 12) == 0;
    const bool is_broken = end - line > 17 && memcmp(end - 17, " does not compile", 17) == 0;
    if (is_broken)
      printf("# function that does not compile: %.*s\n", (int)strcspn(line, " "), line);
    if (is_unknown || is_schema)
      printf("# %s: %.*s\n", is_unknown ? "unknown operator" : "operator that cannot run here",
             (int)strcspn(line, " "), line);
  }
  rush_free_text(c->context, ops);
}

static int dump(cli *c, rush_module *m, rush_dump what, const char *method)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (c->json)
    return cli_show_json(c, m, what, method);
  if (rush_module_dump(m, what, method, &text, &err) != RUSH_OK)
    return cli_report(c, &err);
  if (what == RUSH_DUMP_SUMMARY || what == RUSH_DUMP_CODE || what == RUSH_DUMP_GRAPH)
    put_missing(c, m);
  fputs(text, stdout);
  rush_free_text(c->context, text);
  return EXIT_OK;
}

static void put_limit(int64_t v, int64_t none)
{
  if (v == none)
    printf("null");
  else
    printf("%lld", (long long)v);
}

static void put_sizes(const rush_signature_item *item)
{
  printf(", \"dtype\": \"%s\", \"sizes\": [", rush_dtype_name(item->dtype));
  for (int i = 0; i < item->n_sizes; i++) {
    const rush_signature_size *size = &item->sizes[i];
    printf("%s{\"value\": ", i ? ", " : "");
    put_limit(size->value, -1);
    printf(", \"min\": ");
    put_limit(size->min, INT64_MIN);
    printf(", \"max\": ");
    put_limit(size->max, INT64_MAX);
    if (size->symbol) {
      printf(", \"symbol\": ");
      cli_json_text(stdout, size->symbol);
    }
    putchar('}');
  }
  putchar(']');
}

/* Print a default or constant as Python writes it. */
static int put_value(cli *c, const char *key, rush_value v)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_value_to_text(c->context, v, true, &text, &err) != RUSH_OK)
    return cli_report(c, &err);
  printf(", \"%s\": ", key);
  cli_json_text(stdout, text);
  rush_free_text(c->context, text);
  return EXIT_OK;
}

typedef bool item_at(const rush_signature *s, size_t i, rush_signature_item *out);

static int put_items(cli *c, const char *key, const rush_signature *s, item_at *at)
{
  rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
  int code = EXIT_OK;

  printf("\"%s\": [", key);
  for (size_t i = 0; code == EXIT_OK && at(s, i, &item); i++) {
    printf("%s{\"name\": ", i ? ", " : "");
    cli_json_text(stdout, item.name);
    printf(", \"type\": ");
    cli_json_text(stdout, item.type);
    printf(", \"argument\": %zu%s", item.argument,
           item.keyword_only ? ", \"keyword_only\": true" : "");
    if (item.is_described)
      put_sizes(&item);
    if (item.has_default || item.is_constant)
      code = put_value(c, item.has_default ? "default" : "constant", item.value);
    putchar('}');
  }
  putchar(']');
  return code;
}

static int put_signature(cli *c, rush_module *m, const char *method)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_signature *s;

  if (rush_module_signature(m, method, &s, &err) != RUSH_OK)
    return cli_report(c, &err);
  cli_json_text(stdout, method);
  printf(": {");
  int code = put_items(c, "inputs", s, rush_signature_input);
  if (code == EXIT_OK) {
    printf(", ");
    code = put_items(c, "outputs", s, rush_signature_output);
  }
  putchar('}');
  rush_signature_release(s);
  return code;
}

/* Print --signature --json: {method: {"inputs": [...], "outputs": [...]}}, for one method or for
 * all. */
static int signature_json(cli *c, rush_module *m, const char *method)
{
  const size_t n = method ? 1 : rush_module_n_methods(m);
  int code = EXIT_OK;

  putchar('{');
  for (size_t i = 0; i < n && code == EXIT_OK; i++) {
    printf("%s", i ? ", " : "");
    code = put_signature(c, m, method ? method : rush_module_method_name(m, i));
  }
  printf("}\n");
  return code;
}

/* Print what --check found. */
static int put_faults(cli *c, const char *faults)
{
  const bool ok = *faults == 0;

  if (c->json) {
    printf("{\"ok\": %s, \"faults\": ", ok ? "true" : "false");
    cli_json_text(stdout, faults);
    printf("}\n");
  } else {
    fputs(ok ? "every graph is well-formed, and its operators can run\n" : faults, stdout);
  }
  return ok ? EXIT_OK : EXIT_NEGATIVE;
}

/* Run --check: verify the graphs of everything that methods reach. */
static int check_program(cli *c, rush_module *m)
{
  rush_error err = RUSH_ERROR_INIT;
  char *faults;

  if (rush_module_dump(m, RUSH_DUMP_FAULTS, NULL, &faults, &err) != RUSH_OK)
    return cli_report(c, &err);
  const int code = put_faults(c, faults);
  rush_free_text(c->context, faults);
  return code;
}

/* Check an exported program by its rules alone: one that cannot be opened to run, or for another
 * dialect than its own.  Returns false, and nothing is printed, if it breaks none. */
static bool check_rules(cli *c, const char *dialect, int *code)
{
  rush_error err = RUSH_ERROR_INIT;
  char *faults;

  if (rush_export_verify(c->context, c->argv[0], &c->load, dialect, &faults, &err) != RUSH_OK) {
    if (dialect)
      *code = cli_report(c, &err);
    else
      rush_error_clear(&err);
    return dialect != NULL;
  }
  if (dialect && !faults)
    *code = cli_usage("show", "--dialect is for exported programs");
  const bool is_found = faults && *faults;
  if (is_found)
    *code = put_faults(c, faults);
  const bool is_exported = faults != NULL;
  rush_free_text(c->context, faults);
  return is_found || (dialect && !is_exported);
}

/* Return the program chosen by `--program NAME`; `--program` alone is a view: a word after it is a
 * name if another word is the MODEL. */
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

/* The views except --html and --check; `of_method`: of one method. */
static const struct view {
  const char *flag;
  rush_dump what;
  bool of_method;
} views[] = {{"--code", RUSH_DUMP_CODE, true},
             {"--graph", RUSH_DUMP_GRAPH, true},
             {"--bytecode", RUSH_DUMP_BYTECODE, true},
             {"--ops", RUSH_DUMP_OPS, false},
             {"--schema", RUSH_DUMP_SCHEMA, true},
             {"--dot", RUSH_DUMP_DOT, true},
             {"--digest", RUSH_DUMP_DIGEST, false},
             {"--optimized", RUSH_DUMP_OPTIMIZED, true},
             {"--groups", RUSH_DUMP_GROUPS, true},
             {"--phases", RUSH_DUMP_PHASES, true},
             {"--asm", RUSH_DUMP_ASM, true},
             {"--program", RUSH_DUMP_JSON, true},
             {"--signature", RUSH_DUMP_SIGNATURE, true},
             {"--fx", RUSH_DUMP_FX, false},
             {"--fx-graph", RUSH_DUMP_FX_GRAPH, false},
             {"--fx-code", RUSH_DUMP_FX_CODE, false},
             {"--ir", RUSH_DUMP_EXPORT_IR, false}};
#define N_VIEWS (sizeof views / sizeof *views)

static int two_views(const char *a, const char *b)
{
  return cli_usage("show", "%s and %s are two views: one at a time", a, b);
}

/* Remove the requested view from argv; NULL: the summary.  Two are an error, an exit code. */
static int take_view(cli *c, const char *first, const struct view **out)
{
  *out = NULL;
  for (size_t i = 0; i < N_VIEWS; i++) {
    if (!cli_flag(c, views[i].flag))
      continue;
    if (first || *out)
      return two_views(first ? first : (*out)->flag, views[i].flag);
    *out = &views[i];
  }
  return EXIT_OK;
}

/* Open the model, with the words after it as a call's arguments.  Returns EXIT_OK, then *m and *a
 * are the caller's, or another exit code. */
static int open_for_call(cli *c, const char *method, rush_module **m, call_args *a)
{
  rush_error err = RUSH_ERROR_INIT;
  int code;

  if (!call_parse(c, "show", a, &code))
    return code;
  a->method = method ? method : "forward";
  if (cli_load(c, c->argv[0], m, &err))
    return EXIT_OK;
  call_free(a);
  return cli_report(c, &err);
}

/* Run --html [--profile]: words after the model are then a call's arguments. */
static int show_page(cli *c, const char *path, bool is_profiled)
{
  const char *method = cli_option(c, "--method");
  const struct view *view;
  rush_module *m;
  call_args a = {0};
  int code;

  if (c->json)
    return cli_usage("show", "--html and --json are two forms: one of them");
  c->load.program = program_name(c);
  code = cli_flag(c, "--check") ? two_views("--html", "--check") : take_view(c, "--html", &view);
  if (code != EXIT_OK)
    return code;
  if (c->argc < 1 || (c->argc > 1 && !is_profiled && c->argv[1][0] != '-'))
    return cli_usage("show",
                     "--html takes one model file; with --profile also the arguments of a call");
  if ((code = open_for_call(c, method, &m, &a)) != EXIT_OK)
    return code;
  code = cli_page(c, m, path, is_profiled ? &a : NULL, method);
  rush_module_release(m);
  call_free(&a);
  return code;
}

/* Make four calls: the first is interpreted, the second makes the plan, the third prepares
 * operators;
 * *peak is the most bytes that the fourth used at once. */
static int call_to_plan(cli *c, rush_module *m, const call_args *a, size_t *peak)
{
  rush_memory before = RUSH_MEMORY_INIT, after = RUSH_MEMORY_INIT;

  for (int i = 0; i < 4; i++) {
    rush_error err = RUSH_ERROR_INIT;
    rush_value result;
    rush_memory_reset_peak(c->context);
    rush_memory_get(c->context, &before);
    if (rush_module_call_named(m, a->method, a->args, a->n_args, a->named, a->n_named, NULL,
                               &result, &err) != RUSH_OK)
      return cli_report(c, &err);
    rush_memory_get(c->context, &after);
    rush_value_release(result);
  }
  *peak = after.peak_bytes - before.live_bytes;
  return EXIT_OK;
}

/* Run --plan: words after the model are the arguments of calls that are made first. */
static int show_plans(cli *c, const char *method)
{
  const struct view *view;
  call_args a = {0};
  rush_module *m;
  size_t peak;
  int code;

  c->load.program = program_name(c);
  code = cli_flag(c, "--check") ? two_views("--plan", "--check") : take_view(c, "--plan", &view);
  if (code != EXIT_OK)
    return code;
  if (c->argc < 1)
    return cli_usage("show", "--plan takes a model file, and the arguments of a call");
  if ((code = open_for_call(c, method, &m, &a)) != EXIT_OK)
    return code;
  if (call_complete(c, "show", c->argv[0], m, &a, &code) &&
      (code = call_to_plan(c, m, &a, &peak)) == EXIT_OK &&
      (code = dump(c, m, RUSH_DUMP_PLANS, a.method)) == EXIT_OK)
    printf("the last call took %zu bytes at once, besides blocks that the thread keeps\n", peak);
  call_free(&a);
  rush_module_release(m);
  return code;
}

/* Handle a model that cannot be opened: a file of plain data is shown unless a view of programs was
 * requested. */
static int fail_load(cli *c, rush_error *err, bool is_summary)
{
  int code;

  if (!is_summary || err->status != RUSH_EFORMAT || strcmp(c->argv[0], "-") == 0 ||
      !show_data(c, c->argv[0], &code))
    return cli_report(c, err);
  rush_error_clear(err);
  return code;
}

/* Refuse options that the view would ignore. */
static int refuse_conflicts(const struct view *view, bool is_check, const char *method)
{
  if (is_check && view)
    return two_views(view->flag, "--check");
  if (method && !(view && view->of_method))
    return cli_usage(
      "show",
      "--method requires a view of methods, such as --graph or --code; %s shows the program",
      is_check ? "--check"
      : view   ? view->flag
               : "the summary");
  return EXIT_OK;
}

int cli_show(cli *c)
{
  const char *path = cli_option(c, "--output");
  bool is_profiled = cli_flag(c, "--profile");
  rush_error err = RUSH_ERROR_INIT;
  const struct view *view;
  rush_module *m;

  path = path ? path : cli_option(c, "-o");
  if (cli_flag(c, "--html"))
    return show_page(c, path, is_profiled);
  if (path || is_profiled)
    return cli_usage("show", "%s requires --html", path ? "--output" : "--profile");
  const char *method = cli_option(c, "--method"), *dialect = cli_option(c, "--dialect");
  if (cli_flag(c, "--plan"))
    return show_plans(c, method);
  c->load.program = program_name(c);
  int code = take_view(c, NULL, &view);
  bool is_check = code == EXIT_OK && cli_flag(c, "--check");
  if (code == EXIT_OK)
    code = refuse_conflicts(view, is_check, method);
  if (code == EXIT_OK && dialect && !is_check)
    code = cli_usage("show", "--dialect requires --check");
  if (code != EXIT_OK)
    return code;
  const char *unknown = cli_unknown_option(c);
  if (unknown)
    return cli_bad_option("show", unknown);
  if (c->argc != 1)
    return cli_usage("show", "takes one model file");
  if (dialect && check_rules(c, dialect, &code))
    return code;
  if (!cli_load(c, c->argv[0], &m, &err)) {
    if (is_check && check_rules(c, NULL, &code)) {
      rush_error_clear(&err);
      return code;
    }
    return fail_load(c, &err, !view && !is_check);
  }
  const rush_dump what = view ? view->what : RUSH_DUMP_SUMMARY;
  code = is_check                                 ? check_program(c, m)
         : what == RUSH_DUMP_SIGNATURE && c->json ? signature_json(c, m, method)
                                                  : dump(c, m, what, method);
  rush_module_release(m);
  return code;
}
