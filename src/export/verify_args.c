/* export/verify_args.c -- arguments of calls: those of operators against their schemas, those of
 * functions on symbolic numbers, and the graphs inside against the higher-order operators that call
 * them. */
#include "export/verify_int.h"
#include "ops/table/table.h"
#include "ops/table/tape.h"
#include "tensor/dtype.h"

/* -- Types ------------------------------------------------------------------------------------- */

static bool is_val(const fx_arg *a, fx_val_kind kind)
{
  const fx_val *v = verify_val_of(a);

  return v && (v->kind == kind);
}
/* A value that nothing is known of suits any type: that is a fault of its own. */
static bool is_unknown(const fx_arg *a)
{
  return a->kind == FX_NODE && (!a->as.node->val || a->as.node->val->kind == FX_VAL_CONSTANT);
}
static bool is_int_arg(const fx_arg *a) { return a->kind == FX_INT || is_val(a, FX_VAL_INT); }
static bool is_float_arg(const fx_arg *a) { return a->kind == FX_FLOAT || is_val(a, FX_VAL_FLOAT); }
static bool is_bool_arg(const fx_arg *a) { return a->kind == FX_BOOL || is_val(a, FX_VAL_BOOL); }
static bool is_number_arg(const fx_arg *a)
{
  return is_int_arg(a) || is_float_arg(a) || is_bool_arg(a) || a->kind == FX_COMPLEX;
}

static bool suits(session *s, const schema *sc, const schema_arg *arg, const type *t,
                  const fx_arg *a);

static bool suits_list(session *s, const schema *sc, const schema_arg *arg, const type *t,
                       const fx_arg *a)
{
  const type *item = t->elems[0];
  bool good = true;

  if (is_val(a, FX_VAL_LIST))
    return true;
  if (a->kind != FX_LIST && a->kind != FX_TUPLE)
    return arg->fixed_len > 0 && suits(s, sc, arg, item, a);
  session_enter(s);
  for (uint32_t i = 0; i < a->n && good; i++)
    good = suits(s, sc, arg, item, &a->as.items[i]);
  session_leave(s);
  return good;
}

/* True if the argument can be one of the type. */
static bool suits(session *s, const schema *sc, const schema_arg *arg, const type *t,
                  const fx_arg *a)
{
  if (is_unknown(a))
    return true;
  switch (t->kind) {
  case TYPE_OPTIONAL:
    return a->kind == FX_NONE || suits(s, sc, arg, t->elems[0], a);
  case TYPE_TENSOR:
    return is_val(a, FX_VAL_TENSOR) || (sc->takes_numbers && is_number_arg(a));
  case TYPE_INT:
  case TYPE_SYM_INT:
    return is_int_arg(a);
  case TYPE_FLOAT:
  case TYPE_SYM_FLOAT:
    return is_float_arg(a) || is_int_arg(a);
  case TYPE_BOOL:
  case TYPE_SYM_BOOL:
    return is_bool_arg(a);
  case TYPE_NUMBER:
  case TYPE_COMPLEX:
    return is_number_arg(a);
  case TYPE_STRING:
    return a->kind == FX_STRING;
  case TYPE_SCALAR_TYPE:
    return a->kind == FX_DTYPE;
  case TYPE_LAYOUT:
    return a->kind == FX_LAYOUT;
  case TYPE_MEMORY_FORMAT:
    return a->kind == FX_MEMORY_FORMAT;
  case TYPE_DEVICE:
    return a->kind == FX_DEVICE || a->kind == FX_STRING;
  case TYPE_LIST:
    return suits_list(s, sc, arg, t, a);
  case TYPE_CLASS:
    return a->kind == FX_OBJECT || is_val(a, FX_VAL_OBJECT);
  default:
    return true;
  }
}

/* -- Schemas ----------------------------------------------------------------------------------- */

static void check_argument(verifier *v, const fx_node *n, const schema *sc, uint32_t at,
                           const fx_arg *a)
{
  const schema_arg *arg = &sc->args[at];

  if (suits(v->s, sc, arg, arg->type, a))
    return;
  verify_fault(v, RULE_ARGUMENT_TYPE, n, "argument '%s' of %s: expected %s, found %s", arg->name,
               n->target, verify_type_text(v->s, arg->type), verify_arg_kind(a));
}

/* Check an argument that is given under a name, or that of the schema at its position. */
static void take_argument(verifier *v, const fx_node *n, const schema *sc, int at, str name,
                          const fx_arg *a, bool *given)
{
  if (at < 0) {
    verify_fault(v, RULE_ARGUMENT_NAME, n, "%s has no argument '%.*s'", n->target, (int)name.len,
                 name.p);
  } else if (given[at]) {
    verify_fault(v, RULE_ARGUMENT_NAME, n, "%s is given its argument '%s' twice", n->target,
                 sc->args[at].name);
  } else {
    given[at] = true;
    check_argument(v, n, sc, (uint32_t)at, a);
  }
}

void verify_arguments(verifier *v, const fx_node *n, const op *o)
{
  const schema *sc = o->schema;
  bool *given = session_array(v->s, bool, (size_t)sc->n_args + 1);

  for (uint32_t i = 0; i < n->n_args; i++) {
    if (i >= sc->n_args) {
      verify_fault(v, RULE_ARGUMENT_NAME, n, "expected at most %u arguments of %s, found %u",
                   sc->n_args, n->target, n->n_args);
      break;
    }
    if (sc->args[i].kwarg_only)
      verify_fault(v, RULE_ARGUMENT_POSITION, n,
                   "expected the argument '%s' of %s by name, found it by position",
                   sc->args[i].name, n->target);
    take_argument(v, n, sc, (int)i, (str){0}, &n->args[i], given);
  }
  for (uint32_t i = 0; i < n->n_kwargs; i++)
    take_argument(v, n, sc, schema_arg_index(sc, n->kwargs[i].name), n->kwargs[i].name,
                  &n->kwargs[i].arg, given);
  for (uint32_t i = 0; i < sc->n_args; i++)
    if (!given[i] && !sc->args[i].has_default)
      verify_fault(v, RULE_ARGUMENT_MISSING, n, "expected the argument '%s' of %s, found none",
                   sc->args[i].name, n->target);
}

void verify_promotion(verifier *v, const fx_node *n, const op *o)
{
  const op *base = o->base ? o->base : o;
  const fx_tensor *first = NULL;

  if (!base->row || base->row->point < 0)
    return;
  const struct point_row *row = &point_rows[base->row->point];
  for (uint32_t i = 0; i < row->n_inputs; i++) {
    const uint32_t at = row->inputs[i].arg;
    if (!(row->inputs[i].flags & INPUT_PROMOTES) || at >= n->n_args ||
        !is_val(&n->args[at], FX_VAL_TENSOR))
      continue;
    const fx_tensor *t = n->args[at].as.node->val->as.tensor;
    first = first ? first : t;
    if (t->dtype != first->dtype)
      verify_fault(v, RULE_PROMOTION, n, "expected tensors of one dtype, found %s and %s",
                   dtype_name(first->dtype), dtype_name(t->dtype));
  }
}

/* -- Functions on symbolic numbers ------------------------------------------------------------- */

void verify_symbolic(verifier *v, const fx_node *n, uint32_t wanted)
{
  if (!wanted)
    return;
  if (n->n_args != wanted || n->n_kwargs)
    verify_fault(v, RULE_SYMBOLIC_ARGUMENTS, n, "expected %u arguments of %s, found %u", wanted,
                 n->target, n->n_args + n->n_kwargs);
  for (uint32_t i = 0; i < n->n_args; i++)
    if (!is_number_arg(&n->args[i]) && !is_unknown(&n->args[i]))
      verify_fault(v, RULE_SYMBOLIC_ARGUMENTS, n,
                   "expected a number as argument %u of %s, found %s", i, n->target,
                   verify_arg_kind(&n->args[i]));
}

/* -- Higher-order operators -------------------------------------------------------------------- */

/* Return the graph that argument i is, or NULL, which is a fault if one is expected. */
static const fx_graph *graph_at(verifier *v, const fx_node *n, uint32_t i)
{
  const fx_arg *a = i < n->n_args ? &n->args[i] : NULL;
  const bool is_graph = a && a->kind == FX_NODE && a->as.node->op == FX_GET_ATTR;

  if (!is_graph)
    verify_fault(v, RULE_HOP_GRAPH, n, "expected a graph as argument %u of %s, found %s", i,
                 n->target, a ? verify_arg_kind(a) : "none");
  return is_graph ? table_get(&v->at->subgraphs, str_of(a->as.node->target)) : NULL;
}

static uint32_t n_inputs_of(const fx_graph *g)
{
  uint32_t n_inputs = 0;

  for (const fx_node *n = g->first; n && n->op == FX_PLACEHOLDER; n = n->next)
    n_inputs++;
  return n_inputs;
}

static verify_items outputs_of(const fx_graph *g)
{
  const fx_node *n = g->last;

  return n && n->op == FX_OUTPUT && n->n_args == 1 ? verify_items_of(&n->args[0])
                                                   : (verify_items){NULL, 0};
}

/* Return the number of items of arguments `from` to `to`, each a list; -1: not known. */
static int64_t n_items(const fx_node *n, uint32_t from, uint32_t to)
{
  int64_t sum = 0;

  for (uint32_t i = from; i < to && i < n->n_args; i++) {
    const fx_arg *a = &n->args[i];
    if (a->kind != FX_LIST && a->kind != FX_TUPLE)
      return -1;
    sum += a->n;
  }
  return sum;
}

static void check_operands(verifier *v, const fx_node *n, const fx_graph *g, const char *which,
                           int64_t n_given)
{
  if (g && n_given >= 0 && n_inputs_of(g) != n_given)
    verify_fault(v, RULE_HOP_OPERANDS, n,
                 "expected as many operands as the %s has inputs, %u, found %lld", which,
                 n_inputs_of(g), (long long)n_given);
}

/* Check the number of the node's results. */
static void check_results(verifier *v, const fx_node *n, int64_t wanted)
{
  const fx_val *val = n->val;
  const int64_t n_results = !val ? 0 : val->kind == FX_VAL_LIST ? val->n : 1;

  if (wanted >= 0 && n_results != wanted && (val || wanted != 1))
    verify_fault(v, RULE_HOP_RESULTS, n, "expected %lld results of %s, found %lld",
                 (long long)wanted, n->target, (long long)n_results);
}

/* True if two values can be one, of branches. */
static bool are_alike(const fx_arg *a, const fx_arg *b)
{
  const fx_val *va = verify_val_of(a), *vb = verify_val_of(b);

  if (!va || !vb)
    return a->kind == b->kind || (is_int_arg(a) && is_int_arg(b)) ||
           (is_float_arg(a) && is_float_arg(b)) || (is_bool_arg(a) && is_bool_arg(b));
  if (va->kind != vb->kind)
    return false;
  return va->kind != FX_VAL_TENSOR || (va->as.tensor->dtype == vb->as.tensor->dtype &&
                                       va->as.tensor->n_dims == vb->as.tensor->n_dims);
}

static void check_branches(verifier *v, const fx_node *n, const fx_graph *yes, const fx_graph *no)
{
  const verify_items a = outputs_of(yes), b = outputs_of(no);

  if (a.n != b.n)
    verify_fault(v, RULE_HOP_BRANCHES, n, "expected branches with as many results, found %u and %u",
                 a.n, b.n);
  for (uint32_t i = 0; i < a.n && a.n == b.n; i++)
    if (!are_alike(&a.items[i], &b.items[i]))
      verify_fault(v, RULE_HOP_BRANCHES, n,
                   "expected result %u of both branches to be of one kind, dtype and number of "
                   "dimensions, found %s and %s",
                   i, verify_arg_kind(&a.items[i]), verify_arg_kind(&b.items[i]));
}

static void check_cond(verifier *v, const fx_node *n)
{
  const fx_graph *yes = graph_at(v, n, 1), *no = graph_at(v, n, 2);
  const int64_t n_given = n_items(n, 3, 4);

  check_operands(v, n, yes, "first branch", n_given);
  check_operands(v, n, no, "second branch", n_given);
  if (yes && no)
    check_branches(v, n, yes, no);
  if (yes)
    check_results(v, n, outputs_of(yes).n);
}

static void check_while(verifier *v, const fx_node *n)
{
  const fx_graph *condition = graph_at(v, n, 0), *body = graph_at(v, n, 1);
  const int64_t n_carried = n_items(n, 2, 3), n_given = n_items(n, 2, 4);

  check_operands(v, n, condition, "condition", n_given);
  check_operands(v, n, body, "body", n_given);
  if (condition && outputs_of(condition).n != 1)
    verify_fault(v, RULE_HOP_RESULTS, n, "expected one result of the condition, found %u",
                 outputs_of(condition).n);
  if (body && n_carried >= 0 && outputs_of(body).n != n_carried)
    verify_fault(v, RULE_HOP_RESULTS, n, "expected %lld results of the body, found %u",
                 (long long)n_carried, outputs_of(body).n);
  check_results(v, n, n_carried);
}

/* scan(f, start, over, more), map_impl(f, over, more), associative_scan(f, over, more): f is given
 * `times` times the items of argument 1, and those of the others. */
static void check_scan(verifier *v, const fx_node *n, int64_t times)
{
  const fx_graph *g = graph_at(v, n, 0);
  const int64_t n_first = n_items(n, 1, 2), n_others = n_items(n, 2, 4);

  if (!g)
    return;
  if (n_first >= 0 && n_others >= 0)
    check_operands(v, n, g, "function", times * n_first + n_others);
  check_results(v, n, outputs_of(g).n);
}

/* True if a result that is described so can be what the graph returns there. */
static bool can_return(const fx_val *val, const fx_arg *output, bool any_dtype)
{
  if (output->kind != FX_NODE)
    return !val || val->kind != FX_VAL_TENSOR;
  return verify_vals_agree(val, output->as.node->val, any_dtype);
}

/* Check that operands and results are described as the graph's inputs and outputs are, which take
 * their place when the graph is put into the one around it.  Inside of autocast a dtype is what
 * the operator has without it, in decomposed programs. */
static void check_described(verifier *v, const fx_node *n, const fx_graph *g, uint32_t at)
{
  const verify_items outputs = outputs_of(g);
  const bool any_dtype = v->is_autocast || strstr(n->target, "autocast");
  uint32_t i = at + 1;

  for (const fx_node *p = g->first; p && p->op == FX_PLACEHOLDER && i < n->n_args;
       p = p->next, i++)
    if (!verify_vals_agree(verify_val_of(&n->args[i]), p->val, any_dtype))
      verify_fault(v, RULE_HOP_OPERANDS, n,
                   "expected operand %u of %s to be described as its graph's input '%s'", i,
                   n->target, p->name);
  for (i = 0; n->val && n->val->kind == FX_VAL_LIST && i < n->val->n && i < outputs.n; i++)
    if (!can_return(n->val->as.items[i], &outputs.items[i], any_dtype))
      verify_fault(v, RULE_HOP_RESULTS, n,
                   "expected result %u of %s to be described as its graph's output", i, n->target);
}

/* Operators that run one graph: the arguments behind it are its operands. */
static void check_wrapper(verifier *v, const fx_node *n, uint32_t at)
{
  const fx_graph *g = graph_at(v, n, at);

  if (!g)
    return;
  check_described(v, n, g, at);
  check_operands(v, n, g, "graph", (int64_t)n->n_args - at - 1);
  check_results(v, n, outputs_of(g).n);
}

static void check_autocast(verifier *v, const fx_node *n)
{
  const fx_node *graph = n->n_args > 4 && n->args[4].kind == FX_NODE ? n->args[4].as.node : NULL;

  check_wrapper(v, n, 4);
  if (graph && graph->op == FX_GET_ATTR)
    session_table_put(v->s, &v->at->autocast, str_of(graph->target), v->at);
}

static void check_effects(verifier *v, const fx_node *n)
{
  const bool has_token = n->n_args > 0 && n->args[0].kind == FX_NODE;
  const bool has_operator = n->n_args > 1 && n->args[1].kind == FX_OPERATOR;

  if (!has_token || !has_operator)
    verify_fault(v, RULE_TOKEN, n, "expected a token and an operator, found %s and %s",
                 n->n_args > 0 ? verify_arg_kind(&n->args[0]) : "nothing",
                 n->n_args > 1 ? verify_arg_kind(&n->args[1]) : "nothing");
}

void verify_higher_order(verifier *v, const fx_node *n)
{
  const char *name = n->target + sizeof "torch.ops.higher_order." - 1;

  if (strcmp(name, "cond") == 0)
    check_cond(v, n);
  else if (strcmp(name, "while_loop") == 0)
    check_while(v, n);
  else if (strcmp(name, "map_impl") == 0 || strcmp(name, "scan") == 0)
    check_scan(v, n, 1);
  else if (strcmp(name, "associative_scan") == 0)
    check_scan(v, n, 2);
  else if (strcmp(name, "wrap_with_set_grad_enabled") == 0)
    check_wrapper(v, n, 1);
  else if (strcmp(name, "wrap_with_autocast") == 0)
    check_autocast(v, n);
  else if (strcmp(name, "with_effects") == 0)
    check_effects(v, n);
}
