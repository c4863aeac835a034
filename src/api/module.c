/* api/module.c -- modules of rushlight.h: loading, compiling, calling, state, saving. Calls by
 * name, with named arguments and with options all use one call_job, and so do objects that are not
 * modules. State is found by walking attributes under the module's lock; setting a tensor copies
 * into the old one, so that other references see it. O(attributes) for each lookup. */
#include "api/api_int.h"
#include "archive/open.h"
#include "autograd/record.h"

/* -- Loading ----------------------------------------------------------------------------------- */

rush_status api_load_options(archive_source *from, const rush_load_options *o, rush_error *err)
{
  rush_load_options own;

  if (!o)
    return RUSH_OK;
  TRY(API_READ(err, rush_load_options, o, &own));
  from->check_full = own.check_full;
  from->copy = own.copy;
  from->meta = own.meta;
  from->name = own.name;
  from->program = own.program;
  return RUSH_OK;
}

static rush_status load(rush_context *c, archive_source *from, const rush_load_options *o,
                        module **out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(api_load_options(from, o, err));
  return module_load(&cx, from, out);
}

rush_status rush_module_load(rush_context *c, const char *path, const rush_load_options *o,
                             rush_module **out, rush_error *err)
{
  archive_source from = {.path = path};

  return load(c, &from, o, out, err);
}

rush_status rush_module_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                   void (*deleter)(void *, void *), void *user,
                                   const rush_load_options *o, rush_module **out, rush_error *err)
{
  archive_source from = {.data = data, .n_bytes = n_bytes, .deleter = deleter, .user = user};

  return load(c, &from, o, out, err);
}

rush_status rush_module_load_reader(rush_context *c, uint64_t size_bytes,
                                    int (*read)(void *, uint64_t, void *, size_t), void *user,
                                    const rush_load_options *o, rush_module **out, rush_error *err)
{
  archive_source from = {.read = read, .n_bytes = size_bytes, .user = user};

  return load(c, &from, o, out, err);
}

/* Read the options, or use the defaults. */
static rush_status text_options(const rush_text_options *o, rush_text_options *out, rush_error *err)
{
  *out = (rush_text_options)RUSH_TEXT_OPTIONS_INIT;
  if (o)
    TRY(API_READ(err, rush_text_options, o, out));
  if (!out->name)
    out->name = "<string>";
  if (!out->first_line)
    out->first_line = 1;
  return RUSH_OK;
}

rush_status rush_module_compile(rush_context *c, const char *text, size_t n_bytes,
                                const rush_text_options *o, rush_module **out, rush_error *err)
{
  rush_text_options how;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(text_options(o, &how, err));
  return module_compile(&cx, how.name, how.first_line, (str){text, n_bytes}, out);
}

rush_status rush_module_define(rush_module *m, const char *text, size_t n_bytes,
                               const rush_text_options *o, rush_error *err)
{
  rush_text_options how;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(text_options(o, &how, err));
  return module_define(&cx, m, how.name, how.first_line, (str){text, n_bytes});
}

rush_status rush_export_verify(rush_context *c, const char *path, const rush_load_options *o,
                               const char *dialect, char **faults, rush_error *err)
{
  archive_source from = {.path = path};
  bool is_exported = false;
  char *found = NULL;
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, c, err));
  TRY(api_load_options(&from, o, err));
  text_init(&t, cx.ctx);
  TRY(api_text(&cx, archive_verify(&cx, &from, dialect, &t, &is_exported), &t, &found));
  if (!is_exported)
    rush_free_text(c, found);
  *faults = is_exported ? found : NULL;
  return RUSH_OK;
}

void rush_module_release(rush_module *m) { module_release(m); }

rush_status rush_module_copy(rush_module *m, rush_module **out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  return module_copy(&cx, m, out);
}

rush_status rush_module_around(rush_context *c, rush_value object, rush_module *root,
                               rush_module **out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (!rush_object_is_module(object))
    return error_set(err, RUSH_EARGUMENT, "the value is no object of a module's class");
  return module_around(&cx, object.as.object->type->cls->program, object, root, out);
}

rush_format rush_module_format(const rush_module *m) { return m->format; }
bool rush_module_is_random(rush_module *m)
{
  call_ctx cx;

  return api_begin(&cx, m->ctx, NULL) == RUSH_OK && module_is_random(&cx, m);
}

rush_status rush_module_dump(rush_module *m, rush_dump what, const char *method, char **out,
                             rush_error *err)
{
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, m->ctx, err));
  text_init(&t, cx.ctx);
  return api_text(&cx, module_dump(&cx, m, what, method, &t), &t, out);
}

rush_value rush_module_value(const rush_module *m) { return m->object; }
size_t rush_module_n_methods(const rush_module *m) { return module_n_methods(m); }
const char *rush_module_method_name(const rush_module *m, size_t i)
{
  return module_method_name(m, (uint32_t)i);
}

rush_status rush_module_method_schema(rush_module *m, const char *method, char **out,
                                      rush_error *err)
{
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, m->ctx, err));
  function *f;
  TRY(module_method(m, method, &f, err));
  if (!f->schema->returns[0].type) /* not annotated: inferred from the body */
    TRY(module_place(&cx, m, function_prepare(&cx, f)));
  text_init(&t, cx.ctx);
  schema_print(&t, f->schema);
  return api_text(&cx, RUSH_OK, &t, out);
}

/* -- Signatures -------------------------------------------------------------------------------- */

rush_status rush_module_signature(rush_module *m, const char *method, rush_signature **out,
                                  rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  return module_signature(&cx, m, method, out);
}

void rush_signature_release(rush_signature *s) { signature_free(s); }
size_t rush_signature_n_inputs(const rush_signature *s) { return s->n_inputs; }
size_t rush_signature_n_outputs(const rush_signature *s) { return s->n_outputs; }

static bool copy_item(const rush_signature_item *items, uint32_t n, size_t i,
                      rush_signature_item *out)
{
  if (i < n)
    api_fill(out, &items[i], sizeof *items);
  return i < n;
}

bool rush_signature_input(const rush_signature *s, size_t i, rush_signature_item *out)
{
  return copy_item(s->inputs, s->n_inputs, i, out);
}

bool rush_signature_output(const rush_signature *s, size_t i, rush_signature_item *out)
{
  return copy_item(s->outputs, s->n_outputs, i, out);
}

/* -- Calling ----------------------------------------------------------------------------------- */

COLD static rush_status fail_many(rush_error *err, size_t n)
{
  return error_set(err, RUSH_EARGUMENT, "%zu arguments are too many", n);
}

/* Without names and options there is nothing to read: small calls are a tenth shorter. */
rush_status rush_module_call(rush_module *m, const char *method, const rush_value *args,
                             size_t n_args, rush_value *result, rush_error *err)
{
  rush_value made;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  if (UNLIKELY(n_args > UINT32_MAX))
    return fail_many(err, n_args);
  TRY(module_call(&cx, m, method, args, (uint32_t)n_args, NULL, 0, &made));
  api_return_steal(RUSH_OK, made, result);
  return RUSH_OK;
}

/* A call of a module's method, or (m NULL) of an object's. */
typedef struct call_job {
  module *m;
  rush_value object;
  const char *method;
  const rush_value *args;
  size_t n_args;
  const rush_named_value *named;
  size_t n_named;
} call_job;

static rush_status call_object(call_ctx *cx, const call_job *j, const named_arg *kwargs,
                               rush_value *result)
{
  function *f = class_find_method(j->object.as.object->type, j->method);

  if (!f)
    return error_set_type(cx->err, RUSH_EARGUMENT, "AttributeError",
                          "the object has no method '%s'", j->method);
  const bool keeps =
    type_retain_code_if_there(j->object.as.object->type); /* the object may be a constant */
  rush_status st = object_call(cx, j->object, f, j->args, (uint32_t)j->n_args, kwargs,
                               (uint32_t)j->n_named, result);
  if (keeps)
    type_release_code(j->object.as.object->type);
  return st;
}

static rush_status call_by_name(call_ctx *cx, const call_job *j, const named_arg *kwargs,
                                rush_value *made)
{
  return j->m ? module_call(cx, j->m, j->method, j->args, (uint32_t)j->n_args, kwargs,
                            (uint32_t)j->n_named, made)
              : call_object(cx, j, kwargs, made);
}

/* True if the call may use tensors that require grad and are no positional arguments: attributes,
 * named arguments. */
static bool may_use_more(const call_job *j)
{
  const function *f = j->m ? module_find_method(j->m, j->method) : NULL;
  bool any = !f || function_takes_self(f);

  for (size_t i = 0; i < j->n_named && !any; i++)
    any = autograd_may_hold(j->named[i].value);
  return any;
}

static rush_status call_with_options(call_ctx *cx, const call_job *j, const named_arg *kwargs,
                                     const rush_call_options *o, rush_value *made)
{
  output_buffers outputs = {0};
  call_recorder recorder;

  TRY(api_call_options(cx, o, &recorder, o && may_use_more(j), j->args, j->n_args));
  rush_status st = api_outputs_begin(cx, o, j->m ? &outputs : NULL);
  if (st == RUSH_OK)
    st = call_by_name(cx, j, kwargs, made);
  api_outputs_end(cx, &outputs, st);
  return st;
}

/* Read the named arguments to *out, using `few` if they fit; call free_named at the end. */
static rush_status read_named(call_ctx *cx, const call_job *j, named_arg *few, size_t n_few,
                              named_arg **out)
{
  if (j->n_args > UINT32_MAX || j->n_named > 1000000)
    return fail_many(cx->err, j->n_args + j->n_named);
  named_arg *kwargs = j->n_named <= n_few ? few : mem_alloc(cx->ctx, j->n_named * sizeof(*kwargs));
  if (!kwargs)
    return call_nomem(cx);
  for (size_t i = 0; i < j->n_named; i++)
    kwargs[i] = (named_arg){str_of(j->named[i].name), j->named[i].value};
  *out = kwargs;
  return RUSH_OK;
}

static void free_named(call_ctx *cx, const call_job *j, const named_arg *few, named_arg *kwargs)
{
  if (kwargs != few)
    mem_free(cx->ctx, kwargs, j->n_named * sizeof(*kwargs));
}

static rush_status call(call_ctx *cx, const call_job *j, const rush_call_options *o,
                        rush_value *result)
{
  named_arg few[16], *kwargs;
  rush_value made;

  TRY(read_named(cx, j, few, COUNT_OF(few), &kwargs));
  rush_status st =
    o ? call_with_options(cx, j, kwargs, o, &made) : call_by_name(cx, j, kwargs, &made);
  if (st == RUSH_OK)
    api_return_steal(st, made, result);
  free_named(cx, j, few, kwargs);
  return st;
}

rush_status rush_module_call_named(rush_module *m, const char *method, const rush_value *args,
                                   size_t n_args, const rush_named_value *named, size_t n_named,
                                   const rush_call_options *o, rush_value *result, rush_error *err)
{
  call_job j = {m, m->object, method ? method : "forward", args, n_args, named, n_named};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  return call(&cx, &j, o, result);
}

static rush_status prepare_method(call_ctx *cx, const call_job *j, const named_arg *kwargs,
                           const rush_call_options *options)
{
  rush_call_options own = RUSH_CALL_OPTIONS_INIT;
  call_recorder recorder;

  if (options)
    TRY(API_READ(cx->err, rush_call_options, options, &own));
  own.gradient_host = NULL; /* gradients of copies are not used */
  TRY(api_outputs_begin(cx, &own, NULL));
  TRY(api_call_options(cx, &own, &recorder, may_use_more(j), j->args, j->n_args));
  return module_prepare(cx, j->m, j->method, j->args, (uint32_t)j->n_args, kwargs,
                        (uint32_t)j->n_named);
}

rush_status rush_module_prepare(rush_module *m, const char *method, const rush_value *args,
                                size_t n_args, const rush_named_value *named, size_t n_named,
                                const rush_call_options *o, rush_error *err)
{
  call_job j = {m, m->object, method ? method : "forward", args, n_args, named, n_named};
  named_arg few[16], *kwargs = NULL;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(read_named(&cx, &j, few, COUNT_OF(few), &kwargs));
  const rush_status st = prepare_method(&cx, &j, named ? kwargs : NULL, o);
  free_named(&cx, &j, few, kwargs);
  return st;
}

/* Read the caller's dimensions; *out is freed with mem_free, n_dims + 1 of them. */
static rush_status read_export_dims(call_ctx *cx, const rush_export_options *o, capture_dim **out)
{
  if (o->n_dims > 1000000)
    return error_set(cx->err, RUSH_EARGUMENT, "%zu dimensions are too many", o->n_dims);
  *out = mem_alloc(cx->ctx, (o->n_dims + 1) * sizeof **out);
  if (!*out)
    return call_nomem(cx);
  for (size_t i = 0; i < o->n_dims; i++) {
    const rush_export_dim *d = &o->dims[i];
    (*out)[i] = (capture_dim){d->input,  d->dim,    d->name,   d->least,     d->most,
                              d->factor, d->offset, d->symbol, d->is_dynamic};
  }
  return RUSH_OK;
}

/* Keep the example: what the structure has, or the arguments themselves. */
static rush_status set_samples(call_ctx *cx, module *made, const call_job *j,
                               const named_arg *kwargs, const rush_export_structure *given)
{
  call_job own = {.named = given ? given->sample_named : NULL,
                  .n_named = given ? given->n_sample_named : 0};
  named_arg few[16], *names = NULL;

  if (!given)
    return module_set_samples(cx, made, j->args, (uint32_t)j->n_args, kwargs,
                              (uint32_t)j->n_named);
  if (!given->sample_args)
    return RUSH_OK;
  TRY(read_named(cx, &own, few, COUNT_OF(few), &names));
  const rush_status st =
    module_set_samples(cx, made, given->sample_args, (uint32_t)given->n_sample_args, names,
                       (uint32_t)given->n_sample_named);
  free_named(cx, &own, few, names);
  return st;
}

rush_status rush_export_parse(rush_module *weights, const char *text, size_t n_bytes,
                              const char *name, rush_module **out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, weights->ctx, err));
  return module_parse_export(&cx, weights, name ? name : "<string>", (str){text, n_bytes}, out);
}

rush_status rush_module_export(rush_module *m, const char *method, const rush_value *args,
                               size_t n_args, const rush_named_value *named, size_t n_named,
                               const rush_export_options *options, rush_module **out,
                               rush_error *err)
{
  call_job j = {m, m->object, method ? method : "forward", args, n_args, named, n_named};
  rush_export_options o = RUSH_EXPORT_OPTIONS_INIT;
  rush_export_structure tree = RUSH_EXPORT_STRUCTURE_INIT;
  named_arg few[16], *kwargs = NULL;
  capture_dim *dims = NULL;
  text_buf report;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  if (options)
    TRY(API_READ(err, rush_export_options, options, &o));
  text_init(&report, cx.ctx);
  if (o.structure)
    TRY(API_READ(err, rush_export_structure, o.structure, &tree));
  const capture_structure structure = {tree.in_spec,     tree.out_spec, tree.arg_names,
                                       tree.names,       tree.texts,    tree.temporary,
                                       tree.classes,     tree.n_arg_names, tree.n_leaves,
                                       tree.n_temporary, tree.n_classes};
  TRY(read_named(&cx, &j, few, COUNT_OF(few), &kwargs));
  rush_status st = read_export_dims(&cx, &o, &dims);
  if (st == RUSH_OK) {
    const capture_options all = {.dims = dims,
                                 .n_dims = (uint32_t)o.n_dims,
                                 .structure = o.structure ? &structure : NULL,
                                 .report = o.report ? &report : NULL};
    module *made = NULL;
    st = module_export(&cx, m, j.method, args, (uint32_t)n_args, kwargs, (uint32_t)n_named, &all,
                       &made);
    if (st == RUSH_OK)
      st = set_samples(&cx, made, &j, kwargs, o.structure ? &tree : NULL);
    if (st == RUSH_OK && o.report)
      st = api_text(&cx, st, &report, o.report);
    if (st == RUSH_OK)
      *out = made;
    else
      module_release(made);
  }
  if (!o.report || st != RUSH_OK)
    text_free(&report);
  mem_free(cx.ctx, dims, (o.n_dims + 1) * sizeof *dims);
  free_named(&cx, &j, few, kwargs);
  return st;
}

rush_status rush_module_samples(rush_module *m, rush_value *out, rush_error *err)
{
  rush_value v;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(module_samples(&cx, m, &v));
  api_return_steal(RUSH_OK, v, out);
  return RUSH_OK;
}

bool rush_object_has_method(rush_value object, const char *method)
{
  return object.tag == RUSH_TAG_OBJECT &&
         class_find_method(object.as.object->type, method) != NULL;
}

rush_status rush_object_call(rush_context *c, rush_value object, const char *method,
                             const rush_value *args, size_t n_args, const rush_named_value *named,
                             size_t n_named, const rush_call_options *o, rush_value *result,
                             rush_error *err)
{
  call_job j = {NULL, object, method ? method : "forward", args, n_args, named, n_named};
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (object.tag != RUSH_TAG_OBJECT)
    return error_set(err, RUSH_EARGUMENT, "methods are of objects; this value is none");
  return call(&cx, &j, o, result);
}

/* -- State ------------------------------------------------------------------------------------- */

typedef struct state_search {
  call_ctx *cx;
  size_t index, wanted;
  const char *name; /* NULL: by index */
  char *found_name; /* new, when by index */
  bool is_parameter, found;
  rush_value value; /* new, when found */
} state_search;

static bool visit_state(void *arg, const char *qualified, rush_value *slot, bool is_parameter)
{
  state_search *s = arg;
  bool hit = s->name ? strcmp(s->name, qualified) == 0 : s->index == s->wanted;

  s->index++;
  if (!hit)
    return true;
  s->found = true;
  s->value = value_retain(*slot);
  s->is_parameter = is_parameter;
  if (!s->name) {
    size_t n = strlen(qualified) + 1;
    s->found_name = mem_alloc(s->cx->ctx, n);
    if (s->found_name)
      memcpy(s->found_name, qualified, n);
  }
  return false;
}

static rush_status walk_locked(call_ctx *cx, module *m, state_search *s)
{
  lock_hold hold;

  TRY(lock_take(cx, m->lock, LOCK_SHARED, &hold));
  rush_status st = module_walk_state(cx, m, visit_state, s);
  lock_drop(&hold);
  return st;
}

size_t rush_module_n_state(rush_module *m)
{
  state_search s = {.wanted = SIZE_MAX};
  call_ctx cx;

  if (api_begin(&cx, m->ctx, NULL) != RUSH_OK)
    return 0;
  s.cx = &cx;
  return walk_locked(&cx, m, &s) == RUSH_OK ? s.index : 0;
}

rush_status rush_module_state_at(rush_module *m, size_t i, char **name, bool *is_parameter,
                                 rush_value *out, rush_error *err)
{
  state_search s = {.wanted = i};
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  s.cx = &cx;
  TRY(walk_locked(&cx, m, &s));
  if (!s.found)
    return error_set_type(err, RUSH_EARGUMENT, "IndexError", "state %zu of %zu", i, s.index);
  if (!s.found_name) {
    value_release(s.value);
    return error_nomem(err);
  }
  if (name)
    *name = s.found_name;
  else
    rush_free_text(m->ctx, s.found_name);
  if (is_parameter)
    *is_parameter = s.is_parameter;
  api_return_steal(RUSH_OK, s.value, out);
  return RUSH_OK;
}

/* Find a parameter or buffer; *out is new. */
static rush_status find_state(call_ctx *cx, module *m, const char *name, rush_value *out)
{
  state_search s = {.cx = cx, .name = name};

  TRY(walk_locked(cx, m, &s));
  if (!s.found)
    return error_set_type(cx->err, RUSH_EARGUMENT, "KeyError",
                          "the module has no parameter or buffer '%s'", name);
  *out = s.value;
  return RUSH_OK;
}

rush_status rush_module_get_state(rush_module *m, const char *name, rush_value *out,
                                  rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  return find_state(&cx, m, name, out);
}

/* Set a parameter or buffer; the caller holds the module's lock exclusively. */
static rush_status set_module_state(call_ctx *cx, module *m, const char *name, rush_value value)
{
  rush_value slot = value_none();

  TRY(find_state(cx, m, name, &slot));
  rush_tensor *to = slot.tag == RUSH_TAG_TENSOR ? slot.as.tensor : NULL;
  rush_tensor *from = value.tag == RUSH_TAG_TENSOR ? value.as.tensor : NULL;
  rush_status st;
  if (!to || !from || to->dtype != from->dtype || to->n_dims != from->n_dims ||
      memcmp(to->sizes, from->sizes, sizeof(int64_t) * to->n_dims) != 0)
    st = error_set(cx->err, RUSH_EARGUMENT, "'%s' takes a tensor of its own dtype and sizes", name);
  else if (to->st->read_only)
    st = error_set(cx->err, RUSH_EARGUMENT, "'%s' is on memory that may not be written to", name);
  else
    st = tensor_copy(cx, to, from);
  value_release(slot);
  return st;
}

rush_status rush_module_set_state(rush_module *m, const char *name, rush_value value,
                                  rush_error *err)
{
  lock_hold hold;
  call_ctx cx;

  TRY(api_begin(&cx, m->ctx, err));
  TRY(lock_take(&cx, m->lock, LOCK_EXCLUSIVE, &hold));
  rush_status st = set_module_state(&cx, m, name, value);
  lock_drop(&hold);
  return st;
}

rush_status rush_value_load(rush_context *c, const char *path, rush_value *out, rush_error *err)
{
  return rush_value_load_with(c, path, NULL, out, err);
}

static rush_status load_value(call_ctx *cx, const archive_source *from, rush_value *out)
{
  if (from->meta)
    return error_set(cx->err, RUSH_EARGUMENT,
                     "rush_load_options.meta is for modules: values are loaded with their data");
  return value_load(cx, from, out);
}

rush_status rush_value_load_with(rush_context *c, const char *path,
                                 const rush_load_options *options, rush_value *out, rush_error *err)
{
  archive_source from = {.path = path};
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(api_load_options(&from, options, err));
  return load_value(&cx, &from, out);
}

rush_status rush_value_load_bytes(rush_context *c, const void *data, size_t n_bytes,
                                  const rush_load_options *options, rush_value *out,
                                  rush_error *err)
{
  archive_source from = {.data = data, .n_bytes = n_bytes};
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(api_load_options(&from, options, err));
  return load_value(&cx, &from, out);
}

rush_status rush_value_save(rush_context *c, const char *path, rush_value v, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  return value_save(&cx, path, v);
}
