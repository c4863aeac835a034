/* passes/passes.h -- passes that change a function's graph before it runs.
 *
 * A context has a row of passes, registered from outside through backend.h, Rushlight's own compiler's among
 * them.  They run, in order, over a copy of a function's graph when its code is made; the canonical graph
 * stays.  After each one the graph is verified in debug builds.  One header: a pass is a file of its own, and
 * what it needs of another stands here. */
#ifndef RUSH_PASSES_PASSES_H
#define RUSH_PASSES_PASSES_H

#include "ir/program.h"

/* One run over one graph: what a pass from outside holds. */
struct rush_pass {
  session *s;
  ir_graph *graph;
  text_buf *report; /* why nodes were taken or not, or NULL */
};

/* Copies the definition.  Safe from several threads. */
rush_status pass_register(context *c, const rush_pass_def *def, rush_error *err) RUSH_CHECKED;
/* Are there any for this context's programs? */
bool passes_wanted(context *c);
/* A new graph (not registered with the session): `g` after all passes.  `report`: as in rush_pass. */
ir_graph *passes_run(session *s, const ir_graph *g, text_buf *report);

/* -- group.c ------------------------------------------------------------------------------------- */

/* backend.h's pass_group. */
void pass_group(rush_pass *p, const rush_group_def *def);

#endif
