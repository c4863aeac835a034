/* shape/shape.h -- computes what the results of an operator look like, without running it.
 *
 * A rule computes for each result tensor its sizes, strides, offset and dtype, and the argument
 * whose memory it shares.  Rules are written once (rules_*.inc) and compiled twice: over numbers
 * (shape_*) and over symbolic integers (symshape_*).  They read facts about tensors, never tensors;
 * an operator of the table names its rule with the key `shape`.
 *
 *     arguments as facts -> rule -> results as facts          numbers:  sizes that kernels produce
 *                                   (+ guards in sym_env)     symbols:  the same, for all sizes
 *                                   that pass the guards
 *
 * Every decision of a rule goes through shape_decide: numbers answer it, symbols answer it for all
 * sizes, or by their hints and a guard, or one run takes each answer (sym_arms).  A size that
 * depends on data (nonzero) is SHAPE_UNKNOWN over numbers and a new symbol over symbols.
 *
 * A rule runs in one of two environments (shape_env):
 *   compile time: in a session.  Memory is the session's; a refusal leaves it with an error.
 *   run time (numbers only): the call path (ops/call/results.c) makes results by rule.  Memory is a
 *     buffer in the caller's frame; the first refusal is kept in `st`, with its text in cx->err,
 *     and the rule continues with values that are harmless to compute with: a tensor of 0
 *     dimensions, dimension 0, size 0.  Facts made after a refusal always have room for
 *     TENSOR_MAX_DIMS dimensions.  need() returns from the rule; a rule that indexes by any other
 *     value that a refusal may have replaced must check failed() first.
 * Rejected for run time: a jump, since setjmp costs more than most rules, and DESIGN keeps jumps to
 * sessions.
 *
 * Rules do not check everything that kernels refuse; their answers are right for what they
 * accept. */
#ifndef RUSH_SHAPE_SHAPE_H
#define RUSH_SHAPE_SHAPE_H

#include "shape/symint.h"
#include "tensor/tensor.h"
#include "value/schema.h"

#define SHAPE_UNKNOWN (-1)   /* a size that depends on data, or a stride that follows from one */
#define SHAPE_MOST_RESULTS (1 << 16) /* tensors that one call may return */

enum shape_flags {
  SHAPE_WRAPPED = 1, /* a number as a tensor: promoted as one */
  SHAPE_ITSELF = 2,  /* results: the argument itself, not only its memory */
  SHAPE_ROWS = 4     /* arguments over numbers: known to be row-major */
};

#define SHAPE_FRAME_BYTES 2048 /* run time: facts of some 15 tensors; the heap holds more */
#define SHAPE_SPARE_BYTES \
  1152 /* after them: facts of TENSOR_MAX_DIMS, for when memory runs out */

/* The environment in which a rule runs.  One thread at a time. */
typedef struct shape_env {
  call_ctx *cx;
  session *s;   /* compile time, or NULL */
  sym_env *sym; /* over symbols, or NULL */
  rush_status st;  /* run time: the first refusal */
  char *at, *end;  /* run time: memory left; SHAPE_SPARE_BYTES follow the first buffer's end */
  char *spare;
  arena more;      /* run time: memory beyond the buffer; more.ctx NULL: none yet */
} shape_env;

/* A run-time environment in the caller's frame: the environment and its buffer. */
typedef struct shape_frame {
  shape_env env;
  _Alignas(16) char bytes[SHAPE_FRAME_BYTES + SHAPE_SPARE_BYTES];
} shape_frame;
static inline shape_env *shape_frame_open(shape_frame *f, call_ctx *cx)
{
  f->env.cx = cx;
  f->env.s = NULL;
  f->env.sym = NULL;
  f->env.st = RUSH_OK;
  f->env.at = f->bytes;
  f->env.end = f->env.spare = f->bytes + SHAPE_FRAME_BYTES;
  f->env.more.ctx = NULL;
  return &f->env;
}
static inline void shape_frame_close(shape_frame *f)
{
  if (UNLIKELY(f->env.more.ctx != NULL))
    arena_free(&f->env.more);
}
static inline shape_env shape_env_of(session *s, sym_env *sym)
{
  return (shape_env){.cx = s->cx, .s = s, .sym = sym};
}
/* Allocate memory that lives as long as the environment; not cleared at run time.  Never NULL for
 * up to SHAPE_SPARE_BYTES, though after a refusal it may overlap; for more, NULL is returned after
 * a refusal. */
void *shape_alloc_slow(shape_env *e, size_t n_bytes);
static inline void *shape_alloc(shape_env *e, size_t n_bytes)
{
  const size_t n = (n_bytes + 15) & ~(size_t)15;
  if (UNLIKELY(e->s != NULL || n > (size_t)(e->end - e->at)))
    return shape_alloc_slow(e, n_bytes);
  void *p = e->at;
  e->at += n;
  return p;
}
/* Free p and everything allocated after it, if p is in a frame's buffer. */
static inline void shape_release(shape_env *e, void *p)
{
  char *at = p;
  if (!e->s && at < e->at && at >= e->spare - SHAPE_FRAME_BYTES)
    e->at = at;
}
/* Refuse: leaves the session at compile time, is recorded at run time.  `type`: the Python class,
 * or NULL. */
void shape_refuse(shape_env *e, rush_status st, const char *type, const char *fmt, ...)
    RUSH_PRINTF(4, 5);

/* How a pointwise operator promotes: copied from its formula's row (ops/table/tape.h). */
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
  uint8_t arg[SHAPE_MOST_INPUTS];     /* the arguments that take part in the computation */
  bool promotes[SHAPE_MOST_INPUTS];
  shape_promote promote;
  int16_t outs[4];                    /* dtype of each result, or a shape_out */
  bool row_major;
} shape_pointwise;

#define SHAPE_TYPES(PREFIX, DIM)                                                                  \
  typedef struct PREFIX##_facts { /* facts about a tensor */                                      \
    int16_t dtype;   /* DTYPE_NONE: there is no tensor (None, undefined) */                       \
    uint8_t flags;   /* shape_flags */                                                            \
    int n_dims;                                                                                   \
    DIM *sizes, *strides;                                                                         \
    DIM offset;      /* of element 0 in the storage, in elements */                               \
    int alias;       /* results: the argument whose memory it shares, or -1 */                    \
    uint32_t item;   /* the item of that argument, if it is a list */                             \
    uint32_t result; /* results: number in the schema; lists have several in a row */             \
  } PREFIX##_facts;                                                                               \
  typedef struct PREFIX##_arg { /* arguments are complete (ops/call/call.h) */                    \
    rush_value value;       /* borrowed; values other than tensors and ints are read from here */ \
    uint32_t n; /* number of tensors (Tensor: 1) or ints (int: 1) */                              \
    PREFIX##_facts *tensors; /* of Tensor and Tensor[], or NULL */                                \
    DIM *ints;              /* of int and int[], or NULL */                                       \
  } PREFIX##_arg;                                                                                 \
  typedef struct PREFIX##_call {                                                                  \
    const schema *schema;                                                                         \
    PREFIX##_arg *args;       /* schema->n_args */                                                \
    uint64_t unread;          /* bit i: args[i] was not read from values[i] yet */                \
    const rush_value *values; /* borrowed; run time */                                            \
    const shape_pointwise *pointwise; /* for the rule `pointwise` */                              \
    bool copies; /* view_copy and similar: results are copies of what the rule describes */       \
    /* Receives a result instead of `results` (run time); may use the facts until it returns. */  \
    void (*made)(struct PREFIX##_call *call, PREFIX##_facts *result);                             \
    uint32_t n_results, cap;  /* out */                                                           \
    PREFIX##_facts **results; /* out, in order */                                                 \
  } PREFIX##_call;                                                                                \
  typedef struct PREFIX##_indexing { /* x[..., i, j, :, ...] */                                   \
    const PREFIX##_facts *self;                                                                   \
    const PREFIX##_facts *index[TENSOR_MAX_DIMS]; /* by dimension, integers; NULL: not indexed */ \
    int n_index, n_own;                                                                           \
    DIM own[TENSOR_MAX_DIMS]; /* the indices' common sizes */                                     \
    int before;               /* dimensions of the result in front of them */                     \
  } PREFIX##_indexing

SHAPE_TYPES(shape, int64_t);
SHAPE_TYPES(symshape, symint);

/* Find a rule by name.  Numbers, as in the operator table: 1 + the line in rules.def; 0: no
 * rule. */
uint32_t shape_rule_find(str name);
const char *shape_rule_name(uint32_t rule);
void shape_apply(shape_env *env, uint32_t rule, shape_call *call);
void symshape_apply(shape_env *env, uint32_t rule, symshape_call *call);
/* For the engine of pointwise operators: return the torch.result_type of n tensors, or DTYPE_NONE;
 * numbers are tensors with SHAPE_WRAPPED, floats among them of the default dtype. */
int shape_result_type(int default_dtype, int n, const shape_facts *const *t);
/* Return the common sizes of n > 0 tensors, and strides as PyTorch's TensorIterator lays out a
 * result. */
const shape_facts *shape_iterated(shape_env *env, int n, const shape_facts *const *t);
/* For kernels of index: compute what follows from x->self and x->index, and return the result, or
 * NULL if env->st is a refusal. */
const shape_facts *shape_indexed(shape_env *env, const schema *sc, shape_indexing *x);

/* -- Results from elsewhere: a dense tensor in rows, behind the others ------------------------- */
void shape_add_dense(session *s, shape_call *call, uint32_t result, int dtype, int n_dims,
                const int64_t *sizes);
void symshape_add_dense(session *s, sym_env *env, symshape_call *call, uint32_t result, int dtype,
                   int n_dims, const symint *sizes);
/* Simplify the results by what guards have established. */
void symshape_finish(sym_env *env, symshape_call *call);

/* -- Arguments --------------------------------------------------------------------------------- */

/* Get the facts of a tensor.  Sizes and strides point into the tensor: rules do not write to
 * arguments. */
static inline void shape_facts_of(const rush_tensor *t, shape_facts *out)
{
  *out = (shape_facts){.dtype = t->dtype,
                       .flags = (t->h.flags & TENSOR_WRAPPED_NUMBER ? SHAPE_WRAPPED : 0) |
                                (tensor_is_contiguous(t) ? SHAPE_ROWS : 0),
                       .n_dims = t->n_dims,
                       .sizes = t->sizes,
                       .strides = t->strides,
                       .offset = t->offset,
                       .alias = -1};
}
/* Convert values to facts; everything is copied except `value`. */
shape_arg *shape_args_of(session *s, const schema *sc, const rush_value *args);
/* Like shape_args_of, with one symbol for each distinct size larger than 1; strides are products of
 * sizes if possible. */
symshape_arg *symshape_args_of(session *s, sym_env *env, const schema *sc, const shape_arg *args);

#endif
