/* ops/kernels/linalg/matmul.h -- products of tensors, shared by operator families. */
#ifndef RUSH_OPS_MATMUL_H
#define RUSH_OPS_MATMUL_H

#include "tensor/tensor.h"

/* Compute input weight' + bias, new; bias may be NULL. */
rush_status make_linear(call_ctx *cx, rush_tensor *input, const rush_tensor *weight,
                        const rush_tensor *bias, rush_tensor **out) RUSH_CHECKED;

#endif
