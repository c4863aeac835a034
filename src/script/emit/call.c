/* script/emit/call.c -- compiles calls: arguments first, then the called thing by sugared.kind: a
 * function, method, class, cast, module or an object of the host. Calls by schema go to overload
 * matching; calls without a schema go to special_forms.c. Magic methods are tried before operators,
 * as in Python. Modules are called through their hooks. */
#include <string.h>

#include "script/emit/emit_int.h"
#include "base/grow.h"

/* -- Magic methods ----------------------------------------------------------------------------- */

ir_value *em_call_magic(emitter *e, const char *magic, const char *op, ir_value *const *v,
                        uint32_t n)
{
  function *f;
  if (!magic || n == 0 || v[0]->type->kind != TYPE_CLASS)
    return em_call_op(e, op, v, n);
  class_complete(e->s, v[0]->type);
  if (!em_find_method(v[0]->type, magic, &f))
    FAIL(e,
         "'%s' object has no attribute or method '%s'. Did you forget to initialize an attribute "
         "in __init__()?",
         v[0]->type->name, magic);
  call_args a = {.args = session_array(e->s, ir_value *, n), .n = n - 1};
  memcpy(a.args, v + 1, (n - 1) * sizeof *v);
  return em_call_function(e, f, v[0], &a);
}

/* Compile bool([]) and bool(""), which test the length. */
static ir_value *length_is_positive(emitter *e, ir_value *v)
{
  ir_value *in[2] = {em_call_op(e, "aten::len", &v, 1), NULL};
  in[1] = em_constant_int(e, 0);
  return em_call_op(e, "aten::gt", in, 2);
}

static ir_value *call_cast(emitter *e, const sugared *fn, const call_args *a)
{
  const char *op = fn->as.builtin.name;
  const type *to = fn->as.builtin.type;
  if (a->n != 1 || a->n_kwargs)
    return em_call_builtin(e, op, NULL, a);
  ir_value *v = a->args[0];
  type_kind k = v->type->kind;
  if (to && em_is_subtype(e, v->type, to))
    return v;
  if (to && to->kind == TYPE_BOOL && (k == TYPE_LIST || k == TYPE_STRING || k == TYPE_DICT))
    return length_is_positive(e, v);
  if (to && to->kind != TYPE_TENSOR && k == TYPE_CLASS)
    return em_call_magic(e, em_sugar_name(e, fn), op, &v, 1);
  return em_call_builtin(e, op, NULL, a);
}

/* -- Constructors ------------------------------------------------------------------------------ */

static ir_value *construct_object(emitter *e, const type *t, const call_args *a)
{
  class_complete(e->s, t);
  function *init;
  if (t->kind != TYPE_CLASS)
    FAIL(e, "'%s' is an interface: it has no objects of its own", t->name);
  ir_value *v = em_put_node(e, IR_CREATE_OBJECT, NULL, 0, t);
  bool has_init = em_find_method(t, "__init__", &init);
  for (uint32_t i = 0; !has_init && e->names->is_live && i < t->cls->n_methods; i++)
    function_ensure(e->s, t->cls->methods[i]); /* their errors are reported first */
  if (!has_init)
    FAIL(e, "Class %s does not have an __init__ function defined",
         strrchr(t->name, '.') ? strrchr(t->name, '.') + 1 : t->name);
  em_call_function(e, init, v, a);
  return v;
}

/* Construct a NamedTuple from arguments by position, name and default. */
static ir_value *construct_named_tuple(emitter *e, const type *t, const call_args *a)
{
  schema_arg *args = session_array(e->s, schema_arg, t->n_elems);
  for (uint32_t i = 0; i < t->n_elems; i++) {
    args[i].name = t->fields[i];
    args[i].type = t->elems[i];
    args[i].has_default = i + t->n_defaults >= t->n_elems && t->defaults != NULL;
    if (args[i].has_default)
      args[i].default_value = t->defaults[i + t->n_defaults - t->n_elems];
  }
  const char *dot = strrchr(t->name, '.');
  schema sc = {.name = dot ? dot + 1 : t->name, .overload = "", .n_args = t->n_elems, .args = args};
  return em_make_tuple(e, em_match_schema(e, &sc, NULL, a), t->n_elems, t);
}

/* -- Calls by kind of callee ------------------------------------------------------------------- */

int em_cast_dtype(const char *name)
{
  static const struct { const char *name; int dtype; } rows[] = {
      {"byte", RUSH_UINT8},     {"char", RUSH_INT8},       {"double", RUSH_FLOAT64},
      {"float", RUSH_FLOAT32},  {"cfloat", RUSH_COMPLEX64}, {"cdouble", RUSH_COMPLEX128},
      {"int", RUSH_INT32},      {"long", RUSH_INT64},      {"short", RUSH_INT16},
      {"half", RUSH_FLOAT16},   {"bfloat16", RUSH_BFLOAT16},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (text_same(rows[i].name, name))
      return rows[i].dtype;
  return -1;
}

static ir_value *call_tensor_cast(emitter *e, const sugared *fn, const call_args *a)
{
  if (a->n || a->n_kwargs)
    FAIL(e, "%s() takes no arguments", fn->as.builtin.name);
  ir_value *in[2] = {fn->as.builtin.self, em_constant_int(e, em_cast_dtype(fn->as.builtin.name))};
  return em_call_op(e, "aten::to", in, 2);
}

#define TWO_SCHEMAS                                                                    \
  "Legacy Tensor Constructor only supports two schemas in TorchScript: \n"             \
  "'new(IntArrayRef size, *, Device? device=None)',\n'new(PyObject* data, *, Device? " \
  "device=None)\n'"

/* Compile torch.FloatTensor(2, 3), which is empty with that shape, and torch.FloatTensor(data). The
 * device is ignored. */
static ir_value *call_tensor_type(emitter *e, int dtype, const call_args *a)
{
  uint32_t n_ints = 0;
  if (a->n_kwargs > 1)
    session_fail(e->s, &e->compiling, TWO_SCHEMAS "Got multiple kwargs\n");
  if (a->n_kwargs && strcmp(a->kwargs[0].name, "device") != 0)
    session_fail(e->s, &e->compiling, TWO_SCHEMAS "Got kwarg %s", a->kwargs[0].name);
  for (uint32_t i = 0; i < a->n; i++)
    n_ints += a->args[i]->type->kind == TYPE_INT;
  if (a->n > 1 && n_ints < a->n)
    session_fail(e->s, &e->compiling,
                 TWO_SCHEMAS "Got multiple positional arguments that were not all integers");
  named_value as_type = {"dtype", em_constant_int(e, dtype), e->at};
  ir_value *zero = a->n ? NULL : em_constant_int(e, 0);
  ir_value *what =
    n_ints < a->n ? a->args[0]
                  : em_make_list(e, type_simple(TYPE_INT), zero ? &zero : a->args, zero ? 1 : a->n);
  call_args in = {.args = &what, .n = 1, .kwargs = &as_type, .n_kwargs = 1};
  return em_call_builtin(e, n_ints == a->n ? "aten::empty" : "aten::tensor", NULL, &in);
}

/* Call a module: forward between its hooks, as nn.Module.__call__ does. */
static ir_value *call_module(emitter *e, ir_value *self, function *forward, const call_args *a)
{
  const class_info *c = self->type->cls;
  if (c->n_pre_hooks + c->n_hooks == 0)
    return em_call_function(e, forward, self, a);
  ir_value *inputs = em_make_tuple(e, a->args, a->n, NULL);
  for (uint32_t i = 0; i < c->n_pre_hooks; i++) {
    ir_value *in[2] = {self, inputs};
    call_args hook = {.args = in, .n = 2};
    ir_value *out = em_call_function(e, c->forward_pre_hooks[i], NULL, &hook);
    if (out->type->kind == TYPE_TUPLE)
      inputs = out;
    else if (out->type->kind != TYPE_NONE)
      inputs = em_make_tuple(e, &out, 1, NULL);
  }
  ir_value **items = session_array(e->s, ir_value *, inputs->type->n_elems);
  em_unpack_tuple(e, inputs, items);
  call_args unpacked = {.args = items, .n = inputs->type->n_elems};
  ir_value *result = em_call_function(e, forward, self, &unpacked);
  for (uint32_t i = 0; i < c->n_hooks; i++) {
    ir_value *in[3] = {self, inputs, result};
    call_args hook = {.args = in, .n = 3};
    ir_value *out = em_call_function(e, c->forward_hooks[i], NULL, &hook);
    if (out->type->kind != TYPE_NONE)
      result = out;
  }
  return result;
}

static ir_value *call_value(emitter *e, ir_value *v, const call_args *a)
{
  function *f;
  if (v->type->kind == TYPE_CLASS || v->type->kind == TYPE_INTERFACE) {
    class_complete(e->s, v->type);
    if (em_find_method(v->type, "__call__", &f))
      return em_call_function(e, f, v, a);
    if (em_find_method(v->type, "forward", &f))
      return call_module(e, v, f, a);
    if (v->type->cls->is_module && v->type->cls->object) { /* not compiled yet, or overloaded */
      sugared self = sugar_value(v), fn = em_get_attr(e, &self, "forward");
      if (fn.kind == SUGAR_METHOD)
        return call_module(e, v, fn.as.method.function, a);
      fn = em_call_sugared(e, &fn, a, NULL);
      return em_as_value(e, &fn);
    }
  }
  if (v->type->kind == TYPE_CLASS)
    FAIL(e,
         "'%s' object has no attribute or method '__call__'. Did you forget to initialize an "
         "attribute in __init__()?",
         v->type->name);
  FAIL(e, "cannot call a value of type '%s'", TYPE_TEXT(e, v->type));
}

/* Compile len(object) as object.__len__(), which the class must have.  Other builtins do not call
 * methods of objects, as in PyTorch. */
static bool object_builtin(emitter *e, const sugared *fn, const call_args *a, ir_value **out)
{
  static const char *const asking[] = {"aten::len", "aten::hex", "aten::oct", "aten::round"};
  const char *colon = strrchr(fn->as.builtin.name, ':');
  ir_value *self = a->args[0];
  call_args rest = *a;
  function *f;
  class_complete(e->s, self->type);
  if (!colon || !em_one_of(fn->as.builtin.name, asking, COUNT_OF(asking)))
    return false;
  const char *magic = session_printf(e->s, "__%s__", colon + 1);
  if (!em_find_method(self->type, magic, &f))
    FAIL(e,
         "'%s' object has no attribute or method '%s'. Did you forget to initialize an attribute "
         "in __init__()?",
         self->type->name, magic);
  rest.args++;
  rest.ranges = NULL;
  rest.n--;
  *out = em_call_function(e, f, self, &rest);
  return true;
}

/* Compile a call that the host executes at run time. */
static ir_value *call_host_op(emitter *e, const sugared *fn, const call_args *a)
{
  const op *o = fn->as.host.op;
  bool no_self = fn->as.host.message && o->schema->n_args &&
                 strcmp(o->schema->args[0].name, "self") == 0; /* a method: whatever it is given */
  ir_value **in = no_self ? NULL : em_match_schema(e, o->schema, fn->as.host.self, a);
  if (fn->as.host.message) {
    em_raise_message(e, em_constant_str(e, fn->as.host.message, strlen(fn->as.host.message)), NULL);
    return em_put_node(e, IR_UNINITIALIZED, NULL, 0,
                       o->schema->n_returns ? o->schema->returns[0].type : type_simple(TYPE_NONE));
  }
  ir_node *n = em_put(e, ir_node_new_op(e->s, e->g, o, in, o->schema->n_args));
  return n->n_outputs ? n->outputs[0] : em_constant_none(e);
}

/* Return the function that a constant argument selects. */
static const sugared *dispatched(emitter *e, const sugared *fn, const call_args *a)
{
  const ir_value *chosen = fn->as.dispatch.index < a->n ? a->args[fn->as.dispatch.index] : NULL;
  rush_value v = value_bool(fn->as.dispatch.flag);
  for (uint32_t i = 0; i < a->n_kwargs; i++)
    if (strcmp(a->kwargs[i].name, fn->as.dispatch.name) == 0)
      chosen = a->kwargs[i].value;
  if (chosen && (!ir_value_as_constant(chosen, &v) || v.tag != RUSH_TAG_BOOL))
    FAIL(e, "Keyword argument '%s' for boolean dispatch at position was not constant",
         fn->as.dispatch.name);
  return &fn->as.dispatch.items[v.as.b ? 1 : 0];
}

/* Resolve a call of a host's object with this number of arguments. */
static sugared called_object(emitter *e, const sugared *fn, const call_args *a)
{
  sugared out;
  if (!e->names->called || !e->names->called(e->s, e->names, fn, a->n, e->at, &out))
    FAIL(e, "cannot call a %s", em_sugar_name(e, fn));
  out.as.host.self = fn->as.thing.self;
  return out;
}

sugared em_call_sugared(emitter *e, const sugared *fn, const call_args *a, const type *hint)
{
  sugared called;
  ir_value *out;
  switch (fn->kind) {
  case SUGAR_VALUE:
    return sugar_value(call_value(e, fn->as.value, a));
  case SUGAR_BUILTIN:
    if (a->n && !fn->as.builtin.self && a->args[0]->type->kind == TYPE_CLASS &&
        object_builtin(e, fn, a, &out))
      return sugar_value(out);
    return sugar_value(em_call_builtin(e, fn->as.builtin.name, fn->as.builtin.self, a));
  case SUGAR_MODULE_VIEW:
    return em_module_view(e, fn, a);
  case SUGAR_CAST:
    return sugar_value(call_cast(e, fn, a));
  case SUGAR_TENSOR_CAST:
    return sugar_value(call_tensor_cast(e, fn, a));
  case SUGAR_TENSOR_TYPE:
    return sugar_value(call_tensor_type(e, fn->as.dtype, a));
  case SUGAR_FUNCTION:
    return sugar_value(em_call_function(e, fn->as.function, NULL, a));
  case SUGAR_METHOD:
    return sugar_value(em_call_function(e, fn->as.method.function, fn->as.method.self, a));
  case SUGAR_CLASS:
    return sugar_value(construct_object(e, fn->as.type, a));
  case SUGAR_NAMED_TUPLE:
    return sugar_value(construct_named_tuple(e, fn->as.type, a));
  case SUGAR_HOST_CALL:
    return sugar_value(call_host_op(e, fn, a));
  case SUGAR_OVERLOADS:
    return sugar_value(em_call_overloads(e, fn->as.overloads.functions, fn->as.overloads.n,
                                         fn->as.overloads.self, a));
  case SUGAR_DISPATCH:
    return em_call_sugared(e, dispatched(e, fn, a), a, hint);
  case SUGAR_EXCEPTION:
    return em_raised(e, fn, a->args, a->n);
  case SUGAR_HOST_OBJECT:
    called = called_object(e, fn, a);
    return sugar_value(call_host_op(e, &called, a));
  default:
    FAIL(e, "cannot call a %s", em_sugar_name(e, fn));
  }
}

/* -- Arguments --------------------------------------------------------------------------------- */

static void add_arg(emitter *e, call_args *a, uint32_t *cap, ir_value *v)
{
  GROW(e->s, a->args, a->n, *cap, 8);
  a->args[a->n++] = v;
}

static void emit_args(emitter *e, const ast_expr *x, call_args *a)
{
  uint32_t cap = 0;
  for (uint32_t i = 0; i < x->as.call.args.n; i++) {
    const ast_expr *arg = x->as.call.args.items[i];
    if (arg->kind != EXPR_STARRED) {
      add_arg(e, a, &cap, em_expr(e, arg, NULL));
      continue;
    }
    sugared v = em_sugared(e, arg->as.pair.left, NULL), *items;
    uint32_t n = em_as_items(e, &v, 0, &items);
    for (uint32_t k = 0; k < n; k++)
      add_arg(e, a, &cap, em_as_value(e, &items[k]));
  }
  a->kwargs = session_array(e->s, named_value, x->as.call.n_keywords);
  for (uint32_t i = 0; i < x->as.call.n_keywords; i++) {
    const ast_keyword *k = &x->as.call.keywords[i];
    if (!k->name)
      session_fail(e->s, &k->at, "keyword-arg expansion is not supported");
    a->kwargs[a->n_kwargs++] = (named_value){k->name, em_expr(e, k->value, NULL), k->at};
  }
}

/* Compile ops.prim.RaiseException(message, class): a node of its own. */
static sugared call_raise(emitter *e, const call_args *a)
{
  if (a->n < 1 || a->n > 2 || a->n_kwargs)
    FAIL(e, "RaiseException takes a message and a class name");
  em_raise_message(e, a->args[0], a->n == 2 ? a->args[1] : NULL);
  return sugar_value(em_constant_none(e));
}

sugared em_call(emitter *e, const ast_expr *x, const type *hint)
{
  e->compiling =
    /* a function of a live program is compiled when its name is found, others when they are
     * called */
    x->at;
  sugared fn = em_sugared(e, x->as.call.fn, NULL);
  source_range at = e->at;
  e->at = x->at;
  if (fn.kind == SUGAR_BUILTIN && fn.as.builtin.self &&
      strcmp(fn.as.builtin.name, "prim::tolist") == 0) {
    sugared out = sugar_value(em_tolist(e, fn.as.builtin.self, x, hint));
    e->at = at;
    return out;
  }
  if (fn.kind == SUGAR_SPECIAL) {
    sugared out = em_special(e, fn.as.special, x, hint);
    e->at = at;
    return out;
  }
  call_args a = {0};
  emit_args(e, x, &a);
  e->compiling = x->at;
  e->at =
    x->as.call.fn->at; /* what a traceback marks of a call: the function, without its arguments */
  sugared out;
  if (fn.kind == SUGAR_BUILTIN && strcmp(fn.as.builtin.name, "prim::RaiseException") == 0)
    out = call_raise(e, &a);
  else
    out = em_call_sugared(e, &fn, &a, hint);
  e->at = at;
  return out;
}
