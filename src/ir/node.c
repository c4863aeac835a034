/* ir/node.c -- nodes, their order in a block, and the uses of values. Uses are intrusive lists, so
 * that changing an input is O(1); order is a number per node with gaps, so that "is before" is a
 * comparison and inserting rarely renumbers. A node and its first inputs are one piece of arena
 * memory. Destroying leaves the memory to the arena and sets a flag. */
#include "base/grow.h"
#include "ir/graph.h"
#include "ops/call/lookup.h"

/* Orders are ORDER_GAP apart; an insert between neighbours halves a gap.  A used-up gap renumbers
 * the block, at most once per 32 inserts at one position.  Rejected: plain indices (every insert
 * O(n)), walking (every query O(n)). */
#define ORDER_GAP (UINT64_C(1) << 32)
/* constants are inserted in front one by one: room for as many */
#define ORDER_FIRST (UINT64_C(1) << 62)

/* -- Uses -------------------------------------------------------------------------------------- */

static void use_unlink(ir_use *u)
{
  ASSERT(u->value != NULL, "the slot is not set");
  ASSERT(u->prev ? u->prev->next == u : u->value->uses == u, "the list of uses lost a use");
  ASSERT(!u->next || u->next->prev == u, "the list of uses is not doubly linked");

  if (u->prev)
    u->prev->next = u->next;
  else
    u->value->uses = u->next;
  if (u->next)
    u->next->prev = u->prev;
  u->value = NULL;
  u->prev = u->next = NULL;
}

static void use_link(ir_use *u, ir_value *v)
{
  ASSERT(u->value == NULL, "the slot is still in another list");
  ASSERT(!v->node->destroyed, "a value of a destroyed node");

  u->value = v;
  u->prev = NULL;
  u->next = v->uses;
  if (v->uses)
    v->uses->prev = u;
  v->uses = u;
}

void ir_node_set_input(ir_node *n, uint32_t i, ir_value *v)
{
  ASSERT(i < n->n_inputs, "no such input slot");
  ir_use *u = n->inputs[i];

  if (u->value)
    use_unlink(u);
  if (v)
    use_link(u, v);
}

void ir_value_replace_all_uses(ir_value *from, ir_value *to)
{
  if (from == to)
    return;
  ASSERT(from->node->graph == to->node->graph, "a value of another graph");
  while (from->uses) {
    ir_use *u = from->uses;
    use_unlink(u);
    use_link(u, to);
  }
}

/* -- Making ------------------------------------------------------------------------------------ */

/* Make room for one more in an arena array of pointers.  It doubles: for n items there is room for
 * the next power of 2. */
static void *grow_pointers(session *s, ir_graph *g, void *old, uint32_t n)
{
  if (n & (n - 1))
    return old;
  void **fresh = session_alloc_in(s, &g->mem, (n ? 2 * (size_t)n : 2) * sizeof(void *));

  if (n)
    memcpy(fresh, old, (size_t)n * sizeof(void *));
  return fresh;
}

/* One piece of memory: the node, its slots, their uses. */
ir_node *ir_node_new(session *s, ir_graph *g, ir_kind kind, ir_value *const *inputs,
                     uint32_t n_inputs)
{
  ir_node *n =
    session_alloc_in(s, &g->mem, sizeof *n + n_inputs * (sizeof(ir_use *) + sizeof(ir_use)));

  n->kind = kind;
  g->kinds_made |= UINT64_C(1) << kind;
  n->graph = g;
  n->origin = g->next_origin++;
  if (!n_inputs)
    return n;
  n->inputs = (ir_use **)(void *)(n + 1);
  n->n_inputs = n->cap_inputs = n_inputs;
  ir_use *uses = (ir_use *)(void *)(n->inputs + n_inputs);
  for (uint32_t i = 0; i < n_inputs; i++) {
    n->inputs[i] = &uses[i];
    uses[i].user = n;
    if (inputs[i])
      use_link(&uses[i], inputs[i]);
  }
  return n;
}

ir_node *ir_node_new_op(session *s, ir_graph *g, const op *o, ir_value *const *inputs,
                        uint32_t n_inputs)
{
  ir_node *n = ir_node_new(s, g, IR_OP, inputs, n_inputs);

  ASSERT(o != NULL, "an operator node needs its operator");
  n->op = o;
  for (uint32_t i = 0; i < o->schema->n_returns; i++)
    ir_node_add_output(s, n, type_runtime(o->schema->returns[i].type));
  return n;
}

ir_value *ir_node_insert_output(session *s, ir_node *n, uint32_t at, const type *t)
{
  ASSERT(at <= n->n_outputs, "no such place for an output");
  ASSERT(!n->destroyed && t != NULL, "an output without a type, or of a destroyed node");
  ir_graph *g = n->graph;
  ir_value *v = session_alloc_in(s, &g->mem, sizeof *v + (n->outputs ? 0 : sizeof v));

  v->node = n;
  v->id = g->next_id++;
  v->type = t;
  if (!n->outputs) /* most have one */
    n->outputs = (ir_value **)(void *)(v + 1);
  else if (n->n_outputs)
    n->outputs = grow_pointers(s, g, n->outputs, n->n_outputs);
  memmove(n->outputs + at + 1, n->outputs + at, (n->n_outputs - at) * sizeof(void *));
  n->outputs[at] = v;
  for (n->n_outputs++; at < n->n_outputs; at++)
    n->outputs[at]->index = at;
  return v;
}

ir_value *ir_node_add_output(session *s, ir_node *n, const type *t)
{
  return ir_node_insert_output(s, n, n->n_outputs, t);
}

void ir_node_insert_input(session *s, ir_node *n, uint32_t at, ir_value *v)
{
  ASSERT(at <= n->n_inputs, "no such place for an input");
  ASSERT(!n->destroyed, "an input of a destroyed node");
  ir_use *u = session_alloc_in(s, &n->graph->mem, sizeof *u);

  u->user = n;
  GROW_IN(s, &n->graph->mem, n->inputs, n->n_inputs, n->cap_inputs, 2);
  memmove(n->inputs + at + 1, n->inputs + at, (n->n_inputs - at) * sizeof(void *));
  n->inputs[at] = u;
  n->n_inputs++;
  if (v)
    use_link(u, v);
}

void ir_node_add_input(session *s, ir_node *n, ir_value *v)
{
  ir_node_insert_input(s, n, n->n_inputs, v);
}

void ir_node_remove_input(ir_node *n, uint32_t i)
{
  ASSERT(i < n->n_inputs, "no such input");
  ir_node_set_input(n, i, NULL);
  memmove(n->inputs + i, n->inputs + i + 1, (n->n_inputs - i - 1) * sizeof(void *));
  n->n_inputs--;
}

void ir_node_remove_output(ir_node *n, uint32_t i)
{
  ASSERT(i < n->n_outputs && !n->outputs[i]->uses, "an output with uses");
  ir_value_forget_name(n->outputs[i]);
  memmove(n->outputs + i, n->outputs + i + 1, (n->n_outputs - i - 1) * sizeof(void *));
  n->n_outputs--;
  for (; i < n->n_outputs; i++)
    n->outputs[i]->index = i;
}

ir_block *ir_node_add_block(session *s, ir_node *n)
{
  ASSERT(!n->destroyed, "a block of a destroyed node");
  ir_block *b = ir_block_new(s, n->graph, n);

  n->blocks = grow_pointers(s, n->graph, n->blocks, n->n_blocks);
  n->blocks[n->n_blocks++] = b;
  return b;
}

ir_block *ir_block_new(session *s, ir_graph *g, ir_node *owner)
{
  ir_block *b = session_alloc_in(s, &g->mem, sizeof *b);

  b->graph = g;
  b->owner = owner;
  b->param = ir_node_new(s, g, IR_PARAM, NULL, 0);
  b->ret = ir_node_new(s, g, IR_RETURN, NULL, 0);
  b->param->block = b->ret->block = b;
  b->ret->prev = b->ret->next = b->ret;
  b->ret->order = UINT64_MAX;
  return b;
}

/* -- Order ------------------------------------------------------------------------------------- */

static void renumber(ir_block *b)
{
  uint64_t order = ORDER_FIRST;

  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    n->order = order += ORDER_GAP;
}

/* Choose an order between the neighbours'.  The return node counts as 0 on the left of the first
 * node and as UINT64_MAX on the right of the last.  At the ends a whole gap is used: halving would
 * use them up. */
static void place(ir_node *n)
{
  const ir_node *ret = n->block->ret;
  uint64_t lo = n->prev == ret ? 0 : n->prev->order;
  uint64_t hi = n->next->order;

  if (n->next == ret && n->prev == ret)
    n->order = ORDER_FIRST;
  else if (n->next == ret && hi - lo > ORDER_GAP)
    n->order = lo + ORDER_GAP;
  else if (n->prev == ret && hi > ORDER_GAP)
    n->order = hi - ORDER_GAP;
  else if (hi - lo > 1)
    n->order = lo + (hi - lo) / 2;
  else
    renumber(n->block);
  ASSERT(n->prev == ret || n->prev->order < n->order, "order does not grow");
  ASSERT(n->order < n->next->order, "order does not grow");
}

void ir_node_insert_after(ir_node *n, ir_node *pos)
{
  ASSERT(n->block == NULL, "node is already in a block");
  ASSERT(pos->block != NULL && pos->kind != IR_PARAM, "position is in no block");
  ASSERT(n->graph == pos->block->graph && !n->destroyed, "a node of another graph, or destroyed");
  ASSERT(pos->next->prev == pos, "the ring is broken");

  n->block = pos->block;
  n->prev = pos;
  n->next = pos->next;
  n->prev->next = n;
  n->next->prev = n;
  place(n);
}

void ir_node_insert_before(ir_node *n, ir_node *pos) { ir_node_insert_after(n, pos->prev); }
void ir_node_append(ir_node *n, ir_block *b) { ir_node_insert_after(n, b->ret->prev); }

void ir_node_unlink(ir_node *n)
{
  ASSERT(n->block != NULL, "node is in no block");
  ASSERT(n != n->block->ret, "the return node closes the ring");
  ASSERT(n->prev->next == n && n->next->prev == n, "the ring is broken");

  n->prev->next = n->next;
  n->next->prev = n->prev;
  if (n->graph->insert_at == n)
    n->graph->insert_at = n->next;
  n->prev = n->next = NULL; /* a stale walk fails at once, not later */
  n->block = NULL;
}

void ir_node_move_before(ir_node *n, ir_node *pos)
{
  if (n == pos || n->next == pos)
    return;
  ir_node_unlink(n);
  ir_node_insert_after(n, pos->prev);
}

void ir_node_move_after(ir_node *n, ir_node *pos)
{
  if (n == pos || n->prev == pos)
    return;
  ir_node_unlink(n);
  ir_node_insert_after(n, pos);
}

/* Return the number of blocks around b, including b. */
static uint32_t block_depth(const ir_block *b)
{
  uint32_t depth = 0;

  for (; b; b = b->owner ? b->owner->block : NULL)
    depth++;
  return depth;
}

bool ir_node_is_before(const ir_node *a, const ir_node *b)
{
  ASSERT(a->graph == b->graph, "nodes of different graphs have no order");
  ASSERT(a->block && b->block, "a node in no block has no order");
  if (a->block == b->block)
    return a->order < b->order;
  const ir_node *x = a, *y = b;
  uint32_t dx = block_depth(a->block), dy = block_depth(b->block);

  for (; dx > dy; dx--)
    x = x->block->owner;
  for (; dy > dx; dy--)
    y = y->block->owner;
  while (x->block != y->block) {
    x = x->block->owner;
    y = y->block->owner;
  }
  if (x != y)
    return x->order < y->order;
  return x == a; /* an owner runs before what is inside; blocks of one node have no order */
}

/* -- Destroying -------------------------------------------------------------------------------- */

static void unset_inputs(ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    ir_node_set_input(n, i, NULL);
}

static void unset_block(ir_block *b);

/* Unset all inputs inside first: nodes in a wrong order are destroyed as well. */
static void unset_all(ir_node *n)
{
  unset_inputs(n);
  for (uint32_t i = 0; i < n->n_blocks; i++)
    unset_block(n->blocks[i]);
}

static void unset_block(ir_block *b)
{
  unset_inputs(b->ret);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next)
    unset_all(n);
}

static void destroy_block(ir_block *b)
{
  unset_block(b);
  while (ir_block_last(b) != b->ret)
    ir_node_destroy(ir_block_last(b));
  ASSERT(ir_block_first(b) == b->ret, "a node is left in a destroyed block");
  for (uint32_t i = 0; i < b->param->n_outputs; i++)
    ir_value_forget_name(b->param->outputs[i]);
  if (b->graph->insert_at == b->ret)
    b->graph->insert_at = NULL;
  b->param->destroyed = b->ret->destroyed = true;
}

void ir_node_destroy_block(ir_node *n, uint32_t i)
{
  ASSERT(i < n->n_blocks, "no such block");
  destroy_block(n->blocks[i]);
  memmove(n->blocks + i, n->blocks + i + 1, (n->n_blocks - i - 1) * sizeof(void *));
  n->n_blocks--;
}

void ir_node_destroy(ir_node *n)
{
  ASSERT(!n->destroyed, "a node is destroyed twice");
  while (n->n_blocks)
    ir_node_destroy_block(n, n->n_blocks - 1);
  unset_inputs(n);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ASSERT(!n->outputs[i]->uses, "destroying a node whose output is used");
    ir_value_forget_name(n->outputs[i]);
  }
  n->destroyed = true;
  if (n->block)
    ir_node_unlink(n);
}

static bool used_outside(const ir_node *of, const ir_node *n)
{
  for (uint32_t i = 0; i < of->n_outputs; i++)
    for (const ir_use *u = of->outputs[i]->uses; u; u = u->next)
      if (!ir_block_is_inside(u->user->block, n))
        return true;
  for (uint32_t i = 0; i < of->n_blocks; i++) {
    const ir_block *b = of->blocks[i];

    if (used_outside(b->param, n))
      return true;
    for (const ir_node *m = ir_block_first(b); m != b->ret; m = m->next)
      if (used_outside(m, n))
        return true;
  }
  return false;
}

bool ir_node_is_unused(const ir_node *n) { return !used_outside(n, n); }

bool ir_block_is_inside(const ir_block *b, const ir_node *n)
{
  for (; b; b = b->owner ? b->owner->block : NULL)
    if (b->owner == n)
      return true;
  return false;
}

/* Return the node printed behind n, inside the block `top`; NULL: the end. */
static ir_node *next_in_text(const ir_block *top, const ir_node *n, bool nested)
{
  for (uint32_t i = 0; nested && i < n->n_blocks; i++)
    if (ir_block_first(n->blocks[i]) != n->blocks[i]->ret)
      return ir_block_first(n->blocks[i]);
  while (n->next == n->block->ret) {
    const ir_block *b = n->block;
    const ir_node *owner = b->owner;
    bool behind = false;

    if (b == top || !owner)
      return NULL;
    for (uint32_t i = 0; i < owner->n_blocks; i++) {
      if (behind && ir_block_first(owner->blocks[i]) != owner->blocks[i]->ret)
        return ir_block_first(owner->blocks[i]);
      behind = behind || owner->blocks[i] == b;
    }
    n = owner;
  }
  return n->next;
}

/* True if n has that kind.  Host calls also match by the name of the function they call. */
static bool is_of_kind(const ir_node *n, const char *kind)
{
  const char *name = ir_node_kind_name(n);

  return strcmp(name, kind) == 0 || (ir_node_is_of_host(n) && strcmp(kind, "prim::PythonOp") == 0);
}

ir_node *ir_block_find(const ir_block *b, const char *kind, bool nested, const ir_node *after)
{
  ir_node *n = after                         ? next_in_text(b, after, nested)
               : ir_block_first(b) == b->ret ? NULL
                                             : ir_block_first(b);

  while (n && !is_of_kind(n, kind))
    n = next_in_text(b, n, nested);
  return n;
}

/* -- Kinds ------------------------------------------------------------------------------------- */

static const char *const kind_names[N_IR_KINDS] = {
#define IR_NAME(symbol, name) [IR_##symbol] = name,
    IR_KINDS(IR_NAME)
#undef IR_NAME
};

bool ir_node_is_of_host(const ir_node *n)
{
  if (n->kind == IR_OP)
    return n->op->schema->is_of_host;
  return n->kind == IR_UNKNOWN_OP && *ir_node_kind_name(n) == '^'; /* of a text: that is its form */
}

const char *ir_node_kind_name(const ir_node *n)
{
  ASSERT(n->kind < N_IR_KINDS && (n->kind != IR_OP || n->op), "a node without a kind");
  if (n->kind == IR_OP)
    return n->op->schema->name;
  if (n->kind == IR_UNKNOWN_OP)
    return ir_attr_string(n, "_kind");
  if (n->kind == IR_HIGHER_ORDER)
    return ir_attr_string(n, "name");
  return kind_names[n->kind];
}

/* Find a fixed kind by name; returns false if there is none. */
static bool kind_of_name(str name, ir_kind *out)
{
  for (int k = 0; k < N_IR_KINDS; k++)
    if (kind_names[k][0] && k != IR_HIGHER_ORDER && str_is(name, kind_names[k])) {
      *out = (ir_kind)k;
      return true;
    }
  return false;
}

static const char *const higher_order_names[] = {"cond", "while_loop", "map", "scan",
                                                "parameter", "number", "assertion",
                                                "decided", "constrain",
                                                "autocast", "expect", "size_of_data",
                                                "module_inputs", "module_outputs",
                                                "_add_batch_dim", "_remove_batch_dim",
                                                "_vmap_increment_nesting",
                                                "_vmap_decrement_nesting",
                                                "lazy_load_decompositions"};

static ir_kind kind_of(str name)
{
  ir_kind kind;

  for (size_t i = 0; i < COUNT_OF(higher_order_names); i++)
    if (str_is(name, higher_order_names[i]))
      return IR_HIGHER_ORDER;
  if (kind_of_name(name, &kind))
    return kind;
  for (size_t i = name.len; i > 0; i--) { /* prim::fork_0: a kind and a number */
    if (name.p[i - 1] == '_' && i < name.len && kind_of_name((str){name.p, i - 1}, &kind))
      return kind;
    if (name.p[i - 1] < '0' || name.p[i - 1] > '9')
      break;
  }
  return IR_UNKNOWN_OP;
}

ir_node *ir_node_new_named(session *s, ir_graph *g, str name)
{
  ir_node *n = ir_node_new(s, g, kind_of(name), NULL, 0);

  if (n->kind == IR_HIGHER_ORDER || n->kind == IR_UNKNOWN_OP)
    ir_attr_set_string(s, n, n->kind == IR_UNKNOWN_OP ? "_kind" : "name",
                       session_strndup(s, name.p, name.len));
  if (n->kind == IR_CONSTANT) /* no value: None */
    n->constant = ir_graph_add_constant(s, g, value_none());
  return n;
}

/* True if n's outputs fit the schema: overloads may differ only in their results (the value of an
 * enum). */
static bool outputs_fit(const ir_node *n, const schema *sc)
{
  if (sc->is_varret || n->n_outputs != sc->n_returns)
    return sc->is_varret;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const type *t = sc->returns[i].type;

    if (!type_has_vars(t) && type_runtime(t)->kind != type_runtime(n->outputs[i]->type)->kind)
      return false;
  }
  return true;
}

void ir_node_resolve(session *s, ir_node *n)
{
  uint32_t k = 0;
  bool fits = n->kind == IR_OP && ir_node_fits_schema(n, n->op->schema);

  if ((n->kind != IR_UNKNOWN_OP && n->kind != IR_OP) ||
      (fits && (!n->n_outputs || outputs_fit(n, n->op->schema))))
    return;
  const char *name = ir_node_kind_name(n);
  const op *const *ops = session_op_overloads(s, str_of(name), &k), *best = fits ? n->op : NULL;

  for (uint32_t i = 0; i < k; i++) {
    if (!ir_node_fits_schema(n, ops[i]->schema))
      continue;
    if (outputs_fit(n, ops[i]->schema)) {
      best = ops[i];
      break;
    }
    best = best ? best : ops[i];
  }
  if (!best && n->kind == IR_OP)
    ir_attr_set_string(s, n, "_kind", name);
  n->kind = best ? IR_OP : IR_UNKNOWN_OP;
  n->op = best;
  ASSERT(best || ir_attr_string(n, "_kind"), "an unknown operator without a name");
}

static void resolve_block(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    ir_node_resolve(s, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      resolve_block(s, n->blocks[i]);
  }
  session_leave(s);
}

void ir_graph_resolve(session *s, ir_graph *g) { resolve_block(s, g->block); }
