/* compile/fuse.h -- fuses a group's subgraph into one tape.
 *
 * group_read reads the nodes once: the table's formula of each, and the values that are its
 * arguments. group_fuse makes the tape for the kinds of arguments of a call: the formulas in order,
 * each value in a register of its own, registers reused after their last read.  It computes in
 * float32, bools are masks; operators round to float32 at their border as they do alone, so the
 * fused tape gives the same bits.
 *
 * Graphs, values and memory are accessed through the table of backend.h, as in every compiler; the
 * operator table has each operator's formula.
 *
 * Threads: a group_desc is immutable; group_fuse may run in several. */
#ifndef RUSH_COMPILE_FUSE_H
#define RUSH_COMPILE_FUSE_H

#include "compile/loop.h"
#include "rushlight/backend.h"

#define GROUP_MAX_INPUTS 16
#define GROUP_MAX_RESULTS 4
#define GROUP_MAX_NODES 128

/* The kind of an argument in a call; four bits of the key. */
typedef enum arg_kind {
  ARG_NUMBER,   /* int, float or bool, one for all elements */
  ARG_F32_ROW,  /* float32 tensors with the result's elements, or broadcast by the engine */
  ARG_F32_ONE,  /* of one element */
  ARG_BOOL_ROW,
  ARG_BOOL_ONE
} arg_kind;

typedef struct group_desc group_desc;

/* The table, and the context that calls use. */
typedef struct backend {
  const rush_backend_api *api;
  rush_context *ctx;
} backend;

/* Return NULL if the node can be fused, else the reason (static). */
const char *group_refuse(const backend *k, const rush_node *n, cpu_level level);
/* Nodes that become one tape: in order, each accepted by group_refuse; inputs are the values from
 * elsewhere that are no constants, results those that are wanted.  `source`, if not NULL, returns
 * the value that an operand has the elements of: itself, an input or a node's result. */
typedef struct group_parts {
  const rush_node *const *nodes;
  const rush_graph_value *const *inputs, *const *results;
  uint32_t n_nodes, n_inputs, n_results;
  const rush_graph_value *(*source)(const void *user, const rush_graph_value *v);
  const void *user;
} group_parts;

/* Read a group's node, or the parts of one.  Returns NULL if memory runs out. */
group_desc *group_read(const backend *k, const rush_node *group);
group_desc *group_read_parts(const backend *k, const group_parts *p);
void group_desc_free(group_desc *g);
/* Return the operators' names in order, "mul+add+relu"; cut short. */
const char *group_name(const group_desc *g);
uint32_t group_n_inputs(const group_desc *g);
/* Guess the kinds of the inputs: float32 tensors of many elements, bools where a formula needs
 * one. */
void group_usual_kinds(const group_desc *g, arg_kind *kinds);

typedef struct fused {
  loop_tape tape;
  uint32_t result_inputs[GROUP_MAX_RESULTS]; /* bit i: the result depends on input i */
  uint8_t kinds[GROUP_MAX_INPUTS], types[GROUP_MAX_INPUTS];
  uint8_t results[GROUP_MAX_RESULTS], result_types[GROUP_MAX_RESULTS];
  tape_instr *code; /* cap_instrs */
  float *consts;    /* cap_consts */
  uint32_t cap_instrs, cap_consts;
} fused;

/* Fuse for these kinds.  *ok is false if they cannot be fused (the result would have another
 * dtype).  *out may be filled in that case too; always free it. RUSH_ENOMEM is returned without an
 * error: there may be no call. */
rush_status group_fuse(const group_desc *g, const arg_kind *kinds, fused *out,
                       bool *ok) RUSH_CHECKED;
void fused_free(const backend *k, fused *f);

#endif
