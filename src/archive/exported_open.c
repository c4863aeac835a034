/* archive/exported_open.c -- opens an exported program as data.
 *
 * The graph is read at once, without the operators that it calls.  Weights are read when they are
 * asked for, once, so that all modules made of the program share them; each module is lowered from
 * the archive, as exported_program.c does for a program that only runs: what is kept here is not in
 * the form that lowering takes.  Cost: O(bytes of the graph), then O(tensors). */
#include "archive/exported_open.h"

#include "archive/exported_program.h"
#include "export/decompose.h"

exported_open *exported_open_retain(exported_open *o)
{
  atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
  return o;
}

/* Release the tensors of the state, which may be read anew. */
static void drop_state(exported_open *o)
{
  for (uint32_t i = 0; i < o->n_state; i++)
    value_release(value_tensor_steal(o->state[i].tensor));
  o->n_state = 0;
}

void exported_open_release(exported_open *o)
{
  if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
    return;
  context *c = o->ctx;

  drop_state(o);
  mapping_release(o->samples);
  table_free(&o->extra_files);
  exported_program_release(o->data);
  program_release(o->types);
  call_lock_release(o->lock);
  arena_free(&o->mem);
  mem_free(c, o, sizeof *o);
  context_release(c);
}

/* -- Opening ----------------------------------------------------------------------------------- */

typedef struct open_job {
  const archive_source *from;
  const module *module; /* instead; or NULL */
  const exported_open *decompose; /* likewise */
  const decompose_table *ops; /* or NULL */
  exported_open *o;
} open_job;

static void keep_opset(session *s, exported_open *o)
{
  const str opset = o->data->opset_version;

  o->opset =
    memcpy(session_alloc_in(s, &o->mem, opset.len + 1), opset.len ? opset.p : "", opset.len);
}

static void open_body(session *s, void *arg)
{
  const open_job *job = arg;
  exported_open *o = job->o;
  mapping *map = archive_map(s, job->from);

  if (job->from->meta)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "%s: `meta` is for programs that run: here weights are read when they are "
                        "asked for",
                        map->name);
  if (!zip_looks_like(map->data, map->n_bytes))
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL,
                        "%s: expected a .pt2 archive of torch.export.save, which is a zip file",
                        map->name);
  zip_archive *z = zip_open(s, map, job->from->check_full);
  if (job->from->check_full)
    zip_check(s, z);
  const str name = exported_choose(s, z, job->from->program);
  o->types = program_new(s, s->cx->ctx);
  o->data = session_keep(s, exported_read(s, z, name, EXPORTED_AS_DATA));
  o->samples = exported_samples(s, z, name);
  archive_extra_files(s, z, &o->mem, &o->extra_files);
  keep_opset(s, o);
}

/* Keep a tensor as the next of the state, which has room for it. */
static void keep_tensor(session *s, exported_open *o, str name, const exported_tensor *t)
{
  char *copy = session_alloc_in(s, &o->mem, name.len + 1);

  memcpy(copy, name.p, name.len);
  o->state[o->n_state] = *t;
  o->state[o->n_state].name = copy;
  value_retain(value_tensor_steal(t->tensor));
  o->n_state++;
}

static void of_module_body(session *s, void *arg)
{
  const open_job *job = arg;
  exported_open *o = job->o;
  uint32_t n;

  const exported_program *p = exported_of_module(s, job->module);
  o->types = program_new(s, s->cx->ctx);
  o->data = exported_program_retain((exported_program *)(uintptr_t)p);
  o->samples = job->module->samples ? mapping_retain(job->module->samples) : NULL;
  if (p->zip)
    archive_extra_files(s, p->zip, &o->mem, &o->extra_files);
  keep_opset(s, o);
  const exported_tensor *state = exported_list_state(s, job->module, p, &n);
  o->state = session_alloc_in(s, &o->mem, ((size_t)n + 1) * sizeof *o->state);
  for (uint32_t i = 0; i < n; i++)
    keep_tensor(s, o, str_of(state[i].name), &state[i]);
  o->has_state = true;
}

static rush_status open_with(call_ctx *cx, open_job *job, void (*body)(session *s, void *arg),
                             exported_open **out)
{
  exported_open *o = mem_alloc_zero(cx->ctx, sizeof *o);
  call_lock *lock = o ? call_lock_new(cx->ctx) : NULL;

  if (!lock) {
    mem_free(cx->ctx, o, sizeof *o);
    return call_nomem(cx);
  }
  atomic_init(&o->refs, 1);
  o->lock = lock;
  o->ctx = context_retain(cx->ctx);
  arena_init(&o->mem, o->ctx);
  table_init(&o->extra_files, o->ctx);
  job->o = o;
  const rush_status st = session_run(cx, body, job);
  if (st == RUSH_OK)
    *out = o;
  else
    exported_open_release(o);
  return st;
}

rush_status exported_open_new(call_ctx *cx, const archive_source *from, exported_open **out)
{
  return open_with(cx, &(open_job){.from = from}, open_body, out);
}

rush_status exported_open_of_module(call_ctx *cx, const module *m, exported_open **out)
{
  return open_with(cx, &(open_job){.module = m}, of_module_body, out);
}

static void decompose_body(session *s, void *arg)
{
  const open_job *job = arg;
  const exported_open *from = job->decompose;
  exported_open *o = job->o;

  o->data = session_keep(s, decompose_program(s, from->data, job->ops));
  o->types = program_new(s, s->cx->ctx);
  o->samples = from->samples ? mapping_retain(from->samples) : NULL;
  if (o->data->zip)
    archive_extra_files(s, o->data->zip, &o->mem, &o->extra_files);
  keep_opset(s, o);
  o->state = session_alloc_in(s, &o->mem, ((size_t)from->n_state + 1) * sizeof *o->state);
  for (uint32_t i = 0; i < from->n_state; i++)
    keep_tensor(s, o, str_of(from->state[i].name), &from->state[i]);
  o->has_state = true;
}

rush_status exported_open_decompose(call_ctx *cx, exported_open *o, const decompose_table *ops,
                                    exported_open **out)
{
  TRY(exported_open_state(cx, o));
  return open_with(cx, &(open_job){.decompose = o, .ops = ops}, decompose_body, out);
}

/* -- State ------------------------------------------------------------------------------------- */

static void state_body(session *s, void *arg)
{
  exported_open *o = arg;
  table *found = session_new(s, table);
  uint32_t n_weights;

  session_table_init(s, found);
  exported_state_read(s, o->data->zip, str_of(o->data->name), o->types, found, &n_weights);
  o->state = session_alloc_in(s, &o->mem, ((size_t)found->n + 1) * sizeof *o->state);
  for (uint32_t i = 0; i < found->n; i++) {
    rush_tensor *t = found->entries[i].value;
    keep_tensor(s, o, found->entries[i].key,
                &(exported_tensor){.is_constant = i >= n_weights,
                                   .is_parameter = (t->h.flags & TENSOR_IS_PARAMETER) != 0,
                                   .tensor = t});
  }
  o->has_state = true;
}

rush_status exported_open_state(call_ctx *cx, exported_open *o)
{
  rush_status st = RUSH_OK;
  lock_hold hold;

  TRY(lock_take(cx, o->lock, LOCK_EXCLUSIVE, &hold));
  if (!o->has_state && (st = session_run(cx, state_body, o)) != RUSH_OK)
    drop_state(o);
  lock_drop(&hold);
  return st;
}

rush_status exported_open_write(call_ctx *cx, exported_open *o, const archive_target *to)
{
  TRY(exported_open_state(cx, o));
  const exported_source from = {.zip = o->data->zip,
                                .data = o->data,
                                .state = o->state,
                                .n_state = o->n_state,
                                .samples = o->samples};
  return exported_write_source(cx, &from, to);
}

/* -- Rules ------------------------------------------------------------------------------------- */

typedef struct verify_job {
  const exported_open *o;
  const char *dialect;
  text_buf *out;
} verify_job;

static void verify_body(session *s, void *arg)
{
  const verify_job *job = arg;

  exported_faults(s, job->o->data->zip, job->o->data, job->dialect, job->out);
  if (text_failed(job->out)) /* an empty text would say that there are no faults */
    session_check(s, call_nomem(s->cx));
}

rush_status exported_open_verify(call_ctx *cx, const exported_open *o, const char *dialect,
                                 text_buf *out)
{
  return session_run(cx, verify_body, &(verify_job){o, dialect, out});
}

/* -- What runs --------------------------------------------------------------------------------- */

typedef struct module_job {
  const exported_open *o;
  bool check_guards;
  module *m;
} module_job;

static void module_body(session *s, void *arg)
{
  const module_job *job = arg;
  const exported_open *o = job->o;
  table *state = session_new(s, table);

  session_table_init(s, state);
  for (uint32_t i = 0; i < o->n_state; i++)
    session_table_put(s, state, str_of(o->state[i].name), o->state[i].tensor);
  if (!o->data->zip || o->data->of) {
    module_lower(s, o->data, state, job->check_guards, job->m);
    job->m->archive = o->data->zip ? zip_retain(o->data->zip) : NULL;
    job->m->archive_name = o->data->name;
    job->m->samples = o->samples ? mapping_retain(o->samples) : NULL;
    return;
  }
  job->m->program = program_new(s, s->cx->ctx); /* the module's, also if this fails */
  exported_module_fill(s, o->data->zip, str_of(o->data->name), state, job->check_guards, job->m);
  archive_extra_files(s, o->data->zip, &job->m->program->mem, &job->m->extra_files);
}

rush_status exported_open_module(call_ctx *cx, exported_open *o, bool check_guards, module **out)
{
  TRY(exported_open_state(cx, o));
  module *m = module_new(cx);
  if (!m)
    return call_nomem(cx);
  module_job job = {o, check_guards, m};
  const rush_status st = session_run(cx, module_body, &job);
  if (st == RUSH_OK) {
    module_share_lock(m, NULL);
    *out = m;
  } else {
    module_release(m);
  }
  return st;
}
