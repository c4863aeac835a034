/* Runs passes over graph text, for people and tests:
 *
 *   pass_tool PASS[,PASS...] < GRAPHS     prints each graph after the passes, verified
 *   pass_tool --list                      prints name, description and flags of each pass
 *   pass_tool --time PASS                 prints nanoseconds for each graph
 *
 * Graphs are separated by lines that begin with "---".  Python before a graph defines the functions
 * that it calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "passes/passes.h"
#include "run/code.h"
#include "script/front/unit.h"

typedef struct job {
  const char *text, *passes;
  text_buf out;
  bool timed;
} job;

static void free_graph(void *g) { ir_graph_free(g); }
static void release_program(void *p) { program_release(p); }

static void transform(session *s, void *arg)
{
  job *j = arg;
  program *p = program_new(s, s->cx->ctx);

  session_defer(s, release_program, p);
  const char *graph = strncmp(j->text, "graph", 5) == 0 ? j->text : strstr(j->text, "\ngraph");
  if (graph && graph > j->text)
    (void)script_unit_load(s, p, "defs.py", (str){j->text, (size_t)(graph + 1 - j->text)});
  ir_graph *g = ir_parse(s, &p->types, graph ? graph : j->text);
  session_defer(s, free_graph, g);

  clock_t start = clock(); /* processor time: other processes may be running */
  pass_run_by_name(s, g, j->passes);
  double took = (double)(clock() - start) / CLOCKS_PER_SEC * 1e9;
  ir_verify(s, g, j->passes);
  if (!j->timed)
    ir_print(&j->out, g, false);
  else
    text_printf(&j->out, "# %.0f ns\n", took);
}

static char *read_all(FILE *f)
{
  size_t n = 0, cap = 1 << 16;
  char *text = malloc(cap);

  for (size_t got; text && (got = fread(text + n, 1, cap - n - 1, f)) > 0;) {
    n += got;
    if (cap - n < 2)
      text = realloc(text, cap *= 2);
  }
  if (text)
    text[n] = '\0';
  return text;
}

static void run(context *c, char *text, const char *passes, bool timed)
{
  rush_error err = RUSH_ERROR_INIT;
  call_ctx cx;
  job j = {.text = text, .passes = passes, .timed = timed};

  call_ctx_init(&cx, c, &err);
  text_init(&j.out, c);
  if (session_run(&cx, transform, &j) == RUSH_OK)
    fputs(text_str(&j.out), stdout);
  else
    printf("error: %s\n", err.message);
  text_free(&j.out);
  rush_error_clear(&err);
}

int main(int argc, char **argv)
{
  bool timed = argc > 2 && strcmp(argv[1], "--time") == 0;
  context *c;

  if (argc > 1 && strcmp(argv[1], "--list") == 0) {
    for (uint32_t i = 0; i < n_graph_passes; i++)
      printf("%s\t%s\t%s\t%s\n", graph_passes[i].name, graph_passes[i].what,
             graph_passes[i].flags & PASS_SIGNATURE ? "signature" : "",
             graph_passes[i].exact ? "" : "rounds");
    return 0;
  }
  if (argc < 2 || context_new(NULL, &c, NULL) != RUSH_OK || run_init(c, NULL) != RUSH_OK)
    return 2;
  char *text = read_all(stdin), *at = text;
  while (at && *at) {
    char *end = strncmp(at, "---", 3) == 0 ? at : strstr(at, "\n---"), *next = NULL;
    if (end) {
      next = strchr(end + 1, '\n');
      *end = '\0';
    }
    if (*at)
      run(c, at, argv[timed ? 2 : 1], timed);
    puts("---");
    at = next ? next + 1 : NULL;
  }
  free(text);
  context_release(c);
  return 0;
}
