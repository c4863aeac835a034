/* ops/kernels/work.h -- what one call of a kernel holds while it computes.
 *
 * Most kernels compute on contiguous memory in float32 or float64, whatever their arguments and
 * results look like.  A `work` holds what that takes: converted arguments, temporaries, and results
 * that are computed beside their memory.  It remembers the first failure, so that a kernel looks at
 * `st` once, before it computes:
 *
 *   work w = work_begin(c);
 *   const rush_tensor *x = work_input(&w, call_tensor(c, 0));
 *   rush_tensor *y = work_output(&w, 0, x->dtype);
 *   job j = {x->data, y->data};
 *   work_run(&w, n_rows, grain, rows, &j);
 *   return work_end(&w);
 *
 * After a failure the functions do nothing and return an empty tensor (never NULL) of
 * TENSOR_MAX_DIMS sizes of 0, whose data is NULL.  What they return belongs to the work until
 * work_end releases it. Rejected: an exit label per kernel that releases each tensor, which made
 * heads of kernels longer than their loops. */
#ifndef RUSH_OPS_WORK_H
#define RUSH_OPS_WORK_H

#include "base/isa.h"
#include "base/threads.h"
#include "ops/call/call.h"

#define WORK_MOST 24 /* tensors that one call may hold */

typedef struct work {
  rush_call *call; /* NULL: a part of one */
  call_ctx *cx;
  rush_status st; /* the first failure */
  int n;
  rush_tensor *made; /* where WORK_MAKE puts a tensor */
  struct { rush_tensor *t, *result; } held[WORK_MOST]; /* result: where t is copied to, or NULL */
} work;

static inline work work_begin(rush_call *c)
{
  work w;
  w.call = c;
  w.cx = c->cx;
  w.st = RUSH_OK;
  w.n = 0;
  return w;
}
/* Begin the work of a function that makes a tensor and has no call: work_end_with ends it. */
static inline work work_begin_part(call_ctx *cx)
{
  rush_call none = {.cx = cx};
  work w = work_begin(&none);
  w.call = NULL;
  return w;
}
/* Copy results to their memory and release everything.  Returns the first failure. */
rush_status work_end(work *w) RUSH_CHECKED;

/* The same for a part: *out is t, retained, unless something failed. */
rush_status work_end_with(work *w, rush_tensor *t, rush_tensor **out) RUSH_CHECKED;

/* Run `expr`, a status, unless something failed. */
#define WORK_DO(w, expr) ((w)->st = (w)->st == RUSH_OK ? (expr) : (w)->st)
/* Call parallel_for unless something failed. */
static inline void work_run(work *w, int64_t n, int64_t grain,
                            void (*loop)(void *arg, int64_t begin, int64_t end), void *arg)
{
  WORK_DO(w, parallel_for(w->cx, n, grain, loop, arg));
}

/* Hold t, which was made with the status st. */
rush_tensor *work_keep_steal(work *w, rush_tensor *t, rush_status st);
/* Hold the tensor that `expr` makes in &w->made. */
#define WORK_MAKE(w, expr) \
  ((w)->made = NULL, WORK_DO(w, expr), work_keep_steal(w, (w)->made, (w)->st))
/* Return t contiguous and as `dtype` (maybe t itself); NULL where t is. */
rush_tensor *work_rows(work *w, rush_tensor *t, int dtype);
/* Return t contiguous, 16-bit floats as float32; NULL where t is.  Refuses float8. */
rush_tensor *work_input(work *w, rush_tensor *t);
/* Make a contiguous tensor, uninitialised. */
rush_tensor *work_new(work *w, int dtype, int n_dims, const int64_t *sizes);
/* Call another operator of one tensor result and return it. */
rush_tensor *work_invoke(work *w, const char *name, const char *overload, const rush_value *args,
                         uint32_t n_args);
/* Make memory for n items of `item` bytes, zeros.  NULL after a failure. */
void *work_memory(work *w, int64_t n, size_t item);
/* Return result i as contiguous memory of `dtype`: its own, or a temporary that work_end copies. */
rush_tensor *work_output(work *w, uint32_t i, int dtype);
/* Make result i of t's elements, as `dtype`; where no shape rule made it. */
void work_return(work *w, uint32_t i, rush_tensor *t, int dtype);
/* Release t early, if it is held. */
void work_drop(work *w, const rush_tensor *t);

/* -- Arguments by name, where operators of one kernel differ in their places ------------------- */

/* The index of the argument whose name has the key (schema.h), or -1. */
int call_arg_of_key(const rush_call *c, uint64_t key);
/* The same by name, a literal; values are none where the operator has no such argument. */
#define call_arg(c, name) call_arg_of_key(c, name_key(name, sizeof(name) - 1))
#define call_named(c, name) call_value_at(c, call_arg(c, name))
static inline rush_value call_value_at(const rush_call *c, int i)
{
  return i < 0 ? value_none() : c->args[i];
}
static inline rush_tensor *value_tensor(rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR ? v.as.tensor : NULL; /* NULL: None or undefined */
}
static inline bool value_is_true(rush_value v) { return v.tag == RUSH_TAG_BOOL && v.as.b; }
static inline int64_t value_int_or(rush_value v, int64_t otherwise)
{
  return v.tag == RUSH_TAG_INT ? v.as.i : otherwise;
}
/* Dimension argument i, which a shape rule has checked, counted from the front. */
static inline int call_dim(const rush_call *c, uint32_t i, int n_dims)
{
  return (int)call_int(c, i) + (call_int(c, i) < 0 ? i64_max(n_dims, 1) : 0);
}
/* The int[n] called `name` as the last n of out[3]; where it is absent, None or empty, and for the
 * dimensions before, `otherwise`.  A shape rule has checked its length. */
void call_window_of_key(const rush_call *c, uint64_t key, int n, const int64_t *otherwise,
                        int64_t out[3]);
#define call_window(c, name, n, otherwise, out) \
  call_window_of_key(c, name_key(name, sizeof(name) - 1), n, otherwise, out)

/* The instruction set that kernels of a call are picked for. */
static inline cpu_level call_cpu(const call_ctx *cx)
{
  return cpu_choose(context_get_options(cx->ctx)->cpu);
}

#endif
