/* autodiff/differentiate.h -- symbolic differentiation of graphs.
 *
 *   g(x...) -> (y...)          ==>   f(x...) -> (y..., captures...)
 *                                    df(gradients of y..., captures...) -> (gradients of x...)
 *
 * Reverse mode.  The nodes of g are visited backwards; each adds the formulas of its operator, the
 * ones of the table that the eager recorder runs too (ops/call/gradient.h), and fits their results
 * to the arguments.  What df reads of g is captured: inputs of g, or further outputs of f.  Sizes
 * are captured as lists of numbers, and what costs nothing to make again (constants, lists, sizes
 * of captured tensors) is made again in df.
 *
 * The order of df is the recorder's: that of the walk in autograd/backward.c over the records of
 * the same nodes, the formulas of a node in the table's order, and contributions to one gradient
 * are added in that order.  So both compute the same bits.  Where records around the graph
 * contribute to the same gradient, also second derivatives, three contributions may be added in
 * another order.
 *
 * g has one block of nodes that pass_is_differentiable accepts; no output of it may share memory
 * with an input or another output, because a record of the whole could not follow writes to views.
 *
 * A gradient may be undefined: nothing depends on it.  If what is defined is known (`defined`),
 * formulas of undefined gradients are left out.  If not, each node's formulas are in a block of
 * prim::GradOf, gradients are added by prim::AutogradAdd, and the passes lower_grad_of and
 * specialize_autogradzero simplify df.  Cost: O(nodes), and the formulas. */
#ifndef RUSH_AUTODIFF_DIFFERENTIATE_H
#define RUSH_AUTODIFF_DIFFERENTIATE_H

#include "ir/graph.h"

typedef struct diff_indices {
  uint32_t *at;
  uint32_t n;
} diff_indices;

/* As PyTorch's Gradient.  df's inputs are input_vjps, captured_inputs, captured_outputs. */
typedef struct graph_gradient {
  ir_graph *f, *df; /* the session's: freed with it */
  uint32_t n_outputs;            /* of f that are g's: the first ones (f_real_outputs) */
  diff_indices input_vjps;       /* outputs of f whose gradients df takes */
  diff_indices captured_inputs;  /* inputs of f */
  diff_indices captured_outputs; /* outputs of f */
  diff_indices output_vjps;      /* inputs of f whose gradients df returns */
  uint32_t *captured; /* by output of f from n_outputs on: what it is, as numbers of g's values */
} graph_gradient;

typedef struct diff_options {
  /* by output of g: its gradient is defined; NULL: nothing is known, df has prim::GradOf */
  const bool *defined;
  /* by input of g: its gradient is needed; NULL: of those that may require gradients */
  const bool *needed;
  /* df returns every contribution to an input's gradient by itself, in order: output_vjps then
   * repeats the input */
  bool is_separate;
  /* by input of g: df takes the sum so far of the input's gradients, behind those of the outputs,
   * and returns the new sum; or NULL */
  const bool *so_far;
  /* capture what any other choice of `defined` and `needed` could read, too */
  bool is_for_all;
  /* sizes and strides in types are those of one call: they tell dtypes, and nothing is specialised
   * for them */
  bool is_example;
  /* refuse graphs in which a dtype that decides about a gradient is unknown, instead of assuming
   * floating point */
  bool is_strict;
} diff_options;

/* Differentiate g, which is not changed.  Leaves the session with PyTorch's words if something has
 * no derivative. */
void differentiate(session *s, const ir_graph *g, const diff_options *o, graph_gradient *out);
/* Pack the outputs of df into one, as PyTorch does: a tuple of several. */
void differentiate_pack(session *s, ir_graph *df);
/* Write into each prim::DifferentiableGraph of a graph its gradient: the pass pack_gradient. */
void differentiate_pack_nodes(session *s, ir_graph *g);

#endif
