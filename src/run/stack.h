/* run/stack.h -- frames of one outer call, futures.
 *
 * Frames are in chunks that never move: kernels keep pointers into the row of the frame that called
 * them while a composite runs frames above it.  The first chunk is the outermost call's own memory.
 *
 * Tasks.  fork queues a function with its arguments; it starts when it is first waited for, or when
 * the outer call returns, first in first out, on the calling thread.  Its frames are a run of the
 * stack:
 *
 *   | frames of the call | frames of task a | frames of task b | ...      b runs; a waits for b and
 *   is parked
 *
 * A wait parks the waiting frames and continues in the same loop with the task, so tasks that wait
 * for tasks use no C stack; a waiter continues only when the task it waits for is done, hence the
 * order of a stack.  A task counts its calls from the entry of the loop that runs it, and has the
 * grad mode of its fork; the waiter's values are restored with its result.  Parked tasks are
 * limited (tasks_limit), queued ones by memory. */
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
  bool parked_grad_mode; /* while running: the waiter's, as parked_depth */
  uint32_t parked_depth;
  rush_value result;
  rush_status status;  /* of a failed task */
  const char *error_type;
  rush_value message;  /* a string, shared by all tasks that failed because of it; or None */
  struct call_stack *queue; /* while pending: the queue that contains it */
  future *prev, *next;
};
enum { FUTURE_PENDING, FUTURE_RUNNING, FUTURE_DONE, FUTURE_FAILED };

typedef struct chunk {
  struct chunk *prev;
  size_t used, n_bytes; /* including this header */
} chunk;

typedef struct frame {
  const code *c;
  rush_value *regs;
  const ins *pc;       /* next instruction, or the one after the running call */
  struct frame *prev;
  future *fut;         /* receives the result; retained, or NULL */
  chunk *chunk;
  size_t used_before;  /* of the chunk */
  /* register of the caller (| DST_CHECKED: the result is compared with its type), or NO_REG; in a
   * loop's first frame: the depth of tasks that start there, since the C stack is no deeper */
  uint32_t dst;
  uint64_t borrowed;   /* bit i: the register of argument i holds the caller's reference */
  uint32_t event;      /* number of its event in a profile */
  /* under a profile: the register of the innermost event of an inlined call, or NO_REG */
  uint32_t mark;
  /* its result begins with this leaf of the outer call's result, + 1; 0: no leaf (run/outputs.h) */
  uint32_t result;
} frame;

#define DST_CHECKED (UINT32_C(1) << 30)

static inline bool frame_is_borrowed(const frame *f, uint32_t reg)
{
  return f->borrowed && reg >= f->c->n_kregs && reg - f->c->n_kregs < 64 &&
         (f->borrowed >> (reg - f->c->n_kregs) & 1);
}

typedef struct entered { /* a context manager whose __exit__ must be called if the frame fails */
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
  /* position where the innermost frame's group failed, or NULL */
  const code_place *group_place;
} call_stack;

/* Return how many tasks may wait for each other at once: distinguishes an endless chain from a long
 * one. */
static inline uint32_t tasks_limit(const call_ctx *cx)
{
  return cx->limit_depth < UINT32_MAX / 2048 ? cx->limit_depth * 2048 : UINT32_MAX;
}

#define FIRST_CHUNK_BYTES 7168 /* on the C stack, below docs/limits.md's 8 KB per frame */

void stack_init(call_stack *s, context *c, void *first, size_t n_bytes);
void stack_free(call_stack *s);
/* Push a frame for c: constants are copied, the other registers are None; the caller fills the
 * arguments. */
rush_status stack_push(call_ctx *cx, call_stack *s, const code *c, frame **out) RUSH_CHECKED;
/* Find the innermost line of a function that is not built in; returns false if there is none. */
bool stack_place(call_ctx *cx, call_place *out);
/* Begin and end the profile's event of an inlined call; `reg` keeps it. */
void mark_begin(call_ctx *cx, frame *f, uint32_t reg, const ir_inlined *call);
void mark_end(call_ctx *cx, frame *f);
/* Pop the innermost frame, whose registers are empty. */
void stack_pop(call_ctx *cx, call_stack *s);
/* Fail the frames from the innermost to `base`: adds tracebacks, releases registers, fails
 * futures. */
void stack_unwind(call_ctx *cx, call_stack *s, frame *base, rush_status st);

/* Make a task of type t (Future or Await); steals the arguments of its function. */
rush_status future_new_steal(call_ctx *cx, const type *t, function *fn, rush_value *args,
                             uint32_t n_args, future **out) RUSH_CHECKED;
void future_queue(call_stack *s, future *f); /* retains */
void future_unqueue(call_stack *s, future *f);
void future_finish(future *f, rush_value result); /* retains */
void future_fail(future *f, rush_status st, const char *type, rush_value message); /* retains */
/* Restore the waiter's depth and grad mode after the task's frames are gone. */
void future_leave(call_ctx *cx, call_stack *s, const future *f);
/* Raise the error of a failed future. */
rush_status future_raise(call_ctx *cx, const future *f);
/* registers the kind's operations */
rush_status future_init(context *c, rush_error *err) RUSH_CHECKED;

/* True unless v is an object of another class than `t`; interfaces are checked when they are
 * called. */
static inline bool is_of_class(rush_value v, const type *t)
{
  return v.tag != RUSH_TAG_OBJECT || LIKELY(v.as.object->type == t) || t->kind != TYPE_CLASS ||
         type_equal(v.as.object->type, t);
}

/* Compare n_args arguments from outside with c's declared types, as far as their tags show. */
rush_status code_check_args(call_ctx *cx, const code *c, const rush_value *args) RUSH_CHECKED;
/* Call the code of a function or a group; arguments are borrowed and complete. */
rush_status code_call(call_ctx *cx, const code *c, const rush_value *args,
                      rush_value *result) RUSH_CHECKED;
/* Split the result of a body, one value or a tuple of several, into results.  Steals v. */
rush_status spread_results(call_ctx *cx, rush_value v, rush_value *results,
                           uint32_t n) RUSH_CHECKED;

/* Run until `base`, the innermost frame, returns.  *result is new. */
rush_status interp_run(call_ctx *cx, call_stack *s, frame *base, rush_value *result) RUSH_CHECKED;
/* Run forked tasks that were never waited for, in order.  Their errors are dropped, except that a
 * limit which they exceed ends the call.  `ended` is the call's own status: after a limit nothing
 * more runs. */
rush_status interp_finish_tasks(call_ctx *cx, call_stack *s, rush_status ended) RUSH_CHECKED;

#endif
