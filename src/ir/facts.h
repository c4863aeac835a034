/* ir/facts.h -- refined tensor types in graphs: `Float(2, *, strides=[3, 1], requires_grad=0,
 * device=cpu)`.
 *
 * Such a type is a TYPE_TENSOR whose name is that text: other code sees it as Tensor. */
#ifndef RUSH_IR_FACTS_H
#define RUSH_IR_FACTS_H

#include "ir/graph.h"

#define IR_FACTS_DIMS 16

typedef struct ir_facts {
  int dtype;         /* DTYPE_NONE: unknown */
  int n_dims;        /* -1: unknown */
  int requires_grad; /* 0, 1; -1: unknown */
  bool on_cpu;       /* false: the device is unknown */
  bool strided;      /* strides are known */
  int64_t sizes[IR_FACTS_DIMS], strides[IR_FACTS_DIMS]; /* a size of -1: unknown */
} ir_facts;

/* Return facts with nothing known. */
ir_facts ir_facts_none(void);
/* Return the facts in a type; nothing is known for Tensor and other types. */
ir_facts ir_facts_of(const type *t);
ir_facts ir_facts_of_tensor(const rush_tensor *t);
/* Return the type with these facts. */
const type *ir_facts_type(session *s, type_store *ts, const ir_facts *f);
/* Return the type without facts about tensors, also inside tuples, lists, dicts, optionals and
 * futures. */
const type *ir_type_unshaped(session *s, type_store *ts, const type *t);
/* Return the dtype: RUSH_FLOAT32 for "Float"; DTYPE_NONE if there is none. */
int ir_dtype_of_name(str name);
/* Parse the text after `Float` or `Tensor` (dtype), from its '(' on; returns its length, 0 if it is
 * malformed. */
size_t ir_facts_parse(const char *text, int dtype, ir_facts *out);

#endif
