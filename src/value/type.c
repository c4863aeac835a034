/* value/type.c -- types: static tables for simple types and their usual containers, interning for
 * all others, and the relations equality, subtype and unification with PyTorch's rules. Static
 * tables cover most types that programs use; these need no lock and no memory. Interning compares
 * element pointers and may miss: equality is structural, so a miss costs only memory. A type's size
 * and height are bounded when it is made, which bounds every recursion over it. */
#include "value/type.h"

#include <string.h>

#include "base/macros.h"
#include "value/value.h"

/* -- Static types ------------------------------------------------------------------------------ */

#define N_SIMPLE (TYPE_ANY_ENUM + 1)

/* Every simple kind, for tables indexed by kind. */
#define EACH_SIMPLE(X)                                                                            \
  X(TYPE_ANY)                                                                                     \
  X(TYPE_NONE) X(TYPE_TENSOR) X(TYPE_BOOL) X(TYPE_INT) X(TYPE_FLOAT) X(TYPE_COMPLEX)              \
    X(TYPE_NUMBER) X(TYPE_STRING) X(TYPE_DEVICE) X(TYPE_GENERATOR) X(TYPE_STORAGE) X(TYPE_STREAM) \
      X(TYPE_CAPSULE) X(TYPE_PYOBJECT) X(TYPE_QUANTIZER) X(TYPE_SCALAR_TYPE) X(TYPE_LAYOUT)       \
        X(TYPE_MEMORY_FORMAT) X(TYPE_QSCHEME) X(TYPE_DIMNAME) X(TYPE_SYM_INT) X(TYPE_SYM_FLOAT)   \
          X(TYPE_SYM_BOOL) X(TYPE_ANY_LIST) X(TYPE_ANY_TUPLE) X(TYPE_ANY_CLASS) X(TYPE_ANY_ENUM)

#define SIMPLE(k) [k] = {.kind = k},
static const type simple[N_SIMPLE] = {EACH_SIMPLE(SIMPLE)};
#define PTR(k) [k] = &simple[k],
static const type *const simple_ptr[N_SIMPLE] = {EACH_SIMPLE(PTR)};

/* T[], T?, T[]?, T[][], T?[] of every simple T. */
#define LIST_OF(k) [k] = {.kind = TYPE_LIST, .n_elems = 1, .elems = &simple_ptr[k]},
#define OPT_OF(k) [k] = {.kind = TYPE_OPTIONAL, .n_elems = 1, .elems = &simple_ptr[k]},
static const type list_of[N_SIMPLE] = {EACH_SIMPLE(LIST_OF)};
static const type opt_of[N_SIMPLE] = {EACH_SIMPLE(OPT_OF)};
#define LIST_PTR(k) [k] = &list_of[k],
#define OPT_PTR(k) [k] = &opt_of[k],
static const type *const list_ptr[N_SIMPLE] = {EACH_SIMPLE(LIST_PTR)};
static const type *const opt_ptr[N_SIMPLE] = {EACH_SIMPLE(OPT_PTR)};
#define OPT_LIST(k) [k] = {.kind = TYPE_OPTIONAL, .n_elems = 1, .elems = &list_ptr[k]},
#define LIST_LIST(k) [k] = {.kind = TYPE_LIST, .n_elems = 1, .elems = &list_ptr[k]},
#define LIST_OPT(k) [k] = {.kind = TYPE_LIST, .n_elems = 1, .elems = &opt_ptr[k]},
static const type opt_list[N_SIMPLE] = {EACH_SIMPLE(OPT_LIST)};
static const type list_list[N_SIMPLE] = {EACH_SIMPLE(LIST_LIST)};
static const type list_opt[N_SIMPLE] = {EACH_SIMPLE(LIST_OPT)};

/* Dicts from str and from int to a simple type. */
#define STR_PAIR(k) [k] = {&simple[TYPE_STRING], &simple[k]},
#define INT_PAIR(k) [k] = {&simple[TYPE_INT], &simple[k]},
static const type *const str_pair[N_SIMPLE][2] = {EACH_SIMPLE(STR_PAIR)};
static const type *const int_pair[N_SIMPLE][2] = {EACH_SIMPLE(INT_PAIR)};
#define STR_DICT(k) [k] = {.kind = TYPE_DICT, .n_elems = 2, .elems = str_pair[k]},
#define INT_DICT(k) [k] = {.kind = TYPE_DICT, .n_elems = 2, .elems = int_pair[k]},
static const type str_dict[N_SIMPLE] = {EACH_SIMPLE(STR_DICT)};
static const type int_dict[N_SIMPLE] = {EACH_SIMPLE(INT_DICT)};

static const type empty_tuple = {.kind = TYPE_TUPLE};

static bool is_simple(const type *t) { return t->kind < N_SIMPLE; }
/* True if `t` is the static list (optional) of a simple type. */
static bool is_static_of(const type *t, type_kind kind)
{
  return !t->store && t->kind == kind && is_simple(t->elems[0]);
}

const type *type_simple(type_kind kind)
{
  ASSERT(kind < N_SIMPLE, "this kind has elements or a name");
  return &simple[kind];
}

/* -- Stores ------------------------------------------------------------------------------------ */

void type_store_init(type_store *ts, context *c, void (*owner_end)(type_store *),
                     void (*owner_destroy)(type_store *))
{
  *ts = (type_store){
    .ctx = c, .lock = MUTEX_INIT, .owner_end = owner_end, .owner_destroy = owner_destroy};
  atomic_init(&ts->refs, 1);
  atomic_init(&ts->type_refs, 1);
  arena_init(&ts->mem, c);
  table_init(&ts->interned, c);
}

type_store *type_store_new(context *c)
{
  type_store *ts = mem_alloc(c, sizeof *ts);
  if (ts)
    type_store_init(ts, c, NULL, NULL);
  return ts;
}

void type_store_fini(type_store *ts)
{
  table_free(&ts->interned);
  arena_free(&ts->mem);
  mutex_destroy(&ts->lock);
}

type_store *type_store_retain(type_store *ts)
{
  if (ts)
    count_add(&ts->refs);
  return ts;
}

bool type_retain_code_if_there(const type *t)
{
  uint32_t n = atomic_load_explicit(&t->store->refs, memory_order_relaxed);

  while (n && !atomic_compare_exchange_weak(&t->store->refs, &n, n + 1))
    ;
  return n != 0;
}

void type_store_release(type_store *ts)
{
  if (!ts || count_sub(&ts->refs, 1) != 1)
    return;
  if (ts->owner_end)
    ts->owner_end(ts);
  type_store_release_type(ts);
}

void type_store_release_type(type_store *ts)
{
  if (count_sub(&ts->type_refs, 1) != 1)
    return;
  if (ts->owner_destroy) {
    ts->owner_destroy(ts);
    return;
  }
  type_store_fini(ts);
  mem_free(ts->ctx, ts, sizeof *ts);
}

static void destroy_slot(context *c, void *object)
{
  (void)c;
  type_store_release(object);
}

type_store *type_store_of_context(context *c)
{
  type_store *ts = context_slot_get(c, SLOT_TYPES);
  if (ts)
    return ts;
  ts = type_store_new(c);
  return ts ? context_slot_publish_steal(c, SLOT_TYPES, ts, destroy_slot) : NULL;
}

const type *session_type(session *s, const type *t)
{
  if (!t)
    session_check(s, call_nomem(s->cx));
  return t;
}

/* -- Making types ------------------------------------------------------------------------------ */

static char *copy_name(type_store *ts, const char *name, size_t len)
{
  char *p = arena_alloc(&ts->mem, len + 1);
  if (p) {
    memcpy(p, name, len);
    p[len] = '\0';
  }
  return p;
}

/* Return the height.  A static type's height is not stored: it is at most 2. */
static uint32_t height_of(const type *t) { return t->store || !t->n_elems ? t->height : 2; }

/* Set size and height of *t from its elements; returns false (and calls mem_refuse) if it would be
 * too large or too deep. */
static bool measure_type(type *t, context *c, const type *const *elems, uint32_t n)
{
  uint64_t n_written = 1;
  uint32_t height = 0;
  for (uint32_t i = 0; i < n; i++) {
    n_written += elems[i]->n_written ? elems[i]->n_written : 1;
    height = height_of(elems[i]) >= height ? height_of(elems[i]) + 1 : height;
  }
  if (n_written > TYPE_MOST_WRITTEN)
    mem_refuse(c, "a type would have more than 65536 parts when written out, which is the limit");
  else if (height > TYPE_MOST_HEIGHT)
    mem_refuse(c, "a type would be nested more than 128 levels deep, which is the limit");
  t->n_written = (uint32_t)n_written;
  t->height = height;
  return n_written <= TYPE_MOST_WRITTEN && height <= TYPE_MOST_HEIGHT;
}

/* Make a type, under the store's lock. */
static type *make_type(type_store *ts, type_kind kind, str name, const type *const *elems,
                       uint32_t n)
{
  type size;
  if (!measure_type(&size, ts->ctx, elems, n))
    return NULL;
  type *t = arena_alloc(&ts->mem, sizeof *t);
  const type **copy = arena_alloc(&ts->mem, n * sizeof *copy);
  char *text = name.p ? copy_name(ts, name.p, name.len) : NULL;
  if (!t || !copy || (name.p && !text))
    return NULL;
  for (uint32_t i = 0; i < n; i++)
    copy[i] = elems[i];
  *t = (type){.kind = kind, .n_elems = n, .elems = n ? copy : NULL, .name = text, .store = ts,
              .n_written = size.n_written, .height = size.height};
  return t;
}

bool type_set_fields(type *t, const type *const *elems, const char *const *fields, uint32_t n)
{
  if (!measure_type(t, t->store->ctx, elems, n))
    return false;
  t->elems = elems;
  t->fields = fields;
  t->n_elems = n;
  return true;
}

/* Choose the store: a container belongs where its elements are, so that retaining it keeps them: a
 * program's store has priority over the context's. */
static type_store *store_for(type_store *ts, const type *const *elems, uint32_t n)
{
  for (uint32_t i = 0; i < n && !ts->owner_destroy; i++)
    if (elems[i]->store && elems[i]->store->owner_destroy)
      return elems[i]->store;
  return ts;
}

#define MAX_KEY_WORDS 34

/* Return the store's type with these elements.  The key is kind and element pointers: elements of
 * one store are interned themselves, and a miss costs only memory since equality is structural. */
static const type *intern(type_store *ts, type_kind kind, const type *const *elems, uint32_t n)
{
  uintptr_t key[MAX_KEY_WORDS];
  ts = store_for(ts, elems, n);
  bool keyed = n + 1 <= MAX_KEY_WORDS;
  size_t bytes = (n + 1) * sizeof key[0];
  if (keyed) {
    key[0] = kind;
    for (uint32_t i = 0; i < n; i++)
      key[i + 1] = (uintptr_t)elems[i];
  }
  mutex_lock(&ts->lock);
  const type *t = keyed ? table_get(&ts->interned, (str){(char *)key, bytes}) : NULL;
  if (!t && (t = make_type(ts, kind, (str){NULL, 0}, elems, n)) && keyed) {
    char *kept = copy_name(ts, (char *)key, bytes);
    if (!kept || !table_put(&ts->interned, (str){kept, bytes}, (void *)t))
      t = NULL;
  }
  mutex_unlock(&ts->lock);
  return t;
}

/* Return the store's type of that kind and key, under the lock; a new one gets the name. */
static type *intern_key(type_store *ts, type_kind kind, str key, str name)
{
  char room[512];
  const bool is_short = key.len < sizeof room;
  char *k = is_short ? room : arena_alloc(&ts->mem, key.len + 1);
  if (!k)
    return NULL;
  k[0] = (char)kind; /* container keys begin with a kind that is never a named one */
  memcpy(k + 1, key.p, key.len);
  type *t = table_get(&ts->interned, (str){k, key.len + 1});
  if (t)
    return t;
  if (is_short && !(k = copy_name(ts, room, key.len + 1)))
    return NULL;
  t = make_type(ts, kind, name, NULL, 0);
  return t && table_put(&ts->interned, (str){k, key.len + 1}, t) ? t : NULL;
}

/* Return the store's type of that kind and name. */
static const type *intern_named(type_store *ts, type_kind kind, str name)
{
  mutex_lock(&ts->lock);
  type *t = intern_key(ts, kind, name, name);
  mutex_unlock(&ts->lock);
  return t;
}

const type *type_refined(type_store *ts, const char *name, str key, const void *facts,
                         size_t n_bytes)
{
  mutex_lock(&ts->lock);
  type *t = intern_key(ts, TYPE_TENSOR, key, str_of(name));
  void *copy = t && !t->facts ? arena_alloc(&ts->mem, n_bytes) : NULL;
  if (copy) {
    t->facts = memcpy(copy, facts, n_bytes);
    atomic_fetch_add_explicit(&ts->n_refined, 1, memory_order_relaxed);
  }
  if (t && !t->facts)
    t = NULL;
  mutex_unlock(&ts->lock);
  return t;
}

const type *type_list(type_store *ts, const type *elem)
{
  if (is_simple(elem))
    return &list_of[elem->kind];
  if (is_static_of(elem, TYPE_LIST))
    return &list_list[elem->elems[0]->kind];
  if (is_static_of(elem, TYPE_OPTIONAL))
    return &list_opt[elem->elems[0]->kind];
  return intern(ts, TYPE_LIST, &elem, 1);
}

const type *type_optional(type_store *ts, const type *elem)
{
  if (elem->kind == TYPE_OPTIONAL || elem->kind == TYPE_NONE)
    return elem;
  if (is_simple(elem))
    return &opt_of[elem->kind];
  if (is_static_of(elem, TYPE_LIST))
    return &opt_list[elem->elems[0]->kind];
  return intern(ts, TYPE_OPTIONAL, &elem, 1);
}

const type *type_dict(type_store *ts, const type *key, const type *value)
{
  if (is_simple(value) && key->kind == TYPE_STRING)
    return &str_dict[value->kind];
  if (is_simple(value) && key->kind == TYPE_INT)
    return &int_dict[value->kind];
  return intern(ts, TYPE_DICT, (const type *const[]){key, value}, 2);
}

const type *type_generic(type_store *ts, type_kind kind, const type *elem)
{
  return intern(ts, kind, &elem, 1);
}

const type *type_future(type_store *ts, const type *elem)
{
  return intern(ts, TYPE_FUTURE, &elem, 1);
}

const type *type_tuple(type_store *ts, const type *const *elems, uint32_t n)
{
  return n ? intern(ts, TYPE_TUPLE, elems, n) : &empty_tuple;
}

const type *type_var(type_store *ts, const char *name)
{
  return intern_named(ts, TYPE_VAR, str_of(name));
}

const type *type_class_ref(type_store *ts, str name) { return intern_named(ts, TYPE_CLASS, name); }

type *type_new_named(type_store *ts, type_kind kind, const char *name, const type *const *elems,
                     uint32_t n)
{
  mutex_lock(&ts->lock);
  type *t = make_type(ts, kind, str_of(name), elems, n);
  mutex_unlock(&ts->lock);
  return t;
}

/* -- Unions ------------------------------------------------------------------------------------ */

/* Return the rank by which PyTorch sorts the members of a union: its own numbers of kinds. */
static int union_rank(const type *t)
{
  static const uint8_t rank[] = {
      [TYPE_ANY] = 0,       [TYPE_ENUM] = 1,      [TYPE_ANY_ENUM] = 2,  [TYPE_TENSOR] = 3,
      [TYPE_STORAGE] = 4,   [TYPE_TUPLE] = 5,     [TYPE_LIST] = 6,      [TYPE_DICT] = 7,
      [TYPE_NUMBER] = 8,    [TYPE_FLOAT] = 9,     [TYPE_COMPLEX] = 10,  [TYPE_FUTURE] = 11,
      [TYPE_AWAIT] = 12,    [TYPE_RREF] = 13,     [TYPE_INT] = 14,      [TYPE_NONE] = 15,
      [TYPE_STRING] = 16,   [TYPE_GENERATOR] = 17, [TYPE_QUANTIZER] = 18, [TYPE_BOOL] = 19,
      [TYPE_OPTIONAL] = 20, [TYPE_VAR] = 21,      [TYPE_DEVICE] = 22,   [TYPE_STREAM] = 23,
      [TYPE_FUNCTION] = 24, [TYPE_CLASS] = 25,    [TYPE_PYOBJECT] = 26, [TYPE_CAPSULE] = 27,
      [TYPE_INTERFACE] = 28};
  return t->kind < COUNT_OF(rank) ? rank[t->kind] : 29;
}

/* Compare two members; *failed is set if memory runs out: the order would be wrong. */
static bool sorts_before(type_store *ts, const type *a, const type *b, bool *failed)
{
  int ra = union_rank(a), rb = union_rank(b);
  if (ra != rb)
    return ra < rb;
  text_buf ta, tb;
  text_init(&ta, ts->ctx);
  text_init(&tb, ts->ctx);
  type_print(&ta, a);
  type_print(&tb, b);
  bool before = strcmp(text_str(&ta), text_str(&tb)) < 0;
  *failed |= text_failed(&ta) || text_failed(&tb);
  text_free(&ta);
  text_free(&tb);
  return before;
}

static uint32_t count_members(const type *t)
{
  uint32_t n = 0;
  switch ((int)t->kind) {
  case TYPE_UNION:
    for (uint32_t i = 0; i < t->n_elems; i++)
      n += count_members(t->elems[i]);
    return n;
  case TYPE_OPTIONAL:
    return count_members(t->elems[0]) + 1;
  case TYPE_NUMBER:
    return 3;
  default:
    return 1;
  }
}

static uint32_t flatten(const type *t, const type **out)
{
  uint32_t n = 0;
  switch ((int)t->kind) {
  case TYPE_UNION:
    for (uint32_t i = 0; i < t->n_elems; i++)
      n += flatten(t->elems[i], out + n);
    return n;
  case TYPE_OPTIONAL:
    n = flatten(t->elems[0], out);
    out[n] = &simple[TYPE_NONE];
    return n + 1;
  case TYPE_NUMBER:
    out[0] = &simple[TYPE_INT];
    out[1] = &simple[TYPE_FLOAT];
    out[2] = &simple[TYPE_COMPLEX];
    return 3;
  default:
    out[0] = t;
    return 1;
  }
}

/* Merge members that unify, from the right as in PyTorch.  None is not merged. */
static uint32_t merge_members(type_store *ts, const type **m, uint32_t n)
{
  uint32_t end = n - 1;
  for (uint32_t i = n - 1; i > 0; i--)
    for (uint32_t j = i - 1 < end ? i - 1 : end;; j--) {
      bool none_apart = (m[i]->kind == TYPE_NONE) != (m[j]->kind == TYPE_NONE);
      const type *u = none_apart ? NULL : type_unify(ts, m[i], m[j], false);
      if (u) {
        m[j] = u;
        m[i] = m[end--];
        break;
      }
      if (j == 0)
        break;
    }
  return end + 1;
}

/* Return a simpler equal type for a union: T and None, the numbers, or the numbers and None. */
static const type *as_simple(type_store *ts, const type *const *m, uint32_t n)
{
  const type *other = NULL;
  bool none = false;
  unsigned numbers = 0;
  for (uint32_t i = 0; i < n; i++) {
    none |= m[i]->kind == TYPE_NONE;
    other = m[i]->kind == TYPE_NONE ? other : m[i];
    numbers |= (m[i]->kind == TYPE_INT) | (m[i]->kind == TYPE_FLOAT) << 1 |
               (m[i]->kind == TYPE_COMPLEX) << 2;
  }
  if (n == 3 && numbers == 7)
    return &simple[TYPE_NUMBER];
  if (!none || !other)
    return NULL;
  if (n == 2)
    return type_optional(ts, other);
  return n == 4 && numbers == 7 ? &opt_of[TYPE_NUMBER] : NULL;
}

/* Collect distinct elems in out[TYPE_MOST_MEMBERS]; returns their number, or a larger one if there
 * are too many. (A list display has the type of each of its items.) */
static uint32_t distinct(const type *const *elems, uint32_t n, const type **out)
{
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t j = k;
    while (j > 0 && out[j - 1] != elems[i])
      j--;
    if (j == 0 && k == TYPE_MOST_MEMBERS)
      return k + 1;
    if (j == 0)
      out[k++] = elems[i];
  }
  return k;
}

const type *type_union(type_store *ts, const type *const *all, uint32_t n)
{
  const type *elems[TYPE_MOST_MEMBERS];
  size_t cap = 0;
  n = distinct(all, n, elems);
  for (uint32_t i = 0; i < n && n <= TYPE_MOST_MEMBERS; i++)
    cap += count_members(elems[i]);
  if (n > TYPE_MOST_MEMBERS || cap > TYPE_MOST_MEMBERS) {
    mem_refuse(ts->ctx, "a union would have more than 256 members, which is the limit");
    return NULL;
  }
  const type **m = mem_alloc(ts->ctx, cap * sizeof *m);
  if (!m)
    return NULL;
  uint32_t k = 0;
  for (uint32_t i = 0; i < n; i++)
    k += flatten(elems[i], m + k);
  if (k)
    k = merge_members(ts, m, k);
  bool failed = false;
  for (uint32_t i = 1; i < k; i++) /* insertion sort: unions are short */
    for (uint32_t j = i; j > 0 && sorts_before(ts, m[j], m[j - 1], &failed); j--) {
      const type *swap = m[j];
      m[j] = m[j - 1];
      m[j - 1] = swap;
    }
  const type *t = failed ? NULL : k == 1 ? m[0] : as_simple(ts, m, k);
  if (!t && !failed)
    t = intern(ts, TYPE_UNION, m, k);
  mem_free(ts->ctx, m, cap * sizeof *m);
  return t;
}

/* -- Asking ------------------------------------------------------------------------------------ */

static type_kind runtime_kind(type_kind k)
{
  switch ((int)k) {
  case TYPE_SCALAR_TYPE:
  case TYPE_LAYOUT:
  case TYPE_MEMORY_FORMAT:
  case TYPE_QSCHEME:
  case TYPE_SYM_INT:
    return TYPE_INT;
  case TYPE_SYM_FLOAT:
    return TYPE_FLOAT;
  case TYPE_SYM_BOOL:
    return TYPE_BOOL;
  case TYPE_DIMNAME:
    return TYPE_STRING;
  default:
    return k;
  }
}

const type *type_runtime(const type *t)
{
  if (is_simple(t))
    return &simple[runtime_kind(t->kind)];
  if (t->store)
    return t;
  if (t->kind == TYPE_LIST && is_simple(t->elems[0]))
    return &list_of[runtime_kind(t->elems[0]->kind)];
  if (t->kind == TYPE_OPTIONAL && is_simple(t->elems[0]))
    return &opt_of[runtime_kind(t->elems[0]->kind)];
  if (t->kind == TYPE_OPTIONAL && is_static_of(t->elems[0], TYPE_LIST))
    return &opt_list[runtime_kind(t->elems[0]->elems[0]->kind)];
  return t;
}

static bool same_names(const type *a, const type *b)
{
  if (!a->name || !b->name)
    return a->name == b->name;
  return strcmp(a->name, b->name) == 0;
}

static bool same_fields(const type *a, const type *b)
{
  if (!a->fields || !b->fields)
    return a->fields == b->fields;
  for (uint32_t i = 0; i < a->n_elems; i++)
    if (strcmp(a->fields[i], b->fields[i]) != 0)
      return false;
  return true;
}

/* True if every kind of number is a member. */
static bool union_holds_numbers(const type *u)
{
  unsigned numbers = 0;
  for (uint32_t i = 0; i < u->n_elems; i++) {
    type_kind k = u->elems[i]->kind;
    numbers |= (k == TYPE_INT) | (k == TYPE_FLOAT) << 1 | (k == TYPE_COMPLEX) << 2;
  }
  return numbers == 7;
}

bool type_equal(const type *a, const type *b)
{
  if (a == b)
    return true;
  type_kind ka = runtime_kind(a->kind), kb = runtime_kind(b->kind);
  if (ka != kb)
    return (ka == TYPE_NUMBER && kb == TYPE_UNION && b->n_elems == 3 && union_holds_numbers(b)) ||
           (kb == TYPE_NUMBER && ka == TYPE_UNION && a->n_elems == 3 && union_holds_numbers(a));
  if (ka < N_SIMPLE)
    return true;
  switch ((int)ka) {
  case TYPE_CLASS:
  case TYPE_INTERFACE:
  case TYPE_ENUM:
  case TYPE_FUNCTION:
    return !a->cls && !b->cls && same_names(a, b);
  default:
    break;
  }
  if (a->n_elems != b->n_elems || !same_names(a, b) || !same_fields(a, b))
    return false;
  for (uint32_t i = 0; i < a->n_elems; i++)
    if (!type_equal(a->elems[i], b->elems[i]))
      return false;
  return true;
}

static bool is_any_of(const type *a, const type *u)
{
  for (uint32_t i = 0; i < u->n_elems; i++)
    if (type_is_subtype(a, u->elems[i]))
      return true;
  return false;
}

static bool all_below(const type *u, const type *b)
{
  for (uint32_t i = 0; i < u->n_elems; i++)
    if (!type_is_subtype(u->elems[i], b))
      return false;
  return true;
}

static bool tuple_below(const type *a, const type *b)
{
  if (b->kind == TYPE_ANY_TUPLE)
    return true;
  if (b->kind != TYPE_TUPLE || a->n_elems != b->n_elems)
    return false;
  if (b->fields && (!a->fields || !same_fields(a, b)))
    return false;
  for (uint32_t i = 0; i < a->n_elems; i++)
    if (!type_is_subtype(a->elems[i], b->elems[i]))
      return false;
  return true;
}

/* Compare a union; Optional[number] and number count as the kinds of numbers. */
static bool union_below(const type *a, const type *b)
{
  if (b->kind == TYPE_OPTIONAL) {
    for (uint32_t i = 0; i < a->n_elems; i++)
      if (a->elems[i]->kind != TYPE_NONE && !type_is_subtype(a->elems[i], b->elems[0]))
        return false;
    return true;
  }
  return all_below(a, b);
}

static bool class_below(const type *a, const type *b)
{
  if (b->kind == TYPE_ANY_CLASS)
    return a->kind == TYPE_CLASS;
  return b->kind == TYPE_INTERFACE && type_fits_interface(a, b);
}

bool type_is_subtype(const type *a, const type *b)
{
  if (b->kind == TYPE_ANY || type_equal(a, b))
    return true;
  switch ((int)runtime_kind(a->kind)) { /* the type of the left side alone */
  case TYPE_UNION:
    return union_below(a, b);
  case TYPE_OPTIONAL:
    if (b->kind == TYPE_OPTIONAL)
      return type_is_subtype(a->elems[0], b->elems[0]);
    return b->kind == TYPE_UNION && is_any_of(&simple[TYPE_NONE], b) && is_any_of(a->elems[0], b);
  case TYPE_NUMBER:
    if (b->kind == TYPE_UNION)
      return union_holds_numbers(b);
    break;
  case TYPE_INT:
  case TYPE_FLOAT:
  case TYPE_COMPLEX:
    if (b->kind == TYPE_NUMBER)
      return true;
    break;
  case TYPE_NONE:
    if (b->kind == TYPE_OPTIONAL)
      return true;
    break;
  case TYPE_LIST:
    if (b->kind == TYPE_ANY_LIST)
      return true;
    break;
  case TYPE_TUPLE:
    if (tuple_below(a, b))
      return true;
    break;
  case TYPE_ENUM:
    if (b->kind == TYPE_ANY_ENUM)
      return true;
    break;
  case TYPE_FUTURE:
  case TYPE_RREF:
  case TYPE_AWAIT:
    if (b->kind == a->kind && type_is_subtype(a->elems[0], b->elems[0]))
      return true;
    break;
  case TYPE_CLASS:
  case TYPE_INTERFACE:
    if (class_below(a, b))
      return true;
    break;
  default:
    break;
  }
  if (b->kind == TYPE_OPTIONAL)
    return type_is_subtype(a, b->elems[0]);
  return b->kind == TYPE_UNION && is_any_of(a, b);
}

static const type *unify_tuples(type_store *ts, const type *a, const type *b)
{
  if (a->n_elems != b->n_elems)
    return NULL;
  const type **elems = mem_alloc(ts->ctx, a->n_elems * sizeof *elems);
  bool ok = elems != NULL;
  for (uint32_t i = 0; ok && i < a->n_elems; i++) {
    elems[i] = type_unify(ts, a->elems[i], b->elems[i], false);
    ok = elems[i] != NULL;
  }
  const type *t = ok ? type_tuple(ts, elems, a->n_elems) : NULL;
  mem_free(ts->ctx, elems, a->n_elems * sizeof *elems);
  return t;
}

const type *type_unify(type_store *ts, const type *a, const type *b, bool default_to_union)
{
  const type *t = NULL;
  if (type_is_subtype(a, b))
    return b;
  if (type_is_subtype(b, a))
    return a;
  if (a->kind == TYPE_NONE)
    return type_optional(ts, b);
  if (b->kind == TYPE_NONE)
    return type_optional(ts, a);
  if (a->kind == TYPE_TUPLE && b->kind == TYPE_TUPLE) {
    t = unify_tuples(ts, a, b);
  } else if (a->kind == b->kind && (a->kind == TYPE_FUTURE || a->kind == TYPE_AWAIT)) {
    t = type_unify(ts, a->elems[0], b->elems[0], false);
    t = t ? type_generic(ts, a->kind, t) : NULL;
  }
  if (!t && default_to_union)
    t = type_union(ts, (const type *const[]){a, b}, 2);
  return t;
}

const type *type_container_in(const type *t, type_kind kind)
{
  const type *found = NULL;
  if (t->kind != TYPE_OPTIONAL && t->kind != TYPE_UNION)
    return t->kind == kind ? t : NULL;
  for (uint32_t i = 0; i < t->n_elems; i++) {
    const type *one = type_container_in(t->elems[i], kind);
    if (one && found)
      return NULL;
    found = one ? one : found;
  }
  return found;
}

bool type_has_vars(const type *t)
{
  if (t->kind == TYPE_VAR)
    return true;
  if (t->kind == TYPE_ENUM)
    return false;
  for (uint32_t i = 0; i < t->n_elems; i++)
    if (type_has_vars(t->elems[i]))
      return true;
  return false;
}
