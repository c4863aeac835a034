/* autodiff/pack.c -- the pass pack_gradient: writes the derivative of each
 * prim::DifferentiableGraph of a graph into the node, as PyTorch's packGradient.
 *
 * The subgraph becomes f, the attribute ReverseSubgraph df, and the numbers that relate them
 * (differentiate.h) are the attributes f_real_outputs, df_input_vjps, df_input_captured_inputs,
 * df_input_captured_outputs and df_output_vjps.  What f captures are further results of the node,
 * where PyTorch's has only the first f_real_outputs: here a subgraph returns what its node does.
 *
 * Calls do not read the attributes: which gradients there are, and which are needed, is known only
 * when they are computed, and df is made for these (node.h). */
#include "autodiff/differentiate.h"

/* Return a copy of the node's subgraph as a graph; the session's. */
static ir_graph *graph_of(session *s, const ir_node *n)
{
  ir_graph *g = ir_node_block_graph(s, n);

  session_defer(s, ir_graph_free_deferred, g);
  return g;
}

static void set_numbers(session *s, ir_node *n, const char *name, const diff_indices *of)
{
  int64_t *wide = session_array(s, int64_t, of->n + 1);

  for (uint32_t i = 0; i < of->n; i++)
    wide[i] = of->at[i];
  ir_attr_set_ints(s, n, name, wide, of->n);
}

static void set_attributes(session *s, ir_node *n, const graph_gradient *made)
{
  ir_graph *df = ir_attr_graph_new(s, n);

  ir_block_copy_into(s, df->block, made->df->block);
  ir_attr_set_graph(s, n, "ReverseSubgraph", df);
  ir_attr_set_int(s, n, "f_real_outputs", made->n_outputs);
  set_numbers(s, n, "df_input_vjps", &made->input_vjps);
  set_numbers(s, n, "df_input_captured_inputs", &made->captured_inputs);
  set_numbers(s, n, "df_input_captured_outputs", &made->captured_outputs);
  set_numbers(s, n, "df_output_vjps", &made->output_vjps);
}

static void differentiate_node(session *s, const ir_node *n, graph_gradient *made)
{
  const diff_options options = {.needed = NULL};

  differentiate(s, graph_of(s, n), &options, made);
}

static void try_node(session *s, void *n)
{
  graph_gradient made;

  differentiate_node(s, n, &made);
}

/* True if the node's subgraph can be differentiated; another one stays as it is: calls record its
 * nodes. */
static bool can_pack(session *s, ir_node *n)
{
  call_ctx quiet = *s->cx;

  quiet.err = NULL;
  return session_run(&quiet, try_node, n) == RUSH_OK;
}

/* Replace the node by one with its gradient. */
static void pack(session *s, ir_node *n)
{
  graph_gradient made;

  differentiate_node(s, n, &made);
  ir_value **in = session_array(s, ir_value *, n->n_inputs + 1);
  for (uint32_t i = 0; i < n->n_inputs; i++)
    in[i] = ir_node_input(n, i);
  ir_node *packed = ir_node_new(s, n->graph, IR_DIFFERENTIABLE_GRAPH, in, n->n_inputs);
  packed->range = n->range;
  ir_node_insert_before(packed, n);
  ir_block_copy_into(s, ir_node_add_block(s, packed), made.f->block);
  for (uint32_t i = 0; i < ir_block_n_outputs(packed->blocks[0]); i++)
    ir_node_add_output(s, packed,
                       i < n->n_outputs ? n->outputs[i]->type
                                        : ir_block_output(packed->blocks[0], i)->type);
  set_attributes(s, packed, &made);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    ir_value_replace_all_uses(n->outputs[i], packed->outputs[i]);
  ir_node_destroy(n);
}

static void pack_all(session *s, ir_block *b)
{
  session_enter(s);
  for (ir_node *n = ir_block_first(b), *next; n != b->ret; n = next) {
    next = n->next;
    session_poll(s);
    if (n->kind == IR_DIFFERENTIABLE_GRAPH && n->n_blocks == 1 && !ir_node_is_packed(n) &&
        can_pack(s, n))
      pack(s, n);
    else
      for (uint32_t i = 0; i < n->n_blocks; i++)
        pack_all(s, n->blocks[i]);
  }
  session_leave(s);
}

void differentiate_pack_nodes(session *s, ir_graph *g) { pack_all(s, g->block); }
