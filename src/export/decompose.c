/* export/decompose.c -- exported programs over fewer operators: see decompose.h.
 *
 * A node is either copied, with arguments in their new places, or evaluated by the recorder of
 * captures (capture_int.h), whose nodes get the metadata of the one that they come from.  A copied
 * node's result is what the program says of it (`val`); no shape rule is asked, so that operators
 * that are not known here are copied, too.
 *
 * Sizes: each symbol of the program is a symbol of the capture, of the same name, range and hint;
 * an expression that has no normal form is a symbol of its own. */
#include "export/decompose.h"

#include <stdlib.h>

#include "base/grow.h"
#include "export/capture_int.h"
#include "export/lower.h"
#include "ops/call/lookup.h"
#include "ops/call/shape.h"
#include "ops/table/op_keys.h"

typedef struct decomposed_items {
  const rush_value *items;
  uint32_t n;
} decomposed_items;

typedef struct decomposed_graph { /* a graph being decomposed */
  const fx_graph *from;
  rush_value *values;  /* of each node of `from` that was evaluated; unset: none */
  fx_node **nodes;     /* the copies of the others */
  decomposed_items *items; /* of evaluated nodes that have several results */
  bool is_region;          /* its nodes go into the graph around it */
  table regions;           /* of gradient modes: see find_regions */
} decomposed_graph;

typedef struct decomposition {
  capture *c;
  const exported_program *from;
  decomposed_graph *at;
  const fx_node *node; /* being decomposed */
  bool has_writes;     /* the program has in-place operators */
  bool has_sparse;     /* and inputs that are not strided */
  decomposed_graph *outermost;
  table symbols;       /* name, or text of an expression -> symint */
  table hints;         /* name of a symbol -> fx_number */
  table bounds;        /* text of an expression -> exported_bounds */
  uint32_t n_assumed; /* guards that are the program's own, or were looked at */
} decomposition;

/* One text each, "\naten::a\naten::b\n": an array of pointers would cost a relocation for each. */
static const char operators_of_the_table[] = "\n"
#define DECOMPOSED(name) name "\n"
#define DECOMPOSED_ALWAYS(name)
#include "export/decomposed.def"
#undef DECOMPOSED
#undef DECOMPOSED_ALWAYS
  ;
static const char operators_always_decomposed[] = "\n"
#define DECOMPOSED(name)
#define DECOMPOSED_ALWAYS(name) name "\n"
#include "export/decomposed.def"
#undef DECOMPOSED
#undef DECOMPOSED_ALWAYS
  ;

const char *decompose_operators(void) { return operators_of_the_table; }

bool capture_decomposes(capture *c, const op *o)
{
  const schema *sc = o->schema;
  const char *line =
    session_printf(c->s, "\n%s%s%s\n", sc->name, *sc->overload ? "." : "", sc->overload);

  if (strstr(operators_always_decomposed, line))
    return true;
  if (c->decomposed && !table_get(c->decomposed, (str){line + 1, strlen(line) - 2}))
    return false;
  return strstr(operators_of_the_table, line) != NULL;
}

/* Note the operators of a table in place of the default one. */
static void note_table(capture *c, const decompose_table *ops)
{
  c->decomposed = session_new(c->s, table);
  session_table_init(c->s, c->decomposed);
  for (size_t i = 0; i < ops->n_ops; i++)
    session_table_put(c->s, c->decomposed, str_of(ops->ops[i]), c);
}

/* -- Symbolic numbers -------------------------------------------------------------------------- */

static void note_hint(decomposition *d, const fx_number *n)
{
  const expression *e = n->expr;

  if (e && e->kind == EXPRESSION_SYMBOL && n->has_value && !table_get(&d->hints, e->name))
    session_table_put(d->c->s, &d->hints, e->name, (void *)(uintptr_t)n);
}

/* Note the hints of symbols in what is known of the program's inputs. */
static void note_hints(decomposition *d)
{
  for (const fx_node *n = d->from->graph->first; n; n = n->next) {
    if (n->op != FX_PLACEHOLDER || !n->val)
      continue;
    if (n->val->kind == FX_VAL_INT)
      note_hint(d, n->val->as.number);
    for (uint32_t i = 0; n->val->kind == FX_VAL_TENSOR && i < n->val->as.tensor->n_dims; i++)
      note_hint(d, &n->val->as.tensor->sizes[i]);
  }
}

static void note_bounds(decomposition *d)
{
  for (uint32_t i = 0; i < d->from->n_ranges; i++)
    if (!table_get(&d->bounds, d->from->ranges[i].text))
      session_table_put(d->c->s, &d->bounds, d->from->ranges[i].text,
                        (void *)(uintptr_t)&d->from->ranges[i]);
}

static bool has_writes(session *s, const fx_graph *g)
{
  bool found = false;

  session_enter(s);
  for (const fx_node *n = g->first; n && !found; n = n->next) {
    const op *o = n->op == FX_CALL_FUNCTION ? session_op_of_target(s, str_of(n->target)) : NULL;
    found = o && (schema_is_mutable(o->schema) || o->name_key == OPN_BATCH_NORM);
  }
  for (uint32_t i = 0; i < g->n_subgraphs && !found; i++)
    found = has_writes(s, g->subgraphs[i].graph);
  session_leave(s);
  return found;
}

/* True if an input is a tensor that is not strided; what comes of it may be one, too. */
static bool has_sparse(const fx_graph *g)
{
  for (const fx_node *n = g->first; n && n->op == FX_PLACEHOLDER; n = n->next)
    if (n->val && n->val->kind == FX_VAL_TENSOR && n->val->as.tensor->layout != 0)
      return true;
  return false;
}

static const exported_bounds *bounds_of(const decomposition *d, str name)
{
  return table_get(&d->bounds, name);
}

/* Make a symbol that prints as `e`, whose text is `name`. */
static symint symbol_new(decomposition *d, str name, const expression *e, const fx_number *hint)
{
  const exported_bounds *b = bounds_of(d, name);
  const int64_t lo = b && b->has_min ? b->min : SYM_NEG_INF,
                hi = b && b->has_max ? b->max : SYM_INF;
  sym_env *env = d->c->env;
  symint made;

  if (hint) { /* sizes of 0 and 1 follow, as PyTorch takes it */
    made = sym_new(env, hint->value.i, hint->value.i >= 2 && lo < 2 ? 2 : lo);
    made->terms[0].atoms[0]->hi = hi;
  } else {
    made = sym_fresh(env, lo, hi);
  }
  capture_symbol_as(d->c, made, e);
  session_table_put(d->c->s, &d->symbols, name, (void *)(uintptr_t)made);
  return made;
}

static symint symbol_named(void *arg, const expression *symbol)
{
  decomposition *d = arg;
  const symint known = table_get(&d->symbols, symbol->name);

  return known ? known : symbol_new(d, symbol->name, symbol, table_get(&d->hints, symbol->name));
}

static symint symint_of(decomposition *d, const fx_number *n)
{
  capture *c = d->c;

  if (!n->expr)
    return sym_const(c->env, n->value.i);
  const symint e = expression_to_symint(c->env, n->expr, symbol_named, d);
  if (e)
    return e;
  text_buf *out = session_text(c->s);
  expression_print(c->s, out, n->expr);
  const str text = str_of(session_take_text(c->s, out));
  const symint known = table_get(&d->symbols, text);
  return known ? known : symbol_new(d, text, n->expr, n->has_value ? n : NULL);
}

/* Where the number is a symbol that no node of this graph has yet: node n has it, as size `at`, or
 * (-1) it is the number. */
static void note_source(decomposition *d, symint e, fx_node *n, int at)
{
  const sym_term *t = e->n_terms == 1 && e->k == 0 ? &e->terms[0] : NULL;

  if (!t || t->coef != 1 || t->degree != 1 || t->atoms[0]->kind != SYM_SYMBOL)
    return;
  capture_symbol *y = capture_symbol_of(d->c, t->atoms[0]);
  if (y && !y->source) {
    y->source = n;
    y->at = at;
  }
}

/* -- Values ------------------------------------------------------------------------------------ */

static symshape_facts facts_of_val(decomposition *d, const fx_tensor *t)
{
  symshape_facts f = {.dtype = (int16_t)t->dtype, .n_dims = (int)t->n_dims, .alias = -1};

  if (t->n_dims > TENSOR_MAX_DIMS || t->n_strides != t->n_dims)
    capture_fail(d->c, "'%s' has no strides, or more dimensions than %d", d->node->name,
                 TENSOR_MAX_DIMS);
  f.sizes = session_array(d->c->s, symint, 2 * (size_t)t->n_dims + 1);
  f.strides = f.sizes + t->n_dims;
  for (uint32_t i = 0; i < t->n_dims; i++) {
    f.sizes[i] = symint_of(d, &t->sizes[i]);
    f.strides[i] = symint_of(d, &t->strides[i]);
  }
  f.offset = symint_of(d, &t->offset);
  return f;
}

static rush_value plain(decomposition *d, const fx_arg *a)
{
  rush_value v;

  if (!exported_plain(d->c->s, a, &v))
    capture_fail(d->c, "'%s' has an argument that is a dict or an object", d->node->name);
  return capture_hold(d->c, v);
}

/* Return what a new node's result is in the capture, by what is known of it. */
static rush_value value_of_val(decomposition *d, fx_node *n, const fx_val *v)
{
  capture *c = d->c;

  switch (v->kind) {
  case FX_VAL_TENSOR: {
    const symshape_facts f = facts_of_val(d, v->as.tensor);
    for (int i = 0; i < f.n_dims; i++)
      note_source(d, f.sizes[i], n, i);
    return capture_tensor_new(c, n, &f, v->as.tensor->requires_grad);
  }
  case FX_VAL_INT: {
    const symint e = symint_of(d, v->as.number);
    note_source(d, e, n, -1);
    if (!table_get(c->number_nodes, address_key(e)))
      session_table_put(c->s, c->number_nodes, address_key(e), n);
    return capture_int(c, e);
  }
  case FX_VAL_FLOAT:
  case FX_VAL_BOOL:
    return capture_number_by_node(c, v->kind, v->as.number->expr, n);
  case FX_VAL_CONSTANT:
    return plain(d, &v->as.constant);
  default:
    return value_unset();
  }
}

static rush_value value_of_arg(decomposition *d, const fx_arg *a, const type *t);

static rush_value list_value(decomposition *d, const fx_arg *a, const type *t)
{
  session *s = d->c->s;
  const type *item = t && t->kind == TYPE_LIST ? type_runtime(type_elem(t)) : NULL;
  rush_list *l;

  session_check(s, list_new(s->cx, item ? item : type_simple(TYPE_ANY), a->n, &l));
  const rush_value v = capture_hold(d->c, value_heap_steal(RUSH_TAG_LIST, l));
  session_enter(s);
  for (uint32_t i = 0; i < a->n; i++)
    session_check(s, list_append_steal(s->cx, l,
                                       value_retain(value_of_arg(d, &a->as.items[i], item))));
  session_leave(s);
  return v;
}

/* Convert a value to a parameter's type: numbers to tensors or floats, one number to a list. */
static rush_value converted(decomposition *d, rush_value v, const type *t)
{
  session *s = d->c->s;
  const bool is_number = v.tag == RUSH_TAG_INT || v.tag == RUSH_TAG_FLOAT ||
                         v.tag == RUSH_TAG_BOOL || v.tag == RUSH_TAG_COMPLEX;
  rush_list *l;

  while (t && t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  if (!t || !is_number)
    return v;
  if (t->kind == TYPE_TENSOR)
    return capture_wrapped_number(d->c, v);
  if (t->kind == TYPE_FLOAT && v.tag == RUSH_TAG_INT)
    return value_float((double)v.as.i);
  if (t->kind != TYPE_LIST)
    return v;
  session_check(s, list_new(s->cx, type_elem(t), 1, &l));
  const rush_value made = capture_hold(d->c, value_heap_steal(RUSH_TAG_LIST, l));
  session_check(s, list_append_steal(s->cx, l, value_retain(converted(d, v, type_elem(t)))));
  return made;
}

/* Return an argument's value; `t`: the parameter's type, or NULL. */
static rush_value value_of_arg(decomposition *d, const fx_arg *a, const type *t)
{
  while (t && t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  if (a->kind == FX_LIST || a->kind == FX_TUPLE)
    return list_value(d, a, t);
  if (a->kind != FX_NODE)
    return converted(d, plain(d, a), t);
  const rush_value v = d->at->values[a->as.node->index];
  if (v.tag == RUSH_TAG_UNSET)
    capture_fail(d->c, "'%s' is given '%s', which is neither a tensor nor a number", d->node->name,
                 a->as.node->name);
  return converted(d, v, t);
}

/* -- Copies ------------------------------------------------------------------------------------ */

static fx_arg copied_arg(decomposition *d, const fx_arg *a)
{
  capture *c = d->c;
  fx_arg out = *a;

  if (a->kind == FX_NODE) {
    const rush_value v = d->at->values[a->as.node->index];
    fx_node *n = d->at->nodes[a->as.node->index];
    return n && v.tag != RUSH_TAG_TENSOR ? fx_arg_node(n) : capture_arg(c, v, NULL);
  }
  session_enter(c->s);
  if (a->kind == FX_LIST || a->kind == FX_TUPLE) {
    fx_arg *items = session_alloc_in(c->s, c->mem, ((size_t)a->n + 1) * sizeof *items);
    for (uint32_t i = 0; i < a->n; i++)
      items[i] = copied_arg(d, &a->as.items[i]);
    out.as.items = items;
  } else if (a->kind == FX_DICT) {
    fx_named *items = session_alloc_in(c->s, c->mem, ((size_t)a->n + 1) * sizeof *items);
    for (uint32_t i = 0; i < a->n; i++)
      items[i] = (fx_named){a->as.named[i].name, copied_arg(d, &a->as.named[i].arg)};
    out.as.named = items;
  }
  session_leave(c->s);
  return out;
}

/* Copy a node; its result is what is known of it. */
static void copy_node(decomposition *d, const fx_node *n)
{
  capture *c = d->c;
  fx_arg *args = session_alloc_in(c->s, c->mem, ((size_t)n->n_args + 1) * sizeof *args);
  fx_named *kwargs = session_alloc_in(c->s, c->mem, ((size_t)n->n_kwargs + 1) * sizeof *kwargs);

  for (uint32_t i = 0; i < n->n_args; i++)
    args[i] = copied_arg(d, &n->args[i]);
  for (uint32_t i = 0; i < n->n_kwargs; i++)
    kwargs[i] = (fx_named){n->kwargs[i].name, copied_arg(d, &n->kwargs[i].arg)};
  const bool is_item =
    n->op == FX_CALL_FUNCTION && strcmp(n->target, "torch.ops.aten.item.default") == 0 &&
    capture_decomposes(c, session_op_of_target(c->s, str_of(n->target)));
  const char *target = is_item ? "torch.ops.aten._local_scalar_dense.default" : n->target;
  fx_node *to =
    fx_node_new(c->s, c->g, n->op, target, is_item ? "_local_scalar_dense" : n->name);
  to->args = args;
  to->n_args = n->n_args;
  to->kwargs = kwargs;
  to->n_kwargs = n->n_kwargs;
  to->val = n->val;
  to->metadata = n->metadata;
  to->arg_names = n->arg_names;
  to->unknown = n->unknown;
  to->returns_none = n->returns_none;
  if (n->op == FX_PLACEHOLDER) /* the signature has its name, which may be one that is avoided */
    to->name = n->name;
  d->at->nodes[n->index] = to;
  d->at->values[n->index] = n->val ? value_of_val(d, to, n->val) : value_unset();
}

/* -- Evaluated nodes --------------------------------------------------------------------------- */

static rush_value *bound_arguments(decomposition *d, const fx_node *n, const schema *sc)
{
  rush_value *args = session_array(d->c->s, rush_value, (size_t)sc->n_args + 1);
  bool *given = session_array(d->c->s, bool, (size_t)sc->n_args + 1);

  for (uint32_t i = 0; i < n->n_args + n->n_kwargs; i++) {
    const bool is_named = i >= n->n_args;
    const fx_named *named = is_named ? &n->kwargs[i - n->n_args] : NULL;
    const int at = is_named ? schema_arg_index(sc, named->name) : (int)i;
    if (at < 0 || (uint32_t)at >= sc->n_args || given[at])
      capture_fail(d->c, "'%s' has an argument that %s does not take, or twice", n->name,
                   sc->name);
    args[at] = value_of_arg(d, is_named ? &named->arg : &n->args[i], sc->args[at].type);
    given[at] = true;
    if (!capture_is_of_type(sc->args[at].type, args[at]))
      capture_fail(d->c, "'%s': the argument '%s' of %s is not of its type", n->name,
                   sc->args[at].name, sc->name);
  }
  for (uint32_t i = 0; i < sc->n_args; i++) {
    if (!given[i] && !sc->args[i].has_default)
      capture_fail(d->c, "'%s' misses the argument '%s' of %s", n->name, sc->args[i].name,
                   sc->name);
    if (!given[i])
      args[i] = sc->args[i].default_value;
  }
  return args;
}

/* Let a size that the evaluated node made, and that depends on data, be the symbol by which the
 * program calls it. */
static void adopt_size(decomposition *d, symint made, const fx_number *said)
{
  const sym_term *t = made->n_terms == 1 && made->k == 0 ? &made->terms[0] : NULL;
  const expression *e = said->expr;

  if (!t || t->coef != 1 || t->degree != 1 || t->atoms[0]->kind != SYM_SYMBOL ||
      t->atoms[0]->backed || !e || e->kind != EXPRESSION_SYMBOL || table_get(&d->symbols, e->name))
    return;
  capture_symbol *y = capture_symbol_of(d->c, t->atoms[0]);
  if (!y || y->expr->kind != EXPRESSION_SYMBOL || bounds_of(d, y->expr->name))
    return;
  capture_symbol_rename(d->c, y, e);
  session_table_put(d->c->s, &d->symbols, e->name, (void *)(uintptr_t)made);
}

/* Likewise for all sizes of results; `said`: what the program knows of them. */
static void adopt_sizes(decomposition *d, const rush_value *made, uint32_t n, const fx_val *said)
{
  for (uint32_t i = 0; said && i < n; i++) {
    const fx_val *v = said->kind == FX_VAL_LIST && i < said->n ? said->as.items[i] : said;
    if (!v || v->kind != FX_VAL_TENSOR || made[i].tag != RUSH_TAG_TENSOR || !made[i].as.tensor)
      continue;
    const symshape_facts *f = &capture_tensor_of(d->c, made[i].as.tensor)->facts;
    for (int k = 0; k < f->n_dims && k < (int)v->as.tensor->n_dims; k++)
      adopt_size(d, f->sizes[k], &v->as.tensor->sizes[k]);
  }
}

static void evaluate(decomposition *d, const fx_node *n, const op *o)
{
  const schema *sc = o->schema;
  const rush_value *args = bound_arguments(d, n, sc);
  rush_value *results = session_array(d->c->s, rush_value, (size_t)sc->n_returns + 1);

  for (uint32_t i = 0; i < sc->n_returns; i++)
    results[i] = value_none();
  capture_op(d->c, o, args, results);
  d->at->values[n->index] = sc->n_returns == 1 ? results[0] : value_unset();
  if (sc->n_returns == 1 && results[0].tag == RUSH_TAG_LIST)
    d->at->items[n->index] =
      (decomposed_items){results[0].as.list->items, (uint32_t)results[0].as.list->n};
  else if (sc->n_returns > 1)
    d->at->items[n->index] = (decomposed_items){results, sc->n_returns};
  const decomposed_items *items = &d->at->items[n->index];
  adopt_sizes(d, items->items ? items->items : results, items->items ? items->n : 1, n->val);
}

static void take_item(decomposition *d, const fx_node *n)
{
  const bool is_item =
    n->n_args == 2 && n->args[0].kind == FX_NODE && n->args[1].kind == FX_INT;
  const decomposed_items *of = is_item ? &d->at->items[n->args[0].as.node->index] : NULL;

  if (!of || !of->items)
    copy_node(d, n);
  else if (n->args[1].as.i < 0 || n->args[1].as.i >= of->n)
    capture_fail(d->c, "'%s' is result %lld of '%s', which has %u", n->name,
                 (long long)n->args[1].as.i, n->args[0].as.node->name, of->n);
  else
    d->at->values[n->index] = of->items[n->args[1].as.i];
}

/* True if the node is not simply copied; of views it has to be known what they show if the program
 * writes to tensors. */
static bool is_evaluated(const decomposition *d, const fx_node *n, const op *o)
{
  if (n->val && n->val->kind != FX_VAL_TENSOR && n->val->kind != FX_VAL_LIST)
    return false;
  return schema_is_mutable(o->schema) || capture_decomposes(d->c, o) ||
         (d->has_writes && o->family == FAMILY_VIEW && op_has_shape(o));
}

static void decompose_call(decomposition *d, const fx_node *n)
{
  const op *o = session_op_of_target(d->c->s, str_of(n->target));

  if (strcmp(n->target, "_operator.getitem") == 0)
    take_item(d, n);
  else if (strcmp(n->target, "torch.ops.aten.lift_fresh_copy.default") == 0)
    evaluate(d, n, session_op_of_target(d->c->s, STR("torch.ops.aten.clone.default")));
  else if (d->has_sparse && strcmp(n->target, "torch.ops.aten.to_dense.default") == 0)
    evaluate(d, n, session_op_of_target(d->c->s, STR("torch.ops.aten._to_dense.default")));
  else if (o && is_evaluated(d, n, o))
    evaluate(d, n, o);
  else
    copy_node(d, n);
}

/* -- Conditions on sizes ----------------------------------------------------------------------- */

typedef struct only_value { /* of a condition's only symbol */
  const sym_atom *symbol;
  int64_t value;
} only_value;

static bool look_up_only(void *arg, const sym_atom *symbol, int64_t *value)
{
  only_value *v = arg;

  v->symbol = v->symbol ? v->symbol : symbol;
  *value = v->value;
  return v->symbol == symbol;
}

#define MOST_TRIED 4096 /* values of a symbol */

/* True if a condition on one symbol of few values holds for all of them. */
static bool holds_for_all(sym_cond cond)
{
  only_value v = {NULL, 0};
  int64_t at;

  v.value = 2;
  if (!sym_eval(cond.e, look_up_only, &v, &at) || !v.symbol || v.symbol->hi == SYM_INF ||
      v.symbol->hi - v.symbol->lo > MOST_TRIED)
    return false;
  for (v.value = v.symbol->lo; v.value <= v.symbol->hi; v.value++)
    if (!sym_eval(cond.e, look_up_only, &v, &at) ||
        !(cond.rel == SYM_EQ ? at == 0 : cond.rel == SYM_NE ? at != 0 : at >= 0))
      return false;
  return true;
}

/* Refuse what holds only for some sizes that the program takes: bodies decide, too, and the program
 * has no condition for it. */
static void refuse_guards(decomposition *d)
{
  sym_env *env = d->c->env;
  int64_t hint;

  for (uint32_t i = d->n_assumed; i < env->n_guards; i++) {
    if (!sym_hint(env->guards[i].e, &hint) || holds_for_all(env->guards[i]))
      continue; /* the operator that needs it checks it when it runs */
    text_buf *text = session_text(d->c->s);
    sym_cond_print(text, env->guards[i]);
    session_fail_status(d->c->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "%s: node '%s': its decomposition holds only where %s, which the program "
                        "does not demand",
                        d->from->place, d->node->name, text_str(text));
  }
  d->n_assumed = env->n_guards;
}

/* -- Regions of gradient modes ----------------------------------------------------------------- */

/* Return the graph of a call of wrap_with_set_grad_enabled, which becomes part of the graph around
 * it, as in PyTorch; NULL: it is none, or has graphs of other operators in it. */
static const fx_graph *region_of(session *s, const fx_graph *g, const fx_node *n)
{
  if (n->op != FX_CALL_FUNCTION || n->n_args < 2 || n->args[1].kind != FX_NODE ||
      strcmp(n->target, "torch.ops.higher_order.wrap_with_set_grad_enabled") != 0)
    return NULL;
  const fx_graph *found = fx_graph_subgraph(g, n->args[1].as.node->target);
  if (!found || !found->n_subgraphs)
    return found;
  session_enter(s);
  uint32_t n_regions = 0;
  for (const fx_node *in = found->first; in; in = in->next)
    n_regions += region_of(s, found, in) != NULL;
  session_leave(s);
  return n_regions == found->n_subgraphs ? found : NULL;
}

/* Note the graph's regions, by the nodes that call them and those that get their graphs. */
static void find_regions(session *s, decomposed_graph *at)
{
  session_table_init(s, &at->regions);
  for (const fx_node *n = at->from->first; n; n = n->next) {
    const fx_graph *region = region_of(s, at->from, n);
    if (!region)
      continue;
    session_table_put(s, &at->regions, address_key(n), (void *)region);
    session_table_put(s, &at->regions, address_key(n->args[1].as.node), (void *)region);
  }
}

static void decompose_nodes(decomposition *d);

/* Decompose a region's nodes in the graph around it. */
static void decompose_region(decomposition *d, const fx_node *n, const fx_graph *region)
{
  session *s = d->c->s;
  decomposed_graph *outer = d->at, *at = session_new(s, decomposed_graph);
  const fx_node *out = region->last, *in = region->first;
  uint32_t k = 2;

  *at = (decomposed_graph){.from = region,
                           .is_region = true,
                           .values = session_array(s, rush_value, (size_t)region->n_nodes + 1),
                           .nodes = session_array(s, fx_node *, (size_t)region->n_nodes + 1),
                           .items =
                             session_array(s, decomposed_items, (size_t)region->n_nodes + 1)};
  for (; in && in->op == FX_PLACEHOLDER; in = in->next, k++) {
    if (k >= n->n_args || n->args[k].kind != FX_NODE)
      capture_fail(d->c, "'%s' has other operands than its graph", n->name);
    at->values[in->index] = outer->values[n->args[k].as.node->index];
    at->nodes[in->index] = outer->nodes[n->args[k].as.node->index];
  }
  session_enter(s);
  d->at = at;
  decompose_nodes(d);
  d->node = d->c->origin = n;
  if (!out || out->op != FX_OUTPUT || !out->n_args ||
      (out->args->kind != FX_TUPLE && out->args->kind != FX_LIST))
    capture_fail(d->c, "the graph of '%s' returns no tuple", n->name);
  rush_value *items = session_array(s, rush_value, (size_t)out->args->n + 1);
  for (uint32_t i = 0; i < out->args->n; i++)
    items[i] = value_of_arg(d, &out->args->as.items[i], NULL);
  d->at = outer;
  session_leave(s);
  outer->items[n->index] = (decomposed_items){items, out->args->n};
}

/* -- Graphs ------------------------------------------------------------------------------------ */

static void decompose_nodes(decomposition *d)
{
  capture *c = d->c;

  find_regions(c->s, d->at);
  for (const fx_node *n = d->at->from->first; n; n = n->next) {
    const fx_graph *region = table_get(&d->at->regions, address_key(n));
    session_poll(c->s);
    d->node = c->origin = n;
    if (region && n->op == FX_CALL_FUNCTION)
      decompose_region(d, n, region);
    else if (n->op == FX_CALL_FUNCTION)
      decompose_call(d, n);
    else if (!(d->at->is_region && (n->op == FX_PLACEHOLDER || n->op == FX_OUTPUT)) && !region)
      copy_node(d, n);
    refuse_guards(d);
  }
}

/* True if a node does more than compute its result. */
static bool has_effect(session *s, const fx_node *n)
{
  static const char *const kept[] = {"torch.ops.higher_order.", "torch._functorch.",
                                     "torch.ops.aten._local_scalar_dense",
                                     "torch.ops.aten.item"};
  const op *o = session_op_of_target(s, str_of(n->target));

  for (size_t i = 0; i < COUNT_OF(kept); i++)
    if (strncmp(n->target, kept[i], strlen(kept[i])) == 0)
      return true;
  if (n->returns_none || (!o && strncmp(n->target, "torch.ops.", 10) == 0))
    return true;
  return o && (schema_is_mutable(o->schema) || o->effects & (OP_SIDE_EFFECT | OP_RANDOM));
}

static void drop_use(void *unused, fx_node *n)
{
  (void)unused;
  n->n_users -= n->n_users != 0;
}

/* Remove what nothing uses, as PyTorch does. */
static void drop_dead(session *s, fx_graph *g)
{
  fx_node *before;

  fx_graph_count_users(s, g);
  for (fx_node *n = g->last; n; n = before) {
    before = n->prev;
    if (n->op != FX_CALL_FUNCTION || n->n_users || has_effect(s, n))
      continue;
    fx_node_inputs(s, n, drop_use, NULL);
    fx_node_unlink(n);
  }
  fx_graph_count_users(s, g);
}

static fx_graph *decompose_graph(decomposition *d, const fx_graph *from);

/* Decompose the graphs of higher-order operators.  Symbols have other nodes in them. */
static void decompose_inner(decomposition *d, const fx_graph *from, fx_graph *to)
{
  capture *c = d->c;
  table *numbers = c->number_nodes;
  decomposed_graph *at = d->at;

  table *used = session_new(c->s, table);

  session_table_init(c->s, used);
  for (const fx_node *n = to->first; n; n = n->next)
    if (n->op == FX_GET_ATTR)
      session_table_put(c->s, used, str_of(n->target), c);
  for (uint32_t i = 0; i < from->n_subgraphs; i++) {
    if (!table_get(used, str_of(from->subgraphs[i].name)))
      continue;
    c->number_nodes = session_new(c->s, table);
    session_table_init(c->s, c->number_nodes);
    for (uint32_t k = 0; k < c->n_symbols; k++)
      c->symbols[k].source = NULL;
    fx_graph *inner = decompose_graph(d, from->subgraphs[i].graph);
    fx_graph_add_subgraph(c->s, to, from->subgraphs[i].name, inner);
  }
  c->number_nodes = numbers;
  d->at = at;
}

static fx_graph *decompose_graph(decomposition *d, const fx_graph *from)
{
  capture *c = d->c;
  fx_graph *outer = c->g, *g = outer && c->p->graph == outer && !outer->first
                                  ? outer
                                  : fx_graph_new(c->s, c->mem);
  decomposed_graph *at = session_new(c->s, decomposed_graph);

  session_enter(c->s);
  *at = (decomposed_graph){.from = from,
                           .values = session_array(c->s, rush_value, (size_t)from->n_nodes + 1),
                           .nodes = session_array(c->s, fx_node *, (size_t)from->n_nodes + 1),
                           .items =
                             session_array(c->s, decomposed_items, (size_t)from->n_nodes + 1)};
  d->at = at;
  d->outermost = d->outermost ? d->outermost : at;
  c->g = g;
  decompose_nodes(d);
  decompose_inner(d, from, g);
  g->unknown = from->unknown;
  if (d->outermost == at)
    fx_graph_count_users(c->s, g);
  else
    drop_dead(c->s, g);
  c->g = outer;
  d->at = at;
  session_leave(c->s);
  return g;
}

/* -- The program ------------------------------------------------------------------------------- */

/* Return how the signature names a write to an input, or -1: such an input is not written to. */
static int mutation_of(const program_input *in)
{
  return in->kind == INPUT_PARAMETER ? (int)EXPORTED_PARAMETER_MUTATION
         : in->kind == INPUT_BUFFER  ? (int)EXPORTED_BUFFER_MUTATION
         : in->kind == INPUT_USER    ? (int)EXPORTED_USER_INPUT_MUTATION
                                     : -1;
}

static bool is_written_already(const decomposition *d, const char *target)
{
  for (uint32_t i = 0; i < d->from->n_outputs; i++)
    if (d->from->outputs[i].target && strcmp(d->from->outputs[i].target, target) == 0)
      return true;
  return false;
}

/* Add an output for each input that was written to, in the order of inputs. */
static void add_mutations(decomposition *d, fx_arg *items)
{
  exported_program *p = d->c->p;
  const decomposed_graph *g = d->outermost;
  uint32_t at = 0;

  for (const fx_node *n = d->from->graph->first; n; n = n->next) {
    if (n->op != FX_PLACEHOLDER || at >= p->n_inputs)
      continue;
    const program_input *in = &p->inputs[at++];
    const rush_value v = g->values[n->index];
    fx_node *now = v.tag == RUSH_TAG_TENSOR ? capture_arg(d->c, v, NULL).as.node : NULL;
    const char *target = in->kind == INPUT_USER ? in->arg.name : in->target;
    if (!now || now == g->nodes[n->index] || is_written_already(d, target))
      continue;
    if (mutation_of(in) < 0)
      capture_fail(d->c, "it writes to '%s', a constant", target);
    items[p->n_outputs] = fx_arg_node(now);
    p->outputs[p->n_outputs++] = (program_output){.kind = (exported_output_kind)mutation_of(in),
                                                  .arg = {.kind = ARG_TENSOR, .name = now->name},
                                                  .target = target};
  }
}

/* Let the outputs that are a copy of a whole tensor into another be that tensor. */
static void drop_copy(exported_program *p, fx_arg *items, const fx_node *copy)
{
  if (copy->op != FX_CALL_FUNCTION || strcmp(copy->target, "torch.ops.aten.copy.default") != 0 ||
      copy->n_args < 2 || copy->args[1].kind != FX_NODE)
    return;
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (items[i].kind == FX_NODE && items[i].as.node == copy) {
      items[i] = copy->args[1];
      p->outputs[i].arg.name = items[i].as.node->name;
    }
}

/* Name the outputs by the nodes that have them now, mutations first. */
static void set_outputs(decomposition *d)
{
  capture *c = d->c;
  exported_program *p = c->p;
  fx_node *out = p->graph->last;
  const uint32_t n = d->from->n_outputs, most = n + p->n_inputs + 1;
  fx_arg *items = session_alloc_in(c->s, c->mem, most * sizeof *items),
         *all = session_alloc_in(c->s, c->mem, sizeof *all);

  if (out->n_args != 1 || (out->args->kind != FX_TUPLE && out->args->kind != FX_LIST) ||
      out->args->n != n)
    capture_fail(c, "its outputs are not those of its signature");
  p->n_outputs = 0;
  p->outputs = session_alloc_in(c->s, c->mem, most * sizeof *p->outputs);
  add_mutations(d, items);
  for (uint32_t i = 0; i < n; i++) {
    const fx_arg a = items[p->n_outputs] = out->args->as.items[i];
    p->outputs[p->n_outputs] = d->from->outputs[i];
    if (a.kind == FX_NODE)
      p->outputs[p->n_outputs].arg.name = a.as.node->name;
    p->n_outputs++;
  }
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (p->outputs[i].kind == EXPORTED_BUFFER_MUTATION)
      drop_copy(p, items, items[i].as.node);
  *all = (fx_arg){.kind = FX_TUPLE, .n = p->n_outputs, .as.items = items};
  out->args = all;
  drop_dead(c->s, p->graph);
}

/* Add the ranges of symbols that operators of decompositions made. */
static void add_ranges(decomposition *d)
{
  capture *c = d->c;
  exported_bounds *all = session_alloc_in(
    c->s, c->mem, ((size_t)c->p->n_ranges + c->n_symbols + 1) * sizeof *all);

  if (c->p->n_ranges)
    memcpy(all, c->p->ranges, c->p->n_ranges * sizeof *all);
  c->p->ranges = all;
  for (uint32_t i = 0; i < c->n_symbols; i++) {
    const capture_symbol *y = &c->symbols[i];
    if (y->atom && !y->atom->backed && y->expr->kind == EXPRESSION_SYMBOL &&
        !bounds_of(d, y->expr->name))
      capture_add_range(c, y);
  }
}

/* Keep the entries of modules; what they say of nodes goes, except of the program itself. */
static void set_calls(decomposition *d)
{
  exported_program *p = d->c->p;

  p->calls = session_alloc_in(d->c->s, d->c->mem, ((size_t)p->n_calls + 1) * sizeof *p->calls);
  for (uint32_t i = 0; i < p->n_calls; i++) {
    exported_call_entry *e = &p->calls[i];

    *e = d->from->calls[i];
    if (*e->fqn && (e->n_inputs || e->n_outputs))
      *e = (exported_call_entry){.fqn = e->fqn};
    e->n_inputs = e->n_outputs = 0;
  }
}

static void describe_program(decomposition *d)
{
  static const char *const dialect[] = {"ATEN"};
  const exported_program *from = d->from;
  exported_program *p = d->c->p;

  p->of = exported_program_retain((exported_program *)(uintptr_t)from);
  p->zip = from->zip ? zip_retain(from->zip) : NULL;
  p->name = from->name;
  p->place = from->place;
  p->major = EXPORT_SCHEMA_MAJOR;
  p->minor = EXPORT_SCHEMA_MINOR;
  p->torch_version = from->torch_version;
  p->opset_version = from->opset_version;
  p->metadata = from->metadata;
  p->namedtuple_fields = from->namedtuple_fields;
  p->unknown = from->unknown;
  p->module_unknown = from->module_unknown;
  p->inputs = from->inputs;
  p->n_inputs = from->n_inputs;
  p->n_calls = from->n_calls;
  p->ranges = from->ranges;
  p->n_ranges = from->n_ranges;
  p->guards = from->guards;
  p->n_guards = from->n_guards;
  p->dialects = (const char **)(uintptr_t)dialect;
  p->n_dialects = 1;
}

/* Number new unbacked symbols behind the program's. */
static void reserve_names(decomposition *d)
{
  for (uint32_t i = 0; i < d->from->n_ranges; i++) {
    const str name = d->from->ranges[i].text;
    uint32_t number = 0;
    for (size_t k = 1; k < name.len && number < 100000000; k++)
      number = name.p[k] >= '0' && name.p[k] <= '9' ? number * 10 + (uint32_t)(name.p[k] - '0') : 0;
    if (name.len > 1 && name.p[0] == 'u' && number + 1 > d->c->env->n_unbacked)
      d->c->env->n_unbacked = number + 1;
  }
}

/* Give the size of an input, "L['x'].size()[1]". */
static symint size_named(void *arg, const expression *symbol)
{
  decomposition *d = arg;
  const str text = symbol->name;
  const char *end;

  if (text.len < 4 || memcmp(text.p, "L['", 3) != 0 ||
      !(end = memchr(text.p + 3, '\'', text.len - 3)))
    return NULL;
  const str name = {text.p + 3, (size_t)(end - text.p) - 3};
  const char *rest = session_strndup(d->c->s, end, text.len - (size_t)(end - text.p));
  static const char size[] = "'].size()[";
  char *after;
  const long dim =
    strncmp(rest, size, sizeof size - 1) == 0 ? strtol(rest + sizeof size - 1, &after, 10) : -1;
  for (const fx_node *n = d->from->graph->first; n && dim >= 0; n = n->next)
    if (n->op == FX_PLACEHOLDER && str_is(name, n->name) && n->val &&
        n->val->kind == FX_VAL_TENSOR && dim < (long)n->val->as.tensor->n_dims)
      return symint_of(d, &n->val->as.tensor->sizes[dim]);
  return NULL;
}

/* Let the program's conditions decide, as far as sizes of its arguments are in them. */
static void assume_guards(decomposition *d)
{
  session *s = d->c->s;
  sym_cond cond;

  for (uint32_t i = 0; i < d->from->n_guards; i++) {
    const expression *e = expression_read(s, s->mem, d->from->place, str_of(d->from->guards[i]),
                                          EXPRESSION_PYTHON);
    if (expression_to_condition(d->c->env, e, size_named, d, &cond))
      (void)sym_require(d->c->env, cond);
  }
  d->n_assumed = d->c->env->n_guards;
}

exported_program *decompose_program(session *s, const exported_program *from,
                                    const decompose_table *ops)
{
  decomposition *d = session_new(s, decomposition);

  *d = (decomposition){.c = capture_new(s, NULL, NULL), .from = from};
  session_table_init(s, &d->symbols);
  session_table_init(s, &d->hints);
  session_table_init(s, &d->bounds);
  d->c->decomposes = true;
  if (ops)
    note_table(d->c, ops);
  describe_program(d);
  note_hints(d);
  note_bounds(d);
  d->has_writes = has_writes(s, from->graph);
  d->has_sparse = has_sparse(from->graph);
  reserve_names(d);
  assume_guards(d);
  const bool grad_mode = s->cx->grad_mode;
  s->cx->grad_mode = true;
  (void)decompose_graph(d, from->graph);
  s->cx->grad_mode = grad_mode;
  set_outputs(d);
  capture_finish_values(d->c);
  add_ranges(d);
  set_calls(d);
  return d->c->p;
}
