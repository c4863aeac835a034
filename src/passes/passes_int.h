/* passes/passes_int.h -- shared by the passes' files. */
#ifndef RUSH_PASSES_PASSES_INT_H
#define RUSH_PASSES_PASSES_INT_H

#include "ir/facts.h"
#include "passes/passes.h"

/* -- Questions (common.c) ---------------------------------------------------------------------- */

/* True if the node must be kept even if its results are unused (apart from writes to memory, which
 * alias.h analyses). Its blocks are not examined. */
bool pass_has_effect(const ir_node *n);
/* True if a value of the type contains anything that can be written to.  A tuple of numbers does
 * not. */
bool pass_can_be_written(const type *t);
/* True if the node may raise an error; its blocks are not examined. */
bool pass_may_fail(const ir_node *n);
/* True if equal inputs have equal results, without side effects: no blocks, no writes.  Memory that
 * it reads may have been written to. */
bool pass_is_pure(const ir_node *n);
/* True if v's header cannot be seen outside of the graph, nor its memory through v: operators use
 * it that return new values, and none that asks for its gradient.  An equal tensor in another
 * header can stand for it. */
bool pass_is_hidden(const ir_value *v);
bool pass_is_constant_int(const ir_value *v, int64_t *out);
/* The same for an integer that follows from constants and from sizes that facts know. */
bool pass_is_known_int(session *s, const ir_value *v, int64_t *out);
/* True if v is a tensor of no dimensions that follows from the same: to compute it succeeds. */
bool pass_is_known_number(session *s, const ir_value *v);
/* Return the facts of the tensor whose sizes the list has, x.size(): NULL if it is another list, or
 * if something may change it. */
const ir_facts *pass_facts_of_sizes(const ir_value *list);
/* Call the operator for its results, which the session holds; returns false if it fails. */
bool pass_call_op(session *s, const ir_node *n, const rush_value *args, rush_value *out);
bool pass_is_constant_bool(const ir_value *v, bool *out);
bool pass_is_none(const ir_value *v); /* the constant None */
bool pass_is_autocast(const ir_value *v); /* an object of torch.autocast (autocast.c) */
/* True if both are constants (IR_CONSTANT) of the same type and value. */
bool pass_same_constant(const ir_node *a, const ir_node *b);
uint64_t pass_constant_hash(const ir_node *n);
bool pass_same_attrs(const ir_node *a, const ir_node *b);

/* Return the innermost node around the block whose block is a subgraph, which uses no values of
 * outside; NULL: none.  O(depth). */
ir_node *pass_subgraph_around(const ir_block *b);

/* -- Edits (common.c) -------------------------------------------------------------------------- */

/* Insert a constant before `pos`, with its range.  v is retained by the graph. */
ir_value *pass_put_constant(session *s, ir_node *pos, rush_value v, const type *t);
ir_value *pass_put_int(session *s, ir_node *pos, int64_t i);
/* Insert an operator before `pos`; returns NULL if there is none of that name. */
ir_node *pass_put_op(session *s, ir_node *pos, const char *name, const char *overload,
                     ir_value *const *in, uint32_t n);
ir_node *pass_put_node(session *s, ir_node *pos, ir_kind kind, ir_value *const *in, uint32_t n,
                       const type *out);
/* Replace all uses of n's results by `with`, and remove n. */
void pass_replace(ir_node *n, ir_value *const *with);
/* Replace a call of f by a copy of its body, which has as many inputs and outputs. */
void pass_inline_call(session *s, ir_node *n, function *f, const ir_graph *body);
/* Inline what f's graph g (a copy) calls, for making code: see inline.c.  Under f's program's
 * lock. */
void pass_inline_calls(session *s, ir_graph *g, const function *f);
/* Move the nodes of b before `pos`; b is empty afterwards. */
void pass_splice(ir_block *b, ir_node *pos);
/* Register a value for release with the session. */
rush_value pass_hold(session *s, rush_value v_steal);

/* Visit every node, those of nested blocks before their owner; fn may destroy the node, and insert
 * others before it. */
typedef void pass_visit(session *s, ir_node *n, void *arg);
void pass_each(session *s, ir_block *b, pass_visit *fn, void *arg);

/* True if the facts say that the value never requires a gradient. */
bool pass_never_requires(const ir_value *v);

/* -- The order in which gradients are added (adding_order.c) ----------------------------------- */

typedef struct adding_order adding_order;
typedef struct order_group { /* that would be placed before the node of that order */
  ir_node *const *members;   /* in the block's order */
  uint32_t n;
  uint64_t before;
} order_group;

/* Look at a graph.  Uses `scratch` of its values. */
adding_order *adding_order_of(session *s, ir_graph *g);
/* Return why no group may have the node, or NULL. */
const char *adding_order_refuses(const adding_order *o, const ir_node *n);
/* True if gradients have the same bits when the group is differentiated as one. */
bool adding_order_keeps(adding_order *o, const order_group *g);

/* Replace in-place operators by functional ones where nothing can tell: on tensors that the graph
 * makes and keeps, with known sizes (remove_mutation.c). */
void pass_remove_exact_mutation(session *s, ir_graph *g);

/* Make slices of the parts that channels are split into (slice_splits.c). */
void pass_slice_splits(session *s, ir_graph *g);

/* Group nodes into nodes of a kind that has a subgraph, as pass_group does; `def` without an
 * operator.  `order`: groups keep it; or NULL. */
void pass_group_kind(session *s, ir_graph *g, ir_kind kind, const rush_group_def *def,
                     adding_order *order);

/* -- Memory that is seen from outside (common.c) ----------------------------------------------- */

typedef struct alias_info alias_info;
/* Return which groups (alias.h), by number, contain an input, an output or a constant of the
 * graph. */
bool *pass_escaping(session *s, const alias_info *a, const ir_graph *g);

/* -- Invariants that asserts state ------------------------------------------------------------- */

/* True if prim::If has a condition, and two blocks that return as many values as it. */
static inline bool pass_if_is_whole(const ir_node *n)
{
  return n->n_inputs == 1 && n->n_blocks == 2 &&
         ir_block_n_outputs(n->blocks[0]) == n->n_outputs &&
         ir_block_n_outputs(n->blocks[1]) == n->n_outputs;
}

/* True if a lowered prim::Loop takes, carries and returns the same number of values. */
static inline bool pass_loop_is_whole(const ir_node *n)
{
  return n->n_blocks == 1 && n->n_inputs == n->n_outputs + 2 &&
         ir_block_n_inputs(n->blocks[0]) == n->n_outputs + 1 &&
         ir_block_n_outputs(n->blocks[0]) == n->n_outputs + 1;
}

/* True if all inputs of n are visible where it is now.  O(inputs * depth). */
static inline bool pass_inputs_are_visible(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (!ir_value_is_visible(ir_node_input(n, i), n))
      return false;
  return true;
}

/* True if `with` may replace n's results: visible at n, and of types that fit. */
static inline bool pass_can_replace(const ir_node *n, ir_value *const *with)
{
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]->uses &&
        (!ir_value_is_visible(with[i], n) || !ir_value_flows(with[i], n->outputs[i]->type)))
      return false;
  return true;
}

#endif
