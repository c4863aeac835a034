/* ir/facts.h -- what a graph's types say of tensors: `Float(2, *, strides=[3, 1], requires_grad=0,
 * device=cpu)`.
 *
 * Such a type is a TYPE_TENSOR whose name is that text: for everybody else it is Tensor. */
#ifndef RUSH_IR_FACTS_H
#define RUSH_IR_FACTS_H

#include "ir/graph.h"

#define IR_FACTS_DIMS 16

typedef struct ir_facts {
  int dtype;         /* DTYPE_NONE: not known */
  int n_dims;        /* -1: not known */
  int requires_grad; /* 0, 1; -1: not known */
  bool on_cpu;       /* else the device is not known */
  bool strided;      /* strides are known */
  int64_t sizes[IR_FACTS_DIMS], strides[IR_FACTS_DIMS]; /* a size of -1: not known */
} ir_facts;

/* Nothing known. */
ir_facts ir_facts_none(void);
/* What the type says; nothing for Tensor and other types. */
ir_facts ir_facts_of(const type *t);
ir_facts ir_facts_of_tensor(const rush_tensor *t);
/* The type that says so. */
const type *ir_facts_type(session *s, type_store *ts, const ir_facts *f);
/* The type with nothing known of tensors, those in tuples, lists, dicts, optionals and futures too.
 * */
const type *ir_type_unshaped(session *s, type_store *ts, const type *t);
/* "Float": RUSH_FLOAT32; DTYPE_NONE: no dtype is called so. */
int ir_dtype_of_name(str name);
/* Text after `Float` or `Tensor` (dtype), from its '(' on: how many bytes it takes, 0 when it is
 * none. */
size_t ir_facts_parse(const char *text, int dtype, ir_facts *out);

#endif
