/* passes/canonicalize.c -- numbers values in printing order: inputs, then the results of each node
 * before the values in its blocks. */
#include "passes/passes_int.h"

static void number_values(ir_graph *g, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ASSERT(n->outputs[i]->index == i && n->graph == g, "an output out of its place");
    n->outputs[i]->id = g->next_id++;
  }
}

static void number_block(session *s, ir_graph *g, ir_block *b)
{
  session_enter(s);
  number_values(g, b->param);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    number_values(g, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      number_block(s, g, n->blocks[i]);
  }
  session_leave(s);
}

void pass_canonicalize(session *s, ir_graph *g)
{
  g->next_id = 0;
  number_block(s, g, g->block);
}
