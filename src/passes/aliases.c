/* passes/aliases.c -- removes values that equal other values, and replaces operators by their
 * synonyms.
 *
 * The result of an in-place operator is its argument; aten::alias returns its argument's memory; an
 * expand that only makes broadcasting explicit changes nothing; aten::multiply is aten::mul, and
 * `is` of two bools aten::eq. */
#include "ops/call/lookup.h"
#include "ops/table/op_keys.h"
#include "passes/passes_int.h"

/* -- In-place ---------------------------------------------------------------------------------- */

static void use_argument(session *s, ir_node *n, void *arg)
{
  (void)s;
  (void)arg;
  if (n->kind == IR_OP && n->op->variant == VARIANT_INPLACE && n->n_outputs == 1 && n->n_inputs &&
      type_equal(n->outputs[0]->type, ir_node_input(n, 0)->type))
    ir_value_replace_all_uses(n->outputs[0], ir_node_input(n, 0));
}

void pass_normalize_inplace(session *s, ir_graph *g) { pass_each(s, g->block, use_argument, NULL); }

/* -- Aliases ----------------------------------------------------------------------------------- */

/* Remove operators that return their first argument, or all of its memory unchanged. */
static void drop_alias(session *s, ir_node *n, void *arg)
{
  bool same =
    ir_node_is_op(n, OPN_ALIAS) || ir_node_is_op(n, OPN_LIFT_FRESH) ||
    (n->kind == IR_UNCHECKED_CAST && type_equal(n->outputs[0]->type, ir_node_input(n, 0)->type));

  (void)s;
  (void)arg;
  if (same && n->n_outputs == 1)
    pass_replace(n, &(ir_value *){ir_node_input(n, 0)});
}

void pass_remove_aliases(session *s, ir_graph *g) { pass_each(s, g->block, drop_alias, NULL); }

/* -- Expands ----------------------------------------------------------------------------------- */

/* True for an expand whose uses all broadcast by themselves. */
static bool is_broadcast(const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next)
    if (u->user->kind != IR_OP || u->user->op->family != FAMILY_POINTWISE ||
        u->user->op->variant != VARIANT_BASE)
      return false;
  return true;
}

static void drop_expand(session *s, ir_node *n, void *arg)
{
  bool implicit;

  (void)s;
  (void)arg;
  if (ir_node_is_op(n, OPN_EXPAND) && n->n_inputs == 3 &&
      pass_is_constant_bool(ir_node_input(n, 2), &implicit) && implicit &&
      is_broadcast(n->outputs[0]))
    pass_replace(n, &(ir_value *){ir_node_input(n, 0)});
}

void pass_remove_expands(session *s, ir_graph *g) { pass_each(s, g->block, drop_expand, NULL); }

/* -- Other names ------------------------------------------------------------------------------- */

/* Return the operator of that name and overload if it has the same arguments and results. */
static const op *same_shape(session *s, const op *o, str name)
{
  const op *is = session_op_find(s, name, str_of(o->schema->overload));

  if (!is &&
      strcmp(o->schema->overload, "int") == 0) /* swapaxes has no overload, transpose.int has one */
    return NULL;
  if (!is)
    is = session_op_find(s, name, STR("int"));
  if (!is || is->schema->n_args != o->schema->n_args ||
      is->schema->n_returns != o->schema->n_returns)
    return NULL;
  for (uint32_t i = 0; i < o->schema->n_args; i++)
    if (!type_equal(type_runtime(is->schema->args[i].type), type_runtime(o->schema->args[i].type)))
      return NULL;
  return is;
}

/* Return the comparison that `is` or `is not` of two bools means, or NULL for other nodes. */
static const op *comparison_of(session *s, const ir_node *n)
{
  const bool is = ir_node_is_op(n, OPN___IS__);

  if ((!is && !ir_node_is_op(n, OPN___ISNOT__)) || n->n_inputs != 2)
    return NULL;
  for (uint32_t i = 0; i < 2; i++)
    if (!type_is(type_runtime(ir_node_input(n, i)->type), TYPE_BOOL))
      return NULL;
  return session_op_find(s, is ? STR("aten::eq") : STR("aten::ne"), STR("bool"));
}

static void rename_op(session *s, ir_node *n, void *arg)
{
  (void)arg;
  const op *bools = comparison_of(s, n);
  if (bools) {
    n->op = bools;
    return;
  }
  const str name = n->kind == IR_OP ? op_synonym_of(n->op) : (str){NULL, 0};
  const op *is = name.len ? same_shape(s, n->op, name) : NULL;

  ASSERT_SLOW(!is || ir_node_fits_schema(n, n->op->schema) == ir_node_fits_schema(n, is->schema));
  n->op = is ? is : n->op;
}

void pass_normalize_ops(session *s, ir_graph *g) { pass_each(s, g->block, rename_op, NULL); }
