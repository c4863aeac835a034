/* api/export.c -- exported programs as data (rushlight/export.h): handles of the public interface
 * are the program's own objects, and its structs are filled from theirs, so that walking a program
 * copies nothing.  Kinds of both are in the same order, which is asserted here. */
#include "api/api_int.h"

#include "archive/exported_open.h"
#include "archive/exported_program.h"
#include "rushlight/export.h"

#define SAME(public, ours) _Static_assert((int)(public) == (int)(ours), "kinds are in one order")
SAME(RUSH_EXPORT_OUTPUT, FX_OUTPUT);
SAME(RUSH_EXPORT_COMPLEX, FX_COMPLEX);
SAME(RUSH_EXPORT_OBJECT, FX_OBJECT);
SAME(RUSH_EXPORT_VAL_CONSTANT, FX_VAL_CONSTANT);
SAME(RUSH_EXPORT_TOKEN, INPUT_TOKEN);
SAME(RUSH_EXPORT_TOKEN_OUTPUT, EXPORTED_TOKEN);
SAME(RUSH_EXPORT_SPEC_TOKEN, ARG_TOKEN);

/* Fill the caller's struct, which begins with struct_bytes, from the fields. */
#define FILL(out, type, ...) api_fill((out), &(type){sizeof(type), __VA_ARGS__}, sizeof(type))

static const fx_graph *graph_of(const rush_export_graph *g)
{
  return (const fx_graph *)(const void *)g;
}
static const fx_node *node_of(const rush_export_node *n)
{
  return (const fx_node *)(const void *)n;
}
static const fx_arg *arg_of(const rush_export_arg *a) { return (const fx_arg *)(const void *)a; }
static const fx_val *val_of(const rush_export_val *v) { return (const fx_val *)(const void *)v; }
static const rush_export_graph *graph_out(const fx_graph *g) { return (const void *)g; }
static const rush_export_node *node_out(const fx_node *n) { return (const void *)n; }
static const rush_export_arg *arg_out(const fx_arg *a) { return (const void *)a; }
static const rush_export_val *val_out(const fx_val *v) { return (const void *)v; }
static const rush_export_expression *expression_out(const expression *e) { return (const void *)e; }

/* -- Programs ---------------------------------------------------------------------------------- */

static rush_status load(rush_context *c, archive_source *from, const rush_load_options *o,
                        rush_exported_program **out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(api_load_options(from, o, err));
  return exported_open_new(&cx, from, out);
}

rush_status rush_exported_program_load(rush_context *c, const char *path,
                                       const rush_load_options *o, rush_exported_program **out,
                                       rush_error *err)
{
  archive_source from = {.path = path};

  return load(c, &from, o, out, err);
}

rush_status rush_exported_program_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                             void (*deleter)(void *, void *), void *user,
                                             const rush_load_options *o,
                                             rush_exported_program **out, rush_error *err)
{
  archive_source from = {.data = data, .n_bytes = n_bytes, .deleter = deleter, .user = user};

  return load(c, &from, o, out, err);
}

rush_status rush_exported_program_of_module(rush_module *m, rush_exported_program **out,
                                            rush_error *err)
{
  lock_hold hold;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(lock_take(&cx, m->lock, LOCK_SHARED, &hold));
  const rush_status st = exported_open_of_module(&cx, m, out);
  lock_drop(&hold);
  return st;
}

rush_exported_program *rush_exported_program_retain(rush_exported_program *p)
{
  return exported_open_retain(p);
}
void rush_exported_program_release(rush_exported_program *p) { exported_open_release(p); }

rush_status rush_exported_program_save(rush_exported_program *p, const char *path,
                                       const rush_save_options *options, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, p->ctx, err));
  return api_save(&cx, &(api_saved){.program = p}, path, options);
}

rush_status rush_exported_program_module(rush_exported_program *p, bool check_guards,
                                         rush_module **out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, p->ctx, err));
  return exported_open_module(&cx, p, check_guards, out);
}

rush_status rush_exported_program_decompose(rush_exported_program *p, rush_exported_program **out,
                                            rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, p->ctx, err));
  return exported_open_decompose(&cx, p, NULL, out);
}

const char *rush_decomposed_operators(void) { return decompose_operators() + 1; }

rush_status rush_exported_program_decompose_ops(rush_exported_program *p, const char *const *ops,
                                                size_t n_ops, rush_exported_program **out,
                                                rush_error *err)
{
  const decompose_table only = {ops, n_ops};
  call_ctx cx;

  TRY(api_begin(&cx, p->ctx, err));
  return exported_open_decompose(&cx, p, &only, out);
}

rush_status rush_exported_program_verify(const rush_exported_program *p, const char *dialect,
                                         char **faults, rush_error *err)
{
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, p->ctx, err));
  text_init(&t, cx.ctx);
  return api_text(&cx, exported_open_verify(&cx, p, dialect, &t), &t, faults);
}

void rush_exported_program_get(const rush_exported_program *p, rush_export_info *out)
{
  const exported_program *d = p->data;

  FILL(out, rush_export_info, d->name, d->major, d->minor, d->torch_version, p->opset, d->n_inputs,
       d->n_outputs, d->n_ranges, d->n_calls, d->n_guards, d->n_dialects);
}

const char *rush_exported_program_guard(const rush_exported_program *p, size_t i)
{
  return i < p->data->n_guards ? p->data->guards[i] : NULL;
}
const char *rush_exported_program_dialect(const rush_exported_program *p, size_t i)
{
  return i < p->data->n_dialects ? p->data->dialects[i] : NULL;
}

/* -- Text -------------------------------------------------------------------------------------- */

typedef struct text_job {
  const exported_program *p;
  const fx_graph *graph;
  rush_export_text what;
  const fx_node *node; /* its metadata, instead of a text */
  const char *key;     /* of it; NULL: all */
  const expression *expr; /* to print, instead of a text */
  text_buf *out;
} text_job;

static void print_body(session *s, void *arg)
{
  const text_job *job = arg;

  switch (job->what) {
  case RUSH_EXPORT_TEXT:
    exported_print(s, job->out, job->p);
    break;
  case RUSH_EXPORT_GRAPH:
    fx_print_graph(s, job->out, job->graph);
    break;
  case RUSH_EXPORT_CODE:
    fx_print_code(s, job->out, job->graph, &(fx_code_options){.verbose = false});
    break;
  case RUSH_EXPORT_READABLE:
    fx_print_readable(s, job->out, job->graph, "GraphModule", &(fx_code_options){.verbose = true});
    break;
  }
}

static void metadata_body(session *s, void *arg)
{
  const text_job *job = arg;
  const str found = job->key ? fx_node_metadata(s, job->node, job->key) : job->node->metadata;

  text_add(job->out, found.len ? found.p : "", found.len);
}

static void expression_body(session *s, void *arg)
{
  const text_job *job = arg;

  expression_print(s, job->out, job->expr);
}

/* Run a body that prints into job->out; *text is new. */
static rush_status print(const rush_exported_program *p, text_job *job,
                         void (*body)(session *s, void *arg), char **text, rush_error *err)
{
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, p->ctx, err));
  text_init(&t, cx.ctx);
  job->p = p->data;
  job->out = &t;
  return api_text(&cx, session_run(&cx, body, job), &t, text);
}

rush_status rush_exported_program_print(const rush_exported_program *p, const rush_export_graph *g,
                                        rush_export_text what, char **out, rush_error *err)
{
  text_job job = {.graph = g ? graph_of(g) : p->data->graph, .what = what};

  if ((unsigned)what > RUSH_EXPORT_READABLE)
    return error_set(err, RUSH_EARGUMENT, "there is no text %d of a program", (int)what);
  return print(p, &job, print_body, out, err);
}

rush_status rush_exported_program_metadata(const rush_exported_program *p,
                                           const rush_export_node *n, const char *key, char **out,
                                           rush_error *err)
{
  text_job job = {.node = node_of(n), .key = key};

  return print(p, &job, metadata_body, out, err);
}

rush_status rush_exported_program_expression(const rush_exported_program *p,
                                             const rush_export_expression *e, char **out,
                                             rush_error *err)
{
  text_job job = {.expr = (const expression *)(const void *)e};

  return print(p, &job, expression_body, out, err);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

const rush_export_graph *rush_exported_program_graph(const rush_exported_program *p)
{
  return graph_out(p->data->graph);
}

const rush_export_graph *rush_export_graph_subgraph(const rush_export_graph *g, size_t i,
                                                    const char **name)
{
  const fx_graph *in = graph_of(g);

  if (i >= in->n_subgraphs)
    return NULL;
  if (name)
    *name = in->subgraphs[i].name;
  return graph_out(in->subgraphs[i].graph);
}

const rush_export_node *rush_export_graph_first(const rush_export_graph *g)
{
  return node_out(graph_of(g)->first);
}
const rush_export_node *rush_export_node_next(const rush_export_node *n)
{
  return node_out(node_of(n)->next);
}

void rush_export_node_get(const rush_export_node *n, rush_export_node_info *out)
{
  const fx_node *f = node_of(n);

  FILL(out, rush_export_node_info, (rush_export_op)f->op, f->name, f->target, f->n_args,
       f->n_kwargs, f->n_users, val_out(f->val), f->returns_none);
}

const rush_export_arg *rush_export_node_arg(const rush_export_node *n, size_t i)
{
  return i < node_of(n)->n_args ? arg_out(&node_of(n)->args[i]) : NULL;
}

const rush_export_arg *rush_export_node_kwarg(const rush_export_node *n, size_t i,
                                              const char **name)
{
  const fx_node *f = node_of(n);

  if (i >= f->n_kwargs)
    return NULL;
  if (name)
    *name = f->kwargs[i].name.p;
  return arg_out(&f->kwargs[i].arg);
}

/* -- Arguments --------------------------------------------------------------------------------- */

void rush_export_arg_get(const rush_export_arg *arg, rush_export_arg_info *out)
{
  const fx_arg *a = arg_of(arg);
  rush_export_arg_info info = {
    .struct_bytes = sizeof info, .kind = (rush_export_kind)a->kind, .n = a->n};

  switch (a->kind) {
  case FX_NODE:
    info.node = node_out(a->as.node);
    break;
  case FX_INT:
  case FX_DTYPE:
  case FX_LAYOUT:
  case FX_MEMORY_FORMAT:
    info.i = a->as.i;
    break;
  case FX_BOOL:
    info.i = a->as.b;
    break;
  case FX_FLOAT:
    info.f = a->as.f;
    break;
  case FX_COMPLEX:
    info.f = a->as.complex[0];
    info.imaginary = a->as.complex[1];
    break;
  case FX_STRING:
  case FX_DEVICE:
  case FX_OPERATOR:
    info.text = a->as.text;
    break;
  case FX_OBJECT:
    info.text = a->as.object->name;
    info.class_name = a->as.object->class_name;
    break;
  case FX_NONE:
  case FX_LIST:
  case FX_TUPLE:
  case FX_DICT:
    break;
  }
  api_fill(out, &info, sizeof info);
}

const rush_export_arg *rush_export_arg_item(const rush_export_arg *arg, size_t i, const char **key)
{
  const fx_arg *a = arg_of(arg);

  if (i >= a->n || (a->kind != FX_LIST && a->kind != FX_TUPLE && a->kind != FX_DICT))
    return NULL;
  if (key)
    *key = a->kind == FX_DICT ? a->as.named[i].name.p : NULL;
  return arg_out(a->kind == FX_DICT ? &a->as.named[i].arg : &a->as.items[i]);
}

/* -- Values ------------------------------------------------------------------------------------ */

static rush_export_number number_out(const fx_number *n, fx_val_kind kind)
{
  rush_export_number out = {.expression = expression_out(n->expr), .has_value = n->has_value};

  if (kind == FX_VAL_FLOAT)
    out.f = n->value.f;
  else
    out.i = kind == FX_VAL_BOOL ? n->value.b : n->value.i;
  return out;
}

static void fill_tensor(rush_export_val_info *info, const fx_tensor *t)
{
  info->dtype = t->dtype;
  info->layout = t->layout;
  info->requires_grad = t->requires_grad;
  info->n_sizes = t->n_dims;
  info->n_strides = t->n_strides;
  info->device = t->device;
  info->number = number_out(&t->offset, FX_VAL_INT);
}

void rush_export_val_get(const rush_export_val *val, rush_export_val_info *out)
{
  const fx_val *v = val_of(val);
  rush_export_val_info info = {
    .struct_bytes = sizeof info, .kind = (rush_export_val_kind)v->kind, .is_tuple = v->is_tuple};

  switch (v->kind) {
  case FX_VAL_TENSOR:
    fill_tensor(&info, v->as.tensor);
    break;
  case FX_VAL_INT:
  case FX_VAL_FLOAT:
  case FX_VAL_BOOL:
    info.number = number_out(v->as.number, v->kind);
    break;
  case FX_VAL_OBJECT:
    info.class_name = v->as.class_name;
    break;
  case FX_VAL_LIST:
    info.n = v->n;
    break;
  case FX_VAL_CONSTANT:
    info.constant = arg_out(&v->as.constant);
    break;
  }
  api_fill(out, &info, sizeof info);
}

const rush_export_val *rush_export_val_item(const rush_export_val *v, size_t i)
{
  const fx_val *list = val_of(v);

  return list->kind == FX_VAL_LIST && i < list->n ? val_out(list->as.items[i]) : NULL;
}

bool rush_export_val_size(const rush_export_val *v, size_t i, rush_export_number *out)
{
  const fx_tensor *t = val_of(v)->kind == FX_VAL_TENSOR ? val_of(v)->as.tensor : NULL;

  if (!t || i >= t->n_dims)
    return false;
  *out = number_out(&t->sizes[i], FX_VAL_INT);
  return true;
}

bool rush_export_val_stride(const rush_export_val *v, size_t i, rush_export_number *out)
{
  const fx_tensor *t = val_of(v)->kind == FX_VAL_TENSOR ? val_of(v)->as.tensor : NULL;

  if (!t || i >= t->n_strides)
    return false;
  *out = number_out(&t->strides[i], FX_VAL_INT);
  return true;
}

/* -- Signature, ranges, module calls ----------------------------------------------------------- */

static void fill_spec(rush_export_spec *out, int kind, const exported_arg *a, const char *target,
                      bool is_persistent)
{
  FILL(out, rush_export_spec, kind, (rush_export_spec_kind)a->kind, a->name, a->class_name,
       a->kind == ARG_CONSTANT ? arg_out(&a->constant) : NULL, target, is_persistent);
}

bool rush_exported_program_input(const rush_exported_program *p, size_t i, rush_export_spec *out)
{
  if (i >= p->data->n_inputs)
    return false;
  const program_input *in = &p->data->inputs[i];
  fill_spec(out, (int)in->kind, &in->arg, in->target, in->is_persistent);
  return true;
}

bool rush_exported_program_output(const rush_exported_program *p, size_t i, rush_export_spec *out)
{
  if (i >= p->data->n_outputs)
    return false;
  const program_output *o = &p->data->outputs[i];
  fill_spec(out, (int)o->kind, &o->arg, o->target, false);
  return true;
}

bool rush_exported_program_range(const rush_exported_program *p, size_t i, rush_export_range *out)
{
  if (i >= p->data->n_ranges)
    return false;
  const exported_bounds *b = &p->data->ranges[i];
  FILL(out, rush_export_range, expression_out(b->expr), b->is_used, b->has_min, b->has_max, b->min,
       b->max);
  return true;
}

bool rush_exported_program_call(const rush_exported_program *p, size_t i, rush_export_call *out)
{
  if (i >= p->data->n_calls)
    return false;
  const exported_call_entry *e = &p->data->calls[i];
  FILL(out, rush_export_call, e->fqn, e->has_signature, e->n_inputs, e->n_outputs, e->n_arg_names,
       e->in_spec.p, e->out_spec.p);
  return true;
}

bool rush_exported_program_call_input(const rush_exported_program *p, size_t call, size_t i,
                                      rush_export_spec *out)
{
  if (call >= p->data->n_calls || i >= p->data->calls[call].n_inputs)
    return false;
  fill_spec(out, 0, &p->data->calls[call].inputs[i], NULL, false);
  return true;
}

bool rush_exported_program_call_output(const rush_exported_program *p, size_t call, size_t i,
                                       rush_export_spec *out)
{
  if (call >= p->data->n_calls || i >= p->data->calls[call].n_outputs)
    return false;
  fill_spec(out, 0, &p->data->calls[call].outputs[i], NULL, false);
  return true;
}

const char *rush_exported_program_call_arg_name(const rush_exported_program *p, size_t call,
                                                size_t i)
{
  if (call >= p->data->n_calls || i >= p->data->calls[call].n_arg_names)
    return NULL;
  return p->data->calls[call].arg_names[i];
}

/* -- State ------------------------------------------------------------------------------------- */

rush_status rush_exported_program_n_state(rush_exported_program *p, size_t *out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, p->ctx, err));
  TRY(exported_open_state(&cx, p));
  *out = p->n_state;
  return RUSH_OK;
}

bool rush_exported_program_state(const rush_exported_program *p, size_t i, const char **name,
                                 bool *is_constant, rush_value *out)
{
  if (i >= p->n_state)
    return false;
  *name = p->state[i].name;
  *is_constant = p->state[i].is_constant;
  *out = value_retain(value_tensor_steal(p->state[i].tensor));
  return true;
}

rush_status rush_exported_program_samples(rush_exported_program *p, rush_value *out,
                                          rush_error *err)
{
  rush_value made;
  call_ctx cx;

  TRY(api_begin(&cx, p->ctx, err));
  TRY(exported_samples_value(&cx, p->samples, p->types, &made));
  api_return_steal(RUSH_OK, made, out);
  return RUSH_OK;
}

const char *rush_exported_program_extra_file(const rush_exported_program *p, size_t i,
                                             const void **data, size_t *n_bytes)
{
  return api_extra_file(&p->extra_files, i, data, n_bytes);
}
