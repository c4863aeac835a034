/* shape/expression_read.c -- parses sympy's srepr and str, and Python's expressions.
 *
 * One operator-precedence parser (Pratt) for all three: srepr is calls of constructors,
 * Integer(2) or Symbol('s0', positive=True), which are ordinary calls of the grammar that str and
 * Python share.  Sums, products and the logical operators collect all operands of a chain into one
 * node, so that depth is that of parentheses and not of length.
 *
 * Subtraction is the sum with a negated term, division in sympy's texts the product with an
 * inverse, as sympy has them.  Numbers in a product become its one coefficient, which is first.
 * Python's ** is PowByNatural or FloatPow: torch's Python printer writes Pow as a product.
 *
 * Cost: linear.  Nesting is limited by the session and EXPRESSION_MOST_DEPTH. */
#include "shape/expression_int.h"
#include "base/grow.h"
#include "base/number.h"

typedef enum bind_level {
  BIND_ANY,
  BIND_OR,
  BIND_AND,
  BIND_NOT,
  BIND_COMPARE,
  BIND_BIT_OR,
  BIND_BIT_XOR,
  BIND_BIT_AND,
  BIND_SHIFT,
  BIND_SUM,
  BIND_TERM,
  BIND_UNARY,
  BIND_POWER
} bind_level;

typedef struct infix {
  const char *text;
  bind_level bind;
  expression_kind kind, in_python; /* Python's, where it differs; else EXPRESSION_NUMBER */
} infix;
/* An operator that begins with another one comes before it. */
static const infix infixes[] = {
  {"or", BIND_OR, EXPRESSION_OR, 0},
  {"and", BIND_AND, EXPRESSION_AND, 0},
  {"==", BIND_COMPARE, EXPRESSION_EQ, 0},
  {"!=", BIND_COMPARE, EXPRESSION_NE, 0},
  {"<=", BIND_COMPARE, EXPRESSION_LE, 0},
  {">=", BIND_COMPARE, EXPRESSION_GE, 0},
  {"<<", BIND_SHIFT, EXPRESSION_LSHIFT, 0},
  {">>", BIND_SHIFT, EXPRESSION_RSHIFT, 0},
  {"<", BIND_COMPARE, EXPRESSION_LT, 0},
  {">", BIND_COMPARE, EXPRESSION_GT, 0},
  {"|", BIND_BIT_OR, EXPRESSION_OR, EXPRESSION_BIT_OR},
  {"^", BIND_BIT_XOR, EXPRESSION_XOR, EXPRESSION_BIT_XOR},
  {"&", BIND_BIT_AND, EXPRESSION_AND, EXPRESSION_BIT_AND},
  {"+", BIND_SUM, EXPRESSION_ADD, 0},
  {"-", BIND_SUM, EXPRESSION_ADD, 0},
  {"**", BIND_POWER, EXPRESSION_POW, 0},
  {"*", BIND_TERM, EXPRESSION_MUL, 0},
  {"//", BIND_TERM, EXPRESSION_FLOOR_DIV, 0},
  {"/", BIND_TERM, EXPRESSION_MUL, EXPRESSION_INT_TRUE_DIV},
  {"%", BIND_TERM, EXPRESSION_PYTHON_MOD, 0},
};

/* Names of functions that are not those of expression.def. */
typedef struct alias {
  const char *name;
  expression_kind kind;
} alias;
static const alias sympy_aliases[] = {
  {"Eq", EXPRESSION_EQ}, {"Ne", EXPRESSION_NE}, {"Lt", EXPRESSION_LT},
  {"Le", EXPRESSION_LE}, {"Gt", EXPRESSION_GT}, {"Ge", EXPRESSION_GE},
};
static const alias python_aliases[] = {
  {"max", EXPRESSION_MAX},
  {"min", EXPRESSION_MIN},
  {"abs", EXPRESSION_ABS},
  {"math.floor", EXPRESSION_FLOOR_TO_INT},
  {"math.ceil", EXPRESSION_CEIL_TO_INT},
  {"math.trunc", EXPRESSION_TRUNC_TO_INT},
  {"torch.sym_float", EXPRESSION_TO_FLOAT},
  {"torch._sym_sqrt", EXPRESSION_SQRT},
  {"math.sqrt", EXPRESSION_SQRT},
  {"math.cos", EXPRESSION_COS},
  {"math.cosh", EXPRESSION_COSH},
  {"math.sin", EXPRESSION_SIN},
  {"math.sinh", EXPRESSION_SINH},
  {"math.tan", EXPRESSION_TAN},
  {"math.tanh", EXPRESSION_TANH},
  {"math.asin", EXPRESSION_ASIN},
  {"math.acos", EXPRESSION_ACOS},
  {"math.atan", EXPRESSION_ATAN},
  {"math.log2", EXPRESSION_LOG2},
};
static const alias constants[] = {
  {"true", EXPRESSION_TRUE},
  {"false", EXPRESSION_FALSE},
  {"True", EXPRESSION_TRUE},
  {"False", EXPRESSION_FALSE},
  {"int_oo", EXPRESSION_INT_INFINITY},
  {"oo", EXPRESSION_INFINITY},
  {"nan", EXPRESSION_NAN},
};
static const alias python_constants[] = {
  {"math.inf", EXPRESSION_INFINITY},
  {"math.nan", EXPRESSION_NAN},
};

typedef struct reader {
  session *s;
  arena *mem;
  const char *place;
  const char *p, *start, *end;
  uint32_t n_pushed; /* operands so far: signs and divisions copy products */
  bool python;
} reader;
#define MOST_PUSHED (50 * EXPRESSION_MOST_NODES)

static const expression *read_expression(reader *r, bind_level least);

/* -- Errors and tokens ------------------------------------------------------------------------- */

_Noreturn static void expected(reader *r, const char *what)
{
  const size_t left = (size_t)(r->end - r->p), shown = left < 20 ? left : 20;
  text_buf *t = session_text(r->s);

  if (left == 0)
    text_puts(t, "the end of the text");
  else
    text_quote(t, r->p, shown);
  session_fail_status(r->s, RUSH_EFORMAT, NULL, NULL, "%s: expected %s at character %zu, found %s",
                      r->place, what, (size_t)(r->p - r->start) + 1, text_str(t));
}

static bool in_number(char c) { return c >= '0' && c <= '9'; }
static bool starts_name(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static bool in_name(char c) { return starts_name(c) || in_number(c); }

static void skip_spaces(reader *r)
{
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t'))
    r->p++;
}

static bool at(reader *r, const char *token)
{
  const size_t n = strlen(token), left = (size_t)(r->end - r->p);

  return n <= left && memcmp(r->p, token, n) == 0 &&
         !(starts_name(*token) && n < left && in_name(r->p[n]));
}
static bool accept_token(reader *r, const char *token)
{
  skip_spaces(r);
  if (!at(r, token))
    return false;
  r->p += strlen(token);
  return true;
}
static void need_token(reader *r, const char *token, const char *described)
{
  if (!accept_token(r, token))
    expected(r, described);
}

static str read_name(reader *r)
{
  str name = {r->p, 0};

  while (r->p < r->end && in_name(*r->p))
    r->p++;
  name.len = (size_t)(r->p - name.p);
  return name;
}

/* Read 'text' without escapes. */
static str read_string(reader *r)
{
  skip_spaces(r);
  if (r->p == r->end || (*r->p != '\'' && *r->p != '"'))
    expected(r, "a string");
  const char quote = *r->p++;
  str text = {r->p, 0};
  while (r->p < r->end && *r->p != quote && *r->p != '\\')
    r->p++;
  if (r->p == r->end || *r->p != quote)
    expected(r, "the end of the string");
  text.len = (size_t)(r->p++ - text.p);
  return text;
}

/* Read digits with an optional sign; what does not fit in 64 bits is refused. */
static int64_t read_integer(reader *r)
{
  const bool negative = accept_token(r, "-");
  int64_t n = 0;

  skip_spaces(r);
  const char *first = r->p;
  for (; r->p < r->end && in_number(*r->p); r->p++) {
    const int digit = *r->p - '0';
    if (__builtin_mul_overflow(n, 10, &n) ||
        __builtin_add_overflow(n, negative ? -digit : digit, &n)) {
      r->p = first;
      expected(r, "an integer of 64 bits");
    }
  }
  if (r->p == first)
    expected(r, "an integer");
  return n;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

typedef struct operands {
  const expression **v;
  uint32_t n, cap;
} operands;

static void push_operand(reader *r, operands *o, const expression *e)
{
  if (++r->n_pushed > MOST_PUSHED)
    session_fail_status(r->s, RUSH_ELIMIT, NULL, NULL, "%s: an expression is too complicated",
                        r->place);
  GROW(r->s, o->v, o->n, o->cap, 4);
  o->v[o->n++] = e;
}

static const expression *two(reader *r, expression_kind kind, const expression *a,
                             const expression *b)
{
  return expression_node(r->s, r->mem, kind, 2, (const expression *[]){a, b});
}
static const expression *integer(reader *r, int64_t n)
{
  return expression_integer(r->s, r->mem, n);
}

static const expression *ratio(reader *r, int64_t p, int64_t q)
{
  const expression *e = expression_fraction(r->s, r->mem, p, q);

  if (!e)
    expected(r, "a number of 64 bits before here");
  return e;
}

/* Multiply two numbers; NULL if one is no fraction or the product has more than 64 bits. */
static const expression *multiplied(reader *r, const expression *a, const expression *b)
{
  int64_t p, q;

  if (a->kind != EXPRESSION_NUMBER || b->kind != EXPRESSION_NUMBER ||
      __builtin_mul_overflow(a->p, b->p, &p) || __builtin_mul_overflow(a->q, b->q, &q))
    return NULL;
  return ratio(r, p, q);
}

/* Append the arguments of `e` if it is of `kind`, which then becomes flat; else `e`. */
static void push_flat(reader *r, operands *o, expression_kind kind, const expression *e)
{
  if (e->kind != kind)
    push_operand(r, o, e);
  for (uint32_t i = 0; e->kind == kind && i < e->n_args; i++)
    push_operand(r, o, e->args[i]);
}

/* Make the product of the factors, with their numbers as one coefficient in front. */
static const expression *product(reader *r, const operands *factors)
{
  const expression *number = integer(r, 1), *both;
  operands flat = {0}, all = {0};

  push_operand(r, &all, NULL);
  for (uint32_t i = 0; i < factors->n; i++)
    push_flat(r, &flat, EXPRESSION_MUL, factors->v[i]);
  for (uint32_t i = 0; i < flat.n; i++) {
    if ((both = multiplied(r, number, flat.v[i])) != NULL)
      number = both;
    else
      push_operand(r, &all, flat.v[i]);
  }
  all.v[0] = number;
  const bool has_number = all.n == 1 || !expression_is_int(number, 1);
  if (all.n - !has_number == 1)
    return all.v[!has_number];
  return expression_node(r->s, r->mem, EXPRESSION_MUL, all.n - !has_number, all.v + !has_number);
}

static const expression *negated(reader *r, const expression *e)
{
  operands factors = {0};

  if (e->kind == EXPRESSION_FLOAT)
    return expression_float(r->s, r->mem, -e->d);
  if (e->kind == EXPRESSION_INT_INFINITY || e->kind == EXPRESSION_INFINITY)
    return expression_node(r->s, r->mem, e->kind + 1, 0, NULL);
  push_operand(r, &factors, integer(r, -1));
  push_operand(r, &factors, e);
  return product(r, &factors);
}

/* Append 1 / e to the factors: a fraction, a negated power, or the inverses of factors. */
static void push_inverse(reader *r, operands *factors, const expression *e)
{
  if (e->kind == EXPRESSION_NUMBER) {
    push_operand(r, factors, ratio(r, e->q, e->p));
  } else if (e->kind == EXPRESSION_MUL) {
    for (uint32_t i = 0; i < e->n_args; i++)
      push_inverse(r, factors, e->args[i]);
  } else if (e->kind == EXPRESSION_POW) {
    push_operand(r, factors, two(r, EXPRESSION_POW, e->args[0], negated(r, e->args[1])));
  } else {
    push_operand(r, factors, two(r, EXPRESSION_POW, e, integer(r, -1)));
  }
}

/* -- Primaries --------------------------------------------------------------------------------- */

/* Read the rest of Symbol('name', key=True, ...); the text of the assumptions is kept. */
static const expression *read_symbol_call(reader *r)
{
  const str name = read_string(r);
  str kept = {0};

  if (name.len == 0)
    expected(r, "a name before here");
  while (accept_token(r, ",")) {
    skip_spaces(r);
    const char *first = r->p;
    if (read_name(r).len == 0)
      expected(r, "an assumption");
    need_token(r, "=", "'='");
    if (!accept_token(r, "True") && !accept_token(r, "False") && !accept_token(r, "None"))
      expected(r, "True, False or None");
    kept.p = kept.p ? kept.p : first;
    kept.len = (size_t)(r->p - kept.p);
  }
  return expression_symbol(r->s, r->mem, name, kept);
}

/* Read the rest of Float('0.5', precision=53). */
static const expression *read_float_call(reader *r)
{
  const str digits = read_string(r);
  double d;

  if (!float_parse(digits.p, digits.len, &d) || d - d != 0)
    expected(r, "a finite number before here");
  if (accept_token(r, ",")) {
    need_token(r, "precision", "'precision'");
    need_token(r, "=", "'='");
    if (!accept_token(r, "53"))
      expected(r, "a precision of 53 bits");
  }
  return expression_float(r->s, r->mem, d);
}

/* Read the rest of a constructor of srepr after '('; NULL if the name is none. */
static const expression *read_constructor(reader *r, str name)
{
  const expression *e = NULL;

  if (str_is(name, "Symbol")) {
    e = read_symbol_call(r);
  } else if (str_is(name, "Integer")) {
    e = integer(r, read_integer(r));
  } else if (str_is(name, "Float")) {
    e = read_float_call(r);
  } else if (str_is(name, "Rational")) {
    const int64_t p = read_integer(r);
    need_token(r, ",", "','");
    e = ratio(r, p, read_integer(r));
  } else if (str_is(name, "sqrt")) {
    e = read_expression(r, BIND_ANY);
    e = two(r, EXPRESSION_POW, e, ratio(r, 1, 2));
  } else {
    return NULL;
  }
  need_token(r, ")", "')'");
  return e;
}

static expression_kind find_alias(const alias *list, size_t n, str name)
{
  for (size_t i = 0; i < n; i++)
    if (str_is(name, list[i].name))
      return list[i].kind;
  return EXPRESSION_N_KINDS;
}
#define FIND(list, name) find_alias((list), COUNT_OF(list), (name))

/* Name the kind of a call; Python's round is of two kinds, by the number of arguments. */
static expression_kind called(const reader *r, str name, uint32_t n_args)
{
  expression_kind kind = expression_kind_named(name);

  if (kind == EXPRESSION_N_KINDS && r->python && str_is(name, "round"))
    return n_args == 1 ? EXPRESSION_ROUND_TO_INT : EXPRESSION_ROUND_DECIMAL;
  if (kind == EXPRESSION_N_KINDS && r->python)
    kind = FIND(python_aliases, name);
  return kind == EXPRESSION_N_KINDS ? FIND(sympy_aliases, name) : kind;
}

/* Read an argument of Piecewise: ExprCondPair(value, condition), in str without the name. */
static const expression *read_case(reader *r)
{
  (void)accept_token(r, "ExprCondPair");
  need_token(r, "(", "'('");
  const expression *value = read_expression(r, BIND_ANY);
  need_token(r, ",", "','");
  const expression *condition = read_expression(r, BIND_ANY);
  need_token(r, ")", "')'");
  return two(r, EXPRESSION_PAIR, value, condition);
}

/* Read the rest of a call after '('; `first` is where its name is. */
static const expression *read_call(reader *r, str name, const char *first)
{
  const expression *made = read_constructor(r, name);
  const bool pairs = str_is(name, expression_kind_name(EXPRESSION_PIECEWISE));
  operands args = {0};

  if (made)
    return made;
  do
    push_operand(r, &args, pairs ? read_case(r) : read_expression(r, BIND_ANY));
  while (accept_token(r, ","));
  need_token(r, ")", "',' or ')'");
  expression_kind kind = called(r, name, args.n);
  if (kind == EXPRESSION_PAIR) /* only cases are pairs */
    kind = EXPRESSION_N_KINDS;
  if (kind == EXPRESSION_N_KINDS || args.n < expression_facts[kind].fewest ||
      args.n > expression_facts[kind].most) {
    r->p = first;
    expected(r, kind == EXPRESSION_N_KINDS ? "a function that is known"
                                     : "a call with as many arguments as the function takes");
  }
  return expression_node(r->s, r->mem, kind, args.n, args.v);
}

/* Skip .name, [3], ['key'] and (), which make a source of Python's code. */
static void skip_source(reader *r)
{
  for (const char *last = r->p;; last = r->p) {
    if (accept_token(r, ".")) {
      if (read_name(r).len == 0)
        expected(r, "a name");
    } else if (accept_token(r, "[")) {
      skip_spaces(r);
      if (r->p < r->end && (*r->p == '\'' || *r->p == '"'))
        (void)read_string(r);
      else
        (void)read_integer(r);
      need_token(r, "]", "']'");
    } else if (!accept_token(r, "()")) {
      r->p = last;
      return;
    }
  }
}

static const expression *read_named(reader *r)
{
  str name = read_name(r);

  if (r->python) {
    skip_source(r);
    name.len = (size_t)(r->p - name.p);
  }
  if (accept_token(r, "("))
    return read_call(r, name, name.p);
  expression_kind kind = FIND(constants, name);
  if (kind == EXPRESSION_N_KINDS && r->python)
    kind = FIND(python_constants, name);
  if (kind != EXPRESSION_N_KINDS)
    return expression_node(r->s, r->mem, kind, 0, NULL);
  return expression_symbol(r->s, r->mem, name, (str){0});
}

/* Read an integer, or a number with a point or an exponent. */
static const expression *read_number(reader *r)
{
  const char *p = r->p;
  bool whole = true;
  double d;

  while (p < r->end && (in_number(*p) || *p == '.' || *p == 'e' ||
                        ((*p == '-' || *p == '+') && p[-1] == 'e'))) {
    whole = whole && in_number(*p);
    p++;
  }
  if (whole)
    return integer(r, read_integer(r));
  if (!float_parse(r->p, (size_t)(p - r->p), &d) || d - d != 0)
    expected(r, "a finite number");
  r->p = p;
  return expression_float(r->s, r->mem, d);
}

static const expression *read_primary(reader *r)
{
  skip_spaces(r);
  if (r->p == r->end)
    expected(r, "an expression");
  if (in_number(*r->p) || *r->p == '.')
    return read_number(r);
  if (accept_token(r, "(")) {
    const expression *e = read_expression(r, BIND_ANY);
    need_token(r, ")", "')'");
    return e;
  }
  if (!starts_name(*r->p))
    expected(r, "an expression");
  return read_named(r);
}

/* -- Operators --------------------------------------------------------------------------------- */

/* Read -9223372036854775808, whose digits alone are too many; NULL if another thing is here. */
static const expression *read_lowest(reader *r)
{
  if (!at(r, "9223372036854775808") || (r->end - r->p > 19 && in_number(r->p[19])))
    return NULL;
  r->p += 19;
  return integer(r, INT64_MIN);
}

static const expression *read_prefixed(reader *r)
{
  const char *inverse = r->python ? "not" : "~";

  if (accept_token(r, "-")) {
    const expression *lowest = read_lowest(r);
    return lowest ? lowest : negated(r, read_expression(r, BIND_UNARY));
  }
  if (!accept_token(r, inverse))
    return read_primary(r);
  const expression *e = read_expression(r, r->python ? BIND_NOT : BIND_UNARY);
  return expression_node(r->s, r->mem, EXPRESSION_NOT, 1, &e);
}

/* Return the operator here if it binds at least as tightly; it is not yet passed. */
static const infix *peek_infix(reader *r, bind_level least)
{
  skip_spaces(r);
  for (size_t i = 0; i < COUNT_OF(infixes); i++)
    if (at(r, infixes[i].text))
      return infixes[i].bind >= least ? &infixes[i] : NULL;
  return NULL;
}

/* Pass the operator here if it is of level `bind` and makes `kind`. */
static const infix *accept_infix(reader *r, bind_level bind, expression_kind kind)
{
  const infix *op = peek_infix(r, bind);

  if (!op || op->bind != bind ||
      (kind != EXPRESSION_NUMBER &&
       (r->python && op->in_python ? op->in_python : op->kind) != kind))
    return NULL;
  r->p += strlen(op->text);
  return op;
}

/* Read the rest of a sum, a product or a chain of a logical operator, all in one node. */
static const expression *read_chain(reader *r, const expression *first, bind_level bind,
                                    expression_kind kind)
{
  operands all = {0};

  push_flat(r, &all, kind, first);
  for (const infix *op; (op = accept_infix(r, bind, kind)) != NULL;) {
    const expression *e = read_expression(r, bind + 1);
    if (*op->text == '/')
      push_inverse(r, &all, e);
    else
      push_flat(r, &all, kind, *op->text == '-' ? negated(r, e) : e);
  }
  return kind == EXPRESSION_MUL ? product(r, &all)
                                : expression_node(r->s, r->mem, kind, all.n, all.v);
}

/* Read the rest of a < b < c: a conjunction if there is more than one. */
static const expression *read_comparisons(reader *r, const expression *a)
{
  operands all = {0};

  for (const infix *op; (op = accept_infix(r, BIND_COMPARE, EXPRESSION_NUMBER)) != NULL;) {
    const expression *b = read_expression(r, BIND_COMPARE + 1);
    push_operand(r, &all, two(r, op->kind, a, b));
    a = b;
  }
  return all.n == 1 ? all.v[0] : expression_node(r->s, r->mem, EXPRESSION_AND, all.n, all.v);
}

/* Read the rest of a**b, which groups to the right; b may have a sign. */
static const expression *read_power(reader *r, const expression *base)
{
  r->p += 2;
  const expression *x = read_expression(r, BIND_UNARY);
  return two(r, !r->python              ? EXPRESSION_POW
                : x->kind == EXPRESSION_FLOAT ? EXPRESSION_FLOAT_POW
                                        : EXPRESSION_POW_BY_NATURAL, base, x);
}

static const expression *read_infix(reader *r, const expression *a, const infix *op)
{
  const expression_kind kind = r->python && op->in_python ? op->in_python : op->kind;

  switch ((int)kind) {
  case EXPRESSION_ADD:
  case EXPRESSION_MUL:
  case EXPRESSION_AND:
  case EXPRESSION_OR:
  case EXPRESSION_XOR:
    return read_chain(r, a, op->bind, kind);
  case EXPRESSION_POW:
    return read_power(r, a);
  default:
    if (op->bind == BIND_COMPARE)
      return read_comparisons(r, a);
    r->p += strlen(op->text);
    return two(r, kind, a, read_expression(r, op->bind + 1));
  }
}

/* Read the rest of Python's `a if c else b` after `if`: the first case of a Piecewise. */
static const expression *read_conditional(reader *r, const expression *value)
{
  const expression *condition = read_expression(r, BIND_OR), *cases[2];

  need_token(r, "else", "'else'");
  cases[0] = two(r, EXPRESSION_PAIR, value, condition);
  cases[1] = two(r, EXPRESSION_PAIR, read_expression(r, BIND_ANY),
                 expression_node(r->s, r->mem, EXPRESSION_TRUE, 0, NULL));
  return expression_node(r->s, r->mem, EXPRESSION_PIECEWISE, 2, cases);
}

static const expression *read_expression(reader *r, bind_level least)
{
  session_enter(r->s);
  const expression *e = read_prefixed(r);
  for (const infix *op; (op = peek_infix(r, least)) != NULL;)
    e = read_infix(r, e, op);
  if (least == BIND_ANY && r->python && accept_token(r, "if"))
    e = read_conditional(r, e);
  session_leave(r->s);
  return e;
}

const expression *expression_read(session *s, arena *mem, const char *place, str text,
                                  expression_dialect dialect)
{
  reader r = {.s = s,
              .mem = mem,
              .place = place,
              .p = text.p,
              .start = text.p,
              .end = text.p + text.len,
              .python = dialect == EXPRESSION_PYTHON};
  const expression *e = read_expression(&r, BIND_ANY);

  skip_spaces(&r);
  if (r.p != r.end)
    expected(&r, "an operator or the end of the text");
  return e;
}
