/* passes/aliases.c -- values that are other values, and operators that are other operators.
 *
 * What an in-place operator gives is its argument; aten::alias gives its argument's memory; an expand that only makes
 * broadcasting explicit changes nothing; aten::multiply is aten::mul. */
#include "ops/lookup.h"
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

/* Operators that give their first argument, or all of its memory as it is. */
static void drop_alias(session *s, ir_node *n, void *arg)
{
  bool same = ir_node_is_op(n, "aten::alias") || ir_node_is_op(n, "aten::lift_fresh") ||
              (n->kind == IR_UNCHECKED_CAST && type_equal(n->outputs[0]->type, ir_node_input(n, 0)->type));

  (void)s;
  (void)arg;
  if (same && n->n_outputs == 1)
    pass_replace(n, &(ir_value *){ir_node_input(n, 0)});
}

void pass_remove_aliases(session *s, ir_graph *g) { pass_each(s, g->block, drop_alias, NULL); }

/* -- Expands ----------------------------------------------------------------------------------- */

/* Only for operators that broadcast by themselves. */
static bool is_broadcast(const ir_value *v)
{
  for (const ir_use *u = v->uses; u; u = u->next)
    if (u->user->kind != IR_OP || u->user->op->family != FAMILY_POINTWISE || u->user->op->variant != VARIANT_BASE)
      return false;
  return true;
}

static void drop_expand(session *s, ir_node *n, void *arg)
{
  bool implicit;

  (void)s;
  (void)arg;
  if (ir_node_is_op(n, "aten::expand") && n->n_inputs == 3 && pass_is_constant_bool(ir_node_input(n, 2), &implicit) &&
      implicit && is_broadcast(n->outputs[0]))
    pass_replace(n, &(ir_value *){ir_node_input(n, 0)});
}

void pass_remove_expands(session *s, ir_graph *g) { pass_each(s, g->block, drop_expand, NULL); }

/* -- Other names ------------------------------------------------------------------------------- */

static const struct { const char *name, *is; } synonyms[] = { /* sorted */
  {"aten::absolute", "aten::abs"}, {"aten::absolute_", "aten::abs_"}, {"aten::arccos", "aten::acos"},
  {"aten::arccosh", "aten::acosh"}, {"aten::arcsin", "aten::asin"}, {"aten::arcsinh", "aten::asinh"},
  {"aten::arctan", "aten::atan"}, {"aten::arctan2", "aten::atan2"}, {"aten::arctanh", "aten::atanh"},
  {"aten::clip", "aten::clamp"}, {"aten::clip_", "aten::clamp_"}, {"aten::concat", "aten::cat"},
  {"aten::concatenate", "aten::cat"}, {"aten::det", "aten::linalg_det"}, {"aten::divide", "aten::div"},
  {"aten::divide_", "aten::div_"}, {"aten::fix", "aten::trunc"}, {"aten::greater", "aten::gt"},
  {"aten::greater_equal", "aten::ge"}, {"aten::less", "aten::lt"}, {"aten::less_equal", "aten::le"},
  {"aten::moveaxis", "aten::movedim"}, {"aten::multiply", "aten::mul"}, {"aten::multiply_", "aten::mul_"},
  {"aten::negative", "aten::neg"}, {"aten::negative_", "aten::neg_"}, {"aten::not_equal", "aten::ne"},
  {"aten::subtract", "aten::sub"}, {"aten::subtract_", "aten::sub_"}, {"aten::swapaxes", "aten::transpose"},
  {"aten::swapdims", "aten::transpose"}, {"aten::true_divide", "aten::div"}, {"aten::true_divide_", "aten::div_"},
};

/* The operator of that name and overload, when it takes and gives the same. */
static const op *same_shape(session *s, const op *o, const char *name)
{
  const op *is = session_op_find(s, str_of(name), str_of(o->schema->overload));

  if (!is && strcmp(o->schema->overload, "int") == 0) /* swapaxes has no overload, transpose.int has one */
    return NULL;
  if (!is)
    is = session_op_find(s, str_of(name), STR("int"));
  if (!is || is->schema->n_args != o->schema->n_args || is->schema->n_returns != o->schema->n_returns)
    return NULL;
  for (uint32_t i = 0; i < o->schema->n_args; i++)
    if (!type_equal(type_runtime(is->schema->args[i].type), type_runtime(o->schema->args[i].type)))
      return NULL;
  return is;
}

static void rename_op(session *s, ir_node *n, void *arg)
{
  (void)arg;
  if (n->kind != IR_OP)
    return;
  for (size_t i = 0; i < COUNT_OF(synonyms); i++)
    if (ir_node_is_op(n, synonyms[i].name)) {
      const op *is = same_shape(s, n->op, synonyms[i].is);
      n->op = is ? is : n->op;
      return;
    }
}

void pass_normalize_ops(session *s, ir_graph *g) { pass_each(s, g->block, rename_op, NULL); }
