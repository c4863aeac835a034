/* export/capture_constraint.c -- guards of a captured program, and the error for those that a
 * dimension which was to vary does not meet.
 *
 * What the program decided is a guard: a condition on the sizes of inputs, which PyTorch checks
 * when the program is called.  A dimension that the caller named (Dim), or marked as dynamic, must
 * meet all of them for every size in its range; otherwise the program is refused, with PyTorch's
 * text: what does not hold, and which dimensions would. */
#include "export/capture_int.h"

#include <stdlib.h>

#include "base/grow.h"

static void write_text(void *arg, text_buf *out, const expression *symbol)
{
  const capture *c = arg;

  const capture_symbol *y = capture_symbol_by(c, &c->by_name, symbol->name);

  if (y && y->text)
    text_puts(out, y->text);
  else
    text_add(out, symbol->name.p, symbol->name.len);
}

static const char *python_text(capture *c, const expression *e)
{
  text_buf *out = session_text(c->s);

  expression_print_python(c->s, out, e, write_text, c);
  return session_take_text(c->s, out);
}

/* -- Violations -------------------------------------------------------------------------------- */

typedef struct congruence { /* a size is modulus*n + offset for an int n; modulus 0: nothing is
                               known */
  int64_t modulus, offset;
} congruence;

typedef struct violations {
  capture *c;
  const char **names; /* n_names: without duplicates */
  text_buf *reasons, *fixes, *conflicts;
  congruence *congruences; /* of each of the capture's symbols */
  bool *is_out_of_range;   /* likewise */
  uint32_t n_names, cap_names;
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

/* Print factor*name + offset. */
static const char *affine_text(capture *c, int64_t factor, const char *name, int64_t offset)
{
  const char *text = factor == 1 ? name
                                 : session_printf(c->s, "%lld*%s", (long long)factor, name);

  if (!offset)
    return text;
  return session_printf(c->s, "%s %c %lld", text, offset < 0 ? '-' : '+',
                        (long long)(offset < 0 ? -offset : offset));
}

/* Return what a size is called: "dx", "2*dx + 1", or its place among the inputs. */
static const char *size_name(capture *c, const capture_symbol *y)
{
  const capture_dim *d = y->dim;

  return d->name ? affine_text(c, d->factor ? d->factor : 1, d->name, d->factor ? d->offset : 0)
                 : y->text;
}

/* Add a name to those that are listed; returns false if it was there. */
static bool add_name(violations *v, const char *name, uint32_t guard)
{
  v->guard = v->guard == UINT32_MAX ? guard : v->guard;
  for (uint32_t i = 0; i < v->n_names; i++)
    if (strcmp(v->names[i], name) == 0)
      return false;
  GROW(v->c->s, v->names, v->n_names, v->cap_names, 8);
  v->names[v->n_names++] = name;
  return true;
}

static int compare_texts(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *all_names(violations *v)
{
  text_buf *out = session_text(v->c->s);

  qsort(v->names, v->n_names, sizeof *v->names, compare_texts);
  for (uint32_t i = 0; i < v->n_names; i++)
    text_printf(out, "%s%s", i ? ", " : "", v->names[i]);
  return session_take_text(v->c->s, out);
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

static symint present_value(capture *c, const capture_symbol *y)
{
  return sym_simplify(c->env, sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom));
}

static void check_constant(violations *v, const capture_symbol *y)
{
  const symint now = present_value(v->c, y);
  const capture_dim *d = y->dim;
  const char *name = size_name(v->c, y);

  if (!sym_is_const(now) || !add_name(v, name, guard_of(v->c, y)))
    return;
  text_printf(v->reasons,
              "\n  - You marked %s as dynamic but your code specialized it to be a constant "
              "(%lld). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic. "
              "If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO.",
              name, (long long)(d->factor ? d->factor * now->k + d->offset : now->k));
}

/* Return the symbol of an input that e, factor*symbol + offset, is made of; NULL: it is another
 * form. */
static const capture_symbol *affine_in(const capture *c, symint e, int64_t *factor)
{
  const bool is_one = e->n_terms == 1 && e->terms[0].coef > 0 && e->terms[0].degree == 1;
  const capture_symbol *y = is_one ? capture_symbol_of(c, e->terms[0].atoms[0]) : NULL;

  *factor = is_one ? e->terms[0].coef : 0;
  return y && y->text ? y : NULL;
}

/* Note a size that always follows from another one. */
static void check_relation(violations *v, const capture_symbol *y)
{
  capture *c = v->c;
  const symint now = present_value(c, y);
  int64_t factor;
  const capture_symbol *of = affine_in(c, now, &factor);
  const bool is_equal = factor == 1 && now->k == 0;

  if (!y->atom->is || !of || !of->dim || !of->dim->name || (is_equal && !y->dim->name))
    return;
  add_name(v, dim_name(y), guard_of(c, y));
  const char *formula = affine_text(c, factor, of->dim->name, now->k);
  if (is_equal && !of->dim->factor)
    text_printf(v->reasons, "\n  - The values of %s = %s and %s = %s must always be equal.",
                dim_name(y), y->text, size_name(c, of), of->text);
  else
    text_printf(v->reasons,
                "\n  - The values of %s = %s must always be related to the values of %s = %s by "
                "%s = %s.",
                dim_name(y), y->text, size_name(c, of), of->text, dim_name(y), formula);
}

static void check_range(violations *v, const capture_symbol *y)
{
  const capture_dim *d = y->dim;
  const sym_atom *a = y->atom;
  const int64_t least = y->at >= 0 && d->least < 2 ? 2 : d->least;

  if (a->is || !d->name || (a->lo <= least && a->hi >= d->most))
    return;
  v->is_out_of_range[y - v->c->symbols] = true;
  add_name(v, d->name, guard_of(v->c, y));
  text_printf(v->reasons, "\n  - Not all values of %s = %s in the specified range", d->name,
              y->text);
  if (d->least > 0 || d->most != CAPTURE_AUTO_RANGE) {
    text_puts(v->reasons, " ");
    if (d->least > 0)
      text_printf(v->reasons, "%lld <= ", (long long)d->least);
    text_puts(v->reasons, d->name);
    if (d->most != CAPTURE_AUTO_RANGE)
      text_printf(v->reasons, " <= %lld", (long long)d->most);
  }
  text_puts(v->reasons, " satisfy the generated guard ");
  text_printf(v->reasons, "%lld <= %s and %s <= ", (long long)a->lo, y->text, y->text);
  if (a->hi == SYM_INF)
    text_puts(v->reasons, "IntInfinity()");
  else
    text_printf(v->reasons, "%lld", (long long)a->hi);
}

/* True if a guard says no more than a range or an equality of symbols, which are checked apart. */
static bool is_of_symbol(capture *c, sym_cond cond)
{
  int64_t factor;

  if (cond.rel == SYM_GE)
    return cond.e->n_terms == 1 && cond.e->terms[0].degree == 1 &&
           cond.e->terms[0].atoms[0]->kind == SYM_SYMBOL;
  for (uint32_t i = 0; i < cond.e->n_terms && cond.rel == SYM_EQ; i++) {
    const sym_term *t = &cond.e->terms[i];
    sym_atom *a = t->atoms[0];
    if (t->degree == 1 && a->kind == SYM_SYMBOL && a->is) {
      const symint now = sym_simplify(c->env, sym_of_atom(c->env, a));
      return sym_is_const(now) || affine_in(c, now, &factor);
    }
  }
  return false;
}

/* Return a symbol in e, or `found` if there is none; notes whether there are two. */
static const sym_atom *only_symbol(symint e, const sym_atom *found, bool *has_two)
{
  for (uint32_t i = 0; i < e->n_terms; i++)
    for (uint32_t d = 0; d < e->terms[i].degree; d++) {
      const sym_atom *a = e->terms[i].atoms[d];
      if (a->kind != SYM_SYMBOL) {
        found = only_symbol(a->b, only_symbol(a->a, found, has_two), has_two);
      } else {
        *has_two |= found && found != a;
        found = a;
      }
    }
  return found;
}

static bool has_two_symbols(symint e)
{
  bool has_two = false;

  (void)only_symbol(e, NULL, &has_two);
  return has_two;
}

static bool has_mod(symint e)
{
  for (uint32_t i = 0; i < e->n_terms; i++)
    for (uint32_t d = 0; d < e->terms[i].degree; d++)
      if (e->terms[i].atoms[d]->kind == SYM_MOD)
        return true;
  return false;
}

/* Return a remainder of the sizes that there are after all guards; anything else as it is. */
static symint mod_of_present(capture *c, symint e)
{
  const sym_term *t = e->terms;
  const bool is_mod = e->k == 0 && e->n_terms == 1 && t->coef == 1 && t->degree == 1 &&
                      t->atoms[0]->kind == SYM_MOD;

  return is_mod ? sym_mod(c->env, sym_simplify(c->env, t->atoms[0]->a), t->atoms[0]->b) : e;
}

/* Note that a guard, (symbol + k) % modulus == 0, fixes a size's remainder. */
static void note_congruence(violations *v, sym_cond cond)
{
  const sym_term *t = cond.e->terms;
  const bool is_mod = cond.rel == SYM_EQ && cond.e->k == 0 && cond.e->n_terms == 1 &&
                      t->degree == 1 && t->atoms[0]->kind == SYM_MOD &&
                      sym_is_const(t->atoms[0]->b);
  int64_t factor;
  const capture_symbol *y = is_mod ? affine_in(v->c, t->atoms[0]->a, &factor) : NULL;

  if (!y || factor != 1)
    return;
  const int64_t modulus = t->atoms[0]->b->k, k = t->atoms[0]->a->k;
  if (modulus > 1)
    v->congruences[y - v->c->symbols] = (congruence){modulus, -((k % modulus + modulus) % modulus)};
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
    add_name(v, dim_name(y), guard);
    text_printf(v->reasons,
                "\n  - Not all values of %s = %s in the specified range satisfy the generated "
                "guard %s.",
                dim_name(y), y->text, text);
  }
}

/* -- What would do instead --------------------------------------------------------------------- */

static void add_fix(violations *v, const char *name, const char *formula)
{
  text_printf(v->fixes, "\n  %s = %s", name, formula);
}

/* Suggest the range of a dimension; `modulus`: of one that a size is a multiple of. */
static void fix_range(violations *v, const capture_symbol *y, const char *name)
{
  const congruence k = v->congruences[y - v->c->symbols];
  const sym_atom *a = y->atom;
  text_buf *out = session_text(v->c->s);
  const int64_t d = k.modulus ? k.modulus : 1;
  const int64_t lo = (a->lo - k.offset + d - 1) / d;
  const bool has_hi = a->hi != SYM_INF;

  text_printf(out, "Dim('%s'", name);
  if (k.modulus ? lo != 2 : a->lo > 2 || (y->dim->least > 0 && a->lo != 2))
    text_printf(out, ", min=%lld", (long long)lo);
  if (has_hi)
    text_printf(out, ", max=%lld", (long long)((a->hi - k.offset) / d));
  else if (k.modulus && lo != 2)
    text_puts(out, ", max=oo");
  text_puts(out, ")");
  add_fix(v, name, text_str(out));
}

/* Suggest what a dimension that does not take all sizes could be. */
static void suggest(violations *v, const capture_symbol *y)
{
  capture *c = v->c;
  const symint now = present_value(c, y);
  const char *name = dim_name(y);
  int64_t factor;
  const capture_symbol *of = affine_in(c, now, &factor);
  const congruence *k = &v->congruences[(of ? of : y) - c->symbols];
  const char *root = session_printf(c->s, "_%s", of && of->dim ? dim_name(of) : name);

  if (sym_is_const(now) && y->dim->name) {
    add_fix(v, name, session_printf(c->s, "%lld", (long long)now->k));
  } else if (y->atom->is && of && of->dim && of->dim->name &&
             (factor != 1 || now->k || y->dim->name)) {
    add_fix(v, name, k->modulus ? affine_text(c, factor * k->modulus, root,
                                              factor * k->offset + now->k)
                                : affine_text(c, factor, of->dim->name, now->k));
  } else if (!y->atom->is && y->dim->name && k->modulus) {
    fix_range(v, y, root);
    add_fix(v, name, affine_text(c, k->modulus, root, k->offset));
  } else if (!y->atom->is && v->is_out_of_range[y - c->symbols]) {
    fix_range(v, y, name);
  }
}

/* -- Hints ------------------------------------------------------------------------------------- */

bool capture_is_hint(const capture *c, const capture_dim *d)
{
  return c->options->structure && !d->name;
}

static const char *bound_text(capture *c, int64_t n, const char *none)
{
  return n == SYM_INF || n == SYM_NEG_INF ? none : session_printf(c->s, "%lld", (long long)n);
}

/* Name the place of a size among the inputs: inputs['x'].shape[0]. */
static void add_place(violations *v, const capture_symbol *y)
{
  const char *end = y->at >= 0 ? strstr(y->text, ".size()[") : NULL;
  const int n = end ? (int)(end - y->text) - 1 : (int)strlen(y->text) - 1;

  text_printf(v->conflicts, "inputs%.*s", n, y->text + 1);
  if (end)
    text_printf(v->conflicts, ".shape[%d]", y->at);
  text_putc(v->conflicts, '.');
}

/* Give a symbol the range of a hint (Dim.AUTO(min=, max=)), too, or note that they exclude each
 * other. */
static void check_hint(violations *v, const capture_symbol *y)
{
  capture *c = v->c;
  const capture_dim *d = y->dim;
  const symint now = present_value(c, y);
  const int64_t none = y->at >= 0 ? 2 : -INT64_MAX; /* what a hint without a bound has */
  const int64_t least = d->least <= none ? SYM_NEG_INF : d->least;
  const int64_t most = d->most == CAPTURE_AUTO_RANGE ? SYM_INF : d->most;
  int64_t lo, hi, factor;

  sym_range(c->env, now, &lo, &hi);
  if (least > hi || most < lo) {
    text_printf(v->conflicts,
                "\n- Received user-specified min/max range of [%s, %s], conflicting with the "
                "inferred min/max range of [%s, %s], for ",
                bound_text(c, least, "None"), bound_text(c, most, "None"),
                bound_text(c, lo, "-int_oo"), bound_text(c, hi, "int_oo"));
    add_place(v, y);
    return;
  }
  if (affine_in(c, now, &factor) && factor == 1) {
    sym_atom *a = now->terms[0].atoms[0];
    if (least != SYM_NEG_INF && a->lo < least - now->k)
      a->lo = least - now->k;
    if (most != SYM_INF && a->hi > most - now->k)
      a->hi = most - now->k;
    sym_range(c->env, now, &lo, &hi);
  }
  if (d->is_dynamic && lo == hi && !sym_is_const(now)) {
    text_printf(v->conflicts,
                "\n- Received user-specified dim hint Dim.DYNAMIC(min=%s, max=%s), but tracing "
                "inferred a static shape of %lld for dimension ",
                bound_text(c, least, "None"), bound_text(c, most, "None"), (long long)lo);
    add_place(v, y);
  }
}

static void refuse(violations *v)
{
  capture *c = v->c;
  const char *names = all_names(v);

  if (c->options->report) {
    if (v->n_names || v->conflicts->len)
      text_printf(c->options->report, "guard_added\t%s: %s%s\x1e", names, text_str(v->reasons),
                  text_str(v->conflicts));
    return;
  }
  if (c->options->place && v->n_names)
    *c->options->place = v->guard < c->n_decided ? c->decided[v->guard] : (capture_place){0};
  if (v->n_names)
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "Constraints violated (%s)! For more information, run with "
                        "TORCH_LOGS=\"+dynamic\".%s%s%s",
                        names, text_str(v->reasons), v->fixes->len ? "\nSuggested fixes:" : "",
                        text_str(v->fixes));
  if (v->conflicts->len)
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "Found the following conflicts between user-specified ranges and inferred "
                        "ranges from model tracing:%s",
                        text_str(v->conflicts));
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
  if (!c->is_checked || !c->is_checked[i])
    add_text(c, text);
  if (is_of_symbol(c, cond))
    return;
  if (has_two_symbols(cond.e) && (cond.rel != SYM_EQ || !has_mod(cond.e)))
    return; /* as in PyTorch it is left to the program */
  const sym_cond now = {cond.rel, mod_of_present(c, cond.e)};
  if (now.e != cond.e) /* a symbol in it is another one by a later guard */
    text = python_text(c, expression_from_condition(c->s, c->mem, now, capture_symbol_tree, c));
  check_text(v, text, i);
  note_congruence(v, now);
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

static bool is_first(const capture *c, const capture_symbol *y)
{
  return capture_symbol_of(c, y->atom) == y;
}

void capture_finish_guards(capture *c)
{
  session *s = c->s;
  const capture_symbol *all = c->symbols, *end = all + c->n_symbols;
  violations v = {.c = c,
                  .reasons = session_text(s),
                  .fixes = session_text(s),
                  .conflicts = session_text(s),
                  .congruences = session_array(s, congruence, (size_t)c->n_symbols + 1),
                  .is_out_of_range = session_array(s, bool, (size_t)c->n_symbols + 1),
                  .guard = UINT32_MAX};

  c->p->guards = session_alloc_in(
    s, c->mem, ((size_t)c->env->n_guards + c->n_conditions + c->n_symbols + 1) * sizeof(char *));
  add_input_guards(c);
  for (const capture_symbol *y = all; y < end; y++)
    if (is_bound(y))
      check_constant(&v, y);
  for (const capture_symbol *y = all; y < end; y++)
    if (y->dim && is_first(c, y))
      check_relation(&v, y);
  for (uint32_t i = 0; i < c->env->n_guards; i++)
    add_guard(&v, i);
  for (uint32_t i = 0; i < c->n_conditions; i++) {
    const char *text = python_text(c, c->conditions[i]);
    add_text(c, text);
    check_text(&v, text, UINT32_MAX);
  }
  for (const capture_symbol *y = all; y < end; y++)
    if (is_bound(y) && is_first(c, y))
      check_range(&v, y);
  for (const capture_symbol *y = all; y < end; y++)
    if (y->dim && capture_is_hint(c, y->dim))
      check_hint(&v, y);
  for (const capture_symbol *y = all; y < end && v.n_names; y++)
    if (y->dim && is_first(c, y))
      suggest(&v, y);
  refuse(&v);
}
