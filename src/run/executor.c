/* run/executor.c -- choosing and making plans (executor.h).
 *
 * A lookup compares each tensor argument with each plan's facts, in the order in which plans were
 * made: a few instructions a dimension.  Attributes are compared only after the context's state
 * epoch has moved.  Misses take the executor's lock if it is free, and run canonical code if it is
 * not.  Rejected: plans on the function keyed by the object's address, which another object may get
 * later; freeing replaced plans while calls run, which would cost each call two atomic operations.
 * */
#include "run/executor.h"
#include "run/points.h"

#include "autodiff/node.h"
#include "base/session.h"
#include "base/threads.h"
#include "ir/live.h"
#include "passes/passes.h"
#include "passes/specialise.h"
#include "tensor/tensor.h"

#define MOST_PLANS 8  /* of an executor, at one time */
#define MOST_MADE 64  /* in all: an executor whose state or arguments keep changing gives up */
#define MOST_ARGS 63
/* Refined types of a program: plans of ever new sizes in ever new objects add some, and they stay,
 * as lists and graphs may point to them.  About 10 MB; behind them the program makes no more plans.
 * Rejected: a store for each plan, which values that outlive it would point into. */
#define MOST_TYPES 16384

typedef struct plan {
  code *code;
  ir_facts *facts; /* of the arguments that are in `entry`; n_args */
  state_read *reads;
  uint64_t entry; /* bit i: argument i has to fit facts[i] */
  bool is_recorded; /* for calls that record gradients */
  bool is_exact;    /* for the sizes of one call */
  uint32_t n_args, n_reads;
  size_t n_bytes; /* of the block that contains this, facts and reads */
  /* state_epoch of the last comparison of the attributes, times 2, + 1 if they held */
  _Atomic uint64_t seen;
  _Atomic uint64_t hits;
  struct plan *older; /* all plans of the executor */
} plan;

typedef struct executor {
  attachment a; /* of the object; first */
  context *ctx;
  const function *f;
  mutex lock; /* of making plans */
  _Atomic(plan *) plans[MOST_PLANS];
  plan *all;
  ir_facts *first; /* of the first call's arguments; n_args */
  uint32_t n_args;
  uint32_t wait, next_wait; /* calls until the next attempt, after a failure */
  _Atomic bool gave_up; /* nothing would be gained, or too much was made */
  _Atomic uint64_t calls;
  _Atomic(plan *) last; /* of the last call; NULL: canonical code */
  uint32_t made, widened, failures;
} executor;

/* -- Life -------------------------------------------------------------------------------------- */

static void plan_free(context *c, plan *p)
{
  code_free(p->code);
  mem_free(c, p, p->n_bytes);
}

static void executor_destroy(context *c, attachment *a)
{
  executor *e = (executor *)(void *)a;

  for (plan *p = e->all, *older; p; p = older) {
    older = p->older;
    plan_free(c, p);
  }
  mem_free(c, e->first, e->n_args * sizeof *e->first);
  mutex_destroy(&e->lock);
  mem_free(c, e, sizeof *e);
}

void executors_free(attachment *first)
{
  for (attachment *next; first; first = next) {
    next = first->next;
    first->destroy(((executor *)(void *)first)->ctx, first);
  }
}

/* Return the object that a method is called with; NULL: it is no method. */
static inline rush_object *self_of(const code *canonical, const rush_value *args)
{
  return canonical->function->self && canonical->n_args && args[0].tag == RUSH_TAG_OBJECT
           ? args[0].as.object
           : NULL;
}

/* Return where the executor for these arguments is attached: to `self`, or to the code of a
 * function that takes none. */
static _Atomic(attachment *) *place_of(const code *canonical, const rush_value *args)
{
  rush_object *self = self_of(canonical, args);

  const code *own = canonical->main ? canonical->main : canonical;
  return self ? &self->attached : &((code *)(uintptr_t)own)->executors;
}

static inline executor *find_executor(_Atomic(attachment *) *place, const function *f)
{
  for (attachment *a = atomic_load_explicit(place, memory_order_acquire); a; a = a->next) {
    executor *e = (executor *)(void *)a;
    if (LIKELY(e->f == f))
      return e;
  }
  return NULL;
}

/* -- Facts of a call --------------------------------------------------------------------------- */

/* The facts by which plans are chosen; whether gradients are required has no part in them. */
static ir_facts entry_facts(rush_value v)
{
  ir_facts f = ir_facts_none();

  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor) {
    f.defined = 0;
    return f;
  }
  f = ir_facts_of_tensor(v.as.tensor);
  f.requires_grad = -1;
  f.device_kind = DEVICE_CPU; /* a trial's tensors without data stand for some with data */
  return f;
}

/* True if the argument's facts choose plans: a tensor, or what may be one. */
static bool has_entry(const type *t)
{
  t = t->kind == TYPE_OPTIONAL ? type_elem(t) : t;
  return t->kind == TYPE_TENSOR;
}

static bool is_usual(const call_ctx *cx, rush_value v)
{
  const rush_tensor *t = v.as.tensor;

  return v.tag != RUSH_TAG_TENSOR ||
         (t && (ir_facts_describe(t) || (cx->trial && tensor_is_meta(t))));
}

static inline bool fits(const ir_facts *f, rush_value v)
{
  const rush_tensor *t = v.as.tensor;

  if (v.tag != RUSH_TAG_TENSOR || !t)
    return f->defined == 0;
  if (t->dtype != f->dtype || t->n_dims != f->n_dims ||
      (f->contiguous == 1 && !(t->h.flags & TENSOR_CONTIGUOUS)) ||
      t->h.flags & (TENSOR_WRAPPED_NUMBER | TENSOR_CONJ) ||
      UNLIKELY(t->extra && !ir_facts_describe(t)))
    return false;
  for (int i = 0; i < f->n_dims; i++)
    if ((f->sizes[i] != IR_SIZE_UNKNOWN && t->sizes[i] != f->sizes[i]) ||
        (f->contiguous != 1 && f->strides[i] != IR_STRIDE_UNKNOWN &&
         t->strides[i] != f->strides[i]))
      return false;
  return !tensor_is_meta(t);
}

static bool plan_fits(const plan *p, const rush_value *args)
{
  for (uint32_t i = 0; p->entry >> i; i++)
    if (p->entry >> i & 1 && !fits(&p->facts[i], args[i]))
      return false;
  return true;
}

/* True if guards of the plan failed so often that another one is to replace it. */
static inline bool is_stale(const plan *p)
{
  return p->code->bails_to &&
         atomic_load_explicit(&p->code->guards_failed, memory_order_relaxed) >= FAILURES_TO_REPLAN;
}

/* True if what the plan read of attributes still holds. */
static bool state_holds(context *c, plan *p)
{
  const uint64_t now = context_state_epoch(c) << 1;
  const uint64_t seen = atomic_load_explicit(&p->seen, memory_order_relaxed);

  if (LIKELY(seen >> 1 == now >> 1)) {
    ASSERT_SLOW(!(seen & 1) || state_reads_hold(p->reads, p->n_reads));
    return seen & 1;
  }
  const bool holds = state_reads_hold(p->reads, p->n_reads);
  atomic_store_explicit(&p->seen, now | holds, memory_order_relaxed);
  return holds;
}

/* -- Making a plan ----------------------------------------------------------------------------- */

typedef struct plan_job {
  const executor *e;
  const code *canonical;
  const rush_value *args;
  bool is_recorded;
  /* Set by make_plan. */
  ir_facts *facts; /* to plan for */
  uint64_t entry;  /* as in plan */
  uint64_t epoch;  /* when attributes were read */
  bool is_exact;
  bool is_useless; /* it would be the canonical code again */
  plan *made;      /* or NULL */
  const plan *replaced; /* which the new one covers, or NULL */
  const plan *stale;    /* whose guards failed too often, or NULL: it is replaced then */
} plan_job;

static bool same_block(session *s, const ir_block *a, const ir_block *b)
{
  const ir_node *x = ir_block_first(a), *y = ir_block_first(b);
  bool same = true;

  session_enter(s);
  for (; same && x != a->ret && y != b->ret; x = x->next, y = y->next) {
    same = x->kind == y->kind && x->op == y->op && x->n_inputs == y->n_inputs &&
           x->n_outputs == y->n_outputs && x->n_blocks == y->n_blocks;
    for (uint32_t i = 0; same && i < x->n_blocks; i++)
      same = same_block(s, x->blocks[i], y->blocks[i]);
  }
  session_leave(s);
  return same && x == a->ret && y == b->ret;
}

/* Make the plan's struct from what the session knows: code, facts, reads. */
static plan *plan_new(session *s, code *c, const plan_job *job, const specialisation *sp)
{
  const size_t n_facts = sp->n_args + sp->n_reads;
  const size_t n_bytes =
    sizeof(plan) + n_facts * sizeof(ir_facts) + sp->n_reads * sizeof(state_read);
  plan *p = mem_alloc_zero(s->cx->ctx, n_bytes);

  if (!p)
    session_check(s, call_nomem(s->cx));
  *p = (plan){.code = session_keep(s, c), .entry = job->entry, .n_bytes = n_bytes,
              .n_args = sp->n_args, .n_reads = sp->n_reads, .is_recorded = job->is_recorded,
              .is_exact = job->is_exact};
  p->facts = (ir_facts *)(p + 1);
  p->reads = (state_read *)(p->facts + n_facts);
  memcpy(p->facts, job->facts, sp->n_args * sizeof *p->facts);
  for (uint32_t i = 0; i < sp->n_reads; i++) {
    p->reads[i] = sp->reads[i];
    if (sp->reads[i].facts) {
      p->facts[sp->n_args + i] = *sp->reads[i].facts;
      p->reads[i].facts = &p->facts[sp->n_args + i];
    }
  }
  atomic_init(&p->seen, job->epoch << 1 | 1);
  return p;
}

/* Widen `a` to what a and b have in common; returns false if they are of different kinds. */
static bool widen(ir_facts *a, const ir_facts *b)
{
  if (a->defined == 0 || b->defined == 0)
    return a->defined == b->defined;
  if (a->dtype != b->dtype || a->n_dims != b->n_dims)
    return false;
  *a = ir_facts_union(a, b);
  return true;
}

/* Widen job->facts by `old` if they are of one kind; returns false, and changes nothing, if not. */
static bool widen_all(session *s, plan_job *job, const ir_facts *old)
{
  const uint32_t n = job->e->n_args;
  ir_facts *both = session_array(s, ir_facts, (size_t)n + 1);

  for (uint32_t i = 0; i < n; i++) {
    both[i] = job->facts[i];
    if (job->entry >> i & 1 && !widen(&both[i], &old[i]))
      return false;
  }
  job->facts = both;
  return true;
}

static bool same_facts(const plan_job *job, const ir_facts *a, const ir_facts *b)
{
  bool same = true;

  for (uint32_t i = 0; i < job->e->n_args && same; i++)
    same = !(job->entry >> i & 1) || ir_facts_equal(&a[i], &b[i]);
  return same;
}

/* Set the facts to plan for: those of the call, as long as there are few plans for exact sizes of
 * this kind of arguments; then those widened by what the first call and the other plans had. */
static void choose_facts(session *s, plan_job *job)
{
  const executor *e = job->e;
  const plan_limits most = context_plan_limits(e->ctx);
  ir_facts *own = session_array(s, ir_facts, (size_t)e->n_args + 1);
  uint32_t n_exact = 0;

  job->facts = own;
  for (uint32_t i = 0; i < e->n_args; i++) {
    own[i] = entry_facts(job->args[i]);
    job->entry |= (uint64_t)has_entry(ir_block_input(job->canonical->graph->block, i)->type) << i;
  }
  bool first_has_plan = same_facts(job, own, e->first);
  for (int k = 0; k < MOST_PLANS; k++) {
    const plan *p = atomic_load_explicit(&e->plans[k], memory_order_relaxed);
    if (!p || p->is_recorded != job->is_recorded)
      continue;
    if (is_stale(p)) { /* the same facts, other guards */
      job->stale = plan_fits(p, job->args) ? p : job->stale;
      continue;
    }
    if (!widen_all(s, job, p->facts))
      continue;
    n_exact += p->is_exact;
    first_has_plan |= p->is_exact && same_facts(job, p->facts, e->first);
    if (!job->replaced || !p->is_exact)
      job->replaced = p;
  }
  n_exact += !first_has_plan && widen_all(s, job, e->first);
  job->is_exact = n_exact < most.n_exact && (!job->replaced || job->replaced->is_exact);
  if (job->is_exact) {
    job->facts = own;
    job->replaced = NULL;
  }
  if (job->stale && !job->replaced) {
    job->is_exact = job->stale->is_exact;
    job->facts = job->stale->facts;
  }
}

static void free_code_deferred(void *c) { code_free(c); }

/* Leave a recorded size open if it is `size`, and the strides that would follow from it. */
static void leave_open(ir_facts *f, int dim, int64_t size)
{
  if (dim >= f->n_dims || f->sizes[dim] != size)
    return;
  f->sizes[dim] = IR_SIZE_UNKNOWN;
  for (int k = 0; k < dim; k++)
    f->strides[k] = IR_STRIDE_UNKNOWN;
}

/* Where the plan leaves the size of an argument open, also leave it open at the points, wherever
 * the same dimension had the size of the first call: a guard that expects the first call's batch
 * would fail at every other batch.  A size that was computed from the batch (a product, say) is not
 * recognised; its guard fails twice, and the next plan knows better. */
static void open_points(const plan_job *job, ir_facts *points, uint32_t n_points)
{
  const executor *e = job->e;

  for (uint32_t i = 0; i < e->n_args; i++) {
    const ir_facts *wide = &job->facts[i], *first = &e->first[i];

    for (int d = 0; job->entry >> i & 1 && d < wide->n_dims && d < first->n_dims; d++)
      if (wide->sizes[d] == IR_SIZE_UNKNOWN && first->sizes[d] != IR_SIZE_UNKNOWN)
        for (uint32_t k = 0; k < n_points; k++)
          leave_open(&points[k], d, first->sizes[d]);
  }
}

/* Return the profiled code that a plan's guards bail out to, and tell the passes what it recorded;
 * NULL: the plan has no guards. */
static const code *profiled_for_plan(session *s, const plan_job *job, specialisation *sp)
{
  const code *c = context_profiles(s->cx->ctx) ? code_profiled(s, job->canonical) : NULL;

  if (!c)
    return NULL;
  ir_facts *seen = points_facts(s, c->points);
  open_points(job, seen, c->points->n);
  sp->base = c->graph;
  sp->points = (point_facts){seen, c->points->n, c->points->everywhere};
  return c;
}

static void make_plan(session *s, void *arg)
{
  plan_job *job = arg;
  function *f = job->canonical->function;
  const uint32_t n = job->e->n_args;
  const ir_facts **entry = session_array(s, const ir_facts *, (size_t)n + 1);
  specialisation sp = {
    .self = self_of(job->canonical, job->args), .entry = entry, .n_args = n};
  const code *profiled;

  choose_facts(s, job);
  if (!job->is_exact && !context_plan_limits(s->cx->ctx).n_wide)
    return;
  for (uint32_t i = 0; i < n; i++)
    entry[i] = job->entry >> i & 1 ? &job->facts[i] : NULL;
  session_lock_to_read(s, &f->program->lock);
  job->epoch = context_state_epoch(s->cx->ctx);
  profiled = profiled_for_plan(s, job, &sp);
  ir_graph *g = passes_run(s, f, &sp, job->is_recorded, NULL);
  session_defer(s, ir_graph_free_deferred, g);
  /* Behind other plans it is made all the same: it would be tried at each call. */
  job->is_useless =
    job->e->made == 0 && same_block(s, g->block, job->canonical->graph->block);
  if (job->is_useless)
    return;
  code *c = code_emit_graph(s, session_keep(s, g), f);
  session_defer(s, free_code_deferred, c);
  if (profiled) {
    c->bails_to = profiled;
    c->n_frame = c->n_frame > profiled->n_frame ? c->n_frame : profiled->n_frame;
  }
  job->made = plan_new(s, c, job, &sp);
}

/* -- Misses ------------------------------------------------------------------------------------ */

static executor *attach(call_ctx *cx, _Atomic(attachment *) *place, const code *canonical,
                        const rush_value *args)
{
  executor *e = mem_alloc_zero(cx->ctx, sizeof *e);
  ir_facts *first = mem_alloc(cx->ctx, canonical->n_args * sizeof *first);

  if (!e || !first) {
    mem_free(cx->ctx, e, sizeof *e);
    mem_free(cx->ctx, first, canonical->n_args * sizeof *first);
    return NULL;
  }
  for (uint32_t i = 0; i < canonical->n_args; i++)
    first[i] = entry_facts(args[i]);
  e->a.destroy = executor_destroy;
  e->ctx = cx->ctx;
  e->f = canonical->function;
  e->first = first;
  e->n_args = canonical->n_args;
  mutex_init(&e->lock);
  attachment *front = atomic_load(place);
  do {
    e->a.next = front;
  } while (!atomic_compare_exchange_weak(place, &front, &e->a));
  return e; /* another thread may have attached one, too: the newest is found */
}

/* Return the place of a new plan: that of the one which it replaces, a free one, or that of the
 * plan with the fewest hits. */
static int place_for(executor *e, const plan *replaced)
{
  uint64_t fewest = UINT64_MAX;
  int at = 0;

  for (int k = 0; k < MOST_PLANS; k++) {
    const plan *p = atomic_load_explicit(&e->plans[k], memory_order_relaxed);
    const uint64_t hits = p ? 1 + atomic_load_explicit(&((plan *)(uintptr_t)p)->hits,
                                                       memory_order_relaxed)
                            : 0;
    if (p && p == replaced)
      return k;
    if (hits < fewest) {
      fewest = hits;
      at = k;
    }
  }
  return at;
}

static void publish(executor *e, plan *p, const plan *replaced)
{
  p->older = e->all;
  e->all = p;
  e->made++;
  e->widened += replaced && replaced->code->bails_to ? !is_stale(replaced) : replaced != NULL;
  atomic_store_explicit(&e->plans[place_for(e, replaced)], p, memory_order_release);
}

/* Wait before the next attempt. */
static void note_failure(executor *e)
{
  e->failures++;
  e->next_wait = e->next_wait ? i64_min(2 * (int64_t)e->next_wait, 1 << 20) : 2;
  e->wait = e->next_wait;
}

/* Make a plan for the call; returns it, or NULL.  The executor's lock is held. */
static plan *plan_for(call_ctx *cx, executor *e, const code *canonical, const rush_value *args)
{
  call_ctx quiet = *cx;
  rush_error err = RUSH_ERROR_INIT;
  plan_job job = {
    .e = e, .canonical = canonical, .args = args, .is_recorded = code_may_record(cx, canonical)};

  if (atomic_load_explicit(&e->f->graph->types->n_refined, memory_order_relaxed) >= MOST_TYPES)
    return NULL;
  for (uint32_t i = 0; i < e->n_args; i++)
    if (!is_usual(cx, args[i]))
      return NULL;
  quiet.err = &err;
  const rush_status st = session_run(&quiet, make_plan, &job);
  rush_error_clear(&err);
  if (st != RUSH_OK)
    note_failure(e);
  else if (!job.made)
    atomic_store(&e->gave_up, job.is_useless);
  else
    publish(e, job.made, job.replaced ? job.replaced : job.stale);
  return job.made;
}

static plan *find_plan(executor *e, bool is_recorded, const rush_value *args)
{
  for (int k = 0; k < MOST_PLANS; k++) {
    plan *p = atomic_load_explicit(&e->plans[k], memory_order_acquire);
    if (p && p->is_recorded == is_recorded && !is_stale(p) && plan_fits(p, args) &&
        state_holds(e->ctx, p))
      return p;
  }
  return NULL;
}

COLD static plan *miss(call_ctx *cx, executor *e, const code *canonical, const rush_value *args)
{
  if (!mutex_try(&e->lock))
    return NULL;
  plan *p =
    find_plan(e, code_may_record(cx, canonical), args); /* another thread may have made it */
  if (!p && e->wait)
    e->wait--;
  else if (!p && e->made < MOST_MADE)
    p = plan_for(cx, e, canonical, args);
  mutex_unlock(&e->lock);
  return p;
}

/* -- Calls ------------------------------------------------------------------------------------- */

static inline void count_call(_Atomic uint64_t *n)
{
  atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

typedef struct profile_job {
  const code *canonical, *made;
} profile_job;

static void make_profiled(session *s, void *arg)
{
  profile_job *job = arg;

  session_lock_to_read(s, &job->canonical->function->program->lock);
  job->made = code_profiled(s, job->canonical);
}

/* Return the code of a first call: it records facts if the graph has points. */
COLD static const code *first_code(call_ctx *cx, const code *canonical)
{
  call_ctx quiet = *cx;
  rush_error err = RUSH_ERROR_INIT;
  profile_job job = {.canonical = canonical};

  if (!canonical->has_points || !context_profiles(cx->ctx) ||
      context_plan_limits(cx->ctx).off)
    return canonical;
  quiet.err = &err;
  const rush_status st = session_run(&quiet, make_profiled, &job);
  rush_error_clear(&err);
  return st == RUSH_OK && job.made ? job.made : canonical;
}

const code *executor_choose(call_ctx *cx, const code *canonical, const rush_value *args)
{
  _Atomic(attachment *) *place = place_of(canonical, args);
  executor *e = find_executor(place, canonical->function);

  if (UNLIKELY(!e)) {
    e = attach(cx, place, canonical, args);
    if (!e || !(cx->trial || context_get_options(cx->ctx)->plan_first))
      return first_code(cx, canonical);
  }
  if (atomic_load_explicit(&e->gave_up, memory_order_relaxed))
    return canonical;
  if (UNLIKELY(context_plan_limits(cx->ctx).off)) {
    atomic_store_explicit(&e->last, NULL, memory_order_relaxed);
    return canonical;
  }
  count_call(&e->calls);
  plan *p = find_plan(e, code_may_record(cx, canonical), args);
  if (UNLIKELY(!p))
    p = miss(cx, e, canonical, args);
  atomic_store_explicit(&e->last, p, memory_order_relaxed);
  if (UNLIKELY(!p))
    return canonical;
  count_call(&p->hits);
  return p->code;
}

/* True if the block has a node besides its constants. */
bool executor_serves(const code *c)
{
  if (!c->graph || !c->function || c->function->is_builtin || c->is_group || c->n_args > MOST_ARGS)
    return false;
  for (const ir_node *n = ir_block_first(c->graph->block); n != c->graph->block->ret; n = n->next)
    if (n->kind != IR_CONSTANT)
      return true;
  return false;
}

/* -- Seeing ------------------------------------------------------------------------------------ */

static executor *executor_of(const function *f, const rush_object *self)
{
  code *c = atomic_load_explicit(&f->code, memory_order_acquire);
  const rush_value v =
    self ? value_heap_steal(RUSH_TAG_OBJECT, (void *)(uintptr_t)self) : value_none(); /* borrowed */

  return c ? find_executor(place_of(c, &v), f) : NULL;
}

bool executor_get_counts(const function *f, const rush_object *self, executor_counts *out)
{
  executor *e = executor_of(f, self);

  if (!e)
    return false;
  *out = (executor_counts){.calls = atomic_load(&e->calls)};
  mutex_lock(&e->lock);
  out->made = e->made;
  out->widened = e->widened;
  out->failures = e->failures;
  for (const plan *p = e->all; p; p = p->older)
    out->hits += atomic_load(&((plan *)(uintptr_t)p)->hits);
  for (int k = 0; k < MOST_PLANS; k++)
    out->plans += atomic_load(&e->plans[k]) != NULL;
  mutex_unlock(&e->lock);
  return true;
}

ir_graph *executor_last_graph(session *s, function *f, const rush_object *self)
{
  const code *c;

  session_check(s, code_of(s->cx, f, &c));
  executor *e = executor_of(f, self);
  const plan *p = e ? atomic_load(&e->last) : NULL;
  session_lock_to_read(s, &f->program->lock); /* copies use the graph's scratch fields */
  c = p ? p->code : c;
  return ir_graph_twin(s, c->graph ? c->graph : f->graph);
}

static void describe_entry(text_buf *out, const plan *p)
{
  const ir_block *b = p->code->graph->block;

  for (uint32_t i = 0; i < p->n_args; i++) {
    const ir_value *in = ir_block_input(b, i);
    if (!(p->entry >> i & 1))
      continue;
    text_printf(out, "  argument %u, %s: ", i, in->name ? in->name : "?");
    if (p->facts[i].defined == 0)
      text_puts(out, "None");
    else
      ir_facts_print(out, &p->facts[i]);
    text_putc(out, '\n');
  }
}

static void describe_reads(text_buf *out, const plan *p)
{
  for (uint32_t i = 0; i < p->n_reads; i++) {
    const state_read *r = &p->reads[i];
    if (r->value.tag == RUSH_TAG_OBJECT)
      continue; /* the way to the others */
    text_printf(out, "  attribute %s: ", r->name);
    if (r->facts) {
      ir_facts_print(out, r->facts);
    } else {
      switch (r->value.tag) {
      case RUSH_TAG_BOOL: text_puts(out, r->value.as.b ? "True" : "False"); break;
      case RUSH_TAG_INT: text_printf(out, "%lld", (long long)r->value.as.i); break;
      case RUSH_TAG_FLOAT: ir_print_float(out, r->value.as.d); break;
      default: text_puts(out, "None"); break;
      }
    }
    text_putc(out, '\n');
  }
}

static void describe_guard(text_buf *out, const code *c, const site *st)
{
  const code_point *p = &c->bails_to->points->at[st->point];
  const site *map = &c->bails_to->sites[ins_imm(c->bails_to->code[p->pc])];

  text_printf(out, "  guard of point %u: %s, %u values in its snapshot, %u bailouts\n", st->point,
              st->type->kind == TYPE_TENSOR && st->type->name ? st->type->name : "any value",
              map->n_args - 1, atomic_load(&p->bailouts));
}

/* Print the plan's guards; the graph has their snapshots. */
static void describe_guards(text_buf *out, const code *c)
{
  if (!c->bails_to)
    return;
  text_printf(out, "  guards: %llu checked, %u did not hold\n",
              (unsigned long long)atomic_load(&c->guards_checked),
              atomic_load(&c->guards_failed));
  for (uint32_t pc = 0; pc < c->n_ins; pc++)
    if (c->code[pc].op == OPC_POINT_GUARD)
      describe_guard(out, c, &c->sites[ins_imm(c->code[pc])]);
}

/* Print what the plan's results take at once, and how many calls are prepared. */
static void describe_memory(session *s, text_buf *out, const code *c)
{
  const ir_live_set live = ir_live_set_of(s, c->graph);
  uint32_t instances = 0, places = 0;

  text_printf(out, "  memory: results take at most %llu bytes at once (%u results",
              (unsigned long long)live.bytes, live.n_results);
  if (live.n_unknown)
    text_printf(out, "; %u more have unknown sizes", live.n_unknown);
  for (uint32_t i = 0; i < c->n_caches; i++) {
    const uint32_t n = op_cache_count(&c->caches[i]);
    places += n > 0;
    instances += n;
  }
  text_printf(out, ")\n  instances: %u, at %u of %u operators\n", instances, places, c->n_caches);
}

/* Print the graph of the code that a function runs. */
static void print_code(text_buf *out, const function *f)
{
  const code *c = atomic_load_explicit(&f->code, memory_order_acquire);

  ir_print(out, c && c->graph ? c->graph : f->graph, false);
}

/* Print what the parts that are differentiated as one run. */
static void describe_differentiated(text_buf *out, const code *c)
{
  uint32_t number = 0;

  for (uint32_t i = 0; i < c->n_sites; i++)
    if (site_is_differentiated(&c->sites[i]))
      diff_node_describe(out, c->sites[i].state->user, number++, print_code);
}

void executor_describe(session *s, text_buf *out, const function *f, const rush_object *self)
{
  executor *e = executor_of(f, self);
  executor_counts n = {0};

  (void)executor_get_counts(f, self, &n);
  text_printf(out,
              "%s: %llu calls, %llu of them ran a plan; %u plans, %u made, %u of them wider than "
              "the one before, %u failures%s\n",
              f->name, (unsigned long long)n.calls, (unsigned long long)n.hits, n.plans, n.made,
              n.widened, n.failures,
              e && atomic_load(&e->gave_up) ? "; a plan would be the code that runs anyway" : "");
  if (!e)
    return;
  session_lock_to_read(s, &e->lock);
  session_lock_to_read(s, &f->program->lock); /* the graphs' scratch fields */
  for (int k = 0; k < MOST_PLANS; k++) {
    const plan *p = atomic_load(&e->plans[k]);
    if (!p)
      continue;
    text_printf(out, "plan %d, %llu calls:\n", k,
                (unsigned long long)atomic_load(&((plan *)(uintptr_t)p)->hits));
    describe_entry(out, p);
    describe_reads(out, p);
    describe_guards(out, p->code);
    describe_memory(s, out, p->code);
    ir_print(out, p->code->graph, false);
    describe_differentiated(out, p->code);
  }
}
