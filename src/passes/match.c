/* passes/match.c -- finds the places where a pattern graph matches. The anchor is the node of the
 * pattern's first output; from it the match follows inputs backwards, which determines every other
 * node, so there is no search and a try costs O(pattern). Values inside a match may have no users
 * outside it, as a rewrite will remove them. */
#include "passes/passes_int.h"
#include "passes/tools.h"

typedef struct matcher {
  session *s;
  const ir_graph *pattern;
  ir_value **values;  /* by the pattern's value->scratch */
  ir_node **nodes;    /* by the pattern's node->scratch */
  uint32_t n_values, n_nodes;
  ir_block *block;
} matcher;

/* -- The pattern ------------------------------------------------------------------------------- */

static void number_nodes(matcher *m)
{
  for (ir_node *n = m->pattern->block->param;;
       n = n == m->pattern->block->param ? ir_block_first(m->pattern->block) : n->next) {
    session_poll(m->s);
    if (n->n_blocks)
      session_fail_status(m->s, RUSH_EARGUMENT, NULL, NULL, "a pattern has no blocks: %s",
                          ir_node_kind_name(n));
    for (uint32_t i = 0; i < n->n_outputs; i++)
      n->outputs[i]->scratch = m->n_values++;
    if (n == m->pattern->block->ret)
      return;
    if (n->kind != IR_PARAM)
      n->scratch = m->n_nodes++;
  }
}

static bool is_output(const matcher *m, const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next)
    if (u->user == m->pattern->block->ret)
      return true;
  return false;
}

static uint32_t n_uses(const ir_value *v)
{
  uint32_t n = 0;

  for (const ir_use *u = v->uses; u; u = u->next)
    n++;
  return n;
}

/* -- One match --------------------------------------------------------------------------------- */

static bool match_value(matcher *m, const ir_value *p, ir_value *v);

static bool same_node(const ir_node *p, const ir_node *n)
{
  if (strcmp(ir_node_kind_name(p), ir_node_kind_name(n)) != 0 || p->n_inputs != n->n_inputs ||
      p->n_outputs != n->n_outputs || n->n_blocks || p->function != n->function)
    return false;
  return p->kind == IR_CONSTANT ? pass_same_constant(p, n) : pass_same_attrs(p, n);
}

static bool match_node(matcher *m, const ir_node *p, ir_node *n)
{
  ASSERT(p->scratch < m->n_nodes && p->graph == m->pattern, "a node of the pattern has a number");
  if (m->nodes[p->scratch])
    return m->nodes[p->scratch] == n;
  if (!same_node(p, n) || (n->block != m->block && p->kind != IR_CONSTANT))
    return false;
  m->nodes[p->scratch] = n;
  session_enter(m->s);
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (!match_value(m, p->outputs[i], n->outputs[i]))
      return false;
  for (uint32_t i = 0; i < p->n_inputs; i++)
    if (!match_value(m, ir_node_input(p, i), ir_node_input(n, i)))
      return false;
  session_leave(m->s);
  return true;
}

static bool match_value(matcher *m, const ir_value *p, ir_value *v)
{
  if (m->values[p->scratch])
    return m->values[p->scratch] == v;
  m->values[p->scratch] = v;
  if (p->node->kind == IR_PARAM)
    return true;
  /* Inner values must have no other users; constants may have. */
  if (p->node->kind != IR_CONSTANT && !is_output(m, p) && n_uses(p) != n_uses(v))
    return false;
  return p->index == v->index && match_node(m, p->node, v->node);
}

static bool match_at(matcher *m, ir_node *anchor)
{
  const ir_block *p = m->pattern->block;
  const ir_value *first = ir_block_output(p, 0);
  uint32_t depth = m->s->depth;

  memset(m->values, 0, (m->n_values + 1) * sizeof *m->values);
  memset(m->nodes, 0, (m->n_nodes + 1) * sizeof *m->nodes);
  m->block = anchor->block;
  bool found =
    first->index < anchor->n_outputs && match_value(m, first, anchor->outputs[first->index]);
  m->s->depth = depth;
  for (uint32_t i = 0; i < m->n_nodes && found;
       i++) /* another output's nodes that the first does not reach */
    found = m->nodes[i] != NULL;
  return found;
}

static ir_match *keep_match(matcher *m, ir_node *anchor)
{
  ir_match *out = session_new(m->s, ir_match);

  *out = (ir_match){.pattern = m->pattern, .anchor = anchor};
  out->values = session_array(m->s, ir_value *, (size_t)m->n_values + 1);
  memcpy(out->values, m->values, m->n_values * sizeof *out->values);
  out->nodes = session_array(m->s, ir_node *, (size_t)m->n_nodes + 1);
  for (uint32_t i = 0; i < m->n_nodes; i++) { /* sorted; constants of outer blocks stay */
    uint32_t at = out->n_nodes;

    if (m->nodes[i]->kind == IR_CONSTANT)
      continue;
    ASSERT(m->nodes[i]->block == anchor->block, "a match lies in one block");
    for (; at > 0 && m->nodes[i]->order < out->nodes[at - 1]->order; at--)
      out->nodes[at] = out->nodes[at - 1];
    out->nodes[at] = m->nodes[i];
    out->n_nodes++;
  }
  return out;
}

static void find_in(matcher *m, ir_block *b, ir_match ***end)
{
  session_enter(m->s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(m->s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      find_in(m, n->blocks[i], end);
    if (match_at(m, n)) {
      **end = keep_match(m, n);
      *end = &(**end)->next;
    }
  }
  session_leave(m->s);
}

ir_match *match_all(session *s, ir_graph *pattern, ir_graph *g)
{
  matcher m = {.s = s, .pattern = pattern};
  ir_match *first = NULL, **end = &first;

  const ir_node *last =
    ir_block_n_outputs(pattern->block) ? ir_block_output(pattern->block, 0)->node : NULL;

  if (!last || last->kind == IR_PARAM || last->kind == IR_CONSTANT)
    session_fail_status(s, RUSH_EARGUMENT, NULL, NULL,
                        "a pattern's first output must be the output of one of its nodes");
  number_nodes(&m);
  m.values = session_array(s, ir_value *, (size_t)m.n_values + 1);
  m.nodes = session_array(s, ir_node *, (size_t)m.n_nodes + 1);
  find_in(&m, g->block, &end);
  return first;
}
