/* passes/passes.h -- passes that change a function's graph before it runs.
 *
 * A context has a row of passes, registered from outside through backend.h, Rushlight's own
 * compiler's among them.  They run, in order, over a copy of a function's graph when its code is
 * made; the canonical graph stays.  After each one the graph is verified.  One header: a pass is a
 * file of its own, and what it needs of another stands here. */
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
/* Are operators cast in regions of this graph?  Then passes_run is needed even when no passes are
 * wanted. */
bool pass_has_autocast(const ir_graph *g);
/* A new graph (not registered with the session): `g` after all passes.  `report`: as in rush_pass.
 * */
ir_graph *passes_run(session *s, const ir_graph *g, text_buf *report);

/* -- The library's own, by name ---------------------------------------------------------------- */

/* A pass changes a graph in place and keeps what it means.  The graph is the caller's alone, and so
 * are the `scratch` fields of the graphs of functions that it calls: hold the program's lock.  A
 * pass asks alias.h before it moves or removes anything; it takes time O(n log n) at most. */
typedef void pass_fn(session *s, ir_graph *g);
enum pass_flags {
  PASS_SIGNATURE = 1, /* the graph may take and give other values afterwards */
  PASS_EARLY = 2      /* for graphs as the front end emits them: the verifier does not know them */
};
typedef struct graph_pass {
  const char *name; /* as torch._C._jit_pass_NAME, where PyTorch has it */
  pass_fn *run;
  uint32_t flags;   /* pass_flags */
  const char *what; /* one line */
} graph_pass;

#define PASS(name, flags, what) pass_fn pass_##name;
#include "passes/passes.def"
#undef PASS

extern const graph_pass graph_passes[]; /* sorted by name */
extern const uint32_t n_graph_passes;
/* One pass, or several: "inline,dce".  Leaves the session when a name is unknown, or the graph is
 * broken. */
void pass_run_by_name(session *s, ir_graph *g, const char *names);
/* Every function compiled from now on goes through these passes, before the others.
 * RUSH_EARGUMENT: an unknown name, or a pass that changes what a graph takes. */
rush_status pass_add_named(context *c, const char *names, rush_error *err) RUSH_CHECKED;

/* -- For the front end ------------------------------------------------------------------------- */

/* True if the node may update running statistics, of which its schema says nothing: a norm that is
 * not known to evaluate. */
bool pass_updates_statistics(const ir_node *n);
/* Is it the author's name of a variable, not _1? (ssa.c) */
bool is_meaningful_name(const char *name);
/* Break and continue become early ends of a loop's body; from within convert_to_ssa (exits.c). */
void pass_loop_exits(session *s, ir_graph *g);
/* transform_exits of a graph that gives `result`, also when it always raises (NULL: then it gives
 * nothing). */
void pass_transform_exits_of(session *s, ir_graph *g, const type *result);
/* constant_propagation_immutable_types without removing what is unused then
 * (constant_propagation.c). */
void pass_fold_immutable(session *s, ir_graph *g);
/* Forked closures become functions of p, called after `owner`; `finish` cleans their graphs
 * (closures.c). */
void lift_closures(session *s, program *p, const char *owner, ir_graph *g, pass_fn *finish);

/* -- group.c ----------------------------------------------------------------------------------- */

/* backend.h's pass_group. */
void pass_group(rush_pass *p, const rush_group_def *def);

#endif
