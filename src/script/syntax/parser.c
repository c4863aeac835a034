/* script/syntax/parser.c -- parses files, statements, functions and classes by recursive descent
 * over the lexer's single token of lookahead. In skeleton form, bodies are skipped by their tokens
 * and parsed when they are compiled. Trees live in the session's arena and are never freed one by
 * one. The first error leaves the session, as in PyTorch: there is no recovery. */
#include "script/syntax/parser.h"

#include <string.h>

#include "script/syntax/parser_int.h"

/* -- Tokens ------------------------------------------------------------------------------------ */

void *parser_grow_array(session *s, void *old, uint32_t n, size_t item_bytes)
{
  void *grown = session_alloc_array(s, n ? (size_t)n * 2 : 1, item_bytes);
  if (n)
    memcpy(grown, old, n * item_bytes);
  return grown;
}

bool parser_accept(parser *p, token_kind k)
{
  if (p->lx.cur.kind != k)
    return false;
  lexer_next(&p->lx);
  return true;
}

/* Return the name of the current token in PyTorch's own parser, whose lexer treats a line's end and
 * the following indentation as one token. */
static const char *torch_found(parser *p)
{
  token_kind k = p->lx.cur.kind;
  bool at_end = p->lx.pos >= p->lx.end;
  if (at_end && p->lx.brackets > 0 && (k == TK_NEWLINE || k == TK_DEDENT))
    return "'eof'";
  if (at_end && k == TK_NEWLINE)
    return "'newline'";
  if (k == TK_NEWLINE) {
    lexer_next(&p->lx);
    k = at_token(p, TK_INDENT) || at_token(p, TK_DEDENT) ? p->lx.cur.kind : TK_NEWLINE;
  }
  switch ((int)k) {
  case TK_NAME: return "'ident'";
  case TK_NUMBER: return "'number'";
  case TK_STRING: return "'string_literal'";
  case TK_NEWLINE: return "'newline'";
  case TK_INDENT: return "'indent'";
  case TK_DEDENT: return "'dedent'";
  case TK_EOF: return "'eof'";
  case TK_ARROW: return "'arrow'";
  default: return token_kind_name(k);
  }
}

static const char *torch_expected(parser *p, const char *what)
{
  static const struct { const char *ours, *theirs;
  } rows[] = {{"a name", "ident"},
              {"an expression", "ident"},
              {"an index", "ident"},
              {"an indented block", "indent"},
              {"the end of the line", "newline"},
              {"a statement", "def"}};
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    if (strcmp(rows[i].ours, what) == 0)
      return rows[i].theirs;
  size_t len = strlen(what);
  return what[0] == '\'' && len > 2 ? session_strndup(p->s, what + 1, len - 2) : what;
}

void parser_fail_expected(parser *p, const char *what)
{
  if (p->flags & PARSE_TORCH_WORDS) {
    source_range found = token_range(&p->lx, &p->lx.cur);
    session_fail(p->s, &found, "expected %s but found %s here", torch_expected(p, what),
                 torch_found(p));
  }
  source_range at = token_range(&p->lx, &p->lx.cur);
  session_fail(p->s, &at, "expected %s but found %s here", what, token_text(&p->lx, &p->lx.cur));
}

void parser_expect(parser *p, token_kind k)
{
  if (!parser_accept(p, k))
    parser_fail_expected(p, token_kind_name(k));
}

source_range parser_range_from(parser *p, uint32_t start)
{
  uint32_t end = p->lx.last_end > start ? p->lx.last_end : start;
  return (source_range){p->lx.src, start, end};
}

static const char *slice(parser *p, uint32_t start, uint32_t end)
{
  return session_strndup(p->s, p->lx.src->text + start, end - start);
}

const char *parser_expect_name(parser *p)
{
  token t = p->lx.cur;
  if (t.kind != TK_NAME)
    parser_fail_expected(p, "a name");
  lexer_next(&p->lx);
  return slice(p, t.start, t.end);
}

/* -- Type comments ----------------------------------------------------------------------------- */

/* Return the type of a comment `# type: T` before the current token, or NULL. */
static ast_expr *comment_type(parser *p)
{
  const token *t = &p->lx.cur;
  if (t->comment_end <= t->comment_start || p->flags & PARSE_LIVE)
    return NULL;
  source_range at = {p->lx.src, t->comment_start, t->comment_end};
  return parse_expr_range(p->s, at, p->flags);
}

/* Parse (A, B) -> C, or without the result. */
static ast_signature signature(parser *p)
{
  ast_signature out = {.params = {NULL, 0}};
  parser_expect(p, TK_LPAREN);
  while (!at_token(p, TK_RPAREN)) {
    while (parser_accept(p, TK_MUL) || parser_accept(p, TK_POW)) {
    }
    out.dots |= at_token(p, TK_ELLIPSIS);
    ast_expr *type = parse_expr(p);
    PUSH(p, out.params.items, out.params.n, type);
    if (!parser_accept(p, TK_COMMA))
      break;
  }
  parser_expect(p, TK_RPAREN);
  if (parser_accept(p, TK_ARROW))
    out.returns = parse_expr(p);
  if (!at_token(p, TK_EOF))
    parser_fail_expected(p, "the end of the type comment");
  return out;
}

/* Apply `# type: (A, B) -> C` before the current token to the parameters and the result. */
static void apply_signature_comment(parser *p, ast_def *d)
{
  const token *t = &p->lx.cur;
  if (t->comment_end <= t->comment_start || p->flags & PARSE_LIVE)
    return;
  parser sub = {.s = p->s, .flags = p->flags};
  lexer_init_inline(&sub.lx, p->s, p->lx.src, t->comment_start, t->comment_end);
  uint32_t start = here(&sub);
  if (!at_token(&sub, TK_LPAREN) && !(p->flags & PARSE_TORCH_WORDS))
    return; /* a comment about something else */
  ast_signature sig = signature(&sub);
  uint32_t n = sig.params.n;
  d->returns = sig.returns;
  if (sig.dots)
    return;
  uint32_t first = d->n_params == n + 1 && strcmp(d->params[0].name, "self") == 0
                     ? 1
                     : 0; /* self has no type in a comment */
  if (d->n_params != n + first) {
    source_range at = parser_range_from(&sub, start);
    session_fail(
      p->s, &at,
      "Number of type annotations (%u) did not match the number of function parameters (%u)", n,
      d->n_params);
  }
  for (uint32_t i = 0; i < n; i++)
    d->params[first + i].type = sig.params.items[i];
}

/* -- Parameters -------------------------------------------------------------------------------- */

static ast_param parse_param(parser *p, bool typed, uint32_t start)
{
  ast_param param = {.form = PARAM_PLAIN};
  param.name = parser_expect_name(p);
  if (typed && parser_accept(p, TK_COLON))
    param.type = parse_expr(p);
  if (parser_accept(p, TK_ASSIGN))
    param.default_value = parse_expr(p);
  param.at = parser_range_from(p, start);
  return param;
}

ast_param *parse_params(parser *p, token_kind close, bool typed, uint32_t *n)
{
  ast_param *params = NULL;
  bool keyword_only = false;
  while (!at_token(p, close)) {
    uint32_t start = here(p);
    bool marker = parser_accept(p, TK_DIV);
    for (uint32_t i = 0; marker && i < *n; i++)
      params[i].positional_only = true;
    bool star = !marker && parser_accept(p, TK_MUL),
         star_star = !marker && !star && parser_accept(p, TK_POW);
    if (star && at_token(p, TK_COMMA)) {
      keyword_only = true;
    } else if (!marker) {
      ast_param param = parse_param(p, typed, start);
      param.form = star ? PARAM_STAR : star_star ? PARAM_STAR_STAR : PARAM_PLAIN;
      param.keyword_only = keyword_only;
      keyword_only |= star;
      PUSH(p, params, *n, param);
    }
    bool comma = parser_accept(p, TK_COMMA);
    if (typed && *n > 0 && !params[*n - 1].type)
      params[*n - 1].type = comment_type(p); /* one parameter a line, each with its comment */
    if (!comma)
      break;
  }
  return params;
}

/* -- Blocks ------------------------------------------------------------------------------------ */

static void parse_statement(parser *p, ast_stmts *out);

/* Parse the statements after a colon: the rest of the line, or an indented block. */
static ast_stmts parse_block(parser *p)
{
  ast_stmts body = {NULL, 0};
  parser_expect(p, TK_COLON);
  session_enter(p->s);
  if (!parser_accept(p, TK_NEWLINE)) {
    parse_statement(p, &body);
  } else {
    if (!at_token(p, TK_INDENT))
      parser_fail_expected(p, "an indented block");
    lexer_next(&p->lx);
    while (!parser_accept(p, TK_DEDENT))
      parse_statement(p, &body);
  }
  session_leave(p->s);
  return body;
}

static ast_stmt *new_stmt(parser *p, stmt_kind kind, uint32_t start)
{
  ast_stmt *st = session_new(p->s, ast_stmt);
  st->kind = kind;
  st->op = OP_NONE;
  st->at = parser_range_from(p, start);
  return st;
}

/* End the statement's range with its last part, which may be NULL. */
static ast_stmt *ended(ast_stmt *st, const ast_expr *last)
{
  if (last)
    st->at.end = last->at.end;
  return st;
}

/* -- Functions and classes --------------------------------------------------------------------- */

static const char *take_docstring(ast_stmts *body)
{
  if (body->n == 0 || body->items[0]->kind != STMT_EXPR)
    return NULL;
  ast_expr *e = body->items[0]->as.expr;
  return e->kind == EXPR_STRING ? e->as.string.data : NULL;
}

/* Parse the body after the signature, with the comment that may contain its types. */
static void parse_def_body(parser *p, ast_def *d)
{
  if (!at_token(p, TK_COLON))
    parser_fail_expected(p, "':'");
  lexer_next(&p->lx);
  if (!at_token(p, TK_NEWLINE)) {
    if (p->flags & PARSE_SKIP_BODIES) {
      while (!at_token(p, TK_NEWLINE) && !at_token(p, TK_EOF))
        lexer_next(&p->lx);
      d->text_end = here(p);
      parser_accept(p, TK_NEWLINE);
      d->body_skipped = true;
    } else {
      parse_statement(p, &d->body);
    }
    return;
  }
  apply_signature_comment(p, d);
  lexer_next(&p->lx);
  if (!at_token(p, TK_INDENT))
    parser_fail_expected(p, "an indented block");
  apply_signature_comment(p, d);
  if (p->flags & PARSE_SKIP_BODIES) {
    if (!(p->flags & PARSE_HEAD_ONLY))
      lexer_skip_block(&p->lx);
    d->text_end = p->lx.last_end;
    d->body_skipped = true;
    return;
  }
  lexer_next(&p->lx);
  while (!parser_accept(p, TK_DEDENT))
    parse_statement(p, &d->body);
  d->doc = take_docstring(&d->body);
}

static ast_def *parse_def(parser *p)
{
  uint32_t start = here(p);
  ast_def *d = session_new(p->s, ast_def);
  parser_expect(p, TK_DEF);
  d->name_at = token_range(&p->lx, &p->lx.cur);
  d->name = parser_expect_name(p);
  parser_expect(p, TK_LPAREN);
  d->params = parse_params(p, TK_RPAREN, true, &d->n_params);
  parser_expect(p, TK_RPAREN);
  if (parser_accept(p, TK_ARROW))
    d->returns = parse_expr(p);
  d->at = parser_range_from(p, start);
  session_enter(p->s);
  parse_def_body(p, d);
  session_leave(p->s);
  return d;
}

static ast_class *parse_class(parser *p)
{
  uint32_t start = here(p);
  ast_class *c = session_new(p->s, ast_class);
  parser_expect(p, TK_CLASS);
  c->name_at = token_range(&p->lx, &p->lx.cur);
  c->name = parser_expect_name(p);
  if (parser_accept(p, TK_LPAREN)) {
    parse_call_args(p, &c->bases, &c->keywords, &c->n_keywords);
    parser_expect(p, TK_RPAREN);
  }
  c->at = parser_range_from(p, start);
  c->body = parse_block(p);
  return c;
}

static ast_stmt *parse_decorated(parser *p)
{
  ast_exprs decorators = {NULL, 0};
  while (parser_accept(p, TK_MATMUL)) {
    ast_expr *e = parse_expr(p);
    PUSH(p, decorators.items, decorators.n, e);
    parser_expect(p, TK_NEWLINE);
  }
  uint32_t start = here(p);
  bool is_async = parser_accept(p, TK_ASYNC);
  if (at_token(p, TK_CLASS) && !is_async) {
    ast_class *c = parse_class(p);
    c->decorators = decorators;
    ast_stmt *st = new_stmt(p, STMT_CLASS, start);
    st->as.cls = c;
    return st;
  }
  if (!at_token(p, TK_DEF))
    parser_fail_expected(p, is_async ? "'def' (async for and async with are not supported)"
                              : "'def' or 'class' after a decorator");
  ast_def *d = parse_def(p);
  d->decorators = decorators;
  d->is_async = is_async;
  ast_stmt *st = new_stmt(p, STMT_DEF, start);
  st->at = d->at;
  st->as.def = d;
  return st;
}

/* -- Compound statements ----------------------------------------------------------------------- */

static ast_stmts parse_else(parser *p)
{
  if (!parser_accept(p, TK_ELSE))
    return (ast_stmts){NULL, 0};
  return parse_block(p);
}

static ast_stmt *parse_if(parser *p)
{
  uint32_t start = here(p);
  lexer_next(&p->lx); /* if or elif */
  session_enter(p->s);
  ast_expr *cond = parse_expr(p);
  source_range at = {p->lx.src, start, cond->at.end};
  ast_stmts body = parse_block(p);
  ast_stmts orelse = {NULL, 0};
  if (at_token(p, TK_ELIF)) {
    ast_stmt *nested = parse_if(p);
    PUSH(p, orelse.items, orelse.n, nested);
  } else {
    orelse = parse_else(p);
  }
  session_leave(p->s);
  ast_stmt *st = new_stmt(p, STMT_IF, start);
  st->at = at;
  st->as.branch.cond = cond;
  st->as.branch.body = body;
  st->as.branch.orelse = orelse;
  return st;
}

static ast_stmt *parse_while(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_WHILE);
  ast_expr *cond = parse_expr(p);
  source_range at = {p->lx.src, start, cond->at.end};
  ast_stmt *st = new_stmt(p, STMT_WHILE, start);
  st->at = at;
  st->as.branch.cond = cond;
  st->as.branch.body = parse_block(p);
  st->as.branch.orelse = parse_else(p);
  return st;
}

static ast_stmt *parse_for(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_FOR);
  ast_expr *target = parse_target(p);
  parser_expect(p, TK_IN);
  bool bracket = at_token(p, TK_LPAREN);
  ast_expr *iter = parse_exprs(p);
  ast_stmt *st = ended(new_stmt(p, STMT_FOR, start), iter);
  if (p->flags & PARSE_TORCH_WORDS && iter->kind == EXPR_TUPLE && !bracket)
    session_fail(p->s, &st->at, "List of iterables is not supported currently");
  st->as.loop.target = target;
  st->as.loop.iter = iter;
  st->as.loop.body = parse_block(p);
  st->as.loop.orelse = parse_else(p);
  return st;
}

static ast_stmt *parse_with(parser *p)
{
  uint32_t start = here(p), n = 0;
  parser_expect(p, TK_WITH);
  ast_with_item *items = NULL;
  do {
    ast_with_item item = {parse_expr(p), NULL};
    if (parser_accept(p, TK_AS))
      item.target = parse_expr(p); /* one: a comma begins the next item */
    PUSH(p, items, n, item);
  } while (parser_accept(p, TK_COMMA));
  ast_stmt *st = new_stmt(p, STMT_WITH, start);
  st->as.with.items = items;
  st->as.with.n_items = n;
  st->as.with.body = parse_block(p);
  return st;
}

static ast_stmt *parse_try(parser *p)
{
  uint32_t start = here(p), n = 0;
  parser_expect(p, TK_TRY);
  ast_stmt *st = new_stmt(p, STMT_TRY, start);
  st->as.try_.body = parse_block(p);
  ast_handler *handlers = NULL;
  while (parser_accept(p, TK_EXCEPT)) {
    ast_handler h = {0};
    if (!at_token(p, TK_COLON))
      h.type = parse_expr(p);
    if (parser_accept(p, TK_AS))
      h.name = parser_expect_name(p);
    h.body = parse_block(p);
    PUSH(p, handlers, n, h);
  }
  st->as.try_.handlers = handlers;
  st->as.try_.n_handlers = n;
  st->as.try_.orelse = parse_else(p);
  if (parser_accept(p, TK_FINALLY))
    st->as.try_.finally = parse_block(p);
  return st;
}

/* -- Simple statements ------------------------------------------------------------------------- */

static const struct { token_kind token; ast_op op; } augmented[] = {
    {TK_ADD_EQ, OP_ADD},       {TK_SUB_EQ, OP_SUB},       {TK_MUL_EQ, OP_MUL},
    {TK_DIV_EQ, OP_DIV},       {TK_FLOORDIV_EQ, OP_FLOORDIV}, {TK_MOD_EQ, OP_MOD},
    {TK_POW_EQ, OP_POW},       {TK_MATMUL_EQ, OP_MATMUL}, {TK_AND_EQ, OP_BITAND},
    {TK_OR_EQ, OP_BITOR},      {TK_XOR_EQ, OP_XOR},       {TK_LSHIFT_EQ, OP_LSHIFT},
    {TK_RSHIFT_EQ, OP_RSHIFT},
};

static ast_stmt *parse_aug(parser *p, uint32_t start, ast_expr *target)
{
  bool has_operator = !at_token(p, TK_ASSIGN) && !at_token(p, TK_NEWLINE);
  for (size_t i = 0; has_operator && i < COUNT_OF(augmented); i++) {
    if (!parser_accept(p, augmented[i].token))
      continue;
    ast_expr *value = parse_exprs(p);
    ast_stmt *st = new_stmt(p, STMT_AUG_ASSIGN, start);
    st->op = augmented[i].op;
    st->at.start = target->at.start;
    st->as.aug.target = target;
    st->as.aug.value = value;
    return ended(st, value);
  }
  return NULL;
}

/* Parse an expression, or an assignment to it. */
static ast_stmt *parse_assign(parser *p)
{
  uint32_t start = here(p);
  ast_expr *first = parse_exprs(p);
  ast_stmt *aug = parse_aug(p, start, first);
  if (aug)
    return aug;
  ast_exprs targets = {NULL, 0};
  ast_expr *type = NULL, *value = NULL;
  PUSH(p, targets.items, targets.n, first);
  if (parser_accept(p, TK_COLON)) {
    type = parse_expr(p);
    value = parser_accept(p, TK_ASSIGN) ? parse_exprs(p) : NULL;
  } else {
    while (parser_accept(p, TK_ASSIGN)) {
      if (value)
        PUSH(p, targets.items, targets.n, value);
      value = parse_exprs(p);
    }
  }
  if (!type && !value) {
    ast_stmt *st = new_stmt(p, STMT_EXPR, start);
    st->at = first->at;
    st->as.expr = first;
    return st;
  }
  ast_stmt *st = new_stmt(p, STMT_ASSIGN, first->at.start);
  st->as.assign.end = st->at.end;
  ended(st, value ? value : type);
  st->as.assign.targets = targets;
  st->as.assign.value = value;
  st->as.assign.type = type ? type : comment_type(p);
  return st;
}

static bool ends_statement(const parser *p)
{
  return at_token(p, TK_NEWLINE) || at_token(p, TK_SEMICOLON) || at_token(p, TK_EOF);
}

static ast_stmt *parse_return(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_RETURN);
  ast_expr *e = ends_statement(p) ? NULL : parse_exprs(p);
  ast_stmt *st = new_stmt(p, STMT_RETURN, start);
  st->as.expr = e;
  return ended(st, e);
}

static ast_stmt *parse_raise(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_RAISE);
  ast_expr *value = ends_statement(p) ? NULL : parse_expr(p);
  ast_expr *cause = parser_accept(p, TK_FROM) ? parse_expr(p) : NULL;
  ast_stmt *st = new_stmt(p, STMT_RAISE, start);
  st->as.raise.value = value;
  st->as.raise.cause = cause;
  return ended(st, value);
}

static ast_stmt *parse_assert(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_ASSERT);
  ast_expr *cond = parse_expr(p);
  ast_expr *message = parser_accept(p, TK_COMMA) ? parse_expr(p) : NULL;
  ast_stmt *st = new_stmt(p, STMT_ASSERT, start);
  st->as.assertion.cond = cond;
  st->as.assertion.message = message;
  return ended(st, message ? message : cond);
}

static ast_stmt *parse_del(parser *p)
{
  uint32_t start = here(p);
  parser_expect(p, TK_DEL);
  ast_expr *target = parse_exprs(p);
  ast_stmt *st = new_stmt(p, STMT_DEL, start);
  st->as.del = target->kind == EXPR_TUPLE ? target->as.items : parser_one_expr(p, target);
  return ended(st, target);
}

static ast_stmt *parse_global(parser *p)
{
  uint32_t start = here(p);
  lexer_next(&p->lx); /* global or nonlocal */
  const char **names = NULL;
  uint32_t n = 0;
  do {
    const char *name = parser_expect_name(p);
    PUSH(p, names, n, name);
  } while (parser_accept(p, TK_COMMA));
  ast_stmt *st = new_stmt(p, STMT_GLOBAL, start);
  st->as.global.names = names;
  st->as.global.n = n;
  return st;
}

static ast_stmt *parse_word_statement(parser *p, stmt_kind kind)
{
  uint32_t start = here(p);
  lexer_next(&p->lx);
  return new_stmt(p, kind, start);
}

static const char *parse_dotted(parser *p)
{
  uint32_t start = here(p);
  do
    (void)parser_expect_name(p);
  while (parser_accept(p, TK_DOT));
  return slice(p, start, p->lx.last_end);
}

static ast_alias parse_alias(parser *p, bool dotted)
{
  ast_alias a = {NULL, NULL};
  a.name = dotted ? parse_dotted(p) : parser_expect_name(p);
  if (parser_accept(p, TK_AS))
    a.as_name = parser_expect_name(p);
  return a;
}

static ast_stmt *parse_import(parser *p)
{
  uint32_t start = here(p);
  ast_stmt *st = new_stmt(p, STMT_IMPORT, start);
  st->as.import.from = parser_accept(p, TK_FROM);
  if (st->as.import.from) {
    while (at_token(p, TK_DOT) || at_token(p, TK_ELLIPSIS)) {
      st->as.import.level += at_token(p, TK_DOT) ? 1 : 3;
      lexer_next(&p->lx);
    }
    if (!at_token(p, TK_IMPORT))
      st->as.import.module = parse_dotted(p);
  }
  parser_expect(p, TK_IMPORT);
  if (st->as.import.from && parser_accept(p, TK_MUL)) {
    ast_alias all = {"*", NULL};
    PUSH(p, st->as.import.names, st->as.import.n, all);
    return st;
  }
  bool paren = st->as.import.from && parser_accept(p, TK_LPAREN);
  do {
    if (paren && at_token(p, TK_RPAREN))
      break;
    ast_alias a = parse_alias(p, !st->as.import.from);
    PUSH(p, st->as.import.names, st->as.import.n, a);
  } while (parser_accept(p, TK_COMMA));
  if (paren)
    parser_expect(p, TK_RPAREN);
  st->at = parser_range_from(p, start);
  return st;
}

static ast_stmt *parse_simple(parser *p)
{
  switch (p->lx.cur.kind) {
  case TK_RETURN:
    return parse_return(p);
  case TK_RAISE:
    return parse_raise(p);
  case TK_ASSERT:
    return parse_assert(p);
  case TK_DEL:
    return parse_del(p);
  case TK_GLOBAL:
  case TK_NONLOCAL:
    return parse_global(p);
  case TK_PASS:
    return parse_word_statement(p, STMT_PASS);
  case TK_BREAK:
    return parse_word_statement(p, STMT_BREAK);
  case TK_CONTINUE:
    return parse_word_statement(p, STMT_CONTINUE);
  case TK_IMPORT:
  case TK_FROM:
    return parse_import(p);
  default:
    return parse_assign(p);
  }
}

/* -- Statements -------------------------------------------------------------------------------- */

static ast_stmt *parse_compound(parser *p)
{
  switch (p->lx.cur.kind) {
  case TK_IF:
    return parse_if(p);
  case TK_WHILE:
    return parse_while(p);
  case TK_FOR:
    return parse_for(p);
  case TK_WITH:
    return parse_with(p);
  case TK_TRY:
    return parse_try(p);
  case TK_DEF:
  case TK_CLASS:
  case TK_MATMUL:
  case TK_ASYNC:
    return parse_decorated(p);
  default:
    return NULL;
  }
}

/* Fail at the end of a line; `match x:` looks like a name followed by something else. */
static _Noreturn void fail_line_end(parser *p, const ast_stmts *out)
{
  const ast_stmt *st = out->items[out->n - 1];
  const ast_expr *x = st->kind == STMT_EXPR ? st->as.expr : NULL;
  if (x && x->kind == EXPR_NAME && strcmp(x->as.name, "match") == 0)
    session_fail_status(p->s, RUSH_ERAISED, "UnsupportedNodeError", &st->at,
                        "Match aren't supported");
  parser_fail_expected(p, "the end of the line");
}

/* Parse one compound statement, or a line of simple ones. */
static void parse_statement(parser *p, ast_stmts *out)
{
  session_enter(p->s);
  ast_stmt *st = parse_compound(p);
  if (st) {
    PUSH(p, out->items, out->n, st);
  } else {
    do {
      st = parse_simple(p);
      PUSH(p, out->items, out->n, st);
    } while (parser_accept(p, TK_SEMICOLON) && !at_token(p, TK_NEWLINE));
    if (!parser_accept(p, TK_NEWLINE) && !at_token(p, TK_EOF))
      fail_line_end(p, out);
  }
  session_leave(p->s);
}

/* -- Public ------------------------------------------------------------------------------------ */

ast_stmts parse_source(session *s, const source *src, unsigned flags)
{
  parser p = {.s = s, .flags = flags};
  uint32_t start = src->len >= 3 && memcmp(src->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  lexer_init(&p.lx, s, src, start, (uint32_t)src->len);
  ast_stmts body = {NULL, 0};
  while (!at_token(&p, TK_EOF)) {
    if (at_token(&p, TK_INDENT) || at_token(&p, TK_DEDENT))
      parser_fail_expected(&p, "a statement");
    if (!parser_accept(&p, TK_NEWLINE))
      parse_statement(&p, &body);
  }
  return body;
}

ast_def *parse_def_at(session *s, const source *src, uint32_t start, unsigned flags)
{
  parser p = {.s = s, .flags = flags & ~(unsigned)PARSE_SKIP_BODIES};
  lexer_init(&p.lx, s, src, start, (uint32_t)src->len);
  return parse_def(&p);
}

ast_def *parse_def_head(session *s, const source *src, uint32_t start, unsigned flags)
{
  parser p = {.s = s, .flags = flags | PARSE_SKIP_BODIES | PARSE_HEAD_ONLY};
  lexer_init(&p.lx, s, src, start, (uint32_t)src->len);
  return parse_def(&p);
}

ast_def *parse_def_skipped(session *s, const source *src, uint32_t start, unsigned flags)
{
  parser p = {.s = s, .flags = flags | PARSE_SKIP_BODIES};
  lexer_init(&p.lx, s, src, start, (uint32_t)src->len);
  return parse_def(&p);
}

ast_signature parse_signature(session *s, source_range at, unsigned flags)
{
  parser p = {.s = s, .flags = flags};
  lexer_init_inline(&p.lx, s, at.src, at.start, at.end);
  return signature(&p);
}

ast_class *parse_class_at(session *s, const source *src, uint32_t start, unsigned flags)
{
  parser p = {.s = s, .flags = flags};
  lexer_init(&p.lx, s, src, start, (uint32_t)src->len);
  return parse_class(&p);
}

ast_expr *parse_expr_at(session *s, const source *src, uint32_t start)
{
  parser p = {.s = s};
  lexer_init(&p.lx, s, src, start, (uint32_t)src->len);
  return parse_exprs(&p);
}

ast_expr *parse_expr_range(session *s, source_range at, unsigned flags)
{
  parser p = {.s = s, .flags = flags};
  lexer_init_inline(&p.lx, s, at.src, at.start, at.end);
  ast_expr *e = parse_exprs(&p);
  if (!at_token(&p, TK_EOF))
    parser_fail_expected(&p, "the end of the expression");
  return e;
}
