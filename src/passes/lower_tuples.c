/* passes/lower_tuples.c -- replaces tuples by their elements.
 *
 * Simple: cancels pairs of TupleConstruct and TupleUnpack.  All: inputs and outputs of the graph,
 * of branches and of loops also become elements; only tuples that operators and calls take or
 * return remain. */
#include "base/grow.h"
#include "passes/passes_int.h"

/* -- Simple ------------------------------------------------------------------------------------ */

static bool tuple_index(const ir_node *n, uint32_t size, uint32_t *out)
{
  int64_t i;

  if (n->n_inputs != 2 || !pass_is_constant_int(ir_node_input(n, 1), &i))
    return false;
  i += i < 0 ? size : 0;
  if (i < 0 || i >= size)
    return false;
  *out = (uint32_t)i;
  return true;
}

/* Replace results by the inputs of the construct; the node itself is left to dead code
 * elimination. */
static void take_apart(session *s, ir_node *n, void *arg)
{
  const ir_node *made = n->n_inputs ? ir_node_input(n, 0)->node : NULL;
  uint32_t i;

  (void)arg;
  if (!made || made->kind != IR_TUPLE_CONSTRUCT)
    return;
  if (n->kind == IR_TUPLE_UNPACK && n->n_outputs == made->n_inputs) {
    for (i = 0; i < n->n_outputs; i++)
      ir_value_replace_all_uses(n->outputs[i], ir_node_input(made, i));
  } else if (n->kind == IR_TUPLE_INDEX && tuple_index(n, made->n_inputs, &i)) {
    ir_value_replace_all_uses(n->outputs[0], ir_node_input(made, i));
  } else if (n->kind == IR_TUPLE_SLICE) {
    const ir_attr *from = ir_attr_find(n, "beg"), *to = ir_attr_find(n, "end");
    if (!from || !to || from->as.i < 0 || to->as.i > made->n_inputs || from->as.i > to->as.i)
      return;
    uint32_t k = (uint32_t)(to->as.i - from->as.i);
    ir_value **in = session_array(s, ir_value *, k);
    for (i = 0; i < k; i++)
      in[i] = ir_node_input(made, (uint32_t)from->as.i + i);
    ir_node *slice = pass_put_node(s, n, IR_TUPLE_CONSTRUCT, in, k, n->outputs[0]->type);
    ir_value_replace_all_uses(n->outputs[0], slice->outputs[0]);
  }
}

/* Process in text order: a tuple of tuples is unpacked from outside in. */
static void take_apart_block(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    take_apart(s, n, NULL);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      take_apart_block(s, n->blocks[i]);
  }
  session_leave(s);
}

void pass_lower_simple_tuples(session *s, ir_graph *g)
{
  take_apart_block(s, g->block);
}

/* -- All --------------------------------------------------------------------------------------- */

typedef struct values { /* a list that grows */
  session *s;
  ir_value **v;
  uint32_t n, cap;
} values;

static void push(values *l, ir_value *v)
{
  GROW(l->s, l->v, l->n, l->cap, 8);
  l->v[l->n++] = v;
}

static bool is_tuple(const ir_value *v) { return type_is(v->type, TYPE_TUPLE); }

static bool any_tuple(ir_value *const *v, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    if (is_tuple(v[i]))
      return true;
  return false;
}

/* Collect the elements of v recursively; a value without a visible construct is unpacked before
 * pos. */
static void elements(values *out, ir_value *v, ir_node *pos)
{
  if (!is_tuple(v)) {
    push(out, v);
    return;
  }
  ir_node *made = v->node;
  session_enter(out->s);
  if (made->kind != IR_TUPLE_CONSTRUCT) {
    made = pass_put_node(out->s, pos, IR_TUPLE_UNPACK, &v, 1, NULL);
    for (uint32_t i = 0; i < v->type->n_elems; i++)
      elements(out, ir_node_add_output(out->s, made, v->type->elems[i]), pos);
  } else {
    for (uint32_t i = 0; i < made->n_inputs; i++)
      elements(out, ir_node_input(made, i), pos);
  }
  session_leave(out->s);
}

static void flatten_inputs(session *s, ir_node *n, uint32_t from)
{
  values in = {.s = s};
  uint32_t old = n->n_inputs;

  for (uint32_t i = from; i < old; i++)
    elements(&in, ir_node_input(n, i), n);
  bool same = in.n == old - from;
  for (uint32_t i = 0; i < in.n && same; i++)
    same = in.v[i] == ir_node_input(n, from + i);
  if (same)
    return;
  while (n->n_inputs > from)
    ir_node_remove_input(n, n->n_inputs - 1);
  for (uint32_t i = 0; i < in.n; i++) {
    ASSERT(!is_tuple(in.v[i]) && ir_value_is_visible(in.v[i], n), "an element that n can use");
    ir_node_add_input(s, n, in.v[i]);
  }
}

/* Make a tuple of type t, before pos, whose elements are new results of n. */
static ir_value *result_of(session *s, ir_node *n, const type *t, ir_node *pos)
{
  if (!type_is(t, TYPE_TUPLE))
    return ir_node_add_output(s, n, t);
  ir_value **in = session_array(s, ir_value *, t->n_elems);
  session_enter(s);
  for (uint32_t i = 0; i < t->n_elems; i++)
    in[i] = result_of(s, n, t->elems[i], pos);
  session_leave(s);
  return pass_put_node(s, pos, IR_TUPLE_CONSTRUCT, in, t->n_elems, t)->outputs[0];
}

/* Flatten results (of a node, or a block's parameters) from `from` on. */
static void flatten_outputs(session *s, ir_node *n, uint32_t from, ir_node *pos)
{
  uint32_t old = n->n_outputs;

  if (from >= old || !any_tuple(n->outputs + from, old - from))
    return;
  for (uint32_t i = from; i < old; i++) {
    ir_value *was = n->outputs[i], *is = result_of(s, n, was->type, pos);
    const char *name = was->name;
    ir_value_replace_all_uses(was, is);
    if (name && !is_tuple(is)) {
      ir_value_set_name(s, was, NULL);
      ir_value_set_name(s, is, name);
    }
  }
  for (uint32_t i = old; i-- > from;)
    ir_node_remove_output(n, i);
  ASSERT_SLOW(!any_tuple(n->outputs + from, n->n_outputs - from));
}

static void lower_block(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    if (n->kind == IR_LOOP) {
      flatten_inputs(s, n, 2);
      flatten_outputs(s, n->blocks[0]->param, 1, ir_block_first(n->blocks[0]));
    }
    take_apart(s, n, NULL);
    if (n->kind == IR_IF || n->kind == IR_LOOP) {
      for (uint32_t i = 0; i < n->n_blocks; i++) {
        lower_block(s, n->blocks[i]);
        flatten_inputs(s, n->blocks[i]->ret, 0);
      }
      flatten_outputs(s, n, 0, n->next);
      ASSERT(n->kind == IR_IF ? pass_if_is_whole(n) : pass_loop_is_whole(n),
             "a tuple was flattened in some places only");
    } else {
      for (uint32_t i = 0; i < n->n_blocks; i++)
        lower_block(s, n->blocks[i]);
    }
  }
  session_leave(s);
}

void pass_lower_all_tuples(session *s, ir_graph *g)
{
  flatten_outputs(s, g->block->param, 0, ir_block_first(g->block));
  lower_block(s, g->block);
  flatten_inputs(s, g->block->ret, 0);
  pass_dce(s, g);
}
