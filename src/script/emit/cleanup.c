/* script/emit/cleanup.c -- cleans up after emission: cancels TupleConstruct/TupleUnpack pairs,
 * removes unused values, merges equal constants. */
#include <string.h>

#include "passes/passes.h"
#include "script/emit/emit_int.h"
#include "ops/table/op_keys.h"

/* -- Unused values ----------------------------------------------------------------------------- */

static bool is_removable(const ir_node *n)
{
  switch (n->kind) {
  case IR_CONSTANT: case IR_TUPLE_CONSTRUCT: case IR_TUPLE_UNPACK: case IR_TUPLE_INDEX:
  case IR_TUPLE_SLICE: case IR_LIST_CONSTRUCT: case IR_DICT_CONSTRUCT: case IR_UNINITIALIZED:
  case IR_UNCHECKED_CAST: case IR_GET_ATTR: case IR_ISINSTANCE: case IR_LIST_UNPACK:
    break;
  case IR_OP:
    if (n->op->effects & (OP_SIDE_EFFECT | OP_RANDOM) || schema_is_mutable(n->op->schema) ||
        pass_updates_statistics(n))
      return false;
    break;
  case IR_IF: /* nothing happens on either side */
    for (uint32_t i = 0; i < n->n_blocks; i++)
      if (ir_block_first(n->blocks[i]) != n->blocks[i]->ret)
        return false;
    break;
  default:
    return false;
  }
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (n->outputs[i]->uses)
      return false;
  return true;
}

/* True for calls that only fill a list or dict which is never read. */
static bool is_filling(const ir_use *u)
{
  const ir_node *n = u->user;

  if (n->kind != IR_OP || n->inputs[0] != u || (n->n_outputs && n->outputs[0]->uses))
    return false;
  switch (n->op->name_key) {
  case OPN_APPEND: case OPN_EXTEND: case OPN_INSERT: case OPN_CLEAR:
    return true;
  case OPN__SET_ITEM:
    return type_is(u->value->type, TYPE_DICT);
  }
  return false;
}

static bool forget_filled(ir_value *v)
{
  bool any = v->uses != NULL;

  for (const ir_use *u = v->uses; u; u = u->next)
    if (!is_filling(u))
      return false;
  while (v->uses)
    ir_node_destroy(v->uses->user);
  return any;
}

/* Replace a result that is the same value in every case. */
static void skip_result(const ir_node *n, uint32_t i)
{
  ir_value *v, *out = n->outputs[i];

  if (n->kind == IR_LOOP) {
    v = ir_node_input(n, i + 2);
    ir_value *carried = ir_block_input(n->blocks[0], i + 1),
             *next = ir_block_output(n->blocks[0], i + 1);
    if (next != carried && next != v)
      return;
    if (!type_equal(v->type, carried->type) || !type_equal(v->type, out->type))
      return;
    ir_value_replace_all_uses(carried, v);
  } else {
    v = ir_block_output(n->blocks[0], i);
    if (v != ir_block_output(n->blocks[1], i) || !type_equal(v->type, out->type))
      return;
  }
  ir_value_replace_all_uses(out, v);
}

/* Remove unused results of branches, and unused carried values of loops. */
static void cut_results(ir_node *n)
{
  for (uint32_t i = n->kind == IR_IF || n->kind == IR_LOOP ? n->n_outputs : 0; i-- > 0;) {
    skip_result(n, i);
    if (n->outputs[i]->uses)
      continue;
    if (n->kind == IR_LOOP) {
      if (ir_block_input(n->blocks[0], i + 1)->uses)
        continue;
      ir_node_remove_input(n, i + 2);
      ir_block_remove_output(n->blocks[0], i + 1);
      ir_block_remove_input(n->blocks[0], i + 1);
    } else {
      ir_block_remove_output(n->blocks[0], i);
      ir_block_remove_output(n->blocks[1], i);
    }
    ir_node_remove_output(n, i);
  }
}

/* Remove unused nodes; returns true if another round is necessary. */
static bool remove_unused(session *s, ir_block *b)
{
  bool again = false;

  session_enter(s);
  for (ir_node *n = ir_block_last(b), *prev; n != b->ret; n = prev) {
    session_poll(s);
    prev = n->prev;
    cut_results(n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      again |= remove_unused(s, n->blocks[i]);
    if (n->kind == IR_LIST_CONSTRUCT || n->kind == IR_DICT_CONSTRUCT)
      again |= forget_filled(n->outputs[0]);
    if (is_removable(n))
      ir_node_destroy(n);
  }
  session_leave(s);
  return again;
}

void em_clean_emitted(session *s, ir_graph *g)
{
  if (ir_graph_may_have(g, IR_TUPLE_UNPACK) || ir_graph_may_have(g, IR_TUPLE_INDEX))
    pass_lower_simple_tuples(s, g);
  pass_fold_immutable(s, g);
  while (remove_unused(s, g->block))
    ;
  pass_constant_pooling(s, g);
  pass_normalize_ops(s, g);
  em_order_results(s, g->block);
}
