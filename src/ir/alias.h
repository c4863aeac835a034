/* ir/alias.h -- which values may share memory, and which are written.
 *
 * Values whose types have memory (tensors, containers, objects) are put in groups: two values of
 * different groups share nothing, neither themselves nor through what they contain.  One walk finds
 * the groups (union-find): views, containers, attributes, branches and loops join the values they
 * connect, as their schemas specify; a call joins according to a summary of the callee.  The
 * analysis ignores order and depth: a list and its items are one group.  It errs only on the safe
 * side.
 *
 * Constant conditions are followed: of a branch on a constant only the taken side counts.  The
 * value of modules' attribute `training` is a parameter, since nearly every network writes its
 * buffers while training and none otherwise.
 *
 * A method changes state if it writes to a group that contains `self` or a constant of the program.
 * Cost: O(nodes); for callees once per set of known arguments. */
#ifndef RUSH_IR_ALIAS_H
#define RUSH_IR_ALIAS_H

#include "ir/program.h"

typedef struct alias_info alias_info;

/* Analyse a graph; the groups are in the session's memory.  Uses `scratch` of the graph's values:
 * the caller must have exclusive access to the graph (the program's lock). */
alias_info *alias_analyse(session *s, const ir_graph *g, bool training);
/* Analyse for passes that change graphs: every branch counts, whatever its condition, and
 * `training` is unknown.  The result includes writers.  Sets ir_value->scratch to the value's
 * number, below alias_n_values; later values have none. */
alias_info *alias_analyse_all(session *s, const ir_graph *g);
uint32_t alias_n_values(const alias_info *a);
#define ALIAS_CONSTANTS 0         /* the group of constants */
/* True if values of the type can be written to, or contain such values.  False for numbers and
 * strings. */
bool alias_type_has_memory(const type *t);
#define ALIAS_NO_MEMORY UINT32_MAX /* numbers, texts */
/* Return the number of v's group: equal for two values that may share memory. */
uint32_t alias_group(const alias_info *a, const ir_value *v);
/* Return write i of alias_n_writes: the writing node and the written group. */
uint32_t alias_n_writes(const alias_info *a);
ir_node *alias_write(const alias_info *a, uint32_t i, uint32_t *group);
/* True if writing to one value may change the other. */
bool alias_may(const alias_info *a, const ir_value *x, const ir_value *y);
/* True if the graph writes to anything that may share memory with v. */
bool alias_is_written(const alias_info *a, const ir_value *v);
/* True if a container may lose or get items.  (Its tensors may be written to in any case.) */
bool alias_items_change(const alias_info *a, const ir_value *v);

/* True if calling f writes to memory of its first argument, or of the program's constants.
 * Computed once and stored in the function; compiles the bodies it needs.  True if one of them
 * cannot be compiled. */
bool function_search_changes(call_ctx *cx, function *f, bool training);
static inline bool function_changes_state(call_ctx *cx, function *f, bool training)
{
  const uint8_t seen = atomic_load_explicit(&f->changes_state[training], memory_order_acquire);

  return LIKELY(seen != STATE_NOT_ASKED) ? seen == STATE_CHANGES
                                         : function_search_changes(cx, f, training);
}

#endif
