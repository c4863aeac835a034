/* backend.h -- for authors of operators and compilers: add your own to a context, at run time.
 *
 * One table of functions, given in two ways.  A program that links the library asks for it with
 * rush_backend(RUSH_BACKEND_ABI).  A plug-in (a shared object for `rushlight --plugin FILE`) links
 * nothing of ours: it exports the version that it was built for (RUSH_PLUGIN_DECLARE;) and
 *
 *   rush_status rush_plugin(const rush_backend_api *api, rush_context *c, rush_error *err);
 *
 * which is called once with the context that programs will run in, and registers what it brings.
 *
 * An operator is a schema in PyTorch's syntax and a kernel.  It is found like PyTorch's own: by
 * `torch.ops.NAMESPACE.NAME` in programs, by rush_op_call, by rushlight.ops in Python; defaults,
 * conversions and overloads of its schema are applied before the kernel runs.  Register before
 * loading programs that use it.  examples/custom_op.c is a whole one.
 *
 * Kernels.  Arguments are complete and have the schema's types: a `Tensor` is a RUSH_TAG_TENSOR
 * that is not NULL, a `Tensor?` may be RUSH_TAG_NONE, an `int[]` is a list, a `Scalar` a BOOL, INT,
 * FLOAT or COMPLEX. Tensors have any strides: see call_contiguous.  A kernel gives every result, or
 * fails with call_fail. It may be called by several threads at once, and must not keep the call,
 * its arguments, or borrowed pointers.
 *
 * Compilers.  A pass sees the graph of each function before it runs and may group nodes that the
 * compiler supports into one: a node of an operator that the compiler registered, with the nodes as
 * its subgraph (pass_group).  The operator's `prepare` sees that node once and makes a state; its
 * kernel finds the state by call_state, compiles for the arguments that come (call_spec is a key of
 * all facts about them), and may fall back to interpreting the subgraph at any call
 * (call_run_group). Calls that are recorded (tensors that require grad, while gradients are
 * recorded) and calls with quantized or nested tensors are interpreted without asking it.  A
 * context whose executor is `simple` runs no passes.  Rushlight's own compiler is registered
 * through this table and nothing else; examples/pointwise_compiler.c is another one.
 *
 * Graphs are PyTorch IR (docs/architecture.md): blocks of nodes in order; what is read here is
 * borrowed and lives as long as the pass runs, or, for a node given to `prepare`, as long as the
 * state.
 *
 * Graphs as data (the part of the table from graph_create on; docs/ir.md).  A rush_graph is the
 * caller's own: made empty, from text, or as a copy of a program's function.  Blocks, nodes and
 * values belong to their graph and are borrowed from it until it is released; `const` in their
 * handles says nothing about the graph.  A destroyed node (or an erased input or output) stays
 * memory until then: node_is_live and value_is_live tell, functions that change refuse it.
 * Functions that change check what they are given (RUSH_EARGUMENT) and then do it all or not at
 * all; whether the whole still makes sense says graph_lint.  One thread at a time works on a graph;
 * different graphs are independent.
 *
 * Errors.  A function here that fails has set the error that it was given: call_error in a kernel,
 * pass_error in a pass, the parameter `err` elsewhere (each may be NULL: nobody is interested).
 * Whoever goes on after a failure clears it, or returns RUSH_OK, which does.  A callback that
 * returns a failure has an error set (call_fail, pass_fail, error_set), or gets one that names it.
 *
 * Words of ownership (new, borrowed, steals): rushlight.h.  Version: the table grows at the end
 * only; RUSH_BACKEND_ABI changes when something else does.  A plug-in says how much of the table it
 * was built with (RUSH_PLUGIN_DECLARE), and a library that has less refuses it; a program that
 * links an older library looks itself (RUSH_BACKEND_HAS). */
#ifndef RUSHLIGHT_BACKEND_H
#define RUSHLIGHT_BACKEND_H

#include <rushlight/rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUSH_BACKEND_ABI 1u

/* One call of an operator; lives as long as the kernel runs. */
typedef struct rush_call rush_call;

/* What a kernel returns is RUSH_OK, or the status that call_fail (or a failed function here)
 * returned. */
typedef rush_status rush_kernel(rush_call *call);

/* Graphs: see above. */
typedef struct rush_node rush_node;
typedef struct rush_block rush_block;
typedef struct rush_graph_value
  rush_graph_value; /* what a node gives or takes; every one is defined once */
typedef struct rush_pass rush_pass;               /* one run of a pass over one graph */
typedef struct rush_graph rush_graph; /* a graph that a caller owns, with the types it uses */
typedef struct rush_type rush_type;               /* a type that a caller owns */
typedef struct rush_aliases rush_aliases;         /* what alias_analyse found */
typedef struct rush_function rush_function;       /* of script.h */
typedef struct rush_match rush_match;             /* a place where a pattern was found */
typedef struct rush_builder rush_builder; /* builds a graph call by call, with one sticky error */

/* Where a description is written, piece by piece. */
typedef void rush_write_fn(void *to, const char *text, size_t n_bytes);

/* What passes may take for granted of an operator. */
typedef enum rush_alias_kind {
  RUSH_ALIAS_SCHEMA, /* what its schema says: (a) shares memory, (a!) writes */
  /* nothing: it is never removed, merged or moved; its results may be its arguments */
  RUSH_ALIAS_CONSERVATIVE,
  RUSH_ALIAS_PURE /* it neither writes nor shares; the schema must not say otherwise */
} rush_alias_kind;

/* What a tensor is, read with one call (tensor_facts).  Pointers are borrowed from the tensor. */
typedef struct rush_tensor_facts {
  const int64_t *sizes, *strides; /* n_dims each; strides in elements */
  const void *data; /* of the first element; NULL: it has none.  To write: tensor_data_mut */
  int64_t n_elems;
  int32_t n_dims;
  int32_t dtype;  /* rush_dtype */
  uint32_t flags; /* RUSH_TENSOR_* */
} rush_tensor_facts;
enum {
  RUSH_TENSOR_IS_CONTIGUOUS = 1,
  RUSH_TENSOR_IS_DENSE =
    2, /* its elements fill one stretch of memory, in some order of the dimensions */
  RUSH_TENSOR_NEEDS_GRAD = 4,
  RUSH_TENSOR_HAS_NO_DATA = 8 /* of the device meta */
};

/* A result that call_make_result makes. */
typedef struct rush_result {
  rush_dtype dtype;
  int32_t n_dims;
  const int64_t *sizes,
    *strides; /* strides of a dense tensor (RUSH_TENSOR_IS_DENSE); NULL: contiguous */
  /* It may be in the memory of an argument of the same dtype and sizes that nobody sees after this
   * call.  The kernel then reads element k of all arguments before it writes element k, and does
   * not leave the call to the interpreter any more. */
  bool may_reuse;
  /* Set by the call. */
  bool reused;
  rush_tensor *tensor; /* borrowed from the call */
  void *data;          /* to write to; uninitialised */
} rush_result;

/* What a dtype is. */
enum {
  RUSH_DTYPE_IS_FLOAT = 1,
  RUSH_DTYPE_IS_COMPLEX = 2,
  RUSH_DTYPE_IS_INTEGER = 4, /* without bool */
  RUSH_DTYPE_IS_SIGNED = 8,
  RUSH_DTYPE_IS_QUANTIZED = 16
};

/* What kernels and passes may want to know of a context.  Set struct_bytes before the call; it says
 * afterwards how much was filled. */
typedef struct rush_context_facts {
  size_t struct_bytes;
  int32_t n_threads; /* that call_parallel uses, the caller's among them */
  rush_executor executor;
  bool no_reuse;     /* call_make_result reuses nothing */
  size_t limit_bytes; /* of memory; 0: none */
} rush_context_facts;

/* A gradient: a formula in TorchScript for one or several arguments, compiled at first use. */
typedef struct rush_gradient_def {
  const char *inputs;  /* the arguments, with spaces between: "x", "a b" */
  /* An expression, "grad * other", or lines that end in `return`; for several inputs a tuple.  It
   * may name arguments, `grad` (of several results grad0, grad1 ...), `result` (result0 ...),
   * `x_sizes`, and `needs`, which says what is wanted. */
  const char *formula;
} rush_gradient_def;

/* One question about the results of a call, for as long as its shape function runs.  Sizes in it
 * are numbers, or, where a program is looked at for all inputs, formulas of symbols: what the
 * function computes and asks with size_calc and size_holds serves both. The first failure stays:
 * what comes after it does nothing, and the question fails. */
typedef struct rush_shape rush_shape;
typedef struct rush_size rush_size; /* lives as long as the question */
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
/* Gives every tensor among the results, in order (shape_result), or fails (shape_fail).  Runs on
 * any thread, and more than once for a call or for none: it has no effects. */
typedef rush_status rush_shape_fn(rush_shape *q, void *user);

typedef struct rush_op_def {
  size_t struct_bytes; /* sizeof(rush_op_def) */
  /* "example::scale(Tensor x, float k=2.0) -> Tensor"; copied. An operator that owns groups takes
   * and gives anything: "pw::CompilationGroup(...) -> ..." */
  const char *schema;
  rush_kernel *kernel;
  void *user;          /* call_user; lives as long as the context */
  /* The rest may be NULL. */
  /* Once for each node of this operator in compiled code: *state is what call_state gives to its
   * kernel. The node and its subgraph live until `destroy`. */
  rush_status (*prepare)(rush_context *c, const rush_node *node, void *user, void **state,
                         rush_error *err);
  void (*destroy)(void *state, void *user);
  /* What the compiler made for the node (`rushlight show --asm`). */
  void (*describe)(void *state, void *user, rush_write_fn *write, void *to);
  rush_alias_kind alias;
  /* Its results' sizes, dtypes and strides, by one of the library's rules (src/ops/README.md):
   * "itself", "pointwise", "like" ... */
  const char *shape;
  const rush_gradient_def *gradients; /* copied */
  size_t n_gradients;
  rush_shape_fn *shape_fn; /* in the place of `shape`: a function that computes them; gets `user` */
  void (*destroy_user)(
    void *user); /* once, when the context ends; not after a registration that failed */
} rush_op_def;

typedef struct rush_pass_def {
  size_t struct_bytes; /* sizeof(rush_pass_def) */
  const char *name;    /* "pw::group"; copied */
  /* Lower ones run first, equal ones as they were registered.  Rushlight's own compiler has 1000:
   * what is to come before it, which sees all nodes, has less. */
  int32_t order;
  /* Called for the graph of every function that is compiled, never by two threads on one graph.  A
   * failure becomes that of the call.  Afterwards the graph is verified: a broken one, or one that
   * takes or gives something else than the function, is an error that names the pass. */
  rush_status (*run)(rush_pass *pass, void *user);
  void *user;
  void (*destroy_user)(
    void *user); /* as in rush_op_def; of a user that both have, one destroys it */
} rush_pass_def;

typedef struct rush_group_def {
  size_t struct_bytes; /* sizeof(rush_group_def) */
  const char *op;      /* the operator that owns the groups: "pw::CompilationGroup" */
  /* NULL: the node can be in a group.  Else why not, a static text (`rushlight show --groups`
   * prints it). Called once for each node; only pure operators without control flow are asked
   * about. */
  const char *(*refuse)(const rush_node *node, void *user);
  void *user;
  uint32_t min_nodes;  /* smaller groups are not made; 0: 1 */
  uint32_t max_nodes, max_inputs, max_outputs; /* 0: no limit */
} rush_group_def;

typedef struct rush_backend_api {
  size_t struct_bytes;
  uint32_t abi; /* RUSH_BACKEND_ABI */

  /* Add an operator to the context (NULL: the default one), where it stays.  RUSH_EARGUMENT: the
   * schema cannot be parsed (the message says where), or name and overload are taken. */
  rush_status (*op_register)(rush_context *c, const rush_op_def *def, rush_error *err);

  /* -- Inside a kernel ------------------------------------------------------------------------- */

  void *(*call_user)(const rush_call *call);
  rush_context *(*call_context)(const rush_call *call); /* borrowed */
  size_t (*call_n_args)(const rush_call *call);
  rush_value (*call_arg)(const rush_call *call, size_t i); /* borrowed; i < call_n_args */
  /* Give result i (steals), once each. */
  void (*call_return_steal)(rush_call *call, size_t i, rush_value v);
  /* Fail as a Python exception of class `type` (a static string; NULL: "RuntimeError").  The text
   * is printf's.  Returns RUSH_ERAISED. */
  rush_status (*call_fail)(rush_call *call, const char *type, const char *fmt, ...)
    RUSH_PRINTF(3, 4);
  /* RUSH_OK, or the limit or cancellation that ends the call: ask about once a millisecond. */
  rush_status (*call_poll)(rush_call *call);
  /* A new contiguous tensor, uninitialised; the failure is the call's. */
  rush_status (*call_create)(rush_call *call, rush_dtype dtype, int n_dims, const int64_t *sizes,
                             rush_value *out);
  /* t with contiguous elements: t itself, retained, or a copy.  *out is new. */
  rush_status (*call_contiguous)(rush_call *call, rush_tensor *t, rush_value *out);
  /* Another operator ("aten::softmax.int", or a name whose first fitting overload is meant), one
   * result, new. */
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

  /* For functions that are compiled from now on: register before loading.  RUSH_EARGUMENT: no name
   * or run. */
  rush_status (*pass_register)(rush_context *c, const rush_pass_def *def, rush_error *err);
  /* In a pass: group what `refuse` accepts.  Neighbours are joined, from the last node of a block
   * to its first, where no write to memory, call or random number stands between them; constants
   * are copied into the groups.  Works in nested blocks too. */
  rush_status (*pass_group)(rush_pass *pass, const rush_group_def *def);
  rush_context *(*pass_context)(const rush_pass *pass); /* borrowed */
  const rush_block *(*pass_block)(const rush_pass *pass); /* the graph's outermost block */

  /* Reading graphs. */
  const rush_node *(*block_first)(const rush_block *b);  /* NULL: it is empty */
  const rush_node *(*node_next)(const rush_node *n);     /* in its block; NULL: it was the last */
  const char *(*node_kind)(const rush_node *n);          /* "aten::mul", "prim::If" */
  const char *(*node_overload)(const rush_node *n);      /* "Tensor"; "" for none */
  size_t (*node_n_inputs)(const rush_node *n);
  const rush_graph_value *(*node_input)(const rush_node *n, size_t i);
  size_t (*node_n_outputs)(const rush_node *n);
  const rush_graph_value *(*node_output)(const rush_node *n, size_t i);
  size_t (*node_n_blocks)(const rush_node *n);           /* a group has one: its subgraph */
  const rush_block *(*node_block)(const rush_node *n, size_t i);
  size_t (*block_n_inputs)(const rush_block *b);
  const rush_graph_value *(*block_input)(const rush_block *b, size_t i);
  size_t (*block_n_outputs)(const rush_block *b);
  const rush_graph_value *(*block_output)(const rush_block *b, size_t i);
  uint32_t (*value_id)(const rush_graph_value *v);       /* unique in the graph */
  bool (*value_is_tensor)(const rush_graph_value *v);    /* its type is Tensor */
  /* *out (borrowed) is the value when it is a constant of the program. */
  bool (*value_constant)(const rush_graph_value *v, rush_value *out);

  /* In the kernel of a group. */
  void *(*call_state)(
    const rush_call *call); /* what prepare made; NULL for calls that no node stands behind */
  size_t (*call_n_results)(const rush_call *call);
  /* Interpret the node's subgraph: gives all results. */
  rush_status (*call_run_group)(rush_call *call);
  /* A key of everything about the arguments that code may be specialised for: of tensors dtype,
   * sizes, strides and requires_grad, of others their value's kind.  Two calls with the same bytes
   * have the same facts.  Writes at most `max` bytes and returns how many it needs. */
  size_t (*call_spec)(const rush_call *call, void *out, size_t max);

  /* -- Graphs as data.  Texts given by `char **out` are freed with rush_free_text. ------------- */

  /* Empty: no inputs, nodes, outputs. */
  rush_status (*graph_create)(rush_context *c, rush_graph **out, rush_error *err);
  /* From IR text, as graph_text gives it.  Named types (classes) are those of `scope`'s program
   * (NULL: there are none); tensor_constants: constants printed as <Tensor> become tensors of
   * zeros, else they are refused. */
  rush_status (*graph_parse)(rush_context *c, const char *text, bool tensor_constants,
                             const rush_graph *scope, rush_graph **out, rush_error *err);
  /* A copy of the graph of a module's method (NULL: "forward"), of a method of an object, of a
   * function. */
  rush_status (*graph_of_method)(rush_module *m, const char *method, rush_graph **out,
                                 rush_error *err);
  rush_status (*graph_of_value)(rush_context *c, rush_value v, const char *method, rush_graph **out,
                                rush_error *err);
  rush_status (*graph_of_function)(rush_function *f, rush_graph **out, rush_error *err);
  rush_status (*graph_copy)(const rush_graph *g, rush_graph **out, rush_error *err);
  void (*graph_release)(rush_graph *g); /* NULL: nothing */
  const rush_block *(*graph_block)(const rush_graph *g);
  /* As PyTorch prints it; `ranges`: with `# file:line:column`. */
  rush_status (*graph_text)(const rush_graph *g, bool ranges, char **out, rush_error *err);
  rush_status (*graph_dot)(const rush_graph *g, const char *name, char **out, rush_error *err);
  /* Every rule that a graph must keep; RUSH_EARGUMENT's message says which one is broken, and
   * where. */
  rush_status (*graph_lint)(rush_graph *g, rush_error *err);
  /* Run it (after a lint, on a copy): complete arguments.  *result, new: None, a value, or a tuple
   * of several. */
  rush_status (*graph_call)(rush_graph *g, const rush_value *args, size_t n_args,
                            rush_value *result, rush_error *err);
  /* A pass by name. */
  rush_status (*graph_run_pass)(rush_graph *g, const char *name, rush_error *err);
  /* New nodes of graph_insert* go before this node; block_return(b): at the end of b.  At first,
   * the end of the graph. */
  const rush_node *(*graph_insert_point)(const rush_graph *g);
  rush_status (*graph_set_insert_point)(rush_graph *g, const rush_node *before, rush_error *err);
  /* A call of an operator at the insert point: overload, defaults and conversions as TorchScript
   * chooses them. args[i] is values[i] where that is not NULL, else the constant constants[i].  The
   * last n_named ones have names. Several results are one tuple, none is None. */
  rush_status (*graph_insert)(rush_graph *g, const char *op, const rush_graph_value *const *values,
                              const rush_value *constants, size_t n_args, const char *const *names,
                              size_t n_named, const rush_graph_value **out, rush_error *err);
  /* type NULL: the value's own. */
  rush_status (*graph_insert_constant)(rush_graph *g, rush_value v, const rush_type *type,
                                       const rush_graph_value **out, rush_error *err);
  rush_status (*graph_insert_node)(rush_graph *g, const rush_node *n, rush_error *err);
  /* The nodes of another graph, copied to the insert point, its inputs replaced; outputs[]: what
   * its outputs became. */
  rush_status (*graph_insert_graph)(rush_graph *g, const rush_graph *from,
                                    const rush_graph_value *const *inputs, size_t n_inputs,
                                    const rush_graph_value **outputs, rush_error *err);
  rush_graph *(*pass_graph)(
    const rush_pass *pass); /* borrowed: for passes that change more than groups */

  /* -- Blocks ---------------------------------------------------------------------------------- */

  rush_graph *(*block_graph)(const rush_block *b);          /* borrowed */
  const rush_node *(*block_owner)(const rush_block *b);     /* NULL: the graph's own block */
  const rush_node *(*block_param)(const rush_block *b);     /* its outputs are the block's inputs */
  const rush_node *(*block_return)(const rush_block *b);    /* its inputs are the block's outputs */
  const rush_node *(*block_last)(const rush_block *b);      /* NULL: empty */
  /* The next node of that kind behind `after` (NULL: from the start); nested: inside of nodes too.
   * NULL: no more. */
  const rush_node *(*block_find)(const rush_block *b, const char *kind, bool nested,
                                 const rush_node *after);

  /* -- Nodes ----------------------------------------------------------------------------------- */

  /* Unlinked, of a kind ("prim::If", "aten::add"), with n_outputs outputs of type Tensor. */
  rush_status (*node_create)(rush_graph *g, const char *kind, const rush_graph_value *const *inputs,
                             size_t n_inputs, size_t n_outputs, const rush_node **out,
                             rush_error *err);
  bool (*node_is_live)(const rush_node *n);                 /* it was not destroyed */
  rush_graph *(*node_graph)(const rush_node *n);            /* borrowed */
  const rush_block *(*node_owner)(const rush_node *n);      /* NULL: it is in no block */
  const rush_node *(*node_prev)(const rush_node *n);        /* NULL: the first one */
  /* The schema that the inputs fit, or "(no schema)". */
  rush_status (*node_schema)(const rush_node *n, char **out, rush_error *err);
  rush_status (*node_text)(const rush_node *n, char **out, rush_error *err);
  /* Where it comes from: the lines around, with a mark, as in tracebacks; or "". */
  rush_status (*node_source)(const rush_node *n, char **out, rush_error *err);
  /* Link an unlinked node, or move a linked one, before (after) another.  block_return(b) is the
   * end of a block. */
  rush_status (*node_insert)(const rush_node *n, const rush_node *at, bool after, rush_error *err);
  rush_status (*node_move)(const rush_node *n, const rush_node *at, bool after, rush_error *err);
  /* Its outputs must have no uses left; nodes inside go with it. */
  rush_status (*node_destroy)(const rush_node *n, rush_error *err);
  rush_status (*node_is_before)(const rush_node *a, const rush_node *b, bool *out, rush_error *err);
  /* i at most the number of inputs. */
  rush_status (*node_insert_input)(const rush_node *n, size_t i, const rush_graph_value *v,
                                   rush_error *err);
  rush_status (*node_set_input)(const rush_node *n, size_t i, const rush_graph_value *v,
                                rush_error *err);
  rush_status (*node_remove_input)(const rush_node *n, size_t i, rush_error *err);
  rush_status (*node_replace_input)(const rush_node *n, const rush_graph_value *from,
                                    const rush_graph_value *to, rush_error *err);
  /* type NULL: Tensor; name NULL: none. */
  rush_status (*node_insert_output)(const rush_node *n, size_t i, const rush_type *type,
                                    const char *name, const rush_graph_value **out,
                                    rush_error *err);
  rush_status (*node_remove_output)(const rush_node *n, size_t i,
                                    rush_error *err); /* without uses */
  rush_status (*node_add_block)(const rush_node *n, const rush_block **out, rush_error *err);
  rush_status (*node_erase_block)(const rush_node *n, size_t i, rush_error *err);
  /* The input that the operator's schema calls so. */
  rush_status (*node_named_input)(const rush_node *n, const char *name,
                                  const rush_graph_value **out, rush_error *err);
  /* Attributes in the order of setting; of prim::Constant "value".  Kinds as PyTorch's: i f s t c
   * ty, is fs ss ts tys, g, ival. */
  const char *(*node_attr_name)(const rush_node *n, size_t i); /* NULL: no more */
  const char *(*node_attr_kind)(const rush_node *n,
                                const char *name); /* static; NULL: there is none */
  rush_status (*node_attr)(const rush_node *n, const char *name, rush_value *out,
                           rush_error *err); /* new; not of types, graphs */
  size_t (*node_attr_n_types)(const rush_node *n, const char *name);
  const rush_type *(*node_attr_type)(const rush_node *n, const char *name, size_t i); /* new */
  /* A graph attribute, or the subgraph of a fork or a group ("Subgraph"), copied. */
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
    const rush_graph_value *v); /* that gives it; a block's input: block_param */
  size_t (*value_offset)(const rush_graph_value *v);         /* among the node's outputs */
  const char *(*value_name)(
    const rush_graph_value *v); /* debug name, or NULL: it prints as its id */
  /* Made unique: an older owner of the name is renamed x.1, x.2 ... "": none. */
  rush_status (*value_set_name)(const rush_graph_value *v, const char *name, rush_error *err);
  const rush_type *(*value_type)(const rush_graph_value *v); /* new; NULL without memory */
  rush_status (*value_set_type)(const rush_graph_value *v, const rush_type *t, rush_error *err);
  size_t (*value_n_uses)(const rush_graph_value *v);
  /* Use i: its node (NULL: no more), and which of that node's inputs it is. */
  const rush_node *(*value_use)(const rush_graph_value *v, size_t i, size_t *input);
  /* after NULL: all; else only the uses by nodes behind `after`. */
  rush_status (*value_replace_uses)(const rush_graph_value *v, const rush_graph_value *by,
                                    const rush_node *after, rush_error *err);

  /* -- Types ----------------------------------------------------------------------------------- */

  /* "int[]", "Dict(str, Tensor)", "Tensor?" as graphs print them; classes are found in scope's
   * program (NULL: none). */
  rush_status (*type_parse)(rush_context *c, const char *text, const rush_graph *scope,
                            const rush_type **out, rush_error *err);
  /* By kind: "IntType", or with elements "ListType", "OptionalType", "DictType", "TupleType",
   * "UnionType", "FutureType". */
  rush_status (*type_make)(rush_context *c, const char *kind, const rush_type *const *elems,
                           size_t n_elems, const rush_type **out, rush_error *err);
  void (*type_release)(const rush_type *t);
  const char *(*type_kind)(const rush_type *t); /* "TensorType", "ListType" ... */
  /* As graphs print it, or (annotation) as Python writes it: "List[int]". */
  rush_status (*type_text)(rush_context *c, const rush_type *t, bool annotation, char **out,
                           rush_error *err);
  size_t (*type_n_elems)(const rush_type *t);
  const rush_type *(*type_elem)(const rush_type *t, size_t i); /* new */
  const char *(*type_field)(const rush_type *t,
                            size_t i);          /* name of a NamedTuple's field, or NULL */
  const char *(*type_name)(const rush_type *t); /* qualified, of classes and their like; or NULL */
  bool (*type_equal)(const rush_type *a, const rush_type *b);
  bool (*type_is_subtype)(const rush_type *a, const rush_type *b);
  /* The smallest type above both that TorchScript gives; *out NULL: there is none. */
  rush_status (*type_unify)(rush_context *c, const rush_type *a, const rush_type *b, bool to_union,
                            const rush_type **out, rush_error *err);

  /* -- Tools ----------------------------------------------------------------------------------- */

  /* What may share memory with what, as the graph is now; values made later are answered for with
   * "perhaps". */
  rush_status (*alias_analyse)(rush_graph *g, rush_aliases **out, rush_error *err);
  void (*alias_release)(rush_aliases *a);
  /* May they be one thing, or (contained) may one, or something in it, be something in the other?
   * */
  bool (*alias_may)(const rush_aliases *a, const rush_graph_value *x, const rush_graph_value *y,
                    bool contained);
  /* Does the graph write to what v may be or hold? */
  bool (*alias_has_writers)(const rush_aliases *a, const rush_graph_value *v);
  /* Move n before (after) `at`, a node of the same block, and with it what has to go along, if the
   * graph then means what it meant.  *done: it could be.  try_only: leave all where it is. */
  rush_status (*node_move_if_valid)(const rush_node *n, const rush_node *at, bool after,
                                    bool try_only, bool *done, rush_error *err);
  /* Every place where the pattern (a graph without blocks) stands, last node by last node; found:
   * called for each; false ends the search.  The match is borrowed for the call. */
  rush_status (*graph_match)(rush_graph *g, rush_graph *pattern,
                             bool (*found)(void *user, const rush_match *m), void *user,
                             rush_error *err);
  const rush_node *(*match_anchor)(
    const rush_match *m); /* what stands for the node that makes the pattern's first output */
  const rush_graph_value *(*match_value)(const rush_match *m, const rush_graph_value *of_pattern);
  /* Replace what the pattern finds, without overlaps, where accept (NULL: everywhere) says so; *n:
   * how often. */
  rush_status (*graph_rewrite)(rush_graph *g, rush_graph *pattern, const rush_graph *by,
                               bool (*accept)(void *user, const rush_match *m), void *user,
                               size_t *n, rush_error *err);

  /* -- Building: a graph call by call.  The first failure sticks: what comes after it does nothing
   * and gives NULL, and build_end says it. -- */

  rush_builder *(*build_begin)(
    rush_graph *g); /* new; adds at the graph's insert point; NULL without memory */
  const rush_graph_value *(*build_input)(rush_builder *b, const char *name, const char *type);
  const rush_graph_value *(*build_constant)(rush_builder *b, rush_value v);
  const rush_graph_value *(*build_call)(rush_builder *b, const char *op,
                                        const rush_graph_value *const *args, size_t n_args);
  void (*build_output)(rush_builder *b, const rush_graph_value *v);
  bool (*build_failed)(const rush_builder *b);
  rush_status (*build_end)(rush_builder *b, rush_error *err); /* releases b */

  /* -- In a shape function.  Arguments are the schema's, complete; of Tensor[] each item is asked
   * for by `item`, of a Tensor 0  */

  size_t (*shape_n_tensors)(rush_shape *q, size_t arg); /* 0: None, or no tensor's argument */
  int (*shape_n_dims)(rush_shape *q, size_t arg, size_t item);
  rush_dtype (*shape_dtype)(rush_shape *q, size_t arg, size_t item);
  const rush_size *(*shape_size)(rush_shape *q, size_t arg, size_t item,
                                 int dim); /* dim < 0: from the last */
  const rush_size *(*shape_int)(rush_shape *q, size_t arg,
                                size_t item); /* of int (item 0) and int[] */
  /* Any other argument, borrowed; also an int, which is then a number that all calls must have.
   * None of a tensor. */
  rush_value (*shape_arg)(rush_shape *q, size_t arg);
  const rush_size *(*size_number)(rush_shape *q, int64_t n);
  const rush_size *(*size_unknown)(rush_shape *q); /* only running the operator tells */
  const rush_size *(*size_calc)(rush_shape *q, rush_size_op op, const rush_size *a,
                                const rush_size *b);
  /* Of symbols: what holds for the example, and is a condition of the answer. */
  bool (*size_holds)(rush_shape *q, rush_size_relation rel, const rush_size *a, const rush_size *b);
  /* Result `result` of the schema is (or, of Tensor[], has as its next item) a contiguous tensor of
   * its own memory. */
  rush_status (*shape_result)(rush_shape *q, size_t result, rush_dtype dtype, int n_dims,
                              const rush_size *const *sizes);
  /* Fail as call_fail does. */
  rush_status (*shape_fail)(rush_shape *q, const char *type, const char *fmt, ...)
    RUSH_PRINTF(3, 4);

  /* -- Errors ---------------------------------------------------------------------------------- */

  rush_error *(*call_error)(
    const rush_call *call); /* borrowed, may be NULL: what functions with `err` get in a kernel */
  rush_error *(*pass_error)(const rush_pass *pass);
  /* type: a static string, NULL: that of the status.  The text is printf's.  Returns the status. */
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
  /* "cpu" is 0, "cuda" 1 ...; index -1: none.  False: v is no device. */
  bool (*value_device)(rush_value v, int *kind, int *index);
  bool (*value_generator)(rush_value v,
                          void *state); /* RUSH_GENERATOR_STATE_BYTES; false: v is none */
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
                    char *text); /* what `char **out` gave, here and in the functions above */
  /* Making: *out is new; items are retained. */
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
  const char *(*dtype_name)(rush_dtype dtype); /* static; NULL: no dtype */
  size_t (*dtype_bytes)(rush_dtype dtype);     /* of an element; 0: no dtype */
  uint32_t (*dtype_flags)(rush_dtype dtype);   /* RUSH_DTYPE_* */
  /* torch.promote_types; false: there is none. */
  bool (*dtype_promote)(rush_dtype a, rush_dtype b, rush_dtype *out);
  void (*context_facts)(rush_context *c, rush_context_facts *out);
  /* The instruction set in use, never RUSH_CPU_NATIVE.  It may change between calls. */
  rush_cpu (*context_cpu)(rush_context *c);
  void (*context_warn)(rush_context *c,
                       const char *text); /* as torch's warnings: the context's callback */

  /* -- Memory: the context's, which counts it, with its limit.  16-byte aligned; the freer says the
   * size.  */

  void *(*memory_alloc)(rush_context *c,
                        size_t n_bytes); /* zeroed; NULL: no memory, or over the limit */
  void (*memory_free)(rush_context *c, void *p, size_t n_bytes); /* p NULL: nothing */
  /* The error of a kernel whose memory_alloc returned NULL: out of memory, or which limit. */
  rush_status (*call_no_memory)(rush_call *call);

  /* -- Inside a kernel, besides ---------------------------------------------------------------- */

  const rush_value *(*call_args)(const rush_call *call, size_t *n); /* all in a row; borrowed */
  /* Make result i and give it, in one step. */
  rush_status (*call_make_result)(rush_call *call, size_t i, rush_result *r);
  /* fn(arg, begin, end) over [0, n) in pieces of at least `grain`, on the context's threads.  fn
   * may use no function of this table.  A failure: the deadline passed or the call was cancelled,
   * and pieces may be missing. */
  rush_status (*call_parallel)(rush_call *call, int64_t n, int64_t grain,
                               void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);
} rush_backend_api;

/* Does the library whose table this is have the function? */
#define RUSH_BACKEND_HAS(api, function) \
  ((api)->struct_bytes >= offsetof(rush_backend_api, function) + sizeof((api)->function))

/* Static; NULL when this library does not have that version. */
RUSH_API const rush_backend_api *rush_backend(uint32_t abi);

/* What a plug-in exports under this name. */
typedef rush_status rush_plugin_fn(const rush_backend_api *api, rush_context *c, rush_error *err);
#define RUSH_PLUGIN_SYMBOL "rush_plugin"
#define RUSH_PLUGIN_ABI_SYMBOL "rush_plugin_abi"
#define RUSH_PLUGIN_BYTES_SYMBOL "rush_plugin_table_bytes"
#if defined(__GNUC__) || defined(__clang__)
#define RUSH_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define RUSH_PLUGIN_EXPORT
#endif
/* Once in a plug-in: which version of this header it was built with, and how much of the table.  A
 * library that has less refuses it.  RUSH_PLUGIN_DECLARE_UP_TO(function): it calls nothing behind
 * that function, or looks (RUSH_BACKEND_HAS). */
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
