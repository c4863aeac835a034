/* run/points.h -- profiled code, and what a guard does that fails.
 *
 * A function whose graph has points (passes/points.h) has a second code beside its canonical one:
 * from the same inlined graph, with a PROFILE at each point and without the context's passes.  The
 * first outer calls run it, and each PROFILE keeps the facts that all tensors seen there have in
 * common: facts only, no tensor is kept alive.  Plans are made from a copy of its graph.
 *
 * The PROFILE's operands are the map of the point: the register of each value of the snapshot, in
 * order.  The GUARD that a plan has for the point has operands in the same order, where the plan
 * has these values, or recipes for them.  A guard that fails replaces its frame in place: the
 * snapshot goes into the registers of the profiled code, which continues at the PROFILE.  Frame and
 * row keep their address, because a plan's frame has room for both (code.n_frame): context managers
 * that were entered, futures, the register of the caller, grad mode and tasks are as they were.
 *
 * Threads: recording takes a lock if it is free, and records nothing if not.  Counters are atomic.
 * */
#ifndef RUSH_RUN_POINTS_H
#define RUSH_RUN_POINTS_H

#include "run/actions.h"
#include "base/threads.h"
#include "ir/facts.h"

/* Give up a point after so many failures, and plan anew after so many of a plan. */
#define MOST_FAILURES 6
#define FAILURES_TO_REPLAN 2

typedef struct code_point {
  ir_facts facts; /* of all that was seen; under the lock */
  bool seen;      /* under the lock */
  uint32_t pc;    /* of its PROFILE */
  _Atomic uint32_t failures; /* of guards that did not hold */
  _Atomic uint32_t bailouts; /* with those that failed on purpose */
} code_point;

typedef struct code_points {
  mutex lock;
  uint32_t n;
  bool everywhere; /* guards of a test: they need no facts */
  code_point at[];
} code_points;

/* Return f's profiled code, which is made now if it has none; NULL: it has no points.  Leaves the
 * session on failure.  Under the program's lock. */
const code *code_profiled(session *s, const code *canonical);
void points_free(context *c, code_points *p);
/* Copy the facts that were recorded, those of points that are given up without. */
ir_facts *points_facts(session *s, const code_points *p);

action act_profile;
/* Check the guard of a point; if it fails, the frame is replaced: f->pc is where it continues. */
action act_point_guard;

#endif
