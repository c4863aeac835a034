/* base/threads.c -- mutexes that survive fork, and the thread pool. The pool runs one job at a
 * time; the caller takes chunks too, and one atomic word holds the open job and the number of
 * workers in it, so that a small job never waits for a sleeping worker. Workers spin for 50 us
 * before they sleep, since operators follow each other faster than a wake-up takes. Work stealing
 * was not needed: chunks are equal and distributed by one counter. */
#include "base/threads.h"

#include <sched.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "base/clock.h"
#include "base/context_int.h"

/* How the pool works.  It runs one job at a time; the caller works too.  `state` separates jobs:
 *
 *   bits 16..63  number of the job
 *   bits 1..15   number of workers inside it
 *   bit 0        open: workers may enter
 *
 * A worker enters by incrementing the count while the job is open; the caller closes the job when
 * no chunk is left and waits for the workers inside.  It never waits for a worker that was asleep
 * and came too late, so a small job costs no more than the caller's own work. */
#define OPEN UINT64_C(1)
#define INSIDE UINT64_C(2)
#define INSIDE_MASK UINT64_C(0xfffe)
#define JOB UINT64_C(0x10000)

/* Spinning costs a core but saves a wake-up of some 5 us; operators follow each other faster. */
#define SPIN_NS 50000
/* While other threads still work on the last job, the next one is probably near; a worker that
 * slept would arrive late, on virtual machines by more than most operators take. */
#define SPIN_OPEN_NS 1000000
#define MAX_THREADS 1024
/* Chunks per thread if the grain allows it: enough to balance, few enough to cost nothing. */
#define CHUNKS_PER_THREAD 4

/* A call with a deadline is polled about this often; a piece of work takes at most half of it. */
#define WATCH_NS 1000000

bool thread_stack(uintptr_t *low, uintptr_t *high)
{
#if defined(__linux__)
  pthread_attr_t attr;
  void *start = NULL;
  size_t n_bytes = 0;

  if (pthread_getattr_np(pthread_self(), &attr) != 0)
    return false;
  bool ok = pthread_attr_getstack(&attr, &start, &n_bytes) == 0;
  pthread_attr_destroy(&attr);
  *low = (uintptr_t)start;
  *high = *low + n_bytes;
  return ok;
#elif defined(__APPLE__)
  *high = (uintptr_t)pthread_get_stackaddr_np(pthread_self());
  *low = *high - pthread_get_stacksize_np(pthread_self());
  return true;
#else
  (void)low;
  (void)high;
  return false;
#endif
}

bool thread_is_main(void)
{
#if defined(__linux__)
  return syscall(SYS_gettid) == getpid();
#elif defined(__APPLE__)
  return pthread_main_np() != 0;
#else
  return false;
#endif
}

/* -- Forks ------------------------------------------------------------------------------------- */

_Atomic uint32_t fork_generation;

static void count_fork(void)
{
  atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
}
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

void forks_begin(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  pthread_once(&once, watch_forks);
}

void mutex_init(mutex *m)
{
  pthread_mutex_init(&m->m, NULL);
  atomic_init(&m->seen, forks_now());
  m->recursive = m->broken = false;
  m->n_changing = 0;
}

void mutex_init_recursive(mutex *m)
{
  pthread_mutexattr_t attr;

  mutex_init(m);
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&m->m, &attr);
  pthread_mutexattr_destroy(&attr);
  m->recursive = true;
}

/* Repair a mutex at its first use in a child.  If it is locked, a thread that no longer exists
 * holds it; the first thread to come makes it usable before any thread takes it. */
void mutex_after_fork(mutex *m)
{
  static pthread_mutex_t one =
    PTHREAD_MUTEX_INITIALIZER; /* held for some instructions, and not across forks of ours */
  const uint32_t now = forks_now();

  pthread_mutex_lock(&one);
  if (atomic_load_explicit(&m->seen, memory_order_relaxed) != now) {
    if (pthread_mutex_trylock(&m->m) == 0) {
      pthread_mutex_unlock(&m->m);
    } else {
      const bool recursive = m->recursive, broken = m->broken || m->n_changing > 0;
      if (recursive)
        mutex_init_recursive(m);
      else
        mutex_init(m);
      m->broken = broken;
    }
    atomic_store_explicit(&m->seen, now, memory_order_relaxed);
  }
  pthread_mutex_unlock(&one);
}

/* -- The pool ---------------------------------------------------------------------------------- */

typedef struct job {
  void (*fn)(void *arg, int64_t begin, int64_t end);
  void *arg;
  call_ctx *cx;
  int64_t n, grain, chunk, n_chunks;
} job;

struct thread_pool {
  context *ctx;
  atomic_bool busy; /* someone's job runs; others run theirs inline */
  /* threads of the host's pool or ours, with the caller: for threads that have not claimed the
   * pool */
  _Atomic int n_usable;

  /* For the thread that claimed the pool. */
  int n_threads; /* of ours, with the caller */
  /* fork_generation of the workers, which do not survive a fork */
  _Atomic uint32_t seen;
  pool_host host;

  _Atomic uint64_t state;
  _Atomic int64_t next; /* chunk */
  atomic_bool stopped;  /* the deadline passed or the call was cancelled: hand out no more */
  job job;

  mutex lock; /* of everything below, and of sleeping */
  pthread_cond_t wake, done;
  _Atomic int n_asleep;
  atomic_bool caller_asleep;
  atomic_bool quit;
  int n_workers;
  pthread_t *workers;
};

static inline void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* -- Work -------------------------------------------------------------------------------------- */

/* Run [begin, end) in pieces of whole grains, reading the clock between them; returns false if
 * the call must end. Pieces grow while they are fast: a grain may be a nanosecond's work or a
 * second's. */
static bool run_watched(const job *j, int64_t begin, int64_t end)
{
  int64_t piece = j->grain;
  uint64_t before = clock_ns();
  while (begin < end) {
    int64_t to = end - begin <= piece ? end : begin + piece;
    j->fn(j->arg, begin, to);
    begin = to;
    if (call_over(j->cx))
      return false;
    uint64_t now = clock_ns();
    if (now - before < WATCH_NS / 4 && piece <= INT64_MAX / 2)
      piece *= 2;
    else if (now - before > WATCH_NS && piece / 2 >= j->grain)
      piece = piece / 2 / j->grain * j->grain;
    before = now;
  }
  return true;
}

static void run_chunks(thread_pool *p)
{
  const job *j = &p->job;
  bool watched = call_is_watched(j->cx);
  for (;;) {
    int64_t i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
    if (i >= j->n_chunks || atomic_load_explicit(&p->stopped, memory_order_relaxed))
      return;
    int64_t begin = i * j->chunk, end = begin + i64_min(j->chunk, j->n - begin);
    if (!watched)
      j->fn(j->arg, begin, end);
    else if (!run_watched(j, begin, end))
      atomic_store_explicit(&p->stopped, true, memory_order_relaxed);
  }
}

/* Enter an open job newer than `seen`; returns true if this worker is now inside it. */
static bool enter_job(thread_pool *p, uint64_t seen)
{
  uint64_t s = atomic_load_explicit(&p->state, memory_order_acquire);
  while ((s & OPEN) && s / JOB != seen)
    if (atomic_compare_exchange_weak_explicit(&p->state, &s, s + INSIDE, memory_order_acq_rel,
                                              memory_order_acquire))
      return true;
  return false;
}

static void leave_job(thread_pool *p)
{
  uint64_t s = atomic_fetch_sub(&p->state, INSIDE) - INSIDE;
  if (!(s & (OPEN | INSIDE_MASK)) && atomic_load(&p->caller_asleep)) {
    mutex_lock(&p->lock);
    pthread_cond_signal(&p->done);
    mutex_unlock(&p->lock);
  }
}

/* Wait for a job newer than `seen` and enter it; returns false when the pool quits. */
static bool await_job(thread_pool *p, uint64_t seen)
{
  uint64_t now = clock_ns(), until = now + SPIN_NS, latest = now + SPIN_OPEN_NS;
  for (int i = 1; !atomic_load_explicit(&p->quit, memory_order_relaxed); i++) {
    if (enter_job(p, seen))
      return true;
    pause_briefly();
    if (i % 64)
      continue;
    now = clock_ns();
    if (atomic_load_explicit(&p->state, memory_order_relaxed) & OPEN && now < latest)
      until = now + SPIN_NS;
    else if (now >= until)
      break;
  }
  bool inside = false;
  mutex_lock(&p->lock);
  atomic_fetch_add(&p->n_asleep, 1); /* before the look at state; open_job does the reverse */
  while (!atomic_load(&p->quit) && !(inside = enter_job(p, seen)))
    pthread_cond_wait(&p->wake, &p->lock.m);
  atomic_fetch_sub(&p->n_asleep, 1);
  mutex_unlock(&p->lock);
  return inside;
}

static void *worker(void *arg)
{
  thread_pool *p = arg;
  uint64_t seen = 0;
  while (await_job(p, seen)) {
    seen = atomic_load_explicit(&p->state, memory_order_relaxed) / JOB;
    run_chunks(p);
    leave_job(p);
  }
  return NULL;
}

static void open_job(thread_pool *p, int64_t n_wanted)
{
  uint64_t number = atomic_load_explicit(&p->state, memory_order_relaxed) / JOB + 1;
  atomic_store(&p->state, number * JOB | OPEN);
  int n_asleep = atomic_load(&p->n_asleep);
  if (n_asleep == 0 || n_wanted <= p->n_workers - n_asleep)
    return;
  mutex_lock(&p->lock);
  if (n_wanted >= p->n_workers)
    pthread_cond_broadcast(&p->wake);
  else
    for (int64_t i = p->n_workers - n_asleep; i < n_wanted; i++)
      pthread_cond_signal(&p->wake);
  mutex_unlock(&p->lock);
}

/* Wait, under the lock, until the workers are done.  If the call can end early, poll now and then;
 * the workers see the result. */
static void await_workers(thread_pool *p)
{
  struct timespec until;

  if (!call_is_watched(p->job.cx)) {
    pthread_cond_wait(&p->done, &p->lock.m);
    return;
  }
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 20000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  if (pthread_cond_timedwait(&p->done, &p->lock.m, &until) == 0)
    return;
  mutex_unlock(&p->lock); /* the host may take its time */
  (void)call_over(p->job.cx);
  mutex_lock(&p->lock);
}

static void close_job(thread_pool *p)
{
  uint64_t s = atomic_fetch_and(&p->state, ~OPEN) & ~OPEN;
  uint64_t until = 0;
  for (int i = 1; s & INSIDE_MASK; i++) {
    pause_briefly();
    s = atomic_load_explicit(&p->state, memory_order_acquire);
    if (i % 64 == 0) {
      uint64_t now = clock_ns();
      until = until ? until : now + SPIN_NS;
      if (now >= until)
        break;
    }
  }
  if (!(s & INSIDE_MASK))
    return;
  mutex_lock(&p->lock);
  atomic_store(&p->caller_asleep, true);
  while (atomic_load(&p->state) & INSIDE_MASK)
    await_workers(p);
  atomic_store(&p->caller_asleep, false);
  mutex_unlock(&p->lock);
}

/* -- Pool -------------------------------------------------------------------------------------- */

static int machine_threads(void)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    n = CPU_COUNT(&set);
  return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

static int threads_or_default(int n)
{
  return n <= 0 ? machine_threads() : n > MAX_THREADS ? MAX_THREADS : n;
}

thread_pool *pool_new(context *c, int n_threads)
{
  thread_pool *p = mem_raw_alloc(&c->opt.allocator, sizeof *p);
  if (!p)
    return NULL;
  *p = (thread_pool){.ctx = c, .n_threads = threads_or_default(n_threads)};
  atomic_init(&p->n_usable, p->n_threads);
  p->seen = forks_now();
  mutex_init(&p->lock);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->done, NULL);
  return p;
}

/* Start as many workers as wanted, or as the system allows; with none the caller works alone. */
static void start_workers(thread_pool *p)
{
  if (p->workers || p->n_threads <= 1)
    return;
  size_t n = (size_t)p->n_threads - 1;
  p->workers = mem_raw_alloc(&p->ctx->opt.allocator, n * sizeof *p->workers);
  if (!p->workers)
    return;
  p->n_workers = 0;
  for (size_t i = 0; i < n; i++)
    if (pthread_create(&p->workers[p->n_workers], NULL, worker, p) == 0)
      p->n_workers++;
}

static void stop_workers(thread_pool *p)
{
  if (!p->workers)
    return;
  mutex_lock(&p->lock);
  atomic_store(&p->quit, true);
  pthread_cond_broadcast(&p->wake);
  mutex_unlock(&p->lock);
  for (int i = 0; i < p->n_workers; i++)
    pthread_join(p->workers[i], NULL);
  mem_raw_free(&p->ctx->opt.allocator, p->workers, ((size_t)p->n_threads - 1) * sizeof *p->workers);
  p->workers = NULL;
  p->n_workers = 0;
  atomic_store(&p->n_asleep, 0);
  atomic_store(&p->quit, false);
}

/* Reset the pool at its first use in a forked child, which has no workers. */
static void pool_after_fork(thread_pool *p)
{
  mutex_lock(&p->lock);
  if (p->seen != forks_now()) {
    mem_raw_free(&p->ctx->opt.allocator, p->workers,
                 p->workers ? ((size_t)p->n_threads - 1) * sizeof *p->workers : 0);
    p->workers = NULL;
    p->n_workers = 0;
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    atomic_store(&p->state, atomic_load(&p->state) / JOB * JOB);
    atomic_store(&p->n_asleep, 0);
    atomic_store(&p->caller_asleep, false);
    atomic_store(&p->quit, false);
    atomic_store(&p->busy, false);
    p->seen = forks_now();
  }
  mutex_unlock(&p->lock);
}

void pool_free(thread_pool *p)
{
  if (!p)
    return;
  if (p->seen != forks_now())
    pool_after_fork(p);
  stop_workers(p);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->done);
  mutex_destroy(&p->lock);
  mem_raw_free(&p->ctx->opt.allocator, p, sizeof *p);
}

int pool_n_threads(const thread_pool *p)
{
  if (!p) /* there was no memory for one: the caller works alone */
    return 1;
  return atomic_load_explicit(&p->n_usable, memory_order_relaxed);
}

/* Claim the pool for a change: waits until no job runs; jobs that arrive meanwhile run inline. */
static void pool_claim(thread_pool *p)
{
  if (p->seen != forks_now())
    pool_after_fork(p);
  while (atomic_exchange_explicit(&p->busy, true, memory_order_acquire))
    sched_yield();
}

/* Update the number of usable threads after a change. */
static void pool_count(thread_pool *p)
{
  int n = p->host.run ? p->host.n_threads : p->n_threads;

  atomic_store_explicit(&p->n_usable, n < 1 ? 1 : n, memory_order_relaxed);
}

static void pool_unclaim(thread_pool *p)
{
  atomic_store_explicit(&p->busy, false, memory_order_release);
}

void pool_set_threads(thread_pool *p, int n_threads)
{
  n_threads = threads_or_default(n_threads);
  pool_claim(p);
  if (n_threads != p->n_threads) {
    stop_workers(p);
    p->n_threads = n_threads;
    pool_count(p);
  }
  pool_unclaim(p);
}

void pool_set_host(thread_pool *p, const pool_host *host)
{
  pool_claim(p);
  if (host)
    stop_workers(p);
  p->host = host ? *host : (pool_host){0};
  pool_count(p);
  pool_unclaim(p);
}

/* -- parallel_for ------------------------------------------------------------------------------ */

/* Enter a job on a host's thread, as a worker does.  If the job is already over, do nothing or help
 * with the next one. */
static void host_task(void *arg, int i)
{
  thread_pool *p = arg;

  (void)i;
  if (!enter_job(p, 0))
    return;
  run_chunks(p);
  leave_job(p);
}

/* Run everything on this thread, reading the clock between pieces if the call can end early. */
static rush_status run_inline(call_ctx *cx, int64_t n, int64_t grain,
                              void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
  if (!call_is_watched(cx)) {
    fn(arg, 0, n);
    return RUSH_OK;
  }
  const job j = {.fn = fn, .arg = arg, .cx = cx, .n = n, .grain = grain};
  (void)run_watched(&j, 0, n);
  return call_poll(cx);
}

static void run_job(thread_pool *p)
{
  if (p->host
        .run) { /* whatever it does with the tasks, all are run and no thread is still inside */
    atomic_store(&p->state,
                 (atomic_load_explicit(&p->state, memory_order_relaxed) / JOB + 1) * JOB | OPEN);
    p->host.run(p->host.user, host_task, p, (int)i64_min(p->host.n_threads, p->job.n_chunks));
  } else {
    start_workers(p);
    open_job(p, p->job.n_chunks - 1);
  }
  run_chunks(p);
  close_job(p);
}

rush_status serial_for(call_ctx *cx, int64_t n, int64_t grain,
                       void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
  return n <= 0 ? RUSH_OK : run_inline(cx, n, i64_max(grain, 1), fn, arg);
}

rush_status parallel_for(call_ctx *cx, int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
  if (n <= 0)
    return RUSH_OK;
  grain = i64_max(grain, 1);
  if (n <= grain) {
    fn(arg, 0, n);
    return UNLIKELY(call_is_watched(cx)) ? call_poll(cx) : RUSH_OK; /* fn may have broken off */
  }
  thread_pool *p = context_pool(cx->ctx);
  if (p && UNLIKELY(p->seen != forks_now()))
    pool_after_fork(p);
  if (pool_n_threads(p) <= 1 || atomic_exchange_explicit(&p->busy, true, memory_order_acquire))
    return run_inline(cx, n, grain, fn, arg);
  int n_threads = pool_n_threads(p); /* it may have changed */
  int64_t n_pieces = (n - 1) / grain + 1;
  int64_t per_chunk = i64_max(n_pieces / ((int64_t)n_threads * CHUNKS_PER_THREAD), 1);
  p->job = (job){fn, arg, cx, n, grain, per_chunk * grain, 0};
  p->job.n_chunks = (n - 1) / p->job.chunk + 1;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  atomic_store_explicit(&p->stopped, false, memory_order_relaxed);
  run_job(p);
  pool_unclaim(p);
  return call_is_watched(cx) ? call_poll(cx) : RUSH_OK;
}
