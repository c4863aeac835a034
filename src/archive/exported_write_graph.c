/* archive/exported_write_graph.c -- graphs of exported programs as JSON, as torch.export.save
 * writes them: calls only.  Results of a call are named by the _operator.getitem nodes behind it,
 * and by `NODE_unused_INDEX` where there is none; a get_attr node is written where it is used, as
 * the graph that it stands for.  The kind of a list is found from its items, and for an empty one
 * from the operator's schema.  Cost: O(nodes and arguments). */
#include "archive/exported_write.h"

#include <math.h>

#include "ops/call/lookup.h"

/* The most nodes of one file: a graph that is used twice is written twice, so that nested graphs
 * could make a small program large. */
#define MOST_NODES (1u << 22)

enum { N_VALUES = FX_VAL_OBJECT + 1 };
typedef struct graph_writer {
  session *s;
  text_buf *out;
  text_buf *values[N_VALUES]; /* by fx_val_kind: what is known of values, members of an object */
  const fx_node **items;      /* by node: the last of the getitem nodes behind it; NULL: none */
  const fx_node **previous;   /* by getitem node: the one before, of the same node */
  const fx_node **same;       /* by getitem node: the first one of the same item */
  uint32_t *n_nodes;          /* of the file */
} graph_writer;

static void write_inner_graph(session *s, text_buf *out, const fx_graph *g, uint32_t *n_nodes);

/* -- Numbers and texts ------------------------------------------------------------------------- */

void write_comma(text_buf *out, size_t start)
{
  if (out->len > start)
    text_puts(out, ", ");
}

void write_text(text_buf *out, const char *text) { json_quote(out, str_of(text)); }

void write_unknown(session *s, text_buf *out, const fx_unknown *list)
{
  if (!list)
    return;
  session_enter(s);
  write_unknown(s, out, list->next);
  session_leave(s);
  text_puts(out, ", ");
  json_quote(out, list->name);
  text_puts(out, ": ");
  text_add(out, list->json.p, list->json.len);
}

/* Append {"KEY": {"name": "NAME"}}. */
static void write_named(text_buf *out, const char *kind, const char *member, const char *name)
{
  text_printf(out, "{\"%s\": {\"%s\": ", kind, member);
  write_text(out, name);
  text_puts(out, "}}");
}

static void write_float(text_buf *out, double d)
{
  char text[FLOAT_REPR_BYTES];

  if (isnan(d))
    text_puts(out, "\"NaN\"");
  else if (isinf(d))
    text_puts(out, d > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  else
    text_add(out, text, float_repr(d, text));
}

static void write_int(text_buf *out, int64_t i) { text_printf(out, "%lld", (long long)i); }
static void write_bool(text_buf *out, bool b) { text_puts(out, b ? "true" : "false"); }

static void write_device(text_buf *out, const char *device)
{
  const char *colon = strrchr(device, ':');

  if (colon && (!colon[1] || colon[1 + strspn(colon + 1, "0123456789")]))
    colon = NULL; /* no index: part of the name */
  text_puts(out, "{\"type\": ");
  json_quote(out, (str){device, colon ? (size_t)(colon - device) : strlen(device)});
  text_printf(out, ", \"index\": %s}", colon ? colon + 1 : "null");
}

/* -- What is known of values ------------------------------------------------------------------- */

/* Append {"as_int": 3}, or as_float or as_bool. */
static void write_value(text_buf *out, fx_val_kind kind, const fx_number *n)
{
  if (kind == FX_VAL_FLOAT) {
    text_puts(out, "{\"as_float\": ");
    write_float(out, n->value.f);
  } else if (kind == FX_VAL_BOOL) {
    text_puts(out, "{\"as_bool\": ");
    write_bool(out, n->value.b);
  } else {
    text_puts(out, "{\"as_int\": ");
    write_int(out, n->value.i);
  }
  text_putc(out, '}');
}

static void write_number(session *s, text_buf *out, fx_val_kind kind, const fx_number *n)
{
  text_buf *expr;

  if (!n->expr) {
    write_value(out, kind, n);
    return;
  }
  expr = session_text(s);
  expression_print_srepr(s, expr, n->expr);
  text_puts(out, "{\"as_expr\": {\"expr_str\": ");
  write_text(out, session_take_text(s, expr));
  text_puts(out, ", \"hint\": ");
  if (n->has_value)
    write_value(out, kind, n);
  else
    text_puts(out, "null");
  text_puts(out, "}}");
}

static void write_numbers(session *s, text_buf *out, const fx_number *items, uint32_t n)
{
  text_putc(out, '[');
  for (uint32_t i = 0; i < n; i++) {
    text_puts(out, i ? ", " : "");
    write_number(s, out, FX_VAL_INT, &items[i]);
  }
  text_putc(out, ']');
}

static void write_tensor(session *s, text_buf *out, const fx_tensor *t)
{
  text_printf(out, "{\"dtype\": %d, \"sizes\": ", schema_dtype_of(t->dtype));
  write_numbers(s, out, t->sizes, t->n_dims);
  text_printf(out, ", \"requires_grad\": %s, \"device\": ", t->requires_grad ? "true" : "false");
  write_device(out, t->device);
  text_puts(out, ", \"strides\": ");
  write_numbers(s, out, t->strides, t->n_strides);
  text_puts(out, ", \"storage_offset\": ");
  write_number(s, out, FX_VAL_INT, &t->offset);
  text_printf(out, ", \"layout\": %d}", schema_layout_of(t->layout));
}

static void write_object(text_buf *out, const char *name, const char *class_name)
{
  text_puts(out, "{\"name\": ");
  write_text(out, name);
  text_puts(out, ", \"class_fqn\": ");
  write_text(out, class_name);
  text_putc(out, '}');
}

/* Note what is known of the value of that name. */
static void describe(graph_writer *w, const char *name, const fx_val *v)
{
  text_buf *out = w->values[v->kind];

  write_comma(out, 0);
  write_text(out, name);
  text_puts(out, ": ");
  if (v->kind == FX_VAL_TENSOR)
    write_tensor(w->s, out, v->as.tensor);
  else if (v->kind == FX_VAL_OBJECT)
    write_object(out, name, v->as.class_name);
  else
    write_number(w->s, out, v->kind, v->as.number);
}

/* -- Values by name ---------------------------------------------------------------------------- */

static bool is_symbolic(const fx_val *v)
{
  return v && (v->kind == FX_VAL_INT || v->kind == FX_VAL_FLOAT || v->kind == FX_VAL_BOOL);
}

static const char *number_word(fx_val_kind kind)
{
  return kind == FX_VAL_INT ? "as_sym_int" : kind == FX_VAL_FLOAT ? "as_sym_float" : "as_sym_bool";
}

/* Append the argument that names a value: {"as_tensor": {"name": ...}}. */
static void write_reference(graph_writer *w, const char *name, const fx_val *v)
{
  if (is_symbolic(v)) {
    write_named(w->out, number_word(v->kind), "as_name", name);
  } else if (v && v->kind == FX_VAL_OBJECT) {
    text_puts(w->out, "{\"as_custom_obj\": ");
    write_object(w->out, name, v->as.class_name);
    text_putc(w->out, '}');
  } else {
    write_named(w->out, "as_tensor", "name", name);
  }
}

/* Append a value that begins here, and note what is known of it. */
static void write_definition(graph_writer *w, const char *name, const fx_val *v)
{
  if (!v || v->kind == FX_VAL_LIST || v->kind == FX_VAL_CONSTANT)
    session_fail_status(w->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "the value '%s' cannot be written: %s", name,
                        v ? "it is no tensor, number or object" : "nothing is known of it");
  write_reference(w, name, v);
  describe(w, name, v);
}

/* -- Arguments --------------------------------------------------------------------------------- */

static void write_arg(graph_writer *w, const fx_arg *a, const type *t);

static bool is_kind(const fx_arg *a, fx_kind kind) { return a->kind == kind; }
static bool is_int(const fx_arg *a) { return is_kind(a, FX_INT); }
static bool is_float(const fx_arg *a) { return is_kind(a, FX_FLOAT); }
static bool is_bool(const fx_arg *a) { return is_kind(a, FX_BOOL); }
static bool is_string(const fx_arg *a) { return is_kind(a, FX_STRING); }
static bool is_node(const fx_arg *a)
{
  return is_kind(a, FX_NODE) && a->as.node->op != FX_GET_ATTR;
}
static bool is_node_or_none(const fx_arg *a) { return is_node(a) || is_kind(a, FX_NONE); }
static bool is_known_as(const fx_arg *a, fx_val_kind kind)
{
  return is_node(a) && a->as.node->val && a->as.node->val->kind == kind;
}
static bool is_sym_int(const fx_arg *a) { return is_int(a) || is_known_as(a, FX_VAL_INT); }
static bool is_sym_float(const fx_arg *a) { return is_float(a) || is_known_as(a, FX_VAL_FLOAT); }
static bool is_sym_bool(const fx_arg *a) { return is_bool(a) || is_known_as(a, FX_VAL_BOOL); }

typedef bool is_item(const fx_arg *a);

static bool is_all(const fx_arg *list, is_item *is)
{
  for (uint32_t i = 0; i < list->n; i++)
    if (!is(&list->as.items[i]))
      return false;
  return true;
}

static bool is_sequence(const fx_arg *a) { return a->kind == FX_LIST || a->kind == FX_TUPLE; }
static bool is_nodes(const fx_arg *a) { return is_sequence(a) && is_all(a, is_node); }
static bool is_int_tuple(const fx_arg *a) { return a->kind == FX_TUPLE && is_all(a, is_int); }
static bool is_floats(const fx_arg *a) { return is_sequence(a) && is_all(a, is_float); }

static const char *value_name(const graph_writer *w, const fx_node *n)
{
  const fx_node *same = w->same[n->index];

  return same ? same->name : n->name;
}

/* Append a text, number or value without the kind that an argument has. */
static void write_bare(graph_writer *w, const fx_arg *a)
{
  switch (a->kind) {
  case FX_INT:
    write_int(w->out, a->as.i);
    break;
  case FX_FLOAT:
    write_float(w->out, a->as.f);
    break;
  case FX_BOOL:
    write_bool(w->out, a->as.b);
    break;
  case FX_STRING:
    json_quote(w->out, (str){a->as.text, a->n});
    break;
  case FX_NODE:
    text_puts(w->out, "{\"name\": ");
    write_text(w->out, value_name(w, a->as.node));
    text_putc(w->out, '}');
    break;
  default: /* a list: the lists of this file have no other items */
    text_putc(w->out, '[');
    for (uint32_t i = 0; i < a->n; i++) {
      text_puts(w->out, i ? ", " : "");
      write_bare(w, &a->as.items[i]);
    }
    text_putc(w->out, ']');
  }
}

/* Append an item of a list in which some are values of the graph: {"as_name": "s"}, {"as_int": 3}.
 */
static void write_sym_item(graph_writer *w, const fx_arg *a)
{
  if (a->kind == FX_NODE) {
    text_puts(w->out, "{\"as_name\": ");
    write_text(w->out, value_name(w, a->as.node));
    text_putc(w->out, '}');
  } else {
    write_arg(w, a, NULL);
  }
}

/* Append an item of a list of optional tensors. */
static void write_optional_item(graph_writer *w, const fx_arg *a)
{
  if (a->kind == FX_NODE)
    write_named(w->out, "as_tensor", "name", value_name(w, a->as.node));
  else
    text_puts(w->out, "{\"as_none\": true}");
}

/* The kinds of lists, in the order in which PyTorch tries them. */
static const struct list_kind {
  const char *word;
  is_item *is;
  void (*write)(graph_writer *w, const fx_arg *item);
} list_kinds[] = {{"as_bools", is_bool, write_bare},
                  {"as_ints", is_int, write_bare},
                  {"as_floats", is_float, write_bare},
                  {"as_strings", is_string, write_bare},
                  {"as_sym_ints", is_sym_int, write_sym_item},
                  {"as_sym_floats", is_sym_float, write_sym_item},
                  {"as_sym_bools", is_sym_bool, write_sym_item},
                  {"as_tensors", is_node, write_bare},
                  {"as_nested_tensors", is_nodes, write_bare},
                  {"as_optional_tensors", is_node_or_none, write_optional_item},
                  {"as_int_lists", is_int_tuple, write_bare},
                  {"as_float_lists", is_floats, write_bare}};

static const type *without_optional(const type *t)
{
  return t && t->kind == TYPE_OPTIONAL ? t->elems[0] : t;
}

/* Return the kind of an empty list for a parameter of that type; NULL: the type is not known. */
static const char *empty_word(const type *t)
{
  t = without_optional(t);
  const type *item = t && t->kind == TYPE_LIST ? without_optional(t->elems[0]) : NULL;

  if (!item)
    return "as_tensors";
  return item->kind == TYPE_BOOL     ? "as_bools"
         : item->kind == TYPE_FLOAT  ? "as_floats"
         : item->kind == TYPE_STRING  ? "as_strings"
         : item->kind == TYPE_TENSOR ? "as_tensors"
                                     : "as_ints";
}

static void write_list(graph_writer *w, const fx_arg *a, const type *t)
{
  const struct list_kind *k = list_kinds, *end = list_kinds + COUNT_OF(list_kinds);

  if (a->n == 0) {
    text_printf(w->out, "{\"%s\": []}", empty_word(t));
    return;
  }
  while (k < end && !is_all(a, k->is))
    k++;
  if (k == end)
    session_fail_status(w->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "a list of %u arguments of several kinds cannot be written", a->n);
  text_printf(w->out, "{\"%s\": [", k->word);
  for (uint32_t i = 0; i < a->n; i++) {
    text_puts(w->out, i ? ", " : "");
    k->write(w, &a->as.items[i]);
  }
  text_puts(w->out, "]}");
}

static void write_dict(graph_writer *w, const fx_arg *a)
{
  text_puts(w->out, "{\"as_string_to_argument\": {");
  for (uint32_t i = 0; i < a->n; i++) {
    text_puts(w->out, i ? ", " : "");
    json_quote(w->out, a->as.named[i].name);
    text_puts(w->out, ": ");
    write_arg(w, &a->as.named[i].arg, NULL);
  }
  text_puts(w->out, "}}");
}

static void write_node(graph_writer *w, const fx_node *n)
{
  if (n->op != FX_GET_ATTR) {
    write_reference(w, value_name(w, n), n->val);
    return;
  }
  const fx_graph *g = fx_graph_subgraph(n->graph, n->target);
  if (!g)
    session_fail_status(w->s, RUSH_EFORMAT, NULL, NULL, "there is no graph '%s'", n->target);
  text_puts(w->out, "{\"as_graph\": {\"name\": ");
  write_text(w->out, n->target);
  text_puts(w->out, ", \"graph\": ");
  write_inner_graph(w->s, w->out, g, w->n_nodes);
  text_puts(w->out, "}}");
}

/* Append an argument of one of the plain kinds: {"WORD": value}. */
static void write_plain(graph_writer *w, const fx_arg *a)
{
  static const char *const words[] = {[FX_INT] = "as_int",
                                      [FX_FLOAT] = "as_float",
                                      [FX_BOOL] = "as_bool",
                                      [FX_STRING] = "as_string"};

  text_printf(w->out, "{\"%s\": ", words[a->kind]);
  write_bare(w, a);
  text_putc(w->out, '}');
}

static void write_complex(text_buf *out, const double *c)
{
  text_puts(out, "{\"as_complex\": {\"real\": ");
  write_float(out, c[0]);
  text_puts(out, ", \"imag\": ");
  write_float(out, c[1]);
  text_puts(out, "}}");
}

/* Append an argument; `t` is the type of its parameter, or NULL. */
static void write_arg(graph_writer *w, const fx_arg *a, const type *t)
{
  text_buf *out = w->out;

  session_enter(w->s);
  switch (a->kind) {
  case FX_NONE:
    text_puts(out, "{\"as_none\": true}");
    break;
  case FX_NODE:
    write_node(w, a->as.node);
    break;
  case FX_INT:
  case FX_FLOAT:
  case FX_BOOL:
  case FX_STRING:
    write_plain(w, a);
    break;
  case FX_COMPLEX:
    write_complex(out, a->as.complex);
    break;
  case FX_DTYPE:
    text_printf(out, "{\"as_scalar_type\": %d}", schema_dtype_of(a->as.i));
    break;
  case FX_LAYOUT:
    text_printf(out, "{\"as_layout\": %d}", schema_layout_of(a->as.i));
    break;
  case FX_MEMORY_FORMAT:
    text_printf(out, "{\"as_memory_format\": %d}", schema_memory_format_of(a->as.i));
    break;
  case FX_DEVICE:
    text_puts(out, "{\"as_device\": ");
    write_device(out, a->as.text);
    text_putc(out, '}');
    break;
  case FX_OPERATOR:
    text_puts(out, "{\"as_operator\": ");
    write_text(out, a->as.text);
    text_putc(out, '}');
    break;
  case FX_OBJECT:
    text_puts(out, "{\"as_custom_obj\": ");
    write_object(out, a->as.object->name, a->as.object->class_name);
    text_putc(out, '}');
    break;
  case FX_LIST:
  case FX_TUPLE:
    write_list(w, a, t);
    break;
  case FX_DICT:
    write_dict(w, a);
    break;
  }
  session_leave(w->s);
}

void write_constant(session *s, text_buf *out, const fx_arg *a)
{
  write_arg(&(graph_writer){.s = s, .out = out}, a, NULL);
}

/* -- Inputs of a node -------------------------------------------------------------------------- */

enum { KIND_POSITIONAL = 1, KIND_KEYWORD = 2 }; /* of the schema */

static void write_input(graph_writer *w, str name, const fx_arg *a, const type *t, int kind)
{
  text_puts(w->out, "{\"name\": ");
  json_quote(w->out, name);
  text_puts(w->out, ", \"arg\": ");
  write_arg(w, a, t);
  text_printf(w->out, ", \"kind\": %d}", kind);
}

static void write_inputs(graph_writer *w, const fx_node *n, const schema *sc)
{
  text_putc(w->out, '[');
  for (uint32_t i = 0; i < n->n_args; i++) {
    const schema_arg *a = sc && i < sc->n_args ? &sc->args[i] : NULL;
    const str name = n->arg_names ? n->arg_names[i] : str_of(a ? a->name : "");
    text_puts(w->out, i ? ", " : "");
    write_input(w, name, &n->args[i], a ? a->type : NULL, KIND_POSITIONAL);
  }
  for (uint32_t i = 0; i < n->n_kwargs; i++) {
    const fx_named *given = &n->kwargs[i];
    const int at = sc ? schema_arg_index(sc, given->name) : -1;
    text_puts(w->out, i + n->n_args ? ", " : "");
    write_input(w, given->name, &given->arg, at < 0 ? NULL : sc->args[at].type, KIND_KEYWORD);
  }
  text_putc(w->out, ']');
}

/* -- Results of a node ------------------------------------------------------------------------- */

/* True for a getitem node that names a result of a call, and is no call itself. */
static bool names_result(const fx_node *n)
{
  const fx_arg *a = n->args;

  return n->op == FX_CALL_FUNCTION && strcmp(n->target, "_operator.getitem") == 0 &&
         n->n_args == 2 && is_node(&a[0]) && a[0].as.node->val &&
         a[0].as.node->val->kind == FX_VAL_LIST && is_int(&a[1]);
}

static void find_items(graph_writer *w, const fx_graph *g)
{
  w->items = session_array(w->s, const fx_node *, (size_t)g->n_nodes + 1);
  w->previous = session_array(w->s, const fx_node *, (size_t)g->n_nodes + 1);
  w->same = session_array(w->s, const fx_node *, (size_t)g->n_nodes + 1);
  for (const fx_node *n = g->first; n; n = n->next) {
    if (!names_result(n))
      continue;
    const fx_node *of = n->args[0].as.node;
    w->previous[n->index] = w->items[of->index];
    w->items[of->index] = n;
  }
}

/* Return the getitem nodes of n's results by index, NULL where there is none: the first of each. */
static const fx_node **items_of(graph_writer *w, const fx_node *n)
{
  const uint32_t n_items = n->val->n;
  const fx_node **items = session_array(w->s, const fx_node *, (size_t)n_items + 1);
  const fx_node *item;

  for (item = w->items[n->index]; item; item = w->previous[item->index]) {
    const int64_t i = item->args[1].as.i;
    if (i < 0 || i >= n_items)
      session_fail_status(w->s, RUSH_EFORMAT, NULL, NULL, "'%s' is item %lld of %u results",
                          item->name, (long long)i, n_items);
    items[i] = item;
  }
  for (item = w->items[n->index]; item; item = w->previous[item->index])
    w->same[item->index] = items[item->args[1].as.i];
  return items;
}

/* Append a list of tensors, one result; `n` is the node of the list, or NULL: then the names begin
 * with `base`. */
static void write_tensors(graph_writer *w, const fx_node *n, const fx_val *v, const char *base)
{
  const fx_node **items = n ? items_of(w, n) : NULL;

  text_puts(w->out, "{\"as_tensors\": [");
  for (uint32_t i = 0; i < v->n; i++) {
    const fx_val *item = v->as.items[i];
    const char *name =
      items && items[i] ? items[i]->name : session_printf(w->s, "%s_%u", base, i);
    if (!item || item->kind != FX_VAL_TENSOR)
      session_fail_status(w->s, RUSH_EUNSUPPORTED, NULL, NULL,
                          "the value '%s' cannot be written: it is an item of a list, but no "
                          "tensor that something is known of",
                          name);
    text_puts(w->out, i ? ", {\"name\": " : "{\"name\": ");
    write_text(w->out, name);
    text_putc(w->out, '}');
    describe(w, name, item);
  }
  text_puts(w->out, "]}");
}

/* Append the results of a call that has several, or a tuple of one. */
static void write_results(graph_writer *w, const fx_node *n)
{
  const fx_node **items = items_of(w, n);

  for (uint32_t i = 0; i < n->val->n; i++) {
    const fx_val *v = n->val->as.items[i];
    const char *name =
      items[i] ? items[i]->name : session_printf(w->s, "%s_unused_%u", n->name, i);
    text_puts(w->out, i ? ", " : "");
    if (items[i] ? items[i]->returns_none : !v)
      text_puts(w->out, "{\"as_none\": true}");
    else if (v && v->kind == FX_VAL_LIST)
      write_tensors(w, items[i] && items[i]->val == v ? items[i] : NULL, v,
                    items[i] ? session_printf(w->s, "%s_unused", name) : name);
    else
      write_definition(w, name, v);
  }
}

static void write_outputs(graph_writer *w, const fx_node *n, const schema *sc)
{
  text_putc(w->out, '[');
  if (n->returns_none)
    text_puts(w->out, "{\"as_none\": true}");
  else if (n->val && n->val->kind == FX_VAL_LIST && n->val->is_tuple)
    write_results(w, n);
  else if (n->val && n->val->kind == FX_VAL_LIST)
    write_tensors(w, n, n->val, session_printf(w->s, "%s_unused", n->name));
  else if (n->val || (sc && sc->n_returns))
    write_definition(w, n->name, n->val);
  text_putc(w->out, ']');
}

/* -- Nodes and graphs -------------------------------------------------------------------------- */

static void write_call(graph_writer *w, const fx_node *n)
{
  static const char higher_order[] = "torch.ops.higher_order.";
  const bool is_higher_order = strncmp(n->target, higher_order, sizeof higher_order - 1) == 0;
  const op *o = session_op_of_target(w->s, str_of(n->target));
  const schema *sc = o ? o->schema : NULL;

  session_poll(w->s);
  if (++*w->n_nodes > MOST_NODES)
    session_fail_status(w->s, RUSH_ELIMIT, NULL, NULL,
                        "the program has more than %u nodes, counting graphs where they are used",
                        MOST_NODES);
  text_puts(w->out, "{\"target\": ");
  write_text(w->out, n->target);
  text_puts(w->out, ", \"inputs\": ");
  write_inputs(w, n, sc);
  text_puts(w->out, ", \"outputs\": ");
  write_outputs(w, n, sc);
  text_puts(w->out, ", \"metadata\": ");
  text_add(w->out, n->metadata.len ? n->metadata.p : "{}", n->metadata.len ? n->metadata.len : 2);
  text_printf(w->out, ", \"is_hop_single_tensor_return\": %s, \"name\": ",
              !is_higher_order                               ? "null"
              : n->val && n->val->kind == FX_VAL_TENSOR ? "true"
                                                             : "false");
  write_text(w->out, n->file_name ? n->file_name : n->name);
  write_unknown(w->s, w->out, n->unknown);
  text_putc(w->out, '}');
}

static void write_placeholder(graph_writer *w, const fx_node *n)
{
  if (n->val && n->val->kind == FX_VAL_CONSTANT)
    write_arg(w, &n->val->as.constant, NULL);
  else
    write_definition(w, n->name, n->val);
}

/* Append what the graph returns; returns true if it is a single value rather than a tuple. */
static bool write_returned(graph_writer *w, const fx_node *n)
{
  const fx_arg *a = n && n->op == FX_OUTPUT && n->n_args == 1 ? &n->args[0] : NULL;
  const bool is_single = a && !is_sequence(a);

  if (!a)
    session_fail_status(w->s, RUSH_EFORMAT, NULL, NULL, "a graph does not end with its output");
  for (uint32_t i = 0; i < (is_single ? 1 : a->n); i++) {
    text_puts(w->out, i ? ", " : "");
    write_arg(w, is_single ? a : &a->as.items[i], NULL);
  }
  return is_single;
}

static void write_values(graph_writer *w, const char *word, fx_val_kind kind)
{
  text_printf(w->out, ", \"%s\": {", word);
  text_add(w->out, text_str(w->values[kind]), w->values[kind]->len);
  text_putc(w->out, '}');
  if (text_failed(w->values[kind]))
    session_check(w->s, call_nomem(w->s->cx));
}

static void write_inner_graph(session *s, text_buf *out, const fx_graph *g, uint32_t *n_nodes)
{
  graph_writer *w = session_new(s, graph_writer);
  size_t start;

  session_enter(s);
  *w = (graph_writer){.s = s, .out = out, .n_nodes = n_nodes};
  for (int i = 0; i < N_VALUES; i++)
    w->values[i] = session_text(s);
  find_items(w, g);
  text_puts(out, "{\"inputs\": [");
  start = out->len;
  for (const fx_node *n = g->first; n; n = n->next)
    if (n->op == FX_PLACEHOLDER) {
      write_comma(out, start);
      write_placeholder(w, n);
    }
  text_puts(out, "], \"nodes\": [");
  start = out->len;
  for (const fx_node *n = g->first; n; n = n->next)
    if (n->op == FX_CALL_FUNCTION && !names_result(n)) {
      write_comma(out, start);
      write_call(w, n);
    }
  text_puts(out, "], \"outputs\": [");
  const bool is_single = write_returned(w, g->last);
  text_putc(out, ']');
  write_values(w, "tensor_values", FX_VAL_TENSOR);
  write_values(w, "sym_int_values", FX_VAL_INT);
  write_values(w, "sym_float_values", FX_VAL_FLOAT);
  write_values(w, "sym_bool_values", FX_VAL_BOOL);
  write_values(w, "custom_obj_values", FX_VAL_OBJECT);
  text_printf(out, ", \"is_single_tensor_return\": %s", is_single ? "true" : "false");
  write_unknown(s, out, g->unknown);
  text_putc(out, '}');
  session_leave(s);
}

void write_graph(session *s, text_buf *out, const fx_graph *g)
{
  uint32_t n_nodes = 0;

  write_inner_graph(s, out, g, &n_nodes);
}
