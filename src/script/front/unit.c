/* script/front/unit.c -- programs from Python files (unit.h). Top-level statements are read as
 * declarations into a table of bindings; a definition is resolved when a name is first used, so
 * that order does not matter and unused definitions may be invalid. Rejected: executing the module
 * in a small interpreter, which would have to be Python. If adding a text fails, its bindings are
 * removed again. */
#include "script/front/unit.h"

#include <string.h>

#include "base/trail.h"
#include "script/front/classes.h"
#include "script/emit/emit.h"
#include "script/emit/emit_int.h"
#include "script/syntax/parser.h"

typedef enum binding_kind {
  BOUND_MODULE,
  BOUND_IMPORT,
  BOUND_TYPING,
  BOUND_CONSTANT,
  BOUND_ALIAS,
  BOUND_DEF,
  BOUND_CLASS,
  BOUND_TUPLE,
  BOUND_EXCEPTION,
  BOUND_VALUE
} binding_kind;

typedef struct binding { /* what a global name means; in the program's arena */
  binding_kind kind;
  const char *name;
  const char *path;     /* MODULE, IMPORT: "torch.nn.functional", "torch.relu" */
  source_range at;      /* CONSTANT, ALIAS, TUPLE: the expression; DEF, CLASS: where it starts */
  const type *type;     /* CLASS, TUPLE, once read; CONSTANT: its type */
  function *function;   /* DEF, once declared */
  rush_value constant;
  bool is_busy;
  unsigned marks;       /* DEF, CLASS: the flags of its decorators */
  ast_def *tree; /* DEF: while its text is added by the session that has parsed it; else NULL */
  /* DEF: the signatures of its overloads, n_decls; `at` is empty until the implementation comes */
  source_range *decls;
  function **overloads; /* once declared */
  uint32_t n_decls;
} binding;

typedef enum mark { /* the flag of a decorator; MARK_FINAL: a constant's annotation */
  MARK_SCRIPT = 1,
  MARK_INTERFACE = 2,
  MARK_UNUSED = 4,
  MARK_IGNORE = 8,
  MARK_DATACLASS = 16,
  MARK_OVERLOAD = 32,
  MARK_FINAL = 64,
  MARK_ORDER = 128 /* @dataclass(order=True) */
} mark;

typedef struct unit {
  program *p;
  table names;
  resolver resolver;
  type *file;           /* its functions are this class' methods */
} unit;

static unit *unit_of(const resolver *r) { return r->arg; }

static const char *keep_name(session *s, unit *u, const char *text)
{
  char *copy = session_alloc_in(s, &u->p->mem, strlen(text) + 1);
  memcpy(copy, text, strlen(text));
  return copy;
}

static binding *bind(session *s, unit *u, binding_kind kind, const char *name, source_range at)
{
  binding *b = session_alloc_in(s, &u->p->mem, sizeof *b);
  *b = (binding){.kind = kind, .name = keep_name(s, u, name), .at = at, .constant = value_none()};
  session_table_put(s, &u->names, str_of(b->name), b);
  return b;
}

/* -- Functions --------------------------------------------------------------------------------- */

static bool has_decorator(const ast_exprs *decorators, const char *last)
{
  for (uint32_t i = 0; i < decorators->n; i++) {
    const ast_expr *d = decorators->items[i];
    if (d->kind == EXPR_CALL)
      d = d->as.call.fn;
    if (strcmp(d->kind == EXPR_NAME   ? d->as.name
               : d->kind == EXPR_ATTR ? d->as.attr.name
                                      : "",
               last) == 0)
      return true;
  }
  return false;
}

/* True for @dataclass(order=True). */
static bool has_option(const ast_exprs *decorators, const char *name)
{
  for (uint32_t i = 0; i < decorators->n; i++) {
    const ast_expr *d = decorators->items[i];
    for (uint32_t k = 0; d->kind == EXPR_CALL && k < d->as.call.n_keywords; k++)
      if (d->as.call.keywords[k].name && strcmp(d->as.call.keywords[k].name, name) == 0)
        return d->as.call.keywords[k].value->kind == EXPR_TRUE;
  }
  return false;
}

static unsigned marks_of(const ast_exprs *decorators)
{
  static const struct { const char *name; mark mark;
  } rows[] = {
    {"script", MARK_SCRIPT},       {"script_if_tracing", MARK_SCRIPT},
    {"interface", MARK_INTERFACE}, {"unused", MARK_UNUSED},
    {"ignore", MARK_IGNORE},       {"dataclass", MARK_DATACLASS},
    {"_overload", MARK_OVERLOAD},  {"_overload_method", MARK_OVERLOAD},
    {"overload", MARK_OVERLOAD},
  };
  unsigned marks = 0;
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (has_decorator(decorators, rows[i].name))
      marks |= (unsigned)rows[i].mark;
  if (has_option(decorators, "order"))
    marks |= MARK_ORDER;
  return marks;
}

/* Make a body that replaces one only Python can run: it raises PyTorch's message. */
static ast_stmts refusing_body(session *s, unit *u, const binding *b)
{
  static const char
    unused[] =
      "raise RuntimeError(\"This Python function is annotated to be ignored and cannot be run\")\n",
    ignored[] =
      "raise NotImplementedError(\"an @ignore function is Python's: there is no Python here\")\n";
  const char *text = b->marks & MARK_UNUSED ? unused : ignored;
  return parse_source(s, program_add_source(s, u->p, b->name, text, strlen(text)), 0);
}

static void compile_body(session *s, function *f)
{
  binding *b = f->compile_arg;
  unit *u = f->program->front;
  bool is_python = b->marks & (MARK_UNUSED | MARK_IGNORE);
  if (!b->at.src)
    session_fail(s, NULL, "'%s' has overloads but no implementation", f->name);
  ast_def *d = is_python ? parse_def_head(s, b->at.src, b->at.start, 0)
               : b->tree ? b->tree
                         : parse_def_at(s, b->at.src, b->at.start, 0);
  if (is_python)
    d->body = refusing_body(s, u, b);
  if (d->n_params != f->schema->n_args)
    session_fail(s, &d->at, "an overload of '%s' has %u parameters, its implementation %u", f->name,
                 f->schema->n_args, d->n_params);
  script_emit_function(s, f, d, &u->resolver);
}

static void declare(session *s, unit *u, function *f, const ast_def *d, unsigned marks)
{
  binding *b = session_alloc_in(s, &u->p->mem, sizeof *b);
  *b = (binding){.kind = BOUND_DEF, .name = f->name, .at = d->at, .marks = marks};
  f->is_static = f->self && has_decorator(&d->decorators, "staticmethod");
  script_declare_function(s, f, d, &u->resolver);
  if (marks & (MARK_UNUSED | MARK_IGNORE) && !f->schema->returns[0].type)
    f->schema->returns[0].type = type_simple(TYPE_TENSOR);
  f->compile = compile_body;
  f->compile_arg = b;
}

static function *unit_function(session *s, unit *u, binding *b)
{
  if (!b->function || !b->function->schema) {
    const ast_def *d = b->tree ? b->tree : parse_def_head(s, b->at.src, b->at.start, 0);
    if (!b->function)
      b->function = program_add_function(s, u->p, session_printf(s, "__torch__.%s", b->name));
    declare(s, u, b->function, d, b->marks);
    ((binding *)b->function->compile_arg)->tree = b->tree;
  }
  return b->function;
}

/* Make one function for each signature, all with the implementation's body. */
static sugared unit_overloads(session *s, unit *u, binding *b)
{
  if (!b->overloads) {
    function **f = session_alloc_in(s, &u->p->mem, b->n_decls * sizeof *f);
    for (uint32_t i = 0; i < b->n_decls; i++) {
      f[i] = program_add_closure(s, u->p, session_printf(s, "__torch__.%s__%u", b->name, i));
      declare(s, u, f[i], parse_def_head(s, b->decls[i].src, b->decls[i].start, 0), b->marks);
      ((binding *)f[i]->compile_arg)->at = b->at;
    }
    b->overloads = f;
  }
  return (sugared){.kind = SUGAR_OVERLOADS, .as.overloads = {b->overloads, NULL, b->n_decls}};
}

/* -- Classes ----------------------------------------------------------------------------------- */

/* Complete a class: its attributes are those that __init__ sets. */
static void complete_class(session *s, const type *t)
{
  function *init = class_find_method(t, "__init__");
  if (!init || init->state != FUNCTION_DECLARED)
    return;
  trail why = {.name = t->name, .at = &((binding *)init->compile_arg)->at};
  session_push_trail(s, &why);
  function_ensure(s, init);
  for (uint32_t i = 0; i < t->cls->n_methods; i++)
    if (t->cls->methods[i]->state == FUNCTION_DECLARED)
      function_ensure(s, t->cls->methods[i]);
  session_pop_trail(s);
}

static void add_property(session *s, unit *u, type *t, const ast_def *d, bool is_setter)
{
  class_info *c = t->cls;
  const char *name = is_setter ? session_printf(s, "__%s_setter", d->name)
                               : session_printf(s, "__%s_getter", d->name);
  function *f = class_add_method(s, t, name);
  declare(s, u, f, d, 0);
  for (uint32_t i = 0; i < c->n_properties; i++) {
    if (strcmp(c->properties[i].name, d->name) == 0) {
      c->properties[i].setter = f;
      return;
    }
  }
  struct class_property *grown =
    session_alloc_in(s, &u->p->mem, (c->n_properties + 1) * sizeof *grown);
  if (c->n_properties)
    memcpy(grown, c->properties, c->n_properties * sizeof *grown);
  grown[c->n_properties++] = (struct class_property){keep_name(s, u, d->name), f, NULL};
  c->properties = grown;
}

static void read_methods(session *s, unit *u, type *t, const ast_stmts *body)
{
  for (uint32_t i = 0; i < body->n; i++) {
    const ast_stmt *st = body->items[i];
    if (st->kind != STMT_DEF)
      continue;
    const ast_def *d = st->as.def;
    bool is_setter = has_decorator(&d->decorators, "setter");
    if (is_setter || has_decorator(&d->decorators, "property")) {
      add_property(s, u, t, d, is_setter);
      continue;
    }
    function *f = class_add_method(s, t, d->name);
    declare(s, u, f, d, marks_of(&d->decorators));
    if (t->kind == TYPE_INTERFACE)
      f->compile = NULL;
  }
}

/* Read a class.  b->type is set before methods are declared: their signatures may use the class. */
static void read_class(session *s, unit *u, binding *b, const char *qualified, const ast_class *cls)
{
  bool is_interface =
    b->marks &
    MARK_INTERFACE; /* other bases mean nothing: only a class' own methods are its methods */
  type *t = program_add_class(s, u->p, is_interface ? TYPE_INTERFACE : TYPE_CLASS, qualified);
  t->cls->is_module_interface = is_interface && class_has_base(cls, "Module");
  t->cls->is_open = !is_interface;
  t->cls->is_partial = true;
  b->type = t;
  read_methods(s, u, t, &cls->body);
  if (b->marks & MARK_DATACLASS) {
    size_t len;
    const char *text = class_dataclass_methods(s, cls, b->marks & MARK_ORDER, &len);
    ast_stmts made =
      parse_source(s, program_add_source(s, u->p, cls->name, text, len), PARSE_SKIP_BODIES);
    read_methods(s, u, t, &made);
  }
  t->cls->is_partial = false;
  if (!is_interface)
    t->cls->complete = complete_class;
}

static void forget_binding(void *arg)
{
  binding *b = arg;
  b->is_busy = false;
  b->type = NULL;
}

static const type *unit_class(session *s, unit *u, binding *b)
{
  if (b->type)
    return b->type;
  if (b->is_busy)
    session_fail(s, &b->at, "class '%s' is defined in terms of itself", b->name);
  b->is_busy = true;
  session_defer(s, forget_binding, b);
  session_enter(s);
  const ast_class *cls =
    b->kind == BOUND_CLASS ? parse_class_at(s, b->at.src, b->at.start, PARSE_SKIP_BODIES) : NULL;
  const char *qualified = session_printf(s, "__torch__.%s", b->name);
  void *begun = program_begin_class(s, u->p, qualified);
  static const char *const enums[] = {"Enum", "IntEnum", "StrEnum"};
  if (!cls)
    b->type =
      class_make_named_tuple(s, &u->resolver, qualified, parse_expr_at(s, b->at.src, b->at.start));
  for (size_t i = 0; i < COUNT_OF(enums) && !b->type; i++)
    if (class_has_base(cls, enums[i]))
      b->type = class_read_enum(s, &u->resolver, qualified, cls);
  if (!b->type && class_has_base(cls, "NamedTuple"))
    b->type = class_read_named_tuple(s, &u->resolver, qualified, cls);
  if (!b->type)
    read_class(s, u, b, qualified, cls);
  session_keep(s, begun);
  session_keep(s, b);
  session_leave(s);
  return b->type;
}

/* -- Names ------------------------------------------------------------------------------------- */

static sugared sugar_of_class(const type *t)
{
  sugar_kind k = t->kind == TYPE_TUPLE  ? SUGAR_NAMED_TUPLE
                 : t->kind == TYPE_ENUM ? SUGAR_ENUM
                                        : SUGAR_CLASS;
  return (sugared){.kind = k, .as.type = t};
}

/* Resolve "torch.relu": an attribute of the value before the last dot. */
static bool imported(session *s, unit *u, const char *path, sugared *out)
{
  const char *dot = strrchr(path, '.');
  if (!dot)
    return false;
  const char *base = session_printf(s, "%.*s", (int)(dot - path), path);
  return resolve_torch_attr(s, u->p, base, dot + 1, out);
}

/* Resolve F = torch.nn.functional, DT = torch.float32, Ints = List[int]. */
static void alias_value(session *s, const resolver *r, binding *b, sugared *out)
{
  if (b->is_busy)
    session_fail(s, &b->at, "'%s' is defined in terms of itself", b->name);
  b->is_busy = true;
  session_defer(s, forget_binding, b);
  session_enter(s);
  if (!em_constant_path(s, r, parse_expr_at(s, b->at.src, b->at.start), out))
    *out = (sugared){.kind = SUGAR_TYPE,
                     .as.type = resolve_type(s, r, parse_expr_at(s, b->at.src, b->at.start))};
  else if (out->kind == SUGAR_CONSTANT)
    out->as.constant.is_global = true;
  session_leave(s);
  session_keep(s, b);
  b->is_busy = false;
}

static bool unit_value(session *s, const resolver *r, const char *name, source_range at,
                       sugared *out)
{
  unit *u = unit_of(r);
  binding *b = table_get(&u->names, str_of(name));
  if (!b &&
      (strcmp(name, "torch") == 0 || strcmp(name, "math") == 0)) { /* known without an import */
    *out = (sugared){.kind = SUGAR_TORCH, .as.name = name[0] == 't' ? "torch" : "math"};
    return true;
  }
  if (!b)
    return resolve_python_name(s, u->p, name, at, out);
  switch (b->kind) {
  case BOUND_MODULE:
    *out = (sugared){.kind = SUGAR_TORCH, .as.name = b->path};
    return true;
  case BOUND_IMPORT:
    if (!imported(s, u, b->path, out))
      return false;
    if (out->kind == SUGAR_CONSTANT)
      out->as.constant.is_global = true;
    return true;
  case BOUND_TYPING:
    return false;
  case BOUND_VALUE:
    *out = (sugared){.kind = SUGAR_PYTHON_VALUE, .as.name = b->path};
    return true;
  case BOUND_CONSTANT:
    *out = (sugared){.kind = SUGAR_CONSTANT,
                     .as.constant = {b->constant, b->type, !(b->marks & MARK_FINAL)}};
    return true;
  case BOUND_ALIAS:
    alias_value(s, r, b, out);
    return true;
  case BOUND_DEF:
    if (b->n_decls)
      *out = unit_overloads(s, u, b);
    else
      *out = (sugared){.kind = SUGAR_FUNCTION, .as.function = unit_function(s, u, b)};
    return true;
  case BOUND_EXCEPTION:
    *out = (sugared){.kind = SUGAR_EXCEPTION, .as.name = b->path};
    return true;
  case BOUND_CLASS: case BOUND_TUPLE:
    *out = sugar_of_class(unit_class(s, u, b));
    return true;
  }
  return false;
}

/* Return the name in typing and similar modules, whatever the text calls it: "L" of `from typing
 * import List as L`. */
static const char *typing_name(const unit *u, const char *name)
{
  static const char *const modules[] = {"typing.", "typing_extensions.", "collections.",
                                        "collections.abc."};
  const binding *b = table_get(&u->names, str_of(name));
  for (size_t i = 0; b && b->kind == BOUND_TYPING && i < COUNT_OF(modules); i++)
    if (strncmp(b->path, modules[i], strlen(modules[i])) == 0)
      return b->path + strlen(modules[i]);
  return name;
}

static const char *unit_type_name(session *s, const resolver *r, const char *name)
{
  (void)s;
  return typing_name(unit_of(r), name);
}

static const type *unit_type(session *s, const resolver *r, const char *name, source_range at)
{
  unit *u = unit_of(r);
  binding *b = table_get(&u->names, str_of(name));
  (void)at;
  if (b && (b->kind == BOUND_CLASS || b->kind == BOUND_TUPLE))
    return unit_class(s, u, b);
  if (b && b->kind == BOUND_ALIAS)
    return resolve_type(s, r, parse_expr_at(s, b->at.src, b->at.start));
  return NULL;
}

/* -- Statements -------------------------------------------------------------------------------- */

static bool is_known_module(const char *path)
{
  return strcmp(path, "torch") == 0 || strncmp(path, "torch.", 6) == 0 ||
         strcmp(path, "math") == 0 || strncmp(path, "math.", 5) == 0 ||
         strcmp(path, "cmath") == 0 || strncmp(path, "cmath.", 6) == 0;
}

/* Read an import; names of typing, enum and other modules are interpreted where they are used: as
 * types, bases, decorators. */
static void read_import(session *s, unit *u, const ast_stmt *st)
{
  for (uint32_t i = 0; i < st->as.import.n; i++) {
    const ast_alias *a = &st->as.import.names[i];
    const char *path =
      st->as.import.from
        ? session_printf(s, "%s.%s", st->as.import.module ? st->as.import.module : "", a->name)
        : a->name;
    if (st->as.import.from && a->as_name && strcmp(a->as_name, a->name) != 0 &&
        !is_known_module(path))
      bind(s, u, BOUND_TYPING, a->as_name, st->at)->path = keep_name(s, u, path);
    if (!is_known_module(path) || strcmp(a->name, "*") == 0)
      continue;
    const char *as = a->as_name ? a->as_name : a->name;
    if (!st->as.import.from && !a->as_name && strchr(as, '.')) { /* import torch.nn binds torch */
      as = session_printf(s, "%.*s", (int)strcspn(as, "."), as);
      path = as;
    }
    sugared v;
    bool is_module = !st->as.import.from;
    if (st->as.import.from && imported(s, u, path, &v))
      is_module = v.kind == SUGAR_TORCH;
    bind(s, u, is_module ? BOUND_MODULE : BOUND_IMPORT, as, st->at)->path = keep_name(s, u, path);
  }
}

/* True if the expression may be a constant: literals, and tuples of them; global lists and dicts
 * are not supported in PyTorch either. */
static bool is_literal(const ast_expr *x)
{
  switch (x->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_IMAG:
  case EXPR_STRING:
  case EXPR_TRUE:
  case EXPR_FALSE:
  case EXPR_NONE:
    return true;
  case EXPR_UNARY:
    return x->op == OP_NEG && is_literal(x->as.pair.left);
  case EXPR_TUPLE:
    for (uint32_t i = 0; i < x->as.items.n; i++)
      if (!is_literal(x->as.items.items[i]))
        return false;
    return true;
  default:
    return false;
  }
}

static void read_constant(session *s, unit *u, const char *name, const ast_expr *x, unsigned marks)
{
  binding *b = bind(s, u, BOUND_CONSTANT, name, x->at);
  b->constant = value_retain(em_evaluate_constant(s, &u->resolver, x, type_simple(TYPE_ANY)));
  program_keep_steal(s, u->p, b->constant);
  b->type = type_of_value(&u->p->types, b->constant);
  if (!b->type)
    session_check(s, call_nomem(s->cx));
  b->marks = marks;
}

/* True for K: Final = 3, K: Final[int] = 3. */
static bool is_final(const ast_expr *t)
{
  if (t && t->kind == EXPR_SUBSCRIPT)
    t = t->as.subscript.base;
  return t && strcmp(t->kind == EXPR_NAME   ? t->as.name
                     : t->kind == EXPR_ATTR ? t->as.attr.name
                                            : "",
                     "Final") == 0;
}

/* True for P = namedtuple("P", ...), P = NamedTuple("P", [...]). */
static bool makes_named_tuple(const ast_expr *x)
{
  const ast_expr *fn = x->kind == EXPR_CALL ? x->as.call.fn : NULL;
  const char *name = !fn                     ? ""
                     : fn->kind == EXPR_NAME ? fn->as.name
                     : fn->kind == EXPR_ATTR ? fn->as.attr.name
                                             : "";
  return strcmp(name, "namedtuple") == 0 || strcmp(name, "NamedTuple") == 0;
}

/* Return the class of an object that only Python can make. */
static const char *kind_of(const ast_expr *x)
{
  const ast_expr *fn = x->kind == EXPR_CALL ? x->as.call.fn : NULL;
  return fn && fn->kind == EXPR_NAME   ? fn->as.name
         : fn && fn->kind == EXPR_ATTR ? fn->as.attr.name
         : x->kind == EXPR_LIST        ? "list"
         : x->kind == EXPR_DICT        ? "dict"
                                       : "object";
}

static void read_assign(session *s, unit *u, const ast_stmt *st)
{
  const ast_expr *value = st->as.assign.value;
  for (uint32_t i = 0; value && i < st->as.assign.targets.n; i++) {
    const ast_expr *t = st->as.assign.targets.items[i];
    if (t->kind != EXPR_NAME)
      continue;
    if (is_literal(value))
      read_constant(s, u, t->as.name, value, is_final(st->as.assign.type) ? MARK_FINAL : 0);
    else if (value->kind == EXPR_SUBSCRIPT || value->kind == EXPR_NAME ||
             value->kind == EXPR_ATTR || (value->kind == EXPR_BINARY && value->op == OP_BITOR))
      bind(s, u, BOUND_ALIAS, t->as.name, value->at);
    else if (makes_named_tuple(value))
      bind(s, u, BOUND_TUPLE, t->as.name, value->at);
    else
      bind(s, u, BOUND_VALUE, t->as.name, value->at)->path = keep_name(s, u, kind_of(value));
  }
}

/* True for an exception class: derived from Python's, or from one of the text's. */
static bool is_exception(const unit *u, const ast_class *cls)
{
  for (uint32_t i = 0; i < cls->bases.n; i++) {
    const char *name = cls->bases.items[i]->kind == EXPR_NAME ? cls->bases.items[i]->as.name : "";
    const binding *b = table_get(&u->names, str_of(name));
    sugared v;
    if (b ? b->kind == BOUND_EXCEPTION
          : resolve_builtin_name(name, &v) && v.kind == SUGAR_EXCEPTION)
      return true;
  }
  return false;
}

static void read_class_statement(session *s, unit *u, const ast_class *cls)
{
  if (class_has_base(cls, "Module"))
    session_fail(
      s, &cls->name_at,
      "class '%s' is a module: its attributes exist in Python only, so that a text alone does "
      "not say what it is. Give an instance of it to rushlight.script() in Python",
      cls->name);
  binding *b = bind(s, u, is_exception(u, cls) ? BOUND_EXCEPTION : BOUND_CLASS, cls->name, cls->at);
  b->marks = marks_of(&cls->decorators);
  if (b->kind == BOUND_EXCEPTION)
    b->path = keep_name(s, u, session_printf(s, "__main__.%s", cls->name));
}

/* True if b has overloads declared and no implementation yet. */
static bool is_waiting(const binding *b)
{
  return b && b->kind == BOUND_DEF && b->n_decls && !b->at.src;
}

static void read_def(session *s, unit *u, ast_def *d)
{
  if (d->is_async)
    session_fail_status(s, RUSH_ERAISED, UNSUPPORTED_NODE, &d->at,
                        "async function definitions aren't supported");
  unsigned marks = marks_of(&d->decorators);
  binding *b = table_get(&u->names, str_of(d->name));
  if (!(marks & MARK_OVERLOAD)) {
    if (!is_waiting(b))
      b = bind(s, u, BOUND_DEF, d->name, d->at);
    b->at = d->at;
    b->marks = marks;
    b->tree = d->body_skipped || b->n_decls ? NULL : d;
    return;
  }
  if (!is_waiting(b))
    b = bind(s, u, BOUND_DEF, d->name, (source_range){NULL, 0, 0});
  source_range *decls = session_alloc_in(s, &u->p->mem, (b->n_decls + 1) * sizeof *decls);
  if (b->n_decls)
    memcpy(decls, b->decls, b->n_decls * sizeof *decls);
  decls[b->n_decls++] = d->at;
  b->decls = decls;
}

static void read_statement(session *s, unit *u, const ast_stmt *st)
{
  switch ((int)st->kind) {
  case STMT_IMPORT:
    read_import(s, u, st);
    break;
  case STMT_ASSIGN:
    read_assign(s, u, st);
    break;
  case STMT_DEF:
    read_def(s, u, st->as.def);
    break;
  case STMT_CLASS:
    read_class_statement(s, u, st->as.cls);
    break;
  default: /* what only Python runs: if __name__ == "__main__" ... */
    break;
  }
}

/* -- Public ------------------------------------------------------------------------------------ */

static void free_unit(program *p)
{
  unit *u = p->front;
  table_free(&u->names);
}

/* A text being added to a unit; on failure nothing of it is kept. */
typedef struct addition {
  unit *u;
  uint32_t n_names;   /* of the unit before it */
  uint32_t n_methods; /* of the class that represents the file */
} addition;

static void take_back(void *arg)
{
  const addition *a = arg;
  unit *u = a->u;
  if (u->file)
    u->file->cls->n_methods = a->n_methods;
  for (uint32_t i = u->names.n; i > a->n_names; i--) {
    const binding *b = u->names.entries[i - 1].value;
    if (!b)
      continue;
    if (b->function)
      table_remove(&u->p->functions, str_of(b->function->qualified));
    if (b->type && b->type->name)
      table_remove(&u->p->classes, str_of(b->type->name));
    table_remove(&u->names, str_of(b->name));
  }
}

static addition *begin_addition(session *s, unit *u)
{
  addition *a = session_new(s, addition);
  *a = (addition){u, u->names.n, u->file ? u->file->cls->n_methods : 0};
  session_defer(s, take_back, a);
  return a;
}

static bool is_defined(const ast_stmt *st, const unit *u)
{
  const char *name = st->kind == STMT_DEF     ? st->as.def->name
                     : st->kind == STMT_CLASS ? st->as.cls->name
                                              : NULL;
  const binding *b = name ? table_get(&u->names, str_of(name)) : NULL;
  return b && !is_waiting(b);
}

static void read_text(session *s, unit *u, const char *file, uint32_t first_line, str text,
                      unsigned parse_flags)
{
  source *src = program_add_source(s, u->p, file, text.p, text.len);
  src->first_line = first_line;
  ast_stmts tree = parse_source(s, src, parse_flags);
  for (uint32_t i = 0; i < tree.n; i++) {
    if (u->file && is_defined(tree.items[i], u))
      session_fail(s, NULL, "method '%s' already defined.",
                   tree.items[i]->kind == STMT_DEF ? tree.items[i]->as.def->name
                                                   : tree.items[i]->as.cls->name);
    read_statement(s, u, tree.items[i]);
  }
}

/* Add the class that represents the file: its functions are its methods. */
static void add_file_class(session *s, unit *u, const char *name)
{
  u->file = program_add_class(s, u->p, TYPE_CLASS, session_printf(s, "__torch__.%s", name));
  u->file->cls->is_module = true;
}

static unit *new_unit(session *s, program *p)
{
  unit *u = session_alloc_in(s, &p->mem, sizeof *u);
  u->p = p;
  table_init(&u->names, p->ctx);
  u->resolver = (resolver){.arg = u,
                           .program = p,
                           .value = unit_value,
                           .attr = resolve_attr,
                           .type = unit_type,
                           .type_name = unit_type_name,
                           .is_eager = true,
                           .is_live = true};
  p->front = u;
  p->front_free = free_unit;
  return u;
}

const type *script_unit_load(session *s, program *p, const char *file, str text)
{
  unit *u = new_unit(s, p);
  read_text(s, u, file, 1, text, PARSE_SKIP_BODIES);
  const char *slash = strrchr(file, '/'), *stem = slash ? slash + 1 : file;
  add_file_class(s, u, session_printf(s, "%.*s", (int)strcspn(stem, "."), stem));
  bool only_marked = false; /* with @torch.jit.script on some, the others are Python's */
  for (uint32_t i = 0; i < u->names.n; i++) {
    const binding *b = u->names.entries[i].value;
    only_marked |= b && b->kind == BOUND_DEF && b->marks & MARK_SCRIPT;
  }
  for (uint32_t i = 0; i < u->names.n; i++) {
    binding *b = u->names.entries[i].value;
    if (b && b->kind == BOUND_DEF && !b->n_decls && (b->marks & MARK_SCRIPT || !only_marked))
      class_share_function(s, u->file, unit_function(s, u, b));
  }
  return u->file;
}

static void compile_class(session *s, const type *t)
{
  class_complete(s, t);
  for (uint32_t i = 0; t->kind == TYPE_CLASS && i < t->cls->n_methods; i++)
    function_ensure(s, t->cls->methods[i]);
}

const type *script_unit_new(session *s, program *p)
{
  unit *u = new_unit(s, p);
  add_file_class(s, u, " unit"); /* no name of a program */
  return u->file;
}

void script_unit_define(session *s, program *p, const char *file, uint32_t first_line, str text)
{
  unit *u = p->front;
  addition *a = begin_addition(s, u);
  read_text(s, u, file, first_line, text, 0); /* all of it is compiled at once: parsed once */
  for (uint32_t i = a->n_names; i < u->names.n; i++) {
    binding *b = u->names.entries[i].value;
    if (b && b->kind == BOUND_DEF && b->n_decls) {
      unit_overloads(s, u, b);
      for (uint32_t k = 0; k < b->n_decls; k++)
        function_ensure(s, b->overloads[k]);
    } else if (b && b->kind == BOUND_DEF) {
      class_share_function(s, u->file, unit_function(s, u, b));
      function_ensure(s, b->function);
      b->tree = ((binding *)b->function->compile_arg)->tree = NULL; /* the session's, which ends */
    } else if (b && b->kind == BOUND_CLASS) {
      const type *t = unit_class(s, u, b);
      if (t->cls)
        compile_class(s, t);
    }
  }
  session_keep(s, a);
}

bool script_unit_is(const program *p)
{
  return p->front_free == free_unit && ((const unit *)p->front)->file != NULL;
}
