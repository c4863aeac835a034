/* passes/tools.h -- graph tools beyond single edits: finding and replacing patterns, valid moves.
 *
 * A pattern is a graph: its inputs match any values, its nodes match nodes of the same kind,
 * attributes and constants, and its outputs are the values that may be used outside of a match.
 * Nodes of a pattern have no blocks and all contribute to an output; a match lies in one block. */
#ifndef RUSH_PASSES_TOOLS_H
#define RUSH_PASSES_TOOLS_H

#include "ir/graph.h"

typedef struct ir_match {
  const ir_graph *pattern;
  ir_node *anchor; /* the node that matches the maker of the pattern's first output */
  ir_value **values; /* indexed by the pattern's value->scratch */
  ir_node **nodes;   /* n_nodes matched nodes, in the order of the graph */
  uint32_t n_nodes;
  struct ir_match *next;
} ir_match;

/* Find all matches in the order of their anchors, in the session's memory; they may overlap.  Uses
 * `scratch` of the pattern. */
ir_match *match_all(session *s, ir_graph *pattern, ir_graph *g);
/* Replace the matches that do not overlap and that `accept` (NULL: all) accepts by copies of `by`,
 * which has as many inputs and outputs as the pattern; returns their number.  Replacements are not
 * searched again. */
typedef bool match_accept(void *user, const ir_match *m);
uint32_t rewrite_all(session *s, ir_graph *pattern, const ir_graph *by, ir_graph *g,
                     match_accept *accept, void *user);

/* True if n can be moved before (after) `at`, a node of the same block, without changing the
 * meaning of the graph.  Nodes that depend on n, or that n depends on, move with it.  `move`: do
 * it. */
bool move_if_valid(session *s, ir_node *n, ir_node *at, bool after, bool move);

#endif
