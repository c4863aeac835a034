/* archive/pickler.c -- writes values as pickles, one recursive walk with a memo for shared parts
 * (pickler.h). */
#include "archive/pickler.h"

#include "archive/unpickle.h"
#include "base/grow.h"
#include "ops/call/call.h"
#include "run/code.h"
#include "tensor/sparse.h"

static void free_memo(void *p) { table_free(&((pickler *)p)->memo); }

pickler *pickler_new(script_uses *u)
{
  pickler *p = session_new(u->s, pickler);

  p->s = u->s;
  p->uses = u;
  p->w = pickle_writer_new(u->s);
  table_init(&p->memo, u->s->cx->ctx);
  session_defer(u->s, free_memo, p);
  return p;
}

/* -- Objects written before -------------------------------------------------------------------- */

static str memo_key(pickler *p, char kind, const void *address)
{
  char *key = session_alloc(p->s, 1 + sizeof address);

  key[0] = kind;
  memcpy(key + 1, &address, sizeof address);
  return (str){key, 1 + sizeof address};
}

static bool recall(pickler *p, str key)
{
  uintptr_t known = (uintptr_t)table_get(&p->memo, key);

  if (known)
    pickle_get_memo(p->w, (uint32_t)(known - 1));
  return known != 0;
}

static void remember_key(pickler *p, str key)
{
  session_table_put(p->s, &p->memo, key, (void *)((uintptr_t)pickle_put(p->w) + 1));
}

static void put_global(pickler *p, const char *qualified)
{
  const char *dot = strrchr(qualified, '.');

  if (!dot)
    dot = qualified;
  pickle_global(p->w, (str){qualified, (size_t)(dot - qualified)}, str_of(*dot ? dot + 1 : dot));
}

static void put_op(pickler *p, pickle_opcode code) { pickle_op(p->w, code); }

/* -- Tensors ----------------------------------------------------------------------------------- */

static uint32_t storage_number(pickler *p, storage *st)
{
  bool foreign = st->origin == STORAGE_FOREIGN &&
                 st->n_bytes; /* the caller's memory may have been passed as several storages */
  str key = memo_key(p, 'n', foreign ? st->data : (void *)st);
  uintptr_t known = (uintptr_t)table_get(&p->memo, key);

  if (known && foreign && p->storages[known - 1]->n_bytes < st->n_bytes) {
    key = memo_key(p, 'n', st);
    known = (uintptr_t)table_get(&p->memo, key);
  }
  if (known)
    return (uint32_t)(known - 1);
  GROW(p->s, p->storages, p->n_storages, p->cap_storages, 32);
  p->storages[p->n_storages++] = st;
  session_table_put(p->s, &p->memo, key, (void *)(uintptr_t)p->n_storages);
  return p->n_storages - 1;
}

static void put_storage(pickler *p, const rush_tensor *t)
{
  uint32_t number = storage_number(p, t->st);
  str key = memo_key(p, (char)(64 + t->dtype), (void *)(uintptr_t)number);

  if (recall(p, key))
    return;
  put_op(p, PICKLE_OP_MARK);
  pickle_str(p->w, STR("storage"));
  put_global(p, session_printf(p->s, "torch.%sStorage", dtype_aten_name(t->dtype)));
  pickle_str(p->w, str_of(session_printf(p->s, "%u", number)));
  pickle_str(p->w, t->st->origin == STORAGE_META ? STR("meta") : STR("cpu"));
  pickle_int(p->w, (int64_t)(t->st->n_bytes / dtype_bytes(t->dtype)));
  put_op(p, PICKLE_OP_TUPLE);
  put_op(p, PICKLE_OP_BINPERSID);
  remember_key(p, key);
}

static void put_ints(pickler *p, const int64_t *v, int n)
{
  put_op(p, PICKLE_OP_MARK);
  for (int i = 0; i < n; i++)
    pickle_int(p->w, v[i]);
  put_op(p, PICKLE_OP_TUPLE);
}

static void put_tensor(pickler *p, rush_tensor *t);

static void put_quantizer(pickler *p, const quantizer *q)
{
  put_op(p, PICKLE_OP_MARK);
  if (q->per_channel) {
    bool real = dtype_is_float(q->zero_points->dtype);
    put_global(p, real ? "torch.per_channel_affine_float_qparams" : "torch.per_channel_affine");
    put_tensor(p, q->scales);
    put_tensor(p, q->zero_points);
    pickle_int(p->w, q->axis);
  } else {
    put_global(p, "torch.per_tensor_affine");
    pickle_double(p->w, q->scale);
    pickle_int(p->w, q->zero_point);
  }
  put_op(p, PICKLE_OP_TUPLE);
}

static void put_no_hooks(pickler *p)
{
  put_global(p, "collections.OrderedDict");
  put_op(p, PICKLE_OP_EMPTY_TUPLE);
  put_op(p, PICKLE_OP_REDUCE);
}

static void put_parts(pickler *p, const sparse_parts *of)
{
  if (of->crow)
    put_tensor(p, of->crow);
  put_tensor(p, of->indices);
  put_tensor(p, of->values);
}

/* Write (layout, (indices, values, sizes[, is_coalesced])), as torch.save does. */
static void put_saved_sparse(pickler *p, const rush_tensor *t, const sparse_parts *of)
{
  put_global(p, "torch.serialization._get_layout");
  put_op(p, PICKLE_OP_MARK);
  pickle_str(p->w, of->crow ? STR("torch.sparse_csr") : STR("torch.sparse_coo"));
  put_op(p, PICKLE_OP_TUPLE);
  put_op(p, PICKLE_OP_REDUCE);
  put_op(p, PICKLE_OP_MARK);
  put_parts(p, of);
  put_global(p, "torch.Size");
  put_op(p, PICKLE_OP_MARK);
  put_ints(p, t->sizes, t->n_dims);
  put_op(p, PICKLE_OP_TUPLE);
  put_op(p, PICKLE_OP_REDUCE);
  if (!of->crow)
    pickle_bool(p->w, of->is_coalesced);
  put_op(p, PICKLE_OP_TUPLE);
}

/* Write a sparse tensor. In archives of programs: (layout, sizes, requires_grad, indices, values,
 * hooks); is_coalesced is lost there. */
static void put_sparse(pickler *p, const rush_tensor *t)
{
  const sparse_parts *of = tensor_sparse(t);

  put_global(p, "torch._utils._rebuild_sparse_tensor");
  put_op(p, PICKLE_OP_MARK);
  if (p->is_plain) {
    put_saved_sparse(p, t, of);
  } else {
    pickle_int(p->w, of->layout);
    put_ints(p, t->sizes, t->n_dims);
    pickle_bool(p->w, tensor_requires_grad(t));
    put_parts(p, of);
    put_no_hooks(p);
  }
  put_op(p, PICKLE_OP_TUPLE);
  put_op(p, PICKLE_OP_REDUCE);
}

static void put_tensor(pickler *p, rush_tensor *t)
{
  str key = memo_key(p, 'v', t);

  if (recall(p, key))
    return;
  const quantizer *q = tensor_quantizer(t);
  if (tensor_sparse(t)) {
    put_sparse(p, t);
    remember_key(p, key);
    return;
  }
  if (t->extra && t->extra->nested)
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, NULL, "a nested tensor cannot be saved");
  put_global(p, q ? "torch._utils._rebuild_qtensor" : "torch._utils._rebuild_tensor_v2");
  put_op(p, PICKLE_OP_MARK);
  put_storage(p, t);
  pickle_int(p->w, t->offset);
  put_ints(p, t->sizes, t->n_dims);
  put_ints(p, t->strides, t->n_dims);
  if (q)
    put_quantizer(p, q);
  pickle_bool(p->w, tensor_requires_grad(t));
  put_no_hooks(p);
  put_op(p, PICKLE_OP_TUPLE);
  put_op(p, PICKLE_OP_REDUCE);
  remember_key(p, key);
}

/* -- Containers -------------------------------------------------------------------------------- */

static const char *type_words(pickler *p, const char *form, const type *a, const type *b)
{
  text_buf *out = session_text(p->s);

  text_puts(out, form);
  for (int i = 0; i < 2; i++) {
    const type *t = i ? b : a;
    if (!t)
      continue;
    script_use_type(p->uses, t);
    text_puts(out, i ? ", " : "");
    type_print_annotation(out, t);
  }
  text_putc(out, ']');
  return session_take_text(p->s, out);
}

static void put_items(pickler *p, const rush_value *items, size_t n, const type *elem)
{
  put_op(p, PICKLE_OP_EMPTY_LIST);
  put_op(p, PICKLE_OP_MARK);
  for (size_t i = 0; i < n; i++)
    pickler_put(p, items[i], elem);
  put_op(p, PICKLE_OP_APPENDS);
}

static void put_list(pickler *p, const rush_list *l, const type *t)
{
  const type *elem =
    l->elem->kind == TYPE_ANY && t && t->kind == TYPE_LIST ? type_elem(t) : l->elem;
  const char *build = NULL;

  if (p->is_plain) {
    put_items(p, l->items, l->n, NULL);
    return;
  }
  switch ((int)type_runtime(elem)->kind) {
  case TYPE_INT: build = "torch.jit._pickle.build_intlist"; break;
  case TYPE_FLOAT: build = "torch.jit._pickle.build_doublelist"; break;
  case TYPE_BOOL: build = "torch.jit._pickle.build_boollist"; break;
  case TYPE_TENSOR: build = "torch.jit._pickle.build_tensorlist"; break;
  }
  put_global(p, build ? build : "torch.jit._pickle.restore_type_tag");
  if (build)
    put_op(p, PICKLE_OP_MARK);
  put_items(p, l->items, l->n, elem);
  if (!build)
    pickle_str(p->w, str_of(type_words(p, "List[", elem, NULL)));
  put_op(p, build ? PICKLE_OP_TUPLE : PICKLE_OP_TUPLE2);
  put_op(p, PICKLE_OP_REDUCE);
}

static void put_dict(pickler *p, const rush_dict *d, const type *t)
{
  bool declared =
    t && t->kind == TYPE_DICT && d->key->kind == TYPE_ANY && d->value->kind == TYPE_ANY;
  const type *key = declared ? t->elems[0] : d->key, *value = declared ? t->elems[1] : d->value;
  size_t pos = 0;

  if (!p->is_plain)
    put_global(p, "torch.jit._pickle.restore_type_tag");
  put_op(p, PICKLE_OP_EMPTY_DICT);
  put_op(p, PICKLE_OP_MARK);
  for (dict_entry *e; (e = dict_next(d, &pos));) {
    pickler_put(p, e->key, key);
    pickler_put(p, e->value, value);
  }
  put_op(p, PICKLE_OP_SETITEMS);
  if (p->is_plain)
    return;
  pickle_str(p->w, str_of(type_words(p, "Dict[", key, value)));
  put_op(p, PICKLE_OP_TUPLE2);
  put_op(p, PICKLE_OP_REDUCE);
}

static void put_tuple(pickler *p, const rush_tuple *v, const type *t)
{
  static const pickle_opcode small[] = {PICKLE_OP_EMPTY_TUPLE, PICKLE_OP_TUPLE1, PICKLE_OP_TUPLE2,
                                        PICKLE_OP_TUPLE3};
  bool typed = t && t->kind == TYPE_TUPLE && t->n_elems == v->n;

  if (!typed && v->type)
    t = v->type;
  typed |= v->type != NULL;
  if (v->n > 3)
    put_op(p, PICKLE_OP_MARK);
  for (size_t i = 0; i < v->n; i++)
    pickler_put(p, v->items[i], typed ? t->elems[i] : NULL);
  put_op(p, v->n > 3 ? PICKLE_OP_TUPLE : small[v->n]);
}

/* -- Objects ----------------------------------------------------------------------------------- */

static void put_new(pickler *p, const char *qualified)
{
  put_global(p, qualified);
  put_op(p, PICKLE_OP_EMPTY_TUPLE);
  put_op(p, PICKLE_OP_NEWOBJ);
}

static void put_attrs(pickler *p, const rush_object *o)
{
  const class_info *cls = o->type->cls;

  put_op(p, PICKLE_OP_EMPTY_DICT);
  put_op(p, PICKLE_OP_MARK);
  for (uint32_t i = 0; i < o->n_slots && i < cls->n_attrs; i++) {
    if (o->slots[i].tag == RUSH_TAG_UNSET)
      continue;
    pickle_str(p->w, str_of(cls->attrs[i].name));
    pickler_put(p, o->slots[i], cls->attrs[i].type);
  }
  put_op(p, PICKLE_OP_SETITEMS);
}

static void put_object(pickler *p, rush_value v)
{
  const type *t = v.as.object->type;
  function *get = class_find_method(t, "__getstate__");

  script_use_type(p->uses, t);
  put_new(p, t->name);
  if (get && class_find_method(t, "__setstate__")) {
    rush_value state;
    function_ensure(p->s, get);
    if (get->schema->n_args != 1)
      session_fail(p->s, NULL,
                   "'__getstate__' must have 'self' as its only argument, but found %u arguments",
                   get->schema->n_args);
    session_check(p->s, function_call(p->s->cx, get, &v, 1, &state));
    session_defer_value(p->s, state);
    pickler_put(p, state, get->schema->returns[0].type);
  } else {
    put_attrs(p, v.as.object);
  }
  put_op(p, PICKLE_OP_BUILD);
}

static void put_custom(pickler *p, const custom_value *v)
{
  rush_value state;

  if (!v->cls->get_state)
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, NULL,
                        "objects of the class %s cannot be saved: it has no function for its state",
                        v->cls->name);
  session_check(p->s, v->cls->get_state(p->s->cx, v->self, &state));
  session_defer_value(p->s, state);
  put_new(p, v->cls->name);
  pickler_put(p, state, NULL);
  put_op(p, PICKLE_OP_BUILD);
}

/* -- Any value --------------------------------------------------------------------------------- */

static void put_device(pickler *p, rush_value v)
{
  const char *name = device_kind_name(value_device_kind(v));
  int32_t index = value_device_index(v);

  put_global(p, "torch.device");
  pickle_str(p->w, str_of(index < 0 ? name : session_printf(p->s, "%s:%d", name, index)));
  put_op(p, PICKLE_OP_TUPLE1);
  put_op(p, PICKLE_OP_REDUCE);
}

static void put_heap(pickler *p, rush_value v, const type *t)
{
  switch ((int)v.tag) {
  case RUSH_TAG_LIST: put_list(p, v.as.list, t); break;
  case RUSH_TAG_TUPLE: put_tuple(p, v.as.tuple, t); break;
  case RUSH_TAG_DICT: put_dict(p, v.as.dict, t); break;
  case RUSH_TAG_OBJECT: put_object(p, v); break;
  case RUSH_TAG_CUSTOM: put_custom(p, v.as.heap); break;
  case RUSH_TAG_COMPLEX:
    put_global(p, "builtins.complex");
    pickle_double(p->w, value_complex(v)->re);
    pickle_double(p->w, value_complex(v)->im);
    put_op(p, PICKLE_OP_TUPLE2);
    put_op(p, PICKLE_OP_REDUCE);
    break;
  case RUSH_TAG_ENUM:
    script_use_type(p->uses, value_enum(v)->type);
    put_global(p, value_enum(v)->type->name);
    pickler_put(p, value_enum(v)->value, NULL);
    put_op(p, PICKLE_OP_REDUCE);
    break;
  default: {
    const char *kind = v.tag == RUSH_TAG_FUTURE      ? "a future"
                       : v.tag == RUSH_TAG_GENERATOR ? "a random generator"
                       : v.tag == RUSH_TAG_STORAGE   ? "a storage"
                                                     : "a function";
    session_fail_status(p->s, RUSH_EUNSUPPORTED, NULL, NULL, "%s cannot be saved", kind);
  }
  }
}

void pickler_put(pickler *p, rush_value v, const type *t)
{
  session_enter(p->s);
  if (t && t->kind == TYPE_OPTIONAL)
    t = type_elem(t);
  switch ((int)v.tag) {
  case RUSH_TAG_NONE:
  case RUSH_TAG_UNSET: put_op(p, PICKLE_OP_NONE); break;
  case RUSH_TAG_BOOL: pickle_bool(p->w, v.as.b); break;
  case RUSH_TAG_INT: pickle_int(p->w, v.as.i); break;
  case RUSH_TAG_FLOAT: pickle_double(p->w, v.as.d); break;
  case RUSH_TAG_STRING: pickle_str(p->w, value_str(v)); break;
  case RUSH_TAG_DEVICE: put_device(p, v); break;
  case RUSH_TAG_TENSOR:
    if (v.as.tensor)
      put_tensor(p, v.as.tensor);
    else
      put_op(p, PICKLE_OP_NONE);
    break;
  default: {
    str key = memo_key(p, 'v', v.as.heap);
    if (recall(p, key))
      break;
    put_heap(p, v, t);
    if (v.tag != RUSH_TAG_COMPLEX)
      remember_key(p, key);
  }
  }
  session_leave(p->s);
}
