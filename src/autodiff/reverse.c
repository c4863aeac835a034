/* autodiff/reverse.c -- appends the reverse part to a graph: reverse-mode differentiation.
 *
 * Two walks.  Forwards: which values depend on a needed input by operators that have formulas.
 * Backwards, which is the order in which autograd/backward.c runs the records of the same nodes:
 * each node whose results have gradients gets its formulas, whose results are fitted to the
 * arguments and added to their gradients. */
#include "autodiff/autodiff_int.h"

#include "base/grow.h"
#include "ir/facts.h"
#include "ir/program.h"
#include "ops/call/lookup.h"

/* -- Nodes of the reverse part ----------------------------------------------------------------- */

ir_value *diff_constant(session *s, ir_node *pos, rush_value v, const type *t)
{
  ir_node *n = ir_constant_new(s, pos->graph, v, t);

  ir_node_insert_before(n, pos);
  return n->outputs[0];
}

ir_value *diff_op(session *s, ir_node *pos, const char *name, const char *overload,
                  ir_value *const *in, uint32_t n)
{
  const op *o = session_op_find(s, str_of(name), str_of(overload));

  if (!o)
    session_fail_status(s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "differentiating a graph needs %s, which this build lacks", name);
  ir_node *made = ir_node_new_op(s, pos->graph, o, in, n);
  made->range = pos->range;
  ir_node_insert_before(made, pos);
  return made->outputs[0];
}

static ir_value *none(session *s, ir_node *pos)
{
  return diff_constant(s, pos, value_none(), type_simple(TYPE_NONE));
}

/* Read the sizes of v, outside of blocks: capture.c replaces it. */
static ir_value *sizes_of(const diff *d, ir_node *pos, ir_value *v)
{
  while (pos->block != d->w->block)
    pos = pos->block->owner;
  return diff_op(d->s, pos, "aten::size", "", &v, 1);
}

static ir_value *list_of(const diff *d, ir_node *pos, ir_value *const *in, uint32_t n,
                         const type *elem)
{
  ir_node *made = ir_node_new(d->s, d->w, IR_LIST_CONSTRUCT, in, n);

  ir_node_insert_before(made, pos);
  const type *t = session_type(d->s, type_list(d->w->types, elem));
  return ir_node_add_output(d->s, made, t);
}

/* -- What requires gradients ------------------------------------------------------------------- */

/* True if the value may be a floating tensor that requires a gradient, or a list of such. */
static bool may_require(const diff *d, const ir_value *v)
{
  const type *t = type_is(v->type, TYPE_LIST) ? type_elem(v->type) : v->type;

  if (!type_is(t, TYPE_TENSOR))
    return false;
  const ir_facts *f = ir_facts_of(t);
  if (f->dtype == DTYPE_NONE) {
    if (d->o.is_strict && type_is(v->type, TYPE_TENSOR))
      session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &v->node->range,
                          "the dtype of %%%s decides about a gradient and is unknown",
                          v->name ? v->name : "a value");
    return f->requires_grad != 0;
  }
  return f->requires_grad != 0 && (dtype_is_float(f->dtype) || dtype_is_complex(f->dtype));
}

static bool takes_gradient(const op_gradients *formulas, uint32_t result)
{
  for (uint32_t f = 0; f < formulas->n; f++)
    for (uint32_t i = 0; i < formulas->items[f].n_takes; i++)
      if (formulas->items[f].take[i].from == GRADIENT_OF_RESULT &&
          formulas->items[f].take[i].index == result)
        return true;
  return false;
}

static bool any_requires(const diff *d, const ir_node *n)
{
  for (uint32_t i = 0; i < n->n_inputs; i++)
    if (diff_of(d, ir_node_input(n, i))->requires)
      return true;
  return false;
}

static bool formula_is_used(const diff *d, const ir_node *n, const op_gradient *g)
{
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (diff_of(d, ir_node_input(n, g->input[i]))->requires)
      return true;
  return false;
}

_Noreturn static void not_implemented(const diff *d, const ir_node *n)
{
  session_fail(d->s, &n->range, "derivative for %s is not implemented", ir_node_kind_name(n));
}

static const op_gradients *formulas_of(const diff *d, const ir_node *n)
{
  const op_gradients *formulas = NULL;

  session_check(d->s, op_gradients_of(d->s->cx, n->op, &formulas));
  return formulas;
}

/* A list's tensors are differentiated one by one: they have to be known. */
static void check_list(const diff *d, const ir_value *v)
{
  if (v->node->kind != IR_LIST_CONSTRUCT && v->node->kind != IR_OP)
    session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &v->node->range,
                        "differentiating a list of tensors that the graph does not make");
  for (const ir_use *u = v->uses; u; u = u->next)
    if (v->node->kind == IR_OP && (u->user->kind != IR_LIST_UNPACK || u->next))
      session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &u->user->range,
                          "differentiating a list of tensors that is used as a whole");
}

static void op_requires(const diff *d, ir_node *n)
{
  const op_gradients *formulas = any_requires(d, n) ? formulas_of(d, n) : NULL;
  bool used = false;

  for (uint32_t f = 0; formulas && f < formulas->n; f++)
    used |= formula_is_used(d, n, &formulas->items[f]);
  for (uint32_t i = 0; i < n->n_outputs && any_requires(d, n); i++) {
    ir_value *v = n->outputs[i];

    if (n->op->effects & OP_NO_GRAD || (formulas && !(used && takes_gradient(formulas, i))) ||
        !may_require(d, v))
      continue;
    if (!formulas)
      not_implemented(d, n);
    diff_of(d, v)->requires = true;
    if (type_is(v->type, TYPE_LIST))
      check_list(d, v);
  }
}

static void node_requires(const diff *d, ir_node *n)
{
  rush_value c;

  if (n->kind == IR_CONSTANT) {
    c = ir_constant_value(n);
    if (c.tag == RUSH_TAG_TENSOR && c.as.tensor && tensor_requires_grad(c.as.tensor))
      session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &n->range,
                          "a constant of a graph that is differentiated requires grad");
  } else if (n->kind == IR_LIST_CONSTRUCT) {
    diff_of(d, n->outputs[0])->requires = any_requires(d, n);
  } else if (n->kind == IR_LIST_UNPACK) {
    for (uint32_t i = 0; i < n->n_outputs; i++)
      diff_of(d, n->outputs[i])->requires = diff_of(d, ir_node_input(n, 0))->requires;
  } else {
    op_requires(d, n);
  }
}

/* True unless the value is no tensor, or known to be of real numbers. */
static bool may_be_complex(const ir_value *v)
{
  const type *t = v->type;

  while (t->kind == TYPE_LIST || t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  if (v->node->kind == IR_LIST_CONSTRUCT || v->node->kind == IR_CONSTANT ||
      !type_is(t, TYPE_TENSOR))
    return false;
  const int dtype = ir_facts_of(t)->dtype;
  return dtype == DTYPE_NONE || dtype_is_complex(dtype);
}

void reverse_requires(diff *d)
{
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    ir_value *v = ir_block_input(d->w->block, i);
    const bool asked = !d->o.needed || d->o.needed[i];

    if (asked && type_is(v->type, TYPE_TENSOR))
      diff_of(d, v)->requires = may_require(d, v);
    else if (asked && d->o.needed)
      session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, NULL,
                          "a gradient of an input that is no tensor");
  }
  for (ir_node *n = ir_block_first(d->w->block); n != d->w->block->ret; n = n->next) {
    session_poll(d->s);
    node_requires(d, n);
  }
  for (uint32_t i = 1; i < d->n_values; i++)
    d->may_be_complex |= may_be_complex(d->values[i].v);
}

/* -- Gradients so far -------------------------------------------------------------------------- */

/* The type of a gradient: that of the value, which gradients are fitted to. */
static const type *grad_type(const diff *d, const ir_value *v)
{
  ir_facts f = *ir_facts_of(v->type);

  if (!type_is(v->type, TYPE_TENSOR) || !d->o.is_strict)
    return v->type->facts ? type_simple(TYPE_TENSOR) : v->type;
  for (int i = 0; i < f.n_dims && !d->o.is_example; i++)
    f.strides[i] = IR_STRIDE_UNKNOWN;
  f.contiguous = d->o.is_example ? f.contiguous : -1;
  f.requires_grad = -1;
  return ir_facts_type(d->s, d->w->types, &f);
}

/* Add a contribution to v's gradient, before `pos`. */
static void add(const diff *d, ir_node *pos, diff_value *v, ir_value *part, bool is_unsure)
{
  session *s = d->s;

  if (d->o.is_separate && v->v->node->kind == IR_PARAM) {
    GROW(s, v->parts, v->n_parts, v->cap_parts, 4);
    v->parts[v->n_parts++] = part;
    return;
  }
  if (!v->grad) {
    v->grad = part;
    v->is_unsure = is_unsure;
    return;
  }
  ir_value *in[3] = {v->grad, part, NULL};
  if (v->is_unsure || is_unsure) {
    v->grad = diff_op(s, pos, "prim::AutogradAdd", "", in, 2);
    v->grad->type = type_simple(TYPE_TENSOR);
  } else {
    in[2] = diff_constant(s, pos, value_int(1), type_simple(TYPE_INT));
    v->grad = diff_op(s, pos, "aten::add", "Tensor", in, 3);
    v->grad->type = grad_type(d, v->v);
  }
  v->is_unsure &= is_unsure;
}

/* Make the sizes of an argument: as a constant if they are known. */
static ir_value *known_sizes(const diff *d, ir_node *pos, ir_value *v)
{
  const ir_facts *f = ir_facts_of(v->type);
  ir_value *in[IR_FACTS_DIMS];

  if (d->o.is_example || !ir_facts_has_sizes(f))
    return sizes_of(d, pos, v);
  for (int i = 0; i < f->n_dims; i++)
    in[i] = diff_constant(d->s, pos, value_int(f->sizes[i]), type_simple(TYPE_INT));
  return list_of(d, pos, in, (uint32_t)f->n_dims, type_simple(TYPE_INT));
}

/* True if the argument has the sizes of the node's result. */
static bool keeps_sizes(const ir_node *n)
{
  uint32_t tensors = 0;

  for (uint32_t i = 0; i < n->n_inputs; i++)
    tensors += type_is(ir_node_input(n, i)->type, TYPE_TENSOR) ||
               type_is(ir_node_input(n, i)->type, TYPE_OPTIONAL);
  return n->op->family == FAMILY_POINTWISE && n->n_outputs == 1 && tensors == 1;
}

static bool same_sizes(const diff *d, const ir_facts *a, const ir_facts *b)
{
  return !d->o.is_example && ir_facts_has_sizes(a) && ir_facts_has_sizes(b) &&
         a->n_dims == b->n_dims &&
         memcmp(a->sizes, b->sizes, (size_t)a->n_dims * sizeof *a->sizes) == 0;
}

/* Fit a formula's result to the argument, as op_gradient_fit does. */
static ir_value *fit(const diff *d, ir_node *pos, const ir_node *n, ir_value *part,
                     const type *made, ir_value *arg)
{
  const ir_facts *have = ir_facts_of(made), *want = ir_facts_of(arg->type);
  const bool is_known = have->dtype != DTYPE_NONE;

  if (!keeps_sizes(n) && !same_sizes(d, have, want)) {
    ir_value *in[2] = {part, known_sizes(d, pos, arg)};
    part = d->o.is_strict ? diff_op(d->s, pos, "aten::sum_to_size", "", in, 2)
                          : diff_op(d->s, pos, "aten::_grad_sum_to_size", "", in, 2);
  }
  if (want->dtype == DTYPE_NONE || have->dtype == want->dtype || (!is_known && !d->o.is_strict))
    return part;
  if (!is_known && !dtype_is_complex(want->dtype) && d->may_be_complex)
    session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &arg->node->range,
                        "the dtype of a gradient is unknown");
  if (is_known && dtype_is_complex(have->dtype) && !dtype_is_complex(want->dtype))
    part = diff_op(d->s, pos, "aten::real", "", &part, 1);
  ir_value *in[5] = {part, diff_constant(d->s, pos, value_int(want->dtype), type_simple(TYPE_INT)),
                     diff_constant(d->s, pos, value_bool(false), NULL),
                     diff_constant(d->s, pos, value_bool(false), NULL), none(d->s, pos)};
  return diff_op(d->s, pos, "aten::to", "dtype", in, 5);
}

/* -- Arguments of formulas --------------------------------------------------------------------- */

/* Make zeros like v, which has no gradient. */
static ir_value *zeros_like(const diff *d, ir_node *pos, ir_value *v)
{
  const int dtype = ir_facts_of(v->type)->dtype;
  ir_value *in[5] = {sizes_of(d, pos, v)};

  in[1] = dtype == DTYPE_NONE ? diff_op(d->s, pos, "prim::dtype", "", &v, 1)
                              : diff_constant(d->s, pos, value_int(dtype), type_simple(TYPE_INT));
  in[2] = in[3] = in[4] = none(d->s, pos);
  return diff_op(d->s, pos, "aten::zeros", "", in, 5);
}

/* Make a gradient that may be undefined defined: prim::If over zeros. */
static ir_value *or_zeros(const diff *d, ir_node *pos, ir_value *grad, ir_value *v)
{
  ir_value *cond = diff_op(d->s, pos, "prim::AutogradAnyNonZero", "", &grad, 1);
  cond->type = type_simple(TYPE_BOOL);
  ir_node *branch = ir_node_new(d->s, d->w, IR_IF, &cond, 1);
  ir_block *yes = ir_node_add_block(d->s, branch), *no = ir_node_add_block(d->s, branch);

  ir_node_insert_before(branch, pos);
  ir_block_add_output(d->s, yes, grad);
  ir_block_add_output(d->s, no, zeros_like(d, no->ret, v));
  return ir_node_add_output(d->s, branch, type_simple(TYPE_TENSOR));
}

static ir_value *defined_grad(const diff *d, ir_node *pos, ir_value *v, bool alone)
{
  const diff_value *of = diff_of(d, v);

  if (!of->grad)
    return zeros_like(d, pos, v);
  return of->is_unsure && !alone ? or_zeros(d, pos, of->grad, v) : of->grad;
}

/* Return the node that unpacks a list result, or NULL. */
static ir_node *unpacker(const ir_value *v)
{
  return v->uses && v->uses->user->kind == IR_LIST_UNPACK ? v->uses->user : NULL;
}

static ir_value *result_grad(const diff *d, ir_node *pos, ir_value *v, bool alone)
{
  const ir_node *u = type_is(v->type, TYPE_LIST) ? unpacker(v) : NULL;

  if (!u)
    return defined_grad(d, pos, v, alone);
  ir_value **in = session_array(d->s, ir_value *, u->n_outputs + 1);
  for (uint32_t i = 0; i < u->n_outputs; i++)
    in[i] = defined_grad(d, pos, u->outputs[i], false);
  return list_of(d, pos, in, u->n_outputs, type_simple(TYPE_TENSOR));
}

static ir_value *argument_sizes(const diff *d, ir_node *pos, ir_value *v)
{
  if (!type_is(v->type, TYPE_LIST))
    return known_sizes(d, pos, v);
  const ir_node *list = v->node;
  ir_value **in = session_array(d->s, ir_value *, list->n_inputs + 1);
  const type *ints = session_type(d->s, type_list(d->w->types, type_simple(TYPE_INT)));

  if (list->kind != IR_LIST_CONSTRUCT)
    check_list(d, v);
  for (uint32_t i = 0; i < list->n_inputs; i++)
    in[i] = sizes_of(d, pos, ir_node_input(list, i));
  return list_of(d, pos, in, list->n_inputs, ints);
}

static ir_value *result_value(const diff *d, ir_node *pos, ir_value *v)
{
  const ir_node *u = type_is(v->type, TYPE_LIST) ? unpacker(v) : NULL;

  return u ? list_of(d, pos, u->outputs, u->n_outputs, type_simple(TYPE_TENSOR)) : v;
}

/* Return what the formula takes; NULL: it is folded. */
static ir_value *taken(const diff *d, ir_node *pos, const ir_node *n, gradient_take t, bool alone)
{
  rush_value c;

  switch ((gradient_from)t.from) {
  case GRADIENT_OF_RESULT: return result_grad(d, pos, n->outputs[t.index], alone);
  case GRADIENT_ARG:
    return ir_value_as_constant(ir_node_input(n, t.index), &c) && c.tag != RUSH_TAG_TENSOR
             ? NULL
             : ir_node_input(n, t.index);
  case GRADIENT_RESULT: return result_value(d, pos, n->outputs[t.index]);
  case GRADIENT_SIZES: return argument_sizes(d, pos, ir_node_input(n, t.index));
  case GRADIENT_SO_FAR:
  case GRADIENT_NEEDS: break;
  }
  return NULL;
}

static const type *take_type(const diff *d, const ir_node *n, gradient_take t)
{
  if (t.from == GRADIENT_OF_RESULT)
    return grad_type(d, n->outputs[t.index]);
  if (t.from == GRADIENT_ARG)
    return ir_node_input(n, t.index)->type;
  return t.from == GRADIENT_RESULT ? n->outputs[t.index]->type : NULL;
}

/* -- A node's formulas ------------------------------------------------------------------------- */

typedef struct part { /* a contribution */
  diff_value *to;
  ir_value *v;
  bool is_unsure;
} part;

typedef struct parts {
  bool is_kept; /* until the block that makes them is complete; else they are added at once */
  part *items;
  uint32_t n, cap;
} parts;

static void put_part(const diff *d, parts *all, ir_value *to, ir_value *v, bool is_unsure)
{
  if (!all->is_kept) {
    add(d, d->w->block->ret, diff_of(d, to), v, is_unsure);
    return;
  }
  GROW(d->s, all->items, all->n, all->cap, 8);
  all->items[all->n++] = (part){diff_of(d, to), v, is_unsure};
}

/* Fit the result of a formula of n for argument `arg` and note it. */
static void deliver(const diff *d, ir_node *pos, const ir_node *n, parts *all, ir_value *arg,
                    ir_value *v)
{
  const type *made = v->type;

  if (!diff_of(d, arg)->requires || type_is(made, TYPE_NONE))
    return;
  if (type_is(made, TYPE_OPTIONAL)) {
    if (d->o.is_strict)
      session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &arg->node->range,
                          "a formula's gradient may be undefined");
    put_part(d, all, arg, v, true);
    return;
  }
  put_part(d, all, arg, fit(d, pos, n, v, made, arg), false);
}

static void deliver_list(const diff *d, ir_node *pos, const ir_node *n, parts *all,
                         const ir_node *list, ir_value *v)
{
  const bool is_made = v->node->kind == IR_LIST_CONSTRUCT && v->node->n_inputs == list->n_inputs;
  ir_node *unpack = is_made ? NULL : ir_node_new(d->s, d->w, IR_LIST_UNPACK, &v, 1);

  if (unpack)
    ir_node_insert_before(unpack, pos);
  for (uint32_t i = 0; unpack && i < list->n_inputs; i++)
    ir_node_add_output(d->s, unpack, type_simple(TYPE_TENSOR));
  for (uint32_t i = 0; i < list->n_inputs; i++) {
    ir_value *one = is_made ? ir_node_input(v->node, i) : unpack->outputs[i];

    deliver(d, pos, n, all, ir_node_input(list, i), one);
  }
}

/* Return the formula's results, new or existing values. */
static ir_value **spread(const diff *d, ir_node *pos, ir_value *v, uint32_t n)
{
  ir_value **out = session_array(d->s, ir_value *, n + 1);
  const type *t = type_runtime(v->type);

  out[0] = v;
  if (n == 1)
    return out;
  if (v->node->kind == IR_TUPLE_CONSTRUCT && v->node->n_inputs == n) {
    for (uint32_t i = 0; i < n; i++)
      out[i] = ir_node_input(v->node, i);
    return out;
  }
  if (!type_is(t, TYPE_TUPLE) || t->n_elems != n)
    session_fail_status(d->s, RUSH_EINTERNAL, NULL, NULL, "a gradient that is no tuple of %u", n);
  ir_node *unpack = ir_node_new(d->s, d->w, IR_TUPLE_UNPACK, &v, 1);
  ir_node_insert_before(unpack, pos);
  for (uint32_t i = 0; i < n; i++)
    out[i] = ir_node_add_output(d->s, unpack, t->elems[i]);
  return out;
}

/* Return the node's place in g. */
static uint32_t node_number(const diff *d, const ir_node *n)
{
  uint32_t k = 0;

  for (const ir_node *m = ir_block_first(d->w->block); m != n; m = m->next)
    k++;
  return k;
}

/* True if a record of the node saves tensors for the formula. */
static bool takes_tensors(const ir_node *n, const op_gradient *g)
{
  for (uint32_t k = 0; k < g->n_takes; k++) {
    const gradient_take t = g->take[k];
    const ir_value *v = t.from == GRADIENT_ARG      ? ir_node_input(n, t.index)
                        : t.from == GRADIENT_RESULT ? n->outputs[t.index]
                                                    : NULL;
    const type *of = v && type_is(v->type, TYPE_LIST) ? type_elem(v->type) : v ? v->type : NULL;

    if (of && type_is(of, TYPE_TENSOR))
      return true;
  }
  return false;
}

static void put_formula(const diff *d, ir_node *pos, const ir_node *n, const op_gradient *g,
                        bool alone, parts *all)
{
  bool *needs = session_array(d->s, bool, g->n_inputs + 1);

  if (d->saves && takes_tensors(n, g))
    d->saves[node_number(d, n)] = true;
  const type **types = session_array(d->s, const type *, g->n_takes + 1);
  ir_value **in = session_array(d->s, ir_value *, g->n_takes + 1), *made;

  for (uint32_t i = 0; i < g->n_inputs; i++)
    needs[i] = diff_of(d, ir_node_input(n, g->input[i]))->requires;
  for (uint32_t k = 0; k < g->n_takes; k++)
    types[k] = take_type(d, n, g->take[k]);
  const ir_graph *formula = formula_graph(d, n, g, needs, types);
  for (uint32_t k = 0; k < g->n_takes; k++)
    if (ir_value_has_uses(ir_block_input(formula->block, k)))
      in[k] = taken(d, pos, n, g->take[k], alone);
  ir_graph_keep_types_of(d->s, d->w, formula);
  ir_block_inline(d->s, formula->block, pos, in, &made);
  ir_value **results = spread(d, pos, made, g->n_inputs);
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    ir_value *arg = ir_node_input(n, g->input[i]);

    if (!needs[i])
      continue;
    if (type_is(arg->type, TYPE_LIST))
      deliver_list(d, pos, n, all, arg->node, results[i]);
    else
      deliver(d, pos, n, all, arg, results[i]);
  }
}

static void put_formulas(const diff *d, ir_node *pos, const ir_node *n, bool alone, parts *all)
{
  const op_gradients *formulas = formulas_of(d, n);

  for (uint32_t f = 0; f < formulas->n; f++)
    if (formula_is_used(d, n, &formulas->items[f]))
      put_formula(d, pos, n, &formulas->items[f], alone, all);
}

typedef struct state { /* of the gradients of a node's results */
  ir_value **unsure;
  uint32_t n_unsure, cap, n_sure;
} state;

static void look_at(const diff *d, state *st, const ir_value *v)
{
  const diff_value *of = diff_of(d, v);

  if (!of->grad)
    return;
  if (!of->is_unsure) {
    st->n_sure++;
    return;
  }
  GROW(d->s, st->unsure, st->n_unsure, st->cap, 4);
  st->unsure[st->n_unsure++] = of->grad;
}

static state look_at_results(const diff *d, const ir_node *n)
{
  state st = {0};

  for (uint32_t i = 0; i < n->n_outputs; i++) {
    const ir_node *u = type_is(n->outputs[i]->type, TYPE_LIST) ? unpacker(n->outputs[i]) : NULL;

    for (uint32_t k = 0; u && k < u->n_outputs; k++)
      look_at(d, &st, u->outputs[k]);
    if (!u)
      look_at(d, &st, n->outputs[i]);
  }
  return st;
}

/* Put a node's formulas into a block that runs if one of its gradients is defined. */
static void put_guarded(const diff *d, const ir_node *n, const state *st, parts *all)
{
  ir_node *ret = d->w->block->ret, *of = ir_node_new_named(d->s, d->w, str_of("prim::GradOf"));

  for (uint32_t i = 0; i < st->n_unsure; i++)
    ir_node_add_input(d->s, of, st->unsure[i]);
  ir_attr_set_string(d->s, of, "name", ir_node_kind_name(n));
  ir_node_insert_before(of, ret);
  ir_block *b = ir_node_add_block(d->s, of);
  put_formulas(d, b->ret, n, st->n_unsure == 1, all);
  for (uint32_t i = 0; i < all->n; i++) {
    ir_block_add_output(d->s, b, all->items[i].v);
    all->items[i].v = ir_node_add_output(d->s, of, type_simple(TYPE_TENSOR));
    all->items[i].is_unsure = true;
  }
}

static void reverse_node(const diff *d, const ir_node *n)
{
  const state st = look_at_results(d, n);
  parts all = {0};

  if (n->kind != IR_OP || !(st.n_sure || st.n_unsure))
    return;
  if (d->ran)
    d->ran[node_number(d, n)] = true;
  all.is_kept = !st.n_sure;
  if (st.n_sure)
    put_formulas(d, d->w->block->ret, n, false, &all);
  else
    put_guarded(d, n, &st, &all);
  for (uint32_t i = 0; i < all.n; i++)
    add(d, d->w->block->ret, all.items[i].to, all.items[i].v, all.items[i].is_unsure);
}

/* -- The whole --------------------------------------------------------------------------------- */

static void add_vjp(const diff *d, uint32_t output, ir_value *v)
{
  diff_indices *in = &d->out->input_vjps;
  if (!type_is(v->type, TYPE_TENSOR))
    session_fail_status(d->s, RUSH_EUNSUPPORTED, NULL, &v->node->range,
                        "differentiating a graph that returns a list of tensors");
  ir_value *grad = ir_block_add_input(d->s, d->w->block, grad_type(d, v), NULL);

  in->at[in->n++] = output;
  add(d, d->w->block->ret, diff_of(d, v), grad, !d->o.defined);
}

/* Make inputs of w for the gradients of the outputs, and of captured values of an earlier round. */
static void add_vjps(const diff *d)
{
  const uint32_t n = ir_block_n_outputs(d->w->block);

  d->out->input_vjps.at = session_array(d->s, uint32_t, n + d->n_values);
  for (uint32_t i = 0; i < n; i++)
    if (diff_of(d, ir_block_output(d->w->block, i))->requires && (!d->o.defined || d->o.defined[i]))
      add_vjp(d, i, ir_block_output(d->w->block, i));
  for (uint32_t i = 1; i < d->n_values; i++)
    if (d->vjps[i])
      add_vjp(d, n + i, d->values[i].v); /* capture.c: becomes an output of f */
}

/* Make inputs of w for what was added to gradients of inputs before. */
static void begin_sums(const diff *d)
{
  for (uint32_t i = 0; i < d->n_inputs && d->o.so_far; i++) {
    ir_value *in = ir_block_input(d->w->block, i);

    if (d->o.so_far[i] && diff_of(d, in)->requires)
      diff_of(d, in)->grad = ir_block_add_input(d->s, d->w->block, grad_type(d, in), NULL);
  }
}

void reverse_build(diff *d)
{
  add_vjps(d);
  begin_sums(d);
  for (const ir_node *n = d->last; n != d->w->block->ret; n = n->prev) {
    session_poll(d->s);
    reverse_node(d, n);
  }
}
