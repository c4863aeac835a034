/* passes/aliases.c -- removes values that equal other values, and replaces operators by their
 * synonyms.
 *
 * The result of an in-place operator is its argument; aten::alias returns its argument's memory; an
 * expand that only makes broadcasting explicit changes nothing; aten::multiply is aten::mul. */
#include <stdlib.h>

#include "ops/call/lookup.h"
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
    ir_node_is_op(n, "aten::alias") || ir_node_is_op(n, "aten::lift_fresh") ||
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
  if (ir_node_is_op(n, "aten::expand") && n->n_inputs == 3 &&
      pass_is_constant_bool(ir_node_input(n, 2), &implicit) && implicit &&
      is_broadcast(n->outputs[0]))
    pass_replace(n, &(ir_value *){ir_node_input(n, 0)});
}

void pass_remove_expands(session *s, ir_graph *g) { pass_each(s, g->block, drop_expand, NULL); }

/* -- Other names ------------------------------------------------------------------------------- */

static const struct synonym { const char *name, *is;
} synonyms[] = {
  /* sorted by byte */
  {"aten::absolute", "aten::abs"},
  {"aten::absolute_", "aten::abs_"},
  {"aten::arccos", "aten::acos"},
  {"aten::arccos_", "aten::acos_"},
  {"aten::arccosh", "aten::acosh"},
  {"aten::arccosh_", "aten::acosh_"},
  {"aten::arcsin", "aten::asin"},
  {"aten::arcsin_", "aten::asin_"},
  {"aten::arcsinh", "aten::asinh"},
  {"aten::arcsinh_", "aten::asinh_"},
  {"aten::arctan", "aten::atan"},
  {"aten::arctan2", "aten::atan2"},
  {"aten::arctan2_", "aten::atan2_"},
  {"aten::arctan_", "aten::atan_"},
  {"aten::arctanh", "aten::atanh"},
  {"aten::arctanh_", "aten::atanh_"},
  {"aten::clip", "aten::clamp"},
  {"aten::clip_", "aten::clamp_"},
  {"aten::concat", "aten::cat"},
  {"aten::concatenate", "aten::cat"},
  {"aten::det", "aten::linalg_det"},
  {"aten::divide", "aten::div"},
  {"aten::divide_", "aten::div_"},
  {"aten::fix", "aten::trunc"},
  {"aten::fix_", "aten::trunc_"},
  {"aten::ger", "aten::outer"},
  {"aten::greater", "aten::gt"},
  {"aten::greater_", "aten::gt_"},
  {"aten::greater_equal", "aten::ge"},
  {"aten::greater_equal_", "aten::ge_"},
  {"aten::inverse", "aten::linalg_inv"},
  {"aten::less", "aten::lt"},
  {"aten::less_", "aten::lt_"},
  {"aten::less_equal", "aten::le"},
  {"aten::less_equal_", "aten::le_"},
  {"aten::linalg_matmul", "aten::matmul"},
  {"aten::matrix_exp", "aten::linalg_matrix_exp"},
  {"aten::matrix_power", "aten::linalg_matrix_power"},
  {"aten::moveaxis", "aten::movedim"},
  {"aten::multiply", "aten::mul"},
  {"aten::multiply_", "aten::mul_"},
  {"aten::negative", "aten::neg"},
  {"aten::negative_", "aten::neg_"},
  {"aten::not_equal", "aten::ne"},
  {"aten::not_equal_", "aten::ne_"},
  {"aten::orgqr", "aten::linalg_householder_product"},
  {"aten::row_stack", "aten::vstack"},
  {"aten::special_digamma", "aten::digamma"},
  {"aten::special_erf", "aten::erf"},
  {"aten::special_erfc", "aten::erfc"},
  {"aten::special_erfinv", "aten::erfinv"},
  {"aten::special_exp2", "aten::exp2"},
  {"aten::special_expit", "aten::sigmoid"},
  {"aten::special_expm1", "aten::expm1"},
  {"aten::special_gammainc", "aten::igamma"},
  {"aten::special_gammaincc", "aten::igammac"},
  {"aten::special_gammaln", "aten::lgamma"},
  {"aten::special_i0", "aten::i0"},
  {"aten::special_log1p", "aten::log1p"},
  {"aten::special_log_softmax", "aten::log_softmax"},
  {"aten::special_logit", "aten::logit"},
  {"aten::special_logsumexp", "aten::logsumexp"},
  {"aten::special_multigammaln", "aten::mvlgamma"},
  {"aten::special_polygamma", "aten::polygamma"},
  {"aten::special_psi", "aten::digamma"},
  {"aten::special_round", "aten::round"},
  {"aten::special_sinc", "aten::sinc"},
  {"aten::special_softmax", "aten::softmax"},
  {"aten::special_xlogy", "aten::xlogy"},
  {"aten::subtract", "aten::sub"},
  {"aten::subtract_", "aten::sub_"},
  {"aten::swapaxes", "aten::transpose"},
  {"aten::swapaxes_", "aten::transpose_"},
  {"aten::swapdims", "aten::transpose"},
  {"aten::swapdims_", "aten::transpose_"},
  {"aten::true_divide", "aten::div"},
  {"aten::true_divide_", "aten::div_"},
};

/* Return the operator of that name and overload, if it has the same arguments and results. */
static const op *same_shape(session *s, const op *o, const char *name)
{
  const op *is = session_op_find(s, str_of(name), str_of(o->schema->overload));

  if (!is &&
      strcmp(o->schema->overload, "int") == 0) /* swapaxes has no overload, transpose.int has one */
    return NULL;
  if (!is)
    is = session_op_find(s, str_of(name), STR("int"));
  if (!is || is->schema->n_args != o->schema->n_args ||
      is->schema->n_returns != o->schema->n_returns)
    return NULL;
  for (uint32_t i = 0; i < o->schema->n_args; i++)
    if (!type_equal(type_runtime(is->schema->args[i].type), type_runtime(o->schema->args[i].type)))
      return NULL;
  return is;
}

/* The pairs of letters that names of synonyms begin with: most operators' names begin with
 * another. */
typedef struct beginnings {
  uint32_t second[32]; /* by the first letter, a bit for each second one */
} beginnings;

static bool may_begin(const beginnings *b, const char *name)
{
  return strncmp(name, "aten::", 6) == 0 &&
         (b->second[name[6] & 31] >> (name[6] ? name[7] & 31 : 0) & 1);
}

static int compare_synonym(const void *name, const void *s)
{
  return strcmp(name, ((const struct synonym *)s)->name);
}

static void rename_op(session *s, ir_node *n, void *arg)
{
  if (n->kind != IR_OP || !may_begin(arg, n->op->schema->name))
    return;
  const struct synonym *found =
    bsearch(n->op->schema->name, synonyms, COUNT_OF(synonyms), sizeof synonyms[0], compare_synonym);
  const op *is = found ? same_shape(s, n->op, found->is) : NULL;

  n->op = is ? is : n->op;
}

void pass_normalize_ops(session *s, ir_graph *g)
{
  beginnings b = {{0}};

  for (size_t i = 0; i < COUNT_OF(synonyms); i++)
    b.second[synonyms[i].name[6] & 31] |= 1u << (synonyms[i].name[7] & 31);
  pass_each(s, g->block, rename_op, &b);
}
