/* passes/lower_grad_of.c -- replaces prim::GradOf by a branch, as PyTorch's LowerGradOf does:
 *
 *   %g = prim::GradOf(%a, %b)      ->      %c = prim::AutogradAnyNonZero(%a, %b)
 *     block0(): ...                        %g = prim::If(%c)
 *                                            block0(): ...
 *                                            block1(): undefined gradients
 *
 * Branches are what other passes know; GradOf says that a block is the derivative of one operator,
 * which only specialize_autogradzero needs, and reads off the condition.  O(nodes). */
#include "passes/passes_int.h"

static void lower(session *s, ir_node *n, void *arg)
{
  (void)arg;
  if (n->kind != IR_GRAD_OF)
    return;
  ir_value **in = session_array(s, ir_value *, n->n_inputs + 1);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    in[i] = ir_node_input(n, i);
  ir_value *any =
    pass_put_op(s, n, "prim::AutogradAnyNonZero", "", in, n->n_inputs)->outputs[0];
  ir_node *branch = pass_put_node(s, n, IR_IF, &any, 1, NULL);
  ir_block *some = ir_node_add_block(s, branch), *none = ir_node_add_block(s, branch);

  pass_splice(n->blocks[0], some->ret);
  ir_value *zero = pass_put_op(s, none->ret, "prim::AutogradZero", "", NULL, 0)->outputs[0];
  ir_value **out = session_array(s, ir_value *, n->n_outputs + 1);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_block_add_output(s, some, ir_block_output(n->blocks[0], i));
    ir_block_add_output(s, none, zero);
    out[i] = ir_node_add_output(s, branch, n->outputs[i]->type);
  }
  ASSERT(pass_if_is_whole(branch), "both blocks return what GradOf did");
  pass_replace(n, out);
}

void pass_lower_grad_of(session *s, ir_graph *g) { pass_each(s, g->block, lower, NULL); }
