/* base/context.c -- contexts and call contexts: creation, the default context, slots of upper
 * layers, polling of deadlines and cancellation, stack limits, and the functions that fail a call.
 * Polling tests one flag and, with a deadline, reads the clock; the host's callback is called
 * rarely, since it may need the host's lock. Slots are destroyed from the newest layer down. */
#include "base/context.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/context_int.h"
#include "base/cpu.h"
#include "base/host.h"

#define DEFAULT_DEPTH 1000
/* A call begins a few frames above call_ctx_init, and its later frames may be above that one's. */
#define ENTRY_SLACK 4096

/* -- Context ----------------------------------------------------------------------------------- */

static rush_status check_cpu(uint32_t level, rush_error *err)
{
  return level > CPU_AVX512 ? error_set(err, RUSH_EARGUMENT, "unknown cpu level %u", level)
                            : RUSH_OK;
}

static rush_status check_options(const context_options *opt, rush_error *err)
{
  if (!opt->allocator.alloc != !opt->allocator.free)
    return error_set(err, RUSH_EARGUMENT, "an allocator needs both functions, alloc and free");
  if (opt->n_threads < 0)
    return error_set(err, RUSH_EARGUMENT, "n_threads must not be negative, got %d", opt->n_threads);
  if (!(opt->limit_seconds >= 0))
    return error_set(err, RUSH_EARGUMENT, "limit_seconds must not be negative, got %g",
                     opt->limit_seconds);
  if (opt->stack_bytes && opt->stack_bytes < 2 * STACK_RESERVE)
    return error_set(err, RUSH_EARGUMENT,
                     "stack_bytes must be 0 (the default) or at least %zu, got %zu",
                     2 * STACK_RESERVE, opt->stack_bytes);
  return check_cpu(opt->cpu, err);
}

rush_status context_new(const context_options *opt, context **out, rush_error *err)
{
  static const context_options defaults;
  if (!opt)
    opt = &defaults;
  TRY(check_options(opt, err));
  context *c = mem_raw_alloc_aligned(&opt->allocator, sizeof *c);
  if (!c)
    return error_nomem(err);
  memset(c, 0, sizeof *c);
  c->opt = *opt;
  context_set_plan_limits(c, (plan_limits){.n_exact = 1, .n_wide = 1});
  context_set_profiling(c, !opt->no_passes && !opt->no_profile);
  context_set_default_dtype(c, RUSH_FLOAT32);
  if (!c->opt.limit_depth)
    c->opt.limit_depth = DEFAULT_DEPTH;
  if (!c->opt.stack_bytes)
    c->opt.stack_bytes = STACK_DEFAULT;
  mem_init(c);
  atomic_init(&c->refs, 1);
  mutex_init(&c->lock);
  mutex_init_recursive(&c->setup_lock);
  mutex_init(&c->cache_lock);
  forks_begin();
  *out = c;
  return RUSH_OK;
}

context *context_retain(context *c)
{
  if (c)
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
  return c;
}

static void slot_clear(context *c, context_slot slot)
{
  void *object = atomic_exchange(&c->slots[slot], NULL);
  if (object && c->slot_destroy[slot])
    c->slot_destroy[slot](c, object);
}

void context_release(context *c)
{
  if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
    return;
  /* Newest layer first: an object in a slot may refer to lower layers.  The kinds of values are
   * last, because values are released until then. */
  static const context_slot first[] = {SLOT_HOOKS, SLOT_PROGRAM, SLOT_REGISTRY, SLOT_TYPES,
                                       SLOT_GENERATOR};
  for (size_t i = 0; i < COUNT_OF(first); i++)
    slot_clear(c, first[i]);
  for (int slot = 0; slot < N_CONTEXT_SLOTS; slot++)
    slot_clear(c, (context_slot)slot);
  pool_free(atomic_load(&c->pool));
  mem_trim(c);
  mutex_destroy(&c->lock);
  mutex_destroy(&c->setup_lock);
  mutex_destroy(&c->cache_lock);
  mem_allocator a = c->opt.allocator;
  mem_raw_free_aligned(&a, c, sizeof *c);
}

/* The default context and its lock: one of the library's three globals. */
static mutex default_lock = MUTEX_INIT;
static _Atomic(context *) default_context;

context *context_or_default(context *c)
{
  if (c)
    return c;
  c = atomic_load_explicit(&default_context, memory_order_acquire);
  if (c)
    return c;
  mutex_lock(&default_lock);
  c = atomic_load_explicit(&default_context, memory_order_relaxed);
  if (!c && context_new(NULL, &c, NULL) == RUSH_OK)
    atomic_store_explicit(&default_context, c, memory_order_release);
  mutex_unlock(&default_lock);
  return c;
}

void context_release_default(void)
{
  mutex_lock(&default_lock);
  context *c = atomic_exchange_explicit(&default_context, NULL, memory_order_acq_rel);
  mutex_unlock(&default_lock);
  context_release(c);
}

void context_setup_begin(context *c) { mutex_lock(&c->setup_lock); }
void context_setup_end(context *c) { mutex_unlock(&c->setup_lock); }

const context_options *context_get_options(const context *c) { return &c->opt; }

rush_status context_set_cpu(context *c, uint32_t level, rush_error *err)
{
  TRY(check_cpu(level, err));
  c->opt.cpu = level;
  return RUSH_OK;
}

void context_set_passes(context *c, bool wanted) { c->opt.no_passes = !wanted; }

thread_pool *context_pool(context *c)
{
  thread_pool *p = atomic_load_explicit(&c->pool, memory_order_acquire);
  if (p)
    return p;
  mutex_lock(&c->lock);
  p = atomic_load_explicit(&c->pool, memory_order_relaxed);
  if (!p) {
    p = pool_new(c, c->opt.n_threads);
    atomic_store_explicit(&c->pool, p, memory_order_release);
  }
  mutex_unlock(&c->lock);
  return p;
}

void *context_slot_get(context *c, context_slot slot)
{
  return atomic_load_explicit(&c->slots[slot], memory_order_acquire);
}

void *context_slot_publish_steal(context *c, context_slot slot, void *object,
                                 void (*destroy)(context *c, void *object))
{
  mutex_lock(&c->lock);
  void *held = atomic_load_explicit(&c->slots[slot], memory_order_relaxed);
  if (!held) {
    c->slot_destroy[slot] = destroy;
    atomic_store_explicit(&c->slots[slot], object, memory_order_release);
  }
  mutex_unlock(&c->lock);
  if (!held)
    return object;
  if (object && destroy)
    destroy(c, object);
  return held;
}

void context_print(context *c, const char *text, size_t len)
{
  if (c->opt.print)
    c->opt.print(c->opt.callback_user, text, len);
  else
    fwrite(text, 1, len, stdout);
}

void context_warn(context *c, const char *text)
{
  if (c->opt.warn)
    c->opt.warn(c->opt.callback_user, text);
  else
    fprintf(stderr, "%s\n", text);
}

/* -- Call context ------------------------------------------------------------------------------ */

/* The next time at which this thread calls the host's interrupt, and how often it polled.  Part of
 * the library's per-thread state. */
static _Thread_local struct {
  uint64_t at_ns; /* 0: not during the first LOOK_NS of the call */
  uint32_t polls;
} look __attribute__((tls_model("initial-exec")));

/* Set field by field: gcc clears a literal of this size with `rep stos`, which takes longer than a
 * small operator. */
void call_ctx_init(call_ctx *cx, context *c, rush_error *err)
{
  const size_t room = c->opt.stack_bytes - STACK_RESERVE;
  cx->ctx = c;
  cx->err = err;
  call_set_deadline(cx, UINT64_MAX);
  cx->cancel = NULL;
  cx->depth = 0;
  cx->limit_depth = c->opt.limit_depth;
  cx->stack_entry = (uintptr_t)__builtin_frame_address(0) + ENTRY_SLACK;
  cx->stack_room = room < STACK_UNMEASURED ? room : STACK_UNMEASURED;
  cx->grad_mode = true;
  cx->no_reuse = c->opt.no_reuse;
  cx->watch = context_slot_get(c, SLOT_SPECIAL) ? CALL_SPECIAL : 0;
  cx->default_dtype = atomic_load_explicit(&c->default_dtype, memory_order_relaxed);
  cx->profile = atomic_load_explicit(&c->profile, memory_order_relaxed);
  cx->profile_depth = cx->profile_thread = cx->profile_ops = 0;
  cx->recorder = NULL;
  cx->frames = NULL;
  cx->outputs = NULL;
  cx->place = NULL;
  cx->trial = NULL;
  if (UNLIKELY(cx->profile != 0))
    cx->watch |= CALL_PROFILED;
  if (UNLIKELY(cx->default_dtype != RUSH_FLOAT32))
    cx->watch |= CALL_OTHER_DTYPE;
  if (UNLIKELY(c->interrupt != NULL)) {
    call_set_deadline(cx, CALL_ASKS);
    look.at_ns = 0;
  }
  double seconds = c->opt.limit_seconds;
  if (seconds > 0 && seconds < 1e9)
    call_set_deadline(cx, clock_ns() + (uint64_t)(seconds * 1e9));
}

static void forget(context *c, void *object)
{
  (void)c;
  (void)object;
}

void context_set_profile(context *c, uint32_t number) { atomic_store(&c->profile, number); }

void call_mark_special(call_ctx *cx)
{
  static const char seen; /* only its address counts */
  if (!(cx->watch & CALL_SPECIAL))
    context_slot_publish_steal(cx->ctx, SLOT_SPECIAL, (void *)(uintptr_t)&seen, forget);
  cx->watch |= CALL_SPECIAL;
}

void context_set_interrupt(context *c, bool (*interrupt)(void *user), void *user)
{
  c->interrupt_user = user;
  c->interrupt = interrupt;
}

#define LOOK_POLLS \
  15 /* a look at the clock in 16 polls, which come once a millisecond where work is long */
#define LOOK_NS \
  UINT64_C(     \
    30000000) /* Ctrl-C is felt at once, and what asking costs (a lock of the host's) is not */

/* Call the host's interrupt, if it is time to, and end the call if it returns true. */
static void call_interrupt(const call_ctx *cx)
{
  if (++look.polls & LOOK_POLLS)
    return;
  const uint64_t now = clock_coarse_ns();
  if (now < look.at_ns)
    return;
  if (look.at_ns && cx->ctx->interrupt(cx->ctx->interrupt_user)) /* kernels have the call const */
    call_set_deadline((call_ctx *)(uintptr_t)cx, 0);
  look.at_ns = now + LOOK_NS;
}

static bool time_is_up(const call_ctx *cx)
{
  if (call_deadline(cx) == UINT64_MAX)
    return false;
  if (UNLIKELY(cx->ctx->interrupt != NULL))
    call_interrupt(cx);
  const uint64_t deadline = call_deadline(cx);
  return deadline < CALL_ASKS && clock_ns() >= deadline;
}

rush_status call_poll(call_ctx *cx)
{
  if (call_cancelled(cx))
    return error_set(cx->err, RUSH_ECANCELLED, "the call was cancelled");
  if (time_is_up(cx)) {
    if (call_deadline(cx) == 0)
      return error_set(cx->err, RUSH_ECANCELLED, "the call was interrupted");
    const double seconds = cx->ctx->opt.limit_seconds;
    if (seconds > 0)
      return error_set_limit(cx->err, RUSH_LIMIT_SECONDS, "TimeoutError",
                             "the call took longer than its limit of %g seconds", seconds);
    return error_set_limit(cx->err, RUSH_LIMIT_SECONDS, "TimeoutError",
                           "the call went past its deadline");
  }
  return RUSH_OK;
}

bool call_over(const call_ctx *cx)
{
  return call_cancelled(cx) || time_is_up(cx);
}

void context_count_interpreted(context *c)
{
  const uint64_t n = atomic_load_explicit(&c->n_interpreted, memory_order_relaxed);

  atomic_store_explicit(&c->n_interpreted, n + 1, memory_order_relaxed);
}

uint64_t context_n_interpreted(const context *c)
{
  return atomic_load_explicit(&c->n_interpreted, memory_order_relaxed);
}

void context_count_function(context *c)
{
  atomic_fetch_add_explicit(&c->n_functions, 1, memory_order_relaxed);
}
uint64_t context_n_functions(const context *c)
{
  return atomic_load_explicit(&c->n_functions, memory_order_relaxed);
}

void context_state_changed(context *c)
{
  atomic_fetch_add_explicit(&c->state_epoch, 1, memory_order_release);
}

void context_set_plan_limits(context *c, plan_limits l)
{
  atomic_store_explicit(&c->plan_limits,
                        (uint32_t)l.off << 16 | (uint32_t)l.n_exact << 8 | l.n_wide,
                        memory_order_relaxed);
}

plan_limits context_plan_limits(const context *c)
{
  const uint32_t l = atomic_load_explicit(&c->plan_limits, memory_order_relaxed);

  return (plan_limits){l >> 16 & 1, (uint8_t)(l >> 8), (uint8_t)l};
}

void context_set_default_dtype(context *c, int dtype)
{
  atomic_store_explicit(&c->default_dtype, (uint8_t)dtype, memory_order_relaxed);
}

int context_default_dtype(const context *c)
{
  return atomic_load_explicit(&c->default_dtype, memory_order_relaxed);
}

void context_set_subgraph_inlining(context *c, bool on)
{
  atomic_store_explicit(&c->keeps_subgraphs, !on, memory_order_relaxed);
}

bool context_inlines_subgraphs(const context *c)
{
  return !atomic_load_explicit(&c->keeps_subgraphs, memory_order_relaxed);
}

void context_set_profiling(context *c, bool on)
{
  atomic_store_explicit(&c->profiles, on, memory_order_relaxed);
}

bool context_profiles(const context *c)
{
  return atomic_load_explicit(&c->profiles, memory_order_relaxed);
}

void context_set_guard_failures(context *c, uint64_t seed, uint64_t nth)
{
  atomic_store(&c->guard_seed, seed);
  atomic_store(&c->guard_nth, nth);
  atomic_store(&c->n_guards, 0);
  atomic_store(&c->fails_guards, seed || nth);
}

bool context_fails_guards(const context *c)
{
  return atomic_load_explicit(&c->fails_guards, memory_order_relaxed);
}

bool context_fails_this_guard(context *c)
{
  const uint64_t k = 1 + atomic_fetch_add(&c->n_guards, 1), seed = atomic_load(&c->guard_seed);
  uint64_t h = (k + seed) * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

  h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  return k == atomic_load(&c->guard_nth) || (seed && (h ^ h >> 27) % 3 == 0);
}

uint64_t context_state_epoch(const context *c)
{
  return atomic_load_explicit(&c->state_epoch, memory_order_acquire);
}

uint64_t context_next_record(context *c)
{
  return atomic_fetch_add_explicit(&c->n_records, 1, memory_order_relaxed) + 1;
}

uint32_t context_number(context *c, _Atomic uint32_t *number)
{
  uint32_t had = atomic_load_explicit(number, memory_order_relaxed);

  while (had == 0) { /* 0 is skipped when the numbers wrap */
    uint32_t fresh = atomic_fetch_add_explicit(&c->n_numbers, 1, memory_order_relaxed) + 1;
    if (fresh && atomic_compare_exchange_strong_explicit(number, &had, fresh, memory_order_relaxed,
                                                         memory_order_relaxed))
      had = fresh;
  }
  return had;
}

/* Count the stack from `here` if the call now runs on another stack, and set the room below it. */
static void measure_stack(call_ctx *cx, uintptr_t here)
{
  uintptr_t low = 0, high = 0, entry = cx->stack_entry;
  const size_t most = cx->ctx->opt.stack_bytes;
  if (cx->stack_room == STACK_UNMEASURED && most - STACK_RESERVE >= STACK_UNMEASURED_MAIN &&
      entry - here <= STACK_UNMEASURED_MAIN && thread_is_main()) {
    cx->stack_room = STACK_UNMEASURED_MAIN;
    return;
  }
  const bool own = thread_stack(&low, &high) && here >= low && here < high;
  const bool moved = here > entry || (own ? entry >= high : (entry - here) / 4 > most);

  if (moved)
    entry = here;
  size_t left = own && entry - low < most ? entry - low : most;
  cx->stack_entry = entry;
  cx->stack_room = left > STACK_RESERVE ? left - STACK_RESERVE : 0;
}

rush_status call_enter_deep(call_ctx *cx)
{
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

  if (cx->depth >= cx->limit_depth)
    return error_set_limit(cx->err, RUSH_LIMIT_DEPTH, "RecursionError",
                          "maximum recursion depth exceeded: the limit is %u", cx->limit_depth);
  measure_stack(cx, here);
  if (cx->stack_entry - here > cx->stack_room)
    return error_set_limit(
      cx->err, RUSH_LIMIT_STACK, "RecursionError",
      "maximum recursion depth exceeded: the stack has room for %zu bytes below the outermost call "
      "(stack_bytes of the context's options, and what the thread has)",
      cx->stack_room);
  return RUSH_OK;
}

rush_status call_fail(call_ctx *cx, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  error_set_va(cx->err, RUSH_ERAISED, NULL, fmt, ap);
  va_end(ap);
  return RUSH_ERAISED;
}

rush_status call_fail_type(call_ctx *cx, const char *type, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  error_set_va(cx->err, RUSH_ERAISED, type, fmt, ap);
  va_end(ap);
  return RUSH_ERAISED;
}

rush_status call_unsupported(call_ctx *cx, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  error_set_va(cx->err, RUSH_EUNSUPPORTED, NULL, fmt, ap);
  va_end(ap);
  return RUSH_EUNSUPPORTED;
}
