/* compile/fuse.h -- a group's subgraph as one tape.
 *
 * group_read looks at the nodes once: which formula of the table each has, whose values its
 * arguments are. group_fuse makes the tape for the kinds of arguments that a call has: formulas one
 * after the other, each value in a register of its own, registers reused after their last reading.
 * float32 computes, bools are masks; operators round to float32 at their border as they do alone,
 * so the fused tape gives the same bits.
 *
 * Graphs, values and memory come through the table of backend.h, as every compiler's do; what
 * formula an operator has says the operator table.
 *
 * Threads: a group_desc is immutable; group_fuse may run in several. */
#ifndef RUSH_COMPILE_FUSE_H
#define RUSH_COMPILE_FUSE_H

#include "compile/loop.h"
#include "rushlight/backend.h"

#define GROUP_MAX_INPUTS 16
#define GROUP_MAX_RESULTS 4
#define GROUP_MAX_NODES 128

/* What an argument is in a call; four bits of the key. */
typedef enum arg_kind {
  ARG_NUMBER,   /* int, float or bool, one for all elements */
  ARG_F32_ROW,  /* float32 tensors: of the result's elements, or broadcast by the engine */
  ARG_F32_ONE,  /* of one element */
  ARG_BOOL_ROW,
  ARG_BOOL_ONE
} arg_kind;

typedef struct group_desc group_desc;

/* The table, and the context that it is asked about. */
typedef struct backend {
  const rush_backend_api *api;
  rush_context *ctx;
} backend;

/* NULL: the node can be fused; else why not (static). */
const char *group_refuse(const backend *k, const rush_node *n, cpu_level level);
/* Of a group's node.  NULL without memory. */
group_desc *group_read(const backend *k, const rush_node *group);
void group_desc_free(group_desc *g);
uint32_t group_n_inputs(const group_desc *g);
/* What its inputs are likely to be: float32 tensors of many elements, bools where a formula wants
 * one. */
void group_usual_kinds(const group_desc *g, arg_kind *kinds);

typedef struct fused {
  loop_tape tape;
  uint32_t result_inputs[GROUP_MAX_RESULTS]; /* bit i: input i reaches the result */
  uint8_t kinds[GROUP_MAX_INPUTS], types[GROUP_MAX_INPUTS];
  uint8_t results[GROUP_MAX_RESULTS], result_types[GROUP_MAX_RESULTS];
  tape_instr *code; /* cap_instrs */
  float *consts;    /* cap_consts */
  uint32_t cap_instrs, cap_consts;
} fused;

/* *ok false: these kinds cannot be fused (another dtype would result).  *out is filled then or not;
 * free it always. RUSH_ENOMEM without an error: there may be no call. */
rush_status group_fuse(const group_desc *g, const arg_kind *kinds, fused *out,
                       bool *ok) RUSH_CHECKED;
void fused_free(const backend *k, fused *f);

#endif
