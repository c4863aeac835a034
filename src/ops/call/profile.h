/* ops/call/profile.h -- the profile of a context: which operator or function ran when, on what,
 * from which line.
 *
 * There is one per context, in SLOT_HOOKS, made at the first start and kept until the context ends.
 * op_call and the interpreter's frames begin and end events if the call's `watch` is set: without
 * a profile that is the one branch which calls take anyway.  Hooks (the tracer's) are called by the
 * same branch.  Events of one thread nest; an event is in the record as soon as it begins, and a
 * limit bounds their number: later ones are counted as dropped.
 *
 * Names, inputs and places are stored once each (`items`), so an event is small.  A place is the
 * innermost line of a user's function, in its author's text if the archive has it; composites'
 * bodies are not places.
 *
 * Invariants.  (1) cx->profile is the number of the start that the call belongs to: calls that
 * outlive their profile write nothing.  (2) begin and end are paired in a call, whether the event
 * was kept or dropped. Threads: locked internally; strings returned by profile_at live until the
 * next start. */
#ifndef RUSH_OPS_PROFILE_H
#define RUSH_OPS_PROFILE_H

#include <pthread.h>

#include "ops/call/call.h"

/* A hook on calls: called for successful calls, in the thread that added it, until it is removed.
 * `op` and `function` are for calls from outside (not from a program or an operator's body); `node`
 * is for the operators that programs call, without those that these call in turn.  Each may be
 * NULL. */
typedef struct call_hook {
  struct call_hook *next;
  pthread_t thread;
  void *user;
  void (*op)(void *user, rush_call *c); /* may tag results: rush_value.aux */
  void (*function)(void *user, void *function, const rush_value *args, uint32_t n_args,
                   rush_value *result);
  void (*node)(void *user, rush_call *c);
} call_hook;
/* Add a hook; sets its thread. */
rush_status profile_add_hook(context *c, call_hook *h, rush_error *err) RUSH_CHECKED;
void profile_remove_hook(context *c, call_hook *h);
void profile_called_op(rush_call *c);
void profile_called_node(rush_call *c);
/* Add a hook whose `node` reports to `fn` what ran where (rush_watch_start); profile_unwatch
 * removes and frees it. */
rush_status profile_watch(context *c, rush_watch_fn *fn, void *user, rush_error *err) RUSH_CHECKED;
void profile_unwatch(context *c, rush_watch_fn *fn, void *user);
void profile_called_function(call_ctx *cx, void *function, const rush_value *args, uint32_t n_args,
                             rush_value *result);
/* True if the next call comes from outside. */
static inline bool profile_is_outside(const call_ctx *cx) { return cx->profile_depth == 0; }

#define PROFILE_NONE UINT32_MAX /* an event that was dropped */

/* Begin an event: of an operator's call; of a function's, called from `at` (NULL: from cx's
 * position). */
uint32_t profile_begin_op(const rush_call *c);
uint32_t profile_begin_function(call_ctx *cx, const char *name, const call_place *at);
void profile_end(call_ctx *cx, uint32_t event);

/* Discard the old profile and record calls that start from now on; limit 0: the default. */
rush_status profile_start(context *c, size_t limit, rush_error *err) RUSH_CHECKED;
void profile_stop(context *c);
/* Return the number of events so far, and how many were dropped. */
size_t profile_count(context *c, uint64_t *n_dropped);
/* Get an event; returns false if there is none of that number. */
bool profile_at(context *c, size_t i, rush_profile_event *out);

#endif
