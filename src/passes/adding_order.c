/* passes/adding_order.c -- decides which operators a recorded plan may differentiate as one.
 *
 * Contributions to a gradient are added in the reverse order of the records (autograd/backward.c),
 * and a record of a whole graph has one place in that order.  So a group is refused if a user of
 * the same tensor outside of it would change places with one of its nodes, unless the tensor has
 * two contributions, whose order means nothing.  Also refused: a result that the program hands out,
 * or takes gradients of, and that a node of the group reads, because a gradient between two results
 * of one record does not exist; and tensors that the graph writes to, because views of them get
 * records at their next use.
 *
 * Values may be the same tensor under several names: branches, loops, containers, attributes and
 * operators that may return their argument.  One walk finds these classes (union-find).  Arguments
 * and attributes that are the same tensor are seen when the graph runs (autodiff/node.c).
 * Cost: O(nodes); a question O(members * users), of at most MOST_MEMBERS. */
#include "ir/alias.h"
#include "ops/call/gradient.h"
#include "ops/call/lookup.h"
#include "passes/passes_int.h"

typedef struct same { /* a value; a class is a ring */
  ir_value *v;
  struct same *up;   /* towards the class' first; itself */
  struct same *next;
  struct flow *from; /* values that this may get */
  bool is_handed_out;
} same;

typedef struct flow {
  same *of;
  struct flow *next;
} flow;

struct adding_order {
  session *s;
  table values;  /* same, by address of the value */
  table attrs;   /* same, by name of the attribute */
  bool *written; /* by group of the alias analysis: the graph writes to a tensor that may require
                  * gradients */
  table refused; /* nodes that read or make one of those */
};

/* -- Classes ----------------------------------------------------------------------------------- */

static same *first_of(same *a)
{
  while (a->up != a)
    a = a->up = a->up->up;
  return a;
}

static same *find_value(adding_order *o, ir_value *v)
{
  same *a = table_get(&o->values, address_key(v));

  if (a)
    return a;
  a = session_new(o->s, same);
  *a = (same){.v = v};
  a->up = a->next = a;
  session_table_put(o->s, &o->values, address_key(v), a);
  return a;
}

static same *class_of(adding_order *o, ir_value *v) { return first_of(find_value(o, v)); }

static void join_classes(same *a, same *b)
{
  same *next = a->next;

  if (a == b)
    return;
  a->next = b->next;
  b->next = next;
  b->up = a;
}

/* Note that `to` may be `from`. */
static void pass_on(adding_order *o, same *from, same *to)
{
  flow *f = session_new(o->s, flow);

  *f = (flow){from, to->from};
  to->from = f;
  join_classes(first_of(from), first_of(to));
}

static void unite(adding_order *o, ir_value *from, ir_value *to)
{
  if (alias_type_has_memory(from->type) && alias_type_has_memory(to->type))
    pass_on(o, find_value(o, from), find_value(o, to));
}

/* Join whatever the node takes and returns. */
static void join_all(adding_order *o, const ir_node *n)
{
  ir_value *first = NULL;

  for (uint32_t i = 0; i < n->n_inputs + n->n_outputs; i++) {
    ir_value *v = i < n->n_inputs ? ir_node_input(n, i) : n->outputs[i - n->n_inputs];

    if (!alias_type_has_memory(v->type))
      continue;
    first = first ? first : v;
    unite(o, first, v);
    unite(o, v, first);
  }
}

/* Mark a value that the program hands out, and those that it may be. */
static void hand_out(adding_order *o, same *a)
{
  if (a->is_handed_out)
    return;
  a->is_handed_out = true;
  session_enter(o->s);
  for (const flow *f = a->from; f; f = f->next)
    hand_out(o, f->of);
  session_leave(o->s);
}

static void join_attribute(adding_order *o, const char *name, ir_value *v)
{
  same *of = table_get(&o->attrs, str_of(name));

  if (!alias_type_has_memory(v->type))
    return;
  if (!of)
    session_table_put(o->s, &o->attrs, str_of(name), of = find_value(o, v));
  pass_on(o, of, find_value(o, v));
  pass_on(o, find_value(o, v), of);
}

/* True if each result of the operator is a new tensor, which gets a record of its own. */
static bool makes_new(const op *o)
{
  bool is_new = !(o->effects & (OP_RETURNS_ARG | OP_DROPOUT | OP_WRITES | OP_SIDE_EFFECT)) &&
                !o->outside && !op_waits(o);

  for (uint32_t i = 0; i < o->schema->n_returns && is_new; i++)
    is_new = o->family == FAMILY_VIEW || !(o->schema->returns[i].alias_before |
                                           o->schema->returns[i].alias_after |
                                           o->schema->returns[i].elem_alias);
  return is_new;
}

static void join_blocks(adding_order *o, const ir_node *n)
{
  const uint32_t skip = n->kind == IR_LOOP; /* the counter; the condition */

  for (uint32_t b = 0; b < n->n_blocks; b++)
    for (uint32_t i = 0; i < n->n_outputs; i++) {
      ir_value *made = ir_block_output(n->blocks[b], i + skip);

      unite(o, made, n->outputs[i]);
      if (!skip)
        continue;
      unite(o, made, ir_block_input(n->blocks[b], i + 1));
      unite(o, ir_node_input(n, i + 2), ir_block_input(n->blocks[b], i + 1));
      unite(o, ir_node_input(n, i + 2), n->outputs[i]);
    }
}

static void look_at(session *s, ir_node *n, void *arg)
{
  adding_order *o = arg;

  (void)s;
  switch (n->kind) {
  case IR_CONSTANT:
    return;
  case IR_GET_ATTR:
    join_attribute(o, ir_attr_string(n, "name"), n->outputs[0]);
    return;
  case IR_IF:
  case IR_LOOP:
    join_blocks(o, n);
    return;
  case IR_OP:
    if (!n->n_blocks && makes_new(n->op))
      return;
    break;
  default:
    break;
  }
  join_all(o, n);
  if (n->kind == IR_SET_ATTR)
    join_attribute(o, ir_attr_string(n, "name"), ir_node_input(n, 1));
}

/* True if code that is not in the graph sees what the node takes, or gradients of it are taken. */
static bool hands_out(const ir_node *n)
{
  if (n->kind == IR_OP)
    return n->op->effects & OP_SIDE_EFFECT || op_waits(n->op) || n->op->outside;
  return n->kind == IR_SET_ATTR || ir_node_callee(n) || n->kind == IR_INTERFACE_CALL ||
         n->kind == IR_CALL_METHOD || n->kind == IR_HIGHER_ORDER;
}

static void find_handed_out(session *s, ir_node *n, void *arg)
{
  adding_order *o = arg;

  (void)s;
  for (uint32_t i = 0; i < n->n_inputs && hands_out(n); i++)
    if (alias_type_has_memory(ir_node_input(n, i)->type))
      hand_out(o, find_value(o, ir_node_input(n, i)));
}

/* -- Writes ------------------------------------------------------------------------------------ */

/* True if the node may write to a tensor that requires gradients. */
static bool writes_tensor(const ir_node *n)
{
  bool writes = n->kind != IR_OP && n->kind != IR_SET_ATTR;

  for (uint32_t k = 0; n->kind == IR_OP && k < n->n_inputs && k < n->op->schema->n_args; k++) {
    const schema_arg *arg = &n->op->schema->args[k];

    writes |=
      arg->elem_write || (arg->is_write && type_is(ir_node_input(n, k)->type, TYPE_TENSOR) &&
                          !pass_never_requires(ir_node_input(n, k)));
  }
  return writes;
}

static void find_written(adding_order *o, const alias_info *a)
{
  for (uint32_t i = 0; i < alias_n_writes(a); i++) {
    uint32_t group;
    const ir_node *n = alias_write(a, i, &group);

    if (group != ALIAS_NO_MEMORY && writes_tensor(n))
      o->written[group] = true;
  }
}

typedef struct writes {
  adding_order *o;
  const alias_info *a;
} writes;

static void refuse_written(session *s, ir_node *n, void *arg)
{
  const writes *w = arg;
  bool found = false;

  for (uint32_t i = 0; i < n->n_inputs + n->n_outputs; i++) {
    const ir_value *v = i < n->n_inputs ? ir_node_input(n, i) : n->outputs[i - n->n_inputs];
    const uint32_t group =
      pass_never_requires(v) ? ALIAS_NO_MEMORY : alias_group(w->a, v);

    found |= group != ALIAS_NO_MEMORY && w->o->written[group];
  }
  if (found)
    session_table_put(s, &w->o->refused, address_key(n), n);
}

adding_order *adding_order_of(session *s, ir_graph *g)
{
  adding_order *o = session_new(s, adding_order);
  const alias_info *a = alias_analyse_all(s, g);
  writes w = {o, a};

  o->s = s;
  session_table_init(s, &o->values);
  session_table_init(s, &o->attrs);
  session_table_init(s, &o->refused);
  o->written = session_array(s, bool, alias_n_values(a) + 1);
  find_written(o, a);
  pass_each(s, g->block, refuse_written, &w);
  pass_each(s, g->block, look_at, o);
  pass_each(s, g->block, find_handed_out, o);
  for (uint32_t i = 0; i < ir_block_n_outputs(g->block); i++)
    if (alias_type_has_memory(ir_block_output(g->block, i)->type))
      hand_out(o, find_value(o, ir_block_output(g->block, i)));
  return o;
}

const char *adding_order_refuses(const adding_order *o, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (type_is(ir_node_input(n, i)->type, TYPE_LIST) &&
        type_is(type_elem(ir_node_input(n, i)->type), TYPE_TENSOR))
      return "takes a list of tensors";
  return table_get(&o->refused, address_key(n)) ? "takes or makes what the graph writes to" : NULL;
}

/* -- Questions --------------------------------------------------------------------------------- */

static bool is_member(const order_group *g, const ir_node *n)
{
  uint32_t lo = 0, hi = g->n;

  while (lo < hi) { /* they are sorted */
    const uint32_t mid = lo + (hi - lo) / 2;

    if (g->members[mid] == n)
      return true;
    if (g->members[mid]->order < n->order)
      lo = mid + 1;
    else
      hi = mid;
  }
  return false;
}

/* Return the node of block b that is n or contains it; NULL: n is outside of the block. */
static const ir_node *in_block(const ir_node *n, const ir_block *b)
{
  while (n->block != b) {
    if (!n->block->owner)
      return NULL;
    n = n->block->owner;
  }
  return n;
}

typedef struct span { /* of the users of one class */
  uint64_t first, last; /* orders of the members among them */
  uint32_t n_uses;
  bool is_inside;
} span;

static span members_of(const order_group *g, const same *of)
{
  span at = {.first = UINT64_MAX};
  const same *m = of;

  do {
    for (const ir_use *u = m->v->uses; u; u = u->next, at.n_uses++) {
      if (u->user->block != g->members[0]->block || !is_member(g, u->user))
        continue;
      at.is_inside = true;
      at.first = u->user->order < at.first ? u->user->order : at.first;
      at.last = u->user->order > at.last ? u->user->order : at.last;
    }
    m = m->next;
  } while (m != of);
  return at;
}

/* True if the class is one value that two operators of its block read once each: two
 * contributions. */
static bool has_two(adding_order *o, const same *of, const span *at)
{
  const ir_value *v = of->v;
  bool two = of->next == of && at->n_uses == 2 && v->node->kind == IR_OP;

  for (const ir_use *u = v->uses; u && two; u = u->next) {
    const op_gradients *formulas = NULL;

    two = u->user->kind == IR_OP && u->user->block == v->node->block;
    if (two)
      session_check(o->s, op_gradients_of(o->s->cx, u->user->op, &formulas));
    two = two && formulas;
  }
  return two;
}

/* True if no other user of the class changes places with a member. */
static bool class_keeps(adding_order *o, const order_group *g, const same *of)
{
  const span at = members_of(g, of);
  const uint64_t lo = at.first < g->before ? at.first : g->before;
  const uint64_t hi = at.last > g->before ? at.last : g->before;
  const same *m = of;

  if (!at.is_inside || has_two(o, of, &at))
    return true;
  do {
    for (const ir_use *u = m->v->uses; u; u = u->next) {
      const ir_node *user = in_block(u->user, g->members[0]->block);

      if (user && !is_member(g, user) && lo <= user->order && user->order < hi)
        return false;
    }
    m = m->next;
  } while (m != of);
  return true;
}

/* True if the result is handed out and a member reads it. */
static bool is_read_twice(adding_order *o, const order_group *g, ir_value *v)
{
  bool inside = false, outside = false;

  for (const ir_use *u = v->uses; u; u = u->next)
    *(u->user->block == g->members[0]->block && is_member(g, u->user) ? &inside : &outside) = true;
  return inside && outside && find_value(o, v)->is_handed_out;
}

bool adding_order_keeps(adding_order *o, const order_group *g)
{
  for (uint32_t k = 0; k < g->n; k++) {
    const ir_node *n = g->members[k];

    for (uint32_t i = 0; i < n->n_inputs + n->n_outputs; i++) {
      ir_value *v = i < n->n_inputs ? ir_node_input(n, i) : n->outputs[i - n->n_inputs];

      if (pass_never_requires(v) || v->node->kind == IR_CONSTANT)
        continue;
      if (!class_keeps(o, g, class_of(o, v)))
        return false;
      if (i >= n->n_inputs && is_read_twice(o, g, v))
        return false;
    }
  }
  return true;
}
