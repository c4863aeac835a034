/* script/emit/sugar.c -- attributes of sugared values, unpacking, and turning them into graph
 * values. A lookup tries what the value's type defines, in PyTorch's order, and then its methods;
 * the error for an unknown name suggests similar names. Lookups of torch paths are cached, since
 * the same path occurs on many lines. */
#include <string.h>

#include "script/emit/emit_int.h"
#include "ops/call/lookup.h"

const char *em_sugar_name(emitter *e, const sugared *v)
{
  switch (v->kind) {
  case SUGAR_VALUE:
    return session_printf(e->s, "value of type '%s'", TYPE_TEXT(e, v->as.value->type));
  case SUGAR_CAST: { /* Python's magic method of that name */
    const char *op = v->as.builtin.name + 6;
    return session_printf(e->s, "__%c%s__", op[0] | 0x20, op + 1);
  }
  case SUGAR_BUILTIN: case SUGAR_TENSOR_CAST:
    return v->kind == SUGAR_BUILTIN && strcmp(v->as.builtin.name, "aten::len") == 0 ? "__len__"
                                                                                    : "builtin";
  case SUGAR_SPECIAL:
    return v->as.special == SPECIAL_PRINT ? "print" : "special form";
  case SUGAR_TENSOR_TYPE:
    return "LegacyTypedConstructor";
  case SUGAR_FUNCTION:
    return "function";
  case SUGAR_METHOD:
    return "method";
  case SUGAR_ENUM:
    return "EnumClass";
  case SUGAR_CLASS:
    return e->names->is_live ? "Python type" : session_printf(e->s, "class '%s'", v->as.type->name);
  case SUGAR_NAMED_TUPLE:
    return session_printf(e->s, "class '%s'", v->as.type->name);
  case SUGAR_EXCEPTION:
    return "exception";
  case SUGAR_RAISED:
    return "exception message";
  case SUGAR_NAMESPACE: case SUGAR_OPS: case SUGAR_TORCH: case SUGAR_SPACE:
    return "module";
  case SUGAR_CONSTANTS: case SUGAR_CONSTANT:
    return "constant";
  case SUGAR_TYPE:
    return "type";
  case SUGAR_PYTHON_VALUE:
    return session_printf(e->s, "python value of type '%s'", v->as.name);
  case SUGAR_TUPLE:
    return "tuple";
  case SUGAR_RANGE:
    return "range";
  case SUGAR_SLICE:
    return "Python slice value";
  case SUGAR_ITERATION:
    return "iterabletree";
  case SUGAR_CLOSURE:
    return "closure";
  case SUGAR_MODULE_VIEW:
    return "method";
  case SUGAR_HOST_OBJECT:
    return session_printf(e->s, "python value of type '%s'", v->as.thing.name);
  case SUGAR_HOST_CALL:
    return "python function";
  case SUGAR_OVERLOADS: case SUGAR_DISPATCH:
    return "function";
  }
  return "value";
}

static ir_value *items_as_tuple(emitter *e, const sugared *v)
{
  ir_value **items = session_array(e->s, ir_value *, v->as.items.n);
  for (uint32_t i = 0; i < v->as.items.n; i++)
    items[i] = em_as_value(e, &v->as.items.items[i]);
  return em_make_tuple(e, items, v->as.items.n, NULL);
}

ir_value *em_as_value(emitter *e, const sugared *v)
{
  if (v->kind == SUGAR_VALUE)
    return v->as.value;
  if (v->kind == SUGAR_TUPLE)
    return items_as_tuple(e, v);
  if (v->kind == SUGAR_CONSTANT && v->as.constant.is_global)
    FAIL(e,
         "python value of type '%s' cannot be used as a value. Perhaps it is a closed over global "
         "variable? If so, please "
         "consider passing it in as an argument or use a local variable instead. (`name: Final = "
         "...` declares a constant)",
         v->as.constant.type->kind == TYPE_TUPLE ? "tuple" : TYPE_TEXT(e, v->as.constant.type));
  if (v->kind == SUGAR_PYTHON_VALUE)
    FAIL(e,
         "%s cannot be used as a value. Perhaps it is a closed over global variable? If so, please "
         "consider passing it in as an "
         "argument or use a local variable instead.",
         em_sugar_name(e, v));
  if (v->kind == SUGAR_CONSTANT)
    return em_constant_value(e, v->as.constant.value, v->as.constant.type);
  if (v->kind == SUGAR_EXCEPTION)
    FAIL(e, "Python exception cannot be used as a value");
  FAIL(e, "%s cannot be used as a value%s", em_sugar_name(e, v),
       v->kind == SUGAR_HOST_OBJECT ? ". Perhaps it is a closed over global variable? If so, "
                                      "please consider passing it in as an argument "
                                      "or use a local variable instead."
                                    : "");
}

/* -- Attributes of values ---------------------------------------------------------------------- */

bool em_one_of(const char *name, const char *const *names, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (text_same(names[i], name))
      return true;
  return false;
}

static bool tensor_attr(emitter *e, ir_value *v, const char *name, sugared *out)
{
  const str property = op_of_property(str_of(name));
  if (property.len) {
    *out = sugar_value(em_call_op(e, session_strndup(e->s, property.p, property.len), &v, 1));
    return true;
  }
  if (strcmp(name, "tolist") == 0) {
    *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {"prim::tolist", v, NULL}};
    return true;
  }
  if (em_cast_dtype(name) >= 0) {
    *out = (sugared){.kind = SUGAR_TENSOR_CAST, .as.builtin = {name, v, NULL}};
    return true;
  }
  return false;
}

static bool field_attr(emitter *e, ir_value *v, const char *name, sugared *out)
{
  const type *t = v->type;
  for (uint32_t i = 0; t->fields && i < t->n_elems; i++) {
    if (strcmp(t->fields[i], name) != 0)
      continue;
    ir_value *in[2] = {v, em_constant_int(e, i)};
    *out = sugar_value(em_put_node(e, IR_TUPLE_INDEX, in, 2, t->elems[i]));
    return true;
  }
  return false;
}

static ir_value *get_slot(emitter *e, ir_value *v, const class_attr *a)
{
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_GET_ATTR, &v, 1));
  ir_attr_set_string(e->s, n, "name", a->name);
  ir_value *out = ir_node_add_output(e->s, n, a->type);
  bool number = a->name[0] && strspn(a->name, "0123456789") == strlen(a->name);
  ir_value_set_name(e->s, out, number ? session_printf(e->s, "_%s", a->name) : a->name);
  return out;
}

bool em_find_method(const type *t, const char *name, function **out)
{
  if ((t->kind != TYPE_CLASS && t->kind != TYPE_INTERFACE) || !t->cls)
    return false;
  *out = class_find_method(t, name);
  return *out != NULL;
}

static bool class_attr_of(emitter *e, ir_value *v, const char *name, sugared *out)
{
  const type *t = v->type;
  class_complete(e->s, t);
  int slot = class_attr_index(t, str_of(name));
  if (slot >= 0) {
    *out = sugar_value(get_slot(e, v, &t->cls->attrs[slot]));
    return true;
  }
  function *f;
  if (em_find_method(t, name, &f)) {
    *out = (sugared){.kind = SUGAR_METHOD, .as.method = {v, f}};
    if (f->is_static && t->cls->is_open)
      return false; /* PyTorch finds a script class' static methods only through the class */
    if (f->is_static)
      *out = (sugared){.kind = SUGAR_FUNCTION, .as.function = f};
    return true;
  }
  const class_attr *c = class_constant(t, str_of(name));
  if (c) {
    *out = sugar_value(em_constant_value(e, c->constant, c->type));
    return true;
  }
  for (uint32_t i = 0; t->cls && i < t->cls->n_properties; i++) {
    if (strcmp(t->cls->properties[i].name, name) == 0) {
      call_args none = {0};
      *out = sugar_value(em_call_function(e, t->cls->properties[i].getter, v, &none));
      return true;
    }
  }
  const char *why;
  if (t->cls && t->cls->is_module)
    return em_module_attr(e, v, name, out, &why);
  sugared base = sugar_value(v);
  return e->names->class_attr && e->names->class_attr(e->s, e->names, &base, name, e->at, out);
}

static bool enum_attr(emitter *e, ir_value *v, const char *name, sugared *out)
{
  bool value = strcmp(name, "value") == 0;
  if (!value && strcmp(name, "name") != 0)
    return false;
  const type *t = value ? v->type->elems[0] : type_simple(TYPE_STRING);
  const char *overload = !value                ? ""
                         : t->kind == TYPE_INT   ? "int"
                         : t->kind == TYPE_FLOAT ? "float"
                                                 : "str";
  const op *o =
    session_op_find(e->s, value ? STR("prim::EnumValue") : STR("prim::EnumName"), str_of(overload));
  if (!o)
    FAIL(e, "enum members have no attribute %s here", name);
  ir_node *n = em_put(e, ir_node_new_op(e->s, e->g, o, &v, 1));
  n->outputs[0]->type = t;
  *out = sugar_value(n->outputs[0]);
  return true;
}

static bool method_attr(emitter *e, ir_value *v, const char *name, sugared *out)
{
  const char *op = session_printf(e->s, "aten::%s", strcmp(name, "type") == 0 ? "to" : name);
  if (!em_has_method(e, op, v->type))
    return false;
  *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {op, v, NULL}};
  return true;
}

static bool value_attr(emitter *e, ir_value *v, const char *name, sugared *out)
{
  switch ((int)v->type->kind) {
  case TYPE_TENSOR:
    if (tensor_attr(e, v, name, out))
      return true;
    break;
  case TYPE_TUPLE:
    if (field_attr(e, v, name, out))
      return true;
    break;
  case TYPE_CLASS: case TYPE_INTERFACE:
    return class_attr_of(e, v, name, out);
  case TYPE_ENUM:
    return enum_attr(e, v, name, out);
  case TYPE_AWAIT: { /* waited for when its result's attributes are wanted */
    sugared result = sugar_value(em_call_op(e, "prim::awaitable_wait", &v, 1));
    return em_try_get_attr(e, &result, name, out);
  }
  case TYPE_DEVICE:
    if (strcmp(name, "type") == 0 || strcmp(name, "index") == 0) {
      *out = sugar_value(em_call_op(e, session_printf(e->s, "prim::%s", name), &v, 1));
      return true;
    }
    break;
  }
  return method_attr(e, v, name, out);
}

/* -- Attributes of what exists at compile time ------------------------------------------------- */

static const type *constant_type(emitter *e, rush_value v)
{
  const type *t = type_of_value(&e->p->types, v);
  if (!t)
    session_check(e->s, call_nomem(e->s->cx));
  return t;
}

static bool constants_attr(emitter *e, const char *name, sugared *out)
{
  uint64_t i = 0;
  const char *p = name + 1;
  for (; *p >= '0' && *p <= '9' && i < UINT32_MAX; p++)
    i = i * 10 + (uint64_t)(*p - '0');
  if (name[0] != 'c' || *p || i >= e->p->n_constants)
    return false;
  *out =
    sugar_value(em_constant_value(e, e->p->constants[i], constant_type(e, e->p->constants[i])));
  return true;
}

static function *find_hook(const type *t, const char *name)
{
  const class_info *c = t->cls;
  for (uint32_t i = 0; c && i < c->n_pre_hooks; i++)
    if (strcmp(c->forward_pre_hooks[i]->name, name) == 0)
      return c->forward_pre_hooks[i];
  for (uint32_t i = 0; c && i < c->n_hooks; i++)
    if (strcmp(c->forward_hooks[i]->name, name) == 0)
      return c->forward_hooks[i];
  return NULL;
}

static bool class_object_attr(emitter *e, const type *t, const char *name, sugared *out)
{
  class_complete(e->s, t);
  function *f = find_hook(t, name);
  if (strcmp(name, "__new__") == 0) {
    *out = (sugared){.kind = SUGAR_SPECIAL, .as.special = SPECIAL_CREATE_OBJECT};
    return true;
  }
  if (!f && (!em_find_method(t, name, &f) || f->is_class_method))
    return false;
  *out = (sugared){.kind = SUGAR_FUNCTION, .as.function = f};
  return true;
}

static bool enum_member(emitter *e, const type *t, const char *name, sugared *out)
{
  class_complete(e->s, t);
  const class_info *c = t->cls;
  for (uint32_t i = 0; c && i < c->n_members; i++) {
    if (strcmp(c->enum_names[i], name) == 0) {
      *out = sugar_value(em_constant_value(e, c->enum_members[i], t));
      return true;
    }
  }
  return false;
}

/* Look up torch.relu, with a cache: the same path may be used on every line. */
static bool torch_attr(emitter *e, const sugared *base, const char *name, sugared *out)
{
  size_t slot = ((unsigned char)name[0] * 5u + strlen(name)) % COUNT_OF(e->memo->torch);
  if (e->memo->torch[slot].base == base->as.name && strcmp(e->memo->torch[slot].name, name) == 0) {
    *out = e->memo->torch[slot].found;
    return true;
  }
  if (!(e->names->attr && e->names->attr(e->s, e->names, base, name, e->at, out)) &&
      !resolve_torch_attr(e->s, e->p, base->as.name, name, out))
    return false;
  e->memo->torch[slot].base = base->as.name;
  e->memo->torch[slot].name = name;
  e->memo->torch[slot].found = *out;
  return true;
}

bool em_try_get_attr(emitter *e, const sugared *base, const char *name, sugared *out)
{
  switch (base->kind) {
  case SUGAR_VALUE:
    return value_attr(e, base->as.value, name, out);
  case SUGAR_NAMESPACE: {
    if (strcmp(name, "autograd") == 0 &&
        strcmp(base->as.name, "aten") == 0) { /* archives: torch.autograd.grad */
      *out = *base;
      return true;
    }
    const char *op = session_printf(e->s, "%s::%s", base->as.name, name);
    *out = (sugared){.kind = SUGAR_BUILTIN, .as.builtin = {op, NULL, NULL}};
    return true;
  }
  case SUGAR_OPS:
    *out = (sugared){.kind = SUGAR_NAMESPACE, .as.name = name};
    return true;
  case SUGAR_CONSTANTS:
    return constants_attr(e, name, out);
  case SUGAR_SPACE: case SUGAR_HOST_OBJECT:
    return e->names->attr(e->s, e->names, base, name, e->at, out);
  case SUGAR_TORCH:
    return torch_attr(e, base, name, out);
  case SUGAR_CLASS:
    return class_object_attr(e, base->as.type, name, out) ||
           (e->names->class_attr && e->names->class_attr(e->s, e->names, base, name, e->at, out));
  case SUGAR_ENUM:
    return enum_member(e, base->as.type, name, out);
  case SUGAR_CONSTANT:
    return !base->as.constant.is_global && value_attr(e, em_as_value(e, base), name, out);
  default:
    return false;
  }
}

static _Noreturn void no_module_attr(emitter *e, ir_value *v, const char *name)
{
  const char *why = NULL, *dot = strrchr(v->type->name, '.');
  sugared out;
  em_module_attr(e, v, name, &out, &why);
  FAIL(e, "Module '%s' has no attribute '%s' %s", dot ? dot + 1 : v->type->name, name,
       why ? why : "");
}

/* True if v is a parameter without an annotation, which counts as a Tensor. */
static bool is_inferred(const emitter *e, const ir_value *v)
{
  const schema *sc = e->f->schema;
  int i =
    v->node->kind == IR_LOAD ? schema_arg_index(sc, str_of(ir_attr_string(v->node, "name"))) : -1;
  for (uint32_t k = 0; i < 0 && k < sc->n_args && k < ir_block_n_inputs(e->g->block); k++)
    if (ir_block_input(e->g->block, k) == v)
      i = (int)k;
  return i >= 0 && sc->args[i].is_inferred;
}

const char *em_type_of(emitter *e, const ir_value *v)
{
  return is_tensor(v->type) && is_inferred(e, v) ? "Tensor (inferred)" : TYPE_TEXT(e, v->type);
}

/* Return " Did you mean relu, prelu?": operators (methods of `self`, unless it is NULL), or
 * nothing. */
static const char *meant(emitter *e, const char *name, const type *self)
{
  str near[16];
  uint32_t n = op_similar(str_of(session_printf(e->s, "aten::%s", name)), near, COUNT_OF(near)),
           n_suggested = 0;
  const char *suggestions = "";
  for (uint32_t i = 0; i < n && n_suggested < 3; i++) {
    const char *op = session_strndup(e->s, near[i].p, near[i].len);
    if (strncmp(op, "aten::", 6) != 0 || op[6] == '_' || (self && !em_has_method(e, op, self)))
      continue;
    suggestions = session_printf(e->s, "%s%s%s", suggestions, n_suggested++ ? ", " : "", op + 6);
  }
  return n_suggested
           ? session_printf(e->s, "%s Did you mean %s?", self ? "" : ".", suggestions)
           : "";
}

sugared em_get_attr(emitter *e, const sugared *base, const char *name)
{
  sugared out;
  if (em_try_get_attr(e, base, name, &out))
    return out;
  if (base->kind == SUGAR_PYTHON_VALUE || base->kind == SUGAR_EXCEPTION ||
      base->kind == SUGAR_SLICE)
    FAIL(e, "attribute lookup is not defined on %s",
         base->kind == SUGAR_EXCEPTION ? "exception message" : em_sugar_name(e, base));
  if (base->kind == SUGAR_CLASS && e->names->is_live)
    FAIL(e, "Tried to lookup unknown attribute on class %s", TYPE_TEXT(e, base->as.type));
  if (base->kind == SUGAR_ENUM)
    FAIL(e, "%s' has no attribute '%s'", TYPE_TEXT(e, base->as.type),
         name); /* PyTorch's text lacks the first quote */
  if (base->kind == SUGAR_VALUE) {
    const type *t = base->as.value->type;
    if (t->kind == TYPE_CLASS && t->cls && t->cls->is_module)
      no_module_attr(e, base->as.value, name);
    if (em_is_optional_like(t))
      FAIL(e,
           "'%s' object has no attribute or method '%s'. Check that it is not None first: that "
           "refines it",
           TYPE_TEXT(e, t), name);
    if (t->kind == TYPE_CLASS)
      FAIL(e,
           "'%s' object has no attribute or method '%s'. Did you forget to initialize an attribute "
           "in __init__()?",
           TYPE_TEXT(e, t), name);
    FAIL(e, "'%s' object has no attribute or method '%s'.%s", em_type_of(e, base->as.value), name,
         meant(e, name, t));
  }
  if (base->kind == SUGAR_HOST_OBJECT && strcmp(base->as.thing.name, "module") != 0)
    FAIL(e, "attribute lookup is not defined on %s", em_sugar_name(e, base));
  FAIL(e,
       base->kind == SUGAR_TORCH || base->kind == SUGAR_HOST_OBJECT
         ? "object has no attribute %.0s%s%s"
         : "%s has no attribute '%s'%s",
       em_sugar_name(e, base), name,
       base->kind == SUGAR_TORCH && strncmp(base->as.name, "torch", 5) == 0 ? meant(e, name, NULL)
                                                                            : "");
}

static bool holds_class(const type *t, const type *cls)
{
  bool holds = t == cls;
  for (uint32_t i = 0; !holds && i < t->n_elems; i++)
    holds = holds_class(t->elems[i], cls);
  return holds;
}

void em_set_attr(emitter *e, ir_value *object, const char *name, ir_value *v)
{
  const type *t = object->type;
  if (t->kind != TYPE_CLASS)
    FAIL(e, "Tried to set an attribute: %s on a non-class: %s", name, em_type_of(e, object));
  class_complete(e->s, t);
  int slot = class_attr_index(t, str_of(name));
  for (uint32_t i = 0; slot < 0 && i < t->cls->n_properties; i++) {
    if (strcmp(t->cls->properties[i].name, name) == 0) {
      if (!t->cls->properties[i].setter)
        FAIL(e, "Tried to set read-only attribute: %s", name);
      call_args a = {.args = &v, .n = 1};
      em_call_function(e, t->cls->properties[i].setter, object, &a);
      return;
    }
  }
  if (slot < 0 && t->cls->is_open && e->f->self == t && strcmp(e->f->name, "__init__") == 0) {
    if (e->frame->parent)
      FAIL(e, "First assignment cannot be in a control-flow block. Initialize the field at the top "
              "level first");
    if (e->names->is_live && holds_class(v->type, t))
      FAIL(e,
           "Assignment to attribute '%s' cannot be of a type that contains class '%s'.\n"
           "Classes that recursively contain instances of themselves are not yet supported",
           name, TYPE_TEXT(e, t));
    slot = (int)class_add_attr(e->s, t, name, v->type);
  }
  if (slot < 0)
    FAIL(e,
         "Tried to set nonexistent attribute: %s. Did you forget to initialize it in __init__()?",
         name);
  const type *want = t->cls->attrs[slot].type;
  if (!e->names->is_eager) /* PyTorch takes the value as it is */
    v = em_convert(e, want, v, true);
  if (!em_is_subtype(e, v->type, want))
    FAIL(e, "Wrong type for attribute assignment. Expected %s but got %s", TYPE_TEXT(e, want),
         em_type_of(e, v));
  ir_value *in[2] = {object, v};
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_SET_ATTR, in, 2));
  ir_attr_set_string(e->s, n, "name", name);
}

/* -- Unpacking --------------------------------------------------------------------------------- */

static uint32_t value_items(emitter *e, ir_value *v, uint32_t n, sugared **out)
{
  em_unpack_unknown(e, v, n);
  const type *t = v->type;
  bool tuple = t->kind == TYPE_TUPLE;
  if (!tuple && t->kind != TYPE_LIST)
    FAIL(e, "%s cannot be used as a tuple", em_type_of(e, v));
  if (!tuple && n == 0)
    FAIL(e, "cannot statically infer the expected size of a list in this context");
  uint32_t k = tuple ? t->n_elems : n;
  ir_value **items = session_array(e->s, ir_value *, k);
  if (tuple) {
    em_unpack_tuple(e, v, items);
  } else {
    ir_node *node = em_put(e, ir_node_new(e->s, e->g, IR_LIST_UNPACK, &v, 1));
    for (uint32_t i = 0; i < k; i++)
      items[i] = ir_node_add_output(e->s, node, t->elems[0]);
  }
  *out = session_array(e->s, sugared, k);
  for (uint32_t i = 0; i < k; i++)
    (*out)[i] = sugar_value(items[i]);
  return k;
}

uint32_t em_as_items(emitter *e, const sugared *v, uint32_t n, sugared **out)
{
  if (v->kind == SUGAR_TUPLE) {
    *out = v->as.items.items;
    return v->as.items.n;
  }
  return value_items(e, em_as_value(e, v), n, out);
}
