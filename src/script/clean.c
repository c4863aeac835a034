/* script/clean.c -- what emission leaves behind: tuples packed and unpacked at once, unused values,
 * equal constants.  PyTorch's order of constants: each moves to the front as it is met. */
#include <string.h>

#include "script/emit_int.h"

/* -- Tuples ------------------------------------------------------------------------------------- */

static void lower_tuple(ir_node *n)
{
  ir_node *made = n->n_inputs ? ir_node_input(n, 0)->node : NULL;
  if (!made || made->kind != IR_TUPLE_CONSTRUCT)
    return;
  if (n->kind == IR_TUPLE_UNPACK) {
    for (uint32_t i = 0; i < n->n_outputs && i < made->n_inputs; i++)
      ir_value_replace_all_uses(n->outputs[i], ir_node_input(made, i));
  } else if (n->kind == IR_TUPLE_INDEX) {
    rush_value index;
    if (!ir_value_as_constant(ir_node_input(n, 1), &index) || index.tag != RUSH_TAG_INT)
      return;
    int64_t i = index.as.i < 0 ? index.as.i + made->n_inputs : index.as.i;
    if (i >= 0 && i < made->n_inputs)
      ir_value_replace_all_uses(n->outputs[0], ir_node_input(made, (uint32_t)i));
  }
}

static void lower_tuples(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    lower_tuple(n);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      lower_tuples(s, n->blocks[i]);
  }
  session_leave(s);
}

/* -- Unused values ------------------------------------------------------------------------------ */

static bool is_removable(const ir_node *n)
{
  switch (n->kind) {
  case IR_CONSTANT: case IR_TUPLE_CONSTRUCT: case IR_TUPLE_UNPACK: case IR_TUPLE_INDEX:
  case IR_TUPLE_SLICE: case IR_LIST_CONSTRUCT: case IR_DICT_CONSTRUCT: case IR_UNINITIALIZED:
  case IR_UNCHECKED_CAST: case IR_GET_ATTR: case IR_ISINSTANCE: case IR_LIST_UNPACK:
    break;
  case IR_OP:
    if (n->op->effects & (OP_SIDE_EFFECT | OP_RANDOM) || schema_is_mutable(n->op->schema))
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

/* A list or dict that is filled and never read: the calls that fill it. */
static bool is_filling(const ir_use *u)
{
  static const char *const names[] = {"aten::append", "aten::_set_item", "aten::extend", "aten::insert", "aten::clear"};
  const ir_node *n = u->user;

  if (n->kind != IR_OP || n->inputs[0] != u || (n->n_outputs && n->outputs[0]->uses))
    return false;
  for (size_t i = 0; i < COUNT_OF(names); i++)
    if (strcmp(n->op->schema->name, names[i]) == 0 && (i != 1 || type_is(u->value->type, TYPE_DICT)))
      return true;
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

/* A result that is the same value whatever happens. */
static void skip_result(const ir_node *n, uint32_t i)
{
  ir_value *v, *out = n->outputs[i];

  if (n->kind == IR_LOOP) {
    v = ir_node_input(n, i + 2);
    ir_value *carried = ir_block_input(n->blocks[0], i + 1), *next = ir_block_output(n->blocks[0], i + 1);
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

/* Results of branches that nobody reads, and what a loop carries for nobody. */
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

/* Has it to be done again? */
static bool remove_unused(session *s, ir_block *b)
{
  bool again = false;

  session_enter(s);
  for (ir_node *n = ir_block_last(b), *prev; n != b->ret; n = prev) {
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

/* -- Constants ---------------------------------------------------------------------------------- */

static bool same_constant(const ir_node *a, const ir_node *b)
{
  rush_value x = ir_constant_value(a), y = ir_constant_value(b);
  if (x.tag != y.tag || !type_equal(a->outputs[0]->type, b->outputs[0]->type))
    return false;
  switch (x.tag) {
  case RUSH_TAG_STRING:
    return str_eq(value_str(x), value_str(y));
  case RUSH_TAG_COMPLEX:
    return value_complex(x)->re == value_complex(y)->re && value_complex(x)->im == value_complex(y)->im;
  case RUSH_TAG_NONE:
    return true;
  default:
    return x.as.i == y.as.i;
  }
}

typedef struct pool {
  session *s;
  ir_node **nodes; /* hash table of the constants kept */
  uint32_t n, cap;
} pool;

static uint64_t constant_hash(const ir_node *n)
{
  rush_value v = ir_constant_value(n);
  if (v.tag == RUSH_TAG_STRING)
    return hash_bytes(v.as.string->text, v.as.string->len);
  if (v.tag == RUSH_TAG_COMPLEX)
    return v.tag;
  return ((uint64_t)v.as.i ^ v.tag * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
}

static void grow_pool(pool *p)
{
  ir_node **old = p->nodes;
  uint32_t old_cap = p->cap;
  p->cap = old_cap ? old_cap * 2 : 64;
  p->nodes = session_array(p->s, ir_node *, p->cap);
  for (uint32_t i = 0; i < old_cap; i++) {
    if (!old[i])
      continue;
    uint64_t h = constant_hash(old[i]) >> 20;
    while (p->nodes[h & (p->cap - 1)])
      h++;
    p->nodes[h & (p->cap - 1)] = old[i];
  }
}

/* The equal constant kept before, or NULL: then this one is kept. */
static ir_node *keep_constant(pool *p, ir_node *n)
{
  if (2 * p->n >= p->cap)
    grow_pool(p);
  uint64_t h = constant_hash(n) >> 20;
  for (; p->nodes[h & (p->cap - 1)]; h++)
    if (same_constant(p->nodes[h & (p->cap - 1)], n))
      return p->nodes[h & (p->cap - 1)];
  p->nodes[h & (p->cap - 1)] = n;
  p->n++;
  return NULL;
}

static void pool_constants(pool *p, ir_block *b)
{
  session_enter(p->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    next = n->next;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      pool_constants(p, n->blocks[i]);
    if (n->kind != IR_CONSTANT)
      continue;
    ir_node *same = keep_constant(p, n);
    if (same) {
      ir_value_replace_all_uses(n->outputs[0], same->outputs[0]);
      ir_node_destroy(n);
      continue;
    }
    ir_node *first = ir_block_first(n->graph->block);
    if (n != first)
      ir_node_move_before(n, first);
  }
  session_leave(p->s);
}

void em_clean_emitted(session *s, ir_graph *g)
{
  pool p = {.s = s};
  lower_tuples(s, g->block);
  while (remove_unused(s, g->block))
    ;
  pool_constants(&p, g->block);
  em_order_results(s, g->block);
}
