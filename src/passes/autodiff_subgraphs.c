/* passes/autodiff_subgraphs.c -- cuts out the parts of a graph that can be differentiated as one.
 *
 * create_autodiff_subgraphs groups differentiable operators (passes/group.c finds the groups: an
 * operator and the producers of its inputs) into nodes prim::DifferentiableGraph.  Operators whose
 * results may share memory with an argument stay outside: a record of the whole subgraph could not
 * follow writes to them, nor return a view together with its base.  inline_autodiff_subgraphs
 * replaces small ones by their nodes again, as recording each operator is then cheaper than
 * recording the whole.  Thresholds are those of PyTorch's executors, which have none if subgraphs
 * are not inlined (context_set_subgraph_inlining).  PyTorch counts profile nodes too, so that two
 * operators are enough where it profiles; a plan therefore inlines none (two operators as one took
 * 0.65 to 1.03 of the time of two records).
 *
 * In a graph whose calls are recorded (ir_graph.is_recorded) gradients keep their bits: see
 * adding_order.c. */
#include "passes/passes_int.h"

#define FEWEST_OPS 2   /* of a subgraph that is created: autodiffSubgraphNodeThreshold */
#define MOST_OPS 256   /* of one in a plan: each that joins is compared with the others */
#define FEWEST_NODES 5 /* of one that stays, with constants: autodiffSubgraphInlineThreshold */

static bool may_share_memory(const op *o)
{
  if (o->family == FAMILY_VIEW || o->effects & (OP_RETURNS_ARG | OP_DROPOUT))
    return true;
  for (uint32_t i = 0; i < o->schema->n_returns; i++)
    if (o->schema->returns[i].alias_before | o->schema->returns[i].alias_after |
        o->schema->returns[i].elem_alias)
      return true;
  return false;
}

typedef struct cutting {
  session *s;
  adding_order *order; /* of a graph whose calls are recorded, or NULL */
} cutting;

static const char *refuse(const rush_node *node, void *user)
{
  const ir_node *n = (const ir_node *)(const void *)node;
  const cutting *c = user;
  const char *why = c->order ? adding_order_refuses(c->order, n) : NULL;
  bool makes = false, takes = false;

  if (why)
    return why;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    makes |= type_is(n->outputs[i]->type, TYPE_TENSOR);
  if (!makes)
    return "makes no tensor";
  for (uint32_t i = 0; i < n->n_inputs; i++)
    takes |= type_is(ir_node_input(n, i)->type, TYPE_TENSOR);
  if (!takes)
    return "takes no tensor, so there is nothing to differentiate";
  if (may_share_memory(n->op))
    return "its result may share memory with an argument";
  return pass_is_differentiable(c->s, n) ? NULL : "has no derivative in the table";
}

void pass_create_autodiff_subgraphs(session *s, ir_graph *g)
{
  cutting c = {s, g->is_recorded ? adding_order_of(s, g) : NULL};
  const rush_group_def def = {.refuse = refuse,
                              .user = &c,
                              .min_nodes = context_inlines_subgraphs(s->cx->ctx) ? FEWEST_OPS : 1,
                              .max_nodes = g->is_recorded ? MOST_OPS : 0};

  if (!g->is_differentiated) /* a part of a part is no other part */
    pass_group_kind(s, g, IR_DIFFERENTIABLE_GRAPH, &def, c.order);
}

/* True if the recorder can record every node by itself. */
static bool runs_recorded(const ir_block *b)
{
  for (const ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    if (n->kind == IR_GROUP || n->kind == IR_TYPE_CHECK || (n->kind == IR_OP && n->op->outside))
      return false;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      if (!runs_recorded(n->blocks[i]))
        return false;
  }
  return true;
}

static void inline_small(session *s, ir_node *n, void *arg)
{
  uint32_t n_nodes = 0;

  (void)arg;
  if (n->kind != IR_DIFFERENTIABLE_GRAPH || n->n_blocks != 1)
    return;
  for (const ir_node *k = ir_block_first(n->blocks[0]); k != n->blocks[0]->ret; k = k->next)
    n_nodes++;
  if (n_nodes >= FEWEST_NODES || !runs_recorded(n->blocks[0]))
    return;
  ir_value **in = session_array(s, ir_value *, n->n_inputs + 1);
  ir_value **out = session_array(s, ir_value *, n->n_outputs + 1);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    in[i] = ir_node_input(n, i);
  ir_block_inline(s, n->blocks[0], n, in, out);
  pass_replace(n, out);
}

void pass_inline_autodiff_subgraphs(session *s, ir_graph *g)
{
  pass_each(s, g->block, inline_small, NULL);
}
