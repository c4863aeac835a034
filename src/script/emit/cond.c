/* script/emit/cond.c -- conditions: what is known statically, and how a branch refines types.
 *
 * `x is None`, isinstance and hasattr may be decided at compile time; then only one branch is
 * compiled. Otherwise they refine the variable's type inside each branch by an unchecked cast. */
#include <string.h>

#include "script/emit/emit_int.h"

/* -- Refinements ------------------------------------------------------------------------------- */

static refinement *add_refinement(emitter *e, refinement *list, const char *name, const type *t)
{
  refinement *r = session_new(e->s, refinement);
  *r = (refinement){name, t, list};
  return r;
}

static const type *refined(const refinement *list, const char *name)
{
  for (; list; list = list->next)
    if (strcmp(list->name, name) == 0)
      return list->type;
  return NULL;
}

/* Combine refinements with `and`; if they differ for a name nothing is known of it, as in
 * PyTorch. */
static refinement *both(emitter *e, const refinement *a, const refinement *b)
{
  refinement *out = NULL;
  for (const refinement *r = a; r; r = r->next)
    if (!refined(b, r->name) || type_equal(refined(b, r->name), r->type))
      out = add_refinement(e, out, r->name, r->type);
  for (; b; b = b->next)
    if (!refined(a, b->name))
      out = add_refinement(e, out, b->name, b->type);
  return out;
}

/* Combine refinements with `or`: only those that both have. */
static refinement *either(emitter *e, const refinement *a, const refinement *b)
{
  refinement *out = NULL;
  for (; a; a = a->next) {
    const type *other = refined(b, a->name);
    if (other && type_equal(other, a->type))
      out = add_refinement(e, out, a->name, a->type);
  }
  return out;
}

void em_refine(emitter *e, const refinement *r)
{
  for (; r; r = r->next) {
    sugared v;
    if (!em_get_var(e, r->name, &v) || v.kind != SUGAR_VALUE)
      continue;
    ir_value *cast = em_unchecked_cast(e, v.as.value, r->type);
    /* The refined type belongs to this block: it must not clash with the variable outside. */
    ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_STORE, &cast, 1));
    ir_attr_set_string(e->s, n, "name", em_find_var(e->frame, r->name)->slot);
    em_set_var_type(e, r->name, r->type);
    if (!cast->name)
      ir_value_set_name(e->s, cast, r->name);
  }
}

/* -- Values ------------------------------------------------------------------------------------ */

static ir_value *to_bool(emitter *e, ir_value *v)
{
  if (v->type->kind == TYPE_BOOL)
    return v;
  sugared cast = {.kind = SUGAR_CAST, .as.builtin = {"aten::Bool", NULL, type_simple(TYPE_BOOL)}};
  static const type_kind kinds[] = {TYPE_TENSOR, TYPE_INT,    TYPE_FLOAT, TYPE_NUMBER,
                                    TYPE_LIST,   TYPE_STRING, TYPE_DICT};
  function *f;
  if (v->type->kind == TYPE_CLASS)
    class_complete(e->s, v->type);
  bool fits = v->type->kind == TYPE_CLASS && em_find_method(v->type, "__bool__", &f);
  for (size_t i = 0; i < COUNT_OF(kinds); i++)
    fits |= type_runtime(v->type)->kind == kinds[i];
  if (!fits)
    FAIL(e, "Could not cast value of type %s to bool", TYPE_TEXT(e, v->type));
  call_args a = {.args = &v, .n = 1};
  sugared out = em_call_sugared(e, &cast, &a, NULL);
  ir_value *b = em_as_value(e, &out);
  if (b->type->kind != TYPE_BOOL) /* an object's own __bool__ */
    FAIL(e, "expected a bool expression for condition but found %s", TYPE_TEXT(e, b->type));
  return b;
}

ir_value *em_cond_value(emitter *e, const condition *c)
{
  return c->value ? c->value : em_constant_bool(e, c->known == 1);
}

static condition constant_cond(bool known) { return (condition){NULL, known, NULL, NULL}; }

/* -- is None ----------------------------------------------------------------------------------- */

typedef enum none_state { NEVER_NONE, MAYBE_NONE, ALWAYS_NONE } none_state;

static none_state can_be_none(const type *t)
{
  if (t->kind == TYPE_NONE)
    return ALWAYS_NONE;
  return em_is_optional_like(t) || t->kind == TYPE_ANY ? MAYBE_NONE : NEVER_NONE;
}

static condition none_refinement(emitter *e, condition c, const ast_expr *a, const ast_expr *b,
                                 const ir_value *va, const ir_value *vb, bool is)
{
  if (a->kind == EXPR_NONE) {
    const ast_expr *swap = a;
    a = b;
    b = swap;
    va = vb;
  }
  if (a->kind != EXPR_NAME || b->kind != EXPR_NONE || !em_is_optional_like(va->type))
    return c;
  refinement **branch = is ? &c.if_false : &c.if_true;
  *branch = add_refinement(e, *branch, a->as.name, em_without_none(e, va->type));
  return c;
}

static condition emit_is(emitter *e, const ast_expr *x)
{
  const ast_expr *a = x->as.compare.operands.items[0], *b = x->as.compare.operands.items[1];
  bool is = x->as.compare.ops[0] == OP_IS;
  ir_value *va = em_expr(e, a, NULL), *vb = em_expr(e, b, NULL);
  none_state na = can_be_none(va->type), nb = can_be_none(vb->type);
  if (na == ALWAYS_NONE && nb == ALWAYS_NONE)
    return constant_cond(is);
  if ((na == ALWAYS_NONE && nb == NEVER_NONE) || (na == NEVER_NONE && nb == ALWAYS_NONE))
    return constant_cond(!is);
  ir_value *in[2] = {va, vb};
  condition c = {em_call_op(e, is ? "aten::__is__" : "aten::__isnot__", in, 2), -1, NULL, NULL};
  return none_refinement(e, c, a, b, va, vb, is);
}

/* -- isinstance -------------------------------------------------------------------------------- */

typedef struct type_array {
  const type **items;
  uint32_t n;
} type_array;

static void push_type(emitter *e, type_array *a, const type *t)
{
  if ((a->n & (a->n + 1)) == 0 || a->n == 0) {
    const type **grown = session_array(e->s, const type *, a->n * 2 + 2);
    if (a->n)
      memcpy(grown, a->items, a->n * sizeof *grown);
    a->items = grown;
  }
  a->items[a->n++] = t;
}

static void gather_types(emitter *e, const ast_expr *x, type_array *out)
{
  const char *family = x->kind == EXPR_NAME ? x->as.name : "";
  if (x->kind == EXPR_TUPLE) {
    for (uint32_t i = 0; i < x->as.items.n; i++)
      gather_types(e, x->as.items.items[i], out);
  } else if (strcmp(family, "list") == 0) {
    push_type(e, out, type_simple(TYPE_ANY_LIST));
  } else if (strcmp(family, "tuple") == 0) {
    push_type(e, out, type_simple(TYPE_ANY_TUPLE));
  } else {
    push_type(e, out, resolve_type(e->s, e->names, x));
  }
}

/* Return the narrower of the object's type and one of the tested ones; NULL: they exclude each
 * other. */
static const type *narrowest(emitter *e, const type *t, const type_array *tested)
{
  const type *best = NULL;
  for (uint32_t i = 0; i < tested->n; i++) {
    const type *smaller = em_is_subtype(e, t, tested->items[i])   ? t
                          : em_is_subtype(e, tested->items[i], t) ? tested->items[i]
                                                                : NULL;
    if (smaller && (!best || em_is_subtype(e, smaller, best)))
      best = smaller;
  }
  return best;
}

static const type *unify_array(emitter *e, const type_array *a)
{
  const type *t = a->n ? a->items[0] : NULL;
  for (uint32_t i = 1; t && i < a->n; i++)
    t = em_unify(e, t, a->items[i], true);
  return t;
}

static condition instance_condition(emitter *e, const ast_expr *object, ir_value *v,
                                    const type_array *tested)
{
  const type *const *members = v->type->elems;
  uint32_t n = v->type->n_elems;
  type_array yes = {NULL, 0}, no = {NULL, 0};
  bool always = true;
  const type *pair[2];
  if (v->type->kind == TYPE_OPTIONAL) {
    pair[0] = v->type->elems[0];
    pair[1] = type_simple(TYPE_NONE);
    members = pair;
    n = 2;
  } else if (v->type->kind != TYPE_UNION) {
    members = &v->type;
    n = 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    const type *found = NULL;
    if (members[i]->kind == TYPE_ANY) {
      for (uint32_t k = 0; k < tested->n; k++)
        push_type(e, &yes, tested->items[k]);
    } else {
      found = narrowest(e, members[i], tested);
      if (found)
        push_type(e, &yes, found);
    }
    if (!found || !type_equal(found, members[i])) {
      push_type(e, &no, members[i]);
      always = false;
    }
  }
  condition c = {NULL, yes.n == 0 ? 0 : always ? 1 : -1, NULL, NULL};
  const type *if_yes = unify_array(e, &yes), *if_no = unify_array(e, &no);
  if (object->kind == EXPR_NAME && if_yes)
    c.if_true = add_refinement(e, NULL, object->as.name, if_yes);
  if (object->kind == EXPR_NAME && if_no)
    c.if_false = add_refinement(e, NULL, object->as.name, if_no);
  return c;
}

static condition emit_isinstance(emitter *e, const ast_expr *x)
{
  if (x->as.call.args.n != 2 || x->as.call.n_keywords)
    session_fail(e->s, &x->at, "isinstance expected exactly 2 arguments but found %u",
                 x->as.call.args.n);
  const ast_expr *object = x->as.call.args.items[0];
  type_array tested = {NULL, 0};
  gather_types(e, x->as.call.args.items[1], &tested);
  ir_value *v = em_expr(e, object, NULL);
  condition c = instance_condition(e, object, v, &tested);
  if (c.known >= 0)
    return c;
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_ISINSTANCE, &v, 1));
  ir_attr_set_types(e->s, n, "types", tested.items, tested.n);
  c.value = ir_node_add_output(e->s, n, type_simple(TYPE_BOOL));
  return c;
}

void em_check_has_attrs(emitter *e, const sugared *v, source_range at)
{
  if (v->kind != SUGAR_VALUE || !e->names->is_live)
    return;
  const type *t = v->as.value->type;
  if (t->kind == TYPE_TUPLE && !t->fields)
    session_fail(
      e->s, &at,
      "hasattr's first argument must be a object or NamedTuple, but got a normal Tuple %s instead",
      TYPE_TEXT(e, t));
  if (t->kind != TYPE_CLASS && t->kind != TYPE_INTERFACE && t->kind != TYPE_TUPLE)
    session_fail(e->s, &at,
                 "hasattr's first argument must be an object or NamedTuple, got %s instead",
                 em_type_of(e, v->as.value));
}

static condition emit_hasattr(emitter *e, const ast_expr *x)
{
  if (x->as.call.args.n != 2 || x->as.call.args.items[1]->kind != EXPR_STRING)
    session_fail(e->s, &x->at, "hasattr's second argument must be a string literal");
  sugared v = em_sugared(e, x->as.call.args.items[0], NULL);
  const char *name = x->as.call.args.items[1]->as.string.data;
  function *f;
  em_check_has_attrs(e, &v, x->as.call.args.items[0]->at);
  bool has = false;
  if (v.kind == SUGAR_VALUE &&
      (v.as.value->type->kind == TYPE_CLASS || v.as.value->type->kind == TYPE_INTERFACE)) {
    const type *t = v.as.value->type;
    class_complete(e->s, t);
    has = class_attr_index(t, str_of(name)) >= 0 || em_find_method(t, name, &f) ||
          class_constant(t, str_of(name));
  } else if (v.kind == SUGAR_VALUE && v.as.value->type->kind == TYPE_TUPLE) {
    const type *t = v.as.value->type;
    for (uint32_t i = 0; t->fields && i < t->n_elems; i++)
      has = has || strcmp(t->fields[i], name) == 0;
  } else {
    sugared out;
    has = em_try_get_attr(e, &v, name, &out);
  }
  return constant_cond(has);
}

/* -- and, or, not ------------------------------------------------------------------------------ */

/* Compile `emit_yes`, or the constant, in the two blocks of an If with one result. */
static ir_value *short_circuit(emitter *e, const condition *first, const ast_expr *rest, bool is_or,
                               condition *second)
{
  ir_value *cond = em_cond_value(e, first);
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_IF, &cond, 1));
  for (int i = 0; i < 2; i++) {
    ir_block *b = ir_node_add_block(e->s, n);
    ir_node *old = em_begin_at(e, b);
    em_push_frame(e, b);
    em_refine(e, i == 0 ? first->if_true : first->if_false);
    ir_value *v;
    if ((i == 0) == is_or) {
      v = em_constant_bool(e, is_or);
    } else {
      *second = em_cond(e, rest);
      v = em_cond_value(e, second);
    }
    ir_block_add_output(e->s, b, v);
    em_pop_frame(e);
    e->before = old;
  }
  return ir_node_add_output(e->s, n, type_simple(TYPE_BOOL));
}

static condition emit_two(emitter *e, condition first, const ast_expr *rest, bool is_or)
{
  if (first.known == is_or)
    return first;
  if (first.known >= 0)
    return em_cond(e, rest);
  condition second, out = {NULL, -1, NULL, NULL};
  out.value = short_circuit(e, &first, rest, is_or, &second);
  if (second.known == is_or)
    out.known = is_or;
  out.if_true =
    is_or ? either(e, first.if_true, second.if_true) : both(e, first.if_true, second.if_true);
  out.if_false = is_or ? both(e, first.if_false, second.if_false)
                       : either(e, first.if_false, second.if_false);
  return out;
}

static condition emit_bool_op(emitter *e, const ast_expr *x)
{
  condition c = em_cond(e, x->as.items.items[0]);
  for (uint32_t i = 1; i < x->as.items.n; i++)
    c = emit_two(e, c, x->as.items.items[i], x->op == OP_OR);
  return c;
}

/* Compile a < b < c as (a < b) and (b < c), the middle twice, as PyTorch does. */
static condition emit_chain(emitter *e, const ast_expr *x, uint32_t last)
{
  ast_expr *one = session_new(e->s, ast_expr);
  *one = *x;
  one->as.compare.operands = (ast_exprs){x->as.compare.operands.items + last, 2};
  one->as.compare.ops = x->as.compare.ops + last;
  if (last == 0)
    return em_cond(e, one);
  return emit_two(e, emit_chain(e, x, last - 1), one, false);
}

static condition emit_not(emitter *e, const ast_expr *x)
{
  condition c = em_cond(e, x->as.pair.left);
  condition out = {NULL, c.known < 0 ? -1 : !c.known, c.if_false, c.if_true};
  if (c.value)
    out.value = em_call_op(e, "aten::__not__", &c.value, 1);
  return out;
}

/* -- Entry ------------------------------------------------------------------------------------- */

static bool is_special_call(emitter *e, const ast_expr *x, special_form form, const char *name)
{
  const ast_expr *fn = x->kind == EXPR_CALL ? x->as.call.fn : NULL;
  const char *last = !fn                     ? ""
                     : fn->kind == EXPR_NAME ? fn->as.name
                     : fn->kind == EXPR_ATTR ? fn->as.attr.name
                                             : "";
  if (strcmp(last, name) != 0)
    return false;
  sugared v = em_sugared(e, fn, NULL); /* torch.jit.isinstance is one, too */
  return v.kind == SUGAR_SPECIAL && v.as.special == form;
}

static condition emit_plain(emitter *e, const ast_expr *x)
{
  condition c = {to_bool(e, em_expr(e, x, NULL)), -1, NULL, NULL};
  rush_value known;
  if (ir_value_as_constant(c.value, &known) && known.tag == RUSH_TAG_BOOL)
    c.known = known.as.b;
  return c;
}

condition em_cond(emitter *e, const ast_expr *x)
{
  source_range at = e->at;
  e->at = x->at;
  session_enter(e->s);
  condition c;
  if (x->kind == EXPR_BOOL)
    c = emit_bool_op(e, x);
  else if (x->kind == EXPR_UNARY && x->op == OP_NOT)
    c = emit_not(e, x);
  else if (x->kind == EXPR_COMPARE && x->as.compare.operands.n > 2)
    c = emit_chain(e, x, x->as.compare.operands.n - 2);
  else if (x->kind == EXPR_COMPARE &&
           (x->as.compare.ops[0] == OP_IS || x->as.compare.ops[0] == OP_IS_NOT))
    c = emit_is(e, x);
  else if (is_special_call(e, x, SPECIAL_ISINSTANCE, "isinstance"))
    c = emit_isinstance(e, x);
  else if (is_special_call(e, x, SPECIAL_HASATTR, "hasattr"))
    c = emit_hasattr(e, x);
  else
    c = emit_plain(e, x);
  session_leave(e->s);
  e->at = at;
  return c;
}

/* -- a if c else b ----------------------------------------------------------------------------- */

ir_value *em_ternary(emitter *e, const ast_expr *x, const type *hint)
{
  condition c = em_cond(e, x->as.ternary.cond);
  if (c.known >= 0)
    return em_expr(e, c.known ? x->as.ternary.yes : x->as.ternary.no, hint);
  ir_value *cond = em_cond_value(e, &c), *v[2];
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_IF, &cond, 1));
  for (int i = 0; i < 2; i++) {
    ir_block *b = ir_node_add_block(e->s, n);
    ir_node *old = em_begin_at(e, b);
    em_push_frame(e, b);
    em_refine(e, i == 0 ? c.if_true : c.if_false);
    v[i] = em_expr(e, i == 0 ? x->as.ternary.yes : x->as.ternary.no, hint);
    ir_block_add_output(e->s, b, v[i]);
    em_pop_frame(e);
    e->before = old;
  }
  bool to_union = hint && (hint->kind == TYPE_OPTIONAL ||
                           hint->kind == TYPE_ANY); /* not what a Union lists, as in PyTorch */
  const type *t = em_unify(e, v[0]->type, v[1]->type, to_union);
  if (!t)
    FAIL(e, "if-expression's true branch has type %s but false branch has type %s",
         TYPE_TEXT(e, v[0]->type), TYPE_TEXT(e, v[1]->type));
  return ir_node_add_output(e->s, n, t);
}
