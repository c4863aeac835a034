/* passes/erase_shapes.c -- types of tensors are Tensor again. */
#include "passes/passes_int.h"

static void erase(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (type_is(n->outputs[i]->type, TYPE_TENSOR))
      n->outputs[i]->type = type_simple(TYPE_TENSOR);
}

static void visit(session *s, ir_node *n, void *arg)
{
  (void)s;
  (void)arg;
  erase(n);
  for (uint32_t i = 0; i < n->n_blocks; i++)
    erase(n->blocks[i]->param);
}

void pass_erase_shape_information(session *s, ir_graph *g)
{
  erase(g->block->param);
  pass_each(s, g->block, visit, NULL);
}
