/* export/lower.c -- the nodes of an exported program: arguments to IR values, targets to operators,
 * getitem to results. It makes IR in one pass over the nodes.  Python's operators on symbolic
 * numbers become operators on ints and floats. Every node is checked against its schema, because
 * running code trusts types and a file may pass anything to an operator. Cost: O(nodes and
 * arguments). */
#include "export/lower_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "ops/call/lookup.h"

/* -- Small pieces ------------------------------------------------------------------------------ */

ir_value *lower_constant(lowering *lo, rush_value v_steal, const type *t)
{
  if (value_is_heap(v_steal))
    session_defer_value(lo->s, v_steal); /* the pool takes its own reference */
  ir_node *n = ir_constant_new(lo->s, lo->g, v_steal, t);

  ir_node_append(n, lo->block);
  return n->outputs[0];
}

static const char *type_text(lowering *lo, const type *t)
{
  text_buf *text = session_text(lo->s);

  type_print(text, t);
  return session_take_text(lo->s, text);
}

ir_value *lower_list(lowering *lo, ir_value *const *items, uint32_t n, const type *elem)
{
  for (uint32_t i = 0; i < n; i++)
    if (!type_is_subtype(type_runtime(items[i]->type), elem))
      lower_fail(lo, "item %u of a list of %s is %s", i, type_text(lo, elem),
              type_text(lo, items[i]->type));
  ir_node *node = ir_node_new(lo->s, lo->g, IR_LIST_CONSTRUCT, items, n);
  const type *t = type_list(lo->g->types, elem);

  if (!t)
    session_check(lo->s, call_nomem(lo->s->cx));
  ir_node_append(node, lo->block);
  return ir_node_add_output(lo->s, node, t);
}

/* True if a number is accepted; a Scalar accepts every number: kernels read it by its tag. */
static bool is_number_for(const type *actual, const type *formal)
{
  type_kind k = type_runtime(actual)->kind;
  const type *f = type_runtime(formal->kind == TYPE_OPTIONAL ? type_elem(formal) : formal);

  return type_is(f, TYPE_NUMBER) &&
         (k == TYPE_INT || k == TYPE_FLOAT || k == TYPE_BOOL || k == TYPE_NUMBER);
}

static bool fits_apart_from_numbers(const ir_node *n, const schema *sc)
{
  if (sc->is_vararg || n->n_inputs != sc->n_args)
    return false;
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    schema one = {.name = sc->name, .overload = sc->overload, .n_args = 1, .args = &sc->args[i]};
    ir_use *use = n->inputs[i];
    ir_node alone = {.n_inputs = 1, .inputs = &use};

    if (!ir_node_fits_schema(&alone, &one) && !is_number_for(use->value->type, sc->args[i].type))
      return false;
  }
  return true;
}

/* Check a node's arguments: a file may contain any, and the interpreter trusts types. */
static void check_node(lowering *lo, const ir_node *n)
{
  const schema *sc = n->op->schema;

  if (!ir_node_fits_schema(n, sc) && !fits_apart_from_numbers(n, sc))
    lower_fail(lo, "the arguments of %s%s%s are not of its types",
                        sc->name, sc->overload[0] ? "." : "", sc->overload);
}

void lower_fail(lowering *lo, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const input in = {lo->data->place, {0}};
  input_fail(lo->s, &in, lo->at, "%s", text);
}

/* Check a node of an operator that the file names: its results have types, and no argument accepts
 * any type. */
static void check_named_node(lowering *lo, const ir_node *n)
{
  bool varies = false;

  check_node(lo, n);
  for (uint32_t i = 0; i < n->op->schema->n_args; i++)
    varies |= type_has_vars(n->op->schema->args[i].type);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    varies |= !n->outputs[i]->type || type_has_vars(n->outputs[i]->type);
  if (varies)
    lower_fail(lo, "%s has no place in an exported graph", n->op->schema->name);
}

ir_value *lower_emit(lowering *lo, const char *name, const char *overload, ir_value *const *inputs,
                  uint32_t n)
{
  const op *o = session_op_find(lo->s, str_of(name), str_of(overload));

  if (!o)
    session_fail_status(lo->s, RUSH_EINTERNAL, NULL, NULL, "operator %s.%s is missing", name,
                        overload);
  ir_node *node = ir_node_new_op(lo->s, lo->g, o, inputs, n);
  for (uint32_t i = 0; i < node->n_outputs && n; i++) /* append returns its list */
    if (type_has_vars(node->outputs[i]->type))
      node->outputs[i]->type = inputs[0]->type;
  ir_node_append(node, lo->block);
  check_node(lo, node);
  return node->n_outputs ? node->outputs[0] : NULL;
}

/* -- Arguments --------------------------------------------------------------------------------- */

static bool is_number_value(const ir_value *v)
{
  type_kind k = type_runtime(v->type)->kind;

  return k == TYPE_INT || k == TYPE_FLOAT || k == TYPE_BOOL || k == TYPE_COMPLEX ||
         k == TYPE_NUMBER;
}

/* Convert a number to that kind; a conversion that loses part of it is refused.  For kinds that are
 * no numbers it stays what it is. */
static ir_value *as_number(lowering *lo, ir_value *v, type_kind kind)
{
  static const char *const words[] = {
    [TYPE_INT] = "int", [TYPE_FLOAT] = "float", [TYPE_BOOL] = "bool", [TYPE_NUMBER] = "Scalar"};
  type_kind from = type_runtime(v->type)->kind;
  rush_value c;

  if (from == kind || (kind != TYPE_INT && kind != TYPE_FLOAT && kind != TYPE_BOOL))
    return v;
  if (from == TYPE_FLOAT || from == TYPE_COMPLEX)
    lower_fail(lo, "a float where a %s is expected", words[kind]);
  if (ir_value_as_constant(v, &c)) {
    int64_t i = c.tag == RUSH_TAG_BOOL ? c.as.b : c.as.i;
    return lower_constant(lo,
                       kind == TYPE_INT    ? value_int(i)
                       : kind == TYPE_BOOL ? value_bool(i != 0)
                                           : value_float((double)i),
                       NULL);
  }
  const char *to = kind == TYPE_INT     ? "aten::Int"
                   : kind == TYPE_FLOAT ? "aten::Float"
                                        : "aten::Bool";
  if (kind == TYPE_BOOL && from == TYPE_NUMBER)
    return lower_emit(lo, "aten::ne", "",
                      (ir_value *[]){v, lower_constant(lo, value_int(0), NULL)}, 2);
  return lower_emit(lo, to, words[from], &v, 1);
}

static ir_value *lower_argument(lowering *lo, const fx_arg *a, bool is_operand);

/* Return the value of a node that was lowered before. */
static ir_value *value_of(lowering *lo, const fx_node *n)
{
  ir_value *v = lo->scope->nodes[n->index].v;

  if (!v)
    lower_fail(lo, "'%s' has no value here", n->name);
  return v;
}

static rush_value device_value(const fx_arg *a)
{
  const char *colon = strchr(a->as.text, ':');
  const bool is_cpu =
    strncmp(a->as.text, "cpu", 3) == 0 && (!a->as.text[3] || colon == a->as.text + 3);

  return value_device(is_cpu ? 0 : 1, colon ? atoi(colon + 1) : -1);
}

bool exported_plain(session *s, const fx_arg *a, rush_value *out)
{
  *out = value_none();
  switch (a->kind) {
  case FX_NONE:
    return true;
  case FX_FLOAT:
    *out = value_float(a->as.f);
    return true;
  case FX_BOOL:
    *out = value_bool(a->as.b);
    return true;
  case FX_COMPLEX:
    session_check(s, complex_new(s->cx, a->as.complex[0], a->as.complex[1], out));
    return true;
  case FX_STRING:
  case FX_OPERATOR:
    session_check(s, string_new(s->cx, a->as.text, a->n, out));
    return true;
  case FX_DEVICE:
    *out = device_value(a);
    return true;
  case FX_INT:
  case FX_DTYPE:
  case FX_LAYOUT:
  case FX_MEMORY_FORMAT:
    *out = value_int(a->as.i);
    return true;
  default:
    return false;
  }
}

rush_value lower_plain(lowering *lo, const fx_arg *a)
{
  rush_value v;

  if (!exported_plain(lo->s, a, &v))
    lower_fail(lo, "an argument of this kind is not supported: a dict");
  return v;
}

void lower_raise(lowering *lo, const char *message)
{
  rush_value text, class_name;
  ir_value *in[2];

  session_check(lo->s, string_new(lo->s->cx, message, strlen(message), &text));
  in[0] = lower_constant(lo, text, NULL);
  session_check(lo->s, string_new(lo->s->cx, "NotImplementedError", 19, &class_name));
  in[1] = lower_constant(lo, class_name, NULL);
  ir_node_append(ir_node_new(lo->s, lo->g, IR_RAISE, in, 2), lo->block);
}

ir_value *lower_custom_object(lowering *lo, const char *name)
{
  lower_raise(lo, session_printf(lo->s, "'%.200s' is a custom object: these cannot be run here",
                                 name));
  if (!lo->custom_object)
    lo->custom_object = lower_constant(lo, value_none(), NULL);
  return lo->custom_object;
}

/* Make a constant from a list of plain items of one kind. */
static ir_value *constant_list(lowering *lo, const fx_arg *a, type_kind kind)
{
  rush_list *l;

  session_check(lo->s, list_new(lo->s->cx, type_simple(kind), a->n, &l));
  program_keep_steal(lo->s, lo->program, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < a->n; i++) {
    rush_value v = lower_plain(lo, &a->as.items[i]);
    if (kind == TYPE_FLOAT && v.tag == RUSH_TAG_INT)
      v = value_float((double)v.as.i);
    session_check(lo->s, list_append_steal(lo->s->cx, l, v));
  }
  return lower_constant(lo, value_retain(value_heap_steal(RUSH_TAG_LIST, l)), NULL);
}

static ir_value *tuple_of(lowering *lo, ir_value *const *items, uint32_t n)
{
  const type **types = session_array(lo->s, const type *, n + 1);

  for (uint32_t k = 0; k < n; k++)
    types[k] = items[k]->type;
  const type *t = type_tuple(lo->g->types, types, n);
  if (!t)
    session_check(lo->s, call_nomem(lo->s->cx));
  ir_node *tuple = ir_node_new(lo->s, lo->g, IR_TUPLE_CONSTRUCT, items, n);
  ir_node_append(tuple, lo->block);
  return ir_node_add_output(lo->s, tuple, t);
}

/* Make a list of numbers, some of them symbolic: of floats if one is, of bools if all are. */
static ir_value *number_list(lowering *lo, ir_value **items, uint32_t n)
{
  type_kind kind = TYPE_BOOL;

  for (uint32_t i = 0; i < n; i++) {
    type_kind k = type_runtime(items[i]->type)->kind;
    kind = k == TYPE_FLOAT || kind == TYPE_FLOAT ? TYPE_FLOAT : k == TYPE_BOOL ? kind : TYPE_INT;
  }
  for (uint32_t i = 0; i < n; i++)
    items[i] = as_number(lo, items[i], kind);
  return lower_list(lo, items, n, type_simple(kind));
}

/* Make a list of values: tensors, optional tensors, numbers, lists.  Operands of higher-order
 * operators may be of several types: then the result is a tuple, which no other argument
 * accepts. */
static ir_value *value_list(lowering *lo, ir_value **items, uint32_t n, bool is_operand)
{
  uint32_t n_tensors = 0, n_none = 0, n_numbers = 0;

  for (uint32_t i = 0; i < n; i++) {
    n_tensors += type_is(items[i]->type, TYPE_TENSOR);
    n_none += type_is(items[i]->type, TYPE_NONE);
    n_numbers += is_number_value(items[i]);
  }
  if (n_tensors == n)
    return lower_list(lo, items, n, type_simple(TYPE_TENSOR));
  if (is_operand)
    return tuple_of(lo, items, n);
  if (n_numbers == n)
    return number_list(lo, items, n);
  if (n_tensors + n_none == n) {
    const type *t = type_optional(lo->g->types, type_simple(TYPE_TENSOR));
    if (!t)
      session_check(lo->s, call_nomem(lo->s->cx));
    return lower_list(lo, items, n, t);
  }
  return lower_list(lo, items, n, type_runtime(items[0]->type));
}

static bool is_plain_list(const fx_arg *a, fx_kind kind)
{
  for (uint32_t i = 0; i < a->n; i++)
    if (a->as.items[i].kind != kind)
      return false;
  return true;
}

static ir_value *lower_items(lowering *lo, const fx_arg *a, bool is_operand)
{
  static const struct { fx_kind from; type_kind to; } kinds[] = {{FX_INT, TYPE_INT},
                                                                 {FX_FLOAT, TYPE_FLOAT},
                                                                 {FX_BOOL, TYPE_BOOL},
                                                                 {FX_STRING, TYPE_STRING}};

  for (size_t k = 0; k < COUNT_OF(kinds); k++)
    if (is_plain_list(a, kinds[k].from))
      return constant_list(lo, a, kinds[k].to);
  ir_value **items = session_array(lo->s, ir_value *, a->n);
  for (uint32_t i = 0; i < a->n; i++)
    items[i] = lower_argument(lo, &a->as.items[i], is_operand);
  return value_list(lo, items, a->n, is_operand);
}

static ir_value *lower_argument(lowering *lo, const fx_arg *a, bool is_operand)
{
  ir_value *v;

  if (a->kind == FX_NODE)
    return value_of(lo, a->as.node);
  if (a->kind == FX_LIST || a->kind == FX_TUPLE) {
    session_enter(lo->s);
    v = lower_items(lo, a, is_operand);
    session_leave(lo->s);
    return v;
  }
  if (a->kind == FX_OBJECT)
    return lower_custom_object(lo, a->as.object->name);
  return lower_constant(lo, lower_plain(lo, a),
                        a->kind == FX_DEVICE ? type_simple(TYPE_DEVICE) : NULL);
}

static lower_arg one_argument(lowering *lo, str name, const fx_arg *a, bool is_operand)
{
  lower_arg out = {.name = name, .from = a};

  if (a->kind == FX_NODE && a->as.node->op == FX_GET_ATTR)
    out.graph = fx_graph_subgraph(lo->scope->graph, a->as.node->target);
  if (!out.graph && !(is_operand && a->kind == FX_DICT)) /* hints, options */
    out.value = lower_argument(lo, a, is_operand);
  return out;
}

/* -- Results ----------------------------------------------------------------------------------- */

/* Convert the result of .item(), a Scalar in its schema, to the kind that the file specifies. */
static ir_value *as_said(lowering *lo, const fx_val *val, ir_value *v)
{
  if (!val || !type_is(v->type, TYPE_NUMBER))
    return v;
  return val->kind == FX_VAL_INT     ? as_number(lo, v, TYPE_INT)
         : val->kind == FX_VAL_FLOAT ? as_number(lo, v, TYPE_FLOAT)
         : val->kind == FX_VAL_BOOL  ? as_number(lo, v, TYPE_BOOL)
                                     : v;
}

/* Return a node whose outputs are the n items of a list. */
static ir_node *unpack(lowering *lo, const char *name, ir_value *list, uint32_t n)
{
  if (!list || !type_is(list->type, TYPE_LIST))
    lower_fail(lo, "'%s' does not return a list", name);
  ir_node *made = ir_node_new(lo->s, lo->g, IR_LIST_UNPACK, &list, 1);
  ir_node_append(made, lo->block);
  for (uint32_t i = 0; i < n; i++)
    ir_node_add_output(lo->s, made, type_elem(list->type));
  return made;
}

static void bind_outputs(lowering *lo, const lower_node *n, ir_node *made)
{
  uint32_t count = n->n_results;

  if (count == 1 && made->n_outputs == 0 && !n->is_used)
    return;
  if (n->is_list && made->n_outputs == 1 && type_is(made->outputs[0]->type, TYPE_LIST))
    made = unpack(lo, session_strndup(lo->s, n->target.p, n->target.len), made->outputs[0], count);
  while (count > made->n_outputs && n->vals && !n->vals[count - 1]) /* None of an operator without
                                                                     * results */
    count--;
  for (uint32_t i = 0; i < count && i < made->n_outputs; i++)
    n->results[i] = as_said(lo, n->vals ? n->vals[i] : NULL, made->outputs[i]);
  if (count > made->n_outputs)
    lower_fail(lo, "'%.*s' has %u outputs here and %u in its schema", (int)n->target.len,
               n->target.p, count, made->n_outputs);
}

/* -- Targets ----------------------------------------------------------------------------------- */

/* Our operators for Python's functions on symbolic numbers; sym_op chooses the overload by types.
 * These are no rows of names.py: scripted programs may not call them. */
static const struct sym_target {
  const char *target, *name;
} sym_targets[] = {{"_operator.add", "aten::add"},
                   {"_operator.sub", "aten::sub"},
                   {"_operator.mul", "aten::mul"},
                   {"_operator.floordiv", "aten::floordiv"},
                   {"_operator.mod", "aten::remainder"},
                   {"_operator.truediv", "aten::div"},
                   {"_operator.neg", "aten::neg"},
                   {"_operator.eq", "aten::eq"},
                   {"_operator.ne", "aten::ne"},
                   {"_operator.lt", "aten::lt"},
                   {"_operator.le", "aten::le"},
                   {"_operator.gt", "aten::gt"},
                   {"_operator.ge", "aten::ge"},
                   {"_operator.and_", "aten::__and__"},
                   {"_operator.or_", "aten::__or__"},
                   {"torch.sym_not", "aten::__not__"},
                   {"torch.sym_max", "prim::max"},
                   {"torch.sym_min", "prim::min"},
                   {"torch.sym_float", "aten::Float"},
                   {"torch.sym_int", "aten::Int"},
                   {"math.floor", "aten::floor"},
                   {"math.ceil", "aten::ceil"},
                   {"math.trunc", "aten::Int"},
                   {"torch._sym_sqrt", "aten::sqrt"},
                   {"torch.sym_sqrt", "aten::sqrt"},
                   {"_operator.lshift", "aten::__lshift__"},
                   {"_operator.rshift", "aten::__rshift__"},
                   {"_operator.pow", "aten::pow"},
                   {"builtins.round", "aten::round"},
                   {"torch.sym_sum", "aten::sum"}};

static const char *number_word(const ir_value *v)
{
  switch (v->type->kind) {
  case TYPE_FLOAT:
    return "float";
  case TYPE_BOOL:
    return "bool";
  default:
    return "int";
  }
}

/* Find the overload for the operands' types: "int", "float", "int_float", "int_to_int" for pow. */
static const op *sym_op(lowering *lo, const lower_node *n, const char *name)
{
  const char *a = number_word(n->args[0].value),
             *b = n->n_args > 1 ? number_word(n->args[1].value) : a;
  const op *o = NULL;

  if (strcmp(name, "aten::pow") == 0 && strcmp(a, "int") == 0 && strcmp(b, "int") == 0)
    return session_op_find(lo->s, str_of(name), STR("int_to_int"));
  if (strcmp(a, b) == 0)
    o = session_op_find(lo->s, str_of(name), str_of(a));
  if (!o)
    o = session_op_find(lo->s, str_of(name), str_of(session_printf(lo->s, "%s_%s", a, b)));
  if (!o && n->n_args == 1)
    o = session_op_find(lo->s, str_of(name), STR("Scalar"));
  return o ? o : session_op_find(lo->s, str_of(name), STR(""));
}

/* Lower torch.sym_ite(condition, a, b). */
static void lower_choice(lowering *lo, const lower_node *n)
{
  if (n->n_args != 3 || !n->args[0].value || !n->args[1].value || !n->args[2].value)
    lower_fail(lo, "torch.sym_ite with %u arguments", n->n_args);
  if (!type_is(n->args[0].value->type, TYPE_BOOL) ||
      n->args[1].value->type != n->args[2].value->type)
    lower_fail(lo, "torch.sym_ite of other types");
  ir_node *node = ir_node_new(lo->s, lo->g, IR_IF, &n->args[0].value, 1);
  for (uint32_t i = 1; i <= 2; i++)
    ir_block_add_output(lo->s, ir_node_add_block(lo->s, node), n->args[i].value);
  ir_node_add_output(lo->s, node, n->args[1].value->type);
  ir_node_append(node, lo->block);
  bind_outputs(lo, n, node);
}

/* Lower +n: the value itself. */
static void lower_same(lowering *lo, const lower_node *n)
{
  if (n->n_args < 1 || !n->args[0].value || n->n_results != 1)
    lower_fail(lo, "%.*s of nothing", (int)n->target.len, n->target.p);
  n->results[0] = n->args[0].value;
}

static bool lower_symbolic(lowering *lo, const lower_node *n)
{
  if (str_is(n->target, "torch.sym_ite")) {
    lower_choice(lo, n);
    return true;
  }
  if (str_is(n->target, "_operator.pos") ||
      (str_is(n->target, "torch.sym_int") && n->n_args == 1 && n->args[0].value &&
       type_is(n->args[0].value->type, TYPE_INT))) {
    lower_same(lo, n);
    return true;
  }
  for (size_t i = 0; i < COUNT_OF(sym_targets); i++) {
    if (!str_is(n->target, sym_targets[i].target))
      continue;
    ir_value *in[2];
    if (n->n_args < 1 || n->n_args > 2)
      lower_fail(lo, "'%s' with %u arguments",
                          sym_targets[i].target, n->n_args);
    for (uint32_t k = 0; k < n->n_args; k++)
      if (!(in[k] = n->args[k].value))
        lower_fail(lo, "'%s' of a graph", sym_targets[i].target);
    const op *o = sym_op(lo, n, sym_targets[i].name);
    if (!o)
      return false;
    ir_node *node = ir_node_new_op(lo->s, lo->g, o, in, n->n_args);
    node->range = n->range;
    ir_node_append(node, lo->block);
    check_named_node(lo, node);
    bind_outputs(lo, n, node);
    return true;
  }
  return false;
}

void lower_unknown(lowering *lo, const lower_node *n, str target)
{
  ir_value **in = session_array(lo->s, ir_value *, n->n_args + 1);
  uint32_t n_in = 0;

  for (uint32_t i = 0; i < n->n_args; i++)
    if (n->args[i].value)
      in[n_in++] = n->args[i].value;
  ir_node *node = ir_node_new(lo->s, lo->g, IR_UNKNOWN_OP, in, n_in);

  node->range = n->range;
  ir_attr_set_string(lo->s, node, "_kind",
                     session_printf(lo->s, "%.*s", (int)target.len, target.p));
  for (uint32_t i = 0; i < n->n_results; i++)
    ir_node_add_output(lo->s, node, type_simple(TYPE_TENSOR));
  ir_node_append(node, lo->block);
  bind_outputs(lo, n, node);
}

/* Find the operator of a target, or (`scalar`) of add.Tensor with a number the one for numbers,
 * add.Scalar, in-place ones too; NULL if there is none. */
static const op *find_target(lowering *lo, str target, bool scalar)
{
  const op *o = session_op_of_target(lo->s, target);

  if (!scalar)
    return o;
  if (!o || strcmp(o->schema->overload, "Tensor") != 0)
    return NULL;
  o = session_op_find(lo->s, str_of(o->schema->name), STR("Scalar"));
  return o && op_is_runnable(o) ? o : NULL;
}

/* Convert a number where the schema needs a tensor. */
static ir_value *as_tensor(lowering *lo, ir_value *v)
{
  rush_value number;
  rush_tensor *t;

  if (!ir_value_as_constant(v, &number) || number.tag == RUSH_TAG_NONE)
    return lower_emit(lo, "prim::NumToTensor", v->type->kind == TYPE_BOOL ? "bool" : "Scalar", &v,
                      1);
  int dtype = number.tag == RUSH_TAG_BOOL ? RUSH_BOOL : number.tag == RUSH_TAG_INT ? RUSH_INT64
              : number.tag == RUSH_TAG_FLOAT ? RUSH_FLOAT64 : RUSH_COMPLEX128;
  session_check(lo->s, tensor_from_scalar(lo->s->cx, number, dtype, &t));
  t->h.flags |= TENSOR_WRAPPED_NUMBER;
  return lower_constant(lo, value_tensor_steal(t), type_simple(TYPE_TENSOR));
}

static ir_value *floats_of(lowering *lo, const rush_list *ints)
{
  rush_list *l;

  session_check(lo->s, list_new(lo->s->cx, type_simple(TYPE_FLOAT), ints->n, &l));
  for (size_t i = 0; i < ints->n; i++)
    l->items[l->n++] = value_float((double)ints->items[i].as.i);
  return lower_constant(lo, value_heap_steal(RUSH_TAG_LIST, l), NULL);
}

/* Convert an argument to its type: numbers to tensors or another kind, single numbers to lists. */
static ir_value *convert_argument(lowering *lo, const schema_arg *a, ir_value *v)
{
  const type *t = type_runtime(a->type->kind == TYPE_OPTIONAL ? type_elem(a->type) : a->type);
  const type *elem = t->kind == TYPE_LIST ? type_runtime(type_elem(t)) : NULL;
  rush_value c;

  if (t->kind == TYPE_TENSOR && is_number_value(v))
    return as_tensor(lo, v);
  if ((t->kind == TYPE_INT || t->kind == TYPE_FLOAT || t->kind == TYPE_BOOL) && is_number_value(v))
    return as_number(lo, v, t->kind);
  if (!elem)
    return v;
  if (is_number_value(v))
    return lower_list(lo, (ir_value *[]){as_number(lo, v, elem->kind)}, 1, elem);
  if (v->node->kind != IR_CONSTANT || !ir_value_as_constant(v, &c) || c.tag != RUSH_TAG_LIST)
    return v;
  if (elem->kind == TYPE_FLOAT && c.as.list->elem->kind == TYPE_INT)
    return floats_of(lo, c.as.list);
  return c.as.list->n == 0 && elem->kind != TYPE_INT ? lower_list(lo, NULL, 0, elem) : v;
}

/* Return which argument of the schema argument i is, or -1. */
static int schema_place(const lower_node *n, const schema *sc, uint32_t i)
{
  if (i < n->n_positional)
    return i < sc->n_args ? (int)i : -1;
  return schema_arg_index(sc, n->args[i].name);
}

static bool has_number_for_tensor(const lower_node *n, const schema *sc)
{
  for (uint32_t i = 0; i < n->n_args; i++) {
    const int at = schema_place(n, sc, i);
    if (at >= 0 && n->args[i].value && sc->args[at].type->kind == TYPE_TENSOR &&
        is_number_value(n->args[i].value))
      return true;
  }
  return false;
}

/* True if the overload for a number accepts the arguments unchanged: 1.0 - x has its tensor
 * second. */
static bool fits_numbers(const lower_node *n, const schema *sc)
{
  for (uint32_t i = 0; i < n->n_args; i++) {
    const int at = schema_place(n, sc, i);
    if (at < 0 || !n->args[i].value)
      continue;
    if ((sc->args[at].type->kind == TYPE_TENSOR) == is_number_value(n->args[i].value) &&
        (n->args[i].value->type->kind == TYPE_TENSOR || is_number_value(n->args[i].value)))
      return false;
  }
  return true;
}

/* Cast a tensor, or a list of tensors, according to the autocast policy (of op_effects). */
static ir_value *autocast(lowering *lo, ir_value *v, uint32_t policy)
{
  if (v->type->kind == TYPE_LIST && type_elem(v->type)->kind == TYPE_TENSOR &&
      v->node->kind == IR_LIST_CONSTRUCT) {
    uint32_t n = v->node->n_inputs;
    ir_value **items = session_array(lo->s, ir_value *, (size_t)n + 1);

    for (uint32_t i = 0; i < n; i++)
      items[i] = autocast(lo, ir_node_input(v->node, i), policy);
    return lower_list(lo, items, n, type_elem(v->type));
  }
  if (v->type->kind != TYPE_TENSOR)
    return v;
  ir_value *off = lower_constant(lo, value_bool(false), NULL),
           *on = lower_constant(lo, value_bool(true), NULL);
  if (policy == OP_AUTOCAST_FLOAT32)
    return lower_emit(lo, "aten::_autocast_to_full_precision", "", (ir_value *[]){v, off, on}, 3);
  ir_value *dtype = lower_constant(lo, value_int(lo->autocast), NULL);
  return lower_emit(lo, "aten::_autocast_to_reduced_precision", "",
                 (ir_value *[]){v, off, on, dtype, dtype}, 5);
}

static void lower_operator(lowering *lo, const lower_node *n, const op *o)
{
  const op *scalar = has_number_for_tensor(n, o->schema) ? find_target(lo, n->target, true) : NULL;
  const schema *sc = (o = scalar && fits_numbers(n, scalar->schema) ? scalar : o)->schema;
  ir_value **in = session_array(lo->s, ir_value *, sc->n_args + 1);

  for (uint32_t i = 0; i < n->n_args; i++) {
    const int at = schema_place(n, sc, i);
    if (at < 0 && i < n->n_positional)
      lower_fail(lo, "%s takes %u arguments, %u are given", sc->name, sc->n_args, n->n_positional);
    if (at < 0)
      lower_fail(lo, "%s has no argument '%.*s'", sc->name, (int)n->args[i].name.len,
                 n->args[i].name.p);
    if (in[at])
      lower_fail(lo, "%s is given its argument '%s' twice", sc->name, sc->args[at].name);
    if (n->args[i].value)
      in[at] = convert_argument(lo, &sc->args[at], n->args[i].value);
  }
  for (uint32_t i = 0; i < sc->n_args; i++) {
    if (in[i])
      continue;
    if (!sc->args[i].has_default)
      lower_fail(lo, "%s misses its argument '%s'", sc->name,
                          sc->args[i].name);
    rush_value d = value_retain(sc->args[i].default_value);
    const type *t = type_runtime(sc->args[i].type);
    const bool own_type = d.tag == RUSH_TAG_NONE || type_is(t, TYPE_NUMBER); /* int, not Scalar */
    in[i] = lower_constant(lo, d, own_type ? NULL : t);
  }
  const uint32_t policy =
    lo->autocast < 0 ? 0 : o->effects & (OP_AUTOCAST_LOWER | OP_AUTOCAST_FLOAT32);
  for (uint32_t i = 0; policy && i < sc->n_args; i++)
    in[i] = autocast(lo, in[i], policy);
  ir_node *node = ir_node_new_op(lo->s, lo->g, o, in, sc->n_args);
  node->range = n->range;
  ir_node_append(node, lo->block);
  check_named_node(lo, node);
  bind_outputs(lo, n, node);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static bool has_custom_object(const lowering *lo, const lower_node *n)
{
  uint32_t i = 0;

  while (i < n->n_args && !(n->args[i].value && n->args[i].value == lo->custom_object))
    i++;
  return i < n->n_args;
}

void lower_call(lowering *lo, const lower_node *n)
{
  session_enter(lo->s); /* with_effects names an operator that may be with_effects */
  if (has_custom_object(lo, n)) {
    lower_unknown(lo, n, n->target);
  } else if (!lower_higher_order(lo, n) && !lower_vmap_call(lo, n) && !lower_symbolic(lo, n)) {
    const op *o = find_target(lo, n->target, false);
    if (o)
      lower_operator(lo, n, o);
    else
      lower_unknown(lo, n, n->target);
  }
  session_leave(lo->s);
}

/* Lower _operator.getitem(node, i): result i of the node, which may be a list of results. */
static void lower_getitem(lowering *lo, const fx_node *n)
{
  lowered *to = &lo->scope->nodes[n->index];

  if (n->n_args != 2 || n->args[0].kind != FX_NODE || n->args[1].kind != FX_INT)
    lower_fail(lo, "'%s' is no getitem of a node and a number", n->name);
  const lowered *of = &lo->scope->nodes[n->args[0].as.node->index];
  const int64_t i = n->args[1].as.i;
  if (i < 0 || i >= of->n)
    lower_fail(lo, "'%s' is result %lld of '%s', which has %u", n->name, (long long)i,
               n->args[0].as.node->name, of->n);
  to->v = of->many[i];
  if (n->val && n->val->kind == FX_VAL_LIST) {
    ir_node *items = unpack(lo, n->name, to->v, n->val->n);
    to->n = n->val->n;
    to->many = items->outputs;
  }
  if (to->v)
    ir_value_set_name(lo->s, to->v, n->name);
}

/* Prepare the places of a call's results. */
static void place_results(lowering *lo, const fx_node *n, lower_node *call)
{
  lowered *to = &lo->scope->nodes[n->index];
  const bool several = n->val && n->val->kind == FX_VAL_LIST;

  call->is_used = n->n_users > 0;
  if (several) {
    to->n = n->val->n;
    to->many = session_array(lo->s, ir_value *, (size_t)to->n + 1);
  }
  const fx_val **one = session_new(lo->s, const fx_val *);
  *one = n->val;
  call->results = several ? to->many : &to->v;
  call->vals = several ? n->val->as.items : one;
  call->n_results = several ? to->n : 1;
  call->is_list = several;
}

static void lower_one(lowering *lo, const fx_node *n)
{
  const bool is_operand = strncmp(n->target, "torch.ops.higher_order.", 23) == 0;
  lower_node call = {.target = str_of(n->target), .n_positional = n->n_args};
  ir_node *before = ir_block_last(lo->block);

  lo->at = n->at;
  if (n->at < UINT32_MAX)
    call.range = (source_range){lo->file, (uint32_t)n->at, (uint32_t)n->at};
  call.args = session_array(lo->s, lower_arg, (size_t)n->n_args + n->n_kwargs + 1);
  for (uint32_t i = 0; i < n->n_args; i++)
    call.args[call.n_args++] = one_argument(lo, (str){0}, &n->args[i], is_operand);
  for (uint32_t i = 0; i < n->n_kwargs; i++)
    call.args[call.n_args++] =
      one_argument(lo, n->kwargs[i].name, &n->kwargs[i].arg, is_operand);
  place_results(lo, n, &call);
  lower_call(lo, &call);
  if (lo->scope->nodes[n->index].v)
    ir_value_set_name(lo->s, lo->scope->nodes[n->index].v, n->name);
  if (lo->scope->vmap && !lower_is_vmap(call.target))
    lower_vmap_place(lo, before);
}

void lower_nodes(lowering *lo)
{
  for (const fx_node *n = lo->scope->graph->first; n; n = n->next) {
    session_poll(lo->s);
    if (n->op != FX_CALL_FUNCTION)
      continue;
    if (strcmp(n->target, "_operator.getitem") == 0)
      lower_getitem(lo, n);
    else
      lower_one(lo, n);
  }
  lower_vmap_end(lo);
}

ir_value **lower_outputs(lowering *lo, uint32_t *n)
{
  const fx_node *last = lo->scope->graph->last;
  const fx_arg *all = &last->args[0];
  const bool is_tuple = all->kind == FX_TUPLE || all->kind == FX_LIST;
  const fx_arg *items = is_tuple ? all->as.items : all;

  *n = is_tuple ? all->n : 1;
  ir_value **v = session_array(lo->s, ir_value *, (size_t)*n + 1);
  for (uint32_t i = 0; i < *n; i++)
    v[i] = lower_argument(lo, &items[i], false);
  return v;
}

void lower_enter(lowering *lo, const fx_graph *g, lower_scope *scope)
{
  *scope = (lower_scope){.graph = g,
                         .nodes = session_array(lo->s, lowered, (size_t)g->n_nodes + 1)};
  lo->scope = scope;
}

ir_value **lower_inner(lowering *lo, const fx_graph *g, ir_value *const *inputs, uint32_t n_inputs,
                       uint32_t *n_outputs)
{
  lower_scope inner, *outer = lo->scope;
  uint32_t i = 0;

  session_enter(lo->s);
  lower_enter(lo, g, &inner);
  for (const fx_node *n = g->first; n; n = n->next)
    if (n->op == FX_PLACEHOLDER) {
      if (i < n_inputs)
        inner.nodes[n->index].v = inputs[i];
      i++;
    }
  if (i != n_inputs)
    lower_fail(lo, "a graph of %u inputs is given %u", i, n_inputs);
  lower_nodes(lo);
  ir_value **v = lower_outputs(lo, n_outputs);
  lo->scope = outer;
  session_leave(lo->s);
  return v;
}
