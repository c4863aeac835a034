/* value/value.h -- values on the heap: strings, lists, tuples, dicts, objects, enums, custom
 * classes.
 *
 * Invariant: every item of a list is a value of `elem`, every key and value of a dict is one of
 * `key` and `value`, every field of an object is one of the attribute's type or unset.  Compiled
 * code relies on it, so membership in a container type compares these types (type_contains_value),
 * never the items.
 *
 * rush_value (rushlight.h) is the 16-byte handle.  Each function documents the ownership of the
 * heap part. Cycles (an object that holds itself) are never freed: PyTorch has the same leak.
 * Threads: reference counts are atomic; only one thread at a time may write contents. */
#ifndef RUSH_VALUE_VALUE_H
#define RUSH_VALUE_VALUE_H

#include "base/heap.h"
#include "base/integer.h"
#include "value/type.h"

struct rush_string {
  heap h;
  size_t len; /* bytes of UTF-8 */
  char text[]; /* NUL-terminated */
};
typedef struct complex_box {
  heap h;
  double re, im;
} complex_box;
struct rush_list {
  heap h;
  const type *elem; /* retained */
  size_t n, cap;
  rush_value *items; /* owns each */
};
struct rush_tuple {
  heap h;
  const type *type; /* retained; a NamedTuple's type; NULL for a plain tuple */
  size_t n;
  rush_value items[];
};
typedef struct dict_entry {
  rush_value key, value; /* key.tag RUSH_TAG_UNSET: deleted */
  uint64_t hash;
} dict_entry;
struct rush_dict {
  heap h;
  const type *key, *value; /* retained */
  size_t n;                /* live entries */
  size_t n_used, cap;      /* of entries, which are in insertion order */
  dict_entry *entries;
  uint32_t *slots; /* n_slots, a power of two; index + 1, or 0 */
  size_t n_slots;
};
/* What another part of the library keeps with an object, and that ends with it. */
typedef struct attachment attachment;
struct attachment {
  attachment *next;
  void (*destroy)(context *c, attachment *a);
};

struct rush_object {
  heap h;
  const type *type; /* TYPE_CLASS, retained: keeps the program */
  uint32_t n_slots;
  _Atomic uint32_t number; /* the result of id(), from context_number; 0: not requested yet */
  _Atomic(struct call_lock *)
    lock;             /* of the module whose state it is: object_lock; retained, or NULL */
  _Atomic(attachment *) attached; /* owned; grows at its front */
  /* a plan has read attributes: writes to them call object_changed */
  _Atomic uint32_t is_read;
  rush_value slots[]; /* in the class's attribute order */
};
typedef struct enum_value { /* members are made once per program and shared */
  heap h;
  const type *type; /* TYPE_ENUM; borrowed if the program owns the member */
  rush_string *name;
  rush_value value;
} enum_value;

/* A class implemented in C.  Registered once per context; instances are opaque blocks. */
typedef struct custom_class custom_class;
struct custom_class {
  const char *name; /* "__torch__.torch.classes.quantized.LinearPackedParamsBase" */
  void (*destroy)(void *self);
  /* Make an instance from pickled state (the argument of __setstate__). */
  rush_status (*set_state)(call_ctx *cx, rush_value state, void **self);
  rush_status (*get_state)(call_ctx *cx, void *self, rush_value *state);
};
typedef struct custom_value {
  heap h;
  const custom_class *cls;
  void *self;
} custom_value;

/* -- Handles ----------------------------------------------------------------------------------- */

static inline bool value_is_heap(rush_value v)
{
  return v.as.heap != NULL &&
         ((v.tag >= RUSH_TAG_COMPLEX && v.tag <= RUSH_TAG_ENUM) || v.tag == RUSH_TAG_TENSOR ||
          (v.tag >= RUSH_TAG_GENERATOR && v.tag <= RUSH_TAG_FUNCTION));
}
static inline rush_value value_retain(rush_value v)
{
  if (value_is_heap(v))
    heap_retain((heap *)v.as.heap);
  return v;
}
void value_destroy(rush_value v); /* called when the last reference is dropped */
static inline void value_release(rush_value v)
{
  if (value_is_heap(v) && heap_drop((heap *)v.as.heap))
    value_destroy(v);
}
static inline rush_value value_none(void) { return (rush_value){.tag = RUSH_TAG_NONE}; }
static inline rush_value value_unset(void) { return (rush_value){.tag = RUSH_TAG_UNSET}; }
static inline rush_value value_bool(bool b)
{
  return (rush_value){.tag = RUSH_TAG_BOOL, .as.i = b};
}
static inline rush_value value_int(int64_t i)
{
  return (rush_value){.tag = RUSH_TAG_INT, .as.i = i};
}
static inline rush_value value_float(double d)
{
  return (rush_value){.tag = RUSH_TAG_FLOAT, .as.d = d};
}
/* The kinds that have meaning here, by PyTorch's numbers. */
enum { DEVICE_CPU = 0, DEVICE_META = 14 };
static inline rush_value value_device(int32_t kind, int32_t index)
{
  return (rush_value){.tag = RUSH_TAG_DEVICE,
                      .as.i = (int64_t)((uint64_t)(uint32_t)kind << 32 | (uint32_t)index)};
}
/* Make a value from a heap object; steals the reference. */
static inline rush_value value_heap_steal(uint32_t tag, void *p)
{
  return (rush_value){.tag = tag, .as.heap = p};
}
/* Return "cpu", "cuda"...; NULL if the number is not a kind of device.  Static. */
const char *device_kind_name(int32_t kind);
/* Parse "cuda:1" to a device value; returns false if malformed or unknown. */
bool device_parse(str text, rush_value *out);
static inline int32_t value_device_kind(rush_value v) { return (int32_t)(v.as.i >> 32); }
static inline int32_t value_device_index(rush_value v) { return (int32_t)(uint32_t)v.as.i; }
static inline bool value_is_none(rush_value v) { return v.tag == RUSH_TAG_NONE; }

/* -- Making (all new; RUSH_ENOMEM is the only failure) ----------------------------------------- */

rush_status string_new(call_ctx *cx, const char *text, size_t len, rush_value *out) RUSH_CHECKED;
rush_status complex_new(call_ctx *cx, double re, double im, rush_value *out) RUSH_CHECKED;
rush_status list_new(call_ctx *cx, const type *elem, size_t cap, rush_list **out) RUSH_CHECKED;
rush_status list_append_steal(call_ctx *cx, rush_list *l, rush_value v) RUSH_CHECKED;
/* Return the index of item i, counted from the end if it is negative, or -1: there is none. */
static inline int64_t list_index(const rush_list *l, int64_t i)
{
  i = index_wrap(i, l->n);
  return i >= 0 && (size_t)i < l->n ? i : -1;
}
/* Raise the IndexError of an item that there is not. */
rush_status list_out_of_range(call_ctx *cx);
/* Replace an item (steals v); nothing of the list is read after the old item is released, whose
 * destructor may change it. */
static inline void list_set_steal(rush_list *l, int64_t index, rush_value v)
{
  const rush_value old = l->items[index];
  l->items[index] = v;
  value_release(old);
}
/* Reserve items.  Items are owned: code that changes n must release them or move them elsewhere. */
rush_status list_reserve(call_ctx *cx, rush_list *l, size_t cap) RUSH_CHECKED;
/* Make a list of ints (of type int[]). */
rush_status list_of_ints(call_ctx *cx, const int64_t *v, size_t n, rush_value *out) RUSH_CHECKED;
/* Make a tuple of n None items that the caller replaces; `type` NULL for a plain tuple. */
rush_status tuple_new(call_ctx *cx, const type *type, size_t n, rush_tuple **out) RUSH_CHECKED;
rush_status dict_new(call_ctx *cx, const type *key, const type *value,
                     rush_dict **out) RUSH_CHECKED;
rush_status object_new(call_ctx *cx, const type *cls, uint32_t n_slots, rush_object **out)
    RUSH_CHECKED; /* slots are unset */
rush_status enum_value_new(call_ctx *cx, const type *t, const char *name, rush_value value,
                           rush_value *out) RUSH_CHECKED;
rush_status custom_value_new_steal(call_ctx *cx, const custom_class *cls, void *self,
                                   rush_value *out) RUSH_CHECKED;

static inline complex_box *value_complex(rush_value v) { return (complex_box *)v.as.heap; }
static inline enum_value *value_enum(rush_value v) { return (enum_value *)v.as.heap; }
static inline str value_str(rush_value v) { return (str){v.as.string->text, v.as.string->len}; }

/* Release a value when the session ends, unless it is kept. */
void session_defer_value(session *s, rush_value v);
void session_keep_value(session *s, rush_value v);

/* -- Dicts: insertion-ordered, keys str, int, float, bool, complex, Tensor (by identity), enum - */

/* Return the value, borrowed, or NULL if the key is absent. */
rush_value *dict_get(const rush_dict *d, rush_value key);
/* Set a key's value; an existing key keeps its position. */
rush_status dict_set_steal(call_ctx *cx, rush_dict *d, rush_value key,
                           rush_value value) RUSH_CHECKED;
/* Remove a key; returns true if it existed; *value (if not NULL) receives its value, new. */
bool dict_remove(rush_dict *d, rush_value key, rush_value *value);
void dict_clear(rush_dict *d);
/* Return the next live entry at or after *pos; NULL at the end.  Start with *pos = 0. */
dict_entry *dict_next(const rush_dict *d, size_t *pos);

/* -- Comparing and copying --------------------------------------------------------------------- */

/* Compare as PyTorch's fastEqualsForContainer / `==`; tensors in containers are compared through
 * the hook of the tensor layer, with an error as in PyTorch unless they are identical or have one
 * element. */
rush_status value_equal(call_ctx *cx, rush_value a, rush_value b, bool *out) RUSH_CHECKED;
bool value_is_same(rush_value a, rush_value b); /* Python's `is` */
/* Copy deeply; parts that are shared stay shared. */
rush_status value_deepcopy(call_ctx *cx, rush_value v, rush_value *out) RUSH_CHECKED;
/* Objects refer to the lock of the module whose state they are (base/lock.h): the module's own
 * object from the start, others once they are first read from it.  The first lock is kept. */
static inline struct call_lock *object_lock(const rush_object *o)
{
  return atomic_load_explicit(&o->lock, memory_order_acquire);
}
void object_adopt(rush_object *o, struct call_lock *lock);
/* Call this after each write to an attribute of an object that other code may have seen. */
static inline void object_changed(const rush_object *o)
{
  if (UNLIKELY(atomic_load_explicit(&o->is_read, memory_order_relaxed)))
    context_state_changed(o->h.ctx);
}
/* Prepare a part of a module's state for a host; the caller holds the module's lock.  Lists, dicts
 * and tuples are copied, because a call may change them while the host reads; tensors and objects
 * are shared, and objects get the lock.  Without a lock this is v itself. *out is new. */
rush_status value_snapshot(call_ctx *cx, rush_value v, struct call_lock *lock,
                           rush_value *out) RUSH_CHECKED;
/* Append the value as printed by prim::Print and str(). */
rush_status value_print(call_ctx *cx, text_buf *out, rush_value v) RUSH_CHECKED;
/* Append a complex number as Python's repr: a part that is a whole number has no ".0", a real part
 * of +0 is omitted. */
void value_print_complex(text_buf *out, double re, double im);
/* Append the value as Python's repr does: strings quoted, floats short, fields of NamedTuples
 * named. */
rush_status value_repr(call_ctx *cx, text_buf *out, rush_value v) RUSH_CHECKED;

/* Operations on a kind of value that an upper layer defines: a static const struct that the layer
 * publishes in the context's SLOT_KIND_... before it makes the first value of that kind. */
typedef struct value_ops {
  void (*destroy)(void *heap);
  rush_status (*print)(call_ctx *cx, text_buf *out, void *heap);
  rush_status (*copy)(call_ctx *cx, void *heap, rush_value *out); /* deep */
  rush_status (*equal)(call_ctx *cx, void *a, void *b, bool *out);
  rush_status (*repr)(call_ctx *cx, text_buf *out, void *heap); /* NULL: as print */
  const type *(*type_of)(const void *heap); /* borrowed from the value; futures only, else NULL */
} value_ops;
/* Return the operations for a tag that an upper layer defines, or NULL. */
const value_ops *value_ops_of(context *c, uint32_t tag);

/* heap.flags of strings and lists in an arena (defaults in schemas): they are never freed
 * individually, whatever their count. */
#define VALUE_IN_ARENA 0x80
/* heap.flags of lists, tuples and dicts whose element types are not decided: a host made them
 * without items, or from items without a common type (or they hold such a container), or a pickle
 * had no types. A declared type decides while the value is not shared; a parameter of type Any
 * refuses such a value of a host (ops/call/bind.c). */
#define VALUE_UNDECIDED 0x40
/* heap.flags of a program's constants and of the values inside them.  An object with this flag
 * keeps its type alive but not the code of its program; otherwise the two would keep each other
 * alive (type_store).  PyTorch does the same for objects in constants. */
#define VALUE_OF_PROGRAM 0x20
static inline bool value_is_undecided(rush_value v)
{
  return (v.tag == RUSH_TAG_LIST || v.tag == RUSH_TAG_TUPLE || v.tag == RUSH_TAG_DICT) &&
         (((const heap *)v.as.heap)->flags & VALUE_UNDECIDED);
}

#endif
