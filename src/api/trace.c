/* api/trace.c -- the functions of script.h that record traces: rush_trace_* (calls of this library)
 * and rush_recorder_* (calls that a host reports).  Each of the latter is a job that runs in a
 * session with the unit locked, so that hosts see only statuses. */
#include "rushlight/script.h"

#include "api/api_int.h"
#include "api/ir_int.h"
#include "module/module.h"
#include "ops/call/lookup.h"
#include "script/front/host.h"
#include "trace/recorder.h"
#include "trace/sensor.h"

/* -- Traces of calls of this library ----------------------------------------------------------- */

/* -- Tracing ----------------------------------------------------------------------------------- */

rush_status rush_trace_begin(rush_context *c, const rush_value *inputs, const char *const *names,
                             size_t n, rush_trace **out, rush_error *err)
{
  call_ctx cx;
  trace *t;

  TRY(api_begin(&cx, c, err));
  TRY(trace_begin(cx.ctx, inputs, names, (uint32_t)n, &t, err));
  *out = (rush_trace *)t;
  return RUSH_OK;
}

rush_status rush_trace_end(rush_trace *given, const rush_value *outputs, size_t n_outputs,
                           rush_module **out, rush_error *err)
{
  trace *t = (trace *)given;
  context *c = context_retain(trace_context(t));
  rush_value object;
  program *p;
  call_ctx cx;
  rush_status st = api_begin(&cx, c, err);

  if (st != RUSH_OK)
    trace_drop(t);
  else if ((st = trace_end_steal(&cx, t, outputs, (uint32_t)n_outputs, &p, &object)) == RUSH_OK) {
    st = module_around(&cx, p, object, NULL, out);
    value_release(object);
    program_release(p);
  }
  context_release(c);
  return st;
}

void rush_trace_cancel(rush_trace *t) { trace_drop((trace *)t); }

/* -- Recorders --------------------------------------------------------------------------------- */

typedef struct record_job { /* one call, in a session with the program locked */
  program *p;
  recorder *r;
  void (*body)(session *s, struct record_job *j);
  const char *text, *type, *where;
  const rush_recorded *node;
  const rush_type *self;
  rush_value value;
  uint32_t in, *out;
  size_t n;
  void *result;
} record_job;

static recorder *recorder_in(rush_recorder *r) { return (recorder *)r; }

static void run_locked(session *s, void *arg)
{
  record_job *j = arg;

  script_host_enter(s, j->p);
  j->body(s, j);
}

static rush_status run(record_job *j, rush_error *err)
{
  call_ctx cx;

  if (j->r)
    j->p = recorder_program(j->r);
  TRY(api_begin(&cx, j->p->ctx, err));
  return session_run(&cx, run_locked, j);
}

static const type *type_of_text(session *s, const record_job *j, const char *text)
{
  return text ? ir_parse_type(s, &j->p->types, text) : NULL;
}

static void create_recorder(session *s, record_job *j)
{
  j->result = recorder_new(s, j->p, (const type *)j->self);
}

rush_status rush_recorder_create(rush_unit *u, const rush_type *self, rush_recorder **out,
                                 rush_error *err)
{
  record_job j = {.p = (program *)u, .body = create_recorder, .self = self};

  TRY(run(&j, err));
  *out = j.result;
  return RUSH_OK;
}

void rush_recorder_release(rush_recorder *r) { recorder_free(recorder_in(r)); }

static void add_input(session *s, record_job *j)
{
  *j->out = recorder_input(s, j->r, type_of_text(s, j, j->type), j->text);
}

rush_status rush_recorder_input(rush_recorder *r, const char *name, const char *type,
                                uint32_t *out, rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = add_input, .text = name, .type = type, .out = out};

  return run(&j, err);
}

static void find_attribute(session *s, record_job *j)
{
  *j->out = recorder_attribute(s, j->r, j->text);
}

rush_status rush_recorder_attribute(rush_recorder *r, const char *path, uint32_t *out,
                                    rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = find_attribute, .text = path, .out = out};

  return run(&j, err);
}

static void add_constant(session *s, record_job *j)
{
  *j->out = recorder_constant(s, j->r, j->value, type_of_text(s, j, j->type), j->where);
}

rush_status rush_recorder_constant(rush_recorder *r, rush_value value, const char *type,
                                   const char *where, uint32_t *out, rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = add_constant, .value = value, .type = type,
                  .where = where, .out = out};

  return run(&j, err);
}

/* Split "aten::add.Tensor" or "aten::relu." into *kind, "aten::add", and the operator; NULL: no
 * overload is named, or none is known. */
static const op *overload_of(session *s, const char **kind)
{
  const char *colons = strstr(*kind, "::"), *dot = colons ? strchr(colons, '.') : NULL;

  if (!dot)
    return NULL;
  *kind = session_strndup(s, *kind, (size_t)(dot - *kind));
  return session_op_find(s, str_of(*kind), str_of(dot + 1));
}

static void add_node(session *s, record_job *j)
{
  const rush_recorded *n = j->node;
  const type **types = session_array(s, const type *, n->n_outputs + 1);
  const char *kind = n->kind;
  const op *o = overload_of(s, &kind);

  for (size_t i = 0; i < n->n_outputs && n->types; i++)
    types[i] = type_of_text(s, j, n->types[i]);
  recorder_add(s, j->r,
               &(recorder_call){.kind = kind,
                                .op = o,
                                .callee = (function *)n->callee,
                                .method = n->method,
                                .host_attrs = n->host_attrs,
                                .host_scalars = n->host_scalars,
                                .inputs = n->inputs,
                                .n_inputs = (uint32_t)n->n_inputs,
                                .n_outputs = (uint32_t)n->n_outputs,
                                .types = types,
                                .where = n->where,
                                .after = n->after},
               j->out);
}

rush_status rush_recorder_add(rush_recorder *r, const rush_recorded *node, uint32_t *outputs,
                              rush_error *err)
{
  rush_recorded own;
  record_job j = {.r = recorder_in(r), .body = add_node, .node = &own, .out = outputs};

  TRY(API_READ(err, rush_recorded, node, &own));
  TRY(API_NEED(err, rush_recorded, &own, kind));
  return run(&j, err);
}

static void name_value(session *s, record_job *j) { recorder_set_name(s, j->r, j->in, j->text); }

rush_status rush_recorder_set_name(rush_recorder *r, uint32_t value, const char *name,
                                   rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = name_value, .in = value, .text = name};

  return run(&j, err);
}

void rush_recorder_skip(rush_recorder *r, uint32_t n) { recorder_skip(recorder_in(r), n); }

void rush_recorder_keep_unused(rush_recorder *r) { recorder_keep_unused(recorder_in(r)); }

static void open_frame(session *s, record_job *j) { recorder_open(s, j->r, j->text); }

rush_status rush_recorder_open(rush_recorder *r, const char *path, rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = open_frame, .text = path};

  return run(&j, err);
}

static void close_frame(session *s, record_job *j) { *j->out = recorder_close(s, j->r, j->in); }

rush_status rush_recorder_close(rush_recorder *r, uint32_t result, uint32_t *out, rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = close_frame, .in = result, .out = out};

  return run(&j, err);
}

static void finish_trace(session *s, record_job *j) { j->n = recorder_finish(s, j->r, j->in); }

rush_status rush_recorder_finish(rush_recorder *r, uint32_t output, size_t *n_functions,
                                 rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = finish_trace, .in = output};

  TRY(run(&j, err));
  *n_functions = j.n;
  return RUSH_OK;
}

static void copy_graph(session *s, record_job *j)
{
  j->result = recorder_graph(s, j->r, (uint32_t)j->n);
}

rush_status rush_recorder_graph(rush_recorder *r, size_t i, rush_graph **out, rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = copy_graph, .n = i < UINT32_MAX ? i : UINT32_MAX};

  TRY(run(&j, err));
  *out = graph_out(j.result);
  return RUSH_OK;
}

static void define_trace(session *s, record_job *j)
{
  j->result = recorder_define(s, j->r, j->text);
}

rush_status rush_recorder_define(rush_recorder *r, const char *name, rush_function **out,
                                 rush_error *err)
{
  record_job j = {.r = recorder_in(r), .body = define_trace, .text = name};

  TRY(run(&j, err));
  *out = j.result;
  return RUSH_OK;
}
