/* script/front/host.c -- the resolver and the declarations of a host language's live objects
 * (host.h). Each name is resolved by callbacks of the host, whose answers become sugared values;
 * answers are remembered per function, since calling a host such as Python is slow. The host's
 * objects are retained until the session or the program ends, depending on what may still refer to
 * them. Failures of the host become errors with the position of the name. */
#include "script/front/host.h"

#include <string.h>

#include "base/grow.h"
#include "base/lock.h"
#include "script/emit/emit.h"
#include "script/emit/emit_int.h"
#include "script/syntax/lexer.h"
#include "script/syntax/parser.h"

typedef struct kept_object { /* of the host's, released with the program */
  void *object;
  struct kept_object *next;
} kept_object;

typedef struct line_index { /* where a source's lines start */
  const source *src;
  uint32_t *starts;
  uint32_t n;
  bool has_types; /* in comments */
  struct line_index *next;
} line_index;

typedef struct host_unit {
  program *p;
  rush_host host;
  kept_object *kept;
  line_index *lines;
  function **pending; /* declared with a class, not compiled */
  uint32_t n_pending, cap_pending;
  uint32_t n_mangled;
  function **of_texts; /* of rush_unit_define_text, in order */
  uint32_t n_of_texts, cap_of_texts;
} host_unit;

typedef struct host_function { /* compile_arg */
  host_unit *u;
  const source *src;
  uint32_t start; /* of "def" */
  void *scope;
  const char *drop_body;
  const char *prefix;  /* of a text's functions, which can call each other; else NULL */
  ast_def *tree;       /* of a text's, while it is compiled */
  resolver names;
  /* answers for names and attributes while the body is compiled, as sugared values */
  table *memo;
} host_function;

static host_unit *unit_of(const program *p) { return p->front; }

/* -- The host's objects ------------------------------------------------------------------------ */

typedef struct held_object {
  host_unit *u;
  void *object;
} held_object;

static void release_held(void *arg)
{
  held_object *l = arg;
  l->u->host.release(l->u->host.user, l->object);
}

/* Release `object` when the session ends. */
static void lend(session *s, host_unit *u, void *object)
{
  if (!object)
    return;
  held_object *l = session_new(s, held_object);
  *l = (held_object){u, object};
  session_defer(s, release_held, l);
}

/* Release `object` when the program ends. */
static void keep_object(session *s, host_unit *u, void *object)
{
  if (!object)
    return;
  kept_object *k = arena_alloc(&u->p->mem, sizeof *k);
  if (!k) {
    u->host.release(u->host.user, object);
    session_check(s, call_nomem(s->cx));
  }
  *k = (kept_object){object, u->kept};
  u->kept = k;
}

static void free_unit(program *p)
{
  host_unit *u = unit_of(p);
  for (kept_object *k = u->kept; k; k = k->next)
    u->host.release(u->host.user, k->object);
  if (u->host.gives_user)
    u->host.release(u->host.user, u->host.user);
}

static const char *keep_text(session *s, host_unit *u, const char *text)
{
  char *copy = session_alloc_in(s, &u->p->mem, strlen(text) + 1);
  memcpy(copy, text, strlen(text));
  return copy;
}

/* Report a failure of the host: its message, and the position of the name. */
static void check_host(session *s, rush_status st, source_range at)
{
  rush_error *err = s->cx->err;
  if (st == RUSH_OK)
    return;
  if (!err || !err->message || (st != RUSH_ERAISED && st != RUSH_EUNSUPPORTED))
    session_check(s, st);
  const char *message = session_strdup(s, err->message), *type = err->type;
  session_fail_status(s, st, type, at.src ? &at : NULL, "%s", message);
}

/* -- Operators that are calls of the host ------------------------------------------------------ */

typedef struct host_op {
  op op;
  rush_op_def def;
  host_unit *u;
  void *object;
  const type *result;
} host_op;

static rush_status call_host(rush_call *call)
{
  const host_op *h = call->op->outside->user;
  rush_value out = value_none();
  TRY(h->u->host.call(h->u->host.user, h->object, call->args, call->n_args,
                      (const rush_type *)h->result, &out, call->cx->err));
  call->results[0] = out;
  return RUSH_OK;
}

/* Parameters without names in Python have numbers for names, which PyTorch's messages show; the
 * text that declares them has _0, _1 ... */
static void name_by_place(session *s, host_unit *u, schema *sc)
{
  schema_arg *args = session_alloc_in(s, &u->p->mem, sc->n_args * sizeof *args);
  memcpy(args, sc->args, sc->n_args * sizeof *args);
  for (uint32_t i = 0; i < sc->n_args; i++)
    args[i].name = keep_text(s, u, session_printf(s, "%u", i));
  sc->args = args;
}

static const op *host_op_of(session *s, host_unit *u, const rush_name *n)
{
  const function *f = (const function *)n->functions[0];
  host_op *h = session_alloc_in(s, &u->p->mem, sizeof *h);
  schema *sc = session_alloc_in(s, &u->p->mem, sizeof *sc);
  *sc = *f->schema;
  sc->name = keep_text(s, u, session_printf(s, "^%s", f->name));
  sc->is_of_host = true;
  sc->returns = session_alloc_in(s, &u->p->mem, sizeof *sc->returns);
  sc->returns[0] = f->schema->returns[0];
  sc->returns[0].name = "0";
  if (!sc->returns[0].type)
    sc->returns[0].type = type_simple(TYPE_TENSOR);
  if (n->index) /* host->called: its parameters have numbers for names */
    name_by_place(s, u, sc);
  if (n->flag && sc->n_args) { /* a method's self: whatever it is */
    schema_arg *args = session_alloc_in(s, &u->p->mem, sc->n_args * sizeof *args);
    memcpy(args, sc->args, sc->n_args * sizeof *args);
    sc->args = args;
    sc->args[0].type = type_simple(TYPE_ANY);
    sc->args[0].name = "self"; /* whatever the author calls it */
  }
  h->u = u;
  h->object = n->object;
  h->result = sc->returns[0].type;
  h->def = (rush_op_def){
    .struct_bytes = sizeof h->def, .schema = sc->name, .kernel = call_host, .user = h};
  h->op = (op){.schema = sc,
               .kernel = call_host,
               .family = FAMILY_KERNEL,
               .effects = OP_SIDE_EFFECT | OP_NO_GRAD,
               .outside = &h->def,
               .ctx = u->p->ctx};
  return &h->op;
}

/* -- Meanings of names ------------------------------------------------------------------------- */

static void release_value(void *heap_part)
{
  heap *h = heap_part;
  value_release(value_heap_steal(h->kind, h));
}

static sugared sugar_of_type(const type *t)
{
  sugared out = {.kind = SUGAR_TYPE, .as.type = t};
  if (t->kind == TYPE_CLASS)
    out.kind = SUGAR_CLASS;
  else if (t->kind == TYPE_ENUM)
    out.kind = SUGAR_ENUM;
  else if (t->kind == TYPE_TUPLE && t->fields)
    out.kind = SUGAR_NAMED_TUPLE;
  return out;
}

static bool path_sugar(session *s, program *p, const char *path, sugared *out)
{
  const char *dot = strrchr(path, '.');
  if (!dot && (strcmp(path, "torch") == 0 || strcmp(path, "math") == 0)) {
    *out = (sugared){.kind = SUGAR_TORCH, .as.name = path};
    return true;
  }
  if (!dot)
    return resolve_builtin_name(path, out);
  return resolve_torch_attr(s, p, session_printf(s, "%.*s", (int)(dot - path), path), dot + 1, out);
}

/* Return a function that a call refers to, compiled if necessary. */
static function *ready_function(session *s, rush_function *given)
{
  function *f = (function *)given;
  if (f->compile &&
      f->state != FUNCTION_COMPILING) { /* a recursive call is refused at its place */
    script_host_enter(s, f->program); /* it may be another unit's */
    function_ensure(s, f);
  }
  return f;
}

static bool to_sugar(session *s, host_unit *u, const rush_name *n, const sugared *base,
                     source_range at, sugared *out);

static bool dispatch_sugar(session *s, host_unit *u, const rush_name *n, const sugared *base,
                           source_range at, sugared *out)
{
  sugared *items = session_array(s, sugared, 2);

  for (size_t i = 0; i < 2 && n->n == 2; i++) {
    lend(s, u, n->items[i].owner);
    if (n->items[i].kind == RUSH_NAME_FUNCTION) /* compiled when it is chosen */
      items[i] =
        (sugared){.kind = SUGAR_FUNCTION, .as.function = (function *)n->items[i].functions[0]};
    else if (!to_sugar(s, u, &n->items[i], base, at, &items[i]))
      return false;
  }
  *out = (sugared){.kind = SUGAR_DISPATCH,
                   .as.dispatch = {items, session_strdup(s, n->text), (uint16_t)n->index, n->flag}};
  return n->n == 2;
}

static sugared overloads_sugar(session *s, const rush_name *n, const sugared *base)
{
  sugared r = {.kind = SUGAR_OVERLOADS};
  function **list = session_array(s, function *, n->n);

  for (size_t i = 0; i < n->n; i++)
    list[i] = (function *)n->functions[i];
  r.as.overloads.functions = list;
  r.as.overloads.n = (uint32_t)n->n;
  r.as.overloads.self = base && base->kind == SUGAR_VALUE ? base->as.value : NULL;
  return r;
}

static sugared constant_sugar(session *s, host_unit *u, const rush_name *n)
{
  const type *t = n->type ? (const type *)n->type : type_of_value(&u->p->types, n->value);

  if (value_is_heap(n->value))
    session_defer(s, release_value, n->value.as.heap);
  if (!t)
    session_check(s, call_nomem(s->cx));
  return (sugared){.kind = SUGAR_CONSTANT, .as.constant = {n->value, t}};
}

static bool tuple_sugar(session *s, host_unit *u, const rush_name *n, const sugared *base,
                        source_range at, sugared *out)
{
  *out = (sugared){.kind = SUGAR_TUPLE};
  out->as.items.items = session_array(s, sugared, n->n);
  out->as.items.n = (uint32_t)n->n;
  for (size_t i = 0; i < n->n; i++)
    lend(s, u, n->items[i].owner);
  for (size_t i = 0; i < n->n; i++)
    if (!to_sugar(s, u, &n->items[i], base, at, &out->as.items.items[i]))
      return false;
  return true;
}

static bool to_sugar(session *s, host_unit *u, const rush_name *n, const sugared *base,
                     source_range at, sugared *out)
{
  ir_value *self = n->flag && base && base->kind == SUGAR_VALUE ? base->as.value : NULL;
  switch (n->kind) {
  case RUSH_NAME_UNKNOWN:
    return false;
  case RUSH_NAME_PATH:
    return path_sugar(s, u->p, session_strdup(s, n->text), out);
  case RUSH_NAME_OPERATOR:
    *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {session_strdup(s, n->text), NULL, NULL}};
    return true;
  case RUSH_NAME_FUNCTION:
    *out = (sugared){.kind = SUGAR_FUNCTION, .as.function = ready_function(s, n->functions[0])};
    return true;
  case RUSH_NAME_METHOD:
    *out = (sugared){.kind = SUGAR_METHOD,
                     .as.method = {base ? base->as.value : NULL, (function *)n->functions[0]}};
    return true;
  case RUSH_NAME_DISPATCH:
    return dispatch_sugar(s, u, n, base, at, out);
  case RUSH_NAME_OVERLOADS:
    *out = overloads_sugar(s, n, base);
    return true;
  case RUSH_NAME_TYPE:
    *out = sugar_of_type((const type *)n->type);
    return true;
  case RUSH_NAME_VALUE:
    *out = constant_sugar(s, u, n);
    return true;
  case RUSH_NAME_TUPLE:
    return tuple_sugar(s, u, n, base, at, out);
  case RUSH_NAME_OBJECT:
    lend(s, u, n->object);
    *out =
      (sugared){.kind = SUGAR_HOST_OBJECT,
                .as.thing = {n->object, n->text ? session_strdup(s, n->text) : "object", self}};
    return true;
  case RUSH_NAME_HOST_CALL: case RUSH_NAME_UNUSED:
    keep_object(s, u, n->object);
    *out = (sugared){.kind = SUGAR_HOST_CALL, .as.host = {host_op_of(s, u, n), NULL, self}};
    if (n->kind == RUSH_NAME_UNUSED)
      out->as.host.message = session_strdup(s, n->message ? n->message : "");
    return true;
  case RUSH_NAME_EXCEPTION:
    *out = (sugared){.kind = SUGAR_EXCEPTION, .as.name = session_strdup(s, n->text)};
    return true;
  case RUSH_NAME_HIDDEN:
    session_fail(s, &at, "%s", n->text);
  }
  return false;
}

/* Convert the host's answer, then release its owner. */
static bool answer(session *s, host_unit *u, rush_status st, const rush_name *n,
                   const sugared *base, source_range at, sugared *out)
{
  check_host(s, st, at);
  lend(s, u, n->owner);
  return to_sugar(s, u, n, base, at, out);
}

/* A key: a name in the scope (object NULL), or an attribute of an object; `bytes` has room for
 * it. */
typedef struct memo_key {
  char bytes[128];
} memo_key;

static bool memo_find(const host_function *hf, const void *object, const char *name, memo_key *key,
                      str *as, sugared *out)
{
  size_t len = strlen(name);
  *as = (str){key->bytes, sizeof object + len};
  if (!hf->memo || as->len > sizeof key->bytes)
    return false;
  memcpy(key->bytes, &object, sizeof object);
  memcpy(key->bytes + sizeof object, name, len);
  const sugared *found = table_get(hf->memo, *as);
  if (found)
    *out = *found;
  return found != NULL;
}

static void memo_put(session *s, host_function *hf, str key, const sugared *v)
{
  if (!hf->memo || key.len > sizeof(memo_key))
    return;
  sugared *kept = session_new(s, sugared);
  *kept = *v;
  session_table_put(s, hf->memo, (str){session_strndup(s, key.p, key.len), key.len}, kept);
}

/* Resolve a name to another function of the same text. */
static bool sibling(session *s, const host_function *hf, const char *name, sugared *out)
{
  function *f =
    hf->prefix
      ? program_find_function(hf->u->p, str_of(session_printf(s, "%s%s", hf->prefix, name)))
      : NULL;
  if (f)
    *out = (sugared){.kind = SUGAR_FUNCTION, .as.function = ready_function(s, (rush_function *)f)};
  return f != NULL;
}

static bool host_value(session *s, const resolver *r, const char *name, source_range at,
                       sugared *out)
{
  host_function *hf = r->arg;
  rush_name n = {.kind = RUSH_NAME_UNKNOWN};
  memo_key bytes;
  str key;
  if (resolve_builtin_name(name, out) && out->kind != SUGAR_EXCEPTION)
    return true; /* TorchScript's own names precede all others */
  if (memo_find(hf, NULL, name, &bytes, &key, out))
    return true;
  if (sibling(s, hf, name, out)) {
    memo_put(s, hf, key, out);
    return true;
  }
  rush_status st = hf->u->host.name(hf->u->host.user, hf->scope, name, &n, s->cx->err);
  bool known = answer(s, hf->u, st, &n, NULL, at, out);
  if (known)
    memo_put(s, hf, key, out);
  return known;
}

static bool host_attr(session *s, const resolver *r, const sugared *base, const char *name,
                      source_range at, sugared *out)
{
  host_function *hf = r->arg;
  rush_name n = {.kind = RUSH_NAME_UNKNOWN};
  memo_key bytes;
  str key;
  if (base->kind != SUGAR_HOST_OBJECT)
    return false;
  if (memo_find(hf, base->as.thing.object, name, &bytes, &key, out))
    return true;
  rush_status st = hf->u->host.attr(hf->u->host.user, base->as.thing.object, name, &n, s->cx->err);
  bool known = answer(s, hf->u, st, &n, base, at, out);
  if (known)
    memo_put(s, hf, key, out);
  return known;
}

static bool host_called(session *s, const resolver *r, const sugared *base, uint32_t n_args,
                        source_range at, sugared *out)
{
  host_unit *u = ((host_function *)r->arg)->u;
  rush_name n = {.kind = RUSH_NAME_UNKNOWN};
  if (base->kind != SUGAR_HOST_OBJECT || !u->host.called)
    return false;
  rush_status st = u->host.called(u->host.user, base->as.thing.object, n_args, &n, s->cx->err);
  n.index = n.kind == RUSH_NAME_HOST_CALL;
  return answer(s, u, st, &n, base, at, out);
}

static bool host_block(session *s, const resolver *r, const sugared *base, const char *text,
                       source_range at, sugared *out)
{
  host_unit *u = ((host_function *)r->arg)->u;
  rush_name n = {.kind = RUSH_NAME_UNKNOWN};
  if (base->kind != SUGAR_HOST_OBJECT || !u->host.block)
    return false;
  rush_status st = u->host.block(u->host.user, base->as.thing.object, text, &n, s->cx->err);
  return answer(s, u, st, &n, base, at, out);
}

static bool host_class_attr(session *s, const resolver *r, const sugared *base, const char *name,
                            source_range at, sugared *out)
{
  host_function *hf = r->arg;
  rush_name n = {.kind = RUSH_NAME_UNKNOWN};
  const type *t = base->kind == SUGAR_VALUE ? base->as.value->type : base->as.type;
  if (!t->cls || !t->cls->object || !hf->u->host.class_attr)
    return false;
  rush_status st = hf->u->host.class_attr(hf->u->host.user, t->cls->object, name, &n, s->cx->err);
  return answer(s, hf->u, st, &n, base, at, out);
}

/* Resolve an attribute of a module; an unknown name may have a reason, *why. */
static bool host_member(session *s, const resolver *r, ir_value *self, const char *name,
                        source_range at, sugared *out, const char **why)
{
  host_function *hf = r->arg;
  rush_name n = {.kind = RUSH_NAME_UNKNOWN};
  sugared base = {.kind = SUGAR_VALUE, .as.value = self};
  if (!hf->u->host.class_attr)
    return false;
  rush_status st =
    hf->u->host.class_attr(hf->u->host.user, self->type->cls->object, name, &n, s->cx->err);
  if (st == RUSH_OK && n.kind == RUSH_NAME_HIDDEN) {
    *why = session_strdup(s, n.text);
    n.kind = RUSH_NAME_UNKNOWN;
  }
  return answer(s, hf->u, st, &n, &base, at, out);
}

static const type *host_type(session *s, const resolver *r, const char *name, source_range at)
{
  static const char *const own[] = {"Tensor", "int",  "float", "bool",
                                    "str",    "None", "Any",   "complex"};
  host_function *hf = r->arg;
  const rush_type *t = NULL;
  for (size_t i = 0; i < COUNT_OF(own); i++)
    if (strcmp(own[i], name) == 0)
      return NULL;
  check_host(s, hf->u->host.type(hf->u->host.user, hf->scope, name, &t, s->cx->err), at);
  return (const type *)t;
}

static bool host_default(session *s, const resolver *r, const char *name, const type *t,
                         source_range at, rush_value *out)
{
  host_function *hf = r->arg;
  rush_value v = value_unset();
  if (!hf->u->host.default_value)
    return false;
  check_host(s,
             hf->u->host.default_value(hf->u->host.user, hf->scope, name, (const rush_type *)t, &v,
                                       s->cx->err),
             at);
  if (v.tag == RUSH_TAG_UNSET && v.aux == 0)
    return false;
  *out = v;
  return true;
}

/* -- Units ------------------------------------------------------------------------------------- */

program *script_host_new(session *s, const rush_host *host)
{
  program *p = program_new(s, s->cx->ctx);
  host_unit *u = session_alloc_in(s, &p->mem, sizeof *u);
  u->p = p;
  u->host = *host;
  p->front = u;
  p->front_free = free_unit;
  return p;
}

void script_host_enter(session *s, program *p)
{
  session_lock(s, &p->lock);
}

/* Return "__torch__.a.f", or "__torch__.a.___torch_mangle_3.f". */
static const char *unique_name(session *s, host_unit *u, const char *name)
{
  const char *dot = strrchr(name, '.');
  const char *fresh = name;
  while (program_find_function(u->p, str_of(fresh)) || program_find_class(u->p, str_of(fresh)))
    fresh = session_printf(s, "%.*s___torch_mangle_%u.%s", dot ? (int)(dot + 1 - name) : 0, name,
                           u->n_mangled++, dot ? dot + 1 : name);
  return fresh;
}

const char *script_host_unique(session *s, program *p, const char *name)
{
  return unique_name(s, unit_of(p), name);
}

/* -- Functions --------------------------------------------------------------------------------- */

static const line_index *lines_of(session *s, host_unit *u, const source *src)
{
  for (line_index *x = u->lines; x; x = x->next)
    if (x->src == src)
      return x;
  line_index *x = session_alloc_in(s, &u->p->mem, sizeof *x);
  uint32_t n = 1;
  for (const char *p = src->text; (p = memchr(p, '\n', src->len - (size_t)(p - src->text))); p++)
    n++;
  x->starts = session_alloc_in(s, &u->p->mem, n * sizeof *x->starts);
  for (const char *p = src->text; (p = memchr(p, '\n', src->len - (size_t)(p - src->text))); p++)
    x->starts[++x->n] = (uint32_t)(p + 1 - src->text);
  x->n++;
  x->has_types = src->by_function && script_has_type_lines(src);
  x->src = src;
  x->next = u->lines;
  u->lines = x;
  return x;
}

/* Find the "def" on or below a line, after decorators. */
static uint32_t find_def(session *s, host_unit *u, const source *src, uint32_t line)
{
  const line_index *x = lines_of(s, u, src);
  lexer lx;
  if (line < src->first_line || line - src->first_line >= x->n)
    session_fail_status(s, RUSH_ERAISED, "OSError", NULL, "could not get source code");
  uint32_t start = x->starts[line - src->first_line];
  while (src->text[start] == ' ' || src->text[start] == '\t')
    start++;
  lexer_init(&lx, s, src, start, (uint32_t)src->len);
  while (lx.cur.kind == TK_MATMUL) {
    while (lx.cur.kind != TK_NEWLINE && lx.cur.kind != TK_EOF)
      lexer_next(&lx);
    lexer_next(&lx);
  }
  if (lx.cur.kind != TK_DEF) {
    session_fail(s, NULL, "Expected a single top-level function: %s:%u",
                 src->name ? src->name : "?", line);
  }
  return lx.cur.start;
}

/* Drop types of parameters whose body is dropped: only their names remain, since the types may be
 * unknown to any program. */
static void loosen(session *s, ast_def *d, bool is_method)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->n_params; i++) {
    if (d->params[i].form != PARAM_PLAIN)
      continue;
    ast_param *p = &d->params[n++];
    *p = d->params[i];
    if (i == 0 && is_method)
      continue;
    p->type = session_new(s, ast_expr);
    *p->type = (ast_expr){.kind = EXPR_NAME, .op = OP_NONE, .at = p->at, .as.name = "Any"};
  }
  d->n_params = n;
}

/* Replace the body by "raise RuntimeError(text)". */
static void replace_body(session *s, host_function *hf, ast_def *d)
{
  const char *text = session_printf(s, "raise RuntimeError(\"%s\")\n", hf->drop_body);
  d->body = parse_source(s, program_add_source(s, hf->u->p, "unused", text, strlen(text)), 0);
}

static void free_memo(void *arg)
{
  host_function *hf = arg;
  table_free(hf->memo);
  hf->memo = NULL;
}

static void compile_body(session *s, function *f)
{
  host_function *hf = f->compile_arg;
  table *memo = session_new(s, table);
  table_init(memo, s->cx->ctx);
  hf->memo = memo;
  session_defer(s, free_memo, hf);
  ast_def *d = hf->tree ? hf->tree
               : hf->drop_body
                 ? parse_def_head(s, hf->src, hf->start, PARSE_LIVE)
                 : parse_def_at(s, hf->src, hf->start,
                                hf->src->by_function ? PARSE_TREE_RANGES | PARSE_LIVE : 0);
  if (hf->drop_body) {
    loosen(s, d, f->self && !f->is_static);
    replace_body(s, hf, d);
  }
  script_emit_function(s, f, d, &hf->names);
}

static void add_pending(session *s, host_unit *u, function *f)
{
  GROW_IN(s, &u->p->mem, u->pending, u->n_pending, u->cap_pending, 32);
  u->pending[u->n_pending++] = f;
}

static resolver names_of(host_function *hf)
{
  return (resolver){.arg = hf,
                    .program = hf->u->p,
                    .value = host_value,
                    .attr = host_attr,
                    .called = host_called,
                    .block = host_block,
                    .type = host_type,
                    .class_attr = host_class_attr,
                    .default_value = host_default,
                    .member = host_member,
                    .is_eager = true,
                    .is_string = !hf->src->by_function,
                    .is_live = true};
}

/* Read the signature of the function on or below a line, with the types in comments. */
static ast_def *read_head(session *s, host_unit *u, const source *src, uint32_t line,
                          bool is_method)
{
  uint32_t start = find_def(s, u, src, line);
  if (!lines_of(s, u, src)->has_types)
    return parse_def_head(s, src, start, src->by_function ? PARSE_LIVE : 0);
  ast_def *d = parse_def_skipped(s, src, start, PARSE_LIVE);
  script_apply_type_lines(s, u->p, d, is_method);
  return d;
}

function *script_host_define(session *s, program *p, const rush_function_def *def)
{
  host_unit *u = unit_of(p);
  const type *self = (const type *)def->self;
  host_function *hf = session_alloc_in(s, &p->mem, sizeof *hf);
  const source *src = (const source *)def->source;
  function *f;

  keep_object(s, u, def->scope);
  uint32_t start = find_def(s, u, src, def->line);
  *hf = (host_function){.u = u, .src = src, .start = start, .scope = def->scope};
  hf->drop_body = def->drop_body ? keep_text(s, u, def->drop_body) : NULL;
  hf->names = names_of(hf);
  const source *head = def->signature ? (const source *)def->signature : src;
  ast_def *d = read_head(s, u, head, def->signature ? def->signature_line : def->line,
                         self && !def->is_static);
  if (def->drop_body && def->drop_body[0])
    loosen(s, d, self && !def->is_static);
  if (d->is_async)
    session_fail(s, &d->at, "async function definitions aren't supported");
  if (!self)
    f = program_add_function(s, p, unique_name(s, u, def->name));
  else if (def->is_hook)
    f = program_add_closure(s, p, session_printf(s, "%s.%s", self->name, def->name));
  else
    f = class_add_method(s, self, def->name);
  f->self = self;
  f->is_static = def->is_static;
  f->is_class_method = def->is_class_method;
  script_declare_function(s, f, d, &hf->names);
  if (def->is_declared_only)
    return f;
  f->compile = compile_body;
  f->compile_arg = hf;
  if (self)
    add_pending(s, u, f);
  return f;
}

/* -- Texts ------------------------------------------------------------------------------------- */

/* The functions of a text that is being added; if it fails, they are all removed. */
typedef struct text_job {
  host_unit *u;
  uint32_t first;
} text_job;

static void take_back(void *arg)
{
  const text_job *j = arg;
  host_unit *u = j->u;
  while (u->n_of_texts > j->first)
    table_remove(&u->p->functions, str_of(u->of_texts[--u->n_of_texts]->qualified));
}

static void add_of_text(session *s, host_unit *u, function *f)
{
  GROW_IN(s, &u->p->mem, u->of_texts, u->n_of_texts, u->cap_of_texts, 4);
  u->of_texts[u->n_of_texts++] = f;
}

static const ast_def *def_of(session *s, const ast_stmt *st)
{
  source_range at = st->at;
  const ast_def *d = st->kind == STMT_DEF ? st->as.def : NULL;
  if (d && !d->is_async && !d->decorators.n)
    return d;
  if (d && d->decorators.n)
    at = (source_range){at.src, d->decorators.items[0]->at.start - 1,
                        d->decorators.items[0]->at.start};
  else
    at.end = at.start + 1;
  lexer lx;
  lexer_init_inline(&lx, s, at.src, at.start, (uint32_t)at.src->len);
  at.end = lx.cur.end;
  token_kind k = lx.cur.kind;
  session_fail(s, &at, "expected def but found %s here",
               k == TK_NAME || k == TK_ASYNC ? "'ident'" : token_text(&lx, &lx.cur));
}

static void declare_of_text(session *s, host_unit *u, const source *src, const char *prefix,
                            void *scope, ast_def *d)
{
  const char *name = session_printf(s, "%s%s", prefix, d->name);
  if (program_find_function(u->p, str_of(name)))
    session_fail(s, NULL, "method '%s' already defined.", d->name);
  host_function *hf = session_alloc_in(s, &u->p->mem, sizeof *hf);
  *hf = (host_function){
    .u = u, .src = src, .start = d->at.start, .scope = scope, .prefix = prefix, .tree = d};
  hf->names = names_of(hf);
  function *f = program_add_function(s, u->p, name);
  add_of_text(s, u, f);
  script_declare_function(s, f, d, &hf->names);
  f->compile = compile_body;
  f->compile_arg = hf;
}

void script_host_define_text(session *s, program *p, source *src, const char *prefix, void *scope)
{
  host_unit *u = unit_of(p);
  text_job *j = session_new(s, text_job);
  lend(s, u, scope);
  ast_stmts tree = parse_source(s, src, PARSE_TORCH_WORDS);
  *j = (text_job){u, u->n_of_texts};
  session_defer(s, take_back, j);
  for (uint32_t i = 0; i < tree.n; i++)
    declare_of_text(s, u, src, prefix, scope, (ast_def *)(uintptr_t)def_of(s, tree.items[i]));
  for (uint32_t i = j->first; i < u->n_of_texts; i++)
    function_ensure(s, u->of_texts[i]);
  session_keep(s, j);
}

function *script_host_of_text(const program *p, size_t i)
{
  const host_unit *u = unit_of(p);
  return i < u->n_of_texts ? u->of_texts[i] : NULL;
}

/* The pending functions before a definition: those declared during a failing one are dropped, since
 * they would fail again in the next. */
typedef struct pending_mark {
  host_unit *u;
  uint32_t n;
} pending_mark;

static void drop_pending(void *arg)
{
  pending_mark *m = arg;
  if (m->u->n_pending > m->n)
    m->u->n_pending = m->n;
}

void script_host_compile(session *s, function *f)
{
  host_unit *u = unit_of(f->program);
  pending_mark *mark = session_new(s, pending_mark);
  *mark = (pending_mark){u, 0};
  session_defer(s, drop_pending, mark);
  if (f->compile)
    function_ensure(s, f);
  for (uint32_t i = 0; i < u->n_pending; i++)
    if (u->pending[i]->compile)
      function_ensure(s, u->pending[i]);
}

typedef struct reached { /* functions that were looked at */
  const function *f;
  struct reached *next;
} reached;

static bool draws(session *s, reached **seen, function *f);

static bool block_draws(session *s, reached **seen, const ir_block *b)
{
  bool yes = false;
  session_enter(s);
  for (const ir_node *n = ir_block_first(b); n != b->ret && !yes; n = n->next) {
    session_poll(s);
    function *callee = n->function;
    if (n->kind == IR_CALL_METHOD && ir_node_input(n, 0)->type->kind == TYPE_CLASS)
      callee = class_find_method(ir_node_input(n, 0)->type, ir_attr_string(n, "name"));
    yes = (n->kind == IR_OP &&
           (n->op->effects & (OP_RANDOM | (n->op->outside ? OP_SIDE_EFFECT : 0)))) ||
          n->kind == IR_INTERFACE_CALL || (callee && draws(s, seen, callee));
    for (uint32_t i = 0; i < n->n_blocks && !yes; i++)
      yes = block_draws(s, seen, n->blocks[i]);
  }
  session_leave(s);
  return yes;
}

static bool draws(session *s, reached **seen, function *f)
{
  for (const reached *r = *seen; r; r = r->next)
    if (r->f == f)
      return false;
  reached *r = session_new(s, reached);
  *r = (reached){f, *seen};
  *seen = r;
  function_ensure(s, f);
  return f->graph && block_draws(s, seen, f->graph->block);
}

bool script_host_takes_undefined(session *s, function *f, size_t i)
{
  function_ensure(s, f);
  if (!f->graph || i >= ir_block_n_inputs(f->graph->block))
    return false;
  for (const ir_use *u = ir_block_input(f->graph->block, (uint32_t)i)->uses; u; u = u->next)
    if (u->user != f->graph->block->ret)
      return false;
  return true;
}

bool script_host_is_random(session *s, function *f)
{
  reached *seen = NULL;
  return draws(s, &seen, f);
}

/* -- Classes ----------------------------------------------------------------------------------- */

/* Complete a class: its attributes are those that __init__ sets. */
static void complete_class(session *s, const type *t)
{
  function *init = class_find_method(t, "__init__");
  if (init && init->state == FUNCTION_DECLARED && init->compile)
    function_ensure(s, init);
}

const type *script_host_add_class(session *s, program *p, const rush_class_def *def)
{
  static const type_kind kinds[] = {
    [RUSH_CLASS_SCRIPT] = TYPE_CLASS, [RUSH_CLASS_INTERFACE] = TYPE_INTERFACE,
    [RUSH_CLASS_MODULE] = TYPE_CLASS, [RUSH_CLASS_MODULE_INTERFACE] = TYPE_INTERFACE,
    [RUSH_CLASS_ENUM] = TYPE_ENUM,    [RUSH_CLASS_NAMED_TUPLE] = TYPE_TUPLE};
  host_unit *u = unit_of(p);
  keep_object(s, u, def->object);
  type *t = program_add_class(s, p, kinds[def->kind], unique_name(s, u, def->name));
  if (!t->cls)
    return t;
  t->cls->object = def->object;
  t->cls->container = (uint8_t)def->container;
  t->cls->is_module = def->kind == RUSH_CLASS_MODULE;
  t->cls->is_module_interface = def->kind == RUSH_CLASS_MODULE_INTERFACE;
  t->cls->is_open = def->kind == RUSH_CLASS_SCRIPT;
  if (t->cls->is_open)
    t->cls->complete = complete_class;
  return t;
}

void script_host_forget(program *p, const type *t)
{
  host_unit *u = unit_of(p);
  uint32_t n = 0;
  (void)table_remove(&p->classes, str_of(t->name));
  for (uint32_t i = 0; i < u->n_pending; i++)
    if (u->pending[i]->self != t)
      u->pending[n++] = u->pending[i];
  u->n_pending = n;
}

void script_host_add_property(session *s, const type *t, const char *name, function *getter,
                              function *setter)
{
  class_info *c = t->cls;
  struct class_property *grown =
    session_alloc_in(s, &c->program->mem, (c->n_properties + 1) * sizeof *grown);
  if (c->n_properties)
    memcpy(grown, c->properties, c->n_properties * sizeof *grown);
  grown[c->n_properties++] =
    (struct class_property){keep_text(s, unit_of(c->program), name), getter, setter};
  c->properties = grown;
}

void script_host_add_hook(session *s, const type *t, function *f, bool pre)
{
  class_info *c = t->cls;
  function ***list = pre ? &c->forward_pre_hooks : &c->forward_hooks;
  uint32_t *n = pre ? &c->n_pre_hooks : &c->n_hooks;
  function **grown = session_alloc_in(s, &c->program->mem, (*n + 1) * sizeof *grown);
  if (*n)
    memcpy(grown, *list, *n * sizeof *grown);
  grown[(*n)++] = f;
  *list = grown;
}

void script_host_add_member(session *s, const type *t, const char *name, rush_value v)
{
  rush_value member;
  type_kind k = v.tag == RUSH_TAG_FLOAT    ? TYPE_FLOAT
                : v.tag == RUSH_TAG_STRING ? TYPE_STRING
                : v.tag == RUSH_TAG_INT    ? TYPE_INT
                                           : TYPE_ANY;
  if (k == TYPE_ANY || (t->n_elems && t->elems[0] != type_simple(k)))
    session_fail(
      s, NULL, "Cannot create Enum with value type '%s', only int, float and string are supported",
      v.tag == RUSH_TAG_TENSOR ? "Tensor" : type_text(s, type_simple(k)));
  if (!t->n_elems) {
    const type **elem = session_alloc_in(s, &t->cls->program->mem, sizeof *elem);
    elem[0] = type_simple(k);
    ((type *)t)->elems = elem;
    ((type *)t)->n_elems = 1;
  }
  session_check(s, enum_value_new(s->cx, t, name, v, &member));
  class_add_enum_member(s, t, name, member);
}

void script_host_add_field(session *s, const type *tuple, const char *name, const type *field,
                           const rush_value *default_value)
{
  type *t = (type *)tuple;
  program *p = program_of_types(t->store);
  uint32_t n = t->n_elems;
  const type **elems = session_alloc_in(s, &p->mem, (n + 1) * sizeof *elems);
  const char **fields = session_alloc_in(s, &p->mem, (n + 1) * sizeof *fields);
  if (n) {
    memcpy(elems, t->elems, n * sizeof *elems);
    memcpy(fields, t->fields, n * sizeof *fields);
  }
  elems[n] = field;
  fields[n] = keep_text(s, unit_of(p), name);
  t->elems = elems;
  t->fields = fields;
  t->n_elems = n + 1;
  if (!default_value)
    return;
  rush_value *defaults = session_alloc_in(s, &p->mem, (t->n_defaults + 1) * sizeof *defaults);
  if (t->n_defaults)
    memcpy(defaults, t->defaults, t->n_defaults * sizeof *defaults);
  program_keep_steal(s, p, value_retain(*default_value));
  defaults[t->n_defaults++] = *default_value;
  t->defaults = defaults;
}

/* Add an argument in front of the function's, which its graph ignores. */
const type *script_host_wrap(session *s, function *f)
{
  program *p = f->program;
  function_ensure(s, f);
  type *t =
    program_add_class(s, p, TYPE_CLASS, unique_name(s, unit_of(p), "__torch__.PlaceholderModule"));
  t->cls->is_module = true;
  class_add_attr(s, t, "training", type_simple(TYPE_BOOL));
  function *m = class_add_method(s, t, "forward");
  schema *sc = session_alloc_in(s, &p->mem, sizeof *sc);
  *sc = *f->schema;
  sc->name = "forward";
  sc->n_args = f->schema->n_args + 1;
  sc->args = session_alloc_in(s, &p->mem, sc->n_args * sizeof *sc->args);
  sc->args[0] = (schema_arg){.name = "self", .type = t};
  memcpy(sc->args + 1, f->schema->args, f->schema->n_args * sizeof *sc->args);
  m->schema = sc; /* defaults stay the function's */
  ir_graph *g = ir_graph_new(s, &p->types);
  session_defer(s, ir_graph_free_deferred, g);
  ir_block_add_input(s, g->block, t, "self");
  ir_value **in = session_array(s, ir_value *, sc->n_args);
  for (uint32_t i = 1; i < sc->n_args; i++)
    in[i - 1] = ir_block_add_input(s, g->block, sc->args[i].type, sc->args[i].name);
  ir_value *out = NULL;
  ir_block_inline(s, f->graph->block, g->block->ret, in, &out);
  ir_block_add_output(s, g->block, out);
  function_set_graph_steal(m, session_keep(s, g));
  m->state = FUNCTION_COMPILED;
  return t;
}

const type *script_host_parse_type(session *s, program *p, const char *text, void *scope)
{
  host_unit *u = unit_of(p);
  host_function *hf = session_new(s, host_function);
  *hf = (host_function){.u = u, .scope = scope};
  hf->names =
    (resolver){.arg = hf,
               .program = p,
               .value = host_value,
               .attr = host_attr,
               .called = host_called,
               .block = host_block,
               .type = host_type};
  source *src = program_add_source(s, p, "annotation", text, strlen(text));
  source_range at = {src, 0, (uint32_t)src->len};
  return resolve_type(s, &hf->names, parse_expr_range(s, at, 0));
}
