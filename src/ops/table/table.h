/* ops/table/table.h -- the generated operator table (ops/table/gen.py writes ops_table.c at build
 * time).
 *
 * Rows contain no pointers: kernels are numbers, texts are offsets into op_pool, relations are row
 * numbers.  Rows of one name are adjacent, in PyTorch's registration order, and every overload of a
 * name that has an entry has a row (schema only, if nothing else is known): looking up a name of
 * the table never expands the compressed texts of the rest.  Immutable. */
#ifndef RUSH_OPS_TABLE_H
#define RUSH_OPS_TABLE_H

#include "base/text.h"
#include "rushlight/backend.h"
#include "tensor/tensor.h"
#include "value/type.h"

struct op_row {
  uint32_t schema;       /* text in op_pool; begins with name or name.overload */
  uint32_t effects;      /* op_effects */
  uint16_t name_len;     /* bytes of "aten::add" */
  uint8_t family;        /* op_family */
  uint8_t variant;       /* op_variant */
  uint16_t shape;        /* rule of shape/shape.h, or 0 */
  uint16_t kernel;       /* in op_kernels, or 0 */
  uint16_t compute;      /* fills results made by `kernel` (call_by_rule): in op_kernels, or 0 */
  /* runs if an argument is sparse: in op_kernels; SPARSE_TAKEN: `kernel`; 0: refused */
  uint16_t sparse;
  uint16_t reuse;        /* bit i: result 0 may take the buffer of argument i, which dies */
  int32_t base;          /* row of the functional operator of a variant, or -1 */
  int32_t point;         /* in point_rows (ops/table/tape.h), or -1 */
  uint32_t body;         /* TorchScript text among the bodies, or 0 */
  uint32_t core;         /* likewise, its decomposition (decompose/), or 0 */
  uint32_t group;        /* the family's word of the table, in op_pool */
  uint32_t grad;         /* its formulas among the gradients' texts, or 0 */
};

#define SPARSE_TAKEN 0xffff

struct op_name_row { /* all overloads of a name */
  uint32_t first_row;
  uint32_t n_rows;
};

struct op_synonym { /* one operator under two names, as the numbers op.name_key */
  uint16_t name, of;
};
extern const struct op_synonym op_synonyms[]; /* sorted by name */
extern const uint32_t op_n_synonyms;

struct op_property { /* x.dtype of a tensor */
  uint32_t shown, name; /* "dtype", "prim::dtype" in op_pool */
};
extern const struct op_property op_properties[];
extern const uint32_t op_n_properties;

enum op_known_kind { /* keys of name() in names.py */
  KNOWN_OP,        /* text: an operator's name */
  KNOWN_FORM,      /* text: a form of the language without a schema, "annotate" */
  KNOWN_CAST,      /* text: an operator that makes a type_kind `number` of its argument */
  KNOWN_TENSOR,    /* makes tensors of dtype `number` */
  KNOWN_MODULE,    /* text: what the names of its operators begin with */
  KNOWN_EXCEPTION, /* text: "builtins.ValueError", or "" for AssertionError */
  KNOWN_REFUSED,   /* PyTorch refuses it by name */
  KNOWN_STAYS,     /* Python's: a call takes `number` tensors, returns one, and raises */
  KNOWN_DISPATCH,  /* a constant argument, `text` or at `number`, chooses of PATH.0 and PATH.1 */
  KNOWN_BODY       /* `number` texts: functions (overloads), or a class; text: their module */
};

/* What a Python name means in TorchScript. */
struct op_known {
  uint32_t path, text; /* in op_pool */
  uint32_t body;       /* TorchScript among the bodies, or 0 */
  int16_t number;
  uint8_t kind; /* op_known_kind */
  bool is_live; /* of texts and live Python, else of texts only */
};
extern const struct op_known op_known[]; /* sorted by path */
extern const uint32_t op_n_known;

enum op_refusal_kind {
  REFUSES_NAME,         /* "not implemented for": the text names PyTorch's kernel */
  REFUSES_TEXT,         /* a RuntimeError with the text, in which %s is the dtype */
  REFUSES_UNIMPLEMENTED /* the same as a NotImplementedError */
};

/* Dtypes that PyTorch's operator refuses and the kernel would not (refusals.txt). */
struct op_refusal {
  uint32_t row;
  uint32_t text;    /* in op_pool */
  uint32_t dtypes;  /* bit d: dtype d */
  uint8_t kind;     /* op_refusal_kind */
};

extern const char op_left_out
  []; /* the build options that removed operators, "-Dops, -Dquantized=false", or "" */
extern const char op_pool[];
extern const struct op_row op_rows[];
/* the only table of pointers: every pointer costs a relocation at load */
extern rush_kernel *const op_kernels[];
extern const uint32_t op_n_rows;
extern const struct op_name_row op_names[]; /* sorted by name */
extern const uint32_t op_n_names;
extern const struct op_refusal op_refusals[]; /* sorted by row */
extern const uint32_t op_n_refusals;
extern const uint16_t op_name_slots[]; /* open addressing by name_hash; index + 1, or 0 */
extern const uint32_t op_n_name_slots; /* a power of two */
/* All other schemas, one per line, sorted by name, compressed with zlib. */
extern const unsigned char op_packed[];
/* "aten::", "prim::", ..., "": the namespaces that occur there */
extern const char op_packed_namespaces[];
extern const uint32_t op_packed_bytes, op_unpacked_bytes, op_n_unpacked;

/* Bodies of composites, in blocks compressed with zlib: block b holds the texts from
 * op_body_blocks[b].start on; one more entry ends the last. */
struct op_body_block {
  uint32_t start; /* in the expanded texts */
  uint32_t at;    /* in op_bodies_packed */
};
extern const struct op_body_block op_body_blocks[];
extern const uint32_t op_n_body_blocks;
extern const unsigned char op_bodies_packed[];

/* Gradients (ops/call/gradient.c), compressed with zlib: texts that end with '\0'.  Helpers (name,
 * source) first, then for each operator (inputs, takes, source)...; an empty text ends a list. */
extern const unsigned char op_gradient_packed[];
extern const uint32_t op_gradient_packed_bytes, op_gradient_bytes;

/* Functions of kernels/ and point/ that the call path runs for arguments that kernels do not
 * expect.  The generated table names them, as it names kernels, because call/ is above their
 * folders. */
typedef rush_status call_next(rush_call *c);
typedef struct op_borders {
  rush_kernel *pointwise;                                  /* a formula (ops/point/pointwise.h) */
  rush_status (*nested)(rush_call *c, call_next *next);    /* ops/kernels/nested/nested.h */
  rush_status (*quantized)(rush_call *c, call_next *next); /* ops/kernels/quantized/quantize.h */
  rush_status (*sparse)(rush_call *c, const rush_tensor *first,
                        call_next *taken); /* ops/kernels/sparse/sparse.h */
  rush_status (*quantized_copy)(call_ctx *cx, rush_tensor *to,
                                rush_tensor *from); /* as quantized */
  const struct point_instances *points; /* ops/call/instance.h */
} op_borders;
extern const op_borders op_border;

/* Compute FNV-1a, as gen.py does. */
static inline uint32_t name_hash(str s)
{
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < s.len; i++)
    h = (h ^ (unsigned char)s.p[i]) * 16777619u;
  return h;
}
static inline str op_row_name(const struct op_row *r)
{
  return (str){op_pool + r->schema, r->name_len};
}

#endif
