/* ops/profile.h -- the profile of a context: which operator or function ran when, on what, from which line.
 *
 * One a context, in SLOT_HOOKS, made at the first start and kept until the context ends.  op_call and the
 * interpreter's frames begin and end events where the call's `watch` says so: while no profile is on that is
 * the one branch which calls take anyhow.  Events of one thread nest; an event that began is in the record at
 * once, and a limit on their number bounds it: what comes later is counted as dropped.
 *
 * Names, inputs and places are kept once each (`items`), so an event is small.  A place is the innermost line
 * of a user's function, as its author wrote it where the archive says so; composites' bodies are no places.
 *
 * Invariants.  (1) cx->profile is the number of the start that the call belongs to: calls that outlive their
 * profile write nothing.  (2) begin and end come in pairs on a call, whether the event was kept or dropped.
 * Threads: locked inside; strings that profile_at gives live until the next start. */
#ifndef RUSH_OPS_PROFILE_H
#define RUSH_OPS_PROFILE_H

#include "ops/call.h"

#define PROFILE_NONE UINT32_MAX /* an event that was dropped */

/* Begin an event: of an operator's call; of a function's, called from `at` (NULL: where cx is now). */
uint32_t profile_begin_op(const rush_call *c);
uint32_t profile_begin_function(call_ctx *cx, const char *name, const call_place *at);
void profile_end(call_ctx *cx, uint32_t event);

/* Forget what there was and record calls that start from now on; limit 0: the default. */
rush_status profile_start(context *c, size_t limit, rush_error *err) RUSH_CHECKED;
void profile_stop(context *c);
/* Events so far, and how many more there were. */
size_t profile_count(context *c, uint64_t *n_dropped);
/* False when there is none of that number. */
bool profile_at(context *c, size_t i, rush_profile_event *out);

#endif
