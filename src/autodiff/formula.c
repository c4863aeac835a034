/* autodiff/formula.c -- the graph of a gradient formula for one node.
 *
 * The formula is a function of the built-in program that takes what the node has; a copy of its
 * graph gets the node's constants and types, and passes remove the branches that these decide. What
 * is left is what the eager recorder's call of the formula would run. Rejected: keeping such graphs
 * for the next node of the same operator; most nodes differ in a constant or a type. */
#include "autodiff/autodiff_int.h"

#include "ir/facts.h"
#include "ir/program.h"
#include "passes/passes.h"

typedef struct formula_job {
  const ir_node *n;
  const op_gradient *g;
  const bool *needs;
  const type *const *types;
  bool is_example; /* see diff_options */
  ir_graph *made;
} formula_job;

/* Return a list of bools, held by the session. */
static rush_value needs_list(session *s, const formula_job *job)
{
  rush_list *l;

  session_check(s, list_new(s->cx, type_simple(TYPE_BOOL), job->g->n_inputs, &l));
  for (uint32_t i = 0; i < job->g->n_inputs; i++)
    l->items[l->n++] = value_bool(job->needs[i]);
  return value_heap_steal(RUSH_TAG_LIST, l);
}

/* Replace a parameter by what the node has for it, if that is constant; returns false if not. */
static bool put_constant_list(session *s, ir_node *pos, const ir_node *list, ir_value **out)
{
  ir_value **in = session_array(s, ir_value *, list->n_inputs + 1);
  rush_value v;

  for (uint32_t i = 0; i < list->n_inputs; i++)
    if (!ir_value_as_constant(ir_node_input(list, i), &v))
      return false;
  for (uint32_t i = 0; i < list->n_inputs; i++) {
    (void)ir_value_as_constant(ir_node_input(list, i), &v);
    in[i] = diff_constant(s, pos, v, ir_node_input(list, i)->type);
  }
  ir_node *made = ir_node_new(s, pos->graph, IR_LIST_CONSTRUCT, in, list->n_inputs);

  ir_node_insert_before(made, pos);
  *out = ir_node_add_output(s, made, list->outputs[0]->type);
  return true;
}

static void bind_argument(session *s, const formula_job *job, uint32_t arg, ir_value *param)
{
  const ir_value *v = ir_node_input(job->n, arg);
  ir_node *pos = ir_block_first(param->node->block);
  ir_value *with = NULL;
  rush_value c;

  if (ir_value_as_constant(v, &c)) {
    if (c.tag != RUSH_TAG_TENSOR)
      with = diff_constant(s, pos, c, v->type);
  } else if (v->node->kind == IR_LIST_CONSTRUCT) {
    (void)put_constant_list(s, pos, v->node, &with);
  }
  if (with)
    ir_value_replace_all_uses(param, with);
}

/* Return the type without the sizes of an example: passes fold by it. */
static const type *without_sizes(session *s, const formula_job *job, ir_graph *g, const type *t)
{
  ir_facts f = *ir_facts_of(t);

  for (int i = 0; i < f.n_dims; i++) {
    f.sizes[i] = IR_SIZE_UNKNOWN;
    f.strides[i] = IR_STRIDE_UNKNOWN;
  }
  f.contiguous = -1;
  return job->is_example ? ir_facts_type(s, g->types, &f) : t;
}

/* Give the parameters their types again, and the results those that follow. */
static void find_types(session *s, const formula_job *job, ir_graph *g)
{
  for (uint32_t k = 0; k < job->g->n_takes; k++)
    if (job->types[k] && type_is(job->types[k], TYPE_TENSOR))
      ir_block_input(g->block, k)->type = job->types[k];
  pass_propagate_shapes_on_graph(s, g);
  if (!job->is_example)
    pass_exact_peephole(s, g);
}

/* Give the parameters their types and constants. */
static void bind_parameters(session *s, const formula_job *job, ir_graph *g)
{
  for (uint32_t k = 0; k < job->g->n_takes; k++) {
    ir_value *param = ir_block_input(g->block, k);
    const gradient_take t = job->g->take[k];

    if (job->types[k] && type_is(job->types[k], TYPE_TENSOR))
      param->type = without_sizes(s, job, g, job->types[k]);
    if (t.from == GRADIENT_ARG)
      bind_argument(s, job, t.index, param);
    if (t.from == GRADIENT_NEEDS) {
      const rush_value needs = needs_list(s, job);
      ir_value *c = diff_constant(s, ir_block_first(g->block), needs, param->type);

      value_release(needs); /* the graph retains it */
      ir_value_replace_all_uses(param, c);
    }
  }
}

static void make_graph(session *s, void *arg)
{
  formula_job *job = arg;
  void *made;

  session_check(s, op_gradient_prepare(s->cx, job->n->op, job->g, &made));
  function *f = made;
  session_lock(s, &f->program->lock);
  function_ensure(s, f);
  ir_graph *g = ir_graph_copy(s, f->graph);
  session_defer(s, ir_graph_free_deferred, g);
  g->is_recorded = true; /* for second derivatives */
  pass_inline(s, g);
  bind_parameters(s, job, g);
  pass_exact_peephole(s, g);
  pass_constant_propagation(s, g);
  pass_exact_peephole(s, g);
  pass_lower_simple_tuples(s, g);
  pass_dce(s, g);
  find_types(s, job, g);
  job->made = session_keep(s, g);
}

ir_graph *formula_graph(const diff *d, const ir_node *n, const op_gradient *g, const bool *needs,
                        const type *const *types)
{
  formula_job job = {n, g, needs, types, d->o.is_example, NULL};

  session_check(d->s, session_run(d->s->cx, make_graph, &job));
  session_defer(d->s, ir_graph_free_deferred, job.made);
  return job.made;
}
