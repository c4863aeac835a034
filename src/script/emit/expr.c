/* script/emit/expr.c -- compiles expressions: names, attributes and operators, and dispatches to
 * the files for literals, calls and subscripts. The result is a `sugared` value, which may exist
 * only at compile time; em_expr requires a real one. Operators become the aten operator of the
 * operands' types or a class's magic method, as PyTorch chooses. */
#include <string.h>

#include "script/emit/emit_int.h"

/* Python's operators: PyTorch's operators of `a OP b` and of `a OP= b` for tensors and lists (some
 * of which are not in place), and the magic method of classes. */
typedef struct operator_row {
  const char *op, *magic, *augmented;
} operator_row;

static const operator_row operators[] = {
  [OP_ADD] = {"aten::add", "__add__", "aten::add_"},
  [OP_SUB] = {"aten::sub", "__sub__", "aten::sub_"},
  [OP_MUL] = {"aten::mul", "__mul__", "aten::mul_"},
  [OP_DIV] = {"aten::div", "__truediv__", "aten::div_"},
  [OP_FLOORDIV] = {"aten::floordiv", NULL, "aten::floor_divide_"},
  [OP_MOD] = {"aten::remainder", "__mod__", "aten::fmod_"},
  [OP_POW] = {"aten::pow", "__pow__", "aten::pow"},
  [OP_MATMUL] = {"aten::matmul", NULL, "aten::matmul"},
  [OP_BITAND] = {"aten::__and__", "__and__", "aten::bitwise_and"},
  [OP_BITOR] = {"aten::__or__", "__or__", "aten::bitwise_or"},
  [OP_XOR] = {"aten::__xor__", "__xor__", "aten::bitwise_xor"},
  [OP_LSHIFT] = {"aten::__lshift__", "__lshift__", "aten::__ilshift__"},
  [OP_RSHIFT] = {"aten::__rshift__", "__rshift__", "aten::__irshift__"},
  [OP_LT] = {"aten::lt", "__lt__", NULL},
  [OP_LE] = {"aten::le", "__le__", NULL},
  [OP_GT] = {"aten::gt", "__gt__", NULL},
  [OP_GE] = {"aten::ge", "__ge__", NULL},
  [OP_EQ] = {"aten::eq", "__eq__", NULL},
  [OP_NE] = {"aten::ne", "__ne__", NULL},
  [OP_IS] = {"aten::__is__", NULL, NULL},
  [OP_IS_NOT] = {"aten::__isnot__", NULL, NULL},
  [OP_IN] = {"aten::__contains__", "__contains__", NULL},
  [OP_NEG] = {"aten::neg", "__neg__", NULL},
  [OP_INVERT] = {"aten::bitwise_not", "__invert__", NULL},
};

const char *em_binary_op_name(ast_op op, const char **magic)
{
  *magic = operators[op].magic;
  return operators[op].op;
}

const char *em_augmented_op_name(ast_op op) { return operators[op].augmented; }

/* -- Operators --------------------------------------------------------------------------------- */

static ir_value *compare2(emitter *e, ast_op op, ir_value *a, ir_value *b)
{
  bool contains = op == OP_IN || op == OP_NOT_IN;
  if (contains && a->type->kind == TYPE_STRING && b->type->kind == TYPE_STRING) {
    ir_value *found[2] = {em_call_op(e, "aten::find", (ir_value *[2]){b, a}, 2),
                          em_constant_int(e, -1)};
    return em_call_op(e, op == OP_IN ? "aten::ne" : "aten::eq", found, 2);
  }
  ir_value *in[2] = {contains ? b : a, contains ? a : b};
  const operator_row *row = &operators[op == OP_NOT_IN ? OP_IN : op];
  ir_value *v = em_call_magic(e, row->magic, row->op, in, 2);
  return op == OP_NOT_IN ? em_call_op(e, "aten::__not__", &v, 1) : v;
}

static ir_value *join_tuples(emitter *e, ir_value *a, ir_value *b)
{
  uint32_t n = a->type->n_elems;
  ir_value **items = session_array(e->s, ir_value *, n + b->type->n_elems);
  em_unpack_tuple(e, a, items);
  em_unpack_tuple(e, b, items + n);
  return em_make_tuple(e, items, n + b->type->n_elems, NULL);
}

/* Compile `1. - 2.j` as one number. */
static ir_value *complex_literal(emitter *e, ast_op op, ir_value *const *in)
{
  rush_value re, im;
  if ((op != OP_ADD && op != OP_SUB) || !ir_value_as_constant(in[0], &re) ||
      !ir_value_as_constant(in[1], &im) || (re.tag != RUSH_TAG_FLOAT && re.tag != RUSH_TAG_INT) ||
      im.tag != RUSH_TAG_COMPLEX)
    return NULL;
  const complex_box *z = value_complex(im);
  double sign = op == OP_ADD ? 1 : -1;
  ir_value *v = em_constant_complex(e, sign * z->im);
  value_complex(ir_constant_value(v->node))->re =
    (re.tag == RUSH_TAG_INT ? (double)re.as.i : re.as.d) + sign * z->re;
  return v;
}

static ir_value *emit_binary(emitter *e, const ast_expr *x)
{
  ir_value *in[2] = {em_expr(e, x->as.pair.left, NULL), em_expr(e, x->as.pair.right, NULL)};
  e->at = x->at;
  ir_value *number = complex_literal(e, x->op, in);
  if (number)
    return number;
  if (x->op == OP_ADD && in[0]->type->kind == TYPE_TUPLE && in[1]->type->kind == TYPE_TUPLE)
    return join_tuples(e, in[0], in[1]);
  if (x->op == OP_MOD && in[0]->type->kind == TYPE_STRING)
    return em_call_op(e, "aten::percentFormat", in, 2);
  return em_call_magic(e, operators[x->op].magic, operators[x->op].op, in, 2);
}

static ir_value *emit_unary(emitter *e, const ast_expr *x)
{
  if (x->op == OP_NOT) {
    condition c = em_cond(e, x);
    return em_cond_value(e, &c);
  }
  ir_value *v = em_expr(e, x->as.pair.left, NULL);
  if (x->op == OP_POS)
    FAIL(e, "unsupported unary operator: +");
  e->at = x->at;
  rush_value c;
  if (x->op == OP_NEG && ir_value_as_constant(v, &c) && c.tag == RUSH_TAG_FLOAT) /* -inf */
    return em_constant_value(e, value_float(-c.as.d), type_simple(TYPE_FLOAT));
  return em_call_magic(e, operators[x->op].magic, operators[x->op].op, &v, 1);
}

static ir_value *emit_compare(emitter *e, const ast_expr *x)
{
  ast_op op = x->as.compare.ops[0];
  if (x->as.compare.operands.n > 2 || op == OP_IS || op == OP_IS_NOT) {
    condition c = em_cond(e, x);
    return em_cond_value(e, &c);
  }
  ir_value *a = em_expr(e, x->as.compare.operands.items[0], NULL);
  ir_value *b = em_expr(e, x->as.compare.operands.items[1], NULL);
  e->at = x->at;
  return compare2(e, op, a, b);
}

/* -- Dispatch ---------------------------------------------------------------------------------- */

static _Noreturn void refuse_expr(emitter *e, const ast_expr *x)
{
  static const struct { expr_kind kind; const char *name;
  } nodes[] = {
    {EXPR_LAMBDA, "Lambda"},
    {EXPR_WALRUS, "NamedExpr"},
    {EXPR_AWAIT, "Await"},
    {EXPR_YIELD, "Yield"},
    {EXPR_SET, "Set"},
    {EXPR_SET_COMP, "SetComp"},
    {EXPR_SLICE, "Slice"},
    {EXPR_GENERATOR, "GeneratorExp"},
    {EXPR_YIELD_FROM, "YieldFrom"},
  };
  for (size_t i = 0; i < COUNT_OF(nodes); i++)
    if (nodes[i].kind == x->kind)
      REFUSE(e, &x->at, UNSUPPORTED_NODE, "%s aren't supported", nodes[i].name);
  if (x->kind == EXPR_BYTES)
    REFUSE(e, &x->at, "FrontendError", "Unknown Constant expression type");
  if (x->kind == EXPR_ELLIPSIS)
    session_fail(e->s, &x->at, "Cannot emit expr for: (dots)");
  session_fail(e->s, &x->at, "%s: not supported in TorchScript",
               x->kind == EXPR_STARRED ? "starred expressions here" : "this expression");
}

static ir_value *emit_plain(emitter *e, const ast_expr *x, const type *hint)
{
  condition c;
  switch (x->kind) {
  case EXPR_UNARY:
    return emit_unary(e, x);
  case EXPR_BINARY:
    return emit_binary(e, x);
  case EXPR_COMPARE:
    return emit_compare(e, x);
  case EXPR_BOOL:
    c = em_cond(e, x);
    return em_cond_value(e, &c);
  case EXPR_TERNARY:
    return em_ternary(e, x, hint);
  case EXPR_LIST_COMP: case EXPR_GENERATOR:
    return em_list_comp(e, x, hint);
  case EXPR_DICT_COMP:
    return em_dict_comp(e, x, hint);
  case EXPR_FSTRING:
    return em_fstring(e, x);
  case EXPR_LAMBDA:
  case EXPR_WALRUS:
  case EXPR_AWAIT:
  case EXPR_YIELD:
  case EXPR_YIELD_FROM:
  case EXPR_SET:
  case EXPR_SET_COMP: case EXPR_BYTES: case EXPR_STARRED: case EXPR_SLICE: case EXPR_FORMAT:
    refuse_expr(e, x);
  default:
    return em_literal(e, x, hint);
  }
}

sugared em_sugared(emitter *e, const ast_expr *x, const type *hint)
{
  source_range at = e->at;
  sugared out;
  session_enter(e->s);
  e->at = x->at;
  if (x->kind == EXPR_NAME) {
    out = em_get_name(e, x->as.name);
  } else if (x->kind == EXPR_ATTR) {
    sugared base = em_sugared(e, x->as.attr.base, NULL);
    e->at = x->at;
    out = em_get_attr(e, &base, x->as.attr.name);
  } else if (x->kind == EXPR_CALL) {
    out = em_call(e, x, hint);
  } else if (x->kind == EXPR_SUBSCRIPT) {
    out = em_subscript(e, x, hint);
  } else {
    out = sugar_value(emit_plain(e, x, hint));
  }
  session_leave(e->s);
  e->at = at;
  return out;
}

ir_value *em_expr(emitter *e, const ast_expr *x, const type *hint)
{
  sugared v = em_sugared(e, x, hint);
  source_range at = e->at;
  e->at = x->at;
  ir_value *value = em_as_value(e, &v);
  e->at = at;
  return value;
}
