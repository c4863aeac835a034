/* archive/exported_read_graph.c -- graphs of exported programs, from JSON to torch.fx's form, as
 * torch.export.load builds them: a node for each call, _operator.getitem where a call has several
 * results, get_attr for a graph that is an argument.  Names are those of the file; where older
 * minors have none they are made as PyTorch makes them.  Cost: O(bytes). */
#include "archive/exported_read.h"

#include "base/grow.h"
#include "ops/call/lookup.h"

/* -- Names of values --------------------------------------------------------------------------- */

static fx_node *find_node(program_reader *r, json *j, str name)
{
  fx_node *n = table_get(&r->scope->nodes, name);

  if (!n)
    json_fail(j, "there is no value '%.*s'", (int)name.len, name.p);
  return n;
}

/* Let the node be the value of that name. */
static void name_node(program_reader *r, json *j, fx_node *n, str name)
{
  if (table_get(&r->scope->nodes, name))
    json_fail(j, "a second value of the name '%.*s'", (int)name.len, name.p);
  n->name = read_keep(r, j, name);
  session_table_put(r->s, &r->scope->nodes, str_of(n->name), n);
}

/* -- Arguments --------------------------------------------------------------------------------- */

/* Read the member `name` or `as_name` of an object; other members are ignored. */
static str read_name(json *j)
{
  str key, name = {0};

  for (json_begin_object(j); json_next_key(j, &key);)
    if (str_is(key, "name") || str_is(key, "as_name"))
      name = json_string(j);
    else
      json_skip(j);
  if (!name.p)
    json_fail(j, "an argument without a name");
  return name;
}

static fx_arg read_node_name(program_reader *r, json *j)
{
  return fx_arg_node(find_node(r, j, read_name(j)));
}

static fx_arg read_int(program_reader *r, json *j)
{
  (void)r;
  return fx_arg_int(json_int(j));
}
static fx_arg read_float(program_reader *r, json *j)
{
  (void)r;
  return (fx_arg){.kind = FX_FLOAT, .as.f = json_double(j)};
}
static fx_arg read_bool(program_reader *r, json *j)
{
  (void)r;
  return (fx_arg){.kind = FX_BOOL, .as.b = json_bool(j)};
}
static fx_arg read_none(program_reader *r, json *j)
{
  (void)r;
  json_skip(j);
  return (fx_arg){.kind = FX_NONE};
}

static fx_arg text_arg(program_reader *r, fx_kind kind, str text)
{
  char *copy = read_keep_array(r, text.len + 1, 1);

  if (text.len)
    memcpy(copy, text.p, text.len);
  return (fx_arg){.kind = kind, .n = (uint32_t)text.len, .as.text = copy};
}

static fx_arg read_string(program_reader *r, json *j)
{
  return text_arg(r, FX_STRING, json_string(j));
}
static fx_arg read_operator(program_reader *r, json *j)
{
  return text_arg(r, FX_OPERATOR, str_of(read_keep(r, j, json_string(j))));
}

/* Read {"as_name": "s"} or a number: {"as_int": 3}. */
static fx_arg read_sym(program_reader *r, json *j)
{
  fx_arg a = {.kind = FX_NONE};
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (a.kind != FX_NONE)
      json_fail(j, "a symbolic argument with two values");
    if (str_is(key, "as_name"))
      a = fx_arg_node(find_node(r, j, json_string(j)));
    else if (str_is(key, "as_int"))
      a = read_int(r, j);
    else if (str_is(key, "as_float"))
      a = read_float(r, j);
    else if (str_is(key, "as_bool"))
      a = read_bool(r, j);
    else
      json_fail(j, "a symbolic argument of kind '%.*s'", (int)key.len, key.p);
  }
  if (a.kind == FX_NONE)
    json_fail(j, "an empty symbolic argument");
  return a;
}

static fx_arg read_optional_tensor(program_reader *r, json *j)
{
  fx_arg a = {.kind = FX_NONE};
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_tensor"))
      a = read_node_name(r, j);
    else if (str_is(key, "as_none"))
      json_skip(j);
    else
      json_fail(j, "an optional tensor of kind '%.*s'", (int)key.len, key.p);
  }
  return a;
}

const char *read_device_text(program_reader *r, json *j)
{
  str key, kind = {0};
  int64_t index = -1;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "type"))
      kind = json_string(j);
    else if (str_is(key, "index") && !json_is_null(j))
      index = json_int(j);
    else
      json_skip(j);
  }
  if (!kind.len)
    json_fail(j, "a device without a type");
  if (index < -1 || index > INT8_MAX)
    json_fail(j, "device index %lld; PyTorch has -1 to %d", (long long)index, INT8_MAX);
  const char *text = index < 0 ? session_printf(r->s, "%.*s", (int)kind.len, kind.p)
                               : session_printf(r->s, "%.*s:%lld", (int)kind.len, kind.p,
                                                (long long)index);
  return read_keep(r, j, str_of(text));
}

static fx_arg read_device(program_reader *r, json *j)
{
  const char *text = read_device_text(r, j);

  return (fx_arg){.kind = FX_DEVICE, .n = (uint32_t)strlen(text), .as.text = text};
}

static fx_arg read_complex(program_reader *r, json *j)
{
  double *c = read_keep_array(r, 2, sizeof *c);
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "real"))
      c[0] = json_double(j);
    else if (str_is(key, "imag"))
      c[1] = json_double(j);
    else
      json_skip(j);
  }
  return (fx_arg){.kind = FX_COMPLEX, .as.complex = c};
}

/* Read a number of the schema's and convert it to ours by a table in which -1 means that there is
 * none. */
static int64_t read_number_of(json *j, const char *what, const int8_t *ours, size_t n)
{
  int64_t v = json_int(j);

  if (v < 0 || v >= (int64_t)n || ours[v] < 0)
    json_fail(j, "%s %lld is none of the schema's", what, (long long)v);
  return ours[v];
}

/* Operators' numbers by the schema's. */
static const int8_t layouts[] = {-1, 1, 2, 4,
                                 5,  6, 3, 0}; /* unknown, sparse ones, mkldnn, strided */
static const int8_t formats[] = {-1, 0, 2, 3, 1}; /* unknown, contiguous, last, last 3d, preserve */
static const struct { uint8_t schema, ours; } dtypes[] = {
#define DTYPE(id, number, name, aten, c_name, bytes, class, tape, numpy, safetensors, exported, \
              ...)                                                                              \
  {exported, number},
#include "base/dtypes.def"
};

/* Return the schema's number of ours; 0: unknown. */
static int schema_number_of(int64_t number, const int8_t *ours, size_t n)
{
  for (size_t i = 1; i < n; i++)
    if (ours[i] == number)
      return (int)i;
  return 0;
}

int schema_layout_of(int64_t layout)
{
  return schema_number_of(layout, layouts, COUNT_OF(layouts));
}
int schema_memory_format_of(int64_t format)
{
  return schema_number_of(format, formats, COUNT_OF(formats));
}
int schema_dtype_of(int64_t dtype)
{
  for (size_t i = 0; i < COUNT_OF(dtypes); i++)
    if (dtypes[i].ours == dtype)
      return dtypes[i].schema;
  return 0;
}

int64_t read_schema_layout(json *j)
{
  return read_number_of(j, "layout", layouts, COUNT_OF(layouts));
}

int read_schema_dtype(json *j)
{
  int64_t v = json_int(j);

  for (size_t i = 0; i < COUNT_OF(dtypes); i++)
    if (dtypes[i].schema && dtypes[i].schema == v)
      return dtypes[i].ours;
  json_fail(j, "dtype number %lld is none of the schema's", (long long)v);
}

static fx_arg dtype_argument(program_reader *r, json *j)
{
  (void)r;
  return (fx_arg){.kind = FX_DTYPE, .as.i = read_schema_dtype(j)};
}
static fx_arg layout_argument(program_reader *r, json *j)
{
  (void)r;
  return (fx_arg){.kind = FX_LAYOUT, .as.i = read_schema_layout(j)};
}
static fx_arg format_argument(program_reader *r, json *j)
{
  (void)r;
  return (fx_arg){.kind = FX_MEMORY_FORMAT,
                  .as.i = read_number_of(j, "memory format", formats, COUNT_OF(formats))};
}

typedef fx_arg read_one(program_reader *r, json *j);

static fx_arg read_list(program_reader *r, json *j, fx_kind kind, read_one *one)
{
  fx_arg *items = NULL;
  uint32_t n = 0, cap = 0;

  for (json_begin_array(j); json_next_item(j); n++) {
    GROW(r->s, items, n, cap, 8);
    items[n] = one(r, j);
  }
  fx_arg *kept = read_keep_array(r, n, sizeof *kept);
  if (n)
    memcpy(kept, items, n * sizeof *kept);
  return (fx_arg){.kind = kind, .n = n, .as.items = kept};
}

static fx_arg read_node_names(program_reader *r, json *j)
{
  return read_list(r, j, FX_LIST, read_node_name);
}
static fx_arg read_int_tuple(program_reader *r, json *j)
{
  return read_list(r, j, FX_TUPLE, read_int);
}
static fx_arg read_float_list(program_reader *r, json *j)
{
  return read_list(r, j, FX_LIST, read_float);
}

/* Read a graph inside the current one; one of the same name must be the same graph. */
static void read_inner_graph(program_reader *r, const char *name, str text)
{
  const str *known = table_get(&r->scope->inner, str_of(name));
  fx_graph *outer = r->scope->graph;
  part parts[GRAPH_PARTS];
  graph_parts p = {0};
  json j;

  json_init_at(&j, r->s, &r->in, text);
  if (known && str_eq(*known, text))
    return;
  if (known)
    json_fail(&j, "a second graph of the name '%s'", name);
  str *kept = session_new(r->s, str);
  *kept = text;
  session_table_put(r->s, &r->scope->inner, str_of(name), kept);
  graph_parts_of(&p, parts);
  split_object(r, &j, parts, GRAPH_PARTS, &p.unknown);
  fx_graph_add_subgraph(r->s, outer, name, read_graph(r, &p, false));
}

/* Read as_graph: a get_attr node of this graph, whose target is a graph inside it. */
static fx_arg read_graph_argument(program_reader *r, json *j)
{
  str key, name = {0}, text = {0};

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "name"))
      name = json_string(j);
    else if (str_is(key, "graph"))
      text = json_unread(j);
    else
      json_skip(j);
  }
  if (!name.p || !text.p)
    json_fail(j, "a graph without a name, or a name without a graph");
  const char *target = read_keep(r, j, name);
  read_inner_graph(r, target, text);
  return fx_arg_node(fx_node_new(r->s, r->scope->graph, FX_GET_ATTR, target, target));
}

static fx_arg read_dict(program_reader *r, json *j)
{
  fx_named *items = NULL;
  uint32_t n = 0, cap = 0;
  str key;

  for (json_begin_object(j); json_next_key(j, &key); n++) {
    GROW(r->s, items, n, cap, 4);
    items[n].name = str_of(read_keep(r, j, key));
    items[n].arg = read_argument(r, j);
  }
  fx_named *kept = read_keep_array(r, n, sizeof *kept);
  if (n)
    memcpy(kept, items, n * sizeof *kept);
  return (fx_arg){.kind = FX_DICT, .n = n, .as.named = kept};
}

/* Read as_custom_obj: a value of the graph, or the name of a constant of the program. */
static fx_arg read_object(program_reader *r, json *j)
{
  fx_object *o = read_keep_array(r, 1, sizeof *o);
  str key;

  *o = (fx_object){NULL, ""};
  for (json_begin_object(j); json_next_key(j, &key);)
    if (str_is(key, "name"))
      o->name = read_keep(r, j, json_string(j));
    else if (str_is(key, "class_fqn"))
      o->class_name = read_keep(r, j, json_string(j));
    else
      json_skip(j);
  if (!o->name)
    json_fail(j, "a custom object without a name");
  fx_node *n = table_get(&r->scope->nodes, str_of(o->name));
  return n ? fx_arg_node(n) : (fx_arg){.kind = FX_OBJECT, .as.object = o};
}

static const struct arg_kind {
  const char *word;
  read_one *one;
  bool is_list; /* of such items */
} arg_kinds[] = {{"as_tensor", read_node_name, false},
                 {"as_none", read_none, false},
                 {"as_tensors", read_node_name, true},
                 {"as_int", read_int, false},
                 {"as_ints", read_int, true},
                 {"as_float", read_float, false},
                 {"as_floats", read_float, true},
                 {"as_bool", read_bool, false},
                 {"as_bools", read_bool, true},
                 {"as_string", read_string, false},
                 {"as_strings", read_string, true},
                 {"as_sym_int", read_sym, false},
                 {"as_sym_ints", read_sym, true},
                 {"as_sym_float", read_sym, false},
                 {"as_sym_floats", read_sym, true},
                 {"as_sym_bool", read_sym, false},
                 {"as_sym_bools", read_sym, true},
                 {"as_scalar_type", dtype_argument, false},
                 {"as_memory_format", format_argument, false},
                 {"as_layout", layout_argument, false},
                 {"as_device", read_device, false},
                 {"as_complex", read_complex, false},
                 {"as_optional_tensor", read_optional_tensor, false},
                 {"as_optional_tensors", read_optional_tensor, true},
                 {"as_nested_tensors", read_node_names, true},
                 {"as_int_lists", read_int_tuple, true},
                 {"as_float_lists", read_float_list, true},
                 {"as_graph", read_graph_argument, false},
                 {"as_operator", read_operator, false},
                 {"as_custom_obj", read_object, false},
                 {"as_string_to_argument", read_dict, false}};

fx_arg read_argument(program_reader *r, json *j)
{
  fx_arg a = {.kind = FX_NONE};
  uint32_t n = 0;
  str key;

  session_enter(r->s);
  for (json_begin_object(j); json_next_key(j, &key); n++) {
    const struct arg_kind *k = arg_kinds, *end = arg_kinds + COUNT_OF(arg_kinds);
    while (k < end && !str_is(key, k->word))
      k++;
    if (k == end)
      json_fail(j, "an argument of kind '%.*s' is not known here", (int)key.len, key.p);
    a = k->is_list ? read_list(r, j, FX_LIST, k->one) : k->one(r, j);
  }
  if (n != 1)
    json_fail(j, "an argument of %u kinds", n);
  session_leave(r->s);
  return a;
}

fx_arg read_constant(program_reader *r, json *j, str kind)
{
  static const struct arg_kind plain[] = {{"as_none", read_none, false},
                                          {"as_int", read_int, false},
                                          {"as_float", read_float, false},
                                          {"as_bool", read_bool, false},
                                          {"as_string", read_string, false}};

  for (size_t i = 0; i < COUNT_OF(plain); i++)
    if (str_is(kind, plain[i].word))
      return plain[i].one(r, j);
  json_fail(j, "a constant of kind '%.*s' is not known here", (int)kind.len, kind.p);
}

/* -- Inputs of a node -------------------------------------------------------------------------- */

typedef struct node_reader { /* a node as it is read */
  fx_unknown *unknown;
  str target, name, inputs, outputs, metadata;
  bool is_single_tensor; /* a higher-order operator returns a tensor, and no tuple of one */
  const op *op;      /* NULL: not of the table */
  bool is_operator;  /* torch.ops.NAMESPACE.NAME.OVERLOAD */
  bool is_higher_order, is_symbolic;
} node_reader;

#define KIND_POSITIONAL 1 /* of the schema; 2: by name */

static bool is_keyword(str name)
{
  static const char *const words[] = {"from", "in", "is", "lambda", "not", "or", "and", "if"};

  for (size_t i = 0; i < COUNT_OF(words); i++)
    if (str_is(name, words[i]))
      return true;
  return false;
}

/* True if the argument was given by position.  Older minors do not say: then required arguments
 * were, as far as the schema lets them. */
static bool is_positional(const node_reader *n, str name, int64_t kind)
{
  const int at = n->op ? schema_arg_index(n->op->schema, name) : -1;

  if (n->is_symbolic || !name.len)
    return true;
  if (kind == KIND_POSITIONAL || (n->is_operator && is_keyword(name)))
    return true;
  if (kind != 0 || !n->is_operator)
    return false;
  return at < 0 || (!n->op->schema->args[at].has_default && !n->op->schema->args[at].kwarg_only);
}

typedef struct input_list {
  fx_named *args, *kwargs;
  uint32_t n_args, n_kwargs, cap_args, cap_kwargs;
  bool *given; /* by argument of the schema */
  bool has_other_names; /* than the operator's schema */
} input_list;

/* Check the name of an operator's argument.  Returns whether it can stand by its position: those
 * before it were given so. */
static bool check_input(program_reader *r, json *j, const node_reader *n, str name, input_list *l)
{
  const schema *sc = n->op->schema;
  const int at = schema_arg_index(sc, name);

  if (at < 0)
    json_fail(j, "%s has no argument '%.*s'", sc->name, (int)name.len, name.p);
  if (!l->given)
    l->given = session_array(r->s, bool, (size_t)sc->n_args + 1);
  if (l->given[at])
    json_fail(j, "%s is given its argument '%s' twice", sc->name, sc->args[at].name);
  l->given[at] = true;
  return (uint32_t)at == l->n_args;
}

static void read_input(program_reader *r, json *j, const node_reader *n, input_list *l)
{
  fx_arg a = {.kind = FX_NONE};
  str key, name = {0};
  bool found = false;
  int64_t kind = 0;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "name")) {
      name = json_string(j);
    } else if (str_is(key, "arg")) {
      a = read_argument(r, j);
      found = true;
    } else if (str_is(key, "kind") && !json_is_null(j)) {
      kind = json_int(j);
    } else {
      json_skip(j);
    }
  }
  if (!found)
    json_fail(j, "an input without an argument");
  const bool is_next = !n->op || !name.len || check_input(r, j, n, name, l);
  if (is_next && is_positional(n, name, kind)) {
    GROW(r->s, l->args, l->n_args, l->cap_args, 8);
    const schema *sc = n->op ? n->op->schema : NULL;
    l->has_other_names |= sc && l->n_args < sc->n_args ? !str_is(name, sc->args[l->n_args].name)
                                                       : name.len > 0;
    l->args[l->n_args++] = (fx_named){str_of(read_keep(r, j, name)), a};
    return;
  }
  GROW(r->s, l->kwargs, l->n_kwargs, l->cap_kwargs, 4);
  l->kwargs[l->n_kwargs++] = (fx_named){str_of(read_keep(r, j, name)), a};
}

static void set_inputs(program_reader *r, fx_node *n, const input_list *l)
{
  fx_arg *args = read_keep_array(r, l->n_args, sizeof *args);
  fx_named *kwargs = read_keep_array(r, l->n_kwargs, sizeof *kwargs);

  str *names = l->has_other_names ? read_keep_array(r, l->n_args, sizeof *names) : NULL;
  for (uint32_t i = 0; i < l->n_args; i++) {
    args[i] = l->args[i].arg;
    if (names)
      names[i] = l->args[i].name;
  }
  if (l->n_kwargs)
    memcpy(kwargs, l->kwargs, l->n_kwargs * sizeof *kwargs);
  n->args = args;
  n->n_args = l->n_args;
  n->arg_names = names;
  n->kwargs = kwargs;
  n->n_kwargs = l->n_kwargs;
}

/* -- Outputs of a node ------------------------------------------------------------------------- */

static fx_node *new_getitem(program_reader *r, fx_node *of, uint32_t i, const char *name)
{
  fx_node *n = fx_node_new(r->s, r->scope->graph, FX_CALL_FUNCTION, "_operator.getitem", name);
  fx_arg *args = read_keep_array(r, 2, sizeof *args);

  args[0] = fx_arg_node(of);
  args[1] = fx_arg_int(i);
  n->args = args;
  n->n_args = 2;
  n->metadata = of->metadata;
  n->at = of->at;
  return n;
}

static fx_node *read_output(program_reader *r, json *j, fx_node *of, uint32_t i);

/* Return a value of n items, which are those of the nodes when these are described. */
static const fx_val *list_val(program_reader *r, fx_node *const *nodes, uint32_t n, bool is_tuple)
{
  fx_val *v = read_keep_array(r, 1, sizeof *v);
  const fx_val **items = read_keep_array(r, n, sizeof *items);
  read_scope *to = r->scope;

  for (uint32_t i = 0; i < n; i++) {
    if (!nodes[i])
      continue;
    GROW(r->s, to->items, to->n_items, to->cap_items, 16);
    to->items[to->n_items++] = (list_item){&items[i], nodes[i]};
  }
  *v = (fx_val){.kind = FX_VAL_LIST, .is_tuple = is_tuple, .n = n, .as.items = items};
  return v;
}

/* Read {"name": ...}: result i of a node. */
static fx_node *read_item(program_reader *r, json *j, fx_node *of, uint32_t i)
{
  str name = read_name(j);
  fx_node *n = new_getitem(r, of, i, session_strndup(r->s, name.p, name.len));

  name_node(r, j, n, name);
  return n;
}

/* Read a list of results: items are objects with a name, or (`tagged`) arguments. */
static const fx_val *read_outputs(program_reader *r, json *j, fx_node *of, bool tagged)
{
  fx_node **nodes = NULL;
  uint32_t n = 0, cap = 0;

  for (json_begin_array(j); json_next_item(j); n++) {
    GROW(r->s, nodes, n, cap, 4);
    nodes[n] = tagged ? read_output(r, j, of, n) : read_item(r, j, of, n);
  }
  return list_val(r, nodes, n, tagged);
}

/* Read one of several results: a value, a list of values, or none, for which it returns NULL. */
static fx_node *read_output(program_reader *r, json *j, fx_node *of, uint32_t i)
{
  fx_node *n = NULL;
  str key;

  session_enter(r->s);
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_none")) {
      json_skip(j);
      new_getitem(r, of, i, "as_none")->returns_none = true;
    } else if (json_peek(j) == JSON_ARRAY) {
      n = new_getitem(r, of, i, NULL);
      n->val = read_outputs(r, j, n, false);
    } else {
      n = read_item(r, j, of, i);
    }
  }
  session_leave(r->s);
  return n;
}

/* What the first of a node's outputs is. */
typedef struct first_output {
  uint32_t n;
  str kind, name; /* name: of a single value */
} first_output;

static first_output look_at_outputs(program_reader *r, str outputs)
{
  first_output f = {0};
  str key;
  json j;

  json_init_at(&j, r->s, &r->in, outputs);
  for (json_begin_array(&j); json_next_item(&j); f.n++) {
    if (f.n) {
      json_skip(&j);
      continue;
    }
    for (json_begin_object(&j); json_next_key(&j, &key);) {
      f.kind = key;
      if (json_peek(&j) == JSON_OBJECT)
        f.name = read_name(&j);
      else
        json_skip(&j);
    }
  }
  return f;
}

/* Give the node its results: its own name, or getitem nodes behind it. */
static void set_outputs(program_reader *r, json *j, const node_reader *from, const first_output *f,
                        fx_node *n)
{
  const bool is_tuple =
    f->n == 1 && f->name.p && from->is_higher_order && !from->is_single_tensor;

  if (f->n == 0)
    return;
  if (f->n == 1 && str_is(f->kind, "as_none")) {
    n->returns_none = true;
    n->file_name = n->name;
    n->name = fx_names_make(r->s, &n->graph->names,
                            str_of(session_printf(r->s, "%s_unused",
                                                  fx_target_name(r->s, n->target))));
    return;
  }
  if (f->n == 1 && f->name.p && !is_tuple) {
    name_node(r, j, n, f->name);
    return;
  }
  json outputs;
  json_init_at(&outputs, r->s, &r->in, from->outputs);
  if (f->n > 1 || is_tuple) {
    n->val = read_outputs(r, &outputs, n, true);
  } else { /* one list */
    str key;
    json_begin_array(&outputs);
    json_next_item(&outputs);
    for (json_begin_object(&outputs); json_next_key(&outputs, &key);)
      n->val = read_outputs(r, &outputs, n, false);
  }
  session_table_put(r->s, &r->scope->nodes, str_of(n->name), n);
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static bool begins(str text, const char *with)
{
  size_t n = strlen(with);

  return text.len >= n && memcmp(text.p, with, n) == 0;
}

static void classify(program_reader *r, node_reader *n)
{
  n->is_higher_order = begins(n->target, "torch.ops.higher_order.");
  n->is_operator = !n->is_higher_order && begins(n->target, "torch.ops.");
  n->is_symbolic = begins(n->target, "_operator.") || begins(n->target, "math.") ||
                   begins(n->target, "torch.sym_") || begins(n->target, "torch._sym_") ||
                   begins(n->target, "builtins.");
  n->op = n->is_operator ? session_op_of_target(r->s, n->target) : NULL;
}

/* Return the name that the node is made with; NULL: one from its target. */
static str first_name(const node_reader *n, const first_output *f)
{
  if (n->name.p)
    return n->name;
  const bool is_tensor = f->n == 1 && str_is(f->kind, "as_tensor");
  if (n->is_symbolic || (is_tensor && !(n->is_higher_order && !n->is_single_tensor)))
    return f->name;
  return (str){0};
}

static node_reader split_node(program_reader *r, json *j)
{
  node_reader n = {0};
  str key;

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "target"))
      n.target = json_string(j);
    else if (str_is(key, "inputs"))
      n.inputs = json_unread(j);
    else if (str_is(key, "outputs"))
      n.outputs = json_unread(j);
    else if (str_is(key, "metadata"))
      n.metadata = json_raw(j);
    else if (json_is_null(j))
      json_skip(j);
    else if (str_is(key, "is_hop_single_tensor_return"))
      n.is_single_tensor = json_bool(j);
    else if (str_is(key, "name"))
      n.name = json_string(j);
    else
      read_unknown(r, j, key, &n.unknown);
  }
  if (!n.target.p || !n.inputs.p || !n.outputs.p)
    json_fail(j, "a node without target, inputs or outputs");
  return n;
}

static void read_node(program_reader *r, json *j)
{
  const size_t at = j->pos;
  node_reader from = split_node(r, j);
  fx_graph *g = r->scope->graph;
  input_list l = {0};
  json inputs;

  session_enter(r->s);
  classify(r, &from);
  fx_node *before = g->last;
  json_init_at(&inputs, r->s, &r->in, from.inputs);
  for (json_begin_array(&inputs); json_next_item(&inputs);)
    read_input(r, &inputs, &from, &l);
  for (fx_node *n = before ? before->next : g->first; n;
       n = n->next) { /* graphs among the inputs */
    n->metadata = from.metadata;
    n->at = at;
  }
  const first_output f = look_at_outputs(r, from.outputs);
  const str name = first_name(&from, &f);
  fx_node *n = fx_node_new(r->s, g, FX_CALL_FUNCTION, read_keep(r, j, from.target),
                           name.p ? session_strndup(r->s, name.p, name.len) : NULL);
  n->metadata = from.metadata;
  n->unknown = from.unknown;
  n->at = at;
  set_inputs(r, n, &l);
  set_outputs(r, j, &from, &f, n);
  session_leave(r->s);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static const fx_val *constant_val(program_reader *r, fx_arg a)
{
  fx_val *v = read_keep_array(r, 1, sizeof *v);

  *v = (fx_val){.kind = FX_VAL_CONSTANT, .as.constant = a};
  return v;
}

/* Read an input: a value, or a constant, which is named by the signature. */
static void read_graph_input(program_reader *r, json *j, uint32_t i, bool is_outermost)
{
  fx_graph *g = r->scope->graph;
  const size_t at = j->pos;
  fx_node *n;
  str key;

  json_begin_object(j);
  if (!json_next_key(j, &key))
    json_fail(j, "an input of no kind");
  if (json_peek(j) == JSON_OBJECT) {
    str name = read_name(j);
    const char *text = read_keep(r, j, name);
    n = fx_node_new(r->s, g, FX_PLACEHOLDER, text, text);
    name_node(r, j, n, name);
  } else {
    fx_arg a = read_constant(r, j, key);
    const char *given = is_outermost && i < r->p->n_inputs ? r->p->inputs[i].arg.name : "";
    const char *text = *given ? given : session_printf(r->s, "arg%u", i);
    text = read_keep(r, j, str_of(text));
    n = fx_node_new(r->s, g, FX_PLACEHOLDER, text, text);
    n->val = constant_val(r, a);
  }
  n->at = at;
  if (json_next_key(j, &key))
    json_fail(j, "an input of two kinds");
}

static void add_output(program_reader *r, const graph_parts *p)
{
  fx_arg *args = read_keep_array(r, 1, sizeof *args);
  bool is_single = false;
  json j;

  if (p->is_single.p) {
    json_init_at(&j, r->s, &r->in, p->is_single);
    is_single = json_bool(&j);
  }
  json_init_at(&j, r->s, &r->in, p->outputs);
  args[0] = read_list(r, &j, FX_TUPLE, read_argument);
  if (is_single && args[0].n != 1)
    json_fail(&j, "a graph of a single result has %u", args[0].n);
  if (is_single)
    args[0] = args[0].as.items[0];
  fx_node *n = fx_node_new(r->s, r->scope->graph, FX_OUTPUT, "output", "output");
  n->args = args;
  n->n_args = 1;
}

void graph_parts_of(graph_parts *p, part out[GRAPH_PARTS])
{
  const part parts[GRAPH_PARTS] = {
    {.name = "inputs", .raw = &p->inputs},
    {.name = "outputs", .raw = &p->outputs},
    {.name = "nodes", .raw = &p->nodes},
    {.name = "is_single_tensor_return", .raw = &p->is_single},
    {.name = "tensor_values", .raw = &p->values[FX_VAL_TENSOR]},
    {.name = "sym_int_values", .raw = &p->values[FX_VAL_INT]},
    {.name = "sym_float_values", .raw = &p->values[FX_VAL_FLOAT]},
    {.name = "sym_bool_values", .raw = &p->values[FX_VAL_BOOL]},
    {.name = "custom_obj_values", .raw = &p->values[FX_VAL_OBJECT]}};

  memcpy(out, parts, sizeof parts);
}

fx_graph *read_graph(program_reader *r, const graph_parts *p, bool is_outermost)
{
  read_scope *outer = r->scope, *scope = session_new(r->s, read_scope);
  uint32_t i = 0;
  json items;

  if (!p->inputs.p || !p->outputs.p || !p->nodes.p)
    input_fail(r->s, &r->in, 0, "a graph without inputs, outputs or nodes");
  session_enter(r->s);
  session_table_init(r->s, &scope->nodes);
  session_table_init(r->s, &scope->inner);
  scope->graph = fx_graph_new(r->s, &r->p->mem);
  scope->graph->unknown = p->unknown;
  r->scope = scope;
  json_init_at(&items, r->s, &r->in, p->inputs);
  for (json_begin_array(&items); json_next_item(&items); i++)
    read_graph_input(r, &items, i, is_outermost);
  json_init_at(&items, r->s, &r->in, p->nodes);
  for (json_begin_array(&items); json_next_item(&items);)
    read_node(r, &items);
  add_output(r, p);
  fx_graph_count_users(r->s, scope->graph);
  read_descriptions(r, p);
  r->scope = outer;
  session_leave(r->s);
  return scope->graph;
}
