/* run/future.c -- what fork returns.
 *
 * A forked function runs when its future is first waited for, on top of the waiting frame, or when the
 * outer call returns; so nothing is ever suspended in the middle. */
#include "run/stack.h"

rush_status future_new_steal(call_ctx *cx, function *fn, rush_value *args, uint32_t n_args,
                             future **out)
{
  future *f = mem_alloc_zero(cx->ctx, sizeof *f);
  rush_value *copy = f ? mem_alloc(cx->ctx, (n_args + 1) * sizeof *copy) : NULL;

  if (!copy) {
    if (f)
      mem_free(cx->ctx, f, sizeof *f);
    for (uint32_t i = 0; i < n_args; i++)
      value_release(args[i]);
    return call_nomem(cx);
  }
  heap_init(&f->h, cx->ctx, RUSH_TAG_FUTURE);
  f->fn = fn;
  f->owner = program_retain(fn->program);
  f->args = copy;
  f->n_args = n_args;
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
  rush_error_clear(&f->error);
  program_release(f->owner);
  mem_free(f->h.ctx, f, sizeof *f);
}

static rush_status future_print(call_ctx *cx, text_buf *out, void *p)
{
  (void)cx;
  (void)p;
  text_puts(out, "<Future>");
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

static const value_ops future_ops = {future_destroy, future_print, future_copy, future_equal};

static void keep(context *c, void *object)
{
  (void)c;
  (void)object;
}

rush_status future_init(context *c, rush_error *err)
{
  if (context_slot_publish_steal(c, SLOT_KIND_FUTURE, (void *)(uintptr_t)&future_ops, keep))
    return RUSH_OK;
  return error_nomem(err);
}

void future_queue(call_stack *s, future *f)
{
  heap_retain(&f->h);
  f->next = NULL;
  if (s->last)
    s->last->next = f;
  else
    s->first = f;
  s->last = f;
}

void future_unqueue(call_stack *s, future *f)
{
  future *prev = NULL;

  for (future *q = s->first; q; prev = q, q = q->next) {
    if (q != f)
      continue;
    if (prev)
      prev->next = q->next;
    else
      s->first = q->next;
    if (s->last == q)
      s->last = prev;
    q->next = NULL;
    value_release(value_heap_steal(RUSH_TAG_FUTURE, q));
    return;
  }
}

void future_finish(future *f, rush_value result)
{
  drop_args(f);
  f->result = value_retain(result);
  f->state = FUTURE_DONE;
}

void future_fail(future *f, rush_status st, const rush_error *err)
{
  drop_args(f);
  f->state = FUTURE_FAILED;
  if (err && err->message)
    error_set_type(&f->error, st, err->type, "%s", err->message);
  else
    error_set(&f->error, st, "a forked task failed");
}

rush_status future_raise(call_ctx *cx, const future *f)
{
  return error_set_type(cx->err, f->error.status, f->error.type, "%s",
                        f->error.message ? f->error.message : "a forked task failed");
}
