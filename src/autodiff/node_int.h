/* autodiff/node_int.h -- what a differentiated graph's node keeps; shared by node.c and variant.c.
 * */
#ifndef RUSH_AUTODIFF_NODE_INT_H
#define RUSH_AUTODIFF_NODE_INT_H

#include "autodiff/node.h"
#include "autograd/record.h"

typedef struct diff_fact { /* of an argument */
  int16_t dtype;  /* of a tensor, or 0 */
  int16_t n_dims; /* or -1: no tensor */
  bool requires;  /* a gradient */
  bool is_none;   /* None, or undefined */
  const int64_t *sizes; /* of a variant for exact sizes, or NULL */
} diff_fact;

typedef struct diff_backward { /* df for some gradients */
  op_gradient formula;
  bool *defined, *used; /* by result, by argument */
  bool *so_far;         /* by argument, or NULL: the formula does not add */
  bool *ran;            /* by node of the graph */
  struct diff_backward *next;
} diff_backward;

typedef struct diff_variant { /* of a node, for arguments of some kinds */
  grad_graph graph;     /* first: what records point to */
  diff_node *node;      /* borrowed */
  diff_fact *facts;     /* by input */
  bool is_exact;        /* only for the sizes that the facts have */
  function *f;          /* NULL: it cannot be differentiated as a whole */
  const ir_graph *typed; /* the graph with the arguments' types */
  op op;                /* f as an operator, for records */
  op_gradients saves;   /* one formula: what records save */
  uint32_t n_results;   /* of f */
  bool *requires;       /* by result */
  uint32_t *captured;   /* graph_gradient.captured */
  uint8_t *available;   /* by number of a value: CAPTURE_* */
  uint32_t n_values;
  _Atomic(diff_backward *) backwards;
  struct diff_variant *next;
} diff_variant;

struct diff_node {
  context *ctx;
  program *program; /* its references are the node's */
  function *whole; /* its outputs are one tuple, if there are several */
  uint32_t n_inputs, n_outputs;
  _Atomic(diff_variant *) variants;
};

diff_fact diff_fact_of(rush_value v);
/* Make the variant for the arguments, for their sizes only or for any: *out is a variant without f
 * if it cannot be. */
rush_status diff_variant_make(call_ctx *cx, diff_node *n, const rush_value *args, bool is_exact,
                              diff_variant **out) RUSH_CHECKED;

#endif
