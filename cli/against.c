/* against.c -- compares two models call by call, and finds the first node whose values differ.
 *
 * Both run the same calls, in order, on one instance each, as `verify` replays them; results are
 * compared with the tolerances of the record or of the command line, else by dtype and magnitude. A
 * call whose results differ is repeated in new contexts with the simple executor, where every
 * operator of the graphs is watched (rush_watch_start).
 *
 * Nodes are matched in the order in which they run: while both programs call the same operators,
 * the n-th of one is the n-th of the other.  Where the operators differ, the search ends with a
 * message: a guessed pairing would name the wrong node.
 *
 * The first program's values are kept, up to WINDOW_BYTES at a time, and the second's are compared
 * as they come; if the window is full before a difference is found, both run again for the next
 * window.  So memory is bounded, at the cost of repeated calls. */
#include "against.h"
#include "call.h"
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)256 << 20)
#define TEXT_BYTES 400

/* -- Nodes ------------------------------------------------------------------------------------- */

typedef struct node_text { /* an operator and where it was called */
  char name[120];
  char place[TEXT_BYTES]; /* "model.py:12: y = self.conv(x)", or "" */
} node_text;

typedef struct node {
  node_text text;
  rush_value results; /* a tuple of copies */
} node;

typedef struct search {
  cli *c;
  node *nodes;        /* the first program's, from number `first` on */
  size_t n, cap, first, seen;
  size_t bytes;
  bool is_full;       /* the window; more nodes follow */
  bool failed;        /* without memory */
  size_t second;      /* nodes of the second program so far */
  bool is_found;      /* the two parted: */
  bool parted;        /* in their operators; else in values */
  size_t at;          /* node number */
  node_text mine, theirs;
  char why[1000];
  double gap;         /* the largest difference between values that are close enough */
  char gap_at[TEXT_BYTES + 400];
} search;

static void describe_node(node_text *t, const rush_watched *w)
{
  const char *slash = w->file ? strrchr(w->file, '/') : NULL;

  snprintf(t->name, sizeof t->name, "%s", w->name);
  t->place[0] = 0;
  if (w->file && w->line)
    snprintf(t->place, sizeof t->place, "%.120s:%u: %.200s", slash ? slash + 1 : w->file, w->line,
             w->code ? w->code : "");
}

static size_t bytes_of(rush_value v)
{
  size_t bytes = 0;

  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    return (size_t)rush_tensor_n_elems(v.as.tensor) *
           rush_dtype_bytes(rush_tensor_dtype(v.as.tensor));
  for (size_t i = 0; (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE) && i < rush_value_len(v);
       i++)
    bytes += bytes_of(rush_value_item(v, i));
  return bytes;
}

/* Make a tuple of the results; None if memory runs out.  New. */
static rush_value tuple_of(cli *c, const rush_watched *w)
{
  rush_value tuple;

  return rush_tuple_create(c->context, w->results, w->n_results, &tuple, NULL) == RUSH_OK
           ? tuple
           : rush_value_none();
}

static node *add_node(search *s)
{
  if (s->n == s->cap) {
    size_t cap = s->cap ? 2 * s->cap : 256;
    node *nodes = realloc(s->nodes, cap * sizeof *nodes);
    if (!nodes)
      return NULL;
    s->nodes = nodes;
    s->cap = cap;
  }
  return &s->nodes[s->n];
}

/* Record a node of the first program if it is in the window. */
static void keep_node(void *user, const rush_watched *w)
{
  search *s = user;

  if (s->failed || s->seen++ < s->first)
    return;
  s->is_full |= s->bytes >= WINDOW_BYTES;
  if (s->is_full)
    return;
  rush_value results = tuple_of(s->c, w);
  node *k = add_node(s);
  if (k && calls_copy(s->c, results, true, &k->results, NULL)) {
    describe_node(&k->text, w);
    s->bytes += bytes_of(k->results) + sizeof *k;
    s->n++;
  } else {
    s->failed = true;
  }
  rush_value_release(results);
}

/* Compare a node of the second program with the first's of the same number. */
static void compare_node(void *user, const rush_watched *w)
{
  search *s = user;

  if (s->is_found || s->failed)
    return;
  const size_t at = s->second++;
  if (at < s->first || at >= s->first + s->n)
    return;
  const node *k = &s->nodes[at - s->first];
  cli_tolerances t = {.given = s->c->tolerances};
  rush_value results = tuple_of(s->c, w);
  describe_node(&s->theirs, w);
  s->parted = strcmp(k->text.name, s->theirs.name) != 0;
  s->is_found = s->parted || !cli_same(k->results, results, &t, "results", s->why, sizeof s->why);
  if (s->is_found) {
    s->at = at;
    s->mine = k->text;
  } else if (t.gap > s->gap) {
    s->gap = t.gap;
    snprintf(s->gap_at, sizeof s->gap_at, "node %zu, %s, %s%s%s", at, k->text.name, t.at,
             k->text.place[0] ? "; " : "", k->text.place);
  }
  rush_value_release(results);
}

static void drop_nodes(search *s)
{
  for (size_t i = 0; i < s->n; i++)
    rush_value_release(s->nodes[i].results);
  s->n = s->bytes = 0;
}

/* -- Looking for the node ---------------------------------------------------------------------- */

/* Two models, loaded again in a context where operators run one by one. */
typedef struct pair {
  cli c;               /* with a context of its own */
  const char *path[2];
  rush_module *m[2];
} pair;

static void pair_close(pair *p)
{
  for (int i = 0; i < 2; i++)
    rush_module_release(p->m[i]);
  rush_context_release(p->c.context);
  p->m[0] = p->m[1] = NULL;
  p->c.context = NULL;
}

static bool pair_open(pair *p, const cli *c, const char *mine, const char *theirs, rush_error *err)
{
  rush_context_options options = *c->options;

  *p = (pair){.c = *c, .path = {mine, theirs}};
  options.executor = RUSH_EXECUTOR_SIMPLE;
  options.callback_user = &p->c;
  p->c.context = NULL;
  p->c.output = NULL;
  p->c.output_bytes = p->c.output_cap = 0;
  p->c.capture = true;
  if (rush_context_create(&options, &p->c.context, err) != RUSH_OK)
    return false;
  for (int i = 0; i < 2; i++)
    if (rush_module_load(p->c.context, p->path[i], &p->c.load, &p->m[i], err) != RUSH_OK)
      return false;
  return rush_manual_seed(p->c.context, c->seed, err) == RUSH_OK;
}

/* Seed a call; without a seed in the record both programs draw the same numbers. */
static void seed_call(cli *c, rush_value call)
{
  if (!calls_has(call, "seed"))
    (void)!rush_manual_seed(c->context, c->seed, NULL);
}

/* Repeat the calls before number `at`, which may change the state, and watch that one. */
static void replay_watched(pair *p, int which, rush_value calls, size_t at, rush_watch_fn *fn,
                           search *s)
{
  for (size_t i = 0; i <= at; i++) {
    performed done = {0};
    seed_call(&p->c, rush_value_item(calls, i));
    if (i == at && rush_watch_start(p->c.context, fn, s, NULL) != RUSH_OK)
      s->failed = true;
    calls_perform(&p->c, p->m[which], rush_value_item(calls, i), &done);
    performed_free(&done);
  }
  rush_watch_stop(p->c.context, fn, s);
}

/* Search call `at` window by window; returns false with the error set if the models do not load
 * again. */
static bool find_node(const cli *c, const char *mine, const char *theirs, rush_value calls,
                      size_t at, search *s, rush_error *err)
{
  pair p;
  bool ok = true;

  do {
    ok = pair_open(&p, c, mine, theirs, err);
    s->c = &p.c;
    s->seen = s->second = 0;
    s->is_full = false;
    if (ok) {
      replay_watched(&p, 0, calls, at, keep_node, s);
      replay_watched(&p, 1, calls, at, compare_node, s);
    }
    const size_t n = s->n;
    if (ok && !s->is_found && !s->is_full && s->second != s->seen) {
      s->is_found = s->parted = true; /* one of them continues */
      s->at = s->second < s->seen ? s->second : s->seen;
      s->theirs.name[0] = s->mine.name[0] = 0;
      if (s->at < s->first + n && s->at >= s->first)
        s->mine = s->nodes[s->at - s->first].text;
    }
    drop_nodes(s);
    s->first += n;
    free(p.c.output);
    pair_close(&p);
  } while (ok && s->is_full && !s->is_found && !s->failed);
  free(s->nodes);
  return ok;
}

/* -- Saying what was found --------------------------------------------------------------------- */

static const char *or_end(const char *name) { return *name ? name : "the end"; }

static void print_node(const search *s)
{
  if (s->failed) {
    printf("  the nodes were not compared: not enough memory\n");
  } else if (!s->is_found) {
    printf("  no node of the graphs differs by more than its tolerance; the largest difference is "
           "%.3g (%s)\n",
           s->gap, *s->gap_at ? s->gap_at : "nowhere");
  } else if (s->parted) {
    printf(s->at ? "  all nodes before node %zu agree; there the programs part: %s, and %s\n"
                 : "  the programs part at their first node, %zu: %s, and %s\n",
           s->at, or_end(s->mine.name), or_end(s->theirs.name));
  } else {
    printf("  the first node that differs is node %zu, %s: %s\n", s->at, s->mine.name, s->why);
  }
  if (s->is_found && s->mine.place[0])
    printf("    %s\n", s->mine.place);
  if (s->is_found && s->theirs.place[0] && strcmp(s->mine.place, s->theirs.place) != 0)
    printf("    %s\n", s->theirs.place);
}

static void json_field(const char *key, const char *text)
{
  printf(", \"%s\": ", key);
  cli_json_text(stdout, text);
}

static void json_node(const search *s)
{
  printf(", \"node\": ");
  if (s->failed || !s->is_found) {
    printf("null");
    return;
  }
  printf("{\"number\": %zu, \"parted\": %s", s->at, s->parted ? "true" : "false");
  json_field("operator", s->mine.name);
  json_field("other", s->theirs.name);
  json_field("place", s->mine.place);
  if (!s->parted)
    json_field("why", s->why);
  printf("}");
}

/* -- Calls ------------------------------------------------------------------------------------- */

typedef struct both {
  cli *c;
  const char *path[2];
  rush_module *m[2];
  rush_value calls; /* a list of dicts */
  size_t same, different;
} both;

static bool same_error(const performed *a, const performed *b, char *why, size_t size)
{
  const char *type[] = {a->err.type ? a->err.type : "?", b->err.type ? b->err.type : "?"};

  if (a->st != RUSH_OK && b->st != RUSH_OK && strcmp(type[0], type[1]) == 0)
    return true;
  if (a->st == RUSH_OK)
    snprintf(why, size, "the other raised %s: %.600s", type[1],
             b->err.message ? b->err.message : "");
  else if (b->st == RUSH_OK)
    snprintf(why, size, "raised %s: %.600s; the other returned", type[0],
             a->err.message ? a->err.message : "");
  else
    snprintf(why, size, "raised %s, and the other %s", type[0], type[1]);
  return false;
}

static bool compare_call(both *b, size_t i, cli_tolerances *t, char *why, size_t size)
{
  const rush_value call = rush_value_item(b->calls, i);
  performed mine = {0}, theirs = {0};

  seed_call(b->c, call);
  calls_perform(b->c, b->m[0], call, &mine);
  seed_call(b->c, call);
  calls_perform(b->c, b->m[1], call, &theirs);
  const bool returned = mine.st == RUSH_OK && theirs.st == RUSH_OK;
  const bool ok = !returned ? same_error(&mine, &theirs, why, size)
                            : cli_same(mine.result, theirs.result, t, "result", why, size) &&
                                  cli_same(mine.args, theirs.args, t, "args_after", why, size);
  performed_free(&mine);
  performed_free(&theirs);
  return ok;
}

static void one_call(both *b, size_t i)
{
  const rush_value call = rush_value_item(b->calls, i);
  const char *method = rush_value_string(calls_entry(call, "method"), NULL);
  cli_tolerances t = {.list = calls_entry(call, "tolerances"), .given = b->c->tolerances};
  rush_error err = RUSH_ERROR_INIT;
  search s = {.c = b->c};
  char why[1200] = "";
  const bool ok = compare_call(b, i, &t, why, sizeof why);

  *(ok ? &b->same : &b->different) += 1;
  if (!ok && !find_node(b->c, b->path[0], b->path[1], b->calls, i, &s, &err)) {
    s.failed = true;
    rush_error_clear(&err);
  }
  if (b->c->json) {
    printf("{\"call\": %zu", i);
    json_field("method", method ? method : "");
    printf(", \"same\": %s, \"largest_difference\": %.9g", ok ? "true" : "false",
           t.gap <= 1e300 ? t.gap : 1e300);
    json_field("at", t.at);
    if (!ok) {
      json_field("why", why);
      json_node(&s);
    }
    printf("}\n");
  } else if (ok) {
    printf("call %zu (%s): the same", i, method ? method : "");
    printf(t.gap > 0 ? "; the largest difference is %.3g, at %s\n" : " in every bit\n", t.gap,
           t.at);
  } else {
    printf("call %zu (%s): %s\n", i, method ? method : "", why);
    print_node(&s);
  }
  fflush(stdout);
}

/* Load the calls of a file (new), with a message if it is malformed. */
static int load_calls(cli *c, const char *path, rush_value *out)
{
  rush_error err = RUSH_ERROR_INIT;
  rush_value all;

  if (rush_value_load_with(c->context, path, &c->load, &all, &err) != RUSH_OK)
    return cli_report(c, &err);
  *out = rush_value_retain(calls_entry(all, "calls"));
  rush_value_release(all);
  if (out->tag == RUSH_TAG_LIST && rush_value_len(*out) > 0)
    return EXIT_OK;
  rush_value_release(*out);
  fprintf(stderr, "rushlight verify: %s has no calls\n", path);
  return EXIT_REFUSED;
}

/* Make a list of the one call of the command line; new. */
static rush_status calls_of_arguments(cli *c, const call_args *a, bool is_random, rush_value *out,
                                      rush_error *err)
{
  rush_value call;
  rush_status st = calls_from_arguments(c, a, is_random, &call, err);

  if (st != RUSH_OK)
    return st;
  st = rush_list_create(c->context, &call, 1, out, err);
  rush_value_release(call);
  return st;
}

static int compare_models(both *b)
{
  b->c->capture = true; /* what programs print is not ours to show twice */
  for (size_t i = 0; i < rush_value_len(b->calls); i++)
    one_call(b, i);
  b->c->capture = false;
  printf(b->c->json ? "{\"same\": %zu, \"different\": %zu}\n" : "%zu the same, %zu different\n",
         b->same, b->different);
  return b->different ? EXIT_NEGATIVE : EXIT_OK;
}

static bool is_calls_file(const cli *c)
{
  const size_t n = c->argc == 2 ? strlen(c->argv[1]) : 0;

  return n > 3 && c->argv[1][0] != '@' && strcmp(c->argv[1] + n - 3, ".pt") == 0;
}

int cli_against(cli *c, const char *other)
{
  const bool is_file = is_calls_file(c);
  rush_error err = RUSH_ERROR_INIT;
  both b = {.c = c, .path = {c->argv[0], other}};
  call_args a = {0};
  int code = EXIT_OK;

  const char *unknown = is_file ? cli_unknown_option(c) : NULL;
  if (unknown)
    return cli_bad_option("verify", unknown);
  if (!is_file && !call_parse(c, "verify", &a, &code))
    return code;
  for (int i = 0; i < 2 && code == EXIT_OK; i++)
    if (rush_module_load(c->context, b.path[i], &c->load, &b.m[i], &err) != RUSH_OK)
      code = cli_report(c, &err);
  if (code == EXIT_OK && is_file)
    code = load_calls(c, c->argv[1], &b.calls);
  else if (code == EXIT_OK && call_complete(c, "verify", b.path[0], b.m[0], &a, &code) &&
           calls_of_arguments(c, &a, rush_module_is_random(b.m[0]) || rush_module_is_random(b.m[1]),
                              &b.calls, &err) != RUSH_OK)
    code = cli_report(c, &err);
  if (code == EXIT_OK)
    code = compare_models(&b);
  rush_value_release(b.calls);
  for (int i = 0; i < 2; i++)
    rush_module_release(b.m[i]);
  call_free(&a);
  return code;
}
