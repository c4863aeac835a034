/* module/module.c -- instances of programs' module classes: lifetime, methods, locks and state
 * (module.h).
 *
 * A call takes the instance's lock only if a method changes state, which the alias analysis decides
 * once per method: most models are called by many threads at once without a lock.  Rejected: a lock
 * in each call, which costs more than a small model's operators. */
#include "module/module.h"

#include "formats/zip.h"
#include "ir/alias.h"
#include "run/outputs.h"
#include "script/front/unit.h"

/* -- Life -------------------------------------------------------------------------------------- */

static void free_training(context *c, struct training_flags *t);

void module_release(module *m)
{
  if (!m)
    return;
  context *c = m->ctx;
  free_training(c, m->training);
  value_release(m->object);
  program_release(m->program);
  table_free(&m->extra_files);
  mapping_release(m->samples);
  zip_release(m->archive);
  exported_program_release(m->data);
  call_lock_release(m->lock);
  mem_free(c, m, sizeof *m);
  context_release(c);
}

module *module_new(call_ctx *cx)
{
  module *m = mem_alloc_zero(cx->ctx, sizeof *m);
  call_lock *lock = m ? call_lock_new(cx->ctx) : NULL;

  if (!lock) {
    mem_free(cx->ctx, m, sizeof *m);
    return NULL;
  }
  m->lock = lock;
  atomic_init(&m->is_random, -1);
  m->ctx = context_retain(cx->ctx);
  m->object = value_none();
  table_init(&m->extra_files, cx->ctx);
  return m;
}

void module_share_lock(module *m, const module *root)
{
  if (m->object.tag != RUSH_TAG_OBJECT)
    return;
  object_adopt(m->object.as.object, root ? root->lock : m->lock);
  call_lock *lock = call_lock_retain(root ? root->lock : object_lock(m->object.as.object));
  call_lock_release(m->lock);
  m->lock = lock;
}

rush_status module_around(call_ctx *cx, program *p, rush_value object, const module *root,
                          module **out)
{
  module *m = module_new(cx);

  if (!m)
    return call_nomem(cx);
  m->program = program_retain(p);
  m->object = value_retain(object);
  m->format = RUSH_FORMAT_TORCHSCRIPT;
  module_share_lock(m, root);
  *out = m;
  return RUSH_OK;
}

rush_status module_place(call_ctx *cx, const module *m, rush_status st)
{
  const char *file = m->program ? m->program->file : NULL;

  if (st != RUSH_OK && file && error_has_part(cx->err, ERROR_SHOWS_SOURCE))
    error_prefix(cx->err, "%s", file);
  return st;
}

/* -- Texts ------------------------------------------------------------------------------------- */

typedef struct define_job {
  module *m;
  const char *name;
  uint32_t first_line;
  str text;
} define_job;

static void define_body(session *s, void *arg)
{
  define_job *job = arg;
  module *m = job->m;
  rush_object *o;

  if (!m->program) {
    m->program = program_new(s, s->cx->ctx);
    session_check(s, object_new(s->cx, script_unit_new(s, m->program), 0, &o));
    m->object = value_heap_steal(RUSH_TAG_OBJECT, o);
    m->format = RUSH_FORMAT_TORCHSCRIPT;
  }
  script_unit_define(s, m->program, job->name, job->first_line, job->text);
}

rush_status module_define(call_ctx *cx, module *m, const char *name, uint32_t first_line, str text)
{
  if (m->program && !script_unit_is(m->program))
    return error_set(
      cx->err, RUSH_EARGUMENT,
      "definitions can be added to what was compiled from text, not to an archive's module");
  define_job job = {m, name, first_line, text};
  lock_hold hold;
  TRY(lock_take(cx, m->lock, LOCK_EXCLUSIVE, &hold));
  rush_status st = session_run(cx, define_body, &job);
  atomic_store(&m->is_random, -1);
  lock_drop(&hold);
  return st;
}

rush_status module_compile(call_ctx *cx, const char *name, uint32_t first_line, str text,
                           module **out)
{
  module *m = module_new(cx);

  if (!m)
    return call_nomem(cx);
  rush_status st = module_define(cx, m, name, first_line, text);
  if (st == RUSH_OK) {
    module_share_lock(m, NULL);
    *out = m;
  }
  else
    module_release(m);
  return st;
}

/* -- Methods ----------------------------------------------------------------------------------- */

static const class_info *class_of(const module *m) { return m->object.as.object->type->cls; }

function *module_find_method(module *m, const char *name)
{
  function *f = atomic_load_explicit(&m->found, memory_order_acquire);

  if (f && name && strcmp(f->name, name) == 0)
    return f;
  f = class_find_method(m->object.as.object->type, name);
  if (f)
    atomic_store_explicit(&m->found, f, memory_order_release);
  return f;
}

static bool is_public(const function *f)
{
  return f->name[0] != '_' || strcmp(f->name, "__call__") == 0;
}

uint32_t module_n_methods(const module *m)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < class_of(m)->n_methods; i++)
    n += is_public(class_of(m)->methods[i]);
  return n;
}

const char *module_method_name(const module *m, uint32_t i)
{
  for (uint32_t k = 0; k < class_of(m)->n_methods; k++)
    if (is_public(class_of(m)->methods[k]) && i-- == 0)
      return class_of(m)->methods[k]->name;
  return NULL;
}

COLD static rush_status fail_method(module *m, const char *wanted, rush_error *err)
{
  enum { MOST = 8 };
  const uint32_t n = module_n_methods(m);
  text_buf t;

  text_init(&t, m->ctx);
  for (uint32_t i = 0; i < n && i < MOST; i++)
    text_printf(&t, "%s%s", i ? ", " : "", module_method_name(m, i));
  if (n > MOST)
    text_printf(&t, " and %u more", n - MOST);
  rush_status st =
    error_set_type(err, RUSH_EARGUMENT, "AttributeError",
                   "the module has no method '%s'; it has %s", wanted, n ? text_str(&t) : "none");
  text_free(&t);
  return st;
}

rush_status module_method(module *m, const char *name, function **out, rush_error *err)
{
  const char *wanted = name ? name : "forward";

  *out = module_find_method(m, wanted);
  return LIKELY(*out != NULL) ? RUSH_OK : fail_method(m, wanted, err);
}

rush_status module_signature(call_ctx *cx, module *m, const char *method, signature **out)
{
  function *f;

  TRY(module_method(m, method, &f, cx->err));
  if (!f->schema->returns[0].type) /* not annotated: inferred from the body */
    TRY(module_place(cx, m, function_prepare(cx, f)));
  return signature_new(cx, f, m->exported, out);
}

/* -- Calls that may run together --------------------------------------------------------------- */

#define MOST_MODULES 100000 /* that are visited; a file may have one at many positions */

/* The objects in the module that have `training`, retained, and its position in each. */
struct training_flags {
  uint32_t n, cap;
  uint32_t n_seen; /* modules */
  struct training_flag { rush_object *object; uint32_t slot; } *flags;
};

static void free_training(context *c, struct training_flags *t)
{
  if (!t)
    return;
  for (uint32_t i = 0; i < t->n; i++)
    value_release(value_heap_steal(RUSH_TAG_OBJECT, t->flags[i].object));
  mem_free(c, t->flags, t->cap * sizeof *t->flags);
  mem_free(c, t, sizeof *t);
}

static bool add_flag(context *c, struct training_flags *t, rush_object *o, uint32_t slot)
{
  if (t->n == t->cap) {
    uint32_t cap = t->cap ? 2 * t->cap : 16;
    struct training_flag *grown = mem_alloc(c, cap * sizeof *grown);
    if (!grown)
      return false;
    if (t->n)
      memcpy(grown, t->flags, t->n * sizeof *grown);
    mem_free(c, t->flags, t->cap * sizeof *t->flags);
    t->flags = grown;
    t->cap = cap;
  }
  heap_retain(&o->h);
  t->flags[t->n++] = (struct training_flag){o, slot};
  return true;
}

/* Find them; returns false for too many modules, too deep nesting, or if memory runs out. */
static bool find_training(context *c, rush_object *o, struct training_flags *t, uint32_t depth)
{
  const class_info *cls = o->type->cls;
  bool ok = depth > 0 && ++t->n_seen < MOST_MODULES;

  for (uint32_t i = 0; i < cls->n_attrs && ok; i++) {
    const rush_value *v = &o->slots[i];
    if (v->tag == RUSH_TAG_BOOL && strcmp(cls->attrs[i].name, "training") == 0)
      ok = add_flag(c, t, o, i);
    else if (v->tag == RUSH_TAG_OBJECT && v->as.object->type->cls->is_module)
      ok = find_training(c, v->as.object, t, depth - 1);
  }
  return ok;
}

static struct training_flags *make_training(module *m)
{
  struct training_flags *t = mem_alloc_zero(m->ctx, sizeof *t), *none = NULL;

  if (!t)
    return NULL;
  if (!find_training(m->ctx, m->object.as.object, t, 200)) {
    free_training(m->ctx, t);
    return NULL;
  }
  if (atomic_compare_exchange_strong(&m->training, &none, t))
    return t;
  free_training(m->ctx, t);
  return none;
}

static bool is_training(module *m)
{
  const struct training_flags *flags = atomic_load_explicit(&m->training, memory_order_acquire);

  if (!flags && !(flags = make_training(m)))
    return true;
  for (uint32_t i = 0; i < flags->n; i++)
    if (flags->flags[i].object->slots[flags->flags[i].slot].as.b)
      return true;
  return false;
}

/* Take the module's lock in the way that a call of f needs.  Some methods change state only in
 * training: that flag is read under the lock, and a call that found it set runs alone even if it
 * was cleared meanwhile. */
static rush_status take_for_call(call_ctx *cx, module *m, function *f, lock_hold *hold)
{
  bool eval = function_changes_state(cx, f, false), train = function_changes_state(cx, f, true);

  TRY(lock_take(cx, m->lock, eval && train ? LOCK_EXCLUSIVE : LOCK_SHARED, hold));
  if (eval == train || !(is_training(m) ? train : eval))
    return RUSH_OK;
  lock_drop(hold);
  return lock_take(cx, m->lock, LOCK_EXCLUSIVE, hold);
}

static bool holds_container(const rush_tuple *t)
{
  for (size_t i = 0; i < t->n; i++) {
    const rush_value *v = &t->items[i];
    if (v->tag == RUSH_TAG_LIST || v->tag == RUSH_TAG_DICT)
      if (!heap_is_unique(v->as.heap))
        return true;
    if (v->tag == RUSH_TAG_OBJECT || (v->tag == RUSH_TAG_TUPLE && holds_container(v->as.tuple)))
      return true;
  }
  return false;
}

/* Prepare a result: what the module still holds is snapshot as if the host read it from the
 * state; what only the result holds belongs to the host; arguments that are returned belong to
 * the caller. */
static inline rush_status prepare_result(call_ctx *cx, call_lock *lock, const rush_value *args,
                                      uint32_t n_args, rush_value *result)
{
  rush_value v = *result, made;

  if (LIKELY(v.tag == RUSH_TAG_TENSOR))
    return RUSH_OK;
  bool is_mine = v.tag == RUSH_TAG_OBJECT || v.tag == RUSH_TAG_TUPLE ||
                 ((v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_DICT) && !heap_is_unique(v.as.heap));

  for (uint32_t i = 0; i < n_args && is_mine; i++)
    is_mine = args[i].tag != v.tag || args[i].as.heap != v.as.heap;
  if (!is_mine || (v.tag == RUSH_TAG_TUPLE && !holds_container(v.as.tuple)))
    return RUSH_OK;
  rush_status st = value_snapshot(cx, v, lock, &made);
  value_release(v);
  *result = st == RUSH_OK ? made : value_none();
  return st;
}

static rush_status run_method(call_ctx *cx, module *m, function *f, const rush_value *args,
                              uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                              rush_value *result)
{
  if (m->exported)
    return exported_call(cx, m->exported, m->object, args, n_args, kwargs, n_kwargs, result);
  return function_call_bound(cx, f, function_takes_self(f) ? &m->object : NULL, args, n_args,
                             kwargs, n_kwargs, result);
}

/* Call f with results in buffers of the caller's; the lock is held.  An exported program writes to
 * them itself. */
static rush_status run_into(call_ctx *cx, module *m, function *f, const rush_value *args,
                            uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                            rush_value *result)
{
  output_buffers *o = cx->outputs;

  outputs_see_arguments(o, args, n_args, kwargs, n_kwargs);
  TRY(outputs_check_state(cx, o, m->program, m->object));
  TRY(run_method(cx, m, f, args, n_args, kwargs, n_kwargs, result));
  cx->outputs = NULL;
  if (m->exported)
    return RUSH_OK;
  const rush_status st = outputs_finish_result(cx, o, result);
  if (st != RUSH_OK)
    value_release(*result);
  return st;
}

rush_status module_call(call_ctx *cx, module *m, const char *method, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *result)
{
  function *f;
  rush_status st;
  lock_hold hold;

  TRY(module_method(m, method, &f, cx->err));
  if (UNLIKELY((st = function_prepare(cx, f)) != RUSH_OK))
    return module_place(cx, m, st);
  TRY(take_for_call(cx, m, f, &hold));
  st = UNLIKELY(cx->outputs != NULL) ? run_into(cx, m, f, args, n_args, kwargs, n_kwargs, result)
                                     : run_method(cx, m, f, args, n_args, kwargs, n_kwargs, result);
  if (st == RUSH_OK)
    st = prepare_result(cx, m->lock, args, n_args, result);
  lock_drop(&hold);
  return st;
}

rush_status object_call(call_ctx *cx, rush_value object, function *f, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *result)
{
  call_lock *lock = object_lock(object.as.object);
  lock_hold hold;

  TRY(function_prepare(cx, f));
  bool changes =
    lock && (function_changes_state(cx, f, true) || function_changes_state(cx, f, false));
  TRY(lock_take(cx, lock, changes ? LOCK_EXCLUSIVE : LOCK_SHARED, &hold));
  rush_status st = function_call_bound(cx, f, function_takes_self(f) ? &object : NULL, args, n_args,
                                       kwargs, n_kwargs, result);
  if (st == RUSH_OK && lock)
    st = prepare_result(cx, lock, args, n_args, result);
  lock_drop(&hold);
  return st;
}

/* -- State ------------------------------------------------------------------------------------- */

typedef struct walk {
  call_ctx *cx;
  module_visit *fn;
  void *arg;
  text_buf name;
  bool stop;
} walk;

static rush_status walk_object(walk *w, rush_object *o)
{
  const class_info *cls = o->type->cls;
  size_t len = w->name.len;

  TRY(call_enter(w->cx));
  for (int pass = 0; pass < 2;
       pass++) /* own parameters and buffers first, then submodules: state_dict's order */
    for (uint32_t i = 0; i < cls->n_attrs && !w->stop; i++) {
      const class_attr *a = &cls->attrs[i];
      bool leaf = o->slots[i].tag == RUSH_TAG_TENSOR && (a->is_parameter || a->is_buffer);
      bool child =
        o->slots[i].tag == RUSH_TAG_OBJECT && o->slots[i].as.object->type->cls->is_module;
      if (pass == 0 ? !leaf : !child)
        continue;
      text_puts(&w->name, a->name);
      if (text_failed(&w->name))
        return call_nomem(w->cx);
      if (leaf) {
        w->stop = !w->fn(w->arg, text_str(&w->name), &o->slots[i], a->is_parameter);
      } else {
        text_putc(&w->name, '.');
        TRY(walk_object(w, o->slots[i].as.object));
      }
      w->name.len = len;
      if (w->name.data)
        w->name.data[len] = 0;
    }
  call_leave(w->cx);
  return RUSH_OK;
}

rush_status module_walk_state(call_ctx *cx, module *m, module_visit *fn, void *arg)
{
  walk w = {.cx = cx, .fn = fn, .arg = arg};

  text_init(&w.name, cx->ctx);
  rush_status st = walk_object(&w, m->object.as.object);
  text_free(&w.name);
  return st;
}

rush_status module_copy(call_ctx *cx, module *m, module **out)
{
  module *copy = module_new(cx);
  lock_hold hold;

  if (!copy)
    return call_nomem(cx);
  rush_status st = lock_take(cx, m->lock, LOCK_SHARED, &hold);
  if (st == RUSH_OK) {
    st = value_deepcopy(cx, m->object, &copy->object);
    lock_drop(&hold);
  }
  if (st != RUSH_OK) {
    module_release(copy);
    return st;
  }
  copy->program = program_retain(m->program);
  copy->format = m->format;
  copy->exported = m->exported;
  copy->samples = m->samples ? mapping_retain(m->samples) : NULL;
  copy->archive = m->archive ? zip_retain(m->archive) : NULL;
  copy->archive_name = m->archive_name;
  copy->data = m->data ? exported_program_retain(m->data) : NULL;
  module_share_lock(copy, NULL);
  *out = copy;
  return RUSH_OK;
}
