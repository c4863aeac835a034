/* passes/slice_splits.c -- the parts that an image's channels, its second or last dimension, are
 * split into become slices of them, where all sizes are known: no list is made, and regions take
 * slices.  For calls that do not record gradients: those of a split are added together.  Splits of
 * other tensors stay, as one operator makes all their views. */
#include "ir/facts.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

static bool is_split(const ir_node *n)
{
  return ir_node_is_op(n, OPN_SPLIT) || ir_node_is_op(n, OPN_SPLIT_WITH_SIZES) ||
         ir_node_is_op(n, OPN_CHUNK);
}

/* Return the size of the dimension of v, an image whose sizes are known; or -1. */
static int64_t size_at(const ir_value *v, int64_t dim)
{
  const ir_facts *f = ir_facts_of(v->type);

  return (f->n_dims == 3 || f->n_dims == 4) && ir_facts_has_sizes(f) ? f->sizes[dim] : -1;
}

/* True if the node unpacks a split of channels; *dim: their dimension. */
static bool splits_channels(const ir_node *unpack, int64_t *dim)
{
  const ir_node *split = ir_node_input(unpack, 0)->node;
  int64_t sum = 0;

  if (!is_split(split) || split->n_inputs != 3 || split->outputs[0]->uses->next ||
      !pass_is_constant_int(ir_node_input(split, 2), dim))
    return false;
  const int n_dims = ir_facts_of(ir_node_input(split, 0)->type)->n_dims;
  *dim += *dim < 0 ? n_dims : 0;
  if (*dim != 1 && (n_dims != 4 || *dim != 3))
    return false;
  for (uint32_t i = 0; i < unpack->n_outputs; i++) {
    const int64_t n = size_at(unpack->outputs[i], *dim);

    if (n < 0)
      return false;
    sum += n;
  }
  return sum == size_at(ir_node_input(split, 0), *dim);
}

static void slice(session *s, ir_node *n, void *arg)
{
  int64_t at = 0, dim;

  (void)arg;
  if (n->kind != IR_LIST_UNPACK || n->n_outputs == 0 || !splits_channels(n, &dim))
    return;
  ir_node *split = ir_node_input(n, 0)->node;
  ir_value **parts = session_array(s, ir_value *, n->n_outputs);
  ir_value *one = pass_put_int(s, split, 1), *by = pass_put_int(s, split, dim);
  for (uint32_t i = 0; i < n->n_outputs; i++) {
    ir_value *from = pass_put_int(s, split, at);
    at += size_at(n->outputs[i], dim);
    ir_value *in[] = {ir_node_input(split, 0), by, from, pass_put_int(s, split, at), one};
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
