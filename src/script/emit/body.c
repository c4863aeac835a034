/* script/emit/body.c -- the bodies of composites: one `def` each, over torch, math and the
 * operators. */
#include "script/emit/body.h"

#include "base/lock.h"
#include "ops/call/gradient.h"
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

static bool body_attr(session *s, const resolver *r, const sugared *base, const char *name,
                      source_range at, sugared *out)
{
  (void)r;
  (void)at;
  return base->kind == SUGAR_TORCH && resolve_torch_attr(s, base->as.name, name, out);
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
} body_text;

/* Give the arguments the operator's types, whatever the text has: these are passed. */
static void take_types(session *s, function *f, const op *o)
{
  const schema *want = o->schema;

  if (f->schema->n_args != want->n_args)
    session_fail(s, NULL, "the body of %s takes %u arguments, not %u", f->qualified,
                 f->schema->n_args, want->n_args);
  for (uint32_t i = 0; i < want->n_args; i++)
    f->schema->args[i].type = type_runtime(want->args[i].type);
}

/* Give a gradient's parameters the types of the values that their names denote. */
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
  resolver names = {NULL, f->program, body_value, body_attr, body_type, 0};
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

function *script_define_body(session *s, program *p, const op *o, const char *text)
{
  const schema *sc = o->schema;

  const body_text what = {.op = o};

  return define(s, p, &what,
                session_printf(s, "%s%s%s", sc->name, sc->overload[0] ? "." : "", sc->overload),
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
