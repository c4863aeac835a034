/* base/lock.h -- locks that calls hold for long, and waits that end with the call.
 *
 * mutex_wait and lock_take return RUSH_ELIMIT at the deadline and RUSH_ECANCELLED when the call is
 * cancelled.  Both try once (one atomic operation when nobody is in the way) and then sleep for
 * some milliseconds at a time.
 *
 * A call_lock protects a module's state or a generator.  It is held shared or exclusively.  A
 * thread that holds it may take it again in either way, because a host's callback may call into the
 * module that it was called from.  Threads that wait to hold it exclusively come before new
 * sharers, which step back once for a millisecond; so neither starves.  Two threads that hold it
 * shared and both want it exclusively would wait for each other: the second one gets an error.
 *
 * Rejected: pthread_rwlock (no re-entry, and its timed waits measure by a clock that can be set),
 * one list of holders inside the lock (a mutex more on every call). */
#ifndef RUSH_BASE_LOCK_H
#define RUSH_BASE_LOCK_H

#include "base/threads.h"

/* mutex_lock for what others may hold for long (a compilation).  Not locked after a failure;
 * RUSH_ERAISED: a thread that did not survive a fork held it. */
rush_status mutex_wait(call_ctx *cx, mutex *m) RUSH_CHECKED;

typedef struct call_lock {
  _Atomic uint32_t state; /* holders and waiters: lock.c */
  _Atomic uint32_t refs;  /* of a lock that call_lock_new made */
  context *ctx;           /* its memory's, retained; NULL: the lock is part of another object */
  mutex gate;             /* protects sleeping */
  _Atomic uint32_t seen;  /* fork_generation of its last use */
  bool broken;            /* a thread that did not survive a fork held it exclusively */
  pthread_cond_t changed;
} call_lock;

/* One time that a thread took a lock.  Lives on its stack. */
typedef struct lock_hold {
  call_lock *lock;         /* NULL: nothing was taken */
  struct lock_hold *below; /* what the thread took before */
  bool exclusive;          /* lock_drop ends the exclusive holding */
  bool again;              /* an older hold of this thread has the lock, at least shared */
} lock_hold;

typedef enum lock_way { LOCK_SHARED, LOCK_EXCLUSIVE } lock_way;

void call_lock_init(call_lock *l);
void call_lock_destroy(call_lock *l);
call_lock *call_lock_new(context *c); /* new; NULL: no memory */
call_lock *call_lock_retain(call_lock *l);
void call_lock_release(call_lock *l);

/* Take l (NULL: nothing to take), waiting no longer than the call may.  Each success needs its
 * lock_drop, newest first, on the same thread.  cx NULL: wait as long as it takes; then it fails
 * only where two sharers wait for each other. */
rush_status lock_take(call_ctx *cx, call_lock *l, lock_way way, lock_hold *h) RUSH_CHECKED;
void lock_drop(lock_hold *h);
/* True when another thread sleeps until h's lock is dropped. */
static inline bool lock_is_wanted(const lock_hold *h)
{
  return h->lock &&
         atomic_load_explicit(&h->lock->state, memory_order_relaxed) & (UINT32_C(1) << 29);
}

#endif
