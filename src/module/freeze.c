/* module/freeze.c -- freezing a module of an archive: makes a copy whose weights are constants of
 * its code (passes/freeze_object.h does the work on graphs), and optimises frozen graphs. It runs
 * in a session under the program's lock, because it compiles bodies and adds a class. Modules in
 * training mode and of other formats are refused, as in PyTorch. */
#include "passes/freeze_object.h"

#include "module/module.h"

typedef struct freeze_job {
  module *m;
  const freeze_options *options;
  module *out;
} freeze_job;

/* Lock the program: bodies are compiled and classes added under its lock. */
static void hold_program(session *s, program *p)
{
  session_lock(s, &p->lock);
}

static bool is_training(const module *m)
{
  const rush_object *o = m->object.as.object;
  int at = class_attr_index(o->type, STR("training"));

  return at >= 0 && o->slots[at].tag == RUSH_TAG_BOOL && o->slots[at].as.b;
}

static void refuse_other_formats(session *s, const module *m)
{
  if (m->format != RUSH_FORMAT_TORCHSCRIPT || m->exported || m->object.tag != RUSH_TAG_OBJECT)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "only TorchScript modules can be frozen");
}

static void optimize_method(session *s, function *f, bool numerics)
{
  function_ensure(s, f);
  if (!f->graph)
    return;
  ir_graph *g = ir_graph_twin(s, f->graph);
  session_defer(s, ir_graph_free_deferred, g);
  pass_inline(s, g);
  freeze_optimize(s, g, numerics);
  pass_erase_shape_information(s, g); /* calls may have other shapes than the trace */
  ir_verify(s, g, "frozen optimizations");
  freeze_replace_graph(s, f, session_keep(s, g));
}

/* Optimise forward and the named methods. */
static void optimize_methods(session *s, const type *cls, const freeze_options *o)
{
  function *forward = class_find_method(cls, "forward");

  if (forward)
    optimize_method(s, forward, o->numerics);
  for (size_t i = 0; i < o->n_preserved; i++) {
    function *f = class_find_method(cls, o->preserved[i]);
    if (f && f != forward)
      optimize_method(s, f, o->numerics);
  }
}

static void freeze(session *s, void *arg)
{
  freeze_job *job = arg;

  refuse_other_formats(s, job->m);
  if (is_training(job->m))
    session_fail_status(s, RUSH_ERAISED, "RuntimeError", NULL,
                        "Freezing is currently only implemented for modules in eval mode. Please "
                        "call .eval() on your "
                        "module before freezing.");
  hold_program(s, job->m->program);
  rush_value made =
    freeze_object(s, job->m->object, job->options->preserved, (uint32_t)job->options->n_preserved);
  if (job->options->optimize)
    optimize_methods(s, made.as.object->type, job->options);
  session_check(s, module_around(s->cx, job->m->program, made, NULL, &job->out));
}

rush_status module_freeze(call_ctx *cx, module *m, const freeze_options *options, module **out)
{
  freeze_job job = {m, options, NULL};
  lock_hold hold;

  TRY(lock_take(cx, m->lock, LOCK_SHARED, &hold));
  rush_status st = module_place(cx, m, session_run(cx, freeze, &job));
  lock_drop(&hold);
  TRY(st);
  *out = job.out;
  return RUSH_OK;
}

static void optimize(session *s, void *arg)
{
  freeze_job *job = arg;

  refuse_other_formats(s, job->m);
  hold_program(s, job->m->program);
  optimize_methods(s, job->m->object.as.object->type, job->options);
}

rush_status module_optimize_frozen(call_ctx *cx, module *m, const freeze_options *options)
{
  freeze_job job = {m, options, NULL};
  lock_hold hold;

  TRY(lock_take(cx, m->lock, LOCK_EXCLUSIVE, &hold));
  rush_status st = module_place(cx, m, session_run(cx, optimize, &job));
  lock_drop(&hold);
  return st;
}
