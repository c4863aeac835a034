/* ir/program.c -- programs: making them, lookups, compiling bodies once, destruction. */
#include "ir/program.h"
#include "base/grow.h"
#include "base/lock.h"

#include <stdio.h>

#define MOST_SOURCE_BYTES (UINT32_MAX / 2) /* places in it have 32 bits */

/* -- Making and ending ------------------------------------------------------------------------- */

static program *program_of(type_store *ts)
{
  return (program *)((char *)ts - offsetof(program, types));
}

static void release_schema_defaults(schema *sc)
{
  for (uint32_t i = 0; sc && i < sc->n_args; i++)
    if (sc->args[i].has_default)
      value_release(sc->args[i].default_value);
}

static void end_class(class_info *ci)
{
  ci->complete = NULL; /* the front end has been released */
  for (uint32_t i = 0; i < ci->n_constants; i++)
    value_release(ci->constants[i].constant);
  for (uint32_t i = 0; i < ci->n_members; i++)
    value_release(ci->enum_members[i]);
}

/* Release the code: it can no longer run, but values may still refer to its types (type_store). */
static void program_end(type_store *ts)
{
  program *p = program_of(ts);

  ASSERT(!p->has_ended, "a program ends once");
  p->has_ended = true;
  if (p->front_free)
    p->front_free(p);
  if (p->files_free)
    p->files_free(p);
  for (function *f = p->all_functions; f; f = f->next) {
    void *code = atomic_load_explicit(&f->code, memory_order_acquire);

    if (code)
      p->code_destroy(p->ctx, code);
    ir_graph_free(f->graph);
    f->graph = NULL;
    atomic_store_explicit(&f->code, NULL, memory_order_relaxed);
    if (f->owns_defaults)
      release_schema_defaults(f->schema);
  }
  for (class_info *ci = p->all_classes; ci; ci = ci->next)
    end_class(ci);
  for (uint32_t i = 0; i < p->n_constants; i++)
    value_release(p->constants[i]);
  for (struct kept_value *k = p->kept; k; k = k->next)
    value_release(k->value);
  for (uint32_t i = 0; i < p->n_sources; i++)
    source_release(p->sources[i]);
}

static void program_destroy(type_store *ts)
{
  program *p = program_of(ts);
  context *c = p->ctx;

  ASSERT(p->has_ended, "a program with code is destroyed");
  table_free(&p->classes);
  table_free(&p->functions);
  arena_free(&p->mem);
  type_store_fini(&p->types);
  mutex_destroy(&p->lock);
  bool borrowed = p->ctx_borrowed;

  mem_free(c, p, sizeof *p);
  if (!borrowed)
    context_release(c);
}

void program_borrow_context(program *p)
{
  if (p->ctx_borrowed)
    return;
  p->ctx_borrowed = true;
  context_release(p->ctx);
}

void program_keep_steal(session *s, program *p, rush_value v)
{
  struct kept_value *k = arena_alloc(&p->mem, sizeof *k);

  if (!k) {
    value_release(v);
    session_check(s, call_nomem(s->cx));
  }
  *k = (struct kept_value){v, p->kept};
  p->kept = k;
}

static void own_items(session *s, program *p, const rush_value *items, size_t n)
{
  for (size_t i = 0; i < n; i++)
    program_own(s, p, items[i]);
}

void program_own(session *s, program *p, rush_value v)
{
  const bool is_container =
    v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE || v.tag == RUSH_TAG_DICT;
  const bool is_object = v.tag == RUSH_TAG_OBJECT && v.as.object->type->store == &p->types;

  if ((!is_container && !is_object) || ((heap *)v.as.heap)->flags & VALUE_OF_PROGRAM)
    return;
  ((heap *)v.as.heap)->flags |= VALUE_OF_PROGRAM;
  session_enter(s);
  if (v.tag == RUSH_TAG_LIST) {
    own_items(s, p, v.as.list->items, v.as.list->n);
  } else if (v.tag == RUSH_TAG_TUPLE) {
    own_items(s, p, v.as.tuple->items, v.as.tuple->n);
  } else if (v.tag == RUSH_TAG_DICT) {
    size_t pos = 0;
    for (dict_entry *e; (e = dict_next(v.as.dict, &pos));)
      program_own(s, p, e->value); /* keys are plain values */
  } else {
    type_retain(v.as.object->type);
    type_release_code(v.as.object->type);
    own_items(s, p, v.as.object->slots, v.as.object->n_slots);
  }
  session_leave(s);
}

program *program_of_types(type_store *ts)
{
  return ts && ts->owner_destroy == program_destroy ? program_of(ts) : NULL;
}

/* Record a method whose result is only known when its body is compiled, for comparisons in
 * sessions.  A thread that finds the program locked does so while another compiles, and does not
 * change that thread's record. */
static void note_uninferred(function *f)
{
  program *p = f->program;

  if (!mutex_try(&p->lock))
    return;
  p->uninferred = f;
  mutex_unlock(&p->lock);
}

/* True if f overrides `super` by PyTorch's rules: the same names, arguments at least as wide, the
 * result as narrow.  Defaults may differ: a call through the interface uses the interface's. `self`
 * is the class. */
static bool overrides(const type *cls, function *f, const schema *super)
{
  const schema *sub = f->schema;

  if (!sub || f->self != cls || f->is_static || sub->n_args != super->n_args)
    return false;
  for (uint32_t i = 1; i < super->n_args; i++) {
    const schema_arg *a = &sub->args[i], *b = &super->args[i];
    if (strcmp(a->name, b->name) != 0 || !type_is_subtype(b->type, a->type))
      return false;
  }
  const type *have = sub->returns[0].type, *want = super->returns[0].type;
  if (!have)
    note_uninferred(f);
  return have && want && type_is_subtype(have, want);
}

static bool fits_interface(const type *cls, const type *iface)
{
  const class_info *a = cls->cls, *b = iface->cls;

  if (!a || !b || a->is_partial || b->is_partial ||
      (b->is_module_interface && !(a->is_module || a->is_module_interface)))
    return false;
  for (uint32_t i = 0; i < b->n_methods; i++) {
    function *have = class_find_method(cls, b->methods[i]->name);
    if (!have || !b->methods[i]->schema || !overrides(cls, have, b->methods[i]->schema))
      return false;
  }
  return true;
}

program *program_new(session *s, context *c)
{
  program *p = mem_alloc_zero(c, sizeof *p);

  if (!p)
    session_check(s, call_nomem(s->cx));
  p->ctx = context_retain(c);
  type_store_init(&p->types, c, program_end, program_destroy);
  p->types.fits_interface = fits_interface;
  arena_init(&p->mem, c);
  table_init(&p->classes, c);
  table_init(&p->functions, c);
  mutex_init_recursive(&p->lock);
  return p;
}

static void release_heap(void *h) { value_release(value_heap_steal(((heap *)h)->kind, h)); }
static void release_source(void *src) { source_release(src); }

static char *copy_text(session *s, program *p, const char *text)
{
  size_t len = strlen(text);
  char *t = session_alloc_in(s, &p->mem, len + 1);

  memcpy(t, text, len);
  return t;
}

static void register_name(session *s, table *t, const char *name, void *what)
{
  if (table_get(t, str_of(name)))
    session_fail(s, NULL, "'%s' is defined twice", name);
  session_table_put(s, t, str_of(name), what);
}

type *program_add_class(session *s, program *p, type_kind kind, const char *qualified)
{
  type *t = type_new_named(&p->types, kind, copy_text(s, p, qualified), NULL, 0);

  if (!t)
    session_check(s, call_nomem(s->cx));
  class_info *ci = kind == TYPE_TUPLE ? NULL : session_alloc_in(s, &p->mem, sizeof *ci);

  register_name(s, &p->classes, t->name, t);
  if (!ci)
    return t; /* a NamedTuple: fields only */
  ci->type = t;
  ci->program = p;
  ci->next = p->all_classes;
  p->all_classes = ci;
  t->cls = ci;
  return t;
}

static function *new_function(session *s, program *p, const char *name, const char *qualified)
{
  function *f = session_alloc_in(s, &p->mem, sizeof *f);

  ASSERT(!p->has_ended, "a function for a program that has ended");
  f->program = p;
  f->name = copy_text(s, p, name);
  f->qualified = copy_text(s, p, qualified);
  f->next = p->all_functions;
  p->all_functions = f;
  return f;
}

function *program_add_function(session *s, program *p, const char *qualified)
{
  const char *dot = strrchr(qualified, '.');
  function *f = new_function(s, p, dot ? dot + 1 : qualified, qualified);

  register_name(s, &p->functions, f->qualified, f);
  return f;
}

function *program_add_closure(session *s, program *p, const char *qualified)
{
  const char *dot = strrchr(qualified, '.');

  return new_function(s, p, dot ? dot + 1 : qualified, qualified);
}

function *class_add_method(session *s, const type *cls, const char *name)
{
  class_info *ci = cls->cls;
  function *f = new_function(s, ci->program, name, session_printf(s, "%s.%s", cls->name, name));

  ASSERT(ci->type == cls, "a method of another class");
  f->self = cls;
  GROW_IN(s, &ci->program->mem, ci->methods, ci->n_methods, ci->cap_methods, 4);
  ci->methods[ci->n_methods++] = f;
  return f;
}

void class_share_function(session *s, const type *cls, function *f)
{
  class_info *ci = cls->cls;

  ASSERT(ci && f->program == ci->program, "a function of another program");
  GROW_IN(s, &ci->program->mem, ci->methods, ci->n_methods, ci->cap_methods, 4);
  ci->methods[ci->n_methods++] = f;
}

static class_attr *add_attr(session *s, class_info *ci, class_attr **list, uint32_t *n,
                            uint32_t *cap)
{
  GROW_IN(s, &ci->program->mem, *list, *n, *cap, 4);
  return &(*list)[(*n)++];
}

uint32_t class_add_attr(session *s, const type *cls, const char *name, const type *t)
{
  class_info *ci = cls->cls;
  class_attr *a = add_attr(s, ci, &ci->attrs, &ci->n_attrs, &ci->cap_attrs);

  ASSERT(t != NULL, "an attribute without a type");
  a->name = copy_text(s, ci->program, name);
  a->type = t;
  return ci->n_attrs - 1;
}

uint32_t class_add_constant(session *s, const type *cls, const char *name, const type *t,
                            rush_value v)
{
  class_info *ci = cls->cls;
  class_attr *a = add_attr(s, ci, &ci->constants, &ci->n_constants, &ci->cap_constants);

  a->name = copy_text(s, ci->program, name);
  a->type = t;
  a->is_constant = true;
  a->constant = value_retain(v);
  return ci->n_constants - 1;
}

void class_add_enum_member(session *s, const type *cls, const char *name, rush_value member_steal)
{
  class_info *ci = cls->cls;
  uint32_t n = ci->n_members;

  session_defer(s, release_heap, member_steal.as.heap);
  const char **names = session_alloc_in(s, &ci->program->mem, (n + 1) * sizeof *names);
  rush_value *members = session_alloc_in(s, &ci->program->mem, (n + 1) * sizeof *members);

  if (n) {
    memcpy(names, ci->enum_names, n * sizeof *names);
    memcpy(members, ci->enum_members, n * sizeof *members);
  }
  names[n] = copy_text(s, ci->program, name);
  members[n] = member_steal;
  session_keep(s, member_steal.as.heap);
  ci->enum_names = names;
  ci->enum_members = members;
  ci->n_members = n + 1;
}

/* A class being read; it is removed from the table if that fails. */
typedef struct unread {
  program *p;
  str name;
} unread;

static void forget_class(void *arg)
{
  unread *u = arg;
  table_remove(&u->p->classes, u->name);
}

void *program_begin_class(session *s, program *p, const char *qualified)
{
  unread *u = session_new(s, unread);

  *u = (unread){p, str_of(qualified)};
  session_defer(s, forget_class, u);
  return u;
}

static void undeclare(void *arg)
{
  function *f = arg;

  if (f->owns_defaults)
    release_schema_defaults(f->schema);
  f->schema = NULL;
  f->owns_defaults = false;
}

void function_begin_schema(session *s, function *f, schema *sc)
{
  ASSERT(sc != NULL, "a function without a schema");
  undeclare(f);
  f->schema = sc;
  f->owns_defaults = true;
  session_defer(s, undeclare, f);
}

source *program_add_source(session *s, program *p, const char *name, const char *text, size_t len)
{
  if (len >= MOST_SOURCE_BYTES)
    session_fail_status(s, RUSH_ELIMIT, NULL, NULL,
                        "%s: a source text of %zu bytes; the limit is %u", name ? name : "<string>",
                        len, MOST_SOURCE_BYTES);
  source *src = source_new(s->cx->ctx, name, text, len);
  if (!src)
    session_check(s, call_nomem(s->cx));
  session_defer(s, release_source, src);
  GROW_IN(s, &p->mem, p->sources, p->n_sources, p->cap_sources, 4);
  p->sources[p->n_sources++] = session_keep(s, src);
  return src;
}

void function_set_graph_steal(function *f, ir_graph *g)
{
  ASSERT(g != f->graph, "a graph that the function has already");
  ASSERT(!f->program->has_ended, "a graph for a program that has ended");
  if (g->types == &f->program->types || g->types == f->program->borrowed_types)
    ir_graph_borrow_types(g);
  ir_graph_free(f->graph);
  f->graph = g;
}

/* -- Finding ----------------------------------------------------------------------------------- */

const type *program_find_class(const program *p, str qualified)
{
  return table_get(&p->classes, qualified);
}

function *program_find_function(const program *p, str qualified)
{
  return table_get(&p->functions, qualified);
}

int class_attr_index(const type *cls, str name)
{
  const class_info *ci = cls->cls;

  for (uint32_t i = 0; ci && i < ci->n_attrs; i++)
    if (str_is(name, ci->attrs[i].name))
      return (int)i;
  return -1;
}

const class_attr *class_constant(const type *cls, str name)
{
  const class_info *ci = cls->cls;

  for (uint32_t i = 0; ci && i < ci->n_constants; i++)
    if (str_is(name, ci->constants[i].name))
      return &ci->constants[i];
  return NULL;
}

function *class_find_method(const type *cls, const char *name)
{
  const class_info *ci = cls->cls;

  for (uint32_t i = 0; ci && name && i < ci->n_methods; i++)
    if (strcmp(name, ci->methods[i]->name) == 0)
      return ci->methods[i];
  return NULL;
}

function *ir_node_callee(const ir_node *n)
{
  if (n->function || n->kind != IR_CALL_METHOD || n->n_inputs == 0)
    return n->function;
  const char *name = ir_attr_string(n, "name");
  const type *t = ir_node_input(n, 0)->type;
  return name && type_is(t, TYPE_CLASS) ? class_find_method(t, name) : NULL;
}

/* -- Compiling bodies -------------------------------------------------------------------------- */

typedef struct ensure {
  program *p;
  function *f;
} ensure;

static void unlock_program(void *arg)
{
  ensure *e = arg;

  /* Still compiling: the session was left early.  The next call tries again. */
  if (e->f && e->f->state == FUNCTION_COMPILING)
    e->f->state = FUNCTION_DECLARED;
  mutex_done(&e->p->lock);
}

static ensure *lock_program(session *s, program *p)
{
  ensure *e = session_new(s, ensure);

  e->p = p;
  session_check(s, mutex_wait(s->cx, &p->lock));
  session_defer(s, unlock_program, e);
  return e;
}

void class_complete(session *s, const type *cls)
{
  class_info *ci = cls->cls;

  if (!ci || !ci->complete)
    return;
  ensure *e = lock_program(s, ci->program);
  void (*complete)(session *, const type *) = ci->complete;

  if (complete) {
    ci->complete = NULL;
    complete(s, cls);
  }
  unlock_program(session_keep(s, e));
}

void function_ensure(session *s, function *f)
{
  if (f->program->has_ended)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "'%s' cannot be called: its module was released, and an object that a "
                        "program holds as a constant does "
                        "not keep the program",
                        f->qualified);
  if (f->state == FUNCTION_COMPILED)
    return;
  ensure *e = lock_program(s, f->program);

  if (f->state == FUNCTION_COMPILING)
    session_fail(s, NULL, "function '%s' is called recursively. Recursive calls are not supported",
                 f->name);
  if (f->state == FUNCTION_DECLARED) {
    if (!f->compile && !f->graph)
      session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL, "'%s' has no body", f->qualified);
    f->state = FUNCTION_COMPILING;
    e->f = f;
    session_enter(s);
    if (f->compile)
      f->compile(s, f);
    session_leave(s);
    f->state = FUNCTION_COMPILED;
  }
  unlock_program(session_keep(s, e));
}

static void ensure_body(session *s, void *arg) { function_ensure(s, arg); }

rush_status function_compile(call_ctx *cx, function *f)
{
  return session_run(cx, ensure_body, f);
}

/* -- Comparing --------------------------------------------------------------------------------- */

bool program_infer_more(session *s, program *p)
{
  function *f = p->uninferred;

  p->uninferred = NULL;
  if (!f)
    return false;
  if (f->state == FUNCTION_COMPILING)
    session_fail(s, NULL,
                 "method '%s' is compared with an interface's while its result is inferred: "
                 "annotate what it returns",
                 f->qualified);
  function_ensure(s, f);
  return true;
}

bool program_is_subtype(session *s, program *p, const type *a, const type *b)
{
  bool fits;

  p->uninferred = NULL;
  do
    fits = type_is_subtype(a, b);
  while (!fits && program_infer_more(s, p));
  return fits;
}
