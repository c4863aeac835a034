/* api/context.c -- contexts, limits, generators, memory statistics, profiles and cancellation of
 * rushlight.h. Each function resolves NULL to the default context, checks its arguments and calls
 * inward. Our own compiler is registered here, on first use of a context, through the same table
 * that plug-ins use, so that every call tests this table. */
#include "api/api_int.h"
#include "passes/passes.h"

#include <string.h>

#include "rushlight/script.h"

#include "base/cpu.h"
#include "base/host.h"
#include "base/threads.h"
#include "ops/call/profile.h"
#include "compile/compile.h"
#include "tensor/dtype.h"
#include "tensor/generator.h"

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)

const char *rush_version(void)
{
  return STRINGIFY(RUSH_VERSION_MAJOR) "." STRINGIFY(RUSH_VERSION_MINOR) "." STRINGIFY(
    RUSH_VERSION_PATCH);
}

/* Register Rushlight's own compiler, through the table that others use. */
static rush_status set_up_compiler(context *c, rush_error *err)
{
  context_setup_begin(c);
  rush_status st =
    compile_is_ready(c) ? RUSH_OK : compile_register(rush_backend(RUSH_BACKEND_ABI), c, err);
  context_setup_end(c);
  return st;
}

context *api_context(context *c, rush_error *err)
{
  if (LIKELY(c && compile_is_ready(c))) /* the compiler is set up last */
    return c;
  c = context_or_default(c);
  if (!c) {
    (void)error_nomem(err);
    return NULL;
  }
  if (run_init(c, err) != RUSH_OK)
    return NULL;
  return compile_is_ready(c) || set_up_compiler(c, err) == RUSH_OK ? c : NULL;
}

/* Begin a call without an error object. */
COLD static rush_status begin_silently(call_ctx *cx, context *c)
{
  rush_error local = RUSH_ERROR_INIT;
  rush_status st = api_begin(cx, c, &local);

  rush_error_clear(&local);
  cx->err = NULL;
  return st;
}

rush_status api_begin(call_ctx *cx, context *c, rush_error *err)
{
  if (UNLIKELY(!err))
    return begin_silently(cx, c);
  rush_error_clear(err);
  c = api_context(c, err);
  if (UNLIKELY(!c))
    return err->status;
  call_ctx_init(cx, c, err);
  return RUSH_OK;
}

rush_status rush_context_create(const rush_context_options *options, rush_context **out,
                                rush_error *err)
{
  rush_context_options o = RUSH_CONTEXT_OPTIONS_INIT;
  context *c;

  rush_error_clear(err);
  if (options)
    TRY(API_READ(err, rush_context_options, options, &o));
  context_options opt = {
      .allocator = {o.alloc, o.free, o.alloc_user},
      .limit_bytes = o.limit_bytes,
      .limit_seconds = o.limit_seconds,
      .limit_depth = o.limit_depth,
      .stack_bytes = o.stack_bytes,
      .n_threads = o.n_threads,
      .print = o.print,
      .warn = o.warn,
      .callback_user = o.callback_user,
      .cpu = (uint32_t)o.cpu,
      .no_reuse = o.no_reuse,
      .no_cache = o.no_cache,
      .plan_first = o.plan_first != 0,
      .perf_map = o.perf_map != 0,
  };
  opt.no_passes = o.executor == RUSH_EXECUTOR_SIMPLE;
  opt.no_profile = o.executor == RUSH_EXECUTOR_SPECIALISING;
  TRY(context_new(&opt, &c, err));
  if (!api_context(c, err)) {
    rush_status st = err ? err->status : RUSH_ENOMEM;
    context_release(c);
    return st;
  }
  *out = c;
  return RUSH_OK;
}

void rush_context_release(rush_context *c) { context_release(c); }
void rush_context_release_default(void) { context_release_default(); }

static uint8_t small_number(int n) { return (uint8_t)(n < 0 ? 0 : n > UINT8_MAX ? UINT8_MAX : n); }

void rush_context_set_plan_limits(rush_context *c, bool off, int n_exact, int n_wide)
{
  if ((c = context_or_default(c)) != NULL)
    context_set_plan_limits(c, (plan_limits){off, small_number(n_exact), small_number(n_wide)});
}

void rush_context_get_plan_limits(rush_context *c, bool *off, int *n_exact, int *n_wide)
{
  plan_limits l = {0};

  if ((c = context_or_default(c)) != NULL)
    l = context_plan_limits(c);
  *off = l.off;
  *n_exact = l.n_exact;
  *n_wide = l.n_wide;
}

bool rush_context_set_default_dtype(rush_context *c, rush_dtype dtype)
{
  if (dtype < 0 || dtype >= RUSH_N_DTYPES || !dtype_is_float(dtype) ||
      !(c = context_or_default(c)))
    return false;
  context_set_default_dtype(c, dtype);
  return true;
}

rush_dtype rush_context_get_default_dtype(rush_context *c)
{
  return (c = context_or_default(c)) ? (rush_dtype)context_default_dtype(c) : RUSH_FLOAT32;
}

bool rush_context_set_subgraph_inlining(rush_context *c, bool on)
{
  bool before = true;

  if ((c = context_or_default(c)) != NULL) {
    before = context_inlines_subgraphs(c);
    context_set_subgraph_inlining(c, on);
  }
  return before;
}

void rush_context_set_guard_failures(rush_context *c, uint64_t seed, uint64_t nth)
{
  if ((c = context_or_default(c)) != NULL)
    context_set_guard_failures(c, seed, nth);
}

void rush_context_set_threads(rush_context *c, int n_threads)
{
  thread_pool *p = (c = context_or_default(c)) ? context_pool(c) : NULL;

  if (p)
    pool_set_threads(p, n_threads < 1 ? 1 : n_threads);
}

int rush_context_get_threads(rush_context *c)
{
  c = context_or_default(c);
  return c ? pool_n_threads(context_pool(c)) : 1;
}

rush_status rush_context_set_cpu(rush_context *c, rush_cpu cpu, rush_error *err)
{
  rush_error_clear(err);
  c = context_or_default(c);
  return c ? context_set_cpu(c, (uint32_t)cpu, err) : error_nomem(err);
}

rush_cpu rush_context_get_cpu(rush_context *c)
{
  c = context_or_default(c);
  return (rush_cpu)cpu_choose(c ? context_get_options(c)->cpu : CPU_NATIVE);
}

rush_status rush_context_set_executor(rush_context *c, rush_executor executor, rush_error *err)
{
  rush_error_clear(err);
  if (!(c = context_or_default(c)))
    return error_nomem(err);
  if ((unsigned)executor > RUSH_EXECUTOR_PROFILING)
    return error_set(err, RUSH_EARGUMENT, "no executor has the number %d", (int)executor);
  context_set_passes(c, executor != RUSH_EXECUTOR_SIMPLE);
  context_set_profiling(c,
                        executor == RUSH_EXECUTOR_DEFAULT || executor == RUSH_EXECUTOR_PROFILING);
  return RUSH_OK;
}

rush_executor rush_context_get_executor(rush_context *c)
{
  c = context_or_default(c);
  return c && context_get_options(c)->no_passes ? RUSH_EXECUTOR_SIMPLE
         : c && !context_profiles(c)            ? RUSH_EXECUTOR_SPECIALISING
                                                : RUSH_EXECUTOR_PROFILING;
}

void rush_context_set_interrupt(rush_context *c, bool (*interrupt)(void *user), void *user)
{
  if ((c = context_or_default(c)) != NULL)
    context_set_interrupt(c, interrupt, user);
}

rush_status rush_context_set_limit_bytes(rush_context *c, size_t n_bytes, rush_error *err)
{
  rush_error_clear(err);
  if (!(c = context_or_default(c)))
    return error_nomem(err);
  if (!mem_set_limit(c, n_bytes))
    return error_set(err, RUSH_EARGUMENT,
                     "the context was made with a limit (limit_bytes of its options), which stays");
  return RUSH_OK;
}

void rush_context_set_pool(rush_context *c, int n_threads,
                           void (*run)(void *user, void (*fn)(void *arg, int i), void *arg, int n),
                           void *user)
{
  pool_host host = {n_threads, run, user};
  thread_pool *p = (c = context_or_default(c)) ? context_pool(c) : NULL;

  if (p)
    pool_set_host(p, run ? &host : NULL);
}

rush_status rush_context_add_passes(rush_context *c, const char *names, rush_error *err)
{
  return (c = context_or_default(c)) ? pass_add_named(c, names, err) : error_nomem(err);
}

rush_status rush_manual_seed(rush_context *c, uint64_t seed, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  generator *g = generator_default(cx.ctx);
  if (!g)
    return error_nomem(err);
  return generator_seed_safely(&cx, g, seed);
}

rush_status rush_generator_get_state(rush_context *c, void *state, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  generator *g = generator_default(cx.ctx);
  if (!g)
    return error_nomem(err);
  return generator_get_state_safely(&cx, g, state);
}

rush_status rush_generator_create(rush_context *c, const void *state, size_t n_bytes,
                                  rush_value *out, rush_error *err)
{
  call_ctx cx;
  generator *g;

  TRY(api_begin(&cx, c, err));
  TRY(generator_new(&cx, 0, &g));
  if (n_bytes == RUSH_GENERATOR_STATE_BYTES && generator_set_state(g, state)) {
    *out = value_heap_steal(RUSH_TAG_GENERATOR, g);
    return RUSH_OK;
  }
  value_release(value_heap_steal(RUSH_TAG_GENERATOR, g));
  return error_set(err, RUSH_EARGUMENT,
                   "expected a generator's state of %d bytes, not these %zu bytes",
                   RUSH_GENERATOR_STATE_BYTES, n_bytes);
}

bool rush_generator_value_state(rush_value v, void *state)
{
  if (v.tag != RUSH_TAG_GENERATOR)
    return false;
  generator *g = v.as.heap;
  call_ctx cx;
  call_ctx_init(&cx, g->h.ctx, NULL);
  return generator_get_state_safely(&cx, g, state) == RUSH_OK;
}

rush_status rush_generator_set_state(rush_context *c, const void *state, size_t n_bytes,
                                     rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  generator *g = generator_default(cx.ctx);
  if (!g)
    return error_nomem(err);
  bool ok = n_bytes == RUSH_GENERATOR_STATE_BYTES;
  if (ok)
    TRY(generator_set_state_safely(&cx, g, state, &ok));
  return ok ? RUSH_OK
            : error_set(err, RUSH_EARGUMENT,
                        "a generator state of %d bytes was expected, not these %zu",
                        RUSH_GENERATOR_STATE_BYTES, n_bytes);
}

void rush_memory_get(rush_context *c, rush_memory *out)
{
  mem_stats stats = {0};

  c = context_or_default(c);
  if (c)
    mem_get_stats(c, &stats);
  rush_memory all = {
      .live_bytes = stats.live_bytes,
      .peak_bytes = stats.peak_bytes,
      .cached_bytes = stats.cached_bytes,
      .packed_bytes = stats.packed_bytes,
      .limit_bytes = stats.limit_bytes,
      .n_allocs = stats.n_allocs,
      .n_data = stats.n_data,
      .n_cache_hits = stats.n_hits,
  };
  api_fill(out, &all, sizeof all);
}

void rush_memory_stats(rush_context *c, size_t *live_bytes, size_t *peak_bytes)
{
  rush_memory m = RUSH_MEMORY_INIT;

  rush_memory_get(c, &m);
  if (live_bytes)
    *live_bytes = m.live_bytes;
  if (peak_bytes)
    *peak_bytes = m.peak_bytes;
}

void rush_memory_trim(rush_context *c)
{
  c = context_or_default(c);
  if (c)
    mem_trim(c);
}

void rush_compile_stats(rush_context *c, rush_compile_counters *out)
{
  c = context_or_default(c);
  compile_counters n = c ? compile_get_counters(c) : (compile_counters){0};
  rush_compile_counters all = {sizeof all, n.groups,      n.plans,
                               n.calls,    n.interpreted, c ? context_n_functions(c) : 0};

  api_fill(out, &all, sizeof all);
}

void rush_memory_reset_peak(rush_context *c)
{
  c = context_or_default(c);
  if (c)
    mem_reset_peak(c);
}

rush_status rush_profile_start(rush_context *c, size_t max_events, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  return profile_start(cx.ctx, max_events, err);
}

void rush_profile_stop(rush_context *c)
{
  c = context_or_default(c);
  if (c)
    profile_stop(c);
}

size_t rush_profile_n_events(rush_context *c, uint64_t *n_dropped)
{
  uint64_t unasked;

  c = context_or_default(c);
  n_dropped = n_dropped ? n_dropped : &unasked;
  *n_dropped = 0;
  return c ? profile_count(c, n_dropped) : 0;
}

bool rush_profile_event_at(rush_context *c, size_t i, rush_profile_event *out)
{
  c = context_or_default(c);
  return c && profile_at(c, i, out);
}

rush_status rush_watch_start(rush_context *c, rush_watch_fn *fn, void *user, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (!fn)
    return error_set(err, RUSH_EARGUMENT, "a watch without a function");
  return profile_watch(cx.ctx, fn, user, err);
}

void rush_watch_stop(rush_context *c, rush_watch_fn *fn, void *user)
{
  c = context_or_default(c);
  if (c)
    profile_unwatch(c, fn, user);
}

/* The one definition of a cancellation flag: a refcount of one and the flag that call_ctx reads. */
struct rush_cancel {
  atomic_bool flag; /* first: call_ctx.cancel points here */
  context *ctx;
};

rush_cancel *rush_cancel_create(rush_context *c)
{
  c = api_context(c, NULL);
  rush_cancel *k = c ? mem_alloc_zero(c, sizeof(*k)) : NULL;
  if (k)
    k->ctx = c;
  return k;
}

void rush_cancel_request(rush_cancel *k) { atomic_store(&k->flag, true); }

void rush_cancel_release(rush_cancel *k)
{
  if (k)
    mem_free(k->ctx, k, sizeof(*k));
}
