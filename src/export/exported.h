/* export/exported.h -- an exported program (a graph with a signature) as one of our programs.
 *
 * A torch.export archive becomes an ordinary program with one module class: parameters, buffers and
 * lifted constants are its attributes ("layer.weight" keeps its dotted name), `forward` is a
 * function whose graph takes (self, leaf inputs...) and returns one tuple: first the mutated
 * buffers and inputs, then the user's leaf outputs.  A call does the following, and only here:
 *   1. the arguments are flattened by the input spec (AssertionError-like errors name the place);
 *   2. constants in the input spec, range constraints and guards are checked: the error names the
 *      dimension or the argument;
 *   3. forward runs; mutated buffers are written to the attributes, mutated inputs into the inputs;
 *   4. the user's outputs are combined by the output spec. */
#ifndef RUSH_EXPORT_EXPORTED_H
#define RUSH_EXPORT_EXPORTED_H

#include "ir/program.h"
#include "shape/expression.h"

/* A pytree: torch.utils._pytree's TreeSpec. */
typedef enum tree_kind {
  TREE_LEAF,
  TREE_NONE,
  TREE_TUPLE,
  TREE_LIST,
  TREE_DICT, /* also a defaultdict: see its type_name */
  TREE_ORDERED_DICT,
  TREE_NAMEDTUPLE,
  TREE_DEQUE, /* accepts a list or a tuple, returns a list */
  /* a registered class: accepts and returns a dict of its fields if the keys are known, else a
   * tuple */
  TREE_OTHER
} tree_kind;
typedef struct tree_spec tree_spec;
typedef struct exported exported;
struct tree_spec {
  tree_kind kind;
  uint32_t n_children;
  tree_spec *children;
  /* n_children, all strings or all ints, distinct, owned by the program's constants; NULL: none. A
   * dict with children has them */
  rush_value *keys;
  const char *type_name; /* NamedTuple, dataclass, other */
};

/* Parse torch.utils._pytree's JSON ("[1, {type, context, children_spec}]") into `mem`. */
tree_spec *tree_parse(session *s, arena *mem, program *p, const char *place, str json_text);
/* Append borrowed leaves of `v` in the spec's order to leaves[*n]; RUSH_EARGUMENT (ValueError) if
 * the structure differs; `where` starts the place in the message. */
rush_status tree_flatten(call_ctx *cx, const tree_spec *t, rush_value v, const char *where,
                         rush_value *leaves, uint32_t max, uint32_t *n) RUSH_CHECKED;
/* Build the value that the spec describes, from leaves[*n] on (borrowed); new. */
rush_status tree_unflatten(call_ctx *cx, const tree_spec *t, const rush_value *leaves, uint32_t *n,
                           rush_value *out) RUSH_CHECKED;
uint32_t tree_n_leaves(const tree_spec *t);
/* True if there are only leaves, tuples, lists and dicts: values that need no class of the
 * host's. */
bool tree_is_plain(const tree_spec *t);

/* -- Guards ------------------------------------------------------------------------------------ */

/* Where a number of a condition comes from: a size of an input, or an input that is a number. */
typedef struct guard_source {
  str name;     /* of its symbol in the condition */
  uint32_t leaf;
  int64_t dim;  /* -1: the leaf is the number */
} guard_source;
/* A condition on the inputs, `L['x'].size()[0] == 2*L['y'].size()[1]`, as an expression of sources;
 * or that a leaf has the value that it had when the program was made. */
typedef struct guard {
  const expression *condition; /* NULL: leaf == *constant */
  const guard_source *sources; /* n_sources: the condition's symbols */
  uint32_t n_sources, leaf;
  const rush_value *constant;
  const char *text; /* as PyTorch shows it */
} guard;

/* Parse a condition; returns NULL if it is not supported: too long, other functions, no such
 * input. */
const guard *guard_parse(session *s, arena *mem, const exported *e, const char *text);
/* Make the source of size `dim` of a leaf, or with -1 of the leaf. */
guard_source guard_source_of(session *s, arena *mem, const exported *e, uint32_t leaf, int64_t dim);
/* Make a condition that compares a source with another one, or with `number` (b NULL). */
const guard *guard_compare(session *s, arena *mem, expression_kind relation, const guard_source *a,
                           const guard_source *b, int64_t number);
/* Check a condition.  RUSH_EARGUMENT: AssertionError, "Guard failed: ...", or IndexError if an
 * input lacks a dimension; RUSH_ERAISED: the condition has no value in 64 bits. */
rush_status guard_check(call_ctx *cx, const exported *e, const guard *g,
                        const rush_value *leaves) RUSH_CHECKED;
/* Return a text that conditions of the same meaning share, as far as that is easily seen; the
 * session's, or the guard's. */
const char *guard_key(session *s, const exported *e, const guard *g);

/* -- Descriptions ------------------------------------------------------------------------------ */

/* The file's description of an input or output of the graph: a tensor, or an int. */
typedef struct exported_meta {
  bool is_tensor;
  int dtype;          /* of a tensor */
  int n_dims;         /* of a tensor; 1 for an int */
  rush_signature_size *sizes;   /* n_dims; for an int its value */
  uint64_t computed;  /* bit i: sizes[i].symbol is a formula of symbols */
} exported_meta;

/* -- The program ------------------------------------------------------------------------------- */

typedef enum exported_output {
  OUTPUT_USER,
  OUTPUT_BUFFER_MUTATION,
  OUTPUT_INPUT_MUTATION,
  OUTPUT_IGNORED
} exported_output;

struct exported { /* in the program's arena */
  program *program; /* borrowed: it owns this */
  function *forward;
  tree_spec *in,
    *out; /* in: a tuple of a tuple (args) and a dict whose keys are texts (kwargs): checked */
  const char *in_text,
    /* the specs as in the file, for hosts that have the classes; NULL: all are plain */
    *out_text;
  const char **arg_names;    /* forward's parameters: n_arg_names; positional first */
  uint32_t n_arg_names;
  uint32_t n_leaves;         /* of the input */
  const char **leaf_names;   /* their names in guards and messages: x, x['key'], x[0] */
  rush_value *leaf_constants; /* UNSET: an input of the graph; else the required value */
  bool *leaf_is_input;       /* the graph has an input for it */
  const exported_meta **leaf_metas;   /* n_leaves; NULL: not described */
  /* n_output_metas, which is n_outputs unless an output is a list; NULL: not described */
  const exported_meta **output_metas;
  uint32_t n_output_metas;
  uint32_t n_outputs;
  struct exported_output_spec {
    exported_output kind;
    uint32_t target;         /* attribute slot, or leaf */
  } *outputs;
  const guard **guards;
  uint32_t n_guards;
};

/* Call the program: `self` is the module object.  *result is new. */
rush_status exported_call(call_ctx *cx, exported *e, rush_value self, const rush_value *args,
                          uint32_t n_args, const named_arg *kwargs, uint32_t n_kwargs,
                          rush_value *result) RUSH_CHECKED;

#endif
