/* ops/kernels/packed.h -- packed forms of weights, kept on the storages they were made from. */
#ifndef RUSH_OPS_PACKED_H
#define RUSH_OPS_PACKED_H

#include "ops/math/gemm.h"
#include "tensor/tensor.h"

/* Get the packed form of a weight, which is kept on its storage from the second use on; borrowed
 * from it. *out NULL if it is not packed (yet): few elements, memory that others may write, a
 * weight that changes. */
rush_status packed_weight(call_ctx *cx, const rush_tensor *weight, const gemm_packing *p,
                          const gemm_packed **out) RUSH_CHECKED;
/* True if whoever writes to the tensor's memory updates its storage's version: mapped files and
 * parameters of our own.  What is derived from it may be kept. */
bool packed_is_trusted(const rush_tensor *w);
/* Multiply with B from `weight`, whose packed form is kept on its storage from the second use
 * on. */
rush_status gemm_with_weight(call_ctx *cx, const gemm_args *g,
                             const rush_tensor *weight) RUSH_CHECKED;

#endif
