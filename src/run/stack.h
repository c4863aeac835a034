/* run/stack.h -- frames of one outer call, futures.
 *
 * Frames lie in chunks that never move: kernels keep pointers into the row of the frame that called
 * them while a composite runs frames above it.  The first chunk is the outermost call's own memory.
 *
 * Tasks.  fork queues a function with its arguments; it begins when it is first waited for, or when
 * the outer call returns, first in first out, on the calling thread.  Its frames are a run of the
 * stack:
 *
 *   | frames of the call | frames of task a | frames of task b | ...      b runs; a waits for b and
 *   is parked
 *
 * A wait parks the waiter where it stands and goes on in the same loop with the task, so tasks that
 * wait for tasks use no C stack; what waits only goes on when what it waits for is done, hence the
 * order of a stack.  A task counts its calls from where the loop that runs it was entered, and has
 * the grad mode of its fork; the waiter's come back with its result.  Parked tasks are limited
 * (tasks_limit), queued ones by memory. */
#ifndef RUSH_RUN_STACK_H
#define RUSH_RUN_STACK_H

#include "run/code_int.h"

typedef struct future future;
struct future {
  heap h; /* RUSH_TAG_FUTURE */
  const type *type;    /* Future[T] or Await[T]; retained */
  function *fn;        /* while pending: what to run */
  program *owner;      /* retained: keeps fn */
  rush_value *args;    /* while pending; owned */
  uint32_t n_args;
  uint8_t state;       /* FUTURE_* */
  bool grad_mode;      /* where it was forked */
  bool parked_grad_mode; /* while running: of who waits, as parked_depth */
  uint32_t parked_depth;
  rush_value result;
  rush_status status;  /* failed: with this */
  const char *error_type;
  rush_value message;  /* a string, shared by all tasks that failed with it; or None */
  struct call_stack *queue; /* while pending: where it waits for its turn */
  future *prev, *next;
};
enum { FUTURE_PENDING, FUTURE_RUNNING, FUTURE_DONE, FUTURE_FAILED };

typedef struct chunk {
  struct chunk *prev;
  size_t used, n_bytes; /* with this header */
} chunk;

typedef struct frame {
  const code *c;
  rush_value *regs;
  const ins *pc;       /* next instruction, or the one behind the call that is running */
  struct frame *prev;
  future *fut;         /* that gets the result; retained, or NULL */
  chunk *chunk;
  size_t used_before;  /* of the chunk */
  /* register of the caller (| DST_CHECKED: the result is compared with its type), or NO_REG; of a
   * loop's first frame: the depth of tasks that begin there, as the C stack is no deeper */
  uint32_t dst;
  uint64_t lent;       /* bit i: the register of argument i holds the caller's reference */
  uint32_t event;      /* in a profile */
  /* what it returns begins with this leaf of the outer call's result, + 1; 0: no leaf
   * (run/outputs.h) */
  uint32_t result;
} frame;

#define DST_CHECKED (UINT32_C(1) << 30)

static inline bool frame_is_lent(const frame *f, uint32_t reg)
{
  return f->lent && reg >= f->c->n_kregs && reg - f->c->n_kregs < 64 &&
         (f->lent >> (reg - f->c->n_kregs) & 1);
}

typedef struct entered { /* a context manager whose __exit__ is due when the frame fails */
  rush_value object;
  function *exit;
  const frame *frame;
  struct entered *outer;
} entered;

typedef struct call_stack {
  context *ctx;
  chunk *top;
  chunk *spare;        /* an empty one kept */
  frame *frame;        /* innermost */
  future *first, *last; /* forked and not yet started, in order; retained */
  uint32_t n_tasks;    /* running or parked */
  entered *entered;
  /* where a group failed that the innermost frame was running, or NULL */
  const source_range *group_place;
} call_stack;

/* Tasks that may wait for each other at once: a chain that does not end is told from a long one. */
static inline uint32_t tasks_limit(const call_ctx *cx)
{
  return cx->limit_depth < UINT32_MAX / 2048 ? cx->limit_depth * 2048 : UINT32_MAX;
}

#define FIRST_CHUNK_BYTES 7168 /* on the C stack, below docs/limits.md's 8 KB a frame */

void stack_init(call_stack *s, context *c, void *first, size_t n_bytes);
void stack_free(call_stack *s);
/* A frame for c: constants copied, the other registers None; the caller fills the arguments. */
rush_status stack_push(call_ctx *cx, call_stack *s, const code *c, frame **out) RUSH_CHECKED;
/* The innermost line of a function that is not built in; false: none. */
bool stack_place(call_ctx *cx, call_place *out);
/* Registers are empty. */
void stack_pop(call_ctx *cx, call_stack *s);
/* Frames from the innermost to `base` fail: traceback, registers released, futures failed. */
void stack_unwind(call_ctx *cx, call_stack *s, frame *base, rush_status st);

/* A task of type t (Future or Await); what its function will be called with is stolen. */
rush_status future_new_steal(call_ctx *cx, const type *t, function *fn, rush_value *args,
                             uint32_t n_args, future **out) RUSH_CHECKED;
void future_queue(call_stack *s, future *f); /* retains */
void future_unqueue(call_stack *s, future *f);
void future_finish(future *f, rush_value result); /* retains */
void future_fail(future *f, rush_status st, const char *type, rush_value message); /* retains */
/* Its frames are gone: who waited for it has depth and grad mode again. */
void future_leave(call_ctx *cx, call_stack *s, const future *f);
/* Raise what the future failed with. */
rush_status future_raise(call_ctx *cx, const future *f);
rush_status future_init(context *c, rush_error *err) RUSH_CHECKED; /* the kind's functions */

/* True unless v is an object of another class than `t`; interfaces are looked at when they are
 * called. */
static inline bool is_of_class(rush_value v, const type *t)
{
  return v.tag != RUSH_TAG_OBJECT || LIKELY(v.as.object->type == t) || t->kind != TYPE_CLASS ||
         type_equal(v.as.object->type, t);
}

/* Compare n_args arguments from outside with what c declares, as far as their tags tell. */
rush_status code_check_args(call_ctx *cx, const code *c, const rush_value *args) RUSH_CHECKED;
/* Call code that is a function's, or a group's; arguments are borrowed and complete. */
rush_status code_call(call_ctx *cx, const code *c, const rush_value *args,
                      rush_value *result) RUSH_CHECKED;
/* The results of a body, which come as one value, or several as a tuple.  Steals v. */
rush_status spread_results(call_ctx *cx, rush_value v, rush_value *results,
                           uint32_t n) RUSH_CHECKED;

/* Run until `base`, the innermost frame, returns.  *result is new. */
rush_status interp_run(call_ctx *cx, call_stack *s, frame *base, rush_value *result) RUSH_CHECKED;
/* Run what was forked and never waited for, in order.  Nobody waits, so their errors are dropped; a
 * limit that they exceed is the call's.  `ended` is how the call ended: after a limit nothing more
 * runs. */
rush_status interp_finish_tasks(call_ctx *cx, call_stack *s, rush_status ended) RUSH_CHECKED;

#endif
