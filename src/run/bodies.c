/* run/bodies.c -- composites: operators whose bodies are TorchScript.
 *
 * Each becomes a function of one built-in program per context, compiled at its first use. */
#include "autodiff/differentiate.h"
#include "run/stack.h"
#include "script/emit/body.h"

typedef struct body_runtime {
  op_body_runtime calls; /* first: what the slot's readers see */
  program *program;
} body_runtime;

typedef struct body_job {
  body_runtime *rt;
  const op *op;
  const char *name, *text; /* name: of a gradient, or NULL */
  bool is_core;            /* the text is a decomposition */
  function *made;
} body_job;

static void define_body(session *s, void *arg)
{
  body_job *job = arg;

  job->made = job->name ? script_define_gradient(s, job->rt->program, job->op, job->name, job->text)
                        : script_define_body(s, job->rt->program, job->op, job->text,
                                             job->is_core);
  job->made->is_builtin = true;
}

static rush_status compile_body(call_ctx *cx, const op *o, const char *text, bool is_core,
                                void **out)
{
  body_job job = {.rt = context_slot_get(cx->ctx, SLOT_PROGRAM),
                  .op = o,
                  .text = text,
                  .is_core = is_core};

  TRY(session_run(cx, define_body, &job));
  *out = job.made;
  return RUSH_OK;
}

static rush_status compile_gradient(call_ctx *cx, const op *o, const char *name, const char *text,
                                    void **out)
{
  body_job job = {
    .rt = context_slot_get(cx->ctx, SLOT_PROGRAM), .op = o, .name = name, .text = text};

  TRY(session_run(cx, define_body, &job));
  *out = job.made;
  return RUSH_OK;
}

/* Return one result as it is, several as a tuple. */
rush_status spread_results(call_ctx *cx, rush_value v, rush_value *results, uint32_t n)
{
  if (n == 1) {
    results[0] = v;
    return RUSH_OK;
  }
  rush_status st = RUSH_OK;

  if (n > 1 && (v.tag != RUSH_TAG_TUPLE || v.as.tuple->n != n))
    st = call_fail(cx, "a body of %u results returned something else", n);
  for (uint32_t i = 0; i < n && st == RUSH_OK; i++)
    results[i] = value_retain(v.as.tuple->items[i]);
  value_release(v);
  return st;
}

static rush_status call_body(call_ctx *cx, void *f, const rush_value *args, uint32_t n_args,
                             rush_value *results, uint32_t n_results)
{
  rush_value v;

  TRY(function_call(cx, f, args, n_args, &v));
  return spread_results(cx, v, results, n_results);
}

static rush_status call_method(call_ctx *cx, const char *name, const rush_value *args,
                               uint32_t n_args, rush_value *result)
{
  const type *cls = args[0].as.object->type;
  function *f = class_find_method(cls, name);

  if (!f)
    return call_fail(cx, "%s has no method %s", cls->name, name);
  TRY(function_prepare(cx, f));
  if (!function_takes_self(f) || f->schema->n_args != n_args)
    return call_fail(cx, "%s of %s takes %u arguments, not self and %u", name, cls->name,
                     f->schema->n_args, n_args - 1);
  for (uint32_t i = 1; i < n_args; i++) /* an interface's list holds objects of several classes */
    if (!type_contains_value(f->schema->args[i].type, args[i]))
      return call_fail(cx, "%s of %s does not take the value of argument '%s'", name, cls->name,
                       f->schema->args[i].name);
  return function_call(cx, f, args, n_args, result);
}

static rush_status check_order(call_ctx *cx, const type *cls)
{
  function *f = class_find_method(cls, "__lt__");

  if (f)
    TRY(function_prepare(cx, f));
  const schema *sc = f ? f->schema : NULL;
  if (!f || !function_takes_self(f) || sc->n_args != 2 || !type_is_subtype(cls, sc->args[1].type) ||
      sc->returns[0].type->kind != TYPE_BOOL)
    return call_fail(cx,
                     "To sort a list of %s it must define a __lt__ method with two inputs of type "
                     "%s that returns a bool",
                     cls->name, cls->name);
  return RUSH_OK;
}

static bool place_original(call_ctx *cx, const call_place *at, source_range *out, source **src)
{
  const function *f = at->function;

  return f && f->program->original && f->program->original(cx, f->program, &at->range, out, src);
}

static void destroy_runtime(context *c, void *p)
{
  body_runtime *rt = p;

  program_release(rt->program);
  mem_free(c, rt, sizeof *rt);
}

static void release_program(void *p) { program_release(p); }

static void make_runtime(session *s, void *arg)
{
  context *c = s->cx->ctx;
  program *p = program_new(s, c);

  program_borrow_context(p); /* it is owned by the context's slot */
  session_defer(s, release_program, p);
  body_runtime *rt = mem_alloc_zero(c, sizeof *rt);

  if (!rt)
    session_check(s, call_nomem(s->cx));
  rt->calls = (op_body_runtime){.compile = compile_body,
                                .compile_gradient = compile_gradient,
                                .call = call_body,
                                .method = call_method,
                                .check_order = check_order,
                                .place = stack_place,
                                .original = place_original,
                                .pack_gradients = differentiate_pack_nodes,
                                .destroy = destroy_runtime};
  rt->program = session_keep(s, p);
  *(void **)arg = rt;
}

rush_status run_init(context *c, rush_error *err)
{
  call_ctx cx;
  void *rt = NULL;

  if (context_slot_get(c, SLOT_PROGRAM))
    return RUSH_OK;
  TRY(future_init(c, err));
  call_ctx_init(&cx, c, err);
  TRY(session_run(&cx, make_runtime, &rt));
  if (!context_slot_publish_steal(c, SLOT_PROGRAM, rt, destroy_runtime))
    return error_nomem(err);
  return RUSH_OK;
}
