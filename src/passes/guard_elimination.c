/* passes/guard_elimination.c -- removes guards that other guards imply.
 *
 *   move to definitions -> coalesce -> remove what shape rules prove
 *
 * A guard moves up to the definition of its value, in its own block: a branch that does not run
 * must not fail a guard.  It does not pass a node that may write to the value, which may then have
 * other sizes.  Guards of one value that follow each other become one, with what all of them know.
 * Then types are propagated by the operators' shape rules, and a guard goes whose type follows from
 * those of the operator's arguments.  PyTorch has a list of operators for the last step.
 * O(nodes + guards * their distance). */
#include "ir/alias.h"
#include "passes/passes_int.h"
#include "passes/points.h"

typedef struct guards {
  session *s;
  alias_info *alias;
} guards;

/* -- To definitions ---------------------------------------------------------------------------- */

static bool writes_to(const guards *d, const ir_node *n, uint32_t group)
{
  for (uint32_t i = 0; i < alias_n_writes(d->alias); i++) {
    uint32_t to;
    const ir_node *w = alias_write(d->alias, i, &to);

    if (to == group && (w == n || ir_block_is_inside(w->block, n)))
      return true;
  }
  return false;
}

/* Move the guard as far up in its block as its value allows. */
static void move_up(guards *d, ir_node *n)
{
  const ir_value *v = ir_node_input(n, 0);
  const uint32_t group = alias_group(d->alias, v);
  const bool may_write = alias_is_written(d->alias, v);
  ir_node *at = n->prev;

  while (at != n->block->ret && at != v->node &&
         !(at->kind == IR_GUARD && ir_node_input(at, 0) == v) &&
         !(may_write && writes_to(d, at, group)))
    at = at->prev;
  if (at == n->block->ret) { /* behind the guards that are there */
    for (at = ir_block_first(n->block); at->kind == IR_GUARD && at != n;)
      at = at->next;
    ir_node_move_before(n, at);
  } else if (at != n->prev)
    ir_node_move_after(n, at);
}

static void move_block(guards *d, ir_block *b)
{
  session_enter(d->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    next = n->next;
    session_poll(d->s);
    if (n->kind == IR_GUARD && pass_point_of(n) < 0) /* a point's is where its value is made */
      move_up(d, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      move_block(d, n->blocks[i]);
  }
  session_leave(d->s);
}

/* -- Coalescing -------------------------------------------------------------------------------- */

/* Return the facts that hold if both hold: those of `a`, completed by `b`'s.  False: no tensor has
 * both. */
static bool both(ir_facts *a, const ir_facts *b)
{
  const ir_facts was = *a;

  if (a->dtype == DTYPE_NONE)
    a->dtype = b->dtype;
  if (a->defined < 0)
    a->defined = b->defined;
  if (a->requires_grad < 0)
    a->requires_grad = b->requires_grad;
  if (a->contiguous < 0)
    a->contiguous = b->contiguous;
  if (!a->has_device) {
    a->has_device = b->has_device;
    a->device_kind = b->device_kind;
    a->device_index = b->device_index;
  }
  if (a->n_dims < 0) {
    a->n_dims = b->n_dims;
    memcpy(a->sizes, b->sizes, sizeof a->sizes);
    memcpy(a->strides, b->strides, sizeof a->strides);
  }
  for (int i = 0; i < a->n_dims && i < b->n_dims; i++) {
    if (a->sizes[i] == IR_SIZE_UNKNOWN)
      a->sizes[i] = b->sizes[i];
    if (a->strides[i] == IR_STRIDE_UNKNOWN)
      a->strides[i] = b->strides[i];
  }
  return ir_facts_is_subtype(a, b) && ir_facts_is_subtype(a, &was);
}

static void coalesce(session *s, ir_node *n, void *arg)
{
  ir_node *first = n->prev;
  ir_facts f;

  (void)arg;
  if (n->kind != IR_GUARD || first->kind != IR_GUARD || pass_point_of(n) >= 0 ||
      ir_node_input(first, 0) != ir_node_input(n, 0))
    return;
  f = *ir_facts_of(first->outputs[0]->type);
  if (!both(&f, ir_facts_of(n->outputs[0]->type)))
    return; /* one of them fails: each says so */
  first->outputs[0]->type = ir_facts_type(s, n->graph->types, &f);
  ir_attr_set_type(s, first, "profiled_type", first->outputs[0]->type);
  pass_replace(n, first->outputs);
}

/* -- Points ------------------------------------------------------------------------------------ */

/* Return a guard of n's value that runs before n, or NULL. */
static ir_node *guard_before(const ir_node *n)
{
  for (const ir_use *u = ir_node_input(n, 0)->uses; u; u = u->next)
    if (u->user != n && u->user->kind == IR_GUARD && u->user->inputs[0] == u &&
        ir_value_is_visible(u->user->outputs[0], n))
      return u->user;
  return NULL;
}

/* Give a guard of a point what else is known of its value; remove it if that is all. */
static void settle_point(session *s, ir_node *n, void *arg)
{
  const int64_t point = n->kind == IR_GUARD ? pass_point_of(n) : -1;
  ir_facts f;

  (void)arg;
  if (point < 0 || ir_facts_is_none(ir_facts_of(n->outputs[0]->type)))
    return;
  f = *ir_facts_of(n->outputs[0]->type);
  ir_node *first = guard_before(n);
  ir_value *v = first ? first->outputs[0] : ir_node_input(n, 0);
  if (ir_facts_is_subtype(ir_facts_of(v->type), &f)) {
    pass_replace(n, &v);
    return;
  }
  if (both(&f, ir_facts_of(v->type)))
    n->outputs[0]->type = ir_facts_type(s, n->graph->types, &f);
}

void pass_drop_implied_guards(session *s, ir_graph *g)
{
  if (!ir_graph_may_have(g, IR_GUARD))
    return;
  pass_each(s, g->block, settle_point, NULL);
  pass_propagate_shapes_on_graph(s, g);
}

/* -- Proof ------------------------------------------------------------------------------------- */

static void drop_implied(session *s, ir_node *n, void *arg)
{
  (void)s;
  (void)arg;
  if (n->kind != IR_GUARD || pass_point_of(n) >= 0)
    return;
  ir_value *v = ir_node_input(n, 0);
  if (ir_facts_is_subtype(ir_facts_of(v->type), ir_facts_of(n->outputs[0]->type)))
    pass_replace(n, &v);
}

void pass_guard_elimination(session *s, ir_graph *g)
{
  guards d = {.s = s};

  if (!ir_graph_may_have(g, IR_GUARD))
    return;
  d.alias = alias_analyse_all(s, g);
  move_block(&d, g->block);
  pass_each(s, g->block, coalesce, NULL);
  pass_propagate_shapes_on_graph(s, g);
  pass_each(s, g->block, drop_implied, NULL);
  pass_drop_implied_guards(s, g);
}
