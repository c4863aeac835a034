/* passes/decompose.c -- replaces operators by simpler ones: as PyTorch's pass does, and by the
 * bodies of the operator table. */
#include "ir/facts.h"
#include "ir/program.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

/* -- As PyTorch -------------------------------------------------------------------------------- */

static bool is_one(const ir_value *v)
{
  rush_value c;

  return ir_value_as_constant(v, &c) &&
         ((c.tag == RUSH_TAG_INT && c.as.i == 1) || (c.tag == RUSH_TAG_FLOAT && c.as.d == 1));
}

/* Write addmm as x + a @ b. */
static ir_value *split_addmm(session *s, ir_node *n)
{
  if (n->n_inputs != 5 || !is_one(ir_node_input(n, 3)) || !is_one(ir_node_input(n, 4)))
    return NULL;
  ir_value *factors[2] = {ir_node_input(n, 1), ir_node_input(n, 2)};
  ir_value *one = pass_put_int(s, n, 1);
  ir_value *sum[3] = {ir_node_input(n, 0),
                      pass_put_op(s, n, "aten::mm", "", factors, 2)->outputs[0], one};
  return pass_put_op(s, n, "aten::add", "Tensor", sum, 3)->outputs[0];
}

/* Separate scale and shift from the normalisation; only if the input's type is known. */
static ir_value *split_layer_norm(session *s, ir_node *n)
{
  ir_value *in[6], *weight = ir_node_input(n, 2), *bias = ir_node_input(n, 3);
  bool has_weight = type_is(weight->type, TYPE_TENSOR), has_bias = type_is(bias->type, TYPE_TENSOR);

  if (n->n_inputs != 6 || ir_facts_of(ir_node_input(n, 0)->type)->dtype == DTYPE_NONE ||
      (!has_weight && !has_bias) || (!has_weight && !pass_is_none(weight)) ||
      (!has_bias && !pass_is_none(bias)))
    return NULL;
  for (uint32_t i = 0; i < 6; i++)
    in[i] = ir_node_input(n, i);
  in[2] = in[3] = pass_put_constant(s, n, value_none(), type_simple(TYPE_NONE));
  ir_value *v = pass_put_op(s, n, "aten::layer_norm", "", in, 6)->outputs[0];
  if (has_weight)
    v = pass_put_op(s, n, "aten::mul", "Tensor", (ir_value *[]){v, weight}, 2)->outputs[0];
  if (has_bias)
    v = pass_put_op(s, n, "aten::add", "Tensor", (ir_value *[]){v, bias, pass_put_int(s, n, 1)}, 3)
          ->outputs[0];
  return v;
}

static void split(session *s, ir_node *n, void *arg)
{
  ir_value *v = ir_node_is_op(n, OPN_ADDMM)        ? split_addmm(s, n)
                : ir_node_is_op(n, OPN_LAYER_NORM) ? split_layer_norm(s, n)
                                                       : NULL;

  (void)arg;
  if (v)
    pass_replace(n, &v);
}

void pass_decompose_ops(session *s, ir_graph *g) { pass_each(s, g->block, split, NULL); }

/* -- Bodies ------------------------------------------------------------------------------------ */

static void set_range(session *s, ir_node *n, void *arg)
{
  (void)s;
  n->range = *(const source_range *)arg;
}

static void set_ranges(session *s, ir_node *n, ir_node *end, source_range *range)
{
  for (; n != end; n = n->next) {
    set_range(s, n, range);
    for (uint32_t i = 0; i < n->n_blocks; i++)
      pass_each(s, n->blocks[i], set_range, range);
  }
}

static void open_body(session *s, ir_node *n, void *arg)
{
  call_ctx quiet = *s->cx;

  (void)arg;
  quiet.err = NULL;
  if (n->kind != IR_OP || n->op->family != FAMILY_COMPOSITE || n->op->kernel || n->op->outside ||
      n->op->base || op_prepare(&quiet, n->op) != RUSH_OK)
    return;
  const function *f = atomic_load_explicit(&n->op->body, memory_order_acquire);
  if (!f || !f->graph || ir_block_n_inputs(f->graph->block) != n->n_inputs ||
      ir_block_n_outputs(f->graph->block) != n->n_outputs)
    return;
  ASSERT(f->graph != n->graph, "a body opened in itself");
  ir_value **in = session_array(s, ir_value *, n->n_inputs),
           **out = session_array(s, ir_value *, n->n_outputs);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    in[i] = ir_node_input(n, i);
  ir_node *before = n->prev;
  ir_block_inline(s, f->graph->block, n, in, out);
  set_ranges(s, before == n->block->ret ? ir_block_first(n->block) : before->next, n, &n->range);
  pass_replace(n, out);
}

void pass_decompose_bodies(session *s, ir_graph *g) { pass_each(s, g->block, open_body, NULL); }
