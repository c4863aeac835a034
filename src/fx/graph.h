/* fx/graph.h -- graphs as torch.fx has them: what torch.export writes and what a tracer records.
 *
 *     placeholder    an input; the target is its name
 *     get_attr       a graph that a higher-order operator is given
 *     call_function  an operator ("torch.ops.aten.add.Tensor"), Python's function on symbolic
 *                    numbers ("_operator.mul", "math.floor"), a higher-order operator
 *                    ("torch.ops.higher_order.cond"), or _operator.getitem
 *     output         the last node; its one argument is what the graph returns
 *
 * This is no second form of ir/graph.h, which is made to run: here arguments stand as they were
 * given (nested, by position or by name, defaults left out), every node has a name that others see,
 * and what a file says of a node stays with it, so that a program is read, shown and written
 * without a loss.  What runs is made from it once (export/lower.c).
 *
 * Ownership: nodes, arguments, names and values are in the graph's arena, which is its owner's; the
 * graph itself has tables to free (fx_graph_free, which frees the graphs inside).  Threads: a graph
 * that nobody changes may be read by any number of threads. */
#ifndef RUSH_FX_GRAPH_H
#define RUSH_FX_GRAPH_H

#include "base/session.h"
#include "base/table.h"
#include "fx/names.h"
#include "shape/expression.h"

typedef struct fx_graph fx_graph;
typedef struct fx_node fx_node;
typedef struct fx_arg fx_arg;

/* -- Arguments --------------------------------------------------------------------------------- */

typedef enum fx_kind {
  FX_NONE,
  FX_NODE,
  FX_INT,
  FX_FLOAT,
  FX_BOOL,
  FX_COMPLEX,
  FX_STRING,
  FX_DTYPE,         /* i: PyTorch's number, as RUSH_FLOAT32 */
  FX_LAYOUT,        /* i: operators' number, 0 is strided */
  FX_MEMORY_FORMAT, /* i: operators' number, 0 is contiguous */
  FX_DEVICE,        /* text: "cpu", "cuda:0" */
  FX_LIST,
  FX_TUPLE,
  FX_DICT,          /* items with keys */
  FX_OPERATOR,      /* text: an operator given as an argument */
  FX_OBJECT         /* a custom object among the program's constants */
} fx_kind;
typedef struct fx_object {
  const char *name, *class_name;
} fx_object;
struct fx_arg {
  fx_kind kind;
  uint32_t n; /* items; bytes of a text */
  union {
    fx_node *node;
    int64_t i;
    double f;
    bool b;
    const double *complex; /* real, imaginary */
    const char *text;      /* ends with NUL; may have others inside */
    const fx_object *object;
    const fx_arg *items;
    const struct fx_named *named;
  } as;
};
typedef struct fx_named {
  str name;
  fx_arg arg;
} fx_named;

static inline fx_arg fx_arg_node(fx_node *n) { return (fx_arg){.kind = FX_NODE, .as.node = n}; }
static inline fx_arg fx_arg_int(int64_t i) { return (fx_arg){.kind = FX_INT, .as.i = i}; }

/* -- What is known of a value ------------------------------------------------------------------ */

typedef enum fx_val_kind {
  FX_VAL_TENSOR,
  FX_VAL_INT, /* this and the next two: a symbolic number */
  FX_VAL_FLOAT,
  FX_VAL_BOOL,
  FX_VAL_OBJECT,  /* class_name */
  FX_VAL_LIST,    /* n items */
  FX_VAL_CONSTANT /* constant */
} fx_val_kind;
typedef struct fx_number {
  const expression *expr; /* NULL: the number is known */
  bool has_value;         /* false: an expression without a hint */
  union {
    int64_t i;
    double f;
    bool b;
  } value; /* the number, or the hint */
} fx_number;
/* What PyTorch calls a fake tensor: never data. */
typedef struct fx_tensor {
  int dtype, layout; /* layout: operators' number */
  bool requires_grad;
  uint32_t n_dims, n_strides;
  const fx_number *sizes, *strides;
  fx_number offset;
  const char *device;
} fx_tensor;
typedef struct fx_val {
  fx_val_kind kind;
  bool is_tuple; /* FX_VAL_LIST: several results, rather than one that is a list */
  uint32_t n;
  union {
    const fx_tensor *tensor;
    const fx_number *number;
    const char *class_name;
    const struct fx_val *const *items;
    fx_arg constant;
  } as;
} fx_val;

/* -- Nodes ------------------------------------------------------------------------------------- */

typedef enum fx_op { FX_PLACEHOLDER, FX_GET_ATTR, FX_CALL_FUNCTION, FX_OUTPUT } fx_op;
/* A member of an object in a file that nothing here interprets: it is written as it was. */
typedef struct fx_unknown {
  str name, json;
  struct fx_unknown *next;
} fx_unknown;
struct fx_node {
  fx_graph *graph;
  fx_node *prev, *next;
  fx_op op;
  uint32_t n_args, n_kwargs;
  uint32_t n_users;      /* nodes that use it: see fx_graph_count_users */
  uint32_t index;        /* of the node in its graph: see fx_graph_count_users */
  const char *name, *target;
  const fx_arg *args;
  const fx_named *kwargs;
  const fx_val *val;     /* NULL: nothing is known */
  str metadata;          /* JSON of an object of strings, as in a file; empty: none */
  const str *arg_names;  /* n_args; NULL: those of the operator's schema */
  fx_unknown *unknown;
  const char *file_name; /* its name in the file, which readers replace; NULL: `name` */
  bool returns_none;     /* it has one result, which is None */
  size_t at;             /* place in the file, for errors */
};

typedef struct fx_subgraph {
  const char *name;
  fx_graph *graph;
} fx_subgraph;
struct fx_graph {
  context *ctx; /* borrowed */
  arena *mem;   /* borrowed: of the owner */
  fx_node *first, *last;
  uint32_t n_nodes;
  uint32_t n_subgraphs, cap_subgraphs;
  fx_subgraph *subgraphs; /* owned; each name once, in the order of their first use */
  table inner;            /* name -> the place of that subgraph, and 1 */
  fx_names names;         /* of the nodes */
  fx_unknown *unknown;
};

/* Make an empty graph in `mem`; released when the session ends unless session_keep is called. */
fx_graph *fx_graph_new(session *s, arena *mem);
void fx_graph_free(fx_graph *g); /* g may be NULL */
void fx_graph_free_deferred(void *g); /* for session_defer */

/* Return what a target is called in names: "add.tensor" of "torch.ops.aten.add.Tensor", in small
 * letters with "_" where words meet; the session's. */
const char *fx_target_name(session *s, const char *target);
/* Append a node.  Its name is made from `name`, or with NULL from the target: fx_names_make.  The
 * target and arguments are in g's arena. */
fx_node *fx_node_new(session *s, fx_graph *g, fx_op op, const char *target, const char *name);
/* Move a node before another of its graph (NULL: to the end). */
void fx_node_move_before(fx_node *n, fx_node *at);
/* Take a node out of its graph. */
void fx_node_unlink(fx_node *n);
/* Add a graph under a name; one of that name is replaced, as PyTorch's register_module does. */
void fx_graph_add_subgraph(session *s, fx_graph *g, const char *name, fx_graph *inner_steal);
fx_graph *fx_graph_subgraph(const fx_graph *g, const char *name); /* borrowed, or NULL */
/* Move the graph of that name, if there is one, to another graph.  It leaves a gap, a subgraph
 * whose graph is NULL: call fx_graph_close_gaps when all are moved.  O(1). */
void fx_graph_move_subgraph(session *s, fx_graph *from, fx_graph *to, const char *name);
void fx_graph_close_gaps(session *s, fx_graph *g);
/* Number the nodes and count the distinct users of each. */
void fx_graph_count_users(session *s, fx_graph *g);
/* Call visit(arg, node) for each node among the arguments, in order; a node may come again. */
typedef void fx_visit(void *arg, fx_node *used);
void fx_node_inputs(session *s, const fx_node *n, fx_visit *visit, void *arg);

/* -- Text (print.c, parse.c, code.c) ----------------------------------------------------------- */

/* Print as str(graph) does: one node a line. */
void fx_print_graph(session *s, text_buf *out, const fx_graph *g);
/* Parse such a text into a graph in `mem`, released as by fx_graph_new; `place` names the text in
 * errors.  Graphs inside and what is known of values are not in it (parse.c). */
fx_graph *fx_parse_graph(session *s, arena *mem, const char *place, str text);
typedef struct fx_code_options {
  bool verbose; /* places and what is known of values */
  bool strides, devices;
} fx_code_options;
/* Print as GraphModule.code does, or with `verbose` as print_readable prints the function. */
void fx_print_code(session *s, text_buf *out, const fx_graph *g, const fx_code_options *o);
/* Print as print_readable does: the class, its function, and the classes of graphs inside. */
void fx_print_readable(session *s, text_buf *out, const fx_graph *g, const char *name,
                       const fx_code_options *o);
/* Print an argument as Python's repr (`code`), or as str(graph) has it. */
void fx_print_arg(session *s, text_buf *out, const fx_arg *a, bool code);

/* -- Metadata (metadata.c) --------------------------------------------------------------------- */

/* Return a member of the node's metadata, decoded; the session's; empty: there is none. */
str fx_node_metadata(session *s, const fx_node *n, const char *key);
/* The innermost place of a stack trace: file, line, function, and the line's text. */
typedef struct fx_place {
  str file, line, function, code;
} fx_place;
/* Find it in the text of a traceback; returns false if there is none. */
bool fx_place_of(str stack_trace, fx_place *out);
/* Find the innermost place outside of PyTorch's own files, or else the innermost. */
bool fx_author_of(str stack_trace, fx_place *out);

#endif
