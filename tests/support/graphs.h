/* support/graphs.h -- makes functions of programs from graph text. */
#ifndef TEST_SUPPORT_GRAPHS_H
#define TEST_SUPPORT_GRAPHS_H

#include "support/test.h"

#include "base/session.h"
#include "ir/graph.h"
#include "ir/program.h"

typedef struct graph_text {
  const char *name, *text;
  program *p;  /* NULL: a new one is made, which the caller releases */
  function *f; /* what was made */
} graph_text;

static inline void release_program(void *p) { program_release(p); }

/* For session_run: make the text a function of the program. */
static inline void define_graph(session *s, void *arg)
{
  graph_text *j = arg;
  bool fresh = !j->p;
  program *p = fresh ? program_new(s, s->cx->ctx) : j->p;

  if (fresh)
    session_defer(s, release_program, p);
  ir_graph *g = ir_parse(s, &p->types, j->text);
  session_defer(s, ir_graph_free_deferred, g);
  ir_verify(s, g, NULL);
  function *f = program_add_function(s, p, j->name);
  function_set_graph_steal(f, session_keep(s, g));
  if (fresh)
    session_keep(s, p);
  j->p = p;
  j->f = f;
}

#endif
