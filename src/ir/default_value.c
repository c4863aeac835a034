/* ir/default_value.c -- makes some value of a type, for `uninitialized(T)` in files, if a program
 * reads it. */
#include "ir/program.h"

bool type_has_some_value(const type *t)
{
  switch ((int)type_runtime(t)->kind) {
  case TYPE_INT:
  case TYPE_NUMBER:
  case TYPE_FLOAT:
  case TYPE_BOOL:
  case TYPE_STRING:
  case TYPE_NONE:
  case TYPE_OPTIONAL:
  case TYPE_ANY:
  case TYPE_DEVICE:
  case TYPE_LIST:
  case TYPE_DICT:
  case TYPE_TENSOR:
  case TYPE_COMPLEX:
    return true;
  case TYPE_TUPLE:
    for (uint32_t i = 0; i < t->n_elems; i++)
      if (!type_has_some_value(t->elems[i]))
        return false;
    return true;
  case TYPE_UNION: return t->n_elems && type_has_some_value(t->elems[0]);
  case TYPE_CLASS: return t->cls != NULL;
  case TYPE_ENUM: return t->cls && t->cls->n_members;
  default: return false;
  }
}

static rush_status some_tuple(call_ctx *cx, const type *t, rush_value *out)
{
  rush_tuple *made;

  TRY(tuple_new(cx, t->fields ? t : NULL, t->n_elems, &made));
  rush_value v = value_heap_steal(RUSH_TAG_TUPLE, made);
  for (uint32_t i = 0; i < t->n_elems; i++) {
    rush_status st = value_some(cx, t->elems[i], &made->items[i]);
    if (st != RUSH_OK) {
      value_release(v);
      return st;
    }
  }
  *out = v;
  return RUSH_OK;
}

static rush_status some_heap(call_ctx *cx, const type *t, rush_value *out)
{
  static const int64_t none[1] = {0};
  rush_tensor *tensor;
  rush_object *object;
  rush_list *list;
  rush_dict *dict;

  switch ((int)t->kind) {
  case TYPE_STRING: return string_new(cx, "", 0, out);
  case TYPE_COMPLEX: return complex_new(cx, 0, 0, out);
  case TYPE_TUPLE: return some_tuple(cx, t, out);
  case TYPE_LIST:
    TRY(list_new(cx, t->elems[0], 0, &list));
    *out = value_heap_steal(RUSH_TAG_LIST, list);
    return RUSH_OK;
  case TYPE_DICT:
    TRY(dict_new(cx, t->elems[0], t->elems[1], &dict));
    *out = value_heap_steal(RUSH_TAG_DICT, dict);
    return RUSH_OK;
  case TYPE_TENSOR:
    TRY(tensor_new(cx, RUSH_FLOAT32, 1, none, &tensor));
    *out = value_tensor_steal(tensor);
    return RUSH_OK;
  default:
    TRY(object_new(cx, t, t->cls->n_attrs, &object));
    *out = value_heap_steal(RUSH_TAG_OBJECT, object);
    return RUSH_OK;
  }
}

rush_status value_some(call_ctx *cx, const type *t, rush_value *out)
{
  if (!type_has_some_value(t))
    return call_unsupported(cx, "some value of a type that has none");
  switch ((int)type_runtime(t)->kind) {
  case TYPE_INT: case TYPE_NUMBER: *out = value_int(0); return RUSH_OK;
  case TYPE_FLOAT: *out = value_float(0); return RUSH_OK;
  case TYPE_BOOL: *out = value_bool(false); return RUSH_OK;
  case TYPE_DEVICE: *out = value_device(0, -1); return RUSH_OK;
  case TYPE_NONE: case TYPE_OPTIONAL: case TYPE_ANY: *out = value_none(); return RUSH_OK;
  case TYPE_ENUM: *out = value_retain(t->cls->enum_members[0]); return RUSH_OK;
  case TYPE_UNION: return value_some(cx, t->elems[0], out);
  default: return some_heap(cx, type_runtime(t), out);
  }
}
