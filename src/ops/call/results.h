/* ops/call/results.h -- results that the call path makes by the shape rule of an operator's entry
 * (the table's key `results`). */
#ifndef RUSH_OPS_RESULTS_H
#define RUSH_OPS_RESULTS_H

#include "ops/call/call.h"

/* The kernel of an entry with results="rule": makes results by the rule, then runs op->compute if
 * some of them are uninitialised memory.  Entries without a kernel are views, copies of views
 * (OP_COPIES), and views that become copies if the strides allow no view.  On failure call->results
 * may hold some of the results; op_call drops them. */
rush_kernel call_by_rule;

#endif
