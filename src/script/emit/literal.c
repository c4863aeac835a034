/* script/emit/literal.c -- compiles literals: numbers, strings, f-strings, lists, tuples and
 * dicts. The element type of a display is the annotation's if there is one that fits, else the
 * common type of the items, with PyTorch's rules for Optional and Union. The annotation is
 * passed down as a hint while the items are compiled, because an empty list inside has no other
 * source of its type. */
#include <math.h>

#include <string.h>

#include "script/emit/emit_int.h"

bool em_literal_int(const ast_expr *x, int64_t *out)
{
  if (x->kind != EXPR_INT || x->op == OP_NEG)
    return false;
  *out = x->as.integer;
  return true;
}

/* -- Lists ------------------------------------------------------------------------------------- */

/* Return the first type that does not unify with those before it. */
static const type *other_type(emitter *e, ir_value *const *v, uint32_t n)
{
  const type *t = v[0]->type;
  for (uint32_t i = 1; i < n; i++) {
    t = em_unify(e, t, v[i]->type, false);
    if (!t)
      return v[i]->type;
  }
  return v[0]->type;
}

/* Return the common type of the values of a display, a Union if there is none (keys: refused); the
 * hint's element type if all fit it. */
static const type *common_type(emitter *e, ir_value *const *v, uint32_t n, const type *hint_elem,
                               const char *what)
{
  bool fit = hint_elem != NULL;
  for (uint32_t i = 0; fit && i < n; i++)
    fit = em_is_subtype(e, v[i]->type, hint_elem);
  if (fit)
    return hint_elem;
  const type *t = v[0]->type;
  for (uint32_t i = 1; t && i < n; i++)
    t = em_unify(e, t, v[i]->type, strcmp(what, "Dict keys") != 0);
  if (!t && strcmp(what, "Dict keys") != 0) { /* PyTorch warns here, and continues with a Union */
    const type **all = session_array(e->s, const type *, n);
    for (uint32_t i = 0; i < n; i++)
      all[i] = v[i]->type;
    t = type_union(&e->p->types, all, n);
  }
  if (!t)
    FAIL(e, "%s must contain only a single type. Expected: %s but found %s instead", what,
         TYPE_TEXT(e, v[0]->type), TYPE_TEXT(e, other_type(e, v, n)));
  return t;
}

/* Compile items of a display, with starred ones unpacked. */
static ir_value **emit_items(emitter *e, const ast_exprs *items, const type *const *hints,
                             uint32_t n_hints, uint32_t *n_out)
{
  /* in PyTorch the expected type of a whole display does not apply to its items */
  if (e->names->is_eager)
    n_hints = 0;
  ir_value **v = NULL;
  uint32_t n = 0, cap = 0;
  for (uint32_t i = 0; i < items->n; i++) {
    const ast_expr *x = items->items[i];
    sugared one, *many = &one;
    uint32_t k = 1;
    if (x->kind == EXPR_STARRED) {
      one = em_sugared(e, x->as.pair.left, NULL);
      k = em_as_items(e, &one, 0, &many);
    } else {
      const type *hint = n_hints == 0   ? NULL
                         : n_hints == 1 ? hints[0]
                         : i < n_hints  ? hints[i]
                                        : NULL;
      one = sugar_value(em_expr(e, x, hint));
    }
    if (n + k > cap) {
      cap = (n + k) * 2 > items->n ? (n + k) * 2 : items->n;
      ir_value **grown = session_array(e->s, ir_value *, cap);
      if (n)
        memcpy(grown, v, n * sizeof *grown);
      v = grown;
    }
    for (uint32_t j = 0; j < k; j++)
      v[n++] = em_as_value(e, &many[j]);
  }
  *n_out = n;
  return v;
}

/* -- Types expected by annotations ------------------------------------------------------------- */

display_hint em_display_hint(emitter *e, const ast_expr *x, const type *hint, type_kind k)
{
  display_hint h = {hint, NULL, 0};
  if (hint && hint->kind == TYPE_OPTIONAL)
    hint = hint->elems[0];
  bool is_union = hint && hint->kind == TYPE_UNION;
  const type *const *members = is_union ? hint->elems : &hint;
  for (uint32_t i = 0; hint && i < (is_union ? hint->n_elems : 1); i++)
    if (members[i]->kind == k) {
      h.one = members[i];
      h.n++;
    }
  if (!e->names->is_eager)
    return h;
  e->at = x->at;
  if (is_union && h.n == 0)
    FAIL(e, "Expected an Union type annotation with an inner %s type, but got %s",
         k == TYPE_LIST ? "List" : "Dict", TYPE_TEXT(e, h.whole));
  if (h.n > 1)
    h.one = NULL;
  return h;
}

void em_check_annotation(emitter *e, const ast_expr *x, const type *t)
{
  bool is_list = x->kind == EXPR_LIST || x->kind == EXPR_LIST_COMP;
  const type *in = t->kind == TYPE_OPTIONAL ? t->elems[0] : t;
  if (!e->names->is_eager || !(is_list || x->kind == EXPR_DICT || x->kind == EXPR_DICT_COMP) ||
      in->kind == TYPE_ANY || in->kind == TYPE_UNION ||
      in->kind == (is_list ? TYPE_LIST : TYPE_DICT))
    return;
  e->at = x->at;
  FAIL(e, "Expected an annotation of type %s but got %s", is_list ? "List" : "Dict",
       TYPE_TEXT(e, t));
}

static bool holds(emitter *e, const type *display, const type *a, const type *b)
{
  return em_is_subtype(e, a, display->elems[0]) && (!b || em_is_subtype(e, b, display->elems[1]));
}

const type *em_choose_display(emitter *e, const display_hint *h, const type *a, const type *b)
{
  const type *in = h->whole->kind == TYPE_OPTIONAL ? h->whole->elems[0] : h->whole, *best = NULL;
  char *all = session_printf(e->s, "%s", "");
  uint32_t seen = 0;
  for (uint32_t i = 0; i < in->n_elems; i++) {
    const type *t = in->elems[i];
    if (t->kind != (b ? TYPE_DICT : TYPE_LIST))
      continue;
    if (holds(e, t, a, b) && (!best || holds(e, t, best->elems[0], b ? best->elems[1] : NULL)))
      best = t;
    seen++;
    all = session_printf(e->s, "%s%s%s", all,
                         seen == 1     ? ""
                         : seen < h->n ? ", "
                         : h->n == 2   ? " or "
                                       : ",  or ",
                         TYPE_TEXT(e, t));
  }
  if (best)
    return best;
  if (!b)
    FAIL(e,
         "Union type annotation `%s` can hold %s, but none of those types match the types of the "
         "given list elements, which were "
         "unified to %s",
         TYPE_TEXT(e, h->whole), all, TYPE_TEXT(e, a));
  FAIL(e,
       "Union type annotation `%s` can hold %s, but none of those dict types can hold the types of "
       "the given keys and values, which "
       "were unified to Dict[%s, %s",
       TYPE_TEXT(e, h->whole), all, TYPE_TEXT(e, a), TYPE_TEXT(e, b));
}

ir_value *em_as_annotated(emitter *e, ir_value *v, const type *hint)
{
  bool hides = hint && (hint->kind == TYPE_OPTIONAL || hint->kind == TYPE_UNION);
  return hides && e->names->is_eager ? em_unchecked_cast(e, v, hint) : v;
}

static void check_empty(emitter *e, const display_hint *h, const char *what, const char *kind)
{
  if (!h->one && h->n > 1)
    FAIL(e,
         "Cannot assign an empty %s to a variable annotated to be type %s because there are "
         "multiple possible %s type candidates in the "
         "Union annotation",
         what, TYPE_TEXT(e, h->whole), kind);
}

/* Return the tuple type that a hint requires, inside Optional and Union. */
static const type *hinted_tuple(const type *hint)
{
  if (hint && hint->kind == TYPE_OPTIONAL)
    hint = hint->elems[0];
  if (hint && hint->kind == TYPE_UNION) {
    const type *found = NULL;
    for (uint32_t i = 0; i < hint->n_elems; i++)
      if (hint->elems[i]->kind == TYPE_TUPLE)
        found = hint->elems[i];
    hint = found;
  }
  return hint && hint->kind == TYPE_TUPLE ? hint : NULL;
}

static ir_value *emit_list(emitter *e, const ast_expr *x, const type *hint)
{
  display_hint h = em_display_hint(e, x, hint, TYPE_LIST);
  const type *elem = h.one ? h.one->elems[0] : NULL;
  uint32_t n;
  ir_value **v = emit_items(e, &x->as.items, &elem, elem ? 1 : 0, &n);
  e->at = x->at;
  if (n == 0) {
    check_empty(e, &h, "list", "List");
    ir_value *out = em_make_list(e, elem ? elem : type_simple(TYPE_TENSOR), NULL, 0);
    if (!elem)
      ir_attr_set_int(e->s, out->node, "_untyped", 1);
    return elem ? em_as_annotated(e, out, hint) : out;
  }
  const type *t = common_type(e, v, n, elem, "Lists");
  if (elem && e->names->is_eager && !em_is_subtype(e, t, elem))
    FAIL(e,
         "List type annotation `%s` did not match the types of the given list elements, which were "
         "unified to %s",
         TYPE_TEXT(e, h.one), TYPE_TEXT(e, t));
  if (!elem && h.n > 1)
    t = em_choose_display(e, &h, t, NULL)->elems[0];
  for (uint32_t i = 0; i < n; i++)
    if (em_is_empty_list_literal(v[i]))
      v[i] = em_convert(e, t, v[i], false);
  return em_as_annotated(e, em_make_list(e, t, v, n), hint);
}

static ir_value *emit_tuple(emitter *e, const ast_expr *x, const type *hint)
{
  const type *t = hinted_tuple(hint);
  bool fits = t && t->n_elems == x->as.items.n && t->n_elems > 1;
  uint32_t n;
  ir_value **v = emit_items(e, &x->as.items, fits ? t->elems : NULL, fits ? t->n_elems : 0, &n);
  e->at = x->at;
  return em_make_tuple(e, v, n, NULL);
}

/* -- Dicts ------------------------------------------------------------------------------------- */

static ir_value *emit_dict(emitter *e, const ast_expr *x, const type *hint)
{
  display_hint h = em_display_hint(e, x, hint, TYPE_DICT);
  const type *t = h.one;
  uint32_t n = x->as.dict.keys.n;
  ir_value **keys = session_array(e->s, ir_value *, n),
           **values = session_array(e->s, ir_value *, n);
  ir_value **all = session_array(e->s, ir_value *, (size_t)n * 2);
  const type *const none[2] = {NULL, NULL};
  for (uint32_t i = 0; i < n; i++) {
    if (!x->as.dict.keys.items[i])
      REFUSE(e, &x->at, NOT_SUPPORTED, "Dict expansion (e.g. `{**dict}`) is not supported");
    const type *const *hints = t && !e->names->is_eager ? t->elems : none;
    keys[i] = all[2 * i] = em_expr(e, x->as.dict.keys.items[i], hints[0]);
    values[i] = em_expr(e, x->as.dict.values.items[i], hints[1]);
    all[2 * i + 1] = values[i];
  }
  e->at = x->at;
  const type *key = t ? t->elems[0] : type_simple(TYPE_STRING);
  const type *value = t ? t->elems[1] : type_simple(TYPE_TENSOR);
  if (!n)
    check_empty(e, &h, "dict", "Dict");
  if (n) {
    for (uint32_t i = 1; !t && i < n; i++)
      if (!em_unify(e, keys[0]->type, keys[i]->type, false))
        e->at = x->as.dict.keys.items[i]->at;
    key = common_type(e, keys, n, t ? key : NULL, "Dict keys");
    value = common_type(e, values, n, t ? value : NULL, "Dict values");
    if (!t && h.n > 1) {
      t = em_choose_display(e, &h, key, value);
      key = t->elems[0];
      value = t->elems[1];
    }
  }
  bool fits[2] = {!t || em_is_subtype(e, key, t->elems[0]),
                  !t || em_is_subtype(e, value, t->elems[1])};
  if (e->names->is_eager && !fits[0])
    FAIL(
      e,
      "Type annotation was inferred to be %sbut the type of keys given by the dict literal is %s",
      TYPE_TEXT(e, t), TYPE_TEXT(e, key));
  if (e->names->is_eager && !fits[1])
    FAIL(e,
         "Type annotation was inferred to be `%s`, but the type of values given by the dict "
         "literal is %s",
         TYPE_TEXT(e, t), TYPE_TEXT(e, value));
  resolve_check_key(e->s, key, e->at);
  const type *made = type_dict(&e->p->types, key, value);
  if (!made)
    session_check(e->s, call_nomem(e->s->cx));
  for (uint32_t i = 0; i < n; i++)
    all[2 * i + 1] = em_convert(e, value, values[i], false);
  return em_as_annotated(e, em_put_nowhere(e, IR_DICT_CONSTRUCT, all, 2 * n, made), hint);
}

/* -- f-strings --------------------------------------------------------------------------------- */

ir_value *em_fstring(emitter *e, const ast_expr *x)
{
  uint32_t n = 1;
  ir_value **in = session_array(e->s, ir_value *, x->as.items.n + 1);
  size_t len = 1;
  for (uint32_t i = 0; i < x->as.items.n; i++)
    len += x->as.items.items[i]->kind == EXPR_STRING ? x->as.items.items[i]->as.string.len : 2;
  char *text = session_alloc(e->s, len);
  len = 0;
  for (uint32_t i = 0; i < x->as.items.n; i++) {
    const ast_expr *piece = x->as.items.items[i];
    if (piece->kind == EXPR_STRING) {
      memcpy(text + len, piece->as.string.data, piece->as.string.len);
      len += piece->as.string.len;
      continue;
    }
    if (piece->as.format.conversion || piece->as.format.spec)
      REFUSE(e, &piece->at, NOT_SUPPORTED, "Don't support %s in JoinedStr",
             piece->as.format.conversion ? "conversion" : "formatting");
    memcpy(text + len, "{}", 2);
    len += 2;
    in[n++] = em_expr(e, piece->as.format.value, NULL);
  }
  e->at = x->at;
  in[0] = em_constant_str(e, text, len);
  return em_call_op(e, "aten::format", in, n);
}

/* -- All --------------------------------------------------------------------------------------- */

ir_value *em_literal(emitter *e, const ast_expr *x, const type *hint)
{
  switch (x->kind) {
  case EXPR_INT:
    if (x->op == OP_NEG ||
        (e->names->is_eager && x->as.integer == INT64_MIN)) /* Python's tree has the minus apart */
      FAIL(e, "Integral constant out of range (must fit in a signed 64 bit integer)");
    return x->as.integer < 0 &&
               e->names->is_eager /* to PyTorch the neg of a literal, computed later */
             ? em_constant_int(e, x->as.integer)
             : em_literal_number(e, value_int(x->as.integer), type_simple(TYPE_INT));
  case EXPR_FLOAT:
    return signbit(x->as.number) && e->names->is_eager
               ? em_constant_value(e, value_float(x->as.number), type_simple(TYPE_FLOAT))
               : em_literal_number(e, value_float(x->as.number), type_simple(TYPE_FLOAT));
  case EXPR_IMAG:
    return em_constant_complex(e, x->as.number);
  case EXPR_STRING:
    return em_constant_str(e, x->as.string.data, x->as.string.len);
  case EXPR_TRUE:
    return em_constant_bool(e, true);
  case EXPR_FALSE:
    return em_constant_bool(e, false);
  case EXPR_NONE:
    return em_constant_value(e, value_none(), type_simple(TYPE_NONE));
  case EXPR_LIST:
    return emit_list(e, x, hint);
  case EXPR_TUPLE:
    return emit_tuple(e, x, hint);
  case EXPR_DICT:
    return emit_dict(e, x, hint);
  case EXPR_ELLIPSIS:
    FAIL(e, "Cannot emit expr for: (dots)\n");
  default:
    FAIL(e, "this expression is not supported here");
  }
}
