/* backend.h -- for authors of operators and compilers: add your own to a context, at run time.
 *
 * All functions are in one table, which can be obtained in two ways.  A program that links the
 * library calls rush_backend(RUSH_BACKEND_ABI).  A plug-in (a shared object for `rushlight --plugin
 * FILE`) links nothing of the library: it exports the version that it was built for
 * (RUSH_PLUGIN_DECLARE;) and
 *
 *   rush_status rush_plugin(const rush_backend_api *api, rush_context *c, rush_error *err);
 *
 * which is called once with the context that programs will run in, and registers the plug-in's
 * operators and passes.
 *
 * An operator is a schema in PyTorch's syntax and a kernel.  It is found like PyTorch's own
 * operators: by `torch.ops.NAMESPACE.NAME` in programs, by rush_op_call, and by rushlight.ops in
 * Python; defaults, conversions and overloads of its schema are applied before the kernel runs.
 * Register it before loading programs that use it.  examples/custom_op.c is a complete example.
 *
 * Kernels.  Arguments are complete and have the schema's types: a `Tensor` is a RUSH_TAG_TENSOR
 * that is not NULL, a `Tensor?` may be RUSH_TAG_NONE, an `int[]` is a list, a `Scalar` a BOOL, INT,
 * FLOAT or COMPLEX. Tensors may have any strides: see call_contiguous.  A kernel returns every
 * result, or fails with call_fail. It may be called by several threads at once, and must not keep
 * the call, its arguments, or borrowed pointers.
 *
 * Compilers.  A pass sees the graph of each function before it runs and may group nodes that the
 * compiler supports into one: a node of an operator that the compiler registered, with the nodes as
 * its subgraph (pass_group).  The operator's `prepare` sees that node once and makes a state; its
 * kernel gets the state with call_state, compiles for the arguments of the call (call_spec is a key
 * of all facts about them), and may interpret the subgraph instead in any call (call_run_group).
 * Calls that are recorded (tensors that require grad, while gradients are recorded) and calls with
 * quantized or nested tensors are always interpreted.  A context whose executor is `simple` runs no
 * passes.  Rushlight's own compiler is registered through this table and uses nothing else;
 * examples/pointwise_compiler.c is another one.
 *
 * Graphs are PyTorch IR (docs/architecture.md): blocks of nodes in order.  Everything read from a
 * graph is borrowed and valid while the pass runs, or, for a node passed to `prepare`, as long as
 * the state.
 *
 * Graphs as data (the part of the table from graph_create on; docs/ir.md).  A rush_graph is owned
 * by the caller: created empty, from text, or as a copy of a program's function.  Blocks, nodes and
 * values belong to their graph and are borrowed from it until it is released; `const` in their
 * handles does not mean that the graph is immutable.  A destroyed node (or an erased input or
 * output) remains valid memory until then: node_is_live and value_is_live return false for it, and
 * functions that change a graph refuse it. Functions that change a graph check their arguments
 * (RUSH_EARGUMENT), and then either succeed or change nothing.  Call graph_lint to check the
 * result.  One thread at a time may use a graph; different graphs are independent.
 *
 * Errors.  A function here that fails sets an error: the one of call_error in a kernel, of
 * pass_error in a pass, and the parameter `err` elsewhere (each may be NULL to ignore it). After a
 * failure, clear the error before you continue, or return RUSH_OK, which clears it.  A callback
 * that returns a failure should set an error (call_fail, pass_fail, error_set); otherwise an error
 * that names the callback is set.
 *
 * Ownership words (new, borrowed, steals): see rushlight.h.  Versions: the table grows only at its
 * end; RUSH_BACKEND_ABI changes if anything else changes.  A plug-in declares how much of the table
 * it was built with (RUSH_PLUGIN_DECLARE), and a library that has less refuses it; a program that
 * may link an older library checks itself (RUSH_BACKEND_HAS). */
#ifndef RUSHLIGHT_BACKEND_H
#define RUSHLIGHT_BACKEND_H

#include <rushlight/rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUSH_BACKEND_ABI 1u

/* One call of an operator; valid while the kernel runs. */
typedef struct rush_call rush_call;

/* A kernel.  Returns RUSH_OK, or the status that call_fail (or a failed function here) returned. */
typedef rush_status rush_kernel(rush_call *call);

/* Graphs: see the top of this file. */
typedef struct rush_node rush_node;
typedef struct rush_block rush_block;
typedef struct rush_graph_value
  rush_graph_value; /* an input or output of nodes; each is defined exactly once */
typedef struct rush_pass rush_pass;               /* one run of a pass over one graph */
typedef struct rush_graph rush_graph; /* a graph that a caller owns, with the types it uses */
typedef struct rush_type rush_type;               /* a type owned by the caller */
typedef struct rush_aliases rush_aliases;         /* result of alias_analyse */
typedef struct rush_function rush_function;       /* of script.h */
typedef struct rush_match rush_match;             /* a place where a pattern was found */
/* builds a graph call by call; its first error is kept until build_end */
typedef struct rush_builder rush_builder;

/* Write n_bytes of a description to `to`; called repeatedly. */
typedef void rush_write_fn(void *to, const char *text, size_t n_bytes);

/* What passes may assume about an operator. */
typedef enum rush_alias_kind {
  RUSH_ALIAS_SCHEMA, /* as in its schema: (a) shares memory, (a!) writes */
  /* nothing: it is never removed, merged or moved; its results may be its arguments */
  RUSH_ALIAS_CONSERVATIVE,
  RUSH_ALIAS_PURE /* it neither writes nor shares memory; the schema must not contradict this */
} rush_alias_kind;

/* The properties of a tensor, read with one call (tensor_facts).  Pointers are borrowed from the
 * tensor. */
typedef struct rush_tensor_facts {
  const int64_t *sizes, *strides; /* n_dims each; strides in elements */
  const void *data; /* address of the first element, or NULL; use tensor_data_mut to write */
  int64_t n_elems;
  int32_t n_dims;
  int32_t dtype;  /* rush_dtype */
  uint32_t flags; /* RUSH_TENSOR_* */
} rush_tensor_facts;
enum {
  RUSH_TENSOR_IS_CONTIGUOUS = 1,
  RUSH_TENSOR_IS_DENSE =
    2, /* its elements fill one contiguous range of memory, in some order of the dimensions */
  RUSH_TENSOR_NEEDS_GRAD = 4,
  RUSH_TENSOR_HAS_NO_DATA = 8 /* a tensor of the device meta */
};

/* A result for call_make_result to make. */
typedef struct rush_result {
  rush_dtype dtype;
  int32_t n_dims;
  const int64_t *sizes,
    *strides; /* strides of a dense tensor (RUSH_TENSOR_IS_DENSE); NULL: contiguous */
  /* The result may use the memory of an argument of the same dtype and sizes that has no use after
   * this call.  The kernel must then read element k of all arguments before it writes element k,
   * and must not fall back to call_run_group afterwards. */
  bool may_reuse;
  /* Outputs of call_make_result. */
  bool reused;
  rush_tensor *tensor; /* borrowed from the call */
  void *data;          /* where to write; uninitialised */
} rush_result;

/* What is known of the tensors of a type: Float(2, *, device=cpu).  Each field may be unknown. */
#define RUSH_TYPE_DIMS 16
#define RUSH_STRIDE_UNKNOWN INT64_MIN
typedef struct rush_type_facts {
  int32_t dtype;         /* rush_dtype; -1: unknown */
  int32_t n_dims;        /* at most RUSH_TYPE_DIMS; -1: unknown */
  int32_t device_kind, device_index; /* as in device_make; kind -1: unknown */
  int32_t requires_grad; /* 1: yes, 0: no, -1: unknown */
  int32_t defined;       /* 1: a tensor, 0: an undefined one, -1: unknown */
  int32_t contiguous;    /* 1: row-major, also where sizes are unknown; -1: unknown */
  int64_t sizes[RUSH_TYPE_DIMS];   /* -1: unknown */
  int64_t strides[RUSH_TYPE_DIMS]; /* in elements; RUSH_STRIDE_UNKNOWN */
} rush_type_facts;

/* Properties of a dtype. */
enum {
  RUSH_DTYPE_IS_FLOAT = 1,
  RUSH_DTYPE_IS_COMPLEX = 2,
  RUSH_DTYPE_IS_INTEGER = 4, /* without bool */
  RUSH_DTYPE_IS_SIGNED = 8,
  RUSH_DTYPE_IS_QUANTIZED = 16
};

/* Properties of a context for kernels and passes.  Set struct_bytes before the call; afterwards it
 * is the number of bytes that were filled. */
typedef struct rush_context_facts {
  size_t struct_bytes;
  int32_t n_threads; /* threads that call_parallel uses, including the caller's */
  rush_executor executor;
  bool no_reuse;     /* call_make_result never reuses memory */
  size_t limit_bytes; /* limit on memory; 0: none */
} rush_context_facts;

/* A gradient: a formula in TorchScript for one or several arguments, compiled at first use. */
typedef struct rush_gradient_def {
  const char *inputs;  /* the arguments, separated by spaces: "x", "a b" */
  /* An expression, "grad * other", or lines that end in `return`; a tuple if there are several
   * inputs. It may use the arguments, `grad` (for several results grad0, grad1 ...), `result`
   * (result0 ...), `x_sizes`, and `needs`, the flags of the wanted gradients. */
  const char *formula;
} rush_gradient_def;

/* One query for the results of a call, valid while its shape function runs.  Its sizes are numbers,
 * or, if a program is analysed for all inputs, formulas of symbols: a function that computes and
 * tests sizes with size_calc and size_holds works for both. The first failure is kept: later calls
 * do nothing, and the query fails. */
typedef struct rush_shape rush_shape;
typedef struct rush_size rush_size; /* valid as long as the query */
typedef enum rush_size_op {
  RUSH_SIZE_ADD,
  RUSH_SIZE_SUB,
  RUSH_SIZE_MUL,
  RUSH_SIZE_DIV, /* rounds down, as Python's // */
  RUSH_SIZE_MOD,
  RUSH_SIZE_MIN,
  RUSH_SIZE_MAX
} rush_size_op;
typedef enum rush_size_relation { RUSH_SIZE_EQ, RUSH_SIZE_LE, RUSH_SIZE_LT } rush_size_relation;
/* Describe every tensor among the results, in order (shape_result), or fail (shape_fail).  It
 * may be called on any thread, and more than once for a call or for none: it must have no side
 * effects. */
typedef rush_status rush_shape_fn(rush_shape *q, void *user);

typedef struct rush_op_def {
  size_t struct_bytes; /* sizeof(rush_op_def) */
  /* "example::scale(Tensor x, float k=2.0) -> Tensor"; copied. An operator that owns groups accepts
   * and returns anything: "pw::CompilationGroup(...) -> ..." */
  const char *schema;
  rush_kernel *kernel;
  void *user;          /* for call_user; must live as long as the context */
  /* The fields below may be NULL. */
  /* Called once for each node of this operator in compiled code: *state is what call_state returns
   * in its kernel. The node and its subgraph live until `destroy`. */
  rush_status (*prepare)(rush_context *c, const rush_node *node, void *user, void **state,
                         rush_error *err);
  void (*destroy)(void *state, void *user);
  /* Describe what the compiler made for the node (`rushlight show --asm`). */
  void (*describe)(void *state, void *user, rush_write_fn *write, void *to);
  rush_alias_kind alias;
  /* How results' sizes, dtypes and strides follow from the arguments: the name of one of the
   * library's rules (src/ops/README.md): "itself", "pointwise", "like" ... */
  const char *shape;
  const rush_gradient_def *gradients; /* copied */
  size_t n_gradients;
  /* instead of `shape`: a function that computes them; called with `user` */
  rush_shape_fn *shape_fn;
  void (*destroy_user)(
    void *user); /* called once, when the context ends; not after a failed registration */
} rush_op_def;

typedef struct rush_pass_def {
  size_t struct_bytes; /* sizeof(rush_pass_def) */
  const char *name;    /* "pw::group"; copied */
  /* Lower ones run first, equal ones in order of registration.  Rushlight's own compiler has 1000;
   * a pass with a lower number runs before it and sees all nodes. */
  int32_t order;
  /* Called for the graph of every function that is compiled, never by two threads on one graph.  A
   * failure becomes the failure of the call.  The graph is verified afterwards: if it is invalid,
   * or its inputs or outputs differ from the function's, the call fails with an error that names
   * the pass. */
  rush_status (*run)(rush_pass *pass, void *user);
  void *user;
  void (*destroy_user)(
    void *user); /* as in rush_op_def; if an operator has the same user, it is destroyed once */
} rush_pass_def;

typedef struct rush_group_def {
  size_t struct_bytes; /* sizeof(rush_group_def) */
  const char *op;      /* the operator that owns the groups: "pw::CompilationGroup" */
  /* Return NULL if the node can be in a group, else the reason, a static text (`rushlight show
   * --groups` prints it). Called once per node, only for pure operators without control flow. */
  const char *(*refuse)(const rush_node *node, void *user);
  void *user;
  uint32_t min_nodes;  /* do not make smaller groups; 0: 1 */
  uint32_t max_nodes, max_inputs, max_outputs; /* 0: no limit */
  /* Return false if these nodes, in the graph's order, should not become a group; other nodes may
   * then make one with some of them.  Called before each group is made; NULL: all are made. */
  bool (*takes)(const rush_node *const *nodes, size_t n_nodes, void *user);
  /* A list that is made for one node of a group only (the tensors of aten::cat) is made in the
   * group, so that its items may come from it; false: it is an argument. */
  bool takes_lists;
} rush_group_def;

typedef struct rush_backend_api {
  size_t struct_bytes;
  uint32_t abi; /* RUSH_BACKEND_ABI */

  /* Add an operator to the context (NULL: the default one), for as long as the context lives.
   * RUSH_EARGUMENT: the schema cannot be parsed (the message says where), or an operator of this
   * name and overload exists. */
  rush_status (*op_register)(rush_context *c, const rush_op_def *def, rush_error *err);

  /* -- Inside a kernel ------------------------------------------------------------------------- */

  void *(*call_user)(const rush_call *call);
  rush_context *(*call_context)(const rush_call *call); /* borrowed */
  size_t (*call_n_args)(const rush_call *call);
  rush_value (*call_arg)(const rush_call *call, size_t i); /* borrowed; i < call_n_args */
  /* Return result i (steals v); call it once for each result. */
  void (*call_return_steal)(rush_call *call, size_t i, rush_value v);
  /* Fail as a Python exception of class `type` (a static string; NULL: "RuntimeError").  The
   * message is formatted as by printf.  Returns RUSH_ERAISED. */
  rush_status (*call_fail)(rush_call *call, const char *type, const char *fmt, ...)
    RUSH_PRINTF(3, 4);
  /* Check limits and cancellation; returns RUSH_OK, or the status that ends the call.  Call it
   * about once a millisecond. */
  rush_status (*call_poll)(rush_call *call);
  /* Create a contiguous, uninitialised tensor; a failure is set in the call's error. */
  rush_status (*call_create)(rush_call *call, rush_dtype dtype, int n_dims, const int64_t *sizes,
                             rush_value *out);
  /* Make t contiguous: *out is t itself, retained, or a copy; new. */
  rush_status (*call_contiguous)(rush_call *call, rush_tensor *t, rush_value *out);
  /* Call another operator that has one result: "aten::softmax.int", or a name without overload for
   * the first one that accepts the arguments.  *out is new. */
  rush_status (*call_op)(rush_call *call, const char *name, const rush_value *args, size_t n_args,
                         rush_value *out);
  void (*value_release)(rush_value v);

  /* -- Tensors: as in rushlight.h -------------------------------------------------------------- */

  rush_dtype (*tensor_dtype)(const rush_tensor *t);
  int (*tensor_n_dims)(const rush_tensor *t);
  const int64_t *(*tensor_sizes)(const rush_tensor *t);
  const int64_t *(*tensor_strides)(const rush_tensor *t);
  int64_t (*tensor_n_elems)(const rush_tensor *t);
  const void *(*tensor_data)(const rush_tensor *t);
  void *(*tensor_data_mut)(rush_tensor *t);

  /* -- Compilers ------------------------------------------------------------------------------- */

  /* Register a pass for functions that are compiled from now on: register it before loading.
   * RUSH_EARGUMENT: name or run is missing. */
  rush_status (*pass_register)(rush_context *c, const rush_pass_def *def, rush_error *err);
  /* In a pass: group the nodes that `refuse` accepts.  Neighbours are joined, from the last node of
   * a block to its first, if no write to memory, call or random number comes between them;
   * constants are copied into the groups.  Nested blocks are processed too. */
  rush_status (*pass_group)(rush_pass *pass, const rush_group_def *def);
  rush_context *(*pass_context)(const rush_pass *pass); /* borrowed */
  const rush_block *(*pass_block)(const rush_pass *pass); /* the graph's outermost block */

  /* Read graphs. */
  const rush_node *(*block_first)(const rush_block *b);  /* NULL: the block is empty */
  /* the next one in its block; NULL: n is the last */
  const rush_node *(*node_next)(const rush_node *n);
  const char *(*node_kind)(const rush_node *n);          /* "aten::mul", "prim::If" */
  const char *(*node_overload)(const rush_node *n);      /* "Tensor"; "" for none */
  size_t (*node_n_inputs)(const rush_node *n);
  const rush_graph_value *(*node_input)(const rush_node *n, size_t i);
  size_t (*node_n_outputs)(const rush_node *n);
  const rush_graph_value *(*node_output)(const rush_node *n, size_t i);
  size_t (*node_n_blocks)(const rush_node *n);           /* a group has one, its subgraph */
  const rush_block *(*node_block)(const rush_node *n, size_t i);
  size_t (*block_n_inputs)(const rush_block *b);
  const rush_graph_value *(*block_input)(const rush_block *b, size_t i);
  size_t (*block_n_outputs)(const rush_block *b);
  const rush_graph_value *(*block_output)(const rush_block *b, size_t i);
  uint32_t (*value_id)(const rush_graph_value *v);       /* unique in the graph */
  bool (*value_is_tensor)(const rush_graph_value *v);    /* its type is Tensor */
  /* Return true if the value is a constant of the program; *out (borrowed) is its value. */
  bool (*value_constant)(const rush_graph_value *v, rush_value *out);

  /* For kernels of groups. */
  void *(*call_state)(
    const rush_call *call); /* the state that prepare made; NULL if the call has no node */
  size_t (*call_n_results)(const rush_call *call);
  /* Interpret the node's subgraph, which returns all results. */
  rush_status (*call_run_group)(rush_call *call);
  /* Write a key of everything about the arguments that code may be specialised for: dtype, sizes,
   * strides and requires_grad of tensors, the kind of other values.  Two calls with the same bytes
   * have the same facts.  Writes at most `max` bytes and returns the number of bytes of the whole
   * key. */
  size_t (*call_spec)(const rush_call *call, void *out, size_t max);

  /* -- Graphs as data.  Texts given by `char **out` are freed with rush_free_text. ------------- */

  /* Create a graph without inputs, nodes and outputs. */
  rush_status (*graph_create)(rush_context *c, rush_graph **out, rush_error *err);
  /* Parse a graph from IR text, as graph_text writes it.  Named types (classes) are looked up in
   * the program of `scope` (NULL: there are none).  tensor_constants true: constants printed as
   * <Tensor> become tensors of zeros; false: they are refused. */
  rush_status (*graph_parse)(rush_context *c, const char *text, bool tensor_constants,
                             const rush_graph *scope, rush_graph **out, rush_error *err);
  /* Copy the graph of a module's method (NULL: "forward"), of an object's method, or of a
   * function. */
  rush_status (*graph_of_method)(rush_module *m, const char *method, rush_graph **out,
                                 rush_error *err);
  rush_status (*graph_of_value)(rush_context *c, rush_value v, const char *method, rush_graph **out,
                                rush_error *err);
  rush_status (*graph_of_function)(rush_function *f, rush_graph **out, rush_error *err);
  rush_status (*graph_copy)(const rush_graph *g, rush_graph **out, rush_error *err);
  void (*graph_release)(rush_graph *g); /* NULL: nothing */
  const rush_block *(*graph_block)(const rush_graph *g);
  /* Print the graph as PyTorch does; `ranges`: with `# file:line:column`. */
  rush_status (*graph_text)(const rush_graph *g, bool ranges, char **out, rush_error *err);
  rush_status (*graph_dot)(const rush_graph *g, const char *name, char **out, rush_error *err);
  /* Check all rules of valid graphs; the message of RUSH_EARGUMENT says which rule is broken, and
   * where. */
  rush_status (*graph_lint)(rush_graph *g, rush_error *err);
  /* Run a graph (checked by graph_lint first, on a copy) with complete arguments.  *result, new, is
   * None, a value, or a tuple of several. */
  rush_status (*graph_call)(rush_graph *g, const rush_value *args, size_t n_args,
                            rush_value *result, rush_error *err);
  /* Run a pass, given by name. */
  rush_status (*graph_run_pass)(rush_graph *g, const char *name, rush_error *err);
  /* Get or set the insert point: graph_insert* put new nodes before this node; block_return(b) is
   * the end of b.  It is initially the end of the graph. */
  const rush_node *(*graph_insert_point)(const rush_graph *g);
  rush_status (*graph_set_insert_point)(rush_graph *g, const rush_node *before, rush_error *err);
  /* Insert a call of an operator: overload, defaults and conversions are chosen as in TorchScript.
   * args[i] is values[i] if that is not NULL, else the constant constants[i].  The last n_named
   * arguments are named. The output is a tuple of several results, and None for no result. */
  rush_status (*graph_insert)(rush_graph *g, const char *op, const rush_graph_value *const *values,
                              const rush_value *constants, size_t n_args, const char *const *names,
                              size_t n_named, const rush_graph_value **out, rush_error *err);
  /* Insert a constant; type NULL: the value's own type. */
  rush_status (*graph_insert_constant)(rush_graph *g, rush_value v, const rush_type *type,
                                       const rush_graph_value **out, rush_error *err);
  rush_status (*graph_insert_node)(rush_graph *g, const rush_node *n, rush_error *err);
  /* Insert a copy of the nodes of another graph, with its inputs replaced by inputs[]; outputs[]
   * receives the values of its outputs. */
  rush_status (*graph_insert_graph)(rush_graph *g, const rush_graph *from,
                                    const rush_graph_value *const *inputs, size_t n_inputs,
                                    const rush_graph_value **outputs, rush_error *err);
  rush_graph *(*pass_graph)(
    const rush_pass *pass); /* borrowed: for passes that do more than grouping */

  /* -- Blocks ---------------------------------------------------------------------------------- */

  rush_graph *(*block_graph)(const rush_block *b);          /* borrowed */
  const rush_node *(*block_owner)(const rush_block *b);     /* NULL: the graph's own block */
  /* a node whose outputs are the block's inputs */
  const rush_node *(*block_param)(const rush_block *b);
  /* a node whose inputs are the block's outputs */
  const rush_node *(*block_return)(const rush_block *b);
  const rush_node *(*block_last)(const rush_block *b);      /* NULL: empty */
  /* Find the next node of that kind after `after` (NULL: from the start); nested: inside nodes too.
   * Returns NULL if there is none. */
  const rush_node *(*block_find)(const rush_block *b, const char *kind, bool nested,
                                 const rush_node *after);

  /* -- Nodes ----------------------------------------------------------------------------------- */

  /* Create an unlinked node of a kind ("prim::If", "aten::add"), with n_outputs outputs of type
   * Tensor. */
  rush_status (*node_create)(rush_graph *g, const char *kind, const rush_graph_value *const *inputs,
                             size_t n_inputs, size_t n_outputs, const rush_node **out,
                             rush_error *err);
  bool (*node_is_live)(const rush_node *n);                 /* true unless it was destroyed */
  rush_graph *(*node_graph)(const rush_node *n);            /* borrowed */
  const rush_block *(*node_owner)(const rush_node *n);      /* NULL: it is unlinked */
  const rush_node *(*node_prev)(const rush_node *n);        /* NULL: n is the first */
  /* Get the schema that fits the inputs, or "(no schema)". */
  rush_status (*node_schema)(const rush_node *n, char **out, rush_error *err);
  rush_status (*node_text)(const rush_node *n, char **out, rush_error *err);
  /* Get the source lines around the node's origin, with a mark, as in tracebacks; or "". */
  rush_status (*node_source)(const rush_node *n, char **out, rush_error *err);
  /* Link an unlinked node, or move a linked one, before (`after`: behind) another.  block_return(b)
   * is the end of a block. */
  rush_status (*node_insert)(const rush_node *n, const rush_node *at, bool after, rush_error *err);
  rush_status (*node_move)(const rush_node *n, const rush_node *at, bool after, rush_error *err);
  /* Destroy a node; its outputs must have no uses.  Nodes inside it are destroyed too. */
  rush_status (*node_destroy)(const rush_node *n, rush_error *err);
  rush_status (*node_is_before)(const rush_node *a, const rush_node *b, bool *out, rush_error *err);
  /* Insert an input; i is at most the number of inputs. */
  rush_status (*node_insert_input)(const rush_node *n, size_t i, const rush_graph_value *v,
                                   rush_error *err);
  rush_status (*node_set_input)(const rush_node *n, size_t i, const rush_graph_value *v,
                                rush_error *err);
  rush_status (*node_remove_input)(const rush_node *n, size_t i, rush_error *err);
  rush_status (*node_replace_input)(const rush_node *n, const rush_graph_value *from,
                                    const rush_graph_value *to, rush_error *err);
  /* Insert an output; type NULL: Tensor; name NULL: none. */
  rush_status (*node_insert_output)(const rush_node *n, size_t i, const rush_type *type,
                                    const char *name, const rush_graph_value **out,
                                    rush_error *err);
  rush_status (*node_remove_output)(const rush_node *n, size_t i,
                                    rush_error *err); /* the output must have no uses */
  rush_status (*node_add_block)(const rush_node *n, const rush_block **out, rush_error *err);
  rush_status (*node_erase_block)(const rush_node *n, size_t i, rush_error *err);
  /* Get the input for the schema's parameter `name`. */
  rush_status (*node_named_input)(const rush_node *n, const char *name,
                                  const rush_graph_value **out, rush_error *err);
  /* Attributes in the order in which they were set; the one of prim::Constant is "value".  The
   * kinds are PyTorch's: i f s t c ty, is fs ss ts tys, g gs, ival. */
  const char *(*node_attr_name)(const rush_node *n, size_t i); /* NULL: no more */
  const char *(*node_attr_kind)(const rush_node *n,
                                const char *name); /* static; NULL: there is none */
  rush_status (*node_attr)(const rush_node *n, const char *name, rush_value *out,
                           rush_error *err); /* new; not for types and graphs */
  size_t (*node_attr_n_types)(const rush_node *n, const char *name);
  const rush_type *(*node_attr_type)(const rush_node *n, const char *name, size_t i); /* new */
  /* Get a graph attribute, or the subgraph of a fork or a group ("Subgraph"); *out is a copy. */
  rush_status (*node_attr_graph)(const rush_node *n, const char *name, rush_graph **out,
                                 rush_error *err);
  rush_status (*node_set_attr)(const rush_node *n, const char *name, const char *kind, rush_value v,
                               rush_error *err);
  rush_status (*node_set_attr_types)(const rush_node *n, const char *name,
                                     const rush_type *const *types, size_t n_types,
                                     rush_error *err);
  rush_status (*node_remove_attr)(const rush_node *n, const char *name, rush_error *err);
  rush_status (*node_copy_attrs)(const rush_node *n, const rush_node *from, rush_error *err);

  /* -- Values ---------------------------------------------------------------------------------- */

  bool (*value_is_live)(const rush_graph_value *v);
  const rush_node *(*value_node)(
    const rush_graph_value *v); /* the node that defines it; for a block's input block_param */
  size_t (*value_offset)(const rush_graph_value *v); /* its position among the node's outputs */
  const char *(*value_name)(
    const rush_graph_value *v); /* debug name, or NULL: it is printed as its id */
  /* Set the debug name.  It is made unique: an existing value of that name becomes x.1, x.2 ...
   * name "": none. */
  rush_status (*value_set_name)(const rush_graph_value *v, const char *name, rush_error *err);
  const rush_type *(*value_type)(const rush_graph_value *v); /* new; NULL if memory ran out */
  rush_status (*value_set_type)(const rush_graph_value *v, const rush_type *t, rush_error *err);
  size_t (*value_n_uses)(const rush_graph_value *v);
  /* Get the node of use i (NULL: there are no more); *input is the number of that node's input. */
  const rush_node *(*value_use)(const rush_graph_value *v, size_t i, size_t *input);
  /* Replace uses of v by `by`; after NULL: all uses; else only those by nodes behind `after`. */
  rush_status (*value_replace_uses)(const rush_graph_value *v, const rush_graph_value *by,
                                    const rush_node *after, rush_error *err);

  /* -- Types ----------------------------------------------------------------------------------- */

  /* Parse a type as graphs print it: "int[]", "Dict(str, Tensor)", "Tensor?".  Classes are looked
   * up in the program of `scope` (NULL: none). */
  rush_status (*type_parse)(rush_context *c, const char *text, const rush_graph *scope,
                            const rush_type **out, rush_error *err);
  /* Make a type by kind: "IntType", or with elements "ListType", "OptionalType", "DictType",
   * "TupleType", "UnionType", "FutureType". */
  rush_status (*type_make)(rush_context *c, const char *kind, const rush_type *const *elems,
                           size_t n_elems, const rush_type **out, rush_error *err);
  void (*type_release)(const rush_type *t);
  const char *(*type_kind)(const rush_type *t); /* "TensorType", "ListType" ... */
  /* Print a type as graphs do, or (annotation) as in Python: "List[int]". */
  rush_status (*type_text)(rush_context *c, const rush_type *t, bool annotation, char **out,
                           rush_error *err);
  size_t (*type_n_elems)(const rush_type *t);
  const rush_type *(*type_elem)(const rush_type *t, size_t i); /* new */
  const char *(*type_field)(const rush_type *t,
                            size_t i);          /* name of a NamedTuple's field, or NULL */
  /* qualified name of classes, interfaces, enums and NamedTuples; or NULL */
  const char *(*type_name)(const rush_type *t);
  bool (*type_equal)(const rush_type *a, const rush_type *b);
  bool (*type_is_subtype)(const rush_type *a, const rush_type *b);
  /* Find the smallest common supertype, by TorchScript's rules; *out NULL: there is none. */
  rush_status (*type_unify)(rush_context *c, const rush_type *a, const rush_type *b, bool to_union,
                            const rush_type **out, rush_error *err);

  /* -- Tools ----------------------------------------------------------------------------------- */

  /* Analyse which values may share memory in the present graph.  For values created later all
   * queries return true. */
  rush_status (*alias_analyse)(rush_graph *g, rush_aliases **out, rush_error *err);
  void (*alias_release)(rush_aliases *a);
  /* True if x and y may be the same object or share memory; `contained`: or if something in x may
   * share memory with something in y. */
  bool (*alias_may)(const rush_aliases *a, const rush_graph_value *x, const rush_graph_value *y,
                    bool contained);
  /* True if the graph writes to v or to something in it. */
  bool (*alias_has_writers)(const rush_aliases *a, const rush_graph_value *v);
  /* Move n before (`after`: behind) `at`, a node of the same block, together with the nodes that
   * must move with it, if this keeps the meaning of the graph.  *done: whether it was possible.
   * try_only: change nothing. */
  rush_status (*node_move_if_valid)(const rush_node *n, const rush_node *at, bool after,
                                    bool try_only, bool *done, rush_error *err);
  /* Find every place that matches the pattern (a graph without blocks), ordered by their last node.
   * Calls `found` for each; returning false ends the search.  The match is borrowed during the
   * call. */
  rush_status (*graph_match)(rush_graph *g, rush_graph *pattern,
                             bool (*found)(void *user, const rush_match *m), void *user,
                             rush_error *err);
  const rush_node *(*match_anchor)(
    const rush_match *m); /* the node that matches the one that makes the pattern's first output */
  const rush_graph_value *(*match_value)(const rush_match *m, const rush_graph_value *of_pattern);
  /* Replace matches of the pattern, without overlaps, that `accept` accepts (NULL: all); *n is the
   * number of replacements. */
  rush_status (*graph_rewrite)(rush_graph *g, rush_graph *pattern, const rush_graph *by,
                               bool (*accept)(void *user, const rush_match *m), void *user,
                               size_t *n, rush_error *err);

  /* -- Building: a graph call by call.  The first failure sticks: what comes after it does nothing
   * and gives NULL, and build_end returns the error. -- */

  rush_builder *(*build_begin)(
    rush_graph *g); /* new; inserts at the graph's insert point; NULL if memory ran out */
  const rush_graph_value *(*build_input)(rush_builder *b, const char *name, const char *type);
  const rush_graph_value *(*build_constant)(rush_builder *b, rush_value v);
  const rush_graph_value *(*build_call)(rush_builder *b, const char *op,
                                        const rush_graph_value *const *args, size_t n_args);
  void (*build_output)(rush_builder *b, const rush_graph_value *v);
  bool (*build_failed)(const rush_builder *b);
  rush_status (*build_end)(rush_builder *b, rush_error *err); /* releases b */

  /* -- In a shape function.  Arguments are the schema's, complete; of Tensor[] each item is queried
   * for by `item`, of a Tensor 0  */

  size_t (*shape_n_tensors)(rush_shape *q, size_t arg); /* 0: None, or not a tensor argument */
  int (*shape_n_dims)(rush_shape *q, size_t arg, size_t item);
  rush_dtype (*shape_dtype)(rush_shape *q, size_t arg, size_t item);
  const rush_size *(*shape_size)(rush_shape *q, size_t arg, size_t item,
                                 int dim); /* negative dim counts from the end */
  const rush_size *(*shape_int)(rush_shape *q, size_t arg,
                                /* the value of an int (item 0), or an item of int[] */
                                size_t item);
  /* Get any other argument, borrowed; also an int, which then counts as a constant of all calls.
   * Returns None for a tensor. */
  rush_value (*shape_arg)(rush_shape *q, size_t arg);
  const rush_size *(*size_number)(rush_shape *q, int64_t n);
  /* a size that is only known when the operator runs */
  const rush_size *(*size_unknown)(rush_shape *q);
  const rush_size *(*size_calc)(rush_shape *q, rush_size_op op, const rush_size *a,
                                const rush_size *b);
  /* Test a relation.  With symbols: the result for the example is returned, and becomes a condition
   * of the answer. */
  bool (*size_holds)(rush_shape *q, rush_size_relation rel, const rush_size *a, const rush_size *b);
  /* Describe result `result` of the schema (for Tensor[], its next item): a contiguous tensor with
   * memory of its own. */
  rush_status (*shape_result)(rush_shape *q, size_t result, rush_dtype dtype, int n_dims,
                              const rush_size *const *sizes);
  /* Fail, as call_fail does. */
  rush_status (*shape_fail)(rush_shape *q, const char *type, const char *fmt, ...)
    RUSH_PRINTF(3, 4);

  /* -- Errors ---------------------------------------------------------------------------------- */

  rush_error *(*call_error)(
    const rush_call *call); /* borrowed, may be NULL: pass it as `err` in a kernel */
  rush_error *(*pass_error)(const rush_pass *pass);
  /* Set an error.  type: a static string; NULL: the class for the status.  The message is formatted
   * as by printf.  Returns status. */
  rush_status (*error_set)(rush_error *err, rush_status status, const char *type, const char *fmt,
                           ...) RUSH_PRINTF(4, 5);
  void (*error_clear)(rush_error *err);
  rush_status (*pass_fail)(rush_pass *pass, const char *type, const char *fmt, ...)
    RUSH_PRINTF(3, 4); /* as call_fail */

  /* -- Values: as the functions of rushlight.h; none, bools, ints and floats are made by its inline
   * ones  */

  rush_value (*value_retain)(rush_value v);
  const char *(*value_string)(rush_value v, size_t *n_bytes);
  void (*value_complex)(rush_value v, double *re, double *im);
  size_t (*value_len)(rush_value v);                     /* of lists, tuples, dicts */
  rush_value (*value_item)(rush_value v, size_t i);      /* borrowed */
  void (*value_entry)(rush_value v, size_t i, rush_value *key,
                      rush_value *value);                /* of a dict; borrowed */
  const char *(*value_field)(rush_value v, size_t i);    /* of a NamedTuple, or NULL */
  const char *(*value_class)(rush_value v);              /* of objects and enums */
  const char *(*value_member)(rush_value v, rush_value *value); /* of an enum: its name */
  /* Get a device: *kind is 0 for "cpu", 1 for "cuda" ...; *index -1: none.  Returns false if v is
   * not a device. */
  bool (*value_device)(rush_value v, int *kind, int *index);
  bool (*value_generator)(rush_value v,
                          /* RUSH_GENERATOR_STATE_BYTES bytes; false: v is not a generator */
                          void *state);
  size_t (*object_n_attrs)(rush_value v);
  const char *(*object_attr_name)(rush_value v, size_t i);
  rush_value (*object_attr)(rush_value v, const char *name); /* borrowed */
  rush_status (*object_set_attr)(rush_context *c, rush_value v, const char *name, rush_value to,
                                 rush_error *err);
  rush_status (*object_call)(rush_context *c, rush_value v, const char *method,
                             const rush_value *args, size_t n_args, const rush_named_value *named,
                             size_t n_named, const rush_call_options *options, rush_value *result,
                             rush_error *err);
  rush_status (*value_text)(rush_context *c, rush_value v, bool repr, char **out,
                            rush_error *err); /* out: text_free */
  void (*text_free)(rush_context *c,
                    char *text); /* frees a `char **out` of these functions */
  /* Create values: *out is new; items are retained. */
  rush_status (*string_create)(rush_context *c, const char *utf8, size_t n_bytes, rush_value *out,
                               rush_error *err);
  rush_status (*complex_create)(rush_context *c, double re, double im, rush_value *out,
                                rush_error *err);
  rush_status (*list_create)(rush_context *c, const rush_value *items, size_t n, rush_value *out,
                             rush_error *err);
  rush_status (*tuple_create)(rush_context *c, const rush_value *items, size_t n, rush_value *out,
                              rush_error *err);
  rush_status (*dict_create)(rush_context *c, const rush_value *keys, const rush_value *values,
                             size_t n, rush_value *out, rush_error *err);
  rush_value (*device_make)(int kind, int index);
  rush_status (*generator_create)(rush_context *c, const void *state, size_t n_bytes,
                                  rush_value *out, rush_error *err);
  rush_status (*tensor_create)(rush_context *c, rush_dtype dtype, int n_dims, const int64_t *sizes,
                               rush_value *out, rush_error *err);
  rush_status (*tensor_wrap)(rush_context *c, rush_dtype dtype, int n_dims, const int64_t *sizes,
                             const int64_t *strides, void *data,
                             void (*deleter)(void *user, void *data), void *user, rush_value *out,
                             rush_error *err);

  /* -- Facts ----------------------------------------------------------------------------------- */

  void (*tensor_facts)(const rush_tensor *t, rush_tensor_facts *out);
  const char *(*dtype_name)(rush_dtype dtype); /* static; NULL: not a dtype */
  size_t (*dtype_bytes)(rush_dtype dtype);     /* bytes of an element; 0: not a dtype */
  uint32_t (*dtype_flags)(rush_dtype dtype);   /* RUSH_DTYPE_* */
  /* Promote as torch.promote_types does; returns false if there is no common dtype. */
  bool (*dtype_promote)(rush_dtype a, rush_dtype b, rush_dtype *out);
  void (*context_facts)(rush_context *c, rush_context_facts *out);
  /* Return the instruction set in use, never RUSH_CPU_NATIVE.  It may change between calls. */
  rush_cpu (*context_cpu)(rush_context *c);
  void (*context_warn)(rush_context *c,
                       /* warn through the context's callback, as torch's warnings */
                       const char *text);

  /* -- Memory: the context's, which counts it, with its limit.  16-byte aligned; the freer passes
   * the size.  */

  void *(*memory_alloc)(rush_context *c,
                        size_t n_bytes); /* zeroed; NULL: no memory, or over the limit */
  void (*memory_free)(rush_context *c, void *p, size_t n_bytes); /* p NULL: nothing */
  /* Set the error after memory_alloc returned NULL in a kernel (out of memory, or the limit);
   * returns its status. */
  rush_status (*call_no_memory)(rush_call *call);

  /* -- Inside a kernel, besides ---------------------------------------------------------------- */

  /* all arguments as one array; borrowed */
  const rush_value *(*call_args)(const rush_call *call, size_t *n);
  /* Make and return result i in one step. */
  rush_status (*call_make_result)(rush_call *call, size_t i, rush_result *r);
  /* Call fn(arg, begin, end) over [0, n) in pieces of at least `grain`, on the context's threads.
   * fn must not call functions of this table.  Returns a failure if the deadline passed or the call
   * was cancelled; some pieces may then be missing. */
  rush_status (*call_parallel)(rush_call *call, int64_t n, int64_t grain,
                               void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);

  /* -- Types of tensors ------------------------------------------------------------------------ */

  /* Get what is known of the type's tensors; nothing for a type that is not Tensor. */
  void (*type_facts)(const rush_type *t, rush_type_facts *out);
  /* Make the type of tensors with these facts: *out is new. */
  rush_status (*type_of_facts)(rush_context *c, const rush_type_facts *facts,
                               const rush_type **out, rush_error *err);

  /* -- Attributes that are graphs -------------------------------------------------------------- */

  size_t (*node_attr_n_graphs)(const rush_node *n, const char *name); /* of kind "g" or "gs" */
  /* Get graph i of an attribute; *out is a copy. */
  rush_status (*node_attr_graph_at)(const rush_node *n, const char *name, size_t i,
                                    rush_graph **out, rush_error *err);
  /* Set an attribute to copies of the graphs: of kind "gs" if `list`, else "g", which is one graph.
   * "Subgraph" of a group, a task, prim::DifferentiableGraph or prim::FallbackGraph is what the
   * node runs. */
  rush_status (*node_set_attr_graphs)(const rush_node *n, const char *name,
                                      const rush_graph *const *graphs, size_t n_graphs, bool list,
                                      rush_error *err);

  /* -- What ran -------------------------------------------------------------------------------- */

  /* Copy the graph that the last outer call of a module's method (NULL: "forward"), or of a
   * function, ran: after all passes, those of a plan included (docs/executors.md). */
  rush_status (*graph_of_last_call)(rush_module *m, const char *method, rush_graph **out,
                                    rush_error *err);
  rush_status (*graph_of_last_function_call)(rush_function *f, rush_graph **out, rush_error *err);

  /* -- Differentiation ------------------------------------------------------------------------- */

  /* Differentiate a graph by the operators' gradients: *f is g with further outputs, which *df
   * reads; *df computes gradients of g's inputs from those of f's outputs, and returns one value, a
   * tuple if there are several.  *numbers (int[][]) says what is what, as PyTorch's Gradient does:
   * {the number of g's outputs}, the outputs of f whose gradients df takes, the inputs and the
   * outputs of f that it takes behind them, the inputs of f whose gradients it returns.  All three
   * are new. */
  rush_status (*graph_differentiate)(const rush_graph *g, rush_graph **f, rush_graph **df,
                                     rush_value *numbers, rush_error *err);
} rush_backend_api;

/* True if the library that owns the table has the function. */
#define RUSH_BACKEND_HAS(api, function) \
  ((api)->struct_bytes >= offsetof(rush_backend_api, function) + sizeof((api)->function))

/* Get the table, which is static; NULL if this library does not have that version. */
RUSH_API const rush_backend_api *rush_backend(uint32_t abi);

/* The type of the function `rush_plugin` that a plug-in exports. */
typedef rush_status rush_plugin_fn(const rush_backend_api *api, rush_context *c, rush_error *err);
#define RUSH_PLUGIN_SYMBOL "rush_plugin"
#define RUSH_PLUGIN_ABI_SYMBOL "rush_plugin_abi"
#define RUSH_PLUGIN_BYTES_SYMBOL "rush_plugin_table_bytes"
#if defined(__GNUC__) || defined(__clang__)
#define RUSH_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define RUSH_PLUGIN_EXPORT
#endif
/* Use once in a plug-in: exports the version of this header that it was built with, and the size of
 * the table.  A library that has less refuses the plug-in.  RUSH_PLUGIN_DECLARE_UP_TO(function):
 * the plug-in calls no later function without checking RUSH_BACKEND_HAS. */
#define RUSH_PLUGIN_DECLARE RUSH_PLUGIN_DECLARE_BYTES(sizeof(rush_backend_api))
#define RUSH_PLUGIN_DECLARE_UP_TO(function)                        \
  RUSH_PLUGIN_DECLARE_BYTES(offsetof(rush_backend_api, function) + \
                            sizeof(((rush_backend_api *)0)->function))
#define RUSH_PLUGIN_DECLARE_BYTES(n_bytes)                          \
  RUSH_PLUGIN_EXPORT extern const uint32_t rush_plugin_abi;         \
  RUSH_PLUGIN_EXPORT extern const uint32_t rush_plugin_table_bytes; \
  const uint32_t rush_plugin_abi = RUSH_BACKEND_ABI;                \
  const uint32_t rush_plugin_table_bytes = (uint32_t)(n_bytes)

#ifdef __cplusplus
}
#endif
#endif
