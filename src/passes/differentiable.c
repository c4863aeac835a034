/* passes/differentiable.c -- decides which nodes a graph that is differentiated may contain.
 *
 * A node qualifies if its gradients follow from the operator table alone: the table has formulas
 * for the operator, or its results never require gradients.  Nothing that writes, draws random
 * numbers or has effects qualifies, because the graph's forward part runs unrecorded and may run
 * again. Whether results share memory is a question about a whole graph: see
 * autodiff/differentiate.h. Rejected: PyTorch's own list of symbolic formulas, which would be a
 * second list beside the table's. */
#include "ir/alias.h"
#include "ir/facts.h"
#include "ops/call/gradient.h"
#include "passes/passes_int.h"

static bool holds_tensor(const type *t)
{
  while (t->kind == TYPE_OPTIONAL || t->kind == TYPE_LIST)
    t = type_elem(t);
  return t->kind == TYPE_TENSOR || t->kind == TYPE_ANY || t->kind == TYPE_TUPLE;
}

bool pass_never_requires(const ir_value *v)
{
  if (!holds_tensor(v->type))
    return true;
  const ir_facts *f = ir_facts_of(v->type);

  return type_is(v->type, TYPE_TENSOR) &&
         (f->requires_grad == 0 ||
          (f->dtype != DTYPE_NONE && !dtype_is_float(f->dtype) && !dtype_is_complex(f->dtype)));
}

static bool results_never_require(const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_outputs; i++)
    if (!pass_never_requires(n->outputs[i]))
      return false;
  return true;
}

static bool is_list_of_plain_values(const ir_value *v)
{
  const type *t = type_is(v->type, TYPE_LIST) ? type_elem(v->type) : NULL;

  if (t && t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  return t && (t->kind == TYPE_TENSOR || !alias_type_has_memory(t));
}

bool pass_is_differentiable(session *s, const ir_node *n)
{
  const op_gradients *formulas = NULL;

  if (n->kind == IR_CONSTANT)
    return true;
  if (n->kind == IR_LIST_CONSTRUCT)
    return is_list_of_plain_values(n->outputs[0]);
  if (n->kind == IR_LIST_UNPACK)
    return is_list_of_plain_values(ir_node_input(n, 0));
  if (n->kind != IR_OP || n->n_blocks || n->op->base || !op_is_runnable(n->op) ||
      n->op->effects & OP_UNSAFE_VIEWS || n->n_inputs != n->op->schema->n_args || !pass_is_pure(n))
    return false;
  session_check(s, op_gradients_of(s->cx, n->op, &formulas));
  return formulas || n->op->effects & OP_NO_GRAD || results_never_require(n);
}

/* True if a result of the node may require a gradient that a formula computes. */
static bool may_require(session *s, const ir_node *n)
{
  const op_gradients *formulas = NULL;
  bool takes = false;

  if (n->kind != IR_OP || results_never_require(n))
    return false;
  for (uint32_t i = 0; i < n->n_inputs; i++)
    takes |= !pass_never_requires(ir_node_input(n, i));
  if (takes)
    session_check(s, op_gradients_of(s->cx, n->op, &formulas));
  return formulas != NULL;
}

bool pass_needs_gradient(session *s, const ir_block *b)
{
  bool needs = false;

  session_enter(s);
  for (const ir_node *n = ir_block_first(b); n != b->ret && !needs; n = n->next) {
    session_poll(s);
    needs = may_require(s, n);
    for (uint32_t i = 0; i < n->n_blocks && !needs; i++)
      needs = pass_needs_gradient(s, n->blocks[i]);
  }
  session_leave(s);
  return needs;
}
