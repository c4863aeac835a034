/* export/guard.c -- conditions on sizes: parsed from PyTorch's text, compared, printed and
 * evaluated.
 *
 * A guard is a tree of integer operations over the sizes of inputs, read by recursive descent with
 * Python's precedences.  It is evaluated at each call in int64 with Python's floor division;
 * overflow or division by zero fails the guard.  Depth is limited by the session, length by the
 * reader. */
#include "export/exported.h"
#include "base/integer.h"

#include <ctype.h>

#include <math.h>
#include <stdlib.h>

/* -- Parsing: Python's expression grammar as far as guards use it ------------------------------ */

typedef struct guard_reader {
  session *s;
  arena *mem;
  const exported *e;
  const char *p;
  int n;
  bool failed;
} guard_reader;

#define MOST_TERMS 2000 /* of a condition */

static const guard *read_or(guard_reader *r);

static const guard *make_guard(guard_reader *r, guard_op op, const guard *a, const guard *b)
{
  guard *g = session_alloc_in(r->s, r->mem, sizeof *g);

  r->failed |= ++r->n > MOST_TERMS;
  *g = (guard){.op = op, .a = a, .b = b};
  return g;
}

static void skip(guard_reader *r)
{
  while (*r->p == ' ')
    r->p++;
}
static bool accept(guard_reader *r, const char *token)
{
  size_t n = strlen(token);

  skip(r);
  if (strncmp(r->p, token, n) != 0)
    return false;
  if (isalpha((unsigned char)token[n - 1]) && (isalnum((unsigned char)r->p[n]) || r->p[n] == '_'))
    return false;
  r->p += n;
  return true;
}
static void need(guard_reader *r, const char *token)
{
  if (!accept(r, token))
    r->failed = true;
}

/* Return the child of `t` under ['key'] or [i]; *leaf moves past the leaves before it. */
static const tree_spec *descend(const tree_spec *t, str key, int64_t index, uint32_t *leaf)
{
  for (uint32_t i = 0; i < t->n_children; i++) {
    bool hit =
      key.p ? t->keys && t->keys[i].tag == RUSH_TAG_STRING && str_eq(value_str(t->keys[i]), key)
      : t->keys && t->keys[i].tag == RUSH_TAG_INT ? t->keys[i].as.i == index
                                                  : index == (int64_t)i;
    if (hit)
      return &t->children[i];
    *leaf += tree_n_leaves(&t->children[i]);
  }
  return NULL;
}

/* Read ['name'] or [3]. */
static bool read_subscript(guard_reader *r, str *key, int64_t *index)
{
  *key = (str){0};
  if (!accept(r, "["))
    return false;
  skip(r);
  if (*r->p == '\'' || *r->p == '"') {
    char quote = *r->p++;
    key->p = r->p;
    while (*r->p && *r->p != quote)
      r->p++;
    key->len = (size_t)(r->p - key->p);
    r->p += *r->p == quote;
  } else {
    char *end;
    *index = strtoll(r->p, &end, 10);
    r->failed |= end == r->p;
    r->p = end;
  }
  need(r, "]");
  return true;
}

/* Read a subscript, or .name: a field of a dataclass. */
static bool read_step(guard_reader *r, str *key, int64_t *index)
{
  if (!accept(r, "."))
    return read_subscript(r, key, index);
  key->p = r->p;
  while (isalnum((unsigned char)*r->p) || *r->p == '_')
    r->p++;
  key->len = (size_t)(r->p - key->p);
  r->failed |= key->len == 0;
  return true;
}

/* Find the argument's tree by forward's parameter name. */
static const tree_spec *argument(const exported *e, str name, uint32_t *leaf)
{
  const tree_spec *args = &e->in->children[0],
                  *kwargs = e->in->n_children > 1 ? &e->in->children[1] : NULL;

  for (uint32_t i = 0; i < args->n_children; i++) {
    if (i < e->n_arg_names && str_is(name, e->arg_names[i]))
      return &args->children[i];
    *leaf += tree_n_leaves(&args->children[i]);
  }
  return kwargs ? descend(kwargs, name, 0, leaf) : NULL;
}

/* Read L['x'], L['x'][0]['k'].field, then perhaps .size()[i]. */
static const guard *read_input(guard_reader *r)
{
  uint32_t leaf = 0;
  int64_t index = 0;
  str key;

  if (!read_subscript(r, &key, &index) || !key.p) {
    r->failed = true;
    return NULL;
  }
  const tree_spec *t = argument(r->e, key, &leaf);
  while (t && t->kind != TREE_LEAF && read_step(r, &key, &index))
    t = descend(t, key, index, &leaf);
  if (!t || t->kind != TREE_LEAF || leaf >= r->e->n_leaves) {
    r->failed = true;
    return NULL;
  }
  guard *g = (guard *)make_guard(r, GUARD_LEAF, NULL, NULL);
  g->leaf = leaf;
  if (accept(r, ".size()")) {
    g->op = GUARD_SIZE;
    r->failed |= !read_subscript(r, &key, &g->value) || key.p != NULL;
  }
  return g;
}

static const guard *read_call(guard_reader *r, guard_op op)
{
  need(r, "(");
  const guard *g = read_or(r);
  while (!r->failed && accept(r, ","))
    g = make_guard(r, op, g, read_or(r));
  need(r, ")");
  return g;
}

static const guard *read_two(guard_reader *r, guard_op op)
{
  need(r, "(");
  const guard *a = read_or(r);
  need(r, ",");
  const guard *b = read_or(r);
  need(r, ")");
  return make_guard(r, op, a, b);
}

static const guard *read_atom(guard_reader *r)
{
  skip(r);
  if (r->failed)
    return NULL;
  const guard *g = NULL;
  if (accept(r, "(")) {
    g = read_or(r);
    need(r, ")");
  } else if (isdigit((unsigned char)*r->p)) {
    char *end;
    guard *n = (guard *)make_guard(r, GUARD_INT, NULL, NULL);
    n->value = strtoll(r->p, &end, 10);
    r->p = end;
    r->failed |= *end == '.';
    g = n;
  } else if (accept(r, "L")) {
    g = read_input(r);
  } else if (accept(r, "Max") || accept(r, "max")) {
    g = read_call(r, GUARD_MAX);
  } else if (accept(r, "Min") || accept(r, "min")) {
    g = read_call(r, GUARD_MIN);
  } else if (accept(r, "Mod") || accept(r, "PythonMod")) {
    g = read_two(r, GUARD_MOD);
  } else if (accept(r, "FloorDiv")) {
    g = read_two(r, GUARD_FLOORDIV);
  } else {
    r->failed = true;
  }
  return g;
}

/* All recursion of the grammar except that of `not` passes through here. */
static const guard *read_power(guard_reader *r)
{
  const guard *g;

  session_enter(r->s);
  if (accept(r, "-")) {
    g = make_guard(r, GUARD_NEG, read_power(r), NULL);
  } else {
    g = read_atom(r);
    if (!r->failed && accept(r, "**"))
      g = make_guard(r, GUARD_POW, g, read_power(r));
  }
  session_leave(r->s);
  return g;
}

static const guard *read_term(guard_reader *r)
{
  const guard *g = read_power(r);

  for (;;) {
    if (r->failed)
      return g;
    if (accept(r, "//"))
      g = make_guard(r, GUARD_FLOORDIV, g, read_power(r));
    else if (accept(r, "*"))
      g = make_guard(r, GUARD_MUL, g, read_power(r));
    else if (accept(r, "%"))
      g = make_guard(r, GUARD_MOD, g, read_power(r));
    else
      return g;
  }
}

static const guard *read_sum(guard_reader *r)
{
  const guard *g = read_term(r);

  for (;;) {
    if (r->failed)
      return g;
    if (accept(r, "+"))
      g = make_guard(r, GUARD_ADD, g, read_term(r));
    else if (accept(r, "-"))
      g = make_guard(r, GUARD_SUB, g, read_term(r));
    else
      return g;
  }
}

static const guard *read_comparison(guard_reader *r)
{
  static const struct { const char *token; guard_op op;
  } ops[] = {{"==", GUARD_EQ}, {"!=", GUARD_NE}, {"<=", GUARD_LE},
             {">=", GUARD_GE}, {"<", GUARD_LT},  {">", GUARD_GT}};

  if (accept(r, "not")) {
    session_enter(r->s);
    const guard *inner = read_comparison(r);
    session_leave(r->s);
    return make_guard(r, GUARD_NOT, inner, NULL);
  }
  const guard *a = read_sum(r), *all = NULL;
  for (size_t i = 0; i < COUNT_OF(ops) && !r->failed; i++) {
    if (!accept(r, ops[i].token))
      continue;
    const guard *b = read_sum(r), *one = make_guard(r, ops[i].op, a, b);
    all = all ? make_guard(r, GUARD_AND, all, one) : one;
    a = b;
    i = (size_t)-1; /* a < b < c */
  }
  return all ? all : a;
}

static const guard *read_and(guard_reader *r)
{
  const guard *g = read_comparison(r);

  while (!r->failed && accept(r, "and"))
    g = make_guard(r, GUARD_AND, g, read_comparison(r));
  return g;
}

static const guard *read_or(guard_reader *r)
{
  const guard *g = read_and(r);

  while (!r->failed && accept(r, "or"))
    g = make_guard(r, GUARD_OR, g, read_and(r));
  return g;
}

/* -- Showing: as Python's ast.unparse does, with `x` for `L['x']` ------------------------------ */

enum {
  BIND_OR,
  BIND_AND,
  BIND_NOT,
  BIND_COMPARE,
  BIND_SUM,
  BIND_TERM,
  BIND_FACTOR,
  BIND_POWER,
  BIND_ATOM
};

static const struct shown_op { const char *word; int bind;
} shown_ops[] = {[GUARD_ADD] = {" + ", BIND_SUM},     [GUARD_SUB] = {" - ", BIND_SUM},
                 [GUARD_MUL] = {" * ", BIND_TERM},    [GUARD_FLOORDIV] = {" // ", BIND_TERM},
                 [GUARD_MOD] = {" % ", BIND_TERM},    [GUARD_POW] = {" ** ", BIND_POWER},
                 [GUARD_EQ] = {" == ", BIND_COMPARE}, [GUARD_NE] = {" != ", BIND_COMPARE},
                 [GUARD_LT] = {" < ", BIND_COMPARE},  [GUARD_LE] = {" <= ", BIND_COMPARE},
                 [GUARD_GT] = {" > ", BIND_COMPARE},  [GUARD_GE] = {" >= ", BIND_COMPARE},
                 [GUARD_AND] = {" and ", BIND_AND},   [GUARD_OR] = {" or ", BIND_OR}};

typedef struct shower {
  session *s;
  text_buf *t;
  const exported *e;
} shower;

static void show(const shower *w, const guard *g, int bind);

static void show_op(const shower *w, const guard *g, int bind)
{
  text_buf *t = w->t;
  const exported *e = w->e;

  switch (g->op) {
  case GUARD_INT:
    text_printf(t, "%lld", (long long)g->value);
    return;
  case GUARD_LEAF:
  case GUARD_CONSTANT:
    text_puts(t, e->leaf_names[g->leaf]);
    return;
  case GUARD_SIZE:
    text_printf(t, "%s.size()[%lld]", e->leaf_names[g->leaf], (long long)g->value);
    return;
  case GUARD_MIN:
  case GUARD_MAX:
    text_puts(t, g->op == GUARD_MIN ? "min(" : "max(");
    show(w, g->a, BIND_OR);
    text_puts(t, ", ");
    show(w, g->b, BIND_OR);
    text_putc(t, ')');
    return;
  case GUARD_NEG:
  case GUARD_NOT: {
    int own = g->op == GUARD_NEG ? BIND_FACTOR : BIND_NOT;
    text_puts(t, bind > own ? "(" : "");
    text_puts(t, g->op == GUARD_NEG ? "-" : "not ");
    show(w, g->a, own);
    text_puts(t, bind > own ? ")" : "");
    return;
  }
  default:
    break;
  }
  const struct shown_op *op = &shown_ops[g->op];
  bool right = g->op == GUARD_POW, tight = op->bind == BIND_COMPARE;
  text_puts(t, bind > op->bind ? "(" : "");
  show(w, g->a, op->bind + (right || tight));
  text_puts(t, op->word);
  show(w, g->b, op->bind + !right);
  text_puts(t, bind > op->bind ? ")" : "");
}

static void show(const shower *w, const guard *g, int bind)
{
  session_enter(w->s);
  show_op(w, g, bind);
  session_leave(w->s);
}

static const char *shown_text(session *s, arena *mem, const exported *e, const guard *g)
{
  text_buf *t = session_text(s);

  show(&(shower){s, t, e}, g, BIND_OR);
  if (text_failed(t))
    session_check(s, call_nomem(s->cx));
  char *out = session_alloc_in(s, mem, t->len + 1);
  memcpy(out, text_str(t), t->len);
  return out;
}

const guard *guard_parse(session *s, arena *mem, const exported *e, const char *text)
{
  guard_reader r = {.s = s, .mem = mem, .e = e, .p = text};
  const guard *g = read_or(&r);

  skip(&r);
  if (r.failed || *r.p || !g)
    return NULL;
  ((guard *)g)->text = shown_text(s, mem, e, g);
  return g;
}

const guard *guard_compare(session *s, arena *mem, const exported *e, guard_op op, const guard *a,
                           const guard *b)
{
  guard *g = session_alloc_in(s, mem, sizeof *g);

  *g = (guard){.op = op, .a = a, .b = b};
  g->text = shown_text(s, mem, e, g);
  return g;
}

/* Print a condition so that equal ones are equal texts: n > 4 as n >= 5. */
static void put_key(shower *w, const guard *g)
{
  const bool strict = (g->op == GUARD_GT || g->op == GUARD_LT) && g->b->op == GUARD_INT;

  if (!strict) {
    show(w, g, BIND_OR);
    return;
  }
  show(w, g->a, BIND_OR);
  text_printf(w->t, g->op == GUARD_GT ? " >= %lld" : " <= %lld",
              (long long)g->b->value + (g->op == GUARD_GT ? 1 : -1));
}

const char *guard_key(session *s, const exported *e, const guard *g)
{
  text_buf *t = session_text(s);

  if (g->op == GUARD_CONSTANT)
    return g->text;
  put_key(&(shower){s, t, e}, g);
  if (text_failed(t))
    session_check(s, call_nomem(s->cx));
  return text_str(t);
}

/* -- Checking ---------------------------------------------------------------------------------- */

/* Compute with wrapping arithmetic: sizes are far below the limits; a hostile guard only fails. */
static int64_t power(int64_t a, int64_t b)
{
  uint64_t r = 1;

  for (int64_t i = 0; i < b && i < 64; i++)
    r *= (uint64_t)a;
  return (int64_t)r;
}

static bool is_number(rush_value v)
{
  return v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_BOOL || v.tag == RUSH_TAG_FLOAT;
}

/* Compare as Python does: 2 == 2.0 and 1 == True. */
static bool same_constant(rush_value want, rush_value got)
{
  if (is_number(want) && is_number(got)) {
    if (want.tag != RUSH_TAG_FLOAT && got.tag != RUSH_TAG_FLOAT)
      return want.as.i == got.as.i;
    double a = want.tag == RUSH_TAG_FLOAT ? want.as.d : (double)want.as.i;
    double b = got.tag == RUSH_TAG_FLOAT ? got.as.d : (double)got.as.i;
    return a == b || (isnan(a) && isnan(b));
  }
  return want.tag == RUSH_TAG_STRING && got.tag == RUSH_TAG_STRING &&
         str_eq(value_str(want), value_str(got));
}

typedef struct checker {
  call_ctx *cx;
  const exported *e;
  const rush_value *leaves;
  const guard *missing; /* a size of a dimension that the input does not have; or NULL */
  rush_status st; /* sticky: the recursion's limit */
} checker;

static int64_t eval(checker *k, const guard *g);

static int64_t eval_op(checker *k, const guard *g)
{
  const rush_value *leaves = k->leaves;
  rush_value v;
  int64_t a, b;

  switch (g->op) {
  case GUARD_INT:
    return g->value;
  case GUARD_LEAF:
    v = leaves[g->leaf];
    return v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_BOOL ? v.as.i : -1;
  case GUARD_CONSTANT:
    return same_constant(*g->constant, leaves[g->leaf]);
  case GUARD_SIZE:
    v = leaves[g->leaf];
    if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && g->value >= 0 && g->value < v.as.tensor->n_dims)
      return v.as.tensor->sizes[g->value];
    k->missing = g;
    return -1;
  case GUARD_AND:
    return eval(k, g->a) && eval(k, g->b);
  case GUARD_OR:
    return eval(k, g->a) || eval(k, g->b);
  case GUARD_NOT:
    return !eval(k, g->a);
  default:
    break;
  }
  a = eval(k, g->a);
  b = g->b ? eval(k, g->b) : 0;
  switch (g->op) {
  case GUARD_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
  case GUARD_SUB: return (int64_t)((uint64_t)a - (uint64_t)b);
  case GUARD_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
  case GUARD_FLOORDIV: return b == 0 ? 0 : i64_floordiv(a, b);
  case GUARD_MOD: return b == 0 ? a : i64_mod(a, b);
  case GUARD_POW: return power(a, b);
  case GUARD_NEG: return (int64_t)(0 - (uint64_t)a);
  case GUARD_MIN: return i64_min(a, b);
  case GUARD_MAX: return i64_max(a, b);
  case GUARD_EQ: return a == b;
  case GUARD_NE: return a != b;
  case GUARD_LT: return a < b;
  case GUARD_LE: return a <= b;
  case GUARD_GT: return a > b;
  case GUARD_GE: return a >= b;
  default: return 0;
  }
}

static int64_t eval(checker *k, const guard *g)
{
  if (k->st != RUSH_OK || (k->st = call_enter(k->cx)) != RUSH_OK)
    return 0;
  const int64_t v = eval_op(k, g);
  call_leave(k->cx);
  return v;
}

/* Collect the inputs that a condition names, each once: at most MOST_SHOWN. */
#define MOST_SHOWN 8
typedef struct named_leaves {
  uint32_t at[MOST_SHOWN];
  int n;
} named_leaves;

static void name_leaves(const guard *g, named_leaves *l)
{
  const bool is_leaf = g->op == GUARD_LEAF || g->op == GUARD_SIZE || g->op == GUARD_CONSTANT;
  bool is_known = !is_leaf || l->n == MOST_SHOWN;

  for (int i = 0; i < l->n; i++)
    is_known |= l->at[i] == g->leaf;
  if (!is_known)
    l->at[l->n++] = g->leaf;
  if (g->a)
    name_leaves(g->a, l); /* as deep as the parser's recursion: MOST_TERMS */
  if (g->b)
    name_leaves(g->b, l);
}

/* Print "x is float32[2, 3]; n is 4". */
static rush_status put_inputs(checker *k, const guard *g, text_buf *t)
{
  named_leaves l = {.n = 0};

  name_leaves(g, &l);
  for (int i = 0; i < l.n; i++) {
    const rush_value v = k->leaves[l.at[i]];
    text_printf(t, "%s%s is ", i ? "; " : "", k->e->leaf_names[l.at[i]]);
    if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor) {
      TRY(value_repr(k->cx, t, v));
      continue;
    }
    text_printf(t, "%s[", dtype_name(v.as.tensor->dtype));
    for (int dim = 0; dim < v.as.tensor->n_dims; dim++)
      text_printf(t, "%s%lld", dim ? ", " : "", (long long)v.as.tensor->sizes[dim]);
    text_putc(t, ']');
  }
  return RUSH_OK;
}

/* Print PyTorch's message, then the values found: the numbers if the condition compares some, and
 * the inputs. */
static rush_status describe_failed(checker *k, const guard *g, text_buf *t)
{
  static const char *const signs[] = {[GUARD_EQ] = "==", [GUARD_NE] = "!=", [GUARD_LT] = "<",
                                      [GUARD_LE] = "<=", [GUARD_GT] = ">",  [GUARD_GE] = ">="};
  const guard *missing = k->missing;

  if (missing)
    text_puts(t, "tuple index out of range");
  else
    text_printf(t, "Guard failed: %s", g->text);
  text_puts(t, "\n(this call: ");
  if (missing) {
    text_printf(t, "no size()[%lld] for %s: ", (long long)missing->value, g->text);
  } else if (g->op >= GUARD_EQ && g->op <= GUARD_GE) {
    const int64_t a = eval(k, g->a), b = eval(k, g->b);
    text_printf(t, "%lld %s %lld; ", (long long)a, signs[g->op], (long long)b);
  }
  TRY(put_inputs(k, missing ? missing : g, t));
  text_puts(t, ")");
  return k->st;
}

static rush_status fail_guard(checker *k, const guard *g)
{
  text_buf t;

  text_init(&t, k->cx->ctx);
  rush_status st = describe_failed(k, g, &t);
  if (st == RUSH_OK)
    st = error_set_type(k->cx->err, RUSH_EARGUMENT, k->missing ? "IndexError" : "AssertionError",
                        "%s", text_str(&t));
  text_free(&t);
  return st;
}

rush_status guard_check(call_ctx *cx, const exported *e, const guard *g, const rush_value *leaves)
{
  checker k = {.cx = cx, .e = e, .leaves = leaves};

  if ((eval(&k, g) && !k.missing) || k.st != RUSH_OK)
    return k.st;
  return fail_guard(&k, g);
}
