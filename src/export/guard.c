/* export/guard.c -- conditions on inputs: parsed from PyTorch's code, compared, evaluated.
 *
 * A condition is an expression tree (shape/expression.h) whose symbols are sources: the text
 * L['x'].size()[0] is a symbol of that name, which is resolved once to a leaf of the input and a
 * dimension.  It is evaluated at each call with Python's arithmetic; overflow and division by zero
 * are errors, as in Python.  The text for messages is made from the code (guard_text.c). */
#include "export/guard_int.h"
#include "base/grow.h"
#include "base/integer.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define MOST_TEXT 16384 /* of a condition: guard_unparse is quadratic */

/* -- Sources ----------------------------------------------------------------------------------- */

/* The text of a symbol, which expression_read accepted: names, subscripts, (). */
typedef struct source_reader {
  const exported *e;
  const char *p, *end;
} source_reader;

static bool accept(source_reader *r, const char *token)
{
  const size_t n = strlen(token);

  while (r->p < r->end && isspace((unsigned char)*r->p))
    r->p++;
  if ((size_t)(r->end - r->p) < n || memcmp(r->p, token, n) != 0)
    return false;
  r->p += n;
  return true;
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

/* Read ['name'] (key.p is not NULL) or [3]. */
static bool read_subscript(source_reader *r, str *key, int64_t *index)
{
  *key = (str){0};
  if (!accept(r, "["))
    return false;
  if (accept(r, "'") || accept(r, "\"")) {
    const char quote = r->p[-1];
    key->p = r->p;
    while (*r->p != quote)
      r->p++;
    key->len = (size_t)(r->p++ - key->p);
  } else {
    const bool negative = accept(r, "-");
    (void)accept(r, "");
    char *end;
    *index = strtoll(r->p, &end, 10) * (negative ? -1 : 1);
    r->p = end;
  }
  return accept(r, "]");
}

/* Read a subscript, or .name: a field of a dataclass. */
static bool read_step(source_reader *r, str *key, int64_t *index)
{
  if (!accept(r, "."))
    return read_subscript(r, key, index);
  (void)accept(r, "");
  key->p = r->p;
  while (r->p < r->end && (isalnum((unsigned char)*r->p) || *r->p == '_'))
    r->p++;
  key->len = (size_t)(r->p - key->p);
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

/* Resolve L['x'], L['x'][0]['k'].field, perhaps with .size()[i]; false: there is no such input. */
static bool find_input(source_reader *r, guard_source *out)
{
  uint32_t leaf = 0;
  int64_t index = 0;
  str key;

  if (!accept(r, "L") || !read_subscript(r, &key, &index) || !key.p)
    return false;
  const tree_spec *t = argument(r->e, key, &leaf);
  while (t && t->kind != TREE_LEAF && read_step(r, &key, &index))
    t = descend(t, key, index, &leaf);
  if (!t || t->kind != TREE_LEAF || leaf >= r->e->n_leaves)
    return false;
  out->leaf = leaf;
  out->dim = -1;
  if (accept(r, ".size()")) {
    if (!read_subscript(r, &key, &out->dim) || key.p || out->dim < 0)
      return false;
  }
  return r->p == r->end;
}

/* -- Parsing ----------------------------------------------------------------------------------- */

typedef struct parser {
  const exported *e;
  arena *mem;
  const char *text;
  session *s;
  guard_source *sources;
  uint32_t n, cap;
  bool unknown; /* a source that is no input's */
  guard *made;
} parser;

static void add_source(void *arg, const expression *symbol)
{
  parser *p = arg;
  guard_source one = {.name = symbol->name};
  source_reader r = {p->e, symbol->name.p, symbol->name.p + symbol->name.len};

  p->unknown |= !find_input(&r, &one);
  GROW_IN(p->s, p->mem, p->sources, p->n, p->cap, 2);
  p->sources[p->n++] = one;
}

static const char *kept_text(session *s, arena *mem, const text_buf *t)
{
  if (text_failed(t))
    session_check(s, call_nomem(s->cx));
  char *out = session_alloc_in(s, mem, t->len + 1);
  memcpy(out, text_str(t), t->len);
  return out;
}

static void parse(session *s, void *arg)
{
  parser *p = arg;
  text_buf *shown = session_text(s);
  const expression *condition =
    expression_read(s, p->mem, "guards_code", str_of(p->text), EXPRESSION_PYTHON);

  p->s = s;
  expression_symbols(s, condition, add_source, p);
  if (p->unknown || strlen(p->text) > MOST_TEXT)
    return;
  guard_unparse(s, shown, p->text);
  p->made = session_alloc_in(s, p->mem, sizeof *p->made);
  *p->made = (guard){.condition = condition,
                     .sources = p->sources,
                     .n_sources = p->n,
                     .text = kept_text(s, p->mem, shown)};
}

const guard *guard_parse(session *s, arena *mem, const exported *e, const char *text)
{
  parser p = {.e = e, .mem = mem, .text = text};
  rush_error err = RUSH_ERROR_INIT;
  call_ctx inner = *s->cx;

  inner.err = &err;
  const rush_status st = session_run(&inner, parse, &p);
  const bool unsupported =
    st == RUSH_EFORMAT || (st == RUSH_ELIMIT && err.limit == RUSH_LIMIT_OTHER);
  if (unsupported)
    rush_error_clear(&err);
  else if (st != RUSH_OK)
    error_move(s->cx->err, &err);
  session_check(s, unsupported ? RUSH_OK : st);
  return unsupported ? NULL : p.made;
}

/* -- Making ------------------------------------------------------------------------------------ */

guard_source guard_source_of(session *s, arena *mem, const exported *e, uint32_t leaf, int64_t dim)
{
  text_buf *t = session_text(s);

  text_puts(t, e->leaf_names[leaf]);
  if (dim >= 0)
    text_printf(t, ".size()[%lld]", (long long)dim);
  return (guard_source){.name = str_of(kept_text(s, mem, t)), .leaf = leaf, .dim = dim};
}

const guard *guard_compare(session *s, arena *mem, expression_kind relation, const guard_source *a,
                           const guard_source *b, int64_t number)
{
  guard_source *sources = session_alloc_in(s, mem, 2 * sizeof *sources);
  text_buf *t = session_text(s);
  guard *g = session_alloc_in(s, mem, sizeof *g);
  const expression *sides[2] = {expression_symbol(s, mem, a->name, (str){0}),
                                b ? expression_symbol(s, mem, b->name, (str){0})
                                  : expression_integer(s, mem, number)};

  sources[0] = *a;
  sources[0].name = sides[0]->name; /* find_source compares pointers first */
  if (b) {
    sources[1] = *b;
    sources[1].name = sides[1]->name;
  }
  text_printf(t, "%s %s ", a->name.p, expression_relation(relation));
  if (b)
    text_puts(t, b->name.p);
  else
    text_printf(t, "%lld", (long long)number);
  *g = (guard){.condition = expression_call(s, mem, relation, 2, sides),
               .sources = sources,
               .n_sources = b ? 2 : 1,
               .text = kept_text(s, mem, t)};
  return g;
}

/* -- Keys -------------------------------------------------------------------------------------- */

static const guard_source *find_source(const guard *g, str name)
{
  uint32_t i = 0;

  while (g->sources[i].name.p != name.p && !str_eq(g->sources[i].name, name))
    i++;
  return &g->sources[i];
}

typedef struct key_job {
  const exported *e;
  const guard *g;
} key_job;

static void put_source(void *arg, text_buf *out, const expression *symbol)
{
  const key_job *j = arg;
  const guard_source *source = find_source(j->g, symbol->name);

  text_puts(out, j->e->leaf_names[source->leaf]);
  if (source->dim >= 0)
    text_printf(out, ".size()[%lld]", (long long)source->dim);
}

/* Write n > 4 as n >= 5. */
static const expression *not_strict(session *s, const expression *e)
{
  const bool greater = e->kind == EXPRESSION_GT;

  if ((!greater && e->kind != EXPRESSION_LT) || !expression_is_integer(e->args[1]))
    return e;
  const expression *sides[2] = {
    e->args[0], expression_integer(s, s->mem, i64_add(e->args[1]->p, greater ? 1 : -1))};
  return expression_call(s, s->mem, greater ? EXPRESSION_GE : EXPRESSION_LE, 2, sides);
}

const char *guard_key(session *s, const exported *e, const guard *g)
{
  text_buf *t = session_text(s);
  key_job j = {e, g};

  if (!g->condition)
    return g->text;
  expression_print_python(s, t, not_strict(s, g->condition), put_source, &j);
  if (text_failed(t))
    session_check(s, call_nomem(s->cx));
  return text_str(t);
}

/* -- Checking ---------------------------------------------------------------------------------- */

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
  const guard *g;
  const rush_value *leaves;
  const guard_source *missing; /* a size of a dimension that the input does not have; or NULL */
} checker;

static bool find_value(void *arg, const expression *symbol, rush_value *value)
{
  checker *k = arg;
  const guard_source *source = find_source(k->g, symbol->name);
  const rush_value v = k->leaves[source->leaf];

  if (source->dim < 0) {
    *value = v;
    return true;
  }
  if (v.tag == RUSH_TAG_TENSOR && v.as.tensor && source->dim < v.as.tensor->n_dims) {
    *value = value_int(v.as.tensor->sizes[source->dim]);
    return true;
  }
  k->missing = source;
  return false;
}

/* Print "x is float32[2, 3]; n is 4": at most MOST_SHOWN inputs of the condition, each once. */
#define MOST_SHOWN 8
static rush_status put_input(checker *k, uint32_t leaf, bool first, text_buf *t)
{
  const rush_value v = k->leaves[leaf];

  text_printf(t, "%s%s is ", first ? "" : "; ", k->e->leaf_names[leaf]);
  if (v.tag != RUSH_TAG_TENSOR || !v.as.tensor)
    return value_repr(k->cx, t, v);
  text_printf(t, "%s[", dtype_name(v.as.tensor->dtype));
  for (int dim = 0; dim < v.as.tensor->n_dims; dim++)
    text_printf(t, "%s%lld", dim ? ", " : "", (long long)v.as.tensor->sizes[dim]);
  text_putc(t, ']');
  return RUSH_OK;
}

static rush_status put_inputs(checker *k, text_buf *t)
{
  uint32_t shown[MOST_SHOWN];
  int n = 0;

  if (!k->g->condition)
    return put_input(k, k->g->leaf, true, t);
  for (uint32_t i = 0; i < k->g->n_sources && n < MOST_SHOWN; i++) {
    bool is_known = false;
    for (int j = 0; j < n; j++)
      is_known |= shown[j] == k->g->sources[i].leaf;
    if (is_known)
      continue;
    shown[n++] = k->g->sources[i].leaf;
    TRY(put_input(k, shown[n - 1], n == 1, t));
  }
  return RUSH_OK;
}

/* Print "2 == 1; " for a relation. */
static rush_status put_sides(checker *k, text_buf *t)
{
  const expression *e = k->g->condition;
  rush_value side;

  if (!e || e->kind < EXPRESSION_EQ || e->kind > EXPRESSION_GE)
    return RUSH_OK;
  for (int i = 0; i < 2; i++) {
    TRY(expression_evaluate(k->cx, e->args[i], find_value, k, &side));
    TRY(value_repr(k->cx, t, side));
    if (i == 0)
      text_printf(t, " %s ", expression_relation(e->kind));
  }
  text_puts(t, "; ");
  return RUSH_OK;
}

/* Print PyTorch's message, then the values found: the numbers if the condition compares some, and
 * the inputs. */
static rush_status describe_failed(checker *k, text_buf *t)
{
  if (k->missing) {
    text_printf(t, "tuple index out of range\n(this call: no size()[%lld] for %s: ",
                (long long)k->missing->dim, k->g->text);
    TRY(put_input(k, k->missing->leaf, true, t));
  } else {
    text_printf(t, "Guard failed: %s\n(this call: ", k->g->text);
    TRY(put_sides(k, t));
    TRY(put_inputs(k, t));
  }
  text_puts(t, ")");
  return RUSH_OK;
}

static rush_status fail_guard(checker *k)
{
  text_buf t;

  text_init(&t, k->cx->ctx);
  rush_status st = describe_failed(k, &t);
  if (st == RUSH_OK && text_failed(&t))
    st = call_nomem(k->cx);
  if (st == RUSH_OK)
    st = error_set_type(k->cx->err, RUSH_EARGUMENT, k->missing ? "IndexError" : "AssertionError",
                        "%s", text_str(&t));
  text_free(&t);
  return st;
}

static bool truth(rush_value v)
{
  return v.tag == RUSH_TAG_FLOAT ? v.as.d != 0 : v.tag == RUSH_TAG_INT ? v.as.i != 0 : v.as.b;
}

rush_status guard_check(call_ctx *cx, const exported *e, const guard *g, const rush_value *leaves)
{
  checker k = {.cx = cx, .e = e, .g = g, .leaves = leaves};
  rush_value holds = value_bool(false);
  rush_status st = RUSH_OK;

  if (!g->condition)
    holds = value_bool(same_constant(*g->constant, leaves[g->leaf]));
  else
    st = expression_evaluate(cx, g->condition, find_value, &k, &holds);
  if (st != RUSH_OK && !k.missing) {
    error_prefix(cx->err, "Guard failed: %s", g->text);
    return st;
  }
  return st == RUSH_OK && truth(holds) ? RUSH_OK : fail_guard(&k);
}
