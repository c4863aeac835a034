/* base/host.h -- settings that a host can change after a context was made: a byte limit, and the
 * interrupt callback.
 *
 * If a context has an `interrupt` callback, calls invoke it about every 30 ms from code that reads
 * the clock (call_poll, call_over), on the calling thread and on threads of the pool; the host
 * returns false on threads it does not care about.  To end a call, its deadline is set to 0, which
 * all threads working for it notice at their next poll.  Calls of such a context always have a
 * deadline (CALL_ASKS, which never passes), so that they poll at all. */
#ifndef RUSH_BASE_HOST_H
#define RUSH_BASE_HOST_H

#include "base/context.h"

#define CALL_ASKS (UINT64_MAX - 1)

/* Set the callback; interrupt(user) returns true to end the call.  NULL: none.  Do not call this
 * while calls run. */
void context_set_interrupt(context *c, bool (*interrupt)(void *user), void *user);
/* Limit the live bytes of a context that was made without a limit; 0: no limit.  It costs nothing
 * while unset; threads that allocate at the same moment may pass it together.  Returns false if the
 * context was made with a limit, which is exact and kept. */
bool mem_set_limit(context *c, size_t n_bytes);

#endif
