/* script/print/plan.c -- decides which values are written inside the expression that uses them.
 *
 * A value used once, next to its use when nodes are read backwards, needs no name: otherwise the
 * nodes between would run in another order.  Names given by the author are kept. */
#include "base/grow.h"
#include "ops/call/lookup.h"
#include "script/print/print_int.h"

/* -- The copy ---------------------------------------------------------------------------------- */

/* Inline operators of older archives, which are functions of ours: their nodes are printed. */
static void inline_builtins(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    session_poll(s);
    next = n->next;
    n->scratch = 0;
    for (uint32_t i = 0; i < n->n_outputs; i++)
      n->outputs[i]->scratch = 0;
    for (uint32_t i = 0; i < n->n_blocks; i++)
      inline_builtins(s, n->blocks[i]);
    if (n->kind != IR_CALL_FUNCTION || !n->function->is_builtin)
      continue;
    function_ensure(s, n->function);
    ir_value **in = session_array(s, ir_value *, n->n_inputs + 1), **results =
        session_array(s, ir_value *, n->n_outputs + 1);
    ir_node *before = n->prev;
    for (uint32_t i = 0; i < n->n_inputs; i++)
      in[i] = ir_node_input(n, i);
    ir_block_inline(s, n->function->graph->block, n, in, results);
    for (ir_node *made = before->next; made != n; made = made->next)
      made->range = n->range;
    for (uint32_t i = 0; i < n->n_outputs; i++)
      ir_value_replace_all_uses(n->outputs[i], results[i]);
    ir_node_destroy(n);
    next = before->next; /* the inlined nodes may call others */
  }
  b->ret->scratch = 0;
  for (uint32_t i = 0; i < ir_block_n_inputs(b); i++)
    ir_block_input(b, i)->scratch = 0;
  session_leave(s);
}

/* -- Loops ------------------------------------------------------------------------------------- */

static bool is_true(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_BOOL && c.as.b;
}

static ir_value *put_op(session *s, ir_node *before, const char *name, const char *overload,
                        ir_value *a, ir_value *b)
{
  ir_node *n = ir_node_new_op(s, before->graph, session_op_find(s, str_of(name), str_of(overload)),
                              (ir_value *[2]){a, b}, 2);

  ir_node_insert_before(n, before);
  return n->outputs[0];
}

static ir_value *put_int(session *s, ir_node *before, int64_t v)
{
  ir_node *n = ir_constant_new(s, before->graph, value_int(v), NULL);

  ir_node_insert_before(n, before);
  return n->outputs[0];
}

/* Rewrite a loop with both a count and a condition (for with break), which no statement has, as a
 * while loop that counts. */
static void count_by_hand(session *s, ir_node *n)
{
  ir_block *b = n->blocks[0];
  ir_value *most = ir_node_input(n, 0), *i = ir_block_input(b, 0), *zero = put_int(s, n, 0),
           *one = put_int(s, n, 1);
  ir_value *go = put_op(s, n, "aten::gt", "int", most, zero);

  if (!is_true(ir_node_input(n, 1)))
    go = put_op(s, n, "aten::__and__", "bool", go, ir_node_input(n, 1));
  ir_node_set_input(n, 0, put_int(s, n, INT64_MAX));
  ir_node_set_input(n, 1, go);
  ir_node_add_output(s, n, i->type);
  ir_node_add_input(s, n, zero);
  ir_value *count = ir_block_add_input(s, b, i->type, NULL);
  ir_value_replace_all_uses(i, count);
  i->name = NULL; /* the condition's from here on */
  ir_value *next = put_op(s, b->ret, "aten::add", "int", count, one);
  ir_block_add_output(s, b, next);
  ir_value *more = put_op(s, b->ret, "aten::lt", "int", next, most);
  ir_block_set_output(b, 0,
                      put_op(s, b->ret, "aten::__and__", "bool", more, ir_block_output(b, 0)));
}

static void canonical_loops(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b); n != b->ret; n = n->next) {
    session_poll(s);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      canonical_loops(s, n->blocks[i]);
    if (n->kind != IR_LOOP)
      continue;
    rush_value most;
    bool counted = !ir_value_as_constant(ir_node_input(n, 0), &most) || most.as.i != INT64_MAX ||
                   ir_value_has_uses(ir_block_input(n->blocks[0], 0));
    if (counted && !(is_true(ir_node_input(n, 1)) && is_true(ir_block_output(n->blocks[0], 0))))
      count_by_hand(s, n);
  }
  session_leave(s);
}

/* -- Inlining ---------------------------------------------------------------------------------- */

/* True if the node has a line of its own, whatever uses it. */
static bool is_statement(const ir_node *n)
{
  return n->kind == IR_UNINITIALIZED || n->kind == IR_FORK || n->kind == IR_AWAITABLE ||
         n->kind == IR_ENTER || n->kind == IR_MODULE_CONTAINER_INDEX ||
         n->kind == IR_TUPLE_UNPACK || n->kind == IR_LIST_UNPACK;
}

static bool can_inline(const ir_value *v)
{
  const ir_node *n = v->node;
  const ir_use *u = v->uses;

  if (n->n_outputs != 1 || !u || u->next || n->n_blocks || is_statement(n))
    return false;
  if (v->name && u->user->kind != IR_RETURN) /* the author's name */
    return false;
  if (u->user->kind == IR_LOOP && u->user->inputs[0] != u && u->user->inputs[1] != u)
    return false; /* carried: assigned before the loop's condition is looked at */
  /* The body of a fork may use it often; isinstance in a condition would refine types again. */
  return u->user->kind != IR_FORK && u->user->kind != IR_AWAITABLE && n->kind != IR_ISINSTANCE;
}

static ir_node *previous(const ir_node *n)
{
  do
    n = n->prev;
  while (is_constant_like(n));
  return (ir_node *)n;
}

typedef struct scan_step {
  ir_node *node;
  uint32_t left; /* inputs not looked at yet */
} scan_step;

/* Visit, from the last to the first, the nodes before `root` that make its inputs, and theirs. */
static void scan_inputs(printer *p, ir_node *root)
{
  uint32_t n = 1, cap = 16;
  scan_step *stack = session_array(p->s, scan_step, cap);
  ir_node *point = previous(root);

  stack[0] = (scan_step){root, root->n_inputs};
  while (n) {
    scan_step *top = &stack[n - 1];
    if (top->left == 0) {
      n--;
      continue;
    }
    ir_value *v = ir_node_input(top->node, --top->left);
    if (is_constant_like(v->node)) {
      v->node->scratch |= NODE_INLINE;
    } else if (v->node == point && can_inline(v)) {
      v->node->scratch |= NODE_INLINE;
      point = previous(point);
      GROW(p->s, stack, n, cap, 0);
      stack[n++] = (scan_step){v->node, v->node->n_inputs};
    }
  }
}

static void scan_block(printer *p, ir_block *b)
{
  session_enter(p->s);
  for (ir_node *n = b->ret;;) {
    if (!is_inline(n)) {
      for (uint32_t i = 0; i < n->n_blocks; i++)
        scan_block(p, n->blocks[i]);
      scan_inputs(p, n);
    }
    n = n->prev;
    if (n == b->ret)
      break;
  }
  session_leave(p->s);
}

ir_graph *print_plan(printer *p, const ir_graph *g)
{
  ir_graph *copy = ir_graph_copy(p->s, g);

  session_defer(p->s, ir_graph_free_deferred, copy);
  canonical_loops(p->s, copy->block);
  inline_builtins(p->s, copy->block);
  scan_block(p, copy->block);
  return copy;
}
