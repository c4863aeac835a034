/* passes/passes.c -- the passes registered in a context, and running them over a copy of a graph.
 * Registration appends under a lock and publishes the count atomically, so that running takes no
 * lock; the array has a fixed size because it must not move under readers. */
#include "passes/passes_int.h"
#include "passes/specialise.h"

#include "base/error.h"
#include "base/threads.h"

#define MOST_PASSES 64

typedef struct pass_row {
  mutex lock;
  context *ctx;
  _Atomic uint32_t n; /* published after defs[n - 1] */
  rush_pass_def defs[MOST_PASSES];
  uint8_t in_order[MOST_PASSES]; /* of running */
} pass_row;

static void destroy_row(context *c, void *object)
{
  pass_row *row = object;
  uint32_t n = atomic_load(&row->n);

  for (uint32_t i = 0; i < n; i++)
    if (row->defs[i].destroy_user)
      row->defs[i].destroy_user(row->defs[i].user);
  for (uint32_t i = 0; i < n; i++)
    mem_free(c, (void *)(uintptr_t)row->defs[i].name, strlen(row->defs[i].name) + 1);
  mutex_destroy(&row->lock);
  mem_free(c, row, sizeof *row);
}

static pass_row *row_of(context *c)
{
  pass_row *row = context_slot_get(c, SLOT_PASSES);

  if (row)
    return row;
  row = mem_alloc_zero(c, sizeof *row);
  if (!row)
    return NULL;
  row->ctx = c;
  mutex_init(&row->lock);
  return context_slot_publish_steal(c, SLOT_PASSES, row, destroy_row);
}

static rush_status add_pass(pass_row *row, const rush_pass_def *def, rush_error *err)
{
  uint32_t n = atomic_load(&row->n);

  if (n == MOST_PASSES)
    return error_set(err, RUSH_EARGUMENT, "a context can have %d passes; '%s' is one too many",
                     MOST_PASSES, def->name);
  size_t len = strlen(def->name) + 1;
  char *name = mem_alloc(row->ctx, len);
  if (!name)
    return error_nomem(err);
  row->defs[n] = (rush_pass_def){0};
  memcpy(&row->defs[n], def, def->struct_bytes < sizeof *def ? def->struct_bytes : sizeof *def);
  row->defs[n].name = memcpy(name, def->name, len);
  row->in_order[n] = (uint8_t)n; /* programs are loaded afterwards: no other thread reads now */
  for (uint32_t i = n; i > 0 && row->defs[row->in_order[i - 1]].order > def->order; i--) {
    row->in_order[i] = row->in_order[i - 1];
    row->in_order[i - 1] = (uint8_t)n;
  }
  for (uint32_t i = 0; i < n; i++)
    ASSERT(row->defs[row->in_order[i]].order <= row->defs[row->in_order[i + 1]].order,
           "passes run by their `order`");
  atomic_store_explicit(&row->n, n + 1, memory_order_release);
  return RUSH_OK;
}

rush_status pass_register(context *c, const rush_pass_def *def, rush_error *err)
{
  if (!def->name || !def->run)
    return error_set(err, RUSH_EARGUMENT, "a pass needs a name and a function");
  pass_row *row = row_of(c);
  if (!row)
    return error_nomem(err);
  mutex_lock(&row->lock);
  rush_status st = add_pass(row, def, err);
  mutex_unlock(&row->lock);
  return st;
}

bool passes_wanted(context *c) { return !context_get_options(c)->no_passes; }

static uint32_t n_passes(context *c)
{
  pass_row *row = context_slot_get(c, SLOT_PASSES);

  return row && passes_wanted(c) ? atomic_load_explicit(&row->n, memory_order_acquire) : 0;
}

/* Run the registered passes; `before`: the graph whose inputs and outputs they must keep. */
static void run_registered(session *s, rush_pass *p, const ir_graph *before)
{
  context *c = s->cx->ctx;
  pass_row *row = context_slot_get(c, SLOT_PASSES);

  for (uint32_t i = 0, n = n_passes(c); i < n; i++) {
    const rush_pass_def *def = &row->defs[row->in_order[i]];

    session_check(s,
                  error_of_callback(s->cx->err, def->run(p, def->user), "the pass %s", def->name));
    ir_verify_pass(s, p->graph, before, def->name);
  }
}

void pass_run_registered(session *s, ir_graph *g)
{
  ir_graph *before = ir_graph_copy(s, g);
  rush_pass p = {.s = s, .graph = g};

  session_defer(s, ir_graph_free_deferred, before);
  run_registered(s, &p, before);
}

ir_graph *passes_base(session *s, const function *f, bool is_recorded)
{
  ir_graph *own = ir_graph_copy(s, f->graph);

  ASSERT(own != f->graph && own->next_origin == f->graph->next_origin,
         "passes change a copy only");
  session_defer(s, ir_graph_free_deferred, own);
  own->is_recorded = is_recorded;
  if (passes_wanted(s->cx->ctx))
    pass_inline_calls(s, own, f);
  pass_autocast(s, own); /* no choice: these two are part of the program's meaning */
  pass_canonicalize_ops(s, own);
  return session_keep(s, own);
}

ir_graph *passes_run(session *s, const function *f, specialisation *sp, bool is_recorded,
                     text_buf *report)
{
  ir_graph *own =
    sp && sp->base ? ir_graph_copy(s, sp->base) : passes_base(s, f, is_recorded);
  rush_pass p = {.s = s, .graph = own, .report = report};

  session_defer(s, ir_graph_free_deferred, own);
  own->has_points = sp && sp->base;
  own->is_recorded = is_recorded;
  if (sp)
    pass_specialise(s, own, sp);
  if (sp && is_recorded)
    pass_create_autodiff_subgraphs(s, own);
  run_registered(s, &p, f->graph);
  if (sp && sp->base)
    pass_thin_guards(s, own);
  return session_keep(s, own);
}
