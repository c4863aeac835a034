/* passes/points.h -- points: places where a plan may stop and the code of the unchanged graph go
 * on.
 *
 * A point is a prim::profile behind the node that makes a value of which the arguments' facts say
 * nothing.  Its inputs are the value, then the snapshot: every value that is used at or after the
 * point, then for each loop around it, from the inside, its count and its number of trips.
 * Emission finds from them which registers are live there (run/points.h).
 *
 * A plan is made from a copy of the graph with its points, some of which become prim::Guard with
 * the same inputs.  Passes therefore keep a snapshot as they keep every other input: they may
 * replace a value by an equal one, and an unrolled copy has its own count.  Two rules hold for it.
 * (1) What a snapshot contains may be written to behind the point, by code that the plan does not
 * have: it counts as leaving the graph (pass_escaping).  (2) A guard has an effect: nothing that
 * has one, and nothing that may fail, moves across it.
 *
 * Attributes of both: "point", its number, and "loops", how many. */
#ifndef RUSH_PASSES_POINTS_H
#define RUSH_PASSES_POINTS_H

#include "ir/facts.h"

#define MOST_POINTS 64 /* of a graph */

/* True if the graph has a value that is worth a point: nothing is known of it from the arguments,
 * and its facts answer a question.  `everywhere`: any value. */
bool pass_wants_points(session *s, ir_graph *g, bool everywhere);
/* Insert the points; returns their number. */
uint32_t pass_put_points(session *s, ir_graph *g, bool everywhere);
/* Return the number of the node's point; -1: a prim::profile or prim::Guard without one. */
int64_t pass_point_of(const ir_node *n);

typedef struct point_facts {
  const ir_facts *facts; /* by point; NULL: nothing was recorded */
  uint32_t n;
  bool everywhere; /* also guards that know nothing and can fail only on purpose */
} point_facts;
/* Make guards of the points that know something, and remove the others.  `known` NULL: all. */
void pass_guard_points(session *s, ir_graph *g, const point_facts *known);
/* Remove guards of points that other guards or the operators' rules imply. */
void pass_drop_implied_guards(session *s, ir_graph *g);
/* Replace tuples and lists that only snapshots use by their items: they are built when the guard
 * fails.  The attribute "recipe" has a number for each entry, in preorder: -1 for the next input, n
 * >= 0 for a container of the n entries that follow, whose type is the next of "built". */
void pass_thin_guards(session *s, ir_graph *g);

#endif
