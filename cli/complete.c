/* complete.c -- calls without arguments: uses the sample inputs of an exported program, or prints
 * an example of the arguments that are needed. */
#include "call.h"

#include <string.h>

#define EXAMPLE_BYTES 4096

typedef struct example {
  char text[EXAMPLE_BYTES];
  size_t n;
} example;

static void put_example(example *e, const char *text)
{
  const size_t room = sizeof e->text - e->n;
  const int n = snprintf(e->text + e->n, room, "%s", text);

  e->n += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static bool is_float(rush_dtype d)
{
  return d == RUSH_FLOAT32 || d == RUSH_FLOAT64 || d == RUSH_FLOAT16 || d == RUSH_BFLOAT16;
}

/* Append "randn(1,3,224,224)", "zeros(2,9,dtype=int64)". */
static void put_described(example *e, const rush_signature_item *item)
{
  char number[32];

  put_example(e, is_float(item->dtype) ? "randn(" : "zeros(");
  if (item->n_sizes == 0)
    put_example(e, "[]");
  for (int i = 0; i < item->n_sizes; i++) {
    snprintf(number, sizeof number, "%s%lld", i ? "," : "",
             (long long)(item->sizes[i].value < 0 ? 2 : item->sizes[i].value));
    put_example(e, number);
  }
  if (item->dtype != RUSH_FLOAT32) {
    put_example(e, ",dtype=");
    put_example(e, rush_dtype_name(item->dtype));
  }
  put_example(e, ")");
}

static void put_typed(example *e, const char *type)
{
  static const struct { const char *type, *text;
  } examples[] = {{"Tensor", "randn(2,3)"},
                  {"int", "1"},
                  {"float", "0.5"},
                  {"bool", "True"},
                  {"str", "'text'"},
                  {"Optional[", "None"},
                  {"List[Tensor]", "[randn(2,3)]"},
                  {"List[int]", "[1, 2]"},
                  {"List[float]", "[0.5, 1.5]"},
                  {"List[str]", "['a', 'b']"},
                  {"List[", "[]"},
                  {"Dict[str, Tensor]", "{'a': randn(2,3)}"},
                  {"Dict[", "{}"}};

  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    const size_t n = strlen(examples[i].type);
    if (strncmp(type, examples[i].type, n) == 0 && (examples[i].type[n - 1] == '[' || !type[n])) {
      put_example(e, examples[i].text);
      return;
    }
  }
  put_example(e, "...");
}

static void put_argument(example *e, const rush_signature_item *item, bool is_tensor)
{
  put_example(e, " \"");
  if (item->keyword_only) {
    put_example(e, item->name);
    put_example(e, "=");
  }
  if (strpbrk(item->name, "['."))
    put_example(e, "..."); /* a part of an argument */
  else if (item->is_described && is_tensor)
    put_described(e, item);
  else
    put_typed(e, item->type);
  put_example(e, "\"");
}

/* Describe the method's arguments, and write a command with them.  Returns 0 if it needs none. */
static size_t write_example(const rush_signature *s, example *needs, example *command)
{
  rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
  size_t n = 0, last = SIZE_MAX;

  for (size_t i = 0; rush_signature_input(s, i, &item); i++) {
    const bool is_tensor = strcmp(item.type, "Tensor") == 0;
    if (item.has_default)
      continue;
    put_example(needs, n++ ? ", " : "");
    put_example(needs, item.name);
    put_example(needs, ": ");
    put_example(needs, item.type);
    if (item.argument != last)
      put_argument(command, &item, is_tensor);
    last = item.argument;
  }
  return n;
}

static int refuse_inputs(const char *verb, const char *model, const char *method,
                         const rush_signature *s)
{
  example needs = {.n = 0}, command = {.n = 0};

  write_example(s, &needs, &command);
  return cli_usage(verb, "%s needs arguments: %s\nFor example: rushlight %s %s%s%s%s", method,
                   needs.text, verb, model, command.text,
                   strcmp(method, "forward") ? " --method " : "",
                   strcmp(method, "forward") ? method : "");
}

/* Use the arguments in (args, named). */
static bool take_samples(call_args *a, rush_value samples)
{
  const rush_value args = rush_value_item(samples, 0), named = rush_value_item(samples, 1);
  rush_value key, value;

  if (rush_value_len(args) > CALL_MAX || rush_value_len(named) > CALL_MAX)
    return false;
  for (size_t i = 0; i < rush_value_len(args); i++)
    a->args[a->n_args++] = rush_value_retain(rush_value_item(args, i));
  for (size_t i = 0; i < rush_value_len(named); i++) {
    rush_value_entry(named, i, &key, &value);
    a->named[a->n_named++] =
      (rush_named_value){rush_value_string(key, NULL), rush_value_retain(value)};
  }
  a->samples = samples; /* it has the names */
  return true;
}

bool call_complete(cli *c, const char *verb, const char *model, rush_module *m, call_args *a,
                   int *code)
{
  rush_error err = RUSH_ERROR_INIT;
  example needs = {.n = 0}, command = {.n = 0};
  rush_signature *s;
  rush_value samples;

  if (a->n_args + a->n_named > 0)
    return true;
  if (rush_module_signature(m, a->method, &s, &err) != RUSH_OK ||
      rush_module_samples(m, &samples, &err) != RUSH_OK) {
    *code = cli_report(c, &err);
    return false;
  }
  const bool is_ready = write_example(s, &needs, &command) == 0 ||
                        (samples.tag == RUSH_TAG_TUPLE && take_samples(a, samples));
  if (!a->samples.tag)
    rush_value_release(samples);
  if (!is_ready)
    *code = refuse_inputs(verb, model, a->method, s);
  else if (a->samples.tag)
    fprintf(stderr, "rushlight %s: no arguments: the sample inputs of %s are used\n", verb, model);
  rush_signature_release(s);
  return is_ready;
}
