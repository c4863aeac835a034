/* export/capture_value.c -- values of a captured function as a whole: what is inside of a list,
 * tuple or dict, copies of them, and texts.
 *
 * A text that is made of sizes, or of tensors whose data are not known, is made of what they are
 * now and noted.  Printing it, warning with it or raising it needs nothing else; whatever else
 * reads it fixes the sizes first, or is refused. */
#include "export/capture_int.h"

typedef struct text_source { /* what a text was made of */
  const rush_value *values;
  uint32_t n;
} text_source;

rush_value capture_hold(capture *c, rush_value v)
{
  session_defer_value(c->s, v);
  if ((v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_DICT) &&
      !table_get(&c->homes, address_key(v.as.heap)))
    session_table_put(c->s, &c->homes, address_key(v.as.heap), c->g);
  return v;
}

void capture_check_container(capture *c, rush_value v)
{
  if (c->branch && (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_DICT) &&
      table_get(&c->homes, address_key(v.as.heap)) != c->g)
    capture_fail(c, "a branch on data changes a list or dict of outside, which torch.cond does not "
                    "allow");
}

/* -- Walks ------------------------------------------------------------------------------------- */

static rush_value rebuild_list(capture *c, const rush_list *from, capture_leaf *leaf, void *arg)
{
  session *s = c->s;
  rush_list *l;

  session_check(s, list_new(s->cx, from->elem, from->n, &l));
  const rush_value made = capture_hold(c, value_heap_steal(RUSH_TAG_LIST, l));
  for (size_t i = 0; i < from->n; i++)
    session_check(s, list_append_steal(
                       s->cx, l, value_retain(capture_rebuild(c, from->items[i], leaf, arg))));
  return made;
}

static rush_value rebuild_tuple(capture *c, const rush_tuple *from, capture_leaf *leaf, void *arg)
{
  rush_tuple *t;

  session_check(c->s, tuple_new(c->s->cx, from->type, from->n, &t));
  const rush_value made = capture_hold(c, value_heap_steal(RUSH_TAG_TUPLE, t));
  for (size_t i = 0; i < t->n; i++)
    t->items[i] = value_retain(capture_rebuild(c, from->items[i], leaf, arg));
  return made;
}

static rush_value rebuild_dict(capture *c, const rush_dict *from, capture_leaf *leaf, void *arg)
{
  session *s = c->s;
  size_t pos = 0;
  rush_dict *d;

  session_check(s, dict_new(s->cx, from->key, from->value, &d));
  const rush_value made = capture_hold(c, value_heap_steal(RUSH_TAG_DICT, d));
  for (dict_entry *e; (e = dict_next(from, &pos)) != NULL;)
    session_check(s, dict_set_steal(s->cx, d, value_retain(e->key),
                                    value_retain(capture_rebuild(c, e->value, leaf, arg))));
  return made;
}

rush_value capture_rebuild(capture *c, rush_value v, capture_leaf *leaf, void *arg)
{
  rush_value made;

  session_enter(c->s);
  if (v.tag == RUSH_TAG_LIST)
    made = rebuild_list(c, v.as.list, leaf, arg);
  else if (v.tag == RUSH_TAG_TUPLE)
    made = rebuild_tuple(c, v.as.tuple, leaf, arg);
  else if (v.tag == RUSH_TAG_DICT)
    made = rebuild_dict(c, v.as.dict, leaf, arg);
  else
    made = leaf(c, v, arg);
  session_leave(c->s);
  return made;
}

typedef bool leaf_test(capture *c, rush_value leaf);

/* True if the test holds of a value, or of one inside. */
static bool any_leaf(capture *c, rush_value v, leaf_test *test)
{
  const rush_value *items = v.tag == RUSH_TAG_LIST    ? v.as.list->items
                            : v.tag == RUSH_TAG_TUPLE ? v.as.tuple->items
                                                      : NULL;
  const size_t n = v.tag == RUSH_TAG_LIST ? v.as.list->n : items ? v.as.tuple->n : 0;
  size_t pos = 0;
  bool found = false;

  if (v.tag != RUSH_TAG_LIST && v.tag != RUSH_TAG_TUPLE && v.tag != RUSH_TAG_DICT)
    return test(c, v);
  session_enter(c->s);
  for (size_t i = 0; i < n && !found; i++)
    found = any_leaf(c, items[i], test);
  for (dict_entry *e; v.tag == RUSH_TAG_DICT && !found && (e = dict_next(v.as.dict, &pos)) != NULL;)
    found = any_leaf(c, e->key, test) || any_leaf(c, e->value, test);
  session_leave(c->s);
  return found;
}

/* -- What is not known ------------------------------------------------------------------------- */

static text_source *source_of(capture *c, rush_value v)
{
  return v.tag == RUSH_TAG_STRING ? table_get(&c->texts, address_key(v.as.string)) : NULL;
}

static bool is_symbolic(capture *c, rush_value v)
{
  return capture_number_of(v) || source_of(c, v);
}

static bool is_unknown_tensor(capture *c, rush_value v)
{
  return v.tag == RUSH_TAG_TENSOR && v.as.tensor &&
         !capture_is_known(capture_tensor_of(c, v.as.tensor));
}

static bool is_unknown(capture *c, rush_value v)
{
  return is_symbolic(c, v) || is_unknown_tensor(c, v);
}

bool capture_has_number(capture *c, rush_value v) { return any_leaf(c, v, is_symbolic); }
bool capture_has_unknown(capture *c, rush_value v) { return any_leaf(c, v, is_unknown); }
bool capture_has_data(capture *c, rush_value v) { return any_leaf(c, v, is_unknown_tensor); }

static rush_value fixed_leaf(capture *c, rush_value v, void *arg)
{
  const text_source *text = source_of(c, v);

  (void)arg;
  for (uint32_t i = 0; text && i < text->n; i++) {
    if (capture_has_data(c, text->values[i]))
      capture_fail(c, "the program decides by a text that is made of a tensor's data");
    (void)capture_fix(c, text->values[i]);
  }
  return capture_number_of(v) ? capture_fix_number(c, v) : v;
}

rush_value capture_fix(capture *c, rush_value v)
{
  return capture_has_number(c, v) ? capture_rebuild(c, v, fixed_leaf, NULL) : v;
}

void capture_fix_items(capture *c, rush_list *l)
{
  for (size_t i = 0; i < l->n; i++) /* a list does not drop symbolic numbers */
    if (capture_has_number(c, l->items[i]))
      l->items[i] = value_retain(capture_fix(c, l->items[i]));
}

static rush_value plain_leaf(capture *c, rush_value v, void *arg)
{
  (void)c;
  (void)arg;
  return capture_plain_number(v);
}

rush_value capture_text_of(capture *c, const op *o, const rush_value *args, uint32_t n)
{
  rush_value *plain = session_array(c->s, rush_value, (size_t)n + 1);
  rush_value *values = session_array(c->s, rush_value, (size_t)n + 1);
  text_source *source = session_new(c->s, text_source);
  rush_value text, made;

  for (uint32_t i = 0; i < n; i++) {
    values[i] = capture_copy(c, args[i]); /* lists may change */
    plain[i] = capture_rebuild(c, args[i], plain_leaf, NULL);
  }
  session_check(c->s, op_invoke(c->s->cx, o, plain, n, &text, 1));
  capture_hold(c, text);
  session_check(c->s, string_new(c->s->cx, text.as.string->text, text.as.string->len, &made));
  *source = (text_source){values, n};
  session_table_put(c->s, &c->texts, address_key(made.as.string), source);
  return capture_hold(c, made);
}

/* -- Copies ------------------------------------------------------------------------------------ */

static rush_value same_leaf(capture *c, rush_value v, void *arg)
{
  (void)c;
  (void)arg;
  return v;
}

rush_value capture_copy(capture *c, rush_value v)
{
  return capture_rebuild(c, v, same_leaf, NULL);
}

rush_value capture_own_copy(capture *c, rush_value v)
{
  const bool is_container =
    v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE || v.tag == RUSH_TAG_DICT;
  const rush_value *copy = is_container ? table_get(&c->copies, address_key(v.as.heap)) : NULL;

  if (is_container && !copy) {
    rush_value *made = session_new(c->s, rush_value);
    fx_graph *g = c->g;
    c->g = c->p->graph; /* it is of outside, wherever it is read first */
    *made = capture_copy(c, v);
    c->g = g;
    session_table_put(c->s, &c->copies, address_key(v.as.heap), made);
    copy = made;
  }
  return copy ? *copy : v;
}

bool capture_is_of_type(const type *t, rush_value v)
{
  const capture_number *n = capture_number_of(v);
  bool all = true;

  if (t->kind == TYPE_OPTIONAL)
    return v.tag == RUSH_TAG_NONE || capture_is_of_type(type_elem(t), v);
  if (type_has_vars(t) && t->kind != TYPE_LIST)
    return t->kind != TYPE_DICT || v.tag == RUSH_TAG_DICT;
  const type_kind kind = type_runtime(t)->kind;
  if (n)
    return kind == TYPE_NUMBER || kind == (n->kind == FX_VAL_INT     ? TYPE_INT
                                           : n->kind == FX_VAL_FLOAT ? TYPE_FLOAT
                                                                     : TYPE_BOOL);
  if (kind == TYPE_TENSOR)
    return v.tag == RUSH_TAG_TENSOR && v.as.tensor;
  if (kind != TYPE_LIST)
    return type_contains_value(type_runtime(t), v);
  if (type_elem(t)->kind == TYPE_VAR) /* of anything: l[i] and l.append(x) look at no other items */
    return v.tag == RUSH_TAG_LIST;
  for (size_t i = 0; v.tag == RUSH_TAG_LIST && i < v.as.list->n; i++)
    all &= capture_is_of_type(type_elem(t), v.as.list->items[i]);
  return v.tag == RUSH_TAG_LIST && all;
}
