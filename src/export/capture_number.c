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
  const symint a = sym_simplify_all(c->env, n->a), b = sym_simplify_all(c->env, n->b);
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

static symint symbol_by_name(void *arg, const expression *symbol)
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
           ? expression_to_symint(c->env, e->args[0], symbol_by_name, c)
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

/* Make a symbol for a float that depends on data and that a node has; it has no range. */
static const expression *fresh_float(capture *c, fx_node *n)
{
  const char *name = session_printf(c->s, "zuf%u", c->n_floats++);
  const expression *e = expression_symbol(c->s, c->mem, str_of(name), STR(""));

  append_symbol(c, (capture_symbol){.source = n, .at = -1, .expr = e});
  return e;
}

rush_value capture_number_by_node(capture *c, fx_val_kind kind, const expression *e, fx_node *n)
{
  return capture_number_new(c, &(capture_number){.kind = kind, .expr = e, .node = n});
}

static fx_number *number_of_node(capture *c, fx_node *n, fx_val_kind kind)
{
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);

  *number = (fx_number){NULL};
  *v = (fx_val){.kind = kind, .as.number = number};
  n->val = v;
  return number;
}

static void describe_later(capture *c, capture_pending p)
{
  GROW(c->s, c->pending, c->n_pending, c->cap_pending, 256);
  c->pending[c->n_pending++] = p;
}

static void describe_node(capture *c, fx_node *n, symint e)
{
  fx_number *number = number_of_node(c, n, FX_VAL_INT);

  if (capture_is_live(c))
    describe_later(c, (capture_pending){.to = number, .value = e, .is_shown = true});
  else
    capture_describe(c, number, e);
}

rush_value capture_fresh(capture *c, fx_val_kind kind, fx_node *n)
{
  fx_number *number = number_of_node(c, n, kind);
  capture_number made = {.kind = kind, .node = n};

  if (kind == FX_VAL_FLOAT) {
    made.expr = number->expr = fresh_float(c, n);
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
  describe_node(c, n, i);
  session_table_put(c->s, c->number_nodes, address_key(i), n);
  return capture_number_new(c, &made);
}

rush_value capture_number_again(capture *c, const capture_number *like, fx_node *n)
{
  describe_node(c, n, like->i);
  return capture_number_new(c, &(capture_number){.kind = FX_VAL_INT, .i = like->i, .node = n});
}

/* -- Nodes that compute numbers ---------------------------------------------------------------- */

static fx_node *node_of(capture *c, symint e);

static fx_arg number_or_node(capture *c, symint e)
{
  return sym_is_const(e) ? fx_arg_int(e->k) : fx_arg_node(node_of(c, e));
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
  const capture_size *first =
    c->g == c->p->graph ? table_get(c->first_sizes, address_key(e)) : NULL;

  if (first) {
    const fx_arg args[] = {fx_arg_node(first->tensor), fx_arg_int(first->dim)};
    return capture_node(c, "torch.ops.aten.sym_size.int", args, 2);
  }
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

void capture_note_sizes(capture *c, fx_node *n, const symshape_facts *f)
{
  if (!n || !capture_is_live(c) || n->graph != c->p->graph)
    return;
  for (int i = 0; i < f->n_dims; i++) {
    const symint e = f->sizes[i];
    const bool is_symbol = e->n_terms == 1 && e->k == 0 && e->terms[0].coef == 1 &&
                           e->terms[0].degree == 1 &&
                           e->terms[0].atoms[0]->kind == SYM_SYMBOL;
    if (sym_is_const(e) || is_symbol || table_get(c->first_sizes, address_key(e)))
      continue;
    capture_size *size = session_new(c->s, capture_size);
    *size = (capture_size){n, i};
    session_table_put(c->s, c->first_sizes, address_key(e), size);
  }
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

/* Return a number, known or symbolic, as an argument. */
static fx_arg number_or_value(capture *c, rush_value v)
{
  return capture_number_of(v) ? capture_number_arg(c, v) : fx_arg_int(v.as.i);
}

static bool relation_holds(uint32_t relation, int64_t a, int64_t b)
{
  return relation == OPN_EQ   ? a == b
         : relation == OPN_NE ? a != b
         : relation == OPN_LT ? a < b
         : relation == OPN_LE ? a <= b
         : relation == OPN_GT ? a > b
                              : a >= b;
}

/* Make the node of a relation in the graph being captured; `sides`: its numbers, or NULL. */
static fx_node *relation_node(capture *c, const capture_number *n, const rush_value *sides)
{
  const fx_arg args[] = {
    sides ? number_or_value(c, sides[0]) : number_or_node(c, side(c, n->a)),
    sides ? number_or_value(c, sides[1]) : number_or_node(c, side(c, n->b))};
  size_t i = 0;

  while (relations[i].name != n->relation)
    i++;
  fx_node *made = capture_node(c, relations[i].target, args, 2);
  capture_describe_relation(c, made, n);
  return made;
}

void capture_describe_relation(capture *c, fx_node *node, const capture_number *n)
{
  fx_number *number = number_of_node(c, node, FX_VAL_BOOL);
  int64_t a, b;

  *number = (fx_number){.expr = capture_relation_tree(c, n),
                        .has_value = sym_hint(n->a, &a) && sym_hint(n->b, &b)};
  if (number->has_value)
    number->value.b = relation_holds(n->relation, a, b);
  capture_describe_bool(c, number, n);
}

void capture_describe_bool(capture *c, fx_number *to, const capture_number *n)
{
  if (capture_is_live(c)) {
    capture_number *copy = session_new(c->s, capture_number);
    *copy = *n;
    describe_later(c, (capture_pending){.to = to, .state = copy});
  }
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

/* Let the program check what an operator found to hold of numbers that depend on data. */
static void defer_guard(capture *c, sym_cond cond)
{
  const symint zero = sym_const(c->env, 0);
  const sym_term *t = cond.e->terms;
  const bool is_mod = cond.rel == SYM_EQ && cond.e->k == 0 && cond.e->n_terms == 1 &&
                      t->degree == 1 && t->coef == 1 && t->atoms[0]->kind == SYM_MOD;
  const uint32_t relation = cond.rel == SYM_EQ ? OPN_EQ : OPN_GE;

  capture_defer(c, capture_canonical(
                     c, &(capture_number){.relation = relation, .a = cond.e, .b = zero}));
  if (!is_mod)
    return;
  /* a = b*(a//b), which the algebra finds to be so from here on */
  const expression *const sides[] = {capture_expression(c, t->atoms[0]->a),
                                     capture_expression(c, t->atoms[0]->b)};
  const expression *const factors[] = {
    sides[1], expression_call(c->s, c->mem, EXPRESSION_FLOOR_DIV, 2, sides)};
  const expression *const both[] = {sides[0],
                                    expression_call(c->s, c->mem, EXPRESSION_MUL, 2, factors)};
  capture_defer(c, expression_call(c->s, c->mem, EXPRESSION_EQ, 2, both));
}

void capture_check_equalities(capture *c, uint32_t first)
{
  sym_env *env = c->env;
  int64_t ignored;

  for (uint32_t i = first; i < env->n_guards; i++) {
    const symint e = env->guards[i].e;
    symint a = sym_const(env, e->k > 0 ? e->k : 0), b = sym_const(env, e->k < 0 ? -e->k : 0);
    const bool is_deferred = capture_is_live(c) && !c->branch && !c->is_scratch;
    if (sym_hint(e, &ignored) || env->guards[i].rel == SYM_NE)
      continue;
    if (is_deferred)
      defer_guard(c, env->guards[i]);
    if (is_deferred || env->guards[i].rel != SYM_EQ)
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

  if (n->node)
    return fx_arg_node(capture_use(c, n->node));
  return n->kind == FX_VAL_INT ? number_or_node(c, sym_simplify(c->env, n->i))
                               : fx_arg_node(relation_node(c, n, NULL));
}

/* -- Arithmetic -------------------------------------------------------------------------------- */

static const struct {
  uint32_t name;
  const char *target;
} int_ops[] = {{OPN_ADD, "_operator.add"},        {OPN_SUB, "_operator.sub"},
               {OPN_MUL, "_operator.mul"},        {OPN_FLOORDIV, "_operator.floordiv"},
               {OPN_REMAINDER, "_operator.mod"},  {OPN_PRIM__MIN, "torch.sym_min"},
               {OPN_PRIM__MAX, "torch.sym_max"},  {OPN_NEG, "_operator.neg"},
               {OPN_POW, "_operator.pow"}};

/* True if an operation gets its node when it runs: in live code, whose names torch.export counts.
 * In a branch only if the branch has the numbers: it is not to be given one that nothing uses. */
static bool has_node_now(capture *c, const rush_value *args, uint32_t n)
{
  bool is_here = capture_is_live(c) && !c->is_scratch;

  for (uint32_t i = 0; i < n && is_here && c->branch; i++) {
    const capture_number *x = capture_number_of(args[i]);
    const symint e = x ? sym_simplify(c->env, x->i) : NULL;
    is_here = !x || (x->node ? x->node->graph == c->g
                             : sym_is_const(e) || table_get(c->number_nodes, address_key(e)));
  }
  return is_here;
}

/* Return e, the result of an operation on numbers. */
static rush_value computed(capture *c, uint32_t name, symint e, const rush_value *args, uint32_t n)
{
  fx_arg nodes[2];
  size_t at = 0;

  if (!has_node_now(c, args, n))
    return capture_int(c, e);
  while (int_ops[at].name != name)
    at++;
  for (uint32_t i = 0; i < n; i++)
    nodes[i] = number_or_value(c, args[i]);
  fx_node *node = capture_node(c, int_ops[at].target, nodes, n);
  describe_node(c, node, e);
  return capture_number_new(c, &(capture_number){.kind = FX_VAL_INT, .i = e, .node = node});
}

/* Compare: known, if the ranges decide it. */
static bool compare(capture *c, uint32_t name, const rush_value *args, rush_value *result)
{
  capture_number n = {.kind = FX_VAL_BOOL,
                      .relation = name,
                      .a = capture_symint(args[0], c->env),
                      .b = capture_symint(args[1], c->env)};

  if (name != OPN_EQ && name != OPN_NE && name != OPN_LT && name != OPN_LE && name != OPN_GT &&
      name != OPN_GE)
    return false;
  const int known = sym_known(c->env, capture_condition(c, &n));
  if (has_node_now(c, args, 2))
    n.node = relation_node(c, &n, args);
  *result = known >= 0 ? value_bool(known) : capture_number_new(c, &n);
  return true;
}

/* Multiply as often as a constant says; NULL: it does not. */
static symint power(sym_env *env, symint a, symint b)
{
  symint e = sym_const(env, 1);

  if (!sym_is_const(b) || b->k < 0 || b->k > SYM_MOST_DEGREE)
    return NULL;
  for (int64_t i = 0; i < b->k; i++)
    e = sym_mul(env, e, a);
  return e;
}

static symint combined(sym_env *env, uint32_t name, symint a, symint b)
{
  switch (name) {
  case OPN_ADD:
    return sym_add(env, a, b);
  case OPN_SUB:
    return sym_sub(env, a, b);
  case OPN_MUL:
    return sym_mul(env, a, b);
  case OPN_FLOORDIV:
    return sym_floordiv(env, a, b);
  case OPN_REMAINDER:
    return sym_mod(env, a, b);
  case OPN_PRIM__MIN:
    return sym_min(env, a, b);
  case OPN_PRIM__MAX:
    return sym_max(env, a, b);
  case OPN_POW:
    return power(env, a, b);
  default:
    return NULL;
  }
}

static bool is_one(rush_value v) { return v.tag == RUSH_TAG_INT && v.as.i == 1; }

bool capture_on_ints(capture *c, uint32_t name, rush_value a, rush_value b, rush_value *result)
{
  const rush_value args[] = {a, b};

  if (name == OPN_MUL && (is_one(a) || is_one(b))) {
    *result = is_one(b) ? a : b;
    return true;
  }
  const symint e = combined(c->env, name, capture_symint(a, c->env), capture_symint(b, c->env));
  if (!e)
    return compare(c, name, args, result);
  *result = computed(c, name, e, args, 2);
  return true;
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
    *result = computed(c, OPN_NEG, sym_sub(env, sym_const(env, 0), capture_symint(args[0], env)),
                       args, 1);
    return true;
  case OPN_INT:
  case OPN_INTIMPLICIT:
  case OPN_SCALARIMPLICIT:
    *result = args[0];
    return true;
  case OPN_BOOL:
    return compare(c, OPN_NE, (rush_value[]){args[0], value_int(0)}, result);
  default:
    return false;
  }
}

/* -- At the end -------------------------------------------------------------------------------- */

void capture_describe(capture *c, fx_number *to, symint value)
{
  if (sym_is_const(value))
    *to = (fx_number){.has_value = true, .value.i = value->k};
  else
    describe_later(c, (capture_pending){.to = to, .value = value});
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

/* Write what a number of the program is. */
static void finish_value(capture *c, const capture_pending *p)
{
  fx_number *to = p->to;
  int64_t hint;

  if (p->state) {
    to->expr = capture_present(c, capture_bool_tree(c, p->state));
    return;
  }
  const symint e = sym_simplify(c->env, p->value);
  *to = (fx_number){.has_value = sym_hint(e, &hint)};
  to->value.i = to->has_value ? hint : 0;
  if (!sym_is_const(e))
    to->expr = expression_from_symint(c->s, c->mem, e, capture_symbol_tree, c);
  else if (p->is_shown)
    to->expr = expression_integer(c->s, c->mem, e->k);
}

void capture_finish_values(capture *c)
{
  for (uint32_t i = 0; i < c->n_pending; i++) {
    session_poll(c->s);
    finish_value(c, &c->pending[i]);
  }
}

void capture_finish_numbers(capture *c)
{
  capture_finish_values(c);
  capture_finish_guards(c);
  capture_finish_ranges(c);
}
