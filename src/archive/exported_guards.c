/* What a call must satisfy: the conditions that PyTorch's ep.module() checks, in its order. */
#include "archive/exported_int.h"
#include "base/grow.h"

typedef struct guard_list {
  const guard **g;
  uint32_t n, cap;
} guard_list;

typedef struct guard_reader {
  ex_reader *r;
  const model_parts *p;
  guard_list out;
  table ranges;  /* expression of a size -> its range constraint */
  table sources; /* expression of a size -> the guard term where it was first */
} guard_reader;

/* -- Terms -------------------------------------------------------------------------------------------- */

static void push(guard_reader *q, const guard *g)
{
  guard_list *l = &q->out;

  GROW(q->r->s, l->g, l->n, l->cap, 16);
  l->g[l->n++] = g;
}

static guard *term(guard_reader *q, guard_op op, int64_t value)
{
  guard *g = ex_keep_array(q->r, 1, sizeof *g);

  g->op = op;
  g->value = value;
  return g;
}

/* A size of an input, or with dim < 0 an int argument. */
static const guard *source_term(guard_reader *q, uint32_t leaf, int64_t dim)
{
  guard *g = term(q, dim < 0 ? GUARD_LEAF : GUARD_SIZE, dim);

  g->leaf = leaf;
  return g;
}

static void compare(guard_reader *q, guard_op op, const guard *a, const guard *b)
{
  push(q, guard_compare(q->r->s, &q->r->program->mem, q->r->e, op, a, b));
}

/* -- Ranges ---------------------------------------------------------------------------------------------- */

/* "Symbol('s27', positive=True, integer=True)" -> s27; other texts as they are. */
static str symbol_of(str expr)
{
  static const char open[] = "Symbol('";
  size_t n = sizeof open - 1, end = n;

  if (expr.len <= n || memcmp(expr.p, open, n) != 0)
    return expr;
  while (end < expr.len && expr.p[end] != '\'')
    end++;
  if (memchr(expr.p + end, '(', expr.len - end))
    return expr;
  return (str){expr.p + n, end - n};
}

typedef struct range {
  int64_t min, max;
} range;

static range *read_range(guard_reader *q, json *j)
{
  range *out = session_new(q->r->s, range);
  str key;

  out->max = INT64_MAX;
  for (json_begin_object(j); json_next_key(j, &key);) {
    if (json_is_null(j))
      json_skip(j);
    else if (str_is(key, "min_val"))
      out->min = json_int(j);
    else if (str_is(key, "max_val"))
      out->max = json_int(j);
    else
      json_skip(j);
  }
  return out;
}

/* range_constraints: expression -> range. */
static void read_ranges(guard_reader *q)
{
  str name;
  json j;

  if (!q->p->ranges.p)
    return;
  json_init_at(&j, q->r->s, &q->r->in, q->p->ranges);
  for (json_begin_object(&j); json_next_key(&j, &name);)
    if (!table_put(&q->ranges, name, read_range(q, &j)))
      session_check(q->r->s, call_nomem(q->r->s->cx));
}

/* The value of a SymInt: a number, or an expression. */
static void guard_sym(guard_reader *q, json *j, uint32_t leaf, int64_t dim)
{
  str key, field, expr = {0};

  for (json_begin_object(j); json_next_key(j, &key);) {
    if (str_is(key, "as_int")) {
      compare(q, GUARD_EQ, source_term(q, leaf, dim), term(q, GUARD_INT, json_int(j)));
    } else if (str_is(key, "as_expr")) {
      for (json_begin_object(j); json_next_key(j, &field);) {
        if (str_is(field, "expr_str"))
          expr = json_string(j);
        else
          json_skip(j);
      }
    } else {
      json_skip(j);
    }
  }
  expr = expr.p ? symbol_of(expr) : expr;
  const range *limits = expr.p ? table_get(&q->ranges, expr) : NULL;
  if (!limits)
    return;
  const guard *here = source_term(q, leaf, dim), *first = table_get(&q->sources, expr);
  if (first) {
    compare(q, GUARD_EQ, here, first);
    return;
  }
  if (!table_put(&q->sources, str_of(ex_keep_text(q->r, expr)), (void *)(uintptr_t)here))
    session_check(q->r->s, call_nomem(q->r->s->cx));
  if (limits->min > 2)
    compare(q, GUARD_GE, here, term(q, GUARD_INT, limits->min));
  if (limits->max != INT64_MAX)
    compare(q, GUARD_LE, here, term(q, GUARD_INT, limits->max));
}

/* -- Inputs ------------------------------------------------------------------------------------------------ */

/* Raw JSON of the members of `object` that are inputs of the graph, by leaf. */
static str *find_inputs(guard_reader *q, str object, const table *leaves)
{
  str *raw = session_array(q->r->s, str, (size_t)q->r->e->n_leaves + 1), key;
  uint32_t left = leaves->n_live;
  json j;

  if (!object.p)
    return raw;
  json_init_at(&j, q->r->s, &q->r->in, object);
  for (json_begin_object(&j); left && json_next_key(&j, &key);) {
    uintptr_t leaf = (uintptr_t)table_get(leaves, key);
    if (!leaf) {
      json_skip(&j);
      continue;
    }
    raw[leaf - 1] = json_raw(&j);
    left--;
  }
  return raw;
}

static void guard_sizes(guard_reader *q, str meta, uint32_t leaf)
{
  str key;
  json j;

  json_init_at(&j, q->r->s, &q->r->in, meta);
  for (json_begin_object(&j); json_next_key(&j, &key);) {
    int64_t dim = 0;
    if (!str_is(key, "sizes")) {
      json_skip(&j);
      continue;
    }
    for (json_begin_array(&j); json_next_item(&j); dim++)
      guard_sym(q, &j, leaf, dim);
  }
}

static void free_text(void *t) { text_free(t); }

/* A leaf has the value it had; None is not looked at, as in PyTorch. */
static void guard_constant(guard_reader *q, uint32_t leaf)
{
  const rush_value *v = &q->r->e->leaf_constants[leaf];
  guard *g = term(q, GUARD_CONSTANT, 0);
  text_buf *t = session_new(q->r->s, text_buf);

  if (v->tag == RUSH_TAG_NONE)
    return;
  g->leaf = leaf;
  g->constant = v;
  text_init(t, q->r->s->cx->ctx);
  session_defer(q->r->s, free_text, t);
  text_printf(t, "%s == ", q->r->e->leaf_names[leaf]);
  session_check(q->r->s, value_repr(q->r->s->cx, t, *v));
  g->text = ex_keep_text(q->r, (str){text_str(t), t->len});
  push(q, g);
}

static void guard_inputs(guard_reader *q, const table *leaves)
{
  str *tensors = find_inputs(q, q->p->tensor_values, leaves), *numbers = find_inputs(q, q->p->sym_int_values, leaves);

  for (uint32_t leaf = 0; leaf < q->r->e->n_leaves; leaf++) {
    if (q->r->e->leaf_constants[leaf].tag != RUSH_TAG_UNSET) {
      guard_constant(q, leaf);
    } else if (tensors[leaf].p) {
      guard_sizes(q, tensors[leaf], leaf);
    } else if (numbers[leaf].p) {
      json j;
      json_init_at(&j, q->r->s, &q->r->in, numbers[leaf]);
      guard_sym(q, &j, leaf, -1);
    }
  }
}

/* -- Conditions that the tracer found ----------------------------------------------------------------------- */

static void guard_codes(guard_reader *q)
{
  ex_reader *r = q->r;
  json j;

  if (!q->p->guards.p || q->p->guards.p[0] != '[')
    return;
  json_init_at(&j, r->s, &r->in, q->p->guards);
  for (json_begin_array(&j); json_next_item(&j);) {
    str text = json_string(&j);
    const char *copy = session_printf(r->s, "%.*s", (int)text.len, text.p);
    const guard *g = guard_parse(r->s, &r->program->mem, r->e, copy);
    if (g)
      push(q, g);
    else
      context_warn(r->s->cx->ctx,
                   session_printf(r->s, "%s: the guard %s is not understood and not checked", r->in.place, copy));
  }
}

static void free_table(void *t) { table_free(t); }

void ex_read_guards(ex_reader *r, const model_parts *p, const table *leaves)
{
  guard_reader *q = session_new(r->s, guard_reader);

  q->r = r;
  q->p = p;
  table_init(&q->sources, r->s->cx->ctx);
  session_defer(r->s, free_table, &q->sources);
  table_init(&q->ranges, r->s->cx->ctx);
  session_defer(r->s, free_table, &q->ranges);
  read_ranges(q);
  guard_inputs(q, leaves);
  guard_codes(q);
  r->e->guards = ex_keep_array(r, q->out.n, sizeof *q->out.g);
  if (q->out.n)
    memcpy(r->e->guards, q->out.g, q->out.n * sizeof *q->out.g);
  r->e->n_guards = q->out.n;
}
