/* run/future.c -- futures, the results of fork: creation, the queue of their call stack, completion
 * and failure (stack.h documents when a task runs). Pending futures are in a doubly linked list, so
 * that waiting for one removes it in O(1). A future keeps its arguments until it is finished, and
 * its error as text, because several waiters may raise it. */
#include "run/stack.h"

rush_status future_new_steal(call_ctx *cx, const type *t, function *fn, rush_value *args,
                             uint32_t n_args, future **out)
{
  future *f = mem_alloc_zero(cx->ctx, sizeof *f);
  rush_value *copy = f ? mem_alloc(cx->ctx, (n_args + 1) * sizeof *copy) : NULL;

  if (!copy) {
    if (f)
      mem_free(cx->ctx, f, sizeof *f);
    for (uint32_t i = 0; i < n_args; i++)
      value_release(args[i]);
    return call_nomem_bytes(cx, sizeof *f);
  }
  heap_init(&f->h, cx->ctx, RUSH_TAG_FUTURE);
  type_retain(t);
  f->type = t;
  f->fn = fn;
  f->owner = program_retain(fn->program);
  f->args = copy;
  f->n_args = n_args;
  f->grad_mode = cx->grad_mode;
  if (n_args)
    memcpy(copy, args, n_args * sizeof *copy);
  *out = f;
  return RUSH_OK;
}

static void drop_args(future *f)
{
  if (!f->args)
    return;
  for (uint32_t i = 0; i < f->n_args; i++)
    value_release(f->args[i]);
  mem_free(f->h.ctx, f->args, (f->n_args + 1) * sizeof *f->args);
  f->args = NULL;
}

static void future_destroy(void *p)
{
  future *f = p;

  drop_args(f);
  value_release(f->result);
  value_release(f->message);
  program *owner = f->owner;
  const type *t = f->type;
  mem_free(f->h.ctx, f, sizeof *f);
  program_release(owner);
  type_release(t);
}

static rush_status future_print(call_ctx *cx, text_buf *out, void *p)
{
  (void)cx;
  text_puts(out, ((future *)p)->type->kind == TYPE_AWAIT ? "<Await>" : "<Future>");
  return RUSH_OK;
}

static rush_status future_copy(call_ctx *cx, void *p, rush_value *out)
{
  (void)p;
  (void)out;
  return call_fail(cx, "a Future cannot be copied");
}

static rush_status future_equal(call_ctx *cx, void *a, void *b, bool *out)
{
  (void)cx;
  *out = a == b;
  return RUSH_OK;
}

static const type *future_type(const void *p) { return ((const future *)p)->type; }

static const value_ops future_ops = {future_destroy, future_print, future_copy,
                                     future_equal,   NULL,         future_type};

static void keep_future(context *c, void *object)
{
  (void)c;
  (void)object;
}

rush_status future_init(context *c, rush_error *err)
{
  if (context_slot_publish_steal(c, SLOT_KIND_FUTURE, (void *)(uintptr_t)&future_ops, keep_future))
    return RUSH_OK;
  return error_nomem(err);
}

void future_queue(call_stack *s, future *f)
{
  heap_retain(&f->h);
  f->queue = s;
  f->prev = s->last;
  f->next = NULL;
  *(s->last ? &s->last->next : &s->first) = f;
  s->last = f;
}

void future_unqueue(call_stack *s, future *f)
{
  if (f->queue != s)
    return;
  *(f->prev ? &f->prev->next : &s->first) = f->next;
  *(f->next ? &f->next->prev : &s->last) = f->prev;
  f->prev = f->next = NULL;
  f->queue = NULL;
  value_release(value_heap_steal(RUSH_TAG_FUTURE, f));
}

void future_finish(future *f, rush_value result)
{
  drop_args(f);
  f->result = value_retain(result);
  f->state = FUTURE_DONE;
}

void future_fail(future *f, rush_status st, const char *type, rush_value message)
{
  drop_args(f);
  f->state = FUTURE_FAILED;
  f->status = st;
  f->error_type = type;
  f->message = value_retain(message);
}

void future_leave(call_ctx *cx, call_stack *s, const future *f)
{
  cx->depth = f->parked_depth;
  cx->grad_mode = f->parked_grad_mode;
  s->n_tasks--;
}

rush_status future_raise(call_ctx *cx, const future *f)
{
  if (f->message.tag != RUSH_TAG_STRING)
    return error_set(cx->err, f->status, "a forked task failed");
  return error_set_type(cx->err, f->status, f->error_type, "%s", f->message.as.string->text);
}

rush_status future_done(call_ctx *cx, const type *t, rush_value result, rush_value *out)
{
  TRY(future_init(cx->ctx, cx->err));
  future *f = mem_alloc_zero(cx->ctx, sizeof *f);

  if (!f)
    return call_nomem_bytes(cx, sizeof *f);
  heap_init(&f->h, cx->ctx, RUSH_TAG_FUTURE);
  type_retain(t);
  f->type = t;
  future_finish(f, result);
  *out = value_heap_steal(RUSH_TAG_FUTURE, f);
  return RUSH_OK;
}

bool future_is_awaitable(rush_value v)
{
  return v.tag == RUSH_TAG_FUTURE && ((const future *)v.as.heap)->type->kind == TYPE_AWAIT;
}

rush_status future_result(call_ctx *cx, rush_value v, rush_value *out)
{
  const future *f = v.tag == RUSH_TAG_FUTURE ? v.as.heap : NULL;

  if (!f)
    return error_set_type(cx->err, RUSH_EARGUMENT, "TypeError", "this value is no Future");
  if (f->state == FUTURE_FAILED)
    return future_raise(cx, f);
  if (f->state != FUTURE_DONE)
    return call_fail(cx, "the task of this Future has not run");
  *out = value_retain(f->result);
  return RUSH_OK;
}
