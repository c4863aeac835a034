/* run/call.c -- from a function to its code, and calls from outside. Code is emitted once, under
 * the program's lock, after the context's passes have changed a copy of the graph, and is published
 * atomically, so that later calls take no lock. The outermost call has its first stack chunk in its
 * C frame, so that a small call allocates nothing; calls made inside a call share its stack. */
#include "autograd/record.h"
#include "base/lock.h"
#include "passes/passes.h"
#include "passes/points.h"
#include "ops/call/profile.h"
#include "run/executor.h"
#include "run/stack.h"

/* -- Code of a function ------------------------------------------------------------------------ */

typedef struct emit_job {
  function *f;
  const code *made;
} emit_job;

static void destroy_code(context *c, void *p)
{
  (void)c;
  code_free(p);
}

static void drop_code(void *c) { code_free(c); }

/* Emit code from the graph after the context's passes. */
static code *emit_optimised(session *s, function *f)
{
  if (!passes_wanted(s->cx->ctx) && !pass_has_autocast(f->graph))
    return code_emit(s, f->graph->block, f, f->name);
  code *c = code_emit_graph(s, passes_run(s, f, NULL, false, NULL), f);

  session_defer(s, drop_code, c);
  c->chooses_plans = passes_wanted(s->cx->ctx) && executor_serves(c);
  c->has_points = c->chooses_plans && context_profiles(s->cx->ctx) &&
                  pass_wants_points(s, c->graph, context_fails_guards(s->cx->ctx));
  return session_keep(s, c);
}

code *code_emit_graph(session *s, ir_graph *g, function *f)
{
  ir_graph_borrow_types(g); /* the code belongs to the program, as the types do */
  session_defer(s, ir_graph_free_deferred, g);
  code *c = code_emit(s, g->block, f, f->name);

  c->graph = session_keep(s, g);
  return c;
}

/* Emit code under the program's lock: emission numbers the graph's nodes, and code is made once. */
static void emit_code(session *s, void *arg)
{
  emit_job *job = arg;
  function *f = job->f;

  function_ensure(s, f);
  session_lock_to_read(s, &f->program->lock);
  job->made = atomic_load_explicit(&f->code, memory_order_acquire);
  if (!job->made) {
    if (!f->graph)
      session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "'%s' has no body", f->qualified);
    code *c = emit_optimised(s, f);

    f->program->code_destroy = destroy_code;
    atomic_store_explicit(&f->code, c, memory_order_release);
    context_count_function(s->cx->ctx);
    job->made = c;
  }
}

static void emit_marked(session *s, void *arg)
{
  code *c = arg;

  session_lock_to_read(s, &c->function->program->lock);
  if (!atomic_load_explicit(&c->marked, memory_order_acquire))
    atomic_store_explicit(&c->marked, code_emit_marked(s, c), memory_order_release);
}

/* A record's number is its place: groups, whose nodes moved, would change the order in which
 * gradients are added. */
static void emit_recorded(session *s, void *arg)
{
  code *c = arg;

  session_lock_to_read(s, &c->function->program->lock);
  if (atomic_load_explicit(&c->recorded, memory_order_acquire))
    return;
  code *made = code_emit_graph(s, passes_run(s, c->function, NULL, true, NULL), c->function);

  made->chooses_plans = c->chooses_plans;
  made->has_points = c->has_points;
  made->main = c;
  atomic_store_explicit(&c->recorded, made, memory_order_release);
}

/* Replace *c by its code for calls that record. */
COLD static rush_status recorded_of(call_ctx *cx, const code **c)
{
  code *own = (code *)(uintptr_t)*c;

  if (!atomic_load_explicit(&own->recorded, memory_order_acquire))
    TRY(session_run(cx, emit_recorded, own));
  *c = atomic_load_explicit(&own->recorded, memory_order_acquire);
  return RUSH_OK;
}

/* Replace *c by its marked code. */
COLD static rush_status marked_of(call_ctx *cx, const code **c)
{
  code *own = (code *)(uintptr_t)*c;

  if (!atomic_load_explicit(&own->marked, memory_order_acquire))
    TRY(session_run(cx, emit_marked, own));
  *c = atomic_load_explicit(&own->marked, memory_order_acquire);
  return RUSH_OK;
}

rush_status code_of(call_ctx *cx, function *f, const code **out)
{
  const code *c = atomic_load_explicit(&f->code, memory_order_acquire);

  if (UNLIKELY(!c)) {
    emit_job job = {.f = f};

    TRY(session_run(cx, emit_code, &job));
    c = job.made;
  }
  *out = c;
  if (UNLIKELY(code_may_record(cx, c) && c->has_groups))
    TRY(recorded_of(cx, out));
  return UNLIKELY(cx->watch & CALL_PROFILED) && (*out)->has_inlined ? marked_of(cx, out) : RUSH_OK;
}

/* -- Calls ------------------------------------------------------------------------------------- */

COLD static rush_status fail_argument(call_ctx *cx, const code *c, uint32_t i)
{
  const schema *sc = c->function ? c->function->schema : NULL;

  return error_set_type(cx->err, RUSH_EARGUMENT, "RuntimeError",
                        "%s: argument %u, '%s', has another type than is declared", c->name, i,
                        sc && i < sc->n_args ? sc->args[i].name : "");
}

rush_status code_check_args(call_ctx *cx, const code *c, const rush_value *args)
{
  const schema *sc = c->function ? c->function->schema : NULL;

  for (uint32_t i = 0; i < c->n_args; i++)
    if (UNLIKELY(!want_takes(c->arg_wants[i], args[i].tag)) ||
        (args[i].tag == RUSH_TAG_OBJECT && sc && i < sc->n_args &&
         UNLIKELY(!is_of_class(args[i], sc->args[i].type))))
      return fail_argument(cx, c, i);
  return RUSH_OK;
}

/* Call inside a running call; `leaf`: see frame.result. */
static rush_status call_in(call_ctx *cx, call_stack *s, const code *c, const rush_value *args,
                           uint32_t leaf, rush_value *result)
{
  frame *f;

  TRY(stack_push(cx, s, c, &f));
  f->borrowed = c->borrowed_args & ~c->unused_args; /* whose registers are free */
  f->result = leaf;
  for (uint32_t i = 0; i < c->n_args; i++) {
    bool borrowed = i < 64 && (c->borrowed_args >> i & 1);

    if (!borrowed)
      f->regs[c->n_kregs + i] = value_retain(args[i]);
    else if (!(c->unused_args >> i & 1))
      f->regs[c->n_kregs + i] = args[i];
  }
  return interp_run(cx, s, f, result);
}

static rush_status finish_tasks(call_ctx *cx, call_stack *s, rush_status st, rush_value *result)
{
  rush_error *err = cx->err;

  if (st != RUSH_OK)
    cx->err = NULL; /* the call's own error stays */
  rush_status late = interp_finish_tasks(cx, s, st);
  cx->err = err;
  if (st == RUSH_OK && late != RUSH_OK)
    value_release(*result);
  return st == RUSH_OK ? late : st;
}

/* Make the outermost call, which owns the stack; its first chunk is here, so that a small call
 * allocates nothing. */
static rush_status call_outermost(call_ctx *cx, const code *c, const rush_value *args,
                                  rush_value *result)
{
  _Alignas(16) char first[FIRST_CHUNK_BYTES];
  call_stack s;
  bool grad_mode = cx->grad_mode;

  if (c->chooses_plans && !(cx->watch & (CALL_PROFILED | CALL_OTHER_DTYPE)) && !cx->outputs)
    c = executor_choose(cx, c, args);
  stack_init(&s, cx->ctx, first, sizeof first);
  cx->frames = &s;
  rush_status st = call_in(cx, &s, c, args, cx->outputs != NULL, result);
  if (s.first)
    st = finish_tasks(cx, &s, st, result);
  cx->frames = NULL;
  cx->grad_mode = grad_mode;
  stack_free(&s);
  if (UNLIKELY(cx->watch & CALL_PROFILED) && st == RUSH_OK && c->function && profile_is_outside(cx))
    profile_called_function(cx, c->function, args, c->n_args, result);
  return st;
}

/* Call with arguments that were compared with the declared types. */
static rush_status call_typed(call_ctx *cx, const code *c, const rush_value *args,
                              rush_value *result)
{
  return cx->frames ? call_in(cx, cx->frames, c, args, 0, result)
                    : call_outermost(cx, c, args, result);
}

rush_status code_call(call_ctx *cx, const code *c, const rush_value *args, rush_value *result)
{
  TRY(code_check_args(cx, c, args));
  return call_typed(cx, c, args, result);
}

rush_status function_call(call_ctx *cx, function *f, const rush_value *args, uint32_t n_args,
                          rush_value *result)
{
  const code *c;

  TRY(code_of(cx, f, &c));
  if (UNLIKELY(c->n_args != n_args))
    return error_set(cx->err, RUSH_EARGUMENT, "%s takes %u arguments, not %u", f->name, c->n_args,
                     n_args);
  return code_call(cx, c, args, result);
}

/* Call with arguments that schema_takes or schema_bind accepted; checks `self`. */
static rush_status call_bound(call_ctx *cx, function *f, bool has_self, const rush_value *args,
                              uint32_t n_args, rush_value *result)
{
  const code *c;

  TRY(code_of(cx, f, &c));
  if (UNLIKELY(c->n_args != n_args) ||
      (has_self &&
       UNLIKELY(args[0].tag != RUSH_TAG_OBJECT || !is_of_class(args[0], f->schema->args[0].type))))
    return function_call(cx, f, args, n_args, result); /* which reports the error */
  return call_typed(cx, c, args, result);
}

#define FEW_ARGS 16

/* Call a function that uses gradients itself, recording its operations regardless of the caller's
 * options. */
static rush_status call_recorded(call_ctx *cx, function *f, const rush_value *self,
                                 const rush_value *args, uint32_t n_args, const named_arg *kwargs,
                                 uint32_t n_kwargs, rush_value *result)
{
  const uint8_t watch = cx->watch;
  call_recorder own;

  TRY(autograd_begin(cx, &own, NULL, true, args, n_args));
  rush_status st = function_call_bound(cx, f, self, args, n_args, kwargs, n_kwargs, result);
  cx->recorder = NULL;
  cx->watch = watch;
  if (st == RUSH_OK)
    autograd_forget(*result);
  return st;
}

rush_status function_call_bound(call_ctx *cx, function *f, const rush_value *self,
                                const rush_value *args, uint32_t n_args, const named_arg *kwargs,
                                uint32_t n_kwargs, rush_value *result)
{
  if (UNLIKELY(atomic_load_explicit(&f->uses_gradients, memory_order_acquire) !=
               GRADIENTS_UNUSED) &&
      !cx->recorder && !cx->frames && function_uses_gradients(cx, f))
    return call_recorded(cx, f, self, args, n_args, kwargs, n_kwargs, result);
  TRY(function_prepare(cx, f)); /* the schema may be completed with the body */
  const schema *sc = f->schema;
  uint32_t n_self = self ? 1 : 0, n_given = n_args + n_self;
  uint32_t n = n_given > sc->n_args ? n_given : sc->n_args;
  rush_value few[2 * FEW_ARGS], *row = few;

  if (n > FEW_ARGS) {
    row = mem_alloc(cx->ctx, 2 * n * sizeof *row);
    if (!row)
      return call_nomem(cx);
  }
  rush_value *bound = row + n;
  if (self)
    row[0] = *self;
  if (n_args)
    memcpy(row + n_self, args, n_args * sizeof *row);
  rush_status st;

  if (n_kwargs == 0 && schema_takes(sc, n_self, row, n_given))
    st = call_bound(cx, f, self != NULL, row, n_given, result);
  else if ((st = schema_bind(cx, sc, true, row, n_given, kwargs, n_kwargs, bound)) == RUSH_OK) {
    st = call_bound(cx, f, self != NULL, bound, sc->n_args, result);
    for (uint32_t i = 0; i < sc->n_args; i++)
      value_release(bound[i]);
  }
  if (row != few)
    mem_free(cx->ctx, row, 2 * n * sizeof *row);
  return st;
}

rush_status interp_enter(call_ctx *cx, const code *c, uint32_t pc, rush_value *registers_steal,
                         rush_value *result)
{
  call_stack own, *s = cx->frames;
  _Alignas(16) char first[1024]; /* often there is a stack already: only a small frame fits */
  frame *f;

  if (!s) {
    stack_init(&own, cx->ctx, first, sizeof first);
    s = cx->frames = &own;
  }
  rush_status st = stack_push(cx, s, c, &f);
  if (st == RUSH_OK) {
    memcpy(f->regs, registers_steal, c->n_regs * sizeof(rush_value));
    f->pc = c->code + pc;
    st = interp_run(cx, s, f, result);
  } else {
    for (uint32_t i = c->n_kregs; i < c->n_regs; i++)
      value_release(registers_steal[i]);
  }
  if (s == &own) {
    if (s->first)
      st = finish_tasks(cx, s, st, result);
    cx->frames = NULL;
    stack_free(s);
  }
  return st;
}
