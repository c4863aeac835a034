/* bind.c -- rushlight bind: writes a C header with a typed function for a program's method.
 *
 * The method's signature says what goes in and out: names, dtypes and sizes are those of an
 * exported program, or of the example arguments on the command line and their result.  The header
 * has a struct of inputs, a struct of outputs and one static function, in C that C++ reads too; it
 * needs rushlight.h and nothing else.  Sizes that may differ from call to call are fields, named as
 * the program names them; the library checks them as in any call.  The results' buffers are the
 * caller's: they are filled in place where their sizes are known before the call, else copied to.
 * Rejected: generating the wrapper as a source file, which would need a build rule. */
#include "call.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PORTS 256
#define MOST_DIMS 64
#define NAME_BYTES 64

typedef enum port_kind { PORT_TENSOR, PORT_INT, PORT_FLOAT, PORT_BOOL, PORT_CONSTANT } port_kind;

typedef struct port_size {
  int64_t value;       /* if `symbol` is NULL */
  const char *symbol;  /* borrowed: a name or a formula of names */
  int64_t min, max;
} port_size;

typedef struct port { /* an input or output */
  port_kind kind;
  char field[NAME_BYTES];
  const char *label;   /* borrowed: the signature's name */
  rush_dtype dtype;
  int n_sizes;
  port_size sizes[MOST_DIMS];
  rush_value constant; /* borrowed */
  bool keyword_only;   /* an input: passed by its label */
  size_t number, item; /* an output: its number, and that of the result's item */
} port;

typedef struct binding {
  cli *c;
  const char *model, *method;
  char prefix[NAME_BYTES], guard[NAME_BYTES + 16], function[2 * NAME_BYTES];
  port *in, *out;
  size_t n_in, n_out;
  FILE *f;
} binding;

/* -- Names and types --------------------------------------------------------------------------- */

/* Make a C identifier of a name: other characters become '_', and it does not end as a keyword. */
static void identifier(const char *name, char out[NAME_BYTES])
{
  static const char *const taken[] = {
    "auto", "break", "bool", "case", "char", "class", "const", "continue", "default", "delete",
    "do", "double", "else", "enum", "extern", "false", "float", "for", "goto", "if", "in", "inline",
    "int", "long", "namespace", "new", "operator", "out", "private", "public", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "template",
    "this", "true", "try", "typedef", "union", "unsigned", "using", "virtual", "void", "volatile",
    "while"};
  size_t n = 0;

  if (!isalpha((unsigned char)*name) && *name != '_')
    out[n++] = '_';
  for (; *name && n < NAME_BYTES - 5; name++)
    if (isalnum((unsigned char)*name))
      out[n++] = *name;
    else if (n && out[n - 1] != '_')
      out[n++] = '_';
  while (n > 1 && out[n - 1] == '_')
    n--;
  out[n] = '\0';
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (strcmp(out, taken[i]) == 0)
      strcat(out, "_");
}

static void set_field(port *ports, size_t n, const char *name)
{
  char base[NAME_BYTES];
  unsigned number = 1;

  identifier(name, base);
  memcpy(ports[n].field, base, sizeof base);
  for (size_t i = 0; i < n; i++)
    if (strcmp(ports[i].field, ports[n].field) == 0) {
      snprintf(ports[n].field, NAME_BYTES, "%.50s_%u", base, ++number);
      i = (size_t)-1;
    }
}

/* Return the C type of an element, or NULL if there is none. */
static const char *c_type(rush_dtype dtype)
{
  switch (dtype) {
  case RUSH_BOOL: return "bool";
  case RUSH_UINT8: return "uint8_t";
  case RUSH_INT8: return "int8_t";
  case RUSH_INT16: return "int16_t";
  case RUSH_INT32: return "int32_t";
  case RUSH_INT64: return "int64_t";
  case RUSH_UINT16: case RUSH_FLOAT16: case RUSH_BFLOAT16: return "uint16_t";
  case RUSH_UINT32: return "uint32_t";
  case RUSH_UINT64: return "uint64_t";
  case RUSH_FLOAT32: return "float";
  case RUSH_FLOAT64: return "double";
  default: return NULL;
  }
}

/* Return the enumerator of a dtype with a C type. */
static const char *enumerator(rush_dtype dtype)
{
  static char text[32];
  size_t n = (size_t)snprintf(text, sizeof text, "RUSH_%s", rush_dtype_name(dtype));

  for (size_t i = 0; i < n; i++)
    text[i] = (char)toupper((unsigned char)text[i]);
  return text;
}

/* True if C computes the formula: names, numbers, + - * and parentheses. */
static bool is_c(const char *formula)
{
  for (const char *p = formula; *p; p++)
    if ((!isalnum((unsigned char)*p) && !strchr("_+-* ()", *p)) || (*p == '*' && p[1] == '*') ||
        (*p == '(' && p > formula && (isalnum((unsigned char)p[-1]) || p[-1] == '_')))
      return false;
  return true;
}

static bool is_name(const char *formula)
{
  for (const char *p = formula; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '_')
      return false;
  return !isdigit((unsigned char)*formula);
}

/* -- Reading the signature --------------------------------------------------------------------- */

static int refuse(const binding *b, const port *p, const char *why)
{
  return cli_usage("bind", "%s: '%s' %s", b->model, p->label, why);
}

/* Describe a tensor, number or bool by an example. */
static bool by_example(port *p, rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_INT: p->kind = PORT_INT; return true;
  case RUSH_TAG_FLOAT: p->kind = PORT_FLOAT; return true;
  case RUSH_TAG_BOOL: p->kind = PORT_BOOL; return true;
  case RUSH_TAG_TENSOR: break;
  default: return false;
  }
  p->kind = PORT_TENSOR;
  p->dtype = rush_tensor_dtype(v.as.tensor);
  p->n_sizes = rush_tensor_n_dims(v.as.tensor);
  for (int i = 0; i < p->n_sizes && i < MOST_DIMS; i++)
    p->sizes[i] = (port_size){.value = rush_tensor_sizes(v.as.tensor)[i]};
  return p->n_sizes <= MOST_DIMS;
}

static bool by_signature(port *p, const rush_signature_item *item)
{
  if (strcmp(item->type, "Tensor") == 0 && item->is_described && item->n_sizes <= MOST_DIMS) {
    p->kind = PORT_TENSOR;
    p->dtype = item->dtype;
    p->n_sizes = item->n_sizes;
    for (int i = 0; i < item->n_sizes; i++)
      p->sizes[i] = (port_size){item->sizes[i].value, item->sizes[i].symbol, item->sizes[i].min,
                                item->sizes[i].max};
    return true;
  }
  p->kind = strcmp(item->type, "int") == 0     ? PORT_INT
            : strcmp(item->type, "float") == 0 ? PORT_FLOAT
            : strcmp(item->type, "bool") == 0  ? PORT_BOOL
                                               : PORT_TENSOR;
  return p->kind != PORT_TENSOR;
}

/* Read input or output i; `example` is its value, or NULL. */
static int add_port(binding *b, port *ports, size_t *n, size_t number,
                    const rush_signature_item *item, const rush_value *example)
{
  port *p = &ports[*n];

  if (*n == MOST_PORTS)
    return cli_usage("bind", "%s: more than %d inputs or outputs", b->model, MOST_PORTS);
  *p = (port){.label = item->name, .keyword_only = item->keyword_only, .number = number,
              .item = item->argument};
  if (strchr(item->name, '[') && ports == b->in)
    return refuse(b, p, "is inside of a list, tuple or dict: bind takes arguments that are tensors "
                        "and numbers");
  set_field(ports, *n, item->name);
  if (item->is_constant) {
    p->kind = PORT_CONSTANT;
    p->constant = item->value;
    if (p->constant.tag != RUSH_TAG_NONE && p->constant.tag != RUSH_TAG_INT &&
        p->constant.tag != RUSH_TAG_BOOL &&
        (p->constant.tag != RUSH_TAG_FLOAT || !isfinite(p->constant.as.d)))
      return refuse(b, p, "must always be a value that is no finite number");
  } else if (!by_signature(p, item) && !(example && by_example(p, *example))) {
    return refuse(b, p, strcmp(item->type, "Tensor") == 0 && !example
                          ? "is a tensor whose dtype and sizes the file does not say: give example "
                            "arguments, bind MODEL 'randn(1,8)'"
                          : "is neither a tensor nor a number");
  }
  if (p->kind == PORT_TENSOR && !c_type(p->dtype))
    return refuse(b, p, "has a dtype for which C has no type");
  ++*n;
  return EXIT_OK;
}

/* Return output i of a result: itself, or an item of a tuple; NULL: neither. */
static const rush_value *output_of(const rush_value *result, size_t i, size_t n, rush_value *item)
{
  if (!result || n == 1)
    return result && result->tag != RUSH_TAG_TUPLE ? result : NULL;
  if (result->tag != RUSH_TAG_TUPLE || rush_value_len(*result) != n)
    return NULL;
  *item = rush_value_item(*result, i);
  return item;
}

static int read_ports(binding *b, const rush_signature *s, const call_args *a,
                      const rush_value *result)
{
  int code = EXIT_OK;

  for (size_t i = 0; i < rush_signature_n_inputs(s) && code == EXIT_OK; i++) {
    rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
    rush_signature_input(s, i, &item);
    if (result && i >= a->n_args && item.has_default)
      continue; /* an argument that the example leaves out */
    code = add_port(b, b->in, &b->n_in, i, &item, result && i < a->n_args ? &a->args[i] : NULL);
  }
  for (size_t i = 0; i < rush_signature_n_outputs(s) && code == EXIT_OK; i++) {
    rush_signature_item item = RUSH_SIGNATURE_ITEM_INIT;
    rush_value one;
    rush_signature_output(s, i, &item);
    if (strcmp(item.type, "None") != 0)
      code = add_port(b, b->out, &b->n_out, i, &item,
                      output_of(result, i, rush_signature_n_outputs(s), &one));
  }
  return code;
}

/* -- Sizes that differ from call to call ------------------------------------------------------- */

typedef struct symbol {
  const char *name;      /* borrowed */
  char value[NAME_BYTES + 8]; /* the C expression that has it */
} symbol;

typedef struct symbols {
  symbol at[MOST_PORTS];
  size_t n;
} symbols;

static const symbol *find_symbol(const symbols *s, const char *name, size_t len)
{
  for (size_t i = 0; i < s->n; i++)
    if (strlen(s->at[i].name) == len && memcmp(s->at[i].name, name, len) == 0)
      return &s->at[i];
  return NULL;
}

static void add_symbol(symbols *s, const char *name, const char *field)
{
  if (s->n < MOST_PORTS && !find_symbol(s, name, strlen(name))) {
    s->at[s->n].name = name;
    snprintf(s->at[s->n++].value, sizeof s->at->value, "in->%s", field);
  }
}

/* Return the length of the name that starts at p, or 0. */
static size_t name_at(const char *p)
{
  size_t n = 0;

  while (isalnum((unsigned char)p[n]) || p[n] == '_')
    n++;
  return isdigit((unsigned char)*p) ? 0 : n;
}

/* True if C can compute the size from the symbols. */
static bool is_computed(const symbols *s, const port_size *size)
{
  if (!size->symbol)
    return size->value >= 0;
  if (!is_c(size->symbol))
    return false;
  for (const char *p = size->symbol; *p;) {
    const size_t n = name_at(p);
    if (n && !find_symbol(s, p, n))
      return false;
    p += n ? n : 1;
    while (!n && isdigit((unsigned char)*p))
      p++;
  }
  return true;
}

static void print_size(const binding *b, const symbols *s, const port_size *size)
{
  if (!size->symbol) {
    fprintf(b->f, "%lld", (long long)size->value);
    return;
  }
  for (const char *p = size->symbol; *p;) {
    const size_t n = name_at(p);
    if (n)
      fputs(find_symbol(s, p, n)->value, b->f);
    else
      fputc(*p, b->f);
    p += n ? n : 1;
  }
}

/* -- Structs ----------------------------------------------------------------------------------- */

/* Print a text of the file's inside of a comment, which it cannot end. */
static void print_comment(const binding *b, const char *text)
{
  for (const char *p = text; *p; p++)
    fputc(!isprint((unsigned char)*p) || (*p == '/' && p > text && p[-1] == '*') ? ' ' : *p, b->f);
}

/* Print a string literal. */
static void print_literal(const binding *b, const char *text)
{
  fputc('"', b->f);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++)
    if (isalnum(*p) || strchr("_. []", *p))
      fputc(*p, b->f);
    else
      fprintf(b->f, "\\%03o", *p);
  fputc('"', b->f);
}

static void print_kind(const binding *b, const port *p)
{
  fprintf(b->f, "%s[", rush_dtype_name(p->dtype));
  for (int i = 0; i < p->n_sizes; i++) {
    fputs(i ? ", " : "", b->f);
    if (p->sizes[i].symbol)
      print_comment(b, p->sizes[i].symbol);
    else
      fprintf(b->f, "%lld", (long long)p->sizes[i].value);
  }
  fputc(']', b->f);
}

/* Print the fields of sizes that nothing before says, and note them. */
static void print_size_fields(const binding *b, const port *p, symbols *s)
{
  for (int i = 0; i < p->n_sizes; i++) {
    const port_size *size = &p->sizes[i];
    if (!size->symbol || !is_name(size->symbol) ||
        find_symbol(s, size->symbol, strlen(size->symbol)))
      continue;
    fprintf(b->f, "  int64_t %s; /* size %d of ", size->symbol, i);
    print_comment(b, p->label);
    if (size->min != INT64_MIN)
      fprintf(b->f, ", at least %lld", (long long)size->min);
    if (size->max != INT64_MAX)
      fprintf(b->f, ", at most %lld", (long long)size->max);
    fputs(" */\n", b->f);
    add_symbol(s, size->symbol, size->symbol);
  }
}

static const char *number_type(const port *p)
{
  return p->kind == PORT_INT ? "int64_t" : p->kind == PORT_FLOAT ? "double" : "bool";
}

static int print_inputs(const binding *b, symbols *s)
{
  bool any = false;

  fprintf(b->f, "typedef struct %s_inputs {\n", b->prefix);
  for (size_t i = 0; i < b->n_in; i++) {
    const port *p = &b->in[i];
    if (p->kind == PORT_INT && p->n_sizes == 1 && p->sizes[0].symbol && is_name(p->sizes[0].symbol))
      add_symbol(s, p->sizes[0].symbol, p->field);
  }
  for (size_t i = 0; i < b->n_in; i++) {
    const port *p = &b->in[i];
    any |= p->kind != PORT_CONSTANT;
    if (p->kind == PORT_TENSOR) {
      print_size_fields(b, p, s);
      fprintf(b->f, "  const %s *%s; /* ", c_type(p->dtype), p->field);
      print_kind(b, p);
      fputs(", row-major */\n", b->f);
    } else if (p->kind != PORT_CONSTANT) {
      fprintf(b->f, "  %s %s;\n", number_type(p), p->field);
    }
  }
  fprintf(b->f, "%s} %s_inputs;\n\n", any ? "" : "  char none; /* there are none */\n", b->prefix);
  for (size_t i = 0; i < b->n_in; i++)
    for (int k = 0; b->in[i].kind == PORT_TENSOR && k < b->in[i].n_sizes; k++)
      if (!is_computed(s, &b->in[i].sizes[k]))
        return refuse(b, &b->in[i], "has a size that C cannot compute from the other sizes");
  return EXIT_OK;
}

static void print_outputs(const binding *b)
{
  fprintf(b->f, "typedef struct %s_outputs {\n", b->prefix);
  for (size_t i = 0; i < b->n_out; i++) {
    const port *p = &b->out[i];
    if (p->kind != PORT_TENSOR) {
      fprintf(b->f, "  %s %s; /* set by the call */\n", number_type(p), p->field);
      continue;
    }
    fprintf(b->f, "  %s *%s; /* ", c_type(p->dtype), p->field);
    print_kind(b, p);
    fprintf(b->f,
            ": the caller's buffer of %s_room elements; NULL: not wanted */\n  size_t %s_room;\n",
            p->field, p->field);
    fprintf(b->f, "  int64_t %s_sizes[%d]; /* set by the call */\n", p->field,
            p->n_sizes ? p->n_sizes : 1);
  }
  fprintf(b->f, "%s} %s_outputs;\n\n", b->n_out ? "" : "  char none; /* there are none */\n",
          b->prefix);
}

/* -- The function ------------------------------------------------------------------------------ */

static const char helpers[] =
  "/* What the functions of such headers share. */\n"
  "#ifndef RUSHLIGHT_BIND\n"
  "#define RUSHLIGHT_BIND\n"
  "static inline rush_status rush_bind_tensor(rush_context *c, rush_dtype dtype, int n,\n"
  "                                           const int64_t *sizes, const void *data,\n"
  "                                           rush_value *out, rush_error *err)\n"
  "{\n"
  "  return rush_tensor_wrap(c, dtype, n, sizes, NULL, (void *)(uintptr_t)data, NULL, NULL, out, "
  "err);\n"
  "}\n"
  "\n"
  "static inline bool rush_bind_fits(int n, const int64_t *sizes, size_t room)\n"
  "{\n"
  "  size_t need = 1;\n"
  "  for (int i = 0; i < n; i++) {\n"
  "    if (sizes[i] < 0 || (sizes[i] && need > SIZE_MAX / (size_t)sizes[i]))\n"
  "      return false;\n"
  "    need *= (size_t)sizes[i];\n"
  "  }\n"
  "  return need <= room;\n"
  "}\n"
  "\n"
  "static inline rush_status rush_bind_copy(rush_context *c, rush_value v, rush_dtype dtype, int "
  "n,\n"
  "                                         int64_t *sizes, void *to, size_t room, rush_error "
  "*err)\n"
  "{\n"
  "  rush_value flat;\n"
  "  rush_status st;\n"
  "  if (v.tag != RUSH_TAG_TENSOR || rush_tensor_dtype(v.as.tensor) != dtype ||\n"
  "      rush_tensor_n_dims(v.as.tensor) != n)\n"
  "    return rush_host_fail(err, RUSH_EARGUMENT, \"TypeError\",\n"
  "                          \"a result has another dtype or rank than the header says\");\n"
  "  memcpy(sizes, rush_tensor_sizes(v.as.tensor), (size_t)n * sizeof *sizes);\n"
  "  if (!rush_bind_fits(n, sizes, room))\n"
  "    return rush_host_fail(err, RUSH_EARGUMENT, \"ValueError\", \"a result's buffer is too "
  "small\");\n"
  "  st = rush_tensor_contiguous(c, v.as.tensor, &flat, err);\n"
  "  if (st == RUSH_OK) {\n"
  "    memcpy(to, rush_tensor_data(flat.as.tensor),\n"
  "           (size_t)rush_tensor_n_elems(flat.as.tensor) * rush_dtype_bytes(dtype));\n"
  "    rush_value_release(flat);\n"
  "  }\n"
  "  return st;\n"
  "}\n"
  "#endif\n\n";

static void print_sizes(const binding *b, const symbols *s, const port *p)
{
  fputs("    const int64_t sizes_[] = {", b->f);
  for (int i = 0; i < p->n_sizes; i++) {
    fputs(i ? ", " : "", b->f);
    print_size(b, s, &p->sizes[i]);
  }
  fprintf(b->f, "%s};\n", p->n_sizes ? "" : "0");
}

static void print_constant(const binding *b, rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_INT: fprintf(b->f, "rush_value_int(INT64_C(%lld))", (long long)v.as.i); break;
  case RUSH_TAG_BOOL: fprintf(b->f, "rush_value_bool(%s)", v.as.b ? "true" : "false"); break;
  case RUSH_TAG_FLOAT: fprintf(b->f, "rush_value_float(%.17g)", v.as.d); break;
  default: fputs("rush_value_none()", b->f); break;
  }
}

static void print_input(const binding *b, const symbols *s, size_t i)
{
  const port *p = &b->in[i];

  if (p->kind == PORT_TENSOR) {
    fputs("  if (st_ == RUSH_OK) {\n", b->f);
    print_sizes(b, s, p);
    fprintf(b->f, "    st_ = rush_bind_tensor(c, %s, %d, sizes_, in->%s, &args_[%zu], err);\n  }\n",
            enumerator(p->dtype), p->n_sizes, p->field, i);
    return;
  }
  fprintf(b->f, "  args_[%zu] = ", i);
  if (p->kind == PORT_CONSTANT)
    print_constant(b, p->constant);
  else
    fprintf(b->f, "rush_value_%s(in->%s)",
            p->kind == PORT_INT ? "int" : p->kind == PORT_FLOAT ? "float" : "bool", p->field);
  fputs(";\n", b->f);
}

/* True if the buffer can be given to the call: its sizes are known before. */
static bool is_filled_in_place(const symbols *s, const port *p)
{
  bool known = p->kind == PORT_TENSOR;

  for (int i = 0; i < p->n_sizes && known; i++)
    known = is_computed(s, &p->sizes[i]);
  return known;
}

static void print_buffer(const binding *b, const symbols *s, const port *p)
{
  fprintf(b->f, "  if (st_ == RUSH_OK && out->%s) {\n", p->field);
  print_sizes(b, s, p);
  fprintf(b->f,
          "    memcpy(out->%s_sizes, sizes_, %d * sizeof *sizes_);\n"
          "    st_ = rush_bind_fits(%d, sizes_, out->%s_room)\n"
          "            ? rush_bind_tensor(c, %s, %d, sizes_, out->%s, &outputs_[%zu], err)\n"
          "            : rush_host_fail(err, RUSH_EARGUMENT, \"ValueError\",\n"
          "                             \"the buffer %s is too small\");\n  }\n",
          p->field, p->n_sizes, p->n_sizes, p->field, enumerator(p->dtype), p->n_sizes, p->field,
          p->number, p->field);
}

/* Take an output from the result. */
static void print_taken(const binding *b, const port *p, size_t n_outputs)
{
  char from[64];

  if (n_outputs == 1)
    snprintf(from, sizeof from, "result_");
  else
    snprintf(from, sizeof from, "rush_value_item(result_, %zu)", p->item);
  if (p->kind == PORT_TENSOR) {
    fprintf(b->f,
            "  if (st_ == RUSH_OK && out->%s)\n"
            "    st_ = rush_bind_copy(c, %s, %s, %d, out->%s_sizes, out->%s, out->%s_room, err);\n",
            p->field, from, enumerator(p->dtype), p->n_sizes, p->field, p->field, p->field);
    return;
  }
  fprintf(b->f, "  if (st_ == RUSH_OK)\n    out->%s = %s.as.%s;\n", p->field, from,
          p->kind == PORT_INT ? "i" : p->kind == PORT_FLOAT ? "d" : "b");
}

static void print_call(const binding *b, size_t n_positional, size_t n_outputs)
{
  const size_t n_named = b->n_in - n_positional;

  fputs("  if (st_ == RUSH_OK) {\n", b->f);
  if (n_named) {
    fputs("    const rush_named_value named_[] = {", b->f);
    for (size_t i = n_positional; i < b->n_in; i++) {
      fputs(i > n_positional ? ", {" : "{", b->f);
      print_literal(b, b->in[i].label);
      fprintf(b->f, ", args_[%zu]}", i);
    }
    fputs("};\n", b->f);
  }
  fprintf(b->f,
          "    options_.no_grad = true;\n    options_.outputs = outputs_;\n"
          "    options_.n_outputs = %zu;\n    st_ = rush_module_call_named(m, ",
          n_outputs);
  print_literal(b, b->method);
  fprintf(b->f, ", args_, %zu, %s, %zu, &options_, &result_, err);\n  }\n", n_positional,
          n_named ? "named_" : "NULL", n_named);
}

static void print_function(const binding *b, const symbols *s, size_t n_outputs)
{
  size_t n_positional = 0;

  while (n_positional < b->n_in && !b->in[n_positional].keyword_only)
    n_positional++;
  fprintf(b->f,
          "/* Call the method in context c (NULL: the default one).  m: the module, loaded there.\n"
          " * Tensors that the program keeps must live as long as it. */\n"
          "static inline rush_status %s(rush_context *c, rush_module *m, const %s_inputs *in,\n"
          "                             %s_outputs *out, rush_error *err)\n{\n"
          "  rush_value args_[%zu], outputs_[%zu], result_ = rush_value_none();\n"
          "  rush_call_options options_ = RUSH_CALL_OPTIONS_INIT;\n"
          "  rush_status st_ = RUSH_OK;\n\n"
          "  (void)c, (void)in, (void)out;\n"
          "  for (size_t i = 0; i < sizeof args_ / sizeof *args_; i++)\n"
          "    args_[i] = rush_value_none();\n"
          "  for (size_t i = 0; i < sizeof outputs_ / sizeof *outputs_; i++)\n"
          "    outputs_[i] = rush_value_none();\n",
          b->function, b->prefix, b->prefix, b->n_in ? b->n_in : 1, n_outputs ? n_outputs : 1);
  for (size_t i = 0; i < b->n_in; i++)
    print_input(b, s, i);
  for (size_t i = 0; i < b->n_out; i++)
    if (is_filled_in_place(s, &b->out[i]))
      print_buffer(b, s, &b->out[i]);
  print_call(b, n_positional, n_outputs);
  for (size_t i = 0; i < b->n_out; i++)
    if (!is_filled_in_place(s, &b->out[i]))
      print_taken(b, &b->out[i], n_outputs);
  fputs("  rush_value_release(result_);\n"
        "  for (size_t i = 0; i < sizeof args_ / sizeof *args_; i++)\n"
        "    rush_value_release(args_[i]);\n"
        "  for (size_t i = 0; i < sizeof outputs_ / sizeof *outputs_; i++)\n"
        "    rush_value_release(outputs_[i]);\n"
        "  return st_;\n}\n",
        b->f);
}

/* -- The verb ---------------------------------------------------------------------------------- */

/* Refuse an output that is inside of a container and has to be copied. */
static int check_outputs(const binding *b, const symbols *s)
{
  for (size_t i = 0; i < b->n_out; i++) {
    const char *first = strchr(b->out[i].label, '[');
    if (!is_filled_in_place(s, &b->out[i]) &&
        first && (strchr(first + 1, '[') || !isdigit((unsigned char)first[1])))
      return refuse(b, &b->out[i], "is inside of a container, and is no tensor whose sizes follow "
                                   "from the inputs'");
  }
  return EXIT_OK;
}

static int write_header(binding *b, size_t n_outputs)
{
  symbols s = {.n = 0};
  int code;

  fprintf(b->f, "/* %s(): the method ", b->function);
  print_comment(b, b->method);
  fputs(" of ", b->f);
  print_comment(b, strrchr(b->model, '/') ? strrchr(b->model, '/') + 1 : b->model);
  fprintf(
    b->f,
    ",\n * with C types.  Made by `rushlight bind`: make it again when the program changes. */\n"
    "#ifndef %s\n#define %s\n\n"
    "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"
    "#include \"rushlight/rushlight.h\"\n#include \"rushlight/script.h\"\n\n",
    b->guard, b->guard);
  fputs(helpers, b->f);
  code = print_inputs(b, &s);
  if (code == EXIT_OK)
    code = check_outputs(b, &s);
  if (code != EXIT_OK)
    return code;
  print_outputs(b);
  print_function(b, &s, n_outputs);
  fputs("#endif\n", b->f);
  return EXIT_OK;
}

/* Name the header's functions after its file, or after the model's. */
static void set_prefix(binding *b, const char *path)
{
  const char *slash = strrchr(path, '/');
  char base[NAME_BYTES];

  snprintf(base, sizeof base, "%.50s", slash ? slash + 1 : path);
  base[strcspn(base, ".")] = '\0';
  identifier(base, b->prefix);
  identifier(b->method, base);
  snprintf(b->function, sizeof b->function, "%s_%s", b->prefix, base);
  snprintf(b->guard, sizeof b->guard, "RUSHLIGHT_%s_H", b->prefix);
  for (char *p = b->guard; *p; p++)
    *p = (char)toupper((unsigned char)*p);
}

/* Write to the file only when the whole header is known. */
static int write_file(binding *b, const char *path, size_t n_outputs)
{
  char *text = NULL;
  size_t n = 0;
  int code;

  if (!(b->f = open_memstream(&text, &n)))
    return cli_usage("bind", "memory ran out");
  code = write_header(b, n_outputs);
  fclose(b->f);
  FILE *to = code == EXIT_OK && path ? fopen(path, "w") : stdout;
  if (!to)
    code = cli_usage("bind", "%s: %s", path, strerror(errno));
  if (code == EXIT_OK && (fwrite(text, 1, n, to) != n || (to != stdout && fclose(to) != 0)))
    code = cli_usage("bind", "%s: %s", path ? path : "standard output", strerror(errno));
  free(text);
  return code;
}

static int bind_method(binding *b, rush_module *m, call_args *a, const char *path)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_signature *s = NULL;
  rush_value result = rush_value_none();
  const bool by_call = a->n_args > 0;
  int code = EXIT_OK;

  if (rush_module_signature(m, b->method, &s, &err) != RUSH_OK ||
      (by_call && rush_module_call_named(m, b->method, a->args, a->n_args, a->named, a->n_named,
                                         &b->c->call, &result, &err) != RUSH_OK))
    code = cli_report(b->c, &err);
  b->in = calloc(2 * MOST_PORTS, sizeof *b->in);
  b->out = b->in ? b->in + MOST_PORTS : NULL;
  if (!b->in)
    code = cli_usage("bind", "memory ran out");
  if (code == EXIT_OK)
    code = read_ports(b, s, a, by_call ? &result : NULL);
  if (code == EXIT_OK)
    code = write_file(b, path, rush_signature_n_outputs(s));
  free(b->in);
  rush_value_release(result);
  rush_signature_release(s);
  return code;
}

int cli_bind(cli *c)
{
  const char *output = cli_option(c, "--output"), *path = output ? output : cli_option(c, "-o");
  rush_error err = RUSH_ERROR_INIT;
  call_args a = {0};
  binding b = {.c = c};
  rush_module *m;
  int code;

  if (c->argc < 1)
    return cli_usage("bind", "bind takes a model file");
  b.model = c->argv[0];
  if (!call_parse(c, "bind", &a, &code))
    return code;
  if (!cli_load(c, c->argv[0], &m, &err)) {
    call_free(&a);
    return cli_report(c, &err);
  }
  b.method = a.method ? a.method : "forward";
  set_prefix(&b, path ? path : b.model);
  code = bind_method(&b, m, &a, path);
  call_free(&a);
  rush_module_release(m);
  return code;
}
