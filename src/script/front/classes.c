/* script/front/classes.c -- enums and NamedTuples from their syntax trees. Archives and user files
 * have the same form, so both resolvers share this code. Values of members and defaults of fields
 * must be constants, which are evaluated at compile time; nothing is executed. */
#include "script/front/classes.h"

#include <string.h>

#include "script/emit/emit_int.h"

static const char *keep_text(session *s, program *p, const char *text)
{
  char *copy = session_alloc_in(s, &p->mem, strlen(text) + 1);
  memcpy(copy, text, strlen(text));
  return copy;
}

bool class_has_base(const ast_class *cls, const char *name)
{
  for (uint32_t i = 0; i < cls->bases.n; i++) {
    const ast_expr *b = cls->bases.items[i];
    if (strcmp(b->kind == EXPR_NAME   ? b->as.name
               : b->kind == EXPR_ATTR ? b->as.attr.name
                                      : "",
               name) == 0)
      return true;
  }
  return false;
}

const type *class_read_enum(session *s, const resolver *r, const char *qualified,
                            const ast_class *cls)
{
  type *t = program_add_class(s, r->program, TYPE_ENUM, qualified);
  const type **elem = session_alloc_in(s, &r->program->mem, sizeof *elem);
  elem[0] = type_simple(TYPE_INT);
  t->elems = elem;
  t->n_elems = 1;
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const ast_stmt *st = cls->body.items[i];
    if (st->kind != STMT_ASSIGN || st->as.assign.targets.items[0]->kind != EXPR_NAME ||
        !st->as.assign.value)
      continue;
    const char *name = st->as.assign.targets.items[0]->as.name;
    rush_value v = em_evaluate_constant(s, r, st->as.assign.value, type_simple(TYPE_ANY)), member;
    const type *have = v.tag == RUSH_TAG_FLOAT    ? type_simple(TYPE_FLOAT)
                       : v.tag == RUSH_TAG_STRING ? type_simple(TYPE_STRING)
                                                  : type_simple(TYPE_INT);
    if (t->cls->n_members == 0)
      elem[0] = have;
    if (!type_contains_value(elem[0], v) || have != elem[0])
      session_fail(s, &st->at,
                   "Could not unify type list since element %u of type %s did not match the types "
                   "before it (%s)",
                   t->cls->n_members, type_text(s, elem[0]), type_text(s, have));
    session_check(s, enum_value_new(s->cx, t, name, v, &member));
    class_add_enum_member(s, t, name, member);
  }
  return t;
}

static void finish_tuple(session *s, type *t, const type **elems, const char **fields, uint32_t n)
{
  if (!type_set_fields(t, elems, fields, n))
    session_check(s, call_nomem(s->cx)); /* too large or too deep: RUSH_ELIMIT */
}

static const type *new_tuple(session *s, const resolver *r, const char *qualified,
                             const type **elems, const char **fields, uint32_t n)
{
  type *t = program_add_class(s, r->program, TYPE_TUPLE, qualified);
  finish_tuple(s, t, elems, fields, n);
  return t;
}

const type *class_make_named_tuple(session *s, const resolver *r, const char *qualified,
                                   const ast_expr *call)
{
  const ast_exprs *args = &call->as.call.args;
  const ast_expr *list = args->n == 2 ? args->items[1] : NULL;
  if (!list || (list->kind != EXPR_LIST && list->kind != EXPR_TUPLE))
    session_fail(s, &call->at, "a named tuple needs its name and a list of its fields");
  uint32_t n = list->as.items.n;
  const type **elems = session_alloc_in(s, &r->program->mem, n * sizeof *elems);
  const char **fields = session_alloc_in(s, &r->program->mem, n * sizeof *fields);
  for (uint32_t i = 0; i < n; i++) {
    const ast_expr *x = list->as.items.items[i];
    bool typed = x->kind == EXPR_TUPLE && x->as.items.n == 2;
    const ast_expr *name = typed ? x->as.items.items[0] : x;
    if (name->kind != EXPR_STRING)
      session_fail(s, &x->at, "expected a field's name, or a pair of name and type");
    elems[i] = typed ? resolve_type(s, r, x->as.items.items[1]) : type_simple(TYPE_TENSOR);
    fields[i] = keep_text(s, r->program, name->as.string.data);
  }
  return new_tuple(s, r, qualified, elems, fields, n);
}

/* Read the fields of a NamedTuple; those with a value have defaults, which must be last. */
const type *class_read_named_tuple(session *s, const resolver *r, const char *qualified,
                                   const ast_class *cls)
{
  type *t = program_add_class(s, r->program, TYPE_TUPLE, qualified);
  arena *mem = &r->program->mem;
  const type **elems = session_alloc_in(s, mem, cls->body.n * sizeof *elems);
  const char **fields = session_alloc_in(s, mem, cls->body.n * sizeof *fields);
  rush_value *defaults = session_alloc_in(s, mem, cls->body.n * sizeof *defaults);
  uint32_t n = 0, n_defaults = 0;
  for (uint32_t i = 0; i < cls->body.n; i++) {
    const ast_stmt *st = cls->body.items[i];
    if (st->kind != STMT_ASSIGN || !st->as.assign.type)
      continue;
    const ast_expr *target = st->as.assign.targets.items[0];
    if (target->kind != EXPR_NAME)
      session_fail(s, &st->at, "expected a field's name");
    elems[n] = resolve_type(s, r, st->as.assign.type);
    fields[n++] = keep_text(s, r->program, target->as.name);
    if (!st->as.assign.value &&
        n_defaults) /* defaults are kept without their fields: the last ones' */
      session_fail(s, &st->at, "non-default argument '%s' follows default argument", fields[n - 1]);
    if (!st->as.assign.value)
      continue;
    rush_value v = value_retain(em_constant_of_type(s, r, st->as.assign.value, elems[n - 1]));
    program_keep_steal(s, r->program, v);
    defaults[n_defaults++] = v;
  }
  finish_tuple(s, t, elems, fields, n);
  t->defaults = n_defaults ? defaults : NULL;
  t->n_defaults = n_defaults;
  return t;
}
