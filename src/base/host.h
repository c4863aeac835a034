/* base/host.h -- what a host may change after a context was made: a limit on bytes, and whom calls
 * ask.
 *
 * A context with an `interrupt` asks it while calls run, about every 30 ms, on the thread whose
 * work looks at the clock (call_poll, call_over): threads of the pool ask too, and the host says no
 * where it does not care.  A call that the host ends gets the deadline 0, which all threads that
 * work for it see at their next look.  Calls of such a context have a deadline, CALL_ASKS, that
 * never comes: so that they look at all. */
#ifndef RUSH_BASE_HOST_H
#define RUSH_BASE_HOST_H

#include "base/context.h"

#define CALL_ASKS (UINT64_MAX - 1)

/* interrupt(user): true ends the call.  NULL: nobody is asked.  Not while calls run. */
void context_set_interrupt(context *c, bool (*interrupt)(void *user), void *user);
/* A limit on live bytes of a context that was made without one; 0: none.  It holds to within 64 KB
 * a thread, and costs nothing while there is none.  False: the context was made with a limit, which
 * counts exactly and stays. */
bool mem_set_limit(context *c, size_t n_bytes);

#endif
