/* run/stack.h -- frames of one outer call, futures.
 *
 * Frames lie in chunks that never move: kernels keep pointers into the row of the frame that called
 * them while a composite runs frames above it.  The first chunk is the outermost call's own memory. */
#ifndef RUSH_RUN_STACK_H
#define RUSH_RUN_STACK_H

#include "run/code_int.h"

typedef struct future future;
struct future {
  heap h; /* RUSH_TAG_FUTURE */
  const type *elem;    /* of the result; borrowed from the function's program, or NULL */
  function *fn;        /* while pending: what to run */
  program *owner;      /* retained: keeps fn */
  rush_value *args;    /* while pending; owned */
  uint32_t n_args;
  uint8_t state;       /* FUTURE_* */
  rush_value result;
  rush_error error;
  future *next;        /* in the queue of its call */
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
  uint32_t dst;        /* register of the caller, or NO_REG */
  uint32_t event;      /* in a profile */
} frame;

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
  entered *entered;
  const source_range *group_place; /* where a group failed that the innermost frame was running, or NULL */
} call_stack;

#define FIRST_CHUNK_BYTES 8192

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

/* What a forked function will be called with, stolen. */
rush_status future_new_steal(call_ctx *cx, function *fn, rush_value *args, uint32_t n_args,
                             future **out) RUSH_CHECKED;
void future_queue(call_stack *s, future *f); /* retains */
void future_unqueue(call_stack *s, future *f);
void future_finish(future *f, rush_value result); /* retains */
void future_fail(future *f, rush_status st, const rush_error *err);
/* Raise what the future failed with. */
rush_status future_raise(call_ctx *cx, const future *f);
rush_status future_init(context *c, rush_error *err) RUSH_CHECKED; /* the kind's functions */

/* Call code that is a function's, or a group's; arguments are borrowed and complete. */
rush_status code_call(call_ctx *cx, const code *c, const rush_value *args, rush_value *result) RUSH_CHECKED;
/* The results of a body, which come as one value, or several as a tuple.  Steals v. */
rush_status spread_results(call_ctx *cx, rush_value v, rush_value *results, uint32_t n) RUSH_CHECKED;

/* Run until `base`, the innermost frame, returns.  *result is new. */
rush_status interp_run(call_ctx *cx, call_stack *s, frame *base, rush_value *result) RUSH_CHECKED;
/* Run what was forked and never waited for, in order.  Nobody waits, so their errors are dropped; a limit
 * that they exceed is the call's. */
rush_status interp_finish_tasks(call_ctx *cx, call_stack *s) RUSH_CHECKED;

#endif
