/* ir/graph.h -- PyTorch IR: graphs, blocks, nodes, values.
 *
 * A graph owns everything in one arena; all pointers are borrowed from it.  A block is a ring of
 * nodes closed by its return node (whose inputs are the block's outputs) and has a parameter node
 * (whose outputs are the block's inputs), which is never linked.  Nodes own nested blocks
 * (prim::If, prim::Loop, prim::With...).  A use is one input slot; values keep an intrusive list of
 * their uses.
 *
 * Invariants.  (1) n->next->prev == n.  (2) `order` grows strictly along the ring; the return
 * node's is UINT64_MAX.  (3) u is in v->uses iff u->value == v.  (4) An input is defined before its
 * user, in the same block or one around it.
 *
 * All editing functions take memory from a session: allocation never fails there. Threads: a graph
 * is edited by one thread at a time; a finished graph may be read by many. */
#ifndef RUSH_IR_GRAPH_H
#define RUSH_IR_GRAPH_H

#include "ops/call/call.h"
#include "base/session.h"

typedef struct ir_graph ir_graph;
typedef struct ir_block ir_block;
typedef struct ir_node ir_node;
typedef struct ir_value ir_value;
typedef struct ir_use ir_use;
typedef struct ir_attr ir_attr;
typedef struct ir_name ir_name;

/* The fixed kinds besides operators.  X(symbol, "name"). */
#define IR_KINDS(X)                                                                                \
  X(OP, "") /* an operator: node->op */                                                            \
  X(PARAM, "prim::Param")                                                                          \
  X(RETURN, "prim::Return")                                                                        \
  X(CONSTANT, "prim::Constant") /* attribute value: node->constant */                              \
  X(IF, "prim::If")                                                                                \
  X(LOOP,                                                                                          \
    "prim::Loop") /* (max trips, condition, carried...) blocks: (i, carried) -> (cond, carried) */ \
  X(WITH, "prim::With") /* only before lowering */                                                 \
  X(ENTER, "prim::Enter")                                                                          \
  X(EXIT, "prim::Exit")                                                                            \
  X(LIST_CONSTRUCT, "prim::ListConstruct")                                                         \
  X(LIST_UNPACK, "prim::ListUnpack")                                                               \
  X(TUPLE_CONSTRUCT, "prim::TupleConstruct")                                                       \
  X(TUPLE_UNPACK, "prim::TupleUnpack")                                                             \
  X(TUPLE_INDEX, "prim::TupleIndex")                                                               \
  X(TUPLE_SLICE, "prim::TupleSlice")                                                               \
  X(DICT_CONSTRUCT, "prim::DictConstruct")                                                         \
  X(CREATE_OBJECT, "prim::CreateObject")                                                           \
  X(GET_ATTR, "prim::GetAttr") /* attr "name" */                                                   \
  X(SET_ATTR, "prim::SetAttr")                                                                     \
  X(CALL_METHOD, "prim::CallMethod")     /* attr "name" */                                         \
  X(CALL_FUNCTION, "prim::CallFunction") /* node->function */                                      \
  X(INTERFACE_CALL, "prim::InterfaceCall")                                                         \
  X(MODULE_CONTAINER_INDEX, "prim::ModuleContainerIndex")                                          \
  X(RAISE, "prim::RaiseException")                                                                 \
  X(PRINT, "prim::Print")                                                                          \
  X(UNINITIALIZED, "prim::Uninitialized")                                                          \
  X(UNCHECKED_CAST, "prim::unchecked_cast")                                                        \
  X(ISINSTANCE, "prim::isinstance") /* attr "types" */                                             \
  X(FORK, "prim::fork")             /* one block, or a function */                                 \
  X(AWAITABLE, "prim::awaitable")                                                                  \
  X(CLOSURE, "prim::Closure")                                                                      \
  X(LOAD, "prim::Load") /* only before SSA */                                                      \
  X(STORE, "prim::Store")                                                                          \
  X(BREAK_STMT, "prim::BreakStmt") /* only before early-exit lowering */                           \
  X(CONTINUE_STMT, "prim::ContinueStmt")                                                           \
  X(RETURN_STMT, "prim::ReturnStmt")                                                               \
  X(PROFILE, "prim::profile")                                                                      \
  X(PROFILE_IVALUE, "prim::profile_ivalue")                                                        \
  X(GUARD, "prim::Guard") /* attr "profiled_type" */                                               \
  X(BAILOUT, "prim::BailOut")                                                                      \
  X(BAILOUT_TEMPLATE, "prim::BailoutTemplate")                                                     \
  X(TYPE_CHECK, "prim::TypeCheck") /* attr "types"; (tensors) -> (tensors, bool) */                \
  X(REQUIRES_GRAD_CHECK, "prim::RequiresGradCheck")                                                \
  X(DIFFERENTIABLE_GRAPH, "prim::DifferentiableGraph") /* a subgraph: ir_node_is_subgraph */       \
  X(FALLBACK_GRAPH, "prim::FallbackGraph")                                                         \
  X(GRAD_OF, "prim::GradOf") /* attr "name": (gradients), a block without inputs */                \
  X(GROUP, "prim::FusionGroup")                                                                    \
  X(HIGHER_ORDER, "higher_order") /* attr "name": cond, map, scan...; blocks */                    \
  X(UNKNOWN_OP, "")               /* an operator without a known schema: attr "_kind" */

typedef enum ir_kind {
#define IR_ENUM(symbol, name) IR_##symbol,
  IR_KINDS(IR_ENUM)
#undef IR_ENUM
      N_IR_KINDS
} ir_kind;
_Static_assert(N_IR_KINDS <= 64, "kinds_made has a bit for each");

struct ir_use { /* one input slot of `user`; never moves while linked */
  ir_value *value; /* NULL only while the slot is unset */
  ir_node *user;
  ir_use *prev, *next; /* NULL-ended list from value->uses; in no particular order */
};

struct ir_value {
  ir_node *node;   /* the node that defines it */
  uint32_t index;  /* index among the node's outputs */
  uint32_t id;     /* unique in the graph: printed as %id unless named */
  const type *type;
  const char *name; /* debug name, unique in the graph, or NULL */
  ir_use *uses;
  uint32_t scratch; /* for the current user of the graph */
};

typedef enum ir_attr_kind {
  ATTR_INT,
  ATTR_FLOAT,
  ATTR_STRING,
  ATTR_TYPE,
  ATTR_TYPES,
  ATTR_VALUE,
  ATTR_GRAPH,
  ATTR_GRAPHS,
  ATTR_INTS
} ir_attr_kind;
struct ir_attr {
  const char *name;
  ir_attr_kind kind;
  union {
    int64_t i;
    double d;
    const char *s;
    struct { const type *const *types; uint32_t n_types; } t; /* ATTR_TYPE: one */
    struct { const int64_t *v; uint32_t n; } ints;
    rush_value value; /* owned by the graph's constant pool */
    /* owned by the node's graph; ATTR_GRAPH: one */
    struct { ir_graph *const *v; uint32_t n; } graphs;
  } as;
  ir_attr *next;
};

/* A call that was replaced by the callee's body.  Chains of these end at the graph's own function;
 * nodes that came with one call share them.  In the graph's memory. */
typedef struct ir_inlined {
  struct function *function; /* the callee: the node, or the next call inwards, is in its body */
  source_range range;        /* of the call, which is in outer->function */
  uint32_t origin;           /* of the call */
  uint32_t depth;            /* calls in the chain, with this one */
  const struct ir_inlined *outer; /* the call that the caller came with; NULL: it was not inlined */
} ir_inlined;

struct ir_node {
  ir_kind kind : 8;
  /* its memory remains until the graph is freed, so that stale handles can be detected */
  bool destroyed : 1;
  uint32_t origin; /* id in its function's own graph, kept by all passes and by inlining */
  const op *op;    /* IR_OP */
  ir_block *block; /* NULL while unlinked */
  ir_node *prev, *next;
  uint64_t order;  /* position inside `block` */
  ir_use **inputs; /* n_inputs slots, each allocated once */
  ir_value **outputs;
  ir_block **blocks;
  uint32_t n_inputs, n_outputs, n_blocks, cap_inputs;
  uint32_t constant;  /* IR_CONSTANT: index into the graph's pool */
  uint32_t scratch;   /* for the current user of the graph */
  struct function *function; /* IR_CALL_FUNCTION, IR_FORK, IR_CLOSURE: ir/program.h */
  ir_attr *attrs;
  source_range range;
  const ir_inlined *inlined; /* the calls that it came with, innermost first; NULL: none */
  /* modules it was traced in, "__module.a/__module.a.b", in the graph's memory; NULL */
  const char *scope;
  ir_graph *graph;
};

struct ir_block {
  ir_graph *graph;
  ir_node *owner;  /* NULL: the graph's own block */
  ir_node *param;  /* outputs are the block's inputs */
  ir_node *ret;    /* closes the ring; inputs are the block's outputs */
};

struct ir_graph {
  context *ctx;
  arena mem;
  type_store *types; /* retained: the program's or the context's */
  ir_block *block;
  rush_value *constants; /* retained */
  uint32_t n_constants, cap_constants;
  uint32_t next_id, next_origin;
  uint64_t kinds_made; /* one bit for each kind that a node ever had: ir_graph_may_have */
  ir_node *insert_at; /* tools insert new nodes before this one; NULL: at the end */
  ir_name **names;   /* debug names: hash chains (ir/value_names.c) */
  uint32_t n_names, n_buckets;
  struct kept_types {
    type_store *types;
    struct kept_types *next;
  } * kept;            /* stores of other types that values have: retained */
  struct owned_graph {
    ir_graph *graph;
    struct owned_graph *next;
  } * owned;           /* graphs that are attributes of the nodes; released with this one */
  bool types_borrowed; /* `types` belongs to the graph's owner: retaining it would be a cycle */
  /* dead code that may fail is kept (passes/dce.c): the graph of a plan, which fails as the
   * function does */
  bool keeps_errors;
  bool has_points; /* passes/points.h put some */
  /* its operators may be recorded: what adds to a gradient stays one addend (passes/cse.c) */
  bool is_recorded;
  bool is_differentiated; /* the body of a node that is differentiated as one, or a copy of it */
};

/* -- Graphs ------------------------------------------------------------------------------------ */

ir_graph *ir_graph_new(session *s, type_store *ts); /* new; not registered with the session */
void ir_graph_free(ir_graph *g);
void ir_graph_free_deferred(void *g); /* for session_defer */
/* Stop retaining the type store, because its owner (a program) now owns the graph. */
void ir_graph_borrow_types(ir_graph *g);
/* Retain the store of a type of another program that the graph uses. */
void ir_graph_keep_types(session *s, ir_graph *g, type_store *ts);
/* Return a copy of the node's first block as a graph: new, with the types of the node's graph. */
ir_graph *ir_node_block_graph(session *s, const ir_node *n);
/* Keep all types of another graph, whose nodes come into this one. */
void ir_graph_keep_types_of(session *s, ir_graph *g, const ir_graph *from);
ir_graph *ir_graph_copy(session *s,
                        const ir_graph *g); /* new; origins kept, values renumbered */
/* new; numbers kept too: it prints the same text */
ir_graph *ir_graph_twin(session *s, const ir_graph *g);
static inline ir_node *ir_block_first(const ir_block *b)
{
  return b->ret->next;
} /* equals b->ret if the block is empty */
static inline ir_node *ir_block_last(const ir_block *b) { return b->ret->prev; }
static inline uint32_t ir_block_n_inputs(const ir_block *b) { return b->param->n_outputs; }
static inline uint32_t ir_block_n_outputs(const ir_block *b) { return b->ret->n_inputs; }
static inline ir_value *ir_block_input(const ir_block *b, uint32_t i)
{
  ASSERT(i < b->param->n_outputs, "no such input of the block");
  return b->param->outputs[i];
}
static inline ir_value *ir_block_output(const ir_block *b, uint32_t i)
{
  ASSERT(i < b->ret->n_inputs, "no such output of the block");
  return b->ret->inputs[i]->value;
}
ir_block *ir_block_new(session *s, ir_graph *g, ir_node *owner); /* for ir_node_add_block */
/* Copy a block's nodes before `before` (in any graph) with its inputs replaced, an unused one by
 * NULL; outputs[] receives the values of its outputs. */
void ir_block_inline(session *s, const ir_block *from, ir_node *before, ir_value *const *inputs,
                     ir_value **outputs);
/* Copy the body of `callee` before `call`, which calls it, as ir_block_inline does; the copies are
 * marked as inlined. */
void ir_call_inline(session *s, ir_node *call, const ir_block *body, struct function *callee,
                    ir_value **outputs);
/* Copy inputs, nodes and outputs of `from` into the empty block `to`. */
void ir_block_copy_into(session *s, ir_block *to, const ir_block *from);
ir_value *ir_block_add_input(session *s, ir_block *b, const type *t, const char *name);
void ir_block_add_output(session *s, ir_block *b, ir_value *v);
void ir_block_remove_input(ir_block *b, uint32_t i);   /* must have no uses */
void ir_block_remove_output(ir_block *b, uint32_t i);

/* True if the graph may have a node of the kind; if false, a pass need not search for one. */
static inline bool ir_graph_may_have(const ir_graph *g, ir_kind kind)
{
  return g->kinds_made >> kind & 1;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

/* Make an unlinked node with inputs; add outputs with ir_node_add_output. */
ir_node *ir_node_new(session *s, ir_graph *g, ir_kind kind, ir_value *const *inputs,
                     uint32_t n_inputs);
/* Make an operator node; outputs get the schema's types if these are concrete (otherwise set the
 * types). */
ir_node *ir_node_new_op(session *s, ir_graph *g, const op *o, ir_value *const *inputs,
                        uint32_t n_inputs);
ir_value *ir_node_add_output(session *s, ir_node *n, const type *t);
ir_value *ir_node_insert_output(session *s, ir_node *n, uint32_t at, const type *t);
void ir_node_add_input(session *s, ir_node *n, ir_value *v);
void ir_node_insert_input(session *s, ir_node *n, uint32_t at, ir_value *v);
void ir_node_remove_input(ir_node *n, uint32_t i);
void ir_node_remove_output(ir_node *n, uint32_t i); /* must have no uses */
ir_block *ir_node_add_block(session *s, ir_node *n);
void ir_node_set_input(ir_node *n, uint32_t i, ir_value *v); /* NULL: unset */
static inline ir_value *ir_node_input(const ir_node *n, uint32_t i)
{
  ASSERT(i < n->n_inputs, "no such input");
  return n->inputs[i]->value;
}
void ir_node_append(ir_node *n, ir_block *b); /* before the return node */
void ir_node_insert_before(ir_node *n, ir_node *pos);
void ir_node_insert_after(ir_node *n, ir_node *pos);
void ir_node_unlink(ir_node *n); /* inputs remain uses; may be linked again */
void ir_node_move_before(ir_node *n, ir_node *pos);
void ir_node_move_after(ir_node *n, ir_node *pos);
/* Unlink for good: unsets inputs and destroys nested blocks; outputs must have no uses. */
void ir_node_destroy(ir_node *n);
void ir_node_destroy_block(ir_node *n, uint32_t i);
/* True if a runs before b (same graph, any blocks; a block's owner runs before the nodes
 * inside). */
bool ir_node_is_before(const ir_node *a, const ir_node *b);
const char *ir_node_kind_name(const ir_node *n); /* "aten::add", "prim::If" */
/* True for calls of the host, whose kind name is "^f". */
bool ir_node_is_of_host(const ir_node *n);
/* Return the node's operator as a number OPN_... (any overload) or OPK_... (one overload) of
 * ops/table/op_keys.h; 0 if it has none. */
static inline uint32_t ir_node_name_key(const ir_node *n)
{
  return n->kind == IR_OP ? n->op->name_key : 0;
}
static inline uint32_t ir_node_op_key(const ir_node *n)
{
  return n->kind == IR_OP ? n->op->key : 0;
}
/* True if the node is the operator of that number, OPN_..., in any overload. */
static inline bool ir_node_is_op(const ir_node *n, uint32_t name_key)
{
  return n->kind == IR_OP && n->op->name_key == name_key;
}
/* Make a node by the name of its kind, as in graph text: a fixed kind, or an operator that
 * ir_node_resolve looks up. */
ir_node *ir_node_new_named(session *s, ir_graph *g, str name);
/* Choose the first overload that the inputs fit, in the order of registration; a present one that
 * fits is kept. If there is none, the node becomes IR_UNKNOWN_OP.  Other kinds are not changed. */
void ir_node_set_scope(session *s, ir_node *n, const char *scope, size_t len); /* copied */
void ir_node_resolve(session *s, ir_node *n);
void ir_graph_resolve(session *s, ir_graph *g); /* all nodes */
/* True if no output of the node, or of a node inside it, is used outside: it can be destroyed. */
bool ir_node_is_unused(const ir_node *n);
/* True if the block is inside the node (at any depth). */
bool ir_block_is_inside(const ir_block *b, const ir_node *n);
/* Return the next node of that kind's name behind `after` (NULL: from the start), in printing
 * order; NULL: none. */
ir_node *ir_block_find(const ir_block *b, const char *kind, bool nested, const ir_node *after);

void ir_value_replace_all_uses(ir_value *from, ir_value *to);
void ir_value_set_name(session *s, ir_value *v,
                       const char *name); /* made unique: x, x.1, x.2 ... */
void ir_value_set_own_name(session *s, ir_value *v,
                           str name); /* inside a group, which has names of its own */
/* Act as if a load of the variable had been made and named: an existing value of that name becomes
 * x.1, and the load's number is used up.  The names of such loads exist until all names are
 * forgotten. */
void ir_graph_load_name(session *s, ir_graph *g, const char *name);
void ir_graph_forget_loads(ir_graph *g);
void ir_value_forget_name(ir_value *v);                            /* others can use it then */
ir_value *ir_graph_named(const ir_graph *g, str name);             /* NULL: no value has the name */
static inline bool ir_value_has_uses(const ir_value *v) { return v->uses != NULL; }
/* True if v is defined before n, in n's block or in one around it: then n may use it.  O(depth). */
static inline bool ir_value_is_visible(const ir_value *v, const ir_node *n)
{
  const ir_block *scope = n->block;
  while (scope && scope != v->node->block)
    scope = scope->owner ? scope->owner->block : NULL;
  return scope && (v->node == scope->param || ir_node_is_before(v->node, n));
}

static inline void ir_block_set_output(ir_block *b, uint32_t i, ir_value *v)
{
  ir_node_set_input(b->ret, i, v);
}

/* -- Constants and attributes ------------------------------------------------------------------ */

/* Retain `v` in the pool; returns its index. */
uint32_t ir_graph_add_constant(session *s, ir_graph *g, rush_value v);
/* Retain `v` in the pool and make an unlinked prim::Constant of type t (NULL: the value's own). */
ir_node *ir_constant_new(session *s, ir_graph *g, rush_value v, const type *t);
static inline rush_value ir_constant_value(const ir_node *n)
{
  ASSERT(n->kind == IR_CONSTANT, "not a constant");
  ASSERT(n->constant < n->graph->n_constants, "a constant outside the pool");
  return n->graph->constants[n->constant];
}
/* Get the constant value of v, if its node is a prim::Constant. */
bool ir_value_as_constant(const ir_value *v, rush_value *out); /* borrowed */
ir_attr *ir_attr_find(const ir_node *n, const char *name); /* NULL: absent */
void ir_attr_set_string(session *s, ir_node *n, const char *name, const char *v);
void ir_attr_set_int(session *s, ir_node *n, const char *name, int64_t v);
void ir_attr_set_types(session *s, ir_node *n, const char *name, const type *const *types,
                       uint32_t k);
void ir_attr_set_float(session *s, ir_node *n, const char *name, double v);
void ir_attr_set_ints(session *s, ir_node *n, const char *name, const int64_t *v, uint32_t k);
void ir_attr_set_value(session *s, ir_node *n, const char *name, rush_value v);
void ir_attr_set_type(session *s, ir_node *n, const char *name, const type *t);
/* Make an empty graph that n's graph owns, with the same types: a value for ir_attr_set_graph. */
ir_graph *ir_attr_graph_new(session *s, ir_node *n);
/* Copy `from` into a graph that n's graph owns. */
ir_graph *ir_attr_graph_copy(session *s, ir_node *n, const ir_graph *from);
/* Set a graph that n's graph owns (from the two functions above). */
void ir_attr_set_graph(session *s, ir_node *n, const char *name, ir_graph *g);
void ir_attr_set_graphs(session *s, ir_node *n, const char *name, ir_graph *const *v, uint32_t k);
/* Return attribute `name` if it is one graph, else NULL. */
ir_graph *ir_attr_graph(const ir_node *n, const char *name);
/* True if the node's kind stores the attribute "Subgraph" as its block: groups,
 * prim::DifferentiableGraph, tasks.  Other kinds may have an ordinary attribute of that name. */
bool ir_node_has_subgraph_block(const ir_node *n);
/* Make the block of such a node, in place of the one that it may have, a copy of g. */
void ir_node_set_subgraph(session *s, ir_node *n, const ir_graph *g);
/* Return the block that is the node's subgraph, of either storage; NULL: it has none. */
const ir_block *ir_node_subgraph(const ir_node *n);
/* Copy all attributes, and a constant's value too. */
void ir_node_copy_attrs(session *s, ir_node *n, const ir_node *from);
static inline const char *ir_attr_string(const ir_node *n, const char *name)
{
  const ir_attr *a = ir_attr_find(n, name);
  return a ? a->as.s : NULL;
}

/* -- Text (ir/print.c, ir/parse.c), checking (ir/verify.c) ------------------------------------- */

void ir_print(text_buf *out, const ir_graph *g, bool with_ranges); /* as PyTorch prints */
void ir_print_node(text_buf *out, const ir_node *n);
/* Print a float constant as both texts do: 1., 0.10000000000000001. */
void ir_print_float(text_buf *out, double d);
void ir_print_node_with(text_buf *out, const ir_node *n, bool with_ranges);
/* True for a fork, a group (also of a registered operator), a differentiable graph or a fallback
 * whose block uses only its inputs: it is printed after the graph, `with prim::fork_0 =
 * graph(...)`. */
bool ir_node_is_subgraph(const ir_node *n);
/* True if the node is a prim::DifferentiableGraph with the derivative of its subgraph
 * (autodiff/pack.c). */
bool ir_node_is_packed(const ir_node *n);
/* Parse graph text.  Named types are looked up if `ts` is a program's.  Operators are found by name
 * and by the types of their inputs; a name that the table does not have becomes IR_UNKNOWN_OP. */
ir_graph *ir_parse(session *s, type_store *ts, const char *text);  /* new */
/* Treatment of <Tensor>: a constant becomes None (ir_parse) and attributes are refused; zeros of
 * the type before it; refused.  [<Tensors>] becomes an empty list with the zeros, and is refused
 * otherwise. */
typedef enum ir_tensors { IR_TENSORS_LEFT, IR_TENSORS_ZERO, IR_TENSORS_REFUSED } ir_tensors;
ir_graph *ir_parse_with(session *s, type_store *ts, const char *text, ir_tensors tensors);
const type *ir_parse_type(session *s, type_store *ts, const char *text);
/* True if the node's inputs can be the complete arguments of this schema.  Types are compared
 * without conversions. */
bool ir_node_fits_schema(const ir_node *n, const schema *sc);
/* True if `from` may be passed where a value of type `to` is required: less precise types from
 * passes and numbers of exported programs are accepted. */
bool ir_value_flows(const ir_value *from, const type *to);
/* Check all rules; leaves the session naming the first broken rule (and `pass`, if not NULL):
 * RUSH_EINTERNAL, because we made the graph. */
void ir_verify(session *s, const ir_graph *g, const char *pass);
/* Check the same rules for the result of an external pass on `before`, whose inputs and outputs it
 * must keep: RUSH_ERAISED. */
void ir_verify_pass(session *s, const ir_graph *g, const ir_graph *before, const char *pass);
/* Check the same rules for a graph that was parsed or that a caller edited: RUSH_EARGUMENT. */
void ir_check(session *s, const ir_graph *g, const char *what);

#endif
