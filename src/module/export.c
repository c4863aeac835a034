/* module/export.c -- a module's method as an exported program: captured on facts
 * (export/capture.h), then made to run like one that was loaded.  State is shared with the module.
 * */
#include "export/lower.h"
#include "module/module.h"

typedef struct export_job {
  module *m;
  function *f;
  const rush_value *args; /* complete */
  capture_options options;
  capture_place place;
  module *made;
} export_job;

/* TorchScript says which attributes are parameters; its tensors do not.  A tied one has several
 * names. */
static void mark_parameters(session *s, const exported_program *data, const rush_object *o)
{
  class_info *cls = o->type->cls;
  table *parameters = session_new(s, table);

  session_table_init(s, parameters);
  for (uint32_t i = 0; i < data->n_inputs; i++) {
    const program_input *in = &data->inputs[i];
    const int at = in->kind == INPUT_PARAMETER ? class_attr_index(o->type, str_of(in->target)) : -1;
    if (at >= 0)
      session_table_put(s, parameters, address_key(o->slots[at].as.tensor), cls);
  }
  for (uint32_t i = 0; i < cls->n_attrs; i++)
    if (table_get(parameters, address_key(o->slots[i].as.tensor))) {
      cls->attrs[i].is_parameter = true;
      cls->attrs[i].is_buffer = false;
    }
}

void module_lower(session *s, const exported_program *data, const table *state, bool check_guards,
                  module *made)
{
  exported_program *plain = session_new(s, exported_program);
  rush_value self;

  if (!check_guards) {
    memcpy(plain, data, sizeof *plain); /* borrows all that it names */
    plain->n_guards = 0;
  }
  made->program = program_new(s, s->cx->ctx);
  made->exported = exported_lower(s, check_guards ? data : plain, state, made->program, &self);
  mark_parameters(s, data, self.as.object);
  made->format = RUSH_FORMAT_EXPORT;
  made->object = value_retain(self);
  made->data = exported_program_retain((exported_program *)(uintptr_t)data);
}

static void export_body(session *s, void *arg)
{
  export_job *job = arg;
  table *state = session_new(s, table);

  session_table_init(s, state);
  exported_program *data =
    capture_function(s, job->f, job->args, job->f->schema->n_args, &job->options, state);
  module_lower(s, data, state, true, job->made);
}

/* Tell how each parameter is given. */
static void find_given(const function *f, uint32_t n_args, const named_arg *kwargs,
                       uint32_t n_kwargs, capture_given *given)
{
  const uint32_t first = function_takes_self(f);

  for (uint32_t i = 0; i < f->schema->n_args; i++)
    given[i] = i < first + n_args ? CAPTURE_BY_POSITION : CAPTURE_DEFAULT;
  for (uint32_t i = 0; i < n_kwargs; i++) {
    const int at = schema_arg_index(f->schema, kwargs[i].name);
    if (at >= 0)
      given[at] = CAPTURE_BY_NAME;
  }
}

/* Append where the author wrote what failed. */
static void add_place(call_ctx *cx, const capture_place *at)
{
  source_range range = at->range;
  source *src = NULL;
  text_buf out;

  if (!at->in || !cx->err)
    return;
  text_init(&out, cx->ctx);
  text_printf(&out, "%s\n\nThe operation that failed was written in:\n", cx->err->message);
  program *p = at->in->program;
  if (p->original && p->original(cx, p, &at->range, &range, &src))
    source_excerpt_in(&out, &range, at->in->name);
  else
    source_excerpt_in(&out, &at->range, at->in->name);
  source_release(src);
  if (!text_failed(&out)) {
    if (out.data[out.len - 1] == '\n')
      out.data[--out.len] = '\0';
    error_set_type(cx->err, cx->err->status, cx->err->type, "%s", text_str(&out));
  }
  text_free(&out);
}

static rush_status export_bound(call_ctx *cx, export_job *job, const rush_value *args,
                                uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs)
{
  const schema *sc = job->f->schema;
  const uint32_t n_self = function_takes_self(job->f), n = n_args + n_self + sc->n_args;
  const size_t n_bytes = 2 * ((size_t)n + 1) * sizeof(rush_value);
  rush_value *row = mem_alloc(cx->ctx, n_bytes), *bound = row + n + 1;
  capture_given *given = mem_alloc(cx->ctx, ((size_t)sc->n_args + 1) * sizeof *given);
  rush_status st = RUSH_ENOMEM;

  if (!row || !given) {
    st = call_nomem(cx);
  } else {
    row[0] = job->m->object;
    if (n_args)
      memcpy(row + n_self, args, n_args * sizeof *row);
    st = schema_bind(cx, sc, true, row, n_args + n_self, kwargs, n_kwargs, bound);
  }
  if (st == RUSH_OK) {
    find_given(job->f, n_args, kwargs, n_kwargs, given);
    job->args = bound;
    job->options.given = given;
    job->options.place = &job->place;
    st = session_run(cx, export_body, job);
    if (st == RUSH_ERAISED || st == RUSH_EUNSUPPORTED || st == RUSH_EARGUMENT)
      add_place(cx, &job->place);
    for (uint32_t i = 0; i < sc->n_args; i++)
      value_release(bound[i]);
  }
  mem_free(cx->ctx, row, n_bytes);
  mem_free(cx->ctx, given, ((size_t)sc->n_args + 1) * sizeof *given);
  return st;
}

rush_status module_export(call_ctx *cx, module *m, const char *method, const rush_value *args,
                          uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                          const capture_options *options, module **out)
{
  export_job job = {.m = m, .options = *options};
  lock_hold hold;

  if (m->exported)
    return error_set(cx->err, RUSH_EARGUMENT, "the module is an exported program already");
  TRY(module_method(m, method, &job.f, cx->err));
  TRY(module_place(cx, m, function_prepare(cx, job.f)));
  job.made = module_new(cx);
  if (!job.made)
    return call_nomem(cx);
  rush_status st = lock_take(cx, m->lock, LOCK_EXCLUSIVE, &hold);
  if (st == RUSH_OK) {
    st = export_bound(cx, &job, args, n_args, kwargs, n_kwargs);
    lock_drop(&hold);
  }
  if (st != RUSH_OK) {
    module_release(job.made);
    return module_place(cx, m, st);
  }
  module_share_lock(job.made, NULL);
  *out = job.made;
  return RUSH_OK;
}
