/* script/emit/modules.c -- modules that contain modules, as values: iterated over and indexed at
 * compile time.
 *
 * The content of a ModuleList, a ModuleDict or a list of parameters is known from its type, so
 * loops over them are unrolled and keys are looked up here.  Only an index with an interface type
 * is left to run time. */
#include <string.h>

#include "base/grow.h"
#include "script/emit/emit_int.h"

/* True for a module's class, or a module interface. */
static bool is_module_type(const type *t)
{
  return (t->kind == TYPE_CLASS && t->cls && t->cls->is_module) ||
         (t->kind == TYPE_INTERFACE && t->cls && t->cls->is_module_interface);
}

static sugared text_constant(emitter *e, const char *text)
{
  return sugar_value(em_constant_str(e, text, strlen(text)));
}

static bool holds(const class_attr *a, uint8_t container)
{
  return container >= CONTAINER_PARAMETER_LIST ? a->is_parameter : is_module_type(a->type);
}

/* -- Contents of a module ---------------------------------------------------------------------- */

typedef struct members {
  const char **names;
  sugared *values;
  uint32_t n, cap;
} members;

static void add_member(emitter *e, members *m, const char *name, sugared v)
{
  uint32_t cap = m->cap;
  GROW(e->s, m->names, m->n, cap, 8);
  GROW(e->s, m->values, m->n, m->cap, 8);
  m->names[m->n] = name;
  m->values[m->n++] = v;
}

static members direct_members(emitter *e, ir_value *v, bool buffers)
{
  const class_info *c = v->type->cls;
  sugared base = sugar_value(v);
  members out = {0};
  for (uint32_t i = 0; i < c->n_attrs; i++)
    if (buffers ? c->attrs[i].is_buffer : holds(&c->attrs[i], c->container))
      add_member(e, &out, c->attrs[i].name, em_get_attr(e, &base, c->attrs[i].name));
  return out;
}

/* Collect v and all modules below it, in the order of named_modules(). */
static void all_modules(emitter *e, ir_value *v, const char *prefix, members *out)
{
  const class_info *c = v->type->cls;
  sugared base = sugar_value(v);
  session_enter(e->s);
  add_member(e, out, prefix, base);
  for (uint32_t i = 0; v->type->kind == TYPE_CLASS && i < c->n_attrs; i++) {
    if (!is_module_type(c->attrs[i].type))
      continue;
    sugared child = em_get_attr(e, &base, c->attrs[i].name);
    all_modules(e, child.as.value,
                session_printf(e->s, "%s%s%s", prefix, *prefix ? "." : "", c->attrs[i].name), out);
  }
  session_leave(e->s);
}

static sugared tuple_of(sugared *items, uint32_t n)
{
  return (sugared){.kind = SUGAR_TUPLE, .as.items = {items, n}};
}

static sugared names_of(emitter *e, const members *m)
{
  sugared *items = session_array(e->s, sugared, m->n);
  for (uint32_t i = 0; i < m->n; i++)
    items[i] = text_constant(e, m->names[i]);
  return tuple_of(items, m->n);
}

static sugared pairs_of(emitter *e, const members *m)
{
  sugared names = names_of(e, m), *items = session_array(e->s, sugared, m->n);
  for (uint32_t i = 0; i < m->n; i++) {
    sugared *pair = session_array(e->s, sugared, 2);
    pair[0] = names.as.items.items[i];
    pair[1] = m->values[i];
    items[i] = tuple_of(pair, 2);
  }
  return tuple_of(items, m->n);
}

/* -- Attributes -------------------------------------------------------------------------------- */

static const char *const views[] = {"items",          "keys",          "values", /* of dicts */
                                    "modules",        "named_modules", "children",
                                    "named_children", "named_buffers"};

bool em_module_attr(emitter *e, ir_value *v, const char *name, sugared *out, const char **why)
{
  for (size_t i = v->type->cls->container == CONTAINER_DICT ? 0 : 3; i < COUNT_OF(views); i++) {
    if (strcmp(views[i], name) == 0) {
      *out = (sugared){.kind = SUGAR_MODULE_VIEW, .as.builtin = {views[i], v, NULL}};
      return true;
    }
  }
  *why = NULL;
  return e->names->member && v->type->cls->object &&
         e->names->member(e->s, e->names, v, name, e->at, out, why);
}

sugared em_module_view(emitter *e, const sugared *view, const call_args *a)
{
  const char *name = view->as.builtin.name;
  ir_value *v = view->as.builtin.self;
  members m = {0};
  if (a->n + a->n_kwargs)
    FAIL(e, "%s() takes no arguments here", name);
  if (strstr(name, "modules"))
    all_modules(e, v, "", &m);
  else
    m = direct_members(e, v, strcmp(name, "named_buffers") == 0);
  if (strcmp(name, "keys") == 0)
    return names_of(e, &m);
  return strcmp(name, "items") == 0 || strncmp(name, "named_", 6) == 0 ? pairs_of(e, &m)
                                                                       : tuple_of(m.values, m.n);
}

/* -- Iteration and indices --------------------------------------------------------------------- */

static bool has_numbers(const class_info *c) /* archives do not contain a module's kind */
{
  return c->n_attrs && class_attr_index(c->type, STR("0")) >= 0;
}

sugared em_module_items(emitter *e, ir_value *v)
{
  const class_info *c = v->type->cls;
  if (c->container == CONTAINER_NONE && (c->object || !has_numbers(c)))
    FAIL(e, "Only constant Sequential, ModuleList, ModuleDict, or ParameterList can be used as an "
            "iterable");
  members m = direct_members(e, v, false);
  bool dict = c->container == CONTAINER_DICT || c->container == CONTAINER_PARAMETER_DICT;
  return dict ? names_of(e, &m) : tuple_of(m.values, m.n);
}

ir_value *em_module_tuple(emitter *e, ir_value *v)
{
  sugared items = em_module_items(e, v);
  return em_as_value(e, &items);
}

/* True if an attribute of this type may hold an object: the key, known only at run time, may name
 * any attribute. */
static bool may_be_object(const type *t)
{
  switch ((int)t->kind) {
  case TYPE_CLASS: case TYPE_INTERFACE: case TYPE_ANY: case TYPE_ANY_CLASS:
    return true;
  case TYPE_OPTIONAL: case TYPE_UNION:
    for (uint32_t i = 0; i < t->n_elems; i++)
      if (may_be_object(t->elems[i]))
        return true;
    return false;
  default:
    return false;
  }
}

static sugared index_by_interface(emitter *e, ir_value *v, ir_value *index, const type *hint)
{
  const class_info *c = v->type->cls;
  for (uint32_t i = 0; i < c->n_attrs; i++)
    if (may_be_object(c->attrs[i].type) && !em_is_subtype(e, c->attrs[i].type, hint))
      FAIL(e, "Attribute %s is not of annotated type %s: %s", c->attrs[i].name, TYPE_TEXT(e, hint),
           em_interface_reason(e, c->attrs[i].type, hint) + 1);
  ir_value *in[2] = {v, index};
  return sugar_value(em_put_node(e, IR_MODULE_CONTAINER_INDEX, in, 2, hint));
}

static sugared index_list(emitter *e, ir_value *v, ir_value *index)
{
  members m = direct_members(e, v, false);
  rush_value at;
  if (!ir_value_as_constant(index, &at) || at.tag != RUSH_TAG_INT)
    FAIL(e, "Expected integer literal for index but got a variable or non-integer. "
            "ModuleList/Sequential indexing is only supported "
            "with integer literals. For example, 'i = 4; self.layers[i](x)' will fail because i is "
            "not a literal. Enumeration is "
            "supported, e.g. 'for index, v in enumerate(self): out = v(inp)'");
  int64_t i = at.as.i < 0 ? at.as.i + m.n : at.as.i;
  if (i < 0 || i >= m.n)
    FAIL(e, "Index %lld out of range of length %u", (long long)at.as.i, m.n);
  return m.values[i];
}

static sugared index_dict(emitter *e, ir_value *v, ir_value *index)
{
  members m = direct_members(e, v, false);
  rush_value at;
  if (!ir_value_as_constant(index, &at) || at.tag != RUSH_TAG_STRING)
    FAIL(e, "Unable to extract string literal index. ModuleDict indexing is only supported with "
            "string literals. For example, "
            "'i = \"a\"; self.layers[i](x)' will fail because i is not a literal. Enumeration of "
            "ModuleDict is supported, e.g. "
            "'for k, v in self.items(): out = v(inp)'");
  const char *key = at.as.string->text;
  for (uint32_t i = 0; i < m.n; i++)
    if (strcmp(m.names[i], key) == 0)
      return m.values[i];
  FAIL(e, "Key Error, %s", key);
}

sugared em_index_module(emitter *e, ir_value *v, const ast_expr *x, const type *hint)
{
  uint8_t kind = v->type->cls->container;
  if (kind == CONTAINER_NONE && !v->type->cls->object && has_numbers(v->type->cls))
    kind = CONTAINER_LIST;
  bool of_archive =
    kind == CONTAINER_NONE && !v->type->cls->object && hint && hint->kind == TYPE_INTERFACE;
  if (kind == CONTAINER_NONE && !of_archive)
    FAIL(e, "Only ModuleList, Sequential, ModuleDict, ParameterList, and ParameterDict Modules are "
            "subscriptable");
  ir_value *index = em_expr(e, x, NULL);
  bool list = kind == CONTAINER_LIST || kind == CONTAINER_PARAMETER_LIST;
  if (hint && hint->kind == TYPE_INTERFACE && kind <= CONTAINER_DICT)
    return index_by_interface(e, v, index, hint);
  return list ? index_list(e, v, index) : index_dict(e, v, index);
}
