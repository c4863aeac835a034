/* export/capture_constraint.c -- guards of a captured program, and the error for those that a
 * dimension which was to vary does not meet.
 *
 * What the program decided is a guard: a condition on the sizes of inputs, which PyTorch checks
 * when the program is called.  A dimension that the caller named (Dim), or marked as dynamic, must
 * meet all of them for every size in its range; otherwise the program is refused, with PyTorch's
 * text: what does not hold, and which dimensions would. */
#include "export/capture_int.h"

#include "base/grow.h"

static void write_text(void *arg, text_buf *out, const expression *symbol)
{
  const capture *c = arg;

  for (uint32_t i = 0; i < c->n_symbols; i++)
    if (c->symbols[i].text && str_eq(c->symbols[i].expr->name, symbol->name)) {
      text_puts(out, c->symbols[i].text);
      return;
    }
  text_add(out, symbol->name.p, symbol->name.len);
}

static const char *python_text(capture *c, const expression *e)
{
  text_buf *out = session_text(c->s);

  expression_print_python(c->s, out, e, write_text, c);
  return session_take_text(c->s, out);
}

/* -- Violations -------------------------------------------------------------------------------- */

typedef struct violations {
  capture *c;
  text_buf *names, *reasons, *fixes, *statics;
  uint32_t n;
  uint32_t guard; /* the first that is to blame; UINT32_MAX: not known */
} violations;

/* True if the dimension must take all sizes in its range. */
static bool is_bound(const capture_symbol *y)
{
  return y->dim && (y->dim->name || y->dim->is_dynamic);
}
static const char *dim_name(const capture_symbol *y)
{
  return y->dim->name ? y->dim->name : y->text;
}

static void add_name(violations *v, const capture_symbol *y, uint32_t guard)
{
  text_printf(v->names, "%s%s", v->n++ ? ", " : "", dim_name(y));
  v->guard = v->guard == UINT32_MAX ? guard : v->guard;
}

/* Dim.DYNAMIC of a size that is fixed: PyTorch's text names the place among the inputs. */
static void add_static(violations *v, const capture_symbol *y, int64_t value)
{
  const char *end = y->at >= 0 ? strstr(y->text, ".size()[") : NULL;
  const int n = end ? (int)(end - y->text) - 1 : (int)strlen(y->text) - 1;

  text_printf(v->statics,
              "\n- Received user-specified dim hint Dim.DYNAMIC(min=None, max=None), but tracing "
              "inferred a static shape of %lld for dimension inputs%.*s",
              (long long)value, n, y->text + 1);
  if (end)
    text_printf(v->statics, ".shape[%d]", y->at);
  text_putc(v->statics, '.');
}

static void add_constant(violations *v, const capture_symbol *y, int64_t value, uint32_t guard)
{
  if (!y->dim->name) {
    add_static(v, y, value);
    return;
  }
  add_name(v, y, guard);
  text_printf(v->reasons,
              "\n  - You marked %s as dynamic but your code specialized it to be a constant "
              "(%lld). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic. "
              "If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.",
              dim_name(y), (long long)value);
  text_printf(v->fixes, "\n  %s = %lld", y->dim->name, (long long)value);
}

static void add_equal(violations *v, const capture_symbol *y, const capture_symbol *of,
                      uint32_t guard)
{
  add_name(v, y, guard);
  text_printf(v->reasons, "\n  - The values of %s = %s and %s = %s must always be equal.",
              dim_name(y), y->text, dim_name(of), of->text);
  if (y->dim->name && of->dim && of->dim->name)
    text_printf(v->fixes, "\n  %s = %s", y->dim->name, of->dim->name);
}

static void add_range(violations *v, const capture_symbol *y, int64_t least, uint32_t guard)
{
  const bool has_lo = y->atom->lo > least, has_hi = y->atom->hi < y->dim->most;
  text_buf *fix = session_text(v->c->s);

  add_name(v, y, guard);
  text_printf(v->reasons, "\n  - Not all values of %s = %s in the specified range", dim_name(y),
              y->text);
  if (y->dim->least > 0 || y->dim->most != CAPTURE_AUTO_RANGE) {
    text_puts(v->reasons, " ");
    if (y->dim->least > 0)
      text_printf(v->reasons, "%lld <= ", (long long)y->dim->least);
    text_puts(v->reasons, dim_name(y));
    if (y->dim->most != CAPTURE_AUTO_RANGE)
      text_printf(v->reasons, " <= %lld", (long long)y->dim->most);
  }
  text_puts(v->reasons, " satisfy the generated guard ");
  text_printf(v->reasons, "%lld <= %s and %s <= ", (long long)y->atom->lo, y->text, y->text);
  if (y->atom->hi == SYM_INF)
    text_puts(v->reasons, "IntInfinity()");
  else
    text_printf(v->reasons, "%lld", (long long)y->atom->hi);
  if (has_lo || y->dim->least > 0)
    text_printf(fix, ", min=%lld", (long long)y->atom->lo);
  if (has_hi || y->dim->most != CAPTURE_AUTO_RANGE)
    text_printf(fix, ", max=%lld", (long long)y->atom->hi);
  if (y->dim->name)
    text_printf(v->fixes, "\n  %s = Dim('%s'%s)", y->dim->name, y->dim->name, text_str(fix));
}

/* Return the guard that mentions the symbol, or UINT32_MAX. */
static uint32_t guard_of(const capture *c, const capture_symbol *y)
{
  for (uint32_t i = 0; i < c->env->n_guards; i++)
    for (uint32_t t = 0; t < c->env->guards[i].e->n_terms; t++)
      for (uint32_t d = 0; d < c->env->guards[i].e->terms[t].degree; d++)
        if (c->env->guards[i].e->terms[t].atoms[d] == y->atom)
          return i;
  return UINT32_MAX;
}

/* Return the symbol of an input that an expression is, or NULL. */
static const capture_symbol *symbol_in(const capture *c, symint e)
{
  const bool is_one = e->n_terms == 1 && e->k == 0 && e->terms[0].coef == 1 &&
                      e->terms[0].degree == 1;
  const capture_symbol *y = is_one ? capture_symbol_of(c, e->terms[0].atoms[0]) : NULL;

  return y && y->text ? y : NULL;
}

static void check_symbol(violations *v, const capture_symbol *y)
{
  capture *c = v->c;
  const symint now =
    sym_simplify(c->env, sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom));
  const capture_symbol *of = symbol_in(c, now);
  const int64_t least = y->at >= 0 && y->dim->least < 2 ? 2 : y->dim->least;

  if (sym_is_const(now))
    add_constant(v, y, now->k, guard_of(c, y));
  else if (!y->dim->name) /* Dim.DYNAMIC leaves the rest to the program */
    return;
  else if (y->atom->is && of)
    add_equal(v, y, of, guard_of(c, y));
  else if (y->atom->lo == y->atom->hi)
    add_constant(v, y, y->atom->lo, guard_of(c, y));
  else if (y->atom->lo > least || y->atom->hi < y->dim->most)
    add_range(v, y, least, guard_of(c, y));
}

/* True if a guard says no more than a range or an equality of symbols, which check_symbol sees. */
static bool is_of_symbol(sym_cond cond)
{
  if (cond.rel == SYM_GE)
    return cond.e->n_terms == 1 && cond.e->terms[0].degree == 1 &&
           cond.e->terms[0].atoms[0]->kind == SYM_SYMBOL;
  return false;
}

/* Note a guard that a dimension does not meet for all sizes. */
static void check_text(violations *v, const char *text, uint32_t guard)
{
  const capture *c = v->c;

  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (!y->dim || !y->dim->name || !y->text || !strstr(text, y->text))
      continue;
    if (capture_symbol_of(c, y->atom) != y || y->atom->is)
      continue;
    add_name(v, y, guard);
    text_printf(v->reasons,
                "\n  - Not all values of %s = %s in the specified range satisfy the generated "
                "guard %s.",
                dim_name(y), y->text, text);
  }
}

static void refuse(violations *v)
{
  capture *c = v->c;

  if (c->options->report) {
    if (v->n || v->statics->len)
      text_printf(c->options->report, "guard_added\t%s: %s%s\x1e",
                  text_str(v->names), text_str(v->reasons), text_str(v->statics));
    return;
  }
  if (v->statics->len)
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "Found the following conflicts between user-specified ranges and inferred "
                        "ranges from model tracing:%s",
                        text_str(v->statics));
  if (!v->n)
    return;
  if (c->options->place)
    *c->options->place = v->guard < c->n_decided ? c->decided[v->guard] : (capture_place){0};
  session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                      "Constraints violated (%s)! For more information, run with "
                      "TORCH_LOGS=\"+dynamic\".%s%s%s",
                      text_str(v->names), text_str(v->reasons),
                      v->fixes->len ? "\nSuggested fixes:" : "", text_str(v->fixes));
}

/* -- Guards ------------------------------------------------------------------------------------ */

static bool depends_on_data(symint e)
{
  int64_t ignored;

  return !sym_hint(e, &ignored);
}

static void add_text(capture *c, const char *text)
{
  c->p->guards[c->p->n_guards++] = capture_text(c, text);
}

static void add_guard(violations *v, uint32_t i)
{
  capture *c = v->c;
  const sym_cond cond = c->env->guards[i];

  if (depends_on_data(cond.e))
    return; /* the operator that needs it checks it when it runs */
  const expression *e = i < c->n_decided && c->decided_by[i]
                          ? c->decided_by[i]
                          : expression_from_condition(c->s, c->mem, cond, capture_symbol_tree, c);
  const char *text = python_text(c, e);
  add_text(c, text);
  if (!is_of_symbol(cond))
    check_text(v, text, i);
}

/* Return the size that an input has, as a text: that of its name, or one that follows from it. */
static const char *size_by_name(capture *c, const capture_symbol *y, const capture_symbol *first)
{
  const capture_dim *d = y->dim, *of = first->dim;
  const int64_t factor = d->factor ? d->factor : 1, least = of->factor ? of->factor : 1;
  const char *root = first->text;

  if (of->offset)
    root = session_printf(c->s, "(%s - %lld)", root, (long long)of->offset);
  if (least != 1)
    root = session_printf(c->s, "(%s // %lld)", root, (long long)least);
  if (factor != 1)
    root = session_printf(c->s, "(%lld*%s)", (long long)factor, root);
  return d->offset ? session_printf(c->s, "(%s + %lld)", root, (long long)d->offset) : root;
}

/* Two inputs' sizes of one name are equal. */
static void add_input_guards(capture *c)
{
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i], *first = capture_symbol_of(c, y->atom);
    if (!y->text)
      continue;
    if (first != y)
      add_text(c, session_printf(c->s, "%s == %s", y->text, size_by_name(c, y, first)));
    else if (y->dim->factor > 1)
      add_text(c, session_printf(c->s, "(%s %% %lld) == %lld", y->text, (long long)y->dim->factor,
                                 (long long)(y->dim->offset % y->dim->factor +
                                             (y->dim->offset % y->dim->factor < 0
                                                ? y->dim->factor
                                                : 0))));
  }
}

void capture_finish_guards(capture *c)
{
  session *s = c->s;
  violations v = {c, session_text(s), session_text(s), session_text(s), session_text(s), 0,
                  UINT32_MAX};

  c->p->guards = session_alloc_in(
    s, c->mem, ((size_t)c->env->n_guards + c->n_conditions + c->n_symbols + 1) * sizeof(char *));
  add_input_guards(c);
  for (uint32_t i = 0; i < c->n_symbols; i++)
    if (is_bound(&c->symbols[i]) && capture_symbol_of(c, c->symbols[i].atom) == &c->symbols[i])
      check_symbol(&v, &c->symbols[i]);
  for (uint32_t i = 0; i < c->env->n_guards; i++)
    add_guard(&v, i);
  for (uint32_t i = 0; i < c->n_conditions; i++) {
    const char *text = python_text(c, c->conditions[i]);
    add_text(c, text);
    check_text(&v, text, UINT32_MAX);
  }
  refuse(&v);
}
