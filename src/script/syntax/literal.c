/* script/syntax/literal.c -- the values of number and string tokens: integers, floats, imaginary
 * numbers, and strings with their escapes, prefixes and f-string fields. Adjacent literals are
 * joined while they are decoded, into one buffer that grows in place. The fields of f-strings are
 * parsed as expressions by the same parser, so this cannot be part of the lexer. */
#include <string.h>

#include "base/number.h"
#include "script/syntax/parser_int.h"

/* -- Numbers ----------------------------------------------------------------------------------- */

static unsigned digit_value(char c)
{
  if (c >= '0' && c <= '9')
    return (unsigned)(c - '0');
  if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
    return (unsigned)((c | 0x20) - 'a') + 10;
  return 99;
}

static ast_expr *integer(parser *p, source_range at, const char *digits, unsigned base)
{
  uint64_t value = 0;
  for (; *digits; digits++) {
    unsigned d = digit_value(*digits);
    if (d >= base)
      session_fail(p->s, &at, "invalid digit '%c' in a number of base %u", *digits, base);
    if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
        __builtin_add_overflow(value, (uint64_t)d, &value) || value > (uint64_t)INT64_MAX + 1)
      session_fail(p->s, &at,
                   "Integral constant out of range (must fit in a signed 64 bit integer)");
  }
  ast_expr *e = parser_new_expr(p, EXPR_INT, at.start);
  e->as.integer = (int64_t)value;
  e->op = value > (uint64_t)INT64_MAX ? OP_NEG : OP_NONE; /* see ast.h */
  return e;
}

ast_expr *parse_number(parser *p)
{
  source_range at = token_range(&p->lx, &p->lx.cur);
  uint32_t len = at.end - at.start, n = 0;
  char *text = session_alloc(p->s, len + 1);
  for (uint32_t i = 0; i < len; i++)
    if (at.src->text[at.start + i] != '_')
      text[n++] = at.src->text[at.start + i];
  lexer_next(&p->lx);
  char second = n > 1 ? (char)(text[1] | 0x20) : 0;
  if (text[0] == '0' && (second == 'x' || second == 'o' || second == 'b'))
    return integer(p, at, text + 2, second == 'x' ? 16 : second == 'o' ? 8 : 2);
  bool imag = (text[n - 1] | 0x20) == 'j';
  if (!imag && !strpbrk(text, ".eE"))
    return integer(p, at, text, 10);
  if (imag)
    text[n - 1] = '\0';
  ast_expr *e = parser_new_expr(p, imag ? EXPR_IMAG : EXPR_FLOAT, at.start);
  if (!float_parse(text, strlen(text), &e->as.number))
    session_fail(p->s, &at, "invalid number");
  return e;
}

/* -- Strings ----------------------------------------------------------------------------------- */

typedef struct string_token {
  uint32_t start, end; /* of the content */
  bool raw, bytes, format;
} string_token;

static string_token split_token(const parser *p)
{
  const char *text = p->lx.src->text;
  string_token t = {p->lx.cur.start, p->lx.cur.end, false, false, false};
  for (; text[t.start] != '"' && text[t.start] != '\''; t.start++) {
    char c = (char)(text[t.start] | 0x20);
    t.raw |= c == 'r';
    t.bytes |= c == 'b';
    t.format |= c == 'f';
  }
  bool triple = t.end - t.start >= 6 && text[t.start + 1] == text[t.start] &&
                text[t.start + 2] == text[t.start];
  t.start += triple ? 3 : 1;
  t.end -= triple ? 3 : 1;
  return t;
}

/* The content is decoded in place: an escape never makes text longer, except for code points 128 to
 * 255. */
typedef struct string_buf {
  char *data;
  size_t len, cap;
} string_buf;

static void put_code_point(string_buf *b, uint32_t c)
{
  if (c < 0x80) {
    b->data[b->len++] = (char)c;
  } else if (c < 0x800) {
    b->data[b->len++] = (char)(0xc0 | c >> 6);
    b->data[b->len++] = (char)(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    b->data[b->len++] = (char)(0xe0 | c >> 12);
    b->data[b->len++] = (char)(0x80 | (c >> 6 & 0x3f));
    b->data[b->len++] = (char)(0x80 | (c & 0x3f));
  } else {
    b->data[b->len++] = (char)(0xf0 | c >> 18);
    b->data[b->len++] = (char)(0x80 | (c >> 12 & 0x3f));
    b->data[b->len++] = (char)(0x80 | (c >> 6 & 0x3f));
    b->data[b->len++] = (char)(0x80 | (c & 0x3f));
  }
}

/* Read up to max digits of the base at *i; exactly max unless `fewer`. */
static uint32_t read_digits(parser *p, const string_token *t, uint32_t *i, unsigned base,
                            unsigned max, bool fewer)
{
  const char *text = p->lx.src->text;
  uint32_t value = 0, start = *i;
  unsigned n = 0;
  for (; n < max && *i < t->end && digit_value(text[*i]) < base; n++)
    value = value * base + digit_value(text[(*i)++]);
  if (n < max && !(fewer && n > 0)) {
    source_range at = {p->lx.src, start - 2, *i};
    session_fail(p->s, &at, "truncated escape in a string: %u digits are needed", max);
  }
  return value;
}

static int simple_escape(char c)
{
  static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
  const char *found = c ? strchr(from, c) : NULL;
  return found ? to[found - from] : -1;
}

/* Decode an escape; text[*i] is the character after a backslash. */
static void put_escape(parser *p, const string_token *t, string_buf *b, uint32_t *i)
{
  const char *text = p->lx.src->text;
  char c = text[*i];
  int simple = simple_escape(c);
  bool as_byte = t->bytes || (p->flags & PARSE_RAW_BYTES);
  uint32_t value;
  if (c == '\n') {
    ++*i;
    return;
  }
  if (simple >= 0) {
    ++*i;
    b->data[b->len++] = (char)simple;
    return;
  }
  if (c >= '0' && c <= '7') {
    value = read_digits(p, t, i, 8, 3, true);
  } else if (c == 'x' || (!t->bytes && (c == 'u' || c == 'U'))) {
    ++*i;
    value = read_digits(p, t, i, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8, false);
    as_byte = as_byte && c == 'x';
  } else if (c == 'N' && !t->bytes) {
    source_range at = {p->lx.src, *i - 1, *i + 1};
    session_fail(p->s, &at, "named characters (\\N{...}) are not supported: use \\u or \\U");
  } else {
    b->data[b->len++] = '\\'; /* Python keeps the backslash of an unknown escape */
    return;
  }
  if (value > 0x10ffff) {
    source_range at = {p->lx.src, *i - 1, *i};
    session_fail(p->s, &at, "no such character: \\U%08x", (unsigned)value);
  }
  if (as_byte)
    b->data[b->len++] = (char)value;
  else
    put_code_point(b, value);
}

/* Decode [from, to) of a literal; doubled braces of an f-string become single. */
static void decode(parser *p, const string_token *t, string_buf *b, uint32_t from, uint32_t to)
{
  const char *text = p->lx.src->text;
  for (uint32_t i = from; i < to;) {
    char c = text[i++];
    if (c == '\\' && !t->raw && i < to) {
      put_escape(p, t, b, &i);
      continue;
    }
    if (t->format && (c == '{' || c == '}') && i < to && text[i] == c)
      i++;
    if (c == '\r' && i < to && text[i] == '\n')
      continue; /* a text's line ends are one character */
    b->data[b->len++] = c;
  }
}

static ast_expr *string_expr(parser *p, const string_buf *b, bool bytes, uint32_t start)
{
  ast_expr *e = parser_new_expr(p, bytes ? EXPR_BYTES : EXPR_STRING, start);
  e->as.string.data = session_strndup(p->s, b->data ? b->data : "", b->len);
  e->as.string.len = b->len;
  if (p->flags & PARSE_TREE_RANGES)
    e->at.end = start + (uint32_t)b->len + (bytes ? 3 : 1); /* a bytes' repr */
  return e;
}

/* -- f-strings --------------------------------------------------------------------------------- */

/* Return the end of the replacement field that starts after '{' at i; *expr_end is the end of its
 * expression. */
static uint32_t field_end(parser *p, const string_token *t, uint32_t i, uint32_t *expr_end)
{
  const char *text = p->lx.src->text;
  uint32_t start = i, depth = 0;
  *expr_end = 0;
  for (char quote = 0; i < t->end; i++) {
    char c = text[i];
    if (quote) {
      quote = c == quote ? 0 : quote;
    } else if (!*expr_end && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      depth++;
    } else if (depth > 0 && (c == ')' || c == ']' || c == '}')) {
      depth--;
    } else if (c == '}') {
      if (!*expr_end)
        *expr_end = i;
      return i;
    } else if (depth == 0 && !*expr_end &&
               (c == ':' || (c == '!' && i + 1 < t->end && text[i + 1] != '='))) {
      *expr_end = i;
    }
  }
  source_range at = {p->lx.src, start - 1, start};
  session_fail(p->s, &at, "f-string: expected '}'");
}

static ast_expr *parse_field(parser *p, const string_token *t, uint32_t *i)
{
  const char *text = p->lx.src->text;
  uint32_t expr_end, end = field_end(p, t, *i, &expr_end);
  source_range at = {p->lx.src, *i, expr_end};
  ast_expr *e = parser_new_expr(p, EXPR_FORMAT, *i - 1);
  e->at.end = end + 1;
  e->as.format.value = parse_expr_range(p->s, at, p->flags);
  if (text[expr_end] == '!') {
    e->as.format.conversion = text[expr_end + 1];
    expr_end += 2;
  }
  if (text[expr_end] == ':')
    e->as.format.spec = session_strndup(p->s, text + expr_end + 1, end - expr_end - 1);
  else if (expr_end != end)
    session_fail(p->s, &e->at, "f-string: expected '}' after the conversion character");
  *i = end + 1;
  return e;
}

/* -- Adjacent literals ------------------------------------------------------------------------- */

typedef struct joined {
  ast_expr **pieces;
  uint32_t n, start;
  string_buf text; /* literal text not yet in a piece */
  bool bytes, format;
} joined;

static void flush(parser *p, joined *j)
{
  if (j->text.len == 0)
    return;
  ast_expr *e = string_expr(p, &j->text, false, j->start);
  PUSH(p, j->pieces, j->n, e);
  j->text.len = 0;
}

static void add_format_token(parser *p, joined *j, const string_token *t)
{
  const char *text = p->lx.src->text;
  for (uint32_t i = t->start; i < t->end;) {
    uint32_t from = i;
    while (i < t->end && text[i] != '{' && text[i] != '}')
      i += text[i] == '\\' && !t->raw && i + 1 < t->end ? 2 : 1;
    bool doubled = i + 1 < t->end && text[i + 1] == text[i];
    if (i < t->end && doubled)
      i += 2;
    decode(p, t, &j->text, from, i);
    if (i >= t->end || doubled)
      continue;
    if (text[i] == '}') {
      source_range at = {p->lx.src, i, i + 1};
      session_fail(p->s, &at, "f-string: single '}' is not allowed");
    }
    flush(p, j);
    i++;
    ast_expr *field = parse_field(p, t, &i);
    PUSH(p, j->pieces, j->n, field);
  }
}

static void reserve(parser *p, string_buf *b, size_t more)
{
  if (b->cap - b->len >= more)
    return;
  size_t cap = b->len + more + b->cap;
  char *grown = session_alloc(p->s, cap);
  if (b->len)
    memcpy(grown, b->data, b->len);
  b->data = grown;
  b->cap = cap;
}

static void add_token(parser *p, joined *j)
{
  string_token t = split_token(p);
  reserve(p, &j->text, 2 * (size_t)(t.end - t.start) + 1);
  j->bytes |= t.bytes;
  j->format |= t.format;
  if (t.format)
    add_format_token(p, j, &t);
  else
    decode(p, &t, &j->text, t.start, t.end);
}

ast_expr *parse_strings(parser *p)
{
  joined j = {.start = here(p)};
  while (at_token(p, TK_STRING)) {
    session_enter(p->s); /* f-strings nest */
    add_token(p, &j);
    session_leave(p->s);
    lexer_next(&p->lx);
  }
  if (!j.format)
    return string_expr(p, &j.text, j.bytes, j.start);
  flush(p, &j);
  ast_expr *e = parser_new_expr(p, EXPR_FSTRING, j.start);
  if (p->flags & PARSE_TREE_RANGES)
    e->at.end = j.n && j.pieces[j.n - 1]->kind == EXPR_FORMAT
                  ? j.pieces[j.n - 1]->as.format.value->at.end
                  : j.start + 1;
  e->as.items = (ast_exprs){j.pieces, j.n};
  return e;
}
