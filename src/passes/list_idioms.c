/* passes/list_idioms.c -- folds length, items, unpacking, sums and slices of lists that are
 * constructed in the graph and never changed. */
#include "ir/alias.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

static bool unchanged_list(const alias_info *a, const ir_value *v)
{
  return v->node->kind == IR_LIST_CONSTRUCT && type_is(v->type, TYPE_LIST) &&
         !alias_items_change(a, v);
}

static ir_value *copy_of(session *s, ir_node *pos, const ir_value *like, ir_value *const *items,
                         uint32_t n)
{
  ASSERT(type_is(like->type, TYPE_LIST), "a list replaces a list");
  ir_value *v = pass_put_node(s, pos, IR_LIST_CONSTRUCT, items, n, like->type)->outputs[0];

  v->scratch = like->scratch;
  return v;
}

static ir_value *sum(session *s, const alias_info *a, ir_node *n)
{
  const ir_node *x = ir_node_input(n, 0)->node, *y = ir_node_input(n, 1)->node;

  if (!unchanged_list(a, x->outputs[0]) || y->n_outputs != 1 || !unchanged_list(a, y->outputs[0]) ||
      alias_items_change(a, n->outputs[0]))
    return NULL;
  ir_value **items = session_array(s, ir_value *, (size_t)x->n_inputs + y->n_inputs);
  for (uint32_t i = 0; i < x->n_inputs; i++)
    items[i] = ir_node_input(x, i);
  for (uint32_t i = 0; i < y->n_inputs; i++)
    items[x->n_inputs + i] = ir_node_input(y, i);
  return copy_of(s, n, n->outputs[0], items, x->n_inputs + y->n_inputs);
}

static bool bound(const ir_value *v, int64_t size, int64_t none, int64_t *out)
{
  if (pass_is_none(v)) {
    *out = none;
    return true;
  }
  if (!pass_is_constant_int(v, out))
    return false;
  *out += *out < 0 ? size : 0;
  *out = *out < 0 ? 0 : *out > size ? size : *out;
  return true;
}

static ir_value *slice(session *s, const alias_info *a, ir_node *n)
{
  const ir_node *x = ir_node_input(n, 0)->node;
  int64_t from, to, step, size = x->n_inputs;

  if (n->n_inputs != 4 || !bound(ir_node_input(n, 1), size, 0, &from) ||
      !bound(ir_node_input(n, 2), size, size, &to) ||
      !pass_is_constant_int(ir_node_input(n, 3), &step) || step < 1 ||
      alias_items_change(a, n->outputs[0]))
    return NULL;
  ASSERT(from >= 0 && to <= size, "the bounds are inside the list");
  ir_value **items = session_array(s, ir_value *, (size_t)size);
  uint32_t k = 0;
  for (; from < to; from += step)
    items[k++] = ir_node_input(x, (uint32_t)from);
  return copy_of(s, n, n->outputs[0], items, k);
}

static ir_value *item(const ir_node *n)
{
  const ir_node *x = ir_node_input(n, 0)->node;
  int64_t i;

  if (!pass_is_constant_int(ir_node_input(n, 1), &i))
    return NULL;
  i += i < 0 ? x->n_inputs : 0;
  return i < 0 || i >= x->n_inputs ? NULL : ir_node_input(x, (uint32_t)i);
}

static void replace_idiom(session *s, ir_node *n, void *arg)
{
  const alias_info *a = arg;
  ir_value *v = NULL;

  if (n->n_inputs == 0 || !unchanged_list(a, ir_node_input(n, 0)))
    return;
  const ir_node *list = ir_node_input(n, 0)->node;
  if (n->kind == IR_LIST_UNPACK && n->n_outputs == list->n_inputs) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      ir_value_replace_all_uses(n->outputs[i], ir_node_input(list, i));
    return;
  }
  if (n->kind != IR_OP || n->n_outputs != 1)
    return;
  if (ir_node_is_op(n, OPN_LEN))
    v = pass_put_int(s, n, list->n_inputs);
  else if (ir_node_is_op(n, OPN___GETITEM__))
    v = item(n);
  else if (ir_node_is_op(n, OPN_ADD) && n->n_inputs == 2)
    v = sum(s, a, n);
  else if (ir_node_is_op(n, OPN_SLICE))
    v = slice(s, a, n);
  ASSERT_SLOW(!v || pass_can_replace(n, &v));
  if (v)
    ir_value_replace_all_uses(n->outputs[0], v);
}

void pass_peephole_list_idioms(session *s, ir_graph *g)
{
  pass_each(s, g->block, replace_idiom, alias_analyse_all(s, g));
}
