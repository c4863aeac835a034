/* script/front/import.c -- the source importer of archives (import.h).
 *
 * A file is scanned once for the names and positions of its classes and functions; a class is read
 * in skeleton form when its name is first used, as is a function's signature; a body is parsed when
 * it is compiled. */
#include "script/front/import.h"

#include <math.h>
#include <string.h>

#include "script/front/classes.h"
#include "script/emit/emit_int.h"
#include "script/syntax/lexer.h"
#include "script/syntax/parser.h"

/* A definition at the top level of a file. */
typedef struct definition {
  const char *qualified;
  const source *src;
  uint32_t start; /* of "class" or "def" */
  bool is_class;
} definition;

typedef struct importer {
  program *p;
  const script_files *files;
  resolver names;
  table loaded;      /* "__torch__.a" -> itself: its file was looked for */
  table definitions; /* qualified name -> definition */
} importer;

/* The position of a body, to compile it later. */
typedef struct body {
  importer *im;
  const source *src;
  uint32_t start;
} body;

static importer *importer_of(program *p) { return p->front; }

static char *keep_bytes(session *s, importer *im, const char *text, size_t len)
{
  char *copy = session_alloc_in(s, &im->p->mem, len + 1);
  memcpy(copy, text, len);
  return copy;
}

/* -- Files ------------------------------------------------------------------------------------- */

static void add_definition(session *s, importer *im, const char *prefix, lexer *lx, uint32_t start,
                           bool is_class)
{
  lexer_next(lx);
  if (lx->cur.kind != TK_NAME)
    return;
  const char *q = session_printf(s, "%s.%.*s", prefix, (int)(lx->cur.end - lx->cur.start),
                                 lx->src->text + lx->cur.start);
  definition *d = session_alloc_in(s, &im->p->mem, sizeof *d);
  d->qualified = keep_bytes(s, im, q, strlen(q));
  d->src = lx->src;
  d->start = start;
  d->is_class = is_class;
  session_table_put(s, &im->definitions, str_of(d->qualified), d);
}

/* Advance to the next "class" or "def" at the start of an unindented line; returns false if there
 * is none. */
static bool next_definition(lexer *lx, bool at_start)
{
  while (lx->cur.kind != TK_EOF) {
    if (lx->cur.kind == TK_INDENT) {
      lexer_skip_block(lx);
      at_start = true;
      continue;
    }
    if (at_start && (lx->cur.kind == TK_CLASS || lx->cur.kind == TK_DEF))
      return true;
    at_start = lx->cur.kind == TK_NEWLINE;
    lexer_next(lx);
  }
  return false;
}

static void scan(session *s, importer *im, const source *src, const char *prefix)
{
  lexer lx;

  lexer_init(&lx, s, src, 0, (uint32_t)src->len);
  for (bool more = next_definition(&lx, true); more; more = next_definition(&lx, false))
    add_definition(s, im, prefix, &lx, lx.cur.start, lx.cur.kind == TK_CLASS);
}

/* Load the file that defines the names below `prefix`, unless it was loaded before. */
static void load_prefix(session *s, importer *im, str prefix)
{
  if (table_get(&im->loaded, prefix))
    return;
  char *name = keep_bytes(s, im, prefix.p, prefix.len);
  char *path = session_printf(s, "code/%s.py", name);
  for (char *p = path + 5; p < path + 5 + prefix.len; p++)
    if (*p == '.')
      *p = '/';
  str text;
  if (im->files->find(s, im->files->user, path, &text))
    scan(s, im, program_add_source(s, im->p, path, text.p, text.len), name);
  session_table_put(s, &im->loaded, str_of(name),
                    name); /* at last: without memory it is looked for again */
}

static definition *find_definition(session *s, importer *im, str qualified)
{
  const char *dot = qualified.p + qualified.len;
  while (dot > qualified.p && dot[-1] != '.')
    dot--;
  if (dot == qualified.p)
    return NULL;
  load_prefix(s, im, (str){qualified.p, (size_t)(dot - 1 - qualified.p)});
  return table_get(&im->definitions, qualified);
}

/* -- Functions and methods --------------------------------------------------------------------- */

static void compile_body(session *s, function *f)
{
  body *b = f->compile_arg;
  script_emit_function(s, f, parse_def_at(s, b->src, b->start, PARSE_RAW_BYTES), &b->im->names);
}

static void declare(session *s, importer *im, function *f, const ast_def *d)
{
  script_declare_function(s, f, d, &im->names);
  body *b = session_alloc_in(s, &im->p->mem, sizeof *b);
  *b = (body){im, d->at.src, d->at.start};
  f->compile = compile_body;
  f->compile_arg = b;
}

static function *import_function(session *s, importer *im, str qualified)
{
  function *f = program_find_function(im->p, qualified);
  if (f && f->schema)
    return f;
  definition *d = find_definition(s, im, qualified);
  if (!d || d->is_class)
    return NULL;
  const ast_def *def = parse_def_head(s, d->src, d->start, PARSE_RAW_BYTES);
  if (!f)
    f = program_add_function(s, im->p, d->qualified);
  declare(s, im, f, def);
  return f;
}

/* -- Classes ----------------------------------------------------------------------------------- */

typedef struct name_list {
  const ast_exprs *items; /* EXPR_STRINGs, or NULL */
} name_list;

static bool lists(const name_list *l, const char *name)
{
  for (uint32_t i = 0; l->items && i < l->items->n; i++)
    if (l->items->items[i]->kind == EXPR_STRING &&
        strcmp(l->items->items[i]->as.string.data, name) == 0)
      return true;
  return false;
}

typedef struct class_reader {
  session *s;
  importer *im;
  type *t;
  name_list parameters, buffers, pre_hooks, hooks;
  table *names; /* of attributes and methods so far */
} class_reader;

static void free_names(void *names) { table_free(names); }

/* Refuse a second attribute or method of one name: it could have another type, and be read as the
 * first. */
static void add_name(class_reader *c, const char *what, const char *name, const source_range *at)
{
  if (table_get(c->names, str_of(name)))
    session_fail(c->s, at, "%s '%s' of %s already defined", what, name, c->t->name);
  session_table_put(c->s, c->names, str_of(name), c);
}

static void read_attr(class_reader *c, const char *name, const ast_expr *annotation,
                      const ast_expr *value)
{
  const type *t = resolve_type(c->s, &c->im->names, annotation);
  add_name(c, "attribute", name, &annotation->at);
  if (value) {
    class_add_constant(c->s, c->t, name, t, em_constant_of_type(c->s, &c->im->names, value, t));
    return;
  }
  uint32_t slot = class_add_attr(c->s, c->t, name, t);
  c->t->cls->attrs[slot].is_parameter = lists(&c->parameters, name);
  c->t->cls->attrs[slot].is_buffer = lists(&c->buffers, name);
}

static void read_class_assign(class_reader *c, const ast_stmt *st)
{
  const ast_expr *target = st->as.assign.targets.items[0], *value = st->as.assign.value;
  if (target->kind == EXPR_SUBSCRIPT && target->as.subscript.index.n == 1 &&
      target->as.subscript.index.items[0]->kind == EXPR_STRING) { /* __annotations__["0"] = T */
    read_attr(c, target->as.subscript.index.items[0]->as.string.data, value, NULL);
    return;
  }
  if (target->kind != EXPR_NAME)
    session_fail(c->s, &st->at, "unexpected statement in a class");
  const char *name = target->as.name;
  if (st->as.assign.type) {
    read_attr(c, name, st->as.assign.type, value);
    return;
  }
  name_list list = {value && value->kind == EXPR_LIST ? &value->as.items : NULL};
  if (strcmp(name, "__parameters__") == 0)
    c->parameters = list;
  else if (strcmp(name, "__buffers__") == 0)
    c->buffers = list;
  else if (strcmp(name, "__forward_pre_hooks__") == 0)
    c->pre_hooks = list;
  else if (strcmp(name, "__forward_hooks__") == 0)
    c->hooks = list;
}

static void read_method(class_reader *c, const ast_def *d)
{
  class_info *ci = c->t->cls;
  if (d->decorators.n) /* PyTorch's parser has none: @staticmethod would leave out self */
    session_fail(c->s, &d->decorators.items[0]->at, "a method of an archive has no decorators");
  bool pre = lists(&c->pre_hooks, d->name), post = lists(&c->hooks, d->name);
  if (!pre && !post) {
    add_name(c, "method", d->name, &d->at);
    function *f = class_add_method(c->s, c->t, d->name);
    declare(c->s, c->im, f, d);
    if (c->t->kind == TYPE_INTERFACE)
      f->compile = NULL;
    return;
  }
  function *f =
    program_add_closure(c->s, c->im->p, session_printf(c->s, "%s.%s", c->t->name, d->name));
  f->self = c->t;
  declare(c->s, c->im, f, d);
  const name_list *names = pre ? &c->pre_hooks : &c->hooks;
  function ***list = pre ? &ci->forward_pre_hooks : &ci->forward_hooks;
  if (!*list)
    *list = session_alloc_in(c->s, &c->im->p->mem, names->items->n * sizeof **list);
  for (uint32_t i = 0; i < names->items->n; i++)
    if (strcmp(names->items->items[i]->as.string.data, d->name) == 0)
      (*list)[i] = f;
  if (pre)
    ci->n_pre_hooks = names->items->n;
  else
    ci->n_hooks = names->items->n;
}

static void check_hooks(class_reader *c, function *const *hooks, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (!hooks[i])
      session_fail(c->s, NULL, "class '%s' lists a hook that it does not define", c->t->name);
}

static const type *read_class(session *s, importer *im, const definition *d, const ast_class *cls,
                              type_kind kind)
{
  class_reader c = {.s = s, .im = im, .t = program_add_class(s, im->p, kind, d->qualified)};
  c.names = session_new(s, table);
  table_init(c.names, s->cx->ctx);
  session_defer(s, free_names, c.names);
  for (uint32_t i = 0; i < cls->bases.n; i++) {
    const char *base = cls->bases.items[i]->kind == EXPR_NAME ? cls->bases.items[i]->as.name : "";
    c.t->cls->is_module |= strcmp(base, "Module") == 0;
    c.t->cls->is_module_interface |= strcmp(base, "ModuleInterface") == 0;
  }
  c.t->cls->is_partial =
    true; /* what it names may be read now, and evaluate defaults of its type */
  /* Attributes before methods: signatures need only names, bodies come later. */
  for (uint32_t i = 0; i < cls->body.n; i++)
    if (cls->body.items[i]->kind == STMT_ASSIGN)
      read_class_assign(&c, cls->body.items[i]);
  for (uint32_t i = 0; i < cls->body.n; i++)
    if (cls->body.items[i]->kind == STMT_DEF)
      read_method(&c, cls->body.items[i]->as.def);
  check_hooks(&c, c.t->cls->forward_pre_hooks, c.t->cls->n_pre_hooks);
  check_hooks(&c, c.t->cls->forward_hooks, c.t->cls->n_hooks);
  c.t->cls->is_partial = false;
  return c.t;
}

/* True for classes implemented in C++ and registered there, which have no source. */
static bool is_custom_class(str qualified)
{
  static const char prefix[] = "__torch__.torch.classes.";
  return qualified.len > sizeof prefix - 1 && memcmp(qualified.p, prefix, sizeof prefix - 1) == 0;
}

static const type *import_class(session *s, importer *im, str qualified)
{
  const type *t = program_find_class(im->p, qualified);
  if (t && type_is_unfinished(t))
    session_fail(s, NULL,
                 "the NamedTuple '%s' contains itself: its values would have no end; only a class "
                 "may refer to itself",
                 t->name);
  if (t)
    return t;
  if (is_custom_class(qualified)) {
    t = type_class_ref(&im->p->types, qualified);
    if (!t)
      session_check(s, call_nomem(s->cx));
    return t;
  }
  definition *d = find_definition(s, im, qualified);
  if (!d || !d->is_class)
    return NULL;
  session_enter(s);
  void *begun = program_begin_class(s, im->p, d->qualified);
  const ast_class *cls = parse_class_at(s, d->src, d->start, PARSE_RAW_BYTES | PARSE_SKIP_BODIES);
  if (class_has_base(cls, "NamedTuple"))
    t = class_read_named_tuple(s, &im->names, d->qualified, cls);
  else if (class_has_base(cls, "Enum"))
    t = class_read_enum(s, &im->names, d->qualified, cls);
  else
    t = read_class(s, im, d, cls,
                   class_has_base(cls, "Interface") || class_has_base(cls, "ModuleInterface")
                     ? TYPE_INTERFACE
                     : TYPE_CLASS);
  session_keep(s, begun);
  session_leave(s);
  return t;
}

/* -- Names ------------------------------------------------------------------------------------- */

static bool archive_value(session *s, const resolver *r, const char *name, source_range at,
                          sugared *out)
{
  static const struct { const char *name; sugared value; } rows[] = {
      {"torch", {.kind = SUGAR_NAMESPACE, .as.name = "aten"}},
      {"ops", {.kind = SUGAR_OPS}},
      {"CONSTANTS", {.kind = SUGAR_CONSTANTS}},
      {"__torch__", {.kind = SUGAR_SPACE, .as.name = "__torch__"}},
      {"annotate", {.kind = SUGAR_SPECIAL, .as.special = SPECIAL_ANNOTATE}},
      {"unchecked_cast", {.kind = SUGAR_SPECIAL, .as.special = SPECIAL_UNCHECKED_CAST}},
      {"uninitialized", {.kind = SUGAR_SPECIAL, .as.special = SPECIAL_UNINITIALIZED}},
      {"fork", {.kind = SUGAR_SPECIAL, .as.special = SPECIAL_FORK}},
      {"awaitable", {.kind = SUGAR_SPECIAL, .as.special = SPECIAL_AWAITABLE}},
  };
  (void)at;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    if (strcmp(rows[i].name, name) == 0) {
      *out = rows[i].value;
      return true;
    }
  }
  bool inf = strcmp(name, "inf") == 0, nan = strcmp(name, "nan") == 0;
  if (inf || nan) {
    *out = (sugared){.kind = SUGAR_CONSTANT};
    out->as.constant.value = value_float(inf ? (double)INFINITY : (double)NAN);
    out->as.constant.type = type_simple(TYPE_FLOAT);
    return true;
  }
  if (strcmp(name, "infj") == 0 || strcmp(name, "nanj") == 0) {
    importer *im = r->arg;
    rush_value v;
    session_check(s, complex_new(s->cx, 0, name[0] == 'i' ? (double)INFINITY : (double)NAN, &v));
    program_keep_steal(s, im->p, v);
    *out = (sugared){.kind = SUGAR_CONSTANT, .as.constant = {v, type_simple(TYPE_COMPLEX)}};
    return true;
  }
  return false;
}

static bool archive_attr(session *s, const resolver *r, const sugared *base, const char *name,
                         source_range at, sugared *out)
{
  importer *im = r->arg;
  if (base->kind != SUGAR_SPACE)
    return false;
  (void)at;
  str q = str_of(session_printf(s, "%s.%s", base->as.name, name));
  const type *t = import_class(s, im, q);
  if (t) {
    sugar_kind k = t->kind == TYPE_TUPLE  ? SUGAR_NAMED_TUPLE
                   : t->kind == TYPE_ENUM ? SUGAR_ENUM
                                          : SUGAR_CLASS;
    *out = (sugared){.kind = k, .as.type = t};
    return true;
  }
  function *f = import_function(s, im, q);
  if (f)
    *out = (sugared){.kind = SUGAR_FUNCTION, .as.function = f};
  else
    *out = (sugared){.kind = SUGAR_SPACE, .as.name = q.p};
  return true;
}

static const type *archive_type(session *s, const resolver *r, const char *name, source_range at)
{
  (void)at;
  return strncmp(name, "__torch__.", 10) == 0 ? import_class(s, r->arg, str_of(name)) : NULL;
}

/* -- Public ------------------------------------------------------------------------------------ */

static void free_importer(program *p)
{
  importer *im = importer_of(p);
  table_free(&im->loaded);
  table_free(&im->definitions);
}

void script_importer_attach(session *s, program *p, const script_files *files)
{
  importer *im = session_alloc_in(s, &p->mem, sizeof *im);
  im->p = p;
  im->files = files;
  table_init(&im->loaded, p->ctx);
  table_init(&im->definitions, p->ctx);
  im->names = (resolver){.arg = im,
                         .program = p,
                         .value = archive_value,
                         .attr = archive_attr,
                         .type = archive_type,
                         .parse_flags = PARSE_RAW_BYTES,
                         .version = files->version};
  p->front = im;
  p->front_free = free_importer;
}

const type *script_import_type(session *s, program *p, str qualified)
{
  const type *t = import_class(s, importer_of(p), qualified);
  if (!t)
    session_fail_status(s, RUSH_EFORMAT, NULL, NULL, "the archive has no class '%.*s'",
                        (int)qualified.len, qualified.p);
  return t;
}

void script_import_methods(session *s, program *p, const type *cls, const char *file, str text)
{
  importer *im = importer_of(p);
  const source *src = program_add_source(s, p, file, text.p, text.len);
  lexer lx;

  lexer_init(&lx, s, src, 0, (uint32_t)src->len);
  for (bool more = next_definition(&lx, true); more; more = next_definition(&lx, false))
    if (lx.cur.kind == TK_DEF) {
      const ast_def *def = parse_def_head(s, src, lx.cur.start, PARSE_RAW_BYTES);
      declare(s, im, class_add_method(s, cls, def->name), def);
    }
}

const type *script_parse_type(session *s, program *p, str text)
{
  source *src = program_add_source(s, p, "type", text.p, text.len);
  source_range at = {src, 0, (uint32_t)src->len};
  return resolve_type(s, &importer_of(p)->names, parse_expr_range(s, at, PARSE_RAW_BYTES));
}
