/* run/interp.c -- the dispatch loop.
 *
 * Calls push a frame and continue in the same loop; only operators whose bodies are programs enter
 * it again.  The state of the innermost frame (pc, registers) is in locals and is saved before
 * anything that may read it: a call, a failure. */
#include "run/points.h"
#include "base/integer.h"

#define POLL_EVERY 256 /* rounds of loops and calls between looks at the clock */

/* -- Calls ------------------------------------------------------------------------------------- */

/* True if the arguments from n_given on may be None. */
COLD static bool takes_missing(const code *c, uint32_t n_given)
{
  for (uint32_t i = n_given; i < c->n_args; i++)
    if (!want_takes(c->arg_wants[i], RUSH_TAG_NONE))
      return false;
  return n_given <= c->n_args;
}

/* Push the callee's frame, with the operands as arguments; missing ones (of __exit__) are None. */
static rush_status push_call(call_ctx *cx, call_stack *s, frame *caller, const site *st,
                             function *fn, frame **out)
{
  const uint32_t *o = operands(caller, st);
  const code *c;
  frame *f;

  TRY(code_of(cx, fn, &c));
  if (UNLIKELY(c->n_args != st->n_args) && !takes_missing(c, st->n_args))
    return call_fail(cx, "%s takes %u arguments, not %u", c->name, c->n_args, st->n_args);
  TRY(stack_push(cx, s, c, &f));
  for (uint32_t i = 0; i < st->n_args; i++)
    f->regs[c->n_kregs + i] = take(caller, o[i]);
  f->dst = st->n_results ? o[st->n_args] : NO_REG;
  *out = f;
  return RUSH_OK;
}

/* Fail for an attribute that __init__ read before writing it, or whose value does not have its
 * type. */
COLD static rush_status fail_slot(call_ctx *cx, const rush_object *o, uint32_t slot)
{
  if (o->slots[slot].tag == RUSH_TAG_UNSET)
    return call_fail(cx, "attribute '%s' of %s was not set", o->type->cls->attrs[slot].name,
                     o->type->name);
  return fail_type(cx, "attribute", o->type->cls->attrs[slot].name);
}

static rush_status fail_meta(call_ctx *cx, const rush_object *o, uint32_t slot)
{
  return call_fail(cx, "attribute '%s' of %s is on the device meta: it has no data",
                   o->type->cls->attrs[slot].name, o->type->name);
}

/* Set the check of a frame's result against the type of its register. */
static void check_result(frame *f)
{
  if (f->dst != NO_REG)
    f->dst |= DST_CHECKED;
}

static rush_status push_direct(call_ctx *cx, call_stack *s, frame *caller, const site *st,
                               frame **out)
{
  return push_call(cx, s, caller, st, st->function, out);
}

/* Push a call whose result is a leaf of the outer call's result. */
static rush_status push_output(call_ctx *cx, call_stack *s, frame *caller, const site *st,
                               frame **out)
{
  TRY(push_call(cx, s, caller, st, st->function, out));
  (*out)->result = caller->result ? caller->result + st->leaf : 0;
  return RUSH_OK;
}

static rush_status push_interface(call_ctx *cx, call_stack *s, frame *caller, const site *st,
                                  frame **out)
{
  rush_value self = peek(caller, operands(caller, st)[0]);
  function *fn = self.tag == RUSH_TAG_OBJECT
                     ? class_find_method(self.as.object->type, st->name)
                     : NULL;

  if (!fn)
    return call_fail(cx, "the object has no method '%s'", st->name);
  if (UNLIKELY(!fn->schema || !fn->schema->n_args || !is_of_class(self, fn->schema->args[0].type)))
    return fail_type(cx, "self of method", st->name);
  TRY(push_call(cx, s, caller, st, fn, out));
  check_result(*out);
  return RUSH_OK;
}

static rush_status start_fork(call_ctx *cx, call_stack *s, frame *f, const site *st)
{
  rush_value *row = f->regs + f->c->n_regs;
  rush_value done;
  future *fut;

  for (uint32_t i = 0; i < st->n_args; i++)
    row[i] = take(f, operands(f, st)[i]);
  if (st->function) {
    TRY(future_new_steal(cx, st->type, st->function, row, st->n_args, &fut));
    future_queue(s, fut);
  } else {
    rush_status made = future_done(cx, st->type, row[0], &done);
    value_release(row[0]);
    TRY(made);
    fut = done.as.heap;
  }
  set_result(f, st, 0, value_heap_steal(RUSH_TAG_FUTURE, fut));
  return RUSH_OK;
}

#define TASKS_PER_POLL 64

/* Poll in chains of tasks, which contain no loops and calls that would poll. */
static rush_status poll_tasks(call_ctx *cx, const call_stack *s)
{
  return s->n_tasks % TASKS_PER_POLL == TASKS_PER_POLL - 1 ? call_poll(cx) : RUSH_OK;
}

/* Finish a task whose frames are gone; its waiter continues, unless the call must end. */
COLD static rush_status end_task(call_ctx *cx, call_stack *s, future *fut, rush_value result)
{
  future_finish(fut, result);
  future_leave(cx, s, fut);
  value_release(value_heap_steal(RUSH_TAG_FUTURE, fut));
  return poll_tasks(cx, s);
}

/* Push the frame of a task that has not started; it counts calls from `depth` on. */
static rush_status push_task(call_ctx *cx, call_stack *s, future *fut, uint32_t depth, frame **out)
{
  uint32_t parked_depth = cx->depth;
  const code *c;
  frame *f;

  if (UNLIKELY(s->n_tasks >= tasks_limit(cx)))
    return error_set_limit(cx->err, RUSH_LIMIT_DEPTH, "RecursionError",
                           "forked tasks wait for each other too deep: the limit is %u",
                           tasks_limit(cx));
  TRY(code_of(cx, fut->fn, &c));
  if (c->n_args != fut->n_args)
    return call_fail(cx, "a forked function takes %u arguments, not %u", c->n_args, fut->n_args);
  TRY(code_check_args(cx, c, fut->args));
  cx->depth = depth;
  rush_status st = stack_push(cx, s, c, &f);
  if (st != RUSH_OK) {
    cx->depth = parked_depth;
    return st;
  }
  for (uint32_t i = 0; i < fut->n_args; i++) {
    f->regs[c->n_kregs + i] = fut->args[i];
    fut->args[i] = value_none();
  }
  fut->state = FUTURE_RUNNING;
  fut->parked_depth = parked_depth;
  fut->parked_grad_mode = cx->grad_mode;
  cx->grad_mode = fut->grad_mode;
  s->n_tasks++;
  f->fut = fut;
  heap_retain(&fut->h);
  future_unqueue(s, fut);
  *out = f;
  return RUSH_OK;
}

/* Get the result, or a frame that must run for it in *out (NULL: there was a result). */
COLD static rush_status wait_for(call_ctx *cx, call_stack *s, frame *f, const frame *base,
                                 frame **out)
{
  const site *st = &f->c->sites[ins_imm(f->pc[-1])];
  uint32_t o = operands(f, st)[0];
  rush_value v = peek(f, o);
  future *fut = v.as.heap;

  *out = NULL;
  if (v.tag != RUSH_TAG_FUTURE)
    return call_fail(cx, "wait() expects a Future");
  switch (fut->state) {
  case FUTURE_DONE: {
    if (UNLIKELY(!results_fit(f, st, &fut->result)))
      return fail_type(cx, "the result of", "a future");
    rush_value result = value_retain(fut->result);
    drop_operand(f, o);
    set_result(f, st, 0, result);
    return RUSH_OK;
  }
  case FUTURE_FAILED: return future_raise(cx, fut);
  case FUTURE_RUNNING: return call_fail(cx, "a forked task waits for itself");
  default: break;
  }
  if (fut->queue != s)
    return call_fail(cx, "wait() for a task that another call forked and has not finished");
  TRY(poll_tasks(cx, s));
  TRY(push_task(cx, s, fut, base->dst, out));
  (*out)->dst = st->n_results ? operands(f, st)[st->n_args] : NO_REG;
  check_result(*out);
  drop_operand(f, o);
  return RUSH_OK;
}

/* -- Context managers -------------------------------------------------------------------------- */

static rush_status remember_entered(call_ctx *cx, call_stack *s, frame *f, const site *st)
{
  entered *e = mem_alloc(s->ctx, sizeof *e);
  rush_value object = peek(f, operands(f, st)[0]);
  function *exit = object.tag == RUSH_TAG_OBJECT
                       ? class_find_method(object.as.object->type, "__exit__")
                       : NULL;

  if (!e)
    return call_nomem(cx);
  *e = (entered){value_retain(object), exit, f, s->entered};
  s->entered = e;
  return RUSH_OK;
}

static void forget_entered(call_stack *s)
{
  entered *e = s->entered;

  if (!e)
    return;
  s->entered = e->outer;
  value_release(e->object);
  mem_free(s->ctx, e, sizeof *e);
}

/* Call __exit__ of each with statement of failing frames, innermost first; their errors are
 * dropped, as the first error is reported. */
static void leave_entered(call_ctx *cx, call_stack *s, frame *base)
{
  rush_error *err = cx->err;

  cx->err = NULL;
  for (const frame *f = s->frame;; f = f->prev) {
    while (s->entered && s->entered->frame == f) {
      entered *e = s->entered;
      rush_value args[4] = {e->object, value_none(), value_none(), value_none()}, result;

      if (e->exit && e->exit->schema && e->exit->schema->n_args <= 4 &&
          function_call(cx, e->exit, args, e->exit->schema->n_args, &result) == RUSH_OK)
        value_release(result);
      forget_entered(s);
    }
    if (f == base || !s->entered)
      break;
  }
  cx->err = err;
}

/* Move the frame's registers, and its context managers, to `row`. */
static void stop_frame(call_stack *s, frame *f, rush_value *row)
{
  size_t n_own = f->c->n_regs - f->c->n_kregs;

  memcpy(row, f->regs, f->c->n_regs * sizeof *row);
  memset(f->regs + f->c->n_kregs, 0, n_own * sizeof *row);
  while (s->entered && s->entered->frame == f)
    forget_entered(s);
}

/* -- Results ----------------------------------------------------------------------------------- */

/* Return the value of RETURN: a value, None, or a tuple of several. */
static rush_status returned(call_ctx *cx, frame *f, const site *st, rush_value *out)
{
  const uint32_t *o = operands(f, st);
  rush_tuple *t;

  if (LIKELY(st->n_args == 1)) {
    *out = take(f, o[0]);
    return RUSH_OK;
  }
  if (st->n_args == 0) {
    *out = value_none();
    return RUSH_OK;
  }
  TRY(tuple_new(cx, NULL, st->n_args, &t));
  for (uint32_t i = 0; i < st->n_args; i++)
    t->items[i] = take(f, o[i]);
  *out = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

/* True if an item matches its register's want and the list's class. */
static bool item_fits(const rush_list *l, rush_value v, uint8_t want)
{
  return want_takes(want, v.tag) && is_of_class(v, l->elem);
}

static rush_status list_get(call_ctx *cx, rush_value list, int64_t i, uint8_t want, rush_value *out)
{
  const rush_list *l = list.as.list;

  i = list_index(l, i);
  if (UNLIKELY(i < 0))
    return list_out_of_range(cx);
  const rush_value v = l->items[i];
  if (UNLIKELY(v.tag != want || v.tag == RUSH_TAG_OBJECT) && !item_fits(l, v, want))
    return fail_type(cx, "an item of", "a list");
  *out = value_retain(v);
  return RUSH_OK;
}

static rush_status list_set(call_ctx *cx, rush_value list, int64_t i, rush_value v)
{
  rush_list *l = list.as.list;

  i = list_index(l, i);
  if (UNLIKELY(i < 0))
    return list_out_of_range(cx);
  list_set_steal(l, i, v);
  return RUSH_OK;
}

static rush_status div_int(call_ctx *cx, bool floor, int64_t x, int64_t y, rush_value *out)
{
  if (y == 0)
    return floor ? call_fail_type(cx, "ZeroDivisionError", "division by 0")
                 : call_fail_type(cx, "ZeroDivisionError", "modulo by zero");
  *out = value_int(floor ? i64_floordiv(x, y) : i64_mod(x, y));
  return RUSH_OK;
}

/* -- The loop ---------------------------------------------------------------------------------- */

/* The running instruction.  Its fields are read where they are used: a copy would decode all five
 * of each. */
#define I (pc[-1])
#define NEXT                    \
  do {                          \
    pc++;                       \
    goto *labels[I.op];         \
  } while (0)
#define SAVE() (f->pc = pc)
#define SITE() (&f->c->sites[ins_imm(I)])
/* Run an expression that may fail, with the state saved. */
#define DO(expr)                \
  do {                          \
    SAVE();                     \
    status = (expr);            \
    if (UNLIKELY(status != RUSH_OK)) \
      goto failed;              \
    NEXT;                       \
  } while (0)
#define LOAD_FRAME(frame_)      \
  do {                          \
    f = (frame_);               \
    R = f->regs;                \
    pc = f->pc;                 \
  } while (0)
#define POLL()                                        \
  do {                                                \
    if (UNLIKELY(--budget == 0)) {                    \
      budget = POLL_EVERY;                            \
      SAVE();                                         \
      if ((status = call_poll(cx)) != RUSH_OK)        \
        goto failed;                                  \
    }                                                 \
  } while (0)
/* Push a frame with push(cx, s, f, site, &callee) and continue in it. */
#define PUSH(push)                                                        \
  do {                                                                    \
    frame *callee;                                                        \
    SAVE();                                                               \
    POLL();                                                               \
    if (UNLIKELY((status = push(cx, s, f, SITE(), &callee)) != RUSH_OK))  \
      goto failed;                                                        \
    LOAD_FRAME(callee);                                                   \
    NEXT;                                                                 \
  } while (0)
#define SET_INT(r, v) (R[r] = (rush_value){.tag = RUSH_TAG_INT, .as.i = (v)})
#define SET_FLOAT(r, v) (R[r] = (rush_value){.tag = RUSH_TAG_FLOAT, .as.d = (v)})
#define SET_BOOL(r, v) (R[r] = (rush_value){.tag = RUSH_TAG_BOOL, .as.i = (v)})

/* long: the dispatch loop, one label an instruction. */
static rush_status run_loop(call_ctx *cx, call_stack *s, frame *base, rush_value *result)
{
  static const void *const labels[] = {
#define TYPED2(sym, ...) &&L_##sym,
#define TYPED1(sym, ...) &&L_##sym,
#define COMPARE(sym, ...) &&L_##sym, &&L_JT_##sym, &&L_JF_##sym,
#define PLAIN(sym) &&L_##sym,
#include "run/opcodes.def"
  };
  frame *f;
  rush_value *R;
  const ins *pc;
  uint32_t budget = POLL_EVERY;
  rush_status status = RUSH_OK;
  rush_value v;

  LOAD_FRAME(base);
  NEXT;

#define TYPED2(sym, key, out, field, expr)                    \
  L_##sym : {                                                 \
    __typeof__(R->as.field) x = R[I.b].as.field, y = R[I.c].as.field; \
    SET_##out(I.a, expr);                                     \
    NEXT;                                                     \
  }
#define TYPED1(sym, key, out, field, expr)                    \
  L_##sym : {                                                 \
    __typeof__(R->as.field) x = R[I.b].as.field;              \
    SET_##out(I.a, expr);                                     \
    NEXT;                                                     \
  }
#define COMPARE(sym, key, field, expr)                        \
  L_##sym : {                                                 \
    __typeof__(R->as.field) x = R[I.b].as.field, y = R[I.c].as.field; \
    SET_BOOL(I.a, expr);                                      \
    NEXT;                                                     \
  }                                                           \
  L_JT_##sym : {                                              \
    __typeof__(R->as.field) x = R[I.a].as.field, y = R[I.b].as.field; \
    if (expr)                                                 \
      pc += (int16_t)I.c;                                     \
    NEXT;                                                     \
  }                                                           \
  L_JF_##sym : {                                              \
    __typeof__(R->as.field) x = R[I.a].as.field, y = R[I.b].as.field; \
    if (!(expr))                                              \
      pc += (int16_t)I.c;                                     \
    NEXT;                                                     \
  }
#include "run/opcodes.def"

L_MOVE:
  R[I.a] = R[I.b];
  R[I.b] = value_none();
  NEXT;
L_COPY:
  R[I.a] = value_retain(R[I.b]);
  NEXT;
L_PLAIN:
  R[I.a] = R[I.b];
  NEXT;
L_LOADK:
  R[I.a] = value_retain(f->c->constants[ins_imm(I)]);
  NEXT;
L_DROP:
  v = R[I.a];
  R[I.a] = value_none();
  value_release(v);
  NEXT;
L_JUMP:
  pc += ins_imm(I);
  NEXT;
L_JUMP_TRUE:
  if (R[I.a].as.b)
    pc += ins_imm(I);
  NEXT;
L_JUMP_FALSE:
  if (!R[I.a].as.b)
    pc += ins_imm(I);
  NEXT;
L_POLL:
  POLL();
  NEXT;
L_LOOP_ENTER:
  SET_INT(I.a, 0);
  if (R[I.a + 1].as.i <= 0)
    pc += ins_imm(I);
  NEXT;
L_LOOP_NEXT : {
  int64_t count = R[I.a].as.i + 1;
  R[I.a].as.i = count;
  if (count < R[I.a + 1].as.i) {
    pc += ins_imm(I);
    POLL();
  }
  NEXT;
}
L_GET_ATTR: {
  const rush_object *o = R[I.b].as.object;
  rush_value v = o->slots[I.c];
  if (LIKELY(v.tag == I.want && !value_is_heap(v))) { /* numbers need none of what follows */
    R[I.a] = v;
    NEXT;
  }
  if (UNLIKELY(!want_takes(I.want, v.tag) || !is_of_class(v, o->type->cls->attrs[I.c].type))) {
    SAVE();
    status = fail_slot(cx, o, I.c);
    goto failed;
  }
  if (UNLIKELY(v.tag == RUSH_TAG_TENSOR && v.as.tensor && tensor_is_meta(v.as.tensor))) {
    SAVE();
    status = fail_meta(cx, o, I.c);
    goto failed;
  }
  R[I.a] = value_retain(v);
  NEXT;
}
L_SET_ATTR : {
  rush_value *slot = &R[I.a].as.object->slots[I.c];
  rush_value old = *slot;
  *slot = value_retain(R[I.b]);
  object_changed(R[I.a].as.object);
  value_release(old);
  NEXT;
}
L_IS_NONE:
  SET_BOOL(I.a, value_is_none(R[I.b]));
  NEXT;
L_IS_SOME:
  SET_BOOL(I.a, !value_is_none(R[I.b]));
  NEXT;
L_LIST_LEN:
  SET_INT(I.a, (int64_t)R[I.b].as.list->n);
  NEXT;
L_LIST_GET:
  DO(list_get(cx, R[I.b], R[I.c].as.i, I.want, &R[I.a]));
L_LIST_SET:
  DO(list_set(cx, R[I.a], R[I.b].as.i, R[I.c]));
L_LIST_APPEND : {
  rush_list *l = R[I.a].as.list;
  if (LIKELY(l->n < l->cap)) {
    l->items[l->n++] = R[I.b];
    NEXT;
  }
  DO(list_append_steal(cx, l, R[I.b]));
}
L_DIV_FLOOR:
  DO(div_int(cx, true, R[I.b].as.i, R[I.c].as.i, &R[I.a]));
L_REMAINDER:
  DO(div_int(cx, false, R[I.b].as.i, R[I.c].as.i, &R[I.a]));
L_OPERATOR:
  DO(act_operator(cx, f, SITE()));
L_OPERATOR_OUT:
  DO(act_operator_out(cx, f, SITE()));
L_LIST:
  DO(act_list(cx, f, SITE()));
L_LIST_UNPACK:
  DO(act_list_unpack(cx, f, SITE()));
L_TUPLE:
  DO(act_tuple(cx, f, SITE()));
L_TUPLE_UNPACK:
  DO(act_tuple_unpack(cx, f, SITE()));
L_TUPLE_INDEX:
  DO(act_tuple_index(cx, f, SITE()));
L_TUPLE_SLICE:
  DO(act_tuple_slice(cx, f, SITE()));
L_DICT:
  DO(act_dict(cx, f, SITE()));
L_NEW_OBJECT:
  DO(act_new_object(cx, f, SITE()));
L_RAISE:
  DO(act_raise(cx, f, SITE()));
L_PRINT:
  DO(act_print(cx, f, SITE()));
L_WARN:
  DO(act_warn(cx, f, SITE()));
L_ISINSTANCE:
  DO(act_isinstance(cx, f, SITE()));
L_CAST:
  DO(act_cast(cx, f, SITE()));
L_CHECK:
  DO(act_check(cx, f, SITE()));
L_TYPE_CHECK:
  DO(act_type_check(cx, f, SITE()));
L_GUARD:
  DO(act_guard(cx, f, SITE()));
L_PROFILE:
  DO(act_profile(cx, f, SITE()));
L_POINT_GUARD:
  SAVE();
  if (UNLIKELY((status = act_point_guard(cx, f, SITE())) != RUSH_OK))
    goto failed;
  LOAD_FRAME(f); /* it may have been replaced */
  NEXT;
L_MODULE_INDEX:
  DO(act_module_index(cx, f, SITE()));
L_UNSUPPORTED:
  DO(act_unsupported(cx, f, SITE()));
L_FORK:
  DO(start_fork(cx, s, f, SITE()));
L_ENTER:
  SAVE();
  if ((status = remember_entered(cx, s, f, SITE())) != RUSH_OK)
    goto failed;
  goto L_CALL;
L_EXIT:
  forget_entered(s);
L_CALL_OUT:
  PUSH(push_output);
L_CALL:
  PUSH(push_direct);
L_CALL_INTERFACE:
  PUSH(push_interface);
L_WAIT : {
  frame *callee;
  SAVE();
  if ((status = wait_for(cx, s, f, base, &callee)) != RUSH_OK)
    goto failed;
  if (callee)
    LOAD_FRAME(callee);
  NEXT;
}
L_MARK_BEGIN:
  SAVE();
  mark_begin(cx, f, I.a, SITE()->inlined);
  NEXT;
L_MARK_END:
  mark_end(cx, f);
  NEXT;
L_STOP:
  SAVE();
  stop_frame(s, f, SITE()->stopped);
  *result = v = value_none();
  goto leave;
L_RETURN:
  SAVE();
  /* The outermost value goes straight to its place: a copy would wait for the two halves. */
  status = returned(cx, f, SITE(), f == base ? result : &v);
  if (UNLIKELY(status != RUSH_OK))
    goto failed;
leave : {
  uint32_t dst = f->dst;
  future *fut = f->fut;
  bool done = f == base;

  stack_pop(cx, s);
  if (UNLIKELY(fut != NULL)) {
    status = end_task(cx, s, fut, done ? *result : v);
    if (status != RUSH_OK && !done) {
      value_release(v);
      goto failed;
    }
  }
  if (done)
    return RUSH_OK;
  LOAD_FRAME(s->frame);
  if (dst == NO_REG) {
    value_release(v);
  } else if (LIKELY(!(dst & DST_CHECKED))) {
    R[dst] = v;
  } else if (results_fit(f, &f->c->sites[ins_imm(pc[-1])], &v)) {
    R[dst & ~DST_CHECKED] = v;
  } else {
    value_release(v);
    status = fail_type(cx, "the result of", "a method or a task");
    goto failed;
  }
  NEXT;
}

failed:
  if (UNLIKELY(s->entered != NULL))
    leave_entered(cx, s, base);
  stack_unwind(cx, s, base, status);
  return status;
}

rush_status interp_run(call_ctx *cx, call_stack *s, frame *base, rush_value *result)
{
  base->dst = cx->depth; /* it has no other use: the result is stored in *result */
  return run_loop(cx, s, base, result);
}

/* -- Tasks without a waiter -------------------------------------------------------------------- */

static rush_status run_task(call_ctx *cx, call_stack *s, future *fut)
{
  rush_value v;
  frame *f;
  rush_status st = push_task(cx, s, fut, cx->depth, &f);

  if (st == RUSH_OK && (st = interp_run(cx, s, f, &v)) == RUSH_OK)
    value_release(v);
  return st;
}

static bool is_limit(rush_status st)
{
  return st == RUSH_ELIMIT || st == RUSH_ECANCELLED || st == RUSH_ENOMEM;
}

rush_status interp_finish_tasks(call_ctx *cx, call_stack *s, rush_status ended)
{
  rush_error *err = cx->err, own = RUSH_ERROR_INIT;
  rush_status st = RUSH_OK;

  cx->err = &own;
  for (uint32_t n = 1; s->first; n++) {
    future *fut = s->first;

    heap_retain(&fut->h);
    rush_status one = is_limit(ended) ? ended : n % TASKS_PER_POLL ? RUSH_OK : call_poll(cx);
    if (one == RUSH_OK)
      one = run_task(cx, s, fut);
    if (fut->state == FUTURE_PENDING) {
      future_unqueue(s, fut);
      future_fail(fut, one, NULL, value_none());
    }
    value_release(value_heap_steal(RUSH_TAG_FUTURE, fut));
    if (is_limit(one) && !is_limit(ended)) {
      ended = st = one;
      if (err)
        error_move(err, &own);
    }
    rush_error_clear(&own);
  }
  cx->err = err;
  return st;
}
