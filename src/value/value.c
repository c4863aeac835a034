/* value/value.c -- making, destroying and typing heap values. Destruction recurses to a fixed depth
 * and then links dead containers through their own memory, because a list a million objects long
 * must not use a million C frames and freeing must not allocate. Whether a container fits a type
 * depends only on the element types it was made with, O(1), never on its items. */
#include "value/value.h"

#include <string.h>

#include "base/lock.h"
#include "base/macros.h"

/* -- Kinds of layers above --------------------------------------------------------------------- */

const value_ops *value_ops_of(context *c, uint32_t tag)
{
  switch ((int)tag) {
  case RUSH_TAG_TENSOR:
    return context_slot_get(c, SLOT_KIND_TENSOR);
  case RUSH_TAG_GENERATOR:
    return context_slot_get(c, SLOT_KIND_GENERATOR);
  case RUSH_TAG_STORAGE:
    return context_slot_get(c, SLOT_KIND_STORAGE);
  case RUSH_TAG_FUTURE:
    return context_slot_get(c, SLOT_KIND_FUTURE);
  case RUSH_TAG_FUNCTION:
    return context_slot_get(c, SLOT_KIND_FUNCTION);
  default:
    return NULL;
  }
}

/* -- Making ------------------------------------------------------------------------------------ */

rush_status string_new(call_ctx *cx, const char *text, size_t len, rush_value *out)
{
  rush_string *s = len < SIZE_MAX / 2 ? mem_alloc(cx->ctx, sizeof *s + len + 1) : NULL;
  if (!s)
    return call_nomem(cx);
  heap_init(&s->h, cx->ctx, RUSH_TAG_STRING);
  s->len = len;
  if (len && !bytes_copy(cx, s->text, text, len)) {
    mem_free(cx->ctx, s, sizeof *s + len + 1);
    return call_poll(cx);
  }
  s->text[len] = '\0';
  *out = value_heap_steal(RUSH_TAG_STRING, s);
  return RUSH_OK;
}

rush_status complex_new(call_ctx *cx, double re, double im, rush_value *out)
{
  complex_box *b = mem_alloc(cx->ctx, sizeof *b);
  if (!b)
    return call_nomem(cx);
  heap_init(&b->h, cx->ctx, RUSH_TAG_COMPLEX);
  b->re = re;
  b->im = im;
  *out = value_heap_steal(RUSH_TAG_COMPLEX, b);
  return RUSH_OK;
}

rush_status tuple_new(call_ctx *cx, const type *type, size_t n, rush_tuple **out)
{
  size_t bytes;
  if (!size_mul(n, sizeof(rush_value), &bytes) || !size_add(bytes, sizeof(rush_tuple), &bytes))
    return call_nomem(cx);
  rush_tuple *t = mem_alloc_zero(cx->ctx, bytes); /* zero is None */
  if (!t)
    return call_nomem(cx);
  heap_init(&t->h, cx->ctx, RUSH_TAG_TUPLE);
  type_retain(type);
  t->type = type;
  t->n = n;
  *out = t;
  return RUSH_OK;
}

rush_status object_new(call_ctx *cx, const type *cls, uint32_t n_slots, rush_object **out)
{
  rush_object *o = mem_alloc(cx->ctx, sizeof *o + n_slots * sizeof o->slots[0]);
  if (!o)
    return call_nomem(cx);
  heap_init(&o->h, cx->ctx, RUSH_TAG_OBJECT);
  type_retain_code(cls);
  o->type = cls;
  o->n_slots = n_slots;
  atomic_init(&o->number, 0);
  atomic_init(&o->lock, NULL);
  atomic_init(&o->attached, NULL);
  atomic_init(&o->is_read, 0);
  for (uint32_t i = 0; i < n_slots; i++)
    o->slots[i] = value_unset();
  *out = o;
  return RUSH_OK;
}

rush_status enum_value_new(call_ctx *cx, const type *t, const char *name, rush_value value,
                           rush_value *out)
{
  rush_value text;
  TRY(string_new(cx, name, strlen(name), &text));
  enum_value *e = mem_alloc(cx->ctx, sizeof *e);
  if (!e) {
    value_release(text);
    return call_nomem(cx);
  }
  heap_init(&e->h, cx->ctx, RUSH_TAG_ENUM);
  type_retain(t);
  e->type = t;
  e->name = text.as.string;
  e->value = value_retain(value);
  *out = value_heap_steal(RUSH_TAG_ENUM, e);
  return RUSH_OK;
}

rush_status custom_value_new_steal(call_ctx *cx, const custom_class *cls, void *self,
                                   rush_value *out)
{
  custom_value *c = mem_alloc(cx->ctx, sizeof *c);
  if (!c) {
    cls->destroy(self);
    return call_nomem(cx);
  }
  heap_init(&c->h, cx->ctx, RUSH_TAG_CUSTOM);
  c->cls = cls;
  c->self = self;
  *out = value_heap_steal(RUSH_TAG_CUSTOM, c);
  return RUSH_OK;
}

/* -- Destroying -------------------------------------------------------------------------------- */

/* A list a million objects long must not use a million C frames: beyond some depth dead containers
 * are put in lists, linked through the first word of their own memory.  There is one list per kind,
 * since that word held the kind. */
#define DEPTH_INLINE 64
enum { PENDING_LIST, PENDING_TUPLE, PENDING_DICT, PENDING_OBJECT, N_PENDING };
typedef struct dying {
  int depth;
  void *pending[N_PENDING];
} dying;

static const uint32_t pending_tag[N_PENDING] = {RUSH_TAG_LIST, RUSH_TAG_TUPLE, RUSH_TAG_DICT,
                                                RUSH_TAG_OBJECT};

static void destroy_container(rush_value v, dying *d);

static int pending_of(uint32_t tag)
{
  for (int i = 0; i < N_PENDING; i++)
    if (pending_tag[i] == tag)
      return i;
  return -1;
}

static void release_item(rush_value v, dying *d)
{
  if (!value_is_heap(v) || !heap_drop((heap *)v.as.heap))
    return;
  int p = pending_of(v.tag);
  if (p < 0) {
    value_destroy(v);
  } else if (d->depth < DEPTH_INLINE) {
    destroy_container(v, d);
  } else {
    memcpy(v.as.heap, &d->pending[p], sizeof(void *));
    d->pending[p] = v.as.heap;
  }
}

/* Return the end of the run of identical heap values from item i on: a list made by multiplication
 * may have a million of them, and their references are dropped at once. */
static size_t same_items(const rush_list *l, size_t i)
{
  const rush_value *v = &l->items[i];
  size_t n = 1;
  while (i + n < l->n && v[n].as.heap == v->as.heap && v[n].tag == v->tag)
    n++;
  return n;
}

static void destroy_list(rush_list *l, dying *d)
{
  const bool plain =
    l->elem->kind == TYPE_INT || l->elem->kind == TYPE_FLOAT || l->elem->kind == TYPE_BOOL;
  for (size_t i = 0, n; i < l->n && !plain; i += n) {
    n = value_is_heap(l->items[i]) ? same_items(l, i) : 1;
    if (n > 1)
      heap_drop_some((heap *)l->items[i].as.heap, (uint32_t)(n - 1));
    release_item(l->items[i], d);
  }
  const type *elem = l->elem;
  mem_free(l->h.ctx, l->items, l->cap * sizeof *l->items);
  mem_free(l->h.ctx, l, sizeof *l);
  type_release(elem); /* last: perhaps nothing else keeps the context */
}

static void destroy_tuple(rush_tuple *t, dying *d)
{
  for (size_t i = 0; i < t->n; i++)
    release_item(t->items[i], d);
  const type *named = t->type;
  mem_free(t->h.ctx, t, sizeof *t + t->n * sizeof t->items[0]);
  type_release(named);
}

static void destroy_dict(rush_dict *m, dying *d)
{
  for (size_t i = 0; i < m->n_used; i++) {
    if (m->entries[i].key.tag == RUSH_TAG_UNSET)
      continue;
    release_item(m->entries[i].key, d);
    release_item(m->entries[i].value, d);
  }
  mem_free(m->h.ctx, m->entries, m->cap * sizeof *m->entries);
  mem_free(m->h.ctx, m->slots, m->n_slots * sizeof *m->slots);
  const type *key = m->key, *value = m->value;
  mem_free(m->h.ctx, m, sizeof *m);
  type_release(key);
  type_release(value);
}

static void destroy_object(rush_object *o, dying *d)
{
  for (uint32_t i = 0; i < o->n_slots; i++)
    release_item(o->slots[i], d);
  const type *t = o->type;
  const bool of_program = o->h.flags & VALUE_OF_PROGRAM;
  call_lock *lock = object_lock(o);
  for (attachment *a = atomic_load(&o->attached), *next; a; a = next) {
    next = a->next;
    a->destroy(o->h.ctx, a);
  }
  mem_free(o->h.ctx, o, sizeof *o + o->n_slots * sizeof o->slots[0]);
  if (of_program)
    type_release(t);
  else
    type_release_code(t);
  call_lock_release(lock); /* perhaps the last that keeps the context */
}

static void destroy_container(rush_value v, dying *d)
{
  d->depth++;
  if (v.tag == RUSH_TAG_LIST)
    destroy_list(v.as.list, d);
  else if (v.tag == RUSH_TAG_TUPLE)
    destroy_tuple(v.as.tuple, d);
  else if (v.tag == RUSH_TAG_DICT)
    destroy_dict(v.as.dict, d);
  else
    destroy_object(v.as.object, d);
  d->depth--;
}

static void destroy_containers(rush_value v)
{
  dying d = {0};
  destroy_container(v, &d);
  for (int i = 0; i < N_PENDING; i++)
    if (d.pending[i]) {
      void *p = d.pending[i];
      memcpy(&d.pending[i], p, sizeof(void *));
      destroy_container((rush_value){.tag = pending_tag[i], .as.heap = p}, &d);
      i = -1;
    }
}

static void destroy_enum(enum_value *e)
{
  value_release(value_heap_steal(RUSH_TAG_STRING, e->name));
  value_release(e->value);
  const type *t = e->type;
  mem_free(e->h.ctx, e, sizeof *e);
  type_release(t);
}

static void destroy_custom(custom_value *c)
{
  c->cls->destroy(c->self);
  mem_free(c->h.ctx, c, sizeof *c);
}

void value_destroy(rush_value v)
{
  heap *h = v.as.heap;
  if (v.tag != RUSH_TAG_TENSOR && (h->flags & VALUE_IN_ARENA))
    return;
  switch ((int)v.tag) {
  case RUSH_TAG_COMPLEX:
    mem_free(h->ctx, h, sizeof(complex_box));
    break;
  case RUSH_TAG_STRING:
    mem_free(h->ctx, h, sizeof(rush_string) + v.as.string->len + 1);
    break;
  case RUSH_TAG_LIST:
  case RUSH_TAG_TUPLE:
  case RUSH_TAG_DICT:
  case RUSH_TAG_OBJECT:
    destroy_containers(v);
    break;
  case RUSH_TAG_ENUM:
    destroy_enum(v.as.heap);
    break;
  case RUSH_TAG_CUSTOM:
    destroy_custom(v.as.heap);
    break;
  default:
    value_ops_of(h->ctx, v.tag)->destroy(h);
    break;
  }
}

/* -- Devices ----------------------------------------------------------------------------------- */

static const char *const device_names[] = {"cpu",    "cuda",  "mkldnn", "opengl", "opencl", "ideep",
                                           "hip",    "fpga",  "maia",   "xla",    "vulkan", "metal",
                                           "xpu",    "mps",   "meta",   "hpu",    "ve",     "lazy",
                                           "ipu",    "mtia",  "privateuseone"};

const char *device_kind_name(int32_t kind)
{
  return kind >= 0 && kind < (int32_t)COUNT_OF(device_names) ? device_names[kind] : NULL;
}

bool device_parse(str text, rush_value *out)
{
  const char *colon = text.len ? memchr(text.p, ':', text.len) : NULL;
  str name = {text.p, colon ? (size_t)(colon - text.p) : text.len};
  int64_t index = -1;
  if (colon) {
    size_t n = text.len - name.len - 1;
    const char *p = colon + 1;
    if (n == 0 || n > 3 || (n > 1 && p[0] == '0'))
      return false;
    index = 0;
    for (size_t i = 0; i < n; i++) {
      if (p[i] < '0' || p[i] > '9')
        return false;
      index = index * 10 + (p[i] - '0');
    }
    if (index > 127) /* PyTorch's DeviceIndex is an int8 */
      return false;
  }
  for (int32_t k = 0; k < (int32_t)COUNT_OF(device_names); k++)
    if (str_is(name, device_names[k])) {
      *out = value_device(k, (int32_t)index);
      return true;
    }
  return false;
}

/* -- Types of values --------------------------------------------------------------------------- */

static const type *type_of_tuple(type_store *ts, const rush_tuple *t)
{
  if (t->type)
    return t->type;
  size_t bytes = t->n * sizeof(const type *);
  const type **elems = mem_alloc(ts->ctx, bytes);
  bool ok = elems != NULL;
  for (size_t i = 0; ok && i < t->n; i++) {
    elems[i] = type_of_value(ts, t->items[i]);
    ok = elems[i] != NULL;
  }
  const type *r = ok ? type_tuple(ts, elems, (uint32_t)t->n) : NULL;
  mem_free(ts->ctx, elems, bytes);
  return r;
}

/* Return the Future[T] or Await[T] that v was made as. */
static const type *type_of_future(rush_value v)
{
  heap *h = v.as.heap;
  return value_ops_of(h->ctx, v.tag)->type_of(h);
}

const type *type_of_value(type_store *ts, rush_value v)
{
  static const uint8_t simple[] = {
      [RUSH_TAG_NONE] = TYPE_NONE,     [RUSH_TAG_TENSOR] = TYPE_TENSOR,
      [RUSH_TAG_BOOL] = TYPE_BOOL,     [RUSH_TAG_INT] = TYPE_INT,
      [RUSH_TAG_FLOAT] = TYPE_FLOAT,   [RUSH_TAG_COMPLEX] = TYPE_COMPLEX,
      [RUSH_TAG_STRING] = TYPE_STRING, [RUSH_TAG_DEVICE] = TYPE_DEVICE,
      [RUSH_TAG_GENERATOR] = TYPE_GENERATOR, [RUSH_TAG_STORAGE] = TYPE_STORAGE};
  switch ((int)v.tag) {
  case RUSH_TAG_LIST:
    return type_list(ts, v.as.list->elem);
  case RUSH_TAG_TUPLE:
    return type_of_tuple(ts, v.as.tuple);
  case RUSH_TAG_DICT:
    return type_dict(ts, v.as.dict->key, v.as.dict->value);
  case RUSH_TAG_OBJECT:
    return v.as.object->type;
  case RUSH_TAG_ENUM:
    return value_enum(v)->type;
  case RUSH_TAG_CUSTOM:
    return type_class_ref(ts, str_of(((custom_value *)v.as.heap)->cls->name));
  case RUSH_TAG_FUTURE:
    return type_of_future(v);
  case RUSH_TAG_FUNCTION:
  case RUSH_TAG_UNSET:
    return type_simple(TYPE_ANY);
  default:
    return type_simple((type_kind)simple[v.tag]);
  }
}

const type *type_of_items(type_store *ts, const rush_value *items, size_t n, type_kind otherwise,
                          bool *undecided)
{
  const type *t = n ? NULL : type_simple(otherwise);
  *undecided |= n == 0;
  for (size_t i = 0; i < n; i++) {
    const uint32_t n_refused = mem_n_refused(ts->ctx);
    const type *u = type_of_value(ts, items[i]);
    if (u && t)
      u = type_unify(ts, t, u, false);
    if (!u && mem_n_refused(ts->ctx) != n_refused)
      return NULL;
    *undecided |= !u || value_is_undecided(items[i]);
    if (!u)
      return type_simple(TYPE_ANY);
    t = u;
  }
  return t;
}

/* True if the list fits.  A container's element types decide, never its content: it may be written
 * to later under another name. */
static bool list_fits(const type *elem, const rush_list *l) { return type_equal(l->elem, elem); }

static bool dict_fits(const type *t, const rush_dict *d)
{
  return type_equal(d->key, t->elems[0]) && type_equal(d->value, t->elems[1]);
}

static bool tuple_fits(const type *t, const rush_tuple *v)
{
  if (t->fields && v->type)
    return type_is_subtype(v->type, t);
  if (t->fields || t->n_elems != v->n)
    return false;
  for (size_t i = 0; i < v->n; i++)
    if (!type_contains_value(t->elems[i], v->items[i]))
      return false;
  return true;
}

static bool simple_fits(type_kind k, uint32_t tag)
{
  switch ((int)k) {
  case TYPE_NONE:
    return tag == RUSH_TAG_NONE;
  case TYPE_TENSOR:
    return tag == RUSH_TAG_TENSOR;
  case TYPE_BOOL:
    return tag == RUSH_TAG_BOOL;
  case TYPE_INT:
    return tag == RUSH_TAG_INT;
  case TYPE_FLOAT:
    return tag == RUSH_TAG_FLOAT;
  case TYPE_COMPLEX:
    return tag == RUSH_TAG_COMPLEX;
  case TYPE_NUMBER:
    return tag == RUSH_TAG_INT || tag == RUSH_TAG_FLOAT || tag == RUSH_TAG_COMPLEX ||
           tag == RUSH_TAG_BOOL;
  case TYPE_STRING:
    return tag == RUSH_TAG_STRING;
  case TYPE_DEVICE:
    return tag == RUSH_TAG_DEVICE;
  case TYPE_GENERATOR:
    return tag == RUSH_TAG_GENERATOR;
  case TYPE_STORAGE:
    return tag == RUSH_TAG_STORAGE;
  case TYPE_ANY_LIST:
    return tag == RUSH_TAG_LIST;
  case TYPE_ANY_TUPLE:
    return tag == RUSH_TAG_TUPLE;
  case TYPE_ANY_CLASS:
    return tag == RUSH_TAG_OBJECT || tag == RUSH_TAG_CUSTOM;
  case TYPE_ANY_ENUM:
    return tag == RUSH_TAG_ENUM;
  default:
    return k == TYPE_ANY;
  }
}

static bool any_member_fits(const type *t, rush_value v)
{
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (type_contains_value(t->elems[i], v))
      return true;
  return false;
}

bool type_contains_value(const type *t, rush_value v)
{
  if (t->kind <= TYPE_ANY_ENUM)
    return simple_fits(type_runtime(t)->kind, v.tag);
  switch ((int)t->kind) {
  case TYPE_OPTIONAL:
    return v.tag == RUSH_TAG_NONE || type_contains_value(t->elems[0], v);
  case TYPE_UNION:
    return any_member_fits(t, v);
  case TYPE_LIST:
    return v.tag == RUSH_TAG_LIST && list_fits(t->elems[0], v.as.list);
  case TYPE_DICT:
    return v.tag == RUSH_TAG_DICT && dict_fits(t, v.as.dict);
  case TYPE_TUPLE:
    return v.tag == RUSH_TAG_TUPLE && tuple_fits(t, v.as.tuple);
  case TYPE_ENUM:
    return v.tag == RUSH_TAG_ENUM && type_equal(value_enum(v)->type, t);
  case TYPE_FUTURE: case TYPE_AWAIT:
    return v.tag == RUSH_TAG_FUTURE &&
           type_is_subtype(type_of_future(v), t); /* set once: covariant */
  case TYPE_FUNCTION:
    return v.tag == RUSH_TAG_FUNCTION;
  case TYPE_CLASS:
    if (v.tag == RUSH_TAG_CUSTOM)
      return t->name && strcmp(((custom_value *)v.as.heap)->cls->name, t->name) == 0;
    return v.tag == RUSH_TAG_OBJECT && type_equal(v.as.object->type, t);
  case TYPE_INTERFACE:
    return v.tag == RUSH_TAG_OBJECT && type_is_subtype(v.as.object->type, t);
  default: /* type variables hold anything */
    return t->kind == TYPE_VAR;
  }
}

/* -- Values in sessions ------------------------------------------------------------------------ */

static void release_heap(void *heap_part)
{
  heap *h = heap_part;

  value_release((rush_value){.tag = h->kind, .as.heap = h});
}

void session_defer_value(session *s, rush_value v)
{
  if (value_is_heap(v))
    session_defer(s, release_heap, v.as.heap);
}

void session_keep_value(session *s, rush_value v)
{
  if (value_is_heap(v))
    session_keep(s, v.as.heap);
}
