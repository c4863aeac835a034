/* autodiff/autodiff_int.h -- shared by the files that differentiate a graph.
 *
 * Work is done on two equal copies of the graph: `w` gets the reverse part behind its nodes, `f`
 * stays as it is.  Values of the forward part have the same numbers in both (ir_value->scratch,
 * from 1 on; 0: of the reverse part). At the end w loses its forward part and becomes df. */
#ifndef RUSH_AUTODIFF_INT_H
#define RUSH_AUTODIFF_INT_H

#include "autodiff/differentiate.h"
#include "ops/call/gradient.h"

typedef struct diff_value { /* of the forward part */
  ir_value *v, *in_f;
  bool requires;   /* a needed input's gradient depends on that of this value */
  bool is_read;    /* the reverse part reads more of it than its sizes */
  bool wants_sizes; /* the reverse part reads its sizes */
  bool is_unsure;  /* `grad` may be undefined when df runs */
  ir_value *grad;  /* so far, in w; NULL: undefined */
  ir_value **parts; /* of an input, in order, if contributions are not added */
  uint32_t n_parts, cap_parts;
  ir_value *captured, *sizes; /* inputs of df, or NULL */
} diff_value;

enum { CAPTURE_VALUE = 1, CAPTURE_SIZES = 2 };

typedef struct diff {
  session *s;
  ir_graph *w, *f;
  diff_options o;
  diff_value *values; /* by number */
  uint32_t n_values;
  uint32_t n_inputs; /* of g */
  ir_node *last;     /* the last node of w's forward part, or its return node: there is none */
  graph_gradient *out;
  bool *saves, *ran; /* by node of g: its formulas take tensors, are run; or NULL */
  bool may_be_complex; /* some value of g may be of complex numbers */
  uint32_t cap_vjps;
  const bool *vjps; /* by number: captured values whose gradients df takes */
  /* by number: what may be captured, CAPTURE_*; NULL: anything */
  const uint8_t *available;
} diff;

static inline diff_value *diff_of(const diff *d, const ir_value *v)
{
  return &d->values[v->scratch];
}
static inline bool diff_is_forward(const ir_value *v) { return v->scratch != 0; }

/* -- differentiate.c --------------------------------------------------------------------------- */

/* Return the number of values of g, + 1. */
uint32_t diff_n_values(const ir_graph *g);
/* One round over g, which was checked, with d's s, o, out, vjps and available. */
void diff_round(diff *d, const ir_graph *g);
/* Work in rounds until a round captures nothing new; *vjps, by number, is set. */
void diff_rounds(diff *d, const ir_graph *g, bool **vjps);
/* Leave the session if g must not be differentiated. */
void diff_check(session *s, const ir_graph *g);

/* -- formula.c --------------------------------------------------------------------------------- */

/* Return a copy of the formula's graph for the node: `types` are those of the values that it takes,
 * its constants and `needs` (by input of the formula) are folded. The session's. */
ir_graph *formula_graph(const diff *d, const ir_node *n, const op_gradient *g, const bool *needs,
                        const type *const *types);

/* -- reverse.c --------------------------------------------------------------------------------- */

/* Find out what requires gradients. */
void reverse_requires(diff *d);
/* Append the reverse part to w. */
void reverse_build(diff *d);
/* Make an operator before `pos`. */
ir_value *diff_op(session *s, ir_node *pos, const char *name, const char *overload,
                  ir_value *const *in, uint32_t n);
/* Make a constant before `pos`; `t` NULL: of its own type. */
ir_value *diff_constant(session *s, ir_node *pos, rush_value v, const type *t);

/* -- capture.c --------------------------------------------------------------------------------- */

/* Cut w into f and df; fills *d->out. */
void capture_split(diff *d);

#endif
