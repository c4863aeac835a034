/* passes/fuse.c -- groups pointwise operators into nodes prim::FusionGroup, PyTorch's FuseGraph.
 *
 * The groups are subgraphs that run as their nodes would.  The compiler does not need them: it
 * makes its own (compile/fuse.h), by the rules of what it can compile. */
#include "passes/passes_int.h"

#define FEWEST 2

static const char *refuse(const rush_node *node, void *user)
{
  const ir_node *n = (const ir_node *)(const void *)node;

  (void)user;
  return n->op->family == FAMILY_POINTWISE && n->n_outputs == 1 &&
             type_is(n->outputs[0]->type, TYPE_TENSOR)
           ? NULL
           : "is not pointwise";
}

void pass_fuse(session *s, ir_graph *g)
{
  const rush_group_def def = {.refuse = refuse, .min_nodes = FEWEST};

  pass_group_kind(s, g, IR_GROUP, &def, NULL);
}
