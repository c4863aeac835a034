/* autodiff/node.h -- running a graph that is differentiated as a whole: prim::DifferentiableGraph.
 *
 * A call that does not record, or whose arguments require no gradient, runs the graph unrecorded,
 * with its groups compiled.  Otherwise f runs unrecorded, and one record with df as its formula
 * takes the place of those of f's nodes (autograd/record.h): edges, saved values with their
 * versions, retain_graph, hooks and second derivatives are the record's, as for an operator.
 *
 * f is made for the arguments' dtypes, ranks and requires_grad (a *variant*, at most
 * DIFF_MOST_VARIANTS), the first DIFF_MOST_EXACT also for their sizes, with which less is captured
 * and checked; df for what has and what needs gradients; each at its first use, from the same
 * graph.  So nothing is captured, checked or computed that the eager recorder would not save,
 * check or compute.  What cannot be differentiated as a whole (differentiate.h) runs node by node,
 * recorded.  So do calls in which two arguments are the same tensor, whose gradients the nodes
 * would add in another order, and calls that fail: the nodes fail again, each with its own place in
 * the program.
 *
 * Threads: locked inside. */
#ifndef RUSH_AUTODIFF_NODE_H
#define RUSH_AUTODIFF_NODE_H

#include "ir/program.h"

#define DIFF_MOST_VARIANTS 8
#define DIFF_MOST_EXACT 2

typedef struct diff_node diff_node;

/* Make the object of a graph, which is copied: new, not registered with the session.  Its owner
 * keeps the graph's types. */
diff_node *diff_node_new(session *s, const ir_graph *g);
void diff_node_free(diff_node *n); /* for the owner; records may keep it */
/* For records: keep the node, and the types of its graph. */
diff_node *diff_node_retain(diff_node *n);
void diff_node_release(diff_node *n);
/* Run it: results[outputs of the graph] are new.  *done false: not as a whole; the caller runs the
 * graph's nodes. */
rush_status diff_node_call(call_ctx *cx, diff_node *n, const rush_value *args, rush_value *results,
                           bool *done) RUSH_CHECKED;
/* Print what calls of the node made so far: for each kind of arguments f, and each df; print_code
 * prints what a function runs.  `number`: the node's number in the text of its graph. */
void diff_node_describe(text_buf *out, const diff_node *n, uint32_t number,
                        void (*print_code)(text_buf *out, const function *f));
/* Return the operator that code has in the place of the node, whose state (op_node_state) has the
 * subgraph's code and a diff_node; NULL: this build has no gradients. */
const op *diff_node_op(session *s);

#endif
