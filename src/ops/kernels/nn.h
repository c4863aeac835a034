/* ops/kernels/nn.h -- shared by kernels of layers: inputs as plain rows of numbers, results in
 * PyTorch's form.
 *
 * Most of these kernels are written for float32 and float64 (and integers where PyTorch supports
 * them) over contiguous memory.  float16 and bfloat16 go through float32 and are rounded once, at
 * the end; a channels last input is copied, and its result converted to that format again. */
#ifndef RUSH_OPS_NN_H
#define RUSH_OPS_NN_H

#include "ops/call/call.h"

static inline bool nn_is_half(int dtype) { return dtype == RUSH_FLOAT16 || dtype == RUSH_BFLOAT16; }
/* Return the dtype to compute in. */
static inline int nn_dtype(int dtype) { return nn_is_half(dtype) ? RUSH_FLOAT32 : dtype; }
/* Refuse dtypes other than float32, float64, and those converted to them. */
rush_status nn_check_float(call_ctx *cx, const char *kernel, int dtype) RUSH_CHECKED;
/* Return element i of a contiguous tensor of float32 or float64. */
static inline double nn_number_at(const rush_tensor *t, int64_t i)
{
  return t->dtype == RUSH_FLOAT64 ? ((const double *)t->data)[i]
                                  : (double)((const float *)t->data)[i];
}
static inline void nn_set_number(rush_tensor *t, int64_t i, double x)
{
  if (t->dtype == RUSH_FLOAT64)
    ((double *)t->data)[i] = x;
  else
    ((float *)t->data)[i] = (float)x;
}
/* Call another operator with one tensor result, which the caller releases. */
rush_status nn_invoke(call_ctx *cx, const char *name, const char *overload, const rush_value *args,
                      uint32_t n_args, rush_tensor **out) RUSH_CHECKED;
/* Make an argument of a borrowed tensor; NULL is None. */
static inline rush_value nn_arg(rush_tensor *t) { return t ? value_tensor_steal(t) : value_none(); }

#endif
