/* ir/alias.h -- what may share memory with what, and what is written.
 *
 * Values whose types hold memory (tensors, containers, objects) fall into groups: two values of
 * different groups share nothing, neither themselves nor through what they contain.  Groups are found
 * in one walk (union-find): views, containers, attributes, branches and loops join what they connect,
 * as schemas annotate it; a call joins what a summary of the callee says.  So the analysis knows no
 * order and no depth: a list and what is in it are one group.  It errs to the safe side only.
 *
 * Known conditions are followed: a branch on a constant counts only where it goes.  The attribute
 * `training` of modules is taken as said in the question, since nearly every network writes its
 * buffers when it trains and none when it does not.
 *
 * What this means for methods: one changes state when a group that `self`, or a constant of the
 * program, is in is written.  Cost: O(nodes), for callees once a set of known arguments. */
#ifndef RUSH_IR_ALIAS_H
#define RUSH_IR_ALIAS_H

#include "ir/program.h"

typedef struct alias_info alias_info;

/* The groups of a graph, in the session's memory.  Uses `scratch` of the graph's values: the caller
 * has the graph for itself (the program's lock). */
alias_info *alias_analyse(session *s, const ir_graph *g, bool training);
/* May writing to one change what the other sees? */
bool alias_may(const alias_info *a, const ir_value *x, const ir_value *y);
/* Is anything that may share memory with v written by the graph? */
bool alias_is_written(const alias_info *a, const ir_value *v);

/* Does calling f write to memory of its first argument, or of the program's constants?  Answered once
 * and kept on the function; bodies that it needs are compiled.  True when one of them can't be. */
bool function_changes_state(call_ctx *cx, function *f, bool training);

#endif
