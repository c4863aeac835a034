/* api/ir_attr.c -- graphs as data: attributes of nodes, and values. Edits run in a session under
 * the program's lock (ir_edit) and check their arguments first, since a host may pass anything; a
 * constant's value is presented as the attribute `value`, as in PyTorch, though it is stored in the
 * graph's pool. Counting uses is O(uses): the list is intrusive and stores no length. */
#include "api/ir_int.h"
#include "ir/build.h"

/* -- Attributes -------------------------------------------------------------------------------- */

/* True for internal attributes: the name of a kind without a symbol, and notes between passes. */
static bool is_hidden(const ir_node *n, const ir_attr *a)
{
  return a->name[0] == '_' || (n->kind == IR_HIGHER_ORDER && strcmp(a->name, "name") == 0);
}

static const ir_attr *find_attr(const ir_node *n, const char *name)
{
  const ir_attr *a = ir_attr_find(n, name);

  return a && !is_hidden(n, a) ? a : NULL;
}

/* Get the value of a constant that is not None; it is stored separately. */
static bool constant_of(const ir_node *n, const char *name, rush_value *out)
{
  if (n->kind != IR_CONSTANT || strcmp(name, "value") != 0)
    return false;
  *out = ir_constant_value(n);
  return out->tag != RUSH_TAG_NONE;
}

/* Return the graph of the function that a fork runs; NULL: none. */
static const ir_graph *task_graph(const ir_node *n)
{
  return (n->kind == IR_FORK || n->kind == IR_AWAITABLE) && n->function ? n->function->graph : NULL;
}

static bool has_graph(const ir_node *n, const char *name)
{
  return strcmp(name, "Subgraph") == 0 && (ir_node_is_subgraph(n) || task_graph(n));
}

const char *api_node_attr_name(const rush_node *node, size_t i)
{
  const ir_node *n = node_in(node);
  rush_value v;

  if (constant_of(n, "value", &v) && i-- == 0)
    return "value";
  if (n->function && i-- == 0)
    return "name";
  for (const ir_attr *a = n->attrs; a; a = a->next)
    if (!is_hidden(n, a) && i-- == 0)
      return a->name;
  return has_graph(n, "Subgraph") && i == 0 ? "Subgraph" : NULL;
}

static const char *kind_of_value(rush_value v)
{
  switch ((rush_tag)v.tag) {
  case RUSH_TAG_TENSOR: return "t";
  case RUSH_TAG_BOOL:
  case RUSH_TAG_INT: return "i";
  case RUSH_TAG_FLOAT: return "f";
  case RUSH_TAG_COMPLEX: return "c";
  case RUSH_TAG_STRING:
  case RUSH_TAG_DEVICE: return "s";
  default: return "ival";
  }
}

/* Return the kind of a list: a list of what attributes can hold is a list attribute, else a
 * value. */
static const char *kind_of_list(rush_value v)
{
  if (v.tag != RUSH_TAG_LIST)
    return kind_of_value(v);
  switch ((int)v.as.list->elem->kind) {
  case TYPE_INT: return "is";
  case TYPE_FLOAT: return "fs";
  case TYPE_STRING: return "ss";
  case TYPE_TENSOR: return "ts";
  default: return "ival";
  }
}

const char *api_node_attr_kind(const rush_node *node, const char *name)
{
  const ir_node *n = node_in(node);
  const ir_attr *a = find_attr(n, name);
  rush_value v;

  if (constant_of(n, name, &v))
    return kind_of_value(v);
  if (n->function && strcmp(name, "name") == 0)
    return "s";
  if (!a)
    return has_graph(n, name) ? "g" : NULL;
  switch (a->kind) {
  case ATTR_INT: return "i";
  case ATTR_FLOAT: return "f";
  case ATTR_STRING: return "s";
  case ATTR_TYPE: return "ty";
  case ATTR_TYPES: return "tys";
  case ATTR_VALUE: return kind_of_list(a->as.value);
  case ATTR_GRAPH: return "g";
  case ATTR_GRAPHS: return "gs";
  case ATTR_INTS: return "is";
  }
  return NULL;
}

static rush_status text_value(call_ctx *cx, const char *text, rush_value *out)
{
  return string_new(cx, text, strlen(text), out);
}

rush_status api_node_attr(const rush_node *node, const char *name, rush_value *out, rush_error *err)
{
  const ir_node *n = node_in(node);
  const ir_attr *a = find_attr(n, name);
  rush_value v;
  call_ctx cx;

  TRY(ir_need_node(n, err));
  TRY(api_begin(&cx, n->graph->ctx, err));
  if (constant_of(n, name, &v)) {
    *out = value_retain(v);
    return RUSH_OK;
  }
  if (n->function && strcmp(name, "name") == 0)
    return text_value(&cx, n->function->qualified, out);
  if (a && a->kind == ATTR_INT)
    *out = value_int(a->as.i);
  else if (a && a->kind == ATTR_FLOAT)
    *out = value_float(a->as.d);
  else if (a && a->kind == ATTR_STRING)
    return text_value(&cx, a->as.s, out);
  else if (a && a->kind == ATTR_INTS)
    return list_of_ints(&cx, a->as.ints.v, a->as.ints.n, out);
  else if (a && a->kind == ATTR_VALUE)
    *out = value_retain(a->as.value);
  else
    return ir_misuse(err, "%s has no attribute '%s' that is a value", ir_node_kind_name(n), name);
  return RUSH_OK;
}

static bool has_types(const ir_attr *a)
{
  return a && (a->kind == ATTR_TYPES || a->kind == ATTR_TYPE);
}

size_t api_node_attr_n_types(const rush_node *n, const char *name)
{
  const ir_attr *a = find_attr(node_in(n), name);

  return has_types(a) ? a->as.t.n_types : 0;
}

const rush_type *api_node_attr_type(const rush_node *n, const char *name, size_t i)
{
  const ir_attr *a = find_attr(node_in(n), name);

  return has_types(a) && i < a->as.t.n_types ? type_handle(a->as.t.types[i]) : NULL;
}

static void copy_graph(session *s, edit *e)
{
  const ir_attr *a = find_attr(e->n, e->text);

  if (a && (a->kind == ATTR_GRAPH || a->kind == ATTR_GRAPHS)) {
    if (e->i >= a->as.graphs.n)
      session_fail_status(s, RUSH_EARGUMENT, "IndexError", NULL, "'%s' has %u graphs, not %zu",
                          e->text, a->as.graphs.n, e->i + 1);
    e->made = ir_graph_twin(s, a->as.graphs.v[e->i]);
    return;
  }
  if (!has_graph(e->n, e->text))
    session_fail_status(s, RUSH_EARGUMENT, "RuntimeError", NULL, "%s has no graph '%s'",
                        ir_node_kind_name(e->n), e->text);
  if (task_graph(e->n)) {
    e->made = ir_graph_twin(s, task_graph(e->n));
    return;
  }
  e->made = ir_node_block_graph(s, e->n);
}

rush_status api_node_attr_graph(const rush_node *n, const char *name, rush_graph **out,
                                rush_error *err)
{
  return api_node_attr_graph_at(n, name, 0, out, err);
}

size_t api_node_attr_n_graphs(const rush_node *node, const char *name)
{
  const ir_node *n = node_in(node);
  const ir_attr *a = find_attr(n, name);

  if (a && (a->kind == ATTR_GRAPH || a->kind == ATTR_GRAPHS))
    return a->as.graphs.n;
  return has_graph(n, name);
}

rush_status api_node_attr_graph_at(const rush_node *n, const char *name, size_t i, rush_graph **out,
                                   rush_error *err)
{
  edit e = {.n = node_in(n), .text = name, .i = i};

  TRY(ir_need_node(e.n, err));
  TRY(ir_edit(e.n->graph, copy_graph, &e, err));
  *out = graph_out(e.made);
  return RUSH_OK;
}

static const type *list_of(session *s, ir_graph *g, const type *elem)
{
  const type *t = type_list(g->types, elem);

  if (!t)
    session_check(s, call_nomem(s->cx));
  return t;
}

static void set_attr(session *s, edit *e)
{
  ir_node *n = e->n;
  rush_value v = e->value;

  if (n->kind == IR_CONSTANT && strcmp(e->text, "value") == 0) {
    const type *t =
      n->n_outputs && type_contains_value(n->outputs[0]->type, v) ? n->outputs[0]->type : NULL;
    n->constant = build_constant(s, e->g, v, t)->constant;
    return;
  }
  switch ((rush_tag)v.tag) {
  case RUSH_TAG_INT: ir_attr_set_int(s, n, e->text, v.as.i); break;
  case RUSH_TAG_FLOAT: ir_attr_set_float(s, n, e->text, v.as.d); break;
  case RUSH_TAG_STRING: ir_attr_set_string(s, n, e->text, v.as.string->text); break;
  default: { /* as in a constant: lists have an element type, empty ones from the kind */
    const bool is_empty = v.tag == RUSH_TAG_LIST && v.as.list->n == 0;
    ir_node *c = build_constant(s, e->g, v, is_empty && e->t ? list_of(s, e->g, e->t) : NULL);
    const rush_list *l = v.tag == RUSH_TAG_LIST ? ir_constant_value(c).as.list : NULL;

    if (l && (!l->n ? e->flag : l->items[0].tag == RUSH_TAG_INT)) {
      int64_t *ints = session_array(s, int64_t, l->n);
      for (size_t i = 0; i < l->n; i++)
        ints[i] = l->items[i].as.i;
      ir_attr_set_ints(s, n, e->text, ints, (uint32_t)l->n);
    } else {
      ir_attr_set_value(s, n, e->text, ir_constant_value(c));
    }
  }
  }
}

rush_status api_node_set_attr(const rush_node *n, const char *name, const char *kind, rush_value v,
                              rush_error *err)
{
  edit e = {.n = node_in(n), .text = name, .value = v, .flag = strcmp(kind, "is") == 0};

  TRY(ir_need_node(e.n, err));
  if (!*name || *name == '_' || e.n->function || e.n->kind == IR_PARAM || e.n->kind == IR_RETURN)
    return ir_misuse(err, "'%s' cannot be an attribute of %s", name, ir_node_kind_name(e.n));
  if (strcmp(kind, "f") == 0 && v.tag == RUSH_TAG_INT)
    e.value = value_float((double)v.as.i);
  e.t = strcmp(kind, "fs") == 0   ? type_simple(TYPE_FLOAT)
        : strcmp(kind, "ss") == 0 ? type_simple(TYPE_STRING)
        : strcmp(kind, "ts") == 0 ? type_simple(TYPE_TENSOR)
                                  : NULL;
  return ir_edit(e.n->graph, set_attr, &e, err);
}

typedef struct types_job {
  edit e;
  const type **types;
  const rush_type *const *from;
} types_job;

static void set_types(session *s, edit *e)
{
  types_job *j = (types_job *)(void *)e;
  const type **types = session_array(s, const type *, e->i);

  for (size_t i = 0; i < e->i; i++) {
    types[i] = type_in(j->from[i]);
    ir_graph_keep_types(s, e->g, types[i]->store);
  }
  if (e->i == 1 && strcmp(e->text, "types") != 0)
    ir_attr_set_type(s, e->n, e->text, types[0]);
  else
    ir_attr_set_types(s, e->n, e->text, types, (uint32_t)e->i);
}

rush_status api_node_set_attr_types(const rush_node *n, const char *name,
                                    const rush_type *const *types, size_t n_types, rush_error *err)
{
  types_job j = {.e = {.n = node_in(n), .text = name, .i = n_types}, .from = types};

  TRY(ir_need_node(j.e.n, err));
  return ir_edit(j.e.n->graph, set_types, &j.e, err);
}

typedef struct graphs_job {
  edit e; /* i: their number; flag: a list */
  const rush_graph *const *from;
} graphs_job;

static void set_graphs(session *s, edit *e)
{
  const graphs_job *j = (graphs_job *)(void *)e;
  ir_graph **v = session_array(s, ir_graph *, e->i + 1);

  if (!e->flag && strcmp(e->text, "Subgraph") == 0 && ir_node_has_subgraph_block(e->n)) {
    ir_node_set_subgraph(s, e->n, graph_in(j->from[0]));
    return;
  }
  for (size_t i = 0; i < e->i; i++) {
    v[i] = ir_attr_graph_copy(s, e->n, graph_in(j->from[i]));
    ir_check(s, v[i], e->text); /* limits its depth too */
  }
  if (e->flag)
    ir_attr_set_graphs(s, e->n, e->text, v, (uint32_t)e->i);
  else
    ir_attr_set_graph(s, e->n, e->text, v[0]);
}

rush_status api_node_set_attr_graphs(const rush_node *n, const char *name,
                                     const rush_graph *const *graphs, size_t n_graphs, bool list,
                                     rush_error *err)
{
  graphs_job j = {.e = {.n = node_in(n), .text = name, .i = n_graphs, .flag = list},
                  .from = graphs};
  const ir_node *node = j.e.n;

  TRY(ir_need_node(node, err));
  if (!*name || *name == '_' || node->function || node->kind == IR_PARAM ||
      node->kind == IR_RETURN || (!list && n_graphs != 1))
    return ir_misuse(err, "'%s' cannot be an attribute of %s", name, ir_node_kind_name(node));
  for (size_t i = 0; i < n_graphs; i++)
    if (graph_in(graphs[i])->ctx != node->graph->ctx)
      return ir_misuse(err, "the graph of the attribute '%s' belongs to another context", name);
  return ir_edit(node->graph, set_graphs, &j.e, err);
}

rush_status api_node_remove_attr(const rush_node *node, const char *name, rush_error *err)
{
  ir_node *n = node_in(node);

  TRY(ir_need_node(n, err));
  if (!find_attr(n, name))
    return ir_misuse(err, "%s has no attribute '%s' that can be removed", ir_node_kind_name(n),
                     name);
  for (ir_attr **a = &n->attrs; *a; a = &(*a)->next)
    if (strcmp((*a)->name, name) == 0) {
      *a = (*a)->next;
      break;
    }
  return RUSH_OK;
}

static void copy_attrs(session *s, edit *e)
{
  ir_graph_keep_types_of(s, e->g, e->at->graph);
  ir_node_copy_attrs(s, e->n, e->at);
}

rush_status api_node_copy_attrs(const rush_node *n, const rush_node *from, rush_error *err)
{
  edit e = {.n = node_in(n), .at = node_in(from)};

  TRY(ir_need_node(e.n, err));
  TRY(ir_need_node(e.at, err));
  if ((e.n->kind == IR_CONSTANT) != (e.at->kind == IR_CONSTANT) || e.at->function)
    return ir_misuse(err, "attributes of %s do not go to %s", ir_node_kind_name(e.at),
                     ir_node_kind_name(e.n));
  return ir_edit(e.n->graph, copy_attrs, &e, err);
}

/* -- Values ------------------------------------------------------------------------------------ */

bool api_value_is_live(const rush_graph_value *v) { return ir_value_is_live(value_in(v)); }
const rush_node *api_value_node(const rush_graph_value *v) { return node_out(value_in(v)->node); }
size_t api_value_offset(const rush_graph_value *v) { return value_in(v)->index; }
const char *api_value_name(const rush_graph_value *v) { return value_in(v)->name; }
const rush_type *api_value_type(const rush_graph_value *v)
{
  return type_handle(value_in(v)->type);
}

static rush_status need_live(const ir_value *v, rush_error *err)
{
  return ir_need_value(v ? v->node->graph : NULL, v, err);
}

static void set_name(session *s, edit *e) { ir_value_set_name(s, e->v, e->text); }

rush_status api_value_set_name(const rush_graph_value *v, const char *name, rush_error *err)
{
  edit e = {.v = value_in(v), .text = name};
  size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$");

  TRY(need_live(e.v, err));
  if (name[n] || (*name && strspn(name, "0123456789") == n))
    return ir_misuse(err, "Invalid name: '%s'", name);
  return ir_edit(e.v->node->graph, set_name, &e, err);
}

static void set_type(session *s, edit *e)
{
  ir_graph_keep_types(s, e->g, e->t->store);
  e->v->type = e->t;
}

rush_status api_value_set_type(const rush_graph_value *v, const rush_type *t, rush_error *err)
{
  edit e = {.v = value_in(v), .t = type_in(t)};

  TRY(need_live(e.v, err));
  return ir_edit(e.v->node->graph, set_type, &e, err);
}

size_t api_value_n_uses(const rush_graph_value *v)
{
  size_t n = 0;

  for (const ir_use *u = value_in(v)->uses; u; u = u->next)
    n++;
  return n;
}

/* The list has the newest use first. */
const rush_node *api_value_use(const rush_graph_value *v, size_t i, size_t *input)
{
  size_t n = api_value_n_uses(v);
  const ir_use *u = value_in(v)->uses;

  if (i >= n)
    return NULL;
  for (size_t k = n - 1 - i; k; k--)
    u = u->next;
  for (uint32_t k = 0; k < u->user->n_inputs; k++)
    if (u->user->inputs[k] == u)
      *input = k;
  return node_out(u->user);
}

rush_status api_value_replace_uses(const rush_graph_value *v, const rush_graph_value *by,
                                   const rush_node *after, rush_error *err)
{
  ir_value *from = value_in(v), *to = value_in(by);
  const ir_node *start = node_in(after);

  TRY(need_live(from, err));
  TRY(ir_need_value(from->node->graph, to, err));
  if (!start) {
    ir_value_replace_all_uses(from, to);
    return RUSH_OK;
  }
  TRY(ir_need_node(start, err));
  if (!start->block || start->graph != from->node->graph)
    return ir_misuse(err, "the node is in no block of this graph");
  for (ir_use *u = from->uses, *next; u && from != to; u = next) {
    next = u->next;
    if (u->user->block && u->user != start && u->user->kind != IR_PARAM &&
        ir_node_is_before(start, u->user))
      for (uint32_t i = 0; i < u->user->n_inputs; i++)
        if (u->user->inputs[i] == u) {
          ir_node_set_input(u->user, i, to);
          break;
        }
  }
  return RUSH_OK;
}
