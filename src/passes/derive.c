/* passes/derive.c -- groups what follows from weights alone: the weight that weight_norm or weight
 * standardisation computes, a table of position biases gathered by a fixed index, a scale made of
 * the statistics of a frozen batch norm, a weight cast by autocast.
 *
 * A value *follows* if it is a constant, what self holds, or the result of a pure operator all of
 * whose arguments follow. The operator that owns the groups keeps their results from call to call
 * (compile/derived.c) and compares the weights; so a result may leave a group only if nothing can
 * write to it or see that two calls have the same tensor. Cost: O(nodes). */
#include "ir/alias.h"
#include "ops/call/lookup.h"
#include "passes/passes_int.h"

#define MOST_NODES 256
#define MOST_INPUTS 64
#define MOST_OUTPUTS 16

typedef struct deriver {
  session *s;
  const alias_info *a;
  const bool *escapes;
  bool *follows;  /* by ir_value->id */
  bool *may_stay; /* of those that follow: may be the same tensor in every call */
} deriver;

static bool all_follow(const deriver *d, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (!d->follows[ir_node_input(n, i)->id])
      return false;
  return true;
}

/* True if an argument is a tensor or has tensors, as far as types tell. */
static bool has_tensor(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++) {
    const type *t = ir_node_input(n, i)->type;

    t = type_is(t, TYPE_LIST) ? type_elem(t) : t;
    if (type_is(t, TYPE_TENSOR) || type_is(t, TYPE_OPTIONAL))
      return true;
  }
  return false;
}

/* True for an operator that makes tensors of tensors, and does nothing else. */
static bool computes(const ir_node *n)
{
  if (n->kind != IR_OP || n->n_blocks || !n->n_outputs || op_waits(n->op) ||
      n->op->effects & (OP_WRITES | OP_SIDE_EFFECT | OP_RANDOM) || !has_tensor(n))
    return false;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (!type_is(n->outputs[i]->type, TYPE_TENSOR))
      return false;
  return true;
}

static bool node_follows(const deriver *d, const ir_node *n)
{
  switch (n->kind) {
  case IR_CONSTANT: return true;
  case IR_GET_ATTR:
  case IR_UNCHECKED_CAST: return all_follow(d, n);
  case IR_LIST_CONSTRUCT: return all_follow(d, n) && !alias_items_change(d->a, n->outputs[0]);
  case IR_OP: return computes(n) && all_follow(d, n);
  default: return false;
  }
}

static bool stays(const deriver *d, const ir_value *v)
{
  const uint32_t group = alias_group(d->a, v);

  return !alias_is_written(d->a, v) &&
         (group == ALIAS_NO_MEMORY || !d->escapes[group] || pass_is_hidden(v));
}

static void mark_block(deriver *d, const ir_block *b)
{
  session_enter(d->s);
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(d->s);
    for (uint32_t i = 0; i < n->n_blocks && !ir_node_is_subgraph(n); i++)
      mark_block(d, n->blocks[i]);
    const bool follows = node_follows(d, n);
    for (uint32_t i = 0; i < n->n_outputs && follows; i++) {
      d->follows[n->outputs[i]->id] = true;
      d->may_stay[n->outputs[i]->id] = stays(d, n->outputs[i]);
    }
  }
  session_leave(d->s);
}

static const char *refuse_node(const rush_node *node, void *user)
{
  const deriver *d = user;
  const ir_node *n = (const ir_node *)(const void *)node;

  return n->kind == IR_OP && d->follows[n->outputs[0]->id]
           ? NULL
           : "it does not follow from weights alone";
}

static bool is_member(const ir_node *const *nodes, size_t n, const ir_node *of)
{
  size_t low = 0;

  while (low < n) {
    const size_t middle = low + (n - low) / 2;

    if (nodes[middle] == of)
      return true;
    if (nodes[middle]->order < of->order)
      low = middle + 1;
    else
      n = middle;
  }
  return false;
}

static bool is_used_outside(const ir_node *const *nodes, size_t n, const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next)
    if (u->user->block != nodes[0]->block || !is_member(nodes, n, u->user))
      return true;
  return false;
}

/* True if the operator makes memory of its own: views cost nothing. */
static bool makes_memory(const ir_node *n)
{
  if (n->kind != IR_OP || n->op->effects & OP_RETURNS_ARG)
    return false;
  for (uint32_t i = 0; i < n->op->schema->n_returns; i++) {
    const schema_arg *r = &n->op->schema->returns[i];

    if (r->alias_before | r->alias_after | r->elem_alias)
      return false;
  }
  return true;
}

/* True if the nodes compute something, and what leaves them may stay. */
static bool takes_nodes(const rush_node *const *members, size_t n, void *user)
{
  const deriver *d = user;
  const ir_node *const *nodes = (const ir_node *const *)(const void *)members;
  bool made = false;

  for (size_t k = 0; k < n; k++) {
    made |= makes_memory(nodes[k]);
    for (uint32_t i = 0; i < nodes[k]->n_outputs; i++)
      if (!d->may_stay[nodes[k]->outputs[i]->id] &&
          is_used_outside(nodes, n, nodes[k]->outputs[i]))
        return false;
  }
  return made;
}

void pass_group_derived(rush_pass *p, const char *op)
{
  session *s = p->s;
  ir_graph *g = p->graph;
  deriver d = {.s = s};
  const rush_group_def def = {.struct_bytes = sizeof def,
                              .op = op,
                              .refuse = refuse_node,
                              .user = &d,
                              .max_nodes = MOST_NODES,
                              .max_inputs = MOST_INPUTS,
                              .max_outputs = MOST_OUTPUTS,
                              .takes = takes_nodes,
                              .takes_lists = true};

  if (g->is_recorded || !ir_block_n_inputs(g->block))
    return;
  d.a = alias_analyse_all(s, g);
  d.escapes = pass_escaping(s, d.a, g);
  d.follows = session_array(s, bool, g->next_id);
  d.may_stay = session_array(s, bool, g->next_id);
  const ir_value *self = ir_block_input(g->block, 0);
  d.follows[self->id] = self->type->kind == TYPE_CLASS;
  mark_block(&d, g->block);
  pass_group(p, &def);
}
