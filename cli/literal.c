/* cli/literal.c -- arguments of the command as values: Python literals, calls of factories such as
 * randn(1,3), and files with @. A recursive-descent parser over the text; factories are operators
 * of the library, called by name, so that every factory of the table works. An error points to the
 * unexpected character. */
#include "cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS 4096
#define MAX_DEPTH 50

typedef struct reader {
  cli *c;
  const char *start, *p;
  rush_error *err;
  int depth;
} reader;

static bool value(reader *r, rush_value *out);

static bool fail(reader *r, const char *expected)
{
  char text[300];

  /* The public API sets errors; this usage error of ours has the same form. */
  snprintf(text, sizeof text, "argument '%.60s', character %ld: expected %s", r->start,
           (long)(r->p - r->start) + 1, expected);
  fprintf(stderr, "rushlight: %s\n", text);
  r->err->status = RUSH_EARGUMENT;
  return false;
}

static void skip(reader *r)
{
  while (isspace((unsigned char)*r->p))
    r->p++;
}

static bool accept(reader *r, char ch)
{
  skip(r);
  if (*r->p != ch)
    return false;
  r->p++;
  return true;
}

static void release_all(rush_value *v, size_t n)
{
  for (size_t i = 0; i < n; i++)
    rush_value_release(v[i]);
  free(v);
}

/* Parse items up to `close`, which is consumed, or up to NAME= of a factory.  *items is
 * malloced. */
static bool items(reader *r, char close, rush_value **out, size_t *n_out)
{
  rush_value *v = NULL;
  size_t n = 0, cap = 0;

  while (!accept(r, close)) {
    if (close == ')' && (skip(r), cli_name_of(r->p)) > 0)
      break;
    if (n == cap) {
      cap = cap ? 2 * cap : 8;
      rush_value *grown = cap > MAX_ITEMS ? NULL : realloc(v, cap * sizeof *v);
      if (!grown) {
        release_all(v, n);
        return fail(r, "fewer items");
      }
      v = grown;
    }
    if (!value(r, &v[n])) {
      release_all(v, n);
      return false;
    }
    n++;
    skip(r);
    if (*r->p != close && !accept(r, ',')) {
      release_all(v, n);
      return fail(r, "',' or a closing bracket");
    }
  }
  *out = v;
  *n_out = n;
  return true;
}

static bool sequence(reader *r, char close, rush_value *out)
{
  rush_value *v;
  size_t n;
  bool ok;

  if (!items(r, close, &v, &n))
    return false;
  if (r->p[-1] != close) {
    release_all(v, n);
    return fail(r, "a value; names are for factories");
  }
  if (close == ']')
    ok = rush_list_create(r->c->context, v, n, out, r->err) == RUSH_OK;
  else
    ok = rush_tuple_create(r->c->context, v, n, out, r->err) == RUSH_OK;
  release_all(v, n);
  return ok;
}

static bool dict(reader *r, rush_value *out)
{
  rush_value keys[64], values[64];
  size_t n = 0;
  bool ok = true;

  while (ok && !accept(r, '}')) {
    if (n == 64) {
      ok = fail(r, "fewer than 65 entries");
      break;
    }
    if (!value(r, &keys[n])) {
      ok = false;
      break;
    }
    values[n] = rush_value_none();
    if (!accept(r, ':'))
      ok = fail(r, "':'");
    else
      ok = value(r, &values[n]);
    n++;
    skip(r);
    if (ok && *r->p != '}' && !accept(r, ','))
      ok = fail(r, "',' or '}'");
  }
  if (ok)
    ok = rush_dict_create(r->c->context, keys, values, n, out, r->err) == RUSH_OK;
  for (size_t i = 0; i < n; i++) {
    rush_value_release(keys[i]);
    rush_value_release(values[i]);
  }
  return ok;
}

static bool text(reader *r, char quote, rush_value *out)
{
  char *buffer = malloc(strlen(r->p) + 1);
  size_t n = 0;

  if (!buffer)
    return fail(r, "memory");
  while (*r->p && *r->p != quote) {
    if (*r->p == '\\' && r->p[1]) {
      r->p++;
      buffer[n++] = *r->p == 'n' ? '\n' : *r->p == 't' ? '\t' : *r->p;
    } else {
      buffer[n++] = *r->p;
    }
    r->p++;
  }
  bool ok = *r->p == quote ? rush_string_create(r->c->context, buffer, n, out, r->err) == RUSH_OK
                           : fail(r, "a closing quote");
  r->p += *r->p == quote;
  free(buffer);
  return ok;
}

static bool read_number(reader *r, rush_value *out)
{
  char *end_int, *end_float;
  long long i = strtoll(r->p, &end_int, 0);
  double d = strtod(r->p, &end_float);

  if (end_float == r->p)
    return fail(r, "a value");
  if (end_int >= end_float) {
    *out = rush_value_int(i);
    r->p = end_int;
    return true;
  }
  r->p = end_float;
  if (*r->p == 'j') {
    r->p++;
    return rush_complex_create(r->c->context, 0, d, out, r->err) == RUSH_OK;
  }
  *out = rush_value_float(d);
  return true;
}

static int dtype_named(const char *p, size_t n)
{
  for (int d = 0; d < RUSH_N_DTYPES; d++) {
    const char *name = rush_dtype_name((rush_dtype)d);
    if (name && strlen(name) == n && memcmp(name, p, n) == 0)
      return d;
  }
  return -1;
}

/* -- Factories --------------------------------------------------------------------------------- */

static const char *const factories[] = {
  "randn", "rand",    "zeros",    "ones",   "full",     "empty",  "arange",        "linspace",
  "eye",   "randint", "randperm", "tensor", "logspace", "normal", "scalar_tensor", NULL};

static bool is_float(rush_dtype d)
{
  return d == RUSH_FLOAT32 || d == RUSH_FLOAT64 || d == RUSH_FLOAT16 || d == RUSH_BFLOAT16;
}

typedef struct factory_args {
  rush_value *at; /* of malloc */
  size_t n;
  char name[8][32];
  rush_named_value named[8];
  size_t n_named;
} factory_args;

static void free_factory_args(factory_args *a)
{
  for (size_t i = 0; i < a->n_named; i++)
    rush_value_release(a->named[i].value);
  release_all(a->at, a->n);
}

/* Parse NAME=value up to the closing bracket. */
static bool named_args(reader *r, factory_args *a)
{
  while (!accept(r, ')')) {
    const size_t n = cli_name_of((skip(r), r->p));
    if (n == 0 || n >= sizeof a->name[0] || a->n_named == 8)
      return fail(r, "NAME=value, at most 8 of them");
    snprintf(a->name[a->n_named], sizeof a->name[0], "%.*s", (int)n, r->p);
    r->p += n + 1;
    a->named[a->n_named].name = a->name[a->n_named];
    if (!value(r, &a->named[a->n_named].value))
      return false;
    a->n_named++;
    skip(r);
    if (*r->p != ')' && !accept(r, ','))
      return fail(r, "',' or a closing bracket");
  }
  return true;
}

/* Convert a tuple of sizes to a list, which operators need. */
static bool tuple_to_list(reader *r, rush_value *v)
{
  rush_value list, few[16];
  const size_t n = rush_value_len(*v);

  if (v->tag != RUSH_TAG_TUPLE || n > 16)
    return true;
  for (size_t i = 0; i < n; i++)
    few[i] = rush_value_item(*v, i);
  if (rush_list_create(r->c->context, few, n, &list, r->err) != RUSH_OK)
    return false;
  rush_value_release(*v);
  *v = list;
  return true;
}

/* Call the operator with the arguments as they are; if it does not accept them, treat all ints as a
 * list of sizes. */
static bool call_factory(reader *r, const char *op, const factory_args *a, rush_value *out)
{
  rush_context *c = r->c->context;
  rush_value size;
  size_t n = 0, k = a->n_named;
  bool all_ints = true;

  for (size_t i = 0; i < a->n; i++)
    all_ints &= a->at[i].tag == RUSH_TAG_INT;
  rush_status st = rush_op_call(c, op, a->at, a->n, a->named, k, out, 1, &n, r->err);
  if (st == RUSH_OK || !all_ints || a->n == 0)
    return st == RUSH_OK;
  rush_error_clear(r->err);
  if (rush_list_create(c, a->at, a->n, &size, r->err) != RUSH_OK)
    return false;
  st = rush_op_call(c, op, &size, 1, a->named, k, out, 1, &n, r->err);
  rush_value_release(size);
  return st == RUSH_OK;
}

static bool has_dtype(const factory_args *a)
{
  for (size_t i = 0; i < a->n_named; i++)
    if (strcmp(a->named[i].name, "dtype") == 0)
      return true;
  return false;
}

/* Convert to the dtype of --dtype. */
static bool convert_literal(reader *r, const factory_args *a, rush_value *v)
{
  rush_value args[] = {*v, rush_value_int(r->c->dtype)}, made;
  size_t n;

  if (r->c->dtype < 0 || has_dtype(a) || v->tag != RUSH_TAG_TENSOR ||
      !is_float(rush_tensor_dtype(v->as.tensor)))
    return true;
  const rush_status st =
    rush_op_call(r->c->context, "aten::to.dtype", args, 2, NULL, 0, &made, 1, &n, r->err);
  rush_value_release(*v);
  *v = made;
  return st == RUSH_OK;
}

static bool no_factory(reader *r, const char *name)
{
  suggestion s = {0};
  char text[160];

  for (size_t i = 0; factories[i]; i++)
    cli_suggest_try(&s, name, factories[i]);
  snprintf(text, sizeof text, "a factory such as randn(2,3), not '%.60s'%s%s%s", name,
           s.word ? ": did you mean '" : "", s.word ? s.word : "", s.word ? "'?" : "");
  return fail(r, text);
}

/* Call name(args, dtype=...), an operator. */
static bool factory(reader *r, const char *name, size_t n_name, rush_value *out)
{
  factory_args a = {0};
  char full[80];

  if (n_name > 60)
    return fail(r, "a shorter name");
  snprintf(full, sizeof full, "aten::%.*s", (int)n_name, name);
  if (!rush_op_exists(r->c->context, full)) {
    r->p = name;
    return no_factory(r, full + 6);
  }
  bool ok = items(r, ')', &a.at, &a.n) && (r->p[-1] == ')' || named_args(r, &a));
  for (size_t i = 0; i < a.n && ok; i++)
    ok = tuple_to_list(r, &a.at[i]);
  ok = ok && call_factory(r, full, &a, out) && convert_literal(r, &a, out);
  free_factory_args(&a);
  return ok;
}

/* Fail for an unknown word: perhaps a dtype, a constant or a factory without its arguments. */
static bool no_word(reader *r, const char *name, size_t n)
{
  static const char *const constants[] = {"None", "True", "False", "inf", "nan", NULL};
  char word[40], text[160];
  suggestion s = {0};

  snprintf(word, sizeof word, "%.*s", (int)n, name);
  for (size_t i = 0; n > 0 && constants[i]; i++)
    cli_suggest_try(&s, word, constants[i]);
  for (int d = 0; n > 0 && d < RUSH_N_DTYPES; d++)
    if (rush_dtype_name((rush_dtype)d))
      cli_suggest_try(&s, word, rush_dtype_name((rush_dtype)d));
  for (size_t i = 0; n > 0 && factories[i]; i++)
    cli_suggest_try(&s, word, factories[i]);
  snprintf(text, sizeof text, "a literal, a factory such as randn(2,3), or @file%s%s%s%s",
           s.word ? ": did you mean '" : "", s.word ? s.word : "",
           s.word && s.distance == 0 ? "(...)" : "", s.word ? "'?" : "");
  return fail(r, text);
}

static bool word(reader *r, rush_value *out)
{
  const char *name = r->p += strncmp(r->p, "torch.", 6) == 0 ? 6 : 0; /* torch.int64 */
  size_t n = 0;

  while (isalnum((unsigned char)name[n]) || name[n] == '_')
    n++;
  r->p += n;
  if (accept(r, '('))
    return factory(r, name, n, out);
  if (n == 4 && memcmp(name, "None", 4) == 0)
    *out = rush_value_none();
  else if (n == 4 && memcmp(name, "True", 4) == 0)
    *out = rush_value_bool(true);
  else if (n == 5 && memcmp(name, "False", 5) == 0)
    *out = rush_value_bool(false);
  else if (n == 3 && (memcmp(name, "inf", 3) == 0 || memcmp(name, "nan", 3) == 0))
    *out = rush_value_float(*name == 'i' ? strtod("inf", NULL) : strtod("nan", NULL));
  else if (dtype_named(name, n) >= 0)
    *out = rush_value_int(dtype_named(name, n));
  else {
    r->p = name;
    return no_word(r, name, n);
  }
  return true;
}

static bool value(reader *r, rush_value *out)
{
  bool ok;

  skip(r);
  if (++r->depth > MAX_DEPTH)
    return fail(r, "less nesting");
  if (accept(r, '['))
    ok = sequence(r, ']', out);
  else if (accept(r, '('))
    ok = sequence(r, ')', out);
  else if (accept(r, '{'))
    ok = dict(r, out);
  else if (*r->p == '\'' || *r->p == '"') {
    char quote = *r->p++;
    ok = text(r, quote, out);
  } else if (isalpha((unsigned char)*r->p) || *r->p == '_')
    ok = word(r, out);
  else
    ok = read_number(r, out);
  r->depth--;
  return ok;
}

/* -- Files ------------------------------------------------------------------------------------- */

/* Load from a path, or from standard input ("-"). */
static bool load_file(cli *c, const char *path, rush_value *out, rush_error *err)
{
  rush_load_options load = c->load;
  size_t n;

  if (strcmp(path, "-") != 0)
    return rush_value_load_with(c->context, path, &c->load, out, err) == RUSH_OK;
  char *bytes = cli_read_stdin(c, &n, err);
  if (!bytes)
    return false;
  load.name = "<standard input>";
  const rush_status st = rush_value_load_bytes(c->context, bytes, n, &load, out, err);
  free(bytes);
  return st == RUSH_OK;
}

/* Replace *v by the entry `name` of a dict, or item of a list. */
static bool pick(const char *argument, const char *name, size_t n_name, rush_value *v)
{
  rush_value key = rush_value_none(), value = rush_value_none();
  const size_t i = strtoull(name, NULL, 10);
  bool found = false;

  for (size_t k = 0; v->tag == RUSH_TAG_DICT && k < rush_value_len(*v) && !found; k++) {
    size_t n;
    rush_value_entry(*v, k, &key, &value);
    found = key.tag == RUSH_TAG_STRING && strlen(rush_value_string(key, &n)) == n_name &&
            memcmp(rush_value_string(key, NULL), name, n_name) == 0;
  }
  if (v->tag == RUSH_TAG_LIST || v->tag == RUSH_TAG_TUPLE) {
    found = strspn(name, "0123456789") == n_name && n_name > 0 && i < rush_value_len(*v);
    value = found ? rush_value_item(*v, i) : value;
  }
  if (!found)
    fprintf(stderr,
            "rushlight: argument '@%.200s': expected a name or number of something in the file\n",
            argument);
  value = found ? rush_value_retain(value) : rush_value_none();
  rush_value_release(*v);
  *v = value;
  return found;
}

/* Load FILE or FILE[NAME].  A .npz with one array is that array. */
static bool file(cli *c, const char *argument, rush_value *out, rush_error *err)
{
  const size_t len = strlen(argument);
  const char *open = len > 2 && argument[len - 1] == ']' ? strrchr(argument, '[') : NULL;
  char path[4096];

  if (!open) {
    if (!load_file(c, argument, out, err))
      return false;
    if (len > 4 && strcmp(argument + len - 4, ".npz") == 0 && rush_value_len(*out) == 1) {
      rush_value key, value;
      rush_value_entry(*out, 0, &key, &value);
      value = rush_value_retain(value);
      rush_value_release(*out);
      *out = value;
    }
    return true;
  }
  snprintf(path, sizeof path, "%.*s", (int)(open - argument), argument);
  if (!load_file(c, path, out, err))
    return false;
  if (pick(argument, open + 1, (size_t)(argument + len - 1 - (open + 1)), out))
    return true;
  err->status = RUSH_EARGUMENT;
  return false;
}

bool cli_value(cli *c, const char *argument, rush_value *out, rush_error *err)
{
  reader r = {.c = c, .start = argument, .p = argument, .err = err};

  if (argument[0] == '@')
    return file(c, argument + 1, out, err);
  if (!value(&r, out))
    return false;
  skip(&r);
  if (!*r.p)
    return true;
  rush_value_release(*out);
  return fail(&r, "nothing more");
}

size_t cli_name_of(const char *argument)
{
  size_t n = 0;

  if (!isalpha((unsigned char)argument[0]) && argument[0] != '_')
    return 0;
  while (isalnum((unsigned char)argument[n]) || argument[n] == '_')
    n++;
  return argument[n] == '=' && argument[n + 1] != '=' ? n : 0;
}
