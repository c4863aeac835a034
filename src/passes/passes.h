/* passes/passes.h -- passes that change a function's graph before it runs.
 *
 * A context has a list of passes, registered through backend.h, including Rushlight's own
 * compiler's.  They run, in order, over a copy of a function's graph when its code is made; the
 * canonical graph is not changed.  After each one the graph is verified.  One header for all: each
 * pass is a file of its own, and functions that one needs of another are declared here. */
#ifndef RUSH_PASSES_PASSES_H
#define RUSH_PASSES_PASSES_H

#include "ir/program.h"

struct specialisation; /* passes/specialise.h */

/* One run over one graph: the handle of an external pass. */
struct rush_pass {
  session *s;
  ir_graph *graph;
  text_buf *report; /* why nodes were grouped or not, or NULL */
};

/* Register a pass; copies the definition.  Safe from several threads. */
rush_status pass_register(context *c, const rush_pass_def *def, rush_error *err) RUSH_CHECKED;
/* True if calls are inlined and passes run on this context's programs: not with the simple
 * executor. */
bool passes_wanted(context *c);
/* True if the graph has regions in which operators are cast: then passes_run is needed even if
 * passes_wanted is false. */
bool pass_has_autocast(const ir_graph *g);
/* Return a new graph (not registered with the session): that of f, which is compiled, with its
 * calls inlined, after all passes.  `sp`: specialised for it (specialise.h), or NULL.
 * `is_recorded`: for calls that may record gradients; operators stay in order, and only in
 * subgraphs that are differentiated as one are they grouped.  Under its program's lock.  `report`:
 * as in rush_pass. */
ir_graph *passes_run(session *s, const function *f, struct specialisation *sp, bool is_recorded,
                     text_buf *report);

/* Return a new graph (not registered with the session): that of f with its calls inlined, before
 * other passes.  Under its program's lock. */
ir_graph *passes_base(session *s, const function *f, bool is_recorded);
/* Run the context's passes over a graph, in their order. */
void pass_run_registered(session *s, ir_graph *g);

/* -- The library's own, by name ---------------------------------------------------------------- */

/* A pass changes a graph in place and keeps its meaning.  The caller must have exclusive access to
 * the graph, and to the `scratch` fields of the graphs of functions that it calls: hold the
 * program's lock.  A pass consults alias.h before it moves or removes anything; it takes at most
 * O(n log n) time. */
typedef void pass_fn(session *s, ir_graph *g);
enum pass_flags {
  PASS_SIGNATURE = 1, /* the graph may have other inputs and outputs afterwards */
  PASS_EARLY = 2      /* for graphs as the front end emits them: the verifier refuses these */
};
typedef enum pass_exactness { ROUNDS, EXACT } pass_exactness;
typedef struct graph_pass {
  const char *name; /* torch._C._jit_pass_NAME, if PyTorch has it */
  pass_fn *run;
  pass_exactness exact;
  uint32_t flags;   /* pass_flags */
  const char *what; /* description, one line */
} graph_pass;

#define PASS(name, exact, flags, what) pass_fn pass_##name;
#include "passes/passes.def"
#undef PASS

extern const graph_pass graph_passes[]; /* sorted by name */
extern const uint32_t n_graph_passes;
/* Find a pass by its name or a synonym; NULL: there is none. */
const graph_pass *pass_find(str name);
/* Run one pass, or several: "inline,dce".  Leaves the session if a name is unknown, or the graph is
 * invalid. */
void pass_run_by_name(session *s, ir_graph *g, const char *names);
/* Run these passes on every function compiled from now on, before the others. RUSH_EARGUMENT: an
 * unknown name, or a pass that changes the inputs of a graph. */
rush_status pass_add_named(context *c, const char *names, rush_error *err) RUSH_CHECKED;

/* -- For differentiation (differentiable.c) -----------------------------------------------------
 */

/* True if a graph that is differentiated may contain the node: its gradients follow from the
 * operator table, or its results never require any (PyTorch's isDifferentiable).  It writes
 * nothing, is not random and has no blocks.  The graph's results must not share memory with each
 * other or with its inputs: autodiff/differentiate.h. */
bool pass_is_differentiable(session *s, const ir_node *n);
/* True if the block, or one inside it, has a node whose result may require a gradient (PyTorch's
 * needsGradient): facts that are unknown count as "may". */
bool pass_needs_gradient(session *s, const ir_block *b);

/* -- For the front end ------------------------------------------------------------------------- */

/* True if the node may update running statistics, which its schema does not declare: a norm that
 * may be in training mode. */
bool pass_updates_statistics(const ir_node *n);
/* True if it is the author's name of a variable, not _1 (ssa.c). */
bool is_meaningful_name(const char *name);
/* Turn break and continue into early ends of a loop's body; called by convert_to_ssa (exits.c). */
void pass_loop_exits(session *s, ir_graph *g);
/* Run transform_exits on a graph that returns `result`, also if it always raises (NULL: then it
 * returns nothing). */
void pass_transform_exits_of(session *s, ir_graph *g, const type *result);
/* Run constant_propagation_immutable_types without removing what it leaves unused
 * (constant_propagation.c). */
void pass_fold_immutable(session *s, ir_graph *g);
/* Run peephole without what it assumes of convolutions as PyTorch does: that images of unknown rank
 * are batches (peephole.c). */
void pass_exact_peephole(session *s, ir_graph *g);
/* Turn forked closures into functions of p, named after `owner`; `finish` cleans their graphs
 * (closures.c). */
void lift_closures(session *s, program *p, const char *owner, ir_graph *g, pass_fn *finish);

/* -- group.c ----------------------------------------------------------------------------------- */

/* Implements backend.h's pass_group. */
void pass_group(rush_pass *p, const rush_group_def *def);
/* Group what follows from weights alone into nodes of the operator `op`, which may return the same
 * results while its arguments are the same (derive.c). */
void pass_group_derived(rush_pass *p, const char *op);

#endif
