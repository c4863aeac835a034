/* script/emit/result_order.c -- orders results of branches and loops by their first uses, as
 * PyTorch does: programs that were printed and read again, with other names, stay the same. */
#include "script/emit/emit_int.h"

static uint32_t input_index(const ir_use *u)
{
  uint32_t i = 0;

  while (u->user->inputs[i] != u)
    i++;
  return i;
}

static uint32_t depth(const ir_node *n)
{
  uint32_t d = 0;

  for (; n->block->owner; n = n->block->owner)
    d++;
  return d;
}

/* True if a comes before b in the text, where blocks of one node follow each other. */
static bool node_is_before(const ir_node *a, const ir_node *b)
{
  uint32_t deep_a = depth(a), deep_b = depth(b);

  for (; deep_a > deep_b; deep_a--)
    if ((a = a->block->owner) == b)
      return false;
  for (; deep_b > deep_a; deep_b--)
    if ((b = b->block->owner) == a)
      return true;
  while (a->block != b->block && a->block->owner != b->block->owner) {
    a = a->block->owner;
    b = b->block->owner;
  }
  if (a->block == b->block)
    return a->order < b->order;
  const ir_node *owner = a->block->owner;
  uint32_t i = 0;
  while (owner->blocks[i] != a->block && owner->blocks[i] != b->block)
    i++;
  return owner->blocks[i] == a->block;
}

static bool use_is_before(const ir_use *a, const ir_use *b)
{
  return a->user == b->user ? input_index(a) < input_index(b) : node_is_before(a->user, b->user);
}

static const ir_use *first_use(const ir_value *v)
{
  const ir_use *first = v->uses;

  for (const ir_use *u = first; u; u = u->next)
    if (use_is_before(u, first))
      first = u;
  return first;
}

static void permute(session *s, void **items, const uint32_t *order, uint32_t n)
{
  void **old = session_array(s, void *, n + 1);

  memcpy(old, items, n * sizeof *old);
  for (uint32_t i = 0; i < n; i++)
    items[i] = old[order[i]];
}

static void permute_values(session *s, ir_value **values, const uint32_t *order, uint32_t n,
                           uint32_t first)
{
  permute(s, (void **)values, order, n);
  for (uint32_t i = 0; i < n; i++)
    values[i]->index = i + first;
}

static void order_results(session *s, ir_node *n)
{
  uint32_t k = n->n_outputs;
  const ir_use **uses = session_array(s, const ir_use *, k);
  uint32_t *order = session_array(s, uint32_t, k);
  bool moved = false;

  for (uint32_t i = 0; i < k; i++)
    uses[i] = first_use(n->outputs[i]);
  for (uint32_t i = 0; i < k; i++) { /* values without uses last */
    uint32_t at = i;
    for (;
         at > 0 && uses[i] && (!uses[order[at - 1]] || use_is_before(uses[i], uses[order[at - 1]]));
         at--)
      order[at] = order[at - 1];
    order[at] = i;
    moved |= at != i;
  }
  if (!moved)
    return;
  permute_values(s, n->outputs, order, k, 0);
  if (n->kind == IR_LOOP) {
    permute(s, (void **)(n->inputs + 2), order, k);
    permute_values(s, n->blocks[0]->param->outputs + 1, order, k, 1);
    permute(s, (void **)(n->blocks[0]->ret->inputs + 1), order, k);
  } else {
    permute(s, (void **)n->blocks[0]->ret->inputs, order, k);
    permute(s, (void **)n->blocks[1]->ret->inputs, order, k);
  }
}

/* From the end: uses come after the results. */
void em_order_results(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_last(b); n != b->ret; n = n->prev) {
    session_poll(s);
    if ((n->kind == IR_IF || n->kind == IR_LOOP) && n->n_outputs > 1)
      order_results(s, n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      em_order_results(s, n->blocks[i]);
  }
  session_leave(s);
}
