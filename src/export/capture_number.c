/* export/capture_number.c -- symbolic ints of a program that is being captured.
 *
 * A size is a normal form over the symbols of inputs (shape/symint.h).  Where a node needs one as
 * an argument, nodes are made that compute it from the sizes of the inputs, once for each form.
 * Texts, ranges and guards are written at the end, when all that was decided is known.  A
 * comparison is decided only where its answer is used: torch.cond and assertions take it as it
 * is. */
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

/* The first reference of a number is never dropped: a list of ints does not drop its items, and
 * nothing with a number outlives the session. */
rush_value capture_number_new(capture *c, const capture_number *n)
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
                         : capture_number_new(c, &(capture_number){.kind = FX_VAL_INT, .i = e});
}

symint capture_symint(rush_value v, sym_env *env)
{
  const capture_number *n = capture_number_of(v);

  return n ? sym_simplify(env, n->i) : sym_const(env, v.as.i);
}

static symint side(capture *c, symint e) { return sym_simplify(c->env, e); }

sym_cond capture_condition(capture *c, const capture_number *n)
{
  const symint a = side(c, n->a), b = side(c, n->b);
  sym_env *env = c->env;

  switch (n->relation) {
  case OPN_EQ:
    return sym_eq(env, a, b);
  case OPN_NE:
    return sym_not(env, sym_eq(env, a, b));
  case OPN_LT:
    return sym_lt(env, a, b);
  case OPN_LE:
    return sym_le(env, a, b);
  case OPN_GT:
    return sym_lt(env, b, a);
  default:
    return sym_le(env, b, a);
  }
}

bool capture_can_decide(capture *c, const capture_number *n)
{
  int64_t ignored;

  if (n->kind != FX_VAL_BOOL || !n->relation)
    return n->kind == FX_VAL_BOOL && n->has_hint;
  const sym_cond cond = capture_condition(c, n);
  return sym_known(c->env, cond) >= 0 || sym_hint(cond.e, &ignored);
}

symint capture_symint_named(void *arg, const expression *symbol)
{
  const capture *c = arg;

  const capture_symbol *y = capture_symbol_by(c, &c->by_name, symbol->name);

  return y && y->atom ? sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom) : NULL;
}

symint capture_int_of(capture *c, const expression *e)
{
  const bool is_itself = e->kind == EXPRESSION_INT_TRUE_DIV &&
                         expression_is_integer(e->args[1]) && e->args[1]->p == 1;

  return is_itself || e->kind == EXPRESSION_TO_FLOAT
           ? expression_to_symint(c->env, e->args[0], capture_symint_named, c)
           : NULL;
}

/* Refuse to decide what depends on data. */
static _Noreturn void refuse_decision(capture *c, const expression *e)
{
  text_buf *text = session_text(c->s);

  expression_print(c->s, text, e);
  capture_fail(c,
               "Could not guard on data-dependent expression %s: it cannot be decided before the "
               "program runs, since it depends on data",
               text_str(text));
}

/* Require that a float or a bool that is no relation is what it is now. */
static rush_value fix_by_text(capture *c, const capture_number *n)
{
  const bool is_bool = n->kind == FX_VAL_BOOL;
  const expression *e = n->expr;

  if (!n->has_hint && is_bool)
    refuse_decision(c, e);
  if (!n->has_hint)
    capture_fail(c, "the program needs the value of a float that depends on data before it runs");
  if (!is_bool) {
    const expression *const sides[] = {e, expression_float(c->s, c->mem, n->hint)};
    e = expression_call(c->s, c->mem, EXPRESSION_EQ, 2, sides);
  } else if (n->hint == 0) {
    e = expression_call(c->s, c->mem, EXPRESSION_NOT, 1, &e);
  }
  GROW(c->s, c->conditions, c->n_conditions, c->cap_conditions, 8);
  c->conditions[c->n_conditions++] = e;
  return is_bool ? value_bool(n->hint != 0) : value_float(n->hint);
}

/* Decide a relation, and keep it as the code has it. */
static rush_value decide(capture *c, const capture_number *n)
{
  const uint32_t before = c->env->n_guards;
  capture_number other = *n;

  other.relation = capture_opposite(n->relation);
  const expression *yes = capture_relation_tree(c, n), *no = capture_relation_tree(c, &other);
  if (!capture_can_decide(c, n))
    refuse_decision(c, yes);
  const bool is_true = sym_decide(c->env, capture_condition(c, n));
  if (c->env->n_guards == before + 1) {
    capture_note_guards(c);
    c->decided_by[before] = is_true ? yes : no;
  }
  return value_bool(is_true);
}

rush_value capture_fix_number(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);
  int64_t i;

  if (n->kind == FX_VAL_BOOL && n->relation)
    return decide(c, n);
  if (n->kind != FX_VAL_INT)
    return fix_by_text(c, n);
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
  return n->kind == FX_VAL_FLOAT  ? value_float(n->has_hint ? n->hint : 1)
         : n->kind == FX_VAL_BOOL ? value_bool(n->has_hint && n->hint != 0)
                                  : value_int(hint);
}

/* -- Symbols ----------------------------------------------------------------------------------- */

static void index_symbol(capture *c, table *by, str key, const capture_symbol *y)
{
  if (!table_get(by, key))
    session_table_put(c->s, by, key, (void *)(uintptr_t)(y - c->symbols + 1));
}

static void index_name(capture *c, const capture_symbol *y)
{
  if (y->expr->kind == EXPRESSION_SYMBOL)
    index_symbol(c, &c->by_name, y->expr->name, y);
}

capture_symbol *capture_symbol_by(const capture *c, const table *by, str key)
{
  const uintptr_t at = (uintptr_t)table_get(by, key);

  return at ? &c->symbols[at - 1] : NULL;
}

static capture_symbol *append_symbol(capture *c, capture_symbol made)
{
  GROW(c->s, c->symbols, c->n_symbols, c->cap_symbols, 8);
  capture_symbol *y = &c->symbols[c->n_symbols++];
  *y = made;
  if (y->atom)
    index_symbol(c, &c->by_atom, address_key(y->atom), y);
  if (y->dim && y->dim->name)
    index_symbol(c, &c->by_dim, str_of(y->dim->name), y);
  index_name(c, y);
  return y;
}

void capture_symbol_as(capture *c, symint e, const expression *expr)
{
  append_symbol(c, (capture_symbol){.atom = e->terms[0].atoms[0], .at = -1, .expr = expr});
}

void capture_symbol_rename(capture *c, capture_symbol *y, const expression *e)
{
  if (capture_symbol_by(c, &c->by_name, y->expr->name) == y)
    table_remove(&c->by_name, y->expr->name);
  y->expr = e;
  index_name(c, y);
}

capture_symbol *capture_symbol_add(capture *c, symint e, const capture_dim *dim, fx_node *source,
                                   int at, const char *text)
{
  static const char backed[] = "positive=True, integer=True", unbacked[] = "integer=True";
  const sym_atom *a = e->terms[0].atoms[0];
  const char *name = session_printf(c->s, "%c%u", a->backed ? 's' : 'u', a->number);

  capture_symbol made = {.atom = a, .dim = dim, .source = source, .at = at, .text = text};

  made.expr = expression_symbol(c->s, c->mem, str_of(name),
                                dim && at >= 0 ? str_of(backed) : str_of(unbacked));
  return append_symbol(c, made);
}

rush_value capture_opaque_int(capture *c, const capture_number *like, fx_node *n)
{
  const double most = 9e18;
  const int64_t lo = like->lo > -most ? (int64_t)like->lo : SYM_NEG_INF,
                hi = like->hi < most ? (int64_t)like->hi : SYM_INF;
  const symint e = like->has_hint ? sym_new(c->env, (int64_t)like->hint, lo)
                                  : sym_fresh(c->env, lo, hi);
  const sym_atom *a = e->terms[0].atoms[0];

  ((sym_atom *)(uintptr_t)a)->hi = hi;
  append_symbol(c, (capture_symbol){.atom = a, .source = n, .at = -1, .expr = like->expr});
  session_table_put(c->s, c->number_nodes, address_key(e), n);
  return capture_int(c, e);
}

/* Symbols that shape rules made, of sizes that depend on data, are added when they are met. */
capture_symbol *capture_symbol_of(const capture *c, const sym_atom *a)
{
  return capture_symbol_by(c, &c->by_atom, address_key(a));
}

/* Make a symbol for a float that depends on data; it has no range. */
static const expression *fresh_float(capture *c)
{
  const char *name = session_printf(c->s, "zuf%u", c->n_floats++);

  const expression *e = expression_symbol(c->s, c->mem, str_of(name), STR(""));
  append_symbol(c, (capture_symbol){.expr = e});
  return e;
}

rush_value capture_number_by_node(capture *c, fx_val_kind kind, const expression *e, fx_node *n)
{
  return capture_number_new(c, &(capture_number){.kind = kind, .expr = e, .node = n});
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
    return capture_number_new(c, &made);
  }
  const bool is_bool = kind == FX_VAL_BOOL; /* the number 1 is true */
  const symint i = sym_fresh(c->env, is_bool ? 0 : SYM_NEG_INF, is_bool ? 1 : SYM_INF);
  const capture_symbol *y = capture_symbol_add(c, i, NULL, n, -1, NULL);
  if (is_bool) {
    const expression *const sides[] = {y->expr, expression_integer(c->s, c->mem, 1)};
    made.expr = number->expr = expression_call(c->s, c->mem, EXPRESSION_EQ, 2, sides);
    return capture_number_new(c, &made);
  }
  made.i = i;
  capture_describe(c, number, i);
  session_table_put(c->s, c->number_nodes, address_key(i), n);
  return capture_number_new(c, &made);
}

/* -- Nodes that compute numbers ---------------------------------------------------------------- */

static fx_node *node_of(capture *c, symint e);

static fx_arg number_or_node(capture *c, symint e)
{
  return sym_is_const(e) ? fx_arg_int(e->k) : fx_arg_node(node_of(c, e));
}

static void describe_node(capture *c, fx_node *n, symint e)
{
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);

  *v = (fx_val){.kind = FX_VAL_INT, .as.number = number};
  n->val = v;
  capture_describe(c, number, e);
}

/* Return the node of n, where `size` is the node of factor*n + offset. */
static fx_node *root_node(capture *c, const capture_symbol *y, fx_node *size)
{
  const symint root = sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom);
  const symint scaled = sym_mul(c->env, sym_const(c->env, y->dim->factor), root);
  fx_node *n = size;

  describe_node(c, n, sym_add(c->env, scaled, sym_const(c->env, y->dim->offset)));
  if (y->dim->offset) {
    const fx_arg args[] = {fx_arg_node(n), fx_arg_int(y->dim->offset)};
    n = capture_node(c, "_operator.sub", args, 2);
    describe_node(c, n, scaled);
  }
  if (y->dim->factor != 1) {
    const fx_arg args[] = {fx_arg_node(n), fx_arg_int(y->dim->factor)};
    n = capture_node(c, "_operator.floordiv", args, 2);
  }
  return n;
}

/* Put the size of an input behind the placeholders, as PyTorch has it, in the order of symbols. */
static void put_first(capture *c, fx_node *n, uint32_t symbol)
{
  fx_node *at = c->g->first;

  while (at && (at->op == FX_PLACEHOLDER || at->op == FX_GET_ATTR))
    at = at->next;
  for (uint32_t i = 0; i < c->n_symbols && i < symbol && at; i++)
    if (at != n && at->op == FX_CALL_FUNCTION && c->symbols[i].hoisted == at)
      at = at->next;
  c->symbols[symbol].hoisted = n;
  n->metadata = STR("{}"); /* it has no place in the author's code */
  if (at && at != n)
    fx_node_move_before(n, at);
}

/* Return the node of a symbol: the size of a tensor, or the number that an input is. */
static fx_node *symbol_node(capture *c, const sym_atom *a)
{
  const capture_symbol *y = capture_symbol_of(c, a);

  if ((!y || !y->source) && c->is_scratch)
    return fx_node_new(c->s, c->g, FX_PLACEHOLDER, "size", "size");
  if (!y || !y->source)
    capture_fail(c, "a size that depends on data is used as a number, but no tensor has it");
  if (y->at < 0)
    return capture_use(c, y->source);
  const fx_arg args[] = {fx_arg_node(capture_use(c, y->source)), fx_arg_int(y->at)};
  fx_node *n = capture_node(c, "torch.ops.aten.sym_size.int", args, 2);
  if (a->backed && c->g == c->p->graph && c->options->structure && !c->decomposes)
    put_first(c, n, (uint32_t)(y - c->symbols));
  return y->dim && y->dim->factor ? root_node(c, y, n) : n;
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

/* Return the symbol of an input's size that is e, factor*n + offset; or NULL. */
static const capture_symbol *derived_size(capture *c, symint e)
{
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (!y->dim || !y->dim->factor || y->at < 0)
      continue;
    const symint root = sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom);
    const symint scaled = sym_mul(c->env, sym_const(c->env, y->dim->factor), root);
    if (sym_add(c->env, scaled, sym_const(c->env, y->dim->offset)) == e)
      return y;
  }
  return NULL;
}

/* Split an expression into two and make the node that joins them. */
static fx_node *compute(capture *c, symint e)
{
  sym_env *env = c->env;
  const capture_symbol *derived = derived_size(c, e);

  if (derived) {
    const fx_arg args[] = {fx_arg_node(capture_use(c, derived->source)), fx_arg_int(derived->at)};
    return capture_node(c, "torch.ops.aten.sym_size.int", args, 2);
  }
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

/* True for the size of an input inside of a branch: the branch gets it as an operand. */
static bool is_of_outside(capture *c, symint e)
{
  const bool is_symbol = e->n_terms == 1 && e->k == 0 && e->terms[0].coef == 1 &&
                         e->terms[0].degree == 1;

  return is_symbol && c->branch && !c->is_scratch && c->options->structure && !c->decomposes &&
         e->terms[0].atoms[0]->backed;
}

static fx_node *node_outside(capture *c, symint e)
{
  const capture_graph before = capture_enter(c, c->p->graph);
  fx_node *n = node_of(c, e);

  capture_leave(c, before);
  return capture_use(c, n);
}

static fx_node *node_of(capture *c, symint e)
{
  fx_node *n = table_get(c->number_nodes, address_key(e));

  if (n)
    return n;
  session_enter(c->s);
  n = is_of_outside(c, e) ? node_outside(c, e) : compute(c, e);
  session_leave(c->s);
  if (!n->val)
    describe_node(c, n, e);
  session_table_put(c->s, c->number_nodes, address_key(e), n);
  return n;
}

void capture_count(capture *c, rush_value tensor, symint e)
{
  const fx_arg arg = capture_arg(c, tensor, NULL);

  if (table_get(c->number_nodes, address_key(e)))
    return;
  fx_node *n = capture_named_node(c, "torch.ops.aten.sym_numel.default", "sym_numel_default", &arg,
                                  1);
  describe_node(c, n, e);
  session_table_put(c->s, c->number_nodes, address_key(e), n);
}

static const struct {
  uint32_t name;
  const char *target;
  expression_kind kind;
} relations[] = {{OPN_EQ, "_operator.eq", EXPRESSION_EQ}, {OPN_NE, "_operator.ne", EXPRESSION_NE},
                 {OPN_LT, "_operator.lt", EXPRESSION_LT}, {OPN_LE, "_operator.le", EXPRESSION_LE},
                 {OPN_GT, "_operator.gt", EXPRESSION_GT}, {OPN_GE, "_operator.ge", EXPRESSION_GE}};

const expression *capture_relation_tree(capture *c, const capture_number *n)
{
  const expression *const sides[] = {capture_expression(c, side(c, n->a)),
                                     capture_expression(c, side(c, n->b))};
  size_t i = 0;

  while (relations[i].name != n->relation)
    i++;
  return expression_call(c->s, c->mem, relations[i].kind, 2, sides);
}

/* Make the node of a relation in the graph being captured. */
static fx_node *relation_node(capture *c, const capture_number *n)
{
  const fx_arg args[] = {number_or_node(c, side(c, n->a)), number_or_node(c, side(c, n->b))};
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);
  int64_t a, b;
  size_t i = 0;

  while (relations[i].name != n->relation)
    i++;
  fx_node *made = capture_node(c, relations[i].target, args, 2);
  *number = (fx_number){.expr = capture_relation_tree(c, n),
                        .has_value = sym_hint(n->a, &a) && sym_hint(n->b, &b)};
  if (number->has_value)
    number->value.b = n->relation == OPN_EQ   ? a == b
                      : n->relation == OPN_NE ? a != b
                      : n->relation == OPN_LT ? a < b
                      : n->relation == OPN_LE ? a <= b
                      : n->relation == OPN_GT ? a > b
                                              : a >= b;
  *v = (fx_val){.kind = FX_VAL_BOOL, .as.number = number};
  made->val = v;
  return made;
}

/* Make the node of a == b, of sizes that a guard says are equal: they are not simplified. */
static fx_node *equality_node(capture *c, symint a, symint b)
{
  const fx_arg args[] = {number_or_node(c, a), number_or_node(c, b)};
  const expression *const sides[] = {capture_expression(c, a), capture_expression(c, b)};
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);
  fx_node *made = capture_node(c, "_operator.eq", args, 2);

  *number = (fx_number){.expr = expression_call(c->s, c->mem, EXPRESSION_EQ, 2, sides)};
  *v = (fx_val){.kind = FX_VAL_BOOL, .as.number = number};
  made->val = v;
  return made;
}

void capture_check_equalities(capture *c, uint32_t first)
{
  sym_env *env = c->env;
  int64_t ignored;

  for (uint32_t i = first; i < env->n_guards; i++) {
    const symint e = env->guards[i].e;
    symint a = sym_const(env, e->k > 0 ? e->k : 0), b = sym_const(env, e->k < 0 ? -e->k : 0);
    if (env->guards[i].rel != SYM_EQ || sym_hint(e, &ignored))
      continue;
    for (uint32_t t = 0; t < e->n_terms; t++) {
      const int64_t coef = e->terms[t].coef;
      const symint term = term_alone(c, e->terms[t], coef < 0 ? -coef : coef);
      a = coef > 0 ? sym_add(env, a, term) : a;
      b = coef < 0 ? sym_add(env, b, term) : b;
    }
    fx_node *n = equality_node(c, a, b);
    capture_check(c, capture_number_by_node(c, FX_VAL_BOOL, n->val->as.number->expr, n));
  }
}

fx_arg capture_number_arg(capture *c, rush_value v)
{
  const capture_number *n = capture_number_of(v);

  if (n->kind == FX_VAL_INT)
    return number_or_node(c, sym_simplify(c->env, n->i));
  return fx_arg_node(n->relation ? relation_node(c, n) : capture_use(c, n->node));
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

/* Compare: known, if the ranges decide it. */
static bool compare(capture *c, uint32_t name, symint a, symint b, rush_value *result)
{
  const capture_number n = {.kind = FX_VAL_BOOL, .relation = name, .a = a, .b = b};

  if (name != OPN_EQ && name != OPN_NE && name != OPN_LT && name != OPN_LE && name != OPN_GT &&
      name != OPN_GE)
    return false;
  const int known = sym_known(c->env, capture_condition(c, &n));
  *result = known >= 0 ? value_bool(known) : capture_number_new(c, &n);
  return true;
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

const expression *capture_symbol_tree(void *arg, const sym_atom *a)
{
  capture *c = arg;
  const capture_symbol *y = capture_symbol_of(c, a);

  if (!y)
    y = capture_symbol_add(c, sym_of_atom(c->env, (sym_atom *)(uintptr_t)a), NULL, NULL, -1, NULL);
  return y->expr;
}

const expression *capture_expression(capture *c, symint e)
{
  return expression_from_symint(c->s, c->mem, e, capture_symbol_tree, c);
}

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

void capture_add_range(capture *c, const capture_symbol *y)
{
  exported_bounds *b = &c->p->ranges[c->p->n_ranges];
  const bool is_declared = y->dim && y->dim->name && !is_size_of_hint(c, y);
  const sym_atom *a = y->atom; /* NULL: of a float */
  const bool is_input = y->dim && y->at < 0; /* torch shows no negative ints, and takes them */
  int64_t least = a ? a->lo : SYM_NEG_INF, most = a ? a->hi : SYM_INF;

  if (a && (capture_symbol_of(c, a) != y || (a->is && a->backed)))
    return;
  if (y->expr->kind != EXPRESSION_SYMBOL)
    return;
  if (a && a->is) { /* numbers of data that follow from others stay in expressions of nodes */
    int64_t lo, hi;
    sym_range(c->env, sym_simplify(c->env, sym_of_atom(c->env, (sym_atom *)(uintptr_t)a)), &lo,
              &hi);
    least = lo > least ? lo : least;
    most = hi < most ? hi : most;
  }
  const int64_t given = is_declared ? y->dim->least : least;
  const int64_t lo = is_input && given < 0 ? 0 : given, hi = is_declared ? y->dim->most : most;
  *b = (exported_bounds){.text = y->expr->name, .expr = y->expr, .is_used = true};
  b->has_min = lo != SYM_NEG_INF;
  b->has_max = hi != SYM_INF;
  b->min = b->has_min ? lo : 0;
  b->max = b->has_max ? hi : 0;
  c->p->n_ranges++;
}

/* Of a size factor*n + offset the program has a range, too. */
static void add_derived_range(capture *c, const capture_symbol *y, table *there)
{
  exported_bounds *b = &c->p->ranges[c->p->n_ranges];
  const capture_dim *d = y->dim;

  if (!d || !d->factor || y->atom->is)
    return;
  const symint root = sym_of_atom(c->env, (sym_atom *)(uintptr_t)y->atom);
  const symint scaled = sym_mul(c->env, sym_const(c->env, d->factor), root);
  const expression *e =
    capture_expression(c, sym_add(c->env, scaled, sym_const(c->env, d->offset)));
  text_buf *out = session_text(c->s);
  expression_print(c->s, out, e);
  const char *text = capture_text(c, session_take_text(c->s, out));
  if (table_get(there, str_of(text)))
    return;
  session_table_put(c->s, there, str_of(text), c);
  *b = (exported_bounds){.text = str_of(text), .expr = e, .is_used = true, .has_min = true};
  b->min = d->factor * d->least + d->offset;
  b->has_max = d->most != CAPTURE_AUTO_RANGE &&
               !__builtin_mul_overflow(d->factor, d->most, &b->max) &&
               !__builtin_add_overflow(b->max, d->offset, &b->max);
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
      to->expr = expression_from_symint(c->s, c->mem, e, capture_symbol_tree, c);
  }
}

void capture_finish_numbers(capture *c)
{
  table *derived = session_new(c->s, table);

  session_table_init(c->s, derived);
  capture_finish_values(c);
  capture_finish_guards(c);
  capture_settle_scalars(c, c->p->graph);
  c->p->ranges =
    session_alloc_in(c->s, c->mem, (2 * (size_t)c->n_symbols + 1) * sizeof *c->p->ranges);
  note_hinted(c);
  for (uint32_t i = 0; i < c->n_symbols; i++)
    capture_add_range(c, &c->symbols[i]);
  for (uint32_t i = 0; i < c->n_symbols; i++)
    add_derived_range(c, &c->symbols[i], derived);
}
