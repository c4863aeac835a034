/* base/lock.h -- locks that calls hold for long, and waits that end with the call.
 *
 * mutex_wait and lock_take return RUSH_ELIMIT at the deadline and RUSH_ECANCELLED when the call is
 * cancelled.  Both try once (one atomic operation without contention) and then sleep for some
 * milliseconds at a time.
 *
 * A call_lock protects a module's state or a generator.  It is held shared or exclusively.  A
 * thread that holds it may take it again in either way, because a host's callback may call into the
 * module that called it.  Threads that wait for exclusive access have priority over new sharers,
 * which let them go first once, for a millisecond, so that neither starves.  If two threads hold it
 * shared and both want exclusive access, they would deadlock: the second one gets an error.
 *
 * Rejected: pthread_rwlock (not recursive, and its timed waits use a clock that can be set), one
 * list of holders inside the lock (an additional mutex in every call). */
#ifndef RUSH_BASE_LOCK_H
#define RUSH_BASE_LOCK_H

#include "base/threads.h"

/* Lock a mutex that another thread may hold for long (a compilation), to change what it protects,
 * until mutex_done; or to read it (and to write what nobody relies on, like the scratch fields of a
 * graph), until mutex_unlock.  It is not locked after a failure.  RUSH_ERAISED: a thread that does
 * not exist after a fork was changing the data. */
rush_status mutex_wait(call_ctx *cx, mutex *m) RUSH_CHECKED;
rush_status mutex_wait_to_read(call_ctx *cx, mutex *m) RUSH_CHECKED;
void mutex_done(mutex *m);

typedef struct call_lock {
  _Atomic uint32_t state; /* holders and waiters: see lock.c */
  _Atomic uint32_t refs;  /* for locks made by call_lock_new */
  context *ctx; /* owner of its memory, retained; NULL: the lock is part of another object */
  mutex gate;             /* protects sleeping */
  _Atomic uint32_t seen;  /* fork_generation of its last use */
  bool broken;            /* a thread that does not exist after a fork held it exclusively */
  pthread_cond_t changed;
} call_lock;

/* One acquisition of a lock by a thread.  Lives on the thread's stack. */
typedef struct lock_hold {
  call_lock *lock;         /* NULL: nothing was locked */
  struct lock_hold *below; /* what the thread acquired before */
  bool exclusive;          /* lock_drop ends the exclusive hold */
  bool again;              /* an older hold of this thread already has the lock, at least shared */
} lock_hold;

typedef enum lock_way { LOCK_SHARED, LOCK_EXCLUSIVE } lock_way;

void call_lock_init(call_lock *l);
void call_lock_destroy(call_lock *l);
call_lock *call_lock_new(context *c); /* new; NULL: memory ran out */
call_lock *call_lock_retain(call_lock *l);
void call_lock_release(call_lock *l);

/* Take l (NULL: do nothing), waiting at most as long as the call may.  After each success call
 * lock_drop, newest first, on the same thread.  cx NULL: wait without limit; it then fails only if
 * two sharers wait for each other. */
rush_status lock_take(call_ctx *cx, call_lock *l, lock_way way, lock_hold *h) RUSH_CHECKED;
void lock_drop(lock_hold *h);
/* True if another thread sleeps until h's lock is dropped. */
static inline bool lock_is_wanted(const lock_hold *h)
{
  return h->lock &&
         atomic_load_explicit(&h->lock->state, memory_order_relaxed) & (UINT32_C(1) << 29);
}

#endif
