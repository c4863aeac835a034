/* record.c -- rushlight record: calls a method and writes the call, with its result, for `verify`.
 *
 * The call runs on copies of the arguments, with the seed of the command line if the program draws
 * numbers.  The file has what verify compares: the result with a tolerance for each leaf of floats,
 * what was printed, and the arguments if the call changed them.  A call that raises is only written
 * on request: it is mostly a mistake in the arguments. */
#include "call.h"
#include "calls.h"

#include <stdlib.h>
#include <string.h>

/* -- Tolerances -------------------------------------------------------------------------------- */

typedef struct tolerance_list {
  cli *c;
  rush_value *at; /* tuples; of malloc */
  size_t n, cap;
  rush_status st;
  rush_error *err;
} tolerance_list;

static void add_tolerance(tolerance_list *l, cli_tolerance t)
{
  const rush_value pair[] = {rush_value_float(t.rtol), rush_value_float(t.atol)};

  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 16;
    rush_value *at = realloc(l->at, cap * sizeof *at);
    if (!at) {
      l->st = RUSH_ENOMEM;
      return;
    }
    l->at = at;
    l->cap = cap;
  }
  l->st = rush_tuple_create(l->c->context, pair, 2, &l->at[l->n], l->err);
  l->n += l->st == RUSH_OK;
}

/* Add tolerances in the order in which cli_same needs them. */
static void add_tolerances(tolerance_list *l, rush_value v)
{
  rush_value key, value;

  if (l->st != RUSH_OK)
    return;
  if (cli_has_tolerance(v))
    add_tolerance(l, l->c->tolerances ? *l->c->tolerances : cli_tolerance_of(v));
  for (size_t i = 0; v.tag == RUSH_TAG_DICT && i < rush_value_len(v); i++) {
    rush_value_entry(v, i, &key, &value);
    add_tolerances(l, value);
  }
  for (size_t i = 0; (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) && i < rush_value_len(v);
       i++)
    add_tolerances(l, rush_value_item(v, i));
}

static void put_tolerances(calls_builder *b, rush_value result, rush_value args_after)
{
  tolerance_list l = {.c = b->c, .err = b->err};
  rush_value list;

  add_tolerances(&l, result);
  add_tolerances(&l, args_after);
  if (l.st == RUSH_OK)
    l.st = rush_list_create(b->c->context, l.at, l.n, &list, b->err);
  if (l.st == RUSH_OK)
    calls_put_steal(b, "tolerances", list);
  else
    b->st = l.st;
  for (size_t i = 0; i < l.n; i++)
    rush_value_release(l.at[i]);
  free(l.at);
}

/* -- The call ---------------------------------------------------------------------------------- */

/* True if the value is exactly unchanged. */
static bool is_unchanged(rush_value before, rush_value after)
{
  cli_tolerances exact = {.is_exact = true};
  char why[256];

  return cli_same(before, after, &exact, "args", why, sizeof why);
}

static rush_status put_error(calls_builder *b, const rush_error *err)
{
  calls_builder e = {.c = b->c, .err = b->err};
  rush_value raises;

  calls_put_text(&e, "type", err->type ? err->type : "RuntimeError");
  calls_put_text(&e, "contains", err->message ? err->message : "");
  rush_status st = calls_build_end(&e, &raises);
  if (st == RUSH_OK)
    calls_put_steal(b, "raises", raises);
  return st;
}

/* Make an entry of a call with its result. */
static rush_status make_entry(cli *c, rush_value question, const performed *p, rush_value *out,
                              rush_error *err)
{
  static const char *const asked[] = {"method", "args", "kwargs", "seed", ""};
  calls_builder b = {.c = c, .err = err};
  const bool changed = !is_unchanged(calls_entry(question, "args"), p->args);

  calls_put_from(&b, question, asked);
  if (p->st == RUSH_OK)
    calls_put_steal(&b, "result", rush_value_retain(p->result));
  else
    b.st = put_error(&b, &p->err);
  put_tolerances(&b, p->result, changed ? p->args : rush_value_none());
  if (c->output_bytes)
    calls_put_text(&b, "stdout", c->output);
  if (changed)
    calls_put_steal(&b, "args_after", rush_value_retain(p->args));
  return calls_build_end(&b, out);
}

/* -- The file ---------------------------------------------------------------------------------- */

typedef struct record_file {
  const char *path, *model;
  bool append;
} record_file;

/* Return the calls in the file, and this one; new. */
static rush_status all_calls(cli *c, const record_file *f, rush_value entry, rush_value *out,
                             rush_error *err)
{
  rush_value old = rush_value_none();

  if (f->append) {
    const rush_status st = rush_value_load_with(c->context, f->path, &c->load, &old, err);
    if (st != RUSH_OK)
      return st;
  }
  const rush_value calls = calls_entry(old, "calls");
  const size_t n = rush_value_len(calls);
  rush_value *rows = malloc((n + 1) * sizeof *rows);
  for (size_t i = 0; rows && i < n; i++)
    rows[i] = rush_value_item(calls, i);
  if (rows)
    rows[n] = entry;
  const rush_status st = rows ? rush_list_create(c->context, rows, n + 1, out, err) : RUSH_ENOMEM;
  free(rows);
  rush_value_release(old);
  return st;
}

static rush_status write_file(cli *c, const record_file *f, rush_value entry, size_t *n_calls,
                              rush_error *err)
{
  calls_builder b = {.c = c, .err = err};
  char origin[1024];
  rush_value calls, all;

  rush_status st = all_calls(c, f, entry, &calls, err);
  if (st != RUSH_OK)
    return st;
  *n_calls = rush_value_len(calls);
  snprintf(origin, sizeof origin, "rushlight %s: record %.900s", rush_version(), f->model);
  calls_put_steal(&b, "format", rush_value_int(CALLS_FORMAT));
  calls_put_text(&b, "origin", origin);
  calls_put_steal(&b, "calls", calls);
  if ((st = calls_build_end(&b, &all)) != RUSH_OK)
    return st;
  st = rush_value_save(c->context, f->path, all, err);
  rush_value_release(all);
  return st;
}

/* -- The verb ---------------------------------------------------------------------------------- */

static int record_call(cli *c, rush_module *m, const call_args *a, const record_file *f,
                       bool raises)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value question, entry;
  performed p = {0};
  size_t n = 0;
  int code;

  if (calls_from_arguments(c, a, rush_module_is_random(m), &question, &err) != RUSH_OK)
    return cli_report(c, &err);
  c->capture = true;
  calls_perform(c, m, question, &p);
  c->capture = false;
  if (p.st != RUSH_OK && !(raises && p.st == RUSH_ERAISED)) {
    code = cli_report(c, &p.err);
    if (code == EXIT_RAISED || code == EXIT_USAGE)
      fprintf(stderr,
              "rushlight record: nothing was written; --raises records that the call raises\n");
  } else if (make_entry(c, question, &p, &entry, &err) != RUSH_OK) {
    code = cli_report(c, &err);
  } else {
    code = write_file(c, f, entry, &n, &err) == RUSH_OK ? EXIT_OK : cli_report(c, &err);
    rush_value_release(entry);
  }
  if (code == EXIT_OK && c->json) {
    printf("{\"file\": ");
    cli_json_text(stdout, f->path);
    printf(", \"calls\": %zu}\n", n);
  } else if (code == EXIT_OK) {
    printf("%s: %zu call%s; `rushlight verify %s %s` replays %s\n", f->path, n, n == 1 ? "" : "s",
           f->model, f->path, n == 1 ? "it" : "them");
  }
  performed_free(&p);
  rush_value_release(question);
  return code;
}

int cli_record(cli *c)
{
  const char *output = cli_option(c, "--output"), *path = output ? output : cli_option(c, "-o");
  record_file f = {.path = path, .append = cli_flag(c, "--append")};
  const bool raises = cli_flag(c, "--raises");
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  call_args a;
  int code;

  if (!cli_take_tolerances(c, "record", &code))
    return code;
  if (c->argc < 1)
    return cli_usage("record", "takes a model file");
  if (!path)
    return cli_usage("record", "--output (-o) is required: the .pt file to write");
  f.model = c->argv[0];
  if (!call_parse(c, "record", &a, &code))
    return code;
  if (!cli_load(c, f.model, &m, &err)) {
    call_free(&a);
    return cli_report(c, &err);
  }
  if (call_complete(c, "record", f.model, m, &a, &code))
    code = record_call(c, m, &a, &f, raises);
  rush_module_release(m);
  call_free(&a);
  return code;
}
