/* base/threads.h -- locks and the pool.
 *
 * A pool has n - 1 workers beside the calling thread.  parallel_for splits [0, n) into chunks of at
 * least `grain` and hands them out dynamically; results must not depend on which thread runs what.
 * Nested calls run inline.
 *
 * A call with a deadline, or that can be cancelled, is looked at about once a millisecond: work is
 * then handed out in pieces of whole grains that take no longer.  So a grain should be well below
 * 10 ms of work; where one item can be more, fn looks at call_over() itself and may leave its
 * results unfinished: parallel_for fails then. */
#ifndef RUSH_BASE_THREADS_H
#define RUSH_BASE_THREADS_H

#include <pthread.h>

#include "base/context.h"

/* How many forks lie between this process and the one that forks_begin was first called in: in a
 * child, locks that other threads held stay locked for ever, so a lock that was made or used in
 * another generation is looked at before it is taken. */
extern _Atomic uint32_t fork_generation;
void forks_begin(void);
static inline uint32_t forks_now(void)
{
  return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

typedef struct mutex {
  pthread_mutex_t m;
  _Atomic uint32_t seen; /* the generation that it was last used in */
  bool recursive;
  bool broken; /* a thread that is gone held it: what it protects may be half done */
} mutex;
#define MUTEX_INIT {PTHREAD_MUTEX_INITIALIZER, 0, false, false}
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

/* The calling thread's own stack: its lowest address and the end behind its highest.  False where
 * the system does not say.  Slow: the main thread's is read from /proc. */
bool thread_stack(uintptr_t *low, uintptr_t *high);

/* True on the process' first thread; false where the system does not say.  Costs two system calls.
 * */
bool thread_is_main(void);

/* A host's pool: run(user, fn, arg, n) calls fn(arg, i) for every i in [0, n), on any thread, in
 * any order, one after the other or at once, and returns when all are done.  fn takes what work is
 * left, so calls that come late find none; it never jumps, fails or throws. */
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
void pool_set_host(thread_pool *p, const pool_host *host); /* NULL: our own again */

/* fn(arg, begin, end) over [0, n).  Status of the poll; fn itself cannot fail. */
rush_status parallel_for(call_ctx *cx, int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg) RUSH_CHECKED;

/* The same on the calling thread alone, in order. */
rush_status serial_for(call_ctx *cx, int64_t n, int64_t grain,
                       void (*fn)(void *arg, int64_t begin, int64_t end), void *arg) RUSH_CHECKED;

#endif
