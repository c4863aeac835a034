/* autograd/record.h -- gradient records: what a call did, so that it can be differentiated.
 *
 * A call whose context has the recorder (call_ctx.recorder, a call option) leaves a record behind
 * each operator that it calls on what requires grad.  The record has the operator's formulas
 * (ops/call/gradient.h), what they take, and an edge for each tensor argument: to the record that
 * made it, or to that of a leaf.  Formulas are programs over the same operators, so that running
 * them recorded gives records again: second derivatives need nothing more.
 *
 *   operator with formulas:      one record; its kernel runs with recording off
 *   without, but with a body:    the body runs, recorded
 *   a kernel in C of neither:    runs recorded; a result that nothing was recorded of cannot be
 *   differentiated
 *
 * A tensor points to its record through what tensor_extra keeps (grad_meta); records never point to
 * tensors that point to them: what is saved are headers of their own on the same storages, with the
 * storages' versions, and a leaf does not own its record.  So there are no cycles, and the last
 * tensor of a computation frees its records, without recursion.
 *
 * Views know their base (also where nothing requires grad yet: CALL_RECORDED).  A write to a view
 * gives the base a record that scatters the view's new gradient into the base's; other views of
 * that base see its generation move, and are views of the new base when they are used next.
 *
 * Threads: counts are atomic, and records are immutable but for what a gradient run frees: one run
 * at a time over the same records.  Leaves (parameters) may be used by any number of calls at once.
 * */
#ifndef RUSH_AUTOGRAD_RECORD_H
#define RUSH_AUTOGRAD_RECORD_H

#include "ops/call/gradient.h"

typedef struct grad_record grad_record;
struct function; /* ir/program.h */

typedef struct grad_edge {
  grad_record *to;  /* owned, or NULL: no gradient is wanted */
  uint32_t result;  /* which of its tensors, lists counted through */
} grad_edge;

typedef struct grad_shape { /* of a tensor that is gone */
  int16_t dtype;
  uint16_t n_dims;
  int64_t few[TENSOR_INLINE_DIMS];
  int64_t *sizes; /* few, or a block */
} grad_shape;

struct grad_meta;
typedef struct grad_tensor { /* one tensor among a record's arguments or results */
  grad_edge edge;            /* an argument's */
  /* of a result that keeps its gradient (retain_grad), borrowed: it clears this when it goes; or
   * NULL */
  struct grad_meta *keeper;
  grad_shape shape;
  uint32_t version;          /* of the storage, when it was saved */
} grad_tensor;

typedef enum grad_kind { GRAD_OTHER, GRAD_TENSOR, GRAD_LIST } grad_kind;

typedef struct grad_slot { /* an argument or a result */
  rush_value saved;        /* what formulas take of it, owned: tensors without records */
  uint32_t first, n;       /* its tensors */
  uint8_t kind;            /* grad_kind */
} grad_slot;

struct grad_record {
  _Atomic uint32_t refs;
  uint32_t n_args, n_tensors;         /* of the base operator */
  uint32_t n_results, n_made;         /* the tensors of the results */
  bool unchecked;                     /* what is saved counts for its geometry only */
  bool freed;                         /* saved tensors are gone */
  context *ctx;
  const op *o;                        /* the base operator; NULL: a leaf */
  const op_gradients *formulas;       /* NULL: nobody wrote any */
  rush_tensor *leaf; /* a leaf's tensor, owned: it lives as long as its gradient may be asked for */
  grad_slot *args, *results;
  grad_tensor *tensors, *made;
  grad_record *next_free;
};

typedef struct grad_meta { /* of a tensor, in its extra */
  context *ctx;
  grad_edge edge;          /* its record; counts while the tensor has TENSOR_HAS_GRAD_FN */
  /* its own as a leaf while there is one, or NULL; not owned; under the context's lock */
  grad_record *leaf;
  rush_tensor *base;       /* of a view, owned, or NULL */
  uint32_t generation;     /* of a base: moves with every recorded write to its memory */
  uint32_t seen;           /* of a view: the base's when the edge was made */
  rush_tensor *grad;       /* what accumulated, or NULL */
  bool retains;            /* although it is no leaf */
} grad_meta;

/* The recorder: for call_ctx.recorder. */
extern const call_recorder autograd_recorder;
/* A call that records begins; *own is its recorder, host may be NULL.  any: it may see more than
 * the arguments (an object's tensors): what requires grad may come at any time.  Where nothing
 * does, recording costs nothing.  Fails in builds without gradients only. */
rush_status autograd_begin(call_ctx *cx, call_recorder *own, const rush_gradient_host *host,
                           bool any, const rush_value *args, size_t n_args) RUSH_CHECKED;
/* Fails in builds without gradients, which `what` is about. */
rush_status autograd_need(call_ctx *cx, const char *what) RUSH_CHECKED;
/* ask.c: torch.autograd.grad, backward(), .grad, retain_grad() inside of a program. */
rush_status autograd_ask(rush_call *c) RUSH_CHECKED;
/* asking.c: true if the function, or one that it may call, asks for gradients (grad, backward,
 * retain_grad): a call of it records, also where the caller did not ask to.  Compiles what it
 * calls, at the first question. */
bool function_asks_gradients(call_ctx *cx, struct function *f);
/* The result of such a call, where the caller did not ask to record: what was recorded does not
 * require grad any more. */
void autograd_forget(rush_value v);

static inline grad_meta *grad_meta_find(const rush_tensor *t)
{
  const tensor_extra *x = __atomic_load_n(&t->extra, __ATOMIC_ACQUIRE);
  return x ? x->grad_record : NULL;
}
/* Made at first use. */
rush_status grad_meta_of(call_ctx *cx, rush_tensor *t, grad_meta **out) RUSH_CHECKED;
/* Where t's gradient goes, new; to NULL where t does not require grad.  A view of a base that was
 * written to follows it. */
rush_status grad_edge_of(call_ctx *cx, rush_tensor *t, grad_edge *out) RUSH_CHECKED;
/* Its own as a leaf, new; NULL: there is none. */
grad_record *grad_leaf_of(const rush_tensor *t);
/* t is about to be written to: its record as a leaf gets a header of its own, so that they do not
 * hold each other. */
rush_status grad_move_leaf(call_ctx *cx, rush_tensor *t) RUSH_CHECKED;
/* A result's gradient is kept from now on. */
void grad_retain(grad_meta *m);
/* Is it the result of a recorded operator? */
bool grad_is_recorded(const rush_tensor *t);
/* t becomes result `e` (stolen) of a record; no history stays. */
rush_status grad_attach_steal(call_ctx *cx, rush_tensor *t, grad_edge e) RUSH_CHECKED;

grad_record *grad_record_retain(grad_record *r);
void grad_record_release(grad_record *r);
/* The tensors that were saved are not needed again. */
void grad_record_free_saved(grad_record *r);

/* A record of the base operator o (not NULL) on complete arguments of the base, before the call:
 * edges of args' tensors and what formulas that are wanted take.  written: bit i: argument i is
 * about to be written to, a copy is kept. */
rush_status grad_record_begin(call_ctx *cx, const op *o, const op_gradients *g,
                              const rush_value *args, uint64_t written,
                              grad_record **out) RUSH_CHECKED;
/* After it: shapes of the results, and those that formulas take.  writes: the call was to write to
 * arguments. */
rush_status grad_record_end(call_ctx *cx, grad_record *r, const rush_value *results,
                            bool writes) RUSH_CHECKED;

/* write.c: t, an argument, was written to, and is now result e (stolen). */
rush_status grad_written_steal(call_ctx *cx, rush_tensor *t, grad_edge e) RUSH_CHECKED;
/* A view whose base was written to since follows it. */
rush_status grad_refresh(call_ctx *cx, rush_tensor *t) RUSH_CHECKED;
/* t is a view that an operator made of `from`. */
rush_status grad_set_base(call_ctx *cx, rush_tensor *t, rush_tensor *from) RUSH_CHECKED;

#endif
