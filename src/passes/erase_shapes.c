/* passes/erase_shapes.c -- removes facts about tensors: their types become Tensor again. */
#include "ir/facts.h"
#include "passes/passes_int.h"

static void erase(session *s, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const type *plain = ir_type_unshaped(s, n->graph->types, n->outputs[i]->type);
    ASSERT(plain->kind == n->outputs[i]->type->kind, "only facts are removed");
    n->outputs[i]->type = plain;
  }
}

static void erase_node(session *s, ir_node *n, void *arg)
{
  (void)arg;
  erase(s, n);
  for (uint32_t i = 0; i < n->n_blocks; i++)
    erase(s, n->blocks[i]->param);
}

void pass_erase_shape_information(session *s, ir_graph *g)
{
  erase(s, g->block->param);
  pass_each(s, g->block, erase_node, NULL);
}

/* What a profile knows is in types and in nothing else. */
void pass_clear_profiling_information(session *s, ir_graph *g)
{
  pass_erase_shape_information(s, g);
}
