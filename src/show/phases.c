/* show/phases.c -- prints a method's graph after each phase of PyTorch's executors.
 *
 * The phases are those of passes/pipelines.h, over a copy in which calls are inlined.  A graph that
 * a phase did not change is not printed again. */
#include "passes/pipelines.h"
#include "show/show.h"

typedef struct shown {
  text_buf *out, *now, *before; /* texts of the graph */
} shown;

static void show_tables(text_buf *out)
{
  for (uint32_t i = 0; i < n_graph_pipelines; i++) {
    text_printf(out, "# %s:", graph_pipelines[i].name);
    for (const char *const *phase = graph_pipelines[i].phases; *phase; phase++)
      text_printf(out, " %s", *phase);
    text_putc(out, '\n');
  }
}

static void show_phase(session *s, const ir_graph *g, const char *pipeline, const char *phase,
                       bool left_out, void *arg)
{
  shown *w = arg;
  text_buf *last = w->now;

  (void)s;
  text_printf(w->out, "\n# %s: %s", pipeline, phase);
  if (left_out) {
    text_puts(w->out, ": left out, since it may round differently\n");
    return;
  }
  w->now = w->before;
  w->before = last;
  text_clear(w->now);
  ir_print(w->now, g, false);
  if (strcmp(text_str(w->now), text_str(last)) == 0)
    text_puts(w->out, ": unchanged\n");
  else
    text_printf(w->out, "\n%s", text_str(w->now));
}

void show_phases(session *s, function *f, text_buf *out)
{
  shown w = {.out = out, .now = session_text(s), .before = session_text(s)};

  function_ensure(s, f);
  session_lock_to_read(s, &f->program->lock);
  ir_graph *g = ir_graph_copy(s, f->graph);
  session_defer(s, ir_graph_free_deferred, g);
  show_tables(out);
  pass_run_by_name(s, g, "inline");
  show_phase(s, g, f->name, "inline", false, &w);
  pipeline_run(s, g, "runProfilingOptimizations", false, show_phase, &w);
}
