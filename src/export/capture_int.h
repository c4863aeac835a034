/* export/capture_int.h -- shared by the parts that capture programs (export/capture.h).
 *
 *   capture.c         inputs, state, outputs, signature: the program around the graph
 *   capture_script.c  the evaluator: nodes of functions, branches, loops, calls, objects
 *   capture_known.c   operators that are computed: on numbers, lists, what is known of tensors
 *   capture_constraint.c  guards, and dimensions that do not meet them
 *   capture_higher.c  torch.cond, while_loop, map, scan of live torch code
 *   capture_region.c  regions of gradient modes and autocast
 *   capture_branch.c  branches on data: torch.cond
 *   capture_loop.c    loops on data: torch.while_loop
 *   capture_node.c    nodes and their names
 *   capture_place.c   the lines and modules that nodes come from
 *   capture_record.c  operators that become nodes
 *   capture_value.c   lists, tuples, dicts and texts as a whole
 *   capture_number.c  symbolic ints: arithmetic, nodes, what the program says of them
 *   capture_range.c   ranges of symbols and sizes
 *   capture_scalar.c  symbolic floats and bools, and assertions
 *   capture_assert.c  where the nodes of sizes and assertions of live torch code come
 *
 * Values of the captured function are rush_values.  A tensor is represented by its *identity*: a
 * parameter by itself, anything else by a tensor of no size, which nothing reads; what it stands
 * for is in `tensors`, by address.  A symbolic number is a value of the custom class of
 * capture_number.c, in a list of numbers too: no kernel may see it there (capture_known.c). */
#ifndef RUSH_EXPORT_CAPTURE_INT_H
#define RUSH_EXPORT_CAPTURE_INT_H

#include "export/capture.h"
#include "export/exported.h"
#include "shape/shape.h"

#define CAPTURE_MOST_STEPS (1u << 22) /* nodes and trips, each as often as it runs */

typedef struct capture_tensor capture_tensor;
struct capture_tensor {
  fx_node *node;        /* that has it now; NULL: a number that no node needed as a tensor yet */
  fx_graph *home;       /* in which its memory was made, if it is no view */
  rush_value number;    /* a symbolic number that it is made of, or None */
  symshape_facts facts;
  bool requires_grad;
  bool is_wrapped;      /* it is `number` where a tensor is expected, and stays one in nodes */
  bool is_known;        /* a constant of the code: its data may be read */
  rush_tensor *constant; /* whose data these are, while no node has needed it; or NULL */
  bool is_fresh;        /* the code makes it anew with each call: a copy of the constant */
  rush_value read;       /* the number that it was read as, while its node was read_at */
  const fx_node *read_at; /* or NULL */
  bool was_read, was_written; /* its data decided something; a node wrote to it */
  bool shares_memory;   /* with a constant that would not see what nodes write to this one */
  bool shares_node;     /* another tensor has the same node */
  capture_tensor *root; /* that had the memory first; NULL: this one */
  /* Decomposing: a view, which view(view_args) made of the tensor `viewed`; of a list, its item. */
  const op *view;
  const rush_value *view_args;
  uint32_t view_item;
  uint32_t n_writes;         /* of a root: to its memory; of a view: those that its node has */
  rush_value viewed;
};

static inline capture_tensor *capture_root(capture_tensor *t) { return t->root ? t->root : t; }
/* True if t is a view of what was written to since its node was made. */
static inline bool capture_is_stale(const capture_tensor *t)
{
  return t->view && t->n_writes != t->root->n_writes;
}
/* True if the tensor's data may be read. */
static inline bool capture_is_known(capture_tensor *t)
{
  return t->is_known && capture_root(t)->is_known;
}

typedef struct capture_number {
  fx_val_kind kind;       /* FX_VAL_INT, FX_VAL_FLOAT, FX_VAL_BOOL */
  symint i;               /* FX_VAL_INT */
  const expression *expr; /* the others */
  fx_node *node;          /* that has it; NULL: an int or a relation that no node needed yet */
  uint32_t relation;      /* of two ints: OPN_LT; 0: it is none */
  symint a, b;            /* its sides */
  const rush_value *parts; /* of a bool that `joins` others: two, of "not" one; or NULL */
  char joins;             /* '&', '|', '!' */
  bool has_hint;          /* of a float, and of a bool that is no relation: */
  double hint, lo, hi;    /* what it is now, and bounds */
} capture_number;

/* A number of the program that is to be written when all guards are known. */
typedef struct capture_pending {
  fx_number *to;
  symint value;
  bool is_shown;               /* a number of a node: it is an expression, also if it is known */
  const capture_number *state; /* a bool, whose parts may be known then; NULL: it is `value` */
} capture_pending;

/* A condition that the program is to check where all its symbols are known (capture_assert.c). */
typedef struct capture_deferred {
  const expression *condition;
  const char *symbol; /* behind which it is checked; NULL: behind the inputs */
  bool is_placed;
  uint32_t guard; /* the guard of env and 1 that it is instead of; or 0 */
} capture_deferred;

/* The first tensor of a live capture that has a size. */
typedef struct capture_size {
  fx_node *tensor;
  int dim;
} capture_size;

/* A symbol: the size of an input, or a number that depends on data. */
typedef struct capture_symbol {
  const sym_atom *atom;
  const capture_dim *dim; /* NULL: depends on data */
  fx_node *source;        /* the tensor that has the size, or the number itself */
  const char *text;       /* in guards: "L['x'].size()[0]"; NULL: none */
  int at;                 /* the dimension; -1: the number itself */
  const expression *expr;
} capture_symbol;

typedef struct capture_module { /* a module of the program whose calls are being captured */
  const struct capture_module *outer;
  const char *path;         /* "layer.0"; "" for the outermost */
  const char *class_name;
  uint32_t call;            /* calls of it before this one */
} capture_module;

typedef struct capture_branch { /* a graph that is being captured inside of another */
  struct capture_branch *outer;
  fx_graph *g;
  table operands; /* node outside -> its placeholder */
  table *numbers; /* as number_nodes below */
  table *outer_numbers;
  const fx_node **used; /* the nodes outside, in the order of their first use */
  uint32_t n_used, cap_used;
} capture_branch;

typedef struct capture_written { /* an attribute that the code has set */
  const rush_object *object;
  uint32_t slot;
} capture_written;

typedef struct capture_frame { /* a call that is being evaluated */
  const struct capture_frame *outer;
  function *function;
  const ir_node *at; /* the node being evaluated; NULL: none yet */
} capture_frame;

typedef struct capture {
  session *s;
  exported_program *p;
  arena *mem;           /* p's */
  fx_graph *g;          /* that receives nodes */
  fx_node *first_input; /* of the user; state comes before it; NULL: none yet */
  sym_env *env;
  const capture_options *options;
  int64_t *found;       /* of each of the options' dimensions: 0: no input has it yet */
  table tensors;        /* identity -> capture_tensor */
  table paths;          /* object of a module -> its path, "layer.0" */
  table classes;        /* path -> name of the class, where the caller tells it */
  table kept;           /* path -> exported_call_entry: calls whose structure is kept */
  table calls;          /* path -> how often that module was called */
  table attributes;     /* tensor of a module that is no parameter and no buffer -> its name */
  table fields;         /* slot of an object -> rush_value: attributes that were set */
  table copies;         /* list, tuple or dict of the module or the code -> rush_value: its copy */
  table homes;          /* list or dict -> the graph in which the code made it */
  table texts;          /* text -> what it was made of, if that is not known */
  table places;         /* source -> what capture_place.c knows of it */
  table storages;       /* memory of a tensor of the module -> capture_tensor: the first with it */
  table *number_nodes;  /* of g: normal form -> the node that computes it */
  table *state;         /* name -> rush_tensor */
  table *first_sizes;   /* of g: normal form that is no symbol -> capture_size */
  capture_pending *pending;
  capture_deferred *deferred;
  capture_symbol *symbols;
  table by_atom, by_name, by_dim; /* index + 1 of the first symbol with each */
  table hinted;         /* sizes that are equal to one that a hint describes */
  table ranged;         /* texts of the first n_ranged ranges of p */
  uint32_t n_ranged;
  const expression **conditions; /* guards that are no conditions on ints: n_conditions */
  program_input *inputs;
  capture_written *written;
  uint32_t n_floats;        /* that depend on data */
  uint32_t n_steps;
  rush_value *leaves;       /* of the arguments, as the captured code sees them */
  program_output *outputs;
  fx_arg *returned;         /* of the outputs */
  uint32_t n_conditions, cap_conditions, n_pending, cap_pending, n_deferred,
    cap_deferred, n_symbols, cap_symbols, n_inputs,
    cap_inputs, n_written, cap_written, n_constants, n_leaves, cap_leaves, n_outputs, cap_outputs;
  const fx_node *origin;  /* decomposing: the node that new ones come from */
  bool decomposes;        /* operators of decomposed.def are evaluated */
  table *decomposed;      /* of these those with these names; NULL: all */
  bool has_regions;       /* there are markers of gradient modes or of autocast */
  uint32_t n_autocast;    /* regions of autocast that are open */
  const ir_node *declared; /* the node being evaluated: a trace has what its results look like */
  const rush_value *expected; /* what the next operator without a shape rule returns: tensors */
  uint32_t n_expected;
  bool defers_guards;      /* guards of live code are checked by the program, where it can */
  bool *is_checked;        /* of each guard of env: the program checks it; or NULL */
  bool is_scratch;         /* the graph being captured is thrown away */
  bool guesses;            /* sizes of the results of such an operator depend on data */
  capture_branch *branch; /* NULL: g is the program's graph */
  const capture_module *module;
  const capture_frame *frame;
  capture_place here;       /* in the user's code */
  capture_place *decided;   /* where each guard of env was decided: n_decided */
  const expression **decided_by; /* and what the code has there; NULL: the guard itself */
  uint32_t n_decided, cap_decided;
} capture;

/* Begin a capture into an empty program.  `state`: see capture_function; NULL: there is none. */
capture *capture_new(session *s, const capture_options *options, table *state);
/* Keep the structure of a call of a module: (path, tree of the arguments; the leaves), or (path,
 * tree of the result; its leaves). */
void capture_keep_call(capture *c, const rush_value *in, uint32_t n, bool is_inputs);
/* Leave the session with RUSH_EUNSUPPORTED. */
_Noreturn void capture_fail(capture *c, const char *fmt, ...) RUSH_PRINTF(2, 3);
/* Copy arguments, or a text, into the program. */
const fx_arg *capture_args(capture *c, const fx_arg *args, uint32_t n);
const char *capture_text(capture *c, const char *text);
const char *capture_str(capture *c, str text);

/* -- capture_value.c --------------------------------------------------------------------------- */

/* Release the value when the session ends; returns it. */
rush_value capture_hold(capture *c, rush_value v_steal);
/* Refuse a change of a list or dict that was made outside of the branch being captured. */
void capture_check_container(capture *c, rush_value v);
/* Rebuild lists, tuples and dicts, depth first, with what `leaf` returns for everything else. */
typedef rush_value capture_leaf(capture *c, rush_value leaf, void *arg);
rush_value capture_rebuild(capture *c, rush_value v, capture_leaf *leaf, void *arg);
/* True if v is, or has inside: a symbolic number or a text made of what is not known; a tensor
 * whose data are not known; any of them. */
bool capture_has_number(capture *c, rush_value v);
bool capture_has_data(capture *c, rush_value v);
bool capture_has_unknown(capture *c, rush_value v);
/* Return the value without symbolic numbers: each is fixed to what it is now, with a guard. */
rush_value capture_fix(capture *c, rush_value v);
/* Fix the items of a list in place. */
void capture_fix_items(capture *c, rush_list *l);
/* Call an operator that makes a text of arguments of which some are not known. */
rush_value capture_text_of(capture *c, const op *o, const rush_value *args, uint32_t n);
/* True if a value is of a parameter's type: kernels and bodies rely on it, and archives lie. */
bool capture_is_of_type(const type *t, rush_value v);
/* Copy lists, tuples and dicts, so that the capture can change them. */
rush_value capture_copy(capture *c, rush_value v);
/* Return the capture's copy of a container that is not the capture's: one for each. */
rush_value capture_own_copy(capture *c, rush_value v);

/* -- capture_node.c ---------------------------------------------------------------------------- */

/* Add a node of g that calls `target` with arguments that are copied; its metadata are those of the
 * node being evaluated. */
fx_node *capture_node(capture *c, const char *target, const fx_arg *args, uint32_t n_args);
/* Likewise, under a name. */
fx_node *capture_named_node(capture *c, const char *target, const char *name, const fx_arg *args,
                            uint32_t n_args);

/* -- capture_place.c --------------------------------------------------------------------------- */

/* Return the metadata of the node being evaluated. */
str capture_metadata(capture *c);

/* -- capture_record.c -------------------------------------------------------------------------- */

/* Make a tensor that a node has; returns its identity. */
rush_value capture_tensor_new(capture *c, fx_node *n, const symshape_facts *facts,
                              bool requires_grad);
/* Return what a tensor stands for; a tensor that is new here becomes a constant of the program. */
capture_tensor *capture_tensor_of(capture *c, const rush_tensor *t);
/* Refuse a write by `o` that the program could not have, and note it. */
void capture_check_write(capture *c, const op *o, capture_tensor *t);
/* Describe a tensor for its node. */
const fx_val *capture_val(capture *c, const symshape_facts *facts, bool requires_grad);
/* The same of an input, which is t in the example: it may be sparse. */
const fx_val *capture_val_of_input(capture *c, const symshape_facts *facts, const rush_tensor *t);
/* Facts of a tensor whose sizes are numbers. */
symshape_facts capture_facts_of(capture *c, const rush_tensor *t);
/* Make a tensor of known data, as a result of the code: a copy of a constant, if a node needs
 * it. */
void capture_constant(capture *c, rush_value tensor);
/* Return a number as a tensor that is written as the number in nodes. */
rush_value capture_wrapped_number(capture *c, rush_value number);
/* Make a tensor of a symbolic number: a node is added only if one needs it. */
rush_value capture_number_tensor(capture *c, rush_value number);
/* Return the operator whose shape rule says what results of o look like: o, or, unless o is to be
 * decomposed, the one that it is a synonym of ("aten::mul" for aten::multiply); NULL: none. */
const op *capture_rule_of(capture *c, const op *o);
/* Call an operator on tensors: adds its node.  results[n_returns] are borrowed from the capture. */
void capture_record(capture *c, const op *o, const rush_value *args, rush_value *results);
/* Convert a value to an argument; `t`: the type of the parameter, or NULL. */
fx_arg capture_arg(capture *c, rush_value v, const type *t);
/* Add a tensor to the inputs: a parameter, buffer or constant of that name. */
void capture_add_state(capture *c, exported_input_kind kind, const char *name, rush_tensor *t,
                       bool is_known);

/* -- capture_branch.c -------------------------------------------------------------------------- */

/* Return the node as the graph being captured has it: inside of a branch, one of outside is an
 * operand. */
fx_node *capture_use(capture *c, fx_node *n);
/* Go on in a graph that the one being captured is inside of (or is), and back. */
typedef struct capture_graph {
  fx_graph *g;
  capture_branch *branch;
  table *numbers;
} capture_graph;
capture_graph capture_enter(capture *c, const fx_graph *g);
void capture_leave(capture *c, capture_graph before);
/* Begin a graph inside of the present one, and make nodes in it until capture_leave. */
capture_branch *capture_branch_open(capture *c);
capture_graph capture_branch_enter(capture *c, capture_branch *b);
/* Add the output node of a branch, which returns the tensors (is_one: the first alone). */
void capture_branch_close(capture *c, capture_branch *b, const rush_value *tensors, uint32_t n,
                          bool is_one);
/* Add the branch to the present graph as `prefix`_number; returns its node. */
fx_arg capture_branch_graph(capture *c, const char *prefix, uint32_t number, capture_branch *b);
/* Return a placeholder of the branch for a node of the graph around it. */
fx_node *capture_operand(capture *c, capture_branch *b, const fx_node *outside);
/* Give both branches placeholders for all operands, in PyTorch's order, behind the n_own that each
 * has of its own; the first n_given of a are those that the code names.  Returns the number. */
uint32_t capture_share_operands(capture *c, capture_branch *a, capture_branch *b, uint32_t n_own,
                                uint32_t n_given);
/* Take back those of the first n_given operands of both graphs that neither uses, as PyTorch does;
 * returns how many are left. */
uint32_t capture_drop_unused(capture *c, capture_branch *a, capture_branch *b, uint32_t n_given);
/* Add torch.cond of two branches. */
fx_node *capture_add_cond(capture *c, fx_node *predicate, capture_branch *a, capture_branch *b,
                          uint32_t n_given);
/* Return the node of a condition: of a tensor, if it was read from one. */
fx_node *capture_predicate(capture *c, rush_value condition);
/* Require that two results of branches look the same. */
void capture_check_same(capture *c, const symshape_facts *a, const symshape_facts *b);
/* Capture a prim::If whose condition depends on data.  run(arg, block, outputs) evaluates a
 * block. */
typedef void capture_run(void *arg, const ir_block *b, rush_value *outputs);
void capture_cond(capture *c, const ir_node *n, rush_value condition, capture_run *run, void *arg,
                  rush_value *out);

/* -- capture_loop.c ---------------------------------------------------------------------------- */

typedef enum number_form { FORM_TENSOR, FORM_INT, FORM_BOOL, FORM_FLOAT, FORM_OTHER } number_form;
/* Return what a value is to an operator with graphs. */
number_form capture_form(rush_value v);
/* Return a value as a tensor, which a number becomes in the present graph (0-d); everything else is
 * as it is. */
rush_value capture_passed(capture *c, rush_value v);
/* Return what a variable is that the code has not set yet, and never uses before it does; a value
 * like `like` for it, made in the present graph. */
rush_value capture_unset(capture *c);
bool capture_is_unset(rush_value v);
rush_value capture_some_value(capture *c, rush_value like);
/* Return the number that such a tensor has. */
rush_value capture_read_number(capture *c, rush_value tensor);
/* Capture a prim::Loop that ends when data say so, from the trip number `from` on.  values[]: what
 * it carries, and receives what it ends with.  run(arg, loop, count, in, out) evaluates a trip: out
 * is whether to go on, then the next values. */
typedef void capture_trip(void *arg, const ir_node *n, rush_value count, const rush_value *in,
                          rush_value *out);
typedef struct capture_loop_start {
  rush_value trips, go;
  int64_t from;
} capture_loop_start;
void capture_loop(capture *c, const ir_node *n, const capture_loop_start *start, capture_trip *run,
                  void *arg, rush_value *values);

/* -- capture_number.c -------------------------------------------------------------------------- */

/* Return the symbolic number that v is, or NULL. */
const capture_number *capture_number_of(rush_value v);
/* Return the normal form of an int, known or symbolic. */
symint capture_symint(rush_value v, sym_env *env);
static inline bool capture_is_int(rush_value v)
{
  const capture_number *n = capture_number_of(v);
  return v.tag == RUSH_TAG_INT || (n && n->kind == FX_VAL_INT);
}
/* Return a number: known, if it is. */
rush_value capture_int(capture *c, symint e);
/* Return a number in the memory of the capture. */
rush_value capture_number_new(capture *c, const capture_number *n);
/* Return a condition that a number is, of two ints. */
sym_cond capture_condition(capture *c, const capture_number *n);
/* True if a bool can be decided: it does not depend on data, or the ranges decide it. */
bool capture_can_decide(capture *c, const capture_number *n);
/* Return the tree of a symbol (expression_symbol_of of a capture), or of a relation. */
const expression *capture_symbol_tree(void *arg, const sym_atom *a);
const expression *capture_relation_tree(capture *c, const capture_number *n);
/* Return the tree of an int, with what is known of it now. */
const expression *capture_expression(capture *c, symint e);
/* Return a number that a node has and that depends on data. */
rush_value capture_fresh(capture *c, fx_val_kind kind, fx_node *n);
/* Return an int that another node has, too. */
rush_value capture_number_again(capture *c, const capture_number *like, fx_node *n);
/* Return a float or bool that a node has and that depends on data. */
rush_value capture_number_by_node(capture *c, fx_val_kind kind, const expression *e, fx_node *n);
/* Return an int that a node computes by what the algebra of ints does not have: `like` has its
 * tree, hint and bounds. */
rush_value capture_opaque_int(capture *c, const capture_number *like, fx_node *n);
/* Return a symbolic number as what it is now, with a guard. */
rush_value capture_fix_number(capture *c, rush_value v);
/* Return a number as some number of its kind that it may be (what it is now, if that is known),
 * without a guard; other values as they are. */
rush_value capture_plain_number(rush_value v);
/* Note that a node has a tensor of these sizes. */
void capture_note_sizes(capture *c, fx_node *n, const symshape_facts *f);
/* Describe the node of a relation. */
void capture_describe_relation(capture *c, fx_node *node, const capture_number *n);
/* Describe a bool of a node of live code when all that it is made of is known. */
void capture_describe_bool(capture *c, fx_number *to, const capture_number *n);
/* Make the node of a tensor's number of elements, e, if no node has that number. */
void capture_count(capture *c, rush_value tensor, symint e);
/* Return the node that computes a number, or the number, as an argument. */
fx_arg capture_number_arg(capture *c, rush_value v);
/* Return n, where a float is float(n) or n / 1; NULL: it is something else. */
symint capture_int_of(capture *c, const expression *e);
/* Let the program check the equalities of numbers that depend on data among the guards from `first`
 * on: what follows from them is simplified, so no operator would notice. */
void capture_check_equalities(capture *c, uint32_t first);
/* Compute an operator on integers of which some are symbolic; returns false if it is none that is
 * known here. */
bool capture_arithmetic(capture *c, const op *o, const rush_value *args, rush_value *result);
/* Likewise for the integers a and b and the operator of that name, OPN_ADD. */
bool capture_on_ints(capture *c, uint32_t name, rush_value a, rush_value b, rush_value *result);
/* Describe a symbolic size or number when all guards are known. */
void capture_describe(capture *c, fx_number *to, symint value);
capture_symbol *capture_symbol_add(capture *c, symint e, const capture_dim *dim, fx_node *source,
                                   int at, const char *text);
capture_symbol *capture_symbol_of(const capture *c, const sym_atom *a); /* or NULL */
/* Return the first symbol with a key of a table `by_...`; or NULL. */
capture_symbol *capture_symbol_by(const capture *c, const table *by, str key);
/* Add a symbol that prints as `expr`; let one print in another way. */
void capture_symbol_as(capture *c, symint e, const expression *expr);
void capture_symbol_rename(capture *c, capture_symbol *y, const expression *e);
/* Fill in all numbers of nodes. */
void capture_finish_values(capture *c);
/* Fill in all numbers, the ranges and the guards of the program. */
void capture_finish_numbers(capture *c);

/* -- capture_range.c --------------------------------------------------------------------------- */

/* Add the symbol's range to the program, which has room for it. */
void capture_add_range(capture *c, const capture_symbol *y);
/* Return the range that all conditions leave of a symbol. */
void capture_range_of(capture *c, const capture_symbol *y, int64_t *lo, int64_t *hi);
/* Write the ranges of symbols and of the sizes that are made of them. */
void capture_finish_ranges(capture *c);

/* -- capture_scalar.c -------------------------------------------------------------------------- */

/* Compute an operator on numbers of which some are symbolic, and some or the result no ints;
 * returns false if it is none that is known here. */
bool capture_scalar(capture *c, const op *o, const rush_value *args, rush_value *result);
/* Return the relation that holds where this one does not: OPN_GE for OPN_LT. */
uint32_t capture_opposite(uint32_t relation);
/* Return the opposite of a symbolic bool, of a relation as one. */
rush_value capture_not(capture *c, rush_value v);
/* Return the tree of a bool. */
const expression *capture_bool_tree(capture *c, const capture_number *n);
/* Let a number be between two others: checked with its range, if it depends on data. */
void capture_constrain(capture *c, rush_value v, rush_value least, rush_value most);
/* Assert that a number that the code took as it is, in live code, is `number`. */
void capture_decided(capture *c, rush_value v, rush_value number);
/* Let the program check a symbolic condition when it runs; from here on it holds. */
void capture_check(capture *c, rush_value condition);
/* Let the program check the bounds of an int that depends on data. */
void capture_check_range(capture *c, symint e);
/* Assert a condition.  Without a text it is what the code decided by, and must be known or have a
 * hint; with one, the program checks it when it runs. */
void capture_assert(capture *c, rush_value condition, rush_value text);

/* -- capture_assert.c -------------------------------------------------------------------------- */

/* True for a capture of live torch code: its nodes have the names and the order of torch.export. */
static inline bool capture_is_live(const capture *c)
{
  return c->options->structure && !c->decomposes;
}
/* Let the program check a condition behind the node of the last of its symbols that depend on
 * data. */
void capture_defer(capture *c, const expression *condition);
/* Return the tree of what a condition is after all that was decided: true and false are known. */
const expression *capture_present(capture *c, const expression *e);
/* Return a bool as torch keeps a condition: a <= b or a < b without common terms. */
const expression *capture_canonical(capture *c, const capture_number *n);
/* Put the sizes of inputs and the checks where torch.export has them, and make equal numbers one
 * node. */
void capture_place_checks(capture *c);

/* -- decompose.c ------------------------------------------------------------------------------- */

/* True if PyTorch's default table decomposes the operator. */
bool capture_decomposes(capture *c, const op *o);

/* -- decompose_write.c ------------------------------------------------------------------------- */

/* Note that o(args) made a tensor (of a list: `item`) that shows the memory of another. */
void capture_note_view(capture *c, rush_value made, const op *o, const rush_value *args,
                       uint32_t item, rush_value of);
/* Make the node of a view anew, since what it shows was written to. */
void capture_refresh(capture *c, capture_tensor *t);
/* Evaluate an operator that writes to its first argument by one that does not. */
void capture_write(capture *c, const op *o, const rush_value *args, rush_value *results);

/* -- capture_known.c --------------------------------------------------------------------------- */

/* Compute an operator that makes no node; returns false if it is to be recorded. */
bool capture_known(capture *c, const op *o, const rush_value *args, rush_value *results);
/* Compute results[n] of an operator by its kernel.  Sizes among the arguments are fixed. */
void capture_compute(capture *c, const op *o, const rush_value *args, uint32_t n_args,
                     rush_value *results, uint32_t n);

/* -- capture_higher.c -------------------------------------------------------------------------- */

/* Make a value like a tensor that only the graph of one function has, and its placeholder. */
rush_value capture_new_parameter(capture *c, rush_value like);
void capture_bind_parameter(capture *c, capture_branch *b, rush_value parameter, const char *name);
/* Make the placeholder of an int in a graph. */
void capture_bind_int(capture *c, capture_branch *b, symint e, const char *name);
/* Add torch.while_loop over n tensors and ints, of which a trip makes `next`; results[n] are
 * new. */
void capture_add_while(capture *c, capture_branch *test, capture_branch *body,
                       const rush_value *carried, const rush_value *next, uint32_t n,
                       rush_value *results);
/* Return a function with its arguments as a value, to be called later. */
rush_value capture_closure(capture *c, function *f, const rush_value *args, uint32_t n_args);
/* Evaluate a higher-order operator on closures, or one of their parameters (jit/torch_live.py). */
void capture_higher(capture *c, const ir_node *n, const rush_value *in, rush_value *out);

/* -- capture_constraint.c ---------------------------------------------------------------------- */

/* True for a size that a hint describes, Dim.AUTO(min=3): its range is compared with what was found
 * out of it at the end. */
bool capture_is_hint(const capture *c, const capture_dim *d);
/* Write the guards; leaves the session if a dimension that was to vary does not meet them. */
void capture_finish_guards(capture *c);

/* -- capture_region.c -------------------------------------------------------------------------- */

/* Mark a change of the gradient mode; the begin of a region of autocast (device, dtype, enabled,
 * cache) or, without arguments, its end. */
void capture_mark_grad(capture *c, bool enabled);
void capture_mark_autocast(capture *c, const fx_arg *args, uint32_t n);
/* Put what is between marks into graphs of their own. */
void capture_wrap_regions(capture *c);

/* -- capture_script.c -------------------------------------------------------------------------- */

/* Note where the guards were decided that are new. */
void capture_note_guards(capture *c);
/* Evaluate a call; borrowed from the capture. */
rush_value capture_call(capture *c, function *f, const rush_value *args, uint32_t n_args);
/* Evaluate a call of an operator. */
void capture_op(capture *c, const op *o, const rush_value *args, rush_value *results);
/* Return an attribute as the captured code sees it. */
rush_value capture_field(capture *c, const rush_object *o, uint32_t slot);

#endif
