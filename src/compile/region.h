/* compile/region.h -- regions of convolutions that run in blocks of channels (ops/math/block.h).
 *
 * A region is a group of convolutions, batch norms in evaluation, pooling and pointwise operators
 * between them, whose sizes are known; the number of images may be open, and is then that of a
 * call's arguments.  region_read turns its nodes into steps, once:
 *
 *   nodes in order -> steps: enter | convolution (norm) (pointwise tape) | ... | leave
 *
 * Each value between steps has a place in one piece of memory, its offset decided by when it is
 * written and last read.  A batch norm and pointwise operators behind a step are applied to pixels
 * that the step has just written; operators round as they do alone, so results have the bits of the
 * nodes run one by one.  Values enter and leave blocks at the region's border only.
 *
 * Weights are arguments of the group, in the packed form that their storages keep.
 *
 * Threads: a region is immutable; region_run may run in several. */
#ifndef RUSH_COMPILE_REGION_H
#define RUSH_COMPILE_REGION_H

#include "compile/fuse.h"
#include "ops/math/block.h"

#define REGION_MOST_NODES 2048
#define REGION_MOST_RESULTS 64

typedef struct region region;

/* Return NULL if the node can be in a region, else the reason (static). */
const char *region_refuse(const backend *k, const rush_node *n, cpu_level level);
/* True if these nodes, in order, are worth a region: a convolution that fills blocks, and more. */
bool region_takes(const backend *k, const rush_node *const *nodes, size_t n);

/* Read a group's node.  *out is NULL if the region cannot run (no vector kernels here): the group
 * is interpreted.  RUSH_ENOMEM is returned without an error. */
rush_status region_read(const backend *k, const rush_node *group, region **out) RUSH_CHECKED;
void region_free(region *r);

/* Run a call of the group; *done is false, and nothing happened, if the arguments are not those
 * that the region was read for. */
rush_status region_run(const region *r, rush_call *call, bool *done) RUSH_CHECKED;

#endif
