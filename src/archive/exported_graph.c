/* archive/exported_graph.c -- the nodes of an exported program: JSON arguments to IR values,
 * targets to operators, outputs to names. It reads JSON and makes IR in one pass, without a tree of
 * its own. Python's operators on symbolic numbers become operators on ints and floats. Every node
 * is checked against its schema, because running code trusts types and a file may pass anything to
 * an operator. Cost: O(bytes). */
#include "archive/exported_int.h"

#include <stdio.h>

#include "archive/unpickle.h"
#include "base/grow.h"
#include "ops/call/lookup.h"

/* -- Small pieces ------------------------------------------------------------------------------ */

void ex_bind(ex_reader *r, str name, ir_value *v)
{
  if (table_get(&r->scope->values, name))
    ex_fail(r, "a second value of the name '%.*s'", (int)name.len, name.p);
  session_table_put(r->s, &r->scope->values, name, v);
}

static ir_value *lookup(ex_reader *r, json *j, str name)
{
  ir_value *v = table_get(&r->scope->values, name);

  if (!v)
    json_fail(j, "there is no value '%.*s'", (int)name.len, name.p);
  return v;
}

ir_value *ex_constant(ex_reader *r, rush_value v_steal, const type *t)
{
  if (value_is_heap(v_steal))
    session_defer_value(r->s, v_steal); /* the pool takes its own reference */
  ir_node *n = ir_constant_new(r->s, r->g, v_steal, t);

  ir_node_append(n, r->block);
  return n->outputs[0];
}

static const char *type_text(ex_reader *r, const type *t)
{
  text_buf *text = session_text(r->s);

  type_print(text, t);
  return session_take_text(r->s, text);
}

ir_value *ex_list(ex_reader *r, ir_value *const *items, uint32_t n, const type *elem)
{
  for (uint32_t i = 0; i < n; i++)
    if (!type_is_subtype(type_runtime(items[i]->type), elem))
      ex_fail(r, "item %u of a list of %s is %s", i, type_text(r, elem),
              type_text(r, items[i]->type));
  ir_node *node = ir_node_new(r->s, r->g, IR_LIST_CONSTRUCT, items, n);
  const type *t = type_list(r->g->types, elem);

  if (!t)
    session_check(r->s, call_nomem(r->s->cx));
  ir_node_append(node, r->block);
  return ir_node_add_output(r->s, node, t);
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
static void check_node(ex_reader *r, const ir_node *n)
{
  const schema *sc = n->op->schema;

  if (!ir_node_fits_schema(n, sc) && !fits_apart_from_numbers(n, sc))
    ex_fail(r, "the arguments of %s%s%s are not of its types",
                        sc->name, sc->overload[0] ? "." : "", sc->overload);
}

str ex_name(ex_reader *r, str name)
{
  if (name.len && memchr(name.p, 0, name.len))
    ex_fail(r, "the name '%.*s' has a NUL in it", (int)name.len, name.p);
  return name;
}

void ex_fail(ex_reader *r, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  input_fail(r->s, &r->in, r->at, "%s", text);
}

/* Check a node of an operator that the file names: its results have types, and no argument accepts
 * any type. */
static void check_named_node(ex_reader *r, const ir_node *n)
{
  bool varies = false;

  check_node(r, n);
  for (uint32_t i = 0; i < n->op->schema->n_args; i++)
    varies |= type_has_vars(n->op->schema->args[i].type);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    varies |= !n->outputs[i]->type || type_has_vars(n->outputs[i]->type);
  if (varies)
    ex_fail(r, "%s has no place in an exported graph", n->op->schema->name);
}

ir_value *ex_emit(ex_reader *r, const char *name, const char *overload, ir_value *const *inputs,
                  uint32_t n)
{
  const op *o = session_op_find(r->s, str_of(name), str_of(overload));

  if (!o)
    session_fail_status(r->s, RUSH_EINTERNAL, NULL, NULL, "operator %s.%s is missing", name,
                        overload);
  ir_node *node = ir_node_new_op(r->s, r->g, o, inputs, n);
  for (uint32_t i = 0; i < node->n_outputs && n; i++) /* append returns its list */
    if (type_has_vars(node->outputs[i]->type))
      node->outputs[i]->type = inputs[0]->type;
  ir_node_append(node, r->block);
  check_node(r, node);
  return node->n_outputs ? node->outputs[0] : NULL;
}

int ex_dtype(ex_reader *r, int64_t number)
{
  static const struct { uint8_t from, to; } rows[] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, safetensors, exported, \
              ...)                                                                              \
  {exported, number},
#include "base/dtypes.def"
  };

  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (rows[i].from && rows[i].from == number)
      return rows[i].to;
  ex_fail(r, "dtype number %lld is none of the schema's",
                      (long long)number);
}

/* -- Arguments --------------------------------------------------------------------------------- */

static bool is_number_value(const ir_value *v)
{
  type_kind k = type_runtime(v->type)->kind;

  return k == TYPE_INT || k == TYPE_FLOAT || k == TYPE_BOOL || k == TYPE_COMPLEX ||
         k == TYPE_NUMBER;
}

/* Convert a number to that kind; a conversion that loses part of it is refused. */
static ir_value *as_number(ex_reader *r, ir_value *v, type_kind kind)
{
  static const char *const words[] = {
    [TYPE_INT] = "int", [TYPE_FLOAT] = "float", [TYPE_BOOL] = "bool", [TYPE_NUMBER] = "Scalar"};
  type_kind from = type_runtime(v->type)->kind;
  rush_value c;

  if (from == kind || kind == TYPE_NUMBER || kind == TYPE_COMPLEX)
    return v;
  if (from == TYPE_FLOAT || from == TYPE_COMPLEX)
    ex_fail(r, "a float where a %s is expected", words[kind]);
  if (ir_value_as_constant(v, &c)) {
    int64_t i = c.tag == RUSH_TAG_BOOL ? c.as.b : c.as.i;
    return ex_constant(r,
                       kind == TYPE_INT    ? value_int(i)
                       : kind == TYPE_BOOL ? value_bool(i != 0)
                                           : value_float((double)i),
                       NULL);
  }
  const char *to = kind == TYPE_INT     ? "aten::Int"
                   : kind == TYPE_FLOAT ? "aten::Float"
                                        : "aten::Bool";
  if (kind == TYPE_BOOL && from == TYPE_NUMBER)
    return ex_emit(r, "aten::ne", "Scalar", (ir_value *[]){v, ex_constant(r, value_int(0), NULL)},
                   2);
  return ex_emit(r, to, words[from], &v, 1);
}

/* Read {"as_name": n} or {"as_int": i} / as_float / as_bool. */
static ir_value *read_sym(ex_reader *r, json *j)
{
  ir_value *v = NULL;
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_name"))
      v = lookup(r, j, json_string(j));
    else if (str_is(key, "as_int"))
      v = ex_constant(r, value_int(json_int(j)), NULL);
    else if (str_is(key, "as_float"))
      v = ex_constant(r, value_float(json_double(j)), NULL);
    else if (str_is(key, "as_bool"))
      v = ex_constant(r, value_bool(json_bool(j)), NULL);
    else
      json_fail(j, "a symbolic argument of kind '%.*s'", (int)key.len, key.p);
  }
  if (!v)
    json_fail(j, "an empty symbolic argument");
  if (!is_number_value(v))
    json_fail(j, "a symbolic argument that is no number");
  return v;
}

static ir_value *read_sym_int(ex_reader *r, json *j)
{
  return as_number(r, read_sym(r, j), TYPE_INT);
}
static ir_value *read_sym_float(ex_reader *r, json *j)
{
  return as_number(r, read_sym(r, j), TYPE_FLOAT);
}
static ir_value *read_sym_bool(ex_reader *r, json *j)
{
  return as_number(r, read_sym(r, j), TYPE_BOOL);
}

static ir_value *read_named(ex_reader *r, json *j)
{
  ir_value *v = NULL;
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "name"))
      v = lookup(r, j, json_string(j));
    else
      json_skip(j);
  }
  if (!v)
    json_fail(j, "a tensor argument without a name");
  return v;
}

static ir_value *read_tensor(ex_reader *r, json *j)
{
  ir_value *v = read_named(r, j);

  if (!type_is(v->type, TYPE_TENSOR) && !type_is(v->type, TYPE_NONE)) /* None: a token of effects */
    json_fail(j, "a tensor argument that is no tensor");
  return v;
}

typedef ir_value *read_item(ex_reader *r, json *j);

static ir_value *read_optional_tensor(ex_reader *r, json *j)
{
  ir_value *v = NULL;
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_tensor")) {
      v = read_tensor(r, j);
    } else if (str_is(key, "as_none")) {
      json_skip(j);
      v = ex_constant(r, value_none(), NULL);
    } else {
      json_fail(j, "an optional tensor of kind '%.*s'", (int)key.len, key.p);
    }
  }
  return v ? v : ex_constant(r, value_none(), NULL);
}

static ir_value **read_items(ex_reader *r, json *j, read_item *item, uint32_t *n)
{
  uint32_t cap = 8;
  ir_value **items = session_array(r->s, ir_value *, cap);

  *n = 0;
  for (json_begin_array(j); json_next_item(j); ++*n) {
    GROW(r->s, items, *n, cap, 0);
    items[*n] = item(r, j);
  }
  return items;
}

static ir_value *read_list(ex_reader *r, json *j, read_item *item, const type *elem)
{
  uint32_t n;
  ir_value **items = read_items(r, j, item, &n);

  return ex_list(r, items, n, elem);
}

/* Read operands of higher-order operators.  They are written as tensors even if symbolic numbers
 * are among them: then the result is a tuple, which no other argument accepts. */
static ir_value *read_operands(ex_reader *r, json *j)
{
  uint32_t n, k = 0;
  ir_value **items = read_items(r, j, read_named, &n);

  while (k < n && type_is(items[k]->type, TYPE_TENSOR))
    k++;
  if (k == n)
    return ex_list(r, items, n, type_simple(TYPE_TENSOR));
  const type **types = session_array(r->s, const type *, n);
  for (k = 0; k < n; k++)
    types[k] = items[k]->type;
  const type *t = type_tuple(r->g->types, types, n);
  if (!t)
    session_check(r->s, call_nomem(r->s->cx));
  ir_node *tuple = ir_node_new(r->s, r->g, IR_TUPLE_CONSTRUCT, items, n);
  ir_node_append(tuple, r->block);
  return ir_node_add_output(r->s, tuple, t);
}

/* Make a constant from a list of plain numbers. */
static ir_value *constant_list(ex_reader *r, json *j, type_kind kind)
{
  rush_list *l;
  rush_value v;

  session_check(r->s, list_new(r->s->cx, type_simple(kind), 4, &l));
  program_keep_steal(r->s, r->program, value_heap_steal(RUSH_TAG_LIST, l));
  for (json_begin_array(j); json_next_item(j);) {
    switch (kind) {
    case TYPE_INT:
      v = value_int(json_int(j));
      break;
    case TYPE_FLOAT:
      v = value_float(json_double(j));
      break;
    case TYPE_BOOL:
      v = value_bool(json_bool(j));
      break;
    default: {
      str text = json_string(j);
      session_check(r->s, string_new(r->s->cx, text.p, text.len, &v));
      break;
    }
    }
    session_check(r->s, list_append_steal(r->s->cx, l, v));
  }
  return ex_constant(r, value_retain(value_heap_steal(RUSH_TAG_LIST, l)), NULL);
}

static const type *list_of(ex_reader *r, const type *elem)
{
  const type *t = type_list(r->g->types, elem);

  if (!t)
    session_check(r->s, call_nomem(r->s->cx));
  return t;
}

static ir_value *read_tensors(ex_reader *r, json *j)
{
  return read_list(r, j, read_tensor, type_simple(TYPE_TENSOR));
}
static ir_value *read_ints(ex_reader *r, json *j) { return constant_list(r, j, TYPE_INT); }
static ir_value *read_floats(ex_reader *r, json *j) { return constant_list(r, j, TYPE_FLOAT); }

static ir_value *read_device(ex_reader *r, json *j)
{
  int32_t kind = 0;
  int64_t n = -1;
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "type"))
      kind = str_is(json_string(j), "cpu") ? 0 : 1;
    else if (str_is(key, "index") && !json_is_null(j))
      n = json_int(j);
    else
      json_skip(j);
  }
  if (n < -1 || n > INT8_MAX)
    json_fail(j, "device index %lld; PyTorch has -1 to %d", (long long)n, INT8_MAX);
  return ex_constant(r, value_device(kind, (int32_t)n), type_simple(TYPE_DEVICE));
}

static ir_value *read_string(ex_reader *r, json *j)
{
  str text = json_string(j);
  rush_value v;

  session_check(r->s, string_new(r->s->cx, text.p, text.len, &v));
  return ex_constant(r, v, NULL);
}

static ir_value *read_complex(ex_reader *r, json *j)
{
  double re = 0, im = 0;
  rush_value v;
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "real"))
      re = json_double(j);
    else if (str_is(key, "imag"))
      im = json_double(j);
    else
      json_skip(j);
  }
  session_check(r->s, complex_new(r->s->cx, re, im, &v));
  return ex_constant(r, v, NULL);
}

static ir_value *read_enum(ex_reader *r, json *j, str kind)
{
  static const int8_t formats[] = {-1, 0, 2, 3,
                                   1}; /* unknown, contiguous, channels last, 3d, preserve */
  static const int8_t layouts[] = {
    -1, 1, 2, 4, 5, 6, 3, 0}; /* unknown, sparse ones, mkldnn, strided: operators' numbers */
  bool layout = str_is(kind, "as_layout");
  int64_t n = json_int(j);

  if (str_is(kind, "as_scalar_type"))
    return ex_constant(r, value_int(ex_dtype(r, n)), NULL);
  if (n < 1 || n >= (int64_t)(layout ? COUNT_OF(layouts) : COUNT_OF(formats)))
    json_fail(j, "%s %lld is none of the schema's", layout ? "layout" : "memory format",
              (long long)n);
  return ex_constant(r, value_int(layout ? layouts[n] : formats[n]), NULL);
}

static str read_graph_text(json *j)
{
  str key, text = {0};

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "graph"))
      text = json_raw(j);
    else
      json_skip(j);
  }
  return text;
}

/* Read the value of one tagged union; NULL with *graph set for as_graph. */
static ir_value *read_tagged(ex_reader *r, json *j, str kind, str *graph)
{
  if (str_is(kind, "as_tensor"))
    return read_tensor(r, j);
  if (str_is(kind, "as_int"))
    return ex_constant(r, value_int(json_int(j)), NULL);
  if (str_is(kind, "as_ints"))
    return constant_list(r, j, TYPE_INT);
  if (str_is(kind, "as_float"))
    return ex_constant(r, value_float(json_double(j)), NULL);
  if (str_is(kind, "as_bool"))
    return ex_constant(r, value_bool(json_bool(j)), NULL);
  if (str_is(kind, "as_none")) {
    json_skip(j);
    return ex_constant(r, value_none(), NULL);
  }
  if (str_is(kind, "as_sym_int") || str_is(kind, "as_sym_float") || str_is(kind, "as_sym_bool"))
    return read_sym(r, j);
  if (str_is(kind, "as_sym_ints"))
    return read_list(r, j, read_sym_int, type_simple(TYPE_INT));
  if (str_is(kind, "as_sym_floats"))
    return read_list(r, j, read_sym_float, type_simple(TYPE_FLOAT));
  if (str_is(kind, "as_tensors"))
    return read_operands(r, j);
  if (str_is(kind, "as_optional_tensors"))
    return read_list(r, j, read_optional_tensor,
                     type_optional(r->g->types, type_simple(TYPE_TENSOR)));
  if (str_is(kind, "as_floats"))
    return constant_list(r, j, TYPE_FLOAT);
  if (str_is(kind, "as_bools"))
    return constant_list(r, j, TYPE_BOOL);
  if (str_is(kind, "as_strings"))
    return constant_list(r, j, TYPE_STRING);
  if (str_is(kind, "as_sym_bools"))
    return read_list(r, j, read_sym_bool, type_simple(TYPE_BOOL));
  if (str_is(kind, "as_optional_tensor"))
    return read_optional_tensor(r, j);
  if (str_is(kind, "as_nested_tensors"))
    return read_list(r, j, read_tensors, list_of(r, type_simple(TYPE_TENSOR)));
  if (str_is(kind, "as_int_lists"))
    return read_list(r, j, read_ints, list_of(r, type_simple(TYPE_INT)));
  if (str_is(kind, "as_float_lists"))
    return read_list(r, j, read_floats, list_of(r, type_simple(TYPE_FLOAT)));
  if (str_is(kind, "as_string") || str_is(kind, "as_operator"))
    return read_string(r, j);
  if (str_is(kind, "as_device"))
    return read_device(r, j);
  if (str_is(kind, "as_complex"))
    return read_complex(r, j);
  if (str_is(kind, "as_scalar_type") || str_is(kind, "as_layout") ||
      str_is(kind, "as_memory_format"))
    return read_enum(r, j, kind);
  if (!str_is(kind, "as_graph"))
    json_fail(j, "an argument of kind '%.*s' is not known here", (int)kind.len, kind.p);
  *graph = read_graph_text(j);
  return NULL;
}

static ir_value *read_argument(ex_reader *r, json *j, str *graph)
{
  ir_value *v = NULL;
  uint32_t n = 0;
  str key;

  for (json_begin_object(j); json_next_key(j, &key); n++)
    v = read_tagged(r, j, key, graph);
  if (n != 1)
    json_fail(j, "an argument of %u kinds", n);
  return v;
}

static void read_arguments(ex_reader *r, json *j, ex_node *n)
{
  uint32_t cap = 8;
  str key;

  n->args = session_array(r->s, ex_arg, cap);
  for (json_begin_array(j); json_next_item(j); n->n_args++) {
    GROW(r->s, n->args, n->n_args, cap, 0);
    ex_arg *a = &n->args[n->n_args];
    for (json_begin_object(j); json_next_key(j, &key);) {
      if (str_is(key, "name"))
        a->name = json_string(j);
      else if (str_is(key, "arg"))
        a->value = read_argument(r, j, &a->graph);
      else
        json_skip(j);
    }
  }
}

/* -- Outputs ----------------------------------------------------------------------------------- */

str ex_name_of(ex_reader *r, json *j)
{
  str key, name = {0};

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "name") || str_is(key, "as_name"))
      name = ex_name(r, json_string(j));
    else
      json_skip(j);
  }
  return name;
}

str *ex_output_names(ex_reader *r, str outputs, uint32_t *n)
{
  uint32_t cap = 8;
  str *names = session_array(r->s, str, cap), key;
  json j;

  *n = 0;
  json_init_at(&j, r->s, &r->in, outputs);
  for (json_begin_array(&j); json_next_item(&j);)
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      bool list = str_is(key, "as_tensors") || str_is(key, "as_sym_ints");
      if (list)
        json_begin_array(&j);
      while (!list || json_next_item(&j)) {
        GROW(r->s, names, *n, cap, 0);
        names[*n] = (str){0};
        if (json_peek(&j) == JSON_OBJECT)
          names[*n] = ex_name_of(r, &j);
        else
          json_skip(&j);
        ++*n;
        if (!list)
          break;
      }
    }
  return names;
}

str *ex_node_names(ex_reader *r, const ex_node *n, uint32_t *count)
{
  str *names = ex_output_names(r, n->outputs, count);
  uint32_t skip = n->skip_outputs < *count ? n->skip_outputs : *count;

  *count -= skip;
  return names + skip;
}

static bool outputs_are_list(ex_reader *r, str outputs)
{
  bool list = false;
  str key;
  json j;

  json_init_at(&j, r->s, &r->in, outputs);
  for (json_begin_array(&j); json_next_item(&j);)
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      list |= str_is(key, "as_tensors") || str_is(key, "as_sym_ints");
      json_skip(&j);
    }
  return list;
}

/* Convert the result of .item(), a Scalar in its schema, to the kind that the file specifies. */
static ir_value *as_said(ex_reader *r, str outputs, ir_value *v)
{
  static const struct { const char *word; type_kind kind; } kinds[] = {
      {"as_sym_int", TYPE_INT}, {"as_sym_float", TYPE_FLOAT}, {"as_sym_bool", TYPE_BOOL}};
  str key;
  json j;

  if (!type_is(v->type, TYPE_NUMBER))
    return v;
  json_init_at(&j, r->s, &r->in, outputs);
  for (json_begin_array(&j); json_next_item(&j);)
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_is(key, kinds[i].word) && type_is(v->type, TYPE_NUMBER))
          v = as_number(r, v, kinds[i].kind);
      json_skip(&j);
    }
  return v;
}

static void bind_outputs(ex_reader *r, const ex_node *node, ir_node *made)
{
  uint32_t n;
  str *names = ex_node_names(r, node, &n);

  while (n > made->n_outputs && !names[n - 1].p) /* None of an operator without results */
    n--;
  if (outputs_are_list(r, node->outputs) && made->n_outputs == 1) {
    ir_value *list = made->outputs[0];
    if (!type_is(list->type, TYPE_LIST))
      ex_fail(r, "'%.*s' does not return a list",
                          (int)node->target.len, node->target.p);
    made = ir_node_new(r->s, r->g, IR_LIST_UNPACK, &list, 1);
    ir_node_append(made, r->block);
    for (uint32_t i = 0; i < n; i++)
      ir_node_add_output(r->s, made, type_elem(list->type));
  }
  for (uint32_t i = 0; i < n && i < made->n_outputs; i++)
    if (names[i].p) {
      ir_value *v = as_said(r, node->outputs, made->outputs[i]);
      ir_value_set_name(r->s, v, session_printf(r->s, "%.*s", (int)names[i].len, names[i].p));
      ex_bind(r, names[i], v);
    }
  if (n > made->n_outputs)
    ex_fail(r, "'%.*s' has %u outputs here and %u in its schema", (int)node->target.len,
            node->target.p, n, made->n_outputs);
}

ir_value **ex_read_outputs(ex_reader *r, str outputs, uint32_t *n)
{
  uint32_t cap = 8;
  ir_value **v = session_array(r->s, ir_value *, cap);
  str graph = {0};
  json j;

  *n = 0;
  json_init_at(&j, r->s, &r->in, outputs);
  for (json_begin_array(&j); json_next_item(&j);) {
    GROW(r->s, v, *n, cap, 0);
    v[*n] = read_argument(r, &j, &graph);
    if (!v[*n])
      json_fail(&j, "a graph as an output");
    ++*n;
  }
  return v;
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
static const op *sym_op(ex_reader *r, const ex_node *n, const char *name)
{
  const char *a = number_word(n->args[0].value),
             *b = n->n_args > 1 ? number_word(n->args[1].value) : a;
  const op *o = NULL;

  if (strcmp(name, "aten::pow") == 0 && strcmp(a, "int") == 0 && strcmp(b, "int") == 0)
    return session_op_find(r->s, str_of(name), STR("int_to_int"));
  if (strcmp(a, b) == 0)
    o = session_op_find(r->s, str_of(name), str_of(a));
  if (!o)
    o = session_op_find(r->s, str_of(name), str_of(session_printf(r->s, "%s_%s", a, b)));
  if (!o && n->n_args == 1)
    o = session_op_find(r->s, str_of(name), STR("Scalar"));
  return o ? o : session_op_find(r->s, str_of(name), STR(""));
}

/* Read torch.sym_ite(condition, a, b). */
static void read_choice(ex_reader *r, const ex_node *n)
{
  if (n->n_args != 3 || !n->args[0].value || !n->args[1].value || !n->args[2].value)
    ex_fail(r, "torch.sym_ite with %u arguments", n->n_args);
  if (!type_is(n->args[0].value->type, TYPE_BOOL) ||
      n->args[1].value->type != n->args[2].value->type)
    ex_fail(r, "torch.sym_ite of other types");
  ir_node *node = ir_node_new(r->s, r->g, IR_IF, &n->args[0].value, 1);
  for (uint32_t i = 1; i <= 2; i++)
    ir_block_add_output(r->s, ir_node_add_block(r->s, node), n->args[i].value);
  ir_node_add_output(r->s, node, n->args[1].value->type);
  ir_node_append(node, r->block);
  bind_outputs(r, n, node);
}

/* Read +n: the value itself. */
static void read_same(ex_reader *r, const ex_node *n)
{
  uint32_t n_names;
  str *names = ex_node_names(r, n, &n_names);

  if (n->n_args < 1 || !n->args[0].value || n_names != 1 || !names[0].p)
    ex_fail(r, "%.*s of nothing", (int)n->target.len, n->target.p);
  ex_bind(r, names[0], n->args[0].value);
}

static bool read_symbolic(ex_reader *r, const ex_node *n)
{
  if (str_is(n->target, "torch.sym_ite")) {
    read_choice(r, n);
    return true;
  }
  if (str_is(n->target, "_operator.pos") ||
      (str_is(n->target, "torch.sym_int") && n->n_args == 1 && n->args[0].value &&
       type_is(n->args[0].value->type, TYPE_INT))) {
    read_same(r, n);
    return true;
  }
  for (size_t i = 0; i < COUNT_OF(sym_targets); i++) {
    if (!str_is(n->target, sym_targets[i].target))
      continue;
    ir_value *in[2];
    if (n->n_args < 1 || n->n_args > 2)
      ex_fail(r, "'%s' with %u arguments",
                          sym_targets[i].target, n->n_args);
    for (uint32_t k = 0; k < n->n_args; k++)
      if (!(in[k] = n->args[k].value))
        ex_fail(r, "'%s' of a graph", sym_targets[i].target);
    const op *o = sym_op(r, n, sym_targets[i].name);
    if (!o)
      return false;
    ir_node *node = ir_node_new_op(r->s, r->g, o, in, n->n_args);
    ir_node_append(node, r->block);
    check_named_node(r, node);
    bind_outputs(r, n, node);
    return true;
  }
  return false;
}

/* Read an operator without a schema: its outputs determine its types, and it fails when it runs. */
static void read_unknown(ex_reader *r, const ex_node *n)
{
  ir_value **in = session_array(r->s, ir_value *, n->n_args + 1);
  uint32_t n_in = 0, n_out;

  for (uint32_t i = 0; i < n->n_args; i++)
    if (n->args[i].value)
      in[n_in++] = n->args[i].value;
  ir_node *node = ir_node_new(r->s, r->g, IR_UNKNOWN_OP, in, n_in);
  ir_attr_set_string(r->s, node, "_kind",
                     session_printf(r->s, "%.*s", (int)n->target.len, n->target.p));
  ex_node_names(r, n, &n_out);
  for (uint32_t i = 0; i < n_out; i++)
    ir_node_add_output(r->s, node, type_simple(TYPE_TENSOR));
  ir_node_append(node, r->block);
  bind_outputs(r, n, node);
}

/* Find the operator of a target, or (`scalar`) of add.Tensor with a number the one for numbers,
 * add.Scalar, in-place ones too; NULL if there is none. */
static const op *find_target(ex_reader *r, str target, bool scalar)
{
  const op *o = session_op_of_target(r->s, target);

  if (!scalar)
    return o;
  if (!o || strcmp(o->schema->overload, "Tensor") != 0)
    return NULL;
  o = session_op_find(r->s, str_of(o->schema->name), STR("Scalar"));
  return o && op_is_runnable(o) ? o : NULL;
}

/* Convert a number where the schema needs a tensor. */
static ir_value *as_tensor(ex_reader *r, ir_value *v)
{
  rush_value number;
  rush_tensor *t;

  if (!ir_value_as_constant(v, &number) || number.tag == RUSH_TAG_NONE)
    return ex_emit(r, "prim::NumToTensor", v->type->kind == TYPE_BOOL ? "bool" : "Scalar", &v, 1);
  int dtype = number.tag == RUSH_TAG_BOOL ? RUSH_BOOL : number.tag == RUSH_TAG_INT ? RUSH_INT64
              : number.tag == RUSH_TAG_FLOAT ? RUSH_FLOAT64 : RUSH_COMPLEX128;
  session_check(r->s, tensor_from_scalar(r->s->cx, number, dtype, &t));
  t->h.flags |= TENSOR_WRAPPED_NUMBER;
  return ex_constant(r, value_tensor_steal(t), type_simple(TYPE_TENSOR));
}

static ir_value *floats_of(ex_reader *r, const rush_list *ints)
{
  rush_list *l;

  session_check(r->s, list_new(r->s->cx, type_simple(TYPE_FLOAT), ints->n, &l));
  for (size_t i = 0; i < ints->n; i++)
    l->items[l->n++] = value_float((double)ints->items[i].as.i);
  return ex_constant(r, value_heap_steal(RUSH_TAG_LIST, l), NULL);
}

/* Convert an argument to its type: numbers to tensors or another kind, single numbers to lists. */
static ir_value *convert_argument(ex_reader *r, const schema_arg *a, ir_value *v)
{
  const type *t = type_runtime(a->type->kind == TYPE_OPTIONAL ? type_elem(a->type) : a->type);
  const type *elem = t->kind == TYPE_LIST ? type_runtime(type_elem(t)) : NULL;
  rush_value c;

  if (t->kind == TYPE_TENSOR && is_number_value(v))
    return as_tensor(r, v);
  if ((t->kind == TYPE_INT || t->kind == TYPE_FLOAT || t->kind == TYPE_BOOL) && is_number_value(v))
    return as_number(r, v, t->kind);
  if (!elem)
    return v;
  if (is_number_value(v))
    return ex_list(r, (ir_value *[]){elem->kind == TYPE_TENSOR ? v : as_number(r, v, elem->kind)},
                   1, elem);
  if (v->node->kind != IR_CONSTANT || !ir_value_as_constant(v, &c) || c.tag != RUSH_TAG_LIST)
    return v;
  if (elem->kind == TYPE_FLOAT && c.as.list->elem->kind == TYPE_INT)
    return floats_of(r, c.as.list);
  return c.as.list->n == 0 && elem->kind != TYPE_INT ? ex_list(r, NULL, 0, elem) : v;
}

static bool has_number_for_tensor(const ex_node *n, const schema *sc)
{
  for (uint32_t i = 0; i < n->n_args; i++) {
    int at = schema_arg_index(sc, n->args[i].name);
    if (at >= 0 && n->args[i].value && sc->args[at].type->kind == TYPE_TENSOR &&
        is_number_value(n->args[i].value))
      return true;
  }
  return false;
}

/* True if the overload for a number accepts the arguments unchanged: 1.0 - x has its tensor
 * second. */
static bool fits_numbers(const ex_node *n, const schema *sc)
{
  for (uint32_t i = 0; i < n->n_args; i++) {
    int at = schema_arg_index(sc, n->args[i].name);
    if (at < 0 || !n->args[i].value)
      continue;
    if ((sc->args[at].type->kind == TYPE_TENSOR) == is_number_value(n->args[i].value) &&
        (n->args[i].value->type->kind == TYPE_TENSOR || is_number_value(n->args[i].value)))
      return false;
  }
  return true;
}

/* Cast a tensor, or a list of tensors, according to the autocast policy (of op_effects). */
static ir_value *autocast(ex_reader *r, ir_value *v, uint32_t policy)
{
  if (v->type->kind == TYPE_LIST && type_elem(v->type)->kind == TYPE_TENSOR &&
      v->node->kind == IR_LIST_CONSTRUCT) {
    uint32_t n = v->node->n_inputs;
    ir_value **items = session_array(r->s, ir_value *, (size_t)n + 1);

    for (uint32_t i = 0; i < n; i++)
      items[i] = autocast(r, ir_node_input(v->node, i), policy);
    return ex_list(r, items, n, type_elem(v->type));
  }
  if (v->type->kind != TYPE_TENSOR)
    return v;
  ir_value *off = ex_constant(r, value_bool(false), NULL),
           *on = ex_constant(r, value_bool(true), NULL);
  if (policy == OP_AUTOCAST_FLOAT32)
    return ex_emit(r, "aten::_autocast_to_full_precision", "", (ir_value *[]){v, off, on}, 3);
  ir_value *dtype = ex_constant(r, value_int(r->autocast), NULL);
  return ex_emit(r, "aten::_autocast_to_reduced_precision", "",
                 (ir_value *[]){v, off, on, dtype, dtype}, 5);
}

static void read_operator(ex_reader *r, const ex_node *n, const op *o)
{
  const op *scalar = has_number_for_tensor(n, o->schema) ? find_target(r, n->target, true) : NULL;
  const schema *sc = (o = scalar && fits_numbers(n, scalar->schema) ? scalar : o)->schema;
  ir_value **in = session_array(r->s, ir_value *, sc->n_args + 1);

  for (uint32_t i = 0; i < n->n_args; i++) {
    int at = schema_arg_index(sc, n->args[i].name);
    if (at < 0 && n->args[i].name.len == 0 && i < sc->n_args)
      at = (int)i;
    if (at < 0)
      ex_fail(r, "%s has no argument '%.*s'", sc->name,
                          (int)n->args[i].name.len, n->args[i].name.p);
    if (in[at])
      ex_fail(r, "%s is given its argument '%s' twice", sc->name, sc->args[at].name);
    if (n->args[i].value)
      in[at] = convert_argument(r, &sc->args[at], n->args[i].value);
  }
  for (uint32_t i = 0; i < sc->n_args; i++) {
    if (in[i])
      continue;
    if (!sc->args[i].has_default)
      ex_fail(r, "%s misses its argument '%s'", sc->name,
                          sc->args[i].name);
    rush_value d = value_retain(sc->args[i].default_value);
    in[i] = ex_constant(r, d, d.tag == RUSH_TAG_NONE ? NULL : type_runtime(sc->args[i].type));
  }
  const uint32_t policy =
    r->autocast < 0 ? 0 : o->effects & (OP_AUTOCAST_LOWER | OP_AUTOCAST_FLOAT32);
  for (uint32_t i = 0; policy && i < sc->n_args; i++)
    in[i] = autocast(r, in[i], policy);
  ir_node *node = ir_node_new_op(r->s, r->g, o, in, sc->n_args);
  node->range = n->range;
  ir_node_append(node, r->block);
  check_named_node(r, node);
  bind_outputs(r, n, node);
}

static void read_node(ex_reader *r, json *j)
{
  ex_node n = {0};
  str key, inputs = {0};

  r->at = j->pos;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "target"))
      n.target = json_string(j);
    else if (str_is(key, "inputs"))
      inputs = json_raw(j);
    else if (str_is(key, "outputs"))
      n.outputs = json_raw(j);
    else
      json_skip(j);
  }
  if (!n.target.p || !inputs.p || !n.outputs.p)
    json_fail(j, "a node without target, inputs or outputs");
  json args;
  ir_block *block = r->block;
  ir_node *before = ir_block_last(block);
  json_init_at(&args, r->s, &j->in, inputs);
  read_arguments(r, &args, &n);
  ex_read_call(r, &n);
  if (r->scope->vmap && !ex_is_vmap(n.target))
    ex_vmap_place(r, before);
}

void ex_read_call(ex_reader *r, const ex_node *n)
{
  session_enter(r->s); /* with_effects names an operator that may be with_effects */
  ex_name(r, n->target);
  if (!ex_read_higher_order(r, n) && !ex_read_vmap(r, n) && !read_symbolic(r, n)) {
    const op *o = find_target(r, n->target, false);
    if (o)
      read_operator(r, n, o);
    else
      read_unknown(r, n);
  }
  session_leave(r->s);
}

void ex_read_nodes(ex_reader *r, str nodes)
{
  json j;

  json_init_at(&j, r->s, &r->in, nodes);
  for (json_begin_array(&j); json_next_item(&j);)
    read_node(r, &j);
  ex_vmap_end(r);
}

static void free_scope(void *scope) { table_free(&((ex_scope *)scope)->values); }

ir_value **ex_read_inner(ex_reader *r, str graph, ir_value *const *inputs, uint32_t n_inputs,
                         uint32_t *n_outputs)
{
  str key, in = {0}, out = {0}, nodes = {0};
  ex_scope *inner = session_new(r->s, ex_scope), *outer = r->scope;
  uint32_t n;
  json j;

  session_enter(r->s);
  json_init_at(&j, r->s, &r->in, graph);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    if (str_is(key, "inputs"))
      in = json_raw(&j);
    else if (str_is(key, "outputs"))
      out = json_raw(&j);
    else if (str_is(key, "nodes"))
      nodes = json_raw(&j);
    else
      json_skip(&j);
  }
  if (!in.p || !out.p || !nodes.p)
    json_fail(&j, "a graph without inputs, outputs or nodes");
  table_init(&inner->values, r->s->cx->ctx);
  session_defer(r->s, free_scope, inner);
  str *names = ex_output_names(r, in, &n);
  if (n != n_inputs)
    json_fail(&j, "a graph of %u inputs is given %u", n, n_inputs);
  r->scope = inner;
  for (uint32_t i = 0; i < n; i++)
    if (names[i].p)
      ex_bind(r, names[i], inputs[i]);
  ex_read_nodes(r, nodes);
  ir_value **v = ex_read_outputs(r, out, n_outputs);
  r->scope = outer;
  session_leave(r->s);
  return v;
}
