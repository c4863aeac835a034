/* ops/call/call.h -- operators and the one call path.
 *
 * Every operator, generated or registered from outside, is an `op` and is called through op_call,
 * which does everything around the kernel: in-place and out= variants, result allocation by shape
 * rule, promotion, version counts, call hooks.  A kernel only computes.
 *
 *   op_call(op, call):
 *     variant INPLACE/OUT of a base without a kernel of its own: the base runs, its result is
 *     copied
 *       (dtype castability, shape and overlap checked first), or for pointwise the tape writes in
 *       place;
 *     family pointwise: the tape engine (ops/point/pointwise.c);
 *     results="rule" in the entry: the shape rule's results are made (ops/call/results.h): views of
 *       arguments, arguments, and memory, which `compute` fills through call_out(i); `reuse` names
 *       the arguments whose buffers the memory may be, when they die with the call;
 *     else the kernel makes its results with call_return_*;
 *     body (no kernel): the composite's program function runs.
 *
 * Kernels: arguments are complete (defaults filled in) and have the schema's types: a `Tensor`
 * argument is RUSH_TAG_TENSOR (non-NULL; None or undefined tensors for a `Tensor?` are
 * RUSH_TAG_NONE); `int[]` is a list of ints; `Scalar` is a BOOL, INT, FLOAT or COMPLEX value;
 * dtypes, layouts and memory formats are INT; `bool` is BOOL.  The call_* accessors below read
 * them.
 *
 * Threads: ops are immutable after preparation; a kernel may run in many threads on one state. */
#ifndef RUSH_OPS_CALL_H
#define RUSH_OPS_CALL_H

#include "base/source.h"
#include "rushlight/backend.h"
#include "tensor/tensor.h"
#include "value/schema.h"

typedef struct op op;

struct rush_call {
  call_ctx *cx;
  const op *op;
  struct op_node_state *state; /* of the node that the call belongs to, or NULL */
  uint32_t n_args, n_results;
  uint64_t last_use;       /* bit i: the caller drops args[i] right after the call */
  const rush_value *args;  /* borrowed, n_args in a row */
  rush_value *results;     /* n_results slots; NONE at entry, owned by the caller after success */
};

/* Compiled code's data for a node of an external operator: the state that its `prepare` made, and
 * the node's subgraph, ready to be interpreted. */
typedef struct op_node_state {
  void *user;
  void *body; /* run/: the subgraph's code, or NULL */
  rush_status (*run)(rush_call *call, void *body); /* returns all results */
} op_node_state;

/* Iterates over the tensors among values, and in lists of them, without undefined ones:
 *   for (tensor_walk w = {values, n}; (t = tensor_walk_next(&w)) != NULL;)  -- t is values[w.at]
 *   or an item of it */
typedef struct tensor_walk {
  const rush_value *values;
  uint32_t n, at;
  size_t item; /* the next item of values[at] */
} tensor_walk;

static inline rush_tensor *tensor_walk_next(tensor_walk *w)
{
  for (; w->at < w->n; w->at++, w->item = 0) {
    const rush_value *v = &w->values[w->at];
    const bool is_list = v->tag == RUSH_TAG_LIST;
    const rush_value *items = is_list ? v->as.list->items : v;
    const size_t n = is_list ? v->as.list->n : 1;
    while (w->item < n &&
           (items[w->item].tag == RUSH_TAG_TENSOR || items[w->item].tag == RUSH_TAG_NONE)) {
      const rush_value *item = &items[w->item++];
      if (item->tag == RUSH_TAG_TENSOR && item->as.tensor)
        return item->as.tensor;
    }
  }
  return NULL;
}

/* -- Operators --------------------------------------------------------------------------------- */

typedef enum op_family { /* how the call path treats the kernel */
  FAMILY_SCHEMA_ONLY = 0, /* known, cannot run */
  FAMILY_KERNEL,          /* the kernel makes its own results, or the rule does */
  FAMILY_POINTWISE,       /* tape */
  FAMILY_VIEW,            /* results alias args[0] by rule or kernel */
  FAMILY_SCALAR,          /* no tensors: tape-free C expression, also an interpreter opcode */
  FAMILY_COMPOSITE        /* body */
} op_family;

/* Columns of the table for passes and executors. */
enum op_effects {
  OP_WRITES = 1,       /* mutates an argument (from the schema) */
  OP_RANDOM = 2,       /* nondeterministic_seeded */
  OP_SIDE_EFFECT = 4,  /* print, warn, raise: never removed or moved */
  OP_NO_GRAD = 8,      /* not differentiable */
  OP_DATA_SIZE = 16,   /* result sizes depend on data */
  OP_RETURNS_ARG = 32, /* may return an argument itself (contiguous, to, expand...) */
  OP_NESTED = 64,      /* accepts nested tensors (ops/kernels/nested/nested.h) */
  OP_QUANTIZED =
    /* accepts quantized tensors (ops/kernels/quantized/quantize.h): views, copies, queries and its
     * families */
    256,
  OP_Q_UNIT = 512,       /* for a quantized argument: a result in [0, 1), in 256 steps */
  OP_Q_SYMMETRIC = 1024, /* for a quantized argument: a result in [-1, 1) */
  OP_Q_SCALES =
    2048, /* f(s x) = s f(x): computed on the integers, so that ties round as PyTorch's do */
  OP_OUT_EXACT = 4096,     /* the written argument must have the result's dtype */
  OP_OUT_APART = 8192,     /* and must not share memory with another argument */
  OP_OUT_DTYPE = 16384,    /* a missing dtype is that of the written argument */
  /* it may share memory with one (pointwise: and its own elements may overlap) */
  OP_OUT_OVERLAP = 32768,
  OP_COMPLEX_BODY = 65536, /* has a kernel and a body; the body is for complex numbers */
  OP_GEOMETRY =
    131072, /* changes sizes, strides, memory or flags of what it writes to, not elements */
  OP_COPIES = 524288, /* its shape rule describes views; the results are copies of them */
  OP_STATISTICS =
    262144, /* may update running_mean and running_var, which its schema does not declare */
  OP_DROPOUT = 1 << 20,       /* returns its first argument unless the third, `train`, is true */
  OP_UNSAFE_VIEWS = 1 << 21,  /* its results are promised not to be written to as views */
  OP_WAITS = 1 << 22,         /* runs tasks until a future has its result */
  OP_TAKES_NUMBERS = 1 << 23, /* accepts a number for a tensor */
  /* floating arguments become the region's dtype, or float32: outside of programs (export), and as
   * PyTorch's pass over programs has it */
  OP_AUTOCAST_LOWER = 1 << 24,
  OP_AUTOCAST_FLOAT32 = 1 << 25,
  OP_SCRIPT_AUTOCAST_LOWER = 1 << 26,
  OP_SCRIPT_AUTOCAST_FLOAT32 = 1 << 27,
  OP_Q_ORDER = 1 << 29, /* results are elements of the argument: computed on the bytes */
  OP_MOVES_ITEMS = 1 << 28, /* of lists and dicts, whatever they are: none is read */
  OP_NESTED_ROWS = 128 /* treats a nested tensor's rows as it treats a tensor's */
};

/* Checks of arguments beyond the schema's types.  Computed when the operator is built, so that
 * other operators pay one test. */
enum op_checks {
  OP_CHECK_NUMBERS = 1, /* numbers of dtypes, layouts, memory formats */
  OP_CHECK_LISTS = 2,   /* Tensor[]: no undefined tensors in it */
  OP_CHECK_WRITES = 4   /* Tensor(a!), Tensor(a!)[]: the memory is writable */
};

typedef enum op_variant { VARIANT_BASE, VARIANT_INPLACE, VARIANT_OUT } op_variant;

struct op_row;   /* ops/table/table.h: the generated columns */
struct op {
  const schema *schema;
  const struct op_row *row;  /* NULL: schema only, or registered from outside */
  rush_kernel *kernel;       /* NULL: see family */
  rush_kernel *compute;      /* behind results="rule" (ops/call/results.h), or NULL */
  op_family family;
  op_variant variant;
  /* numbers of ops/table/op_keys.h to switch on, OPK_ADD_TENSOR and OPN_ADD; 0 if PyTorch
   * registers no operator of that name (and overload) */
  uint16_t key, name_key;
  uint32_t effects;
  uint32_t refuses;          /* bit d: dtype d (message: call_refuse) */
  uint32_t checks;           /* OP_CHECK_*: checks in op_call before the kernel; mostly 0 */
  const op *base;            /* the functional operator of an in-place or out= variant, or NULL */
  const rush_op_def *outside; /* registered at run time, or NULL */
  _Atomic(void *) body;      /* composites: the compiled function, published once */
  _Atomic(void *) core;      /* the compiled decomposition, likewise */
  _Atomic(void *) gradients; /* ops/call/gradient.h, built at first use */
  context *ctx;
};

/* Find "aten::add" / "Tensor" ("" for no overload); NULL: unknown.  Built at first use. */
const op *op_find(context *c, str name, str overload);
/* Return all overloads of a name in PyTorch's registration order, *n of them; NULL and 0 if there
 * are none. */
const op *const *op_overloads(context *c, str name, uint32_t *n);
/* Like op_find and op_overloads, but NULL means unknown only: a refused allocation is an error. */
rush_status op_lookup(call_ctx *cx, str name, str overload, const op **out) RUSH_CHECKED;
rush_status op_lookup_all(call_ctx *cx, str name, const op *const **out,
                          uint32_t *n) RUSH_CHECKED;
/* Print the table's operators that can run, all or those of one name: one schema per line, then if
 * they are known a tab and the classes of dtypes that it computes in. */
void op_table_print(text_buf *out, str name);
/* True if the operator can run (it has a kernel, tape, base or body). */
bool op_is_runnable(const op *o);
/* Compile what the operator needs to run (a composite's body).  Locked internally, at most once. */
rush_status op_prepare(call_ctx *cx, const op *o) RUSH_CHECKED;
/* Compile the body of an operator that has one, even if it has a kernel. */
rush_status op_prepare_body(call_ctx *cx, const op *o) RUSH_CHECKED;
/* Get the function that does what the operator does by simpler ones: its decomposition or body;
 * NULL if it has neither.  Compiled at first use. */
rush_status op_decomposition(call_ctx *cx, const op *o, void **function) RUSH_CHECKED;

/* Call an in-place or out= variant through its base, whatever its family. */
rush_status call_through_base(rush_call *call) RUSH_CHECKED;
/* Call an operator: the one path.  On failure results are NONE. */
rush_status op_call(rush_call *call) RUSH_CHECKED;
/* Release the results that exist. */
void call_drop_results(rush_call *call);
/* The interface to the recorder of gradients (autograd/record.h), in grad mode and outside of
 * kernels. */
typedef struct call_recorder {
  /* Call an operator with an argument that requires grad.  It calls call_dispatch or call_body, and
   * decides which results require grad. */
  rush_status (*call)(rush_call *c);
  /* Called around every other call, once the call's watch has CALL_RECORDED: updates views whose
   * base was written to. */
  rush_status (*before)(rush_call *c);
  rush_status (*after)(rush_call *c);
  /* Run the operators that request gradients. */
  rush_status (*call_gradient_op)(rush_call *c);
  const rush_gradient_host *host; /* or NULL */
  rush_gradient_host own_host;    /* the target of `host` */
} call_recorder;
/* True while operators with an argument that requires grad are recorded.  Tensors' flags alone are
 * not enough: parameters are loaded with requires_grad, and a call that does not record runs as if
 * nothing required it. */
static inline bool call_records(const call_ctx *cx) { return cx->recorder && cx->grad_mode; }
/* Functions for the recorder: run the operator itself; run its body although it has a kernel; get
 * the arguments of a variant's base, borrowed; test whether the variant writes the base's next
 * result to args[arg]. */
rush_status call_dispatch(rush_call *call) RUSH_CHECKED;
rush_status call_through_body(rush_call *call) RUSH_CHECKED;
void call_base_args(const rush_call *call, rush_value *args);
bool call_gets_result(const op *o, uint32_t arg);
/* call_argument_of returns the argument that is t, or a list that contains it, or -1.
 * call_writes is true if the call writes to argument arg. */
int call_argument_of(const rush_call *call, const rush_tensor *t);
static inline bool call_writes(const rush_call *c, uint32_t arg)
{
  return arg < c->op->schema->n_args && c->op->schema->args[arg].is_write;
}
/* Call with complete arguments; results are new. */
rush_status op_invoke(call_ctx *cx, const op *o, const rush_value *args, uint32_t n_args,
                      rush_value *results, uint32_t n_results) RUSH_CHECKED;
/* Call by name, for kernels and bodies written in C that need another operator; missing trailing
 * arguments get their defaults.  One result. */
rush_status op_invoke_name(call_ctx *cx, const char *name, const char *overload,
                           const rush_value *args, uint32_t n_args,
                           rush_value *result) RUSH_CHECKED;

/* -- Matching values to schemas (single calls from C and Python) ------------------------------- */

typedef struct named_arg {
  str name;
  rush_value value; /* borrowed */
} named_arg;
/* Where the arguments of a call come from: values (schema_bind), or a host's objects
 * (rush_function_bind).  Positional arguments are numbered from 0, named ones follow. */
typedef struct bind_source bind_source;
struct bind_source {
  const char *name; /* of what is called, in messages; NULL: the schema's */
  uint32_t n_bound; /* the first parameters are bound already: a method's self */
  uint32_t n_args, n_named;
  bool is_function;    /* not an operator: messages end with the declaration */
  bool skips_defaults; /* a parameter that gets its default becomes RUSH_TAG_UNSET */
  str (*named)(const bind_source *from, uint32_t k);
  bool (*is_named)(const bind_source *from, uint32_t k, const char *parameter);
  /* Convert argument `given` to parameter i: *out is new. */
  rush_status (*convert)(call_ctx *cx, const bind_source *from, const schema *sc, uint32_t given,
                         uint32_t i, rush_value *out);
};
/* Fill the slots of `out` after the bound ones (sc->n_args in all, new) with the arguments of the
 * parameters and with defaults.  RUSH_EARGUMENT with a message that names the argument and the
 * reason. */
rush_status bind_arguments(call_ctx *cx, const schema *sc, const bind_source *from,
                           rush_value *out) RUSH_CHECKED;
/* Bind values, with implicit conversions (int -> float, number -> Tensor where PyTorch allows, int
 * -> int[n], tuple -> list, list -> Tensor[]...; for a function those of PyTorch's Python calls as
 * well: int -> bool, None -> an undefined tensor, list -> tuple). */
rush_status schema_bind(call_ctx *cx, const schema *sc, bool is_function, const rush_value *args,
                        uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                        rush_value *out) RUSH_CHECKED;
/* True if the values are already complete arguments, from `first` on: tensors, numbers and strings
 * of the schema's own types. This holds for most calls, which then need no binding. */
bool schema_takes(const schema *sc, uint32_t first, const rush_value *args, uint32_t n_args);
/* Convert one value to one type, by the same rules; *out is new if *fits. */
rush_status value_bind(call_ctx *cx, const type *t, rush_value v, bool *fits,
                       rush_value *out) RUSH_CHECKED;
#define OP_MOST_ARGS 64 /* limit for operators bound by name */
/* Find the first overload of `name` ("aten::add", or "aten::add.Tensor" for that one) that accepts
 * the arguments; bound: room for OP_MOST_ARGS, all new: op_release_bound. */
rush_status op_bind_by_name(call_ctx *cx, str name, const rush_value *args, uint32_t n_args,
                            const named_arg *kwargs, uint32_t n_kwargs, const op **found,
                            rush_value *bound) RUSH_CHECKED;
void op_release_bound(const op *o, rush_value *bound);
/* Call the first overload of `name` that accepts the arguments.  *results new, *n_results of them
 * (at most max). */
rush_status op_call_by_name(call_ctx *cx, str name, const rush_value *args, uint32_t n_args,
                            const named_arg *kwargs, uint32_t n_kwargs, rush_value *results,
                            uint32_t max_results, uint32_t *n_results) RUSH_CHECKED;

/* -- Functions for kernels --------------------------------------------------------------------- */

static inline rush_tensor *call_tensor(const rush_call *c, uint32_t i)
{
  return c->args[i].tag == RUSH_TAG_TENSOR ? c->args[i].as.tensor
                                           : NULL; /* NULL: None or undefined */
}
static inline int64_t call_int(const rush_call *c, uint32_t i) { return c->args[i].as.i; }
static inline bool call_bool(const rush_call *c, uint32_t i) { return c->args[i].as.b; }
static inline bool call_is_none(const rush_call *c, uint32_t i)
{
  return c->args[i].tag == RUSH_TAG_NONE;
}
static inline int64_t call_int_or(const rush_call *c, uint32_t i, int64_t otherwise)
{
  return call_is_none(c, i) ? otherwise : c->args[i].as.i;
}
double call_float(const rush_call *c, uint32_t i); /* any real number */
static inline double call_float_or(const rush_call *c, uint32_t i, double otherwise)
{
  return call_is_none(c, i) ? otherwise : call_float(c, i);
}
static inline int call_dtype_or(const rush_call *c, uint32_t i, int otherwise)
{
  return (int)call_int_or(c, i, otherwise);
}
static inline str call_str(const rush_call *c, uint32_t i) { return value_str(c->args[i]); }
static inline rush_list *call_list(const rush_call *c, uint32_t i)
{
  return c->args[i].tag == RUSH_TAG_LIST ? c->args[i].as.list : NULL;
}
/* Copy an int[] (or single int) into out[max]; returns -1 if it is longer than max, 0 for None. */
int call_ints(const rush_call *c, uint32_t i, int64_t *out, int max);
/* Like call_ints, for int[n], where a single int or one-element list is repeated n times; returns
 * false if the length differs. */
bool call_ints_fixed(const rush_call *c, uint32_t i, int64_t *out, int n);

/* Set a result.  _steal takes the caller's reference. */
static inline void call_return_steal(rush_call *c, uint32_t i, rush_tensor *t)
{
  c->results[i] = value_tensor_steal(t);
}
/* Where a function that makes a tensor puts result i; until then an undefined tensor. */
static inline rush_tensor **call_result(rush_call *c, uint32_t i)
{
  c->results[i] = value_tensor_steal(NULL);
  return &c->results[i].as.tensor;
}
/* Return t as result i if st is RUSH_OK; release it (it may be NULL) otherwise.  Returns st. */
static inline rush_status call_return_made_steal(rush_call *c, uint32_t i, rush_tensor *t,
                                                 rush_status st)
{
  if (st == RUSH_OK)
    call_return_steal(c, i, t);
  else
    tensor_release(t);
  return st;
}
static inline void call_return_value_steal(rush_call *c, uint32_t i, rush_value v)
{
  c->results[i] = v;
}
/* Return result i as made by the shape rule, for the kernel to fill: uninitialised memory of the
 * rule's dtype, sizes and strides (or the argument that the call writes to).  It is new, or an
 * argument that dies with the call (only one that the entry's key `reuse` names), or the caller's
 * out=, or memory of a plan.  Kernels must not assume zeros, a single reference to the memory, or
 * that the storage starts with it. */
static inline rush_tensor *call_out(const rush_call *c, uint32_t i)
{
  return c->results[i].as.tensor;
}
/* Make result i argument `arg` itself (in-place operators, contiguous() of a contiguous tensor). */
static inline void call_return_arg(rush_call *c, uint32_t i, uint32_t arg)
{
  c->results[i] = value_retain(c->args[arg]);
}

/* Refuse a dtype as PyTorch's kernels do: a NotImplementedError, "\"max_pool2d\" not implemented
 * for 'Bool'". */
rush_status call_no_dtype(call_ctx *cx, const char *kernel, int dtype);

/* Refuse to write to t, argument `name`, if its memory is read-only: a ValueError.  op_call does so
 * for arguments that the schema marks; kernels that write to others must call it. */
rush_status call_check_writable(const rush_call *call, const rush_tensor *t,
                                const char *name) RUSH_CHECKED;

/* Refuse a dtype of op->refuses. */
rush_status call_refuse(call_ctx *cx, const op *o, int dtype);

/* Return args[i], retained, if a result may be written into its buffer, else NULL.  It may if the
 * bit is set, tensor and storage are referenced once, the storage is ours and has no other bytes,
 * and dtype and dense layout agree.  Elements must be read before they are written, and all other
 * arguments must be on other storage or of the same geometry (checked here).  For the call path
 * (call_new_result of results.h) and operators from outside; kernels do not call it. */
rush_tensor *call_take_buffer(rush_call *c, uint32_t i, int dtype, int n_dims,
                              const int64_t *sizes);

/* -- Operators from outside -------------------------------------------------------------------- */

/* Register an operator; copies the definition.  An existing name and overload is an error. */
rush_status op_register(context *c, const rush_op_def *def, rush_error *err) RUSH_CHECKED;

/* A node of a running program. */
typedef struct call_place {
  source_range range;   /* src NULL: no text is known */
  void *function;       /* the function that contains it, or NULL */
  const char *caller;   /* the function's qualified name, or NULL */
  uint32_t node;        /* its origin */
} call_place;

struct session;
struct ir_graph;
/* Callbacks into the script layer, which compiles and runs composites; published in
 * SLOT_PROGRAM. */
typedef struct op_body_runtime {
  /* Compile a text of o: its body, or (is_core) its decomposition. */
  rush_status (*compile)(call_ctx *cx, const op *o, const char *text, bool is_core,
                         void **function);
  /* Compile a gradient formula of o: a function called `name` whose parameters have the types of
   * op_gradient_type. */
  rush_status (*compile_gradient)(call_ctx *cx, const op *o, const char *name, const char *text,
                                  void **function);
  rush_status (*call)(call_ctx *cx, void *function, const rush_value *args, uint32_t n_args,
                      rush_value *results, uint32_t n_results);
  /* Call a method of the object args[0]. */
  rush_status (*method)(call_ctx *cx, const char *name, const rush_value *args, uint32_t n_args,
                        rush_value *result);
  /* Check that objects of the class can be sorted: it needs a __lt__ of two of them that returns a
   * bool. */
  rush_status (*check_order)(call_ctx *cx, const type *cls);
  /* Get the current position of the running program: the innermost line of a user's function.
   * Returns false if there is none. */
  bool (*place)(call_ctx *cx, call_place *out);
  /* Get the author's text behind a position of archived code: *src is new.  Returns false if none
   * is known. */
  bool (*original)(call_ctx *cx, const call_place *at, source_range *out, source **src);
  /* The pass pack_gradient (autodiff/pack.c): compile time. */
  void (*pack_gradients)(struct session *s, struct ir_graph *g);
  void (*destroy)(context *c, void *runtime);
} op_body_runtime;

#endif
