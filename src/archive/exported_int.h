/* archive/exported_int.h -- shared by the readers of torch.export archives.
 *
 *   exported_program.c   records, weights, signature, constraints
 *   exported_graph.c     nodes: targets, arguments, outputs
 *   exported_guards.c    conditions that a call must satisfy
 *   exported_meta.c      dtypes, sizes and ranges of inputs and outputs
 *   exported_hop.c       higher-order operators as prim::If and prim::Loop with blocks
 *   exported_vmap.c      torch.vmap as a prim::Loop over the samples */
#ifndef RUSH_ARCHIVE_EXPORTED_INT_H
#define RUSH_ARCHIVE_EXPORTED_INT_H

#include "archive/exported_program.h"
#include "formats/json.h"

/* The names of the graph being read: an inner graph has its own. */
typedef struct ex_vmap ex_vmap;
typedef struct ex_scope {
  table values; /* name -> ir_value */
  ex_vmap *vmap; /* the innermost region of torch.vmap being read, or NULL */
} ex_scope;

typedef struct ex_reader {
  session *s;
  zip_archive *zip;
  module *m;
  program *program;
  exported *e;
  ir_graph *g;
  ir_block *block; /* nodes are appended here */
  ex_scope *scope;
  input in;        /* model.json, or the config of weights being read */
  size_t at;       /* position in it: the last node, weight or part that was begun */
  int autocast;    /* dtype of the autocast region being read, or -1 */
  uint32_t conditions; /* number of nested while_loop conditions being read */
  ir_value *self;
} ex_reader;

typedef struct model_parts { /* raw JSON of the needed parts, in any order */
  str call_graph, ranges, guards;
  str inputs, outputs, nodes, tensor_values, sym_int_values;
  str input_specs, output_specs;
  str in_spec, out_spec, arg_names;
} model_parts;

/* Leave the session with RUSH_EFORMAT: "PLACE: offset N: message", where N is r->at. */
_Noreturn void ex_fail(ex_reader *r, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Check a name of the file and return it: it becomes C text, so NUL in it is refused. */
str ex_name(ex_reader *r, str name);
/* Return the member "name" (or "as_name") of an object. */
str ex_name_of(ex_reader *r, json *j);
/* Allocate an array of n + 1 zeroed items in the program's memory. */
void *ex_keep_array(ex_reader *r, size_t n, size_t item);
const char *ex_keep_text(ex_reader *r, str text);

/* -- exported_meta.c --------------------------------------------------------------------------- */

typedef struct ex_range {
  int64_t min, max; /* INT64_MIN, INT64_MAX: no limit */
} ex_range;
/* Read range_constraints into `ranges`: expression -> ex_range *. */
void ex_read_ranges(ex_reader *r, const model_parts *p, table *ranges);
/* Fill r->e->leaf_metas and output_metas.  leaves: name of an input of the graph -> its leaf's
 * number + 1. */
void ex_read_metas(ex_reader *r, const model_parts *p, const table *leaves, const table *ranges);

/* -- exported_guards.c ------------------------------------------------------------------------- */

/* Fill r->e->guards from constants in the input spec, r->e->leaf_metas, range constraints, and
 * guards_code. */
void ex_read_guards(ex_reader *r, const model_parts *p, const table *ranges);

/* -- exported_graph.c -------------------------------------------------------------------------- */

/* One argument: a value of the graph, or none. */
typedef struct ex_arg {
  str name;      /* "" for those of higher-order operators */
  ir_value *value; /* NULL: a sub-graph */
  str graph;     /* raw JSON of as_graph, or empty */
} ex_arg;
typedef struct ex_node {
  str target;
  ex_arg *args;
  uint32_t n_args;
  str outputs; /* raw JSON */
  uint32_t skip_outputs; /* number of first outputs that are not the operator's */
  source_range range;
} ex_node;

/* Read the nodes of a graph (raw JSON of its object) into r->block, with its inputs bound to
 * `inputs`. Returns the graph's outputs, *n_outputs of them. */
ir_value **ex_read_inner(ex_reader *r, str graph, ir_value *const *inputs, uint32_t n_inputs,
                         uint32_t *n_outputs);
/* Read only the nodes (an array). */
void ex_read_nodes(ex_reader *r, str nodes);
/* Read one node with any target. */
void ex_read_call(ex_reader *r, const ex_node *n);
ir_value **ex_read_outputs(ex_reader *r, str outputs, uint32_t *n);
/* Bind `name` to v; a second value of that name is refused. */
void ex_bind(ex_reader *r, str name, ir_value *v);
/* Return the names of an `outputs` array, in order, with one level of lists flattened; NULL for
 * as_none. */
str *ex_output_names(ex_reader *r, str outputs, uint32_t *n);
/* Return those of a node, without the ones that are not its operator's. */
str *ex_node_names(ex_reader *r, const ex_node *n, uint32_t *count);
ir_value *ex_constant(ex_reader *r, rush_value v_steal, const type *t);
ir_value *ex_emit(ex_reader *r, const char *name, const char *overload, ir_value *const *inputs,
                  uint32_t n);
/* Make a list; items of another type are refused. */
ir_value *ex_list(ex_reader *r, ir_value *const *items, uint32_t n, const type *elem);
/* Return PyTorch's dtype for the schema's number. */
int ex_dtype(ex_reader *r, int64_t number);

/* -- exported_hop.c ---------------------------------------------------------------------------- */

/* Read the node if its target is a higher-order operator; returns whether it was. */
bool ex_read_higher_order(ex_reader *r, const ex_node *n);

/* -- exported_vmap.c --------------------------------------------------------------------------- */

/* True if the target is one of functorch's calls. */
bool ex_is_vmap(str target);
/* Read the node if its target is one of vmap's calls; returns whether it was. */
bool ex_read_vmap(ex_reader *r, const ex_node *n);
/* Move the nodes behind `before` in r->block, which one call made, out of the loops whose samples
 * they do not read.  Refuses nodes that would behave differently in the loop. */
void ex_vmap_place(ex_reader *r, ir_node *before);
/* Refuse a region that the graph does not end. */
void ex_vmap_end(ex_reader *r);

#endif
