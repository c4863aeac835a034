/* value/value_copy.c -- equality, deep copies and snapshots of values. A copy keeps a table of
 * originals, so that shared parts stay shared and cycles end; immutable values are shared with the
 * original. Custom classes are copied through their pickled state, the only way they define. The
 * table is no base/table.c: an entry owns a value of two words, and a copy of a few containers must
 * stay two allocations. Cost: O(reachable values), one table entry per container. */
#include <string.h>

#include "base/lock.h"
#include "base/macros.h"
#include "base/table.h"
#include "value/value.h"

/* -- Comparing --------------------------------------------------------------------------------- */

bool value_is_same(rush_value a, rush_value b)
{
  if (a.tag != b.tag)
    return false;
  if (a.tag == RUSH_TAG_NONE || a.tag == RUSH_TAG_UNSET)
    return true;
  if (a.tag == RUSH_TAG_BOOL)
    return a.as.b == b.as.b;
  if (a.tag == RUSH_TAG_FLOAT)
    return a.as.d == b.as.d;
  return a.as.i == b.as.i; /* ints, devices; everything else by identity */
}

static rush_status equal_items(call_ctx *cx, const rush_value *a, const rush_value *b, size_t n,
                               bool *out)
{
  bool same = true;
  for (size_t i = 0; same && i < n; i++)
    TRY(value_equal(cx, a[i], b[i], &same));
  *out = same;
  return RUSH_OK;
}

static rush_status equal_dicts(call_ctx *cx, const rush_dict *a, const rush_dict *b, bool *out)
{
  bool same = a->n == b->n;
  size_t pos = 0;
  for (dict_entry *e; same && (e = dict_next(a, &pos));) {
    rush_value *other = dict_get(b, e->key);
    same = other != NULL;
    if (same)
      TRY(value_equal(cx, e->value, *other, &same));
  }
  *out = same;
  return RUSH_OK;
}

static rush_status equal_containers(call_ctx *cx, rush_value a, rush_value b, bool *out)
{
  if (a.tag == RUSH_TAG_DICT)
    return equal_dicts(cx, a.as.dict, b.as.dict, out);
  if (a.tag == RUSH_TAG_LIST && a.as.list->n == b.as.list->n)
    return equal_items(cx, a.as.list->items, b.as.list->items, a.as.list->n, out);
  if (a.tag == RUSH_TAG_TUPLE && a.as.tuple->n == b.as.tuple->n)
    return equal_items(cx, a.as.tuple->items, b.as.tuple->items, a.as.tuple->n, out);
  *out = false;
  return RUSH_OK;
}

static bool equal_enums(const enum_value *a, const enum_value *b)
{
  return type_equal(a->type, b->type) &&
         str_eq((str){a->name->text, a->name->len}, (str){b->name->text, b->name->len});
}

rush_status value_equal(call_ctx *cx, rush_value a, rush_value b, bool *out)
{
  if (a.tag != b.tag || value_is_same(a, b)) {
    *out = a.tag == b.tag;
    return RUSH_OK;
  }
  rush_status st = RUSH_OK;
  const value_ops *ops;
  switch ((int)a.tag) {
  case RUSH_TAG_STRING:
    *out = str_eq(value_str(a), value_str(b));
    break;
  case RUSH_TAG_COMPLEX:
    *out =
      value_complex(a)->re == value_complex(b)->re && value_complex(a)->im == value_complex(b)->im;
    break;
  case RUSH_TAG_ENUM:
    *out = equal_enums(value_enum(a), value_enum(b));
    break;
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
  case RUSH_TAG_DICT:
    TRY(call_poll(cx)); /* shared lists of shared lists: short values, endless comparisons */
    TRY(call_enter(cx));
    st = equal_containers(cx, a, b, out);
    call_leave(cx);
    break;
  default:
    ops = a.as.heap && b.as.heap ? value_ops_of(cx->ctx, a.tag) : NULL;
    if (ops && ops->equal)
      return ops->equal(cx, a.as.heap, b.as.heap, out);
    *out = false;
  }
  return st;
}

/* -- Deep copy --------------------------------------------------------------------------------- */

/* The originals copied so far, so that shared parts stay shared and cycles end. */
typedef struct memo_pair {
  void *from;
  rush_value to; /* retained until the copy is whole */
} memo_pair;
typedef struct copier {
  call_ctx *cx;
  memo_pair *pairs; /* open addressing, from NULL: free */
  size_t n, cap;    /* cap a power of two, or 0 */
  int64_t n_steps;
  call_lock *lock; /* a snapshot, of what this lock protects; NULL: a deep copy */
} copier;

static rush_status copy_value(copier *k, rush_value v, rush_value *out);

static memo_pair *memo_at(memo_pair *pairs, size_t cap, void *from)
{
  size_t i = hash_bytes(&from, sizeof from) & (cap - 1);
  while (pairs[i].from && pairs[i].from != from)
    i = (i + 1) & (cap - 1);
  return &pairs[i];
}

static rush_status memo_put(copier *k, void *from, rush_value to)
{
  if (k->n * 2 >= k->cap) {
    size_t cap = k->cap ? k->cap * 2 : 32;
    memo_pair *pairs = mem_alloc_zero(k->cx->ctx, cap * sizeof *pairs);
    if (!pairs)
      return call_nomem(k->cx);
    for (size_t i = 0; i < k->cap; i++)
      if (k->pairs[i].from)
        *memo_at(pairs, cap, k->pairs[i].from) = k->pairs[i];
    mem_free(k->cx->ctx, k->pairs, k->cap * sizeof *k->pairs);
    k->pairs = pairs;
    k->cap = cap;
  }
  *memo_at(k->pairs, k->cap, from) = (memo_pair){from, value_retain(to)};
  k->n++;
  return RUSH_OK;
}

/* Return v as the copy if st is RUSH_OK; release it otherwise.  Returns st. */
static rush_status return_steal(rush_status st, rush_value v, rush_value *out)
{
  if (st == RUSH_OK)
    *out = v;
  else
    value_release(v);
  return st;
}

static rush_status copy_list(copier *k, const rush_list *l, rush_value *out)
{
  rush_list *c;
  TRY(list_new(k->cx, l->elem, l->n, &c));
  rush_value v = value_heap_steal(RUSH_TAG_LIST, c);
  rush_status st = memo_put(k, (void *)l, v);
  for (size_t i = 0; st == RUSH_OK && i < l->n; i++) {
    rush_value item;
    st = copy_value(k, l->items[i], &item);
    if (st == RUSH_OK)
      st = list_append_steal(k->cx, c, item);
  }
  return return_steal(st, v, out);
}

static rush_status copy_tuple(copier *k, const rush_tuple *t, rush_value *out)
{
  rush_tuple *c;
  TRY(tuple_new(k->cx, t->type, t->n, &c));
  rush_value v = value_heap_steal(RUSH_TAG_TUPLE, c);
  rush_status st = memo_put(k, (void *)t, v);
  for (size_t i = 0; st == RUSH_OK && i < t->n; i++)
    st = copy_value(k, t->items[i], &c->items[i]);
  return return_steal(st, v, out);
}

static rush_status copy_dict(copier *k, const rush_dict *d, rush_value *out)
{
  rush_dict *c;
  TRY(dict_new(k->cx, d->key, d->value, &c));
  rush_value v = value_heap_steal(RUSH_TAG_DICT, c);
  rush_status st = memo_put(k, (void *)d, v);
  size_t pos = 0;
  for (dict_entry *e; st == RUSH_OK && (e = dict_next(d, &pos));) {
    rush_value key, value;
    st = copy_value(k, e->key, &key);
    if (st != RUSH_OK)
      break;
    st = copy_value(k, e->value, &value);
    if (st == RUSH_OK)
      st = dict_set_steal(k->cx, c, key, value);
    else
      value_release(key);
  }
  return return_steal(st, v, out);
}

static rush_status copy_object(copier *k, const rush_object *o, rush_value *out)
{
  rush_object *c;
  TRY(object_new(k->cx, o->type, o->n_slots, &c));
  rush_value v = value_heap_steal(RUSH_TAG_OBJECT, c);
  rush_status st = memo_put(k, (void *)o, v);
  for (uint32_t i = 0; st == RUSH_OK && i < o->n_slots; i++)
    st = copy_value(k, o->slots[i], &c->slots[i]);
  return return_steal(st, v, out);
}

/* Copy through the pickled state, the only way that the class defines. */
static rush_status copy_custom(copier *k, custom_value *v, rush_value *out)
{
  if (!v->cls->get_state || !v->cls->set_state)
    return call_unsupported(k->cx, "copying an instance of %s", v->cls->name);
  rush_value state, copied;
  TRY(v->cls->get_state(k->cx, v->self, &state));
  rush_status st = copy_value(k, state, &copied);
  value_release(state);
  TRY(st);
  void *self;
  st = v->cls->set_state(k->cx, copied, &self);
  value_release(copied);
  TRY(st);
  TRY(custom_value_new_steal(k->cx, v->cls, self, out));
  st = memo_put(k, v, *out);
  if (st != RUSH_OK)
    value_release(*out);
  return st;
}

static rush_status copy_upper(copier *k, rush_value v, rush_value *out)
{
  const value_ops *ops = value_ops_of(k->cx->ctx, v.tag);
  if (!ops || !ops->copy) { /* functions, futures: the same */
    *out = value_retain(v);
    return RUSH_OK;
  }
  rush_value c;
  TRY(ops->copy(k->cx, v.as.heap, &c));
  rush_status st = memo_put(k, v.as.heap, c);
  if (st == RUSH_OK)
    *out = c;
  else
    value_release(c);
  return st;
}

static rush_status share_value(copier *k, rush_value v, rush_value *out)
{
  if (v.tag == RUSH_TAG_OBJECT)
    object_adopt(v.as.object, k->lock);
  *out = value_retain(v);
  return RUSH_OK;
}

static rush_status copy_value(copier *k, rush_value v, rush_value *out)
{
  TRY(call_poll_at(k->cx, k->n_steps++));
  if (!value_is_heap(v) || v.tag == RUSH_TAG_STRING || v.tag == RUSH_TAG_COMPLEX ||
      v.tag == RUSH_TAG_ENUM) { /* immutable */
    *out = value_retain(v);
    return RUSH_OK;
  }
  memo_pair *known = k->cap ? memo_at(k->pairs, k->cap, v.as.heap) : NULL;
  if (known && known->from) {
    *out = value_retain(known->to);
    return RUSH_OK;
  }
  TRY(call_enter(k->cx));
  rush_status st;
  if (v.tag == RUSH_TAG_LIST)
    st = copy_list(k, v.as.list, out);
  else if (v.tag == RUSH_TAG_TUPLE)
    st = copy_tuple(k, v.as.tuple, out);
  else if (v.tag == RUSH_TAG_DICT)
    st = copy_dict(k, v.as.dict, out);
  else if (k->lock)
    st = share_value(k, v, out);
  else if (v.tag == RUSH_TAG_OBJECT)
    st = copy_object(k, v.as.object, out);
  else if (v.tag == RUSH_TAG_CUSTOM)
    st = copy_custom(k, v.as.heap, out);
  else
    st = copy_upper(k, v, out);
  call_leave(k->cx);
  return st;
}

static rush_status copy_whole(copier *k, rush_value v, rush_value *out)
{
  call_ctx *cx = k->cx;
  rush_status st = copy_value(k, v, out);
  for (size_t i = 0; i < k->cap; i++)
    if (k->pairs[i].from)
      value_release(k->pairs[i].to);
  mem_free(cx->ctx, k->pairs, k->cap * sizeof *k->pairs);
  return st;
}

rush_status value_deepcopy(call_ctx *cx, rush_value v, rush_value *out)
{
  copier k = {.cx = cx};

  return copy_whole(&k, v, out);
}

void object_adopt(rush_object *o, struct call_lock *lock)
{
  call_lock *none = NULL;

  if (!lock || atomic_load_explicit(&o->lock, memory_order_relaxed))
    return;
  if (!atomic_compare_exchange_strong_explicit(&o->lock, &none, call_lock_retain(lock),
                                               memory_order_acq_rel, memory_order_relaxed))
    call_lock_release(lock);
}

rush_status value_snapshot(call_ctx *cx, rush_value v, struct call_lock *lock, rush_value *out)
{
  copier k = {.cx = cx, .lock = lock};

  if (lock && (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_DICT || v.tag == RUSH_TAG_TUPLE))
    return copy_whole(&k, v, out);
  return lock ? share_value(&k, v, out) : (*out = value_retain(v), RUSH_OK);
}
