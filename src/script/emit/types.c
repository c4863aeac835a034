/* script/emit/types.c -- types while compiling: making container types (leaving the session if
 * memory runs out), removing None from types, and annotations to types. An annotation is read from
 * its syntax tree: names through the resolver, generics by name. Errors use PyTorch's names for
 * kinds of expressions. */
#include <string.h>

#include "script/emit/emit_int.h"
#include "script/syntax/parser.h"

/* -- Containers that never fail ---------------------------------------------------------------- */

static const type *made(session *s, const type *t)
{
  if (!t)
    session_check(s, call_nomem(s->cx));
  return t;
}

const type *em_list_of(emitter *e, const type *elem)
{
  return made(e->s, type_list(&e->p->types, elem));
}

const type *em_optional_of(emitter *e, const type *elem)
{
  return made(e->s, type_optional(&e->p->types, elem));
}

const type *em_tuple_of(emitter *e, const type *const *elems, uint32_t n)
{
  return made(e->s, type_tuple(&e->p->types, elems, n));
}

const type *em_unify(emitter *e, const type *a, const type *b, bool to_union)
{
  const type *t;
  e->p->uninferred = NULL;
  do
    t = type_unify(&e->p->types, a, b, to_union);
  while (program_infer_more(e->s, e->p));
  /* Unions and optionals always exist. */
  return to_union || a->kind == TYPE_NONE || b->kind == TYPE_NONE ? made(e->s, t) : t;
}

const type *em_unwrap_optional(const type *t) { return t->kind == TYPE_OPTIONAL ? t->elems[0] : t; }

bool em_is_optional_like(const type *t)
{
  if (t->kind == TYPE_OPTIONAL)
    return true;
  for (uint32_t i = 0; t->kind == TYPE_UNION && i < t->n_elems; i++)
    if (t->elems[i]->kind == TYPE_NONE)
      return true;
  return false;
}

const type *em_without_none(emitter *e, const type *t)
{
  if (t->kind == TYPE_OPTIONAL)
    return t->elems[0];
  if (t->kind != TYPE_UNION)
    return t;
  const type **kept = session_array(e->s, const type *, t->n_elems);
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (t->elems[i]->kind != TYPE_NONE)
      kept[n++] = t->elems[i];
  return n == 1 ? kept[0] : made(e->s, type_union(&e->p->types, kept, n));
}

const char *type_text(session *s, const type *t)
{
  text_buf b;
  text_init(&b, s->cx->ctx);
  if (t->kind == TYPE_ENUM)
    text_printf(&b, "Enum<%s>", t->name);
  else
    type_print_annotation(&b, t);
  return session_take_text(s, &b);
}

/* -- Annotations ------------------------------------------------------------------------------- */

static const struct { const char *name; type_kind kind; } simple_names[] = {
    {"Tensor", TYPE_TENSOR},     {"int", TYPE_INT},         {"float", TYPE_FLOAT},
    {"bool", TYPE_BOOL},         {"str", TYPE_STRING},      {"complex", TYPE_COMPLEX},
    {"None", TYPE_NONE},         {"NoneType", TYPE_NONE},   {"Any", TYPE_ANY},
    {"number", TYPE_NUMBER},     {"Scalar", TYPE_NUMBER},   {"Device", TYPE_DEVICE},
    {"Generator", TYPE_GENERATOR}, {"Storage", TYPE_STORAGE}, {"Stream", TYPE_STREAM},
    {"Capsule", TYPE_CAPSULE},   {"AnyListType", TYPE_ANY_LIST}, {"AnyTupleType", TYPE_ANY_TUPLE},
    {"AnyClassType", TYPE_ANY_CLASS}, {"AnyEnumType", TYPE_ANY_ENUM}, {"dtype", TYPE_INT},
    {"Layout", TYPE_INT},        {"QScheme", TYPE_INT},     {"SymInt", TYPE_INT},
};

static const struct { const char *name; type_kind kind; } torch_names[] = {
    {"torch.Tensor", TYPE_TENSOR},   {"torch.device", TYPE_DEVICE}, {"torch.dtype", TYPE_INT},
    {"torch.layout", TYPE_INT},      {"torch.memory_format", TYPE_INT}, {"torch.qscheme", TYPE_INT},
    {"torch.Generator", TYPE_GENERATOR}, {"torch.Stream", TYPE_STREAM}, {"typing.Any", TYPE_ANY},
    {"torch.nn.Parameter", TYPE_TENSOR}, {"nn.Parameter", TYPE_TENSOR}, {"torch.SymInt", TYPE_INT},
    {"torch.nn.parameter.Parameter", TYPE_TENSOR},
};

/* Return "a.b.c" for an attribute chain, or NULL. */
static const char *dotted(session *s, const ast_expr *x)
{
  if (x->kind == EXPR_NAME)
    return x->as.name;
  if (x->kind == EXPR_NONE)
    return "None";
  if (x->kind != EXPR_ATTR)
    return NULL;
  session_enter(s);
  const char *base = dotted(s, x->as.attr.base);
  session_leave(s);
  return base ? session_printf(s, "%s.%s", base, x->as.attr.name) : NULL;
}

static const type *named_type(session *s, const resolver *r, const char *name, source_range at)
{
  const type *t = r->type ? r->type(s, r, name, at) : NULL;
  if (t)
    return t;
  if (r->type_name)
    name = r->type_name(s, r, name);
  for (size_t i = 0; i < COUNT_OF(simple_names); i++)
    if (strcmp(simple_names[i].name, name) == 0)
      return type_simple(simple_names[i].kind);
  for (size_t i = 0; i < COUNT_OF(torch_names); i++)
    if (strcmp(torch_names[i].name, name) == 0)
      return type_simple(torch_names[i].kind);
  type_store *ts = &r->program->types;
  if (strcmp(name, "torch.Size") == 0 && !r->is_eager)
    return made(s, type_list(ts, type_simple(TYPE_INT)));
  static const char *const generics[] = {"List", "Tuple", "Dict", "Optional", "Union", "Future"};
  const char *last = strrchr(name, '.');
  last = last ? last + 1 : name;
  for (size_t i = 0; i < COUNT_OF(generics); i++)
    if (strcmp(generics[i], last) == 0)
      session_fail(s, &at,
                   i == 2 ? "Attempted to use %s without contained types. Please add contained "
                            "type, e.g. %s[int, int]"
                          : "Attempted to use %s without a contained type. Please add a contained "
                            "type, e.g. %s[int]",
                   last, last);
  session_fail(s, &at, "Unknown type name '%s'", name);
}

void resolve_check_key(session *s, const type *key, source_range at)
{
  static const type_kind kinds[] = {TYPE_ANY,     TYPE_INT,    TYPE_BOOL,   TYPE_FLOAT,
                                    TYPE_COMPLEX, TYPE_STRING, TYPE_TENSOR, TYPE_DEVICE};
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    if (type_runtime(key)->kind == kinds[i])
      return;
  if (key->kind == TYPE_VAR)
    return;
  text_buf b;
  text_init(&b, s->cx->ctx);
  type_print(&b, key);
  const char *text = session_take_text(s, &b);
  session_fail(s, &at,
               "Cannot create dict for key type '%s', only int, float, complex, Tensor, device and "
               "string keys are "
               "supported",
               text);
}

static const type *generic_type(session *s, const resolver *r, const char *name, const type **elems,
                                uint32_t n, source_range at)
{
  type_store *ts = &r->program->types;
  const char *last = strrchr(name, '.');
  last = last ? last + 1 : name;
  if (strcmp(last, "Tuple") == 0 || strcmp(last, "tuple") == 0)
    return made(s, type_tuple(ts, elems, n));
  if (strcmp(last, "Union") == 0 && n == 0) /* it would be below every type */
    session_fail(s, &at, "Union must have at least one type");
  if (strcmp(last, "Union") == 0)
    return made(s, type_union(ts, elems, n));
  if ((strcmp(last, "Dict") == 0 || strcmp(last, "dict") == 0) && n == 2) {
    resolve_check_key(s, elems[0], at);
    return made(s, type_dict(ts, elems[0], elems[1]));
  }
  if (strcmp(last, "Dict") == 0 || strcmp(last, "dict") == 0)
    session_fail(s, &at, "expected exactly 2 element types but found %u", n);
  if (n != 1)
    session_fail(s, &at, "expected exactly one element type but found %u", n);
  if (strncmp(last, "BroadcastingList", 16) == 0 && elems[0]->kind != TYPE_INT &&
      elems[0]->kind != TYPE_FLOAT && r->is_live)
    session_fail(s, &at, "Broadcastable lists only supported for int or float");
  if (strcmp(last, "List") == 0 || strcmp(last, "list") == 0 ||
      strncmp(last, "BroadcastingList", 16) == 0)
    return made(s, type_list(ts, elems[0]));
  const type *or_none[2] = {elems[0], type_simple(TYPE_NONE)};
  if (strcmp(last, "Optional") == 0)
    return made(s, elems[0]->kind == TYPE_UNION &&
                       !(r->parse_flags & PARSE_RAW_BYTES) /* annotations in archives are exact */
                     ? type_union(ts, or_none, 2)
                     : type_optional(ts, elems[0]));
  if (strcmp(last, "Future") == 0)
    return made(s, type_future(ts, elems[0]));
  if (strcmp(last, "Await") == 0 || strcmp(last, "_Await") == 0)
    return made(s, type_generic(ts, TYPE_AWAIT, elems[0]));
  if (strcmp(last, "Final") == 0 && !r->is_eager)
    return elems[0];
  session_fail(s, &at, "Unknown type constructor %s", name);
}

/* Check a part of a Dict. PyTorch checks it in Python: anything but a type is a ValueError. */
static void check_dict_part(session *s, const resolver *r, const ast_expr *x)
{
  const char *name = r->is_live && x->kind == EXPR_ATTR ? dotted(s, x) : NULL;
  if (name && !r->type(s, r, name, x->at))
    session_fail_status(s, RUSH_ERAISED, "ValueError", &x->at, "Unknown type annotation: '%s' at ",
                        name);
}

/* Check that `name` can be a generic type, before its arguments are read. */
static void check_generic(session *s, const char *name, source_range at)
{
  static const char *const names[] = {"Tuple",  "tuple", "Union",    "Dict",   "dict",
                                      "List",   "list",  "Optional", "Future", "Await",
                                      "_Await", "RRef",  "Final"};
  const char *last = strrchr(name, '.');
  last = last ? last + 1 : name;
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strcmp(names[i], last) == 0)
      return;
  if (strncmp(last, "BroadcastingList", 16) != 0)
    session_fail(s, &at, "Unknown type constructor %s", name);
}

/* Return PyTorch's name of an expression's kind. */
static const char *kind_name(const ast_expr *x)
{
  switch ((int)x->kind) {
  case EXPR_ELLIPSIS: return "dots";
  case EXPR_LIST: return "list-literal";
  case EXPR_TUPLE: return "tuple-literal";
  case EXPR_DICT: return "dict-literal";
  case EXPR_CALL: return "apply";
  case EXPR_INT: case EXPR_FLOAT: case EXPR_IMAG: return "const";
  case EXPR_TRUE: return "True";
  case EXPR_FALSE: return "False";
  default: return "expression";
  }
}

static const type *subscript_type(session *s, const resolver *r, const ast_expr *x)
{
  const char *name = dotted(s, x->as.subscript.base);
  if (!name)
    session_fail(s, &x->at, "Subscripted type must be a type identifier");
  if (r->type_name)
    name = r->type_name(s, r, name);
  check_generic(s, name, x->at);
  const ast_exprs *index = &x->as.subscript.index;
  bool empty =
    index->n == 1 && index->items[0]->kind == EXPR_TUPLE && index->items[0]->as.items.n == 0;
  uint32_t n = empty ? 0 : index->n; /* Tuple[()] */
  const type **elems = session_array(s, const type *, n ? n : 1);
  bool is_dict = strcmp(name, "Dict") == 0 || strcmp(name, "dict") == 0;
  for (uint32_t i = 0; i < n; i++) {
    if (is_dict)
      check_dict_part(s, r, index->items[i]);
    elems[i] = resolve_type(s, r, index->items[i]);
  }
  return generic_type(s, r, name, elems, n, x->at);
}

const type *resolve_type(session *s, const resolver *r, const ast_expr *x)
{
  const type *t;
  session_enter(s);
  if (x->kind == EXPR_SUBSCRIPT) {
    t = subscript_type(s, r, x);
  } else if (x->kind == EXPR_BINARY && x->op == OP_BITOR) {
    const type *sides[2] = {resolve_type(s, r, x->as.pair.left),
                            resolve_type(s, r, x->as.pair.right)};
    t = made(s, type_union(&r->program->types, sides, 2));
  } else if (x->kind == EXPR_STRING) { /* a forward reference */
    source *src =
      program_add_source(s, r->program, "annotation", x->as.string.data, x->as.string.len);
    source_range at = {src, 0, (uint32_t)src->len};
    t = resolve_type(s, r, parse_expr_range(s, at, r->parse_flags));
  } else {
    const char *name = dotted(s, x);
    if (!name)
      session_fail(s, &x->at, "Expression of type %s cannot be used in a type expression",
                   kind_name(x));
    t = named_type(s, r, name, x->at);
  }
  session_leave(s);
  return t;
}
