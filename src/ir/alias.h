/* ir/alias.h -- what may share memory with what, and what is written.
 *
 * Values whose types hold memory (tensors, containers, objects) fall into groups: two values of
 * different groups share nothing, neither themselves nor through what they contain.  Groups are
 * found in one walk (union-find): views, containers, attributes, branches and loops join what they
 * connect, as schemas annotate it; a call joins what a summary of the callee says.  So the analysis
 * knows no order and no depth: a list and what is in it are one group.  It errs to the safe side
 * only.
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
/* For what changes graphs: every branch counts, whatever its condition, and `training` is not
 * known.  It also knows who writes.  ir_value->scratch is then the value's number, below
 * alias_n_values; values made later have none. */
alias_info *alias_analyse_all(session *s, const ir_graph *g);
uint32_t alias_n_values(const alias_info *a);
#define ALIAS_CONSTANTS 0         /* the group of constants */
/* Can values of the type be written to, or hold what can?  Not numbers and texts. */
bool alias_type_has_memory(const type *t);
#define ALIAS_NO_MEMORY UINT32_MAX /* numbers, texts */
/* The number of v's group: equal for two values that may share memory. */
uint32_t alias_group(const alias_info *a, const ir_value *v);
/* Write i of alias_n_writes: which node writes to which group. */
uint32_t alias_n_writes(const alias_info *a);
ir_node *alias_write(const alias_info *a, uint32_t i, uint32_t *group);
/* May writing to one change what the other sees? */
bool alias_may(const alias_info *a, const ir_value *x, const ir_value *y);
/* Is anything that may share memory with v written by the graph? */
bool alias_is_written(const alias_info *a, const ir_value *v);
/* Of a container: may it lose or get items?  Its tensors may be written to all the same. */
bool alias_items_change(const alias_info *a, const ir_value *v);

/* Does calling f write to memory of its first argument, or of the program's constants?  Answered
 * once and kept on the function; bodies that it needs are compiled.  True when one of them can't
 * be. */
bool function_changes_state(call_ctx *cx, function *f, bool training);

#endif
