/* formats/pickle.h -- pickles as trees of data.
 *
 * The machine turns a pickle (protocols 0 to 5) into nodes and executes nothing: a global remains a
 * pair of names, a call remains a callable with its arguments.  Consumers interpret the names they
 * allow and refuse the others.  Opcodes for extension registries, out-of-band buffers and old-style
 * instances are refused by name.
 *
 *   kind     from                                      holds
 *   GLOBAL   a module and a name                       as.global
 *   REDUCE   callable(*args)                           as.object: callable, args (see there)
 *   OBJECT   cls.__new__(cls, *args, **kwargs)         as.object: callable, args, kwargs or NULL
 *   PERSID   what the pickler stored elsewhere         as.persid: mostly a TUPLE
 *
 * REDUCE and OBJECT may also have `state` (BUILD; NULL: none), `items` (APPENDS, ADDITEMS) and
 * `pairs` (SETITEMS, as for OrderedDict()).  builtins.complex(re, im) becomes COMPLEX;
 * _codecs.encode(text, 'latin1') and builtins.bytes() become BYTES.  Sets are REDUCE of
 * builtins.set: with args (LIST,) up to protocol 3, with () and `items` from protocol 4; frozensets
 * are REDUCE of builtins.frozenset with args (LIST,). Python 2's module names `__builtin__` and
 * `copy_reg` are read as `builtins` and `copyreg`.
 *
 * Sharing: a memoised object is one node wherever it is used, so the tree is a graph: an object
 * found twice is the same object, and a list may contain itself.  A consumer must therefore (1)
 * keep a table by `id` (0 to n_nodes - 1) and visit each node once, or a small file can take
 * exponential time, (2) enter a container into that table before it reads its items, or refuse a
 * node it is still working on, and (3) call session_enter at each level.
 *
 * Strings are the bytes as written, not checked as UTF-8 (TorchScript strings are bytes).  They
 * point into the input if possible, so the input must live as long as the nodes.
 *
 * Ownership: all nodes live in the session's memory.  Cost: O(bytes); memory below about 100 bytes
 * for each input byte.  Threads: one at a time. */
#ifndef RUSH_FORMATS_PICKLE_H
#define RUSH_FORMATS_PICKLE_H

#include "formats/mapping.h"

typedef enum pickle_kind {
  PICKLE_NONE,
  PICKLE_BOOL,    /* as.b */
  PICKLE_INT,     /* as.i */
  PICKLE_LONG,    /* an int beyond 64 bits; as.text: little-endian two's complement */
  PICKLE_FLOAT,   /* as.d */
  PICKLE_COMPLEX, /* as.z */
  PICKLE_STR,     /* as.text; Python 2's byte strings too */
  PICKLE_BYTES,   /* as.text; bytearrays too */
  PICKLE_LIST,    /* as.seq */
  PICKLE_TUPLE,   /* as.seq */
  PICKLE_DICT,    /* as.seq: key, value, ...; keys may repeat, the last one is valid */
  PICKLE_GLOBAL,  /* as.global */
  PICKLE_REDUCE,  /* as.object */
  PICKLE_OBJECT,  /* as.object */
  PICKLE_PERSID   /* as.persid */
} pickle_kind;

typedef struct pickle_node pickle_node;
typedef struct pickle_seq {
  pickle_node **at;
  uint32_t n;   /* number of nodes: twice the pairs of a DICT */
  uint32_t cap; /* private */
} pickle_seq;
typedef struct pickle_object {
  pickle_node *callable; /* mostly a GLOBAL */
  pickle_node *args;     /* TUPLE; a REDUCE has the written node: for TorchScript enums, a value */
  pickle_node *kwargs;   /* DICT or NULL */
  pickle_node *state;    /* or NULL */
  pickle_seq items;
  pickle_seq pairs;      /* key, value, ... */
} pickle_object;

struct pickle_node {
  uint8_t kind;    /* pickle_kind */
  uint32_t id;     /* 0 to n_nodes - 1, by creation */
  uint64_t offset; /* in the input, of the opcode that made it */
  union {
    bool b;
    int64_t i;
    double d;
    struct { double re, im; } z;
    str text;
    pickle_seq seq;
    struct { str module, name; } global;
    pickle_object *object;
    pickle_node *persid;
  } as;
};

typedef struct pickle {
  input in;
  pickle_node *root;
  uint32_t n_nodes;
  size_t end; /* offset after STOP */
} pickle;

/* Read the pickle that starts at `start`; more bytes may follow it, from `end` on (torch.save's old
 * format has several in a row).  Never returns NULL: a malformed pickle leaves the session with
 * RUSH_EFORMAT. */
pickle *pickle_read(session *s, const input *in, size_t start);
/* Read a pickle that is the whole input. */
pickle *pickle_read_all(session *s, const input *in);

/* -- Looking at nodes -------------------------------------------------------------------------- */

/* Return a word for the kind: "dict".  Static. */
const char *pickle_kind_name(pickle_kind kind);
/* True if n is the GLOBAL module.name. */
bool pickle_is_global(const pickle_node *n, const char *module, const char *name);
/* True if n is a REDUCE or OBJECT whose callable is module.name. */
bool pickle_is_call(const pickle_node *n, const char *module, const char *name);
/* Return the value of a string key in a DICT, or in the pairs of a REDUCE or OBJECT; NULL if there
 * is none. O(n). */
const pickle_node *pickle_get(const pickle_node *n, const char *key);

/* Return the content of a node that must have that kind; otherwise leave the session with
 * RUSH_EFORMAT and a message that contains `what` ("storage size").  pickle_need_int refuses LONG
 * by name and does not accept bool. */
int64_t pickle_need_int(session *s, const pickle *p, const pickle_node *n, const char *what);
bool pickle_need_bool(session *s, const pickle *p, const pickle_node *n, const char *what);
str pickle_need_str(session *s, const pickle *p, const pickle_node *n, const char *what);
const pickle_seq *pickle_need_tuple(session *s, const pickle *p, const pickle_node *n,
                                    const char *what);
const pickle_seq *pickle_need_list(session *s, const pickle *p, const pickle_node *n,
                                   const char *what);
const pickle_seq *pickle_need_dict(session *s, const pickle *p, const pickle_node *n,
                                   const char *what);
/* Leave the session with RUSH_EFORMAT at the node: "PLACE: offset N: message". */
_Noreturn void pickle_fail(session *s, const pickle *p, const pickle_node *n, const char *fmt, ...)
    RUSH_PRINTF(4, 5);

#endif
