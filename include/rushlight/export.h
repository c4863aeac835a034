/* export.h -- exported programs as data: what an archive of torch.export (.pt2) holds.
 *
 *   .pt2 --rush_exported_program_load--> program --rush_exported_program_module--> module that runs
 *                                          |   |
 *                          print, walk <---+   +---> .pt2 (rush_exported_program_save)
 *
 * A program is a graph of nodes in torch.fx's form with a signature, ranges of symbolic sizes, the
 * calls of the original modules, and state.  Reading it does not need the operators that it calls:
 * only rush_exported_program_module does.
 *
 *   rush_export_node_info node = RUSH_EXPORT_NODE_INFO_INIT;
 *   rush_exported_program_load(NULL, "model.pt2", NULL, &p, &err);
 *   const rush_export_node *n = rush_export_graph_first(rush_exported_program_graph(p));
 *   for (; n; n = rush_export_node_next(n)) {
 *     rush_export_node_get(n, &node);
 *     printf("%s = %s\n", node.name, node.target);
 *   }
 *   rush_exported_program_release(p);
 *
 * Ownership: a program is counted.  Graphs, nodes, arguments, values, expressions and texts are
 * borrowed from it and live as long as it does; texts that are `char **out` are new, free them with
 * rush_free_text.  Out-parameters are written only on success.
 *
 * Errors, contexts, options and structs with struct_bytes: as in rushlight.h.  Functions that take
 * an index and return bool return false behind the last item.
 *
 * Threads: a program does not change; any number of threads may use it.  State is read when it is
 * first asked for, under a lock. */
#ifndef RUSHLIGHT_EXPORT_H
#define RUSHLIGHT_EXPORT_H

#include <rushlight/rushlight.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rush_exported_program rush_exported_program;
typedef struct rush_export_graph rush_export_graph;
typedef struct rush_export_node rush_export_node;
typedef struct rush_export_arg rush_export_arg;
typedef struct rush_export_val rush_export_val;
typedef struct rush_export_expression rush_export_expression;

/* -- Programs ---------------------------------------------------------------------------------- */

/* Read a program from a .pt2 at a path, or from bytes; *out is new.  As rush_module_load and
 * rush_module_load_bytes; `meta` of the options is refused. */
RUSH_API rush_status rush_exported_program_load(rush_context *c, const char *path,
                                                const rush_load_options *options,
                                                rush_exported_program **out,
                                                rush_error *err) RUSH_CHECKED;
RUSH_API rush_status rush_exported_program_load_bytes(rush_context *c, const void *data,
                                                      size_t n_bytes,
                                                      void (*deleter)(void *user, void *data),
                                                      void *user,
                                                      const rush_load_options *options,
                                                      rush_exported_program **out,
                                                      rush_error *err) RUSH_CHECKED;
/* Open the program that a module is (it was loaded from a .pt2, or made by rush_module_export),
 * with the module's present state; *out is new and needs the module no longer. */
RUSH_API rush_status rush_exported_program_of_module(rush_module *m, rush_exported_program **out,
                                                     rush_error *err) RUSH_CHECKED;
RUSH_API rush_exported_program *rush_exported_program_retain(rush_exported_program *p);
RUSH_API void rush_exported_program_release(rush_exported_program *p); /* p may be NULL */

/* Write a .pt2, as rush_module_save: the program and its state, and the other records of its
 * archive. */
RUSH_API rush_status rush_exported_program_save(rush_exported_program *p, const char *path,
                                                const rush_save_options *options,
                                                rush_error *err) RUSH_CHECKED;
/* Make the module that runs the program, what module() of PyTorch's ExportedProgram is; *out is
 * new.  Its parameters and buffers are the program's state: modules of one program share them.
 * `check_guards` false: calls check sizes and their ranges, but not the program's guards. */
RUSH_API rush_status rush_exported_program_module(rush_exported_program *p, bool check_guards,
                                                  rush_module **out,
                                                  rush_error *err) RUSH_CHECKED;

/* Make the program over fewer operators, as torch.export's run_decompositions() does: those of its
 * default table are replaced by what they are made of, and in-place operators by functional ones.
 * *out is new and shares the state of `p`; its dialect is ATEN.  RUSH_EUNSUPPORTED: the message
 * names the node that cannot be decomposed. */
RUSH_API rush_status rush_exported_program_decompose(rush_exported_program *p,
                                                     rush_exported_program **out,
                                                     rush_error *err) RUSH_CHECKED;
/* Likewise with a table of one's own: of the operators in PyTorch's default table only the n_ops in
 * `ops` are replaced ("aten::add.Tensor", "aten::relu"), others stay.  With no names the program is
 * made functional, and what no table can name (views, in-place forms) is replaced. */
RUSH_API rush_status rush_exported_program_decompose_ops(rush_exported_program *p,
                                                         const char *const *ops, size_t n_ops,
                                                         rush_exported_program **out,
                                                         rush_error *err) RUSH_CHECKED;
/* Return the operators of PyTorch's default table, a line each; the text is static. */
RUSH_API const char *rush_decomposed_operators(void);
/* Check the program as rush_export_verify does: *faults is new, "" if it breaks no rule. */
RUSH_API rush_status rush_exported_program_verify(const rush_exported_program *p,
                                                  const char *dialect, char **faults,
                                                  rush_error *err) RUSH_CHECKED;

typedef enum rush_export_text {
  RUSH_EXPORT_TEXT,      /* str(program): code with shapes and places, signature, ranges */
  RUSH_EXPORT_GRAPH,     /* str(graph) */
  RUSH_EXPORT_CODE,      /* graph_module.code */
  RUSH_EXPORT_READABLE   /* graph_module.print_readable() */
} rush_export_text;
/* Print a graph of the program (NULL: the outermost) as PyTorch does.  RUSH_EXPORT_TEXT prints the
 * program, whatever the graph. */
RUSH_API rush_status rush_exported_program_print(const rush_exported_program *p,
                                                 const rush_export_graph *g, rush_export_text what,
                                                 char **out, rush_error *err) RUSH_CHECKED;

/* Facts of a program. */
typedef struct rush_export_info {
  size_t struct_bytes;
  const char *name;          /* in its archive: "model" */
  int64_t major, minor;      /* of the schema */
  const char *torch_version; /* that wrote it */
  const char *opset;         /* JSON: {"aten": 10}; "" if there is none */
  size_t n_inputs, n_outputs, n_ranges, n_calls, n_guards, n_dialects;
} rush_export_info;
#define RUSH_EXPORT_INFO_INIT {sizeof(rush_export_info), NULL, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0}
RUSH_API void rush_exported_program_get(const rush_exported_program *p, rush_export_info *out);
/* Return guard i, a condition in Python on the inputs; NULL: there is none. */
RUSH_API const char *rush_exported_program_guard(const rush_exported_program *p, size_t i);
/* Return the dialect of verifier i, "TRAINING" or "ATEN"; NULL: there is none. */
RUSH_API const char *rush_exported_program_dialect(const rush_exported_program *p, size_t i);

/* -- Graphs ------------------------------------------------------------------------------------ */

RUSH_API const rush_export_graph *rush_exported_program_graph(const rush_exported_program *p);
/* Return graph i inside g, which a higher-order operator is given; *name is its get_attr's target.
 * NULL: there is none. */
RUSH_API const rush_export_graph *rush_export_graph_subgraph(const rush_export_graph *g, size_t i,
                                                             const char **name);
/* Return the first node of a graph, and the next one; NULL: there is none. */
RUSH_API const rush_export_node *rush_export_graph_first(const rush_export_graph *g);
RUSH_API const rush_export_node *rush_export_node_next(const rush_export_node *n);

typedef enum rush_export_op {
  RUSH_EXPORT_PLACEHOLDER,
  RUSH_EXPORT_GET_ATTR,
  RUSH_EXPORT_CALL_FUNCTION,
  RUSH_EXPORT_OUTPUT
} rush_export_op;
typedef struct rush_export_node_info {
  size_t struct_bytes;
  rush_export_op op;
  const char *name;
  const char *target;        /* "torch.ops.aten.add.Tensor"; a placeholder's is its name */
  size_t n_args, n_kwargs;
  size_t n_users;            /* nodes that use it */
  const rush_export_val *val; /* what is known of its value; NULL: nothing */
  bool returns_none;         /* its value is None; without a value, as an assertion: false */
} rush_export_node_info;
#define RUSH_EXPORT_NODE_INFO_INIT \
  {sizeof(rush_export_node_info), RUSH_EXPORT_PLACEHOLDER, NULL, NULL, 0, 0, 0, NULL, false}
RUSH_API void rush_export_node_get(const rush_export_node *n, rush_export_node_info *out);
/* Return argument i by position; NULL: there is none. */
RUSH_API const rush_export_arg *rush_export_node_arg(const rush_export_node *n, size_t i);
/* Return named argument i and its name; NULL: there is none. */
RUSH_API const rush_export_arg *rush_export_node_kwarg(const rush_export_node *n, size_t i,
                                                       const char **name);
/* Copy a node's metadata: the text of one key ("stack_trace", "nn_module_stack", "torch_fn" ...),
 * "" if there is none; with key NULL all, a JSON object of texts, or "". */
RUSH_API rush_status rush_exported_program_metadata(const rush_exported_program *p,
                                                    const rush_export_node *n, const char *key,
                                                    char **out, rush_error *err) RUSH_CHECKED;

/* -- Arguments --------------------------------------------------------------------------------- */

typedef enum rush_export_kind {
  RUSH_EXPORT_NONE,
  RUSH_EXPORT_NODE,          /* node */
  RUSH_EXPORT_INT,           /* i */
  RUSH_EXPORT_FLOAT,         /* f */
  RUSH_EXPORT_BOOL,          /* i */
  RUSH_EXPORT_COMPLEX,       /* f, imaginary */
  RUSH_EXPORT_STRING,        /* text, n bytes */
  RUSH_EXPORT_DTYPE,         /* i: a rush_dtype */
  RUSH_EXPORT_LAYOUT,        /* i: PyTorch's number; 0 is strided */
  RUSH_EXPORT_MEMORY_FORMAT, /* i: PyTorch's number; 0 is contiguous */
  RUSH_EXPORT_DEVICE,        /* text: "cpu", "cuda:0" */
  RUSH_EXPORT_LIST,          /* n items */
  RUSH_EXPORT_TUPLE,
  RUSH_EXPORT_DICT,          /* n items with keys */
  RUSH_EXPORT_OPERATOR,      /* text: the name of an operator that is given as an argument */
  RUSH_EXPORT_OBJECT         /* text: the name of a custom object; class_name */
} rush_export_kind;
typedef struct rush_export_arg_info {
  size_t struct_bytes;
  rush_export_kind kind;
  size_t n; /* items, or bytes of the text */
  int64_t i;
  double f, imaginary;
  const char *text;
  const char *class_name;
  const rush_export_node *node;
} rush_export_arg_info;
#define RUSH_EXPORT_ARG_INFO_INIT \
  {sizeof(rush_export_arg_info), RUSH_EXPORT_NONE, 0, 0, 0, 0, NULL, NULL, NULL}
RUSH_API void rush_export_arg_get(const rush_export_arg *a, rush_export_arg_info *out);
/* Return item i of a list, tuple or dict; *key (may be NULL) is a dict's.  NULL: there is none. */
RUSH_API const rush_export_arg *rush_export_arg_item(const rush_export_arg *a, size_t i,
                                                     const char **key);

/* -- What is known of values ------------------------------------------------------------------- */

typedef enum rush_export_val_kind {
  RUSH_EXPORT_VAL_TENSOR,
  RUSH_EXPORT_VAL_INT, /* number; this and the next two: symbolic */
  RUSH_EXPORT_VAL_FLOAT,
  RUSH_EXPORT_VAL_BOOL,
  RUSH_EXPORT_VAL_OBJECT,  /* class_name */
  RUSH_EXPORT_VAL_LIST,    /* n items */
  RUSH_EXPORT_VAL_CONSTANT /* constant */
} rush_export_val_kind;
typedef struct rush_export_number {
  const rush_export_expression *expression; /* NULL: the number is known */
  bool has_value; /* false: an expression without a hint */
  int64_t i;      /* the number, or the hint of the expression; of a bool 0 or 1 */
  double f;       /* of a float */
} rush_export_number;
typedef struct rush_export_val_info {
  size_t struct_bytes;
  rush_export_val_kind kind;
  bool is_tuple; /* of a list: several results, rather than one that is a list */
  size_t n;      /* items */
  int dtype, layout; /* of a tensor: a rush_dtype, PyTorch's number */
  bool requires_grad;
  size_t n_sizes, n_strides;
  const char *device;
  const char *class_name;
  const rush_export_arg *constant;
  rush_export_number number; /* of a tensor: the offset in its storage */
} rush_export_val_info;
#define RUSH_EXPORT_VAL_INFO_INIT                                                               \
  {sizeof(rush_export_val_info), RUSH_EXPORT_VAL_TENSOR, false, 0, 0, 0, false, 0, 0, NULL, NULL, \
   NULL, {NULL, false, 0, 0}}
RUSH_API void rush_export_val_get(const rush_export_val *v, rush_export_val_info *out);
/* Return item i of a list; NULL: there is none, or nothing is known of it. */
RUSH_API const rush_export_val *rush_export_val_item(const rush_export_val *v, size_t i);
/* Get size i, or stride i, of a tensor. */
RUSH_API bool rush_export_val_size(const rush_export_val *v, size_t i, rush_export_number *out);
RUSH_API bool rush_export_val_stride(const rush_export_val *v, size_t i, rush_export_number *out);
/* Print an expression as PyTorch does: "2*s77 + 1". */
RUSH_API rush_status rush_exported_program_expression(const rush_exported_program *p,
                                                      const rush_export_expression *e, char **out,
                                                      rush_error *err) RUSH_CHECKED;

/* -- Signature, ranges, module calls ----------------------------------------------------------- */

typedef enum rush_export_input_kind {
  RUSH_EXPORT_USER_INPUT,
  RUSH_EXPORT_PARAMETER,
  RUSH_EXPORT_BUFFER,
  RUSH_EXPORT_CONSTANT_TENSOR,
  RUSH_EXPORT_CUSTOM_OBJECT,
  RUSH_EXPORT_TOKEN
} rush_export_input_kind;
typedef enum rush_export_output_kind {
  RUSH_EXPORT_USER_OUTPUT,
  RUSH_EXPORT_LOSS_OUTPUT,
  RUSH_EXPORT_BUFFER_MUTATION,
  RUSH_EXPORT_PARAMETER_MUTATION,
  RUSH_EXPORT_GRADIENT_TO_PARAMETER,
  RUSH_EXPORT_GRADIENT_TO_USER_INPUT,
  RUSH_EXPORT_USER_INPUT_MUTATION,
  RUSH_EXPORT_TOKEN_OUTPUT
} rush_export_output_kind;
typedef enum rush_export_spec_kind {
  RUSH_EXPORT_SPEC_TENSOR,
  RUSH_EXPORT_SPEC_SYM_INT,
  RUSH_EXPORT_SPEC_SYM_FLOAT,
  RUSH_EXPORT_SPEC_SYM_BOOL,
  RUSH_EXPORT_SPEC_CONSTANT, /* constant */
  RUSH_EXPORT_SPEC_OBJECT,   /* class_name */
  RUSH_EXPORT_SPEC_TOKEN
} rush_export_spec_kind;
/* An input or an output of a program, or of a call of one of its modules. */
typedef struct rush_export_spec {
  size_t struct_bytes;
  int kind; /* rush_export_input_kind or rush_export_output_kind; of a module call's: 0 */
  rush_export_spec_kind arg;
  const char *name;       /* of the value in the graph; "" if a constant has none */
  const char *class_name; /* of an object */
  const rush_export_arg *constant;
  const char *target;     /* the name of the state that it is, or that is written; NULL: none */
  bool is_persistent;     /* of a buffer */
} rush_export_spec;
#define RUSH_EXPORT_SPEC_INIT \
  {sizeof(rush_export_spec), 0, RUSH_EXPORT_SPEC_TENSOR, NULL, NULL, NULL, NULL, false}
RUSH_API bool rush_exported_program_input(const rush_exported_program *p, size_t i,
                                          rush_export_spec *out);
RUSH_API bool rush_exported_program_output(const rush_exported_program *p, size_t i,
                                           rush_export_spec *out);

/* The values that an expression may have. */
typedef struct rush_export_range {
  size_t struct_bytes;
  const rush_export_expression *expression;
  bool is_used; /* the expression occurs in the graph; PyTorch drops the others when it loads */
  bool has_min, has_max; /* false: no bound */
  int64_t min, max;
} rush_export_range;
#define RUSH_EXPORT_RANGE_INIT {sizeof(rush_export_range), NULL, false, false, false, 0, 0}
RUSH_API bool rush_exported_program_range(const rush_exported_program *p, size_t i,
                                          rush_export_range *out);

/* A module of the original program; the first, "", is the program itself. */
typedef struct rush_export_call {
  size_t struct_bytes;
  const char *fqn;
  bool has_signature; /* false: the fields below are not known */
  size_t n_inputs, n_outputs, n_arg_names;
  const char *in_spec, *out_spec; /* JSON of torch.utils._pytree */
} rush_export_call;
#define RUSH_EXPORT_CALL_INIT {sizeof(rush_export_call), NULL, false, 0, 0, 0, NULL, NULL}
RUSH_API bool rush_exported_program_call(const rush_exported_program *p, size_t i,
                                         rush_export_call *out);
RUSH_API bool rush_exported_program_call_input(const rush_exported_program *p, size_t call,
                                               size_t i, rush_export_spec *out);
RUSH_API bool rush_exported_program_call_output(const rush_exported_program *p, size_t call,
                                                size_t i, rush_export_spec *out);
RUSH_API const char *rush_exported_program_call_arg_name(const rush_exported_program *p,
                                                         size_t call, size_t i);

/* -- State ------------------------------------------------------------------------------------- */

/* Read the state, if it was not, and return the number of its tensors. */
RUSH_API rush_status rush_exported_program_n_state(rush_exported_program *p, size_t *out,
                                                   rush_error *err) RUSH_CHECKED;
/* Get tensor i of the state (rush_exported_program_n_state was called): its value is new.
 * *is_constant: it is one of `constants`, otherwise of `state_dict`. */
RUSH_API bool rush_exported_program_state(const rush_exported_program *p, size_t i,
                                          const char **name, bool *is_constant, rush_value *out);
/* Get the arguments that the program was made with, as rush_module_samples. */
RUSH_API rush_status rush_exported_program_samples(rush_exported_program *p, rush_value *out,
                                                   rush_error *err) RUSH_CHECKED;
/* Return the name and the bytes of file i that the author put into the archive; NULL: there is
 * none. */
RUSH_API const char *rush_exported_program_extra_file(const rush_exported_program *p, size_t i,
                                                      const void **data, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
