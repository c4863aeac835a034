/* passes/clear_undefinedness.c -- removes from types whether a tensor is defined.  Types of a graph
 * that was profiled, or specialised for other arguments, may say so, and new arguments may differ.
 * Other facts stay; PyTorch's pass removes them too. */
#include "ir/facts.h"
#include "passes/passes_int.h"

static void clear(session *s, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_facts f = *ir_facts_of(n->outputs[i]->type);

    if (!type_is(n->outputs[i]->type, TYPE_TENSOR) || f.defined < 0)
      continue;
    f.defined = -1;
    n->outputs[i]->type = ir_facts_type(s, n->graph->types, &f);
  }
}

static void clear_node(session *s, ir_node *n, void *arg)
{
  (void)arg;
  clear(s, n);
  for (uint32_t i = 0; i < n->n_blocks; i++)
    clear(s, n->blocks[i]->param);
}

void pass_clear_undefinedness(session *s, ir_graph *g)
{
  clear(s, g->block->param);
  pass_each(s, g->block, clear_node, NULL);
}
