/* shape/shape.h -- what the result of an operator looks like, without running it.
 *
 * A rule gives for each result tensor its sizes, strides, offset and dtype, and the argument whose
 * memory it shares.  Rules are written once (rules_*.inc) and compiled twice: over numbers
 * (shape_*) and over symbolic integers (symshape_*).  They read facts about tensors, never tensors;
 * an operator of the table names its rule with the key `shape`.
 *
 *     arguments as facts -> rule -> results as facts          numbers:  sizes that kernels produce
 *                                   (+ guards in sym_env)     symbols:  the same, for all sizes
 *                                   that pass the guards
 *
 * Every decision of a rule goes through shape_decide: numbers answer it, symbols answer it for all
 * sizes, or by their hints and a guard.  A size that only data tells (nonzero) is SHAPE_UNKNOWN
 * over numbers and a new symbol over symbols.
 *
 * Compile-time regime: a refusal leaves the session with an error.  Everything is in the session's
 * arena, or borrowed from the arguments.  Rules do not check all that kernels refuse; what they
 * accept they get right. */
#ifndef RUSH_SHAPE_SHAPE_H
#define RUSH_SHAPE_SHAPE_H

#include "shape/symint.h"
#include "tensor/tensor.h"
#include "value/schema.h"

#define SHAPE_UNKNOWN (-1)   /* a size that only data tells, and strides that follow from one */
#define SHAPE_MOST_RESULTS (1 << 16) /* tensors that one call may give */

enum shape_flags {
  SHAPE_WRAPPED = 1, /* a number as a tensor: promotes as one */
  SHAPE_ITSELF = 2   /* results: not only the argument's memory, but the argument */
};

/* How a pointwise operator promotes: a copy of what its formula's row (ops/table/tape.h) says of
 * arguments and results. */
typedef enum shape_promote {
  SHAPE_PROMOTE,
  SHAPE_PROMOTE_FLOAT,
  SHAPE_PROMOTE_FIRST
} shape_promote;
#define SHAPE_MOST_INPUTS 16
enum shape_out {
  SHAPE_OUT_COMMON = -1,
  SHAPE_OUT_FIRST = -2,
  SHAPE_OUT_REAL = -3,
  SHAPE_OUT_COMPLEX = -4
};
typedef struct shape_pointwise {
  uint8_t n_inputs, n_results;
  uint8_t arg[SHAPE_MOST_INPUTS];     /* the arguments that are computed with */
  bool promotes[SHAPE_MOST_INPUTS];
  shape_promote promote;
  int16_t outs[4];                    /* dtype of each result, or shape_out */
  bool row_major;
} shape_pointwise;

#define SHAPE_TYPES(PREFIX, DIM)                                                              \
  typedef struct PREFIX##_facts { /* of a tensor */                                           \
    int16_t dtype;   /* DTYPE_NONE: there is no tensor (None, undefined) */                   \
    uint8_t flags;   /* shape_flags */                                                        \
    int n_dims;                                                                               \
    DIM *sizes, *strides;                                                                     \
    DIM offset;      /* of element 0 in the storage, in elements */                           \
    int alias;       /* results: the argument whose memory it shares, or -1 */                \
    uint32_t item;   /* of that argument, when it is a list */                                \
    uint32_t result; /* results: which of the schema's; lists have several in a row */        \
  } PREFIX##_facts;                                                                           \
  typedef struct PREFIX##_arg { /* complete arguments of the schema's types (ops/call/call.h) */   \
    rush_value value;       /* borrowed; what is neither tensor nor int is read from here */  \
    uint32_t n;             /* of tensors (Tensor: 1) or ints (int: 1) */                     \
    PREFIX##_facts *tensors; /* of Tensor and Tensor[], or NULL */                            \
    DIM *ints;              /* of int and int[], or NULL */                                   \
  } PREFIX##_arg;                                                                             \
  typedef struct PREFIX##_call {                                                              \
    const schema *schema;                                                                     \
    const PREFIX##_arg *args; /* schema->n_args */                                            \
    const shape_pointwise *pointwise; /* for the rule `pointwise` */                          \
    bool copies;              /* view_copy and its like: copies of what the rule gives */     \
    uint32_t n_results, cap;  /* out */                                                       \
    PREFIX##_facts **results; /* out, in order */                                             \
  } PREFIX##_call

SHAPE_TYPES(shape, int64_t);
SHAPE_TYPES(symshape, symint);

/* Rules by number, as the operator table has them: 1 + the line in rules.def; 0: no rule. */
uint32_t shape_rule_find(str name);
const char *shape_rule_name(uint32_t rule);
void shape_apply(session *s, uint32_t rule, shape_call *call);
void symshape_apply(session *s, sym_env *env, uint32_t rule, symshape_call *call);

/* -- Results from elsewhere: a dense tensor in rows, behind the others ------------------------- */
void shape_give(session *s, shape_call *call, uint32_t result, int dtype, int n_dims,
                const int64_t *sizes);
void symshape_give(session *s, sym_env *env, symshape_call *call, uint32_t result, int dtype,
                   int n_dims, const symint *sizes);
/* What guards have taught is put into the results. */
void symshape_finish(sym_env *env, symshape_call *call);

/* -- Arguments --------------------------------------------------------------------------------- */

/* Values as facts; everything is copied but `value`. */
shape_arg *shape_args_of(session *s, const schema *sc, const rush_value *args);
/* The same with a symbol for each size larger than 1, one for equal sizes; strides are products of
 * sizes where they can be. */
symshape_arg *symshape_args_of(session *s, sym_env *env, const schema *sc, const shape_arg *args);

#endif
