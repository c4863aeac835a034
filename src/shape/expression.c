/* shape/expression.c -- nodes of expression trees: making, comparing, collecting symbols.
 *
 * A node knows its depth and the size of its tree, so that limits are checked in O(1) where nodes
 * are made, and no other function has to bound its recursion. */
#include "shape/expression_int.h"
#include "base/grow.h"

#include <math.h>

#define MANY EXPRESSION_MANY
#define ATOM EXPRESSION_BINDS_ATOM
const kind_facts expression_facts[EXPRESSION_N_KINDS] = {
#define X(kind, name, fewest, most, binds) [EXPRESSION_##kind] = {name, fewest, most, binds},
#include "shape/expression.def"
#undef X
};
#undef MANY
#undef ATOM

const char *expression_kind_name(expression_kind kind) { return expression_facts[kind].name; }

expression_kind expression_kind_named(str name)
{
  for (expression_kind k = EXPRESSION_SYMBOL + 1; k < EXPRESSION_N_KINDS; k++)
    if (str_is(name, expression_facts[k].name))
      return k;
  return EXPRESSION_N_KINDS;
}

const char *expression_relation(expression_kind relation)
{
  static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};

  return signs[relation - EXPRESSION_EQ];
}

/* -- Making ------------------------------------------------------------------------------------ */

static expression *leaf(session *s, arena *mem, expression_kind kind)
{
  expression *e = session_alloc_in(s, mem, sizeof *e);

  e->kind = kind;
  e->n_nodes = e->depth = 1;
  return e;
}

const expression *expression_node(session *s, arena *mem, expression_kind kind, uint32_t n,
                                  const expression *const *args)
{
  uint32_t depth = 0;
  uint64_t n_nodes = 1;

  if (n == 0 && kind <= EXPRESSION_SYMBOL)
    return leaf(s, mem, kind);
  ASSERT(n >= expression_facts[kind].fewest && n <= expression_facts[kind].most,
         "inv. 1: the number of arguments");
  for (uint32_t i = 0; i < n; i++) {
    n_nodes += args[i]->n_nodes;
    depth = args[i]->depth > depth ? args[i]->depth : depth;
  }
  if (n_nodes > EXPRESSION_MOST_NODES || depth >= EXPRESSION_MOST_DEPTH)
    session_fail_status(s, RUSH_ELIMIT, NULL, NULL,
                        "an expression has more than %d terms, or is nested more than %d times",
                        EXPRESSION_MOST_NODES, EXPRESSION_MOST_DEPTH);
  const expression **copy = session_alloc_in(s, mem, n * sizeof *copy);
  memcpy(copy, args, n * sizeof *copy);
  expression *e = leaf(s, mem, kind);
  e->n_args = n;
  e->args = copy;
  e->n_nodes = (uint32_t)n_nodes;
  e->depth = depth + 1;
  return e;
}

static uint64_t size_of(int64_t n) { return n < 0 ? -(uint64_t)n : (uint64_t)n; }

const expression *expression_fraction(session *s, arena *mem, int64_t p, int64_t q)
{
  uint64_t a = size_of(p), b = size_of(q);
  const bool negative = (p < 0) != (q < 0) && p != 0;

  if (q == 0)
    return NULL;
  while (b) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  const uint64_t top = size_of(p) / a, bottom = size_of(q) / a;
  if (bottom > INT64_MAX || top > (uint64_t)INT64_MAX + negative)
    return NULL;
  expression *e = leaf(s, mem, EXPRESSION_NUMBER);
  e->p = negative ? (int64_t)(0 - top) : (int64_t)top;
  e->q = (int64_t)bottom;
  return e;
}

const expression *expression_integer(session *s, arena *mem, int64_t n)
{
  return expression_fraction(s, mem, n, 1);
}

const expression *expression_rational(session *s, arena *mem, int64_t p, int64_t q)
{
  const expression *e = expression_fraction(s, mem, p, q);

  if (!e)
    session_fail_status(s, RUSH_ERAISED, q ? "OverflowError" : "ZeroDivisionError", NULL,
                        "no such number: %lld / %lld", (long long)p, (long long)q);
  return e;
}

const expression *expression_float(session *s, arena *mem, double d)
{
  expression *e = leaf(s, mem, EXPRESSION_FLOAT);

  e->d = d;
  return e;
}

const expression *expression_boolean(session *s, arena *mem, bool b)
{
  return leaf(s, mem, b ? EXPRESSION_TRUE : EXPRESSION_FALSE);
}

static str keep(session *s, arena *mem, str text)
{
  char *copy = session_alloc_in(s, mem, text.len);

  if (text.len)
    memcpy(copy, text.p, text.len);
  return (str){copy, text.len};
}

const expression *expression_symbol(session *s, arena *mem, str name, str assumptions)
{
  expression *e = leaf(s, mem, EXPRESSION_SYMBOL);

  e->name = keep(s, mem, name);
  e->assumptions = keep(s, mem, assumptions);
  return e;
}

/* Arguments of a sum or product that is being made. */
typedef struct folding {
  session *s;
  expression_kind kind;
  int64_t number; /* the integers so far */
  const expression **args; /* args[0] is reserved for the number */
  uint32_t n, cap;
} folding;

static void fold(folding *f, uint32_t n, const expression *const *args)
{
  for (uint32_t i = 0; i < n; i++) {
    const expression *e = args[i];
    int64_t r;
    if (e->kind == f->kind) { /* it is flat itself */
      fold(f, e->n_args, e->args);
      continue;
    }
    if (expression_is_integer(e) && !(f->kind == EXPRESSION_ADD
                                        ? __builtin_add_overflow(f->number, e->p, &r)
                                        : __builtin_mul_overflow(f->number, e->p, &r))) {
      f->number = r;
      continue;
    }
    GROW(f->s, f->args, f->n, f->cap, 8);
    f->args[f->n++] = e;
  }
}

static const expression *folded(session *s, arena *mem, expression_kind kind, uint32_t n,
                                const expression *const *args)
{
  const int64_t neutral = kind == EXPRESSION_MUL;
  folding f = {.s = s, .kind = kind, .number = neutral};

  GROW(s, f.args, f.n, f.cap, 8);
  f.n = 1;
  fold(&f, n, args);
  if (f.n == 1 || (kind == EXPRESSION_MUL && f.number == 0))
    return expression_integer(s, mem, f.number);
  const bool has_number = f.number != neutral;
  if (has_number)
    f.args[0] = expression_integer(s, mem, f.number);
  else if (f.n == 2)
    return f.args[1];
  return expression_node(s, mem, kind, f.n - !has_number, f.args + !has_number);
}

const expression *expression_call(session *s, arena *mem, expression_kind kind, uint32_t n,
                                  const expression *const *args)
{
  return kind == EXPRESSION_ADD || kind == EXPRESSION_MUL ? folded(s, mem, kind, n, args)
                                              : expression_node(s, mem, kind, n, args);
}

/* -- Asking ------------------------------------------------------------------------------------ */

bool expression_same(const expression *a, const expression *b)
{
  if (a == b)
    return true;
  if (a->kind != b->kind || a->n_args != b->n_args || a->n_nodes != b->n_nodes)
    return false;
  if (a->kind == EXPRESSION_NUMBER)
    return a->p == b->p && a->q == b->q;
  if (a->kind == EXPRESSION_FLOAT)
    return memcmp(&a->d, &b->d, sizeof a->d) == 0;
  if (a->kind == EXPRESSION_SYMBOL)
    return str_eq(a->name, b->name) && str_eq(a->assumptions, b->assumptions);
  for (uint32_t i = 0; i < a->n_args; i++)
    if (!expression_same(a->args[i], b->args[i]))
      return false;
  return true;
}

typedef struct symbol_walk {
  session *s;
  table *seen; /* in the session's memory: it is freed with it */
  void (*visit)(void *arg, const expression *symbol);
  void *arg;
} symbol_walk;

static void walk(symbol_walk *w, const expression *e)
{
  session_poll(w->s);
  for (uint32_t i = 0; i < e->n_args; i++)
    walk(w, e->args[i]);
  if (e->kind != EXPRESSION_SYMBOL || table_get(w->seen, e->name))
    return;
  session_table_put(w->s, w->seen, e->name, (void *)(uintptr_t)e);
  w->visit(w->arg, e);
}

void expression_symbols(session *s, const expression *e,
                        void (*visit)(void *arg, const expression *symbol), void *arg)
{
  symbol_walk w = {.s = s, .seen = session_new(s, table), .visit = visit, .arg = arg};

  session_table_init(s, w.seen);
  walk(&w, e);
}

/* -- Numbers ----------------------------------------------------------------------------------- */

static double as_double(const expression *e)
{
  switch ((int)e->kind) {
  case EXPRESSION_NUMBER:
    return (double)e->p / (double)e->q;
  case EXPRESSION_FLOAT:
    return e->d;
  case EXPRESSION_INT_NEG_INFINITY:
  case EXPRESSION_NEG_INFINITY:
    return -HUGE_VAL;
  default:
    return HUGE_VAL;
  }
}

int expression_compare_numbers(const expression *a, const expression *b)
{
  if (a->kind == EXPRESSION_NUMBER && b->kind == EXPRESSION_NUMBER) {
    const __int128 x = (__int128)a->p * b->q, y = (__int128)b->p * a->q;
    return (x > y) - (x < y);
  }
  if (a->kind == EXPRESSION_NAN || b->kind == EXPRESSION_NAN)
    return 0;
  const double x = as_double(a), y = as_double(b);
  return (x > y) - (x < y);
}
