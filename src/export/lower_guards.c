/* export/lower_guards.c -- the conditions that a call of an exported program must satisfy:
 * those that PyTorch's ep.module() checks, in its order, so that the first failure has the same
 * message. Ranges and equal symbols of input sizes come first, then constants, then the expressions
 * that the tracer found. They are data (terms and comparisons) and are evaluated at each call. */
#include "export/lower_int.h"
#include "base/grow.h"

typedef struct guard_list {
  const guard **g;
  uint32_t n, cap;
} guard_list;

typedef struct guard_reader {
  lowering *lo;
  guard_list out;
  table ranges;        /* symbol of a size -> exported_bounds */
  table sources;       /* symbol of a size -> the guard term where it was first */
} guard_reader;

/* -- Terms ------------------------------------------------------------------------------------- */

static void push(guard_reader *q, const guard *g)
{
  guard_list *l = &q->out;

  GROW(q->lo->s, l->g, l->n, l->cap, 16);
  l->g[l->n++] = g;
}

static guard *term(guard_reader *q, guard_op op, int64_t value)
{
  guard *g = lower_keep_array(q->lo, 1, sizeof *g);

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
  push(q, guard_compare(q->lo->s, &q->lo->program->mem, q->lo->e, op, a, b));
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
  const exported_bounds *limits =
    meta->computed >> i & 1 ? NULL : table_get(&q->ranges, symbol);
  if (!limits)
    return;
  const guard *here = source_term(q, leaf, dim), *first = table_get(&q->sources, symbol);
  if (first) {
    add_comparison(q, GUARD_EQ, here, first);
    return;
  }
  session_table_put(q->lo->s, &q->sources, symbol, (void *)(uintptr_t)here);
  if (limits->has_min && limits->min > 2)
    add_comparison(q, GUARD_GE, here, term(q, GUARD_INT, limits->min));
  if (limits->has_max)
    add_comparison(q, GUARD_LE, here, term(q, GUARD_INT, limits->max));
}

/* Add the guard that a leaf has its original value; None is not checked, as in PyTorch. */
static void guard_constant(guard_reader *q, uint32_t leaf)
{
  const rush_value *v = &q->lo->e->leaf_constants[leaf];
  guard *g = term(q, GUARD_CONSTANT, 0);
  text_buf *t = session_text(q->lo->s);

  if (v->tag == RUSH_TAG_NONE)
    return;
  g->leaf = leaf;
  g->constant = v;
  text_printf(t, "%s == ", q->lo->e->leaf_names[leaf]);
  session_check(q->lo->s, value_repr(q->lo->s->cx, t, *v));
  g->text = lower_keep_text(q->lo, (str){text_str(t), t->len});
  push(q, g);
}

static void guard_inputs(guard_reader *q)
{
  const exported *e = q->lo->e;

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
  lowering *lo = q->lo;

  for (uint32_t i = 0; i < lo->data->n_guards; i++) {
    const char *text = lower_keep_text(lo, str_of(lo->data->guards[i]));
    const guard *g = guard_parse(lo->s, &lo->program->mem, lo->e, text);
    if (g)
      push(q, g);
    else
      context_warn(lo->s->cx->ctx,
                   session_printf(lo->s, "%s: the guard %s is not understood and not checked",
                                  lo->data->place, text));
  }
}

void lower_guards(lowering *lo)
{
  guard_reader *q = session_new(lo->s, guard_reader);

  q->lo = lo;
  session_table_init(lo->s, &q->sources);
  session_table_init(lo->s, &q->ranges);
  for (uint32_t i = 0; i < lo->data->n_ranges; i++)
    session_table_put(lo->s, &q->ranges, lo->data->ranges[i].text, &lo->data->ranges[i]);
  guard_inputs(q);
  guard_codes(q);
  lo->e->guards = lower_keep_array(lo, q->out.n, sizeof *q->out.g);
  if (q->out.n)
    memcpy(lo->e->guards, q->out.g, q->out.n * sizeof *q->out.g);
  lo->e->n_guards = q->out.n;
}
