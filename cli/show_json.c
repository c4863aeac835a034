/* show_json.c -- `show --json`: the views as data.  Each function prints one JSON value and a
 * newline. */
#include "show_json.h"

#include <string.h>

/* Return a dump's text, new, or NULL after reporting the reason. */
static char *text_of(cli *c, rush_module *m, rush_dump what, const char *method, int *code)
{
  rush_error err = RUSH_ERROR_INIT;
  char *text;

  if (rush_module_dump(m, what, method, &text, &err) == RUSH_OK)
    return text;
  *code = cli_report(c, &err);
  return NULL;
}

static void put_part(const char *text, size_t n)
{
  putchar('"');
  for (size_t i = 0; i < n; i++) {
    if (text[i] == '"' || text[i] == '\\')
      putchar('\\');
    putchar(text[i]);
  }
  putchar('"');
}

/* Convert lines "name count status" to [{"name", "count", "status"}]. */
static void put_ops(const char *text)
{
  const char *between = "[";

  for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    const size_t n = strcspn(line, " ");
    const char *count = line + n + strspn(line + n, " "), *status = count + strcspn(count, " ");
    printf("%s{\"name\": ", between);
    put_part(line, n);
    printf(", \"count\": %.*s, \"status\": ", (int)(status - count), count);
    status += status < end;
    put_part(status, (size_t)(end - status));
    putchar('}');
    between = ", ";
  }
  printf(*between == '[' ? "[]\n" : "]\n");
}

/* Convert lines "name(...) -> ..." to {name: schema}. */
static void put_schemas(const char *text)
{
  const char *between = "{";

  for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    printf("%s", between);
    put_part(line, strcspn(line, "("));
    printf(": ");
    put_part(line, (size_t)(end - line));
    between = ", ";
  }
  printf(*between == '{' ? "{}\n" : "}\n");
}

/* Convert lines "hash name" to {name: hash}. */
static void put_digest(const char *text)
{
  const char *between = "{";

  for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    const size_t n = strcspn(line, " ");
    printf("%s", between);
    put_part(line + n + 1, (size_t)(end - line) - n - 1);
    printf(": ");
    put_part(line, n);
    between = ", ";
  }
  printf(*between == '{' ? "{}\n" : "}\n");
}

/* -- Code: what was printed, by file and by function ------------------------------------------- */

typedef struct code_reader {
  /* "# code/__torch__.py": the name, or NULL: an exported program, or one method */
  const char *file;
  size_t file_n;
  const char *owner;     /* the class around, or NULL */
  size_t owner_n;
  unsigned line;         /* of the file, from 1 */
  bool in_function;
  size_t indent;         /* of the function's "def" */
  unsigned n_lines;      /* of the function so far */
  unsigned n_functions;
} code_reader;

static void end_function(code_reader *r)
{
  if (r->in_function)
    printf("]}");
  r->in_function = false;
}

/* Begin a function; `rest` is the text after "def ". */
static void begin_function(code_reader *r, const char *rest, size_t indent)
{
  const size_t n = strcspn(rest, "(");

  end_function(r);
  printf("%s{\"name\": \"%.*s%s%.*s\", \"file\": ", r->n_functions++ ? ",\n" : "\n",
         (int)(indent ? r->owner_n : 0), r->owner ? r->owner : "", indent && r->owner_n ? "." : "",
         (int)n, rest);
  if (r->file)
    put_part(r->file, r->file_n);
  else
    printf("null");
  printf(", \"line\": %u, \"lines\": [", r->line);
  r->in_function = true;
  r->indent = indent;
  r->n_lines = 0;
}

static void read_line(code_reader *r, const char *line, size_t n)
{
  const size_t indent = strspn(line, " ");

  if (n > 2 && memcmp(line, "# ", 2) == 0) {
    end_function(r);
    *r = (code_reader){.file = line + 2, .file_n = n - 2, .n_functions = r->n_functions};
    return;
  }
  r->line++;
  if (strncmp(line, "class ", 6) == 0) {
    end_function(r);
    r->owner = line + 6;
    r->owner_n = strcspn(line + 6, "(:");
  } else if (strncmp(line + indent, "def ", 4) == 0 && (!r->in_function || indent <= r->indent)) {
    begin_function(r, line + indent + 4, indent);
  } else if (r->in_function && indent <= r->indent && n > 0) {
    end_function(r);
  }
  if (!r->in_function || n == 0)
    return;
  printf("%s{\"line\": %u, \"text\": ", r->n_lines++ ? ", " : "", r->line);
  put_part(line, n);
  putchar('}');
}

/* Print {"functions": [{"name", "file", "line", "lines": [{"line", "text"}]}], "text"}: lines are
 * counted in the printed files. */
static void put_code(const char *text)
{
  code_reader r = {.line = 0};

  printf("{\"functions\": [");
  for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
    read_line(&r, line, (size_t)(end - line));
  end_function(&r);
  printf("],\n\"text\": ");
  cli_json_text(stdout, text);
  printf("}\n");
}

static int put_state(cli *c, rush_module *m)
{
  const size_t n = rush_module_n_state(m);
  rush_error err = RUSH_ERROR_INIT;

  printf("\"state\": [");
  for (size_t i = 0; i < n; i++) {
    bool is_parameter;
    rush_value v;
    char *name;
    if (rush_module_state_at(m, i, &name, &is_parameter, &v, &err) != RUSH_OK)
      return cli_report(c, &err);
    printf("%s{\"name\": ", i ? ", " : "");
    cli_json_text(stdout, name);
    printf(", \"kind\": \"%s\"", is_parameter ? "parameter" : "buffer");
    if (v.tag == RUSH_TAG_TENSOR && v.as.tensor) {
      printf(", \"dtype\": \"%s\", \"shape\": [", rush_dtype_name(rush_tensor_dtype(v.as.tensor)));
      for (int d = 0; d < rush_tensor_n_dims(v.as.tensor); d++)
        printf("%s%lld", d ? ", " : "", (long long)rush_tensor_sizes(v.as.tensor)[d]);
      putchar(']');
    }
    putchar('}');
    rush_free_text(c->context, name);
    rush_value_release(v);
  }
  putchar(']');
  return EXIT_OK;
}

static int put_summary(cli *c, rush_module *m)
{
  int code = EXIT_OK;
  char *text = text_of(c, m, RUSH_DUMP_SCHEMA, NULL, &code);

  if (!text)
    return code;
  const char *class = rush_value_class(rush_module_value(m));
  printf("{\"format\": \"%s\", \"class\": ",
         rush_module_format(m) == RUSH_FORMAT_EXPORT ? "torch.export" : "TorchScript");
  cli_json_text(stdout, class ? class : "");
  printf(", \"methods\": ");
  put_schemas(text);
  rush_free_text(c->context, text);
  printf(", ");
  code = put_state(c, m);
  printf(", \"extra_files\": [");
  for (size_t i = 0; i < rush_module_n_extra_files(m); i++) {
    const char *name = rush_module_extra_file(m, i, NULL, NULL);
    printf("%s", i ? ", " : "");
    cli_json_text(stdout, name ? name : "");
  }
  printf("]}\n");
  return code;
}

/* Return the dump that has a view's data, if there is one. */
static rush_dump data_of(rush_dump what)
{
  switch (what) {
  case RUSH_DUMP_GRAPH:
    return RUSH_DUMP_JSON;
  case RUSH_DUMP_BYTECODE:
    return RUSH_DUMP_BYTECODE_JSON;
  case RUSH_DUMP_ASM:
    return RUSH_DUMP_ASM_JSON;
  default:
    return what;
  }
}

int cli_show_json(cli *c, rush_module *m, rush_dump what, const char *method)
{
  int code = EXIT_OK;

  if (what == RUSH_DUMP_SUMMARY)
    return put_summary(c, m);
  char *text = text_of(c, m, data_of(what), method, &code);
  if (!text)
    return code;
  if (what == RUSH_DUMP_OPS) {
    put_ops(text);
  } else if (what == RUSH_DUMP_SCHEMA) {
    put_schemas(text);
  } else if (what == RUSH_DUMP_DIGEST) {
    put_digest(text);
  } else if (what == RUSH_DUMP_CODE) {
    put_code(text);
  } else if (data_of(what) != what || what == RUSH_DUMP_JSON) {
    fputs(text, stdout);
  } else {
    printf("{\"text\": ");
    cli_json_text(stdout, text);
    printf("}\n");
  }
  rush_free_text(c->context, text);
  return code;
}
