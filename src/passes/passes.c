/* passes/passes.c -- the passes registered in a context, and running them over a copy of a graph.
 * Registration appends under a lock and publishes the count atomically, so that running takes no
 * lock; the array has a fixed size because it must not move under readers. */
#include "passes/passes.h"

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

static uint32_t n_passes(context *c)
{
  pass_row *row = context_slot_get(c, SLOT_PASSES);

  return row && !context_get_options(c)->no_passes
           ? atomic_load_explicit(&row->n, memory_order_acquire)
           : 0;
}

bool passes_wanted(context *c) { return n_passes(c) > 0; }

ir_graph *passes_run(session *s, const ir_graph *g, text_buf *report)
{
  context *c = s->cx->ctx;
  pass_row *row = context_slot_get(c, SLOT_PASSES);
  uint32_t n = n_passes(c);
  ir_graph *own = ir_graph_copy(s, g);
  rush_pass p = {.s = s, .graph = own, .report = report};

  session_defer(s, ir_graph_free_deferred, own);
  pass_autocast(s, own); /* no choice: it is part of the program's meaning */
  for (uint32_t i = 0; i < n; i++) {
    const rush_pass_def *def = &row->defs[row->in_order[i]];

    session_check(s,
                  error_of_callback(s->cx->err, def->run(&p, def->user), "the pass %s", def->name));
    ir_verify_pass(s, own, g, def->name);
  }
  return session_keep(s, own);
}
