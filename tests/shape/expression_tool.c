/* Reads expressions and prints what they are, for people and tests:
 *
 *   expression_tool [--python | --fold] < LINES
 *
 * A line is a text and, after tabs, values of symbols (s0=3, zuf0=0.5, b=True).  The answer is a
 * line of srepr, str, Python code, value, symbols and normal form, separated by tabs; what fails is
 * the class and message of the error after "! ".  --python: the texts are code of guards.
 * --fold: of Min and Max without what always loses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "shape/expression.h"

#define MOST_SYMBOLS 64

typedef struct job {
  const char *text;
  char *values; /* after the text; or NULL */
  expression_dialect dialect;
  bool fold;
  int column;
  text_buf line, shown;
  session *s;
  sym_env *env;
  symint symbols[MOST_SYMBOLS]; /* by number of appearance */
  str names[MOST_SYMBOLS];
  uint32_t n;
} job;

static bool find_value(void *arg, const expression *symbol, rush_value *value)
{
  const job *j = arg;
  const size_t n = symbol->name.len;

  for (char *p = j->values; p; p = strchr(p, '\t')) {
    p += *p == '\t';
    if (strncmp(p, symbol->name.p, n) != 0 || p[n] != '=')
      continue;
    const char *v = p + n + 1;
    const size_t len = strcspn(v, "\t");
    if (*v == 'T' || *v == 'F')
      *value = (rush_value){.tag = RUSH_TAG_BOOL, .as.b = *v == 'T'};
    else if (strcspn(v, ".en") >= len)
      *value = (rush_value){.tag = RUSH_TAG_INT, .as.i = strtoll(v, NULL, 10)};
    else
      value->tag = RUSH_TAG_FLOAT;
    return value->tag != RUSH_TAG_FLOAT || float_parse(v, len, &value->as.d);
  }
  return false;
}

static symint find_symbol(void *arg, const expression *symbol)
{
  job *j = arg;
  uint32_t i = 0;

  while (i < j->n && !str_eq(j->names[i], symbol->name))
    i++;
  if (i == MOST_SYMBOLS)
    return NULL;
  if (i == j->n) {
    j->names[j->n] = symbol->name;
    j->symbols[j->n++] = sym_new(j->env, 8, 1);
  }
  return j->symbols[i];
}

static void put_symbol(void *arg, const expression *symbol)
{
  text_buf *out = arg;

  text_puts(out, out->len ? " " : "");
  text_add(out, symbol->name.p, symbol->name.len);
}

static void put_value(job *j, const expression *e)
{
  char digits[FLOAT_REPR_BYTES];
  rush_value v = {0};

  session_check(j->s, expression_evaluate(j->s->cx, e, find_value, j, &v));
  if (v.tag == RUSH_TAG_FLOAT)
    text_add(&j->shown, digits, float_repr(v.as.d, digits));
  else if (v.tag == RUSH_TAG_BOOL)
    text_puts(&j->shown, v.as.b ? "True" : "False");
  else
    text_printf(&j->shown, "%lld", (long long)v.as.i);
}

static void put_normal_form(job *j, const expression *e)
{
  sym_cond c;

  j->n = 0;
  j->env = sym_env_new(j->s);
  const symint x = expression_to_symint(j->env, e, find_symbol, j);
  if (x)
    sym_print(&j->shown, x);
  else if (expression_to_condition(j->env, e, find_symbol, j, &c))
    sym_cond_print(&j->shown, c);
  else
    text_puts(&j->shown, "-");
}

static void put_column(session *s, void *arg)
{
  job *j = arg;
  const expression *e = expression_read(s, s->mem, "line", str_of(j->text), j->dialect);

  if (j->fold)
    e = expression_fold_extremes(s, s->mem, e);
  j->s = s;
  if (j->column == 0)
    expression_print_srepr(s, &j->shown, e);
  else if (j->column == 1)
    expression_print(s, &j->shown, e);
  else if (j->column == 2)
    expression_print_python(s, &j->shown, e, NULL, NULL);
  else if (j->column == 3)
    put_value(j, e);
  else if (j->column == 4)
    expression_symbols(s, e, put_symbol, &j->shown);
  else
    put_normal_form(j, e);
}

static void answer(context *c, job *j)
{
  text_clear(&j->line);
  for (j->column = 0; j->column < 6; j->column++) {
    rush_error err = RUSH_ERROR_INIT;
    call_ctx cx;
    call_ctx_init(&cx, c, &err);
    text_clear(&j->shown);
    text_puts(&j->line, j->column ? "\t" : "");
    if (session_run(&cx, put_column, j) == RUSH_OK)
      text_puts(&j->line, text_str(&j->shown));
    else
      text_printf(&j->line, "! %s: %s", err.type, err.message);
    rush_error_clear(&err);
  }
  puts(text_str(&j->line));
}

int main(int argc, char **argv)
{
  job j = {.dialect = argc > 1 && strcmp(argv[1], "--python") == 0 ? EXPRESSION_PYTHON
                                                                   : EXPRESSION_SYMPY,
           .fold = argc > 1 && strcmp(argv[1], "--fold") == 0};
  context *c = NULL;
  char *line = NULL;
  size_t cap = 0;

  if (context_new(NULL, &c, NULL) != RUSH_OK)
    return 1;
  text_init(&j.line, c);
  text_init(&j.shown, c);
  while (getline(&line, &cap, stdin) >= 0) {
    line[strcspn(line, "\n")] = '\0';
    j.text = line;
    j.values = strchr(line, '\t');
    if (j.values)
      *j.values++ = '\0';
    answer(c, &j);
  }
  free(line);
  text_free(&j.shown);
  text_free(&j.line);
  context_release(c);
  return 0;
}
