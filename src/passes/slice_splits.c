/* passes/slice_splits.c -- the parts that an image's channels are split into become slices of them,
 * where all sizes are known: no list is made, and regions take slices.  For calls that do not
 * record gradients: those of a split are added together.  Splits of other dimensions stay, as one
 * operator makes all their views. */
#include "ir/facts.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

static bool is_split(const ir_node *n)
{
  return ir_node_is_op(n, OPN_SPLIT) || ir_node_is_op(n, OPN_SPLIT_WITH_SIZES) ||
         ir_node_is_op(n, OPN_CHUNK);
}

/* Return the number of channels of v, an image whose sizes are known; or -1. */
static int64_t n_channels(const ir_value *v)
{
  const ir_facts *f = ir_facts_of(v->type);

  return (f->n_dims == 3 || f->n_dims == 4) && ir_facts_has_sizes(f) ? f->sizes[1] : -1;
}

static bool splits_channels(const ir_node *unpack)
{
  const ir_node *split = ir_node_input(unpack, 0)->node;
  int64_t dim, sum = 0;

  if (!is_split(split) || split->n_inputs != 3 || split->outputs[0]->uses->next ||
      !pass_is_constant_int(ir_node_input(split, 2), &dim) || dim != 1)
    return false;
  for (uint32_t i = 0; i < unpack->n_outputs; i++) {
    const int64_t n = n_channels(unpack->outputs[i]);

    if (n < 0)
      return false;
    sum += n;
  }
  return sum == n_channels(ir_node_input(split, 0));
}

static void slice(session *s, ir_node *n, void *arg)
{
  int64_t at = 0;

  (void)arg;
  if (n->kind != IR_LIST_UNPACK || n->n_outputs == 0 || !splits_channels(n))
    return;
  ir_node *split = ir_node_input(n, 0)->node;
  ir_value **parts = session_array(s, ir_value *, n->n_outputs);
  ir_value *one = pass_put_int(s, split, 1);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_value *from = pass_put_int(s, split, at);
    at += n_channels(n->outputs[i]);
    ir_value *in[] = {ir_node_input(split, 0), one, from, pass_put_int(s, split, at), one};
    ir_node *made = pass_put_op(s, split, "aten::slice", "Tensor", in, COUNT_OF(in));
    made->origin = split->origin;
    made->inlined = split->inlined;
    parts[i] = made->outputs[0];
    parts[i]->type = n->outputs[i]->type;
  }
  pass_replace(n, parts);
  ir_node_destroy(split);
}

void pass_slice_splits(session *s, ir_graph *g)
{
  if (!g->is_recorded)
    pass_each(s, g->block, slice, NULL);
}
