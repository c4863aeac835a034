/* ops/kernels/values/dict.c -- operators on dicts, each a few lines around value/dict.c. Keys,
 * values and items are new lists in insertion order, O(n). popitem removes the oldest entry: that
 * is what TorchScript does, although Python removes the newest. */
#include "base/macros.h"
#include "ops/point/scalar.h"

#define RETURN_BOOL(e) return call->results[0] = value_bool(e), RUSH_OK

static rush_dict *dict_at(const rush_call *call, uint32_t i) { return call->args[i].as.dict; }

static rush_status key_error(rush_call *call)
{
  text_buf t;
  text_init(&t, call->cx->ctx);
  rush_status st = value_print(call->cx, &t, call->args[1]);
  if (st == RUSH_OK)
    st = call_fail(call->cx, "KeyError: %s", text_str(&t));
  text_free(&t);
  return st;
}

static rush_status set_retained(call_ctx *cx, rush_dict *d, rush_value key, rush_value value)
{
  return dict_set_steal(cx, d, value_retain(key), value_retain(value));
}

/* -- Reading ----------------------------------------------------------------------------------- */

rush_kernel kernel_dict_len, kernel_dict_contains, kernel_dict_getitem, kernel_dict_get,
    kernel_dict_get_default;
rush_status kernel_dict_len(rush_call *call)
{
  call->results[0] = value_int((int64_t)dict_at(call, 0)->n);
  return RUSH_OK;
}

rush_status kernel_dict_contains(rush_call *call)
{
  RETURN_BOOL(dict_get(dict_at(call, 0), call->args[1]) != NULL);
}

rush_status kernel_dict_getitem(rush_call *call)
{
  const rush_value *v = dict_get(dict_at(call, 0), call->args[1]);
  if (!v)
    return key_error(call);
  call->results[0] = value_retain(*v);
  return RUSH_OK;
}

rush_status kernel_dict_get(rush_call *call)
{
  const rush_value *v = dict_get(dict_at(call, 0), call->args[1]);
  call->results[0] = v ? value_retain(*v) : value_none();
  return RUSH_OK;
}

rush_status kernel_dict_get_default(rush_call *call)
{
  const rush_value *v = dict_get(dict_at(call, 0), call->args[1]);
  call->results[0] = value_retain(v ? *v : call->args[2]);
  return RUSH_OK;
}

/* -- Lists of what is inside ------------------------------------------------------------------- */

static rush_status list_parts(rush_call *call, bool keys)
{
  const rush_dict *d = dict_at(call, 0);
  rush_list *l;
  size_t pos = 0;
  TRY(list_new(call->cx, keys ? d->key : d->value, d->n, &l));
  for (dict_entry *e; (e = dict_next(d, &pos));)
    l->items[l->n++] = value_retain(keys ? e->key : e->value);
  call->results[0] = value_heap_steal(RUSH_TAG_LIST, l);
  return RUSH_OK;
}

rush_kernel kernel_dict_keys, kernel_dict_values, kernel_dict_items;
rush_status kernel_dict_keys(rush_call *call) { return list_parts(call, true); }
rush_status kernel_dict_values(rush_call *call) { return list_parts(call, false); }

static rush_status pair_new(call_ctx *cx, rush_value key, rush_value value, rush_value *out)
{
  rush_tuple *t;
  TRY(tuple_new(cx, NULL, 2, &t));
  t->items[0] = value_retain(key);
  t->items[1] = value_retain(value);
  *out = value_heap_steal(RUSH_TAG_TUPLE, t);
  return RUSH_OK;
}

rush_status kernel_dict_items(rush_call *call)
{
  const rush_dict *d = dict_at(call, 0);
  type_store *ts = type_store_of_context(call->cx->ctx);
  const type *parts[2] = {d->key, d->value};
  const type *pair = ts ? type_tuple(ts, parts, 2) : NULL;
  rush_list *l;
  size_t pos = 0;
  if (!pair)
    return call_nomem(call->cx);
  TRY(list_new(call->cx, pair, d->n, &l));
  rush_status st = RUSH_OK;
  for (dict_entry *e; st == RUSH_OK && (e = dict_next(d, &pos));) {
    st = pair_new(call->cx, e->key, e->value, &l->items[l->n]);
    l->n += st == RUSH_OK;
  }
  if (st == RUSH_OK)
    call->results[0] = value_heap_steal(RUSH_TAG_LIST, l);
  else
    value_release(value_heap_steal(RUSH_TAG_LIST, l));
  return st;
}

/* -- Writing ----------------------------------------------------------------------------------- */

rush_kernel kernel_dict_setitem, kernel_dict_setdefault, kernel_dict_pop, kernel_dict_pop_default,
    kernel_dict_popitem, kernel_dict_delete, kernel_dict_clear, kernel_dict_update;
rush_status kernel_dict_setitem(rush_call *call)
{
  return set_retained(call->cx, dict_at(call, 0), call->args[1], call->args[2]);
}

rush_status kernel_dict_setdefault(rush_call *call)
{
  const rush_value *v = dict_get(dict_at(call, 0), call->args[1]);
  if (v) {
    call->results[0] = value_retain(*v);
    return RUSH_OK;
  }
  TRY(kernel_dict_setitem(call));
  call_return_arg(call, 0, 2);
  return RUSH_OK;
}

rush_status kernel_dict_pop(rush_call *call)
{
  return dict_remove(dict_at(call, 0), call->args[1], &call->results[0]) ? RUSH_OK
                                                                         : key_error(call);
}

rush_status kernel_dict_pop_default(rush_call *call)
{
  if (!dict_remove(dict_at(call, 0), call->args[1], &call->results[0]))
    call_return_arg(call, 0, 2);
  return RUSH_OK;
}

/* Remove the oldest entry, not the newest as Python does. */
rush_status kernel_dict_popitem(rush_call *call)
{
  rush_dict *d = dict_at(call, 0);
  size_t pos = 0;
  dict_entry *e = dict_next(d, &pos);
  if (!e)
    return call_fail(call->cx, "popitem(): dictionary is empty");
  TRY(pair_new(call->cx, e->key, e->value, &call->results[0]));
  (void)dict_remove(d, call->results[0].as.tuple->items[0], NULL);
  return RUSH_OK;
}

rush_status kernel_dict_delete(rush_call *call)
{
  return dict_remove(dict_at(call, 0), call->args[1], NULL) ? RUSH_OK : key_error(call);
}

rush_status kernel_dict_clear(rush_call *call)
{
  dict_clear(dict_at(call, 0));
  return RUSH_OK;
}

static rush_status update(call_ctx *cx, rush_dict *d, const rush_dict *from)
{
  size_t pos = 0;
  if (d == from)
    return RUSH_OK;
  for (dict_entry *e; (e = dict_next(from, &pos));)
    TRY(set_retained(cx, d, e->key, e->value));
  return RUSH_OK;
}

rush_status kernel_dict_update(rush_call *call)
{
  return update(call->cx, dict_at(call, 0), dict_at(call, 1));
}

/* -- Making ------------------------------------------------------------------------------------ */

static rush_status return_dict(rush_call *call, rush_dict *d, rush_status st)
{
  if (st == RUSH_OK)
    call->results[0] = value_heap_steal(RUSH_TAG_DICT, d);
  else
    value_release(value_heap_steal(RUSH_TAG_DICT, d));
  return st;
}

rush_kernel kernel_dict_copy, kernel_dict_of_pairs, kernel_dict_empty;
rush_status kernel_dict_copy(rush_call *call)
{
  const rush_dict *from = dict_at(call, 0);
  rush_dict *d;
  TRY(dict_new(call->cx, from->key, from->value, &d));
  return return_dict(call, d, update(call->cx, d, from));
}

rush_status kernel_dict_of_pairs(rush_call *call)
{
  const rush_list *l = call_list(call, 0);
  const type *any = type_simple(TYPE_ANY), *pair = l->elem;
  bool typed = pair->kind == TYPE_TUPLE && pair->n_elems == 2;
  rush_dict *d;
  TRY(dict_new(call->cx, typed ? pair->elems[0] : any, typed ? pair->elems[1] : any, &d));
  rush_status st = RUSH_OK;
  for (size_t i = 0; st == RUSH_OK && i < l->n; i++) {
    const rush_tuple *t = l->items[i].tag == RUSH_TAG_TUPLE ? l->items[i].as.tuple : NULL;
    st = t && t->n == 2 ? set_retained(call->cx, d, t->items[0], t->items[1])
                        : call_fail(call->cx, "aten::dict: expected a list of pairs");
  }
  return return_dict(call, d, st);
}

rush_status kernel_dict_empty(rush_call *call)
{
  rush_dict *d;
  TRY(dict_new(call->cx, type_simple(TYPE_STRING), type_simple(TYPE_TENSOR), &d));
  return return_dict(call, d, RUSH_OK);
}
