/* cli/costs.c -- sums a profile's events by operator, source line, method and node for `profile`
 * and `bench`. One pass reads the events in order with a stack of open events per thread, so that
 * self time is the time without children. Names are compared by address, since the library uses one
 * address for equal names. Cost: O(events), in hash tables. */
#include "costs.h"

#include <stdlib.h>
#include <string.h>

/* -- Tables ------------------------------------------------------------------------------------ */

/* The library uses one address for equal names, so addresses are keys. */
static size_t cost_slot(const costs_table *t, const void *a, const void *b)
{
  uint64_t h = ((uint64_t)(uintptr_t)a * UINT64_C(0x9e3779b97f4a7c15)) ^
               ((uint64_t)(uintptr_t)b * UINT64_C(0xd6e8feb86659fd93));
  size_t i = (size_t)(h >> 20) & (t->n_slots - 1);

  while (t->slots[i] && (t->keys[t->slots[i] - 1][0] != a || t->keys[t->slots[i] - 1][1] != b))
    i = (i + 1) & (t->n_slots - 1);
  return i;
}

static bool grow_costs(costs_table *t)
{
  size_t cap = t->cap ? 2 * t->cap : 64;
  costs_row *rows = realloc(t->rows, cap * sizeof *rows);

  if (!rows)
    return false;
  t->rows = rows;
  const void *(*keys)[2] = realloc(t->keys, cap * sizeof *keys);
  if (!keys)
    return false;
  t->keys = keys;
  uint32_t *slots = calloc(2 * cap, sizeof *slots);
  if (!slots)
    return false;
  free(t->slots);
  t->slots = slots;
  t->n_slots = 2 * cap;
  t->cap = cap;
  for (size_t i = 0; i < t->n; i++)
    t->slots[cost_slot(t, t->keys[i][0], t->keys[i][1])] = (uint32_t)i + 1;
  return true;
}

/* Return the row of these keys, empty if new; NULL if memory runs out. */
static costs_row *row_of(costs_table *t, const void *a, const void *b)
{
  if (t->n == t->cap && !grow_costs(t))
    return NULL;
  size_t i = cost_slot(t, a, b);
  if (!t->slots[i]) {
    t->rows[t->n] = (costs_row){0};
    t->keys[t->n][0] = a;
    t->keys[t->n][1] = b;
    t->slots[i] = (uint32_t)++t->n;
  }
  return &t->rows[t->slots[i] - 1];
}

static void free_table(costs_table *t)
{
  free(t->rows);
  free(t->slots);
  free(t->keys);
}

void costs_free(costs *r)
{
  free_table(&r->operators);
  free_table(&r->lines);
  free_table(&r->methods);
  free_table(&r->nodes);
}

/* -- Adding up --------------------------------------------------------------------------------- */

/* Open events of one thread, while events are read. */
#define MAX_OPEN 1024
typedef struct open_event {
  rush_profile_event e;
  double children,
    functions; /* seconds of its callees; of methods below, through any other calls */
  uint32_t method;            /* row + 1, functions */
} open_event;

typedef struct lane {
  open_event *open;
  uint32_t n;
} lane;

static double seconds_of(const rush_profile_event *e)
{
  return e->end_ns > e->start_ns ? 1e-9 * (double)(e->end_ns - e->start_ns) : 0;
}

/* Return two numbers as a key. */
static const void *key_of(uint32_t a, uint32_t b)
{
  return (const void *)(uintptr_t)((uint64_t)a << 32 | b);
}

static bool is_line(const rush_profile_event *a, const rush_profile_event *b)
{
  return a->line == b->line && a->code && b->code &&
         (a->file == b->file || (a->file && b->file && !strcmp(a->file, b->file)));
}

static bool add_operator(costs *r, const lane *l, const open_event *o, double took)
{
  costs_row *row = row_of(&r->operators, o->e.name, NULL);
  bool nested = false;

  if (!row)
    return false;
  for (uint32_t i = 0; i < l->n; i++)
    nested |= l->open[i].e.name == o->e.name;
  row->name = o->e.name;
  row->calls++;
  row->total += nested ? 0 : took;
  row->self += took - o->children;
  row->bytes += o->e.bytes;
  return true;
}

static bool add_line(costs *r, const lane *l, const open_event *o, double took)
{
  bool nested = false;

  if (!o->e.code || (o->e.kind == RUSH_PROFILE_FUNCTION && o->e.depth == 0))
    return true;
  costs_row *row = row_of(&r->lines, o->e.code, NULL);
  if (!row)
    return false;
  for (uint32_t i = 0; i < l->n; i++)
    nested |= l->open[i].e.depth > 0 && is_line(&l->open[i].e, &o->e);
  row->name = o->e.code;
  row->file = o->e.file;
  row->line = o->e.line;
  row->calls += !nested;
  row->total += nested ? 0 : took;
  if (o->e.kind == RUSH_PROFILE_OPERATOR)
    row->self += took - o->children;
  return true;
}

/* Add the time of a node of a graph: the operator that it calls, with everything the operator
 * calls. */
static bool add_node(costs *r, const lane *l, const open_event *o, double took)
{
  const open_event *caller = l->n ? &l->open[l->n - 1] : NULL;

  if (!o->e.caller || !caller || caller->e.kind != RUSH_PROFILE_FUNCTION)
    return true; /* inside of a composite, or called from outside */
  costs_row *row = row_of(&r->nodes, NULL, key_of(caller->method, o->e.node));
  if (!row)
    return false;
  row->name = o->e.name;
  row->code = o->e.inputs;
  row->parent = caller->method;
  row->node = o->e.node;
  row->calls++;
  row->total += took;
  row->self += took - o->children;
  return true;
}

/* Pop the innermost event, which is complete, off its thread's stack. */
static bool close_event(costs *r, lane *l)
{
  open_event *o = &l->open[--l->n];
  double took = seconds_of(&o->e);

  if (l->n) {
    l->open[l->n - 1].children += took;
    l->open[l->n - 1].functions += o->e.kind == RUSH_PROFILE_FUNCTION ? took : o->functions;
  }
  if (o->e.kind == RUSH_PROFILE_OPERATOR) {
    if (!add_operator(r, l, o, took) || !add_node(r, l, o, took))
      return false;
  } else if (o->method) {
    costs_row *row = &r->methods.rows[o->method - 1];
    row->calls++;
    row->total += took;
    row->self += took - o->functions;
    row->bytes += o->e.bytes;
  }
  return add_line(r, l, o, took);
}

static bool open_method(costs *r, lane *l, open_event *o)
{
  uint32_t parent = 0;

  for (uint32_t i = l->n; i-- > 0 && !parent;)
    parent = l->open[i].method;
  /* The caller's node distinguishes two submodules of one class. */
  costs_row *row = row_of(&r->methods, o->e.name, key_of(parent, o->e.node));
  if (!row)
    return false;
  row->name = o->e.name;
  row->code = o->e.code;
  row->node = o->e.node;
  row->file = o->e.file;
  row->line = o->e.line;
  row->parent = parent;
  row->level = parent ? r->methods.rows[parent - 1].level + 1 : 0;
  o->method = (uint32_t)(row - r->methods.rows) + 1;
  return true;
}

static bool add_event(costs *r, lane *l, const rush_profile_event *e)
{
  while (l->n && (e->depth <= l->open[l->n - 1].e.depth))
    if (!close_event(r, l))
      return false;
  if (l->n == MAX_OPEN || !e->end_ns)
    return true;
  open_event *o = &l->open[l->n];
  *o = (open_event){.e = *e};
  if (e->kind == RUSH_PROFILE_FUNCTION && !open_method(r, l, o))
    return false;
  l->n++;
  return true;
}

#define LANES 256 /* threads that the library distinguishes */

static bool read_events(cli *c, costs *r)
{
  lane *lanes = calloc(LANES, sizeof *lanes);
  rush_profile_event e;
  bool ok = lanes != NULL;

  for (size_t i = r->first; ok && rush_profile_event_at(c->context, i, &e); i++) {
    lane *l = &lanes[e.thread % LANES];
    if (!l->open)
      ok = (l->open = malloc(MAX_OPEN * sizeof *l->open)) != NULL;
    ok = ok && add_event(r, l, &e);
  }
  for (int i = 0; lanes && i < LANES; i++) {
    while (ok && lanes[i].n)
      ok = close_event(r, &lanes[i]);
    free(lanes[i].open);
  }
  free(lanes);
  return ok;
}

static int by_self(const void *a, const void *b)
{
  const costs_row *x = a, *y = b;

  return x->self < y->self ? 1 : x->self > y->self ? -1 : strcmp(x->name, y->name);
}

static int by_place(const void *a, const void *b)
{
  const costs_row *x = a, *y = b;
  int k = strcmp(x->file ? x->file : "", y->file ? y->file : "");

  return k ? k : x->line < y->line ? -1 : x->line > y->line;
}

/* Merge positions on one line into one row. */
static void merge_lines(costs_table *t)
{
  size_t n = 0;

  qsort(t->rows, t->n, sizeof *t->rows, by_place);
  for (size_t i = 0; i < t->n; i++) {
    if (n && by_place(&t->rows[n - 1], &t->rows[i]) == 0) {
      costs_row *to = &t->rows[n - 1];
      to->calls = to->calls > t->rows[i].calls ? to->calls : t->rows[i].calls;
      to->total += t->rows[i].total;
      to->self += t->rows[i].self;
    } else {
      t->rows[n++] = t->rows[i];
    }
  }
  t->n = n;
}

/* Order callers before their callees, the longest first. */
static bool order_methods(costs_table *t, costs_table *nodes)
{
  costs_row *rows = malloc((t->n + 1) * sizeof *rows);
  uint32_t *done = calloc(t->n + 1, sizeof *done); /* new index + 1 */
  size_t n = 0;

  if (!rows || !done) {
    free(rows);
    free(done);
    return false;
  }
  for (uint32_t at = 0; n < t->n;) { /* at: the row + 1 whose callees are next, depth first */
    size_t best = t->n;
    for (size_t i = 0; i < t->n; i++)
      if (!done[i] && t->rows[i].parent == at &&
          (best == t->n || t->rows[i].total > t->rows[best].total))
        best = i;
    if (best < t->n) {
      rows[n] = t->rows[best];
      done[best] = (uint32_t)++n;
      at = (uint32_t)best + 1;
    } else {
      at = at ? t->rows[at - 1].parent : 0;
    }
  }
  for (size_t i = 0; i < n; i++)
    rows[i].parent = rows[i].parent ? done[rows[i].parent - 1] : 0;
  for (size_t i = 0; i < nodes->n; i++)
    nodes->rows[i].parent = nodes->rows[i].parent ? done[nodes->rows[i].parent - 1] : 0;
  free(done);
  if (t->rows)
    memcpy(t->rows, rows, n * sizeof *rows);
  free(rows);
  return true;
}

#define MOST_EVENTS 1000000

/* -- Calling ----------------------------------------------------------------------------------- */

static rush_status one_call(cli *c, rush_module *m, const call_args *a, rush_error *err)
{
  rush_value result;
  rush_status st = rush_module_call_named(m, a->method, a->args, a->n_args, a->named, a->n_named,
                                          &c->call, &result, err);

  if (st == RUSH_OK)
    rush_value_release(result);
  c->output_bytes = 0;
  return st;
}

rush_status costs_calls(cli *c, rush_module *m, const call_args *a, size_t warmup, size_t n,
                        double budget, costs *out, rush_error *err)
{
  costs r = {0};
  rush_status st = RUSH_OK;
  bool capture = c->capture;
  progress bar;
  double start;

  c->capture = true; /* what the program prints is not the answer */
  progress_begin(&bar);
  for (size_t i = 0; i < warmup && st == RUSH_OK; i++) {
    progress_show(&bar, i, warmup, "calls to warm up");
    st = one_call(c, m, a, err);
  }
  if (st == RUSH_OK)
    st = rush_profile_start(c->context, MOST_EVENTS, err);
  start = cli_seconds();
  if (st == RUSH_OK)
    st = one_call(c, m, a, err);
  /* The first call finds names and source lines: it counts only if there is no room for others. */
  r.first = rush_profile_n_events(c->context, &r.n_dropped);
  if (r.n_dropped || 2 * r.first > MOST_EVENTS) {
    r.first = 0;
    r.calls = 1;
    n = 0;
  } else {
    start = cli_seconds();
    n = r.first && n > MOST_EVENTS / r.first - 1 ? MOST_EVENTS / r.first - 1 : n;
  }
  for (; r.calls < n && st == RUSH_OK &&
         (r.calls == 0 || budget == 0 || cli_seconds() - start < budget);
       r.calls++) {
    progress_show(&bar, r.calls, n, "calls");
    st = one_call(c, m, a, err);
  }
  r.seconds = cli_seconds() - start;
  rush_profile_stop(c->context);
  progress_end(&bar);
  c->capture = capture;
  if (st != RUSH_OK)
    return st;
  r.n_events = rush_profile_n_events(c->context, &r.n_dropped) - r.first;
  if (!read_events(c, &r) || !order_methods(&r.methods, &r.nodes)) {
    costs_free(&r);
    rush_error_clear(err);
    err->status = RUSH_ENOMEM;
    return RUSH_ENOMEM;
  }
  merge_lines(&r.lines);
  qsort(r.operators.rows, r.operators.n, sizeof(costs_row), by_self);
  qsort(r.lines.rows, r.lines.n, sizeof(costs_row), by_self);
  *out = r;
  return RUSH_OK;
}

/* -- Telling ----------------------------------------------------------------------------------- */

const char *costs_short_name(const char *qualified)
{
  const char *dot = strrchr(qualified, '.'), *from = qualified;

  for (const char *p = qualified; dot && p < dot; p++)
    if (*p == '.')
      from = p + 1;
  return strncmp(from, "__torch__.", 10) == 0 ? from + 10 : from;
}

const char *costs_time(double s, char out[COSTS_TIME_BYTES])
{
  if (s < 999.5e-9)
    snprintf(out, COSTS_TIME_BYTES, "%.0f ns", s * 1e9);
  else if (s < 999.5e-6)
    snprintf(out, COSTS_TIME_BYTES, "%.3g us", s * 1e6);
  else if (s < 0.9995)
    snprintf(out, COSTS_TIME_BYTES, "%.3g ms", s * 1e3);
  else
    snprintf(out, COSTS_TIME_BYTES, "%.3g s", s);
  return out;
}

void costs_print_operators(FILE *f, const costs *r, size_t most, int width)
{
  int name = width - 4 - 8 - 4 * 10;
  char total[COSTS_TIME_BYTES], self[COSTS_TIME_BYTES], mean[COSTS_TIME_BYTES];
  double rest = 0, between = r->seconds;

  name = name < 20 ? 20 : name > 48 ? 48 : name;
  fprintf(f, "%-*s %8s %9s %9s %6s %9s\n", name, "operator", "calls", "total", "self", "share",
          "mean");
  for (size_t i = 0; i < r->operators.n; i++) {
    const costs_row *o = &r->operators.rows[i];
    between -= o->self;
    if (i >= most) {
      rest += o->self;
      continue;
    }
    fprintf(f, "%-*.*s %8zu %9s %9s %5.1f%% %9s\n", name, name, o->name, o->calls,
            costs_time(o->total, total), costs_time(o->self, self), 100 * o->self / r->seconds,
            costs_time(o->total / (double)o->calls, mean));
  }
  if (r->operators.n > most)
    fprintf(f, "%-*s %8s %9s %9s %5.1f%%\n", name, "(others)", "", "", costs_time(rest, self),
            100 * rest / r->seconds);
  fprintf(f, "%-*s %8s %9s %9s %5.1f%%\n", name, "(between operators, with recording)", "", "",
          costs_time(between > 0 ? between : 0, self),
          between > 0 ? 100 * between / r->seconds : 0);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void json_place(FILE *f, const costs_row *r)
{
  fputs("\"file\": ", f);
  if (r->file)
    cli_json_text(f, r->file);
  else
    fputs("null", f);
  fprintf(f, ", \"line\": %u, ", r->line);
}

static void json_numbers(FILE *f, const costs *r, const costs_row *row, double share_of)
{
  fprintf(f, "\"calls\": %zu, \"total\": %.9f, \"self\": %.9f, \"share\": %.6f", row->calls,
          row->total, row->self, share_of / r->seconds);
}

static void json_lines(FILE *f, const costs *r)
{
  fputs(", \"lines\": [", f);
  for (size_t i = 0; i < r->lines.n; i++) {
    const costs_row *l = &r->lines.rows[i];
    fputs(i ? ", {" : "{", f);
    json_place(f, l);
    fputs("\"code\": ", f);
    cli_json_text(f, l->name);
    fputs(", ", f);
    json_numbers(f, r, l, l->self);
    fputs("}", f);
  }
  fputs("]", f);
}

static void json_parent(FILE *f, const costs_row *row)
{
  if (row->parent)
    fprintf(f, "\"parent\": %u, ", row->parent - 1);
  else
    fputs("\"parent\": null, ", f);
}

static void json_methods(FILE *f, const costs *r)
{
  fputs(", \"methods\": [", f);
  for (size_t i = 0; i < r->methods.n; i++) {
    const costs_row *m = &r->methods.rows[i];
    fputs(i ? ", {\"name\": " : "{\"name\": ", f);
    cli_json_text(f, m->name);
    fprintf(f, ", \"node\": %u, ", m->node);
    json_place(f, m);
    json_parent(f, m);
    json_numbers(f, r, m, m->total);
    fputs("}", f);
  }
  fputs("]", f);
}

static void json_nodes(FILE *f, const costs *r)
{
  fputs(", \"nodes\": [", f);
  for (size_t i = 0; i < r->nodes.n; i++) {
    const costs_row *n = &r->nodes.rows[i];
    fprintf(f, "%s{\"node\": %u, \"name\": ", i ? ",\n" : "\n", n->node);
    cli_json_text(f, n->name);
    fputs(", \"inputs\": ", f);
    cli_json_text(f, n->code ? n->code : "");
    fputs(", ", f);
    json_parent(f, n);
    json_numbers(f, r, n, n->total);
    fputs("}", f);
  }
  fputs("]", f);
}

void costs_json_operators(FILE *f, const costs *r)
{
  fputs("[", f);
  for (size_t i = 0; i < r->operators.n; i++) {
    const costs_row *o = &r->operators.rows[i];
    fputs(i ? ", {\"name\": " : "{\"name\": ", f);
    cli_json_text(f, o->name);
    fprintf(f,
            ", \"calls\": %zu, \"total\": %.9f, \"self\": %.9f, \"share\": %.6f, \"mean\": %.9f, "
            "\"bytes\": %lld}",
            o->calls, o->total, o->self, o->self / r->seconds, o->total / (double)o->calls,
            (long long)o->bytes);
  }
  fputs("]", f);
}

void costs_json(FILE *f, const costs *r, bool with_nodes)
{
  fprintf(f,
          "{\"calls\": %zu, \"seconds\": %.9f, \"events\": %zu, \"dropped\": %llu, \"operators\": ",
          r->calls, r->seconds, r->n_events, (unsigned long long)r->n_dropped);
  costs_json_operators(f, r);
  json_lines(f, r);
  json_methods(f, r);
  if (with_nodes)
    json_nodes(f, r);
  fputs("}\n", f);
}
