/* script/syntax/parser_int.h -- shared by the parser's files. */
#ifndef RUSH_SCRIPT_PARSER_INT_H
#define RUSH_SCRIPT_PARSER_INT_H

#include "script/syntax/lexer.h"
#include "script/syntax/parser.h"

typedef struct parser {
  lexer lx;
  session *s;
  unsigned flags;
} parser;

/* Append to an array that grows while its length is unknown, by doubling in the arena. */
#define PUSH(p, array, n, item)                                                           \
  do {                                                                                    \
    if (((n) & ((n) - 1)) == 0) /* 0 and powers of two are full */                        \
      (array) = parser_grow_array((p)->s, (array), (n), sizeof *(array));                        \
    (array)[(n)++] = (item);                                                              \
  } while (0)
void *parser_grow_array(session *s, void *old, uint32_t n, size_t item_bytes);

/* -- Tokens ------------------------------------------------------------------------------------ */
static inline bool at_token(const parser *p, token_kind k) { return p->lx.cur.kind == k; }
bool parser_accept(parser *p, token_kind k);
/* Leave the session with "expected WHAT but found ..." unless the token is of kind k; skip it. */
void parser_expect(parser *p, token_kind k);
_Noreturn void parser_fail_expected(parser *p, const char *what);
/* from `start` to the end of the last token */
source_range parser_range_from(parser *p, uint32_t start);
const char *parser_expect_name(parser *p);
static inline uint32_t here(const parser *p) { return p->lx.cur.start; }

/* -- Expressions (parse_expr.c) ---------------------------------------------------------------- */
ast_expr *parser_new_expr(parser *p, expr_kind kind, uint32_t start);
ast_expr *parse_expr(parser *p);        /* no bare tuple */
ast_expr *parse_exprs(parser *p);       /* a, b, *c: a tuple if there is a comma */
ast_expr *parse_target(parser *p);      /* for `for` and `with`: stops before `in` */
ast_exprs parser_one_expr(parser *p, ast_expr *e);
/* Parse parameters up to `close`, which is not consumed. */
ast_param *parse_params(parser *p, token_kind close, bool typed, uint32_t *n);
void parse_call_args(parser *p, ast_exprs *args, ast_keyword **keywords, uint32_t *n_keywords);

/* -- Literals (literal.c) ---------------------------------------------------------------------- */
ast_expr *parse_number(parser *p);
ast_expr *parse_strings(parser *p); /* adjacent ones join; f-strings */

#endif
