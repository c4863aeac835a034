/* api/script.c -- the functions of script.h, for hosts that compile live functions and classes. A
 * unit is its program; each function puts its arguments into a unit_job and runs it in a session
 * with the program locked, so that hosts see only statuses and no escape crosses their frames.
 * rush_type_is_subtype does not wait for that lock, because a host may call it while it holds its
 * own. */
#include "rushlight/script.h"

#include <string.h>

#include "api/api_int.h"
#include "module/module.h"
#include "run/executor.h"
#include "ops/kernels/quantized/quantized.h"
#include "script/front/classes.h"
#include "script/front/host.h"
#include "trace/sensor.h"

/* Convert handles: a unit is its program. */
static program *program_of_unit(rush_unit *u) { return (program *)u; }
static const type *in(const rush_type *t) { return (const type *)t; }
static const rush_type *out_type(const type *t) { return (const rush_type *)t; }

typedef struct unit_job { /* one call, in a session with the program locked */
  program *p;
  const void *a, *b, *c;
  void *d;
  rush_value value;
  unsigned flags;
  size_t n;
  const void *result;
} unit_job;

typedef void job_body(session *s, unit_job *j);
typedef struct locked_job {
  job_body *body;
  unit_job *job;
} locked_job;

static void run_locked(session *s, void *arg)
{
  locked_job *l = arg;
  script_host_enter(s, l->job->p);
  l->body(s, l->job);
}

static rush_status run_job(program *p, rush_error *err, job_body *body, unit_job *j)
{
  call_ctx cx;
  rush_error local = RUSH_ERROR_INIT;
  locked_job l = {body, j};

  j->p = p;
  TRY(api_begin(&cx, p->ctx, err ? err : &local));
  rush_status st = session_run(&cx, run_locked, &l);
  rush_error_clear(&local);
  return st;
}

/* -- Units ------------------------------------------------------------------------------------- */

/* Check the entries that units call unconditionally; the others may be NULL. */
static rush_status read_host(const rush_host *host, rush_host *out, rush_error *err)
{
  TRY(API_READ(err, rush_host, host, out));
  TRY(API_NEED(err, rush_host, out, name));
  TRY(API_NEED(err, rush_host, out, attr));
  TRY(API_NEED(err, rush_host, out, type));
  TRY(API_NEED(err, rush_host, out, call));
  return API_NEED(err, rush_host, out, release);
}

typedef struct create_job {
  const rush_host *host;
  program *made;
} create_job;

static void create(session *s, void *arg)
{
  create_job *j = arg;
  j->made = script_host_new(s, j->host);
}

rush_status rush_unit_create(rush_context *c, const rush_host *host, rush_unit **out,
                             rush_error *err)
{
  rush_host own;
  create_job j = {&own, NULL};
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(read_host(host, &own, err));
  TRY(session_run(&cx, create, &j));
  *out = (rush_unit *)j.made;
  return RUSH_OK;
}

rush_unit *rush_unit_retain(rush_unit *u)
{
  program_retain(program_of_unit(u));
  return u;
}
void rush_unit_release(rush_unit *u) { program_release(program_of_unit(u)); }

static void add_source(session *s, unit_job *j)
{
  source *src = program_add_source(s, j->p, j->a, j->b, j->n);
  src->first_line = j->flags;
  src->by_function =
    src->name && src->name[0] != '<'; /* Python's name for texts that are in no file */
  j->result = src;
}

rush_status rush_unit_add_source(rush_unit *u, const char *file, const char *text, size_t n_bytes,
                                 uint32_t first_line, rush_source **out, rush_error *err)
{
  unit_job j = {.a = file, .b = text, .n = n_bytes, .flags = first_line};

  TRY(run_job(program_of_unit(u), err, add_source, &j));
  *out = (rush_source *)j.result;
  return RUSH_OK;
}

rush_status rush_host_fail(rush_error *err, rush_status status, const char *type,
                           const char *message)
{
  return error_set_type(err, status, type ? type : "RuntimeError", "%s", message);
}

/* -- Functions --------------------------------------------------------------------------------- */

rush_status rush_dataclass_method(rush_context *c, const char *name, const char *type,
                                  const char *method, const rush_dataclass_field *fields,
                                  size_t n_fields, bool has_post_init, char **out, rush_error *err)
{
  text_buf t;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  text_init(&t, cx.ctx);
  dataclass_put_method(&t, name, type, method, fields, n_fields, has_post_init);
  return api_text(&cx, RUSH_OK, &t, out);
}

static function *function_in(const rush_function *f) { return (function *)f; }

static void define(session *s, unit_job *j) { j->result = script_host_define(s, j->p, j->a); }

rush_status rush_unit_define(rush_unit *u, const rush_function_def *def, rush_function **out,
                             rush_error *err)
{
  rush_function_def own;
  unit_job j = {.a = &own};

  TRY(API_READ(err, rush_function_def, def, &own));
  TRY(run_job(program_of_unit(u), err, define, &j));
  *out = (rush_function *)j.result;
  return RUSH_OK;
}

static void define_text(session *s, unit_job *j)
{
  script_host_define_text(s, j->p, (source *)(uintptr_t)j->a, j->b, j->d);
}

rush_status rush_unit_define_text(rush_unit *u, rush_source *src, const char *prefix, void *scope,
                                  rush_error *err)
{
  unit_job j = {.a = src, .b = prefix, .d = scope};

  return run_job(program_of_unit(u), err, define_text, &j);
}

rush_function *rush_unit_text_function(rush_unit *u, size_t i)
{
  return (rush_function *)script_host_of_text(program_of_unit(u), i);
}
rush_unit *rush_function_unit(const rush_function *f)
{
  return (rush_unit *)function_in(f)->program;
}

static void define_graph(session *s, unit_job *j)
{
  const char *name = j->b ? j->a : script_host_unique(s, j->p, j->a);

  j->result = script_define_graph(s, j->p, j->b, name, j->c, j->d, (uint32_t)j->n);
}

rush_status rush_unit_define_graph(rush_unit *u, const char *name, const rush_type *self,
                                   const char *graph, const rush_value *constants,
                                   size_t n_constants, rush_function **out, rush_error *err)
{
  unit_job j = {
    .a = name, .b = in(self), .c = graph, .d = (void *)(uintptr_t)constants, .n = n_constants};

  TRY(run_job(program_of_unit(u), err, define_graph, &j));
  *out = (rush_function *)j.result;
  return RUSH_OK;
}

static void compile(session *s, unit_job *j) { script_host_compile(s, j->d); }

rush_status rush_function_compile(rush_function *f, rush_error *err)
{
  unit_job j = {.d = f};

  return run_job(function_in(f)->program, err, compile, &j);
}

rush_status rush_function_call(rush_function *rf, const rush_value *args, size_t n_args,
                               const rush_named_value *named, size_t n_named,
                               const rush_call_options *o, rush_value *result, rush_error *err)
{
  function *f = function_in(rf);
  named_arg kwargs[64];
  call_recorder recorder;
  call_ctx cx;

  TRY(api_begin(&cx, f->program->ctx, err));
  TRY(api_outputs_begin(&cx, o, NULL));
  TRY(api_call_options(&cx, o, &recorder, n_named > 0, args, n_args));
  if (n_args > UINT32_MAX || n_named > COUNT_OF(kwargs))
    return error_set(err, RUSH_EARGUMENT, "%zu arguments are too many", n_args + n_named);
  for (size_t i = 0; i < n_named; i++)
    kwargs[i] = (named_arg){str_of(named[i].name), named[i].value};
  TRY(function_prepare(&cx, f));
  return function_call_bound(&cx, f, NULL, args, (uint32_t)n_args, kwargs, (uint32_t)n_named,
                             result);
}

static void find_undefined(session *s, unit_job *j)
{
  j->flags = script_host_takes_undefined(s, j->d, j->n);
}

bool rush_function_takes_undefined(rush_function *f, size_t i)
{
  unit_job j = {.d = f, .n = i};

  return run_job(function_in(f)->program, NULL, find_undefined, &j) == RUSH_OK && j.flags;
}

static void find_random(session *s, unit_job *j) { j->flags = script_host_is_random(s, j->d); }

bool rush_function_is_random(rush_function *f)
{
  unit_job j = {.d = f};

  return run_job(function_in(f)->program, NULL, find_random, &j) != RUSH_OK || j.flags;
}

const char *rush_function_name(const rush_function *f) { return function_in(f)->qualified; }
size_t rush_function_n_args(const rush_function *f) { return function_in(f)->schema->n_args; }
static rush_argument out_argument(const schema_arg *a)
{
  return (rush_argument){a->name,       out_type(a->type), a->has_default,
                         a->kwarg_only, a->fixed_len,      a->is_inferred};
}
bool rush_function_arg(const rush_function *f, size_t i, rush_argument *out)
{
  const schema *sc = function_in(f)->schema;

  if (i >= sc->n_args)
    return false;
  *out = out_argument(&sc->args[i]);
  return true;
}

typedef struct host_source {
  bind_source base;
  const rush_given *given;
} host_source;

static str named_by_host(const bind_source *from, uint32_t k)
{
  return str_of(((const host_source *)from)->given->names[k]);
}

static bool is_named_by_host(const bind_source *from, uint32_t k, const char *parameter)
{
  return text_same(((const host_source *)from)->given->names[k], parameter);
}

static rush_status convert_by_host(call_ctx *cx, const bind_source *from, const schema *sc,
                                   uint32_t given, uint32_t i, rush_value *out)
{
  const rush_given *g = ((const host_source *)from)->given;
  const rush_argument to = out_argument(&sc->args[i]);
  const rush_status st = g->convert(g->user, given, i, &to, out, cx->err);

  return st == RUSH_OK ? st
                       : error_of_callback(cx->err, st, "the conversion of argument %s", to.name);
}

rush_status rush_function_bind(rush_function *f, const rush_given *given, rush_value *out,
                               rush_error *err)
{
  const schema *sc = function_in(f)->schema;
  call_ctx cx;

  rush_error_clear(err); /* not api_begin, which costs more: every call of Python waits for this */
  call_ctx_init(&cx, function_in(f)->program->ctx, err);
  if (given->n_args > INT32_MAX || given->n_named > INT32_MAX || given->n_bound > sc->n_args)
    return error_set(err, RUSH_EARGUMENT, "%s: %zu bound, %zu positional and %zu named arguments",
                     sc->name, given->n_bound, given->n_args, given->n_named);
  const host_source from = {.base = {.name = given->name,
                                     .n_bound = (uint32_t)given->n_bound,
                                     .n_args = (uint32_t)given->n_args,
                                     .n_named = (uint32_t)given->n_named,
                                     .is_function = true,
                                     .skips_defaults = true,
                                     .named = named_by_host,
                                     .is_named = is_named_by_host,
                                     .convert = convert_by_host},
                            .given = given};
  return bind_arguments(&cx, sc, &from.base, out);
}

const rush_type *rush_function_result(const rush_function *f)
{
  return out_type(function_in(f)->schema->returns[0].type);
}

typedef struct plans_job {
  function *f;
  text_buf *out;
} plans_job;

static void describe_plans(session *s, void *arg)
{
  const plans_job *j = arg;

  executor_describe(s, j->out, j->f, NULL);
}

rush_status rush_function_dump(rush_function *rf, rush_dump what, char **out, rush_error *err)
{
  function *f = function_in(rf);
  const code *c;
  text_buf t;
  call_ctx cx;

  TRY(api_begin(&cx, f->program->ctx, err));
  if (what != RUSH_DUMP_SCHEMA || !f->schema->returns[0].type)
    TRY(function_prepare(&cx, f));
  text_init(&t, cx.ctx);
  rush_status st = RUSH_OK;
  if (what == RUSH_DUMP_SCHEMA) {
    schema_print(&t, f->schema);
  } else if (what == RUSH_DUMP_GRAPH) {
    ir_print(&t, f->graph, false);
  } else if (what == RUSH_DUMP_OPTIMIZED || what == RUSH_DUMP_BYTECODE) {
    st = code_of(&cx, f, &c);
    if (st == RUSH_OK && what == RUSH_DUMP_BYTECODE)
      code_print(&t, c);
    else if (st == RUSH_OK)
      ir_print(&t, code_graph(c) ? code_graph(c) : f->graph, false);
  } else if (what == RUSH_DUMP_PLANS) {
    st = session_run(&cx, describe_plans, &(plans_job){f, &t});
  } else {
    st = error_set(err, RUSH_EUNSUPPORTED, "this text is known of whole modules only");
  }
  return api_text(&cx, st, &t, out);
}

static void wrap(session *s, unit_job *j)
{
  const type *t = script_host_wrap(s, j->d);
  rush_object *o;
  session_check(s, object_new(s->cx, t, t->cls->n_attrs, &o));
  o->slots[0] = value_bool(true);
  j->value = value_heap_steal(RUSH_TAG_OBJECT, o);
}

rush_status rush_function_module(rush_function *f, rush_module **out, rush_error *err)
{
  program *p = function_in(f)->program;
  unit_job j = {.d = f};
  call_ctx cx;

  TRY(run_job(p, err, wrap, &j));
  TRY(api_begin(&cx, p->ctx, err));
  rush_status st = module_around(&cx, p, j.value, NULL, out);
  value_release(j.value);
  return st;
}

/* -- Types ------------------------------------------------------------------------------------- */

static const struct { type_kind kind; rush_type_kind outside;
} kinds[] = {
  {TYPE_ANY, RUSH_TYPE_ANY},
  {TYPE_NONE, RUSH_TYPE_NONE},
  {TYPE_TENSOR, RUSH_TYPE_TENSOR},
  {TYPE_BOOL, RUSH_TYPE_BOOL},
  {TYPE_INT, RUSH_TYPE_INT},
  {TYPE_FLOAT, RUSH_TYPE_FLOAT},
  {TYPE_COMPLEX, RUSH_TYPE_COMPLEX},
  {TYPE_NUMBER, RUSH_TYPE_NUMBER},
  {TYPE_STRING, RUSH_TYPE_STRING},
  {TYPE_DEVICE, RUSH_TYPE_DEVICE},
  {TYPE_GENERATOR, RUSH_TYPE_GENERATOR},
  {TYPE_STORAGE, RUSH_TYPE_STORAGE},
  {TYPE_STREAM, RUSH_TYPE_STREAM},
  {TYPE_LIST, RUSH_TYPE_LIST},
  {TYPE_OPTIONAL, RUSH_TYPE_OPTIONAL},
  {TYPE_DICT, RUSH_TYPE_DICT},
  {TYPE_TUPLE, RUSH_TYPE_TUPLE},
  {TYPE_UNION, RUSH_TYPE_UNION},
  {TYPE_FUTURE, RUSH_TYPE_FUTURE},
  {TYPE_CLASS, RUSH_TYPE_CLASS},
  {TYPE_INTERFACE, RUSH_TYPE_INTERFACE},
  {TYPE_ENUM, RUSH_TYPE_ENUM},
  {TYPE_AWAIT, RUSH_TYPE_AWAIT},
};

rush_type_kind rush_type_kind_of(const rush_type *t)
{
  type_kind k = type_runtime(in(t))->kind;

  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (kinds[i].kind == k)
      return kinds[i].outside;
  return RUSH_TYPE_OTHER;
}
size_t rush_type_n_elems(const rush_type *t) { return in(t)->n_elems; }
const rush_type *rush_type_elem(const rush_type *t, size_t i)
{
  return i < in(t)->n_elems ? out_type(in(t)->elems[i]) : NULL;
}
const char *rush_type_name(const rush_type *t) { return in(t)->name; }
const char *rush_type_field(const rush_type *t, size_t i)
{
  return in(t)->fields && i < in(t)->n_elems ? in(t)->fields[i] : NULL;
}

typedef struct compare_job {
  program *p;
  const type *a, *b;
  bool fits;
} compare_job;

static void compare_types(session *s, void *arg)
{
  compare_job *job = arg;

  job->fits = program_is_subtype(s, job->p, job->a, job->b);
}

/* An interface may need methods that are not compiled yet: a class whose method cannot be compiled
 * fits nothing. Hosts call this while they hold their own locks (Python's), which a compiling
 * thread may need: it does not wait for the program's lock. */
bool rush_type_is_subtype(const rush_type *t, const rush_type *of)
{
  compare_job job = {.a = in(t), .b = in(of)};
  call_ctx cx;

  if (type_is_subtype(job.a, job.b))
    return true;
  job.p = program_of_types(job.a->store);
  if (!job.p)
    return false;
  call_ctx_init(&cx, job.p->ctx, NULL);
  if (!mutex_try(&job.p->lock))
    return false;
  bool compared = session_run(&cx, compare_types, &job) == RUSH_OK;
  mutex_unlock(&job.p->lock);
  return compared && job.fits;
}

rush_status rush_type_to_text(rush_context *c, const rush_type *t, bool annotation, char **out,
                              rush_error *err)
{
  call_ctx cx;
  text_buf b;

  TRY(api_begin(&cx, c, err));
  text_init(&b, cx.ctx);
  if (annotation)
    type_print_annotation(&b, in(t));
  else
    type_print(&b, in(t));
  return api_text(&cx, RUSH_OK, &b, out);
}

static const type *container(type_store *ts, rush_type_kind kind, const type *const *elems,
                             size_t n)
{
  switch (kind) {
  case RUSH_TYPE_LIST:
    return type_list(ts, elems[0]);
  case RUSH_TYPE_OPTIONAL:
    return type_optional(ts, elems[0]);
  case RUSH_TYPE_DICT:
    return n == 2 ? type_dict(ts, elems[0], elems[1]) : NULL;
  case RUSH_TYPE_TUPLE:
    return type_tuple(ts, elems, (uint32_t)n);
  case RUSH_TYPE_UNION:
    return type_union(ts, elems, (uint32_t)n);
  case RUSH_TYPE_FUTURE:
    return type_future(ts, elems[0]);
  case RUSH_TYPE_AWAIT:
    return type_generic(ts, TYPE_AWAIT, elems[0]);
  default:
    return NULL;
  }
}

rush_status rush_unit_make_type(rush_unit *u, rush_type_kind kind, const rush_type *const *elems,
                                size_t n, const rush_type **out, rush_error *err)
{
  const type *t = NULL;

  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (kinds[i].outside == kind && kind < RUSH_TYPE_LIST)
      t = type_simple(kinds[i].kind);
  if (!t && (kind < RUSH_TYPE_CLASS || kind == RUSH_TYPE_AWAIT) &&
      (n > 0 || kind == RUSH_TYPE_TUPLE))
    t = container(&program_of_unit(u)->types, kind, (const type *const *)elems, n);
  if (!t)
    return error_set(err, RUSH_EARGUMENT, "there is no such type");
  *out = out_type(t);
  return RUSH_OK;
}

static void parse_type(session *s, unit_job *j)
{
  j->result = script_host_parse_type(s, j->p, j->a, j->d);
}

rush_status rush_unit_parse_type(rush_unit *u, const char *text, void *scope, const rush_type **out,
                                 rush_error *err)
{
  unit_job j = {.a = text, .d = scope};

  TRY(run_job(program_of_unit(u), err, parse_type, &j));
  *out = j.result;
  return RUSH_OK;
}

rush_status rush_unit_type_of(rush_unit *u, rush_value v, const rush_type **out, rush_error *err)
{
  const type *t = type_of_value(&program_of_unit(u)->types, v);

  if (!t)
    return error_nomem(err);
  *out = out_type(t);
  return RUSH_OK;
}

const rush_type *rush_unit_unify(rush_unit *u, const rush_type *a, const rush_type *b)
{
  return out_type(type_unify(&program_of_unit(u)->types, in(a), in(b), false));
}

const rush_type *rush_unit_find_type(rush_unit *u, const char *qualified)
{
  program *p = program_of_unit(u);

  mutex_lock(&p->lock);
  const type *t = program_find_class(p, str_of(qualified));
  if (!t && custom_class_known(str_of(qualified)))
    t = type_class_ref(&p->types, str_of(qualified));
  mutex_unlock(&p->lock);
  return out_type(t);
}

rush_status rush_custom_create(rush_context *c, const char *name, rush_value state, rush_value *out,
                               rush_error *err)
{
  call_ctx cx;
  void *self;

  TRY(api_begin(&cx, c, err));
  const custom_class *cls = custom_class_known(str_of(name ? name : ""));
  if (!cls || !cls->set_state)
    return error_set(err, RUSH_EUNSUPPORTED, "the class %s is not known here",
                     name ? name : "NULL");
  TRY(cls->set_state(&cx, state, &self));
  return custom_value_new_steal(&cx, cls, self, out);
}

rush_status rush_type_convert(rush_context *c, const rush_type *t, rush_value v, rush_value *out,
                              rush_error *err)
{
  bool fits = false;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  TRY(value_bind(&cx, in(t), v, &fits, out));
  return fits ? RUSH_OK
              : error_set_type(err, RUSH_EARGUMENT, "TypeError", "the value is not of the type");
}

/* -- Classes ----------------------------------------------------------------------------------- */

static void add_class(session *s, unit_job *j) { j->result = script_host_add_class(s, j->p, j->a); }

rush_status rush_unit_add_class(rush_unit *u, const rush_class_def *def, const rush_type **out,
                                rush_error *err)
{
  rush_class_def own;
  unit_job j = {.a = &own};

  TRY(API_READ(err, rush_class_def, def, &own));
  TRY(run_job(program_of_unit(u), err, add_class, &j));
  *out = j.result;
  return RUSH_OK;
}

void rush_unit_forget_class(rush_unit *u, const rush_type *t)
{
  program *p = program_of_unit(u);

  mutex_lock(&p->lock);
  script_host_forget(p, in(t));
  mutex_unlock(&p->lock);
}

static void add_attr(session *s, unit_job *j)
{
  uint32_t slot = class_add_attr(s, j->a, j->b, j->c);
  class_attr *a = &((const type *)j->a)->cls->attrs[slot];
  a->is_parameter = j->flags & RUSH_ATTR_PARAMETER;
  a->is_buffer = j->flags & RUSH_ATTR_BUFFER;
}

rush_status rush_class_add_attr(rush_unit *u, const rush_type *t, const char *name,
                                const rush_type *type, unsigned flags, rush_error *err)
{
  unit_job j = {.a = t, .b = name, .c = type, .flags = flags};

  return run_job(program_of_unit(u), err, add_attr, &j);
}

static void add_constant(session *s, unit_job *j)
{
  const type *t = j->c ? j->c : type_of_value(&j->p->types, j->value);
  if (!t)
    session_check(s, call_nomem(s->cx));
  class_add_constant(s, j->a, j->b, t, j->value);
}

rush_status rush_class_add_constant(rush_unit *u, const rush_type *t, const char *name,
                                    const rush_type *type, rush_value v, rush_error *err)
{
  unit_job j = {.a = t, .b = name, .c = type, .value = v};

  return run_job(program_of_unit(u), err, add_constant, &j);
}

static void add_property(session *s, unit_job *j)
{
  script_host_add_property(s, j->a, j->b, (function *)j->c, j->d);
}

rush_status rush_class_add_property(rush_unit *u, const rush_type *t, const char *name,
                                    rush_function *getter, rush_function *setter, rush_error *err)
{
  unit_job j = {.a = t, .b = name, .c = getter, .d = setter};

  return run_job(program_of_unit(u), err, add_property, &j);
}

static void add_hook(session *s, unit_job *j) { script_host_add_hook(s, j->a, j->d, j->flags); }

rush_status rush_class_add_hook(rush_unit *u, const rush_type *t, rush_function *f, bool pre,
                                rush_error *err)
{
  unit_job j = {.a = t, .d = f, .flags = pre};

  return run_job(program_of_unit(u), err, add_hook, &j);
}

static void add_member(session *s, unit_job *j) { script_host_add_member(s, j->a, j->b, j->value); }

rush_status rush_class_add_member(rush_unit *u, const rush_type *t, const char *name, rush_value v,
                                  rush_error *err)
{
  unit_job j = {.a = t, .b = name, .value = v};

  return run_job(program_of_unit(u), err, add_member, &j);
}

static void add_field(session *s, unit_job *j) { script_host_add_field(s, j->a, j->b, j->c, j->d); }

rush_status rush_class_add_field(rush_unit *u, const rush_type *t, const char *name,
                                 const rush_type *type, const rush_value *default_value,
                                 rush_error *err)
{
  unit_job j = {.a = t, .b = name, .c = type, .d = (void *)default_value};

  return run_job(program_of_unit(u), err, add_field, &j);
}

const char *rush_class_attr(const rush_type *t, size_t i, const rush_type **type, unsigned *flags)
{
  const class_info *c = in(t)->cls;

  if (!c || i >= c->n_attrs)
    return NULL;
  if (type)
    *type = out_type(c->attrs[i].type);
  if (flags)
    *flags = (c->attrs[i].is_parameter ? RUSH_ATTR_PARAMETER : 0) |
             (c->attrs[i].is_buffer ? RUSH_ATTR_BUFFER : 0);
  return c->attrs[i].name;
}

rush_function *rush_class_method(const rush_type *t, const char *name)
{
  return (rush_function *)(in(t)->cls ? class_find_method(in(t), name) : NULL);
}

const char *rush_class_method_name(const rush_type *t, size_t i)
{
  const class_info *c = in(t)->cls;

  return c && i < c->n_methods ? c->methods[i]->name : NULL;
}

rush_function *rush_class_hook(const rush_type *t, size_t i, bool pre)
{
  const class_info *c = in(t)->cls;

  if (!c || i >= (pre ? c->n_pre_hooks : c->n_hooks))
    return NULL;
  return (rush_function *)(pre ? c->forward_pre_hooks : c->forward_hooks)[i];
}

static void complete(session *s, unit_job *j) { class_complete(s, j->a); }

rush_status rush_class_complete(const rush_type *t, rush_error *err)
{
  unit_job j = {.a = t};

  return in(t)->cls ? run_job(in(t)->cls->program, err, complete, &j) : RUSH_OK;
}

rush_value rush_class_member(const rush_type *t, const char *name)
{
  const class_info *c = in(t)->cls;

  for (uint32_t i = 0; c && i < c->n_members; i++)
    if (strcmp(c->enum_names[i], name) == 0)
      return c->enum_members[i];
  return value_unset();
}

/* -- Objects ----------------------------------------------------------------------------------- */

rush_status rush_object_create(rush_context *c, const rush_type *t, rush_value *out,
                               rush_error *err)
{
  rush_object *o;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (in(t)->kind != TYPE_CLASS || !in(t)->cls)
    return error_set(err, RUSH_EARGUMENT, "objects are made of classes");
  TRY(object_new(&cx, in(t), in(t)->cls->n_attrs, &o));
  *out = value_heap_steal(RUSH_TAG_OBJECT, o);
  return RUSH_OK;
}

const rush_type *rush_object_type(rush_value object)
{
  return object.tag == RUSH_TAG_OBJECT ? out_type(object.as.object->type) : NULL;
}

rush_status rush_module_of_object(rush_unit *u, rush_value object, rush_module **out,
                                  rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, program_of_unit(u)->ctx, err));
  if (object.tag != RUSH_TAG_OBJECT)
    return error_set(err, RUSH_EARGUMENT, "a module is made of an object");
  return module_around(&cx, program_of_unit(u), object, NULL, out);
}

rush_status rush_named_tuple_create(rush_context *c, const rush_type *t, const rush_value *items,
                                    size_t n, rush_value *out, rush_error *err)
{
  rush_tuple *tuple;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (in(t)->kind != TYPE_TUPLE || n != in(t)->n_elems)
    return error_set(err, RUSH_EARGUMENT, "the NamedTuple has %u fields, not %zu", in(t)->n_elems,
                     n);
  TRY(tuple_new(&cx, in(t), n, &tuple));
  for (size_t i = 0; i < n; i++)
    tuple->items[i] = value_retain(items[i]);
  *out = value_heap_steal(RUSH_TAG_TUPLE, tuple);
  return RUSH_OK;
}

rush_status rush_future_result(rush_context *c, rush_value future, rush_value *out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  return future_result(&cx, future, out);
}

bool rush_future_is_awaitable(rush_value future) { return future_is_awaitable(future); }

rush_status rush_future_create(rush_context *c, rush_value result, rush_value *out, rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  type_store *ts = type_store_of_context(cx.ctx);
  const type *elem = ts ? type_of_value(ts, result) : NULL;
  const type *t = elem ? type_future(ts, elem) : NULL;
  return t ? future_done(&cx, t, result, out) : call_nomem(&cx);
}
