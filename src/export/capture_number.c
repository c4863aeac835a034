/* export/capture_number.c -- symbolic numbers of a program that is being captured.
 *
 * A size is a normal form over the symbols of inputs (shape/symint.h).  Where a node needs one as
 * an argument, nodes are made that compute it from the sizes of the inputs, once for each form.
 * Texts, ranges and guards are written at the end, when all that was decided is known.  What the
 * algebra does not have (true division, floats) fixes the symbol to its present value, which is a
 * guard. */
#include "export/capture_int.h"

#include "base/grow.h"
#include "ops/table/op_keys.h"

/* -- As values --------------------------------------------------------------------------------- */

static const custom_class symbolic = {.name = "SymInt"};

const capture_number *capture_number_of(rush_value v)
{
  if (v.tag != RUSH_TAG_CUSTOM)
    return NULL;
  const custom_value *custom = (const custom_value *)v.as.heap;
  return custom->cls == &symbolic ? custom->self : NULL;
}

/* Make a number in the session's memory.  Its first reference is never dropped: a list of ints does
 * not drop its items, and nothing with a number outlives the session. */
static rush_value number_new(capture *c, const capture_number *n)
{
  capture_number *copy = session_new(c->s, capture_number);
  custom_value *v = session_new(c->s, custom_value);

  *copy = *n;
  heap_init(&v->h, c->s->cx->ctx, RUSH_TAG_CUSTOM);
  v->cls = &symbolic;
  v->self = copy;
  return value_heap_steal(RUSH_TAG_CUSTOM, v);
}

rush_value capture_int(capture *c, symint e)
{
  e = sym_simplify(c->env, e);
  return sym_is_const(e) ? value_int(e->k)
                         : number_new(c, &(capture_number){.kind = FX_VAL_INT, .i = e});
}

symint capture_symint(rush_value v, sym_env *env)
{
  const capture_number *n = capture_number_of(v);

  return n ? sym_simplify(env, n->i) : sym_const(env, v.as.i);
}

rush_value capture_fix_number(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);
  int64_t i;

  if (n->kind != FX_VAL_INT)
    capture_fail(c, "the program needs the value of a %s that depends on data before it runs",
                 n->kind == FX_VAL_FLOAT ? "float" : "bool");
  if (!sym_fix(c->env, n->i, &i))
    capture_fail(c, "the program needs the value of an int that depends on data before it runs");
  return value_int(i);
}

rush_value capture_plain_number(rush_value v)
{
  const capture_number *n = capture_number_of(v);
  int64_t hint = 1;

  if (!n)
    return v;
  if (n->kind == FX_VAL_INT && !sym_hint(n->i, &hint))
    hint = 1;
  return n->kind == FX_VAL_FLOAT  ? value_float(1)
         : n->kind == FX_VAL_BOOL ? value_bool(false)
                                  : value_int(hint);
}

/* -- Symbols ----------------------------------------------------------------------------------- */

capture_symbol *capture_symbol_add(capture *c, symint e, const capture_dim *dim, fx_node *source,
                                   int at, const char *text)
{
  static const char backed[] = "positive=True, integer=True", unbacked[] = "integer=True";
  const sym_atom *a = e->terms[0].atoms[0];
  const char *name = session_printf(c->s, "%c%u", a->backed ? 's' : 'u', a->number);

  GROW(c->s, c->symbols, c->n_symbols, c->cap_symbols, 8);
  capture_symbol *y = &c->symbols[c->n_symbols++];
  *y = (capture_symbol){.atom = a, .dim = dim, .source = source, .at = at, .text = text};
  y->expr = expression_symbol(c->s, c->mem, str_of(name),
                              dim && at >= 0 ? str_of(backed) : str_of(unbacked));
  return y;
}

/* Symbols that shape rules made, of sizes that depend on data, are added when they are met. */
capture_symbol *capture_symbol_of(const capture *c, const sym_atom *a)
{
  for (uint32_t i = 0; i < c->n_symbols; i++)
    if (c->symbols[i].atom == a)
      return &c->symbols[i];
  return NULL;
}

/* Make a symbol for a float that depends on data; it has no range. */
static const expression *fresh_float(capture *c)
{
  const char *name = session_printf(c->s, "zuf%u", c->n_floats++);

  GROW(c->s, c->symbols, c->n_symbols, c->cap_symbols, 8);
  capture_symbol *y = &c->symbols[c->n_symbols++];
  *y = (capture_symbol){.expr = expression_symbol(c->s, c->mem, str_of(name), STR(""))};
  return y->expr;
}

rush_value capture_number_by_node(capture *c, fx_val_kind kind, const expression *e, fx_node *n)
{
  return number_new(c, &(capture_number){.kind = kind, .expr = e, .node = n});
}

rush_value capture_fresh(capture *c, fx_val_kind kind, fx_node *n)
{
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);
  capture_number made = {.kind = kind, .node = n};

  *v = (fx_val){.kind = kind, .as.number = number};
  n->val = v;
  if (kind == FX_VAL_FLOAT) {
    made.expr = number->expr = fresh_float(c);
    return number_new(c, &made);
  }
  const bool is_bool = kind == FX_VAL_BOOL; /* the number 1 is true */
  const symint i = sym_fresh(c->env, is_bool ? 0 : SYM_NEG_INF, is_bool ? 1 : SYM_INF);
  const capture_symbol *y = capture_symbol_add(c, i, NULL, n, -1, NULL);
  if (is_bool) {
    const expression *const sides[] = {y->expr, expression_integer(c->s, c->mem, 1)};
    made.expr = number->expr = expression_call(c->s, c->mem, EXPRESSION_EQ, 2, sides);
    return number_new(c, &made);
  }
  made.i = i;
  capture_describe(c, number, i);
  session_table_put(c->s, c->number_nodes, address_key(i), n);
  return number_new(c, &made);
}

/* -- Nodes that compute numbers ---------------------------------------------------------------- */

static fx_node *node_of(capture *c, symint e);

static fx_arg number_or_node(capture *c, symint e)
{
  return sym_is_const(e) ? fx_arg_int(e->k) : fx_arg_node(node_of(c, e));
}

/* Return the node of a symbol: the size of a tensor, or the number that an input is. */
static fx_node *symbol_node(capture *c, const sym_atom *a)
{
  const capture_symbol *y = capture_symbol_of(c, a);

  if (!y || !y->source)
    capture_fail(c, "a size that depends on data is used as a number, but no tensor has it");
  if (y->at < 0)
    return capture_use(c, y->source);
  const fx_arg args[] = {fx_arg_node(capture_use(c, y->source)), fx_arg_int(y->at)};
  return capture_node(c, "torch.ops.aten.sym_size.int", args, 2);
}

static fx_node *atom_node(capture *c, const sym_atom *a)
{
  static const char *const targets[] = {[SYM_FLOOR] = "_operator.floordiv",
                                        [SYM_MOD] = "_operator.mod",
                                        [SYM_MIN] = "torch.sym_min",
                                        [SYM_MAX] = "torch.sym_max"};

  if (a->kind == SYM_SYMBOL)
    return symbol_node(c, a);
  const fx_arg args[] = {number_or_node(c, a->a), number_or_node(c, a->b)};
  return capture_node(c, targets[a->kind], args, 2);
}

/* Make the node of a + b, a - b (b not negative), or a * b. */
static fx_node *join_numbers(capture *c, const char *target, symint a, symint b)
{
  const fx_arg args[] = {number_or_node(c, a), number_or_node(c, b)};

  return capture_node(c, target, args, 2);
}

static symint term_alone(capture *c, sym_term t, int64_t coef)
{
  symint e = sym_const(c->env, coef);

  for (uint32_t i = 0; i < t.degree; i++)
    e = sym_mul(c->env, e, sym_of_atom(c->env, t.atoms[i]));
  return e;
}

/* Split an expression into two and make the node that joins them. */
static fx_node *compute(capture *c, symint e)
{
  sym_env *env = c->env;
  sym_term t = e->terms[e->n_terms - 1];

  if (e->k) {
    const symint k = sym_const(env, e->k), rest = sym_sub(env, e, k);
    return e->k > 0 ? join_numbers(c, "_operator.add", rest, k)
                    : join_numbers(c, "_operator.sub", rest, sym_const(env, -e->k));
  }
  if (e->n_terms > 1) {
    const symint last = term_alone(c, t, t.coef), rest = sym_sub(env, e, last);
    return t.coef > 0 ? join_numbers(c, "_operator.add", rest, last)
                      : join_numbers(c, "_operator.sub", rest, term_alone(c, t, -t.coef));
  }
  if (t.coef != 1)
    return join_numbers(c, "_operator.mul", term_alone(c, t, 1), sym_const(env, t.coef));
  if (t.degree == 1)
    return atom_node(c, t.atoms[0]);
  const sym_term most = {1, t.degree - 1, t.atoms};
  return join_numbers(c, "_operator.mul", term_alone(c, most, 1),
              sym_of_atom(env, t.atoms[t.degree - 1]));
}

static fx_node *node_of(capture *c, symint e)
{
  fx_node *n = table_get(c->number_nodes, address_key(e));

  if (n)
    return n;
  session_enter(c->s);
  n = compute(c, e);
  session_leave(c->s);
  if (!n->val) {
    fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
    fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);
    *v = (fx_val){.kind = FX_VAL_INT, .as.number = number};
    n->val = v;
    capture_describe(c, number, e);
  }
  session_table_put(c->s, c->number_nodes, address_key(e), n);
  return n;
}

fx_arg capture_number_arg(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  return n->kind != FX_VAL_INT ? fx_arg_node(capture_use(c, n->node))
                               : number_or_node(c, sym_simplify(c->env, n->i));
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

static bool compare(capture *c, uint32_t name, symint a, symint b, rush_value *result)
{
  sym_env *env = c->env;

  switch (name) {
  case OPN_EQ:
    *result = value_bool(sym_decide(env, sym_eq(env, a, b)));
    return true;
  case OPN_NE:
    *result = value_bool(!sym_decide(env, sym_eq(env, a, b)));
    return true;
  case OPN_LT:
    *result = value_bool(sym_decide(env, sym_lt(env, a, b)));
    return true;
  case OPN_LE:
    *result = value_bool(sym_decide(env, sym_le(env, a, b)));
    return true;
  case OPN_GT:
    *result = value_bool(sym_decide(env, sym_lt(env, b, a)));
    return true;
  case OPN_GE:
    *result = value_bool(sym_decide(env, sym_le(env, b, a)));
    return true;
  default:
    return false;
  }
}

static bool combine(capture *c, uint32_t name, symint a, symint b, rush_value *result)
{
  sym_env *env = c->env;
  symint e;

  switch (name) {
  case OPN_ADD:
    e = sym_add(env, a, b);
    break;
  case OPN_SUB:
    e = sym_sub(env, a, b);
    break;
  case OPN_MUL:
    e = sym_mul(env, a, b);
    break;
  case OPN_FLOORDIV:
    e = sym_floordiv(env, a, b);
    break;
  case OPN_REMAINDER:
    e = sym_mod(env, a, b);
    break;
  case OPN_PRIM__MIN:
    e = sym_min(env, a, b);
    break;
  case OPN_PRIM__MAX:
    e = sym_max(env, a, b);
    break;
  default:
    return compare(c, name, a, b, result);
  }
  *result = capture_int(c, e);
  return true;
}

bool capture_on_ints(capture *c, uint32_t name, rush_value a, rush_value b, rush_value *result)
{
  return combine(c, name, capture_symint(a, c->env), capture_symint(b, c->env), result);
}

static bool is_int_list(rush_value v)
{
  if (v.tag != RUSH_TAG_LIST)
    return false;
  for (size_t i = 0; i < v.as.list->n; i++)
    if (!capture_is_int(v.as.list->items[i]))
      return false;
  return true;
}

/* Decide whether two lists of ints, shapes, are equal. */
static bool are_equal_lists(capture *c, const rush_list *a, const rush_list *b)
{
  bool equal = a->n == b->n;

  for (size_t i = 0; equal && i < a->n; i++)
    equal = sym_decide(c->env, sym_eq(c->env, capture_symint(a->items[i], c->env),
                                      capture_symint(b->items[i], c->env)));
  return equal;
}

bool capture_arithmetic(capture *c, const op *o, const rush_value *args, rush_value *result)
{
  sym_env *env = c->env;

  if (o->schema->n_returns != 1)
    return false;
  if (o->schema->n_args == 2 && capture_is_int(args[0]) && capture_is_int(args[1]))
    return capture_on_ints(c, o->name_key, args[0], args[1], result);
  if (o->schema->n_args == 2 && (o->name_key == OPN_EQ || o->name_key == OPN_NE) &&
      is_int_list(args[0]) && is_int_list(args[1])) {
    *result = value_bool(are_equal_lists(c, args[0].as.list, args[1].as.list) ==
                         (o->name_key == OPN_EQ));
    return true;
  }
  if (o->schema->n_args != 1 || !capture_is_int(args[0]))
    return false;
  switch (o->name_key) {
  case OPN_NEG:
    *result = capture_int(c, sym_sub(env, sym_const(env, 0), capture_symint(args[0], env)));
    return true;
  case OPN_INT:
  case OPN_INTIMPLICIT:
  case OPN_SCALARIMPLICIT:
    *result = args[0];
    return true;
  case OPN_BOOL:
    return compare(c, OPN_NE, capture_symint(args[0], env), sym_const(env, 0), result);
  default:
    return false;
  }
}

/* -- At the end -------------------------------------------------------------------------------- */

void capture_describe(capture *c, fx_number *to, symint value)
{
  if (sym_is_const(value)) {
    *to = (fx_number){.has_value = true, .value.i = value->k};
    return;
  }
  GROW(c->s, c->pending, c->n_pending, c->cap_pending, 256);
  c->pending[c->n_pending++] = (capture_pending){to, value};
}

static const expression *expression_of(void *arg, const sym_atom *a)
{
  capture *c = arg;
  const capture_symbol *y = capture_symbol_of(c, a);

  if (!y)
    y = capture_symbol_add(c, sym_of_atom(c->env, (sym_atom *)(uintptr_t)a), NULL, NULL, -1, NULL);
  return y->expr;
}

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

/* True if an atom of the expression has no hint, at any depth. */
static bool depends_on_data(symint e)
{
  int64_t ignored;

  return !sym_hint(e, &ignored);
}

/* Refuse a condition on a size that the caller declared to vary. */
static void check_dims(capture *c, const char *text, uint32_t guard)
{
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (!y->dim || !y->dim->name || !strstr(text, y->text))
      continue;
    if (c->options->place)
      *c->options->place = guard < c->n_decided ? c->decided[guard] : (capture_place){0};
    session_fail_status(c->s, RUSH_EARGUMENT, "ValueError", NULL,
                        "Constraints violated (%s): the program works only where %s, but the "
                        "dimension %s was to take any value in its range. Give a range in which "
                        "this holds, or let the dimension be inferred (Dim.AUTO)",
                        y->dim->name, text, y->text);
  }
}

static void add_guard(capture *c, const char **guards, uint32_t i)
{
  const sym_cond cond = c->env->guards[i];
  text_buf *out = session_text(c->s);

  if (depends_on_data(cond.e))
    return; /* the operator that needs it checks it when it runs */
  const expression *e = expression_from_condition(c->s, c->mem, cond, expression_of, c);
  expression_print_python(c->s, out, e, write_text, c);
  guards[c->p->n_guards] = capture_text(c, session_take_text(c->s, out));
  check_dims(c, guards[c->p->n_guards], i);
  c->p->n_guards++;
}

/* Two inputs' sizes of one name are equal; a size that is inferred is at least 2, which is what was
 * assumed of it. */
static void add_input_guards(capture *c, const char **guards)
{
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i], *first = capture_symbol_of(c, y->atom);
    const char *text = NULL;
    if (!y->text)
      continue;
    if (first != y)
      text = session_printf(c->s, "%s == %s", y->text, first->text);
    else if (!y->dim->name)
      text = session_printf(c->s, "%lld <= %s", (long long)y->atom->lo, y->text);
    if (text)
      guards[c->p->n_guards++] = capture_text(c, text);
  }
}

void capture_add_range(capture *c, const capture_symbol *y)
{
  exported_bounds *b = &c->p->ranges[c->p->n_ranges];
  const bool is_declared = y->dim && y->dim->name;
  const sym_atom *a = y->atom; /* NULL: of a float */
  const int64_t lo = is_declared ? y->dim->least : a ? a->lo : SYM_NEG_INF;
  const int64_t hi = is_declared ? y->dim->most : a ? a->hi : SYM_INF;

  if (a && (capture_symbol_of(c, a) != y || a->is))
    return;
  *b = (exported_bounds){.text = y->expr->name, .expr = y->expr, .is_used = true};
  b->has_min = lo != SYM_NEG_INF;
  b->has_max = hi != SYM_INF;
  b->min = b->has_min ? lo : 0;
  b->max = b->has_max ? hi : 0;
  c->p->n_ranges++;
}

void capture_finish_values(capture *c)
{
  int64_t hint;

  for (uint32_t i = 0; i < c->n_pending; i++) {
    const symint e = sym_simplify(c->env, c->pending[i].value);
    fx_number *to = c->pending[i].to;
    session_poll(c->s);
    *to = (fx_number){.has_value = sym_hint(e, &hint)};
    to->value.i = to->has_value ? hint : 0;
    if (!sym_is_const(e))
      to->expr = expression_from_symint(c->s, c->mem, e, expression_of, c);
  }
}

void capture_finish_numbers(capture *c)
{
  const char **guards;

  capture_finish_values(c);
  guards = session_alloc_in(c->s, c->mem,
                            ((size_t)c->env->n_guards + c->n_symbols + 1) * sizeof *guards);
  c->p->guards = guards;
  add_input_guards(c, guards);
  for (uint32_t i = 0; i < c->env->n_guards; i++)
    add_guard(c, guards, i);
  c->p->ranges =
    session_alloc_in(c->s, c->mem, ((size_t)c->n_symbols + 1) * sizeof *c->p->ranges);
  for (uint32_t i = 0; i < c->n_symbols; i++)
    capture_add_range(c, &c->symbols[i]);
}
