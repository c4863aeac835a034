/* passes/constant_propagation.c -- computes what depends only on constants.
 *
 * A branch whose condition is known replaces its node; a loop that never runs is removed, and so
 * are results that are equal in every branch or iteration.  Tensors, lists and dicts become
 * constants only if they are never written to and do not leave the graph: a caller must get a new
 * one in each call. */
#include "ir/alias.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

#define MOST_ELEMS (1 << 20) /* of a tensor that becomes a constant */
#define MOST_ARGS 64

typedef struct folding {
  session *s;
  /* NULL: fold only what cannot be written to, which needs no analysis */
  alias_info *alias;
  bool *escapes;
} folding;

/* True if the result is part of an argument, the same object in each call. */
static bool returns_item(const ir_node *n)
{
  return n->kind == IR_TUPLE_INDEX || n->kind == IR_TUPLE_UNPACK ||
         ir_node_is_op(n, OPN___GETITEM__);
}

/* True if v may be one object for all calls. */
static bool may_share(const folding *f, const ir_value *v)
{
  if (!f->alias)
    return !pass_can_be_written(v->type);
  uint32_t group = alias_group(f->alias, v);

  return group == ALIAS_NO_MEMORY || type_is(v->type, TYPE_TUPLE) ||
         (!alias_is_written(f->alias, v) && (returns_item(v->node) || !f->escapes[group]));
}

static void make_constant(const folding *f, ir_node *n, const rush_value *v)
{
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ASSERT(v[i].tag == RUSH_TAG_NONE || n->outputs[i]->type->kind >= TYPE_LIST ||
             type_contains_value(n->outputs[i]->type, v[i]),
           "a result is a value of its type");
    ir_value *c = pass_put_constant(f->s, n, v[i], n->outputs[i]->type);
    c->node->range = (source_range){0}; /* as PyTorch: it has no place in the source */
    c->scratch = n->outputs[i]->scratch;
    ir_value_replace_all_uses(n->outputs[i], c);
  }
  ir_node_destroy(n);
}

/* -- Operators --------------------------------------------------------------------------------- */

static bool is_plain_tensor(rush_value v)
{
  return v.tag != RUSH_TAG_TENSOR ||
         (v.as.tensor && v.as.tensor->n_elems <= MOST_ELEMS && !tensor_requires_grad(v.as.tensor));
}

/* Call the operator; returns false if it fails. */
static bool call_op(const folding *f, const ir_node *n, const rush_value *args, rush_value *out)
{
  bool good = pass_call_op(f->s, n, args, out);

  for (uint32_t i = 0; i < n->n_outputs && good; i++)
    good = is_plain_tensor(out[i]);
  return good;
}

static rush_value make_tuple(const folding *f, const ir_node *n, const rush_value *args)
{
  rush_tuple *t;

  session_check(f->s, tuple_new(f->s->cx, NULL, n->n_inputs, &t));
  for (uint32_t i = 0; i < n->n_inputs; i++)
    t->items[i] = value_retain(args[i]);
  return pass_hold(f->s, value_heap_steal(RUSH_TAG_TUPLE, t));
}

static rush_value make_list(const folding *f, const ir_node *n, const rush_value *args)
{
  rush_list *l;

  session_check(f->s, list_new(f->s->cx, type_elem(n->outputs[0]->type), n->n_inputs, &l));
  rush_value v = pass_hold(f->s, value_heap_steal(RUSH_TAG_LIST, l));
  for (uint32_t i = 0; i < n->n_inputs; i++)
    session_check(f->s, list_append_steal(f->s->cx, l, value_retain(args[i])));
  return v;
}

static bool compute(const folding *f, const ir_node *n, const rush_value *args, rush_value *out)
{
  switch (n->kind) {
  case IR_OP:
    return call_op(f, n, args, out);
  case IR_TUPLE_CONSTRUCT:
    if (n->outputs[0]
          ->type->name) /* it would keep the program that its type is of, and be kept by it */
      return false;
    out[0] = make_tuple(f, n, args);
    return true;
  case IR_LIST_CONSTRUCT:
    if (!type_is(n->outputs[0]->type, TYPE_LIST))
      return false;
    out[0] = make_list(f, n, args);
    return true;
  case IR_TUPLE_UNPACK:
    if (args[0].tag != RUSH_TAG_TUPLE || args[0].as.tuple->n != n->n_outputs)
      return false;
    memcpy(out, args[0].as.tuple->items, n->n_outputs * sizeof *out);
    return true;
  case IR_TUPLE_INDEX:
    if (n->n_inputs == 2 && args[0].tag == RUSH_TAG_TUPLE && args[1].tag == RUSH_TAG_INT) {
      int64_t size = (int64_t)args[0].as.tuple->n, i = args[1].as.i + (args[1].as.i < 0 ? size : 0);
      if (i < 0 || i >= size)
        return false;
      out[0] = args[0].as.tuple->items[i];
      return true;
    }
    return false;
  default:
    return false;
  }
}

static void fold_node(const folding *f, ir_node *n)
{
  rush_value args[MOST_ARGS], out[MOST_ARGS];

  if (n->kind == IR_CONSTANT || n->n_inputs > MOST_ARGS || n->n_outputs > MOST_ARGS ||
      n->n_outputs == 0 || !pass_is_pure(n))
    return;
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (!ir_value_as_constant(ir_node_input(n, i), &args[i]) || !is_plain_tensor(args[i]) ||
        (f->alias ? alias_is_written(f->alias, ir_node_input(n, i))
                  : pass_can_be_written(ir_node_input(n, i)->type)))
      return;
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    out[i] = value_none();
    if (!may_share(f, n->outputs[i]))
      return;
  }
  if (compute(f, n, args, out))
    make_constant(f, n, out);
}

/* -- Branches and loops ------------------------------------------------------------------------ */

static void fold_block(const folding *f, ir_block *b);

/* Replace the node by the nodes of the branch taken; returns the next node, the first of them. */
static ir_node *take_branch(ir_node *n, ir_block *b)
{
  ir_node *first = ir_block_first(b) == b->ret ? n->next : ir_block_first(b);

  ASSERT(pass_if_is_whole(n) && b->owner == n, "a branch of this node has its results");
  pass_splice(b, n);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    ir_value_replace_all_uses(n->outputs[i], ir_block_output(b, i));
  ir_node_destroy(n);
  return first;
}

static bool same_everywhere(const ir_value *a, const ir_value *b)
{
  return a == b || (a->node->kind == IR_CONSTANT && b->node->kind == IR_CONSTANT &&
                    pass_same_constant(a->node, b->node));
}

static void drop_equal_results(const folding *f, ir_node *n)
{
  for (uint32_t i = n->n_outputs; i-- > 0;) {
    ir_value *a = ir_block_output(n->blocks[0], i), *b = ir_block_output(n->blocks[1], i);
    if (!same_everywhere(a, b))
      continue;
    if (a != b) {
      uint32_t group = n->outputs[i]->scratch;
      a = pass_put_constant(f->s, n, ir_constant_value(a->node), a->type);
      a->scratch = group;
    }
    ASSERT(ir_value_is_visible(a, n), "what every branch returns is made outside of them");
    ir_value_replace_all_uses(n->outputs[i], a);
    ir_node_remove_output(n, i);
    ir_block_remove_output(n->blocks[0], i);
    ir_block_remove_output(n->blocks[1], i);
  }
  ASSERT(pass_if_is_whole(n), "a result was removed from the node or from a branch only");
}

static ir_node *fold_if(const folding *f, ir_node *n)
{
  bool cond;

  if (pass_is_constant_bool(ir_node_input(n, 0), &cond))
    return take_branch(n, n->blocks[cond ? 0 : 1]);
  fold_block(f, n->blocks[0]);
  fold_block(f, n->blocks[1]);
  drop_equal_results(f, n);
  return n->next;
}

/* Drop carried values that the body passes on unchanged: they equal the loop's initial ones. */
static void drop_carried(ir_node *n)
{
  ir_block *body = n->blocks[0];

  for (uint32_t i = n->n_outputs; i-- > 0;) {
    ir_value *in = ir_block_input(body, i + 1), *first = ir_node_input(n, i + 2),
             *out = ir_block_output(body, i + 1);
    if (out != in && out != first)
      continue;
    ir_value_replace_all_uses(in, first);
    ir_value_replace_all_uses(n->outputs[i], first);
    ir_block_remove_output(body, i + 1);
    ir_block_remove_input(body, i + 1);
    ir_node_remove_input(n, i + 2);
    ir_node_remove_output(n, i);
  }
  ASSERT(pass_loop_is_whole(n), "a carried value was removed in some places only");
}

static ir_node *fold_loop(const folding *f, ir_node *n)
{
  ir_node *next = n->next;
  int64_t trips;
  bool cond;

  if ((pass_is_constant_int(ir_node_input(n, 0), &trips) && trips <= 0) ||
      (pass_is_constant_bool(ir_node_input(n, 1), &cond) && !cond)) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      ir_value_replace_all_uses(n->outputs[i], ir_node_input(n, i + 2));
    ir_node_destroy(n);
    return next;
  }
  drop_carried(n);
  fold_block(f, n->blocks[0]);
  drop_carried(n);
  return next;
}

static void fold_block(const folding *f, ir_block *b)
{
  session_enter(f->s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(f->s);
    if (n->kind == IR_IF) {
      next = fold_if(f, n);
    } else if (n->kind == IR_LOOP) {
      next = fold_loop(f, n);
    } else {
      next = n->next;
      for (uint32_t i = 0; i < n->n_blocks; i++)
        fold_block(f, n->blocks[i]);
      fold_node(f, n);
    }
    ASSERT(next->block == b, "folding removed the node after the one that it folds");
  }
  session_leave(f->s);
}

void pass_constant_propagation(session *s, ir_graph *g)
{
  folding f = {.s = s, .alias = alias_analyse_all(s, g)};

  f.escapes = pass_escaping(s, f.alias, g);
  fold_block(&f, g->block);
  pass_dce(s, g);
}

void pass_fold_immutable(session *s, ir_graph *g)
{
  const folding f = {.s = s};

  fold_block(&f, g->block);
}

void pass_constant_propagation_immutable_types(session *s, ir_graph *g)
{
  pass_fold_immutable(s, g);
  pass_dce(s, g);
}
