/* base/threads.h -- mutexes and the thread pool.
 *
 * A pool has n - 1 workers beside the calling thread.  parallel_for splits [0, n) into chunks of at
 * least `grain` and distributes them dynamically; results must not depend on which thread runs
 * which chunk. Nested calls run inline.
 *
 * If a call has a deadline or can be cancelled, it is polled about once a millisecond: work is then
 * distributed in pieces of whole grains that take no longer.  A grain should therefore be well
 * below 10 ms of work; if one item can take more, fn must poll call_over() itself and may leave its
 * results unfinished: parallel_for then fails. */
#ifndef RUSH_BASE_THREADS_H
#define RUSH_BASE_THREADS_H

#include <pthread.h>

#include "base/context.h"

/* Number of forks between this process and the one that first called forks_begin. In a child, locks
 * that other threads held remain locked for ever, so a lock that was made or used in another
 * generation is checked before it is taken. */
extern _Atomic uint32_t fork_generation;
void forks_begin(void);
static inline uint32_t forks_now(void)
{
  return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

typedef struct mutex {
  pthread_mutex_t m;
  _Atomic uint32_t seen; /* the generation in which it was last used */
  uint32_t n_changing; /* holds of its holder that change the data, of mutex_wait (base/lock.h) */
  bool recursive;
  /* a thread that no longer exists held it to change the data, which may be inconsistent */
  bool broken;
} mutex;
#define MUTEX_INIT {PTHREAD_MUTEX_INITIALIZER, 0, 0, false, false}
void mutex_init(mutex *m);
void mutex_init_recursive(mutex *m);
static inline void mutex_destroy(mutex *m) { pthread_mutex_destroy(&m->m); }
void mutex_after_fork(mutex *m);
static inline void mutex_lock(mutex *m)
{
  if (UNLIKELY(atomic_load_explicit(&m->seen, memory_order_relaxed) != forks_now()))
    mutex_after_fork(m);
  pthread_mutex_lock(&m->m);
}
static inline bool mutex_try(mutex *m)
{
  if (UNLIKELY(atomic_load_explicit(&m->seen, memory_order_relaxed) != forks_now()))
    mutex_after_fork(m);
  return pthread_mutex_trylock(&m->m) == 0;
}
static inline void mutex_unlock(mutex *m) { pthread_mutex_unlock(&m->m); }

/* Get the calling thread's own stack: its lowest address and the end behind its highest.  Returns
 * false if the system does not provide it.  Slow: for the main thread it reads /proc. */
bool thread_stack(uintptr_t *low, uintptr_t *high);

/* True on the process's first thread; false if the system does not report it.  Costs two system
 * calls. */
bool thread_is_main(void);

/* A host's pool: run(user, fn, arg, n) calls fn(arg, i) for every i in [0, n), on any thread, in
 * any order, sequentially or in parallel, and returns when all are done.  fn takes the remaining
 * work, so late calls find none; it never jumps, fails or throws. */
typedef struct pool_host {
  int n_threads;
  void (*run)(void *user, void (*fn)(void *arg, int i), void *arg, int n);
  void *user;
} pool_host;

thread_pool *pool_new(context *c,
                      int n_threads); /* starts no thread before the first parallel call */
void pool_free(thread_pool *p);
int pool_n_threads(const thread_pool *p);
void pool_set_threads(thread_pool *p, int n_threads);
void pool_set_host(thread_pool *p, const pool_host *host); /* NULL: use our own threads again */

/* Run fn(arg, begin, end) over [0, n).  Returns the status of polling; fn itself cannot fail. */
rush_status parallel_for(call_ctx *cx, int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg) RUSH_CHECKED;

/* Like parallel_for, on the calling thread alone, in order. */
rush_status serial_for(call_ctx *cx, int64_t n, int64_t grain,
                       void (*fn)(void *arg, int64_t begin, int64_t end), void *arg) RUSH_CHECKED;

#endif
