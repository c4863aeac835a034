/* shape/expression_print.c -- prints expression trees as sympy's str and srepr, and as torch's
 * Python printer.
 *
 * Arguments are put in sympy's order first (expression_order.c); then each printer walks the tree.
 * An operand is put in parentheses if its precedence (`binds` of expression.def) is not above a
 * level; some of sympy's rules compare with <, others with <=, which texts show: `u0 + ((s0//2))`.
 * Floats have 15 digits in str, 17 in srepr and Python, rounded as mpmath rounds (half up), without
 * trailing zeros inside other expressions.
 *
 * The Python printer writes x**3 as x*x*x, as torch does, so that a text may be much longer than
 * its tree: MOST_TEXT limits it. */
#include "shape/expression_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_TEXT (1u << 22)

enum { BINDS_COMPARE = 35, BINDS_BIT_OR, BINDS_BIT_XOR, BINDS_BIT_AND };
enum { BINDS_SUM = 40, BINDS_TERM = 50, BINDS_POWER = 60, BINDS_NOT = 100 };

typedef struct printer printer;
struct printer {
  session *s;
  text_buf *out;
  size_t begin; /* of the expression in it */
  void (*print)(printer *p, const expression *e); /* the language's */
  expression_namer *name; /* Python */
  void *arg;
};

static void print(printer *p, const expression *e)
{
  session_enter(p->s);
  if (p->out->len - p->begin > MOST_TEXT)
    session_fail_status(p->s, RUSH_ELIMIT, NULL, NULL,
                        "the text of an expression has more than %u characters", MOST_TEXT);
  p->print(p, e);
  session_leave(p->s);
}

/* -- Floats ------------------------------------------------------------------------------------ */

#define MOST_DIGITS 17

/* Write the first `n` digits of a finite d > 0, rounded half up; returns the decimal exponent. */
static int round_digits(double d, int n, char digits[MOST_DIGITS + 4])
{
  char printed[64];
  int k = 0;

  snprintf(printed, sizeof printed, "%.40e", d); /* exact enough: 17 + 3 digits are looked at */
  const char *p = printed;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9' && k < n + 1)
      digits[k++] = *p;
  int exponent = atoi(p + 1), i = n - 1;
  if (digits[n] >= '5') {
    while (i >= 0 && digits[i] == '9')
      digits[i--] = '0';
    if (i >= 0) {
      digits[i]++;
    } else {
      digits[0] = '1';
      exponent++;
    }
  }
  digits[n] = '\0';
  return exponent;
}

static void put_digits(text_buf *out, const char *digits, int from, int to)
{
  if (to > from)
    text_add(out, digits + from, (size_t)(to - from));
}

/* Print d with n digits, in fixed notation for exponents from about -n/3 to n. */
static void put_float(text_buf *out, double d, int n, bool strip)
{
  char digits[MOST_DIGITS + 4];
  const int least = -n / 3 < -5 ? -n / 3 : -5;

  if (d == 0 || d - d != 0) {
    text_puts(out, d == 0 ? "0.0" : d != d ? "nan" : d < 0 ? "-inf" : "inf");
    return;
  }
  const int exponent = round_digits(fabs(d), n, digits);
  const bool fixed = exponent > least && exponent < n;
  const int split = fixed && exponent >= 0 ? exponent + 1 : fixed ? 0 : 1;
  int last = n;
  while (strip && last > split && last > 1 && digits[last - 1] == '0')
    last--;
  text_puts(out, d < 0 ? "-" : "");
  put_digits(out, digits, 0, split);
  text_puts(out, split ? "." : "0.");
  for (int i = exponent + 1; fixed && i < 0; i++)
    text_putc(out, '0');
  put_digits(out, digits, split, last);
  if (strip && last <= split)
    text_putc(out, '0');
  if (!fixed)
    text_printf(out, "e%s%d", exponent < 0 ? "" : "+", exponent);
}

/* -- What the languages share ------------------------------------------------------------------ */

static void put_str(text_buf *out, str text) { text_add(out, text.p, text.len); }

/* sympy's precedence. */
static int binding(const expression *e)
{
  if (e->kind == EXPRESSION_NUMBER && e->q != 1)
    return e->p < 0 ? BINDS_SUM : BINDS_TERM;
  if (e->kind <= EXPRESSION_SYMBOL)
    return expression_is_negative(e) && e->kind != EXPRESSION_INT_NEG_INFINITY ? BINDS_SUM
                                                                        : EXPRESSION_BINDS_ATOM;
  for (uint32_t i = 0; e->kind == EXPRESSION_MUL && i < e->n_args; i++)
    if (e->args[i]->kind >= EXPRESSION_PIECEWISE &&
        expression_facts[e->args[i]->kind].binds < BINDS_TERM)
      return BINDS_TERM;
  if (e->kind == EXPRESSION_MUL && expression_is_negative(e->args[0]))
    return BINDS_SUM;
  return expression_facts[e->kind].binds;
}

/* Print `e`, in parentheses if it does not bind tighter than `level`. */
static void put_operand(printer *p, const expression *e, int level)
{
  const bool wrapped = binding(e) <= level;

  text_puts(p->out, wrapped ? "(" : "");
  print(p, e);
  text_puts(p->out, wrapped ? ")" : "");
}

static void put_operands(printer *p, const expression *e, const char *between, int level)
{
  for (uint32_t i = 0; i < e->n_args; i++) {
    text_puts(p->out, i ? between : "");
    put_operand(p, e->args[i], level);
  }
}

static void put_call(printer *p, const expression *e, const char *name)
{
  text_puts(p->out, name);
  text_putc(p->out, '(');
  put_operands(p, e, ", ", 0);
  text_putc(p->out, ')');
}

static const char *infinity_name(expression_kind kind)
{
  return kind == EXPRESSION_INT_INFINITY       ? "int_oo"
         : kind == EXPRESSION_INT_NEG_INFINITY ? "-int_oo"
         : kind == EXPRESSION_INFINITY         ? "oo"
         : kind == EXPRESSION_NEG_INFINITY     ? "-oo"
                                               : "nan";
}

static void put_fraction(text_buf *out, const expression *e)
{
  text_printf(out, e->q == 1 ? "%lld" : "%lld/%lld", (long long)e->p, (long long)e->q);
}

/* -- str --------------------------------------------------------------------------------------- */

static void str_sum(printer *p, const expression *e)
{
  for (uint32_t i = 0; i < e->n_args; i++) {
    const expression *t = e->args[i];
    const bool wrapped = t->kind == EXPRESSION_ADD || binding(t) < BINDS_SUM;
    const size_t at = p->out->len;

    text_puts(p->out, i ? " + " : "");
    text_puts(p->out, wrapped ? "(" : "");
    print(p, t);
    text_puts(p->out, wrapped ? ")" : "");
    if (i && !text_failed(p->out) && p->out->data[at + 3] == '-') { /* " + -x" is " - x" */
      p->out->data[at + 1] = '-';
      memmove(p->out->data + at + 3, p->out->data + at + 4, p->out->len - at - 3);
      p->out->len--;
    }
  }
}

/* A factor over or under the fraction bar. */
typedef struct bar_factor {
  const expression *e;
  bool wrapped; /* in parentheses of its own */
} bar_factor;

static bool has_negative_exponent(const expression *e)
{
  if (e->kind != EXPRESSION_POW)
    return false;
  const expression *x = e->args[1];
  return expression_is_negative(x) ||
         (x->kind == EXPRESSION_MUL && expression_is_negative(x->args[0]));
}

/* Make the factor under the bar for a power with a negative exponent. */
static bar_factor under_bar(session *s, const expression *e)
{
  const expression *base = e->args[0];

  if (expression_is_int(e->args[1], -1))
    return (bar_factor){base, base->kind == EXPRESSION_MUL || base->kind == EXPRESSION_POW};
  return (bar_factor){
    expression_node(s, s->mem, EXPRESSION_POW, 2,
                    (const expression *[]){base, expression_negative(s, e->args[1])}),
    false};
}

static void put_factors(printer *p, const bar_factor *f, uint32_t n, int level)
{
  for (uint32_t i = 0; i < n; i++) {
    text_puts(p->out, i ? "*" : "");
    text_puts(p->out, f[i].wrapped ? "(" : "");
    put_operand(p, f[i].e, level);
    text_puts(p->out, f[i].wrapped ? ")" : "");
  }
}

static void str_product(printer *p, const expression *e)
{
  session *s = p->s;
  const int level = binding(e);
  const bool negative = expression_is_negative(e->args[0]);
  bar_factor *over = session_array(s, bar_factor, e->n_args + 1);
  bar_factor *under = session_array(s, bar_factor, e->n_args + 1);
  uint32_t n_over = 0, n_under = 0;

  for (uint32_t i = 0; i < e->n_args; i++) {
    const expression *f = i == 0 && negative ? expression_negative(s, e->args[0]) : e->args[i];
    if (f->kind == EXPRESSION_NUMBER) {
      if (f->p != 1)
        over[n_over++].e = expression_fraction(s, s->mem, f->p, 1);
      if (f->q != 1)
        under[n_under++].e = expression_fraction(s, s->mem, f->q, 1);
    } else if (has_negative_exponent(f)) {
      under[n_under++] = under_bar(s, f);
    } else {
      over[n_over++].e = f;
    }
  }
  if (n_over == 0)
    over[n_over++].e = expression_integer(s, s->mem, 1);
  text_puts(p->out, negative ? "-" : "");
  put_factors(p, over, n_over, level);
  text_puts(p->out, n_under == 0 ? "" : n_under == 1 ? "/" : "/(");
  put_factors(p, under, n_under, level);
  text_puts(p->out, n_under > 1 ? ")" : "");
}

static void str_power(printer *p, const expression *e)
{
  const expression *base = e->args[0], *x = e->args[1];
  const bool half = x->kind == EXPRESSION_NUMBER && x->q == 2 && (x->p == 1 || x->p == -1);

  if (half) {
    text_puts(p->out, x->p == 1 ? "sqrt(" : "1/sqrt(");
    print(p, base);
    text_putc(p->out, ')');
  } else if (expression_is_int(x, -1)) {
    text_puts(p->out, "1/");
    put_operand(p, base, BINDS_POWER);
  } else {
    put_operands(p, e, "**", BINDS_POWER);
  }
}

/* Print Min(...) or Max(...), whose arguments are shown by sort key alone. */
static void str_extreme(printer *p, const expression *e)
{
  put_call(p, expression_by_key(p->s, e), expression_kind_name(e->kind));
}

/* A relation with a space on both sides of its sign. */
static void put_relation(printer *p, const expression *e, int level)
{
  char sign[8];

  snprintf(sign, sizeof sign, " %s ", expression_relation(e->kind));
  put_operands(p, e, sign, level);
}

static void str_relation(printer *p, const expression *e)
{
  if (e->kind == EXPRESSION_EQ || e->kind == EXPRESSION_NE)
    put_call(p, e, e->kind == EXPRESSION_EQ ? "Eq" : "Ne");
  else
    put_relation(p, e, BINDS_COMPARE);
}

static void str_leaf(printer *p, const expression *e)
{
  switch ((int)e->kind) {
  case EXPRESSION_NUMBER:
    put_fraction(p->out, e);
    break;
  case EXPRESSION_FLOAT:
    put_float(p->out, e->d, 15, true);
    break;
  case EXPRESSION_TRUE:
  case EXPRESSION_FALSE:
    text_puts(p->out, e->kind == EXPRESSION_TRUE ? "True" : "False");
    break;
  case EXPRESSION_SYMBOL:
    put_str(p->out, e->name);
    break;
  default:
    text_puts(p->out, infinity_name(e->kind));
  }
}

static void print_str(printer *p, const expression *e)
{
  switch ((int)e->kind) {
  case EXPRESSION_ADD:
    str_sum(p, e);
    break;
  case EXPRESSION_MUL:
    str_product(p, e);
    break;
  case EXPRESSION_POW:
    str_power(p, e);
    break;
  case EXPRESSION_EQ:
  case EXPRESSION_NE:
  case EXPRESSION_LT:
  case EXPRESSION_LE:
  case EXPRESSION_GT:
  case EXPRESSION_GE:
    str_relation(p, e);
    break;
  case EXPRESSION_AND:
    put_operands(p, e, " & ", BINDS_BIT_AND);
    break;
  case EXPRESSION_OR:
    put_operands(p, e, " | ", BINDS_BIT_OR);
    break;
  case EXPRESSION_XOR:
    put_operands(p, e, " ^ ", BINDS_BIT_XOR);
    break;
  case EXPRESSION_NOT:
    text_putc(p->out, '~');
    put_operand(p, e->args[0], BINDS_NOT);
    break;
  case EXPRESSION_MIN:
  case EXPRESSION_MAX:
    str_extreme(p, e);
    break;
  case EXPRESSION_PAIR:
  case EXPRESSION_IDENTITY:
    put_call(p, e, "");
    break;
  case EXPRESSION_FLOOR_DIV:
  case EXPRESSION_CLEAN_DIV:
    text_putc(p->out, '(');
    put_operands(p, e, "//", EXPRESSION_BINDS_ATOM - 1);
    text_putc(p->out, ')');
    break;
  default:
    if (e->kind <= EXPRESSION_SYMBOL)
      str_leaf(p, e);
    else
      put_call(p, e, expression_kind_name(e->kind));
  }
}

void expression_print(session *s, text_buf *out, const expression *e)
{
  printer p = {.s = s, .out = out, .begin = out->len, .print = print_str};

  if (e->kind == EXPRESSION_FLOAT) /* the only text whose zeros stay */
    put_float(out, e->d, 15, false);
  else
    print(&p, expression_ordered(s, e));
}

/* -- srepr ------------------------------------------------------------------------------------- */

/* Print a product; sympy shows a negative coefficient as -1 and the rest. */
static void srepr_product(printer *p, const expression *e)
{
  const expression *number = e->args[0];

  if (expression_is_negative(number) && !expression_is_int(number, -1)) {
    const expression **args = session_array(p->s, const expression *, e->n_args + 1);
    memcpy(args + 1, e->args, e->n_args * sizeof *args);
    args[0] = expression_integer(p->s, p->s->mem, -1);
    args[1] = expression_negative(p->s, number);
    e = expression_node(p->s, p->s->mem, EXPRESSION_MUL, e->n_args + 1, args);
  }
  put_call(p, e, expression_kind_name(EXPRESSION_MUL));
}

static void print_srepr(printer *p, const expression *e)
{
  text_buf *out = p->out;

  switch ((int)e->kind) {
  case EXPRESSION_NUMBER:
    if (e->q == 1)
      text_printf(out, "Integer(%lld)", (long long)e->p);
    else
      text_printf(out, "Rational(%lld, %lld)", (long long)e->p, (long long)e->q);
    break;
  case EXPRESSION_FLOAT:
    text_puts(out, "Float('");
    put_float(out, e->d, 17, true);
    text_puts(out, "', precision=53)");
    break;
  case EXPRESSION_TRUE:
  case EXPRESSION_FALSE:
    text_puts(out, e->kind == EXPRESSION_TRUE ? "true" : "false");
    break;
  case EXPRESSION_SYMBOL:
    text_puts(out, "Symbol(");
    text_quote(out, e->name.p, e->name.len);
    text_puts(out, e->assumptions.len ? ", " : "");
    put_str(out, e->assumptions);
    text_putc(out, ')');
    break;
  case EXPRESSION_MUL:
    srepr_product(p, e);
    break;
  default:
    if (e->kind < EXPRESSION_SYMBOL)
      text_puts(out, infinity_name(e->kind));
    else
      put_call(p, e, expression_kind_name(e->kind));
  }
}

void expression_print_srepr(session *s, text_buf *out, const expression *e)
{
  printer p = {.s = s, .out = out, .begin = out->len, .print = print_srepr};

  print(&p, expression_ordered(s, e));
}

/* -- Python ------------------------------------------------------------------------------------ */

_Noreturn static void refuse(printer *p, const char *what)
{
  session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, NULL, "PyTorch has no Python code for %s",
                      what);
}

/* Name of the Python function that computes `kind`; NULL: sympy's name, as PyTorch leaves it. */
static const char *python_name(expression_kind kind)
{
  static const char *const names[EXPRESSION_N_KINDS] = {
    [EXPRESSION_MIN] = "min",
    [EXPRESSION_MAX] = "max",
    [EXPRESSION_ABS] = "abs",
    [EXPRESSION_FLOOR] = "math.floor",
    [EXPRESSION_FLOOR_TO_INT] = "math.floor",
    [EXPRESSION_TRUNC_TO_INT] = "math.trunc",
    [EXPRESSION_CEILING] = "math.ceil",
    [EXPRESSION_CEIL_TO_INT] = "math.ceil",
    [EXPRESSION_ROUND_TO_INT] = "round",
    [EXPRESSION_ROUND_DECIMAL] = "round",
    [EXPRESSION_TO_FLOAT] = "torch.sym_float",
    [EXPRESSION_SQRT] = "torch._sym_sqrt",
    [EXPRESSION_COS] = "math.cos",
    [EXPRESSION_COSH] = "math.cosh",
    [EXPRESSION_SIN] = "math.sin",
    [EXPRESSION_SINH] = "math.sinh",
    [EXPRESSION_TAN] = "math.tan",
    [EXPRESSION_TANH] = "math.tanh",
    [EXPRESSION_ASIN] = "math.asin",
    [EXPRESSION_ACOS] = "math.acos",
    [EXPRESSION_ATAN] = "math.atan",
    [EXPRESSION_LOG2] = "math.log2",
  };
  return names[kind];
}

typedef struct python_infix {
  const char *text; /* NULL: the kind is no infix operator */
  int level;        /* operands that do not bind tighter are put in parentheses */
} python_infix;

static python_infix python_operator(const expression *e)
{
  static const python_infix list[EXPRESSION_N_KINDS] = {
    [EXPRESSION_ADD] = {" + ", BINDS_SUM},
    [EXPRESSION_AND] = {" and ", 30},
    [EXPRESSION_OR] = {" or ", 20},
    [EXPRESSION_XOR] = {" ^ ", BINDS_BIT_XOR},
    [EXPRESSION_FLOOR_DIV] = {" // ", EXPRESSION_BINDS_ATOM - 1},
    [EXPRESSION_CLEAN_DIV] = {" // ", EXPRESSION_BINDS_ATOM - 1},
    [EXPRESSION_MOD] = {" % ", EXPRESSION_BINDS_ATOM - 1},
    [EXPRESSION_PYTHON_MOD] = {" % ", EXPRESSION_BINDS_ATOM - 1},
    [EXPRESSION_INT_TRUE_DIV] = {" / ", EXPRESSION_BINDS_ATOM - 1},
    [EXPRESSION_FLOAT_TRUE_DIV] = {" / ", EXPRESSION_BINDS_ATOM - 1},
    [EXPRESSION_POW_BY_NATURAL] = {" ** ", BINDS_POWER},
    [EXPRESSION_FLOAT_POW] = {" ** ", BINDS_POWER},
    [EXPRESSION_BIT_AND] = {" & ", BINDS_BIT_AND},
    [EXPRESSION_BIT_OR] = {" | ", BINDS_BIT_OR},
    [EXPRESSION_BIT_XOR] = {" ^ ", BINDS_BIT_XOR},
  };
  if (e->kind == EXPRESSION_MUL)
    return (python_infix){"*", binding(e)};
  return list[e->kind];
}

/* Print x**3 as x*x*x. */
static void python_power(printer *p, const expression *e)
{
  const expression *x = e->args[1];

  if (!expression_is_integer(x) || x->p < 0)
    refuse(p, "a power that is not a natural number");
  if (x->p == 0)
    text_putc(p->out, '1');
  for (int64_t i = 0; i < x->p; i++) {
    text_puts(p->out, i ? "*" : "");
    put_operand(p, e->args[0], BINDS_TERM);
    session_poll(p->s);
  }
}

/* Print ((x // div) % mod). */
static void python_indexing(printer *p, const expression *e)
{
  const bool divided = !expression_is_int(e->args[1], 1);

  text_puts(p->out, divided ? "((" : "(");
  put_operand(p, e->args[0], EXPRESSION_BINDS_ATOM - 1);
  if (divided) {
    text_puts(p->out, " // ");
    put_operand(p, e->args[1], EXPRESSION_BINDS_ATOM - 1);
    text_putc(p->out, ')');
  }
  text_puts(p->out, " % ");
  put_operand(p, e->args[2], EXPRESSION_BINDS_ATOM - 1);
  text_putc(p->out, ')');
}

/* Print (a if c else (b if d else ...)); the last case's condition is left out. */
static void python_cases(printer *p, const expression *e)
{
  uint32_t n = e->n_args, opened = 0;

  for (uint32_t i = 0; i < n; i++) {
    const expression *one = e->args[i];
    const bool last = i + 1 == n || one->args[1]->kind == EXPRESSION_TRUE;
    text_puts(p->out, last ? "" : "(");
    print(p, one->args[0]);
    if (last)
      break;
    text_puts(p->out, " if ");
    print(p, one->args[1]);
    text_puts(p->out, " else ");
    opened++;
  }
  while (opened--)
    text_putc(p->out, ')');
}

static void python_leaf(printer *p, const expression *e)
{
  switch ((int)e->kind) {
  case EXPRESSION_FLOAT:
    put_float(p->out, e->d, 17, false);
    break;
  case EXPRESSION_SYMBOL:
    if (p->name)
      p->name(p->arg, p->out, e);
    else
      put_str(p->out, e->name);
    break;
  case EXPRESSION_INT_INFINITY: /* no Python, but what PyTorch prints */
  case EXPRESSION_INT_NEG_INFINITY:
    text_puts(p->out,
              e->kind == EXPRESSION_INT_INFINITY ? "IntInfinity()" : "NegativeIntInfinity()");
    break;
  case EXPRESSION_INFINITY:
  case EXPRESSION_NEG_INFINITY:
  case EXPRESSION_NAN:
    text_puts(p->out, e->kind == EXPRESSION_NAN ? "math.nan"
                      : e->kind == EXPRESSION_INFINITY ? "math.inf" : "-math.inf");
    break;
  default:
    str_leaf(p, e);
  }
}

static void python_call(printer *p, const expression *e)
{
  const char *name = python_name(e->kind);

  switch ((int)e->kind) {
  case EXPRESSION_POW:
    python_power(p, e);
    break;
  case EXPRESSION_NOT:
    put_call(p, e, "not ");
    break;
  case EXPRESSION_IDENTITY:
    print(p, e->args[0]);
    break;
  case EXPRESSION_MODULAR_INDEXING:
    python_indexing(p, e);
    break;
  case EXPRESSION_PIECEWISE:
    python_cases(p, e);
    break;
  case EXPRESSION_TRUNC_TO_FLOAT:
    refuse(p, "TruncToFloat");
  default:
    put_call(p, e, name ? name : expression_kind_name(e->kind));
  }
}

static void print_python(printer *p, const expression *e)
{
  if (e->kind <= EXPRESSION_SYMBOL) {
    python_leaf(p, e);
    return;
  }
  if (e->kind >= EXPRESSION_EQ && e->kind <= EXPRESSION_GE) {
    put_relation(p, e, binding(e));
    return;
  }
  const python_infix op = python_operator(e);
  const bool wrapped = e->kind == EXPRESSION_FLOAT_TRUE_DIV;
  text_puts(p->out, wrapped ? "(" : "");
  if (op.text)
    put_operands(p, e, op.text, op.level);
  else
    python_call(p, e);
  text_puts(p->out, wrapped ? ")" : "");
}

void expression_print_python(session *s, text_buf *out, const expression *e,
                             expression_namer *name, void *arg)
{
  printer p = {
    .s = s, .out = out, .begin = out->len, .print = print_python, .name = name, .arg = arg};

  print(&p, expression_kept(s, e));
}
