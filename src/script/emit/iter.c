/* script/emit/iter.c -- loops over sequences, and comprehensions.
 *
 * The value that a loop iterates over has a length and an item for each index.  Members of tuples
 * (and of zips and enumerations of them) have different types: their loops are unrolled at compile
 * time. */
#include <string.h>

#include "script/emit/emit_int.h"

static ir_value *iter_len(emitter *e, const sugared *it);

/* -- Iterables --------------------------------------------------------------------------------- */

static sugared enum_items(emitter *e, const type *t)
{
  class_complete(e->s, t);
  ir_value **v = session_array(e->s, ir_value *, t->cls->n_members);
  for (uint32_t i = 0; i < t->cls->n_members; i++)
    v[i] = em_constant_value(e, t->cls->enum_members[i], t);
  return sugar_value(em_make_list(e, t, v, t->cls->n_members));
}

sugared em_iterate(emitter *e, const sugared *v)
{
  if (v->kind == SUGAR_RANGE || v->kind == SUGAR_ITERATION || v->kind == SUGAR_TUPLE)
    return *v;
  if (v->kind == SUGAR_ENUM)
    return enum_items(e, v->as.type);
  if (v->kind != SUGAR_VALUE)
    FAIL(e, "%s cannot be used as an iterable", em_sugar_name(e, v));
  const type *t = v->as.value->type;
  sugared out = {.kind = SUGAR_TUPLE}, base = *v;
  switch ((int)t->kind) {
  case TYPE_LIST: case TYPE_STRING: case TYPE_TENSOR:
    return *v;
  case TYPE_DICT:
    return sugar_value(em_call_op(e, "aten::keys", &base.as.value, 1));
  case TYPE_TUPLE:
    out.as.items.n = em_as_items(e, v, 0, &out.as.items.items);
    return out;
  case TYPE_CLASS:
    class_complete(e->s, t);
    if (t->cls->is_module)
      return em_module_items(e, v->as.value);
    break;
  }
  FAIL(e, "'%s' object is not iterable", em_type_of(e, v->as.value));
}

bool em_is_unrolled(emitter *e, const sugared *it)
{
  if (it->kind == SUGAR_TUPLE)
    return true;
  for (uint32_t i = 0; it->kind == SUGAR_ITERATION && i < it->as.items.n; i++)
    if (em_is_unrolled(e, &it->as.items.items[i]))
      return true;
  return false;
}

int64_t em_static_len(emitter *e, const sugared *it)
{
  if (it->kind == SUGAR_TUPLE)
    return it->as.items.n;
  if (it->kind == SUGAR_RANGE)
    return it->as.range.static_len;
  int64_t len = -1;
  for (uint32_t i = 0; it->kind == SUGAR_ITERATION && i < it->as.items.n; i++) {
    int64_t n = em_static_len(e, &it->as.items.items[i]);
    if (n >= 0 && (len < 0 || n < len))
      len = n;
  }
  return len;
}

static void collect_lens(emitter *e, const sugared *it, ir_value **lens, uint32_t *n)
{
  for (uint32_t i = 0; i < it->as.items.n; i++) {
    const sugared *child = &it->as.items.items[i];
    if (child->kind == SUGAR_ITERATION)
      collect_lens(e, child, lens, n);
    else
      lens[(*n)++] = iter_len(e, child);
  }
}

static uint32_t count_leaves(const sugared *it)
{
  uint32_t n = 0;
  for (uint32_t i = 0; i < it->as.items.n; i++)
    n += it->as.items.items[i].kind == SUGAR_ITERATION ? count_leaves(&it->as.items.items[i]) : 1;
  return n;
}

static ir_value *iter_len(emitter *e, const sugared *it)
{
  if (it->kind == SUGAR_RANGE) {
    ir_value *in[3] = {it->as.range.start, it->as.range.end, it->as.range.step};
    return it->as.range.start ? em_call_op(e, "aten::__range_length", in, 3) : it->as.range.end;
  }
  if (it->kind == SUGAR_ITERATION) {
    uint32_t n = 0;
    ir_value **lens = session_array(e->s, ir_value *, count_leaves(it));
    collect_lens(e, it, lens, &n);
    ir_value *list = em_make_list(e, type_simple(TYPE_INT), lens, n);
    return em_call_op(e, "prim::min", &list, 1);
  }
  ir_value *v = em_as_value(e, it);
  return em_call_op(e, "aten::len", &v, 1);
}

static sugared iter_item(emitter *e, const sugared *it, ir_value *index)
{
  if (it->kind == SUGAR_RANGE) {
    ir_value *in[3] = {index, it->as.range.start, it->as.range.step};
    return sugar_value(it->as.range.start ? em_call_op(e, "aten::__derive_index", in, 3) : index);
  }
  if (it->kind == SUGAR_ITERATION) {
    sugared out = {.kind = SUGAR_TUPLE};
    out.as.items.n = it->as.items.n;
    out.as.items.items = session_array(e->s, sugared, it->as.items.n);
    for (uint32_t i = 0; i < it->as.items.n; i++)
      out.as.items.items[i] = iter_item(e, &it->as.items.items[i], index);
    return out;
  }
  if (it->kind == SUGAR_TUPLE) {
    rush_value i;
    if (!ir_value_as_constant(index, &i) || i.as.i < 0 || i.as.i >= it->as.items.n)
      FAIL(e, "tuple index out of range in a loop");
    return it->as.items.items[i.as.i];
  }
  ir_value *v = em_as_value(e, it), *in[3] = {v, NULL, NULL};
  if (is_tensor(v->type)) {
    in[1] = em_constant_int(e, 0);
    in[2] = index;
    return sugar_value(em_call_op(e, "aten::select", in, 3));
  }
  in[1] = index;
  return sugar_value(em_call_op(e, "aten::__getitem__", in, 2));
}

/* -- Loops ------------------------------------------------------------------------------------- */

static void assign_target(emitter *e, const ast_expr *target, const sugared *item)
{
  if (target)
    em_assign_to(e, target, item, NULL);
}

static void emit_unrolled(emitter *e, const sugared *it, const ast_expr *target,
                          void (*body)(emitter *e, void *arg), void *arg)
{
  int64_t n = em_static_len(e, it);
  for (int64_t i = 0; i < n; i++) {
    session_enter(e->s); /* polls: an unrolled loop over a large tuple is long */
    sugared item = iter_item(e, it, em_constant_int(e, i));
    assign_target(e, target, &item);
    bool fresh = e->fresh_names, unrolling = e->is_unrolling;
    e->fresh_names = false;
    e->is_unrolling = true;
    body(e, arg);
    e->is_unrolling = unrolling;
    e->fresh_names = fresh;
    session_leave(e->s);
  }
}

void em_loop(emitter *e, const sugared *it, const ast_expr *target,
               void (*body)(emitter *e, void *arg), void *arg)
{
  if (em_is_unrolled(e, it)) {
    emit_unrolled(e, it, target, body, arg);
    return;
  }
  ir_value *len = iter_len(e, it), *go_on = em_constant_bool(e, true);
  ir_node *n = em_put(e, ir_node_new(e->s, e->g, IR_LOOP, &len, 1));
  ir_block *inside = ir_node_add_block(e->s, n), *cond = ir_node_add_block(e->s, n);
  ir_node *old = em_begin_at(e, inside);
  ir_block_add_output(e->s, cond, go_on);
  ir_value *trip = ir_block_add_input(e->s, inside, type_simple(TYPE_INT), NULL);
  em_push_frame(e, inside);
  sugared item = iter_item(e, it, trip);
  if (item.kind == SUGAR_TUPLE && target && target->kind == EXPR_NAME)
    item = sugar_value(em_as_value(e, &item));
  assign_target(e, target, &item);
  bool fresh = e->fresh_names, unrolling = e->is_unrolling;
  e->fresh_names = e->is_unrolling = false;
  e->loop_depth++;
  body(e, arg);
  e->loop_depth--;
  e->is_unrolling = unrolling;
  e->fresh_names = fresh;
  em_pop_frame(e);
  e->before = old;
}

/* -- Comprehensions ---------------------------------------------------------------------------- */

typedef struct comprehension {
  const ast_expr *x;
  ir_value *out;
  display_hint hint;
  const type *elem_hint;
  bool typed; /* out has its final type */
} comprehension;

static void append_element(emitter *e, void *arg)
{
  comprehension *c = arg;
  ir_value *v = em_expr(e, c->x->as.comp.element, c->elem_hint);
  if (!c->typed)
    c->out->type =
      c->hint.n > 1 ? em_choose_display(e, &c->hint, v->type, NULL) : em_list_of(e, v->type);
  c->typed = true;
  const type *both = em_unify(e, c->out->type->elems[0], v->type, true);
  if (!both || !type_equal(both, c->out->type->elems[0]))
    FAIL(e,
         "List type annotation `%s` did not match the types of the given list elements, which were "
         "unified to %s",
         TYPE_TEXT(e, c->out->type), TYPE_TEXT(e, v->type));
  ir_value *in[2] = {c->out, v};
  em_call_op(e, "aten::append", in, 2);
}

static void set_entry(emitter *e, void *arg)
{
  comprehension *c = arg;
  ir_value *k = em_expr(e, c->x->as.comp.key, NULL), *v = em_expr(e, c->x->as.comp.element, NULL);
  if (!c->typed) {
    c->out->type = c->hint.n > 1 ? em_choose_display(e, &c->hint, k->type, v->type)
                                 : type_dict(&e->p->types, k->type, v->type);
    if (!c->out->type)
      session_check(e->s, call_nomem(e->s->cx));
  }
  if (e->names->is_live && k->type->kind == TYPE_UNION)
    FAIL(e,
         "Dicts may only contain homogeneous keys, but the type of the first generated key was %s",
         TYPE_TEXT(e, k->type));
  c->typed = true;
  const type *const *want = c->out->type->elems;
  bool fits[2] = {em_is_subtype(e, k->type, want[0]), em_is_subtype(e, v->type, want[1])};
  if (e->names->is_eager && !(fits[0] && fits[1]))
    FAIL(e, "Dict type annotation `%s` did not match the type of an actual %s type `%s`\n",
         TYPE_TEXT(e, c->out->type), fits[0] ? "value" : "key",
         TYPE_TEXT(e, fits[0] ? v->type : k->type));
  ir_value *in[3] = {c->out, k, v};
  em_call_op(e, "aten::_set_item", in, 3);
}

static ir_value *emit_comp(emitter *e, const ast_expr *x, comprehension *c,
                           void (*body)(emitter *e, void *arg))
{
  const ast_comp *f = &x->as.comp.fors[0];
  if (x->as.comp.n_fors != 1)
    REFUSE(e, &x->at, NOT_SUPPORTED, "Only a single generator is currently supported");
  if (f->conds.n)
    REFUSE(e, &x->at, NOT_SUPPORTED, "Comprehension ifs are not supported yet");
  sugared v = em_sugared(e, f->iter, NULL), it = em_iterate(e, &v);
  em_push_frame(e, e->frame->block);
  bool fresh = e->fresh_names;
  e->n_scopes++;
  e->fresh_names = true;
  em_loop(e, &it, f->target, body, c);
  e->fresh_names = fresh;
  em_pop_frame(e);
  return c->out;
}

ir_value *em_list_comp(emitter *e, const ast_expr *x, const type *hint)
{
  display_hint h = em_display_hint(e, x, hint, TYPE_LIST);
  const type *elem = h.one ? h.one->elems[0] : NULL;
  comprehension c = {x, em_make_list(e, elem ? elem : type_simple(TYPE_TENSOR), NULL, 0), h,
                     e->names->is_eager ? NULL : elem, elem};
  return emit_comp(e, x, &c, append_element);
}

ir_value *em_dict_comp(emitter *e, const ast_expr *x, const type *hint)
{
  display_hint h = em_display_hint(e, x, hint, TYPE_DICT);
  const type *t =
    h.one ? h.one : type_dict(&e->p->types, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR));
  if (!t)
    session_check(e->s, call_nomem(e->s->cx));
  comprehension c = {x, em_put_nowhere(e, IR_DICT_CONSTRUCT, NULL, 0, t), h, NULL, h.one};
  return em_as_annotated(e, emit_comp(e, x, &c, set_entry), hint);
}
