/* passes/moves.c -- moves a node to another position of its block if that keeps the meaning. Like
 * PyTorch's moveBeforeTopologicallyValid it collects the nodes between that depend on the node and
 * moves them along. Dependence is by uses, side effects, randomness and writes to memory that
 * aliases. Cost: O(distance * set), with a scan of the writes for each pair. */
#include "ir/alias.h"
#include "passes/passes_int.h"
#include "passes/tools.h"

typedef struct mover {
  session *s;
  alias_info *a;
  ir_node **set; /* what moves, in order of finding */
  uint32_t n;
} mover;

static bool uses_of(const ir_node *n, const ir_node *of)
{
  for (uint32_t i = 0; i < of->n_outputs; i++)
    for (const ir_use *u = of->outputs[i]->uses; u; u = u->next)
      if (u->user == n || ir_block_is_inside(u->user->block, n))
        return true;
  return false;
}

static bool touches_block(const mover *m, const ir_block *b, uint32_t group);

/* True if the node, or a node inside it, has an input or output in the group. */
static bool touches(const mover *m, const ir_node *n, uint32_t group)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (alias_group(m->a, ir_node_input(n, i)) == group)
      return true;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (alias_group(m->a, n->outputs[i]) == group)
      return true;
  for (uint32_t i = 0; i < n->n_blocks; i++)
    if (touches_block(m, n->blocks[i], group))
      return true;
  return false;
}

static bool touches_block(const mover *m, const ir_block *b, uint32_t group)
{
  bool found = false;
  session_enter(m->s);
  for (const ir_node *n = ir_block_first(b); !found; n = n->next) {
    found = touches(m, n, group);
    if (n == b->ret)
      break;
  }
  session_leave(m->s);
  return found;
}

static bool writes_into(const mover *m, const ir_node *writer, const ir_node *other)
{
  for (uint32_t i = 0; i < alias_n_writes(m->a); i++) {
    uint32_t group;
    const ir_node *w = alias_write(m->a, i, &group);

    if ((w == writer || ir_block_is_inside(w->block, writer)) && touches(m, other, group))
      return true;
  }
  return false;
}

static bool has_effect(const mover *m, const ir_node *n)
{
  if (pass_has_effect(n) || (n->kind == IR_OP && n->op->effects & OP_RANDOM))
    return true;
  bool found = false;
  session_enter(m->s);
  for (uint32_t i = 0; i < n->n_blocks; i++)
    for (const ir_node *k = ir_block_first(n->blocks[i]); k != n->blocks[i]->ret; k = k->next)
      found = found || has_effect(m, k);
  session_leave(m->s);
  return found;
}

/* True if a and b must keep their order. */
static bool bound(const mover *m, const ir_node *a, const ir_node *b)
{
  return uses_of(b, a) || uses_of(a, b) || (has_effect(m, a) && has_effect(m, b)) ||
         writes_into(m, a, b) || writes_into(m, b, a);
}

static bool bound_to_set(const mover *m, const ir_node *n)
{
  for (uint32_t i = 0; i < m->n; i++)
    if (bound(m, m->set[i], n))
      return true;
  return false;
}

bool move_if_valid(session *s, ir_node *n, ir_node *at, bool after, bool move)
{
  bool forward = ir_node_is_before(n, at);
  mover m = {.s = s};
  uint32_t steps = 1;

  if (n == at)
    return true;
  ASSERT(n->block && n->block == at->block, "nodes of one block are moved");
  m.a = alias_analyse_all(s, n->graph);
  for (const ir_node *k = n; k != at; k = forward ? k->next : k->prev)
    steps++;
  m.set = session_array(s, ir_node *, steps);
  m.set[m.n++] = n;
  for (ir_node *k = forward ? n->next : n->prev;; k = forward ? k->next : k->prev) {
    if (k == at) {
      if (forward == after && bound_to_set(&m, k))
        return false;
      break;
    }
    if (bound_to_set(&m, k))
      m.set[m.n++] = k;
  }
  for (uint32_t i = 0; move && i < m.n;
       i++) { /* forward: n first; backward: n's inputs are before it */
    ir_node *k = m.set[i];

    if (forward)
      after ? ir_node_move_after(k, i ? m.set[i - 1] : at) : ir_node_move_before(k, at);
    else
      after ? ir_node_move_before(k, i ? m.set[i - 1] : at->next)
            : ir_node_move_before(k, i ? m.set[i - 1] : at);
  }
  for (uint32_t i = 0; move && i < m.n; i++)
    ASSERT_SLOW(pass_inputs_are_visible(m.set[i]));
  ASSERT(!move || ir_node_is_before(after ? at : n, after ? n : at), "n is where it was to go");
  return true;
}
