/* autograd/record.h -- gradient records: what a call did, so that it can be differentiated.
 *
 * A call with a recorder (call_ctx.recorder, a call option) makes a record for each operator that
 * it calls on something that requires grad.  The record has the operator's formulas
 * (ops/call/gradient.h), the values they need, and an edge for each tensor argument: to the record
 * that made it, or to that of a leaf.  Formulas are programs over the same operators, so that
 * running them recorded makes records again: second derivatives need nothing more.
 *
 *   operator with formulas:      one record; its kernel runs with recording off
 *   without, but with a body:    the body runs, recorded
 *   a C kernel with neither:     runs recorded; a result that no record made cannot be
 *   differentiated
 *
 * A tensor points to its record through tensor_extra (grad_meta); records never point to tensors
 * that point to them: saved tensors are separate headers on the same storages, with the storages'
 * versions, and a leaf does not own its record.  So there are no cycles, and the last tensor of a
 * computation frees its records, without recursion.
 *
 * Views know their base (also while nothing requires grad: CALL_RECORDED).  A write to a view gives
 * the base a record that scatters the view's new gradient into the base's; other views of that base
 * see its generation change, and become views of the new base at their next use.
 *
 * Threads: counts are atomic, and records are immutable except for what a gradient run frees: one
 * run at a time over the same records.  Leaves (parameters) may be used by any number of calls at
 * once. */
#ifndef RUSH_AUTOGRAD_RECORD_H
#define RUSH_AUTOGRAD_RECORD_H

#include "ops/call/gradient.h"

typedef struct grad_record grad_record;
struct function; /* ir/program.h */

typedef struct grad_edge {
  grad_record *to;  /* owned, or NULL: no gradient is needed */
  uint32_t result;  /* index among its tensors, counting through lists */
} grad_edge;

typedef struct grad_shape { /* geometry of a tensor that no longer exists */
  int16_t dtype;
  uint16_t n_dims;
  int64_t few[TENSOR_INLINE_DIMS];
  int64_t *sizes; /* few, or a block */
} grad_shape;

struct grad_meta;
typedef struct grad_tensor { /* one tensor among a record's arguments or results */
  grad_edge edge;            /* an argument's */
  /* if a result keeps its gradient (retain_grad): borrowed; it clears this when it is freed; or
   * NULL */
  struct grad_meta *keeper;
  grad_shape shape;
  uint32_t version;          /* of the storage, when it was saved */
} grad_tensor;

typedef enum grad_kind { GRAD_OTHER, GRAD_TENSOR, GRAD_LIST } grad_kind;

typedef struct grad_slot { /* an argument or a result */
  rush_value saved;        /* the value that formulas need, owned: tensors without records */
  uint32_t first, n;       /* its tensors */
  uint8_t kind;            /* grad_kind */
} grad_slot;

/* A record of a graph instead of an operator (autodiff/node.h): its formula depends on which
 * results have gradients and which arguments need some. */
typedef struct grad_graph {
  uint32_t n_nodes; /* of the graph */
  const bool *saves; /* by node: its own record would save tensors */
  /* Get the formula that takes the gradients of the results with `defined` only, and computes those
   * of the arguments with `used`, and the nodes whose formulas it runs; both live as long as the
   * graph.  so_far: the formula adds to the gradients that these arguments have; NULL: it does not
   * add. */
  rush_status (*formula)(call_ctx *cx, struct grad_graph *g, const bool *defined, const bool *used,
                         const bool *so_far, const op_gradient **out, const bool **nodes);
  void (*release)(struct grad_graph *g);
} grad_graph;

struct grad_record {
  _Atomic uint32_t refs;
  uint32_t n_args, n_tensors;         /* of the base operator */
  uint32_t n_results, n_made;         /* the tensors of the results */
  /* grows with every record of the context: greater than those of the records it has edges to */
  uint64_t number;
  bool unchecked;                     /* only the geometry of the saved values matters */
  bool freed;                         /* saved tensors were freed */
  bool is_spent;                      /* of a graph: nothing saved is needed again */
  context *ctx;
  const op *o;                        /* the base operator; NULL: a leaf */
  const op_gradients *formulas;       /* NULL: there are none */
  bool *ran;         /* of a graph, by node: its values would have been freed */
  grad_graph *graph; /* owned, or NULL: `formulas` tell what is saved, `graph` what is run */
  rush_tensor *leaf; /* a leaf's tensor, owned: lives while its gradient may be requested */
  grad_slot *args, *results;
  grad_tensor *tensors, *made;
  grad_record *next_free;
};

typedef struct grad_meta { /* in a tensor's extra */
  context *ctx;
  grad_edge edge;          /* its record; valid while the tensor has TENSOR_HAS_GRAD_FN */
  /* its own as a leaf while it exists, or NULL; not owned; under the context's lock */
  grad_record *leaf;
  rush_tensor *base;       /* of a view, owned, or NULL */
  uint32_t generation;     /* of a base: increases with every recorded write to its memory */
  uint32_t seen;           /* of a view: the base's generation when the edge was made */
  rush_tensor *grad;       /* the accumulated gradient, or NULL */
  bool retains;            /* keeps its gradient although it is not a leaf */
} grad_meta;

/* The recorder for call_ctx.recorder. */
extern const call_recorder autograd_recorder;
/* Begin a call that records; *own is its recorder, host may be NULL.  any: it may use more than the
 * arguments (an object's tensors): something that requires grad may appear at any time.  If nothing
 * does, recording costs nothing.  Fails only in builds without gradients. */
rush_status autograd_begin(call_ctx *cx, call_recorder *own, const rush_gradient_host *host,
                           bool any, const rush_value *args, size_t n_args) RUSH_CHECKED;
/* True if the value is a tensor that requires grad, or may contain one. */
bool autograd_may_hold(rush_value v);
/* Fail in builds without gradients; `what` names the feature. */
rush_status autograd_need(call_ctx *cx, const char *what) RUSH_CHECKED;
/* gradient_ops.c: run torch.autograd.grad, backward(), .grad or retain_grad() inside a program. */
rush_status autograd_call_op(rush_call *c) RUSH_CHECKED;
/* gradient_use.c: true if the function, or one that it may call, uses gradients (grad, backward,
 * retain_grad): a call of it records even if the caller did not request it.  The first query
 * compiles the functions it calls. */
bool function_uses_gradients(call_ctx *cx, struct function *f);
/* Make the result of such a call, unless the caller requested recording, no longer require grad. */
void autograd_forget(rush_value v);

static inline grad_meta *grad_meta_find(const rush_tensor *t)
{
  const tensor_extra *x = t->extra;
  return x ? x->grad_record : NULL;
}
/* Get t's meta; made at first use. */
rush_status grad_meta_of(call_ctx *cx, rush_tensor *t, grad_meta **out) RUSH_CHECKED;
/* Get the edge for t's gradient, new; to NULL if t does not require grad.  A view of a base that
 * was written to is updated first. */
rush_status grad_edge_of(call_ctx *cx, rush_tensor *t, grad_edge *out) RUSH_CHECKED;
/* Return t's own record as a leaf, new; NULL: there is none. */
grad_record *grad_leaf_of(const rush_tensor *t);
/* Prepare a write to t: its record as a leaf gets a separate header, so that they do not hold each
 * other. */
rush_status grad_move_leaf(call_ctx *cx, rush_tensor *t) RUSH_CHECKED;
/* Keep a result's gradient from now on. */
void grad_retain(grad_meta *m);
/* True if t is the result of a recorded operator. */
bool grad_is_recorded(const rush_tensor *t);
/* Make t result `e` (stolen) of a record; its previous history is dropped. */
rush_status grad_attach_steal(call_ctx *cx, rush_tensor *t, grad_edge e) RUSH_CHECKED;

grad_record *grad_record_retain(grad_record *r);
void grad_record_release(grad_record *r);
/* Free the saved tensors, which are not needed again. */
void grad_record_free_saved(grad_record *r);

/* Make a record of the base operator o (not NULL) on complete arguments of the base, before the
 * call: edges of args' tensors and the values that the needed formulas use.  written: bit i:
 * argument i is about to be written to, so a copy is saved. */
rush_status grad_record_begin(call_ctx *cx, const op *o, const op_gradients *g,
                              const rush_value *args, uint64_t written,
                              grad_record **out) RUSH_CHECKED;
/* Complete it after the call: shapes of the results, and those that formulas use.  writes: the call
 * wrote to arguments. */
rush_status grad_record_end(call_ctx *cx, grad_record *r, const rush_value *results,
                            bool writes) RUSH_CHECKED;

/* write.c: record that t, an argument, was written to, and is now result e (stolen). */
rush_status grad_written_steal(call_ctx *cx, rush_tensor *t, grad_edge e) RUSH_CHECKED;
/* Update a view whose base was written to. */
rush_status grad_refresh(call_ctx *cx, rush_tensor *t) RUSH_CHECKED;
/* Record that t is a view that an operator made of `from`. */
rush_status grad_set_base(call_ctx *cx, rush_tensor *t, rush_tensor *from) RUSH_CHECKED;

#endif
