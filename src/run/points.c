/* run/points.c -- recording facts at points, and replacing the frame of a guard that fails
 * (points.h).
 *
 * A replacement has two parts, so that it may fail only before it changes anything: first the
 * snapshot is read into a row of its own, each value retained or built; then the plan's registers
 * are released, and the row is written to those of the profiled code.  Rejected: moving values from
 * register to register, which saves a few counts on a path that is rare, and needs the order of
 * parallel moves.  Cost: O(registers of both). */
#include "run/points.h"

#include "base/session.h"
#include "passes/passes.h"
#include "passes/points.h"
#include "tensor/tensor.h"

/* -- Profiled code ----------------------------------------------------------------------------- */

static code_points *points_new(session *s, const code *c)
{
  code_points *p =
    mem_alloc_zero(s->cx->ctx, sizeof *p + c->n_points * sizeof *p->at);

  if (!p)
    session_check(s, call_nomem(s->cx));
  mutex_init(&p->lock);
  p->n = c->n_points;
  p->everywhere = context_fails_guards(s->cx->ctx);
  for (uint32_t pc = 0; pc < c->n_ins; pc++)
    if (c->code[pc].op == OPC_PROFILE)
      p->at[c->sites[ins_imm(c->code[pc])].point].pc = pc;
  return p;
}

void points_free(context *c, code_points *p)
{
  if (!p)
    return;
  mutex_destroy(&p->lock);
  mem_free(c, p, sizeof *p + p->n * sizeof *p->at);
}

static void free_code_deferred(void *c) { code_free(c); }

const code *code_profiled(session *s, const code *canonical)
{
  code *own = (code *)(uintptr_t)canonical;
  code *c = atomic_load_explicit(&own->profiled, memory_order_acquire);

  if (c || !canonical->has_points)
    return c;
  ir_graph *g = passes_base(s, canonical->function, false);
  session_defer(s, ir_graph_free_deferred, g);
  if (!pass_put_points(s, g, context_fails_guards(s->cx->ctx)))
    return NULL;
  c = code_emit_graph(s, session_keep(s, g), canonical->function);
  session_defer(s, free_code_deferred, c);
  c->points = points_new(s, c);
  atomic_store_explicit(&own->profiled, session_keep(s, c), memory_order_release);
  return c;
}

/* -- Recording --------------------------------------------------------------------------------- */

/* The facts of a tensor that guards compare: those of one that facts do not describe are none. */
static ir_facts facts_of(const rush_tensor *t)
{
  ir_facts f;

  if (t && !ir_facts_describe(t))
    return ir_facts_none();
  f = ir_facts_of_tensor(t);
  f.requires_grad = -1;
  return f;
}

static void record(code_point *p, const rush_tensor *t)
{
  const ir_facts f = facts_of(t);

  p->facts = p->seen ? ir_facts_union(&p->facts, &f) : f;
  p->seen = true;
}

rush_status act_profile(call_ctx *cx, frame *f, const site *s)
{
  const rush_value v = peek(f, operands(f, s)[0]);
  code_points *p = f->c->points;

  (void)cx;
  if (v.tag != RUSH_TAG_TENSOR || !mutex_try(&p->lock))
    return RUSH_OK;
  record(&p->at[s->point], v.as.tensor);
  mutex_unlock(&p->lock);
  return RUSH_OK;
}

ir_facts *points_facts(session *s, const code_points *p)
{
  ir_facts *facts = session_array(s, ir_facts, (size_t)p->n + 1);
  mutex *lock = (mutex *)(uintptr_t)&p->lock;

  mutex_lock(lock);
  for (uint32_t i = 0; i < p->n; i++)
    facts[i] = p->at[i].seen && atomic_load(&p->at[i].failures) < MOST_FAILURES
                 ? p->at[i].facts
                 : ir_facts_none();
  mutex_unlock(lock);
  return facts;
}

/* -- Replacing a frame ------------------------------------------------------------------------- */

/* What is read of a guard's operands: one operand, or a recipe, an entry. */
typedef struct reader {
  call_ctx *cx;
  const frame *f;
  const uint32_t *at; /* next operand */
  const type *const *built; /* type of the next container */
} reader;

static rush_status build(reader *r, uint32_t n, rush_value *out)
{
  const type *t = *r->built++;
  rush_list *l;
  rush_tuple *u;

  if (t->kind == TYPE_LIST) {
    TRY(list_new(r->cx, type_elem(t), n, &l));
    for (uint32_t i = 0; i < n; i++)
      l->items[l->n++] = value_retain(peek(r->f, *r->at++));
    *out = value_heap_steal(RUSH_TAG_LIST, l);
  } else {
    TRY(tuple_new(r->cx, t, n, &u));
    for (uint32_t i = 0; i < n; i++)
      u->items[i] = value_retain(peek(r->f, *r->at++));
    *out = value_heap_steal(RUSH_TAG_TUPLE, u);
  }
  return RUSH_OK;
}

/* Read the guard's value and its snapshot of n - 1 entries: new. */
static rush_status read_snapshot(call_ctx *cx, const frame *f, const site *s, uint32_t n,
                                 rush_value *row)
{
  reader r = {cx, f, operands(f, s), s->types};
  rush_status st = RUSH_OK;
  uint32_t i = 0;

  for (; i < n && st == RUSH_OK; i++)
    if (OPERAND_IS_RECIPE(*r.at))
      st = build(&r, *r.at++ & OPERAND_INDEX, &row[i]);
    else
      row[i] = value_retain(peek(f, *r.at++));
  if (st != RUSH_OK)
    for (uint32_t k = 0; k + 1 < i; k++)
      value_release(row[k]);
  return st;
}

static void release_registers(frame *f)
{
  for (uint32_t i = f->c->n_kregs; i < f->c->n_regs; i++)
    if (!frame_is_borrowed(f, i))
      value_release(f->regs[i]);
  f->borrowed = 0;
}

/* Continue in `to` at the point, with the values of the row; steals them. */
static void replace(frame *f, const code *to, const site *map, uint32_t pc, const rush_value *row)
{
  const uint32_t *regs = to->operands + map->first;

  release_registers(f);
  f->c = to;
  f->pc = to->code + pc;
  memcpy(f->regs, to->constants, to->n_kregs * sizeof *f->regs);
  memset(f->regs + to->n_kregs, 0, (to->n_regs - to->n_kregs) * sizeof *f->regs);
  for (uint32_t i = 0; i < map->n_args; i++)
    if (regs[i] == NO_REG || regs[i] & OPERAND_CONST || regs[i] < to->n_kregs)
      value_release(row[i]); /* it has the value as a constant */
    else
      f->regs[regs[i]] = row[i];
}

#define FEW_LIVE 32

static rush_status bail_out(call_ctx *cx, frame *f, const site *s)
{
  const code *to = f->c->bails_to;
  code_point *p = &to->points->at[s->point];
  const site *map = &to->sites[ins_imm(to->code[p->pc])];
  rush_value few[FEW_LIVE], *row = few;
  const size_t n_bytes = map->n_args * sizeof *row;

  if (map->n_args > FEW_LIVE && !(row = mem_alloc(cx->ctx, n_bytes)))
    return call_nomem(cx);
  const rush_status st = read_snapshot(cx, f, s, map->n_args, row);
  if (st == RUSH_OK) {
    replace(f, to, map, p->pc, row);
    atomic_fetch_add_explicit(&p->bailouts, 1, memory_order_relaxed);
  }
  if (row != few)
    mem_free(cx->ctx, row, n_bytes);
  return st;
}

/* True if the value has the facts, as ir_facts_fit, and facts describe it. */
static bool has_facts(const type *t, rush_value v)
{
  const ir_facts *f = ir_facts_of(t);

  if (t->kind != TYPE_TENSOR || ir_facts_is_none(f))
    return true;
  return v.tag == RUSH_TAG_TENSOR && ir_facts_fit(f, v.as.tensor) &&
         (!v.as.tensor || ir_facts_describe(v.as.tensor));
}

rush_status act_point_guard(call_ctx *cx, frame *f, const site *s)
{
  code *c = (code *)(uintptr_t)f->c;

  atomic_store_explicit(&c->guards_checked,
                        atomic_load_explicit(&c->guards_checked, memory_order_relaxed) + 1,
                        memory_order_relaxed);
  if (UNLIKELY(!has_facts(s->type, peek(f, operands(f, s)[0])))) {
    atomic_fetch_add_explicit(&c->bails_to->points->at[s->point].failures, 1,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&c->guards_failed, 1, memory_order_relaxed);
    return bail_out(cx, f, s);
  }
  if (LIKELY(!context_fails_guards(cx->ctx)) || !context_fails_this_guard(cx->ctx))
    return RUSH_OK;
  return bail_out(cx, f, s);
}
