/* archive/exported_guards.c -- the conditions that a call of an exported program must satisfy:
 * those that PyTorch's ep.module() checks, in its order, so that the first failure has the same
 * message. Ranges and equal symbols of input sizes come first, then constants, then the expressions
 * that the tracer found. They are data (terms and comparisons) and are evaluated at each call. */
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
  const table *ranges; /* symbol of a size -> ex_range */
  table sources;       /* symbol of a size -> the guard term where it was first */
} guard_reader;

/* -- Terms ------------------------------------------------------------------------------------- */

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

/* Make the term of a size of an input, or with dim < 0 of an int argument. */
static const guard *source_term(guard_reader *q, uint32_t leaf, int64_t dim)
{
  guard *g = term(q, dim < 0 ? GUARD_LEAF : GUARD_SIZE, dim);

  g->leaf = leaf;
  return g;
}

static void add_comparison(guard_reader *q, guard_op op, const guard *a, const guard *b)
{
  push(q, guard_compare(q->r->s, &q->r->program->mem, q->r->e, op, a, b));
}

/* -- Inputs ------------------------------------------------------------------------------------ */

/* Add guards on size `dim` of a leaf, or with dim < 0 on an int argument: its number, or the range
 * and the other uses of its symbol. */
static void guard_size(guard_reader *q, const exported_meta *meta, uint32_t leaf, int64_t dim)
{
  const int64_t i = dim < 0 ? 0 : dim;
  const rush_signature_size *size = &meta->sizes[i];

  if (!size->symbol) {
    add_comparison(q, GUARD_EQ, source_term(q, leaf, dim), term(q, GUARD_INT, size->value));
    return;
  }
  const str symbol = str_of(size->symbol);
  const ex_range *limits = meta->computed >> i & 1 ? NULL : table_get(q->ranges, symbol);
  if (!limits)
    return;
  const guard *here = source_term(q, leaf, dim), *first = table_get(&q->sources, symbol);
  if (first) {
    add_comparison(q, GUARD_EQ, here, first);
    return;
  }
  session_table_put(q->r->s, &q->sources, symbol, (void *)(uintptr_t)here);
  if (limits->min > 2)
    add_comparison(q, GUARD_GE, here, term(q, GUARD_INT, limits->min));
  if (limits->max != INT64_MAX)
    add_comparison(q, GUARD_LE, here, term(q, GUARD_INT, limits->max));
}

/* Add the guard that a leaf has its original value; None is not checked, as in PyTorch. */
static void guard_constant(guard_reader *q, uint32_t leaf)
{
  const rush_value *v = &q->r->e->leaf_constants[leaf];
  guard *g = term(q, GUARD_CONSTANT, 0);
  text_buf *t = session_text(q->r->s);

  if (v->tag == RUSH_TAG_NONE)
    return;
  g->leaf = leaf;
  g->constant = v;
  text_printf(t, "%s == ", q->r->e->leaf_names[leaf]);
  session_check(q->r->s, value_repr(q->r->s->cx, t, *v));
  g->text = ex_keep_text(q->r, (str){text_str(t), t->len});
  push(q, g);
}

static void guard_inputs(guard_reader *q)
{
  const exported *e = q->r->e;

  for (uint32_t leaf = 0; leaf < e->n_leaves; leaf++) {
    const exported_meta *meta = e->leaf_metas[leaf];
    if (e->leaf_constants[leaf].tag != RUSH_TAG_UNSET)
      guard_constant(q, leaf);
    else if (meta && !meta->is_tensor)
      guard_size(q, meta, leaf, -1);
    else
      for (int dim = 0; meta && dim < meta->n_dims; dim++)
        guard_size(q, meta, leaf, dim);
  }
}

/* -- Conditions that the tracer found ---------------------------------------------------------- */

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
                   session_printf(r->s, "%s: the guard %s is not understood and not checked",
                                  r->in.place, copy));
  }
}

void ex_read_guards(ex_reader *r, const model_parts *p, const table *ranges)
{
  guard_reader *q = session_new(r->s, guard_reader);

  q->r = r;
  q->p = p;
  session_table_init(r->s, &q->sources);
  q->ranges = ranges;
  guard_inputs(q);
  guard_codes(q);
  r->e->guards = ex_keep_array(r, q->out.n, sizeof *q->out.g);
  if (q->out.n)
    memcpy(r->e->guards, q->out.g, q->out.n * sizeof *q->out.g);
  r->e->n_guards = q->out.n;
}
