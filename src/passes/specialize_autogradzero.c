/* passes/specialize_autogradzero.c -- removes what undefined gradients need where it is known which
 * ones are undefined.
 *
 * One walk in the order of execution keeps for each value whether it is undefined (zero), defined
 * or unknown.  Inputs are known by the facts of their types; a refined type is that of a tensor.
 * Then prim::AutogradAdd becomes aten::add or nothing, and a branch that lower_grad_of made becomes
 * its block or undefined gradients.  PyTorch's pass keeps a branch whose gradients are defined in
 * part; here one that is defined suffices, since the condition asks for no more.  O(nodes). */
#include "ir/facts.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

enum { UNKNOWN, ZERO, NONZERO }; /* in ir_value->scratch */

static uint32_t state_of_type(const type *t)
{
  const ir_facts *f = ir_facts_of(t);

  if (!type_is(t, TYPE_TENSOR))
    return UNKNOWN;
  if (f->defined >= 0)
    return f->defined ? NONZERO : ZERO;
  return f->dtype != DTYPE_NONE || f->n_dims >= 0 ? NONZERO : UNKNOWN;
}

/* True if the operator's one result is always a tensor. */
static bool makes_tensor(const ir_node *n)
{
  return n->kind == IR_OP && n->n_outputs == 1 && !n->op->outside &&
         n->op->schema->n_returns == 1 && type_is(n->op->schema->returns[0].type, TYPE_TENSOR) &&
         !ir_node_is_op(n, OPN_PRIM__AUTOGRADZERO);
}

static void set_states(ir_node *n)
{
  rush_value c;

  for (uint32_t i = 0; i < n->n_outputs; i++)
    n->outputs[i]->scratch = state_of_type(n->outputs[i]->type);
  if (makes_tensor(n))
    n->outputs[0]->scratch = NONZERO;
  else if (n->kind == IR_CONSTANT && ir_value_as_constant(n->outputs[0], &c) &&
           c.tag == RUSH_TAG_TENSOR)
    n->outputs[0]->scratch = c.as.tensor ? NONZERO : ZERO;
  else if (ir_node_is_op(n, OPN_PRIM__AUTOGRADZERO))
    n->outputs[0]->scratch = ZERO;
}

static void specialise_block(session *s, ir_block *b);

static void specialise_add(session *s, ir_node *n)
{
  ir_value *in[3] = {ir_node_input(n, 0), ir_node_input(n, 1)};
  const uint32_t a = in[0]->scratch, b = in[1]->scratch;

  if (a == ZERO || b == ZERO) {
    pass_replace(n, a == ZERO ? &in[1] : &in[0]);
  } else if (a == NONZERO && b == NONZERO) {
    in[2] = pass_put_int(s, n, 1);
    ir_value *sum = pass_put_op(s, n, "aten::add", "Tensor", in, 3)->outputs[0];
    if (type_is(n->outputs[0]->type, TYPE_TENSOR))
      sum->type = n->outputs[0]->type;
    sum->scratch = NONZERO;
    pass_replace(n, &sum);
  } else {
    n->outputs[0]->scratch = a == NONZERO || b == NONZERO ? NONZERO : UNKNOWN;
  }
}

static bool returns_tensors_only(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (!type_is(n->outputs[i]->type, TYPE_TENSOR))
      return false;
  return true;
}

/* Specialise a branch that runs if any of the inputs of `asks` is defined. */
static void specialise_grad_of(session *s, ir_node *n, const ir_node *asks)
{
  ir_value **out = session_array(s, ir_value *, n->n_outputs + 1);
  bool any = false, all_zero = true;

  for (uint32_t i = 0; i < asks->n_inputs; i++) {
    any |= ir_node_input(asks, i)->scratch == NONZERO;
    all_zero &= ir_node_input(asks, i)->scratch == ZERO;
  }
  if (all_zero && returns_tensors_only(n)) {
    ir_value *zero = pass_put_op(s, n, "prim::AutogradZero", "", NULL, 0)->outputs[0];
    zero->scratch = ZERO;
    for (uint32_t i = 0; i < n->n_outputs; i++)
      out[i] = zero;
    pass_replace(n, out);
    return;
  }
  specialise_block(s, n->blocks[0]);
  specialise_block(s, n->blocks[1]);
  if (!any)
    return;
  for (uint32_t i = 0; i < n->n_outputs; i++)
    out[i] = ir_block_output(n->blocks[0], i);
  pass_splice(n->blocks[0], n);
  pass_replace(n, out);
}

static void specialise_if(session *s, ir_node *n)
{
  const ir_node *asks = ir_node_input(n, 0)->node;

  set_states(n);
  if (ir_node_is_op(asks, OPN_PRIM__AUTOGRADANYNONZERO)) {
    specialise_grad_of(s, n, asks);
    return;
  }
  for (uint32_t i = 0; i < 2; i++)
    specialise_block(s, n->blocks[i]);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const uint32_t state = ir_block_output(n->blocks[0], i)->scratch;
    if (state == ir_block_output(n->blocks[1], i)->scratch)
      n->outputs[i]->scratch = state;
  }
}

static void specialise_block(session *s, ir_block *b)
{
  session_enter(s);
  set_states(b->param);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    next = n->next;
    session_poll(s);
    if (n->kind == IR_IF) {
      specialise_if(s, n);
      continue;
    }
    set_states(n);
    if (ir_node_is_op(n, OPN_PRIM__AUTOGRADADD))
      specialise_add(s, n);
    for (uint32_t i = 0; !n->destroyed && i < n->n_blocks; i++)
      specialise_block(s, n->blocks[i]);
  }
  session_leave(s);
}

void pass_specialize_autogradzero(session *s, ir_graph *g) { specialise_block(s, g->block); }
