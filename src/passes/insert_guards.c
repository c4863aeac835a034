/* passes/insert_guards.c -- turns profiles into guards.
 *
 * prim::profile records the types of the values that it passes on.  insert_guards makes a
 * prim::Guard of each that knows something: behind the guard the value has the type, so that other
 * passes can use it.  Then, or with remove_profiling_nodes alone, no node of the profile is left.
 * */
#include "ir/facts.h"
#include "passes/passes_int.h"

static bool is_profile(const ir_node *n)
{
  return n->kind == IR_PROFILE || n->kind == IR_PROFILE_IVALUE;
}

/* Replace the node's results by its inputs. */
static void remove_profile(session *s, ir_node *n, void *arg)
{
  (void)arg;
  if (!is_profile(n) || n->n_outputs > n->n_inputs)
    return;
  ir_value **with = session_array(s, ir_value *, n->n_outputs + 1);
  for (uint32_t i = 0; i < n->n_outputs; i++)
    with[i] = ir_node_input(n, i);
  pass_replace(n, with);
}

void pass_remove_profiling_nodes(session *s, ir_graph *g)
{
  pass_each(s, g->block, remove_profile, NULL);
}

/* Return the type that was recorded. */
static const type *profiled_type(const ir_node *n)
{
  const ir_attr *a = ir_attr_find(n, "profiled_type");

  return a && a->kind == ATTR_TYPE ? a->as.t.types[0] : n->outputs[0]->type;
}

static void guard(session *s, ir_node *n, void *arg)
{
  (void)arg;
  if (n->kind != IR_PROFILE || n->n_inputs != 1 || n->n_outputs != 1)
    return;
  ir_value *v = ir_node_input(n, 0);
  const type *t = profiled_type(n);

  if (!type_is(v->type, TYPE_TENSOR) || ir_facts_is_none(ir_facts_of(t)))
    return;
  ir_node *made = pass_put_node(s, n, IR_GUARD, &v, 1, t);
  ir_attr_set_type(s, made, "profiled_type", t);
  pass_replace(n, made->outputs);
}

void pass_insert_guards(session *s, ir_graph *g)
{
  pass_each(s, g->block, guard, NULL);
  pass_remove_profiling_nodes(s, g);
}
