/* shape/equation.h -- the equation of einsum ("bij,bjk->bik"), as its shape rule and its kernel
 * read it.
 *
 * Every label (letter or ellipsis) has a place among the dimensions that all operands are permuted
 * to: those of the output first, then those that are summed.  Immutable once read. */
#ifndef RUSH_SHAPE_EQUATION_H
#define RUSH_SHAPE_EQUATION_H

#include "base/text.h"
#include "tensor/tensor.h"

enum { ELLIPSIS = 52, N_LABELS = 53, MAX_OPERANDS = 64, MAX_LABELS = 2 * TENSOR_MAX_DIMS };

typedef struct term { /* the subscripts of one operand */
  int n;
  bool ellipsis;
  uint8_t labels[MAX_LABELS];
} term;

typedef struct equation {
  int n_operands, n_out, n_dims; /* dimensions of the output; of every permuted operand */
  int ellipsis_dims;
  bool any_ellipsis;
  int place[N_LABELS]; /* dimension of the permuted operands, or -1 */
  int count[N_LABELS];
  term terms[MAX_OPERANDS];
  char why[200];       /* after a refusal: PyTorch's words */
} equation;

/* Read the equation of at most MAX_OPERANDS operands with these numbers of dimensions.  Returns
 * false if it is refused. */
bool equation_read(equation *e, str text, int n_operands, const int *n_dims);
static inline char equation_letter(int label)
{
  return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}
/* The number of dimensions that label k of operand i stands for, and the first of them. */
static inline int equation_width(const equation *e, int i, int k, int n_dims, int *at)
{
  const int label = e->terms[i].labels[k],
            width = label == ELLIPSIS ? n_dims - (e->terms[i].n - 1) : 1;
  *at = e->place[label] + (label == ELLIPSIS ? e->ellipsis_dims - width : 0);
  return width;
}

#endif
