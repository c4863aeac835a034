/* export/lower_int.h -- shared by the parts that lower exported programs.
 *
 *   lower_program.c  class, object, inputs, outputs, function
 *   lower.c          nodes: targets, arguments, results
 *   lower_guards.c   conditions that a call must satisfy
 *   lower_meta.c     dtypes, sizes and ranges of inputs and outputs
 *   lower_hop.c      higher-order operators as prim::If and prim::Loop with blocks
 *   lower_functional.c  operators given to higher-order operators, print
 *   lower_vmap.c     torch.vmap as a prim::Loop over the samples */
#ifndef RUSH_EXPORT_LOWER_INT_H
#define RUSH_EXPORT_LOWER_INT_H

#include "export/lower.h"

/* What a node of the graph being lowered has become. */
typedef struct lowered {
  ir_value *v;         /* a value; NULL: none yet, or several */
  ir_value **many;     /* of a node whose results getitem takes: n; an item is NULL if it is None */
  uint32_t n;
} lowered;
typedef struct lower_vmap lower_vmap;
typedef struct lower_scope { /* of one graph: inner graphs have their own */
  const fx_graph *graph;
  lowered *nodes;   /* by index */
  lower_vmap *vmap; /* the innermost region of torch.vmap being lowered, or NULL */
} lower_scope;

typedef struct lowering {
  session *s;
  const exported_program *data;
  program *program;
  exported *e;
  ir_graph *g;
  ir_block *block; /* nodes are appended here */
  lower_scope *scope;
  size_t at;       /* place in the file of the node that was begun last */
  const source *file; /* without a text: ranges in it are places in the file */
  int autocast;    /* dtype of the autocast region being lowered, or -1 */
  uint32_t conditions; /* number of nested while_loop conditions being lowered */
  ir_value *self;
  ir_value *custom_object; /* stands for all of them; NULL: there was none */
} lowering;

/* Leave the session with RUSH_EFORMAT: "PLACE: offset N: message", where N is lo->at. */
_Noreturn void lower_fail(lowering *lo, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Allocate an array of n + 1 zeroed items in the program's memory. */
void *lower_keep_array(lowering *lo, size_t n, size_t item);
const char *lower_keep_text(lowering *lo, str text);

/* -- lower_meta.c ------------------------------------------------------------------------------ */

/* Fill lo->e->leaf_metas (of the leaves that have a placeholder: leaves[i], or NULL) and
 * output_metas. */
void lower_metas(lowering *lo, const fx_node *const *leaves);

/* -- lower_guards.c ---------------------------------------------------------------------------- */

/* Fill lo->e->guards from constants in the input spec, lo->e->leaf_metas, range constraints, and
 * guards_code. */
void lower_guards(lowering *lo);

/* -- lower.c ----------------------------------------------------------------------------------- */

/* One argument: a value, or a graph. */
typedef struct lower_arg {
  str name;        /* of those by name; else "" */
  ir_value *value; /* NULL: a graph */
  const fx_graph *graph;
  const fx_arg *from;
} lower_arg;
typedef struct lower_node {
  str target;
  lower_arg *args;
  uint32_t n_args, n_positional;
  ir_value **results; /* to be filled: n_results */
  const fx_val *const *vals; /* of the results: n_results; NULL: nothing is known */
  uint32_t n_results;
  bool is_list;       /* the results are the items of a list */
  bool is_used;       /* some node uses a result */
  source_range range;
} lower_node;

/* Lower a graph into lo->block, with its inputs bound to `inputs`.  Returns the graph's outputs,
 * *n_outputs of them. */
ir_value **lower_inner(lowering *lo, const fx_graph *g, ir_value *const *inputs, uint32_t n_inputs,
                       uint32_t *n_outputs);
/* Make a scope for the graph the current one. */
void lower_enter(lowering *lo, const fx_graph *g, lower_scope *scope);
/* Lower the nodes between placeholders and output. */
void lower_nodes(lowering *lo);
/* Return the values that the current graph returns. */
ir_value **lower_outputs(lowering *lo, uint32_t *n);
/* Lower one call with any target. */
void lower_call(lowering *lo, const lower_node *n);
ir_value *lower_constant(lowering *lo, rush_value v_steal, const type *t);
/* Make a constant from a plain argument: None, a number, a text. */
rush_value lower_plain(lowering *lo, const fx_arg *a);
ir_value *lower_emit(lowering *lo, const char *name, const char *overload,
                     ir_value *const *inputs, uint32_t n);
/* Append a node that raises NotImplementedError. */
void lower_raise(lowering *lo, const char *message);
/* Lower the call as one of an operator `target` without a schema: its outputs determine its types,
 * and it fails when it runs. */
void lower_unknown(lowering *lo, const lower_node *n, str target);
/* Append a node that fails: custom objects are kept in the file, but not run.  Returns what stands
 * for the object; calls that get it are lowered as unknown operators. */
ir_value *lower_custom_object(lowering *lo, const char *name);
/* Make a list; items of another type are refused. */
ir_value *lower_list(lowering *lo, ir_value *const *items, uint32_t n, const type *elem);

/* -- lower_hop.c ------------------------------------------------------------------------------- */

/* Lower the node if its target is a higher-order operator; returns whether it was. */
bool lower_higher_order(lowering *lo, const lower_node *n);

/* -- lower_functional.c ------------------------------------------------------------------------ */

/* Lower torch.ops.higher_order.NAME if it is one of those of lower_functional.c; returns whether it
 * was. */
bool lower_functional(lowering *lo, const lower_node *n, str name);

/* -- lower_vmap.c ------------------------------------------------------------------------------ */

/* True if the target is one of functorch's calls. */
bool lower_is_vmap(str target);
/* Lower the node if its target is one of vmap's calls; returns whether it was. */
bool lower_vmap_call(lowering *lo, const lower_node *n);
/* Move the nodes behind `before` in lo->block, which one call made, out of the loops whose samples
 * they do not read.  Refuses nodes that would behave differently in the loop. */
void lower_vmap_place(lowering *lo, ir_node *before);
/* Refuse a region that the graph does not end. */
void lower_vmap_end(lowering *lo);

#endif
