/* profile.c -- rushlight profile: how a call spends its time: tables in the terminal, a trace
 * for ui.perfetto.dev. */
#include "costs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_CALLS 10
#define DEFAULT_WARMUP 3
#define DEFAULT_BUDGET 5.0 /* seconds, unless --calls is given */
#define SHOWN_ROWS 15
#define SHOWN_METHODS 30

/* -- The trace --------------------------------------------------------------------------------- */

static void trace_name(FILE *f, const char *what, uint32_t thread, const char *name)
{
  fprintf(f, "{\"ph\": \"M\", \"pid\": 1, \"tid\": %u, \"name\": \"%s\", \"args\": {\"name\": ",
          thread + 1, what);
  cli_json_text(f, name);
  fputs("}}", f);
}

static void trace_event(FILE *f, const rush_profile_event *e, uint64_t zero)
{
  fprintf(f,
          ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, \"cat\": "
          "\"%s\", \"name\": ",
          e->thread + 1, 1e-3 * (double)(e->start_ns - zero),
          1e-3 * (double)(e->end_ns - e->start_ns),
          e->kind == RUSH_PROFILE_OPERATOR ? "operator" : "method");
  cli_json_text(f, e->kind == RUSH_PROFILE_OPERATOR ? e->name : costs_short_name(e->name));
  fputs(", \"args\": {", f);
  if (e->kind == RUSH_PROFILE_FUNCTION) {
    fputs("\"function\": ", f);
    cli_json_text(f, e->name);
    fputs(", ", f);
  }
  if (*e->inputs) {
    fputs("\"inputs\": ", f);
    cli_json_text(f, e->inputs);
    fputs(", ", f);
  }
  if (e->code) {
    fputs("\"file\": ", f);
    cli_json_text(f, e->file ? e->file : "");
    fprintf(f, ", \"line\": %u, \"code\": ", e->line);
    cli_json_text(f, e->code);
    fputs(", ", f);
  }
  fprintf(f, "\"bytes\": %lld}}", (long long)e->bytes);
}

/* Write Chrome's trace event format: one object per line. */
static bool write_trace(cli *c, const costs *r, const char *path)
{
  FILE *f = fopen(path, "w");
  uint32_t n_threads = 0;
  rush_profile_event e, first;
  char name[32];

  if (!f)
    return false;
  fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", f);
  trace_name(f, "process_name", 0, c->argv[0]);
  for (size_t i = 0; rush_profile_event_at(c->context, i, &e); i++)
    if (e.thread >= n_threads)
      n_threads = e.thread + 1;
  for (uint32_t i = 0; i < n_threads; i++) {
    snprintf(name, sizeof name, i ? "thread %u" : "main thread", i);
    fputs(",\n", f);
    trace_name(f, "thread_name", i, name);
  }
  if (rush_profile_event_at(c->context, r->first, &first))
    for (size_t i = r->first; rush_profile_event_at(c->context, i, &e); i++)
      if (e.end_ns)
        trace_event(f, &e, first.start_ns);
  fputs("\n]}\n", f);
  bool ok = !ferror(f);
  return fclose(f) == 0 && ok;
}

/* -- Tables ------------------------------------------------------------------------------------ */

static int terminal_width(void)
{
  struct winsize w;

  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 60)
    return w.ws_col < 160 ? w.ws_col : 160;
  return 100;
}

/* Return a path and its line in at most `room` columns, cut at the front, in `text`. */
static const char *place_text(const costs_row *r, int room, char *text, size_t size)
{
  int n = snprintf(text, size, "%s:%u", r->file ? r->file : "?", r->line);

  n = n < (int)size ? n : (int)size - 1;
  return n <= room ? text : memcpy(text + n - room, "...", 3);
}

static void print_lines(const costs *r, int width)
{
  int room = width - 3 * 10 - 8 - 3, place = room * 2 / 5, code = room - place;
  char total[COSTS_TIME_BYTES], self[COSTS_TIME_BYTES], where[1024];

  if (!r->lines.n)
    return;
  printf("\n%-*s %8s %9s %9s %6s  %s\n", place, "line", "calls", "total", "self", "share", "code");
  for (size_t i = 0; i < r->lines.n && i < SHOWN_ROWS && r->lines.rows[i].self > 0; i++) {
    const costs_row *l = &r->lines.rows[i];
    printf("%-*s %8zu %9s %9s %5.1f%%  %.*s\n", place, place_text(l, place, where, sizeof where),
           l->calls, costs_time(l->total, total), costs_time(l->self, self),
           100 * l->self / r->seconds, code, l->name);
  }
}

static int longest_first(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return x < y ? 1 : x > y ? -1 : 0;
}

/* Return the time of the shortest of the SHOWN_METHODS longest methods.  Callers take longer than
 * their callees, so these are a tree too. */
static double shown_from(const costs_table *t)
{
  double *totals = malloc((t->n + 1) * sizeof *totals), least = 0;

  if (!totals || t->n <= SHOWN_METHODS) {
    free(totals);
    return 0;
  }
  for (size_t i = 0; i < t->n; i++)
    totals[i] = t->rows[i].total;
  qsort(totals, t->n, sizeof *totals, longest_first);
  least = totals[SHOWN_METHODS - 1];
  free(totals);
  return least;
}

static void print_methods(const costs *r, int width)
{
  int bar = 12, code = width > 130 ? width - 124 : 0,
      name = width - code - bar - 2 - 8 - 10 - 10 - 8;
  char total[COSTS_TIME_BYTES], self[COSTS_TIME_BYTES];
  double least = shown_from(&r->methods);
  size_t hidden = 0;

  if (!r->methods.n)
    return;
  printf("\n%-*s %8s %9s %9s %6s\n", name, "method", "calls", "total", "self", "share");
  for (size_t i = 0; i < r->methods.n; i++) {
    const costs_row *m = &r->methods.rows[i];
    double share = m->total / r->seconds;
    int indent = 2 * (m->level < 20 ? (int)m->level : 20);
    if (m->total < least) {
      hidden++;
      continue;
    }
    int filled = (int)(share * bar + 0.5);
    filled = filled < bar ? filled : bar;
    printf("%*s%-*.*s %8zu %9s %9s %5.1f%%%s%.*s", indent, "", name - indent, name - indent,
           costs_short_name(m->name), m->calls, costs_time(m->total, total),
           costs_time(m->self, self), 100 * share, filled ? "  " : "", filled, "############");
    if (code && m->level)
      printf("%*s  %.*s", bar - filled + (filled ? 0 : 2), "", code, m->code ? m->code : "");
    printf("\n");
  }
  if (hidden)
    printf("(%zu shorter ones)\n", hidden);
}

/* -- The verb ---------------------------------------------------------------------------------- */

static void print_tables(const costs *r, const char *trace)
{
  int width = terminal_width();
  char mean[COSTS_TIME_BYTES];

  printf("%zu call%s, %s each\n\n", r->calls, r->calls == 1 ? "" : "s",
         costs_time(r->seconds / (double)r->calls, mean));
  costs_print_operators(stdout, r, SHOWN_ROWS, width);
  print_lines(r, width);
  print_methods(r, width);
  if (trace)
    printf("\ntrace: %s (%zu events; open it at https://ui.perfetto.dev)\n", trace, r->n_events);
}

static bool parse_count(const char *text, size_t least, size_t *out)
{
  char *end;
  unsigned long long n = strtoull(text, &end, 10);

  *out = (size_t)n;
  return *text >= '0' && *text <= '9' && !*end && n >= least && n <= 1000000000;
}

static int profile(cli *c, rush_module *m, const call_args *a, size_t warmup, size_t calls,
                   const char *trace)
{
  rush_error err = RUSH_ERROR_INIT;
  costs r;

  if (costs_calls(c, m, a, warmup, calls ? calls : DEFAULT_CALLS, calls ? 0 : DEFAULT_BUDGET, &r,
                  &err) != RUSH_OK)
    return cli_report(c, &err);
  int code = EXIT_OK;
  if (trace && !write_trace(c, &r, trace)) {
    fprintf(stderr, "rushlight profile: cannot write '%s': %s\n", trace, strerror(errno));
    code = EXIT_REFUSED;
  }
  if (c->json)
    costs_json(stdout, &r, false);
  else
    print_tables(&r, code == EXIT_OK ? trace : NULL);
  if (r.n_dropped)
    fprintf(stderr, "rushlight profile: %llu events more than fit: the tables have the first %zu\n",
            (unsigned long long)r.n_dropped, r.n_events);
  costs_free(&r);
  return code;
}

int cli_profile(cli *c)
{
  const char *n_calls = cli_option(c, "--calls"), *n_warmup = cli_option(c, "--warmup");
  const char *trace = cli_option(c, "--output");
  size_t calls = 0, warmup = DEFAULT_WARMUP;
  rush_error err = RUSH_ERROR_INIT;
  rush_module *m;
  call_args a;
  int code;

  trace = trace ? trace : cli_option(c, "-o");
  if (n_calls && !parse_count(n_calls, 1, &calls))
    return cli_usage("profile", "--calls takes a number from 1, not '%s'", n_calls);
  if (n_warmup && !parse_count(n_warmup, 0, &warmup))
    return cli_usage("profile", "--warmup takes a number, not '%s'", n_warmup);
  if (c->argc < 1)
    return cli_usage("profile", "takes a model file");
  if (!call_parse(c, "profile", &a, &code))
    return code;
  if (!cli_load(c, c->argv[0], &m, &err)) {
    call_free(&a);
    return cli_report(c, &err);
  }
  if (call_complete(c, "profile", c->argv[0], m, &a, &code))
    code = profile(c, m, &a, warmup, calls, trace);
  rush_module_release(m);
  call_free(&a);
  return code;
}
