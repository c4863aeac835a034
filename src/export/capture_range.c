/* export/capture_range.c -- ranges of a captured program: of its symbols, and of sizes of inputs
 * that are made of them.
 *
 * PyTorch lists numbers that depend on data first, as they were made, also those that a condition
 * has fixed; then the sizes of the inputs, in the order of inputs and dimensions, as they are after
 * all conditions; then symbols that no input has by itself.  A size that the caller named has the
 * range that was given, not the one that was found. */
#include "export/capture_int.h"

/* True if a size that a hint describes is always equal to this one, by a guard. */
static bool is_size_of_hint(capture *c, const capture_symbol *y)
{
  return table_get(&c->hinted, address_key(sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom)));
}

/* Note the sizes that hints describe, by what they are equal to. */
static void note_hinted(capture *c)
{
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    const symint is = y->dim && capture_is_hint(c, y->dim) ? y->atom->is : NULL;
    if (is && is->n_terms == 1 && is->k == 0 && is->terms[0].degree == 1)
      session_table_put(c->s, &c->hinted, address_key(sym_simplify(c->env, is)), c);
  }
}

static bool has_range(capture *c, str text)
{
  for (; c->n_ranged < c->p->n_ranges; c->n_ranged++)
    session_table_put(c->s, &c->ranged, c->p->ranges[c->n_ranged].text, c);
  return table_get(&c->ranged, text);
}

static void add_range(capture *c, const expression *e, int64_t lo, int64_t hi)
{
  text_buf *out = session_text(c->s);

  expression_print(c->s, out, e);
  const str text = str_of(capture_text(c, session_take_text(c->s, out)));
  if (has_range(c, text))
    return;
  exported_bounds *b = &c->p->ranges[c->p->n_ranges++];
  *b = (exported_bounds){.text = text, .expr = e, .is_used = true};
  b->has_min = lo != SYM_NEG_INF;
  b->has_max = hi != SYM_INF;
  b->min = b->has_min ? lo : 0;
  b->max = b->has_max ? hi : 0;
}

void capture_add_range(capture *c, const capture_symbol *y)
{
  const bool is_declared = y->dim && y->dim->name && !is_size_of_hint(c, y);
  const sym_atom *a = y->atom; /* NULL: of a float */
  const bool is_input = y->dim && y->at < 0; /* torch shows no negative ints, and takes them */
  const int64_t given = is_declared ? y->dim->least : a ? a->lo : SYM_NEG_INF;

  if ((a && (capture_symbol_of(c, a) != y || a->is)) || y->expr->kind != EXPRESSION_SYMBOL)
    return;
  add_range(c, y->expr, is_input && given < 0 ? 0 : given,
            is_declared ? y->dim->most : a ? a->hi : SYM_INF);
}

/* Of a size factor*n + offset the program has a range, too. */
static void add_derived_range(capture *c, const capture_symbol *y)
{
  const capture_dim *d = y->dim;
  int64_t hi = SYM_INF;

  if (!d || !d->factor || y->atom->is)
    return;
  const symint root = sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom);
  const symint scaled = sym_mul(c->env, sym_const(c->env, d->factor), root);
  if (d->most != CAPTURE_AUTO_RANGE && (__builtin_mul_overflow(d->factor, d->most, &hi) ||
                                        __builtin_add_overflow(hi, d->offset, &hi)))
    hi = SYM_INF;
  add_range(c, capture_expression(c, sym_add(c->env, scaled, sym_const(c->env, d->offset))),
            d->factor * d->least + d->offset, hi);
}

/* -- Live code --------------------------------------------------------------------------------- */

void capture_range_of(capture *c, const capture_symbol *y, int64_t *lo, int64_t *hi)
{
  const sym_atom *a = y->atom;

  *lo = a ? a->lo : SYM_NEG_INF;
  *hi = a ? a->hi : SYM_INF;
  if (!a || !a->is)
    return;
  int64_t least, most;
  sym_range(c->env, sym_simplify_all(c->env, a->is), &least, &most);
  *lo = i64_max(*lo, least);
  *hi = i64_min(*hi, most);
}

static void add_data_ranges(capture *c)
{
  int64_t lo, hi;

  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (y->dim || y->expr->kind != EXPRESSION_SYMBOL || (y->atom && y->atom->backed))
      continue;
    capture_range_of(c, y, &lo, &hi);
    add_range(c, y->expr, lo, hi);
  }
}

/* Return what the caller said of a size of an input, or NULL. */
static const capture_symbol *symbol_at(const capture *c, const fx_node *input, int dim)
{
  for (uint32_t i = 0; i < c->n_symbols; i++)
    if (c->symbols[i].source == input && c->symbols[i].at == dim && c->symbols[i].dim)
      return &c->symbols[i];
  return NULL;
}

/* Add the range of a size of an input, which is e now (dim -1: of an int). */
static void add_input_range(capture *c, const fx_node *input, int dim, const expression *e)
{
  const capture_symbol *y = symbol_at(c, input, dim);
  int64_t lo, hi;

  if (!e || !y || !y->atom)
    return;
  const symint root = sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom);
  const symint factor = sym_const(c->env, y->dim->factor ? y->dim->factor : 1),
               scaled = sym_mul(c->env, factor, root);
  const symint now =
    sym_simplify(c->env, sym_add(c->env, scaled, sym_const(c->env, y->dim->offset)));
  const sym_atom *a = now->n_terms == 1 ? now->terms[0].atoms[0] : NULL;
  const bool is_symbol = a && a->kind == SYM_SYMBOL && now->k == 0 && now->terms[0].coef == 1 &&
                         now->terms[0].degree == 1;
  if (is_symbol && capture_symbol_of(c, a)) {
    capture_add_range(c, capture_symbol_of(c, a));
  } else if (y->dim->factor && !y->atom->is) {
    add_derived_range(c, y);
  } else if (!sym_is_const(now)) {
    sym_range(c->env, now, &lo, &hi);
    add_range(c, e, lo, hi);
  }
}

static void add_input_ranges(capture *c)
{
  for (fx_node *n = c->first_input; n && n->op == FX_PLACEHOLDER; n = n->next) {
    if (n->val && n->val->kind == FX_VAL_INT)
      add_input_range(c, n, -1, n->val->as.number->expr);
    for (uint32_t d = 0; n->val && n->val->kind == FX_VAL_TENSOR && d < n->val->as.tensor->n_dims;
         d++)
      add_input_range(c, n, (int)d, n->val->as.tensor->sizes[d].expr);
  }
}

/* Add what no input has by itself: the symbol that sizes are derived of. */
static void add_root_ranges(capture *c)
{
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const sym_atom *a = c->symbols[i].atom;
    if (a && !a->is && c->symbols[i].dim && c->symbols[i].expr->kind == EXPRESSION_SYMBOL)
      add_range(c, c->symbols[i].expr, a->lo, a->hi);
  }
}

void capture_finish_ranges(capture *c)
{
  c->p->ranges =
    session_alloc_in(c->s, c->mem, (2 * (size_t)c->n_symbols + 1) * sizeof *c->p->ranges);
  note_hinted(c);
  if (capture_is_live(c)) {
    add_data_ranges(c);
    add_input_ranges(c);
    add_root_ranges(c);
    return;
  }
  for (uint32_t i = 0; i < c->n_symbols; i++)
    capture_add_range(c, &c->symbols[i]);
  for (uint32_t i = 0; i < c->n_symbols; i++)
    add_derived_range(c, &c->symbols[i]);
}
