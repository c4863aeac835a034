/* value/type.h -- PyTorch's types.
 *
 * A type is immutable and lives in a type_store: the static one (simple types and the usual
 * containers, never freed), a program's, or the context's.  Container types of a store are made
 * through type_list() and similar functions, which return the static type if there is one; equality
 * is structural (type_equal), never by pointer.
 *
 * Ownership: a type is borrowed from its store.  A heap value keeps its type alive by type_retain
 * or (objects) type_retain_code; both cost nothing for static types. Threads: stores are locked
 * internally; types are immutable after creation (class types: after their program is loaded, see
 * ir/program.h). */
#ifndef RUSH_VALUE_TYPE_H
#define RUSH_VALUE_TYPE_H

#include "base/count.h"
#include "base/session.h"
#include "base/table.h"
#include "base/threads.h"

typedef enum type_kind {
  TYPE_ANY,
  TYPE_NONE,
  TYPE_TENSOR,
  TYPE_BOOL,
  TYPE_INT,
  TYPE_FLOAT,
  TYPE_COMPLEX,
  TYPE_NUMBER, /* Scalar */
  TYPE_STRING,
  TYPE_DEVICE,
  TYPE_GENERATOR,
  TYPE_STORAGE,
  TYPE_STREAM,
  TYPE_CAPSULE,
  TYPE_PYOBJECT,
  TYPE_QUANTIZER,
  /* Distinct in schemas; equal to int (bool, float) everywhere else. */
  TYPE_SCALAR_TYPE,
  TYPE_LAYOUT,
  TYPE_MEMORY_FORMAT,
  TYPE_QSCHEME,
  TYPE_DIMNAME,
  TYPE_SYM_INT,
  TYPE_SYM_FLOAT,
  TYPE_SYM_BOOL,
  /* Common supertypes of families. */
  TYPE_ANY_LIST,
  TYPE_ANY_TUPLE,
  TYPE_ANY_CLASS,
  TYPE_ANY_ENUM,
  /* With elements. */
  TYPE_LIST,     /* elems[0] */
  TYPE_OPTIONAL, /* elems[0] */
  TYPE_DICT,     /* elems[0] key, elems[1] value */
  TYPE_TUPLE,    /* elems; also name and fields for a NamedTuple */
  TYPE_UNION,    /* elems, flattened, in PyTorch's order */
  TYPE_FUTURE,   /* elems[0] */
  TYPE_RREF,
  TYPE_AWAIT,
  TYPE_VAR,      /* a type variable of a schema: name */
  /* Named. */
  TYPE_CLASS,     /* name; cls */
  TYPE_INTERFACE, /* name; methods in cls */
  TYPE_ENUM,      /* name; elems[0] the values' type; members in cls */
  TYPE_FUNCTION   /* a value that is a function */
} type_kind;

typedef struct type type;
typedef struct type_store type_store;
typedef struct class_info class_info; /* ir/program.h: attributes and methods, opaque here */

struct type {
  type_kind kind;
  uint32_t n_elems;
  const type *const *elems;   /* in the store */
  const char *name;           /* qualified, NUL-terminated; NULL if there is none */
  const char *const *fields;  /* NamedTuple: n_elems names */
  const rush_value *defaults; /* NamedTuple: n_defaults values for the last fields, or NULL */
  uint32_t n_defaults;
  class_info *cls;            /* TYPE_CLASS, TYPE_INTERFACE, TYPE_ENUM */
  const struct ir_facts *facts; /* TYPE_TENSOR: what is known about it (ir/facts.h), or NULL */
  type_store *store;          /* NULL: static */
  /* number of types in its full text: (t, t) counts t twice; 0 means 1 */
  uint32_t n_written;
  uint32_t height; /* nesting depth; 0: no elements, or static */
};

/* Limits on the full text and the depth of types; larger ones are not made (NULL, and mem_refuse):
 * x = (x, x) in 60 lines would have a type of 2^60.  They bound the steps and levels of everything
 * that recurses over types (comparing, printing).  Classes, interfaces and enums are leaves; a
 * NamedTuple is not, and never contains itself. */
#define TYPE_MOST_WRITTEN (1u << 16)
#define TYPE_MOST_HEIGHT 128u
#define TYPE_MOST_MEMBERS 256u /* of a union: making one compares all pairs */

/* -- Stores ------------------------------------------------------------------------------------ */

/* A refcounted arena of types, mostly part of a program.  It has two counts, like a shared pointer
 * with weak references: a program owns constants (a default `[]` of List[C]) whose types are the
 * program's own, and with one count the two would keep each other alive for ever.  `refs` counts
 * the holders that may run code: modules, functions, graphs, objects.  When it reaches 0, owner_end
 * releases the code with its constants.  `type_refs` counts the holders that only refer to a type:
 * lists, dicts, tuples, enum members, futures.  When it reaches 0, owner_destroy frees the rest.
 * Rejected: counting a program's references to itself and ending it at that number (running code
 * can change constants, and with them the number). */
struct type_store {
  _Atomic uint32_t refs;
  _Atomic uint32_t type_refs; /* and one for all of `refs` */
  _Atomic uint32_t n_refined; /* tensor types with facts, which live as long as the store */
  context *ctx;
  mutex lock;
  arena mem;
  table interned; /* printed text -> container type, so that a store holds each type once */
  /* called when `refs` is 0: frees the code and its constants; NULL: nothing to do */
  void (*owner_end)(
    type_store *ts);
  /* called when `type_refs` is 0; NULL: free the store itself */
  void (*owner_destroy)(type_store *ts);
  /* True if the class (or interface) has the methods of `iface`.  Set by owners of named types;
   * NULL: never. */
  bool (*fits_interface)(const type *cls, const type *iface);
  /* type_fits.c: comparisons with interfaces in progress, one per thread; under the lock */
  struct fits_work *fits;
};
/* Call fits_interface of iface's store, where interfaces may refer to each other: a pair that is
 * already being compared is assumed to fit.  See type_fits.c. */
bool type_fits_interface(const type *cls, const type *iface);
type_store *type_store_new(context *c); /* new; NULL if memory runs out */
void type_store_init(type_store *ts, context *c, void (*owner_end)(type_store *),
                     void (*owner_destroy)(type_store *));
void type_store_fini(type_store *ts); /* for owners: frees arena and table */
type_store *type_store_retain(type_store *ts);
void type_store_release(type_store *ts);
void type_store_release_type(type_store *ts); /* called by type_release */
/* Return the context's store, made at first use; NULL if memory runs out. */
type_store *type_store_of_context(context *c);

/* Keep the type alive, but not the code of its program. */
static inline void type_retain(const type *t)
{
  if (t && t->store)
    count_add(&t->store->type_refs);
}
static inline void type_release(const type *t)
{
  if (t && t->store)
    type_store_release_type(t->store);
}
/* Keep the type and the code of its program alive: for objects, whose methods can be called. */
static inline void type_retain_code(const type *t) { type_store_retain(t->store); }
static inline void type_release_code(const type *t) { type_store_release(t->store); }
/* Like type_retain_code, for holders of the type only; returns false if the code was already
 * freed. */
bool type_retain_code_if_there(const type *t);

/* -- Making types ------------------------------------------------------------------------------ */

/* Return the static type of a simple kind, up to TYPE_ANY_ENUM. */
const type *type_simple(type_kind kind);
/* Make container types; NULL if memory runs out (in a session use session_type_* below, which never
 * return NULL). */
const type *type_list(type_store *ts, const type *elem);
const type *type_optional(type_store *ts,
                          const type *elem); /* Optional of Optional or None collapses */
const type *type_dict(type_store *ts, const type *key, const type *value);
const type *type_future(type_store *ts, const type *elem);
/* Make TYPE_FUTURE, TYPE_RREF or TYPE_AWAIT of elem. */
const type *type_generic(type_store *ts, type_kind kind, const type *elem);
const type *type_tuple(type_store *ts, const type *const *elems, uint32_t n);
const type *type_union(type_store *ts, const type *const *elems,
                       uint32_t n); /* flattens, merges, sorts */
const type *type_var(type_store *ts, const char *name);
/* Make a class type with only a name: custom classes ("__torch__.torch.classes.quantized..."),
 * classes of schemas. cls is NULL; it equals every other reference of that name. */
const type *type_class_ref(type_store *ts, str name);
/* Make a new named type (never interned); the caller sets cls, fields and defaults before
 * publishing it. */
type *type_new_named(type_store *ts, type_kind kind, const char *name, const type *const *elems,
                     uint32_t n);
/* Return the store's TYPE_TENSOR of that key; a new one gets the name and a copy of the facts. */
const type *type_refined(type_store *ts, const char *name, str key, const void *facts,
                         size_t n_bytes);
/* Set elements and fields, which live as long as the store, of a NamedTuple made without them.
 * Returns false (and calls mem_refuse) if it would be too large or too deep.  Before, its `fields`
 * are NULL: type_is_unfinished. */
bool type_set_fields(type *t, const type *const *elems, const char *const *fields, uint32_t n);
static inline bool type_is_unfinished(const type *t)
{
  return t->kind == TYPE_TUPLE && t->name && *t->name && !t->fields;
}
/* Return `t`; leaves the session with RUSH_ENOMEM if it is NULL. */
const type *session_type(session *s, const type *t);

/* -- Asking ------------------------------------------------------------------------------------ */

/* True if structurally equal.  Kinds that differ only in schemas (ScalarType and int, ...) are
 * equal. */
bool type_equal(const type *a, const type *b);
/* True if every value of `a` is a value of `b`: PyTorch's isSubtypeOf (List invariant, Optional
 * covariant, Tuple covariant, NamedTuple <: Tuple, class <: interface if methods fit). */
bool type_is_subtype(const type *a, const type *b);
/* Return the smallest common supertype by PyTorch's unifyTypes, or NULL.  `default_to_union` as
 * there. */
const type *type_unify(type_store *ts, const type *a, const type *b, bool default_to_union);
bool type_has_vars(const type *t);
static inline bool type_is(const type *t, type_kind k) { return t->kind == k; }
/* Return the type at run time: TYPE_INT for int-like kinds (ScalarType, SymInt, ...), TYPE_BOOL for
 * SymBool ... */
const type *type_runtime(const type *t);
/* Return the one type of that kind (TYPE_LIST, TYPE_DICT, TYPE_TUPLE) that t is, or that its
 * Optional and Union contain; NULL if there is none, or more than one. */
const type *type_container_in(const type *t, type_kind kind);
static inline const type *type_elem(const type *t) { return t->elems[0]; }

/* -- Text -------------------------------------------------------------------------------------- */

/* Print as PyTorch's type.str(): "int[]", "Dict(str, Tensor)", "Tensor?", "(int, float)",
 * "__torch__.M". */
void type_print(text_buf *out, const type *t);
/* Print as annotation_str: "List[int]", "Dict[str, Tensor]", "Optional[Tensor]", "Tuple[int,
 * float]". */
void type_print_annotation(text_buf *out, const type *t);

/* True if `v` is a value of type `t` at run time (isinstance semantics). */
bool type_contains_value(const type *t, rush_value v);
/* Return the dynamic type of a value; borrowed from static types or from v, or made in ts (NULL:
 * memory ran out). */
const type *type_of_value(type_store *ts, rush_value v);
/* Return the common type of n values, or `otherwise` if there are none.  *undecided is set if there
 * are none, if they have no common type (then Any), or if one of them is undecided itself
 * (VALUE_UNDECIDED).  NULL: memory ran out. */
const type *type_of_items(type_store *ts, const rush_value *items, size_t n, type_kind otherwise,
                          bool *undecided);

#endif
