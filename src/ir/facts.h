/* ir/facts.h -- what is known about a tensor before it exists: `Float(2, *, strides=[3, 1],
 * requires_grad=0, device=cpu)`.
 *
 * One struct serves types of values in graphs, shape propagation, guards and the keys of plans.
 * Every field may be unknown, each for itself: a size that is not known does not hide the rank.
 * A refined type is a TYPE_TENSOR that points to its facts (type->facts) and whose name is their
 * text, PyTorch's; other code sees it as Tensor.  Equal facts are one type in a store.
 *
 * Order: facts a are a subtype of facts b if every tensor that fits a fits b; nothing known is the
 * top.  Union: the least facts of which both are subtypes. */
#ifndef RUSH_IR_FACTS_H
#define RUSH_IR_FACTS_H

#include "ir/graph.h"

#define IR_FACTS_DIMS 16 /* tensors of more dimensions have an unknown rank */
#define IR_SIZE_UNKNOWN (-1)
#define IR_STRIDE_UNKNOWN INT64_MIN

typedef struct ir_facts {
  int16_t dtype;        /* DTYPE_NONE: unknown */
  int8_t n_dims;        /* -1: unknown */
  int8_t defined;       /* 0: an undefined tensor, 1: a tensor; -1: unknown */
  int8_t requires_grad; /* 0, 1; -1: unknown */
  int8_t contiguous;    /* 1: row-major, also where sizes are unknown; else unknown (-1) */
  bool has_device;      /* the device is known: kind and index as in value.h */
  int8_t device_kind, device_index;
  /* n_dims of them; IR_SIZE_UNKNOWN, IR_STRIDE_UNKNOWN */
  int64_t sizes[IR_FACTS_DIMS], strides[IR_FACTS_DIMS];
} ir_facts;

/* Return facts with nothing known. */
ir_facts ir_facts_none(void);
/* Return the facts of a type, as long as it lives; those of Tensor, with nothing known, for other
 * types. */
const ir_facts *ir_facts_of(const type *t);
/* Return all facts of a tensor; NULL: the undefined tensor. */
ir_facts ir_facts_of_tensor(const rush_tensor *t);
/* True if facts say all about the tensor that shapes depend on: it is no number of the host's, and
 * neither sparse, nested, quantized nor without data. */
bool ir_facts_describe(const rush_tensor *t);
/* Return the type with these facts. */
const type *ir_facts_type(session *s, type_store *ts, const ir_facts *f);

/* True if the facts say nothing. */
bool ir_facts_is_none(const ir_facts *f);
bool ir_facts_equal(const ir_facts *a, const ir_facts *b);
/* True if every tensor that fits a fits b. */
bool ir_facts_is_subtype(const ir_facts *a, const ir_facts *b);
ir_facts ir_facts_union(const ir_facts *a, const ir_facts *b);
/* True if the tensor, or the undefined one (NULL), has these facts.  O(rank), no allocation. */
bool ir_facts_fit(const ir_facts *f, const rush_tensor *t);
/* True if the rank and all sizes (all strides) are known. */
bool ir_facts_has_sizes(const ir_facts *f);
bool ir_facts_has_strides(const ir_facts *f);
/* True if the tensor is known to be row-major, also by its sizes and strides. */
bool ir_facts_are_row_major(const ir_facts *f);
/* True if the device is known to be the CPU. */
bool ir_facts_on_cpu(const ir_facts *f);

/* Return the type without facts about tensors, also inside tuples, lists, dicts, optionals and
 * futures. */
const type *ir_type_unshaped(session *s, type_store *ts, const type *t);
/* Return the dtype: RUSH_FLOAT32 for "Float"; DTYPE_NONE if there is none. */
int ir_dtype_of_name(str name);
/* Print the facts as types show them. */
void ir_facts_print(text_buf *out, const ir_facts *f);
/* Parse the text after `Float` or `Tensor` (dtype), from its '(' on; returns its length, 0 if it is
 * malformed. */
size_t ir_facts_parse(const char *text, int dtype, ir_facts *out);

#endif
