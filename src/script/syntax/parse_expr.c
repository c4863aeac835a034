/* script/syntax/parse_expr.c -- parses expressions by precedence climbing, with one table of binary
 * operators instead of a function for each level, which keeps the C stack shallow for nested
 * expressions. The session's depth limit bounds nesting. Python syntax that TorchScript lacks is
 * parsed as far as an error message needs it. */
#include <string.h>

#include "script/syntax/parser_int.h"

/* -- Small helpers ----------------------------------------------------------------------------- */

ast_expr *parser_new_expr(parser *p, expr_kind kind, uint32_t start)
{
  ast_expr *e = session_new(p->s, ast_expr);
  e->kind = kind;
  e->op = OP_NONE;
  e->at = parser_range_from(p, start);
  return e;
}

ast_exprs parser_one_expr(parser *p, ast_expr *e)
{
  ast_exprs list = {session_array(p->s, ast_expr *, 1), 1};
  list.items[0] = e;
  return list;
}

/* Set the end of a range; PyTorch's ranges reach from the first part of an expression to the last,
 * without the brackets around them. */
static void end_with(ast_expr *e, const ast_expr *last)
{
  if (last)
    e->at.end = last->at.end;
}

static void end_with_last(ast_expr *e, const ast_exprs *items, uint32_t start)
{
  e->at.start = start;
  e->at.end = start + 1;
  end_with(e, items->n ? items->items[items->n - 1] : NULL);
}

static ast_expr *pair_expr(parser *p, expr_kind kind, ast_op op, uint32_t start, ast_expr *left,
                           ast_expr *right)
{
  ast_expr *e = parser_new_expr(p, kind, right ? left->at.start : start);
  e->op = op;
  e->as.pair.left = left;
  e->as.pair.right = right;
  end_with(e, right ? right : left);
  return e;
}

/* -- Operators --------------------------------------------------------------------------------- */

typedef struct infix {
  ast_op op;
  uint8_t level; /* 0: not a binary operator */
} infix;

enum { LEVEL_OR = 1, LEVEL_BITOR, LEVEL_XOR, LEVEL_BITAND, LEVEL_SHIFT, LEVEL_SUM, LEVEL_PRODUCT };

static const infix infixes[N_TOKEN_KINDS] = {
    [TK_BITOR] = {OP_BITOR, LEVEL_BITOR},        [TK_XOR] = {OP_XOR, LEVEL_XOR},
    [TK_BITAND] = {OP_BITAND, LEVEL_BITAND},     [TK_LSHIFT] = {OP_LSHIFT, LEVEL_SHIFT},
    [TK_RSHIFT] = {OP_RSHIFT, LEVEL_SHIFT},      [TK_ADD] = {OP_ADD, LEVEL_SUM},
    [TK_SUB] = {OP_SUB, LEVEL_SUM},              [TK_MUL] = {OP_MUL, LEVEL_PRODUCT},
    [TK_DIV] = {OP_DIV, LEVEL_PRODUCT},          [TK_FLOORDIV] = {OP_FLOORDIV, LEVEL_PRODUCT},
    [TK_MOD] = {OP_MOD, LEVEL_PRODUCT},          [TK_MATMUL] = {OP_MATMUL, LEVEL_PRODUCT},
};

static ast_expr *parse_unary(parser *p);
static ast_expr *parse_ternary(parser *p);

static ast_expr *parse_infix(parser *p, int level)
{
  uint32_t start = here(p);
  ast_expr *left = parse_unary(p);
  for (;;) {
    infix in = infixes[p->lx.cur.kind];
    if (in.level == 0 || in.level < level)
      return left;
    lexer_next(&p->lx);
    ast_expr *right = parse_infix(p, in.level + 1);
    left = pair_expr(p, EXPR_BINARY, in.op, start, left, right);
  }
}

/* Consume a comparison operator at the current token; returns it, or OP_NONE. */
static ast_op accept_compare(parser *p)
{
  static const ast_op ops[N_TOKEN_KINDS] = {
    /* + 1 */
    [TK_LT] = OP_LT + 1, [TK_LE] = OP_LE + 1, [TK_GT] = OP_GT + 1,
    [TK_GE] = OP_GE + 1, [TK_EQ] = OP_EQ + 1, [TK_NE] = OP_NE + 1,
    [TK_IN] = OP_IN + 1, [TK_IS] = OP_IS + 1, [TK_NOT] = OP_NOT_IN + 1,
  };
  token_kind k = p->lx.cur.kind;
  if (!ops[k])
    return OP_NONE;
  lexer_next(&p->lx);
  if (k == TK_IS && parser_accept(p, TK_NOT))
    return OP_IS_NOT;
  if (k == TK_NOT)
    parser_expect(p, TK_IN);
  return ops[k] - 1;
}

/* Below, `first` is the first operand if it has already been read; else NULL. */

static ast_expr *parse_compare(parser *p, ast_expr *first)
{
  if (!first)
    first = parse_infix(p, LEVEL_BITOR);
  ast_op op = accept_compare(p);
  if (op == OP_NONE)
    return first;
  ast_expr **operands = NULL;
  ast_op *ops = NULL;
  uint32_t n = 0, n_ops = 0;
  PUSH(p, operands, n, first);
  for (; op != OP_NONE; op = accept_compare(p)) {
    PUSH(p, ops, n_ops, op);
    ast_expr *next = parse_infix(p, LEVEL_BITOR);
    PUSH(p, operands, n, next);
  }
  ast_expr *e = parser_new_expr(p, EXPR_COMPARE, first->at.start);
  end_with(e, operands[n - 1]);
  e->op = ops[0];
  e->as.compare.operands = (ast_exprs){operands, n};
  e->as.compare.ops = ops;
  return e;
}

static ast_expr *parse_not(parser *p, ast_expr *first)
{
  uint32_t start = here(p);
  if (first || !parser_accept(p, TK_NOT))
    return parse_compare(p, first);
  session_enter(p->s);
  ast_expr *operand = parse_not(p, NULL);
  session_leave(p->s);
  return pair_expr(p, EXPR_UNARY, OP_NOT, start, operand, NULL);
}

static ast_expr *parse_bool(parser *p, token_kind word, ast_expr *first)
{
  first = word == TK_OR ? parse_bool(p, TK_AND, first) : parse_not(p, first);
  if (!at_token(p, word))
    return first;
  ast_expr **items = NULL;
  uint32_t n = 0;
  PUSH(p, items, n, first);
  while (parser_accept(p, word)) {
    ast_expr *next = word == TK_OR ? parse_bool(p, TK_AND, NULL) : parse_not(p, NULL);
    PUSH(p, items, n, next);
  }
  ast_expr *e = parser_new_expr(p, EXPR_BOOL, first->at.start);
  end_with(e, items[n - 1]);
  e->op = word == TK_OR ? OP_OR : OP_AND;
  e->as.items = (ast_exprs){items, n};
  return e;
}

/* Parse `a or b`; most expressions are neither that nor a comparison. */
static ast_expr *parse_or(parser *p)
{
  ast_expr *first = at_token(p, TK_NOT) ? NULL : parse_infix(p, LEVEL_BITOR);
  switch (p->lx.cur.kind) {
  case TK_NEWLINE: case TK_COMMA: case TK_RPAREN: case TK_ASSIGN: case TK_COLON: case TK_RBRACKET:
    if (first)
      return first;
    break;
  default:
    break;
  }
  return parse_bool(p, TK_OR, first);
}

static ast_expr *parse_lambda(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_LAMBDA);
  uint32_t n = 0;
  ast_param *params = parse_params(p, TK_COLON, false, &n);
  parser_expect(p, TK_COLON);
  ast_expr *body = parse_expr(p);
  ast_expr *e = parser_new_expr(p, EXPR_LAMBDA, start);
  e->as.lambda.params = params;
  e->as.lambda.n_params = n;
  e->as.lambda.body = body;
  return e;
}

static ast_expr *parse_yield(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_YIELD);
  bool from = parser_accept(p, TK_FROM);
  bool bare = at_token(p, TK_NEWLINE) || at_token(p, TK_RPAREN);
  return pair_expr(p, from ? EXPR_YIELD_FROM : EXPR_YIELD, OP_NONE, start,
                   bare ? NULL : parse_exprs(p), NULL);
}

static ast_expr *parse_ternary(parser *p)
{
  ast_expr *yes = parse_or(p);
  if (!parser_accept(p, TK_IF))
    return yes;
  ast_expr *cond = parse_or(p);
  parser_expect(p, TK_ELSE);
  ast_expr *no = parse_expr(p);
  ast_expr *e = parser_new_expr(p, EXPR_TERNARY, yes->at.start);
  end_with(e, no);
  e->as.ternary.cond = cond;
  e->as.ternary.yes = yes;
  e->as.ternary.no = no;
  return e;
}

ast_expr *parse_expr(parser *p)
{
  session_enter(p->s);
  uint32_t start = here(p);
  ast_expr *e;
  if (at_token(p, TK_LAMBDA))
    e = parse_lambda(p);
  else if (at_token(p, TK_YIELD))
    e = parse_yield(p);
  else
    e = parse_ternary(p);
  if (e->kind == EXPR_NAME && parser_accept(p, TK_WALRUS))
    e = pair_expr(p, EXPR_WALRUS, OP_NONE, start, e, parse_expr(p));
  session_leave(p->s);
  return e;
}

/* -- Lists of expressions ---------------------------------------------------------------------- */

static bool ends_list(const parser *p)
{
  switch (p->lx.cur.kind) {
  case TK_NEWLINE: case TK_EOF: case TK_RPAREN: case TK_RBRACKET: case TK_RBRACE: case TK_ASSIGN:
  case TK_COLON: case TK_SEMICOLON: case TK_IN:
    return true;
  default:
    return false;
  }
}

static ast_expr *parse_starred(parser *p)
{
  uint32_t start = here(p);
  if (!parser_accept(p, TK_MUL))
    return parse_expr(p);
  ast_expr *value = parse_infix(p, LEVEL_BITOR);
  return pair_expr(p, EXPR_STARRED, OP_NONE, start, value, NULL);
}

/* Parse the items after `first`; the current token is the first comma. */
static ast_exprs parse_more(parser *p, ast_expr *first, ast_expr *(*item)(parser *p))
{
  ast_expr **items = NULL;
  uint32_t n = 0;
  PUSH(p, items, n, first);
  while (parser_accept(p, TK_COMMA)) {
    if (ends_list(p))
      break;
    ast_expr *next = item(p);
    PUSH(p, items, n, next);
  }
  return (ast_exprs){items, n};
}

/* Parse an item, or a tuple of them without parentheses. */
static ast_expr *parse_row(parser *p, ast_expr *(*item)(parser *p))
{
  uint32_t start = here(p);
  ast_expr *first = item(p);
  if (!at_token(p, TK_COMMA))
    return first;
  ast_exprs items = parse_more(p, first, item);
  ast_expr *e = parser_new_expr(p, EXPR_TUPLE, start);
  end_with_last(e, &items, start);
  e->as.items = items;
  return e;
}

ast_expr *parse_exprs(parser *p) { return parse_row(p, parse_starred); }

static ast_expr *parse_target_item(parser *p)
{
  uint32_t start = here(p);
  if (parser_accept(p, TK_MUL))
    return pair_expr(p, EXPR_STARRED, OP_NONE, start, parse_infix(p, LEVEL_BITOR), NULL);
  return parse_infix(p, LEVEL_BITOR);
}

ast_expr *parse_target(parser *p) { return parse_row(p, parse_target_item); }

/* -- Comprehensions and displays --------------------------------------------------------------- */

/* Turn (key:) element, followed by `for`, into a comprehension. */
static ast_expr *parse_comp(parser *p, expr_kind kind, uint32_t start, ast_expr *key,
                            ast_expr *element)
{
  ast_comp *fors = NULL;
  uint32_t n = 0;
  while (at_token(p, TK_FOR)) {
    ast_comp c = {0};
    parser_expect(p, TK_FOR);
    c.target = parse_target(p);
    parser_expect(p, TK_IN);
    c.iter = parse_or(p);
    while (parser_accept(p, TK_IF)) {
      ast_expr *cond = parse_or(p);
      PUSH(p, c.conds.items, c.conds.n, cond);
    }
    PUSH(p, fors, n, c);
  }
  ast_expr *e = parser_new_expr(p, kind, start);
  end_with(e, fors[0].iter);
  e->as.comp.key = key;
  e->as.comp.element = element;
  e->as.comp.fors = fors;
  e->as.comp.n_fors = n;
  return e;
}

static ast_expr *parse_paren(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_LPAREN);
  ast_expr *e;
  if (parser_accept(p, TK_RPAREN)) {
    e = parser_new_expr(p, EXPR_TUPLE, start);
    e->at.end = start + 1;
    return e;
  }
  e = parse_starred(p);
  if (at_token(p, TK_FOR)) {
    e = parse_comp(p, EXPR_GENERATOR, start, NULL, e);
  } else if (at_token(p, TK_COMMA)) {
    ast_exprs items = parse_more(p, e, parse_starred);
    e = parser_new_expr(p, EXPR_TUPLE, start);
    end_with_last(e, &items, start);
    e->as.items = items;
  }
  parser_expect(p, TK_RPAREN);
  return e;
}

static ast_expr *parse_list(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_LBRACKET);
  ast_expr *e = NULL;
  ast_exprs items = {NULL, 0};
  if (!at_token(p, TK_RBRACKET)) {
    ast_expr *first = parse_starred(p);
    if (at_token(p, TK_FOR))
      e = parse_comp(p, EXPR_LIST_COMP, start, NULL, first);
    else
      items = parse_more(p, first, parse_starred);
  }
  parser_expect(p, TK_RBRACKET);
  if (!e) {
    e = parser_new_expr(p, EXPR_LIST, start);
    end_with_last(e, &items, start);
    e->as.items = items;
  }
  return e;
}

/* Parse a dict's `key: value` or `**value`; a set's element has a NULL value. */
static void parse_dict_item(parser *p, ast_expr **key, ast_expr **value)
{
  *key = *value = NULL;
  if (parser_accept(p, TK_POW)) {
    *value = parse_infix(p, LEVEL_BITOR);
    return;
  }
  *key = parse_starred(p);
  if (parser_accept(p, TK_COLON))
    *value = parse_expr(p);
}

static ast_expr *parse_braces(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_LBRACE);
  ast_exprs keys = {NULL, 0}, values = {NULL, 0};
  ast_expr *e = NULL;
  bool is_set = false;
  while (!at_token(p, TK_RBRACE)) {
    ast_expr *key, *value;
    parse_dict_item(p, &key, &value);
    if (keys.n == 0)
      is_set = value == NULL;
    else if (is_set != (value == NULL))
      parser_fail_expected(p, is_set ? "',' or '}' of a set" : "':' and the key's value");
    if (keys.n == 0 && at_token(p, TK_FOR)) {
      e = is_set ? parse_comp(p, EXPR_SET_COMP, start, NULL, key)
                 : parse_comp(p, EXPR_DICT_COMP, start, key, value);
      break;
    }
    PUSH(p, keys.items, keys.n, key);
    PUSH(p, values.items, values.n, value);
    if (!parser_accept(p, TK_COMMA))
      break;
  }
  parser_expect(p, TK_RBRACE);
  if (!e) {
    e = parser_new_expr(p, is_set ? EXPR_SET : EXPR_DICT, start);
    end_with_last(e, is_set ? &keys : &values, start);
    if (is_set) {
      e->as.items = keys;
    } else {
      e->as.dict.keys = keys;
      e->as.dict.values = values;
    }
  }
  return e;
}

/* -- Primaries --------------------------------------------------------------------------------- */

static ast_expr *parse_word(parser *p, expr_kind kind)
{
  uint32_t start = here(p);
  lexer_next(&p->lx);
  return parser_new_expr(p, kind, start);
}

static ast_expr *parse_atom(parser *p)
{
  uint32_t start = here(p);
  switch (p->lx.cur.kind) {
  case TK_NAME: {
    const char *name = parser_expect_name(p);
    bool dots = p->flags & PARSE_LIVE && strcmp(name, "Ellipsis") == 0;
    ast_expr *e = parser_new_expr(p, dots ? EXPR_ELLIPSIS : EXPR_NAME, start);
    e->as.name = name;
    return e;
  }
  case TK_NUMBER:
    return parse_number(p);
  case TK_STRING:
    return parse_strings(p);
  case TK_LPAREN:
    return parse_paren(p);
  case TK_LBRACKET:
    return parse_list(p);
  case TK_LBRACE:
    return parse_braces(p);
  case TK_TRUE:
    return parse_word(p, EXPR_TRUE);
  case TK_FALSE:
    return parse_word(p, EXPR_FALSE);
  case TK_NONE:
    return parse_word(p, EXPR_NONE);
  case TK_ELLIPSIS:
    return parse_word(p, EXPR_ELLIPSIS);
  default:
    parser_fail_expected(p, "an expression");
  }
}

void parse_call_args(parser *p, ast_exprs *args, ast_keyword **keywords, uint32_t *n_keywords)
{
  while (!at_token(p, TK_RPAREN)) {
    uint32_t start = here(p);
    if (parser_accept(p, TK_POW)) {
      ast_expr *value = parse_expr(p);
      ast_keyword k = {NULL, value, {p->lx.src, value->at.start, value->at.start + 1}};
      PUSH(p, *keywords, *n_keywords, k);
    } else {
      ast_expr *e = parse_starred(p);
      if (e->kind == EXPR_NAME && parser_accept(p, TK_ASSIGN)) {
        ast_keyword k = {e->as.name, parse_expr(p), parser_range_from(p, start)};
        PUSH(p, *keywords, *n_keywords, k);
      } else {
        if (at_token(p, TK_FOR))
          e = parse_comp(p, EXPR_GENERATOR, start, NULL, e);
        PUSH(p, args->items, args->n, e);
      }
    }
    if (!parser_accept(p, TK_COMMA))
      break;
  }
}

static ast_expr *parse_call(parser *p, ast_expr *fn)
{
  ast_exprs args = {NULL, 0};
  ast_keyword *keywords = NULL;
  uint32_t n_keywords = 0;
  parser_expect(p, TK_LPAREN);
  parse_call_args(p, &args, &keywords, &n_keywords);
  parser_expect(p, TK_RPAREN);
  ast_expr *e = parser_new_expr(p, EXPR_CALL, fn->at.start);
  const ast_expr *last = args.n ? args.items[args.n - 1] : fn,
                 *value = n_keywords ? keywords[n_keywords - 1].value : last;
  end_with(e, value->at.end > last->at.end ? value : last);
  e->as.call.fn = fn;
  e->as.call.args = args;
  e->as.call.keywords = keywords;
  e->as.call.n_keywords = n_keywords;
  return e;
}

static ast_expr *parse_slice_part(parser *p)
{
  if (at_token(p, TK_COLON) || at_token(p, TK_COMMA) || at_token(p, TK_RBRACKET))
    return NULL;
  return parse_expr(p);
}

static ast_expr *parse_index(parser *p, const ast_expr *base)
{
  uint32_t start = p->flags & PARSE_TREE_RANGES ? base->at.start : here(p);
  if (at_token(p, TK_MUL))
    return parse_starred(p);
  ast_expr *first = parse_slice_part(p);
  if (!parser_accept(p, TK_COLON)) {
    if (!first)
      parser_fail_expected(p, "an index");
    return first;
  }
  ast_expr *stop = parse_slice_part(p);
  ast_expr *step = parser_accept(p, TK_COLON) ? parse_slice_part(p) : NULL;
  ast_expr *e = parser_new_expr(p, EXPR_SLICE, start);
  if (p->flags & PARSE_TREE_RANGES)
    end_with(e, step ? step : stop ? stop : first ? first : base);
  e->as.slice.start = first;
  e->as.slice.stop = stop;
  e->as.slice.step = step;
  return e;
}

static ast_expr *parse_subscript(parser *p, ast_expr *base)
{
  parser_expect(p, TK_LBRACKET);
  ast_exprs index = {NULL, 0};
  bool comma = false;
  do {
    ast_expr *item = parse_index(p, base);
    PUSH(p, index.items, index.n, item);
    comma = parser_accept(p, TK_COMMA);
  } while (comma && !at_token(p, TK_RBRACKET));
  parser_expect(p, TK_RBRACKET);
  if (index.n == 1 && !comma && index.items[0]->kind == EXPR_TUPLE && index.items[0]->as.items.n)
    index = index.items[0]->as.items; /* x[(a, b)] is x[a, b] */
  ast_expr *e = parser_new_expr(p, EXPR_SUBSCRIPT, base->at.start);
  end_with(e, index.items[index.n - 1]);
  e->at.end++;
  e->as.subscript.base = base;
  e->as.subscript.index = index;
  e->as.subscript.is_tuple = comma || index.n > 1;
  return e;
}

static ast_expr *parse_primary(parser *p)
{
  ast_expr *e = parse_atom(p);
  for (;;) {
    if (at_token(p, TK_LPAREN)) {
      e = parse_call(p, e);
    } else if (at_token(p, TK_LBRACKET)) {
      e = parse_subscript(p, e);
    } else if (parser_accept(p, TK_DOT)) {
      source_range name_at = token_range(&p->lx, &p->lx.cur);
      const char *name = parser_expect_name(p);
      ast_expr *attr = parser_new_expr(p, EXPR_ATTR, e->at.start);
      if (p->flags & PARSE_TREE_RANGES)
        attr->at.end = e->at.end + 1 + (uint32_t)strlen(name);
      attr->as.attr.base = e;
      attr->as.attr.name = name;
      attr->as.attr.name_at = name_at;
      e = attr;
    } else {
      return e;
    }
  }
}

/* Parse "-"; before a literal it belongs to it, since the smallest int has no positive
 * counterpart. */
static ast_expr *parse_minus(parser *p, uint32_t start)
{
  bool number = at_token(p, TK_NUMBER);
  ast_expr *operand = parse_unary(p);
  if (number && operand->kind == EXPR_INT) {
    operand->as.integer = (int64_t)(0 - (uint64_t)operand->as.integer);
    operand->at.start = start;
    operand->op = OP_NONE;
    return operand;
  }
  if (number && (operand->kind == EXPR_FLOAT || operand->kind == EXPR_IMAG)) {
    operand->as.number = -operand->as.number;
    operand->at.start = start;
    return operand;
  }
  return pair_expr(p, EXPR_UNARY, OP_NEG, start, operand, NULL);
}

static ast_expr *parse_prefixed(parser *p)
{
  uint32_t start = here(p);
  if (parser_accept(p, TK_SUB))
    return parse_minus(p, start);
  ast_op op = at_token(p, TK_ADD) ? OP_POS : OP_INVERT;
  lexer_next(&p->lx);
  return pair_expr(p, EXPR_UNARY, op, start, parse_unary(p), NULL);
}

/* Recursion is counted where operators nest: "- - - x", "a ** b ** c". */
static ast_expr *parse_unary(parser *p)
{
  uint32_t start = here(p);
  if (at_token(p, TK_SUB) || at_token(p, TK_ADD) || at_token(p, TK_TILDE)) {
    session_enter(p->s);
    ast_expr *e = parse_prefixed(p);
    session_leave(p->s);
    return e;
  }
  if (parser_accept(p, TK_AWAIT))
    return pair_expr(p, EXPR_AWAIT, OP_NONE, start, parse_primary(p), NULL);
  ast_expr *e = parse_primary(p);
  if (parser_accept(p, TK_POW)) {
    session_enter(p->s);
    e = pair_expr(p, EXPR_BINARY, OP_POW, start, e, parse_unary(p));
    session_leave(p->s);
  }
  return e;
}
