/* base/context.h -- the context, the call context, and memory.
 *
 * A `context` owns the allocator, thread pool, limits and callbacks, and opaque slots for objects
 * of upper layers (registry, generators, hooks), each filled by its layer and destroyed through the
 * function registered with it.  Slots are filled once, under the context's lock, and read without
 * it.
 *
 * A `call_ctx` is one outer call: its error, deadline, byte limit and options.  It is passed to
 * every function that can fail at run time and is never stored.
 *
 * Threads: a context is locked internally; a call_ctx belongs to one call (its pool workers may
 * read it). */
#ifndef RUSH_BASE_CONTEXT_H
#define RUSH_BASE_CONTEXT_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/macros.h"

typedef struct rush_context context;
typedef struct call_ctx call_ctx;
typedef struct thread_pool thread_pool;

/* -- Memory ------------------------------------------------------------------------------------ */

/* Every allocation of the library uses the context's allocator.  mem_alloc(n) with n == 0 returns a
 * pointer that mem_free accepts.  NULL: memory ran out, or the context's byte limit is reached.
 * Blocks are 16-byte aligned; those of mem_alloc_data are 64-byte aligned, cached by size class and
 * meant for tensor data.  mem_free is passed the size: blocks have no header. */
void *mem_alloc(context *c, size_t n_bytes) RUSH_CHECKED;
void *mem_alloc_zero(context *c, size_t n_bytes) RUSH_CHECKED;
void *mem_realloc(context *c, void *p, size_t old_bytes, size_t new_bytes) RUSH_CHECKED;
void mem_free(context *c, void *p, size_t n_bytes);
void *mem_alloc_data(context *c, size_t n_bytes) RUSH_CHECKED;
void mem_free_data(context *c, void *p, size_t n_bytes);

/* Count memory that the allocator does not provide (mapped pages).  Returns false if over the
 * limit. */
bool mem_count(context *c, size_t n_bytes) RUSH_CHECKED;
void mem_uncount(context *c, size_t n_bytes);

/* Return how often one of these functions has returned NULL.  Lookups without a status (operators,
 * types) return "not found" if memory ran out while they built the result: before reporting such an
 * error, compare this count with its value before the lookup. */
uint32_t mem_n_refused(const context *c);
/* Count a refusal because of another limit: while it is the newest refusal, call_nomem returns
 * RUSH_ELIMIT with the message `why` (static). */
void mem_refuse(context *c, const char *why);

typedef struct mem_allocator { /* of the host; NULL functions: malloc and free */
  void *(*alloc)(void *user, size_t n_bytes);
  void (*free)(void *user, void *p, size_t n_bytes);
  void *user;
} mem_allocator;

typedef struct mem_stats {
  size_t live_bytes, peak_bytes, cached_bytes; /* of all memory, tensor data included */
  size_t packed_bytes;             /* part of live_bytes: the sum passed to mem_count_packed */
  size_t limit_bytes;              /* 0: none */
  uint64_t n_allocs, n_data, n_hits; /* all; by mem_alloc_data; those found in the cache */
} mem_stats;
void mem_get_stats(context *c, mem_stats *out);
void mem_reset_peak(context *c);
/* Return all cached blocks to the system. */
void mem_trim(context *c);
/* Count packed data attached to storages: n_bytes more, or less if negative. */
void mem_count_packed(context *c, int64_t n_bytes);
/* Return the live bytes only, which is cheaper; blocks that upper layers keep for reuse count as
 * live. */
int64_t mem_live_bytes(context *c);
/* Set a function that returns the bytes of free blocks that an upper layer keeps (the threads'
 * lists of tensor headers); they are then counted as cached and not as live.  Call it once per
 * context. */
void mem_set_cached(context *c, size_t (*cached_bytes)(context *c));

/* -- Context ----------------------------------------------------------------------------------- */

/* Slots for upper layers.  The number of slots is fixed; each layer has its own. */
typedef enum context_slot {
  SLOT_REGISTRY,  /* ops: operators, lazily built schemas, registered operators */
  SLOT_GENERATOR, /* tensor: the default random generator */
  SLOT_TYPES,     /* value: types made outside programs */
  SLOT_PROGRAM,   /* script: the built-in program that contains composites */
  SLOT_HOOKS,     /* ops: the profile */
  SLOT_SPECIAL,   /* set by call_mark_special */
  SLOT_CODE,      /* compile: executable memory */
  SLOT_PASSES,    /* passes: the registered ones */
  SLOT_GRADIENTS, /* ops: the table's gradient formulas */
  SLOT_COMPILER,  /* compile: its counters */
  /* value_ops for kinds of values that layers above value/ define, published when the first such
   * value is made. */
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
  size_t stack_bytes; /* bytes of the thread's stack for an outer call; 0: the default, 256 KB */
  int n_threads;       /* 0: one per processor */
  void (*print)(void *user, const char *text, size_t len); /* prim::Print; NULL: stdout */
  void (*warn)(void *user, const char *text);              /* aten::warn; NULL: stderr */
  void *callback_user;
  uint32_t cpu;        /* base/cpu.h: CPU_NATIVE or a lower level */
  bool no_reuse;       /* refuse all buffer reuse (debugging) */
  bool no_cache;       /* return free blocks to the allocator at once */
  bool no_passes;      /* run graphs as they are */
  bool plan_first;     /* make plans at the first call */
  bool perf_map;       /* name compiled code for perf */
  bool no_profile;     /* plans assume only what is known when a call begins: no guards */
} context_options;

rush_status context_new(const context_options *opt, context **out, rush_error *err) RUSH_CHECKED;
context *context_retain(context *c);
void context_release(context *c);
/* Drop the default context's reference to itself; the next use makes a new context. */
void context_release_default(void);
/* Return c, or the default context if c is NULL; it is made at first use.  Borrowed.  NULL only if
 * memory ran out. */
context *context_or_default(context *c);
const context_options *context_get_options(const context *c);
rush_status context_set_cpu(context *c, uint32_t level,
                            rush_error *err) RUSH_CHECKED; /* do not call while calls run */
void context_set_passes(context *c, bool wanted); /* do not call while calls run */
thread_pool *context_pool(context *c);

/* Return the slot's object, or NULL while it is empty.  Lock-free. */
void *context_slot_get(context *c, context_slot slot);
/* Publish `object` in an empty slot; if the slot is already filled, destroy `object`.  Steals.
 * Returns the slot's object. */
void *context_slot_publish_steal(context *c, context_slot slot, void *object,
                                 void (*destroy)(context *c, void *object));

/* Begin and end a setup of the context that fills more than one slot.  Recursive. */
void context_setup_begin(context *c);
void context_setup_end(context *c);

void context_print(context *c, const char *text, size_t len);
void context_warn(context *c, const char *text);

/* -- Call context ------------------------------------------------------------------------------ */

enum call_watch {
  CALL_SPECIAL = 1,  /* there may be quantized or nested tensors in the context */
  CALL_PROFILED = 2, /* a profile records this call */
  CALL_RECORDED = 4, /* gradients are recorded, and a tensor that requires grad exists */
  /* default_dtype is not float32, which plans and instances (ops/call/instance.h) rely on */
  CALL_OTHER_DTYPE = 8
};

struct call_ctx {
  context *ctx;       /* borrowed */
  rush_error *err;    /* owned by the caller, may be NULL */
  _Atomic uint64_t deadline_ns; /* see call_deadline */
  atomic_bool *cancel;  /* set from another thread, or NULL */
  uint32_t depth;       /* current recursion depth */
  uint32_t limit_depth;
  /* stack address where the outermost call entered; the stack grows down from here */
  uintptr_t stack_entry;
  size_t stack_room; /* bytes below stack_entry that may be used before call_enter_deep is called */
  bool grad_mode;     /* torch.is_grad_enabled() of this call */
  bool no_reuse;
  uint8_t watch;      /* CALL_*: additional checks for op_call; mostly 0 */
  uint8_t default_dtype; /* of context_set_default_dtype when the call started */
  uint32_t profile;   /* CALL_PROFILED: the profile's number (ops/call/profile.h) */
  uint32_t profile_depth,
    profile_thread;     /* for the profile: number of open events; the thread's number + 1, or 0 */
  uint32_t profile_ops; /* number of operators among the open events */
  /* set if gradients are recorded (a call option; ops/call/call.h), or NULL */
  const struct call_recorder *recorder;
  void *frames;       /* run: the interpreter's stack of this call, or NULL */
  struct output_buffers *outputs; /* run: destinations of its results (run/outputs.h), or NULL */
  /* tensor: set if the call runs only to compile everything it needs (archive/prepare.c): it uses
   * this generator, and prints and warns nothing; or NULL */
  struct generator *trial;
  /* tensor: the next new tensor of the same dtype and geometry uses this one's memory; or NULL */
  struct rush_tensor *place;
};

/* Begin an outer call with the context's limits. */
void call_ctx_init(call_ctx *cx, context *c, rush_error *err);
/* Set the profile for calls that start from now on; 0: none. */
void context_set_profile(context *c, uint32_t number);
/* Record that the context may have quantized or nested tensors from now on, which few operators
 * support. */
void call_mark_special(call_ctx *cx);
/* Print or warn during a call, except during trials. */
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
/* Check deadline and cancellation.  Returns RUSH_OK, or RUSH_ELIMIT or RUSH_ECANCELLED with the
 * error set.  Reads the clock: call it about once per millisecond of work. */
rush_status call_poll(call_ctx *cx) RUSH_CHECKED;
/* Return the time at which the call must end (base/clock.h), or UINT64_MAX.  Workers of the call
 * read it while the call's thread may change it. */
static inline uint64_t call_deadline(const call_ctx *cx)
{
  return atomic_load_explicit(&cx->deadline_ns, memory_order_relaxed);
}
static inline void call_set_deadline(call_ctx *cx, uint64_t ns)
{
  atomic_store_explicit(&cx->deadline_ns, ns, memory_order_relaxed);
}
/* True if the call can end before its work is done: it has a deadline or can be cancelled. */
static inline bool call_is_watched(const call_ctx *cx)
{
  return cx->cancel || call_deadline(cx) != UINT64_MAX;
}
static inline bool call_cancelled(const call_ctx *cx)
{
  return cx->cancel && atomic_load_explicit(cx->cancel, memory_order_relaxed);
}
/* Like call_poll, without setting an error, for loops that cannot fail (and for workers): true if
 * the deadline has passed or the call was cancelled.  The loop stops early; its caller then polls.
 * op_call polls after every operator, so a kernel may leave its results unfinished. */
bool call_over(const call_ctx *cx);
/* Poll in a loop of cheap steps: once in POLL_STEPS of them. */
#define POLL_STEPS 4096
static inline rush_status call_poll_at(call_ctx *cx, int64_t step)
{
  return UNLIKELY((step & (POLL_STEPS - 1)) == POLL_STEPS - 1) ? call_poll(cx) : RUSH_OK;
}
static inline bool call_over_at(const call_ctx *cx, int64_t step)
{
  return UNLIKELY((step & (POLL_STEPS - 1)) == POLL_STEPS - 1) && call_over(cx);
}
/* Return the number that replaces a value's address where Python prints one: *number, or the
 * context's next number, which is stored there. */
uint32_t context_number(context *c, _Atomic uint32_t *number);
/* Count a call of a group of nodes that ran operator by operator.  Simultaneous calls may count as
 * one. */
void context_count_interpreted(context *c);
uint64_t context_n_interpreted(const context *c);
/* Count a function that was compiled. */
void context_count_function(context *c);
uint64_t context_n_functions(const context *c);
/* Plans (run/executor.h) rely on what they read of modules' state.  The epoch moves with every
 * write to an attribute of an object that a plan has read, and with every change of a tensor's
 * sizes or strides in place: then plans look again. */
void context_state_changed(context *c);
/* Choose how plans are made from now on: not at all, or at most `n_exact` for the sizes of one kind
 * of arguments (their dtypes and ranks), and then `n_wide` that leave sizes open. */
typedef struct plan_limits {
  bool off;
  uint8_t n_exact, n_wide;
} plan_limits;
void context_set_plan_limits(context *c, plan_limits l);
plan_limits context_plan_limits(const context *c);
/* Set the dtype of tensors that are made of floats, of integers that become floats, and where none
 * is given, for calls that start from now on: a float one, at first RUSH_FLOAT32. */
void context_set_default_dtype(context *c, int dtype);
int context_default_dtype(const context *c);
/* Set, from now on, if single operators of plans stay single records
 * (passes/autodiff_subgraphs.c). */
void context_set_subgraph_inlining(context *c, bool on);
bool context_inlines_subgraphs(const context *c);
uint64_t context_state_epoch(const context *c);
/* Set, from now on, if first calls record facts for guards (run/points.h). */
void context_set_profiling(context *c, bool on);
bool context_profiles(const context *c);
/* For tests: fail guards although they hold, about every third by random numbers of `seed`, or the
 * one that is checked nth from now on; 0 and 0: none.  While one is set, guards are put behind
 * every node (run/points.h). */
void context_set_guard_failures(context *c, uint64_t seed, uint64_t nth);
/* True if guards fail on purpose. */
bool context_fails_guards(const context *c);
/* Count a guard that holds while context_fails_guards; true: it has to fail. */
bool context_fails_this_guard(context *c);
/* Return the number of a new gradient record: they are ordered by it. */
uint64_t context_next_record(context *c);
/* Limits on recursion: a count (limit_depth) and bytes of stack, whichever is reached first.
 *
 * Bytes are counted from the outermost entry (call_ctx_init).  The first STACK_UNMEASURED of them
 * are not checked, because querying a thread's stack is slow (slower still on the main thread,
 * which has megabytes: STACK_UNMEASURED_MAIN).  Beyond that, call_enter_deep queries once: the
 * limit becomes the thread's remaining stack less STACK_RESERVE, and at most
 * context_options.stack_bytes less STACK_RESERVE.  The bounds of a stack that is not the thread's
 * own (a fiber's) cannot be found; only the option limits it.  If a call continues on another stack
 * (another thread, a fiber), the limit is measured again from there. */
#ifdef RUSH_SANITIZED /* frames are several times as large */
#define STACK_SCALE 4
#else
#define STACK_SCALE 1
#endif
#define STACK_DEFAULT \
  ((size_t)STACK_SCALE << 18) /* default stack bytes of an outer call */
/* These and the reserve must fit into a thread's stack of 64 KB. */
#define STACK_UNMEASURED \
  ((size_t)STACK_SCALE * 24 * 1024) /* bytes that are used before the thread's stack is measured */
#define STACK_UNMEASURED_MAIN ((size_t)1 << 16)
#define STACK_RESERVE \
  ((size_t)STACK_SCALE << 14) /* bytes kept for code that does not recurse: kernels, printf */
static inline bool call_stack_is_low(const call_ctx *cx)
{
  return cx->stack_entry - (uintptr_t)__builtin_frame_address(0) > cx->stack_room;
}
/* Check the limits, measuring the stack if necessary: the slow part of call_enter.  Does not
 * count. */
rush_status call_enter_deep(call_ctx *cx) RUSH_CHECKED;
/* Enter one level of recursion; fails with RUSH_ELIMIT beyond limit_depth or the stack's limit.
 * After success, call call_leave. */
RUSH_CHECKED static inline rush_status call_enter(call_ctx *cx)
{
  if (UNLIKELY(cx->depth >= cx->limit_depth || call_stack_is_low(cx)))
    TRY(call_enter_deep(cx));
  cx->depth++;
  return RUSH_OK;
}
static inline void call_leave(call_ctx *cx) { cx->depth--; }
/* Set the error after mem_alloc returned NULL: RUSH_ENOMEM, or RUSH_ELIMIT with the numbers if the
 * context's limit was the reason.  Returns the status. */
rush_status call_nomem(call_ctx *cx);
/* Like call_nomem, for an allocation of n_bytes. */
rush_status call_nomem_bytes(call_ctx *cx, size_t n_bytes);
/* Fail with RUSH_ERAISED, a RuntimeError: for operators that refuse their arguments. */
rush_status call_fail(call_ctx *cx, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Like call_fail, with another Python class (a static string). */
rush_status call_fail_type(call_ctx *cx, const char *type, const char *fmt, ...) RUSH_PRINTF(3, 4);
/* Fail with RUSH_EUNSUPPORTED. */
rush_status call_unsupported(call_ctx *cx, const char *fmt, ...) RUSH_PRINTF(2, 3);

#endif
