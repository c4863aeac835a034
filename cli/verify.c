/* verify.c -- rushlight verify: replays recorded calls and compares the results with PyTorch's. */
#include "calls.h"
#include "against.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct tally {
  size_t passed, failed, done, total;
  size_t stack;       /* bytes of each call's stack; 0: the command's own */
  size_t stack_used;  /* the most that a call of this case took */
  bool records;       /* the program of this case computes gradients */
  progress bar;
} tally;

/* -- One call ---------------------------------------------------------------------------------- */

static bool judge_error(rush_value raises, rush_status st, rush_error *err, char *why, size_t size)
{
  const char *type = rush_value_string(calls_entry(raises, "type"), NULL);
  const char *contains = rush_value_string(calls_entry(raises, "contains"), NULL);

  if (st == RUSH_OK) {
    snprintf(why, size, "returned instead of raising %s", type);
    return false;
  }
  if (!err->type || strcmp(err->type, type) != 0) {
    snprintf(why, size, "raised %s (%.200s), not %s", err->type ? err->type : "nothing",
             err->message, type);
    return false;
  }
  if (!strstr(err->message, contains) && !(err->traceback && strstr(err->traceback, contains))) {
    snprintf(why, size, "the message lacks '%s': %.200s", contains, err->message);
    return false;
  }
  return true;
}

static bool judge(cli *c, rush_value call, performed *p, char *why, size_t size)
{
  cli_tolerances tolerances = {.list = calls_entry(call, "tolerances"), .given = c->tolerances};
  rush_error *err = &p->err;

  if (calls_has(call, "raises")) {
    if (!judge_error(calls_entry(call, "raises"), p->st, err, why, size))
      return false;
  } else if (p->st != RUSH_OK) {
    if (err->message)
      snprintf(why, size, "raised %s: %.600s", err->type ? err->type : "?", err->message);
    else
      snprintf(why, size, "the call has no method, no tuple of args, or more than 64 arguments");
    return false;
  } else if (!cli_same(calls_entry(call, "result"), p->result, &tolerances, "result", why, size)) {
    return false;
  }
  if (calls_has(call, "stdout")) {
    const char *want = rush_value_string(calls_entry(call, "stdout"), NULL),
               *got = c->output_bytes ? c->output : "";
    if (strcmp(want, got) != 0) {
      snprintf(why, size, "printed '%.200s', not '%.200s'", got, want);
      return false;
    }
  }
  if (calls_has(call, "args_after"))
    return cli_same(calls_entry(call, "args_after"), p->args, &tolerances, "args_after", why, size);
  return true;
}

/* True if the program can observe whether its results require grad.  PyTorch's calls were recorded
 * with gradients on, so such a program is replayed the same way; all others are called as users
 * call them. */
static bool uses_gradients(cli *c, rush_module *m)
{
  static const char *const operators[] = {
    "prim::requires_grad ", "aten::is_leaf ",      "prim::is_leaf ",
    "prim::grad ",          "aten::grad ",         "aten::backward",
    "aten::retain_grad ",   "aten::retains_grad ", "aten::requires_grad_ "};
  rush_error err = RUSH_ERROR_INIT;
  bool asks = false;
  char *text;

  if (rush_module_dump(m, RUSH_DUMP_OPS, NULL, &text, &err) != RUSH_OK) {
    rush_error_clear(&err); /* a call will report the error */
    return false;
  }
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    asks |= strstr(text, operators[i]) != NULL;
  rush_free_text(c->context, text);
  return asks;
}

static bool replay_call(cli *c, rush_module *m, rush_value call, tally *t, char *why, size_t size)
{
  /* A recording call refuses writes to a leaf. */
  performed p = {.stack = t->stack, .records = t->records || calls_has(call, "raises")};
  bool ok = false;

  calls_perform(c, m, call, &p);
  if (t->stack && p.st == RUSH_OK && p.stack_used == 0)
    snprintf(why, size, "there is no thread with a stack of %zu bytes", t->stack);
  else
    ok = judge(c, call, &p, why, size);
  t->stack_used = p.stack_used > t->stack_used ? p.stack_used : t->stack_used;
  performed_free(&p);
  return ok;
}

/* -- Cases ------------------------------------------------------------------------------------- */

/* Replay a case.  Returns 0 if it passed, else an exit code with the reason in why. */
static int replay(cli *c, const char *model, const char *calls_path, tally *t, char *why,
                  size_t size)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value recorded;
  rush_module *m;
  int code = 0;

  if (rush_value_load_with(c->context, calls_path, &c->load, &recorded, &err) != RUSH_OK ||
      (rush_module_load(c->context, model, &c->load, &m, &err) != RUSH_OK &&
       (rush_value_release(recorded), 1))) {
    snprintf(why, size, "%.700s", err.message);
    code = cli_exit(err.status);
    rush_error_clear(&err);
    return code;
  }
  rush_value calls = calls_entry(recorded, "calls");
  t->records = uses_gradients(c, m);
  c->capture = true;
  for (size_t i = 0; i < rush_value_len(calls) && code == 0; i++) {
    char reason[1000];
    rush_value call = rush_value_item(calls, i);
    if (!replay_call(c, m, call, t, reason, sizeof reason)) {
      snprintf(why, size, "call %zu (%s): %.900s", i,
               rush_value_string(calls_entry(call, "method"), NULL), reason);
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

/* Visit folders below `path` that contain a case, sorted by name. */
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

#define STACK_MIN 16384 /* bytes: the system's minimum for a thread */

int cli_verify(cli *c)
{
  const char *stack = cli_option(c, "--stack"), *other = cli_option(c, "--against");
  tally t = {0};
  char *end;
  int code;

  if (!cli_take_tolerances(c, "verify", &code))
    return code;
  if (other && stack)
    return cli_usage("verify", "--against and --stack do not go together");
  if (other && c->argc > 0 && !is_dir(c->argv[0]))
    return cli_against(c, other);
  const char *unknown = cli_unknown_option(c);

  if (stack && ((t.stack = strtoull(stack, &end, 10)) < STACK_MIN || *end))
    return cli_usage("verify", "--stack takes a number of bytes, at least %d, not '%s'", STACK_MIN,
                     stack);
  if (unknown)
    return cli_bad_option("verify", unknown);
  if (other)
    return cli_usage("verify", "--against compares two models: MODEL --against OTHER, then CALLS "
                               "or the arguments of a call");
  if (c->argc < 1 || c->argc > 2)
    return cli_usage("verify", "takes a folder of cases, or MODEL and CALLS; got %d arguments",
                     c->argc);
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
    fprintf(stderr, "rushlight verify: no case (model.pt or model.pt2 with calls.pt) below '%s'\n",
            c->argv[0]);
    return EXIT_REFUSED;
  }
  printf(c->json ? "{\"passed\": %zu, \"failed\": %zu}\n" : "%zu passed, %zu failed\n", t.passed,
         t.failed);
  return t.failed ? EXIT_NEGATIVE : EXIT_OK;
}
