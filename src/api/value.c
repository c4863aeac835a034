/* api/value.c -- values of rushlight.h: making, reading, object attributes, text. Lists and dicts
 * made from items get the unified type of the items, and are flagged as undecided if they are
 * empty, so that binding to a schema can give them the schema's type. Returned text is allocated
 * with its exact length, because rush_free_text gets only the pointer. */
#include "api/api_int.h"

rush_value rush_value_retain(rush_value v) { return value_retain(v); }
void rush_value_release(rush_value v) { value_release(v); }

/* -- Making ------------------------------------------------------------------------------------ */

rush_status rush_string_create(rush_context *c, const char *utf8, size_t n_bytes, rush_value *out,
                               rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  for (size_t i = 0; i < n_bytes;) {
    size_t step = utf8_check(utf8 + i, n_bytes - i);
    if (!step)
      return error_set(err, RUSH_EARGUMENT, "byte %zu of the text is not UTF-8", i);
    i += step;
  }
  return string_new(&cx, utf8, n_bytes, out);
}

rush_status rush_complex_create(rush_context *c, double re, double im, rush_value *out,
                                rush_error *err)
{
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  return complex_new(&cx, re, im, out);
}

static void mark_undecided(heap *h, bool undecided)
{
  if (undecided)
    h->flags |= VALUE_UNDECIDED;
}

rush_status rush_list_create(rush_context *c, const rush_value *items, size_t n, rush_value *out,
                             rush_error *err)
{
  call_ctx cx;
  rush_list *l;

  TRY(api_begin(&cx, c, err));
  type_store *ts = type_store_of_context(cx.ctx);
  bool undecided = false;
  const type *elem = ts ? type_of_items(ts, items, n, TYPE_TENSOR, &undecided) : NULL;
  if (!elem)
    return error_nomem(err);
  TRY(list_new(&cx, elem, n, &l));
  mark_undecided(&l->h, undecided);
  for (size_t i = 0; i < n; i++)
    l->items[l->n++] = value_retain(items[i]);
  *out = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}

rush_status rush_tuple_create(rush_context *c, const rush_value *items, size_t n, rush_value *out,
                              rush_error *err)
{
  call_ctx cx;
  rush_tuple *t;

  TRY(api_begin(&cx, c, err));
  TRY(tuple_new(&cx, NULL, n, &t));
  for (size_t i = 0; i < n; i++) {
    t->items[i] = value_retain(items[i]);
    mark_undecided(&t->h, value_is_undecided(items[i]));
  }
  *out = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

rush_status rush_dict_create(rush_context *c, const rush_value *keys, const rush_value *values,
                             size_t n, rush_value *out, rush_error *err)
{
  call_ctx cx;
  rush_dict *d;

  TRY(api_begin(&cx, c, err));
  type_store *ts = type_store_of_context(cx.ctx);
  bool undecided = false;
  const type *key = ts ? type_of_items(ts, keys, n, TYPE_STRING, &undecided) : NULL;
  const type *value = ts ? type_of_items(ts, values, n, TYPE_TENSOR, &undecided) : NULL;
  if (!key || !value)
    return error_nomem(err);
  TRY(dict_new(&cx, key, value, &d));
  mark_undecided(&d->h, undecided);
  for (size_t i = 0; i < n; i++) {
    rush_status st = dict_set_steal(&cx, d, value_retain(keys[i]), value_retain(values[i]));
    if (st != RUSH_OK) {
      value_release(value_heap_steal(RUSH_TAG_DICT, d));
      return st;
    }
  }
  *out = value_heap_steal(RUSH_TAG_DICT, d);
  return RUSH_OK;
}

/* -- Reading ----------------------------------------------------------------------------------- */

void rush_value_complex(rush_value v, double *re, double *im)
{
  if (re)
    *re = value_complex(v)->re;
  if (im)
    *im = value_complex(v)->im;
}

const char *rush_value_string(rush_value v, size_t *n_bytes)
{
  if (v.tag != RUSH_TAG_STRING)
    return NULL;
  if (n_bytes)
    *n_bytes = v.as.string->len;
  return v.as.string->text;
}

size_t rush_value_len(rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_LIST:
    return v.as.list->n;
  case RUSH_TAG_TUPLE:
    return v.as.tuple->n;
  case RUSH_TAG_DICT:
    return v.as.dict->n;
  default:
    return 0;
  }
}

rush_value rush_value_item(rush_value v, size_t i)
{
  if (v.tag == RUSH_TAG_LIST && i < v.as.list->n)
    return v.as.list->items[i];
  if (v.tag == RUSH_TAG_TUPLE && i < v.as.tuple->n)
    return v.as.tuple->items[i];
  return value_unset();
}

const char *rush_value_class(rush_value v)
{
  switch (v.tag) {
  case RUSH_TAG_OBJECT:
    return v.as.object->type->name;
  case RUSH_TAG_ENUM:
    return value_enum(v)->type->name;
  case RUSH_TAG_CUSTOM:
    return ((const custom_value *)v.as.heap)->cls->name;
  case RUSH_TAG_TUPLE:
    return v.as.tuple->type ? v.as.tuple->type->name : NULL;
  default:
    return NULL;
  }
}

const char *rush_enum_name(rush_value v, rush_value *value)
{
  if (v.tag != RUSH_TAG_ENUM)
    return NULL;
  if (value)
    *value = value_enum(v)->value;
  return value_enum(v)->name->text;
}

const char *rush_value_field(rush_value v, size_t i)
{
  const type *t = v.tag == RUSH_TAG_TUPLE ? v.as.tuple->type : NULL;

  return t && t->fields && i < t->n_elems ? t->fields[i] : NULL;
}

void rush_value_entry(rush_value v, size_t i, rush_value *key, rush_value *value)
{
  size_t pos = 0;
  dict_entry *e = NULL;

  rush_value unwanted;
  key = key ? key : &unwanted;
  value = value ? value : &unwanted;
  *key = *value = value_unset();
  if (v.tag != RUSH_TAG_DICT)
    return;
  if (v.as.dict->n == v.as.dict->n_used && i < v.as.dict->n) { /* nothing was ever deleted */
    e = &v.as.dict->entries[i];
  } else {
    for (size_t k = 0; k <= i; k++)
      if (!(e = dict_next(v.as.dict, &pos)))
        return;
  }
  *key = e->key;
  *value = e->value;
}

rush_value rush_object_attr(rush_value object, const char *name)
{
  if (object.tag != RUSH_TAG_OBJECT)
    return value_unset();
  int slot = class_attr_index(object.as.object->type, str_of(name));
  if (slot < 0) {
    const class_attr *c = class_constant(object.as.object->type, str_of(name));
    return c ? value_retain(c->constant) : value_unset();
  }
  call_lock *lock = object_lock(object.as.object);
  rush_value v = value_unset();
  lock_hold hold;
  call_ctx cx;

  if (!lock)
    return value_retain(object.as.object->slots[slot]);
  call_ctx_init(&cx, object.as.object->h.ctx, NULL);
  call_set_deadline(&cx, UINT64_MAX); /* the caller cannot be informed of the deadline */
  if (lock_take(&cx, lock, LOCK_SHARED, &hold) != RUSH_OK)
    return v;
  if (value_snapshot(&cx, object.as.object->slots[slot], lock, &v) != RUSH_OK)
    v = value_unset();
  lock_drop(&hold);
  return v;
}

size_t rush_object_n_attrs(rush_value object)
{
  return object.tag == RUSH_TAG_OBJECT ? object.as.object->type->cls->n_attrs : 0;
}

const char *rush_object_attr_name(rush_value object, size_t i)
{
  return i < rush_object_n_attrs(object) ? object.as.object->type->cls->attrs[i].name : NULL;
}

bool rush_object_is_module(rush_value object)
{
  return object.tag == RUSH_TAG_OBJECT && object.as.object->type->cls->is_module;
}

unsigned rush_object_slot_kind(rush_value object, size_t i)
{
  if (i >= rush_object_n_attrs(object))
    return 0;
  const class_attr *a = &object.as.object->type->cls->attrs[i];
  bool is_module =
    (a->type->kind == TYPE_CLASS && a->type->cls && a->type->cls->is_module) ||
    (a->type->kind == TYPE_INTERFACE && a->type->cls && a->type->cls->is_module_interface);
  return (a->is_parameter ? RUSH_SLOT_PARAMETER : 0u) | (a->is_buffer ? RUSH_SLOT_BUFFER : 0u) |
         (is_module ? RUSH_SLOT_MODULE : 0u);
}

rush_status rush_object_set_attr(rush_context *c, rush_value object, const char *name, rush_value v,
                                 rush_error *err)
{
  int slot =
    object.tag == RUSH_TAG_OBJECT ? class_attr_index(object.as.object->type, str_of(name)) : -1;
  bool fits = false;
  rush_value made;
  call_ctx cx;

  TRY(api_begin(&cx, c, err));
  if (slot < 0)
    return error_set_type(err, RUSH_EARGUMENT, "AttributeError",
                          "there is no attribute '%s' to set", name);
  TRY(value_bind(&cx, object.as.object->type->cls->attrs[slot].type, v, &fits, &made));
  if (!fits)
    return error_set_type(err, RUSH_EARGUMENT, "TypeError",
                          "attribute '%s' takes no value of this type", name);
  lock_hold hold;
  rush_status st = lock_take(&cx, object_lock(object.as.object), LOCK_EXCLUSIVE, &hold);
  if (st != RUSH_OK) {
    value_release(made);
    return st;
  }
  rush_value old = object.as.object->slots[slot];
  object.as.object->slots[slot] = made;
  object_changed(object.as.object);
  lock_drop(&hold);
  value_release(old);
  return RUSH_OK;
}

rush_status rush_value_to_text(rush_context *c, rush_value v, bool repr, char **out,
                               rush_error *err)
{
  call_ctx cx;
  text_buf t;

  TRY(api_begin(&cx, c, err));
  text_init(&t, cx.ctx);
  rush_status st;
  if (repr && v.tag == RUSH_TAG_TENSOR && v.as.tensor)
    st = tensor_print_python(&cx, &t, v.as.tensor);
  else
    st = repr ? value_repr(&cx, &t, v) : value_print(&cx, &t, v);
  return api_text(&cx, st, &t, out);
}

rush_status api_text(call_ctx *cx, rush_status st, text_buf *t, char **out)
{
  if (st == RUSH_OK && text_failed(t))
    st = call_nomem(cx);
  if (st == RUSH_OK && out) {
    /* rush_free_text gets only the pointer, so the block is exactly as long as the text. */
    char *copy = mem_alloc(cx->ctx, t->len + 1);
    if (copy)
      *out = memcpy(copy, text_str(t), t->len + 1);
    else
      st = call_nomem(cx);
  }
  text_free(t);
  return st;
}

void rush_free_text(rush_context *c, char *text)
{
  if (text)
    mem_free(context_or_default(c), text, strlen(text) + 1);
}
