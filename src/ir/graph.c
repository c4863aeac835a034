/* ir/graph.c -- graphs, block signatures, constants, attributes, and copies. Copying visits nodes
 * in order and maps old values to new ones in a hash table; values that are not in the table map to
 * themselves, so that the same code copies a whole graph and inlines a block. Attributes are a
 * linked list in the order they were set, because they print in that order and a node has few.
 * Cost: O(nodes) for a copy. */
#include "ir/graph.h"

#include <stdio.h>

/* -- Graphs ------------------------------------------------------------------------------------ */

ir_graph *ir_graph_new(session *s, type_store *ts)
{
  context *c = s->cx->ctx;
  ir_graph *g = mem_alloc_zero(c, sizeof *g);

  if (!g)
    session_check(s, call_nomem(s->cx));
  g->ctx = c;
  arena_init(&g->mem, c);
  g->types = type_store_retain(ts);
  session_defer(s, ir_graph_free_deferred, g); /* should the block not be made */
  g->block = ir_block_new(s, g, NULL);
  session_keep(s, g);
  return g;
}

void ir_graph_free(ir_graph *g)
{
  if (!g)
    return;
  context *c = g->ctx;

  for (uint32_t i = 0; i < g->n_constants; i++)
    value_release(g->constants[i]);
  if (g->constants)
    mem_free(c, g->constants, g->cap_constants * sizeof(rush_value));
  for (struct kept_types *k = g->kept; k; k = k->next)
    type_store_release(k->types);
  for (struct owned_graph *o = g->owned; o; o = o->next)
    ir_graph_free(o->graph);
  arena_free(&g->mem);
  if (!g->types_borrowed)
    type_store_release(g->types);
  mem_free(c, g, sizeof *g);
}

void ir_graph_free_deferred(void *g) { ir_graph_free(g); }

void ir_graph_borrow_types(ir_graph *g)
{
  ASSERT(g->types != NULL, "a graph without types");
  if (g->types_borrowed)
    return;
  g->types_borrowed = true;
  type_store_release(g->types);
}

void ir_graph_keep_types(session *s, ir_graph *g, type_store *ts)
{
  struct kept_types *k = g->kept;

  while (k && k->types != ts)
    k = k->next;
  if (!ts || ts == g->types || k)
    return;
  k = session_alloc_in(s, &g->mem, sizeof *k);
  *k = (struct kept_types){type_store_retain(ts), g->kept};
  g->kept = k;
}

void ir_graph_keep_types_of(session *s, ir_graph *g, const ir_graph *from)
{
  ir_graph_keep_types(s, g, from->types);
  for (const struct kept_types *k = from->kept; k; k = k->next)
    ir_graph_keep_types(s, g, k->types);
}

/* -- Block signatures -------------------------------------------------------------------------- */

ir_value *ir_block_add_input(session *s, ir_block *b, const type *t, const char *name)
{
  ir_value *v = ir_node_add_output(s, b->param, t);

  if (name)
    ir_value_set_name(s, v, name);
  return v;
}

void ir_block_add_output(session *s, ir_block *b, ir_value *v) { ir_node_add_input(s, b->ret, v); }
void ir_block_remove_input(ir_block *b, uint32_t i) { ir_node_remove_output(b->param, i); }
void ir_block_remove_output(ir_block *b, uint32_t i) { ir_node_remove_input(b->ret, i); }

static char *copy_text(session *s, ir_graph *g, const char *text, size_t len)
{
  char *p = session_alloc_in(s, &g->mem, len + 1);

  memcpy(p, text, len);
  return p;
}

void ir_node_set_scope(session *s, ir_node *n, const char *scope, size_t len)
{
  n->scope = copy_text(s, n->graph, scope, len);
}

/* -- Constants --------------------------------------------------------------------------------- */

uint32_t ir_graph_add_constant(session *s, ir_graph *g, rush_value v)
{
  if (g->n_constants == g->cap_constants) {
    uint32_t cap = g->cap_constants ? g->cap_constants * 2 : 16;
    rush_value *fresh = mem_realloc(g->ctx, g->constants, g->cap_constants * sizeof *fresh,
                                    cap * sizeof *fresh);

    if (!fresh)
      session_check(s, call_nomem(s->cx));
    g->constants = fresh;
    g->cap_constants = cap;
  }
  ASSERT(g->n_constants < g->cap_constants, "the pool did not grow");
  g->constants[g->n_constants] = value_retain(v);
  return g->n_constants++;
}

ir_node *ir_constant_new(session *s, ir_graph *g, rush_value v, const type *t)
{
  ir_node *n = ir_node_new(s, g, IR_CONSTANT, NULL, 0);

  n->constant = ir_graph_add_constant(s, g, v);
  if (!t)
    t = type_of_value(g->types, v);
  if (!t)
    session_check(s, call_nomem(s->cx));
  ir_node_add_output(s, n, t);
  return n;
}

bool ir_value_as_constant(const ir_value *v, rush_value *out)
{
  ASSERT(v->index < v->node->n_outputs && v->node->outputs[v->index] == v,
         "a value that its node no longer defines");
  if (v->node->kind != IR_CONSTANT)
    return false;
  *out = ir_constant_value(v->node);
  return true;
}

/* -- Attributes -------------------------------------------------------------------------------- */

ir_attr *ir_attr_find(const ir_node *n, const char *name)
{
  for (ir_attr *a = n->attrs; a; a = a->next)
    if (strcmp(a->name, name) == 0)
      return a;
  return NULL;
}

/* Return the attribute of that name, appended if it is new (they print in this order).  A new one
 * has room for n_more bytes at *more, which is NULL otherwise. */
static ir_attr *attr_with_room(session *s, ir_node *n, const char *name, ir_attr_kind kind,
                               size_t n_more, char **more)
{
  ir_attr *a = ir_attr_find(n, name);

  *more = NULL;
  if (!a) {
    ir_attr **end = &n->attrs;

    while (*end)
      end = &(*end)->next;
    size_t len = strlen(name);
    a = *end = session_alloc_in(s, &n->graph->mem, sizeof *a + len + 1 + n_more);
    a->name = memcpy(a + 1, name, len);
    *more = (char *)(a + 1) + len + 1;
  }
  a->kind = kind;
  return a;
}

static ir_attr *attr_set(session *s, ir_node *n, const char *name, ir_attr_kind kind)
{
  char *more;

  return attr_with_room(s, n, name, kind, 0, &more);
}

void ir_attr_set_string(session *s, ir_node *n, const char *name, const char *v)
{
  ASSERT(v != NULL, "an attribute without a text");
  size_t len = strlen(v);
  char *copy;
  ir_attr *a = attr_with_room(s, n, name, ATTR_STRING, len + 1, &copy);

  a->as.s = copy ? memcpy(copy, v, len) : copy_text(s, n->graph, v, len);
}

void ir_attr_set_int(session *s, ir_node *n, const char *name, int64_t v)
{
  attr_set(s, n, name, ATTR_INT)->as.i = v;
}

void ir_attr_set_float(session *s, ir_node *n, const char *name, double v)
{
  attr_set(s, n, name, ATTR_FLOAT)->as.d = v;
}

void ir_attr_set_ints(session *s, ir_node *n, const char *name, const int64_t *v, uint32_t k)
{
  int64_t *copy = session_alloc_in(s, &n->graph->mem, (k + 1) * sizeof *copy);
  ir_attr *a = attr_set(s, n, name, ATTR_INTS);

  if (k)
    memcpy(copy, v, k * sizeof *copy);
  a->as.ints.v = copy;
  a->as.ints.n = k;
}

void ir_attr_set_types(session *s, ir_node *n, const char *name, const type *const *types,
                       uint32_t k)
{
  const type **copy = session_alloc_in(s, &n->graph->mem, (k + 1) * sizeof *copy);
  ir_attr *a = attr_set(s, n, name, ATTR_TYPES);

  if (k)
    memcpy(copy, types, k * sizeof *copy);
  a->as.t.types = copy;
  a->as.t.n_types = k;
}

void ir_attr_set_value(session *s, ir_node *n, const char *name, rush_value v)
{
  uint32_t i = ir_graph_add_constant(s, n->graph, v);

  attr_set(s, n, name, ATTR_VALUE)->as.value = n->graph->constants[i];
}

void ir_attr_set_type(session *s, ir_node *n, const char *name, const type *t)
{
  ir_attr_set_types(s, n, name, &t, 1);
  ir_attr_find(n, name)->kind = ATTR_TYPE;
}

/* -- Attributes that are graphs ---------------------------------------------------------------- */

ir_graph *ir_attr_graph_new(session *s, ir_node *n)
{
  ir_graph *owner = n->graph;
  struct owned_graph *o = session_alloc_in(s, &owner->mem, sizeof *o);
  ir_graph *g = ir_graph_new(s, owner->types);

  ir_graph_borrow_types(g); /* the owner has them as long as g lives */
  *o = (struct owned_graph){g, owner->owned};
  owner->owned = o;
  return g;
}

static void set_graphs(session *s, ir_node *n, const char *name, ir_attr_kind kind,
                       ir_graph *const *v, uint32_t k)
{
  ir_graph **copy = session_alloc_in(s, &n->graph->mem, (k + 1) * sizeof *copy);
  ir_attr *a = attr_set(s, n, name, kind);

  for (uint32_t i = 0; i < k; i++)
    copy[i] = v[i];
  a->as.graphs.v = copy;
  a->as.graphs.n = k;
}

void ir_attr_set_graph(session *s, ir_node *n, const char *name, ir_graph *g)
{
  set_graphs(s, n, name, ATTR_GRAPH, &g, 1);
}

void ir_attr_set_graphs(session *s, ir_node *n, const char *name, ir_graph *const *v, uint32_t k)
{
  set_graphs(s, n, name, ATTR_GRAPHS, v, k);
}

ir_graph *ir_attr_graph(const ir_node *n, const char *name)
{
  const ir_attr *a = ir_attr_find(n, name);

  return a && a->kind == ATTR_GRAPH ? a->as.graphs.v[0] : NULL;
}

bool ir_node_has_subgraph_block(const ir_node *n)
{
  return n->kind == IR_FORK || n->kind == IR_AWAITABLE || n->kind == IR_GROUP ||
         n->kind == IR_DIFFERENTIABLE_GRAPH || n->kind == IR_FALLBACK_GRAPH ||
         (n->kind == IR_OP && n->op->outside);
}

const ir_block *ir_node_subgraph(const ir_node *n)
{
  const ir_graph *g = ir_attr_graph(n, "Subgraph");

  return ir_node_is_subgraph(n) ? n->blocks[0] : g ? g->block : NULL;
}

/* -- Copies ------------------------------------------------------------------------------------ */

/* Copied values of the source, by pointer; those outside the copied part map to themselves or to
 * the caller's replacements. */
typedef struct copier {
  session *s;
  ir_graph *to;
  table map;         /* address -> ir_value, or ir_inlined */
  const ir_inlined *base; /* the call that is being inlined, or NULL */
  bool keeps_numbers;
  bool own_names; /* copying into a subgraph, which has names of its own */
} copier;

static void copier_free(void *arg)
{
  copier *c = arg;
  table_free(&c->map);
}

static void map_pointer(copier *c, const void *from, const void *to)
{
  session_table_put(c->s, &c->map, address_key(from), (void *)(uintptr_t)to);
}

static void map_value(copier *c, ir_value *from, ir_value *to)
{
  ASSERT(from->node->graph != c->to || from != to, "a value mapped to itself");
  map_pointer(c, from, to);
}

static ir_value *mapped(copier *c, ir_value *from)
{
  ir_value *to = from ? table_get(&c->map, address_key(from)) : NULL;

  return to ? to : from;
}

/* Return the copy of a chain of calls, in the new graph's memory, with the call that is being
 * inlined at its end. */
static const ir_inlined *copy_chain(copier *c, const ir_inlined *from)
{
  if (!from)
    return c->base;
  const ir_inlined *known = table_get(&c->map, address_key(from));
  if (known)
    return known;
  ir_inlined *to = session_alloc_in(c->s, &c->to->mem, sizeof *to);
  session_enter(c->s);
  const ir_inlined *outer = copy_chain(c, from->outer);
  session_leave(c->s);

  *to = *from;
  to->outer = outer;
  to->depth = outer ? outer->depth + 1 : 1;
  map_pointer(c, from, to);
  return to;
}

static void copy_output(copier *c, ir_node *n, ir_value *from)
{
  ir_value *v = ir_node_add_output(c->s, n, from->type);

  if (from->name && c->own_names)
    ir_value_set_own_name(c->s, v, str_of(from->name));
  else if (from->name)
    ir_value_set_name(c->s, v, from->name);
  if (c->keeps_numbers)
    v->id = from->id;
  map_value(c, from, v);
}

static void copy_graphs(session *s, ir_node *n, const ir_attr *a)
{
  ir_graph **v = session_array(s, ir_graph *, a->as.graphs.n + 1);

  session_enter(s);
  for (uint32_t i = 0; i < a->as.graphs.n; i++)
    v[i] = ir_attr_graph_copy(s, n, a->as.graphs.v[i]);
  session_leave(s);
  set_graphs(s, n, a->name, a->kind, v, a->as.graphs.n);
}

void ir_node_copy_attrs(session *s, ir_node *n, const ir_node *from)
{
  ASSERT(n->kind == from->kind && n != from, "attributes of another kind of node");
  if (from->kind == IR_CONSTANT)
    n->constant = ir_graph_add_constant(s, n->graph, ir_constant_value(from));
  for (const ir_attr *a = from->attrs; a; a = a->next) {
    switch (a->kind) {
    case ATTR_INT: ir_attr_set_int(s, n, a->name, a->as.i); break;
    case ATTR_FLOAT: ir_attr_set_float(s, n, a->name, a->as.d); break;
    case ATTR_STRING: ir_attr_set_string(s, n, a->name, a->as.s); break;
    case ATTR_TYPE: ir_attr_set_type(s, n, a->name, a->as.t.types[0]); break;
    case ATTR_TYPES:
      ir_attr_set_types(s, n, a->name, a->as.t.types, a->as.t.n_types);
      break;
    case ATTR_INTS: ir_attr_set_ints(s, n, a->name, a->as.ints.v, a->as.ints.n); break;
    case ATTR_VALUE: ir_attr_set_value(s, n, a->name, a->as.value); break;
    case ATTR_GRAPH: case ATTR_GRAPHS: copy_graphs(s, n, a); break;
    }
  }
}

static void copy_block_body(copier *c, ir_block *to, const ir_block *from);

static ir_node *copy_node(copier *c, const ir_node *from)
{
  session_enter(c->s);
  ir_node *n = ir_node_new(c->s, c->to, from->kind, NULL, 0);

  n->origin = from->origin;
  n->op = from->op;
  n->function = from->function;
  n->range = from->range;
  n->inlined = copy_chain(c, from->inlined);
  if (from->scope)
    ir_node_set_scope(c->s, n, from->scope, strlen(from->scope));
  for (uint32_t i = 0; i < from->n_inputs; i++)
    ir_node_add_input(c->s, n, mapped(c, ir_node_input(from, i)));
  const bool own_names = c->own_names;
  c->own_names = own_names || (from->n_blocks && ir_node_is_subgraph(from));
  for (uint32_t i = 0; i < from->n_blocks; i++)
    copy_block_body(c, ir_node_add_block(c->s, n), from->blocks[i]);
  c->own_names = own_names;
  bool has_number = n->kind == IR_CALL_FUNCTION && !c->keeps_numbers && ir_attr_find(from, "_fn");
  uint32_t number = has_number ? c->to->next_id++ : 0;
  for (uint32_t i = 0; i < from->n_outputs; i++)
    copy_output(c, n, from->outputs[i]);
  ir_node_copy_attrs(c->s, n, from);
  if (has_number)
    ir_attr_set_int(c->s, n, "_fn", number);
  session_leave(c->s);
  return n;
}

static void copy_block_body(copier *c, ir_block *to, const ir_block *from)
{
  for (uint32_t i = 0; i < from->param->n_outputs; i++)
    copy_output(c, to->param, from->param->outputs[i]);
  for (const ir_node *n = ir_block_first(from); n != from->ret; n = n->next)
    ir_node_append(copy_node(c, n), to);
  for (uint32_t i = 0; i < ir_block_n_outputs(from); i++)
    ir_block_add_output(c->s, to, mapped(c, ir_block_output(from, i)));
}

static copier *copier_new(session *s, ir_graph *to)
{
  copier *c = session_new(s, copier);

  c->s = s;
  c->to = to;
  table_init(&c->map, to->ctx);
  session_defer(s, copier_free, c);
  return c;
}

/* Copy g into the empty graph `to`. */
static void copy_contents(session *s, ir_graph *to, const ir_graph *g, bool keeps_numbers)
{
  copier *c = copier_new(s, to);

  ir_graph_keep_types_of(s, to, g);
  c->keeps_numbers = keeps_numbers;
  copy_block_body(c, to->block, g->block);
  if (to->next_origin < g->next_origin)
    to->next_origin = g->next_origin;
  if (keeps_numbers)
    to->next_id = g->next_id;
}

static ir_graph *copy_graph(session *s, const ir_graph *g, bool keeps_numbers)
{
  ir_graph *to = ir_graph_new(s, g->types);

  session_defer(s, ir_graph_free_deferred, to);
  copy_contents(s, to, g, keeps_numbers);
  to->is_differentiated = g->is_differentiated;
  return session_keep(s, to);
}

ir_graph *ir_attr_graph_copy(session *s, ir_node *n, const ir_graph *from)
{
  ir_graph *g = ir_attr_graph_new(s, n);

  copy_contents(s, g, from, true);
  return g;
}

ir_graph *ir_graph_copy(session *s, const ir_graph *g) { return copy_graph(s, g, false); }

ir_graph *ir_graph_twin(session *s, const ir_graph *g) { return copy_graph(s, g, true); }

ir_graph *ir_node_block_graph(session *s, const ir_node *n)
{
  ir_graph *g = ir_graph_new(s, n->graph->types);

  session_defer(s, ir_graph_free_deferred, g);
  ir_graph_keep_types_of(s, g, n->graph);
  ir_block_copy_into(s, g->block, n->blocks[0]);
  return session_keep(s, g);
}

void ir_node_set_subgraph(session *s, ir_node *n, const ir_graph *g)
{
  ASSERT(ir_node_has_subgraph_block(n), "the kind has no block for a subgraph");
  while (n->n_blocks)
    ir_node_destroy_block(n, n->n_blocks - 1);
  ir_graph_keep_types_of(s, n->graph, g);
  copier *c = copier_new(s, n->graph);
  c->own_names = true;
  copy_block_body(c, ir_node_add_block(s, n), g->block);
}

static void copy_before(copier *c, const ir_block *from, ir_node *before, ir_value *const *inputs,
                        ir_value **outputs)
{
  for (uint32_t i = 0; i < ir_block_n_inputs(from); i++) {
    ASSERT(inputs[i] || !ir_value_has_uses(ir_block_input(from, i)), "a value for what is used");
    if (inputs[i])
      map_value(c, ir_block_input(from, i), inputs[i]);
  }
  for (const ir_node *n = ir_block_first(from); n != from->ret; n = n->next)
    ir_node_insert_before(copy_node(c, n), before);
  for (uint32_t i = 0; i < ir_block_n_outputs(from); i++)
    outputs[i] = mapped(c, ir_block_output(from, i));
}

void ir_block_inline(session *s, const ir_block *from, ir_node *before, ir_value *const *inputs,
                     ir_value **outputs)
{
  copy_before(copier_new(s, before->graph), from, before, inputs, outputs);
}

void ir_call_inline(session *s, ir_node *call, const ir_block *body, struct function *callee,
                    ir_value **outputs)
{
  copier *c = copier_new(s, call->graph);
  ir_inlined *base = session_alloc_in(s, &call->graph->mem, sizeof *base);
  ir_value **inputs = session_array(s, ir_value *, call->n_inputs + 1);

  *base = (ir_inlined){callee, call->range, call->origin,
                       call->inlined ? call->inlined->depth + 1 : 1, call->inlined};
  c->base = base;
  for (uint32_t i = 0; i < call->n_inputs; i++)
    inputs[i] = ir_node_input(call, i);
  copy_before(c, body, call, inputs, outputs);
}

void ir_block_copy_into(session *s, ir_block *to, const ir_block *from)
{
  copy_block_body(copier_new(s, to->graph), to, from);
}
