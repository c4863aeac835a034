/* rushlight verify -- replay recorded calls and compare with what PyTorch answered. */
#include "cli.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct tally {
  size_t passed, failed, done, total;
  size_t stack;       /* bytes of each call's stack; 0: the command's own */
  size_t stack_used;  /* the most that a call of this case took */
  bool records;       /* the program of this case asks about gradients */
  progress bar;
} tally;

/* Entry of a dict by text key; None when absent. */
static rush_value entry(rush_value dict, const char *name)
{
  for (size_t i = 0; i < rush_value_len(dict); i++) {
    rush_value key, value;
    rush_value_entry(dict, i, &key, &value);
    const char *text = rush_value_string(key, NULL);
    if (text && strcmp(text, name) == 0)
      return value;
  }
  return rush_value_none();
}
static bool has(rush_value dict, const char *name)
{
  for (size_t i = 0; i < rush_value_len(dict); i++) {
    rush_value key, value;
    rush_value_entry(dict, i, &key, &value);
    const char *text = rush_value_string(key, NULL);
    if (text && strcmp(text, name) == 0)
      return true;
  }
  return false;
}

/* -- One call ------------------------------------------------------------------------------------------ */

static bool judge_error(rush_value raises, rush_status st, rush_error *err, char *why, size_t size)
{
  const char *type = rush_value_string(entry(raises, "type"), NULL);
  const char *contains = rush_value_string(entry(raises, "contains"), NULL);

  if (st == RUSH_OK) {
    snprintf(why, size, "returned instead of raising %s", type);
    return false;
  }
  if (!err->type || strcmp(err->type, type) != 0) {
    snprintf(why, size, "raised %s (%.200s), not %s", err->type ? err->type : "nothing", err->message, type);
    return false;
  }
  if (!strstr(err->message, contains) && !(err->traceback && strstr(err->traceback, contains))) {
    snprintf(why, size, "the message lacks '%s': %.200s", contains, err->message);
    return false;
  }
  return true;
}

static bool judge(cli *c, rush_value call, rush_value args, rush_status st, rush_value result, rush_error *err,
                  char *why, size_t size)
{
  cli_tolerances tolerances = {entry(call, "tolerances"), 0};

  if (has(call, "raises")) {
    if (!judge_error(entry(call, "raises"), st, err, why, size))
      return false;
  } else if (st != RUSH_OK) {
    snprintf(why, size, "raised %s: %.600s", err->type ? err->type : "?", err->message ? err->message : "");
    return false;
  } else if (!cli_same(entry(call, "result"), result, &tolerances, "result", why, size)) {
    return false;
  }
  if (has(call, "stdout")) {
    const char *want = rush_value_string(entry(call, "stdout"), NULL), *got = c->output_bytes ? c->output : "";
    if (strcmp(want, got) != 0) {
      snprintf(why, size, "printed '%.200s', not '%.200s'", got, want);
      return false;
    }
  }
  if (has(call, "args_after"))
    return cli_same(entry(call, "args_after"), args, &tolerances, "args_after", why, size);
  return true;
}

/* Arguments may be changed by the call: it gets copies of its tensors; and of its containers a second
 * time, as PyTorch copies them (and not the tensors) on their way from Python. */
static bool copy_value(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err);

static bool copy_items(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err)
{
  size_t n = rush_value_len(v), done = 0;
  rush_value *items = calloc(n ? 2 * n : 1, sizeof *items), key, value;
  rush_status st = RUSH_ENOMEM;
  bool is_dict = v.tag == RUSH_TAG_DICT;

  for (; items && done < n; done++) {
    if (is_dict) {
      rush_value_entry(v, done, &key, &value);
      items[n + done] = rush_value_retain(key);
    } else {
      value = rush_value_item(v, done);
    }
    if (!copy_value(c, value, tensors, &items[done], err))
      break;
  }
  if (items && done == n)
    st = is_dict                      ? rush_dict_create(c->context, items + n, items, n, out, err)
         : v.tag == RUSH_TAG_LIST     ? rush_list_create(c->context, items, n, out, err)
                                      : rush_tuple_create(c->context, items, n, out, err);
  for (size_t i = 0; items && i < 2 * n; i++)
    rush_value_release(items[i]);
  free(items);
  return st == RUSH_OK;
}

static bool copy_value(cli *c, rush_value v, bool tensors, rush_value *out, rush_error *err)
{
  size_t n;

  if (v.tag == RUSH_TAG_TENSOR && tensors)
    return rush_op_call(c->context, "aten::clone", &v, 1, NULL, 0, out, 1, &n, err) == RUSH_OK;
  if (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE || v.tag == RUSH_TAG_DICT)
    return copy_items(c, v, tensors, out, err);
  *out = rush_value_retain(v);
  return true;
}

typedef struct one_call { /* arguments and results of rush_module_call_named */
  rush_module *m;
  const char *method;
  const rush_value *args;
  const rush_named_value *named;
  size_t n_args, n_named;
  const rush_call_options *options;
  rush_value result;
  rush_error *err;
  rush_status st;
} one_call;

static void run_call(void *arg)
{
  one_call *k = arg;

  k->st = rush_module_call_named(k->m, k->method, k->args, k->n_args, k->named, k->n_named, k->options, &k->result, k->err);
}

/* Run the call on a stack of the size that was asked for, if one was; false when there is no such thread. */
static bool run_call_on_stack(one_call *k, tally *t)
{
  if (!t->stack) {
    run_call(k);
    return true;
  }
  size_t used = cli_on_stack(t->stack, run_call, k);
  t->stack_used = used > t->stack_used ? used : t->stack_used;
  return used > 0;
}

/* True if the program can see whether its results require grad.  PyTorch's calls were recorded with gradients on, so such a program is
 * replayed the same way; every other is called as users call it. */
static bool asks_of_gradients(cli *c, rush_module *m)
{
  static const char *const operators[] = {"prim::requires_grad ", "aten::is_leaf ",  "prim::is_leaf ",      "prim::grad ",
                                          "aten::grad ",          "aten::backward",  "aten::retain_grad ",  "aten::retains_grad ",
                                          "aten::requires_grad_ "};
  rush_error err = RUSH_ERROR_INIT;
  bool asks = false;
  char *text;

  if (rush_module_dump(m, RUSH_DUMP_OPS, NULL, &text, &err) != RUSH_OK) {
    rush_error_clear(&err); /* a call will say what is wrong */
    return false;
  }
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    asks |= strstr(text, operators[i]) != NULL;
  rush_free_text(c->context, text);
  return asks;
}

static bool replay_call(cli *c, rush_module *m, rush_value call, tally *t, char *why, size_t size)
{
  rush_call_options options = RUSH_CALL_OPTIONS_INIT;
  rush_value args, kwargs = rush_value_none(), passed = rush_value_none();
  rush_named_value named[64];
  rush_value positional[64];
  rush_error err = RUSH_ERROR_INIT;
  bool ok = false;

  if (!copy_value(c, entry(call, "args"), true, &args, &err)) {
    snprintf(why, size, "the arguments: %s", err.message);
    rush_error_clear(&err);
    return false;
  }
  if (!copy_value(c, entry(call, "kwargs"), true, &kwargs, &err) || !copy_value(c, args, false, &passed, &err)) {
    rush_value_release(args);
    rush_value_release(kwargs);
    snprintf(why, size, "the arguments: %s", err.message);
    rush_error_clear(&err);
    return false;
  }
  size_t n_args = rush_value_len(args), n_named = rush_value_len(kwargs);
  if (n_args > 64 || n_named > 64) {
    snprintf(why, size, "more than 64 arguments");
    goto done;
  }
  for (size_t i = 0; i < n_args; i++)
    positional[i] = rush_value_item(passed, i);
  for (size_t i = 0; i < n_named; i++) {
    rush_value key;
    rush_value_entry(kwargs, i, &key, &named[i].value);
    named[i].name = rush_value_string(key, NULL);
  }
  options.no_grad = has(call, "no_grad");
  options.record_gradients = t->records || has(call, "raises"); /* a write to a leaf is refused by what records */
  c->output_bytes = 0;
  one_call k = {m, rush_value_string(entry(call, "method"), NULL), positional, named, n_args, n_named, &options,
                rush_value_none(), &err, RUSH_OK};
  if (has(call, "seed"))
    k.st = rush_manual_seed(c->context, (uint64_t)entry(call, "seed").as.i, &err);
  if (k.st == RUSH_OK && !run_call_on_stack(&k, t))
    snprintf(why, size, "there is no thread with a stack of %zu bytes", t->stack);
  else
    ok = judge(c, call, args, k.st, k.result, &err, why, size);
  rush_value_release(k.result);
  rush_error_clear(&err);
done:
  rush_value_release(passed);
  rush_value_release(args);
  rush_value_release(kwargs);
  return ok;
}

/* -- Cases ----------------------------------------------------------------------------------------------- */

/* 0 passed, else an exit code with the reason in why. */
static int replay(cli *c, const char *model, const char *calls_path, tally *t, char *why, size_t size)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value recorded;
  rush_module *m;
  int code = 0;

  if (rush_value_load_with(c->context, calls_path, &c->load, &recorded, &err) != RUSH_OK ||
      (rush_module_load(c->context, model, &c->load, &m, &err) != RUSH_OK && (rush_value_release(recorded), 1))) {
    snprintf(why, size, "%.700s", err.message);
    code = cli_exit(err.status);
    rush_error_clear(&err);
    return code;
  }
  rush_value calls = entry(recorded, "calls");
  t->records = asks_of_gradients(c, m);
  c->capture = true;
  for (size_t i = 0; i < rush_value_len(calls) && code == 0; i++) {
    char reason[1000];
    rush_value call = rush_value_item(calls, i);
    if (!replay_call(c, m, call, t, reason, sizeof reason)) {
      snprintf(why, size, "call %zu (%s): %.900s", i, rush_value_string(entry(call, "method"), NULL), reason);
      code = EXIT_NEGATIVE;
    }
  }
  if (rush_value_len(calls) == 0) {
    snprintf(why, size, "%s has no calls", calls_path);
    code = EXIT_REFUSED;
  }
  c->capture = false;
  rush_module_release(m);
  rush_value_release(recorded);
  return code;
}

static bool is_file(const char *path)
{
  struct stat st;

  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}
static bool is_dir(const char *path)
{
  struct stat st;

  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void one_line(char *text)
{
  for (; *text; text++)
    if (*text == '\n')
      *text = ' ';
}

static void one_case(cli *c, const char *name, const char *model, const char *calls, tally *t)
{
  char why[1200] = "";
  double start = cli_seconds();
  t->stack_used = 0;
  int code = replay(c, model, calls, t, why, sizeof why);
  double seconds = cli_seconds() - start;

  t->done++;
  *(code ? &t->failed : &t->passed) += 1;
  one_line(why);
  if (code)
    progress_end(&t->bar);
  if (c->json) {
    printf("{\"case\": ");
    cli_json_text(stdout, name);
    printf(", \"passed\": %s, \"seconds\": %.4f", code ? "false" : "true", seconds);
    if (t->stack)
      printf(", \"stack_bytes\": %zu", t->stack_used);
    if (code) {
      printf(", \"why\": ");
      cli_json_text(stdout, why);
    }
    printf("}\n");
  } else if (code) {
    printf("FAIL %s: %s\n", name, why);
    fflush(stdout);
  }
}

/* Folders below `path` that hold a case, sorted by name. */
static void walk(cli *c, const char *path, size_t root_bytes, int depth, tally *t, bool count_only)
{
  char model[4096], calls[4096], below[4096];
  struct dirent **names;

  snprintf(calls, sizeof calls, "%s/calls.pt", path);
  snprintf(model, sizeof model, "%s/model.pt", path);
  if (!is_file(model))
    snprintf(model, sizeof model, "%s/model.pt2", path);
  if (is_file(calls) && is_file(model)) {
    const char *name = path[root_bytes] == '/' ? path + root_bytes + 1 : path + root_bytes;
    if (count_only) {
      t->total++;
    } else {
      progress_show(&t->bar, t->done, t->total, name);
      one_case(c, *name ? name : path, model, calls, t);
    }
    return;
  }
  int n = depth < 8 ? scandir(path, &names, NULL, alphasort) : -1;
  for (int i = 0; i < n; i++) {
    snprintf(below, sizeof below, "%s/%s", path, names[i]->d_name);
    if (names[i]->d_name[0] != '.' && is_dir(below))
      walk(c, below, root_bytes, depth + 1, t, count_only);
    free(names[i]);
  }
  if (n >= 0)
    free(names);
}

#define STACK_MIN 16384 /* bytes: what the system gives a thread at least */

int cli_verify(cli *c)
{
  const char *stack = cli_option(c, "--stack"), *unknown = cli_unknown_option(c);
  tally t = {0};
  char *end;

  if (stack && ((t.stack = strtoull(stack, &end, 10)) < STACK_MIN || *end))
    return cli_usage("verify", "--stack takes a number of bytes, at least %d, not '%s'", STACK_MIN, stack);
  if (unknown)
    return cli_bad_option("verify", unknown);
  if (c->argc < 1 || c->argc > 2)
    return cli_usage("verify", "takes a folder of cases, or MODEL and CALLS; got %d arguments", c->argc);
  progress_begin(&t.bar);
  if (c->argc == 2) {
    one_case(c, c->argv[0], c->argv[0], c->argv[1], &t);
  } else {
    if (!is_dir(c->argv[0]))
      return cli_usage("verify", "'%s' is no folder; for a file say MODEL and CALLS", c->argv[0]);
    size_t n = strlen(c->argv[0]);
    while (n > 1 && c->argv[0][n - 1] == '/')
      c->argv[0][--n] = 0;
    walk(c, c->argv[0], n, 0, &t, true);
    walk(c, c->argv[0], n, 0, &t, false);
  }
  progress_end(&t.bar);
  if (t.passed + t.failed == 0) {
    fprintf(stderr, "rushlight verify: no case (model.pt or model.pt2 with calls.pt) below '%s'\n", c->argv[0]);
    return EXIT_REFUSED;
  }
  printf(c->json ? "{\"passed\": %zu, \"failed\": %zu}\n" : "%zu passed, %zu failed\n", t.passed, t.failed);
  return t.failed ? EXIT_NEGATIVE : EXIT_OK;
}
