/* passes/rewrite.c -- replaces matches of a pattern by copies of another graph (tools.h). Matches
 * are found first, then replaced in order; a match whose nodes an earlier replacement removed is
 * skipped. Cost: O(nodes + replacements * their size). */
#include "passes/passes_int.h"
#include "passes/tools.h"

static bool overlaps(const ir_match *m)
{
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (m->nodes[i]->destroyed)
      return true;
  for (uint32_t i = 0; i < ir_block_n_inputs(m->pattern->block);
       i++) { /* a value that an earlier one replaced */
    const ir_value *v = m->values[ir_block_input(m->pattern->block, i)->scratch];
    if (v && v->node->destroyed)
      return true;
  }
  return false;
}

static ir_value *matched(const ir_match *m, const ir_value *p) { return m->values[p->scratch]; }

/* Return the position for the replacement: after all inputs and before all users of outputs; NULL:
 * there is none. */
static ir_node *place_of_match(const ir_match *m)
{
  const ir_block *p = m->pattern->block;
  const ir_block *b = m->anchor->block;
  ASSERT(m->n_nodes > 0 && !m->anchor->destroyed, "a match has nodes, which are there");
  ir_node *at =
    m->nodes[m->n_nodes - 1]->next; /* the position of the last one, if users allow it */

  for (uint32_t i = 0; i < ir_block_n_outputs(p); i++)
    for (const ir_use *u = matched(m, ir_block_output(p, i))->uses; u; u = u->next) {
      ir_node *user = u->user;
      bool inside = false;

      while (user->block != b)
        user = user->block->owner;
      for (uint32_t k = 0; k < m->n_nodes && !inside; k++)
        inside = m->nodes[k] == user;
      if (!inside && ir_node_is_before(user, at))
        at = user;
    }
  for (uint32_t i = 0; i < ir_block_n_inputs(p); i++) {
    const ir_value *v = matched(m, ir_block_input(p, i));

    if (v && v->node->kind != IR_PARAM && v->node->block == b && !ir_node_is_before(v->node, at))
      return NULL;
  }
  return at;
}

static bool replace(session *s, const ir_match *m, const ir_graph *by)
{
  const ir_block *p = m->pattern->block;
  uint32_t n_in = ir_block_n_inputs(p), n_out = ir_block_n_outputs(p);
  ir_value **in = session_array(s, ir_value *, n_in), **out = session_array(s, ir_value *, n_out);
  ir_node *at = place_of_match(m), *before;

  for (uint32_t i = 0; i < n_in; i++) {
    in[i] = matched(m, ir_block_input(p, i));
    if (!in[i] && ir_value_has_uses(ir_block_input(by->block, i)))
      return false;
  }
  if (!at)
    return false;
  before = at->prev;
  ir_block_inline(s, by->block, at, in, out);
  for (ir_node *n = before->next; n != at; n = n->next)
    n->range = m->anchor->range;
  for (uint32_t i = 0; i < n_out; i++) {
    ir_value *old = matched(m, ir_block_output(p, i));

    ASSERT(out[i]->node->graph == old->node->graph, "the copy is in the graph");
    if (out[i]->node->kind != IR_PARAM && type_is(out[i]->type, TYPE_TENSOR))
      out[i]->type = old->type;
    ir_value_replace_all_uses(old, out[i]);
  }
  for (uint32_t i = m->n_nodes; i > 0; i--)
    if (ir_node_is_unused(m->nodes[i - 1]))
      ir_node_destroy(m->nodes[i - 1]);
  return true;
}

uint32_t rewrite_all(session *s, ir_graph *pattern, const ir_graph *by, ir_graph *g,
                     match_accept *accept, void *user)
{
  uint32_t n = 0;

  if (ir_block_n_inputs(pattern->block) != ir_block_n_inputs(by->block) ||
      ir_block_n_outputs(pattern->block) != ir_block_n_outputs(by->block))
    session_fail_status(
      s, RUSH_EARGUMENT, NULL, NULL,
      "a pattern and what replaces it have the same numbers of inputs and outputs");
  for (ir_match *m = match_all(s, pattern, g); m; m = m->next)
    if (!overlaps(m) && (!accept || accept(user, m)) && replace(s, m, by))
      n++;
  return n;
}
