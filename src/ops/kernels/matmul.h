/* ops/kernels/matmul.h -- products of tensors, shared by operator families. */
#ifndef RUSH_OPS_MATMUL_H
#define RUSH_OPS_MATMUL_H

#include "ops/math/gemm.h"
#include "tensor/tensor.h"

/* "float", "c10::Half": how some of PyTorch's messages name a dtype. */
const char *dtype_c_name(int dtype);
/* input weight' + bias, new; bias may be NULL. */
rush_status make_linear(call_ctx *cx, rush_tensor *input, const rush_tensor *weight, const rush_tensor *bias,
                        rush_tensor **out) RUSH_CHECKED;
/* The packed form of a weight, kept on its storage from the second use on; borrowed from it.  NULL when it is not
 * packed (yet): few elements, memory that others may write, a weight that changes. */
rush_status packed_weight(call_ctx *cx, const rush_tensor *weight, const gemm_packing *p,
                          const gemm_packed **out) RUSH_CHECKED;
/* gemm with B from `weight`, whose packed form is kept on its storage from the second use on. */
rush_status gemm_with_weight(call_ctx *cx, const gemm_args *g, const rush_tensor *weight) RUSH_CHECKED;

#endif
