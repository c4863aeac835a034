/* passes/canonicalize_ops.c -- constant tensors of no dimensions become numbers in x + c, x - c,
 * x * c and x / c, as PyTorch's executors have them: traced programs have their numbers as
 * tensors, and a double one must not make float32 results double.  It is a part of what programs
 * mean, so every executor runs it, before facts are found.  PyTorch reads the constant once, too: a
 * program that writes to it does not change the number.  Its pass also writes chunk as
 * prim::ConstantChunk, which nothing here needs. */
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"
#include "tensor/tensor.h"

/* Return the constant tensor that is to become a number, or NULL. */
static const rush_tensor *number_tensor(const ir_node *n)
{
  rush_value c;

  if (n->kind != IR_OP)
    return NULL;
  switch (n->op->key) {
  case OPK_ADD_TENSOR: case OPK_SUB_TENSOR: case OPK_MUL_TENSOR: case OPK_DIV_TENSOR:
    break;
  default: return NULL;
  }
  if (!ir_value_as_constant(ir_node_input(n, 1), &c) || c.tag != RUSH_TAG_TENSOR || !c.as.tensor ||
      c.as.tensor->n_dims != 0 || dtype_class_of(c.as.tensor->dtype) > DTYPE_COMPLEX)
    return NULL;
  return c.as.tensor;
}

static const type *type_of_number(rush_value number)
{
  switch (number.tag) {
  case RUSH_TAG_BOOL: return type_simple(TYPE_BOOL);
  case RUSH_TAG_INT: return type_simple(TYPE_INT);
  case RUSH_TAG_COMPLEX: return type_simple(TYPE_COMPLEX);
  default: return type_simple(TYPE_FLOAT);
  }
}

static void canonicalize(session *s, ir_node *n, void *arg)
{
  const rush_tensor *t = number_tensor(n);
  rush_value number;

  (void)arg;
  if (!t)
    return;
  session_check(s, tensor_item(s->cx, t, &number));
  pass_hold(s, number);
  ir_value *in[3] = {ir_node_input(n, 0), pass_put_constant(s, n, number, type_of_number(number)),
                     n->n_inputs > 2 ? ir_node_input(n, 2) : NULL};
  ir_node *made = pass_put_op(s, n, n->op->schema->name, "Scalar", in, n->n_inputs);
  if (!made)
    return;
  made->origin = n->origin;
  made->inlined = n->inlined;
  made->outputs[0]->type = n->outputs[0]->type;
  pass_replace(n, made->outputs);
}

void pass_canonicalize_ops(session *s, ir_graph *g)
{
  pass_each(s, g->block, canonicalize, NULL);
}
