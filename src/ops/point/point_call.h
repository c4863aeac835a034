/* ops/point/point_call.h -- a call of a pointwise operator: what is decided before it runs, shared
 * by calls (pointwise.c) and instances (point_instance.c). */
#ifndef RUSH_OPS_POINT_CALL_H
#define RUSH_OPS_POINT_CALL_H

#include "ops/point/point_run.h"
#include "ops/point/pointwise.h"
#include "ops/table/table.h"

/* The state of one call, in the order in which it is computed. */
typedef struct point_call {
  rush_call *call;
  const struct point_row *row;
  const rush_value *in[POINT_MAX_INPUTS]; /* borrowed, by the row's inputs */
  int n_tensors;
  rush_tensor *tensors[POINT_MAX_INPUTS]; /* the tensor inputs */
  int common;                             /* dtype from promotion */
  const point_arm *arm;
  int n_dims;
  const int64_t *sizes, *strides; /* of results; strides NULL: row-major */
  bool flat;                      /* all tensor inputs have `sizes` and are row-major */
  int64_t dims[2 * TENSOR_MAX_DIMS]; /* where sizes and strides are, unless flat */
} point_call;

/* Decide everything about a call; results are made only where the variant writes to arguments. */
rush_status point_prepare(point_call *p, rush_call *call) RUSH_CHECKED;
/* Set everything of a run but the results' tensors. */
void point_fill_run(const point_call *p, point_run *r);
int point_out_dtype(const point_call *p, int i);
/* Read the number that takes an input's place, as the operator computes with it in `dtype`. */
void point_read_input(const point_input *in, rush_value v, int dtype, point_number *out);

#endif
