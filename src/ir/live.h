/* ir/live.h -- how many bytes the tensors that a graph makes take at once.
 *
 * A result lives from the operator that makes it to the last one that reads it, or anything that
 * may share its memory (ir/alias.h); the graph's own results live to the end, what a loop reads
 * from outside to the loop's end.  A result that may take the buffer of an argument that dies takes
 * it. Sizes are those of the graph's facts, rounded up to 64 bytes as the allocator does.
 * Arguments, attributes and constants are not counted: they are there before the call; nor is what
 * kernels use while they run.  The operators of a group count one by one: what a compiler keeps in
 * registers, or in less memory, shows as a call that takes less. */
#ifndef RUSH_IR_LIVE_H
#define RUSH_IR_LIVE_H

#include "ir/graph.h"

typedef struct ir_live_set {
  uint64_t bytes;     /* at most at once; of loops: in one round */
  uint32_t n_results; /* tensors that operators make, those in groups too */
  uint32_t n_unknown; /* more of these, whose sizes are not known: not in `bytes` */
} ir_live_set;

/* Uses `scratch` of the graph's values: the caller must have exclusive access to the graph. */
ir_live_set ir_live_set_of(session *s, const ir_graph *g);

#endif
