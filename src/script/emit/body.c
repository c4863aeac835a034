/* script/emit/body.c -- the bodies of composites: one `def` each, over torch, math and the
 * operators. */
#include "script/emit/body.h"

#include "base/lock.h"
#include "ops/call/gradient.h"
#include "ops/call/lookup.h"
#include "ops/table/table.h"
#include "script/emit/emit.h"
#include "script/syntax/parser.h"

/* Resolve functions that the table's texts share. */
static bool helper_value(session *s, program *p, const char *name, sugared *out)
{
  const char *text = NULL;

  session_check(s, gradient_helper(s->cx, name, &text));
  if (!text)
    return false;
  *out =
    (sugared){.kind = SUGAR_FUNCTION,
              .as.function = script_define_text(s, p, session_printf(s, "helpers.%s", name), text)};
  return true;
}

/* Resolve a name: `torch.f` as in a user's file; `ops.aten.f.overload` for all others. */
static bool body_value(session *s, const resolver *r, const char *name, source_range at,
                       sugared *out)
{
  (void)at;
  if (strcmp(name, "torch") == 0 || strcmp(name, "math") == 0) {
    *out = (sugared){.kind = SUGAR_TORCH, .as.name = name[0] == 't' ? "torch" : "math"};
    return true;
  }
  if (strcmp(name, "ops") == 0) {
    *out = (sugared){.kind = SUGAR_OPS};
    return true;
  }
  return helper_value(s, r->program, name, out);
}

static const type *body_type(session *s, const resolver *r, const char *name, source_range at)
{
  (void)s;
  (void)r;
  (void)name;
  (void)at;
  return NULL;
}

static function *declare(session *s, program *p, const char *name)
{
  function *f = program_find_function(p, str_of(name));

  return f ? f : program_add_function(s, p, name);
}

typedef struct body_text {
  const op *op; /* or NULL: the text's signature counts */
  bool is_gradient;
  const source *src;
  uint32_t start; /* of "def" */
} body_text;

static resolver names_of(program *p)
{
  return (resolver){.program = p, .value = body_value, .attr = resolve_attr, .type = body_type};
}

/* Set the arguments' types to the operator's, whatever the text has: these are passed. */
static void take_types(session *s, function *f, const op *o)
{
  const schema *want = o->schema;

  if (f->schema->n_args != want->n_args)
    session_fail(s, NULL, "the body of %s takes %u arguments, not %u", f->qualified,
                 f->schema->n_args, want->n_args);
  for (uint32_t i = 0; i < want->n_args; i++)
    f->schema->args[i].type = type_runtime(want->args[i].type);
}

/* Set the types of a gradient's parameters to those of the values that their names denote. */
static void take_gradient_types(function *f, const op *o)
{
  for (uint32_t i = 0; i < f->schema->n_args; i++) {
    const type *t = op_gradient_type(o, str_of(f->schema->args[i].name));
    if (t)
      f->schema->args[i].type = type_runtime(t);
  }
}

static void compile_now(session *s, function *f)
{
  resolver names = names_of(f->program);
  const body_text *text = f->compile_arg;
  ast_stmts tree = parse_source(s, text->src, 0);

  if (tree.n != 1 || tree.items[0]->kind != STMT_DEF)
    session_fail(s, NULL, "the body of %s must be one function", f->qualified);
  script_declare_function(s, f, tree.items[0]->as.def, &names);
  if (text->is_gradient)
    take_gradient_types(f, text->op);
  else if (text->op)
    take_types(s, f, text->op);
  script_emit_function(s, f, tree.items[0]->as.def, &names);
}

static function *define(session *s, program *p, const body_text *what, const char *name,
                        const char *text)
{
  session_lock(s, &p->lock);
  function *f = declare(s, p, name);

  if (!f->compile && !f->graph) {
    body_text *bt = session_alloc_in(s, &p->mem, sizeof *bt);

    *bt = *what;
    bt->src = program_add_source(s, p, bt->op ? bt->op->schema->name : name, text, strlen(text));
    f->compile_arg = bt;
    f->compile = compile_now;
    f->is_builtin = true;
  }
  session_keep(s, &p->lock);
  mutex_unlock(&p->lock);
  function_ensure(s, f);
  return f;
}

function *script_define_body(session *s, program *p, const op *o, const char *text, bool is_core)
{
  const schema *sc = o->schema;

  const body_text what = {.op = o};

  return define(s, p, &what,
                session_printf(s, "%s%s%s%s", is_core ? "core." : "", sc->name,
                               sc->overload[0] ? "." : "", sc->overload),
                text);
}

function *script_define_text(session *s, program *p, const char *name, const char *text)
{
  const body_text what = {.op = NULL};

  return define(s, p, &what, name, text);
}

function *script_define_gradient(session *s, program *p, const op *o, const char *name,
                                 const char *text)
{
  const body_text what = {.op = o, .is_gradient = true};

  return define(s, p, &what, name, text);
}

/* -- Names of Python --------------------------------------------------------------------------- */

static void compile_method(session *s, function *f)
{
  const body_text *text = f->compile_arg;
  resolver names = names_of(f->program);

  script_emit_function(s, f, parse_def_at(s, text->src, text->start, 0), &names);
}

/* Complete a class: its attributes are those that __init__, its first method, sets. */
static void complete_class(session *s, const type *t)
{
  for (uint32_t i = 0; i < t->cls->n_methods; i++)
    function_ensure(s, t->cls->methods[i]);
}

static const type *make_class(session *s, program *p, const char *qualified, const char *text)
{
  void *begun = program_begin_class(s, p, qualified);
  const source *src = program_add_source(s, p, "torch", text, strlen(text));
  const ast_class *cls = parse_source(s, src, PARSE_SKIP_BODIES).items[0]->as.cls;
  type *t = program_add_class(s, p, TYPE_CLASS, qualified);
  resolver names = names_of(p);

  t->cls->is_open = true;
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const ast_def *d = cls->body.items[i]->as.def;
    function *f = class_add_method(s, t, d->name);
    body_text *bt = session_alloc_in(s, &p->mem, sizeof *bt);
    *bt = (body_text){.src = src, .start = d->at.start};
    script_declare_function(s, f, d, &names);
    f->compile = compile_method;
    f->compile_arg = bt;
  }
  t->cls->complete = complete_class;
  session_keep(s, begun);
  return t;
}

static sugared define_class(session *s, program *p, const char *qualified, const char *text)
{
  session_lock(s, &p->lock);
  const type *t = program_find_class(p, str_of(qualified));
  if (!t)
    t = make_class(s, p, qualified, text);
  session_keep(s, &p->lock);
  mutex_unlock(&p->lock);
  return (sugared){.kind = SUGAR_CLASS, .as.type = t};
}

sugared script_define_known(session *s, program *p, const struct op_known *k)
{
  const char *where = op_pool + k->text, *text = session_op_known_body(s, k);
  const uint32_t n = (uint32_t)k->number;
  function **made = session_array(s, function *, n);

  for (uint32_t i = 0; i < n; i++, text += strlen(text) + 1) {
    const char *word = strchr(text, ' ') + 1, *module = where;
    if (i) /* functions of one name, numbered as PyTorch does */
      module = session_printf(s, "%s.___torch_mangle_%u", where, i - 1);
    const char *qualified =
      session_printf(s, "__torch__.%s.%.*s", module, (int)strcspn(word, "(:"), word);
    if (text[0] == 'c')
      return define_class(s, p, qualified, text);
    made[i] = script_define_text(s, p, qualified, text);
    made[i]->is_builtin = !k->is_live; /* tracebacks show what PyTorch compiles, too */
  }
  if (n == 1)
    return (sugared){.kind = SUGAR_FUNCTION, .as.function = made[0]};
  return (sugared){.kind = SUGAR_OVERLOADS, .as.overloads = {made, NULL, n}};
}
