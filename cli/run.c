/* run.c -- rushlight run: calls a method and prints the result. */
#include "cli.h"
#include "call.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static bool is_text(const char *path)
{
  size_t n = strlen(path);

  return n > 3 && strcmp(path + n - 3, ".py") == 0;
}

/* True if FUNCTION follows FILE.py.  Words that are values have priority. */
static bool names_function(const cli *c)
{
  static const char *const values[] = {"None", "True", "False", "inf", "nan"};
  const char *word = c->argc > 1 && is_text(c->argv[0]) ? c->argv[1] : "";

  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (strcmp(word, values[i]) == 0)
      return false;
  return *word && (*word < '0' || *word > '9') &&
         strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
           strlen(word);
}

bool call_parse(cli *c, const char *verb, call_args *a, int *code)
{
  rush_error err = RUSH_ERROR_INIT;

  memset(a, 0, sizeof *a);
  const char *method = cli_option(c, "--method");
  const char *unknown = cli_unknown_option(c);
  if (unknown) {
    *code = cli_bad_option(verb, unknown);
    return false;
  }
  bool is_named = !method && names_function(c);
  a->method = method ? method : is_named ? c->argv[1] : "forward";
  for (int i = is_named ? 2 : 1; i < c->argc; i++) {
    const char *text = c->argv[i];
    size_t name = cli_name_of(text);
    rush_value v;
    if (a->n_args + a->n_named >= CALL_MAX) {
      *code = cli_usage(verb, "more than %d arguments", CALL_MAX);
      call_free(a);
      return false;
    }
    if (!cli_value(c, name ? text + name + 1 : text, &v, &err)) {
      *code = err.message ? cli_report(c, &err) : EXIT_USAGE;
      call_free(a);
      return false;
    }
    if (name) {
      c->argv[i][name] = 0;
      a->named[a->n_named++] = (rush_named_value){text, v};
    } else {
      a->args[a->n_args++] = v;
    }
  }
  return true;
}

void call_default_method(const char *model, const rush_module *m, call_args *a)
{
  if (is_text(model) && strcmp(a->method, "forward") == 0 && rush_module_n_methods(m) == 1)
    a->method = rush_module_method_name(m, 0);
}

void call_free(call_args *a)
{
  for (size_t i = 0; i < a->n_args; i++)
    rush_value_release(a->args[i]);
  for (size_t i = 0; i < a->n_named; i++)
    rush_value_release(a->named[i].value);
  rush_value_release(a->samples);
}

/* Destination of the result, and what else is printed. */
typedef struct run_output {
  const char *path; /* NULL: the terminal */
  bool memory;      /* --memory */
  memory_use used;
} run_output;

static int print_result(cli *c, const run_output *to, rush_value result)
{
  rush_error err = RUSH_ERROR_INIT;
  int code = EXIT_OK;
  char *text;

  if (rush_value_to_text(c->context, result, true, &text, &err) != RUSH_OK)
    return cli_report(c, &err);
  if (!c->json) {
    printf("%s\n", text);
  } else { /* the text was made within the limits of depth and time, so JSON can be */
    printf("{\"result\": ");
    if (!cli_json_value(c, stdout, result, &err)) {
      printf("null}\n");
      code = cli_report(c, &err);
    } else {
      if (to->memory)
        printf(", \"memory\": {\"before_bytes\": %zu, \"expected_peak_bytes\": %zu, \"by\": "
               "\"measured\", \"peak_bytes\": %zu}",
               to->used.before, to->used.expected, to->used.peak);
      printf("}\n");
    }
  }
  rush_free_text(c->context, text);
  return code;
}

/* Write the result to a file, or to the terminal; the limit was only for the call. */
static int write_result(cli *c, const run_output *to, rush_value result)
{
  rush_error err = RUSH_ERROR_INIT;

  if (to->memory && !memory_end(c, &err))
    return cli_report(c, &err);
  if (!to->path)
    return print_result(c, to, result);
  return rush_value_save(c->context, to->path, result, &err) == RUSH_OK ? EXIT_OK
                                                                        : cli_report(c, &err);
}

static int call_method(cli *c, rush_module *m, const call_args *a, run_output *to)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value result;
  int code;

  if (to->memory && !memory_expect(c, m, a, &to->used, &code))
    return code;
  if (rush_module_call_named(m, a->method, a->args, a->n_args, a->named, a->n_named, &c->call,
                             &result, &err) != RUSH_OK)
    return cli_report(c, &err);
  if (to->memory)
    memory_print(&to->used, c);
  code = write_result(c, to, result);
  rush_value_release(result);
  return code;
}

static int call_model(cli *c, const char *model, run_output *to, call_args *a)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  int code;

  if (!cli_load(c, model, &m, &err))
    return cli_report(c, &err);
  call_default_method(model, m, a);
  if (call_complete(c, "run", model, m, a, &code))
    code = call_method(c, m, a, to);
  rush_module_release(m);
  return code;
}

int cli_run(cli *c)
{
  const char *path = cli_option(c, "--output");
  call_args a;
  int code;

  path = path ? path : cli_option(c, "-o");
  run_output to = {.path = path, .memory = cli_flag(c, "--memory")};
  if (c->argc < 1)
    return cli_usage("run", "takes a model file");
  if (path && c->json)
    return cli_usage(
      "run", "--json writes the result to standard output, --output to a file: one of them");
  if (!call_parse(c, "run", &a, &code))
    return code;
  code = call_model(c, c->argv[0], &to, &a);
  call_free(&a);
  return code;
}
