/* export/guard_text.c -- the text of a condition as Python's ast.unparse has it.
 *
 * PyTorch shows a failed guard after parsing and unparsing its code, which drops needless
 * parentheses: `((-1) + L['x'].size()[0]) == 4` becomes `-1 + x.size()[0] == 4`.  Expression trees
 * do not keep the text's structure (a difference is a sum there), so that the text is made from the
 * text: one operator-precedence pass that writes what it reads, and puts parentheses around what is
 * written already if the operator that follows needs them.
 *
 * Only what expression_read accepts arrives here.  Cost: quadratic in the text, which is limited.
 * */
#include "export/guard_int.h"
#include "base/number.h"

/* Python's precedences, as the module ast names them. */
typedef enum level {
  TEST,
  OR,
  AND,
  NOT,
  CMP,
  BOR,
  BXOR,
  BAND,
  SHIFT,
  ARITH,
  TERM,
  FACTOR,
  POWER,
  ATOM
} level;

typedef struct writer {
  session *s;
  const char *p;
  text_buf *t;
} writer;

typedef struct operator_text {
  const char *read;
  level level;
} operator_text;
/* An operator that begins with another one comes before it. */
static const operator_text operators[] = {
  {"or", OR},    {"and", AND}, {"==", CMP},    {"!=", CMP},  {"<=", CMP},   {">=", CMP},
  {"<<", SHIFT}, {">>", SHIFT}, {"<", CMP},    {">", CMP},   {"|", BOR},    {"^", BXOR},
  {"&", BAND},   {"+", ARITH}, {"-", ARITH},   {"**", POWER}, {"*", TERM},  {"//", TERM},
  {"/", TERM},   {"%", TERM},
};

static level put_expression(writer *w, level least);

/* -- Tokens ------------------------------------------------------------------------------------ */

static bool in_word(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') ||
         (unsigned char)c >= 0x80;
}

static bool take(writer *w, const char *token)
{
  const size_t n = strlen(token);

  while (*w->p == ' ' || *w->p == '\n' || *w->p == '\t')
    w->p++;
  if (strncmp(w->p, token, n) != 0 || (in_word(*token) && in_word(w->p[n])))
    return false;
  w->p += n;
  return true;
}

/* Put parentheses around what was written from `start`. */
static void wrap(writer *w, size_t start, bool needed)
{
  if (!needed)
    return;
  text_puts(w->t, "()");
  if (text_failed(w->t))
    session_check(w->s, call_nomem(w->s->cx));
  memmove(w->t->data + start + 1, w->t->data + start, w->t->len - start - 2);
  w->t->data[start] = '(';
}

static void put_string(writer *w)
{
  const char quote = *w->p++, *first = w->p;

  while (*w->p != quote)
    w->p++;
  text_quote(w->t, first, (size_t)(w->p++ - first));
}

/* Put [3] or ['key']. */
static void put_subscript(writer *w)
{
  text_putc(w->t, '[');
  (void)take(w, "");
  if (*w->p == '\'' || *w->p == '"')
    put_string(w);
  else if (take(w, "-"))
    text_putc(w->t, '-');
  (void)take(w, "");
  while (*w->p >= '0' && *w->p <= '9')
    text_putc(w->t, *w->p++);
  text_putc(w->t, ']');
  (void)take(w, "]");
}

/* -- Expressions ------------------------------------------------------------------------------- */

static void put_arguments(writer *w)
{
  text_putc(w->t, '(');
  for (int i = 0; !take(w, ")"); i++) {
    if (i && !take(w, ","))
      session_fail(w->s, NULL, "a guard's call does not end"); /* expression_read took it */
    text_puts(w->t, i ? ", " : "");
    (void)put_expression(w, TEST);
  }
  text_putc(w->t, ')');
}

/* Put a name with what is applied to it; L['x'] is the parameter x. */
static level put_name(writer *w)
{
  const char *first = w->p;
  size_t start = w->t->len;

  while (in_word(*w->p))
    text_putc(w->t, *w->p++);
  bool is_parameter = w->p - first == 1 && *first == 'L';
  for (;; is_parameter = false) {
    if (take(w, ".")) {
      (void)take(w, "");
      text_putc(w->t, '.');
      while (in_word(*w->p))
        text_putc(w->t, *w->p++);
    } else if (take(w, "[")) {
      const char *key = w->p;
      put_subscript(w);
      if (is_parameter && (*key == '\'' || *key == '"')) { /* L['x'] */
        w->t->len = start;
        text_add(w->t, key + 1, strcspn(key + 1, (const char[]){*key, 0}));
      }
    } else if (take(w, "(")) {
      put_arguments(w);
    } else {
      return ATOM;
    }
  }
}

static level put_literal(writer *w)
{
  const char *first = w->p;
  bool whole = true;
  double d;

  for (; (*w->p >= '0' && *w->p <= '9') || *w->p == '.' || *w->p == 'e' ||
         ((*w->p == '-' || *w->p == '+') && w->p[-1] == 'e');
       w->p++)
    whole = whole && *w->p >= '0' && *w->p <= '9';
  if (whole || !float_parse(first, (size_t)(w->p - first), &d)) {
    text_add(w->t, first, (size_t)(w->p - first));
  } else {
    char digits[FLOAT_REPR_BYTES];
    text_add(w->t, digits, float_repr(d, digits));
  }
  return ATOM;
}

/* Put an operand with its prefix; returns how tightly it binds.  Parentheses are dropped. */
static level put_operand(writer *w)
{
  const bool minus = take(w, "-"), negation = !minus && take(w, "not");

  if (minus || negation) {
    const level own = minus ? FACTOR : NOT;
    text_puts(w->t, minus ? "-" : "not ");
    const size_t start = w->t->len;
    const level inner = put_expression(w, own);
    wrap(w, start, inner < own);
    return own;
  }
  if (take(w, "(")) {
    const level inner = put_expression(w, TEST);
    (void)take(w, ")");
    return inner;
  }
  return (*w->p >= '0' && *w->p <= '9') || *w->p == '.' ? put_literal(w) : put_name(w);
}

static const operator_text *peek(writer *w, level least)
{
  (void)take(w, "");
  for (size_t i = 0; i < COUNT_OF(operators); i++) {
    const char *read = operators[i].read;
    const size_t n = strlen(read);
    if (strncmp(w->p, read, n) == 0 && !(in_word(*read) && in_word(w->p[n])))
      return operators[i].level >= least ? &operators[i] : NULL;
  }
  return NULL;
}

/* What the loop of put_expression has written: it begins at `start` and binds as `binds`. */
typedef struct written {
  size_t start;
  level binds;
  level chain; /* of the operator that made it, or TEST */
  int n;       /* operands of that operator, if it takes many: and, or, a < b < c */
} written;

/* Put the operator and its right operand.  Python wants each further operand of `and` and `or` to
 * bind a level tighter than the one before: `a or (b and c)`, `a < 1 or b or c or (d < 1)`. */
static void put_infix(writer *w, const operator_text *op, written *left)
{
  const bool power = op->level == POWER, flat = op->level <= CMP;
  const bool goes_on = flat && left->chain == op->level;

  wrap(w, left->start, !goes_on && left->binds < op->level + (power || flat));
  text_printf(w->t, " %s ", op->read);
  w->p += strlen(op->read);
  left->n = goes_on ? left->n + 1 : 2;
  const size_t at = w->t->len;
  const level right = put_expression(w, power ? FACTOR : op->level + 1);
  const int needed = op->level + (op->level < CMP ? left->n : !power);
  wrap(w, at, (int)right < (needed < ATOM ? needed : ATOM));
  left->binds = left->chain = op->level;
}

static level put_expression(writer *w, level least)
{
  written left = {.start = w->t->len, .chain = TEST};

  session_enter(w->s);
  left.binds = put_operand(w);
  for (const operator_text *op; (op = peek(w, least)) != NULL;)
    put_infix(w, op, &left);
  if (least == TEST && take(w, "if")) {
    wrap(w, left.start, left.binds < OR);
    text_puts(w->t, " if ");
    const size_t at = w->t->len;
    const level condition = put_expression(w, OR);
    wrap(w, at, condition < OR);
    (void)take(w, "else");
    text_puts(w->t, " else ");
    (void)put_expression(w, TEST);
    left.binds = TEST;
  }
  session_leave(w->s);
  return left.binds;
}

void guard_unparse(session *s, text_buf *out, const char *text)
{
  writer w = {.s = s, .p = text, .t = out};

  (void)put_expression(&w, TEST);
}
