/* passes/tools.h -- what tools do with graphs beyond single edits: finding and replacing patterns,
 * legal moves.
 *
 * A pattern is a graph: its inputs stand for any values, its nodes for nodes of the same kind,
 * attributes and constants, its outputs for what may be used outside of a match.  Nodes of a
 * pattern have no blocks and all help to make an output; a match lies in one block. */
#ifndef RUSH_PASSES_TOOLS_H
#define RUSH_PASSES_TOOLS_H

#include "ir/graph.h"

typedef struct ir_match {
  const ir_graph *pattern;
  ir_node *anchor; /* what makes the pattern's first output */
  ir_value **values; /* by the pattern's value->scratch */
  ir_node **nodes;   /* n_nodes matched nodes, in the order of the graph */
  uint32_t n_nodes;
  struct ir_match *next;
} ir_match;

/* All matches in the order of their anchors, in the session's memory; they may overlap.  Uses
 * `scratch` of the pattern. */
ir_match *match_all(session *s, ir_graph *pattern, ir_graph *g);
/* Replace the matches that do not overlap and that `accept` (NULL: all) takes by copies of `by`,
 * which has as many inputs and outputs as the pattern; how many.  Replacements are not searched
 * again. */
typedef bool match_accept(void *user, const ir_match *m);
uint32_t rewrite_all(session *s, ir_graph *pattern, const ir_graph *by, ir_graph *g,
                     match_accept *accept, void *user);

/* Could n stand before (after) `at`, a node of the same block, without changing what the graph
 * means?  What depends on n, or what n depends on, moves with it.  `move`: do it. */
bool move_if_valid(session *s, ir_node *n, ir_node *at, bool after, bool move);

#endif
