/* base/context.h -- the context, the call context, and memory.
 *
 * A `context` owns the allocator, thread pool, limits and callbacks, and opaque slots for what
 * upper layers own (registry, generators, hooks), each filled by its layer and destroyed through
 * the function given.  Slots are filled once, under the context's lock, and read without it.
 *
 * A `call_ctx` is one outer call: where errors go, its deadline and byte limit, options.  It is
 * passed to everything that can fail at run time and never stored.
 *
 * Threads: a context is locked inside; a call_ctx belongs to one call (its pool workers may read
 * it). */
#ifndef RUSH_BASE_CONTEXT_H
#define RUSH_BASE_CONTEXT_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/macros.h"

typedef struct rush_context context;
typedef struct call_ctx call_ctx;
typedef struct thread_pool thread_pool;

/* -- Memory ------------------------------------------------------------------------------------ */

/* Every allocation of the library goes through the context's allocator.  mem_alloc(n) with n == 0
 * returns a pointer that mem_free takes.  NULL: no memory or over the context's byte limit.
 * Blocks are 16-byte aligned; mem_alloc_data's are 64-byte aligned, cached by size class and meant
 * for tensor data.  The freer says the size: no header is kept. */
void *mem_alloc(context *c, size_t n_bytes) RUSH_CHECKED;
void *mem_alloc_zero(context *c, size_t n_bytes) RUSH_CHECKED;
void *mem_realloc(context *c, void *p, size_t old_bytes, size_t new_bytes) RUSH_CHECKED;
void mem_free(context *c, void *p, size_t n_bytes);
void *mem_alloc_data(context *c, size_t n_bytes) RUSH_CHECKED;
void mem_free_data(context *c, void *p, size_t n_bytes);

/* Memory that comes from elsewhere (mapped pages) counts all the same.  false: over the limit. */
bool mem_count(context *c, size_t n_bytes) RUSH_CHECKED;
void mem_uncount(context *c, size_t n_bytes);

/* How often one of them returned NULL so far.  Lookups that have no status (operators, types) say
 * "not there" when there was no memory to build what they look for: whoever is about to report that
 * asks whether this moved. */
uint32_t mem_n_refused(const context *c);
/* Counts as such a refusal where another limit was met: while it is the newest one, call_nomem is
 * RUSH_ELIMIT and says `why` (static). */
void mem_refuse(context *c, const char *why);

typedef struct mem_allocator { /* the host's; NULL functions: malloc and free */
  void *(*alloc)(void *user, size_t n_bytes);
  void (*free)(void *user, void *p, size_t n_bytes);
  void *user;
} mem_allocator;

typedef struct mem_stats {
  size_t live_bytes, peak_bytes, cached_bytes; /* of data and everything else */
  size_t packed_bytes;             /* of live_bytes: what mem_count_packed was told */
  size_t limit_bytes;              /* 0: none */
  uint64_t n_allocs, n_data, n_hits; /* all; mem_alloc_data's; of those, from the cache */
} mem_stats;
void mem_get_stats(context *c, mem_stats *out);
void mem_reset_peak(context *c);
/* Give all cached blocks back. */
void mem_trim(context *c);
/* Derived data that hangs on storages came (n_bytes > 0) or went. */
void mem_count_packed(context *c, int64_t n_bytes);
/* The live bytes alone, cheaper: what is kept for reuse above the context counts as live. */
int64_t mem_live_bytes(context *c);
/* An upper layer keeps free blocks of its own (threads' lists of tensor headers): cached_bytes(c)
 * says how many bytes, which then count as cached and not as live.  Set once a context. */
void mem_set_cached(context *c, size_t (*cached_bytes)(context *c));

/* -- Context ----------------------------------------------------------------------------------- */

/* Slots for upper layers.  The number of slots is fixed: a layer has one. */
typedef enum context_slot {
  SLOT_REGISTRY,  /* ops: operators, lazily built schemas, operators from outside */
  SLOT_GENERATOR, /* tensor: the default random generator */
  SLOT_TYPES,     /* value: types made outside programs */
  SLOT_PROGRAM,   /* script: the built-in program that composites live in */
  SLOT_HOOKS,     /* ops: the profile */
  SLOT_SPECIAL,   /* call_mark_special was called */
  SLOT_CODE,      /* compile: memory that runs */
  SLOT_PASSES,    /* passes: the registered ones */
  SLOT_GRADIENTS, /* ops: the table's gradient formulas */
  SLOT_COMPILER,  /* compile: its counters */
  /* value_ops of kinds of values that layers above value/ define, published when the first is made.
   * */
  SLOT_KIND_TENSOR,
  SLOT_KIND_GENERATOR,
  SLOT_KIND_STORAGE,
  SLOT_KIND_FUTURE,
  SLOT_KIND_FUNCTION,
  N_CONTEXT_SLOTS
} context_slot;

typedef struct context_options {
  mem_allocator allocator;
  size_t limit_bytes;  /* 0: none */
  double limit_seconds; /* per outer call; 0: none */
  uint32_t limit_depth; /* recursion and nesting; 0: the default, 1000 */
  size_t stack_bytes; /* of the thread's stack that an outer call may use; 0: the default, 256 KB */
  int n_threads;       /* 0: as many as the machine has */
  void (*print)(void *user, const char *text, size_t len); /* prim::Print; NULL: stdout */
  void (*warn)(void *user, const char *text);              /* aten::warn; NULL: stderr */
  void *callback_user;
  uint32_t cpu;        /* base/cpu.h: CPU_NATIVE or a lower level */
  bool no_reuse;       /* refuse all buffer reuse (debugging) */
  bool no_cache;       /* free blocks go back to the allocator at once */
  bool no_passes;      /* graphs run as they are */
} context_options;

rush_status context_new(const context_options *opt, context **out, rush_error *err) RUSH_CHECKED;
context *context_retain(context *c);
void context_release(context *c);
/* Drop the reference that NULL stands for; the next use makes a new context. */
void context_release_default(void);
/* Borrowed; made at first use.  NULL only without memory.  `c` itself when not NULL. */
context *context_or_default(context *c);
const context_options *context_get_options(const context *c);
rush_status context_set_cpu(context *c, uint32_t level,
                            rush_error *err) RUSH_CHECKED; /* not while calls run */
thread_pool *context_pool(context *c);

/* The slot's object, or NULL while unfilled.  Lock-free. */
void *context_slot_get(context *c, context_slot slot);
/* Publish `object` unless the slot is filled already, in which case `object` is destroyed.  Steals.
 * Returns what the slot holds. */
void *context_slot_publish_steal(context *c, context_slot slot, void *object,
                                 void (*destroy)(context *c, void *object));

/* Around what is set up once for a context and takes more than one slot.  Recursive. */
void context_setup_begin(context *c);
void context_setup_end(context *c);

void context_print(context *c, const char *text, size_t len);
void context_warn(context *c, const char *text);

/* -- Call context ------------------------------------------------------------------------------ */

enum call_watch {
  CALL_SPECIAL = 1,  /* there may be quantized or nested tensors */
  CALL_PROFILED = 2, /* a profile records the call */
  CALL_RECORDED = 4  /* gradients are recorded, and something that requires one is about */
};

struct call_ctx {
  context *ctx;       /* borrowed */
  rush_error *err;    /* the caller's, may be NULL */
  _Atomic uint64_t deadline_ns; /* call_deadline */
  atomic_bool *cancel;  /* set from another thread, or NULL */
  uint32_t depth;       /* current recursion */
  uint32_t limit_depth;
  uintptr_t stack_entry; /* where the outermost call entered: the stack grows down from here */
  size_t stack_room;     /* bytes below stack_entry that may be used before call_enter_deep looks */
  bool grad_mode;     /* torch.is_grad_enabled() of this call */
  bool no_reuse;
  uint8_t watch;      /* CALL_*: what op_call has to look at besides; mostly 0 */
  uint32_t profile;   /* CALL_PROFILED: which (ops/call/profile.h) */
  uint32_t profile_depth,
    profile_thread;     /* its: events that are open; the thread's number + 1, or 0 */
  uint32_t profile_ops; /* of the open events, operators' */
  /* gradients are recorded (a call option; ops/call/call.h), or NULL */
  const struct call_recorder *recorder;
  void *frames;       /* run: the interpreter's stack of this call, or NULL */
  struct output_buffers *outputs; /* run: where its results go (run/outputs.h), or NULL */
  /* tensor: the call runs once for what it compiles (module/prepare.c): it draws from here, and
   * prints and warns nothing; or NULL */
  struct generator *trial;
  /* tensor: the next new tensor of its dtype and geometry lies on its memory; or NULL */
  struct rush_tensor *place;
};

/* Start an outer call with the context's limits. */
void call_ctx_init(call_ctx *cx, context *c, rush_error *err);
/* Calls that start from now on belong to profile `number`; 0: to none. */
void context_set_profile(context *c, uint32_t number);
/* From now on the context may have tensors that few operators know (quantized, nested). */
void call_mark_special(call_ctx *cx);
/* context_print and context_warn of what runs in a call, but for trials. */
static inline void call_print(const call_ctx *cx, const char *text, size_t len)
{
  if (!cx->trial)
    context_print(cx->ctx, text, len);
}
static inline void call_warn(const call_ctx *cx, const char *text)
{
  if (!cx->trial)
    context_warn(cx->ctx, text);
}
/* RUSH_OK, or RUSH_ELIMIT / RUSH_ECANCELLED with the error set.  Reads the clock: call it about
 * once a millisecond of work. */
rush_status call_poll(call_ctx *cx) RUSH_CHECKED;
/* When the call has to end: base/clock.h time, or UINT64_MAX.  Workers of the call read it while
 * its thread may end it. */
static inline uint64_t call_deadline(const call_ctx *cx)
{
  return atomic_load_explicit(&cx->deadline_ns, memory_order_relaxed);
}
static inline void call_set_deadline(call_ctx *cx, uint64_t ns)
{
  atomic_store_explicit(&cx->deadline_ns, ns, memory_order_relaxed);
}
/* Can it end before its work is done: has it a deadline, or can it be cancelled? */
static inline bool call_is_watched(const call_ctx *cx)
{
  return cx->cancel || call_deadline(cx) != UINT64_MAX;
}
static inline bool call_cancelled(const call_ctx *cx)
{
  return cx->cancel && atomic_load_explicit(cx->cancel, memory_order_relaxed);
}
/* call_poll without its error, for loops that cannot fail (and for workers): true when the deadline
 * has passed or the call was cancelled.  They break off, and who called them polls; op_call does
 * after every operator, so that a kernel may leave its results unfinished. */
bool call_over(const call_ctx *cx);
/* In a loop of cheap steps: a look once in POLL_STEPS of them. */
#define POLL_STEPS 4096
static inline rush_status call_poll_at(call_ctx *cx, int64_t step)
{
  return UNLIKELY((step & (POLL_STEPS - 1)) == POLL_STEPS - 1) ? call_poll(cx) : RUSH_OK;
}
static inline bool call_over_at(const call_ctx *cx, int64_t step)
{
  return UNLIKELY((step & (POLL_STEPS - 1)) == POLL_STEPS - 1) && call_over(cx);
}
/* The number that stands for a value where Python shows its address: *number, or the context's next
 * one, kept there. */
uint32_t context_number(context *c, _Atomic uint32_t *number);
/* Count a call of a group of nodes that ran operator by operator.  Calls of threads that run at
 * once may count as one. */
void context_count_interpreted(context *c);
uint64_t context_n_interpreted(const context *c);
/* Count a function whose code was made. */
void context_count_function(context *c);
uint64_t context_n_functions(const context *c);
/* Recursion is bounded by a count (limit_depth) and by bytes of stack, whichever is met first.
 *
 * The bytes are counted from the outermost entry (call_ctx_init).  At first STACK_UNMEASURED of
 * them are free, for asking the system what a thread has is slow (on the main thread, which has
 * megabytes, it is slower: STACK_UNMEASURED_MAIN); below that call_enter_deep asks once: the limit
 * becomes what the thread has left less STACK_RESERVE, at most context_options.stack_bytes less
 * STACK_RESERVE.  A stack that is not the thread's own (a fiber's) has no bounds that can be asked
 * for: there the option alone counts.  A call that goes on elsewhere (another thread, a fiber) than
 * it began is measured anew from there. */
#ifdef RUSH_SANITIZED /* frames are several times as large */
#define STACK_SCALE 4
#else
#define STACK_SCALE 1
#endif
#define STACK_DEFAULT \
  ((size_t)STACK_SCALE << 18) /* bytes: what an outer call may use unless the host says more */
/* A thread of 64 KB has to survive: what is used unmeasured and the reserve fit into it. */
#define STACK_UNMEASURED \
  ((size_t)STACK_SCALE * 24 * 1024) /* bytes that are used before the thread's are asked for */
#define STACK_UNMEASURED_MAIN ((size_t)1 << 16)
#define STACK_RESERVE \
  ((size_t)STACK_SCALE << 14) /* bytes left for what does not recurse: kernels, printf */
static inline bool call_stack_is_low(const call_ctx *cx)
{
  return cx->stack_entry - (uintptr_t)__builtin_frame_address(0) > cx->stack_room;
}
/* The slow part of call_enter: a limit is met, or the stack was not measured yet.  Does not count.
 * */
rush_status call_enter_deep(call_ctx *cx) RUSH_CHECKED;
/* One recursion deeper; RUSH_ELIMIT beyond limit_depth or the stack's limit.  call_leave after
 * success. */
RUSH_CHECKED static inline rush_status call_enter(call_ctx *cx)
{
  if (UNLIKELY(cx->depth >= cx->limit_depth || call_stack_is_low(cx)))
    TRY(call_enter_deep(cx));
  cx->depth++;
  return RUSH_OK;
}
static inline void call_leave(call_ctx *cx) { cx->depth--; }
/* What to say when mem_alloc returned NULL: RUSH_ENOMEM, or RUSH_ELIMIT with the numbers when it
 * was the context's limit that refused. */
rush_status call_nomem(call_ctx *cx);
/* The same for n_bytes. */
rush_status call_nomem_bytes(call_ctx *cx, size_t n_bytes);
/* RUSH_ERAISED as a RuntimeError: what an operator says when it refuses its arguments. */
rush_status call_fail(call_ctx *cx, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* The same with another Python class (static string). */
rush_status call_fail_type(call_ctx *cx, const char *type, const char *fmt, ...) RUSH_PRINTF(3, 4);
/* RUSH_EUNSUPPORTED. */
rush_status call_unsupported(call_ctx *cx, const char *fmt, ...) RUSH_PRINTF(2, 3);

#endif
