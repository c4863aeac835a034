/* base/lock.c -- waiting for mutexes, and call locks (lock.h). A call_lock is one atomic word, so
 * that taking it without contention is one compare-and-exchange; a mutex and a condition variable
 * serve only the threads that sleep. Each thread keeps a list of its holds, which makes recursion
 * possible and shows a forked child which holders still exist. Sleeps are bounded, because a
 * sleeping call must notice its deadline. */
#include "base/lock.h"

#include "base/count.h"

#include <time.h>

/* -- Waiting for a mutex ----------------------------------------------------------------------- */

/* Shortest and longest sleep between two polls. */
#define WAIT_LEAST_NS 50000
#define WAIT_MOST_NS 2000000

#define HALF_DONE                                                                                \
  "another thread was changing or compiling this when the process forked: load it again in the " \
  "child"

rush_status mutex_wait_to_read(call_ctx *cx, mutex *m)
{
  if (mutex_try(m)) {
    if (LIKELY(!m->broken))
      return RUSH_OK;
    mutex_unlock(m);
    return error_set_type(cx->err, RUSH_ERAISED, "RuntimeError", HALF_DONE);
  }
  if (!call_is_watched(cx)) {
    mutex_lock(m);
    return RUSH_OK;
  }
  long ns = WAIT_LEAST_NS;
  do {
    TRY(call_poll(cx));
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    ns = ns < WAIT_MOST_NS ? 2 * ns : ns;
  } while (!mutex_try(m));
  return RUSH_OK;
}

rush_status mutex_wait(call_ctx *cx, mutex *m)
{
  TRY(mutex_wait_to_read(cx, m));
  m->n_changing++;
  return RUSH_OK;
}

void mutex_done(mutex *m)
{
  m->n_changing--;
  mutex_unlock(m);
}

/* -- Locks of calls ---------------------------------------------------------------------------- */

/* Bits of call_lock.state:
 *
 *   bit 31       one thread holds the lock exclusively (bits 0..15 count it too if it was a sharer)
 *   bit 30       a sharer waits to hold it exclusively
 *   bit 29       a thread sleeps: a change of the state wakes all (read by lock_is_wanted)
 *   bits 16..28  number of threads that wait to hold it exclusively
 *   bits 0..15   number of sharers
 *
 * Without contention, taking is one compare-and-exchange and dropping one subtraction. */
#define EXCLUSIVE (UINT32_C(1) << 31)
#define RAISING (UINT32_C(1) << 30)
#define SLEEPERS (UINT32_C(1) << 29)
#define WAITER (UINT32_C(1) << 16)
#define WAITERS (SLEEPERS - WAITER)
#define SHARERS (WAITER - 1)

/* Longest sleeps: of a thread that lets others go first, of a call with a deadline, of other
 * calls. */
#define POLITE_NS 1000000
#define WATCHED_NS 3000000
#define PLAIN_NS 50000000

/* The holds of this thread, newest first.  A pointer always fits into the static TLS block, where
 * access needs no function call. */
static _Thread_local lock_hold *held __attribute__((tls_model("initial-exec")));

void call_lock_init(call_lock *l)
{
  pthread_condattr_t attr;

  l->ctx = NULL;
  atomic_init(&l->state, 0);
  atomic_init(&l->refs, 1);
  mutex_init(&l->gate);
  atomic_init(&l->seen, forks_now());
  l->broken = false;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&l->changed, &attr);
  pthread_condattr_destroy(&attr);
}

void call_lock_destroy(call_lock *l)
{
  pthread_cond_destroy(&l->changed);
  mutex_destroy(&l->gate);
}

call_lock *call_lock_new(context *c)
{
  call_lock *l = mem_alloc(c, sizeof *l);

  if (!l)
    return NULL;
  call_lock_init(l);
  l->ctx = context_retain(c);
  return l;
}

call_lock *call_lock_retain(call_lock *l)
{
  count_add(&l->refs);
  return l;
}

void call_lock_release(call_lock *l)
{
  if (!l || count_sub(&l->refs, 1) != 1)
    return;
  context *c = l->ctx;
  call_lock_destroy(l);
  mem_free(c, l, sizeof *l);
  context_release(c);
}

/* One way of taking a lock, as a change of its state. */
typedef struct lock_step {
  uint32_t against; /* bits that must be clear */
  uint32_t polite;  /* bits that a thread which has not slept yet respects too */
  uint32_t alone;   /* the number of sharers that there must be, or SHARERS: any */
  uint32_t add;
  uint32_t waits;   /* how the state counts a waiting thread */
} lock_step;

static const lock_step share = {EXCLUSIVE | RAISING, WAITERS, SHARERS, 1, 0};
static const lock_step exclude = {EXCLUSIVE | RAISING, WAITERS, 0, EXCLUSIVE, WAITER};
static const lock_step raise_share = {EXCLUSIVE, 0, 1, EXCLUSIVE,
                                      RAISING}; /* a sharer becomes exclusive */

static bool step_fits(uint32_t s, const lock_step *step, uint32_t polite)
{
  const uint32_t n = s & SHARERS;

  return !(s & (step->against | polite)) &&
         (step->alone == SHARERS ? n < SHARERS : n == step->alone);
}

/* Try the step once.  `waits`: the part of the state that counts this thread as a waiter. */
static inline bool try_step(call_lock *l, const lock_step *step, uint32_t polite, uint32_t waits)
{
  uint32_t s = atomic_load_explicit(&l->state, memory_order_relaxed);

  if (process_is_single()) {
    if (!step_fits(s - waits, step, polite))
      return false;
    atomic_store_explicit(&l->state, s - waits + step->add, memory_order_relaxed);
    return true;
  }
  while (step_fits(s - waits, step, polite))
    if (atomic_compare_exchange_weak_explicit(&l->state, &s, s - waits + step->add,
                                              memory_order_acquire, memory_order_relaxed))
      return true;
  return false;
}

static void wake_all(call_lock *l)
{
  mutex_lock(&l->gate);
  atomic_fetch_and_explicit(&l->state, ~SLEEPERS, memory_order_relaxed);
  pthread_cond_broadcast(&l->changed);
  mutex_unlock(&l->gate);
}

/* Sleep until the state changes, at most `ns`; return at once if the step is possible now. */
static void sleep_on(call_lock *l, const lock_step *step, uint32_t polite, long ns)
{
  struct timespec until;

  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ns;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  mutex_lock(&l->gate);
  uint32_t s = atomic_fetch_or_explicit(&l->state, SLEEPERS, memory_order_relaxed);
  if (!step_fits(s - step->waits, step, polite))
    pthread_cond_timedwait(&l->changed, &l->gate.m, &until);
  mutex_unlock(&l->gate);
}

/* Wait until the step succeeds; the state already counts this thread.  Two threads that let each
 * other go first both continue after POLITE_NS. */
static rush_status wait_step(call_ctx *cx, call_lock *l, const lock_step *step)
{
  const long ns = cx && call_is_watched(cx) ? WATCHED_NS : PLAIN_NS;

  sleep_on(l, step, step->polite, POLITE_NS);
  while (!try_step(l, step, 0, step->waits)) {
    rush_status st = cx ? call_poll(cx) : RUSH_OK;
    if (st != RUSH_OK) {
      atomic_fetch_sub_explicit(&l->state, step->waits, memory_order_relaxed);
      wake_all(l); /* others step back for this thread */
      return st;
    }
    sleep_on(l, step, 0, ns);
  }
  return RUSH_OK;
}

/* Turn this thread's shared hold into an exclusive one.  Only one thread at a time may wait
 * here. */
static rush_status take_more(call_ctx *cx, call_lock *l)
{
  if (try_step(l, &raise_share, 0, 0))
    return RUSH_OK;
  if (atomic_fetch_or_explicit(&l->state, RAISING, memory_order_relaxed) & RAISING)
    return error_set_type(cx ? cx->err : NULL, RUSH_ERAISED, "RuntimeError",
                          "two calls that run at once both want to change the state that they "
                          "read: expected the change in a "
                          "method of the module that changes its state, or outside of its calls");
  return wait_step(cx, l, &raise_share);
}

static rush_status take_first(call_ctx *cx, call_lock *l, const lock_step *step)
{
  if (LIKELY(try_step(l, step, step->polite, 0)))
    return RUSH_OK;
  atomic_fetch_add_explicit(&l->state, step->waits, memory_order_relaxed);
  return wait_step(cx, l, step);
}

/* Repair a lock at its first use in a forked child: only the holds of the forking thread, assumed
 * to be this one, remain. */
static void after_fork(call_lock *l)
{
  uint32_t mine = 0;

  mutex_lock(&l->gate);
  if (l->seen != forks_now()) {
    for (const lock_hold *o = held; o; o = o->below)
      if (o->lock == l)
        mine += (o->exclusive ? EXCLUSIVE : 0) + (o->again || o->exclusive ? 0 : 1);
    l->broken |= atomic_load(&l->state) & EXCLUSIVE && !(mine & EXCLUSIVE);
    atomic_store(&l->state, mine);
    pthread_cond_init(&l->changed, NULL);
    l->seen = forks_now();
  }
  mutex_unlock(&l->gate);
}

static void hold(call_lock *l, lock_hold *h)
{
  h->lock = l;
  h->below = held;
  held = h;
}

/* Take the lock if the thread already holds one, if there is contention, or in a forked child. */
COLD static rush_status take_slowly(call_ctx *cx, call_lock *l, lock_way way, lock_hold *h)
{
  bool again = false, exclusive = false;

  if (UNLIKELY(l->seen != forks_now()))
    after_fork(l);
  if (UNLIKELY(l->broken))
    return error_set_type(cx ? cx->err : NULL, RUSH_ERAISED, "RuntimeError", HALF_DONE);
  for (const lock_hold *o = held; o; o = o->below) {
    again |= o->lock == l;
    exclusive |= o->lock == l && o->exclusive;
  }
  h->exclusive = way == LOCK_EXCLUSIVE && !exclusive;
  h->again = again;
  if (!again)
    TRY(take_first(cx, l, h->exclusive ? &exclude : &share));
  else if (h->exclusive)
    TRY(take_more(cx, l));
  hold(l, h);
  return RUSH_OK;
}

rush_status lock_take(call_ctx *cx, call_lock *l, lock_way way, lock_hold *h)
{
  h->lock = NULL;
  if (!l)
    return RUSH_OK;
  if (UNLIKELY(held || way != LOCK_SHARED || l->seen != forks_now() || l->broken ||
               !try_step(l, &share, share.polite, 0)))
    return take_slowly(cx, l, way, h);
  h->exclusive = h->again = false;
  hold(l, h);
  return RUSH_OK;
}

void lock_drop(lock_hold *h)
{
  call_lock *l = h->lock;

  if (!l)
    return;
  const uint32_t part = h->exclusive ? EXCLUSIVE : h->again ? 0 : 1;
  ASSERT(held == h, "locks are dropped newest first");
  held = h->below;
  h->lock = NULL;
  if (part && count_sub(&l->state, part) & SLEEPERS)
    wake_all(l);
}
