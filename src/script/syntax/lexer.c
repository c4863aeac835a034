/* script/syntax/lexer.c -- Python's tokens with indentation (lexer.h): one pass over the text by
 * hand-written scanning, with a stack of indentations and a count of open brackets. Tokens point
 * into the source and copy nothing. Cost: O(bytes). */
#include "script/syntax/lexer.h"

#include <string.h>

typedef struct spelling {
  const char *text;
  uint8_t len;
  bool keyword, operator;
  const char *name; /* in messages */
} spelling;

static const spelling spellings[N_TOKEN_KINDS] = {
#define TOKEN(n, t) [TK_##n] = {NULL, 0, false, false, t},
#define KEYWORD(n, t) [TK_##n] = {t, sizeof(t) - 1, true, false, "'" t "'"},
#define OPERATOR(n, t) [TK_##n] = {t, sizeof(t) - 1, false, true, "'" t "'"},
#include "script/syntax/tokens.def"
};

/* Classes of bytes, as bits: half of a text's bytes are in names, so one table lookup must be
 * enough. */
enum { NAME_START = 1, DIGIT = 2, QUOTE = 4 };
static const uint8_t classes[256] = {
    ['0' ... '9'] = DIGIT, ['A' ... 'Z'] = NAME_START,      ['a' ... 'z'] = NAME_START,
    ['_'] = NAME_START,    [0x80 ... 0xff] = NAME_START, ['"'] = QUOTE,
    ['\''] = QUOTE,
};

static bool is_name_start(unsigned char c) { return classes[c] & NAME_START; }
static bool is_digit(unsigned char c) { return classes[c] & DIGIT; }
static bool is_name_part(unsigned char c) { return classes[c] & (NAME_START | DIGIT); }

/* Return the byte at offset i, or 0 beyond the end. */
static unsigned char peek(const lexer *lx, uint32_t i)
{
  return i < lx->end ? (unsigned char)lx->src->text[i] : 0;
}

static _Noreturn void fail_at(lexer *lx, uint32_t start, uint32_t end, const char *what)
{
  source_range at = {lx->src, start, end > start ? end : start + 1};
  if (at.end > lx->src->len)
    at.end = (uint32_t)lx->src->len;
  session_fail(lx->s, &at, "%s", what);
}

/* -- Trivia ------------------------------------------------------------------------------------ */

static bool is_type_comment(const char *p, size_t len)
{
  size_t i = 1;
  while (i < len && (p[i] == ' ' || p[i] == '\t'))
    i++;
  if (len - i < 5 || memcmp(p + i, "type:", 5) != 0)
    return false;
  i += 5;
  while (i < len && (p[i] == ' ' || p[i] == '\t'))
    i++;
  return !(len - i >= 6 && memcmp(p + i, "ignore", 6) == 0);
}

/* From '#' at lx->pos, skip to the end of the line, recording a type comment. */
static void skip_comment(lexer *lx)
{
  uint32_t start = lx->pos;
  while (lx->pos < lx->end && peek(lx, lx->pos) != '\n')
    lx->pos++;
  if (!is_type_comment(lx->src->text + start, lx->pos - start))
    return;
  const char *colon = memchr(lx->src->text + start, ':', lx->pos - start);
  lx->cur.comment_start = (uint32_t)(colon + 1 - lx->src->text);
  lx->cur.comment_end = lx->pos;
}

/* Skip spaces, joined lines and, inside brackets, newlines and comments. */
static void skip_spaces(lexer *lx)
{
  for (;;) {
    unsigned char c = peek(lx, lx->pos);
    if (LIKELY(c > ' ' && c != '\\' && c != '#'))
      return;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || (c == '\n' && lx->brackets > 0)) {
      lx->pos++;
    } else if (c == '\\' && peek(lx, lx->pos + 1) == '\n') {
      lx->pos += 2;
    } else if (c == '\\' && peek(lx, lx->pos + 1) == '\r' && peek(lx, lx->pos + 2) == '\n') {
      lx->pos += 3;
    } else if (c == '#') {
      skip_comment(lx);
    } else {
      return;
    }
  }
}

static uint32_t measure_indent(lexer *lx)
{
  uint32_t column = 0;
  while (lx->pos < lx->end && lx->src->text[lx->pos] == ' ') {
    lx->pos++;
    column++;
  }
  for (;; lx->pos++) {
    unsigned char c = peek(lx, lx->pos);
    if (c == ' ')
      column++;
    else if (c == '\t')
      column = (column / 8 + 1) * 8;
    else if (c == '\f')
      column = 0;
    else if (c != '\r')
      return column;
  }
}

/* At the start of a line, skip blank and comment lines; returns the column of the next line. */
static uint32_t skip_blank_lines(lexer *lx)
{
  for (;;) {
    uint32_t column = measure_indent(lx);
    if (peek(lx, lx->pos) == '#')
      skip_comment(lx);
    if (lx->pos >= lx->end)
      return 0;
    if (peek(lx, lx->pos) != '\n')
      return column;
    lx->pos++;
  }
}

/* -- Tokens ------------------------------------------------------------------------------------ */

static void finish(lexer *lx, token_kind kind, uint32_t start)
{
  lx->cur.kind = kind;
  lx->cur.start = start;
  lx->cur.end = lx->pos;
}

/* Return the first keyword that begins with this letter, of either case: they are in alphabetical
 * order. */
static int first_keyword(char letter)
{
  switch (letter | 0x20) {
  case 'a': return TK_AND;
  case 'b': return TK_BREAK;
  case 'c': return TK_CLASS;
  case 'd': return TK_DEF;
  case 'e': return TK_ELIF;
  case 'f': return TK_FALSE;
  case 'g': return TK_GLOBAL;
  case 'i': return TK_IF;
  case 'l': return TK_LAMBDA;
  case 'n': return TK_NONE;
  case 'o': return TK_OR;
  case 'p': return TK_PASS;
  case 'r': return TK_RAISE;
  case 't': return TK_TRUE;
  case 'w': return TK_WHILE;
  case 'y': return TK_YIELD;
  default: return TK_YIELD + 1;
  }
}

static void lex_name(lexer *lx)
{
  uint32_t start = lx->pos, at = start + 1;
  const char *text = lx->src->text, *p = text + start;
  while (at < lx->end && is_name_part((unsigned char)text[at]))
    at++;
  lx->pos = at;
  uint32_t len = at - start;
  finish(lx, TK_NAME, start);
  if (len < 2 || len > 8)
    return;
  for (int k = first_keyword(p[0]); k <= TK_YIELD && (spellings[k].text[0] | 0x20) == (p[0] | 0x20);
       k++)
    if (spellings[k].len == len && spellings[k].text[1] == p[1] &&
        memcmp(spellings[k].text, p, len) == 0)
      lx->cur.kind = (token_kind)k;
}

static void skip_digits(lexer *lx)
{
  while (is_digit(peek(lx, lx->pos)) || peek(lx, lx->pos) == '_')
    lx->pos++;
}

static void lex_number(lexer *lx)
{
  uint32_t start = lx->pos;
  unsigned char second = peek(lx, start + 1) | 0x20;
  if (peek(lx, start) == '0' && (second == 'x' || second == 'b' || second == 'o')) {
    lx->pos += 2;
    while (is_name_part(peek(lx, lx->pos)))
      lx->pos++;
    finish(lx, TK_NUMBER, start);
    return;
  }
  skip_digits(lx);
  if (peek(lx, lx->pos) == '.') {
    lx->pos++;
    skip_digits(lx);
  }
  unsigned char sign = peek(lx, lx->pos + 1);
  if ((peek(lx, lx->pos) | 0x20) == 'e' &&
      (is_digit(sign) || ((sign == '+' || sign == '-') && is_digit(peek(lx, lx->pos + 2))))) {
    lx->pos += 2;
    skip_digits(lx);
  }
  if ((peek(lx, lx->pos) | 0x20) == 'j')
    lx->pos++;
  finish(lx, TK_NUMBER, start);
  if (is_name_start(peek(lx, lx->pos)))
    fail_at(lx, start, lx->pos + 1, "invalid number");
}

/* Return the length of a string prefix (r, b, f, u and pairs) followed by a quote, or -1. */
static int string_prefix(const lexer *lx)
{
  for (int i = 0; i < 3; i++) {
    unsigned char c = peek(lx, lx->pos + (uint32_t)i);
    if (classes[c] & QUOTE)
      return i;
    c |= 0x20;
    if (c != 'r' && c != 'b' && c != 'f' && c != 'u')
      return -1;
  }
  return -1;
}

static void lex_string(lexer *lx, uint32_t prefix)
{
  uint32_t start = lx->pos;
  lx->pos += prefix;
  unsigned char quote = peek(lx, lx->pos);
  bool triple = peek(lx, lx->pos + 1) == quote && peek(lx, lx->pos + 2) == quote;
  lx->pos += triple ? 3 : 1;
  for (;;) {
    if (lx->pos >= lx->end || (!triple && peek(lx, lx->pos) == '\n'))
      fail_at(lx, start, start + prefix + 1, "unterminated string");
    unsigned char c = peek(lx, lx->pos);
    if (c == '\\') {
      lx->pos += 2;
    } else if (c == quote && !triple) {
      lx->pos++;
      break;
    } else if (c == quote && peek(lx, lx->pos + 1) == quote && peek(lx, lx->pos + 2) == quote) {
      lx->pos += 3;
      break;
    } else {
      lx->pos++;
    }
  }
  finish(lx, TK_STRING, start);
}

/* Return the kind of brackets and frequent single characters, without a search; N_TOKEN_KINDS:
 * another. */
static token_kind lone_operator(unsigned char first, unsigned char second)
{
  switch (first) {
  case '(': return TK_LPAREN;
  case ')': return TK_RPAREN;
  case '[': return TK_LBRACKET;
  case ']': return TK_RBRACKET;
  case '{': return TK_LBRACE;
  case '}': return TK_RBRACE;
  case ',': return TK_COMMA;
  case ':': return second == '=' ? N_TOKEN_KINDS : TK_COLON;
  case '=': return second == '=' ? TK_EQ : TK_ASSIGN;
  case '.': return second == '.' ? N_TOKEN_KINDS : TK_DOT;
  case '+': return second == '=' ? TK_ADD_EQ : TK_ADD;
  case '-': return second == '=' ? TK_SUB_EQ : second == '>' ? TK_ARROW : TK_SUB;
  case '*': return second == '=' || second == '*' ? N_TOKEN_KINDS : TK_MUL;
  default: return N_TOKEN_KINDS;
  }
}

static token_kind find_operator(lexer *lx, uint32_t start)
{
  const char *p = lx->src->text + start;
  for (int k = TK_POW_EQ; k < N_TOKEN_KINDS; k++)
    if (spellings[k].text[0] == *p && lx->end - start >= spellings[k].len &&
        memcmp(p, spellings[k].text, spellings[k].len) == 0)
      return (token_kind)k;
  fail_at(lx, start, start + 1, "unexpected character");
}

static void lex_operator(lexer *lx)
{
  uint32_t start = lx->pos;
  token_kind k = lone_operator(peek(lx, start), peek(lx, start + 1));
  if (k == N_TOKEN_KINDS)
    k = find_operator(lx, start);
  if (k == TK_LPAREN || k == TK_LBRACKET || k == TK_LBRACE)
    lx->brackets++;
  if ((k == TK_RPAREN || k == TK_RBRACKET || k == TK_RBRACE) && lx->brackets > 0)
    lx->brackets--;
  lx->pos += spellings[k].len;
  finish(lx, k, start);
}

/* -- Lines ------------------------------------------------------------------------------------- */

/* Lex an INDENT or the first of some DEDENTs before the first token of a line; returns true if
 * there was one. */
static bool lex_indent(lexer *lx)
{
  uint32_t column = skip_blank_lines(lx);
  lx->line_start = false;
  uint32_t top = lx->indents[lx->n_indents - 1];
  if (lx->pos >= lx->end)
    column = lx->indents[0];
  if (column == top)
    return false;
  if (column > top) {
    if (lx->n_indents == LEXER_MAX_INDENTS)
      session_fail_status(lx->s, RUSH_ELIMIT, NULL, NULL,
                          "more than %d indented blocks inside each other", LEXER_MAX_INDENTS - 1);
    lx->indents[lx->n_indents++] = column;
    finish(lx, TK_INDENT, lx->pos);
    return true;
  }
  while (lx->n_indents > 1 && lx->indents[lx->n_indents - 1] > column) {
    lx->n_indents--;
    lx->n_dedents++;
  }
  if (column > lx->indents[lx->n_indents - 1])
    fail_at(lx, lx->pos, lx->pos + 1, "unindent does not match any outer indentation level");
  if (lx->n_dedents == 0)
    return false;
  lx->n_dedents--;
  finish(lx, TK_DEDENT, lx->pos);
  return true;
}

/* Close the line and the open blocks at the end of the text. */
static void lex_end(lexer *lx)
{
  if (lx->brackets == 0 && !lx->line_start && lx->cur.kind != TK_NEWLINE &&
      lx->cur.kind != TK_DEDENT && lx->cur.kind != TK_EOF) {
    lx->line_start = true;
    finish(lx, TK_NEWLINE, lx->pos);
    return;
  }
  if (lx->n_indents > 1) {
    lx->n_indents--;
    finish(lx, TK_DEDENT, lx->pos);
    return;
  }
  finish(lx, TK_EOF, lx->pos);
}

void lexer_next(lexer *lx)
{
  session_poll(lx->s);
  lx->last_end = lx->cur.end;
  lx->cur.comment_start = lx->cur.comment_end = 0;
  if (lx->n_dedents > 0) {
    lx->n_dedents--;
    finish(lx, TK_DEDENT, lx->pos);
    return;
  }
  if (lx->line_start && lx->brackets == 0 && lex_indent(lx))
    return;
  skip_spaces(lx);
  if (lx->pos >= lx->end) {
    lex_end(lx);
    return;
  }
  unsigned char c = peek(lx, lx->pos);
  int prefix;
  if (c == '\n') {
    uint32_t start = lx->pos++;
    lx->line_start = true;
    finish(lx, TK_NEWLINE, start);
  } else if (is_name_start(c) || c == '"' || c == '\'') {
    if ((prefix = string_prefix(lx)) >= 0)
      lex_string(lx, (uint32_t)prefix);
    else
      lex_name(lx);
  } else if (is_digit(c) || (c == '.' && is_digit(peek(lx, lx->pos + 1)))) {
    lex_number(lx);
  } else {
    lex_operator(lx);
  }
}

void lexer_skip_block(lexer *lx)
{
  uint32_t depth = 0;
  do {
    if (lx->cur.kind == TK_INDENT)
      depth++;
    else if (lx->cur.kind == TK_DEDENT)
      depth--;
    else if (lx->cur.kind == TK_EOF)
      return;
    lexer_next(lx);
  } while (depth > 0);
}

static void init(lexer *lx, session *s, const source *src, uint32_t start, uint32_t end)
{
  memset(lx, 0, sizeof *lx);
  lx->s = s;
  lx->src = src;
  lx->pos = start;
  lx->end = end;
  lx->n_indents = 1;
  lx->cur.kind = TK_EOF;
  lx->cur.end = start;
}

void lexer_init(lexer *lx, session *s, const source *src, uint32_t start, uint32_t end)
{
  init(lx, s, src, start, end);
  lx->line_start = true;
  uint32_t line = start;
  while (line > 0 && src->text[line - 1] != '\n')
    line--;
  if (line ==
      start) { /* a function that was cut from a class or from another function is indented */
    uint32_t keep = lx->pos;
    lx->indents[0] = skip_blank_lines(lx);
    lx->pos = keep;
  } else {
    lx->pos = line;
    lx->indents[0] = measure_indent(lx);
    lx->pos = start;
    lx->line_start = false;
  }
  lx->cur.comment_start = lx->cur.comment_end = 0;
  lexer_next(lx);
}

void lexer_init_inline(lexer *lx, session *s, const source *src, uint32_t start, uint32_t end)
{
  init(lx, s, src, start, end);
  lx->brackets = 1;
  lexer_next(lx);
}

const char *token_kind_name(token_kind k) { return spellings[k].name; }

const char *token_text(lexer *lx, const token *t)
{
  if (t->kind == TK_NAME || t->kind == TK_NUMBER || t->kind == TK_STRING) {
    uint32_t len = t->end - t->start;
    return session_printf(lx->s, "'%.*s%s'", (int)(len > 40 ? 40 : len), lx->src->text + t->start,
                          len > 40 ? "..." : "");
  }
  return spellings[t->kind].name;
}
