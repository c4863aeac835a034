/* Arguments as text: Python literals, calls of factories, files. */
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
  char text[200];

  /* The public API fills errors; a usage message of ours is made in its manner. */
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

/* Items up to `close`, which is taken.  *items is malloced. */
static bool items(reader *r, char close, rush_value **out, size_t *n_out)
{
  rush_value *v = NULL;
  size_t n = 0, cap = 0;

  while (!accept(r, close)) {
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

static bool number(reader *r, rush_value *out)
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
  for (int d = 0; d < 30; d++) {
    const char *name = rush_dtype_name((rush_dtype)d);
    if (name && strlen(name) == n && memcmp(name, p, n) == 0)
      return d;
  }
  return -1;
}

/* name(args): an operator; leading ints become the size list that factories take. */
static bool factory(reader *r, const char *name, size_t n_name, rush_value *out)
{
  rush_value *v, size;
  char full[80];
  size_t n, n_results = 0;

  if (n_name > 60)
    return fail(r, "a shorter name");
  snprintf(full, sizeof full, "aten::%.*s", (int)n_name, name);
  if (!items(r, ')', &v, &n))
    return false;
  bool all_ints = n > 0;
  for (size_t i = 0; i < n; i++)
    all_ints &= v[i].tag == RUSH_TAG_INT;
  rush_status st;
  if (all_ints && strcmp(full, "aten::arange") != 0 && strcmp(full, "aten::linspace") != 0) {
    st = rush_list_create(r->c->context, v, n, &size, r->err);
    if (st == RUSH_OK) {
      st = rush_op_call(r->c->context, full, &size, 1, NULL, 0, out, 1, &n_results, r->err);
      rush_value_release(size);
    }
  } else {
    st = rush_op_call(r->c->context, full, v, n, NULL, 0, out, 1, &n_results, r->err);
  }
  release_all(v, n);
  return st == RUSH_OK;
}

static bool word(reader *r, rush_value *out)
{
  const char *name = r->p;
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
    return fail(r, "a literal, a factory such as randn(2,3), or @file");
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
    ok = number(r, out);
  r->depth--;
  return ok;
}

bool cli_value(cli *c, const char *argument, rush_value *out, rush_error *err)
{
  reader r = {.c = c, .start = argument, .p = argument, .err = err};

  if (argument[0] == '@')
    return rush_value_load_with(c->context, argument + 1, &c->load, out, err) == RUSH_OK;
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
