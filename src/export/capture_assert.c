/* export/capture_assert.c -- where a program of live torch code has the sizes of its inputs and
 * the assertions on numbers that depend on data.
 *
 * torch.export numbers the nodes of numbers as the code runs, and decides only afterwards which of
 * them stay: conditions that the code states are kept apart (capture_defer), and one walk over the
 * finished graph
 *
 *   - asks the inputs for the sizes that are symbols, behind the placeholders;
 *   - checks the range of each number that depends on data behind the node that makes it, and then
 *     the conditions whose last symbol it is;
 *   - makes nodes of equal numbers one node, and computes sizes of results from those of inputs;
 *   - drops sizes that nothing uses.
 *
 * Node names come out of the same walk, so it makes what it drops, too.  Equal is what prints the
 * same.  Conditions are kept without common terms, as a <= b or a < b.  Linear in the graph, but
 * for the conditions. */
#include "export/capture_int.h"

#include "base/grow.h"
#include "formats/json.h"
#include "ops/table/op_keys.h"

/* -- Conditions -------------------------------------------------------------------------------- */

static const expression *relation_of(capture *c, expression_kind kind, symint a, symint b)
{
  const expression *const sides[] = {capture_expression(c, a), capture_expression(c, b)};

  return expression_call(c->s, c->mem, kind, 2, sides);
}

static int64_t common_divisor(symint e)
{
  int64_t g = e->k < 0 ? -e->k : e->k;

  for (uint32_t i = 0; i < e->n_terms; i++)
    for (int64_t a = e->terms[i].coef; a;) {
      const int64_t rest = g % a;
      g = a < 0 ? -a : a;
      a = rest;
    }
  return g ? g : 1;
}

static symint one_term(capture *c, const sym_term *t, int64_t coef)
{
  symint e = sym_const(c->env, coef);

  for (uint32_t i = 0; i < t->degree; i++)
    e = sym_mul(c->env, e, sym_of_atom(c->env, t->atoms[i]));
  return e;
}

/* Return 0 `kind` e as a relation of what is added on both sides. */
static const expression *split(capture *c, expression_kind kind, symint e)
{
  const int64_t divisor = common_divisor(e), k = e->k / divisor;
  symint left = sym_const(c->env, k < 0 ? -k : 0), right = sym_const(c->env, k > 0 ? k : 0);

  for (uint32_t i = 0; i < e->n_terms; i++) {
    const int64_t coef = e->terms[i].coef / divisor;
    if (coef < 0)
      left = sym_add(c->env, left, one_term(c, &e->terms[i], -coef));
    else
      right = sym_add(c->env, right, one_term(c, &e->terms[i], coef));
  }
  return relation_of(c, kind, left, right);
}

/* Return a relation of floats as one of < and <=; 0.0 is 0, as sympy has it. */
static const expression *of_floats(capture *c, const expression *e)
{
  const bool is_turned = e->kind == EXPRESSION_GT || e->kind == EXPRESSION_GE;
  const expression *sides[2];

  if (e->n_args != 2 || e->kind < EXPRESSION_EQ || e->kind > EXPRESSION_GE)
    return e;
  for (int i = 0; i < 2; i++) {
    const expression *side = e->args[is_turned ? 1 - i : i];
    const bool is_zero = side->kind == EXPRESSION_FLOAT && side->d == 0;
    sides[i] = is_zero ? expression_integer(c->s, c->mem, 0) : side;
  }
  return expression_call(c->s, c->mem,
                         e->kind == EXPRESSION_GT   ? EXPRESSION_LT
                         : e->kind == EXPRESSION_GE ? EXPRESSION_LE
                                                    : e->kind,
                         2, sides);
}

/* Return two conditions as one; those of the same kind become its parts. */
static const expression *joined(capture *c, expression_kind kind, const expression *const *both)
{
  const expression *parts[64];
  uint32_t n = 0;

  for (int i = 0; i < 2; i++) {
    const bool is_same = both[i]->kind == kind && n + both[i]->n_args < COUNT_OF(parts);
    const expression *const *items = is_same ? both[i]->args : &both[i];
    for (uint32_t k = 0; k < (is_same ? both[i]->n_args : 1); k++)
      parts[n++] = items[k];
  }
  return expression_call(c->s, c->mem, kind, n, parts);
}

const expression *capture_canonical(capture *c, const capture_number *n)
{
  sym_env *env = c->env;
  const expression *parts[2];

  switch (n->relation) {
  case OPN_EQ:
    return split(c, EXPRESSION_EQ, sym_sub(env, n->b, n->a));
  case OPN_NE:
    return split(c, EXPRESSION_NE, sym_sub(env, n->b, n->a));
  case OPN_LT:
    return split(c, EXPRESSION_LT, sym_sub(env, n->b, n->a));
  case OPN_LE:
    return split(c, EXPRESSION_LE, sym_sub(env, n->b, n->a));
  case OPN_GT:
    return split(c, EXPRESSION_LT, sym_sub(env, n->a, n->b));
  case OPN_GE:
    return split(c, EXPRESSION_LE, sym_sub(env, n->a, n->b));
  default:
    break;
  }
  if (n->joins != '&' && n->joins != '|')
    return of_floats(c, n->expr);
  session_enter(c->s);
  for (int i = 0; i < 2; i++)
    parts[i] = capture_canonical(c, capture_number_of(n->parts[i]));
  session_leave(c->s);
  return joined(c, n->joins == '&' ? EXPRESSION_AND : EXPRESSION_OR, parts);
}

/* Return the number of a symbol that depends on data, u3 or zuf3; -1: of none. */
static int64_t data_number(const expression *symbol)
{
  const str name = symbol->name;
  size_t at = name.len && name.p[0] == 'u' ? 1 : name.len > 3 && name.p[0] == 'z' ? 3 : name.len;
  int64_t n = at < name.len ? 0 : -1;

  for (; at < name.len && n >= 0; at++)
    n = name.p[at] >= '0' && name.p[at] <= '9' && n < INT32_MAX ? n * 10 + (name.p[at] - '0') : -1;
  return n;
}

typedef struct last_symbol {
  const expression *symbol; /* or NULL */
  int64_t number;
} last_symbol;

static void note_last(void *arg, const expression *symbol)
{
  last_symbol *last = arg;
  const int64_t n = data_number(symbol);

  if (n > last->number)
    *last = (last_symbol){symbol, n};
}

void capture_defer(capture *c, const expression *condition)
{
  last_symbol last = {NULL, -1};

  expression_symbols(c->s, condition, note_last, &last);
  GROW(c->s, c->deferred, c->n_deferred, c->cap_deferred, 8);
  c->deferred[c->n_deferred++] = (capture_deferred){
    .condition = condition, .symbol = last.symbol ? capture_str(c, last.symbol->name) : NULL};
}

/* -- What is known at the end ------------------------------------------------------------------ */

static bool is_relation(expression_kind kind)
{
  return kind >= EXPRESSION_EQ && kind <= EXPRESSION_GE;
}

static symint symbol_named(void *arg, const expression *symbol)
{
  const capture *c = arg;

  for (uint32_t i = 0; i < c->n_symbols; i++)
    if (c->symbols[i].atom && c->symbols[i].expr->kind == EXPRESSION_SYMBOL &&
        str_eq(c->symbols[i].expr->name, symbol->name))
      return sym_of_atom(c->env, (sym_atom *)(uintptr_t)c->symbols[i].atom);
  return NULL;
}

/* Return a number after all that was decided; NULL: it has no normal form. */
static symint present_int(capture *c, const expression *e)
{
  const symint i = expression_to_symint(c->env, e, symbol_named, c);

  return i ? sym_simplify(c->env, i) : NULL;
}

/* Return 1 or 0 for a relation that holds always or never by its sides alone, as sympy finds; -1:
 * it depends. */
static int evaluated(capture *c, const expression *e, symint a, symint b)
{
  const symint d = sym_sub(c->env, a, b);
  const bool is_symbol = a->n_terms == 1 && a->k == 0 && a->terms[0].degree == 1 &&
                         a->terms[0].coef == 1 && a->terms[0].atoms[0]->kind == SYM_SYMBOL;

  if (!sym_is_const(d)) {
    const bool is_positive = is_symbol && a->terms[0].atoms[0]->backed && sym_is_const(b) &&
                             b->k <= 0 &&
                             (e->kind == EXPRESSION_GE || (e->kind == EXPRESSION_GT));
    return is_positive ? 1 : -1;
  }
  switch (e->kind) {
  case EXPRESSION_EQ:
    return d->k == 0;
  case EXPRESSION_NE:
    return d->k != 0;
  case EXPRESSION_LT:
    return d->k < 0;
  case EXPRESSION_LE:
    return d->k <= 0;
  case EXPRESSION_GT:
    return d->k > 0;
  default:
    return d->k >= 0;
  }
}

/* Return what remains of `and` or `or`: True & x is x. */
static const expression *present_parts(capture *c, const expression *e)
{
  const expression **parts = session_array(c->s, const expression *, e->n_args);
  const expression_kind dropped = e->kind == EXPRESSION_AND ? EXPRESSION_TRUE : EXPRESSION_FALSE;
  uint32_t n = 0;

  session_enter(c->s);
  for (uint32_t i = 0; i < e->n_args; i++) {
    const expression *part = capture_present(c, e->args[i]);
    if (part->kind != dropped)
      parts[n++] = part;
  }
  session_leave(c->s);
  return n == 0   ? expression_boolean(c->s, c->mem, e->kind == EXPRESSION_AND)
         : n == 1 ? parts[0]
                  : expression_call(c->s, c->mem, e->kind, n, parts);
}

const expression *capture_present(capture *c, const expression *e)
{
  const symint i = is_relation(e->kind) ? NULL : present_int(c, e);

  if (i)
    return capture_expression(c, i);
  if (is_relation(e->kind)) {
    const symint a = present_int(c, e->args[0]), b = present_int(c, e->args[1]);
    const int known = a && b ? evaluated(c, e, a, b) : -1;
    return known >= 0 ? expression_boolean(c->s, c->mem, known)
           : a && b   ? relation_of(c, e->kind, a, b)
                      : e;
  }
  return e->kind == EXPRESSION_AND || e->kind == EXPRESSION_OR ? present_parts(c, e) : e;
}

/* -- The walk ---------------------------------------------------------------------------------- */

typedef struct placing {
  capture *c;
  fx_node *before;   /* new nodes come before it */
  const fx_node *of; /* the node that they are for: its module is theirs */
  table nodes;       /* text of an expression -> the node that has it */
  table added;       /* text of a condition -> itself: it is checked */
  table checked;     /* name of a symbol -> itself: its range is checked */
  table replaced;    /* node -> the node that is used for it */
  bool has_hints;    /* all symbols of an expression have: note_unhinted */
} placing;

static str expression_text(capture *c, const expression *e)
{
  text_buf *out = session_text(c->s);

  expression_print(c->s, out, e);
  return str_of(session_take_text(c->s, out));
}

static fx_node *node_with(placing *p, const expression *e)
{
  return table_get(&p->nodes, expression_text(p->c, e));
}

static void set_node(placing *p, const expression *e, fx_node *n)
{
  session_table_put(p->c->s, &p->nodes, expression_text(p->c, e), n);
}

/* Return the metadata of a node that this pass adds. */
static str metadata_for(placing *p)
{
  capture *c = p->c;
  text_buf *out = session_text(c->s);
  const str modules = p->of ? fx_node_metadata(c->s, p->of, "nn_module_stack") : STR("");

  text_puts(out, "{\"stack_trace\": \"File \\\"torch/fx/passes/runtime_assert.py\\\", line 24, in "
                 "insert_deferred_runtime_asserts\"");
  if (modules.len) {
    text_puts(out, ", \"nn_module_stack\": ");
    json_quote(out, modules);
  }
  text_putc(out, '}');
  return str_of(capture_text(c, session_take_text(c->s, out)));
}

static fx_node *place_node(placing *p, const char *target, const char *name, const fx_arg *args,
                         uint32_t n)
{
  fx_node *made = name ? capture_named_node(p->c, target, name, args, n)
                       : capture_node(p->c, target, args, n);

  made->metadata = metadata_for(p);
  fx_node_move_before(made, p->before);
  return made;
}

static void note_unhinted(void *arg, const expression *symbol)
{
  placing *p = arg;
  const symint i = symbol_named(p->c, symbol);
  int64_t hint;

  p->has_hints &= i && sym_hint(i, &hint);
}

static bool hint_of(void *arg, const expression *symbol, rush_value *value)
{
  const symint i = symbol_named(arg, symbol);
  int64_t hint;

  if (!i || !sym_hint(i, &hint))
    return false;
  *value = value_int(hint);
  return true;
}

/* Describe a number that is e. */
static void set_val(placing *p, fx_node *n, const expression *e)
{
  capture *c = p->c;
  fx_number *number = session_alloc_in(c->s, c->mem, sizeof *number);
  fx_val *v = session_alloc_in(c->s, c->mem, sizeof *v);
  const expression *now = capture_present(c, e);
  const bool is_bool = is_relation(e->kind) || (e->kind >= EXPRESSION_AND &&
                                                e->kind <= EXPRESSION_NOT);
  call_ctx *cx = c->s->cx;
  rush_value hint = value_none();

  *number = (fx_number){.expr = now};
  p->has_hints = true;
  expression_symbols(c->s, now, note_unhinted, p);
  number->has_value =
    p->has_hints && expression_evaluate(cx, now, hint_of, c, &hint) == RUSH_OK;
  if (number->has_value && hint.tag == RUSH_TAG_INT)
    number->value.i = hint.as.i;
  else if (number->has_value && hint.tag == RUSH_TAG_BOOL)
    number->value.b = hint.as.b;
  else if (number->has_value)
    number->value.f = hint.as.d;
  *v = (fx_val){.kind = is_bool ? FX_VAL_BOOL
                        : e->kind == EXPRESSION_TO_FLOAT || e->kind == EXPRESSION_INT_TRUE_DIV ||
                            e->kind == EXPRESSION_FLOAT_TRUE_DIV
                          ? FX_VAL_FLOAT
                          : FX_VAL_INT,
                .as.number = number};
  n->val = v;
}

/* -- Expressions as nodes ---------------------------------------------------------------------- */

static const struct {
  expression_kind kind;
  const char *target;
} functions[] = {{EXPRESSION_ADD, "_operator.add"},
                 {EXPRESSION_MUL, "_operator.mul"},
                 {EXPRESSION_POW, "_operator.pow"},
                 {EXPRESSION_FLOOR_DIV, "_operator.floordiv"},
                 {EXPRESSION_MOD, "_operator.mod"},
                 {EXPRESSION_PYTHON_MOD, "_operator.mod"},
                 {EXPRESSION_MIN, "torch.sym_min"},
                 {EXPRESSION_MAX, "torch.sym_max"},
                 {EXPRESSION_EQ, "_operator.eq"},
                 {EXPRESSION_NE, "_operator.ne"},
                 {EXPRESSION_LT, "_operator.lt"},
                 {EXPRESSION_LE, "_operator.le"},
                 {EXPRESSION_GT, "_operator.gt"},
                 {EXPRESSION_GE, "_operator.ge"},
                 {EXPRESSION_AND, "_operator.and_"},
                 {EXPRESSION_OR, "_operator.or_"},
                 {EXPRESSION_NOT, "torch.sym_not"},
                 {EXPRESSION_TO_FLOAT, "torch.sym_float"},
                 {EXPRESSION_TRUNC_TO_INT, "math.trunc"},
                 {EXPRESSION_INT_TRUE_DIV, "_operator.truediv"},
                 {EXPRESSION_FLOAT_TRUE_DIV, "_operator.truediv"}};

static const char *function_of(expression_kind kind)
{
  for (size_t i = 0; i < COUNT_OF(functions); i++)
    if (functions[i].kind == kind)
      return functions[i].target;
  return NULL;
}

/* True if nodes can compute e from symbols that have nodes, or from itself. */
static bool is_computable(placing *p, const expression *e)
{
  bool is = true;

  if (expression_is_integer(e) || e->kind == EXPRESSION_FLOAT)
    return true;
  if (node_with(p, e))
    return true;
  if (!e->n_args || !function_of(e->kind))
    return false;
  session_enter(p->c->s);
  for (uint32_t i = 0; i < e->n_args && is; i++)
    is = is_computable(p, e->args[i]);
  session_leave(p->c->s);
  return is;
}

/* Return the relation that Python computes for a number and a node: 0 < n is n > 0. */
static expression_kind turned(expression_kind kind)
{
  switch (kind) {
  case EXPRESSION_LT:
    return EXPRESSION_GT;
  case EXPRESSION_LE:
    return EXPRESSION_GE;
  case EXPRESSION_GT:
    return EXPRESSION_LT;
  case EXPRESSION_GE:
    return EXPRESSION_LE;
  default:
    return kind;
  }
}

static fx_arg interpret(placing *p, const expression *e);

/* Make the node of e, kind(args): of a relation with a number first, turned round. */
static fx_node *function_node(placing *p, const expression *e, const fx_arg *args, uint32_t n)
{
  const bool is_turned =
    is_relation(e->kind) && args[0].kind != FX_NODE && args[1].kind == FX_NODE;
  const fx_arg swapped[] = {args[n - 1], args[0]};
  const expression *const sides[] = {e->args[n - 1], e->args[0]};

  if (is_turned)
    e = expression_call(p->c->s, p->c->mem, turned(e->kind), 2, sides);
  fx_node *made = place_node(p, function_of(e->kind), NULL, is_turned ? swapped : args, n);
  if (e->kind == EXPRESSION_AND || e->kind == EXPRESSION_OR) { /* of what the nodes are */
    const expression *const parts[] = {args[0].as.node->val->as.number->expr,
                                       args[1].as.node->val->as.number->expr};
    e = joined(p->c, e->kind, parts);
  }
  set_val(p, made, e);
  return made;
}

/* a != b is not (a == b). */
static fx_node *unequal_node(placing *p, const expression *e, const fx_arg *args)
{
  const expression *equal = expression_call(p->c->s, p->c->mem, EXPRESSION_EQ, 2, e->args);
  const fx_arg arg = fx_arg_node(function_node(p, equal, args, 2));
  fx_node *n = place_node(p, "torch.sym_not", NULL, &arg, 1);

  set_val(p, n, e);
  return n;
}

/* Return the node or number of a computable expression, whose arguments are in sympy's order. */
static fx_arg interpret(placing *p, const expression *e)
{
  capture *c = p->c;
  fx_node *n = e->n_args || e->kind == EXPRESSION_SYMBOL ? node_with(p, e) : NULL;

  if (n)
    return fx_arg_node(n);
  if (e->kind == EXPRESSION_FLOAT)
    return (fx_arg){.kind = FX_FLOAT, .as.f = e->d};
  if (!e->n_args)
    return fx_arg_int(e->p);
  fx_arg *args = session_array(c->s, fx_arg, e->n_args);
  session_enter(c->s);
  for (uint32_t i = 0; i < e->n_args; i++)
    args[i] = interpret(p, e->args[i]);
  session_leave(c->s);
  if (e->kind == EXPRESSION_NE)
    n = unequal_node(p, e, args);
  else if (e->n_args <= 2)
    n = function_node(p, e, args, e->n_args);
  for (uint32_t i = 1; i < e->n_args && e->n_args > 2; i++) { /* a sum: of two at a time */
    const fx_arg two[] = {i == 1 ? args[0] : fx_arg_node(n), args[i]};
    n = function_node(p, expression_call(c->s, c->mem, e->kind, i + 1, e->args), two, 2);
  }
  set_node(p, e, n);
  return fx_arg_node(n);
}

static fx_node *node_for(placing *p, const expression *e)
{
  return interpret(p, expression_kept(p->c->s, e)).as.node;
}

/* -- Assertions -------------------------------------------------------------------------------- */

static void add_assertion(placing *p, const expression *condition)
{
  capture *c = p->c;
  const str text = expression_text(c, condition);

  if (table_get(&p->added, text))
    return;
  session_table_put(c->s, &p->added, text, (void *)(uintptr_t)condition);
  fx_node *n = node_for(p, condition);
  const char *message =
    capture_text(c, session_printf(c->s, "Runtime assertion failed for expression %s on node '%s'",
                                   text.p, n->name));
  const fx_arg args[] = {
    fx_arg_node(n), {.kind = FX_STRING, .n = (uint32_t)strlen(message), .as.text = message}};
  place_node(p, "torch.ops.aten._assert_scalar.default", "_assert_scalar_default", args, 2)
    ->returns_none = true;
}

static bool is_before(str a, str b)
{
  const int c = memcmp(a.p, b.p, a.len < b.len ? a.len : b.len);

  return c < 0 || (c == 0 && a.len < b.len);
}

typedef struct missing { /* of a condition's symbols those that have no node */
  placing *p;
  str name; /* the first by name; empty: there is none */
} missing;

static void note_missing(void *arg, const expression *symbol)
{
  missing *m = arg;

  if (!node_with(m->p, symbol) && (!m->name.len || is_before(symbol->name, m->name)))
    m->name = symbol->name;
}

/* True for u0 >= 2 and 2 <= u0, of a symbol whose range is checked. */
static bool is_bound(placing *p, const expression *e)
{
  if (e->kind != EXPRESSION_LE && e->kind != EXPRESSION_GE)
    return false;
  const bool is_first = e->args[0]->kind == EXPRESSION_SYMBOL;
  const expression *symbol = e->args[is_first ? 0 : 1], *other = e->args[is_first ? 1 : 0];

  return symbol->kind == EXPRESSION_SYMBOL && other->kind == EXPRESSION_NUMBER &&
         table_get(&p->checked, symbol->name);
}

/* Check what was deferred to a symbol (NULL: to none); what needs one that comes later waits. */
static void place_deferred(placing *p, const char *symbol)
{
  capture *c = p->c;
  const uint32_t n = c->n_deferred;

  for (uint32_t i = 0; i < n; i++) {
    const capture_deferred d = c->deferred[i];
    missing m = {.p = p};
    if (d.is_placed || (symbol ? !d.symbol || strcmp(symbol, d.symbol) != 0 : d.symbol != NULL))
      continue;
    c->deferred[i].is_placed = true;
    if (is_bound(p, d.condition))
      continue;
    expression_symbols(c->s, d.condition, note_missing, &m);
    if (!m.name.len && is_computable(p, expression_kept(c->s, d.condition))) {
      add_assertion(p, d.condition);
    } else if (m.name.len) {
      GROW(c->s, c->deferred, c->n_deferred, c->cap_deferred, 8);
      c->deferred[c->n_deferred++] =
        (capture_deferred){.condition = d.condition, .symbol = capture_str(c, m.name)};
    }
  }
}

static const expression *bound(capture *c, expression_kind kind, const expression *symbol, int64_t k)
{
  const expression *const sides[] = {symbol, expression_integer(c->s, c->mem, k)};

  return expression_call(c->s, c->mem, kind, 2, sides);
}

/* Check the range of a number that depends on data, and what was deferred to it. */
static void place_symbol(placing *p, const capture_symbol *y)
{
  capture *c = p->c;
  const expression *symbol = y->expr;
  int64_t lo, hi;

  if (table_get(&p->checked, symbol->name))
    return;
  capture_range_of(c, y, &lo, &hi);
  if (lo != SYM_NEG_INF)
    add_assertion(p, bound(c, EXPRESSION_GE, symbol, lo));
  if (hi < SYM_INF - 1)
    add_assertion(p, bound(c, EXPRESSION_LE, symbol, hi));
  session_table_put(c->s, &p->checked, symbol->name, (void *)(uintptr_t)symbol);
  place_deferred(p, capture_str(c, symbol->name));
}

/* -- Nodes of the graph ------------------------------------------------------------------------ */

static bool is_symbolic(const fx_val *v)
{
  return v && (v->kind == FX_VAL_INT || v->kind == FX_VAL_FLOAT || v->kind == FX_VAL_BOOL) &&
         v->as.number->expr;
}

/* Ask an input for a size or stride that is a symbol without a node. */
static void place_size(placing *p, fx_node *input, const char *target, int dim, const fx_number *n)
{
  const fx_arg args[] = {fx_arg_node(input), fx_arg_int(dim)};

  if (!n->expr || n->expr->kind != EXPRESSION_SYMBOL || node_with(p, n->expr))
    return;
  fx_node *made = place_node(p, target, NULL, args, 2);
  set_val(p, made, n->expr);
  set_node(p, n->expr, made);
}

static void place_input(placing *p, fx_node *n)
{
  p->of = NULL;
  if (is_symbolic(n->val) && n->val->as.number->expr->kind == EXPRESSION_SYMBOL &&
      !node_with(p, n->val->as.number->expr))
    set_node(p, n->val->as.number->expr, n);
  if (!n->val || n->val->kind != FX_VAL_TENSOR)
    return;
  const fx_tensor *t = n->val->as.tensor;
  for (uint32_t i = 0; i < t->n_dims; i++)
    place_size(p, n, "torch.ops.aten.sym_size.int", (int)i, &t->sizes[i]);
  for (uint32_t i = 0; i < t->n_strides; i++)
    place_size(p, n, "torch.ops.aten.sym_stride.int", (int)i, &t->strides[i]);
}

/* True for a question about a tensor that the code has made. */
static bool asks_result(const fx_node *n)
{
  const fx_node *of = n->n_args && n->args[0].kind == FX_NODE ? n->args[0].as.node : NULL;

  return of && of->op != FX_PLACEHOLDER && of->val && of->val->kind == FX_VAL_TENSOR;
}

static void use_instead(placing *p, fx_node *n, fx_node *with)
{
  session_table_put(p->c->s, &p->replaced, address_key(n), with);
  fx_node_unlink(n);
}

/* Use the node that has this number already, or let this one be it. */
static void place_number(placing *p, fx_node *n)
{
  capture *c = p->c;
  const expression *e = n->val->as.number->expr;
  fx_node *other;
  const bool is_known = !e->n_args && e->kind != EXPRESSION_SYMBOL;

  for (uint32_t i = 0; i < c->n_symbols; i++)
    if (c->symbols[i].source == n && c->symbols[i].at < 0 && !c->symbols[i].dim) {
      if (c->symbols[i].expr->kind == EXPRESSION_SYMBOL && !node_with(p, c->symbols[i].expr) &&
          n->val->kind != FX_VAL_BOOL)
        set_node(p, c->symbols[i].expr, n); /* a number that the node makes */
      if (!is_known && !node_with(p, e))
        set_node(p, e, n);
      return;
    }
  other = is_known ? NULL : node_with(p, e);
  if (!other && !is_known && asks_result(n) && is_computable(p, expression_kept(c->s, e)))
    other = node_for(p, e);
  if (other)
    use_instead(p, n, other);
  else if (!is_known)
    set_node(p, e, n);
}

/* Return the node that has a symbol as a number, where `maker` makes it. */
static fx_node *binding(placing *p, fx_node *maker, const capture_symbol *y)
{
  capture *c = p->c;
  fx_node *of = y->source;

  if (of != maker) { /* an item of several results: it is asked for here, once */
    fx_node *item = place_node(p, "_operator.getitem", NULL, of->args, of->n_args);
    item->val = of->val;
    for (uint32_t i = 0; i < c->n_symbols; i++)
      if (c->symbols[i].source == of)
        c->symbols[i].source = item;
    session_table_put(c->s, &p->replaced, address_key(of), item);
    of = item;
  }
  if (y->at < 0)
    return of;
  const fx_arg args[] = {fx_arg_node(of), fx_arg_int(y->at)};
  fx_node *n = place_node(p, "torch.ops.aten.sym_size.int", NULL, args, 2);
  set_val(p, n, y->expr);
  return n;
}

/* Return the number 1 or 0 of a bool. */
static fx_node *as_number(placing *p, fx_node *n, const expression *symbol)
{
  capture *c = p->c;
  const expression *const one = expression_integer(c->s, c->mem, 1),
                   *const none = expression_integer(c->s, c->mem, 0);
  const expression *const sides[] = {symbol, one};
  const expression *const yes[] = {one, expression_call(c->s, c->mem, EXPRESSION_EQ, 2, sides)};
  const expression *const no[] = {none, expression_boolean(c->s, c->mem, true)};
  const expression *const pairs[] = {expression_call(c->s, c->mem, EXPRESSION_PAIR, 2, yes),
                                     expression_call(c->s, c->mem, EXPRESSION_PAIR, 2, no)};
  const fx_arg args[] = {fx_arg_node(n), fx_arg_int(1), fx_arg_int(0)};

  n = place_node(p, "torch.sym_ite", "sym_ite", args, 3);
  set_val(p, n, expression_call(c->s, c->mem, EXPRESSION_PIECEWISE, 2, pairs));
  return n;
}

/* True if `maker` makes the symbol's tensor or number: itself, or among several results. */
static bool makes(const fx_node *maker, const capture_symbol *y)
{
  const fx_node *of = y->source;
  const bool is_item = of && strcmp(of->target, "_operator.getitem") == 0 && of->n_args &&
                       of->args[0].kind == FX_NODE;

  return of && !y->dim && y->expr->kind == EXPRESSION_SYMBOL &&
         (of == maker || (is_item && of->args[0].as.node == maker));
}

/* Place what belongs to the numbers that depend on data and that a node makes. */
static void place_bindings(placing *p, fx_node *maker)
{
  capture *c = p->c;

  p->of = maker;
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (!makes(maker, y) || node_with(p, y->expr))
      continue;
    fx_node *n = binding(p, maker, y);
    if (n->val && n->val->kind == FX_VAL_BOOL)
      n = as_number(p, n, y->expr);
    set_node(p, y->expr, n);
  }
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (y->source && !y->dim && y->expr->kind == EXPRESSION_SYMBOL &&
        (makes(maker, y) || y->source == maker))
      place_symbol(p, y);
  }
}

/* -- Uses -------------------------------------------------------------------------------------- */

static fx_node *latest(placing *p, fx_node *n)
{
  fx_node *other;

  while ((other = table_get(&p->replaced, address_key(n))) != NULL)
    n = other;
  return n;
}

static fx_arg renewed(placing *p, const fx_arg *a)
{
  session *s = p->c->s;
  fx_arg out = *a;

  if (a->kind == FX_NODE)
    return fx_arg_node(latest(p, a->as.node));
  if (a->kind == FX_LIST || a->kind == FX_TUPLE) {
    session_enter(s);
    fx_arg *items = session_alloc_in(s, p->c->mem, ((size_t)a->n + 1) * sizeof *items);
    for (uint32_t i = 0; i < a->n; i++)
      items[i] = renewed(p, &a->as.items[i]);
    out.as.items = items;
    session_leave(s);
  } else if (a->kind == FX_DICT) {
    session_enter(s);
    fx_named *items = session_alloc_in(s, p->c->mem, ((size_t)a->n + 1) * sizeof *items);
    for (uint32_t i = 0; i < a->n; i++)
      items[i] = (fx_named){a->as.named[i].name, renewed(p, &a->as.named[i].arg)};
    out.as.named = items;
    session_leave(s);
  }
  return out;
}

static void renew_uses(placing *p, fx_node *n)
{
  capture *c = p->c;
  fx_arg *args = session_alloc_in(c->s, c->mem, ((size_t)n->n_args + 1) * sizeof *args);
  fx_named *kwargs = session_alloc_in(c->s, c->mem, ((size_t)n->n_kwargs + 1) * sizeof *kwargs);

  for (uint32_t i = 0; i < n->n_args; i++)
    args[i] = renewed(p, &n->args[i]);
  for (uint32_t i = 0; i < n->n_kwargs; i++)
    kwargs[i] = (fx_named){n->kwargs[i].name, renewed(p, &n->kwargs[i].arg)};
  n->args = args;
  n->kwargs = kwargs;
}

/* Name the values of a call whose structure is kept anew; names: old name -> node. */
static void rename_values(const table *names, exported_arg *args, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const fx_node *node = args[i].name ? table_get(names, str_of(args[i].name)) : NULL;
    args[i].name = node ? node->name : args[i].name;
  }
}

/* Name what is returned, and what calls of kept modules take and return, anew. */
static void renew_names(placing *p)
{
  capture *c = p->c;
  const fx_arg *returned = c->p->graph->last->args;
  table *names = session_new(c->s, table);

  for (uint32_t i = 0; i < c->n_outputs; i++)
    if (returned->as.items[i].kind == FX_NODE)
      c->outputs[i].arg.name = returned->as.items[i].as.node->name;
  session_table_init(c->s, names);
  for (uint32_t i = 0; i < p->replaced.n; i++) {
    fx_node *old = (fx_node *)(uintptr_t)p->replaced.entries[i].key.p;
    session_table_put(c->s, names, str_of(old->name), latest(p, old));
  }
  for (uint32_t i = 0; i < c->kept.n; i++) {
    exported_call_entry *e = c->kept.entries[i].value;
    rename_values(names, e->inputs, e->n_inputs);
    rename_values(names, e->outputs, e->n_outputs);
  }
}

/* Remove sizes and numbers of data that nothing uses. */
static void drop_unused(placing *p)
{
  capture *c = p->c;

  fx_graph_count_users(c->s, c->p->graph);
  for (uint32_t i = 0; i < p->nodes.n; i++) {
    fx_node *n = p->nodes.entries[i].value;
    const expression symbol = {.name = p->nodes.entries[i].key};
    if (n->op != FX_PLACEHOLDER && !n->n_users &&
        (symbol_named(c, &symbol) || data_number(&symbol) >= 0))
      fx_node_unlink(n);
  }
}

void capture_place_checks(capture *c)
{
  fx_graph *g = c->p->graph;
  placing *p = session_new(c->s, placing);
  fx_node **nodes = session_array(c->s, fx_node *, (size_t)g->n_nodes + 1), *first;
  uint32_t n = 0;

  *p = (placing){.c = c};
  session_table_init(c->s, &p->nodes);
  session_table_init(c->s, &p->added);
  session_table_init(c->s, &p->checked);
  session_table_init(c->s, &p->replaced);
  for (first = g->first; first && first->op == FX_PLACEHOLDER; first = first->next)
    ;
  for (fx_node *x = g->first; x; x = x->next)
    nodes[n++] = x;
  for (uint32_t i = 0; i + 1 < n; i++) {
    session_poll(c->s);
    p->before = nodes[i]->op == FX_PLACEHOLDER ? first : nodes[i + 1];
    if (table_get(&p->replaced, address_key(nodes[i]))) { /* an item that its maker has now */
      fx_node_unlink(nodes[i]);
      continue;
    }
    if (nodes[i]->op == FX_PLACEHOLDER)
      place_input(p, nodes[i]);
    if (nodes[i] == first)
      place_deferred(p, NULL);
    p->of = nodes[i];
    if (nodes[i]->op != FX_PLACEHOLDER && is_symbolic(nodes[i]->val))
      place_number(p, nodes[i]);
    place_bindings(p, nodes[i]);
  }
  for (fx_node *x = g->first; x; x = x->next)
    renew_uses(p, x);
  renew_names(p);
  drop_unused(p);
}
