/* export/capture_scalar.c -- symbolic floats and bools of a program that is being captured, and
 * assertions.
 *
 * A float that is made of sizes is a tree (shape/expression.h), a node that computes it, and what
 * it is in the example, with bounds by interval arithmetic.  An int that is made of such a float is
 * a symbol of the algebra of sizes whose tree is not a symbol: TruncToInt(0.5*s77).  What the
 * program decides by a float or by such a bool is a guard that is kept as a tree.  A number that
 * depends on data has no hint, and cannot decide. */
#include "export/capture_int.h"

#include <math.h>

#include "base/grow.h"
#include "ops/table/op_keys.h"

typedef struct scalar_op {
  uint32_t name;
  uint32_t n_args;
  const char *target;   /* of the node */
  expression_kind kind; /* of the tree */
  fx_val_kind result;
} scalar_op;

static const scalar_op scalar_ops[] = {
  {OPN_ADD, 2, "_operator.add", EXPRESSION_ADD, FX_VAL_FLOAT},
  {OPN_SUB, 2, "_operator.sub", EXPRESSION_ADD, FX_VAL_FLOAT},
  {OPN_MUL, 2, "_operator.mul", EXPRESSION_MUL, FX_VAL_FLOAT},
  {OPN_DIV, 2, "_operator.truediv", EXPRESSION_FLOAT_TRUE_DIV, FX_VAL_FLOAT},
  {OPN_POW, 2, "_operator.pow", EXPRESSION_FLOAT_POW, FX_VAL_FLOAT},
  {OPN_PRIM__MIN, 2, "torch.sym_min", EXPRESSION_MIN, FX_VAL_FLOAT},
  {OPN_PRIM__MAX, 2, "torch.sym_max", EXPRESSION_MAX, FX_VAL_FLOAT},
  {OPN_NEG, 1, "_operator.neg", EXPRESSION_MUL, FX_VAL_FLOAT},
  {OPN_FLOAT, 1, "torch.sym_float", EXPRESSION_TO_FLOAT, FX_VAL_FLOAT},
  {OPN_FLOATIMPLICIT, 1, "torch.sym_float", EXPRESSION_TO_FLOAT, FX_VAL_FLOAT},
  {OPN_SQRT, 1, "torch._sym_sqrt", EXPRESSION_SQRT, FX_VAL_FLOAT},
  {OPN_INT, 1, "math.trunc", EXPRESSION_TRUNC_TO_INT, FX_VAL_INT},
  {OPN_FLOOR, 1, "math.floor", EXPRESSION_FLOOR_TO_INT, FX_VAL_INT},
  {OPN_CEIL, 1, "math.ceil", EXPRESSION_CEIL_TO_INT, FX_VAL_INT},
  {OPN_EQ, 2, "_operator.eq", EXPRESSION_EQ, FX_VAL_BOOL},
  {OPN_NE, 2, "_operator.ne", EXPRESSION_NE, FX_VAL_BOOL},
  {OPN_LT, 2, "_operator.lt", EXPRESSION_LT, FX_VAL_BOOL},
  {OPN_LE, 2, "_operator.le", EXPRESSION_LE, FX_VAL_BOOL},
  {OPN_GT, 2, "_operator.gt", EXPRESSION_GT, FX_VAL_BOOL},
  {OPN_GE, 2, "_operator.ge", EXPRESSION_GE, FX_VAL_BOOL},
};

/* -- Operands ---------------------------------------------------------------------------------- */

typedef struct operand {
  const expression *expr;
  rush_value plain; /* what it is now, if has_hint */
  fx_arg arg;
  double lo, hi;
  bool has_hint, is_int;
} operand;

static operand known_operand(capture *c, rush_value v)
{
  const bool is_int = v.tag == RUSH_TAG_INT;
  const double d = is_int ? (double)v.as.i : v.as.d;

  return (operand){.expr = is_int ? expression_integer(c->s, c->mem, v.as.i)
                                  : expression_float(c->s, c->mem, d),
                   .plain = v,
                   .arg = is_int ? fx_arg_int(v.as.i) : (fx_arg){.kind = FX_FLOAT, .as.f = d},
                   .lo = d,
                   .hi = d,
                   .has_hint = true,
                   .is_int = is_int};
}

static operand int_operand(capture *c, rush_value v)
{
  const symint e = capture_symint(v, c->env);
  int64_t hint = 0, lo, hi;

  sym_range(c->env, e, &lo, &hi);
  const bool has_hint = sym_hint(e, &hint);
  return (operand){.expr = capture_expression(c, e),
                   .plain = value_int(hint),
                   .arg = capture_number_arg(c, v),
                   .lo = lo == SYM_NEG_INF ? -INFINITY : (double)lo,
                   .hi = hi == SYM_INF ? INFINITY : (double)hi,
                   .has_hint = has_hint,
                   .is_int = true};
}

static operand read_operand(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  if (!n)
    return known_operand(c, v);
  if (n->kind == FX_VAL_INT)
    return int_operand(c, v);
  return (operand){.expr = n->expr,
                   .plain = value_float(n->hint),
                   .arg = capture_number_arg(c, v),
                   .lo = n->lo,
                   .hi = n->hi,
                   .has_hint = n->has_hint};
}

/* -- Bounds ------------------------------------------------------------------------------------ */

static void all_reals(capture_number *n)
{
  n->lo = -INFINITY;
  n->hi = INFINITY;
}

/* Bounds of a product, or of a quotient by what is never 0. */
static void of_corners(capture_number *n, const operand *a, const operand *b, bool is_quotient)
{
  const double x[] = {a->lo, a->hi}, y[] = {b->lo, b->hi};

  n->lo = INFINITY;
  n->hi = -INFINITY;
  for (int i = 0; i < 4; i++) {
    const double v = is_quotient ? x[i / 2] / y[i % 2] : x[i / 2] * y[i % 2];
    if (isnan(v)) {
      all_reals(n);
      return;
    }
    n->lo = fmin(n->lo, v);
    n->hi = fmax(n->hi, v);
  }
}

static void set_bounds(capture_number *n, const scalar_op *o, const operand *x)
{
  const double lo = x[0].lo, hi = x[0].hi;

  all_reals(n);
  switch (o->name) {
  case OPN_ADD:
    n->lo = lo + x[1].lo;
    n->hi = hi + x[1].hi;
    break;
  case OPN_SUB:
    n->lo = lo - x[1].hi;
    n->hi = hi - x[1].lo;
    break;
  case OPN_MUL:
    of_corners(n, &x[0], &x[1], false);
    break;
  case OPN_DIV:
    if (x[1].lo > 0 || x[1].hi < 0)
      of_corners(n, &x[0], &x[1], true);
    break;
  case OPN_FLOAT: case OPN_FLOATIMPLICIT:
    n->lo = lo;
    n->hi = hi;
    break;
  case OPN_SQRT:
    n->lo = lo > 0 ? sqrt(lo) : 0;
    n->hi = hi > 0 ? sqrt(hi) : INFINITY;
    break;
  case OPN_INT:
    n->lo = trunc(lo);
    n->hi = trunc(hi);
    break;
  case OPN_FLOOR:
    n->lo = floor(lo);
    n->hi = floor(hi);
    break;
  case OPN_CEIL:
    n->lo = ceil(lo);
    n->hi = ceil(hi);
    break;
  default:
    break;
  }
}

/* -- One operator ------------------------------------------------------------------------------ */

static const expression *negative(capture *c, const expression *e)
{
  const expression *const parts[] = {expression_integer(c->s, c->mem, -1), e};

  return expression_call(c->s, c->mem, EXPRESSION_MUL, 2, parts);
}

static const expression *tree_of(capture *c, const scalar_op *o, const operand *x)
{
  const expression *args[2] = {x[0].expr, o->n_args > 1 ? x[1].expr : NULL};

  if (o->name == OPN_NEG)
    return negative(c, args[0]);
  if (o->name == OPN_SUB)
    args[1] = negative(c, args[1]);
  const expression_kind kind = o->name == OPN_DIV && x[0].is_int && x[1].is_int
                                 ? EXPRESSION_INT_TRUE_DIV
                                 : o->kind;
  return expression_call(c->s, c->mem, kind, o->n_args, args);
}

static void set_val(capture *c, fx_node *n, const capture_number *made)
{
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);

  *number = (fx_number){.expr = made->expr, .has_value = made->has_hint};
  if (made->kind == FX_VAL_INT)
    number->value.i = (int64_t)made->hint;
  else if (made->kind == FX_VAL_BOOL)
    number->value.b = made->hint != 0;
  else
    number->value.f = made->hint;
  *v = (fx_val){.kind = made->kind, .as.number = number};
  n->val = v;
  if (made->joins)
    capture_describe_bool(c, number, made);
}

/* Convert a symbolic int to a float where the other operand is one, as torch does. */
static rush_value as_float(capture *c, rush_value v);

static rush_value compute_scalar(capture *c, const op *o, const scalar_op *s,
                                 const rush_value *args)
{
  const operand x[2] = {read_operand(c, args[0]),
                        s->n_args > 1 ? read_operand(c, args[1]) : (operand){.has_hint = true}};
  capture_number made = {.kind = s->result, .has_hint = x[0].has_hint && x[1].has_hint};
  const rush_value plain[] = {x[0].plain, x[1].plain};
  const fx_arg nodes[] = {x[0].arg, x[1].arg};
  rush_value now = value_float(0);

  if (made.has_hint && o)
    session_check(c->s, op_invoke(c->s->cx, o, plain, s->n_args, &now, 1));
  else if (made.has_hint)
    now = value_float((double)x[0].plain.as.i); /* as_float */
  made.hint = now.tag == RUSH_TAG_INT ? (double)now.as.i : now.tag == RUSH_TAG_BOOL ? now.as.b
                                                                                  : now.as.d;
  made.expr = tree_of(c, s, x);
  set_bounds(&made, s, x);
  made.node = capture_node(c, s->target, nodes, s->n_args);
  set_val(c, made.node, &made);
  return made.kind == FX_VAL_INT ? capture_opaque_int(c, &made, made.node)
                                 : capture_number_new(c, &made);
}

static const scalar_op *scalar_of(uint32_t name)
{
  for (size_t i = 0; i < COUNT_OF(scalar_ops); i++)
    if (scalar_ops[i].name == name)
      return &scalar_ops[i];
  return NULL;
}

static rush_value as_float(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  if (!n && v.tag == RUSH_TAG_INT)
    return value_float((double)v.as.i);
  return n && n->kind == FX_VAL_INT ? compute_scalar(c, NULL, scalar_of(OPN_FLOAT), &v) : v;
}

uint32_t capture_opposite(uint32_t relation)
{
  static const uint32_t opposites[][2] = {
    {OPN_EQ, OPN_NE}, {OPN_NE, OPN_EQ}, {OPN_LT, OPN_GE},
    {OPN_GE, OPN_LT}, {OPN_GT, OPN_LE}, {OPN_LE, OPN_GT}};

  for (size_t i = 0; i < COUNT_OF(opposites); i++)
    if (opposites[i][0] == relation)
      return opposites[i][1];
  return 0;
}

rush_value capture_not(capture *c, rush_value v)
{
  capture_number n = *capture_number_of(v);

  if (n.relation) {
    fx_node *of = n.node && n.node->graph == c->g ? n.node : NULL;
    const fx_arg node = fx_arg_node(of);
    n.relation = capture_opposite(n.relation);
    n.node = of ? capture_node(c, "torch.sym_not", &node, 1) : NULL;
    if (of)
      capture_describe_relation(c, n.node, &n);
    return capture_number_new(c, &n);
  }
  const fx_arg arg = capture_number_arg(c, v);
  n.parts = memcpy(session_array(c->s, rush_value, 1), &v, sizeof v);
  n.joins = '!';
  n.expr = expression_call(c->s, c->mem, EXPRESSION_NOT, 1, &n.expr);
  n.hint = n.hint == 0;
  n.node = capture_node(c, "torch.sym_not", &arg, 1);
  set_val(c, n.node, &n);
  return capture_number_new(c, &n);
}

const expression *capture_bool_tree(capture *c, const capture_number *n)
{
  const uint32_t n_parts = n->joins == '!' ? 1 : n->joins ? 2 : 0;
  const expression *parts[2];

  if (n->relation || !n_parts)
    return n->relation ? capture_relation_tree(c, n) : n->expr;
  session_enter(c->s);
  for (uint32_t i = 0; i < n_parts; i++)
    parts[i] = capture_bool_tree(c, capture_number_of(n->parts[i]));
  session_leave(c->s);
  return expression_call(c->s, c->mem,
                         n->joins == '!'   ? EXPRESSION_NOT
                         : n->joins == '&' ? EXPRESSION_AND
                                           : EXPRESSION_OR,
                         n_parts, parts);
}

/* Compute `and` or `or` of two bools of which one is symbolic; returns false if they are none. */
static bool join_bools(capture *c, bool is_and, const rush_value *args, rush_value *result)
{
  const capture_number *x = capture_number_of(args[0]), *y = capture_number_of(args[1]);

  if ((x ? x->kind != FX_VAL_BOOL : args[0].tag != RUSH_TAG_BOOL) ||
      (y ? y->kind != FX_VAL_BOOL : args[1].tag != RUSH_TAG_BOOL) || (!x && !y))
    return false;
  if (!x || !y) {
    const bool known = args[x ? 1 : 0].as.b;
    *result = known == is_and ? args[x ? 0 : 1] : value_bool(known);
    return true;
  }
  const expression *const sides[] = {capture_bool_tree(c, x), capture_bool_tree(c, y)};
  const fx_arg nodes[] = {capture_number_arg(c, args[0]), capture_number_arg(c, args[1])};
  capture_number n = {.kind = FX_VAL_BOOL, .joins = is_and ? '&' : '|'};
  n.parts = memcpy(session_array(c->s, rush_value, 2), args, 2 * sizeof *args);
  n.expr = expression_call(c->s, c->mem, is_and ? EXPRESSION_AND : EXPRESSION_OR, 2, sides);
  n.node = capture_node(c, is_and ? "_operator.and_" : "_operator.or_", nodes, 2);
  set_val(c, n.node, &n);
  *result = capture_number_new(c, &n);
  return true;
}

static bool is_numeric(rush_value v)
{
  const capture_number *n = capture_number_of(v);

  return v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT || (n && n->kind != FX_VAL_BOOL);
}

bool capture_scalar(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  const scalar_op *s = scalar_of(o->name_key);
  const schema *sc = o->schema;
  rush_value own[2];

  if (o->name_key == OPN___NOT__ && capture_number_of(args[0])) {
    *result = capture_not(c, args[0]);
    return true;
  }
  if (o->name_key == OPN___AND__ || o->name_key == OPN___OR__)
    return sc->n_args == 2 && join_bools(c, o->name_key == OPN___AND__, args, result);
  if (!s || sc->n_returns != 1 || sc->n_args != s->n_args || !is_numeric(args[0]) ||
      (s->n_args > 1 && !is_numeric(args[1])))
    return false;
  const bool are_ints = capture_is_int(args[0]) && (s->n_args == 1 || capture_is_int(args[1]));
  if (are_ints && s->name != OPN_DIV && s->name != OPN_FLOAT && s->name != OPN_SQRT)
    return false; /* the algebra of ints */
  const capture_number *of = capture_number_of(args[0]);
  const symint itself = s->result == FX_VAL_INT && of && of->kind == FX_VAL_FLOAT && of->expr
                          ? capture_int_of(c, of->expr)
                          : NULL;
  if (itself) { /* int(n / 1) */
    *result = capture_int(c, itself);
    return true;
  }
  for (uint32_t i = 0; i < s->n_args; i++)
    own[i] = s->n_args == 2 && !are_ints ? as_float(c, args[i]) : args[i];
  const bool is_kept = s->name == OPN_DIV || s->n_args == 1;
  const op *same = is_kept || !are_ints ? o : NULL;
  *result = compute_scalar(c, same, s, own);
  return true;
}

/* -- Assertions -------------------------------------------------------------------------------- */

/* Add a check of the condition when the program runs. */
static void add_check(capture *c, rush_value condition)
{
  const fx_arg node = capture_number_arg(c, condition);
  const capture_number *n = capture_number_of(condition);
  text_buf *text = session_text(c->s);

  text_puts(text, "Runtime assertion failed for expression ");
  expression_print(c->s, text, n->relation ? node.as.node->val->as.number->expr : n->expr);
  text_printf(text, " on node '%s'", node.as.node->name);
  const char *message = capture_text(c, session_take_text(c->s, text));
  const fx_arg args[] = {
    node, {.kind = FX_STRING, .n = (uint32_t)strlen(message), .as.text = message}};
  fx_node *made = capture_named_node(c, "torch.ops.aten._assert_scalar.default",
                                     "_assert_scalar_default", args, 2);
  made->returns_none = true;
}

void capture_check(capture *c, rush_value condition)
{
  const capture_number *n = capture_number_of(condition);

  if (capture_is_live(c) && !c->branch && !c->is_scratch)
    capture_defer(c, capture_canonical(c, n));
  else
    add_check(c, condition);
  if (n->relation && !sym_require(c->env, capture_condition(c, n)))
    capture_fail(c, "an assertion never holds");
}

void capture_check_range(capture *c, symint e)
{
  const sym_atom *a = e->terms[0].atoms[0];
  capture_number n = {.kind = FX_VAL_BOOL, .relation = OPN_GE, .a = e};

  if (capture_is_live(c) && !c->branch) /* capture_place_checks does */
    return;
  if (a->lo != SYM_NEG_INF) {
    n.b = sym_const(c->env, a->lo);
    add_check(c, capture_number_new(c, &n));
  }
  if (a->hi != SYM_INF) {
    n.relation = OPN_LE;
    n.b = sym_const(c->env, a->hi);
    add_check(c, capture_number_new(c, &n));
  }
}

/* Report a decision on data, which the program checks instead. */
static void report_decision(capture *c, const capture_number *n)
{
  text_buf *text = session_text(c->s);

  expression_print(c->s, text, n->relation ? capture_relation_tree(c, n) : n->expr);
  text_printf(c->options->report, "data_dependent_error\t%s\x1e", text_str(text));
}

void capture_assert(capture *c, rush_value condition, rush_value text)
{
  const bool is_decision = text.tag != RUSH_TAG_STRING || !text.as.string->len;
  const capture_number *n = capture_number_of(condition);

  if (n && !capture_can_decide(c, n) && (!is_decision || c->options->report)) {
    if (is_decision)
      report_decision(c, n);
    capture_check(c, condition);
    return;
  }
  if (n)
    condition = capture_fix_number(c, condition);
  if (condition.tag == RUSH_TAG_BOOL && !condition.as.b)
    session_fail_status(c->s, RUSH_ERAISED, NULL, NULL, "%s",
                        is_decision ? "a condition that the code decided by cannot hold for the "
                                      "sizes in range"
                                    : text.as.string->text);
}

static void constrain(capture *c, uint32_t relation, rush_value v, int64_t bound)
{
  const capture_number n = {.kind = FX_VAL_BOOL,
                            .relation = relation,
                            .a = capture_symint(v, c->env),
                            .b = sym_const(c->env, bound)};
  if (sym_known(c->env, capture_condition(c, &n)) == 1)
    return;
  if (capture_can_decide(c, &n))
    capture_assert(c, capture_number_new(c, &n), value_none());
  else if (c->branch)
    capture_check(c, capture_number_new(c, &n));
  else if (!sym_require(c->env, capture_condition(c, &n))) /* checked behind the number */
    capture_fail(c, "the range of a number is empty");
}

void capture_constrain(capture *c, rush_value v, rush_value least, rush_value most)
{
  if (!capture_is_int(v) || least.tag != RUSH_TAG_INT || most.tag != RUSH_TAG_INT)
    capture_fail(c, "a range is stated of what is no int");
  if (least.as.i != INT64_MIN)
    constrain(c, OPN_GE, v, least.as.i);
  if (most.as.i != INT64_MAX)
    constrain(c, OPN_LE, v, most.as.i);
}

/* Return the condition that a bool is what it is in the example, without a node. */
static rush_value as_decided(capture *c, const capture_number *n, rush_value v, bool is_true)
{
  capture_number other = *n;

  if (is_true || !n->relation)
    return is_true ? v : capture_not(c, v);
  other.relation = capture_opposite(n->relation);
  other.node = NULL;
  return capture_number_new(c, &other);
}

void capture_decided(capture *c, rush_value v, rush_value number)
{
  const capture_number *n = capture_number_of(v);

  if (!n || (n->kind == FX_VAL_FLOAT && number.tag == RUSH_TAG_FLOAT)) {
    (void)capture_fix(c, v);
    return;
  }
  if (n->kind == FX_VAL_INT && number.tag == RUSH_TAG_INT)
    v = capture_number_new(c, &(capture_number){.kind = FX_VAL_BOOL,
                                                .relation = OPN_EQ,
                                                .a = capture_symint(v, c->env),
                                                .b = sym_const(c->env, number.as.i)});
  else if (n->kind == FX_VAL_BOOL && number.tag == RUSH_TAG_BOOL)
    v = as_decided(c, n, v, number.as.b);
  else
    capture_fail(c, "a number that the code took as it is, is of another kind");
  capture_assert(c, v, value_none());
}
